# The manual's pages are run as they stand: tutorial, cutover, runbooks; and the queries and the dashboard for monitoring.
use strict;
use warnings;
use File::Basename qw(dirname);
use JSON::PP;
use PostgreSQL::Test::Utils;
use SchemasyncTest;
use Test::More;

my $root = dirname(__FILE__) . '/../..';
my ($pub, $sub) = SchemasyncTest::pair(extension => 0);
my %nodes = (publisher => $pub, subscriber => $sub);

# The blocks of a page: where to run it, what to run, what is shown.
sub blocks
{
	my ($page) = @_;
	my @found;
	my $text = slurp_file("$root/docs/$page");
	while ($text =~ /^```(\w+)([^\n]*)\n(.*?)^```$/msg)
	{
		my ($kind, $info, $body) = ($1, $2, $3);
		if ($kind eq 'sql')
		{
			my ($side, %options) = ($info =~ /(\w+)(?:\s+(\w+)=(\w+))?/);
			push @found, { side => $side, sql => $body, wait => $options{wait} };
		}
		elsif ($kind eq 'text') { $found[-1]{shown} = $body; }
	}
	return @found;
}

sub trimmed
{
	my ($text) = @_;
	$text =~ s/[ \t]+$//mg;
	$text =~ s/\n+\z//;
	return $text;
}

# As psql shows it to a person.
sub run_block
{
	my ($page, $block, $dbname) = @_;
	my $sql = $block->{sql};
	my $there = 'host=' . $pub->host . ' port=' . $pub->port . " dbname=$dbname";
	$sql =~ s/host=publisher dbname=\w+/$there/g;
	wait_state($sub, $block->{wait_for}, $block->{wait}, $dbname) if $block->{wait};
	my $file = PostgreSQL::Test::Utils::tempdir() . '/block.sql';
	append_to_file($file, $sql);
	my ($out, $err);
	my $good = IPC::Run::run([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $nodes{ $block->{side} }->connstr($dbname), '-f', $file ], '>', \$out, '2>', \$err);
	my ($first) = split /\n/, $block->{sql};
	ok($good, "$page: $first") or diag($err);
	is(trimmed($out), trimmed($block->{shown}), "$page shows: $first") if defined $block->{shown};
	return $out;
}

sub fresh_database
{
	my ($dbname) = @_;
	foreach my $node ($pub, $sub)
	{
		$node->safe_psql('postgres', "DROP DATABASE IF EXISTS $dbname WITH (FORCE)");
		$node->safe_psql('postgres', "CREATE DATABASE $dbname");
	}
}

# --- tutorial

fresh_database('shop');
run_block('tutorial.md', { %$_, wait_for => 'shop' }, 'shop') foreach blocks('tutorial.md');
SchemasyncTest::compare_tables($pub, $sub, 'after the tutorial', 'public.*', 'shop');

# --- cutover, with rows and sequences of all kinds

