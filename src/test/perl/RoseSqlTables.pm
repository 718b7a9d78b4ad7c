
# The tables that RoseSqlGen's statements are about, and the pieces that they are
# made of: values of each kind of column, rows, conditions, assignments.
#
# Uses rand() only, as RoseSqlGen does.
package RoseSqlTables;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(all_tables needs_icu ddl_of_types ddl_of_table leaves_of rare pick word quote names value row key_equal where
  create_index other_condition assignments returning one);

# Keys come from small domains, so that statements meet the same rows again.
my %gen = (
	int => sub { rare(0.02) ? pick(-2147483648, 2147483647) : int(rand(150)) },
	smallset => sub { int(rand(8)) },
	bigint => sub { rare(0.05) ? pick('-9223372036854775808', '9223372036854775807', 4294967296) : int(rand(400)) },
	text => sub { quote(rare(0.1) ? pick('', ' ', 'Ä', 'ä', 'a b', "o''clock", '\\x') : word()) },
	pad => sub { rare(0.1) ? "repeat('" . word() . "', " . int(rand(60)) . ')' : quote(word()) },
	huge => sub {
		rare(0.5) ? "repeat('" . word() . "', " . int(rand(4000)) . ')'
		  : "(SELECT string_agg(md5((g * " . int(rand(1000)) . ")::text), '') FROM generate_series(1, " . int(rand(700)) . ') g)';
	},
	bytea => sub { "decode(md5('" . int(rand(1000)) . "'), 'hex')" },
	numeric => sub { pick('', '-') . int(rand(40)) . pick('', '.0', '.5', '.50', '.125', '.000') },
	money => sub { sprintf('%.2f', rand(1000)) },
	date => sub { "date '2026-01-01' + " . int(rand(20)) },
	time => sub { "timestamptz '2026-01-01 00:00+00' + " . int(rand(1000)) . " * interval '1 min'" },
	uuid => sub { "md5('" . int(rand(200)) . "')::uuid" },
	realkey => sub { pick(map({ "'$_'::float8" } qw(NaN -NaN -0 0 Infinity -Infinity 1e-300 -5e-324 1e38)), map({ int(rand(60)) / 4 - 7 . '::float8' } 1 .. 20)) },
	real4 => sub { pick(map({ "'$_'::real" } qw(NaN -0 0 Infinity -Infinity 1.1 -1.1 1e-45)), int(rand(9)) - 4 . '::real') },
	prefixed => sub { quote(pick('', 'a', 'common/prefix/', 'common/prefix/of/many/keys/', 'common/prefix/of/many/kez', 'Ää€', "\xf0\x90\x80\x80") . word() . ('z' x pick(0, 0, 0, 1, 30, 300))) . '::text' },
	cased => sub { quote(join('', map { pick('a', 'A', 'b', 'B', 'ä', 'Ä') } 1 .. int(rand(4)))) . '::text' },
	padded => sub { quote(pick('', '', ' ') . word() . pick('', ' ', '!', "\t")) . '::char(6)' },
	bytes => sub { "'\\x" . join('', map { pick('00', '00', '01', '7f', '80', 'ff') } 1 .. pick(0, 1, 2, 3, 4, 15, 16, 17)) . "'::bytea" },
	small => sub { rare(0.1) ? pick("'-32768'::int2", '32767::int2') : int(rand(30)) - 15 . '::int2' },
	oid => sub { pick(0, 1, 7, 2147483647, 2147483648, 4294967295, int(rand(20))) . '::oid' },
	signed => sub { pick("'-9223372036854775808'", "'9223372036854775807'", quote(int(rand(20)) - 10), quote(int(rand(20)) - 10)) . '::int8' },
	stamp => sub { rare(0.2) ? pick("timestamp '-infinity'", "timestamp 'infinity'", "timestamp '4713-01-01 BC'") : "timestamp '2000-01-01' + " . (int(rand(40)) - 20) . " * interval '1 s'" },
	span => sub { "interval '" . pick('1 day', '24 hours', '30 days', '1 mon', '-1 mon', '-30 days', int(rand(50)) - 25 . ' hours') . "'" },
	mood => sub { quote(pick(qw(sad between glad last))) . '::mood' },
	name => sub { quote(word()) . '::name' },
	char => sub { quote(pick("a" .. "f")) . '::"char"' },
	arraykey => sub { "'{" . join(',', map { rare(0.1) ? 'NULL' : int(rand(4)) - 1 } 1 .. int(rand(4))) . "}'::int[]" },
	scaled => sub { quote(pick('NaN', 'Infinity', '-Infinity', '0', '-0.00', '1e60', '-1e60', '1e-30', pick('', '-') . int(rand(30)) . pick('', '.0', '.00', '.5', '.50'))) . '::numeric' },
	bits => sub { "B'" . join('', map { pick(0, 1) } 1 .. int(rand(5))) . "'::varbit" },
	net => sub { quote(pick('10.0.0.', '10.1.0.', '192.168.1.') . int(rand(9)) . pick('', '/24', '/16', '/32')) . '::inet' },
	net6 => sub { quote(pick('::', 'fe80::', '2001:db8::') . int(rand(9)) . pick('', '/64', '/128')) . '::inet' },
	mac => sub { "'08:00:2b:01:02:" . pick('00', '7f', '80', 'ff') . "'::macaddr" },
	clock => sub { quote(pick('00:00', '12:00', '23:59:59.999999', '24:00') . pick('+00', '+01', '-12', '+05:30')) . '::timetz' },
	cash => sub { quote((int(rand(40)) - 20) / 4) . '::numeric::money' },
	lsn => sub { quote(pick('0/0', '1/0', 'FFFFFFFF/FFFFFFFF') =~ s/0\z/sprintf('%X', int(rand(16)))/er) . '::pg_lsn' },
	xid => sub { quote(pick('18446744073709551615', '4294967296', int(rand(20)))) . '::xid8' },
	jkey => sub { quote(pick('null', 'true', '[]', '{}', '""', '"a"', 1, '1.0', '-0', '1e2', '[1]', '[1, null]', '{"a": 1}', '{"b": {}, "a": [2]}', '{"a": "' . word() . '"}')) . '::jsonb' },
	stretch => sub { my $from = int(rand(12)); quote(pick('empty', '(,)', "[$from,)", "(,$from]", "[$from," . ($from + int(rand(4))) . ')', "[$from,$from]")) . '::int4range' },
	gaps => sub { quote('{' . join(',', map { '[' . 5 * $_ . ',' . (5 * $_ + int(rand(4))) . ']' } 1 .. int(rand(4))) . '}') . '::int4multirange' },
	pair => sub { 'ROW(' . pick('NULL', int(rand(4)), int(rand(4))) . ', ' . pick('NULL', "'a'", "'b'", "''") . ", '" . pick('1', '1.0', 'NaN', '-0') . "')::pair" },
	nums => sub { "'" . pick('{}', '{{1,2},{3,4}}', '[2:3]={1,2}', '{NaN}', map { '{' . join(',', map { pick('NULL', '1.0', 1, '-0', 'NaN', int(rand(3))) } 1 .. 1 + int(rand(3))) . '}' } 1 .. 4) . "'" },
	floats => sub { "'{" . join(',', map { pick('NaN', '-0', 0, '1e-300', 'Infinity', 'NULL') } 1 .. int(rand(3))) . "}'::float8[]" },
	words => sub { "ARRAY[" . join(', ', map { quote(word()) } 1 .. int(rand(3))) . "]::text[]" },
	vector => sub { quote(join(' ', map { word() . pick('', ':1', ':2A') } 1 .. int(rand(4)))) . '::tsvector' },
	anyday => sub { quote(pick('-infinity', 'infinity', '4713-01-01 BC', '0001-12-31 BC', '5874897-12-31', '2000-01-0' . (1 + int(rand(8))))) . '::date' },
	five => sub { "B'" . join('', map { pick(0, 1) } 1 .. 5) . "'" },
	float => sub { pick("'NaN'", "'-0'", 0, 1.5, int(rand(100)) / 4, "'Infinity'", '1e-300') },
	bool => sub { pick('true', 'false') },
	digit => sub { quote(int(rand(12))) },
	json => sub { "'{\"n\": " . int(rand(50)) . ", \"s\": \"" . word() . "\"}'" },
	array => sub { "'{" . join(',', map { rare(0.2) ? 'NULL' : int(rand(20)) } 1 .. int(rand(5))) . "}'" },
);

