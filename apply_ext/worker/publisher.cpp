#include "apply_ext/worker/publisher.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "libpq/libpq-be-fe-helpers.h"
#include "mb/pg_wchar.h"
#include "replication/walreceiver.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
}

namespace schemasync::worker {

namespace {

constexpr int most_parameters = 16;

uint32
connect_event()
{
	static uint32 event = 0;
	if (event == 0)
		event = pg::compat::wait_event("SchemasyncPublisher");
	return event;
}

/* Also runs as a callback at the reset of the memory context: raises nothing. */
void
close_connection(void *arg)
{
	Publisher *publisher = static_cast<Publisher *>(arg);

	if (!publisher->closed) {
		PQclear(publisher->answer);
		libpqsrv_disconnect(publisher->connection);
	}
	publisher->closed = true;
}

} // namespace

bool
wait_ready(PGconn *connection, int wanted, TimestampTz since)
{
	int events = wanted | WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
	long left = 0;

	if (since != 0 && wal_receiver_timeout > 0) {
		TimestampTz until = TimestampTzPlusMilliseconds(since, wal_receiver_timeout);
		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		if (left <= 0)
			ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE),
			                errmsg("nothing was heard from the publisher for longer than wal_receiver_timeout")));
		events |= WL_TIMEOUT;
	}
	int result = WaitLatchOrSocket(MyLatch, events, PQsocket(connection), left, connect_event());
	if (result & WL_LATCH_SET) {
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return (result & wanted) != 0;
}

namespace {

// ---- leaves: may ereport; plain data only ----

/* A value for error messages: libpq's end with a line break. */
char *
trimmed(const char *message)
{
	return pchomp(message != nullptr ? message : "");
}

bool
has_password(const char *conninfo)
{
	char *error = nullptr;
	PQconninfoOption *options = PQconninfoParse(conninfo, &error);

	if (options == nullptr) {
		char *copy = trimmed(error);
		PQfreemem(error);
		ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR), errmsg("invalid connection string syntax: %s", copy)));
	}
	bool found = false;
	for (PQconninfoOption *option = options; option->keyword != nullptr; option++) {
		if (strcmp(option->keyword, "password") == 0 && option->val != nullptr && option->val[0] != '\0')
			found = true;
	}
	PQconninfoFree(options);
	return found;
}

[[noreturn]] void
raise_connection_failure(Publisher *publisher)
{
	char *message = trimmed(PQerrorMessage(publisher->connection));

	close(publisher);
	ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE), errmsg("could not connect to the publisher: %s", message)));
	pg_unreachable();
}

/* Frees the result and raises its error. */
[[noreturn]] void
raise_result(Publisher *publisher, PGresult *answer)
{
	const char *state = answer != nullptr ? PQresultErrorField(answer, PG_DIAG_SQLSTATE) : nullptr;
	const char *primary = answer != nullptr ? PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY) : nullptr;
	const char *detail = answer != nullptr ? PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL) : nullptr;
	const char *hint = answer != nullptr ? PQresultErrorField(answer, PG_DIAG_MESSAGE_HINT) : nullptr;
	/* (an answer may claim a code of any length) */
	int code = state != nullptr && strlen(state) == 5
	               ? MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])
	               : ERRCODE_CONNECTION_FAILURE;
	char *message = primary != nullptr ? pstrdup(primary) : trimmed(PQerrorMessage(publisher->connection));

	detail = detail != nullptr ? pstrdup(detail) : nullptr;
	hint = hint != nullptr ? pstrdup(hint) : nullptr;
	PQclear(answer);
	ereport(ERROR, (errcode(code), errmsg("the publisher answered with an error: %s", message),
	                detail != nullptr ? errdetail_internal("%s", detail) : 0, hint != nullptr ? errhint("%s", hint) : 0));
	pg_unreachable();
}

/*
 * Makes the connection. How long a host may take that does not accept it is up to the kernel, which then lets libpq try the next one. Who
 * accepts it and then says nothing would be waited for without limit.
 */
void
poll_connection(PGconn *connection)
{
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;
	TimestampTz accepted = GetCurrentTimestamp();

	/* (there is no socket to wait for then) */
	if (PQstatus(connection) == CONNECTION_BAD)
		return;
	while (next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED) {
		bool connecting = PQstatus(connection) == CONNECTION_STARTED || PQstatus(connection) == CONNECTION_NEEDED;

		if (connecting)
			accepted = GetCurrentTimestamp();
		if (wait_ready(connection, next == PGRES_POLLING_READING ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE,
		               connecting ? 0 : accepted))
			next = PQconnectPoll(connection);
	}
}

