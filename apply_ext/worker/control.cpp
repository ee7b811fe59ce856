#include "apply_ext/worker/control.hpp"

#include "apply_ext/worker/slots.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/xact.h"
#include "catalog/pg_subscription.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

enum class Action : std::uint8_t { Wake, Restart, Rest, Create, Forget, EndDraining };

/* What is to be done when the transaction has committed. */
struct Pending {
	Action action;
	Oid database;
	std::int64_t subid;
	int level; /* of the subtransaction that asked */
};

List *pending = NIL; /* in TopTransactionContext */
bool registered = false;

void
do_restart(const Pending *one)
{
	Slot *slot = find_slot(one->database, one->subid);

	if (slot == nullptr)
		return;
	SpinLockAcquire(&slot->mutex);
	int pid = slot->pid;
	if (pid != 0 || slot->starting)
		slot->restart = true;
	else {
		slot->wanted = true;
		slot->failures = 0;
		slot->next_start = 0;
	}
	SpinLockRelease(&slot->mutex);
	if (pid != 0)
		kill(pid, SIGTERM);
}

/* Its worker was ended before, and none may start while the subscription's lock was held. */
void
do_rest(const Pending *one)
{
	Slot *slot = find_slot(one->database, one->subid);

	if (slot == nullptr)
		return;
	SpinLockAcquire(&slot->mutex);
	slot->wanted = slot->restart = false;
	SpinLockRelease(&slot->mutex);
}

void
set_draining(Oid database, std::int64_t subid, bool draining)
{
	Slot *slot = find_slot(database, subid);

	if (slot == nullptr)
		return;
	SpinLockAcquire(&slot->mutex);
	slot->draining = draining;
	SpinLockRelease(&slot->mutex);
}

/* Runs after the commit or abort: nothing here may raise. */
void
at_transaction_end(XactEvent event, void *)
{
	if (pending == NIL)
		return;
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
		return;

	ListCell *cell;
	foreach (cell, pending) {
		Pending *one = static_cast<Pending *>(lfirst(cell));
		bool committed = event == XACT_EVENT_COMMIT;
		if (one->action == Action::Restart && committed)
			do_restart(one);
		else if (one->action == Action::Rest && committed)
			do_rest(one);
		else if ((one->action == Action::Create && event == XACT_EVENT_ABORT) || (one->action == Action::Forget && committed))
			mark_gone(one->database, one->subid);
		else if (one->action == Action::EndDraining)
			set_draining(one->database, one->subid, false);
	}
	pending = NIL;
	wake_launcher();
}

void
at_subtransaction_end(SubXactEvent event, SubTransactionId, SubTransactionId, void *)
{
	int level = GetCurrentTransactionNestLevel();
	ListCell *cell;

	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	foreach (cell, pending) {
		Pending *one = static_cast<Pending *>(lfirst(cell));
		if (one->level < level)
			continue;
		one->level = level - 1;
		if (event != SUBXACT_EVENT_ABORT_SUB)
			continue;
		if (one->action == Action::Restart || one->action == Action::Rest)
			one->action = Action::Wake;
		else if (one->action == Action::Create)
			one->action = Action::Forget;
		else if (one->action == Action::Forget)
			one->action = Action::Wake;
	}
}

// ---- leaves: may ereport; plain data only ----

void
remember(Action action, std::int64_t subid)
{
	if (!registered) {
		RegisterXactCallback(at_transaction_end, nullptr);
		RegisterSubXactCallback(at_subtransaction_end, nullptr);
		registered = true;
	}
	MemoryContext saved = MemoryContextSwitchTo(TopTransactionContext);
	Pending *one = static_cast<Pending *>(palloc0(sizeof(Pending)));
	one->action = action;
	one->database = MyDatabaseId;
	one->subid = subid;
	one->level = GetCurrentTransactionNestLevel();
	pending = lappend(pending, one);
	MemoryContextSwitchTo(saved);
}

void
need_slot(std::int64_t subid)
{
	require_preload();
	if (take_slot(MyDatabaseId, subid) == nullptr)
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg("out of slots for subscriptions"),
		                errhint("Increase schemasync.max_subscriptions (now %d) and restart the server.", area->size)));
}

void
copy_status(Slot *slot, Status *status)
{
	SpinLockAcquire(&slot->mutex);
	status->subid = slot->subid;
	status->pid = slot->pid;
	status->state = slot->state;
	status->draining = slot->draining;
	status->reported = slot->reported;
	status->state_since = slot->state_since;
	status->received = slot->received;
	status->applied = slot->applied;
	status->confirmed = slot->confirmed;
	status->sent_at = slot->sent_at;
	status->received_at = slot->received_at;
	status->committed_at = slot->committed_at;
	status->rows = slot->rows;
	status->transactions = slot->transactions;
	status->failures = slot->failures;
	status->verifier = slot->verifier;
	status->verify_relation = slot->verify_relation;
	status->verify_done = slot->verify_done;
	status->verify_total = slot->verify_total;
	status->indexer = slot->index_pid;
	status->next_start = slot->pid == 0 && slot->wanted ? slot->next_start : 0;
	SpinLockRelease(&slot->mutex);
}

