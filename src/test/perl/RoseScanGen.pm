
# Random tables and queries for scan_differential.pl: tables of many types whose values come from small pools, so
# that conditions find them, in random states, and queries of all sorts about them.
#
# As in RoseSqlGen, heap can answer in one way only. Rows come from numbers, by expressions, so that a table of
# thousands of them is one statement; each row has its number in column n. Uses rand() only, and RoseSqlTables for
# values of types.
package RoseScanGen;

use strict;
use warnings;

use RoseScanQueries;
use RoseSqlTables;

# SQL type, values as RoseSqlTables names them, the family within which values can be compared, and rows' own values,
# of a number (X), if there are such.
my @types = (
	[ 'int', 'int', 'int', 'X', 'X % 100', 'X * 37 % 5000 - 2000', 'X / 50' ], [ 'bigint', 'signed', 'int', 'X * 10000000000', 'X % 30' ],
	[ 'smallint', 'small', 'int', '(X % 30000)', 'X / 100 % 100' ], [ 'double precision', 'realkey', 'float', 'X / 8.0', 'X / 10 * 0.1' ],
	[ 'real', 'real4', 'float', 'X / 8.0', 'X % 50' ], [ 'numeric', 'scaled', 'numeric', 'X / 3.0', 'X % 40' ], [ 'numeric(10,2)', 'money', 'numeric', 'X / 4.0' ],
	[ 'text', 'pad', 'text', "'w' || X", "'w' || X % 90" ], [ 'text COLLATE "C"', 'prefixed', 'text', "'common/prefix/' || X", "'w' || X / 20" ],
	[ 'char(6)', 'padded', 'bpchar', "'p' || X % 900" ], [ 'varchar(40)', 'digit', 'text', "'v' || X % 300" ],
	[ 'date', 'anyday', 'day', "date '2000-01-01' + X % 400" ], [ 'date', 'date', 'day', "date '2026-01-01' + X / 30" ],
	[ 'timestamp', 'stamp', 'day', "timestamp '2000-01-01' + X * interval '1 s'" ], [ 'timestamptz', 'time', 'day', "timestamptz '2026-01-01' + X * interval '1 min'" ],
	[ 'timetz', 'clock', 'timetz' ], [ 'uuid', 'uuid', 'uuid', 'md5(X::text)::uuid' ], [ 'bool', 'bool', 'bool', 'X % 2 = 0', 'X / 100 % 3 = 0' ],
	[ 'bool', 'bool', 'bool' ], [ 'oid', 'oid', 'oid', 'X::oid' ], [ 'mood', 'mood', 'mood' ], [ '"char"', 'char', 'char' ], [ 'name', 'name', 'name', "('n' || X % 60)" ],
	[ 'bytea', 'bytes', 'bytea', 'int4send(X)' ], [ 'int[]', 'arraykey', 'array', 'ARRAY[X % 9, NULL, X % 4]' ], [ 'float8[]', 'floats', 'floats' ],
	[ 'interval', 'span', 'interval', "X * interval '1 hour'" ], [ 'money', 'cash', 'money' ], [ 'jsonb', 'jkey', 'jsonb' ], [ 'inet', 'net', 'inet' ],
	[ 'int4range', 'stretch', 'range' ], [ 'varbit', 'bits', 'varbit' ], [ 'pg_lsn', 'lsn', 'lsn' ], [ 'pair', 'pair', 'pair' ]);
# wide ones, by which conditions seldom go
my @wide = ([ 'text', 'pad', 'text', "(SELECT string_agg(md5((X * g)::text), '') FROM generate_series(1, 400) g)" ], [ 'text', 'pad', 'text', "repeat('large ' || X, 500)" ]);

# Those whose values filters compare many at a time, which is what they have most to do with.
my @filtered = grep { $_->[2] =~ /^(int|float|day|bool|oid|mood|char|money)$|^"char"$/ && $_->[0] !~ /^text/ } @types;

sub any_type { return rare(0.4) ? pick(@filtered) : pick(@types) }

sub new
{
	my ($class) = @_;

	return bless { tables => [], made => 0 }, $class;
}

# What there is but tables, in each schema.
sub ddl
{
	return ddl_of_types(0);
}

# ---------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------

