# What a person needs before and at a cutover: the differences of the schema, the comparison of the rows, and the sequences.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my ($pub, $sub) = SchemasyncTest::pair();
my $dsn = $pub->connstr('postgres');
$dsn =~ s/'/''/g;

sub error_of
{
	my ($sql, %options) = @_;
	my ($status, undef, $err) = $sub->psql($options{dbname} // 'postgres', $sql);
	return $status == 0 ? '' : $err;
}

# --- schemasync_diff: nothing where nothing differs

$pub->safe_psql('postgres', q{
CREATE SCHEMA "Sales";
CREATE TYPE "Sales".mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN "Sales".amount AS numeric(10, 2) CHECK (VALUE >= 0);
CREATE TYPE "Sales".place AS (street text, number int);
CREATE TABLE customer (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, mood "Sales".mood DEFAULT 'ok');
CREATE TABLE "Sales"."Order" (
	id serial PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customer, total "Sales".amount, at timestamptz DEFAULT now(),
	"To" "Sales".place, code varchar(10) UNIQUE, doubled numeric GENERATED ALWAYS AS (id * 2) STORED, moods "Sales".mood[],
	CONSTRAINT code_len CHECK (length(code) > 1));
CREATE INDEX order_at ON "Sales"."Order" (at DESC) WHERE total > 0;
CREATE TABLE part (id int, day date NOT NULL, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE INDEX ON part (v);
CREATE TABLE listed (id int PRIMARY KEY, shown text, hidden text);
CREATE TABLE full_identity (a int, b text);
ALTER TABLE full_identity REPLICA IDENTITY FULL;
CREATE TABLE gone_soon (id int PRIMARY KEY);
INSERT INTO customer (name) SELECT 'c' || i FROM generate_series(1, 50) i;
INSERT INTO "Sales"."Order" (customer_id, total, code, "To", moods)
	SELECT i, i * 1.5, 'code' || i, ROW('s', i)::"Sales".place, '{ok,sad}' FROM generate_series(1, 50) i;
INSERT INTO part SELECT i, date '2024-06-01' + i * 5, 'v' || i FROM generate_series(1, 100) i;
INSERT INTO listed SELECT i, 's' || i, 'h' || i FROM generate_series(1, 20) i;
INSERT INTO full_identity SELECT i % 5, 'same' FROM generate_series(1, 20) i;
CREATE PUBLICATION pub FOR TABLE customer, "Sales"."Order", part, listed (id, shown) , full_identity, gone_soon;
});
create_subscription($pub, $sub, 'sub');
my $count = "SELECT count(*) FROM schemasync_diff('sub')";
is($sub->safe_psql('postgres', "SELECT * FROM schemasync_diff('sub')"), '', 'no differences after the copy of the schema');

# --- what was changed by hand here

$sub->safe_psql('postgres', q{
ALTER TABLE customer RENAME COLUMN name TO full_name;
ALTER TABLE customer ADD COLUMN note text, ALTER COLUMN mood DROP DEFAULT;
ALTER TYPE "Sales".mood RENAME TO mood_here;
ALTER TABLE "Sales"."Order" DROP CONSTRAINT code_len, DROP CONSTRAINT "Order_code_key", ALTER COLUMN code TYPE varchar(20),
	ALTER COLUMN customer_id DROP NOT NULL, DROP COLUMN at, ALTER COLUMN total SET DEFAULT 7;
ALTER TABLE "Sales"."Order" ADD CONSTRAINT code_len CHECK (length(code) > 2);
ALTER TABLE "Sales"."Order" RENAME CONSTRAINT "Order_pkey" TO order_key;
ALTER DOMAIN "Sales".amount DROP CONSTRAINT amount_check;
CREATE INDEX own ON customer (mood);
ALTER TABLE part DROP COLUMN v;
ALTER TABLE full_identity REPLICA IDENTITY DEFAULT;
ALTER TABLE listed ADD COLUMN mine int;
DROP TABLE gone_soon;
});
my @columns = qw(object_type object_identity difference publisher subscriber verdict reason);
my $found = $sub->safe_psql('postgres',
	"SELECT concat_ws('|', object_type, object_identity, difference, verdict, reason) FROM schemasync_diff('sub')");
foreach my $expected (
	'column|public.customer.name|column full_name was renamed to name|forward',
	'column|public.customer.note|column is only on the subscriber|ignore',
	'column|public.customer.mood|default of column mood is ',
	'type|"Sales".mood|type "Sales".mood_here was renamed to "Sales".mood|forward',
	'type|"Sales".amount|constraint amount_check of domain "Sales".amount was added',
	'constraint|code_len on "Sales"."Order"|constraint is defined otherwise on the subscriber|forward',
	'constraint|"Order_code_key" on "Sales"."Order"|constraint is missing on the subscriber|forward',
	'constraint|"Order_pkey" on "Sales"."Order"|constraint order_key was renamed to "Order_pkey"|forward',
	'column|"Sales"."Order".code|column code changed from character varying(20) to character varying(10)|',
	'column|"Sales"."Order".customer_id|column customer_id is NOT NULL|forward',
	'column|"Sales"."Order".at|column is missing on the subscriber|',
	'column|"Sales"."Order".total|default of column total was dropped|forward',
	'index|"Sales".order_at|index is missing on the subscriber|forward',
	'index|public.own|index is only on the subscriber|ignore',
	'column|public.part.v|column is missing on the subscriber|forward',
	'table|public.full_identity|replica identity of public.full_identity is FULL|forward',
	'table|public.gone_soon|table is missing on the subscriber|forward')
{
	like($found, qr/^\Q$expected\E/m, "found: $expected");
}
unlike($found, qr/mine|part_1|hidden/, 'neither what is not published, nor what comes with the parent');
diag($found) unless Test::More->builder->is_passing;

# --- its SQL levels it
my $sql = $sub->safe_psql('postgres', "SELECT string_agg(suggested_sql, E';\\n') FROM schemasync_diff('sub')");
$sub->safe_psql('postgres', $sql);
is($sub->safe_psql('postgres', "SELECT object_identity, difference FROM schemasync_diff('sub')"), '', 'the SQL levels all of it');
SchemasyncTest::compare_catalogs($pub, $sub, 'levelled', 'public.customer');
$pub->safe_psql('postgres', q{INSERT INTO customer (name) VALUES ('after'); INSERT INTO gone_soon VALUES (1)});
wait_applied($pub, $sub, 'sub');

# --- and what changed on the publisher while the subscription stood, and what is published now
$sub->safe_psql('postgres', "SELECT schemasync_stop('sub', drain => true)");
$pub->safe_psql('postgres', q{
ALTER TABLE customer ADD COLUMN token uuid DEFAULT gen_random_uuid();
CREATE TABLE newcomer (id int PRIMARY KEY);
ALTER PUBLICATION pub ADD TABLE newcomer;
ALTER PUBLICATION pub DROP TABLE full_identity;
});
is($sub->safe_psql('postgres', "SELECT concat_ws('|', object_identity, difference, verdict, reason) FROM schemasync_diff('sub') ORDER BY 1"),
	join("\n",
		'public.customer.token|column is missing on the subscriber|refuse|volatile_default',
		'public.full_identity|table is followed and no longer published|ignore',
		'public.newcomer|table is published and the subscription does not follow it yet|refuse|missing_object'),
	'pending changes, with the verdict that they would get');
is($sub->safe_psql('postgres', "SELECT suggested_sql FROM schemasync_diff('sub') WHERE object_identity = 'public.newcomer'"),
	q{SELECT public.schemasync_refresh('sub')}, 'a new table is taken up by a refresh');

# --- who may ask
$sub->safe_psql('postgres', 'CREATE ROLE nobody LOGIN');
like(error_of("SET ROLE nobody; SELECT schemasync_diff('sub')"), qr/must be owner of subscription "sub"/, 'the differences are the owner\'s');
like(error_of("SELECT schemasync_diff('none')"), qr/subscription "none" does not exist/, 'no such subscription');
like(error_of("SELECT schemasync_diff(NULL)"), qr/name must not be null/, 'a name is needed');

done_testing();
