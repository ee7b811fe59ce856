/*
 * Fixed statements on the extension's own tables, run with SPI as the extension's owner with an empty search path.
 *
 * Zone: server code (leaves: may ereport).
 */
#pragma once

#include <cstdint>
#include <initializer_list>

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
}

namespace schemasync::catalog {

/* While it lives on the C stack between begin_internal and end_internal the current user is the extension's owner in a
 * security-restricted context. Plain data: an ERROR restores the user through the transaction's abort. */
struct Internal {
	Oid saved_user;
	int saved_sec_context;
	int guc_level;
};
Internal begin_internal(); /* connects SPI too */
void end_internal(const Internal &internal);

/* The extension's schema (of its functions and views). */
Oid extension_schema();

/* A parameter of a statement. Made with the functions below in the current memory context. */
struct Argument {
	Oid type;
	Datum value;
	bool null;
};
Argument as_text(const char *value); /* nullptr: NULL */
Argument as_text_array(const char *const *values); /* null-terminated */
Argument as_json(const char *value); /* jsonb; nullptr: NULL */
Argument as_int8(std::int64_t value);
Argument as_int4(std::int32_t value);
Argument as_oid(Oid value);
Argument as_boolean(bool value);
Argument as_lsn(XLogRecPtr value); /* 0: NULL */
Argument as_time(TimestampTz value); /* 0: NULL */

/*
 * Runs one statement between begin_internal and end_internal.
 *
 * returns: the number of rows (SPI_processed); the rows are in SPI_tuptable
 */
std::uint64_t run(const char *sql, std::initializer_list<Argument> arguments = {});

/* The same for a read that must see what others have committed meanwhile, whatever the isolation level. */
std::uint64_t run_latest(const char *sql, std::initializer_list<Argument> arguments = {});

/* A value of the result of run(), as text in the given context; nullptr for NULL. column from 1. */
char *result_text(std::uint64_t row, int column, MemoryContext context);
Datum result(std::uint64_t row, int column, bool *isnull);

} // namespace schemasync::catalog
