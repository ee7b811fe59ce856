/*
 * Which state of which object the client has: sent in this session, and not rolled back.
 *
 * A state never goes backwards. A long transaction is decoded when it commits, but its rows under the catalog as of
 * their own position: where that is older than what was sent meanwhile, and the transaction did not itself change the
 * object, the older state stays unsaid.
 *
 * What a streamed or prepared transaction was sent counts for that transaction only, until it commits.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/place.hpp"

namespace schemasync::decoder {

struct SentStates;

/*
 * The first position whose catalog has what a transaction changed, by the start of its commit record. A message is at the end of
 * its record, which is the start of the next: one right before the commit has that very position and does not see it yet.
 */
constexpr XLogRecPtr
position_of_commit(XLogRecPtr commit_lsn)
{
	return commit_lsn + 1;
}

/* Makes an empty memory in the session's cache_context. */
SentStates *make_sent_states(Session *session);

enum class News {
	first,   /* no state of the object was sent that counts here */
	changed, /* another state than the last one sent, and a later one */
	same,
	older, /* what the object was like before the last state sent */
};

/* How a state that was read at place relates to what the client has. */
News judge_state(SentStates *sent, const Place &place, Oid classid, Oid oid, const pg::catalog::Facts &facts);

/* Remembers that a state was sent. json, which is copied, or null: for recall_state(). */
void note_state_sent(SentStates *sent, const Place &place, Oid classid, Oid oid, const pg::catalog::Facts &facts,
                     const char *json);

/* The text that was last sent, or null when it was not kept. */
const char *recall_state(SentStates *sent, const Place &place, Oid classid, Oid oid);

/* Whether any state of the object was sent that counts here. */
bool is_state_sent(SentStates *sent, const Place &place, Oid classid, Oid oid);

/* Forgets an object: what is said of it next is said as if for the first time. */
void forget_state(SentStates *sent, const Place &place, Oid classid, Oid oid);

/* The oids of the relations that the client has states of (not those of transactions that are still pending). */
List *relations_sent(SentStates *sent);

/* A streamed or prepared transaction ended, or a subtransaction of it was rolled back (committed = false). */
void settle_pending_states(SentStates *sent, TransactionId xid, XLogRecPtr commit_lsn, bool committed);

} // namespace schemasync::decoder
