# The opt-in classes: views, functions, triggers, rules, policies, comments, privileges, statistics and extensions are made, replaced,
# renamed and dropped as on the publisher, in transactions with rows, alone, and while the subscriber is down. The whole schema of
# both sides, as pg_dump writes it, must be equal.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my ($pub, $sub) = SchemasyncTest::pair();
my $all = q{options => '{"ddl_classes": "all", "rewrites": "carry"}'};

# The schema as pg_dump writes it, without what is each side's own.
sub schema_of
{
	my ($node, $dbname) = @_;
	my $out = '';
	# the option keeps the text from having a random token in it; older minors do not know it
	my @keyless = (qx{pg_dump --help} =~ /--restrict-key/) ? ('--restrict-key=schemasync') : ();
	run_command_into(\$out, 'pg_dump', '--schema-only', '--no-publications', @keyless, '-N', 'schemasync', '-d', $node->connstr($dbname // 'postgres'));
	return join("\n", grep { !/^--|^SET |^\\|^SELECT pg_catalog|^$/ } split /\n/, $out);
}

sub run_command_into
{
	my ($out, @command) = @_;
	my $err = '';
	IPC::Run::run(\@command, '>', $out, '2>', \$err) or die "@command: $err";
}

sub same_schema
{
	my ($what) = @_;
	wait_applied($pub, $sub, 'sub');
	my ($left, $right) = (schema_of($pub), schema_of($sub));
	return pass("$what: schemas are equal") if $left eq $right;
	fail("$what: schemas are equal");
	my %count;
	$count{$_}++ foreach split /\n/, $left;
	$count{$_}-- foreach split /\n/, $right;
	diag(($count{$_} > 0 ? 'publisher only:  ' : 'subscriber only: ') . $_) foreach grep { $count{$_} } sort keys %count;
	return 0;
}

foreach my $node ($pub, $sub)
{
	$node->safe_psql('postgres', 'CREATE ROLE reader; CREATE ROLE "Odd Role"');
}
$pub->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text);
	INSERT INTO t SELECT g, g, 'b' || g, 'c' FROM generate_series(1, 5) g;
	CREATE TABLE log (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text);
	CREATE PUBLICATION pub FOR ALL TABLES});
create_subscription($pub, $sub, 'sub', args => $all);

