/*
 * schemasync_diff: every difference between the tables and types of the publisher, as they are now, and those of the subscriber; and between the
 * objects of the classes that are followed, and the sequences that no column owns.
 *
 * The publisher is asked as by an initial copy: one snapshot, with what is published locked against ALTER TABLE while it is described.
 */
#include "core/difference.hpp"
#include "core/sql.hpp"
#include "core/state_json.hpp"

#include <string>
#include <variant>
#include <vector>

#include "apply_ext/api/target.hpp"
#include "apply_ext/apply/local_facts.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/apply/schema_sides.hpp"
#include "apply_ext/catalog/index_build.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/object.hpp"
#include "apply_ext/worker/copy_source.hpp"

#include "pg/compat.hpp"
#include "pg/guard.hpp"

extern "C" {
#include "funcapi.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(schemasync_diff);
}

SCHEMASYNC_EXPORT Datum schemasync_diff(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

using merge::Difference;

constexpr int column_count = 10;

/* What the publisher has; plain data. */
struct Published {
	catalog::Subscription *subscription;
	worker::SourceTable *tables;
	int ntables;
	List *types;          /* char *: their states */
	const char **objects; /* the definitions of the opt-in classes */
	int nobjects;
	int server_version; /* as PQserverVersion */
	catalog::RelationRow *known;
	int nknown;
	const char *refresh; /* the statement that takes tables up */
};

// ---- leaves: may ereport; plain data only ----

bool
is_known(const Published *published, Oid oid)
{
	int low = 0, high = published->nknown; /* in the order of their oids */

	while (low < high) {
		int middle = (low + high) / 2;
		if (published->known[middle].publisher_oid == oid)
			return true;
		if (published->known[middle].publisher_oid < oid)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* A table without a partner here that the subscription is to have: a partition below a published root need not be. */
bool
is_wanted(const Published *published, const worker::SourceTable &table)
{
	return !table.below || published->subscription->copy_schema;
}

worker::Wish
describes_known(const worker::SourceTable &table, const void *published)
{
	return is_known(static_cast<const Published *>(published), table.oid) ? worker::Wish::Adopt : worker::Wish::None;
}

void
ask_publisher(FunctionCallInfo fcinfo, Published *published)
{
	char *name = required_text(fcinfo, 0, "name");

	InitMaterializedSRF(fcinfo, 0);
	published->subscription = own_target(name);
	published->known = catalog::load_relations(published->subscription->subid, &published->nknown);
	published->refresh = psprintf("SELECT %s(%s)",
	                              quote_qualified_identifier(get_namespace_name(catalog::extension_schema()), "schemasync_refresh"),
	                              quote_literal_cstr(name));
	worker::Source *source = worker::open_source(*published->subscription, worker::SlotUse::None, describes_known, published);
	published->types = source->types;
	published->tables = source->tables;
	published->ntables = source->count;
	published->objects = worker::describe_objects(*source, *published->subscription, &published->nobjects);
	published->server_version = PQserverVersion(source->sql->connection);
	worker::close_source(source);
}

/* One row; an empty text is null. */
void
put_row(FunctionCallInfo fcinfo, const char *const *texts)
{
	auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	Datum values[column_count];
	bool nulls[column_count];

	for (int i = 0; i < column_count; i++) {
		nulls[i] = texts[i] == nullptr || *texts[i] == '\0';
		values[i] = nulls[i] ? Datum{0} : CStringGetTextDatum(texts[i]);
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

// ---- C++ ----

void
put(FunctionCallInfo fcinfo, const Difference &difference)
{
	const std::string verdict(name(difference.verdict));
	const std::string reason(difference.reason == Reason::None ? std::string_view() : info(difference.reason).name);
	const char *texts[column_count] = {difference.object_type.c_str(),
	                                   difference.object_identity.c_str(),
	                                   difference.difference.c_str(),
	                                   difference.publisher.c_str(),
	                                   difference.subscriber.c_str(),
	                                   difference.suggested_sql.c_str(),
	                                   verdict.c_str(),
	                                   reason.c_str(),
	                                   difference.detail.c_str(),
	                                   difference.operation.c_str()};
	pg::call([&] { put_row(fcinfo, texts); });
}

template <typename T>
T
parsed(state::Parsed<T> result)
{
	if (auto *error = std::get_if<state::ParseError>(&result))
		pg::call([&] {
			ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("a state of the publisher cannot be read"),
			                errdetail("%s: %s", error->where.c_str(), error->what.c_str())));
		});
	return std::get<T>(std::move(result));
}

/* A schema that is missing here, once. */
void
put_schema(FunctionCallInfo fcinfo, const std::string &schema, std::vector<std::string> &seen)
{
	for (const std::string &other : seen)
		if (other == schema)
			return;
	seen.push_back(schema);
	if (OidIsValid(apply::find_local_schema(schema)))
		return;
	Difference difference;
	difference.operation = "create_schema";
	difference.object_type = "schema";
	difference.object_identity = sql::shown(schema);
	difference.difference = "schema is missing on the subscriber";
	difference.publisher = difference.object_identity;
	difference.suggested_sql = "CREATE SCHEMA " + sql::ident(schema);
	difference.verdict = Verdict::Forward;
	put(fcinfo, difference);
}

/* Extensions bring their own types, each side the one of its version. */
void
put_type(FunctionCallInfo fcinfo, const Published &published, const state::Type &theirs, std::vector<std::string> &schemas)
{
	const catalog::Subscription &subscription = *published.subscription;

	if (!theirs.extension.empty() || theirs.row_type_of)
		return;
	put_schema(fcinfo, theirs.name.schema, schemas);
	const auto *row = pg::call([&] { return catalog::load_object(subscription.subid, "pg_type", theirs.name.oid); });
	Oid local = row != nullptr && OidIsValid(row->local_oid) && apply::local_type_exists(row->local_oid)
	                ? row->local_oid
	                : apply::find_local_type(theirs.name.schema, theirs.name.name);
	std::optional<state::Type> ours;
	if (OidIsValid(local))
		ours = apply::read_local_type(local);
	const apply::CatalogFacts facts(subscription.subid);
	for (const Difference &difference : merge::type_differences(theirs, ours ? &*ours : nullptr, subscription.options.policy, &facts))
		put(fcinfo, difference);
}

/* Columns without a partner find one by name: made by hand on both sides, say. */
void
pair_by_name(const state::Relation &theirs, const state::Relation &ours, merge::ColumnMap &map)
{
	for (const auto &[publisher, local] : merge::map_columns_by_name(theirs, ours).pairs) {
		bool taken = false;
		for (const auto &pair : map.pairs)
			taken = taken || pair.first == publisher || pair.second == local;
		if (!taken)
			map.pairs.emplace_back(publisher, local);
	}
}

void
put_relation(FunctionCallInfo fcinfo, const Published &published, const state::Relation &theirs, std::vector<std::string> &schemas)
{
	const catalog::Subscription &subscription = *published.subscription;
	const apply::SchemaWork work(subscription, {}, {});
	const apply::CatalogFacts facts(subscription.subid);
	merge::RelationInput input;

	if (!theirs.extension.empty())
		return;
	put_schema(fcinfo, theirs.name.schema, schemas);
	apply::Sides sides = apply::load_sides(work, theirs.name.oid, &theirs);
	if (sides.ours)
		pair_by_name(theirs, *sides.ours, sides.columns);
	input.base = sides.base ? &*sides.base : nullptr;
	input.theirs = &theirs;
	input.ours = sides.ours ? &*sides.ours : nullptr;
	input.columns = sides.columns;
	input.has_rows = sides.ours && apply::may_have_rows(sides.ours->name.oid);
	int nbuilds = 0;
	const catalog::IndexBuild *builds = pg::call([&] { return catalog::load_index_builds(subscription.subid, theirs.name.oid, &nbuilds); });
	for (Difference difference : merge::relation_differences(input, apply::policy_of(subscription, sides.row), &facts)) {
		for (int i = 0; i < nbuilds; i++)
			if (difference.operation == "create_index" &&
			    difference.object_identity == sql::shown(theirs.name.schema, builds[i].index_name)) {
				difference.detail = "It is in the queue of the index worker.";
				difference.suggested_sql.clear();
				difference.verdict = Verdict::Forward;
				difference.reason = Reason::None;
			}
		put(fcinfo, difference);
	}
}

/* Extensions, functions and sequences come before the tables, which may need them. */
bool
comes_first(const state::Definition &definition)
{
	return definition.object_class == "extensions" || definition.object_class == "functions" ||
	       definition.object_class == merge::sequence_class;
}

void
put_definitions(FunctionCallInfo fcinfo, const Published &published, bool first, std::vector<std::string> &schemas)
{
	apply::SchemaWork work(*published.subscription, {}, {});

	for (int i = 0; i < published.nobjects; i++) {
		const state::Definition theirs = parsed(state::parse_definition(published.objects[i]));
		if (comes_first(theirs) != first)
			continue;
		pg::call([] { CHECK_FOR_INTERRUPTS(); });
		for (const Difference &difference : apply::definition_differences(work, theirs, published.server_version)) {
			if (!theirs.name.schema.empty())
				put_schema(fcinfo, theirs.name.schema, schemas);
			put(fcinfo, difference);
		}
	}
}

/* Tables that came into the publications or went out of them and that the subscription has not taken note of. */
void
put_membership(FunctionCallInfo fcinfo, const Published &published)
{
	Difference difference;

	difference.object_type = "table";
	difference.suggested_sql = published.refresh;
	difference.verdict = Verdict::Refuse;
	difference.reason = Reason::MissingObject;
	difference.operation = "publish_table";
	for (int i = 0; i < published.ntables; i++) {
		const worker::SourceTable &table = published.tables[i];
		if (is_known(&published, table.oid) || !is_wanted(&published, table))
			continue;
		difference.object_identity = sql::shown(table.schema, table.name);
		difference.difference = "table is published and the subscription does not follow it yet";
		difference.publisher = difference.object_identity;
		put(fcinfo, difference);
	}
	difference.verdict = Verdict::Ignore;
	difference.reason = Reason::None;
	difference.operation = "unpublish_table";
	difference.publisher.clear();
	for (int i = 0; i < published.nknown; i++) {
		const catalog::RelationRow &row = published.known[i];
		bool there = false;
		for (int j = 0; j < published.ntables; j++)
			there = there || published.tables[j].oid == row.publisher_oid;
		if (there)
			continue;
		difference.object_identity = sql::shown(row.publisher_schema, row.publisher_name);
		difference.difference = "table is followed and no longer published";
		difference.subscriber = difference.object_identity;
		put(fcinfo, difference);
	}
}

void
put_all(FunctionCallInfo fcinfo)
{
	Published published{};
	std::vector<std::string> schemas;

	pg::call([&] { ask_publisher(fcinfo, &published); });
	put_membership(fcinfo, published);
	for (int i = 0; i < list_length(published.types); i++)
		put_type(fcinfo, published, parsed(state::parse_type(static_cast<const char *>(list_nth(published.types, i)))), schemas);
	put_definitions(fcinfo, published, true, schemas);
	for (int i = 0; i < published.ntables; i++) {
		if (published.tables[i].state == nullptr)
			continue;
		pg::call([] { CHECK_FOR_INTERRUPTS(); });
		put_relation(fcinfo, published, parsed(state::parse_relation(published.tables[i].state)), schemas);
	}
	put_definitions(fcinfo, published, false, schemas);
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_diff(PG_FUNCTION_ARGS)
{
	return schemasync::pg::entry([&]() -> Datum {
		schemasync::api::put_all(fcinfo);
		return Datum{0};
	});
}
