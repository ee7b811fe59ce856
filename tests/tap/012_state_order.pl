# A state never goes backwards: a long transaction is decoded, when it commits, under the catalog as of its own rows, while
# an index that was built beside it is told already; in one session of the stream, and over a reconnect in between.
use strict;
use warnings;
use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my ($pub, $sub) = SchemasyncTest::pair(conf => "logical_decoding_work_mem = 64kB\n");

$pub->safe_psql('postgres', q{
	CREATE TYPE mood AS ENUM ('sad', 'ok');
	CREATE TABLE t (id int PRIMARY KEY, v text, m mood);
	INSERT INTO t SELECT i, 'x' FROM generate_series(1, 10) i;
	CREATE PUBLICATION pub FOR ALL TABLES;
	SELECT pg_create_logical_replication_slot('look', 'schemasync_decoder');
});
create_subscription($pub, $sub, 'sub', args => q{options => '{"rewrites": "carry", "streaming": "on"}'});

# A client that stays in its transaction until it is told to commit.
my ($in, $out) = ('', '');
my $timeout = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
my $client = start(['psql', '-X', '-q', '-A', '-t', '-d', $pub->connstr('postgres')], '<', \$in, '>', \$out, $timeout);
$in .= "BEGIN; INSERT INTO t VALUES (100, 'early', 'ok'); SELECT 'begun';\n";
$client->pump until $out =~ /begun/;

# It waits for that transaction to end; but its first step has committed.
my $build = start(['psql', '-X', '-q', '-d', $pub->connstr('postgres'), '-c', 'CREATE INDEX CONCURRENTLY t_v ON t (v)'],
	'<', \undef, '>', \my $build_out, '2>', \my $build_err, $timeout);
$pub->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting%'})
  or die 'the index build did not begin to wait';
$pub->safe_psql('postgres', q{
	ALTER TYPE mood ADD VALUE 'happy';
	INSERT INTO t VALUES (101, 'beside', 'happy');
});
wait_applied($pub, $sub, 'sub');

# a new session of the stream knows nothing of what the last one told
$pub->safe_psql('postgres', q{SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL});
$in .= "COMMIT;\n\\q\n";
$client->finish;
$build->finish;
is($build_err, '', 'the index was built');
$pub->safe_psql('postgres', q{INSERT INTO t VALUES (102, 'late', 'happy')});
wait_applied($pub, $sub, 'sub');
compare($pub, $sub, 'nothing was taken back on the subscriber');

my $told = $pub->safe_psql('postgres', q{
	SELECT string_agg(CASE WHEN m->>'message' = 'insert' THEN m->'new'->>0
		ELSE concat(replace(m->>'prefix', 'schemasync.', ''), '(', (SELECT string_agg(i->>'name' || ' ' || (i->>'valid'), ',')
				FROM jsonb_array_elements(CASE WHEN m->'content' ? 'relation' THEN m->'content'->'relation'->'indexes'
					ELSE m->'content'->'relations'->0->'indexes' END) i), ')',
			(SELECT string_agg(l->>'label', ',') FROM jsonb_array_elements(m->'content'->'types'->0->'labels') l)) END, ' ')
	FROM (SELECT schemasync_decode(data) AS m FROM pg_logical_slot_get_binary_changes('look', NULL, NULL,
		'proto_version', '1', 'publication_names', 'pub', 'schemasync', '1')) x
	WHERE m->>'message' IN ('insert', 'message')});
is($told, 'ddl()sad,ok,happy state(t_pkey true,t_v false)sad,ok,happy 101 100 ddl(t_pkey true,t_v true)sad,ok,happy 102',
	'in one session the older state stays unsaid');

