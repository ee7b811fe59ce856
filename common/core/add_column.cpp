/*
 * Columns that are new on the publisher: what the rows that were there got, and how the subscriber's get the
 * same.
 */
#include <algorithm>

#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {
namespace {

/* The default a new column's rows would get: its own, else that of its domain. */
const std::optional<state::Expression> &
effective_default(const state::Column &column)
{
	return column.default_expr ? column.default_expr : column.domain_default;
}

/* Whether the default is a constant whose value, as text, is this one: then it alone gives the rows their
 * value. */
bool
is_constant(const state::Expression &expression, const std::string &value)
{
	auto all = sql::tokens(expression.sql);
	if (!all || all->empty() || !expression.refs.empty())
		return false;
	const sql::Token &first = (*all)[0];
	if (all->size() == 1 && first.kind == sql::Token::Kind::Number)
		return first.text == value;
	if (all->size() == 1 && first.kind == sql::Token::Kind::Word)
		return (first.text == "true" && value == "t") || (first.text == "false" && value == "f");
	if (first.text != sql::literal(value))
		return false;
	/* nothing but ::type may follow, and a second cast could change the value */
	return std::count_if(all->begin(), all->end(),
	                     [](const sql::Token &token) { return token.text == ":"; }) == 2 &&
	       (*all)[1].text == ":";
}

} // namespace

void
RelationMerge::add_columns()
{
	for (const state::Column &column : theirs_->columns)
		if (find_column(*base_, column.attnum) == nullptr)
			add_column(column);
}

/* Whether the command has a SET DEFAULT of the column in it. A marker without the columns has it of any. */
bool
RelationMerge::sets_default(const state::Column &column) const
{
	if (command_.set_defaults.empty())
		return has_subcommand("AT_ColumnDefault");
	return std::any_of(command_.set_defaults.begin(), command_.set_defaults.end(), [&](const DefaultHint &hint) {
		return hint.relation == theirs_->name.oid && hint.attnum == column.attnum;
	});
}

/*
 * What the publisher's existing rows have in a new column.
 *
 * A default that came with the column is stored as the missing value, or the table was rewritten. Without
 * either, the default was set afterwards and the rows are NULL. After a rewrite the two cannot be told apart,
 * unless the captured command has no SET DEFAULT of the column in it.
 */
Fill
RelationMerge::fill_of(const state::Column &column, std::string &constant) const
{
	if (!has_rows())
		return Fill::NoRows;
	if (column.generated != 0)
		return Fill::Evaluate;
	if (column.identity != 0)
		return Fill::PerRow;
	if (column.missing) {
		constant = *column.missing;
		return Fill::Constant;
	}
	for (const state::Relation *descendant : input_.descendants)
		if (const state::Column *inherited = find_column(*descendant, column.name);
		    inherited && inherited->missing) {
			constant = *inherited->missing;
			return Fill::Constant;
		}
	const std::optional<state::Expression> &value = effective_default(column);
	if (!value)
		return Fill::Null;
	bool set_later = !command_.captured || sets_default(column);
	bool stores_nothing = theirs_->relkind == 'p' && input_.descendants.empty();
	if (!rewritten() && column.default_expr && !(stores_nothing && !set_later))
		return Fill::Null;
	if (value->volatility == 'v')
		return Fill::PerRow;
	return value->volatility == 'i' && !set_later ? Fill::Evaluate : Fill::Unread;
}

