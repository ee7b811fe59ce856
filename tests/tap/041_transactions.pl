# Transactions: groups of small ones, streamed ones with rolled back savepoints, prepared ones; which of a group is named when it fails,
# skipping one, conflicts, and waits that are longer than the publisher's patience.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair(conf => "logical_decoding_work_mem = '64kB'\nwal_sender_timeout = '2s'\n");

sub same
{
	my ($table, $what) = @_;
	my $query = "SELECT string_agg(r, E'\\n' ORDER BY r) FROM (SELECT t::text r FROM $table t) x";
	wait_applied($pub, $sub, 'sub');
	is($sub->safe_psql('postgres', $query), $pub->safe_psql('postgres', $query), $what);
	return;
}

sub open_error
{
	my ($columns) = @_;
	$sub->poll_query_until('postgres', q{SELECT count(*) = 1 FROM schemasync_errors WHERE resolved_at IS NULL}) or die 'no error came';
	return $sub->safe_psql('postgres', "SELECT $columns FROM schemasync_errors WHERE resolved_at IS NULL");
}

$pub->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v text, u int UNIQUE);
	CREATE TABLE other (id int PRIMARY KEY, v text);
	CREATE TABLE moves (id int PRIMARY KEY, v text);
	INSERT INTO moves VALUES (1, 'r'), (2, 'r');
	CREATE PUBLICATION pub FOR ALL TABLES;
});
$sub->safe_psql('postgres', 'CREATE TABLE moves (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);'
	. ' CREATE TABLE moves_1 PARTITION OF moves FOR VALUES FROM (0) TO (100); CREATE TABLE moves_2 PARTITION OF moves FOR VALUES FROM (100) TO (200)');
create_subscription($pub, $sub, 'sub', args => "options => '{\"two_phase\": true, \"group_commit_delay\": 200}'");

# --- streamed

$pub->safe_psql('postgres', q{
	BEGIN;
	INSERT INTO t (id, v) SELECT g, repeat('a', 100) FROM generate_series(1, 3000) g;
	SAVEPOINT a; UPDATE t SET v = 'gone'; SAVEPOINT b; DELETE FROM t WHERE id < 500; RELEASE b; ROLLBACK TO a;
	INSERT INTO t (id, v) SELECT g, repeat('b', 100) FROM generate_series(4001, 5000) g;
	SAVEPOINT c; UPDATE t SET v = 'kept' WHERE id % 3 = 0; SAVEPOINT d; DELETE FROM t WHERE id % 5 = 0; RELEASE d; RELEASE c;
	SAVEPOINT e; TRUNCATE t; ROLLBACK TO e;
	COMMIT;
});
same('t', 'a streamed transaction with savepoints kept and rolled back');
$pub->safe_psql('postgres', q{BEGIN; INSERT INTO t (id, v) SELECT g, repeat('z', 100) FROM generate_series(10001, 13000) g; ROLLBACK});
same('t', 'a streamed transaction that is rolled back');
{
	my @sessions = map { $pub->background_psql('postgres', on_error_stop => 1) } 1 .. 2;
	$sessions[$_]->query_safe('BEGIN') foreach 0 .. 1;
	foreach my $round (1 .. 4)
	{
		foreach my $n (0 .. 1)
		{
			my $first = 20000 + 10000 * $n + 1000 * $round;
			$sessions[$n]->query_safe("INSERT INTO t (id, v) SELECT g, repeat('s', 100) FROM generate_series($first, $first + 900) g");
		}
	}
	$sessions[1]->query_safe('COMMIT');
	$sessions[0]->query_safe('COMMIT');
	$_->quit foreach @sessions;
}
same('t', 'two streamed transactions side by side');
$pub->safe_psql('postgres', q{
	BEGIN;
	INSERT INTO t (id, v) SELECT g, repeat('m', 100) FROM generate_series(50001, 52000) g;
	ALTER TABLE t ADD COLUMN added int DEFAULT 5;
	INSERT INTO t (id, v, added) SELECT g, repeat('n', 100), g FROM generate_series(52001, 54000) g;
	COMMIT;
});
same('t', 'a schema change within a streamed transaction');

