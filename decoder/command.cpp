#include "decoder/command.hpp"

#include "decoder/membership.hpp"
#include "decoder/objects.hpp"
#include "decoder/publication.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/names.hpp"

extern "C" {
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::decoder {

namespace catalog = pg::catalog;
namespace json = pg::json;

namespace {

/* What a marker concerns, of what the session may know. Lists are of oids. */
struct Scope {
	bool all_tables;
	bool detaches;   /* a partition may have left what is covered; it is told of once more */
	List *relations; /* touched by an object of the marker */
	List *others;    /* related to them, or touched without being named: told of where they changed */
	List *detached;  /* those of them that are not covered any more */
	List *types;
	List *schemas;
	bool *object_told; /* for each object of the marker: whether it may be named */
	bool hides_columns; /* a touched relation has a column list */
	bool hides_objects;
	List *told;         /* the relations whose states are in the message */
};

// ---- leaves: may ereport; plain data only ----

bool
is_covered_here(const Place &place, Oid relid)
{
	return OidIsValid(relid) && is_covered(session_publications(place.session), relid);
}

/* Whether the attribute is one that a column list hides; also says whether there is a list at all. */
bool
is_hidden_column(const Place &place, Oid relid, int attnum, bool *has_list)
{
	catalog::Published published;

	*has_list = read_published(place.session, relid, &published) && published.columns != nullptr;
	return *has_list && attnum > 0 && !bms_is_member(attnum, published.columns);
}

bool
is_type_covered(const Place &place, const Scope &scope, Oid typid)
{
	ListCell *cell;

	if (scope.all_tables)
		return true;
	foreach(cell, relations_using_type(typid))
		if (is_covered_here(place, lfirst_oid(cell)))
			return true;
	return false;
}

bool
is_schema_known(const Place &place, const Scope &scope, Oid nspid)
{
	ListCell *cell;

	if (scope.all_tables || is_schema_covered(session_publications(place.session), nspid))
		return true;
	foreach(cell, relations_of_schema(nspid))
		if (is_covered_here(place, lfirst_oid(cell)))
			return true;
	return false;
}

/* A table that is touched: it is covered, and the object that led to it may be named unless it would tell of a column. */
bool
admit_relation(const Place &place, Scope *scope, const marker::Object &object, Oid relid)
{
	bool has_list = false;

	if (!is_covered_here(place, relid)) {
		if (!scope->detaches || !is_state_sent(place.session->announcer->sent, place, RelationRelationId, relid))
			return scope->all_tables;
		scope->detached = list_append_unique_oid(scope->detached, relid);
	}
	scope->relations = list_append_unique_oid(scope->relations, relid);
	bool itself = object.classid == RelationRelationId && object.objid == relid;
	bool hidden = is_hidden_column(place, relid, itself ? object.objsubid : 0, &has_list);
	scope->hides_columns = scope->hides_columns || has_list;
	return !hidden && (itself || !has_list);
}

bool
admit_object(const Place &place, Scope *scope, const marker::Object &object, bool alters_schema)
{
	Subject subject = find_subject(object.classid, object.objid);
	ListCell *cell;

	if (object.own)
		return false;
	if (OidIsValid(subject.relid))
		return admit_relation(place, scope, object, subject.relid);
	if (OidIsValid(subject.typid)) {
		if (catalog::is_built_in(subject.typid) || !is_type_covered(place, *scope, subject.typid))
			return false;
		scope->types = list_append_unique_oid(scope->types, subject.typid);
		return true;
	}
	if (OidIsValid(subject.nspid)) {
		if (!is_schema_known(place, *scope, subject.nspid))
			return false;
		scope->schemas = list_append_unique_oid(scope->schemas, subject.nspid);
		if (alters_schema)
			foreach(cell, relations_of_schema(subject.nspid))
				if (is_covered_here(place, lfirst_oid(cell)))
					scope->relations = list_append_unique_oid(scope->relations, lfirst_oid(cell));
		return true;
	}
	return scope->all_tables;
}

void
add_other(const Place &place, Scope *scope, Oid relid)
{
	if (!list_member_oid(scope->relations, relid) && !list_member_oid(scope->others, relid) &&
	    is_covered_here(place, relid))
		scope->others = lappend_oid(scope->others, relid);
}

/* Those below and above the touched ones, and those that changed without being named. */
void
add_others(const Place &place, Scope *scope)
{
	Dependencies *dependencies = place.session->announcer->dependencies;
	bool complete = true;
	ListCell *cell;
	ListCell *inner;

	foreach(cell, scope->relations) {
		Oid relid = lfirst_oid(cell);
		foreach(inner, find_all_inheritors(relid, NoLock, nullptr))
			add_other(place, scope, lfirst_oid(inner));
		if (get_rel_relispartition(relid))
			foreach(inner, get_partition_ancestors(relid))
				add_other(place, scope, lfirst_oid(inner));
	}
	foreach(cell, take_touched_relations(dependencies, &complete))
		add_other(place, scope, lfirst_oid(cell));
	if (!complete)
		foreach(cell, relations_sent(place.session->announcer->sent))
			add_other(place, scope, lfirst_oid(cell));
}

Scope
find_scope(const Place &place, const marker::Marker &marker)
{
	bool alters_schema = marker.tag == "ALTER SCHEMA";
	Scope scope{};
	size_t i = 0;

	scope.detaches = marker.subcommands_json.find("AT_DetachPartition") != std::string::npos;
	scope.all_tables = publish_all_tables(session_publications(place.session));
	scope.object_told = static_cast<bool *>(palloc0(marker.objects.size() + 1));
	for (const marker::Object &object : marker.objects) {
		scope.object_told[i] = admit_object(place, &scope, object, alters_schema);
		scope.hides_objects = scope.hides_objects || !scope.object_told[i];
		i++;
	}
	/* what a list hid of a partition cannot be told any more */
	if (scope.hides_columns && scope.detached != NIL) {
		scope.relations = list_difference_oid(scope.relations, scope.detached);
		scope.detached = NIL;
	}
	add_others(place, &scope);
	return scope;
}

/* How many generations of parents a relation has. */
int
depth_of(Oid relid)
{
	int depth = 0;
	ListCell *cell;

	foreach(cell, parents_of(relid)) {
		int above = depth_of(lfirst_oid(cell)) + 1;
		if (above > depth)
			depth = above;
	}
	return depth;
}

struct Ranked {
	Oid relid;
	int depth;
	Include include;
};

int
compare_ranks(const ListCell *a, const ListCell *b)
{
	auto *left = static_cast<const Ranked *>(lfirst(a));
	auto *right = static_cast<const Ranked *>(lfirst(b));

	if (left->depth != right->depth)
		return left->depth < right->depth ? -1 : 1;
	return left->relid < right->relid ? -1 : left->relid > right->relid;
}

/* Parents before children. */
List *
rank_relations(const Scope &scope, bool changes_states)
{
	List *ranked = NIL;
	ListCell *cell;

	for (const List *relids : {scope.relations, scope.others})
		foreach(cell, relids) {
			auto *entry = static_cast<Ranked *>(palloc(sizeof(Ranked)));
			*entry = Ranked{lfirst_oid(cell), depth_of(lfirst_oid(cell)),
			                relids == scope.relations && changes_states ? Include::always : Include::news};
			ranked = lappend(ranked, entry);
		}
	list_sort(ranked, compare_ranks);
	return ranked;
}

Oid
schema_of_type(Oid typid)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	Oid nspid = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple))->typnamespace;
	ReleaseSysCache(tuple);
	return nspid;
}

