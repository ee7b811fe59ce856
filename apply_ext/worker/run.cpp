/*
 * The run of an apply worker: how it begins, what it reports, how it ends.
 */
#include "apply_ext/catalog/subscription.hpp"
#include "apply_ext/worker/index_builds.hpp"
#include "apply_ext/worker/local.hpp"
#include "apply_ext/worker/shared.hpp"
#include "apply_ext/worker/slots.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/origin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

Slot *own = nullptr;

/* The stored state is 'failed' until something was applied beyond where this run began. */
bool was_failed = false;
XLogRecPtr began_at = InvalidXLogRecPtr;

/* Something was applied since the counters were stored. */
bool uncounted = false;
TimestampTz counted_at = 0;

/* The delay before the next run, ms. Quick when the last run got as far as streaming, else growing. */
long
restart_delay(const Slot *slot, Leave leave)
{
	if (leave == Leave::Again && slot->streamed)
		return 100;
	int doublings = Min(slot->failures - 1, 10);
	long first = leave == Leave::Failed ? 1000 : 100;
	return Min(first << Max(doublings, 0), 30000L);
}

// ---- leaves: may ereport; plain data only ----

/* Runs at every end of the process, also after a FATAL: no error may leave it. */
void
release_slot(int, Datum)
{
	Slot *slot = own;

	if (slot == nullptr)
		return;
	own = nullptr;
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&slot->mutex);
	slot->pid = 0;
	slot->latch = nullptr;
	if (slot->restart) {
		slot->restart = false;
		slot->wanted = true;
		slot->failures = 0;
		slot->next_start = now;
	} else if (slot->leave == Leave::Stay) {
		slot->wanted = false;
	} else {
		if (slot->leave == Leave::Failed || !slot->streamed)
			slot->failures++;
		slot->next_start = TimestampTzPlusMilliseconds(now, restart_delay(slot, slot->leave));
	}
	SpinLockRelease(&slot->mutex);
	ConditionVariableBroadcast(&slot->changed);
	wake_launcher();
}

void
attach(int number, std::uint32_t generation)
{
	if (area == nullptr || number < 0 || number >= area->size)
		proc_exit(0);

	Slot *slot = &area->slots[number];
	bool mine = false;
	SpinLockAcquire(&slot->mutex);
	if (slot->used && slot->starting && slot->generation == generation) {
		slot->starting = false;
		mine = !slot->cancel;
		if (mine) {
			slot->pid = MyProcPid;
			slot->latch = &MyProc->procLatch;
			slot->leave = Leave::Again;
			slot->streamed = false;
			slot->reload = false;
			slot->restart = false;
		}
	}
	SpinLockRelease(&slot->mutex);
	if (!mine) {
		ConditionVariableBroadcast(&slot->changed);
		wake_launcher();
		proc_exit(0);
	}
	own = slot;
	before_shmem_exit(release_slot, 0);
}

/* Nobody knows the subscription: dropped, or with it the extension. What is left of it is its origin. */
[[noreturn]] void
leave_unknown()
{
	StartTransactionCommand();
	replorigin_drop_by_name(origin_name(own->database, own->subid), true, true);
	CommitTransactionCommand();
	mark_gone(own->database, own->subid);
	end_worker(Leave::Stay);
}

void
clear_failure()
{
	was_failed = false;
	begin();
	catalog::save_state(own->subid, "ready", nullptr);
	catalog::resolve_errors(own->subid);
	commit();
}

void
set_parameter(const char *name, const char *value)
{
	SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

[[noreturn]] void
rest(State state)
{
	set_state(state);
	end_worker(Leave::Stay);
}

} // namespace

const catalog::Subscription *
begin_worker(Datum argument)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	std::uint32_t generation = 0;
	memcpy(&generation, MyBgworkerEntry->bgw_extra, sizeof(generation));
	attach(DatumGetInt32(argument), generation);

	BackgroundWorkerInitializeConnectionByOid(own->database, own->owner, 0);

	begin();
	MemoryContext saved = MemoryContextSwitchTo(TopMemoryContext);
	catalog::Subscription *subscription = catalog::load_subscription(own->subid);
	MemoryContextSwitchTo(saved);
	if (subscription != nullptr && !own->counted) {
		std::int64_t rows = 0, transactions = 0;
		catalog::load_counters(own->subid, &rows, &transactions);
		SpinLockAcquire(&own->mutex);
		own->rows += rows;
		own->transactions += transactions;
		own->counted = true;
		SpinLockRelease(&own->mutex);
	}
	commit();

	if (subscription == nullptr)
		leave_unknown();
	if (!subscription->enabled)
		rest(strcmp(subscription->state, "drained") == 0 ? State::Drained : State::Disabled);
	if (strcmp(subscription->state, "refused") == 0) {
		/* what was accepted before the refusal is built all the same */
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		start_index_worker(*subscription);
		PopActiveSnapshot();
		CommitTransactionCommand();
		rest(State::Refused);
	}
	if (subscription->owner != own->owner) {
		/* Connected as the bootstrap superuser to learn who owns it. The session that applies must be the owner's from its first
		 * moment, so that nothing that runs in it can become more than the owner; and its process bears the subscription's name. */
		SpinLockAcquire(&own->mutex);
		own->owner = subscription->owner;
		strlcpy(own->name, subscription->name, sizeof(own->name));
		own->restart = true;
		SpinLockRelease(&own->mutex);
		end_worker(Leave::Again);
	}
	was_failed = strcmp(subscription->state, "failed") == 0;
	pgstat_report_appname(psprintf("schemasync apply %s", subscription->name));
	return subscription;
}

