
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

use RoseSqlCross;
use RoseSqlTables;
use RoseTest qw(scan_settings);

# new(tables => [names], icu => whether the server has ICU, ctid => whether rows
# are also found by ctid, indexes => at most so many a table): all tables if none are named, but
# for those whose collation the server lacks.
sub new
{
	my ($class, %args) = @_;
	my %wanted = map { $_ => 1 } @{ $args{tables} // [] };
	my @chosen = grep { !%wanted || $wanted{ $_->{name} } } all_tables();

	@chosen = grep { !needs_icu($_) } @chosen if !$args{icu};
	die 'no tables' if !@chosen;
	foreach my $table (@chosen)
	{
		$table->{columns} =
		  $table->{key_last} ? [ @{ $table->{other} }, @{ $table->{key} } ] : [ @{ $table->{key} }, @{ $table->{other} } ];
	}
	my $self = bless { tables => \@chosen, icu => $args{icu}, ctid => $args{ctid}, indexes => $args{indexes}, cursors => 0, added => 0 }, $class;
	$self->{index_ddl} = [ map { $self->index_ddl($_) } @chosen ] if $args{indexes};
	return $self;
}

# From here on statements are about few of the tables, so that they meet.
sub focus
{
	my ($self, $n) = @_;

	$self->{all} //= $self->{tables};
	$self->{tables} = [ map { pick(@{ $self->{all} }) } 1 .. $n ];
	return;
}

sub table_names
{
	my ($self) = @_;

	return map { $_->{name} } @{ $self->{tables} };
}

# The tables and partitions that can be spilled, merged and checked.
sub leaf_names
{
	my ($self) = @_;

	return map { leaves_of($_) } @{ $self->{tables} };
}

# CREATE TABLE statements with access method $am, in an order that suits the
# foreign keys.
sub ddl
{
	my ($self, $am) = @_;

	return $self->types, $self->tables($am);
}

# Its two parts. The second one can be had again, for tables that are made anew.
sub types
{
	my ($self) = @_;

	return ddl_of_types($self->{icu});
}

sub tables
{
	my ($self, $am) = @_;

	return (map { ddl_of_table($_, $am) } @{ $self->{tables} }), @{ $self->{index_ddl} // [] };
}

# CREATE INDEX statements for a table, which remembers the indexes.
sub index_ddl
{
	my ($self, $table) = @_;

	return map { create_index($table, $_, 1) } 1 .. 1 + int(rand($self->{indexes}));
}

# A condition on the first columns of an index of the table, as one that rows are found by. If the index has a
# predicate, the condition mostly implies it.
sub by_index
{
	my ($self, $table) = @_;
	my $name = pick(sort keys %{ $table->{indexed} });
	my @columns = @{ $table->{indexed}{$name} };
	my $predicate = $table->{predicate}{$name};
	my @conditions;

	foreach my $column (@columns)
	{
		push @conditions, pick(
			sub { "$column->[0] = " . value($column, 1) },
			sub { "$column->[0] = " . value($column, 1) },
			sub { "$column->[0] IN (" . join(', ', map { value($column) } 1 .. 1 + int(rand(6))) . ')' },
			sub { "$column->[0] BETWEEN " . value($column, 1) . ' AND ' . value($column, 1) },
			sub { "$column->[0] " . pick('<', '<=', '>', '>=') . ' ' . value($column, 1) },
			sub { "$column->[0] IS NULL" },
			sub { "$column->[0] IS NOT NULL" })->();
		last if rare(0.4);
	}
	push @conditions, pick(@$predicate[ 1 .. $#$predicate ]) if $predicate && rare(0.8);
	return join(' AND ', @conditions);
}

# Statements about the indexes of a table.
sub use_index
{
	my ($self, $table) = @_;
	my @names = sort keys %{ $table->{indexed} // {} };
	my $n = int(rand($self->{indexes}));

	return one(create_index($table, $n)) if !@names || (@names < $self->{indexes} && rare(0.02));
	my $name = pick(@names);
	my $columns = names($table->{indexed}{$name});
	my $condition = $self->by_index($table);

	$condition = "(($condition) OR (" . $self->by_index($table) . '))' if rare(0.2);
	return pick(
		sub { one("SELECT * FROM $table->{name} WHERE $condition") },
		sub { one("SELECT * FROM $table->{name} WHERE $condition") },
		sub { one("SELECT $columns FROM $table->{name} WHERE $condition") },
		sub { one("SELECT count(*), count($table->{indexed}{$name}[0][0]) FROM $table->{name} WHERE $condition") },
		sub { one("SELECT a, count(*) FROM $table->{name} WHERE $condition GROUP BY a") },
		sub { one("SELECT $columns FROM $table->{name} ORDER BY $columns") },
		sub { one("UPDATE $table->{name} SET " . assignments($table) . " WHERE $condition" . returning()) },
		sub { one("DELETE FROM $table->{name} WHERE $condition" . (rare(0.5) ? ' AND a % 3 = 0' : '') . returning()) },
		sub { one("SELECT * FROM $table->{name} WHERE $condition FOR UPDATE") },
		sub {
			return one("REINDEX TABLE $table->{name}") if rare(0.1);
			return one("SELECT count(*) FROM $table->{name} WHERE $condition") if rare(0.8);
			delete $table->{indexed}{$name};
			return one("DROP INDEX IF EXISTS $name");
		})->();
}

# The next piece of work: a list of { sql, sorted }, to be run in order. sorted
# says that the rows come in a defined order. { churn => table } is a place
# where the table may be spilled or merged.
sub next_block
{
	my ($self) = @_;
	my @block;

	return ({ churn => pick($self->leaf_names) }) if rare(0.05);
	return $self->settings if rare(0.02);
	return $self->statement if rare(0.4);
	return $self->cursor_block if rare(0.08);
	return churn_that_can_run($self->spilled_savepoint) if rare(0.08);
	return churn_that_can_run($self->ctid_kept) if $self->{ctid} && rare(0.08);

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
			push @block, { churn => pick($self->leaf_names), inside => 1 };
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

# A transaction that truncates or alters a table, or drops an index, keeps everybody else out of it, and of
# those that reference it: another session that spills one would wait for the
# transaction, which waits for that session. Leaves out such places.
sub churn_that_can_run
{
	my $locked = 0;
	my @kept;

	foreach my $item (@_)
	{
		$locked = 1 if ($item->{sql} // '') =~ /^(TRUNCATE|ALTER|DROP INDEX|REINDEX)/;
		push @kept, $item unless $locked && $item->{churn} && $item->{inside};
	}
	return @kept;
}

# An ALTER TABLE of some table.
sub alter_some
{
	my ($self) = @_;

	return $self->alter(pick(@{ $self->{tables} }));
}

# Which plans are chosen; the answers must not depend on it.
sub settings
{
	my ($self) = @_;

	return ((map { { sql => "SET $_" } } 'rose.enable_scan = on', 'rose.scan_min_rows = 200', 'cpu_tuple_cost = 0.01', scan_settings()),
		map { { sql => "SET $_ = " . pick('on', 'on', 'off') } }
	  qw(enable_seqscan enable_indexscan enable_indexonlyscan enable_hashjoin enable_mergejoin enable_nestloop enable_sort enable_material enable_memoize));
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
		[ 4, \&lock_rows ], [ 1, \&prepared ], [ 2, \&window ], [ 0.3, \&alter ],
		[ $self->{ctid} ? 4 : 0, \&by_ctid ], [ $self->{indexes} ? 25 : 0, \&use_index ]);
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
	my @arbiters = ('(' . names($table->{key}) . ')', values %{ $table->{unique} // {} });
	$sql .= ' ON CONFLICT ' . pick(sort @arbiters) . ' DO UPDATE SET a = '
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
	@rows = ($rows[0]) if $key->[2] =~ /^(numeric|scaled|cased|jkey|pair|nums|words)$/;
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
	  $key->[2] =~ /^(uuid|bool|bytes|mac|xid|jkey|stretch|gaps|pair|nums|floats|words|vector|five)$/ ? "count($key->[0])" : "min($key->[0])$zero, max($key->[0])$zero";

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

# Where one transaction has updated a row and then deleted it, heap's KEY SHARE waits, whatever it is told.
sub lock_rows
{
	my ($self, $table) = @_;
	my $order = @{ $table->{key} } ? names($table->{key}) : names($table->{columns});

	return one("SELECT * FROM $table->{name} WHERE " . where($table) . pick('', " ORDER BY $order")
		  . ' FOR ' . pick(map({ ($_, "$_ NOWAIT", "$_ SKIP LOCKED") } 'UPDATE', 'NO KEY UPDATE', 'SHARE'), ('KEY SHARE') x 3));
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
			push @block, { churn => pick(leaves_of($table)), inside => 1 } if rare(0.05);
		}
	}
	push @block, { sql => pick('COMMIT', 'ROLLBACK') };
	push @block, { sql => "FETCH ALL FROM $cursor", ordered => 1 }, { sql => "CLOSE $cursor" } if rare(0.5);
	return churn_that_can_run(@block);
}

1;
