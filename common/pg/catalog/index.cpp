#include "pg/catalog/catalog.hpp"
#include "pg/catalog/expression.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/parts.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/amapi.h"
#include "catalog/dependency.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "commands/defrem.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace schemasync::pg::catalog {

namespace {

/* The columns of pg_index that are not in its C struct. */
struct Keys {
	const oidvector *collations;
	const oidvector *classes;
	const int2vector *options;
	List *expressions;
};

// ---- leaves: may ereport; plain data only ----

Datum
index_attribute(HeapTuple index, int attnum, bool *isnull)
{
	return SysCacheGetAttr(INDEXRELID, index, static_cast<AttrNumber>(attnum), isnull);
}

Node *
index_nodes(HeapTuple index, int attnum)
{
	bool isnull = true;
	Datum value = index_attribute(index, attnum, &isnull);

	return isnull ? nullptr : static_cast<Node *>(stringToNode(TextDatumGetCString(value)));
}

Keys
read_keys(HeapTuple index)
{
	bool isnull = true;
	Keys keys{};

	keys.collations = reinterpret_cast<const oidvector *>(
	    DatumGetPointer(index_attribute(index, Anum_pg_index_indcollation, &isnull)));
	keys.classes =
	    reinterpret_cast<const oidvector *>(DatumGetPointer(index_attribute(index, Anum_pg_index_indclass, &isnull)));
	keys.options = reinterpret_cast<const int2vector *>(
	    DatumGetPointer(index_attribute(index, Anum_pg_index_indoption, &isnull)));
	keys.expressions = reinterpret_cast<List *>(index_nodes(index, Anum_pg_index_indexprs));
	return keys;
}

/* "<before>name=value, ...)" of a reloptions array; nothing when it is empty */
bool
append_options(StringInfo out, const char *before, Datum array)
{
	Datum *values = nullptr;
	bool begun = false;
	int count = 0;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &values, nullptr, &count);
	for (int i = 0; i < count; i++) {
		char *name = TextDatumGetCString(values[i]);
		if (compat::is_attribute_version(name))
			continue;
		char *value = strchr(name, '=');
		if (value != nullptr)
			*value++ = '\0';
		appendStringInfo(out, "%s%s", begun ? ", " : before, quote_identifier(name));
		begun = true;
		/* the grammar takes words and numbers; anything else in quotes */
		if (value != nullptr)
			appendStringInfo(out, "=%s", quote_identifier(value) == value ? value : quote_literal_cstr(value));
	}
	if (begun)
		appendStringInfoChar(out, ')');
	return begun;
}

void
append_sort_order(StringInfo out, int option)
{
	bool nulls_first = (option & INDOPTION_NULLS_FIRST) != 0;

	if ((option & INDOPTION_DESC) != 0)
		appendStringInfoString(out, nulls_first ? " DESC" : " DESC NULLS LAST");
	else if (nulls_first)
		appendStringInfoString(out, " NULLS FIRST");
}

bool
is_default_class(Oid opclass, Oid type, Oid method)
{
	HeapTuple tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));

	if (!HeapTupleIsValid(tuple))
		return false;
	auto *form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(tuple));
	bool marked = form->opcdefault;
	bool exact = marked && form->opcintype == getBaseType(type);
	ReleaseSysCache(tuple);
	/* the common case, without a look at the others */
	return exact || (marked && default_operator_class(type, method) == opclass);
}

/* The column or expression of one key, with its type and collation. */
void
append_key(StringInfo out, const Subject &subject, AttrNumber attnum, List *expressions, int *next_expression, Oid *type,
           Oid *collation)
{
	int32 typmod = -1;

	if (attnum != 0) {
		const char *name = get_attname(subject.relid, attnum, true);
		appendStringInfoString(out, name != nullptr ? quote_identifier(name) : "?");
		if (attnum > 0)
			get_atttypetypmodcoll(subject.relid, attnum, type, &typmod, collation);
		return;
	}
	if (*next_expression >= list_length(expressions))
		elog(ERROR, "index of relation %u has too few expressions", subject.relid);
	auto *expression = static_cast<Node *>(list_nth(expressions, (*next_expression)++));
	appendStringInfo(out, "(%s)", deparse(expression, subject.relid));
	*type = exprType(expression);
	*collation = exprCollation(expression);
}

