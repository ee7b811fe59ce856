/*
 * schemasync_resume, schemasync_resolve, schemasync_skip: the ways on after a refusal or an error.
 */
#include "apply_ext/api/target.hpp"
#include "apply_ext/catalog/index_build.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/notify.hpp"
#include "apply_ext/worker/control.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "executor/spi.h"
#include "replication/origin.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"

PG_FUNCTION_INFO_V1(schemasync_resume);
PG_FUNCTION_INFO_V1(schemasync_resolve);
PG_FUNCTION_INFO_V1(schemasync_skip);
}

SCHEMASYNC_EXPORT Datum schemasync_resume(PG_FUNCTION_ARGS);
SCHEMASYNC_EXPORT Datum schemasync_resolve(PG_FUNCTION_ARGS);
SCHEMASYNC_EXPORT Datum schemasync_skip(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

// ---- leaves: may ereport; plain data only ----

constexpr char go_on_sql[] =
	"UPDATE schemasync.subscription SET enabled = true, drain = false, drain_lsn = NULL, last_error = NULL,"
	" state = CASE WHEN copied THEN 'ready' ELSE 'init' END, state_since = clock_timestamp() WHERE subid = $1";

void
resume(const char *name)
{
	using namespace catalog;

	char *by = caller();
	Subscription *subscription = locked_target(name);
	Internal internal = begin_internal();
	run("UPDATE schemasync.refusal SET status = 'resolved', resolution = 'resumed', resolved_at = clock_timestamp(),"
	    " resolved_by = $2, resolution_sql = NULL WHERE subid = $1 AND status = 'open'",
	    {as_int8(subscription->subid), as_text(by)});
	run(go_on_sql, {as_int8(subscription->subid)});
	notify("resumed", name, {{"by", by}});
	end_internal(internal);
	hasten_index_builds(subscription->subid);
	worker::restart_at_commit(subscription->subid);
}

struct Refusal {
	char *subscription, *status, *suggested_sql;
};

Refusal
load_refusal(std::int64_t refusal_id)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	Refusal refusal = {};
	Internal internal = begin_internal();
	if (run("SELECT s.name, r.status, r.suggested_sql FROM schemasync.refusal r JOIN schemasync.subscription s USING (subid)"
	        " WHERE refusal_id = $1",
	        {as_int8(refusal_id)}) == 1) {
		refusal.subscription = result_text(0, 1, context);
		refusal.status = result_text(0, 2, context);
		refusal.suggested_sql = result_text(0, 3, context);
	}
	end_internal(internal);
	if (refusal.subscription == nullptr)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("refusal " INT64_FORMAT " does not exist", refusal_id)));
	return refusal;
}

/* What the worker shall run at the boundary. */
const char *
resolution_sql(const Refusal &refusal, std::int64_t refusal_id, const char *action, const char *sql)
{
	bool execute = strcmp(action, "execute") == 0, apply = strcmp(action, "apply") == 0;

	if (!execute && !apply && strcmp(action, "skip") != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid action: \"%s\"", action),
		                errdetail("Known values: apply, execute, skip.")));
	if (execute && (sql == nullptr || sql[strspn(sql, " \t\r\n;")] == '\0'))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the action execute needs sql")));
	if (!execute && sql != nullptr)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the action %s takes no sql", action)));
	if (apply && refusal.suggested_sql == nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("refusal " INT64_FORMAT " has no suggested SQL to apply", refusal_id),
		                errhint("Use the action execute with SQL of your own, or repair by hand and call schemasync_resume.")));
	return execute ? sql : apply ? refusal.suggested_sql : nullptr;
}

void
resolve(std::int64_t refusal_id, const char *action, const char *sql)
{
	using namespace catalog;

	char *by = caller();
	Refusal refusal = load_refusal(refusal_id);
	Subscription *subscription = locked_target(refusal.subscription);
	refusal = load_refusal(refusal_id); /* again: now nobody else changes it */
	if (strcmp(refusal.status, "open") != 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("refusal " INT64_FORMAT " is already %s", refusal_id, refusal.status)));
	const char *run_sql = resolution_sql(refusal, refusal_id, action, sql);

	Internal internal = begin_internal();
	run("UPDATE schemasync.refusal SET status = 'resolved', resolution = $2, resolution_sql = $3,"
	    " resolved_at = clock_timestamp(), resolved_by = $4 WHERE refusal_id = $1",
	    {as_int8(refusal_id), as_text(action), as_text(run_sql), as_text(by)});
	run(go_on_sql, {as_int8(subscription->subid)});
	notify("answered", subscription->name, {{"by", by}, {"action", action}});
	end_internal(internal);
	worker::restart_at_commit(subscription->subid);
}

void
skip(const char *name, XLogRecPtr lsn)
{
	using namespace catalog;

	char *by = caller();
	Subscription *subscription = locked_target(name);
	/* not the origin's caught-up position of a running session: the worker reports it in shared memory first */
	worker::Status status = {};
	if (worker::get_status(subscription->subid, &status) && lsn < status.applied)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("position %s has already been applied", pg::compat::lsn_text(lsn)),
		                errdetail("Subscription \"%s\" has come to %s.", name, pg::compat::lsn_text(status.applied))));

	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET skip_lsn = $2 WHERE subid = $1", {as_int8(subscription->subid), as_lsn(lsn)});
	run("UPDATE schemasync.refusal SET status = 'resolved', resolution = 'skipped', resolved_at = clock_timestamp(),"
	    " resolved_by = $3, resolution_sql = NULL WHERE subid = $1 AND status = 'open' AND publisher_lsn = $2",
	    {as_int8(subscription->subid), as_lsn(lsn), as_text(by)});
	run("INSERT INTO schemasync.conflict (subid, subscription, relation, command, conflict, resolution, publisher_lsn)"
	    " VALUES ($1, $2, '', 'TRANSACTION', 'skipped', 'keep_local', $3)",
	    {as_int8(subscription->subid), as_text(name), as_lsn(lsn)});
	run(go_on_sql, {as_int8(subscription->subid)});
	end_internal(internal);
	worker::restart_at_commit(subscription->subid);
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_resume(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	resume(required_text(fcinfo, 0, "name"));
	PG_RETURN_VOID();
}

Datum
schemasync_resolve(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("refusal_id must not be null")));
	char *action = required_text(fcinfo, 1, "action");
	resolve(PG_GETARG_INT64(0), action, text_argument(fcinfo, 2));
	PG_RETURN_VOID();
}

Datum
schemasync_skip(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	char *name = required_text(fcinfo, 0, "name");
	if (PG_ARGISNULL(1) || XLogRecPtrIsInvalid(PG_GETARG_LSN(1)))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("lsn must not be null or 0/0")));
	skip(name, PG_GETARG_LSN(1));
	PG_RETURN_VOID();
}
