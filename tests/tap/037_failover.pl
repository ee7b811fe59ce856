# A publisher that fails over: with the option failover the slot is kept in step on a standby (17 and later), and the
# subscription goes on from the standby when that is promoted.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair();
$pub->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, g FROM generate_series(1, 10) g; '
	. 'CREATE PUBLICATION pub FOR ALL TABLES');

sub quoted_connstr
{
	my ($node) = @_;
	(my $conninfo = $node->connstr('postgres')) =~ s/'/''/g;
	return $conninfo;
}

sub create_sql
{
	my ($node, $name, $options, $more) = @_;
	return sprintf(q{SELECT schemasync_create_subscription('%s', '%s', '{pub}', options => '%s'%s)},
		$name, quoted_connstr($node), $options, $more // '');
}

sub error_of
{
	my ($sql) = @_;
	my (undef, undef, $error) = $sub->psql('postgres', $sql);
	return $error;
}

my $said = $sub->safe_psql('postgres',
	sprintf q{SELECT severity, detail FROM schemasync_preflight('%s', '{pub}') WHERE "check" = 'failover'}, quoted_connstr($pub));

# --- a server without such slots says so, before anything is made

if ($pub->pg_version < 17)
{
	my $none = qr/the publisher has no failover slots.*It runs PostgreSQL 1[56][^;]*; 17 and later have them/s;
	like($said, qr/^ok\|it has no failover slots: the option failover would be refused/, 'the preflight says what is not to be had');
	like(error_of(create_sql($pub, 'sub', '{"failover": true}')), $none, 'a publisher that has no failover slots');
	is($sub->safe_psql('postgres', 'SELECT count(*) FROM schemasync_subscriptions'), '0', 'nothing was made');
	is($pub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '0', 'nor a slot');

	$sub->safe_psql('postgres', create_sql($pub, 'sub', '{"failover": false}'));
	wait_applied($pub, $sub, 'sub');
	is($pub->safe_psql('postgres', 'SELECT health, failover IS NULL, synced IS NULL FROM schemasync_slots'), 'ok|t|t', 'the view does not know');
	like(error_of(q{SELECT schemasync_alter_subscription('sub', options => '{"failover": true}')}), $none, 'nor can it be had later');
	is($sub->safe_psql('postgres', q{SELECT options->>'failover' FROM schemasync_subscriptions}), 'false', 'the option stays as it was');
	$pub->safe_psql('postgres', 'ALTER TABLE t ADD c int DEFAULT 3; INSERT INTO t SELECT g, g FROM generate_series(11, 20) g');
	wait_applied($pub, $sub, 'sub');
	compare($pub, $sub, 'and the subscription goes on');
	done_testing();
	exit;
}

# --- a standby whose slots are kept in step

is($said, 'ok|', 'the preflight has nothing to say');
$pub->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby')});
$pub->backup('one');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($pub, 'one', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
hot_standby_feedback = on
primary_slot_name = 'standby'
sync_replication_slots = on
} . "primary_conninfo = '" . quoted_connstr($pub) . " application_name=standby'\n");
$standby->start;
# no change reaches the subscriber before the standby has it
$pub->append_conf('postgresql.conf', "synchronized_standby_slots = 'standby'\n");
$pub->reload;

