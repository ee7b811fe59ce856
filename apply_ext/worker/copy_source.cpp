#include "apply_ext/worker/copy_source.hpp"

#include "pg/compat.hpp"

extern "C" {
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
}

namespace schemasync::worker {

namespace {

/* How often the snapshot is taken again because the schema changed between it and the locks. */
constexpr int most_attempts = 20;
constexpr int names_at_once = 500;

// ---- leaves: may ereport; plain data only ----

char *
publication_array(const catalog::Subscription &subscription)
{
	StringInfoData array;

	initStringInfo(&array);
	for (int i = 0; subscription.publications[i] != nullptr; i++)
		appendStringInfo(&array, "%s%s", i == 0 ? "" : ", ", quote_text(subscription.publications[i]));
	return psprintf("ARRAY[%s]::pg_catalog.text[]", array.data);
}

/*
 * What is published, with the column list and the filter over all publications, and what may be described with it: ancestors, and the
 * partitions below. Parents come first. A partition that is also published by its root travels as the root. %1, %2: publications.
 */
constexpr char tables_sql[] =
	"WITH RECURSIVE entry AS ("
	"  SELECT t.relid, p.pubviaroot, r.prattrs, pg_catalog.pg_get_expr(r.prqual, r.prrelid) AS filter"
	"  FROM pg_catalog.pg_publication p CROSS JOIN LATERAL pg_catalog.pg_get_publication_tables(p.pubname::pg_catalog.text) t"
	"  LEFT JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = t.relid"
	"  WHERE p.pubname = ANY (%s)),"
	" published AS ("
	"  SELECT relid, bool_or(pubviaroot) AS via_root,"
	"   CASE WHEN bool_or(prattrs IS NULL) THEN NULL ELSE '{' || replace(min(prattrs::pg_catalog.text), ' ', ',') || '}' END AS columns,"
	"   CASE WHEN bool_or(filter IS NULL) THEN NULL ELSE pg_catalog.string_agg(DISTINCT '(' || filter || ')', ' OR ') END AS filter"
	"  FROM entry e JOIN pg_catalog.pg_class c ON c.oid = e.relid"
	"  WHERE c.relnamespace IS DISTINCT FROM (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'schemasync')"
	"  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass"
	"   AND d.objid = c.oid AND d.deptype = 'e')"
	"  AND NOT EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(e.relid) a JOIN entry o ON o.relid = a.relid AND o.pubviaroot"
	"   WHERE a.relid <> e.relid)"
	"  GROUP BY relid),"
	" up AS ("
	"  SELECT relid FROM published"
	/* a partitioned table without partitions is covered too, but not among the published tables */
	"  UNION SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_publication p ON p.pubname = ANY (%s)"
	"   WHERE c.relkind = 'p' AND c.relpersistence = 'p' AND c.oid >= 16384"
	"   AND c.relnamespace IS DISTINCT FROM (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'schemasync')"
	"   AND (p.puballtables"
	"    OR EXISTS (SELECT FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)"
	"    OR EXISTS (SELECT FROM pg_catalog.pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace))"
	"  UNION SELECT i.inhparent FROM up JOIN pg_catalog.pg_inherits i ON i.inhrelid = up.relid),"
	" family AS ("
	"  SELECT relid FROM up"
	"  UNION SELECT i.inhrelid FROM family f JOIN pg_catalog.pg_class c ON c.oid = f.relid AND c.relkind = 'p'"
	"   JOIN pg_catalog.pg_inherits i ON i.inhparent = f.relid),"
	" depth AS ("
	"  SELECT relid, relid AS above, 0 AS depth FROM family"
	"  UNION ALL SELECT d.relid, i.inhparent, d.depth + 1 FROM depth d JOIN pg_catalog.pg_inherits i ON i.inhrelid = d.above)"
	" SELECT c.oid, n.nspname, c.relname, c.relkind, p.columns, p.filter, p.relid IS NOT NULL, coalesce(p.via_root, false),"
	"  NOT EXISTS (SELECT FROM up WHERE up.relid = d.relid)"
	" FROM (SELECT relid, max(depth) AS depth FROM depth GROUP BY relid) d JOIN pg_catalog.pg_class c ON c.oid = d.relid"
	" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN published p ON p.relid = d.relid"
	" ORDER BY d.depth, c.oid";

void
list_tables(Source *source, const catalog::Subscription &subscription, Selection selection, const void *argument)
{
	char *array = publication_array(subscription);
	char *sql = psprintf(tables_sql, array, array);
	Rows rows = query(source->sql, sql);

	expect(rows, "vvvvnnvvv");
	source->count = rows.count;
	source->tables = static_cast<SourceTable *>(palloc0(sizeof(SourceTable) * static_cast<Size>(rows.count + 1)));
	for (int i = 0; i < rows.count; i++) {
		char **row = rows.values[i];
		source->tables[i] = {static_cast<Oid>(strtoul(row[0], nullptr, 10)), row[1], row[2], row[3][0], row[4], row[5],
		                     row[6][0] == 't', row[7][0] == 't', row[8][0] == 't', true};
		source->tables[i].wanted = selection == nullptr || selection(source->tables[i], argument);
	}
}

/* returns: false when a table is gone by now */
bool
lock_tables(const Source &source)
{
	StringInfoData sql;
	const char *message = nullptr;
	Rows rows = {};

	initStringInfo(&sql);
	for (int i = 0; i < source.count; i++) {
		const SourceTable &table = source.tables[i];
		if (table.wanted)
			appendStringInfo(&sql, "%s ONLY %s", sql.len == 0 ? "LOCK TABLE" : ",", quote_qualified_identifier(table.schema, table.name));
		if (sql.len == 0 || (i + 1 < source.count && (i + 1) % names_at_once != 0))
			continue;
		appendStringInfoString(&sql, " IN ACCESS SHARE MODE");
		const char *state = try_query(source.sql, sql.data, &rows, &message);
		resetStringInfo(&sql);
		if (state == nullptr)
			continue;
		if (strncmp(state, "42P01", 5) == 0 || strncmp(state, "3F000", 5) == 0 || strncmp(state, "42809", 5) == 0)
			return false;
		ereport(ERROR, (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
		                errmsg("could not lock the published tables: %s", message),
		                errhint("The role that the subscription connects as needs SELECT on all of them.")));
	}
	return true;
}

/* A digest of the catalog rows of all tables: which versions of them somebody sees. */
char *
shape_sql(const Source &source)
{
	StringInfoData oids;

	initStringInfo(&oids);
	for (int i = 0; i < source.count; i++) {
		if (source.tables[i].wanted)
			appendStringInfo(&oids, "%s%u", oids.len == 0 ? "" : ",", source.tables[i].oid);
	}
	return psprintf("WITH o AS MATERIALIZED (SELECT pg_catalog.unnest('{%s}'::pg_catalog.oid[]) AS oid)"
	                " SELECT pg_catalog.md5(coalesce(pg_catalog.string_agg(x, ',' ORDER BY x), '')) FROM ("
	                " SELECT pg_catalog.concat_ws(':', 'c', c.oid, c.xmin, c.relfilenode) FROM o JOIN pg_catalog.pg_class c USING (oid)"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'a', attrelid, attnum, a.xmin) FROM o JOIN pg_catalog.pg_attribute a"
	                "  ON attrelid = o.oid WHERE attnum > 0"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'd', adrelid, adnum, d.xmin) FROM o JOIN pg_catalog.pg_attrdef d"
	                "  ON adrelid = o.oid"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'k', k.oid, k.xmin) FROM o JOIN pg_catalog.pg_constraint k"
	                "  ON conrelid = o.oid"
	                " UNION ALL SELECT pg_catalog.concat_ws(':', 'e', e.oid, e.xmin) FROM o JOIN pg_catalog.pg_attribute a"
	                "  ON attrelid = o.oid JOIN pg_catalog.pg_enum e ON e.enumtypid = a.atttypid"
	                " ) shapes(x)",
	                oids.data);
}

