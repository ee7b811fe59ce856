/*
 * What happens between two transactions of the publisher: the worker stops where a session that compares both sides asks it to
 * (worker/meeting.hpp).
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/session.hpp"

namespace schemasync::apply {

/* Just before the transaction is applied that committed at lsn; nothing of it is in the local transaction yet. */
void at_boundary(Session *session, TransactionId xid, XLogRecPtr lsn);

/* All that was received is applied and committed. */
void at_rest(Session *session);

} // namespace schemasync::apply
