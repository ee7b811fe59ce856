#include "apply_ext/worker/copy_source.hpp"

#include "apply_ext/worker/copy_reader.hpp"

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
/* ... before tables that were altered are left for later, as under a migration that goes on and on. */
constexpr int whole_attempts = 3;
/* ... and how many tables are locked at a time while they are described. */
constexpr int locked_at_once = 500;

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
	"  SELECT t.relid, p.pubviaroot, pg_catalog.pg_get_expr(r.prqual, r.prrelid) AS filter,"
	/* a list of all columns is none for the stream up to 17; compat.hpp, WholeColumnList */
	"   CASE WHEN pg_catalog.cardinality(r.prattrs::pg_catalog.int2[]) = CASE"
	"     WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 < 160000"
	"      THEN (SELECT relnatts FROM pg_catalog.pg_class c WHERE c.oid = t.relid)"
	"     WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 < 180000"
	"      THEN (SELECT count(*) FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.relid AND a.attnum > 0 AND NOT a.attisdropped"
	"       AND a.attgenerated = '')"
	"     ELSE NULL END"
	"    THEN NULL ELSE r.prattrs END AS prattrs"
	"  FROM pg_catalog.pg_publication p CROSS JOIN LATERAL pg_catalog.pg_get_publication_tables(p.pubname::pg_catalog.text) t"
	/* a publication of the table's schema knows no filter, even if it names the table with one */
	"  LEFT JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = t.relid"
	"   AND NOT EXISTS (SELECT FROM pg_catalog.pg_publication_namespace s JOIN pg_catalog.pg_class c ON c.relnamespace = s.pnnspid"
	"    WHERE s.pnpubid = p.oid AND c.oid = t.relid)"
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
	"  NOT EXISTS (SELECT FROM up WHERE up.relid = d.relid), c.relispartition"
	" FROM (SELECT relid, max(depth) AS depth FROM depth GROUP BY relid) d JOIN pg_catalog.pg_class c ON c.oid = d.relid"
	" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN published p ON p.relid = d.relid"
	" ORDER BY d.depth, c.oid";

void
list_tables(Source *source, const catalog::Subscription &subscription, Selection selection, const void *argument)
{
	char *array = publication_array(subscription);
	char *sql = psprintf(tables_sql, array, array);
	Rows rows = query(source->sql, sql);

	expect(rows, "vvvvnnvvvv");
	source->count = rows.count;
	source->tables = static_cast<SourceTable *>(palloc0(sizeof(SourceTable) * static_cast<Size>(rows.count + 1)));
	for (int i = 0; i < rows.count; i++) {
		char **row = rows.values[i];
		SourceTable *table = &source->tables[i];
		*table = {.oid = static_cast<Oid>(strtoul(row[0], nullptr, 10)), .schema = row[1], .name = row[2], .relkind = row[3][0],
		          .columns = row[4], .filter = row[5], .published = row[6][0] == 't', .via_root = row[7][0] == 't',
		          .partition = row[9][0] == 't', .below = row[8][0] == 't', .wish = Wish::None, .state = nullptr, .number = i, .blocks = 0, .rows = 0};
		table->wish = selection == nullptr ? Wish::None : selection(*table, argument);
	}
}

/* Makes a slot on the replication connection. returns: the name of the exported snapshot */
char *
make_slot(Publisher *replication, const catalog::Subscription &subscription, SlotUse use, XLogRecPtr *position)
{
	bool temporary = use == SlotUse::Temporary;
	char *name = temporary ? psprintf("schemasync_copy_%d_%u", MyProcPid, MyDatabaseId) : pstrdup(subscription.slot_name);
	char *sql = psprintf("CREATE_REPLICATION_SLOT \"%s\" %s LOGICAL schemasync_decoder (SNAPSHOT 'export'%s%s)", name,
	                     temporary ? "TEMPORARY" : "", !temporary && subscription.options.two_phase ? ", TWO_PHASE" : "",
	                     !temporary && subscription.options.failover ? ", FAILOVER" : "");
	Rows rows = query(replication, sql);

	expect(rows, "vvvv", 1);
	*position = DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(rows.values[0][1])));
	return rows.values[0][2];
}

char *
find_extension(Publisher *sql)
{
	Rows rows = query(sql, "SELECT pg_catalog.quote_ident(nspname) FROM pg_catalog.pg_extension e"
	                       " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'schemasync'");

	if (rows.count == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("extension \"schemasync\" is not installed on the publisher"),
		                errhint("In the publisher's database: CREATE EXTENSION schemasync;")));
	expect(rows, "v");
	return rows.values[0][0];
}

/* The table that the publisher names by its number in the list that it was asked with. */
SourceTable *
numbered_table(const Source *source, const char *number)
{
	int i = atoi(number);

	if (i < 0 || i >= source->count)
		ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("the publisher told of a table that it was not asked for")));
	return &source->tables[i];
}

