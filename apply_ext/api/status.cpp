/*
 * schemasync.worker_status(): what shared memory knows of this database's subscriptions, for the views.
 */
#include "apply_ext/worker/control.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(schemasync_worker_status);
}

SCHEMASYNC_EXPORT Datum schemasync_worker_status(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

constexpr int status_columns = 20;

struct Row {
	Datum values[status_columns];
	bool nulls[status_columns];
	int count;
};

// ---- leaves: may ereport; plain data only ----

void
add(Row *row, Datum value, bool isnull)
{
	row->values[row->count] = value;
	row->nulls[row->count++] = isnull;
}

void
add_lsn(Row *row, XLogRecPtr lsn)
{
	add(row, LSNGetDatum(lsn), XLogRecPtrIsInvalid(lsn));
}

void
add_time(Row *row, TimestampTz time)
{
	add(row, TimestampTzGetDatum(time), time == 0);
}

void
put_status(ReturnSetInfo *set, const worker::Status &status)
{
	Row row = {};

	add(&row, Int64GetDatum(status.subid), false);
	add(&row, Int32GetDatum(status.pid), status.pid == 0);
	add(&row, CStringGetTextDatum(worker::name(status.state)), !status.reported);
	add_time(&row, status.reported ? status.state_since : 0);
	add_lsn(&row, status.received);
	add_lsn(&row, status.applied);
	add_lsn(&row, status.confirmed);
	add_time(&row, status.sent_at);
	add_time(&row, status.received_at);
	add_time(&row, status.committed_at);
	add(&row, Int64GetDatum(status.rows), false);
	add(&row, Int64GetDatum(status.transactions), false);
	add(&row, Int32GetDatum(status.failures), false);
	add_time(&row, status.next_start);
	add(&row, BoolGetDatum(status.draining), false);
	add(&row, Int32GetDatum(status.verifier), status.verifier == 0);
	add(&row, ObjectIdGetDatum(status.verify_relation), false);
	add(&row, Int64GetDatum(status.verify_done), false);
	add(&row, Int64GetDatum(status.verify_total), false);
	add(&row, Int32GetDatum(status.indexer), status.indexer == 0);
	Assert(row.count == status_columns);
	tuplestore_putvalues(set->setResult, set->setDesc, row.values, row.nulls);
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_worker_status(PG_FUNCTION_ARGS)
{
	int count = 0;

	InitMaterializedSRF(fcinfo, 0);
	ReturnSetInfo *set = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	schemasync::worker::Status *all = schemasync::worker::all_status(&count);
	for (int i = 0; i < count; i++)
		schemasync::api::put_status(set, all[i]);
	return Datum{0};
}