/*
 * The last result of what was sent, or the first that begins a copy; nullptr when there is none. What there is until then hangs on the
 * publisher, so that an error on the way frees it.
 */
PGresult *
receive_answer(Publisher *publisher)
{
	PGconn *connection = publisher->connection;
	TimestampTz since = publisher->impatient ? GetCurrentTimestamp() : 0;

	for (;;) {
		while (PQisBusy(connection)) {
			if (wait_ready(connection, WL_SOCKET_READABLE, since) && PQconsumeInput(connection) == 0) {
				PQclear(publisher->answer);
				publisher->answer = nullptr;
				return nullptr;
			}
		}
		PGresult *next = PQgetResult(connection);
		if (next == nullptr)
			break;
		PQclear(publisher->answer);
		publisher->answer = next;
		ExecStatusType status = PQresultStatus(next);
		if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH ||
		    PQstatus(connection) == CONNECTION_BAD)
			break;
	}
	PGresult *answer = publisher->answer;
	publisher->answer = nullptr;
	return answer;
}

/* Sends one statement and waits for the answer. */
PGresult *
execute(Publisher *publisher, const char *sql, int nparameters, const char *const *parameters)
{
	int sent = nparameters == 0 ? PQsendQuery(publisher->connection, sql)
	                            : PQsendQueryParams(publisher->connection, sql, nparameters, nullptr, parameters, nullptr,
	                                                nullptr, 0);

	return sent == 0 ? nullptr : receive_answer(publisher);
}

/* Copies a result and frees it; memory may run out on the way, so the result hangs on the context meanwhile. */
Rows
take_rows(PGresult *answer)
{
	struct Holder {
		MemoryContextCallback callback;
		PGresult *answer;
	};
	MemoryContext holding = AllocSetContextCreate(CurrentMemoryContext, "schemasync result", ALLOCSET_SMALL_SIZES);
	Holder *holder = static_cast<Holder *>(MemoryContextAllocZero(holding, sizeof(Holder)));
	holder->answer = answer;
	holder->callback.func = [](void *arg) { PQclear(static_cast<PGresult *>(arg)); };
	holder->callback.arg = answer;
	MemoryContextRegisterResetCallback(holding, &holder->callback);

	Rows rows = {};
	rows.count = PQntuples(answer);
	rows.columns = PQnfields(answer);
	rows.tag = pstrdup(PQcmdStatus(answer));
	rows.values = static_cast<char ***>(palloc0(sizeof(char **) * static_cast<Size>(rows.count + 1)));
	for (int row = 0; row < rows.count; row++) {
		rows.values[row] = static_cast<char **>(palloc0(sizeof(char *) * static_cast<Size>(rows.columns + 1)));
		for (int column = 0; column < rows.columns; column++) {
			if (!PQgetisnull(answer, row, column))
				rows.values[row][column] = pstrdup(PQgetvalue(answer, row, column));
		}
	}
	MemoryContextDelete(holding);
	return rows;
}

bool
is_success(const PGresult *answer)
{
	ExecStatusType status = PQresultStatus(answer);
	return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_COPY_OUT ||
	       status == PGRES_COPY_BOTH || status == PGRES_EMPTY_QUERY;
}

} // namespace

void
check_conninfo(const char *conninfo, bool need_password)
{
	bool password = has_password(conninfo);

	if (need_password && !password)
		ereport(ERROR, (errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED), errmsg("password is required"),
		                errdetail("Non-superusers must provide a password in the connection string.")));
}

