#include "apply_ext/apply/index_queue.hpp"

#include "core/operation.hpp"

#include <algorithm>
#include <string>

#include "apply_ext/apply/local_facts.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/worker/index_builds.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::apply {

namespace {

const state::Index *
index_of(const state::Relation &relation, Oid oid)
{
	for (const state::Index &index : relation.indexes)
		if (index.oid == oid)
			return &index;
	return nullptr;
}

/* Whether an index of the publisher is one that the queue may hold. */
bool
may_be_queued(const state::Index &index)
{
	return index.valid && index.constraint == 0 && index.parent == 0;
}

struct Builds {
	catalog::IndexBuild *rows;
	int count;
};

Builds
load_builds(const SchemaWork &work, Oid publisher_oid)
{
	Builds builds{nullptr, 0};

	builds.rows = pg::call([&] { return catalog::load_index_builds(work.subscription.subid, publisher_oid, &builds.count); });
	return builds;
}

void
drop_left(const SchemaWork &work, const catalog::IndexBuild &build)
{
	const char *sql = pg::call([&] { return drop_left_sql(build.local_oid, build.relid, false); });

	if (sql != nullptr) {
		Place place;
		place.relid = build.relid;
		place.run_as = owner_of_relation(build.relid);
		merge::Operation operation;
		Executed executed = execute_statement(work, operation, sql, place);
		if (executed.outcome != Outcome::Done)
			pg::call([&] { ReThrowError(executed.error); });
	}
	pg::call([&] { catalog::save_begun_index(work.subscription.subid, &build, InvalidOid); });
}

/* From here to the end of the transaction nothing is built on the relation's table, and nothing half built is on it. */
void
hold_builds(SchemaWork &work, const Builds &builds)
{
	for (int i = 0; i < builds.count; i++) {
		const catalog::IndexBuild &build = builds.rows[i];
		if (OidIsValid(build.relid))
			pg::call([&] { worker::hold_index_build(build.relid); });
		/* what the worker wrote before it let go */
		const catalog::IndexBuild *now = pg::call(
		    [&] { return catalog::load_index_build(work.subscription.subid, build.publisher_oid, build.index_oid); });
		if (now == nullptr || !OidIsValid(now->local_oid))
			continue;
		drop_left(work, *now);
		pg::call([&] { catalog::requeue_index_build(work.subscription.subid, now, 0, false); });
	}
}

/* What makes the table, or one of its queued indexes, another one. */
bool
needs_table(const merge::Result &result)
{
	for (const merge::Operation &operation : result.operations) {
		if (operation.op == merge::Op::DropIndex || operation.op == merge::Op::RenameIndex)
			return true;
		if ((operation.verdict == Verdict::Forward || operation.verdict == Verdict::Carry) && !operation.background)
			return true;
	}
	return false;
}

/* Builds one in this very transaction; what fails is a refusal of the change that needs it. */
void
build_now(SchemaWork &work, const catalog::IndexBuild &build)
{
	Builds one{const_cast<catalog::IndexBuild *>(&build), 1};

	hold_builds(work, one);
	merge::Operation operation = plan_build(work.subscription, build.publisher_oid, build.index_oid, false);
	if (operation.verdict == Verdict::Refuse || operation.verdict == Verdict::Forward) {
		Place place;
		place.relid = build.relid;
		place.publisher_oid = build.publisher_oid;
		place.run_as = owner_of_relation(build.relid);
		if (do_operation(work, operation, place) != Progress::Done)
			return;
	}
	pg::call([&] {
		catalog::remove_index_build(work.subscription.subid, &build, "Built in the stream, because another change needed it.");
	});
}

/* Whether the foreign key stands on the index. A state without the index (of an older publisher) may mean any. */
bool
needs(const state::Constraint &constraint, const catalog::IndexBuild &build)
{
	return build.is_unique && (constraint.index == 0 || constraint.index == build.index_oid);
}

/* The queued indexes that must be there before the operations are done. returns: whether one was built on the relation itself */
bool
build_needed(SchemaWork &work, const merge::Result &result, const state::Relation &theirs)
{
	Builds own = load_builds(work, theirs.name.oid);
	bool built = false;

	for (int i = 0; i < own.count; i++)
		if (theirs.replica_identity == 'i' && own.rows[i].index_oid == theirs.replica_identity_index) {
			build_now(work, own.rows[i]);
			built = true;
		}
	for (const merge::Operation &operation : result.operations) {
		if ((operation.op != merge::Op::AddForeignKey && operation.op != merge::Op::CreateTable) ||
		    operation.verdict != Verdict::Forward)
			continue;
		for (const state::Constraint &constraint : theirs.constraints) {
			if (!constraint.references)
				continue;
			Builds others = load_builds(work, constraint.references->oid);
			for (int i = 0; i < others.count; i++)
				if (needs(constraint, others.rows[i])) {
					build_now(work, others.rows[i]);
					built = built || others.rows[i].publisher_oid == theirs.name.oid;
				}
		}
	}
	return built;
}

} // namespace

void
queue_build(SchemaWork &work, const merge::Operation &operation, const Place &place)
{
	merge::Operation queued = operation;
	const state::Index *index = place.theirs == nullptr ? nullptr : index_of(*place.theirs, operation.index);

	if (index == nullptr)
		return;
	queued.detail = "Queued: the index worker builds it.";
	const std::string sql = operation.sql.empty() ? std::string() : operation.sql[0];
	std::int64_t history_id = record_history(work, queued, sql, 0);
	const catalog::IndexBuild row{.publisher_oid = place.publisher_oid,
	                              .index_oid = operation.index,
	                              .index_name = index->name.c_str(),
	                              .is_unique = index->unique,
	                              .local_oid = InvalidOid,
	                              .relid = InvalidOid,
	                              .attempts = 0};
	pg::call([&] { catalog::queue_index(work.subscription.subid, &row, history_id); });
}

