/*
 * Markers: from the logical message of an event trigger to a command that is told of.
 */
#include "core/marker.hpp"

#include <cstring>

#include "decoder/command.hpp"
#include "decoder/publication.hpp"
#include "pg/guard.hpp"
#include "pg/marker.hpp"

extern "C" {
#include "mb/pg_wchar.h"
}

namespace schemasync::decoder {

namespace {

// ---- leaves: may ereport; plain data only ----

/* The content of a sealed marker in UTF-8; nullptr when it is not sealed with the key of this point in the WAL. */
const char *
open_content(const char *sealed, Size size)
{
	pg::MarkerKey key;
	StringInfoData content;

	if (!pg::read_marker_key(&key))
		return nullptr;
	initStringInfo(&content);
	if (!pg::open_marker(&key, sealed, size, &content))
		return nullptr;
	return pg_server_to_any(content.data, content.len, PG_UTF8);
}

bool
is_in_transaction(const Place &place, TransactionId xid)
{
	for (int i = 0; i < place.reading.xid_count; i++)
		if (place.reading.xids[i] == xid)
			return true;
	return false;
}

} // namespace

void
receive_marker(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional,
               const char *prefix, Size size, const char *content)
{
	pg::entry([&] {
		if (!transactional || strcmp(prefix, pg::marker_prefix) != 0)
			return;
		const char *text = pg::call([&] { return open_content(content, size); });
		if (text == nullptr)
			return;

		const std::optional<marker::Marker> marker = marker::parse(text);
		pg::call([&] {
			Place place = place_of(ctx, txn, lsn);
			/* sealed once for another transaction: somebody plays it again */
			if (!marker || marker->xid != place.txn->xid)
				return;
			/* a change of a table fails then, as in pgoutput; a command need not */
			if (!do_publications_exist(place.session->options.publication_names))
				return;
			if (TransactionIdIsValid(place.xid) && is_in_transaction(place, marker->subxid))
				place.xid = marker->subxid;
			send_command(place, *marker);
		});
	});
}

} // namespace schemasync::decoder