void
append_index_keys(StringInfo out, const Subject &subject, const FormData_pg_index *form, const Keys &keys, Oid method,
                  bool ordered, const Oid *operators)
{
	int next_expression = 0;

	for (int i = 0; i < form->indnatts; i++) {
		Oid type = InvalidOid;
		Oid collation = InvalidOid;

		if (i == form->indnkeyatts)
			appendStringInfoString(out, ") INCLUDE (");
		else if (i > 0)
			appendStringInfoString(out, ", ");
		append_key(out, subject, form->indkey.values[i], keys.expressions, &next_expression, &type, &collation);
		if (i >= form->indnkeyatts)
			continue;

		StringInfoData options;
		Datum option_array = get_attoptions(form->indexrelid, static_cast<int16>(i + 1));
		initStringInfo(&options);
		bool has_options = option_array != 0 && append_options(&options, " (", option_array);
		append_key_decoration(out, type, keys.collations->values[i], collation, keys.classes->values[i], method,
		                      has_options);
		appendStringInfoString(out, options.data);
		if (ordered)
			append_sort_order(out, keys.options->values[i]);
		if (operators != nullptr)
			appendStringInfo(out, " WITH %s", operator_name(operators[i]));
	}
}

/* The partitioned table's index that this one belongs to. */
Oid
parent_of(Oid index)
{
	Oid parent = InvalidOid;

	scan_by_oid(InheritsRelationId, InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid, index,
	            [&parent](HeapTuple tuple, TupleDesc) {
		            parent = reinterpret_cast<Form_pg_inherits>(GETSTRUCT(tuple))->inhparent;
	            });
	return parent;
}

/*
 * CREATE INDEX as the server shows it, but without a tablespace, and without ONLY where the index of a partitioned
 * table is complete: then creating it makes those of the partitions too.
 */
char *
full_definition(const Subject &subject, const FormData_pg_index *form, const char *name)
{
	StringInfoData out;
	bool only = subject.relkind == RELKIND_PARTITIONED_TABLE && !form->indisvalid;

	initStringInfo(&out);
	appendStringInfo(&out, "CREATE %sINDEX %s ON %s%s ", form->indisunique ? "UNIQUE " : "", quote_identifier(name),
	                 only ? "ONLY " : "", quote_qualified_identifier(subject.schema, subject.name));
	append_index_definition(&out, subject, form->indexrelid, nullptr);
	return out.data;
}

void
append_index(StringInfo out, const Subject &subject, HeapTuple tuple)
{
	auto *form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
	const char *name = get_rel_name(form->indexrelid);
	List *expressions = read_index_expressions(tuple);

	if (name == nullptr)
		return;
	json::begin_object(out);
	json::number(out, "oid", form->indexrelid);
	json::string(out, "schema", subject.schema);
	json::string(out, "name", name);
	json::string(out, "definition", full_definition(subject, form, name));
	json::boolean(out, "unique", form->indisunique);
	json::boolean(out, "primary", form->indisprimary);
	json::boolean(out, "valid", form->indisvalid);
	json::boolean(out, "immediate", form->indimmediate);
	json::boolean(out, "replica_identity", form->indisreplident);
	json::begin_array(out, "columns");
	for (int i = 0; i < form->indnatts; i++)
		json::element(out, form->indkey.values[i]);
	json::end_array(out);
	json::number(out, "keys", form->indnkeyatts);
	json::number(out, "constraint", get_index_constraint(form->indexrelid));
	json::number(out, "parent", subject.partition ? parent_of(form->indexrelid) : InvalidOid);
	if (expressions != NIL)
		append_expression_field(out, "expr", reinterpret_cast<Node *>(expressions), subject.relid);
	json::boolean(out, "nulls_not_distinct", form->indnullsnotdistinct);
	json::end_object(out);
}

List *
read_index_oids(Oid relid)
{
	List *indexes = NIL;

	scan_by_oid(IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid, relid,
	            [&indexes](HeapTuple tuple, TupleDesc) {
		            auto *form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
		            if (form->indislive)
			            indexes = lappend_oid(indexes, form->indexrelid);
	            });
	list_sort(indexes, list_oid_cmp);
	return indexes;
}

/* What the server lets stand for the rows: RelationGetIndexList() has the same conditions. */
bool
identifies_rows(HeapTuple tuple)
{
	auto *form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));

	return form->indisvalid && form->indisunique && form->indimmediate &&
	       heap_attisnull(tuple, Anum_pg_index_indpred, nullptr);
}

} // namespace

List *
read_index_expressions(HeapTuple index)
{
	auto *expressions = reinterpret_cast<List *>(index_nodes(index, Anum_pg_index_indexprs));
	Node *predicate = index_nodes(index, Anum_pg_index_indpred);

	return predicate != nullptr ? lappend(expressions, predicate) : expressions;
}

