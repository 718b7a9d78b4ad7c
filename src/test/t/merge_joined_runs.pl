# Transactions that are larger than memory: what one of them has written twice stays in order,
# whoever joins its runs, and when.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('large', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off',
	'restart_after_crash = on', "deadlock_timeout = '100ms'", 'max_prepared_transactions = 2', 'synchronous_commit = off');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Runs of a transaction are joined by the worker while it goes on and writes the same rows again: what came
# meanwhile stays in front.
{
	my $ctl = RoseTest::Session->new($node);
	my $writer = RoseTest::Session->new($node);

	sql("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose; INSERT INTO t SELECT g, 0, repeat('x', 400) FROM generate_series(1, 200) g");
	sql("SELECT rose.merge('t')");
	$ctl->run("SELECT stop_at('merge-built', 'wait', 'worker')");
	$writer->run('BEGIN');
	foreach my $v (1 .. 6)
	{
		$writer->run("UPDATE t SET v = $v");
		sql("SELECT rose.spill('t')");
	}
	wait_for_stop($node);
	$writer->run('UPDATE t SET v = 7');
	sql("SELECT rose.spill('t')");
	$ctl->run("SELECT go_on('merge-built')");
	$ctl->end;
	ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM rose.components('t') WHERE kind = 'private run'"), 'the worker joins the runs');
	is($writer->run('SELECT min(v), max(v), count(*) FROM t'), '7|7|200', 'the transaction sees what it wrote last');
	is($writer->run('SELECT count(*) FROM generate_series(1, 200) g WHERE (SELECT v FROM t WHERE id = g) = 7'), 200, 'so do lookups');
	$writer->run('COMMIT');
	$writer->end;
	is(sql('SELECT min(v), max(v), count(*) FROM t'), '7|7|200', 'so do others');
	sql("SELECT rose.merge('t')");
	is(sql('SELECT min(v), max(v), count(*) FROM t'), '7|7|200', 'and all after a merge');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
}

$node->stop;

# Runs in front of them are merged by another worker meanwhile: what was joined goes where the newest of its runs stands, and does
# not look for a neighbour.
{
	$node = rose_node('neighbour', "rose.memtable_size = '12MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off', 'rose.max_merge_workers = 0', "rose.debug_piece_size = '64kB'");
	stop_points_create($node);
	my $ctl = RoseTest::Session->new($node);
	my $writer = RoseTest::Session->new($node);

	# a pass that a worker asks for help with, as so many runs mean that merges are behind: what is deleted is so for all
	sql('CREATE TABLE u (id int PRIMARY KEY, t text) USING rose; INSERT INTO u SELECT g, md5(g::text) FROM generate_series(1, 40000) g');
	sql("SELECT rose.merge('u')");
	foreach my $part (0 .. 11)
	{
		sql("DELETE FROM u WHERE id % 30 = $part");
		sql("SELECT rose.spill('u')");
	}

	sql("CREATE TABLE t (id int PRIMARY KEY, v int, b bytea) USING rose; INSERT INTO t SELECT g, 0, '' FROM generate_series(1, 10000) g");
	sql("SELECT rose.merge('t')");
	$writer->run('BEGIN');
	foreach my $v (1 .. 6)
	{
		$writer->run("UPDATE t SET v = $v WHERE id <= 8000");
		sql("SELECT rose.spill('t')");
	}

	# so large that another worker is left to merge them
	foreach my $v (1 .. 4)
	{
		sql("UPDATE t SET v = $v, b = (SELECT string_agg(decode(md5(g || ' ' || random()), 'hex'), '') FROM generate_series(1, 10) g WHERE id > 0) WHERE id > 8100");
		sql("SELECT rose.spill('t')");
	}
	my $old = sql("SELECT string_agg(id::text, ',') FROM rose.components('t') WHERE kind = 'run'");
	is(sql("SELECT string_agg(kind, ' ' ORDER BY id DESC) FROM rose.components('t') WHERE kind LIKE '%run'"), 'run run run run' . ' private run' x 6, 'runs before private runs');

	# each by one worker, who has not published them yet
	$ctl->run("SELECT stop_at('private-judging', 'wait', 'worker')");
	$ctl->run("SELECT stop_at('c1-publishing', 'wait', 'worker')");
	sql('ALTER SYSTEM SET rose.max_merge_workers = 2');
	sql('SELECT pg_reload_conf()');
	ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), 'runs are merged, private ones joined, at the same time');
	is(sql("SELECT count(*) FROM rose.components('t') WHERE kind LIKE '%run'"), 10, 'none is published');
	$ctl->run("SELECT go_on('c1-publishing')");
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE id IN ($old))"), 'the runs are merged first');
	$ctl->run("SELECT go_on('private-judging')");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM rose.components('t') WHERE kind = 'private run'"), 'which is done then');
	$ctl->end;
	unlike(slurp_file($node->logfile), qr/to add others behind/, 'and there was no error');
	is($writer->run('SELECT min(v), max(v), count(*) FROM t WHERE id <= 8000'), '6|6|8000', 'the transaction sees what it wrote last');
	$writer->run('COMMIT');
	$writer->end;
	is(sql('SELECT min(v), max(v), count(*) FROM t WHERE id <= 8000'), '6|6|8000', 'so do others');
	is(sql('SELECT min(v), max(v), count(*) FROM t WHERE id > 8100'), '4|4|1900', 'and what others wrote');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
}

$node->stop;
done_testing();
