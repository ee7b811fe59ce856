# Without the option schemasync the decoder's output is pgoutput's, byte for byte: one workload, decoded through a slot
# of each plugin with every combination of options that the server's version knows, and the same errors for bad options.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use SchemasyncTest;

my $node = SchemasyncTest::new_node('publisher', extension => 0, conf => q{
shared_preload_libraries = ''
logical_decoding_work_mem = 64kB
autovacuum = off
});
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $has_16 = $version >= 160000;
my $has_18 = $version >= 180000;

my $db = 'unicode';
$node->safe_psql('postgres', "CREATE DATABASE $db ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
sub sql { return $node->safe_psql($db, $_[0]); }

# --- tables and publications that are there before the slots -------------------------------------------------------

sql(q{
CREATE SCHEMA other;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (x int, y text);
CREATE TYPE other.money_range AS RANGE (subtype = numeric);
CREATE TABLE narrow (id int PRIMARY KEY, v int, t text);
CREATE TABLE wide (
	id bigserial PRIMARY KEY,
	c_int2 int2, c_int4 int4, c_int8 int8, c_oid oid, c_bool bool, c_float4 float4, c_float8 float8, c_numeric numeric(30,10),
	c_money money, c_text text, c_varchar varchar(200), c_bpchar char(12), c_name name, c_char "char", c_bytea bytea,
	c_date date, c_time time, c_timetz timetz, c_ts timestamp, c_tstz timestamptz(3), c_interval interval,
	c_uuid uuid, c_json json, c_jsonb jsonb, c_jsonpath jsonpath, c_inet inet, c_cidr cidr, c_macaddr macaddr, c_macaddr8 macaddr8,
	c_bit bit(5), c_varbit varbit, c_point point, c_line line, c_lseg lseg, c_box box, c_path path, c_polygon polygon, c_circle circle,
	c_tsvector tsvector, c_tsquery tsquery, c_lsn pg_lsn, c_regclass regclass, c_regtype regtype, c_tid tid, c_xid8 xid8,
	c_int4range int4range, c_tstzrange tstzrange, c_multirange int4multirange, c_range other.money_range,
	c_int_array int[], c_text_array text[][], c_mood mood, c_mood_array mood[], c_pair pair, c_pair_array pair[],
	c_positive positive);
CREATE TABLE without_send (id int PRIMARY KEY, a aclitem[]);
CREATE TABLE toasted (id int PRIMARY KEY, small text, big text, big_external bytea);
ALTER TABLE toasted ALTER big_external SET STORAGE EXTERNAL;
CREATE TABLE ri_full (a int, b text, big text); ALTER TABLE ri_full REPLICA IDENTITY FULL;
CREATE TABLE ri_index (a int, k text NOT NULL, z int NOT NULL); CREATE UNIQUE INDEX ri_index_kz ON ri_index (z, k);
ALTER TABLE ri_index REPLICA IDENTITY USING INDEX ri_index_kz;
CREATE TABLE ri_nothing (a int); ALTER TABLE ri_nothing REPLICA IDENTITY NOTHING;
CREATE TABLE ri_none (a int, b int);
CREATE TABLE ri_toast (k text PRIMARY KEY, v int); ALTER TABLE ri_toast ALTER k SET STORAGE EXTERNAL;
CREATE TABLE generated (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED, z text);
CREATE TABLE dropped (id int PRIMARY KEY, gone int, kept text, gone_too text, last int);
ALTER TABLE dropped DROP gone, DROP gone_too;
CREATE TABLE other."Odd name" ("Ünïcode ""q""" int PRIMARY KEY, "select" text);
CREATE TABLE part (id int, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE part_a PARTITION OF part FOR VALUES IN ('a');
CREATE TABLE part_b (v text, region text NOT NULL, x_gone int, id int NOT NULL, PRIMARY KEY (id, region));
ALTER TABLE part_b DROP x_gone; ALTER TABLE part ATTACH PARTITION part_b FOR VALUES IN ('b');
CREATE TABLE part_c PARTITION OF part FOR VALUES IN ('c') PARTITION BY RANGE (id);
CREATE TABLE part_c1 PARTITION OF part_c FOR VALUES FROM (0) TO (100);
CREATE TABLE part_c2 (region text NOT NULL, id int NOT NULL, v text, PRIMARY KEY (id, region));
ALTER TABLE part_c ATTACH PARTITION part_c2 FOR VALUES FROM (100) TO (1000);
CREATE TABLE filtered (id int PRIMARY KEY, f int, t text); ALTER TABLE filtered REPLICA IDENTITY FULL;
CREATE TABLE filtered_key (id int PRIMARY KEY, big text); ALTER TABLE filtered_key ALTER big SET STORAGE EXTERNAL;
CREATE TABLE listed (id int PRIMARY KEY, a int, secret text, c text);
CREATE UNLOGGED TABLE unlogged_table (id int PRIMARY KEY);
CREATE TABLE not_published (id int PRIMARY KEY);
CREATE TABLE shape_changes (id int PRIMARY KEY, a int);
CREATE TABLE parent (id int PRIMARY KEY, a int); CREATE TABLE child (b int) INHERITS (parent); ALTER TABLE child REPLICA IDENTITY FULL;

CREATE PUBLICATION all_tables FOR ALL TABLES;
CREATE PUBLICATION all_root FOR ALL TABLES WITH (publish_via_partition_root);
CREATE PUBLICATION one FOR TABLE narrow, wide, shape_changes;
CREATE PUBLICATION in_schema FOR TABLES IN SCHEMA other;
CREATE PUBLICATION parts FOR TABLE part;
CREATE PUBLICATION parts_root FOR TABLE part WITH (publish_via_partition_root);
CREATE PUBLICATION middle_root FOR TABLE part_c WITH (publish_via_partition_root);
CREATE PUBLICATION leaf FOR TABLE part_c2, part_b;
CREATE PUBLICATION filters FOR TABLE filtered WHERE (f > 10), filtered_key WHERE (id > 10), part_a WHERE (id > 5), part_b WHERE (id > 12), ri_toast WHERE (length(k) > 100 OR k < 'b');
ALTER TABLE ri_toast REPLICA IDENTITY FULL;
CREATE PUBLICATION filters_root FOR TABLE part WHERE (id % 2 = 0) WITH (publish_via_partition_root);
CREATE PUBLICATION filters_more FOR TABLE filtered WHERE (f < 5) WITH (publish = 'insert, update');
CREATE PUBLICATION no_filter FOR TABLE filtered WITH (publish = 'insert');
CREATE PUBLICATION lists FOR TABLE listed (id, c, a), part_a (id, region), dropped (id, kept, last);
CREATE PUBLICATION lists_root FOR TABLE part (id, region) WITH (publish_via_partition_root);
CREATE PUBLICATION lists_other FOR TABLE listed (id, a);
CREATE PUBLICATION list_of_all FOR TABLE listed (id, a, secret, c), dropped;
CREATE PUBLICATION inserts FOR ALL TABLES WITH (publish = 'insert');
CREATE PUBLICATION deletes FOR ALL TABLES WITH (publish = 'delete, truncate');
CREATE PUBLICATION changing FOR TABLE narrow;
CREATE PUBLICATION empty;
CREATE PUBLICATION to_drop FOR TABLE narrow;
CREATE PUBLICATION to_rename FOR TABLE narrow;
});
sql(q{
CREATE TABLE virtual_generated (id int PRIMARY KEY, a int, v int GENERATED ALWAYS AS (a + 1) VIRTUAL, s int GENERATED ALWAYS AS (a * 2) STORED, z int);
CREATE PUBLICATION gen_stored FOR TABLE generated, virtual_generated WITH (publish_generated_columns = stored);
CREATE PUBLICATION gen_listed FOR TABLE generated (id, g), virtual_generated (id, s);
CREATE PUBLICATION gen_none FOR TABLE generated, virtual_generated;
CREATE PUBLICATION gen_filter FOR TABLE virtual_generated WHERE (v > 5) WITH (publish = 'insert');
}) if $has_18;

my %slots;
foreach my $plugin (qw(pgoutput schemasync_decoder))
{
	sql("SELECT pg_create_logical_replication_slot('${plugin}_plain', '$plugin')");
	sql("SELECT pg_create_logical_replication_slot('${plugin}_2pc', '$plugin', false, true)");
}

# --- the workload ----------------------------------------------------------------------------------------------------

sub row_values
{
	my ($n, $text) = @_;
	return qq{$n, $n * 1000, $n * 10000000000, $n, true, 1.5e-10 * $n, 0.1 * $n, $n.123456789, '12.34', '$text', 'vc$n', 'ch$n', 'nm$n', 'x', '\\x00ff$n$n',
	'2024-02-2$n', '01:02:03.45$n', '04:05:06+0$n', '2024-01-01 00:00:0$n.123456', '1999-12-31 23:59:5$n.999+05', '1 year 2 mons -3 days 04:05:06.7',
	'00000000-0000-4000-8000-00000000000$n', '{"a": [1, 2.50, null]}', '{"b":{"c":$n},"a":"x"}', '\$.a[*]?(@>1)', '10.0.0.$n/24', '10.1.0.0/16', '08:00:2b:01:02:0$n', '08:00:2b:01:02:03:04:0$n',
	'10101', '110$n' :: text :: varbit, '(1,$n)', '{1,2,$n}', '[(0,0),(1,$n)]', '(2,2),(1,1)', '((0,0),(1,1),(2,$n))', '((0,0),(1,1),(2,0))', '<(0,0),$n>',
	'a fat cat:3A', 'fat & (rat | cat)', '16/B37$n', 'narrow', 'other.money_range', '(0,$n)', '$n',
	'[$n,10)', '[2024-01-01 00:00+00,2024-02-01 00:00+00)', '{[1,3),[5,1$n)}', '[1.5,$n.5]',
	ARRAY[1,NULL,$n], ARRAY[['a','"b"'],['c,d','{}']], 'happy', '{sad,ok}', ROW($n, 'it''s'), ARRAY[ROW(1,'a')::pair, ROW(NULL,NULL)::pair],
	$n};
}
my $one = row_values(1, 'plain');
my $six = row_values(6, q{Ünï "quoted" \\ ''});
$one =~ s/'110(\d)' :: text :: varbit/B'1101'/; $six =~ s/'110(\d)' :: text :: varbit/B'0'/;

sub workload_rows
{
	sql("INSERT INTO wide VALUES (DEFAULT, $one); INSERT INTO wide VALUES (DEFAULT, $six); INSERT INTO wide (id) VALUES (DEFAULT);");
	sql(q{
	UPDATE wide SET c_float8 = 'NaN', c_float4 = '-Infinity', c_numeric = 'NaN', c_date = 'infinity', c_ts = '-infinity', c_tstz = '0044-03-15 BC', c_int2 = -32768, c_int4 = -2147483648, c_int8 = -9223372036854775808 WHERE c_int2 = 1;
	UPDATE wide SET c_oid = 4294967295, c_bool = false, c_text = '', c_bytea = '', c_int_array = '{}', c_int4range = 'empty', c_float8 = -0.0, c_float4 = 3.4e38 WHERE c_int2 = 6;
	DELETE FROM wide WHERE c_int2 = 6;
	INSERT INTO narrow SELECT i, i, 'row ' || i FROM generate_series(1, 20) i;
	UPDATE narrow SET v = v + 1 WHERE id <= 5; UPDATE narrow SET id = id + 100 WHERE id > 15; DELETE FROM narrow WHERE id BETWEEN 6 AND 8;
	BEGIN; COMMIT;
	BEGIN; INSERT INTO not_published VALUES (1); COMMIT;
	INSERT INTO unlogged_table VALUES (1);
	CREATE TEMP TABLE temporary (a int); INSERT INTO temporary VALUES (1);
	BEGIN; INSERT INTO narrow VALUES (900); ROLLBACK;
	BEGIN; INSERT INTO narrow VALUES (901); SAVEPOINT s; INSERT INTO narrow VALUES (902); ROLLBACK TO s; INSERT INTO narrow VALUES (903); SAVEPOINT t; UPDATE narrow SET v = 0 WHERE id = 901; RELEASE t; COMMIT;
	INSERT INTO narrow VALUES (904) ON CONFLICT DO NOTHING; INSERT INTO narrow VALUES (904, 1) ON CONFLICT (id) DO UPDATE SET v = 77;
	INSERT INTO ri_full VALUES (1, 'x', repeat('long', 5000)), (1, NULL, NULL); UPDATE ri_full SET b = 'y'; UPDATE ri_full SET a = 2 WHERE big IS NULL; DELETE FROM ri_full WHERE a = 1;
	INSERT INTO ri_index VALUES (1, 'k', 2), (3, 'l', 4); UPDATE ri_index SET a = 9; UPDATE ri_index SET z = 5 WHERE k = 'k'; DELETE FROM ri_index;
	INSERT INTO ri_none VALUES (1, 1), (2, 2);
	INSERT INTO ri_nothing VALUES (1);
	INSERT INTO generated (id, a) VALUES (1, 5); UPDATE generated SET a = 6; UPDATE generated SET id = 2; DELETE FROM generated;
	INSERT INTO dropped VALUES (1, 'kept', 3); UPDATE dropped SET last = 4; DELETE FROM dropped;
	INSERT INTO other."Odd name" VALUES (1, 'x'); UPDATE other."Odd name" SET "select" = NULL;
	INSERT INTO parent VALUES (1, 1); INSERT INTO child VALUES (2, 2, 2); UPDATE parent SET a = 3;
	COPY listed FROM PROGRAM 'printf "1\\t2\\tsecret\\tx\\n2\\t\\\\N\\tsecret\\t\\\\N\\n"'; UPDATE listed SET c = 'y'; UPDATE listed SET secret = 'z'; DELETE FROM listed WHERE id = 2;
	});
	sql(q{
	INSERT INTO toasted SELECT i, 's', (SELECT string_agg(md5((i * 100000 + j)::text), '') FROM generate_series(1, 400) j), decode(repeat(md5(i::text), 300), 'hex') FROM generate_series(1, 3) i;
	UPDATE toasted SET small = 'changed'; UPDATE toasted SET big = 'short' WHERE id = 1; UPDATE toasted SET big_external = big_external || '\x00' WHERE id = 2; UPDATE toasted SET id = 30 WHERE id = 3;
	INSERT INTO toasted VALUES (50, 'c', repeat('compressible', 3000), NULL); UPDATE toasted SET small = NULL WHERE id = 50; DELETE FROM toasted;
	INSERT INTO ri_toast SELECT string_agg(md5(i::text), ''), 1 FROM generate_series(1, 80) i; UPDATE ri_toast SET v = 2; UPDATE ri_toast SET k = k || 'x'; INSERT INTO ri_toast VALUES ('a', 1), ('c', 1);
	UPDATE ri_toast SET k = 'c2' WHERE length(k) > 100; UPDATE ri_toast SET k = 'aa' WHERE k = 'c2'; DELETE FROM ri_toast;
	INSERT INTO filtered VALUES (1, 1, 'a'), (2, 11, 'b'), (3, NULL, 'c'), (4, 20, 'd'); UPDATE filtered SET f = f + 10; UPDATE filtered SET f = 3 WHERE id = 4; UPDATE filtered SET t = 'same'; UPDATE filtered SET f = 50 WHERE id = 3; DELETE FROM filtered;
	INSERT INTO filtered_key SELECT i, repeat(md5(i::text), 200) FROM generate_series(8, 13) i; UPDATE filtered_key SET id = id + 100 WHERE id <= 10; UPDATE filtered_key SET id = id - 120 WHERE id > 100; UPDATE filtered_key SET id = 5 WHERE id = 11; DELETE FROM filtered_key;
	INSERT INTO part VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z'), (103, 'c', 'w'), (6, 'a', repeat('toast me', 2000)), (8, 'b', NULL);
	UPDATE part SET v = v || '!'; UPDATE part SET region = 'b' WHERE id = 1; UPDATE part SET id = id + 200 WHERE region = 'c' AND id > 100; UPDATE part SET id = id + 10 WHERE region = 'b'; DELETE FROM part WHERE region = 'b'; UPDATE part_c2 SET v = 'direct';
	TRUNCATE narrow; TRUNCATE part; TRUNCATE part_a, ri_full RESTART IDENTITY CASCADE; TRUNCATE part_c1, not_published; TRUNCATE parent;
	});
	return;
}

sub workload_ddl
{
	sql(q{
	INSERT INTO shape_changes VALUES (1, 1); ALTER TABLE shape_changes ADD b text DEFAULT 'dflt'; UPDATE shape_changes SET a = 2; INSERT INTO shape_changes VALUES (2, 2);
	BEGIN; INSERT INTO shape_changes VALUES (3, 3); ALTER TABLE shape_changes RENAME a TO aa; INSERT INTO shape_changes VALUES (4, 4); ALTER TABLE shape_changes ALTER aa TYPE bigint; INSERT INTO shape_changes VALUES (5, 5); COMMIT;
	BEGIN; ALTER TABLE shape_changes ADD rolled_back int; INSERT INTO shape_changes VALUES (6); ROLLBACK;
	BEGIN; SAVEPOINT s; ALTER TABLE shape_changes ADD gone int; INSERT INTO shape_changes VALUES (7); ROLLBACK TO s; INSERT INTO shape_changes VALUES (7); COMMIT;
	ALTER TABLE shape_changes ADD serial_column serial; UPDATE shape_changes SET b = 'x'; ALTER TABLE shape_changes DROP b; DELETE FROM shape_changes WHERE id = 1;
	ALTER TABLE shape_changes REPLICA IDENTITY FULL; UPDATE shape_changes SET aa = 0; ALTER TABLE shape_changes REPLICA IDENTITY DEFAULT; UPDATE shape_changes SET aa = 1;
	ALTER TABLE shape_changes RENAME TO shape_changed; INSERT INTO shape_changed VALUES (20, 1); ALTER TABLE shape_changed SET SCHEMA other; INSERT INTO other.shape_changed VALUES (21, 1);
	CREATE TABLE new_table (id int PRIMARY KEY, m mood); INSERT INTO new_table VALUES (1, 'ok'); ALTER TYPE mood ADD VALUE 'ecstatic'; INSERT INTO new_table VALUES (2, 'ecstatic'); ALTER TYPE mood RENAME TO feeling; INSERT INTO new_table VALUES (3, 'sad');
	ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
	} =~ s/ALTER TYPE mood RENAME VALUE/ALTER TYPE feeling RENAME VALUE/r);
	sql(q{
	INSERT INTO new_table VALUES (4, 'blue');
	ALTER TYPE pair ADD ATTRIBUTE z int; INSERT INTO wide (c_pair) VALUES (ROW(1, 'x', 2)); ALTER TYPE pair DROP ATTRIBUTE y; INSERT INTO wide (c_pair, c_pair_array) VALUES (ROW(1, 2), ARRAY[ROW(1, 2)::pair]);
	CREATE TABLE as_select AS SELECT 1 AS a, 'x'::text AS b; INSERT INTO as_select VALUES (2); DROP TABLE as_select;
	VACUUM FULL narrow; CLUSTER narrow USING narrow_pkey; INSERT INTO narrow VALUES (1); ANALYZE narrow; INSERT INTO narrow VALUES (2); CREATE INDEX ON narrow (v); INSERT INTO narrow VALUES (3); GRANT SELECT ON narrow TO PUBLIC; INSERT INTO narrow VALUES (4);
	CREATE TABLE part_d (LIKE part INCLUDING ALL); INSERT INTO part_d VALUES (1, 'd', 'alone'); ALTER TABLE part ATTACH PARTITION part_d FOR VALUES IN ('d'); INSERT INTO part VALUES (2, 'd', 'x');
	ALTER TABLE part ADD extra int DEFAULT 7; UPDATE part SET v = 'with extra'; INSERT INTO part VALUES (5, 'b', 'x', 1), (105, 'c', 'x', 2); ALTER TABLE part RENAME v TO vv; UPDATE part SET vv = 'renamed'; ALTER TABLE part REPLICA IDENTITY FULL; UPDATE part SET extra = 3;
	ALTER PUBLICATION lists_root DROP TABLE part; ALTER TABLE part_b REPLICA IDENTITY FULL; UPDATE part SET extra = 4; ALTER TABLE part DETACH PARTITION part_d; INSERT INTO part_d VALUES (3, 'd', 'alone again'); ALTER TABLE part DROP extra; UPDATE part SET vv = 'fewer';
	INSERT INTO narrow VALUES (10); ALTER PUBLICATION changing ADD TABLE not_published; INSERT INTO not_published VALUES (2); INSERT INTO narrow VALUES (11);
	ALTER PUBLICATION changing SET (publish = 'update'); INSERT INTO narrow VALUES (12); UPDATE narrow SET v = 1 WHERE id = 12; ALTER PUBLICATION changing SET TABLE narrow WHERE (id > 100), listed (id, a); INSERT INTO narrow VALUES (13), (113); UPDATE narrow SET v = 5; UPDATE listed SET a = 1;
	ALTER PUBLICATION changing DROP TABLE narrow, listed; UPDATE narrow SET v = 6; ALTER PUBLICATION changing ADD TABLES IN SCHEMA other; INSERT INTO other."Odd name" VALUES (7);
	ALTER SCHEMA other RENAME TO renamed; INSERT INTO renamed."Odd name" VALUES (8); ALTER SCHEMA renamed RENAME TO other;
	ALTER DOMAIN positive ADD CHECK (VALUE < 1000); INSERT INTO wide (c_positive) VALUES (5);
	});
	return;
}

sub workload_large
{
	sql(q{
	BEGIN; INSERT INTO narrow SELECT i, i, repeat('large', 10) FROM generate_series(10000, 11500) i; UPDATE narrow SET v = 3 WHERE id BETWEEN 10000 AND 10500; SAVEPOINT s; INSERT INTO narrow SELECT i, i, 'sub' FROM generate_series(20000, 21000) i; ROLLBACK TO s;
	SAVEPOINT t; INSERT INTO narrow SELECT i, i, 'sub kept' FROM generate_series(30000, 31000) i; RELEASE t; SELECT pg_logical_emit_message(true, 'in stream', 'transactional'); INSERT INTO part SELECT i, 'c', 'p' FROM generate_series(310, 900) i; TRUNCATE ri_full; COMMIT;
	BEGIN; INSERT INTO narrow SELECT i FROM generate_series(40000, 41000) i; ALTER TABLE narrow ADD during_stream text; INSERT INTO narrow SELECT i, 1, 't', repeat('x', 50) FROM generate_series(50000, 51000) i; INSERT INTO filtered SELECT i, i, 'f' FROM generate_series(1, 1000) i; COMMIT;
	BEGIN; INSERT INTO narrow SELECT i FROM generate_series(60000, 61500) i; ROLLBACK;
	BEGIN; INSERT INTO narrow SELECT i FROM generate_series(70000, 70500) i; INSERT INTO toasted SELECT i, 's', (SELECT string_agg(md5((i * 100000 + j)::text), '') FROM generate_series(1, 100) j), NULL FROM generate_series(1000, 1050) i; UPDATE toasted SET small = 'u'; COMMIT;
	});
	# a streamed transaction in between others: its schema is sent with it, and again to them
	my $session = $node->background_psql($db) if $node->can('background_psql') && $node->can('background_psql') && $has_16;
	if ($session)
	{
		$session->query_safe('BEGIN; INSERT INTO narrow SELECT i FROM generate_series(80000, 81500) i');
		sql('INSERT INTO narrow VALUES (90000)');
		$session->query_safe('INSERT INTO narrow SELECT i FROM generate_series(83001, 83500) i; ROLLBACK');
		$session->query_safe('BEGIN; INSERT INTO narrow SELECT i FROM generate_series(86000, 87500) i');
		sql('INSERT INTO narrow VALUES (90001)');
		$session->query_safe('COMMIT');
		$session->quit;
	}
	return;
}

sub workload_prepared
{
	sql(q{
	BEGIN; INSERT INTO narrow VALUES (200, 1); PREPARE TRANSACTION 'kept'; INSERT INTO narrow VALUES (201, 1); COMMIT PREPARED 'kept';
	BEGIN; INSERT INTO narrow VALUES (202, 1); PREPARE TRANSACTION 'dropped'; ROLLBACK PREPARED 'dropped';
	BEGIN; INSERT INTO unlogged_table VALUES (2); PREPARE TRANSACTION 'nothing to send'; COMMIT PREPARED 'nothing to send';
	BEGIN; INSERT INTO narrow SELECT i FROM generate_series(100000, 101500) i; PREPARE TRANSACTION 'large'; COMMIT PREPARED 'large';
	BEGIN; INSERT INTO narrow SELECT i FROM generate_series(110000, 111500) i; PREPARE TRANSACTION 'large dropped'; ROLLBACK PREPARED 'large dropped';
	BEGIN; CREATE TABLE in_prepared (id int PRIMARY KEY, m feeling); INSERT INTO in_prepared VALUES (1, 'ok'); PREPARE TRANSACTION 'with ddl'; COMMIT PREPARED 'with ddl'; INSERT INTO in_prepared VALUES (2);
	});
	return;
}

sub workload_other
{
	sql(q{
	SELECT pg_logical_emit_message(true, 'prefix', 'transactional'); SELECT pg_logical_emit_message(false, 'prefix', 'not transactional'); SELECT pg_logical_emit_message(true, 'schemasync.state', 'passed on without the option');
	BEGIN; SELECT pg_logical_emit_message(true, '', ''); INSERT INTO narrow VALUES (300); SELECT pg_logical_emit_message(false, 'in between', repeat('m', 100000)); ROLLBACK;
	SELECT pg_logical_emit_message(true, 'binary', '\x00ff00'::bytea);
	SELECT pg_replication_origin_create('upstream'); SELECT pg_replication_origin_create('dropped origin');
	SELECT pg_replication_origin_session_setup('upstream');
	BEGIN; SELECT pg_replication_origin_xact_setup('1/234', '2020-01-01 00:00+00'); INSERT INTO narrow VALUES (301); COMMIT;
	INSERT INTO narrow VALUES (302); INSERT INTO unlogged_table VALUES (3);
	BEGIN; INSERT INTO narrow SELECT i FROM generate_series(120000, 121500) i; COMMIT;
	BEGIN; INSERT INTO narrow VALUES (303); PREPARE TRANSACTION 'origin'; COMMIT PREPARED 'origin';
	SELECT pg_replication_origin_session_reset(); SELECT pg_replication_origin_session_setup('dropped origin'); INSERT INTO narrow VALUES (304); SELECT pg_replication_origin_session_reset(); SELECT pg_replication_origin_drop('dropped origin');
	});
	sql(q{
	INSERT INTO generated (id, a) VALUES (10, 5); UPDATE generated SET a = 6; DELETE FROM generated;
	INSERT INTO virtual_generated (id, a, z) VALUES (1, 4, 1), (2, 5, 2); UPDATE virtual_generated SET a = a + 1; UPDATE virtual_generated SET a = a - 3; DELETE FROM virtual_generated;
	ALTER PUBLICATION gen_none SET (publish_generated_columns = stored); INSERT INTO virtual_generated (id, a) VALUES (3, 4);
	}) if $has_18;
	return;
}

workload_rows();
workload_ddl();
workload_large();
workload_prepared();
workload_other();
sql(q{ALTER PUBLICATION to_rename RENAME TO renamed_publication; INSERT INTO narrow VALUES (400); DROP PUBLICATION to_drop; INSERT INTO narrow VALUES (401)});

# a type without a send function ends what is decoded as binary, so it comes last
my $end = sql('SELECT pg_current_wal_lsn()');
sql(q{INSERT INTO narrow VALUES (500); INSERT INTO without_send VALUES (1, '{=r/postgres}'); INSERT INTO narrow VALUES (501)});

# --- comparison --------------------------------------------------------------------------------------------------------

# What the plugins make of the workload with the given options: for each a line "count|digest|kinds of messages" and the
# errors, with the names of slot and plugin taken out. One psql for all, for speed.
sub decode
{
	my ($slot, $options, $client_encoding, @plugins) = @_;
	my $list = join(', ', map { my $o = $_; $o =~ s/'/''/g; "'$o'" } @$options);
	my $script = "SET client_encoding = '$client_encoding';\n";
	foreach my $plugin (@plugins)
	{
		$script .= qq{\\warn next plugin
			\\echo next plugin
			SELECT count(*), md5(string_agg(format('%s %s %s', lsn, xid, encode(data, 'hex')), E'\\n')), string_agg(DISTINCT chr(get_byte(data, 0)), '')
			FROM pg_logical_slot_peek_binary_changes('${plugin}_$slot', '$end', NULL, $list);\n};
	}
	my ($out, $err);
	$node->psql($db, $script, stdout => \$out, stderr => \$err, on_error_stop => 0);
	$err =~ s/(slot|output plugin) "(pgoutput|schemasync_decoder)/$1 "PLUGIN/g;
	$err =~ s/^psql:<stdin>:\d+: //mg;
	my @out = split /^next plugin\n?/m, $out;
	my @err = split /^(?:psql:<stdin>:\d+: )?next plugin\n?/m, $err;
	s/\s+\z// foreach @out, @err;
	return map { { out => $out[$_] // '', err => $err[$_] // '' } } 1 .. @plugins;
}

# The messages themselves, one a line, readable.
sub messages_of
{
	my ($plugin, $slot, $options) = @_;
	my $list = join(', ', map { my $o = $_; $o =~ s/'/''/g; "'$o'" } @$options);
	my ($status, $out) = $node->psql($db, qq{SELECT format('%s %s %s', lsn, xid, left(encode(data, 'escape'), 300))
		FROM pg_logical_slot_peek_binary_changes('${plugin}_$slot', '$end', NULL, $list)});
	return split /\n/, $out;
}

my $messages = 0;
my %letters;
sub same_output
{
	my ($slot, $options, $client_encoding) = @_;
	$client_encoding //= 'UTF8';
	my $what = "$slot: @$options" . ($client_encoding eq 'UTF8' ? '' : " ($client_encoding)");
	my ($expected, $got) = decode($slot, $options, $client_encoding, 'pgoutput', 'schemasync_decoder');
	my $equal = $expected->{out} eq $got->{out} && $expected->{err} eq $got->{err};
	ok($equal, $what);
	my ($count, undef, $kinds) = split /\|/, $got->{out};
	$messages += $count || 0;
	$letters{$_}++ foreach split //, ($kinds // '') =~ s/\s//gr;
	return if $equal;
	diag("errors: pgoutput: $expected->{err}\nours: $got->{err}") if $expected->{err} ne $got->{err};
	diag("pgoutput: $expected->{out}\nours:     $got->{out}");
	my @expected = messages_of('pgoutput', $slot, $options);
	my @got = messages_of('schemasync_decoder', $slot, $options);
	my $shown = 0;
	foreach my $i (0 .. (@expected > @got ? $#expected : $#got))
	{
		next if ($expected[$i] // '') eq ($got[$i] // '');
		diag("message $i\npgoutput: " . ($expected[$i] // '(none)') . "\nours:     " . ($got[$i] // '(none)'));
		last if ++$shown >= 3;
	}
	return;
}

my @publications = (
	qw(all_tables all_root one in_schema parts parts_root middle_root leaf filters filters_root filters_more lists lists_root
	  lists_other list_of_all inserts deletes changing empty renamed_publication to_drop to_rename missing),
	'parts,parts_root', 'middle_root,parts', 'middle_root,parts_root', 'leaf,parts_root', 'filters,filters_more', 'filters,no_filter', 'filters,all_tables', 'filters,filters_root',
	'lists,lists_other', 'lists,list_of_all', 'lists,all_tables', 'list_of_all,one', 'one,in_schema,parts', 'inserts,deletes', 'inserts,filters,deletes', 'all_tables,all_root', '"all_tables", one', '');
push @publications, qw(gen_stored gen_listed gen_none gen_filter), 'gen_stored,gen_none', 'gen_stored,gen_listed', 'gen_none,all_tables' if $has_18;

foreach my $publications (@publications)
{
	same_output('plain', [ 'proto_version', '1', 'publication_names', $publications ]);
}

my @all = ('publication_names', 'all_tables');
my @root = ('publication_names', 'all_root');
foreach my $names ([@all], [@root], ['publication_names', 'filters,in_schema'], ['publication_names', 'filters_root'])
{
	same_output('plain', [ 'proto_version', '1', @$names, 'binary', 'true' ]);
	same_output('plain', [ 'proto_version', '1', @$names, 'messages', 'true' ]);
	same_output('plain', [ 'proto_version', '2', @$names, 'streaming', 'on', 'messages', '1' ]);
	same_output('plain', [ 'proto_version', '2', @$names, 'streaming', 'true', 'binary', 'on' ]);
	same_output('plain', [ 'proto_version', '3', @$names ]);
	same_output('2pc', [ 'proto_version', '3', @$names, 'two_phase', 'on', 'messages', 'on' ]);
	same_output('2pc', [ 'proto_version', '3', @$names, 'two_phase', 'on', 'streaming', 'on', 'binary', 'on' ]);
	if ($has_16)
	{
		same_output('plain', [ 'proto_version', '4', @$names, 'streaming', 'parallel' ]);
		same_output('2pc', [ 'proto_version', '4', @$names, 'streaming', 'parallel', 'two_phase', 'on', 'origin', 'any', 'messages', 'true' ]);
		same_output('plain', [ 'proto_version', '4', @$names, 'streaming', 'on', 'origin', 'none' ]);
	}
}
same_output('plain', [ 'proto_version', '1', @all ], 'LATIN1');
same_output('plain', [ 'proto_version', '1', @all, 'binary', 'true' ], 'LATIN1');
same_output('plain', [ 'proto_version', '1', @all ], 'SQL_ASCII');

# options that are wrong, and combinations that are
foreach my $options (
	['proto_version', '1'], [@all], [ 'proto_version', '0', @all ], [ 'proto_version', '99', @all ], [ 'proto_version', 'x', @all ], [ 'proto_version', '1x', @all ],
	[ 'proto_version', '99999999999', @all ], [ 'proto_version', '-1', @all ], [ 'proto_version', '1', 'proto_version', '1', @all ], [ 'proto_version', '1', @all, @all ], [ 'proto_version', '1', 'publication_names', 'a,,b' ], [ 'proto_version', '1', 'publication_names', '"unclosed' ],
	[ 'proto_version', '1', 'publication_names', '' ], [ 'proto_version', '1', @all, 'binary', 'maybe' ], [ 'proto_version', '1', @all, 'binary', 'on', 'binary', 'off' ], [ 'proto_version', '1', @all, 'messages', 'x' ], [ 'proto_version', '1', @all, 'messages', '1', 'messages', '1' ],
	[ 'proto_version', '1', @all, 'streaming', 'on' ], [ 'proto_version', '1', @all, 'streaming', 'off' ], [ 'proto_version', '2', @all, 'streaming', 'perhaps' ], [ 'proto_version', '2', @all, 'streaming', 'parallel' ], [ 'proto_version', '3', @all, 'streaming', 'parallel' ], [ 'proto_version', '2', @all, 'streaming', '1', 'streaming', '1' ],
	[ 'proto_version', '4', @all, 'streaming', 'PARALLEL' ], [ 'proto_version', '4', @all ],
	[ 'proto_version', '1', @all, 'two_phase', 'on' ], [ 'proto_version', '2', @all, 'two_phase', 'on' ], [ 'proto_version', '3', @all, 'two_phase', 'on' ], [ 'proto_version', '3', @all, 'two_phase', '1', 'two_phase', '1' ], [ 'proto_version', '3', @all, 'two_phase', 'both' ],
	[ 'proto_version', '1', @all, 'origin', 'none' ], [ 'proto_version', '1', @all, 'origin', 'NONE' ], [ 'proto_version', '1', @all, 'origin', 'me' ], [ 'proto_version', '1', @all, 'origin', 'any', 'origin', 'any' ],
	[ 'proto_version', '1', @all, 'unknown', 'x' ], [ 'proto_version', '1', @all, 'Binary', 'on' ])
{
	same_output($_, $options) foreach qw(plain 2pc);
}

# what pgoutput does not have
sub refused
{
	my ($options, $error) = @_;
	my ($got) = decode('plain', $options, 'UTF8', 'schemasync_decoder');
	like($got->{err}, $error, "refused: @$options");
	return;
}
my @base = ('proto_version', '1', @all);
refused([ @base, 'schemasync', '1', 'schemasync', '1' ], qr/conflicting or redundant options/);
refused([ @base, 'schemasync', 'maybe' ], qr/schemasync requires a Boolean value/);
refused([ @base, 'rewrites', 'carry' ], qr/option "rewrites" needs option "schemasync"/);
refused([ @base, 'schemasync', '1', 'rewrites', 'some' ], qr/unrecognized rewrites value: "some"/);
refused([ 'proto_version', '', @all ], qr/invalid proto_version/);

# --- with the option schemasync the stream is pgoutput's with messages added ------------------------------------------

# The output without logical messages of the prefix schemasync and without transactions that have nothing else: count and
# digest; the last column counts the messages. A transaction that was rolled back after it was streamed or prepared is left
# out, too: whether that is noticed in the midst of it depends on when the catalog is read.
sub without_own
{
	my ($plugin, $slot, @options) = @_;
	my $list = join(', ', map { "'$_'" } @options);
	# with it names of objects are never oids
	my $named = (grep { $_ eq 'binary' } @options) ? q{chr(get_byte(data, 0)) IN ('I', 'U', 'D') AND substr(data, 2, 4) = int4send('wide'::regclass::int)} : 'false';
	return $node->safe_psql($db, qq{
		WITH m AS (SELECT row_number() OVER () AS n, lsn, xid, data,
				get_byte(data, 0) = ascii('M') AND position('schemasync'::bytea IN data) IN (11, 15) OR $named AS own
			FROM pg_logical_slot_peek_binary_changes('${plugin}_$slot', '$end', NULL, $list)),
		t AS (SELECT xid, bool_and(own OR chr(get_byte(data, 0)) IN ('B', 'C', 'O'))
				OR bool_or(chr(get_byte(data, 0)) IN ('A', 'r')) AS only_own FROM m GROUP BY xid)
		SELECT count(*) FILTER (WHERE NOT own AND NOT only_own),
			md5(string_agg(format('%s %s %s', lsn, xid, encode(data, 'hex')), E'\\n' ORDER BY n) FILTER (WHERE NOT own AND NOT only_own)),
			count(*) FILTER (WHERE own)
		FROM m JOIN t USING (xid)});
}
foreach my $case ([ 'plain', 'proto_version', '1', @all ], [ 'plain', 'proto_version', '1', @root, 'binary', 'on', 'messages', 'on' ],
	[ 'plain', 'proto_version', '2', @all, 'streaming', 'on' ], [ '2pc', 'proto_version', '3', @all, 'two_phase', 'on' ],
	[ 'plain', 'proto_version', '1', 'publication_names', 'filters' ])
{
	my ($expected) = without_own('pgoutput', @$case) =~ /^(.*)\|/;
	my ($got, $added) = without_own('schemasync_decoder', @$case, 'schemasync', '1') =~ /^(.*)\|(\d+)$/;
	is($got, $expected, "@$case: pgoutput's stream is in ours");
	cmp_ok($added, '>', 0, "@$case: $added messages are added");
}

# --- the same on the wire of a walsender, where messages leave in batches -------------------------------------------

my %in_walsender;
sub receive
{
	my ($plugin, $slot, @options) = @_;
	my $file = $node->basedir . "/$plugin.received";
	unlink $file;
	my $copy = "${plugin}_copy";
	sql("SELECT pg_copy_logical_replication_slot('${plugin}_$slot', '$copy')");
	$node->command_ok([ 'pg_recvlogical', '--dbname', $node->connstr($db), '--slot', $copy, '--start', '--no-loop', '--endpos', $end,
		'--file', $file, map { ('--option', $_) } @options ], "$plugin is received: @options");
	$node->poll_query_until('postgres', "SELECT NOT active FROM pg_replication_slots WHERE slot_name = '$copy'") or die "slot stays active";
	sql("SELECT pg_drop_replication_slot('$copy')");
	return slurp_file($file);
}
# SQL in a walsender's connection goes through the function's output, not the connection's
foreach my $plugin (qw(pgoutput schemasync_decoder))
{
	my ($status, $out, $err) = $node->psql($db, "SELECT count(*), md5(string_agg(encode(data, 'hex'), '')) FROM pg_logical_slot_peek_binary_changes('${plugin}_plain', NULL, NULL, 'proto_version', '1', 'publication_names', 'all_tables')",
		replication => 'database');
	$in_walsender{$plugin} = $out;
}
is($in_walsender{schemasync_decoder}, $in_walsender{pgoutput}, 'SQL function in a walsender');

# an error ends a session, and the next one in the same backend is not harmed
my $failing = "pg_logical_slot_peek_binary_changes('schemasync_decoder_plain', NULL, NULL, 'proto_version', '1', 'publication_names', 'all_tables', 'binary', 'on')";
my $good = $failing =~ s/'on'/'off'/r;
# (a server with assertions says that the slot's function must not be called again after an error that was caught: it still has the slot)
is( $node->safe_psql($db, qq{
		DO \$\$ BEGIN PERFORM count(*) FROM $failing; RAISE 'no error'; EXCEPTION WHEN undefined_function THEN PERFORM count(*) FROM $good; END \$\$;
		SELECT count(*), md5(string_agg(encode(data, 'hex'), '')) FROM $good}),
	$in_walsender{pgoutput}, 'a session after a failed one') if $node->safe_psql($db, 'SHOW debug_assertions') eq 'off';

foreach my $options ([ 'proto_version=1', 'publication_names=all_tables' ], [ 'proto_version=1', 'publication_names=all_root', 'binary=true' ],
	[ 'proto_version=2', 'publication_names=all_tables', 'streaming=on', 'messages=true' ])
{
	my $expected = receive('pgoutput', 'plain', @$options);
	my $got = receive('schemasync_decoder', 'plain', @$options);
	ok($expected eq $got, 'a walsender sends the same ' . length($expected) . ' bytes');
}

note("$messages messages compared");
is(join('', grep { !$letters{$_} } split //, 'BCOIUDTRYMbPKrSEcAp'), '', 'every kind of message was among them');

$node->stop;
done_testing();
