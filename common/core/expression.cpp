/*
 * Expressions and the types of columns: whether the subscriber has all that they name, and whether two of them are the same.
 */
#include "core/merge_internal.hpp"

#include "core/pure.hpp"

namespace schemasync::merge {

std::optional<state::Expression>
in_parentheses(std::optional<state::Expression> expressions)
{
	if (expressions)
		expressions->sql = "(" + expressions->sql + ")";
	return expressions;
}

bool
prove(Operation &operation, const std::optional<state::Expression> &expression, bool exact,
      const LocalFacts &facts, bool values)
{
	if (!expression)
		return true;
	if (!sql::is_one_clause(expression->sql)) {
		refuse(operation, Reason::UnsupportedObject,
		       "The expression " + expression->sql + " is not one expression.");
		return false;
	}
	for (const state::Reference &reference : expression->refs) {
		if (!values && reference.kind == "collation" && reference.name == "default")
			continue;
		std::optional<std::string> local = facts.digest(reference);
		if (!local) {
			refuse(operation, Reason::MissingObject,
			       "The " + reference.kind + " " + reference.name + ", which the expression " +
			           expression->sql + " uses, is missing on the subscriber.");
			return false;
		}
		if (exact && *local != reference.digest) {
			refuse(operation, Reason::LocalDrift,
			       "The " + reference.kind + " " + reference.name + ", which the expression " +
			           expression->sql + " uses, is defined otherwise on the subscriber.");
			return false;
		}
		/* of a default: no row of the publisher is made by it, they come with their values */
		if (*local != reference.digest)
			operation.detail = "The " + reference.kind + " " + reference.name +
			                   " is defined otherwise on the subscriber, which concerns rows that are written there.";
	}
	return true;
}

bool
prove_type(Operation &operation, const state::TypeRef &type, std::string_view collation,
           const LocalFacts &facts)
{
	const state::TypeRef &bare = type.element.empty() ? type : type.element[0];
	if (!sql::is_one_clause(type.sql)) {
		refuse(operation, Reason::UnsupportedObject, "The type " + type.sql + " is not one type.");
		return false;
	}
	if (!type.builtin && facts.local_type(bare.oid) == 0 && !facts.type_exists(bare.schema, bare.name)) {
		refuse(operation, Reason::MissingObject,
		       "The type " + sql::shown(bare.schema, bare.name) + " is missing on the subscriber.");
		return false;
	}
	if (!collation.empty() && !sql::is_one_clause(collation)) {
		refuse(operation, Reason::UnsupportedObject,
		       "The collation " + std::string(collation) + " is not one name.");
		return false;
	}
	if (!collation.empty() && !facts.collation_exists(collation)) {
		refuse(operation, Reason::MissingObject,
		       "The collation " + std::string(collation) + " is missing on the subscriber.");
		return false;
	}
	return true;
}

bool
RelationMerge::prove(Operation &operation, const std::optional<state::Expression> &expression, bool exact, bool values)
{
	return merge::prove(operation, expression, exact, facts_, values);
}

bool
RelationMerge::prove_type(Operation &operation, const state::TypeRef &type, std::string_view collation)
{
	return merge::prove_type(operation, type, collation, facts_);
}

/* An expression of base with the names that the columns have in theirs, so that a rename alone is no
 * difference. */
std::string
RelationMerge::renamed(std::string_view expression) const
{
	auto all = sql::tokens(expression);
	if (!all)
		return std::string(expression);
	std::string result;
	std::size_t copied = 0;
	for (std::size_t i = 0; i < all->size(); i++) {
		const sql::Token &token = (*all)[i];
		bool call = i + 1 < all->size() && (*all)[i + 1].text == "(";
		if (call || (token.kind != sql::Token::Kind::Word && token.kind != sql::Token::Kind::QuotedWord))
			continue;
		for (const state::Column &column : base_->columns) {
			const state::Column *now = find_column(*theirs_, column.attnum);
			if (now == nullptr || now->name == column.name ||
			    (token.text != column.name && token.text != sql::ident(column.name)))
				continue;
			auto at = static_cast<std::size_t>(token.text.data() - expression.data());
			result.append(expression.substr(copied, at - copied)).append(sql::shown(now->name));
			copied = at + token.text.size();
			break;
		}
	}
	result.append(expression.substr(copied));
	return result;
}

bool
RelationMerge::same_expression(const std::optional<state::Expression> &base,
                               const std::optional<state::Expression> &theirs) const
{
	if (!base || !theirs)
		return !base && !theirs;
	return base->sql == theirs->sql || renamed(base->sql) == theirs->sql;
}

} // namespace schemasync::merge
