#include "apply_ext/capture/alter_table.hpp"

#include "pg/catalog/catalog.hpp"
#include "pg/catalog/names.hpp"
#include "pg/compat.hpp"
#include "pg/postgres.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::capture {

namespace {

// ---- leaves: may ereport; plain data only ----

/* Whether the expression names a column of the relation (its oid is the context) that the same command
 * dropped. */
bool
names_lost_column(Node *node, void *context)
{
	if (node == nullptr)
		return false;
	if (!IsA(node, Var))
		return pg::compat::walk_expression(node, names_lost_column, context);

	AttrNumber attnum = reinterpret_cast<Var *>(node)->varattno;
	if (attnum <= 0)
		return false;
	HeapTuple tuple = SearchSysCacheAttNum(*static_cast<Oid *>(context), attnum);
	if (!HeapTupleIsValid(tuple))
		return true;
	ReleaseSysCache(tuple);
	return false;
}

/* What the server made of the USING expression: it casts the result to the column's new type, and that cast
 * counts for the volatility. Deparsed it does not show. NULL where there is no such column or cast (any
 * more), or the expression names one that is gone. */
Node *
coerce_to_column(Node *expression, const ObjectAddress *column)
{
	Oid relid = column->objectId;
	if (expression == nullptr || names_lost_column(expression, &relid))
		return nullptr;
	HeapTuple tuple = SearchSysCacheAttNum(column->objectId, static_cast<int16>(column->objectSubId));

	if (!HeapTupleIsValid(tuple))
		return nullptr;
	auto *attribute = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
	Oid type = attribute->atttypid;
	int32 typmod = attribute->atttypmod;
	ReleaseSysCache(tuple);
	return coerce_to_target_type(nullptr, expression, exprType(expression), type, typmod, COERCION_ASSIGNMENT,
	                             COERCE_IMPLICIT_CAST, -1);
}

Oid
type_of_column(const ObjectAddress *column)
{
	Oid type = InvalidOid;
	HeapTuple tuple = SearchSysCacheAttNum(column->objectId, static_cast<int16>(column->objectSubId));

	if (HeapTupleIsValid(tuple)) {
		type = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple))->atttypid;
		ReleaseSysCache(tuple);
	}
	return type;
}

/*
 * The types from which a cast that was made in this database, by a function, leads to the column's: the server took it when the column was
 * of one of them. Of an array its elements' are.
 */
void
append_casts(StringInfo elements, const ObjectAddress *column)
{
	Oid type = type_of_column(column);
	if (!OidIsValid(type))
		return;
	Oid base = getBaseType(type);
	Oid element = get_element_type(base);
	Oid targets[] = {type, base, element, OidIsValid(element) ? getBaseType(element) : InvalidOid};
	Relation casts = table_open(CastRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(casts, InvalidOid, false, nullptr, 0, nullptr);
	HeapTuple tuple;

	appendStringInfoString(elements, ",\"casts\":[");
	bool first = true;
	while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
		auto *form = reinterpret_cast<Form_pg_cast>(GETSTRUCT(tuple));
		bool leads_here = false;
		for (Oid target : targets)
			leads_here = leads_here || (OidIsValid(target) && form->casttarget == target);
		if (pg::catalog::is_built_in(form->oid) || form->castmethod != COERCION_METHOD_FUNCTION || !leads_here)
			continue;
		appendStringInfo(elements, "%s%u", first ? "" : ",", form->castsource);
		first = false;
		/* it takes arrays there too */
		Oid array = form->casttarget == element || form->casttarget == targets[3] ? get_array_type(form->castsource) : InvalidOid;
		if (OidIsValid(array))
			appendStringInfo(elements, ",%u", array);
	}
	systable_endscan(scan);
	table_close(casts, AccessShareLock);
	appendStringInfoChar(elements, ']');
}

/*
 * A cast to the domain that the column has now, or to that of its elements, of a value of the type below it: it names the domain and all that
 * its checks call. What the column was before is not known any more, and the states tell it.
 */
Node *
domain_cast(const ObjectAddress *column)
{
	Oid type = type_of_column(column);
	int32 typmod = -1;

	if (Oid element = OidIsValid(type) ? get_element_type(type) : InvalidOid; OidIsValid(element))
		type = element;
	if (!OidIsValid(type) || get_typtype(type) != TYPTYPE_DOMAIN)
		return nullptr;
	Oid below = getBaseTypeAndTypmod(type, &typmod);
	auto *cast = makeNode(CoerceToDomain);
	cast->arg = reinterpret_cast<Expr *>(makeNullConst(below, typmod, InvalidOid));
	cast->resulttype = type;
	cast->resulttypmod = -1;
	cast->coercionformat = COERCE_EXPLICIT_CAST;
	cast->location = -1;
	return reinterpret_cast<Node *>(cast);
}

/* expression: null when there is none, or it cannot be read */
void
append_using_expression(StringInfo elements, Node *expression, const ObjectAddress *column)
{
	if (expression == nullptr) {
		appendStringInfoString(elements, "null");
		return;
	}
	int nest_level = pg::catalog::begin_pinned_settings();
	pg::catalog::append_expression(elements, expression, column->objectId);
	pg::catalog::end_pinned_settings(nest_level);
}

} // namespace

// ---- leaves: may ereport; plain data only ----

const char *
alter_table_type_name(AlterTableType type)
{
	/* from the headers of the server that is built against: the members differ between versions */
	switch (type) {
#include "apply_ext/alter_table_types.inc"
	default:
		return "AT_Unknown";
	}
}

bool
names_partition(AlterTableType type)
{
	return type == AT_AttachPartition || type == AT_DetachPartition || type == AT_DetachPartitionFinalize;
}

void
append_using_hint(StringInfo elements, const AlterTableCmd *subcommand, const ObjectAddress *column)
{
	if (subcommand->subtype != AT_AlterColumnType || column->classId != RelationRelationId ||
	    subcommand->def == nullptr)
		return;

	const ColumnDef *definition = castNode(ColumnDef, subcommand->def);
	bool given = definition->raw_default != nullptr;
	appendStringInfo(elements, "{\"relid\":%u,\"attnum\":%d,\"given\":%s,\"expr\":", column->objectId,
	                 column->objectSubId, given ? "true" : "false");
	/* parse analysis left the expression in cooked_default */
	append_using_expression(elements, given ? coerce_to_column(definition->cooked_default, column) : domain_cast(column), column);
	if (!given)
		append_casts(elements, column);
	appendStringInfoString(elements, "},");
}

} // namespace schemasync::capture
