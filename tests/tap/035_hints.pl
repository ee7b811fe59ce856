# What a refusal tells a person is done as it stands: for each reason a change is refused on real servers, the SQL of
# suggested_sql and of the hint is taken out of schemasync_refusals and run, the stream goes on, and both sides are equal.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my ($pub, $sub) = SchemasyncTest::pair();

sub pub_sql { return $pub->safe_psql('postgres', $_[0]) }
sub sub_sql { return $sub->safe_psql('postgres', $_[0]) }

my $plain = 'CREATE TABLE %s (id int PRIMARY KEY, a int, b text); INSERT INTO %s VALUES (1, 10, $$x$$), (2, 20, $$y$$)';

my $base_type = q{CREATE TYPE %s_t; CREATE FUNCTION %s_in(cstring) RETURNS %s_t LANGUAGE internal IMMUTABLE STRICT AS 'int4in'; }
	. q{CREATE FUNCTION %s_out(%s_t) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out'; CREATE TYPE %s_t (INPUT = %s_in, OUTPUT = %s_out, LIKE = int4)};

# reason, name, options => {},
# setup: on the publisher, before the subscription ($plain); local: on the subscriber, before the change; change: on the publisher; rows: after it.
# Ways out, each tried on a table of its own:
#   suggested: the SQL that is suggested, then `by_hand` (what the hint says in words), then SELECT schemasync_resume of the hint
#   by_hand: without the suggested SQL
#   apply: schemasync_resolve(id, 'apply'), which runs the suggested SQL within the boundary
#   carry, resync, skip: the command of that line of the hint
#   rewritten: as carry, then `undo` on the publisher and the migration as the hint says that it is safe to write: that is not refused
#   ended: by hand, as the hint's line of who holds the lock has it
# by_hand may hold %values(column), an UPDATE for each row that the publisher had before its rows after the change.
my @cases = (
	{ name => 'volatile', reason => 'volatile_default', change => 'ALTER TABLE %s ADD c uuid NOT NULL DEFAULT gen_random_uuid()',
		ways => [qw(suggested carry resync rewritten)], by_hand => '%values(c); ALTER TABLE %s ALTER c SET DEFAULT gen_random_uuid(), ALTER c SET NOT NULL', undo => 'ALTER TABLE %s DROP c' },
	{ name => 'odd', reason => 'volatile_default', change => 'ALTER TABLE %s ADD "C; d" float8 DEFAULT random()', ways => [qw(rewritten)], undo => 'ALTER TABLE %s DROP "C; d"' },
	{ name => 'serial', reason => 'volatile_default', change => 'ALTER TABLE %s ADD c serial', ways => [qw(rewritten)], undo => 'ALTER TABLE %s DROP c' },
	{ name => 'identity', reason => 'volatile_default', change => 'ALTER TABLE %s ADD c int GENERATED ALWAYS AS IDENTITY', ways => [qw(rewritten)], undo => 'ALTER TABLE %s DROP c' },
	{ name => 'domain', reason => 'volatile_default', change => 'CREATE DOMAIN %s_d AS uuid DEFAULT gen_random_uuid(); ALTER TABLE %s ADD c %s_d',
		ways => [qw(suggested rewritten)], by_hand => '%values(c); ALTER TABLE %s ALTER c TYPE %s_d', undo => 'ALTER TABLE %s DROP c' },
	{ name => 'domain_not_null', reason => 'volatile_default', change => 'CREATE DOMAIN %s_d AS text NOT NULL; ALTER TABLE %s ADD c %s_d DEFAULT random()::text',
		ways => [qw(suggested rewritten)], by_hand => '%values(c); ALTER TABLE %s ALTER c TYPE %s_d', undo => 'ALTER TABLE %s DROP c' },
	{ name => 'unreadable', reason => 'default_unreadable', change => 'ALTER TABLE %s ADD c timestamptz NOT NULL DEFAULT now(), ALTER a TYPE numeric(12,2)',
		ways => [qw(suggested carry rewritten)], by_hand => '%values(c); ALTER TABLE %s ALTER c SET DEFAULT now(), ALTER c SET NOT NULL', undo => 'ALTER TABLE %s DROP c' },
	{ name => 'retyped', reason => 'type_change_unproven', change => 'ALTER TABLE %s ALTER a TYPE float8 USING random()',
		ways => [qw(suggested_then_values carry resync rewritten)], by_hand => '%values(a)' },
	{ name => 'retyped_key', reason => 'type_change_unproven', change => 'ALTER TABLE %s ALTER id TYPE text USING md5(random()::text)', ways => [qw(rewritten)] },
	{ name => 'retyped_keyless', reason => 'type_change_unproven', setup => 'CREATE TABLE %s (id int, a int, b text); INSERT INTO %s VALUES (1, 1, $$x$$), (2, 2, $$y$$)',
		change => 'ALTER TABLE %s ALTER a TYPE float8 USING random()', ways => [qw(rewritten)] },
	{ name => 'rewritten', reason => 'rewrite_unproven', change => 'ALTER TABLE %s ALTER a TYPE int USING (random() * 1000)::int',
		ways => [qw(suggested_then_values carry resync rewritten)], by_hand => '%values(a)' },
	{ name => 'shaped', reason => 'multi_shape_unordered', change => 'BEGIN; SET LOCAL session_replication_role = replica; ALTER EVENT TRIGGER schemasync_capture_end DISABLE; '
		. 'ALTER TABLE %s ALTER a TYPE float8 USING random(), ADD c float8 DEFAULT random(); ALTER EVENT TRIGGER schemasync_capture_end ENABLE ALWAYS; '
		. 'INSERT INTO %s (id, a) VALUES (5, 5); COMMIT', rows => 'SELECT 1', ways => [qw(resync)] },
	{ name => 'renamed_unseen', reason => 'rename_unproven', rows => 'INSERT INTO %s VALUES (7, 7, $$z$$)',
		change => 'SET session_replication_role = replica; ALTER EVENT TRIGGER schemasync_capture_end DISABLE; ALTER TABLE %s DROP a; ALTER TABLE %s ADD aa int; ALTER TABLE %s DROP b; ALTER TABLE %s ADD b text; '
		. 'ALTER EVENT TRIGGER schemasync_capture_end ENABLE ALWAYS; SET session_replication_role = DEFAULT',
		rows_after => 'INSERT INTO %s (id, aa) VALUES (7, 7)',
		ways => [qw(by_hand)], by_hand => 'ALTER TABLE %s DROP a; ALTER TABLE %s ADD aa int; ALTER TABLE %s DROP b; ALTER TABLE %s ADD b text' },
	{ name => 'taken_column', reason => 'local_name_taken', local => 'ALTER TABLE %s ADD c date', change => 'ALTER TABLE %s RENAME a TO c',
		ways => [qw(suggested)], after => 'ALTER TABLE %s DROP c_local' },
	{ name => 'taken_table', reason => 'local_name_taken', setup => 'SELECT 1', local => 'CREATE TABLE %s (x text)', change => 'CREATE TABLE %s (id int PRIMARY KEY)',
		ways => [qw(suggested)], after => 'DROP TABLE %s_local' },
	{ name => 'taken_type', reason => 'local_name_taken', local => 'CREATE TYPE %s_e AS ENUM ($$other$$)', change => 'CREATE TYPE %s_e AS ENUM ($$a$$); ALTER TABLE %s ADD e %s_e',
		ways => [qw(suggested)], after => 'DROP TYPE %s_e_local' },
	{ name => 'taken_check', reason => 'local_name_taken', local => 'ALTER TABLE %s ADD CONSTRAINT %s_c UNIQUE (b)', change => 'ALTER TABLE %s ADD CONSTRAINT %s_c CHECK (a > 0)',
		ways => [qw(suggested)], after => 'ALTER TABLE %s DROP CONSTRAINT %s_c_local' },
	{ name => 'taken_same_kind', reason => 'local_name_taken', local => 'ALTER TABLE %s ADD CONSTRAINT %s_c CHECK (a > -5)', change => 'ALTER TABLE %s ADD CONSTRAINT %s_c CHECK (a > 0)',
		ways => [qw(suggested apply)], after => 'ALTER TABLE %s DROP CONSTRAINT %s_c_local' },
	{ name => 'taken_key', reason => 'local_name_taken', setup => 'CREATE TABLE %s (id int NOT NULL, a int, b text)', local => 'ALTER TABLE %s ADD CONSTRAINT %s_k PRIMARY KEY (a)',
		change => 'ALTER TABLE %s ADD CONSTRAINT %s_k PRIMARY KEY (id)', rows => 'INSERT INTO %s VALUES (5, 5)', ways => [qw(suggested)], after => 'ALTER TABLE %s ALTER a DROP NOT NULL' },
	{ name => 'taken_domain', reason => 'local_name_taken', local => 'CREATE TYPE %s_e AS ENUM ($$other$$); CREATE TABLE %s_e_local (x int)', change => 'CREATE DOMAIN %s_e AS text; ALTER TABLE %s ADD e %s_e',
		ways => [qw(suggested)], after => 'DROP TYPE %s_e_local2; DROP TABLE %s_e_local' },
	{ name => 'taken_index', reason => 'local_name_taken', local => 'CREATE VIEW %s_i AS SELECT 1', change => 'CREATE INDEX %s_i ON %s (a)',
		ways => [qw(suggested)], after => 'DROP VIEW %s_i_local' },
	{ name => 'taken_row_type', reason => 'local_name_taken', local => 'CREATE TYPE %s_n AS (a int)', change => 'ALTER TABLE %s RENAME TO %s_n',
		rows => 'INSERT INTO %s_n (id) VALUES (5)', ways => [qw(suggested)], after => 'DROP TYPE %s_n_local' },
	{ name => 'viewed', reason => 'local_dependents', local => 'CREATE VIEW %s_v AS SELECT a FROM %s', change => 'ALTER TABLE %s DROP a', ways => [qw(by_hand)], by_hand => 'DROP VIEW %s_v' },
	{ name => 'viewed_type', reason => 'local_dependents', local => 'CREATE VIEW %s_v AS SELECT a FROM %s', change => 'ALTER TABLE %s ALTER a TYPE bigint', ways => [qw(by_hand)], by_hand => 'DROP VIEW %s_v' },
	{ name => 'drifted', reason => 'local_drift', local => 'ALTER TABLE %s ALTER a TYPE numeric', change => 'ALTER TABLE %s ALTER a TYPE text',
		ways => [qw(by_hand resync)], by_hand => 'ALTER TABLE %s ALTER a TYPE text' },
	{ name => 'missing_type', reason => 'missing_object', local => '', setup => $plain . '; CREATE FUNCTION %s_f(int) RETURNS int LANGUAGE sql IMMUTABLE AS $q$ SELECT $1 $q$',
		change => 'ALTER TABLE %s ADD CONSTRAINT %s_c CHECK (%s_f(a) > 0)', ways => [qw(by_hand)], by_hand => 'CREATE FUNCTION %s_f(int) RETURNS int LANGUAGE sql IMMUTABLE AS $q$ SELECT $1 $q$' },
	{ name => 'identity_gone', reason => 'unsupported_object', setup => 'CREATE TABLE %s (id int NOT NULL, a int, b text); CREATE UNIQUE INDEX %s_i ON %s (id); ALTER TABLE %s REPLICA IDENTITY USING INDEX %s_i; INSERT INTO %s VALUES (1, 1, $$x$$)',
		change => 'DROP INDEX %s_i', rows => 'ALTER TABLE %s REPLICA IDENTITY FULL; INSERT INTO %s VALUES (5, 5, $$z$$); UPDATE %s SET a = 6 WHERE id = 1', ways => [qw(by_hand)] },
	{ name => 'key_deferrable', reason => 'unsupported_object', change => 'ALTER TABLE %s DROP CONSTRAINT %s_pkey, ADD PRIMARY KEY (id) DEFERRABLE',
		rows => 'ALTER TABLE %s REPLICA IDENTITY FULL; UPDATE %s SET a = 6 WHERE id = 1', ways => [qw(by_hand)] },
	{ name => 'base_type', reason => 'unsupported_object', change => '%base_type; ALTER TABLE %s ADD c %s_t', rows => 'INSERT INTO %s VALUES (5, 5, NULL, $$5$$)',
		ways => [qw(by_hand)], by_hand => '%base_type' },
	{ name => 'own_cast', reason => 'type_change_unproven', setup => 'CREATE TABLE %s (id int PRIMARY KEY, a macaddr); INSERT INTO %s VALUES (1, $$08:00:2b:01:02:03$$), (2, NULL); %cast(macaddr)',
		change => 'ALTER TABLE %s ALTER a TYPE text', rows => 'INSERT INTO %s VALUES (5, $$new$$)', ways => [qw(resync)] },
	{ name => 'cast_carried', reason => 'type_change_unproven', setup => 'CREATE TABLE %s (id int PRIMARY KEY, a json); INSERT INTO %s VALUES (1, $$1$$), (2, NULL); %cast(json)',
		change => 'ALTER TABLE %s ALTER a TYPE text', rows => 'INSERT INTO %s VALUES (5, $$new$$)', ways => [qw(carry)] },
	{ name => 'cast_inside', reason => 'local_drift', setup => 'CREATE TABLE %s (id int PRIMARY KEY, a macaddr8); INSERT INTO %s VALUES (1, $$08:00:2b:01:02:03:04:05$$), (2, NULL); %cast(macaddr8)',
		local => '%cast_function(macaddr8)', change => 'ALTER TABLE %s ADD g text GENERATED ALWAYS AS (a::text) STORED', rows => 'INSERT INTO %s (id) VALUES (5)',
		ways => [qw(by_hand)], by_hand => '%cast(macaddr8)' },
	{ name => 'policy_column', reason => 'policy_refuse', options => '{"drop_column": "refuse"}', change => 'ALTER TABLE %s DROP a', ways => [qw(suggested apply)] },
	{ name => 'policy_table', reason => 'policy_refuse', options => '{"drop_table": "refuse"}', change => 'DROP TABLE %s', ways => [qw(suggested apply skip)], after => 'DROP TABLE IF EXISTS %s', rows => 'SELECT 1' },
	{ name => 'policy_cascade', reason => 'policy_refuse', options => '{"drop_table": "refuse"}', setup => $plain . '; CREATE TABLE %s_c (id int PRIMARY KEY, d int REFERENCES %s)',
		change => 'DROP TABLE %s CASCADE', ways => [qw(suggested apply)], rows => 'INSERT INTO %s_c VALUES (7, 7)' },
	{ name => 'violated', reason => 'apply_failed', local => 'INSERT INTO %s VALUES (900, NULL, NULL)', change => 'ALTER TABLE %s ALTER a SET NOT NULL',
		ways => [qw(by_hand)], by_hand => 'DELETE FROM %s WHERE id = 900' },
	{ name => 'violated_check', reason => 'apply_failed', local => 'INSERT INTO %s VALUES (900, -1, NULL)', change => 'ALTER TABLE %s ADD CONSTRAINT %s_c CHECK (a > 0)',
		ways => [qw(by_hand)], by_hand => 'DELETE FROM %s WHERE id = 900' },
	{ name => 'locked', reason => 'lock_timeout', options => '{"ddl_lock_timeout": 50, "ddl_lock_retries": 1}', local => 'BEGIN; LOCK TABLE %s IN ACCESS SHARE MODE; PREPARE TRANSACTION $$%s$$',
		change => 'ALTER TABLE %s ADD c int', ways => [qw(ended)] },
);

sub named
{
	my ($sql, $table) = @_;
	$sql =~ s/%base_type/$base_type/;
	$sql =~ s/%cast\((\w+)\)/%cast_function($1); CREATE CAST ($1 AS text) WITH FUNCTION %s_f($1) AS ASSIGNMENT/;
	$sql =~ s/%cast_function\((\w+)\)/CREATE OR REPLACE FUNCTION %s_f($1) RETURNS text LANGUAGE sql IMMUTABLE AS \$q\$ SELECT 'made of ' || num_nulls(\$1) \$q\$/;
	$sql =~ s/%s/$table/g;
	return $sql;
}

my @tables;
foreach my $case (@cases)
{
	push @tables, { case => $case, way => $_, table => "$case->{name}_$_" } foreach @{ $case->{ways} };
}
my @wanted = @ARGV;
@tables = grep { my $t = $_; grep { $t->{table} =~ /$_/ } @wanted } @tables if @wanted;

pub_sql('CREATE PUBLICATION pub FOR ALL TABLES');
pub_sql(join(";\n", map { named($_->{case}{setup} // $plain, $_->{table}) } @tables));
create_subscription($pub, $sub, 'sub');

# The commands that stand in a line of the hint.
sub commands_of
{
	my ($hint, $pattern) = @_;
	my ($line) = grep { /$pattern/ } split /\n/, $hint;
	die "no $pattern in the hint: $hint" unless defined $line;
	return $line =~ /(SELECT [^;]*;)/g;
}

sub updates
{
	my ($table, $column, $before) = @_;
	return join("\n", split /\n/, pub_sql("SELECT format('UPDATE $table SET $column = %L WHERE id = %s;', $column, id) FROM $table WHERE id IN ($before)"));
}

foreach my $entry (@tables)
{
	my ($case, $way, $table) = @$entry{qw(case way table)};
	wait_applied($pub, $sub, 'sub');
	sub_sql("SELECT schemasync_alter_subscription('sub', options => '$case->{options}')") if $case->{options};
	sub_sql(named($case->{local}, $table)) if $case->{local};
	my $before = $case->{setup} ? '-1' : pub_sql("SELECT string_agg(id::text, ',') FROM $table");
	my $rows = $case->{rows_after} // $case->{rows} // 'INSERT INTO %s (id) VALUES (5) ON CONFLICT DO NOTHING';
	$rows = 'INSERT INTO %s (id, a) VALUES (5, 5)' if !$case->{rows} && $case->{name} =~ /^violated$/;
	pub_sql(named($case->{change}, $table) . ";\n" . named($rows, $table));
	my $id = wait_refused($sub, 'sub', $case->{reason});
	my $suggested = sub_sql("SELECT coalesce(suggested_sql, '') FROM schemasync_refusals WHERE refusal_id = $id");
	my $hint = sub_sql("SELECT hint FROM schemasync_refusals WHERE refusal_id = $id");
	my $by_hand = named($case->{by_hand} // '', $table);
	$by_hand =~ s/%values\((\w+)\)/updates($table, $1, $before)/ge;
	my @run;
	push @run, $suggested if $way =~ /^suggested/;
	push @run, $by_hand if $way =~ /^(suggested|by_hand)/;
	isnt($suggested, '', "$table: SQL is suggested") if $way =~ /^(suggested|apply)/;
	if ($way eq 'apply') { @run = ("SELECT schemasync_resolve($id, 'apply')"); }
	elsif ($way eq 'carry' || $way eq 'rewritten') { @run = commands_of($hint, qr/"carry"/); }
	elsif ($way eq 'resync') { @run = commands_of($hint, qr/schemasync_resync/); }
	elsif ($way eq 'ended') { @run = ($hint =~ /: (COMMIT PREPARED [^;]*;)/, commands_of($hint, qr/schemasync_resume/)); }
	elsif ($way eq 'skip') { @run = commands_of($hint, qr/'skip'/); }
	else { push @run, commands_of($hint, qr/^(?!Or have).*schemasync_resume/); }
	foreach my $sql (grep { /\S/ } @run)
	{
		my ($status, undef, $error) = $sub->psql('postgres', $sql, on_error_stop => 1);
		is($status, 0, "$table: $sql") or diag("$error\nhint: $hint");
	}
	my $lsn = pub_sql('SELECT pg_current_wal_lsn()');
	my ($status, undef, $error) = $sub->psql('postgres', "SELECT schemasync_wait('sub', '$lsn', interval '60 s')");
	if ($status != 0)
	{
		fail("$table: the stream goes on after $way");
		diag($error, sub_sql("SELECT concat_ws(E'\\n', reason, changes, drift, suggested_sql, hint) FROM schemasync_refusals WHERE status = 'open'"));
		sub_sql(q{SELECT schemasync_resolve(refusal_id, 'skip') FROM schemasync_refusals WHERE status = 'open'});
		wait_applied($pub, $sub, 'sub');
	}
	sub_sql(named($case->{after}, $table)) if $case->{after};
	sub_sql(q{SELECT schemasync_alter_subscription('sub', options => '{"rewrites": "refuse", "drop_column": "forward", "drop_table": "forward", "ddl_lock_timeout": 2000}')});
	$sub->poll_query_until('postgres', q{SELECT bool_and(state = 'ready') FROM schemasync_tables}) or die 'a table does not become ready';
	compare($pub, $sub, "$table: after $way", "^public\\.$table");
	next if $way ne 'rewritten';
	my ($safe) = $hint =~ /^A safe way to write it: (.*;)/m;
	isnt($safe, undef, "$table: the hint has a safe way to write it") or next;
	pub_sql(named($case->{undo}, $table)) if $case->{undo};
	pub_sql("BEGIN; INSERT INTO $table (id) VALUES (6); $safe COMMIT");
	wait_applied($pub, $sub, 'sub');
	compare($pub, $sub, "$table: $safe", "^public\\.$table\$");
}
wait_applied($pub, $sub, 'sub');
is(sub_sql(q{SELECT count(*) FROM schemasync_refusals WHERE status = 'open'}), '0', 'no refusal is left');
compare($pub, $sub, 'at last');
done_testing();
