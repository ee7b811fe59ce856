# Lets a test file of PostgreSQL's src/test/subscription run with schemasync in the place of the built-in subscriber:
#
#     perl -I .../src/test/perl -I tests/compat -MCoreSuite 001_rep_changes.pl
#
# The file itself stays as it is. What it sends to a server is translated on the way: CREATE, ALTER and DROP SUBSCRIPTION into calls of the
# SQL functions, pg_subscription and its like into views of the same shape over schemasync's. The subscription behaves as the built-in one:
# schema changes are ignored, tables are not made, publications are looked at when REFRESH says so.
package CoreSuite;

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

# What a file needs besides: options of every subscription.
my $options = $ENV{CORE_SUITE_OPTIONS} // '';

my $views = q{
CREATE SCHEMA ss;
CREATE EXTENSION schemasync SCHEMA ss;
GRANT USAGE ON SCHEMA ss TO public;
CREATE VIEW ss.subscriptions AS
	SELECT v.*, s.subid FROM ss.schemasync_subscriptions v JOIN schemasync.subscription s USING (name);
CREATE VIEW ss.pg_subscription AS
	SELECT subid::oid AS oid, name AS subname, enabled AND state <> 'failed' AS subenabled, slot_name AS subslotname, publications AS subpublications,
		coalesce(skip_lsn, '0/0') AS subskiplsn,
		CASE WHEN options->>'two_phase' = 'true' THEN CASE WHEN state = 'streaming' THEN 'e' ELSE 'p' END ELSE 'd' END AS subtwophasestate
	FROM ss.subscriptions;
CREATE VIEW ss.pg_subscription_rel AS
	SELECT s.subid::oid AS srsubid, t.relid AS srrelid, t.sync_lsn AS srsublsn,
		CASE t.state WHEN 'ready' THEN CASE WHEN s.state = 'streaming' THEN 'r' ELSE 's' END WHEN 'catchup' THEN 's' ELSE 'd' END AS srsubstate
	FROM ss.schemasync_tables t JOIN ss.subscriptions s ON s.name = t.subscription
	JOIN pg_class c ON c.oid = t.relid
	WHERE t.state <> 'removed' AND (c.relkind = 'r' OR EXISTS (SELECT FROM schemasync.relation r
		WHERE r.subid = s.subid AND r.relid = t.relid AND r.base::jsonb->'published'->>'via_root' = 'true'));
CREATE VIEW ss.pg_stat_subscription AS
	SELECT subid::oid AS subid, name AS subname, worker_pid AS pid, NULL::oid AS relid, received_lsn FROM ss.subscriptions;
-- what the built-in subscriber writes to the log of rows that it did not find
CREATE VIEW ss.log AS
	SELECT format('logical replication did not find row to be %s in replication target relation "%s"',
		CASE command WHEN 'UPDATE' THEN 'updated' ELSE 'deleted' END, split_part(replace(relation, '"', ''), '.', 2)) AS line
	FROM ss.schemasync_conflicts WHERE conflict IN ('update_missing', 'delete_missing');
};

