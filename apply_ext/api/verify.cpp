/*
 * schemasync_verify: the rows of both sides, compared as of one position.
 *
 * The tables are taken in batches. For each the publisher's tables are locked against ALTER TABLE, so that no change of their schema is
 * under way; a snapshot is taken there, and one here where the worker has applied exactly what that one sees (worker/meeting.hpp). The
 * stream goes on while the rows are read.
 */
#include <initializer_list>

#include "apply_ext/api/target.hpp"
#include "apply_ext/api/verify_rows.hpp"
#include "apply_ext/worker/control.hpp"
#include "apply_ext/worker/meeting.hpp"

#include "pg/catalog/catalog.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "access/xact.h"
#include "catalog/partition.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(schemasync_verify);
}

SCHEMASYNC_EXPORT Datum schemasync_verify(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

using worker::Meeting;
using worker::Phase;

constexpr int most_attempts = 100;
/* A batch ends at so many tables or bytes (here): a small one costs less than the agreement on a position. */
constexpr int batch_tables = 200;
constexpr std::int64_t batch_bytes = 64 * 1024 * 1024;
constexpr int column_count = 10;

struct Table {
	worker::SourceTable source;
	Oid relid;
	std::int64_t bytes;
	const char *unfit; /* why it is not compared */
	bool was_ready;    /* before the position was looked for */
	XLogRecPtr was_synced;
};

struct Verify {
	catalog::Subscription *subscription;
	worker::Publisher *publisher;
	Meeting *meeting;
	worker::RemoteSnapshot *snapshot;
	Hashing hashing;
	Table *tables;
	int count;
	std::int64_t done, total; /* bytes */
	TimestampTz batch_begun;
};

// ---- leaves: may ereport; plain data only ----

/* Of a partition, the caller may name a table above it. */
bool
is_asked_for(Oid relid, Oid asked)
{
	if (!OidIsValid(asked) || relid == asked)
		return true;
	return get_rel_relispartition(relid) && list_member_oid(get_partition_ancestors(relid), asked);
}

std::int64_t
size_of(Oid relid)
{
	if (!OidIsValid(relid) || get_rel_relkind(relid) == '\0')
		return 0;
	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		return batch_bytes;
	return DatumGetInt64(DirectFunctionCall2(pg_relation_size, ObjectIdGetDatum(relid), CStringGetTextDatum("main")));
}

/* The published tables that have rows of their own, and where they go. */
void
list_tables(Verify *verify, Oid asked)
{
	worker::Source *listing = worker::open_listing(*verify->subscription);
	int known = 0;
	catalog::RelationRow *rows = catalog::load_relations(verify->subscription->subid, &known);

	verify->publisher = listing->sql;
	verify->tables = static_cast<Table *>(palloc0(sizeof(Table) * static_cast<Size>(listing->count + 1)));
	for (int i = 0; i < listing->count; i++) {
		const worker::SourceTable &table = listing->tables[i];
		if (!table.published || (table.relkind == 'p' && !table.via_root))
			continue;
		for (int j = 0; j < known; j++) {
			if (rows[j].publisher_oid != table.oid || !is_asked_for(rows[j].relid, asked))
				continue;
			std::int64_t bytes = size_of(rows[j].relid);
			verify->tables[verify->count++] = {table, rows[j].relid, bytes, nullptr, false, InvalidXLogRecPtr};
			verify->total += bytes;
		}
	}
	if (verify->count == 0 && OidIsValid(asked))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
		                errmsg("table \"%s\" is not one of subscription \"%s\"", get_rel_name(asked), verify->subscription->name)));
}

/* The stream has to run: without it the subscriber stays behind any snapshot. returns: the worker's process */
int
need_worker(const catalog::Subscription &subscription)
{
	worker::Status status = {};
	bool known = worker::get_status(subscription.subid, &status);

	if (known && status.pid != 0)
		return status.pid;
	catalog::Subscription *now = any_target(subscription.name);
	if (!now->enabled)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("subscription \"%s\" is disabled", subscription.name),
		                errhint("To start it: SELECT schemasync_start(%s);", quote_literal_cstr(subscription.name))));
	if (strcmp(now->state, "refused") == 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("subscription \"%s\" is halted by a refusal", subscription.name), errhint("See schemasync_refusals.")));
	return 0;
}

