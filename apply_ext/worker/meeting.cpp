#include "apply_ext/worker/meeting.hpp"

#include <csignal>

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/control.hpp"
#include "apply_ext/worker/slots.hpp"
#include "pg/compat.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "miscadmin.h"
#include "storage/dsm.h"
#include "storage/latch.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

/* In the shared segment. */
struct Meeting {
	slock_t mutex;
	Slot *slot;         /* the main shared memory lies at the same address everywhere */
	Phase phase;
	XLogRecPtr end, cut;
	RemoteSnapshot snapshot;
};

namespace {

/* The longest that the stream stands for a session that does not go on, and that a session waits for another's meeting, ms. */
constexpr int longest_hold = 10000;
constexpr int longest_queue = 10000;

dsm_segment *own_segment = nullptr;      /* the session's */
dsm_segment *attended = nullptr;         /* the worker's */
dsm_handle attended_handle = DSM_HANDLE_INVALID;

void
wake_worker(Slot *slot)
{
	SpinLockAcquire(&slot->mutex);
	Latch *latch = slot->latch;
	SpinLockRelease(&slot->mutex);
	if (latch != nullptr)
		SetLatch(latch);
}

/* One field as it is now. */
template <typename T>
T
read_locked(const Meeting *meeting, T Meeting::*field)
{
	slock_t *mutex = &const_cast<Meeting *>(meeting)->mutex;

	SpinLockAcquire(mutex);
	T value = meeting->*field;
	SpinLockRelease(mutex);
	return value;
}

void
write_locked(Meeting *meeting, XLogRecPtr Meeting::*field, XLogRecPtr value)
{
	SpinLockAcquire(&meeting->mutex);
	meeting->*field = value;
	SpinLockRelease(&meeting->mutex);
}

/* The segment goes: at end_meeting, at an ERROR, at the end of the process. Raises nothing. */
void
leave(dsm_segment *segment, Datum)
{
	Meeting *meeting = static_cast<Meeting *>(dsm_segment_address(segment));
	Slot *slot = meeting->slot;

	set_phase(meeting, Phase::Over);
	SpinLockAcquire(&slot->mutex);
	if (slot->meeting == dsm_segment_handle(segment)) {
		slot->meeting = DSM_HANDLE_INVALID;
		slot->verifier = 0;
	}
	SpinLockRelease(&slot->mutex);
	wake_worker(slot);
	own_segment = nullptr;
}

// ---- leaves: may ereport; plain data only ----

Slot *
need_own_slot(std::int64_t subid)
{
	Slot *slot = find_slot(MyDatabaseId, subid);

	if (slot == nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("the subscription has no worker")));
	return slot;
}

/* The pid of the slot's verifier, if it is of this database. */
int
verifier_of(Slot *slot)
{
	SpinLockAcquire(&slot->mutex);
	int pid = slot->used && slot->database == MyDatabaseId ? slot->verifier : 0;
	SpinLockRelease(&slot->mutex);
	return pid;
}

bool
has_lock(int pid, Oid relid)
{
	catalog::Internal internal = catalog::begin_internal();
	bool found = catalog::run("SELECT FROM pg_catalog.pg_locks WHERE locktype = 'relation' AND pid = $1 AND relation = $2 AND granted LIMIT 1",
	                          {catalog::as_int4(pid), catalog::as_oid(relid)}) > 0;

	catalog::end_internal(internal);
	return found;
}

/* Tells the session to end, unless another one has come in its place. */
bool
end_verifier(Slot *slot, int pid)
{
	SpinLockAcquire(&slot->mutex);
	bool still = slot->used && slot->verifier == pid;
	slot->verify_yield = slot->verify_yield || still;
	SpinLockRelease(&slot->mutex);
	if (still)
		kill(pid, SIGINT);
	return still;
}

} // namespace

bool
is_verifying()
{
	bool any = false;

	for (int i = 0; area != nullptr && i < area->size; i++)
		any = any || verifier_of(&area->slots[i]) != 0;
	return any;
}

bool
interrupt_verification(Oid relid)
{
	bool any = false;

	for (int i = 0; area != nullptr && i < area->size; i++) {
		int pid = verifier_of(&area->slots[i]);
		if (pid != 0 && (!OidIsValid(relid) || has_lock(pid, relid)))
			any = end_verifier(&area->slots[i], pid) || any;
	}
	return any;
}

bool
must_yield(const Meeting *meeting)
{
	SpinLockAcquire(&meeting->slot->mutex);
	bool yield = meeting->slot->verify_yield;
	SpinLockRelease(&meeting->slot->mutex);
	return yield;
}

void
read_snapshot(const char *text, RemoteSnapshot *snapshot)
{
	char *at = nullptr;

	/* 64-bit ids with an epoch; the stream has the lower half */
	snapshot->xmin = static_cast<TransactionId>(strtoull(text, &at, 10));
	if (*at != ':')
		elog(ERROR, "unexpected snapshot of the publisher: %s", text);
	snapshot->xmax = static_cast<TransactionId>(strtoull(at + 1, &at, 10));
	snapshot->count = 0;
	while (*at != '\0' && at[1] != '\0') {
		if (snapshot->count == most_running)
			ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			                errmsg("more than %d transactions are open on the publisher", most_running)));
		snapshot->running[snapshot->count++] = static_cast<TransactionId>(strtoull(at + 1, &at, 10));
	}
}

