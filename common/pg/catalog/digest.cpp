#include "pg/catalog/digest.hpp"

#include <cstring>

#include "pg/catalog/expression.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/transam.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_database.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_language.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/proclang.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

/* Each part is closed by a byte that no text has, so that parts cannot run into each other. */
void
add(StringInfo out, const char *part)
{
	if (part != nullptr)
		appendStringInfoString(out, part);
	appendStringInfoChar(out, '\x01');
}

void
add_attribute(StringInfo out, int cache, HeapTuple tuple, int attnum)
{
	bool isnull = true;
	Datum value = SysCacheGetAttr(cache, tuple, static_cast<AttrNumber>(attnum), &isnull);

	add(out, isnull ? nullptr : TextDatumGetCString(value));
}

void
add_text_array(StringInfo out, HeapTuple tuple, int attnum)
{
	bool isnull = true;
	Datum array = SysCacheGetAttr(PROCOID, tuple, static_cast<AttrNumber>(attnum), &isnull);
	Datum *values = nullptr;
	int count = 0;

	if (!isnull)
		deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &values, nullptr, &count);
	for (int i = 0; i < count; i++)
		add(out, TextDatumGetCString(values[i]));
	add(out, nullptr);
}

/* What the body uses by name: it has oids, which are each server's own. */
char *
name_of_used(const FormData_pg_depend *depend)
{
	switch (depend->refclassid) {
	case ProcedureRelationId:
		return format_procedure_qualified(depend->refobjid);
	case RelationRelationId:
		return relation_name(depend->refobjid);
	case TypeRelationId:
		return type_sql(depend->refobjid, -1);
	case OperatorRelationId:
		return operator_name(depend->refobjid);
	default:
		return nullptr;
	}
}

int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(static_cast<const char *>(lfirst(a)), static_cast<const char *>(lfirst(b)));
}

bool
ends_with(const char *end, Size length, const char *suffix)
{
	Size wanted = strlen(suffix);

	return length >= wanted && strncmp(end - wanted, suffix, wanted) == 0;
}

/*
 * The body of BEGIN ATOMIC is a parse tree: with the oids of what it uses, with places in the text that it was parsed from, and with the
 * way a cast was written (one that was implied is written out when it is deparsed). These are left out, and the names of what it uses
 * added.
 */
void
add_sql_body(StringInfo out, HeapTuple tuple, Oid function)
{
	bool isnull = true;
	Datum value = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosqlbody, &isnull);
	List *names = NIL;
	ListCell *cell;

	if (isnull) {
		add(out, nullptr);
		return;
	}
	bool is_place = false;
	for (const char *at = TextDatumGetCString(value); *at != '\0';) {
		Size length = strcspn(at, " ");
		bool own = is_place || strtoul(at, nullptr, 10) >= FirstNormalObjectId;
		if (!own)
			appendBinaryStringInfo(out, at, static_cast<int>(length));
		appendStringInfoChar(out, ' ');
		is_place = ends_with(at + length, length, "location") || ends_with(at + length, length, ":stmt_len") ||
		           ends_with(at + length, length, "format");
		at += length + (at[length] == ' ' ? 1 : 0);
	}
	add(out, nullptr);
	scan_by_oids(DependRelationId, DependDependerIndexId, Anum_pg_depend_classid, ProcedureRelationId, Anum_pg_depend_objid,
	             function, [&names](HeapTuple row, TupleDesc) {
		             char *name = name_of_used(reinterpret_cast<Form_pg_depend>(GETSTRUCT(row)));
		             if (name != nullptr)
			             names = lappend(names, name);
	             });
	list_sort(names, compare_names);
	foreach(cell, names)
		add(out, static_cast<const char *>(lfirst(cell)));
}

/* A type in another: one that was made here counts with its own definition. */
void
add_nested(StringInfo out, Oid typid)
{
	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	typid = strip_array(typid);
	if (!is_built_in(typid))
		add(out, digest_type(typid));
}

