# A merge makes several components. None of them ends within the versions of a key, also if the
# newest of these were rolled back, and are left out: what has moved of a run ends with a key.
use strict;
use warnings;

use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no merges' if $ENV{ROSE_STANDIN};

my $node = rose_node('cut', "rose.memtable_size = '4MB'", "rose.debug_piece_size = '16kB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub content { return sql("SELECT count(*), sum(v), sum(id), min(v), max(v) FROM $_[0]") }

# Each key has a version that was rolled back, and older ones. The merge fails after each part in turn.
foreach my $rows (3000, 3500)
{
	my $table = "t$rows";
	my $failed = 0;
	my @problems;

	sql("CREATE TABLE $table (id int PRIMARY KEY, v int, pad text) USING rose");
	sql("INSERT INTO $table SELECT g, 0, repeat(md5(g::text), 2) FROM generate_series(1, $rows) g");
	sql("SELECT rose.merge('$table')");
	sql(<<"SQL");
BEGIN;
UPDATE $table SET v = 1;
SAVEPOINT s;
UPDATE $table SET v = 2;
SELECT rose.spill('$table');
ROLLBACK TO s;
COMMIT;
SQL
	is(sql("SELECT string_agg(DISTINCT kind, ' ') FROM rose.components('$table')"), 'C2 private run', "$rows rows: a run of a transaction");
	my $before = content($table);
	while (1)
	{
		sql("SELECT stop_at('merge-published', 'error', 'client')");
		my $message = error_of($node, "SELECT rose.merge('$table')");
		sql('SELECT stop_clear()');
		last if $message !~ /at stop point/;
		$failed++;
		push @problems, sql("SELECT msg FROM rose.check('$table')");
		push @problems, 'other rows' if content($table) ne $before;
	}
	cmp_ok($failed, '>', 2, 'it is merged in parts');
	is(join("\n", grep { $_ ne '' } @problems), '', 'after each part, what has moved ends with a key, and the rows are there');
	is(content($table), $before, 'and when all is merged');
}

$node->stop;
done_testing();
