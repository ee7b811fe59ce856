/*
 * The beginning of a subscription: the publisher's states become bases, with what is here already or with
 * what is made from them. Every misfit is reported at once, since a DBA who repairs one wants to see the
 * others too.
 */
#include "apply_ext/apply/schema_work.hpp"

#include <optional>
#include <string>
#include <vector>

#include "apply_ext/apply/ddl_execute.hpp"
#include "apply_ext/apply/index_queue.hpp"
#include "apply_ext/apply/local_facts.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/apply/schema_sides.hpp"
#include "apply_ext/apply/sql_fragment.hpp"
#include "apply_ext/catalog/object.hpp"
#include "apply_ext/catalog/relation.hpp"
#include "apply_ext/worker/index_builds.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "catalog/pg_type.h"
#include "parser/parse_coerce.h"
#include "utils/lsyscache.h"
}

namespace schemasync::apply {

namespace {

struct Adoption {
	const catalog::Subscription &subscription;
	bool create;
	XLogRecPtr sync_lsn;
	const char *table_state;
	std::vector<std::string> misfits = {};
};

/* A value of the publisher's type can be stored in the local column; an unknown type's value still has a
 * text. */
bool
fits(Oid publisher_type, Oid local_type)
{
	if (!OidIsValid(publisher_type)) {
		char category;
		bool preferred;
		get_type_category_preferred(local_type, &category, &preferred);
		return category == TYPCATEGORY_STRING;
	}
	return publisher_type == local_type ||
	       can_coerce_type(1, &publisher_type, &local_type, COERCION_ASSIGNMENT);
}

template <typename T>
T
parsed(state::Parsed<T> result)
{
	if (auto *error = std::get_if<state::ParseError>(&result))
		pg::call([&] {
			ereport(ERROR,
			        (errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("a state of the publisher cannot be read"),
			         errdetail("%s: %s", error->where.c_str(), error->what.c_str())));
		});
	return std::get<T>(std::move(result));
}

/* sql has to outlive it. */
Execution
execution_of(const Adoption &adoption, const std::string &sql, Oid role)
{
	return {.sql = sql.c_str(),
	        .run_as = role,
	        .checked = true,
	        .restricted = true,
	        .search_path = "",
	        .waits_for = InvalidOid,
	        .settings = nullptr,
	        .nsettings = 0,
	        .lock_timeout = adoption.subscription.options.ddl_lock_timeout,
	        .lock_retries = adoption.subscription.options.ddl_lock_retries};
}

/* Executes what the merge or the renderer made, as `role`; an ERROR of the server goes on with the statement
 * in its context. */
void
execute(const Adoption &adoption, const std::string &sql, Oid role)
{
	const Execution execution = execution_of(adoption, sql, role);

	pg::call([&] {
		Executed executed = execute_ddl(execution);
		if (executed.outcome == Outcome::Done)
			return;
		executed.error->context = psprintf("copying the schema, statement: %s", sql.c_str());
		ReThrowError(executed.error);
	});
}

Oid
creation_role(const Adoption &adoption, const std::string &owner)
{
	SchemaWork work(adoption.subscription, {}, {});

	return apply::creation_role(work, owner);
}

void
ensure_schema(const Adoption &adoption, const std::string &schema)
{
	if (!OidIsValid(find_local_schema(schema)))
		execute(adoption, "CREATE SCHEMA " + quote_name(schema), adoption.subscription.owner);
}

/* Whether this server can read the statements; if not, that is a misfit. */
bool
is_readable(Adoption &adoption, const UnknownSyntax &unknown, const std::vector<std::string> &statements,
            const std::string &object)
{
	for (const std::string &sql : statements)
		if (const UnknownText *found = find_unknown(unknown, sql)) {
			adoption.misfits.push_back(object + " cannot be created: PostgreSQL " PG_MAJORVERSION " cannot read " +
			                           found->text + ": " + found->message);
			return false;
		}
	return true;
}

/* Why the local type of the name is not the publisher's; empty: it is. */
std::string
type_misfit(const Adoption &adoption, const state::Type &theirs, const std::optional<state::Type> &ours)
{
	if (!ours || !theirs.extension.empty())
		return {};
	const CatalogFacts facts(adoption.subscription.subid);
	Policy policy = adoption.subscription.options.policy;
	policy.schema_changes = SchemaChanges::Forward;
	for (const merge::Operation &operation : merge::merge_type(nullptr, &theirs, &*ours, {}, policy, &facts).operations)
		if (operation.verdict == Verdict::Refuse)
			return "type " + qualified_name(theirs.name.schema, theirs.name.name) + " does not fit: " + operation.detail;
	return {};
}

void
adopt_type(Adoption &adoption, const char *text)
{
	auto theirs = parsed(state::parse_type(text));
	Oid local = find_local_type(theirs.name.schema, theirs.name.name);
	std::optional<state::Type> ours;

	/* a type that is followed already comes on with the stream, which is behind this state */
	if (pg::call([&] { return catalog::load_object(adoption.subscription.subid, "pg_type", theirs.name.oid); }) != nullptr)
		return;
	UnknownSyntax unknown;
	check_fragments(theirs, unknown);
	if (OidIsValid(local))
		ours = read_local_type(local);
	if (std::string misfit = type_misfit(adoption, theirs, ours); !misfit.empty())
		adoption.misfits.push_back(std::move(misfit));
	if (!ours && adoption.create && theirs.extension.empty()) {
		const std::vector<std::string> statements = merge::render_create_type(theirs);
		if (!is_readable(adoption, unknown, statements, "type " + qualified_name(theirs.name.schema, theirs.name.name)))
			return;
		ensure_schema(adoption, theirs.name.schema);
		for (const std::string &sql : statements)
			execute(adoption, sql, creation_role(adoption, theirs.owner));
		local = find_local_type(theirs.name.schema, theirs.name.name);
	}
	const catalog::ObjectRow row{"pg_type", theirs.name.oid, local, text};
	pg::call([&] { catalog::save_object(adoption.subscription.subid, &row); });
}

/* One that no table may need: what stands in its way is a WARNING. */
void
adopt_spare_type(Adoption &adoption, const char *text)
{
	auto theirs = parsed(state::parse_type(text));
	Oid local = find_local_type(theirs.name.schema, theirs.name.name);

	if (!OidIsValid(local) && !adoption.create)
		return;
	if (pg::call([&] { return catalog::load_object(adoption.subscription.subid, "pg_type", theirs.name.oid); }) != nullptr)
		return;
	UnknownSyntax unknown;
	check_fragments(theirs, unknown);
	const std::string name = qualified_name(theirs.name.schema, theirs.name.name);
	auto warn = [&](const char *why) {
		pg::call([&] {
			ereport(WARNING, (errmsg("the type %s of the publisher is not made here", name.c_str()), errdetail("%s", why),
			                  errhint("No table that is copied uses it.")));
		});
	};
	if (OidIsValid(local)) {
		const std::string misfit = type_misfit(adoption, theirs, read_local_type(local));
		return misfit.empty() ? adopt_type(adoption, text) : warn(misfit.c_str());
	}
	const std::vector<std::string> statements = merge::render_create_type(theirs);
	if (!is_readable(adoption, unknown, statements, "type " + name))
		return warn(adoption.misfits.back().c_str());
	ensure_schema(adoption, theirs.name.schema);
	for (const std::string &sql : statements) {
		const Execution execution = execution_of(adoption, sql, creation_role(adoption, theirs.owner));
		Executed executed = pg::call([&] { return execute_ddl(execution); });
		if (executed.outcome != Outcome::Done)
			return warn(executed.error->message);
	}
	adopt_type(adoption, text);
}

/* The local columns of the publisher's, by name; what is missing or does not take its values is a misfit. */
std::vector<catalog::AttributePair>
pair_columns(Adoption &adoption, const state::Relation &theirs, const state::Relation &ours,
             const std::string &identity)
{
	const CatalogFacts facts(adoption.subscription.subid);
	const merge::ColumnMap map = merge::map_columns_by_name(theirs, ours);
	std::vector<catalog::AttributePair> pairs;

	for (const state::Column &column : theirs.columns) {
		const state::Column *own = nullptr;
		for (const auto &[publisher, local] : map.pairs)
			for (const state::Column &candidate : ours.columns)
				if (publisher == column.attnum && candidate.attnum == local)
					own = &candidate;
		if (own == nullptr) {
			if (column.generated == 0)
				adoption.misfits.push_back("table " + identity + " has no column " + quote_name(column.name));
			continue;
		}
		Oid publisher_type = column.type.builtin ? column.type.oid : facts.local_type(column.type.oid);
		if (!OidIsValid(publisher_type))
			publisher_type = find_local_type(column.type.schema, column.type.name);
		if (!pg::call([&] { return fits(publisher_type, own->type.oid); }))
			adoption.misfits.push_back("column " + quote_name(column.name) + " of table " + identity +
			                           " is " + own->type.sql + ", which does not take values of " +
			                           column.type.sql);
		pairs.push_back({column.attnum, own->attnum});
	}
	return pairs;
}

/* Why a generated column would get other values here than on the publisher; empty: it does not. That locales differ the preflight warns of. */
std::string
generated_misfit(const state::Relation &theirs, const CatalogFacts &facts)
{
	for (const state::Column &column : theirs.columns) {
		merge::Operation proof;
		if (column.generated != 0 && !merge::prove(proof, column.default_expr, true, facts) && proof.reason == Reason::LocalDrift)
			return proof.detail;
	}
	return {};
}

void
adopt_relation(Adoption &adoption, const char *text, bool may_miss)
{
	auto theirs = parsed(state::parse_relation(text));
	const std::string identity = qualified_name(theirs.name.schema, theirs.name.name);
	Oid relid = find_local_relation(theirs.name.schema, theirs.name.name);
	bool created = false;

	UnknownSyntax unknown;
	check_fragments(theirs, unknown);
	const CatalogFacts facts(adoption.subscription.subid);
	const Policy &policy = adoption.subscription.options.policy;
	if (std::string feature = merge::missing_feature(theirs, policy, facts.server_version());
	    !OidIsValid(relid) && adoption.create && !feature.empty()) {
		adoption.misfits.push_back("table " + identity + " cannot be created: this server has no " + feature);
		return;
	}
	if (!OidIsValid(relid) && adoption.create) {
		SchemaWork work(adoption.subscription, {}, {});
		Sides sides;
		Oid role = place_of(work, sides, &theirs).run_as;
		const merge::CreateScript script = merge::render_create(theirs, policy, facts.server_version());
		if (!is_readable(adoption, unknown, script.before_rows, "table " + identity) ||
		    !is_readable(adoption, unknown, script.after_rows, "table " + identity))
			return;
		if (std::string misfit = generated_misfit(theirs, facts); !misfit.empty()) {
			adoption.misfits.push_back("table " + identity + " cannot be created: " + misfit);
			return;
		}
		ensure_schema(adoption, theirs.name.schema);
		for (const std::string &sql : script.before_rows)
			execute(adoption, sql, role);
		relid = find_local_relation(theirs.name.schema, theirs.name.name);
		created = true;
	}
	std::optional<state::Relation> ours;
	if (OidIsValid(relid))
		ours = read_local_relation(relid);
	if (!ours && !may_miss) {
		adoption.misfits.push_back(OidIsValid(relid) ? identity + " is not a table here"
		                                             : "table " + identity + " is missing");
		return;
	}
	const std::size_t misfits = adoption.misfits.size();
	std::vector<catalog::AttributePair> pairs;
	if (ours)
		pairs = pair_columns(adoption, theirs, *ours, identity);
	if (may_miss && (!ours || adoption.misfits.size() > misfits)) {
		adoption.misfits.resize(misfits);
		pairs.clear();
		relid = InvalidOid;
	}
	const catalog::RelationRow row{.publisher_oid = theirs.name.oid,
	                               .publisher_schema = theirs.name.schema.c_str(),
	                               .publisher_name = theirs.name.name.c_str(),
	                               .relid = relid,
	                               .base = pg::call([&] { return state_as_of(text, adoption.sync_lsn); }),
	                               .npairs = static_cast<int>(pairs.size()),
	                               .pairs = pairs.data(),
	                               .state = adoption.table_state,
	                               .sync_lsn = adoption.sync_lsn,
	                               .options = nullptr,
	                               .created = created};
	pg::call([&] {
		catalog::save_relation(adoption.subscription.subid, &row);
		if (created)
			catalog::set_relation_created(adoption.subscription.subid, row.publisher_oid, true);
	});
}

void
report_misfits(const Adoption &adoption)
{
	if (adoption.misfits.empty())
		return;
	std::string lines;
	for (const std::string &misfit : adoption.misfits)
		lines += (lines.empty() ? "" : "\n") + misfit;
	pg::call([&] {
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("the tables of subscription \"%s\" do not fit those of the publisher",
		                       adoption.subscription.name),
		                errdetail("%s", lines.c_str()),
		                errhint("Repair them, or let schemasync create them: copy_schema => true.")));
	});
}