sub quoted { my ($text) = @_; $text =~ s/'/''/g; return "'$text'"; }
sub names { my ($list) = @_; return 'ARRAY[' . join(', ', map { s/^\s+|\s+$//g; s/^"(.*)"$/$1/ or $_ = lc; quoted($_) } split(/,/, $list)) . ']'; }

# (name = value, ...) of a WITH or SET clause
sub parameters
{
	my ($text) = @_;
	my %given;
	return () unless defined $text;
	$given{ lc $1 } = defined $2 ? $2 : defined $3 ? $3 : 'true'
	  while $text =~ /(\w+)\s*(?:=\s*(?:'([^']*)'|([\w.\/]+)))?/g;
	return %given;
}

sub truth { my ($text) = @_; return $text =~ /^(true|on|1|t|yes)$/i ? 'true' : 'false'; }

# The entries of options; those that are arguments of their own are left.
sub option_entries
{
	my (%given) = @_;
	my @entries;
	for my $name (qw(binary two_phase))
	{
		push @entries, qq("$name": ) . truth($given{$name}) if exists $given{$name};
	}
	push @entries, '"streaming": "' . (truth($given{streaming}) eq 'true' ? 'on' : 'off') . '"' if exists $given{streaming};
	push @entries, qq("$_": "$given{$_}") for grep { exists $given{$_} } qw(origin synchronous_commit);
	return @entries;
}

my %no_slot;

sub create
{
	my ($name, $conninfo, $publications, $with) = @_;
	my %given = parameters($with);
	my @entries = ('"auto_refresh": false', option_entries(%given));
	push @entries, $options if $options;
	$conninfo =~ s/''/'/g;
	$conninfo .= " application_name=$name" unless $conninfo =~ /application_name/;
	if (exists $given{connect} && truth($given{connect}) eq 'false')
	{
		$given{enabled} = $given{copy_data} = $given{create_slot} = 'false';
	}
	my $call = "SELECT ss.schemasync_create_subscription(" . quoted($name) . ', ' . quoted($conninfo) . ', ' . names($publications)
	  . ", schema_changes => 'ignore', copy_schema => false, options => '{" . join(', ', @entries) . "}'";
	$call .= ", $_ => " . truth($given{$_}) for grep { exists $given{$_} } qw(copy_data enabled create_slot);
	$call .= ', slot_name => ' . quoted($given{slot_name}) if exists $given{slot_name} && lc $given{slot_name} ne 'none';
	return "$call)";
}

sub alter
{
	my ($name, $what) = @_;
	my $q = quoted($name);
	my $alter = sub { return "SELECT ss.schemasync_alter_subscription($q, " . join(', ', @_) . ')'; };

	return "SELECT ss.schemasync_start($q)" if $what =~ /^ENABLE/i;
	return "SELECT ss.schemasync_stop($q)" if $what =~ /^DISABLE/i;
	return "SELECT ss.schemasync_skip($q, '$1')" if $what =~ /^SKIP\s*\(\s*lsn\s*=\s*'?([\w\/]+)'?/i;
	return $alter->('conninfo => ' . quoted(do { my $c = $1; $c =~ s/''/'/g; $c =~ /application_name/ ? $c : "$c application_name=$name" }))
	  if $what =~ /^CONNECTION\s+'((?:[^']|'')*)'/i;
	if ($what =~ /^REFRESH\s+PUBLICATION(?:\s+WITH\s*\(([^)]*)\))?/i)
	{
		my %given = parameters($1);
		return "SELECT ss.schemasync_refresh($q, " . truth($given{copy_data} // 'true') . ')';
	}
	if ($what =~ /^(SET|ADD|DROP)\s+PUBLICATION\s+(.*?)(?:\s+WITH\s*\(([^)]*)\))?\s*$/is)
	{
		my ($verb, $list, %given) = (uc $1, names($2), parameters($3));
		my $now = "(SELECT publications FROM ss.schemasync_subscriptions WHERE name = $q)";
		my $new = $verb eq 'SET' ? $list : $verb eq 'ADD' ? "$now || $list" : "ARRAY(SELECT unnest($now) EXCEPT SELECT unnest($list))";
		my $sql = $alter->("publications => $new");
		$sql .= "; SELECT ss.schemasync_refresh($q, " . truth($given{copy_data} // 'true') . ')'
		  unless exists $given{refresh} && truth($given{refresh}) eq 'false';
		return $sql;
	}
	if ($what =~ /^SET\s*\(([^)]*)\)/is)
	{
		my %given = parameters($1);
		if (exists $given{slot_name} && lc $given{slot_name} eq 'none')
		{
			$no_slot{$name} = 1;
			return 'SELECT 1';
		}
		return $alter->('slot_name => ' . quoted($given{slot_name})) if exists $given{slot_name};
		return $alter->("options => '{" . join(', ', option_entries(%given)) . "}'");
	}
	die "CoreSuite: cannot translate ALTER SUBSCRIPTION $name $what";
}

sub translate
{
	my ($sql) = @_;
	return $sql unless defined $sql && $sql =~ /subscription/i;
	my $word = qr/"?(\w+)"?/;

	$sql =~ s/CREATE\s+SUBSCRIPTION\s+$word\s+CONNECTION\s+'((?:[^']|'')*)'\s+PUBLICATION\s+((?:"?\w+"?\s*,\s*)*"?\w+"?)(?:\s+WITH\s*\(([^)]*)\))?/create($1, $2, $3, $4)/gise;
	$sql =~ s/ALTER\s+SUBSCRIPTION\s+$word\s+((?:'(?:[^']|'')*'|[^;'])*)/alter($1, $2)/gise;
	$sql =~ s/DROP\s+SUBSCRIPTION\s+(?:IF\s+EXISTS\s+)?$word/"SELECT ss.schemasync_drop_subscription('$1'" . (delete $no_slot{$1} ? ', false' : '') . ')'/gise;
	$sql =~ s/\b(?:pg_catalog\.)?(pg_subscription|pg_subscription_rel|pg_stat_subscription)\b/ss.$1/g;
	return $sql;
}

