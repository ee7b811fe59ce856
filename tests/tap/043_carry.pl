# With rewrites = carry what a rewrite made of each row is taken from the stream, whatever the expression was.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair(conf => "logical_decoding_work_mem = 64kB\n");
my $db;

sub pub_sql { return $pub->safe_psql($db, $_[0]) }
sub sub_sql { return $sub->safe_psql($db, $_[0]) }

sub applied
{
	my ($what) = @_;
	wait_applied($pub, $sub, "sub_$db", $db);
	compare($pub, $sub, $what, undef, $db);
}

# A change, applied and compared.
sub follows
{
	my ($what, $sql) = @_;
	pub_sql($sql);
	applied($what);
}

sub refused_like
{
	my ($reason, $column, $like, $what) = @_;
	wait_refused($sub, "sub_$db", $reason, $db);
	like(sub_sql("SELECT $column FROM schemasync_refusals WHERE status = 'open'"), $like, $what);
}

sub resume { return sub_sql("SELECT schemasync_resume('sub_$db')") }

sub use_database
{
	my ($name, $publication, $options, $tables) = @_;
	$db = $name;
	$_->safe_psql('postgres', "CREATE DATABASE $name") foreach $pub, $sub;
	$_->safe_psql($name, 'CREATE EXTENSION schemasync') foreach $pub, $sub;
	pub_sql("CREATE PUBLICATION pub FOR ALL TABLES$publication; $tables");
	create_subscription($pub, $sub, "sub_$name", dbname => $name, args => "options => '$options'");
}

# in template1 of both: what defaults call has to be there
$_->safe_psql('template1', q{
	CREATE FUNCTION noise(n int) RETURNS text LANGUAGE sql VOLATILE AS
		$$SELECT string_agg(md5(random()::text || g), '') FROM generate_series(1, n) g$$}) foreach $pub, $sub;
# --- ordinary tables --------------------------------------------------------------------------------------------------

use_database('tables', '', '{"rewrites": "carry"}', q{
	CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text, c int DEFAULT 7, g int GENERATED ALWAYS AS (c * 2) STORED);
	INSERT INTO t SELECT g, g, CASE WHEN g % 50 = 0 THEN noise(300) ELSE 'short' END FROM generate_series(1, 300) g;
	CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t);
	INSERT INTO child SELECT g, g FROM generate_series(1, 300) g;
	CREATE TABLE keyless (v text);
	ALTER TABLE keyless REPLICA IDENTITY FULL;
	INSERT INTO keyless SELECT 'same' FROM generate_series(1, 50);
	CREATE TABLE nothing (v int);
	ALTER TABLE nothing REPLICA IDENTITY NOTHING;
	INSERT INTO nothing SELECT g FROM generate_series(1, 20) g;
	CREATE TABLE by_index (code text NOT NULL, u int UNIQUE NULLS NOT DISTINCT);
	CREATE UNIQUE INDEX by_index_code ON by_index (code) INCLUDE (u);
	ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_code;
	INSERT INTO by_index SELECT 'c' || g, g FROM generate_series(1, 20) g;
	CREATE TABLE empty (id int PRIMARY KEY, a int);
	CREATE TABLE idle (id int PRIMARY KEY, a text);
	INSERT INTO idle SELECT g, g FROM generate_series(1, 10) g;
	CREATE TABLE people (id int PRIMARY KEY, note text);
	INSERT INTO people SELECT g, 'p' || g FROM generate_series(1, 20) g;
	CREATE TABLE parent (id int, a int);
	CREATE TABLE heir (h text) INHERITS (parent);
	INSERT INTO parent SELECT g, g FROM generate_series(1, 5) g;
	INSERT INTO heir SELECT g, g, 'h' FROM generate_series(6, 15) g;
	ALTER TABLE parent REPLICA IDENTITY FULL;
	ALTER TABLE heir REPLICA IDENTITY FULL;
	CREATE TABLE part (id int, a int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
	CREATE TABLE part_2 (a int, junk int, id int NOT NULL);
	ALTER TABLE part_2 DROP junk;
	ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES FROM (100) TO (200);
	CREATE TABLE part_3 PARTITION OF part FOR VALUES FROM (200) TO (300);
	INSERT INTO part SELECT g, g FROM generate_series(1, 150) g;
	CREATE DOMAIN filled AS text NOT NULL;
});

