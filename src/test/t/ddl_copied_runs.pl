# CLUSTER in a transaction that has altered the table copies components unmerged, private runs too: but those of
# transactions that were rolled back, and those of which a part has moved on to C2.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no private runs' if $ENV{ROSE_STANDIN};

my $node = rose_node('copied', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0',
	'autovacuum = off', 'fsync = off', 'restart_after_crash = on');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $wide = "(SELECT string_agg(md5(g || ' ' || i), '') FROM generate_series(1, 10) i)";

# Runs that a rolled back ALTER TABLE has left, with a number where a string is now.
{
	sql("CREATE TABLE l (k int PRIMARY KEY, v int) USING rose; INSERT INTO l SELECT g, g FROM generate_series(1, 1000) g; SELECT rose.merge('l')");
	sql("BEGIN; ALTER TABLE l ADD COLUMN n int DEFAULT 7; INSERT INTO l SELECT g, g, g FROM generate_series(1001, 40000) g; ROLLBACK; SELECT rose.spill('l')");
	cmp_ok(sql("SELECT count(*) FROM rose.components('l') WHERE kind = 'private run'"), '>', 0, 'runs are left over');
	my ($rc, undef, $err) =
	  $node->psql('postgres', "BEGIN; ALTER TABLE l ADD COLUMN m text DEFAULT 'm'; CLUSTER l USING l_pkey; COMMIT", on_error_stop => 1);

	is($rc, 0, 'they are not in the way of CLUSTER after another ALTER TABLE') or diag($err);
	wait_until_up($node) if $rc == 2;
	is(sql('SELECT count(*), sum(v), min(m), max(m) FROM l'), '1000|500500|m|m', 'left over: rows');
	is(sql("SELECT count(*) FROM rose.components('l') WHERE kind = 'private run'"), 0, 'they are not copied');
	is(sql("SELECT count(*) FROM rose.check('l')"), 0, 'left over: rose.check');
}

# A run of two transactions, of which the older one was rolled back, and its rows have been merged.
{
	my ($older, $newer) = map { RoseTest::Session->new($node) } 1 .. 2;

	sql("CREATE TABLE t (k int PRIMARY KEY, v int, doc text) USING rose; INSERT INTO t SELECT g, 0, $wide FROM generate_series(1, 20000) g; SELECT rose.merge('t')");
	$older->run("BEGIN; INSERT INTO t SELECT -g, 1, $wide FROM generate_series(1, 700) g");
	$newer->run("BEGIN; INSERT INTO t SELECT g, 2, $wide FROM generate_series(100001, 100700) g");
	sql("SELECT rose.spill('t')");
	$older->run('ROLLBACK');
	$newer->run('COMMIT');
	my (undef, undef, $err) = $node->psql('postgres', "SELECT stop_at('merge-published', 'error'); SELECT rose.merge('t')");
	like($err, qr/error at stop point/, 'a merge fails after its first piece');
	is(sql("SELECT rows FROM rose.components('t') WHERE kind = 'private run'"), '700', 'what was rolled back is out of the run');
	is(sql('SELECT count(*), sum(v) FROM t'), '20700|1400', 'merged in part');
	sql("BEGIN; ALTER TABLE t ADD COLUMN m int DEFAULT 5; CLUSTER t USING t_pkey; COMMIT");
	is(sql('SELECT count(*), sum(v) FROM t'), '20700|1400', 'clustered');
	sql("SELECT rose.merge('t')");
	is(sql('SELECT count(*), sum(v) FROM t'), '20700|1400', 'merged');
	$_->end foreach ($older, $newer);
}

# The filter of a run is as large as it was; with small rows it is most of it.
{
	my $bytes = "SELECT sum(bytes), count(*) FROM rose.components('f') WHERE kind = 'run'";

	sql('CREATE TABLE f (k int PRIMARY KEY) USING rose');
	sql("INSERT INTO f SELECT generate_series($_ * 5000 + 1, $_ * 5000 + 5000)") for 0 .. 4;
	sql("SELECT rose.spill('f')");
	my ($before) = split /\|/, sql($bytes);
	sql('BEGIN; ALTER TABLE f ADD COLUMN m int; CLUSTER f USING f_pkey; COMMIT');
	my ($after) = split /\|/, sql($bytes);
	cmp_ok($before, '>', 50000, 'a run');
	cmp_ok($after, '>=', $before, 'its copy is no smaller');
	is(sql("SELECT count(*) FROM rose.check('f')"), 0, 'copied run: rose.check');
}

$node->stop;
done_testing();
