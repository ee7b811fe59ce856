#include "apply_ext/worker/beside.hpp"

#include "apply_ext/apply/relation_map.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"
#include "apply_ext/worker/copy.hpp"
#include "apply_ext/worker/local.hpp"
#include "apply_ext/worker/shared.hpp"
#include "pg/compat.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "access/xact.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

using apply::Session;

/* The pause after a copy that failed, ms; it doubles up to the longest. */
constexpr long first_pause = 2000, longest_pause = 60000;
/* ... and between looks whether prepared transactions have ended. */
constexpr int prepared_pause = 100;
/* A change waits for copies as long as no more than this many failed in a row. */
constexpr int bearable_failures = 2;

/* For the callback at exit, which gets no argument that lives long enough. */
BackgroundWorkerHandle *running = nullptr;

struct Due {
	std::int64_t waiting;  /* tables to be copied, and a refresh that was asked for */
	std::int64_t catch_up; /* tables that were */
	XLogRecPtr from;       /* the earliest of their positions */
};

// ---- leaves: may ereport; plain data only ----

/* The copy worker does not outlive the apply worker: a position is held back for it. */
void
stop_copy_worker(int, Datum)
{
	if (running != nullptr)
		TerminateBackgroundWorker(running);
	running = nullptr;
}

Due
load_due(std::int64_t subid)
{
	using namespace catalog;

	Due due = {};
	begin();
	Internal internal = begin_internal();
	/* the copy worker has ended: what it was at begins again; one that commits just now is waited for */
	run("UPDATE schemasync.relation SET state = 'init' WHERE subid = $1 AND state = 'copying'", {as_int8(subid)});
	run_latest("SELECT count(*) FILTER (WHERE r.state = 'init' OR (r.state = 'ready' AND r.adopting AND r.relid <> 0)) + CASE WHEN s.refresh THEN 1 ELSE 0 END,"
	           " count(*) FILTER (WHERE r.state = 'catchup'), min(r.sync_lsn) FILTER (WHERE r.state = 'catchup')"
	           " FROM schemasync.subscription s LEFT JOIN schemasync.relation r ON r.subid = s.subid AND (r.state IN ('init', 'catchup') OR r.adopting)"
	           " WHERE s.subid = $1 GROUP BY s.refresh",
	           {as_int8(subid)});
	if (SPI_processed == 1)
		due = {result_int8(0, 1), result_int8(0, 2), result_lsn(0, 3)};
	end_internal(internal);
	commit();
	return due;
}

/* The tables that were copied at a position that the stream has not passed are ready: it goes on with them by itself. */
void
finish_copied(std::int64_t subid)
{
	using namespace catalog;

	begin();
	Internal internal = begin_internal();
	std::uint64_t count = run("UPDATE schemasync.relation SET state = 'ready' WHERE subid = $1 AND state = 'catchup'"
	                          " RETURNING publisher_oid",
	                          {as_int8(subid)});
	end_internal(internal);
	catalog::resolve_copy_errors(subid);
	commit();
	/* foreign keys whose other side was not there yet, say */
	if (count > 0)
		finish_rest(*load(subid));
}

const char *
list_catch_up(const Session *session)
{
	using namespace catalog;

	StringInfoData list;
	begin();
	Internal internal = begin_internal();
	std::uint64_t count = run("SELECT publisher_oid FROM schemasync.relation WHERE subid = $1 AND state = 'catchup'",
	                          {as_int8(session->subscription->subid)});
	initStringInfo(&list);
	for (std::uint64_t i = 0; i < count; i++)
		appendStringInfo(&list, "%s%u", i > 0 ? "," : "", result_oid(i, 1));
	char *kept = MemoryContextStrdup(session->context, list.data);
	end_internal(internal);
	commit();
	return kept;
}

/* returns: false when no background worker is to be had */
bool
start_copy_worker(Session *session)
{
	BackgroundWorker worker = {};
	BackgroundWorkerHandle *handle = nullptr;
	const char *shown_as = psprintf("schemasync copy %s", session->subscription->name);
	std::int64_t subid = session->subscription->subid;

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "schemasync", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "schemasync_copy_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, shown_as, BGW_MAXLEN);
	strlcpy(worker.bgw_type, shown_as, BGW_MAXLEN);
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	memcpy(worker.bgw_extra, &session->subscription->owner, sizeof(Oid));
	memcpy(worker.bgw_extra + sizeof(Oid), &subid, sizeof(subid));

	MemoryContext saved = MemoryContextSwitchTo(session->context);
	bool registered = RegisterDynamicBackgroundWorker(&worker, &handle);
	MemoryContextSwitchTo(saved);
	if (!registered)
		return false;
	static bool told = false;
	if (!told)
		before_shmem_exit(stop_copy_worker, 0);
	told = true;
	running = session->beside.worker = handle;
	return true;
}

void
pause_copies(Session *session)
{
	long pause = Min(first_pause << Min(session->beside.failures, 5), longest_pause);

	session->beside.failures++;
	session->beside.next_look = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), pause);
}

