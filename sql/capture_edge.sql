-- Capture where things are nested, fail, are missing or hostile: the user's command always succeeds as without it.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION schemasync;
SELECT 'slot' AS made FROM pg_create_logical_replication_slot('capture_edge', 'test_decoding');
CREATE SCHEMA helper;
CREATE FUNCTION helper.markers() RETURNS TABLE (tag text, touched text, dropped text, who text) LANGUAGE sql AS $$
	SELECT j->>'tag',
		(SELECT string_agg(concat_ws(' ', x->>'type', x->>'identity'), ', ') FROM json_array_elements(j->'objects') x),
		(SELECT string_agg(concat_ws(' ', x->>'type', x->>'identity'), ', ')
			FROM json_array_elements(j->'dropped') x WHERE (x->>'original')::bool),
		j->>'user'
	FROM (
		SELECT substr(data, strpos(data, 'content:') + 8)::json AS j
		FROM pg_logical_slot_get_changes('capture_edge', NULL, NULL)
		WHERE data LIKE 'message: transactional: 1 prefix: schemasync.marker,%') m
$$;
SELECT count(*) > 0 AS some FROM helper.markers();
\pset format unaligned
\pset tuples_only on

\echo -- DO blocks, functions, procedures that commit
DO $$ BEGIN CREATE TABLE d1 (a int); ALTER TABLE d1 ADD b int; END $$;
CREATE FUNCTION helper.make(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (a int)', name);
	EXECUTE format('ALTER TABLE %I ADD b int', name);
END $$;
SELECT helper.make('f1'), helper.make('f"2');
CREATE PROCEDURE helper.commits() LANGUAGE plpgsql AS $$
BEGIN
	CREATE TABLE pr1 (a int);
	COMMIT;
	DROP TABLE pr1;
	CREATE TABLE pr2 (a int);
	ROLLBACK;
	CREATE TABLE pr3 (a int);
END $$;
CALL helper.commits();
SELECT tag, touched, dropped FROM helper.markers();

\echo -- what is rolled back leaves no marker
BEGIN;
CREATE TABLE s1 (a int);
SAVEPOINT s;
ALTER TABLE s1 ADD b int;
CREATE TABLE s2 (a int);
ROLLBACK TO s;
ALTER TABLE s1 ADD c int;
COMMIT;
BEGIN;
CREATE TABLE s3 (a int);
ROLLBACK;
DO $$ BEGIN
	CREATE TABLE s4 (a int);
	BEGIN
		ALTER TABLE s4 ADD b int;
		ALTER TABLE s4 ADD b int;
	EXCEPTION WHEN duplicate_column THEN NULL;
	END;
	ALTER TABLE s4 ADD c int;
END $$;
SELECT tag, touched, dropped FROM helper.markers();

\echo -- event triggers of others that run DDL, before and after ours, at every event
CREATE FUNCTION helper.foreign_trigger() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('helper.nested', true) = 'on' THEN RETURN; END IF;
	PERFORM set_config('helper.nested', 'on', true);
	EXECUTE format('CREATE TABLE nested_%s (a int)', replace(tg_event, 'ddl_command_', ''));
	EXECUTE format('ALTER TABLE nested_%s ALTER a TYPE text', replace(tg_event, 'ddl_command_', ''));
	EXECUTE format('DROP TABLE nested_%s', replace(tg_event, 'ddl_command_', ''));
	BEGIN
		CREATE TABLE nested_fails (a int);
		DROP TABLE d1;
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	PERFORM set_config('helper.nested', 'off', true);
END $$;
CREATE TABLE outer_t (a int, b int);
SELECT count(*) > 0 FROM helper.markers();
CREATE EVENT TRIGGER a_start ON ddl_command_start EXECUTE FUNCTION helper.foreign_trigger();
DROP TABLE f1;
SELECT tag, touched, dropped FROM helper.markers();
DROP EVENT TRIGGER a_start;
CREATE EVENT TRIGGER a_drop ON sql_drop EXECUTE FUNCTION helper.foreign_trigger();
CREATE EVENT TRIGGER z_drop ON sql_drop EXECUTE FUNCTION helper.foreign_trigger();
ALTER TABLE outer_t DROP COLUMN b;
SELECT tag, touched, dropped FROM helper.markers();
DROP EVENT TRIGGER a_drop;
DROP EVENT TRIGGER z_drop;
CREATE EVENT TRIGGER z_end ON ddl_command_end EXECUTE FUNCTION helper.foreign_trigger();
CREATE EVENT TRIGGER a_end ON ddl_command_end EXECUTE FUNCTION helper.foreign_trigger();
CREATE EVENT TRIGGER a_rewrite ON table_rewrite EXECUTE FUNCTION helper.foreign_trigger();
ALTER TABLE outer_t ADD r float8 DEFAULT random();
SELECT tag, touched, dropped FROM helper.markers();
DROP EVENT TRIGGER z_end;
DROP EVENT TRIGGER a_end;
DROP EVENT TRIGGER a_rewrite;

\echo -- one that drops what was just made
CREATE FUNCTION helper.drops() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS made_in_vain;
END $$;
CREATE EVENT TRIGGER a_end ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION helper.drops();
CREATE TABLE made_in_vain (a int PRIMARY KEY);
DROP EVENT TRIGGER a_end;
SELECT tag, touched, dropped FROM helper.markers();

\echo -- one that fails: the command fails, the next one is not mixed up with it
CREATE FUNCTION helper.fails() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''not today''; END';
CREATE EVENT TRIGGER z_drop ON sql_drop EXECUTE FUNCTION helper.fails();
DROP TABLE outer_t;
DO $$ BEGIN
	BEGIN
		DROP TABLE outer_t;
	EXCEPTION WHEN raise_exception THEN NULL;
	END;
	CREATE TABLE after_failure (a int);
END $$;
DROP EVENT TRIGGER z_drop;
DROP TABLE after_failure;
SELECT tag, touched, dropped FROM helper.markers();

\echo -- ordinary users, with a search_path and names meant to mislead
CREATE ROLE regress_capture_user;
CREATE SCHEMA hostile AUTHORIZATION regress_capture_user;
SET ROLE regress_capture_user;
CREATE FUNCTION hostile.pg_event_trigger_ddl_commands() RETURNS SETOF text LANGUAGE sql AS $$ SELECT 'no' $$;
CREATE FUNCTION hostile.now() RETURNS text LANGUAGE sql AS $$ SELECT 'no' $$;
CREATE TABLE hostile.pg_class (a int);
SET search_path = hostile, pg_catalog;
CREATE TABLE "a""b\c','{}]" ("x""y" int);
CREATE TABLE hostile."täglich" ("Größe" int);
RESET search_path;
-- the functions and the key are nobody's business
SELECT schemasync.capture_end();
SELECT key FROM schemasync.capture_key;
SELECT schemasync.capture_make_key();
DELETE FROM schemasync.capture_key;
RESET ROLE;
SELECT schemasync.capture_end();
SELECT * FROM helper.markers();

\echo -- a long statement is cut at a whole character
SELECT set_config('helper.long', 'CREATE TABLE long_t (a int) /*' || repeat('ä', 40000) || '*/', false) IS NOT NULL;
SELECT current_setting('helper.long') AS long \gset
:long ;
WITH m AS (
	SELECT substr(data, strpos(data, 'content:') + 8)::json->>'statement' AS statement
	FROM pg_logical_slot_get_changes('capture_edge', NULL, NULL) WHERE data LIKE 'message:%')
SELECT octet_length(statement), right(statement, 2) FROM m;

\echo -- of several statements in one string, each marker has its own
CREATE TABLE m1 (a int)\; /* and */ ALTER TABLE m1 ADD b int\;  SELECT 'secret' AS password\; DROP TABLE m1;
DO 'BEGIN CREATE TABLE m2 (a int); DROP TABLE m2; END';
-- (a comment before a statement belongs to it before 18)
SELECT regexp_replace(substr(data, strpos(data, 'content:') + 8)::json->>'statement', '^/[*] and [*]/ ', '')
FROM pg_logical_slot_get_changes('capture_edge', NULL, NULL) WHERE data LIKE 'message:%';

\echo -- many objects at once
DO $$ BEGIN
	CREATE SCHEMA many;
	FOR i IN 1..1000 LOOP EXECUTE format('CREATE TABLE many.t%s (a int PRIMARY KEY)', i); END LOOP;
END $$;
SELECT tag, count(*) FROM helper.markers() GROUP BY tag ORDER BY tag;
DROP SCHEMA many CASCADE;
SELECT count(*) FROM json_array_elements((SELECT j->'dropped' FROM (
	SELECT substr(data, strpos(data, 'content:') + 8)::json AS j
	FROM pg_logical_slot_get_changes('capture_edge', NULL, NULL) WHERE data LIKE 'message:%') m)) x WHERE x->>'type' <> 'table constraint';

\echo -- no event: the table is there and no marker tells of it
DO $$ BEGIN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) CREATE TABLE silent AS SELECT 1 AS a'; END $$;
SELECT * FROM helper.markers();
SELECT a FROM silent;

