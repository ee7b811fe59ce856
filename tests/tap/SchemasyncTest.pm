# Two clusters with schemasync in them, and the comparisons that the TAP tests share.
#
#   my ($pub, $sub) = SchemasyncTest::pair();
#   $pub->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION pub FOR ALL TABLES');
#   create_subscription($pub, $sub, 'sub');
#   $pub->safe_psql('postgres', 'ALTER TABLE t ADD a int');
#   wait_applied($pub, $sub, 'sub');
#   compare($pub, $sub, 'the column is there');
#
# All waiting is on conditions; the patience is PG_TEST_TIMEOUT_DEFAULT seconds.
package SchemasyncTest;

use strict;
use warnings;
use Exporter 'import';
use File::Basename qw(dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  new_node pair create_subscription wait_applied wait_refused wait_state
  compare compare_tables compare_catalogs contents_of catalog_of);

my $tools = dirname(__FILE__) . '/../tools';

# Minor releases of 2026 refuse an output plugin that output_plugin_libraries does not list; older ones do not know it.
my $has_plugin_list;

sub knows_output_plugin_libraries
{
	$has_plugin_list //= (qx{postgres --describe-config} =~ /^output_plugin_libraries\t/m) ? 1 : 0;
	return $has_plugin_list;
}

# A started cluster with what both sides need. Options: conf => further configuration text, start => 0 to leave it down,
# extension => 0 to leave the extension out.
sub new_node
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical');
	$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'schemasync'
max_prepared_transactions = 20
max_replication_slots = 20
max_wal_senders = 20
max_worker_processes = 32
max_logical_replication_workers = 16
});
	$node->append_conf('postgresql.conf',
		"output_plugin_libraries = 'pgoutput, test_decoding, schemasync_decoder'\n")
	  if knows_output_plugin_libraries();
	$node->append_conf('postgresql.conf', $options{conf}) if defined $options{conf};
	if ($options{start} // 1)
	{
		$node->start;
		$node->safe_psql('postgres', 'CREATE EXTENSION schemasync')
		  if $options{extension} // 1;
	}
	return $node;
}

# Publisher and subscriber.
sub pair
{
	my (%options) = @_;
	return (new_node('publisher', %options), new_node('subscriber', %options));
}

# Subscribes: create_subscription($pub, $sub, NAME, publications => ['pub'], args => 'further SQL arguments',
# dbname => ..., wait => 0 to return before the initial copy is done).
sub create_subscription
{
	my ($pub, $sub, $name, %options) = @_;
	my $dbname = $options{dbname} // 'postgres';
	my $publications = join(', ', map { "'$_'" } @{ $options{publications} // ['pub'] });
	my $conninfo = $pub->connstr($dbname);
	$conninfo =~ s/'/''/g;
	my $args = defined $options{args} ? ", $options{args}" : '';
	$sub->safe_psql($dbname,
		"SELECT schemasync_create_subscription('$name', '$conninfo', ARRAY[$publications]$args)");
	wait_applied($pub, $sub, $name, $dbname) if $options{wait} // 1;
	return;
}

# Waits until all that the publisher has written up to now is applied.
sub wait_applied
{
	my ($pub, $sub, $name, $dbname) = @_;
	$dbname //= 'postgres';
	my $lsn = $pub->safe_psql($dbname, 'SELECT pg_current_wal_lsn()');
	my $timeout = $PostgreSQL::Test::Utils::timeout_default;
	my ($status, $out, $err) =
	  $sub->psql($dbname, "SELECT schemasync_wait('$name', '$lsn', interval '$timeout s')");
	if ($status != 0)
	{
		my (undef, $state) = $sub->psql($dbname,
			"SELECT name, state, last_error FROM schemasync_subscriptions; "
			  . "SELECT reason, object_identity, statement, hint FROM schemasync_refusals WHERE status = 'open'");
		die "subscription $name did not reach $lsn: $err\n$state";
	}
	return $lsn;
}

# Waits until the subscription is in a state.
sub wait_state
{
	my ($sub, $name, $state, $dbname) = @_;
	$dbname //= 'postgres';
	$sub->poll_query_until($dbname, "SELECT state FROM schemasync_subscriptions WHERE name = '$name'", $state)
	  or die "subscription $name did not become $state";
	return;
}

# Waits until the subscription stands at a refusal; with a reason given, that is tested. Returns the refusal's id.
sub wait_refused
{
	my ($sub, $name, $reason, $dbname) = @_;
	$dbname //= 'postgres';
	wait_state($sub, $name, 'refused', $dbname);
	my $open = "FROM schemasync_refusals WHERE subscription = '$name' AND status = 'open'";
	is($sub->safe_psql($dbname, "SELECT reason $open"), $reason, "$name is refused with $reason")
	  if defined $reason;
	return $sub->safe_psql($dbname, "SELECT refusal_id $open");
}

sub run_tool
{
	my ($node, $file, $only, $dbname) = @_;
	my $sql = slurp_file("$tools/$file");
	$only //= '';
	$only =~ s/'/''/g;
	return $node->safe_psql($dbname // 'postgres', "SET schemasync_test.pattern = '$only';\n$sql");
}

# The catalog and the full contents as text; $only is a pattern over schema.table.
sub catalog_of { my ($node, $only, $dbname) = @_; return run_tool($node, 'catalog.sql', $only, $dbname); }
sub contents_of { my ($node, $only, $dbname) = @_; return run_tool($node, 'contents.sql', $only, $dbname); }

# Tests that two texts are equal, and shows the lines that only one side has.
sub same_lines
{
	my ($left, $right, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 2;
	return pass($what) if $left eq $right;
	my %count;
	$count{$_}++ foreach split /\n/, $left;
	$count{$_}-- foreach split /\n/, $right;
	fail($what);
	my @differences = sort grep { $count{$_} != 0 } keys %count;
	diag(($count{$_} > 0 ? 'publisher only:  ' : 'subscriber only: ') . $_) foreach splice(@differences, 0, 40);
	diag(scalar(@differences) . ' more') if @differences;
	return 0;
}

# Full contents of all tables (or of those that match $only) are equal.
sub compare_tables
{
	my ($pub, $sub, $what, $only, $dbname) = @_;
	return same_lines(contents_of($pub, $only, $dbname), contents_of($sub, $only, $dbname),
		($what // 'both sides') . ': contents are equal');
}

# Columns, types, typmods, collations, not null, defaults, identity, constraints, indexes, types are equal.
sub compare_catalogs
{
	my ($pub, $sub, $what, $only, $dbname) = @_;
	return same_lines(catalog_of($pub, $only, $dbname), catalog_of($sub, $only, $dbname),
		($what // 'both sides') . ': catalogs are equal');
}

sub compare
{
	my ($pub, $sub, $what, $only, $dbname) = @_;
	my $tables = compare_tables($pub, $sub, $what, $only, $dbname);
	my $catalogs = compare_catalogs($pub, $sub, $what, $only, $dbname);
	return $tables && $catalogs;
}

1;
