#include "apply_ext/capture/touched.hpp"

#include "pg/compat.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_type.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
}

namespace schemasync::capture {

namespace {

// ---- leaves: may ereport; plain data only ----

/* A class of objects that have no schema but belong to a relation. */
struct DependentClass {
	Oid class_id;
	Oid oid_index;
	AttrNumber oid_column;
	AttrNumber relation_column;
};
constexpr DependentClass dependent_classes[] = {
    {TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, Anum_pg_trigger_tgrelid},
    {PolicyRelationId, PolicyOidIndexId, Anum_pg_policy_oid, Anum_pg_policy_polrelid},
    {RewriteRelationId, RewriteOidIndexId, Anum_pg_rewrite_oid, Anum_pg_rewrite_ev_class},
    {ConstraintRelationId, ConstraintOidIndexId, Anum_pg_constraint_oid, Anum_pg_constraint_conrelid},
    {StatisticExtRelationId, StatisticExtOidIndexId, Anum_pg_statistic_ext_oid, Anum_pg_statistic_ext_stxrelid},
    {AttrDefaultRelationId, AttrDefaultOidIndexId, Anum_pg_attrdef_oid, Anum_pg_attrdef_adrelid},
};

/* A column of type oid of the row with that oid; InvalidOid when there is none. */
Oid
read_oid_column(Oid catalog_id, Oid oid_index, AttrNumber oid_column, Oid object, AttrNumber column)
{
	Oid result = InvalidOid;
	Relation catalog = table_open(catalog_id, AccessShareLock);
	ScanKeyData key;

	ScanKeyInit(&key, oid_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	SysScanDesc scan = systable_beginscan(catalog, oid_index, true, nullptr, 1, &key);
	HeapTuple tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple)) {
		bool isnull;
		Datum value = heap_getattr(tuple, column, RelationGetDescr(catalog), &isnull);
		result = isnull ? InvalidOid : DatumGetObjectId(value);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

void
note_relation(Touched *touched, Oid relid)
{
	char kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';

	if (kind == RELKIND_INDEX || kind == RELKIND_PARTITIONED_INDEX) {
		relid = IndexGetRelation(relid, true);
		kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';
	}
	if (kind == RELKIND_COMPOSITE_TYPE) {
		Oid type = get_rel_type_id(relid);
		if (OidIsValid(type))
			touched->types = list_append_unique_oid(touched->types, type);
	} else if (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE) {
		touched->relations = list_append_unique_oid(touched->relations, relid);
	}
}

void
note_type(Touched *touched, Oid type)
{
	if (!OidIsValid(type))
		return;

	/* the row type of a table is told by the table, an array by its element */
	char typtype = get_typtype(type);
	Oid relid = typtype == TYPTYPE_COMPOSITE ? get_typ_typrelid(type) : InvalidOid;
	if (typtype == '\0' || OidIsValid(get_element_type(type)))
		return;
	if (OidIsValid(relid) && get_rel_relkind(relid) != RELKIND_COMPOSITE_TYPE)
		note_relation(touched, relid);
	else
		touched->types = list_append_unique_oid(touched->types, type);
}

void
note_range_var(Touched *touched, const RangeVar *name)
{
	if (name != nullptr)
		note_relation(touched, RangeVarGetRelid(name, NoLock, true));
}

void
note_type_name(Touched *touched, TypeName *name)
{
	note_type(touched, LookupTypeNameOid(nullptr, name, true));
}

void
note_schema_name(Touched *touched, const char *name)
{
	Oid schema = get_namespace_oid(name, true);

	if (OidIsValid(schema))
		touched->schemas = list_append_unique_oid(touched->schemas, schema);
}

/* The tables in a schema: DROP SCHEMA names none of them. */
void
note_schema_content(Touched *touched, const char *name)
{
	Oid schema = get_namespace_oid(name, true);

	if (!OidIsValid(schema))
		return;
	Relation catalog = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, nullptr, 0, nullptr);
	HeapTuple tuple;
	while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
		auto *row = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple));
		if (row->relnamespace == schema &&
		    (row->relkind == RELKIND_RELATION || row->relkind == RELKIND_PARTITIONED_TABLE))
			touched->relations = list_append_unique_oid(touched->relations, row->oid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* An object as RENAME, SET SCHEMA, OWNER TO and DROP name it, when it is not a relation. */
void
note_object(Touched *touched, ObjectType type, Node *object)
{
	if (object == nullptr)
		return;
	switch (type) {
	case OBJECT_TYPE:
	case OBJECT_DOMAIN:
		if (IsA(object, TypeName))
			note_type_name(touched, castNode(TypeName, object));
		else if (IsA(object, List))
			note_type_name(touched, makeTypeNameFromNameList(castNode(List, object)));
		break;
	case OBJECT_DOMCONSTRAINT: /* RENAME: the domain's name; DROP: that and the constraint's */
		if (IsA(object, List) && IsA(linitial(castNode(List, object)), TypeName))
			note_type_name(touched, castNode(TypeName, linitial(castNode(List, object))));
		else if (IsA(object, List))
			note_type_name(touched, makeTypeNameFromNameList(castNode(List, object)));
		break;
	default:
		break;
	}
}

void
note_dropped_objects(Touched *touched, const DropStmt *statement)
{
	ListCell *cell;

	foreach (cell, statement->objects) {
		auto *object = static_cast<Node *>(lfirst(cell));
		switch (statement->removeType) {
		case OBJECT_TABLE:
		case OBJECT_INDEX:
			note_range_var(touched, makeRangeVarFromNameList(castNode(List, object)));
			break;
		case OBJECT_SCHEMA:
			note_schema_name(touched, strVal(object));
			note_schema_content(touched, strVal(object));
			break;
		default:
			note_object(touched, statement->removeType, object);
			break;
		}
	}
}

void
note_altered_table(Touched *touched, const AlterTableStmt *statement)
{
	ListCell *cell;

	note_range_var(touched, statement->relation);
	foreach (cell, statement->cmds) {
		auto *command = castNode(AlterTableCmd, lfirst(cell));
		if (command->def != nullptr && IsA(command->def, PartitionCmd))
			note_range_var(touched, castNode(PartitionCmd, command->def)->name);
	}
}

} // namespace

Oid
relation_of(const ObjectAddress *address)
{
	if (address->classId == RelationRelationId)
		return address->objectId;
	for (const DependentClass &dependent : dependent_classes) {
		if (dependent.class_id == address->classId)
			return read_oid_column(dependent.class_id, dependent.oid_index, dependent.oid_column,
			                       address->objectId, dependent.relation_column);
	}
	return InvalidOid;
}

void
note_address(Touched *touched, const ObjectAddress *address)
{
	if (address->classId == TypeRelationId) {
		note_type(touched, address->objectId);
		return;
	}
	if (address->classId == NamespaceRelationId) {
		touched->schemas = list_append_unique_oid(touched->schemas, address->objectId);
		return;
	}
	note_relation(touched, relation_of(address));
	if (address->classId == ConstraintRelationId)
		note_type(touched, read_oid_column(ConstraintRelationId, ConstraintOidIndexId, Anum_pg_constraint_oid,
		                                   address->objectId, Anum_pg_constraint_contypid));
}

void
note_named(Touched *touched, const Node *parsetree)
{
	switch (nodeTag(parsetree)) {
	case T_AlterTableStmt:
		note_altered_table(touched, reinterpret_cast<const AlterTableStmt *>(parsetree));
		break;
	case T_RenameStmt: {
		auto *statement = reinterpret_cast<const RenameStmt *>(parsetree);
		note_range_var(touched, statement->relation);
		note_object(touched, statement->renameType, statement->object);
		if (statement->renameType == OBJECT_SCHEMA)
			note_schema_name(touched, statement->subname);
		break;
	}
	case T_AlterObjectSchemaStmt: {
		auto *statement = reinterpret_cast<const AlterObjectSchemaStmt *>(parsetree);
		note_range_var(touched, statement->relation);
		note_object(touched, statement->objectType, statement->object);
		break;
	}
	case T_AlterOwnerStmt: {
		auto *statement = reinterpret_cast<const AlterOwnerStmt *>(parsetree);
		note_range_var(touched, statement->relation);
		note_object(touched, statement->objectType, statement->object);
		if (statement->objectType == OBJECT_SCHEMA)
			note_schema_name(touched, strVal(statement->object));
		break;
	}
	case T_DropStmt:
		note_dropped_objects(touched, reinterpret_cast<const DropStmt *>(parsetree));
		break;
	case T_IndexStmt:
		note_range_var(touched, reinterpret_cast<const IndexStmt *>(parsetree)->relation);
		break;
	case T_AlterEnumStmt:
		note_type_name(
		    touched, makeTypeNameFromNameList(reinterpret_cast<const AlterEnumStmt *>(parsetree)->typeName));
		break;
	case T_AlterTypeStmt:
		note_type_name(
		    touched, makeTypeNameFromNameList(reinterpret_cast<const AlterTypeStmt *>(parsetree)->typeName));
		break;
	case T_AlterDomainStmt:
		note_type_name(touched, makeTypeNameFromNameList(
		                            reinterpret_cast<const AlterDomainStmt *>(parsetree)->typeName));
		break;
	default:
		break;
	}
}

void
note_descendants(Touched *touched)
{
	ListCell *cell;
	List *roots = list_copy(touched->relations);

	foreach (cell, roots) {
		/* one that was dropped is among them too */
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(cell))) ||
		    !has_subclass(lfirst_oid(cell)))
			continue;
		List *all = find_all_inheritors(lfirst_oid(cell), NoLock, nullptr);
		touched->relations = list_concat_unique_oid(touched->relations, all);
	}
}

} // namespace schemasync::capture
