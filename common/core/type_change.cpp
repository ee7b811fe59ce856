/*
 * Columns that stay but whose type, collation or values a command changed.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

using Effect = Conversion::Effect;

/* What a conversion may depend on; search_path and the like are not, everything is qualified. */
constexpr std::string_view value_settings[] = {
    "TimeZone",    "DateStyle",  "IntervalStyle", "bytea_output", "extra_float_digits",
    "lc_monetary", "lc_numeric", "lc_time",       "xmloption"};

/* One column of the statement that changes them all. */
struct Part {
	const state::Column *theirs;
	const LocalColumn *local;
	std::string using_clause;
	bool relax; /* it is NULL until its values come */
};

/* USING that is nothing but the column, or its cast (which, unlike the implied one, may cut values short). */
bool
is_column(const state::Expression &expression, const state::Column &column)
{
	return expression.sql == sql::shown(column.name) || expression.sql == sql::ident(column.name);
}

bool
is_cast(const state::Expression &expression, const state::Column &column)
{
	for (const std::string &name : {sql::shown(column.name), sql::ident(column.name)})
		if (expression.sql == "(" + name + ")::" + column.type.sql ||
		    expression.sql == name + "::" + column.type.sql)
			return true;
	return false;
}

} // namespace

/*
 * All columns of one command are changed by one statement: the server computes every USING from the row as it
 * was, and two that refer to each other's column would otherwise see each other's result.
 */
void
RelationMerge::change_types()
{
	std::vector<Part> parts;
	std::size_t first = result_.operations.size();
	for (const state::Column &theirs : theirs_->columns) {
		const state::Column *base = find_column(*base_, theirs.attnum);
		const LocalColumn *local = local_of(theirs.attnum);
		if (base == nullptr)
			continue;
		const UsingHint *hint = using_hint(theirs.attnum);
		bool retyped = base->type.oid != theirs.type.oid || base->type.typmod != theirs.type.typmod;
		bool recollated = base->collation != theirs.collation;
		bool recomputed = hint != nullptr && hint->given && !(hint->expr && is_column(*hint->expr, theirs));
		if (!retyped && !recollated && !recomputed)
			continue;
		std::string column = "column " + sql::shown(theirs.name);
		std::string change = retyped ? column + " changed from " + base->type.sql + " to " + theirs.type.sql
		                     : recollated ? column + " has the collation " +
		                                        (theirs.collation.empty() ? "default" : theirs.collation)
		                                  : column + " was computed anew";
		if (hint != nullptr && hint->given && hint->expr)
			change += " using " + hint->expr->sql;
		Operation &operation =
		    on_column(retyped || recollated ? Op::AlterColumnType : Op::RewriteColumn, theirs.name, change);
		if (local == nullptr) {
			ignore(operation, "The subscriber does not keep this column.");
			continue;
		}
		std::string using_clause;
		if (change_type(operation, *base, theirs, *local, using_clause))
			parts.push_back(
			    {&theirs, local, using_clause,
			     operation.verdict == Verdict::Carry && !operation.replace_rows && local->column->not_null});
	}
	if (parts.empty())
		return;

	std::vector<std::string> before, actions, after;
	for (const Part &part : parts) {
		const state::Column &ours = *part.local->column;
		/* the default is converted with the column, which not every default allows */
		bool drop_default =
		    ours.default_expr && ours.generated == 0 &&
		    !(part.theirs->default_expr && ours.default_expr->sql == part.theirs->default_expr->sql);
		if (drop_default) {
			before.push_back(alter_column(part.local->name, "DROP DEFAULT"));
			const state::Column *base = find_column(*base_, part.theirs->attnum);
			/* a default that changed too is set with the other attributes */
			if (part.theirs->default_expr && part.theirs->generated == 0 &&
			    same_expression(base->default_expr, part.theirs->default_expr))
				after.push_back(alter_column(part.local->name, "SET DEFAULT " + default_sql(*part.theirs)));
		}
		if (part.relax)
			before.push_back(alter_column(part.local->name, "DROP NOT NULL"));
		actions.push_back(
		    "ALTER COLUMN " + sql::ident(part.local->name) + " TYPE " + type_sql(part.theirs->type) +
		    (part.theirs->collation.empty() ? "" : " COLLATE " + part.theirs->collation) + part.using_clause);
	}
	std::vector<std::string> statements = before;
	statements.push_back(alter(sql::join(actions, ", ")));
	statements.insert(statements.end(), after.begin(), after.end());

	/* it stands with the first that is forwarded and runs under the settings of all */
	Operation *leader = nullptr;
	for (std::size_t i = first; i < result_.operations.size(); i++) {
		Operation &operation = result_.operations[i];
		if (operation.verdict != Verdict::Forward && operation.verdict != Verdict::Carry)
			continue;
		if (leader == nullptr) {
			leader = &operation;
			leader->sql = statements;
			continue;
		}
		operation.detail = "One statement changes all columns.";
		for (auto &setting : operation.settings)
			if (std::find(leader->settings.begin(), leader->settings.end(), setting) ==
			    leader->settings.end())
				leader->settings.push_back(setting);
		leader->replace_rows = leader->replace_rows || operation.replace_rows;
		leader->verdict = operation.verdict == Verdict::Carry ? Verdict::Carry : leader->verdict;
		leader->sql_after.insert(leader->sql_after.end(), operation.sql_after.begin(),
		                         operation.sql_after.end());
		operation.sql_after.clear();
	}
}

