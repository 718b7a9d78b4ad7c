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
done_testing();
