/*
 * Objects of the opt-in classes (ddl_classes): what a message says of them is compared with what is here, and made so.
 */
#include "apply_ext/apply/schema_work.hpp"

#include "core/definition.hpp"

#include <optional>
#include <stdexcept>
#include <string>

#include "apply_ext/apply/local_facts.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/apply/sql_fragment.hpp"
#include "apply_ext/catalog/definition.hpp"
#include "apply_ext/catalog/object.hpp"
#include "apply_ext/catalog/options.hpp"
#include "apply_ext/catalog/relation.hpp"

#include "pg/guard.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
}

namespace schemasync::apply {

namespace {

using catalog::Aspect;
using state::Definition;

/* Ours by some means, and how sure that is. */
struct Local {
	ObjectAddress address = InvalidObjectAddress;
	std::optional<Definition> definition;
	bool mapped = false;
};

Aspect
aspect_of(const Definition &definition)
{
	return definition.catalog == "pg_default_acl"    ? Aspect::DefaultPrivileges
	       : definition.object_class == "comments"   ? Aspect::Comment
	       : definition.object_class == "privileges" ? Aspect::Privileges
	                                                 : Aspect::Itself;
}

/* Under which class the base is stored; a comment has none. */
std::string
key_of(const Definition &definition)
{
	return aspect_of(definition) == Aspect::Privileges ? "privileges/" + definition.catalog : definition.catalog;
}

Definition
parsed(const char *text)
{
	auto result = state::parse_definition(text);
	if (auto *error = std::get_if<state::ParseError>(&result))
		throw std::runtime_error("definition of an object cannot be read: " + error->where + ": " + error->what);
	return std::get<Definition>(std::move(result));
}

std::optional<Definition>
read(Aspect aspect, const ObjectAddress &address)
{
	const char *text = pg::call([&] { return catalog::read_definition(aspect, &address); });
	if (text == nullptr)
		return std::nullopt;
	return parsed(text);
}

std::vector<const char *>
pointers(const std::vector<std::string> &texts)
{
	std::vector<const char *> result;
	for (const std::string &text : texts)
		result.push_back(text.c_str());
	result.push_back(nullptr);
	return result;
}

ObjectAddress
find_by_name(const Definition &definition)
{
	const std::vector<const char *> names = pointers(definition.names), args = pointers(definition.args);
	ObjectAddress address = InvalidObjectAddress;

	pg::call([&] { (void) catalog::find_object(definition.type.c_str(), names.data(), args.data(), &address); });
	return address;
}

// ---- leaves: may ereport; plain data only ----

/* The view, function or statistics object of a name; what lies on a table has to be known by its oid. */
ObjectAddress
find_dropped_leaf(const char *catalog, const char *schema, const char *name, const char *identity)
{
	ObjectAddress address = InvalidObjectAddress;
	Oid nspid = schema[0] != '\0' ? get_namespace_oid(schema, true) : InvalidOid;

	address.classId = get_relname_relid(catalog, PG_CATALOG_NAMESPACE);
	if (strcmp(catalog, "pg_class") == 0 && OidIsValid(nspid))
		address.objectId = get_relname_relid(name, nspid);
	else if (strcmp(catalog, "pg_proc") == 0) {
		LOCAL_FCINFO(info, 1);
		InitFunctionCallInfoData(*info, nullptr, 1, InvalidOid, nullptr, nullptr);
		info->args[0] = {CStringGetTextDatum(identity), false};
		Datum value = to_regprocedure(info);
		address.objectId = info->isnull ? InvalidOid : DatumGetObjectId(value);
	} else if (strcmp(catalog, "pg_statistic_ext") == 0 && OidIsValid(nspid))
		address.objectId = get_statistics_object_oid(list_make2(makeString(pstrdup(schema)), makeString(pstrdup(name))), true);
	else if (strcmp(catalog, "pg_extension") == 0)
		address.objectId = get_extension_oid(name, true);
	return address;
}

/* A sequence that a column of a followed table owns: it came with the state of the table. */
bool
is_followed_column_sequence(std::int64_t subid, Oid sequence)
{
	Oid relid = InvalidOid;
	int32 attnum = 0;

	return (sequenceIsOwned(sequence, DEPENDENCY_AUTO, &relid, &attnum) ||
	        sequenceIsOwned(sequence, DEPENDENCY_INTERNAL, &relid, &attnum)) &&
	       catalog::is_target(subid, relid);
}

/* The materialized view that an index is on. */
bool
is_on_stored_view(Oid index)
{
	Oid relid = OidIsValid(index) && get_rel_relkind(index) == RELKIND_INDEX ? IndexGetRelation(index, true) : InvalidOid;

	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_MATVIEW;
}

// ---- end of leaves ----

/* Nothing where the role or the schema is not here, or the role is none of the owner's. */
Local
find_default_privileges(const SchemaWork &work, const Definition &theirs)
{
	Local local;
	Oid role = theirs.names.empty() ? InvalidOid : find_role(theirs.names[0]);
	Oid schema = theirs.names.size() < 2 ? InvalidOid : find_local_schema(theirs.names[1]);

	local.mapped = true;
	if (!OidIsValid(role) || (theirs.names.size() > 1 && !OidIsValid(schema)) || theirs.args.size() != 1 ||
	    theirs.args[0].size() != 1 || !may_become(work, role))
		return local;
	const char *text = pg::call([&] { return catalog::read_default_privileges(role, schema, theirs.args[0][0]); });
	if (text != nullptr)
		local.definition = parsed(text);
	return local;
}

Local
find_local(const SchemaWork &work, const std::string &key, Oid publisher_oid, const Definition *theirs)
{
	const auto *row =
	    pg::call([&] { return catalog::load_object(work.subscription.subid, key.c_str(), publisher_oid); });
	Local local;

	if (theirs != nullptr && aspect_of(*theirs) == Aspect::DefaultPrivileges)
		return find_default_privileges(work, *theirs);
	if (theirs != nullptr && aspect_of(*theirs) != Aspect::Itself) {
		local.address = find_by_name(*theirs);
		local.mapped = true;
		if (OidIsValid(local.address.objectId))
			local.definition = read(aspect_of(*theirs), local.address);
		return local;
	}
	if (row != nullptr && OidIsValid(row->local_oid)) {
		Oid classid = pg::call([&] { return get_relname_relid(key.c_str(), PG_CATALOG_NAMESPACE); });
		ObjectAddressSet(local.address, classid, row->local_oid);
		local.definition = read(Aspect::Itself, local.address);
		local.mapped = local.definition.has_value();
	}
	if (!local.mapped && theirs != nullptr) {
		local.address = find_by_name(*theirs);
		if (OidIsValid(local.address.objectId))
			local.definition = read(Aspect::Itself, local.address);
		local.mapped = local.definition && local.definition->owned &&
		               pg::call([&] { return is_followed_column_sequence(work.subscription.subid, local.address.objectId); });
	}
	return local;
}

std::string
role_name(Oid role)
{
	return pg::call([&] { return GetUserNameFromId(role, true); });
}

/* Whom it would belong to: what lies on a table to the table's owner. */
Oid
creator_of(const SchemaWork &work, const Definition &theirs, Oid relid)
{
	return OidIsValid(relid) ? owner_of_relation(relid) : creation_role(work, theirs.owner);
}

/* Whether objects like the target of a comment or of privileges are followed. */
bool
is_followed(const SchemaWork &work, const Definition &theirs)
{
	const Policy &policy = work.subscription.options.policy;

	if (theirs.catalog == "pg_class") {
		if (theirs.type.starts_with("table") || theirs.type == "sequence")
			return true;
		if (theirs.type.find("view") != std::string::npos)
			return follows_class(work, "views");
		return theirs.type == "index" && policy.indexes == Choice::Forward;
	}
	if (theirs.catalog == "pg_default_acl")
		return policy.owners_same;
	if (theirs.catalog == "pg_constraint")
		return policy.constraints == Choice::Forward;
	if (theirs.catalog == "pg_type" || theirs.catalog == "pg_namespace")
		return true;
	std::string_view object_class = merge::class_of(theirs.catalog, theirs.type);
	return !object_class.empty() && follows_class(work, object_class);
}

Place
place_of(const SchemaWork &work, const Definition *theirs, const Local &local, Oid relid)
{
	Place place;

	place.relid = relid;
	place.publisher_oid = theirs != nullptr ? theirs->oid : InvalidOid;
	place.run_as = local.definition ? find_role(local.definition->owner) : creator_of(work, *theirs, relid);
	/* its script is the server's own and may do what a restricted one may not */
	place.restricted = (theirs != nullptr ? *theirs : *local.definition).catalog != "pg_extension";
	return place;
}

merge::DefinitionInput
input_of(const SchemaWork &work, const Definition *base, const Definition &theirs, const Local &local, Oid creator)
{
	merge::DefinitionInput input;

	input.base = base;
	input.theirs = &theirs;
	input.ours = local.definition ? &*local.definition : nullptr;
	/* a partition's copy is known by its parent's name */
	input.mapped = local.mapped || theirs.clone;
	input.creator = role_name(creator);
	input.creator_is_superuser = pg::call([&] { return superuser_arg(creator); });
	input.target_followed = is_followed(work, theirs);
	if (theirs.catalog == "pg_extension")
		input.version_available =
		    pg::call([&] { return catalog::is_version_available(theirs.name.name.c_str(), theirs.version.c_str()); });
	input.server_version = CatalogFacts(work.subscription.subid).server_version();
	return input;
}

void
save(const SchemaWork &work, const state::Document<Definition> &theirs)
{
	const Definition &value = theirs.value;
	const std::string key = key_of(value);

	if (aspect_of(value) == Aspect::Comment || aspect_of(value) == Aspect::DefaultPrivileges)
		return;
	const catalog::ObjectRow row{key.c_str(), value.oid, find_by_name(value).objectId, theirs.text.c_str()};
	pg::call([&] { catalog::save_object(work.subscription.subid, &row); });
}

bool
is_dropped(const SchemaWork &work, Oid relation)
{
	for (const merge::DroppedObject &dropped : work.command.dropped)
		if (dropped.class_name == "pg_class" && dropped.subid == 0 && dropped.oid == relation)
			return true;
	return false;
}

/* The index of a materialized view, which no state tells of once it is gone. */
bool
apply_dropped_index(SchemaWork &work, const merge::DroppedObject &dropped)
{
	Oid index = find_local_relation(dropped.schema, dropped.name);
	if (dropped.name.empty() || !pg::call([&] { return is_on_stored_view(index); }))
		return true;
	merge::Result result;
	merge::Operation &operation = result.operations.emplace_back();
	operation.op = merge::Op::AlterObject;
	operation.operation = std::string(merge::info(operation.op).code);
	operation.object_type = "index";
	operation.object_identity = dropped.identity;
	operation.verdict = Verdict::Forward;
	operation.change = "drop index " + dropped.identity;
	operation.sql = {"DROP INDEX " + qualified_name(dropped.schema, dropped.name)};
	note_changes(work, result);
	Place place;
	place.relid = index;
	place.run_as = owner_of_relation(index);
	return do_operations(work, result, place) != Progress::Later;
}

/* Ours of something dropped, when no base tells of it: it was there before it was followed. */
Local
find_dropped(const SchemaWork &work, const merge::DroppedObject &dropped)
{
	Local local;
	bool with_extension = false;

	for (const merge::DroppedObject &other : work.command.dropped)
		with_extension = with_extension || other.class_name == "pg_extension";
	if (dropped.name.empty() && dropped.identity.empty())
		return local;
	/* members go with their extension */
	if (with_extension && !dropped.original)
		return local;
	/* a column's goes with it */
	if (dropped.type == "sequence" && !dropped.original)
		return local;
	pg::call([&] {
		(void) pg::try_in_subtransaction([&] {
			local.address = find_dropped_leaf(dropped.class_name.c_str(), dropped.schema.c_str(), dropped.name.c_str(),
			                                  dropped.identity.c_str());
		});
	});
	if (OidIsValid(local.address.objectId))
		local.definition = read(Aspect::Itself, local.address);
	if (local.definition && local.definition->type != dropped.type)
		local.definition.reset();
	return local;
}

} // namespace

bool
follows_class(const SchemaWork &work, std::string_view object_class, Oid of_table)
{
	const char *option = work.subscription.options.ddl_classes;

	if (object_class == merge::sequence_class)
		return true;
	if (OidIsValid(of_table))
		option = pg::call([&] {
			const char *table = catalog::load_table_options(work.subscription.subid, of_table);
			catalog::Options options = work.subscription.options;
			if (table != nullptr)
				catalog::read_options(table, &options);
			return options.ddl_classes;
		});
	return option != nullptr && merge::names_class(option, object_class);
}

void
check_fragments(const state::Definition &definition, UnknownSyntax &unknown)
{
	if (definition.sequence) {
		const std::string &type = definition.sequence->type;
		if (type != "smallint" && type != "integer" && type != "bigint")
			throw std::runtime_error("the publisher's sequence " + definition.identity + " has a type that no sequence has");
	}
	for (const auto &[column, expression] : definition.defaults)
		check_expression(unknown, definition.identity.c_str(), expression);
	for (const std::string *expression : {&definition.using_expr, &definition.check_expr})
		if (!expression->empty())
			check_expression(unknown, definition.identity.c_str(), *expression);
	for (const std::vector<state::Privilege> *list : {&definition.acl, &definition.default_acl})
		for (const state::Privilege &grant : *list)
			if (grant.privilege.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ ") != std::string::npos)
				pg::call([&] {
					ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
					                errmsg("the publisher's definition of %s names a privilege that is none", definition.identity.c_str())));
				});
}

