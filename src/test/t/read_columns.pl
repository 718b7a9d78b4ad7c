
# Columns: tables of random columns (fixed and variable, by value and by reference, with NULLs, generated, dropped,
# and added with a default when there were rows), of which the first ones, some or all are read by all ways of reading,
# while the rows are in memory, in components, and in both; and one or two that nothing else names, beside conditions on
# others, by indexes. The answers are heap's.
#
#   COLUMNS_SEED    repeat a run
#   COLUMNS_TABLES  how many; default 5
#   COLUMNS_WAYS    in how many of the two ways each column is read by itself, in each state of a table; default 1, the one and the other
#                   in turn, with ROSE_SEED=random 2
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in is heap' if $ENV{ROSE_STANDIN};

my $seed = seed_random('COLUMNS_SEED');
my $tables = $ENV{COLUMNS_TABLES} // 5;
my $all_ways = ($ENV{COLUMNS_WAYS} // how_many(1, 2)) > 1;
my $turn = 0;
my ($compared, $problems, $made) = (0, 0, 0);

# Type, and a value as an expression of a number.
my @types = (
	[ 'int2', '(%1$s %% 30000)::int2' ], [ 'int4', '(%1$s * 7)::int4' ], [ 'int8', '%1$s::int8 * %1$s' ],
	[ '"char"', 'chr(65 + %1$s::int %% 26)::"char"' ], [ 'bool', '%1$s %% 3 = 0' ], [ 'float4', '(%1$s / 7.0)::float4' ],
	[ 'float8', '(%1$s / 3.0)::float8' ], [ 'uuid', 'md5(%1$s::text)::uuid' ], [ 'name', q{('n' || %1$s)::name} ],
	[ 'text', q{repeat('x', (%1$s %% 40)::int) || %1$s} ], [ 'text', 'repeat(md5(%1$s::text), 12)' ],
	[ 'text', q{repeat('abc', 2000) || %1$s} ], [ 'numeric', '%1$s / 11.0' ], [ 'interval', q{%1$s * interval '1 min'} ],
	[ 'timestamptz', q{timestamptz '2026-01-01 UTC' + %1$s * interval '1 s'} ], [ 'int[]', 'ARRAY[%1$s::int, 2, 3]' ],
	[ 'bytea', 'decode(md5(%1$s::text), %2$shex%2$s)' ], [ 'char(7)', '(%1$s %% 1000)::text::char(7)' ], [ 'date', q{date '2026-01-01' + (%1$s %% 1000)::int} ],
	[ 'point', 'point(%1$s, 2)' ], [ 'jsonb', q{jsonb_build_object('a', %1$s)} ]);

my $node = rose_node('columns', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', scan_settings(), 'autovacuum = off', "TimeZone = 'UTC'");
my %session = map { $_ => RoseTest::Session->new($node) } qw(heap rose);

foreach my $twin (qw(heap rose))
{
	$session{$twin}->run("CREATE SCHEMA twin_$twin; SET search_path = twin_$twin; SET extra_float_digits = 1");
}

sub pick { return $_[ rand @_ ]; }

sub both
{
	my ($sql) = @_;
	my %answer = map { $_ => $session{$_}->run($sql =~ s/\bAM\b/$_/gr) } qw(heap rose);

	$compared++;
	return if $answer{heap} eq $answer{rose};
	$problems++;
	diag("COLUMNS_SEED=$seed: $sql: heap '" . substr($answer{heap}, 0, 300) . "', rose '" . substr($answer{rose}, 0, 300) . "'");
	return;
}

# A value of a column, which is sometimes, always or never NULL.
sub value
{
	my ($column) = @_;
	my $value = sprintf($column->{expr}, 'i', q{'});

	return $column->{nulls} == 0 ? $value : "CASE WHEN (i * 31 + $column->{salt}) % 10 < $column->{nulls} THEN NULL ELSE $value END";
}

sub new_column
{
	my ($name) = @_;
	my $type = pick(@types);

	return { name => $name, type => $type->[0], expr => $type->[1], nulls => pick(0, 0, 0, 1, 9, 10), salt => int(rand(10)) };
}

sub insert_rows
{
	my ($t, $from, $to) = @_;
	my @set = grep { !$_->{generated} } @{ $t->{columns} };

	both("INSERT INTO $t->{name} (" . join(', ', map { $_->{name} } @set) . ') SELECT '
		  . join(', ', map { $_->{name} eq 'id' ? 'i' : value($_) } @set) . " FROM generate_series(${from}::bigint, $to) i ORDER BY i * 7919 % 10007");
	return;
}

# A few rows by the indexes, of which one or two columns are read, and others for a condition: sometimes of some of the
# rows alone.
sub read_few
{
	my ($t) = @_;
	my @names = map { $_->{name} } @{ $t->{columns} };
	my $is = sub { pick(@names) . pick(' IS NULL', ' IS NOT NULL', ' IS NOT NULL') };
	my @ids = map { 1 + int(rand(700)) } 1 .. 8;

	foreach my $where (
		"id % 50 = $ids[0] % 50 AND " . $is->(),
		"id BETWEEN $ids[1] AND $ids[1] + 30 AND " . $is->(),
		"id % 50 = $ids[2] % 50 OR (id IN ($ids[3], $ids[4], $ids[5]) AND " . $is->() . ')',
		"(id % 50 = $ids[6] % 50 AND " . $is->() . ") OR (id BETWEEN $ids[7] AND $ids[7] + 9 AND " . $is->() . ') OR id % 50 = 7')
	{
		my ($one, $other) = map { "coalesce($_\::text, '~')" } pick(@names), pick(@names);

		both("SELECT $one, $other FROM $t->{name} WHERE $where ORDER BY 1, 2");
		both("SELECT count(*), sum(hashtext($one)::bigint) FROM $t->{name} WHERE $where");
	}
	my ($one) = map { "coalesce($_\::text, '~')" } pick(@names);
	both("SELECT count(*), sum(hashtext(x.v)::bigint) FROM generate_series(1, 600, 37) g, LATERAL (SELECT $one AS v FROM $t->{name} WHERE id % 50 = g % 50 OR (id = g AND "
		  . $is->() . ') OFFSET 0) x');
	return;
}

sub read_all
{
	my ($t) = @_;
	my @names = map { $_->{name} } @{ $t->{columns} };
	my $hash = sub { 'count(*), md5(string_agg(' . join(q{ || '|' || }, map { "coalesce($_\::text, '~')" } @_) . ", ',' ORDER BY id))" };

	$turn++;
	foreach my $ways ('SET enable_seqscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off',
		'SET enable_seqscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on; SET enable_bitmapscan = off')
	{
		both($ways);
		$turn++;
		both('SELECT ' . $hash->($names[$_]) . " FROM $t->{name}") foreach grep { $all_ways || ($_ + $turn) % 2 } 0 .. $#names;
		both('SELECT ' . $hash->(@names[ 0 .. $_ ]) . " FROM $t->{name}") foreach map { int rand @names } 1 .. 2;
		both("SELECT * FROM $t->{name} WHERE id > " . int(rand(500)) . ' ORDER BY id');
		# a few rows need more than the others
		both('SELECT ' . $hash->($names[-1]) . " FROM $t->{name} WHERE " . pick(@names) . ' IS NULL OR id % 10 = 3');
		both("SELECT id FROM $t->{name} WHERE id BETWEEN 100 AND 420 ORDER BY id");
		both("SELECT count(*), min(id), max(id) FROM $t->{name} WHERE id > 17");
	}
	read_few($t);
	both("SELECT x.* FROM generate_series(1, 600, 37) g, LATERAL (SELECT * FROM $t->{name} WHERE id = g) x ORDER BY x.id");
	return;
}

foreach my $number (1 .. $tables)
{
	my $t = { name => "t$number", columns => [ map { new_column("c$_") } 1 .. pick(2, 5, 9, 14) ] };
	my $generated = rand() < 0.3;

	splice(@{ $t->{columns} }, int(rand(2)) * int(rand(@{ $t->{columns} })), 0, { name => 'id', type => 'bigint', expr => '%s', nulls => 0 });
	push @{ $t->{columns} }, { name => 'g', type => 'int8 GENERATED ALWAYS AS (id * 2) STORED', generated => 1 } if $generated;
	both("CREATE TABLE $t->{name} (" . join(', ', map { "$_->{name} $_->{type}" } @{ $t->{columns} }) . ', PRIMARY KEY (id)) USING AM');
	both("CREATE INDEX ON $t->{name} ((id % 50))");
	$made++;
	insert_rows($t, 1, 400);
	read_all($t);
	for (1 .. 2)
	{
		my @droppable = grep { $t->{columns}[$_]{name} ne 'id' } 0 .. $#{ $t->{columns} };
		my $added = new_column('a' . int(rand(1_000_000)));
		my $default = rand() < 0.7 ? ' DEFAULT ' . sprintf($added->{expr}, 42, q{'}) : '';

		both("ALTER TABLE $t->{name} DROP COLUMN " . splice(@{ $t->{columns} }, pick(@droppable), 1)->{name}) if @droppable > 1;
		both("ALTER TABLE $t->{name} ADD COLUMN $added->{name} $added->{type}$default");
		push @{ $t->{columns} }, $added;
		insert_rows($t, 400 * $_ + 1, 400 * $_ + 150);
		read_all($t);
	}
	foreach my $step ("SELECT rose.spill('$t->{name}')", "SELECT rose.merge('$t->{name}')")
	{
		$session{rose}->run($step);
		read_all($t);
		my ($column) = grep { $_->{name} ne 'id' && !$_->{generated} } reverse @{ $t->{columns} };
		both("UPDATE $t->{name} SET $column->{name} = NULL WHERE id % 7 = 2");
		both("DELETE FROM $t->{name} WHERE id % 11 = " . int(rand(11)));
		read_all($t);
	}
	last if $problems > 5;
}
is($problems, 0, "$compared answers were the same on heap and on rose");
is($node->safe_psql('postgres', "SELECT rose.check('twin_rose.t$_')"), '', "t$_ is sound") foreach 1 .. $made;
$_->end foreach values %session;
$node->stop;
done_testing();
