-- Every data type: copied, streamed, changed in its type, used in a default.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN short_text AS varchar(20) DEFAULT 'none' NOT NULL;
CREATE TYPE pair AS (a int, b text COLLATE "C", m mood);
CREATE TYPE timespan AS RANGE (subtype = time);
CREATE TABLE everything (
	id bigint PRIMARY KEY,
	c_bool bool, c_int2 smallint, c_int4 int, c_int8 bigint, c_numeric numeric, c_numeric2 numeric(20, 4), c_float4 real, c_float8 double precision,
	c_money money, c_text text, c_varchar varchar(30), c_char char(7), c_char1 "char", c_name name, c_bytea bytea,
	c_date date, c_time time(3), c_timetz timetz, c_timestamp timestamp(2), c_timestamptz timestamptz, c_interval interval, c_interval2 interval year to month,
	c_uuid uuid, c_json json, c_jsonb jsonb, c_jsonpath jsonpath, c_xml xml, c_inet inet, c_cidr cidr, c_mac macaddr, c_mac8 macaddr8,
	c_bit bit(5), c_varbit varbit(9), c_tsvector tsvector, c_tsquery tsquery,
	c_point point, c_line line, c_lseg lseg, c_box box, c_path path, c_polygon polygon, c_circle circle,
	c_int4range int4range, c_int8range int8range, c_numrange numrange, c_tsrange tsrange, c_tstzrange tstzrange, c_daterange daterange,
	c_int4multirange int4multirange, c_datemultirange datemultirange, c_tstzmultirange tstzmultirange,
	c_oid oid, c_regclass regclass, c_regtype regtype, c_lsn pg_lsn, c_tid tid, c_xid xid, c_xid8 xid8, c_snapshot pg_snapshot,
	a_int int[], a_text text[], a_numeric numeric(8, 2)[], a_ts timestamptz[], a_json jsonb[], a_2d int[][],
	u_mood mood, u_positive positive, u_short short_text, u_pair pair, u_timespan timespan, u_timespans timespan_multirange,
	ua_mood mood[], ua_pair pair[], ua_positive positive[],
	big text
);
ALTER TABLE everything ALTER c_text SET STORAGE MAIN, ALTER c_int4 SET STATISTICS 500, ALTER c_float8 SET (n_distinct = 100);
ALTER TABLE everything ALTER big SET COMPRESSION pglz, ALTER big SET STORAGE EXTERNAL;
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO everything SELECT i,
		i % 2 = 0, i, -i, i * 10000000000, i / 7.0, 12345.6789 * i, i / 3.0::real, i / 3.0::float8,
		i::money, 'Zwölf ' || i, 'v' || i, 'c' || i % 100, 'x', 'name' || i, decode(lpad(to_hex(i), 8, '0'), 'hex'),
		date '2000-02-28' + i, time '12:34:56.789' + i * interval '1 min', timetz '12:00:00+05:30', timestamp '1999-12-31 23:59:59.99' + i * interval '1 day',
		timestamptz '2024-06-01 00:00:00+02' + i * interval '1 hour', interval '1 year 2 mons 3 days 04:05:06.789' * i, interval '3 years 2 months',
		('00000000-0000-0000-0000-' || lpad(to_hex(i), 12, '0'))::uuid, '{"a":  1}', '{"b": [1, 2.50, null], "a": "ü"}', '$.a[*] ? (@ > 1)',
		'<a b="1">t</a>', '10.1.2.3/24', '10.1.0.0/16', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
		B'10101', B'1101', to_tsvector('simple', 'a quick fox ' || i), 'quick & !slow', point(i, 2.5), '{1,2,3}', '[(0,0),(1,1)]', '(1,1),(0,0)',
		'((0,0),(1,1),(2,0))', '((0,0),(1,1),(2,0))', '<(1,2),3>', int4range(1, i + 1), int8range(NULL, i), numrange(0.5, 1.5, '[]'),
		tsrange('2020-01-01', '2020-01-02'), tstzrange('2020-01-01 00:00+00', NULL), daterange('2020-01-01', '2020-02-01', '[]'),
		'{[1,3),[5,7)}', '{[2020-01-01,2020-01-05)}', '{}', i, 'pg_class', 'int4', '16/B374D848', '(0,1)', '42', '4711', '10:20:10,14,15',
		ARRAY[i, NULL, 3], ARRAY['a', 'b,"c"', NULL], ARRAY[1.25, 2.5], ARRAY[timestamptz '2020-01-01 00:00+00'], ARRAY['{"x": 1}'::jsonb], '[0:1][1:2]={{1,2},{3,4}}',
		(ARRAY['sad', 'ok', 'happy'])[i % 3 + 1]::mood, i, 's' || i, ROW(i, 'b' || i, 'ok'::mood)::pair, timespan('08:00', '10:00'), '{[08:00:00,09:00:00)}',
		ARRAY['sad', 'happy']::mood[], ARRAY[ROW(1, NULL, 'sad')::pair], ARRAY[1, 2], repeat(md5(i::text), 200)
	FROM generate_series(first, last) i $$;
