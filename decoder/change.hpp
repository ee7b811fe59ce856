/*
 * What happens inside a transaction: rows, truncates, logical messages. The callbacks of the server, each a
 * leaf.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/relation_cache.hpp"

namespace schemasync::decoder {

void send_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
                 ReorderBufferChange *change);
void send_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count, Relation relations[],
                   ReorderBufferChange *change);
void send_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional,
                  const char *prefix, Size size, const char *content);

/* The Relation message, after Type messages for the types that have no fixed oid. */
void send_relation(LogicalDecodingContext *ctx, TransactionId xid, Relation relation, const RelationEntry *entry);

} // namespace schemasync::decoder
