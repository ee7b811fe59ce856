# Options of one table that override the subscription's, in both directions, and a few schema changes whose proof is not in the table's own state.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my ($pub, $sub) = SchemasyncTest::pair();

sub pub_sql { return $pub->safe_psql('postgres', $_[0]) }
sub sub_sql { return $sub->safe_psql('postgres', $_[0]) }

sub applied
{
	my ($what, $only) = @_;
	wait_applied($pub, $sub, 'sub');
	compare($pub, $sub, $what, $only);
	return;
}

sub refused_then_skipped
{
	my ($reason) = @_;
	my $id = wait_refused($sub, 'sub', $reason);
	sub_sql("SELECT schemasync_resolve($id, 'skip')");
	wait_applied($pub, $sub, 'sub');
	return;
}

sub set { my ($table, $policy) = @_; return sub_sql("SELECT schemasync_set_table_policy('sub', '$table', '$policy')"); }

sub columns { return sub_sql("SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '$_[0]'::regclass AND attnum > 0 AND NOT attisdropped") }

pub_sql(q{
	CREATE TABLE plain (id int PRIMARY KEY, a int, b int, c int);
	CREATE TABLE strict (id int PRIMARY KEY, a int, b int, c int);
	CREATE TABLE keeps (id int PRIMARY KEY, a int, b int);
	CREATE TABLE carries (id int PRIMARY KEY, a int);
	CREATE TABLE root (id int, a int, b int) PARTITION BY RANGE (id);
	CREATE TABLE root_1 PARTITION OF root FOR VALUES FROM (0) TO (100);
	CREATE SCHEMA old; CREATE TABLE old.one (id int PRIMARY KEY); CREATE TABLE old.two (id serial PRIMARY KEY);
	CREATE TYPE row_of AS (id int, v text); CREATE TABLE typed OF row_of (PRIMARY KEY (id)); INSERT INTO typed VALUES (1, 'one');
	CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2';
	INSERT INTO plain SELECT i, i, i, i FROM generate_series(1, 9) i;
	INSERT INTO strict SELECT * FROM plain; INSERT INTO keeps SELECT id, a, b FROM plain; INSERT INTO carries SELECT id, a FROM plain;
	INSERT INTO root SELECT id, a, b FROM plain; INSERT INTO old.one VALUES (1);
	CREATE ROLE reader; COMMENT ON COLUMN plain.b IS 'b'; COMMENT ON COLUMN carries.a IS 'a'; GRANT SELECT ON carries, plain TO reader;
	CREATE STATISTICS of_carries ON id, a FROM carries; CREATE STATISTICS of_plain ON a, b FROM plain;
	CREATE PUBLICATION pub FOR ALL TABLES;
});
sub_sql('CREATE ROLE reader');
create_subscription($pub, $sub, 'sub');
sub_sql('CREATE VIEW old.local AS SELECT id FROM old.one');
sub_sql(q{CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + $1'});

# --- validated and shown -------------------------------------------------------------------------------------------------

foreach my $bad (
	[ '{"drop_colum": "keep"}', qr/unrecognized subscription option "drop_colum"/ ],
	[ '{"drop_column": "ignore"}', qr/invalid value for subscription option "drop_column": "ignore"\n.*forward, keep, refuse/ ],
	[ '{"binary": true}', qr/option "binary" cannot be set for a table\n.*rewrites, stable_defaults, drop_column/ ],
	[ '{"ddl_classes": ["views"]}', qr/invalid value for subscription option "ddl_classes": "views"\n.*triggers, rules/ ])
{
	my (undef, undef, $error) = $sub->psql('postgres', "SELECT schemasync_set_table_policy('sub', 'plain', '$bad->[0]')");
	like($error, $bad->[1], "$bad->[0] is an error");
}
sub_sql('CREATE TABLE elsewhere (id int)');
like(($sub->psql('postgres', q{SELECT schemasync_set_table_policy('sub', 'elsewhere', '{}')}))[2], qr/table "elsewhere" is not one of subscription "sub"/, 'so is another table');
sub_sql('DROP TABLE elsewhere');
set('strict', '{"drop_column": "refuse", "drop_table": "refuse", "stable_defaults": "refuse", "constraints": "ignore", "indexes": "ignore"}');
set('keeps', '{"drop_column": "keep", "ddl_classes": ["comments"]}');
set('carries', '{"rewrites": "carry"}');
set('root', '{"drop_column": "keep"}');
is(sub_sql(q{SELECT string_agg(relation || options::text, ' ' ORDER BY relation) FROM schemasync_tables WHERE options <> '{}'}),
	'public.carries{"rewrites": "carry"} public.keeps{"ddl_classes": ["comments"], "drop_column": "keep"} public.root{"drop_column": "keep"} public.root_1{"drop_column": "keep"}'
	  . ' public.strict{"indexes": "ignore", "drop_table": "refuse", "constraints": "ignore", "drop_column": "refuse", "stable_defaults": "refuse"}',
	'schemasync_tables shows them, those of the partitions too');

# --- tables stricter than the subscription ---------------------------------------------------------------------------------

pub_sql(q{
	ALTER TABLE plain DROP COLUMN a; ALTER TABLE keeps DROP COLUMN a; INSERT INTO keeps VALUES (10, 10); COMMENT ON TABLE keeps IS 'k'; COMMENT ON TABLE plain IS 'p';
	CREATE INDEX i_plain ON plain (b); CREATE INDEX i_strict ON strict (b); ALTER TABLE strict ADD CONSTRAINT positive CHECK (b > 0); ALTER TABLE plain ADD CHECK (b > 0);
	CREATE TABLE root_2 PARTITION OF root FOR VALUES FROM (100) TO (200); ALTER TABLE root DROP COLUMN a; INSERT INTO root VALUES (5, 5), (150, 1);
});
applied('the others are as ever', 'public.plain');
is(columns('keeps') . ' ' . columns('root') . ' ' . columns('root_2'), 'id,a,b id,a,b id,a,b', 'drop_column = keep, for new partitions too');
is(sub_sql(q{SELECT obj_description('keeps'::regclass) IS NOT DISTINCT FROM 'k' AND obj_description('plain'::regclass) IS NULL}), 't', 'ddl_classes of one table');
is(sub_sql(q{SELECT count(*) FROM schemasync_ddl_history WHERE object_identity = 'public.keeps' AND verdict = 'ignore' AND detail ~ 'ddl_classes'}), '0',
	'what is followed is not said to be ignored');
is(sub_sql(q{SELECT to_regclass('i_strict') IS NULL AND NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'positive')}), 't', 'indexes and constraints = ignore');
# --- what is of a class that the table follows now, and was there before, comes with a refresh -----------------------------------

set('carries', '{"ddl_classes": ["comments", "privileges", "statistics"]}');
sub_sql(q{SELECT schemasync_refresh('sub')});
$sub->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_statistic_ext WHERE stxname = 'of_carries'}) or die 'what was there before is not here';
applied('a refresh after ddl_classes of a table', 'public.carries');
my $said = q{SELECT coalesce(col_description(oid, attnum), '-') || has_table_privilege('reader', oid, 'SELECT') || (SELECT count(*) FROM pg_statistic_ext WHERE stxrelid = c.oid)
	FROM pg_class c JOIN pg_attribute ON attrelid = c.oid WHERE attname IN ('a', 'b') AND};