bool
index_is_hidden(const Subject &subject, HeapTuple index)
{
	auto *form = reinterpret_cast<Form_pg_index>(GETSTRUCT(index));

	if (subject.visible == nullptr)
		return false;
	for (int i = 0; i < form->indnatts; i++)
		if (!is_visible(subject, form->indkey.values[i]))
			return true;
	return mentions_hidden(reinterpret_cast<Node *>(read_index_expressions(index)), subject.visible);
}

void
append_key_decoration(StringInfo out, Oid type, Oid collation, Oid key_collation, Oid opclass, Oid method,
                      bool always_class)
{
	if (OidIsValid(collation) && collation != key_collation)
		appendStringInfo(out, " COLLATE %s", collation_name(collation));
	if (always_class || !is_default_class(opclass, type, method)) {
		const char *name = operator_class_name(opclass);
		appendStringInfo(out, " %s", name != nullptr ? name : "?");
	}
}

void
append_index_definition(StringInfo out, const Subject &subject, Oid index, const Oid *operators)
{
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	HeapTuple relation = SearchSysCache1(RELOID, ObjectIdGetDatum(index));

	if (HeapTupleIsValid(tuple) && HeapTupleIsValid(relation)) {
		auto *form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
		Oid method = reinterpret_cast<Form_pg_class>(GETSTRUCT(relation))->relam;
		const char *method_name = get_am_name(method);
		const IndexAmRoutine *routine = GetIndexAmRoutineByAmId(method, false);
		bool isnull = true;

		appendStringInfo(out, "%sUSING %s (", operators != nullptr ? "EXCLUDE " : "",
		                 quote_identifier(method_name != nullptr ? method_name : "?"));
		append_index_keys(out, subject, form, read_keys(tuple), method, routine->amcanorder, operators);
		appendStringInfoChar(out, ')');
		if (form->indnullsnotdistinct)
			appendStringInfoString(out, " NULLS NOT DISTINCT");
		Datum options = SysCacheGetAttr(RELOID, relation, Anum_pg_class_reloptions, &isnull);
		if (!isnull)
			append_options(out, " WITH (", options);
		Node *predicate = index_nodes(tuple, Anum_pg_index_indpred);
		if (predicate != nullptr)
			appendStringInfo(out, " WHERE (%s)", deparse(predicate, subject.relid));
	}
	if (HeapTupleIsValid(relation))
		ReleaseSysCache(relation);
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
}

void
append_indexes(StringInfo out, const Subject &subject)
{
	List *indexes = read_index_oids(subject.relid);
	ListCell *cell;

	json::begin_array(out, "indexes");
	foreach (cell, indexes) {
		HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		if (!HeapTupleIsValid(tuple))
			continue;
		if (!index_is_hidden(subject, tuple))
			append_index(out, subject, tuple);
		ReleaseSysCache(tuple);
	}
	json::end_array(out);
}

void
append_replica_identity(StringInfo out, const Subject &subject)
{
	List *indexes = read_index_oids(subject.relid);
	bool wanted = subject.replica_identity == REPLICA_IDENTITY_DEFAULT ||
	              subject.replica_identity == REPLICA_IDENTITY_INDEX;
	Bitmapset *columns = nullptr;
	Oid found = InvalidOid;
	ListCell *cell;

	foreach (cell, indexes) {
		HeapTuple tuple =
		    wanted ? SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell))) : HeapTuple{nullptr};
		if (!HeapTupleIsValid(tuple))
			continue;
		auto *form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
		bool chosen = subject.replica_identity == REPLICA_IDENTITY_DEFAULT ? form->indisprimary : form->indisreplident;
		if (chosen && identifies_rows(tuple)) {
			found = form->indexrelid;
			for (int i = 0; i < form->indnkeyatts; i++)
				columns = bms_add_member(columns, form->indkey.values[i]);
		}
		ReleaseSysCache(tuple);
	}

	json::number(out, "replica_identity_index", found);
	json::begin_array(out, "identity_columns");
	scan_by_oid(AttributeRelationId, AttributeRelidNumIndexId, Anum_pg_attribute_attrelid, subject.relid,
	            [&](HeapTuple tuple, TupleDesc) {
		            auto *attribute = reinterpret_cast<Form_pg_attribute>(GETSTRUCT(tuple));
		            if (attribute->attnum > 0 && !attribute->attisdropped && is_visible(subject, attribute->attnum) &&
		                (subject.replica_identity == REPLICA_IDENTITY_FULL || bms_is_member(attribute->attnum, columns)))
			            json::element(out, attribute->attnum);
	            });
	json::end_array(out);
}

} // namespace schemasync::pg::catalog
