#include "pg/catalog/catalog.hpp"
#include "pg/catalog/expression.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/parts.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/sysattr.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_partitioned_table.h"
#include "commands/defrem.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

constexpr char fingerprint_key[] = "\"fingerprint\":\"";

// ---- leaves: may ereport; plain data only ----

bool
is_ours(TransactionId xid, const Reading *reading)
{
	if (reading != nullptr && reading->xids != nullptr)
		return bsearch(&xid, reading->xids, static_cast<size_t>(reading->xid_count), sizeof(TransactionId),
		               xidComparator) != nullptr;
	return !HistoricSnapshotActive() && TransactionIdIsCurrentTransactionId(xid);
}

/*
 * The rows of the system columns are written once, when the relation is created, and (short of a GRANT on both of
 * them) never again: so their xmin is the transaction that created it.
 */
bool
was_created_here(Oid relid, const Reading *reading)
{
	constexpr AttrNumber witnesses[] = {SelfItemPointerAttributeNumber, TableOidAttributeNumber};

	for (AttrNumber attnum : witnesses) {
		HeapTuple tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attnum));
		if (!HeapTupleIsValid(tuple))
			return false;
		TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);
		ReleaseSysCache(tuple);
		if (!TransactionIdIsNormal(xmin) || !is_ours(xmin, reading))
			return false;
	}
	return true;
}

void
append_parents(StringInfo out, Oid relid)
{
	json::begin_array(out, "parents");
	scan_by_oid(InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid, relid,
	            [out](HeapTuple tuple, TupleDesc) {
		            Oid parent = reinterpret_cast<Form_pg_inherits>(GETSTRUCT(tuple))->inhparent;
		            json::begin_object(out);
		            json::number(out, "oid", parent);
		            json::string(out, "schema", schema_name(get_rel_namespace(parent)));
		            json::string(out, "name", get_rel_name(parent));
		            json::end_object(out);
	            });
	json::end_array(out);
}

void
append_published(StringInfo out, const Published *published)
{
	json::begin_object(out, "published");
	if (published->columns == nullptr) {
		json::key(out, "columns");
		appendStringInfoString(out, "null");
	} else {
		json::begin_array(out, "columns");
		for (int attnum = -1; (attnum = bms_next_member(published->columns, attnum)) >= 0;)
			json::element(out, attnum);
		json::end_array(out);
	}
	json::boolean(out, "filter", published->filter);
	json::boolean(out, "via_root", published->via_root);
	json::end_object(out);
}

bool
is_described(char relkind)
{
	return relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE || relkind == RELKIND_MATVIEW ||
	       relkind == RELKIND_VIEW || relkind == RELKIND_FOREIGN_TABLE;
}

void
append_head(StringInfo out, const Subject &subject, HeapTuple tuple)
{
	auto *form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
	const char *owner = role_name(form->relowner);
	bool isnull = true;

	json::string(out, "kind", "relation");
	json::number(out, "oid", subject.relid);
	json::string(out, "schema", subject.schema);
	json::string(out, "name", subject.name);
	json::character(out, "relkind", form->relkind);
	json::character(out, "persistence", form->relpersistence);
	json::string(out, "owner", owner != nullptr ? owner : "");
	json::character(out, "replica_identity", form->relreplident);
	append_replica_identity(out, subject);
	json::boolean(out, "rls", form->relrowsecurity);
	json::boolean(out, "force_rls", form->relforcerowsecurity);
	Datum options = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	if (!isnull)
		json::text_array(out, "options", options);
	if (OidIsValid(form->relam))
		json::string(out, "access_method", get_am_name(form->relam));
	if (OidIsValid(form->reloftype)) {
		HeapTuple type = SearchSysCache1(TYPEOID, ObjectIdGetDatum(form->reloftype));
		if (HeapTupleIsValid(type)) {
			auto *type_form = reinterpret_cast<Form_pg_type>(GETSTRUCT(type));
			json::begin_object(out, "of_type");
			json::string(out, "schema", schema_name(type_form->typnamespace));
			json::string(out, "name", NameStr(type_form->typname));
			json::number(out, "oid", form->reloftype);
			json::end_object(out);
			ReleaseSysCache(type);
		}
	}
}

} // namespace

void
append_relation_reference(StringInfo out, const char *name, Oid relid)
{
	json::begin_object(out, name);
	json::number(out, "oid", relid);
	json::string(out, "schema", schema_name(get_rel_namespace(relid)));
	json::string(out, "name", get_rel_name(relid));
	json::end_object(out);
}

void
append_fingerprint(StringInfo out, int start)
{
	json::string(out, "fingerprint", hash_digits(out->data + start, out->len - start));
}

char *
copy_fingerprint(const char *json)
{
	/* the last one: a quoted text before it cannot hold the unescaped key */
	const char *found = nullptr;

	for (const char *at = json; (at = strstr(at, fingerprint_key)) != nullptr; at++)
		found = at + sizeof(fingerprint_key) - 1;
	return found != nullptr ? pnstrdup(found, 16) : nullptr;
}

bool
append_relation(StringInfo out, Oid relid, const Reading *reading)
{
	HeapTuple tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		return false;
	auto *form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
	const char *schema = schema_name(form->relnamespace);
	if (schema == nullptr || !is_described(form->relkind))
		return false;

	const Published *published = reading != nullptr ? reading->published : nullptr;
	Subject subject{};
	subject.relid = relid;
	subject.schema = schema;
	subject.name = NameStr(form->relname);
	subject.relkind = form->relkind;
	subject.replica_identity = form->relreplident;
	subject.partition = form->relispartition;
	subject.visible = published != nullptr ? published->columns : nullptr;

	json::separate(out);
	int start = out->len;
	json::begin_object(out);
	append_head(out, subject, tuple);
	append_partitioning(out, subject, tuple);
	append_parents(out, relid);
	json::string(out, "extension", extension_name_of(RelationRelationId, relid));
	if (published != nullptr)
		append_published(out, published);
	append_columns(out, subject);
	append_constraints(out, subject);
	append_indexes(out, subject);
	append_fingerprint(out, start);
	json::number(out, "filenode", form->relfilenode);
	json::boolean(out, "created_here", was_created_here(relid, reading));
	json::end_object(out);
	return true;
}

} // namespace schemasync::pg::catalog
