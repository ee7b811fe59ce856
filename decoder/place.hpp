/*
 * Where in the stream something is announced: the transaction, the position, and how the catalog is to be read there.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "decoder/session.hpp"
#include "pg/catalog/catalog.hpp"

namespace schemasync::decoder {

struct Place {
	LogicalDecodingContext *ctx;
	Session *session;
	ReorderBufferTXN *txn; /* top-level */
	TransactionId xid;     /* of the (sub)transaction, for messages in a streamed chunk; else invalid */
	XLogRecPtr lsn;        /* of the change or marker */
	/* the transaction, when it may yet be rolled back after it was sent (streamed or prepared); else invalid */
	TransactionId pending_xid;
	/* how to read the catalog here, with nothing said of publications */
	pg::catalog::Reading reading;
};

/* txn may be a subtransaction. The historic snapshot must be active. */
Place place_of(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn);

/* Sends a transactional logical message of schemasync's, with Begin before it where that is due. json is UTF-8 after it. */
void send_json(const Place &place, const char *prefix, StringInfoData *json);

} // namespace schemasync::decoder
