-- The schemasync messages of the decoder: what is announced when, and what never is.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION schemasync;
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT 'slot' AS made FROM pg_create_logical_replication_slot('states', 'schemasync_decoder');

-- One line a message, without what differs between runs and versions.
CREATE SCHEMA helper;
CREATE FUNCTION helper.relation(r jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT concat((r->>'schema') || '.', r->>'name',
		'(' || (SELECT string_agg(c->>'name', ',' ORDER BY (c->>'attnum')::int) FROM jsonb_array_elements(r->'columns') c) || ')',
		CASE WHEN (r->>'own')::boolean THEN ' own' END,
		CASE WHEN (r->>'created_here')::boolean THEN ' new' END,
		' indexes:' || (SELECT string_agg(concat(i->>'name', CASE WHEN NOT (i->>'valid')::boolean THEN ' (invalid)' END), ',')
			FROM jsonb_array_elements(r->'indexes') i),
		' checks:' || (SELECT string_agg(concat(c->>'name', CASE WHEN NOT (c->>'validated')::boolean THEN ' (not valid)' END), ',')
			FROM jsonb_array_elements(r->'constraints') c WHERE c->>'type' = 'c')) $$;
CREATE FUNCTION helper.type(t jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT concat(t->>'name',
		'(' || (SELECT string_agg(l->>'label', ',') FROM jsonb_array_elements(t->'labels') l) || ')',
		'(' || (SELECT string_agg(l->>'name', ',') FROM jsonb_array_elements(t->'attributes') l) || ')') $$;
CREATE FUNCTION helper.own_message(prefix text, c jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', replace(prefix, 'schemasync.', '* '), c->>'tag', c->>'provenance',
		'relations=' || CASE WHEN c ? 'relations' THEN (SELECT string_agg(helper.relation(r), '; ') FROM jsonb_array_elements(c->'relations') r)
			ELSE helper.relation(coalesce(c->'state', c->'relation')) END,
		'types=' || (SELECT string_agg(helper.type(t), ', ') FROM jsonb_array_elements(c->'types') t),
		'schemas=' || (SELECT string_agg(s->>'name', ', ') FROM jsonb_array_elements(c->'schemas') s),
		'dropped=' || (SELECT string_agg(concat_ws(' ', d->>'type', d->>'identity'), ', ')
			FROM jsonb_array_elements(c->'dropped') d WHERE (d->>'original')::boolean),
		'rewrites=' || (SELECT string_agg(concat(r->>'rows', ' rows', CASE WHEN (r->>'carried')::boolean THEN ' carried' END), ', ')
			FROM jsonb_array_elements(c->'rewrites') r),
		'using=' || (SELECT string_agg(concat(u->>'given', ' ', u->'expr'->>'sql'), ', ') FROM jsonb_array_elements(c->'using') u),
		'statement=' || (c->>'statement')) $$;
CREATE FUNCTION helper.brief(m jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT CASE m->>'message'
		WHEN 'message' THEN CASE WHEN m->>'prefix' LIKE 'schemasync%' THEN helper.own_message(m->>'prefix', m->'content') ELSE 'message ' || (m->>'prefix') END
		WHEN 'relation' THEN concat('relation ', regexp_replace(m->>'name', '^pg_temp_\d+', 'transient'), '(', (SELECT string_agg(c->>'name', ',') FROM jsonb_array_elements(m->'columns') c), ')')
		WHEN 'insert' THEN 'insert ' || (m->>'new')
		ELSE m->>'message' END $$;
CREATE FUNCTION helper.read(slot name, publications text, VARIADIC options text[] DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
	SELECT b FROM (SELECT helper.brief(schemasync_decode(data)) AS b
		FROM pg_logical_slot_get_binary_changes(slot, NULL, NULL, VARIADIC
			ARRAY['proto_version', '3', 'publication_names', publications, 'schemasync', '1'] || options)) x
	WHERE b NOT IN ('begin', 'commit', 'type') $$;
CREATE FUNCTION helper.stream(publications text DEFAULT 'everything', VARIADIC options text[] DEFAULT '{}') RETURNS SETOF text LANGUAGE sql AS $$
	SELECT helper.read('states', publications, VARIADIC options) $$;
\pset tuples_only on
\pset format unaligned

-- a command tells the states of what it touched; rows come after the state they need
DO $$ BEGIN PERFORM helper.stream(); END $$;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE person (id int PRIMARY KEY, m mood DEFAULT 'ok', name text CHECK (name <> ''));
INSERT INTO person VALUES (1);
ALTER TABLE person ADD since timestamptz DEFAULT '2020-01-01 00:00+00';
INSERT INTO person VALUES (2);
ALTER TYPE mood ADD VALUE 'happy';
CREATE INDEX person_name ON person (name);
DROP INDEX person_name;
SELECT helper.stream();

-- a new session tells the state again; what changes no state tells nothing
INSERT INTO person VALUES (3, 'happy');
ANALYZE person;
VACUUM FULL person;
CLUSTER person USING person_pkey;
GRANT SELECT ON person TO PUBLIC;
INSERT INTO person VALUES (4);
SELECT helper.stream();

-- temporary tables and materialized views: no rows, no states
CREATE TEMP TABLE scratch (id int);
ALTER TABLE scratch ADD x float DEFAULT random();
DROP TABLE scratch;
CREATE MATERIALIZED VIEW people AS SELECT * FROM person;
REFRESH MATERIALIZED VIEW people;
DROP MATERIALIZED VIEW people;
SELECT helper.stream();

-- without event triggers: states are inferred, also when only a type or a function changed
ALTER EVENT TRIGGER schemasync_capture_end DISABLE;
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TABLE typed (id int PRIMARY KEY, p pair, m mood[], d positive, o int DEFAULT one());
INSERT INTO typed VALUES (1);
ALTER TYPE pair ADD ATTRIBUTE c int;
INSERT INTO typed VALUES (2);
ALTER TYPE mood ADD VALUE 'angry' BEFORE 'sad';
INSERT INTO typed VALUES (3);
ALTER DOMAIN positive ADD CHECK (VALUE < 100);
INSERT INTO typed VALUES (4);
DROP FUNCTION one CASCADE;
INSERT INTO typed VALUES (5);
CREATE TEMP TABLE scratch (id int);
INSERT INTO typed VALUES (6);
ALTER TABLE typed RENAME p TO q;
INSERT INTO typed VALUES (7);
ALTER EVENT TRIGGER schemasync_capture_end ENABLE;
SELECT helper.stream();

-- several states in one transaction, and none of what was rolled back
BEGIN;
INSERT INTO person VALUES (10);
ALTER TABLE person ADD a int;
INSERT INTO person VALUES (11);
SAVEPOINT s;
ALTER TABLE person ADD b int;
INSERT INTO person VALUES (12);
ROLLBACK TO s;
ALTER TABLE person DROP a;
INSERT INTO person VALUES (13);
COMMIT;
SELECT helper.stream();

-- rewrites: announced, and carried where that is wanted
ALTER TABLE person ADD u int DEFAULT 1 + 0 * random(), ALTER id TYPE bigint USING id * 100;
SELECT helper.stream('everything', 'rewrites', 'carry');
ALTER TABLE person ADD s serial;
SELECT helper.stream();
ALTER TABLE person SET UNLOGGED;
ALTER TABLE person SET LOGGED;
SELECT helper.stream();
CREATE TABLE copied AS SELECT id FROM person WHERE id < 300;
SELECT helper.stream();

-- an older state never follows a later one: the transaction's rows were written before what was told meanwhile
BEGIN;
INSERT INTO person (id) VALUES (20);
INSERT INTO typed VALUES (20);
PREPARE TRANSACTION 'long';
ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
ALTER TABLE person ALTER name SET STATISTICS 7;
INSERT INTO person (id) VALUES (21);
INSERT INTO typed VALUES (21);
COMMIT PREPARED 'long';
INSERT INTO person (id) VALUES (22);
INSERT INTO typed VALUES (22);
SELECT helper.stream();
-- but its own change is told, and then is what others saw before it
ALTER TABLE person ADD CONSTRAINT later CHECK (id > 0) NOT VALID;
SELECT helper.stream();
BEGIN;
INSERT INTO person (id) VALUES (23);
PREPARE TRANSACTION 'writer';
BEGIN;
ALTER TABLE person VALIDATE CONSTRAINT later;
INSERT INTO person (id) VALUES (24);
PREPARE TRANSACTION 'validator';
BEGIN;
INSERT INTO person (id) VALUES (25);
PREPARE TRANSACTION 'other writer';
COMMIT PREPARED 'validator';
COMMIT PREPARED 'other writer';
INSERT INTO person (id) VALUES (26);
COMMIT PREPARED 'writer';
SELECT helper.stream();

-- prepared transactions: what they were told counts only if they commit; their locks are not waited for
SELECT 'slot' AS made FROM pg_create_logical_replication_slot('prepared', 'schemasync_decoder', false, true);
BEGIN;
ALTER TABLE person DROP u;
ALTER TABLE person ADD CHECK (id > -1);
CREATE INDEX person_since ON person (since DESC, lower(name)) WHERE name <> '';
INSERT INTO person (id) VALUES (30);
PREPARE TRANSACTION 'undone';
SELECT helper.read('prepared', 'everything');
ROLLBACK PREPARED 'undone';
INSERT INTO person (id) VALUES (31);
SELECT helper.read('prepared', 'everything');
BEGIN;
ALTER TABLE person DROP u;
PREPARE TRANSACTION 'done';
COMMIT PREPARED 'done';
INSERT INTO person (id) VALUES (32);
SELECT helper.read('prepared', 'everything');

SELECT pg_drop_replication_slot('prepared');

-- streamed transactions: the same; runs of rows are counted
CREATE FUNCTION helper.runs(VARIADIC options text[]) RETURNS TABLE (line text) LANGUAGE sql AS $$
	SELECT DISTINCT ON (n) b || CASE WHEN b LIKE '%insert' THEN 's' ELSE '' END FROM (
		SELECT b, sum(fresh) OVER (ROWS UNBOUNDED PRECEDING) AS n FROM (
			SELECT b, (b <> 'insert' OR lag(b, 1, '') OVER () <> 'insert')::int AS fresh FROM (
				SELECT regexp_replace(b, '^(insert) .*', '\1') AS b FROM helper.stream('everything', VARIADIC options) b
				WHERE b NOT IN ('stream_start', 'stream_stop') AND b NOT LIKE 'relation%') x) y) z ORDER BY n $$;
SET logical_decoding_work_mem = '64kB';
DO $$ BEGIN PERFORM helper.stream(); END $$;
BEGIN;
INSERT INTO copied SELECT i FROM generate_series(1, 2000) i;
SAVEPOINT s;
ALTER TABLE copied ADD gone text;
INSERT INTO copied SELECT i, 'x' FROM generate_series(1, 2000) i;
ROLLBACK TO s;
ALTER TABLE copied ADD here text;
INSERT INTO copied SELECT i, 'x' FROM generate_series(1, 2000) i;
COMMIT;
BEGIN;
ALTER TABLE copied DROP here;
INSERT INTO copied SELECT i FROM generate_series(1, 2000) i;
ROLLBACK;
INSERT INTO copied VALUES (0);
-- (before 18 a transaction that is known to be aborted is begun all the same)
SELECT line FROM (SELECT line, lag(line, 1, '') OVER () AS before FROM helper.runs('streaming', 'on')) x
WHERE (before, line) <> ('stream_commit', 'stream_abort');

-- a forged message is nothing, whoever writes it, and is not passed on
CREATE ROLE decode_states_forger;
SET ROLE decode_states_forger;
SELECT 'written' FROM pg_logical_emit_message(true, 'schemasync.marker',
	'{"mac":"' || repeat('0', 64) || '","v":1,"xid":1,"subxid":1,"tag":"ALTER TABLE","statement":"forged","user":"x"}');
SELECT 'written' FROM pg_logical_emit_message(false, 'schemasync.marker', 'rubbish');
SELECT 'written' FROM pg_logical_emit_message(true, 'schemasync.ddl', '{"v":1}');
SELECT 'written' FROM pg_logical_emit_message(true, 'innocent', 'hello');
RESET ROLE;
DROP ROLE decode_states_forger;
SELECT helper.stream('everything', 'messages', 'on');
-- nor is a true one that is played again
CREATE TABLE replayed (id int);
SELECT 'slot' FROM pg_create_logical_replication_slot('spy', 'test_decoding');
ALTER TABLE replayed ADD x int;
CREATE TABLE helper.seen AS SELECT substr(data, strpos(data, 'content:') + 8) AS payload
	FROM pg_logical_slot_get_changes('spy', NULL, NULL) WHERE data LIKE '%prefix: schemasync.marker,%';
DO $$ BEGIN PERFORM helper.stream(); END $$;
SELECT 'written' FROM helper.seen, pg_logical_emit_message(true, 'schemasync.marker', payload);
SELECT helper.stream();
SELECT pg_drop_replication_slot('spy');

-- FOR TABLE: what is not published is neither described nor named; a column list hides all that mentions its columns
CREATE TABLE secret (id int PRIMARY KEY, hidden text DEFAULT 'hush', shown text,
	twice int GENERATED ALWAYS AS (id * 2) STORED, CONSTRAINT c CHECK (hidden <> 'x'));
CREATE INDEX secret_hidden ON secret (lower(hidden));
CREATE TABLE unpublished (id int);
CREATE TABLE listed (id int PRIMARY KEY, m mood);
CREATE PUBLICATION few FOR TABLE secret (id, shown), listed;
DO $$ BEGIN PERFORM helper.stream(); END $$;
INSERT INTO secret (id) VALUES (1);
ALTER TABLE secret ADD hidden2 text DEFAULT 'hush';
ALTER TABLE secret RENAME hidden2 TO hidden3;
CREATE INDEX secret_shown ON secret (shown) WHERE hidden IS NULL;
CREATE INDEX secret_shown2 ON secret (shown);
ALTER TABLE secret DROP hidden3;
DROP INDEX secret_shown;
INSERT INTO secret (id) VALUES (2);
ALTER TABLE unpublished ADD x int;
INSERT INTO unpublished VALUES (1);
CREATE TYPE unrelated AS ENUM ('a');
CREATE SCHEMA unrelated;
ALTER TYPE mood ADD VALUE 'tired';
INSERT INTO listed VALUES (1, 'tired');
ALTER TABLE listed ADD x int;
DROP TABLE unpublished;
DROP TABLE listed;
SELECT helper.stream('few');
INSERT INTO secret (id) VALUES (3);
SELECT bool_or(m::text ~ 'hush|hidden|twice') AS leaks FROM (SELECT schemasync_decode(data) AS m
	FROM pg_logical_slot_get_binary_changes('states', NULL, NULL, 'proto_version', '3', 'publication_names', 'few', 'schemasync', '1')) x;

-- partitions: parents first, those that come and go
CREATE TABLE measured (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE measured_1 PARTITION OF measured FOR VALUES FROM (0) TO (10);
CREATE PUBLICATION parts FOR TABLE measured;
DO $$ BEGIN PERFORM helper.stream(); END $$;
INSERT INTO measured VALUES (1);
ALTER TABLE measured ADD w int;
INSERT INTO measured VALUES (2);
CREATE TABLE measured_2 PARTITION OF measured FOR VALUES FROM (10) TO (20);
CREATE TABLE measured_3 (LIKE measured);
ALTER TABLE measured ATTACH PARTITION measured_3 FOR VALUES FROM (20) TO (30);
INSERT INTO measured VALUES (11), (21);
ALTER TABLE measured DETACH PARTITION measured_1;
INSERT INTO measured_1 VALUES (3);
CREATE INDEX measured_k ON measured (k);
DROP TABLE measured_2;
SELECT helper.stream('parts');
ALTER PUBLICATION parts SET (publish_via_partition_root);
INSERT INTO measured VALUES (22);
SELECT helper.stream('parts');

-- renames: tables, schemas
CREATE SCHEMA inner_schema;
CREATE TABLE inner_schema.moving (id int);
DO $$ BEGIN PERFORM helper.stream(); END $$;
ALTER SCHEMA inner_schema RENAME TO outer_schema;
ALTER TABLE outer_schema.moving SET SCHEMA public;
ALTER TABLE moving RENAME TO moved;
INSERT INTO moved VALUES (1);
DROP SCHEMA outer_schema;
SELECT helper.stream();

-- a list that names all columns is none up to 17; of one more it says nothing, right after a row either
CREATE TABLE listed (id int PRIMARY KEY, v text);
CREATE PUBLICATION listed FOR TABLE listed (id, v);
DO $$ BEGIN PERFORM helper.stream(); END $$;
INSERT INTO listed VALUES (1, 'a');
ALTER TABLE listed ADD secret text DEFAULT 'hidden';
INSERT INTO listed VALUES (2, 'b');
SELECT helper.stream('listed');

-- a command is no reason to fail while the publication is not there
DROP PUBLICATION everything;
CREATE TABLE meanwhile (id int);
ALTER TABLE meanwhile ADD x float DEFAULT random();
CREATE PUBLICATION everything FOR ALL TABLES;
INSERT INTO moved VALUES (2);
SELECT helper.stream();

SELECT pg_drop_replication_slot('states');
