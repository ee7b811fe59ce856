# indexes = background: built beside the stream, whatever happens meanwhile to the worker, the server, the table and the index. A session with
# an old snapshot holds every build back in its last phase, so that each thing that is tested surely happens during one.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my ($pub, $sub) = SchemasyncTest::pair();
$sub->append_conf('postgresql.conf', "restart_after_crash = on\n");
$sub->restart;

sub pub_sql { return $pub->safe_psql('postgres', $_[0]) }
sub sub_sql { return $sub->safe_psql('postgres', $_[0]) }

sub until_true
{
	my ($query, $what) = @_;
	$sub->poll_query_until('postgres', "SELECT coalesce(($query), false)")
	  or die "not reached: $what\n" . sub_sql('SELECT * FROM schemasync_progress') . "\n" . sub_sql('SELECT message, detail FROM schemasync_errors');
	return;
}

my $holder;

sub hold
{
	$holder = $sub->background_psql('postgres', on_error_stop => 0);
	$holder->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
	return;
}

sub let_go
{
	$holder->query('COMMIT');
	$holder->quit;
	return;
}

sub until_waiting
{
	my ($index) = @_;
	until_true("SELECT phase = 'waiting for old snapshots' FROM schemasync_progress WHERE index_name = '$index'", "$index waits");
	return;
}

# A build of this index waits for the session.
sub begin_held
{
	my ($sql, $index) = @_;
	hold();
	pub_sql($sql);
	until_waiting($index);
	return;
}

sub all_built { until_true('SELECT count(*) = 0 FROM schemasync.index_build', 'the queue is empty'); return; }

sub level
{
	my ($what) = @_;
	wait_applied($pub, $sub, 'sub');
	all_built();
	compare($pub, $sub, $what);
	is(sub_sql('SELECT count(*) FROM pg_index WHERE NOT indisvalid'), '0', "$what: no invalid index is left");
	return;
}

sub invalid { return sub_sql(q{SELECT coalesce(string_agg(indexrelid::regclass::text, ','), '') FROM pg_index WHERE NOT indisvalid}) }

sub detail_of
{
	my ($index) = @_;
	return sub_sql("SELECT detail FROM schemasync_ddl_history WHERE operation = 'create_index' AND object_identity ~ '\\m$index\$'");
}

pub_sql(q{
	CREATE TABLE big (id int PRIMARY KEY, a int, b text, c int, d int);
	INSERT INTO big SELECT i, i % 100, 'b' || i, i, i FROM generate_series(1, 5000) i;
	CREATE INDEX from_before ON big (a);
	CREATE UNIQUE INDEX unique_from_before ON big (c);
	CREATE TABLE child (id int PRIMARY KEY, c int REFERENCES big (c));
	CREATE TABLE other (id int PRIMARY KEY, v int NOT NULL, w int);
	INSERT INTO other SELECT i, i, i FROM generate_series(1, 100) i;
	CREATE TABLE part (id int, v int) PARTITION BY RANGE (id);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
	INSERT INTO part SELECT i, i FROM generate_series(1, 50) i;
	CREATE PUBLICATION pub FOR ALL TABLES;
});
create_subscription($pub, $sub, 'sub', args => q{options => '{"indexes": "background"}'});
level('initial copy');

# --- built beside the stream, and seen there -------------------------------------------------------------------------

begin_held('CREATE INDEX i_a ON big (a, lower(b)) WHERE d > 3', 'i_a');
is(sub_sql(q{SELECT operation, relation, index_name, unit, worker_pid = (SELECT pid FROM pg_stat_activity WHERE backend_type = 'schemasync index sub')
	FROM schemasync_progress}), 'index|public.big|i_a|transactions|t', 'the build is in schemasync_progress');
pub_sql('INSERT INTO big SELECT i, i, i::text, i, i FROM generate_series(10001, 10100) i; UPDATE big SET b = upper(b) WHERE id < 50');
wait_applied($pub, $sub, 'sub');
compare_tables($pub, $sub, 'the stream goes on');
is(sub_sql(q{SELECT difference || '|' || detail FROM schemasync_diff('sub')}),
	'index is missing on the subscriber|It is in the queue of the index worker.', 'schemasync_diff knows of the queue');
