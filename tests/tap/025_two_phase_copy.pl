# Tables that are copied afresh while two_phase is on: the copy takes the stream's place. Transactions that are prepared, here and there, before,
# during and after it are neither lost nor waited for forever.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;
use IPC::Run;

my ($pub, $sub) = SchemasyncTest::pair();

sub rows { my ($t) = @_; return "SELECT count(*), md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM $t t"; }

sub ready
{
	my ($table) = @_;
	$sub->poll_query_until('postgres', "SELECT state = 'ready' FROM schemasync_tables WHERE relation = 'public.$table'") or die "$table was not copied";
	return;
}

$pub->safe_psql('postgres', q{CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY, v int);
	INSERT INTO a SELECT i, 0 FROM generate_series(1, 1000) i; INSERT INTO b SELECT i, 0 FROM generate_series(1, 1000) i;
	CREATE PUBLICATION pub FOR TABLE a});
create_subscription($pub, $sub, 'sub', args => q{options => '{"two_phase": true}'});

# --- a transaction of the table is prepared here when the table is to be copied afresh
$pub->safe_psql('postgres', "BEGIN; INSERT INTO a VALUES (2000, 1); UPDATE a SET v = 1 WHERE id = 1; PREPARE TRANSACTION 'open'");
$sub->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_prepared_xacts') or die 'it is not prepared here';
$sub->safe_psql('postgres', "SELECT schemasync_resync('sub', 'a')");
$pub->safe_psql('postgres', "ALTER PUBLICATION pub ADD TABLE b; INSERT INTO b VALUES (2000, 1); BEGIN; INSERT INTO b VALUES (2001, 1); PREPARE TRANSACTION 'later'");
like($sub->safe_psql('postgres', q{SELECT detail FROM schemasync_progress WHERE relation = 'public.a'}), qr/^waits for the end of prepared transactions: schemasync_\d+_/,
	'who holds the copy back is shown');
$pub->safe_psql('postgres', $_) for "COMMIT PREPARED 'open'", 'INSERT INTO a VALUES (2002, 1)', "COMMIT PREPARED 'later'";
ready('a');
ready('b');
wait_applied($pub, $sub, 'sub');
compare($pub, $sub, 'prepared before the copy');

# --- a transaction that is prepared before the copy's snapshot and committed after it. The slot that gives the snapshot waits for the transactions
# that are open, and then for those that began meanwhile; one that begins after that may be prepared while it waits.
sub open_transaction
{
	my ($id) = @_;
	my $session = $pub->background_psql('postgres', on_error_die => 1);
	$session->query_safe("BEGIN; INSERT INTO elsewhere VALUES ($id)");
	return $session;
}
sub waits { return "SELECT count(*) = 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'transactionid' AND NOT l.granted AND a.query ~ 'SLOT' AND l.transactionid = '$_[0]'"; }
sub id_of { return $_[0]->query_safe('SELECT txid_current() % 4294967296') =~ s/\D//gr; }
$pub->safe_psql('postgres', 'CREATE TABLE elsewhere (id int)');
my $first = open_transaction(1);
$sub->safe_psql('postgres', "SELECT schemasync_resync('sub', 'a')");
$pub->poll_query_until('postgres', waits(id_of($first))) or die 'the slot does not wait for the first';
my $second = open_transaction(2);
$first->query_safe('COMMIT');
$pub->poll_query_until('postgres', waits(id_of($second))) or die 'the slot does not wait for the second';
$pub->safe_psql('postgres', "BEGIN; INSERT INTO a VALUES (2500, 1); UPDATE a SET v = 7 WHERE id = 7; PREPARE TRANSACTION 'spans'");
$pub->safe_psql('postgres', "BEGIN; INSERT INTO a VALUES (2502, 1); PREPARE TRANSACTION 'before'");
$pub->safe_psql('postgres', "COMMIT PREPARED 'before'");
$second->query_safe('COMMIT');
ready('a');
$pub->safe_psql('postgres', "COMMIT PREPARED 'spans'");
wait_applied($pub, $sub, 'sub');
compare($pub, $sub, 'prepared before the snapshot, committed after it', '^public\.[ab]$');
$_->quit foreach $first, $second;

# --- two-phase transactions of both tables all the time, while they are copied again and again
my $load = $pub->basedir . '/two_phase.sql';
append_to_file($load, <<'SQL');
\set i random(1, 1000)
\set j random(3000, 2000000000)
BEGIN;
UPDATE a SET v = v + 1 WHERE id = :i;
INSERT INTO a VALUES (:j, :client_id) ON CONFLICT DO NOTHING;
INSERT INTO b VALUES (:j, :client_id) ON CONFLICT DO NOTHING;
SELECT 'g' || :client_id || '_' || :j AS gid \gset
PREPARE TRANSACTION ':gid';
COMMIT PREPARED ':gid';
SQL
my ($out, $err) = ('', '');
local $ENV{PGHOST} = $pub->host;
my $bench = IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-T', '25', '-f', $load, $pub->connstr('postgres') ], '>', \$out, '2>', \$err);
foreach my $round (1 .. 3)
{
	$sub->safe_psql('postgres', "SELECT schemasync_resync('sub', r) FROM unnest('{a,b}'::regclass[]) r");
	ready('a');
	ready('b');
}
$bench->finish;
is($bench->result(0), 0, 'the load ran') or diag($err);
wait_applied($pub, $sub, 'sub');
compare($pub, $sub, 'copied again and again under two-phase transactions', '^public\.[ab]$');
is($sub->safe_psql('postgres', 'SELECT (SELECT count(*) FROM pg_prepared_xacts), (SELECT count(*) FROM schemasync_refusals), (SELECT count(*) FROM schemasync_errors WHERE resolved_at IS NULL)'),
	'0|0|0', 'nothing is left over');

# --- what a dropped subscription has prepared is nobody's, and stands in the way of the next one
$pub->safe_psql('postgres', "BEGIN; UPDATE b SET v = -7 WHERE id = 7; INSERT INTO b VALUES (-7, 7); PREPARE TRANSACTION 'left'");
wait_applied($pub, $sub, 'sub');
my $gid = $sub->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
my (undef, undef, $left) = $sub->psql('postgres', q{SELECT schemasync_drop_subscription('sub')});
like($left, qr/WARNING:  transactions that the subscription has prepared are left: $gid\n/, 'the transactions that are left are named');
$pub->safe_psql('postgres', "COMMIT PREPARED 'left'");
$sub->safe_psql('postgres', 'DELETE FROM a; DELETE FROM b WHERE id <> 7');
create_subscription($pub, $sub, 'sub', wait => 0, args => q{options => '{"two_phase": true, "conflicts": "apply_remote"}'});
$sub->poll_query_until('postgres', "SELECT count(*) > 0 FROM schemasync_errors WHERE worker = 'copy' AND sqlstate = '55006' AND relation = 'public.b'"
	. " AND message ~ '$gid.*which a subscription had prepared that was dropped' AND hint ~ 'ROLLBACK PREPARED .$gid'") or die 'the copy waits in silence';
pass('a copy that needs what one of them has locked says so');
$sub->poll_query_until('postgres', "SELECT last_error ~ 'could not be copied; public.b: the change waits for transaction .$gid' FROM schemasync_subscriptions")
  or die 'the subscription does not tell';
$sub->safe_psql('postgres', "ROLLBACK PREPARED '$gid'");
$sub->safe_psql('postgres', 'DELETE FROM b WHERE id = 7');
wait_applied($pub, $sub, 'sub');
compare($pub, $sub, 'and goes on when it has ended', '^public\.[ab]$');

done_testing();