/* The verdict for one column; true when it is a part of the statement. */
bool
RelationMerge::change_type(Operation &operation, const state::Column &base, const state::Column &theirs,
                           const LocalColumn &local, std::string &using_clause)
{
	const UsingHint *hint = using_hint(theirs.attnum);
	bool retyped = operation.op == Op::AlterColumnType;
	bool harmless = hint != nullptr && hint->expr &&
	                (is_column(*hint->expr, theirs) ||
	                 (is_cast(*hint->expr, theirs) && takes_every_value(theirs.type, base.type)));
	bool given = hint != nullptr && hint->given && !harmless;
	bool rows = has_rows();
	/* values that a USING changed, or that an unseen command may have changed */
	bool own_cast = retyped && !given && has_own_cast(base.type, theirs.type, hint);
	bool values_known = !given && !own_cast && (command_.captured || !rewritten());
	const state::Column &ours = *local.column;
	std::string action =
	    "TYPE " + type_sql(theirs.type) + (theirs.collation.empty() ? "" : " COLLATE " + theirs.collation);
	if (given && hint->expr)
		action += " USING " + hint->expr->sql;
	operation.suggested_sql = alter_column(local.name, action);

	bool there = same_local_type(theirs.type, ours.type) && theirs.collation == ours.collation;
	bool wider = takes_every_value(ours.type, theirs.type) && theirs.collation == base.collation &&
	             !same_local_type(base.type, ours.type);
	if ((retyped || input_.resumed) && (there || wider) &&
	    (values_known || !rows || input_.resumed || input_.rows_follow)) {
		result_.needs_rows = result_.needs_rows || (input_.rows_follow && rows && !values_known);
		satisfy(operation, there ? "The subscriber's column is so."
		                         : "The subscriber's type " + ours.type.sql + " takes every value.");
		operation.suggested_sql.clear();
		return false;
	}
	/* the statement for the parent reached it: the type of an inherited column is not changed in the child */
	if (theirs.inhcount > 0 && !ours_->parents.empty() && (there || wider)) {
		satisfy(operation, "It was changed with the parent table.");
		operation.suggested_sql.clear();
		return false;
	}
	Reason reason = retyped ? Reason::TypeChangeUnproven : Reason::RewriteUnproven;
	auto refused = [&](Reason why, std::string detail) {
		/* what it would give here is another thing, or it cannot be run */
		if (why == Reason::LocalDrift || why == Reason::MissingObject)
			operation.suggested_sql.clear();
		refuse(operation, why, std::move(detail));
		teach(operation, shown_table(), safe_retype(theirs, hint));
		return false;
	};
	if (!prove_type(operation, theirs.type, theirs.collation))
		return refused(operation.reason, operation.detail);
	if (retyped && there && !values_known)
		return refused(reason, "The subscriber's column has the type, but whether its rows were converted in "
		                       "the same way is not known.");
	/* from one to the next each value stays what it is, wherever the subscriber's column stood between them */
	bool widened = !given && !own_cast && takes_every_value(ours.type, base.type) &&
	             takes_every_value(theirs.type, base.type) && takes_every_value(theirs.type, ours.type);
	if (!same_local_type(base.type, ours.type) && rows && !there && !widened)
		return refused(Reason::LocalDrift, "The subscriber's column is " + ours.type.sql +
		                                       ", the publisher's was " + base.type.sql + ".");
	for (const Dependent &dependent : facts_.dependents(*ours_, ours.attnum))
		if (dependent.type != "table constraint")
			return refused(Reason::LocalDependents, "The " + dependent.type + " " + dependent.identity +
			                                            " of the subscriber depends on the column.");

	Conversion effect;
	if (given && !hint->expr) {
		effect.why = "there was a USING clause that could not be read";
	} else if (given) {
		/* it reads the row as it was, under the names that are now */
		state::Relation before;
		before.columns = base_->columns;
		for (state::Column &column : before.columns)
			if (const state::Column *now = find_column(*theirs_, column.attnum))
				column.name = now->name;
		effect = conversion(*hint->expr, before);
		if (effect.effect != Effect::Unknown && !columns_agree(*hint->expr, before, effect.why))
			effect.effect = Effect::Unknown;
		using_clause = " USING " + hint->expr->sql;
	} else if (base.type.oid == theirs.type.oid && base.type.typmod == theirs.type.typmod) {
		effect.effect = Effect::Coercible; /* only the collation */
	} else {
		effect = conversion(base.type, theirs.type, facts_);
		if (effect.effect == Effect::Unknown)
			effect = into_domain(base.type, theirs.type, hint, effect);
		if (own_cast)
			effect = {Effect::Unknown, {}, "there is a cast from " + base.type.sql + " to " + theirs.type.sql +
			                                   " that somebody made, on the publisher or here"};
		/* its own rows show that the stored values are what they were */
		bool proves = !own_cast && (theirs.type.builtin || facts_.type_kind(theirs.type.schema, theirs.type.name) != 'd');
		if (effect.effect == Effect::Unknown && proves && !rewritten() && theirs_->relkind != 'p')
			effect.effect = Effect::Coercible;
		else if (!command_.captured && effect.effect != Effect::Unknown && rewritten())
			effect = {Effect::Unknown, {}, "no event trigger recorded whether there was a USING clause"};
	}
	if (!rows) {
		if (input_.has_rows && (given ? !hint->expr : effect.effect == Effect::Unknown))
			return refused(Reason::LocalDrift, "The publisher's table has no rows, the subscriber's has, and what is "
			                                   "to become of their values is not known.");
		if (!given && effect.effect == Effect::Unknown)
			using_clause = " USING NULL::" + type_sql(theirs.type);
		if (given && !hint->expr)
			using_clause = " USING NULL::" + type_sql(theirs.type);
		if (!given || !hint->expr || prove(operation, hint->expr, false))
			return true;
		return refused(operation.reason, operation.detail);
	}
	if (Operation proof; effect.effect != Effect::Unknown && given && !prove(proof, hint->expr, true, true)) {
		if (!input_.rows_follow)
			return refused(proof.reason, proof.detail);
		effect = {Effect::Unknown, {}, proof.detail};
	}
	if (effect.effect == Effect::Settings || given)
		for (std::string_view wanted : value_settings)
			for (const auto &[name, value] : command_.settings)
				if (name == wanted && (given || std::find(effect.settings.begin(), effect.settings.end(),
				                                          name) != effect.settings.end()))
					operation.settings.emplace_back(name, value);
	if (effect.effect == Effect::Settings)
		for (std::string_view needed : effect.settings)
			if (std::none_of(operation.settings.begin(), operation.settings.end(),
			                 [&](const auto &known) { return known.first == needed; })) {
				effect.effect = Effect::Unknown;
				effect.why = "the session's " + std::string(needed) + " is not known";
			}
	if (effect.effect == Effect::Unknown) {
		operation.settings.clear();
		if (input_.rows_follow)
			return carry_type(operation, theirs, local, using_clause);
		if (!command_.captured && !retyped)
			reason = Reason::RewriteUnproven;
		return refused(reason,
		               "What became of the values of existing rows is not proven: " + effect.why + ".");
	}
	operation.suggested_sql.clear();
	return true;
}

