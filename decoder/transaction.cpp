#include "decoder/transaction.hpp"

#include "decoder/announce.hpp"
#include "decoder/messages.hpp"
#include "decoder/output.hpp"

extern "C" {
#include "utils/memutils.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

namespace {

bool
has_origin(const ReorderBufferTXN *txn)
{
	return txn->origin_id != pg::compat::invalid_origin && txn->origin_id != pg::compat::unnamed_origin;
}

/*
 * Ends the message that opens a transaction or stream, which was begun with last = !with_origin, and has
 * an Origin message follow it.
 */
void
end_opening_message(LogicalDecodingContext *ctx, const ReorderBufferTXN *txn, XLogRecPtr origin_lsn,
                    bool with_origin)
{
	char *name;

	/* an origin that was dropped meanwhile is passed over, as pgoutput does */
	if (with_origin && replorigin_by_oid(txn->origin_id, true, &name)) {
		end_message(ctx, Delivery::may_wait, false);
		begin_message(ctx);
		write_origin(ctx->out, name, origin_lsn);
		pfree(name);
	}
	end_message(ctx, Delivery::may_wait);
}

void
end_announced(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, TransactionId top_xid, bool committed)
{
	if (session_of(ctx)->options.schemasync)
		end_announced_transaction(ctx, txn, top_xid, committed);
}

} // namespace

void
send_begin_if_due(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	Transaction *transaction = transaction_of(txn);

	if (transaction == nullptr || transaction->begin_sent)
		return;
	begin_message(ctx, !has_origin(txn));
	write_begin(ctx->out, txn);
	transaction->begin_sent = true;
	end_opening_message(ctx, txn, txn->origin_lsn, has_origin(txn));
}

void
begin_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	txn->output_plugin_private = MemoryContextAllocZero(ctx->context, sizeof(Transaction));
}

void
commit_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	Transaction *transaction = transaction_of(txn);
	bool begin_sent = transaction->begin_sent;

	report_progress(ctx, !begin_sent);
	pfree(transaction);
	txn->output_plugin_private = nullptr;
	end_announced(ctx, txn, txn->xid, true);
	if (!begin_sent) {
		elog(DEBUG1, "skipped replication of an empty transaction with XID: %u", txn->xid);
		return;
	}
	begin_message(ctx);
	write_commit(ctx->out, txn, commit_lsn);
	end_message(ctx, Delivery::now);
}

/*
 * Prepared transactions are sent even if they are empty: after a restart between prepare and commit nobody
 * would know any more that the prepare was not sent.
 */
void
begin_prepare(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	begin_message(ctx, !has_origin(txn));
	write_begin_prepare(ctx->out, txn);
	end_opening_message(ctx, txn, txn->origin_lsn, has_origin(txn));
}

void
prepare_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_lsn)
{
	report_progress(ctx, false);
	begin_message(ctx);
	write_prepare(ctx->out, wire::Message::Prepare, txn, prepare_lsn);
	end_message(ctx, Delivery::now);
}

void
commit_prepared(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	report_progress(ctx, false);
	end_announced(ctx, txn, txn->xid, true);
	begin_message(ctx);
	write_commit_prepared(ctx->out, txn, commit_lsn);
	end_message(ctx, Delivery::now);
}

void
rollback_prepared(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_end_lsn,
                  TimestampTz prepare_time)
{
	report_progress(ctx, false);
	end_announced(ctx, txn, txn->xid, false);
	begin_message(ctx);
	write_rollback_prepared(ctx->out, txn, prepare_end_lsn, prepare_time);
	end_message(ctx, Delivery::now);
}

void
start_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	/* only the first chunk tells the origin */
	bool first = !rbtxn_is_streamed(txn);
	bool with_origin = first && has_origin(txn);

	if (!first && rbtxn_has_catalog_changes(txn) && session_of(ctx)->announcer != nullptr)
		distrust_caches();
	begin_message(ctx, !with_origin);
	write_stream_start(ctx->out, txn->xid, first);
	end_opening_message(ctx, txn, InvalidXLogRecPtr, with_origin);
	session_of(ctx)->in_streaming = true;
}

void
stop_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *)
{
	begin_message(ctx);
	write_stream_stop(ctx->out);
	end_message(ctx, Delivery::now);
	session_of(ctx)->in_streaming = false;
}

void
abort_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr abort_lsn)
{
	Session *session = session_of(ctx);
	TransactionId top_xid = pg::compat::top_transaction(txn)->xid;
	bool with_position =
	    pg::compat::stream_abort_has_position && session->options.streaming == Streaming::Parallel;

	end_announced(ctx, txn, top_xid, false);
	begin_message(ctx);
	write_stream_abort(ctx->out, top_xid, txn, abort_lsn, with_position);
	end_message(ctx, Delivery::now);
	forget_streamed_schemas(session, top_xid, false);
}

void
commit_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	report_progress(ctx, false);
	end_announced(ctx, txn, txn->xid, true);
	begin_message(ctx);
	write_stream_commit(ctx->out, txn, commit_lsn);
	end_message(ctx, Delivery::now);
	forget_streamed_schemas(session_of(ctx), txn->xid, true);
}

void
prepare_stream(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr prepare_lsn)
{
	report_progress(ctx, false);
	begin_message(ctx);
	write_prepare(ctx->out, wire::Message::StreamPrepare, txn, prepare_lsn);
	end_message(ctx, Delivery::now);
}

bool
filter_origin(LogicalDecodingContext *ctx, pg::compat::OriginId origin)
{
	return session_of(ctx)->options.origin_none && origin != pg::compat::invalid_origin;
}

} // namespace schemasync::decoder
