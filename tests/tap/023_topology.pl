# More than one publisher and one subscriber: a cascade with DDL, both directions, and what was dropped or lost under a subscription.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my $a = SchemasyncTest::new_node('a');
my $b = SchemasyncTest::new_node('b');
my $c = SchemasyncTest::new_node('c');

sub last_error { my ($node, $name) = @_; return $node->safe_psql('postgres', "SELECT last_error FROM schemasync_subscriptions WHERE name = '$name'"); }

# Through the whole cascade.
sub settle_all
{
	wait_applied($a, $b, 'from_a');
	wait_applied($b, $c, 'from_b');
}

# --- a cascade, with changes of all kinds
$a->safe_psql('postgres', q{CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (id int PRIMARY KEY, v text, m mood);
	INSERT INTO t SELECT i, i, 'ok' FROM generate_series(1, 100) i; CREATE PUBLICATION pub FOR ALL TABLES});
create_subscription($a, $b, 'from_a');
$b->safe_psql('postgres', 'CREATE PUBLICATION pub FOR ALL TABLES');
create_subscription($b, $c, 'from_b');
compare($a, $c, 'copied through');
$a->safe_psql('postgres', $_)
  for q{ALTER TABLE t ADD c int DEFAULT 3, ADD d text},
  q{ALTER TYPE mood ADD VALUE 'good'; INSERT INTO t VALUES (101, 'x', 'good')},
  q{BEGIN; ALTER TABLE t RENAME v TO w; UPDATE t SET w = w || '!' WHERE id < 10; ALTER TABLE t DROP d; INSERT INTO t VALUES (102, 'y'); COMMIT},
  q{CREATE TABLE u (id int PRIMARY KEY, t int REFERENCES t, n numeric CHECK (n > 0)); INSERT INTO u SELECT i, i, i FROM generate_series(1, 10) i; CREATE INDEX u_n ON u (n)},
  q{ALTER TABLE t ALTER c TYPE bigint; ALTER TABLE u RENAME TO uu; DELETE FROM uu WHERE id = 1},
  q{ALTER TABLE t RENAME c TO x; ALTER TABLE t RENAME w TO c; ALTER TABLE t RENAME x TO w; UPDATE t SET w = id WHERE id = 7};
settle_all();
compare($a, $b, 'the second');
compare($a, $c, 'the third');

# a large transaction, which the second sends on while it decodes it, and whose first block names where it came from
$b->safe_psql('postgres', "ALTER SYSTEM SET logical_decoding_work_mem = '64kB'; SELECT pg_reload_conf()");
$a->safe_psql('postgres', 'BEGIN; INSERT INTO t (id) SELECT generate_series(5000, 9000); ALTER TABLE t ADD s int DEFAULT 1; UPDATE t SET s = 2 WHERE id > 8000; COMMIT');
settle_all();
compare($a, $c, 'a streamed transaction in the cascade');
is($b->safe_psql('postgres', 'SELECT sum(stream_count) > 0 FROM pg_stat_replication_slots'), 't', 'it was streamed');
$a->safe_psql('postgres', 'DROP TABLE uu');
settle_all();
is($c->safe_psql('postgres', "SELECT to_regclass('uu')"), '', 'a dropped table is dropped at the end of the cascade too');

$c->safe_psql('postgres', "SELECT schemasync_drop_subscription('from_b')");

# --- the publication is dropped, and made again
$a->safe_psql('postgres', 'DROP PUBLICATION pub; INSERT INTO t (id) VALUES (300)');
if ($a->safe_psql('postgres', 'SHOW server_version_num') >= 180000)
{
	# from 18 a publication that is missing at a position publishes nothing there
	wait_applied($a, $b, 'from_a');
	is($b->safe_psql('postgres', "SELECT DISTINCT verdict FROM schemasync_ddl_history WHERE operation = 'unpublish_table' AND object_identity = 'public.t'"),
		'ignore', 'that the table is published no more is in the history');
}
else
{
	$b->poll_query_until('postgres', "SELECT state = 'failed' FROM schemasync_subscriptions") or die 'nothing is said of the missing publication';
	like(last_error($b, 'from_a'), qr/publication "pub" does not exist/, 'the publication is named');
}
$a->safe_psql('postgres', 'CREATE PUBLICATION pub FOR ALL TABLES');