void
pause(long milliseconds)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds, pg::compat::wait_event("SchemasyncVerify"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* --- one position ------------------------------------------------------------------------------------------------- */

/* The names that the tables of a batch have now. Those that are gone are not compared. */
void
refresh_names(Verify *verify, int first, int last)
{
	StringInfoData oids;

	initStringInfo(&oids);
	for (int i = first; i < last; i++)
		appendStringInfo(&oids, "%s%u", i == first ? "{" : ",", verify->tables[i].source.oid);
	appendStringInfoChar(&oids, '}');
	const char *parameters[] = {oids.data};
	worker::Rows rows = worker::query(verify->publisher,
	                                  "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c"
	                                  " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY ($1::pg_catalog.oid[])",
	                                  1, parameters);
	worker::expect(rows, "vvv");
	for (int i = first; i < last; i++) {
		Table *table = &verify->tables[i];
		bool there = false;
		for (int j = 0; j < rows.count; j++) {
			if (static_cast<Oid>(strtoul(rows.values[j][0], nullptr, 10)) != table->source.oid)
				continue;
			there = true;
			table->source.schema = rows.values[j][1];
			table->source.name = rows.values[j][2];
		}
		if (!there)
			table->unfit = "the publisher's table is gone";
	}
}

/*
 * Locks the batch on the publisher. The transaction's snapshot is taken by the first statement that reads, after the locks: else it could
 * see a table that is rewritten in between as empty.
 *
 * returns: false when a name has gone to another table
 */
bool
lock_publisher(Verify *verify, int first, int last)
{
	StringInfoData names;
	worker::Rows rows = {};
	const char *message = nullptr;

	refresh_names(verify, first, last);
	(void) worker::query(verify->publisher, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	for (const char *setting : {"statement_timeout = 0", "lock_timeout = 0", "idle_in_transaction_session_timeout = 0", "row_security = off"})
		(void) worker::query(verify->publisher, psprintf("SET LOCAL %s", setting));
	initStringInfo(&names);
	for (int i = first; i < last; i++) {
		const worker::SourceTable &table = verify->tables[i].source;
		if (verify->tables[i].unfit == nullptr)
			appendStringInfo(&names, "%s%s%s", names.len > 0 ? ", " : "", table.relkind == 'p' ? "" : "ONLY ",
			                 quote_qualified_identifier(table.schema, table.name));
	}
	if (names.len == 0)
		return true;
	const char *state = worker::try_query(verify->publisher, psprintf("LOCK TABLE %s IN ACCESS SHARE MODE", names.data), &rows, &message);
	if (state == nullptr)
		return true;
	if (strcmp(state, "42P01") == 0 || strcmp(state, "3F000") == 0)
		return false;
	ereport(ERROR, (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
	                errmsg("could not lock the published tables: %s", message),
	                errhint("The role that the subscription connects as needs SELECT on all of them.")));
	pg_unreachable();
}

/* The names, as the snapshot has them, are those that were locked. */
bool
has_names(Verify *verify, int first, int last)
{
	for (int i = first; i < last; i++) {
		const worker::SourceTable &table = verify->tables[i].source;
		const char *parameters[] = {psprintf("%u", table.oid), table.schema, table.name};
		if (verify->tables[i].unfit != nullptr)
			continue;
		worker::Rows rows = worker::query(verify->publisher,
		                                  "SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
		                                  " WHERE c.oid = $1::pg_catalog.oid AND n.nspname = $2 AND c.relname = $3",
		                                  3, parameters);
		if (rows.count == 0)
			return false;
	}
	return true;
}

void
unlock_local(Verify *verify, int first, int last)
{
	for (int i = first; i < last; i++)
		if (OidIsValid(verify->tables[i].relid))
			UnlockRelationOid(verify->tables[i].relid, AccessShareLock);
}

/* While the worker stands: it holds no lock now, and shall not wait for ours. */
bool
lock_local(Verify *verify, int first, int last)
{
	for (int i = first; i < last; i++) {
		if (!OidIsValid(verify->tables[i].relid) || ConditionalLockRelationOid(verify->tables[i].relid, AccessShareLock))
			continue;
		unlock_local(verify, first, i);
		return false;
	}
	return true;
}

/* From the worker's first stop to the end of its search. returns: false: try again; else the local snapshot is active */
bool
find_position(Verify *verify, int pid, int first, int last)
{
	Meeting *meeting = verify->meeting;
	PositionProbe probe = {};
	bool has_end = false, has_snapshot = false;

	for (;;) {
		Phase phase = worker::phase_of(meeting);
		if (need_worker(*verify->subscription) != pid)
			break; /* it has ended, and with it what it knew */
		switch (phase) {
		case Phase::Held: {
			worker::Rows rows = worker::query(verify->publisher, "SELECT pg_catalog.pg_current_snapshot()");
			worker::expect(rows, "v", 1);
			worker::read_snapshot(rows.values[0][0], verify->snapshot);
			worker::seek(meeting, verify->snapshot);
			continue;
		}
		case Phase::Cut:
			if (!lock_local(verify, first, last)) {
				worker::set_phase(meeting, Phase::Over);
				return false;
			}
			PushActiveSnapshot(GetLatestSnapshot());
			has_snapshot = true;
			if (!worker::turn(meeting, Phase::Cut, Phase::Passing))
				break; /* held for too long */
			continue;
		case Phase::Seeking:
		case Phase::Passing: {
			XLogRecPtr end = InvalidXLogRecPtr;
			if (!has_end && probe_position(verify->publisher, &probe, &end)) {
				worker::set_end(meeting, end);
				has_end = true;
			}
			break;
		}
		case Phase::Passed:
			return true;
		default:
			break;
		}
		if (phase == Phase::Failed || phase == Phase::Cut)
			break;
		(void) worker::wait_phase(meeting, phase);
	}
	worker::set_phase(meeting, Phase::Over);
	if (has_snapshot) {
		PopActiveSnapshot();
		unlock_local(verify, first, last);
	}
	return false;
}

/*
 * How far the copies of the tables are. Another process may copy one while the position is looked for: what is ready both before and after,
 * as of the same copy, was so in the snapshot.
 */
void
note_copies(Verify *verify, int first, int last)
{
	for (int i = first; i < last; i++) {
		Table *table = &verify->tables[i];
		const catalog::RelationRow *row = catalog::load_relation(verify->subscription->subid, table->source.oid);
		table->was_ready = row != nullptr && strcmp(row->state, "ready") == 0;
		table->was_synced = row != nullptr ? row->sync_lsn : InvalidXLogRecPtr;
	}
}

/* Leaves the publisher's transaction open and the local snapshot active. */
void
agree(Verify *verify, int first, int last)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "schemasync verify", ALLOCSET_DEFAULT_SIZES);
	MemoryContext saved = CurrentMemoryContext;

	for (int attempt = 1; attempt <= most_attempts; attempt++) {
		if (attempt > 1)
			pause(Min(10L * attempt, 500L));
		int pid = need_worker(*verify->subscription);
		if (pid == 0)
			continue;
		if (lock_publisher(verify, first, last)) {
			MemoryContextSwitchTo(scratch);
			note_copies(verify, first, last);
			worker::set_phase(verify->meeting, Phase::Asked);
			bool found = find_position(verify, pid, first, last);
			MemoryContextSwitchTo(saved);
			MemoryContextReset(scratch);
			if (found && has_names(verify, first, last)) {
				MemoryContextDelete(scratch);
				return;
			}
			if (found) {
				PopActiveSnapshot();
				unlock_local(verify, first, last);
			}
		}
		(void) worker::query(verify->publisher, "ROLLBACK");
	}
	ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
	                errmsg("subscription \"%s\" and its publisher came to no common position in %d attempts", verify->subscription->name,
	                       most_attempts),
	                errhint("See schemasync_subscriptions and schemasync_errors, then try again.")));
}

