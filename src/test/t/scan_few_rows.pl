
# Conditions that leave few rows, of which Rose Scan picks the values that others need, several conditions of one column, which it asks at once, and aggregates of what is left: what heap says.
#
# Columns are of all sorts that pages have other codecs for, with and without NULLs. Tables are settled, then with newer rows among them, then in memory.
#
#   FEW_SEED      repeat a run
#   FEW_QUERIES   how many queries; default 240
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no Rose Scan' if $ENV{ROSE_STANDIN};

my $seed = seed_random('FEW_SEED');
my $queries = $ENV{FEW_QUERIES} // 240;
my $rows = 9000;
my $node = rose_node('few_rows', 'autovacuum = off', 'max_parallel_workers_per_gather = 0', 'rose.max_merge_workers = 0');

# Column: type, of the row's number i, what it is compared with.
my %columns = (
	chance => [ 'int', '(i * 7919 % 1009)', sub { int rand 1009 } ],
	narrow => [ 'smallint', '(i * 31 % 200 - 100)::smallint', sub { int(rand 220) - 110 } ],
	runs => [ 'int', '(i / 40 * 7919 % 23 - 11)', sub { int(rand 25) - 12 } ],
	late => [ 'bigint', '(i::bigint * 60000000 + i * 7919 % 17)', sub { int(rand $rows) . '::bigint * 60000000' } ],
	gaps => [ 'int', 'CASE WHEN i * 13 % 29 > 3 THEN i * 7919 % 101 END', sub { int rand 101 } ],
	day => [ 'date', q{'1994-01-01'::date + i * 7919 % 2557}, sub { "'199" . int(rand 10) . "-0" . (1 + int rand 9) . "-01'::" . pick('date', 'timestamp') } ],
	price => [ 'float8', '(i * 7919 % 100003) / 100.0', sub { int(rand 1000) + 0.5 } ],
	rate => [ 'float8', 'CASE WHEN i % 1300 = 7 THEN \'NaN\' WHEN i % 17 <> 3 THEN (i * 7919 % 11) / 100.0 END', sub { pick('0.05', '0.07', "'NaN'::float8", '-0.0::float8') } ],
	single => [ 'float4', '(i * 7919 % 61) / 8.0', sub { pick('1.5::float4', '3.25::float8', '7') } ],
	few => [ 'numeric(15,2)', '(i * 7919 % 11) * 0.01', sub { pick('0.05', '0.07', '0.030', '1e10', '-1', '0.0451') } ],
	many => [ 'numeric(15,2)', '(i::bigint * 104729 % 90001) * 1.07', sub { int(rand 96000) . '.5' } ],
	odd => [ 'numeric', q{CASE WHEN i > 5000 AND i % 97 = 3 THEN 'NaN' WHEN i % 53 <> 4 THEN (ARRAY[1, 1.0, 2.50, 12345678901234567890123.5]::numeric[])[1 + i * 31 % (CASE WHEN i < 3000 THEN 3 ELSE 4 END)] END}, sub { pick(1, '2.5', '1e20', "'NaN'::numeric") } ],
	word => [ 'text', q{'word ' || i * 7919 % 37}, sub { "'word " . int(rand 40) . "'" } ],
	o => [ 'oid', '(i * 7919 % 5)::oid', sub { int(rand 6) . '::oid' } ]);
my @names = sort keys %columns;
my %show = map { $_ => $columns{$_}[0] =~ /float/ ? "($_ + 0)" : $_ } @names;
my ($compared, $problems, $vectorized) = (0, 0, 0);

sub pick { return $_[ rand @_ ]; }

sub comparison
{
	my ($name) = @_;
	my $of = $columns{$name}[0] eq 'oid' || rand() < 0.1 ? pick('=', '<>') : pick('<', '<=', '>', '>=');

	return "$name $of (SELECT " . $columns{$name}[2]->() . ')' if rand() < 0.05;
	return "$name IS " . pick('NULL', 'NOT NULL') if rand() < 0.08;
	return "$name = ANY (ARRAY[" . join(', ', map { $columns{$name}[2]->() } 1 .. 3) . "])" if rand() < 0.08;
	return "$name $of NULL" if rand() < 0.01;
	return "$name * 2 > " . int(rand 150) if $name eq 'chance' && rand() < 0.1;
	return rand() < 0.5 ? "$name $of " . $columns{$name}[2]->() : "NOT $name $of " . $columns{$name}[2]->();
}

