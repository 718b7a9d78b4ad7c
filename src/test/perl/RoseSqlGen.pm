
# Generates random SQL whose answers do not depend on the table access method.
#
# Every statement is one that heap answers in one way only: where an order is
# not defined the caller sorts the rows, LIMIT comes with ORDER BY over the whole
# key, a join that updates finds at most one partner for a row, and a statement
# over many rows can only fail in one way. Uses rand(): the same seed gives the
# same statements.
package RoseSqlGen;

use strict;
use warnings;

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
	float => sub { pick("'NaN'", "'-0'", 0, 1.5, int(rand(100)) / 4, "'Infinity'", '1e-300') },
	bool => sub { pick('true', 'false') },
	json => sub { "'{\"n\": " . int(rand(50)) . ", \"s\": \"" . word() . "\"}'" },
	array => sub { "'{" . join(',', map { rare(0.2) ? 'NULL' : int(rand(20)) } 1 .. int(rand(5))) . "}'" },
);

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
	{
		name => 't_domain', key => [ [ 'k', 'word', 'prefixed' ] ],
		other => [ [ 'a', 'int', 'int' ], [ 'b', 'text', 'pad' ] ]
	});

# What the tables need; values of the enum are not sorted by OID.
my $nocase = "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
my @types = (
	"CREATE TYPE mood AS ENUM ('sad', 'glad', 'last')",
	"ALTER TYPE mood ADD VALUE 'between' BEFORE 'glad'",
	'CREATE DOMAIN word AS text COLLATE "C" CHECK (VALUE <> \'cc\')');

sub rare { return rand() < $_[0] }
sub pick { return $_[ int(rand(@_)) ] }
sub word { return join('', map { chr(97 + int(rand(3))) } 1 .. 1 + int(rand(4))) }
sub quote { return "'$_[0]'" }