# A column: how its rows' values are made.
sub make_column
{
	my ($name, $type) = @_;
	my ($sql_type, $values, $family, @own) = @$type;
	my $column = { name => $name, type => $sql_type =~ s/ COLLATE.*//r, declared => $sql_type, family => $family, values => $values };

	# NULL when all of them are of a pool's
	$column->{own} = @own && rare(0.6) ? pick(@own) : undef;
	$column->{mixed} = rare(0.3);
	$column->{nulls} = pick(0, 0, 10, 10, 90);
	$column->{pool} = [ map { '(' . value([ $name, $sql_type, $values ], 1) . ")::$column->{type}" } 1 .. pick(1, 3, 12) ];
	return $column;
}

# The value of a column in the row with the number that the expression gives. Salt: another value for it.
sub row_value
{
	my ($column, $number, $salt) = @_;
	my $hash = "(hashint4($number + $salt) & 2147483647)";
	my @pool = @{ $column->{pool} };
	my $own = defined $column->{own} ? '(' . ($column->{own} =~ s/\bX\b/($number + $salt % 7)/gr) . ")::$column->{type}" : undef;
	my $pool = @pool == 1 ? $pool[0] : "CASE $hash / 100 % " . @pool . ' ' . join(' ', map { "WHEN $_ THEN $pool[$_]" } 0 .. $#pool) . ' END';
	my $value = !defined $own ? $pool : $column->{mixed} ? "CASE WHEN $hash / 100 % 3 = 0 THEN $pool ELSE $own END" : $own;

	# few of them, since they are long
	return "CASE WHEN $number % 61 = $salt % 7 THEN $value ELSE 'short' END" if $column->{wide};
	return $value if !$column->{nulls};
	return "CASE WHEN $hash % 100 < $column->{nulls} THEN NULL ELSE $value END";
}

# Keys: one column whose values differ, or two, or none.
sub make_key
{
	my $n = { name => 'n', type => 'int', declared => 'int', family => 'int', values => 'int', nulls => 0, pool => [ map { int(rand(3000)) } 1 .. 12 ], own => 'X', key => 1 };
	my %own = (text => "'k' || X", 'text COLLATE "C"' => "'common/key/' || X", bigint => 'X::int8 * -3', numeric => 'X / 4.0', uuid => 'md5(X::text)::uuid',
		timestamp => "timestamp '2000-01-01' + X * interval '1 s'", 'double precision' => 'X / 4.0 - 100');
	my %values = (text => 'pad', 'text COLLATE "C"' => 'prefixed', bigint => 'signed', numeric => 'numeric', uuid => 'uuid', timestamp => 'stamp', 'double precision' => 'realkey');
	my $kind = pick(qw(none none n n one two two two));

	return ($n, []) if $kind eq 'none';
	return ($n, [$n]) if $kind eq 'n';
	my @can = grep { exists $values{ $_->[0] } && $_->[1] eq $values{ $_->[0] } || $kind eq 'two' && $_->[2] =~ /^(int|text|day|bool|mood|float)$/ } @types;
	@can = grep { exists $own{ $_->[0] } } @can if $kind eq 'one';
	my $other = make_column('kx', pick(@can));

	$other->{nulls} = 0;
	$other->{key} = 1;
	if ($kind eq 'one')
	{
		$other->{own} = $own{ $other->{declared} };
		$other->{mixed} = 0;
		$other->{unique} = 1;
		return ($n, [$other]);
	}
	return ($n, rare(0.7) ? [ $other, $n ] : [ $n, $other ]);
}

sub make_table
{
	my ($self) = @_;
	my $name = 's' . ++$self->{made};
	my $ncolumns = pick(1, 2, 4, 4, 8, 8, 15, 40);
	my ($n, $key) = make_key();
	my %seen = ($n => 1);
	my @columns = ($n, grep { !$seen{$_}++ } @$key);
	my @other = map { make_column("c$_", any_type()) } 1 .. $ncolumns - @columns;

	if (rare(0.4))
	{
		push @other, make_column('wide', pick(@wide));
		@{ $other[-1] }{qw(wide own nulls)} = (1, $other[-1]{own} // "repeat('large ' || X, 500)", 0);
	}
	# those of the key are anywhere
	splice(@other, int(rand(@other + 1)), 0, $_) foreach @columns;
	my $table = { name => $name, columns => \@other, key => $key, n => $n, next => 1, most => $ncolumns > 8 ? 1500 : pick(800, 2000, 6000) };

	$table->{parts} = pick(2, 3) if rare(0.15);
	$table->{gone} = [ map { make_column("gone$_", pick(@types)) } 1 .. pick(0, 0, 1, 2) ];
	return $table;
}

# Its definition, for an access method.
sub ddl_of
{
	my ($table, $am) = @_;
	my @columns = (@{ $table->{gone} }, @{ $table->{columns} });
	my @parts = map { "$_->{name} $_->{declared}" . ($_->{key} ? ' NOT NULL' : '') } @columns;
	my $name = $table->{name};

	push @parts, 'PRIMARY KEY (' . join(', ', map { $_->{name} } @{ $table->{key} }) . ')' if @{ $table->{key} };
	my $create = "CREATE TABLE $name (" . join(', ', @parts) . ')';
	return "$create USING $am" if !$table->{parts};
	my $by = @{ $table->{key} } ? $table->{key}[0]{name} : 'n';
	return ("$create PARTITION BY HASH ($by)",
		map { "CREATE TABLE ${name}_$_ PARTITION OF $name FOR VALUES WITH (MODULUS $table->{parts}, REMAINDER $_) USING $am" } 0 .. $table->{parts} - 1);
}

# Who may see what: a view that hides rows, and a policy, both by one condition on a column; and a function that fails
# when it is shown what they hide, and which the planner would have first.
sub ddl_of_guard
{
	my ($table) = @_;
	my $name = $table->{name};
	my $column = pick(grep { $_->{type} !~ /\[\]|pair/ } @{ $table->{columns} });
	my $condition = 'X ' . pick('=', '<>', '<', '>=') . ' ' . pick(@{ $column->{pool} });
	my $hides = $condition =~ s/X/$column->{name}/r;
	my $shown = $condition =~ s/X/\$1/r;

	$table->{guard} = $column;
	return (
		"CREATE FUNCTION shown_$name($column->{type}) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS 'BEGIN IF (" . ($shown =~ s/'/''/gr)
		  . ") IS NOT TRUE THEN RAISE EXCEPTION ''hidden row is shown''; END IF; RETURN true; END'",
		"CREATE VIEW view_$name WITH (security_barrier) AS SELECT " . join(', ', map { $_->{name} } @{ $table->{columns} }) . " FROM $name WHERE $hides",
		"CREATE POLICY shown ON $name USING ($hides)", "ALTER TABLE $name ENABLE ROW LEVEL SECURITY",
		"GRANT ALL ON $name, view_$name TO scan_reader");
}

# New tables in place of the old ones; statements for each access method.
sub renew
{
	my ($self, @ams) = @_;
	my @old = map { ("DROP TABLE $_->{name} CASCADE", "DROP FUNCTION shown_$_->{name}") } @{ $self->{tables} };
	my @guards;
	my %ddl;

	$self->{tables} = [ map { $self->make_table } 1 .. 3 ];
	@guards = map { ddl_of_guard($_) } @{ $self->{tables} };
	$ddl{$_} = [@old] foreach @ams;
	foreach my $am (@ams)
	{
		push @{ $ddl{$am} }, map { ddl_of($_, $am) } @{ $self->{tables} };
		push @{ $ddl{$am} }, @guards;
	}
	return \%ddl;
}

# ---------------------------------------------------------------------------
# What is done to them
# ---------------------------------------------------------------------------

sub insert
{
	my ($table, $rows) = @_;
	my $salt = int(rand(10000));
	my @columns = @{ $table->{columns} };
	my $from = $table->{next};

	$table->{next} += $rows;
	return "INSERT INTO $table->{name} (" . join(', ', map { $_->{name} } @columns) . ') SELECT '
	  . join(', ', map { $_->{name} eq 'n' ? 'i' : row_value($_, 'i', $_->{unique} ? 0 : $salt) } @columns)
	  . " FROM generate_series($from, " . ($table->{next} - 1) . ') i' . (rare(0.3) ? ' ORDER BY hashint4(i)' : '');
}

# Conditions are those that cannot fail, or there might be other rows on heap. Rows get other values of some columns. Whatever is moved out of a condition may be found by an older version, and
# what is moved into it may be hidden by one.
sub update
{
	my ($table) = @_;
	my $salt = int(rand(10000));
	my @can = grep { $_->{name} ne 'n' && !$_->{unique} } @{ $table->{columns} };
	my $where = rare(0.4) ? 'n % ' . pick(2, 3, 10, 50, 200) . ' = 0' : condition($table, { same => 1 });

	@can = grep { !$_->{key} } @can if $table->{parts} && @can > 1;
	return "UPDATE $table->{name} SET n = n WHERE $where" if !@can;
	my %set = map { $_->{name} => $_ } pick(@can), pick(@can), rare(0.2) ? @can : ();

	return "UPDATE $table->{name} SET " . join(', ', map { "$_ = " . row_value($set{$_}, 'n', $salt) } sort keys %set) . " WHERE $where";
}

sub delete_rows
{
	my ($table) = @_;

	return "DELETE FROM $table->{name} WHERE n % " . pick(7, 20, 100) . ' = ' . int(rand(7)) . (rare(0.5) ? ' AND ' . condition($table, { same => 1 }) : '');
}

sub write_rows
{
	my ($table) = @_;

	return pick(sub { update($table) }, sub { update($table) }, sub { delete_rows($table) }, sub { insert($table, pick(1, 20, 300)) })->();
}

# A column more, whose older rows have its default.
sub alter
{
	my ($table) = @_;

	if (@{ $table->{gone} } && rare(0.5))
	{
		my $gone = shift @{ $table->{gone} };
		return "ALTER TABLE $table->{name} DROP COLUMN $gone->{name}";
	}
	my $column = make_column('added' . ++$table->{added}, any_type());
	my $default = pick(@{ $column->{pool} });

	push @{ $table->{columns} }, $column;
	# the view's columns are those that it was made with
	$column->{late} = 1;
	return "ALTER TABLE $table->{name} ADD COLUMN $column->{name} $column->{declared}" . (rare(0.6) ? " DEFAULT $default" . (rare(0.3) ? ' NOT NULL' : '') : '');
}

sub churn { return map { { churn => $_, what => $_[1] } } leaves($_[0]) }

# How the tables begin: rows, merged to the bottom, in a run, or in memory.
sub load
{
	my ($self) = @_;
	my @items;

	foreach my $table (@{ $self->{tables} })
	{
		my $rows = int(rand($table->{most} - 250)) + 250;

		push @items, { write => insert($table, $rows) };
		next if rare(0.2);
		push @items, churn($table, 'spill');
		push @items, churn($table, 'merge') if rare(0.8);
		push @items, { write => insert($table, int($rows / 5) + 1) }, churn($table, 'spill') if rare(0.3);
	}
	push @items, { write => "ANALYZE $_->{name}" } foreach @{ $self->{tables} };
	return @items;
}

# Something that changes the state of a table.
sub step
{
	my ($self) = @_;
	my $table = pick(@{ $self->{tables} });

	return pick(
		sub { { write => write_rows($table) } },
		sub { ({ write => update($table) }, churn($table, 'spill')) },
		sub { ({ write => update($table) }, churn($table, 'spill'), { write => update($table) }) },
		sub { churn($table, 'spill') },
		sub { churn($table, 'merge') },
		sub { rare(0.4) ? { write => alter($table) } : { write => write_rows($table) } },
		sub {
			return { write => write_rows($table) } if $table->{parts} || ($table->{indexes} // 0) == 2;
			my @can = grep { !$_->{wide} && $_->{type} !~ /pair/ } @{ $table->{columns} };
			$table->{indexes}++;
			return { write => "CREATE INDEX ON $table->{name} (" . join(', ', map { $_->{name} . pick('', ' DESC') . pick('', ' NULLS FIRST') } pick(@can)) . ')' };
		})->();
}

# A transaction in which queries are asked: over its own rows, some of them taken back, some spilled, or in a snapshot
# that others have left behind.
sub transaction
{
	my ($self, $queries) = @_;
	my $table = pick(@{ $self->{tables} });
	my @items = ({ write => 'BEGIN' . pick('', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE') });
	my $beside = sub { map { { %$_, inside => 1 } } churn($table, $_[0]) };

	if (rare(0.4))
	{
		$items[0]{write} = 'BEGIN ISOLATION LEVEL REPEATABLE READ';
		push @items, { write => "SELECT count(*) FROM $table->{name}" }, map { { write => write_rows($table), inside => 1 } } 1 .. pick(1, 3);
		push @items, $beside->('spill') if rare(0.7);
		push @items, $beside->('merge') if rare(0.5);
	}
	else
	{
		push @items, map { { write => write_rows($table) } } 1 .. pick(1, 2);
		push @items, $beside->('spill') if rare(0.4);
		if (rare(0.6))
		{
			push @items, { write => 'SAVEPOINT a' }, { write => write_rows($table) };
			push @items, $beside->('spill') if rare(0.4);
			push @items, map { query($self->{tables}, 1) } 1 .. pick(0, 2);
			push @items, { write => pick('ROLLBACK TO a', 'ROLLBACK TO a', 'RELEASE a') };
		}
		push @items, { write => write_rows($table) } if rare(0.4);
	}
	push @items, map { query($self->{tables}, 1) } 1 .. $queries;
	return @items, { write => pick('COMMIT', 'COMMIT', 'ROLLBACK') };
}

# Some queries, and what is done before them: a list of { write }, which both twins do (inside: another session),
# { churn, what }, which is for rose alone, and { query } of RoseScanQueries.
sub next_block
{
	my ($self) = @_;

	return $self->transaction(pick(2, 5)) if rare(0.3);
	return ((map { $self->step } 1 .. pick(1, 1, 2)), map { query($self->{tables}, 0) } 1 .. pick(2, 6));
}

1;
