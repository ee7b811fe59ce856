# Every schema change that is forwarded, in four positions: in one transaction between rows, in a transaction of its own,
# on a table that is idle since the initial copy, and while the subscriber is down. Contents and catalogs must be equal.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

# name => [setup, rows before, change, rows after]; each runs with search_path set to the schema of its position.
my $plain = 'CREATE TABLE %s (id int PRIMARY KEY, a int, b text); INSERT INTO %s VALUES (1, 10, $$x$$), (2, 20, NULL), (3, NULL, $$z$$)';
my %changes = (
	add_nullable => [undef, undef, 'ALTER TABLE %s ADD c int', 'UPDATE %s SET c = id WHERE id > 1'],
	add_constant => [undef, undef, q{ALTER TABLE %s ADD c numeric(8,2) NOT NULL DEFAULT 3.14159}, 'UPDATE %s SET c = id WHERE id > 1'],
	add_constant_then_drop_default => [undef, undef,
		q{ALTER TABLE %s ADD c text NOT NULL DEFAULT 'it''s; -- $$'; INSERT INTO %s (id) VALUES (90); ALTER TABLE %s ALTER c DROP DEFAULT},
		q{UPDATE %s SET c = 'y' WHERE id = 2}],
	add_beside_a_default => [undef, undef, q{ALTER TABLE %s ADD c int NOT NULL DEFAULT 5, ALTER b SET DEFAULT 'later', ALTER a TYPE bigint}, 'INSERT INTO %s (id) VALUES (91)'],
	add_now => [undef, undef, 'ALTER TABLE %s ADD c timestamptz NOT NULL DEFAULT now()', 'INSERT INTO %s (id) VALUES (91)'],
	add_generated => [undef, undef, 'ALTER TABLE %s ADD c int GENERATED ALWAYS AS (a * 2) STORED', 'UPDATE %s SET a = 7 WHERE id = 3'],
	drop_column => [undef, undef, 'ALTER TABLE %s DROP b', 'UPDATE %s SET a = 7 WHERE id = 3'],
	drop_and_add => [undef, undef, 'ALTER TABLE %s DROP b; ALTER TABLE %s ADD b date', q{UPDATE %s SET b = '2020-02-29' WHERE id = 3}],
	rename_column => [undef, undef, 'ALTER TABLE %s RENAME b TO "New Name"', 'UPDATE %s SET "New Name" = $$new$$ WHERE id = 3'],
	swap_names => ['CREATE TABLE %s (id int PRIMARY KEY, a int, b int); INSERT INTO %s VALUES (1, 10, 100), (2, 20, 200), (3, 30, 300)', undef,
		'ALTER TABLE %s RENAME a TO c; ALTER TABLE %s RENAME b TO a; ALTER TABLE %s RENAME c TO b', 'UPDATE %s SET a = 1, b = 2 WHERE id = 2'],
	rename_and_add_old => [undef, undef, 'ALTER TABLE %s RENAME a TO a_old; ALTER TABLE %s ADD a int DEFAULT 5', 'UPDATE %s SET a = 1 WHERE id = 2'],
	widen_int => [undef, undef, 'ALTER TABLE %s ALTER a TYPE bigint', 'UPDATE %s SET a = 5000000000 WHERE id = 2'],
	widen_varchar => ['CREATE TABLE %s (id int PRIMARY KEY, a int, b varchar(5)); INSERT INTO %s VALUES (1, 1, $$x$$)', undef,
		'ALTER TABLE %s ALTER b TYPE varchar(50)', 'UPDATE %s SET b = repeat($$y$$, 40) WHERE id = 1'],
	reduce_scale => ['CREATE TABLE %s (id int PRIMARY KEY, a int, b numeric(12,6)); INSERT INTO %s VALUES (1, 1, 1.235), (2, 1, 2.2250001)', undef,
		'ALTER TABLE %s ALTER b TYPE numeric(10,2)', 'UPDATE %s SET b = 3.145 WHERE id = 1'],
	int_to_text => [undef, undef, 'ALTER TABLE %s ALTER a TYPE text', 'UPDATE %s SET a = $$word$$ WHERE id = 1'],
	domain_arrays => ['CREATE DOMAIN %s_d AS int CHECK (VALUE > 0); CREATE DOMAIN %s_l AS int[] CHECK (cardinality(VALUE) < 5); '
		. 'CREATE TABLE %s (id int PRIMARY KEY, a int[], b int[], c %s_d[]); INSERT INTO %s VALUES (1, $${1,2}$$, $${3}$$, $${4}$$), (2, NULL, NULL, NULL)', undef,
		'ALTER TABLE %s ALTER a TYPE %s_d[], ALTER b TYPE %s_l; ALTER TABLE %s ALTER c TYPE bigint[]', 'INSERT INTO %s VALUES (91, $${7}$$, $${8}$$, $${9}$$)'],
	not_null => ['CREATE TABLE %s (id int PRIMARY KEY, a int, b text); INSERT INTO %s VALUES (1, 1, $$x$$)', undef, 'ALTER TABLE %s ALTER a SET NOT NULL', 'INSERT INTO %s VALUES (92, 1, NULL)'],
	null_again => ['CREATE TABLE %s (id int PRIMARY KEY, a int NOT NULL); INSERT INTO %s VALUES (1, 1)', undef,
		'ALTER TABLE %s ALTER a DROP NOT NULL', 'INSERT INTO %s VALUES (93, NULL)'],
	defaults => [undef, undef, q{ALTER TABLE %s ALTER a SET DEFAULT 42, ALTER b SET DEFAULT upper('q')}, 'INSERT INTO %s (id) VALUES (94)'],
	many_at_once => [undef, undef, 'ALTER TABLE %s ADD c int DEFAULT 1, DROP b, ALTER a TYPE bigint, ADD d text, ADD CONSTRAINT %s_c CHECK (c > 0)',
		'INSERT INTO %s (id, a, c, d) VALUES (95, 1, 2, $$d$$)'],
	rename_table => [undef, undef, 'ALTER TABLE %s RENAME TO %s_renamed', 'INSERT INTO %s_renamed VALUES (96, 1, NULL)'],
	set_schema => [undef, undef, 'ALTER TABLE %s SET SCHEMA elsewhere', 'INSERT INTO elsewhere.%s VALUES (97, 1, NULL)'],
	drop_table => [undef, 'DELETE FROM %s WHERE id = 1', 'DROP TABLE %s', 'SELECT 1'],
	create_table => ['SELECT 1', 'SELECT 1',
		'CREATE TABLE %s (id int PRIMARY KEY, a varchar(7) COLLATE "C" NOT NULL DEFAULT $$q$$, b text UNIQUE, CHECK (id > 0)); CREATE INDEX %s_a ON %s (a DESC)',
		'INSERT INTO %s VALUES (1, $$x$$, $$y$$); UPDATE %s SET b = $$z$$'],
	create_table_as => ['SELECT 1', 'SELECT 1', 'CREATE TABLE %s AS SELECT g AS id, random() AS r FROM generate_series(1, 20) g', 'INSERT INTO %s VALUES (0, 0)'],
	select_into => ['SELECT 1', 'SELECT 1', 'SELECT g AS id, random() AS r INTO %s FROM generate_series(1, 20) g', 'INSERT INTO %s VALUES (0, 0)'],
	explain_create_table_as => ['SELECT 1', 'SELECT 1', 'EXPLAIN ANALYZE CREATE TABLE %s AS SELECT g AS id, random() AS r FROM generate_series(1, 20) g',
		'INSERT INTO %s VALUES (0, 0)'],
	create_and_drop => ['SELECT 1', 'SELECT 1', 'CREATE TABLE %s (id int); INSERT INTO %s VALUES (1); DROP TABLE %s', 'SELECT 1'],
	constraints => [undef, undef, 'ALTER TABLE %s ADD CONSTRAINT %s_u UNIQUE (a); ALTER TABLE %s ADD CONSTRAINT %s_k CHECK (a > 0) NOT VALID; '
		. 'ALTER TABLE %s VALIDATE CONSTRAINT %s_k; ALTER TABLE %s RENAME CONSTRAINT %s_k TO %s_k2', 'INSERT INTO %s VALUES (98, 98, NULL)'],
	drop_constraints => ['CREATE TABLE %s (id int PRIMARY KEY, a int UNIQUE, b int CHECK (b > 0)); INSERT INTO %s VALUES (1, 1, 1)', undef,
		'ALTER TABLE %s DROP CONSTRAINT %s_a_key; ALTER TABLE %s DROP CONSTRAINT %s_b_check', 'INSERT INTO %s VALUES (99, 1, -1)'],
	swap_key => [undef, undef, 'ALTER TABLE %s ADD id2 bigint; UPDATE %s SET id2 = id; ALTER TABLE %s DROP CONSTRAINT %s_pkey; '
		. 'ALTER TABLE %s DROP id; ALTER TABLE %s RENAME id2 TO id; ALTER TABLE %s ADD PRIMARY KEY (id)', 'UPDATE %s SET a = -1 WHERE id = 2'],
	indexes => [undef, undef, 'CREATE INDEX %s_i ON %s (b, a); CREATE UNIQUE INDEX %s_j ON %s (lower(b)) WHERE a > 0; ALTER INDEX %s_i RENAME TO %s_k',
		'UPDATE %s SET b = $$B$$ WHERE id = 2'],
	drop_index => [$plain . '; CREATE INDEX %s_i ON %s (b)', undef, 'DROP INDEX %s_i', 'UPDATE %s SET b = $$B$$ WHERE id = 2'],
	identity_exchanged => ['CREATE TABLE %s (id int PRIMARY KEY, a int NOT NULL); CREATE UNIQUE INDEX %s_i ON %s (a); '
		. 'ALTER TABLE %s REPLICA IDENTITY USING INDEX %s_i; INSERT INTO %s VALUES (1, 10), (2, 20)', undef,
		'DO $q$ BEGIN DROP INDEX %s_i; CREATE UNIQUE INDEX %s_i ON %s (a, id); ALTER TABLE %s REPLICA IDENTITY USING INDEX %s_i; END $q$',
		'UPDATE %s SET id = 100 WHERE id = 2'],
	key_deferrable => [undef, undef, 'DO $q$ BEGIN ALTER TABLE %s DROP CONSTRAINT %s_pkey, ADD PRIMARY KEY (id) DEFERRABLE; '
		. 'ALTER TABLE %s REPLICA IDENTITY FULL; END $q$', 'UPDATE %s SET id = 100 WHERE id = 2'],
	identity_full => [undef, undef, 'ALTER TABLE %s REPLICA IDENTITY FULL', 'UPDATE %s SET id = 100 WHERE id = 2'],
	identity_index => ['CREATE TABLE %s (id int PRIMARY KEY, a int NOT NULL); CREATE UNIQUE INDEX %s_i ON %s (a); INSERT INTO %s VALUES (1, 10), (2, 20)', undef,
		'ALTER TABLE %s REPLICA IDENTITY USING INDEX %s_i', 'UPDATE %s SET id = 100 WHERE id = 2'],
	add_enum_value => ['CREATE TYPE %s_e AS ENUM ($$a$$, $$c$$); CREATE TABLE %s (id int PRIMARY KEY, a int, e %s_e); INSERT INTO %s VALUES (1, 1, $$a$$)', undef,
		'ALTER TYPE %s_e ADD VALUE $$b$$ BEFORE $$c$$', 'UPDATE %s SET e = $$c$$'],
	new_enum_column => [undef, undef, 'CREATE TYPE %s_e AS ENUM ($$a$$, $$c$$); ALTER TABLE %s ADD e %s_e DEFAULT $$c$$', 'UPDATE %s SET e = $$a$$ WHERE id = 1'],
	options => [undef, undef, 'ALTER TABLE %s SET (fillfactor = 70), ALTER b SET STORAGE EXTERNAL, ALTER a SET STATISTICS 500', 'UPDATE %s SET a = 3 WHERE id = 1'],
	foreign_key => ['CREATE TABLE %s_p (id int PRIMARY KEY); INSERT INTO %s_p VALUES (1); CREATE TABLE %s (id int PRIMARY KEY, p int); INSERT INTO %s VALUES (1, 1)', undef,
		'ALTER TABLE %s ADD CONSTRAINT %s_f FOREIGN KEY (p) REFERENCES %s_p ON DELETE CASCADE', 'INSERT INTO %s VALUES (101, 1)'],
	drop_both_ends => ['CREATE TABLE %s_p (id int PRIMARY KEY); CREATE TABLE %s (id int PRIMARY KEY, p int REFERENCES %s_p)', undef,
		'DROP TABLE %s_p, %s', 'SELECT 1'],
	partitions => ['CREATE TABLE %s (id int, a int, PRIMARY KEY (id)) PARTITION BY RANGE (id); CREATE TABLE %s_1 PARTITION OF %s FOR VALUES FROM (0) TO (10); INSERT INTO %s VALUES (1, 1)',
		'INSERT INTO %s VALUES (2, 2)',
		'CREATE TABLE %s_2 PARTITION OF %s FOR VALUES FROM (10) TO (20); ALTER TABLE %s ADD c int DEFAULT 9; CREATE TABLE %s_d PARTITION OF %s DEFAULT',
		'INSERT INTO %s VALUES (15, 1, 1), (99, 2, 2); UPDATE %s SET id = 16 WHERE id = 1'],
	inheritance => ['CREATE TABLE %s (id int PRIMARY KEY, a int); CREATE TABLE %s_c (x int) INHERITS (%s); ALTER TABLE %s_c ADD PRIMARY KEY (id); INSERT INTO %s_c VALUES (1, 1, 1)', undef,
		'ALTER TABLE %s ADD c text DEFAULT $$i$$', 'INSERT INTO %s_c VALUES (2, 2, 2, $$own$$)'],
	only_the_parent => ['CREATE TABLE %s (id int PRIMARY KEY, a int, b text DEFAULT $$q$$ NOT NULL, c int); CREATE TABLE %s_c (x int) INHERITS (%s); INSERT INTO %s_c VALUES (1, 1, $$b$$, NULL, 1); '
		. 'CREATE TABLE %s_p (id int, v int DEFAULT 1) PARTITION BY RANGE (id); CREATE TABLE %s_p1 PARTITION OF %s_p FOR VALUES FROM (0) TO (10); ALTER TABLE %s_c REPLICA IDENTITY FULL', undef,
		'ALTER TABLE ONLY %s DROP b; ALTER TABLE ONLY %s ALTER a SET DEFAULT 8, ALTER a SET STATISTICS 9, ALTER c SET NOT NULL; '
		. 'ALTER TABLE %s_p1 ALTER v SET DEFAULT 5; ALTER TABLE ONLY %s_p ALTER v SET DEFAULT 6; ALTER TABLE ONLY %s_p ALTER v SET STATISTICS 7',
		'UPDATE %s_c SET b = $$kept$$; INSERT INTO %s_p VALUES (1); INSERT INTO %s_p1 (id) VALUES (2); CREATE TABLE %s_g () INHERITS (%s_c)'],
	no_longer_generated => ['CREATE TABLE %s (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED, c int GENERATED ALWAYS AS (a + 1) STORED); INSERT INTO %s VALUES (1, 1)', undef,
		'ALTER TABLE %s ALTER b DROP EXPRESSION, ALTER b SET DEFAULT 9, ALTER c DROP EXPRESSION, DROP a', 'INSERT INTO %s VALUES (107, 1, 2); INSERT INTO %s (id) VALUES (108)'],
	serial_to_identity => ['CREATE TABLE %s (id int PRIMARY KEY, a serial, b serial); INSERT INTO %s VALUES (1)', 'INSERT INTO %s VALUES (2)',
		'ALTER TABLE %s ALTER a DROP DEFAULT, ALTER a ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME %s_own START 50); ALTER TABLE %s ALTER b DROP DEFAULT; '
		. 'DROP SEQUENCE %s_b_seq; ALTER TABLE %s ALTER b ADD GENERATED BY DEFAULT AS IDENTITY (START 70); ALTER TABLE %s ALTER a DROP IDENTITY', 'INSERT INTO %s VALUES (3, 3)'],
	stored_beside_a_type => ['CREATE TABLE %s (id int PRIMARY KEY, a text, b varchar(9)); ALTER TABLE %s ALTER b SET STORAGE EXTERNAL; INSERT INTO %s VALUES (1, 1, 1)', 'SELECT 1',
		'ALTER TABLE %s ALTER a TYPE varchar(20), ALTER a SET STORAGE PLAIN; ALTER TABLE %s ALTER b TYPE varchar(20), ALTER b SET STORAGE EXTERNAL', 'INSERT INTO %s VALUES (3, 3)'],
	names_of_a_partition => ['CREATE TABLE %s (id int, a int, PRIMARY KEY (id), UNIQUE (id, a)) PARTITION BY RANGE (id); CREATE TABLE %s_1 PARTITION OF %s FOR VALUES FROM (0) TO (10); INSERT INTO %s VALUES (1, 1)',
		'INSERT INTO %s VALUES (2, 2)', 'ALTER TABLE %s_1 RENAME CONSTRAINT %s_1_pkey TO %s_1_key; ALTER TABLE %s RENAME CONSTRAINT %s_pkey TO %s_key; '
		. 'ALTER INDEX %s_1_id_a_key RENAME TO %s_1_other', 'INSERT INTO %s VALUES (3, 3)'],
	sequence => [$plain . '; CREATE SEQUENCE %s_old INCREMENT 3; CREATE SEQUENCE %s_gone', undef,
		'CREATE SEQUENCE %s_s START 1000; ALTER TABLE %s ALTER a SET DEFAULT nextval($$%s_s$$); ALTER SEQUENCE %s_old RENAME TO %s_new; '
		. 'ALTER SEQUENCE %s_new AS int MAXVALUE 99 CYCLE; DROP SEQUENCE %s_gone', 'INSERT INTO %s (id) VALUES (105)'],
	sequence_owner => ['CREATE TABLE %s (id int PRIMARY KEY, a serial, b int); CREATE SEQUENCE %s_s; INSERT INTO %s VALUES (1, 1, 1)', 'INSERT INTO %s VALUES (2)',
		'ALTER SEQUENCE %s_a_seq OWNED BY NONE; ALTER TABLE %s ALTER b SET DEFAULT nextval($$%s_s$$); ALTER SEQUENCE %s_s OWNED BY %s.b; '
		. 'ALTER TABLE %s DROP a; DROP SEQUENCE %s_a_seq', 'INSERT INTO %s (id) VALUES (106)'],
	typed_table => ['CREATE TYPE %s_t AS (id int, a int, z text); CREATE TABLE %s OF %s_t (PRIMARY KEY (id)); INSERT INTO %s VALUES (1, 1, $$z$$)', 'INSERT INTO %s VALUES (50, 5, $$y$$)',
		'ALTER TYPE %s_t ADD ATTRIBUTE more int CASCADE; ALTER TYPE %s_t DROP ATTRIBUTE z CASCADE; ALTER TYPE %s_t RENAME ATTRIBUTE a TO aa CASCADE', 'INSERT INTO %s VALUES (2, 2, 3)'],
	retyped_under_generated => ['CREATE TABLE %s (id int PRIMARY KEY, b text, g int GENERATED ALWAYS AS (length(b)) STORED); INSERT INTO %s VALUES (1, $$x$$)', undef,
		'ALTER TABLE %s DROP g, ALTER b TYPE varchar(50), ADD g int GENERATED ALWAYS AS (length(b) + 1) STORED', 'INSERT INTO %s (id, b) VALUES (107, $$q$$)'],
	unused_type => [$plain . '; CREATE TYPE %s_e AS ENUM ($$a$$)', undef, 'ALTER TYPE %s_e ADD VALUE $$b$$', 'ALTER TABLE %s ADD e %s_e; UPDATE %s SET e = $$b$$'],
	rolled_back => [undef, undef, 'SAVEPOINT s; ALTER TABLE %s ADD c int; INSERT INTO %s VALUES (102); ROLLBACK TO s', 'INSERT INTO %s VALUES (103)'],
	temporary => [undef, undef, 'CREATE TEMP TABLE %s_t (id int) ON COMMIT PRESERVE ROWS; INSERT INTO %s_t VALUES (1); DROP TABLE %s_t', 'INSERT INTO %s VALUES (104)'],
);
my %needs_own_transaction = map { $_ => 1 } qw(rolled_back);
my %breaks_transactions = map { $_ => 1 } qw(add_enum_value unused_type);
my @positions = qw(between alone idle down);
my @names = @ARGV ? @ARGV : sort keys %changes;