bool
settle_builds(SchemaWork &work, const merge::Result &result, const Sides &sides, const state::Relation *theirs)
{
	Oid publisher_oid = theirs != nullptr ? theirs->name.oid : sides.base ? sides.base->name.oid : InvalidOid;

	if (result.refused() || !needs_table(result))
		return false;
	if (theirs != nullptr && build_needed(work, result, *theirs))
		return true;
	if (!work.held_builds.insert(publisher_oid).second)
		return false;
	Builds builds = load_builds(work, publisher_oid);
	hold_builds(work, builds);
	return builds.count > 0;
}

void
adapt_builds(SchemaWork &work, const state::Relation &theirs, const Sides &sides)
{
	Builds builds = load_builds(work, theirs.name.oid);

	for (int i = 0; i < builds.count; i++) {
		const catalog::IndexBuild &build = builds.rows[i];
		const state::Index *index = index_of(theirs, build.index_oid);
		/* ALTER COLUMN TYPE and REINDEX CONCURRENTLY make it anew under its name */
		if (index == nullptr)
			for (const state::Index &other : theirs.indexes)
				if (other.name == build.index_name && (!sides.base || index_of(*sides.base, other.oid) == nullptr))
					index = &other;
		if (index != nullptr && may_be_queued(*index)) {
			if (index->oid == build.index_oid && index->name == build.index_name)
				continue;
			pg::call([&] {
				catalog::rekey_index_build(work.subscription.subid, &build, index->oid, index->name.c_str());
			});
			continue;
		}
		hold_builds(work, {builds.rows + i, 1});
		const char *why = index == nullptr ? "Dropped on the publisher before it was built."
		                                   : "It belongs to a constraint or to the parent table's index now.";
		pg::call([&] { catalog::remove_index_build(work.subscription.subid, &build, why); });
	}
}

void
give_up_builds(SchemaWork &work, Oid publisher_oid, const char *why)
{
	Builds builds = load_builds(work, publisher_oid);

	for (int i = 0; i < builds.count; i++) {
		hold_builds(work, {builds.rows + i, 1});
		pg::call([&] { catalog::remove_index_build(work.subscription.subid, &builds.rows[i], why); });
	}
}

bool
leave_to_worker(const catalog::Subscription &subscription, const Sides &sides, const merge::Operation &operation)
{
	const state::Relation &base = *sides.base;
	const state::Index *index = operation.op == merge::Op::CreateIndex ? index_of(base, operation.index) : nullptr;

	if (policy_of(subscription, sides.row).indexes != Choice::Background || index == nullptr || base.relkind == 'p' ||
	    !may_be_queued(*index) || index->unique || index->oid == base.replica_identity_index)
		return false;
	const catalog::IndexBuild row{.publisher_oid = base.name.oid,
	                              .index_oid = index->oid,
	                              .index_name = index->name.c_str(),
	                              .is_unique = false,
	                              .local_oid = InvalidOid,
	                              .relid = InvalidOid,
	                              .attempts = 0};
	pg::call([&] { catalog::queue_index(subscription.subid, &row, 0); });
	return true;
}

merge::Operation
plan_build(const catalog::Subscription &subscription, Oid publisher_oid, Oid index_oid, bool concurrently)
{
	SchemaWork work(subscription, {}, {});
	Sides sides = load_sides(work, publisher_oid, nullptr);

	if (!sides.base || index_of(*sides.base, index_oid) == nullptr)
		return {};
	merge::Operation operation;
	operation.op = merge::Op::CreateIndex;
	operation.operation = "create_index";
	operation.verdict = Verdict::Refuse;
	operation.reason = Reason::MissingObject;
	operation.detail = "the table is not here";
	if (!sides.ours)
		return operation;
	state::Relation before = *sides.base;
	std::erase_if(before.indexes, [&](const state::Index &index) { return index.oid == index_oid; });
	Policy policy = policy_of(subscription, sides.row);
	if (concurrently && policy.indexes == Choice::Ignore) {
		operation.verdict = Verdict::Ignore;
		return operation;
	}
	policy.indexes = concurrently ? Choice::Background : Choice::Forward;
	policy.schema_changes = SchemaChanges::Forward;
	const CatalogFacts facts(subscription.subid);
	merge::RelationInput input;
	input.base = &before;
	input.theirs = &*sides.base;
	input.ours = &*sides.ours;
	input.mapped = true;
	input.columns = sides.columns;
	const merge::Result result = merge::merge_relation(input, merge::Command{}, policy, &facts);
	for (const merge::Operation &found : result.operations)
		if (found.op == merge::Op::CreateIndex && found.index == index_oid)
			return found;
	return {};
}

// ---- leaves: may ereport; plain data only ----

char *
drop_left_sql(Oid index, Oid relid, bool concurrently)
{
	char *sql = nullptr;
	HeapTuple tuple = OidIsValid(index) ? SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index)) : nullptr;

	if (!HeapTupleIsValid(tuple))
		return nullptr;
	Form_pg_index form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
	const char *name = get_rel_name(index);
	if (form->indrelid == relid && !form->indisvalid && name != nullptr)
		sql = psprintf("DROP INDEX %s%s", concurrently ? "CONCURRENTLY " : "",
		               quote_qualified_identifier(get_namespace_name(get_rel_namespace(index)), name));
	ReleaseSysCache(tuple);
	return sql;
}

Oid
table_owner(Oid relid)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

} // namespace schemasync::apply
