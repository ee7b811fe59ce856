#include "pg/catalog/digest.hpp"

#include "pg/catalog/expression.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/proclang.h"
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
add(StringInfo text, const char *part)
{
	if (part != nullptr)
		appendStringInfoString(text, part);
	appendStringInfoChar(text, '\x01');
}

void
add_attribute(StringInfo text, int cache, HeapTuple tuple, int attnum)
{
	bool isnull = true;
	Datum value = SysCacheGetAttr(cache, tuple, static_cast<AttrNumber>(attnum), &isnull);

	add(text, isnull ? nullptr : TextDatumGetCString(value));
}

void
add_text_array(StringInfo text, HeapTuple tuple, int attnum)
{
	bool isnull = true;
	Datum array = SysCacheGetAttr(PROCOID, tuple, static_cast<AttrNumber>(attnum), &isnull);
	Datum *values = nullptr;
	int count = 0;

	if (!isnull)
		deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &values, nullptr, &count);
	for (int i = 0; i < count; i++)
		add(text, TextDatumGetCString(values[i]));
	add(text, nullptr);
}

char *
finish(StringInfo text)
{
	return hash_digits(text->data, text->len);
}

} // namespace

char *
digest_function(Oid function)
{
	StringInfoData text;

	initStringInfo(&text);
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return finish(&text);

	auto *form = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple));
	const char flags[] = {form->prokind, form->provolatile, form->proisstrict ? 't' : 'f',
	                      form->proretset ? 't' : 'f', form->prosecdef ? 't' : 'f', '\0'};
	add(&text, get_language_name(form->prolang, true));
	add(&text, flags);
	add(&text, type_sql(form->prorettype, -1));
	for (int i = 0; i < form->pronargs; i++)
		add(&text, type_sql(form->proargtypes.values[i], -1));
	add(&text, nullptr);
	add_attribute(&text, PROCOID, tuple, Anum_pg_proc_prosrc);
	add_attribute(&text, PROCOID, tuple, Anum_pg_proc_probin);
	/* a parse tree with oids in it: equal on both sides only if it uses nothing but built-in objects */
	add_attribute(&text, PROCOID, tuple, Anum_pg_proc_prosqlbody);
	add_text_array(&text, tuple, Anum_pg_proc_proconfig);
	ReleaseSysCache(tuple);
	return finish(&text);
}

char *
digest_operator(Oid opno)
{
	StringInfoData text;
	Oid function = get_opcode(opno);

	initStringInfo(&text);
	if (OidIsValid(function)) {
		add(&text, format_procedure_qualified(function));
		add(&text, is_built_in(function) ? nullptr : digest_function(function));
	}
	return finish(&text);
}

char *
digest_type(Oid typid)
{
	StringInfoData text;

	initStringInfo(&text);
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	if (!HeapTupleIsValid(tuple))
		return finish(&text);

	auto *form = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple));
	appendStringInfoChar(&text, form->typtype);
	if (form->typtype == TYPTYPE_BASE) {
		add(&text, psprintf("%d %d", form->typlen, form->typbyval));
		add(&text, format_procedure_qualified(form->typinput));
		add(&text, digest_function(form->typinput));
		add(&text, format_procedure_qualified(form->typoutput));
		add(&text, digest_function(form->typoutput));
		add(&text, extension_name_of(TypeRelationId, typid));
	}
	ReleaseSysCache(tuple);
	return finish(&text);
}

char *
digest_collation(Oid collation)
{
	StringInfoData text;
	bool isnull = true;

	initStringInfo(&text);
	HeapTuple tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	if (!HeapTupleIsValid(tuple))
		return finish(&text);

	auto *form = reinterpret_cast<Form_pg_collation>(GETSTRUCT(tuple));
	const char flags[] = {form->collprovider, form->collisdeterministic ? 't' : 'f', '\0'};
	add(&text, flags);
	add_attribute(&text, COLLOID, tuple, Anum_pg_collation_collcollate);
	add_attribute(&text, COLLOID, tuple, Anum_pg_collation_collctype);
	Datum locale = compat::collation_locale(tuple, &isnull);
	add(&text, isnull ? nullptr : TextDatumGetCString(locale));
	add_attribute(&text, COLLOID, tuple, Anum_pg_collation_collversion);
	ReleaseSysCache(tuple);
	return finish(&text);
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
