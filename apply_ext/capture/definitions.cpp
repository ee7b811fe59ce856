#include "apply_ext/capture/definitions.hpp"

#include <cstring>

#include "apply_ext/catalog/definition.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "catalog/indexing.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::capture {

namespace {

using catalog::Aspect;

struct Wanted {
	Aspect aspect;
	ObjectAddress address; /* of default privileges that of the role */
	Oid schema;
	char kind;
};

// ---- leaves: may ereport; plain data only ----

bool
is_same(const ObjectAddress *a, const ObjectAddress *b)
{
	return a->classId == b->classId && a->objectId == b->objectId && a->objectSubId == b->objectSubId;
}

void
want(List **wanted, Aspect aspect, ObjectAddress address)
{
	ListCell *cell;

	if (aspect != Aspect::Comment)
		address.objectSubId = 0;
	foreach (cell, *wanted) {
		auto *one = static_cast<const Wanted *>(lfirst(cell));
		if (one->aspect == aspect && is_same(&one->address, &address))
			return;
	}
	auto *added = static_cast<Wanted *>(palloc(sizeof(Wanted)));
	*added = Wanted{aspect, address, InvalidOid, 0};
	*wanted = lappend(*wanted, added);
}

bool
has_privileges(Oid class_id)
{
	return class_id == RelationRelationId || class_id == ProcedureRelationId || class_id == TypeRelationId ||
	       class_id == NamespaceRelationId;
}

/* Whether the object has other privileges than what its owner's defaults give. */
bool
has_grants(const ObjectAddress *address)
{
	struct {
		Oid class_id;
		pg::compat::SyscacheId cache;
		AttrNumber column;
	} const catalogs[] = {{RelationRelationId, RELOID, Anum_pg_class_relacl},
	                      {ProcedureRelationId, PROCOID, Anum_pg_proc_proacl},
	                      {TypeRelationId, TYPEOID, Anum_pg_type_typacl},
	                      {NamespaceRelationId, NAMESPACEOID, Anum_pg_namespace_nspacl}};

	for (const auto &one : catalogs) {
		if (one.class_id != address->classId)
			continue;
		HeapTuple tuple = SearchSysCache1(one.cache, ObjectIdGetDatum(address->objectId));
		bool isnull = true;
		if (!HeapTupleIsValid(tuple))
			return false;
		(void) SysCacheGetAttr(one.cache, tuple, one.column, &isnull);
		ReleaseSysCache(tuple);
		return !isnull;
	}
	return false;
}

/* A column's sequence, which is told with its table. */
bool
is_owned_sequence(Oid sequence)
{
	Oid relid = InvalidOid;
	int32 attnum = 0;

	return sequenceIsOwned(sequence, DEPENDENCY_AUTO, &relid, &attnum) ||
	       sequenceIsOwned(sequence, DEPENDENCY_INTERNAL, &relid, &attnum);
}

/* The object of a class that the address means; an invalid one when it is none. */
ObjectAddress
definition_address(const ObjectAddress *address)
{
	ObjectAddress object = *address;

	switch (address->classId) {
	case RelationRelationId: {
		char kind = get_rel_relkind(address->objectId);
		if (kind == RELKIND_INDEX)
			object.objectId = IndexGetRelation(address->objectId, true);
		kind = OidIsValid(object.objectId) ? get_rel_relkind(object.objectId) : '\0';
		if (kind == RELKIND_SEQUENCE && !is_owned_sequence(object.objectId))
			return object;
		return kind == RELKIND_VIEW || kind == RELKIND_MATVIEW ? object : InvalidObjectAddress;
	}
	case ProcedureRelationId:
	case TriggerRelationId:
	case RewriteRelationId:
	case PolicyRelationId:
	case StatisticExtRelationId:
	case ExtensionRelationId:
		return object;
	default:
		return InvalidObjectAddress;
	}
}

/* A trigger or rule of the table, or all of them. */
template <typename F>
void
each_of(Oid catalog, Oid index, AttrNumber relation_column, Oid relid, F f)
{
	pg::catalog::scan_by_oid(catalog, index, relation_column, relid, f);
}

void
want_triggers(List **wanted, Oid relid, const char *name)
{
	each_of(TriggerRelationId, TriggerRelidNameIndexId, Anum_pg_trigger_tgrelid, relid, [&](HeapTuple tuple, TupleDesc) {
		auto *form = reinterpret_cast<Form_pg_trigger>(GETSTRUCT(tuple));
		ObjectAddress address;
		ObjectAddressSet(address, TriggerRelationId, form->oid);
		if (!form->tgisinternal && (name == nullptr || strcmp(NameStr(form->tgname), name) == 0))
			want(wanted, Aspect::Itself, address);
	});
}

void
want_rules(List **wanted, Oid relid, const char *name)
{
	each_of(RewriteRelationId, RewriteRelRulenameIndexId, Anum_pg_rewrite_ev_class, relid, [&](HeapTuple tuple, TupleDesc) {
		auto *form = reinterpret_cast<Form_pg_rewrite>(GETSTRUCT(tuple));
		ObjectAddress address;
		ObjectAddressSet(address, RewriteRelationId, form->oid);
		if (name == nullptr || strcmp(NameStr(form->rulename), name) == 0)
			want(wanted, Aspect::Itself, address);
	});
}

/* An extension after those that it requires: CREATE EXTENSION ... CASCADE names only the last one. */
void
want_extension(List **wanted, const ObjectAddress *address, int depth)
{
	if (depth < 16)
		pg::catalog::scan_by_oids(DependRelationId, DependDependerIndexId, Anum_pg_depend_classid, ExtensionRelationId,
		                          Anum_pg_depend_objid, address->objectId, [&](HeapTuple tuple, TupleDesc) {
			                          auto *form = reinterpret_cast<Form_pg_depend>(GETSTRUCT(tuple));
			                          ObjectAddress required;
			                          ObjectAddressSet(required, ExtensionRelationId, form->refobjid);
			                          if (form->refclassid == ExtensionRelationId)
				                          want_extension(wanted, &required, depth + 1);
		                          });
	want(wanted, Aspect::Itself, *address);
}

} // namespace