void
add_attributes(StringInfo out, Oid relid)
{
	scan_by_oid(AttributeRelationId, AttributeRelidNumIndexId, Anum_pg_attribute_attrelid, relid, [out](HeapTuple tuple, TupleDesc) {
		auto *attribute = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
		if (attribute->attnum <= 0 || attribute->attisdropped)
			return;
		add(out, NameStr(attribute->attname));
		add(out, type_sql(attribute->atttypid, attribute->atttypmod));
		add(out, OidIsValid(attribute->attcollation) ? collation_name(attribute->attcollation) : nullptr);
		add_nested(out, attribute->atttypid);
	});
}

char *
finish(StringInfo out)
{
	return hash_digits(out->data, out->len);
}

} // namespace

char *
digest_function(Oid function)
{
	StringInfoData out;

	initStringInfo(&out);
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return finish(&out);

	auto *form = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple));
	const char flags[] = {form->prokind, form->provolatile, form->proisstrict ? 't' : 'f',
	                      form->proretset ? 't' : 'f', form->prosecdef ? 't' : 'f', '\0'};
	add(&out, get_language_name(form->prolang, true));
	add(&out, flags);
	add(&out, type_sql(form->prorettype, -1));
	for (int i = 0; i < form->pronargs; i++)
		add(&out, type_sql(form->proargtypes.values[i], -1));
	add(&out, nullptr);
	add_attribute(&out, PROCOID, tuple, Anum_pg_proc_prosrc);
	add_attribute(&out, PROCOID, tuple, Anum_pg_proc_probin);
	add_sql_body(&out, tuple, function);
	add_text_array(&out, tuple, Anum_pg_proc_proconfig);
	ReleaseSysCache(tuple);
	return finish(&out);
}

char *
digest_operator(Oid opno)
{
	StringInfoData out;
	Oid function = get_opcode(opno);

	initStringInfo(&out);
	if (OidIsValid(function)) {
		add(&out, format_procedure_qualified(function));
		add(&out, is_built_in(function) ? nullptr : digest_function(function));
	}
	return finish(&out);
}

char *
digest_type(Oid typid)
{
	StringInfoData out;

	initStringInfo(&out);
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	if (!HeapTupleIsValid(tuple))
		return finish(&out);

	auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	appendStringInfoChar(&out, form->typtype);
	if (form->typtype == TYPTYPE_BASE) {
		add(&out, psprintf("%d %d", form->typlen, form->typbyval));
		add(&out, format_procedure_qualified(form->typinput));
		add(&out, digest_function(form->typinput));
		add(&out, format_procedure_qualified(form->typoutput));
		add(&out, digest_function(form->typoutput));
		add(&out, extension_name_of(TypeRelationId, typid));
	} else if (form->typtype == TYPTYPE_DOMAIN) {
		/* its checks, which turn values away and change none, are for those who cast to it */
		add(&out, type_sql(form->typbasetype, form->typtypmod));
		add(&out, OidIsValid(form->typcollation) ? collation_name(form->typcollation) : nullptr);
		add_nested(&out, form->typbasetype);
	} else if (form->typtype == TYPTYPE_COMPOSITE) {
		add_attributes(&out, form->typrelid);
	} else if (form->typtype == TYPTYPE_RANGE) {
		add(&out, type_sql(get_range_subtype(typid), -1));
		add(&out, OidIsValid(get_range_collation(typid)) ? collation_name(get_range_collation(typid)) : nullptr);
		add_nested(&out, get_range_subtype(typid));
	}
	ReleaseSysCache(tuple);
	return finish(&out);
}

static Oid
own_cast_function(Oid source, Oid target)
{
	Oid function = InvalidOid;
	HeapTuple tuple = SearchSysCache2(CASTSOURCETARGET, ObjectIdGetDatum(getBaseType(source)), ObjectIdGetDatum(getBaseType(target)));

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	auto *form = reinterpret_cast<Form_pg_cast>(GETSTRUCT(tuple));
	if (!is_built_in(form->oid) && form->castmethod == COERCION_METHOD_FUNCTION)
		function = form->castfunc;
	ReleaseSysCache(tuple);
	return function;
}

