-- Each DDL command writes one marker, which says what it touched.
-- capture_1.out is for 18 and later, where NOT NULL is a constraint that ALTER TABLE makes, drops and lists.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION schemasync;
SELECT 'slot' AS made FROM pg_create_logical_replication_slot('capture', 'test_decoding');

-- The markers since the last call, with the key's code checked, without what differs between runs and versions.
CREATE SCHEMA helper;
CREATE FUNCTION helper.hmac_ok(payload text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	content bytea := convert_to('{' || substr(payload, 75), 'UTF8');
	padded bytea := (SELECT key FROM schemasync.capture_key) || decode(repeat('00', 32), 'hex');
	inner_key bytea := padded;
	outer_key bytea := padded;
BEGIN
	FOR i IN 0..63 LOOP
		inner_key := set_byte(inner_key, i, get_byte(padded, i) # 54);
		outer_key := set_byte(outer_key, i, get_byte(padded, i) # 92);
	END LOOP;
	RETURN encode(sha256(outer_key || sha256(inner_key || content)), 'hex') = payload::json->>'mac';
END $$;

CREATE FUNCTION helper.markers(with_statement boolean DEFAULT false)
RETURNS TABLE (tag text, parts text, touched text, dropped text, details text) LANGUAGE sql AS $$
	WITH message AS (
		SELECT xid, substr(data, strpos(data, 'content:') + 8) AS payload
		FROM pg_logical_slot_get_changes('capture', NULL, NULL)
		WHERE data LIKE 'message: transactional: 1 prefix: schemasync.marker,%'
	), marker AS (
		SELECT xid, payload, payload::json AS j FROM message
	)
	SELECT j->>'tag',
		(SELECT string_agg(substr(x, 4), ' ') FROM json_array_elements_text(j->'subcommands') x),
		(SELECT string_agg(concat_ws(' ', x->>'type', x->>'identity', CASE WHEN (x->>'in_extension')::bool THEN '(extension)' END), ', ')
			FROM json_array_elements(j->'objects') x),
		(SELECT string_agg(concat_ws(' ', x->>'type', x->>'identity', CASE WHEN (x->>'original')::bool THEN '(original)' END), ', '
				ORDER BY (x->>'original')::bool DESC, x->>'type', x->>'identity')
			FROM json_array_elements(j->'dropped') x WHERE x->>'type' <> 'type' OR (x->>'original')::bool),
		concat_ws(' ',
			(SELECT 'using ' || string_agg(format('%s.%s %s %s', coalesce((SELECT relname FROM pg_class WHERE oid = (x->>'relid')::oid), 'gone'), x->>'attnum',
				CASE WHEN (x->>'given')::bool THEN 'given' ELSE 'none' END, (x->'expr'->>'volatility') || ' ' || (x->'expr'->>'sql')), ', ')
				FROM json_array_elements(j->'using') x),
			(SELECT 'rewrite ' || string_agg(format('%s reason %s', coalesce((SELECT relname FROM pg_class WHERE oid = (x->>'relid')::oid), 'gone'), x->>'reason'), ', ')
				FROM json_array_elements(j->'rewrites') x),
			CASE WHEN with_statement THEN j->>'statement' END,
			CASE WHEN (j->>'xid')::text <> xid::text THEN 'wrong xid' END,
			CASE WHEN NOT helper.hmac_ok(payload) THEN 'wrong code' END)
	FROM marker
$$;
SELECT count(*) > 0 AS some FROM helper.markers();
\pset format unaligned
\pset tuples_only on

\echo -- tables and columns
CREATE TABLE t (a int PRIMARY KEY, b text);
ALTER TABLE t ADD COLUMN c timestamptz DEFAULT now(), ALTER b TYPE varchar(30) USING lower(b), ADD CONSTRAINT u UNIQUE (b);
ALTER TABLE t RENAME b TO bb;
ALTER TABLE t ADD d float8 DEFAULT random();
ALTER TABLE t ALTER a TYPE bigint;
ALTER TABLE t SET UNLOGGED, ALTER d SET NOT NULL;
ALTER TABLE t SET LOGGED, ALTER d DROP NOT NULL;
ALTER TABLE t DROP COLUMN d;
ALTER TABLE t ADD COLUMN e int UNIQUE;
CREATE TABLE IF NOT EXISTS t (a int);
ALTER TABLE IF EXISTS no_such_table ADD COLUMN x int;
CREATE TABLE like_t (LIKE t INCLUDING ALL);
SELECT * INTO into_t FROM t;
CREATE TABLE as_t AS SELECT 1 AS a;
PREPARE as_q AS SELECT 1 AS a;
CREATE TABLE as_t2 AS EXECUTE as_q;
ALTER TABLE as_t2 RENAME TO as_t3;
CREATE SCHEMA other;
ALTER TABLE as_t3 SET SCHEMA other;
DROP TABLE like_t, into_t;
SELECT * FROM helper.markers();

\echo -- what an ALTER TABLE makes and drops in one go
CREATE TABLE busy (a int, b int, CONSTRAINT k CHECK (a > 0));
ALTER TABLE busy ADD COLUMN c serial, DROP COLUMN b, ADD CONSTRAINT k2 CHECK (c > 0), DROP CONSTRAINT k, ADD PRIMARY KEY (c);
ALTER TABLE busy ALTER c TYPE bigint, ALTER c DROP DEFAULT, DROP CONSTRAINT busy_pkey;
ALTER TABLE busy ADD COLUMN g int GENERATED ALWAYS AS (a * 2) STORED, ADD COLUMN i int GENERATED ALWAYS AS IDENTITY;
ALTER TABLE busy ALTER i DROP IDENTITY, ALTER g DROP EXPRESSION, ALTER a TYPE text USING a::text || g, DROP COLUMN g;
DROP TABLE busy;
SELECT * FROM helper.markers();

\echo -- USING: the expression, the worst volatility in it and in the cast to the new type
CREATE TABLE u_t (a int, b text, "C d" timestamp, e int, f int);
CREATE FUNCTION own(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
ALTER TABLE u_t ALTER a TYPE int USING a * 100;
ALTER TABLE u_t ALTER "C d" TYPE timestamptz USING "C d" + interval '1 day';
ALTER TABLE u_t ALTER b TYPE text USING b || '$1' || "C d" || E'\\';
ALTER TABLE u_t ALTER e TYPE float8 USING random(), ALTER a TYPE bigint USING own(e);
ALTER TABLE u_t ALTER e TYPE text USING f::text, DROP COLUMN f;
ALTER TABLE u_t ALTER e TYPE text USING (u_t.*)::text;
ALTER TABLE u_t ALTER e TYPE text COLLATE "C";
SELECT * FROM helper.markers();
DROP TABLE u_t;
DROP FUNCTION own;

\echo -- partitions and inheritance
CREATE TABLE part (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (1) TO (2);
CREATE TABLE part2 (a int, b int);
ALTER TABLE part ATTACH PARTITION part2 FOR VALUES FROM (2) TO (3);
ALTER TABLE part ADD COLUMN c int, ALTER b TYPE bigint USING b + 1;
ALTER TABLE part DETACH PARTITION part2;
ALTER TABLE part ATTACH PARTITION part2 FOR VALUES FROM (2) TO (3);
ALTER TABLE part DETACH PARTITION part2 CONCURRENTLY;
CREATE INDEX ON part (a);
DROP TABLE part;
CREATE TABLE child (x int) INHERITS (t);
ALTER TABLE child NO INHERIT t;
SELECT * FROM helper.markers();

\echo -- indexes; CONCURRENTLY ends in a transaction without a snapshot
CREATE INDEX ti ON t (c);
CREATE INDEX CONCURRENTLY tic ON t (c) WHERE a > 0;
ALTER INDEX ti RENAME TO tj;
DROP INDEX CONCURRENTLY tic;
DROP INDEX tj;
ALTER TABLE t REPLICA IDENTITY FULL;
SELECT * FROM helper.markers();

\echo -- types, sequences, schemas
CREATE TYPE mood AS ENUM ('sad');
ALTER TYPE mood ADD VALUE 'happy';
ALTER TYPE mood RENAME VALUE 'sad' TO 'unhappy';
CREATE TYPE pair AS (x int, y int);
ALTER TYPE pair ADD ATTRIBUTE z int, ALTER ATTRIBUTE x TYPE bigint;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
ALTER DOMAIN positive ADD CONSTRAINT small CHECK (VALUE < 100);
DROP DOMAIN positive;
CREATE SEQUENCE sq;
ALTER SEQUENCE sq INCREMENT 2;
CREATE SCHEMA elements CREATE TABLE x (a int) CREATE VIEW v AS SELECT * FROM x CREATE INDEX xi ON x (a);
DROP SCHEMA elements CASCADE;
SELECT * FROM helper.markers();

\echo -- the rest
CREATE VIEW v AS SELECT a FROM t;
CREATE OR REPLACE VIEW v AS SELECT a, bb FROM t;
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER trg BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
ALTER TABLE t DISABLE TRIGGER trg;
CREATE POLICY pol ON t USING (true);
CREATE RULE r AS ON DELETE TO v DO INSTEAD NOTHING;
CREATE STATISTICS st ON a, bb FROM t;
COMMENT ON COLUMN t.a IS 'the key';
GRANT SELECT (a), UPDATE ON t TO PUBLIC;
REVOKE ALL ON t FROM PUBLIC;
GRANT EXECUTE ON FUNCTION f() TO PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM PUBLIC;
CREATE PUBLICATION pub FOR TABLE t WHERE (a > 1);
ALTER PUBLICATION pub SET TABLE t (a, bb);
ALTER PUBLICATION pub SET TABLE t;
ALTER PUBLICATION pub ADD TABLES IN SCHEMA other;
ALTER PUBLICATION pub DROP TABLE t;
DROP PUBLICATION pub;
SET client_min_messages = error;
CREATE SUBSCRIPTION sub CONNECTION 'dbname=no_such_database password=secret' PUBLICATION pub WITH (connect = false);
ALTER SUBSCRIPTION sub SET (slot_name = NONE);
DROP SUBSCRIPTION sub;
SET client_min_messages = warning;
DROP TRIGGER trg ON t;
DROP FUNCTION f();
SELECT * FROM helper.markers();

\echo -- nothing for temporary tables, maintenance
CREATE TEMP TABLE tmp (a int PRIMARY KEY, b text);
CREATE INDEX ON tmp (b);
ALTER TABLE tmp ADD c float8 DEFAULT random(), ALTER b TYPE bytea USING b::bytea;
CREATE FUNCTION pg_temp.tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER ttrg BEFORE INSERT ON tmp FOR EACH ROW EXECUTE FUNCTION pg_temp.tf();
CREATE POLICY pol ON tmp USING (true);
COMMENT ON TABLE tmp IS 'passing';
COMMENT ON TRIGGER ttrg ON tmp IS 'passing';
GRANT SELECT ON tmp TO PUBLIC;
DROP TABLE tmp;
CREATE TEMP TABLE tmp2 (a int) ON COMMIT DROP;
CREATE TEMP VIEW tv AS SELECT 1 AS a;
BEGIN;
CREATE TEMP TABLE tmp3 ON COMMIT DROP AS SELECT 1 AS a;
COMMIT;
DISCARD TEMP;
REINDEX TABLE t;
CLUSTER t USING t_pkey;
VACUUM FULL t;
ANALYZE t;
TRUNCATE t;
-- (from 17 REINDEX fires event triggers)
SELECT * FROM helper.markers() WHERE tag <> 'REINDEX';
CREATE MATERIALIZED VIEW mv AS SELECT a FROM t;
CREATE UNIQUE INDEX ON mv (a);
SELECT tag, touched FROM helper.markers();
REFRESH MATERIALIZED VIEW mv;
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT tag, touched FROM helper.markers();
DROP MATERIALIZED VIEW mv;
DROP VIEW v;
-- the name of an object does not make it temporary
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER "x on pg_temp.y" BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
SELECT tag, touched, dropped FROM helper.markers();
DROP FUNCTION f() CASCADE;

SELECT count(*) > 0 FROM helper.markers();
\echo -- extensions: their members are not marked, our own not at all
CREATE EXTENSION tcn;
DROP EXTENSION tcn;
SELECT * FROM helper.markers();
DROP EXTENSION schemasync;
SELECT count(*) FROM pg_logical_slot_get_changes('capture', NULL, NULL) WHERE data LIKE 'message:%';
SELECT pg_drop_replication_slot('capture');
DROP SCHEMA helper, other CASCADE;
DROP TABLE t, child, as_t, part2;
DROP TYPE mood, pair;
DROP SEQUENCE sq;
