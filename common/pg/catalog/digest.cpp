#include "pg/catalog/digest.hpp"

#include <cstring>

#include "pg/catalog/expression.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_language.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/proclang.h"
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
	}
	ReleaseSysCache(tuple);
	return finish(&out);
}

char *
digest_collation(Oid collation)
{
	StringInfoData out;
	bool isnull = true;

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