/* --- rows of the result ------------------------------------------------------------------------------------------- */

void
put(ReturnSetInfo *set, const Verify *verify, const Table &table, const Comparison *found, TimestampTz begun)
{
	Datum values[column_count] = {};
	bool nulls[column_count];
	auto set_value = [&](int column, Datum value) {
		values[column] = value;
		nulls[column] = false;
	};
	auto set_text = [&](int column, const char *text) {
		if (text != nullptr)
			set_value(column, CStringGetTextDatum(text));
	};

	for (bool &null : nulls)
		null = true;
	set_text(0, quote_qualified_identifier(table.source.schema, table.source.name));
	set_text(7, table.unfit);
	set_value(8, LSNGetDatum(worker::cut_of(verify->meeting)));
	if (found != nullptr) {
		set_value(1, BoolGetDatum(found->equal));
		set_value(2, Int64GetDatum(found->publisher_rows));
		set_value(3, Int64GetDatum(found->subscriber_rows));
		set_text(4, psprintf("%016llx", static_cast<unsigned long long>(found->publisher_sum)));
		set_text(5, psprintf("%016llx", static_cast<unsigned long long>(found->subscriber_sum)));
		set_text(6, found->differences);
		set_text(7, found->detail);
	}
	set_value(9, DirectFunctionCall2(timestamp_mi, TimestampTzGetDatum(GetCurrentTimestamp()), TimestampTzGetDatum(begun)));
	tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
}

/* Whether the rows that are here are those of the position; else why not. */
const char *
why_unfit(const Verify *verify, const Table &table, const catalog::RelationRow *row)
{
	if (table.unfit != nullptr)
		return table.unfit;
	if (row == nullptr || !OidIsValid(row->relid) || get_rel_relkind(row->relid) == '\0')
		return "the subscriber has no such table";
	if (strcmp(row->state, "ready") != 0 || !table.was_ready || row->sync_lsn > table.was_synced)
		return "its rows are not copied yet";
	if (row->sync_lsn > worker::cut_of(verify->meeting))
		return "the stream has not come to the position of its copy yet";
	return nullptr;
}