/* Asks for the states of these tables, and for those of the types that they need. */
void
describe_tables(Source *source, const SourceTable *const *described, int count)
{
	StringInfoData tables;

	initStringInfo(&tables);
	for (int i = 0; i < count; i++) {
		const SourceTable &table = *described[i];
		appendStringInfo(&tables, "%s(%d, %u, %s, %s, %s)", i == 0 ? "" : ", ", table.number, table.oid,
		                 table.columns == nullptr ? "NULL" : quote_text(table.columns),
		                 !table.published ? "NULL" : table.filter != nullptr ? "true" : "false", table.via_root ? "true" : "false");
	}
	Rows rows = query(source->sql,
	                  psprintf("WITH d AS MATERIALIZED (SELECT i, %s.schemasync_describe_published(o::pg_catalog.oid,"
	                           " c::pg_catalog.int2[], f::pg_catalog.bool, v) AS d FROM (VALUES %s) t(i, o, c, f, v))"
	                           " SELECT i, 0 AS n, NULL, d->>'relation' FROM d UNION ALL"
	                           " SELECT i, n::pg_catalog.int4, t->>'oid', t::pg_catalog.text FROM d,"
	                           " pg_catalog.jsonb_array_elements(d->'types') WITH ORDINALITY e(t, n) ORDER BY 1, 2",
	                           source->extension_schema, tables.data));
	expect(rows, "vvnn");
	for (int i = 0; i < rows.count; i++) {
		char **row = rows.values[i];
		if (row[3] == nullptr)
			continue;
		if (row[2] == nullptr) {
			numbered_table(source, row[0])->state = row[3];
			continue;
		}
		Oid type = static_cast<Oid>(strtoul(row[2], nullptr, 10));
		if (list_member_oid(source->type_oids, type))
			continue;
		source->type_oids = lappend_oid(source->type_oids, type);
		source->types = lappend(source->types, row[3]);
	}
}

/* Others must not need it here: only a table that stands alone is made by a later copy. */
bool
may_be_left(const Source *source, const SourceTable &table)
{
	if (!table.published || table.below || table.partition || table.relkind != 'r')
		return false;
	Rows rows = query(source->sql, psprintf("SELECT EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = %u OR inhparent = %u)", table.oid,
	                                        table.oid));
	expect(rows, "v", 1);
	return rows.values[0][0][0] == 'f';
}

/* returns: false when one of them was altered since the snapshot and is not left for later */
bool
describe_some(Source *source, Publisher *now, SourceTable **some, int count, bool may_leave)
{
	bool same = lock_tables(source->sql, now, some, count, false);

	if (same)
		describe_tables(source, some, count);
	unlock_tables(source->sql);
	if (same || !may_leave)
		return same;
	if (count > 1)
		return describe_some(source, now, some, count / 2, true) &&
		       describe_some(source, now, some + count / 2, count - count / 2, true);
	if (!may_be_left(source, *some[0]))
		return false;
	some[0]->wish = Wish::Later;
	ereport(LOG, (errmsg("table \"%s.%s\" is altered while the copy begins: it is copied later", some[0]->schema, some[0]->name)));
	return true;
}

/*
 * The states of the tables that are to be adopted, some at a time: their locks go before the next ones come. What happens to them after their
 * description is for the stream, or for look_at_table() when their rows are copied.
 *
 * now: a connection that sees what is there now; nullptr: there is no snapshot, and so does the source's
 * returns: false when one was altered since the snapshot
 */
bool
describe_all(Source *source, Publisher *now, bool may_leave)
{
	SourceTable **some = static_cast<SourceTable **>(palloc(sizeof(SourceTable *) * locked_at_once));
	bool same = true;

	for (int i = 0; same && i < source->count;) {
		int count = 0;
		for (; i < source->count && count < locked_at_once; i++) {
			if (source->tables[i].wish == Wish::Adopt)
				some[count++] = &source->tables[i];
		}
		if (count == 0)
			break;
		same = describe_some(source, now, some, count, may_leave);
	}
	return same;
}

/* One attempt. returns: false when the schema moved between the snapshot and the locks */
bool
try_source(Source *source, const catalog::Subscription &subscription, SlotUse use, Selection selection, const void *argument, bool may_leave)
{
	bool need_password = catalog::needs_password(subscription);
	Publisher *replication = nullptr;
	char *snapshot = nullptr;

	if (use != SlotUse::None) {
		replication = connect(subscription.conninfo, Protocol::Replication, subscription.name, need_password);
		snapshot = make_slot(replication, subscription, use, &source->position);
	}
	source->sql = connect(subscription.conninfo, Protocol::Sql, subscription.name, need_password);
	begin_snapshot(source->sql, snapshot);
	if (snapshot != nullptr) {
		Rows exported = query(source->sql, "SELECT pg_catalog.pg_export_snapshot()");
		expect(exported, "v", 1);
		source->snapshot = exported.values[0][0];
	}
	source->extension_schema = find_extension(source->sql);
	list_tables(source, subscription, selection, argument);
	bool same = describe_all(source, replication, may_leave);
	if (replication != nullptr)
		close(replication);
	if (!same)
		close(source->sql);
	return same;
}

} // namespace

bool
has_rows_of_its_own(const SourceTable &table)
{
	return table.published && (table.relkind != 'p' || table.via_root);
}

