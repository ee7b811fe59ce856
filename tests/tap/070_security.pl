# What an ordinary user of the publisher, a table's owner there, and a hostile schema owner on the subscriber may try, and what a
# subscription may do that no superuser owns.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair();
sub pub_sql { return $pub->safe_psql('postgres', $_[0]); }
sub sub_sql { return $sub->safe_psql('postgres', $_[0]); }

# The table t is the same on both sides; its owner is not.
sub level
{
	my ($what) = @_;
	compare_tables($pub, $sub, $what, 'public.t');
	my @catalogs = map { my $text = catalog_of($_, 'public.t'); $text =~ s/ owner \S+//g; $text } $pub, $sub;
	is($catalogs[1], $catalogs[0], "$what: catalogs are equal but for the owner");
	return;
}

# What psql says when it may not.
sub fails_with
{
	my ($node, $role, $sql, $pattern, $what) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; $sql", on_error_stop => 1);
	isnt($status, 0, "$what fails");
	like($err, $pattern, "$what: the error");
	return;
}

pub_sql(q{
	CREATE ROLE repl LOGIN REPLICATION PASSWORD 'p"a''ss';
	CREATE ROLE alice LOGIN;
	CREATE ROLE mallory LOGIN;
	GRANT CREATE ON SCHEMA public TO alice, mallory;
	CREATE TABLE t (id int PRIMARY KEY, a int);
	ALTER TABLE t OWNER TO alice;
	CREATE TABLE hidden (id int PRIMARY KEY, shown int, secret text);
	INSERT INTO t SELECT g, g FROM generate_series(1, 10) g;
	GRANT SELECT ON ALL TABLES IN SCHEMA public TO repl;
	ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO repl;
	ALTER DEFAULT PRIVILEGES FOR ROLE alice GRANT SELECT ON TABLES TO repl;
	CREATE PUBLICATION pub FOR TABLE t, hidden (id, shown);
});
# a role that needs its password, over the same socket as all others
my $hba = $pub->data_dir . '/pg_hba.conf';
my $rules = slurp_file($hba);
open(my $out, '>', $hba) or die;
print $out "local all repl scram-sha-256\nlocal replication repl scram-sha-256\n$rules";
close($out);
$pub->reload;

sub_sql(q{
	CREATE ROLE keeper LOGIN;
	CREATE ROLE mallory LOGIN;
	GRANT CREATE ON SCHEMA public TO keeper, mallory;
	GRANT CREATE ON DATABASE postgres TO keeper;
	DO $$ BEGIN IF current_setting('server_version_num')::int >= 160000 THEN EXECUTE 'GRANT pg_create_subscription TO keeper';
		ELSE EXECUTE 'GRANT EXECUTE ON FUNCTION schemasync_create_subscription TO keeper'; END IF; END $$;
});

# --- a subscription that no superuser owns ---------------------------------------------------------------------------------

my $place = 'host=' . $pub->host . ' port=' . $pub->port . ' dbname=postgres user=repl';
(my $password = q{password='p"a\\'ss'}) =~ s/'/''/g;
fails_with($sub, 'keeper', "SELECT schemasync_create_subscription('k', '$place', '{pub}')", qr/password is required/, 'a connection without a password');
fails_with($sub, 'keeper', qq{SELECT schemasync_create_subscription('k', '$place', '{pub}', options => '{"password_required": false}')},
	qr/password_required=false is superuser-only/, 'waiving the password');
fails_with($sub, 'mallory', "SELECT schemasync_create_subscription('k', '$place $password', '{pub}')", qr/permission denied/, 'a subscription by who may not');
sub_sql("SET SESSION AUTHORIZATION keeper; SELECT schemasync_create_subscription('k', '$place $password', '{pub}')");
wait_applied($pub, $sub, 'k');
level('copied as an ordinary role');
is(sub_sql(q{SELECT string_agg(DISTINCT relowner::regrole::text, ',') FROM pg_class WHERE relname IN ('t', 'hidden', 't_pkey')}), 'keeper',
	'what the worker makes belongs to the owner of the subscription');
is(sub_sql(q{SELECT string_agg(DISTINCT usename, ',') FROM pg_stat_activity WHERE backend_type LIKE 'schemasync apply%' OR application_name LIKE 'schemasync apply%'}), 'keeper',
	'the worker is that role');

pub_sql(q{ALTER TABLE t ADD b int DEFAULT 5; INSERT INTO t VALUES (11, 1, 2); CREATE INDEX ON t (b); ALTER TABLE t RENAME a TO c});
wait_applied($pub, $sub, 'k');
level('changed as an ordinary role');

# --- who may look and touch -------------------------------------------------------------------------------------------------

foreach my $call ("schemasync_stop('k')", "schemasync_start('k')", "schemasync_resume('k')", "schemasync_drop_subscription('k')", "schemasync_skip('k', '0/1')",
	"schemasync_alter_subscription('k', 'host=/nowhere')", "schemasync_refresh('k')", "schemasync_resync('k', 't')", "schemasync_sync_sequences('k')")
{
	fails_with($sub, 'mallory', "SELECT $call", qr/must be owner|permission denied|does not exist/, "$call by another role");
}
is($sub->safe_psql('postgres', q{SET SESSION AUTHORIZATION mallory; SELECT (SELECT count(*) FROM schemasync_subscriptions), (SELECT count(*) FROM schemasync_tables), (SELECT count(*) FROM schemasync_ddl_history)}),
	'0|0|0', 'the views show another role nothing');
like($sub->safe_psql('postgres', q{SET SESSION AUTHORIZATION keeper; SELECT * FROM schemasync_subscriptions}), qr/^k\|/, 'and the owner the own');
unlike(sub_sql(q{GRANT pg_monitor TO mallory; SET SESSION AUTHORIZATION mallory; SELECT to_jsonb(s)::text FROM schemasync_subscriptions s}), qr/password|host=/,
	'who watches the subscriptions of others sees no connection string');
sub_sql('REVOKE pg_monitor FROM mallory');
my $tables = sub_sql(q{SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c WHERE relnamespace = 'schemasync'::regnamespace AND relkind = 'r'});
foreach my $node ($pub, $sub)
{
	foreach my $role ($node == $pub ? 'alice' : 'keeper', 'mallory')
	{
		my @open;
		foreach my $table (split / /, $tables)
		{
			foreach my $try ("SELECT * FROM $table", "INSERT INTO $table DEFAULT VALUES", "DELETE FROM $table", "TRUNCATE $table", "ALTER TABLE $table DISABLE TRIGGER ALL", "DROP TABLE $table")
			{
				my ($status) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; $try", on_error_stop => 1);
				push @open, $try if $status == 0;
			}
		}
		is(join('; ', @open), '', "nothing that the extension stores is open to $role");
	}
}

# --- forged messages --------------------------------------------------------------------------------------------------------

my $forged = '{"v":1,"xid":1,"tag":"DROP TABLE","statement":"DROP TABLE t","user":"postgres","objects":[],"dropped":[{"classid":1259,"objid":1,"objsubid":0,"type":"table","schema":"public","name":"t"}]}';
foreach my $prefix ('schemasync.marker', 'schemasync.ddl', 'schemasync.state', 'schemasync.rewrite', 'schemasync', 'schemasync.')
{
	foreach my $content ($forged, 'x', '', '{', '{"relation": 1}')
	{
		pub_sql("SET SESSION AUTHORIZATION mallory; SELECT pg_logical_emit_message(true, '$prefix', '$content'), pg_logical_emit_message(false, '$prefix', '$content')");
	}
}
pub_sql('INSERT INTO t VALUES (12, 1, 2)');
wait_applied($pub, $sub, 'k');
level('forged messages do nothing');

# --- search_path at capture: a superuser's DDL never runs what lies in the path -----------------------------------------------

pub_sql(q{
	CREATE SCHEMA evil AUTHORIZATION mallory;
	SET SESSION AUTHORIZATION mallory;
	CREATE TABLE evil.caught (who text);
	CREATE FUNCTION evil.trap(anyelement) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO evil.caught VALUES (current_user); RETURN true; END $$;
});
# every function that the extension's SQL might name, with its own argument types, in front of the real one
pub_sql(q{
	DO $$
	DECLARE f record;
	BEGIN
		FOR f IN SELECT DISTINCT ON (proname, proargtypes) proname, pg_get_function_identity_arguments(oid) AS args, format_type(prorettype, NULL) AS result
			FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset AND provariadic = 0
			AND proname IN ('format', 'lower', 'quote_ident', 'quote_literal', 'to_jsonb', 'jsonb_typeof', 'now', 'clock_timestamp', 'current_setting', 'pg_current_wal_lsn',
				'pg_wal_lsn_diff', 'obj_description', 'pg_get_expr', 'count', 'coalesce', 'int4eq', 'texteq', 'oideq', 'array_length', 'pg_size_pretty', 'greatest')
		LOOP
			BEGIN
				EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN INSERT INTO evil.caught VALUES (current_user); RETURN NULL; END''', f.proname, f.args, f.result);
			EXCEPTION WHEN OTHERS THEN NULL;
			END;
		END LOOP;
	END $$;
	CREATE FUNCTION evil.eq(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO evil.caught VALUES (current_user); RETURN true; END';
	CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
	CREATE FUNCTION evil.eq(oid, oid) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO evil.caught VALUES (current_user); RETURN true; END';
	CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.eq);
	GRANT USAGE ON SCHEMA evil TO PUBLIC;
});
pub_sql(q{
	SET search_path = evil, pg_catalog, public;
	ALTER TABLE public.t ADD d text DEFAULT 'x';
	CREATE TABLE public.made (id int PRIMARY KEY);
	DROP TABLE public.made;
	SELECT count(*) FROM public.schemasync_check('ALTER TABLE public.t ADD e int');
	SELECT public.schemasync_describe('public.t') IS NOT NULL;
	SELECT count(*) FROM public.schemasync_slots;
	SELECT count(*) FROM public.schemasync_operations;
});
is(pub_sql('SELECT count(*) FROM evil.caught'), 0, 'nothing of the search path has run at capture, check or in a view');
wait_applied($pub, $sub, 'k');
level('a hostile search path at capture');

# --- expressions: a function of the same name here must be the same function --------------------------------------------------

pub_sql(q{CREATE FUNCTION public.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1'; GRANT CREATE ON SCHEMA public TO alice});
sub_sql(q{SET SESSION AUTHORIZATION mallory; CREATE FUNCTION public.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 2'});
pub_sql('SET SESSION AUTHORIZATION alice; ALTER TABLE public.t ADD g int DEFAULT public.f(1)');
wait_applied($pub, $sub, 'k');
level('rows get the value that the publisher has, whatever the function is here');
pub_sql('SET SESSION AUTHORIZATION alice; ALTER TABLE public.t ADD CONSTRAINT asks CHECK (public.f(c) IS NOT NULL)');
wait_refused($sub, 'k', 'local_drift');
is(sub_sql(q{SELECT count(*) FROM pg_constraint WHERE conname = 'asks'}), 0, 'nothing that would run another function was made');
sub_sql(q{CREATE OR REPLACE FUNCTION public.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1'; SET SESSION AUTHORIZATION keeper; SELECT schemasync_resume('k')});
wait_applied($pub, $sub, 'k');
level('with the same function it is forwarded');

# --- columns that are not published ---------------------------------------------------------------------------------------------

pub_sql(q{ALTER TABLE hidden ALTER secret SET DEFAULT 'hunter2'; INSERT INTO hidden VALUES (1, 1, 'hunter3'); ALTER TABLE hidden ADD secret2 text DEFAULT 'hunter4'});
wait_applied($pub, $sub, 'k');
is(sub_sql('SELECT * FROM hidden'), '1|1', 'a column list hides the other columns');
my @seen = grep { /hunter|secret/ } map { sub_sql("SELECT s::text FROM $_ s") } split / /, $tables;
is(scalar(@seen), 0, 'and nothing of them is stored on the subscriber');

# --- a hostile owner of tables on the subscriber -------------------------------------------------------------------------------

sub_sql(q{SELECT schemasync_drop_subscription('k')});
sub_sql(q{
	CREATE TABLE spoils (what text);
	CREATE TABLE log_of_mallory (session text, active text);
	GRANT INSERT ON log_of_mallory TO mallory;
	ALTER TABLE log_of_mallory OWNER TO mallory;
	DROP TABLE t, hidden;
	SET SESSION AUTHORIZATION mallory;
	CREATE TABLE t (id int PRIMARY KEY, c int, b int, d text, g int);
	CREATE FUNCTION climb() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.log_of_mallory VALUES (session_user, current_user);
		BEGIN
			INSERT INTO public.spoils VALUES ('taken as ' || current_user);
		EXCEPTION WHEN insufficient_privilege THEN NULL;
		END;
		BEGIN
			EXECUTE 'RESET ROLE';
			EXECUTE 'ALTER ROLE mallory SUPERUSER';
		EXCEPTION WHEN OTHERS THEN NULL;
		END;
		BEGIN
			EXECUTE 'SET SESSION AUTHORIZATION postgres';
			EXECUTE 'ALTER ROLE mallory SUPERUSER';
		EXCEPTION WHEN OTHERS THEN NULL;
		END;
		RETURN new;
	END $$;
	CREATE TRIGGER climb BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION climb();
	ALTER TABLE t ENABLE ALWAYS TRIGGER climb;
	CREATE FUNCTION peek(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		BEGIN
			INSERT INTO public.spoils VALUES ('taken as ' || current_user);
		EXCEPTION WHEN OTHERS THEN NULL;
		END;
		RETURN $1;
	END $$;
	CREATE INDEX ON t (peek(c));
	ALTER TABLE t ADD CONSTRAINT peeks CHECK (peek(c) = c);
});
my $conninfo = $pub->connstr('postgres');
$conninfo =~ s/'/''/g;
sub_sql("SELECT schemasync_create_subscription('s', '$conninfo', '{pub}')");
wait_applied($pub, $sub, 's');
pub_sql('INSERT INTO t VALUES (20, 1, 1); UPDATE t SET c = 3 WHERE id = 20; ALTER TABLE t ALTER b TYPE bigint; CREATE INDEX ON t (c, d); ALTER TABLE t ADD CHECK (c > -5)');
pub_sql('INSERT INTO t VALUES (21, 1, 1); ALTER TABLE t ADD k int');
my ($status, undef, $err) = $sub->psql('postgres', "SELECT schemasync_wait('s', '" . pub_sql('SELECT pg_current_wal_lsn()') . "', interval '60 s')");
diag($err) if $status;
is(sub_sql('SELECT count(*) FROM spoils'), 0, 'a hostile trigger, index or check of a table owner takes nothing of a superuser');
is(sub_sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}), 'f', 'and becomes nothing');
is(sub_sql('SELECT string_agg(DISTINCT active, $$,$$) FROM log_of_mallory'), 'mallory', 'it has run, as its owner');
is(sub_sql(q{SELECT string_agg(DISTINCT relowner::regrole::text, ',') FROM pg_class WHERE oid = 't'::regclass OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 't'::regclass)}),
	'mallory', 'indexes made on it belong to the owner of the table');
is(sub_sql('SELECT id, c FROM t WHERE id >= 20 ORDER BY id'), "20|3\n21|1", 'and the rows are right');

$pub->stop;
$sub->stop;
done_testing();