# on an idle table right after the copy
pub_sql(q{ALTER TABLE idle ALTER a TYPE numeric USING a::numeric * random()::numeric, ADD u uuid DEFAULT gen_random_uuid()});
pub_sql('ALTER TABLE idle ALTER a TYPE int USING (a * 1000)::int');
applied('an idle table right after the copy');

follows('a volatile default', 'ALTER TABLE t ADD token uuid NOT NULL DEFAULT gen_random_uuid()');
follows('a volatile USING on the same type', q{
	INSERT INTO t (id, a) VALUES (1001, 1);
	ALTER TABLE t ALTER a TYPE int USING (a * random() * 100)::int});
follows('a USING that is proven is evaluated here, once', 'ALTER TABLE t ALTER a TYPE int USING - a');
is(sub_sql(q{SELECT verdict FROM schemasync_ddl_history WHERE operation = 'rewrite_column' ORDER BY applied_at DESC LIMIT 1}),
	'forward', 'and its carried rows are passed over');
follows('columns in another type, each by its own expression', q{
	ALTER TABLE t ALTER a TYPE text USING a || noise(1), ALTER b TYPE int USING length(b) * random(), ADD rank float8 DEFAULT random()});
follows('a changed key beside a volatile default', q{
	ALTER TABLE child DROP CONSTRAINT child_t_fkey;
	ALTER TABLE t ALTER id TYPE bigint USING id + (random() * 0)::int + 1, ADD again float8 DEFAULT random()});
follows('an identity column and a serial, whose sequences go on', q{
	ALTER TABLE t ADD number int GENERATED ALWAYS AS IDENTITY (START 10 INCREMENT 5), ADD down serial;
	INSERT INTO t (id, a) VALUES (2000, 'next')});
is(sub_sql(q{SELECT nextval('t_number_seq'), nextval('t_down_seq')}), pub_sql(q{SELECT nextval('t_number_seq') - 5, nextval('t_down_seq') - 1}),
	'the next value is that after the carried rows');
follows('a serial key for a table without one', 'ALTER TABLE keyless ADD id bigserial PRIMARY KEY');
follows('without any identity', 'ALTER TABLE nothing ADD r float8 DEFAULT random(), ADD CHECK (r >= 0)');
follows('by an index, and a column that cannot be NULL', q{
	ALTER TABLE by_index ADD r float8 DEFAULT random();
	ALTER TABLE by_index ALTER u TYPE bigint USING 1000 - u + (random() * 0)::int;
	ALTER TABLE by_index ADD f filled DEFAULT noise(1), ADD UNIQUE (f)});
follows('an empty table', q{
	ALTER TABLE empty ADD s bigserial, ADD r float8 DEFAULT random(), ALTER a TYPE text USING a || noise(1);
	INSERT INTO empty (id, a) VALUES (1, 'x')});
follows('inheritance children', q{
	ALTER TABLE parent ADD r float8 CONSTRAINT r_is_there NOT NULL DEFAULT random();
	ALTER TABLE parent ALTER a TYPE int USING (a * random() * 100)::int;
	ALTER TABLE heir ALTER h TYPE text USING noise(1)});
follows('partitions', q{
	ALTER TABLE part ADD r float8 NOT NULL DEFAULT random(), ADD s serial, ADD n float8 CONSTRAINT n_is_there NOT NULL DEFAULT random();
	ALTER TABLE part ALTER a TYPE int USING (a * random() * 100)::int;
	ALTER TABLE part ALTER a TYPE text USING a || noise(1);
	ALTER TABLE part ADD g int GENERATED ALWAYS AS (id + 1) STORED, ADD w float8 NOT NULL DEFAULT random()});
