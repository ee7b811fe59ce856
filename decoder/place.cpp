#include "decoder/place.hpp"

#include <cstring>

#include "decoder/messages.hpp"
#include "decoder/output.hpp"
#include "decoder/sent.hpp"
#include "decoder/transaction.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/snapmgr.h"
}

namespace schemasync::decoder {

// ---- leaves: may ereport; plain data only ----

Place
place_of(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
	ReorderBufferTXN *top = pg::compat::top_transaction(txn);
	Session *session = session_of(ctx);
	/* while decoding, the historic one: its subxip are the ids of the transaction that is replayed */
	Snapshot snapshot = GetCatalogSnapshot(RelationRelationId);
	Place place{};

	place.ctx = ctx;
	place.session = session;
	place.txn = top;
	place.xid = stream_xid_of(session, txn);
	place.lsn = lsn;
	if (session->in_streaming || pg::compat::is_prepared(top))
		place.pending_xid = top->xid;
	place.reading.xids = snapshot->subxip;
	place.reading.xid_count = snapshot->subxcnt;
	place.reading.as_of = lsn;
	if (!TransactionIdIsValid(place.pending_xid))
		place.reading.commit = position_of_commit(top->final_lsn);
	return place;
}

void
send_json(const Place &place, const char *prefix, StringInfoData *json)
{
	/* JSON is UTF-8 in the stream, whatever the database's encoding is */
	char *content = pg_server_to_any(json->data, json->len, PG_UTF8);
	Size size = content == json->data ? static_cast<Size>(json->len) : strlen(content);

	send_begin_if_due(place.ctx, place.txn);
	begin_message(place.ctx);
	write_logical_message(place.ctx->out, place.xid, place.lsn, true, prefix, content, size);
	end_message(place.ctx, Delivery::may_wait);
}

} // namespace schemasync::decoder
