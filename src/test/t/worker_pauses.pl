# A table on which workers fail again and again is left alone for longer each time, which the views show, and its other maintenance
# goes on. When it is altered, or spilled or merged by hand, workers come back at once.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('pauses', "rose.spill_interval = '10ms'", "rose.debug_failure_pause = '200ms'", 'autovacuum = off');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub until_true { return $node->poll_query_until('postgres', $_[0]) }
sub progress { return sql("SELECT $_[1] FROM rose.stat_merge_progress WHERE relname = '$_[0]'") }

# From now on a table that has failed so often is left alone for longer than the test takes.
sub pause_for_long
{
	sql("ALTER SYSTEM SET rose.debug_failure_pause = '60s'");
	sql('SELECT pg_reload_conf()');
	return;
}

my $control = RoseTest::Session->new($node);
my $is_spilled = "SELECT NOT EXISTS (SELECT FROM rose.components('%s') WHERE kind = 'memtable' AND rows > 0)";

# ---- spills that fail
sql('CREATE TABLE broken (id int PRIMARY KEY) USING rose');
$control->run("SELECT stop_at('spill-planned', 'error', 'worker', 0, 0)");
sql('INSERT INTO broken VALUES (1)');
foreach my $n (1 .. 4)
{
	ok(until_true("SELECT failures >= $n FROM rose.stat_merge_progress WHERE relname = 'broken'"), "failure $n");
}
is(sql("SELECT m.left_alone_until - w.last_error_time >= interval '1.6 s' FROM rose.stat_merge_progress m, rose.stat_worker w WHERE m.relname = 'broken' AND w.last_error_relid = m.relid"),
	't', 'each time the pause is twice as long');
like(sql('SELECT last_error FROM rose.stat_worker WHERE helper IS NULL OR helper = 0'), qr/spill-planned/, 'the error is told');
is(sql('SELECT id FROM broken'), 1, 'rows are there');

pause_for_long();
my $failures = progress('broken', 'failures') + 0;
ok(until_true("SELECT left_alone_until > now() + interval '6 minutes' FROM rose.stat_merge_progress WHERE relname = 'broken'"), 'it is left alone for minutes');
$control->run('SELECT stop_clear()');
sql('ALTER TABLE broken ALTER id SET STATISTICS 10');
ok(until_true(sprintf $is_spilled, 'broken'), 'and spilled when it has been altered');
is(progress('broken', 'left_alone_until IS NULL AND failures IS NULL'), 't', 'there is no pause any more');

# ---- merges that fail
sql("ALTER SYSTEM SET rose.debug_failure_pause = '200ms'");
sql('SELECT pg_reload_conf()');
sql('CREATE TABLE unmerged (id int PRIMARY KEY) USING rose');
$control->run("SELECT stop_at('merge-built', 'error', 'worker', 0, 0)");
foreach my $i (1 .. 12)
{
	sql("INSERT INTO unmerged VALUES ($i); SELECT rose.spill('unmerged')");
}
ok(until_true("SELECT failures >= 4 FROM rose.stat_merge_progress WHERE relname = 'unmerged'"), 'merges fail');
pause_for_long();
ok(until_true("SELECT left_alone_until > now() + interval '6 minutes' FROM rose.stat_merge_progress WHERE relname = 'unmerged'"), 'and are not tried for minutes');
sql('INSERT INTO unmerged VALUES (100)');
ok(until_true(sprintf $is_spilled, 'unmerged'), 'but the table is spilled');
is(progress('unmerged', "left_alone_until > now() + interval '5 minutes'"), 't', 'which does not end the pause');
$control->run('SELECT stop_clear()');
sql("SELECT rose.spill('unmerged')");
ok(until_true("SELECT runs < 8 FROM rose.stat_merge_progress WHERE relname = 'unmerged'"), 'it is merged when somebody has spilled it');
is(sql('SELECT count(*) FROM unmerged'), 13, 'all rows are there');

$control->run("SELECT stop_at('merge-built', 'error', 'worker', 0, 0)");
foreach my $i (201 .. 212)
{
	sql("INSERT INTO unmerged VALUES ($i); SELECT rose.spill('unmerged')");
}
ok(until_true("SELECT left_alone_until IS NOT NULL FROM rose.stat_merge_progress WHERE relname = 'unmerged'"), 'merges fail again');
sql("SELECT rose.merge('unmerged')");
is(progress('unmerged', 'left_alone_until IS NULL'), 't', 'and may be tried when somebody has merged it');
is(sql("SELECT count(*) FROM rose.check('unmerged')"), 0, 'nothing is wrong');
$control->end;

$node->stop;
done_testing();
