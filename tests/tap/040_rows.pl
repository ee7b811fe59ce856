# Rows arrive as they are: every replica identity on both sides, batches of all sizes, TOAST, partitions, other columns and types on the
# subscriber, generated columns, triggers, TRUNCATE. Contents are compared, not counts.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair();

sub both { my ($sql) = @_; $_->safe_psql('postgres', $sql) foreach ($pub, $sub); return; }

# The rows of a query on both sides, once all is applied.
sub same
{
	my ($query, $what) = @_;
	wait_applied($pub, $sub, 'sub');
	is($sub->safe_psql('postgres', $query), $pub->safe_psql('postgres', $query), $what);
	return;
}

sub rows_of { my ($columns, $table) = @_; return "SELECT string_agg(r, E'\\n' ORDER BY r) FROM (SELECT ROW($columns)::text r FROM $table) x"; }

# --- tables: publisher identities and subscriber identities in every pairing

my @publisher = (
	[ 'pk', 'PRIMARY KEY (id)', '' ],
	[ 'ui', 'UNIQUE (id)', 'ALTER TABLE %s ALTER id SET NOT NULL; ALTER TABLE %1$s REPLICA IDENTITY USING INDEX %1$s_id_key' ],
	[ 'full', 'CHECK (true)', 'ALTER TABLE %s REPLICA IDENTITY FULL' ]);
my @subscriber = (
	[ 'pk', ', PRIMARY KEY (id)', '' ],
	[ 'none', '', '' ],
	[ 'index', '', 'CREATE INDEX ON %s (id)' ],
	[ 'other', '', 'CREATE INDEX ON %s (v); CREATE INDEX ON %1$s ((id + 1)); CREATE INDEX ON %1$s (id) WHERE id > 10' ],
	[ 'hash', '', 'CREATE INDEX ON %s USING hash (id)' ]);
my @pairings;
foreach my $p (@publisher)
{
	foreach my $s (@subscriber)
	{
		my $name = "i_$p->[0]_$s->[0]";
		push @pairings, $name;
		$pub->safe_psql('postgres', "CREATE TABLE $name (id int, v text, j json, $p->[1]);" . sprintf($p->[2], $name));
		$sub->safe_psql('postgres', "CREATE TABLE $name (id int, v text, j json$s->[1]);" . sprintf($s->[2], $name));
	}
}