/* SQL that makes of the table's `name` the column `fresh`, and again what goes with the old one. Empty: there is more than is known here. */
std::string
RelationMerge::replace_column(const state::Column &theirs, const std::string &fresh, const LocalColumn *local) const
{
	const std::string table = "ALTER TABLE " + shown_table() + " ", name = sql::shown(theirs.name);
	auto has = [&](const std::vector<AttrNumber> &columns) {
		return std::find(columns.begin(), columns.end(), theirs.attnum) != columns.end();
	};
	auto names_it = [&](std::string_view text) {
		auto all = sql::tokens(text);
		return !all || std::any_of(all->begin(), all->end(), [&](const sql::Token &token) {
			return token.text == theirs.name || token.text == sql::ident(theirs.name);
		});
	};
	std::string result = table + "DROP COLUMN " + name + "; " + table + "RENAME COLUMN " + fresh + " TO " + name + ";", foreign;
	state::TypeRef bare = without_domain(theirs.type);

	if (theirs.inhcount > 0 || (!theirs_->partition_key.empty() && names_it(theirs_->partition_key)) ||
	    (theirs_->replica_identity == 'i' && has(theirs_->identity_columns)) ||
	    (local != nullptr && local->column != nullptr && !facts_.dependents(*ours_, local->column->attnum).empty()))
		return "";
	for (const state::Column &column : theirs_->columns)
		if (column.generated != 0 && column.default_expr && names_it(column.default_expr->sql))
			return "";
	if (bare.sql != theirs.type.sql)
		result += " " + table + "ALTER COLUMN " + name + " TYPE " + theirs.type.sql +
		          (theirs.collation.empty() ? "" : " COLLATE " + theirs.collation) + ";";
	if (theirs.default_expr)
		result += " " + table + "ALTER COLUMN " + name + " SET DEFAULT " + theirs.default_expr->sql + ";";
	if (theirs.not_null)
		result += " " + table + "ALTER COLUMN " + name + " SET NOT NULL;";
	for (const state::Constraint &one : theirs_->constraints) {
		if (one.type == 'n' || !(has(one.columns) || (one.type != 'f' && names_it(one.definition))))
			continue;
		bool refers_to_itself = std::any_of(theirs_->constraints.begin(), theirs_->constraints.end(), [&](const auto &other) {
			return other.references && other.references->oid == theirs_->name.oid;
		});
		if (one.type == 't' || one.parent != 0 || one.inhcount > 0 || (refers_to_itself && one.type != 'c'))
			return "";
		(one.type == 'f' ? foreign : result) += " " + table + "ADD CONSTRAINT " + sql::shown(one.name) + " " + one.definition + ";";
	}
	for (const state::Index &one : theirs_->indexes) {
		if (one.constraint != 0 || !(has(one.columns) || names_it(one.definition)))
			continue;
		if (one.parent != 0 || !one.valid)
			return "";
		result += " " + one.definition + ";";
	}
	return result + foreign;
}

