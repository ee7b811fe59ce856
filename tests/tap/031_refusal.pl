# The life of a refusal: it holds the position before the transaction, survives restarts of worker and server, is one row and
# one log entry, and ends in each of the documented ways. What stands in the way on the subscriber is refused by its name.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my ($pub, $sub) = SchemasyncTest::pair();
my $table = 0;

sub pub_sql { return $pub->safe_psql('postgres', $_[0]) }
sub sub_sql { return $sub->safe_psql('postgres', $_[0]) }

sub refusal
{
	my ($columns, $id) = @_;
	return sub_sql("SELECT $columns FROM schemasync_refusals WHERE refusal_id = $id");
}

sub log_entries { return scalar(() = slurp_file($sub->logfile) =~ /LOG:  subscription "sub" refused/g) }

sub applied
{
	my ($what) = @_;
	wait_applied($pub, $sub, 'sub');
	compare($pub, $sub, $what);
}

pub_sql(q{
	CREATE PUBLICATION pub FOR ALL TABLES;
	CREATE TABLE t (id int PRIMARY KEY, a text);
	INSERT INTO t VALUES (1, 'one'), (2, 'two');
	CREATE TABLE other (id int PRIMARY KEY);
	CREATE TABLE nulls (id int PRIMARY KEY, a int);
	CREATE TABLE viewed (id int PRIMARY KEY, a int, b int);
	CREATE TABLE locked (id int PRIMARY KEY);
	CREATE TABLE odd (id int PRIMARY KEY, a int);
});
create_subscription($pub, $sub, 'sub', args => q{options => '{"ddl_lock_timeout": 100, "ddl_lock_retries": 3}'});

# --- held, over restarts -------------------------------------------------------------------------------------------

pub_sql(q{
	INSERT INTO t VALUES (3, 'before');
	BEGIN;
	INSERT INTO t VALUES (4, 'same transaction');
	ALTER TABLE t ADD token uuid NOT NULL DEFAULT gen_random_uuid();
	INSERT INTO t (id, a) VALUES (5, 'same transaction');
	COMMIT;
	INSERT INTO other VALUES (1);
});
my $id = wait_refused($sub, 'sub', 'volatile_default');
is(sub_sql('SELECT string_agg(id::text, $$,$$ ORDER BY id) FROM t'), '1,2,3', 'all before the transaction is applied, nothing of it');
is(sub_sql('SELECT count(*) FROM other'), '0', 'nothing after it either');
is(refusal('attempts, statement ~ $$gen_random_uuid$$, changes ~ $$token$$, hint ~ $$schemasync_resume$$, publisher_xid IS NOT NULL', $id),
	'1|t|t|t|t', 'the refusal shows statement, change and hint');
$sub->restart;
$pub->restart;
is(sub_sql(q{SELECT state FROM schemasync_subscriptions}), 'refused', 'still refused after restarts');
is(sub_sql(q{SELECT count(*) FROM schemasync_refusals}), '1', 'one row');
sub_sql(q{SELECT schemasync_start('sub')});
is(sub_sql(q{SELECT state FROM schemasync_subscriptions}), 'refused', 'starting it again changes nothing');
is(refusal('attempts', $id), '1', 'no restart tried it again');
is(log_entries(), 1, 'one log entry');
sub_sql(q{SELECT schemasync_resume('sub')});
$sub->poll_query_until('postgres', "SELECT attempts = 2 AND status = 'open' FROM schemasync_refusals WHERE refusal_id = $id")
  or die 'the second attempt was not counted';
wait_refused($sub, 'sub', 'volatile_default');
is(sub_sql(q{SELECT count(*) FROM schemasync_refusals}), '1', 'resumed without a repair it counts on the same row');
cmp_ok(pub_sql(q{SELECT confirmed_flush_lsn <= (SELECT pg_current_wal_lsn()) FROM pg_replication_slots WHERE slot_type = 'logical'}),
	'eq', 't', 'the slot is there');