void
RelationMerge::add_column(const state::Column &column)
{
	std::string change = "column " + sql::shown(column.name) + " " + column.type.sql + " was added";
	if (base_->published_columns && has_rows()) {
		Operation &operation = on_column(Op::PublishColumn, column.name,
		                                 "column " + sql::shown(column.name) + " is published now");
		refuse(operation, Reason::DefaultUnreadable,
		       "The values that its rows already have are not in the stream.");
		return teach(operation, shown_table());
	}
	if (LocalColumn *local = local_named(column.name))
		return adopt_column(column, *local);

	Operation &operation = on_column(Op::AddColumn, column.name, std::move(change));
	if (column.sequence && facts_.relation_exists(column.sequence->name.schema, column.sequence->name.name)) {
		refuse_taken(operation, column.sequence->name.schema, column.sequence->name.name, facts_);
		return teach(operation, shown_table());
	}
	std::string constant;
	Fill fill = fill_of(column, constant);
	const std::optional<state::Expression> &value = effective_default(column);
	bool evaluated = fill == Fill::Evaluate || column.generated != 0;
	if (!prove_type(operation, column.type, column.collation))
		return teach(operation, shown_table());
	/* before its default is looked at: that a serial's sequence is missing too is not what stands in the way */
	if (fill == Fill::PerRow && !input_.rows_follow)
		return refuse_fill(operation, column, fill);
	/* a serial's sequence is made with it */
	std::optional<state::Expression> others = value;
	if (others && column.sequence)
		std::erase_if(others->refs,
		              [](const state::Reference &reference) { return reference.kind == "relation"; });
	if (!prove(operation, others, evaluated, evaluated))
		return teach(operation, shown_table());
	std::string why;
	if (column.generated != 0 && value && !columns_agree(*value, *theirs_, why)) {
		refuse(operation, Reason::LocalDrift, "What it is generated from differs: " + why + ".");
		return teach(operation, shown_table());
	}
	if (column.generated == 'v' && facts_.server_version() != 0 && facts_.server_version() < 180000) {
		refuse(operation, Reason::UnsupportedObject,
		       "The subscriber's server has no virtual generated columns.");
		return teach(operation, shown_table());
	}
	if (fill == Fill::Constant && value && value->volatility != 'i' &&
	    policy_.stable_defaults == Choice::Refuse) {
		operation.suggested_sql = sql::join(add_column_sql(column, fill, constant), ";\n");
		refuse(operation, Reason::PolicyRefuse, "The subscription has stable_defaults = refuse.");
		return teach(operation, shown_table());
	}
	if (fill == Fill::Unread || fill == Fill::PerRow) {
		result_.needs_rows = input_.rows_follow;
		if (!input_.rows_follow)
			return refuse_fill(operation, column, fill);
		carry_column(operation, column);
	} else {
		operation.sql = add_column_sql(column, fill, constant);
		if (fill == Fill::Constant && value && value->volatility != 'i')
			operation.detail = "Existing rows get the value that the publisher stored for them.";
	}
	columns_.push_back({nullptr, column.attnum, column.name, false, false, true});
}

std::vector<std::string>
RelationMerge::add_column_sql(const state::Column &column, Fill fill, const std::string &constant) const
{
	std::vector<std::string> result;
	std::string add = "ADD COLUMN ";
	std::string not_null = not_null_clause(*theirs_, column, facts_.server_version());
	bool pinned =
	    fill == Fill::Constant && !(column.default_expr && is_constant(*column.default_expr, constant));
	if (column.sequence && column.identity == 0)
		result.push_back(create_sequence(*column.sequence));
	if (pinned) {
		add += column_clause(column, false) + " DEFAULT " + sql::literal(constant) +
		       "::" + type_sql(column.type);
		result.push_back(alter(add + not_null));
		result.push_back(alter_column(column.name, column.default_expr ? "SET DEFAULT " + default_sql(column)
		                                                               : "DROP DEFAULT"));
	} else if (fill == Fill::Null && column.default_expr) {
		/* not what a domain may say */
		result.push_back(alter(add + column_clause(column, false) + (may_be_domain(column.type) ? " DEFAULT NULL" : "") + not_null));
		result.push_back(alter_column(column.name, "SET DEFAULT " + default_sql(column)));
	} else if (fill == Fill::Evaluate && !column.default_expr && column.domain_default) {
		/* the subscriber's domain may have another default */
		result.push_back(alter(add + column_clause(column, true) + " DEFAULT " + column.domain_default->sql + not_null));
		result.push_back(alter_column(column.name, "DROP DEFAULT"));
	} else {
		result.push_back(alter(add + column_clause(column, true) + not_null));
	}
	if (column.sequence && column.identity == 0)
		result.push_back(sequence_owned_by(*column.sequence, table(), column.name));
	/* what the clause could not say: that the rows need not comply */
	if (std::string why, later = set_not_null(column, column.name, why);
	    column.not_null && not_null.empty() && !later.empty())
		result.push_back(later);
	for (std::string &more : physical_sql(column, table()))
		result.push_back(std::move(more));
	return result;
}

