# Several upstreams into one table: each shard has a partition of its own, by a constant, and a subscription that leads there. Their positions, copies, errors
# and TRUNCATEs are their own; random changes of all, with crashes and kills of workers, and what the table has is what all of them have together.
#
#   SHARDS_SEED		of the changes
#   SHARDS_STEPS	(30) how many
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no constants' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $seed = seed_random('SHARDS_SEED');
my $steps = $ENV{SHARDS_STEPS} // 30;
my $upstream = upstream_node('autovacuum = off', 'max_wal_senders = 20', 'max_replication_slots = 20');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '200ms'", "rose.memtable_size = '8MB'", 'rose.max_subscriptions = 4', 'max_worker_processes = 30', 'autovacuum = off');
my @shards = (1 .. 3);

sub up { return $upstream->safe_psql("shard$_[0]", $_[1]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }

sub create
{
	my ($shard) = @_;
	my $conninfo = $upstream->connstr("shard$shard");

	down("SELECT rose.create_subscription('s$shard', \$\$$conninfo\$\$, ARRAY['p'], slot_name => 's$shard', tables => '{\"public.*\": \"shard$shard.*\"}', constants => '{\"shard\": $shard}')");
	return down("SELECT rose.wait_for_sync('s$shard', $timeout)");
}

sub rows { return "SELECT md5(string_agg(h, '' ORDER BY h)) || ' ' || count(*) FROM (SELECT md5(ROW($_[0])::text) h FROM $_[1]) q" }

sub caught_up
{
	foreach my $shard (@_)
	{
		my $lsn = up($shard, 'SELECT pg_current_wal_flush_lsn()');

		down("SELECT rose.wait_for_lsn('s$shard', '$lsn', $timeout)");
	}
	return;
}

sub agree
{
	my ($name, @compared) = @_;

	caught_up(@compared);
	foreach my $shard (@compared)
	{
		foreach my $table ([ 'orders', 'id, v, doc' ], [ 'lines', 'id, line, v' ])
		{
			is(down(rows($table->[1], "(SELECT * FROM $table->[0] WHERE shard = $shard) q")), up($shard, rows($table->[1], $table->[0])), "$name: $table->[0] of shard $shard") or diag("SHARDS_SEED=$seed");
		}
		is(down("SELECT * FROM rose.verify('s$shard')"), '', "$name: shard $shard verified");
	}
	return;
}

# --- tables: keys of the shards are the same ones
foreach my $shard (@shards)
{
	$upstream->safe_psql('postgres', "CREATE DATABASE shard$shard");
	up($shard, 'CREATE TABLE orders (id int PRIMARY KEY, v int, doc text); CREATE TABLE lines (id int, line int, v int, PRIMARY KEY (id, line)); ALTER TABLE lines REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR ALL TABLES;'
		. "INSERT INTO orders SELECT g, $shard, repeat('x', g % 50) FROM generate_series(1, 200) g; INSERT INTO lines SELECT g / 3, g % 3, $shard FROM generate_series(1, 200) g");
}
down('CREATE TABLE orders (shard int, id int, v int, doc text, PRIMARY KEY (shard, id)) PARTITION BY LIST (shard); CREATE TABLE lines (id int, line int, v int, shard smallint, PRIMARY KEY (id, line, shard)) PARTITION BY LIST (shard)');
foreach my $shard (@shards)
{
	down("CREATE SCHEMA shard$shard; CREATE TABLE shard$shard.orders PARTITION OF public.orders FOR VALUES IN ($shard) USING rose; CREATE TABLE shard$shard.lines PARTITION OF public.lines FOR VALUES IN ($shard) USING rose");
	create($shard);
}
agree('copied', @shards);
is(down('SELECT count(*) FROM orders WHERE id = 7'), scalar @shards, 'one key in all shards');

# --- changes of all, one after the other and at once
sub change
{
	my ($shard) = @_;
	my ($n, $m) = map { int rand 400 } 1 .. 2;

	return pick("INSERT INTO orders SELECT g, $n, repeat('y', $m) FROM generate_series($n, $n + 40) g ON CONFLICT (id) DO UPDATE SET v = excluded.v", "UPDATE orders SET v = v + 1 WHERE id % 5 = $n % 5", "DELETE FROM orders WHERE id % 9 = $n % 9",
		"UPDATE orders SET id = id + 10000 WHERE id < 10000 AND id % 17 = $n % 17 AND NOT EXISTS (SELECT FROM orders o WHERE o.id = orders.id + 10000)",
		"INSERT INTO lines SELECT $n, g, $m FROM generate_series(1, 20) g ON CONFLICT DO NOTHING", "UPDATE lines SET v = v + 1 WHERE id % 4 = $n % 4", "DELETE FROM lines WHERE line % 7 = $n % 7", rand() < 0.2 ? 'TRUNCATE lines' : 'SELECT');
}

foreach my $step (1 .. $steps)
{
	up($_, 'BEGIN; ' . join('; ', map { change($_) } 1 .. 3) . '; ' . pick('COMMIT', 'COMMIT', 'ROLLBACK')) foreach @shards;
	# a worker of one of them; the others go on
	kill 'TERM', grep { $_ } down("SELECT pid FROM rose.stat_subscription WHERE subname = 's" . pick(@shards) . "'") || () if $step % 8 == 4;
	crash_and_restart($replica) if $step % 12 == 0;
	agree("step $step", @shards) if $step % 15 == 0;
}
agree('changed', @shards);

# --- what is one shard's is no other one's
my $others = rows('q.*', '(SELECT * FROM orders WHERE shard <> 2) q');
my $before = down($others);
up(2, 'TRUNCATE orders');
agree('one is truncated', @shards);
is(down($others), $before, 'and no other one');
up(2, "INSERT INTO orders SELECT g, g, 'again' FROM generate_series(1, 100) g");
caught_up(2);
down("SELECT rose.alter_subscription('s2', resync => 'shard2.orders'); SELECT rose.wait_for_sync('s2', $timeout)");
agree('one is copied again', @shards);
is(down($others), $before, 'and no other one');
down("SELECT rose.pause_table('s1', 'shard1.orders')");
up($_, "INSERT INTO orders VALUES (77777, 1, 'paused')") foreach @shards;
agree('one is paused', 2, 3);
is(down('SELECT string_agg(shard::text, \',\' ORDER BY shard) FROM orders WHERE id = 77777'), '2,3', 'the others go on');
down("SELECT rose.resume_table('s1', 'shard1.orders')");
agree('resumed', @shards);

# --- one goes, and comes again
down("SELECT rose.drop_subscription('s3'); TRUNCATE shard3.orders, shard3.lines");
agree('one has gone', 1, 2);
create(3);
agree('it has come again', @shards);

# --- a constant that is another partition's
up(3, "INSERT INTO orders VALUES (88888, 1, 'one there is') ON CONFLICT DO NOTHING; INSERT INTO lines VALUES (88888, 1, 1) ON CONFLICT DO NOTHING");
down("SELECT rose.drop_subscription('s3'); TRUNCATE shard3.orders, shard3.lines");
my $conninfo = $upstream->connstr('shard3');
down("SELECT rose.create_subscription('s3', \$\$$conninfo\$\$, ARRAY['p'], tables => '{\"public.*\": \"shard3.*\"}', constants => '{\"shard\": 2}')");
$replica->poll_query_until('postgres', "SELECT count(*) = 2 FROM rose.stat_subscription_tables WHERE subname = 's3' AND last_error ~ 'new row for relation .* violates partition constraint'") or die 'no error';
agree('the others', 1, 2);
is(down("SELECT string_agg(msg, '; ') FROM pg_partition_tree('orders'), rose.check(relid) WHERE isleaf"), '', 'rose.check');

# --- a table of one does not become a partition of another one's
up(1, 'CREATE TABLE parent (id int PRIMARY KEY, v int)');
up(2, 'CREATE TABLE child (id int PRIMARY KEY, v int)');
down('CREATE TABLE shard1.parent (shard int, id int, v int, PRIMARY KEY (shard, id)) PARTITION BY LIST (shard); CREATE TABLE shard1.part PARTITION OF shard1.parent FOR VALUES IN (1) USING rose;'
	. 'CREATE TABLE shard2.child (shard int, id int, v int, PRIMARY KEY (shard, id)) USING rose');
down("SELECT rose.alter_subscription('s$_', refresh => true); SELECT rose.wait_for_sync('s$_', $timeout)") foreach 1, 2;
like(error_of($replica, 'ALTER TABLE shard1.parent ATTACH PARTITION shard2.child FOR VALUES IN (2)'), qr/cannot attach table "child", which one subscription feeds, to a table that another one feeds/, 'it is not attached');
up(2, 'INSERT INTO child VALUES (1, 1)');
caught_up(2);
is(down('SELECT count(*) FROM shard2.child'), 1, 'and goes on');
down('CREATE TABLE shard1.free (shard int, id int, v int, PRIMARY KEY (shard, id)) USING rose; ALTER TABLE shard1.parent ATTACH PARTITION shard1.free FOR VALUES IN (3)');

done_testing();
