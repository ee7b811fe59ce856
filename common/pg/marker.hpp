/*
 * The marker: a transactional logical message that the event triggers write after each DDL command, and that
 * the decoder turns into a `schemasync.ddl` message. This module holds what both sides must agree on: the
 * prefix, the key and how the message is sealed with it.
 *
 * Any role may call pg_logical_emit_message, so a marker counts only when it carries a message authentication
 * code made with the database's key. The key lies in schemasync.capture_key(key bytea), one row of 32 bytes,
 * a user_catalog_table that no role may read; both sides read it below the privilege system. The content names
 * the top-level transaction id, so a marker that somebody saw cannot be played again in another transaction.
 *
 * A sealed marker is `{"mac":"<64 hex digits>",` followed by the content without its opening brace; the code is
 * HMAC-SHA256 over the content with its opening brace. The content's fields: docs/wire.md, "Marker".
 *
 * Zone: bridge; every function here is a leaf (may ereport, plain data only).
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "lib/stringinfo.h"
}

namespace schemasync::pg {

inline constexpr char marker_prefix[] = "schemasync.marker";
inline constexpr int marker_key_bytes = 32;

struct MarkerKey {
	unsigned char bytes[marker_key_bytes];
};

/*
 * Reads the database's key as the current catalog snapshot sees it (the historic one during decoding).
 *
 * returns: false when the extension is not installed at that point, or the table does not hold exactly one
 *          key of the right size
 */
bool read_marker_key(MarkerKey *key);

/*
 * Seals a content.
 *
 * in:  content, a JSON object: `{"v":1,"xid":...` (bytes, not NUL-terminated)
 * out: appended to `sealed`, the payload of the logical message
 */
void seal_marker(const MarkerKey *key, const char *content, Size length, StringInfo sealed);

/*
 * Checks a payload and gives its content.
 *
 * returns: false when it is not sealed with this key; otherwise `content` (appended) is the content as it was
 *          given to seal_marker
 */
bool open_marker(const MarkerKey *key, const char *sealed, Size length, StringInfo content);

} // namespace schemasync::pg