# --- prepared

$pub->safe_psql('postgres', q{
	BEGIN; INSERT INTO other VALUES (1, 'prepared'); PREPARE TRANSACTION 'one';
	BEGIN; INSERT INTO other VALUES (2, 'rolled back'); PREPARE TRANSACTION 'two';
	BEGIN; INSERT INTO other SELECT g, repeat('p', 100) FROM generate_series(100, 3000) g; PREPARE TRANSACTION 'big';
});
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '3', 'prepared here too');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM other'), '0', 'and not visible');
$sub->restart;
$pub->safe_psql('postgres', "COMMIT PREPARED 'one'");
$pub->safe_psql('postgres', "ROLLBACK PREPARED 'two'");
$pub->safe_psql('postgres', "COMMIT PREPARED 'big'");
same('other', 'decided after a restart');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '0', 'none is left');

# --- a prepared transaction and the next ones touch the same schema and types, which neither changes

$pub->safe_psql('postgres', q{
	CREATE SCHEMA s; CREATE TYPE e AS ENUM ('a', 'b');
	BEGIN; CREATE TYPE mine AS ENUM ('a'); CREATE TABLE in_public (id int PRIMARY KEY, m mine); CREATE TABLE s.one (id int PRIMARY KEY, e e);
	INSERT INTO s.one VALUES (1, 'a'); PREPARE TRANSACTION 'shares';
	CREATE TYPE yours AS ENUM ('x'); CREATE TABLE s.two (id int PRIMARY KEY, e e, y yours); INSERT INTO s.two VALUES (1, 'b', 'x');
	ALTER TABLE other ADD COLUMN e e;
});
same('s.two', 'what follows a prepared transaction does not wait for it');
is($sub->safe_psql('postgres', q{SELECT count(*) FROM pg_prepared_xacts}), '1', 'which is still open');
$pub->safe_psql('postgres', $_) foreach "COMMIT PREPARED 'shares'", 'ALTER SCHEMA s RENAME TO s2', "ALTER TYPE e ADD VALUE 'c'", "INSERT INTO s2.one VALUES (2, 'c')",
	"ALTER TABLE other DROP COLUMN e";
same('s2.one', 'and the schema and the type are known afterwards');

# --- a type that only a prepared transaction names, made by hand on both sides, and a label that the state before a row tells of

$_->safe_psql('postgres', 'CREATE DATABASE hand') foreach $pub, $sub;
$_->safe_psql('hand', q{CREATE EXTENSION schemasync; CREATE SCHEMA types; CREATE TYPE types.mood AS ENUM ('b', 'd'); CREATE TYPE types.late AS ENUM ('b')})
  foreach $pub, $sub;
$pub->safe_psql('hand', 'CREATE PUBLICATION pub FOR TABLES IN SCHEMA public');
create_subscription($pub, $sub, 'hand', dbname => 'hand', args => q{options => '{"two_phase": true}'});
$pub->safe_psql('hand', q{BEGIN; CREATE TABLE t (id int PRIMARY KEY, m types.mood, l types.late); INSERT INTO t VALUES (1, 'b', 'b'); PREPARE TRANSACTION 'names'});
wait_applied($pub, $sub, 'hand', 'hand');
$pub->safe_psql('hand', $_) foreach q{ALTER TYPE types.late ADD VALUE 'c'}, q{ALTER TYPE types.late ADD VALUE 'a' BEFORE 'b'}, q{ALTER TYPE types.late ADD VALUE 'd'},
	"COMMIT PREPARED 'names'", q{ALTER TYPE types.mood ADD VALUE 'c' BEFORE 'd'};
