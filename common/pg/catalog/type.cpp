#include "pg/catalog/catalog.hpp"
#include "pg/catalog/expression.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/parts.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_range.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

struct Label {
	Oid oid;
	float4 order;
	char *text;
};

// ---- leaves: may ereport; plain data only ----

int
compare_labels(const ListCell *a, const ListCell *b)
{
	float4 left = static_cast<const Label *>(lfirst(a))->order;
	float4 right = static_cast<const Label *>(lfirst(b))->order;

	return left < right ? -1 : left > right;
}

void
append_labels(StringInfo out, Oid typid)
{
	List *labels = NIL;
	ListCell *cell;

	scan_by_oid(EnumRelationId, EnumTypIdLabelIndexId, Anum_pg_enum_enumtypid, typid,
	            [&labels](HeapTuple tuple, TupleDesc) {
		            auto *form = reinterpret_cast<Form_pg_enum>(GETSTRUCT(tuple));
		            auto *label = static_cast<Label *>(palloc(sizeof(Label)));
		            *label = Label{form->oid, form->enumsortorder, pstrdup(NameStr(form->enumlabel))};
		            labels = lappend(labels, label);
	            });
	list_sort(labels, compare_labels);

	json::begin_array(out, "labels");
	foreach (cell, labels) {
		auto *label = static_cast<const Label *>(lfirst(cell));
		json::begin_object(out);
		json::number(out, "oid", label->oid);
		json::string(out, "label", label->text);
		json::end_object(out);
	}
	json::end_array(out);
}

void
append_domain(StringInfo out, Oid typid, const FormData_pg_type *form)
{
	append_type_reference(out, "base", form->typbasetype, form->typtypmod);
	json::boolean(out, "not_null", form->typnotnull);
	Node *default_expression = get_typdefault(typid);
	if (default_expression != nullptr)
		append_expression_field(out, "default", default_expression, InvalidOid);
	if (OidIsValid(form->typcollation) && form->typcollation != get_typcollation(form->typbasetype))
		json::string(out, "collation", collation_name(form->typcollation));
	append_domain_constraints(out, typid);
}

void
append_composite(StringInfo out, const FormData_pg_type *form)
{
	/* the row type of a table: its attributes are the table's columns */
	if (get_rel_relkind(form->typrelid) != RELKIND_COMPOSITE_TYPE)
		append_relation_reference(out, "relation", form->typrelid);
	json::begin_array(out, "attributes");
	scan_by_oid(AttributeRelationId, AttributeRelidNumIndexId, Anum_pg_attribute_attrelid, form->typrelid,
	            [out](HeapTuple tuple, TupleDesc) {
		            auto *attribute = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
		            if (attribute->attnum <= 0 || attribute->attisdropped)
			            return;
		            json::begin_object(out);
		            json::number(out, "attnum", attribute->attnum);
		            json::string(out, "name", NameStr(attribute->attname));
		            append_type_reference(out, "type", attribute->atttypid, attribute->atttypmod);
		            if (OidIsValid(attribute->attcollation) &&
		                attribute->attcollation != get_typcollation(attribute->atttypid))
			            json::string(out, "collation", collation_name(attribute->attcollation));
		            json::end_object(out);
	            });
	json::end_array(out);
}

void
append_range(StringInfo out, Oid typid)
{
	HeapTuple tuple = SearchSysCache1(RANGETYPE, ObjectIdGetDatum(typid));

	if (!HeapTupleIsValid(tuple))
		return;
	auto *form = reinterpret_cast<Form_pg_range>(GETSTRUCT(tuple));
	append_type_reference(out, "subtype", form->rngsubtype, -1);
	json::string(out, "opclass", operator_class_name(form->rngsubopc));
	if (OidIsValid(form->rngcollation))
		json::string(out, "collation", collation_name(form->rngcollation));
	if (OidIsValid(form->rngcanonical))
		json::string(out, "canonical", format_procedure_qualified(form->rngcanonical));
	if (OidIsValid(form->rngsubdiff))
		json::string(out, "diff", format_procedure_qualified(form->rngsubdiff));
	HeapTuple multirange = SearchSysCache1(TYPEOID, ObjectIdGetDatum(form->rngmultitypid));
	if (HeapTupleIsValid(multirange)) {
		json::begin_object(out, "multirange");
		json::number(out, "oid", form->rngmultitypid);
		json::string(out, "name", NameStr(reinterpret_cast<Form_pg_type>(GETSTRUCT(multirange))->typname));
		json::end_object(out);
		ReleaseSysCache(multirange);
	}
	ReleaseSysCache(tuple);
}

void
append_type_head(StringInfo out, Oid typid, const FormData_pg_type *form, const char *schema)
{
	const char *owner = role_name(form->typowner);

	json::string(out, "kind", "type");
	json::number(out, "oid", typid);
	json::string(out, "schema", schema);
	json::string(out, "name", NameStr(form->typname));
	json::character(out, "typtype", form->typtype);
	json::string(out, "owner", owner != nullptr ? owner : "");
	json::string(out, "extension", extension_name_of(TypeRelationId, typid));
	json::number(out, "array", form->typarray);
	if (OidIsValid(form->typarray)) {
		HeapTuple array = SearchSysCache1(TYPEOID, ObjectIdGetDatum(form->typarray));
		if (HeapTupleIsValid(array)) {
			json::string(out, "array_name", NameStr(reinterpret_cast<Form_pg_type>(GETSTRUCT(array))->typname));
			ReleaseSysCache(array);
		}
	}
}

