# Several tables at once, a large one in parts, one that cannot be copied, and what happens to tables on the publisher before, while and after
# they are copied; killed in the middle.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;
use IPC::Run;

my ($pub, $sub) = SchemasyncTest::pair();

sub tables
{
	my ($where) = @_;
	return $sub->safe_psql('postgres', "SELECT string_agg(relation || ' ' || state, ', ' ORDER BY relation) FROM schemasync_tables WHERE $where");
}

# A row with this id waits here for the advisory lock 1.
sub hold_up
{
	my ($table, $id) = @_;
	$sub->safe_psql('postgres', "CREATE TRIGGER hold BEFORE INSERT ON $table FOR EACH ROW WHEN (NEW.id = $id) EXECUTE FUNCTION hold();"
		  . " ALTER TABLE $table ENABLE ALWAYS TRIGGER hold");
}

$sub->safe_psql('postgres', 'CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END$$');
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE big (id int PRIMARY KEY, v int, pad text DEFAULT repeat('x', 100));
INSERT INTO big SELECT i, i FROM generate_series(1, 20000) i;
CREATE INDEX ON big (v);
CREATE TABLE first_one (id int PRIMARY KEY, v int);
INSERT INTO first_one SELECT i, i FROM generate_series(1, 500) i;
CREATE TABLE later (id int PRIMARY KEY, v int, big int REFERENCES big);
INSERT INTO later SELECT i, i, i FROM generate_series(1, 100) i;
CREATE TABLE emptied (id int PRIMARY KEY);
INSERT INTO emptied SELECT generate_series(1, 100);
ANALYZE;
CREATE PUBLICATION pub FOR TABLE big, first_one, later, emptied;
SQL

# --- in parts, killed in the middle, altered before it goes on
$sub->safe_psql('postgres', 'CREATE TABLE big (id int, v int, pad text)');
hold_up('big', 15000);
my $holder = $sub->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
create_subscription($pub, $sub, 'app', wait => 0, args => 'options => \'{"copy_workers": 3, "copy_part_size": "128kB"}\'');
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM schemasync_tables WHERE relation = 'public.big' AND copied_rows > 10000")
  or die 'no part of the large table is committed';
$sub->poll_query_until('postgres', "SELECT count(*) = 3 FROM schemasync_tables WHERE state = 'ready'") or die 'the others are not ready';
is(tables("state <> 'ready'"), 'public.big copying', 'the others are copied while one part of the large table is held up');
is($sub->safe_psql('postgres', 'SELECT count(*) BETWEEN 10000 AND 19999 FROM big'), 't', 'its other parts are there');
is( $sub->safe_psql('postgres', "SELECT phase, unit, done > 10000, total BETWEEN 15000 AND 25000, estimated_end > now() FROM schemasync_progress WHERE relation = 'public.big'"),
	'copying|rows|t|t|t', 'progress shows the table');
is( $sub->safe_psql('postgres', "SELECT phase, done > 10700, total > 15700, estimated_end > now(), rate > 0 FROM schemasync_progress WHERE relation IS NULL"),
	'all tables|t|t|t|t', '... and the whole');
