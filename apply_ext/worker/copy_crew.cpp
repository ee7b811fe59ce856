#include "apply_ext/apply/prepared.hpp"
#include "apply_ext/apply/schema.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/copy_crew.hpp"
#include "apply_ext/worker/copy_queue.hpp"
#include "apply_ext/worker/copy_table.hpp"
#include "apply_ext/worker/local.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "access/xact.h"
#include "catalog/pg_subscription.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

constexpr int most_workers = 64;

/* Of the leader; for the callback at exit. */
BackgroundWorkerHandle *helpers[most_workers];
int nhelpers = 0;

/* One process at work. */
struct Hand {
	const catalog::Subscription *subscription;
	Queue *queue;
	Reader *reader;        /* nullptr: to be opened */
	MemoryContext reading; /* of the reader */
	MemoryContext work;    /* of a few tables */
	int at, end;           /* the tasks that it has taken and not finished */
};

// ---- leaves: may ereport; plain data only ----

/* Held by helpers while they live. Of the same class as the subscription's lock, and with a fourth field of its own. */
LOCKTAG
helpers_tag(std::int64_t subid)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, SubscriptionRelationId, static_cast<Oid>(subid), 1);
	return tag;
}

void
save_part(std::int64_t subid, Oid publisher_oid, std::int64_t rows)
{
	using namespace catalog;

	Internal internal = begin_internal();
	run("UPDATE schemasync.relation SET copied_rows = copied_rows + $3 WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subid), as_oid(publisher_oid), as_int8(rows)});
	end_internal(internal);
}

void
save_partial(std::int64_t subid, Oid publisher_oid, bool partial)
{
	using namespace catalog;

	Internal internal = begin_internal();
	run("UPDATE schemasync.relation SET partial = $3, state = 'copying', copied_rows = 0 WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subid), as_oid(publisher_oid), as_boolean(partial)});
	end_internal(internal);
}

/* The state that was set when the copy began must still be there: else the table was dropped or given up meanwhile. */
void
set_copied(const catalog::Subscription &subscription, const SourceTable &table, const Queue &queue, std::int64_t rows)
{
	using namespace catalog;

	Internal internal = begin_internal();
	std::uint64_t found = run("UPDATE schemasync.relation SET state = $5, sync_lsn = coalesce($3, sync_lsn),"
	                          " copied_rows = greatest(copied_rows, $4), resync = false, partial = false"
	                          " WHERE subid = $1 AND publisher_oid = $2 AND state = 'copying'",
	                          {as_int8(subscription.subid), as_oid(table.oid), as_lsn(queue.position), as_int8(rows),
	                           as_text(queue.mode == Mode::Beside ? "catchup" : "ready")});
	end_internal(internal);
	if (found == 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("table \"%s.%s\" is not to be copied any more", table.schema, table.name)));
}

/*
 * Brings a table whose copy was interrupted to the shape that it has in the new snapshot, as a change of the stream would. From then on
 * the stream's older states of it are passed over (apply::is_passed_over), and its older rows too.
 */
void
level_table(const Hand *hand, const SourceTable &table, bool emptied)
{
	char *content = describe_table(*hand->reader, table);
	apply::Refused refused = {};
	bool is_refused = false;

	if (content == nullptr)
		return;
	apply::Pass pass = hand->queue->mode == Mode::Beside ? apply::Pass::Beside : apply::Pass::Copy;
	apply::Boundary boundary = {hand->reader->position, GetCurrentTimestamp(), InvalidTransactionId, 0, pass, false, emptied};
	pg::entry([&] {
		try {
			(void) apply::on_schema_message(*hand->subscription, "schemasync.state", content, boundary);
		} catch (const apply::Refused &raised) {
			refused = raised;
			is_refused = true;
		}
	});
	if (is_refused)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("table \"%s.%s\" was altered on the publisher before its copy, and the change is refused: %s",
		                       table.schema, table.name, refused.reason),
		                refused.changes != nullptr ? errdetail_internal("%s", refused.changes) : 0,
		                refused.hint != nullptr ? errhint("%s", refused.hint) : 0));
}

void
open_hand(Hand *hand)
{
	if (hand->reader != nullptr)
		return;
	MemoryContextReset(hand->reading);
	MemoryContext saved = MemoryContextSwitchTo(hand->reading);
	hand->reader = open_reader(*hand->subscription, hand->queue->snapshot, hand->queue->extension_schema, hand->queue->position);
	MemoryContextSwitchTo(saved);
}

