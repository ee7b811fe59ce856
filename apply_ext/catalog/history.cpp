#include "apply_ext/catalog/history.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/statement.hpp"

extern "C" {
#include "executor/spi.h"
}

namespace schemasync::catalog {

void
add_history(std::int64_t subid, const char *subscription, const HistoryRow *row)
{
	Internal internal = begin_internal();

	run_statement("INSERT INTO schemasync.ddl_history (subid, subscription, publisher_lsn, commit_time, ordinal, operation,"
	              " object_type, object_identity, verdict, reason, applied_sql, statement, publisher_user, detail, duration)"
	              " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
	              " pg_catalog.make_interval(secs => $15::pg_catalog.int8 / 1000000.0))",
	              SPI_OK_INSERT,
	              {bigint_parameter(subid), text_parameter(subscription), lsn_parameter(row->publisher_lsn),
	               time_parameter(row->commit_time), integer_parameter(row->ordinal), text_parameter(row->operation),
	               text_parameter(row->object_type), text_parameter(row->object_identity), text_parameter(row->verdict),
	               text_parameter(row->reason), text_parameter(row->applied_sql), text_parameter(row->statement),
	               text_parameter(row->publisher_user), text_parameter(row->detail), bigint_parameter(row->duration)});
	end_internal(internal);
}

} // namespace schemasync::catalog