# --- the slot is dropped
$b->safe_psql('postgres', "SELECT schemasync_stop('from_a')");
$a->safe_psql('postgres', "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots");
$b->safe_psql('postgres', "SELECT schemasync_start('from_a')");
$b->poll_query_until('postgres', "SELECT state IN ('failed', 'refused') FROM schemasync_subscriptions") or die 'nothing is said of the missing slot';
like(last_error($b, 'from_a') . $b->safe_psql('postgres', "SELECT string_agg(changes, '') FROM schemasync_refusals WHERE status = 'open'"),
	qr/slot "[^"]+" does not exist/, 'the slot is named');
is($b->safe_psql('postgres', "SELECT schemasync_drop_subscription('from_a')"), '', 'a subscription whose slot is gone can be dropped');

# --- the slot is lost: more WAL than max_slot_wal_keep_size
create_subscription($a, $b, 'from_a', args => 'copy_schema => false, copy_data => false');
$b->safe_psql('postgres', "SELECT schemasync_stop('from_a')");
$a->safe_psql('postgres', "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'; ALTER SYSTEM SET wal_keep_size = 0; SELECT pg_reload_conf()");
$a->safe_psql('postgres', "INSERT INTO t (id) VALUES (1000); SELECT pg_switch_wal(); CREATE TABLE filler (); SELECT pg_switch_wal(); CHECKPOINT");
$a->safe_psql('postgres', "DROP TABLE filler; SELECT pg_switch_wal(); CHECKPOINT");
is($a->safe_psql('postgres', 'SELECT wal_status, health FROM schemasync_slots'), 'lost|critical', 'the publisher shows the lost slot');
$b->safe_psql('postgres', "SELECT schemasync_start('from_a')");
$b->poll_query_until('postgres', "SELECT state IN ('failed', 'refused') FROM schemasync_subscriptions") or die 'nothing is said of the lost slot';
like(last_error($b, 'from_a') . $b->safe_psql('postgres', "SELECT string_agg(changes, '') FROM schemasync_refusals WHERE status = 'open'"),
	qr/slot/, 'the lost slot is named');
$b->safe_psql('postgres', "SELECT schemasync_drop_subscription('from_a')");
is($a->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '0', 'and goes with its subscription');
$a->safe_psql('postgres', 'ALTER SYSTEM RESET max_slot_wal_keep_size; SELECT pg_reload_conf()');

# --- both directions: each applies what was written at the other, and nothing comes back
$_->safe_psql('postgres', 'DROP TABLE IF EXISTS t; CREATE TABLE both_ways (id int PRIMARY KEY, v text)') for $a, $b;
$_->safe_psql('postgres', 'DROP PUBLICATION pub; CREATE PUBLICATION pub FOR ALL TABLES') for $a, $b;
create_subscription($a, $b, 'from_a', args => q{copy_schema => false, copy_data => false, options => '{"origin": "none"}'});
create_subscription($b, $a, 'from_b', args => q{copy_schema => false, copy_data => false, options => '{"origin": "none"}'});
$a->safe_psql('postgres', "INSERT INTO both_ways SELECT i, 'a' FROM generate_series(1, 50) i");
$b->safe_psql('postgres', "INSERT INTO both_ways SELECT i, 'b' FROM generate_series(101, 150) i");
wait_applied($a, $b, 'from_a'); wait_applied($b, $a, 'from_b');
$a->safe_psql('postgres', "UPDATE both_ways SET v = 'aa' WHERE id = 101; ALTER TABLE both_ways ADD c int DEFAULT 1; INSERT INTO both_ways VALUES (51, 'a', 2)");
wait_applied($a, $b, 'from_a');
$b->safe_psql('postgres', "INSERT INTO both_ways VALUES (151, 'b', 3); UPDATE both_ways SET c = 9 WHERE id = 1; ALTER TABLE both_ways ADD d int");
wait_applied($b, $a, 'from_b');
$a->safe_psql('postgres', 'INSERT INTO both_ways VALUES (52, $$a$$, 2, 5); ALTER TABLE both_ways RENAME d TO e');
wait_applied($a, $b, 'from_a'); wait_applied($b, $a, 'from_b');
compare($a, $b, 'both directions');
# A change that was applied from the other side is marked with its origin and does not come back. That the other side has
# it by now is seen with its next row, and nothing is to be done.
my $changes = q{SELECT string_agg(object_identity || ' ' || verdict, ', ' ORDER BY history_id) FROM schemasync.ddl_history WHERE operation IN ('add_column', 'rename_column') AND subscription = '%s'};
is($b->safe_psql('postgres', sprintf($changes, 'from_a') . q{ AND object_identity ~ 'both_ways'}), 'public.both_ways.c forward, public.both_ways.d satisfied, public.both_ways.e forward', 'what b did of a');
is($a->safe_psql('postgres', sprintf($changes, 'from_b')), 'public.both_ways.c satisfied, public.both_ways.d forward', 'what a did of b');
is($_->safe_psql('postgres', 'SELECT (SELECT count(*) FROM schemasync_conflicts), (SELECT count(*) FROM schemasync_refusals), string_agg(state, \',\') FROM schemasync_subscriptions'),
	'0|0|streaming', 'no conflict and no refusal at ' . $_->name)
  for $a, $b;

