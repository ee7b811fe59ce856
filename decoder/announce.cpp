#include "decoder/announcer.hpp"
#include "decoder/publication.hpp"
#include "pg/catalog/json.hpp"

extern "C" {
#include "catalog/partition.h"
#include "utils/memutils.h"
#include "utils/rel.h"
}

namespace schemasync::decoder {

namespace catalog = pg::catalog;
namespace json = pg::json;

/* When a relation's state was last compared with what the client has. */
struct AnnouncedRelation {
	std::uint64_t generation;
	TransactionId stream_xid;
};

// ---- leaves: may ereport; plain data only ----

namespace {

/* A state message for one relation, unless the client has its state and those of its types. */
void
announce_one(const Place &place, Oid relid)
{
	List *known = NIL;
	catalog::Facts facts;
	Outgoing outgoing;

	int nest_level = catalog::begin_pinned_settings();
	begin_outgoing(&outgoing);
	json::key(&outgoing.json, "relation");
	bool described = append_relation_state(place, relid, Include::always, &outgoing, &facts);
	if (described) {
		append_type_states(place, published_types(place, relid, &known), &outgoing);
		json::string(&outgoing.json, "provenance", "inferred");
	}
	catalog::end_pinned_settings(nest_level);
	if (described && outgoing.news)
		send_outgoing(place, "schemasync.state", &outgoing);
}

/* Those of a transaction, or of a subtransaction that was rolled back after it was streamed. */
void
forget_rewrites(Announcer *announcer, TransactionId top_xid, TransactionId xid)
{
	List *kept = NIL;
	ListCell *cell;

	foreach(cell, announcer->rewrites) {
		auto *rewrite = static_cast<TableRewrite *>(lfirst(cell));
		if (rewrite->top_xid != top_xid || (xid != top_xid && rewrite->xid != xid)) {
			kept = lappend(kept, rewrite);
			continue;
		}
		MemoryContextDelete(rewrite->entry.context);
		pfree(rewrite);
	}
	list_free(announcer->rewrites);
	announcer->rewrites = kept;
}

} // namespace

void
start_announcer(LogicalDecodingContext *, Session *session)
{
	auto *announcer =
	    static_cast<Announcer *>(MemoryContextAllocZero(session->cache_context, sizeof(Announcer)));

	announcer->sent = make_sent_states(session);
	announcer->dependencies = watch_dependencies(session);
	session->announcer = announcer;
}

bool
is_state_due(const Session *session, const RelationEntry *entry, TransactionId stream_xid)
{
	const AnnouncedRelation *announced = entry->announced;

	return entry->state_due || announced == nullptr ||
	       announced->generation != dependency_generation(session->announcer->dependencies) ||
	       announced->stream_xid != stream_xid;
}

void
announce_relation(LogicalDecodingContext *ctx, ReorderBufferChange *change, Relation relation, RelationEntry *entry)
{
	Session *session = session_of(ctx);
	Place place = place_of(ctx, change->txn, change->lsn);
	/* taken first: what changes while we read makes the state due again */
	std::uint64_t generation = dependency_generation(session->announcer->dependencies);
	Oid relid = RelationGetRelid(relation);

	entry->state_due = false;
	if (relation->rd_rel->relispartition) {
		List *ancestors = get_partition_ancestors(relid);
		for (int i = list_length(ancestors) - 1; i >= 0; i--) {
			Oid ancestor = list_nth_oid(ancestors, i);
			if (is_covered(session_publications(session), ancestor))
				announce_one(place, ancestor);
		}
	}
	announce_one(place, relid);

	if (entry->announced == nullptr)
		entry->announced = static_cast<AnnouncedRelation *>(
		    MemoryContextAlloc(session->cache_context, sizeof(AnnouncedRelation)));
	*entry->announced =
	    AnnouncedRelation{generation, session->in_streaming ? place.txn->xid : InvalidTransactionId};
}

void
end_announced_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, TransactionId top_xid, bool committed)
{
	Announcer *announcer = session_of(ctx)->announcer;

	settle_pending_states(announcer->sent, top_xid, txn->final_lsn, committed);
	if (announcer->rewrites != NIL) {
		MemoryContext caller = MemoryContextSwitchTo(session_of(ctx)->cache_context);
		forget_rewrites(announcer, top_xid, committed ? top_xid : txn->xid);
		MemoryContextSwitchTo(caller);
	}
}

} // namespace schemasync::decoder