/* Appends the field "relations" and gathers the types and, where tables are new, the schemas they need. */
int
append_relations(const Place &place, Scope *scope, const marker::Marker &marker, Outgoing *outgoing, List **types)
{
	/* RENAME and SET SCHEMA are ALTER TABLE without subcommands */
	bool moves_tables = marker.tag == "ALTER TABLE" && !marker.has_subcommands;
	bool changes_states = marker.tag != "GRANT" && marker.tag != "REVOKE" && marker.tag != "COMMENT";
	List *known = NIL;
	int count = 0;
	ListCell *cell;

	foreach(cell, scope->types) {
		*types = list_concat(*types, catalog::collect_type(lfirst_oid(cell), &known));
		scope->schemas = list_append_unique_oid(scope->schemas, schema_of_type(lfirst_oid(cell)));
	}
	json::begin_array(&outgoing->json, "relations");
	foreach(cell, rank_relations(*scope, changes_states)) {
		auto *ranked = static_cast<const Ranked *>(lfirst(cell));
		catalog::Facts facts;
		if (!append_relation_state(place, ranked->relid, ranked->include, outgoing, &facts))
			continue;
		count++;
		scope->told = lappend_oid(scope->told, ranked->relid);
		*types = list_concat(*types, published_types(place, ranked->relid, &known));
		if (moves_tables || facts.created_here)
			scope->schemas = list_append_unique_oid(scope->schemas, get_rel_namespace(ranked->relid));
	}
	json::end_array(&outgoing->json);
	return count;
}

