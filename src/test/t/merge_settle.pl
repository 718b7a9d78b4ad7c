# VACUUM turns a private run whose transaction has committed into an ordinary one, while somebody merges the table: the merge must
# not take the run away between VACUUM's look at it and its change of the manifest.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has no runs' if $ENV{ROSE_STANDIN};

my $node = rose_node('settle', "rose.memtable_size = '4MB'", 'rose.max_merge_workers = 0', "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my ($control, $writer, $vacuum, $merge) = map { RoseTest::Session->new($node) } 1 .. 4;

foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $sum = $end eq 'COMMIT' ? 3000 : 0;

	sql('DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; INSERT INTO t SELECT g, 0 FROM generate_series(1, 20000) g');
	sql("SELECT rose.merge('t')");
	$writer->run('BEGIN; UPDATE t SET v = 1 WHERE id <= 3000');
	sql("SELECT rose.spill('t')");
	is(sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'"), 1, "$end: a private run");
	$writer->run($end);

	$control->run("SELECT stop_at('settle-judged', 'wait', 'client')");
	$vacuum->start('VACUUM t');
	wait_for_stop($node);
	$merge->start("SELECT rose.merge('t')");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'page' AND NOT granted"), "$end: a merge waits until the run is settled");
	$control->run("SELECT go_on('settle-judged')");
	$vacuum->finish;
	$merge->finish;

	is(sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'"), 0, "$end: no private run is left");
	is(sql('SELECT count(*), sum(v) FROM t'), "20000|$sum", "$end: rows");
	is(sql("SELECT * FROM rose.check('t')"), '', "$end: rose.check");
}

# Beside a merge, the run is left to who merges.
sql("UPDATE t SET v = 2 WHERE id > 19000; SELECT rose.spill('t')");
$writer->run('BEGIN; UPDATE t SET v = 3 WHERE id <= 3000');
sql("SELECT rose.spill('t')");
$control->run("SELECT stop_at('merge-built', 'wait', 'client')");
$merge->start("SELECT rose.merge('t')");
wait_for_stop($node);
$writer->run('COMMIT');
sql('VACUUM t');
is(sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'"), 1, 'VACUUM beside a merge leaves the run alone');
$control->run("SELECT go_on('merge-built')");
$merge->finish;
sql('VACUUM t');
is(sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'"), 0, 'the next one settles it');
is(sql('SELECT count(*), sum(v) FROM t'), '20000|' . (3 * 3000 + 2 * 1000), 'rows');
is(sql("SELECT * FROM rose.check('t')"), '', 'rose.check');

$_->end foreach $control, $writer, $vacuum, $merge;
$node->stop;
done_testing();
