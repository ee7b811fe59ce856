/*
 * Connections to the publisher: opening one, and statements with their results as plain data.
 *
 * A connection belongs to a memory context and is closed with it, also by an ERROR; close() does so earlier. All waits are
 * interruptible. Errors of the publisher are raised with its message, SQLSTATE, detail and hint.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "datatype/timestamp.h"
}

struct pg_conn;
struct pg_result;

namespace schemasync::worker {

struct Publisher {
	pg_conn *connection;
	MemoryContextCallback closing;
	pg_result *answer; /* what was received of an answer that is not complete */
	bool closed;
	bool impatient; /* no answer may take longer than wal_receiver_timeout: where nothing can be waited for there */
};

enum class Protocol { Sql, Replication };

/*
 * Connects.
 *
 * application_name: shown on the publisher unless conninfo sets one
 * need_password:    conninfo must bring a password and the publisher must have asked for it (owners that are no superusers)
 * returns:          palloc'd in the current memory context, which owns the connection
 * errors:           connection_failure with libpq's message, also for a server that accepts the connection and then says nothing for longer
 *                   than wal_receiver_timeout; as PostgreSQL 16 does for the password rules
 */
Publisher *connect(const char *conninfo, Protocol protocol, const char *application_name, bool need_password);
void close(Publisher *publisher);

/* Rows of text; a null pointer is NULL. palloc'd in the current context. */
struct Rows {
	int count, columns;
	char ***values; /* [row][column] */
	char *tag;      /* command tag */
};

/* Runs one statement with text parameters (none on a replication connection); raises the publisher's error. */
Rows query(Publisher *publisher, const char *sql, int nparameters = 0, const char *const *parameters = nullptr);

/*
 * What the publisher answers is not to be trusted: raises a protocol violation unless there are at least that many rows of these columns.
 *
 * shape: a letter for each column: 'v' has a value in each row, 'n' may be NULL
 */
void expect(const Rows &rows, const char *shape, int least = 0);

/* The two halves of query(), so that work can be done here meanwhile. */
void send_query(Publisher *publisher, const char *sql);
Rows receive_rows(Publisher *publisher);

/* As query(), but an error of the publisher is returned: its SQLSTATE (5 characters), else nullptr. Message in *message. */
const char *try_query(Publisher *publisher, const char *sql, Rows *rows, const char **message);

/*
 * Waits until the socket is ready, the latch is set or a time has passed.
 *
 * wanted:  WL_SOCKET_READABLE or WL_SOCKET_WRITEABLE
 * since:   from when on the publisher's patience counts; 0: there is no limit
 * returns: whether the socket is ready
 * errors:  connection_failure when the publisher took longer than wal_receiver_timeout; what an interrupt raises
 */
bool wait_ready(pg_conn *connection, int wanted, TimestampTz since);

/* Checks a connection string: that libpq takes it, and the password rule. Makes no connection. */
void check_conninfo(const char *conninfo, bool need_password);

/* Quotes for SQL on the publisher with standard_conforming_strings on or off; palloc'd. */
char *quote_text(const char *text);

} // namespace schemasync::worker
