/*
 * schemasync_describe and its like: an object's state as the catalog reader sees it, as jsonb.
 *
 * Zone: server code; leaves throughout. The catalogs are open to every role, and so are these functions.
 */
#include "pg/catalog/catalog.hpp"

extern "C" {
#include "access/relation.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(schemasync_describe);
PG_FUNCTION_INFO_V1(schemasync_describe_type);
PG_FUNCTION_INFO_V1(schemasync_describe_types);
}

namespace catalog = schemasync::pg::catalog;

namespace {

// ---- leaves: may ereport; plain data only ----

Datum
as_jsonb(const StringInfoData &json)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

} // namespace

SCHEMASYNC_EXPORT Datum
schemasync_describe(PG_FUNCTION_ARGS)
{
	Oid relid = PG_GETARG_OID(0);
	StringInfoData json;

	initStringInfo(&json);
	/* keeps the several catalogs in step with each other while they are read */
	Relation relation = try_relation_open(relid, AccessShareLock);
	if (relation == nullptr)
		PG_RETURN_NULL();
	int nest_level = catalog::begin_pinned_settings();
	bool found = catalog::append_relation(&json, relid, nullptr);
	catalog::end_pinned_settings(nest_level);
	relation_close(relation, AccessShareLock);
	if (!found)
		PG_RETURN_NULL();
	return as_jsonb(json);
}

SCHEMASYNC_EXPORT Datum
schemasync_describe_type(PG_FUNCTION_ARGS)
{
	StringInfoData json;

	initStringInfo(&json);
	int nest_level = catalog::begin_pinned_settings();
	bool found = catalog::append_type(&json, PG_GETARG_OID(0));
	catalog::end_pinned_settings(nest_level);
	if (!found)
		PG_RETURN_NULL();
	return as_jsonb(json);
}

SCHEMASYNC_EXPORT Datum
schemasync_describe_types(PG_FUNCTION_ARGS)
{
	StringInfoData json;
	List *known = NIL;

	initStringInfo(&json);
	int nest_level = catalog::begin_pinned_settings();
	catalog::append_types(&json, catalog::collect_relation_types(PG_GETARG_OID(0), nullptr, &known));
	catalog::end_pinned_settings(nest_level);
	return as_jsonb(json);
}
