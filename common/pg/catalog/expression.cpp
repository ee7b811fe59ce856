#include "pg/catalog/expression.hpp"

#include <cstring>

#include "pg/catalog/catalog.hpp"
#include "pg/catalog/digest.hpp"
#include "pg/catalog/json.hpp"
#include "pg/catalog/names.hpp"
#include "pg/catalog/scan.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/nbtree.h"
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
}

namespace schemasync::pg::catalog {

namespace {

/* What the walk over one expression gathers. */
struct Analysis {
	char volatility = PROVOLATILE_IMMUTABLE;
	List *references = NIL; /* of Reference, in the order of discovery, no two alike */
	List *domains = NIL;    /* whose constraints were walked */
	bool of_locale = false; /* a function in it looks at the locale of its collation ... */
	bool of_default = false; /* ... and something in it has the database's */
};

struct Reference {
	const char *kind;
	const char *name;
	const char *digest;
};

// ---- leaves: may ereport; plain data only ----

bool analyse(Node *node, void *context);

void
note_volatility(Analysis *analysis, char volatility)
{
	if (volatility == PROVOLATILE_VOLATILE ||
	    (volatility == PROVOLATILE_STABLE && analysis->volatility == PROVOLATILE_IMMUTABLE))
		analysis->volatility = volatility;
}

void
note_reference(Analysis *analysis, const char *kind, const char *name, const char *digest)
{
	ListCell *cell;

	if (name == nullptr)
		name = "?"; /* gone: nothing can be proven equal to it */
	foreach (cell, analysis->references) {
		auto *known = static_cast<Reference *>(lfirst(cell));
		if (strcmp(known->kind, kind) == 0 && strcmp(known->name, name) == 0)
			return;
	}
	auto *reference = static_cast<Reference *>(palloc(sizeof(Reference)));
	*reference = Reference{kind, name, digest};
	analysis->references = lappend(analysis->references, reference);
}

/*
 * Whether the result depends on the locale of texts: upper and lower case, the order, classes of characters. Of a function that is not built
 * in nobody can tell. That two texts are equal does not depend on it.
 */
void
note_locale(Analysis *analysis, HeapTuple tuple, Oid function)
{
	constexpr const char *names[] = {
	    "lower",          "upper",     "initcap",     "casefold",   "text_lt",        "text_le",        "text_gt",      "text_ge",
	    "text_larger",    "text_smaller", "bttextcmp", "bpcharlt",  "bpcharle",       "bpchargt",       "bpcharge",     "bpchar_larger",
	    "bpchar_smaller", "bpcharcmp", "namelttext",  "nameletext", "namegttext",     "namegetext",     "textltname",   "textlename",
	    "textgtname",     "textgename", "btnametextcmp", "bttextnamecmp", "array_lt", "array_le",       "array_gt",     "array_ge",
	    "array_larger",   "array_smaller", "btarraycmp", "record_lt", "record_le",    "record_gt",      "record_ge",    "btrecordcmp",
	    "range_lt",       "range_le",  "range_gt",    "range_ge",   "range_cmp",      "width_bucket_array"};
	constexpr const char *prefixes[] = {"texticlike", "texticnlike", "nameiclike", "nameicnlike", "regexp_", "array_sort"};
	constexpr const char *parts[] = {"regex", "to_tsvector", "to_tsquery", "ts_headline"};
	bool isnull = true;

	if (!is_built_in(function)) {
		analysis->of_locale = true;
		return;
	}
	Datum value = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	if (isnull)
		return;
	const char *source = TextDatumGetCString(value);
	for (const char *name : names)
		analysis->of_locale = analysis->of_locale || strcmp(source, name) == 0;
	for (const char *prefix : prefixes)
		analysis->of_locale = analysis->of_locale || strncmp(source, prefix, strlen(prefix)) == 0;
	for (const char *part : parts)
		analysis->of_locale = analysis->of_locale || strstr(source, part) != nullptr;
	/* of json, which has no collation, too */
	analysis->of_default = analysis->of_default || strstr(source, "_to_tsvector") != nullptr;
}

void
note_function(Analysis *analysis, Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));

	if (!HeapTupleIsValid(tuple)) {
		note_volatility(analysis, PROVOLATILE_VOLATILE);
		return;
	}
	note_volatility(analysis, reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->provolatile);
	note_locale(analysis, tuple, function);
	ReleaseSysCache(tuple);
	if (!is_built_in(function))
		note_reference(analysis, "function", format_procedure_qualified(function), digest_function(function));
}

bool
note_function_of_node(Oid function, void *context)
{
	note_function(static_cast<Analysis *>(context), function);
	return false;
}

