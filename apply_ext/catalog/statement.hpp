/*
 * Parameters and results of the fixed statements on the extension's tables, as plain data.
 *
 * A statement runs between begin_internal() and end_internal() (catalog/internal.hpp). What is read is copied into the
 * memory context that the caller names, since SPI's own goes away with end_internal().
 *
 * Zone: server code (leaves: may ereport).
 */
#pragma once

#include <cstddef>
#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
#include "catalog/pg_type_d.h"
#include "datatype/timestamp.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
}

namespace schemasync::catalog {

struct Parameter {
	Oid type;
	Datum value;
	bool is_null;
};

inline Parameter
bigint_parameter(std::int64_t value)
{
	return {INT8OID, Int64GetDatum(value), false};
}

inline Parameter
integer_parameter(int value)
{
	return {INT4OID, Int32GetDatum(value), false};
}

inline Parameter
oid_parameter(Oid value)
{
	return {OIDOID, ObjectIdGetDatum(value), false};
}

/* nullptr is NULL. */
inline Parameter
text_parameter(const char *value)
{
	return {TEXTOID, value == nullptr ? Datum{0} : CStringGetTextDatum(value), value == nullptr};
}

/* InvalidXLogRecPtr is NULL. */
inline Parameter
lsn_parameter(XLogRecPtr value)
{
	return {PG_LSNOID, Int64GetDatum(static_cast<std::int64_t>(value)), value == InvalidXLogRecPtr};
}

/* 0 is NULL: no publisher commits at the epoch. */
inline Parameter
time_parameter(TimestampTz value)
{
	return {TIMESTAMPTZOID, TimestampTzGetDatum(value), value == 0};
}

inline constexpr int max_parameters = 24;

/* Runs one statement; a code of SPI other than `expected` is an ERROR. Returns the number of rows. */
std::uint64_t run_statement(const char *sql, int expected, const Parameter *parameters, int count);

template <std::size_t N>
std::uint64_t
run_statement(const char *sql, int expected, const Parameter (&parameters)[N])
{
	static_assert(N <= max_parameters);
	return run_statement(sql, expected, parameters, static_cast<int>(N));
}

/* One value of the last statement's result (row from 0, column from 1). */
Datum result_value(std::uint64_t row, int column, bool *is_null);
/* As text, palloc'd in `context`; nullptr for NULL. */
const char *result_text(std::uint64_t row, int column, MemoryContext context);
Oid result_oid(std::uint64_t row, int column);                 /* NULL: InvalidOid */
std::int64_t result_bigint(std::uint64_t row, int column);     /* NULL: 0 */
XLogRecPtr result_lsn(std::uint64_t row, int column);          /* NULL: InvalidXLogRecPtr */
bool result_bool(std::uint64_t row, int column);               /* NULL: false */

} // namespace schemasync::catalog
