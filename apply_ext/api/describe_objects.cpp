/*
 * schemasync_describe_objects: sequences of their own and everything of the opt-in classes that this database has, for
 * a subscriber that begins.
 *
 * Zone: server code; leaves throughout. The catalogs are open to every role, and so is this function.
 */
#include "apply_ext/catalog/definition.hpp"

extern "C" {
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(schemasync_describe_objects);
}

SCHEMASYNC_EXPORT Datum
schemasync_describe_objects(PG_FUNCTION_ARGS)
{
	auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	const schemasync::catalog::Definitions all = schemasync::catalog::read_all_definitions(PG_GETARG_BOOL(0));

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	for (int i = 0; i < all.count; i++) {
		Datum value = DirectFunctionCall1(jsonb_in, CStringGetDatum(all.texts[i]));
		bool null = false;
		tuplestore_putvalues(result->setResult, result->setDesc, &value, &null);
	}
	return Datum{0};
}
