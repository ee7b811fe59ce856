#include "pg/marker.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
}

namespace schemasync::pg {

namespace {

constexpr char mac_field[] = "{\"mac\":\"";
constexpr Size mac_field_bytes = sizeof(mac_field) - 1;
constexpr Size mac_digits = 2 * PG_SHA256_DIGEST_LENGTH;
/* the field, the digits, the closing quote and the comma */
constexpr Size header_bytes = mac_field_bytes + mac_digits + 2;

// ---- leaves: may ereport; plain data only ----

void
compute_mac(const MarkerKey *key, const char *content, Size length, char *digits)
{
	uint8 mac[PG_SHA256_DIGEST_LENGTH];
	pg_hmac_ctx *hmac = pg_hmac_create(PG_SHA256);

	if (hmac == nullptr || pg_hmac_init(hmac, key->bytes, sizeof(key->bytes)) < 0 ||
	    pg_hmac_update(hmac, reinterpret_cast<const uint8 *>(content), length) < 0 ||
	    pg_hmac_final(hmac, mac, sizeof(mac)) < 0) {
		pg_hmac_free(hmac);
		elog(ERROR, "could not compute the code of a marker");
	}
	pg_hmac_free(hmac);
	hex_encode(reinterpret_cast<const char *>(mac), sizeof(mac), digits);
}

/* Takes the same time wherever the first difference lies. */
bool
same_digits(const char *a, const char *b)
{
	int difference = 0;

	for (Size i = 0; i < mac_digits; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

bool
take_key(Relation table, HeapTuple tuple, MarkerKey *key)
{
	bool isnull = true;
	Datum value = heap_getattr(tuple, 1, RelationGetDescr(table), &isnull);

	if (isnull)
		return false;

	bytea *bytes = DatumGetByteaPP(value);
	if (VARSIZE_ANY_EXHDR(bytes) != marker_key_bytes)
		return false;
	memcpy(key->bytes, VARDATA_ANY(bytes), marker_key_bytes);
	return true;
}

} // namespace

bool
read_marker_key(MarkerKey *key)
{
	Oid schema = get_namespace_oid("schemasync", true);
	Oid relid = OidIsValid(schema) ? get_relname_relid("capture_key", schema) : InvalidOid;

	if (!OidIsValid(relid))
		return false;

	/* decoding takes no locks: what the historic snapshot sees can neither change nor be waited for */
	bool decoding = HistoricSnapshotActive();
	Relation table = decoding ? RelationIdGetRelation(relid) : try_relation_open(relid, AccessShareLock);
	if (table == nullptr)
		return false;

	int keys = 0;
	bool good = false;
	TupleDesc descriptor = RelationGetDescr(table);
	if (RelationIsUsedAsCatalogTable(table) && descriptor->natts >= 1 &&
	    TupleDescAttr(descriptor, 0)->atttypid == BYTEAOID) {
		/* a systable scan takes the snapshot that is right here: the catalog's, or the historic one */
		SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
		HeapTuple tuple;
		while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
			keys++;
			good = take_key(table, tuple, key);
		}
		systable_endscan(scan);
	}
	relation_close(table, decoding ? NoLock : AccessShareLock);
	return keys == 1 && good;
}

void
seal_marker(const MarkerKey *key, const char *content, Size length, StringInfo sealed)
{
	char digits[mac_digits];

	if (length < 2 || content[0] != '{')
		elog(ERROR, "a marker's content must be a JSON object");
	compute_mac(key, content, length, digits);
	appendBinaryStringInfo(sealed, mac_field, mac_field_bytes);
	appendBinaryStringInfo(sealed, digits, static_cast<int>(mac_digits));
	appendStringInfoString(sealed, "\",");
	appendBinaryStringInfo(sealed, content + 1, static_cast<int>(length - 1));
}

bool
open_marker(const MarkerKey *key, const char *sealed, Size length, StringInfo content)
{
	char digits[mac_digits];

	if (length <= header_bytes + 1 || memcmp(sealed, mac_field, mac_field_bytes) != 0)
		return false;

	int start = content->len;
	appendStringInfoChar(content, '{');
	appendBinaryStringInfo(content, sealed + header_bytes, static_cast<int>(length - header_bytes));
	compute_mac(key, content->data + start, static_cast<Size>(content->len - start), digits);
	if (same_digits(digits, sealed + mac_field_bytes))
		return true;
	content->len = start;
	content->data[start] = '\0';
	return false;
}

} // namespace schemasync::pg