void
append_schemas(const Scope &scope, Outgoing *outgoing)
{
	ListCell *cell;

	json::begin_array(&outgoing->json, "schemas");
	foreach(cell, scope.schemas)
		catalog::append_schema(&outgoing->json, lfirst_oid(cell));
	json::end_array(&outgoing->json);
}

/* A value that is JSON already. */
void
raw(StringInfo out, const char *name, const std::string &value)
{
	json::key(out, name);
	appendBinaryStringInfo(out, value.data(), static_cast<int>(value.size()));
}

void
append_address(StringInfo out, Oid classid, Oid objid, int objsubid)
{
	json::string(out, "class", get_rel_name(classid));
	json::number(out, "oid", objid);
	json::number(out, "subid", objsubid);
}

void
append_objects(const marker::Marker &marker, const Scope &scope, Outgoing *outgoing)
{
	StringInfo out = &outgoing->json;
	size_t i = 0;

	json::begin_array(out, "objects");
	for (const marker::Object &object : marker.objects) {
		if (!scope.object_told[i++])
			continue;
		json::begin_object(out);
		append_address(out, object.classid, object.objid, object.objsubid);
		raw(out, "type", object.type_json);
		raw(out, "schema", object.schema_json);
		raw(out, "identity", object.identity_json);
		json::boolean(out, "extension", object.in_extension);
		json::end_object(out);
	}
	json::end_array(out);
}

/*
 * What was dropped cannot be looked up any more: outside of FOR ALL TABLES only tables that the client has a state of,
 * and their columns unless there is a list, are named; the others are told by their oids.
 */
bool
may_name(const Place &place, const Scope &scope, const marker::Dropped &dropped)
{
	bool has_list = false;

	if (scope.all_tables)
		return true;
	if (dropped.classid != RelationRelationId ||
	    !is_state_sent(place.session->announcer->sent, place, RelationRelationId, dropped.objid))
		return false;
	return dropped.objsubid == 0 ||
	       (!is_hidden_column(place, dropped.objid, dropped.objsubid, &has_list) && !has_list);
}

/* An object of the opt-in classes; view types are named "view" and "materialized view". */
bool
is_of_class(Oid classid, const std::string &type_json)
{
	switch (classid) {
	case RelationRelationId:
		return type_json.ends_with("view\"");
	case ProcedureRelationId:
	case TriggerRelationId:
	case PolicyRelationId:
	case StatisticExtRelationId:
	case ExtensionRelationId:
	case RewriteRelationId:
		return true;
	default:
		return false;
	}
}

/* Returns how many are of interest to a client. */
int
append_dropped(const Place &place, const marker::Marker &marker, const Scope &scope, Outgoing *outgoing)
{
	StringInfo out = &outgoing->json;
	int named = 0;

	json::begin_array(out, "dropped");
	for (const marker::Dropped &dropped : marker.dropped) {
		bool has_list = false;

		if (dropped.own)
			continue;
		if (dropped.classid == RelationRelationId && dropped.objsubid > 0 &&
		    is_hidden_column(place, dropped.objid, dropped.objsubid, &has_list))
			continue;
		json::begin_object(out);
		append_address(out, dropped.classid, dropped.objid, dropped.objsubid);
		raw(out, "type", dropped.type_json);
		/* the client knows by its oid whether it follows such an object */
		if (is_of_class(dropped.classid, dropped.type_json))
			named++;
		if (may_name(place, scope, dropped)) {
			raw(out, "schema", dropped.schema_json);
			raw(out, "name", dropped.name_json);
			raw(out, "identity", dropped.identity_json);
			named++;
		}
		json::boolean(out, "original", dropped.original);
		json::boolean(out, "normal", dropped.normal);
		json::end_object(out);
	}
	json::end_array(out);
	return named;
}

/*
 * What belongs to a table goes with it, unless a column list hides some of it; the rest goes with its schema, or with
 * FOR ALL TABLES. Returns how many were told.
 */
