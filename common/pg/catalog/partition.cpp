#include "pg/catalog/expression.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/parts.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/sysattr.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

// ---- leaves: may ereport; plain data only ----

const char *
strategy_name(char strategy)
{
	switch (strategy) {
	case 'h':
		return "HASH";
	case 'l':
		return "LIST";
	default:
		return "RANGE";
	}
}

/* The operator classes of a hash key are of the hash method, of the other two of btree: found by the class itself. */
Oid
method_of(Oid opclass)
{
	HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	Oid method = InvalidOid;

	if (HeapTupleIsValid(tuple)) {
		method = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple))->opcmethod;
		ReleaseSysCache(tuple);
	}
	return method;
}

List *
read_key_expressions(HeapTuple tuple)
{
	bool isnull = true;
	Datum value = SysCacheGetAttr(PARTRELID, tuple, Anum_pg_partitioned_table_partexprs, &isnull);

	return isnull ? NIL : static_cast<List *>(stringToNode(TextDatumGetCString(value)));
}

bool
key_is_hidden(const Subject &subject, const FormData_pg_partitioned_table *form, List *expressions)
{
	for (int i = 0; i < form->partnatts; i++)
		if (!is_visible(subject, form->partattrs.values[i]))
			return true;
	return mentions_hidden(reinterpret_cast<Node *>(expressions), subject.visible);
}

/* Whether the partition's column of the parent's is one that is not visible. */
bool
key_column_is_hidden(const Subject &subject, Oid parent, AttrNumber attnum)
{
	const char *name = get_attname(parent, attnum, true);

	return name == nullptr || !is_visible(subject, get_attnum(subject.relid, name));
}

char *
key_definition(const Subject &subject, HeapTuple tuple, List *expressions)
{
	auto *form = reinterpret_cast<Form_pg_partitioned_table>(GETSTRUCT(tuple));
	bool isnull = true;
	auto *classes = reinterpret_cast<const oidvector *>(
	    DatumGetPointer(SysCacheGetAttr(PARTRELID, tuple, Anum_pg_partitioned_table_partclass, &isnull)));
	auto *collations = reinterpret_cast<const oidvector *>(
	    DatumGetPointer(SysCacheGetAttr(PARTRELID, tuple, Anum_pg_partitioned_table_partcollation, &isnull)));
	StringInfoData out;
	int next = 0;

	initStringInfo(&out);
	appendStringInfo(&out, "%s (", strategy_name(form->partstrat));
	for (int i = 0; i < form->partnatts; i++) {
		AttrNumber attnum = form->partattrs.values[i];
		Oid type = InvalidOid;
		Oid collation = InvalidOid;
		int32 typmod = -1;

		if (i > 0)
			appendStringInfoString(&out, ", ");
		if (attnum != 0) {
			const char *name = get_attname(subject.relid, attnum, true);
			appendStringInfoString(&out, name != nullptr ? quote_identifier(name) : "?");
			get_atttypetypmodcoll(subject.relid, attnum, &type, &typmod, &collation);
		} else if (next < list_length(expressions)) {
			auto *expression = static_cast<Node *>(list_nth(expressions, next++));
			appendStringInfo(&out, "(%s)", deparse(expression, subject.relid));
			type = exprType(expression);
			collation = exprCollation(expression);
		}
		append_key_decoration(&out, type, collations->values[i], collation, classes->values[i],
		                      method_of(classes->values[i]), false);
	}
	appendStringInfoChar(&out, ')');
	return out.data;
}

} // namespace

bool
bound_is_hidden(const Subject &subject)
{
	if (subject.visible == nullptr)
		return false;
	Oid parent = get_partition_parent(subject.relid, true);
	HeapTuple tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(parent));
	if (!HeapTupleIsValid(tuple))
		return true;
	auto *form = reinterpret_cast<Form_pg_partitioned_table>(GETSTRUCT(tuple));
	bool hidden = false;
	for (int i = 0; i < form->partnatts; i++)
		if (form->partattrs.values[i] != 0)
			hidden = hidden || key_column_is_hidden(subject, parent, form->partattrs.values[i]);
	Bitmapset *used = nullptr;
	pull_varattnos(reinterpret_cast<Node *>(read_key_expressions(tuple)), 1, &used);
	for (int i = -1; (i = bms_next_member(used, i)) >= 0;) {
		auto attnum = static_cast<AttrNumber>(i + FirstLowInvalidHeapAttributeNumber);
		/* (0: the whole row) */
		hidden = hidden || attnum == 0 || key_column_is_hidden(subject, parent, attnum);
	}
	ReleaseSysCache(tuple);
	return hidden;
}

void
append_partitioning(StringInfo out, const Subject &subject, HeapTuple relation)
{
	HeapTuple tuple = subject.relkind == RELKIND_PARTITIONED_TABLE
	                      ? SearchSysCache1(PARTRELID, ObjectIdGetDatum(subject.relid))
	                      : HeapTuple{nullptr};
	bool isnull = true;

	if (HeapTupleIsValid(tuple)) {
		List *expressions = read_key_expressions(tuple);
		if (!key_is_hidden(subject, reinterpret_cast<Form_pg_partitioned_table>(GETSTRUCT(tuple)), expressions)) {
			json::string(out, "partition_key", key_definition(subject, tuple, expressions));
			if (expressions != NIL)
				append_expression_field(out, "partition_key_expr", reinterpret_cast<Node *>(expressions), subject.relid);
		}
		ReleaseSysCache(tuple);
	}

	if (subject.alone)
		json::boolean(out, "partition_hidden", true);
	Datum bound = SysCacheGetAttr(RELOID, relation, Anum_pg_class_relpartbound, &isnull);
	if (!isnull && !subject.alone)
		json::string(out, "partition_bound",
		           deparse_expression(static_cast<Node *>(stringToNode(TextDatumGetCString(bound))), NIL, false, false));
}

} // namespace schemasync::pg::catalog
