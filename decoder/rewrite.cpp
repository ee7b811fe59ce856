/*
 * Rows of table rewrites: announced always, carried as inserts into the transient relation when the client wants them.
 */
#include "decoder/announcer.hpp"
#include "decoder/change.hpp"
#include "decoder/messages.hpp"
#include "decoder/output.hpp"
#include "decoder/publication.hpp"
#include "decoder/row_filter.hpp"
#include "decoder/row_writer.hpp"
#include "pg/catalog/json.hpp"

extern "C" {
#include "executor/tuptable.h"
#include "libpq/pqformat.h"
#include "utils/memutils.h"
#include "utils/rel.h"
}

namespace schemasync::decoder {

namespace catalog = pg::catalog;
namespace json = pg::json;

namespace {

// ---- leaves: may ereport; plain data only ----

TableRewrite *
find_rewrite(const Announcer *announcer, TransactionId top_xid, Oid transient)
{
	ListCell *cell;

	foreach(cell, announcer->rewrites) {
		auto *rewrite = static_cast<TableRewrite *>(lfirst(cell));
		if (rewrite->top_xid == top_xid && rewrite->transient == transient)
			return rewrite;
	}
	return nullptr;
}

/* SET LOGGED: not published yet, but what is in it will be. */
bool
becomes_logged(Relation table, Relation transient)
{
	return table->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED &&
	       transient->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
}

/* Whether the rows may be sent: those that SET LOGGED brings only where no column list or filter can be meant for them. */
bool
may_carry(Session *session, const RelationEntry *entry, bool logged_now)
{
	if (session->options.rewrites != Rewrites::Carry)
		return false;
	return logged_now ? publish_all_tables(session_publications(session)) : entry->actions.pubinsert;
}

/* The new heap is written like the table itself, but for its own oid. */
TableRewrite *
begin_rewrite(const Place &place, TransactionId xid, const RelationEntry *entry, Relation transient, bool carried)
{
	Session *session = place.session;
	catalog::Published published{};

	/* by the table's own attnums, also where its rows go out as those of its root */
	(void) read_published(session, transient->rd_rel->relrewrite, &published);
	MemoryContext caller = MemoryContextSwitchTo(session->cache_context);
	auto *rewrite = static_cast<TableRewrite *>(palloc0(sizeof(TableRewrite)));
	RelationEntry *own = &rewrite->entry;

	rewrite->top_xid = place.txn->xid;
	rewrite->xid = xid;
	rewrite->relid = transient->rd_rel->relrewrite;
	rewrite->transient = RelationGetRelid(transient);
	rewrite->carried = carried;
	own->relid = rewrite->transient;
	own->valid = true;
	own->publish_as = rewrite->transient;
	own->generated_columns = entry->generated_columns;
	own->context =
	    AllocSetContextCreate(session->cache_context, "schemasync decoder rewrite", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(own->context);
	own->columns = bms_copy(published.columns);
	own->new_slot =
	    MakeSingleTupleTableSlot(CreateTupleDescCopyConstr(RelationGetDescr(transient)), &TTSOpsHeapTuple);
	MemoryContextSwitchTo(session->cache_context);
	session->announcer->rewrites = lappend(session->announcer->rewrites, rewrite);
	MemoryContextSwitchTo(caller);
	return rewrite;
}

void
announce_rewrite(const Place &place, const TableRewrite *rewrite, Oid published_as, Relation transient)
{
	catalog::Facts facts;
	Outgoing outgoing;

	int nest_level = catalog::begin_pinned_settings();
	begin_outgoing(&outgoing);
	json::number(&outgoing.json, "relation", rewrite->relid);
	json::number(&outgoing.json, "transient", rewrite->transient);
	json::number(&outgoing.json, "published_as", published_as);
	json::boolean(&outgoing.json, "carried", rewrite->carried);
	json::key(&outgoing.json, "state");
	if (!append_relation_state(place, rewrite->relid, Include::always, &outgoing, &facts))
		appendStringInfoString(&outgoing.json, "null");
	catalog::end_pinned_settings(nest_level);
	/* the state is on its way to the command's end: the ddl message tells the one that is to be kept */
	outgoing.notes = NIL;
	send_outgoing(place, "schemasync.rewrite", &outgoing);
	if (!rewrite->carried)
		return;
	send_relation(place.ctx, place.xid, transient, &rewrite->entry);
}

/* Whether the publication's row filter lets a row of the new heap through, read as one of the table. */
bool
is_row_published(Session *session, RelationEntry *entry, Relation table, HeapTuple tuple, int columns)
{
	ReorderBufferChangeType action = REORDER_BUFFER_CHANGE_INSERT;

	if (entry->filter_executor == nullptr)
		return true;
	if (RelationGetNumberOfAttributes(table) != columns)
		return false;
	const RowFormat *format = row_format_of(session, entry, table);
	ExecStoreHeapTuple(tuple, entry->new_slot, false);
	TupleTableSlot *slot = convert_to_root(format, entry->new_slot, RowVersion::new_row);
	return passes_row_filter(entry, nullptr, &slot, &action);
}

void
send_rewritten_row(const Place &place, TableRewrite *rewrite, Relation transient, HeapTuple tuple)
{
	TupleTableSlot *slot = rewrite->entry.new_slot;
	const RowFormat *format = row_format_of(place.session, &rewrite->entry, transient);

	ExecStoreHeapTuple(tuple, slot, false);
	begin_message(place.ctx);
	write_row_header(place.ctx->out, wire::Message::Insert, place.xid, rewrite->transient);
	pq_sendbyte(place.ctx->out, static_cast<std::uint8_t>(wire::Tuple::New));
	write_row(place.ctx->out, format, slot);
	end_message(place.ctx, Delivery::may_wait);
}

void
append_rewrite(StringInfo out, Oid relid, int reason, std::int64_t rows, bool carried)
{
	json::begin_object(out);
	json::number(out, "relation", relid);
	json::number(out, "reason", reason);
	json::number(out, "rows", rows);
	json::boolean(out, "carried", carried);
	json::end_object(out);
}

} // namespace

void
receive_rewritten_row(LogicalDecodingContext *ctx, ReorderBufferTXN *, Relation transient, ReorderBufferChange *change)
{
	Session *session = session_of(ctx);
	Oid relid = transient->rd_rel->relrewrite;
	HeapTuple tuple = pg::compat::new_tuple(change);

	/* a materialized view that is refreshed is not covered, as no view is */
	if (change->action != REORDER_BUFFER_CHANGE_INSERT || tuple == nullptr || !is_asked_for(session, relid, relid) ||
	    !do_publications_exist(session->options.publication_names) || !is_covered(session_publications(session), relid))
		return;
	Relation table = RelationIdGetRelation(relid);
	if (table == nullptr)
		return;
	RelationEntry *entry = find_relation(session, table);
	Place place = place_of(ctx, change->txn, change->lsn);
	bool logged_now = becomes_logged(table, transient);
	bool published = entry->actions.pubinsert || entry->actions.pubupdate || entry->actions.pubdelete || logged_now;
	if (published &&
	    is_row_published(session, entry, table, tuple, RelationGetNumberOfAttributes(transient))) {
		TableRewrite *rewrite = find_rewrite(session->announcer, place.txn->xid, RelationGetRelid(transient));
		if (rewrite == nullptr) {
			rewrite = begin_rewrite(place, change->txn->xid, entry, transient, may_carry(session, entry, logged_now));
			announce_rewrite(place, rewrite, OidIsValid(entry->publish_as) ? entry->publish_as : relid, transient);
		}
		rewrite->rows++;
		if (rewrite->carried)
			send_rewritten_row(place, rewrite, transient, tuple);
	}
	RelationClose(table);
}

void
append_rewrites(const Place &place, const List *marked_relids, const List *marked_reasons, const List *told_relids,
                Outgoing *outgoing)
{
	Announcer *announcer = place.session->announcer;
	List *kept = NIL;
	ListCell *cell;
	int i = 0;

	json::begin_array(&outgoing->json, "rewrites");
	foreach(cell, marked_relids) {
		Oid relid = lfirst_oid(cell);
		int reason = list_nth_int(marked_reasons, i++);
		std::int64_t rows = 0;
		bool carried = false;
		ListCell *inner;

		foreach(inner, announcer->rewrites) {
			auto *rewrite = static_cast<const TableRewrite *>(lfirst(inner));
			if (rewrite->relid == relid && rewrite->top_xid == place.txn->xid) {
				rows += rewrite->rows;
				carried = rewrite->carried;
			}
		}
		append_rewrite(&outgoing->json, relid, reason, rows, carried);
	}

	MemoryContext caller = MemoryContextSwitchTo(place.session->cache_context);
	foreach(cell, announcer->rewrites) {
		auto *rewrite = static_cast<TableRewrite *>(lfirst(cell));
		bool marked = list_member_oid(marked_relids, rewrite->relid);
		if (rewrite->top_xid != place.txn->xid || (!marked && !list_member_oid(told_relids, rewrite->relid))) {
			kept = lappend(kept, rewrite);
			continue;
		}
		if (!marked)
			append_rewrite(&outgoing->json, rewrite->relid, 0, rewrite->rows, rewrite->carried);
		MemoryContextDelete(rewrite->entry.context);
		pfree(rewrite);
	}
	list_free(announcer->rewrites);
	announcer->rewrites = kept;
	MemoryContextSwitchTo(caller);
	json::end_array(&outgoing->json);
}

} // namespace schemasync::decoder
