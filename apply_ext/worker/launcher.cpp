/*
 * The launcher: one background worker of the server that starts an apply worker for each subscription of each database and starts it
 * again when it has ended.
 *
 * It has no database. Subscriptions it learns from shared memory, where the functions put them and, at the server's start, the scan
 * of replication origins (scan.cpp). Whether a subscription is enabled, its worker finds out and says by the way it leaves.
 */
#include "apply_ext/worker/local.hpp"
#include "apply_ext/worker/slots.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

SCHEMASYNC_EXPORT void schemasync_launcher_main(Datum argument);

namespace schemasync::worker {

namespace {

/* What only the launcher knows of a slot; lost when it starts anew. */
struct Handle {
	BackgroundWorkerHandle *worker;
	bool told_full; /* that no background worker was to be had */
};

/* A worker that was registered by a launcher that is gone gets this long to attach, ms. */
constexpr int lost_start_timeout = 10000;

/* How soon it looks again at a subscription that somebody holds, ms. */
constexpr long locked_retry = 20;

// ---- leaves: may ereport; plain data only ----

void
leave_launcher(int, Datum)
{
	SpinLockAcquire(&area->mutex);
	area->launcher_latch = nullptr;
	SpinLockRelease(&area->mutex);
}

/* Not from the syscache and not by the index: what they need of pg_class is not to be had without a database. */
bool
database_exists(Oid database)
{
	ScanKeyData key;

	Relation table = table_open(DatabaseRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_database_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(database));
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 1, &key);
	bool found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return found;
}

void
fill_worker(BackgroundWorker *worker, const char *function, const char *shown_as)
{
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker->bgw_library_name, "schemasync", sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
	strlcpy(worker->bgw_name, shown_as, BGW_MAXLEN);
	strlcpy(worker->bgw_type, shown_as, BGW_MAXLEN);
	worker->bgw_notify_pid = MyProcPid;
}

bool
take_scan_request()
{
	SpinLockAcquire(&area->mutex);
	bool asked = area->scan;
	area->scan = false;
	SpinLockRelease(&area->mutex);
	return asked;
}

/* A worker that ended before it attached left no word; without this its slot would wait for it for ever. */
void
look_after_start(Slot *slot, Handle *handle)
{
	TimestampTz now = GetCurrentTimestamp();
	bool lost = false;

	if (handle->worker != nullptr) {
		pid_t pid = 0;
		lost = GetBackgroundWorkerPid(handle->worker, &pid) == BGWH_STOPPED;
	} else
		lost = TimestampDifferenceExceeds(slot->started_at, now, lost_start_timeout);
	if (!lost)
		return;

	SpinLockAcquire(&slot->mutex);
	if (slot->starting) {
		slot->starting = false;
		slot->failures++;
		slot->next_start = TimestampTzPlusMilliseconds(now, Min(1000L << Min(slot->failures, 5), 30000L));
	}
	SpinLockRelease(&slot->mutex);
	ConditionVariableBroadcast(&slot->changed);
}

/* Starts a worker. Holding the subscription's lock. */
void
start_worker(int number, Slot *slot, Handle *handle)
{
	BackgroundWorker worker = {};
	std::uint32_t generation;

	SpinLockAcquire(&slot->mutex);
	generation = ++slot->generation;
	slot->starting = true;
	slot->cancel = false;
	slot->started_at = GetCurrentTimestamp();
	SpinLockRelease(&slot->mutex);

	fill_worker(&worker, "schemasync_apply_main", psprintf("schemasync apply %s", slot->name));
	worker.bgw_main_arg = Int32GetDatum(number);
	memcpy(worker.bgw_extra, &generation, sizeof(generation));

	MemoryContext saved = MemoryContextSwitchTo(TopMemoryContext);
	if (handle->worker != nullptr)
		pfree(handle->worker);
	handle->worker = nullptr;
	bool registered = RegisterDynamicBackgroundWorker(&worker, &handle->worker);
	MemoryContextSwitchTo(saved);
	if (registered) {
		handle->told_full = false;
		return;
	}

	SpinLockAcquire(&slot->mutex);
	slot->starting = false;
	slot->next_start = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 5000);
	SpinLockRelease(&slot->mutex);
	if (!handle->told_full)
		ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg("out of background worker slots"),
		                  errhint("Increase max_worker_processes (now %d) and restart the server.", max_worker_processes)));
	handle->told_full = true;
}