/* The operations that add what theirs has of constraints, indexes and replica identity and the local table
 * has not. */
merge::Result
missing_parts(const catalog::Subscription &subscription, const Sides &sides)
{
	state::Relation before = *sides.base;
	const state::Relation &ours = *sides.ours;
	auto is_here = [&](const auto &part, const auto &own) {
		for (const auto &candidate : own)
			if (candidate.name == part.name)
				return true;
		return false;
	};

	std::erase_if(before.constraints,
	              [&](const auto &constraint) { return !is_here(constraint, ours.constraints); });
	std::erase_if(before.indexes, [&](const auto &index) { return !is_here(index, ours.indexes); });
	/* NOT NULL that is NOT VALID comes after the rows too */
	for (const state::Constraint &constraint : sides.base->constraints)
		if (constraint.type == 'n' && !constraint.validated && constraint.columns.size() == 1)
			for (state::Column &column : before.columns)
				for (const auto &[publisher, local] : sides.columns.pairs)
					for (const state::Column &own : ours.columns)
						if (publisher == column.attnum && column.attnum == constraint.columns[0] &&
						    own.attnum == local)
							column.not_null = own.not_null;
	before.replica_identity = ours.replica_identity;
	before.replica_identity_index = 0;
	const CatalogFacts facts(subscription.subid);
	merge::RelationInput input;
	input.base = &before;
	input.theirs = &*sides.base;
	input.ours = &ours;
	input.mapped = true;
	input.columns = sides.columns;
	/* what is left to the index worker the caller decides */
	Policy policy = policy_of(subscription, sides.row);
	if (policy.indexes == Choice::Background)
		policy.indexes = Choice::Forward;
	/* nothing of this is a change */
	policy.schema_changes = SchemaChanges::Forward;
	return merge::merge_relation(input, merge::Command{}, policy, &facts);
}