void
begin_snapshot(Source *source, const char *snapshot)
{
	(void) query(source->sql, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	if (snapshot != nullptr)
		(void) query(source->sql, psprintf("SET TRANSACTION SNAPSHOT %s", quote_text(snapshot)));
	(void) query(source->sql, "SELECT pg_catalog.set_config('statement_timeout', '0', true),"
	                          " pg_catalog.set_config('lock_timeout', '0', true),"
	                          " pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),"
	                          " pg_catalog.set_config('row_security', 'off', true)");
}

/* Makes a slot on the replication connection. returns: the name of the exported snapshot */
char *
make_slot(Publisher *replication, const catalog::Subscription &subscription, SlotUse use, XLogRecPtr *position)
{
	bool temporary = use == SlotUse::Temporary;
	char *name = temporary ? psprintf("schemasync_copy_%d_%u", MyProcPid, MyDatabaseId) : pstrdup(subscription.slot_name);
	char *sql = psprintf("CREATE_REPLICATION_SLOT \"%s\" %s LOGICAL schemasync_decoder (SNAPSHOT 'export'%s)", name,
	                     temporary ? "TEMPORARY" : "", !temporary && subscription.options.two_phase ? ", TWO_PHASE" : "");
	Rows rows = query(replication, sql);

	expect(rows, "vvvv", 1);
	*position = DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(rows.values[0][1])));
	return rows.values[0][2];
}