void
note_operator(Analysis *analysis, Oid opno)
{
	if (!is_built_in(opno))
		note_reference(analysis, "operator", format_operator_qualified(opno), digest_operator(opno));
}

void
note_type(Analysis *analysis, Oid typid)
{
	if (!OidIsValid(typid))
		return;
	typid = strip_array(typid);
	if (!is_built_in(typid))
		note_reference(analysis, "type", type_sql(typid, -1), digest_type(typid));
}

void
note_collation(Analysis *analysis, Oid collation)
{
	if (OidIsValid(collation) && !is_built_in(collation))
		note_reference(analysis, "collation", collation_name(collation), digest_collation(collation));
}

/* What a cast to a domain checks is part of the expression. */
void
note_domain(Analysis *analysis, Oid domain)
{
	while (get_typtype(domain) == TYPTYPE_DOMAIN && !list_member_oid(analysis->domains, domain)) {
		analysis->domains = lappend_oid(analysis->domains, domain);
		note_type(analysis, domain);
		List *checks = read_domain_checks(domain);
		analyse(reinterpret_cast<Node *>(checks), analysis);

		HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(domain));
		if (!HeapTupleIsValid(tuple))
			return;
		domain = reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple))->typbasetype;
		ReleaseSysCache(tuple);
	}
}

/* A constant of one of the reg types names an object. */
void
note_constant(Analysis *analysis, const Const *constant)
{
	if (constant->constisnull || constant->constlen != sizeof(Oid))
		return;

	Oid oid = DatumGetObjectId(constant->constvalue);
	switch (constant->consttype) {
	case REGCLASSOID:
		if (!is_built_in(oid))
			note_reference(analysis, "relation", relation_name(oid), digest_relation(oid));
		break;
	case REGPROCOID:
	case REGPROCEDUREOID:
		if (OidIsValid(oid) && !is_built_in(oid))
			note_reference(analysis, "function", format_procedure_qualified(oid), digest_function(oid));
		break;
	case REGOPEROID:
	case REGOPERATOROID:
		note_operator(analysis, oid);
		break;
	case REGTYPEOID:
		note_type(analysis, oid);
		break;
	case REGCOLLATIONOID:
		note_collation(analysis, oid);
		break;
	default:
		break;
	}
}

/* GREATEST and LEAST compare with the type's default btree function. */
void
note_comparison(Analysis *analysis, Oid typid)
{
	Oid opclass = default_operator_class(typid, BTREE_AM_OID);

	if (!OidIsValid(opclass)) { /* an array, row or range: by its elements' function, which is not looked for */
		note_volatility(analysis, is_built_in(strip_array(typid)) ? PROVOLATILE_IMMUTABLE : PROVOLATILE_STABLE);
		return;
	}
	Oid input = get_opclass_input_type(opclass);
	Oid function = get_opfamily_proc(get_opclass_family(opclass), input, input, BTORDER_PROC);
	if (OidIsValid(function))
		note_function(analysis, function);
	else
		note_volatility(analysis, PROVOLATILE_VOLATILE);
}

/* A cast that is written out may be another one in the other database, or none. */
void
note_cast(Analysis *analysis, Oid source, Oid target, const char *digest)
{
	note_reference(analysis, "cast", psprintf("%s AS %s", type_sql(getBaseType(source), -1), type_sql(getBaseType(target), -1)),
	               digest);
}

void
note_function_call(Analysis *analysis, const FuncExpr *call)
{
	bool is_cast = call->funcformat == COERCE_EXPLICIT_CAST || call->funcformat == COERCE_IMPLICIT_CAST;

	if (!is_cast || call->args == NIL)
		return;
	Oid source = exprType(static_cast<Node *>(linitial(call->args)));
	/* a cast that was made here may be by a function of the server */
	if (is_built_in(call->funcid) && !is_own_cast(source, call->funcresulttype))
		return;
	note_cast(analysis, source, call->funcresulttype, digest_cast(source, call->funcresulttype));
}