is(detail_of('i_a'), 'Queued: the index worker builds it.', 'the history says that it is queued');
let_go();
level('one index');
is(detail_of('i_a'), 'Built by the index worker.', '... and then that it is built');
is(sub_sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'schemasync index sub'}), '0', 'the worker ends when there is nothing left');

# --- killed --------------------------------------------------------------------------------------------------------------

begin_held('CREATE INDEX i_killed ON big (d)', 'i_killed');
is(invalid(), 'i_killed', 'an invalid index is there while it is built');
kill 'KILL', sub_sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'schemasync index sub'});
$holder->{run}->finish;
$sub->poll_query_until('postgres', 'SELECT true') or die 'the server does not come back';
level('the worker was killed');
begin_held('CREATE INDEX i_crash ON big (d, a)', 'i_crash');
$sub->stop('immediate');
$holder->{run}->finish;
$sub->start;
level('the server was killed');
begin_held('CREATE INDEX i_stop ON big (d, b)', 'i_stop');
sub_sql(q{SELECT schemasync_stop('sub')});
is(sub_sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^schemasync (index|apply)'}), '0', 'schemasync_stop ends the worker');
is(sub_sql('SELECT phase FROM schemasync_progress'), 'queued', 'what is not done stays in the queue');
sub_sql(q{SELECT schemasync_start('sub')});
until_waiting('i_stop');
let_go();
level('stopped and started');

# --- the table and the index change during the build -----------------------------------------------------------------------

begin_held('CREATE INDEX i_changed ON big (a DESC, d)', 'i_changed');
pub_sql(q{
	BEGIN;
	INSERT INTO big VALUES (20001, 1, '1', 20001, 1);
	ALTER TABLE big RENAME a TO a2;
	UPDATE big SET a2 = -a2 WHERE id < 20;
	ALTER TABLE big ADD e int DEFAULT 5;
	ALTER INDEX i_changed RENAME TO i_renamed;
	ALTER TABLE big RENAME TO large;
	INSERT INTO large VALUES (20002, 1, '2', 20002, 1);
	COMMIT;
});
wait_applied($pub, $sub, 'sub');
compare_tables($pub, $sub, 'changes during a build do not wait for it');
until_waiting('i_renamed');
pub_sql('ALTER TABLE large ALTER d TYPE bigint');
wait_applied($pub, $sub, 'sub');
until_waiting('i_renamed');
pub_sql('TRUNCATE other; COMMENT ON TABLE large IS $$x$$; CREATE TABLE ref (id int PRIMARY KEY REFERENCES large)');
wait_applied($pub, $sub, 'sub');
let_go();
level('table and index were changed');
begin_held('CREATE INDEX i_dropped ON large (a2, b, d)', 'i_dropped');
pub_sql('DROP INDEX i_dropped');
wait_applied($pub, $sub, 'sub');
is(sub_sql('SELECT count(*) FROM schemasync.index_build') . invalid(), '0', 'DROP INDEX takes it from the queue, and what was begun from the table');
is(detail_of('i_dropped'), 'Dropped on the publisher before it was built.', 'the history says so');
pub_sql('CREATE INDEX i_column ON large (e)');
until_waiting('i_column');
pub_sql('ALTER TABLE large DROP COLUMN e');
wait_applied($pub, $sub, 'sub');
is(sub_sql('SELECT count(*) FROM schemasync.index_build') . invalid(), '0', 'so does DROP COLUMN');
pub_sql('INSERT INTO other VALUES (1, 1); CREATE INDEX i_truncated ON other (w)');
until_waiting('i_truncated');
pub_sql('BEGIN; INSERT INTO other VALUES (2, 2); TRUNCATE other; INSERT INTO other SELECT i, i FROM generate_series(1, 9) i; COMMIT');
wait_applied($pub, $sub, 'sub');
compare_tables($pub, $sub, 'TRUNCATE does not wait for a build');
pub_sql('DROP TABLE other');
wait_applied($pub, $sub, 'sub');
is(sub_sql('SELECT count(*) FROM schemasync.index_build'), '0', 'DROP TABLE takes all of it from the queue');

# --- changes without end ---------------------------------------------------------------------------------------------------

let_go();
pub_sql(q{
	CREATE FUNCTION slowly(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.002); RETURN $1; END';
	CREATE TABLE busy (id int PRIMARY KEY, v int); INSERT INTO busy SELECT i, i FROM generate_series(1, 600) i;
});
sub_sql(q{CREATE FUNCTION slowly(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.002); RETURN $1; END'});
pub_sql('CREATE INDEX i_starved ON busy (slowly(v))');
my $times = 0;
while ($times++ < 40)
{
	until_true(q{SELECT count(*) = 0 OR (SELECT worker_pid IS NOT NULL FROM schemasync_progress WHERE index_name = 'i_starved') FROM schemasync.index_build},
		'i_starved is being built');
	my $before = sub_sql('SELECT interruptions FROM schemasync.index_build');
	last if $before eq '';
	pub_sql("ALTER TABLE busy SET (fillfactor = @{[50 + $times]})");
	until_true("SELECT count(*) = 0 FROM schemasync.index_build WHERE interruptions <= $before", 'a change has ended the build, or waits for it');
	like(sub_sql(q{SELECT detail FROM schemasync_progress}), qr/^(A change|Changes) of the table ha(s|ve) ended (an|\d+) attempts?\.$/, 'how often it was ended is shown') if $times == 1;
	is(sub_sql('SELECT interruptions FROM schemasync.index_build WHERE interruptions <> 0'), 1, 'an attempt that was ended counts once') if $times == 1;
}
cmp_ok($times, '<', 40, 'the index is built although changes of the table do not end');
level('starved');
hold();
pub_sql('CREATE INDEX i_held ON busy (id, v)');
until_waiting('i_held');
$sub->safe_psql('postgres', q{UPDATE schemasync.index_build SET interruptions = stood_at + 4});
pub_sql('ALTER TABLE busy SET (fillfactor = 99); INSERT INTO busy VALUES (-1, -1)');
until_true(q{SELECT state = 'waiting_lock' FROM schemasync_subscriptions}, 'the view says that the stream stands');
wait_applied($pub, $sub, 'sub');
cmp_ok(sub_sql('SELECT stood_at FROM schemasync.index_build'), '>=', 5, 'the stream goes on when the build is held back by another session');
let_go();
level('held back');
hold();

# --- what other changes need is not late -----------------------------------------------------------------------------------

pub_sql('CREATE UNIQUE INDEX i_late ON large (b, id)');
until_waiting('i_late');
pub_sql('CREATE UNIQUE INDEX i_referenced ON large (d, id); CREATE TABLE pair (d bigint, id int, FOREIGN KEY (d, id) REFERENCES large (d, id))');
wait_applied($pub, $sub, 'sub');
like(detail_of('i_referenced'), qr/because another change needed it/, 'a foreign key gets its index at once');
pub_sql(q{CREATE TABLE odd ("a, b" int, "c) REFERENCES d(e" int, "q"", q" int); INSERT INTO odd SELECT i, i, i FROM generate_series(1, 50) i});
pub_sql(q{
	CREATE UNIQUE INDEX i_odd ON odd ("a, b", "c) REFERENCES d(e");
	CREATE UNIQUE INDEX i_unneeded ON odd ("q"", q", "a, b");
	CREATE TABLE odd_pair ("a, b" int, "x, y" int, FOREIGN KEY ("a, b", "x, y") REFERENCES odd ("a, b", "c) REFERENCES d(e"));
});
wait_applied($pub, $sub, 'sub');
like(detail_of('i_odd'), qr/because another change needed it/, '... whatever its columns are called');
is(detail_of('i_unneeded'), 'Queued: the index worker builds it.', '... and no other');
pub_sql(q{
	CREATE TABLE keyless (id int NOT NULL, v int);
	INSERT INTO keyless SELECT i, i FROM generate_series(1, 50) i;
	CREATE UNIQUE INDEX i_identity ON keyless (id);
});
until_true(q{SELECT count(*) = 1 FROM schemasync.index_build WHERE index_name = 'i_identity'}, 'i_identity is queued');
pub_sql('ALTER TABLE keyless REPLICA IDENTITY USING INDEX i_identity; UPDATE keyless SET v = -v');
wait_applied($pub, $sub, 'sub');
like(detail_of('i_identity'), qr/because another change needed it/, 'so does a replica identity');
compare_tables($pub, $sub, 'the replica identity is there for the rows');
pub_sql(q{CREATE UNIQUE INDEX i_constraint ON keyless (v); ALTER TABLE keyless ADD CONSTRAINT i_constraint UNIQUE USING INDEX i_constraint});
wait_applied($pub, $sub, 'sub');
pub_sql('CREATE INDEX i_part ON part (v); ALTER TABLE large ADD UNIQUE (id, a2)');
wait_applied($pub, $sub, 'sub');
is(sub_sql(q{SELECT string_agg(index_name, ',' ORDER BY index_name) FROM schemasync.index_build}), 'i_late,i_unneeded', 'constraints, and indexes of partitioned tables, are not queued');
let_go();
level('what others need');

# --- one that fails ----------------------------------------------------------------------------------------------------------

sub_sql(q{INSERT INTO large (id, a2, b, c, d) VALUES (-1, 1, 'twice', -1, 1), (-2, 1, 'twice', -2, 1)});
pub_sql('CREATE UNIQUE INDEX i_unique ON large (b)');
until_true(q{SELECT phase = 'failed' FROM schemasync_progress WHERE index_name = 'i_unique'}, 'the build fails');
like(sub_sql(q{SELECT worker || '|' || relation || '|' || command || '|' || key || '|' || message || '|' || detail FROM schemasync_errors WHERE resolved_at IS NULL}),
	qr/^index\|public\.large\|CREATE INDEX\|i_unique\|could not create unique index "i_unique"\|Key \(b\)=\(twice\) is duplicated/, 'the error is recorded');
is(sub_sql(q{SELECT state FROM schemasync_subscriptions}), 'streaming', 'the stream goes on');
until_true('SELECT count(*) = 0 FROM pg_index WHERE NOT indisvalid', 'what failed is dropped');
my ($go_on) = sub_sql(q{SELECT hint FROM schemasync_errors WHERE resolved_at IS NULL}) =~ /(SELECT schemasync_start.*;)/;
sub_sql(q{DELETE FROM large WHERE id < 0});
sub_sql($go_on);
level('repaired, and tried again as the hint says');
is(sub_sql('SELECT count(*) FROM schemasync_errors WHERE resolved_at IS NULL'), '0', 'the error is resolved');

# only its own invalid indexes are dropped
my (undef, undef, undef) = $sub->psql('postgres', q{INSERT INTO large (id, c, d) VALUES (-1, -1, -1), (-2, -2, -1)});
$sub->psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY i_taken ON large (d)');
sub_sql(q{DELETE FROM large WHERE id < 0});
is(invalid(), 'i_taken', 'a person left an invalid index');
my $refused = pub_sql('CREATE INDEX i_taken ON large (c, d); SELECT 1');
my $id = wait_refused($sub, 'sub', 'local_name_taken');
is(sub_sql("SELECT suggested_sql FROM schemasync_refusals WHERE refusal_id = $id"), 'DROP INDEX "public"."i_taken"', 'it is named, and not dropped');
sub_sql(sub_sql("SELECT suggested_sql FROM schemasync_refusals WHERE refusal_id = $id"));
sub_sql(q{SELECT schemasync_resume('sub')});
level('the name is free');

# --- while the subscription is refused, and dropped ----------------------------------------------------------------------------

begin_held('CREATE INDEX i_refused ON large (c, b)', 'i_refused');
pub_sql('ALTER TABLE large ADD token uuid DEFAULT gen_random_uuid()');
wait_refused($sub, 'sub', 'volatile_default');
let_go();
until_true(q{SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('i_refused')}, 'a refusal does not stop a build');
all_built();
hold();
$id = sub_sql(q{SELECT refusal_id FROM schemasync_refusals WHERE status = 'open'});
sub_sql("SELECT schemasync_resolve($id, 'execute', 'ALTER TABLE large ADD token uuid')");
pub_sql('CREATE INDEX i_gone ON large (c, d, b)');
until_waiting('i_gone');
sub_sql(q{SELECT schemasync_drop_subscription('sub')});
is(sub_sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^schemasync (index|apply)'}) . invalid(), '0',
	'dropping the subscription ends the build and takes what was begun along');
let_go();
done_testing();
