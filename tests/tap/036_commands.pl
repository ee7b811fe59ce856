# Every command that fires event triggers leaves a row in schemasync_ddl_history: forwarded, ignored or refused, and never
# nothing. Each is run on a publisher with two subscribers, one that follows all classes and one with the default options.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my $pub = SchemasyncTest::new_node('publisher');
my $all = SchemasyncTest::new_node('subscriber');

# What the commands need, and is not looked for.
$pub->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, a int, b text);
	INSERT INTO t VALUES (1, 1, 'x');
	CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE PUBLICATION pub FOR ALL TABLES;
});
$_->safe_psql('postgres', 'CREATE ROLE reader; CREATE ROLE leaver; CREATE ROLE "Odd role"') foreach ($pub, $all);
$all->safe_psql('postgres', 'CREATE DATABASE plain');
$all->safe_psql('plain', 'CREATE EXTENSION schemasync');
create_subscription($pub, $all, 'all', args => q{options => '{"ddl_classes": "all"}'});
(my $conninfo = $pub->connstr('postgres')) =~ s/'/''/g;
$all->safe_psql('plain', "SELECT schemasync_create_subscription('plain', '$conninfo', ARRAY['pub'])");
wait_plain();

sub wait_plain
{
	my $lsn = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
	$all->safe_psql('plain', "SELECT schemasync_wait('plain', '$lsn', interval '120 s')");
	return;
}