void
collect_attributes(Oid relid, const Bitmapset *columns, List **found, List **known);

/* Depth first, so that a type comes after those it needs; `known` stops at what was seen, and so at cycles. */
void
collect_one(Oid typid, List **found, List **known)
{
	Oid subtype = InvalidOid;
	Oid relid = InvalidOid;

	check_stack_depth();
	typid = strip_array(typid);
	if (get_typtype(typid) == TYPTYPE_MULTIRANGE)
		typid = get_multirange_range(typid);
	if (!OidIsValid(typid) || is_built_in(typid) || list_member_oid(*known, typid))
		return;

	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	if (!HeapTupleIsValid(tuple))
		return;
	auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	if (form->typtype == TYPTYPE_DOMAIN)
		subtype = form->typbasetype;
	else if (form->typtype == TYPTYPE_RANGE)
		subtype = get_range_subtype(typid);
	else if (form->typtype == TYPTYPE_COMPOSITE)
		relid = form->typrelid;
	ReleaseSysCache(tuple);

	*known = lappend_oid(*known, typid);
	if (OidIsValid(subtype))
		collect_one(subtype, found, known);
	if (OidIsValid(relid))
		collect_attributes(relid, nullptr, found, known);
	*found = lappend_oid(*found, typid);
}

void
collect_attributes(Oid relid, const Bitmapset *columns, List **found, List **known)
{
	List *types = NIL;
	ListCell *cell;

	scan_by_oid(AttributeRelationId, AttributeRelidNumIndexId, Anum_pg_attribute_attrelid, relid,
	            [&](HeapTuple tuple, TupleDesc) {
		            auto *attribute = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
		            if (attribute->attnum > 0 && !attribute->attisdropped &&
		                (columns == nullptr || bms_is_member(attribute->attnum, columns)))
			            types = list_append_unique_oid(types, attribute->atttypid);
	            });
	foreach (cell, types)
		collect_one(lfirst_oid(cell), found, known);
}

} // namespace

void
append_type_reference(StringInfo out, const char *name, Oid typid, int32 typmod)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	Oid element = get_element_type(typid);

	json::begin_object(out, name);
	json::number(out, "oid", typid);
	if (HeapTupleIsValid(tuple)) {
		auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
		json::string(out, "schema", schema_name(form->typnamespace));
		json::string(out, "name", NameStr(form->typname));
		ReleaseSysCache(tuple);
	}
	json::number(out, "typmod", typmod);
	json::string(out, "sql", type_sql(typid, typmod));
	json::boolean(out, "builtin", is_built_in(typid));
	if (OidIsValid(element) && !is_built_in(element))
		append_type_reference(out, "element", element, typmod);
	json::end_object(out);
}

bool
append_type(StringInfo out, Oid typid, const Reading *reading, Facts *facts)
{
	HeapTuple tuple = SearchSysCacheCopy1(TYPEOID, ObjectIdGetDatum(typid));

	if (!HeapTupleIsValid(tuple))
		return false;
	auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	const char *schema = schema_name(form->typnamespace);
	if (schema == nullptr)
		return false;

	json::separate(out);
	int start = out->len;
	json::begin_object(out);
	append_type_head(out, typid, form, schema);
	switch (form->typtype) {
	case TYPTYPE_ENUM:
		append_labels(out, typid);
		break;
	case TYPTYPE_DOMAIN:
		append_domain(out, typid, form);
		break;
	case TYPTYPE_COMPOSITE:
		append_composite(out, form);
		break;
	case TYPTYPE_RANGE:
		append_range(out, typid);
		break;
	default:
		break;
	}
	bool own = reading != nullptr && reading->as_of != 0 && is_type_own(typid, reading);
	append_tail(out, start, NIL, own, reading, facts);
	json::end_object(out);
	return true;
}

List *
collect_relation_types(Oid relid, const Bitmapset *columns, List **known)
{
	List *found = NIL;
	Oid of_type = InvalidOid;

	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (HeapTupleIsValid(tuple)) {
		of_type = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->reloftype;
		ReleaseSysCache(tuple);
	}
	collect_attributes(relid, columns, &found, known);
	/* the type of a typed table, which brings the table's columns on */
	if (OidIsValid(of_type))
		collect_one(of_type, &found, known);
	return found;
}

List *
collect_type(Oid typid, List **known)
{
	List *found = NIL;

	collect_one(typid, &found, known);
	return found;
}

void
append_types(StringInfo out, const List *types)
{
	const ListCell *cell;

	json::separate(out);
	appendStringInfoChar(out, '[');
	foreach (cell, types)
		append_type(out, lfirst_oid(cell));
	json::end_array(out);
}

bool
append_schema(StringInfo out, Oid nspid)
{
	HeapTuple tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(nspid));

	if (!HeapTupleIsValid(tuple))
		return false;
	auto *form = reinterpret_cast<Form_pg_namespace>(GETSTRUCT(tuple));
	const char *owner = role_name(form->nspowner);
	json::begin_object(out);
	json::string(out, "kind", "schema");
	json::number(out, "oid", nspid);
	json::string(out, "name", NameStr(form->nspname));
	json::string(out, "owner", owner != nullptr ? owner : "");
	json::string(out, "extension", extension_name_of(NamespaceRelationId, nspid));
	json::end_object(out);
	ReleaseSysCache(tuple);
	return true;
}

} // namespace schemasync::pg::catalog