follows('a table that becomes unlogged, and logged again', q{
	ALTER TABLE nothing SET UNLOGGED;
	INSERT INTO nothing VALUES (100, 1);
	ALTER TABLE nothing SET LOGGED;
	INSERT INTO nothing VALUES (101, 1)});
follows('... emptied while it was, or empty before', q{
	ALTER TABLE nothing SET UNLOGGED;
	TRUNCATE nothing;
	ALTER TABLE nothing SET LOGGED;
	ALTER TABLE nothing SET UNLOGGED;
	INSERT INTO nothing VALUES (102, 1);
	ALTER TABLE nothing SET LOGGED});
# the marker of what a trigger does in the command comes before the command's own
pub_sql(q{
	CREATE FUNCTION audit() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN GRANT SELECT ON keyless TO PUBLIC; END$$;
	CREATE EVENT TRIGGER a_first ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION audit()});
follows('... while another event trigger runs commands of its own', q{
	ALTER TABLE nothing SET UNLOGGED;
	INSERT INTO nothing VALUES (103, 1);
	ALTER TABLE nothing SET LOGGED;
	ALTER TABLE nothing ADD noisy float8 DEFAULT random()});
isnt(sub_sql('SELECT count(*) FROM nothing'), '0', '... its rows are here');
pub_sql('DROP EVENT TRIGGER a_first; DROP FUNCTION audit()');
follows('rows and several rewrites in one transaction', q{
	BEGIN;
	UPDATE t SET rank = 1 WHERE id < 50;
	INSERT INTO people VALUES (100, 'new');
	ALTER TABLE t ADD u float8 DEFAULT random();
	UPDATE t SET u = 2 WHERE id < 20;
	ALTER TABLE people ADD p float8 DEFAULT random();
	ALTER TABLE t ALTER u TYPE numeric USING (u * random())::numeric;
	SAVEPOINT one;
	ALTER TABLE t ALTER u TYPE text USING noise(1);
	DELETE FROM t WHERE id < 100;
	ROLLBACK TO one;
	DELETE FROM t WHERE id = 30;
	ALTER TABLE people ALTER note TYPE text USING noise(100);
	CREATE TABLE fresh (id int PRIMARY KEY);
	INSERT INTO fresh SELECT generate_series(1, 5);
	ALTER TABLE fresh ADD r float8 DEFAULT random();
	INSERT INTO fresh VALUES (6);
	COMMIT;
	DELETE FROM people WHERE id = 3;
});
is(sub_sql('SELECT count(*) FROM child'), '300', 'rows that refer to the table stayed');

# while the subscriber is down, and with workers that are ended in the middle
$sub->stop;
pub_sql(q{
	ALTER TABLE people ADD d float8 DEFAULT random(), ADD e int GENERATED BY DEFAULT AS IDENTITY;
	INSERT INTO people (id) SELECT g FROM generate_series(1000, 40000) g;
	ALTER TABLE people ALTER d TYPE text USING d || noise(1);
});
$sub->start;
$sub->poll_query_until($db, q{SELECT state = 'streaming' FROM schemasync_subscriptions});
for (1 .. 3)
{
	sub_sql(q{SELECT pg_terminate_backend(worker_pid) FROM schemasync_subscriptions});
	$sub->poll_query_until($db, q{SELECT worker_pid IS NOT NULL FROM schemasync_subscriptions});
}
$sub->stop('immediate');
$sub->start;
applied('a subscriber that was down, and ended in the middle');

# --- what is only on the subscriber -----------------------------------------------------------------------------------

pub_sql('CREATE TABLE own (id int PRIMARY KEY, v int); INSERT INTO own SELECT g, g FROM generate_series(1, 10) g; '
	. 'CREATE TABLE own_keyless (v int); INSERT INTO own_keyless SELECT g FROM generate_series(1, 10) g;');
