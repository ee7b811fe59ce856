/*
 * schemasync_describe_published: what a subscriber asks of the publisher when its initial copy begins: a relation's state and the types
 * it needs, as the stream would send them for these publications.
 *
 * Zone: server code; leaves throughout. The catalogs are open to every role, and so is this function.
 */
#include "pg/catalog/catalog.hpp"

extern "C" {
#include "access/relation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(schemasync_describe_published);
}

SCHEMASYNC_EXPORT Datum schemasync_describe_published(PG_FUNCTION_ARGS);

namespace catalog = schemasync::pg::catalog;

namespace {

// ---- leaves: may ereport; plain data only ----

Bitmapset *
read_columns(ArrayType *array)
{
	Datum *elements = nullptr;
	bool *nulls = nullptr;
	int count = 0;
	Bitmapset *columns = nullptr;

	deconstruct_array(array, INT2OID, 2, true, TYPALIGN_SHORT, &elements, &nulls, &count);
	for (int i = 0; i < count; i++) {
		if (!nulls[i] && DatumGetInt16(elements[i]) > 0)
			columns = bms_add_member(columns, DatumGetInt16(elements[i]));
	}
	return columns;
}

} // namespace

Datum
schemasync_describe_published(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	Oid relid = PG_GETARG_OID(0);
	catalog::Published published;
	catalog::Reading reading;
	bool is_published = !PG_ARGISNULL(2);
	if (!PG_ARGISNULL(1))
		published.columns = read_columns(PG_GETARG_ARRAYTYPE_P(1));
	if (is_published) {
		published.filter = PG_GETARG_BOOL(2);
		published.via_root = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3);
		reading.published = &published;
	}

	/* keeps the several catalogs in step with each other while they are read */
	Relation relation = try_relation_open(relid, AccessShareLock);
	if (relation == nullptr)
		PG_RETURN_NULL();
	StringInfoData json;
	List *known = NIL;
	initStringInfo(&json);
	int nest_level = catalog::begin_pinned_settings();
	appendStringInfoString(&json, "{\"v\":1,\"relation\":");
	bool found = catalog::append_relation(&json, relid, &reading);
	appendStringInfoString(&json, ",\"types\":");
	catalog::append_types(&json, catalog::collect_relation_types(relid, published.columns, &known));
	appendStringInfoString(&json, ",\"provenance\":\"inferred\"}");
	catalog::end_pinned_settings(nest_level);
	relation_close(relation, AccessShareLock);
	if (!found)
		PG_RETURN_NULL();
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}
