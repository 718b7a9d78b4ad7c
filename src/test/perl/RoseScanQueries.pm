
# Random queries of the tables of RoseScanGen: what may be asked of a table, and how. Uses rand() only.
#
# A query is { query => [ { sql, ordered, plan, sure }, { churn, what }, ... ], check => sub }: statements of which each
# is compared with heap's (alone: with that of rose's plain plan), and what another session does to rose's table meanwhile. plan: its plan is looked at. sure: it
# fails on both or on none; of others one may fail alone, for the order in which conditions are asked is the planner's.
# check gets the rows of all statements and says what is wrong with them, if anything is.
package RoseScanQueries;

use strict;
use warnings;

use Exporter 'import';
use RoseSqlTables;

our @EXPORT = qw(query condition leaves);

# Types whose values compare with one another.
my %cross = (
	int => [qw(int2 int4 int8 numeric float8)], float => [qw(float4 float8 numeric)], numeric => [qw(numeric float8 int4)],
	day => [qw(date timestamp timestamptz)], text => [qw(text varchar)], bpchar => [qw(bpchar text)], name => [qw(name text)]);
my %constants = (
	int2 => [ 0, 1, -1, 32767, 7 ], int4 => [ 0, 3, -5, 50, 2147483647, 149 ], int8 => [ "'-9223372036854775808'", 2147483648, -2147483649, 0, 42 ],
	numeric => [ "'NaN'", 0.5, 2.5, '1e30', -3, 10 ], float8 => [ "'NaN'", "'-0'", 0, 0, 0.1, 1.5, "'Infinity'", '1e300', 12 ], float4 => [ "'NaN'", "'-0'", 0, 0.1, 1.1, "'-Infinity'" ],
	date => [ "'2000-01-03'", "'infinity'", "'-infinity'", "'5874897-12-31'", "'4713-01-01 BC'", "'2026-01-09'" ],
	timestamp => [ "'2000-01-01 00:00:07'", "'infinity'", "'294276-12-31 23:59:59.999999'", "'2026-01-01 12:00'", "'2000-01-05'" ],
	timestamptz => [ "'2026-01-01 10:00+00'", "'-infinity'", "'2000-01-05 00:00+01'" ], text => [ "'w5'", "''", "'common/prefix/77'", "'b'", "'p5'" ],
	varchar => [ "'v7'", "'w'" ], bpchar => [ "'p77'", "'p5  '", "''" ], name => [ "'n5'", "'b'" ]);
my @comparisons = ('=', '<>', '<', '<=', '>', '>=');

# With these all plans add up floats in one order.
my @one_order = ('enable_sort = off', 'enable_hashagg = on', 'enable_indexscan = off', 'enable_bitmapscan = off', 'max_parallel_workers_per_gather = 0');

# The table, or its partitions.
sub leaves
{
	my ($table) = @_;

	return $table->{parts} ? map { "$table->{name}_$_" } 0 .. $table->{parts} - 1 : ($table->{name});
}

# ---------------------------------------------------------------------------
# Conditions
# ---------------------------------------------------------------------------

# Something to compare the column with: a value of its own, another one, a constant of another type, or a parameter.
# $ctx: params (a list that grows), outer (SQL and type of a value of an outer row), or neither.
sub constant
{
	my ($column, $ctx) = @_;

	return "$ctx->{outer}{$column->{type}}" if $ctx->{outer} && $ctx->{outer}{ $column->{type} } && rare(0.7);
	my $type = $column->{type};
	my $value = rare(0.7) ? pick(@{ $column->{pool} }) : '(' . value([ $column->{name}, $type, $column->{values} ], 0) . ")::$type";

	if (!$ctx->{same} && rare(0.25) && $cross{ $column->{family} })
	{
		$type = pick(@{ $cross{ $column->{family} } });
		$value = pick(@{ $constants{$type} }) . "::$type";
	}
	$value = (1 + int(rand(4000))) . '' if $column->{name} eq 'n' && rare(0.8);
	if ($ctx->{params} && rare(0.8))
	{
		push @{ $ctx->{params} }, [ $type, $value ];
		return '$' . @{ $ctx->{params} };
	}
	return "(SELECT $value)" if rare(0.06) && !$ctx->{flat};
	return $value;
}

sub list
{
	my ($column, $ctx) = @_;
	my @values = map { constant($column, $ctx) } 1 .. pick(1, 2, 4, 12);

	push @values, "NULL::$column->{type}" if rare(0.15);
	return join(', ', @values);
}