applied('tables');
sub_sql(q{
	CREATE TABLE log (id int, what text);
	CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.log VALUES (NEW.id, TG_OP); RETURN NEW; END$$;
	CREATE TRIGGER log AFTER INSERT OR UPDATE ON own FOR EACH ROW EXECUTE FUNCTION log();
	CREATE TRIGGER log_always BEFORE INSERT OR UPDATE ON own FOR EACH ROW EXECUTE FUNCTION log();
	ALTER TABLE own ENABLE REPLICA TRIGGER log, ENABLE ALWAYS TRIGGER log_always;
	ALTER TABLE own ADD note text DEFAULT 'only here';
	UPDATE own SET note = 'note ' || id;
	TRUNCATE log;
	ALTER TABLE own_keyless ADD note text DEFAULT 'only here'});
my $mine = q{SELECT string_agg(note, ',' ORDER BY id) FROM own};
my $notes = sub_sql($mine);
pub_sql(q{ALTER TABLE own ADD token uuid DEFAULT gen_random_uuid(); ALTER TABLE own ALTER v TYPE text USING v || noise(1)});
wait_applied($pub, $sub, 'sub_tables', $db);
my $theirs = q{SELECT string_agg(row(id, v, token)::text, ',' ORDER BY id) FROM own};
is(sub_sql($theirs), pub_sql($theirs), 'rows are found by their key');
is(sub_sql($mine), $notes, 'and columns that are only here keep their values');
is(sub_sql('SELECT count(*) FROM log'), '0', 'no trigger fires');
pub_sql(q{INSERT INTO own (id) VALUES (11)});
wait_applied($pub, $sub, 'sub_tables', $db);
is(sub_sql('SELECT count(*) FROM log'), '2', 'the next row fires them');
sub_sql('ALTER TABLE own DROP note; DROP TABLE log; DROP FUNCTION log() CASCADE');

pub_sql('ALTER TABLE own_keyless ADD token uuid DEFAULT gen_random_uuid()');
refused_like('rewrite_unproven', 'changes', qr/only here, in: note/, 'without a key such a column would lose them');
is(sub_sql('SELECT count(*) FROM own_keyless WHERE note IS NOT NULL'), '10', 'nothing was touched');
sub_sql('ALTER TABLE own_keyless DROP note');
resume();
applied('after the column was dropped');

sub_sql('INSERT INTO own VALUES (500)');
pub_sql('ALTER TABLE own ALTER id TYPE int USING id + (random() * 0)::int');
refused_like('local_drift', 'changes', qr/has 12 rows here and 11 rows on the publisher/, 'a row that is only here');
resume();
refused_like('local_drift', 'changes', qr/12 rows here/, 'is not lost by going on');
sub_sql('DELETE FROM own WHERE id = 500');
resume();
applied('after it was deleted');

sub_sql('UPDATE own SET id = 600 WHERE id = 5');
pub_sql('ALTER TABLE own ADD extra float8 DEFAULT random()');
refused_like('local_drift', 'changes', qr/\(id\)=\(5\)/, 'a row that has another key here');
is(sub_sql('SELECT count(*) FROM own WHERE id = 600'), '1', 'stays');
sub_sql('UPDATE own SET id = 5 WHERE id = 600');
resume();
applied('after its key was set right');

sub_sql(q{
	CREATE ROLE keeper;
	ALTER TABLE own OWNER TO keeper;
	ALTER TABLE own ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY});
pub_sql('ALTER TABLE own ADD guarded float8 DEFAULT random()');
refused_like('apply_failed', 'changes', qr/row-level security/, 'policies that would hide rows');
sub_sql('ALTER TABLE own DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY; ALTER TABLE own OWNER TO postgres');
resume();
applied('after row security was lifted');

# --- rewrites = refuse, then carry --------------------------------------------------------------------------------------