is(sub_sql("$said relname = 'carries' AND attname = 'a'"), 'atrue1', '... is made for that table');
is(sub_sql("$said relname = 'plain' AND attname = 'b'"), '-false0', '... and for no other');
set('carries', '{"ddl_classes": null}');

# --- known before the fact: the publisher's check takes the subscription's options as they are ------------------------------------

my $policy = sub_sql(q{SELECT options || jsonb_build_object('tables', (SELECT coalesce(jsonb_object_agg(publisher_relation, t.options), '{}')
	FROM schemasync_tables t WHERE subscription = name)) FROM schemasync_subscriptions WHERE name = 'sub'});
foreach my $check (
	[ 'ALTER TABLE strict DROP COLUMN a', 'drop_column|refuse|policy_refuse' ],
	[ 'ALTER TABLE strict ADD at timestamptz DEFAULT now()', 'add_column|refuse|policy_refuse' ],
	[ 'CREATE INDEX ON strict (c)', 'create_index|ignore|' ],
	[ 'DROP TABLE strict', 'drop_table|refuse|policy_refuse' ],
	[ 'ALTER TABLE plain ADD s timestamptz DEFAULT now()', 'add_column|forward|' ],
	[ 'ALTER TABLE root DROP COLUMN b', 'drop_column|ignore|' ],
	[ 'ALTER TABLE root_2 ADD CHECK (b > 0)', 'add_check|forward|' ],
	[ 'ALTER TABLE carries ADD r float8 DEFAULT random()', 'add_column|carry|' ],
	[ q{COMMENT ON TABLE keeps IS 'kk'}, 'comment|forward|' ],
	[ q{COMMENT ON TABLE plain IS 'pp'}, 'comment|ignore|' ])
{
	is(pub_sql("SELECT string_agg(concat_ws('|', operation, verdict, coalesce(reason, '')), ' ') FROM schemasync_check(\$ddl\$$check->[0]\$ddl\$, '$policy')"),
		$check->[1], "schemasync_check of: $check->[0]");
}