int
append_definitions(const Place &place, const marker::Marker &marker, const Scope &scope, Outgoing *outgoing)
{
	StringInfo out = &outgoing->json;
	int told = 0;

	json::begin_array(out, "definitions");
	for (const marker::Definition &definition : marker.definitions) {
		bool has_list = false;
		bool table_told = OidIsValid(definition.of_table) && is_covered_here(place, definition.of_table) &&
		                  !is_hidden_column(place, definition.of_table, 0, &has_list) && !has_list;
		bool schema_told = !OidIsValid(definition.of_table) && OidIsValid(definition.in_schema) &&
		                   is_schema_covered(session_publications(place.session), definition.in_schema);
		if (has_list || (!scope.all_tables && !table_told && !schema_told))
			continue;
		json::separate(out);
		appendBinaryStringInfo(out, definition.json.data(), static_cast<int>(definition.json.size()));
		told++;
	}
	json::end_array(out);
	return told;
}

void
append_using(const Place &place, const marker::Marker &marker, const Scope &scope, Outgoing *outgoing)
{
	StringInfo out = &outgoing->json;

	json::begin_array(out, "using");
	for (const marker::Using &hint : marker.usings) {
		bool has_list = false;

		if (!is_covered_here(place, hint.relid) || is_hidden_column(place, hint.relid, hint.attnum, &has_list))
			continue;
		json::begin_object(out);
		json::number(out, "relation", hint.relid);
		json::number(out, "attnum", hint.attnum);
		json::boolean(out, "given", hint.given);
		/* it may mention columns that the list hides */
		json::key(out, "expr");
		appendStringInfoString(out, has_list ? "null" : hint.expr_json.c_str());
		if (!hint.casts.empty()) {
			json::begin_array(out, "casts");
			for (Oid source : hint.casts) {
				json::separate(out);
				appendStringInfo(out, "%u", source);
			}
			json::end_array(out);
		}
		json::end_object(out);
	}
	json::end_array(out);
	(void) scope;
}

void
append_defaults(const Place &place, const marker::Marker &marker, Outgoing *outgoing)
{
	StringInfo out = &outgoing->json;

	json::begin_array(out, "defaults");
	for (const marker::DefaultSet &set : marker.defaults) {
		bool has_list = false;

		if (!is_covered_here(place, set.relid) || is_hidden_column(place, set.relid, set.attnum, &has_list))
			continue;
		json::begin_object(out);
		json::number(out, "relation", set.relid);
		json::number(out, "attnum", set.attnum);
		json::end_object(out);
	}
	json::end_array(out);
}

void
append_marked_rewrites(const Place &place, const marker::Marker &marker, const Scope &scope, Outgoing *outgoing)
{
	List *relids = NIL;
	List *reasons = NIL;

	for (const marker::Rewrite &rewrite : marker.rewrites) {
		if (!is_covered_here(place, rewrite.relid))
			continue;
		relids = lappend_oid(relids, rewrite.relid);
		reasons = lappend_int(reasons, rewrite.reason);
	}
	append_rewrites(place, relids, reasons, scope.told, outgoing);
}

} // namespace

void
send_command(const Place &place, const marker::Marker &marker)
{
	Scope scope = find_scope(place, marker);
	Outgoing outgoing;
	List *types = NIL;
	ListCell *cell;

	begin_outgoing(&outgoing);
	raw(&outgoing.json, "tag", marker.tag_json);
	/* the text may tell of what is not published */
	bool hides = scope.hides_columns || (!scope.all_tables && scope.hides_objects);
	raw(&outgoing.json, "statement", hides ? "null" : marker.statement_json);
	raw(&outgoing.json, "user", marker.user_json);
	raw(&outgoing.json, "settings", marker.settings_json);
	raw(&outgoing.json, "subcommands", marker.subcommands_json);
	append_using(place, marker, scope, &outgoing);
	append_defaults(place, marker, &outgoing);
	append_objects(marker, scope, &outgoing);
	int dropped = append_dropped(place, marker, scope, &outgoing);
	int definitions = append_definitions(place, marker, scope, &outgoing);

	int nest_level = catalog::begin_pinned_settings();
	int relations = append_relations(place, &scope, marker, &outgoing, &types);
	append_type_states(place, types, &outgoing);
	append_schemas(scope, &outgoing);
	catalog::end_pinned_settings(nest_level);
	append_marked_rewrites(place, marker, scope, &outgoing);

	bool membership = changes_membership(place, marker);
	if (membership)
		append_membership(place, marker, &outgoing);
	bool objects = scope.all_tables && !marker.objects.empty() && scope.object_told[0];
	if (membership || relations > 0 || scope.types != NIL || scope.schemas != NIL || dropped > 0 || definitions > 0 || objects)
		send_outgoing(place, "schemasync.ddl", &outgoing);
	foreach(cell, scope.detached)
		forget_state(place.session->announcer->sent, place, RelationRelationId, lfirst_oid(cell));
}

} // namespace schemasync::decoder
