/*
 * Constraints, by oid. ALTER COLUMN TYPE makes the constraints and indexes of the column anew, with other
 * oids: what then has the same name and kind is the same object.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

std::string_view
kind_name(const state::Constraint &constraint)
{
	switch (constraint.type) {
	case 'p':
		return "primary key";
	case 'u':
		return "unique constraint";
	case 'c':
		return "check constraint";
	case 'f':
		return "foreign key";
	case 'x':
		return "exclusion constraint";
	case 'n':
		return "not-null constraint";
	default:
		return "constraint trigger";
	}
}

Op
add_op(const state::Constraint &constraint)
{
	switch (constraint.type) {
	case 'p':
		return Op::AddPrimaryKey;
	case 'u':
		return Op::AddUnique;
	case 'f':
		return Op::AddForeignKey;
	case 'x':
		return Op::AddExclusion;
	case 'n':
		return Op::AddNotNull;
	default:
		return Op::AddCheck;
	}
}

/* The definition without what is a state of the constraint rather than its meaning. */
std::string
meaning(std::string_view definition)
{
	for (std::string_view state : {" NOT VALID", " NOT ENFORCED"})
		if (definition.ends_with(state))
			definition.remove_suffix(state.size());
	return sql::flatten(definition);
}

bool
is_enforced(const state::Constraint &constraint)
{
	return !sql::ends_with_words(constraint.definition, "NOT ENFORCED");
}

/* Not-null constraints are told by the column's own flag, constraint triggers are triggers. */
bool
is_followed(const state::Constraint &constraint)
{
	return constraint.type != 'n' && constraint.type != 't';
}

bool
has_words(std::string_view definition, std::string_view first, std::string_view second)
{
	auto all = sql::tokens(definition);
	for (std::size_t i = 0; all && i + 1 < all->size(); i++)
		if ((*all)[i].text == first && (second.empty() || (*all)[i + 1].text == second))
			return true;
	return false;
}

} // namespace

const state::Constraint *
find_not_null(const state::Relation &relation, AttrNumber attnum)
{
	for (const state::Constraint &constraint : relation.constraints)
		if (constraint.type == 'n' && constraint.columns == std::vector<AttrNumber>{attnum})
			return &constraint;
	return nullptr;
}

std::string
missing_feature(const state::Constraint &constraint, int server_version)
{
	if (server_version == 0 || server_version >= 180000 || !is_followed(constraint))
		return "";
	if (!is_enforced(constraint))
		return "constraints that are NOT ENFORCED";
	if ((constraint.type == 'p' || constraint.type == 'u') &&
	    has_words(constraint.definition, "WITHOUT", "OVERLAPS"))
		return "keys WITHOUT OVERLAPS";
	return constraint.type == 'f' && has_words(constraint.definition, "PERIOD", "") ? "foreign keys with PERIOD" : "";
}

std::string
missing_feature(const state::Relation &relation, const Policy &policy, int server_version)
{
	for (const state::Column &column : relation.columns)
		if (column.generated == 'v' && server_version != 0 && server_version < 180000)
			return "virtual generated columns";
	for (const state::Constraint &constraint : relation.constraints)
		if (constraint.type == 'p' || policy.constraints != Choice::Ignore)
			if (std::string feature = missing_feature(constraint, server_version); !feature.empty())
				return feature;
	return "";
}

