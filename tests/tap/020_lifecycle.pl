# A subscription's life: made, stopped, started, drained, awaited, dropped; with several of them, in several databases, under roles that are
# not superusers, and with things killed.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair(conf => "restart_after_crash = on\n");
my $dsn = $pub->connstr('postgres');
$dsn =~ s/'/''/g;

# What a statement on the subscriber says when it fails; '' when it does not.
sub error_of
{
	my ($sql, %options) = @_;
	my ($status, undef, $err) = $sub->psql($options{dbname} // 'postgres', $sql);
	return $status == 0 ? '' : $err;
}

sub slots { return $pub->safe_psql('postgres', "SELECT count(*) FROM pg_replication_slots WHERE plugin = 'schemasync_decoder'"); }

sub origins { return $sub->safe_psql('postgres', "SELECT count(*) FROM pg_replication_origin WHERE roname LIKE 'schemasync\\_%'"); }

sub worker
{
	my ($name, $dbname) = @_;
	return $sub->safe_psql($dbname // 'postgres', "SELECT worker_pid FROM schemasync_subscriptions WHERE name = '$name'");
}

$pub->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;'
	  . ' CREATE PUBLICATION pub FOR ALL TABLES');
$sub->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v text)');

# --- made, or not
$sub->safe_psql('postgres', "BEGIN; SELECT schemasync_create_subscription('gone', '$dsn', '{pub}'); ROLLBACK");
is(slots(), '0', 'a creation that is rolled back leaves no slot');
is(origins(), '0', 'and no origin');
create_subscription($pub, $sub, 'app', args => 'copy_schema => false');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM t'), '100', 'the rows are copied');
is($sub->safe_psql('postgres', "SELECT state FROM schemasync_tables"), 'ready', 'the table is ready');
wait_state($sub, 'app', 'streaming');
is($sub->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'schemasync apply app'"),
	'1', 'the worker bears the name of its subscription');
is($pub->safe_psql('postgres', 'SELECT health FROM schemasync_slots'), 'ok', 'the publisher shows a healthy slot');

# --- stopped and started
$sub->safe_psql('postgres', "SELECT schemasync_stop('app')");
is(worker('app'), '', 'no worker after the stop');
wait_state($sub, 'app', 'disabled');
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (101)');
like(error_of("SELECT schemasync_wait('app')"), qr/subscription "app" is disabled/, 'nobody waits for a stopped one');
like($pub->safe_psql('postgres', 'SELECT health, reason FROM schemasync_slots'), qr/^warn\|no subscriber is connected/,
	'the publisher warns of a slot without a subscriber');
$sub->safe_psql('postgres', "SELECT schemasync_start('app')");
wait_applied($pub, $sub, 'app');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM t'), '101', 'what came meanwhile is applied');

$sub->safe_psql('postgres', "BEGIN; SELECT schemasync_stop('app'); ROLLBACK");
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (102)');
wait_applied($pub, $sub, 'app');
ok(1, 'a stop that is rolled back stops nothing for long');

# --- drained
$pub->safe_psql('postgres', 'INSERT INTO t SELECT i FROM generate_series(1000, 3000) i');
$sub->safe_psql('postgres', "SELECT schemasync_stop('app', drain => true)");
wait_state($sub, 'app', 'drained');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM t'), '2103', 'a drained subscription has applied everything up to the call');
is( $pub->safe_psql('postgres', 'SELECT confirmed_flush_lsn >= (SELECT max(lsn) FROM (VALUES (\''
		  . $sub->safe_psql('postgres', 'SELECT drain_lsn FROM schemasync_subscriptions') . '\'::pg_lsn)) v(lsn)) FROM pg_replication_slots'),
	't', 'and confirmed it');
is(error_of("SELECT schemasync_stop('app', drain => true)"), '', 'to drain it again is no error');
$sub->safe_psql('postgres', "SELECT schemasync_start('app')");
wait_state($sub, 'app', 'streaming');

# --- awaited
my $ahead = $pub->safe_psql('postgres', "SELECT pg_current_wal_lsn() + 100000000");
like(error_of("SELECT schemasync_wait('app', '$ahead', '100 ms')"), qr/timeout: subscription "app" has not come to/, 'a wait ends at its timeout');
like(error_of("SET statement_timeout = '100 ms'; SELECT schemasync_wait('app', '$ahead')"), qr/statement timeout/, 'and at the statement\'s');
my $reached = $sub->safe_psql('postgres', "SELECT schemasync_wait('app')");
is($pub->safe_psql('postgres', "SELECT '$reached'::pg_lsn <= pg_current_wal_lsn()"), 't', 'a wait without a position takes the publisher\'s');

# --- killed
my $before = worker('app');
$sub->safe_psql('postgres', "SELECT pg_terminate_backend($before)");
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (103)');
wait_applied($pub, $sub, 'app');
isnt(worker('app'), $before, 'a terminated worker is started again');
$pub->safe_psql('postgres', "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active");
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (104)');
wait_applied($pub, $sub, 'app');
is($sub->safe_psql('postgres', 'SELECT state FROM schemasync_subscriptions'), 'streaming', 'a lost walsender is no failure');
$sub->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'schemasync launcher'");
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'schemasync launcher'")
  or die 'the launcher did not come back';
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (105)');
wait_applied($pub, $sub, 'app');
kill 'KILL', worker('app');
$sub->poll_query_until('postgres', 'SELECT true') or die 'the subscriber did not come back';
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (106)');
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM t WHERE id = 106") or die 'not applied after a crash';
ok(1, 'a crash of the worker is survived');
$pub->restart;
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (107)');
wait_applied($pub, $sub, 'app');
$sub->restart;
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (108)');
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM t WHERE id = 108") or die 'not applied after a restart';
compare($pub, $sub, 'both sides are equal after all that');