# new(tables => [names], icu => whether the server has ICU): all tables if none
# are named, but for those whose collation the server lacks.
sub new
{
	my ($class, %args) = @_;
	my %wanted = map { $_ => 1 } @{ $args{tables} // [] };
	my @chosen = grep { !%wanted || $wanted{ $_->{name} } } @tables;

	@chosen = grep { !needs_icu($_) } @chosen if !$args{icu};
	die 'no tables' if !@chosen;
	foreach my $table (@chosen)
	{
		$table->{columns} =
		  $table->{key_last} ? [ @{ $table->{other} }, @{ $table->{key} } ] : [ @{ $table->{key} }, @{ $table->{other} } ];
	}
	return bless { tables => \@chosen, icu => $args{icu}, cursors => 0 }, $class;
}

sub needs_icu
{
	my ($table) = @_;

	return grep { $_->[1] =~ /COLLATE (?:nocase|"en-x-icu")/ } @{ $table->{key} };
}

sub table_names
{
	my ($self) = @_;

	return map { $_->{name} } @{ $self->{tables} };
}

# CREATE TABLE statements with access method $am, in an order that suits the
# foreign keys.
sub ddl
{
	my ($self, $am) = @_;

	return ($self->{icu} ? $nocase : ()), @types, map {
		my $table = $_;
		my @parts = map { "$_->[0] $_->[1]" } @{ $table->{columns} };
		push @parts, 'PRIMARY KEY (' . names($table->{key}) . ')' if @{ $table->{key} };
		"CREATE TABLE $table->{name} (" . join(', ', @parts) . ") USING $am";
	} @{ $self->{tables} };
}

# The next piece of work: a list of { sql, sorted }, to be run in order. sorted
# says that the rows come in a defined order. { churn => table } is a place
# where the table may be spilled or merged.
sub next_block
{
	my ($self) = @_;
	my @block;

	return ({ churn => pick($self->table_names) }) if rare(0.05);
	return $self->settings if rare(0.02);
	return $self->statement if rare(0.4);
	return $self->cursor_block if rare(0.08);

	push @block, { sql => '\set ON_ERROR_ROLLBACK ' . pick('on', 'off'), meta => 1 };
	push @block, { sql => 'BEGIN' . pick('', '', ' ISOLATION LEVEL REPEATABLE READ') };
	my @savepoints;
	for (1 .. 2 + int(rand(14)))
	{
		if (rare(0.12))
		{
			push @savepoints, 's' . scalar(@savepoints);
			push @block, { sql => "SAVEPOINT $savepoints[-1]" };
		}
		elsif (@savepoints && rare(0.15))
		{
			my $to = int(rand(@savepoints));
			push @block, { sql => "ROLLBACK TO $savepoints[$to]" };
			$#savepoints = $to;
		}
		elsif (@savepoints && rare(0.1))
		{
			my $to = int(rand(@savepoints));
			push @block, { sql => "RELEASE $savepoints[$to]" };
			$#savepoints = $to - 1;
		}
		elsif (rare(0.03))
		{
			push @block, { churn => pick($self->table_names), inside => 1 };
		}
		else
		{
			push @block, $self->statement;
		}
	}
	push @block, { sql => pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK') };
	push @block, { sql => '\set ON_ERROR_ROLLBACK off', meta => 1 };
	return churn_that_can_run(@block);
}

# A transaction that truncates a table keeps everybody else out of it, and of
# those that reference it: another session that spills one would wait for the
# transaction, which waits for that session. Leaves out such places.
sub churn_that_can_run
{
	my $truncated = 0;
	my @kept;

	foreach my $item (@_)
	{
		$truncated = 1 if ($item->{sql} // '') =~ /^TRUNCATE/;
		push @kept, $item unless $truncated && $item->{churn} && $item->{inside};
	}
	return @kept;
}

# Which plans are chosen; the answers must not depend on it.
sub settings
{
	my ($self) = @_;

	return map { { sql => "SET $_ = " . pick('on', 'on', 'off') } }
	  qw(enable_seqscan enable_indexscan enable_indexonlyscan enable_hashjoin enable_mergejoin enable_nestloop enable_sort enable_material enable_memoize);
}

sub statement
{
	my ($self) = @_;
	my $table = pick(@{ $self->{tables} });
	my @kinds = (
		[ 14, \&insert ], [ 8, \&upsert ], [ 4, \&replace ], [ 3, \&insert_select ], [ 14, \&update ],
		[ 5, \&update_key ], [ 3, \&update_from ], [ 9, \&delete_rows ], [ 2, \&delete_using ], [ 3, \&cte_write ],
		[ 2, \&merge ], [ 2, \&copy_in ], [ 1, \&copy_out ], [ 1, \&plpgsql ], [ 0.2, \&truncate ],
		[ 14, \&select_rows ], [ 6, \&select_ordered ], [ 6, \&aggregate ], [ 4, \&join_tables ], [ 4, \&subquery ],
		[ 4, \&lock_rows ], [ 1, \&prepared ], [ 2, \&window ]);
	my $total = 0;

	$total += $_->[0] foreach @kinds;
	my $at = rand($total);
	foreach my $kind (@kinds)
	{
		$at -= $kind->[0];
		return $kind->[1]->($self, $table) if $at < 0;
	}
	die 'no kind of statement';
}

# ---------------------------------------------------------------------------
# Pieces
# ---------------------------------------------------------------------------

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

# ---------------------------------------------------------------------------
# Kinds of statement
# ---------------------------------------------------------------------------

sub insert
{
	my ($self, $table) = @_;
	my $rows = rare(0.5) ? 1 : 1 + int(rand(12));

	return one("INSERT INTO $table->{name} VALUES " . join(', ', map { row($table) } 1 .. $rows) . returning());
}

sub upsert
{
	my ($self, $table) = @_;
	my $sql = "INSERT INTO $table->{name} VALUES " . join(', ', map { row($table) } 1 .. 1 + int(rand(4)));

	if (!@{ $table->{key} } || rare(0.4))
	{
		return one("$sql ON CONFLICT DO NOTHING" . returning());
	}
	$sql .= ' ON CONFLICT (' . names($table->{key}) . ') DO UPDATE SET a = '
	  . pick('EXCLUDED.a', "coalesce($table->{name}.a, 0) % 1000 + 1", 'NULL');
	$sql .= " WHERE $table->{name}.a % 3 = 0" if rare(0.2);
	return one($sql . returning());
}

# The upsert of those who write without reading: delete, then insert.
sub replace
{
	my ($self, $table) = @_;
	my $condition = key_equal($table) // 'a = ' . int(rand(150));

	return (
		{ sql => "DELETE FROM $table->{name} WHERE $condition" },
		{ sql => "INSERT INTO $table->{name} VALUES " . row($table) });
}

sub insert_select
{
	my ($self, $table) = @_;
	my %shift = (bigint => 1000, int => 1000, numeric => 100);
	my $first = $table->{key}[0];
	my $order = @{ $table->{key} } ? names($table->{key}) : names($table->{columns});
	my $condition = where($table);

	# Keys near the end of their type would overflow, and when is the planner's choice.
	$condition = "($condition) AND $first->[0] < 100000" if $first && $shift{ $first->[1] };
	my $list = join(', ', map {
			my $shifted = $first && $_->[0] eq $first->[0] && $shift{ $first->[1] };
			$shifted && !rare(0.1) ? "$_->[0] + $shifted" : $_->[0];
	} @{ $table->{columns} });

	return one("INSERT INTO $table->{name} SELECT $list FROM $table->{name} WHERE $condition"
		  . " ORDER BY $order LIMIT " . int(rand(30)) . pick('', ' ON CONFLICT DO NOTHING') . returning());
}

sub update
{
	my ($self, $table) = @_;

	return one("UPDATE $table->{name} SET " . assignments($table) . ' WHERE ' . where($table) . returning());
}

# One row gets another key, or a range moves to where few rows are.
sub update_key
{
	my ($self, $table) = @_;
	my $column = pick(@{ $table->{key} });

	return $self->update($table) if !$column;
	if ($table->{name} eq 't_big' && rare(0.3))
	{
		my $from = int(rand(400));
		return one("UPDATE t_big SET id = id + 10000 WHERE id BETWEEN $from AND $from + 20" . returning());
	}
	return one("UPDATE $table->{name} SET $column->[0] = " . value($column, 1) . pick('', ', a = 1')
		  . ' WHERE ' . key_equal($table) . returning());
}

sub update_from
{
	my ($self, $table) = @_;
	my $other = pick(grep { $_->{name} =~ /^t_(big|child|parent|huge)$/ } @{ $self->{tables} }) // return $self->update($table);

	return one("UPDATE $table->{name} t SET a = o.a FROM $other->{name} o WHERE o.id = t.a AND " . where($table, 't')
		  . pick('', ' RETURNING t.*', ' RETURNING o.a, t.a'));
}

sub delete_rows
{
	my ($self, $table) = @_;
	my $condition = rare(0.9) ? key_equal($table) // other_condition($table, '') : where($table);

	$condition = where($table) if $condition eq 'true' && !rare(0.1);
	return one("DELETE FROM $table->{name} WHERE $condition" . returning());
}

sub delete_using
{
	my ($self, $table) = @_;
	my $other = pick(@{ $self->{tables} });

	return one("DELETE FROM $table->{name} t USING $other->{name} o WHERE o.a = t.a AND " . where($table, 't')
		  . ' AND ' . where($other, 'o'));
}

sub cte_write
{
	my ($self, $table) = @_;
	my $name = $table->{name};

	return pick(
		sub {
			one("WITH gone AS (DELETE FROM $name WHERE " . where($table) . ' RETURNING *) SELECT (SELECT count(*) FROM gone), count(*) FROM ' . $name);
		},
		sub {
			one("WITH new AS (INSERT INTO $name VALUES " . row($table) . ' ON CONFLICT DO NOTHING RETURNING *) '
				  . "SELECT n.a, (SELECT count(*) FROM $name) FROM new n");
		},
		sub {
			one("WITH changed AS (UPDATE $name SET " . assignments($table) . ' WHERE ' . where($table)
				  . " RETURNING a) SELECT a, count(*) FROM changed GROUP BY a");
		})->();
}

sub merge
{
	my ($self, $table) = @_;

	return $self->upsert($table) if @{ $table->{key} } != 1;
	my $key = $table->{key}[0];
	my %seen;
	my @rows = map { my $v = value($key, 1); $seen{$v}++ ? () : "(($v)::" . ($key->[1] =~ s/ .*//r) . ', ' . int(rand(100)) . ')' } 1 .. 5;

	# Equal keys in another spelling would meet one row twice.
	@rows = ($rows[0]) if $key->[2] =~ /^(numeric|scaled|cased)$/;
	return one("MERGE INTO $table->{name} t USING (VALUES " . join(', ', @rows) . ") v (k, a) ON t.$key->[0] = v.k"
		  . ' WHEN MATCHED AND v.a < 20 THEN DELETE WHEN MATCHED THEN UPDATE SET a = v.a'
		  . " WHEN NOT MATCHED THEN INSERT ($key->[0], a) VALUES (v.k, v.a)");
}

sub copy_in
{
	my ($self, $table) = @_;
	my %text = (
		int => sub { int(rand(300)) }, smallset => sub { int(rand(40)) }, bigint => sub { 1000 + int(rand(3000)) },
		text => sub { word() }, pad => sub { word() }, numeric => sub { 50 + int(rand(50)) . '.25' }, huge => sub { word() x int(rand(800)) },
		realkey => sub { pick('NaN', '-0', 0, 'Infinity', '-Infinity', int(rand(400)) / 4 - 50) }, real4 => sub { pick('NaN', '-0', int(rand(9)) / 4) },
		prefixed => sub { pick('', 'common/prefix/', 'common/prefix/of/many/keys/') . word() . pick('', '', word(), 'z' x 100) },
		cased => sub { join('', map { pick('a', 'A', 'b', 'B', 'c', 'd') } 1 .. int(rand(6))) },
		padded => sub { word() . pick('', ' ') }, bytes => sub { '\\\\x' . join('', map { pick('00', '80', 'ff') } 1 .. int(rand(18))) },
		small => sub { int(rand(200)) - 100 }, signed => sub { pick('-9223372036854775808', '9223372036854775807', int(rand(1000)) - 500) },
		oid => sub { pick(4294967295, int(rand(500))) }, scaled => sub { pick('NaN', 'Infinity', int(rand(100)) . pick('', '.0', '.00')) });
	my @columns = @{ $table->{columns} };

	foreach my $column (@columns)
	{
		return $self->insert($table) if !$text{ $column->[2] } && grep { $_ == $column } @{ $table->{key} };
	}
	@columns = grep { $text{ $_->[2] } } @columns;
	my $sql = "COPY $table->{name} (" . names(\@columns) . ") FROM stdin;\n";
	for (1 .. 1 + int(rand(rare(0.3) ? 60 : 5)))
	{
		$sql .= join("\t", map { $text{ $_->[2] }->() } @columns) . "\n";
	}
	# psql does not tell in its variables when a COPY failed; the count does.
	return one($sql . "\\.\nSELECT count(*) FROM $table->{name}");
}

sub copy_out
{
	my ($self, $table) = @_;
	my $order = @{ $table->{key} } ? names($table->{key}) : names($table->{columns});

	return one("COPY (SELECT * FROM $table->{name} WHERE " . where($table) . " ORDER BY $order) TO stdout", 1);
}

# Exceptions and loops: subtransactions, own snapshots for each statement.
sub plpgsql
{
	my ($self, $table) = @_;
	my $name = $table->{name};

	return one('DO $x$ DECLARE r record; n int := 0; BEGIN FOR i IN 1 .. 4 LOOP BEGIN '
		  . "INSERT INTO $name VALUES " . row($table) . '; n := n + 1; EXCEPTION WHEN unique_violation OR not_null_violation OR foreign_key_violation THEN '
		  . "UPDATE $name SET a = n WHERE " . where($table) . '; END; END LOOP; '
		  . "FOR r IN SELECT * FROM $name LOOP n := n + 1; END LOOP; "
		  . "IF n % 10 = 0 THEN RAISE 'counted %', n; END IF; END \$x\$");
}

sub truncate
{
	my ($self, $table) = @_;

	return one("TRUNCATE $table->{name}" . ($table->{name} eq 't_parent' ? ' CASCADE' : ''));
}

sub select_rows
{
	my ($self, $table) = @_;

	return one('SELECT ' . pick('*', 'a', '*', 'count(*)', @{ $table->{key} } ? names($table->{key}) : '*')
		  . " FROM $table->{name} WHERE " . where($table));
}

sub select_ordered
{
	my ($self, $table) = @_;
	my @by = @{ $table->{key} } ? @{ $table->{key} } : @{ $table->{columns} };
	my $direction = pick('', ' DESC');
	my $order = join(', ', map { $_->[0] . (rare(0.1) ? pick('', ' DESC') : $direction) } @by);

	return one("SELECT * FROM $table->{name}" . (rare(0.6) ? ' WHERE ' . where($table) : '') . " ORDER BY $order"
		  . pick('', ' LIMIT ' . int(rand(20)), ' LIMIT 5 OFFSET ' . int(rand(20))), 1);
}

sub aggregate
{
	my ($self, $table) = @_;
	my $condition = rare(0.5) ? ' WHERE ' . where($table) : '';
	my $key = $table->{key}[0] // $table->{other}[0];
	# "+ 0" makes -0 to 0: they are equal, and which of them is found depends on the rows' order.
	my $zero = $key->[2] =~ /^real/ ? ' + 0' : '';
	my $extreme =
	  $key->[2] =~ /^(uuid|bool|bytes)$/ ? "count($key->[0])" : "min($key->[0])$zero, max($key->[0])$zero";

	return one(pick(
			"SELECT count(*), sum(a), $extreme FROM $table->{name}$condition",
			"SELECT a % 5, count(*), max(a) FROM $table->{name}$condition GROUP BY 1",
			"SELECT count(DISTINCT a), count(a) FILTER (WHERE a > 20) FROM $table->{name}$condition",
			"SELECT a, count(*) FROM $table->{name}$condition GROUP BY a HAVING count(*) > 1",
			"SELECT DISTINCT a FROM $table->{name}$condition",
			"SELECT $extreme FROM $table->{name}"));
}

sub join_tables
{
	my ($self, $table) = @_;
	my $other = pick(@{ $self->{tables} });

	return one("SELECT t.a, count(*) FROM $table->{name} t " . pick('JOIN', 'LEFT JOIN', 'FULL JOIN')
		  . " $other->{name} o ON o.a = t.a" . (rare(0.5) ? ' WHERE ' . where($table, 't') : '') . ' GROUP BY t.a')
	  if rare(0.5) || @{ $table->{key} } == 0;
	my $using = names($table->{key});
	return one("SELECT l.a, r.a, $using FROM $table->{name} l " . pick('JOIN', 'LEFT JOIN', 'FULL JOIN')
		  . " (SELECT * FROM $table->{name} WHERE " . where($table) . ") r USING ($using)");
}

sub subquery
{
	my ($self, $table) = @_;
	my $other = pick(@{ $self->{tables} });

	return one(pick(
			"SELECT * FROM $table->{name} t WHERE EXISTS (SELECT FROM $other->{name} o WHERE o.a = t.a AND " . where($other, 'o') . ')',
			"SELECT * FROM $table->{name} WHERE a NOT IN (SELECT a FROM $other->{name} WHERE a IS NOT NULL)",
			"SELECT a FROM $table->{name} EXCEPT ALL SELECT a FROM $other->{name}",
			"SELECT a FROM $table->{name} INTERSECT SELECT a FROM $other->{name}",
			"SELECT t.a, (SELECT max(o.a) FROM $other->{name} o WHERE o.a <= t.a) FROM $table->{name} t WHERE " . where($table, 't'),
			"SELECT count(*) FROM (SELECT * FROM $table->{name} UNION ALL SELECT * FROM $table->{name}) u"));
}

sub lock_rows
{
	my ($self, $table) = @_;
	my $order = @{ $table->{key} } ? names($table->{key}) : names($table->{columns});

	return one("SELECT * FROM $table->{name} WHERE " . where($table) . pick('', " ORDER BY $order")
		  . ' FOR ' . pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE') . pick('', ' NOWAIT', ' SKIP LOCKED'));
}

sub prepared
{
	my ($self, $table) = @_;
	my $key = $table->{key}[0] // return $self->select_rows($table);

	return (
		{ sql => "PREPARE p AS SELECT * FROM $table->{name} WHERE $key->[0] = \$1" },
		(map { { sql => 'EXECUTE p(' . value($key, 1) . ')' } } grep { $key->[2] !~ /huge/ } 1 .. 4),
		{ sql => 'DEALLOCATE p' });
}

sub window
{
	my ($self, $table) = @_;
	my @by = @{ $table->{key} } ? @{ $table->{key} } : @{ $table->{columns} };

	return one("SELECT row_number() OVER w, a, sum(a) OVER w FROM $table->{name} WHERE " . where($table)
		  . ' WINDOW w AS (ORDER BY ' . names(\@by) . ')');
}

# A transaction around a cursor, with writes while it is open.
sub cursor_block
{
	my ($self) = @_;
	my $table = pick(grep { @{ $_->{key} } } @{ $self->{tables} });
	my $order = names($table->{key});
	my $cursor = 'c' . $self->{cursors}++;
	my @block = ({ sql => 'BEGIN' });

	if (rare(0.3))
	{
		push @block, { sql => "DECLARE $cursor CURSOR FOR SELECT * FROM $table->{name} WHERE " . where($table) . " ORDER BY $order FOR UPDATE" };
		for (1 .. 4)
		{
			push @block, { sql => "FETCH 2 FROM $cursor", ordered => 1 };
			push @block, { sql => pick("UPDATE $table->{name} SET " . assignments($table), "DELETE FROM $table->{name}") . " WHERE CURRENT OF $cursor" }
			  if rare(0.7);
		}
	}
	else
	{
		push @block, { sql => "DECLARE $cursor SCROLL CURSOR " . pick('', 'WITH HOLD ') . "FOR SELECT * FROM $table->{name} WHERE " . where($table)
			  . " ORDER BY $order" . pick('', ' DESC') };
		for (1 .. 5)
		{
			push @block, { sql => 'FETCH ' . pick('3', 'BACKWARD 2', 'ABSOLUTE 4', 'LAST', 'FIRST', 'RELATIVE -1', 'ALL', 'PRIOR') . " FROM $cursor", ordered => 1 };
			push @block, $self->statement if rare(0.4);
			push @block, { churn => $table->{name}, inside => 1 } if rare(0.05);
		}
	}
	push @block, { sql => pick('COMMIT', 'ROLLBACK') };
	push @block, { sql => "FETCH ALL FROM $cursor", ordered => 1 }, { sql => "CLOSE $cursor" } if rare(0.5);
	return churn_that_can_run(@block);
}

1;
