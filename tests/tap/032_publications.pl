# Publications that change while the subscription runs: what is taken in is copied beside the stream, what is given up is left
# alone, what is published in another way is copied afresh; all of it under load, and across ends of the workers.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair();
my $pub_dir = PostgreSQL::Test::Utils::tempdir();

# Waits until no table is on its way, and all is applied.
sub settle
{
	wait_applied($pub, $sub, 'sub');
	is($sub->safe_psql('postgres', "SELECT count(*) FROM schemasync_tables WHERE state IN ('init', 'copying', 'catchup')"), '0',
		'nothing is on its way any more');
}

sub same
{
	my ($query, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($sub->safe_psql('postgres', $query), $pub->safe_psql('postgres', $query), $what);
}

sub state_of
{
	my ($table) = @_;
	return $sub->safe_psql('postgres', "SELECT state FROM schemasync_tables WHERE publisher_relation = '$table'");
}

# all of a table, as a count and a digest
sub rows { my ($t) = @_; return "SELECT count(*), md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM $t t"; }

$pub->safe_psql('postgres', <<'SQL');
CREATE SCHEMA other;
CREATE TABLE a (id int PRIMARY KEY, v int);
CREATE TABLE b (id int PRIMARY KEY, v int, note text);
CREATE TABLE c (id int PRIMARY KEY, v int, secret text DEFAULT 's');
CREATE TABLE other.d (id int PRIMARY KEY, v int);
CREATE TABLE other.e (id int PRIMARY KEY, v int);
INSERT INTO a SELECT i, 0 FROM generate_series(1, 100) i;
INSERT INTO b SELECT i, 0, 'n' || i FROM generate_series(1, 20000) i;
INSERT INTO c SELECT i, i, 'secret ' || i FROM generate_series(1, 1000) i;
INSERT INTO other.d SELECT i, 0 FROM generate_series(1, 2000) i;
INSERT INTO other.e SELECT i, 0 FROM generate_series(1, 2000) i;
CREATE PUBLICATION pub FOR TABLE a;
CREATE PUBLICATION lists;
CREATE PUBLICATION rooted WITH (publish_via_partition_root = true);
SQL
create_subscription($pub, $sub, 'sub', publications => [ 'pub', 'lists', 'rooted' ]);

# --- a table is taken in while it is written to: by pgbench, and by a transaction that lies on both sides of the command
append_to_file("$pub_dir/load.sql", <<'SQL');
\set i random(1, 20000)
\set j random(1, 2000)
\set k random(20001, 2000000000)
BEGIN;
UPDATE a SET v = v + 1 WHERE id = :i % 100 + 1;
UPDATE b SET v = v + 1 WHERE id = :i;
DELETE FROM b WHERE id = :i % 7 + 1;
INSERT INTO b VALUES (:k, 1, 'new') ON CONFLICT (id) DO NOTHING;
UPDATE other.d SET v = v + 1 WHERE id = :j;
UPDATE other.e SET v = v + 1 WHERE id = :j;
END;
SQL
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', '3', '-T', '12', '-R', '400', '-f', "$pub_dir/load.sql", '-h', $pub->host, '-p', $pub->port, 'postgres' ],
	'>', \my $out, '2>', \my $err);
my $long = $pub->background_psql('postgres');
$long->query_safe('BEGIN; UPDATE b SET v = -1 WHERE id = 19999');
$pub->safe_psql('postgres', 'ALTER PUBLICATION pub ADD TABLE b');
$long->query_safe('UPDATE b SET v = -2 WHERE id = 19998');
$long->query_safe('COMMIT');
$long->quit;
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM schemasync_tables WHERE publisher_relation = 'public.b' AND state = 'ready'") or die;
pass('b was copied and has caught up under load');
$pub->safe_psql('postgres', 'ALTER PUBLICATION pub ADD TABLES IN SCHEMA other');
$sub->poll_query_until('postgres', "SELECT count(*) = 2 FROM schemasync_tables WHERE publisher_relation LIKE 'other.%' AND state = 'ready'") or die;
pass('so were the tables of a schema');
IPC::Run::finish($load) or die "pgbench: $err";
settle();
compare($pub, $sub, 'taken in under load', '^(public\.[ab]|other\.)');
is($sub->safe_psql('postgres', "SELECT count(*) FROM schemasync_conflicts"), '0', 'no row came twice or was missing');

