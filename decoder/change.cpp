#include "decoder/change.hpp"

#include <cstring>

#include "decoder/announce.hpp"
#include "decoder/messages.hpp"
#include "decoder/output.hpp"
#include "decoder/publication.hpp"
#include "decoder/row_filter.hpp"
#include "decoder/row_writer.hpp"
#include "decoder/transaction.hpp"

extern "C" {
#include "access/transam.h"
#include "libpq/pqformat.h"
#include "utils/memutils.h"
#include "utils/rel.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

namespace {

bool
is_published(const RelationEntry *entry, ReorderBufferChangeType action)
{
	switch (action) {
	case REORDER_BUFFER_CHANGE_INSERT:
		return entry->actions.pubinsert;
	case REORDER_BUFFER_CHANGE_UPDATE:
		return entry->actions.pubupdate;
	case REORDER_BUFFER_CHANGE_DELETE:
		return entry->actions.pubdelete;
	default:
		return false;
	}
}

/*
 * Sends the shape of a relation, after that of the root it is published as, unless the client has it. A
 * streamed transaction has it sent anew: it may be applied later than others, or not at all.
 */
void
send_schema_if_due(LogicalDecodingContext *ctx, ReorderBufferChange *change, Relation relation,
                   RelationEntry *entry)
{
	Session *session = session_of(ctx);
	TransactionId top_xid = pg::compat::top_transaction(change->txn)->xid;
	bool due = !is_schema_sent(entry, session->in_streaming, top_xid);

	if (session->options.schemasync &&
	    (due || is_state_due(session, entry, session->in_streaming ? top_xid : InvalidTransactionId)))
		announce_relation(ctx, change, relation, entry);
	if (!due)
		return;
	TransactionId xid = stream_xid_of(session, change->txn);
	if (entry->publish_as != RelationGetRelid(relation)) {
		Relation root = RelationIdGetRelation(entry->publish_as);
		send_relation(ctx, xid, root, entry);
		RelationClose(root);
	}
	send_relation(ctx, xid, relation, entry);
	note_schema_sent(session, entry, session->in_streaming, top_xid);
}

/* The old row: whole under REPLICA IDENTITY FULL, else its key columns, the others null. */
void
write_old_row(StringInfo out, const RowFormat *format, TupleTableSlot *slot)
{
	bool whole = replica_identity_of(format) == REPLICA_IDENTITY_FULL;

	pq_sendbyte(out, static_cast<std::uint8_t>(whole ? wire::Tuple::OldRow : wire::Tuple::OldKey));
	write_row(out, format, slot);
}

void
write_new_row(StringInfo out, const RowFormat *format, TupleTableSlot *slot)
{
	pq_sendbyte(out, static_cast<std::uint8_t>(wire::Tuple::New));
	write_row(out, format, slot);
}

void
write_change(StringInfo out, TransactionId xid, Oid relid, ReorderBufferChangeType action,
             const RowFormat *format, TupleTableSlot *old_slot, TupleTableSlot *new_slot)
{
	switch (action) {
	case REORDER_BUFFER_CHANGE_INSERT:
		write_row_header(out, wire::Message::Insert, xid, relid);
		write_new_row(out, format, new_slot);
		break;
	case REORDER_BUFFER_CHANGE_UPDATE:
		write_row_header(out, wire::Message::Update, xid, relid);
		if (old_slot != nullptr)
			write_old_row(out, format, old_slot);
		write_new_row(out, format, new_slot);
		break;
	default:
		write_row_header(out, wire::Message::Delete, xid, relid);
		write_old_row(out, format, old_slot);
		break;
	}
}

/* tuple in slot, converted to the row type it is published in; null for no tuple */
TupleTableSlot *
published_row(const RowFormat *format, HeapTuple tuple, TupleTableSlot *slot, RowVersion version)
{
	if (tuple == nullptr)
		return nullptr;
	ExecStoreHeapTuple(tuple, slot, false);
	return convert_to_root(format, slot, version);
}

/* The body of send_change, in row_context. */
void
send_row(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation, ReorderBufferChange *change)
{
	Session *session = session_of(ctx);
	ReorderBufferChangeType action = change->action;

	/* sent by the reorder buffer only to sessions with option schemasync */
	if (OidIsValid(relation->rd_rel->relrewrite)) {
		receive_rewritten_row(ctx, txn, relation, change);
		return;
	}
	RelationEntry *entry = hold_relation(session, relation);
	if (!is_published(entry, action) || !is_asked_for(session, RelationGetRelid(relation), entry->publish_as))
		return;
	if (action == REORDER_BUFFER_CHANGE_DELETE && pg::compat::old_tuple(change) == nullptr) {
		elog(DEBUG1, "didn't send DELETE change because of missing oldtuple");
		return;
	}

	const RowFormat *format = row_format_of(session, entry, relation);
	TupleTableSlot *old_slot =
	    published_row(format, pg::compat::old_tuple(change), entry->old_slot, RowVersion::old_row);
	TupleTableSlot *new_slot =
	    published_row(format, pg::compat::new_tuple(change), entry->new_slot, RowVersion::new_row);
	if (!passes_row_filter(entry, old_slot, &new_slot, &action))
		return;

	send_begin_if_due(ctx, txn);
	send_schema_if_due(ctx, change, relation, entry);
	begin_message(ctx);
	write_change(ctx->out, stream_xid_of(session, change->txn), entry->publish_as, action, format, old_slot,
	             new_slot);
	end_message(ctx, Delivery::may_wait);
}

/* The body of send_truncate, in row_context. */
void
send_truncated(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count, Relation relations[],
               ReorderBufferChange *change)
{
	Session *session = session_of(ctx);
	auto *relids = static_cast<Oid *>(palloc0(static_cast<Size>(count) * sizeof(Oid)));
	int published = 0;

	for (int i = 0; i < count; i++) {
		Relation relation = relations[i];
		RelationEntry *entry = hold_relation(session, relation);

		if (!entry->actions.pubtruncate || !is_asked_for(session, RelationGetRelid(relation), entry->publish_as))
			continue;
		/* the truncate of the root stands for its partitions */
		if (relation->rd_rel->relispartition && entry->publish_as != RelationGetRelid(relation))
			continue;
		relids[published++] = RelationGetRelid(relation);
		send_begin_if_due(ctx, txn);
		send_schema_if_due(ctx, change, relation, entry);
	}
	if (published == 0)
		return;
	begin_message(ctx);
	write_truncate(ctx->out, stream_xid_of(session, change->txn), relids, published,
	               change->data.truncate.cascade, change->data.truncate.restart_seqs);
	end_message(ctx, Delivery::may_wait);
}

/* Messages under this prefix are between the extension and the decoder. */
bool
is_reserved(const char *prefix)
{
	return strncmp(prefix, wire::reserved_prefix, sizeof(wire::reserved_prefix) - 1) == 0;
}

} // namespace

void
send_relation(LogicalDecodingContext *ctx, TransactionId xid, Relation relation, const RelationEntry *entry)
{
	TupleDesc row_type = RelationGetDescr(relation);

	for (int i = 0; i < row_type->natts; i++) {
		const FormData_pg_attribute *attribute = TupleDescAttr(row_type, i);

		/* oids below are assigned by hand, the same in all versions */
		if (!is_column_published(attribute, entry) || attribute->atttypid < FirstGenbkiObjectId)
			continue;
		begin_message(ctx, false);
		write_type(ctx->out, xid, attribute->atttypid);
		end_message(ctx, Delivery::may_wait, false);
	}
	begin_message(ctx, false);
	write_relation(ctx->out, xid, relation, entry);
	end_message(ctx, Delivery::may_wait, false);
}

void
send_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
            ReorderBufferChange *change)
{
	MemoryContext row_context = session_of(ctx)->row_context;

	report_change(ctx);
	MemoryContext caller = MemoryContextSwitchTo(row_context);
	send_row(ctx, txn, relation, change);
	release_relation(session_of(ctx));
	MemoryContextSwitchTo(caller);
	MemoryContextReset(row_context);
}

