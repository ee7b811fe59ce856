/*
 * The index worker: builds what is in a subscription's queue, one index at a time, until the queue is empty.
 *
 * Which index it has begun is written by a hook in the same transaction that puts the index into the catalog, so that what a crash
 * leaves behind is known to be this worker's, and nothing else ever is dropped.
 */
#include "apply_ext/apply/index_queue.hpp"
#include "core/reason.hpp"

#include <exception>

#include "apply_ext/worker/index_builds.hpp"
#include "apply_ext/worker/slots.hpp"

#include "pg/compat.hpp"
#include "pg/guard.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

SCHEMASYNC_EXPORT void schemasync_index_main(Datum argument);

namespace schemasync::worker {

namespace {

/* The pause after a change that needed the table, ms: it may come with others. */
constexpr int pause_after_yield = 1000;
/* The longest sleep, ms: what was queued meanwhile wakes the worker, this is for what got lost. */
constexpr std::int64_t longest_nap = 60000;

Slot *own = nullptr;
bool locked = false;  /* the lock of the table locked_relid is held */
Oid locked_relid = InvalidOid;
IndexWorkerStart start;

/* The build that the hook writes of; its memory is the round's. */
const catalog::IndexBuild *begun = nullptr;
object_access_hook_type next_hook = nullptr;

// ---- leaves: may ereport; plain data only ----

/* A transaction of this file leaves the memory context as it was: what is loaded lives as long as the round. */
void
begin()
{
	MemoryContext round = CurrentMemoryContext;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(round);
}

void
commit()
{
	MemoryContext round = CurrentMemoryContext;

	if (ActiveSnapshotSet())
		PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(round);
}

/* Commands that commit in between leave the role that they ran as behind when they fail. */
void
abort_all()
{
	AbortOutOfAnyTransaction();
	SetUserIdAndSecContext(GetSessionUserId(), 0);
	begun = nullptr;
}

/* Runs at every end of the process. */
void
release(int, Datum)
{
	if (own == nullptr)
		return;
	SpinLockAcquire(&own->mutex);
	own->index_pid = 0;
	own->index_latch = nullptr;
	own->index_relid = InvalidOid;
	SpinLockRelease(&own->mutex);
	ConditionVariableBroadcast(&own->changed);
	wake_launcher();
	own = nullptr;
}

void
attach(Oid database)
{
	bool mine = false;

	own = find_slot(database, start.subid);
	if (own == nullptr)
		proc_exit(0);
	SpinLockAcquire(&own->mutex);
	if (own->index_starting && own->index_generation == start.generation) {
		own->index_starting = false;
		own->index_pid = MyProcPid;
		own->index_latch = &MyProc->procLatch;
		own->index_relid = InvalidOid;
		own->index_yield = false;
		mine = true;
	}
	SpinLockRelease(&own->mutex);
	if (!mine) {
		own = nullptr;
		proc_exit(0);
	}
	before_shmem_exit(release, 0);
}

/* CREATE INDEX makes one entry in pg_class. */
void
note_index(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (next_hook != nullptr)
		next_hook(access, classId, objectId, subId, arg);
	if (access != OAT_POST_CREATE || classId != RelationRelationId || subId != 0 || begun == nullptr)
		return;
	const catalog::IndexBuild *build = begun;
	begun = nullptr;
	catalog::save_begun_index(start.subid, build, objectId);
	pg::at_point("index_noted");
}

void
begin_index_worker(Datum argument)
{
	memcpy(&start, MyBgworkerEntry->bgw_extra, sizeof(start));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	attach(DatumGetObjectId(argument));
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(argument), start.owner, 0);
	pgstat_report_appname(MyBgworkerEntry->bgw_name);
	next_hook = object_access_hook;
	object_access_hook = note_index;
}

/* The subscription as it is now; ends the worker when it is not its to work for any more. */
const catalog::Subscription *
load_own()
{
	begin();
	const catalog::Subscription *subscription = catalog::load_subscription(start.subid);
	commit();
	if (subscription == nullptr || !subscription->enabled || subscription->owner != start.owner)
		proc_exit(0);
	return subscription;
}

/* What is due; sleeps while nothing is, and ends the worker when nothing is left. */
const catalog::IndexBuild *
wait_for_build()
{
	for (;;) {
		std::int64_t wait = 0;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending) {
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		begin();
		const catalog::IndexBuild *build = catalog::next_index_build(start.subid, &wait);
		commit();
		if (build != nullptr)
			return build;
		if (wait < 0)
			proc_exit(0);
		pgstat_report_activity(STATE_IDLE, nullptr);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, static_cast<long>(Min(wait, longest_nap)),
		                 pg::compat::wait_event("SchemasyncIndexMain"));
		ResetLatch(MyLatch);
		(void) load_own();
	}
}