# --- repaired by hand ----------------------------------------------------------------------------------------------

sub_sql(q{ALTER TABLE t ADD token uuid});
foreach my $row (split /\n/, pub_sql(q{SELECT format('UPDATE t SET token = %L WHERE id = %s', token, id) FROM t WHERE id <= 3}))
{
	sub_sql($row);
}
# row 4 is in the held transaction: its value cannot be there yet
sub_sql(q{ALTER TABLE t ALTER token SET DEFAULT gen_random_uuid(); SELECT schemasync_resume('sub')});
wait_applied($pub, $sub, 'sub');
is(refusal('status, resolution, resolved_at IS NOT NULL', $id), 'resolved|resumed|t', 'resolved by resume');
sub_sql(sprintf(q{UPDATE t SET token = '%s' WHERE id = 4}, pub_sql('SELECT token FROM t WHERE id = 4')));
sub_sql('ALTER TABLE t ALTER token SET NOT NULL');
applied('after the repair by hand');
is(log_entries(), 2, 'one log entry for each time that a person tried');

# --- resolved with SQL ---------------------------------------------------------------------------------------------

pub_sql(q{INSERT INTO nulls VALUES (1, 1)});
wait_applied($pub, $sub, 'sub');
sub_sql(q{INSERT INTO nulls VALUES (900, NULL), (901, NULL)});
pub_sql(q{ALTER TABLE nulls ALTER a SET NOT NULL; INSERT INTO nulls VALUES (2, 2)});
$id = wait_refused($sub, 'sub', 'apply_failed');
is(refusal('changes ~ $$2 rows violate$$', $id), 't', 'the violating rows are counted');
sub_sql("SELECT schemasync_resolve($id, 'apply')");
$sub->poll_query_until('postgres', "SELECT attempts >= 2 AND status = 'open' FROM schemasync_refusals WHERE refusal_id = $id")
  or die 'the suggested SQL was not tried';
wait_refused($sub, 'sub', 'apply_failed');
pass('the suggested SQL fails as the change did, and is refused again');
sub_sql("SELECT schemasync_resolve($id, 'execute', 'DELETE FROM nulls WHERE id >= 900; ALTER TABLE nulls ALTER a SET NOT NULL')");
applied('after execute');
is(refusal('status, resolution', $id), 'resolved|execute', 'resolved by execute');

pub_sql(q{ALTER TABLE nulls ADD r float8 DEFAULT random()});
$id = wait_refused($sub, 'sub', 'volatile_default');
my ($status, undef, $error) = $sub->psql('postgres', "SELECT schemasync_resolve($id, 'skip')");
$id = wait_refused($sub, 'sub', 'volatile_default');
is(refusal('changes ~ $$cannot be skipped$$', $id), 't', 'what rows need is not skipped');
sub_sql('ALTER TABLE nulls ADD r float8 DEFAULT 7');
sub_sql("SELECT schemasync_resolve($id, 'skip')");
wait_applied($pub, $sub, 'sub');
pub_sql('INSERT INTO nulls VALUES (3, 3, 3)');
wait_applied($pub, $sub, 'sub');
is(sub_sql('SELECT r FROM nulls WHERE id = 3'), '3', 'after skip the rows go on');
sub_sql('ALTER TABLE nulls ALTER r SET DEFAULT random()');
sub_sql(sprintf('UPDATE nulls SET r = %s WHERE id = %s', split(/\|/, $_))) foreach split /\n/, pub_sql('SELECT r, id FROM nulls');
applied('after skip, repaired');

# --- local objects in the way --------------------------------------------------------------------------------------

sub_sql('CREATE VIEW local_view AS SELECT a FROM viewed');
pub_sql('ALTER TABLE viewed DROP a; INSERT INTO viewed VALUES (1, 1)');
$id = wait_refused($sub, 'sub', 'local_dependents');
is(refusal('concat(changes, drift, hint) ~ $$local_view$$', $id), 't', 'the view is named');
sub_sql(q{DROP VIEW local_view; SELECT schemasync_resume('sub')});
applied('after the view was dropped');

