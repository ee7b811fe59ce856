/*
 * The checks of schemasync_preflight, as statements: each gives a row for what it finds, none when all is well.
 *
 * Those of the publisher run there with an empty search_path, as the role that the subscription connects as. $1: the names of the
 * publications. Those that compare have a statement for either side: the publisher's gives one JSON text, which is $1 of the local one; $2
 * there is the name of who asks. The columns of what is found: severity, detail, hint.
 */
#include "apply_ext/api/preflight.hpp"

namespace schemasync::api {

/* The published tables and what the publications publish of them; partitions that travel as their root are not among them. */
#define PUBLISHED \
	"WITH published AS (SELECT t.relid, c.oid::regclass AS name, c.relreplident, c.relkind, bool_or(p.pubupdate OR p.pubdelete) AS changes" \
	" FROM pg_publication p CROSS JOIN LATERAL pg_get_publication_tables(p.pubname::text) t JOIN pg_class c ON c.oid = t.relid" \
	" WHERE p.pubname = ANY ($1::text[]) AND c.relnamespace IS DISTINCT FROM (SELECT oid FROM pg_namespace WHERE nspname = 'schemasync')" \
	" AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')" \
	" GROUP BY 1, 2, 3, 4) "

const Check publisher_checks[] = {
	{"version",
     "SELECT 'error', 'it runs PostgreSQL ' || current_setting('server_version'), 'PostgreSQL 15 or later is needed on both sides.'"
     " WHERE current_setting('server_version_num')::int < 150000",
     nullptr},
	{"wal_level",
     "SELECT 'error', 'wal_level is ' || current_setting('wal_level'), 'Set wal_level = logical and restart the publisher.'"
     " WHERE current_setting('wal_level') <> 'logical'"
     " AND NOT (current_setting('server_version_num')::int >= 190000 AND current_setting('wal_level') = 'replica')",
     nullptr},
	{"recovery",
     "SELECT CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'error' ELSE 'warn' END, 'it is a standby',"
     " 'Before PostgreSQL 16 subscribe to the primary. From 16 on the initial copy waits for activity on the primary.' WHERE pg_is_in_recovery()",
     nullptr},
	{"replication_role",
     "SELECT 'error', format('role %I may not replicate', rolname), format('ALTER ROLE %I REPLICATION;', rolname) FROM pg_roles"
     " WHERE rolname = current_user AND NOT rolsuper AND NOT rolreplication",
     nullptr},
	{"output_plugin_libraries",
     "SELECT 'error', 'output_plugin_libraries does not list schemasync_decoder: ' || setting,"
     " format('ALTER SYSTEM SET output_plugin_libraries = %s, ''schemasync_decoder''; SELECT pg_reload_conf();', setting)"
     " FROM pg_settings WHERE name = 'output_plugin_libraries' AND setting !~ '(^|[, \"])schemasync_decoder($|[, \"])'",
     nullptr},
	{"extension",
     "SELECT 'error', format('extension schemasync is not installed in database %I', current_database()), 'In that database: CREATE EXTENSION schemasync;'"
     " WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'schemasync')",
     nullptr},
	{"event_triggers",
     "SELECT 'warn', format('event trigger %s is %s', n, CASE WHEN t.oid IS NULL THEN 'missing' ELSE 'disabled' END),"
     " CASE WHEN t.oid IS NULL THEN 'Drop the extension and create it again.' ELSE format('ALTER EVENT TRIGGER %I ENABLE;', n) END"
     " FROM unnest('{schemasync_capture_start,schemasync_capture_rewrite,schemasync_capture_drop,schemasync_capture_end}'::text[]) n"
     " LEFT JOIN pg_event_trigger t ON t.evtname = n WHERE EXISTS (SELECT FROM pg_extension WHERE extname = 'schemasync')"
     " AND (t.oid IS NULL OR t.evtenabled NOT IN ('O', 'A'))",
     nullptr},
	{"publications",
     "SELECT 'error', format('publication %I does not exist', n), format('CREATE PUBLICATION %I FOR ...;', n) FROM unnest($1::text[]) n"
     " WHERE NOT EXISTS (SELECT FROM pg_publication WHERE pubname = n)",
     nullptr},
	{"column_lists",
     "SELECT 'error', format('the publications have different column lists for table %I.%I', schemaname, tablename),"
     " 'Give the table one column list in all of them, or name fewer publications.'"
     " FROM pg_publication_tables WHERE pubname = ANY ($1::text[]) GROUP BY schemaname, tablename HAVING count(DISTINCT attnames) > 1"
     " ORDER BY schemaname, tablename",
     nullptr},
	{"replication_slots",
     "SELECT CASE WHEN used >= most THEN 'error' ELSE 'warn' END, format('%s of %s replication slots are in use', used, most),"
     " 'Drop slots that nobody uses, or increase max_replication_slots and restart the publisher.'"
     " FROM (SELECT count(*) AS used, current_setting('max_replication_slots')::int AS most FROM pg_replication_slots) s WHERE used + 2 > most",
     nullptr},
	{"wal_senders",
     "SELECT 'warn', format('%s of %s wal senders are in use', used, most), 'Increase max_wal_senders and restart the publisher.'"
     " FROM (SELECT count(*) AS used, current_setting('max_wal_senders')::int AS most FROM pg_stat_activity WHERE backend_type = 'walsender') s"
     " WHERE used + 2 > most",
     nullptr},
	{"failover",
     "SELECT 'ok', 'it has no failover slots: the option failover would be refused', 'They are of PostgreSQL 17 and later, and of a primary.'"
     " WHERE current_setting('server_version_num')::int < 170000 OR pg_is_in_recovery()",
     nullptr},
	{"select_privilege",
     PUBLISHED "SELECT 'error', format('role %I may not read table %s', current_user, name), format('GRANT SELECT ON %s TO %I;', name, current_user)"
               " FROM published WHERE NOT has_table_privilege(relid, 'SELECT')",
     nullptr},
	{"row_security",
     PUBLISHED "SELECT 'error', format('row security of table %s hides rows from role %I', name, current_user),"
               " format('ALTER ROLE %I BYPASSRLS;', current_user) FROM published WHERE row_security_active(relid)",
     nullptr},
	{"replica_identity",
     PUBLISHED "SELECT 'warn', format('table %s has no replica identity: UPDATE and DELETE will fail on the publisher', name),"
               " format('Add a primary key, or ALTER TABLE %s REPLICA IDENTITY FULL;', name) FROM published p WHERE changes AND relkind = 'r'"
               " AND (relreplident = 'n' OR (relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = relid AND indisprimary))"
               " OR (relreplident = 'i' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = relid AND indisreplident)))",
     nullptr},
	{"deferrable_key",
     PUBLISHED "SELECT 'warn', format('the primary key of table %s is deferrable, and so no replica identity', name),"
               " format('Make it NOT DEFERRABLE, or ALTER TABLE %s REPLICA IDENTITY FULL;', name) FROM published"
               " JOIN pg_constraint k ON k.conrelid = relid AND k.contype = 'p' AND k.condeferrable WHERE relreplident = 'd'",
     nullptr},
	{"generated_key",
     PUBLISHED "SELECT 'warn', format('column %I of the replica identity of table %s is generated, and not sent', a.attname, name),"
               " 'Use a key of ordinary columns.' FROM published JOIN pg_index i ON i.indrelid = relid"
               " AND (i.indisreplident OR (relreplident = 'd' AND i.indisprimary))"
               " JOIN pg_attribute a ON a.attrelid = relid AND a.attnum = ANY (i.indkey) AND a.attgenerated <> ''",
     nullptr},
	{"unpublished_tables",
     "SELECT 'ok', format('%s tables are in none of the publications: %s', count(*), string_agg(name, ', ' ORDER BY name) FILTER (WHERE number <= 10)"
     " || CASE WHEN count(*) > 10 THEN ', ...' ELSE '' END), NULL FROM (SELECT c.oid::regclass::text AS name, row_number() OVER (ORDER BY c.oid::regclass::text) AS number"
     "  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
     "  WHERE c.relkind = 'r' AND c.oid >= 16384 AND n.nspname NOT IN ('schemasync', 'information_schema') AND c.relpersistence <> 't'"
     "  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')"
     "  AND NOT EXISTS (SELECT FROM pg_publication p, pg_get_publication_tables(p.pubname::text) t, pg_partition_ancestors(c.oid) a"
     "   WHERE p.pubname = ANY ($1::text[]) AND t.relid = a.relid)"
     "  AND NOT EXISTS (SELECT FROM pg_publication p, pg_get_publication_tables(p.pubname::text) t WHERE p.pubname = ANY ($1::text[]) AND t.relid = c.oid)) u"
     " HAVING count(*) > 0",
     nullptr},
	{},
};

const Check subscriber_checks[] = {
	{"replication_origins", nullptr,
     "SELECT CASE WHEN used >= most THEN 'error' ELSE 'warn' END, format('%s of %s replication origins are in use', used, most),"
     " format('Increase %s and restart the subscriber.', name) FROM (SELECT (SELECT count(*) FROM pg_replication_origin_status) AS used,"
     " setting::int AS most, name FROM pg_settings WHERE name IN ('max_replication_slots', 'max_active_replication_origins') ORDER BY name LIMIT 1) s"
     " WHERE used + 2 > most"},
	{"worker_processes", nullptr,
     "SELECT 'warn', format('%s of %s background workers are in use', used, most), 'Increase max_worker_processes and restart the subscriber.'"
     " FROM (SELECT count(*) AS used, current_setting('max_worker_processes')::int AS most FROM pg_stat_activity"
     " WHERE backend_type NOT IN ('client backend', 'walsender', 'walreceiver', 'walwriter', 'background writer', 'checkpointer', 'startup', 'archiver',"
     " 'autovacuum launcher', 'autovacuum worker', 'logger', 'standalone backend', 'io worker', 'slotsync worker', 'walsummarizer')) s WHERE used + 2 > most"},
	{"encoding", "SELECT to_json(current_setting('server_encoding'))",
     "SELECT 'warn', format('the databases have different encodings: %s there, %s here', $1 #>> '{}', current_setting('server_encoding')),"
     " 'A character that is not in the encoding here is an error.' WHERE $1 #>> '{}' <> current_setting('server_encoding')"},
	{"collation_version",
     "SELECT json_build_object('collate', datcollate, 'ctype', datctype, 'provider', datlocprovider, 'version', datcollversion) FROM pg_database WHERE datname = current_database()",
     "SELECT 'warn', format('the databases sort text in different ways: %s %s there, %s %s here', concat_ws(' ', $1 ->> 'collate', nullif($1 ->> 'ctype', $1 ->> 'collate')),"
     " $1 ->> 'version', concat_ws(' ', datcollate, nullif(datctype, datcollate)), datcollversion),"
     " 'Rows are the same; the order of text, and ranges of partitions over it, are not.' FROM pg_database WHERE datname = current_database()"
     " AND (datcollate <> $1 ->> 'collate' OR datctype <> $1 ->> 'ctype' OR datcollversion IS DISTINCT FROM $1 ->> 'version')"},
	{"extensions",
     PUBLISHED "SELECT coalesce(json_agg(x), '[]') FROM (SELECT DISTINCT e.extname AS extension, what, format('%s', name) AS relation, s.nspname AS schema, c.relname AS table"
               " FROM published JOIN pg_class c ON c.oid = relid JOIN pg_namespace s ON s.oid = c.relnamespace"
               " JOIN (SELECT a.attrelid AS usedby, 'types' AS what, d.refobjid AS extension FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
               "   JOIN pg_depend d ON d.classid = 'pg_type'::regclass AND d.objid IN (t.oid, t.typelem, t.typbasetype)"
               "   AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' WHERE a.attnum > 0 AND NOT a.attisdropped"
               /* an index with a column that is not published is not made */
               "  UNION ALL SELECT i.indrelid, format('operator class %I', o.opcname), d.refobjid FROM pg_index i CROSS JOIN unnest(i.indclass::oid[]) u(opclass)"
               "   JOIN pg_opclass o ON o.oid = u.opclass JOIN pg_depend d ON d.classid = 'pg_opclass'::regclass AND d.objid = o.oid"
               "   AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'"
               "   WHERE NOT EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = ANY ($1::text[])"
               "    AND r.prrelid = i.indrelid AND r.prattrs IS NOT NULL AND NOT i.indkey::int2[] <@ r.prattrs::int2[])) uses ON uses.usedby = relid"
               " JOIN pg_extension e ON e.oid = uses.extension) x",
     "SELECT CASE WHEN bool_or(to_regclass(format('%I.%I', x ->> 'schema', x ->> 'table')) IS NULL) THEN 'error' ELSE 'warn' END,"
     " format('extension %s, whose %s %s uses, is not installed here', x ->> 'extension', string_agg(DISTINCT x ->> 'what', ', '),"
     " string_agg(DISTINCT x ->> 'relation', ', ')),"
     " format('CREATE EXTENSION %I;', x ->> 'extension') FROM jsonb_array_elements($1) x"
     " WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = x ->> 'extension') GROUP BY x ->> 'extension'"},
	{"collations",
     PUBLISHED "SELECT coalesce(json_agg(x), '[]') FROM (SELECT DISTINCT n.nspname AS schema, l.collname AS name, l.collversion AS version FROM published"
               " JOIN pg_attribute a ON a.attrelid = relid AND a.attnum > 0 AND NOT a.attisdropped JOIN pg_collation l ON l.oid = a.attcollation"
               " JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.collprovider <> 'd') x",
     "SELECT CASE WHEN l.oid IS NULL THEN 'error' ELSE 'warn' END,"
     " format(CASE WHEN l.oid IS NULL THEN 'collation %I.%I of published columns is missing' ELSE 'collation %I.%I has another version here' END, x ->> 'schema', x ->> 'name'),"
     " CASE WHEN l.oid IS NULL THEN 'Create it (CREATE COLLATION).' ELSE 'Text sorts in different ways.' END FROM jsonb_array_elements($1) x"
     " LEFT JOIN (pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace) ON n.nspname = x ->> 'schema' AND l.collname = x ->> 'name'"
     " AND l.collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))"
     " WHERE l.oid IS NULL OR l.collversion IS DISTINCT FROM x ->> 'version'"},
	{"privileges",
     PUBLISHED "SELECT coalesce(json_agg(json_build_object('schema', n.nspname, 'table', c.relname)), '[]') FROM published JOIN pg_class c ON c.oid = relid"
               " JOIN pg_namespace n ON n.oid = c.relnamespace",
     "SELECT DISTINCT 'error', CASE WHEN n.oid IS NULL THEN format('schema %I is missing and %I may not create schemas in this database', x ->> 'schema', $2)"
     " ELSE format('tables of schema %I are missing and %I may not create tables in it', x ->> 'schema', $2) END,"
     " CASE WHEN n.oid IS NULL THEN format('GRANT CREATE ON DATABASE %I TO %I;', current_database(), $2)"
     " ELSE format('GRANT CREATE, USAGE ON SCHEMA %I TO %I;', n.nspname, $2) END FROM jsonb_array_elements($1) x"
     " LEFT JOIN pg_namespace n ON n.nspname = x ->> 'schema' WHERE to_regclass(format('%I.%I', x ->> 'schema', x ->> 'table')) IS NULL"
     " AND CASE WHEN n.oid IS NULL THEN NOT has_database_privilege($2, current_database(), 'CREATE') ELSE NOT has_schema_privilege($2, n.oid, 'CREATE') END"},
	{"tables",
     PUBLISHED "SELECT coalesce(json_agg(json_build_object('schema', n.nspname, 'table', c.relname)), '[]') FROM published JOIN pg_class c ON c.oid = relid"
               " JOIN pg_namespace n ON n.oid = c.relnamespace",
     "SELECT 'warn', format('table %s is there and may have rows', c.oid::regclass), 'Rows that are copied may meet their keys: empty it, or use copy_data => false.'"
     " FROM jsonb_array_elements($1) x JOIN pg_class c ON c.oid = to_regclass(format('%I.%I', x ->> 'schema', x ->> 'table'))"
     " WHERE c.relkind = 'r' AND pg_relation_size(c.oid) > 0"},
	{"other_subscriptions",
     PUBLISHED "SELECT coalesce(json_agg(json_build_object('schema', n.nspname, 'table', c.relname)), '[]') FROM published JOIN pg_class c ON c.oid = relid"
               " JOIN pg_namespace n ON n.oid = c.relnamespace",
     "SELECT 'warn', format('subscription %I writes %s of the tables: %s', name, count(*), string_agg(relation, ', ' ORDER BY relation) FILTER (WHERE number <= 10)"
     " || CASE WHEN count(*) > 10 THEN ', ...' ELSE '' END), 'From one publisher each row would come twice: take the tables out of one of them. From several, their rows need keys of"
     " their own, and each change of schema comes from all: set schema_changes to ignore for all but one.'"
     " FROM (SELECT s.name, c.oid::regclass::text AS relation, row_number() OVER (PARTITION BY s.name ORDER BY c.oid::regclass::text) AS number"
     "  FROM jsonb_to_recordset($1) x(\"schema\" text, \"table\" text) JOIN pg_namespace n ON n.nspname = x.\"schema\""
     "  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = x.\"table\" JOIN schemasync.relation r ON r.relid = c.oid AND r.state <> 'removed'"
     "  JOIN schemasync.subscription s USING (subid)) o GROUP BY name ORDER BY name"},
	{"partitions",
     PUBLISHED "SELECT coalesce(json_agg(json_build_object('schema', n.nspname, 'table', c.relname, 'parent_schema', pn.nspname, 'parent', pc.relname)), '[]')"
               " FROM published JOIN pg_class c ON c.oid = relid JOIN pg_namespace n ON n.oid = c.relnamespace"
               " JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_class pc ON pc.oid = i.inhparent AND pc.relkind = 'p'"
               " JOIN pg_namespace pn ON pn.oid = pc.relnamespace",
     "SELECT 'warn', format('table %s is there, but not its partition %I.%I', p.oid::regclass, x ->> 'schema', x ->> 'table'),"
     " 'Make it, or publish the rows through the root (publish_via_partition_root).' FROM jsonb_array_elements($1) x"
     " JOIN pg_class p ON p.oid = to_regclass(format('%I.%I', x ->> 'parent_schema', x ->> 'parent'))"
     " WHERE to_regclass(format('%I.%I', x ->> 'schema', x ->> 'table')) IS NULL"},
	{"same_database",
     "SELECT json_build_object('system', system_identifier::text, 'database', current_database()) FROM pg_control_system()",
     "SELECT 'warn', 'the publisher is this very database', 'Rows would come back to where they are from.' FROM pg_control_system()"
     " WHERE system_identifier::text = $1 ->> 'system' AND current_database() = $1 ->> 'database'"},
	{},
};

} // namespace schemasync::api
