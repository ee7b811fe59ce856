#include "apply_ext/apply/sql_fragment.hpp"

#include <cstring>
#include <string>

#include "core/merge.hpp"
#include "pg/compat.hpp"
#include "pg/guard.hpp"

extern "C" {
#include "nodes/parsenodes.h"
#include "parser/parser.h"
}

namespace schemasync::apply {

namespace {

// ---- leaves: may ereport; plain data only ----
//
// Each test puts the text before something that must still be seen after it, so that a comment in it is found
// as well.

/* The only statement of a text, nullptr when it is not one. */
Node *
parse_one(const char *sql)
{
	List *statements = raw_parser(sql, RAW_PARSE_DEFAULT);

	return list_length(statements) == 1 ? castNode(RawStmt, linitial(statements))->stmt : nullptr;
}

/* The only value of a SELECT without anything else, nullptr when it is not that. */
Node *
only_value(const char *sql)
{
	Node *node = parse_one(sql);

	if (node == nullptr || !IsA(node, SelectStmt))
		return nullptr;
	auto *select = castNode(SelectStmt, node);
	if (list_length(select->targetList) != 1 || select->distinctClause != NIL ||
	    select->intoClause != nullptr || select->fromClause != NIL || select->whereClause != nullptr ||
	    select->groupClause != NIL || select->havingClause != nullptr || select->windowClause != NIL ||
	    select->sortClause != NIL || select->limitOffset != nullptr || select->limitCount != nullptr ||
	    select->lockingClause != NIL || select->withClause != nullptr || select->op != SETOP_NONE)
		return nullptr;
	auto *target = castNode(ResTarget, linitial(select->targetList));
	return target->name == nullptr && target->indirection == NIL ? target->val : nullptr;
}

bool
is_expression(const char *text)
{
	Node *value = only_value(psprintf("SELECT (%s)", text));

	/* two expressions would be a row without the word ROW */
	return value != nullptr &&
	       !(IsA(value, RowExpr) && castNode(RowExpr, value)->row_format == COERCE_IMPLICIT_CAST);
}

bool
is_type(const char *text)
{
	Node *value = only_value(psprintf("SELECT CAST(NULL AS %s)", text));

	return value != nullptr && IsA(value, TypeCast) && IsA(castNode(TypeCast, value)->arg, A_Const);
}

/* A collation: the name alone, after COLLATE. */
bool
is_collation(const char *text)
{
	Node *value = only_value(psprintf("SELECT ('' COLLATE %s)", text));

	return value != nullptr && IsA(value, CollateClause) && IsA(castNode(CollateClause, value)->arg, A_Const);
}

bool
is_constraint(const char *text)
{
	Node *node = parse_one(psprintf("ALTER TABLE a ADD CONSTRAINT c %s, DROP COLUMN z", text));

	if (node == nullptr || !IsA(node, AlterTableStmt))
		return false;
	auto *alter = castNode(AlterTableStmt, node);
	return list_length(alter->cmds) == 2 &&
	       castNode(AlterTableCmd, linitial(alter->cmds))->subtype == AT_AddConstraint &&
	       castNode(AlterTableCmd, lsecond(alter->cmds))->subtype == AT_DropColumn;
}

bool
is_domain_constraint(const char *text)
{
	if (strcmp(text, "NOT NULL") == 0)
		return true;
	Node *node = parse_one(psprintf("ALTER DOMAIN a ADD CONSTRAINT c %s NOT VALID", text));
	if (node == nullptr || !IsA(node, AlterDomainStmt) || castNode(AlterDomainStmt, node)->def == nullptr)
		return false;
	auto *constraint = castNode(Constraint, castNode(AlterDomainStmt, node)->def);
	return constraint->contype == CONSTR_CHECK && constraint->skip_validation;
}

bool
is_index(const char *text)
{
	Node *node = parse_one(text);

	return node != nullptr && IsA(node, IndexStmt);
}

CreateStmt *
parse_create(const char *sql)
{
	Node *node = parse_one(sql);

	if (node == nullptr || !IsA(node, CreateStmt))
		return nullptr;
	auto *create = castNode(CreateStmt, node);
	bool plain = create->tableElts == NIL && create->options == NIL && create->accessMethod == nullptr &&
	             create->tablespacename != nullptr;
	return plain ? create : nullptr;
}

bool
is_partition_bound(const char *text)
{
	CreateStmt *create = parse_create(psprintf("CREATE TABLE a PARTITION OF b %s TABLESPACE z", text));

	return create != nullptr && create->partbound != nullptr && create->partspec == nullptr;
}

bool
is_partition_key(const char *text)
{
	CreateStmt *create = parse_create(psprintf("CREATE TABLE a () PARTITION BY %s TABLESPACE z", text));

	return create != nullptr && create->partspec != nullptr && create->partbound == nullptr;
}

using Test = bool (*)(const char *);

} // namespace

/*
 * A piece that is SQL, but more than one of its kind, is the stream's fault. One that this server's grammar does not
 * take may be of a newer publisher: it is remembered, so that no statement is made with it.
 *
 * embedded: the part of the text that statements are made with
 */
static void
check(UnknownSyntax &unknown, Test test, const char *kind, const std::string &where, const std::string &text,
      std::string_view embedded)
{
	bool good = false;
	const char *message = "The text is";

	try {
		good = pg::call([&] { return test(text.c_str()); });
	} catch (const pg::Error &error) {
		message = error.data->message;
		if (error.data->sqlerrcode == ERRCODE_SYNTAX_ERROR && !embedded.empty()) {
			unknown.push_back({std::string(embedded), message});
			return;
		}
	}
	if (!good)
		pg::call([&] {
			ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
			                errmsg("the publisher's state of \"%s\" holds a text that is not one %s",
			                       where.c_str(), kind),
			                errdetail("%s: %s", message, text.c_str())));
		});
}