/* A foreign key to a table that is to be made by a later copy; to the merge that is one which is not followed. */
bool
refers_to_waiting(const SchemaWork &work, const state::Relation &theirs)
{
	for (const state::Constraint &constraint : theirs.constraints) {
		if (!constraint.references)
			continue;
		const Oid other = constraint.references->oid;
		const auto *row = pg::call([&] { return catalog::load_relation(work.subscription.subid, other); });
		if (row != nullptr && is_waiting(*row) && !OidIsValid(row->relid))
			return true;
	}
	return false;
}

/* Adds what is missing, without or with foreign keys; one whose other table is not ready stays. Returns whether all is there now. */
bool
complete(const catalog::Subscription &subscription, Oid publisher_oid, bool foreign_keys)
{
	SchemaWork work(subscription, {}, {});
	Sides sides = load_sides(work, publisher_oid, nullptr);
	if (sides.row == nullptr || !sides.ours)
		return true;
	const Place place = place_of(work, sides, &*sides.base);
	merge::Result result = missing_parts(subscription, sides);
	bool all = !refers_to_waiting(work, *sides.base);

	if (foreign_keys)
		for (const merge::Operation &operation : result.operations)
			if (operation.verdict == Verdict::Forward && operation.operation != "add_foreign_key")
				return false; /* its own rows are not copied yet */
	for (const merge::Operation &operation : result.operations) {
		/* an index or a constraint of which something differs here: the rows are whole without it */
		if (operation.verdict == Verdict::Refuse && !foreign_keys)
			pg::call([&] {
				ereport(WARNING, (errmsg("%s: not made here", operation.change.c_str()), errdetail("%s", operation.detail.c_str()),
				                  errhint("schemasync_diff shows it with the SQL that makes it.")));
			});
		if (operation.verdict != Verdict::Forward || leave_to_worker(subscription, sides, operation))
			continue;
		if (!foreign_keys && operation.operation == "add_foreign_key") {
			all = false;
			continue;
		}
		for (const std::string &sql : operation.sql) {
			const Execution execution{.sql = sql.c_str(),
			                          .run_as = place.run_as,
			                          .checked = true,
			                          .restricted = true,
			                          .search_path = "",
			                          .waits_for = place.relid,
			                          .settings = nullptr,
			                          .nsettings = 0,
			                          .lock_timeout = subscription.options.ddl_lock_timeout,
			                          .lock_retries = subscription.options.ddl_lock_retries};
			Executed executed = pg::call([&] {
				worker::hold_index_build(place.relid);
				return execute_ddl(execution);
			});
			if (executed.outcome == Outcome::Done)
				continue;
			if (operation.operation != "add_foreign_key")
				pg::call([&] { ReThrowError(executed.error); });
			all = false;
			break;
		}
	}
	return all;
}