/* After an ERROR: its connections are in whatever state they are. */
void
close_hand(Hand *hand)
{
	forget_rows();
	hand->reader = nullptr;
	MemoryContextReset(hand->reading);
}

/* What a partition has from its parent it must not get by itself before: the leader sees to it (finish_rest). */
void
finish_own(const catalog::Subscription &subscription, const SourceTable &table)
{
	if (!table.partition && table.relkind != 'p')
		apply::finish_created(subscription, table.oid);
}

/* The last part is there: the table has all its rows. */
void
finish_table(Hand *hand, const SourceTable &table)
{
	begin();
	set_copied(*hand->subscription, table, *hand->queue, 0);
	finish_own(*hand->subscription, table);
	commit();
}

void
copy_part(Hand *hand, const Task &task, const SourceTable &table)
{
	begin();
	std::int64_t rows = fill_table(*hand->subscription, *hand->reader, table, task.part);
	save_part(hand->subscription->subid, table.oid, rows);
	commit();
	pg::at_point("copy_part_done");
	if (note_part(hand->queue, task.table, rows)) {
		finish_table(hand, table);
		note_copied(hand->queue, task.table);
	}
}

void
copy_whole(Hand *hand, const Task &task, const SourceTable &table)
{
	const QueuedTable &queued = table_of(hand->queue, task.table);
	const catalog::Subscription &subscription = *hand->subscription;
	bool beside = hand->queue->mode == Mode::Beside;

	if (queued.partial) {
		begin();
		(void) empty_target(subscription, table.oid, Emptying::Truncate);
		save_partial(subscription.subid, table.oid, false);
		commit();
	}
	begin();
	bool emptied = queued.resync && queued.with_rows && empty_target(subscription, table.oid, Emptying::Delete);
	if (emptied)
		pg::at_point("resync_emptied");
	if (queued.level)
		level_table(hand, table, emptied);
	std::int64_t rows = queued.with_rows ? fill_table(subscription, *hand->reader, table, task.part) : 0;
	pg::at_point(emptied ? "resync_filled" : beside ? "beside_rows" : "copy_rows");
	set_copied(subscription, table, *hand->queue, rows);
	finish_own(subscription, table);
	commit();
	pg::at_point(emptied ? "resync_done" : beside ? "beside_table_done" : "copy_table_done");
	(void) note_part(hand->queue, task.table, rows);
	note_copied(hand->queue, task.table);
}

/* From hand->at on, which shows how far it came, to hand->end. */
void
copy_some(void *argument)
{
	Hand *hand = static_cast<Hand *>(argument);
	Queue *queue = hand->queue;
	int end = hand->end;

	MemoryContextReset(hand->work);
	MemoryContextSwitchTo(hand->work);
	const SourceTable **tables = static_cast<const SourceTable **>(palloc(sizeof(SourceTable *) * static_cast<Size>(end - hand->at)));
	begin();
	MemoryContextSwitchTo(hand->work);
	for (int i = hand->at; i < end; i++) {
		tables[i - hand->at] = unpack_table(queue, task_of(queue, i).table);
		if (task_of(queue, i).whole)
			set_table_state(*hand->subscription, tables[i - hand->at]->oid, "copying", InvalidXLogRecPtr, 0);
	}
	commit();
	pg::at_point(queue->mode == Mode::Beside ? "beside_table_begun" : "copy_table_begun");
	MemoryContextSwitchTo(hand->work);
	bool same = lock_tables(hand->reader->sql, hand->reader->now, tables, end - hand->at, true);
	if (!same && end - hand->at > 1) {
		/* one of them has moved: one at a time */
		unlock_tables(hand->reader->sql);
		end = hand->at + 1;
		same = lock_tables(hand->reader->sql, hand->reader->now, tables, 1, true);
	}
	for (int first = hand->at; hand->at < end; hand->at++) {
		const Task &task = task_of(queue, hand->at);
		const SourceTable &table = *tables[hand->at - first];
		if (!same)
			give_up(queue, task.table);
		else if (task.whole)
			copy_whole(hand, task, table);
		else
			copy_part(hand, task, table);
		MemoryContextSwitchTo(hand->work);
	}
	unlock_tables(hand->reader->sql);
}