void
send_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count, Relation relations[],
              ReorderBufferChange *change)
{
	MemoryContext row_context = session_of(ctx)->row_context;

	report_change(ctx);
	MemoryContext caller = MemoryContextSwitchTo(row_context);
	send_truncated(ctx, txn, count, relations, change);
	release_relation(session_of(ctx));
	MemoryContextSwitchTo(caller);
	MemoryContextReset(row_context);
}

void
send_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional,
             const char *prefix, Size size, const char *content)
{
	Session *session = session_of(ctx);

	report_change(ctx);
	/* the change before may have ended with an error that the server passes over, as it does when a transaction that is streamed aborts */
	release_relation(session);
	if (session->options.schemasync && is_reserved(prefix)) {
		MemoryContext caller = MemoryContextSwitchTo(session->row_context);
		receive_marker(ctx, txn, lsn, transactional, prefix, size, content);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(session->row_context);
		return;
	}
	if (!session->options.messages)
		return;
	if (transactional)
		send_begin_if_due(ctx, txn);
	begin_message(ctx);
	write_logical_message(ctx->out, session->in_streaming ? txn->xid : InvalidTransactionId, lsn,
	                      transactional, prefix, content, size);
	/* one that is not transactional is complete in itself */
	end_message(ctx, transactional ? Delivery::may_wait : Delivery::now);
}

} // namespace schemasync::decoder
