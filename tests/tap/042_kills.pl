# Nothing is lost or repeated when the worker, the walsender or either server is killed under load.
use strict;
use warnings;
use IPC::Run qw(start finish);
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair(conf => "logical_decoding_work_mem = '64kB'\nfsync = on\n");

$pub->safe_psql('postgres', q{
	CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
	CREATE TABLE history (id bigserial PRIMARY KEY, account int, delta int);
	CREATE TABLE keyless (n int, v text);
	ALTER TABLE keyless REPLICA IDENTITY FULL;
	INSERT INTO account SELECT g, 0 FROM generate_series(1, 500) g;
	CREATE PUBLICATION pub FOR ALL TABLES;
});
create_subscription($pub, $sub, 'sub');

# Writers that go on until they are stopped, at a rate that a busy machine can follow: small transactions, and now and then a large one with a rolled back part.
my $script = $PostgreSQL::Test::Utils::tmp_check . '/load.sql';
append_to_file($script, q{
\set a random(1, 500)
\set d random(-50, 50)
\set n random(1, 40)
BEGIN;
UPDATE account SET balance = balance + :d WHERE id = :a;
INSERT INTO history (account, delta) VALUES (:a, :d);
\if :n = 7
SAVEPOINT s;
INSERT INTO history (account, delta) SELECT g, 1 FROM generate_series(1, 800) g;
ROLLBACK TO s;
INSERT INTO history (account, delta) SELECT g, 2 FROM generate_series(1, 800) g;
\endif
INSERT INTO keyless VALUES (:a, :d);
UPDATE keyless SET v = 'u' WHERE n = :n;
COMMIT;
});

sub with_load
{
	my ($kill, $times) = @_;
	my $h = start([ 'pgbench', '-n', '-c', '2', '-R', '150', '-T', '600', '-f', $script, $pub->connstr('postgres') ], '>', \my $out, '2>', \my $err);
	foreach my $round (1 .. $times)
	{
		my $rows = $sub->safe_psql('postgres', 'SELECT count(*) FROM history');
		$sub->poll_query_until('postgres', "SELECT count(*) > $rows + 20 FROM history") or die "nothing arrives in round $round";
		$kill->();
	}
	$h->kill_kill;
	return;
}

sub level
{
	my ($what) = @_;
	wait_applied($pub, $sub, 'sub');
	compare_tables($pub, $sub, $what);
	return;
}

sub worker { return $sub->safe_psql('postgres', 'SELECT coalesce(max(worker_pid), 0) FROM schemasync_subscriptions'); }

with_load(sub {
	my $pid = worker();
	$sub->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $pid;
}, 5);
level('worker terminated');

with_load(sub { $pub->safe_psql('postgres', 'SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active'); }, 5);
level('walsender terminated');

$sub->append_conf('postgresql.conf', "restart_after_crash = on\n");
$sub->reload;
with_load(sub {
	my $pid = worker();
	return if !$pid;
	kill 'KILL', $pid;
	$sub->poll_query_until('postgres', 'SELECT true') for 1 .. 3;
}, 3);
level('worker killed, the subscriber recovers');

with_load(sub { $sub->stop('immediate'); $sub->start; }, 3);
level('subscriber crashed');

# the load ends with the publisher
foreach my $round (1 .. 2)
{
	my $h = start([ 'pgbench', '-n', '-c', '2', '-R', '150', '-T', '600', '-f', $script, $pub->connstr('postgres') ], '>', \my $out, '2>', \my $err);
	my $rows = $sub->safe_psql('postgres', 'SELECT count(*) FROM history');
	$sub->poll_query_until('postgres', "SELECT count(*) > $rows + 20 FROM history") or die 'nothing arrives';
	$pub->stop('immediate');
	$h->kill_kill;
	$pub->start;
	level("publisher crashed, round $round");
}

done_testing();
