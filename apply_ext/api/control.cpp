/*
 * schemasync_start, schemasync_stop, schemasync_wait: whether a subscription runs, and how far it has come.
 */
#include "apply_ext/api/target.hpp"
#include "apply_ext/catalog/index_build.hpp"
#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/worker/control.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(schemasync_start);
PG_FUNCTION_INFO_V1(schemasync_stop);
PG_FUNCTION_INFO_V1(schemasync_wait);
}

SCHEMASYNC_EXPORT Datum schemasync_start(PG_FUNCTION_ARGS);
SCHEMASYNC_EXPORT Datum schemasync_stop(PG_FUNCTION_ARGS);
SCHEMASYNC_EXPORT Datum schemasync_wait(PG_FUNCTION_ARGS);

namespace schemasync::api {

namespace {

/* What a wait waits for: everything applied, or besides that confirmed to the publisher. */
enum class Goal : std::uint8_t { Applied, Confirmed };

// ---- leaves: may ereport; plain data only ----

void
start(const char *name)
{
	using namespace catalog;

	Subscription *subscription = locked_target(name);
	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET enabled = true, drain = false, drain_lsn = NULL,"
	    " state = CASE WHEN state IN ('drained', 'failed') THEN CASE WHEN copied THEN 'ready' ELSE 'init' END ELSE state END,"
	    " state_since = clock_timestamp() WHERE subid = $1 AND NOT enabled",
	    {as_int8(subscription->subid)});
	end_internal(internal);
	hasten_index_builds(subscription->subid);
	if (strcmp(subscription->state, "refused") == 0)
		ereport(NOTICE, (errmsg("subscription \"%s\" is halted by a refusal", name),
		                 errhint("See schemasync_refusals; after the repair: SELECT schemasync_resume(%s);",
		                         quote_literal_cstr(name))));
	worker::restart_at_commit(subscription->subid);
}

/* What the stored row says of why a subscription stands still; raises it as an error. Sees what others have committed. */
void
check_running(std::int64_t subid, const char *name)
{
	using namespace catalog;

	MemoryContext context = CurrentMemoryContext;
	bool isnull = true;
	char *refusal = nullptr, *hint = nullptr;

	Internal internal = begin_internal();
	std::uint64_t found = run_latest("SELECT s.enabled, s.state = 'refused', r.reason || coalesce(': ' || r.object_identity, ''), r.refusal_id, r.hint"
	                                 " FROM schemasync.subscription s LEFT JOIN LATERAL (SELECT * FROM schemasync.refusal r"
	                                 " WHERE r.subid = s.subid AND r.status = 'open' ORDER BY refusal_id LIMIT 1) r ON true"
	                                 " WHERE s.subid = $1",
	                                 {as_int8(subid)});
	bool enabled = found == 1 && DatumGetBool(result(0, 1, &isnull));
	bool refused = found == 1 && DatumGetBool(result(0, 2, &isnull));
	std::int64_t refusal_id = 0;
	if (refused) {
		refusal = result_text(0, 3, context);
		refusal_id = DatumGetInt64(result(0, 4, &isnull));
		hint = result_text(0, 5, context);
	}
	end_internal(internal);

	if (found == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("subscription \"%s\" was dropped", name)));
	if (!enabled)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("subscription \"%s\" is disabled", name),
		                errhint("To start it: SELECT schemasync_start(%s);", quote_literal_cstr(name))));
	if (refused && refusal != nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("subscription \"%s\" is halted by refusal " INT64_FORMAT " (%s)", name, refusal_id, refusal),
		                hint != nullptr ? errhint("%s", hint) : 0));
	if (refused)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("subscription \"%s\" is halted by a refusal", name),
		                errhint("See schemasync_refusals.")));
}

/* Whether tables that a publication took in, or that are copied afresh, are on their way; not when their copy does not succeed. */
bool
is_copying_tables(std::int64_t subid)
{
	using namespace catalog;

	Internal internal = begin_internal();
	bool copying =
		run_latest("SELECT FROM schemasync.relation WHERE subid = $1 AND state IN ('init', 'copying', 'catchup') AND NOT EXISTS"
	               " (SELECT FROM schemasync.error e WHERE e.subid = $1 AND worker = 'copy' AND resolved_at IS NULL) LIMIT 1",
	               {as_int8(subid)}) > 0;
	end_internal(internal);
	return copying;
}

/*
 * Waits until the subscription has come to lsn, and, for all that is applied, until no table is being copied.
 *
 * timeout: ms, -1: without end
 * returns: the position that was reached
 * errors:  query_canceled when the time is over; that of check_running when it stands still
 */
