#include "apply_ext/apply/sql_reference.hpp"

#include <cstring>
#include <string>

#include "pg/compat.hpp"
#include "pg/guard.hpp"

extern "C" {
#include "access/htup_details.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/syscache.h"
}

namespace schemasync::apply {

namespace {

/* What the walk over a text's raw parse tree finds. */
struct Walk {
	const std::vector<state::Reference> *declared; /* nullptr: nothing is */
	char volatility;
	const char *undeclared; /* the first thing that is not */
};

// ---- leaves: may ereport; plain data only ----

void
note_volatility(Walk *walk, char volatility)
{
	if (volatility == PROVOLATILE_VOLATILE || (volatility == PROVOLATILE_STABLE && walk->volatility == PROVOLATILE_IMMUTABLE))
		walk->volatility = volatility;
}

/* A built-in function, known by its name alone: as volatile as the best of that name. */
void
note_built_in(Walk *walk, const char *name)
{
	char best = '\0';
	CatCList *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));

	for (int i = 0; i < list->n_members; i++) {
		Form_pg_proc form = reinterpret_cast<Form_pg_proc>(GETSTRUCT(&list->members[i]->tuple));
		if (form->pronamespace != PG_CATALOG_NAMESPACE)
			continue;
		if (best == '\0' || form->provolatile == PROVOLATILE_IMMUTABLE || best == PROVOLATILE_VOLATILE)
			best = form->provolatile;
	}
	ReleaseSysCacheList(list);
	if (best != '\0')
		note_volatility(walk, best);
}

/* names: as the grammar has them. A reference's name goes on with the types of the arguments. */
void
note_name(Walk *walk, const char *kind, List *names)
{
	const char *name = strVal(llast(names));
	const char *schema = list_length(names) > 1 ? strVal(list_nth(names, list_length(names) - 2)) : nullptr;

	if (list_length(names) <= 2 && (schema == nullptr || strcmp(schema, "pg_catalog") == 0)) {
		if (strcmp(kind, "function") == 0)
			note_built_in(walk, name);
		return;
	}
	const char *wanted = strcmp(kind, "function") == 0 ? psprintf("%s(", quote_qualified_identifier(schema, name))
	                                                   : psprintf("%s.%s(", quote_identifier(schema), name);
	if (walk->declared != nullptr && list_length(names) <= 2)
		for (const state::Reference &reference : *walk->declared)
			if (reference.kind == kind && strncmp(reference.name.c_str(), wanted, strlen(wanted)) == 0)
				return;
	if (walk->undeclared == nullptr)
		walk->undeclared = psprintf("%s %s", kind, quote_qualified_identifier(schema, name));
}

bool
visit(Node *node, void *argument)
{
	Walk *walk = static_cast<Walk *>(argument);

	if (node == nullptr)
		return false;
	switch (nodeTag(node)) {
	case T_FuncCall:
		note_name(walk, "function", castNode(FuncCall, node)->funcname);
		break;
	case T_A_Expr:
		if (castNode(A_Expr, node)->name != NIL)
			note_name(walk, "operator", castNode(A_Expr, node)->name);
		break;
	case T_SQLValueFunction:
		note_volatility(walk, PROVOLATILE_STABLE);
		break;
	case T_SubLink:
		walk->undeclared = "a subquery";
		return true;
	default:
		break;
	}
	return pg::compat::walk_raw_expression(node, visit, argument);
}

Node *
parse_one(const char *sql)
{
	List *statements = raw_parser(sql, RAW_PARSE_DEFAULT);

	/* (sql_fragment.cpp has seen to that) */
	if (list_length(statements) != 1)
		elog(ERROR, "it is not one statement: %s", sql);
	return castNode(RawStmt, linitial(statements))->stmt;
}

template <typename T>
T *
as(Node *node, NodeTag tag)
{
	if (node == nullptr || nodeTag(node) != tag)
		elog(ERROR, "a piece of a statement is of an unexpected kind");
	return reinterpret_cast<T *>(node);
}

void
visit_elements(Walk *walk, List *elements)
{
	ListCell *cell;

	foreach (cell, elements)
		visit(castNode(IndexElem, lfirst(cell))->expr, walk);
}

void
visit_expression(Walk *walk, const char *text)
{
	visit(parse_one(psprintf("SELECT (%s)", text)), walk);
}