sub part
{
	my ($name, $index) = @_;
	my @default = ($plain, 'INSERT INTO %s VALUES (50, 5, $$before$$); UPDATE %s SET b = b || $$!$$ WHERE id = 3', undef, undef);
	@default[0, 1] = (undef, 'SELECT 1') if $index == 1 && $changes{$name}[0];
	my $sql = $changes{$name}[$index] // $default[$index];
	$sql =~ s/%s/$name/g;
	return $sql;
}

my ($pub, $sub) = SchemasyncTest::pair();
$pub->safe_psql('postgres', 'CREATE PUBLICATION pub FOR ALL TABLES; CREATE SCHEMA elsewhere_between');
foreach my $position (@positions)
{
	my $sql = "CREATE SCHEMA $position; CREATE SCHEMA IF NOT EXISTS elsewhere_$position; SET search_path = $position;\n";
	$sql .= part($_, 0) . ";\n" foreach @names;
	$pub->safe_psql('postgres', $sql);
}
create_subscription($pub, $sub, 'sub');

sub change
{
	my ($position, $name, @parts) = @_;
	my $sql = join(";\n", map { part($name, $_) } @parts);
	$sql =~ s/\belsewhere\b/elsewhere_$position/g;
	my $transaction = $position eq 'between' && !$breaks_transactions{$name};
	$sql = "BEGIN;\n$sql;\nCOMMIT" if $transaction || $needs_own_transaction{$name};
	my ($status, undef, $error) = $pub->psql('postgres', "SET search_path = $position;\n$sql", on_error_stop => 1);
	is($status, 0, "$name, $position: the publisher takes it") or diag($error);
}

sub agree
{
	my ($position, $name) = @_;
	eval { wait_applied($pub, $sub, 'sub'); 1 } or BAIL_OUT("$name, $position: $@");
	compare($pub, $sub, "$name, $position", "^(elsewhere_)?$position\\.${name}(_|\$)");
}

foreach my $name (@names)
{
	change('idle', $name, 2);
	agree('idle', $name);
	change('between', $name, 1, 2, 3);
	agree('between', $name);
	change('alone', $name, $_) foreach 1, 2, 3;
	agree('alone', $name);
}
$sub->safe_psql('postgres', q{SELECT schemasync_stop('sub')});
change('down', $_, 1, 2, 3) foreach @names;
$sub->safe_psql('postgres', q{SELECT schemasync_start('sub')});
agree('down', $_) foreach @names;
compare($pub, $sub, 'everything at the end');

$pub->stop;
$sub->stop;
done_testing();
