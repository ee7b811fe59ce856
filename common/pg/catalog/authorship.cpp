/*
 * Which transaction wrote what a state was read from.
 */
#include "pg/catalog/catalog.hpp"
#include "pg/catalog/expression.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/parts.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/sysattr.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

bool
wrote(const Reading *reading, HeapTuple tuple)
{
	TransactionId xid = HeapTupleHeaderGetXmin(tuple->t_data);

	if (!TransactionIdIsNormal(xid))
		return false;
	if (reading != nullptr && reading->xids != nullptr)
		return bsearch(&xid, reading->xids, static_cast<size_t>(reading->xid_count), sizeof(TransactionId),
		               xidComparator) != nullptr;
	return !HistoricSnapshotActive() && TransactionIdIsCurrentTransactionId(xid);
}

bool
wrote_any(const Reading *reading, Oid catalog, Oid index, AttrNumber attnum, Oid value)
{
	bool found = false;

	scan_by_oid(catalog, index, attnum, value,
	            [&found, reading](HeapTuple tuple, TupleDesc) { found = found || wrote(reading, tuple); });
	return found;
}

bool
wrote_cached(const Reading *reading, HeapTuple tuple)
{
	if (!HeapTupleIsValid(tuple))
		return false;
	bool found = wrote(reading, tuple);
	ReleaseSysCache(tuple);
	return found;
}

} // namespace

bool
is_relation_own(Oid relid, const Reading *reading)
{
	return wrote_cached(reading, SearchSysCache1(RELOID, ObjectIdGetDatum(relid))) ||
	       wrote_any(reading, AttributeRelationId, AttributeRelidNumIndexId, Anum_pg_attribute_attrelid, relid) ||
	       wrote_any(reading, AttrDefaultRelationId, AttrDefaultIndexId, Anum_pg_attrdef_adrelid, relid) ||
	       wrote_any(reading, ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid, relid) ||
	       wrote_any(reading, IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid, relid) ||
	       wrote_any(reading, InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid, relid);
}

bool
is_type_own(Oid typid, const Reading *reading)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));

	if (!HeapTupleIsValid(tuple))
		return false;
	Oid relid = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple))->typrelid;
	return wrote_cached(reading, tuple) ||
	       wrote_any(reading, EnumRelationId, EnumTypIdLabelIndexId, Anum_pg_enum_enumtypid, typid) ||
	       wrote_any(reading, ConstraintRelationId, ConstraintTypidIndexId, Anum_pg_constraint_contypid, typid) ||
	       (OidIsValid(relid) && is_relation_own(relid, reading));
}

/*
 * The rows of the system columns are written once, when the relation is created, and (short of a GRANT on both of
 * them) never again: so their xmin is the transaction that created it.
 */
bool
is_created_here(Oid relid, const Reading *reading)
{
	constexpr AttrNumber witnesses[] = {SelfItemPointerAttributeNumber, TableOidAttributeNumber};

	for (AttrNumber attnum : witnesses)
		if (!wrote_cached(reading, SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attnum))))
			return false;
	return true;
}

void
append_tail(StringInfo out, int start, const List *unhashed, bool own, const Reading *reading, Facts *facts)
{
	StringInfoData hashed;
	int at = start;

	initStringInfo(&hashed);
	for (int i = 0; i + 1 < list_length(unhashed); i += 2) {
		appendBinaryStringInfo(&hashed, out->data + at, list_nth_int(unhashed, i) - at);
		at = list_nth_int(unhashed, i + 1);
	}
	appendBinaryStringInfo(&hashed, out->data + at, out->len - at);
	const char *fingerprint = hash_digits(hashed.data, hashed.len);

	json::string(out, "fingerprint", fingerprint);
	if (facts != nullptr) {
		strlcpy(facts->fingerprint, fingerprint, sizeof(facts->fingerprint));
		facts->own = own;
	}
	if (reading == nullptr || reading->as_of == 0)
		return;
	json::number(out, "as_of", static_cast<int64>(own && reading->commit != 0 ? reading->commit : reading->as_of));
	json::boolean(out, "own", own);
}

} // namespace schemasync::pg::catalog