wait_applied($pub, $sub, 'hand', 'hand');
is($sub->safe_psql('hand', 'SELECT enum_range(NULL::types.mood)'), '{b,c,d}', 'it is known when it gets a label');
$pub->safe_psql('hand', q{INSERT INTO t VALUES (2, 'c', 'a'), (3, 'd', 'c')});
wait_applied($pub, $sub, 'hand', 'hand');
compare($pub, $sub, 'labels that come in the transaction of the rows that have them', '^public\.', 'hand');
is($sub->safe_psql('hand', 'SELECT enum_range(NULL::types.late), (SELECT count(*) FROM schemasync_errors), (SELECT count(*) FROM schemasync_refusals)'), '{a,b,c,d}|0|0',
	'... in their order, and without a failure');
# ... and where it is a default that has it
$pub->safe_psql('hand', $_) foreach 'DROP TABLE t', q{ALTER TYPE types.late ADD VALUE 'e'}, q{CREATE TABLE t2 (id int PRIMARY KEY, m types.late DEFAULT 'e')}, 'INSERT INTO t2 VALUES (1)';
wait_applied($pub, $sub, 'hand', 'hand');
compare($pub, $sub, 'a label that a default has', '^public\.', 'hand');
$sub->safe_psql('hand', q{SELECT schemasync_drop_subscription('hand')});

# --- one that meets another only here: by a trigger's row, then by a lock. The wait for itself is an error that says what it is.

$sub->safe_psql('postgres', q{
	CREATE TABLE counted (n int); INSERT INTO counted VALUES (0);
	CREATE FUNCTION count_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE public.counted SET n = n + 1; RETURN new; END';
	CREATE TRIGGER count AFTER INSERT ON moves FOR EACH ROW EXECUTE FUNCTION count_row();
	ALTER TABLE moves ENABLE ALWAYS TRIGGER count;
	CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM FROM public.in_public; RETURN new; END';
	CREATE TRIGGER look AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION look();
	ALTER TABLE other ENABLE ALWAYS TRIGGER look;
});
foreach my $case ([ 'a row', "INSERT INTO moves VALUES (50, 'p')", "INSERT INTO moves VALUES (51, 'q')", 'moves', "ROLLBACK PREPARED 'meets'" ],
	[ 'a lock', 'ALTER TABLE in_public ADD COLUMN n int', "INSERT INTO other VALUES (9000, 'looks')", 'other', "COMMIT PREPARED 'meets'" ])
{
	my ($what, $first, $second, $table, $end) = @$case;
	$pub->safe_psql('postgres', "BEGIN; $first; PREPARE TRANSACTION 'meets'");
	wait_applied($pub, $sub, 'sub');
	$sub->restart if $what eq 'a row';
	$pub->safe_psql('postgres', "$second; $end");
	my $gid = $sub->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
	is(open_error('sqlstate, message, relation'), "55006|the change waits for transaction \"$gid\", which this subscription has prepared|public.$table",
		"$what: it is named");
	$sub->safe_psql('postgres', $end =~ s/'meets'/'$gid'/r);
	if ($end =~ /COMMIT/)
	{
		# it is not passed over by itself: it could have been rolled back
		$sub->poll_query_until('postgres', q{SELECT count(*) = 1 FROM schemasync_errors WHERE resolved_at IS NULL AND command = 'COMMIT PREPARED' AND sqlstate = '42704'}) or die;
		$sub->safe_psql('postgres', q{SELECT schemasync_skip(subscription, publisher_lsn) FROM schemasync_errors WHERE resolved_at IS NULL AND command = 'COMMIT PREPARED'});
	}
	same($table, "$what: ended by hand, the stream goes on");
	$sub->poll_query_until('postgres', q{SELECT count(*) = 0 FROM schemasync_errors WHERE resolved_at IS NULL}) or die;
}
is($pub->safe_psql('postgres', 'SELECT n FROM in_public'), $sub->safe_psql('postgres', 'SELECT n FROM in_public'), 'what was committed by hand is there');
$sub->safe_psql('postgres', 'DROP TRIGGER count ON moves; DROP TRIGGER look ON other');
$pub->safe_psql('postgres', 'DELETE FROM moves WHERE id = 51');

