# Many large transactions in progress in one table, and loads of others beside them, with little memory: the list of components
# never fills up, none fails, and none waits for another one to end.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no components' if $ENV{ROSE_STANDIN};

my $sessions = 150;
my $bound = 45;		# components, of 64; about 31 at most, but without joins and splits of private runs all 64 are taken
my $node = rose_node('open', "rose.memtable_size = '4MB'", "rose.spill_interval = '1s'", 'autovacuum = off', 'fsync = off',
	'max_connections = 180', "statement_timeout = '100s'");
my @session;
my $most = 0;

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub look
{
	my $n = sql("SELECT count(*) FROM rose.components('t') WHERE kind <> 'memtable'");

	$most = $n if $n > $most;
	return;
}

my $file = $node->basedir . '/rows';

foreach my $workers (3, 0)
{
	my $what = $workers ? 'with workers' : 'without workers';

	@session = ();
	$most = 0;
	sql("ALTER SYSTEM SET rose.max_merge_workers = $workers"); sql('SELECT pg_reload_conf()');
	sql('DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose');
	sql("INSERT INTO t SELECT g, 0, 'old' FROM generate_series(1, 20000) g; SELECT rose.merge('t')");
	my $log = -s $node->logfile;

	# Each writes more than its share of memory: every other one by COPY, which goes past memory when it is long.
	foreach my $i (0 .. $sessions - 1)
	{
		my $from = 100_000 + $i * 1000;

		push @session, RoseTest::Session->new($node);
		$session[$i]->run("BEGIN; UPDATE t SET v = $i WHERE id BETWEEN $i * 20 + 1 AND $i * 20 + 20");
		if ($i % 2)
		{
			unlink "$file.$i";
			append_to_file("$file.$i", join('', map { my $id = $from + $_; "$id\t$i\t" . ('x' x 400) . "\n" } 1 .. 300));
			$session[$i]->run("COPY t FROM '$file.$i'");
		}
		else
		{
			$session[$i]->run("INSERT INTO t SELECT $from + g, $i, repeat(md5(g::text), 12) FROM generate_series(1, 300) g");
		}
		# others come and go
		sql("INSERT INTO t SELECT 1000000 + $i * 100 + g, 1, repeat('y', 300) FROM generate_series(1, 100) g");
		look();
	}
	unlike(slurp_file($node->logfile, $log), qr/ERROR|FATAL|PANIC/, "$what: $sessions large transactions in progress, and no error");
	diag("$what: most components $most");
	cmp_ok($most, '<', $bound, "$what: components are few");
	is(sql('SELECT count(*), sum(v) FROM t'), (20000 + 100 * $sessions) . '|' . (100 * $sessions), "$what: others see nothing of them");
	is($session[7]->run('SELECT count(*) FROM t WHERE v = 7'), 320, "$what: one of them sees its own");
	is(sql("SELECT string_agg(c::text, '; ') FROM rose.check('t') c"), '', "$what: rose.check");

	my $committed = 0;
	foreach my $i (0 .. $sessions - 1)
	{
		$session[$i]->run($i % 3 ? 'COMMIT' : 'ROLLBACK');
		$committed++ if $i % 3;
		look() if $i % 10 == 0;
	}
	cmp_ok($most, '<', $bound, "$what: nor when they end");
	is(sql('SELECT count(*) FROM t'), 20000 + 100 * $sessions + 300 * $committed, "$what: what was committed is there");
	sql("SELECT rose.merge('t')");
	is(sql('SELECT count(*) FROM t'), 20000 + 100 * $sessions + 300 * $committed, "$what: and after a merge of all");
	is(sql("SELECT string_agg(c::text, '; ') FROM rose.check('t') c"), '', "$what: rose.check");
	unlike(slurp_file($node->logfile, $log), qr/ERROR|FATAL|PANIC/, "$what: no error");
	$_->end foreach @session;
}
$node->stop;
done_testing();
