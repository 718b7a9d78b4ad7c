# Rows of tables without key that find memory full: who has to try again takes a new row id, because somebody else may
# have taken the one that it was about to take.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('rowids', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off');
my $file = $node->basedir . '/rows';

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql("COPY (SELECT 'many', repeat(md5(g::text), 30) FROM generate_series(1, 5000) g) TO '$file'");

# Memory has less room than the statement's row, or rows, take; others write while it waits.
sub collide
{
	my ($what, $statement, $rows) = @_;
	my $ctl = RoseTest::Session->new($node);
	my $holder = RoseTest::Session->new($node);
	my $writer = RoseTest::Session->new($node);

	sql("DROP TABLE IF EXISTS t; CREATE TABLE t (who text, doc text) USING rose");
	$holder->run("SELECT stop_at('spill-planned', 'wait', 'worker')");
	sql("INSERT INTO t SELECT 'before', repeat(md5(g::text), 28000) FROM generate_series(1, 3) g");
	$ctl->run("SELECT stop_at('write-no-room', 'wait', 'client')");
	$writer->start($statement);
	$node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") or die 'nobody stops';
	sql("INSERT INTO t SELECT 'meanwhile', g::text FROM generate_series(1, 10) g");
	$ctl->run("SELECT go_on('write-no-room')");
	$holder->run("SELECT go_on('spill-planned')");
	$writer->finish;
	$_->end foreach ($ctl, $holder, $writer);

	my $expected = "before|3\nmany|$rows\nmeanwhile|10";

	is(sql('SELECT who, count(*) FROM t GROUP BY 1 ORDER BY 1'), $expected, $what);
	sql("SELECT rose.spill('t')");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$what: rose.check");
	sql("SELECT rose.merge('t')");
	is(sql('SELECT who, count(*) FROM t GROUP BY 1 ORDER BY 1'), $expected, "$what: after a merge");
	return;
}

collide('a row', "INSERT INTO t SELECT 'many', repeat('x', 1000000) FROM generate_series(1, 2)", 2);
collide('many rows', "COPY t FROM '$file'", 5000);

$node->stop;
done_testing();
