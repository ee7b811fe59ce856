#include "apply_ext/worker/progress.hpp"
#include "apply_ext/worker/local.hpp"

#include "core/protocol.hpp"

#include "apply_ext/worker/shared.hpp"
#include "pg/compat.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "access/xact.h"
#include "access/xlog.h"
#include "replication/origin.h"
#include "replication/walreceiver.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

/*
 * How long the last commit without rows must be ago before the next, ms. Such a commit is news of its own (72 bytes) for a publisher that subscribes to
 * this server, and its answer to that is news for this one: what is not much more than that may be nothing else, and is answered less often.
 */
std::int64_t
idle_pause(XLogRecPtr news, Haste haste, int interval)
{
	constexpr XLogRecPtr much = 1024 * 1024, answers = 256, answer = 80; /* bytes; answers: with what the server itself writes now and then */
	constexpr int soon = 200, at_once = 10;                              /* ms */

	switch (haste) {
	case Haste::Now:
		return 0;
	case Haste::Publisher:
		return news <= answer ? soon : at_once;
	case Haste::None:
		break;
	}
	return news > much ? soon : news <= answers ? static_cast<std::int64_t>(6) * interval : interval;
}

// ---- leaves: may ereport; plain data only ----

/* Forgets the commits that are durable. returns: the publisher's position up to which they are; 0 when there
 * was none. */
XLogRecPtr
pop_flushed(Progress *progress)
{
	if (progress->count == 0)
		return InvalidXLogRecPtr;

	XLogRecPtr flushed_to = GetFlushRecPtr(nullptr);
	XLogRecPtr result = InvalidXLogRecPtr;
	while (progress->count > 0) {
		const Mapping *oldest = &progress->pending[progress->first];
		if (oldest->local_end > flushed_to)
			break;
		result = oldest->remote_end;
		progress->first = (progress->first + 1) % progress->capacity;
		progress->count--;
	}
	return result;
}

} // namespace

XLogRecPtr
start_progress(Progress *progress, MemoryContext context, const char *origin_name)
{
	progress->capacity = 64;
	progress->pending = static_cast<Mapping *>(
	    MemoryContextAlloc(context, sizeof(Mapping) * static_cast<Size>(progress->capacity)));

	StartTransactionCommand();
	RepOriginId origin = replorigin_by_name(origin_name, true);
	if (origin == InvalidRepOriginId)
		origin = replorigin_create(origin_name);
	pg::compat::replorigin_session_setup(origin);
	pg::compat::set_session_origin(origin);
	set_unnamed(false);
	pg::compat::set_origin_position(InvalidXLogRecPtr, 0);
	XLogRecPtr position = replorigin_session_get_progress(true);
	CommitTransactionCommand();
	progress->durable = position;
	return position;
}

XLogRecPtr
current_progress()
{
	return replorigin_session_get_progress(false);
}

void
set_origin_position(XLogRecPtr remote_end, TimestampTz committed_at)
{
	pg::compat::set_origin_position(remote_end, committed_at);
}

void
remember_commit(Progress *progress, XLogRecPtr remote_end)
{
	if (progress->count == progress->capacity) {
		Mapping *larger = static_cast<Mapping *>(
		    MemoryContextAlloc(GetMemoryChunkContext(progress->pending),
		                       sizeof(Mapping) * static_cast<Size>(progress->capacity) * 2));
		for (int i = 0; i < progress->count; i++)
			larger[i] = progress->pending[(progress->first + i) % progress->capacity];
		pfree(progress->pending);
		progress->pending = larger;
		progress->first = 0;
		progress->capacity *= 2;
	}
	progress->pending[(progress->first + progress->count) % progress->capacity] = {XactLastCommitEnd,
	                                                                               remote_end};
	progress->count++;
	progress->committed = true;
}

long
advance_idle(Progress *progress, Haste haste)
{
	constexpr int seldom = 10000; /* ms */
	TimestampTz now = GetCurrentTimestamp();
	XLogRecPtr reached = current_progress();

	if (progress->received <= reached)
		return 0;
	int interval = wal_receiver_status_interval > 0 ? wal_receiver_status_interval * 1000 : seldom;
	long left = TimestampDifferenceMilliseconds(
	    now, TimestampTzPlusMilliseconds(progress->advanced_at, idle_pause(progress->received - reached, haste, interval)));
	if (left > 0)
		return left;
	MemoryContext saved = CurrentMemoryContext;
	bool committed = progress->committed;
	progress->advanced_at = now;
	StartTransactionCommand();
	/* only a transaction with an id writes a commit record, which the position travels in */
	(void) GetCurrentTransactionId();
	set_origin_position(progress->received, now);
	pg::at_point("before_idle_commit");
	CommitTransactionCommand();
	MemoryContextSwitchTo(saved);
	remember_commit(progress, progress->received);
	progress->committed = committed;
	return 0;
}

void
send_feedback(Progress *progress, Upstream *upstream, bool applied_all, bool force, bool request)
{
	XLogRecPtr flushed = pop_flushed(progress);
	XLogRecPtr written = progress->told_write;

	if (progress->count > 0)
		written = progress->pending[(progress->first + progress->count - 1) % progress->capacity].remote_end;
	else if (flushed != InvalidXLogRecPtr)
		written = flushed;
	flushed = Max(flushed, progress->told_flush);
	progress->durable = Max(progress->durable, flushed);
	flushed = Max(flushed, progress->durable);
	if (applied_all)
		written = Max(written, progress->received);
	written = Max(written, progress->told_write);

	TimestampTz now = GetCurrentTimestamp();
	bool news = written > progress->told_write || flushed > progress->told_flush;
	bool due = wal_receiver_status_interval > 0 &&
	           TimestampDifferenceExceeds(progress->told_at, now, wal_receiver_status_interval * 1000);
	if (!force && !news && !due)
		return;

	pg::at_point("feedback");
	XLogRecPtr confirmed = progress->holding ? Min(flushed, progress->hold) : flushed;
	protocol::StatusUpdate reply =
	    protocol::status_update(progress->received, confirmed, Max(confirmed, written), now, request);
	send_reply(upstream, {reply.data(), reply.size()});
	progress->told_write = written;
	progress->told_flush = flushed;
	progress->told_received = progress->received;
	progress->told_at = now;
	report_confirmed(confirmed);
}

void
flush_commits(Progress *progress)
{
	if (progress->count > 0)
		XLogFlush(progress->pending[(progress->first + progress->count - 1) % progress->capacity].local_end);
}

} // namespace schemasync::worker