# --- one that is skipped where it is prepared does not hold the subscription's row
$sub->safe_psql('postgres', "INSERT INTO other VALUES (9100, 'local')");
$pub->safe_psql('postgres', "BEGIN; INSERT INTO other VALUES (9100, 'skipped'); PREPARE TRANSACTION 'skipped'");
is(open_error('sqlstate'), '23505', 'a transaction that cannot be prepared here');
$sub->safe_psql('postgres', q{SELECT schemasync_skip(subscription, publisher_lsn) FROM schemasync_errors WHERE resolved_at IS NULL});
$sub->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_prepared_xacts') or die;
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', options => '{"group_commit_delay": 200}')});
$pub->safe_psql('postgres', $_) foreach "COMMIT PREPARED 'skipped'", 'DELETE FROM other';
same('other', 'is skipped, and the subscription can be altered meanwhile');
$sub->poll_query_until('postgres', q{SELECT count(*) = 0 FROM schemasync_errors WHERE resolved_at IS NULL}) or die;

# --- a group that fails: the right one is named, the others are applied

$pub->safe_psql('postgres', 'TRUNCATE other');
wait_applied($pub, $sub, 'sub');
$sub->safe_psql('postgres', "INSERT INTO other VALUES (5, 'local')");
$pub->safe_psql('postgres', join("\n", map { "INSERT INTO other VALUES ($_, 'p$_');" } 1 .. 9));
my $xid = $pub->safe_psql('postgres', 'SELECT xmin FROM other WHERE id = 5');
is(open_error('publisher_xid, relation, command, sqlstate'), "$xid|public.other|INSERT|23505", 'the error names the transaction that failed');
like(open_error('detail'), qr/Key \(id\)=\(5\) already exists/, 'with its key');
like(open_error('context'), qr/publisher transaction $xid/, 'and its context');
is($sub->safe_psql('postgres', "SELECT string_agg(id || v, ' ' ORDER BY id) FROM other"), '1p1 2p2 3p3 4p4 5local', 'those before it are applied, those after are not');
is($sub->safe_psql('postgres', "SELECT state FROM schemasync_subscriptions"), 'failed', 'the state says so');
$sub->safe_psql('postgres', 'DELETE FROM other WHERE id = 5');
same('other', 'all are there once the row is out of the way');
$sub->poll_query_until('postgres', q{SELECT count(*) = 0 FROM schemasync_errors WHERE resolved_at IS NULL}) or die;
wait_state($sub, 'sub', 'streaming');

# --- a row that is not there is no silence; skipping drops exactly one transaction

$sub->safe_psql('postgres', 'DELETE FROM other WHERE id = 3');
$pub->safe_psql('postgres', "INSERT INTO other VALUES (20, 'before')");
$pub->safe_psql('postgres', "BEGIN; UPDATE other SET v = 'changed' WHERE id = 3; INSERT INTO other VALUES (21, 'skipped'); COMMIT");
$pub->safe_psql('postgres', "INSERT INTO other VALUES (22, 'after')");
is(open_error('relation, command, key'), 'public.other|UPDATE|(id)=(3)', 'an update without its row is an error with the key');
my $lsn = open_error('publisher_lsn');
$sub->safe_psql('postgres', "SELECT schemasync_skip('sub', '$lsn')");
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', "SELECT string_agg(id::text, ' ' ORDER BY id) FROM other WHERE id IN (3, 20, 21, 22)"), '20 22', 'the transaction is skipped, its neighbours are not');
is($sub->safe_psql('postgres', 'SELECT count(skip_lsn) FROM schemasync.subscription'), '0', 'once only');

# --- conflicts settled by the option

