/*
 * A session and a subscription's apply worker agree on one position: the session has a snapshot of the publisher, and the worker stops for
 * a moment just where it has applied exactly the transactions that are visible in that snapshot, so that the session can take a local one.
 *
 * Why not a position in the WAL: a snapshot is a set of transactions, and a transaction is in the WAL before others see it. Only a new
 * replication slot gives snapshot and position together, and making one waits for every transaction that is open on the publisher. So the
 * worker is given the snapshot, and looks at the ids of the transactions that it applies: the first one that is not visible is the
 * boundary. Should a visible one come behind it (the two became visible in the other order than they stand in the WAL, which takes a few
 * microseconds, or a synchronous standby that is slow), the worker says so and the session tries again.
 *
 *   Asked    the session wants the worker to stop at its next boundary: what it applies now, the snapshot might not have
 *   Held     the worker stands; the session takes the publisher's snapshot
 *   Seeking  the worker goes on to the boundary of the snapshot
 *   Cut      the worker stands there; the session takes its local snapshot
 *   Passing  the worker goes on, and looks for visible transactions up to the position `end`
 *   Passed   there was none: the two snapshots are the same transactions
 *   Failed   there was one, or the worker was held for too long: try again
 *   Over     the session needs nothing more
 *
 * What they share lies in a segment that the session makes and that goes with it, whatever way it ends.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "access/transam.h"
#include "access/xlogdefs.h"
}

namespace schemasync::worker {

enum class Phase : std::uint8_t { Asked, Held, Seeking, Cut, Passing, Passed, Failed, Over };

constexpr int most_running = 8192;

/* A snapshot of the publisher, as pg_current_snapshot() shows it. */
struct RemoteSnapshot {
	TransactionId xmin, xmax;
	int count;
	TransactionId running[most_running];
};

/* Reads the text of a pg_snapshot; an error when more transactions run than there is room for. */
void read_snapshot(const char *text, RemoteSnapshot *snapshot);
bool is_visible(const RemoteSnapshot *snapshot, TransactionId xid);

struct Meeting;

// ---- the session's side ----

/*
 * Makes the segment and shows it to the worker; it is gone at the end of the transaction, or with end_meeting().
 *
 * errors: object_in_use when another session has a meeting with this worker for longer than some seconds
 */
Meeting *begin_meeting(std::int64_t subid);
void end_meeting(Meeting *meeting);

Phase phase_of(const Meeting *meeting);
void set_phase(Meeting *meeting, Phase phase);
/* Held -> Seeking. */
void seek(Meeting *meeting, const RemoteSnapshot *snapshot);
/* While Seeking or Passing: every commit that is visible in the snapshot lies before this position. */
void set_end(Meeting *meeting, XLogRecPtr end);
/* Cut: the first position that is not applied. */
XLogRecPtr cut_of(const Meeting *meeting);

/* Sleeps until the phase is another one, or some hundred milliseconds. Interruptible. returns: the phase */
Phase wait_phase(Meeting *meeting, Phase now);

/* What schemasync_progress shows of the session. */
void show_verify(Meeting *meeting, Oid relation, std::int64_t done, std::int64_t total);

// ---- the worker's side ----

/* Whether somebody wants to meet this worker: cheap, for each transaction. */
bool is_awaited();
/* The meeting, attached; nullptr when there is none any more. */
Meeting *attend();
const RemoteSnapshot *snapshot_of(const Meeting *meeting);
XLogRecPtr end_of(const Meeting *meeting);
void set_cut(Meeting *meeting, XLogRecPtr cut);
/* Stands until the session has said how to go on; too long a wait ends as Failed. Interruptible. */
void hold(Meeting *meeting, Phase phase);
/* From one phase to another, if it still is in the first. */
bool turn(Meeting *meeting, Phase from, Phase to);

/* Whether a session of this database compares both sides now. */
bool is_verifying();

/*
 * A change of schema waits: ends the sessions of this database that compare both sides and have a lock on the local relation; InvalidOid: all of them.
 * Their call fails, and says why. Needs a transaction. returns: whether there was one
 */
bool interrupt_verification(Oid relid);
/* ... asked by the session, of its own. */
bool must_yield(const Meeting *meeting);

} // namespace schemasync::worker
