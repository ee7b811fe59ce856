/*
 * Streamed transactions: large transactions of the publisher that arrive before their end. Each is kept in a
 * temporary file until it commits, and then read back in order. A rolled back savepoint cuts the file where
 * its first change lies.
 *
 * The files live as long as the connection: after a new one the publisher sends such transactions from their
 * start.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <string_view>

#include "pg/postgres.hpp"

namespace schemasync::apply {

struct Spools;

Spools *make_spools(MemoryContext context);

/* Stream blocks: between these, messages go into the transaction's file. */
void begin_stream_block(Spools *spools, TransactionId xid, bool first_segment);
void end_stream_block(Spools *spools);
bool in_stream_block(const Spools *spools);

/* Keeps one message of the current block; xid: of its (sub)transaction. */
void spool_message(Spools *spools, TransactionId xid, std::string_view message);

/* A transaction (xid = subxid) or one of its subtransactions was rolled back. */
void abort_spooled(Spools *spools, TransactionId xid, TransactionId subxid);

/* Reads a transaction back: start, then message by message. */
void start_replay(Spools *spools, TransactionId xid);
bool is_replaying(const Spools *spools);
/* returns: false at the end, where the file is dropped; the message is valid until the next call, and may be
 * written to */
bool next_spooled(Spools *spools, std::string_view *message);

/* Drops everything. */
void drop_spools(Spools *spools);

} // namespace schemasync::apply
