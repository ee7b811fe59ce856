#include "apply_ext/capture/collected.hpp"

#include <cstring>

#include "apply_ext/capture/alter_table.hpp"
#include "apply_ext/capture/definitions.hpp"
#include "apply_ext/capture/touched.hpp"
#include "pg/compat.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_default_acl.h"
#include "catalog/pg_language.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/deparse_utility.h"
#include "utils/acl.h"
#include "utils/aclchk_internal.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"
}

namespace schemasync::capture {

namespace {

// ---- leaves: may ereport; plain data only ----

/* A set-returning function of the server, called without SQL: SPI would need a snapshot, and the last step of
 * CREATE INDEX CONCURRENTLY and its kin has none. */
struct ResultRows {
	ReturnSetInfo info;
	ExprContext *context;
	TupleTableSlot *slot;
};

void
call_set_returning(ResultRows *rows, PGFunction function, Oid function_oid)
{
	LOCAL_FCINFO(fcinfo, 0);
	FmgrInfo flinfo;

	fmgr_info(function_oid, &flinfo);
	memset(&rows->info, 0, sizeof(rows->info));
	rows->context = CreateStandaloneExprContext();
	/* the result is to live in the caller's context */
	rows->context->ecxt_per_query_memory = CurrentMemoryContext;
	rows->info.type = T_ReturnSetInfo;
	rows->info.econtext = rows->context;
	rows->info.allowedModes = SFRM_Materialize;
	InitFunctionCallInfoData(*fcinfo, &flinfo, 0, InvalidOid, nullptr, reinterpret_cast<Node *>(&rows->info));
	function(fcinfo);
	rows->slot = MakeSingleTupleTableSlot(rows->info.setDesc, &TTSOpsMinimalTuple);
}

bool
next_row(ResultRows *rows)
{
	if (!tuplestore_gettupleslot(rows->info.setResult, true, false, rows->slot))
		return false;
	slot_getallattrs(rows->slot);
	return true;
}

void
end_rows(ResultRows *rows)
{
	ExecDropSingleTupleTableSlot(rows->slot);
	tuplestore_end(rows->info.setResult);
	FreeExprContext(rows->context, true);
}

bool
row_is_null(const ResultRows *rows, int column)
{
	return rows->slot->tts_isnull[column - 1];
}

Datum
row_value(const ResultRows *rows, int column)
{
	return rows->slot->tts_values[column - 1];
}

/* NULL for null */
const char *
row_text(const ResultRows *rows, int column)
{
	return row_is_null(rows, column) ? nullptr : TextDatumGetCString(row_value(rows, column));
}

/* The columns of pg_event_trigger_ddl_commands() and of pg_event_trigger_dropped_objects(), the same from 15
 * to 19. */
namespace commands_column {
enum : int { Classid = 1, Objid, Objsubid, Tag, Type, Schema, Identity, InExtension, Command };
}
namespace dropped_column {
enum : int { Classid = 1, Objid, Objsubid, Original, Normal, Temporary, Type, Schema, Name, Identity };
}

const char *
boolean(bool value)
{
	return value ? "true" : "false";
}

bool
is_temporary(const ObjectAddress *address, const char *schema)
{
	if (schema != nullptr)
		return strcmp(schema, "pg_temp") == 0;

	Oid relid = relation_of(address);
	return OidIsValid(relid) && get_rel_persistence(relid) == RELPERSISTENCE_TEMP;
}

void
append_object(Collected *collected, const ObjectAddress *address, const char *type, const char *schema,
              const char *identity, bool in_extension)
{
	StringInfo json = &collected->objects;

	if (is_temporary(address, schema))
		return;
	appendStringInfo(json, "{\"classid\":%u,\"objid\":%u,\"objsubid\":%d,", address->classId,
	                 address->objectId, address->objectSubId);
	append_text_field(json, "type", type);
	appendStringInfoChar(json, ',');
	append_text_field(json, "schema", schema);
	appendStringInfoChar(json, ',');
	append_text_field(json, "identity", identity);
	appendStringInfo(json, ",\"in_extension\":%s},", boolean(in_extension));
	collected->count++;
	if (collected->touched != nullptr)
		note_address(collected->touched, address);
}

/* DROP COLUMN is told under the name that the column has no more. */
bool
is_dropped_column(const ObjectAddress *address)
{
	if (address->classId != RelationRelationId || address->objectSubId == 0)
		return false;

	HeapTuple tuple = SearchSysCacheAttNum(address->objectId, static_cast<int16>(address->objectSubId));
	if (!HeapTupleIsValid(tuple))
		return true;
	ReleaseSysCache(tuple);
	return false;
}

/* An object that the server's function does not list: touched by a subcommand, or by a GRANT. */
void
append_address(Collected *collected, const ObjectAddress *address, bool in_extension)
{
	if (is_dropped_column(address))
		return;

	const char *identity = getObjectIdentity(address, true);
	const char *type = identity == nullptr ? nullptr : getObjectTypeDescription(address, true);
	const char *schema = nullptr;

	if (identity == nullptr || type == nullptr)
		return;
	if (address->classId == RelationRelationId) {
		Oid schema_oid = get_rel_namespace(address->objectId);
		schema = OidIsValid(schema_oid) ? get_namespace_name_or_temp(schema_oid) : nullptr;
	}
	append_object(collected, address, type, schema, identity, in_extension);
}

/* The catalog whose objects a GRANT of this kind names by oid; InvalidOid where that is of no use here. */
Oid
grant_class(ObjectType type)
{
	switch (type) {
	case OBJECT_COLUMN:
	case OBJECT_TABLE:
	case OBJECT_SEQUENCE:
		return RelationRelationId;
	case OBJECT_FUNCTION:
	case OBJECT_PROCEDURE:
	case OBJECT_ROUTINE:
		return ProcedureRelationId;
	case OBJECT_DOMAIN:
	case OBJECT_TYPE:
		return TypeRelationId;
	case OBJECT_SCHEMA:
		return NamespaceRelationId;
	case OBJECT_LANGUAGE:
		return LanguageRelationId;
	default:
		return InvalidOid;
	}
}

void
read_grant(Collected *collected, const CollectedCommand *command)
{
	const InternalGrant *grant = command->d.grant.istmt;
	Oid class_id = grant_class(grant->objtype);
	ListCell *cell;

	if (!OidIsValid(class_id))
		return;
	foreach (cell, grant->objects) {
		ObjectAddress address;
		ObjectAddressSet(address, class_id, lfirst_oid(cell));
		append_address(collected, &address, command->in_extension);
		if (!command->in_extension)
			want_privileges(&collected->wanted, &address);
	}
}

/* The letter of pg_default_acl; 0: a kind of a later server. */
char
default_acl_kind(ObjectType type)
{
	switch (type) {
	case OBJECT_TABLE:
		return DEFACLOBJ_RELATION;
	case OBJECT_SEQUENCE:
		return DEFACLOBJ_SEQUENCE;
	case OBJECT_FUNCTION:
	case OBJECT_PROCEDURE:
	case OBJECT_ROUTINE:
		return DEFACLOBJ_FUNCTION;
	case OBJECT_TYPE:
		return DEFACLOBJ_TYPE;
	case OBJECT_SCHEMA:
		return DEFACLOBJ_NAMESPACE;
	default:
		return '\0';
	}
}

void
append_default_privileges(Collected *collected, Oid role, const char *schema, const char *type, char kind)
{
	StringInfo json = &collected->objects;
	Oid schema_oid = schema == nullptr ? InvalidOid : get_namespace_oid(schema, true);
	const char *role_name = GetUserNameFromId(role, true);

	appendStringInfo(json, "{\"classid\":%u,\"objid\":0,\"objsubid\":0,", DefaultAclRelationId);
	append_text_field(json, "type", "default privileges");
	appendStringInfoChar(json, ',');
	append_text_field(json, "schema", schema);
	appendStringInfoChar(json, ',');
	append_text_field(json, "identity",
	                  psprintf("on %s for role %s%s%s", type, role_name == nullptr ? "" : quote_identifier(role_name),
	                           schema == nullptr ? "" : " in schema ", schema == nullptr ? "" : quote_identifier(schema)));
	appendStringInfoString(json, ",\"in_extension\":false},");
	collected->count++;
	if (kind != '\0' && (schema == nullptr || OidIsValid(schema_oid)))
		want_default_privileges(&collected->wanted, role, schema_oid, kind);
}

/* The server collects the command without saying whose defaults it changed. */
void
read_default_privileges(Collected *collected, const CollectedCommand *command, const char *type)
{
	auto *statement = castNode(AlterDefaultPrivilegesStmt, command->parsetree);
	char kind = default_acl_kind(statement->action->objtype);
	List *roles = NIL, *schemas = NIL, *role_oids = NIL;
	ListCell *cell;
	ListCell *inner;

	foreach (cell, statement->options) {
		auto *option = lfirst_node(DefElem, cell);
		if (strcmp(option->defname, "roles") == 0)
			roles = castNode(List, option->arg);
		else if (strcmp(option->defname, "schemas") == 0)
			schemas = castNode(List, option->arg);
	}
	foreach (cell, roles)
		role_oids = lappend_oid(role_oids, get_rolespec_oid(lfirst_node(RoleSpec, cell), false));
	if (roles == NIL)
		role_oids = list_make1_oid(GetUserId());
	foreach (cell, role_oids) {
		if (schemas == NIL)
			append_default_privileges(collected, lfirst_oid(cell), nullptr, type, kind);
		foreach (inner, schemas)
			append_default_privileges(collected, lfirst_oid(cell), strVal(lfirst(inner)), type, kind);
	}
}

/* ATTACH and DETACH report no address: the partition is named in the parse tree. It was resolved by the same
 * name a moment ago and is locked. */
ObjectAddress
partition_address(const AlterTableCmd *subcommand)
{
	ObjectAddress address = InvalidObjectAddress;
	const RangeVar *name = castNode(PartitionCmd, subcommand->def)->name;
	Oid relid = name == nullptr ? InvalidOid : RangeVarGetRelid(name, NoLock, true);

	if (OidIsValid(relid))
		ObjectAddressSet(address, RelationRelationId, relid);
	return address;
}

void
read_subcommands(Collected *collected, const CollectedCommand *command)
{
	ObjectAddress previous = InvalidObjectAddress;
	ListCell *cell;

	if (command->d.alterTable.subcmds != NIL && IsA(command->parsetree, AlterTableStmt) &&
	    castNode(AlterTableStmt, command->parsetree)->objtype == OBJECT_TABLE &&
	    !castNode(AlterTableStmt, command->parsetree)->relation->inh) {
		escape_json(&collected->subcommands, "ONLY");
		appendStringInfoChar(&collected->subcommands, ',');
	}
	foreach (cell, command->d.alterTable.subcmds) {
		auto *part = static_cast<CollectedATSubcmd *>(lfirst(cell));
		auto *subcommand = castNode(AlterTableCmd, part->parsetree);
		ObjectAddress address = part->address;

		escape_json(&collected->subcommands, alter_table_type_name(subcommand->subtype));
		appendStringInfoChar(&collected->subcommands, ',');
		append_using_hint(&collected->using_hints, subcommand, &part->address);
		if (subcommand->subtype == AT_ColumnDefault && address.classId == RelationRelationId && address.objectSubId > 0)
			appendStringInfo(&collected->defaults, "{\"relid\":%u,\"attnum\":%d},", address.objectId, address.objectSubId);
		if (!command->in_extension)
			want_enabled(&collected->wanted, subcommand, command->d.alterTable.objectId);

		if (names_partition(subcommand->subtype))
			address = partition_address(subcommand);
		if (!OidIsValid(address.objectId) ||
		    (address.classId == previous.classId && address.objectId == previous.objectId &&
		     address.objectSubId == previous.objectSubId))
			continue;
		append_address(collected, &address, command->in_extension);
		previous = address;
	}
}

} // namespace

void
append_text_field(StringInfo json, const char *name, const char *value)
{
	escape_json(json, name);
	appendStringInfoChar(json, ':');
	if (value == nullptr)
		appendStringInfoString(json, "null");
	else
		escape_json(json, value);
}

void
read_collected(Collected *collected, Touched *touched)
{
	using namespace commands_column;
	ResultRows rows;

	initStringInfo(&collected->objects);
	initStringInfo(&collected->subcommands);
	initStringInfo(&collected->using_hints);
	initStringInfo(&collected->defaults);
	initStringInfo(&collected->definitions);
	collected->wanted = NIL;
	collected->count = 0;
	collected->touched = touched;

	call_set_returning(&rows, pg_event_trigger_ddl_commands, F_PG_EVENT_TRIGGER_DDL_COMMANDS);
	while (next_row(&rows)) {
		CHECK_FOR_INTERRUPTS();
		auto *command = reinterpret_cast<CollectedCommand *>(DatumGetPointer(row_value(&rows, Command)));

		if (!row_is_null(&rows, Classid)) {
			ObjectAddress address;
			ObjectAddressSubSet(address, DatumGetObjectId(row_value(&rows, Classid)),
			                    DatumGetObjectId(row_value(&rows, Objid)),
			                    DatumGetInt32(row_value(&rows, Objsubid)));
			bool in_extension = DatumGetBool(row_value(&rows, InExtension));
			const char *schema = row_text(&rows, Schema);
			append_object(collected, &address, row_text(&rows, Type), schema, row_text(&rows, Identity),
			              in_extension);
			if (in_extension || is_temporary(&address, schema))
				;
			else if (command->type == SCT_Simple && IsA(command->parsetree, RefreshMatViewStmt))
				want_refreshed(&collected->wanted, &address, castNode(RefreshMatViewStmt, command->parsetree));
			else
				want_definitions(&collected->wanted, &address, row_text(&rows, Tag));
		}
		if (command->type == SCT_AlterTable)
			read_subcommands(collected, command);
		else if (command->type == SCT_Grant)
			read_grant(collected, command);
		else if (command->type == SCT_AlterDefaultPrivileges && !command->in_extension)
			read_default_privileges(collected, command, row_text(&rows, Type));
	}
	end_rows(&rows);
	append_definitions(&collected->definitions, collected->wanted);
}

void
read_dropped(StringInfo elements, List **addresses)
{
	using namespace dropped_column;
	ResultRows rows;

	call_set_returning(&rows, pg_event_trigger_dropped_objects, F_PG_EVENT_TRIGGER_DROPPED_OBJECTS);
	while (next_row(&rows)) {
		CHECK_FOR_INTERRUPTS();
		const char *schema = row_text(&rows, Schema);

		if (DatumGetBool(row_value(&rows, Temporary)) ||
		    (schema != nullptr && strcmp(schema, "pg_toast") == 0))
			continue;
		if (addresses != nullptr) {
			auto *address = static_cast<ObjectAddress *>(palloc(sizeof(ObjectAddress)));
			ObjectAddressSubSet(*address, DatumGetObjectId(row_value(&rows, Classid)),
			                    DatumGetObjectId(row_value(&rows, Objid)),
			                    DatumGetInt32(row_value(&rows, Objsubid)));
			*addresses = lappend(*addresses, address);
		}
		appendStringInfo(elements, "{\"classid\":%u,\"objid\":%u,\"objsubid\":%d,",
		                 DatumGetObjectId(row_value(&rows, Classid)),
		                 DatumGetObjectId(row_value(&rows, Objid)),
		                 DatumGetInt32(row_value(&rows, Objsubid)));
		append_text_field(elements, "type", row_text(&rows, Type));
		appendStringInfoChar(elements, ',');
		append_text_field(elements, "schema", schema);
		appendStringInfoChar(elements, ',');
		append_text_field(elements, "name", row_text(&rows, Name));
		appendStringInfoChar(elements, ',');
		append_text_field(elements, "identity", row_text(&rows, Identity));
		appendStringInfo(elements, ",\"original\":%s,\"normal\":%s},",
		                 boolean(DatumGetBool(row_value(&rows, Original))),
		                 boolean(DatumGetBool(row_value(&rows, Normal))));
	}
	end_rows(&rows);
}

void
read_rewrite(StringInfo elements)
{
	LOCAL_FCINFO(fcinfo, 0);

	InitFunctionCallInfoData(*fcinfo, nullptr, 0, InvalidOid, nullptr, nullptr);
	Oid relid = DatumGetObjectId(pg_event_trigger_table_rewrite_oid(fcinfo));
	int reason = DatumGetInt32(pg_event_trigger_table_rewrite_reason(fcinfo));

	if (get_rel_persistence(relid) != RELPERSISTENCE_TEMP)
		appendStringInfo(elements, "{\"relid\":%u,\"reason\":%d},", relid, reason);
}

} // namespace schemasync::capture