void
RelationMerge::match_constraints()
{
	auto ours_for = [&](const state::Constraint *base,
	                    const state::Constraint *theirs) -> const state::Constraint * {
		if (ours_ == nullptr)
			return nullptr;
		for (const state::Constraint *named : {base, theirs})
			if (named != nullptr)
				for (const state::Constraint &ours : ours_->constraints)
					if (ours.type == named->type && ours.name == named->name)
						return &ours;
		/* made by hand under another name */
		for (const state::Constraint &ours : ours_->constraints)
			if (theirs != nullptr && ours.type == theirs->type &&
			    meaning(ours.definition) == meaning(theirs->definition) &&
			    std::none_of(theirs_->constraints.begin(), theirs_->constraints.end(),
			                 [&](const state::Constraint &other) { return other.name == ours.name; }))
				return &ours;
		return nullptr;
	};
	std::vector<const state::Constraint *> left;
	if (base_ != nullptr)
		for (const state::Constraint &base : base_->constraints)
			if (is_followed(base))
				left.push_back(&base);
	auto take = [&](auto matches) -> const state::Constraint * {
		auto found = std::find_if(left.begin(), left.end(),
		                          [&](const state::Constraint *base) { return matches(*base); });
		if (found == left.end())
			return nullptr;
		const state::Constraint *result = *found;
		left.erase(found);
		return result;
	};
	for (const state::Constraint &theirs : theirs_->constraints)
		if (is_followed(theirs))
			constraints_.push_back(
			    {take([&](const state::Constraint &base) { return base.oid == theirs.oid; }), &theirs,
			     nullptr});
	for (Triple<state::Constraint> &triple : constraints_) {
		const state::Constraint &theirs = *triple.theirs;
		if (triple.base == nullptr)
			triple.base = take([&](const state::Constraint &base) {
				return base.name == theirs.name && base.type == theirs.type &&
				       renamed(base.definition) == theirs.definition;
			});
		triple.ours = ours_for(triple.base, &theirs);
	}
	for (const state::Constraint *base : left)
		constraints_.push_back({base, nullptr, ours_for(base, nullptr)});
}

/* Foreign keys first: they hang on the keys of the same table too. */
void
RelationMerge::drop_constraints()
{
	std::vector<const Triple<state::Constraint> *> gone;
	for (const Triple<state::Constraint> &triple : constraints_)
		if (triple.theirs == nullptr)
			gone.push_back(&triple);
	std::stable_partition(gone.begin(), gone.end(),
	                      [](const Triple<state::Constraint> *triple) { return triple->base->type == 'f'; });
	for (const Triple<state::Constraint> *triple : gone) {
		const state::Constraint &base = *triple->base;
		Operation &operation =
		    add(Op::DropConstraint, sql::shown(base.name) + " on " + shown_table(),
		        std::string(kind_name(base)) + " " + sql::shown(base.name) + " was dropped");
		bool with_column = std::any_of(base.columns.begin(), base.columns.end(), [&](AttrNumber attnum) {
			return attnum > 0 && find_column(*theirs_, attnum) == nullptr && local_of(attnum) != nullptr;
		});
		if (triple->ours == nullptr)
			satisfy(operation, "The subscriber has no such constraint.");
		else if (with_column && policy_.drop_column == Choice::Forward && !theirs_->published_columns)
			satisfy(operation, "It goes with its column.");
		else if (triple->ours->parent != 0 || (!triple->ours->local && triple->ours->inhcount > 0))
			ignore(operation, "The subscriber's constraint belongs to the parent table.");
		else
			operation.sql = {alter_alone("DROP CONSTRAINT " + sql::ident(triple->ours->name))};
	}
}

void
RelationMerge::rename_constraints()
{
	for (const Triple<state::Constraint> &triple : constraints_) {
		if (triple.base == nullptr || triple.theirs == nullptr || triple.base->name == triple.theirs->name)
			continue;
		Operation &operation =
		    add(Op::RenameConstraint, sql::shown(triple.theirs->name) + " on " + shown_table(),
		        "constraint " + sql::shown(triple.base->name) + " was renamed to " +
		            sql::shown(triple.theirs->name));
		if (triple.ours == nullptr)
			ignore(operation, "The subscriber has no such constraint.");
		else if (triple.ours->name != triple.base->name)
			satisfy(operation, "The subscriber's constraint is named " + sql::shown(triple.ours->name) + ".");
		/* a check has one name in all the tables; the keys of a partition have names of their own */
		else if (triple.ours->type == 'c' && triple.ours->inhcount > 0)
			ignore(operation, "The subscriber's constraint belongs to the parent table.");
		else if (refuse_taken_constraint(operation, *triple.theirs))
			teach(operation, shown_table());
		else
			operation.sql = {alter("RENAME CONSTRAINT " + sql::ident(triple.base->name) + " TO " +
			                       sql::ident(triple.theirs->name))};
	}
}

