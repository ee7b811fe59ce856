/*
 * The layout of the shared memory behind shared.hpp and control.hpp; private to the files of this folder.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/worker/shared.hpp"

extern "C" {
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/dsm.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
}

namespace schemasync::worker {

/*
 * One known subscription: found by the scan of origins at the server's start, or made with the subscription. Slots are given out and
 * back under the area's lock; back only by the launcher. The other fields are under the slot's spinlock.
 */
struct Slot {
	slock_t mutex;
	bool used;
	Oid database;
	std::int64_t subid;
	Oid owner;                 /* as whom the worker connects; InvalidOid: not known since the server's start */
	char name[NAMEDATALEN];    /* the subscription's, or its numbers while the owner is not known */
	std::uint32_t generation;  /* of the run; a worker that comes too late does not attach */

	/* whether the launcher is to start a worker, and when */
	bool gone;                 /* the subscription was dropped: given back as soon as no worker has it */
	bool wanted;
	bool starting;             /* registered, not yet attached */
	bool cancel;               /* a worker that attaches now ends at once */
	bool restart;              /* asked for while one ran: start again without delay */
	TimestampTz started_at;
	TimestampTz next_start;
	int failures;              /* runs that ended without progress, one after the other */

	/* the run */
	int pid;
	Latch *latch;
	Leave leave;
	bool streamed;             /* this run received something from the publisher */
	bool reload;
	bool draining;             /* schemasync_stop is waiting for it to come to a position */

	State state;
	bool reported;
	TimestampTz state_since;
	XLogRecPtr received, applied, confirmed;
	TimestampTz sent_at, received_at, committed_at;
	std::int64_t rows, transactions;
	bool counted;              /* what was stored before the server's start is in them */

	/* a session that compares both sides (meeting.hpp), and how far it is: bytes */
	dsm_handle meeting;
	int verifier;
	Oid verify_relation;
	std::int64_t verify_done, verify_total;
	bool verify_yield;         /* it was told to end, for the sake of a schema change */

	/* the worker that builds indexes beside the stream (index_builds.hpp) */
	int index_pid;
	Latch *index_latch;
	bool index_starting;       /* registered, not yet attached */
	std::uint32_t index_generation;
	TimestampTz index_started_at;
	Oid index_relid;           /* the local table that it is at; InvalidOid: none */
	bool index_yield;          /* it was told to let go of it */

	pg_atomic_uint64 awaited;
	ConditionVariable changed;
};

/* How a worker that builds indexes is started: in bgw_extra. */
struct IndexWorkerStart {
	Oid owner;
	std::uint32_t generation;
	std::int64_t subid;
};

struct Area {
	LWLock *lock;              /* giving slots out and back */
	int size;
	Latch *launcher_latch;
	bool scan;                 /* asked of the launcher: look for subscriptions by their origins */
	slock_t mutex;             /* of the two above */
	Slot slots[1];             /* size of them */
};

/* Set in every process once the server has preloaded the library; nullptr otherwise. */
extern Area *area;

extern int max_subscriptions;  /* schemasync.max_subscriptions */
extern int launcher_naptime;   /* schemasync.launcher_naptime, ms */

/* The slot of a subscription of a database; nullptr: none. The slot stays until the launcher gives it back. */
Slot *find_slot(Oid database, std::int64_t subid);

/* The same, with a new slot when there is none yet; nullptr: all are in use. */
Slot *take_slot(Oid database, std::int64_t subid);

/* The apply worker's own. */
Slot *own_slot();

/* The subscription is no more. No error. */
void mark_gone(Oid database, std::int64_t subid);

/* Gives a slot back if it is marked gone and nobody has it. */
void collect_slot(Slot *slot);

void wake_launcher();
void request_scan(); /* at the launcher's next round */

/* Name form of the origin: schemasync_<database oid>_<subid>. parse: false when it is another's. */
char *origin_name(Oid database, std::int64_t subid);
bool parse_origin_name(const char *name, Oid *database, std::int64_t *subid);

/* The subscription's lock (control.hpp). */
void lock_subscription_exclusive(std::int64_t subid);
bool try_lock_subscription(Oid database, std::int64_t subid);
void unlock_subscription(Oid database, std::int64_t subid);

/* The lock that whoever builds an index of the local table beside the stream holds, and whoever changes the table: never the same as a
 * subscription's. */
void set_build_tag(LOCKTAG *tag, Oid database, Oid relid);

} // namespace schemasync::worker