# Of one column several, which may leave nothing.
sub conditions
{
	my @all = rand() < 0.8 ? 'chance < ' . pick(1, 5, 30, 60, 130, 500) : ();

	foreach (1 .. 1 + rand 3)
	{
		my $name = pick(@names);
		push @all, map { comparison($name) } 1 .. pick(1, 1, 2, 2, 3);
	}
	splice @all, rand @all, 0, shift @all if rand() < 0.3;
	return join(' AND ', @all);
}

sub query
{
	my ($a, $b) = map { pick(grep { !/word|^o$/ } @names) } 1 .. 2;
	my $where = conditions();
	my $numeric = pick('few', 'many', 'odd');

	return pick(
		"SELECT count(*), sum(chance), sum(narrow), min(day), max(late) FROM t WHERE $where",
		"SELECT sum(many * few), sum($numeric), sum(few * (1 - few)) FROM t WHERE $where",
		"SELECT min($show{$a}), max($show{$b}), count($b), min(word) FROM t WHERE $where",
		"SELECT round(sum(price)::numeric, 3), round(sum(price * 2)::numeric, 3), avg(narrow) FROM t WHERE $where",
		"SELECT runs, count(*), sum($numeric), max($show{$a}) FROM t WHERE $where GROUP BY runs ORDER BY runs",
		"SELECT i, $show{$a}, $show{$b} FROM t WHERE $where ORDER BY i LIMIT " . pick(3, 400));
}

foreach my $twin (qw(heap rose))
{
	$node->safe_psql('postgres', join('; ', "CREATE SCHEMA twin_$twin", "CREATE TABLE twin_$twin.t (i int PRIMARY KEY, " . join(', ', map { "$_ $columns{$_}[0]" } @names) . ") USING $twin",
		"INSERT INTO twin_$twin.t SELECT i, " . join(', ', map { $columns{$_}[1] } @names) . " FROM generate_series(1, $rows) i", "ANALYZE twin_$twin.t"));
}
$node->safe_psql('postgres', q{SELECT rose.merge('twin_rose.t')});
my %session = map { $_ => RoseTest::Session->new($node) } qw(heap rose);
$session{$_}->run("SET search_path = twin_$_; SET extra_float_digits = 1") foreach keys %session;
foreach my $n (1 .. $queries)
{
	my $query = query();
	my %answer;

	if ($n == int($queries / 2))
	{
		$session{$_}->run("UPDATE t SET few = few + 0.01, gaps = i % 3, price = -price WHERE i % 41 = 7") foreach keys %session;
		$session{rose}->run("SELECT rose.spill('t')");
	}
	if ($n == int($queries * 3 / 4))
	{
		$session{$_}->run("TRUNCATE t; INSERT INTO t SELECT i, " . join(', ', map { $columns{$_}[1] } @names) . " FROM generate_series(1, $rows) i") foreach keys %session;
	}
	$session{rose}->run('SET rose.vector_rows = ' . pick(1, 30, 700, 2048, 2048)) if rand() < 0.3;
	$session{$_}->run('SET plan_cache_mode = ' . pick('auto', 'force_generic_plan')) foreach keys %session;
	$answer{$_} = $session{$_}->run($query) foreach keys %session;
	$compared++;
	$vectorized++ if $n % 5 == 0 && $session{rose}->run("EXPLAIN (COSTS off) $query") =~ /Vectorized/;
	next if $answer{heap} eq $answer{rose};
	diag("FEW_SEED=$seed, $query:\n  heap: " . substr($answer{heap}, 0, 300) . "\n  rose: " . substr($answer{rose}, 0, 300)) if $problems++ < 5;
}
is($problems, 0, "$compared answers were the same on heap and on rose");
cmp_ok($vectorized, '>', $queries / 10, 'many plans take columns');

done_testing();
