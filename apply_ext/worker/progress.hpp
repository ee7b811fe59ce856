/*
 * How far the subscription has come, and what the publisher may forget.
 *
 * The replication origin holds the end of the last applied transaction, written by the very commit that
 * applied it. The publisher is told only what is durable here: each local commit's position is remembered
 * beside the publisher's until the local WAL is flushed.
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

	bool committed; /* something was, in this run */
	/* commits that may not be durable yet: a ring in the worker's context */
	Mapping *pending;
	int capacity, first, count;
};

/* Takes the origin for this session. returns: the position from which to stream, 0 when nothing was applied
 * yet. Runs a transaction. */
XLogRecPtr start_progress(Progress *progress, MemoryContext context, const char *origin_name);

/* The origin's position after more was applied. */
XLogRecPtr current_progress();

/* To be called just before the local commit of everything up to remote_end. */
void set_origin_position(XLogRecPtr remote_end, TimestampTz committed_at);

/* To be called after that commit. */
void remember_commit(Progress *progress, XLogRecPtr remote_end);

/*
 * Tells the publisher how far everything is, if that is news, or force is set, or
 * wal_receiver_status_interval has passed.
 *
 * applied_all: nothing received is still to be applied, so what was received counts as done
 * request:     ask for an answer
 */
void send_feedback(Progress *progress, Upstream *upstream, bool applied_all, bool force, bool request);

/* Makes all that was committed here durable now (drain, somebody waits). */
void flush_commits(Progress *progress);

} // namespace schemasync::worker