like($sub->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'schemasync copy app'"), qr/^[012]$/, 'helpers bear the name of a copy worker');
$sub->stop('immediate');
$holder->{run}->finish;
$pub->safe_psql('postgres', 'UPDATE big SET v = -v WHERE id < 100; ALTER TABLE big ADD extra int DEFAULT 7; INSERT INTO big VALUES (20001, 1);'
	  . ' ALTER TABLE first_one RENAME v TO w; UPDATE first_one SET w = 0 WHERE id < 10; DELETE FROM big WHERE id BETWEEN 200 AND 300 AND id NOT IN (SELECT big FROM later)');
$sub->start;
$sub->poll_query_until('postgres', "SELECT count(*) = 4 FROM schemasync_tables WHERE state = 'ready'") or die 'the copy did not go on';
wait_applied($pub, $sub, 'app');
$sub->safe_psql('postgres', 'DROP TRIGGER hold ON big; ALTER TABLE big ADD PRIMARY KEY (id); CREATE INDEX big_v_idx ON big (v)');
compare_tables($pub, $sub, 'copied in parts, killed and gone on');
compare($pub, $sub, 'the tables that were made', '^public\.(first_one|emptied)$');
is($sub->safe_psql('postgres', "SELECT count(*) FROM schemasync_errors WHERE resolved_at IS NULL"), '0', 'no error is left');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('app'); DROP TABLE later, big, first_one, emptied");

# --- one worker; altered on the publisher while another table is copied: nothing waits there for the end of the copy
$sub->safe_psql('postgres', 'CREATE TABLE big (id int PRIMARY KEY, v int, pad text, extra int)');
hold_up('big', 15000);
$holder = $sub->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
create_subscription($pub, $sub, 'app', wait => 0, args => 'options => \'{"copy_workers": 1}\'');
$sub->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") or die 'the copy is not held up';
$pub->safe_psql('postgres', "SET lock_timeout = '20 s'; ALTER TABLE later ADD extra text DEFAULT 'e'; ALTER TABLE later ALTER v TYPE bigint; ALTER TABLE later RENAME v TO w;"
	  . ' INSERT INTO later VALUES (101, 101, 101); TRUNCATE emptied; INSERT INTO emptied VALUES (-1); ALTER TABLE first_one ADD note text; UPDATE first_one SET note = id');
ok(1, 'tables that wait for their copy can be altered');
is(tables("state = 'ready'"), '', 'none is ready yet');
$holder->query_safe('SELECT pg_advisory_unlock(1)');
$holder->quit;
$sub->poll_query_until('postgres', "SELECT count(*) = 4 FROM schemasync_tables WHERE state = 'ready'") or die 'the altered tables were not copied';
wait_applied($pub, $sub, 'app');
$sub->safe_psql('postgres', 'DROP TRIGGER hold ON big; CREATE INDEX ON big (v)');
compare_tables($pub, $sub, 'altered before their copy');
compare($pub, $sub, 'altered before their copy', '^public\.(first_one|emptied|later)$');
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('app'); DROP TABLE later, big, first_one, emptied");

# --- one table cannot be copied: the others are, and the stream goes on with them
$sub->safe_psql('postgres', 'CREATE TABLE later (id int PRIMARY KEY, w bigint, big int, extra text, CONSTRAINT small CHECK (id < 50))');
create_subscription($pub, $sub, 'app', wait => 0);
wait_state($sub, 'app', 'streaming');
$sub->poll_query_until('postgres', "SELECT count(*) = 3 FROM schemasync_tables WHERE state = 'ready'") or die 'the others are not ready';
is(tables("state <> 'ready'"), 'public.later init', 'the table that fails waits');
is($sub->safe_psql('postgres', "SELECT worker, relation, resolved_at IS NULL FROM schemasync_errors"), 'copy|public.later|t', 'and the error names it');
$pub->safe_psql('postgres', 'ALTER TABLE big ADD b int DEFAULT 3; INSERT INTO big VALUES (30000); UPDATE later SET w = 0 WHERE id = 5; ALTER TABLE later ADD c int');
$sub->poll_query_until('postgres', 'SELECT count(*) = 1 FROM big WHERE id = 30000') or die 'the stream stands';
$sub->safe_psql('postgres', 'ALTER TABLE later DROP CONSTRAINT small');
$sub->poll_query_until('postgres', "SELECT count(*) = 4 FROM schemasync_tables WHERE state = 'ready'") or die 'the table was not copied in the end';
wait_applied($pub, $sub, 'app');
compare_tables($pub, $sub, 'after the reason was removed');
is($sub->safe_psql('postgres', "SELECT count(*) FROM schemasync_errors WHERE resolved_at IS NULL"), '0', 'the error is resolved');

# --- many small tables, with foreign keys in a circle and partitions
$sub->safe_psql('postgres', "SELECT schemasync_drop_subscription('app'); DROP TABLE later, big, first_one, emptied");
$pub->safe_psql('postgres', q{DO $$BEGIN FOR i IN 1..150 LOOP
	EXECUTE format('CREATE TABLE many_%s (id int PRIMARY KEY, v int UNIQUE)', i);
	EXECUTE format('INSERT INTO many_%s SELECT g, g FROM generate_series(1, %s) g', i, i);
END LOOP; FOR i IN 1..149 LOOP
	EXECUTE format('ALTER TABLE many_%s ADD FOREIGN KEY (id) REFERENCES many_%s', i, i + 1);
END LOOP; END$$;
CREATE TABLE parted (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (5000);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (5000) TO (20000);
CREATE INDEX parted_v ON parted (v);
INSERT INTO parted SELECT i, i FROM generate_series(1, 10000) i;
DROP PUBLICATION pub; CREATE PUBLICATION pub FOR ALL TABLES});
create_subscription($pub, $sub, 'app', args => 'options => \'{"copy_workers": 2, "copy_part_size": "64kB"}\'');
compare($pub, $sub, 'many tables');
is($sub->safe_psql('postgres', "SELECT count(*) FROM schemasync_tables WHERE state <> 'ready'"), '0', 'all are ready');

# --- a migration that goes on and on while the copy begins: there is no moment between the snapshot and the description in which nothing is altered
$sub->safe_psql('postgres', q{SELECT schemasync_drop_subscription('app'); DROP SCHEMA public CASCADE; CREATE SCHEMA public});
$sub->safe_psql('postgres', 'DROP EXTENSION IF EXISTS schemasync CASCADE; CREATE EXTENSION schemasync');
my $migration = $pub->basedir . '/migration.sql';
append_to_file($migration, <<'SQL');
\set i random(1, 150)
\set f random(20, 100)
ALTER TABLE many_:i SET (fillfactor = :f), ALTER v SET DEFAULT :f;
\sleep 30 ms
SQL
my ($out, $err) = ('', '');
local $ENV{PGHOST} = $pub->host;
my $bench = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-T', '1000', '-f', $migration, $pub->connstr('postgres') ], '>', \$out, '2>', \$err);
create_subscription($pub, $sub, 'app', wait => 0);
$sub->poll_query_until('postgres', "SELECT state = 'streaming' FROM schemasync_subscriptions") or die 'the copy did not come to an end';
$bench->signal('TERM');
$bench->finish;
my $left = () = slurp_file($sub->logfile) =~ /is altered while the copy begins/g;
cmp_ok($left, '>', 0, 'tables were left for later') or diag($err);
$sub->poll_query_until('postgres', "SELECT count(*) = 0 FROM schemasync_tables WHERE state <> 'ready'") or die 'what was left is not copied';
wait_applied($pub, $sub, 'app');
compare($pub, $sub, 'copied under a migration');

done_testing();