$pub->safe_psql('postgres', 'CREATE SCHEMA other; CREATE SCHEMA "Odd, one"');
# In this order. The tags are the server's; those that have no command in any version are named below.
my @commands = (
	'CREATE ACCESS METHOD' => 'CREATE ACCESS METHOD am TYPE TABLE HANDLER heap_tableam_handler',
	'DROP ACCESS METHOD' => 'DROP ACCESS METHOD am',
	'CREATE AGGREGATE' => 'CREATE AGGREGATE ag(int) (SFUNC = int4pl, STYPE = int)',
	'ALTER AGGREGATE' => 'ALTER AGGREGATE ag(int) RENAME TO ag2',
	'DROP AGGREGATE' => 'DROP AGGREGATE ag2(int)',
	'CREATE COLLATION' => q{CREATE COLLATION co FROM "C"},
	'ALTER COLLATION' => 'ALTER COLLATION co RENAME TO co2',
	'DROP COLLATION' => 'DROP COLLATION co2',
	'CREATE CONVERSION' => q{CREATE CONVERSION cv FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8},
	'ALTER CONVERSION' => 'ALTER CONVERSION cv RENAME TO cv2',
	'DROP CONVERSION' => 'DROP CONVERSION cv2',
	'ALTER DEFAULT PRIVILEGES' => 'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader',
	'ALTER DEFAULT PRIVILEGES' => 'ALTER DEFAULT PRIVILEGES FOR ROLE reader, "Odd role" IN SCHEMA other, "Odd, one" GRANT ALL ON SEQUENCES TO PUBLIC',
	'ALTER DEFAULT PRIVILEGES' => 'ALTER DEFAULT PRIVILEGES IN SCHEMA other GRANT EXECUTE ON FUNCTIONS TO "Odd role" WITH GRANT OPTION',
	'ALTER DEFAULT PRIVILEGES' => 'ALTER DEFAULT PRIVILEGES REVOKE USAGE ON TYPES FROM PUBLIC',
	'ALTER DEFAULT PRIVILEGES' => 'ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON ROUTINES FROM PUBLIC',
	'ALTER DEFAULT PRIVILEGES' => 'ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON ROUTINES TO PUBLIC',
	'ALTER DEFAULT PRIVILEGES' => 'ALTER DEFAULT PRIVILEGES IN SCHEMA other REVOKE GRANT OPTION FOR EXECUTE ON FUNCTIONS FROM "Odd role"',
	'CREATE DOMAIN' => 'CREATE DOMAIN dom AS int CHECK (VALUE > 0)',
	'ALTER DOMAIN' => 'ALTER DOMAIN dom SET DEFAULT 3',
	'DROP DOMAIN' => 'DROP DOMAIN dom',
	'CREATE EXTENSION' => 'CREATE EXTENSION citext',
	'ALTER EXTENSION' => 'ALTER EXTENSION citext SET SCHEMA other',
	'DROP EXTENSION' => 'DROP EXTENSION citext',
	'CREATE FOREIGN DATA WRAPPER' => 'CREATE FOREIGN DATA WRAPPER fdw',
	'ALTER FOREIGN DATA WRAPPER' => q{ALTER FOREIGN DATA WRAPPER fdw OPTIONS (secret 'topsecret')},
	'CREATE SERVER' => q{CREATE SERVER srv FOREIGN DATA WRAPPER fdw OPTIONS (secret 'topsecret')},
	'ALTER SERVER' => q{ALTER SERVER srv OPTIONS (SET secret 'topsecret2')},
	'CREATE USER MAPPING' => q{CREATE USER MAPPING FOR PUBLIC SERVER srv OPTIONS (password 'topsecret')},
	'ALTER USER MAPPING' => q{ALTER USER MAPPING FOR PUBLIC SERVER srv OPTIONS (SET password 'topsecret2')},
	'CREATE FOREIGN TABLE' => 'CREATE FOREIGN TABLE ft (a int) SERVER srv',
	'ALTER FOREIGN TABLE' => 'ALTER FOREIGN TABLE ft ADD b int',
	'DROP FOREIGN TABLE' => 'DROP FOREIGN TABLE ft',
	'DROP USER MAPPING' => 'DROP USER MAPPING FOR PUBLIC SERVER srv',
	'DROP SERVER' => 'DROP SERVER srv',
	'DROP FOREIGN DATA WRAPPER' => 'DROP FOREIGN DATA WRAPPER fdw',
	'CREATE FUNCTION' => q{CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'},
	'ALTER FUNCTION' => 'ALTER FUNCTION f() STABLE',
	'ALTER ROUTINE' => 'ALTER ROUTINE f() RENAME TO f2',
	'DROP FUNCTION' => 'DROP FUNCTION f2()',
	'CREATE FUNCTION' => q{CREATE FUNCTION f3() RETURNS int LANGUAGE sql AS 'SELECT 1'},
	'DROP ROUTINE' => 'DROP ROUTINE f3()',
	'CREATE PROCEDURE' => q{CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'},
	'ALTER PROCEDURE' => 'ALTER PROCEDURE p() SECURITY DEFINER',
	'DROP PROCEDURE' => 'DROP PROCEDURE p()',
	'CREATE INDEX' => 'CREATE INDEX i ON t (a)',
	'ALTER INDEX' => 'ALTER INDEX i SET (fillfactor = 70)',
	'REINDEX' => 'REINDEX INDEX i',
	'DROP INDEX' => 'DROP INDEX i',
	'CREATE LANGUAGE' => 'CREATE LANGUAGE lang HANDLER plpgsql_call_handler',
	'ALTER LANGUAGE' => 'ALTER LANGUAGE lang RENAME TO lang2',
	'DROP LANGUAGE' => 'DROP LANGUAGE lang2',
	'ALTER LARGE OBJECT' => 'ALTER LARGE OBJECT 4711 OWNER TO reader',
	'CREATE MATERIALIZED VIEW' => 'CREATE MATERIALIZED VIEW mv AS SELECT id, count(*) AS n FROM t GROUP BY id',
	'CREATE INDEX' => 'CREATE UNIQUE INDEX mv_i ON mv (id)',
	'REFRESH MATERIALIZED VIEW' => 'REFRESH MATERIALIZED VIEW mv',
	'REFRESH MATERIALIZED VIEW' => 'REFRESH MATERIALIZED VIEW CONCURRENTLY mv',
	'ALTER MATERIALIZED VIEW' => 'ALTER MATERIALIZED VIEW mv RENAME TO mv2',
	'DROP MATERIALIZED VIEW' => 'DROP MATERIALIZED VIEW mv2',
	'CREATE OPERATOR' => 'CREATE OPERATOR ### (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)',
	'ALTER OPERATOR' => 'ALTER OPERATOR ### (int, int) SET SCHEMA other',
	'DROP OPERATOR' => 'DROP OPERATOR other.### (int, int)',
	'CREATE OPERATOR FAMILY' => 'CREATE OPERATOR FAMILY fam USING btree',
	'ALTER OPERATOR FAMILY' => 'ALTER OPERATOR FAMILY fam USING btree RENAME TO fam2',
	'DROP OPERATOR FAMILY' => 'DROP OPERATOR FAMILY fam2 USING btree',
	'CREATE OPERATOR CLASS' => 'CREATE OPERATOR CLASS cls FOR TYPE int4 USING hash AS OPERATOR 1 =',
	'ALTER OPERATOR CLASS' => 'ALTER OPERATOR CLASS cls USING hash RENAME TO cls2',
	'DROP OPERATOR CLASS' => 'DROP OPERATOR CLASS cls2 USING hash',
	'CREATE POLICY' => 'CREATE POLICY pol ON t USING (true)',
	'ALTER POLICY' => 'ALTER POLICY pol ON t USING (a > 0)',
	'DROP POLICY' => 'DROP POLICY pol ON t',
	'CREATE PUBLICATION' => 'CREATE PUBLICATION more FOR TABLE t',
	'ALTER PUBLICATION' => q{ALTER PUBLICATION more SET (publish = 'insert')},
	'DROP PUBLICATION' => 'DROP PUBLICATION more',
	'CREATE RULE' => 'CREATE RULE ru AS ON DELETE TO t WHERE OLD.a < 0 DO ALSO NOTHING',
	'ALTER RULE' => 'ALTER RULE ru ON t RENAME TO ru2',
	'DROP RULE' => 'DROP RULE ru2 ON t',
	'CREATE SCHEMA' => 'CREATE SCHEMA sch',
	'ALTER SCHEMA' => 'ALTER SCHEMA sch RENAME TO sch2',
	'DROP SCHEMA' => 'DROP SCHEMA sch2',
	'CREATE SEQUENCE' => 'CREATE SEQUENCE se',
	'ALTER SEQUENCE' => 'ALTER SEQUENCE se INCREMENT 3',
	'DROP SEQUENCE' => 'DROP SEQUENCE se',
	'CREATE STATISTICS' => 'CREATE STATISTICS st ON a, b FROM t',
	'ALTER STATISTICS' => 'ALTER STATISTICS st SET STATISTICS 7',
	'DROP STATISTICS' => 'DROP STATISTICS st',
	'CREATE SUBSCRIPTION' => q{CREATE SUBSCRIPTION subs CONNECTION 'dbname=nowhere password=topsecret' PUBLICATION p WITH (connect = false)},
	'ALTER SUBSCRIPTION' => q{ALTER SUBSCRIPTION subs CONNECTION 'dbname=nowhere password=topsecret2'},
	'ALTER SUBSCRIPTION' => 'ALTER SUBSCRIPTION subs SET (slot_name = NONE)',
	'DROP SUBSCRIPTION' => 'DROP SUBSCRIPTION subs',
	'CREATE TABLE' => 'CREATE TABLE made (id int PRIMARY KEY, a int)',
	'ALTER TABLE' => 'ALTER TABLE made ADD b int',
	'DROP TABLE' => 'DROP TABLE made',
	'CREATE TABLE AS' => 'CREATE TABLE made_as AS SELECT 1 AS one',
	'SELECT INTO' => 'SELECT 1 AS one INTO selected',
	'DROP OWNED' => 'DROP OWNED BY leaver',
	'CREATE TEXT SEARCH CONFIGURATION' => 'CREATE TEXT SEARCH CONFIGURATION tc (COPY = simple)',
	'ALTER TEXT SEARCH CONFIGURATION' => 'ALTER TEXT SEARCH CONFIGURATION tc RENAME TO tc2',
	'DROP TEXT SEARCH CONFIGURATION' => 'DROP TEXT SEARCH CONFIGURATION tc2',
	'CREATE TEXT SEARCH DICTIONARY' => 'CREATE TEXT SEARCH DICTIONARY td (TEMPLATE = simple)',
	'ALTER TEXT SEARCH DICTIONARY' => 'ALTER TEXT SEARCH DICTIONARY td (ACCEPT = false)',
	'DROP TEXT SEARCH DICTIONARY' => 'DROP TEXT SEARCH DICTIONARY td',
	'CREATE TEXT SEARCH PARSER' => 'CREATE TEXT SEARCH PARSER tp (START = prsd_start, GETTOKEN = prsd_nexttoken, END = prsd_end, LEXTYPES = prsd_lextype)',
	'ALTER TEXT SEARCH PARSER' => 'ALTER TEXT SEARCH PARSER tp RENAME TO tp2',
	'DROP TEXT SEARCH PARSER' => 'DROP TEXT SEARCH PARSER tp2',
	'CREATE TEXT SEARCH TEMPLATE' => 'CREATE TEXT SEARCH TEMPLATE tt (LEXIZE = dsimple_lexize)',
	'ALTER TEXT SEARCH TEMPLATE' => 'ALTER TEXT SEARCH TEMPLATE tt RENAME TO tt2',
	'DROP TEXT SEARCH TEMPLATE' => 'DROP TEXT SEARCH TEMPLATE tt2',
	'CREATE TRANSFORM' => 'CREATE TRANSFORM FOR int LANGUAGE sql (FROM SQL WITH FUNCTION prsd_lextype(internal), TO SQL WITH FUNCTION int4recv(internal))',
	'DROP TRANSFORM' => 'DROP TRANSFORM FOR int LANGUAGE sql',
	'CREATE TRIGGER' => 'CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION tf()',
	'ALTER TRIGGER' => 'ALTER TRIGGER tr ON t RENAME TO tr2',
	'DROP TRIGGER' => 'DROP TRIGGER tr2 ON t',
	'CREATE TYPE' => q{CREATE TYPE ty AS ENUM ('a')},
	'ALTER TYPE' => q{ALTER TYPE ty ADD VALUE 'b'},
	'CREATE CAST' => 'CREATE CAST (ty AS varchar) WITH INOUT',
	'DROP CAST' => 'DROP CAST (ty AS varchar)',
	'DROP TYPE' => 'DROP TYPE ty',
	'CREATE VIEW' => 'CREATE VIEW v AS SELECT 1 AS one',
	'ALTER VIEW' => 'ALTER VIEW v RENAME TO v2',
	'DROP VIEW' => 'DROP VIEW v2',
	'COMMENT' => q{COMMENT ON TABLE t IS 'a comment'},
	'GRANT' => 'GRANT SELECT ON t TO reader',
	'REVOKE' => 'REVOKE SELECT ON t FROM reader',
);
# The server's list has them, its grammar has not; or they need what a test cannot have: a provider of labels, a second server's tables, a login.
my %without = map { $_ => 1 } ('ALTER ACCESS METHOD', 'ALTER CAST', 'ALTER CONSTRAINT', 'ALTER TRANSFORM', 'CREATE CONSTRAINT', 'CREATE ROUTINE',
	'DROP CONSTRAINT', 'SECURITY LABEL', 'IMPORT FOREIGN SCHEMA', 'LOGIN', 'REPACK', 'ALTER PROPERTY GRAPH', 'CREATE PROPERTY GRAPH', 'DROP PROPERTY GRAPH');

sub server_fires
{
	my ($tag) = @_;
	return 0 == $pub->psql('postgres', "BEGIN; CREATE EVENT TRIGGER probe ON ddl_command_end WHEN TAG IN ('$tag') EXECUTE FUNCTION schemasync.capture_end(); ROLLBACK",
		on_error_die => 0);
}

my (%done, $script);
$pub->safe_psql('postgres', 'SELECT lo_create(4711); CREATE TABLE left_behind (id int); ALTER TABLE left_behind OWNER TO leaver');
for (my $i = 0; $i < @commands; $i += 2)
{
	my ($tag, $sql) = @commands[$i, $i + 1];
	$done{$tag} = 1;
	next if $tag eq 'REINDEX' && !server_fires($tag);
	$script .= "$sql;\n";
}
$pub->safe_psql('postgres', $script);
wait_applied($pub, $all, 'all');
wait_plain();

my @tags = split /\n/, $pub->safe_psql('postgres', 'SELECT tag FROM schemasync_commands');
is(join(', ', grep { !$done{$_} && !$without{$_} && server_fires($_) } @tags), '', 'there is a command for each tag');
foreach my $side ([postgres => 'all'], [plain => 'plain'])
{
	my ($dbname, $name) = @$side;
	my @silent;
	my %shown = map { $_ => 1 } split /\n/, $all->safe_psql($dbname,
		q{SELECT DISTINCT statement FROM schemasync_ddl_history WHERE verdict IN ('forward', 'satisfied', 'ignore', 'carry')});
	for (my $i = 0; $i < @commands; $i += 2)
	{
		my ($tag, $sql) = @commands[$i, $i + 1];
		next if $tag eq 'REINDEX' && !server_fires($tag);
		push @silent, $sql unless $shown{$sql} || $shown{$tag};
	}
	is(join("\n", @silent), '', "$name: each command shows in the history");
	is($all->safe_psql($dbname, q{SELECT string_agg(DISTINCT operation, ',') FROM schemasync_ddl_history WHERE verdict = 'ignore' AND coalesce(detail, '') = ''}),
		'', "$name: what is ignored says why");
	is($all->safe_psql($dbname, q{SELECT count(*) FROM schemasync_ddl_history h WHERE h::text ~ 'topsecret'}), '0', "$name: no password is in the history");
}
is($all->safe_psql('postgres', q{SELECT count(*) FROM schemasync_ddl_history WHERE applied_sql ~ '^REFRESH MATERIALIZED VIEW (CONCURRENTLY )?"public"."mv" WITH DATA$'}), '2',
	'refreshes are forwarded');
my $defaults = q{SELECT pg_get_userbyid(defaclrole), defaclnamespace::regnamespace, defaclobjtype, defaclacl::text[] FROM pg_default_acl
	WHERE pg_get_userbyid(defaclrole) <> 'leaver' ORDER BY 1, 2, 3};
is($all->safe_psql('postgres', $defaults), $pub->safe_psql('postgres', $defaults), 'default privileges are equal');
is($all->safe_psql('plain', 'SELECT count(*) FROM pg_default_acl'), '0', '... and not where the class is not named');

# --- a refresh is made of the rows that are here at its place in the stream, by the owner, for readers too
$pub->safe_psql('postgres', $_) foreach (
	q{CREATE MATERIALIZED VIEW at AS SELECT count(*) AS n, max(a) AS m FROM t}, q{CREATE UNIQUE INDEX ON at (n)},
	q{BEGIN; INSERT INTO t VALUES (2, 7); REFRESH MATERIALIZED VIEW at; INSERT INTO t VALUES (3, 9); COMMIT});
wait_applied($pub, $all, 'all');
is($all->safe_psql('postgres', 'TABLE at'), '2|7', 'a refresh within a transaction');
$pub->safe_psql('postgres', q{REFRESH MATERIALIZED VIEW CONCURRENTLY at; DELETE FROM t WHERE id = 3});
wait_applied($pub, $all, 'all');
is($all->safe_psql('postgres', 'TABLE at'), '3|9', 'a refresh beside readers');
$pub->safe_psql('postgres', 'REFRESH MATERIALIZED VIEW at WITH NO DATA');
wait_applied($pub, $all, 'all');
is($all->safe_psql('postgres', q{SELECT relispopulated FROM pg_class WHERE relname = 'at'}), 'f', 'a refresh with no data');
compare($pub, $all, 'at last', '^public\.t$');

# --- a command that rewrites a table and in the same breath drops what stands on it, with the rows carried
$all->safe_psql('postgres', q{SELECT schemasync_alter_subscription('all', options => '{"rewrites": "carry"}')});
$pub->safe_psql('postgres', $_) foreach (
	q{CREATE TABLE cascading (id int PRIMARY KEY, a int UNIQUE, b text); INSERT INTO cascading SELECT g, g, 'b' FROM generate_series(1, 9) g},
	q{CREATE TABLE pointing (id int PRIMARY KEY, a int REFERENCES cascading (a)); CREATE VIEW on_it AS SELECT a FROM cascading},
	q{ALTER TABLE cascading DROP COLUMN a CASCADE, ADD u float8 DEFAULT random(), ALTER b TYPE int USING (random() * 100)::int, ALTER id TYPE bigint},
	q{INSERT INTO pointing VALUES (1, 77)});
wait_applied($pub, $all, 'all');
is($all->safe_psql('postgres', q{SELECT to_regclass('on_it') IS NULL}), 't', 'what the cascade dropped is dropped');
compare($pub, $all, 'a cascade in a rewriting command', '^public\.(cascading|pointing)$');

done_testing();
