# What a person needs before and at a cutover: the differences of the schema, the comparison of the rows, and the sequences.
use strict;
use warnings;
use File::Basename qw(dirname);
use IPC::Run qw(start);
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair();
my $dsn = $pub->connstr('postgres');
$dsn =~ s/'/''/g;

sub error_of
{
	my ($sql, %options) = @_;
	my ($status, undef, $err) = $sub->psql($options{dbname} // 'postgres', $sql);
	return $status == 0 ? '' : $err;
}

# --- schemasync_diff: nothing where nothing differs

$pub->safe_psql('postgres', q{
CREATE SCHEMA "Sales";
CREATE TYPE "Sales".mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN "Sales".amount AS numeric(10, 2) CHECK (VALUE >= 0);
CREATE TYPE "Sales".place AS (street text, number int);
CREATE TABLE customer (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, mood "Sales".mood DEFAULT 'ok');
CREATE TABLE "Sales"."Order" (
	id serial PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customer, total "Sales".amount, at timestamptz DEFAULT now(),
	"To" "Sales".place, code varchar(10) UNIQUE, doubled numeric GENERATED ALWAYS AS (id * 2) STORED, moods "Sales".mood[],
	CONSTRAINT code_len CHECK (length(code) > 1));
CREATE INDEX order_at ON "Sales"."Order" (at DESC) WHERE total > 0;
CREATE TABLE part (id int, day date NOT NULL, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE INDEX ON part (v);
CREATE TABLE listed (id int PRIMARY KEY, shown text, hidden text);
CREATE TABLE full_identity (a int, b text);
ALTER TABLE full_identity REPLICA IDENTITY FULL;
CREATE TABLE gone_soon (id int PRIMARY KEY);
INSERT INTO customer (name) SELECT 'c' || i FROM generate_series(1, 50) i;
INSERT INTO "Sales"."Order" (customer_id, total, code, "To", moods)
	SELECT i, i * 1.5, 'code' || i, ROW('s', i)::"Sales".place, '{ok,sad}' FROM generate_series(1, 50) i;
INSERT INTO part SELECT i, date '2024-06-01' + i * 5, 'v' || i FROM generate_series(1, 100) i;
INSERT INTO listed SELECT i, 's' || i, 'h' || i FROM generate_series(1, 20) i;
INSERT INTO full_identity SELECT i % 5, 'same' FROM generate_series(1, 20) i;
CREATE PUBLICATION pub FOR TABLE customer, "Sales"."Order", part, listed (id, shown) , full_identity, gone_soon;
});
create_subscription($pub, $sub, 'sub');
my $count = "SELECT count(*) FROM schemasync_diff('sub')";
is($sub->safe_psql('postgres', "SELECT * FROM schemasync_diff('sub')"), '', 'no differences after the copy of the schema');

# --- what was changed by hand here

$sub->safe_psql('postgres', q{
ALTER TABLE customer RENAME COLUMN name TO full_name;
ALTER TABLE customer ADD COLUMN note text, ALTER COLUMN mood DROP DEFAULT;
ALTER TYPE "Sales".mood RENAME TO mood_here;
ALTER TABLE "Sales"."Order" DROP CONSTRAINT code_len, DROP CONSTRAINT "Order_code_key", ALTER COLUMN code TYPE varchar(20),
	ALTER COLUMN customer_id DROP NOT NULL, DROP COLUMN at, ALTER COLUMN total SET DEFAULT 7;
ALTER TABLE "Sales"."Order" ADD CONSTRAINT code_len CHECK (length(code) > 2);
ALTER TABLE "Sales"."Order" RENAME CONSTRAINT "Order_pkey" TO order_key;
ALTER DOMAIN "Sales".amount DROP CONSTRAINT amount_check;
CREATE INDEX own ON customer (mood);
ALTER TABLE part DROP COLUMN v;
ALTER TABLE full_identity REPLICA IDENTITY DEFAULT;
ALTER TABLE listed ADD COLUMN mine int;
DROP TABLE gone_soon;
});
my @columns = qw(object_type object_identity difference publisher subscriber verdict reason);
my $found = $sub->safe_psql('postgres',
	"SELECT concat_ws('|', object_type, object_identity, difference, verdict, reason) FROM schemasync_diff('sub')");
foreach my $expected (
	'column|public.customer.name|column full_name was renamed to name|forward',
	'column|public.customer.note|column is only on the subscriber|ignore',
	'column|public.customer.mood|default of column mood is ',
	'type|"Sales".mood|type "Sales".mood_here was renamed to "Sales".mood|forward',
	'type|"Sales".amount|constraint amount_check of domain "Sales".amount was added',
	'constraint|code_len on "Sales"."Order"|constraint is defined otherwise on the subscriber|forward',
	'constraint|"Order_code_key" on "Sales"."Order"|constraint is missing on the subscriber|forward',
	'constraint|"Order_pkey" on "Sales"."Order"|constraint order_key was renamed to "Order_pkey"|forward',
	'column|"Sales"."Order".code|column code changed from character varying(20) to character varying(10)|',
	'column|"Sales"."Order".customer_id|column customer_id is NOT NULL|forward',
	'column|"Sales"."Order".at|column is missing on the subscriber|',
	'column|"Sales"."Order".total|default of column total was dropped|forward',
	'index|"Sales".order_at|index is missing on the subscriber|forward',
	'index|public.own|index is only on the subscriber|ignore',
	'column|public.part.v|column is missing on the subscriber|forward',
	'table|public.full_identity|replica identity of public.full_identity is FULL|forward',
	'table|public.gone_soon|table is missing on the subscriber|forward')
{
	like($found, qr/^\Q$expected\E/m, "found: $expected");
}
unlike($found, qr/mine|part_1|hidden/, 'neither what is not published, nor what comes with the parent');
diag($found) unless Test::More->builder->is_passing;

# --- its SQL levels it
my $sql = $sub->safe_psql('postgres', "SELECT string_agg(suggested_sql, E';\\n') FROM schemasync_diff('sub')");
$sub->safe_psql('postgres', $sql);
is($sub->safe_psql('postgres', "SELECT object_identity, difference FROM schemasync_diff('sub')"), '', 'the SQL levels all of it');
SchemasyncTest::compare_catalogs($pub, $sub, 'levelled', 'public.customer');
$pub->safe_psql('postgres', q{INSERT INTO customer (name) VALUES ('after'); INSERT INTO gone_soon VALUES (1)});
wait_applied($pub, $sub, 'sub');

# --- and what changed on the publisher while the subscription stood, and what is published now
$sub->safe_psql('postgres', "SELECT schemasync_stop('sub', drain => true)");
$pub->safe_psql('postgres', q{
ALTER TABLE customer ADD COLUMN token uuid DEFAULT gen_random_uuid();
CREATE TABLE newcomer (id int PRIMARY KEY);
ALTER PUBLICATION pub ADD TABLE newcomer;
ALTER PUBLICATION pub DROP TABLE full_identity;
});
is($sub->safe_psql('postgres', "SELECT concat_ws('|', object_identity, difference, verdict, reason) FROM schemasync_diff('sub') ORDER BY 1"),
	join("\n",
		'public.customer.token|column is missing on the subscriber|refuse|volatile_default',
		'public.full_identity|table is followed and no longer published|ignore',
		'public.newcomer|table is published and the subscription does not follow it yet|refuse|missing_object'),
	'pending changes, with the verdict that they would get');
is($sub->safe_psql('postgres', "SELECT suggested_sql FROM schemasync_diff('sub') WHERE object_identity = 'public.newcomer'"),
	q{SELECT public.schemasync_refresh('sub')}, 'a new table is taken up by a refresh');

# --- who may ask
$sub->safe_psql('postgres', 'CREATE ROLE nobody LOGIN');
like(error_of("SET ROLE nobody; SELECT schemasync_diff('sub')"), qr/must be owner of subscription "sub"/, 'the differences are the owner\'s');
like(error_of("SELECT schemasync_diff('none')"), qr/subscription "none" does not exist/, 'no such subscription');
like(error_of("SELECT schemasync_diff(NULL)"), qr/name must not be null/, 'a name is needed');

# --- schemasync_verify: types, filters, lists, partitions, tables without a key, other types here

foreach my $node ($pub, $sub)
{
	$node->safe_psql('postgres', 'CREATE DATABASE app');
	$node->safe_psql('app', 'CREATE EXTENSION schemasync');
}
$pub->safe_psql('app', q{
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE account (id int PRIMARY KEY, balance numeric NOT NULL, filler text);
CREATE TABLE history (account int, delta int, at timestamptz DEFAULT clock_timestamp());
ALTER TABLE history REPLICA IDENTITY FULL;
CREATE TABLE kinds (id bigint GENERATED ALWAYS AS IDENTITY, b bytea, f float8, n numeric(12, 4), t timestamptz, i interval, m money, j jsonb,
	a int[], e mood, r int4range, u uuid, c char(5), x xml, d date, q text, PRIMARY KEY (u, id));
CREATE TABLE filtered (id int PRIMARY KEY, region text, hidden text);
CREATE TABLE "Odd Name" ("The Key" text PRIMARY KEY, v int, doubled int GENERATED ALWAYS AS (v * 2) STORED);
CREATE TABLE root (id int, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE root_1 PARTITION OF root FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE root_2 PARTITION OF root DEFAULT;
CREATE TABLE other_types (id int PRIMARY KEY, wide int, txt varchar(9), num numeric(8, 2), ts timestamp);
INSERT INTO account SELECT i, 100, repeat('x', 50) FROM generate_series(1, 20000) i;
INSERT INTO kinds (b, f, n, t, i, m, j, a, e, r, u, c, x, d, q) SELECT decode(lpad(to_hex(i), 8, '0'), 'hex'), i / 3.0, i / 7.0, now() - i * interval '1 h',
	i * interval '1 day 3 s', i::text::money, jsonb_build_object('k', i, 'l', null), ARRAY[i, NULL], 'ok', int4range(i, i + 5),
	md5(i::text)::uuid, i::text, xmlelement(name a, i), date '2024-01-01' + i, CASE WHEN i % 3 > 0 THEN E'q"\\(,' || i || chr(233) END FROM generate_series(1, 300) i;
INSERT INTO filtered SELECT i, CASE i % 2 WHEN 0 THEN 'eu' ELSE 'us' END, 'h' FROM generate_series(1, 100) i;
INSERT INTO "Odd Name" SELECT 'key ' || i, i FROM generate_series(1, 50) i;
INSERT INTO root SELECT i, date '2024-06-01' + i, 'v' FROM generate_series(1, 400) i;
INSERT INTO other_types SELECT i, i, 'v' || i, i * 1.25, timestamp '2024-01-01' + i * interval '1 day' FROM generate_series(1, 30) i;
CREATE PUBLICATION pub FOR TABLE account, history, kinds, filtered (id, region) WHERE (region = 'eu'), "Odd Name", other_types;
CREATE PUBLICATION rooted FOR TABLE root WITH (publish_via_partition_root);
});
# the subscriber's own idea of a table, and of how values look
$sub->safe_psql('app', q{
CREATE TABLE other_types (ts timestamptz, num numeric(10, 3), id bigint PRIMARY KEY, txt text, wide bigint, mine int DEFAULT 5);
ALTER DATABASE app SET timezone = 'Asia/Tokyo';
ALTER DATABASE app SET datestyle = 'SQL, DMY';
ALTER DATABASE app SET extra_float_digits = 0;
});
create_subscription($pub, $sub, 'app', dbname => 'app', publications => [ 'pub', 'rooted' ]);
my $columns = 'object_identity, equal, publisher_rows, subscriber_rows';
my $equal = join("\n", 'public."Odd Name"|t|50|50', 'public.account|t|20000|20000', 'public.filtered|t|50|50', 'public.history|t|0|0',
	'public.kinds|t|300|300', 'public.other_types|t|30|30', 'public.root|t|400|400');
is($sub->safe_psql('app', "SELECT $columns FROM schemasync_verify('app') ORDER BY object_identity COLLATE \"C\""), $equal, 'all tables are equal');
is($sub->safe_psql('app', "SELECT detail FROM schemasync_verify('app', 'other_types')"),
	'not compared, because the subscriber has no such column or one whose values look otherwise: ts', 'what cannot be compared is named');
is($sub->safe_psql('app', "SELECT count(*) FROM schemasync_verify('app') WHERE publisher_checksum <> subscriber_checksum"), '0', 'and so are the checksums');

# --- what differs is named
$sub->safe_psql('app', q{
SET session_replication_role = replica;
UPDATE account SET balance = 1 WHERE id BETWEEN 100 AND 140;
DELETE FROM account WHERE id IN (200, 201, 15000);
INSERT INTO account VALUES (30000, 5, ''), (30001, 5, '');
UPDATE kinds SET q = '' WHERE q IS NULL AND id = 3;
UPDATE "Odd Name" SET v = 0 WHERE v = 7;
DELETE FROM root WHERE id = 390;
INSERT INTO history VALUES (1, 1, 'epoch'), (1, 1, 'epoch');
});
is($sub->safe_psql('app', "SELECT object_identity, differences FROM schemasync_verify('app') WHERE NOT equal ORDER BY object_identity COLLATE \"C\""),
	join("\n",
		'public."Odd Name"|("The Key") = ("key 7"): 1 with other values',
		'public.account|(id) from (100) to (140): 41 with other values',
		'(id) from (200) to (201): 2 only on the publisher',
		'(id) = (15000): 1 only on the publisher',
		'(id) from (30000) to (30001): 2 only on the subscriber',
		'public.history|row = (1,1,"1970-01-01 00:00:00+00"): 2 only on the subscriber',
		'public.kinds|(id, u) = (3,' . $pub->safe_psql('app', "SELECT md5('3')::uuid") . '): 1 with other values',
		'public.root|(id, day) = (390,2025-06-26): 1 only on the publisher'),
	'what differs is named by its key');
$sub->safe_psql('app', "SELECT schemasync_resync('app', r) FROM unnest('{account,kinds,\"\\\"Odd Name\\\"\",root,history}'::text[]::regclass[]) r");
wait_applied($pub, $sub, 'app', 'app');
is($sub->safe_psql('app', "SELECT $columns FROM schemasync_verify('app') ORDER BY object_identity COLLATE \"C\""), $equal, 'equal again after a resync');

# --- under load: never a difference that is none, and always the one that is
my $script = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
append_to_file($script, q{\set a random(1, 5000)
\set b random(1, 5000)
\set mode random(1, 3)
\if :mode = 1
SET synchronous_commit = off;
\else
SET synchronous_commit = on;
\endif
BEGIN;
UPDATE account SET balance = balance + 1 WHERE id = :a;
INSERT INTO history (account, delta) VALUES (:a, 1), (:b, -1);
SAVEPOINT s;
UPDATE account SET balance = balance - 1 WHERE id = :b;
COMMIT;
});
my $load = start([ 'pgbench', '-n', '-c', '4', '-R', '400', '-T', '600', '-f', $script, $pub->connstr('app') ], '>', \my $out, '2>', \my $err);
$sub->poll_query_until('app', 'SELECT count(*) > 100 FROM history') or die 'nothing arrives';
my $open = $pub->background_psql('app');
$open->query_safe("BEGIN; INSERT INTO history VALUES (7, 7)");
my @wrong;
foreach my $round (1 .. 8)
{
	$pub->safe_psql('app', "ALTER TABLE account ADD COLUMN c$round int DEFAULT $round") if $round % 4 == 0;
	$pub->safe_psql('app', "UPDATE account SET filler = 'round $round' WHERE id > 15000") if $round % 4 == 2;
	push @wrong, $sub->safe_psql('app', "SELECT object_identity, equal, differences, detail FROM schemasync_verify('app') WHERE equal IS NOT TRUE");
}
is(join('', @wrong), '', 'equal in every round while rows and DDL come');
$open->query_safe('COMMIT');
$open->quit;
$sub->safe_psql('app', 'SET session_replication_role = replica; UPDATE account SET balance = -5 WHERE id = 19999');
is($sub->safe_psql('app', "SELECT differences FROM schemasync_verify('app', 'account')"), '(id) = (19999): 1 with other values', 'the one row that differs is found');

# --- it can be stopped at any point, and the stream goes on
my $errors = '';
foreach my $timeout (1, 5, 20, 60, 150)
{
	my (undef, $after, $error) = $sub->psql('app', "SET statement_timeout = $timeout;\nSELECT schemasync_verify('app');\nRESET statement_timeout;\nSELECT 'goes on'",
		on_error_stop => 0);
	like($after, qr/goes on$/, "after $timeout ms: the session is in no transaction, and holds nothing");
	$errors .= $error;
}
like($errors, qr/canceling statement due to statement timeout/, 'statement_timeout ends it');
my $verify = start([ 'psql', '-XAtq', '-d', $sub->connstr('app'), '-c', q{SELECT bool_and(equal) FROM generate_series(1, 100000) i, LATERAL schemasync_verify(CASE WHEN i > 0 THEN 'app' END, 'history')} ],
	'>', \my $verified, '2>', \my $failed);
$sub->poll_query_until('app', q{SELECT count(*) > 0 FROM schemasync_progress WHERE operation = 'verify' AND relation = 'public.history'})
  or die 'no progress is shown';
pass('schemasync_progress shows it');
$sub->safe_psql('app', q{SELECT pg_terminate_backend(worker_pid) FROM schemasync_subscriptions WHERE name = 'app'});
$sub->safe_psql('app', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%LATERAL schemasync_verify%' AND pid <> pg_backend_pid()});
$verify->finish;
like($failed, qr/terminating connection/, 'the session was ended');
wait_applied($pub, $sub, 'app', 'app');
is($sub->safe_psql('app', 'SELECT count(*) FROM schemasync_progress'), '0', 'nothing is left of it');
$load->kill_kill;
wait_applied($pub, $sub, 'app', 'app');
$sub->safe_psql('app', "SELECT schemasync_resync('app', 'account')");
wait_applied($pub, $sub, 'app', 'app');
is($sub->safe_psql('app', "SELECT count(*) FROM schemasync_verify('app') WHERE NOT equal"), '0', 'all is equal after the load');
SchemasyncTest::compare_tables($pub, $sub, 'after the load', 'public.(account|history)', 'app');
like(error_of("SELECT schemasync_verify('app', 'pg_class')", dbname => 'app'), qr/table "pg_class" is not one of subscription "app"/, 'of its own tables only');
$sub->safe_psql('app', "SELECT schemasync_stop('app')");
like(error_of("SELECT schemasync_verify('app')", dbname => 'app'), qr/subscription "app" is disabled/, 'the stream has to run');

# --- schemasync_preflight: what would fail or surprise, before anything is made

foreach my $node ($pub, $sub)
{
	$node->safe_psql('postgres', 'CREATE DATABASE health');
	$node->safe_psql('health', 'CREATE EXTENSION schemasync');
}
my $health = $pub->connstr('health');
$health =~ s/'/''/g;
sub findings
{
	my ($conninfo, $publications) = @_;
	return $sub->safe_psql('health',
		"SELECT concat_ws('|', side, severity, \"check\", detail) FROM schemasync_preflight('$conninfo', '$publications') WHERE severity <> 'ok' OR detail IS NOT NULL");
}
$pub->safe_psql('health', 'CREATE TABLE good (id int PRIMARY KEY, v text); CREATE TABLE alone (id int); CREATE PUBLICATION good FOR TABLE good');
my $old = $pub->pg_version < 17 ? "publisher|ok|failover|it has no failover slots: the option failover would be refused\n" : '';
is(findings($health, '{good}'), $old . 'publisher|ok|unpublished_tables|1 tables are in none of the publications: public.alone', 'nothing to say of a healthy pair');
my @checks = split /\n/, $sub->safe_psql('health', "SELECT \"check\" FROM schemasync_preflight('$health', '{good}')");
my $manual = slurp_file(dirname(__FILE__) . '/../../docs/reference.md');
like($manual, qr/`$_`/, "check $_ is documented") foreach @checks;

$pub->safe_psql('health', q{
CREATE EXTENSION hstore;
CREATE EXTENSION btree_gist;
CREATE TABLE booking (room int, during int4range, extra int, EXCLUDE USING gist (room WITH =, during WITH &&));
CREATE TABLE part (room int, during int4range, extra int, EXCLUDE USING gist (room WITH =, during WITH &&));
INSERT INTO booking VALUES (1, '[1,5)', 1);
CREATE COLLATION odd (locale = 'C');
CREATE TABLE keyless (a int);
CREATE TABLE later (id int PRIMARY KEY DEFERRABLE);
CREATE TABLE computed (id int, twice int GENERATED ALWAYS AS (id * 2) STORED PRIMARY KEY);
CREATE TABLE hidden (id int PRIMARY KEY);
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.bag (id int PRIMARY KEY, h hstore, o text COLLATE odd);
CREATE TABLE wide (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE wide_1 PARTITION OF wide FOR VALUES FROM (1) TO (10);
CREATE PUBLICATION bad FOR TABLE keyless, later, computed, hidden, elsewhere.bag, wide, good, booking, part (room, extra);
CREATE PUBLICATION lists FOR TABLE good (id), later (id);
CREATE ROLE weak LOGIN;
GRANT SELECT ON hidden TO weak;
ALTER EVENT TRIGGER schemasync_capture_end DISABLE;
});
$sub->safe_psql('health', 'CREATE TABLE good (id int PRIMARY KEY, v text); INSERT INTO good VALUES (1); CREATE TABLE wide (id int PRIMARY KEY) PARTITION BY RANGE (id)');
$found = findings("$health user=weak", '{bad,worse,lists}');
foreach my $expected (
	'publisher|error|replication_role|role weak may not replicate',
	'publisher|warn|event_triggers|event trigger schemasync_capture_end is disabled',
	'publisher|error|publications|publication worse does not exist',
	'publisher|error|column_lists|the publications have different column lists for table public.good',
	'publisher|error|select_privilege|role weak may not read table public.keyless',
	'publisher|error|row_security|row security of table public.hidden hides rows from role weak',
	'publisher|warn|replica_identity|table public.keyless has no replica identity: UPDATE and DELETE will fail on the publisher',
	'publisher|warn|deferrable_key|the primary key of table public.later is deferrable',
	'publisher|warn|generated_key|column twice of the replica identity of table public.computed is generated',
	'subscriber|error|extensions|extension hstore, whose types elsewhere.bag uses, is not installed here',
	'subscriber|error|extensions|extension btree_gist, whose operator class gist_int4_ops public.booking uses, is not installed here',
	'subscriber|error|collations|collation public.odd of published columns is missing',
	'subscriber|warn|tables|table public.good is there and may have rows',
	'subscriber|warn|partitions|table public.wide is there, but not its partition public.wide_1')
{
	like($found, qr/^\Q$expected\E/m, "preflight: $expected");
}
unlike($found, qr/public\.part uses/, 'an index of a column that is not published is not made, and needs nothing');
unlike($found, qr/column lists for table public\.later/, 'a list of all columns is none');
my $create = "SELECT schemasync_create_subscription('bad', '$health', '{bad}')";
my $said = error_of($create, dbname => 'health');
(my $bare = $create) =~ s/\)$/, copy_schema => false, copy_data => false, enabled => false)/;
unlike(error_of("BEGIN; $bare; ROLLBACK", dbname => 'health'), qr/could not work/, 'what a subscription does not do does not stop it');
like($said, qr/subscription "bad" could not work.*extension hstore.*collation public\.odd.*On the subscriber: CREATE EXTENSION hstore;/s, 'errors stop the creation, all at once');
is($sub->safe_psql('health', 'SELECT count(*) FROM schemasync_subscriptions'), '0', 'nothing was made');

# a table that comes later meets no preflight: it is not ready without its constraint, and is copied when the extension is there; a wait is not held up
$sub->safe_psql('health', 'DELETE FROM good');
$sub->safe_psql('health', "SELECT schemasync_create_subscription('late', '$health', '{good}')");
$sub->safe_psql('health', "SELECT schemasync_wait('late', timeout => '60 s')");
$pub->safe_psql('health', 'ALTER EVENT TRIGGER schemasync_capture_end ENABLE ALWAYS; ALTER PUBLICATION good ADD TABLE booking');
ok($sub->poll_query_until('health', "SELECT EXISTS (SELECT FROM schemasync_errors WHERE worker = 'copy' AND resolved_at IS NULL)"), 'the copy of a table whose constraint cannot be made fails');
is($sub->safe_psql('health', "SELECT count(*) FROM schemasync_tables WHERE state = 'ready'"), '1', 'and it is not said to be ready without it');
$sub->safe_psql('health', "SELECT schemasync_wait('late', timeout => '60 s')");
$sub->safe_psql('health', 'CREATE EXTENSION btree_gist');
ok($sub->poll_query_until('health', "SELECT count(*) = 2 FROM schemasync_tables WHERE state = 'ready'"), 'with the extension the copy goes on by itself');
is($sub->safe_psql('health', 'SELECT room, during, extra FROM booking'), '1|[1,5)|1', 'with its rows');
is($sub->safe_psql('health', "SELECT count(*) FROM pg_constraint WHERE conrelid = 'booking'::regclass AND contype = 'x'"), '1', 'and its constraint');
$sub->safe_psql('health', "SELECT schemasync_drop_subscription('late')");
$pub->safe_psql('health', 'ALTER EVENT TRIGGER schemasync_capture_end DISABLE');
$sub->safe_psql('health', "CREATE EXTENSION hstore; CREATE COLLATION odd (locale = 'C'); DELETE FROM good");
(undef, undef, my $warned) = $sub->psql('health', "SELECT schemasync_create_subscription('bad', '$health', '{bad}', enabled => false)");
like($warned, qr/WARNING:  subscription "bad" may meet with surprises.*capture_end is disabled/s, 'warnings only warn');
is($sub->safe_psql('health', 'SELECT count(*) FROM schemasync_subscriptions'), '1', 'and it is made');
$sub->safe_psql('health', "SELECT schemasync_drop_subscription('bad', drop_slot => false)");
like(error_of("SET ROLE nobody; SELECT schemasync_preflight('$health', '{good}')", dbname => 'health'), qr/permission denied/,
	'who may not subscribe may not make the server connect');

done_testing();
