/*
 * Indexes that no constraint owns, by oid. An index that is not valid yet is not there: CREATE INDEX
 * CONCURRENTLY is followed when it has succeeded.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

bool
same_index(const state::Index &a, const state::Index &b)
{
	return a.unique == b.unique && method_and_rest(a) == method_and_rest(b);
}

} // namespace

std::string_view
method_and_rest(const state::Index &index)
{
	return sql::from_word(index.definition, "USING");
}

std::string
create_index_sql(const state::Index &index, std::string_view schema, std::string_view table,
                 bool concurrently)
{
	return std::string(index.unique ? "CREATE UNIQUE INDEX " : "CREATE INDEX ") +
	       (concurrently ? "CONCURRENTLY " : "") + sql::ident(index.name) + " ON " +
	       sql::qualified(schema, table) + " " + std::string(method_and_rest(index));
}

void
RelationMerge::match_indexes()
{
	auto ours_for = [&](const state::Index *base, const state::Index *theirs) -> const state::Index * {
		if (ours_ == nullptr)
			return nullptr;
		for (const state::Index *named : {base, theirs})
			if (named != nullptr)
				for (const state::Index &ours : ours_->indexes)
					if (ours.name == named->name)
						return &ours;
		/* made by hand under another name, not the partner of another one */
		for (const state::Index &ours : ours_->indexes)
			if (theirs != nullptr && ours.constraint == 0 && same_index(ours, *theirs) &&
			    std::none_of(theirs_->indexes.begin(), theirs_->indexes.end(),
			                 [&](const state::Index &other) { return other.name == ours.name; }))
				return &ours;
		return nullptr;
	};
	std::vector<const state::Index *> left;
	if (base_ != nullptr)
		for (const state::Index &base : base_->indexes)
			if (base.valid)
				left.push_back(&base);
	auto take = [&](auto matches) -> const state::Index * {
		auto found =
		    std::find_if(left.begin(), left.end(), [&](const state::Index *base) { return matches(*base); });
		if (found == left.end())
			return nullptr;
		const state::Index *result = *found;
		left.erase(found);
		return result;
	};
	for (const state::Index &theirs : theirs_->indexes)
		if (theirs.valid)
			indexes_.push_back(
			    {take([&](const state::Index &base) { return base.oid == theirs.oid; }), &theirs, nullptr});
	for (Triple<state::Index> &triple : indexes_) {
		const state::Index &theirs = *triple.theirs;
		/* REINDEX CONCURRENTLY and ALTER COLUMN TYPE make it anew */
		if (triple.base == nullptr)
			triple.base = take([&](const state::Index &base) {
				return base.name == theirs.name && base.unique == theirs.unique &&
				       (base.constraint == 0) == (theirs.constraint == 0) &&
				       renamed(method_and_rest(base)) == method_and_rest(theirs);
			});
		triple.ours = ours_for(triple.base, &theirs);
	}
	for (const state::Index *base : left)
		indexes_.push_back({base, nullptr, ours_for(base, nullptr)});
}

void
RelationMerge::drop_indexes()
{
	for (const Triple<state::Index> &triple : indexes_) {
		if (triple.theirs != nullptr || triple.base->constraint != 0)
			continue;
		const state::Index &base = *triple.base;
		Operation &operation = add(Op::DropIndex, sql::shown(base.schema, base.name),
		                           "index " + sql::shown(base.name) + " was dropped");
		bool with_column = std::any_of(base.columns.begin(), base.columns.end(), [&](AttrNumber attnum) {
			return attnum > 0 && find_column(*theirs_, attnum) == nullptr && local_of(attnum) != nullptr;
		});
		if (triple.ours == nullptr)
			satisfy(operation, "The subscriber has no such index.");
		else if (triple.ours->constraint != 0 || triple.ours->parent != 0)
			ignore(operation,
			       "The subscriber's index belongs to a constraint or to the parent table's index.");
		else if (with_column && policy_.drop_column == Choice::Forward && !theirs_->published_columns)
			satisfy(operation, "It goes with its column.");
		else if (policy_.indexes == Choice::Ignore && !base.unique)
			ignore(operation, "The subscription has indexes = ignore.");
		else
			operation.sql = {"DROP INDEX " + sql::qualified(schema_, triple.ours->name)};
	}
}