# A transaction is streamed in chunks, and between two of them another one is decoded in which what the first one made is not there.
$pub->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('chunks', 'schemasync_decoder')});
($in, $out) = ('', '');
$client = start(['psql', '-X', '-q', '-A', '-t', '-d', $pub->connstr('postgres')], '<', \$in, '>', \$out, $timeout);
$in .= "BEGIN; ALTER TABLE t ADD s serial; INSERT INTO t SELECT i, repeat('x', 100), 'ok' FROM generate_series(1000, 2500) i; SELECT 'begun';\n";
$client->pump until $out =~ /begun/;
$pub->safe_psql('postgres', q{CREATE TABLE beside (i int PRIMARY KEY); INSERT INTO beside VALUES (1)});
$in .= "ALTER TABLE t ADD e int; INSERT INTO t VALUES (3000, 'end', 'ok');\nCOMMIT;\n\\q\n";
$client->finish;
$told = $pub->safe_psql('postgres', q{
	SET logical_decoding_work_mem = '64kB';
	SELECT d FROM (SELECT schemasync_decode(data)::text AS d FROM pg_logical_slot_get_binary_changes('chunks', NULL, NULL,
		'proto_version', '2', 'streaming', 'on', 'publication_names', 'pub', 'schemasync', '1', 'rewrites', 'carry')) x
	WHERE d ~ 'nextval|stream_start|"beside"'});
like($told, qr/stream_start.*"beside".*stream_start.*nextval/s, 'the other one comes between two chunks');
unlike($told, qr/nextval\('\d|"name": "\?"/, 'what was not there for the other one is there in the next chunk');

# The last thing before a commit is the marker of another transaction: its position is that of the commit, and its catalog the one before.
$pub->safe_psql('postgres', 'CREATE TABLE other (i int PRIMARY KEY)');
wait_applied($pub, $sub, 'sub');
($in, $out) = ('', '');
my ($in2, $out2) = ('', '');
$client = start(['psql', '-X', '-q', '-A', '-t', '-d', $pub->connstr('postgres')], '<', \$in, '>', \$out, $timeout);
my $client2 = start(['psql', '-X', '-q', '-A', '-t', '-d', $pub->connstr('postgres')], '<', \$in2, '>', \$out2, $timeout);
$in .= "BEGIN; ALTER TABLE t DROP COLUMN e; SELECT 'begun';\n";
$client->pump until $out =~ /begun/;
$in2 .= "BEGIN; ALTER TABLE other ADD o int; SELECT 'begun';\n";
$client2->pump until $out2 =~ /begun/;
$in .= "COMMIT;\n\\q\n";
$client->finish;
$in2 .= "COMMIT;\n\\q\n";
$client2->finish;
wait_applied($pub, $sub, 'sub');
compare($pub, $sub, 'a column that another transaction dropped stays dropped');
is($sub->safe_psql('postgres', q{SELECT string_agg(operation, ' ' ORDER BY history_id) FROM schemasync_ddl_history WHERE object_identity ~ 't[.]e$'}),
	'add_column drop_column', 'it was never added again');

# A streamed transaction's changes take their place at its commit, for a client that hears of the older state in another session, too.
($in, $out, $in2, $out2) = ('', '', '', '');
$client = start(['psql', '-X', '-q', '-A', '-t', '-d', $pub->connstr('postgres')], '<', \$in, '>', \$out, $timeout);
$client2 = start(['psql', '-X', '-q', '-A', '-t', '-d', $pub->connstr('postgres')], '<', \$in2, '>', \$out2, $timeout);
$in .= "BEGIN; ALTER TYPE mood ADD VALUE 'late'; INSERT INTO other SELECT generate_series(1, 3000); SELECT 'begun';\n";
$client->pump until $out =~ /begun/;
$in2 .= "BEGIN; INSERT INTO t VALUES (4000, 'older', 'ok'); SELECT 'begun';\n";
$client2->pump until $out2 =~ /begun/;
$in .= "INSERT INTO other SELECT generate_series(5001, 6000); COMMIT;\n\\q\n";
$client->finish;
wait_applied($pub, $sub, 'sub');
$pub->safe_psql('postgres', q{SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL});
$in2 .= "COMMIT;\n\\q\n";
$client2->finish;
wait_applied($pub, $sub, 'sub');
compare($pub, $sub, 'a label that a streamed transaction added stays');

$pub->stop;
$sub->stop;
done_testing();
