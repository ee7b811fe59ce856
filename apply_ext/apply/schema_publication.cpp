/*
 * Which tables are followed: those that a publication took in are copied beside the stream (worker/beside.cpp), those that it
 * gave up are left alone from then on.
 *
 * Until its copy is there, nothing in the stream counts for such a table: neither rows nor states. The copy is taken at a later
 * position than this message's, and brings both.
 */
#include "apply_ext/apply/schema_work.hpp"

#include "core/sql.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "apply_ext/apply/schema_sides.hpp"
#include "apply_ext/catalog/relation.hpp"

#include "pg/guard.hpp"

extern "C" {
#include "access/xact.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
}

namespace schemasync::apply {

namespace {

using Op = merge::Op;

merge::Operation
make_operation(Op op, const state::Name &name, const char *what)
{
	merge::Operation operation;

	operation.op = op;
	operation.operation = merge::info(op).code;
	operation.object_type = "table";
	operation.object_identity = sql::shown(name.schema, name.name);
	operation.change = "table " + operation.object_identity + " " + what;
	operation.verdict = Verdict::Forward;
	return operation;
}

/* What becomes of a table whose rows have to be copied; Progress::Later never. Sets the state that it gets. */
Progress
decide(SchemaWork &work, merge::Operation &operation, Oid publisher_oid, const char **state)
{
	const catalog::Options &options = work.subscription.options;
	Place place;

	place.publisher_oid = publisher_oid;
	*state = "init";
	if (options.policy.schema_changes == SchemaChanges::Refuse) {
		operation.verdict = Verdict::Refuse;
		operation.reason = Reason::PolicyRefuse;
		operation.detail = "schema_changes = refuse";
		operation.hint = "SELECT schemasync_resume('{subscription}');\nThe table is then left alone until: "
		                 "SELECT schemasync_refresh('{subscription}');";
		if (work.resumed()) {
			operation.verdict = Verdict::Ignore;
			operation.reason = Reason::None;
		}
	} else if (!options.auto_refresh || options.policy.schema_changes == SchemaChanges::Ignore)
		operation.verdict = Verdict::Ignore;
	if (operation.verdict != Verdict::Forward) {
		*state = "needs_refresh";
		if (operation.detail.empty())
			operation.detail = "its rows are passed over until schemasync_refresh() copies it";
	} else
		operation.detail = "it is copied beside the stream";
	work.changes.push_back(operation.change);
	return do_operation(work, operation, place);
}

/* Rows and states of a table that is followed are passed over from here on, until it was copied afresh. */
void
copy_again(SchemaWork &work, Op op, const state::Name &name, const char *what)
{
	const char *state = nullptr;

	for (;;) {
		merge::Operation operation = make_operation(op, name, what);
		if (decide(work, operation, name.oid, &state) != Progress::Again)
			break;
	}
	pg::call([&] { catalog::set_waiting(work.subscription.subid, name.oid, state); });
	work.changed = true;
}

/* What the copy replaces by the real one. Leaf. */
const char *
placeholder(Oid oid, const char *schema, const char *name)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "{\"kind\":\"relation\",\"oid\":%u,\"schema\":", oid);
	escape_json(&text, schema);
	appendStringInfoString(&text, ",\"name\":");
	escape_json(&text, name);
	appendStringInfoChar(&text, '}');
	return text.data;
}

void
save_waiting(std::int64_t subid, Oid oid, const char *schema, const char *name, const char *state)
{
	const catalog::RelationRow row{.publisher_oid = oid,
	                               .publisher_schema = schema,
	                               .publisher_name = name,
	                               .relid = InvalidOid,
	                               .base = placeholder(oid, schema, name),
	                               .npairs = 0,
	                               .pairs = nullptr,
	                               .state = state,
	                               .sync_lsn = InvalidXLogRecPtr,
	                               .options = nullptr,
	                               .created = false};

	catalog::save_relation(subid, &row);
}

