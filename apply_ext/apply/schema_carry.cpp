#include "apply_ext/apply/schema_carry.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "apply_ext/apply/ddl_execute.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/apply/schema_sides.hpp"
#include "apply_ext/apply/sql_fragment.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "utils/memutils.h"
}

namespace schemasync::apply {

namespace {

/* The rewrites of one transaction and what belongs to them. */
MemoryContext carries_context = nullptr;
Carried *carries = nullptr;

// ---- leaves: may ereport; plain data only ----

Carried *
add_carried(Oid transient, Oid relation, bool replaces)
{
	if (carries_context == nullptr)
		carries_context =
		    AllocSetContextCreate(TopMemoryContext, "schemasync carried rewrites", ALLOCSET_SMALL_SIZES);
	auto *carried = static_cast<Carried *>(MemoryContextAllocZero(carries_context, sizeof(Carried)));
	carried->next = carries;
	carried->transient = transient;
	carried->relation = relation;
	carried->replaces = replaces;
	carries = carried;
	return carried;
}

void
add_statement(Carried *carried, int number, int total, const char *sql)
{
	if (carried->statements == nullptr)
		carried->statements = static_cast<char **>(
		    MemoryContextAlloc(carries_context, sizeof(char *) * static_cast<Size>(total)));
	carried->statements[number] = MemoryContextStrdup(carries_context, sql);
	carried->nstatements = number + 1;
}

void
set_keys(Carried *carried, const AttrNumber *keys, int count)
{
	carried->nkeys = count;
	carried->keys = static_cast<AttrNumber *>(
	    MemoryContextAlloc(carries_context, sizeof(AttrNumber) * static_cast<Size>(count + 1)));
	memcpy(carried->keys, keys, sizeof(AttrNumber) * static_cast<Size>(count));
}

// ---- end of leaves ----

/*
 * The local columns that the publisher does not have. The carried rows cannot find the local ones by their key: a USING may
 * have changed it, also without another type, and nothing shows that before the marker. They take the place of all of
 * them, and such a column would lose its values.
 */
std::string
own_columns(const Sides &sides, const std::vector<std::pair<AttrNumber, std::string>> &local_columns)
{
	std::string names;

	for (const state::Column &column : sides.ours->columns) {
		bool known = column.generated != 0;
		for (const auto &[publisher, local] : sides.columns.pairs)
			known = known || local == column.attnum;
		for (const auto &[publisher, name] : local_columns)
			known = known || name == column.name;
		if (!known)
			names += (names.empty() ? "" : ", ") + column.name;
	}
	return names;
}

[[noreturn]] void
refuse_loss(const SchemaWork &work, const state::Relation &theirs, const Place &place, const std::string &columns)
{
	merge::Operation operation;

	operation.operation = "rewrite_rows";
	operation.object_type = "table";
	operation.object_identity = qualified_name(theirs.name.schema, theirs.name.name);
	operation.reason = Reason::RewriteUnproven;
	operation.change = "table " + operation.object_identity + " was rewritten";
	operation.detail = "the carried rows would take the place of rows with values that are only here, in: " + columns;
	operation.hint = "Save what is in those columns and drop them, or decide to lose it.\n"
	                 "SELECT schemasync_resume('{subscription}');";
	refuse(work, operation, place);
}

void
empty_table(SchemaWork &work, const Place &place)
{
	const std::string sql =
	    "DELETE FROM ONLY " + qualified_name(place.ours->name.schema, place.ours->name.name);
	const Execution execution{.sql = sql.c_str(),
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
begin_carry(SchemaWork &work, const state::RewriteMessage &message)
{
	const state::Relation &theirs = message.state.value;
	std::vector<std::pair<AttrNumber, std::string>> local_columns;

	check_fragments(theirs);
	begin_boundary(work);
	work.rows_follow = true;
	for (;;) {
		Sides sides = load_sides(work, message.relation, &theirs);
		if (sides.row == nullptr || !sides.ours)
			return; /* made in this very transaction, or not kept here: its rows are not applied */
		work.after_rows.clear();
		work.replace_rows = false;
		Progress progress = merge_relation_once(work, sides, &theirs, local_columns);
		if (progress == Progress::Again)
			continue;
		constexpr bool replaces = true;
		const std::string own = own_columns(sides, local_columns);
		if (!own.empty() && progress != Progress::Skip && !work.resumed())
			refuse_loss(work, theirs, place_of(work, sides, &theirs), own);
		accept_relation(work, message.state, sides, progress == Progress::Skip ? nullptr : &local_columns);
		if (progress == Progress::Skip)
			break;
		Sides now = load_sides(work, message.relation, &theirs);
		if (replaces)
			empty_table(work, place_of(work, now, &theirs));
		pg::call([&] {
			Carried *carried = add_carried(message.transient, message.relation, replaces);
			set_keys(carried, theirs.identity_columns.data(),
			         static_cast<int>(theirs.identity_columns.size()));
			for (std::size_t i = 0; i < work.after_rows.size(); i++)
				add_statement(carried, static_cast<int>(i), static_cast<int>(work.after_rows.size()),
				              work.after_rows[i].c_str());
		});
		break;
	}
	work.changed = true;
	end_boundary(work);
}

void
pass_over_carry(const state::RewriteMessage &message)
{
	constexpr bool replaces = true;

	pg::call([&] { add_carried(message.transient, message.relation, replaces); });
}

void
settle_carried(merge::Command &command)
{
	for (const Carried *carried = carries; carried != nullptr; carried = carried->next) {
		std::erase_if(command.using_hints,
		              [&](const merge::UsingHint &hint) { return hint.relation == carried->relation; });
		std::erase_if(command.rewrites,
		              [&](const merge::RewriteHint &rewrite) { return rewrite.relation == carried->relation; });
	}
}

void
finish_carries(SchemaWork &work)
{
	for (const Carried *carried = carries; carried != nullptr; carried = carried->next) {
		merge::Result result;
		merge::Operation operation;
		Sides sides = load_sides(work, carried->relation, nullptr);
		if (carried->nstatements == 0 || !sides.ours)
			continue;
		operation.operation = "finish_rewrite";
		operation.object_type = "table";
		operation.object_identity = qualified_name(sides.ours->name.schema, sides.ours->name.name);
		operation.verdict = Verdict::Carry;
		operation.change = "the rows of table " + operation.object_identity + " were rewritten";
		for (int i = 0; i < carried->nstatements; i++)
			operation.sql.emplace_back(carried->statements[i]);
		result.operations.push_back(operation);
		note_changes(work, result);
		const bool may_defer = work.may_defer;
		work.may_defer = false;
		(void)do_operations(work, result, place_of(work, sides, &*sides.base));
		work.may_defer = may_defer;
	}
	pg::call([] { forget_carries(); });
}

const Carried *
find_carried(Oid transient)
{
	for (const Carried *carried = carries; carried != nullptr; carried = carried->next)
		if (carried->transient == transient)
			return carried;
	return nullptr;
}

void
forget_carries()
{
	carries = nullptr;
	if (carries_context != nullptr)
		MemoryContextReset(carries_context);
}

} // namespace schemasync::apply
