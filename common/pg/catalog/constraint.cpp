#include "pg/catalog/catalog.hpp"
#include "pg/catalog/expression.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/parts.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

/* A row of pg_constraint, copied out of the scan so that others may follow. */
struct Constraint {
	HeapTuple tuple;
	FormData_pg_constraint *form;
	AttrNumber *columns;
	int column_count;
	const Oid *operators;
	Node *check;
};

// ---- leaves: may ereport; plain data only ----

Constraint *
copy_constraint(HeapTuple tuple, TupleDesc descriptor)
{
	auto *constraint = static_cast<Constraint *>(palloc0(sizeof(Constraint)));
	bool isnull = true;

	constraint->tuple = heap_copytuple(tuple);
	constraint->form = reinterpret_cast<Form_pg_constraint>(GETSTRUCT(constraint->tuple));

	Datum keys = heap_getattr(constraint->tuple, Anum_pg_constraint_conkey, descriptor, &isnull);
	if (!isnull) {
		ArrayType *array = DatumGetArrayTypeP(keys);
		constraint->columns = reinterpret_cast<AttrNumber *>(ARR_DATA_PTR(array));
		constraint->column_count = ARR_DIMS(array)[0];
	}
	Datum operators = heap_getattr(constraint->tuple, Anum_pg_constraint_conexclop, descriptor, &isnull);
	if (!isnull)
		constraint->operators = reinterpret_cast<const Oid *>(ARR_DATA_PTR(DatumGetArrayTypeP(operators)));
	Datum check = heap_getattr(constraint->tuple, Anum_pg_constraint_conbin, descriptor, &isnull);
	if (!isnull)
		constraint->check = static_cast<Node *>(stringToNode(TextDatumGetCString(check)));
	return constraint;
}

int
compare_constraints(const ListCell *a, const ListCell *b)
{
	Oid left = static_cast<const Constraint *>(lfirst(a))->form->oid;
	Oid right = static_cast<const Constraint *>(lfirst(b))->form->oid;

	return left < right ? -1 : left > right;
}

/* A foreign key to a partitioned table has a row for each partition of it, which comes and goes with the partition. */
bool
is_derived(const Constraint *constraint)
{
	if (constraint->form->contype != CONSTRAINT_FOREIGN || !OidIsValid(constraint->form->conparentid))
		return false;

	HeapTuple parent = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint->form->conparentid));
	if (!HeapTupleIsValid(parent))
		return false;
	bool derived = reinterpret_cast<Form_pg_constraint>(GETSTRUCT(parent))->conrelid == constraint->form->conrelid;
	ReleaseSysCache(parent);
	return derived;
}

bool
is_hidden(const Subject &subject, const Constraint *constraint)
{
	if (subject.visible == nullptr)
		return false;
	for (int i = 0; i < constraint->column_count; i++)
		if (!is_visible(subject, constraint->columns[i]))
			return true;
	if (constraint->check != nullptr && mentions_hidden(constraint->check, subject.visible))
		return true;

	/* the columns after INCLUDE, and those in expressions */
	bool hidden = false;
	if (OidIsValid(constraint->form->conindid) && constraint->form->contype != CONSTRAINT_FOREIGN) {
		HeapTuple index = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(constraint->form->conindid));
		if (HeapTupleIsValid(index)) {
			hidden = index_is_hidden(subject, index);
			ReleaseSysCache(index);
		}
	}
	return hidden;
}

/* CHECK and EXCLUDE: the server's function would open the table. */
char *
definition_with_expressions(const Subject &subject, const Constraint *constraint)
{
	const FormData_pg_constraint *form = constraint->form;
	StringInfoData out;

	initStringInfo(&out);
	if (form->contype == CONSTRAINT_EXCLUSION)
		append_index_definition(&out, subject, form->conindid, constraint->operators);
	else
		appendStringInfo(&out, "CHECK (%s)%s", deparse(constraint->check, subject.relid),
		                 form->connoinherit ? " NO INHERIT" : "");
	if (form->condeferrable)
		appendStringInfoString(&out, " DEFERRABLE");
	if (form->condeferred)
		appendStringInfoString(&out, " INITIALLY DEFERRED");
	if (!compat::constraint_enforced(form))
		appendStringInfoString(&out, " NOT ENFORCED");
	else if (!form->convalidated)
		appendStringInfoString(&out, " NOT VALID");
	return out.data;
}