SELECT fill(1, 50);
INSERT INTO everything (id, c_float4, c_float8, c_numeric, c_date, c_timestamp, c_timestamptz)
VALUES (-1, 'NaN', '-Infinity', 'NaN', 'infinity', '-infinity', 'infinity'), (-2, 1e-30, 1.7976931348623157e308, 'Infinity', '0044-03-15 BC', '0001-01-01', '-infinity');

-- subscribe

SELECT fill(51, 100);

UPDATE everything SET c_text = upper(c_text), u_mood = 'happy', a_int = a_int || 7 WHERE id % 3 = 0;

DELETE FROM everything WHERE id % 5 = 0;

-- a value that stays in its TOAST table is not sent
UPDATE everything SET c_bool = NOT c_bool WHERE id > 0;

ALTER TABLE everything REPLICA IDENTITY FULL;
UPDATE everything SET c_int4 = c_int4 + 1 WHERE id % 2 = 0;
DELETE FROM everything WHERE id % 7 = 0;

ALTER TABLE everything REPLICA IDENTITY DEFAULT;

-- new columns with a constant default of each kind
ALTER TABLE everything ADD n1 numeric(10, 3) DEFAULT 12.5, ADD n2 text[] DEFAULT '{a,b}', ADD n3 jsonb DEFAULT '{"k": [1]}', ADD n4 mood DEFAULT 'ok',
	ADD n5 timestamptz DEFAULT '2020-01-01 00:00:00+00', ADD n6 interval DEFAULT '1 day 2 hours', ADD n7 pair DEFAULT ROW(1, 'x', 'sad'),
	ADD n10 inet DEFAULT '::1', ADD n11 bytea DEFAULT '\xdeadbeef', ADD n12 int4range DEFAULT '[1,5)',
	ADD n13 float8 DEFAULT 0.1, ADD n14 date DEFAULT CURRENT_DATE, ADD n15 timestamptz DEFAULT now(), ADD n16 name DEFAULT CURRENT_USER,
	ADD n17 uuid DEFAULT '11111111-2222-3333-4444-555555555555', ADD n18 bit(3) DEFAULT B'101', ADD n19 xml DEFAULT '<a/>', ADD n20 tsvector DEFAULT 'a b'::tsvector,
	ADD n21 timespan DEFAULT '[08:00,09:00)', ADD n22 money DEFAULT 12.5, ADD n23 "char" DEFAULT 'q', ADD n24 mood[] DEFAULT '{sad}';

SELECT fill(201, 210);

-- these rewrite the table
ALTER TABLE everything ADD n8 positive DEFAULT 7, ADD n9 short_text;

-- changes of type that need no proof
ALTER TABLE everything ALTER c_int2 TYPE int, ALTER c_varchar TYPE text, ALTER c_numeric2 TYPE numeric(30, 4), ALTER c_char TYPE varchar(7), ALTER c_float4 TYPE float8;

ALTER TABLE everything ALTER c_int4 TYPE bigint, ALTER c_date TYPE timestamp, ALTER c_cidr TYPE inet, ALTER c_json TYPE jsonb, ALTER a_int TYPE bigint[];

ALTER TABLE everything ALTER c_int8 TYPE numeric USING c_int8 / 2.0, ALTER c_uuid TYPE text, ALTER u_mood TYPE text;

ALTER TABLE everything DROP c_money, DROP c_line, DROP ua_pair, DROP ua_positive, DROP u_timespans, DROP c_snapshot;

ALTER TYPE mood ADD VALUE 'great' AFTER 'ok';
ALTER TYPE mood ADD VALUE 'bad' BEFORE 'sad';
ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
UPDATE everything SET n4 = 'great' WHERE id % 2 = 0;

ALTER TYPE pair ADD ATTRIBUTE c numeric;
ALTER TYPE pair RENAME ATTRIBUTE a TO aa;
UPDATE everything SET u_pair = ROW(1, 'x', 'bad', 2.5) WHERE id % 2 = 0;

ALTER DOMAIN positive ADD CONSTRAINT small CHECK (VALUE < 1000000);
ALTER DOMAIN positive SET DEFAULT 4;
ALTER DOMAIN short_text DROP NOT NULL;

ALTER DOMAIN positive RENAME CONSTRAINT small TO smaller;
ALTER DOMAIN positive DROP CONSTRAINT positive_check;
ALTER DOMAIN positive RENAME TO positively;

ALTER TYPE mood RENAME TO feeling;
CREATE SCHEMA kinds;
ALTER TYPE feeling SET SCHEMA kinds;
INSERT INTO everything (id, n4) VALUES (-200, 'bad');

CREATE TYPE colour AS ENUM ('red', 'green');
CREATE TABLE painted (id int PRIMARY KEY, c colour DEFAULT 'red', cs colour[]);
INSERT INTO painted VALUES (1, 'green', '{red,green}');

DROP TABLE painted;
DROP TYPE colour;