void
finish(const catalog::Subscription &subscription, Oid publisher_oid, bool foreign_keys)
{
	pg::entry([&] {
		const auto *row = pg::call([&] { return catalog::load_relation(subscription.subid, publisher_oid); });

		if (row != nullptr && row->created && complete(subscription, publisher_oid, foreign_keys))
			pg::call([&] { catalog::set_relation_created(subscription.subid, publisher_oid, false); });
	});
}

} // namespace

void
adopt_states(const catalog::Subscription &subscription, const char *const *types, int ntypes,
             const char *const *states, const bool *may_miss, int nstates, bool create, XLogRecPtr sync_lsn,
             const char *table_state)
{
	pg::entry([&] {
		Adoption adoption{
		    .subscription = subscription, .create = create, .sync_lsn = sync_lsn, .table_state = table_state};

		for (int i = 0; i < ntypes; i++)
			adopt_type(adoption, types[i]);
		for (int i = 0; i < nstates; i++)
			adopt_relation(adoption, states[i], may_miss[i] && !create);
		report_misfits(adoption);
	});
}

void
adopt_types(const catalog::Subscription &subscription, const char *const *types, int ntypes, bool create)
{
	pg::entry([&] {
		Adoption adoption{
		    .subscription = subscription, .create = create, .sync_lsn = InvalidXLogRecPtr, .table_state = ""};

		for (int i = 0; i < ntypes; i++)
			adopt_spare_type(adoption, types[i]);
	});
}