/* Whether a cast that was made in one of the databases stands in the place of the server's, whose effect is known. */
bool
RelationMerge::has_own_cast(const state::TypeRef &from, const state::TypeRef &to, const UsingHint *hint) const
{
	if (hint != nullptr && !hint->casts.empty()) {
		/* what is below a domain the oids tell, and not the domain */
		const state::Name name = local_name(from, facts_);
		const char kind = from.builtin || !from.element.empty() ? 'b' : facts_.type_kind(name.schema, name.name);
		if (kind == 0 || kind == 'd' || std::find(hint->casts.begin(), hint->casts.end(), from.oid) != hint->casts.end())
			return true;
	}
	return facts_.own_cast(from, to);
}

/* The values travel as rows. */
std::string
RelationMerge::safe_retype(const state::Column &theirs, const UsingHint *hint) const
{
	const std::string steps = "ADD COLUMN of the new type, UPDATE it from the old one, drop what depends on the old column, DROP it, RENAME, and "
	                          "make again what was dropped.";
	if (theirs.generated != 0 || theirs.identity != 0 || theirs.sequence || (hint != nullptr && hint->given && !hint->expr))
		return steps;
	const LocalColumn *local = nullptr;
	for (const LocalColumn &column : columns_)
		if (column.publisher == theirs.attnum && !column.dropped)
			local = &column;
	const std::string name = sql::shown(theirs.name);
	const std::string fresh = sql::shown(name_beside(theirs.name, "_new", [&](const std::string &other) {
		return find_column(*theirs_, other) != nullptr || (ours_ != nullptr && find_column(*ours_, other) != nullptr);
	}));
	const std::string rest = replace_column(theirs, fresh, local);
	if (rest.empty())
		return steps;
	const bool given = hint != nullptr && hint->given;
	return with_identity("ALTER TABLE " + shown_table() + " ADD COLUMN " + fresh + " " + without_domain(theirs.type).sql +
	                     (theirs.collation.empty() ? "" : " COLLATE " + theirs.collation) + "; UPDATE " + shown_table() + " SET " +
	                     fresh + " = " + (given ? hint->expr->sql : name + "::" + theirs.type.sql) + ";") +
	       " " + rest;
}

/*
 * A domain's values are those of the type below it, and what it checks the statement checks here too. The marker has a cast to it, by which
 * it is known to be the same here, with all that its checks call.
 */