# name => commands, one after the other; %s is the position
my @steps = (
	[create => q{
		CREATE SCHEMA s_%1$s;
		CREATE VIEW s_%1$s.v AS SELECT id, a, upper(b) AS b FROM t WHERE a > 0;
		CREATE VIEW s_%1$s.w WITH (security_barrier) AS SELECT v.*, 'it''s' || b AS d FROM s_%1$s.v WITH LOCAL CHECK OPTION;
		CREATE VIEW s_%1$s."Odd ""name" ("A", "b c") AS SELECT id, c FROM t;
		CREATE MATERIALIZED VIEW s_%1$s.m AS SELECT a, count(*) AS n FROM t GROUP BY a;
		CREATE UNIQUE INDEX m_a ON s_%1$s.m (a);
		CREATE MATERIALIZED VIEW s_%1$s.m_empty WITH (fillfactor = 70) AS SELECT * FROM s_%1$s.w WITH NO DATA;
		CREATE FUNCTION s_%1$s.f(x int, y text DEFAULT 'q;$$') RETURNS text LANGUAGE plpgsql SET search_path = public AS $q$ BEGIN RETURN x || y || '%%'; END $q$;
		CREATE FUNCTION s_%1$s.g(t) RETURNS SETOF t LANGUAGE sql STABLE BEGIN ATOMIC SELECT * FROM t WHERE id = $1.id; END;
		CREATE FUNCTION s_%1$s.h(OUT n int, VARIADIC x int[]) LANGUAGE sql IMMUTABLE COST 7 AS 'SELECT 1';
		CREATE FUNCTION s_%1$s.f(x numeric) RETURNS numeric LANGUAGE sql IMMUTABLE RETURN x * 2;
		CREATE PROCEDURE s_%1$s.p(INOUT x int) LANGUAGE plpgsql AS $q$ BEGIN x := nowhere.f(x); END $q$;
		CREATE AGGREGATE s_%1$s.total(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0', PARALLEL = SAFE, COMBINEFUNC = int4pl);
		CREATE AGGREGATE s_%1$s.every_row(*) (SFUNC = int8inc, STYPE = bigint, INITCOND = '0');
		CREATE FUNCTION s_%1$s.tf() RETURNS trigger LANGUAGE plpgsql AS $q$ BEGIN INSERT INTO log (what) VALUES (TG_NAME); RETURN NEW; END $q$;
		CREATE TABLE s_%1$s.k (id int PRIMARY KEY, x numeric DEFAULT s_%1$s.f(3.0), y int CHECK (s_%1$s.f(y::numeric) > 0), z text);
		CREATE INDEX ON s_%1$s.k (s_%1$s.f(x));
		INSERT INTO s_%1$s.k VALUES (1, 1, 1, 'z');
		CREATE TRIGGER tr BEFORE INSERT OR UPDATE OF x ON s_%1$s.k FOR EACH ROW WHEN (NEW.x > 5) EXECUTE FUNCTION s_%1$s.tf('a', 'it''s');
		CREATE TRIGGER tr2 AFTER DELETE ON s_%1$s.k REFERENCING OLD TABLE AS gone EXECUTE FUNCTION s_%1$s.tf();
		CREATE CONSTRAINT TRIGGER tc AFTER INSERT ON s_%1$s.k DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION s_%1$s.tf();
		CREATE TRIGGER tv INSTEAD OF INSERT ON s_%1$s.w FOR EACH ROW EXECUTE FUNCTION s_%1$s.tf();
		CREATE RULE r AS ON UPDATE TO s_%1$s.k WHERE NEW.y < 0 DO ALSO INSERT INTO log (what) VALUES ('negative');
		CREATE RULE rv AS ON DELETE TO s_%1$s."Odd ""name" DO INSTEAD NOTHING;
		ALTER TABLE s_%1$s.k ENABLE ROW LEVEL SECURITY;
		CREATE POLICY pol ON s_%1$s.k FOR SELECT TO reader, "Odd Role" USING (y > (SELECT min(a) FROM t));
		CREATE POLICY pol2 ON s_%1$s.k AS RESTRICTIVE USING (true) WITH CHECK (x IS NOT NULL);
		CREATE STATISTICS s_%1$s.st (ndistinct, mcv) ON x, y FROM s_%1$s.k;
		CREATE STATISTICS s_%1$s.st2 ON (x * 2), (y + 1) FROM s_%1$s.k}],
	[comments => q{
		COMMENT ON SCHEMA s_%1$s IS 'schema';
		COMMENT ON TABLE s_%1$s.k IS E'it''s \\ a table';
		COMMENT ON COLUMN s_%1$s.k.x IS 'column x';
		COMMENT ON COLUMN s_%1$s.v.a IS 'column of a view';
		COMMENT ON VIEW s_%1$s."Odd ""name" IS 'odd';
		COMMENT ON MATERIALIZED VIEW s_%1$s.m IS 'stored';
		COMMENT ON CONSTRAINT k_pkey ON s_%1$s.k IS 'key';
		COMMENT ON INDEX s_%1$s.k_pkey IS 'index';
		COMMENT ON FUNCTION s_%1$s.f(int, text) IS 'function';
		COMMENT ON PROCEDURE s_%1$s.p(int) IS 'procedure';
		COMMENT ON AGGREGATE s_%1$s.total(int) IS 'aggregate';
		COMMENT ON AGGREGATE s_%1$s.every_row(*) IS 'aggregate of nothing';
		COMMENT ON TRIGGER tr ON s_%1$s.k IS 'trigger';
		COMMENT ON RULE r ON s_%1$s.k IS 'rule';
		COMMENT ON POLICY pol ON s_%1$s.k IS 'policy';
		COMMENT ON STATISTICS s_%1$s.st IS 'statistics';
		COMMENT ON TABLE s_%1$s.k IS 'the last word';
		CREATE TABLE s_%1$s.k_like (LIKE s_%1$s.k INCLUDING COMMENTS)}],
	[privileges => q{
		GRANT USAGE ON SCHEMA s_%1$s TO reader, "Odd Role";
		GRANT SELECT, UPDATE (x, y) ON s_%1$s.k TO reader;
		GRANT INSERT (x) ON s_%1$s.k TO "Odd Role" WITH GRANT OPTION;
		GRANT SELECT ON ALL TABLES IN SCHEMA s_%1$s TO PUBLIC;
		REVOKE UPDATE (y) ON s_%1$s.k FROM reader;
		REVOKE GRANT OPTION FOR INSERT (x) ON s_%1$s.k FROM "Odd Role";
		REVOKE EXECUTE ON FUNCTION s_%1$s.f(int, text), s_%1$s.g(t) FROM PUBLIC;
		GRANT EXECUTE ON FUNCTION s_%1$s.f(int, text) TO reader;
		GRANT ALL ON ALL PROCEDURES IN SCHEMA s_%1$s TO reader;
		GRANT SELECT ON SEQUENCE log_id_seq TO reader;
		REVOKE DELETE ON s_%1$s.k FROM CURRENT_USER;
		CREATE TYPE s_%1$s.mood AS ENUM ('sad', 'ok');
		CREATE TABLE s_%1$s.moody (id int PRIMARY KEY, m s_%1$s.mood);
		GRANT USAGE ON TYPE s_%1$s.mood TO reader;
		REVOKE USAGE ON TYPE s_%1$s.mood FROM PUBLIC}],
	[alter => q{
		CREATE OR REPLACE VIEW s_%1$s.v AS SELECT id, a, lower(b) AS b, c AS more FROM t;
		ALTER VIEW s_%1$s.v ALTER COLUMN a SET DEFAULT 17;
		ALTER VIEW s_%1$s.w RENAME COLUMN d TO e;
		ALTER VIEW s_%1$s.w SET (security_barrier = false);
		ALTER VIEW s_%1$s."Odd ""name" RENAME TO even;
		ALTER MATERIALIZED VIEW s_%1$s.m RENAME TO m2;
		ALTER MATERIALIZED VIEW s_%1$s.m2 RENAME COLUMN n TO amount;
		ALTER MATERIALIZED VIEW s_%1$s.m2 SET (fillfactor = 50);
		ALTER INDEX s_%1$s.m_a RENAME TO m_b;
		CREATE INDEX m_n ON s_%1$s.m2 (amount);
		REFRESH MATERIALIZED VIEW CONCURRENTLY s_%1$s.m2;
		CREATE OR REPLACE FUNCTION s_%1$s.f(x int, y text DEFAULT 'r') RETURNS text LANGUAGE plpgsql AS $q$ BEGIN RETURN NULL; END $q$;
		ALTER FUNCTION s_%1$s.f(int, text) STRICT COST 50;
		ALTER FUNCTION s_%1$s.h(int[]) RENAME TO hh;
		ALTER AGGREGATE s_%1$s.total(int) RENAME TO sum_total;
		ALTER PROCEDURE s_%1$s.p(int) SECURITY DEFINER SET work_mem = '8MB';
		ALTER TRIGGER tr ON s_%1$s.k RENAME TO tr_renamed;
		CREATE OR REPLACE TRIGGER tr2 AFTER DELETE OR INSERT ON s_%1$s.k FOR EACH STATEMENT EXECUTE FUNCTION s_%1$s.tf();
		ALTER TABLE s_%1$s.k DISABLE TRIGGER tr_renamed, ENABLE ALWAYS TRIGGER tr2;
		ALTER TABLE s_%1$s.k DISABLE TRIGGER tr2;
		CREATE OR REPLACE RULE r AS ON UPDATE TO s_%1$s.k DO ALSO NOTHING;
		ALTER RULE r ON s_%1$s.k RENAME TO r2;
		ALTER TABLE s_%1$s.k ENABLE REPLICA RULE r2;
		ALTER POLICY pol ON s_%1$s.k TO reader USING (y > 1);
		ALTER POLICY pol2 ON s_%1$s.k RENAME TO pol3;
		ALTER STATISTICS s_%1$s.st SET STATISTICS 50;
		ALTER STATISTICS s_%1$s.st2 RENAME TO st3;
		ALTER TABLE s_%1$s.k RENAME TO k2;
		ALTER TABLE s_%1$s.k2 RENAME COLUMN y TO yy;
		COMMENT ON COLUMN s_%1$s.k2.x IS NULL;
		CREATE SCHEMA other_%1$s;
		ALTER VIEW s_%1$s.even SET SCHEMA other_%1$s;
		ALTER FUNCTION s_%1$s.f(int, text) SET SCHEMA other_%1$s;
		ALTER STATISTICS s_%1$s.st3 SET SCHEMA other_%1$s}],
	# as ORMs change the type of a column that views use
	[migrate => q{
		DROP VIEW s_%1$s.w CASCADE;
		DROP VIEW s_%1$s.v;
		ALTER TABLE s_%1$s.k2 ALTER z TYPE varchar(90);
		ALTER TABLE s_%1$s.k2 DROP COLUMN yy CASCADE;
		CREATE VIEW s_%1$s.v AS SELECT id, z, x FROM s_%1$s.k2;
		CREATE VIEW s_%1$s.w AS SELECT z FROM s_%1$s.v;
		ALTER TABLE s_%1$s.k2 DROP COLUMN z CASCADE;
		DROP TRIGGER tr_renamed ON s_%1$s.k2}],
	[drop => q{
		DROP INDEX s_%1$s.m_n;
		DROP FUNCTION s_%1$s.tf() CASCADE;
		DROP RULE r2 ON s_%1$s.k2;
		DROP POLICY pol3 ON s_%1$s.k2;
		DROP STATISTICS IF EXISTS s_%1$s.st;
		DROP FUNCTION s_%1$s.hh(int[]), s_%1$s.g(t);
		DROP AGGREGATE s_%1$s.every_row(*);
		DROP PROCEDURE s_%1$s.p(int);
		DROP MATERIALIZED VIEW s_%1$s.m2;
		DROP TABLE s_%1$s.k2 CASCADE;
		DROP SCHEMA other_%1$s CASCADE}],
);

foreach my $step (@steps)
{
	my ($name, $commands) = @$step;
	my %sql = map { $_ => sprintf($commands, $_) } qw(alone rows down);
	if ($name eq 'alter')
	{
		# not in a transaction block with other changes of the same object
		$sql{$_} =~ s/REFRESH MATERIALIZED VIEW CONCURRENTLY [^;]*;// foreach qw(rows down);
	}
	$pub->safe_psql('postgres', $_) foreach grep { /\S/ } split_commands($sql{alone});
	same_schema("$name, each alone");
	$pub->safe_psql('postgres', "BEGIN; INSERT INTO t (id, a) VALUES (nextval('log_id_seq') + 1000, 1); $sql{rows}; "
		. "UPDATE t SET a = a + 1; COMMIT");
	same_schema("$name, in a transaction with rows");
	$sub->stop;
	$pub->safe_psql('postgres', "BEGIN; $sql{down}; COMMIT");
	$sub->start;
	same_schema("$name, subscriber down");
}
compare_tables($pub, $sub, 'after all', '^public\.t$');

sub split_commands
{
	my ($sql) = @_;
	my @commands = ('');
	foreach my $part (split /(;\s*\n)/, $sql)
	{
		if ($part =~ /^;\s*\n/ && ($commands[-1] =~ tr/\$// ) % 2 == 0) { push @commands, ''; }
		else { $commands[-1] .= $part; }
	}
	return @commands;
}

is($sub->safe_psql('postgres', q{SELECT count(*) FROM log}), $pub->safe_psql('postgres', q{SELECT count(*) FROM log}),
	'triggers and rules did not fire twice');
is($sub->safe_psql('postgres', q{SELECT string_agg(DISTINCT verdict, ',') FROM schemasync_ddl_history WHERE verdict NOT IN ('forward', 'satisfied')
	AND verdict <> 'carry' AND detail !~ 'changes nothing'}), '', 'nothing was ignored');

# --- extensions, in the stream
$pub->safe_psql('postgres', $_) foreach (
	q{CREATE SCHEMA ext}, q{CREATE EXTENSION citext VERSION '1.4' SCHEMA ext}, q{ALTER EXTENSION citext UPDATE},
	q{CREATE TABLE ci (id ext.citext PRIMARY KEY); INSERT INTO ci VALUES ('A'), ('b')}, q{CREATE EXTENSION earthdistance CASCADE},
	q{DROP EXTENSION cube CASCADE}, q{ALTER EXTENSION citext SET SCHEMA public});
same_schema('extensions');
compare_tables($pub, $sub, 'a type of an extension', '^public\.ci$');

# --- partitions have copies of their parent's triggers
$pub->safe_psql('postgres', q{
	CREATE TABLE pt (id int PRIMARY KEY) PARTITION BY RANGE (id);
	CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10);
	CREATE FUNCTION ptf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TRIGGER ptt AFTER INSERT ON pt FOR EACH ROW EXECUTE FUNCTION ptf();
	CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (10) TO (20);
	ALTER TABLE pt DISABLE TRIGGER ptt;
	ALTER TABLE pt2 ENABLE REPLICA TRIGGER ptt;
	INSERT INTO pt VALUES (1), (11);
	ALTER TABLE pt DETACH PARTITION pt2;
	DROP TABLE pt1});
same_schema('triggers of partitions');

# --- what cannot be done is refused by name, and its hint helps
sub refused
{
	my ($reason, $changes, $command, @repairs) = @_;
	$pub->safe_psql('postgres', $command);
	my $id = wait_refused($sub, 'sub', $reason);
	like($sub->safe_psql('postgres', "SELECT changes FROM schemasync_refusals WHERE refusal_id = $id"),
		$changes, "and it says why: $command");
	my $hint = $sub->safe_psql('postgres', "SELECT hint FROM schemasync_refusals WHERE refusal_id = $id");
	$sub->safe_psql('postgres', $_) foreach @repairs;
	my ($way_out) = $hint =~ /(SELECT schemasync_re[^;]*)/;
	$sub->safe_psql('postgres', $way_out);
	return same_schema("after $reason");
}
refused('missing_object', qr/role "only_there" does not exist/, 'CREATE ROLE only_there; GRANT SELECT ON t TO only_there', 'CREATE ROLE only_there');
$sub->safe_psql('postgres', q{CREATE FUNCTION taken() RETURNS int LANGUAGE sql AS 'SELECT 2'});
refused('local_name_taken', qr/public\.taken\(\)/, q{CREATE FUNCTION taken() RETURNS int LANGUAGE sql AS 'SELECT 1'});
$sub->safe_psql('postgres', 'CREATE VIEW here AS SELECT a FROM t');
refused('local_dependents', qr/view public\.here/, 'ALTER TABLE t DROP COLUMN a', 'DROP VIEW here');
refused('policy_refuse', qr/SECURITY DEFINER/, q{CREATE ROLE app; GRANT CREATE ON SCHEMA public TO PUBLIC; SET ROLE app;
	CREATE FUNCTION of_app() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'},
	'CREATE ROLE app', q{SELECT schemasync_alter_subscription('sub', options => '{"owners": "same"}')});

# --- a subscription that starts with everything there
$_->safe_psql('postgres', 'CREATE DATABASE second') foreach ($pub, $sub);
$_->safe_psql('second', 'CREATE EXTENSION schemasync') foreach ($pub, $sub);
$pub->safe_psql('second', q{
	CREATE TABLE t (id int PRIMARY KEY, a int, b text, c text);
	INSERT INTO t SELECT g, g, 'b' || g, 'c' FROM generate_series(1, 5) g;
	CREATE TABLE log (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text);
	CREATE EXTENSION hstore;
	CREATE TABLE with_extension (id int PRIMARY KEY, h hstore);
	CREATE PUBLICATION pub2 FOR ALL TABLES});
$pub->safe_psql('second', sprintf($steps[$_][1], 'initial')) foreach (0 .. 2);
create_subscription($pub, $sub, 'sub2', publications => ['pub2'], dbname => 'second', args => $all);
is(schema_of($sub, 'second'), schema_of($pub, 'second'), 'all that was there is made');
$pub->safe_psql('second', sprintf($steps[3][1], 'initial') =~ s/REFRESH MATERIALIZED VIEW CONCURRENTLY [^;]*;//r);
wait_applied($pub, $sub, 'sub2', 'second');
is(schema_of($sub, 'second'), schema_of($pub, 'second'), 'and is followed from there');

# --- schemasync_diff tells of what was changed here by hand, with the SQL that levels it
sub differences
{
	return $sub->safe_psql('second', q{SELECT concat_ws('|', object_type, object_identity, difference, verdict, reason) FROM schemasync_diff('sub2')});
}
is(differences(), '', 'no differences of the objects that are followed');
$pub->safe_psql('second', q{
	CREATE SCHEMA d; CREATE SEQUENCE d.free; CREATE SEQUENCE d.lost; CREATE VIEW d.v AS SELECT id, b FROM t; CREATE VIEW d.gone AS SELECT 1 AS one;
	CREATE MATERIALIZED VIEW d.m AS SELECT b FROM t; CREATE INDEX m_b ON d.m (b);
	CREATE FUNCTION d.f(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT x + 1'; CREATE FUNCTION d.named() RETURNS int LANGUAGE sql AS 'SELECT 1';
	CREATE FUNCTION d.tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE FUNCTION d.taken() RETURNS int LANGUAGE sql AS 'SELECT 1';
	CREATE TRIGGER diff_lost BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION d.tf(); CREATE TRIGGER diff_off BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION d.tf();
	CREATE RULE diff_rule AS ON DELETE TO t WHERE false DO NOTHING; CREATE POLICY diff_policy ON t USING (id > 0); CREATE STATISTICS d.st ON id, b FROM t;
	COMMENT ON VIEW d.v IS 'vee'; GRANT SELECT ON d.v TO reader});
wait_applied($pub, $sub, 'sub2', 'second');
is(differences(), '', 'nor of new ones');
$sub->safe_psql('second', q{
	DROP VIEW d.gone; DROP SEQUENCE d.lost; ALTER SEQUENCE d.free INCREMENT 5 CYCLE; CREATE OR REPLACE VIEW d.v AS SELECT id, b || 'x' AS b FROM t; DROP INDEX d.m_b;
	CREATE OR REPLACE FUNCTION d.f(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT x + 2'; ALTER FUNCTION d.named() RENAME TO named_here;
	DROP TRIGGER diff_lost ON t; ALTER TABLE t DISABLE TRIGGER diff_off; CREATE OR REPLACE RULE diff_rule AS ON DELETE TO t WHERE id < 0 DO NOTHING;
	ALTER POLICY diff_policy ON t USING (id > 1); ALTER STATISTICS d.st SET STATISTICS 7; COMMENT ON VIEW d.v IS 'other'; REVOKE SELECT ON d.v FROM reader;
	DROP FUNCTION d.taken();
	CREATE VIEW d.mine AS SELECT 2 AS two; CREATE SEQUENCE d.my_own; GRANT SELECT ON d.m TO reader});
is(join("\n", sort split /\n/, differences()), join("\n", sort
	'view|d.gone|view is missing on the subscriber|forward',
	'sequence|d.lost|sequence is missing on the subscriber|forward',
	'sequence|d.free|sequence is defined otherwise on the subscriber|forward',
	'view|d.v|view is defined otherwise on the subscriber|forward',
	'materialized view|d.m|materialized view is defined otherwise on the subscriber|forward',
	'function|d.f(integer)|function is defined otherwise on the subscriber|forward',
	'function|d.named()|function is named named_here on the subscriber|forward',
	'function|d.taken()|function is missing on the subscriber|forward',
	'trigger|diff_lost on public.t|trigger is missing on the subscriber|forward',
	'trigger|diff_off on public.t|trigger is defined otherwise on the subscriber|forward',
	'rule|diff_rule on public.t|rule is defined otherwise on the subscriber|forward',
	'policy|diff_policy on public.t|policy is defined otherwise on the subscriber|forward',
	'statistics object|d.st|statistics object is defined otherwise on the subscriber|forward',
	'view|d.v|comment on view differs on the subscriber|forward',
	'view|d.v|privileges on view differ on the subscriber|forward'),
	'each that differs here, and none that is only here');
my $levels = q{SELECT string_agg(suggested_sql, E';\n') FROM schemasync_diff('sub2')};
$sub->safe_psql('second', $sub->safe_psql('second', $levels));
is(differences(), '', 'the SQL levels all of it');
$sub->safe_psql('second', q{DROP VIEW d.mine; DROP SEQUENCE d.my_own; REVOKE SELECT ON d.m FROM reader});
is(schema_of($sub, 'second'), schema_of($pub, 'second'), '... and makes it as it was');
$sub->safe_psql('second', q{SELECT schemasync_stop('sub2', drain => true)});
$sub->safe_psql('second', q{CREATE VIEW d.other AS SELECT 3 AS three});
$pub->safe_psql('second', q{CREATE VIEW d.other AS SELECT 4 AS three; CREATE TABLE d.fresh (id int PRIMARY KEY); DROP VIEW d.gone});
is(differences(), join("\n", 'table|d.fresh|table is published and the subscription does not follow it yet|refuse|missing_object',
	'view|d.other|view is defined otherwise on the subscriber|refuse|local_name_taken'), 'what is to come has the verdict that it will get');
$sub->safe_psql('second', q{DROP VIEW d.other; SELECT schemasync_start('sub2')});
wait_applied($pub, $sub, 'sub2', 'second');
is(schema_of($sub, 'second'), schema_of($pub, 'second'), 'and came');

# --- classes that are not named are ignored, with a row of history each
$sub->safe_psql('second', q{SELECT schemasync_alter_subscription('sub2', options => '{"ddl_classes": ["functions"]}')});
$pub->safe_psql('second', $_) foreach (
	q{CREATE FUNCTION followed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'}, q{CREATE VIEW unseen AS SELECT 1 AS one},
	q{CREATE MATERIALIZED VIEW unseen_too AS SELECT 1 AS one}, q{CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION followed()},
	q{CREATE RULE r AS ON INSERT TO t DO NOTHING}, q{CREATE POLICY p ON t USING (true)}, q{COMMENT ON TABLE t IS 'x'}, q{GRANT SELECT ON t TO reader},
	q{REVOKE SELECT ON t FROM reader}, q{CREATE STATISTICS st ON a, b FROM t}, q{CREATE EXTENSION citext}, q{DROP VIEW unseen});
wait_applied($pub, $sub, 'sub2', 'second');
is($sub->safe_psql('second', q{SELECT string_agg(operation || ' ' || object_identity || ' ' || substring(detail FROM 'class (\w+)'), E'\n' ORDER BY history_id)
	FROM schemasync_ddl_history WHERE verdict = 'ignore' AND detail LIKE 'The option ddl_classes%'}), join("\n",
	'create_view public.unseen views', 'create_materialized_view public.unseen_too views', 'create_trigger tr on public.t triggers',
	'create_rule r on public.t rules', 'create_policy p on public.t policies', 'comment public.t comments', 'grant public.t privileges',
	'revoke public.t privileges', 'create_statistics public.st statistics', 'create_extension citext extensions', 'drop_view public.unseen views'),
	'each is shown as ignored');
is($sub->safe_psql('second', q{SELECT count(*) FROM pg_proc WHERE proname = 'followed'}), '1', 'the class that is named is followed');
is(differences(), '', 'and the others are not compared');

# --- named later: a refresh brings what is missing
$sub->safe_psql('second', q{SELECT schemasync_alter_subscription('sub2', options => '{"ddl_classes": "all"}')});
$sub->safe_psql('second', q{SELECT schemasync_refresh('sub2')});
wait_applied($pub, $sub, 'sub2', 'second');
$sub->poll_query_until('second', q{SELECT count(*) = 1 FROM pg_statistic_ext WHERE stxname = 'st' AND stxnamespace = 'public'::regnamespace}) or die 'no refresh';
wait_applied($pub, $sub, 'sub2', 'second');
is(schema_of($sub, 'second'), schema_of($pub, 'second'), 'after a refresh all is there');

# --- a publication of a schema tells of what is in it, and of no more
$sub->safe_psql('second', q{SELECT schemasync_drop_subscription('sub2')});
$pub->safe_psql('second', q{CREATE SCHEMA app; CREATE TABLE app.x (id int PRIMARY KEY); CREATE PUBLICATION pub3 FOR TABLES IN SCHEMA app});
create_subscription($pub, $sub, 'sub3', publications => ['pub3'], dbname => 'second', args => $all);
$pub->safe_psql('second', q{CREATE VIEW app.v AS SELECT id FROM app.x; CREATE VIEW public.outside AS SELECT id FROM app.x;
	CREATE TRIGGER tr BEFORE UPDATE ON app.x FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()});
wait_applied($pub, $sub, 'sub3', 'second');
is($sub->safe_psql('second', q{SELECT to_regclass('app.v') IS NOT NULL, to_regclass('public.outside') IS NULL,
	(SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.x'::regclass)}), 't|t|1', 'what is in the schema');
$pub->safe_psql('second', q{DROP VIEW app.v, public.outside; DROP TRIGGER tr ON app.x});
wait_applied($pub, $sub, 'sub3', 'second');
is($sub->safe_psql('second', q{SELECT to_regclass('app.v') IS NULL, (SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.x'::regclass)}),
	't|0', 'and is dropped again');

# --- what a publication takes in brings what lies on it, and what a table's default calls
$pub->safe_psql('second', q{
	CREATE SCHEMA more; CREATE SEQUENCE numbers; CREATE FUNCTION unpublished() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TABLE more.y (id int PRIMARY KEY DEFAULT nextval('numbers'), v int); INSERT INTO more.y (v) VALUES (1), (2);
	CREATE FUNCTION more.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE VIEW more.w AS SELECT v FROM more.y;
	REVOKE EXECUTE ON FUNCTION more.f() FROM PUBLIC; COMMENT ON FUNCTION more.f() IS 'eff';
	CREATE TRIGGER tr BEFORE INSERT ON more.y FOR EACH ROW EXECUTE FUNCTION more.f(); COMMENT ON TABLE more.y IS 'why'; COMMENT ON VIEW more.w IS 'double u';
	CREATE TRIGGER lost BEFORE INSERT ON more.y FOR EACH ROW EXECUTE FUNCTION unpublished(); GRANT SELECT ON more.y TO reader; CREATE STATISTICS more.s ON id, v FROM more.y;
	ALTER PUBLICATION pub3 ADD TABLES IN SCHEMA more});
wait_applied($pub, $sub, 'sub3', 'second');
$sub->poll_query_until('second', q{SELECT to_regclass('more.w') IS NOT NULL}) or die 'what lies on a new table is not here';
wait_applied($pub, $sub, 'sub3', 'second');
compare_tables($pub, $sub, 'a table with a sequence from before', '^more\.y$', 'second');
is($sub->safe_psql('second', q{SELECT obj_description('more.y'::regclass), obj_description('more.w'::regclass), has_table_privilege('reader', 'more.y', 'SELECT'),
	(SELECT string_agg(tgname, ',') FROM pg_trigger WHERE tgrelid = 'more.y'::regclass), (SELECT count(*) FROM pg_statistic_ext WHERE stxrelid = 'more.y'::regclass)}),
	'why|double u|t|tr|1', 'a schema that is published later brings what is in it');
is($sub->safe_psql('second', q{SELECT obj_description('more.f'::regproc), NOT EXISTS (SELECT FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) a
	WHERE p.oid = 'more.f'::regproc AND a.grantee = 0)}), 'eff|t', '... with what is said of it and who may call it');
is($sub->safe_psql('second', 'SELECT count(*) FROM schemasync.relation WHERE adopt OR adopting'), '0', '... all of it');
is($sub->safe_psql('second', q{SELECT verdict FROM schemasync_ddl_history WHERE object_identity = 'lost on more.y' AND detail ~ 'function public\.unpublished\(\) does not exist'}),
	'ignore', '... and what cannot be made is said');
is($sub->safe_psql('second', q{SELECT count(*) FROM schemasync_ddl_history WHERE operation ~ 'publication' AND verdict = 'ignore'}), '0', 'the command itself is none that is ignored');

done_testing();
