/*
 * The announcer of a session: what announce.cpp, command.cpp and rewrite.cpp share.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/announce.hpp"
#include "decoder/dependencies.hpp"
#include "decoder/place.hpp"
#include "decoder/sent.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
}

namespace schemasync::decoder {

struct Announcer {
	SentStates *sent;
	Dependencies *dependencies;
	List *rewrites; /* TableRewrite *, of transactions that have not ended, in cache_context */
};

/* One rewrite of a table, from its first row to the marker of its command or the end of the transaction. */
struct TableRewrite {
	TransactionId top_xid, xid; /* the (sub)transaction that made it */
	Oid relid;
	Oid transient; /* the new heap */
	std::int64_t rows;
	bool carried;
	RelationEntry entry; /* how the rows of the new heap are written; its context is this rewrite's */
};

/* A message on its way: its JSON, and what is to be remembered once it was sent. */
struct Outgoing {
	StringInfoData json;
	List *notes; /* of what was put into it */
	bool news;   /* something in it differs from what the client has */
};

/* Whether a state that the client has already, or that is older than that, is wanted all the same. */
enum class Include {
	always, /* unless older */
	news,
};

void begin_outgoing(Outgoing *outgoing);

/*
 * Appends RELATION with what the session's publications say of it. As every function here that reads states, between
 * begin_pinned_settings() and end_pinned_settings().
 *
 * returns: false, with nothing appended, when there is nothing to say
 */
bool append_relation_state(const Place &place, Oid relid, Include include, Outgoing *outgoing,
                           pg::catalog::Facts *facts);

/* Appends the field "types" with TYPE of each in its latest state. */
void append_type_states(const Place &place, List *types, Outgoing *outgoing);

/* The types that the published columns of a relation need and that are not in `known`, which grows. */
List *published_types(const Place &place, Oid relid, List **known);

/* Sends it and remembers what was in it. */
void send_outgoing(const Place &place, const char *prefix, Outgoing *outgoing);

/* How the session publishes a relation; false when there is none. */
bool read_published(Session *session, Oid relid, pg::catalog::Published *published);

/*
 * Appends the field "rewrites" of a ddl message, and forgets the rewrites that it tells of: those of the marker, and of other relations whose
 * states (told_relids) are in the message. Others are left for the marker that comes after one which ran inside its command.
 */
void append_rewrites(const Place &place, const List *marked_relids, const List *marked_reasons, const List *told_relids,
                     Outgoing *outgoing);

} // namespace schemasync::decoder
