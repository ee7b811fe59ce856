/*
 * One relation of a schema message: its three sides, the merge, what follows from it, and the new base.
 */
#include "apply_ext/apply/schema_work.hpp"

#include "core/sql.hpp"

#include <optional>
#include <stdexcept>
#include <string>

#include "apply_ext/apply/index_queue.hpp"
#include "apply_ext/apply/local_facts.hpp"
#include "apply_ext/apply/local_state.hpp"
#include "apply_ext/apply/schema_carry.hpp"
#include "apply_ext/apply/schema_sides.hpp"
#include "apply_ext/catalog/options.hpp"
#include "apply_ext/catalog/relation.hpp"

#include "pg/guard.hpp"

namespace schemasync::apply {

namespace {

const state::Column *
column_of(const state::Relation &relation, AttrNumber attnum)
{
	for (const state::Column &column : relation.columns)
		if (column.attnum == attnum)
			return &column;
	return nullptr;
}

const state::Column *
column_of(const state::Relation &relation, const std::string &name)
{
	for (const state::Column &column : relation.columns)
		if (column.name == name)
			return &column;
	return nullptr;
}

bool
is_taken(const merge::ColumnMap &map, AttrNumber local)
{
	for (const auto &pair : map.pairs)
		if (pair.second == local)
			return true;
	return false;
}

/*
 * The stored pairs without those whose local column is gone. A publisher column that lost its partner that
 * way (a DBA dropped and added a column by hand) finds one by its new name, else by its old one.
 */
merge::ColumnMap
valid_columns(const catalog::RelationRow &row, const state::Relation &base, const state::Relation *theirs,
              const state::Relation &ours)
{
	merge::ColumnMap map;
	std::vector<AttrNumber> lost;

	for (int i = 0; i < row.npairs; i++) {
		if (column_of(ours, row.pairs[i].local) != nullptr)
			map.pairs.emplace_back(row.pairs[i].publisher, row.pairs[i].local);
		else
			lost.push_back(row.pairs[i].publisher);
	}
	for (AttrNumber attnum : lost) {
		const state::Column *named[] = {theirs != nullptr ? column_of(*theirs, attnum) : nullptr,
		                                column_of(base, attnum)};
		for (const state::Column *column : named) {
			const state::Column *own = column == nullptr ? nullptr : column_of(ours, column->name);
			if (own != nullptr && !is_taken(map, own->attnum)) {
				map.pairs.emplace_back(attnum, own->attnum);
				break;
			}
		}
	}
	return map;
}

Oid
first_relation(std::initializer_list<const state::Relation *> named)
{
	for (const state::Relation *relation : named) {
		Oid relid = relation == nullptr ? InvalidOid
		                                : find_local_relation(relation->name.schema, relation->name.name);
		if (OidIsValid(relid))
			return relid;
	}
	return InvalidOid;
}

/*
 * Whether the command, or without one the transaction, made the relation, so that all its rows are in the stream. What another
 * command brought into a publication may have rows from before, even if it was made in the same transaction.
 */
bool
is_new(const SchemaWork &work, const state::Relation &theirs)
{
	const std::string &tag = work.command.tag;

	if (!work.command.captured)
		return theirs.created_here;
	if (tag.starts_with("ALTER ") || tag.ends_with(" PUBLICATION"))
		return false;
	if (theirs.created_here)
		return true;
	for (const merge::TouchedObject &object : work.command.objects)
		if (object.oid == theirs.name.oid && object.class_name == "pg_class" && object.subid == 0 &&
		    (tag.starts_with("CREATE TABLE") || tag == "SELECT INTO" || tag == "CREATE SCHEMA"))
			return true;
	return false;
}

/* The local columns that the merge names, and by name what it left open, as pairs of attnums. */
std::vector<catalog::AttributePair>
pairs_after(const state::Relation &theirs, const state::Relation &ours, const Sides &sides,
            const std::vector<std::pair<AttrNumber, std::string>> *local_columns)
{
	std::vector<catalog::AttributePair> pairs;

	for (const state::Column &column : theirs.columns) {
		const state::Column *own = nullptr;
		if (local_columns != nullptr) {
			for (const auto &[attnum, name] : *local_columns)
				if (attnum == column.attnum)
					own = column_of(ours, name);
		} else {
			for (const auto &[publisher, local] : sides.columns.pairs)
				if (publisher == column.attnum)
					own = column_of(ours, local);
			if (own == nullptr)
				own = column_of(ours, column.name);
		}
		if (own != nullptr)
			pairs.push_back({column.attnum, own->attnum});
	}
	return pairs;
}

bool
has_rewrite(const SchemaWork &work, Oid publisher_oid)
{
	for (const merge::RewriteHint &rewrite : work.command.rewrites)
		if (rewrite.relation == publisher_oid)
			return true;
	for (const merge::UsingHint &hint : work.command.using_hints)
		if (hint.relation == publisher_oid)
			return true;
	return false;
}

bool
travels_as_root(const state::Relation &theirs)
{
	return theirs.published_via_root && (!theirs.partition_bound.empty() || theirs.partition_hidden);
}

/* A partition that was not taken up, since it is not here or is another one: its rows travel as its root's. */
bool
is_kept_out(const Sides &sides, const state::Relation &theirs)
{
	return sides.row != nullptr && !OidIsValid(sides.row->relid) && !is_removed(*sides.row) && travels_as_root(theirs);
}

} // namespace

void
accept_relation(SchemaWork &work, const state::Document<state::Relation> &theirs, const Sides &sides,
                const std::vector<std::pair<AttrNumber, std::string>> *local_columns)
{
	Oid relid = sides.ours ? sides.ours->name.oid : InvalidOid;
	if (is_kept_out(sides, theirs.value))
		relid = InvalidOid;
	else if (!OidIsValid(relid) || !local_relation_exists(relid))
		relid = first_relation({&theirs.value});
	std::vector<catalog::AttributePair> pairs;
	if (OidIsValid(relid))
		if (std::optional<state::Relation> now = read_local_relation(relid))
			pairs = pairs_after(theirs.value, *now, sides, local_columns);

	const std::string base = base_of(work, theirs.text);
	/* one that was not made here (ignored, or skipped) cannot get its rows later but by a copy */
	const char *state = OidIsValid(relid) || travels_as_root(theirs.value) ? "ready" : "needs_refresh";
	const catalog::RelationRow row{.publisher_oid = theirs.value.name.oid,
	                               .publisher_schema = theirs.value.name.schema.c_str(),
	                               .publisher_name = theirs.value.name.name.c_str(),
	                               .relid = relid,
	                               .base = base.c_str(),
	                               .npairs = static_cast<int>(pairs.size()),
	                               .pairs = pairs.data(),
	                               .state = state,
	                               .sync_lsn = InvalidXLogRecPtr,
	                               .options = nullptr,
	                               .created = false};
	adapt_builds(work, theirs.value, sides);
	pg::call([&] { catalog::save_relation(work.subscription.subid, &row); });
}

Progress
merge_relation_once(SchemaWork &work, const Sides &sides, const state::Relation *theirs,
                    std::vector<std::pair<AttrNumber, std::string>> &local_columns)
{
	const CatalogFacts facts(work.subscription.subid);
	merge::RelationInput input;

	input.base = sides.base ? &*sides.base : nullptr;
	input.theirs = theirs;
	input.ours = sides.ours ? &*sides.ours : nullptr;
	input.mapped = sides.mapped;
	input.columns = sides.columns;
	input.has_rows = sides.ours && !work.boundary.emptied && may_have_rows(sides.ours->name.oid);
	input.resumed = work.resumed();
	const Policy policy = policy_of(work.subscription, sides.row);
	input.rows_follow = theirs != nullptr && policy.rewrites == Choice::Carry && have_carried_rows(work, *theirs);
	input.descendants = work.descendants_of(theirs);
	merge::Result result =
	    merge::merge_relation(input, work.command, policy, &facts);
	note_changes(work, result);
	if (settle_builds(work, result, sides, theirs))
		return Progress::Again;
	const Place place = place_of(work, sides, theirs);
	Progress progress = Progress::Done;
	if (result.needs_rows)
		progress = prepare_carry(work, result, sides, *theirs);
	if (progress == Progress::Done)
		progress = do_operations(work, result, place);
	if (progress == Progress::Done)
		note_identity(work, place.publisher_oid, theirs, result.identity_lost);
	local_columns = std::move(result.local_columns);
	return progress;
}

Sides
load_sides(const SchemaWork &work, Oid publisher_oid, const state::Relation *theirs)
{
	Sides sides;

	sides.row = pg::call([&] { return catalog::load_relation(work.subscription.subid, publisher_oid); });
	if (sides.row != nullptr) {
		auto parsed = state::parse_relation(sides.row->base);
		if (auto *error = std::get_if<state::ParseError>(&parsed))
			throw std::runtime_error("stored state of a relation cannot be read: " + error->where + ": " +
			                         error->what);
		sides.base = std::get<state::Relation>(std::move(parsed));
		if (OidIsValid(sides.row->relid) && local_relation_exists(sides.row->relid)) {
			sides.mapped = true;
			sides.ours = read_local_relation(sides.row->relid);
		}
	}
	if (!sides.ours) {
		sides.mapped = false;
		Oid relid = first_relation({theirs, sides.base ? &*sides.base : nullptr});
		if (OidIsValid(relid))
			sides.ours = read_local_relation(relid);
	}
	if (sides.ours && sides.base && sides.mapped)
		sides.columns = valid_columns(*sides.row, *sides.base, theirs, *sides.ours);
	else if (sides.ours && (sides.base || theirs != nullptr))
		sides.columns = merge::map_columns_by_name(sides.base ? *sides.base : *theirs, *sides.ours);
	return sides;
}

Policy
policy_of(const catalog::Subscription &subscription, const catalog::RelationRow *row)
{
	if (row == nullptr || row->options == nullptr || strcmp(row->options, "{}") == 0)
		return subscription.options.policy;
	return pg::call([&] {
		catalog::Options options = subscription.options;
		catalog::read_options(row->options, &options);
		return options.policy;
	});
}

Place
place_of(const SchemaWork &work, const Sides &sides, const state::Relation *theirs)
{
	Place place;

	place.theirs = theirs;
	place.publisher_oid = theirs != nullptr ? theirs->name.oid
	                      : sides.base      ? sides.base->name.oid
	                                        : InvalidOid;
	if (sides.ours) {
		place.ours = &*sides.ours;
		place.columns = &sides.columns;
		place.relid = sides.ours->name.oid;
		place.run_as = owner_of_relation(place.relid);
	} else if (theirs != nullptr) {
		/* A partition or child is made by its parent's owner, since nobody else may. */
		const CatalogFacts facts(work.subscription.subid);
		for (const state::Name &parent : theirs->parents)
			if (std::optional<state::Name> local = facts.local_relation(parent.oid);
			    local && !OidIsValid(place.run_as))
				place.run_as = owner_of_relation(local->oid);
	}
	if (!OidIsValid(place.run_as))
		place.run_as = creation_role(work, theirs != nullptr ? theirs->owner : std::string());
	return place;
}

bool
is_current(const SchemaWork &work, const state::Relation &theirs)
{
	if (is_passed_over(work, theirs.name.oid))
		return true;
	if (has_rewrite(work, theirs.name.oid) || theirs.fingerprint.empty() || work.republished.count(theirs.name.oid) > 0)
		return false;
	const auto *row =
	    pg::call([&] { return catalog::load_relation(work.subscription.subid, theirs.name.oid); });
	return row != nullptr && !is_removed(*row) && has_fingerprint(row->base, theirs.fingerprint);
}

bool
apply_relation(SchemaWork &work, const state::Document<state::Relation> &theirs)
{
	if (is_current(work, theirs.value))
		return true;
	std::vector<std::pair<AttrNumber, std::string>> local_columns;

	for (;;) {
		Sides sides = load_sides(work, theirs.value.name.oid, &theirs.value);
		if (sides.row != nullptr && is_older(theirs.text, sides.row->base))
			return true;
		if (sides.row == nullptr ? !is_new(work, theirs.value) || has_waiting_parent(work, theirs.value)
		                         : is_removed(*sides.row)) {
			follow_unknown(work, theirs.value, sides.row);
			return true;
		}
		if (republish(work, theirs.value, sides))
			return true;
		if (is_kept_out(sides, theirs.value)) {
			record_ignored_object(work, "table", qualified_name(theirs.value.name.schema, theirs.value.name.name),
			                      "the partition is not here, or is another one; its rows are those of its root");
			accept_relation(work, theirs, sides, nullptr);
			return true;
		}
		Progress progress = work.skipping ? Progress::Skip
		                                  : merge_relation_once(work, sides, &theirs.value, local_columns);
		if (progress == Progress::Later)
			return false;
		if (progress == Progress::Again)
			continue;
		if (progress == Progress::Skip)
			work.skipping = true;
		accept_relation(work, theirs, sides, progress == Progress::Skip ? nullptr : &local_columns);
		work.changed = true;
		return true;
	}
}

bool
apply_dropped_relation(SchemaWork &work, Oid publisher_oid)
{
	std::vector<std::pair<AttrNumber, std::string>> local_columns;

	for (;;) {
		Sides sides = load_sides(work, publisher_oid, nullptr);
		if (sides.row == nullptr || work.boundary.commit_lsn < sides.row->sync_lsn)
			return true;
		/* never made here, or given up before: the subscriber's table is not the publisher's any more */
		if (is_removed(*sides.row) || !OidIsValid(sides.row->relid)) {
			pg::call([&] { catalog::delete_relation(work.subscription.subid, publisher_oid); });
			return true;
		}
		Progress progress =
		    work.skipping ? Progress::Skip : merge_relation_once(work, sides, nullptr, local_columns);
		if (progress == Progress::Later)
			return false;
		if (progress == Progress::Again)
			continue;
		give_up_builds(work, publisher_oid, "Its table was dropped on the publisher before it was built.");
		pg::call([&] { catalog::delete_relation(work.subscription.subid, publisher_oid); });
		work.changed = true;
		return true;
	}
}

} // namespace schemasync::apply
