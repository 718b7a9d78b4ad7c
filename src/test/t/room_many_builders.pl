# Many sessions that load one table while memory is full: all write past memory, one after the other, and none of them meets an
# error because of the others. What they write is compared with heap.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('builders', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 1', 'autovacuum = off', 'restart_after_crash = on',
	'fsync = off', 'max_connections = 60', "statement_timeout = '170s'");
my $sessions = 24;

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# The worker is held in the middle of a spill of another table, and memory fills up.
sub fill_memory
{
	my ($control) = @_;

	sql('CREATE TABLE a (id int PRIMARY KEY, doc text) USING rose');
	$control->run("SELECT stop_at('spill-planned', 'wait', 'worker')");
	sql("DO \$\$ BEGIN FOR i IN 1..100000 LOOP"
		  . " EXIT WHEN (SELECT used_bytes >= 3900000 FROM rose.stat_memory);"
		  . " INSERT INTO a VALUES (i, repeat('x', 2000)); END LOOP; END \$\$");
	wait_for_stop($node);
	return;
}

foreach my $key ('PRIMARY KEY', '')
{
	my $what = $key ? 'with a key' : 'without a key';
	my $control = RoseTest::Session->new($node);
	my @writers = map { RoseTest::Session->new($node) } 1 .. $sessions;

	sql("CREATE TABLE t (id int $key, v int, doc text) USING rose; CREATE TABLE h (id int, v int, doc text)");
	fill_memory($control);
	$control->run("SELECT stop_at('direct-built', 'wait', 'client', 0, 0)");
	foreach my $i (1 .. $sessions)
	{
		my $rows = "SELECT g, $i, repeat(md5(g::text), 12000) FROM generate_series(" . 3 * $i . ', ' . (3 * $i + 2) . ') g';
		my $file = $node->basedir . "/rows$i";

		sql("INSERT INTO h $rows; COPY ($rows) TO '$file'");
		$writers[ $i - 1 ]->start($i % 2 ? "INSERT INTO t $rows" : "COPY t FROM '$file'");
	}
	ok($node->poll_query_until('postgres', "SELECT count(*) = $sessions - 1 FROM pg_locks WHERE locktype = 'page' AND NOT granted AND relation = 't'::regclass"),
		"$what: one session builds a run, all others wait for it");
	$control->run("SELECT go_on('direct-built')");
	foreach my $i (1 .. $sessions)
	{
		eval { $writers[ $i - 1 ]->finish };
		is($@, '', "$what: session $i");
	}
	$control->run("SELECT go_on('spill-planned')");
	is(sql('SELECT count(*), sum(v), md5(string_agg(id || doc, $$ $$ ORDER BY id)) FROM t'), sql('SELECT count(*), sum(v), md5(string_agg(id || doc, $$ $$ ORDER BY id)) FROM h'), "$what: rows");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$what: rose.check");
	$_->end foreach (@writers, $control);
	sql('DROP TABLE t, h, a');
}

# A crash with a run that is built and not published.
{
	my $control = RoseTest::Session->new($node);

	sql('CREATE TABLE t (id int PRIMARY KEY, doc text) USING rose');
	sql("INSERT INTO t VALUES (1, 'x')");
	fill_memory($control);
	$control->run("SELECT stop_at('direct-built', 'crash', 'client')");
	my ($rc) = $node->psql('postgres', "INSERT INTO t SELECT g, repeat(md5(g::text), 12000) FROM generate_series(2, 4) g");
	isnt($rc, 0, 'a crash');
	$node->wait_for_log(qr/was terminated by signal 9/);
	wait_until_up($node);
	eval { $control->end };
	is(sql("SELECT string_agg(id || doc, ' ') FROM t"), '1x', 'what was committed is there');
	sql("SELECT rose.merge('t')");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check after a crash');
}

$node->stop;
done_testing();
