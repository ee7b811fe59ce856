# The harness itself: two clusters start with the library preloaded, the extension is there on both, and the comparisons
# see a difference in contents and one in the catalog.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my ($pub, $sub) = SchemasyncTest::pair();

foreach my $node ($pub, $sub)
{
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_extension WHERE extname = 'schemasync'}),
		'1', $node->name . ' has the extension');
	$node->safe_psql('postgres', q{
		CREATE TYPE mood AS ENUM ('good', 'bad');
		CREATE TABLE t (id int PRIMARY KEY, a varchar(10) COLLATE "C" DEFAULT 'x', b mood, "Ünïcode col" text);
		INSERT INTO t VALUES (1, 'one', 'good', NULL), (2, 'two', 'bad', E'line\nbreak');
	});
}
compare($pub, $sub, 'the same on both');

$sub->safe_psql('postgres', 'UPDATE t SET "Ünïcode col" = $$1 is null$$ WHERE id = 1');
isnt(contents_of($sub), contents_of($pub), 'one value that differs is seen');
$sub->safe_psql('postgres', 'UPDATE t SET "Ünïcode col" = NULL WHERE id = 1; ALTER TABLE t ALTER a TYPE varchar(11)');
compare_tables($pub, $sub, 'the value put back');
isnt(catalog_of($sub), catalog_of($pub), 'a typmod that differs is seen');

$pub->stop;
$sub->stop;
done_testing();
