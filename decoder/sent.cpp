#include "decoder/sent.hpp"

#include <cstring>

extern "C" {
#include "catalog/pg_class.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
}

namespace schemasync::decoder {

namespace {

/* xid is that of a pending transaction, invalid for what counts for all. No padding: it is hashed as bytes. */
struct SentKey {
	TransactionId xid;
	Oid classid;
	Oid oid;
};

struct SentState {
	SentKey key;
	char fingerprint[17];
	bool own;
	/* every commit that begins before this position is in the state */
	XLogRecPtr position;
	char *json;
};

} // namespace

struct SentStates {
	HTAB *states;
	MemoryContext context;
	int pending; /* states of pending transactions */
};

namespace {

// ---- leaves: may ereport; plain data only ----

SentState *
find_state(SentStates *sent, TransactionId xid, Oid classid, Oid oid)
{
	SentKey key{xid, classid, oid};

	return static_cast<SentState *>(hash_search(sent->states, &key, HASH_FIND, nullptr));
}

/* The pending transaction's own, or else the one that counts for all. */
SentState *
find_valid_state(SentStates *sent, const Place &place, Oid classid, Oid oid)
{
	SentState *state =
	    TransactionIdIsValid(place.pending_xid) ? find_state(sent, place.pending_xid, classid, oid) : nullptr;

	return state != nullptr ? state : find_state(sent, InvalidTransactionId, classid, oid);
}

void
store_state(SentStates *sent, const SentKey &key, const char *fingerprint, bool own, XLogRecPtr position,
            const char *json)
{
	bool found = false;
	auto *state = static_cast<SentState *>(hash_search(sent->states, &key, HASH_ENTER, &found));

	if (!found) {
		state->json = nullptr;
		if (TransactionIdIsValid(key.xid))
			sent->pending++;
	}
	strlcpy(state->fingerprint, fingerprint, sizeof(state->fingerprint));
	state->own = own;
	state->position = position;
	if (state->json != nullptr)
		pfree(state->json);
	state->json = nullptr;
	if (json != nullptr)
		state->json = MemoryContextStrdup(sent->context, json);
}

List *
states_of(SentStates *sent, TransactionId xid)
{
	HASH_SEQ_STATUS scan;
	List *states = NIL;

	hash_seq_init(&scan, sent->states);
	while (auto *state = static_cast<SentState *>(hash_seq_search(&scan)))
		if (state->key.xid == xid)
			states = lappend(states, state);
	return states;
}

} // namespace

SentStates *
make_sent_states(Session *session)
{
	auto *sent =
	    static_cast<SentStates *>(MemoryContextAllocZero(session->cache_context, sizeof(SentStates)));
	HASHCTL control{};

	control.keysize = sizeof(SentKey);
	control.entrysize = sizeof(SentState);
	control.hcxt = session->cache_context;
	sent->context = session->cache_context;
	sent->states =
	    hash_create("schemasync decoder states sent", 128, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return sent;
}

News
judge_state(SentStates *sent, const Place &place, Oid classid, Oid oid, const pg::catalog::Facts &facts)
{
	SentState *state = find_valid_state(sent, place, classid, oid);

	if (state == nullptr)
		return News::first;
	if (strcmp(state->fingerprint, facts.fingerprint) == 0) {
		if (place.lsn > state->position)
			state->position = place.lsn;
		return News::same;
	}
	return place.lsn < state->position && !facts.own ? News::older : News::changed;
}

void
note_state_sent(SentStates *sent, const Place &place, Oid classid, Oid oid, const pg::catalog::Facts &facts,
                const char *json)
{
	bool pending = TransactionIdIsValid(place.pending_xid);
	/* nobody else sees the transaction's own changes before its commit, which is where they take their place */
	XLogRecPtr position = facts.own && !pending ? position_of_commit(place.txn->final_lsn) : place.lsn;

	store_state(sent, SentKey{place.pending_xid, classid, oid}, facts.fingerprint, facts.own,
	            position > place.lsn ? position : place.lsn, json);
}

const char *
recall_state(SentStates *sent, const Place &place, Oid classid, Oid oid)
{
	SentState *state = find_valid_state(sent, place, classid, oid);

	return state != nullptr ? state->json : nullptr;
}

bool
is_state_sent(SentStates *sent, const Place &place, Oid classid, Oid oid)
{
	return find_valid_state(sent, place, classid, oid) != nullptr;
}

void
forget_state(SentStates *sent, const Place &place, Oid classid, Oid oid)
{
	SentState *state = find_state(sent, place.pending_xid, classid, oid);

	if (state == nullptr)
		return;
	SentKey key = state->key;
	if (state->json != nullptr)
		pfree(state->json);
	hash_search(sent->states, &key, HASH_REMOVE, nullptr);
	if (TransactionIdIsValid(key.xid))
		sent->pending--;
}

List *
relations_sent(SentStates *sent)
{
	List *relids = NIL;
	ListCell *cell;

	foreach(cell, states_of(sent, InvalidTransactionId)) {
		auto *state = static_cast<const SentState *>(lfirst(cell));
		if (state->key.classid == RelationRelationId)
			relids = lappend_oid(relids, state->key.oid);
	}
	return relids;
}

void
settle_pending_states(SentStates *sent, TransactionId xid, XLogRecPtr commit_lsn, bool committed)
{
	ListCell *cell;

	if (sent->pending == 0)
		return;
	foreach(cell, states_of(sent, xid)) {
		auto *state = static_cast<SentState *>(lfirst(cell));
		SentKey key{InvalidTransactionId, state->key.classid, state->key.oid};
		XLogRecPtr position = state->own ? position_of_commit(commit_lsn) : state->position;
		SentState *settled = find_state(sent, InvalidTransactionId, key.classid, key.oid);

		if (committed && (settled == nullptr || settled->position < position))
			store_state(sent, key, state->fingerprint, state->own, position, state->json);
		if (state->json != nullptr)
			pfree(state->json);
		SentKey own_key = state->key;
		hash_search(sent->states, &own_key, HASH_REMOVE, nullptr);
		sent->pending--;
	}
}

} // namespace schemasync::decoder
