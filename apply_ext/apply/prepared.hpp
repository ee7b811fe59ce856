/*
 * The transactions that this subscription has prepared here and that are not decided yet. What they changed stays locked until the stream
 * comes to their end, so the apply worker must never wait for one of them: it would wait for itself, without a deadlock that the server
 * could see. On the publisher the two transactions did not meet; here they do when both write a row that the publisher does not have:
 * one of a trigger, of a constraint of this side, or of the subscription's own books. A timer, which runs only while
 * there are such transactions, finds such a wait and ends it with an error that names the transaction.
 *
 * Those of a subscription that was dropped have no end at all, and whoever meets them, a copy too, would wait in silence.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/session.hpp"

struct ErrorData;

namespace schemasync::apply {

/* Finds those that a former worker of the subscription left, and dropped subscriptions. Runs a transaction of its own. */
void load_prepared(std::int64_t subid);

/*
 * The current transaction is about to be prepared; nothing more is done in it.
 *
 * in: remote, the publisher's id of it; may_lock, whether it did more than write rows
 */
void note_prepared(TransactionId remote, bool may_lock);

/* It is committed or rolled back. */
void forget_prepared(TransactionId remote);

bool is_prepared_here(TransactionId remote);

/* The name of a prepared transaction: one subscription never has two of the same xid at once. In the current memory context. */
char *prepared_name(std::int64_t subid, TransactionId remote);

/* Makes an error that the timer raised say what it was about; leaves any other as it is. Texts are in the current memory context. */
void explain_wait(ErrorData *error);

} // namespace schemasync::apply