bool
RelationMerge::refuse_taken_constraint(Operation &operation, const state::Constraint &theirs)
{
	auto has = [&](const std::string &name) {
		return std::any_of(ours_->constraints.begin(), ours_->constraints.end(),
		                   [&](const state::Constraint &ours) { return ours.name == name; });
	};
	for (const state::Constraint &ours : ours_->constraints) {
		/* a not-null constraint comes and goes with what the column is */
		bool leaves = ours.type == 'n' || std::any_of(constraints_.begin(), constraints_.end(), [&](const auto &other) {
			              return other.ours == &ours &&
			                     (other.theirs == nullptr ||
			                      (other.base != nullptr && other.base->name == ours.name && other.theirs->name != ours.name));
		              });
		if (ours.name != theirs.name || leaves)
			continue;
		refuse(operation, Reason::LocalNameTaken, "The subscriber has another constraint of that name: " + ours.definition + ".");
		operation.suggested_sql.clear();
		if (ours.parent == 0 && ours.inhcount == 0)
			operation.suggested_sql =
			    alter("RENAME CONSTRAINT " + sql::ident(ours.name) + " TO " +
			          sql::ident(name_beside(ours.name, "_local", [&](const std::string &other) {
				          return has(other) || facts_.relation_exists(schema_, other);
			          })));
		return true;
	}
	/* a key has an index of its name */
	bool key = theirs.type == 'p' || theirs.type == 'u' || theirs.type == 'x';
	if (!key || !is_index_name_taken(theirs.name))
		return false;
	refuse_taken(operation, schema_, theirs.name, facts_);
	return true;
}

/* Not-null constraints come and go with the column's own flag; their names and validity are theirs alone. A
 * column has one at most, and it may be dropped and made anew in one command. */
void
RelationMerge::not_null_constraints()
{
	for (const state::Constraint &theirs : theirs_->constraints) {
		if (theirs.type != 'n' || theirs.columns.size() != 1)
			continue;
		const LocalColumn *local = local_of(theirs.columns[0]);
		if (local != nullptr && local->column != nullptr)
			not_null_constraint(theirs, theirs.columns[0], *local);
	}
}

void
RelationMerge::not_null_constraint(const state::Constraint &theirs, AttrNumber attnum, const LocalColumn &local)
{
	const state::Constraint *base = find_not_null(*base_, attnum);
	if (base == nullptr)
		return;
	const state::Constraint *ours = find_not_null(*ours_, local.column->attnum);
	std::string identity = sql::shown(theirs.name) + " on " + shown_table();
	std::string named = "not-null constraint " + sql::shown(theirs.name);
	bool parents = ours != nullptr && !ours->local && ours->inhcount > 0;
	auto change = [&](Op op, const std::string &text, bool already, const std::string &action) {
		Operation &operation = add(op, identity, text);
		if (ours == nullptr)
			ignore(operation, local.column->not_null ? "The subscriber's server gives NOT NULL no name."
			                                         : "The subscriber has no such constraint.");
		else if (already)
			satisfy(operation, "The subscriber's constraint is so.");
		else if (parents)
			ignore(operation, "The subscriber's constraint belongs to the parent table.");
		else
			operation.sql = {alter(action)};
	};
	if (base->name != theirs.name)
		change(Op::RenameConstraint,
		       "constraint " + sql::shown(base->name) + " was renamed to " + sql::shown(theirs.name),
		       ours != nullptr && ours->name == theirs.name,
		       ours == nullptr ? "" : "RENAME CONSTRAINT " + sql::ident(ours->name) + " TO " + sql::ident(theirs.name));
	std::string name = ours == nullptr || parents ? theirs.name : base->name != theirs.name ? theirs.name : ours->name;
	if (!base->validated && theirs.validated) {
		/* a server that has no such constraint waited for this */
		if (ours == nullptr && !local.column->not_null)
			add(Op::ValidateConstraint, identity, named + " was validated").sql = {
			    alter_column(local.name, "SET NOT NULL")};
		else
			change(Op::ValidateConstraint, named + " was validated", ours == nullptr || ours->validated,
			       "VALIDATE CONSTRAINT " + sql::ident(name));
	}
	if (base->no_inherit != theirs.no_inherit)
		change(Op::AlterConstraint, named + " was altered",
		       ours != nullptr && ours->no_inherit == theirs.no_inherit,
		       "ALTER CONSTRAINT " + sql::ident(name) + (theirs.no_inherit ? " NO INHERIT" : " INHERIT"));
}