struct Comparing {
	Verify *verify;
	const Table *table;
	const catalog::RelationRow *row;
	const Comparison *found;
};

void
compare_one(void *argument)
{
	Comparing *one = static_cast<Comparing *>(argument);

	one->found = compare_rows(one->verify->publisher, one->table->source, *one->row, one->verify->hashing);
}

/*
 * In a subtransaction that is rolled back, so that the locks of the queries go with it: the worker may have to change the table before it comes to the position
 * of the next batch, and would wait for this session, which waits for it.
 */
const Comparison *
compare_apart(Verify *verify, const Table &table, const catalog::RelationRow &row)
{
	Comparing one = {verify, &table, &row, nullptr};
	/* an error must not outlive the subtransaction, which would keep the session's transaction open, and with it the locks */
	ErrorData *error = pg::run_in_subtransaction(compare_one, &one, pg::Ending::RollBack);

	if (error != nullptr)
		ReThrowError(error);
	return one.found;
}

void
compare_batch(Verify *verify, int first, int last, ReturnSetInfo *set)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "schemasync verify table", ALLOCSET_DEFAULT_SIZES);
	MemoryContext saved = CurrentMemoryContext;

	agree(verify, first, last);
	for (int i = first; i < last; i++) {
		Table *table = &verify->tables[i];
		TimestampTz begun = GetCurrentTimestamp();
		CHECK_FOR_INTERRUPTS();
		worker::show_verify(verify->meeting, table->relid, verify->done, verify->total);
		MemoryContextSwitchTo(scratch);
		const catalog::RelationRow *row = catalog::load_relation(verify->subscription->subid, table->source.oid);
		table->unfit = why_unfit(verify, *table, row);
		const Comparison *found = nullptr;
		if (table->unfit == nullptr)
			found = compare_apart(verify, *table, *row);
		put(set, verify, *table, found, begun);
		MemoryContextSwitchTo(saved);
		MemoryContextReset(scratch);
		verify->done += table->bytes;
	}
	worker::set_phase(verify->meeting, Phase::Over);
	PopActiveSnapshot();
	unlock_local(verify, first, last);
	(void) worker::query(verify->publisher, "ROLLBACK");
	MemoryContextDelete(scratch);
}

struct Call {
	const char *name;
	Oid asked;
	ReturnSetInfo *set;
	Meeting *meeting; /* once there is one */
};

void
verify(void *argument)
{
	Call *call = static_cast<Call *>(argument);
	ReturnSetInfo *set = call->set;
	Oid asked = call->asked;
	Verify verify = {};

	verify.subscription = own_target(call->name);
	(void) need_worker(*verify.subscription);
	list_tables(&verify, asked);
	int nest_level = pg::catalog::begin_pinned_settings();
	set_output(verify.publisher);
	verify.hashing = choose_hashing(verify.publisher);
	verify.snapshot = static_cast<worker::RemoteSnapshot *>(palloc(sizeof(worker::RemoteSnapshot)));
	call->meeting = verify.meeting = worker::begin_meeting(verify.subscription->subid);
	for (int first = 0, last; first < verify.count; first = last) {
		std::int64_t bytes = verify.tables[first].bytes;
		for (last = first + 1; last < verify.count && last - first < batch_tables; last++) {
			bytes += verify.tables[last].bytes;
			if (bytes > batch_bytes)
				break;
		}
		compare_batch(&verify, first, last, set);
	}
	call->meeting = nullptr;
	worker::end_meeting(verify.meeting);
	worker::close(verify.publisher);
	pg::catalog::end_pinned_settings(nest_level);
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_verify(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	char *name = required_text(fcinfo, 0, "name");
	Oid relation = PG_ARGISNULL(1) ? InvalidOid : PG_GETARG_OID(1);
	InitMaterializedSRF(fcinfo, 0);
	Call call = {name, relation, reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo), nullptr};
	ErrorData *error = schemasync::pg::run_protected(verify, &call);
	if (error != nullptr && error->sqlerrcode == ERRCODE_QUERY_CANCELED && call.meeting != nullptr && schemasync::worker::must_yield(call.meeting))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
		                errmsg("the comparison was ended: a change of schema in the stream waits for a table that it reads"),
		                errhint("Call schemasync_verify again, for one table at a time where they are large.")));
	if (error != nullptr)
		ReThrowError(error);
	return Datum{0};
}
