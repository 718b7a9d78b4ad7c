# Local columns that have one value in all rows of a subscription, in the primary key or not, by which a table is partitioned or not: random changes of keys,
# other columns and large values that are not sent, with spills and a crash. The upstream's rows with the constants beside them are what there must be.
#
#   CONSTANTS_SEED		of the changes
#   CONSTANTS_STEPS		(60) how many
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no constants' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $seed = seed_random('CONSTANTS_SEED');
my $steps = $ENV{CONSTANTS_STEPS} // 60;
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '300ms'", "rose.memtable_size = '8MB'", 'rose.max_subscriptions = 4', 'autovacuum = off');
my $conninfo = $upstream->connstr('postgres');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }
sub some { return int rand $_[0] }
sub synced { return down("SELECT rose.wait_for_sync('$_[0]', $timeout)") }

sub fails
{
	my ($sql, $pattern, $name) = @_;
	my (undef, undef, $err) = $replica->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	return like($err, $pattern, $name);
}

sub create
{
	my ($name, $constants, $more) = @_;

	return "SELECT rose.create_subscription('$name', \$\$$conninfo\$\$, ARRAY['$name'], constants => '$constants'" . ($more // '') . ')';
}

sub table_error
{
	my ($table, $pattern, $name) = @_;

	$replica->poll_query_until('postgres', "SELECT last_error <> '' FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass") or die "no error of $table";
	return like(down("SELECT last_error FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), $pattern, $name);
}

# Names there, here, and columns of the upstream.
my @tables = ([ 't', 'here.t', 'id, a, doc' ], [ 'u', 'here.u', 'x, y, a, doc' ], [ 'p', 'here.p', 'id, a, doc' ], [ 'f', 'here.f', 'id, a, doc' ], [ 'k', 'here.k', 'id, a, doc' ], [ 'n', 'here.n', 'id, a, doc' ]);

sub rows { return "SELECT md5(string_agg(h, '' ORDER BY h)) || ' ' || count(*) FROM (SELECT md5(ROW($_[0])::text) h FROM $_[1]) q" }

sub agree
{
	my ($name) = @_;

	wait_for_apply($upstream, $replica);
	foreach my $table (@tables)
	{
		is(down(rows("shard, origin, $table->[2]", $table->[1])), up(rows("3::int8, 'it''s \"x\"'::text, $table->[2]", $table->[0])), "$name: $table->[0]") or diag("CONSTANTS_SEED=$seed");
	}
	is(down("SELECT string_agg(relid || ' ' || msg, '; ') FROM (SELECT DISTINCT relid FROM pg_class c, pg_partition_tree(c.oid) t WHERE relnamespace = 'here'::regnamespace AND c.relkind IN ('r', 'p') AND t.isleaf) q, rose.check(relid)"), '', "$name: rose.check");
	is(down("SELECT * FROM rose.verify('s')"), '', "$name: verified");
	is(down('SET enable_seqscan = off; SELECT count(*) FROM here.t WHERE shard = 3 AND a BETWEEN 2 AND 5'), up('SELECT count(*) FROM t WHERE a BETWEEN 2 AND 5'), "$name: by an index");
	return;
}

# --- tables: t has the constant before its key, u behind it, p is partitioned by it, and again by another column, f has FULL there and none here of it in the key,
# k has it in between, n no key
up('CREATE TABLE t (id int PRIMARY KEY, a int, doc text); CREATE TABLE u (x text, y int, a int, doc text, PRIMARY KEY (x, y)); CREATE TABLE p (id int PRIMARY KEY, a int, doc text);'
	. 'CREATE TABLE f (id int PRIMARY KEY, a int, doc text); CREATE TABLE k (id int, a int, doc text, PRIMARY KEY (id)); CREATE TABLE n (id int, a int, doc text);'
	. 'ALTER TABLE f REPLICA IDENTITY FULL; CREATE PUBLICATION s FOR TABLE t, u, p, f, k; CREATE PUBLICATION i FOR TABLE n WITH (publish = \'insert, truncate\')');
up("ALTER TABLE $_ ALTER doc SET STORAGE EXTERNAL") foreach qw(t u p k);
up("INSERT INTO $_ SELECT g, g % 9, repeat('v', CASE WHEN g % 3 = 0 THEN 3000 ELSE 10 END) FROM generate_series(1, 100) g") foreach qw(t p f k n);
up("INSERT INTO u SELECT 'x' || g % 5, g, g % 9, 'v' FROM generate_series(1, 100) g");
my $more = "origin text DEFAULT 'nowhere'";
down("SET default_table_access_method = rose; CREATE SCHEMA here; CREATE DOMAIN here.shard AS bigint NOT NULL CHECK (VALUE > 0);"
	. "CREATE TABLE here.t (shard here.shard, $more, id int, a int, doc text, PRIMARY KEY (shard, id)); CREATE TABLE here.u (x text, y int, a int, doc text, $more, shard bigint, PRIMARY KEY (x, y, shard, origin));"
	. "CREATE TABLE here.p (doc text, shard bigint, $more, id int, a int, PRIMARY KEY (shard, id)) PARTITION BY LIST (shard);"
	. "CREATE TABLE here.p3 (id int NOT NULL, gone int, a int, shard bigint NOT NULL, doc text, origin text) PARTITION BY RANGE (id); ALTER TABLE here.p3 DROP gone; ALTER TABLE here.p ATTACH PARTITION here.p3 FOR VALUES IN (3);"
	. "CREATE TABLE here.p3_1 PARTITION OF here.p3 FOR VALUES FROM (MINVALUE) TO (50); CREATE TABLE here.p3_2 PARTITION OF here.p3 DEFAULT; CREATE TABLE here.p4 PARTITION OF here.p FOR VALUES IN (4);"
	. "CREATE TABLE here.f (id int PRIMARY KEY, shard bigint CHECK (shard + a > 0), a int, doc text, $more, twice bigint GENERATED ALWAYS AS (shard * 2) STORED);"
	. "CREATE TABLE here.k (origin varchar(20), id int, shard bigint, a int, doc text, PRIMARY KEY (origin, id, shard)); CREATE TABLE here.n (id int, a int, shard bigint, doc text, $more);"
	. 'CREATE INDEX ON here.t (shard, a); CREATE INDEX ON here.k (a, shard)');

# --- what are no constants
foreach my $wrong ([ '[1]', qr/22023: constants must be a JSON object/ ], [ '{"shard": null}', qr/22023: the value of "shard" in constants must not be null/ ], [ '{"shard": [1]}', qr/22023: the value of "shard" in constants must be no object or array/ ])
{
	fails(create('s', $wrong->[0]), $wrong->[1], "refused: $wrong->[0]");
}
my $map = q(, tables => '{"public.*": "here.*"}');
my $constants = q({"shard": 3, "origin": "it''s \"x\""});
foreach my $wrong ([ '{"shrd": 3}', qr/table "\w+" has no column "shrd", which is to have a constant/ ], [ '{"id": 3, "shard": 3}', qr/column "id" is published by the upstream, and the subscription has a constant for it/ ],
	[ '{"shard": "three"}', qr/invalid input syntax for type bigint: "three"/ ], [ '{"twice": 3, "shard": 3}', qr/column "twice" of table "f" cannot have a constant/ ], [ '{"shard": -3}', qr/value for domain here.shard violates check constraint/ ])
{
	my $table = $wrong->[0] =~ /twice/ ? 'here.f' : $wrong->[0] =~ /-3|id/ ? 'here.t' : 'here.u';

	down(create('s', $wrong->[0], $map));
	table_error($table, $wrong->[1], "$wrong->[0] is an error of the table");
	down("SELECT rose.drop_subscription('s')");
	down('TRUNCATE ' . join(', ', map { $_->[1] } @tables));
}
down(create('s', $constants, $map));
down(create('i', $constants, $map));
synced($_) foreach 's', 'i';
agree('copied');
is(down("SELECT constants->>'shard' FROM rose.stat_subscription WHERE subname = 's'"), '3', 'shown');
is(down("SELECT count(*) FROM here.f WHERE twice = 6"), up('SELECT count(*) FROM f'), 'what is generated of a constant');
fails("INSERT INTO here.t VALUES (4, 'x', 1, 1, 'x')", qr/ERROR/, 'nobody else writes');

# --- changes
sub change
{
	my $table = pick(qw(t t u u p p f k n));
	my $where = pick('a = ' . some(9), 'a % 4 = ' . some(4), 'true');
	my $dice = rand();
	my $key = $table eq 'u' ? 'y' : 'id';
	my $from = some(400);

	if ($dice < 0.35 || $table eq 'n')
	{
		my $values = $table eq 'u' ? "'x' || g % 5, g" : 'g';
		my $size = pick(1, 20, 3000);

		return "INSERT INTO $table SELECT $values, g % 9, repeat('d', $size) FROM generate_series($from, $from + " . some(60) . ') g' . ($table eq 'n' ? '' : ' ON CONFLICT DO NOTHING');
	}
	return "TRUNCATE $table" if $dice < 0.37;
	return "UPDATE $table SET a = a + 1 WHERE $where" if $dice < 0.6;
	return "UPDATE $table SET $key = $key + 1000 WHERE $key < 1000 AND $where AND NOT EXISTS (SELECT FROM $table o WHERE o.$key = $table.$key + 1000)" if $dice < 0.7;
	return "UPDATE $table SET doc = repeat('u', " . pick(3, 2500) . ") WHERE $where" if $dice < 0.8;
	return "DELETE FROM $table WHERE " . ($where eq 'true' ? 'a = 3' : $where);
}

foreach my $step (1 .. $steps)
{
	my @sql = map { change() } 0 .. some(3);

	up('BEGIN; ' . join('; ', @sql) . '; ' . pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK'));
	down("SELECT rose.spill('here." . pick(qw(t u f k)) . "')") if rand() < 0.05;
	agree("step $step") if $step % 20 == 0;
	next if $step != int($steps / 2);
	crash_and_restart($replica);
	synced('s');
}
agree('changed');

# --- copied again, after changes of the tables here
down('ALTER TABLE here.t ALTER origin TYPE varchar(40); ALTER TABLE here.u ADD late int DEFAULT 5');
up("INSERT INTO t SELECT g, 1, 'late' FROM generate_series(5000, 5050) g; INSERT INTO u SELECT 'late', g, 1, 'late' FROM generate_series(5000, 5050) g; UPDATE u SET a = a + 1 WHERE y % 2 = 0; DELETE FROM u WHERE y % 7 = 0");
agree('tables altered');
foreach my $table ('here.t', 'here.p', 'here.f')
{
	down("SELECT rose.alter_subscription('s', resync => '$table')");
	synced('s');
}
up('UPDATE p SET a = a + 1 WHERE id % 3 = 0; DELETE FROM t WHERE id % 5 = 0');
agree('copied again');

# --- a dump has them
my $text = $replica->safe_psql('postgres', "SELECT option_value FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 's' AND option_name = 'constants'");
like($text, qr/"shard": 3/, 'an option of its server');
my $dump = $replica->basedir . '/dump.sql';
$replica->command_ok([ 'pg_dump', '-s', '-f', $dump, $replica->connstr('postgres') ], 'pg_dump');
$replica->safe_psql('postgres', 'CREATE DATABASE restored');
$replica->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $replica->connstr('restored'), '-f', $dump ], 'restored');
is($replica->safe_psql('restored', "SELECT constants, tables FROM rose.stat_subscription WHERE subname = 's'"), down("SELECT constants, tables FROM rose.stat_subscription WHERE subname = 's'"), 'a dump has them');

# --- rows with other values are nobody's to remove
down("SELECT rose.drop_subscription('$_')") foreach 's', 'i';
down("INSERT INTO here.p VALUES ('other', 4, 'b', 1, 1)");
down(create('s', $constants, "$map, copy_data => false"));
up('DELETE FROM p WHERE id = 2; INSERT INTO p VALUES (77777, 1, NULL)');
wait_for_apply($upstream, $replica);
is(down('SELECT string_agg(doc, \',\') FROM here.p WHERE shard = 4'), 'other', 'rows of others stay');
is(down('SELECT count(*) FROM here.p WHERE id = 77777 AND shard = 3'), 1, 'beside those that come');
is(down("SELECT * FROM rose.verify('s', ARRAY['here.p'::regclass])"), '', 'and are not compared');
fails("SELECT rose.alter_subscription('s', resync => 'here.p')", qr/55000: cannot empty table "p4", which has rows with other values than the subscription's constants/, 'no new copy over them');
fails("SELECT rose.alter_subscription('s', accept => 'resync')", qr/55000: cannot empty table "p4"/, 'nor of all tables');
up('TRUNCATE p');
table_error('here.p', qr/cannot empty table "p4", which has rows with other values/, 'nor TRUNCATE');
is(down('SELECT count(*) FROM here.p WHERE shard = 4'), 1, 'they are there');

# --- one table is one subscription's, with other constants, too
up('CREATE PUBLICATION other FOR TABLE p');
fails(create('other', '{"shard": 4}', $map), qr/55006: table "p" belongs to another rose subscription, "s"/, 'two subscriptions into one table');

# --- what a constant is does not depend on who reads it
$replica->append_conf('postgresql.conf', "timezone = 'Asia/Tokyo'\ndatestyle = 'German, DMY'");
$replica->restart;
up('CREATE TABLE zone (id int PRIMARY KEY, a int); INSERT INTO zone SELECT g, g FROM generate_series(1, 5) g; CREATE PUBLICATION zone FOR TABLE zone');
down("CREATE TABLE zone (since timestamptz, id int, a int, PRIMARY KEY (since, id)) USING rose");
down(create('zone', '{"since": "02/03/2026 04:00"}'));
down("SELECT rose.wait_for_sync('zone', $timeout)");
is(down("SET timezone = 'UTC'; SET datestyle = 'ISO, MDY'; SELECT DISTINCT since FROM zone"), '2026-02-03 04:00:00+00', 'a time in UTC');
is(down("SELECT * FROM rose.verify('zone')"), '', 'rose.verify knows it');
$replica->append_conf('postgresql.conf', "timezone = 'America/New_York'");
$replica->restart;
up('UPDATE zone SET a = a + 1; DELETE FROM zone WHERE id = 5');
wait_for_apply($upstream, $replica, 'postgres', 'zone');
is(down('SELECT count(*), sum(a) FROM zone'), '4|14', 'so does the stream, in another zone');
down("SET timezone = 'Asia/Kolkata'; SELECT rose.alter_subscription('zone', resync => 'zone'); SELECT rose.wait_for_sync('zone', $timeout)");
is(down('SELECT count(*), sum(a) FROM zone'), '4|14', 'and a resync');

# --- a TRUNCATE looks at all rows first, whose they are; the upstream hears from the worker meanwhile
# (The other subscription, which tries a TRUNCATE again and again, would come to the same stop points.)
down("SELECT rose.alter_subscription('s', enabled => false)");
$replica->poll_query_until('postgres', "SELECT pid IS NULL FROM rose.stat_subscription WHERE subname = 's'") or die 'it ends';
stop_points_create($replica);
up('CREATE TABLE many (id int PRIMARY KEY); INSERT INTO many SELECT generate_series(1, 2000); CREATE PUBLICATION many FOR TABLE many');
down('CREATE TABLE many (shard int, id int, PRIMARY KEY (shard, id)) USING rose');
down(create('many', '{"shard": 1}'));
synced('many');
my @stops = map { RoseTest::Session->new($replica) } 1 .. 2;
$stops[0]->run("SELECT stop_at('constants-scan', 'wait', 'worker')");
$stops[1]->run("SELECT stop_at('constants-breathed', 'wait', 'worker')");
up('TRUNCATE many');
wait_for_stop($replica);
my $replied = "coalesce(max(reply_time), '-infinity')";
my $of_stream = "FROM pg_stat_replication WHERE application_name = 'many'";
$upstream->poll_query_until('postgres', "SELECT clock_timestamp() - interval '1.5s' > $replied $of_stream") or die 'it goes on';
my $before = up("SELECT $replied $of_stream");
$stops[0]->run("SELECT go_on('constants-scan')");
ok($upstream->poll_query_until('postgres', "SELECT $replied > '$before' $of_stream"), 'the upstream hears from a worker that looks at all rows');
wait_for_stop($replica);
$stops[1]->run("SELECT go_on('constants-breathed')");
$_->end foreach @stops;
wait_for_apply($upstream, $replica, 'postgres', 'many');
is(down('SELECT count(*) FROM many'), 0, 'and they go');

done_testing();