/* nullptr when it is gone. */
char *
server_definition(Oid constraint)
{
	LOCAL_FCINFO(call, 1);

	InitFunctionCallInfoData(*call, nullptr, 1, InvalidOid, nullptr, nullptr);
	call->args[0].value = ObjectIdGetDatum(constraint);
	call->args[0].isnull = false;
	Datum result = pg_get_constraintdef(call);
	return call->isnull ? nullptr : TextDatumGetCString(result);
}

void
append_constraint(StringInfo out, const Subject &subject, const Constraint *constraint)
{
	const FormData_pg_constraint *form = constraint->form;
	bool own = form->contype == CONSTRAINT_EXCLUSION ||
	           (form->contype == CONSTRAINT_CHECK && constraint->check != nullptr);
	const char *definition = own ? definition_with_expressions(subject, constraint) : server_definition(form->oid);

	if (definition == nullptr)
		return;
	json::begin_object(out);
	json::number(out, "oid", form->oid);
	json::string(out, "name", NameStr(form->conname));
	json::character(out, "type", form->contype);
	json::string(out, "definition", definition);
	json::begin_array(out, "columns");
	for (int i = 0; i < constraint->column_count; i++)
		json::element(out, constraint->columns[i]);
	json::end_array(out);
	json::boolean(out, "validated", form->convalidated);
	json::boolean(out, "deferrable", form->condeferrable);
	json::boolean(out, "deferred", form->condeferred);
	json::number(out, "index", form->conindid);
	json::boolean(out, "local", subject.alone || form->conislocal);
	json::number(out, "inhcount", subject.alone ? 0 : form->coninhcount);
	json::boolean(out, "no_inherit", form->connoinherit);
	json::number(out, "parent", subject.alone ? InvalidOid : form->conparentid);
	if (constraint->check != nullptr)
		append_expression_field(out, "expr", constraint->check, subject.relid);
	else if (form->contype == CONSTRAINT_EXCLUSION) {
		HeapTuple index = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(form->conindid));
		List *expressions = HeapTupleIsValid(index) ? read_index_expressions(index) : NIL;
		if (expressions != NIL)
			append_expression_field(out, "expr", reinterpret_cast<Node *>(expressions), subject.relid);
		if (HeapTupleIsValid(index))
			ReleaseSysCache(index);
	}
	if (form->contype == CONSTRAINT_FOREIGN)
		append_relation_reference(out, "references", form->confrelid);
	json::end_object(out);
}

void
append_all(StringInfo out, const Subject &subject, List *constraints)
{
	ListCell *cell;

	list_sort(constraints, compare_constraints);
	json::begin_array(out, "constraints");
	foreach (cell, constraints) {
		auto *constraint = static_cast<const Constraint *>(lfirst(cell));
		if (!is_derived(constraint) && !is_hidden(subject, constraint))
			append_constraint(out, subject, constraint);
	}
	json::end_array(out);
}

} // namespace

void
append_constraints(StringInfo out, const Subject &subject)
{
	List *constraints = NIL;

	scan_by_oid(ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid, subject.relid,
	            [&constraints](HeapTuple tuple, TupleDesc descriptor) {
		            constraints = lappend(constraints, copy_constraint(tuple, descriptor));
	            });
	append_all(out, subject, constraints);
}

void
append_domain_constraints(StringInfo out, Oid domain)
{
	List *constraints = NIL;

	scan_by_oid(ConstraintRelationId, ConstraintTypidIndexId, Anum_pg_constraint_contypid, domain,
	            [&constraints](HeapTuple tuple, TupleDesc descriptor) {
		            constraints = lappend(constraints, copy_constraint(tuple, descriptor));
	            });
	append_all(out, Subject{}, constraints);
}

} // namespace schemasync::pg::catalog
