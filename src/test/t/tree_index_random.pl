# Trees of random indexes: types, directions, NULLs, tables with and without primary key. Random entries are written and
# deleted, spilled, merged and recovered in between, and each time the tree must have what the table says, in the order
# that the table says, and be sound. Only functions of the test write to them (src/test/server_trees).
#
#	INDEX_RANDOM_SEED		repeat a run
#	INDEX_RANDOM_TREES		how many trees, default 9
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $seed = seed_random('INDEX_RANDOM_SEED');
my $wanted = $ENV{INDEX_RANDOM_TREES} // 9;
my $node = rose_node('index_random', 'autovacuum = off', "rose.spill_interval = '1d'", 'rose.memtable_size = 16MB',
	"rose.debug_piece_size = '8kB'", 'rose.debug_filter_part = ' . one_of(16, 100, 100000), 'rose.max_merge_workers = ' . one_of(0, 2));

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub one_of { return $_[ rand @_ ] }

sql(<<'SQL');
CREATE FUNCTION tree_make(regclass, text, smallint[], smallint[]) RETURNS regclass LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_write(regclass, text, text) RETURNS bigint LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_entries(regclass) RETURNS SETOF text LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_find(regclass, text) RETURNS SETOF text LANGUAGE C STRICT AS 'rose_server_trees';
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
SQL

# Types, with expressions that make values of them of a random number n below 40; few of them, so that many are equal.
my %values = (
	'int' => 'n - 4',
	'smallint' => '(n - 4)::smallint',
	'bigint' => '(n - 4) * 3000000000',
	'text COLLATE "C"' => "repeat('ab', n / 3) || chr(96 + n % 20)",
	'text COLLATE "en-x-icu"' => "chr(64 + n) || repeat('x', n % 4 * 7)",
	'numeric' => "(n - 4)::numeric / (1 + n % 3)",
	'uuid' => "('00000000-0000-0000-0000-0000000000' || lpad(to_hex(n), 2, '0'))::uuid",
	'timestamptz' => "'2020-01-01'::timestamptz + (n - 4) * interval '1 day'",
	'bool' => 'n % 2 = 0',
	'mood' => "(ARRAY['sad', 'ok', 'happy'])[1 + n % 3]::mood",
	'bytea' => "decode(repeat('00', n % 5) || repeat('ff', n / 9), 'hex')",
	'float8' => "CASE n WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' ELSE (n - 5) / 3.0 END",
	'int[]' => "ARRAY[n / 2, n % 2]",
	'pair' => "ROW(n / 2, chr(97 + n % 2))::pair");
my @types = sort keys %values;
my $ntrees = 0;

# A table whose column id is unique; its primary key is id, something with id, or nothing. Without one the order of rows
# is that of insertion, as is id.
sub make_table
{
	my ($name) = @_;
	my @columns = map { one_of(@types) } 1 .. 2 + int rand 3;
	my @key = one_of([], ['id'], ['c1', 'id'], ['id', 'c1']);
	my %key = map { $_ => 1 } @{ $key[0] };
	my $nulls = one_of(0.05, 0.3, 0.9, 1);
	my $n = 'CASE WHEN random() < 0.1 THEN id % 40 ELSE (random() * 39)::int END';
	my @values = map {
		$key{"c$_"} ? "($values{ $columns[ $_ - 1 ] })" : "CASE WHEN random() >= $nulls THEN ($values{ $columns[ $_ - 1 ] }) END" } 1 .. @columns;

	sql(join ";\n",
		"SELECT setseed(" . rand() . ")",
		"CREATE TABLE $name (id int, " . join(', ', map { "c$_ $columns[ $_ - 1 ]" } 1 .. @columns) .
			(%key ? ', PRIMARY KEY (' . join(', ', @{ $key[0] }) . ')' : '') . ') USING rose',
		"INSERT INTO $name SELECT id, " . join(', ', map { "(SELECT $_ FROM (SELECT $n AS n) x)" } @values) .
			' FROM generate_series(1, 3000) id');
	return ($key[0], @columns);
}