bool
apply_definition(SchemaWork &work, const state::Document<state::Definition> &theirs)
{
	const Definition &value = theirs.value;

	work.told.insert(value.oid);
	if (!follows_class(work, value.object_class, value.of_table)) {
		record_ignored_object(work, value.type, value.identity,
		                      ("The option ddl_classes does not name the class " + value.object_class + ".").c_str());
		return true;
	}
	for (int pass = 0; pass < 10; pass++) {
		const std::string key = key_of(value);
		const auto *row =
		    pg::call([&] { return catalog::load_object(work.subscription.subid, key.c_str(), value.oid); });
		std::optional<Definition> base;
		if (row != nullptr && aspect_of(value) != Aspect::Comment && aspect_of(value) != Aspect::DefaultPrivileges)
			base = parsed(row->base);
		Local local = find_local(work, key, value.oid, &value);
		Oid relid = value.relation.name.empty() ? InvalidOid
		                                        : find_local_relation(value.relation.schema, value.relation.name);
		Oid creator = creator_of(work, value, relid);
		bool again = false;
		merge::Result result = merge::merge_definition(input_of(work, base ? &*base : nullptr, value, local, creator),
		                                               work.subscription.options.policy, &again);
		note_changes(work, result);
		Progress progress =
		    work.skipping ? Progress::Skip : do_operations(work, result, place_of(work, &value, local, relid));
		if (progress == Progress::Later)
			return false;
		if (progress == Progress::Again || (progress == Progress::Done && again))
			continue;
		break;
	}
	save(work, theirs);
	return true;
}

