# Many sessions spill a table that has nearly as many components as it can have, and no worker merges it: whoever finds no room merges first, however
# long he has waited for his turn to spill, and nobody is told that there are too many.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no spills' if $ENV{ROSE_STANDIN};

my $node = rose_node('full', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', "rose.debug_piece_size = '8kB'",
	'autovacuum = off', 'fsync = off', 'max_connections = 40');
my $waiting = 10;

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub components { return sql("SELECT count(*) FROM rose.components('t') WHERE kind <> 'memtable'") }

sub check
{
	my ($what, $rows) = @_;

	is(sql('SELECT count(*), count(DISTINCT id), sum(v) FROM t'), "$rows|$rows|$rows", "$what: rows");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$what: rose.check");
	return;
}

# ---- those who have looked for room when there was some, and wait for their turn
{
	my $control = RoseTest::Session->new($node);
	my @sessions = map { RoseTest::Session->new($node) } 0 .. $waiting;
	my @points = ('spill-frozen', 'spill-planned');
	my $rows = 2000;

	sql("CREATE TABLE t (id bigserial PRIMARY KEY, v int, doc text) USING rose; INSERT INTO t (v, doc) SELECT 1, md5(g::text) FROM generate_series(1, $rows) g;"
		. " SELECT rose.merge('t')");
	while (components() < 58)
	{
		sql("INSERT INTO t (v) VALUES (1); SELECT rose.spill('t')");
		$rows++;
	}
	foreach my $i (0 .. $waiting)
	{
		# the one before has still to do what follows on its point, and does not stop there
		$control->run("SELECT stop_at('$points[$i % 2]', 'wait', 'client', " . ($i % 2) . ", 1)");
		sql('INSERT INTO t (v) VALUES (1)');
		$rows++;
		$control->run("SELECT go_on('$points[1 - $i % 2]')") if $i > 0;
		if ($i == 0)
		{
			$sessions[0]->start("SELECT rose.spill('t')");
			wait_for_stop($node);
			$_->start("SELECT rose.spill('t')") foreach @sessions[ 1 .. $waiting ];
			$node->poll_query_until('postgres', "SELECT count(*) = $waiting FROM pg_locks WHERE locktype = 'page' AND NOT granted")
			  or die 'nobody waits';
		}
		wait_for_stop($node);
	}
	$control->run('SELECT stop_clear()');
	$control->run("SELECT go_on('$points[$waiting % 2]')");
	is(join(' ', grep { !eval { $sessions[$_]->finish; 1 } } 0 .. $waiting), '', 'who has waited for his turn finds room');
	cmp_ok(components(), '<=', 60, 'there is room for merges');
	check('turns', $rows);
	$_->end foreach @sessions, $control;
}

# ---- large transactions, of which each spill leaves a private run beside that of committed rows
{
	my ($clients, $times, $rows) = (12, 12, 400);
	my $script = $node->basedir . '/large.sql';

	sql("DROP TABLE t; CREATE TABLE t (id bigserial PRIMARY KEY, v int, doc text) USING rose");
	append_to_file($script, <<"SQL");
INSERT INTO t (v, doc) VALUES (1, 'x');
BEGIN;
INSERT INTO t (v, doc) SELECT 1, repeat(md5(g::text), 20) FROM generate_series(1, $rows) g;
SELECT rose.spill('t');
UPDATE t SET doc = '' WHERE id = lastval();
SELECT rose.spill('t');
END;
SQL
	my ($out, $err);
	my $done = IPC::Run::run([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $times, '-f', $script, $node->connstr('postgres') ], '>', \$out, '2>', \$err);
	is($err =~ s/^pgbench \(.*\n//rm, '', 'large transactions');
	check('large transactions', $clients * $times * ($rows + 1));
	cmp_ok(components(), '<=', 60, 'large transactions: there is room for merges');
}

# ---- pieces of one block: a table that gets a few rows at its end, time and again
{
	my $rows = 0;

	sql("DROP TABLE t; CREATE TABLE t (id bigserial, v int, doc text) USING rose");
	sql("INSERT INTO t (v) VALUES (1); SELECT rose.merge('t')") foreach 1 .. 70;
	check('small pieces', 70);
	cmp_ok(components(), '<=', 30, 'small pieces are joined');
}

$node->stop;
done_testing();