sub_sql('CREATE TABLE taken (x text)');
pub_sql('CREATE TABLE taken (id int PRIMARY KEY); INSERT INTO taken VALUES (1)');
$id = wait_refused($sub, 'sub', 'local_name_taken');
sub_sql(q{ALTER TABLE taken RENAME TO was_taken; SELECT schemasync_resume('sub')});
wait_applied($pub, $sub, 'sub');
sub_sql('DROP TABLE was_taken');
applied('after the local table was renamed');

# --- locks: a prepared transaction holds them, which needs no session and outlives a crash --------------------------------

sub_sql(q{BEGIN; LOCK TABLE locked IN ACCESS SHARE MODE; PREPARE TRANSACTION 'holder'});
pub_sql('ALTER TABLE locked ADD a int; INSERT INTO locked VALUES (1, 1)');
$id = wait_refused($sub, 'sub', 'lock_timeout');
is(refusal(q{hint ~ $$prepared transaction 'holder'$$}, $id), 't', 'the hint names who holds the lock');
sub_sql(q{COMMIT PREPARED 'holder'});
sub_sql(q{SELECT schemasync_resume('sub')});
applied('after the lock was released');

sub_sql(q{SELECT schemasync_alter_subscription('sub', options => '{"ddl_lock_timeout": 50, "ddl_lock_retries": 1000}')});
sub_sql(q{BEGIN; LOCK TABLE locked IN ACCESS SHARE MODE; PREPARE TRANSACTION 'holder'});
pub_sql('BEGIN; INSERT INTO locked VALUES (2, 2); ALTER TABLE locked ADD b int DEFAULT 4; INSERT INTO locked VALUES (3, 3, 3); COMMIT');
wait_state($sub, 'sub', 'waiting_lock');
pass('waiting for a lock shows');
# a crash in the middle of the boundary
$sub->stop('immediate');
$sub->start;
wait_state($sub, 'sub', 'waiting_lock');
sub_sql(q{COMMIT PREPARED 'holder'});
applied('after a crash while the change waited');

# --- names and texts that try to be more than they are ----------------------------------------------------------------

my $evil = 'x" int; DROP TABLE other; --';
pub_sql(qq{ALTER TABLE odd ADD "x"" int; DROP TABLE other; --" text DEFAULT '\$\$; DROP TABLE other; --'});
pub_sql(qq{ALTER TABLE odd RENAME a TO "b, DROP COLUMN id"; COMMENT ON TABLE odd IS 'x'});
pub_sql(qq{CREATE TABLE "o'd; d\\""x" ("%s" text DEFAULT E'\\\\''', "sel/*ect" int CHECK ("sel/*ect" > 0)); INSERT INTO "o'd; d\\""x" VALUES ('%', 1)});
pub_sql(q{INSERT INTO odd VALUES (1, 1)});
applied('hostile names and texts are just names and texts');

# --- the publisher's other objects are ignored, and said to be ---------------------------------------------------------

pub_sql(q{CREATE VIEW v AS SELECT 1; CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; DROP VIEW v});
wait_applied($pub, $sub, 'sub');
is(sub_sql(q{SELECT string_agg(DISTINCT operation, ',' ORDER BY operation) FROM schemasync_ddl_history WHERE verdict = 'ignore' AND object_identity ~ '^public\.[vf]\M'}),
	'create_function,create_view,drop_view', 'classes that are not followed are in the history');

# --- what the subscriber's database has of its own -----------------------------------------------------------------

