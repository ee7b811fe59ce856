/*
 * The publisher's transactions and the local ones they are applied in.
 *
 * Several small transactions of the publisher share a local one (a group), in order, never split. The group
 * ends at a size, after group_commit_delay, when nothing more has arrived, and after a schema change. When a
 * group of several fails, its transactions are applied again one by one, so that the error names the right
 * one.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/session.hpp"

namespace schemasync::apply {

/* Begins the publisher's transaction. Opens nothing here before its first change. */
void begin_remote(Session *session, XLogRecPtr final_lsn, TimestampTz commit_time, TransactionId xid);

/* Whether the changes that follow are to be applied: false in a transaction that schemasync_skip names. */
inline bool
is_applying(const Session *session)
{
	return session->remote.active && !session->remote.skipped;
}

/* Opens the local transaction for a change, if it is not open. */
void need_local(Session *session);

/* The publisher's transaction is complete. Commits, or keeps the group open for more. */
void commit_remote(Session *session, XLogRecPtr end_lsn, TimestampTz commit_time);

/* Two-phase commit: the publisher's transaction is prepared here under a name of our own, and decided later.
 */
void prepare_remote(Session *session, XLogRecPtr end_lsn, TimestampTz prepare_time);
/* One that was ended by hand is an error, unless schemasync_skip names its commit. */
void commit_prepared(Session *session, TransactionId xid, XLogRecPtr commit_lsn, XLogRecPtr end_lsn, TimestampTz commit_time);
void rollback_prepared(Session *session, TransactionId xid, XLogRecPtr prepare_end_lsn,
                       TimestampTz prepare_time, XLogRecPtr end_lsn, TimestampTz rollback_time);

/* Commits the group, if one is open. The publisher's current transaction must have no change in it. */
void commit_group(Session *session);

/* After an ERROR: aborts the local transaction and forgets what was open in it. */
void abort_local(Session *session);

} // namespace schemasync::apply
