/*
 * The messages of the pgoutput protocol other than rows, each written into out from its type byte on.
 * xid is the (sub)transaction's inside a streamed chunk and InvalidTransactionId elsewhere: then it is left
 * out. Times are microseconds since 2000-01-01 UTC, positions bytes of the WAL.
 *
 * Zone: server code; leaves.
 * source: PostgreSQL documentation, "Logical Replication Message Formats"; logical/proto.c for order and
 * details
 */
#pragma once

#include "decoder/session.hpp"

struct StringInfoData;

namespace schemasync::decoder {

struct RelationEntry;

void write_begin(StringInfoData *out, const ReorderBufferTXN *txn);
void write_commit(StringInfoData *out, const ReorderBufferTXN *txn, XLogRecPtr commit_lsn);
void write_origin(StringInfoData *out, const char *name, XLogRecPtr lsn);

void write_begin_prepare(StringInfoData *out, const ReorderBufferTXN *txn);
/* kind: Prepare or StreamPrepare */
void write_prepare(StringInfoData *out, wire::Message kind, const ReorderBufferTXN *txn, XLogRecPtr lsn);
void write_commit_prepared(StringInfoData *out, const ReorderBufferTXN *txn, XLogRecPtr lsn);
void write_rollback_prepared(StringInfoData *out, const ReorderBufferTXN *txn, XLogRecPtr prepare_end_lsn,
                             TimestampTz prepare_time);

void write_stream_start(StringInfoData *out, TransactionId xid, bool first_chunk);
void write_stream_stop(StringInfoData *out);
void write_stream_commit(StringInfoData *out, const ReorderBufferTXN *txn, XLogRecPtr commit_lsn);
/* with_position: tell a parallel applier where and when */
void write_stream_abort(StringInfoData *out, TransactionId top_xid, const ReorderBufferTXN *txn,
                        XLogRecPtr abort_lsn, bool with_position);

/* What precedes the tuples of a row message: type, xid, relation. */
void write_row_header(StringInfoData *out, wire::Message kind, TransactionId xid, Oid relid);

void write_truncate(StringInfoData *out, TransactionId xid, const Oid *relids, int count, bool cascade,
                    bool restart_sequences);
void write_logical_message(StringInfoData *out, TransactionId xid, XLogRecPtr lsn, bool transactional,
                           const char *prefix, const char *content, Size size);

/* A type that is not built in, under its own oid but with its base type's name. */
void write_type(StringInfoData *out, TransactionId xid, Oid type);
/* The shape of relation, of the columns that entry publishes. */
void write_relation(StringInfoData *out, TransactionId xid, Relation relation, const RelationEntry *entry);

} // namespace schemasync::decoder