$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', options => '{"conflicts": "apply_remote", "two_phase": true}')});
$sub->safe_psql('postgres', "INSERT INTO other VALUES (30, 'local')");
$pub->safe_psql('postgres', "INSERT INTO other VALUES (30, 'remote'); UPDATE other SET v = 'made' WHERE id = 3; DELETE FROM other WHERE id = 21");
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', "SELECT string_agg(id || v, ' ' ORDER BY id) FROM other WHERE id IN (3, 21, 30)"), '3made 30remote', 'conflicts = apply_remote');
is($sub->safe_psql('postgres', "SELECT string_agg(conflict || ' ' || key, ', ' ORDER BY conflict) FROM schemasync_conflicts"),
	'delete_missing (id)=(21), insert_exists (id)=(30), update_missing (id)=(3)', 'each is recorded');
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', options => '{"conflicts": "keep_local", "two_phase": true}')});
$sub->safe_psql('postgres', "INSERT INTO other VALUES (31, 'local'); DELETE FROM other WHERE id = 4");
$pub->safe_psql('postgres', "INSERT INTO other VALUES (31, 'remote'); UPDATE other SET v = 'made' WHERE id = 4");
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', "SELECT string_agg(id || v, ' ' ORDER BY id) FROM other WHERE id IN (4, 31)"), '31local', 'conflicts = keep_local');
# a row that would go to a partition where its key is taken stays where it is
$sub->safe_psql('postgres', "INSERT INTO moves VALUES (101, 'local')");
$pub->safe_psql('postgres', 'UPDATE moves SET id = 101 WHERE id = 1; UPDATE moves SET id = 102 WHERE id = 2');
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', "SELECT string_agg(id || v, ' ' ORDER BY id) FROM moves"), '1r 101local 102r', 'keep_local: a row between partitions');

# --- ... another row here that has a unique value of the row that comes, by an insert, by an update, by two indexes, in a partition
sub settled
{
	my ($how, $expected_u, $expected_p, $expected_conflicts) = @_;
	$pub->safe_psql('postgres', 'DROP TABLE IF EXISTS u, p; CREATE TABLE u (id int PRIMARY KEY, a int UNIQUE, b int, v text); CREATE UNIQUE INDEX ON u (b) WHERE v <> $$free$$;'
		. ' CREATE TABLE p (id int, a int, v text, PRIMARY KEY (id), UNIQUE (id, a)) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);'
		. " INSERT INTO u VALUES (1, 1, 1, 'r'), (2, 2, 2, 'r'), (3, 3, 3, 'r'); INSERT INTO p VALUES (1, 1, 'r'), (2, 2, 'r')");
	wait_applied($pub, $sub, 'sub');
	$sub->safe_psql('postgres', qq{SELECT schemasync_alter_subscription('sub', options => '{"conflicts": "$how", "two_phase": true}'); DELETE FROM schemasync.conflict});
	$sub->safe_psql('postgres', "INSERT INTO u VALUES (100, 10, 110, 'l'), (101, 111, 11, 'l'), (102, 20, 120, 'l'), (103, 121, 21, 'l'), (4, 30, 31, 'l'), (104, 130, 32, 'l'), (105, 140, 40, 'free');"
		. " CREATE UNIQUE INDEX here ON p1 (a); INSERT INTO p VALUES (50, 5, 'l'), (120, 3, 'l')");
	$pub->safe_psql('postgres', "BEGIN; INSERT INTO u VALUES (10, 10, 11, 'r'); UPDATE u SET a = 20, b = 21 WHERE id = 2; INSERT INTO u VALUES (4, 31, 32, 'r'); INSERT INTO u VALUES (40, 41, 40, 'r');"
		. " UPDATE u SET v = 'changed' WHERE id = 1; UPDATE p SET a = 5 WHERE id = 1; UPDATE p SET id = 120 WHERE id = 2; COMMIT");
	wait_applied($pub, $sub, 'sub');
	is($sub->safe_psql('postgres', "SELECT string_agg(concat_ws(',', id, a, b, v), ' ' ORDER BY id) FROM u"), $expected_u, "$how: unique values");
	is($sub->safe_psql('postgres', "SELECT string_agg(concat_ws(',', id, a, v), ' ' ORDER BY id) FROM p"), $expected_p, "$how: unique values in partitions");
	is($sub->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', conflict, command, key), ', ' ORDER BY conflict_id) FROM schemasync_conflicts"), $expected_conflicts, "$how: what is recorded");
	is($sub->safe_psql('postgres', 'SELECT count(*) FROM schemasync_conflicts WHERE local_row IS NULL OR remote_row IS NULL'), '0', "$how: with both rows");
	return;
}
settled('apply_remote', '1,1,1,changed 2,20,21,r 3,3,3,r 4,31,32,r 10,10,11,r 40,41,40,r 105,140,40,free', '1,5,r 120,2,r',
	'unique_violation INSERT (a)=(10), unique_violation INSERT (b)=(11), unique_violation UPDATE (a)=(20), unique_violation UPDATE (b)=(21),'
	. ' insert_exists INSERT (id)=(4), unique_violation INSERT (b)=(32), unique_violation UPDATE (a)=(5), insert_exists INSERT (id)=(120)');
settled('keep_local', '1,1,1,changed 2,2,2,r 3,3,3,r 4,30,31,l 40,41,40,r 100,10,110,l 101,111,11,l 102,20,120,l 103,121,21,l 104,130,32,l 105,140,40,free', '1,1,r 50,5,l 120,3,l',
	'unique_violation INSERT (a)=(10), unique_violation UPDATE (a)=(20), insert_exists INSERT (id)=(4), unique_violation UPDATE (a)=(5), insert_exists INSERT (id)=(120)');
# a trigger that keeps the row: an error, and no conflict told without end
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', options => '{"conflicts": "apply_remote", "two_phase": true}'); DELETE FROM schemasync.conflict;
	CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER keep BEFORE DELETE ON u FOR EACH ROW EXECUTE FUNCTION keep(); ALTER TABLE u ENABLE ALWAYS TRIGGER keep;
	INSERT INTO u VALUES (200, 200, 200, 'l')});