void
RelationMerge::rename_indexes()
{
	for (const Triple<state::Index> &triple : indexes_) {
		if (triple.base == nullptr || triple.theirs == nullptr || triple.base->name == triple.theirs->name ||
		    triple.base->constraint != 0 || triple.theirs->constraint != 0)
			continue;
		Operation &operation = add(Op::RenameIndex, sql::shown(triple.theirs->schema, triple.theirs->name),
		                           "index " + sql::shown(triple.base->name) + " was renamed to " +
		                               sql::shown(triple.theirs->name));
		if (triple.ours == nullptr)
			ignore(operation, "The subscriber has no such index.");
		else if (triple.ours->name != triple.base->name)
			satisfy(operation, "The subscriber's index is named " + sql::shown(triple.ours->name) + ".");
		else if (is_index_name_taken(triple.theirs->name)) {
			refuse_taken(operation, schema_, triple.theirs->name, facts_);
			teach(operation, shown_table());
		} else
			operation.sql = {"ALTER INDEX " + sql::qualified(schema_, triple.base->name) + " RENAME TO " +
			                 sql::ident(triple.theirs->name)};
	}
}

bool
RelationMerge::is_index_name_taken(const std::string &name) const
{
	/* the table itself had it */
	bool moved = ours_->name.schema != schema_;
	if (!facts_.relation_exists(schema_, name) || (!moved && ours_->name.name == name && name_ != name))
		return false;
	return moved || std::none_of(indexes_.begin(), indexes_.end(), [&](const Triple<state::Index> &other) {
		       return other.ours != nullptr && other.ours->name == name &&
		              (other.theirs == nullptr || (other.base != nullptr && other.base->name == name && other.theirs->name != name));
	       });
}

void
RelationMerge::add_indexes()
{
	for (const Triple<state::Index> &triple : indexes_) {
		if (triple.theirs == nullptr || triple.theirs->constraint != 0)
			continue;
		const state::Index &theirs = *triple.theirs;
		std::string identity = sql::shown(theirs.schema, theirs.name);
		if (triple.base != nullptr) {
			if (renamed(method_and_rest(*triple.base)) != method_and_rest(theirs) &&
			    triple.base->oid == theirs.oid && triple.base->columns == theirs.columns &&
			    command_.captured && command_.tag == "ALTER INDEX")
				ignore(add(Op::AlterIndex, identity, "index " + sql::shown(theirs.name) + " was altered"),
				       "Parameters of an index have no effect on rows.");
			continue;
		}
		Operation &operation = add(Op::CreateIndex, identity,
		                           "index " + sql::shown(theirs.name) + " was created: " + theirs.definition);
		operation.index = theirs.oid;
		bool identity_needs_it =
		    theirs_->replica_identity == 'i' && theirs_->replica_identity_index == theirs.oid;
		bool dropped_before =
		    triple.ours != nullptr && std::any_of(indexes_.begin(), indexes_.end(), [&](const auto &other) {
			    return other.theirs == nullptr && other.ours == triple.ours;
		    });
		std::string_view rest = method_and_rest(theirs);
		/* that of a partitioned table is not valid as long as a partition has none */
		bool usable = triple.ours != nullptr && (triple.ours->valid || theirs_->relkind == 'p');
		if (triple.ours != nullptr && usable && same_index(*triple.ours, theirs)) {
			satisfy(operation, "The subscriber has this index.");
		} else if (policy_.indexes == Choice::Ignore && !identity_needs_it) {
			ignore(operation, "The subscription has indexes = ignore.");
		} else if (triple.ours != nullptr && !dropped_before) {
			std::string own = sql::qualified(triple.ours->schema, triple.ours->name);
			refuse(operation, Reason::LocalNameTaken,
			       (usable ? "The subscriber has an index of that name: "
			               : "The subscriber has an index of that name that is not valid, whose building failed or still goes on: ") +
			           triple.ours->definition + ".");
			operation.suggested_sql =
			    usable ? "ALTER INDEX " + own + " RENAME TO " +
			                 sql::ident(name_beside(triple.ours->name, "_local",
			                                        [&](const std::string &other) {
				                                        return facts_.relation_exists(triple.ours->schema, other);
			                                        }))
			           : "DROP INDEX " + own;
			teach(operation, shown_table());
		} else if (triple.ours == nullptr && is_index_name_taken(theirs.name)) {
			refuse_taken(operation, schema_, theirs.name, facts_);
			teach(operation, shown_table());
		} else if (rest.empty() || !sql::is_one_clause(rest)) {
			refuse(operation, Reason::UnsupportedObject, "Its definition is not known: " + theirs.definition);
			teach(operation, shown_table());
		} else if (!prove(operation, in_parentheses(theirs.expr), true)) {
			teach(operation, shown_table());
		} else {
			/* CONCURRENTLY is not to be had for partitioned tables, and on an empty one it gains nothing */
			operation.background = policy_.indexes == Choice::Background && theirs_->relkind != 'p' &&
			                       !identity_needs_it && input_.has_rows;
			operation.sql = {create_index_sql(theirs, schema_, name_, operation.background)};
		}
	}
}

} // namespace schemasync::merge
