-- What the catalog reader says of tables and types: schemasync_describe and its like.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION schemasync;

-- Without what differs between runs and versions: oids, digests, and NOT NULL as a constraint (from 18 on).
CREATE SCHEMA helper;
CREATE FUNCTION helper.strip(j jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	IF jsonb_typeof(j) = 'array' THEN
		RETURN (SELECT coalesce(jsonb_agg(helper.strip(e) ORDER BY n), '[]')
			FROM jsonb_array_elements(j) WITH ORDINALITY AS x(e, n) WHERE e->>'type' IS DISTINCT FROM 'n');
	ELSIF jsonb_typeof(j) = 'object' THEN
		RETURN (SELECT coalesce(jsonb_object_agg(k, helper.strip(v)), '{}') FROM jsonb_each(j) AS x(k, v)
			WHERE k NOT IN ('oid', 'array', 'fingerprint', 'filenode', 'index', 'parent', 'constraint', 'replica_identity_index', 'digest', 'owner'));
	END IF;
	RETURN j;
END $$;
-- The fields of each column, constraint and index that are not at their defaults, one line each.
CREATE FUNCTION helper.lines(j jsonb) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT 'relation ' || (helper.strip(j) - '{columns,constraints,indexes,kind}'::text[])::text
	UNION ALL (SELECT concat_ws(' ', 'column', c->>'attnum', c->>'name', c->'type'->>'sql',
			CASE WHEN (c->>'not_null')::boolean THEN 'not null' END,
			(helper.strip(c) - '{attnum,name,type,not_null,storage,local,inhcount,statistics}'::text[])::text,
			CASE WHEN c->>'statistics' <> '-1' THEN 'statistics ' || (c->>'statistics') END,
			CASE WHEN NOT (c->>'local')::boolean THEN 'inherited' END)
		FROM jsonb_array_elements(j->'columns') c ORDER BY (c->>'attnum')::int)
	UNION ALL (SELECT concat_ws(' ', 'constraint', c->>'name', c->>'type', c->>'columns', c->>'definition',
			CASE WHEN c->'expr'->'refs' <> '[]' THEN c->'expr'->>'refs' END, c->'references'->>'name')
		FROM jsonb_array_elements(helper.strip(j->'constraints')) c)
	UNION ALL (SELECT concat_ws(' ', 'index', i->>'columns', i->>'keys', i->>'definition', i->'expr'->>'sql')
		FROM jsonb_array_elements(j->'indexes') i) $$;
\pset tuples_only on
\pset format unaligned

-- types, defaults, identities
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS int DEFAULT 7 CONSTRAINT above CHECK (VALUE > 0);
CREATE FUNCTION plus(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + $2';
CREATE OPERATOR <+> (LEFTARG = int, RIGHTARG = int, FUNCTION = plus);
CREATE SEQUENCE manual;
CREATE TABLE everything (
	id bigint GENERATED ALWAYS AS IDENTITY (START 10 INCREMENT 5 CYCLE) PRIMARY KEY,
	ser serial,
	man int DEFAULT nextval('manual'),
	v varchar(30) COLLATE "C" DEFAULT 'it''s $101 "quoted" \ back' NOT NULL,
	n numeric(10, 2)[] DEFAULT '{1.5,NULL}',
	m mood DEFAULT 'ok',
	p positive,
	t timestamptz DEFAULT now(),
	d date DEFAULT 'today'::text::date,
	u uuid DEFAULT gen_random_uuid(),
	f int DEFAULT plus(1, 2),
	o int DEFAULT 1 <+> 2,
	k int DEFAULT greatest(1, 2),
	c char(3) DEFAULT CASE WHEN current_user = 'x' THEN 'a' ELSE 'b' END,
	i interval DEFAULT '1 day 02:00',
	x float8 DEFAULT 0.1::float4,
	y mood DEFAULT 'sad'::text::mood,
	z positive DEFAULT 3,
	g int GENERATED ALWAYS AS (f * 2 + o) STORED,
	"we ird ""x" text,
	b bytea DEFAULT '\x01ff'
);
ALTER TABLE everything DROP COLUMN k, ALTER v SET STATISTICS 50, ALTER v SET STORAGE external, ALTER f SET (n_distinct = 5);
SELECT helper.lines(schemasync_describe('everything'));

-- what a later column holds in the rows that were there before
INSERT INTO everything (v) VALUES ('x');
ALTER TABLE everything ADD stable timestamptz DEFAULT '2020-02-03 04:05:06+00', ADD frozen text DEFAULT current_schema(),
	ADD arr mood[] DEFAULT '{ok,NULL}', ADD none int, ADD fl float8 DEFAULT 0.1, ADD iv interval DEFAULT '1 mon -1 day';
SET DateStyle = 'German'; SET TimeZone = 'Asia/Tokyo'; SET extra_float_digits = -3; SET IntervalStyle = 'iso_8601'; SET search_path = '';
SELECT c->>'name', c->>'missing', c->'default'->>'sql', c->'default'->>'volatility'
	FROM jsonb_array_elements(public.schemasync_describe('public.everything')->'columns') c WHERE (c->>'attnum')::int > 21;
SELECT bool_and(f = g) FROM (SELECT public.schemasync_describe('public.everything')->>'fingerprint') x(f),
	(SELECT set_config('DateStyle', 'ISO', false), set_config('search_path', 'public', false)) y, LATERAL (SELECT public.schemasync_describe('public.everything')->>'fingerprint') z(g);
RESET ALL;
SET client_min_messages = warning;

-- constraints and indexes
CREATE TABLE target (a int, b int, PRIMARY KEY (a, b) INCLUDE (b)) WITH (fillfactor = 50);
CREATE TABLE constrained (
	a int, b int, c text, r int4range,
	CONSTRAINT u UNIQUE NULLS NOT DISTINCT (a) DEFERRABLE INITIALLY DEFERRED,
	CONSTRAINT f FOREIGN KEY (a, b) REFERENCES target MATCH FULL ON DELETE CASCADE DEFERRABLE,
	CONSTRAINT ck CHECK (a > 1 AND plus(a, b) < 5 AND c <> '$100') NO INHERIT,
	CONSTRAINT whole CHECK (constrained.* IS NOT NULL),
	CONSTRAINT ex EXCLUDE USING gist (r WITH &&) WHERE (a > 0)
);
ALTER TABLE constrained ADD CONSTRAINT later CHECK (b > 0) NOT VALID;
CREATE INDEX many ON constrained (lower(c) COLLATE "C" text_pattern_ops DESC, a NULLS FIRST, b DESC NULLS LAST, c varchar_pattern_ops)
	INCLUDE (r) WITH (fillfactor = 70) WHERE c IS NOT NULL AND a > 0;
CREATE INDEX hashed ON constrained USING hash (c);
CREATE INDEX ranged ON constrained USING gist (r);
CREATE UNIQUE INDEX ident ON target (b, a);
ALTER TABLE target REPLICA IDENTITY USING INDEX ident;
ALTER TABLE constrained REPLICA IDENTITY FULL;
SELECT helper.lines(schemasync_describe('target'));
SELECT helper.lines(schemasync_describe('constrained'));

-- every definition makes the same again
CREATE SCHEMA remade;
CREATE FUNCTION helper.remade(relation text) RETURNS TABLE (name text, same boolean) LANGUAGE plpgsql AS $$
DECLARE
	state jsonb := schemasync_describe(('public.' || relation)::regclass);
	again jsonb;
	part jsonb;
BEGIN
	EXECUTE format('CREATE TABLE remade.%I (LIKE public.%I)', relation, relation);
	FOR part IN SELECT * FROM jsonb_array_elements((state->'constraints') || (state->'indexes')) LOOP
		IF part->>'definition' LIKE 'CREATE%' AND (part->>'constraint')::int = 0 THEN
			EXECUTE replace(part->>'definition', 'ON public.' || relation, 'ON remade.' || relation);
		ELSIF part->>'definition' NOT LIKE 'CREATE%' AND part->>'type' <> 'n' THEN
			EXECUTE format('ALTER TABLE remade.%I ADD CONSTRAINT %I %s', relation, part->>'name', part->>'definition');
		END IF;
	END LOOP;
	again := schemasync_describe(('remade.' || relation)::regclass);
	RETURN QUERY SELECT o.value->>'name', replace(n.value->>'definition', 'remade.', 'public.') = o.value->>'definition'
		FROM jsonb_array_elements((state->'indexes') || (state->'constraints')) o
		LEFT JOIN jsonb_array_elements((again->'indexes') || (again->'constraints')) n
			ON n.value->>'name' = o.value->>'name' AND n.value ? 'valid' = o.value ? 'valid'
		WHERE o.value->>'type' IS DISTINCT FROM 'n';
END $$;
SELECT * FROM helper.remade('constrained') ORDER BY 1;

-- partitions and inheritance
CREATE TABLE root (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE keyed (k int PRIMARY KEY) PARTITION BY LIST (k);
CREATE TABLE keyed_1 PARTITION OF keyed FOR VALUES IN (1, NULL);
CREATE TABLE low PARTITION OF root FOR VALUES FROM (MINVALUE) TO (10);
CREATE TABLE rest PARTITION OF root DEFAULT PARTITION BY LIST (lower(v) COLLATE "C");
CREATE INDEX on_all ON root (v);
CREATE INDEX on_root ON ONLY root (lower(v));
CREATE TABLE hash_root (k int, v text) PARTITION BY HASH (k, v COLLATE "C" text_pattern_ops);
CREATE TABLE kin (extra int) INHERITS (target);
CREATE TABLE refers (k int REFERENCES keyed);
SELECT helper.lines(schemasync_describe(r)) FROM unnest('{root,low,rest,hash_root,kin,keyed,keyed_1,refers}'::regclass[]) r;

-- other relations, and those that are not there
CREATE VIEW seen AS SELECT 1 AS one;
CREATE UNLOGGED TABLE fast (id int) WITH (autovacuum_enabled = false);
ALTER TABLE fast ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT helper.lines(schemasync_describe(r)) FROM unnest('{seen,fast}'::regclass[]) r;
SELECT schemasync_describe('manual'), schemasync_describe('ident'), schemasync_describe(1::oid::regclass), schemasync_describe_type(1::oid::regtype);

-- types, in the order in which they are needed
CREATE TYPE pair AS (a int, b mood[], c positive);
CREATE DOMAIN few AS pair[] NOT NULL CHECK (array_length(VALUE, 1) < 5);
CREATE FUNCTION int8mi_diff(int8, int8) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT ($1 - $2)::float8';
CREATE TYPE span AS RANGE (subtype = int8, subtype_diff = int8mi_diff, multirange_type_name = spans);
CREATE TABLE typed (f few, s spans, w target);
SELECT helper.strip(t) FROM jsonb_array_elements(schemasync_describe_types('typed')) t;
SELECT helper.strip(schemasync_describe_type('mood'));

-- what decides the fingerprint
CREATE TABLE finger (id int PRIMARY KEY, a int, b text);
CREATE FUNCTION helper.changes(command text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	before text := schemasync_describe('finger')->>'fingerprint';
BEGIN
	EXECUTE command;
	RETURN schemasync_describe('finger')->>'fingerprint' <> before;
END $$;
INSERT INTO finger VALUES (1);
SELECT c, helper.changes(c) FROM unnest(ARRAY[
	'ALTER TABLE finger ADD z int DEFAULT 5', 'ANALYZE finger', 'GRANT SELECT ON finger TO PUBLIC', 'CLUSTER finger USING finger_pkey',
	'COMMENT ON TABLE finger IS ''x''', 'INSERT INTO finger VALUES (2)', 'CREATE INDEX finger_a ON finger (a)', 'DROP INDEX finger_a',
	'ALTER TABLE finger RENAME a TO c', 'ALTER TABLE finger ALTER c TYPE bigint',
	'ALTER TABLE finger ALTER z DROP DEFAULT', 'ALTER TABLE finger REPLICA IDENTITY FULL', 'ALTER TABLE finger SET (fillfactor = 90)']) c;

-- the transaction's own
BEGIN;
CREATE TABLE young ();
SELECT schemasync_describe('young')->>'created_here', schemasync_describe('finger')->>'created_here';
COMMIT;
SELECT schemasync_describe('young')->>'created_here';

DROP EXTENSION schemasync;
DROP SCHEMA public, helper, remade CASCADE;
CREATE SCHEMA public;