/* target: where a foreign key goes, bare names; nullptr for none */
void
visit_constraint(Walk *walk, const char *text, bool of_domain, const char *target_schema, const char *target_name)
{
	Node *node = parse_one(psprintf(of_domain ? "ALTER DOMAIN a ADD CONSTRAINT c %s" : "ALTER TABLE a ADD CONSTRAINT c %s", text));
	Constraint *constraint = nullptr;
	ListCell *cell;

	if (node != nullptr && IsA(node, AlterDomainStmt))
		constraint = castNode(Constraint, castNode(AlterDomainStmt, node)->def);
	else if (node != nullptr && IsA(node, AlterTableStmt))
		constraint = castNode(Constraint, castNode(AlterTableCmd, linitial(castNode(AlterTableStmt, node)->cmds))->def);
	if (constraint == nullptr)
		return;
	visit(constraint->raw_expr, walk);
	visit(constraint->where_clause, walk);
	foreach (cell, constraint->exclusions)
		visit(castNode(IndexElem, linitial(static_cast<List *>(lfirst(cell))))->expr, walk);
	const RangeVar *target = constraint->pktable;
	if (target != nullptr && (target_name == nullptr || target->schemaname == nullptr || strcmp(target->schemaname, target_schema) != 0 ||
	                          strcmp(target->relname, target_name) != 0))
		walk->undeclared = psprintf("table %s", quote_qualified_identifier(target->schemaname, target->relname));
}

void
visit_index(Walk *walk, const char *text)
{
	IndexStmt *statement = as<IndexStmt>(parse_one(text), T_IndexStmt);

	visit_elements(walk, statement->indexParams);
	visit(statement->whereClause, walk);
}

void
visit_key(Walk *walk, const char *text)
{
	CreateStmt *create = as<CreateStmt>(parse_one(psprintf("CREATE TABLE a () PARTITION BY %s", text)), T_CreateStmt);
	PartitionSpec *key = as<PartitionSpec>(reinterpret_cast<Node *>(create->partspec), T_PartitionSpec);
	ListCell *cell;

	foreach (cell, key->partParams)
		visit(castNode(PartitionElem, lfirst(cell))->expr, walk);
}

void
visit_bound(Walk *walk, const char *text)
{
	CreateStmt *create = as<CreateStmt>(parse_one(psprintf("CREATE TABLE a PARTITION OF b %s", text)), T_CreateStmt);
	auto *bound = as<PartitionBoundSpec>(reinterpret_cast<Node *>(create->partbound), T_PartitionBoundSpec);

	visit(reinterpret_cast<Node *>(bound->listdatums), walk);
	visit(reinterpret_cast<Node *>(bound->lowerdatums), walk);
	visit(reinterpret_cast<Node *>(bound->upperdatums), walk);
	/* a bound is a constant */
	if (walk->volatility != PROVOLATILE_IMMUTABLE && walk->undeclared == nullptr)
		walk->undeclared = "a function that is not immutable";
}

[[noreturn]] void
raise_undeclared(const char *where, const char *what, const char *text)
{
	ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION),
	                errmsg("the publisher's state of \"%s\" has a text that uses more than it says: %s", where, what),
	                errdetail("The text: %s", text)));
	pg_unreachable();
}

// ---- end of leaves ----

template <typename Visit>
char
inspect(const std::string &where, const std::string &text, const std::vector<state::Reference> *declared, Visit visit_text)
{
	return pg::call([&] {
		Walk walk = {declared, PROVOLATILE_IMMUTABLE, nullptr};
		visit_text(&walk, text.c_str());
		if (walk.undeclared != nullptr)
			raise_undeclared(where.c_str(), walk.undeclared, text.c_str());
		return walk.volatility;
	});
}

void
correct(state::Expression *expression, char volatility)
{
	if (expression != nullptr && (volatility == 'v' || (volatility == 's' && expression->volatility == 'i')))
		expression->volatility = volatility;
}

} // namespace

void
check_references(const std::string &where, state::Expression &expression)
{
	correct(&expression, inspect(where, expression.sql, &expression.refs, visit_expression));
}

void
check_references(const std::string &where, state::Constraint &constraint, bool of_domain)
{
	const char *schema = constraint.references ? constraint.references->schema.c_str() : nullptr;
	const char *name = constraint.references ? constraint.references->name.c_str() : nullptr;
	char volatility = inspect(where, constraint.definition, constraint.expr ? &constraint.expr->refs : nullptr,
	                          [&](Walk *walk, const char *text) { visit_constraint(walk, text, of_domain, schema, name); });

	if (constraint.expr)
		correct(&*constraint.expr, volatility);
}

void
check_references(const std::string &where, state::Index &index)
{
	char volatility = inspect(where, index.definition, index.expr ? &index.expr->refs : nullptr, visit_index);

	if (index.expr)
		correct(&*index.expr, volatility);
}

void
check_partition(const std::string &where, const std::string &key, const state::Expression *expression, const std::string &bound)
{
	if (!key.empty())
		(void) inspect(where, key, expression != nullptr ? &expression->refs : nullptr, visit_key);
	if (!bound.empty())
		(void) inspect(where, bound, nullptr, visit_bound);
}

} // namespace schemasync::apply