like(error_of(create_sql($standby, 'sub', '{"failover": true}')), qr/the publisher is a standby and has no failover slots/, 'a standby makes none');
$sub->safe_psql('postgres', create_sql($pub, 'sub', '{"failover": true, "two_phase": true}'));
wait_applied($pub, $sub, 'sub');
is($pub->safe_psql('postgres', 'SELECT health, failover, synced FROM schemasync_slots'), 'ok|t|f', 'the slot is one for failover');
is($pub->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical'}), '1', 'and the only one');

# --- the option may be changed later

sub slot_becomes
{
	my ($condition, $name) = @_;
	ok($pub->poll_query_until('postgres', "SELECT $condition AND active FROM schemasync_slots"), $name);
	return;
}
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', options => '{"failover": null}')});
slot_becomes('NOT failover', 'it is taken back');
$sub->safe_psql('postgres', q{SELECT schemasync_alter_subscription('sub', options => '{"failover": true}')});
slot_becomes('failover', 'and set again');

# a slot that was made by hand follows the option too
$sub->safe_psql('postgres', q{SELECT schemasync_stop('sub')});
$pub->safe_psql('postgres', q{CREATE TABLE other (id int PRIMARY KEY); CREATE PUBLICATION other FOR TABLE other;
SELECT pg_create_logical_replication_slot('by_hand', 'schemasync_decoder')});
(my $by_hand = create_sql($pub, 'by_hand', '{"failover": true}', q{, slot_name => 'by_hand', create_slot => false, copy_data => false})) =~ s/\{pub\}/{other}/;
$sub->safe_psql('postgres', $by_hand);
ok($pub->poll_query_until('postgres', q{SELECT failover AND active FROM schemasync_slots WHERE slot_name = 'by_hand'}), 'a slot that was there before');
$sub->safe_psql('postgres', q{SELECT schemasync_drop_subscription('by_hand'); DROP TABLE other});
$sub->safe_psql('postgres', q{SELECT schemasync_start('sub')});

# --- changes, and the slot on the standby

$pub->safe_psql('postgres', q{ALTER TABLE t ADD c int DEFAULT 3; INSERT INTO t SELECT g, g FROM generate_series(11, 20) g});
wait_applied($pub, $sub, 'sub');
my $synced = 0;
for (my $round = 0; !$synced && $round < 200; $round++)
{
	# the slot there is kept once the slot here has come past the place where the standby could begin
	$pub->safe_psql('postgres', "SELECT pg_log_standby_snapshot(); INSERT INTO t VALUES (1000 + $round, 'round')");
	wait_applied($pub, $sub, 'sub');
	$pub->wait_for_catchup($standby);
	$synced = $standby->safe_psql('postgres',
		q{SELECT count(*) = 1 FROM pg_replication_slots WHERE slot_type = 'logical' AND synced AND NOT temporary AND invalidation_reason IS NULL}) eq 't';
}
ok($synced, 'the slot is on the standby');
is($standby->safe_psql('postgres', 'SELECT failover, synced, active, reason FROM schemasync_slots'), 't|t|f|', 'where it rests, which is no reason to warn');
$pub->safe_psql('postgres', q{ALTER TABLE t RENAME v TO w; UPDATE t SET w = w || 'x' WHERE id < 5; CREATE TABLE u (id serial PRIMARY KEY); CREATE TABLE two (id int PRIMARY KEY)});
$pub->safe_psql('postgres', "BEGIN; INSERT INTO two VALUES (1); PREPARE TRANSACTION 'heard'");
wait_applied($pub, $sub, 'sub');
compare($pub, $sub, 'before the failover');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '1', 'a prepared transaction came before it');

# --- the failover, with changes that the subscriber has not heard of

$sub->safe_psql('postgres', q{SELECT schemasync_stop('sub')});
$pub->safe_psql('postgres', q{ALTER TABLE t ADD unheard int DEFAULT 7; INSERT INTO t VALUES (50, 'fifty'); DELETE FROM t WHERE id = 1;
CREATE INDEX ON t (w); INSERT INTO u DEFAULT VALUES});
$pub->safe_psql('postgres', "BEGIN; INSERT INTO two VALUES (2); PREPARE TRANSACTION 'unheard'");
$pub->wait_for_catchup($standby);
$pub->stop('immediate');
$standby->promote;
my $there = $standby->safe_psql('postgres', 'SELECT confirmed_flush_lsn FROM pg_replication_slots');
ok($sub->safe_psql('postgres', "SELECT remote_lsn >= '$there' FROM pg_replication_origin_status WHERE remote_lsn IS NOT NULL") eq 't', 'the slot is not ahead of the subscriber');
$sub->safe_psql('postgres', sprintf q{SELECT schemasync_alter_subscription('sub', conninfo => '%s'); SELECT schemasync_start('sub')}, quoted_connstr($standby));
wait_applied($standby, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '2', 'nor are transactions that are prepared');
$standby->safe_psql('postgres', "COMMIT PREPARED '$_'") foreach qw(heard unheard);
wait_applied($standby, $sub, 'sub');
compare($standby, $sub, 'what was written before the failover is not lost');
is($sub->safe_psql('postgres', 'SELECT w, unheard FROM t WHERE id = 50'), 'fifty|7', 'neither rows nor columns');
$standby->safe_psql('postgres', q{ALTER TABLE t ADD after_failover text DEFAULT 'new'; INSERT INTO t VALUES (100, 'hundred'); INSERT INTO u DEFAULT VALUES});
wait_applied($standby, $sub, 'sub');
compare($standby, $sub, 'after the failover');
is($sub->safe_psql('postgres', q{SELECT count(*), count(DISTINCT id), sum((after_failover = 'new')::int) = count(*) FROM t WHERE id <= 100}), '21|21|t', 'nothing came twice');

done_testing();
