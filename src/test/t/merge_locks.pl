# An error with one table does not cost the worker's merges of others their locks: it goes on with them, and nobody else
# may merge these tables meanwhile.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('merge_locks', "rose.memtable_size = '4MB'", "rose.spill_interval = '20ms'", 'autovacuum = off', 'fsync = off');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $control = RoseTest::Session->new($node);
my $locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'page' AND relation = 'merged'::regclass AND granted";

sql('CREATE TABLE merged (id int PRIMARY KEY, v int) USING rose; CREATE TABLE broken (id int PRIMARY KEY) USING rose');

# A merge has begun when the spill of another table fails.
$control->run("SELECT stop_at('merge-begun', 'wait', 'worker')");
sql(join ';', map { "INSERT INTO merged VALUES ($_, 1); SELECT rose.spill('merged')" } 1 .. 4);
wait_for_stop($node);
is(sql($locks), 1, 'a merge has its lock');
sql('INSERT INTO broken VALUES (1)');
sql('SELECT pg_sleep(0.5)');		# it is due then
$control->run("SELECT stop_at('spill-planned', 'error', 'worker')");
$control->run("SELECT stop_at('merge-paused', 'wait', 'worker')");
my $log = -s $node->logfile;
$control->run("SELECT go_on('merge-begun')");
ok($node->wait_for_log(qr/error at stop point "spill-planned"/, $log), 'a spill fails');
wait_for_stop($node);
is(sql($locks), 1, 'the merge still has it');
$control->run("SELECT go_on('merge-paused')");
ok($node->poll_query_until('postgres', "SELECT count(*) < 4 FROM rose.components('merged')"), 'and is done');
is(sql('SELECT count(*), sum(id) FROM merged'), '4|10', 'rows');
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'page' AND relation = 'merged'::regclass"), 'no lock is left');
unlike(slurp_file($node->logfile, $log), qr/WARNING/, 'no lock was given up that was not there');
$control->end;
$node->stop;
done_testing();