\echo -- replicated DDL is marked too, for a cascade; what runs while the triggers are off is not
SET session_replication_role = replica;
CREATE TABLE replicated (a int);
RESET session_replication_role;
ALTER EVENT TRIGGER schemasync_capture_end DISABLE;
CREATE TABLE unmarked (a int);
ALTER EVENT TRIGGER schemasync_capture_end ENABLE;
SELECT * FROM helper.markers();

\echo -- without a key, with two, with a bad one: no marker, no error
BEGIN;
DELETE FROM schemasync.capture_key;
CREATE TABLE k1 (a int);
ROLLBACK;
BEGIN;
TRUNCATE schemasync.capture_key;
CREATE TABLE k2 (a int);
COMMIT;
INSERT INTO schemasync.capture_key VALUES ('\x00');
CREATE TABLE k3 (a int);
SELECT schemasync.capture_make_key();
CREATE TABLE k4 (a int);
SELECT * FROM helper.markers();
DELETE FROM schemasync.capture_key WHERE octet_length(key) < 32;
CREATE TABLE k5 (a int);
SELECT tag, touched FROM helper.markers();
ALTER EXTENSION schemasync DROP TABLE schemasync.capture_key;
DROP TABLE schemasync.capture_key;
CREATE TABLE k6 (a int);
SELECT * FROM helper.markers();
DROP EXTENSION schemasync;

\echo -- the key never passes through a slot, though a publication of all tables covers its table
SELECT count(*) >= 0 FROM pg_logical_slot_get_changes('capture_edge', NULL, NULL);
CREATE EXTENSION schemasync;
SELECT count(*) FILTER (WHERE data LIKE '%capture_key%'), count(*) FILTER (WHERE data LIKE 'message:%')
FROM pg_logical_slot_get_changes('capture_edge', NULL, NULL);
DROP EXTENSION schemasync;

SELECT pg_drop_replication_slot('capture_edge');
SET client_min_messages = error;
DROP SCHEMA helper, hostile CASCADE;
DROP TABLE d1, "f""2", pr3, s1, s4, outer_t, long_t, silent, replicated, unmarked, k2, k3, k4, k5, k6;
DROP ROLE regress_capture_user;