# Some residual condition: one that no filter knows.
sub odd
{
	my ($table, $column, $ctx) = @_;
	my $name = ($ctx->{prefix} // '') . $column->{name};
	my $n = ($ctx->{prefix} // '') . 'n';

	return pick(
		sub { "length($name\::text) % 3 = 1" },
		sub { "$name\::text LIKE '%" . pick('a', '1', '-', 'w5') . "%'" },
		sub { "coalesce($name, " . pick(@{ $column->{pool} }) . ') ' . pick('=', '<>') . ' ' . pick(@{ $column->{pool} }) },
		sub { "$n % " . pick(2, 5, 13) . ' = 1' },
		sub { "$name IS " . pick('', 'NOT ') . 'DISTINCT FROM ' . constant($column, $ctx) },
		sub { "($n, $name) " . pick('<', '>=') . ' (' . constant($table->{n}, $ctx) . ", $name)" },
		sub { "CASE WHEN $name IS NULL THEN $n > 100 ELSE $n < 600 END" },
		sub { "$name = ANY (ARRAY(SELECT z.$column->{name} FROM $table->{name} z WHERE z.n < 20))" })->();
}

# What ranges of the key may say, or say in part.
sub of_key
{
	my ($table, $ctx) = @_;
	my @key = @{ $table->{key} };
	my $same = { %$ctx, same => 1 };
	my $columns = join(', ', map { ($ctx->{prefix} // '') . $_->{name} } @key);
	my $first = ($ctx->{prefix} // '') . $key[0]{name};
	my $in = "$first IN (" . list($key[0], $same) . ')';

	return pick(
		sub { "($columns) " . pick('<', '<=', '>', '>=') . ' (' . join(', ', map { constant($_, $same) } @key) . ')' },
		sub { "$in AND $first " . pick(@comparisons) . ' ' . constant($key[0], $same) },
		sub { "$first >= " . constant($key[0], $same) . ' AND ' . ($ctx->{prefix} // '') . "$key[-1]{name} " . pick(@comparisons) . ' ' . constant($key[-1], $same) },
		sub { $in . ' AND ' . ($ctx->{prefix} // '') . "$key[-1]{name} " . pick('<', '>=') . ' ' . constant($key[-1], $same) },
		sub { "$first = " . constant($key[0], $same) . ' AND ' . ($ctx->{prefix} // '') . "$key[-1]{name} " . pick('<', '>=') . ' ' . constant($key[-1], $same) })->();
}

# What a text is like.
sub matched
{
	my ($column, $ctx) = @_;
	my $name = ($ctx->{prefix} // '') . $column->{name};

	return "$name ~ '[13]\$'" if rare(0.2);
	return "$name " . pick('=', '<>', '<', '>=') . ' ' . constant($column, { %$ctx, same => 1 }) if rare(0.4);
	return "$name " . pick('LIKE', 'LIKE', 'NOT LIKE', 'ILIKE') . ' ' . pick("'%1%'", "'w1%'", "'%7'", "'COMMON/%/1_%'", "'%'", "''", "'p7%'", "'_7_'", "'v%0%'");
}

# A comparison of what is made of columns, many rows at a time: conditions of which none fails for any row, those of which others keep rows that fail,
# and, fails, those that may fail for one, and then do so on heap as well, if nothing else is asked.
sub made
{
	my ($table, $ctx, $fails) = @_;
	my $prefix = $ctx->{prefix} // '';
	my @can = grep { $_->{family} =~ /^(int|float|numeric)$/ || $_->{type} =~ /^(text|date|timestamp)$/ } grep { !$ctx->{early} || !$_->{late} } @{ $table->{columns} };
	my $column = pick(@can, $table->{n});
	my ($name, $n) = ($prefix . $column->{name}, "${prefix}n");
	my $other = $prefix . pick((grep { $_->{type} eq $column->{type} } @can), $column)->{name};
	my $of = pick(@comparisons);
	my $int = rare(0.7) ? int(rand(60)) - 20 : constant($table->{n}, { %$ctx, same => 1 });
	my $by = pick(2, 7, -3, 700, 65537, "'2147483648'::int8");
	my $list = pick('', 'NOT ') . 'IN (' . join(', ', map { int(rand(9)) - 3 } 1 .. pick(1, 2, 5)) . (rare(0.2) ? ', NULL' : '') . ')';
	my $gone = int(rand(3500));
	my @sure = ("$n % $by $of $int", "$n - 1500 $of $int", "$n * 3 / $by $of $int", "($n - 900) % $by $list", "$name $of $other", "length($name\::text) $of $n", "CASE WHEN $n % $by = 1 THEN $n > 900 ELSE $name $of $other END",
		"coalesce($name $of $other, $n % $by = 1)", "($n % $by) IS NULL");
	my @fails = ("100 / ($n - $gone) $of $int", "7 % ($n % $by) $of $int", "$n * 2147483 $of $int", "$n\::int2 * 20::int2 $of $int");

	if ($column->{family} eq 'int')
	{
		my $few = "$name BETWEEN -900 AND 900";

		push @sure, "$name % $by $of $int", "$name % $by $list", "$name / $by $of $int", "($name % $by) IS " . pick('', 'NOT ') . 'NULL', "$int $of $name % 100", "$name $of $n", "CASE WHEN $few THEN $name * $name $of $int ELSE $name > 0 END",
		  "($name NOT BETWEEN -900 AND 900 OR $name * $n $of $int)", "($name = 0 OR ($name / 2 <> 0 AND 1000 / ($name / 2) $of $int))", "($few AND $n + $name $of $int) IS NOT TRUE", "($name <> 0 AND 100 % $name $of $int) IS UNKNOWN";
		push @fails, "1000 / $name $of $int", "$n % $name $of $int", "$name * $name $of $int", "$name + 2147483000 $of $int", "-5 - $name $of $int", "$name / -1 $of $int", "$name % -1 $of $int", "(1000 / $name) IS NULL",
		  "($n % 9 = 1 OR 1000 / $name $of $int)", "CASE WHEN $n > $gone THEN 1000 / $name $of $int ELSE $n % 2 = 0 END";
	}
	push @sure, "$name $of $other", "CASE WHEN $name BETWEEN -900 AND 900 THEN $name * 2 $of $n ELSE $name > 0 END", "coalesce($name, 1) $of $int" if $column->{family} eq 'float';
	push @fails, "$name * 2 $of $int", "$name + $n $of $other", "$n / $name $of $int", "($name * 1e300::float8) IN (0, 1e300, 'Infinity')" if $column->{family} eq 'float';
	push @sure, "$name * 2 $of $int", "$name + $n $of $other", "-$name * 0.25 $of $int", "$name * $name $of $name", "$name - 1.5 $list", "CASE WHEN $n % 3 = 1 THEN $name ELSE 0.5 END $of $int" if $column->{family} eq 'numeric';
	return pick($fails ? @fails : @sure);
}

# What filters say many rows at a time, of a column that has NULLs if there is one.
sub filtered
{
	my ($table, $ctx) = @_;
	my @texts = grep { $_->{family} =~ /^(text|bpchar)$/ && (!$ctx->{early} || !$_->{late}) } @{ $table->{columns} };

	return made($table, $ctx, rare(0.05)) if rare(0.25);
	return matched(pick(@texts), $ctx) if @texts && rare(0.25);
	my @can = grep { $_->{family} =~ /^(int|float|numeric|day|bool|oid|mood|char|"char"|money)$/ && (!$ctx->{early} || !$_->{late}) } @{ $table->{columns} };
	my $column = pick((grep { $_->{nulls} } @can), pick(@can));
	my $name = ($ctx->{prefix} // '') . $column->{name};
	my $of = pick(@comparisons, '<>', '=') . ' ';
	my $with = $column->{family} eq 'float' && rare(0.2) ? pick('0::float8', "'-0'::float4", "'NaN'::float8") : constant($column, { %$ctx, same => rare(0.7) });
	my $text = pick("$name $of$with", "$name $of$with", "$name $of$with", "$name IN (" . list($column, $ctx) . ')', "$name NOT IN (" . list($column, $ctx) . ')', "$name IS NULL");

	return rare(0.4) ? "($text) IS " . pick('', 'NOT ') . pick('TRUE', 'FALSE', 'UNKNOWN') : $text;
}

sub leaf
{
	my ($table, $ctx) = @_;
	return filtered($table, $ctx) if $ctx->{pure};
	return made($table, $ctx, rare(0.05)) if rare(0.1);
	return of_key($table, $ctx) if @{ $table->{key} } && rare(0.2);
	my @columns = grep { !$ctx->{early} || !$_->{late} } @{ $table->{columns} };
	my $column = rare(0.15) && @{ $table->{key} } ? pick(@{ $table->{key} }) : rare(0.15) ? $table->{n} : pick(@columns);
	my $name = ($ctx->{prefix} // '') . $column->{name};

	if ($column->{family} eq 'bool' && rare(0.6))
	{
		return pick($name, "NOT $name", "$name IS " . pick('', 'NOT ') . pick('TRUE', 'FALSE', 'UNKNOWN'), "$name = " . pick('true', 'false'));
	}
	return pick(
		sub { "$name " . pick(@comparisons) . ' ' . constant($column, $ctx) },
		sub { "$name " . pick(@comparisons) . ' ' . constant($column, $ctx) },
		sub { "$name " . pick(@comparisons) . ' ' . constant($column, $ctx) },
		sub { constant($column, $ctx) . ' ' . pick(@comparisons) . " $name" },
		sub { "$name >= " . constant($column, $ctx) . " AND $name < " . constant($column, $ctx) },
		sub { "$name " . pick('', 'NOT ') . 'BETWEEN ' . constant($column, $ctx) . ' AND ' . constant($column, $ctx) },
		sub { "$name " . pick('', '', 'NOT ') . 'IN (' . list($column, $ctx) . ')' },
		sub {
			return "$name IS NULL" if $column->{type} =~ /\[\]/;
			return "$name " . pick(@comparisons) . ' ' . pick('ANY', 'ALL') . ' (ARRAY[' . list($column, { same => 1 }) . "]::$column->{type}\[])";
		},
		sub { "$name IS " . pick('', 'NOT ') . 'NULL' },
		sub { "($name " . pick(@comparisons) . ' ' . constant($column, $ctx) . ') IS ' . pick('', 'NOT ') . pick('TRUE', 'FALSE', 'UNKNOWN') },
		sub { odd($table, $column, $ctx) })->();
}

sub tree
{
	my ($table, $ctx, $depth) = @_;

	return '(' . leaf($table, $ctx) . ')' if $depth == 0 || rare(0.35);
	return pick(
		sub { '(' . join(' AND ', map { tree($table, $ctx, $depth - 1) } 1 .. pick(2, 2, 3)) . ')' },
		sub { '(' . join(' OR ', map { tree($table, $ctx, $depth - 1) } 1 .. pick(2, 2, 3)) . ')' },
		sub { '(NOT ' . tree($table, $ctx, $depth - 1) . ')' },
		sub { '(' . tree($table, $ctx, $depth - 1) . ' IS ' . pick('', 'NOT ') . pick('TRUE', 'FALSE', 'UNKNOWN') . ')' })->();
}

# A condition of rows of the table.
sub condition
{
	my ($table, $ctx) = @_;

	# some are checked many rows at a time from end to end
	my $with = { %{ $ctx // {} }, pure => rare(0.45) };

	return join(' AND ', map { tree($table, $with, pick(0, 0, 1, 2)) } 1 .. pick(1, 1, 1, 2, 3));
}

# ---------------------------------------------------------------------------
# Queries
# ---------------------------------------------------------------------------

# Some columns and expressions.
sub targets
{
	my ($table, $prefix, $early) = @_;
	my @columns = grep { !$early || !$_->{late} } @{ $table->{columns} };
	my @chosen = map { $prefix . pick(@columns)->{name} } 1 .. pick(1, 1, 2, 3, 5);

	push @chosen, "${prefix}n" if rare(0.5);
	push @chosen, $prefix . pick(@columns)->{name} . ' IS NULL' if rare(0.2);
	push @chosen, "${prefix}n % 10 + 1" if rare(0.2);
	return join(', ', @chosen);
}

# Many rows as one: how many there are, and a hash.
sub hashed
{
	my ($sql) = @_;

	return "SELECT count(*), md5(string_agg(x, '|' ORDER BY x COLLATE \"C\")) FROM (SELECT s::text AS x FROM ($sql) s) y";
}

sub rows_of
{
	my ($table, $where) = @_;
	my $sql = 'SELECT ' . (rare(0.3) ? '*' : rare(0.1) ? 't' : targets($table, '')) . " FROM $table->{name} t" . ($where eq '' ? '' : " WHERE $where");

	return $sql =~ /SELECT t / || ($table->{most} <= 800 && rare(0.7)) || rare(0.2) ? $sql : hashed($sql);
}

sub one_query { return { query => [ { sql => $_[0], plan => 1, ordered => $_[1] } ] } }

sub by_n { return pick('n', 'n DESC') }

sub by_key
{
	my ($table) = @_;

	return @{ $table->{key} } ? join(', ', map { $_->{name} } @{ $table->{key} }) : 'n';
}

sub ordered
{
	my ($table) = @_;
	my $order = rare(0.75) ? by_key($table) : by_n();

	return one_query('SELECT ' . targets($table, '') . " FROM $table->{name} WHERE " . condition($table) . " ORDER BY $order"
		  . pick(' LIMIT 20', ' LIMIT 300 OFFSET 7', $table->{most} <= 3000 ? '' : ' LIMIT 1000'), 1);
}

# The first rows by columns of all sorts, which are not in their order: by all of them, so that it is known which they are, or with those that are equal to the last.
# The limit may be a parameter, or the query the inner side of a loop.
sub first_rows
{
	my ($table) = @_;
	my @columns = @{ $table->{columns} };
	my @by = map { pick(@columns)->{name} . pick('', '', ' DESC') . pick('', '', ' NULLS FIRST', ' NULLS LAST') } 1 .. pick(1, 1, 2, 3);
	my $limit = pick(1, 3, 10, 10, 40, 300, 2500);
	my $offset = rare(0.3) ? pick(1, 7, 100) : 0;
	my $where = rare(0.7) ? ' WHERE ' . condition($table, rare(0.5) ? { flat => 1 } : {}) : '';
	my $order = join(', ', @by, rare(0.1) ? 'n % 10' : (), 'n');
	my $from = "FROM $table->{name}$where ORDER BY";

	# which of the rows that are equal are passed over is not known
	return { query => [ { sql => 'SELECT count(*)' . ($offset ? '' : ', sum(n)') . " FROM (SELECT n $from " . join(', ', @by) . " OFFSET $offset FETCH FIRST $limit ROWS WITH TIES) s", plan => 1, top => 1 } ] } if rare(0.25);
	if (rare(0.15))
	{
		return { query => [
			{ sql => 'SET plan_cache_mode = force_generic_plan' }, { sql => "PREPARE f (int8, int) AS SELECT n, " . targets($table, '') . " $from $order LIMIT \$1 OFFSET \$2" },
			(map { { sql => "EXECUTE f($_)", plan => 1, top => 1, ordered => 1 } } "$limit, $offset", 'NULL, 5', '2, NULL', "$limit, 1"),
			{ sql => 'DEALLOCATE f' }, { sql => 'RESET plan_cache_mode' } ] };
	}
	return { query => [ { sql => "SELECT v.x, s.* FROM (VALUES " . join(', ', map { '(' . int(rand(3000)) . ')' } 1 .. 4) . ") v(x) CROSS JOIN LATERAL (SELECT n FROM $table->{name} WHERE n " . pick('<', '>=', '<>')
			  . " v.x ORDER BY $order LIMIT " . pick(1, 5) . ') s', plan => 1, top => 1 } ] } if rare(0.15);
	return { query => [ { sql => 'SELECT ' . pick(targets($table, ''), targets($table, ''), $table->{most} <= 800 ? '*' : 'n') . " $from $order LIMIT $limit" . ($offset ? " OFFSET $offset" : ''), plan => 1, top => 1, ordered => 1 } ] };
}

sub aggregate
{
	my ($table) = @_;
	my $column = pick(@{ $table->{columns} });
	my $can = $column->{type} !~ /bool|uuid|bytea|range|jsonb|char"|name|varbit|pair|\[\]|mood|interval/ || $column->{type} eq 'int[]';
	# of values that are equal it is not defined which one is the least
	my $value = !$can ? 'n' : $column->{family} eq 'float' ? "$column->{name} + 0" : $column->{family} eq 'numeric' ? "trim_scale($column->{name})" : $column->{name};
	my @list = ('count(*)', "count($column->{name})", "sum(n::numeric) FILTER (WHERE " . condition($table) . ')', "min($value)", "max($value)");
	my $where = rare(0.7) ? ' WHERE ' . condition($table) : '';

	return one_query('SELECT ' . pick(@list) . ', ' . pick(@list) . " FROM $table->{name}$where") if rare(0.5);
	my $group = $column->{wide} || $column->{type} eq 'pair' ? 'n % 5' : $column->{name};
	# values that are equal may look different: which of them stands for its group?
	$group = "($group)::text" if $group ne 'n % 5';
	return one_query("SELECT $group, count(*), min(n) FROM $table->{name}$where GROUP BY 1" . (rare(0.3) ? ' HAVING count(*) > 2' : ''));
}

# What is aggregated many rows at a time. Sums of floats depend on the order, which heap has another of: those are
# compared among rose's plans.
sub vectors
{
	my ($table) = @_;

	return { query => [ { sql => "SELECT count(*) FROM $table->{name}", plan => 1 } ] } if rare(0.2);
	my ($floats, @list) = vector_aggregates($table, pick(1, 2, 4, 8), 1);
	my $where = rare(0.6) ? ' WHERE ' . condition($table) : '';
	my $sql = 'SELECT ' . join(', ', @list) . " FROM $table->{name}$where" . (rare(0.1) ? ' HAVING count(*) > 3' : '');
	return { query => [ (map { { sql => "SET $_" } } $floats ? @one_order : ()), { sql => $sql, plan => 1, alone => $floats, sure => @list == 1 && "$where$list[0]" !~ /WHERE/ } ] };
}

# An expression of columns: how it looks, a type of which aggregates take values, its family, whether it is one for keys, and whether it may fail.
sub expression
{
	my ($table) = @_;
	my $column = pick(@{ $table->{columns} }, $table->{n});
	my $other = pick(@{ $table->{columns} });
	my $name = $column->{name};
	my $few = pick(2, 7, 40);
	my $test = pick("$name IS NULL", "n % $few = 1", "n > " . int(rand(3000)), "$other->{name} IS NOT NULL AND n % 3 > 0");
	my @can = (
		["n % $few", 'int', 'int', 1], ["n - " . int(rand(50)), 'int', 'int'], ["n / 100 * 2", 'int', 'int', 1], ["n * n", 'int', 'int'], ["n\::int8 * $few", 'bigint', 'int'], [$test, 'bool', 'bool', 1],
		["length($name\::text)", 'int', 'int', 1], ["CASE WHEN $test THEN n % $few ELSE length($name\::text) END", 'int', 'int', 1], ["CASE WHEN $test THEN " . pick('n::int8', '7', 'n % 5') . ' END', 'int', 'int'],
		["coalesce($name\::text, 'none')", 'text', 'text', !$column->{wide}], ["CASE WHEN $test THEN 'some' WHEN n % 5 = 2 THEN 'others' END", 'text', 'text', 1], ["n / 7.0::float8", 'float8', 'float'], ["(n / 300)::numeric / 4", 'numeric', 'numeric', 1],
		["100 / (n - " . int(rand(3000)) . ')', 'int', 'int', 0, 1], ["n * 2147483", 'int', 'int', 0, 1], ["n::int2 * 20::int2", 'smallint', 'int', 0, 1]);
	push @can, map { [@$_] } ["$name % 7", $column->{type}, 'int', 1], ["$name & 15", $column->{type}, 'int', 1], ["nullif($name, 0)", $column->{type}, 'int'], ["$name + 1", $column->{type}, 'int', 0, 1],
	  ["1 - $name", $column->{type} eq 'bigint' ? 'bigint' : 'int', 'int', 0, 1], ["$name * n", $column->{type} eq 'bigint' ? 'bigint' : 'int', 'int', 0, 1] if $column->{family} eq 'int';
	push @can, map { [@$_] } ["-$name", $column->{type}, 'float'], ["$name * 2", $column->{type}, 'float', 0, 1], ["$name - n", 'float8', 'float', 0, 1], ["$name > 1", 'bool', 'bool', 1] if $column->{family} eq 'float';
	push @can, map { [@$_] } ["$name + 1", 'numeric', 'numeric', 1], ["1 - $name", 'numeric', 'numeric'], ["$name * n", 'numeric', 'numeric'], ["-$name * 0.25 - n", 'numeric', 'numeric'], ["$name * $name * (1.5 + $name)", 'numeric', 'numeric'],
	  ["CASE WHEN $test THEN $name * 2 ELSE 0.50 END", 'numeric', 'numeric', 1], ["coalesce($name - n, 0.5)", 'numeric', 'numeric'], ["$name > " . pick(0.5, 2, -3, 'n'), 'bool', 'bool', 1], ["($name * 1.5)::numeric(12,1)", 'numeric', 'numeric', 1, 1] if $column->{family} eq 'numeric';
	push @can, map { [@$_] } ["date_trunc('" . pick(qw(hour day week month quarter year minute)) . "', $name)", $column->{type}, 'day', 1], ["extract(" . pick(qw(dow minute hour month year doy)) . " FROM $name)", 'numeric', 'numeric', 1],
	  ["date_part('" . pick(qw(dow minute hour)) . "', $name)", 'float8', 'float', 1] if $column->{type} =~ /^timestamp(tz)?$/;
	return @{ pick(@can) };
}

# Aggregates that are made many rows at a time, and whether they depend on the order of rows; of which one may fail.
sub vector_aggregates
{
	my ($table, $number, $alone) = @_;
	my (@list, $floats, $fails);

	foreach (1 .. $number)
	{
		my $column = pick(@{ $table->{columns} }, $table->{n});
		if (rare(0.35))
		{
			my ($expression, $type, $family, $key, $may_fail) = expression($table);
			next if $may_fail && ($fails || rare(0.7));
			$fails ||= $may_fail;
			$column = { name => $expression, type => $type, family => $family };
		}
		my $type = $column->{type};
		my @of = $column->{family} eq 'numeric' ? qw(sum avg min max) : $type =~ /^(int|bigint|smallint)$/ ? qw(sum avg min max bit_and bit_or) : $column->{family} eq 'float' ? qw(min max min max sum avg)
		  : $type =~ /^(date|time|timestamp|timestamptz|money|oid)$/ ? qw(min max) : $type eq 'bool' ? qw(bool_and bool_or every) : $type eq 'text' && $alone && rare(0.5) ? qw(min max) : ('count');
		my $of = rare(0.25) ? 'count(*)' : pick(@of, 'count') . "($column->{name})";

		$of .= ' FILTER (WHERE ' . condition($table) . ')' if rare(0.25);
		# of equal zeros the last one is the least
		$of = "$of + 0" if $of =~ /^m/ && $column->{family} eq 'float';
		# nor is it known what equal numerics look like
		$of = "trim_scale($of)" if $of =~ /^m/ && $column->{family} eq 'numeric';
		$floats = 1 if $of =~ /^(sum|avg)/ && $column->{family} eq 'float';
		push @list, $of;
	}
	push @list, 'count(*)' if !@list;
	return ($floats, @list);
}

# What a key looks like does not depend on which of its equal values came first.
sub shown_key
{
	my ($column) = @_;

	return "$column->{name} IS NULL" if $column->{family} =~ /^(interval|jsonb|floats|timetz|inet|range)$/;
	return $column->{family} eq 'float' ? "$column->{name} + 0" : $column->{family} eq 'numeric' ? "trim_scale($column->{name})" : $column->{name};
}

# Groups of many rows at a time: by columns of all sorts, also by the first ones of the key, which come in order; in little memory, too.
sub grouped
{
	my ($table) = @_;
	my @key = @{ $table->{key} };
	my @can = grep { $_->{type} ne 'pair' && !$_->{wide} && !$_->{unique} && $_->{name} ne 'n' }
	  @{ $table->{columns} };
	# mostly by columns of few values
	my @few = grep { !defined $_->{own} || $_->{own} =~ /% (?:\d\d|100)\b|\/ (?:20|30|50|100)\b/ } @can;
	@can = @few if @few && rare(0.75);
	my @by = @key > 1 && rare(0.3) ? ($key[0]) : rare(0.05) || !@can ? pick(@{ $table->{columns} }) : map { pick(@can) } 1 .. pick(1, 1, 1, 2, 3);
	my %seen;
	@by = grep { !$seen{ $_->{name} }++ && $_->{type} ne 'pair' } @by;
	@by = ($table->{n}) if !@by;
	if (rare(0.35))
	{
		my @keys = grep { $_->[3] } map { [ expression($table) ] } 1 .. 4;

		pop @by if @by > 1 || rare(0.7);
		push @by, map { { name => "($_->[0])", type => $_->[1], family => $_->[2] } } @keys[ 0 .. (@keys > 1 && rare(0.3) ? 1 : 0) ] if @keys;
		@by = ($table->{n}) if !@by;
		%seen = ();
		@by = grep { !$seen{ $_->{name} }++ } @by;
	}
	my ($floats, @list) = vector_aggregates($table, pick(1, 2, 4));
	my $expression = pick('', ', count(*) * 2 - 1', ', max(n) - min(n)', ', CASE WHEN count(*) > 2 THEN sum(n) END', ', sum(n)::numeric / count(*)');
	my $names = join(', ', map { $_->{name} } @by);
	my $sql = 'SELECT ' . join(', ', (map { shown_key($_) } @by), rare(0.05) ? () : (@list)) . "$expression FROM $table->{name}";
	my $where = rare(0.5) ? ' WHERE ' . condition($table) : '';
	my $having = rare(0.25) ? ' HAVING ' . pick('count(*) > 2', 'min(n) < 500', 'max(n) IS NOT NULL AND ' . "$by[0]{name} IS NOT NULL", 'sum(n) > 1000', 'count(*) < 0') : '';
	my $order = !$floats && rare(0.3) ? " ORDER BY $names" . pick('', ' LIMIT 7', ' LIMIT 100 OFFSET 2') : '';

	return lateral_groups($table, $by[0], \@list) if !$floats && !$by[0]{wide} && rare(0.15);
	my @set = rare(0.3) ? 'SET work_mem = ' . pick("'64kB'", "'256kB'") : ();
	@set = map { "SET $_" } @one_order if $floats;
	return {
		query => [
			(map { { sql => $_ } } @set),
			{ sql => "$sql$where GROUP BY $names$having$order", plan => 1, grouped => !$table->{parts}, ordered => $order ne '', alone => $floats } ] };
}

# The same in the inner side of a loop.
sub lateral_groups
{
	my ($table, $by, $list) = @_;
	my @values = map { int(rand(3000)) } 1 .. 4;
	my $key = shown_key($by);

	return one_query('SELECT v.x, s.* FROM (VALUES ' . join(', ', map { "($_)" } @values) . ") v(x) CROSS JOIN LATERAL (SELECT $key AS k, " . join(', ', map { "$list->[$_] AS a$_" } 0 .. $#$list)
		  . " FROM $table->{name} WHERE n " . pick('<', '>=', '<>') . " v.x GROUP BY $by->{name}) s");
}

# Distinct values of a column, of all rows or by group, and what does not depend on how often they come. Memory may be little.
sub distinct
{
	my ($table) = @_;
	my @can = grep { $_->{type} ne 'pair' && !$_->{wide} && $_->{name} ne 'n' } @{ $table->{columns} };
	my @few = grep { !$_->{unique} && (!defined $_->{own} || $_->{own} =~ /% (?:\d\d|100)\b|\/ (?:20|30|50|100)\b/) } @can;

	return one_query("SELECT count(DISTINCT n) FROM $table->{name}") if !@can;
	my $column = pick(@few, @few, @can);
	my %seen;
	my @by = grep { !$seen{ $_->{name} }++ } map { pick(@few, @few, pick(@can)) } 1 .. pick(0, 0, 1, 1, 2);
	my $of = $column->{name};
	my @list = ("count(DISTINCT $of)");
	push @list, pick("sum(DISTINCT $of)", "avg(DISTINCT $of)", "min($of)", "max($of)", "bit_or($of)") if $column->{type} =~ /^(int|bigint|smallint)$/ && rare(0.6);
	push @list, map { pick('count(*)', "count($of)", 'max(n)', 'sum(n)', 'avg(n)', 'min(n) FILTER (WHERE ' . condition($table) . ')', 'count(*) FILTER (WHERE ' . condition($table) . ')') } 1 .. pick(1, 2, 4) if rare(0.5);
	push @list, pick("count(DISTINCT $of) FILTER (WHERE " . condition($table) . ')', 'count(DISTINCT n)') if rare(0.07);
	my $sql = 'SELECT ' . join(', ', (map { shown_key($_) } @by), @list) . " FROM $table->{name}" . (rare(0.5) ? ' WHERE ' . condition($table) : '')
	  . (@by ? ' GROUP BY ' . join(', ', map { $_->{name} } @by) : '') . (rare(0.2) ? " HAVING count(DISTINCT $of) " . pick('> 2', '< 5', 'IS NULL') : '');

	return { query => [ (rare(0.3) ? { sql => 'SET work_mem = ' . pick("'64kB'", "'256kB'") } : ()), { sql => $sql, plan => 1, distinct => 1 } ] };
}

sub prepared
{
	my ($table) = @_;
	my $ctx = { params => [], flat => 1 };
	my $where = condition($table, $ctx);
	my @params = @{ $ctx->{params} };
	my $execute = sub { 'EXECUTE q' . (@params ? '(' . join(', ', map { rare(0.1) ? 'NULL' : rare(0.2) && /^[-0-9]+$/ ? int(rand(3000)) : $_ } @_) . ')' : '') };

	return {
		query => [
			{ sql => 'SET plan_cache_mode = ' . pick('force_generic_plan', 'force_generic_plan', 'auto') },
			{ sql => 'PREPARE q' . (@params ? '(' . join(', ', map { $_->[0] } @params) . ')' : '') . ' AS ' . rows_of($table, $where) },
			(map { { sql => $execute->(map { $_->[1] =~ s/\(SELECT (.*)\)/$1/r } @params), plan => 1 } } 1 .. 2),
			{ sql => 'DEALLOCATE q' }, { sql => 'RESET plan_cache_mode' } ] };
}

sub lateral
{
	my ($table) = @_;
	my @columns = grep { $_->{type} !~ /pair/ } @{ $table->{columns} };
	my $column = pick(@columns);
	my $values = join(', ', map { '(' . constant($column, { flat => 1, same => 1 }) . ')' } 1 .. pick(2, 5));
	my $ctx = { outer => { $column->{type} => 'v.x' }, prefix => 't.' };
	my $where = "t.$column->{name} " . pick(@comparisons) . ' v.x' . (rare(0.5) ? ' AND ' . condition($table, $ctx) : '');

	return one_query("SELECT v.x::text, s.* FROM (VALUES $values) v(x) CROSS JOIN LATERAL (SELECT count(*), min(n), max(n) FROM $table->{name} t WHERE $where"
		  . pick('', ' OFFSET 0') . ') s') if rare(0.6);
	return one_query("SELECT v.x::text, s.n FROM (VALUES $values) v(x), LATERAL (SELECT n FROM $table->{name} t WHERE $where ORDER BY n LIMIT 5) s");
}

sub subplan
{
	my ($table, $other) = @_;
	my $inner = condition($other, { prefix => 'o.', flat => 1 });

	return one_query("SELECT count(*), sum(t.n) FROM $table->{name} t WHERE " . condition($table, { prefix => 't.' }) . ' AND ' . pick(
			"t.n IN (SELECT o.n FROM $other->{name} o WHERE $inner)",
			"t.n NOT IN (SELECT o.n FROM $other->{name} o WHERE $inner)",
			"EXISTS (SELECT FROM $other->{name} o WHERE o.n = t.n + 3 AND $inner)",
			"t.n > (SELECT avg(o.n) FROM $other->{name} o WHERE $inner)",
			"(t.n < 8 AND (SELECT count(*) FROM $other->{name} o WHERE o.n < t.n AND $inner) % 2 = 0)"));
}

sub joined
{
	my ($table, $other) = @_;

	return one_query(pick('SELECT count(*), sum(t.n), sum(o.n)', 'SELECT count(*), count(DISTINCT o.n % 50)') . " FROM $table->{name} t " . pick('JOIN', 'LEFT JOIN', 'FULL JOIN')
		  . " $other->{name} o ON t.n = o.n WHERE " . condition($table, { prefix => 't.' }) . pick('', ' AND ' . condition($other, { prefix => 'o.' })));
}

# In a transaction of its own, or taken back.
sub within
{
	my ($inside, @statements) = @_;

	return { query => [ { sql => $inside ? 'SAVEPOINT q' : 'BEGIN' }, @statements, $inside ? ({ sql => 'ROLLBACK TO q' }, { sql => 'RELEASE q' }) : { sql => 'ROLLBACK' } ] };
}

sub cursor
{
	my ($table, $other, $inside) = @_;
	my $ordered = rare(0.7);
	my $order = $ordered ? ' ORDER BY ' . by_key($table) : '';
	my @moves = map { 'FETCH ' . pick(qw(1 7 FORWARD PRIOR NEXT LAST FIRST), 'BACKWARD 9', 'ABSOLUTE 11', 'RELATIVE -3', 'ABSOLUTE -2', '100') . ' FROM q' } 1 .. 7;

	# the order of other rows is not known: all of them, and back
	@moves = ('FETCH ALL FROM q', 'FETCH BACKWARD ALL FROM q', 'FETCH ALL FROM q') if !$ordered;
	my $declare = pick('SCROLL', 'NO SCROLL') . ' CURSOR FOR SELECT n, ' . targets($table, '') . " FROM $table->{name} WHERE " . condition($table) . $order;

	@moves = $ordered ? ('FETCH 10 FROM q', 'FETCH 300 FROM q', 'FETCH ALL FROM q') : ('FETCH ALL FROM q') if $declare =~ /^NO/;
	my @statements = map { { sql => $_, ordered => $ordered } } @moves;

	# what the cursor reads goes elsewhere under it
	splice(@statements, 1, 0, map { { churn => $_, what => pick('spill', 'spill', 'merge') } } leaves($table)) if rare(0.6);
	return within($inside, { sql => "DECLARE q $declare", plan => 1 }, @statements);
}

sub changes
{
	my ($table, $other, $inside) = @_;
	my $name = $table->{name};
	my $where = condition($table);
	my @can = grep { !$_->{key} && $_->{name} ne 'n' } @{ $table->{columns} };
	my $set = @can ? do { my $c = pick(@can); "$c->{name} = " . pick(@{ $c->{pool} }) } : 'n = n';
	my $from = "FROM $other->{name} o WHERE o.n = t.n AND " . condition($table, { prefix => 't.' });
	my $statement = pick("DELETE FROM $name WHERE $where RETURNING n", "UPDATE $name SET $set WHERE $where RETURNING n", "UPDATE $name SET $set WHERE $where",
		"UPDATE $name t SET $set $from RETURNING t.n", 'DELETE FROM ' . "$name t USING" . substr($from, 4) . ' RETURNING t.n',
		"SELECT n FROM $name WHERE $where FOR UPDATE", "WITH d AS (DELETE FROM $name WHERE $where RETURNING n) SELECT count(*), sum(n) FROM d");

	return within($inside, { sql => $statement, plan => 1 }, { sql => "SELECT count(*), sum(n) FROM $name WHERE $where", plan => 1 },
		{ sql => hashed("SELECT * FROM $name") });
}

# A condition, its negation and neither are all rows, and nothing twice.
sub partitioned
{
	my ($table) = @_;
	my $p = condition($table);
	my $of = "SELECT count(*), coalesce(sum(n::int8), 0) FROM $table->{name}";
	my $q = one_query("$of WHERE $p");

	push @{ $q->{query} }, map { { sql => "$of$_", plan => 1 } } " WHERE NOT ($p)", " WHERE ($p) IS NULL", '';
	$q->{check} = sub {
		my @all = map { [ split /\|/, $_ ] } @_;
		return $all[0][0] + $all[1][0] + $all[2][0] == $all[3][0] && $all[0][1] + $all[1][1] + $all[2][1] == $all[3][1] ? '' : 'the three parts are not all rows';
	};
	return $q;
}

# What a condition finds is what it is true for.
sub optimised
{
	my ($table) = @_;
	my $p = condition($table);
	my $q = one_query("SELECT count(*) FROM $table->{name} WHERE $p");

	push @{ $q->{query} }, { sql => "SELECT coalesce(sum((($p) IS TRUE)::int), 0) FROM $table->{name}", plan => 1 };
	$q->{check} = sub { return $_[0] eq $_[1] ? '' : 'the condition finds others than those for which it is true' };
	return $q;
}

# A role that sees some rows, and functions that would tell of others.
sub guarded
{
	my ($table, $other, $inside) = @_;
	my $view = rare(0.5);
	my $shown = rare(0.8) ? "shown_$table->{name}($table->{guard}{name})" : 'true';
	my $where = join(' AND ', rare(0.5) ? ($shown, condition($table, { early => 1, flat => 1 })) : (condition($table, { early => 1, flat => 1 }), $shown));
	my $sql = pick('SELECT count(*), min(n)', 'SELECT ' . targets($table, '', 1)) . ' FROM ' . ($view ? 'view_' : '') . "$table->{name} WHERE $where";

	return one_query($sql) if $view;
	return { query => [ { sql => 'SET ROLE scan_reader' }, { sql => $sql, plan => 1 }, { sql => 'RESET ROLE' } ] };
}

# Conditions that fail for some rows: for those that come to them.
sub failing
{
	my ($table) = @_;
	my $fails = pick('100 / (n % 5) > 3', 'n * 2147483647 > 0', '100 / (n - ' . int(rand(2000)) . ') < 50', pick(@{ $table->{columns} })->{name} . '::text::int > 5');
	my $leaf = '(' . leaf($table, { flat => 1 }) . ')';
	my @plain = grep { !$_->{key} && $_->{name} ne 'n' } @{ $table->{columns} };

	return one_query("SELECT count(*), sum(n) FROM $table->{name} WHERE " . pick("$fails AND $leaf", "$leaf AND $fails")) if !@plain || rare(0.5);
	# one comparison is cheaper than what fails, so it is first
	my $column = pick(@plain);
	my $q = one_query("SELECT count(*), sum(n) FROM $table->{name} WHERE $column->{name} " . pick(@comparisons) . ' ' . pick(@{ $column->{pool} }) . " AND $fails");
	$q->{query}[0]{sure} = 1;
	return $q;
}

# One that is made of columns, and nothing else: it fails where heap's does, and for no row that is not there any more.
sub made_alone
{
	my ($table) = @_;
	my $where = made($table, { flat => 1 }, rare(0.4));
	my $sql = 'SELECT ' . pick('count(*), sum(n)', 'count(*), max(n % 7)', 'n % 5, count(*)', 'n, n % 3') . " FROM $table->{name} WHERE $where";

	$sql .= ' GROUP BY 1' if $sql =~ /n % 5/;
	$sql = "SELECT x.n, y.k FROM ($sql) x (n, k) JOIN (SELECT n, n % 2 AS k FROM $table->{name} WHERE $where) y ON x.n = y.n" if $sql =~ /n % 3/ && rare(0.3);
	return { query => [ { sql => $sql, plan => 1, sure => 1 } ] };
}

sub query
{
	my ($tables, $inside) = @_;
	my $table = pick(@$tables);
	my @kinds = (
		[ 20, sub { one_query(rows_of($table, condition($table))) } ], [ 3, sub { one_query(rows_of($table, '')) } ],
		[ 3, sub { one_query("SELECT count(*) FROM (SELECT n FROM $table->{name} WHERE " . condition($table) . ' LIMIT ' . pick(1, 10, 500) . ') s') } ],
		[ 8, \&ordered ], [ 12, \&first_rows ], [ 10, \&aggregate ], [ 15, \&vectors ], [ 25, \&grouped ], [ 12, \&distinct ], [ 8, \&prepared ], [ 6, \&lateral ], [ 6, \&subplan ], [ 5, \&joined ],
		[ 5, \&cursor ], [ 6, \&changes ], [ 8, \&partitioned ], [ 4, \&optimised ], [ 5, \&guarded ], [ 4, \&failing ],
		[ 10, \&made_alone ]);
	my $total = 0;

	$total += $_->[0] foreach @kinds;
	my $at = rand($total);
	foreach my $kind (@kinds)
	{
		$at -= $kind->[0];
		return $kind->[1]->($table, pick(@$tables), $inside) if $at < 0;
	}
	die 'no kind of query';
}

1;
