#include "pg/catalog/expression.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "access/sysattr.h"
#include "common/hashfn.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
}

namespace schemasync::pg::catalog {

namespace {

/* System columns have negative numbers, parameters positive ones. */
constexpr int param_offset = 100;

// ---- leaves: may ereport; plain data only ----

/* A column becomes a parameter, which the deparser prints as $n without asking any relation. */
Node *
replace_columns(Node *node, void *context)
{
	if (node == nullptr)
		return nullptr;
	if (IsA(node, Var)) {
		auto *var = reinterpret_cast<Var *>(node);
		Param *param = makeNode(Param);

		param->paramkind = PARAM_EXTERN;
		param->paramid = var->varattno + param_offset;
		param->paramtype = var->vartype;
		param->paramtypmod = var->vartypmod;
		param->paramcollid = var->varcollid;
		param->location = -1;
		return reinterpret_cast<Node *>(param);
	}
	return compat::mutate_expression(node, replace_columns, context);
}

void
append_column_name(StringInfo out, Oid relid, int attnum)
{
	if (attnum == 0) { /* the whole row */
		const char *relation = get_rel_name(relid);
		appendStringInfo(out, "%s.*", relation != nullptr ? quote_identifier(relation) : "?");
		return;
	}

	const char *name = get_attname(relid, static_cast<AttrNumber>(attnum), true);
	appendStringInfoString(out, name != nullptr ? quote_identifier(name) : "?");
}

/*
 * Puts the columns' names where the deparser wrote $n. A dollar sign is otherwise found only inside quotes: an
 * identifier with one is always quoted, and string literals come without backslash escapes.
 */
char *
name_columns(const char *text, Oid relid)
{
	StringInfoData out;
	char quote = '\0';

	initStringInfo(&out);
	for (const char *at = text; *at != '\0';) {
		if (quote == '\0' && *at == '$' && at[1] >= '0' && at[1] <= '9') {
			char *end = nullptr;
			long number = strtol(at + 1, &end, 10);
			append_column_name(&out, relid, static_cast<int>(number) - param_offset);
			at = end;
			continue;
		}
		if (quote != '\0' ? *at == quote : (*at == '\'' || *at == '"'))
			quote = quote != '\0' ? '\0' : *at;
		appendStringInfoCharMacro(&out, *at);
		at++;
	}
	return out.data;
}

bool
find_hidden(Node *node, void *context)
{
	if (node == nullptr)
		return false;
	if (IsA(node, Var)) {
		AttrNumber attnum = reinterpret_cast<Var *>(node)->varattno;
		/* the whole row has them all; system columns are nobody's secret */
		return attnum == 0 || (attnum > 0 && !bms_is_member(attnum, static_cast<const Bitmapset *>(context)));
	}
	return compat::walk_expression(node, find_hidden, context);
}

} // namespace

char *
deparse(Node *expression, Oid relid)
{
	Node *bare = replace_columns(expression, nullptr);

	return name_columns(deparse_expression(bare, NIL, false, false), relid);
}

bool
mentions_hidden(Node *expression, const Bitmapset *visible)
{
	return visible != nullptr && find_hidden(expression, const_cast<Bitmapset *>(visible));
}

char *
hash_digits(const char *text, int length)
{
	uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(text), length, 0);

	return psprintf("%08x%08x", static_cast<uint32>(hash >> 32), static_cast<uint32>(hash));
}

} // namespace schemasync::pg::catalog
