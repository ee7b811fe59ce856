#include "pg/catalog/catalog.hpp"
#include "pg/catalog/digest.hpp"
#include "pg/catalog/expression.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/parts.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

/* What other catalogs say of the columns, read in one scan each. */
struct Column {
	AttrNumber attnum;
	Node *default_expression;
	Oid sequence;
	bool sequence_internal;
};

// ---- leaves: may ereport; plain data only ----

Column *
find_column(List *columns, int attnum)
{
	ListCell *cell;

	foreach (cell, columns) {
		auto *column = static_cast<Column *>(lfirst(cell));
		if (column->attnum == attnum)
			return column;
	}
	return nullptr;
}

Column *
get_column(List **columns, int attnum)
{
	Column *column = find_column(*columns, attnum);

	if (column == nullptr) {
		column = static_cast<Column *>(palloc0(sizeof(Column)));
		column->attnum = static_cast<AttrNumber>(attnum);
		*columns = lappend(*columns, column);
	}
	return column;
}

void
read_defaults(Oid relid, List **columns)
{
	scan_by_oid(AttrDefaultRelationId, AttrDefaultIndexId, Anum_pg_attrdef_adrelid, relid,
	            [columns](HeapTuple tuple, TupleDesc descriptor) {
		            bool isnull = true;
		            Datum value = heap_getattr(tuple, Anum_pg_attrdef_adbin, descriptor, &isnull);
		            if (isnull)
			            return;
		            int attnum = reinterpret_cast<Form_pg_attrdef>(GETSTRUCT(tuple))->adnum;
		            get_column(columns, attnum)->default_expression =
		                static_cast<Node *>(stringToNode(TextDatumGetCString(value)));
	            });
}

/* An identity's sequence depends on its column internally, a serial's automatically; of several the oldest. */
void
read_sequences(Oid relid, List **columns)
{
	scan_by_oids(DependRelationId, DependReferenceIndexId, Anum_pg_depend_refclassid, RelationRelationId,
	             Anum_pg_depend_refobjid, relid, [columns](HeapTuple tuple, TupleDesc) {
		             auto *depend = reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple));
		             if (depend->classid != RelationRelationId || depend->objsubid != 0 || depend->refobjsubid <= 0 ||
		                 (depend->deptype != DEPENDENCY_AUTO && depend->deptype != DEPENDENCY_INTERNAL) ||
		                 get_rel_relkind(depend->objid) != RELKIND_SEQUENCE)
			             return;
		             Column *column = get_column(columns, depend->refobjsubid);
		             bool internal = depend->deptype == DEPENDENCY_INTERNAL;
		             if (!OidIsValid(column->sequence) || (internal && !column->sequence_internal) ||
		                 (internal == column->sequence_internal && depend->objid < column->sequence)) {
			             column->sequence = depend->objid;
			             column->sequence_internal = internal;
		             }
	             });
}

void
append_sequence(StringInfo out, Oid sequence)
{
	HeapTuple tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(sequence));

	if (!HeapTupleIsValid(tuple))
		return;
	auto *form = reinterpret_cast<Form_pg_sequence>(GETSTRUCT(tuple));
	json::begin_object(out, "sequence");
	json::number(out, "oid", sequence);
	json::string(out, "schema", schema_name(get_rel_namespace(sequence)));
	json::string(out, "name", get_rel_name(sequence));
	json::string(out, "type", type_sql(form->seqtypid, -1));
	json::number(out, "start", form->seqstart);
	json::number(out, "increment", form->seqincrement);
	json::number(out, "min", form->seqmin);
	json::number(out, "max", form->seqmax);
	json::number(out, "cache", form->seqcache);
	json::boolean(out, "cycle", form->seqcycle);
	json::end_object(out);
	ReleaseSysCache(tuple);
}