/* The table of the task at hand is left out of this copy. */
void
note_failure(Hand *hand, ErrorData *error)
{
	apply::explain_wait(error);

	const SourceTable *table = unpack_table(hand->queue, task_of(hand->queue, hand->at).table);
	catalog::ErrorContextInfo info = {};

	info.worker = "copy";
	info.command = "COPY";
	info.relation = psprintf("%s.%s", table->schema, table->name);
	log_error(error);
	begin();
	(void) catalog::note_error(hand->subscription->subid, error, &info);
	commit();
	give_up(hand->queue, task_of(hand->queue, hand->at).table);
	hand->at++;
}

/* Takes tasks until there is none. */
void
work(Hand *hand)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "schemasync copy worker", ALLOCSET_DEFAULT_SIZES);
	MemoryContext saved = CurrentMemoryContext;

	hand->reading = AllocSetContextCreate(context, "schemasync reader", ALLOCSET_DEFAULT_SIZES);
	hand->work = AllocSetContextCreate(context, "schemasync copied tables", ALLOCSET_DEFAULT_SIZES);
	while (take(hand->queue, &hand->at, &hand->end)) {
		while (hand->at < hand->end) {
			CHECK_FOR_INTERRUPTS();
			open_hand(hand);
			/* those that somebody ended since are none any more */
			apply::load_prepared(hand->subscription->subid);
			MemoryContextSwitchTo(context);
			ErrorData *error = pg::run_protected(copy_some, hand);
			if (error == nullptr)
				continue;
			AbortOutOfAnyTransaction();
			MemoryContextSwitchTo(context);
			close_hand(hand);
			note_failure(hand, error);
		}
	}
	if (hand->reader != nullptr)
		close_reader(hand->reader);
	/* (that of the last tables is one below it) */
	MemoryContextSwitchTo(saved);
	MemoryContextDelete(context);
}

/* --- the leader --------------------------------------------------------------------------------------------- */

/* Helpers do not outlive their leader. */
void
stop_helpers(int, Datum)
{
	for (int i = 0; i < nhelpers; i++)
		TerminateBackgroundWorker(helpers[i]);
	nhelpers = 0;
}

void
start_helpers(const catalog::Subscription &subscription, std::uint32_t segment, int count)
{
	static bool told = false;
	const char *shown_as = psprintf("schemasync copy %s", subscription.name);
	BackgroundWorker worker = {};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "schemasync", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "schemasync_copy_helper_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, shown_as, BGW_MAXLEN);
	strlcpy(worker.bgw_type, shown_as, BGW_MAXLEN);
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	memcpy(worker.bgw_extra, &subscription.owner, sizeof(Oid));
	memcpy(worker.bgw_extra + sizeof(Oid), &subscription.subid, sizeof(subscription.subid));
	memcpy(worker.bgw_extra + sizeof(Oid) + sizeof(subscription.subid), &segment, sizeof(segment));

	if (!told)
		before_shmem_exit(stop_helpers, 0);
	told = true;
	MemoryContext saved = MemoryContextSwitchTo(TopMemoryContext);
	for (int i = 0; i < Min(count, most_workers); i++) {
		/* without a free slot for one the others do its work */
		if (RegisterDynamicBackgroundWorker(&worker, &helpers[nhelpers]))
			nhelpers++;
	}
	MemoryContextSwitchTo(saved);
}

void
await_helpers()
{
	for (int i = 0; i < nhelpers; i++) {
		if (WaitForBackgroundWorkerShutdown(helpers[i]) == BGWH_POSTMASTER_DIED)
			proc_exit(1);
		pfree(helpers[i]);
	}
	nhelpers = 0;
}

/* Whether a large table may be committed part by part: it has no rows here that a failure could not give back. Empties and levels it then. */
void
prepare_parts(void *argument)
{
	Hand *hand = static_cast<Hand *>(argument);
	const SourceTable *table = unpack_table(hand->queue, hand->at);
	QueuedTable &queued = table_of(hand->queue, hand->at);
	const catalog::Subscription &subscription = *hand->subscription;

	begin();
	if (queued.partial)
		(void) empty_target(subscription, table->oid, Emptying::Truncate);
	bool empty = may_fill_in_parts(subscription, table->oid);
	commit();
	MemoryContextSwitchTo(hand->work);
	if (!empty)
		return;
	bool same = lock_tables(hand->reader->sql, hand->reader->now, &table, 1, true);
	if (same) {
		begin();
		save_partial(subscription.subid, table->oid, true);
		if (queued.level)
			level_table(hand, *table, true);
		commit();
		queued.partial = false;
		queued.level = false;
		queued.in_parts = true;
	}
	MemoryContextSwitchTo(hand->work);
	unlock_tables(hand->reader->sql);
}

