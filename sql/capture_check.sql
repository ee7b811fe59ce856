-- schemasync_check tells what a command means for subscribers and leaves no trace; schemasync.guard warns of it or rejects it.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION schemasync;
CREATE TABLE t (a int PRIMARY KEY, b text, c timestamp, d int);
INSERT INTO t VALUES (1, 'one', '2020-01-01', 1);
CREATE TABLE empty_t (a int PRIMARY KEY);
CREATE TABLE unpublished (a int PRIMARY KEY);
CREATE TABLE part (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (1) TO (10);
INSERT INTO part VALUES (1, 1);
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TYPE pair AS (x int, y int);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE typed (a int PRIMARY KEY, m mood, p positive);
CREATE VIEW v AS SELECT a, b FROM t;
CREATE SCHEMA other;
CREATE TABLE other.o (a int PRIMARY KEY);
CREATE PUBLICATION pub FOR TABLE t, empty_t, part, typed, other.o;
\pset format unaligned
\pset tuples_only on

CREATE FUNCTION checked(ddl text, policy jsonb DEFAULT '{}') RETURNS TABLE (line text) LANGUAGE sql AS $$
	SELECT concat_ws(' | ', operation, object_identity, verdict, reason, lock, CASE WHEN rewrite THEN 'rewrite' END, severity, sql)
	FROM schemasync_check(ddl, policy)
$$;
SELECT 'slot' FROM pg_create_logical_replication_slot('check', 'test_decoding');

\echo -- columns
SELECT * FROM checked('ALTER TABLE t ADD COLUMN e int DEFAULT 5');
SELECT verdict, sql LIKE '%DEFAULT%' FROM schemasync_check('ALTER TABLE t ADD COLUMN e timestamptz DEFAULT now()');
SELECT * FROM checked('ALTER TABLE t ADD COLUMN e float8 DEFAULT random()');
SELECT * FROM checked('ALTER TABLE empty_t ADD COLUMN e float8 DEFAULT random()');
SELECT operation, verdict, rewrite FROM schemasync_check('ALTER TABLE t ADD COLUMN e float8 DEFAULT random()', '{"rewrites": "carry"}');
SELECT * FROM checked('ALTER TABLE t DROP COLUMN d');
SELECT * FROM checked('ALTER TABLE t DROP COLUMN d', '{"drop_column": "refuse"}');
SELECT * FROM checked('ALTER TABLE t DROP COLUMN b CASCADE');
SELECT * FROM checked('ALTER TABLE t RENAME b TO bb');
SELECT * FROM checked('ALTER TABLE t ALTER d TYPE bigint');
SELECT * FROM checked('ALTER TABLE t ALTER d TYPE int USING d * 100');
SELECT * FROM checked('ALTER TABLE t ALTER d TYPE int USING (random() * 100)::int');
SELECT * FROM checked('ALTER TABLE t ALTER d SET NOT NULL, ALTER c SET DEFAULT now()');
SELECT * FROM checked('ALTER TABLE part ADD COLUMN e int DEFAULT 5');

\echo -- tables, indexes, constraints
SELECT operation, verdict FROM schemasync_check('CREATE TABLE made (a int PRIMARY KEY)');
SELECT * FROM checked('ALTER TABLE t RENAME TO tt');
SELECT * FROM checked('ALTER TABLE t SET SCHEMA other');
SELECT * FROM checked('DROP TABLE t CASCADE');
SELECT * FROM checked('DROP SCHEMA other CASCADE');
SELECT operation, verdict, lock FROM schemasync_check('CREATE INDEX ti ON t (b)');
SELECT operation, verdict FROM schemasync_check('ALTER TABLE t ADD CONSTRAINT positive CHECK (d > 0)');
SELECT operation, verdict FROM schemasync_check('ALTER TABLE t DROP CONSTRAINT t_pkey');
SELECT operation, verdict, reason FROM schemasync_check('ALTER TABLE part DETACH PARTITION part1');
SELECT * FROM checked('ALTER TABLE t SET TABLESPACE pg_default');
SELECT operation, object_identity, verdict, detail FROM schemasync_check('ALTER TABLE unpublished ADD COLUMN e float8 DEFAULT random()');
SELECT operation, verdict, detail FROM schemasync_check('CREATE TEMP TABLE passing (a int)');

\echo -- types, and what reaches tables by a cascade only
SELECT * FROM checked($$ALTER TYPE mood ADD VALUE 'so-so' AFTER 'sad'$$);
SELECT * FROM checked('DROP TYPE mood CASCADE');
SELECT * FROM checked('DROP DOMAIN positive CASCADE');
SELECT operation, verdict FROM schemasync_check('CREATE TYPE made AS ENUM ()');

\echo -- other classes
SELECT operation, object_identity, verdict, detail FROM schemasync_check('CREATE VIEW v2 AS SELECT 1 AS one');
SELECT operation, object_identity, verdict, detail FROM schemasync_check('CREATE VIEW v2 AS SELECT 1 AS one', '{"ddl_classes": ["views"]}');
SELECT operation, object_identity, verdict, detail FROM schemasync_check('GRANT SELECT ON t TO PUBLIC');
SELECT operation, object_identity, verdict, detail FROM schemasync_check('ALTER PUBLICATION pub DROP TABLE t');
SELECT operation, object_identity, verdict, detail FROM schemasync_check('CREATE FOREIGN DATA WRAPPER w');

\echo -- tables of their own
SELECT * FROM checked('ALTER TABLE t DROP COLUMN d', '{"drop_column": "refuse", "tables": {"public.t": {"drop_column": "keep"}, "other.o": {"drop_column": null}}}');
SELECT * FROM checked('ALTER TABLE other.o DROP COLUMN a', '{"drop_column": "refuse", "tables": {"t": {"drop_column": "keep"}}}');
SELECT verdict, rewrite FROM schemasync_check('ALTER TABLE t ADD COLUMN e float8 DEFAULT random()', '{"tables": {"public.t": {"rewrites": "carry"}}}');
SELECT verdict, reason FROM schemasync_check('ALTER TABLE t ADD COLUMN e float8 DEFAULT random()', '{"rewrites": "carry", "tables": {"public.t": {"rewrites": "refuse"}}}');
SELECT object_identity, verdict, reason FROM schemasync_check('DROP TABLE t, other.o CASCADE', '{"drop_table": "refuse", "tables": {"other.o": {"drop_table": "forward"}}}') ORDER BY 1;
SELECT object_identity, verdict, sql FROM schemasync_check('ALTER TABLE t RENAME TO tt', '{"tables": {"public.t": {"drop_table": "keep"}}}');
-- a partition has what is set for the nearest table above it, also when the command makes it
SELECT verdict, reason FROM schemasync_check('DROP TABLE part1', '{"tables": {"part": {"drop_table": "refuse"}}}');
SELECT verdict, reason FROM schemasync_check('DROP TABLE part1', '{"tables": {"part": {"drop_table": "refuse"}, "part1": {"drop_table": "forward"}}}');
SELECT operation, object_identity, verdict FROM schemasync_check('CREATE TABLE part2 PARTITION OF part (CHECK (b > 0)) FOR VALUES FROM (10) TO (20)', '{"tables": {"part": {"constraints": "ignore"}}}');
-- classes of what lies on a table
SELECT operation, object_identity, verdict FROM schemasync_check('GRANT SELECT ON t, other.o TO PUBLIC', '{"ddl_classes": ["privileges"], "tables": {"public.t": {"ddl_classes": ["comments"]}}}');
SELECT operation, object_identity, verdict FROM schemasync_check('COMMENT ON COLUMN t.b IS ''b''', '{"tables": {"public.t": {"ddl_classes": ["comments"]}}}');
SELECT operation, object_identity, verdict FROM schemasync_check('CREATE STATISTICS s ON a, b FROM t', '{"tables": {"public.t": {"ddl_classes": ["statistics"]}}}');
SELECT operation, object_identity, verdict FROM schemasync_check('COMMENT ON VIEW v IS ''v''', '{"ddl_classes": ["comments"], "tables": {"public.t": {"ddl_classes": []}}}');
-- as schemasync_set_table_policy would say
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int', '{"tables": {"public.t": {"binary": true}}}');
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int', '{"tables": {"public.t": {"drop_column": "ignore"}}}');
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int', '{"tables": {"public.t": "keep"}}');
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int', '{"tables": ["public.t"]}');
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int', '{"tables": {"public.nowhere": {}}}');
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int', '{"tables": {"v": {}}}');

\echo -- what it does not take
SELECT * FROM schemasync_check('');
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int; ALTER TABLE t ADD y int');
SELECT * FROM schemasync_check('COMMIT');
SELECT * FROM schemasync_check('SELECT 1');
SELECT * FROM schemasync_check('INSERT INTO t VALUES (2)');
SELECT * FROM schemasync_check('VACUUM t');
SELECT * FROM schemasync_check('TRUNCATE t');
SELECT * FROM schemasync_check('CREATE DATABASE d');
SELECT * FROM schemasync_check('CREATE INDEX CONCURRENTLY ON t (b)');
SELECT * FROM schemasync_check('DROP INDEX CONCURRENTLY no_such');
SELECT * FROM schemasync_check('ALTER TABLE part DETACH PARTITION part1 CONCURRENTLY');
SELECT * FROM schemasync_check('CREATE SUBSCRIPTION s CONNECTION '''' PUBLICATION p');
SELECT * FROM schemasync_check('ALTER TABLE nowhere ADD x int');
SELECT * FROM schemasync_check('ALTER TABLE t ADD a int');
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int', '{"no_such_option": 1}');
SELECT * FROM schemasync_check('CREATE TABLE c AS SELECT * FROM schemasync_check(''DROP TABLE t'')');
SET session_replication_role = replica;
SELECT * FROM schemasync_check('ALTER TABLE t ADD x int');
RESET session_replication_role;

\echo -- no trace
BEGIN;
SELECT operation FROM schemasync_check('ALTER TABLE t ADD COLUMN e int');
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 't'::regclass AND mode = 'AccessExclusiveLock';
ALTER TABLE t ADD COLUMN e int;
ROLLBACK;
SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0;
SELECT to_regclass('made'), to_regtype('made');
SELECT count(*) FROM pg_logical_slot_get_changes('check', NULL, NULL) WHERE data LIKE '%schemasync.marker%';

\echo -- the rights are those of the caller
CREATE ROLE regress_check_user;
SET ROLE regress_check_user;
SELECT * FROM schemasync_check('ALTER TABLE t ADD COLUMN e int');
SET schemasync.guard = off;
RESET ROLE;

\echo -- the guard
SET schemasync.guard = warn;
ALTER TABLE t ADD COLUMN e1 float8 DEFAULT random();
ALTER TABLE t ADD COLUMN e2 int DEFAULT 5;
ALTER TABLE unpublished ADD COLUMN e1 float8 DEFAULT random();
CREATE TABLE IF NOT EXISTS t (a int);
SET schemasync.guard = error;
ALTER TABLE t ADD COLUMN e3 float8 DEFAULT random();
ALTER TABLE t ALTER d TYPE int USING (random() * 100)::int;
ALTER TABLE t ALTER d TYPE int USING d * 100;
ALTER TABLE empty_t ADD COLUMN e3 float8 DEFAULT random();
ALTER TABLE part ADD COLUMN e3 float8 DEFAULT random();
SET schemasync.guard_policy = '{"rewrites": "carry", "drop_column": "refuse"}';
ALTER TABLE t ADD COLUMN e4 float8 DEFAULT random();
ALTER TABLE t DROP COLUMN e4;
ALTER TABLE t RENAME e4 TO e5;
SET schemasync.guard_policy = '{"rewrites": "carry", "tables": {"public.t": {"drop_column": "refuse"}, "empty_t": {"rewrites": "refuse"}, "public.nowhere": {"drop_column": "keep"}}}';
ALTER TABLE t DROP COLUMN e5;
ALTER TABLE empty_t DROP COLUMN e3;
INSERT INTO empty_t VALUES (1);
ALTER TABLE empty_t ADD COLUMN e5 float8 DEFAULT random();
SET schemasync.guard_policy = '{"tables": {"empty_t": {"rewrites": "carry"}}}';
ALTER TABLE empty_t ADD COLUMN e5 float8 DEFAULT random();
SET session_replication_role = replica;
ALTER TABLE t ADD COLUMN e6 float8 DEFAULT random();
RESET session_replication_role;
RESET schemasync.guard_policy;
RESET schemasync.guard;
SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0;

\echo -- a replica identity is needed for updates and deletes
CREATE TABLE keyed (a int NOT NULL);
CREATE UNIQUE INDEX keyed_i ON keyed (a);
ALTER TABLE keyed REPLICA IDENTITY USING INDEX keyed_i;
CREATE PUBLICATION inserts FOR TABLE keyed WITH (publish = 'insert');
SELECT * FROM checked('DROP INDEX keyed_i');
ALTER PUBLICATION inserts SET (publish = 'insert, update');
SELECT * FROM checked('DROP INDEX keyed_i');
DROP TABLE keyed;
DROP PUBLICATION inserts;

DROP EXTENSION schemasync;
SELECT pg_drop_replication_slot('check');
DROP FUNCTION checked;
DROP VIEW v;
DROP TABLE t, empty_t, unpublished, part, typed, other.o;
DROP TYPE mood, pair;
DROP DOMAIN positive;
DROP SCHEMA other;
DROP PUBLICATION pub;
DROP ROLE regress_check_user;
