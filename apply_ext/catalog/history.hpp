/*
 * schemasync.ddl_history: one row for each schema change that came, whatever was done about it.
 *
 * Zone: server code (leaf: may ereport; needs a transaction).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
}

namespace schemasync::catalog {

struct HistoryRow {
	XLogRecPtr publisher_lsn;
	TimestampTz commit_time;
	int ordinal;
	const char *operation, *object_type, *object_identity, *verdict, *reason, *applied_sql, *statement,
	    *publisher_user, *detail;
	std::int64_t duration; /* microseconds that the change took here */
};

/* returns: the row's history_id */
std::int64_t add_history(std::int64_t subid, const char *subscription, const HistoryRow *row);

} // namespace schemasync::catalog
