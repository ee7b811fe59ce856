/*
 * When schemasync's own messages are due: the seam between the pgoutput protocol, which the rest of the
 * decoder writes, and the states, ddl and rewrite messages of docs/wire.md.
 *
 * The functions below are called only in sessions with option schemasync, always with the historic snapshot
 * of the change active, in row_context (reset after the callback). What an announcer keeps:
 *   - for the session: Session::announcer, made by start_announcer() in ctx->context;
 *   - for a relation: RelationEntry::announced, allocated in cache_context; it survives the rebuild of the
 *     entry; state_due says that a rebuild took place.
 *
 * Zone: server code; leaves (receive_marker is an entry).
 */
#pragma once

#include "decoder/relation_cache.hpp"

namespace schemasync::decoder {

void start_announcer(LogicalDecodingContext *ctx, Session *session);

/*
 * Whether the relation's state may differ from what the client has. Cheap: it is asked for every row.
 * stream_xid: the streamed transaction, invalid outside of one.
 */
bool is_state_due(const Session *session, const RelationEntry *entry, TransactionId stream_xid);

/*
 * Sends the state of a relation, after those of the partitioned tables above it, as far as the client does not have
 * them. Before the Relation messages of a relation and, where is_state_due(), before a row or truncate. relation is the
 * one that changed; entry->publish_as may be its partition root. Nothing of the change itself has been written; Begin
 * has been sent.
 */
void announce_relation(LogicalDecodingContext *ctx, ReorderBufferChange *change, Relation relation,
                       RelationEntry *entry);

/*
 * A logical message with a prefix that starts with "schemasync": a marker, or a forgery. It is never passed on.
 * May be not transactional; then txn can be null.
 */
void receive_marker(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional,
                    const char *prefix, Size size, const char *content);

/* A row of a table rewrite: transient is the new heap, its rd_rel->relrewrite the table's oid. */
void receive_rewritten_row(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation transient,
                           ReorderBufferChange *change);

/*
 * A transaction ended: it committed, for a prepared one at COMMIT PREPARED, or a streamed or prepared one was rolled
 * back, or a subtransaction of a streamed one was (committed = false). top_xid is the top-level one's.
 */
void end_announced_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, TransactionId top_xid,
                               bool committed);

} // namespace schemasync::decoder