/* One attempt. returns: false when the schema moved between the snapshot and the locks */
bool
try_source(Source *source, const catalog::Subscription &subscription, SlotUse use, Selection selection, const void *argument)
{
	bool need_password = catalog::needs_password(subscription);
	Publisher *replication = nullptr;
	char *snapshot = nullptr;

	if (use != SlotUse::None) {
		replication = connect(subscription.conninfo, Protocol::Replication, subscription.name, need_password);
		snapshot = make_slot(replication, subscription, use, &source->position);
	}
	source->sql = connect(subscription.conninfo, Protocol::Sql, subscription.name, need_password);
	begin_snapshot(source, snapshot);
	list_tables(source, subscription, selection, argument);
	bool same = lock_tables(*source);
	if (same && replication != nullptr) {
		/* the replication connection sees what is there now, the other one what was there at the snapshot */
		char *sql = shape_sql(*source);
		Rows then = query(source->sql, sql), now = query(replication, sql);
		expect(then, "v", 1);
		expect(now, "v", 1);
		same = strcmp(then.values[0][0], now.values[0][0]) == 0;
	}
	if (replication != nullptr)
		close(replication);
	if (!same)
		close(source->sql);
	return same;
}

/* --- the rows ------------------------------------------------------------------------------------------------- */

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

Source *
open_source(const catalog::Subscription &subscription, SlotUse use, Selection selection, const void *argument)
{
	for (int attempt = 1; attempt <= most_attempts; attempt++) {
		Source *source = static_cast<Source *>(palloc0(sizeof(Source)));
		if (try_source(source, subscription, use, selection, argument)) {
			Rows rows = query(source->sql, "SELECT pg_catalog.quote_ident(nspname) FROM pg_catalog.pg_extension e"
			                               " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'schemasync'");
			if (rows.count == 0)
				ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("extension \"schemasync\" is not installed on the publisher"),
				                errhint("In the publisher's database: CREATE EXTENSION schemasync;")));
			expect(rows, "v");
			source->extension_schema = rows.values[0][0];
			return source;
		}
		if (use == SlotUse::Create)
			drop_own_slot(subscription);
		CHECK_FOR_INTERRUPTS();
	}
	ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
	                errmsg("the publisher's tables were altered again and again while the copy began")));
	pg_unreachable();
}

Source *
open_listing(const catalog::Subscription &subscription)
{
	Source *source = static_cast<Source *>(palloc0(sizeof(Source)));

	source->sql = connect(subscription.conninfo, Protocol::Sql, subscription.name, catalog::needs_password(subscription));
	list_tables(source, subscription, nullptr, nullptr);
	return source;
}

void
close_source(Source *source)
{
	close(source->sql);
}

