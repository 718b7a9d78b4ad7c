
# Comparisons of columns of every type with constants, parameters and lists that Rose Scan makes sets of words of: other types on
# the right, ends of types and what is beyond them, infinities, NaN, -0, blanks, domains, NULL, lists that are empty or have NULLs,
# ANY and ALL, under time zones that have no such hour, or have it twice; and groups by each column. On rose tables in two states and
# on heap, counted and summed up: all that is printed must be the same. Nothing here is random.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no Rose Scan' if $ENV{ROSE_STANDIN};

my $node = rose_node('scan_types', 'autovacuum = off', 'rose.max_merge_workers = 0');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Column: type, type of list elements, values, what it is compared with.
my @columns = (
	[ i2 => 'int2', 'int4', [ 0, 1, -1, 32767, -32768, 7 ], [ '0', '1::int8', '32767', '32768', '-32769', '9223372036854775807', '1.0', '7.5' ] ],
	[ i4 => 'int4', 'int8', [ 0, 1, -1, 2147483647, -2147483648, 7 ], [ '0', '2147483648', '-2147483649', '7::int2', '-9223372036854775808', '1e0' ] ],
	[ i8 => 'int8', 'int2', [ 0, 1, -1, '9223372036854775807', '-9223372036854775808', 2147483648, -2147483649 ], [ '0::int2', '9223372036854775807', '-9223372036854775808', '2147483648', '7' ] ],
	[ f4 => 'float4', 'float8', [ qw(0 -0 NaN Infinity -Infinity 1e-45 3.4e38 0.1 -2.25) ], [ "'NaN'::float4", "'NaN'::float8", '0::float8', "'-0'::float8", '0.1', '0.1::float4', '0.1::float8', "'-Infinity'::float8", '1e300::float8' ] ],
	[ f8 => 'float8', 'float4', [ qw(0 -0 NaN Infinity -Infinity 5e-324 1.79e308 0.1 -2.25 9007199254740993) ], [ "'NaN'::float4", '0::float4', "'-0'::float8", '0.1::float4', "'Infinity'::float8", '5e-324::float8', '9007199254740992::int8' ] ],
	[ b => 'bool', 'bool', [ qw(true false) ], [ 'true', 'false', 'NULL::bool' ] ],
	[ o => 'oid', 'oid', [ qw(0 1 2147483648 4294967295) ], [ '0', '4294967295::oid', '2147483648::oid' ] ],
	[ c => '"char"', '"char"', [ 'a', 'z', '', ' ', '\377' ], [ "'a'", q{''::"char"}, q{'\377'::"char"}, "' '" ] ],
	[ d => 'date', 'date', [ qw(infinity -infinity 2024-03-31 2024-10-27 5874897-12-31), '4713-01-01 BC' ],
		[ "'infinity'::date", "'2024-03-31'", "'2024-03-31 02:30'::timestamp", "'2024-03-31 00:00'::timestamp", "'2024-03-30 23:00+00'::timestamptz", "'5874897-12-31'::date" ] ],
	[ tm => 'time', 'time', [ qw(00:00 24:00 12:34:56.789 23:59:59.999999) ], [ "'24:00'::time", "'00:00'", "'12:34:56.789'" ] ],
	[ ts => 'timestamp', 'date', [ 'infinity', '-infinity', '2024-03-31 02:30', '2024-10-27 02:30', '294276-12-31 23:59:59', '4713-01-01 BC', '2024-03-31 00:00' ],
		[ "'infinity'::date", "'-infinity'::date", "'5874897-12-31'::date", "'4713-01-01 BC'::date", "'2024-03-31'::date", "'2024-03-31 02:30'", "'2024-03-31 01:30+00'::timestamptz", "'infinity'" ] ],
	[ tz => 'timestamptz', 'timestamp', [ 'infinity', '-infinity', '2024-03-31 01:30+00', '2024-10-27 00:30+00', '2024-10-27 01:30+00', '294276-12-31 23:59:59+00', '4713-01-01 BC', '2024-03-30 23:00+00' ],
		[ "'infinity'::date", "'5874897-12-31'::date", "'4713-01-01 BC'::date", "'2024-03-31'::date", "'2024-03-31 02:30'::timestamp", "'2024-10-27 02:30'::timestamp", "'294276-12-31 23:59:59.999999'::timestamp", "'-infinity'::timestamp", "'infinity'" ] ],
	[ m => 'money', 'money', [ '0', '-92233720368547758.08', '92233720368547758.07', '-0.01' ], [ "'0'::money", "'92233720368547758.07'", "'-0.01'" ] ],
	[ e => 'mood', 'mood', [ qw(sad ok happy) ], [ "'ok'::mood", "'happy'" ] ],
	[ di => 'small', 'int8', [ 0, 5, -5, 77 ], [ '5', '5::int8', 'NULL' ] ],
	[ df => 'real_number', 'float4', [ qw(NaN -0 0 7.5) ], [ "'NaN'", "'-0'", '7.5', '0::float4' ] ],
	[ dm => 'state', 'mood', [ qw(sad ok) ], [ "'ok'", "'ok'::mood" ] ],
	[ bp => 'char(6)', 'bpchar', [ 'a', 'a ', 'ab', '', 'A' ], [ "'a'", "'a  '", "'a'::text", "'a '::text" ] ],
	[ tx => 'text', 'text', [ 'a', 'a ', 'ab', '', 'A' ], [ "'a'", "'a '::bpchar", "'a'::name" ] ],
	[ nm => 'name', 'text', [ 'a', 'pg_class', '' ], [ "'a'", "'a'::text" ] ],
	[ num => 'numeric', 'int', [ qw(0 0.00 NaN Infinity 1e20 1.5 1.50) ], [ '0', "'NaN'", "'Infinity'", '1.500' ] ],
	[ rc => 'regclass', 'oid', [ 'pg_class', 'pg_proc' ], [ "'pg_class'::regclass", '1259', '1259::oid' ] ],
	[ lsn => 'pg_lsn', 'pg_lsn', [ '0/0', 'FFFFFFFF/FFFFFFFF', '7FFFFFFF/FFFFFFFF' ], [ "'0/0'", "'80000000/0'" ] ]);