foreach my $side ([ $pub, 'C.UTF-8' ], [ $sub, 'C' ])
{
	my ($node, $ctype) = @$side;
	$node->safe_psql('postgres', "CREATE DATABASE other TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE '$ctype'");
	$node->safe_psql('other', 'CREATE EXTENSION schemasync; CREATE SCHEMA mine; CREATE TYPE mine.pair AS (x text, y text); CREATE TYPE mine.mood AS ENUM ($$sad$$, $$ok$$)');
}
$pub->safe_psql('other', q{
	CREATE PUBLICATION pub FOR ALL TABLES;
	CREATE TABLE words (id int PRIMARY KEY, v text UNIQUE, p mine.pair, m mine.mood);
	INSERT INTO words VALUES (1, U&'\00e9', '(l,r)', 'ok');
	CREATE INDEX words_upper ON words (upper(v));
	CREATE TABLE refers (id int REFERENCES words);
	CREATE FUNCTION mine.f(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1';
	CREATE FUNCTION mine.g(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1';
	CREATE TABLE made (id int PRIMARY KEY, v text, w text GENERATED ALWAYS AS (mine.f(v)) STORED);
	CREATE TABLE mine.indexed (id int PRIMARY KEY, v text);
	CREATE INDEX by_g ON mine.indexed (mine.g(v))});
$sub->safe_psql('other', q{
	CREATE FUNCTION mine.f(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT 1 || $1';
	CREATE FUNCTION mine.g(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT 1 || $1';
	ALTER TYPE mine.pair RENAME ATTRIBUTE x TO z; ALTER TYPE mine.pair RENAME ATTRIBUTE y TO x; ALTER TYPE mine.pair RENAME ATTRIBUTE z TO y;
	CREATE TYPE mine.other AS ENUM ('ok', 'sad'); DROP TYPE mine.mood; ALTER TYPE mine.other RENAME TO mood;});
create_subscription($pub, $sub, 'other', dbname => 'other', wait => 0, args => q{schema_changes => 'refuse'});
$sub->poll_query_until('other', q{SELECT last_error ~ 'do not fit' FROM schemasync_subscriptions}) or die 'types that do not fit are taken';
like($sub->safe_psql('other', q{SELECT last_error || coalesce((SELECT string_agg(detail, '') FROM schemasync_errors), '') FROM schemasync_subscriptions}),
	qr/mine\.pair does not fit: [^\n]*the attribute x differs.*mine\.mood does not fit: [^\n]*the label 'ok' is missing or stands elsewhere.*public\.made cannot be created: The function mine\.f\(pg_catalog\.text\)/s, 'types that are others here are named');
$sub->safe_psql('other', q{
	SELECT schemasync_drop_subscription('other');
	CREATE OR REPLACE FUNCTION mine.f(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1';
	ALTER TYPE mine.pair RENAME ATTRIBUTE x TO z; ALTER TYPE mine.pair RENAME ATTRIBUTE y TO x; ALTER TYPE mine.pair RENAME ATTRIBUTE z TO y;
	CREATE TYPE mine.other AS ENUM ('sad', 'own', 'ok'); DROP TYPE mine.mood; ALTER TYPE mine.other RENAME TO mood;});
create_subscription($pub, $sub, 'other', dbname => 'other', args => q{schema_changes => 'refuse'});
compare_tables($pub, $sub, 'with schema_changes = refuse', '^public\.', 'other');
compare_catalogs($pub, $sub, 'keys come with the copy, with schema_changes = refuse', '^public\.', 'other');
$sub->safe_psql('other', q{SELECT schemasync_alter_subscription('other', schema_changes => 'forward')});
is($sub->safe_psql('other', q{SELECT to_regclass('mine.by_g') IS NULL, (SELECT count(*) FROM schemasync_diff('other') d WHERE d::text ~ 'by_g')}), 't|1',
	'an index over a function that is another one here is left out, and the diff shows it');
ok($sub->log_contains(qr/WARNING: .*by_g.*not made here/), '... as the log does');
$pub->safe_psql('other', q{CREATE INDEX words_lower ON words (lower(v)); ALTER TABLE words ADD CHECK (upper(v) <> 'no')});
wait_applied($pub, $sub, 'other', 'other');
compare_catalogs($pub, $sub, 'the locale does not count where rows get no value by it', '^public\.', 'other');
$pub->safe_psql('other', q{ALTER TABLE words ALTER v TYPE varchar USING upper(v)});
wait_refused($sub, 'other', 'local_drift', 'other');
like($sub->safe_psql('other', 'SELECT changes FROM schemasync_refusals'), qr/The collation default, which the expression upper/, 'another locale of the database is refused');
$sub->safe_psql('other', q{SELECT schemasync_alter_subscription('other', options => '{"rewrites": "carry"}'), schemasync_resume('other')});
wait_applied($pub, $sub, 'other', 'other');
compare($pub, $sub, 'carried in the publisher\'s locale', '^public\.', 'other');

# --- what is open at the end of a transaction --------------------------------------------------------------------------

$_->safe_psql('postgres', 'CREATE DATABASE ends') foreach $pub, $sub;
$_->safe_psql('ends', 'CREATE EXTENSION schemasync') foreach $pub, $sub;
my $key = 'CREATE TABLE %s (id int NOT NULL, v int); CREATE UNIQUE INDEX %s_i ON %s (id); ALTER TABLE %s REPLICA IDENTITY USING INDEX %s_i';
$pub->safe_psql('ends', join('; ', map { my $sql = $key; $sql =~ s/%s/$_/g; $sql } qw(keyed leaves inserted)) . q{;
	CREATE TABLE one (id int PRIMARY KEY, v int); INSERT INTO one SELECT g, g FROM generate_series(1, 3) g;
	CREATE TABLE two (LIKE one INCLUDING ALL); INSERT INTO two TABLE one;
	CREATE PUBLICATION pub FOR TABLE keyed, leaves, one, two; CREATE PUBLICATION inserts FOR TABLE inserted WITH (publish = 'insert')});
create_subscription($pub, $sub, 'ends', dbname => 'ends', publications => [ 'pub', 'inserts' ]);
my $end_applied = sub { my ($what, $only) = @_; wait_applied($pub, $sub, 'ends', 'ends'); return compare_tables($pub, $sub, $what, $only, 'ends') };
my $end_id = sub { return wait_refused($sub, 'ends', $_[0], 'ends') };
my $end_sql = sub { return $sub->safe_psql('ends', $_[0]) };
my $unseen = sub {
	return join('; ', 'BEGIN; SET LOCAL session_replication_role = replica; ALTER EVENT TRIGGER schemasync_capture_end DISABLE', @_,
		'ALTER EVENT TRIGGER schemasync_capture_end ENABLE ALWAYS; SET LOCAL session_replication_role = origin');
};

$pub->safe_psql('ends', $unseen->('ALTER TABLE one ALTER v TYPE int USING v * 10', 'ALTER TABLE two ALTER v TYPE int USING v * 10')
	. '; INSERT INTO one VALUES (4, 4); DROP INDEX keyed_i; COMMIT');
$id = $end_id->('rewrite_unproven');
my (undef, undef, $no_sql) = $sub->psql('ends', "SELECT schemasync_resolve($id, 'apply')");
like($no_sql, qr/refusal $id has no suggested SQL to apply/, 'nothing is suggested for rewrites that nobody saw');
unlike($end_sql->('SELECT hint FROM schemasync_refusals'), qr/carry/, '... nor to carry rows that no command has');
$end_sql->("SELECT schemasync_resolve($id, 'execute', 'UPDATE one SET v = v / 0')");
$id = $end_id->('apply_failed');
like($end_sql->("SELECT changes FROM schemasync_refusals WHERE refusal_id = $id"), qr/the SQL of the resolution failed: division by zero/, 'SQL that fails is told of');
$end_sql->("SELECT schemasync_resolve($id, 'execute', 'CREATE TABLE ran AS SELECT count(*) FROM one; UPDATE one SET v = v * 10 WHERE id < 4; UPDATE two SET v = v * 10')");
# the same transaction lacks something else too, of which another refusal is made
$id = $end_id->('unsupported_object');
is($end_sql->(q{SELECT to_regclass('ran') IS NULL, (SELECT sum(v) FROM two)}), 't|6', 'the transaction is still held as a whole');
$end_sql->("SELECT schemasync_resolve($id, 'execute', 'INSERT INTO ran VALUES (-1); ALTER TABLE keyed REPLICA IDENTITY FULL')");
$end_applied->('SQL for what is open at the end of a transaction is run', '^public\.(one|two)$');
is($end_sql->(q{SELECT string_agg(count::text, ',' ORDER BY count) FROM ran}), '-1,4', '... once, behind its rows');
is($end_sql->(q{SELECT string_agg(verdict || ' ' || detail, ',' ORDER BY detail) FROM schemasync_ddl_history WHERE operation = 'resolve'}),
	'forward resolution: execute,forward resolution: execute', '... and in the history');
$pub->safe_psql('ends', $unseen->('ALTER TABLE one ALTER v TYPE int USING v + 1', 'ALTER TABLE two ALTER v TYPE int USING v + 1') . '; COMMIT');
$id = $end_id->('rewrite_unproven');
my ($resynced) = $end_sql->("SELECT hint FROM schemasync_refusals WHERE refusal_id = $id") =~ /schemasync_resync\('ends', '([^']*)'/;
$end_sql->("SELECT schemasync_resync('ends', '$resynced')");
$sub->poll_query_until('ends', "SELECT attempts > 1 AND status = 'open' AND object_identity <> '$resynced' FROM schemasync_refusals WHERE refusal_id = $id")
  or die 'the other table is passed over';
$id = $end_id->('rewrite_unproven');
$end_sql->("SELECT schemasync_resolve($id, 'skip')");
$end_sql->('UPDATE ' . ($resynced eq 'public.one' ? 'two' : 'one') . ' SET v = v + 1');
$end_applied->('a copy of one table is no answer for the other', '^public\.(one|two)$');

$pub->safe_psql('ends', 'BEGIN; DROP INDEX leaves_i; ALTER PUBLICATION pub DROP TABLE leaves; INSERT INTO one VALUES (5, 5); COMMIT');
$end_applied->('a table without an identity that leaves the publication is not refused', '^public\.one$');
$pub->safe_psql('ends', 'DROP INDEX inserted_i; INSERT INTO inserted VALUES (1, 1)');
$end_applied->('nor one of which only inserts are published', '^public\.inserted$');
is($end_sql->(q{SELECT count(*) FROM schemasync_refusals WHERE status = 'open'}), '0', 'nothing is open');

# --- a publisher that comes back from a backup ----------------------------------------------------------------------------

my $newest = $pub->data_dir . '.newest';
my $backup = $pub->data_dir . '.backup';
$pub->stop;
PostgreSQL::Test::RecursiveCopy::copypath($pub->data_dir, $backup);
chmod 0700, $backup;
$pub->start;
pub_sql('INSERT INTO other SELECT g FROM generate_series(1000, 3000) g');
applied('before the backup is put in place');
$pub->stop;
rename($pub->data_dir, $newest) && rename($backup, $pub->data_dir) or die "cannot exchange folders: $!";
$pub->start;
wait_state($sub, 'sub', 'refused');
is(sub_sql(q{SELECT reason, object_type, changes ~ 'is behind what was applied', hint ~ 'subscribe anew' FROM schemasync_refusals WHERE status = 'open'}),
	'identity_lost|publisher|t|t', 'a publisher that has lost what was applied here is refused');
$pub->stop;
rename($pub->data_dir, $backup) && rename($newest, $pub->data_dir) or die "cannot exchange folders: $!";
$pub->start;
sub_sql(q{SELECT schemasync_resume('sub')});
pub_sql('DELETE FROM other WHERE true');
applied('the right publisher is back');

$pub->stop;

$sub->stop;
done_testing();