/* Bare at first; what the rows must fulfil comes when they have their values. */
void
RelationMerge::carry_column(Operation &operation, const state::Column &column)
{
	operation.verdict = Verdict::Carry;
	operation.detail = "Existing rows get the values that the publisher sent.";
	operation.sql = {alter("ADD COLUMN " + column_clause(column, false))};
	/* not with rows there, which would be NULL */
	operation.replace_rows = may_be_domain(column.type);
	if (column.sequence)
		operation.counter = column.name;
	if (std::string why, not_null = set_not_null(column, column.name, why); column.not_null && !not_null.empty())
		operation.sql_after.push_back(not_null);
	if (column.identity != 0) {
		operation.sql_after.push_back(alter_column(column.name, "ADD " + default_sql(column)));
	} else if (column.default_expr) {
		/* the defaults of partitions and children name it too */
		if (column.sequence)
			operation.sql.push_back(create_sequence(*column.sequence));
		operation.sql_after.push_back(alter_column(column.name, "SET DEFAULT " + default_sql(column)));
		if (column.sequence)
			operation.sql_after.push_back(sequence_owned_by(*column.sequence, table(), column.name));
	}
	for (std::string &more : physical_sql(column, table()))
		operation.sql.push_back(std::move(more));
}

namespace {

/* The same in steps: the values travel as rows. bare: the type that the column has until then, because a domain may want values at once */
std::string
safe_add(const std::string &table, const state::Column &column, const std::optional<state::Expression> &value, const std::string &bare)
{
	const std::string name = sql::shown(column.name);
	const std::string alter = "ALTER TABLE " + table + " ALTER COLUMN " + name + " ";
	const std::string collation = column.collation.empty() ? "" : " COLLATE " + column.collation;
	const std::string add = "ALTER TABLE " + table + " ADD COLUMN " + name + " " + bare + collation + "; ";
	const std::string retype = bare == column.type.sql ? "" : " " + alter + "TYPE " + column.type.sql + collation + ";";
	const std::string not_null = column.not_null || column.identity != 0 ? " " + alter + "SET NOT NULL;" : "";

	if (column.identity != 0) {
		const std::string numbers = sql::shown(name_beside(column.name, "_numbers"));
		return "CREATE TEMPORARY SEQUENCE " + numbers + "; " + add + "UPDATE " + table + " SET " + name + " = nextval(" +
		       sql::literal(numbers) + ");" + not_null + " " + alter + "ADD " + default_sql(column) + "; SELECT setval(pg_get_serial_sequence(" +
		       sql::literal(table) + ", " + sql::literal(column.name) + "), (SELECT max(" + name + ") FROM " + table + ")); DROP SEQUENCE " +
		       numbers + ";";
	}
	if (!value)
		return "ADD COLUMN, UPDATE the existing rows, SET DEFAULT, SET NOT NULL, one after the other.";
	std::string before, after;
	if (column.sequence) {
		before = create_sequence(*column.sequence) + "; ";
		after = " ALTER SEQUENCE " + sql::qualified(column.sequence->name) + " OWNED BY " + table + "." + name + ";";
	}
	return before + add + "UPDATE " + table + " SET " + name + " = " + value->sql + ";" + retype +
	       (column.default_expr ? " " + alter + "SET DEFAULT " + default_sql(column) + ";" : "") + not_null + after;
}

} // namespace