void
follow(SchemaWork &work, const state::Name &name, const catalog::RelationRow *row)
{
	constexpr char what[] = "is published now";
	const char *state = nullptr;

	if (row != nullptr) {
		copy_again(work, Op::PublishTable, name, what);
		pg::call([&] { catalog::mark_adoption(work.subscription.subid, name.oid); });
		return;
	}
	for (;;) {
		merge::Operation operation = make_operation(Op::PublishTable, name, what);
		if (decide(work, operation, name.oid, &state) != Progress::Again)
			break;
	}
	pg::call([&] { save_waiting(work.subscription.subid, name.oid, name.schema.c_str(), name.name.c_str(), state); });
	work.changed = true;
}

void
unfollow(SchemaWork &work, const catalog::RelationRow &row)
{
	const state::Name name{row.publisher_oid, row.publisher_schema, row.publisher_name};
	merge::Operation operation = make_operation(Op::UnpublishTable, name, "is no longer published");

	operation.verdict = Verdict::Ignore;
	operation.detail = "the subscriber's table stays as it is";
	work.changes.push_back(operation.change);
	(void)do_operation(work, operation, Place{});
	pg::call([&] {
		if (OidIsValid(row.relid))
			catalog::set_relation_state(work.subscription.subid, row.publisher_oid, "removed");
		else
			catalog::delete_relation(work.subscription.subid, row.publisher_oid);
	});
	work.changed = true;
}

/*
 * What theirs publishes of its columns. A list of all of them is none at all for the publisher (pgoutput.c,
 * pgoutput_column_list_init), so that no list has to be read as every column. Generated ones are left out: no list of up to
 * 17 has them, and the subscriber computes its own.
 */
std::vector<state::AttrNumber>
published(const state::Relation &theirs)
{
	std::vector<state::AttrNumber> attnums;

	if (theirs.published_columns)
		return *theirs.published_columns;
	for (const state::Column &column : theirs.columns)
		if (column.generated == 0)
			attnums.push_back(column.attnum);
	return attnums;
}

/* Whether all that theirs publishes was published before. */
bool
publishes_no_more(const state::Relation &base, const state::Relation &theirs)
{
	if (!base.published_columns)
		return true;
	const std::set<state::AttrNumber> before(base.published_columns->begin(), base.published_columns->end());
	const std::vector<state::AttrNumber> now = published(theirs);
	return std::all_of(now.begin(), now.end(), [&](state::AttrNumber attnum) { return before.count(attnum) != 0; });
}

/* republished: the command named it, so that even a filter that is there before and after may be another one */
bool
needs_new_copy(const state::Relation &base, const state::Relation &theirs, bool republished)
{
	/* a partition whose rows came with its root's, as they go on to do: the root's own state tells */
	if (theirs.published_via_root && !base.published_via_root && (!theirs.partition_bound.empty() || theirs.partition_hidden))
		return false;
	if (!publishes_no_more(base, theirs))
		return true;
	return base.published_filter != theirs.published_filter || (republished && theirs.published_filter);
}

} // namespace

// ---- leaves: may ereport; plain data only ----

namespace {

/* What a transaction that is given up had found to be copied; in a context of its own. */
MemoryContext waiting_context = nullptr;
catalog::RelationRow *waiting_rows = nullptr;
int waiting_count = 0;

} // namespace

void
follow_later(const catalog::Subscription &subscription, Oid publisher_oid, const char *schema, const char *name)
{
	if (catalog::load_relation(subscription.subid, publisher_oid) == nullptr)
		save_waiting(subscription.subid, publisher_oid, schema, name, "init");
}

void
keep_waiting_tables(std::int64_t subid)
{
	int count = 0;

	if (waiting_context == nullptr)
		waiting_context = AllocSetContextCreate(TopMemoryContext, "schemasync waiting tables", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(waiting_context);
	MemoryContext saved = MemoryContextSwitchTo(waiting_context);
	waiting_count = 0;
	waiting_rows = catalog::load_relations(subid, &count);
	for (int i = 0; i < count; i++) {
		if (strcmp(waiting_rows[i].state, "init") == 0)
			waiting_rows[waiting_count++] = waiting_rows[i];
	}
	MemoryContextSwitchTo(saved);
}

void
save_waiting_tables(std::int64_t subid)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < waiting_count; i++) {
		const catalog::RelationRow *row = catalog::load_relation(subid, waiting_rows[i].publisher_oid);
		if (row == nullptr)
			catalog::save_relation(subid, &waiting_rows[i]);
		else if (!is_waiting(*row)) {
			catalog::set_waiting(subid, row->publisher_oid, "init");
			if (is_removed(*row))
				catalog::mark_adoption(subid, row->publisher_oid);
		}
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	waiting_count = 0;
	if (waiting_context != nullptr)
		MemoryContextReset(waiting_context);
}