# --- and as foretold ---------------------------------------------------------------------------------------------------------

pub_sql('ALTER TABLE strict DROP COLUMN a');
refused_then_skipped('policy_refuse');
pub_sql('ALTER TABLE plain ADD at timestamptz DEFAULT now()');
applied('a stable default', 'public.plain');
pub_sql('ALTER TABLE strict ADD at timestamptz DEFAULT now()');
my $id = wait_refused($sub, 'sub');
sub_sql("SELECT schemasync_resolve($id, 'execute', 'ALTER TABLE strict ADD at timestamptz')");
wait_applied($pub, $sub, 'sub');
pub_sql('DROP TABLE strict');
refused_then_skipped('policy_refuse');
set('keeps', '{"drop_column": null, "ddl_classes": null}');
pub_sql('ALTER TABLE keeps DROP COLUMN b');
wait_applied($pub, $sub, 'sub');
is(columns('keeps'), 'id,a', 'null takes a policy back');

# --- and laxer -----------------------------------------------------------------------------------------------------------------

pub_sql('ALTER TABLE carries ADD r float8 DEFAULT random(), ADD n serial');
applied('rewrites = carry for one table', 'public.carries');
pub_sql('ALTER TABLE plain ADD r float8 DEFAULT random()');
$id = wait_refused($sub, 'sub', 'volatile_default');
sub_sql("SELECT schemasync_resolve($id, 'execute', 'ALTER TABLE plain ADD r float8')");
wait_applied($pub, $sub, 'sub');
sub_sql(q{SELECT schemasync_alter_subscription('sub', options => '{"drop_column": "refuse", "rewrites": "carry", "ddl_classes": ["comments"]}')});
set('plain', '{"drop_column": "forward", "rewrites": "refuse", "ddl_classes": []}');
pub_sql(q{ALTER TABLE plain DROP COLUMN r; COMMENT ON TABLE plain IS 'q'; COMMENT ON TABLE carries IS 'c'});
applied('drop_column = forward for one table', 'public.plain');
is(sub_sql(q{SELECT obj_description('carries'::regclass) || coalesce(obj_description('plain'::regclass), '-')}), 'c-', 'a class that one table is without');
pub_sql('ALTER TABLE plain ADD r float8 DEFAULT random()');
$id = wait_refused($sub, 'sub', 'volatile_default');
sub_sql("SELECT schemasync_resolve($id, 'execute', 'ALTER TABLE plain ADD r float8')");
pub_sql('ALTER TABLE carries DROP COLUMN a');
refused_then_skipped('policy_refuse');

# --- proofs from elsewhere -------------------------------------------------------------------------------------------------------

sub_sql(q{SELECT schemasync_alter_subscription('sub', options => '{"drop_column": null, "rewrites": null, "ddl_classes": null}')});
pub_sql('BEGIN; INSERT INTO old.one VALUES (2); ALTER SCHEMA old RENAME TO new; INSERT INTO new.one VALUES (3); INSERT INTO new.two DEFAULT VALUES; COMMIT');
applied('a schema from before is renamed', '^new.(one|two)');
is(sub_sql(q{SELECT to_regnamespace('old') IS NULL, to_regclass('new.local') IS NOT NULL}), 't|t', '... with what else is in it');
pub_sql('DROP SEQUENCE new.two_id_seq CASCADE');
applied('an owned sequence is dropped', '^new.(one|two)');
is(sub_sql(q{SELECT to_regclass('new.two_id_seq') IS NULL}), 't', '... here too');
pub_sql('ALTER TABLE plain ALTER b SET DEFAULT twice(4)');
wait_applied($pub, $sub, 'sub');
like(sub_sql(q{SELECT verdict || ' ' || detail FROM schemasync_ddl_history WHERE operation = 'set_default' ORDER BY history_id DESC LIMIT 1}),
	qr/^forward The function public\.twice.* is defined otherwise on the subscriber, which concerns rows that are written there/, 'a default with another function is forwarded and says so');
pub_sql(q{
	ALTER TYPE row_of ADD ATTRIBUTE w int CASCADE; INSERT INTO typed VALUES (2, 'two', 2); ALTER TYPE row_of RENAME ATTRIBUTE v TO vv CASCADE; INSERT INTO typed VALUES (3, 'three', 3);
	CREATE TYPE floats AS RANGE (subtype = float8, subtype_diff = float8mi); CREATE TABLE ranges (id int PRIMARY KEY, f floats); INSERT INTO ranges VALUES (1, '[1.5,2)');
});
applied('the type of a typed table was there before; a range with a function', '^public.(typed|ranges|floats)');
done_testing();
