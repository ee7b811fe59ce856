#include "apply_ext/worker/copy_reader.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/builtins.h"
}

namespace schemasync::worker {

namespace {

// ---- leaves: may ereport; plain data only ----

/*
 * A digest of the catalog rows of tables: which versions of them somebody sees. Of a table that is copied as the root of its partitions,
 * theirs too.
 */
char *
shape_sql(const SourceTable *const *tables, int count, bool with_partitions)
{
	StringInfoData oids;

	initStringInfo(&oids);
	for (int i = 0; i < count; i++)
		appendStringInfo(&oids, "%s%u", i == 0 ? "" : ",", tables[i]->oid);
	return psprintf("WITH RECURSIVE o AS (SELECT pg_catalog.unnest('{%s}'::pg_catalog.oid[]) AS oid%s)"
	                " SELECT pg_catalog.md5(coalesce(pg_catalog.string_agg(x, ',' ORDER BY x), '')) FROM ("
	                " SELECT pg_catalog.concat_ws(':', 'c', c.oid, c.xmin, c.relfilenode) FROM o JOIN pg_catalog.pg_class c USING (oid)"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'i', inhrelid, i.xmin) FROM o JOIN pg_catalog.pg_inherits i"
	                "  ON inhrelid = o.oid"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'a', attrelid, attnum, a.xmin) FROM o JOIN pg_catalog.pg_attribute a"
	                "  ON attrelid = o.oid WHERE attnum > 0"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'd', adrelid, adnum, d.xmin) FROM o JOIN pg_catalog.pg_attrdef d"
	                "  ON adrelid = o.oid"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'k', k.oid, k.xmin) FROM o JOIN pg_catalog.pg_constraint k"
	                "  ON conrelid = o.oid"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'e', e.oid, e.xmin) FROM o JOIN pg_catalog.pg_attribute a"
	                "  ON attrelid = o.oid JOIN pg_catalog.pg_enum e ON e.enumtypid = a.atttypid"
	                " ) shapes(x)",
	                oids.data,
	                with_partitions ? " UNION SELECT i.inhrelid FROM o JOIN pg_catalog.pg_class c USING (oid)"
	                                  " JOIN pg_catalog.pg_inherits i ON i.inhparent = c.oid AND c.relkind = 'p'"
	                                : "");
}

/* CopyFrom's callback takes no argument. */
struct Stream {
	PGconn *connection;
	char *chunk; /* libpq's, partly handed out */
	int length, used;
	bool done;
};

Stream stream = {};

/* The next chunk. returns: false at the end, or without may_wait when nothing has arrived */
bool
next_chunk(bool may_wait)
{
	for (;;) {
		int got = PQgetCopyData(stream.connection, &stream.chunk, 1);
		if (got > 0) {
			stream.length = got;
			stream.used = 0;
			return true;
		}
		if (got < 0)
			break;
		if (!may_wait)
			return false;
		CHECK_FOR_INTERRUPTS();
		int events = WaitLatchOrSocket(MyLatch, WL_SOCKET_READABLE | WL_LATCH_SET | WL_EXIT_ON_PM_DEATH,
		                               PQsocket(stream.connection), -1, pg::compat::wait_event("SchemasyncCopy"));
		if ((events & WL_LATCH_SET) != 0)
			ResetLatch(MyLatch);
		if ((events & WL_SOCKET_READABLE) != 0 && PQconsumeInput(stream.connection) == 0)
			ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE),
			                errmsg("the connection to the publisher was lost: %s", pchomp(PQerrorMessage(stream.connection)))));
	}
	stream.done = true;
	PGresult *answer = PQgetResult(stream.connection);
	ExecStatusType status = PQresultStatus(answer);
	char *message = status == PGRES_COMMAND_OK ? nullptr : pchomp(PQerrorMessage(stream.connection));
	PQclear(answer);
	if (message != nullptr)
		ereport(ERROR, (errcode(ERRCODE_CONNECTION_FAILURE), errmsg("the publisher ended the copy: %s", message)));
	while ((answer = PQgetResult(stream.connection)) != nullptr)
		PQclear(answer);
	return false;
}

void
release_chunk()
{
	if (stream.chunk != nullptr)
		PQfreemem(stream.chunk);
	stream.chunk = nullptr;
	stream.length = stream.used = 0;
}

} // namespace

