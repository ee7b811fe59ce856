#include "apply_ext/apply/transaction.hpp"

#include "apply_ext/apply/batch.hpp"
#include "apply_ext/apply/carried_rows.hpp"
#include "apply_ext/apply/prepared.hpp"
#include "apply_ext/apply/rows.hpp"
#include "apply_ext/apply/schema.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/shared.hpp"
#include "pg/compat.hpp"
#include "pg/injection.hpp"

extern "C" {
#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "pgstat.h"
#include "utils/backend_status.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::apply {

namespace {

/* A group is worth it for its saved commits; past these sizes it only holds locks and versions. */
constexpr int max_transactions = 500;
constexpr std::int64_t max_rows = 10000;

// ---- leaves: may ereport; plain data only ----

/* schemasync_skip names one transaction, once. */
void
forget_skip(Session *session)
{
	Oid types[] = {INT8OID};
	Datum values[] = {Int64GetDatum(session->subscription->subid)};

	act_as_worker(session->relations->locals);
	need_snapshot(session->relations->locals);
	catalog::Internal internal = catalog::begin_internal();
	if (SPI_execute_with_args("UPDATE schemasync.subscription SET skip_lsn = NULL WHERE subid = $1", 1, types,
	                          values, nullptr, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not reset the transaction to be skipped");
	catalog::end_internal(internal);
	ereport(LOG, (errmsg("subscription \"%s\" has skipped publisher transaction %u, commit at %s",
	                     session->subscription->name, session->remote.xid,
	                     pg::compat::lsn_text(session->remote.final_lsn))));
}

/*
 * In a transaction of its own, behind the one that was passed over: one that is prepared must not lock the subscription's row until it is
 * decided. Should this be lost, a position is remembered that does not come again.
 */
void
forget_skip_apart(Session *session)
{
	StartTransactionCommand();
	forget_skip(session);
	close_locals(session->relations->locals);
	CommitTransactionCommand();
	MemoryContextSwitchTo(session->message);
}

/* How far the tables have come for which the stream is read once more. The origin stands where the others are. */
void
save_caught_up(Session *session, XLogRecPtr end_lsn)
{
	act_as_worker(session->relations->locals);
	need_snapshot(session->relations->locals);
	catalog::Internal internal = catalog::begin_internal();
	catalog::run("UPDATE schemasync.relation SET sync_lsn = $2 WHERE subid = $1 AND state = 'catchup' AND sync_lsn < $2",
	             {catalog::as_int8(session->subscription->subid), catalog::as_lsn(end_lsn)});
	catalog::end_internal(internal);
	drop_snapshot(session->relations->locals);
}

/* What the publisher's transaction leaves open is refused, or done as a person decided about it. */
void
settle(Session *session)
{
	const RemoteTransaction *remote = &session->remote;
	LocalRelations *locals = session->relations->locals;
	bool open = has_unsettled(remote->xid);

	if (open) {
		need_local(session);
		flush_rows(session);
		close_locals(locals);
		need_snapshot(locals);
	}
	const Boundary boundary{remote->final_lsn, remote->commit_time, remote->xid, remote->ordinal,
	                        session->catch_up.active ? Pass::CatchUp : Pass::Stream, remote->prepares};
	bool changed = check_settled(*session->subscription, boundary);
	if (open)
		drop_snapshot(locals);
	if (!changed)
		return;
	forget_mappings(session->relations);
	session->group.ends = session->beside.look = session->index_look = session->index_turn = true;
}

/* Everything is written and closed; the transaction can end. */
void
finish_rows(Session *session)
{
	flush_rows(session);
	close_locals(session->relations->locals);
}

void
report_done(Session *session, XLogRecPtr end_lsn, TimestampTz commit_time, std::int64_t transactions)
{
	if (!session->catch_up.active)
		session->passed = end_lsn;
	worker::remember_commit(&session->progress, end_lsn);
	worker::report_applied(end_lsn, commit_time);
	worker::count_applied(session->group.rows, transactions);
	session->group = {};
	MemoryContextSwitchTo(session->message);
	pgstat_report_stat(false);
}

bool
joins_group(const Session *session)
{
	const Group *group = &session->group;
	int delay = session->subscription->options.group_commit_delay;

	if (delay == 0 || group->ends || session->remote.final_lsn <= session->single_until)
		return false;
	if (group->count >= max_transactions || group->rows >= max_rows)
		return false;
	return !TimestampDifferenceExceeds(group->started, GetCurrentTimestamp(), delay);
}

} // namespace

void
begin_remote(Session *session, XLogRecPtr final_lsn, TimestampTz commit_time, TransactionId xid)
{
	RemoteTransaction *remote = &session->remote;

	if (remote->active)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
		                errmsg("the publisher began a transaction within another")));
	forget_carries();
	forget_new_labels();
	*remote = {};
	/* it belongs to the stream proper, which goes on there */
	if (session->catch_up.active && final_lsn >= session->catch_up.until) {
		session->catch_up.done = true;
		return;
	}
	remote->active = true;
	remote->final_lsn = final_lsn;
	remote->commit_time = commit_time;
	remote->xid = xid;
	remote->skipped =
	    session->subscription->skip_lsn != InvalidXLogRecPtr && session->subscription->skip_lsn == final_lsn;
	session->position.xid = xid;
	session->position.lsn = final_lsn;
	if (session->group.open)
		AcceptInvalidationMessages();
}

void
need_local(Session *session)
{
	if (session->group.open)
		return;
	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, nullptr);
	StartTransactionCommand();
	MemoryContextSwitchTo(session->message);
	session->group = {};
	session->group.open = true;
	session->group.started = GetCurrentTransactionStartTimestamp();
}

