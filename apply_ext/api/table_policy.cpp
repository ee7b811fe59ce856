/*
 * schemasync_set_table_policy: what one table has otherwise than its subscription.
 */
#include "apply_ext/api/target.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/options.hpp"
#include "apply_ext/worker/control.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(schemasync_set_table_policy);
}

SCHEMASYNC_EXPORT Datum schemasync_set_table_policy(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

// ---- leaves: may ereport; plain data only ----

/* Changes of a partitioned table reach its partitions, so what is decided for it is decided for them. */
constexpr char set_sql[] =
	"WITH RECURSIVE tree AS ("
	" SELECT publisher_oid FROM schemasync.relation WHERE subid = $1 AND relid = $2 AND state <> 'removed'"
	" UNION SELECT r.publisher_oid FROM schemasync.relation r JOIN tree t"
	"  ON r.subid = $1 AND r.base::json->>'partition_bound' IS NOT NULL AND (r.base::json->'parents'->0->>'oid')::oid = t.publisher_oid)"
	" UPDATE schemasync.relation r SET options = jsonb_strip_nulls(r.options || $3),"
	"  adopt = r.adopt OR r.options->'ddl_classes' IS DISTINCT FROM jsonb_strip_nulls(r.options || $3)->'ddl_classes' FROM tree"
	" WHERE r.subid = $1 AND r.publisher_oid = tree.publisher_oid";

void
set_table_policy(const char *name, Oid relid, const char *policy)
{
	using namespace catalog;

	check_table_policy(policy);
	Subscription *subscription = locked_target(name);
	Internal internal = begin_internal();
	std::uint64_t found = run(set_sql, {as_int8(subscription->subid), as_oid(relid), as_json(policy)});
	end_internal(internal);
	if (found == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
		                errmsg("table \"%s\" is not one of subscription \"%s\"", get_rel_name(relid), name)));
	worker::restart_at_commit(subscription->subid);
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_set_table_policy(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	char *name = required_text(fcinfo, 0, "name");
	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("relation must not be null")));
	if (PG_ARGISNULL(2))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("policy must not be null")));
	Jsonb *policy = PG_GETARG_JSONB_P(2);
	set_table_policy(name, PG_GETARG_OID(1), JsonbToCString(nullptr, &policy->root, VARSIZE(policy)));
	PG_RETURN_VOID();
}