both(q{
	CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
	CREATE TYPE pair AS (a int, m mood, t text[]);
	CREATE DOMAIN positive AS int CHECK (VALUE > 0);
	CREATE DOMAIN moods AS mood[];
	CREATE TABLE toasted (id int PRIMARY KEY, big text, n int);
	CREATE TABLE toasted_full (id int, big text, n int);
	ALTER TABLE toasted_full REPLICA IDENTITY FULL;
	ALTER TABLE toasted ALTER big SET STORAGE EXTERNAL;
	CREATE TABLE batch (id int PRIMARY KEY, v text);
	CREATE TABLE parent (id int PRIMARY KEY);
	CREATE TABLE child (id serial PRIMARY KEY, parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
	CREATE TABLE fired (id int PRIMARY KEY, v text);
	CREATE TABLE empty ();
});
# the oids of types differ from here on
$sub->safe_psql('postgres', 'CREATE TYPE padding AS (a int); CREATE TYPE padding2 AS (a int)');
both(q{
	CREATE TYPE late AS ENUM ('x', 'y');
	CREATE TYPE nested AS (a late, b pair[]);
	CREATE TABLE typed (id int PRIMARY KEY, m mood, ms mood[], c pair, cs pair[], p positive, ds moods, l late, ls late[][], x nested,
		xs nested[], nu numeric(30,10), r int4range, mr int8multirange, b bytea, ip inet, d date, ts timestamp, tz timestamptz(3), iv interval, f4 float4,
		f8 float8, js json, jb jsonb, xm xml, bt bit(3), vb varbit, mo money, u uuid, ch char(5), vc varchar(5), na name, pt point, tv tsvector, tt int[],
		ac aclitem);
	-- the binary form of these is an oid, or there is none, at some depth
	CREATE FUNCTION lonely(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
	CREATE TYPE holder AS (a aclitem, r regclass);
	CREATE DOMAIN rel AS regclass;
	CREATE DOMAIN holders AS holder[];
	CREATE TYPE pairs AS RANGE (subtype = pair);
	CREATE TYPE types AS RANGE (subtype = regtype);
	CREATE TABLE named (id int PRIMARY KEY, c regclass, ty regtype, n regnamespace, pr regproc, pd regprocedure, op regoper, od regoperator, ro regrole,
		co regconfig, di regdictionary, cl regcollation, cs regclass[], d rel, ds rel[], h holder, hs holders, acs aclitem[], ps pairs, ts types,
		tm types_multirange);
});
$pub->safe_psql('postgres', q{
	CREATE TABLE plain (id int, region text, v int, PRIMARY KEY (id, region));
	CREATE TABLE moved (id int PRIMARY KEY, region text, v int);
	CREATE TABLE columns (a int PRIMARY KEY, b varchar(20), c int, d timestamp, e mood, f text);
	CREATE TABLE computed (a int, b int, PRIMARY KEY (a));
});
$sub->safe_psql('postgres', q{
	CREATE TABLE plain (id int, v int, region text, extra int DEFAULT 7, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
	CREATE TABLE plain_a PARTITION OF plain FOR VALUES IN ('a');
	CREATE TABLE plain_b (region text NOT NULL, junk int, v int, id int NOT NULL, extra int);
	ALTER TABLE plain_b DROP junk;
	ALTER TABLE plain ATTACH PARTITION plain_b FOR VALUES IN ('b');
	CREATE TABLE plain_rest PARTITION OF plain DEFAULT;
	CREATE TABLE moved (id int, region text, v int, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
	CREATE TABLE moved_a PARTITION OF moved FOR VALUES IN ('a');
	CREATE TABLE moved_b PARTITION OF moved FOR VALUES IN ('b');
	CREATE TABLE columns (own serial, f text, e mood, junk int, c bigint, d timestamptz, a int PRIMARY KEY, b text, made timestamptz DEFAULT now(),
		seven int NOT NULL DEFAULT 3 + 4);
	ALTER TABLE columns DROP junk;
	CREATE TABLE computed (a int, b int, g int GENERATED ALWAYS AS (a * 10 + b) STORED, PRIMARY KEY (a, g));
	CREATE TABLE log (what text, id int);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.log VALUES (tg_name || ' ' || tg_op, coalesce(new.id, old.id));
		IF tg_when = 'BEFORE' AND tg_op = 'INSERT' AND new.id = 3 THEN RETURN NULL; END IF;
		IF tg_when = 'BEFORE' AND tg_op = 'UPDATE' THEN new.v := new.v || '!'; END IF;
		RETURN coalesce(new, old);
	END $$;
	CREATE TRIGGER before BEFORE INSERT OR UPDATE OR DELETE ON fired FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER after AFTER INSERT OR UPDATE OR DELETE ON fired FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER origin AFTER INSERT OR UPDATE OR DELETE ON fired FOR EACH ROW EXECUTE FUNCTION note();
	ALTER TABLE fired ENABLE ALWAYS TRIGGER before;
	ALTER TABLE fired ENABLE REPLICA TRIGGER after;
});
$pub->safe_psql('postgres', 'CREATE PUBLICATION pub FOR ALL TABLES');
create_subscription($pub, $sub, 'sub', args => "copy_schema => false, options => '{\"group_commit_delay\": 50}'");

# --- identities

foreach my $table (@pairings)
{
	my $key = $table =~ /i_full_(?!pk)/ ? 'NULL' : '1000';
	$pub->safe_psql('postgres', qq{
		INSERT INTO $table SELECT g, 'v' || g, json_build_object('a', g) FROM generate_series(1, 50) g;
		INSERT INTO $table VALUES ($key, NULL, NULL);
		UPDATE $table SET v = v || 'u' WHERE id % 2 = 0;
		UPDATE $table SET id = id + 100 WHERE id % 5 = 0;
		DELETE FROM $table WHERE id % 7 = 0;
		UPDATE $table SET v = 'null' WHERE j IS NULL;
		BEGIN; UPDATE $table SET v = 'a' WHERE id = 1; UPDATE $table SET v = 'b' WHERE id = 1; UPDATE $table SET id = 2000 WHERE id = 1;
		UPDATE $table SET id = 2001 WHERE id = 2000; DELETE FROM $table WHERE id = 2; INSERT INTO $table VALUES (2, 'again', '{}');
		UPDATE $table SET v = 'twice' WHERE id = 2; COMMIT;
	});
}
foreach my $table (@pairings) { same(rows_of('id, v, j', $table), "$table: rows are equal"); }

# duplicates are rows of their own
$pub->safe_psql('postgres', q{
	INSERT INTO i_full_none SELECT 7777, 'same', '{"a":1}' FROM generate_series(1, 5);
	UPDATE i_full_none SET v = 'one' WHERE ctid = (SELECT min(ctid) FROM i_full_none WHERE id = 7777);
	DELETE FROM i_full_none WHERE ctid = (SELECT max(ctid) FROM i_full_none WHERE id = 7777);
	INSERT INTO i_full_none SELECT g, 'many', NULL FROM generate_series(10000, 13000) g;
	UPDATE i_full_none SET id = id + 1 WHERE id >= 10000;
	UPDATE i_full_none SET v = v || id WHERE id >= 10000 AND id % 3 = 0;
	DELETE FROM i_full_none WHERE id >= 10000 AND id % 4 = 0;
});
same(rows_of('id, v, j', 'i_full_none'), 'REPLICA IDENTITY FULL without an index: duplicates and many rows');

# the publisher describes a relation again while changes of its rows still wait to be found; GRANT is not a change of shape
$pub->safe_psql('postgres', q{
	BEGIN;
	UPDATE i_full_none SET v = 'before' WHERE id = 10001;
	GRANT SELECT ON i_full_none TO PUBLIC;
	UPDATE i_full_none SET v = 'after' WHERE id = 10002;
	COMMIT;
});
same(rows_of('id, v, j', 'i_full_none'), 'REPLICA IDENTITY FULL: a relation described again between two changes');

# --- batches: the row written is the row sent, whatever the size

foreach my $size (1, 5, 6, 7, 64, 999, 1000, 1001, 2500)
{
	$pub->safe_psql('postgres', "TRUNCATE batch; INSERT INTO batch SELECT g, 'row ' || g || ' ' || repeat(chr(97 + g % 26), g % 300) FROM generate_series(1, $size) g");
	same(rows_of('id, v', 'batch'), "$size rows in one transaction");
}
my $single = join("\n", map { "INSERT INTO batch VALUES (" . (10000 + $_) . ", 'single $_');" . ($_ % 3 ? '' : "UPDATE batch SET v = v || '+' WHERE id = " . (10000 + $_ - 1) . ';') } 1 .. 300);
$pub->safe_psql('postgres', $single);
same(rows_of('id, v', 'batch'), 'many small transactions');

# --- TOAST: unchanged values stay

foreach my $table ('toasted', 'toasted_full')
{
	$pub->safe_psql('postgres', qq{
		INSERT INTO $table SELECT g, (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 300) i), 0 FROM generate_series(1, 20) g;
		UPDATE $table SET n = n + 1;
		UPDATE $table SET big = big || 'x' WHERE id % 2 = 0;
		UPDATE $table SET id = id + 100 WHERE id % 3 = 0;
		UPDATE $table SET n = n + 1;
		DELETE FROM $table WHERE id % 5 = 0;
	});
	same(rows_of('id, big, n', $table), "$table: unchanged TOAST values");
}

# --- partitions of the subscriber's own

$pub->safe_psql('postgres', q{
	INSERT INTO plain SELECT g, (ARRAY['a', 'b', 'c'])[g % 3 + 1], g FROM generate_series(1, 3000) g;
	UPDATE plain SET v = v + 1;
	UPDATE plain SET region = 'b' WHERE region = 'a' AND id % 2 = 0;
	UPDATE plain SET region = 'a', id = id + 5000 WHERE region = 'c' AND id % 4 = 0;
	DELETE FROM plain WHERE id % 10 = 0;
	INSERT INTO moved SELECT g, 'a', g FROM generate_series(1, 100) g;
	UPDATE moved SET region = 'b', v = -v WHERE id % 2 = 0;
	UPDATE moved SET v = v + 1;
	DELETE FROM moved WHERE id % 3 = 0;
});
same(rows_of('id, region, v', 'plain'), 'a plain table into a partitioned one, rows moving between partitions');
same(rows_of('id, region, v', 'moved'), 'partitioned by a column that the replica identity does not have');
is($sub->safe_psql('postgres', 'SELECT count(*) FILTER (WHERE extra IS DISTINCT FROM 7) FROM plain'), '0',
	'the default of a column of its own reaches every partition');

# --- columns in another order, of other types, and more of them

$pub->safe_psql('postgres', q{
	INSERT INTO columns SELECT g, 'b' || g, g, '2024-01-01 00:00', 'ok', 'f' || g FROM generate_series(1, 20) g;
	UPDATE columns SET c = c * 2, e = 'happy' WHERE a % 2 = 0;
	UPDATE columns SET b = NULL, f = NULL WHERE a % 3 = 0;
});
same(rows_of('a, b, c, e, f', 'columns'), 'columns are paired, values converted');
is($sub->safe_psql('postgres', 'SELECT count(*), min(seven), count(made), count(DISTINCT own) FROM columns'), '20|7|20|20',
	'columns of the subscriber have their defaults');
$pub->safe_psql('postgres', 'INSERT INTO computed SELECT g, g FROM generate_series(1, 9) g; UPDATE computed SET b = b + 1 WHERE a > 5; DELETE FROM computed WHERE a = 1');
same(rows_of('a, b', 'computed'), 'a generated column in the primary key');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM computed WHERE g <> a * 10 + b'), '0', 'it is computed here');

# --- types, binary and text

sub fill
{
	my ($from, $to) = @_;
	$pub->safe_psql('postgres', qq{INSERT INTO named SELECT g, 'typed', 'late[]', 'public', 'public.lonely', 'lonely(int)', 'pg_catalog.|/', '+(int,int)', current_user::regrole,
		'english', 'simple', 'pg_catalog."C"', '{typed,pg_class,NULL}', 'named', '{typed_pkey}', ROW(a, 'typed')::holder, ARRAY[ROW(a, 'batch')::holder, NULL],
		ARRAY[a], pairs(ROW(g, 'ok'::mood, '{a}')::pair, NULL), types('int8', 'int4'), types_multirange(types('int8', 'int4'))
		FROM generate_series($from, $to) g, CAST('=r/' || current_user AS aclitem) a;
		INSERT INTO named (id, c, cs) VALUES ($to + 1, 0, '{0}'); UPDATE named SET c = 'batch', h = NULL WHERE id = $to});
	$pub->safe_psql('postgres', qq{INSERT INTO typed SELECT g, 'ok', ARRAY['sad', NULL, 'happy']::mood[], ROW(g, 'happy'::mood, ARRAY['a', NULL])::pair,
		ARRAY[ROW(g, 'sad', NULL)::pair, NULL], g, ARRAY['ok']::mood[]::moods, 'y', ARRAY[ARRAY['x','y'],ARRAY['y','y']]::late[][],
		ROW('x'::late, ARRAY[ROW(1, 'ok'::mood, NULL)::pair])::nested, ARRAY[ROW('y'::late, NULL)::nested], g / 7.0, int4range(g, g + 5),
		'{[1,3), [5,9)}', '\\x00ff10', '10.0.0.1/8', 'infinity', '2024-02-29 12:00:00.123456', '2024-02-29 12:00:00.123+05:30', '1 year -2 mons 3 days -04:00',
		'NaN', 'Infinity', '{"a" : 1}', '{"b": [1, null]}', '<a>x</a>', B'101', B'1', 12.34, md5(g::text)::uuid, 'ab', 'abcde', 'name', '(1,2)',
		to_tsvector('simple', 'a b c'), '[2:3]={1,2}',
		('=r/' || current_user)::aclitem FROM generate_series($from, $to) g});
	$pub->safe_psql('postgres', "INSERT INTO typed (id) VALUES ($to + 1); UPDATE typed SET ms = '{}', cs = NULL, xs = '{}' WHERE id % 2 = 0 AND id >= $from");
	return;
}
# one of them, aclitem, has no binary form and comes as text
fill(1, 10);
same(rows_of('typed.*', 'typed'), 'types in binary, with oids that differ');
same(rows_of('named.*', 'named'), 'names of objects, and types without a binary form at any depth, beside binary ones');
# an enum that is text here: only its text form can be read
$pub->safe_psql('postgres', 'CREATE TABLE as_text (id int PRIMARY KEY, m mood)');
wait_applied($pub, $sub, 'sub');
$sub->safe_psql('postgres', 'ALTER TABLE as_text ALTER m TYPE text');
$pub->safe_psql('postgres', "INSERT INTO as_text VALUES (1, 'sad'), (2, NULL), (3, 'happy')");
same(rows_of('id, m', 'as_text'), 'an enum into text');
$sub->safe_psql('postgres', "SELECT schemasync_alter_subscription('sub', options => '{\"binary\": false}')");
fill(101, 110);
same(rows_of('typed.*', 'typed'), 'types as text');
same(rows_of('named.*', 'named'), 'names of objects as text');
# a name that means nothing here
$pub->safe_psql('postgres', q{CREATE FUNCTION foreigner() RETURNS int LANGUAGE sql AS 'SELECT 1'; INSERT INTO named (id, pr) VALUES (1000, 'foreigner')});
$sub->poll_query_until('postgres', q{SELECT count(*) = 1 FROM schemasync_errors WHERE sqlstate = '42883' AND relation = 'public.named'
	AND message = 'function "public.foreigner" does not exist'}) or die 'a function that is not there was not missed';
$sub->safe_psql('postgres', q{CREATE FUNCTION foreigner() RETURNS int LANGUAGE sql AS 'SELECT 1'});
same(rows_of('named.*', 'named'), 'a name that is there now');
is($sub->safe_psql('postgres', q{SELECT count(*) FROM schemasync_errors WHERE message !~ 'foreigner'}), '0', 'no other error');
$pub->safe_psql('postgres', 'INSERT INTO empty DEFAULT VALUES; INSERT INTO empty DEFAULT VALUES');
same('SELECT count(*) FROM empty', 'a table without columns');

# --- triggers: those for replicas fire, and may have their say

$pub->safe_psql('postgres', q{INSERT INTO fired SELECT g, 'v' FROM generate_series(1, 4) g; UPDATE fired SET v = 'w' WHERE id = 1; DELETE FROM fired WHERE id = 2});
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', q{SELECT string_agg(id || v, ' ' ORDER BY id) FROM fired}), '1w! 4v', 'triggers change and suppress rows');
is($sub->safe_psql('postgres', q{SELECT string_agg(what || ' ' || n, ', ' ORDER BY what) FROM (SELECT what, count(*) n FROM log GROUP BY what) x}),
	'after DELETE 1, after INSERT 3, after UPDATE 1, before DELETE 1, before INSERT 4, before UPDATE 1', 'ALWAYS and REPLICA triggers fire, others do not');

# --- TRUNCATE

$pub->safe_psql('postgres', q{
	BEGIN; INSERT INTO child (parent) VALUES (1), (2); INSERT INTO parent VALUES (1), (2); COMMIT;
	TRUNCATE parent, child RESTART IDENTITY;
	INSERT INTO parent VALUES (5); INSERT INTO child (parent) VALUES (5);
	TRUNCATE parent CASCADE;
	INSERT INTO parent VALUES (6); INSERT INTO child (parent) VALUES (6);
	BEGIN; INSERT INTO batch VALUES (-1, 'before'); TRUNCATE batch; INSERT INTO batch VALUES (-2, 'after'); COMMIT;
	TRUNCATE plain; INSERT INTO plain VALUES (1, 'a', 1);
});
same(rows_of('id, parent', 'child'), 'TRUNCATE of tables with foreign keys, CASCADE');
same(rows_of('id, v', 'batch'), 'TRUNCATE between inserts of one transaction');
same(rows_of('id, region, v', 'plain'), 'TRUNCATE of a partitioned target');

is($sub->safe_psql('postgres', 'SELECT count(*) FROM schemasync_errors WHERE resolved_at IS NULL'), '0', 'no error on the way');

# --- what was dropped on the subscriber: its rows wait

my @tables = qw(lost_a lost_b lost_c);
$pub->safe_psql('postgres', join('', map { "CREATE TABLE $_ (id int PRIMARY KEY, v text, w text); INSERT INTO $_ VALUES (1, 'a', 'b');" } @tables));
wait_applied($pub, $sub, 'sub');
my $waits = q{SELECT count(*) > 0 FROM schemasync_errors WHERE resolved_at IS NULL AND sqlstate = '%s' AND relation = 'public.%s' AND message = '%s'};

$sub->safe_psql('postgres', 'DROP TABLE lost_a');
is($sub->safe_psql('postgres', q{SELECT count(*) FROM schemasync_tables WHERE publisher_relation = 'public.lost_a' AND relation IS NULL}), '1',
	'a table that is not there has no name here');
$pub->safe_psql('postgres', q{
	BEGIN; INSERT INTO lost_c VALUES (2, 'c', 'd'); INSERT INTO lost_a VALUES (2, 'c', 'd'); COMMIT; UPDATE lost_a SET v = 'e' WHERE id = 1});
$sub->poll_query_until('postgres', sprintf($waits, '42P01', 'lost_a', q{the publisher''s table "public.lost_a" does not exist here any more}))
  or die 'rows of a table that is not there were passed over';
is($sub->safe_psql('postgres', 'SELECT count(*) FROM lost_c WHERE id = 2'), '0', 'nothing of its transaction is applied');
$sub->safe_psql('postgres', q{CREATE TABLE lost_a (w text, id int PRIMARY KEY, v text); SELECT schemasync_resync('sub', 'lost_a')});
$sub->poll_query_until('postgres', q{SELECT count(*) = 0 FROM schemasync_tables WHERE state <> 'ready'}) or die 'not copied afresh';
$pub->safe_psql('postgres', q{INSERT INTO lost_a VALUES (3, 'f', 'g'); UPDATE lost_a SET w = 'h' WHERE id = 2});
same(rows_of('id, v, w', 'lost_a'), 'a table that was dropped here, made again and copied');

$sub->safe_psql('postgres', 'ALTER TABLE lost_c DROP w');
$pub->safe_psql('postgres', q{UPDATE lost_c SET v = 'e', w = 'f' WHERE id = 1});
$sub->poll_query_until('postgres', sprintf($waits, '42703', 'lost_c', q{column "w" of the publisher''s table "public.lost_c" does not exist here any more}))
  or die 'values of a column that is not there were passed over';
$sub->safe_psql('postgres', q{ALTER TABLE lost_c ADD w text; SELECT schemasync_resync('sub', 'lost_c')});
$sub->poll_query_until('postgres', q{SELECT count(*) = 0 FROM schemasync_tables WHERE state <> 'ready'}) or die 'not copied afresh';
$pub->safe_psql('postgres', q{INSERT INTO lost_c VALUES (3, 'f', 'g')});
same(rows_of('id, v, w', 'lost_c'), 'a column that was dropped here and added again');

# a generated column is not sent, and need not be here
$pub->safe_psql('postgres', 'CREATE TABLE lost_g (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED)');
wait_applied($pub, $sub, 'sub');
$sub->safe_psql('postgres', 'ALTER TABLE lost_g DROP g');
$pub->safe_psql('postgres', 'INSERT INTO lost_g VALUES (1)');
same('SELECT id FROM lost_g', 'a generated column that was dropped here stops nothing');
$sub->safe_psql('postgres', q{SELECT schemasync_resync('sub', 'lost_g')});
$sub->poll_query_until('postgres', q{SELECT count(*) = 0 FROM schemasync_tables WHERE state <> 'ready'}) or die 'lost_g was not copied afresh';

# one that the publication does not list any more is not asked for
$sub->safe_psql('postgres', 'DROP TABLE lost_b');
$pub->safe_psql('postgres', q{INSERT INTO lost_b VALUES (2, 'c', 'd')});
wait_state($sub, 'sub', 'failed');
$pub->safe_psql('postgres', q{DO $$ DECLARE t text; BEGIN
	SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') INTO t FROM pg_publication_tables WHERE pubname = 'pub' AND tablename NOT IN ('lost_b', 'as_text')
		AND schemaname <> 'schemasync';
	EXECUTE 'DROP PUBLICATION pub'; EXECUTE 'CREATE PUBLICATION pub FOR TABLE ' || t; END $$});
$sub->safe_psql('postgres', q{SELECT schemasync_refresh('sub')});
$pub->safe_psql('postgres', q{INSERT INTO lost_a VALUES (4, 'i', 'j')});
same(rows_of('id, v, w', 'lost_a'), 'dropped from the publication, its rows wait no more');

# the answer to a refusal may be to drop it by hand, with rows before that in the same transaction
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', options => '{"drop_table": "refuse", "drop_column": "refuse"}')});
$pub->safe_psql('postgres', q{BEGIN; INSERT INTO lost_a VALUES (5, 'k', 'l'); INSERT INTO lost_c VALUES (5, 'k', 'l'); DROP TABLE lost_a; ALTER TABLE lost_c DROP w; COMMIT; INSERT INTO lost_c VALUES (6, 'm')});
wait_refused($sub, 'sub', 'policy_refuse');
$sub->safe_psql('postgres', q{DROP TABLE lost_a; SELECT schemasync_resume('sub')});
$sub->poll_query_until('postgres', q{SELECT object_identity ~ 'lost_c' FROM schemasync_refusals WHERE status = 'open'}) or die 'the column was not refused';
wait_refused($sub, 'sub', 'policy_refuse');
$sub->safe_psql('postgres', q{ALTER TABLE lost_c DROP w; SELECT schemasync_resume('sub')});
same(rows_of('id, v', 'lost_c'), 'a table and a column dropped by hand at their refusal');
ok($sub->log_contains(qr/leaves out what is not here any more of "public\.lost_$_"/), "lost_$_ is named in the log") foreach qw(a c);
done_testing();