XLogRecPtr
wait_for(std::int64_t subid, const char *name, XLogRecPtr lsn, Goal goal, std::int64_t timeout)
{
	TimestampTz end = timeout < 0 ? DT_NOEND : GetCurrentTimestamp() + timeout * 1000;
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "schemasync wait", ALLOCSET_SMALL_SIZES);
	MemoryContext saved = MemoryContextSwitchTo(scratch);

	for (bool first = true;; first = false) {
		worker::Status status = {};
		bool known = worker::get_status(subid, &status);
		XLogRecPtr reached = goal == Goal::Applied ? status.applied : status.confirmed;
		if (known && reached >= lsn && (goal != Goal::Applied || !is_copying_tables(subid))) {
			worker::end_wait();
			MemoryContextSwitchTo(saved);
			MemoryContextDelete(scratch);
			return reached;
		}
		/* a running worker is proof enough that nothing stands still */
		bool running = known && status.pid != 0 && (!status.reported || status.state != worker::State::Refused);
		if (first || !running)
			check_running(subid, name);
		TimestampTz now = GetCurrentTimestamp();
		if (now >= end) {
			worker::end_wait();
			ereport(ERROR, (errcode(ERRCODE_QUERY_CANCELED),
			                errmsg("timeout: subscription \"%s\" has not come to %s", name, pg::compat::lsn_text(lsn)),
			                reached >= lsn ? errdetail("Tables are still being copied, see schemasync_progress.")
			                               : errdetail("It has come to %s.", pg::compat::lsn_text(reached))));
		}
		worker::announce_wait(subid, lsn);
		long longest = timeout < 0 ? 200L : static_cast<long>(Min((end - now) / 1000 + 1, std::int64_t{200}));
		worker::wait_for_report(subid, Max(longest, 1L));
		MemoryContextReset(scratch);
	}
}

XLogRecPtr
ask_position(const catalog::Subscription &subscription)
{
	worker::Publisher *publisher = connect_publisher(subscription);
	XLogRecPtr lsn = current_position(publisher);

	worker::close(publisher);
	return lsn;
}

void
save_stopped(std::int64_t subid, XLogRecPtr drained)
{
	using namespace catalog;

	Internal internal = begin_internal();
	run("UPDATE schemasync.subscription SET enabled = false, drain = $2, drain_lsn = $3,"
	    " state = CASE WHEN $2 THEN 'drained' ELSE state END, state_since = clock_timestamp()"
	    " WHERE subid = $1 AND (enabled OR $2)",
	    {as_int8(subid), as_boolean(!XLogRecPtrIsInvalid(drained)), as_lsn(drained)});
	end_internal(internal);
}

/*
 * The drain itself runs without the subscription's lock, so that a worker that is lost meanwhile is started again; only then everything is
 * held and ended.
 */
void
stop(const char *name, bool drain, std::int64_t timeout)
{
	XLogRecPtr lsn = InvalidXLogRecPtr;
	TimestampTz begun = GetCurrentTimestamp();

	if (drain) {
		catalog::Subscription *subscription = own_target(name);
		if (!subscription->enabled && strcmp(subscription->state, "drained") == 0)
			return;
		check_running(subscription->subid, name);
		lsn = ask_position(*subscription);
		worker::show_draining(subscription->subid);
		(void) wait_for(subscription->subid, name, lsn, Goal::Confirmed,
		                timeout < 0 ? timeout : Max(timeout - (GetCurrentTimestamp() - begun) / 1000, std::int64_t{0}));
	}
	catalog::Subscription *subscription = locked_target(name);
	worker::stop_worker(subscription->subid);
	save_stopped(subscription->subid, lsn);
	worker::rest_at_commit(subscription->subid);
}

XLogRecPtr
wait(const char *name, XLogRecPtr lsn, std::int64_t timeout)
{
	TimestampTz begun = GetCurrentTimestamp();
	catalog::Subscription *subscription = XLogRecPtrIsInvalid(lsn) ? own_target(name) : any_target(name);

	if (XLogRecPtrIsInvalid(lsn)) {
		check_running(subscription->subid, name);
		lsn = ask_position(*subscription);
	}
	if (timeout >= 0)
		timeout = Max(timeout - (GetCurrentTimestamp() - begun) / 1000, std::int64_t{0});
	return wait_for(subscription->subid, name, lsn, Goal::Applied, timeout);
}

} // namespace

} // namespace schemasync::api

Datum
schemasync_start(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	start(required_text(fcinfo, 0, "name"));
	PG_RETURN_VOID();
}

Datum
schemasync_stop(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	char *name = required_text(fcinfo, 0, "name");
	bool drain = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	stop(name, drain, milliseconds_argument(fcinfo, 2, "timeout"));
	PG_RETURN_VOID();
}

Datum
schemasync_wait(PG_FUNCTION_ARGS)
{
	using namespace schemasync::api;

	char *name = required_text(fcinfo, 0, "name");
	XLogRecPtr lsn = PG_ARGISNULL(1) ? InvalidXLogRecPtr : PG_GETARG_LSN(1);
	PG_RETURN_LSN(wait(name, lsn, milliseconds_argument(fcinfo, 2, "timeout")));
}