void
drop_own_slot(const catalog::Subscription &subscription)
{
	Publisher *publisher = connect(subscription.conninfo, Protocol::Sql, subscription.name, catalog::needs_password(subscription));
	const char *parameters[] = {subscription.slot_name};

	/* an interrupted copy's walsender may still have it */
	(void) query(publisher,
	             "SELECT pg_catalog.pg_terminate_backend(active_pid, 10000) FROM pg_catalog.pg_replication_slots"
	             " WHERE slot_name = $1 AND plugin = 'schemasync_decoder' AND database = pg_catalog.current_database()"
	             " AND active_pid IS NOT NULL",
	             1, parameters);
	(void) query(publisher,
	             "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots"
	             " WHERE slot_name = $1 AND plugin = 'schemasync_decoder' AND database = pg_catalog.current_database()",
	             1, parameters);
	close(publisher);
}

States
describe_tables(const Source &source, const SourceTable *const *described, int count)
{
	StringInfoData tables;
	States states = {};
	List *known = NIL;

	states.relations = static_cast<const char **>(palloc0(sizeof(char *) * static_cast<Size>(count + 1)));
	if (count == 0)
		return states;
	initStringInfo(&tables);
	for (int i = 0; i < count; i++) {
		const SourceTable &table = *described[i];
		appendStringInfo(&tables, "%s(%d, %u, %s, %s, %s)", i == 0 ? "" : ", ", i, table.oid,
		                 table.columns == nullptr ? "NULL" : quote_text(table.columns),
		                 !table.published ? "NULL" : table.filter != nullptr ? "true" : "false", table.via_root ? "true" : "false");
	}
	Rows rows = query(source.sql,
	                  psprintf("WITH d AS MATERIALIZED (SELECT i, %s.schemasync_describe_published(o::pg_catalog.oid,"
	                           " c::pg_catalog.int2[], f::pg_catalog.bool, v) AS d FROM (VALUES %s) t(i, o, c, f, v))"
	                           " SELECT i, 0 AS n, NULL, d->>'relation' FROM d UNION ALL"
	                           " SELECT i, n::pg_catalog.int4, t->>'oid', t::pg_catalog.text FROM d,"
	                           " pg_catalog.jsonb_array_elements(d->'types') WITH ORDINALITY e(t, n) ORDER BY 1, 2",
	                           source.extension_schema, tables.data));
	expect(rows, "vvnn");
	states.types = static_cast<const char **>(palloc0(sizeof(char *) * static_cast<Size>(rows.count + 1)));
	for (int i = 0; i < rows.count; i++) {
		char **row = rows.values[i];
		if (row[3] == nullptr)
			continue;
		if (row[2] == nullptr) {
			states.relations[states.nrelations++] = row[3];
			continue;
		}
		Oid type = static_cast<Oid>(strtoul(row[2], nullptr, 10));
		if (list_member_oid(known, type))
			continue;
		known = lappend_oid(known, type);
		states.types[states.ntypes++] = row[3];
	}
	return states;
}

const char **
describe_types(const Source &source, const catalog::Subscription &subscription, int *count)
{
	char *array = publication_array(subscription);
	Rows rows = query(source.sql,
	                  psprintf("SELECT %s.schemasync_describe_type(t.oid)::pg_catalog.text FROM pg_catalog.pg_type t"
	                           " JOIN pg_catalog.pg_namespace s ON s.oid = t.typnamespace"
	                           " WHERE (t.typtype IN ('e', 'd', 'r') OR t.typtype = 'c' AND EXISTS (SELECT FROM pg_catalog.pg_class c"
	                           "  WHERE c.oid = t.typrelid AND c.relkind = 'c'))"
	                           " AND s.nspname !~ '^pg_' AND s.nspname NOT IN ('information_schema', 'schemasync')"
	                           " AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.deptype = 'e'"
	                           "  AND e.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND e.objid = t.oid)"
	                           " AND (EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = ANY (%s) AND puballtables)"
	                           "  OR s.oid IN (SELECT n.pnnspid FROM pg_catalog.pg_publication_namespace n"
	                           "  JOIN pg_catalog.pg_publication p ON p.oid = n.pnpubid WHERE p.pubname = ANY (%s)))"
	                           " ORDER BY t.oid",
	                           source.extension_schema, array, array));
	const char **texts = static_cast<const char **>(palloc0(sizeof(char *) * static_cast<Size>(rows.count + 1)));

	*count = 0;
	for (int i = 0; i < rows.count; i++)
		if (rows.values[i][0] != nullptr)
			texts[(*count)++] = rows.values[i][0];
	return texts;
}