void
commit_remote(Session *session, XLogRecPtr end_lsn, TimestampTz commit_time)
{
	if (!session->remote.active)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
		                errmsg("the publisher committed a transaction that it had not begun")));
	settle(session);
	if (session->remote.skipped) {
		need_local(session);
		forget_skip(session);
		session->group.ends = true;
	}
	if (session->group.open) {
		session->group.count++;
		session->group.end_lsn = end_lsn;
		session->group.commit_time = commit_time;
		session->group.xid = session->remote.xid;
		session->group.final_lsn = session->remote.final_lsn;
		session->remote.active = false;
		if (!joins_group(session))
			commit_group(session);
	}
	session->remote.active = false;
	session->position.xid = InvalidTransactionId;
}

void
commit_group(Session *session)
{
	Group *group = &session->group;

	if (!group->open)
		return;
	Assert(group->count > 0);
	ErrorPosition position = session->position;
	session->position.command = "COMMIT";
	session->position.xid = group->xid;
	session->position.lsn = group->final_lsn;
	finish_rows(session);
	if (session->catch_up.active)
		save_caught_up(session, group->end_lsn);
	else {
		/* without an id the commit would not take the origin along, and the publisher would be told more than it holds */
		(void) GetCurrentTransactionId();
		worker::set_origin_position(group->end_lsn, group->commit_time);
	}
	pg::at_point(session->catch_up.active ? "catch_up_before_commit" : "before_commit");
	CommitTransactionCommand();
	pg::at_point(session->catch_up.active ? "catch_up_after_commit" : "after_commit");
	session->position = position;
	report_done(session, group->end_lsn, group->commit_time, group->count);
}

void
prepare_remote(Session *session, XLogRecPtr end_lsn, TimestampTz prepare_time)
{
	settle(session);
	need_local(session);
	finish_rows(session);
	note_prepared(session->remote.xid, session->group.ends || session->remote.ordinal > 0);
	worker::set_origin_position(end_lsn, prepare_time);
	/* PREPARE is allowed in a transaction block only */
	BeginTransactionBlock();
	CommitTransactionCommand();
	pg::at_point("before_prepare");
	PrepareTransactionBlock(prepared_name(session->subscription->subid, session->remote.xid));
	CommitTransactionCommand();
	pg::at_point("after_prepare");
	report_done(session, end_lsn, prepare_time, 0);
	save_postponed(session->subscription->subid);
	MemoryContextSwitchTo(session->message);
	if (session->remote.skipped)
		forget_skip_apart(session);
	session->remote.active = false;
	session->position.xid = InvalidTransactionId;
}

void
commit_prepared(Session *session, TransactionId xid, XLogRecPtr commit_lsn, XLogRecPtr end_lsn, TimestampTz commit_time)
{
	commit_group(session);
	session->position.command = "COMMIT PREPARED";
	session->position.xid = xid;
	session->position.lsn = commit_lsn;
	StartTransactionCommand();
	worker::set_origin_position(end_lsn, commit_time);
	pg::at_point("before_commit_prepared");
	bool passed_over = session->subscription->skip_lsn == commit_lsn && !is_prepared_here(xid);
	if (passed_over)
		(void) GetCurrentTransactionId();
	else
		FinishPreparedTransaction(prepared_name(session->subscription->subid, xid), true);
	pg::at_point("commit_prepared_finished");
	CommitTransactionCommand();
	pg::at_point("after_commit_prepared");
	forget_prepared(xid);
	report_done(session, end_lsn, commit_time, 1);
	if (passed_over) {
		session->remote.xid = xid;
		session->remote.final_lsn = commit_lsn;
		forget_skip_apart(session);
	}
	session->position.command = nullptr;
	session->position.xid = InvalidTransactionId;
}

void
rollback_prepared(Session *session, TransactionId xid, XLogRecPtr prepare_end_lsn, TimestampTz prepare_time,
                  XLogRecPtr end_lsn, TimestampTz rollback_time)
{
	commit_group(session);
	StartTransactionCommand();
	char *name = prepared_name(session->subscription->subid, xid);
	/* it may never have come here: prepared before the stream began */
	bool known = LookupGXact(name, prepare_end_lsn, prepare_time);
	worker::set_origin_position(end_lsn, rollback_time);
	if (known)
		FinishPreparedTransaction(name, false);
	else
		(void) GetCurrentTransactionId();
	CommitTransactionCommand();
	forget_prepared(xid);
	report_done(session, end_lsn, rollback_time, 0);
}

void
abort_local(Session *session)
{
	AbortOutOfAnyTransaction();
	/* else the transaction that records what went wrong would move the origin past the one that failed at its commit */
	worker::set_origin_position(InvalidXLogRecPtr, 0);
	forget_batches(session);
	forget_carries();
	forget_unsettled();
	forget_postponed();
	forget_locals(session->relations->locals);
	MemoryContextReset(session->relations->locals->batch);
	MemoryContextReset(session->relations->locals->row);
	session->group = {};
	session->remote = {};
	session->position.command = nullptr;
	session->position.schema = session->position.relation = session->position.column = session->position.key =
	    nullptr;
	session->position.xid = InvalidTransactionId;
	MemoryContextSwitchTo(session->message);
	MemoryContextReset(session->message);
}

} // namespace schemasync::apply