void
set_relid(Oid relid)
{
	SpinLockAcquire(&own->mutex);
	own->index_relid = relid;
	if (OidIsValid(relid))
		own->index_yield = false;
	SpinLockRelease(&own->mutex);
}

/* The table is this worker's to build on, until somebody changes it. */
void
lock_table(Oid relid)
{
	LOCKTAG tag;

	set_build_tag(&tag, MyDatabaseId, relid);
	MemoryContext round = CurrentMemoryContext;
	StartTransactionCommand();
	(void) LockAcquire(&tag, ExclusiveLock, true, false);
	locked = true;
	locked_relid = relid;
	CommitTransactionCommand();
	MemoryContextSwitchTo(round);
	set_relid(relid);
}

void
unlock_table()
{
	LOCKTAG tag;

	set_relid(InvalidOid);
	set_build_tag(&tag, MyDatabaseId, locked_relid);
	if (locked)
		(void) LockRelease(&tag, ExclusiveLock, true);
	locked = false;
}

/*
 * Runs a command that commits in between, in transactions of its own, as the table's owner. No security-restricted context can be kept
 * over its commits; the command itself makes one wherever it runs what the table brings.
 */
void
run_command(const char *sql, Oid role)
{
	Oid self;
	int sec_context;

	pgstat_report_activity(STATE_RUNNING, sql);
	begin(); /* in the round's memory the statement outlives the command's first transaction */
	MemoryContext round = CurrentMemoryContext;
	const char *wrong = apply::check_statement(sql);
	if (wrong != nullptr)
		elog(ERROR, "statement of the index worker is not executed: %s", wrong);
	PlannedStmt *statement = makeNode(PlannedStmt);
	statement->commandType = CMD_UTILITY;
	statement->canSetTag = true;
	statement->utilityStmt = linitial_node(RawStmt, raw_parser(sql, RAW_PARSE_DEFAULT))->stmt;
	GetUserIdAndSecContext(&self, &sec_context);
	SetUserIdAndSecContext(role, 0);
	ProcessUtility(statement, sql, false, PROCESS_UTILITY_TOPLEVEL, nullptr, nullptr, None_Receiver, nullptr);
	SetUserIdAndSecContext(self, sec_context);
	MemoryContextSwitchTo(round);
	commit();
	pgstat_report_activity(STATE_IDLE, nullptr);
}

/* What an earlier attempt left. returns: the row as it is then */
const catalog::IndexBuild *
clean_up(const catalog::IndexBuild *build)
{
	begin();
	build = catalog::load_index_build(start.subid, build->publisher_oid, build->index_oid);
	char *sql = build == nullptr ? nullptr : apply::drop_left_sql(build->local_oid, build->relid, true);
	Oid owner = sql == nullptr ? InvalidOid : apply::table_owner(build->relid);
	commit();
	if (build == nullptr || !OidIsValid(build->local_oid))
		return build;
	if (sql != nullptr)
		run_command(sql, owner);
	begin();
	catalog::save_begun_index(start.subid, build, InvalidOid);
	build = catalog::load_index_build(start.subid, build->publisher_oid, build->index_oid);
	commit();
	return build;
}

void
begin_build(const catalog::IndexBuild *build)
{
	begin();
	catalog::begin_index_build(start.subid, build);
	commit();
	pg::at_point("index_begun");
}

void
end_build(const catalog::IndexBuild *build, const char *how)
{
	begin();
	catalog::remove_index_build(start.subid, build, how);
	commit();
}

/* Failed, or ended for the sake of a change. returns: whether it failed */
bool
note_failure(const catalog::Subscription *subscription, const catalog::IndexBuild *build, ErrorData *error)
{
	abort_all();
	pgstat_report_activity(STATE_IDLE, nullptr);
	SpinLockAcquire(&own->mutex);
	bool yields = own->index_yield && error->sqlerrcode == ERRCODE_QUERY_CANCELED;
	own->index_relid = InvalidOid; /* nobody interrupts from here on */
	SpinLockRelease(&own->mutex);
	QueryCancelPending = false;
	begin();
	if (yields)
		catalog::requeue_index_build(start.subid, build, pause_after_yield, true);
	else {
		catalog::ErrorContextInfo info = {};
		info.worker = "index";
		info.relation = OidIsValid(build->relid) && get_rel_name(build->relid) != nullptr
		                    ? psprintf("%s.%s", get_namespace_name(get_rel_namespace(build->relid)), get_rel_name(build->relid))
		                    : nullptr;
		info.command = "CREATE INDEX";
		info.key = build->index_name;
		if (error->hint == nullptr)
			error->hint = psprintf("It is tried again by itself. After a repair, at once: SELECT schemasync_start(%s);",
			                       quote_literal_cstr(subscription->name));
		catalog::fail_index_build(start.subid, build, error->message);
		if (catalog::note_error(start.subid, error, &info))
			ereport(LOG, (errcode(error->sqlerrcode),
			              errmsg("subscription \"%s\" could not build index \"%s\": %s", subscription->name, build->index_name,
			                     error->message),
			              error->detail != nullptr ? errdetail_internal("%s", error->detail) : 0, errhint("%s", error->hint)));
	}
	commit();
	return !yields;
}