void
adopt_schemas(const catalog::Subscription &subscription, const char *const *names, int count)
{
	pg::entry([&] {
		const Adoption adoption{
		    .subscription = subscription, .create = true, .sync_lsn = InvalidXLogRecPtr, .table_state = ""};

		for (int i = 0; i < count; i++) {
			const std::string schema = names[i];
			if (OidIsValid(find_local_schema(schema)))
				continue;
			const std::string sql = "CREATE SCHEMA " + quote_name(schema);
			const Execution execution = execution_of(adoption, sql, subscription.owner);
			Executed executed = pg::call([&] { return execute_ddl(execution); });
			if (executed.outcome != Outcome::Done)
				pg::call([&] {
					ereport(WARNING, (errmsg("the schema %s of the publisher is not made here", schema.c_str()),
					                  errdetail("%s", executed.error->message), errhint("No table that is copied is in it.")));
				});
		}
	});
}

char *
state_as_of(const char *state, XLogRecPtr position)
{
	Size length = strlen(state);

	if (XLogRecPtrIsInvalid(position) || length == 0 || state[length - 1] != '}')
		return pstrdup(state);
	return psprintf("%.*s,\"as_of\":" UINT64_FORMAT "}", static_cast<int>(length - 1), state, position);
}

void
finish_created(const catalog::Subscription &subscription, Oid publisher_oid)
{
	finish(subscription, publisher_oid, false);
}

void
finish_foreign_keys(const catalog::Subscription &subscription, Oid publisher_oid)
{
	finish(subscription, publisher_oid, true);
}

} // namespace schemasync::apply
