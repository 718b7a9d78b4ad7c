# Private runs that are joined, and what they are joined to, are never in a table's list of components together: neither for those
# who read meanwhile nor after a crash.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no components' if $ENV{ROSE_STANDIN};

my $node = rose_node('join', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off',
	'max_prepared_transactions = 2');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub private_runs { return sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'") }

# Spills of unlike sizes: how many rows of the last transaction come to the first of two runs that a version's rows make.
my %first_part = (1 => 121, 3 => 0, 4 => 209);

# Four transactions, of which each spill writes a private run, until there are enough for the worker to join; it
# stands still when the joined one is built. Whatever else is spilled meanwhile, as the worker may: two of its runs are
# large, and no more rows between them than a join may take.
sub until_joined
{
	my ($key, $unlike, @session) = @_;
	my $ctl = RoseTest::Session->new($node);

	sql("DROP TABLE IF EXISTS t; CREATE TABLE t (id int $key, v int, doc text) USING rose; INSERT INTO t SELECT g, 0, repeat('x', 200) FROM generate_series(1, 2000) g; SELECT rose.merge('t')");
	$ctl->run("SELECT stop_at('merge-built', 'wait', 'worker')");
	$_->run('BEGIN') foreach @session;
	foreach my $v (1 .. 6)
	{
		foreach my $i (0 .. $#session)
		{
			my $update = "UPDATE t SET v = $v, doc = repeat('y', 800) WHERE id % 8 = $i";

			if ($unlike && $i == 3 && defined $first_part{$v})
			{
				$session[$i]->run("$update AND id < 8 * $first_part{$v}");
				sql("SELECT rose.spill('t')");
				$session[$i]->run("$update AND id >= 8 * $first_part{$v}");
			}
			else
			{
				$session[$i]->run($update);
			}
			$session[$i]->run('SAVEPOINT s; UPDATE t SET v = 100 WHERE id % 8 = ' . (4 + $i) . '; ROLLBACK TO s') if $v == 3;
		}
		sql("SELECT rose.spill('t')");
	}
	wait_for_stop($node);
	return $ctl;
}

foreach my $key ('PRIMARY KEY', '')
{
	my $what = $key ? 'with a key' : 'without, small runs between large ones';
	my @session = map { RoseTest::Session->new($node) } 0 .. 3;
	my $ctl = until_joined($key, !$key, @session);

	$session[1]->run("PREPARE TRANSACTION 'p'");
	my $before = private_runs();

	cmp_ok($before, '>', 2, "$what: there are private runs");
	# After the restart nobody merges what the crash leaves; what is logged until then is on disk.
	sql("ALTER SYSTEM SET rose.max_merge_workers = 0");
	$ctl->run("SELECT stop_at('manifest-switched', 'wait', 'worker'); SELECT go_on('merge-built')");
	wait_for_stop($node);
	sql("SELECT pg_logical_emit_message(true, 'test', 'flushes what was logged before')");
	crash_and_restart($node);
	eval { $_->end } foreach (@session, $ctl);
	cmp_ok(private_runs(), '<', $before, "$what: a crash just after the switch does not leave the joined run beside what was joined");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$what: rose.check");
	is(sql('SELECT count(*), sum(v) FROM t'), '2000|0', "$what: nothing is committed");
	sql("COMMIT PREPARED 'p'");
	is(sql('SELECT count(*), sum(v), count(*) FILTER (WHERE v = 6) FROM t'), '2000|1500|250', "$what: one is");
	sql("SELECT rose.merge('t')");
	is(sql('SELECT count(*), sum(v), count(*) FILTER (WHERE v = 6) FROM t'), '2000|1500|250', "$what: and after a merge");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$what: rose.check");
	sql('ALTER SYSTEM RESET rose.max_merge_workers; SELECT pg_reload_conf()');
}

$node->stop;
done_testing();