/* Keys first, what refers to other tables last. */
void
RelationMerge::add_constraints()
{
	std::vector<const Triple<state::Constraint> *> order;
	for (const Triple<state::Constraint> &triple : constraints_)
		if (triple.theirs != nullptr)
			order.push_back(&triple);
	auto rank = [](const Triple<state::Constraint> *triple) {
		char type = triple->theirs->type;
		return type == 'p' ? 0 : type == 'f' ? 2 : 1;
	};
	std::stable_sort(order.begin(), order.end(),
	                 [&](const auto *a, const auto *b) { return rank(a) < rank(b); });
	for (const Triple<state::Constraint> *triple : order) {
		if (triple->base == nullptr)
			add_constraint(*triple);
		else
			alter_constraint(*triple);
	}
}

void
RelationMerge::add_constraint(const Triple<state::Constraint> &triple)
{
	const state::Constraint &theirs = *triple.theirs;
	std::string identity = sql::shown(theirs.name) + " on " + shown_table();
	Operation &operation = add(add_op(theirs), identity,
	                           std::string(kind_name(theirs)) + " " + sql::shown(theirs.name) +
	                               " was added: " + theirs.definition);
	bool same = triple.ours != nullptr && meaning(triple.ours->definition) == meaning(theirs.definition);
	if (same)
		return satisfy(operation, "The subscriber has this constraint.");
	if (policy_.constraints == Choice::Ignore && theirs.type != 'p')
		return ignore(operation, "The subscription has constraints = ignore.");
	/* the parent's may wait for carried rows; made here by itself it would be one of the table's own */
	if (theirs.type == 'c' && !theirs.local && theirs.inhcount > 0 && triple.ours == nullptr && has_followed_parent())
		return ignore(operation, "It comes with the parent table's constraint.");
	std::string statement = alter("ADD CONSTRAINT " + sql::ident(theirs.name) + " " + theirs.definition);
	/* dropped and made again under its name, and the drop is in this plan */
	bool name_freed = triple.ours != nullptr &&
	                  std::any_of(constraints_.begin(), constraints_.end(), [&](const auto &other) {
		                  return other.theirs == nullptr && other.ours == triple.ours;
	                  });
	/* there can be no second primary key; whatever else it is can stay under another name */
	if (triple.ours != nullptr && !name_freed && theirs.type == 'p') {
		refuse(operation, Reason::LocalNameTaken, "The subscriber has another primary key: " + triple.ours->definition + ".");
		operation.suggested_sql.clear();
		if (triple.ours->parent == 0 && triple.ours->inhcount == 0)
			operation.suggested_sql = alter("DROP CONSTRAINT " + sql::ident(triple.ours->name));
		return teach(operation, shown_table());
	}
	if (triple.ours != nullptr && !name_freed && refuse_taken_constraint(operation, theirs))
		return teach(operation, shown_table());
	if (std::string feature = missing_feature(theirs, facts_.server_version()); !feature.empty()) {
		refuse(operation, Reason::UnsupportedObject, "The subscriber's server has no " + feature + ".");
		return teach(operation, shown_table());
	}
	if (!sql::is_one_clause(theirs.definition)) {
		refuse(operation, Reason::UnsupportedObject, "Its definition is not one clause.");
		return teach(operation, shown_table());
	}
	if (!prove(operation, in_parentheses(theirs.expr), true))
		return teach(operation, shown_table());
	if (theirs.references && !facts_.table_exists(theirs.references->schema, theirs.references->name)) {
		refuse(operation, Reason::MissingObject,
		       "The table " + sql::shown(theirs.references->schema, theirs.references->name) +
		           " that it refers to is missing on the subscriber.");
		return teach(operation, shown_table());
	}
	/* a constraint over an index that was there before takes that index */
	bool takes_index = false;
	for (const Triple<state::Index> &index : indexes_)
		if (theirs.index != 0 && index.base != nullptr && index.theirs != nullptr &&
		    index.theirs->oid == theirs.index && index.base->constraint == 0 && index.ours != nullptr &&
		    (theirs.type == 'p' || theirs.type == 'u')) {
			takes_index = true;
			statement = alter("ADD CONSTRAINT " + sql::ident(theirs.name) +
			                  (theirs.type == 'p' ? " PRIMARY KEY" : " UNIQUE") + " USING INDEX " +
			                  sql::ident(index.ours->name) + (theirs.deferrable ? " DEFERRABLE" : "") +
			                  (theirs.deferred ? " INITIALLY DEFERRED" : ""));
		}
	if (!name_freed && !takes_index && refuse_taken_constraint(operation, theirs))
		return teach(operation, shown_table());
	operation.sql = {statement};
}

