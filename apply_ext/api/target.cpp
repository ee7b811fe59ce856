#include "apply_ext/api/target.hpp"

#include "apply_ext/worker/control.hpp"
#include "pg/compat.hpp"

extern "C" {
#include "access/xlog_internal.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
}

namespace schemasync::api {

namespace {

// ---- leaves: may ereport; plain data only ----

std::int64_t
find_target(const char *name)
{
	worker::require_preload();
	std::int64_t subid = catalog::find_subscription(name);
	if (subid == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("subscription \"%s\" does not exist", name)));
	return subid;
}

catalog::Subscription *
load_target(std::int64_t subid, const char *name)
{
	catalog::Subscription *subscription = catalog::load_subscription(subid);
	if (subscription == nullptr)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("subscription \"%s\" does not exist", name)));
	return subscription;
}

void
check_owner(const catalog::Subscription &subscription)
{
	if (!has_privs_of_role(GetUserId(), subscription.owner))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("must be owner of subscription \"%s\"", subscription.name)));
}

XLogRecPtr
parse_lsn(const char *text)
{
	return text == nullptr ? InvalidXLogRecPtr
	                       : DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(text)));
}

/* At the end of a page the inserted end is given as behind the next page's header (short or long), where nothing is yet. */
bool
is_page_start(XLogRecPtr flushed, XLogRecPtr inserted)
{
	XLogRecPtr header = inserted - flushed;
	return flushed % XLOG_BLCKSZ == 0 && (header == SizeOfXLogShortPHD || header == SizeOfXLogLongPHD);
}

} // namespace

char *
text_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? nullptr : text_to_cstring(PG_GETARG_TEXT_PP(number));
}

char *
required_text(FunctionCallInfo fcinfo, int number, const char *name)
{
	char *value = text_argument(fcinfo, number);
	if (value == nullptr)
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name)));
	return value;
}

std::int64_t
milliseconds_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	if (PG_ARGISNULL(number))
		return -1;
	Interval *interval = PG_GETARG_INTERVAL_P(number);
	double milliseconds = static_cast<double>(interval->time) / 1000.0 +
	                      (static_cast<double>(interval->day) + 30.0 * interval->month) * 86400000.0;
	if (milliseconds < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be negative", name)));
	return static_cast<std::int64_t>(Min(milliseconds, 1.0e15));
}

catalog::Subscription *
any_target(const char *name)
{
	return load_target(find_target(name), name);
}

catalog::Subscription *
own_target(const char *name)
{
	catalog::Subscription *subscription = any_target(name);
	check_owner(*subscription);
	return subscription;
}

catalog::Subscription *
locked_target(const char *name)
{
	catalog::Subscription *subscription = own_target(name);
	/* while it waited for the lock, another session may have changed or dropped it */
	worker::lock_subscription(subscription->subid);
	subscription = load_target(subscription->subid, name);
	check_owner(*subscription);
	return subscription;
}

worker::Publisher *
connect_publisher(const catalog::Subscription &subscription)
{
	return worker::connect(subscription.conninfo, worker::Protocol::Sql, subscription.name,
	                       catalog::needs_password(subscription));
}

bool
probe_position(worker::Publisher *publisher, PositionProbe *probe, XLogRecPtr *lsn)
{
	/* A commit with synchronous_commit = off is in the WAL but not yet flushed, and only what is flushed is sent: so the end of the
	 * inserted WAL is what counts, once it is flushed. It may also be the work of somebody who has not committed, which nobody flushes
	 * soon: asynchronous commits are flushed within three times wal_writer_delay, and after that the flushed end counts. */
	constexpr char sql[] =
		"SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()"
		" ELSE pg_catalog.pg_current_wal_insert_lsn() END, CASE WHEN pg_catalog.pg_is_in_recovery()"
		" THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_flush_lsn() END,"
		" 3 * (SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'wal_writer_delay')";
	worker::Rows rows = worker::query(publisher, sql);
	worker::expect(rows, "nnn", 1);
	int longest = rows.values[0][2] != nullptr ? atoi(rows.values[0][2]) : 0;
	XLogRecPtr flushed = parse_lsn(rows.values[0][1]);

	if (XLogRecPtrIsInvalid(probe->inserted)) {
		probe->inserted = parse_lsn(rows.values[0][0]);
		probe->begun = GetCurrentTimestamp();
	}
	*lsn = flushed >= probe->inserted ? probe->inserted : flushed;
	return flushed >= probe->inserted || is_page_start(flushed, probe->inserted) ||
	       TimestampDifferenceExceeds(probe->begun, GetCurrentTimestamp(), longest);
}

XLogRecPtr
current_position(worker::Publisher *publisher)
{
	constexpr long step = 20;
	PositionProbe probe = {};
	XLogRecPtr lsn = InvalidXLogRecPtr;

	while (!probe_position(publisher, &probe, &lsn)) {
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, step, pg::compat::wait_event("SchemasyncWait"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return lsn;
}

char *
caller()
{
	return GetUserNameFromId(GetUserId(), false);
}

} // namespace schemasync::api
