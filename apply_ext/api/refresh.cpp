/*
 * schemasync_refresh and schemasync_resync: what is new, or one table afresh, is copied beside the stream (worker/beside.hpp).
 */
#include "apply_ext/api/target.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/control.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(schemasync_refresh);
PG_FUNCTION_INFO_V1(schemasync_resync);
}

SCHEMASYNC_EXPORT Datum schemasync_refresh(PG_FUNCTION_ARGS);
SCHEMASYNC_EXPORT Datum schemasync_resync(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

// ---- leaves: may ereport; plain data only ----

/* A first copy that still runs finds new tables by itself, and goes by the subscription's own copy_data. */
constexpr char refresh_sql[] = "UPDATE schemasync.subscription SET refresh_copy = $2, refresh = true WHERE subid = $1 AND copied";

void
go_on_unless_refused(std::int64_t subid)
{
	using namespace catalog;

	run("UPDATE schemasync.subscription s SET state = 'ready', state_since = clock_timestamp(), last_error = NULL"
	    " WHERE subid = $1 AND state = 'refused' AND NOT EXISTS (SELECT FROM schemasync.refusal r WHERE r.subid = s.subid AND r.status = 'open')",
	    {as_int8(subid)});
}

/* A refusal because a table is not known is what the refresh repairs. */
void
settle_refusals(std::int64_t subid, const char *by)
{
	using namespace catalog;

	run("UPDATE schemasync.refusal SET status = 'resolved', resolution = 'resumed', resolved_at = clock_timestamp(),"
	    " resolved_by = $2 WHERE subid = $1 AND status = 'open' AND reason = 'missing_object'",
	    {as_int8(subid), as_text(by)});
	go_on_unless_refused(subid);
}

void
refresh_one(const char *name, bool copy_data)
{
	using namespace catalog;

	char *by = caller();
	Subscription *subscription = locked_target(name);
	Internal internal = begin_internal();
	run(refresh_sql, {as_int8(subscription->subid), as_boolean(copy_data)});
	run("UPDATE schemasync.relation SET state = 'init' WHERE subid = $1 AND state = 'needs_refresh'", {as_int8(subscription->subid)});
	settle_refusals(subscription->subid, by);
	end_internal(internal);
	worker::restart_at_commit(subscription->subid);
}

/* Of all subscriptions that the caller owns. */
void
refresh_all(bool copy_data)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	char *by = caller();
	Internal internal = begin_internal();
	std::uint64_t count = run("SELECT name FROM schemasync.subscription WHERE pg_has_role($1::name, owner, 'USAGE') ORDER BY subid",
	                          {as_text(by)});
	char **names = static_cast<char **>(MemoryContextAllocZero(context, sizeof(char *) * (count + 1)));
	for (std::uint64_t i = 0; i < count; i++)
		names[i] = result_text(i, 1, context);
	end_internal(internal);
	for (std::uint64_t i = 0; i < count; i++)
		refresh_one(names[i], copy_data);
}

void
resync(const char *name, Oid relid)
{
	using namespace catalog;

	char *by = caller();
	Subscription *subscription = locked_target(name);
	Internal internal = begin_internal();
	/* one that was dropped here and made again is known by its name */
	std::uint64_t found = run("UPDATE schemasync.relation r SET state = 'init', resync = true FROM pg_catalog.pg_class c"
	                          " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
	                          " WHERE r.subid = $1 AND c.oid = $2 AND r.state <> 'removed' AND (r.relid = c.oid OR"
	                          "  (r.publisher_schema = n.nspname AND r.publisher_name = c.relname"
	                          "   AND NOT EXISTS (SELECT FROM pg_catalog.pg_class o WHERE o.oid = r.relid)))",
	                          {as_int8(subscription->subid), as_oid(relid)});
	/* the table's rows and states are passed over up to the copy, so what stands in their way does so no more; a refusal at the end of a
	 * transaction may be of other tables too, for which it is no answer */
	run("UPDATE schemasync.refusal f SET status = 'resolved', resolution = CASE WHEN f.ordinal >= 2147483644 THEN 'satisfied' ELSE 'resumed' END, resolved_at = clock_timestamp(),"
	    " resolved_by = $2 FROM schemasync.relation r WHERE r.subid = $1 AND r.state = 'init' AND r.resync AND f.subid = $1"
	    " AND f.publisher_oid = r.publisher_oid AND f.status = 'open'",
	    {as_int8(subscription->subid), as_text(by)});
	go_on_unless_refused(subscription->subid);
	end_internal(internal);
	if (found == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
		                errmsg("table \"%s\" is not one of subscription \"%s\"", get_rel_name(relid), name)));
	worker::restart_at_commit(subscription->subid);
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_refresh(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	char *name = text_argument(fcinfo, 0);
	bool copy_data = PG_ARGISNULL(1) || PG_GETARG_BOOL(1);
	schemasync::worker::require_preload();
	if (name != nullptr)
		refresh_one(name, copy_data);
	else
		refresh_all(copy_data);
	PG_RETURN_VOID();
}

Datum
schemasync_resync(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	char *name = required_text(fcinfo, 0, "name");
	if (PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("relation must not be null")));
	resync(name, PG_GETARG_OID(1));
	PG_RETURN_VOID();
}