static void
check(UnknownSyntax &unknown, Test test, const char *kind, const std::string &where, const std::string &text)
{
	check(unknown, test, kind, where, text, text);
}

void
check_expression(UnknownSyntax &unknown, const char *where, const std::string &sql)
{
	check(unknown, is_expression, "expression", where, sql);
}

static void
check_expression(UnknownSyntax &unknown, const std::string &where, const std::optional<state::Expression> &expression)
{
	if (expression)
		check(unknown, is_expression, "expression", where, expression->sql);
}

static void
check_type(UnknownSyntax &unknown, const std::string &where, const state::TypeRef &type)
{
	check(unknown, is_type, "type", where, type.sql);
}

static void
check_collation(UnknownSyntax &unknown, const std::string &where, const std::string &collation)
{
	if (!collation.empty())
		check(unknown, is_collation, "collation", where, collation);
}

const UnknownText *
find_unknown(const UnknownSyntax &unknown, std::string_view sql)
{
	for (const UnknownText &one : unknown)
		if (sql.find(one.text) != std::string_view::npos)
			return &one;
	return nullptr;
}

void
check_fragments(const state::Relation &relation, UnknownSyntax &unknown)
{
	const std::string &where = relation.name.name;

	for (const state::Column &column : relation.columns) {
		check_type(unknown, where, column.type);
		check_collation(unknown, where, column.collation);
		check_expression(unknown, where, column.default_expr);
		check_expression(unknown, where, column.domain_default);
	}
	for (const state::Constraint &constraint : relation.constraints) {
		/* what this server's grammar has not is refused, and never a part of a statement */
		if (constraint.type != 'n' && constraint.type != 't' &&
		    merge::missing_feature(constraint, pg::compat::server_version).empty())
			check(unknown, is_constraint, "constraint", where, constraint.definition);
		if (constraint.type == 'c')
			check_expression(unknown, where, constraint.expr);
	}
	for (const state::Index &index : relation.indexes)
		check(unknown, is_index, "index definition", where, index.definition, merge::method_and_rest(index));
	if (!relation.partition_bound.empty())
		check(unknown, is_partition_bound, "partition bound", where, relation.partition_bound);
	if (!relation.partition_key.empty())
		check(unknown, is_partition_key, "partition key", where, relation.partition_key);
}

void
check_fragments(const state::Type &type, UnknownSyntax &unknown)
{
	const std::string &where = type.name.name;

	if (type.typtype == 'd' || type.typtype == 'r')
		check_type(unknown, where, type.base);
	check_collation(unknown, where, type.collation);
	check_expression(unknown, where, type.default_expr);
	for (const state::Attribute &attribute : type.attributes) {
		check_type(unknown, where, attribute.type);
		check_collation(unknown, where, attribute.collation);
	}
	for (const state::Constraint &constraint : type.constraints)
		check(unknown, is_domain_constraint, "constraint", where, constraint.definition);
}

} // namespace schemasync::apply
