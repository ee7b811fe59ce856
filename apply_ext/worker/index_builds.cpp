#include "apply_ext/apply/session.hpp"

#include <csignal>

#include "apply_ext/catalog/index_build.hpp"
#include "apply_ext/worker/index_builds.hpp"
#include "apply_ext/worker/progress.hpp"
#include "apply_ext/worker/slots.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/xact.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "utils/snapmgr.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

/* How often the apply worker looks whether the index worker is still there, ms. */
constexpr int look_again = 10000;
/* A worker that did not attach for so long will not any more, ms. */
constexpr int lost_start = 10000;
/* How many attempts changes of the table may end until the stream stands for the next one, and for how long it stands when that gets
 * no further, ms. */
constexpr int patience = 5;
constexpr int no_progress = 10000;
/* How often it looks, ms. */
constexpr int look_at_build = 100;

// ---- leaves: may ereport; plain data only ----

/* Tells the worker to let go of the table; InvalidOid: of any. returns: whether it had one */
bool
interrupt(Slot *slot, Oid relid)
{
	int pid = 0;

	SpinLockAcquire(&slot->mutex);
	if (slot->used && slot->database == MyDatabaseId && slot->index_pid != 0 && OidIsValid(slot->index_relid) &&
	    (slot->index_relid == relid || !OidIsValid(relid))) {
		slot->index_yield = true;
		pid = slot->index_pid;
	}
	SpinLockRelease(&slot->mutex);
	if (pid != 0)
		kill(pid, SIGINT);
	return pid != 0;
}

bool
interrupt_all(Oid relid)
{
	bool any = false;

	if (area == nullptr)
		return false;
	LWLockAcquire(area->lock, LW_SHARED);
	for (int i = 0; i < area->size; i++)
		any = interrupt(&area->slots[i], relid) || any;
	LWLockRelease(area->lock);
	return any;
}

/* returns: the number of the start that the worker has to show, 0 when one is there already, which is woken */
std::uint32_t
claim_start(Slot *slot)
{
	TimestampTz now = GetCurrentTimestamp();
	std::uint32_t generation = 0;
	Latch *latch = nullptr;

	SpinLockAcquire(&slot->mutex);
	if (slot->index_pid != 0)
		latch = slot->index_latch;
	else if (!slot->index_starting || TimestampDifferenceExceeds(slot->index_started_at, now, lost_start)) {
		slot->index_starting = true;
		slot->index_started_at = now;
		generation = ++slot->index_generation;
	}
	SpinLockRelease(&slot->mutex);
	if (latch != nullptr)
		SetLatch(latch);
	return generation;
}

} // namespace

void
start_index_worker(const catalog::Subscription &subscription)
{
	BackgroundWorker worker = {};
	Slot *slot = find_slot(MyDatabaseId, subscription.subid);
	static bool told = false;

	if (slot == nullptr || !catalog::has_index_builds(subscription.subid))
		return;
	std::uint32_t generation = claim_start(slot);
	if (generation == 0)
		return;
	IndexWorkerStart start = {subscription.owner, generation, subscription.subid};
	static_assert(sizeof(start) <= BGW_EXTRALEN);

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "schemasync", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "schemasync_index_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, psprintf("schemasync index %s", subscription.name), BGW_MAXLEN);
	strlcpy(worker.bgw_type, worker.bgw_name, BGW_MAXLEN);
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	memcpy(worker.bgw_extra, &start, sizeof(start));
	if (RegisterDynamicBackgroundWorker(&worker, nullptr)) {
		told = false;
		return;
	}
	SpinLockAcquire(&slot->mutex);
	slot->index_starting = false;
	SpinLockRelease(&slot->mutex);
	if (!told)
		ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
		                  errmsg("out of background worker slots: indexes of subscription \"%s\" wait to be built", subscription.name),
		                  errhint("Increase max_worker_processes (now %d) and restart the server.", max_worker_processes)));
	told = true;
}

void
tend_index_builds(apply::Session *session)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!session->index_look && now < session->index_next_look)
		return;
	session->index_look = false;
	session->index_next_look = TimestampTzPlusMilliseconds(now, look_again);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	start_index_worker(*session->subscription);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

void
give_way_to_build(apply::Session *session)
{
	std::int64_t subid = session->subscription->subid;
	TimestampTz moved_at = GetCurrentTimestamp();
	char *before = nullptr;
	bool stood = false;

	session->index_turn = false;
	/* a publisher whose commits wait for this server is not kept waiting for an index */
	if (session->upstream.is_awaited)
		return;
	for (;;) {
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		char *now = catalog::starved_build(subid, patience);
		if (now != nullptr && !stood)
			start_index_worker(*session->subscription);
		now = now == nullptr ? nullptr : MemoryContextStrdup(session->error, now);
		PopActiveSnapshot();
		CommitTransactionCommand();
		if (now == nullptr)
			break;
		if (!stood) {
			set_state(State::WaitingLock);
			(void) advance_idle(&session->progress, Haste::Now);
			flush_commits(&session->progress);
			send_feedback(&session->progress, &session->upstream, true, true, false);
			ereport(LOG, (errmsg("subscription \"%s\" waits for the build of an index that changes of its table have ended %d times or more",
			                     session->subscription->name, patience)));
		}
		stood = true;
		if (before == nullptr || strcmp(before, now) != 0)
			moved_at = GetCurrentTimestamp();
		else if (TimestampDifferenceExceeds(moved_at, GetCurrentTimestamp(), no_progress)) {
			StartTransactionCommand();
			PushActiveSnapshot(GetTransactionSnapshot());
			catalog::give_up_starved_builds(subid, patience);
			PopActiveSnapshot();
			CommitTransactionCommand();
			break;
		}
		if (before != nullptr)
			pfree(before);
		before = now;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, look_at_build,
		                 pg::compat::wait_event("SchemasyncIndexTurn"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		send_feedback(&session->progress, &session->upstream, true, false, false);
	}
	if (stood)
		set_state(State::Streaming);
	/* nothing was read meanwhile, which is not the publisher's silence */
	session->progress.received_at = GetCurrentTimestamp();
}

void
hold_index_build(Oid relid)
{
	LOCKTAG tag;

	set_build_tag(&tag, MyDatabaseId, relid);
	while (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL) {
		/* without somebody to interrupt it is another session that holds it back, or a worker that is about to let go */
		(void) interrupt_all(relid);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 20, pg::compat::wait_event("SchemasyncIndexStop"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

bool
interrupt_index_builds()
{
	return interrupt_all(InvalidOid);
}

bool
is_building_indexes()
{
	bool any = false;

	if (area == nullptr)
		return false;
	LWLockAcquire(area->lock, LW_SHARED);
	for (int i = 0; i < area->size; i++)
		any = any || (area->slots[i].used && area->slots[i].database == MyDatabaseId && OidIsValid(area->slots[i].index_relid));
	LWLockRelease(area->lock);
	return any;
}

} // namespace schemasync::worker