void
set_parameters(const catalog::Subscription *subscription)
{
	set_parameter("session_replication_role", "replica");
	set_parameter("search_path", "");
	set_parameter("synchronous_commit", subscription->options.synchronous_commit);
	set_parameter("statement_timeout", "0");
	set_parameter("lock_timeout", "0");
	set_parameter("idle_in_transaction_session_timeout", "0");
	/* how text values of the stream are to be read, and those converted by way of text */
	set_parameter("datestyle", "ISO");
	set_parameter("intervalstyle", "postgres");
	set_parameter("extra_float_digits", "3");
	set_parameter("bytea_output", "hex");
	/* Until the apply worker has its own origin, and in all the other workers, which cannot share it: what they write was made on the publisher,
	 * and must not go back there as if it were made here. */
	pg::compat::set_session_origin(pg::compat::unnamed_origin);
	set_unnamed(true);
}

void
end_worker(Leave how)
{
	if (own != nullptr) {
		SpinLockAcquire(&own->mutex);
		own->leave = how;
		SpinLockRelease(&own->mutex);
	}
	proc_exit(0);
}

void
fail_worker(ErrorData *error, const Where *where)
{
	AbortOutOfAnyTransaction();
	/* what is committed from here on is bookkeeping: it must not move the origin past a transaction that failed at its commit */
	pg::compat::set_origin_position(InvalidXLogRecPtr, 0);

	int sqlstate_class = ERRCODE_TO_CATEGORY(error->sqlerrcode);
	/* (a publisher that breaks the protocol is no lost connection, though the standard puts it into that class) */
	bool connection = (sqlstate_class == ERRCODE_CONNECTION_EXCEPTION && error->sqlerrcode != ERRCODE_PROTOCOL_VIOLATION) ||
	                  error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN ||
	                  error->sqlerrcode == ERRCODE_CRASH_SHUTDOWN || error->sqlerrcode == ERRCODE_CANNOT_CONNECT_NOW;

	log_error(error);

	/* one lost connection is everyday life and no failure; the next run either streams or says more */
	if (connection && own->failures == 0)
		end_worker(Leave::Again);

	begin();
	catalog::ErrorContextInfo info = {};
	info.worker = "apply";
	if (where != nullptr) {
		info.relation = where->relation;
		info.command = where->command;
		info.key = where->key;
		info.lsn = where->lsn;
		info.xid = where->xid;
	}
	catalog::record_error(own->subid, error, &info);
	commit();
	set_state(State::Failed);
	end_worker(Leave::Failed);
}

Slot *
own_slot()
{
	return own;
}

Oid
own_database()
{
	return own->database;
}

std::int64_t
own_subscription()
{
	return own->subid;
}

void
set_state(State state)
{
	TimestampTz now = GetCurrentTimestamp();

	if (own == nullptr)
		return; /* a copy worker or a session has no slot of its own */
	SpinLockAcquire(&own->mutex);
	if (!own->reported || own->state != state)
		own->state_since = now;
	own->state = state;
	own->reported = true;
	if (state == State::Streaming)
		own->streamed = true;
	SpinLockRelease(&own->mutex);
	ConditionVariableBroadcast(&own->changed);
}

void
report_received(XLogRecPtr lsn, TimestampTz sent_at)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&own->mutex);
	own->received = Max(own->received, lsn);
	own->sent_at = sent_at;
	own->received_at = now;
	own->streamed = true;
	SpinLockRelease(&own->mutex);
}

void
report_applied(XLogRecPtr lsn, TimestampTz committed_at)
{
	SpinLockAcquire(&own->mutex);
	bool moved = lsn > own->applied;
	if (moved) {
		own->applied = lsn;
		own->failures = 0;
	}
	if (committed_at != 0)
		own->committed_at = committed_at;
	SpinLockRelease(&own->mutex);
	if (moved)
		ConditionVariableBroadcast(&own->changed);
	if (XLogRecPtrIsInvalid(began_at))
		began_at = lsn;
	if (was_failed && (committed_at != 0 || lsn > began_at) && !IsTransactionState())
		clear_failure();
}

void
report_confirmed(XLogRecPtr lsn)
{
	SpinLockAcquire(&own->mutex);
	bool moved = lsn > own->confirmed;
	own->confirmed = Max(own->confirmed, lsn);
	SpinLockRelease(&own->mutex);
	if (moved)
		ConditionVariableBroadcast(&own->changed);
}

void
count_applied(std::int64_t rows, std::int64_t transactions)
{
	if (own == nullptr)
		return; /* a copy worker has no slot of its own */
	SpinLockAcquire(&own->mutex);
	own->rows += rows;
	own->transactions += transactions;
	SpinLockRelease(&own->mutex);
	uncounted = true;
}

void
store_counters(bool idle)
{
	constexpr int seldom = 10000, soon = 2000; /* ms */

	if (!uncounted || !TimestampDifferenceExceeds(counted_at, GetCurrentTimestamp(), idle ? soon : seldom))
		return;
	uncounted = false;
	counted_at = GetCurrentTimestamp();
	begin();
	catalog::save_counters(own->subid, own->rows, own->transactions);
	commit();
}

bool
reload_requested()
{
	/* read without the lock: a request that is missed now is seen at the next call */
	if (!own->reload)
		return false;
	SpinLockAcquire(&own->mutex);
	own->reload = false;
	SpinLockRelease(&own->mutex);
	return true;
}

XLogRecPtr
awaited()
{
	return pg_atomic_read_u64(&own->awaited);
}

} // namespace schemasync::worker