bool
adopt_definition(SchemaWork &work, const state::Document<state::Definition> &theirs)
{
	const Definition &value = theirs.value;
	const std::string key = key_of(value);
	Local local = find_local(work, key, value.oid, &value);
	Oid relid =
	    value.relation.name.empty() ? InvalidOid : find_local_relation(value.relation.schema, value.relation.name);
	Oid creator = creator_of(work, value, relid);
	bool again = false, is_here = local.definition && aspect_of(value) == Aspect::Itself;

	if (!work.subscription.copy_schema) {
		if (is_here)
			save(work, theirs);
		return true;
	}
	local.mapped = true;
	merge::Result result = merge::merge_definition(input_of(work, nullptr, value, local, creator),
	                                               work.subscription.options.policy, &again);
	if (!is_here) {
		note_changes(work, result);
		if (do_operations(work, result, place_of(work, &value, local, relid)) == Progress::Later)
			return false;
	} else if (!result.operations.empty() && result.operations[0].verdict == Verdict::Forward) {
		merge::Operation &operation = result.operations[0];
		operation.verdict = Verdict::Ignore;
		operation.detail = "It is here already and is defined otherwise; it stays so until its next change on the publisher.";
		record_history(work, operation, "", 0);
	}
	save(work, theirs);
	return true;
}

