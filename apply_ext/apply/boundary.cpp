#include "apply_ext/apply/boundary.hpp"

#include "apply_ext/apply/transaction.hpp"
#include "apply_ext/worker/meeting.hpp"

namespace schemasync::apply {

namespace {

using worker::Meeting;
using worker::Phase;

/*
 * The transactions applied last. One of them may not be visible on the publisher yet although its commit was sent: then the subscriber is
 * ahead of any snapshot that is taken now.
 */
constexpr std::uint32_t remembered = 16384;
TransactionId applied[remembered];
std::uint32_t next_applied = 0;

bool
is_ahead(const Meeting *meeting)
{
	for (std::uint32_t i = 0; i < remembered; i++)
		if (TransactionIdIsValid(applied[i]) && !worker::is_visible(worker::snapshot_of(meeting), applied[i]))
			return true;
	return false;
}

// ---- leaves: may ereport; plain data only ----

/* The first boundary, where the snapshot is taken. */
void
stand(Session *session, Meeting *meeting)
{
	commit_group(session);
	/* a publisher that waits for this subscriber's word (synchronous_standby_names) shows its commits only after it */
	worker::flush_commits(&session->progress);
	worker::send_feedback(&session->progress, &session->upstream, false, true, false);
	if (!worker::turn(meeting, Phase::Asked, Phase::Held))
		return;
	worker::hold(meeting, Phase::Held);
	if (worker::phase_of(meeting) == Phase::Seeking && is_ahead(meeting))
		(void) worker::turn(meeting, Phase::Seeking, Phase::Failed);
}

/* xid: of the transaction that comes next; invalid: none has come, and everything before lsn is applied. */
void
meet(Session *session, TransactionId xid, XLogRecPtr lsn)
{
	bool next = TransactionIdIsValid(xid);

	for (;;) {
		Meeting *meeting = worker::attend();
		if (meeting == nullptr)
			return;
		Phase phase = worker::phase_of(meeting);
		if (phase == Phase::Asked) {
			stand(session, meeting);
			continue;
		}
		XLogRecPtr end = worker::end_of(meeting);
		bool beyond = !XLogRecPtrIsInvalid(end) && lsn >= end;
		bool visible = next && worker::is_visible(worker::snapshot_of(meeting), xid);
		if (phase == Phase::Seeking && (next ? !visible : beyond)) {
			commit_group(session);
			worker::set_cut(meeting, lsn);
			if (worker::turn(meeting, Phase::Seeking, Phase::Cut))
				worker::hold(meeting, Phase::Cut);
			continue;
		}
		if (phase == Phase::Passing && visible)
			(void) worker::turn(meeting, Phase::Passing, Phase::Failed);
		else if (phase == Phase::Passing && beyond)
			(void) worker::turn(meeting, Phase::Passing, Phase::Passed);
		return;
	}
}

} // namespace

void
at_boundary(Session *session, TransactionId xid, XLogRecPtr lsn)
{
	/* what is read once more was met before */
	if (session->catch_up.active)
		return;
	if (worker::is_awaited())
		meet(session, xid, lsn);
	applied[next_applied++ % remembered] = xid;
}

void
at_rest(Session *session)
{
	if (worker::is_awaited() && !session->catch_up.active)
		meet(session, InvalidTransactionId, session->progress.received);
}

} // namespace schemasync::apply