# Equal ones that look different, and those of which no extreme is known.
my %shown = (f4 => 'f4 + 0', f8 => 'f8 + 0', df => 'df + 0', bp => 'rtrim(bp)', num => 'trim_scale(num)');

sub ddl
{
	my ($schema, $am) = @_;
	my @lists = map { my @v = @{ $_->[3] }; "(ARRAY[NULL, " . join(', ', map { "'$_'" } @v) . "]::text[])[1 + h * " . ($#v + 3) . ' / 7919 % ' . (@v + 1) . "]::$_->[1]" } @columns;

	return "CREATE SCHEMA $schema; CREATE TABLE $schema.t (n int, " . join(', ', map { "$_->[0] $_->[1]" } @columns) . ") USING $am; SET search_path = $schema, public;"
	  . 'INSERT INTO t SELECT n, ' . join(', ', @lists) . ' FROM (SELECT n, (n * 2654435761::int8 % 1000003)::int AS h FROM generate_series(1, 800) n) x ORDER BY h';
}

# What is asked; each a line of results.
sub queries_of
{
	my ($column) = @_;
	my ($name, $type, $element, $values, $with) = @$column;
	my $sums = 'count(*), sum(n), sum(n % 7 * n)';
	my $show = $shown{$name} // $name;
	my @with = grep { !/NULL/ } @$with;
	my @queries;

	foreach my $value (@$with)
	{
		foreach my $of (qw(< <= = >= > <>))
		{
			push @queries, ("SELECT $sums FROM t WHERE $name $of $value", "SELECT $sums FROM t WHERE NOT ($value $of $name)", "SELECT $sums FROM t WHERE ($name $of $value) IS NOT TRUE OR n < 4")[ @queries % 4 % 3 ];
		}
		push @queries, "SELECT $sums FROM t WHERE ($name = $value) IS UNKNOWN AND n % 2 = 0", "EXECUTE p_$name($value)";
	}
	foreach my $list ("ARRAY[$with[0], NULL]", "ARRAY[$with[0], $with[-1]]", "ARRAY[]::$element\[]", "NULL::$element\[]", "'{NULL}'::$element\[]")
	{
		foreach my $of ('=', '<>', '<', '>=')
		{
			push @queries, map { my $c = "$name $of $_ ($list)"; ("SELECT $sums FROM t WHERE ($c) IS NOT FALSE", "SELECT $sums FROM t WHERE NOT ($c)") } $of eq '=' ? 'ANY' : $of eq '<>' ? 'ALL' : qw(ANY ALL);
		}
	}
	push @queries, "SELECT string_agg(s, ',' ORDER BY s COLLATE \"C\") FROM (SELECT ($show, count(*), sum(n), min(i4), max(f8) + 0)::text AS s FROM t WHERE n % 3 <> 1 GROUP BY $name) x",
	  "SELECT string_agg(s, ',' ORDER BY s COLLATE \"C\") FROM (SELECT ($show, i2, count(*), sum(i8))::text AS s FROM t GROUP BY i2, $name) x";
	push @queries, "SELECT count($name), min($name), max($name) FROM t WHERE $name IS NOT NULL" if $type =~ /^(int\d|oid|date|time|timestamp|timestamptz|money)$/;
	return @queries;
}

my %queries = map { $_->[0] => [ queries_of($_) ] } @columns;

sub answers
{
	my ($schema, $column) = @_;
	my $name = $column->[0];
	my $script = "\\set VERBOSITY sqlstate\nSET search_path = $schema, public; SET rose.enable_scan = on; SET rose.enable_aggregate = on; SET rose.scan_min_rows = 0;\n"
	  . "SET extra_float_digits = 1; SET plan_cache_mode = force_generic_plan;\nPREPARE p_$name(" . ($name =~ /^(ts|tz|d)$/ ? 'date' : $column->[1]) . ") AS SELECT count(*), sum(n) FROM t WHERE $name < \$1 OR $name = ANY (ARRAY[\$1, NULL]);\n";

	foreach my $zone ($name =~ /^(ts|tz|d)$/ ? ('Europe/Berlin', 'Asia/Kathmandu') : 'Europe/Berlin')
	{
		$script .= "SET timezone = '$zone';\n" . join('', map { "$_;\n" } @{ $queries{$name} });
	}
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$script, '>', \$out, '2>&1');
	return [ grep { !/^LINE|^\s*\^/ } split /\n/, $out ];
}

sql("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE DOMAIN small AS int CHECK (value < 1000); CREATE DOMAIN real_number AS float8; CREATE DOMAIN state AS mood");
sql(ddl('twin_heap', 'heap'));
sql(ddl('twin_rose', 'rose'));
my %heap = map { $_->[0] => answers('twin_heap', $_) } @columns;

sub compare
{
	my ($state) = @_;

	foreach my $column (@columns)
	{
		my $name = $column->[0];
		my ($heap, $rose) = ($heap{$name}, answers('twin_rose', $column));
		my @differ = grep { ($heap->[$_] // '') ne ($rose->[$_] // '') } 0 .. ($#$heap > $#$rose ? $#$heap : $#$rose);

		ok(!@differ, "$state: $column->[1] in " . @$heap . ' answers')
		  or diag(join "\n", map { "heap $heap->[$_], rose $rose->[$_]; query: " . ($queries{$name}[ $_ % @{ $queries{$name} } ] // '') } splice(@differ, 0, 5));
	}
	return;
}

like(sql("SET search_path = twin_rose; SET rose.scan_min_rows = 0; EXPLAIN SELECT n FROM t WHERE tz < '2024-03-31'::date AND f4 = 0.1::float8"), qr/Vectorized Filter: .*tz.*f4/, 'there are Rose Scans');
sql("SELECT rose.spill('twin_rose.t'); SELECT rose.merge('twin_rose.t')");
compare('merged');
$node->safe_psql('postgres', 'UPDATE ' . "$_.t SET i4 = i4 / 2, e = 'sad' WHERE n % 9 = 0; DELETE FROM $_.t WHERE n % 31 = 0; INSERT INTO $_.t (n, f8, tz, num) SELECT n, 'NaN', '2024-03-31 01:30+00', '0.0' FROM generate_series(2000, 2300) n") foreach qw(twin_heap twin_rose);
%heap = map { $_->[0] => answers('twin_heap', $_) } @columns;
compare('with newer versions');
done_testing();