/* Whether a transaction of the publisher is prepared here, which only the stream can end. */
bool
has_prepared(std::int64_t subid)
{
	begin();
	catalog::Internal internal = catalog::begin_internal();
	catalog::run("SELECT count(*) FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database()"
	             " AND gid ~ $1 AND owner = (SELECT pg_catalog.pg_get_userbyid(s.owner) FROM schemasync.subscription s WHERE s.subid = $2)",
	             {catalog::as_text(psprintf("^schemasync_%lld_[0-9]{1,10}$", static_cast<long long>(subid))), catalog::as_int8(subid)});
	bool found = catalog::result_int8(0, 1) > 0;
	catalog::end_internal(internal);
	commit();
	return found;
}

void
begin_copies(Session *session)
{
	const catalog::Subscription *subscription = session->subscription;

	if (subscription->options.two_phase) {
		/* The copy would wait for its rows, and its end for the copy: the stream goes on until there is none. */
		if (has_prepared(subscription->subid)) {
			session->beside.next_look = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), prepared_pause);
			return;
		}
		/* prepared transactions cannot be read once more: the copy takes the stream's place */
		catalog::Internal internal = {};
		begin();
		internal = catalog::begin_internal();
		catalog::run("UPDATE schemasync.subscription SET copied = false, refresh = false, refresh_copy = coalesce(refresh_copy, true)"
		             " WHERE subid = $1",
		             {catalog::as_int8(subscription->subid)});
		catalog::end_internal(internal);
		commit();
		end_worker(Leave::Again);
	}
	session->progress.holding = true;
	session->progress.hold = current_progress();
	if (start_copy_worker(session))
		return;
	session->progress.holding = false;
	if (session->beside.failures == 0)
		ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
		                  errmsg("out of background worker slots: tables of subscription \"%s\" wait for their copy",
		                         subscription->name),
		                  errhint("Increase max_worker_processes (now %d) and restart the server.", max_worker_processes)));
	pause_copies(session);
}

/* returns: whether the stream has to be read once more */
bool
begin_catch_up(Session *session, XLogRecPtr from)
{
	/* Not the origin's position alone: transactions that only had rows of these tables were passed over without a commit, and any later commit
	 * may bring the origin to where they ended. */
	XLogRecPtr here = Max(current_progress(), session->passed);

	apply::forget_mappings(session->relations);
	if (from >= here) {
		finish_copied(session->subscription->subid);
		session->progress.holding = false;
		return false;
	}
	session->catch_up = {true, false, here, list_catch_up(session)};
	pg::at_point("catch_up_begun");
	session->progress.holding = true;
	session->progress.hold = Min(from, here);
	return true;
}

} // namespace

void
begin_beside(Session *session)
{
	session->beside.look = true;
}

bool
tend_beside(Session *session)
{
	apply::Beside *beside = &session->beside;
	bool ended = false;

	if (session->catch_up.active)
		return false;
	if (beside->worker != nullptr) {
		pid_t pid = 0;
		if (GetBackgroundWorkerPid(beside->worker, &pid) != BGWH_STOPPED)
			return false;
		pfree(beside->worker);
		running = beside->worker = nullptr;
		ended = beside->look = true;
	}
	if (!beside->look && (beside->next_look == 0 || GetCurrentTimestamp() < beside->next_look))
		return false;
	bool paused = beside->next_look != 0 && GetCurrentTimestamp() < beside->next_look;
	beside->look = false;
	Due due = load_due(session->subscription->subid);
	apply::forget_mappings(session->relations);
	if (due.catch_up > 0) {
		beside->failures = 0;
		beside->look = due.waiting > 0;
		return begin_catch_up(session, due.from);
	}
	session->progress.holding = false;
	if (due.waiting == 0) {
		beside->failures = 0;
		beside->next_look = 0;
	} else if (ended)
		pause_copies(session);
	else if (!paused) {
		beside->next_look = 0;
		begin_copies(session);
	}
	return false;
}

bool
is_copying_beside(const Session *session)
{
	return session->beside.worker != nullptr || session->catch_up.active;
}

void
end_catch_up(Session *session)
{
	pg::at_point("catch_up_end");
	finish_copied(session->subscription->subid);
	pg::at_point("catch_up_done");
	pfree(const_cast<char *>(session->catch_up.relations));
	session->catch_up = {};
	session->progress.holding = false;
	session->beside.look = true;
	apply::forget_mappings(session->relations);
}

XLogRecPtr
catch_up_from(const Session *session)
{
	Due due = load_due(session->subscription->subid);

	/* all of its tables may have been dropped meanwhile */
	return XLogRecPtrIsInvalid(due.from) ? session->catch_up.until : due.from;
}

bool
may_wait_for_copies(const Session *session)
{
	return session->beside.failures <= bearable_failures && !session->catch_up.active;
}

void
wait_for_copies(Session *session)
{
	(void) tend_beside(session);
	do {
		WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 500, pg::compat::wait_event("SchemasyncCopyWait"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		(void) tend_beside(session);
	} while (session->beside.worker != nullptr);
	/* prepared transactions put the copy off, and what ends them may come after the change that waits: it is refused at last */
	if (session->subscription->options.two_phase && session->beside.next_look != 0)
		session->beside.failures++;
}

} // namespace schemasync::worker
