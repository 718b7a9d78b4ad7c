
# A merge of runs into C1 goes past the private run of a transaction in progress, and makes several
# parts. All of them come to lie behind that run, also when the first ones have nothing of the
# inputs that lie behind it: else the old rows would hide what the transaction wrote.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no runs' if $ENV{ROSE_STANDIN};

my $node = rose_node(
	'passed_over', "rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'", "rose.spill_interval = '1h'",
	'rose.max_merge_workers = 0');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# runs and C1, from the newest to the oldest
sub components
{
	return sql("SELECT string_agg(kind || ' ' || rows, ', ') FROM rose.components('t') WHERE kind <> 'C2'");
}

sql('CREATE TABLE t (id int PRIMARY KEY, v int) USING rose');
sql('INSERT INTO t SELECT g, 0 FROM generate_series(10001, 20000) g');
sql("SELECT rose.merge('t')");
sql('UPDATE t SET v = 1 WHERE id BETWEEN 10001 AND 12000');
sql("SELECT rose.spill('t')");

# so much that it gets a run of its own
my $writer = $node->background_psql('postgres');
$writer->query_safe('BEGIN; UPDATE t SET v = 2 WHERE id BETWEEN 10001 AND 13000');
sql("SELECT rose.spill('t')");

# newer runs whose keys come before those of the older one
foreach my $n (0 .. 2)
{
	sql("INSERT INTO t SELECT g, 0 FROM generate_series($n * 1500 + 1, $n * 1500 + 1500) g");
	sql("SELECT rose.spill('t')");
}
is(components(), 'run 1500, run 1500, run 1500, private run 3000, run 2000', 'runs around a private one');

merge_workers($node, 1);
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.components('t') WHERE kind = 'run'")
  or die 'no merge into C1';
merge_workers($node, 0);
like(components(), qr/^private run 3000, C1 \d+, C1 \d+/, 'the parts of C1 lie behind the private run');
$writer->query_safe('COMMIT');
$writer->quit;

my $expected = '3000|7000|4500';
my $sums = 'SELECT count(*) FILTER (WHERE v = 2), count(*) FILTER (WHERE v = 0 AND id > 10000), count(*) FILTER (WHERE id <= 10000) FROM t';
is(sql($sums), $expected, 'a scan finds what the transaction wrote');
is(sql("SET enable_seqscan = off; SELECT count(*) FROM generate_series(10001, 13000) g WHERE (SELECT v FROM t WHERE id = g) = 2"),
	3000, 'and so do lookups');
is(sql("SELECT * FROM rose.check('t')"), '', 'rose.check');
sql("SELECT rose.merge('t')");
is(sql($sums), $expected, 'also after a merge');
is(sql("SELECT * FROM rose.check('t')"), '', 'rose.check after that');

$node->stop;
done_testing();
