/*
 * The launcher: one background worker of the server that starts an apply worker for each subscription of each database and starts it
 * again when it has ended.
 *
 * It has no database, so it knows subscriptions by what is shared: their replication origins. Whether a subscription is enabled, its
 * worker finds out and says by the way it leaves.
 */
#include "apply_ext/worker/slots.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_replication_origin.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/origin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
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

struct Known {
	Oid database;
	std::int64_t subid;
};

/* A worker that was registered by a launcher that is gone gets this long to attach, ms. */
constexpr int lost_start_timeout = 10000;

bool told_slots_full = false;

// ---- leaves: may ereport; plain data only ----

void
leave_launcher(int, Datum)
{
	SpinLockAcquire(&area->mutex);
	area->launcher_pid = 0;
	area->launcher_latch = nullptr;
	SpinLockRelease(&area->mutex);
}

/* The subscriptions of all databases by their origins; origins of databases that are gone are dropped. Needs a transaction. */
Known *
scan_origins(int *count)
{
	int allocated = 16;
	Known *known = static_cast<Known *>(palloc(sizeof(Known) * static_cast<Size>(allocated)));
	List *stale = NIL;
	*count = 0;

	Relation table = table_open(ReplicationOriginRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
		bool isnull = true;
		Datum value = heap_getattr(tuple, Anum_pg_replication_origin_roname, RelationGetDescr(table), &isnull);
		Known one = {};
		char *origin = isnull ? nullptr : TextDatumGetCString(value);
		if (origin == nullptr || !parse_origin_name(origin, &one.database, &one.subid))
			continue;
		if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(one.database))) {
			stale = lappend(stale, origin);
			continue;
		}
		if (*count == allocated) {
			allocated *= 2;
			known = static_cast<Known *>(repalloc(known, sizeof(Known) * static_cast<Size>(allocated)));
		}
		known[(*count)++] = one;
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);

	ListCell *cell;
	foreach (cell, stale) {
		char *origin = static_cast<char *>(lfirst(cell));
		ereport(LOG, (errmsg("dropping replication origin \"%s\" of a database that is gone", origin)));
		replorigin_drop_by_name(origin, true, true);
	}
	return known;
}

bool
is_known(const Known *known, int count, Oid database, std::int64_t subid)
{
	for (int i = 0; i < count; i++) {
		if (known[i].database == database && known[i].subid == subid)
			return true;
	}
	return false;
}

void
take_slot(const Known *one)
{
	Slot *slot = nullptr;

	LWLockAcquire(area->lock, LW_EXCLUSIVE);
	for (int i = 0; i < area->size && slot == nullptr; i++) {
		if (!area->slots[i].used)
			slot = &area->slots[i];
	}
	if (slot != nullptr) {
		SpinLockAcquire(&slot->mutex);
		slot->used = true;
		slot->database = one->database;
		slot->subid = one->subid;
		slot->owner = InvalidOid;
		snprintf(slot->name, sizeof(slot->name), "%u/" INT64_FORMAT, one->database, one->subid);
		slot->wanted = true;
		slot->starting = slot->cancel = slot->restart = slot->streamed = slot->reload = slot->reported = slot->draining = false;
		slot->started_at = slot->next_start = slot->state_since = 0;
		slot->failures = slot->pid = 0;
		slot->received = slot->applied = slot->confirmed = InvalidXLogRecPtr;
		slot->sent_at = slot->received_at = slot->committed_at = 0;
		slot->rows = slot->transactions = 0;
		SpinLockRelease(&slot->mutex);
		pg_atomic_write_u64(&slot->awaited, 0);
	}
	LWLockRelease(area->lock);

	if (slot == nullptr && !told_slots_full)
		ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg("out of slots for subscriptions"),
		                  errhint("Increase schemasync.max_subscriptions (now %d) and restart the server.", area->size)));
	told_slots_full = told_slots_full || slot == nullptr;
}

/* Gives slots to subscriptions that have none and takes back those of subscriptions that are gone. */
void
match_slots(const Known *known, int count, Handle *handles)
{
	for (int i = 0; i < count; i++) {
		if (find_slot(known[i].database, known[i].subid) == nullptr)
			take_slot(&known[i]);
	}

	LWLockAcquire(area->lock, LW_EXCLUSIVE);
	for (int i = 0; i < area->size; i++) {
		Slot *slot = &area->slots[i];
		if (!slot->used || is_known(known, count, slot->database, slot->subid))
			continue;
		SpinLockAcquire(&slot->mutex);
		slot->wanted = false;
		bool gone = slot->pid == 0 && !slot->starting;
		if (gone)
			slot->used = false;
		SpinLockRelease(&slot->mutex);
		if (gone) {
			handles[i] = Handle{};
			told_slots_full = false;
		}
	}
	LWLockRelease(area->lock);
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

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "schemasync", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "schemasync_apply_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "schemasync apply %s", slot->name);
	strlcpy(worker.bgw_type, worker.bgw_name, BGW_MAXLEN);
	worker.bgw_notify_pid = MyProcPid;
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
		/* held by a function that is changing the subscription: its end wakes the launcher */
		if (!try_lock_subscription(slot->database, slot->subid))
			continue;
		start_worker(i, slot, &handles[i]);
		unlock_subscription(slot->database, slot->subid);
		longest = Min(longest, 1000L);
	}
	return longest;
}

void
run_launcher()
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	SpinLockAcquire(&area->mutex);
	area->launcher_pid = MyProcPid;
	area->launcher_latch = &MyProc->procLatch;
	SpinLockRelease(&area->mutex);
	before_shmem_exit(leave_launcher, 0);

	/* only shared catalogs */
	BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);

	Size handles_size = sizeof(Handle) * static_cast<Size>(area->size);
	Handle *handles = static_cast<Handle *>(MemoryContextAllocZero(TopMemoryContext, handles_size));
	uint32 wait_event = pg::compat::wait_event("SchemasyncLauncherMain");

	for (;;) {
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending) {
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		int count = 0;
		Known *known = scan_origins(&count);
		match_slots(known, count, handles);
		long timeout = start_due(handles, launcher_naptime);
		PopActiveSnapshot();
		CommitTransactionCommand();

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