/* attmissingval is an array with one element. */
void
append_missing(StringInfo out, const FormData_pg_attribute *attribute, HeapTuple tuple, TupleDesc descriptor)
{
	bool isnull = true;
	Datum array = attribute->atthasmissing
	                  ? heap_getattr(tuple, Anum_pg_attribute_attmissingval, descriptor, &isnull)
	                  : 0;
	int one = 1;
	Oid output = InvalidOid;
	bool varlena = false;

	if (isnull)
		return;
	Datum value = array_get_element(array, 1, &one, -1, attribute->attlen, attribute->attbyval, attribute->attalign,
	                                &isnull);
	if (isnull)
		return;
	getTypeOutputInfo(attribute->atttypid, &output, &varlena);
	json::string(out, "missing", OidOutputFunctionCall(output, value));
}

void
append_default(StringInfo out, const Subject &subject, const FormData_pg_attribute *attribute, const Column *column)
{
	Node *expression = column != nullptr ? column->default_expression : nullptr;

	if (expression != nullptr && attribute->atthasdef) {
		if (!mentions_hidden(expression, subject.visible))
			append_expression_field(out, "default", expression, subject.relid);
		return;
	}
	if (attribute->attidentity == '\0' && attribute->attgenerated == '\0' &&
	    get_typtype(attribute->atttypid) == TYPTYPE_DOMAIN) {
		Node *domain_default = get_typdefault(attribute->atttypid);
		if (domain_default != nullptr)
			append_expression_field(out, "domain_default", domain_default, InvalidOid);
	}
}

void
append_column(StringInfo out, const Subject &subject, const Column *column, HeapTuple tuple, TupleDesc descriptor)
{
	auto *attribute = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
	bool isnull = true;

	json::begin_object(out);
	json::number(out, "attnum", attribute->attnum);
	json::string(out, "name", NameStr(attribute->attname));
	append_type_reference(out, "type", attribute->atttypid, attribute->atttypmod);
	if (OidIsValid(attribute->attcollation) && attribute->attcollation != get_typcollation(attribute->atttypid))
		json::string(out, "collation", collation_name(attribute->attcollation));
	json::boolean(out, "not_null", attribute->attnotnull);
	append_default(out, subject, attribute, column);
	/* VACUUM FULL writes the value into every row and forgets it: that changes nothing */
	int begin = out->len;
	append_missing(out, attribute, tuple, descriptor);
	if (out->len > begin)
		*subject.unhashed = lappend_int(lappend_int(*subject.unhashed, begin), out->len);
	json::character(out, "identity", attribute->attidentity);
	json::character(out, "generated", attribute->attgenerated);
	if (column != nullptr && OidIsValid(column->sequence))
		append_sequence(out, column->sequence);
	json::character(out, "storage", attribute->attstorage);
	json::character(out, "compression", attribute->attcompression);
	json::number(out, "statistics", compat::attribute_statistics(tuple, descriptor));
	Datum options = heap_getattr(tuple, Anum_pg_attribute_attoptions, descriptor, &isnull);
	if (!isnull)
		json::text_array(out, "options", options, compat::is_attribute_version);
	json::boolean(out, "local", subject.alone || attribute->attislocal);
	json::number(out, "inhcount", subject.alone ? 0 : attribute->attinhcount);
	json::end_object(out);
}

} // namespace

void
append_columns(StringInfo out, const Subject &subject)
{
	List *columns = NIL;

	read_defaults(subject.relid, &columns);
	read_sequences(subject.relid, &columns);

	json::begin_array(out, "columns");
	scan_by_oid(AttributeRelationId, AttributeRelidNumIndexId, Anum_pg_attribute_attrelid, subject.relid,
	            [&](HeapTuple tuple, TupleDesc descriptor) {
		            auto *attribute = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
		            if (attribute->attnum > 0 && !attribute->attisdropped && is_visible(subject, attribute->attnum))
			            append_column(out, subject, find_column(columns, attribute->attnum), tuple, descriptor);
	            });
	json::end_array(out);
}

} // namespace schemasync::pg::catalog
