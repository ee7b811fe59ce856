/*
 * What a session remembers of each relation it met: how it is published (publication.cpp fills that in), how
 * its rows are written, and whether the client was told of its shape.
 *
 * Entries live in the session's cache_context for the whole session and never move. The server's
 * invalidations only mark them stale; the next find_relation() rebuilds what is stale, so that nothing
 * changes under a callback that is at work.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/session.hpp"

struct Bitmapset;
struct TupleTableSlot;

namespace schemasync::decoder {

struct RowFormat;
struct AnnouncedRelation;

/* The actions that a row filter can be given for. */
enum FilterAction { filter_insert, filter_update, filter_delete, filter_actions };

struct RelationEntry {
	Oid relid; /* the key */

	bool valid;   /* what follows agrees with the catalog as of the decoded position */
	bool changed; /* by an invalidation since it was built, not by mere distrust: the client is told anew */

	/* which changes are published; all false for what is in no publication of the session */
	PublicationActions actions;
	Oid publish_as;          /* relid, or the partition root its changes are published as */
	Bitmapset *columns;      /* attnums that a column list names, null for all */
	char generated_columns;  /* 's': stored generated columns are published without a list, 'n': none */
	EState *filter_executor; /* null without a row filter */
	ExprState *filters[filter_actions];

	TupleTableSlot *old_slot; /* of the relation's own row type; null if no row is published */
	TupleTableSlot *new_slot;
	RowFormat *row_format; /* of publish_as' row type; made by row_writer with the first row */

	bool schema_sent;            /* the client has its Relation message */
	List *schema_sent_in_stream; /* top-level xids of streamed transactions that had it */

	AnnouncedRelation *announced; /* of announce.hpp: survives rebuilds, null at first */
	bool state_due;               /* rebuilt since announce_relation() last saw it */

	MemoryContext context; /* everything above that a rebuild replaces; child of cache_context */
};

/* Makes the cache and, once in a process, registers for the server's invalidations. */
void open_relation_cache(Session *session);

/* Detaches the cache from the invalidations. Does nothing for a session that has none. */
void close_relation_cache(Session *session);

/*
 * The entry of a relation, rebuilt if it is stale.
 *
 * errors: those of the catalog reads, among them "cannot use different column lists ..."
 */
RelationEntry *find_relation(Session *session, Relation relation);

/*
 * The same for the relation of the change at work, whose entry stays as it is until the next call or release_relation(), even
 * if it becomes stale: slots, filters and format are in use, while reading the catalog for a state can bring an
 * invalidation and then ask find_relation() for the very same relation.
 */
RelationEntry *hold_relation(Session *session, Relation relation);

/* The change is done with: what asks next, maybe a marker, gets a fresh entry. */
void release_relation(Session *session);

/*
 * The session's publications (Publication *) as of the decoded position; valid until the next call.
 *
 * errors: those of load_publications()
 */
List *session_publications(Session *session);

/*
 * Discards what the caches of the process hold of the catalog, at the start of a chunk of a streamed transaction: transactions that were
 * decoded since its last one may have looked for what this one changed, and found it absent, or as it was. The server only discards its
 * entries at the end of a chunk. What the client was told stays told.
 */
void distrust_caches();

/* A count that grows with every change of a type, function or relation: what was looked up before may be
 * stale. */
std::uint64_t catalog_generation();

/* Whether the client has the Relation message, within the streamed transaction top_xid or, if that is
 * invalid, at all. */
bool is_schema_sent(const RelationEntry *entry, bool in_streaming, TransactionId top_xid);
void note_schema_sent(Session *session, RelationEntry *entry, bool in_streaming, TransactionId top_xid);

/* A streamed transaction ended: what it told the client counts if it committed and is void if not. */
void forget_streamed_schemas(Session *session, TransactionId top_xid, bool committed);

} // namespace schemasync::decoder
