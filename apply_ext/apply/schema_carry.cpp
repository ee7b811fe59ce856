#include "apply_ext/apply/schema_carry.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/sql.hpp"

#include "apply_ext/apply/carried_rows.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/apply/session.hpp"

#include "pg/guard.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "utils/memutils.h"
}

namespace schemasync::apply {

namespace {

/* A message's relation that takes part, and the name of each of its columns. */
struct Member {
	const state::Relation *theirs;
	Oid published_as;
};

std::string
shown(const state::Relation &relation)
{
	return sql::shown(relation.name.schema, relation.name.name);
}

std::string
rows_text(std::int64_t rows)
{
	return std::to_string(rows) + (rows == 1 ? " row" : " rows");
}

/* The published relation that the rewritten rows of a relation go to; InvalidOid when there are none. */
Oid
target_of_rewrite(Oid relation)
{
	for (const Carried *carried = carried_rewrites(); carried != nullptr; carried = carried->next)
		if (carried->relation == relation && carried->take)
			return carried->published_as;
	return InvalidOid;
}

/*
 * The relations whose rows are rewritten with this one's: itself and those below it. One of which no row came was
 * empty; where rows are published as those of a root, the root has them all.
 */
std::vector<Member>
members_of(const SchemaWork &work, const state::Relation &theirs)
{
	std::vector<const state::Relation *> all{&theirs};
	std::vector<Member> members;

	for (const state::Relation *relation : work.descendants_of(&theirs))
		all.push_back(relation);
	for (const state::Relation *relation : all) {
		Oid rows_as = target_of_rewrite(relation->name.oid);
		if (rows_as == InvalidOid && relation->relkind == 'r' && !relation->published_via_root)
			rows_as = relation->name.oid;
		if (rows_as != InvalidOid)
			members.push_back({relation, rows_as});
	}
	return members;
}

merge::Operation
rewrite_operation(const state::Relation &relation)
{
	merge::Operation operation;

	operation.operation = "rewrite_rows";
	operation.object_type = "table";
	operation.object_identity = shown(relation);
	operation.change = "table " + operation.object_identity + " was rewritten";
	operation.verdict = Verdict::Refuse;
	return operation;
}

std::string
resync_hint(const state::Relation &relation)
{
	return "SELECT schemasync_resume('{subscription}');\n"
	       "Or copy the table afresh, which takes the place of all rows here: SELECT schemasync_resync('{subscription}', " +
	       sql::literal(shown(relation)) + ");";
}

/* The key of the merged relation in a member of its tree, whose columns have the same names. */
std::vector<AttrNumber>
key_in(const std::vector<AttrNumber> &key, const state::Relation &of, const state::Relation &member)
{
	std::vector<AttrNumber> result;

	for (AttrNumber attnum : key)
		for (const state::Column &column : of.columns)
			if (column.attnum == attnum)
				for (const state::Column &other : member.columns)
					if (other.name == column.name)
						result.push_back(other.attnum);
	return result.size() == key.size() ? result : std::vector<AttrNumber>();
}

/* The local columns of the key; empty when one is not here. */
std::vector<AttrNumber>
local_key(const std::vector<AttrNumber> &key, const Sides &sides)
{
	std::vector<AttrNumber> result;

	for (AttrNumber attnum : key)
		for (const auto &[publisher, local] : sides.columns.pairs)
			if (publisher == attnum)
				result.push_back(local);
	return result.size() == key.size() ? result : std::vector<AttrNumber>();
}

/* The local columns that the publisher does not have. */
std::string
own_columns(const Sides &sides, const merge::Result &result)
{
	std::string names;

	for (const state::Column &column : sides.ours->columns) {
		bool known = column.generated != 0;
		for (const auto &[publisher, local] : sides.columns.pairs)
			known = known || local == column.attnum;
		for (const auto &[publisher, name] : result.local_columns) /* made here in advance */
			known = known || name == column.name;
		if (!known)
			names += (names.empty() ? "" : ", ") + sql::shown(column.name);
	}
	return names;
}

/* Nobody writes into the table from here on, as on the publisher. */
Progress
lock_table(SchemaWork &work, merge::Operation &operation, const Place &place)
{
	const std::string statement =
	    "LOCK TABLE " + std::string(place.ours->relkind == 'p' ? "" : "ONLY ") +
	    sql::qualified(place.ours->name.schema, place.ours->name.name) + " IN ACCESS EXCLUSIVE MODE";
	const Executed executed = execute_statement(work, operation, statement, place);

	if (executed.outcome == Outcome::Done)
		return Progress::Done;
	explain_failure(operation, executed, place);
	operation.suggested_sql.clear();
	return do_operation(work, operation, place);
}

/* What stands in the way of reading or writing the rows here. What was begun is undone by the refusal. */
[[noreturn]] void
refuse_error(const SchemaWork &work, merge::Operation &operation, const Place &place, ErrorData *error)
{
	if (is_no_verdict(error->sqlerrcode) || work.session->wants_text)
		pg::call([&] { ReThrowError(error); });
	operation.reason = Reason::ApplyFailed;
	operation.detail = "the carried rows cannot be put in: " + std::string(error->message);
	if (error->detail != nullptr)
		operation.detail += "; " + std::string(error->detail);
	operation.hint = resync_hint(*place.theirs);
	refuse(work, operation, place);
}

std::int64_t
count_rows(const SchemaWork &work, merge::Operation &operation, const Place &place, bool remove)
{
	std::int64_t count = 0;
	ErrorData *error = pg::call([&] {
		return pg::try_in_subtransaction([&] { count = count_local_rows(work.session, place.relid, remove); });
	});

	if (error != nullptr)
		refuse_error(work, operation, place, error);
	return count;
}

/* The tables whose rows were rewritten while they were unlogged have other rows than were sent. */
bool
was_unlogged(const SchemaWork &work, Oid published_as)
{
	Sides sides = load_sides(work, published_as, nullptr);

	return sides.base && sides.base->persistence == 'u';
}

Progress
prepare_target(SchemaWork &work, const merge::Result &result, const state::Relation &merged, const Member &member)
{
	Sides sides = load_sides(work, member.published_as, member.theirs);
	if (sides.row == nullptr || !sides.ours || find_carry_target(member.published_as) != nullptr)
		return Progress::Done;
	const state::Relation &theirs = *member.theirs;
	merge::Operation operation = rewrite_operation(theirs);
	const Place place = place_of(work, sides, &theirs);

	if (!may_become(work, place.run_as)) {
		operation.sql = {""};
		operation.verdict = Verdict::Forward;
		return do_operation(work, operation, place);
	}
	Progress locked = lock_table(work, operation, place);
	if (locked != Progress::Done)
		return locked;
	CarryTarget *target = pg::call([&] { return add_carry_target(member.published_as, place.relid); });
	std::int64_t here = count_rows(work, operation, place, false);
	if (here != target->rows && !was_unlogged(work, member.published_as)) {
		pg::call([&] { forget_carry_target(member.published_as); });
		operation.reason = Reason::LocalDrift;
		operation.detail = "the table has " + rows_text(here) + " here and " + rows_text(target->rows) +
		                   " on the publisher: which of them the new values belong to is not known";
		operation.hint = "Delete the rows that are only here, and insert those that are missing.\n" + resync_hint(theirs);
		return do_operation(work, operation, place);
	}
	const std::vector<AttrNumber> key = key_in(result.key, merged, theirs);
	const std::vector<AttrNumber> here_key = local_key(key, sides);
	if (!result.replaces_rows() && !here_key.empty() && pg::call([&] {
		    return is_local_key(place.relid, here_key.data(), static_cast<int>(here_key.size()));
	    })) {
		pg::call([&] { set_carry_keys(target, key.data(), static_cast<int>(key.size())); });
		return Progress::Done;
	}
	const std::string own = own_columns(sides, result);
	if (!own.empty()) {
		pg::call([&] { forget_carry_target(member.published_as); });
		operation.reason = Reason::RewriteUnproven;
		operation.detail = "no key that the change left as it was finds the rows here, so the carried ones would take "
		                   "the place of rows with values that are only here, in: " +
		                   own;
		operation.hint = "Save what is in those columns and drop them; they can be added again afterwards.\n" +
		                 resync_hint(theirs);
		return do_operation(work, operation, place);
	}
	(void)count_rows(work, operation, place, true);
	return Progress::Done;
}

/* What a person decided about the boundary is done before anything is touched. */
Progress
do_decision(SchemaWork &work, const state::Relation &theirs, const Place &place)
{
	const char *resolution = work.decision != nullptr && !work.decided ? work.decision->resolution : nullptr;

	if (resolution == nullptr || strcmp(resolution, "resumed") == 0 || strcmp(resolution, "satisfied") == 0)
		return Progress::Done;
	merge::Operation operation = rewrite_operation(theirs);
	operation.reason = Reason::RewriteUnproven;
	operation.detail = "its rows would be carried";
	return do_operation(work, operation, place);
}

/*
 * A table whose rows are to be those of the publisher's, of which none came: where they are published as those of its root, it cannot be
 * told here which of the root's are its own.
 */
Progress
require_member(SchemaWork &work, const merge::Result &result, const std::vector<Member> &members, const Place &place)
{
	const bool replaced = std::any_of(result.operations.begin(), result.operations.end(), [](const merge::Operation &operation) {
		return operation.op == merge::Op::SetPersistence && operation.replace_rows;
	});
	const bool found = std::any_of(members.begin(), members.end(),
	                               [&](const Member &member) { return member.theirs->name.oid == place.publisher_oid; });
	const char *resolution = work.decision != nullptr ? work.decision->resolution : nullptr;

	if (!replaced || found || (resolution != nullptr && strcmp(resolution, "resumed") == 0))
		return Progress::Done;
	merge::Operation operation = rewrite_operation(*place.theirs);
	operation.reason = Reason::RewriteUnproven;
	operation.detail = "The publisher's partition is empty, and its rows are published as those of its root.";
	operation.hint = "Delete from the partition here what is not on the publisher.\n"
	                 "SELECT schemasync_resume('{subscription}');";
	return do_operation(work, operation, place);
}

void
load_rows(SchemaWork &work, const CarryTarget *target)
{
	Sides sides = load_sides(work, target->published_as, nullptr);
	const Place place = place_of(work, sides, &*sides.base);
	merge::Operation operation = rewrite_operation(*sides.base);
	const char *missing = nullptr;
	ErrorData *error = pg::call([&] {
		return pg::try_in_subtransaction([&] { missing = load_carried_rows(work.session, target); });
	});

	if (error != nullptr)
		refuse_error(work, operation, place, error);
	if (missing == nullptr)
		return;
	operation.reason = Reason::LocalDrift;
	operation.detail = "the publisher has a row that is not here: " + std::string(missing);
	operation.hint =
	    "Insert the rows that are missing, and delete those that are only here.\n" + resync_hint(*sides.base);
	refuse(work, operation, place);
}

/* The sequence of a new serial or identity column goes on after the rows, as the publisher's does. */
void
advance_counter(SchemaWork &work, const AfterRows &after, const Place &place)
{
	const std::string table = sql::qualified(place.ours->name.schema, place.ours->name.name);
	const std::string column = sql::ident(after.operation.counter);
	const std::string statement =
	    "SELECT pg_catalog.setval(s.seqrelid::pg_catalog.regclass, v.value, true) FROM pg_catalog.pg_sequence s, LATERAL ("
	    "SELECT CASE WHEN s.seqincrement > 0 THEN pg_catalog.max(t." +
	    column + ") ELSE pg_catalog.min(t." + column + ") END::pg_catalog.int8 AS value FROM " + table +
	    " t) v WHERE v.value IS NOT NULL AND s.seqrelid = pg_catalog.pg_get_serial_sequence(" + sql::literal(table) + ", " +
	    sql::literal(after.operation.counter) + ")::pg_catalog.regclass";
	const Execution execution{.sql = statement.c_str(),
	                          .run_as = place.run_as,
	                          .checked = false,
	                          .restricted = true,
	                          .search_path = "",
	                          .waits_for = place.relid,
	                          .settings = nullptr,
	                          .nsettings = 0,
	                          .lock_timeout = work.subscription.options.ddl_lock_timeout,
	                          .lock_retries = work.subscription.options.ddl_lock_retries};

	pg::call([&] {
		Executed executed = execute_ddl(execution);
		if (executed.outcome != Outcome::Done)
			ReThrowError(executed.error);
	});
}

} // namespace

void
begin_carry(const state::RewriteMessage &message, bool take)
{
	pg::call([&] {
		if (find_carried(message.transient) == nullptr)
			(void)add_carried(message.transient, message.relation, message.published_as, take);
	});
}

bool
have_carried_rows(const SchemaWork &work, const state::Relation &theirs)
{
	const std::vector<const state::Relation *> below = work.descendants_of(&theirs);

	for (const Carried *carried = carried_rewrites(); carried != nullptr; carried = carried->next) {
		if (carried->take && (carried->relation == theirs.name.oid || carried->published_as == theirs.name.oid))
			return true;
		for (const state::Relation *relation : below)
			if (carried->take && carried->relation == relation->name.oid)
				return true;
	}
	return false;
}

Progress
prepare_carry(SchemaWork &work, const merge::Result &result, const Sides &sides, const state::Relation &theirs)
{
	const Place place = place_of(work, sides, &theirs);

	std::erase_if(work.after_rows, [&](const AfterRows &after) { return after.publisher_oid == theirs.name.oid; });
	for (merge::Operation operation : result.operations)
		if (operation.verdict == Verdict::Refuse)
			if (Progress progress = do_operation(work, operation, place); progress != Progress::Done)
				return progress;
	if (Progress progress = do_decision(work, theirs, place); progress != Progress::Done)
		return progress;
	const std::vector<Member> members = members_of(work, theirs);
	if (Progress progress = require_member(work, result, members, place); progress != Progress::Done)
		return progress;
	for (const Member &member : members)
		if (Progress progress = prepare_target(work, result, theirs, member); progress != Progress::Done)
			return progress;
	return Progress::Done;
}

void
finish_carry(SchemaWork &work)
{
	for (const CarryTarget *target = carry_targets(); target != nullptr; target = target->next)
		load_rows(work, target);
	for (const AfterRows &after : work.after_rows) {
		Sides sides = load_sides(work, after.publisher_oid, nullptr);
		if (!sides.ours || !sides.base)
			continue;
		const Place place = place_of(work, sides, &*sides.base);
		merge::Operation operation = after.operation;
		/* a person's SQL takes the place of what failed */
		(void)do_operation(work, operation, place);
		if (!after.operation.counter.empty())
			advance_counter(work, after, place);
	}
	work.after_rows.clear();
	pg::call([] { forget_carries(); });
}

} // namespace schemasync::apply
