#include "pg/catalog/catalog.hpp"
#include "pg/catalog/expression.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/parts.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

void
append_parents(StringInfo out, const Subject &subject)
{
	json::begin_array(out, "parents");
	if (!subject.alone)
		scan_by_oid(InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid, subject.relid,
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

bool
append_relation(StringInfo out, Oid relid, const Reading *reading, Facts *facts)
{
	HeapTuple tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		return false;
	auto *form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
	const char *schema = schema_name(form->relnamespace);
	if (schema == nullptr || !is_described(form->relkind))
		return false;

	const Published *published = reading != nullptr ? reading->published : nullptr;
	List *unhashed = NIL;
	Subject subject{};
	subject.relid = relid;
	subject.schema = schema;
	subject.name = NameStr(form->relname);
	subject.relkind = form->relkind;
	subject.replica_identity = form->relreplident;
	subject.visible = published != nullptr ? published->columns : nullptr;
	subject.alone = form->relispartition && bound_is_hidden(subject);
	subject.partition = form->relispartition && !subject.alone;

	subject.unhashed = &unhashed;

	json::separate(out);
	int start = out->len;
	json::begin_object(out);
	append_head(out, subject, tuple);
	append_partitioning(out, subject, tuple);
	append_parents(out, subject);
	json::string(out, "extension", extension_name_of(RelationRelationId, relid));
	if (published != nullptr)
		append_published(out, published);
	append_columns(out, subject);
	append_constraints(out, subject);
	append_indexes(out, subject);
	bool own = reading != nullptr && reading->as_of != 0 && is_relation_own(relid, reading);
	append_tail(out, start, unhashed, own, reading, facts);
	json::number(out, "filenode", form->relfilenode);
	bool created_here = is_created_here(relid, reading);
	json::boolean(out, "created_here", created_here);
	if (published != nullptr && published->inserts_only)
		json::boolean(out, "inserts_only", true);
	if (facts != nullptr)
		facts->created_here = created_here;
	json::end_object(out);
	return true;
}

} // namespace schemasync::pg::catalog
