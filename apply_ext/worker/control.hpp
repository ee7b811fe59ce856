/*
 * What SQL functions do with workers: look at them, wake the launcher when the transaction commits, stop one and wait.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/worker/shared.hpp"

namespace schemasync::worker {

/* A copy of one slot; of the database that the backend is connected to. */
struct Status {
	std::int64_t subid;
	int pid;                /* 0: no worker */
	State state;            /* of the last run, when there is no worker */
	bool draining;          /* schemasync_stop is waiting for it */
	bool reported;          /* the worker of this run, or the last, has set its state */
	TimestampTz state_since;
	XLogRecPtr received, applied, confirmed;
	TimestampTz sent_at, received_at, committed_at;
	std::int64_t rows, transactions;
	int failures;           /* runs without progress, one after the other */
	TimestampTz next_start; /* while it waits between two runs */
	int verifier;           /* a session that compares both sides, 0: none */
	Oid verify_relation;
	std::int64_t verify_done, verify_total; /* bytes of the tables here */
	int indexer;            /* the worker that builds indexes beside the stream, 0: none */
};

/* returns: false when no slot knows the subscription (never started since the server's start) */
bool get_status(std::int64_t subid, Status *status);

/* All of this database; palloc'd array. */
Status *all_status(int *count);

/*
 * Takes the subscription's lock until the end of the transaction: nobody else changes it, and the launcher starts no worker for it.
 * Every function that changes a subscription takes it first.
 */
void lock_subscription(std::int64_t subid);

/* When this transaction commits: the worker is started, or, when it runs, ended and started again with what is then stored. */
void restart_at_commit(std::int64_t subid);
/* When this transaction commits: no worker is started until somebody asks. After stop_worker(). */
void rest_at_commit(std::int64_t subid);
/* The subscription is made by this transaction: it gets its slot now, and its worker when the transaction commits. */
void start_at_commit(std::int64_t subid);
/* Shows the subscription as draining until the end of the transaction. */
void show_draining(std::int64_t subid);
/* When this transaction commits: the slot of shared memory is given back, after the subscription was dropped. */
void forget_at_commit(std::int64_t subid);

/* Ends the subscription's worker and waits until it is gone. Needs the subscription's lock. Interruptible. */
void stop_worker(std::int64_t subid);

/* Sleeps until the subscription's worker reports something, or some hundred milliseconds. Interruptible. */
void wait_for_report(std::int64_t subid, long timeout_ms);
void end_wait(); /* after the last wait_for_report */

/* Tells the worker (and the launcher) that somebody waits for lsn. */
void announce_wait(std::int64_t subid, XLogRecPtr lsn);

} // namespace schemasync::worker
