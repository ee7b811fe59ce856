/*
 * How far the subscription has come, and what the publisher may forget.
 *
 * The replication origin holds the end of the last applied transaction, written by the very commit that
 * applied it. The publisher is told only what is durable here: each local commit's position is remembered
 * beside the publisher's until the local WAL is flushed.
 *
 * The publisher is never told more than what the origin holds, also where there was nothing to apply. So a slot that has been
 * confirmed further than the origin says that this server is in an older state than it once was: it was restored from a backup,
 * or is a standby that was promoted before it had everything. start_stream() refuses then; the publisher would pass over what is
 * between, and not say so.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/worker/upstream.hpp"

namespace schemasync::worker {

struct Mapping {
	XLogRecPtr local_end, remote_end;
};

struct Progress {
	XLogRecPtr received;     /* end of what has arrived */
	TimestampTz received_at; /* local time */
	bool asked;              /* a reply was asked for since */
	XLogRecPtr told_write, told_flush, told_received;
	TimestampTz told_at;

	/* Nothing later than `hold` is confirmed: the stream will be read once more from there. */
	bool holding;
	XLogRecPtr hold;

	bool committed;           /* something was, in this run */
	XLogRecPtr durable;       /* all before it is applied, and flushed here */
	TimestampTz advanced_at;  /* when the origin was taken past what brought nothing */
	/* commits that may not be durable yet: a ring in the worker's context */
	Mapping *pending;
	int capacity, first, count;
};

/* Takes the origin for this session, and makes its position durable. returns: the position from which to stream, 0 when nothing
 * was applied yet. Runs a transaction. */
XLogRecPtr start_progress(Progress *progress, MemoryContext context, const char *origin_name);

/* The origin's position after more was applied. */
XLogRecPtr current_progress();

/* To be called just before the local commit of everything up to remote_end. */
void set_origin_position(XLogRecPtr remote_end, TimestampTz committed_at);

/* To be called after that commit. */
void remember_commit(Progress *progress, XLogRecPtr remote_end);

/* Who waits for the publisher to hear how far this server is. */
enum class Haste {
	None,
	Publisher, /* commits there may (synchronous_standby_names) */
	Now,       /* somebody here, or a publisher that is being shut down */
};

/*
 * Takes the origin to the end of what was received, where all of it is applied or was nothing to apply, by a commit of its own. It does so seldom
 * (a commit here may be news for a publisher that subscribes to this server): after wal_receiver_status_interval, or a megabyte; unless somebody
 * waits for the publisher to hear of it.
 *
 * returns: after how many ms it is to be called again, because it is too early now; 0 when there is nothing left to be done
 */
long advance_idle(Progress *progress, Haste haste);

/*
 * Tells the publisher how far everything is, if that is news, or force is set, or
 * wal_receiver_status_interval has passed.
 *
 * applied_all: nothing received is still to be applied, so what was received counts as written
 * request:     ask for an answer
 */
void send_feedback(Progress *progress, Upstream *upstream, bool applied_all, bool force, bool request);

/* Makes all that was committed here durable now (drain, somebody waits). */
void flush_commits(Progress *progress);

} // namespace schemasync::worker
