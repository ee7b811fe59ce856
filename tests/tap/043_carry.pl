# With rewrites = carry what a rewrite made of each row is taken from the stream, whatever the expression was.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair();

sub pub_sql { return $pub->safe_psql('postgres', $_[0]) }
sub sub_sql { return $sub->safe_psql('postgres', $_[0]) }

sub applied
{
	my ($what) = @_;
	wait_applied($pub, $sub, 'sub');
	compare($pub, $sub, $what);
}

pub_sql(q{
	CREATE PUBLICATION pub FOR ALL TABLES;
	CREATE TABLE t (id int PRIMARY KEY, a int, b text);
	INSERT INTO t SELECT g, g, repeat(md5(g::text), 200) FROM generate_series(1, 300) g;
	CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t);
	INSERT INTO child SELECT g, g FROM generate_series(1, 300) g;
	CREATE TABLE keyless (v text);
	ALTER TABLE keyless REPLICA IDENTITY FULL;
	INSERT INTO keyless SELECT 'same' FROM generate_series(1, 50);
	CREATE TABLE extra (id int PRIMARY KEY);
	INSERT INTO extra VALUES (1);
});
create_subscription($pub, $sub, 'sub', args => q{options => '{"rewrites": "carry"}'});

pub_sql('ALTER TABLE t ADD token uuid NOT NULL DEFAULT gen_random_uuid()');
applied('a volatile default');
pub_sql('INSERT INTO t (id, a) VALUES (1001, 1); ALTER TABLE t ALTER a TYPE int USING (a * random() * 100)::int');
applied('a volatile USING on the same type');
pub_sql('ALTER TABLE child DROP CONSTRAINT child_t_fkey');
pub_sql('ALTER TABLE t ALTER id TYPE int USING id + 1, ADD rank float8 DEFAULT random()');
applied('keys that change beside a volatile default');
pub_sql('ALTER TABLE keyless ADD id bigserial PRIMARY KEY');
wait_refused($sub, 'sub', 'missing_object');
sub_sql(q{ALTER TABLE keyless ADD id bigserial PRIMARY KEY; SELECT schemasync_resume('sub')});
applied('a serial key, made by hand: the values are the publisher\'s');
pub_sql('ALTER TABLE t ADD number int GENERATED ALWAYS AS IDENTITY');
applied('an identity column');
pub_sql(q{
	BEGIN;
	UPDATE t SET a = a + 1 WHERE id < 50;
	ALTER TABLE t ADD u float8 DEFAULT random();
	UPDATE t SET a = a + 1, u = 2 WHERE id < 20;
	ALTER TABLE t ALTER u TYPE numeric USING (u * random())::numeric;
	DELETE FROM t WHERE id = 30;
	COMMIT;
});
applied('rows and two rewrites in one transaction');

# --- what the rows would take the place of ----------------------------------------------------------------------------

sub_sql(q{ALTER TABLE extra ADD note text DEFAULT 'only here'});
pub_sql('ALTER TABLE extra ADD token uuid DEFAULT gen_random_uuid()');
wait_refused($sub, 'sub', 'rewrite_unproven');
is(sub_sql('SELECT note FROM extra'), 'only here', 'a column that is only here keeps its values');
sub_sql(q{ALTER TABLE extra DROP note; SELECT schemasync_resume('sub')});
applied('after the column was dropped');

done_testing();