void
begin_snapshot(Publisher *sql, const char *snapshot)
{
	(void) query(sql, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	if (snapshot != nullptr)
		(void) query(sql, psprintf("SET TRANSACTION SNAPSHOT %s", quote_text(snapshot)));
	(void) query(sql, "SELECT pg_catalog.set_config('statement_timeout', '0', true),"
	                  " pg_catalog.set_config('lock_timeout', '0', true),"
	                  " pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),"
	                  " pg_catalog.set_config('row_security', 'off', true)");
}

bool
lock_tables(Publisher *sql, Publisher *now, const SourceTable *const *tables, int count, bool with_partitions)
{
	StringInfoData command;
	const char *message = nullptr;
	Rows rows = {};

	initStringInfo(&command);
	appendStringInfoString(&command, "SAVEPOINT tables; LOCK TABLE");
	for (int i = 0; i < count; i++)
		appendStringInfo(&command, "%s %s%s", i == 0 ? "" : ",", with_partitions && tables[i]->relkind == 'p' ? "" : "ONLY ",
		                 quote_qualified_identifier(tables[i]->schema, tables[i]->name));
	appendStringInfoString(&command, " IN ACCESS SHARE MODE");
	const char *state = try_query(sql, command.data, &rows, &message);
	if (state != nullptr) {
		if (strncmp(state, "42P01", 5) == 0 || strncmp(state, "3F000", 5) == 0 || strncmp(state, "42809", 5) == 0)
			return false;
		ereport(ERROR, (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
		                errmsg("could not lock the published tables: %s", message),
		                errhint("The role that the subscription connects as needs SELECT on all of them.")));
	}
	if (now == nullptr)
		return true;
	char *shapes = shape_sql(tables, count, with_partitions);
	send_query(now, shapes);
	Rows seen = query(sql, shapes), current = receive_rows(now);
	expect(seen, "v", 1);
	expect(current, "v", 1);
	return strcmp(seen.values[0][0], current.values[0][0]) == 0;
}

void
unlock_tables(Publisher *sql)
{
	(void) query(sql, "ROLLBACK TO SAVEPOINT tables; RELEASE SAVEPOINT tables");
}

Reader *
open_reader(const catalog::Subscription &subscription, const char *snapshot, const char *extension_schema, XLogRecPtr position)
{
	Reader *reader = static_cast<Reader *>(palloc0(sizeof(Reader)));
	bool need_password = catalog::needs_password(subscription);

	reader->sql = connect(subscription.conninfo, Protocol::Sql, subscription.name, need_password);
	reader->now = connect(subscription.conninfo, Protocol::Sql, subscription.name, need_password);
	begin_snapshot(reader->sql, snapshot);
	reader->extension_schema = pstrdup(extension_schema);
	reader->position = position;
	return reader;
}

void
close_reader(Reader *reader)
{
	close(reader->sql);
	close(reader->now);
}

char *
describe_table(const Reader &reader, const SourceTable &table)
{
	const char *parameters[] = {psprintf("%u", table.oid), table.columns, table.filter != nullptr ? "true" : "false",
	                            table.via_root ? "true" : "false"};
	Rows rows = query(reader.sql,
	                  psprintf("SELECT %s.schemasync_describe_published($1::pg_catalog.oid, $2::pg_catalog.int2[], $3::pg_catalog.bool,"
	                           " $4::pg_catalog.bool)",
	                           reader.extension_schema),
	                  4, parameters);
	expect(rows, "n", 1);
	return rows.values[0][0];
}

SourceColumn *
read_columns(const Reader &reader, const SourceTable &table, int *count)
{
	const char *parameters[] = {psprintf("%u", table.oid), table.columns};
	Rows rows = query(reader.sql,
	                  "SELECT attnum, attname, atttypid FROM pg_catalog.pg_attribute WHERE attrelid = $1::pg_catalog.oid"
	                  " AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
	                  " AND ($2::pg_catalog.int2[] IS NULL OR attnum = ANY ($2::pg_catalog.int2[])) ORDER BY attnum",
	                  2, parameters);
	SourceColumn *columns = static_cast<SourceColumn *>(palloc0(sizeof(SourceColumn) * static_cast<Size>(rows.count + 1)));

	expect(rows, "vvv");
	*count = rows.count;
	for (int i = 0; i < rows.count; i++) {
		columns[i] = {static_cast<AttrNumber>(atoi(rows.values[i][0])), rows.values[i][1],
		              static_cast<Oid>(strtoul(rows.values[i][2], nullptr, 10))};
	}
	return columns;
}

void
start_rows(const Reader &reader, const SourceTable &table, const Part &part, const SourceColumn *columns, int count, bool binary)
{
	StringInfoData list, where, sql;
	const char *name = quote_qualified_identifier(table.schema, table.name);
	/* an inheritance parent's own rows only; a partitioned table has none of its own */
	const char *only = table.relkind == 'p' ? "" : "ONLY ";

	initStringInfo(&list);
	initStringInfo(&where);
	initStringInfo(&sql);
	for (int i = 0; i < count; i++)
		appendStringInfo(&list, "%s%s", i == 0 ? "" : ", ", quote_identifier(columns[i].name));
	if (table.filter != nullptr)
		appendStringInfo(&where, " WHERE (%s)", table.filter);
	if (part.from > 0)
		appendStringInfo(&where, "%s ctid >= '(%u,0)'", where.len > 0 ? " AND" : " WHERE", part.from);
	if (part.until > 0)
		appendStringInfo(&where, "%s ctid < '(%u,0)'", where.len > 0 ? " AND" : " WHERE", part.until);
	if (where.len == 0 && table.relkind == 'r' && count > 0)
		appendStringInfo(&sql, "COPY %s (%s)", name, list.data);
	else
		appendStringInfo(&sql, "COPY (SELECT %s FROM %s%s%s)", list.data, only, name, where.data);
	appendStringInfo(&sql, " TO STDOUT%s", binary ? " (FORMAT binary)" : "");
	(void) query(reader.sql, sql.data);
	stream = Stream{reader.sql->connection, nullptr, 0, 0, false};
}

int
read_rows(void *buffer, int least, int most)
{
	int given = 0;

	while (given < most) {
		if (stream.used == stream.length) {
			release_chunk();
			if (stream.done || !next_chunk(given < least))
				break;
		}
		int part = Min(stream.length - stream.used, most - given);
		memcpy(static_cast<char *>(buffer) + given, stream.chunk + stream.used, static_cast<Size>(part));
		stream.used += part;
		given += part;
	}
	return given;
}

void
end_rows()
{
	release_chunk();
	/* CopyFrom stops reading at the end mark of the data; the command's end follows it */
	while (!stream.done && next_chunk(true))
		release_chunk();
	stream = Stream{};
}

void
forget_rows()
{
	release_chunk();
	stream = Stream{};
}

} // namespace schemasync::worker