void
RelationMerge::refuse_fill(Operation &operation, const state::Column &column, Fill fill)
{
	const std::optional<state::Expression> &value = effective_default(column);
	std::string what = column.identity != 0 ? "identity values"
	                   : value              ? "DEFAULT " + value->sql
	                                        : "its values";
	state::Column bare = column;
	bare.type = without_domain(column.type);
	operation.suggested_sql = alter("ADD COLUMN " + column_clause(bare, false));
	if (fill == Fill::PerRow)
		refuse(operation, Reason::VolatileDefault,
		       "Each existing row of the publisher got a value of its own (" + what +
		           "), and those values are not in the stream: evaluated here it would give others.");
	else
		refuse(operation, Reason::DefaultUnreadable,
		       "The existing rows of the publisher got one value (" + what +
		           ") when the column was added, but the table was rewritten since and the value is not "
		           "stored any more.");
	teach(operation, shown_table(), with_identity(safe_add(shown_table(), column, value, bare.type.sql)));
	constexpr std::string_view last = "then set its default";
	if (std::size_t at = operation.hint.find(last); bare.type.sql != column.type.sql && at != std::string::npos)
		operation.hint.replace(at, last.size(), "then change its type to " + column.type.sql + " and set its default");
}

state::TypeRef
RelationMerge::without_domain(const state::TypeRef &type) const
{
	if (type.builtin || !type.element.empty())
		return type;
	state::Name name = local_name(type, facts_);
	return facts_.domain_base(name.schema, name.name).value_or(type);
}

std::string
RelationMerge::with_identity(const std::string &statements) const
{
	if (base_ == nullptr || base_->replica_identity == 'f' || !base_->identity_columns.empty() || base_->relkind == 'p')
		return statements;
	const std::string identity = "ALTER TABLE " + shown_table() + " REPLICA IDENTITY ";
	return identity + "FULL; " + statements + " " + identity + (base_->replica_identity == 'n' ? "NOTHING;" : "DEFAULT;");
}

/* The subscriber has a column of the new column's name: made in advance by hand, or something else. */
void
RelationMerge::adopt_column(const state::Column &column, LocalColumn &local)
{
	Operation &operation =
	    on_column(Op::AddColumn, column.name,
	              "column " + sql::shown(column.name) + " " + column.type.sql + " was added");
	/* with drop_column = keep it may be one that was dropped there and still has its old values here */
	bool kept = policy_.drop_column == Choice::Keep && column.local && has_rows() && !input_.resumed;
	bool free = local.publisher == 0 && local.column != nullptr && !kept;
	if (free &&
	    (same_local_type(column.type, local.column->type) ||
	     takes_every_value(local.column->type, column.type)) &&
	    (local.column->generated != 0) == (column.generated != 0)) {
		satisfy(operation, "The subscriber has this column.");
		std::string constant;
		Fill fill = fill_of(column, constant);
		if (input_.rows_follow && (fill == Fill::PerRow || fill == Fill::Unread))
			result_.needs_rows = true; /* the values that count are the publisher's */
		local.publisher = column.attnum;
		local.adopted = true;
		return;
	}
	std::string note = kept ? " It may be one that drop_column = keep left here, with its old values." : "";
	std::string there = local.column != nullptr ? local.column->type.sql : "another column";
	operation.suggested_sql =
	    alter("RENAME COLUMN " + sql::ident(local.name) + " TO " +
	          sql::ident(name_beside(local.name, "_local", [&](const std::string &other) {
		          return local_named(other) != nullptr || find_column(*theirs_, other) != nullptr;
	          })));
	refuse(operation, Reason::LocalNameTaken,
	       "The subscriber has a column " + sql::shown(local.name) + " of its own: " + there +
	           ", the publisher's is " + column.type.sql + "." + note);
	teach(operation, shown_table());
}

} // namespace schemasync::merge