std::vector<merge::Difference>
definition_differences(SchemaWork &work, const Definition &theirs, int publisher_version)
{
	if (!follows_class(work, theirs.object_class, theirs.of_table))
		return {};
	check_fragments(theirs, work.unknown_syntax);
	const std::string key = key_of(theirs);
	const auto *row = pg::call([&] { return catalog::load_object(work.subscription.subid, key.c_str(), theirs.oid); });
	std::optional<Definition> base;
	if (row != nullptr && aspect_of(theirs) != Aspect::Comment && aspect_of(theirs) != Aspect::DefaultPrivileges)
		base = parsed(row->base);
	Local local = find_local(work, key, theirs.oid, &theirs);
	Oid relid = theirs.relation.name.empty() ? InvalidOid : find_local_relation(theirs.relation.schema, theirs.relation.name);
	merge::DefinitionInput input = input_of(work, base ? &*base : nullptr, theirs, local, creator_of(work, theirs, relid));
	return merge::definition_differences(input, work.subscription.options.policy,
	                                     publisher_version / 10000 != input.server_version / 10000);
}

bool
apply_dropped_definition(SchemaWork &work, const merge::DroppedObject &dropped)
{
	const std::int64_t subid = work.subscription.subid;
	std::string_view object_class = merge::class_of(dropped.class_name, dropped.type);

	if (object_class.empty())
		return !follows_class(work, "views") || apply_dropped_index(work, dropped);
	const auto *row = pg::call([&] { return catalog::load_object(subid, dropped.class_name.c_str(), dropped.oid); });
	std::optional<Definition> base;
	if (row != nullptr)
		base = parsed(row->base);
	bool with_table = base && base->relation.oid != 0 && is_dropped(work, base->relation.oid);
	const Oid of_table = base ? (base->of_table != 0 ? base->of_table : base->relation.oid) : InvalidOid;
	const bool follows = follows_class(work, object_class, of_table);
	if (follows)
		work.told.insert(dropped.oid);
	if (follows && !with_table) {
		Local local = find_local(work, dropped.class_name, dropped.oid, nullptr);
		if (!local.definition)
			local = find_dropped(work, dropped);
		if (local.definition && (dropped.original || !local.definition->owned)) {
			merge::DefinitionInput input;
			bool again = false;
			input.ours = &*local.definition;
			merge::Result result = merge::merge_definition(input, work.subscription.options.policy, &again);
			note_changes(work, result);
			Oid relid = local.definition->relation.oid;
			Progress progress =
			    work.skipping ? Progress::Skip : do_operations(work, result, place_of(work, nullptr, local, relid));
			if (progress == Progress::Later)
				return false;
		}
	}
	if (row != nullptr)
		pg::call([&] {
			catalog::delete_object(subid, dropped.class_name.c_str(), dropped.oid);
			catalog::delete_object(subid, psprintf("privileges/%s", dropped.class_name.c_str()), dropped.oid);
		});
	return true;
}

} // namespace schemasync::apply