Publisher *
connect(const char *conninfo, Protocol protocol, const char *application_name, bool need_password)
{
	const char *keywords[8];
	const char *values[8];
	int count = 0;

	check_conninfo(conninfo, need_password);
	Publisher *publisher = static_cast<Publisher *>(palloc0(sizeof(Publisher)));
	auto add = [&](const char *keyword, const char *value) {
		keywords[count] = keyword;
		values[count++] = value;
	};
	/* in the order of their weight: what comes later wins over conninfo, what comes before it is a default */
	add("fallback_application_name", application_name);
	add("dbname", conninfo);
	if (protocol == Protocol::Replication)
		add("replication", "database");
	add("client_encoding", GetDatabaseEncodingName());
	keywords[count] = nullptr;
	values[count] = nullptr;

	libpqsrv_connect_prepare();
	publisher->connection = PQconnectStartParams(keywords, values, 1);
	if (publisher->connection == nullptr) {
		ReleaseExternalFD();
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	publisher->closing.func = close_connection;
	publisher->closing.arg = publisher;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &publisher->closing);
	poll_connection(publisher->connection);
	if (PQstatus(publisher->connection) != CONNECTION_OK)
		raise_connection_failure(publisher);
	if (need_password && !PQconnectionUsedPassword(publisher->connection)) {
		close(publisher);
		ereport(ERROR, (errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED), errmsg("password is required"),
		                errdetail("Non-superuser cannot connect if the server does not request a password."),
		                errhint("Target server's authentication method must be changed, or set the option"
		                        " password_required to false.")));
	}
	/* values in text form must not depend on what the role or database of the publisher has set */
	if (protocol == Protocol::Sql) {
		publisher->impatient = true;
		(void) query(publisher, "SELECT pg_catalog.set_config('search_path', '', false),"
		                        " pg_catalog.set_config('datestyle', 'ISO', false),"
		                        " pg_catalog.set_config('intervalstyle', 'postgres', false),"
		                        " pg_catalog.set_config('timezone', 'UTC', false),"
		                        " pg_catalog.set_config('extra_float_digits', '3', false)");
		publisher->impatient = false;
	}
	return publisher;
}

void
close(Publisher *publisher)
{
	close_connection(publisher);
}

Rows
query(Publisher *publisher, const char *sql, int nparameters, const char *const *parameters)
{
	PGresult *answer = execute(publisher, sql, nparameters, parameters);

	if (answer == nullptr || !is_success(answer))
		raise_result(publisher, answer);
	return take_rows(answer);
}

void
expect(const Rows &rows, const char *shape, int least)
{
	int columns = static_cast<int>(strlen(shape));

	if (rows.count < least || (rows.count > 0 && rows.columns != columns))
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("the publisher gave an answer that was not asked for"),
		                errdetail("It has %d rows of %d columns; expected were %d columns and at least %d rows.", rows.count,
		                          rows.columns, columns, least)));
	for (int row = 0; row < rows.count; row++)
		for (int column = 0; column < columns; column++)
			if (shape[column] == 'v' && rows.values[row][column] == nullptr)
				ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("the publisher gave an answer that was not asked for"),
				                errdetail("Column %d of row %d is NULL.", column + 1, row + 1)));
}

void
send_query(Publisher *publisher, const char *sql)
{
	if (PQsendQuery(publisher->connection, sql) == 0)
		raise_result(publisher, nullptr);
}

Rows
receive_rows(Publisher *publisher)
{
	PGresult *answer = receive_answer(publisher);

	if (answer == nullptr || !is_success(answer))
		raise_result(publisher, answer);
	return take_rows(answer);
}

const char *
try_query(Publisher *publisher, const char *sql, Rows *rows, const char **message)
{
	PGresult *answer = execute(publisher, sql, 0, nullptr);

	if (answer != nullptr && is_success(answer)) {
		*rows = take_rows(answer);
		return nullptr;
	}
	const char *state = answer != nullptr ? PQresultErrorField(answer, PG_DIAG_SQLSTATE) : nullptr;
	const char *primary = answer != nullptr ? PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY) : nullptr;
	if (state == nullptr || strlen(state) != 5)
		raise_result(publisher, answer);
	state = pstrdup(state);
	*message = pstrdup(primary != nullptr ? primary : "");
	PQclear(answer);
	return state;
}

char *
quote_text(const char *text)
{
	StringInfoData quoted;

	initStringInfo(&quoted);
	if (strchr(text, '\\') != nullptr)
		appendStringInfoChar(&quoted, 'E');
	appendStringInfoChar(&quoted, '\'');
	for (const char *at = text; *at != '\0'; at++) {
		if (*at == '\'' || *at == '\\')
			appendStringInfoChar(&quoted, *at);
		appendStringInfoChar(&quoted, *at);
	}
	appendStringInfoChar(&quoted, '\'');
	return quoted.data;
}

} // namespace schemasync::worker
