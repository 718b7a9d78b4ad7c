# A memtable is retired when readers let go of it, and until then nobody but the one who
# retires it waits: neither writers of the table nor other readers.
#
# A reader is held where it has C0 (stop point view-listing), while the spill behind it has
# published its run and wants the memory back.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no stop points' if $ENV{ROSE_STANDIN};

my $node = rose_node('retire', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my ($ctl, $reader, $spiller, $writer, $other) = map { RoseTest::Session->new($node) } 1 .. 5;
$_->run('SET enable_seqscan = off') foreach $reader, $other;
sql('CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; CREATE TABLE written (done bool)');

foreach my $read ('SELECT count(*), sum(v) FROM t', 'SELECT v, 0 FROM t WHERE id = 7')
{
	sql('TRUNCATE t; INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g');
	my $seen = sql($read);

	$ctl->run("SELECT stop_at('view-listing', 'wait', 'client')");
	$reader->start($read);
	wait_for_stop($node);
	$spiller->start("SELECT rose.spill('t')");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'RoseReaders'"),
		'the spill waits for the reader');

	# Neither of these is one that the spill waits for.
	sql('TRUNCATE written');
	$writer->start('UPDATE t SET v = 0 WHERE id = 7; INSERT INTO t SELECT g, g FROM generate_series(1001, 1100) g; INSERT INTO written VALUES (true)');
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM written'), 'a writer does not wait') or last;
	$writer->finish;
	is($other->run('SELECT v FROM t WHERE id = 7'), '0', 'another reader neither');
	is(sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'RoseReaders'"), 1, 'meanwhile the spill waits');

	$ctl->run("SELECT go_on('view-listing')");
	is($reader->finish, $seen, 'the reader sees what was there');
	$spiller->finish;
	is(sql('SELECT count(*), min(id), max(id) FROM t'), '1100|1|1100', 'all rows are there');
	is(sql("SELECT c::text FROM rose.check('t') c"), '', 'and nothing is wrong');
}

$ctl->run('SELECT stop_clear()');
$_->end foreach $ctl, $reader, $spiller, $writer, $other;
$node->stop;
done_testing();
