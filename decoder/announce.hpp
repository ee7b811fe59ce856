/*
 * When schemasync's own messages are due: the seam between the pgoutput protocol, which the rest of the
 * decoder writes, and the states, ddl and rewrite messages of docs/wire.md.
 *
 * The functions below are called only in sessions with option schemasync, always with the historic snapshot
 * of the change active, in row_context (reset after the callback). What an announcer keeps:
 *   - for the session: Session::announcer, made by start_announcer() in ctx->context;
 *   - for a relation: RelationEntry::announced, allocated in cache_context; it survives the rebuild of the
 *     entry, so that the last fingerprint sent is still known; state_due says that a rebuild took place.
 * To write a message: send_begin_if_due() (transaction.hpp), begin_message(), write_logical_message(),
 * end_message(ctx, Delivery::may_wait). In a streamed chunk the xid is the change's (stream_xid_of()).
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/relation_cache.hpp"

namespace schemasync::decoder {

void start_announcer(LogicalDecodingContext *ctx, Session *session);

/*
 * Before the Relation messages of a relation (schema_due) and before a row or truncate of a relation whose
 * entry was rebuilt (entry->state_due, which the function clears). relation is the one that changed;
 * entry->publish_as may be its partition root. Nothing of the change itself has been written; Begin has been
 * sent.
 */
void announce_relation(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, ReorderBufferChange *change,
                       Relation relation, RelationEntry *entry, bool schema_due);

/*
 * A logical message with a prefix that starts with "schemasync": a marker, or a forgery. It is never passed
 * on. May be not transactional; then txn can be null.
 */
void receive_marker(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional,
                    const char *prefix, Size size, const char *content);

/* A row of a table rewrite: transient is the new heap, its rd_rel->relrewrite the table's oid. */
void receive_rewritten_row(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation transient,
                           ReorderBufferChange *change);

/* A transaction, or a subtransaction of a streamed one, ended; txn->xid and top_xid tell which. */
void end_announced_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, TransactionId top_xid,
                               bool committed);

} // namespace schemasync::decoder