sub_sql(q{SELECT schemasync_alter_subscription('sub_tables', options => '{"rewrites": "refuse"}')});
pub_sql('ALTER TABLE own ADD late float8 DEFAULT random()');
refused_like('volatile_default', 'changes', qr/rewrote 11 rows, which rewrites = carry would bring/, 'the refusal says how many rows');
like(sub_sql(q{SELECT hint FROM schemasync_refusals WHERE status = 'open'}), qr/"rewrites": "carry"/, 'and how to have them');
sub_sql(q{SELECT schemasync_alter_subscription('sub_tables', options => '{"rewrites": "carry"}')});
resume();
applied('the option set after the refusal');
sub_sql(q{SELECT schemasync_drop_subscription('sub_tables')});

# --- published as the root ----------------------------------------------------------------------------------------------

use_database('rooted', ' WITH (publish_via_partition_root = true)', '{"rewrites": "carry"}', q{
	CREATE TABLE part (id int, a int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
	CREATE TABLE part_2 (a int, junk int, id int NOT NULL);
	ALTER TABLE part_2 DROP junk;
	ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES FROM (100) TO (200);
	CREATE TABLE part_3 PARTITION OF part FOR VALUES FROM (200) TO (300);
	INSERT INTO part SELECT g, g FROM generate_series(1, 150) g;
});
follows('partitions published as their root', q{
	ALTER TABLE part ADD r float8 NOT NULL DEFAULT random(), ADD s serial, ADD n float8 CONSTRAINT n_is_there NOT NULL DEFAULT random();
	ALTER TABLE part ALTER a TYPE int USING (a * random() * 100)::int;
	ALTER TABLE part ALTER a TYPE text USING a::text || random()});
# which of the root's rows were those of the partition is not told here
pub_sql('ALTER TABLE part_2 SET UNLOGGED; TRUNCATE part_2; ALTER TABLE part_2 SET LOGGED; INSERT INTO part (id) VALUES (120)');
refused_like('rewrite_unproven', 'changes', qr/rows are published as those of its root/, 'a partition that was emptied while it was unlogged');
sub_sql('DELETE FROM part_2');
resume();
applied('... goes on when it is empty here too');
sub_sql(q{SELECT schemasync_drop_subscription('sub_rooted')});

# --- streamed and prepared transactions ---------------------------------------------------------------------------------

use_database('streamed', '', '{"rewrites": "carry", "streaming": "on", "two_phase": true}', q{
	CREATE TABLE t (id int PRIMARY KEY, a int, b text);
	INSERT INTO t SELECT g, g, repeat('b', 100) FROM generate_series(1, 3000) g;
});
follows('a streamed transaction', q{
	BEGIN;
	INSERT INTO t SELECT g, g FROM generate_series(3001, 6000) g;
	SAVEPOINT one;
	ALTER TABLE t ADD gone float8 DEFAULT random();
	INSERT INTO t SELECT g, g FROM generate_series(6001, 9000) g;
	ROLLBACK TO one;
	ALTER TABLE t ADD r float8 DEFAULT random();
	SAVEPOINT two;
	ALTER TABLE t ALTER a TYPE int USING (a * random())::int;
	INSERT INTO t SELECT g, g FROM generate_series(6001, 9000) g;
	ROLLBACK TO two;
	ALTER TABLE t ADD y int;
	INSERT INTO t SELECT g, g FROM generate_series(6001, 9000) g;
	COMMIT});
cmp_ok($pub->safe_psql('postgres', 'SELECT sum(stream_count) FROM pg_stat_replication_slots'), '>', 0, 'that was streamed');
pub_sql(q{BEGIN; ALTER TABLE t ADD p uuid DEFAULT gen_random_uuid(); UPDATE t SET a = 0 WHERE id < 5; PREPARE TRANSACTION 'x'});
pub_sql(q{COMMIT PREPARED 'x'});
applied('a prepared transaction');
pub_sql(q{BEGIN; ALTER TABLE t ADD q uuid DEFAULT gen_random_uuid(); PREPARE TRANSACTION 'y'});
pub_sql(q{ROLLBACK PREPARED 'y'; ALTER TABLE t ADD q2 uuid DEFAULT gen_random_uuid()});
applied('one that was rolled back');
sub_sql(q{SELECT schemasync_drop_subscription('sub_streamed')});

done_testing();