/* The nodes that mean something besides the functions that the server finds in them; false: an unknown one. */
void
note_node(Analysis *analysis, Node *node)
{
	switch (nodeTag(node)) {
	case T_OpExpr:
	case T_DistinctExpr:
	case T_NullIfExpr:
		note_operator(analysis, reinterpret_cast<OpExpr *>(node)->opno);
		break;
	case T_ScalarArrayOpExpr:
		note_operator(analysis, reinterpret_cast<ScalarArrayOpExpr *>(node)->opno);
		break;
	case T_Const:
		note_constant(analysis, reinterpret_cast<Const *>(node));
		break;
	case T_FuncExpr:
		note_function_call(analysis, reinterpret_cast<FuncExpr *>(node));
		break;
	case T_CoerceViaIO: {
		auto *cast = reinterpret_cast<CoerceViaIO *>(node);
		/* by the text of the value, whatever cast was made since: read again it would be that cast */
		note_cast(analysis, exprType(reinterpret_cast<Node *>(cast->arg)), cast->resulttype, digest_cast(InvalidOid, InvalidOid));
		break;
	}
	case T_CoerceToDomain:
		note_domain(analysis, reinterpret_cast<CoerceToDomain *>(node)->resulttype);
		break;
	case T_MinMaxExpr:
		note_comparison(analysis, reinterpret_cast<MinMaxExpr *>(node)->minmaxtype);
		break;
	case T_SQLValueFunction:
	case T_XmlExpr:
		note_volatility(analysis, PROVOLATILE_STABLE);
		break;
	case T_NextValueExpr: {
		Oid sequence = reinterpret_cast<NextValueExpr *>(node)->seqid;
		note_volatility(analysis, PROVOLATILE_VOLATILE);
		note_reference(analysis, "relation", relation_name(sequence), digest_relation(sequence));
		break;
	}
	case T_CurrentOfExpr:
	case T_SubLink:
	case T_SubPlan:
	case T_Query:
		note_volatility(analysis, PROVOLATILE_VOLATILE);
		break;
	default:
		if (compat::is_sql_json(node))
			note_volatility(analysis, PROVOLATILE_STABLE);
		break;
	}
}

/* exprType() raises on nodes that are no expressions, such as lists. */
bool
has_type(const Node *node)
{
	switch (nodeTag(node)) {
	case T_Var:
	case T_Const:
	case T_Param:
	case T_FuncExpr:
	case T_OpExpr:
	case T_DistinctExpr:
	case T_NullIfExpr:
	case T_ScalarArrayOpExpr:
	case T_BoolExpr:
	case T_FieldSelect:
	case T_FieldStore:
	case T_RelabelType:
	case T_CoerceViaIO:
	case T_ArrayCoerceExpr:
	case T_ConvertRowtypeExpr:
	case T_CollateExpr:
	case T_CaseExpr:
	case T_ArrayExpr:
	case T_RowExpr:
	case T_CoalesceExpr:
	case T_MinMaxExpr:
	case T_SQLValueFunction:
	case T_CoerceToDomain:
	case T_CoerceToDomainValue:
	case T_SubscriptingRef:
		return true;
	default:
		return false;
	}
}

bool
analyse(Node *node, void *context)
{
	auto *analysis = static_cast<Analysis *>(context);

	if (node == nullptr)
		return false;
	check_functions_in_node(node, note_function_of_node, analysis);
	note_node(analysis, node);
	if (has_type(node)) {
		note_type(analysis, exprType(node));
		note_collation(analysis, exprCollation(node));
		note_collation(analysis, exprInputCollation(node));
		analysis->of_default = analysis->of_default || exprInputCollation(node) == DEFAULT_COLLATION_OID;
	}
	if (IsA(node, Query) || IsA(node, SubLink) || IsA(node, SubPlan))
		return false;
	return compat::walk_expression(node, analyse, context);
}

int
compare_references(const ListCell *a, const ListCell *b)
{
	auto *left = static_cast<const Reference *>(lfirst(a));
	auto *right = static_cast<const Reference *>(lfirst(b));
	int order = strcmp(left->kind, right->kind);

	return order != 0 ? order : strcmp(left->name, right->name);
}

} // namespace

void
append_expression(StringInfo out, Node *expression, Oid relid)
{
	Analysis analysis;
	ListCell *cell;

	analyse(expression, &analysis);
	if (analysis.of_locale && analysis.of_default)
		note_reference(&analysis, "collation", "default", digest_collation(DEFAULT_COLLATION_OID));
	/* in an order that does not come from oids, so that both sides of a subscription have the same */
	list_sort(analysis.references, compare_references);

	json::begin_object(out);
	json::string(out, "sql", deparse(expression, relid));
	json::character(out, "volatility", analysis.volatility);
	json::begin_array(out, "refs");
	foreach (cell, analysis.references) {
		auto *reference = static_cast<Reference *>(lfirst(cell));
		json::begin_object(out);
		json::string(out, "kind", reference->kind);
		json::string(out, "name", reference->name);
		json::string(out, "digest", reference->digest);
		json::end_object(out);
	}
	json::end_array(out);
	json::end_object(out);
}

void
append_expression_field(StringInfo out, const char *name, Node *expression, Oid relid)
{
	json::key(out, name);
	append_expression(out, expression, relid);
}

} // namespace schemasync::pg::catalog
