
# Numerics that pages hold as dictionaries: conditions and arithmetic of Rose Scan and Rose Aggregate, which make integers of the entries alone, say what heap says.
#
# Columns have few values, many, and more than there are codes for; of one scale and of several; with NULLs, NaN and numerics of many digits among them, in all pages or in
# some. Sums show how many digits their rows show, so those of entries that no row has must not count.
#
#   NUMERIC_SEED      repeat a run
#   NUMERIC_QUERIES   how many queries; default 150
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no Rose Scan' if $ENV{ROSE_STANDIN};

my $seed = seed_random('NUMERIC_SEED');
my $queries = $ENV{NUMERIC_QUERIES} // 150;
my $rows = 12000;
my $node = rose_node('numeric_entries', 'autovacuum = off', 'max_parallel_workers_per_gather = 0');

# of the row's number i
my %columns = (
	few => '(i * 7919 % 11) * 0.01',
	thirty => '(i * 7919 % 61 - 30)::numeric(15,2)',
	many => '(i * 7919 % 5003) * 0.01',
	mixed => q{(ARRAY[1, 1.0, 1.00, -2.50, 0, 17.125]::numeric[])[1 + i * 31 % 6]},
	nulls => 'CASE WHEN i % 13 <> 5 THEN (i % 9) * 0.25 END',
	special => q{CASE WHEN i > 6000 AND i % 97 = 3 THEN 'NaN' WHEN i > 9000 AND i % 89 = 4 THEN 12345678901234567890123.5 ELSE (i % 15) * 0.1 END},
	one => '42.50::numeric');
my @names = sort keys %columns;
my ($compared, $problems, $vectorized) = (0, 0, 0);

sub pick { return $_[ rand @_ ]; }

sub condition
{
	my $column = pick(@names);

	return "$column " . pick('<', '<=', '=', '>=', '>', '<>') . ' ' . pick(0, '0.05', '0.050', 1, '1.0', '-2.5', 7, '24.00', '42.5', "'NaN'::numeric", '12.345', '1e30') if rand() < 0.7;
	return "$column BETWEEN " . pick('0.05', -3, 0) . ' AND ' . pick('0.07', 10, '1.25') if rand() < 0.5;
	return "$column = ANY ('{0.05, 1.00, -2.5, 42.5}')" if rand() < 0.5;
	return "$column IS " . pick('NULL', 'NOT NULL');
}

sub query
{
	my ($a, $b, $c) = map { pick(@names) } 1 .. 3;
	my $where = rand() < 0.85 ? ' WHERE ' . join(pick(' AND ', ' OR '), map { condition() } 1 .. 1 + rand 3) : '';

	return pick(
		"SELECT count(*), sum($a), avg($b) FROM t$where",
		"SELECT sum($a * $b), sum($a * (1 - $b)), count($c) FROM t$where",
		"SELECT g, count(*), sum($a * $c), sum($b) FROM t$where GROUP BY g ORDER BY g",
		"SELECT i, $a, $b FROM t$where ORDER BY i LIMIT " . pick(5, 500),
		"SELECT sum(CASE WHEN $a > 1 THEN $b ELSE 0 END) FROM t$where");
}

foreach my $twin (qw(heap rose))
{
	$node->safe_psql('postgres', join('; ', "CREATE SCHEMA twin_$twin", "CREATE TABLE twin_$twin.t (i int PRIMARY KEY, g int, " . join(', ', map { "$_ numeric" } @names) . ") USING $twin",
		"INSERT INTO twin_$twin.t SELECT i, i % 7, " . join(', ', @columns{@names}) . " FROM generate_series(1, $rows) i", "ANALYZE twin_$twin.t"));
}
$node->safe_psql('postgres', q{SELECT rose.merge('twin_rose.t')});
my %session = map { $_ => RoseTest::Session->new($node) } qw(heap rose);
$session{$_}->run("SET search_path = twin_$_") foreach keys %session;
foreach my $n (1 .. $queries)
{
	my $query = query();
	my %answer;

	if ($n == int($queries * 2 / 3))
	{
		# some leaves have newer rows between theirs
		$session{$_}->run("UPDATE t SET few = few + 0.01, mixed = 5.000 WHERE i % 41 = 7") foreach keys %session;
		$session{rose}->run("SELECT rose.spill('t')");
	}
	$session{rose}->run('SET rose.vector_rows = ' . pick(1, 30, 700, 2048)) if rand() < 0.3;
	$answer{$_} = $session{$_}->run($query) foreach keys %session;
	$compared++;
	$vectorized++ if $n % 5 == 0 && $session{rose}->run("EXPLAIN (COSTS off) $query") =~ /Vectorized/;
	next if $answer{heap} eq $answer{rose};
	diag("$query:\n  heap: " . substr($answer{heap}, 0, 300) . "\n  rose: " . substr($answer{rose}, 0, 300)) if $problems++ < 5;
}
is($problems, 0, "$compared answers were the same on heap and on rose");
cmp_ok($vectorized, '>', $queries / 10, 'many plans take columns');

done_testing();
