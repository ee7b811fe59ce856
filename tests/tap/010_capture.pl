# Capture and what other sessions and the server's settings do: a user's DDL waits for nothing and fails for nothing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my $node = new_node('capture');
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('s', 'test_decoding')});

sub markers
{
	return $node->safe_psql('postgres', q{
		SELECT string_agg(substr(data, strpos(data, 'content:') + 8)::json->>'tag', ', ')
		FROM pg_logical_slot_get_changes('s', NULL, NULL)
		WHERE data LIKE 'message: transactional: 1 prefix: schemasync.marker,%'});
}

# The key's table held exclusively: no waiting, no marker.
my $holder = $node->background_psql('postgres', on_error_stop => 0);
$holder->query_safe('BEGIN; LOCK TABLE schemasync.capture_key IN ACCESS EXCLUSIVE MODE');
$node->safe_psql('postgres', q{SET lock_timeout = '5s'; CREATE TABLE a (i int); ALTER TABLE a ADD j int});
is(markers(), '', 'no marker while the key is locked, and no waiting either');
$holder->query_safe('COMMIT');
$node->safe_psql('postgres', 'ALTER TABLE a ADD k int');
is(markers(), 'ALTER TABLE', 'and there is one afterwards');

# DROP EXTENSION in another session, not yet committed.
$holder->query_safe('BEGIN; DROP EXTENSION schemasync');
$node->safe_psql('postgres', q{SET lock_timeout = '5s'; CREATE TABLE b (i int)});
pass('DDL goes on while the extension is being dropped');
$holder->query_safe('ROLLBACK');
$holder->quit;
markers();

# Prepared transactions carry their markers.
$node->safe_psql('postgres', q{BEGIN; CREATE TABLE p (i int); PREPARE TRANSACTION 'x'});
is(markers(), '', 'nothing before a prepared transaction is committed');
$node->safe_psql('postgres', q{COMMIT PREPARED 'x'});
is(markers(), 'CREATE TABLE', 'its marker comes with it');

# Below wal_level = logical nothing is written.
$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('s')});
$node->append_conf('postgresql.conf', "wal_level = replica\n");
$node->restart;
my $before = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$node->safe_psql('postgres', 'CREATE TABLE c (i int); ALTER TABLE c ADD j float8 DEFAULT random(); DROP TABLE c');
my $after = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
my ($dump) = run_command(['pg_waldump', '-r', 'LogicalMessage', '-p', $node->data_dir . '/pg_wal', '-s', $before, '-e', $after]);
is($dump, '', 'no logical message without wal_level = logical');

$node->stop;
done_testing();
