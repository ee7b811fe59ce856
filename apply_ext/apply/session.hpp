/*
 * The state of one run of the apply worker, handed through everything below apply/: the stream's position,
 * the publisher's transaction that is being applied, the local transaction it is in, the open relations.
 *
 * Plain data in memory contexts, so that leaves may hold it across an ERROR. Two lifetimes: `context` lives
 * as long as the worker; what belongs to a local transaction is closed before it ends (relations::release).
 *
 * Zone: server code (plain data only).
 */
#pragma once

#include <cstdint>

#include "core/protocol.hpp"

#include "apply_ext/apply/error_context.hpp"
#include "apply_ext/apply/schema.hpp"
#include "apply_ext/catalog/subscription.hpp"
#include "apply_ext/worker/progress.hpp"
#include "apply_ext/worker/upstream.hpp"

struct BackgroundWorkerHandle;

namespace schemasync::apply {

struct Spools;    /* streamed transactions, spool.hpp */
struct Relations; /* relation_map.hpp */

/* The transaction of the publisher that is being applied. */
struct RemoteTransaction {
	bool active;
	bool skipped;         /* schemasync_skip named it */
	bool prepares;        /* it ends with a PREPARE, which keeps what it wrote locked */
	XLogRecPtr final_lsn; /* of its commit (or prepare) record: what errors, refusals and schemasync_skip call
	                         it by */
	TimestampTz commit_time;
	TransactionId xid;
	int ordinal;       /* schema messages seen so far */
	std::int64_t rows; /* changes applied so far */
};

/* The local transaction: one or several of the publisher's. */
struct Group {
	bool open;
	int count; /* transactions of the publisher that are complete in it */
	std::int64_t rows;
	int rewritten; /* rows updated that this very transaction had written: their old versions cannot be pruned
	                  before it ends */
	bool ends;     /* nothing more is to join it (a schema change, a truncate) */
	TimestampTz started;
	XLogRecPtr end_lsn; /* of the last complete transaction of the publisher */
	TimestampTz commit_time;
	TransactionId xid; /* ... and what errors call it by */
	XLogRecPtr final_lsn;
};

/*
 * The stream is read once more for tables that were copied beside it: from the snapshot of their copy to where it had come
 * meanwhile. worker/beside.hpp
 */
struct CatchUp {
	bool active;
	bool done;             /* all of it was read */
	XLogRecPtr until;      /* transactions that committed from here on belong to the stream proper */
	const char *relations; /* publisher oids, with commas; in the session's context */
};

/* The copies beside the stream. */
struct Beside {
	::BackgroundWorkerHandle *worker; /* in the session's context; nullptr: none runs */
	bool look;                             /* something may have become due */
	TimestampTz next_look;                 /* ... or will be then; 0: not by itself */
	int failures;                          /* copies that failed, one after the other */
};

/* How the streamed transaction that is being replayed ends. */
struct Replay {
	bool prepares;
	XLogRecPtr end_lsn;
	TimestampTz time;
};

struct Session {
	MemoryContext context; /* as long as the worker */
	MemoryContext message; /* one message */
	MemoryContext error;   /* what an ERROR or refusal leaves behind */
	const catalog::Subscription *subscription;
	bool has_origin;       /* the replication origin is this session's */
	bool running;          /* shown as active */
	bool arrived;          /* something has since the last rest */
	bool recovered;        /* the failures before this run are known to be over */
	TimestampTz opened_at; /* the stream */
	bool wants_text;       /* an error asks for the stream to begin again without binary values */
	TimestampTz sent_at;   /* of the message that arrived last */
	bool binary; /* asked of the publisher: the option, until a type differs for which only text does */

	worker::Upstream upstream;
	worker::Progress progress;

	CatchUp catch_up;
	/* the end of what the stream proper has done or passed over last; the origin, which moves only with a commit that wrote something, may be behind */
	XLogRecPtr passed;
	Beside beside;
	bool index_look;             /* an index may have come into the queue */
	TimestampTz index_next_look; /* whether its worker is there */
	bool index_turn;             /* a change may have ended a build once too often */

	RemoteTransaction remote;
	Group group;
	XLogRecPtr single_until; /* no grouping up to here: a group that ended here has failed */

	protocol::Scratch *scratch;
	Relations *relations;
	Spools *spools;
	Replay replay;
	ErrorPosition position;

	/* A schema message that dispatch() returned to its caller; views into the message, which stays until the
	 * next call. */
	std::string_view schema_prefix, schema_content;
};

} // namespace schemasync::apply
