# A worker chooses what to merge before it has the table's lock. Meanwhile another worker, which was merging the table, publishes
# a part of what it makes, and dies. What was chosen is stale then: newer runs must not be merged past that part.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('stale', "rose.memtable_size = '32MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', "rose.debug_piece_size = '8kB'", 'autovacuum = off', 'fsync = off');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $control = RoseTest::Session->new($node);

# C2 and eight runs: a merge into C1 of several parts is due, large enough for a worker of its own. Who comes first may begin both: then anew.
my %merger;
foreach my $try (1 .. 30)
{
	foreach my $table ('a', 'b')
	{
		sql("DROP TABLE IF EXISTS $table; CREATE TABLE $table (id int PRIMARY KEY, v int, t text) USING rose; INSERT INTO $table SELECT g, 0, md5(g::text) || md5((g + 1)::text) FROM generate_series(1, 60000) g; SELECT rose.merge('$table')");
		sql("UPDATE $table SET v = 1 WHERE id % 8 = $_; SELECT rose.spill('$table')") for 0 .. 7;
	}
	$control->run("SELECT stop_at('merge-built', 'wait', 'worker', 0, 2)");
	merge_workers($node, 2);
	my $locks = "FROM pg_locks WHERE locktype = 'page' AND granted AND relation IN ('a'::regclass, 'b'::regclass)";
	$node->poll_query_until('postgres', "SELECT count(*) = 2 AND (count(DISTINCT pid) = 1 OR (SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)) $locks") or last;
	%merger = map { split /\|/ } split /\n/, sql("SELECT relation::regclass, pid $locks");
	last if $merger{a} != $merger{b};
	diag("one worker merges both tables, try $try");
	merge_workers($node, 0);
	$control->run('SELECT stop_clear()');
	$control->run("SELECT go_on('merge-built')");
	sql("SELECT pg_terminate_backend($merger{a})");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $merger{a}") or last;
}
is(join(',', sort keys %merger), 'a,b', 'two workers have made an output, of a table each');
isnt($merger{a}, $merger{b}, '... each of them');

# Newer runs, and the other worker looks at the table.
sql("UPDATE a SET v = $_ WHERE id <= 1000; SELECT rose.spill('a')") for 2, 3;
$control->run("SELECT stop_at('merge-picked', 'wait', 'worker', 0, 1)");
is(sql("SELECT pg_cancel_backend($merger{b})"), 't', 'the other worker turns to the table');
ok($node->poll_query_until('postgres', "SELECT stop_hits('merge-picked') = 1"), '... and has chosen what to merge');

# The first one publishes a part, and dies.
$control->run("SELECT stop_at('merge-published', 'terminate', 'worker', 0, 1)");
$control->run("SELECT go_on('merge-built')");
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $merger{a}"), 'who merged the table is gone');
cmp_ok(sql("SELECT count(*) FROM rose.components('a') WHERE kind = 'C1'"), '>', 0, '... and has left a part of C1');
$control->run("SELECT go_on('merge-picked')");

# What remains is merged, and nothing newer lies behind anything older.
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.components('$_') WHERE kind = 'run'"), "$_ is merged") for 'a', 'b';
is(sql("SELECT count(*), sum(v) FROM a"), '60000|62000', 'rows');
is(sql("SELECT count(*), sum(v) FROM b"), '60000|60000', 'rows of the other table');
is(sql("SELECT count(*) FROM rose.check('$_')"), 0, "rose.check of $_") for 'a', 'b';
sql("SELECT rose.merge('a')");
is(sql("SELECT count(*), sum(v) FROM a"), '60000|62000', 'rows after a merge of all');

$control->end;
$node->stop;
done_testing();
