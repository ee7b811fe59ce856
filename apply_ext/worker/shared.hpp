/*
 * What workers, the launcher and the SQL functions share: one slot of shared memory for each subscription that is known.
 *
 * Owned by the launcher (it gives slots out and starts workers); written by the apply worker, read by the views and by those who
 * wait. A slot outlives the worker's process: it remembers positions and how the last run ended.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "storage/latch.h"
}

namespace schemasync::catalog {
struct Subscription;
}

namespace schemasync::worker {

/* As in schemasync_subscriptions.state; DESIGN 7. */
enum class State : std::uint8_t { Disabled, Copying, Streaming, Draining, Drained, WaitingLock, Refused, Failed };

const char *name(State state);

/*
 * Called by _PG_init. Under shared_preload_libraries: shared memory request, startup hook, the launcher's registration and the
 * parameters that need a restart. Otherwise nothing, and require_preload() raises.
 */
void init_shared();

/* Raises an error that says what to set when the library was not loaded by shared_preload_libraries. */
void require_preload();

/* --- the run of an apply worker: the main function calls these in order ------------------------------------ */

/*
 * Signals, own slot, database connection (as the bootstrap superuser), subscription row. Ends the process quietly when there is nothing
 * to do: subscription gone (its origin is dropped), disabled, refused, drained.
 *
 * argument: the background worker's main argument
 * returns:  the subscription, in TopMemoryContext; no transaction is open
 */
const catalog::Subscription *begin_worker(Datum argument);

/* How the launcher shall go on after the worker has ended. Without a word from the worker (killed, terminated): Again. */
enum class Leave : std::uint8_t {
	Again,  /* start it again at once; delays grow when nothing is applied in between */
	Failed, /* start it again after a delay that grows with repeated failures: 1 s to 30 s */
	Stay,   /* do not start it until a function asks for it (disabled, refused, drained, gone) */
};
[[noreturn]] void end_worker(Leave how);

/*
 * Ends the run after an ERROR that is no refusal: aborts the transaction, logs the error, records it (catalog::record_error) in a
 * transaction of its own and leaves. A lost connection is only recorded as a failure when it repeats.
 *
 * error: a copy that outlives the transaction (as from pg::call in a context of the worker)
 */
struct Where {
	const char *relation, *command, *key; /* or nullptr */
	XLogRecPtr lsn;
	std::int64_t xid;
};
[[noreturn]] void fail_worker(ErrorData *error, const Where *where);

/* What the session of a worker runs under: a replica's, in which text reads as the stream writes it. */
void set_parameters(const catalog::Subscription *subscription);

Oid own_database();
std::int64_t own_subscription();

void set_state(State state);
/* Positions on the publisher; they never go back. Each wakes those who wait in schemasync_wait and schemasync_stop. */
void report_received(XLogRecPtr lsn, TimestampTz sent_at);
void report_applied(XLogRecPtr lsn, TimestampTz committed_at); /* everything up to lsn is applied and visible */
void report_confirmed(XLogRecPtr lsn);                         /* and durable, and the publisher was told */
void count_applied(std::int64_t rows, std::int64_t transactions);
/* Stores the counters when that is due, outside of a transaction. idle: nothing is going on, so it may be due sooner. */
void store_counters(bool idle);

/* Whether somebody asked the worker to read its configuration again; resets the request. */
bool reload_requested();

/* The position that somebody waits for, 0 when nobody does: apply and confirm up to it without delay. */
XLogRecPtr awaited();

} // namespace schemasync::worker
