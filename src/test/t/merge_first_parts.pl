
# A table that has no C2 yet: C1, which has all that is merged, is made in parts, so that the file needs room for
# a part beside what it has, not for all of it again. Between two parts, and after a crash there, everybody sees what he should: rows that were
# written again, deleted, moved to another key and taken back.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has no components' if $ENV{ROSE_STANDIN};

my $node = rose_node('first', "rose.debug_piece_size = '256kB'", 'rose.max_merge_workers = 0', 'autovacuum = off', "rose.spill_interval = '1h'",
	'restart_after_crash = on');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub count_of { return sql("SELECT count(*) FROM rose.components('$_[0]') WHERE kind = '$_[1]'") }

sub compare
{
	my ($table, $what) = @_;

	is(table_hash($node, $table), table_hash($node, "h_$table"), "$table: the rows $what");
	is(sql("SELECT count(*) FROM rose.check('$table')"), 0, "$table: rose.check $what");
	return;
}

my %tables = (
	keyed => [ 'id text PRIMARY KEY, v int, t text', "md5(g::text)", "id > 'c' AND id < 'c8'" ],
	composite => [ 'v int, id text, t text, PRIMARY KEY (id, v)', "md5(g::text)", "id > 'c' AND id < 'c8'" ],
	keyless => [ 'id text, v int, t text', "md5(g::text)", "id > 'c' AND id < 'c8'" ]);

# A run of new rows, and of changes to old ones; the same on both.
sub change
{
	my ($table, $round) = @_;
	my (undef, $key, $some) = @{ $tables{$table} };
	my ($from, $to) = ($round * 100000, $round * 100000 + 12000);

	foreach my $name ($table, "h_$table")
	{
		sql(<<"SQL");
INSERT INTO $name (id, v, t) SELECT $key, g % 1000, md5('t' || g) FROM generate_series($from, $to) g;
BEGIN;
UPDATE $name SET t = 'again $round' WHERE v % 20 = $round;
SAVEPOINT a;
DELETE FROM $name WHERE v % 20 = $round + 1;
ROLLBACK TO a;
DELETE FROM $name WHERE v % 50 = $round;
COMMIT;
UPDATE $name SET id = 'x$round' || id, v = v + 1 WHERE $some AND v % 7 = 0;
SQL
	}
	sql("SELECT rose.spill('$table')");
	return;
}

my $quiet = "SELECT count(*) = 0 FROM rose.stat_components WHERE kind = 'run'";

# --- the file: what is merged has room of its own only by parts
sql('CREATE TABLE size (id text PRIMARY KEY, t text) USING rose');
foreach my $round (1, 2)
{
	foreach my $run (1 .. 4)
	{
		sql("INSERT INTO size SELECT md5(g::text), md5('t' || g) FROM generate_series($round$run * 100000, $round$run * 100000 + 20000) g; SELECT rose.spill('size')");
	}
	merge_workers($node, 1);
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.components('size') WHERE kind = 'run'") or die 'no merge into C1';
	merge_workers($node, 0);
	$node->restart;
}
my ($file, $live, $c2) = split /\|/, sql("SELECT pg_relation_size('size'), sum(bytes), count(*) FILTER (WHERE kind = 'C2') FROM rose.components('size')");
note("$file bytes of the file, $live of C1");
is($c2, 0, 'all is in C1');
cmp_ok($file, '<', 1.8 * $live, 'the file after a merge of C1 with as much again');

foreach my $table (sort keys %tables)
{
	sql("CREATE TABLE $_ ($tables{$table}[0]) USING " . ($_ eq $table ? 'rose' : 'heap')) foreach $table, "h_$table";
	change($table, $_) foreach 1 .. 4;
}
merge_workers($node, 1);
$node->poll_query_until('postgres', $quiet) or die 'no merge into C1';
foreach my $table (sort keys %tables)
{
	is(count_of($table, 'C2'), 0, "$table: there is no C2");
	cmp_ok(count_of($table, 'C1'), '>', 2, "$table: C1 has several parts");
	compare($table, 'with parts of C1');
}
merge_workers($node, 0);
$node->restart;

# --- the next merge, of all parts and four runs: it stands between two new parts, and the server dies there
foreach my $table (sort keys %tables)
{
	my $old = count_of($table, 'C1');
	my $control = RoseTest::Session->new($node);
	my $reader = RoseTest::Session->new($node);

	change($table, $_) foreach 5 .. 8;
	my $sum = "SELECT count(*), sum(v), sum(hashtext(t)) FROM $table";
	$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $seen = $reader->run($sum);
	$control->run("SELECT stop_at('merge-published', 'wait', 'worker', 2)");
	sql("DELETE FROM $_ WHERE v = 77") foreach $table, "h_$table";
	merge_workers($node, 1);
	wait_for_stop($node);
	is(count_of($table, 'run'), 4, "$table: the runs are there between two parts");
	compare($table, 'between two parts');
	is($reader->run($sum), $seen, "$table: an old snapshot reads the same");
	crash($node);
	$_->end foreach $control, $reader;
	RoseTest::poll_start($node);
	compare($table, 'after a crash between two parts');
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.components('$table') WHERE kind = 'run'") or die 'no merge into C1';
	compare($table, 'after the merge');
	merge_workers($node, 0);
	$node->restart;
}

foreach my $table (sort keys %tables)
{
	sql("SELECT rose.merge('$table')");
	compare($table, 'merged');
}

$node->stop;
done_testing();
