# A transaction that has locked its table, and finds memory full with rows that nobody spills in time, waits for a while, and does not
# spill its few rows again and again; then it writes past memory.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('noroom', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql("CREATE TABLE $_ (id int PRIMARY KEY, doc text) USING rose") foreach qw(a t);

# The worker is held in the middle of a spill, and memory fills up.
my $control = RoseTest::Session->new($node);
my $writer = RoseTest::Session->new($node);

$writer->run("BEGIN; LOCK TABLE t; INSERT INTO t VALUES (1, 'a few')");
$control->run("SELECT stop_at('spill-planned', 'wait', 'worker')");
sql("DO \$\$ BEGIN FOR i IN 1..100000 LOOP"
	  . " EXIT WHEN (SELECT used_bytes >= 950000 FROM rose.stat_memory);"
	  . " INSERT INTO a VALUES (i, repeat('x', 640)); END LOOP; END \$\$");
wait_for_stop($node);
my $before = sql('SELECT writer_spills FROM rose.stat_memory');

$writer->run("SAVEPOINT s; SET statement_timeout = '1s'");
$writer->start("INSERT INTO t SELECT 2, repeat('y', 96000)");
eval { $writer->finish };
like($@, qr/canceling statement due to statement timeout/, 'it waits');
cmp_ok(sql('SELECT writer_spills FROM rose.stat_memory') - $before, '<=', 2, 'and does not spill all the time');
$writer->{err} = '';
$writer->run("ROLLBACK TO s; SET statement_timeout = 0; INSERT INTO t SELECT 2, repeat('y', 96000)");
is($writer->run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), 1, 'it writes while nobody makes room');
$control->run("SELECT go_on('spill-planned')");
$control->end;
$writer->run("INSERT INTO t SELECT 3, repeat('y', 96000); COMMIT");
$writer->end;
is(sql('SELECT count(*), max(length(doc)) FROM t'), '3|96000', 'and goes on when there is room');

$node->stop;
done_testing();