no warnings 'redefine';
my %original = map { $_ => PostgreSQL::Test::Cluster->can($_) } qw(init start psql background_psql poll_query_until wait_for_subscription_sync);

*PostgreSQL::Test::Cluster::init = sub {
	my ($self, %arguments) = @_;
	$original{init}->($self, %arguments);
	$self->append_conf('postgresql.conf', "shared_preload_libraries = 'schemasync'\nmax_worker_processes = 32\n");
	$self->append_conf('postgresql.conf', "output_plugin_libraries = 'pgoutput, test_decoding, schemasync_decoder'\n")
	  if qx{postgres --describe-config} =~ /^output_plugin_libraries\t/m;
	return;
};

my %made;

*PostgreSQL::Test::Cluster::start = sub {
	my ($self, @arguments) = @_;
	my $started = $original{start}->($self, @arguments);
	if (!$made{ $self->name })
	{
		$made{ $self->name } = 1;
		for my $database ('template1', 'postgres')
		{
			my ($status, undef, $error) = $original{psql}->($self, $database, $views);
			die "CoreSuite: $error" if $error =~ /ERROR/;
		}
	}
	return $started;
};

*PostgreSQL::Test::Cluster::psql = sub {
	my ($self, $database, $sql, @more) = @_;
	return $original{psql}->($self, $database, translate($sql), @more);
};

*PostgreSQL::Test::Cluster::poll_query_until = sub {
	my ($self, $database, $sql, @more) = @_;
	return $original{poll_query_until}->($self, $database, translate($sql), @more);
};

# The worker makes the list of tables: until it has, there is nothing to wait for.
*PostgreSQL::Test::Cluster::wait_for_subscription_sync = sub {
	my ($self, $publisher, $subname, $database) = @_;
	my $which = defined $subname ? "WHERE name = '$subname'" : '';
	my $timeout = $PostgreSQL::Test::Utils::timeout_default;
	my (undef, undef, $error) = $original{psql}->($self, $database // 'postgres',
		"SELECT ss.schemasync_wait(name, NULL, interval '$timeout s') FROM ss.schemasync_subscriptions $which");
	if ($error)
	{
		my (undef, $state) = $original{psql}->($self, $database // 'postgres',
			'SELECT name, state, last_error FROM ss.schemasync_subscriptions; SELECT subscription, relation, state FROM ss.schemasync_tables');
		die "CoreSuite: not synchronised: $error\n$state";
	}
	return $original{wait_for_subscription_sync}->($self, $publisher, $subname, $database);
};

# The lines of the log that a file looks for.
sub log_of
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT line FROM ss.log');
}

1;