# Columns w0, w1, ... of several types.
sub many_columns
{
	my ($n) = @_;
	my @types = ([ 'int', 'int' ], [ 'text', 'pad' ], [ 'float8', 'float' ], [ 'date', 'date' ], [ 'bool', 'bool' ], [ 'numeric', 'numeric' ]);

	return map { [ "w$_", @{ $types[ $_ % @types ] } ] } 0 .. $n - 1;
}

# name, key columns, other columns, each with its SQL type and its generator.
my @tables = (
	{
		name => 't_big', key => [ [ 'id', 'bigint', 'bigint' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ], [ 'c', 'numeric(10,2)', 'money' ], [ 'd', 'date', 'date' ], [ 'e', 'bool', 'bool' ] ]
	},
	{
		name => 't_text', key => [ [ 'k', 'text COLLATE "C"', 'text' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_icu', key => [ [ 'k', 'text COLLATE "en-x-icu"', 'text' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'j', 'jsonb', 'json' ] ]
	},
	{
		name => 't_multi', key => [ [ 'x', 'int', 'smallset' ], [ 'y', 'text COLLATE "C"', 'text' ], [ 'z', 'date', 'date' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		# the key is neither first nor in order
		name => 't_mixed', key => [ [ 'm', 'timestamptz', 'time' ], [ 'n', 'smallint', 'smallset' ] ], key_last => 1,
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'int[]', 'array' ], [ 'f', 'float8', 'float' ] ]
	},
	{
		name => 't_uuid', key => [ [ 'u', 'uuid', 'uuid' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'f', 'float8', 'float' ], [ 'h', 'bytea', 'bytea' ] ]
	},
	{
		name => 't_num', key => [ [ 'n', 'numeric', 'numeric' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ], [ 'w', 'numeric', 'numeric' ] ]
	},
	{
		name => 't_huge', key => [ [ 'id', 'int', 'smallset' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'huge' ] ]
	},
	{
		name => 't_nokey', key => [],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ], [ 'c', 'timestamptz', 'time' ] ]
	},
	{
		name => 't_parent', key => [ [ 'id', 'int', 'smallset' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_child', key => [ [ 'id', 'int', 'int' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'parent', 'int REFERENCES t_parent ON DELETE SET NULL', 'smallset' ] ]
	},
	# partitions, with a key and without one; rows move between them
	{
		name => 't_hash', key => [ [ 'id', 'int', 'int' ] ], by => 'HASH (id)',
		parts => [ map { "WITH (MODULUS 3, REMAINDER $_)" } 0 .. 2 ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_range', key => [ [ 'x', 'int', 'smallset' ], [ 'k', 'text COLLATE "C"', 'text' ] ], by => 'RANGE (x)',
		parts => [ 'FROM (MINVALUE) TO (3)', 'FROM (3) TO (6)', 'DEFAULT' ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_list', key => [], by => 'LIST ((a % 3))', parts => [ 'IN (0, NULL)', 'IN (1)', 'DEFAULT' ], fixed => { a => 1 },
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ], [ 'c', 'timestamptz', 'time' ] ]
	},
	# many columns, with a key and without one
	{
		name => 't_wide', key => [ [ 'id', 'int', 'int' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ], many_columns(40) ]
	},
	{
		name => 't_bag', key => [],
		other => [ [ 'a', 'int', 'smallset' ], [ 'b', 'text', 'pad' ], many_columns(20) ]
	},
	# keys of other types: how they go into the memtables' prefixes, Bloom filters, bounds and codecs
	{
		name => 't_real', key => [ [ 'f', 'float8', 'realkey' ], [ 'g', 'real', 'real4' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_prefixed', key => [ [ 'k', 'text COLLATE "C"', 'prefixed' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'prefixed' ], [ 'h', 'int8', 'signed' ] ]
	},
	{
		name => 't_sort', key => [ [ 'k', 'text COLLATE "en-x-icu"', 'prefixed' ], [ 's', 'int2', 'small' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_nocase', key => [ [ 'k', 'text COLLATE nocase', 'cased' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_char', key => [ [ 's', 'int2', 'small' ], [ 'k', 'char(6) COLLATE "C"', 'padded' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'h', 'int8', 'signed' ] ]
	},
	{
		name => 't_bytes', key => [ [ 'k', 'bytea', 'bytes' ], [ 's', 'int2', 'small' ] ], key_last => 1,
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_ints', key => [ [ 's', 'int2', 'small' ], [ 'o', 'oid', 'oid' ], [ 'i', 'int8', 'signed' ], [ 'k', 'text COLLATE "C"', 'prefixed' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'f', 'float8', 'realkey' ] ]
	},
	{
		name => 't_stamp', key => [ [ 't', 'timestamp', 'stamp' ], [ 'v', 'interval', 'span' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_mood', key => [ [ 'y', 'bool', 'bool' ], [ 'm', 'mood', 'mood' ], [ 'c', '"char"', 'char' ], [ 'k', 'name', 'name' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_array', key => [ [ 'k', 'int[]', 'arraykey' ], [ 'b2', 'varbit', 'bits' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'h', 'int8', 'signed' ] ]
	},
	{
		name => 't_scaled', key => [ [ 'n', 'numeric', 'scaled' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	# types whose order is that of a function of their own
	{
		name => 't_net', key => [ [ 'k', 'inet', 'net' ], [ 'm', 'macaddr', 'mac' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_odd', key => [ [ 'c', 'timetz', 'clock' ], [ 'm', 'money', 'cash' ], [ 'v', 'bit(5)', 'five' ] ], key_last => 1,
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ], [ 'n6', 'inet', 'net6' ] ]
	},
	{
		name => 't_pos', key => [ [ 'l', 'pg_lsn', 'lsn' ], [ 'x', 'xid8', 'xid' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'v', 'tsvector', 'vector' ] ]
	},
	{
		name => 't_json', key => [ [ 'j', 'jsonb', 'jkey' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_span', key => [ [ 'r', 'int4range', 'stretch' ], [ 'g', 'int4multirange', 'gaps' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_pair', key => [ [ 'p', 'pair', 'pair' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_nums', key => [ [ 'n', 'matrix', 'nums' ], [ 'f', 'float8[]', 'floats' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_words', key => [ [ 'w', 'text[] COLLATE nocase', 'words' ], [ 'd', 'date', 'anyday' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	},
	{
		name => 't_vector', key => [ [ 'v', 'tsvector', 'vector' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'p', 'pair', 'pair' ] ]
	},
	{
		name => 't_domain', key => [ [ 'k', 'word', 'prefixed' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	});

# What the tables need; values of the enum are not sorted by OID.
my $nocase = "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
my @types = (
	"CREATE TYPE mood AS ENUM ('sad', 'glad', 'last')",
	"ALTER TYPE mood ADD VALUE 'between' BEFORE 'glad'",
	'CREATE TYPE pair AS (i int, t text COLLATE "C", n numeric)',
	'CREATE DOMAIN matrix AS numeric[]',
	'CREATE DOMAIN word AS text COLLATE "C" CHECK (VALUE <> \'cc\')',
	q{CREATE FUNCTION first_digit(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN left($1, 1); END'});

sub rare { return rand() < $_[0] }
sub pick { return $_[ int(rand(@_)) ] }
sub word { return join('', map { chr(97 + int(rand(3))) } 1 .. 1 + int(rand(4))) }
sub quote { return "'$_[0]'" }


sub all_tables { return @tables }

sub needs_icu
{
	my ($table) = @_;

	return grep { $_->[1] =~ /COLLATE (?:nocase|"en-x-icu")/ } @{ $table->{key} };
}

sub ddl_of_types
{
	my ($icu) = @_;

	return ($icu ? $nocase : ()), @types;
}

# The tables that have rows: the table itself, or its partitions.
sub leaves_of
{
	my ($table) = @_;

	return $table->{parts} ? map { "$table->{name}_$_" } 0 .. $#{ $table->{parts} } : ($table->{name});
}

sub ddl_of_table
{
	my ($table, $am) = @_;
	my @parts = map { "$_->[0] $_->[1]" } @{ $table->{columns} };
	my $n = 0;

	push @parts, 'PRIMARY KEY (' . names($table->{key}) . ')' if @{ $table->{key} };
	my $create = "CREATE TABLE $table->{name} (" . join(', ', @parts) . ')';
	return "$create USING $am" if !$table->{parts};
	return "$create PARTITION BY $table->{by}", map {
		"CREATE TABLE $table->{name}_" . $n++ . " PARTITION OF $table->{name} " . ($_ eq 'DEFAULT' ? $_ : "FOR VALUES $_") . " USING $am";
	} @{ $table->{parts} };
}

# What an index of the table may have instead of a column: an expression of columns, its type, and how
# values of it are made. None of the whole row: ADD COLUMN changes what that is, and indexes stay as they
# are, on heap too.
sub expressions
{
	my ($table) = @_;
	my %has = map { $_->[0] => $_->[2] } @{ $table->{columns} };
	my @can = ([ '(a % 5)', 'int', 'smallset' ], [ '(coalesce(a, -1))', 'int', 'int' ], [ '(a IS NULL)', 'bool', 'bool' ], [ '(first_digit(a::text))', 'text', 'digit' ]);

	push @can, [ '(lower(b))', 'text', 'pad' ], [ '(left(b, 2))', 'text', 'pad' ], [ '(length(b) + a::numeric)', 'numeric', 'int' ] if ($has{b} // '') eq 'pad';
	push @can, [ '(b[1])', 'int', 'smallset' ] if ($has{b} // '') eq 'array';
	push @can, [ "(j ->> 'n')", 'text', 'digit' ] if ($has{j} // '') eq 'json';
	push @can, [ '(f < 2)', 'bool', 'bool' ] if ($has{f} // '') =~ /^(float|realkey)$/;
	return @can;
}

# Predicates of partial indexes, each with conditions that imply it.
my @predicates = (
	[ 'a > 20', 'a > 20', 'a = 25', 'a BETWEEN 30 AND 60' ], [ 'a IS NOT NULL', 'a IS NOT NULL', 'a < 70', 'a = 3' ],
	[ 'a % 2 = 0', 'a % 2 = 0' ], [ "first_digit(a::text) <> '7'", "first_digit(a::text) <> '7'", "first_digit(a::text) <> '7' AND a < 50" ],
	[ 'a IS NULL', 'a IS NULL' ], [ 'a < 0', 'a < 0' ]);

# An expression of the column for a unique index, or the column.
sub unique_expression
{
	my ($column) = @_;
	my ($name, $type, $values) = @$column;

	return [ pick("($name / 2)", "($name % 50)", "(abs($name))"), $type, $values ] if $type =~ /^(?:int|bigint|smallint)$/;
	return [ pick("(lower($name))", "(left($name, 3))", "(coalesce($name, 'none'))"), $type, $values ] if $type =~ /^text(?!\[)/;
	return $column;
}

# The same for a unique index or constraint, undef if the table can have none. An immediate one is on columns that statements set to one value for all
# rows that they change, so that which rows come first does not matter: two of them have one value then, whoever is the second one.
sub create_unique
{
	my ($table, $name) = @_;
	my $deferrable = !$table->{parts} && rare(0.2);
	my @must = $table->{parts} ? @{ $table->{key} } : ();
	my @columns = grep {
		my $c = $_;
		$c->[2] ne 'huge' && !grep { $_ == $c } @must
	} @{ $table->{columns} };

	return undef if $table->{parts} && !@must;
	@columns = grep { $_->[0] ne 'a' && $_->[2] ne 'pad' && "$table->{name}.$_->[0]" ne 't_big.id' } @columns if !$deferrable;
	my @chosen = (@must, grep { defined } map { splice(@columns, int(rand(@columns)), 1) } 1 .. pick(1, 1, 2));

	return undef if !@chosen;
	my $where = '';

	$table->{predicate}{$name} = undef;
	if (!$deferrable && !$table->{parts})
	{
		$chosen[-1] = unique_expression($chosen[-1]) if rare(0.5);
		# not of a row type: what IS NULL says of its values changes with its columns, so rose refuses that
		my @asked = grep { $_->[2] ne 'pair' } @columns;

		if (@asked && rare(0.4))
		{
			my $condition = pick(@asked)->[0] . pick(' IS NOT NULL', ' IS NULL');

			$table->{predicate}{$name} = [ $condition, $condition ];
			$where = " WHERE $condition";
		}
	}
	$table->{indexed}{$name} = \@chosen;
	$table->{unique}{$name} = '(' . names(\@chosen) . ")$where" if !$deferrable;
	my $nulls = pick('', '', ' NULLS NOT DISTINCT');
	my $include = @columns && rare(0.3) ? ' INCLUDE (' . pick(@columns)->[0] . ')' : '';
	# alter() asks: a new type of a column makes all indexes of it anew, in an order that is the catalog's luck
	$table->{in_deferrable}{$_} = 1 foreach $deferrable ? ("$include " . names(\@chosen)) =~ /\w+/g : ();
	return "ALTER TABLE $table->{name} ADD CONSTRAINT $name UNIQUE$nulls (" . names(\@chosen) . ")$include" . pick(' DEFERRABLE', ' DEFERRABLE INITIALLY DEFERRED')
	  if $deferrable;
	my $list = join(', ', map { $_->[0] . pick('', '', ' DESC') . pick('', '', ' NULLS FIRST', ' NULLS LAST') } @chosen);
	return "CREATE UNIQUE INDEX IF NOT EXISTS $name ON $table->{name} ($list)$include$nulls$where";
}

# CREATE INDEX of some columns of the table; NULLS and directions as they come. The table remembers it. One on a table
# that has no rows may be on an expression that fails for some; then the table never has such rows.
sub create_index
{
	my ($table, $n, $empty) = @_;
	my $name = "$table->{name}_i$n";
	my $unique = rare(0.3) ? create_unique($table, $name) : undef;
	return $unique if $unique;

	my @columns = grep { $_->[2] ne 'huge' } @{ $table->{columns} };
	my @chosen = map { splice(@columns, int(rand(@columns)), 1) } 1 .. pick(1, 1, 2, 3);

	@chosen = grep { defined } @chosen;
	$chosen[ rand @chosen ] = pick(expressions($table)) if rare(0.35);
	$table->{predicate}{$name} = rare(0.25) ? pick(@predicates) : undef;
	push @chosen, [ '(100 / (a - 77))', 'int', 'smallset' ] if $empty && !$table->{predicate}{$name} && rare(0.15);
	$table->{indexed}{$name} = \@chosen;
	my $list = join(', ', map { $_->[0] . pick('', '', ' DESC') . pick('', '', ' NULLS FIRST', ' NULLS LAST') } @chosen);
	my $include = @columns && rare(0.3) ? ' INCLUDE (' . pick(@columns)->[0] . ')' : '';
	my $where = $table->{predicate}{$name} ? " WHERE $table->{predicate}{$name}[0]" : '';
	return "CREATE INDEX IF NOT EXISTS $name ON $table->{name} ($list)$include$where";
}

sub names { return join(', ', map { $_->[0] } @{ $_[0] }) }

# An expression of the column's type; NULL now and then unless it is a key.
sub value
{
	my ($column, $not_null) = @_;

	return 'NULL' if !$not_null && rare(0.1);
	return $gen{ $column->[2] }->();
}

# The values of a row, in the order of the columns.
sub row
{
	my ($table) = @_;
	my %is_key = map { $_->[0] => 1 } @{ $table->{key} };

	return '(' . join(', ', map { value($_, $is_key{ $_->[0] } && !rare(0.005)) } @{ $table->{columns} }) . ')';
}

# A condition that one row at most meets, or undef without a key.
sub key_equal
{
	my ($table, $alias) = @_;
	my $prefix = $alias ? "$alias." : '';

	return undef if !@{ $table->{key} };
	return join(' AND ', map { "$prefix$_->[0] = " . value($_, 1) } @{ $table->{key} });
}

sub where
{
	my ($table, $alias) = @_;
	my $prefix = $alias ? "$alias." : '';
	my @key = @{ $table->{key} };
	my @conditions;

	if (@key && rare(0.75))
	{
		my $first = $key[0];
		my $column = $prefix . $first->[0];
		push @conditions, pick(
			sub { key_equal($table, $alias) },
			sub { key_equal($table, $alias) },
			sub { "$column = " . value($first, 1) },
			sub { "$column IN (" . join(', ', map { value($first) } 1 .. 1 + int(rand(6))) . ')' },
			sub { "$column BETWEEN " . value($first, 1) . ' AND ' . value($first, 1) },
			sub { "$column " . pick('<', '<=', '>', '>=') . ' ' . value($first, 1) },
			sub { "$column > " . value($first, 1) . " AND $column <= " . value($first, 1) },
			sub {
				@key == 1 ? "$column <> " . value($first, 1)
				  : "$column = " . value($first, 1) . " AND $prefix$key[1][0] " . pick('<', '>=', '=') . ' ' . value($key[1], 1);
			},
			sub {
				'(' . join(', ', map { $prefix . $_->[0] } @key) . ') ' . pick('<', '>=') . ' (' . join(', ', map { value($_, 1) } @key) . ')';
			})->();
	}
	push @conditions, other_condition($table, $prefix) if !@conditions || rare(0.25);
	return '(' . join(pick(' AND ', ' AND ', ' OR '), map { "($_)" } @conditions) . ')';
}

sub other_condition
{
	my ($table, $prefix) = @_;

	return pick(
		"${prefix}a % 7 = " . int(rand(7)),
		"${prefix}a IS NULL",
		"${prefix}a BETWEEN " . int(rand(100)) . ' AND ' . int(rand(200)),
		"${prefix}a < " . int(rand(50)),
		'true');
}

# SET list over columns that are not of the key; depends on the row alone.
sub assignments
{
	my ($table) = @_;
	my @other = @{ $table->{other} };
	my %set;

	for (1 .. 1 + int(rand(2)))
	{
		my $column = pick(@other);
		next if exists $set{ $column->[0] };
		$set{ $column->[0] } =
		    $column->[0] eq 'a' && rare(0.6) ? '(a + ' . int(rand(10)) . ') % 1000'
		  : $column->[2] eq 'pad' && rare(0.3) ? "left(b || 'x', 200)"
		  :   value($column);
	}
	return join(', ', map { "$_ = $set{$_}" } sort keys %set);
}

sub returning
{
	return rare(0.3) ? ' RETURNING *' : rare(0.1) ? ' RETURNING a' : '';
}

sub one { return ({ sql => $_[0], ordered => $_[1] }) }

1;