/*
 * The lock of a subscription: an object of its database under the class of the built-in subscriptions, whose own locks are of shared objects
 * (database 0) and so never the same.
 */
void
set_subscription_tag(LOCKTAG *tag, Oid database, std::int64_t subid)
{
	SET_LOCKTAG_OBJECT(*tag, database, SubscriptionRelationId, static_cast<Oid>(subid), 0);
}

} // namespace

void
set_build_tag(LOCKTAG *tag, Oid database, Oid relid)
{
	SET_LOCKTAG_OBJECT(*tag, database, SubscriptionRelationId, relid, 1);
}

bool
get_status(std::int64_t subid, Status *status)
{
	Slot *slot = find_slot(MyDatabaseId, subid);

	if (slot == nullptr)
		return false;
	copy_status(slot, status);
	return true;
}

Status *
all_status(int *count)
{
	*count = 0;
	if (area == nullptr)
		return nullptr;

	Status *all = static_cast<Status *>(palloc0(sizeof(Status) * static_cast<Size>(area->size)));
	LWLockAcquire(area->lock, LW_SHARED);
	for (int i = 0; i < area->size; i++) {
		if (area->slots[i].used && area->slots[i].database == MyDatabaseId)
			copy_status(&area->slots[i], &all[(*count)++]);
	}
	LWLockRelease(area->lock);
	return all;
}

bool
try_lock_subscription(Oid database, std::int64_t subid)
{
	LOCKTAG tag;

	set_subscription_tag(&tag, database, subid);
	return LockAcquire(&tag, ShareLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

void
unlock_subscription(Oid database, std::int64_t subid)
{
	LOCKTAG tag;

	set_subscription_tag(&tag, database, subid);
	LockRelease(&tag, ShareLock, false);
}

void
lock_subscription_exclusive(std::int64_t subid)
{
	LOCKTAG tag;

	set_subscription_tag(&tag, MyDatabaseId, subid);
	(void) LockAcquire(&tag, AccessExclusiveLock, false, false);
}

void
lock_subscription(std::int64_t subid)
{
	require_preload();
	remember(Action::Wake, subid);
	lock_subscription_exclusive(subid);
}

void
restart_at_commit(std::int64_t subid)
{
	need_slot(subid);
	remember(Action::Restart, subid);
}

void
rest_at_commit(std::int64_t subid)
{
	need_slot(subid);
	remember(Action::Rest, subid);
}

void
start_at_commit(std::int64_t subid)
{
	remember(Action::Create, subid);
	need_slot(subid);
}

void
show_draining(std::int64_t subid)
{
	remember(Action::EndDraining, subid);
	set_draining(MyDatabaseId, subid, true);
}

void
forget_at_commit(std::int64_t subid)
{
	remember(Action::Forget, subid);
}

void
stop_worker(std::int64_t subid)
{
	Slot *slot = find_slot(MyDatabaseId, subid);

	if (slot == nullptr)
		return;
	uint32 wait_event = pg::compat::wait_event("SchemasyncStop");
	ConditionVariablePrepareToSleep(&slot->changed);
	for (;;) {
		SpinLockAcquire(&slot->mutex);
		bool same = slot->used && slot->database == MyDatabaseId && slot->subid == subid;
		int pid = same ? slot->pid : 0;
		bool starting = same && slot->starting;
		if (starting)
			slot->cancel = true;
		int index_pid = same ? slot->index_pid : 0;
		if (same)
			slot->index_starting = false; /* one that attaches now ends at once */
		SpinLockRelease(&slot->mutex);
		if (pid == 0 && !starting && index_pid == 0)
			break;
		if (pid != 0)
			kill(pid, SIGTERM);
		if (index_pid != 0)
			kill(index_pid, SIGTERM);
		ConditionVariableTimedSleep(&slot->changed, 1000, wait_event);
	}
	ConditionVariableCancelSleep();
}

void
wait_for_report(std::int64_t subid, long timeout_ms)
{
	Slot *slot = find_slot(MyDatabaseId, subid);
	uint32 wait_event = pg::compat::wait_event("SchemasyncWait");

	if (slot == nullptr) {
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, Min(timeout_ms, 100L), wait_event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		return;
	}
	/* the caller looks at the status between two calls: a report that falls there is found by its next look, at the latest after this
	 * timeout; it goes to sleep once before it is prepared, then at each report */
	ConditionVariableTimedSleep(&slot->changed, timeout_ms, wait_event);
}

void
end_wait()
{
	ConditionVariableCancelSleep();
}

void
announce_wait(std::int64_t subid, XLogRecPtr lsn)
{
	Slot *slot = find_slot(MyDatabaseId, subid);

	if (slot == nullptr)
		return;
	uint64 before = pg_atomic_read_u64(&slot->awaited);
	while (before < lsn && !pg_atomic_compare_exchange_u64(&slot->awaited, &before, lsn)) {
	}
	SpinLockAcquire(&slot->mutex);
	Latch *latch = slot->latch;
	SpinLockRelease(&slot->mutex);
	if (latch != nullptr)
		SetLatch(latch);
}

} // namespace schemasync::worker