Conversion
RelationMerge::into_domain(const state::TypeRef &from, const state::TypeRef &to, const UsingHint *hint,
                           Conversion unknown) const
{
	/* of an array, that of its elements */
	const state::TypeRef &domain = to.element.empty() ? to : to.element[0];
	auto below = below_domain(domain, facts_);
	if (!below && !domain.builtin) {
		state::Name name = local_name(domain, facts_);
		below = facts_.domain_base(name.schema, name.name);
		/* the oid of another type is the subscriber's */
		if (below && !below->builtin)
			return unknown;
	}
	if (hint == nullptr || hint->given || !hint->expr || !below)
		return unknown;
	Operation proof;
	if (!merge::prove(proof, hint->expr, true, facts_))
		return {Effect::Unknown, {}, "of the domain " + sql::shown(domain.schema, domain.name) + ": " + proof.detail};
	if (&domain == &to)
		return conversion(from, *below, facts_);
	state::TypeRef array;
	array.element = {*below};
	return conversion(from, array, facts_);
}

/* The rows come with their new values: the old ones need not survive the change. */
bool
RelationMerge::carry_type(Operation &operation, const state::Column &theirs, const LocalColumn &local,
                          std::string &using_clause)
{
	operation.verdict = Verdict::Carry;
	operation.suggested_sql.clear();
	operation.detail = "Existing rows get the values that the publisher sent.";
	result_.needs_rows = true;
	/* rows cannot be found by a key that changes, nor kept where the column cannot be NULL for a moment */
	operation.replace_rows = unchanged_key().empty() || !takes_null(theirs, local);
	using_clause = " USING NULL::" + type_sql(theirs.type);
	if (!operation.replace_rows && local.column->not_null)
		operation.sql_after.push_back(alter_column(local.name, "SET NOT NULL"));
	return true;
}

/* A domain may say NOT NULL. */
bool
RelationMerge::may_be_domain(const state::TypeRef &type) const
{
	if (type.builtin || !type.element.empty())
		return false;
	char kind = facts_.type_kind(type.schema, type.name);
	return kind == 0 || kind == 'd';
}

/* Whether the column of all rows may be NULL until their values come, once its NOT NULL is dropped. */
bool
RelationMerge::takes_null(const state::Column &theirs, const LocalColumn &local) const
{
	AttrNumber attnum = local.column->attnum;
	auto has = [](const std::vector<AttrNumber> &columns, AttrNumber wanted) {
		return std::find(columns.begin(), columns.end(), wanted) != columns.end();
	};

	if (may_be_domain(theirs.type))
		return false;
	for (const state::Column &column : ours_->columns)
		if (column.generated != 0)
			return false;
	for (const state::Constraint &constraint : ours_->constraints)
		if (constraint.type == 'p' ? has(constraint.columns, attnum) : constraint.type == 'c')
			return false;
	for (const state::Index &index : ours_->indexes)
		if (index.unique && (has(index.columns, 0) || (index.nulls_not_distinct && has(index.columns, attnum))))
			return false;
	return true;
}

/* An expression names the publisher's columns; over a column of another type it may give another result. */
bool
RelationMerge::columns_agree(const state::Expression &expression, const state::Relation &types,
                             std::string &why)
{
	auto all = sql::tokens(expression.sql);
	if (!all)
		return false;
	for (const sql::Token &token : *all) {
		if (token.kind != sql::Token::Kind::Word && token.kind != sql::Token::Kind::QuotedWord)
			continue;
		for (const state::Column &theirs : types.columns) {
			if (token.text != theirs.name && token.text != sql::ident(theirs.name))
				continue;
			const LocalColumn *named = local_named(theirs.name);
			if (named == nullptr || named->publisher != theirs.attnum) {
				why = "the subscriber's column " + sql::shown(theirs.name) + " is not the publisher's";
				return false;
			}
			/* the same command changes its type, and that comes first */
			const state::Column *was = &types == theirs_ ? find_column(*base_, theirs.attnum) : nullptr;
			if (named->column != nullptr && was != nullptr && (was->type.oid != theirs.type.oid || was->type.typmod != theirs.type.typmod) &&
			    same_local_type(was->type, named->column->type))
				continue;
			if (named->column != nullptr && !same_local_type(theirs.type, named->column->type)) {
				why = "the subscriber's column " + sql::shown(theirs.name) + " is " +
				      named->column->type.sql + ", not " + theirs.type.sql;
				return false;
			}
		}
	}
	return true;
}

} // namespace schemasync::merge
