#include "decoder/objects.hpp"

#include "pg/catalog/names.hpp"
#include "pg/catalog/scan.hpp"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_publication_rel.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::decoder {

namespace {

using pg::catalog::scan_by_oid;
using pg::catalog::scan_by_oids;

/* A class of objects that belong to a relation, and the column that names it. */
struct DependentClass {
	Oid classid;
	Oid oid_index;
	AttrNumber oid_column;
	AttrNumber relation_column;
};
constexpr DependentClass dependent_classes[] = {
    {ConstraintRelationId, ConstraintOidIndexId, Anum_pg_constraint_oid, Anum_pg_constraint_conrelid},
    {AttrDefaultRelationId, AttrDefaultOidIndexId, Anum_pg_attrdef_oid, Anum_pg_attrdef_adrelid},
    {TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, Anum_pg_trigger_tgrelid},
    {PolicyRelationId, PolicyOidIndexId, Anum_pg_policy_oid, Anum_pg_policy_polrelid},
    {RewriteRelationId, RewriteOidIndexId, Anum_pg_rewrite_oid, Anum_pg_rewrite_ev_class},
    {StatisticExtRelationId, StatisticExtOidIndexId, Anum_pg_statistic_ext_oid, Anum_pg_statistic_ext_stxrelid},
    {PublicationRelRelationId, PublicationRelObjectIndexId, Anum_pg_publication_rel_oid,
     Anum_pg_publication_rel_prrelid},
};

// ---- leaves: may ereport; plain data only ----

Oid
read_oid(HeapTuple tuple, TupleDesc descriptor, AttrNumber attnum)
{
	bool isnull = true;
	Datum value = heap_getattr(tuple, attnum, descriptor, &isnull);

	return isnull ? InvalidOid : DatumGetObjectId(value);
}

Oid
table_of_index(Oid index)
{
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	Oid relid = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple))->indrelid;
	ReleaseSysCache(tuple);
	return relid;
}

/* The table whose column owns a sequence. */
Oid
table_of_sequence(Oid sequence)
{
	Oid relid = InvalidOid;

	scan_by_oids(DependRelationId, DependDependerIndexId, Anum_pg_depend_classid, RelationRelationId,
	             Anum_pg_depend_objid, sequence, [&relid](HeapTuple tuple, TupleDesc) {
		             auto *depend = reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple));
		             if (depend->refclassid == RelationRelationId && depend->refobjsubid > 0 &&
		                 (depend->deptype == DEPENDENCY_AUTO || depend->deptype == DEPENDENCY_INTERNAL))
			             relid = depend->refobjid;
	             });
	return relid;
}

Subject
subject_of_type(Oid typid)
{
	Oid bottom = pg::catalog::strip_array(typid);
	Oid relid = get_typ_typrelid(bottom);
	Subject subject{};

	if (get_typtype(bottom) == TYPTYPE_MULTIRANGE)
		bottom = get_multirange_range(bottom);
	if (OidIsValid(relid) && get_rel_relkind(relid) != RELKIND_COMPOSITE_TYPE)
		subject.relid = relid;
	else
		subject.typid = bottom;
	return subject;
}

Subject
subject_of_relation(Oid relid)
{
	Subject subject{};

	switch (get_rel_relkind(relid)) {
	case RELKIND_INDEX:
	case RELKIND_PARTITIONED_INDEX:
		subject.relid = table_of_index(relid);
		break;
	case RELKIND_SEQUENCE:
		subject.relid = table_of_sequence(relid);
		break;
	case RELKIND_COMPOSITE_TYPE:
		subject.typid = get_rel_type_id(relid);
		break;
	default:
		subject.relid = relid;
		break;
	}
	return subject;
}

void
add_users(Oid typid, List **relids, List **seen)
{
	List *types = NIL;
	ListCell *cell;

	if (list_member_oid(*seen, typid))
		return;
	*seen = lappend_oid(*seen, typid);
	scan_by_oids(DependRelationId, DependReferenceIndexId, Anum_pg_depend_refclassid, TypeRelationId,
	             Anum_pg_depend_refobjid, typid, [relids, &types](HeapTuple tuple, TupleDesc) {
		             auto *depend = reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple));
		             if (depend->classid == RelationRelationId && depend->objsubid > 0)
			             *relids = list_append_unique_oid(*relids, depend->objid);
		             else if (depend->classid == TypeRelationId)
			             types = lappend_oid(types, depend->objid);
	             });
	foreach(cell, types)
		add_users(lfirst_oid(cell), relids, seen);
}

} // namespace

Subject
find_subject(Oid classid, Oid objid)
{
	Subject subject{};

	if (classid == RelationRelationId)
		return subject_of_relation(objid);
	if (classid == TypeRelationId)
		return subject_of_type(objid);
	if (classid == NamespaceRelationId) {
		subject.nspid = objid;
		return subject;
	}
	for (const DependentClass &dependent : dependent_classes) {
		if (dependent.classid != classid)
			continue;
		scan_by_oid(classid, dependent.oid_index, dependent.oid_column, objid,
		            [&subject, &dependent](HeapTuple tuple, TupleDesc descriptor) {
			            subject.relid = read_oid(tuple, descriptor, dependent.relation_column);
			            if (dependent.classid == ConstraintRelationId && !OidIsValid(subject.relid))
				            subject.typid = read_oid(tuple, descriptor, Anum_pg_constraint_contypid);
		            });
	}
	return subject;
}

List *
relations_of_schema(Oid nspid)
{
	List *relids = NIL;
	ScanKeyData key;
	Relation relations = table_open(RelationRelationId, AccessShareLock);

	/* pg_class has no index that leads with the schema; only ALTER SCHEMA needs this */
	ScanKeyInit(&key, Anum_pg_class_relnamespace, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(nspid));
	SysScanDesc scan = systable_beginscan(relations, InvalidOid, false, nullptr, 1, &key);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
		auto *form = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
		if (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_PARTITIONED_TABLE)
			relids = lappend_oid(relids, form->oid);
	}
	systable_endscan(scan);
	table_close(relations, AccessShareLock);
	return relids;
}

List *
relations_using_type(Oid typid)
{
	List *relids = NIL;
	List *seen = NIL;
	ListCell *cell;

	add_users(typid, &relids, &seen);
	/* the attributes of a composite type are columns of its relation: those who use that type */
	for (int i = 0; i < list_length(relids); i++) {
		Oid relid = list_nth_oid(relids, i);
		if (get_rel_relkind(relid) == RELKIND_COMPOSITE_TYPE)
			add_users(get_rel_type_id(relid), &relids, &seen);
	}
	List *tables = NIL;
	foreach(cell, relids)
		if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_COMPOSITE_TYPE)
			tables = lappend_oid(tables, lfirst_oid(cell));
	return tables;
}

List *
parents_of(Oid relid)
{
	List *parents = NIL;

	scan_by_oid(InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid, relid,
	            [&parents](HeapTuple tuple, TupleDesc) {
		            parents = lappend_oid(parents, reinterpret_cast<Form_pg_inherits>(GETSTRUCT(tuple))->inhparent);
	            });
	return parents;
}

} // namespace schemasync::decoder