// ---- C++ ----

/* Raises why an index cannot be built, with what to do. */
[[noreturn]] void
raise_refusal(const merge::Operation &plan)
{
	const char *name = info(plan.reason).name.data();

	pg::call([&] {
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("the index cannot be built: %s", name),
		                errdetail("%s", plan.detail.c_str()),
		                plan.suggested_sql.empty() ? 0 : errhint("%s;", plan.suggested_sql.c_str())));
	});
	std::terminate();
}

void
build_index(const catalog::Subscription &subscription, const catalog::IndexBuild *build)
{
	build = pg::call([&] { return clean_up(build); });
	if (build == nullptr)
		return;
	pg::call([&] { begin(); });
	const merge::Operation plan = apply::plan_build(subscription, build->publisher_oid, build->index_oid, true);
	Oid owner = pg::call([&] { return apply::table_owner(build->relid); });
	bool allowed = pg::call([&] { return !OidIsValid(owner) || pg::compat::member_can_set_role(subscription.owner, owner); });
	pg::call([&] { commit(); });
	if (plan.verdict == Verdict::Ignore) {
		pg::call([&] { end_build(build, "Not built: indexes = ignore."); });
		return;
	}
	if (plan.operation.empty()) {
		pg::call([&] { end_build(build, "It is not the publisher's any more."); });
		return;
	}
	if (plan.verdict == Verdict::Satisfied) {
		pg::call([&] { end_build(build, "The subscriber has this index."); });
		return;
	}
	if (plan.verdict != Verdict::Forward || plan.sql.size() != 1)
		raise_refusal(plan);
	pg::call([&] {
		if (!allowed)
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			                errmsg("the owner of the subscription may not become \"%s\", the owner of the table",
			                       GetUserNameFromId(owner, true))));
		begin_build(build);
		begun = build;
		run_command(plan.sql[0].c_str(), owner);
		begun = nullptr;
		pg::at_point("index_built");
		end_build(build, "Built by the index worker.");
	});
}

/* One index, from the look at the queue to its end. */
void
work_round(MemoryContext round)
{
	MemoryContextSwitchTo(round);
	const catalog::IndexBuild *build = pg::call([&] { return wait_for_build(); });
	const catalog::Subscription *subscription = pg::call([&] {
		const catalog::Subscription *loaded = load_own();
		set_parameters(loaded);
		return loaded;
	});
	try {
		pg::call([&] { lock_table(build->relid); });
		build_index(*subscription, build);
	} catch (const pg::Error &raised) {
		ErrorData *error = raised.data;
		MemoryContextSwitchTo(round);
		/* an invalid index makes every write dearer; what cannot be dropped now is dropped before the next attempt, and one that had
		 * to let go of the table by those who wait for it */
		if (pg::call([&] { return note_failure(subscription, build, error); })) {
			try {
				pg::call([&] {
					set_relid(build->relid);
					(void) clean_up(build);
				});
			} catch (const pg::Error &) {
				pg::call([] { abort_all(); });
			}
		}
	}
	pg::call([] {
		pg::at_point("index_ended");
		unlock_table();
	});
}

} // namespace

} // namespace schemasync::worker

void
schemasync_index_main(Datum argument)
{
	using namespace schemasync;

	return pg::entry([&] {
		pg::call([&] { worker::begin_index_worker(argument); });
		MemoryContext round = pg::call([] {
			return AllocSetContextCreate(TopMemoryContext, "schemasync index build", ALLOCSET_DEFAULT_SIZES);
		});
		for (;;) {
			try {
				worker::work_round(round);
			} catch (const pg::Error &raised) {
				/* somebody's cancel that came too late is nothing */
				ErrorData *error = raised.data;
				bool harmless = error->sqlerrcode == ERRCODE_QUERY_CANCELED;
				pg::call([&] {
					worker::abort_all();
					worker::unlock_table();
					if (!harmless)
						ReThrowError(error);
				});
			}
			pg::call([&] { MemoryContextReset(round); });
		}
	});
}