/*
 * Starts what is due.
 *
 * returns: ms until the next one is due, at most `longest`
 */
long
start_due(Handle *handles, long longest)
{
	for (int i = 0; i < area->size; i++) {
		Slot *slot = &area->slots[i];
		TimestampTz now = GetCurrentTimestamp();

		SpinLockAcquire(&slot->mutex);
		bool starting = slot->used && slot->starting;
		bool idle = slot->used && slot->wanted && slot->pid == 0 && !slot->starting;
		TimestampTz next_start = slot->next_start;
		SpinLockRelease(&slot->mutex);

		if (starting) {
			look_after_start(slot, &handles[i]);
			longest = Min(longest, 1000L);
		}
		if (!idle)
			continue;
		if (next_start > now) {
			longest = Min(longest, Max(1L, static_cast<long>((next_start - now) / 1000 + 1)));
			continue;
		}
		/* held by a function that is changing the subscription, or that has just committed: its wake comes before it lets go */
		if (!try_lock_subscription(slot->database, slot->subid)) {
			longest = Min(longest, locked_retry);
			continue;
		}
		start_worker(i, slot, &handles[i]);
		unlock_subscription(slot->database, slot->subid);
		longest = Min(longest, 1000L);
	}
	return longest;
}

/*
 * A database in which the scan may run for a moment: any that can be connected to, but templates last, since CREATE DATABASE needs
 * them alone. InvalidOid: none.
 */
Oid
pick_database()
{
	Oid best = InvalidOid;
	int best_rank = 0;

	Relation table = table_open(DatabaseRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
		Form_pg_database form = reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple));
		if (!form->datallowconn || form->datconnlimit < -1)
			continue;
		int rank = form->datistemplate ? 1 : strcmp(NameStr(form->datname), "postgres") == 0 ? 3 : 2;
		if (rank > best_rank) {
			best = form->oid;
			best_rank = rank;
		}
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return best;
}

/* Starts the scan. returns: false when no background worker is to be had */
bool
start_scan()
{
	BackgroundWorker worker = {};

	fill_worker(&worker, "schemasync_scan_main", "schemasync scan");
	worker.bgw_main_arg = ObjectIdGetDatum(pick_database());
	return OidIsValid(DatumGetObjectId(worker.bgw_main_arg)) && RegisterDynamicBackgroundWorker(&worker, nullptr);
}

/* Gives back slots of dropped subscriptions and of databases that are gone; the origins of the latter are the scan's to drop. */
void
collect_slots()
{
	for (int i = 0; i < area->size; i++) {
		Slot *slot = &area->slots[i];
		if (!slot->used)
			continue;
		if (!slot->gone && !database_exists(slot->database)) {
			mark_gone(slot->database, slot->subid);
			request_scan();
		}
		if (slot->gone)
			collect_slot(slot);
	}
}

void
begin_launcher()
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	SpinLockAcquire(&area->mutex);
	area->launcher_latch = &MyProc->procLatch;
	area->scan = true;
	SpinLockRelease(&area->mutex);
	before_shmem_exit(leave_launcher, 0);

	/* only shared catalogs, and of those only the ones that the server knows without reading pg_class */
	BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
}

void
run_launcher()
{
	begin_launcher();
	Size handles_size = sizeof(Handle) * static_cast<Size>(area->size);
	Handle *handles = static_cast<Handle *>(MemoryContextAllocZero(TopMemoryContext, handles_size));
	uint32 wait_event = pg::compat::wait_event("SchemasyncLauncherMain");

	for (;;) {
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending) {
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		begin();
		collect_slots();
		if (take_scan_request() && !start_scan())
			request_scan();
		long timeout = start_due(handles, launcher_naptime);
		commit();

		pgstat_report_activity(STATE_IDLE, nullptr);
		WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout, wait_event);
		ResetLatch(MyLatch);
	}
}

} // namespace

} // namespace schemasync::worker

void
schemasync_launcher_main(Datum)
{
	schemasync::worker::run_launcher();
}
