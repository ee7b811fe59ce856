#include "apply_ext/worker/upstream.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

// ---- leaves: may ereport; plain data only ----

/*
 * A long DDL command or a wait for a lock must not cost the connection, so the walsender is told not to give
 * up on a receiver that is silent; a peer that is really gone is found by TCP. All are parameters that any
 * user may set for a session.
 */
constexpr const char *session_settings[] = {
    "SET wal_sender_timeout = 0",
    "SET tcp_keepalives_idle = 60",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 6",
    /* text values must read the same here, whatever the publisher's defaults are */
    "SET datestyle = 'ISO'",
    "SET intervalstyle = 'postgres'",
    "SET extra_float_digits = 3",
    /* regclass and its like are read here with an empty path: they have to come qualified */
    "SET search_path = ''",
};

/* What the launcher's next try could not mend: apply_main makes a refusal of an error with this code. */
constexpr int identity_lost = MAKE_SQLSTATE('S', 'S', '0', '1', '2');

/*
 * Object identities, and positions, mean something on one server only. A publisher that has come back from a
 * backup, or a standby promoted before it had everything, is recognized by being behind what was applied here:
 * WAL written since would be taken for WAL already seen.
 */
void
check_identity(Publisher *publisher, const catalog::Subscription &subscription, XLogRecPtr from)
{
	Rows rows = query(publisher, "IDENTIFY_SYSTEM");

	expect(rows, "vvvn", 1);
	if (subscription.system_identifier != nullptr && subscription.system_identifier[0] != '\0' &&
	    strcmp(subscription.system_identifier, rows.values[0][0]) != 0)
		ereport(ERROR, (errcode(identity_lost),
		                errmsg("the publisher of subscription \"%s\" is another server than before",
		                       subscription.name),
		                errdetail("Its system identifier is %s; the subscription was made with %s.",
		                          rows.values[0][0], subscription.system_identifier)));
	XLogRecPtr position = DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(rows.values[0][2])));
	if (position < from)
		ereport(ERROR,
		        (errcode(identity_lost),
		         errmsg("the publisher of subscription \"%s\" is behind what was applied from it", subscription.name),
		         errdetail("Its WAL ends at %s on timeline %s; the subscriber has come to %s.", rows.values[0][2],
		                   rows.values[0][1], pg::compat::lsn_text(from))));
}

/*
 * The slot's property follows the option; it can be set only while nobody reads from the slot, and the server would wait for that.
 *
 * failover: as the publisher has it; nullptr: it knows no such property
 * pid:      who reads from the slot; nullptr: nobody
 */
void
set_failover(Publisher *publisher, const catalog::Subscription &subscription, const char *failover, const char *pid)
{
	bool wanted = subscription.options.failover;

	if (failover == nullptr && wanted)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
		                errmsg("the publisher of subscription \"%s\" has no failover slots", subscription.name),
		                errdetail("PostgreSQL 17 and later have them."), errhint("Take the option failover back.")));
	if (failover == nullptr || (strcmp(failover, "true") == 0) == wanted)
		return;
	if (pid != nullptr)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
		                errmsg("replication slot \"%s\" is active for PID %s", subscription.slot_name, pid)));
	(void) query(publisher, psprintf("ALTER_REPLICATION_SLOT \"%s\" (FAILOVER %s)", subscription.slot_name, wanted ? "true" : "false"));
}

/*
 * A slot was never confirmed further than the origin holds (worker/progress.hpp). If it is, this server was put back, and the publisher would begin
 * behind what is missing here without a word.
 */