const char **
describe_objects(const Source &source, const catalog::Subscription &subscription, int *count)
{
	StringInfoData tables;
	char *array = publication_array(subscription);

	initStringInfo(&tables);
	for (int i = 0; i < source.count; i++)
		if (source.tables[i].columns == nullptr)
			appendStringInfo(&tables, "%s%u", tables.len == 0 ? "" : ",", source.tables[i].oid);
	Rows rows = query(source.sql,
	                  psprintf("SELECT d::pg_catalog.text FROM %s.schemasync_describe_objects(%s) WITH ORDINALITY o(d, n)"
	                           " WHERE EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = ANY (%s) AND puballtables)"
	                           " OR (d->>'of_table')::pg_catalog.oid = ANY ('{%s}'::pg_catalog.oid[])"
	                           " OR d->>'of_table' = '0' AND (d->>'in_schema')::pg_catalog.oid IN (SELECT n.pnnspid"
	                           "  FROM pg_catalog.pg_publication_namespace n JOIN pg_catalog.pg_publication p ON p.oid = n.pnpubid"
	                           "  WHERE p.pubname = ANY (%s))"
	                           /* what the defaults of the tables call */
	                           " OR d->>'class' = 'sequences' AND EXISTS (SELECT FROM pg_catalog.pg_depend e"
	                           "  JOIN pg_catalog.pg_attrdef a ON e.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND a.oid = e.objid"
	                           "  WHERE e.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass"
	                           "   AND e.refobjid = (d->>'oid')::pg_catalog.oid AND a.adrelid = ANY ('{%s}'::pg_catalog.oid[]))"
	                           " ORDER BY n",
	                           source.extension_schema, subscription.options.ddl_classes != nullptr ? "true" : "false", array,
	                           tables.data, array, tables.data));
	const char **texts = static_cast<const char **>(palloc0(sizeof(char *) * static_cast<Size>(rows.count + 1)));

	expect(rows, "v");
	*count = rows.count;
	for (int i = 0; i < rows.count; i++)
		texts[i] = rows.values[i][0];
	return texts;
}

char *
describe_table(const Source &source, const SourceTable &table)
{
	const char *parameters[] = {psprintf("%u", table.oid), table.columns, table.filter != nullptr ? "true" : "false",
	                            table.via_root ? "true" : "false"};
	Rows rows = query(source.sql,
	                  psprintf("SELECT %s.schemasync_describe_published($1::pg_catalog.oid, $2::pg_catalog.int2[], $3::pg_catalog.bool,"
	                           " $4::pg_catalog.bool)",
	                           source.extension_schema),
	                  4, parameters);
	expect(rows, "n", 1);
	return rows.values[0][0];
}

SourceColumn *
read_columns(const Source &source, const SourceTable &table, int *count)
{
	const char *parameters[] = {psprintf("%u", table.oid), table.columns};
	Rows rows = query(source.sql,
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
start_rows(const Source &source, const SourceTable &table, const SourceColumn *columns, int count, bool binary)
{
	StringInfoData list, sql;
	const char *name = quote_qualified_identifier(table.schema, table.name);
	/* an inheritance parent's own rows only; a partitioned table has none of its own */
	const char *only = table.relkind == 'p' ? "" : "ONLY ";

	initStringInfo(&list);
	initStringInfo(&sql);
	for (int i = 0; i < count; i++)
		appendStringInfo(&list, "%s%s", i == 0 ? "" : ", ", quote_identifier(columns[i].name));
	if (table.filter != nullptr)
		appendStringInfo(&sql, "COPY (SELECT %s FROM %s%s WHERE %s)", list.data, only, name, table.filter);
	else if (table.relkind == 'r' && count > 0)
		appendStringInfo(&sql, "COPY %s (%s)", name, list.data);
	else
		appendStringInfo(&sql, "COPY (SELECT %s FROM %s%s)", list.data, only, name);
	appendStringInfo(&sql, " TO STDOUT%s", binary ? " (FORMAT binary)" : "");
	(void) query(source.sql, sql.data);
	stream = Stream{source.sql->connection, nullptr, 0, 0, false};
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

} // namespace schemasync::worker