$pub->safe_psql('postgres', q{INSERT INTO u VALUES (201, 200, 201, 'r')});
is(open_error('sqlstate, message'), '23505|a trigger of table "public.u" keeps a row that a conflict is to delete', 'a row that a trigger keeps');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM schemasync_conflicts'), '0', 'nothing is told of what did not happen');
$sub->safe_psql('postgres', 'DROP TRIGGER keep ON u');
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', q{SELECT string_agg(concat_ws(',', id, a, b, v), ' ') FROM u WHERE id >= 200}), '201,200,201,r', 'and goes on without it');
$pub->safe_psql('postgres', 'DROP TABLE u, p');

# --- a wait longer than wal_sender_timeout costs neither the connection nor a row

my $before = $pub->safe_psql('postgres', 'SELECT pid FROM pg_stat_replication');
my $holder = $sub->background_psql('postgres', on_error_stop => 1);
$holder->query_safe('BEGIN; LOCK TABLE other IN ACCESS EXCLUSIVE MODE');
$pub->safe_psql('postgres', "INSERT INTO other VALUES (40, 'waits')");
$sub->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'schemasync apply sub' AND wait_event_type = 'Lock'}) or die;
# the wait itself is what is tested: it must last longer than the timeout
$pub->safe_psql('postgres', 'SELECT pg_sleep(5)');
$holder->query_safe('COMMIT');
$holder->quit;
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT v FROM other WHERE id = 40'), 'waits', 'the row came after the lock');
is($pub->safe_psql('postgres', 'SELECT pid FROM pg_stat_replication'), $before, 'over the same connection');

# a stop does not wait for the lock
$holder = $sub->background_psql('postgres', on_error_stop => 1);
$holder->query_safe('BEGIN; LOCK TABLE other IN ACCESS EXCLUSIVE MODE');
$pub->safe_psql('postgres', "INSERT INTO other VALUES (41, 'waits')");
$sub->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'schemasync apply sub' AND wait_event_type = 'Lock'}) or die;
$sub->safe_psql('postgres', "SELECT schemasync_stop('sub')");
is($sub->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'schemasync apply sub'}), '0', 'a worker that waits for a lock can be stopped');
$holder->query_safe('COMMIT');
$holder->quit;
$sub->safe_psql('postgres', "SELECT schemasync_start('sub')");
wait_applied($pub, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT v FROM other WHERE id = 41'), 'waits', 'and goes on where it was');

done_testing();