# --- held up in the middle: the stream of the others goes on, the copy is ended, begins again
my $holder = $sub->background_psql('postgres');
$sub->safe_psql('postgres', 'CREATE TABLE c (id int PRIMARY KEY, v int, secret text); INSERT INTO c VALUES (0, 0, $$local$$)');
$holder->query_safe('BEGIN; LOCK TABLE c IN SHARE MODE');
$pub->safe_psql('postgres', 'ALTER PUBLICATION lists ADD TABLE c (id, v) WHERE (id <= 500)');
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM schemasync_tables WHERE state = 'copying'") or die 'the copy of c did not begin';
$pub->safe_psql('postgres', 'UPDATE a SET v = -7 WHERE id = 7; UPDATE c SET v = -1 WHERE id < 10; INSERT INTO c VALUES (-1, -1)');
ok($sub->poll_query_until('postgres', 'SELECT v = -7 FROM a WHERE id = 7'), 'the others go on while a copy is held up');
is($sub->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'schemasync copy sub'"), '1', 'by a worker of its own');
is($sub->safe_psql('postgres', "SELECT phase FROM schemasync_progress WHERE relation = 'public.c'"), 'copying', 'shown as progress');
$sub->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'schemasync copy sub'");
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM schemasync_tables WHERE state = 'copying' AND publisher_relation = 'public.c'") or die;
$sub->safe_psql('postgres', "SELECT pg_terminate_backend(worker_pid) FROM schemasync_subscriptions");
$pub->safe_psql('postgres', 'UPDATE c SET v = -2 WHERE id = 11; UPDATE a SET v = -8 WHERE id = 8');
ok($sub->poll_query_until('postgres', 'SELECT v = -8 FROM a WHERE id = 8'), 'and after the apply worker was ended, too');
$holder->query_safe('COMMIT');
settle();
is($sub->safe_psql('postgres', 'SELECT count(*), sum(v) FROM c WHERE id <> 0'), $pub->safe_psql('postgres', 'SELECT count(*), sum(v) FROM c WHERE id <= 500'),
	'c is there, as its filter says');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM c WHERE secret IS NOT NULL'), '1', 'and its column list; what was here stays');

# --- filter and column list changed: copied afresh
$pub->safe_psql('postgres', 'ALTER PUBLICATION lists SET TABLE c (id, v) WHERE (id > 400 OR id < 0)');
settle();
same('SELECT count(*), sum(v), min(id), max(id) FROM c WHERE id > 400 OR id < 0', 'another filter: the rows that it lets through');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM c WHERE id BETWEEN 0 AND 400'), '0', '... and no others');

$pub->safe_psql('postgres', 'ALTER PUBLICATION lists SET TABLE c; INSERT INTO c VALUES (5000, 1, $$seen$$)');
settle();
same(rows('c'), 'without list and filter: all values came');
$pub->safe_psql('postgres', 'ALTER PUBLICATION lists SET TABLE c (id, v); UPDATE c SET v = -3 WHERE id = 30; UPDATE c SET secret = $$unseen$$ WHERE id = 31');
settle();
same('SELECT count(*), sum(v) FROM c', 'a shorter list: the rows are followed');
is($sub->safe_psql('postgres', 'SELECT secret FROM c WHERE id = 31'), 'secret 31', '... the column is left as it was');

# --- given up and taken in again
$pub->safe_psql('postgres', 'ALTER PUBLICATION pub DROP TABLE b; UPDATE b SET v = 77 WHERE id = 19997');
settle();
is(state_of('public.b'), 'removed', 'a table that is no longer published is shown as removed');
is($sub->safe_psql('postgres', 'SELECT v = 77 FROM b WHERE id = 19997'), 'f', '... and left alone');
$pub->safe_psql('postgres', 'ALTER TABLE b ADD fresh int DEFAULT 3; ALTER PUBLICATION pub ADD TABLE b; DELETE FROM b WHERE id < 5000');
settle();
is(state_of('public.b'), 'ready', 'taken in again');
compare($pub, $sub, 'taken in again', '^public\.b');
$pub->safe_psql('postgres', 'ALTER PUBLICATION pub DROP TABLES IN SCHEMA other; ALTER TABLE other.d ADD gone int');
settle();
is(state_of('other.d') . state_of('other.e'), 'removedremoved', 'a schema that is no longer published');

# --- in one transaction with its making, with rows before and after; an FK to it follows at once
$pub->safe_psql('postgres', <<'SQL');
BEGIN;
CREATE TABLE f (id int PRIMARY KEY, v text);
INSERT INTO f SELECT i, 'before' FROM generate_series(1, 50) i;
ALTER PUBLICATION pub ADD TABLE f;
INSERT INTO f SELECT i, 'after' FROM generate_series(51, 100) i;
ALTER TABLE a ADD f int REFERENCES f;
UPDATE a SET f = id WHERE id <= 100;
COMMIT;
INSERT INTO f VALUES (101, 'later'); INSERT INTO a VALUES (101, 1, 101);
SQL
settle();
compare($pub, $sub, 'made, filled, published and referred to in one transaction', '^public\.[af]$');

# --- a partition with rows is attached
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
INSERT INTO p SELECT i, 0 FROM generate_series(1, 50) i;
CREATE TABLE p2 (id int PRIMARY KEY, v int);
INSERT INTO p2 SELECT i, 0 FROM generate_series(100, 150) i;
ALTER PUBLICATION pub ADD TABLE p;
SQL
settle();
compare($pub, $sub, 'a partitioned table is taken in', '^public\.p1?$');
$pub->safe_psql('postgres', 'ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100) TO (200); INSERT INTO p VALUES (160, 1); UPDATE p SET v = 5 WHERE id IN (10, 110)');
settle();
compare($pub, $sub, 'a partition with rows is attached', '^public\.p');

# --- the same where the rows travel as the root's
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE r (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (100);
CREATE TABLE r2 (id int PRIMARY KEY, v int);
INSERT INTO r SELECT i, 0 FROM generate_series(1, 50) i; INSERT INTO r2 SELECT i, 0 FROM generate_series(100, 150) i;
ALTER PUBLICATION rooted ADD TABLE r;
SQL
settle();
$pub->safe_psql('postgres', 'ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (100) TO (200); INSERT INTO r VALUES (160, 1); UPDATE r SET v = 5 WHERE id IN (10, 110);'
	. ' CREATE TABLE r3 PARTITION OF r FOR VALUES FROM (200) TO (300); INSERT INTO r VALUES (210, 1)');
settle();
compare($pub, $sub, 'a partition with rows is attached to a root that is published as a whole', '^public\.r');

# --- resync: copied afresh with what depends on it kept; a failure leaves what was there
$sub->safe_psql('postgres', 'CREATE VIEW on_b AS SELECT count(*) FROM b; DELETE FROM b WHERE id < 19000; INSERT INTO b VALUES (3, 3, $$stray$$, 3);'
	  . ' ALTER TABLE b ADD CONSTRAINT early CHECK (id <> 19500) NOT VALID');
my $before = $sub->safe_psql('postgres', rows('b'));
$sub->safe_psql('postgres', "SELECT schemasync_resync('sub', 'b')");
$sub->poll_query_until('postgres', "SELECT count(*) > 0 FROM schemasync_errors WHERE worker = 'copy' AND message LIKE '%early%' AND resolved_at IS NULL") or die 'no error';
is($sub->safe_psql('postgres', rows('b')), $before, 'a resync that fails leaves the rows as they were');
is($sub->safe_psql('postgres', "SELECT state FROM schemasync_subscriptions"), 'streaming', '... and the subscription streaming');
$pub->safe_psql('postgres', 'UPDATE a SET v = -9 WHERE id = 9; UPDATE b SET v = 9 WHERE id = 19999');
ok($sub->poll_query_until('postgres', 'SELECT v = -9 FROM a WHERE id = 9'), '... which the other tables show');
$sub->safe_psql('postgres', 'ALTER TABLE b DROP CONSTRAINT early');
$sub->poll_query_until('postgres', "SELECT state = 'ready' FROM schemasync_tables WHERE relation = 'public.b'") or die 'b was not copied';
settle();
same(rows('b'), 'after the repair the copy is made');
is($sub->safe_psql('postgres', 'SELECT count FROM on_b'), $pub->safe_psql('postgres', 'SELECT count(*) FROM b'), 'and the view on it is still there');
is($sub->safe_psql('postgres', "SELECT count(*) FROM schemasync_errors WHERE worker = 'copy' AND resolved_at IS NULL"), '0', 'the error is resolved');

# --- resync: in its midst readers see all the old rows, writers of other tables and keys go on, and the end of the server leaves what was there
$pub->safe_psql('postgres', 'INSERT INTO b SELECT i FROM unnest(ARRAY[1, 2, 15000]) i ON CONFLICT DO NOTHING');
settle();
$sub->safe_psql('postgres', q{CREATE TABLE here_only (b int REFERENCES b ON DELETE CASCADE); INSERT INTO here_only VALUES (1), (2); CREATE ROLE reader; GRANT SELECT ON b TO reader;
	INSERT INTO b VALUES (-5, 5, 'stray', 5); CREATE TABLE gate (fails bool); INSERT INTO gate VALUES (false); GRANT SELECT ON gate TO PUBLIC;
	CREATE FUNCTION passes(id int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN IF id = 15000 THEN
		IF (SELECT fails FROM public.gate) THEN RAISE 'the gate is shut'; END IF;
		PERFORM pg_catalog.pg_advisory_xact_lock_shared(7); END IF; RETURN true; END $$;
	ALTER TABLE b ADD CONSTRAINT gate CHECK (passes(id)) NOT VALID});
my $stale = $sub->safe_psql('postgres', rows('b'));
my $keeper = $sub->background_psql('postgres', on_error_die => 1);
$keeper->query_safe('SELECT pg_advisory_lock(7)');
$sub->safe_psql('postgres', "SELECT schemasync_resync('sub', 'b')");
$sub->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") or die 'the copy does not come to the gate';
is($sub->safe_psql('postgres', 'SET lock_timeout = 1000; ' . rows('b')), $stale, 'readers see the old rows, all of them');
$sub->safe_psql('postgres', 'SET lock_timeout = 1000; INSERT INTO b (id, v) VALUES (-1, 0); DELETE FROM b WHERE id = -1');
$pub->safe_psql('postgres', 'UPDATE a SET v = -10 WHERE id = 10');
ok($sub->poll_query_until('postgres', 'SELECT v = -10 FROM a WHERE id = 10'), 'the stream goes on');
$sub->safe_psql('postgres', 'UPDATE gate SET fails = true');
$sub->stop('immediate');
$sub->start;
$sub->poll_query_until('postgres', "SELECT count(*) > 0 FROM schemasync_errors WHERE worker = 'copy' AND message LIKE '%gate is shut%'") or die 'the copy is not tried again';
is($sub->safe_psql('postgres', rows('b')), $stale, 'the end of the server, and a second attempt that fails, leave the old rows');
$sub->safe_psql('postgres', 'UPDATE gate SET fails = false');
$sub->poll_query_until('postgres', "SELECT state = 'ready' FROM schemasync_tables WHERE relation = 'public.b'") or die 'b was not copied';
settle();
same(rows('b'), 'the copy is made');
is($sub->safe_psql('postgres', q{SELECT count(*), has_table_privilege('reader', 'b', 'SELECT'), (SELECT count FROM on_b) = (SELECT count(*) FROM b) FROM here_only}), '2|t|t',
	'rows that refer to the table by ON DELETE CASCADE are there, as are grants and views');
$sub->safe_psql('postgres', 'ALTER TABLE b DROP CONSTRAINT gate; DROP TABLE here_only, gate; DROP FUNCTION passes');

# --- resync: what the stream passed over meanwhile is caught up with, whenever the worker stored something in between
$pub->safe_psql('postgres', 'CREATE TABLE small (id int PRIMARY KEY, v int); INSERT INTO small VALUES (1, 0); ALTER PUBLICATION pub ADD TABLE small');
settle();
my $waiter = $sub->background_psql('postgres', on_error_die => 1);
$waiter->query_safe('BEGIN; LOCK TABLE small IN SHARE ROW EXCLUSIVE MODE');
$sub->safe_psql('postgres', "SELECT schemasync_resync('sub', 'small')");
$sub->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'small'::regclass AND NOT granted") or die 'the copy does not wait';
foreach my $v (1 .. 3)
{
	my $counted = $sub->safe_psql('postgres', 'SELECT applied_transactions FROM schemasync.subscription');
	$pub->safe_psql('postgres', "UPDATE small SET v = $v");
	# (what else the worker stores takes the origin along)
	$sub->poll_query_until('postgres', "SELECT applied_transactions > $counted FROM schemasync.subscription") or die 'nothing is counted' if $v < 3;
}
my $passed = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
$sub->poll_query_until('postgres', "SELECT applied_lsn >= '$passed' FROM schemasync_subscriptions") or die 'the stream does not go on';
$waiter->query_safe('COMMIT');
$waiter->quit;
$sub->poll_query_until('postgres', "SELECT state = 'ready' FROM schemasync_tables WHERE relation = 'public.small'") or die 'small was not copied';
settle();
same(rows('small'), 'nothing is lost that came while the copy waited');

# --- resync: what became of the columns before the copy is no question of its rows
$pub->safe_psql('postgres', 'ALTER TABLE small ADD x int DEFAULT 1');
settle();
$sub->safe_psql('postgres', "SELECT schemasync_stop('sub'); SELECT schemasync_resync('sub', 'small')");
$pub->safe_psql('postgres', 'ALTER TABLE small DROP COLUMN x; ALTER TABLE small ADD y int DEFAULT 2');
$sub->safe_psql('postgres', "SELECT schemasync_start('sub')");
$sub->poll_query_until('postgres', "SELECT state = 'ready' FROM schemasync_tables WHERE relation = 'public.small'") or die 'small was not copied';
settle();
compare($pub, $sub, 'a column went and another came before the copy', '^public\.small');

# --- auto_refresh off: shown, and copied when asked
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', options => '{"auto_refresh": false}')});
$pub->safe_psql('postgres', 'CREATE TABLE g (id int PRIMARY KEY); INSERT INTO g VALUES (1); ALTER PUBLICATION pub ADD TABLE g; INSERT INTO g VALUES (2)');
wait_applied($pub, $sub, 'sub');
is(state_of('public.g'), 'needs_refresh', 'without auto_refresh a new table waits');
like($sub->safe_psql('postgres', "SELECT detail FROM schemasync_ddl_history WHERE operation = 'publish_table' ORDER BY history_id DESC LIMIT 1"),
	qr/schemasync_refresh/, '... and the history says for what');
$sub->safe_psql('postgres', "SELECT schemasync_refresh('sub')");
settle();
compare($pub, $sub, 'refreshed', '^public\.g');

# --- a list of all columns is no list for the publisher: the first row after the copy asks for no other copy
$pub->safe_psql('postgres', q{CREATE SCHEMA listed; CREATE TABLE listed.p (k int, v text) PARTITION BY LIST (k);
	CREATE TABLE listed.p1 PARTITION OF listed.p FOR VALUES IN (1); CREATE TABLE listed.p2 PARTITION OF listed.p FOR VALUES IN (2);
	CREATE TABLE listed.t (id int PRIMARY KEY, v text);
	INSERT INTO listed.p VALUES (1, 'a'); INSERT INTO listed.t VALUES (1, 'a');
	CREATE PUBLICATION listed FOR TABLE listed.p (v, k), listed.t (id, v) WITH (publish_via_partition_root)});
create_subscription($pub, $sub, 'listed', publications => ['listed'], args => q(options => '{"auto_refresh": false}'));
$pub->safe_psql('postgres', q{INSERT INTO listed.p VALUES (1, 'b'), (2, 'c'); INSERT INTO listed.t VALUES (2, 'b')});
wait_applied($pub, $sub, 'listed');
is($sub->safe_psql('postgres', "SELECT string_agg(DISTINCT state, ' ') FROM schemasync_tables WHERE publisher_relation LIKE 'listed.%'"), 'ready', 'all columns listed: followed');
same(rows($_), "$_ has its rows") for qw(listed.p listed.t);
$pub->safe_psql('postgres', q{ALTER TABLE listed.t ADD u int DEFAULT 7; INSERT INTO listed.t VALUES (3, 'c', 8)});
wait_applied($pub, $sub, 'listed');
is(state_of('listed.t'), 'ready', 'a column that the list does not have is none of the subscription');
$pub->safe_psql('postgres', q{ALTER TABLE listed.t DROP u; INSERT INTO listed.t VALUES (4, 'd')});
wait_applied($pub, $sub, 'listed');
is(state_of('listed.t'), 'ready', '... and neither is its end');
same(rows('listed.t'), 'listed.t has its rows still');
$pub->safe_psql('postgres', q{ALTER TABLE listed.t ADD u int DEFAULT 7; ALTER PUBLICATION listed SET TABLE listed.p, listed.t});
wait_applied($pub, $sub, 'listed');
is(state_of('listed.t'), 'needs_refresh', 'without a list there is one column more: copied when asked');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('listed')");

# --- a partition by itself, of a root that is given up: with its bound where the list shows the key, as a table of its own where not
$pub->safe_psql('postgres', q{CREATE SCHEMA parted; CREATE TABLE parted.p (id int, k int, v int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
	CREATE TABLE parted.p1 PARTITION OF parted.p FOR VALUES IN (1); CREATE TABLE parted.p2 PARTITION OF parted.p FOR VALUES IN (2);
	INSERT INTO parted.p SELECT i, i % 2 + 1, i FROM generate_series(1, 20) i; CREATE PUBLICATION parted FOR TABLE parted.p;
	CREATE PUBLICATION keyless WITH (publish = insert)});
create_subscription($pub, $sub, 'parted', publications => [ 'parted', 'keyless' ]);
sub settle_parted
{
	$sub->poll_query_until('postgres', "SELECT count(*) = 0 FROM schemasync_tables WHERE subscription = 'parted' AND state NOT IN ('ready', 'removed')") or die;
	wait_applied($pub, $sub, 'parted');
}
$pub->safe_psql('postgres', 'ALTER PUBLICATION parted DROP TABLE parted.p; ALTER PUBLICATION parted ADD TABLE parted.p1 (id, k)');
wait_applied($pub, $sub, 'parted');
settle_parted();
$pub->safe_psql('postgres', 'INSERT INTO parted.p VALUES (30, 1, 30), (31, 2, 31); UPDATE parted.p SET id = id + 100 WHERE id = 4');
settle_parted();
same('SELECT id, k FROM parted.p1 ORDER BY 1', 'a partition of a root that is not published any more');
is($sub->safe_psql('postgres', "SELECT count(*) FROM pg_inherits WHERE inhparent = 'parted.p'::regclass"), '2', '... stays where it is');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('parted'); DROP TABLE parted.p");
$pub->safe_psql('postgres', 'ALTER PUBLICATION parted DROP TABLE parted.p1; ALTER PUBLICATION keyless ADD TABLE parted.p2 (v)');
create_subscription($pub, $sub, 'parted', publications => [ 'parted', 'keyless' ]);
$pub->safe_psql('postgres', 'INSERT INTO parted.p VALUES (40, 2, 40)');
settle_parted();
is($sub->safe_psql('postgres', "SELECT string_agg(attname, ' ') FROM pg_attribute WHERE attrelid = 'parted.p2'::regclass AND attnum > 0"), 'v', 'a table of its own');
same('SELECT v FROM parted.p2 ORDER BY 1', '... with its rows');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('parted')");

# --- a filter has no effect beside the table's whole schema, neither in the copy nor in the stream
$pub->safe_psql('postgres', q{CREATE SCHEMA whole; CREATE TABLE whole.f (id int PRIMARY KEY); INSERT INTO whole.f SELECT generate_series(1, 20);
	CREATE PUBLICATION whole FOR TABLES IN SCHEMA whole, TABLE whole.f WHERE (id > 10); CREATE PUBLICATION part FOR TABLE whole.f WHERE (id > 15)});
create_subscription($pub, $sub, 'whole', publications => [ 'part', 'whole' ]);
$pub->safe_psql('postgres', 'INSERT INTO whole.f VALUES (0), (21)');
wait_applied($pub, $sub, 'whole');
compare($pub, $sub, 'all rows of a table whose schema is published', '^whole\.f');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('whole')");

# --- schema_changes = ignore: what is made by hand on both sides gets its values
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', schema_changes => 'ignore'); ALTER TABLE g ADD n int});
$pub->safe_psql('postgres', 'ALTER TABLE g ADD n int; INSERT INTO g VALUES (3, 33); ALTER TABLE g ADD o int; INSERT INTO g VALUES (4, 44, 5)');
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT * FROM g ORDER BY 1'), "1|\n2|\n3|33\n4|44", 'a column that was made by hand has its values, one that was not is left out');
$pub->safe_psql('postgres', 'ALTER TABLE g DROP COLUMN o');
# ... and a table that is made by hand later is taken up by schemasync_refresh()
$pub->safe_psql('postgres', 'CREATE TABLE byhand (id int PRIMARY KEY); INSERT INTO byhand VALUES (1); ALTER PUBLICATION pub ADD TABLE byhand; CREATE TABLE other.byhand (id int PRIMARY KEY);
	ALTER PUBLICATION pub ADD TABLES IN SCHEMA other; CREATE TABLE other.late (id int PRIMARY KEY); INSERT INTO other.late VALUES (1)');
wait_applied($pub, $sub, 'sub');
is(state_of($_), 'needs_refresh', "$_ is not here: shown") for qw(public.byhand other.late);
$sub->safe_psql('postgres', 'CREATE TABLE byhand (id int PRIMARY KEY); CREATE TABLE other.late (id int PRIMARY KEY); CREATE TABLE other.byhand (id int PRIMARY KEY)');
$pub->safe_psql('postgres', 'INSERT INTO byhand VALUES (2); INSERT INTO other.late VALUES (2)');
wait_applied($pub, $sub, 'sub');
$sub->safe_psql('postgres', "SELECT schemasync_refresh('sub')");
settle();
same(rows($_), "$_ is copied when asked") for qw(byhand other.late);
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', schema_changes => 'forward')});

# --- nothing is held back at the end
$sub->poll_query_until('postgres', 'SELECT confirmed_lsn = received_lsn FROM schemasync_subscriptions') or die 'the publisher was not told';
is($pub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '1', 'no slot but the subscription\'s');
is($sub->safe_psql('postgres', "SELECT count(*) FROM schemasync_conflicts"), '0', 'no conflict in all this');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM schemasync_refusals'), '0', 'no refusal in all this');

# --- a root that stands for its partitions, made by hand here in another layout
foreach my $node ($pub, $sub)
{
	$node->safe_psql('postgres', 'CREATE DATABASE via');
	$node->safe_psql('via', q{CREATE EXTENSION schemasync; CREATE TABLE tp (k int, v text, PRIMARY KEY (k)) PARTITION BY LIST (k);
		CREATE TABLE tp1 PARTITION OF tp FOR VALUES IN (1, 11, 21)});
}
$pub->safe_psql('via', q{CREATE TABLE tp2 PARTITION OF tp FOR VALUES IN (2, 12, 22); INSERT INTO tp VALUES (1, 'a'), (2, 'b');
	CREATE PUBLICATION pub FOR TABLE tp WHERE (k < 20) WITH (publish_via_partition_root)});
$sub->safe_psql('via', q{CREATE TABLE others PARTITION OF tp DEFAULT; CREATE TABLE tp2 (quite text, another int)});
create_subscription($pub, $sub, 'via', dbname => 'via', args => 'copy_schema => false');
my $tables = q{SELECT string_agg(publisher_relation || ' ' || coalesce(relation, '-') || ' ' || state, ', ' ORDER BY publisher_relation) FROM schemasync_tables};
foreach my $sql (q{INSERT INTO tp VALUES (11, 'c'), (12, 'd'), (21, 'not sent'), (22, 'not sent')}, q{ALTER TABLE tp ADD n int DEFAULT 7; UPDATE tp SET v = 'e' WHERE k IN (1, 2)},
	q{ALTER TABLE tp ALTER v SET DEFAULT 'x'; DELETE FROM tp WHERE k IN (11, 12)})
{
	$pub->safe_psql('via', $sql);
	wait_applied($pub, $sub, 'via', 'via');
	is($sub->safe_psql('via', 'SELECT * FROM tp ORDER BY k'), $pub->safe_psql('via', 'SELECT * FROM tp WHERE k < 20 ORDER BY k'), "via the root: $sql");
}
is($sub->safe_psql('via', $tables), 'public.tp public.tp ready, public.tp1 public.tp1 ready, public.tp2 - ready', 'nothing is copied again');
is($sub->safe_psql('via', q{SELECT DISTINCT verdict FROM schemasync_ddl_history WHERE object_identity = 'public.tp2'}), 'ignore',
	'that a partition is not here is in the history');
is($sub->safe_psql('via', q{SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'tp2'::regclass AND attnum > 0}), 'quite another',
	'what has its name is left alone');
$sub->safe_psql('via', q{SELECT schemasync_alter_subscription('via', schema_changes => 'ignore')});
$pub->safe_psql('via', 'CREATE TABLE tp3 PARTITION OF tp FOR VALUES IN (3, 13); INSERT INTO tp VALUES (3), (13)');
wait_applied($pub, $sub, 'via', 'via');
$sub->safe_psql('via', q{SELECT schemasync_refresh('via')});
wait_applied($pub, $sub, 'via', 'via');
is($sub->safe_psql('via', 'SELECT * FROM tp ORDER BY k'), $pub->safe_psql('via', 'SELECT * FROM tp WHERE k < 20 ORDER BY k'), 'a partition that is not made here: its rows are those of the root');
like($sub->safe_psql('via', $tables), qr/public\.tp3 - ready$/, '... and nothing waits for it');

done_testing();
