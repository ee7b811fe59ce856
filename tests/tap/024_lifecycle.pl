# What happens to servers over the years: backups that are restored, standbys that are promoted, dumps, extensions that are dropped; and more
# than one subscription between two servers.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair();

sub confirmed { my ($slot) = @_; return $pub->safe_psql('postgres', "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '$slot'"); }

# Waits until the publisher has heard that all it has written is applied, and durable.
sub wait_confirmed
{
	my ($node, $name) = @_;
	my $lsn = wait_applied($pub, $node, $name);
	$pub->poll_query_until('postgres', "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots JOIN (SELECT '" . slot_of($node, $name) . "' AS slot_name) s USING (slot_name)")
	  or die "$name does not confirm";
	return;
}

sub slot_of { my ($node, $name) = @_; return $node->safe_psql('postgres', "SELECT slot_name FROM schemasync_subscriptions WHERE name = '$name'"); }

# --- two subscriptions to one publisher in one database, and one in another database
$pub->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text);
	INSERT INTO t SELECT i, i FROM generate_series(1, 100) i; INSERT INTO u SELECT i, i FROM generate_series(1, 100) i;
	CREATE PUBLICATION pub FOR TABLE t; CREATE PUBLICATION pub_u FOR TABLE u});
$sub->safe_psql('postgres', 'CREATE DATABASE other');
$sub->safe_psql('other', 'CREATE EXTENSION schemasync');
create_subscription($pub, $sub, 'on_t');
create_subscription($pub, $sub, 'on_u', publications => ['pub_u']);
my $conninfo = $pub->connstr('postgres') =~ s/'/''/gr;
is($sub->safe_psql('postgres', qq{SELECT severity, detail FROM schemasync_preflight('$conninfo', '{pub,pub_u}') WHERE "check" = 'other_subscriptions' ORDER BY 2}),
	"warn|subscription on_t writes 1 of the tables: public.t\nwarn|subscription on_u writes 1 of the tables: public.u", 'that others write the tables is said');
$sub->safe_psql('other', "SELECT schemasync_create_subscription('elsewhere', '$conninfo', ARRAY['pub', 'pub_u'])");
$pub->safe_psql('postgres', 'BEGIN; ALTER TABLE t ADD a int DEFAULT 1; ALTER TABLE u RENAME v TO w; INSERT INTO t VALUES (101); INSERT INTO u VALUES (101, 101); COMMIT');
wait_applied($pub, $sub, $_) foreach qw(on_t on_u);
my $lsn = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
$sub->safe_psql('other', "SELECT schemasync_wait('elsewhere', '$lsn', interval '180 s')");
compare($pub, $sub, 'two subscriptions in one database');
is(contents_of($sub, '', 'other'), contents_of($pub), 'a subscription in another database');

# --- a publisher whose commits wait for the subscriber hears of those that have nothing for it, at once
$sub->safe_psql('postgres', "ALTER SYSTEM SET wal_receiver_status_interval = '100s'; SELECT pg_reload_conf(); SELECT schemasync_stop('on_t')");
$pub->safe_psql('postgres', q{SET synchronous_commit = local; CREATE TABLE unpublished (id int); ALTER SYSTEM SET synchronous_standby_names = '"schemasync apply on_t"'; SELECT pg_reload_conf()});
$sub->safe_psql('postgres', "SELECT schemasync_start('on_t')");
$pub->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication WHERE application_name = 'schemasync apply on_t'") or die 'the subscriber is not synchronous';
my $begun = time;
$pub->safe_psql('postgres', 'INSERT INTO unpublished VALUES (1)');
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (150)');
cmp_ok(time - $begun, '<', 50, 'commits do not wait for wal_receiver_status_interval');
$pub->safe_psql('postgres', 'ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf(); SET synchronous_commit = local; DROP TABLE unpublished');
$sub->safe_psql('postgres', 'ALTER SYSTEM RESET wal_receiver_status_interval; SELECT pg_reload_conf()');

# --- the subscriber is restored from a backup: the publisher has forgotten what it would need, and must not pass over it in silence
wait_confirmed($sub, 'on_t');
$sub->backup('old');
$pub->safe_psql('postgres', q{INSERT INTO t VALUES (200, 'lost'); ALTER TABLE t ADD b int DEFAULT 7; UPDATE t SET v = 'changed' WHERE id = 1; DELETE FROM t WHERE id = 2});
$pub->safe_psql('postgres', q{INSERT INTO u VALUES (200, 'lost')});
wait_confirmed($sub, $_) foreach qw(on_t on_u);
my $slot = slot_of($sub, 'on_t');
$sub->stop('immediate');
# until then it may still confirm WAL that has nothing for it
$pub->poll_query_until('postgres', "SELECT NOT active FROM pg_replication_slots WHERE slot_name = '$slot'") or die 'the slot is still used';
my $before = confirmed($slot);
my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($sub, 'old');
$restored->start;
wait_refused($restored, 'on_t', 'identity_lost');
wait_refused($restored, 'on_u', 'identity_lost');
like($restored->safe_psql('postgres', "SELECT changes FROM schemasync_refusals WHERE subscription = 'on_t'"),
	qr/subscription "on_t" is behind what it has confirmed.*restored from an older state/s, 'the reason is said');
