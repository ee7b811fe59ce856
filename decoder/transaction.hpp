/*
 * Begin and end of transactions: plain, prepared and streamed. The callbacks of the server, each a leaf.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/session.hpp"

namespace schemasync::decoder {

/* Sends Begin, with the origin, unless it was sent or the transaction is a prepared or streamed one. */
void send_begin_if_due(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);

/* The xid that a message carries in a streamed chunk; InvalidTransactionId elsewhere. */
inline TransactionId
stream_xid_of(const Session *session, const ReorderBufferTXN *txn)
{
	return session->in_streaming ? txn->xid : InvalidTransactionId;
}

void begin_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);
void commit_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn);

void begin_prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);
void prepare_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_lsn);
void commit_prepared(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn);
void rollback_prepared(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_end_lsn,
                       TimestampTz prepare_time);

void start_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);
void stop_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn);
void abort_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr abort_lsn);
void commit_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn);
void prepare_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_lsn);

/* Whether changes of an origin are left out (option origin). */
bool filter_origin(LogicalDecodingContext *ctx, pg::compat::OriginId origin);

} // namespace schemasync::decoder
