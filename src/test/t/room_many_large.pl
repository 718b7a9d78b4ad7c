# Many large transactions in progress at once, in one table and in several, with little memory: none fails, none is waited for, and
# what they write is what heap has.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('many', "rose.memtable_size = '4MB'", "rose.spill_interval = '1s'", 'autovacuum = off', 'fsync = off',
	'max_prepared_transactions = 4', 'max_connections = 60', "statement_timeout = '100s'", 'restart_after_crash = on');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $wide = "repeat(md5(g::text), 10)";

sub contents { return sql("SELECT count(*), md5(string_agg(md5(id || ' ' || v || doc), '' ORDER BY id, v, doc)) FROM $_[0]") }

sub compare
{
	my ($what, $key) = @_;
	my $expected = contents('h');

	is(contents('t'), $expected, "$what: a scan");
	is(sql("SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, 40000, 97) g"
		  . " WHERE (SELECT v FROM t WHERE id = g) IS DISTINCT FROM (SELECT v FROM h WHERE id = g)"), 0, "$what: lookups") if $key;
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$what: rose.check");
	return;
}

# The same statement for both tables; each session writes keys of its own.
sub both
{
	my ($session, $sql) = @_;

	$session->run($sql =~ s/\bTAB\b/$_/gr) foreach ('t', 'h');
	return;
}

# Sixteen in one memtable, which has next to all of memory: the worker was held elsewhere meanwhile.
{
	my $holder = RoseTest::Session->new($node);
	my @session = map { RoseTest::Session->new($node) } 0 .. 15;

	sql('CREATE TABLE z (id int) USING rose; CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose');
	$holder->run("SELECT stop_at('spill-planned', 'wait', 'worker')");
	sql('INSERT INTO z VALUES (1)');
	wait_for_stop($node);
	foreach my $i (0 .. 15)
	{
		$session[$i]->run("BEGIN; INSERT INTO t SELECT g * 16 + $i, $i, $wide FROM generate_series(1, 500) g");
	}
	cmp_ok(sql('SELECT used_bytes FROM rose.stat_memory'), '>', 3_000_000, 'memory is nearly full of transactions in progress');
	my $log = -s $node->logfile;

	$holder->run("SELECT go_on('spill-planned')");
	sql("INSERT INTO t SELECT g, 77, $wide FROM generate_series(100001, 110000) g");
	unlike(slurp_file($node->logfile, $log), qr/ERROR/, 'others write much, and no spill fails');
	is($session[3]->run('SELECT count(*), sum(v) FROM t WHERE id < 100000'), '500|1500', 'one of them reads');
	$session[$_]->run($_ % 2 ? 'COMMIT' : 'ROLLBACK') foreach 0 .. 15;
	is(sql('SELECT count(*), sum(v) FROM t'), '14000|' . (500 * 64 + 770_000), 'what was committed is there');
	sql("SELECT rose.merge('t')");
	is(sql('SELECT count(*), sum(v) FROM t'), '14000|' . (500 * 64 + 770_000), 'and after a merge');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
	$_->end foreach (@session, $holder);
	sql('DROP TABLE t, z');
}

foreach my $key ('PRIMARY KEY', '')
{
	my $what = $key ? 'with a key' : 'without a key';
	my @session = map { RoseTest::Session->new($node) } 0 .. 15;
	my $other = RoseTest::Session->new($node);

	sql('DROP TABLE IF EXISTS t, h');
	sql("CREATE TABLE t (id int $key, v int, doc text) USING rose; CREATE TABLE h (id int PRIMARY KEY, v int, doc text) USING heap");
	sql("INSERT INTO $_ SELECT g, 0, 'old' FROM generate_series(1, 40000) g") foreach ('t', 'h');
	sql("SELECT rose.merge('t')");

	# Sixteen of them, each with more than a sixth of the arena, and then idle. Half of what is in a savepoint is rolled back.
	foreach my $i (0 .. 15)
	{
		my ($from, $to) = (40001 + $i * 3000, 40000 + $i * 3000 + 1500);

		both($session[$i], "BEGIN; INSERT INTO TAB SELECT g, $i, $wide FROM generate_series($from, $to) g");
		both($session[$i], "SAVEPOINT s; UPDATE TAB SET v = 100 + $i WHERE id BETWEEN $i * 1000 + 1 AND $i * 1000 + 500; "
			  . ($i % 2 ? 'ROLLBACK TO s' : 'RELEASE s'));
		both($session[$i], "UPDATE TAB SET v = 200 + $i WHERE id BETWEEN $i * 1000 + 401 AND $i * 1000 + 600");
	}

	# Others write more than fits memory meanwhile, also keys that were rolled back, and then some of the sixteen end.
	foreach my $round (1 .. 4)
	{
		both($other, "UPDATE TAB SET v = v + 1000 * $round, doc = $wide FROM generate_series(20001, 26000) g WHERE id = g");
		both($other, "UPDATE TAB SET v = v + 10000 WHERE id BETWEEN 1001 AND 1300");
		sql("SELECT rose.merge('t')") if $round == 3;
		compare("$what, round $round", $key);
		foreach my $i ($round * 3 - 3 .. $round * 3 - 1)
		{
			$session[$i]->run($i % 3 == 1 ? 'ROLLBACK' : $i % 3 ? 'COMMIT' : "PREPARE TRANSACTION 'p$i'");
			sql("COMMIT PREPARED 'p$i'") if $i % 3 == 0 && $round < 4;
		}
	}
	compare("$what, most have ended", $key);
	my $private = sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'");
	cmp_ok($private, '>', 0, "$what: some have private runs");
	cmp_ok(sql("SELECT count(*) FROM rose.components('t')"), '<', 40, "$what: but not too many components");

	# What is left, over a restart.
	$node->restart if $key;
	$node->stop('immediate'), $node->start if !$key;
	compare("$what, after a restart", $key);
	sql("COMMIT PREPARED 'p9'");
	compare("$what, all have ended", $key);
	sql("SELECT rose.merge('t')");
	compare("$what, merged", $key);
	is(sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'"), 0, "$what: no private run is left");
	eval { $_->end } foreach (@session, $other);
}

$node->stop;
done_testing();