is($restored->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id = 200'), '0', 'nothing was passed over');
is(confirmed(slot_of($restored, 'on_t')), $before, 'the slot is where it was');
$restored->safe_psql('postgres', "SELECT schemasync_resume('on_t')");
wait_refused($restored, 'on_t', 'identity_lost');

# ... and is repaired as docs/runbooks.md says
foreach my $case ([ 'on_t', 't' ], [ 'on_u', 'u' ])
{
	my ($name, $table) = @$case;
	my $position = confirmed(slot_of($restored, $name));
	$restored->safe_psql('postgres', "SELECT pg_replication_origin_advance(origin_name, '$position') FROM schemasync_subscriptions WHERE name = '$name'");
	$restored->safe_psql('postgres', "SELECT schemasync_resume('$name')");
	$restored->safe_psql('postgres', "SELECT schemasync_resync('$name', '$table')");
	$restored->poll_query_until('postgres', "SELECT state = 'ready' FROM schemasync_tables WHERE subscription = '$name'") or die "$table was not copied";
	wait_applied($pub, $restored, $name);
}
compare($pub, $restored, 'repaired after the restore');
$restored->safe_psql('other', "SELECT schemasync_drop_subscription('elsewhere')");

# --- a standby of the subscriber is promoted: it goes on where the primary was
$restored->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($restored, 'standby', has_streaming => 1);
$standby->start;
$pub->safe_psql('postgres', q{INSERT INTO t VALUES (300, 'x'); ALTER TABLE t ADD c int; INSERT INTO u SELECT i FROM generate_series(300, 400) i});
wait_confirmed($restored, $_) foreach qw(on_t on_u);
$restored->wait_for_catchup($standby, 'replay');
is($standby->safe_psql('postgres', "SELECT state, worker_pid IS NULL FROM schemasync_subscriptions WHERE name = 'on_t'"), 'streaming|t', 'no worker runs on a standby');
$restored->stop('immediate');
$pub->safe_psql('postgres', q{INSERT INTO t VALUES (301, 'y'); ALTER TABLE t DROP c; DELETE FROM u WHERE id > 350});
$standby->promote;
wait_applied($pub, $standby, $_) foreach qw(on_t on_u);
compare($pub, $standby, 'a promoted standby goes on');

# --- dumps of either side can be restored, and bring no subscription and no key along
$standby->safe_psql('postgres', 'CREATE VIEW local_view AS SELECT count(*) FROM t');
foreach my $node ($pub, $standby)
{
	my $file = $node->basedir . '/dump.sql';
	$node->command_ok([ 'pg_dump', '--no-sync', '-f', $file, $node->connstr('postgres') ], $node->name . ' is dumped');
	$node->safe_psql('postgres', 'CREATE DATABASE copied');
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('copied'), '-f', $file ], 'and restored');
	is(contents_of($node, '', 'copied'), contents_of($node), 'with all rows');
	is($node->safe_psql('copied', 'SELECT (SELECT count(*) FROM schemasync_subscriptions), (SELECT count(*) FROM schemasync.relation), (SELECT count(*) FROM schemasync.capture_key)'),
		'0|0|1', 'without subscriptions, with a key of its own');
	$node->safe_psql('postgres', 'DROP DATABASE copied');
}
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_replication_origin WHERE roname LIKE 'schemasync\\_%'"), '2', 'the origins are those of the subscriptions');

# --- the extension is dropped on the publisher, where changes go on, and made again
$pub->safe_psql('postgres', 'DROP EXTENSION schemasync');
$pub->safe_psql('postgres', q{ALTER TABLE t ADD d int DEFAULT 4; INSERT INTO t VALUES (400, 'z')});
wait_applied($pub, $standby, 'on_t');
compare($pub, $standby, 'a change that nothing marked', '^public\.t$');
$pub->safe_psql('postgres', 'CREATE EXTENSION schemasync');
$pub->safe_psql('postgres', q{ALTER TABLE t RENAME d TO e; INSERT INTO t VALUES (401, 'z', 1, 2, 3)});
wait_applied($pub, $standby, 'on_t');
compare($pub, $standby, 'the extension of the publisher was made anew', '^public\.t$');
is($standby->safe_psql('postgres', "SELECT verdict FROM schemasync_ddl_history WHERE operation = 'rename_column' AND object_identity = 'public.t.e'"), 'forward', 'and marks again');

# --- the publisher is restored from a backup of its files: that has no slots (031_refusal has one that was put back with them)
$pub->backup('older');
$pub->stop('fast');
my $back = PostgreSQL::Test::Cluster->new('back');
$back->init_from_backup($pub, 'older');
$back->start;
my $moved = $back->connstr('postgres') =~ s/'/''/gr;
my (undef, undef, $error) = $standby->psql('postgres', "SELECT schemasync_alter_subscription('on_t', '$moved')");
like($error, qr/replication slot "[^"]+" does not exist on the publisher/, 'a publisher without the slot is not taken');

done_testing();