# --- several, in several databases
$_->safe_psql('postgres', 'CREATE DATABASE other') for $pub, $sub;
$_->safe_psql('other', 'CREATE EXTENSION schemasync; CREATE TABLE o (id int PRIMARY KEY); CREATE TABLE p (id int PRIMARY KEY)') for $pub, $sub;
$pub->safe_psql('other', 'CREATE PUBLICATION pub FOR TABLE o; CREATE PUBLICATION pub2 FOR TABLE p');
create_subscription($pub, $sub, 'app', dbname => 'other', args => 'copy_schema => false');
create_subscription($pub, $sub, 'app2', dbname => 'other', publications => ['pub2'], args => 'copy_schema => false');
$pub->safe_psql('other', 'INSERT INTO o VALUES (1); INSERT INTO p VALUES (1)');
wait_applied($pub, $sub, $_, 'other') for 'app', 'app2';
is($sub->safe_psql('other', 'SELECT (SELECT count(*) FROM o), (SELECT count(*) FROM p)'), '1|1', 'two subscriptions of another database');
is(slots(), '3', 'each has a slot of its own');

# --- dropped
$sub->safe_psql('other', "SELECT schemasync_drop_subscription('app2')");
is(slots(), '2', 'a dropped subscription takes its slot along');
my $conninfo = $pub->connstr('other');
$pub->stop;
like(error_of("SELECT schemasync_drop_subscription('app')", dbname => 'other'),
	qr/could not drop replication slot.*drop_slot => false/s, 'an unreachable publisher: the error says what to do');
is(error_of("SELECT schemasync_drop_subscription('app', drop_slot => false)", dbname => 'other'), '', 'and that works');
wait_state($sub, 'app', 'failed');
like($sub->safe_psql('postgres', 'SELECT last_error FROM schemasync_subscriptions'), qr/could not connect/, 'the view says why');
$pub->start;
wait_state($sub, 'app', 'streaming');
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (109)');
wait_applied($pub, $sub, 'app');
$pub->safe_psql('postgres', "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active");

create_subscription($pub, $sub, 'lost', dbname => 'other', args => 'copy_schema => false, copy_data => false');
$sub->safe_psql('postgres', 'DROP DATABASE other WITH (FORCE)');
$sub->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'schemasync launcher'");
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_replication_origin WHERE roname LIKE 'schemasync\\_%'")
  or die 'the origin of a dropped database stays';
ok(1, 'the origin of a database that is gone is dropped');

# --- an owner that is no superuser
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('app'); CREATE ROLE keeper LOGIN SUPERUSER; CREATE TABLE k (id int PRIMARY KEY);"
	  . ' ALTER TABLE k OWNER TO keeper; TRUNCATE t; ALTER TABLE t OWNER TO keeper');
$pub->safe_psql('postgres', 'CREATE TABLE k (id int PRIMARY KEY)');
$sub->safe_psql('postgres', "SET ROLE keeper; SELECT schemasync_create_subscription('mine', '$dsn', '{pub}', copy_schema => false,"
	  . ' options => \'{"password_required": false}\'); RESET ROLE; ALTER ROLE keeper NOSUPERUSER');
$pub->safe_psql('postgres', 'INSERT INTO k VALUES (1)');
$sub->poll_query_until('postgres', 'SELECT count(*) = 1 FROM k') or die 'not applied by an ordinary owner';
is( $sub->safe_psql('postgres', "SELECT usename FROM pg_stat_activity WHERE backend_type = 'schemasync apply mine'"),
	'keeper', 'the worker is its owner\'s from the first moment');
compare_tables($pub, $sub, 'an ordinary role applies rows to its tables');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('mine')");

# --- what the publisher lacks
if (SchemasyncTest::knows_output_plugin_libraries())
{
	$pub->safe_psql('postgres', "ALTER SYSTEM SET output_plugin_libraries = pgoutput, test_decoding");
	$pub->reload;
	$pub->poll_query_until('postgres', "SELECT current_setting('output_plugin_libraries') NOT LIKE '%schemasync%'") or die;
	like( error_of("SELECT schemasync_create_subscription('app', '$dsn', '{pub}')"),
		qr/does not allow the output plugin "schemasync_decoder".*ALTER SYSTEM SET output_plugin_libraries = 'pgoutput', 'test_decoding', 'schemasync_decoder'; SELECT pg_reload_conf\(\);/s,
		'the error says which parameter to set to what');
	$pub->safe_psql('postgres', "ALTER SYSTEM RESET output_plugin_libraries");
	$pub->reload;
}
$pub->safe_psql('postgres', 'DROP EXTENSION schemasync');
like(error_of("SELECT schemasync_create_subscription('app', '$dsn', '{pub}')"), qr/extension "schemasync" is not installed in the publisher's database/,
	'the extension must be on the publisher');
$pub->safe_psql('postgres', 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots'); # of the database that was dropped
$pub->append_conf('postgresql.conf', "wal_level = replica");
$pub->restart;
like(error_of("SELECT schemasync_create_subscription('app', '$dsn', '{pub}')"), qr/wal_level on the publisher is "replica"/, 'wal_level must be logical');
is(origins(), '0', 'nothing is left of all that');

$sub->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$sub->restart;
like(error_of("SELECT schemasync_start('app')"), qr/Add "schemasync" to shared_preload_libraries/, 'without the preloaded library the error says what to set');

done_testing();
