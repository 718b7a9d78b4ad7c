# Keys of index trees against what the index itself says: random tables with random btree indexes, directions, NULLs
# and primary keys. The tables are heap's; all that is asked of rose is how it would compare, hash, write and search
# their entries' keys, and what ranges of keys it would read for random conditions.
#
#	INDEX_KEYS_SEED		repeat a run
#	INDEX_KEYS_INDEXES	how many indexes, default 120
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no keys of rose' if $ENV{ROSE_STANDIN};

my $seed = seed_random('INDEX_KEYS_SEED');
my $wanted = $ENV{INDEX_KEYS_INDEXES} // 120;
my $node = rose_node('index_keys', 'autovacuum = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub one_of { return $_[ rand @_ ] }

sql(<<'SQL');
CREATE FUNCTION test_index_keys(regclass) RETURNS bigint LANGUAGE C STRICT AS 'rose_server_unit';
CREATE FUNCTION test_index_quals(regclass, int, int) RETURNS bigint LANGUAGE C STRICT AS 'rose_server_unit';
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'so so' BEFORE 'ok';
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE pair AS (a int, b text);
SQL

# Types, with expressions that make values of them of a small random number n: many equal ones, and neighbours.
my %values = (
	'int' => 'n - 4',
	'smallint' => '(n - 4)::smallint',
	'bigint' => '(n - 4) * 3000000000',
	'text COLLATE "C"' => "repeat('ab', n / 3) || chr(96 + n)",
	'text COLLATE "en-x-icu"' => "chr(64 + n) || repeat('x', n % 4 * 7)",
	'text COLLATE nocase' => "CASE n % 2 WHEN 0 THEN upper(chr(97 + n / 2)) ELSE chr(97 + n / 2) END",
	'varchar(20) COLLATE "C"' => "repeat('\x{7e}', n)",
	'char(9) COLLATE "C"' => "chr(97 + n % 5)",
	'numeric' => "(n - 4)::numeric / (1 + n % 3)",
	'uuid' => "('00000000-0000-0000-0000-00000000000' || to_hex(n))::uuid",
	'timestamptz' => "'2020-01-01'::timestamptz + (n - 4) * interval '1 day'",
	'date' => "CASE n WHEN 3 THEN 'infinity' WHEN 4 THEN '-infinity' ELSE '1999-12-31'::date + n END",
	'bool' => 'n % 2 = 0',
	'mood' => "(ARRAY['sad', 'ok', 'happy', 'so so'])[1 + n % 4]::mood",
	'bytea' => "decode(repeat('00', n % 5) || CASE WHEN n > 4 THEN 'ff' ELSE '' END, 'hex')",
	'oid' => '(n * 300000000::bigint)::oid',
	'float8' => "CASE n WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' WHEN 2 THEN '-0' ELSE (n - 5) / 3.0 END",
	'float4' => "CASE n WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' ELSE (n - 5) / 3.0 END",
	'int[]' => "ARRAY[n / 2, n % 2]",
	'pair' => "ROW(n / 2, chr(97 + n % 2))::pair",
	'int4range' => 'int4range(n / 2, n)',
	'interval' => "n * interval '12 hours'",
	'"char"' => "chr(60 + n)::\"char\"",
	'name' => "repeat('n', 1 + n)::name");
my @types = sort keys %values;
my %classes = (
	'text COLLATE "C"' => [ '', 'text_pattern_ops', 'COLLATE "en-x-icu"' ],
	'text COLLATE "en-x-icu"' => [ '', 'text_pattern_ops', 'COLLATE "C"' ],
	'varchar(20) COLLATE "C"' => [ '', 'varchar_pattern_ops' ]);

my ($tables, $indexes, $compared, $found, $failed) = (0, 0, 0, 0, 0);

# A table with up to six columns; a primary key of up to three of them, or none.
sub make_table
{
	my $name = 't' . ++$tables;
	my @columns = map { one_of(@types) } 1 .. 2 + int rand 5;
	my @key = rand() < 0.3 ? () : @{[ sort { rand() <=> 0.5 } 1 .. @columns ]}[ 0 .. int rand 2 ];
	my %key = map { $_ => 1 } @key;
	my $nulls = one_of(0, 0.2, 0.6);
	my @values = map {
		my $value = $values{ $columns[ $_ - 1 ] };
		$key{$_} ? "($value)" : "CASE WHEN random() >= $nulls THEN ($value) END" } 1 .. @columns;

	sql(join ";\n",
		"SELECT setseed(" . rand() . ")",
		"CREATE TABLE $name (" . join(', ', map { "c$_ $columns[ $_ - 1 ]" } 1 .. @columns) .
			(@key ? ', PRIMARY KEY (' . join(', ', map { "c$_" } @key) . ')' : '') . ')',
		map({ "INSERT INTO $name SELECT " . join(', ', map { "(SELECT $_ FROM (SELECT (random() * 11)::int + g * 0 AS n) x)" } @values) .
			" FROM generate_series(1, 25) g ON CONFLICT DO NOTHING" } 1 .. 4));
	return ($name, @columns);
}

# An index of it, on any columns, some twice.
sub make_index
{
	my ($table, @columns) = @_;
	my $name = "${table}_i" . ++$indexes;
	my @on = map {
		my $column = 1 + int rand @columns;
		my $class = one_of(@{ $classes{ $columns[ $column - 1 ] } // [''] });
		join ' ', "c$column", $class, one_of('', 'ASC', 'DESC'), one_of('', 'NULLS FIRST', 'NULLS LAST') } 1 .. 1 + int rand 4;
	my @include = map { 'c' . (1 + int rand @columns) } 1 .. int rand 3;
	my $ddl = "CREATE INDEX $name ON $table (" . join(', ', @on) . ')' . (@include ? ' INCLUDE (' . join(', ', @include) . ')' : '');
	my $round = int rand 1_000_000;
	my ($rc, $out, $err) = $node->psql('postgres',
		"$ddl; SELECT test_index_keys('$name') || ' ' || test_index_quals('$name', 200, $round);");

	if ($rc != 0 || $out !~ /^(\d+) (\d+)$/m)
	{
		$failed++;
		diag("test_index_quals('$name', 200, $round)");
		diag("$ddl\n" . sql("SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = '$table'::regclass") . "\n$out$err");
	}
	else { $compared += $1; $found += $2 }
	return;
}

while ($indexes < $wanted)
{
	my ($table, @columns) = make_table();
	make_index($table, @columns) for 1 .. 4;
}
is($failed, 0, "keys of $indexes indexes are as the indexes say (INDEX_KEYS_SEED=$seed)");
cmp_ok($compared, '>', $wanted * 100, 'there were rows to compare');
cmp_ok($found, '>', $wanted * 100, 'and rows that met conditions');

# what there is no place for
my $wide = join ', ', map { "c$_ int" } 1 .. 40;
sql("CREATE TABLE wide (id int PRIMARY KEY, $wide)");
sql('CREATE INDEX wide_fits ON wide (' . join(', ', map { "c$_" } 1 .. 15) . ')');
cmp_ok(sql("SELECT test_index_keys('wide_fits')"), '>=', 0, '15 columns that may be null fit');
sql('CREATE INDEX wide_keys ON wide (' . join(', ', map { "c$_" } 1 .. 16) . ')');
my ($rc, $out, $err) = $node->psql('postgres', "SELECT test_index_keys('wide_keys')");
like($err, qr/index "wide_keys" needs 33 key columns with those of the primary key, at most 32 are possible/, '16 do not');

$node->stop;
done_testing();
