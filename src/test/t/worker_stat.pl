# What rose.stat_worker says of the maintenance workers, and that a table which one fails on
# does not keep it from the others; that the last thing a worker does is to give space back.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('workers', "rose.spill_interval = '10ms'");
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub worker { return sql("SELECT $_[0] FROM rose.stat_worker WHERE datname = 'postgres'") }
sub until_worker { return $node->poll_query_until('postgres', "SELECT $_[0] FROM rose.stat_worker WHERE datname = 'postgres'") }

my $control = RoseTest::Session->new($node);

# a spill
sql('CREATE TABLE spilled (id int PRIMARY KEY) USING rose');
$control->run("SELECT stop_at('spill-written', 'wait', 'worker')");
sql('INSERT INTO spilled SELECT generate_series(1, 100)');
wait_for_stop($node);
is(worker('state, relname, spills, merges, last_error IS NULL'), 'spilling|spilled|0|0|t', 'a worker that spills');
is(worker("backend_start BETWEEN now() - interval '1 hour' AND now(), pid = (SELECT pid FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker' AND datname = 'postgres')"),
	't|t', 'it is running');
$control->run("SELECT go_on('spill-written')");
ok(until_worker("state = 'idle' AND relid IS NULL AND spills = 1"), 'it has spilled');

# merges
sql('CREATE TABLE merged (id int PRIMARY KEY) USING rose');
$control->run("SELECT stop_at('merge-read', 'wait', 'worker')");
for my $i (1 .. 40)
{
	sql("INSERT INTO merged VALUES ($i); SELECT rose.spill('merged')");
	last if sql("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)") eq 't';
}
wait_for_stop($node);
is(worker('state, relname, merges'), 'merging|merged|0', 'a worker that merges');
is(sql("SELECT count(*) FROM rose.stat_worker w JOIN rose.stat_merge_progress m ON w.pid IN (m.c1_merge_pid, m.c2_merge_pid) AND w.relid = m.relid"),
	1, 'as stat_merge_progress says');
$control->run("SELECT go_on('merge-read')");
ok(until_worker("merges > 0 AND relid IS DISTINCT FROM 'merged'::regclass"), 'it has merged');

# an error
sql('CREATE TABLE broken (id int PRIMARY KEY) USING rose');
$control->run("SELECT stop_at('spill-planned', 'error', 'worker')");
sql('INSERT INTO broken VALUES (1)');
ok(until_worker("last_error LIKE '%spill-planned%'"), 'the error of a worker');
is(worker("last_error_relid::regclass, last_error_time BETWEEN now() - interval '1 minute' AND now()"), 'broken|t', 'the table it failed on');
sql('INSERT INTO spilled VALUES (101)');
ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('spilled') WHERE kind = 'memtable' AND rows > 0)"),
	'it goes on with other tables');
is(sql("SELECT sum(rows) FROM rose.components('broken') WHERE kind <> 'memtable'"), '', 'not yet with that one');
is(sql('SELECT id FROM broken'), 1, 'whose rows are there');
is(sql("SELECT relname, left_alone_until BETWEEN now() AND now() + interval '1 minute' FROM rose.stat_merge_progress WHERE left_alone_until IS NOT NULL"),
	'broken|t', 'it is left alone for a while');
$control->end;

# as others see it
sql('CREATE DATABASE elsewhere');
rose_create($node, 'elsewhere');
is($node->safe_psql('elsewhere', "SELECT datname, last_error_relid = " . sql("SELECT 'broken'::regclass::oid") . " FROM rose.stat_worker WHERE spills > 0"), 'postgres|t', 'from another database');
is($node->safe_psql('elsewhere', 'SELECT count(*) FROM rose.stat_worker WHERE relname IS NOT NULL OR schemaname IS NOT NULL'), 0, 'where names mean other tables');
sql('CREATE ROLE somebody');
is(sql('SET ROLE somebody; SELECT count(*) > 0, count(last_error) FROM rose.stat_worker'), 't|0', 'for an ordinary user');
is(sql('GRANT pg_read_all_stats TO somebody; SET ROLE somebody; SELECT count(last_error) FROM rose.stat_worker'), 1, 'for one who reads all statistics');

# what became free goes back to the file system once the table is quiet
sql("CREATE TABLE large (id int PRIMARY KEY, t text) USING rose");
sql("INSERT INTO large SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(1, 300000) g");
my $before = sql("SELECT pg_relation_size('large')");
sql('DELETE FROM large WHERE id > 100');
ok($node->poll_query_until('postgres', "SELECT pg_relation_size('large') < $before - 8 * 1024 * 1024"), 'the end of the file is cut off');
is(sql("SELECT sum(id) FROM large"), 5050, 'the rest is there');
$node->restart;
is(sql("SELECT sum(id) FROM large"), 5050, 'and after a restart');
is(sql("SELECT count(*) FROM rose.check('large')"), 0, 'and in order');

$node->stop;
done_testing();