fresh_database('shop');
$pub->safe_psql('shop', q{
CREATE TABLE customer (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
CREATE TABLE purchase (id serial PRIMARY KEY, customer_id int REFERENCES customer, amount numeric);
CREATE SEQUENCE invoice START 500 INCREMENT 5;
CREATE SEQUENCE countdown INCREMENT -1 MINVALUE -5000 START -1;
CREATE SEQUENCE unused;
INSERT INTO customer (name) SELECT 'c' || i FROM generate_series(1, 200) i;
INSERT INTO purchase (customer_id, amount) SELECT i, i * 1.5 FROM generate_series(1, 200) i;
SELECT nextval('invoice'), nextval('invoice'), nextval('countdown');
});
$sub->safe_psql('shop', 'CREATE SEQUENCE invoice START 500 INCREMENT 5; CREATE SEQUENCE countdown INCREMENT -1 MINVALUE -5000 START -1; CREATE SEQUENCE unused');
my $verified = 0;
foreach my $block (blocks('cutover.md'))
{
	my $out = run_block('cutover.md', $block, 'shop');
	if ($block->{sql} =~ /sync_sequences/)
	{
		like($out, qr/^ public\.countdown\s*\|\s*-1 \|\s*-1001$/m, 'a sequence that counts down');
		like($out, qr/^ public\.customer_id_seq\s*\|\s*200 \|\s*1200$/m, 'the sequence of an identity column');
		like($out, qr/^ public\.invoice\s*\|\s*505 \|\s*5505$/m, 'a sequence of its own');
		like($out, qr/^ public\.purchase_id_seq\s*\|\s*200 \|\s*1200$/m, 'the sequence of a serial column');
		unlike($out, qr/unused/, 'one that was never called has nothing to hand over');
		$sub->safe_psql('shop', q{SELECT setval('invoice', 90000)});
		is($sub->safe_psql('shop', q{SELECT subscriber_value FROM schemasync_sync_sequences('move') WHERE sequence = 'public.invoice'}), '90000',
			'no sequence goes back');
	}
	if ($block->{sql} =~ /equal IS NOT TRUE/)
	{
		unlike($out, qr/public\./, 'both sides are equal before the switch') or diag($out) if $out !~ /sequence/;
		$verified = 1;
	}
}
ok($verified, 'the page compares before it switches');
SchemasyncTest::compare_tables($pub, $sub, 'after the cutover', 'public.*', 'shop');
$sub->safe_psql('shop', "INSERT INTO purchase (customer_id, amount) VALUES (1, 1); INSERT INTO customer (name) VALUES ('new')");
is($sub->safe_psql('shop', 'SELECT max(id) FROM purchase'), '1201', 'the new server gives out new values');

# --- runbooks

fresh_database('app');
$_->safe_psql('app', 'CREATE EXTENSION schemasync') foreach ($pub, $sub);
$pub->safe_psql('app', 'CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1), (2); CREATE PUBLICATION app FOR ALL TABLES');
create_subscription($pub, $sub, 'app', dbname => 'app', publications => ['app']);
run_block('runbooks.md', $_, 'app') foreach blocks('runbooks.md');
my $runbooks = slurp_file("$root/docs/runbooks.md");
my $reasons = slurp_file("$root/common/core/reason.hpp");
foreach my $name (qw(disabled copying streaming draining drained waiting_lock refused failed), grep { $_ ne 'none' } $reasons =~ /\{Reason::\w+, "(\w+)"/g)
{
	like($runbooks, qr/^###.*`$name`/m, "there is a paragraph on $name");
}

# --- the counters are there after a restart, and who listens is told

wait_applied($pub, $sub, 'app', 'app');
$sub->poll_query_until('app', "SELECT s.applied_rows = v.applied_rows AND v.applied_rows > 0 FROM schemasync.subscription s JOIN schemasync_subscriptions v USING (name)")
  or die 'the counters are not stored';
my $counters = "SELECT applied_rows, applied_transactions FROM schemasync_subscriptions WHERE name = 'app'";
my $before = $sub->safe_psql('app', $counters);
$sub->restart;
wait_state($sub, 'app', 'streaming', 'app');
is($sub->safe_psql('app', $counters), $before, 'the counters survive a restart of the server');
my $listener = $sub->background_psql('app');
$listener->query_safe('LISTEN schemasync');
$pub->safe_psql('app', 'ALTER TABLE t ADD COLUMN r float8 DEFAULT random()');
$sub->safe_psql('app', q{SELECT schemasync_alter_subscription('app', options => '{"rewrites": "refuse"}')});
$pub->safe_psql('app', 'ALTER TABLE t ADD COLUMN r2 float8 DEFAULT random()');
wait_refused($sub, 'app', 'volatile_default', 'app');
my $heard = $listener->query_safe('SELECT 1');
like($heard, qr/"event": "refused", "subscription": "app", "reason": "volatile_default", "object": "public\.t\.r2?"/, 'listeners hear of a refusal');
$sub->safe_psql('app', "ALTER TABLE t ADD COLUMN IF NOT EXISTS r float8; ALTER TABLE t ADD COLUMN IF NOT EXISTS r2 float8; SELECT schemasync_resume('app')");
$sub->poll_query_until('app', "SELECT count(*) = 0 FROM schemasync_refusals WHERE status = 'open'") or die 'not resumed';
$sub->safe_psql('app', 'INSERT INTO t VALUES (77)');
$pub->safe_psql('app', 'INSERT INTO t VALUES (77)');
wait_state($sub, 'app', 'failed', 'app');
$sub->safe_psql('app', 'DELETE FROM t WHERE id = 77');
wait_applied($pub, $sub, 'app', 'app');
$sub->poll_query_until('app', 'SELECT count(*) = 0 FROM schemasync_errors WHERE resolved_at IS NULL') or die 'not recovered';
$heard = $listener->query_safe('SELECT 1');
like($heard, qr/"event": "resumed", "subscription": "app", "by": "\w+"/, 'of its resolution');
like($heard, qr/"event": "failed", "subscription": "app", "message": "duplicate key/, 'of a failure');
like($heard, qr/"event": "recovered"/, 'and of its end');
$listener->quit;

# --- monitoring: each query runs and has the columns that it names; the dashboard asks for metrics that there are

my (%metrics, %labels, $name);
my %rows;
my $yaml = slurp_file("$root/docs/monitoring/queries.yaml");
while ($yaml =~ /^(\w+):\n  query: \|\n((?:    .*\n)+)  metrics:\n((?:    - .*\n)+)/mg)
{
	my ($group, $sql, $columns) = ($1, $2, $3);
	my @columns = $columns =~ /- (\w+): \{usage/g;
	$metrics{"${group}_$1"} = 1 while $columns =~ /- (\w+): \{usage: "(?:GAUGE|COUNTER)"/g;
	foreach my $node ($pub, $sub)
	{
		my $count = $node->safe_psql('app', 'SELECT count(*), count((' . join(', ', @columns) . ")::text) FROM ($sql) q");
		$rows{$group} += (split /\|/, $count)[0];
		ok($count =~ /^(\d+)\|\1$/, "query $group runs on " . $node->name);
	}
}
is(join(',', map { "$_=" . ($rows{$_} > 0 ? 'rows' : 'none') } grep { /slot|subscription$|tables|ddl/ } sort keys %rows),
	'schemasync_ddl=rows,schemasync_slot=rows,schemasync_subscription=rows,schemasync_tables=rows', 'and gives rows');
my $dashboard = JSON::PP->new->decode(slurp_file("$root/docs/monitoring/grafana.json"));
my @asked;
foreach my $panel (@{ $dashboard->{panels} })
{
	push @asked, map { $_->{expr} =~ /(schemasync_\w+)/g } @{ $panel->{targets} };
}
is(join(', ', grep { !$metrics{$_} } @asked), '', 'the dashboard asks for metrics that there are');
cmp_ok(scalar(@asked), '>', 10, 'and for many of them');
$sub->safe_psql('app', "SELECT schemasync_stop('app')");
$pub->poll_query_until('app', q{SELECT health = 'warn' FROM schemasync_slots}) or die 'no warning';
my $slots = $pub->background_psql('app');
$slots->query_safe('LISTEN schemasync');
like($slots->query_safe('SELECT schemasync_notify_slots()') . $slots->query_safe('SELECT 1'), qr/"event" : "slot".*"health" : "warn"/, 'slots that are not well are told of');
$slots->quit;

done_testing();