/* The cast by a function that was made in this database; InvalidOid: the server's own ways are taken. */
static Oid
find_own_cast(Oid source, Oid target)
{
	Oid function = own_cast_function(source, target);
	Oid source_element = get_element_type(getBaseType(source)), target_element = get_element_type(getBaseType(target));

	/* without one of the arrays their elements are cast */
	if (!OidIsValid(function) && OidIsValid(source_element) && OidIsValid(target_element))
		function = own_cast_function(source_element, target_element);
	return function;
}

char *
digest_cast(Oid source, Oid target)
{
	StringInfoData out;
	Oid function = OidIsValid(source) ? find_own_cast(source, target) : InvalidOid;

	initStringInfo(&out);
	if (OidIsValid(function)) {
		add(&out, format_procedure_qualified(function));
		add(&out, is_built_in(function) ? nullptr : digest_function(function));
	}
	return finish(&out);
}

bool
is_own_cast(Oid source, Oid target)
{
	return OidIsValid(find_own_cast(source, target));
}

/* "en_US.UTF-8", "en_us.utf8" and, of ICU, "en-US" are one locale, and so are "C" and "POSIX". */
static void
add_locale(StringInfo out, const char *name)
{
	if (name != nullptr && pg_strcasecmp(name, "posix") == 0)
		name = "c";
	for (; name != nullptr && *name != '\0'; name++)
		if (*name != '-' && *name != '_')
			appendStringInfoChar(out, static_cast<char>(pg_tolower(static_cast<unsigned char>(*name))));
	add(out, nullptr);
}

/* What upper() and the order of texts of the database depend on. */
static char *
digest_database_locale()
{
	constexpr int locale_columns[] = {Anum_pg_database_datcollate, Anum_pg_database_datctype};
	StringInfoData out;
	bool isnull = true;

	initStringInfo(&out);
	HeapTuple tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	if (!HeapTupleIsValid(tuple))
		return finish(&out);
	char provider = reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple))->datlocprovider;
	appendStringInfoChar(&out, provider);
	for (int attnum : locale_columns) {
		/* of another provider they are for what the server leaves to the C library, which is little */
		if (provider != COLLPROVIDER_LIBC)
			break;
		Datum value = SysCacheGetAttr(DATABASEOID, tuple, static_cast<AttrNumber>(attnum), &isnull);
		add_locale(&out, isnull ? nullptr : TextDatumGetCString(value));
	}
	Datum locale = compat::database_locale(tuple, &isnull);
	add_locale(&out, isnull ? nullptr : TextDatumGetCString(locale));
	ReleaseSysCache(tuple);
	return finish(&out);
}

char *
digest_collation(Oid collation)
{
	StringInfoData out;
	bool isnull = true;

	if (collation == DEFAULT_COLLATION_OID)
		return digest_database_locale();
	initStringInfo(&out);
	HeapTuple tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	if (!HeapTupleIsValid(tuple))
		return finish(&out);

	auto *form = reinterpret_cast<Form_pg_collation>(GETSTRUCT(tuple));
	const char flags[] = {form->collprovider, form->collisdeterministic ? 't' : 'f', '\0'};
	add(&out, flags);
	add_attribute(&out, COLLOID, tuple, Anum_pg_collation_collcollate);
	add_attribute(&out, COLLOID, tuple, Anum_pg_collation_collctype);
	Datum locale = compat::collation_locale(tuple, &isnull);
	add(&out, isnull ? nullptr : TextDatumGetCString(locale));
	/* not its version: what the library of each system calls it differs without anything to repair, and preflight tells of it */
	ReleaseSysCache(tuple);
	return finish(&out);
}

char *
digest_relation(Oid relid)
{
	const char kind[] = {get_rel_relkind(relid), '\0'};

	return hash_digits(kind, 1);
}

List *
read_domain_checks(Oid domain)
{
	List *checks = NIL;

	scan_by_oid(ConstraintRelationId, ConstraintTypidIndexId, Anum_pg_constraint_contypid, domain,
	            [&checks](HeapTuple tuple, TupleDesc descriptor) {
		            bool isnull = true;
		            Datum value = heap_getattr(tuple, Anum_pg_constraint_conbin, descriptor, &isnull);
		            if (!isnull)
			            checks = lappend(checks, stringToNode(TextDatumGetCString(value)));
	            });
	return checks;
}

} // namespace schemasync::pg::catalog