// ---- end of leaves ----

bool
is_waiting(const catalog::RelationRow &row)
{
	const std::string_view state = row.state;

	return state == "init" || state == "copying" || state == "catchup" || state == "needs_refresh";
}

bool
is_removed(const catalog::RelationRow &row)
{
	return std::string_view(row.state) == "removed";
}

bool
is_passed_over(const SchemaWork &work, Oid publisher_oid)
{
	const auto *row = pg::call([&] { return catalog::load_relation(work.subscription.subid, publisher_oid); });
	const bool before = row != nullptr && work.boundary.commit_lsn < row->sync_lsn;

	switch (work.boundary.pass) {
	case Pass::CatchUp:
		return row == nullptr || before || std::string_view(row->state) != "catchup";
	case Pass::Stream:
		return row != nullptr && (before || is_waiting(*row));
	default:
		return false;
	}
}

bool
has_waiting_parent(const SchemaWork &work, const state::Relation &theirs)
{
	for (const state::Name &parent : theirs.parents) {
		const auto *row = pg::call([&] { return catalog::load_relation(work.subscription.subid, parent.oid); });
		if (row != nullptr && is_waiting(*row) && !OidIsValid(row->relid))
			return true;
	}
	return false;
}

/* A partition's rows that travel as its root's cannot be copied without the root's: the stream does not tell them apart. */
static void
copy_root_again(SchemaWork &work, const state::Relation &theirs)
{
	const catalog::RelationRow *root = nullptr;
	std::vector<state::Name> parents = theirs.parents;

	while (!parents.empty()) {
		const Oid above = parents.front().oid;
		const auto *row = pg::call([&] { return catalog::load_relation(work.subscription.subid, above); });
		if (row == nullptr)
			break;
		auto parsed = state::parse_relation(row->base);
		const auto *base = std::get_if<state::Relation>(&parsed);
		if (base == nullptr || !base->published_via_root)
			break;
		root = row;
		parents = base->parents;
	}
	if (root != nullptr && !is_waiting(*root) && !is_removed(*root))
		copy_again(work, Op::RepublishTable, {root->publisher_oid, root->publisher_schema, root->publisher_name},
		           "got a partition that may have rows of its own");
}

void
follow_unknown(SchemaWork &work, const state::Relation &theirs, const catalog::RelationRow *row)
{
	follow(work, theirs.name, row);
	copy_root_again(work, theirs);
}

bool
republish(SchemaWork &work, const state::Relation &theirs, const Sides &sides)
{
	if (work.boundary.pass != Pass::Stream || sides.row == nullptr || !sides.base ||
	    !needs_new_copy(*sides.base, theirs, work.republished.count(theirs.name.oid) > 0))
		return false;
	copy_again(work, Op::RepublishTable, theirs.name, "is published with other columns or another filter");
	return true;
}

void
apply_membership(SchemaWork &work, const state::DdlMessage &message)
{
	if (!message.published || work.boundary.pass != Pass::Stream)
		return;
	int count = 0;
	const auto *rows = pg::call([&] { return catalog::load_relations(work.subscription.subid, &count); });
	std::map<Oid, const catalog::RelationRow *> known;
	for (int i = 0; i < count; i++)
		known[rows[i].publisher_oid] = &rows[i];

	std::set<Oid> listed(message.above.begin(), message.above.end());
	for (const state::Name &name : *message.published) {
		auto found = known.find(name.oid);
		listed.insert(name.oid);
		if (found == known.end())
			follow(work, name, nullptr);
		else if (is_removed(*found->second))
			follow(work, name, found->second);
	}
	for (const auto &[oid, row] : known)
		if (listed.count(oid) == 0 && !is_removed(*row) && work.boundary.commit_lsn >= row->sync_lsn) {
			unfollow(work, *row);
			note_identity(work, oid, nullptr, false);
		}
}

} // namespace schemasync::apply
