#include "apply_ext/catalog/history.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "executor/spi.h"
}

namespace schemasync::catalog {

std::int64_t
add_history(std::int64_t subid, const char *subscription, const HistoryRow *row)
{
	Internal internal = begin_internal();

	run("INSERT INTO schemasync.ddl_history (subid, subscription, publisher_lsn, commit_time, ordinal, "
	    "operation,"
	    " object_type, object_identity, verdict, reason, applied_sql, statement, publisher_user, detail, "
	    "duration)"
	    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
	    " pg_catalog.make_interval(secs => $15::pg_catalog.int8 / 1000000.0)) RETURNING history_id",
	    {as_int8(subid), as_text(subscription), as_lsn(row->publisher_lsn), as_time(row->commit_time),
	     as_int4(row->ordinal), as_text(row->operation), as_text(row->object_type),
	     as_text(row->object_identity), as_text(row->verdict), as_text(row->reason),
	     as_text(row->applied_sql), as_text(row->statement), as_text(row->publisher_user),
	     as_text(row->detail), as_int8(row->duration)});
	std::int64_t history_id = result_int8(0, 1);
	end_internal(internal);
	pg::at_point("history_written");
	return history_id;
}

} // namespace schemasync::catalog
