
# The end of a maintenance worker: what it is asked for at the last moment is done by the next one, and
# tables that are gone do not keep it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('worker_ends', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'");
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub worker { return sql("SELECT $_[0] FROM rose.stat_worker WHERE datname = 'postgres'") }
sub until_worker { return $node->poll_query_until('postgres', "SELECT $_[0] FROM rose.stat_worker WHERE datname = 'postgres'") }
sub memory_used { return sql('SELECT used_bytes / total_bytes::float8 FROM rose.stat_memory') }

# A writer tells the worker that memory should be spilled, though it is not short yet.
my $control = RoseTest::Session->new($node);
$control->run("SELECT stop_at('worker-ending', 'wait', 'worker')");
sql('CREATE TABLE spilled (id int PRIMARY KEY) USING rose');
wait_for_stop($node);
is(worker('state, spills'), 'idle|0', 'a worker that has decided to end');
for my $i (1 .. 100)
{
	sql("INSERT INTO spilled SELECT generate_series($i * 1000, $i * 1000 + 999)");
	last if memory_used() > 0.35;
}
cmp_ok(memory_used(), '>', 0.35, 'there is enough for a request');
cmp_ok(memory_used(), '<', 0.6, 'but not for more');
is(worker('state, spills'), 'idle|0', 'it has not done it');
$control->run("SELECT go_on('worker-ending')");
ok(until_worker('spills > 0'), 'another one does');
$control->end;

# The worker waits for the end of a transaction with a private run, but not if the table is gone.
my $writer = $node->background_psql('postgres');
sql('CREATE TABLE short_lived (id int PRIMARY KEY) USING rose');
$writer->query_safe('BEGIN; INSERT INTO short_lived SELECT generate_series(1, 3000)');
sql("SELECT rose.spill('short_lived')");
is(sql("SELECT count(*) FROM rose.components('short_lived') WHERE kind = 'private run'"), 1, 'a private run');
ok(until_worker('pid IS NOT NULL'), 'a worker comes');
sql('SELECT pg_sleep(2)');		# it has seen it, and looks again after 5 seconds
$writer->query_safe('COMMIT');
sql('DROP TABLE short_lived');
$writer->quit;
ok(until_worker('pid IS NULL'), 'and ends, for the table is gone');

$node->stop;
done_testing();