/* The same constraint with other properties; its text also differs when a column in it was renamed, which is
 * no change. */
void
RelationMerge::alter_constraint(const Triple<state::Constraint> &triple)
{
	const state::Constraint &base = *triple.base;
	const state::Constraint &theirs = *triple.theirs;
	const state::Constraint *ours = triple.ours;
	std::string identity = sql::shown(theirs.name) + " on " + shown_table();
	std::string named = std::string(kind_name(theirs)) + " " + sql::shown(theirs.name);
	std::string name = ours == nullptr ? theirs.name : ours->name == base.name ? theirs.name : ours->name;
	bool enforcement = is_enforced(base) != is_enforced(theirs);
	/* from now on it means something; a subscriber that could not have it as it was can have it now */
	if (enforcement && ours == nullptr && is_enforced(theirs))
		return add_constraint(triple);
	/* to enforce it validates it */
	if (!base.validated && theirs.validated && !enforcement) {
		Operation &operation = add(Op::ValidateConstraint, identity, named + " was validated");
		if (ours == nullptr)
			ignore(operation, "The subscriber has no such constraint.");
		else if (ours->validated)
			satisfy(operation, "The subscriber's constraint is validated.");
		else if (policy_.constraints == Choice::Ignore)
			ignore(operation, "The subscription has constraints = ignore.");
		else
			operation.sql = {alter("VALIDATE CONSTRAINT " + sql::ident(name))};
	}
	bool deferral = base.deferrable != theirs.deferrable || base.deferred != theirs.deferred;
	bool inheritance = base.no_inherit != theirs.no_inherit;
	if (!deferral && !enforcement && !inheritance)
		return;
	Operation &operation = add(Op::AlterConstraint, identity, named + " was altered: " + theirs.definition);
	if (ours == nullptr)
		return ignore(operation, "The subscriber has no such constraint.");
	bool already = ours->deferrable == theirs.deferrable && ours->deferred == theirs.deferred &&
	               is_enforced(*ours) == is_enforced(theirs);
	std::string feature = enforcement ? missing_feature(theirs, facts_.server_version()) : "";
	if (!already && !feature.empty()) {
		refuse(operation, Reason::UnsupportedObject, "The subscriber's server has no " + feature + ".");
		return teach(operation, shown_table());
	}
	if (inheritance) {
		refuse(operation, Reason::UnsupportedObject,
		       "A constraint does not change its inheritance in place.");
		return teach(operation, shown_table());
	}
	std::string action = "ALTER CONSTRAINT " + sql::ident(name);
	if (deferral)
		action += theirs.deferrable ? std::string(" DEFERRABLE") +
		                                  (theirs.deferred ? " INITIALLY DEFERRED" : " INITIALLY IMMEDIATE")
		                            : " NOT DEFERRABLE";
	if (enforcement)
		action += is_enforced(theirs) ? " ENFORCED" : " NOT ENFORCED";
	if (already)
		return satisfy(operation, "The subscriber's constraint is so.");
	operation.sql = {alter(action)};
}

} // namespace schemasync::merge
