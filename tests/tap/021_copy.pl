# The initial copy: schema and rows of all kinds of tables, what does not fit, and a copy that is interrupted.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair(conf => "restart_after_crash = on\n");
my $dsn = $pub->connstr('postgres');
$dsn =~ s/'/''/g;

$pub->safe_psql('postgres', <<'SQL');
CREATE SCHEMA "Other one"; CREATE SCHEMA "with nothing";
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE plain (a int PRIMARY KEY, b text NOT NULL DEFAULT 'x', m mood, p positive, marks mood[],
	made int GENERATED ALWAYS AS (a * 2) STORED);
INSERT INTO plain (a, b, m, p, marks) SELECT i, 'r' || i, 'ok', i, '{ok,sad}' FROM generate_series(1, 1000) i;
CREATE INDEX ON plain (b);
CREATE TABLE "Other one"."We ird" ("Col A" int PRIMARY KEY REFERENCES plain, "b""c" regclass, f float8, t timestamptz, j jsonb, n numeric,
	d date, i interval);
INSERT INTO "Other one"."We ird" VALUES (1, 'plain', 1.1, '2024-02-03 04:05:06.789+02', '{"a": [1, null]}', 1.2345, '2024-12-31', '-1 day 02:03'),
	(2, NULL, 'NaN', 'infinity', 'null', 'NaN', '-infinity', '1 mon -3 days');
CREATE TABLE parted (id int PRIMARY KEY, k text) PARTITION BY RANGE (id);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (100) TO (1000);
INSERT INTO parted SELECT i, i FROM generate_series(1, 500) i;
CREATE TABLE empty_one (id int PRIMARY KEY);
CREATE PUBLICATION pub FOR ALL TABLES;
SQL

# --- everything, schema and rows
create_subscription($pub, $sub, 'app');
compare($pub, $sub, 'schema and rows are there');
is($sub->safe_psql('postgres', q{SELECT count(*) FROM pg_namespace WHERE nspname = 'with nothing'}), '1', 'so is a schema without tables');
is($sub->safe_psql('postgres', "SELECT count(*) FROM schemasync_tables WHERE state <> 'ready'"), '0', 'all tables are ready');
is($sub->safe_psql('postgres', "SELECT copied_rows FROM schemasync_tables WHERE relation = 'public.plain'"), '1000', 'rows are counted');
$pub->safe_psql('postgres', 'INSERT INTO plain (a) VALUES (2000); UPDATE parted SET k = $$new$$ WHERE id = 300; DELETE FROM "Other one"."We ird" WHERE "Col A" = 2');
wait_applied($pub, $sub, 'app');
compare($pub, $sub, 'and the stream goes on from there');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('app')");

# --- what is there already must fit; all that does not is said at once
$sub->safe_psql('postgres', 'ALTER TABLE plain DROP COLUMN b CASCADE; DROP TABLE empty_one; ALTER TABLE "Other one"."We ird" ALTER f TYPE date USING NULL');
create_subscription($pub, $sub, 'app', args => 'copy_schema => false', wait => 0);
wait_state($sub, 'app', 'failed');
my $detail = $sub->safe_psql('postgres', 'SELECT detail FROM schemasync_errors WHERE resolved_at IS NULL');
like($detail, qr/$_/, "said at once: $_") for 'has no column b', 'empty_one is missing', 'column f of table';
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('app'); DROP TABLE plain, \"Other one\".\"We ird\", parted CASCADE");
is($pub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '0', 'the slot of a copy that failed goes with the subscription');

# --- column lists and row filters
$pub->safe_psql('postgres', 'CREATE PUBLICATION part FOR TABLE plain (a, m) WHERE (a <= 10)');
create_subscription($pub, $sub, 'part', publications => ['part']);
is($sub->safe_psql('postgres', 'SELECT count(*), max(a) FROM plain'), '10|10', 'only the rows of the filter');
is($sub->safe_psql('postgres', "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'plain'::regclass AND attnum > 0 AND NOT attisdropped"),
	'a,m', 'only the columns of the list');
$pub->safe_psql('postgres', "UPDATE plain SET m = 'sad' WHERE a = 3; UPDATE plain SET b = 'unseen' WHERE a = 4");
wait_applied($pub, $sub, 'part');
is($sub->safe_psql('postgres', 'SELECT m FROM plain WHERE a = 3'), 'sad', 'and the stream agrees with that');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('part'); DROP TABLE plain");

# --- interrupted: two tables are held up, the worker stopped, both altered meanwhile
$pub->safe_psql('postgres', 'CREATE TABLE held (id int PRIMARY KEY, v int); INSERT INTO held SELECT i, i FROM generate_series(1, 100) i;'
	  . ' CREATE TABLE before (id int PRIMARY KEY, v int); INSERT INTO before SELECT i, i FROM generate_series(1, 100) i;'
	  . ' CREATE PUBLICATION two FOR TABLE before, held');
$sub->safe_psql('postgres', 'CREATE TABLE before (id int PRIMARY KEY, v int); CREATE TABLE held (id int PRIMARY KEY, v int)');
my $holder = $sub->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE before, held IN SHARE MODE');
create_subscription($pub, $sub, 'two', publications => ['two'], args => 'copy_schema => false', wait => 0);
$sub->poll_query_until('postgres', "SELECT count(*) = 2 FROM schemasync_tables WHERE state = 'copying'") or die 'the copy did not begin';
$sub->safe_psql('postgres', "SELECT schemasync_stop('two')");
$pub->safe_psql('postgres', 'UPDATE held SET v = -v WHERE id < 10; ALTER TABLE held ADD extra int DEFAULT 7; INSERT INTO held VALUES (101, 1, 1);'
	  . ' UPDATE held SET extra = id WHERE id > 90; DELETE FROM before WHERE id = 1; ALTER TABLE before RENAME v TO w; INSERT INTO before VALUES (101, 1)');
$holder->query_safe('COMMIT');
$holder->quit;
$sub->safe_psql('postgres', "SELECT schemasync_start('two')");
wait_applied($pub, $sub, 'two');
foreach my $table ('before', 'held')
{
	my $contents = "SELECT string_agg(t::text, ',' ORDER BY id) FROM $table t";
	is($sub->safe_psql('postgres', $contents), $pub->safe_psql('postgres', $contents), "$table is equal after an interrupted copy");
}

done_testing();
