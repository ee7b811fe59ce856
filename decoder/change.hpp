/*
 * What happens inside a transaction: rows, truncates, logical messages. The callbacks of the server, each a
 * leaf.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/session.hpp"

namespace schemasync::decoder {

void send_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
                 ReorderBufferChange *change);
void send_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int count, Relation relations[],
                   ReorderBufferChange *change);
void send_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional,
                  const char *prefix, Size size, const char *content);

} // namespace schemasync::decoder