void
check_slot(Upstream *upstream, const catalog::Subscription &subscription, XLogRecPtr from)
{
	Rows rows = query(upstream->publisher,
	                  psprintf("SELECT confirmed_flush_lsn, pg_catalog.strpos(n, '*') > 0 OR"
	                           /* a name in quotes has them doubled; that it is a part of another's costs no more than a few commits */
	                           " pg_catalog.strpos(pg_catalog.lower(n), pg_catalog.lower(pg_catalog.replace("
	                           "  pg_catalog.current_setting('application_name'), '\"', '\"\"'))) > 0,"
	                           /* of the row as a whole: before 17 there is no such column */
	                           " pg_catalog.to_jsonb(s) ->> 'failover', active_pid"
	                           " FROM pg_catalog.current_setting('synchronous_standby_names') n CROSS JOIN pg_catalog.pg_replication_slots s WHERE slot_name = %s",
	                           quote_literal_cstr(subscription.slot_name)));

	expect(rows, "nvnn");
	/* that it is not there is said when the stream is asked for */
	if (rows.count == 0)
		return;
	upstream->is_awaited = rows.values[0][1][0] == 't';
	set_failover(upstream->publisher, subscription, rows.values[0][2], rows.values[0][3]);
	if (rows.values[0][0] == nullptr || from == InvalidXLogRecPtr)
		return;
	XLogRecPtr confirmed = DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(rows.values[0][0])));
	if (confirmed > from)
		ereport(ERROR,
		        (errcode(identity_lost),
		         errmsg("subscription \"%s\" is behind what it has confirmed to the publisher", subscription.name),
		         errdetail("Slot \"%s\" stands at %s; the subscriber has come to %s only. It was restored from an older "
		                   "state, or the slot was moved: what is between will not be sent again.",
		                   subscription.slot_name, rows.values[0][0], pg::compat::lsn_text(from))));
}

/* publication_names: a list of quoted identifiers within a quoted literal */
char *
publication_list(const char *const *publications)
{
	StringInfoData list;

	initStringInfo(&list);
	for (; *publications != nullptr; publications++) {
		if (list.len > 0)
			appendStringInfoChar(&list, ',');
		/* always quoted: the publisher splits the list with its own keywords and rules */
		appendStringInfoChar(&list, '"');
		for (const char *c = *publications; *c != '\0'; c++) {
			if (*c == '"')
				appendStringInfoChar(&list, '"');
			appendStringInfoChar(&list, *c);
		}
		appendStringInfoChar(&list, '"');
	}
	return list.data;
}

void
append_literal(StringInfo out, const char *name, const char *value)
{
	/* the replication grammar knows '' within a literal and no backslashes */
	appendStringInfo(out, ", %s '", name);
	for (const char *c = value; *c != '\0'; c++) {
		if (*c == '\'')
			appendStringInfoChar(out, '\'');
		appendStringInfoChar(out, *c);
	}
	appendStringInfoChar(out, '\'');
}

char *
start_command(const catalog::Subscription &subscription, int server_version, XLogRecPtr from, bool binary,
              const char *relations)
{
	StringInfoData command;
	int protocol = server_version >= 160000 ? 4 : 3;

	initStringInfo(&command);
	appendStringInfoString(&command, "START_REPLICATION SLOT \"");
	for (const char *c = subscription.slot_name; *c != '\0'; c++) {
		if (*c == '"')
			appendStringInfoChar(&command, '"');
		appendStringInfoChar(&command, *c);
	}
	appendStringInfo(&command, "\" LOGICAL %s (proto_version '%d'", pg::compat::lsn_text(from), protocol);
	append_literal(&command, "publication_names", publication_list(subscription.publications));
	if (binary)
		append_literal(&command, "binary", "true");
	if (subscription.options.streaming != catalog::Streaming::Off)
		append_literal(&command, "streaming", "on");
	if (subscription.options.two_phase)
		append_literal(&command, "two_phase", "on");
	append_literal(&command, "schemasync", "1");
	/* after it: a decoder of 15 knows it from then on */
	if (server_version >= 160000 || subscription.options.origin_none)
		append_literal(&command, "origin", subscription.options.origin_none ? "none" : "any");
	append_literal(&command, "rewrites",
	               subscription.options.policy.rewrites == Choice::Carry || subscription.table_carries ? "carry" : "refuse");
	if (relations != nullptr)
		append_literal(&command, "relations", relations);
	appendStringInfoChar(&command, ')');
	return command.data;
}

/* Raises the publisher's error, with all that it said; class 08 where it is the connection that failed. */
[[noreturn]] void
raise_publisher_error(PGconn *connection, PGresult *result, const char *what)
{
	const char *state = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *primary = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
	int code = state == nullptr || strlen(state) != 5
	               ? ERRCODE_CONNECTION_FAILURE
	               : MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);

	if (primary == nullptr)
		primary = PQerrorMessage(connection);
	char *message = pchomp(primary);
	detail = detail == nullptr ? nullptr : pstrdup(detail);
	hint = hint == nullptr ? nullptr : pstrdup(hint);
	PQclear(result);
	ereport(ERROR, (errcode(code), errmsg("%s: %s", what, message[0] == '\0' ? "connection lost" : message),
	                detail != nullptr ? errdetail_internal("%s", detail) : 0,
	                hint != nullptr ? errhint("%s", hint) : 0));
}