void
prepare_all(const catalog::Subscription &subscription, Queue *queue)
{
	Hand hand = {&subscription, queue, nullptr, nullptr, nullptr, 0, 0};
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "schemasync copy preparation", ALLOCSET_DEFAULT_SIZES);
	MemoryContext saved = CurrentMemoryContext;

	hand.reading = AllocSetContextCreate(context, "schemasync reader", ALLOCSET_DEFAULT_SIZES);
	hand.work = AllocSetContextCreate(context, "schemasync prepared table", ALLOCSET_DEFAULT_SIZES);
	for (hand.at = 0; subscription.options.copy_workers > 1 && hand.at < table_count(queue); hand.at++) {
		const QueuedTable &queued = table_of(queue, hand.at);
		if (!queued.with_rows || queued.resync || part_count(subscription, queued) < 2)
			continue;
		open_hand(&hand);
		MemoryContextReset(hand.work);
		MemoryContextSwitchTo(hand.work);
		if (pg::run_protected(prepare_parts, &hand) == nullptr)
			continue;
		/* what is wrong is said when it is copied as a whole */
		AbortOutOfAnyTransaction();
		close_hand(&hand);
	}
	if (hand.reader != nullptr)
		close_reader(hand.reader);
	MemoryContextSwitchTo(saved);
	MemoryContextDelete(context);
}

/* What was begun and not finished begins again. */
void
set_back(std::int64_t subid)
{
	using namespace catalog;

	begin();
	Internal internal = begin_internal();
	run("UPDATE schemasync.relation SET state = 'init' WHERE subid = $1 AND state = 'copying'", {as_int8(subid)});
	end_internal(internal);
	commit();
}

} // namespace

void
set_table_state(const catalog::Subscription &subscription, Oid publisher_oid, const char *state, XLogRecPtr sync_lsn, std::int64_t rows)
{
	using namespace catalog;

	Internal internal = begin_internal();
	run("UPDATE schemasync.relation SET state = $3, sync_lsn = coalesce($4, sync_lsn), copied_rows = greatest(copied_rows, $5)"
	    " , resync = resync AND $3 <> 'ready' WHERE subid = $1 AND publisher_oid = $2",
	    {as_int8(subscription.subid), as_oid(publisher_oid), as_text(state), as_lsn(sync_lsn), as_int8(rows)});
	end_internal(internal);
}

void
await_former_helpers(std::int64_t subid)
{
	LOCKTAG tag = helpers_tag(subid);

	StartTransactionCommand();
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	CommitTransactionCommand();
}

CrewResult
run_crew(const catalog::Subscription &subscription, const Source &source, Mode mode, Job *jobs, int count)
{
	CrewResult result = {};
	MemoryContext saved = CurrentMemoryContext;

	if (count == 0)
		return result;
	Hand hand = {&subscription, make_queue(source, mode, jobs, count), nullptr, nullptr, nullptr, 0, 0};
	prepare_all(subscription, hand.queue);
	int groups = fill_queue(hand.queue, subscription);
	start_helpers(subscription, segment_of(hand.queue), Min(subscription.options.copy_workers, groups) - 1);
	work(&hand);
	await_helpers();
	set_back(subscription.subid);
	result = result_of(hand.queue);
	drop_queue(hand.queue);
	MemoryContextSwitchTo(saved);
	return result;
}

void
help_crew(const catalog::Subscription &subscription, std::uint32_t segment)
{
	LOCKTAG tag = helpers_tag(subscription.subid);
	Hand hand = {&subscription, nullptr, nullptr, nullptr, nullptr, 0, 0};

	(void) LockAcquire(&tag, ShareLock, true, false);
	hand.queue = attach_queue(segment);
	if (hand.queue != nullptr)
		work(&hand);
	(void) LockRelease(&tag, ShareLock, true);
}

} // namespace schemasync::worker