void
want_privileges(List **wanted, const ObjectAddress *address)
{
	/* what initdb made is the same on both sides, but for schema public */
	if (has_privileges(address->classId) &&
	    (address->objectId >= FirstNormalObjectId || address->classId == NamespaceRelationId))
		want(wanted, Aspect::Privileges, *address);
}

void
want_definitions(List **wanted, const ObjectAddress *address, const char *tag)
{
	bool normal = address->objectId >= FirstNormalObjectId || address->classId == NamespaceRelationId;

	if (!normal || !OidIsValid(address->objectId))
		return;
	if (tag != nullptr && strcmp(tag, "COMMENT") == 0) {
		want(wanted, Aspect::Comment, *address);
		return;
	}
	ObjectAddress object = definition_address(address);
	if (object.classId == ExtensionRelationId)
		want_extension(wanted, &object, 0);
	else if (OidIsValid(object.objectId))
		want(wanted, Aspect::Itself, object);
	/* default privileges give a new object its grants without a GRANT */
	if (tag != nullptr && (strncmp(tag, "CREATE ", 7) == 0 || strcmp(tag, "SELECT INTO") == 0) &&
	    has_grants(address))
		want_privileges(wanted, address);
}

void
want_refreshed(List **wanted, const ObjectAddress *address, const RefreshMatViewStmt *statement)
{
	if (address->classId == RelationRelationId && address->objectId >= FirstNormalObjectId)
		want(wanted, statement->concurrent ? Aspect::RefreshedConcurrently : Aspect::Refreshed, *address);
}

void
want_default_privileges(List **wanted, Oid role, Oid schema, char kind)
{
	auto *added = static_cast<Wanted *>(palloc(sizeof(Wanted)));
	ObjectAddress address;

	ObjectAddressSet(address, AuthIdRelationId, role);
	*added = Wanted{Aspect::DefaultPrivileges, address, schema, kind};
	*wanted = lappend(*wanted, added);
}

void
want_enabled(List **wanted, const AlterTableCmd *subcommand, Oid relid)
{
	switch (subcommand->subtype) {
	case AT_EnableTrig:
	case AT_EnableAlwaysTrig:
	case AT_EnableReplicaTrig:
	case AT_DisableTrig:
		want_triggers(wanted, relid, subcommand->name);
		break;
	case AT_EnableTrigAll:
	case AT_DisableTrigAll:
	case AT_EnableTrigUser:
	case AT_DisableTrigUser:
		want_triggers(wanted, relid, nullptr);
		break;
	case AT_EnableRule:
	case AT_EnableAlwaysRule:
	case AT_EnableReplicaRule:
	case AT_DisableRule:
		want_rules(wanted, relid, subcommand->name);
		break;
	default:
		break;
	}
}

void
append_definitions(StringInfo elements, const List *wanted)
{
	ListCell *cell;

	foreach (cell, wanted) {
		auto *one = static_cast<const Wanted *>(lfirst(cell));
		const char *text = nullptr;
		ErrorData *error =
		    pg::try_in_subtransaction([&] {
			    text = one->aspect == Aspect::DefaultPrivileges
			               ? catalog::read_default_privileges(one->address.objectId, one->schema, one->kind)
			               : catalog::read_definition(one->aspect, &one->address);
		    });

		if (error != nullptr) {
			if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION)
				ReThrowError(error);
			ereport(LOG, (errmsg("the definition of an object could not be read for a marker of schemasync: %s",
			                     error->message)));
			continue;
		}
		if (text != nullptr)
			appendStringInfo(elements, "%s,", text);
	}
}

} // namespace schemasync::capture