# What is found by the values of some rows, and whether those are in the index or not, is what the table says.
sub find_some
{
	my ($table, $names) = @_;
	my $from = int rand 3000;
	my $some = "SELECT * FROM $table WHERE id BETWEEN $from AND $from + 20";
	my $same = join ' AND ', map { "y.$_ IS NOT DISTINCT FROM x.$_" } @$names;
	my $expected = sql("SELECT count(*) FROM ($some) x JOIN ($table NATURAL JOIN ${table}_in) y ON $same");
	my $found = sql("SELECT count(*) FROM tree_find('${table}_i', '$some')");

	return $found == $expected ? '' : "$found entries of rows from $from on, but $expected";
}

# Do so many steps with one tree.
sub try_tree
{
	my ($steps) = @_;
	my $table = 't' . ++$ntrees;
	my ($key, @columns) = make_table($table);
	my @on = @{[ sort { rand() <=> 0.5 } 0 .. @columns ]}[ 0 .. int rand 3 ];    # 0: id
	push @on, 0 unless @$key || grep { $_ == 0 } @on;    # the hidden row id of all entries is 0
	my @options = map { int rand 4 } @on;
	my @names = map { $_ ? "c$_" : 'id' } @on;
	my $turned = $options[0] & 1;
	my $order = join ', ',
		(map { "$names[$_] " . ($options[$_] & 1 ? 'DESC' : 'ASC') . ' NULLS ' . ($options[$_] & 2 ? 'FIRST' : 'LAST') } 0 .. $#on),
		map { $turned ? "$_ DESC" : $_ } @$key ? @$key : 'id';
	my %there = map { $_ => 1 } @names;
	my @shown = (@names, grep { !$there{$_} } @$key);
	my $what = "$table (" . join(', ', @columns) . '; key ' . join(', ', @$key) . ") by $order";
	my $problems = 0;

	sql("SELECT tree_make('$table', '${table}_i', '{" . join(',', map { $_ + 1 } @on) . "}', '{" . join(',', @options) . "}');
		CREATE TABLE ${table}_in (id int PRIMARY KEY)");
	for my $step (1 .. $steps)
	{
		my $from = int rand 3000;
		my $to = $from + int rand one_of(50, 3000);
		my $modulus = one_of(1, 2, 7);
		my $some = "id BETWEEN $from AND $to AND id % $modulus = 0";
		my $undone = "BEGIN; SELECT tree_write('${table}_i', '" . one_of('put', 'delete') .
			"', 'SELECT * FROM $table WHERE id % 5 = 0'); ROLLBACK;";

		sql($undone) if rand() < 0.3;
		if (rand() < 0.6)
		{
			sql("SELECT tree_write('${table}_i', 'put', 'SELECT * FROM $table WHERE $some');
				INSERT INTO ${table}_in SELECT id FROM $table WHERE $some ON CONFLICT DO NOTHING");
		}
		else
		{
			sql("SELECT tree_write('${table}_i', 'delete', 'SELECT * FROM $table WHERE $some');
				DELETE FROM ${table}_in WHERE $some");
		}
		sql("SELECT rose.spill('${table}_i')") if rand() < 0.4;
		sql("SELECT rose.merge('${table}_i')") if rand() < 0.2;
		if (rand() < 0.1) { crash_and_restart($node) }

		# in the tree's order, which may be the other way round than the index's
		my $expected = sql("SELECT concat_ws('|', " . join(', ', map { "CASE WHEN $_ IS NULL THEN '-' ELSE format('%s', $_) END" } @shown) .
			") FROM (SELECT row_number() OVER (ORDER BY $order) AS n, * FROM $table NATURAL JOIN ${table}_in) x ORDER BY n" . ($turned ? ' DESC' : ''));
		my $entries = sql("SELECT * FROM tree_entries('${table}_i')");
		my $check = sql("SELECT * FROM rose.check('${table}_i')");

		$entries =~ s/\|[^|\n]*$//mg unless @$key;    # the hidden row id
		my $found = $entries eq $expected && $check eq '' ? find_some($table, \@names) : '';

		next if $entries eq $expected && $check eq '' && $found eq '';
		diag("$what: step $step: " . ($check eq '' ? $found || 'other entries' : $check));
		append_to_file("$PostgreSQL::Test::Utils::tmp_check/expected", "$expected\n");
		append_to_file("$PostgreSQL::Test::Utils::tmp_check/entries", "$entries\n");
		$problems = $step;
		last;
	}
	is($problems, 0, $what);
	return;
}

try_tree(10 + int rand 15) while $ntrees < $wanted;
$node->stop;
done_testing();