# ... neither does what the other workers write: a table that is copied afresh, and an index that is built beside the stream
my $applied = q{SELECT applied_rows FROM schemasync_subscriptions};
my $before = $a->safe_psql('postgres', $applied);
$b->safe_psql('postgres', q{SELECT schemasync_resync('from_a', 'both_ways')});
$b->poll_query_until('postgres', q{SELECT bool_and(state = 'ready') FROM schemasync_tables}) or die 'the table is not copied';
$b->safe_psql('postgres', q{SELECT schemasync_alter_subscription('from_a', options => '{"indexes": "background"}')});
$a->safe_psql('postgres', 'CREATE INDEX both_ways_v ON both_ways (v)');
wait_applied($a, $b, 'from_a');
$b->poll_query_until('postgres', q{SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('both_ways_v')}) or die 'the index is not built';
$a->safe_psql('postgres', 'DROP INDEX both_ways_v');
$b->safe_psql('postgres', q{INSERT INTO both_ways VALUES (152, 'b')});
wait_applied($b, $a, 'from_b'); wait_applied($a, $b, 'from_a');
is($a->safe_psql('postgres', $applied) - $before, 1, 'a copy in both directions does not come back');
is($_->safe_psql('postgres', q{SELECT to_regclass('both_ways_v')}), '', 'neither does an index: ' . $_->name) for $a, $b;
is($a->safe_psql('postgres', q{SELECT count(*) FROM schemasync_ddl_history WHERE subscription = 'from_b' AND operation ~ 'index'}), '0', 'nor its making');
compare($a, $b, 'both directions, with other workers');

# ... and what one writes to say how far it is gets no answer of its kind without end
my @ways = (['from_a', $b, $a], ['from_b', $a, $b]);
$_->[1]->safe_psql('postgres', "SELECT schemasync_stop('$_->[0]')") for @ways;
$_->[2]->append_conf('postgresql.conf', qq{synchronous_standby_names = '"schemasync apply $_->[0]"'\nwal_receiver_status_interval = 1}) for @ways;
$_->[2]->reload for @ways;
$_->[1]->safe_psql('postgres', "SET synchronous_commit = local; SELECT schemasync_start('$_->[0]')") for @ways;
$_->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'}) or die 'not synchronous' for $a, $b;
my $wal = q{SELECT pg_current_wal_lsn() - '0/0'};
my @begun = map { $_->safe_psql('postgres', $wal) } $a, $b;
my $until = time + 3;
$a->safe_psql('postgres', q{SELECT txid_current()}) while time < $until;
note sprintf('WAL of a: %d bytes', $a->safe_psql('postgres', $wal) - $begun[0]);
cmp_ok($b->safe_psql('postgres', $wal) - $begun[1], '<', 72 * 1000, 'commits that only say how far one is are few');
$_->append_conf('postgresql.conf', "synchronous_standby_names = ''") for $a, $b;
$_->reload for $a, $b;

# --- the extension is dropped where it subscribes, and made again
$b->safe_psql('postgres', 'DROP EXTENSION schemasync CASCADE');
$b->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'schemasync apply%'") or die 'the worker of a dropped extension stays';
$b->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_replication_origin WHERE roname LIKE 'schemasync\\_%'") or die 'its origin stays';
$b->safe_psql('postgres', 'CREATE EXTENSION schemasync; TRUNCATE both_ways');
$a->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_replication_slots WHERE NOT active') or die;
$a->safe_psql('postgres', 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active');
create_subscription($a, $b, 'from_a');
compare($a, $b, 'subscribed anew after the extension was dropped');

done_testing();