/* The result that the server's answer brings next, waiting for it, but no longer than wal_receiver_timeout. */
PGresult *
next_result(PGconn *connection, const char *what)
{
	TimestampTz since = GetCurrentTimestamp();

	while (PQisBusy(connection)) {
		if (wait_ready(connection, WL_SOCKET_READABLE, since) && PQconsumeInput(connection) == 0)
			raise_publisher_error(connection, nullptr, what);
	}
	return PQgetResult(connection);
}

/* The stream is over: says why. */
[[noreturn]] void
raise_end_of_stream(PGconn *connection)
{
	PGresult *result = next_result(connection, "the stream from the publisher broke off");

	if (result != nullptr && PQresultStatus(result) == PGRES_FATAL_ERROR)
		raise_publisher_error(connection, result, "the publisher reported an error");
	PQclear(result);
	ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE), errmsg("the stream from the publisher has ended")));
}

} // namespace

void
start_stream(Upstream *upstream, const catalog::Subscription &subscription, XLogRecPtr from, bool binary,
             const char *relations)
{
	MemoryContext saved = MemoryContextSwitchTo(upstream->context);
	char *application = psprintf("schemasync apply %s", subscription.name);

	upstream->publisher = connect(subscription.conninfo, Protocol::Replication, application,
	                              catalog::needs_password(subscription));
	PGconn *connection = upstream->publisher->connection;
	upstream->server_version = PQserverVersion(connection);
	/* nothing of what follows has to wait for anything there */
	upstream->publisher->impatient = true;
	for (const char *setting : session_settings)
		query(upstream->publisher, setting);
	check_identity(upstream->publisher, subscription, from);
	check_slot(upstream, subscription, from);

	char *command = start_command(subscription, upstream->server_version, from, binary, relations);
	if (PQsendQuery(connection, command) == 0)
		raise_publisher_error(connection, nullptr, "could not start the stream");
	PGresult *result = next_result(connection, "could not start the stream");
	if (PQresultStatus(result) != PGRES_COPY_BOTH)
		raise_publisher_error(connection, result, "could not start the stream");
	PQclear(result);
	MemoryContextSwitchTo(saved);
}

bool
is_identity_lost(const ErrorData *error)
{
	return error->sqlerrcode == identity_lost;
}

void
stop_stream(Upstream *upstream)
{
	if (upstream->message != nullptr)
		PQfreemem(upstream->message);
	upstream->message = nullptr;
	if (upstream->publisher != nullptr)
		close(upstream->publisher);
	upstream->publisher = nullptr;
	MemoryContextReset(upstream->context);
}

bool
next_message(Upstream *upstream, std::string_view *message)
{
	PGconn *connection = upstream->publisher->connection;

	if (upstream->message != nullptr) {
		PQfreemem(upstream->message);
		upstream->message = nullptr;
	}
	int length = PQgetCopyData(connection, &upstream->message, 1);
	if (length == 0) {
		if (PQconsumeInput(connection) == 0)
			raise_publisher_error(connection, nullptr, "could not receive from the publisher");
		length = PQgetCopyData(connection, &upstream->message, 1);
	}
	if (length == 0)
		return false;
	if (length == -1)
		raise_end_of_stream(connection);
	if (length < 0)
		raise_publisher_error(connection, nullptr, "could not receive from the publisher");
	*message = {upstream->message, static_cast<std::size_t>(length)};
	return true;
}

bool
wait_for_message(Upstream *upstream, long timeout_ms)
{
	int events = WL_SOCKET_READABLE | WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH;
	int result = WaitLatchOrSocket(MyLatch, events, PQsocket(upstream->publisher->connection), timeout_ms,
	                               PG_WAIT_EXTENSION);

	if (result & WL_LATCH_SET) {
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return (result & WL_TIMEOUT) != 0;
}

void
send_reply(Upstream *upstream, std::string_view reply)
{
	PGconn *connection = upstream->publisher->connection;

	if (PQputCopyData(connection, reply.data(), static_cast<int>(reply.size())) <= 0 ||
	    PQflush(connection) < 0)
		raise_publisher_error(connection, nullptr, "could not send to the publisher");
}

} // namespace schemasync::worker