bool
is_visible(const RemoteSnapshot *snapshot, TransactionId xid)
{
	if (TransactionIdPrecedes(xid, snapshot->xmin))
		return true;
	if (!TransactionIdPrecedes(xid, snapshot->xmax))
		return false;
	for (int i = 0; i < snapshot->count; i++)
		if (snapshot->running[i] == xid)
			return false;
	return true;
}

Meeting *
begin_meeting(std::int64_t subid)
{
	Slot *slot = need_own_slot(subid);
	dsm_segment *segment = dsm_create(sizeof(Meeting), 0);
	Meeting *meeting = static_cast<Meeting *>(dsm_segment_address(segment));
	TimestampTz begun = GetCurrentTimestamp();

	memset(meeting, 0, sizeof(Meeting));
	SpinLockInit(&meeting->mutex);
	meeting->slot = slot;
	meeting->phase = Phase::Over;
	for (;;) {
		SpinLockAcquire(&slot->mutex);
		bool free = slot->meeting == DSM_HANDLE_INVALID;
		if (free) {
			slot->meeting = dsm_segment_handle(segment);
			slot->verifier = MyProcPid;
			slot->verify_relation = InvalidOid;
			slot->verify_yield = false;
			slot->verify_done = slot->verify_total = 0;
		}
		SpinLockRelease(&slot->mutex);
		if (free)
			break;
		if (TimestampDifferenceExceeds(begun, GetCurrentTimestamp(), longest_queue))
			ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE), errmsg("another session verifies the subscription")));
		wait_for_report(subid, 100);
	}
	end_wait();
	on_dsm_detach(segment, leave, Datum{0});
	own_segment = segment;
	return meeting;
}

void
end_meeting(Meeting *)
{
	if (own_segment != nullptr)
		dsm_detach(own_segment);
}

Phase
phase_of(const Meeting *meeting)
{
	return read_locked(meeting, &Meeting::phase);
}

void
set_phase(Meeting *meeting, Phase phase)
{
	SpinLockAcquire(&meeting->mutex);
	meeting->phase = phase;
	if (phase == Phase::Asked)
		meeting->end = meeting->cut = InvalidXLogRecPtr;
	SpinLockRelease(&meeting->mutex);
	wake_worker(meeting->slot);
}

void
seek(Meeting *meeting, const RemoteSnapshot *snapshot)
{
	/* the worker reads it only once it is told to seek */
	memcpy(&meeting->snapshot, snapshot, sizeof(RemoteSnapshot));
	(void) turn(meeting, Phase::Held, Phase::Seeking);
}

void
set_end(Meeting *meeting, XLogRecPtr end)
{
	write_locked(meeting, &Meeting::end, end);
	/* a publisher with nothing to send says how far it is only when somebody waits */
	announce_wait(meeting->slot->subid, end);
}

XLogRecPtr
cut_of(const Meeting *meeting)
{
	return meeting->cut;
}

Phase
wait_phase(Meeting *meeting, Phase now)
{
	Phase phase = phase_of(meeting);

	if (phase == now) {
		wait_for_report(meeting->slot->subid, 100);
		phase = phase_of(meeting);
	}
	if (phase != now)
		end_wait();
	return phase;
}

void
show_verify(Meeting *meeting, Oid relation, std::int64_t done, std::int64_t total)
{
	Slot *slot = meeting->slot;

	SpinLockAcquire(&slot->mutex);
	slot->verify_relation = relation;
	slot->verify_done = done;
	slot->verify_total = total;
	SpinLockRelease(&slot->mutex);
}

Meeting *
attend()
{
	dsm_handle handle = own_slot()->meeting;

	if (attended != nullptr && handle != attended_handle) {
		dsm_detach(attended);
		attended = nullptr;
	}
	if (handle == DSM_HANDLE_INVALID)
		return nullptr;
	if (attended == nullptr) {
		attended = dsm_attach(handle);
		attended_handle = handle;
		if (attended == nullptr)
			return nullptr; /* its session has ended just now */
		dsm_pin_mapping(attended);
	}
	return static_cast<Meeting *>(dsm_segment_address(attended));
}

bool
is_awaited()
{
	/* read without the lock: what is missed now is seen at the next boundary */
	return own_slot()->meeting != DSM_HANDLE_INVALID || attended != nullptr;
}

const RemoteSnapshot *
snapshot_of(const Meeting *meeting)
{
	return &meeting->snapshot;
}

XLogRecPtr
end_of(const Meeting *meeting)
{
	return read_locked(meeting, &Meeting::end);
}

void
set_cut(Meeting *meeting, XLogRecPtr cut)
{
	write_locked(meeting, &Meeting::cut, cut);
}

bool
turn(Meeting *meeting, Phase from, Phase to)
{
	SpinLockAcquire(&meeting->mutex);
	bool still = meeting->phase == from;
	if (still)
		meeting->phase = to;
	SpinLockRelease(&meeting->mutex);
	ConditionVariableBroadcast(&meeting->slot->changed);
	wake_worker(meeting->slot);
	return still;
}

void
hold(Meeting *meeting, Phase phase)
{
	TimestampTz begun = GetCurrentTimestamp();

	pg::at_point("verify_held");
	while (phase_of(meeting) == phase) {
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1000, pg::compat::wait_event("SchemasyncMeeting"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (TimestampDifferenceExceeds(begun, GetCurrentTimestamp(), longest_hold))
			(void) turn(meeting, phase, Phase::Failed);
	}
	/* whatever else it was set for */
	SetLatch(MyLatch);
}

} // namespace schemasync::worker