Source *
open_source(const catalog::Subscription &subscription, SlotUse use, Selection selection, const void *argument)
{
	for (int attempt = 1; attempt <= most_attempts; attempt++) {
		Source *source = static_cast<Source *>(palloc0(sizeof(Source)));
		/* without rows to copy there is no later copy */
		if (try_source(source, subscription, use, selection, argument, subscription.copy_data && attempt > whole_attempts))
			return source;
		if (use == SlotUse::Create)
			drop_own_slot(subscription);
		CHECK_FOR_INTERRUPTS();
	}
	ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
	                errmsg("the publisher's tables were altered again and again while the copy began"),
	                errhint("It is tried again by itself. Partitions, parents and children need a moment without ALTER TABLE on the publisher.")));
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

void
measure_tables(Source *source)
{
	StringInfoData oids;

	initStringInfo(&oids);
	for (int i = 0; i < source->count; i++) {
		const SourceTable &table = source->tables[i];
		if (table.wish != Wish::None && has_rows_of_its_own(table))
			appendStringInfo(&oids, "%s(%d,%u)", oids.len > 0 ? "," : "", i, table.oid);
	}
	if (oids.len == 0)
		return;
	/* rows: by the density that the last ANALYZE found, else by the width of the columns; a root's are those of its leaves */
	Rows rows = query(source->sql,
	                  psprintf("WITH t(i, root) AS (VALUES %s),"
	                           " leaf AS (SELECT i, root, CASE WHEN c.relkind = 'p' THEN p.relid ELSE root::pg_catalog.oid END AS oid FROM t"
	                           "  JOIN pg_catalog.pg_class c ON c.oid = root::pg_catalog.oid LEFT JOIN LATERAL pg_catalog.pg_partition_tree(c.oid) p"
	                           "  ON c.relkind = 'p' WHERE c.relkind <> 'p' OR p.isleaf),"
	                           " size AS (SELECT i, root, c.oid, c.reltuples, c.relpages, coalesce(am.amname = 'heap', false) AS heap,"
	                           "  coalesce(pg_catalog.pg_relation_size(c.oid), 0) / pg_catalog.current_setting('block_size')::pg_catalog.int8 AS blocks"
	                           "  FROM leaf JOIN pg_catalog.pg_class c ON c.oid = leaf.oid LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam)"
	                           " SELECT i, sum(CASE WHEN heap AND oid = root::pg_catalog.oid THEN blocks ELSE 0 END)::pg_catalog.int8,"
	                           " sum(CASE WHEN reltuples >= 0 AND relpages > 0 THEN reltuples / relpages * blocks ELSE"
	                           "  blocks * 8000.0 / (SELECT 28 + coalesce(sum(CASE WHEN attlen > 0 THEN attlen ELSE 32 END), 0)"
	                           "  FROM pg_catalog.pg_attribute WHERE attrelid = size.oid AND attnum > 0 AND NOT attisdropped) END)::pg_catalog.int8"
	                           " FROM size GROUP BY i",
	                           oids.data));
	expect(rows, "vvv");
	for (int i = 0; i < rows.count; i++) {
		SourceTable *table = numbered_table(source, rows.values[i][0]);
		table->blocks = static_cast<std::uint32_t>(strtoul(rows.values[i][1], nullptr, 10));
		table->rows = strtoll(rows.values[i][2], nullptr, 10);
	}
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

	expect(rows, "n");
	*count = 0;
	for (int i = 0; i < rows.count; i++)
		if (rows.values[i][0] != nullptr)
			texts[(*count)++] = rows.values[i][0];
	return texts;
}

const char **
describe_schemas(const Source &source, const catalog::Subscription &subscription, int *count)
{
	char *array = publication_array(subscription);
	Rows rows = query(source.sql,
	                  psprintf("SELECT n.nspname FROM pg_catalog.pg_namespace n"
	                           " WHERE n.nspname NOT IN ('information_schema', 'schemasync') AND n.nspname !~ '^pg_'"
	                           " AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.deptype = 'e'"
	                           "  AND d.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.objid = n.oid)"
	                           " AND (EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = ANY (%s) AND puballtables)"
	                           "  OR EXISTS (SELECT FROM pg_catalog.pg_publication_namespace x JOIN pg_catalog.pg_publication p ON p.oid = x.pnpubid"
	                           "   WHERE p.pubname = ANY (%s) AND x.pnnspid = n.oid)) ORDER BY n.oid",
	                           array, array));
	const char **names = static_cast<const char **>(palloc0(sizeof(char *) * static_cast<Size>(rows.count + 1)));

	expect(rows, "v");
	*count = rows.count;
	for (int i = 0; i < rows.count; i++)
		names[i] = rows.values[i][0];
	return names;
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
	                           source.extension_schema, subscription.has_classes ? "true" : "false", array,
	                           tables.data, array, tables.data));
	const char **texts = static_cast<const char **>(palloc0(sizeof(char *) * static_cast<Size>(rows.count + 1)));

	expect(rows, "v");
	*count = rows.count;
	for (int i = 0; i < rows.count; i++)
		texts[i] = rows.values[i][0];
	return texts;
}

} // namespace schemasync::worker
