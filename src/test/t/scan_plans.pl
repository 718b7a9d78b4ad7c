# Rose Scans whose plans are kept while what they read becomes something else: prepared statements (generic and custom
# plans) and functions over columns that come, go and change their type, indexes, keys, policies and roles, hostile operators
# in the search path, partitions whose columns are in other orders, prepared transactions that stay, cursors that are held, and
# restarts after which an ALTER TABLE is the first to touch a table.
#
# Twins in two schemas, one of heap and one of rose; a session for each asks, another one for each alters. What both say
# must be the same, errors by their codes. Environment:
#
#   PLANS_SEED	repeat a run
#   PLANS_STEPS	how many steps, default 600
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no Rose Scan' if $ENV{ROSE_STANDIN};

my $steps = $ENV{PLANS_STEPS} // 600;
my $seed = seed_random('PLANS_SEED');
my $node = rose_node('plans', 'autovacuum = off', 'fsync = off', "rose.spill_interval = '1h'", 'rose.max_merge_workers = ' . (rand() < 0.5 ? 0 : 2),
	'rose.debug_piece_size = ' . (rand() < 0.5 ? "'8kB'" : "'32MB'"));
my @twins = qw(heap rose);
my (%asker, %other, @log);
my %count = map { $_ => 0 } qw(answers errors plans scans kept restarts prepared ddl);
my $different = 0;
my $gid = 0;

sub pick { return $_[ rand @_ ] }
sub below { return int rand $_[0] }
sub rare { return rand() < $_[0] }

# ---- two sides ----

# What a session says to a statement: rows, and the code of an error.
sub ask
{
	my ($session, $sql) = @_;

	$session->start("$sql;\n\\if :ERROR\n\\echo error :SQLSTATE\n\\endif\n");
	$session->{psql}->pump until $session->{out} =~ /^end of $session->{n}\n/m;
	return $session->{out} =~ s/\n?end of $session->{n}\n//r;
}

# The same to both; true if they agree. sorted: the order of rows is not defined.
sub both
{
	my ($sessions, $sql, $sorted) = @_;
	my %said = map { my $said = ask($sessions->{$_}, $sql); $_ => $sorted ? join("\n", sort split /\n/, $said) : $said } @twins;

	push @log, ($sessions == \%asker ? '' : '(other) ') . $sql;
	$count{answers}++;
	$count{errors}++ if $said{heap} =~ /^error/m;
	return $said{heap} if $said{heap} eq $said{rose};
	$different = 1;
	diag("PLANS_SEED=$seed, step $#log: heap and rose differ");
	diag("  $_") foreach @log[ ($#log > 60 ? $#log - 60 : 0) .. $#log ];
	diag("--- $_: " . substr($said{$_}, 0, 1500)) foreach @twins;
	diag(ask($asker{rose}, "EXPLAIN (VERBOSE, COSTS off) $sql"));
	return;
}

sub connect_all
{
	foreach my $twin (@twins)
	{
		$asker{$twin} = RoseTest::Session->new($node);
		$other{$twin} = RoseTest::Session->new($node);
		ask($_, "SET search_path = twin_$twin; SET client_min_messages = error; SET extra_float_digits = 1; SET lock_timeout = '20s'") foreach $asker{$twin}, $other{$twin};
	}
	tune();
	return;
}

# How rose reads; mostly by Rose Scans.
sub tune
{
	my @settings = rare(0.6) ? ('rose.enable_scan = on', 'rose.scan_min_rows = 0', 'cpu_tuple_cost = 1') : ('rose.enable_scan = on', 'rose.scan_min_rows = 200', 'cpu_tuple_cost = 0.01', scan_settings());

	push @settings, 'rose.enable_aggregate = ' . pick('on', 'off'), 'rose.aggregate_sample = ' . pick(-1, 0, 1, 100);
	ask($asker{rose}, "SET $_") foreach @settings;
	return;
}

# ---- tables: name, key, columns in the order of their names ----

my %tables;
my $made = 0;
my @without;		# kept plans that had no Rose Scan where there is to be one

# Expression of the row's number, for a type.
my %expr = (
	int => ['g % 1000', 'g', '(g * 37 % 5000) - 2000'], bigint => [ 'g * 1000', 'g % 30' ], smallint => ['g % 300'], numeric => [ 'g % 40', 'g / 4.0' ], 'double precision' => [ 'g / 8.0', '(g % 50)' ],
	date => [q{date '2020-01-01' + g % 365}], timestamp => [q{timestamp '2020-01-01' + g % 365 * interval '1 day'}], text => [ q{'w' || g % 90}, q{repeat('long ', g % 40) || g} ], bool => ['g % 3 = 0']);

sub value_of
{
	my ($column, $number) = @_;
	my $value = '(' . ($column->{expr} =~ s/\bg\b/$number/gr) . ")::$column->{type}";

	return $column->{nulls} ? "CASE WHEN $number % 7 <> 3 THEN $value END" : $value;
}

sub new_column
{
	my ($type) = @_;

	$type //= pick(sort keys %expr);
	return { name => 'c' . ++$made, type => $type, expr => pick(@{ $expr{$type} }), nulls => rare(0.4) };
}

sub insert
{
	my ($table, $from, $n) = @_;
	my @columns = @{ $table->{columns} };

	return "INSERT INTO $table->{name} (id" . join('', map { ", $_->{name}" } @columns) . ') SELECT g' . join('', map { ', ' . value_of($_, 'g') } @columns)
	  . " FROM generate_series($from, " . ($from + $n - 1) . ') g';
}

sub new_table
{
	my ($name, $kind) = @_;
	my $table = { name => $name, kind => $kind, next => 1, columns => [ map { new_column() } 1 .. 5 ], gone => 0 };
	my @definitions = ('id int' . ($kind eq 'plain' ? ' NOT NULL' : ''), map { "$_->{name} $_->{type}" } @{ $table->{columns} });
	my $primary = $kind eq 'plain' ? '' : ', PRIMARY KEY (id)';
	my @leaves = $name;

	splice(@{ $table->{columns} }, 0, 0, { name => 'x', type => 'int', expr => 'g % 17', nulls => 0 });
	push @definitions, 'x int';
	foreach my $twin (@twins)
	{
		my $sql = $kind eq 'parts' ? "CREATE TABLE $name (" . join(', ', @definitions) . "$primary) PARTITION BY RANGE (id)"
		  : "CREATE TABLE $name (" . join(', ', @definitions) . "$primary) USING $twin";
		die $sql if ask($other{$twin}, $sql) =~ /error/;
	}
	if ($kind eq 'parts')
	{
		# columns in other orders, and gone ones before and between them
		@leaves = map { "${name}_$_" } 0 .. 2;
		foreach my $i (0 .. 2)
		{
			my @order = sort { $a->[0] <=> $b->[0] } map { [ rand(), $_ ] } @definitions, 'gone1 text', 'gone2 bigint';
			my $to = $i == 2 ? 'MAXVALUE' : ($i + 1) * 700;
			foreach my $twin (@twins)
			{
				my $am = $i == 1 && $seed % 3 == 0 ? 'heap' : $twin;
				my $said = ask($other{$twin}, "CREATE TABLE $leaves[$i] (" . join(', ', map { $_->[1] =~ s/^(id int)$/$1 NOT NULL/r } @order) . ") USING $am")
				  . ask($other{$twin}, "ALTER TABLE $leaves[$i] DROP COLUMN gone1, DROP COLUMN gone2")
				  . ask($other{$twin}, "ALTER TABLE $name ATTACH PARTITION $leaves[$i] FOR VALUES FROM (" . ($i ? $i * 700 : 'MINVALUE') . ") TO ($to)");
				die $said if $said =~ /error/;
			}
			$table->{heap_leaf} = $leaves[$i] if $i == 1 && $seed % 3 == 0;
		}
	}
	$table->{leaves} = [ grep { $_ ne ($table->{heap_leaf} // '') } @leaves ];
	$tables{$name} = $table;
	both(\%other, insert($table, 1, 1500));
	$table->{next} = 1501;
	both(\%other, "ANALYZE $name") if rare(0.8);
	return;
}

sub idle_table { my @can = grep { !$_->{busy} } map { $tables{$_} } sort keys %tables; return @can ? pick(@can) : undef }
sub any_table { return $tables{ pick(sort keys %tables) } }

# ---- queries ----

my %constants = (
	int => sub { below(1200) }, bigint => sub { below(40) * pick(1, 1000) }, smallint => sub { below(300) }, numeric => sub { below(400) / 4 }, 'double precision' => sub { below(1600) / 8 },
	date => sub { "'2020-" . sprintf('%02d', 1 + below(12)) . "-11'" }, timestamp => sub { "'2020-" . sprintf('%02d', 1 + below(12)) . "-11'" }, text => sub { "'w" . below(90) . "'" }, bool => sub { pick('true', 'false') });

sub type_of
{
	my ($column) = @_;

	return $column->{type} =~ /varchar/ ? 'text' : $column->{type};
}

# A condition on a column, its constants perhaps parameters, whose types and values go to @$parameters.
sub condition
{
	my ($table, $parameters) = @_;
	my $column = rare(0.3) ? { name => 'id', type => 'int' } : pick(@{ $table->{columns} });
	my $constant = sub {
		my $value = $constants{ type_of($column) }->();
		return $value if !$parameters || @$parameters >= 4 || rare(0.4);
		push @$parameters, { type => type_of($column), value => rare(0.05) ? 'NULL' : $value };
		return '$' . @$parameters;
	};
	my $name = $column->{name};

	return pick($name, "NOT $name", "$name IS NOT TRUE", "$name = " . $constant->()) if $column->{type} eq 'bool';
	return pick(
		sub { "$name " . pick('<', '>=', '=', '<>', '>') . ' ' . $constant->() }, sub { "$name >= " . $constant->() . " AND $name < " . $constant->() },
		sub { "$name IS " . pick('', 'NOT ') . 'NULL' }, sub { "$name IN (" . join(', ', map { $constant->() } 1 .. 3) . ')' },
		sub { "$name BETWEEN " . $constant->() . ' AND ' . $constant->() }, sub { "($name > " . $constant->() . ' OR x = 5)' }, sub { "length($name\::text) > 2 AND $name > " . $constant->() })->();
}

sub query
{
	my ($table, $parameters) = @_;
	my $where = join(' AND ', map { condition($table, $parameters) } 1 .. pick(1, 1, 2));
	my $name = $table->{name};
	my $column = pick(@{ $table->{columns} })->{name};
	my $from = below(1200);
	# by the hostile operators all rows meet all
	my $some = "a.id BETWEEN $from AND " . ($from + 100);

	return pick(
		"SELECT count(*), sum(x), count($column) FROM $name WHERE $where", "SELECT count(*), min(id), max(id), sum(x), avg(x) FROM $name WHERE $where",
		"SELECT id, $column FROM $name WHERE $where ORDER BY id", "SELECT * FROM $name WHERE $where ORDER BY id", "SELECT t FROM $name t WHERE $where ORDER BY id LIMIT 20",
		"SELECT x, count(*), min($column\::text) FROM $name WHERE $where GROUP BY x ORDER BY x", "SELECT count($column), count(*) FROM $name",
		"SELECT count(*), sum(a.x) FROM $name a JOIN $name b ON b.id = a.id + 1 WHERE $some AND " . ($where =~ s/\b(id|x|c\d+)\b/a.$1/gr),
		"SELECT id, (SELECT count(*) FROM $name b WHERE b.x = a.x AND b.id < a.id) FROM $name a WHERE $some AND a.id % 5 = 1 AND a.x < 9 ORDER BY id",
		"SELECT tableoid::regclass::text, count(*) FROM $name WHERE $where GROUP BY 1 ORDER BY 1");
}

# ---- steps ----

my @statements;		# { name, parameters }
my ($role, $path) = ('', '');		# of the askers, unless they are who they were

sub prepare
{
	my @parameters;
	my $query = query(any_table(), \@parameters);
	my $name = 's' . ++$made;
	my $types = @parameters ? ' (' . join(', ', map { $_->{type} } @parameters) . ')' : '';

	if (@statements > 12)
	{
		my $old = splice(@statements, below(scalar @statements), 1);
		both(\%asker, "DEALLOCATE $old->{name}");
	}
	my $said = both(\%asker, "PREPARE $name$types AS $query");
	push @statements, { name => $name, parameters => \@parameters } if defined $said && $said eq '';
	return;
}

sub execute
{
	return prepare() if !@statements;
	my $statement = pick(@statements);
	my @values = map { rare(0.3) ? $constants{ $_->{type} }->() : $_->{value} } @{ $statement->{parameters} };
	my $call = "EXECUTE $statement->{name}" . (@values ? ' (' . join(', ', @values) . ')' : '');

	$count{executes}++;
	both(\%asker, $call) // return;
	return if rare(0.6);
	my $plan = ask($asker{rose}, "EXPLAIN (COSTS off) $call");
	return if $plan =~ /^error/m;
	$count{plans}++;
	$count{scans}++ if $plan =~ /Rose Scan/;
	return;
}

# Statements whose plans are kept from one start of the server to the next, over all that the tables meet, and used only with
# settings by which they are to have a Rose Scan.
sub prepare_kept
{
	foreach my $name (sort keys %tables)
	{
		ask($asker{$_}, "PREPARE kept_$name AS SELECT count(*), count(x), sum(id) FROM $name WHERE x <> 3") foreach @twins;
	}
	return;
}

sub execute_kept
{
	both(\%asker, 'BEGIN');
	ask($asker{rose}, 'SET LOCAL ' . $_)
	  foreach 'plan_cache_mode = force_generic_plan', 'enable_seqscan = on', 'enable_indexonlyscan = off', 'rose.enable_scan = on', 'rose.scan_min_rows = 0', 'cpu_tuple_cost = 1';
	foreach my $name (sort keys %tables)
	{
		both(\%asker, "EXECUTE kept_$name");
		my $plan = ask($asker{rose}, "EXPLAIN (COSTS off) EXECUTE kept_$name");
		push @without, "$name at step $#log:\n$plan" if $plan !~ /Rose Scan/;
		$count{kept}++;
	}
	both(\%asker, 'COMMIT');
	return;
}

sub write_rows
{
	my ($sessions, $table) = @_;
	my $column = pick(@{ $table->{columns} });
	my $salt = below(100);

	return both($sessions, pick(
			sub { my $n = $table->{next} < 3000 ? pick(1, 20, 200) : 2; $table->{next} += $n; insert($table, $table->{next} - $n, $n) },
			sub { "UPDATE $table->{name} SET $column->{name} = " . value_of($column, "(id + $salt)") . ' WHERE id % ' . pick(3, 10, 50) . ' = 1' },
			sub { "DELETE FROM $table->{name} WHERE id % " . pick(20, 100) . ' = ' . below(20) },
			sub { "UPDATE $table->{name} SET x = x + 1 WHERE " . condition($table) })->());
}

sub churn
{
	my ($table) = @_;
	my $leaf = pick(@{ $table->{leaves} });

	ask($other{rose}, "SET lock_timeout = '1s'; SELECT rose." . pick('spill', 'merge') . "('$leaf'); SET lock_timeout = '20s'");
	return;
}

my %wider = (int => [ 'bigint', 'numeric', 'double precision' ], smallint => [ 'int', 'bigint' ], bigint => ['numeric'], date => ['timestamp'], text => [ 'varchar(400)', 'text' ], bool => ['text']);

# A command on a table. What it does to its columns is noted if it succeeds, and not taken back.
sub ddl
{
	my ($table) = @_;
	my $name = $table->{name};
	my $columns = $table->{columns};
	my $column = pick(@$columns);

	return pick(
		sub { my $new = new_column(); my $default = rare(0.6) ? ' DEFAULT ' . $constants{ $new->{type} }->() : ''; ("ALTER TABLE $name ADD COLUMN $new->{name} $new->{type}$default", sub { push @$columns, $new }) },
		sub { return ("ANALYZE $name", sub { }) if @$columns < 4 || $column->{name} eq 'x'; ("ALTER TABLE $name DROP COLUMN $column->{name}", sub { @$columns = grep { $_ != $column } @$columns }) },
		sub { my $to = pick(@{ $wider{ $column->{type} } // ['text'] }); return ("ANALYZE $name", sub { }) if $column->{name} eq 'x' && $to eq 'text'; ("ALTER TABLE $name ALTER COLUMN $column->{name} TYPE $to", sub { $column->{type} = $to =~ s/\(.*//r }) },
		sub { return ("ANALYZE $name", sub { }) if $column->{name} eq 'x'; my $new = 'c' . ++$made; ("ALTER TABLE $name RENAME COLUMN $column->{name} TO $new", sub { $column->{name} = $new }) },
		sub { my $index = 'i' . ++$made; ("CREATE INDEX $index ON $name ($column->{name}, id)", sub { push @{ $table->{indexes} }, $index }) },
		sub { my $index = pop @{ $table->{indexes} // [] }; ($index ? "DROP INDEX $index" : "ANALYZE $name", sub { }) },
		sub { return ("ANALYZE $name", sub { }) if $table->{kind} ne 'keyed'; my @key = @{ pick([ 'id', 'x' ], [ 'x', 'id' ], ['id']) }; ("ALTER TABLE $name DROP CONSTRAINT ${name}_pkey, ADD PRIMARY KEY (" . join(', ', @key) . ')', sub { }) },
		sub { my $to = pick('on', 'off'); ($to eq 'on' ? "ALTER TABLE $name ENABLE ROW LEVEL SECURITY" : "ALTER TABLE $name DISABLE ROW LEVEL SECURITY", sub { }) },
		sub { my $policy = 'id % ' . pick(2, 3) . ' = 0 AND x ' . pick('<', '>') . ' ' . below(17); ("ALTER POLICY shown ON $name USING ($policy)", sub { }) })->();
}

sub alter
{
	my ($sessions, $taken_back) = @_;
	my $table = idle_table() or return;
	my ($sql, $note) = ddl($table);

	$count{ddl}++;
	my $said = both($sessions, $sql);
	$note->() if defined $said && $said !~ /^error/m && !$taken_back;
	return;
}

# What fails is taken back, and not the transaction.
sub attempt
{
	my ($what) = @_;

	both(\%asker, 'SAVEPOINT s');
	$what->();
	both(\%asker, failed() ? 'ROLLBACK TO s' : 'RELEASE s');
	return;
}

# A transaction that alters, asks, and mostly takes it back: the plans of before are good again.
sub own_transaction
{
	my $back = rare(0.6);
	my $table = idle_table() or return;

	both(\%asker, 'BEGIN');
	foreach (1 .. pick(2, 4))
	{
		attempt(sub { rare(0.5) ? alter(\%asker, $back) : write_rows(\%asker, $table) }) if rare(0.6);
		attempt(\&execute);
	}
	both(\%asker, $back ? 'ROLLBACK' : 'COMMIT');
	return;
}

# Has the transaction at hand failed?
sub failed
{
	return ask($asker{heap}, 'SELECT 1') =~ /error/;
}

# A prepared transaction, and what is asked while it stays, also over a kill.
sub two_phases
{
	my $table = idle_table() or return;
	my $id = 'plan_' . ++$gid;

	both(\%other, 'BEGIN');
	write_rows(\%other, $table) foreach 1 .. pick(1, 3);
	foreach my $twin (@twins)
	{
		ask($other{$twin}, "PREPARE TRANSACTION '${id}_$twin'");
	}
	$table->{busy} = $id;
	$count{prepared}++;
	return;
}

sub end_prepared
{
	my ($table) = grep { $_->{busy} } map { $tables{$_} } sort keys %tables;
	return if !$table;
	my $how = pick('COMMIT', 'ROLLBACK');

	foreach my $twin (@twins)
	{
		ask($other{$twin}, "$how PREPARED '$table->{busy}_$twin'");
	}
	push @log, "$how PREPARED of $table->{name}";
	delete $table->{busy};
	execute();
	both(\%asker, query($table));
	return;
}

sub restart
{
	my @queries = map { query(any_table()) } 1 .. 3;
	both(\%asker, $_) foreach @queries;
	own_self();
	execute_kept();
	$_->end foreach values %asker, values %other;
	rand() < 0.5 ? crash_and_restart($node) : restart_by($node, pick('fast', 'immediate'));
	@statements = ();
	connect_all();
	prepare_kept();
	push @log, '(restart)';
	alter(\%other) if rare(0.8);
	both(\%asker, $_) foreach @queries;
	$count{restarts}++;
	return;
}

# Cursors over what changes: by the other session, or by their own.
sub cursors
{
	my $table = idle_table() or return;
	my $hold = rare(0.5) ? ' WITH HOLD' : '';
	my $query = "SELECT id, x, t FROM $table->{name} t WHERE " . condition($table) . ' ORDER BY id' . pick('', ' DESC');

	my $scroll = rare(0.5);
	my $writer = rare(0.7) ? \%other : \%asker;

	both(\%asker, 'BEGIN' . pick('', ' ISOLATION LEVEL REPEATABLE READ'));
	both(\%asker, 'DECLARE c ' . ($scroll ? 'SCROLL ' : '') . "CURSOR$hold FOR $query") // return;
	foreach (1 .. 4)
	{
		both(\%asker, 'FETCH ' . pick(3, 70, 'NEXT') . ' FROM c');
		both(\%asker, 'FETCH ' . pick('BACKWARD 5', 'ABSOLUTE 7', 'PRIOR', 'LAST') . ' FROM c') if $scroll;
		last if failed();
		write_rows($writer, $table);
		churn($table) if rare(0.5);
	}
	both(\%asker, pick('COMMIT', 'COMMIT', 'ROLLBACK'));
	if ($hold)
	{
		alter(\%other);
		both(\%asker, 'FETCH ALL FROM c');
		both(\%asker, 'CLOSE ALL');
	}
	return;
}

# Another role, or another way to find operators; plans are made anew, or not.
sub become
{
	if (rare(0.5))
	{
		$role = $role ? '' : 'plan_reader';
		return both(\%asker, $role ? "SET ROLE $role" : 'RESET ROLE');
	}
	$path = $path ? '' : 'hostile, ';
	foreach my $twin (@twins)
	{
		ask($asker{$twin}, "SET search_path = ${path}twin_$twin" . ($path ? ', pg_catalog' : ''));
	}
	push @log, "SET search_path = ${path}twin";
	return;
}

# Who they were.
sub own_self
{
	both(\%asker, 'RESET ROLE') if $role;
	foreach my $twin (@twins)
	{
		ask($asker{$twin}, "SET search_path = twin_$twin") if $path;
	}
	($role, $path) = ('', '');
	return;
}

# A leaking function shows what it is asked; the barrier, and policies, must hide what they hide from it.
sub ask_guarded
{
	my $table = any_table();

	return both(\%asker, "SELECT count(*), sum(x) FROM guard_$table->{name} WHERE leaks(id) AND " . pick('x > 3', 'id > 300 AND id < 900', 'x IN (1, 2, 3)', 'x = 6'));
}

sub settings
{
	both(\%asker, 'SET plan_cache_mode = ' . pick('auto', 'force_generic_plan', 'force_custom_plan'));
	both(\%asker, 'SET enable_' . pick('indexscan', 'seqscan', 'material', 'sort') . ' = ' . pick('on', 'on', 'off'));
	tune() if !$role;
	return;
}

# ---- the run ----

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE plan_reader;
CREATE SCHEMA hostile;
-- they answer otherwise, or fail
CREATE FUNCTION hostile.less(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 OPERATOR(pg_catalog.>) $2';
CREATE FUNCTION hostile.same(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 OPERATOR(pg_catalog.<>) $2';
CREATE FUNCTION hostile.more(bigint, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RAISE ''hostile''; END';
CREATE OPERATOR hostile.< (LEFTARG = int, RIGHTARG = int, FUNCTION = hostile.less, RESTRICT = scalarltsel);
CREATE OPERATOR hostile.= (LEFTARG = int, RIGHTARG = int, FUNCTION = hostile.same);
CREATE OPERATOR hostile.> (LEFTARG = bigint, RIGHTARG = int, FUNCTION = hostile.more);
CREATE FUNCTION hostile.twice(bigint, int) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT coalesce($1, 0) + 2 * $2::bigint';
CREATE AGGREGATE hostile.sum(int) (SFUNC = hostile.twice, STYPE = bigint);
GRANT USAGE ON SCHEMA hostile TO plan_reader;
SQL
foreach my $twin (@twins)
{
	$node->safe_psql('postgres', "CREATE SCHEMA twin_$twin; GRANT USAGE ON SCHEMA twin_$twin TO plan_reader;"
		. "CREATE FUNCTION twin_$twin.leaks(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS \$\$ BEGIN IF \$1 % 2 = 1 THEN RAISE 'hidden row %', \$1; END IF; RETURN true; END \$\$");
}
connect_all();
new_table('k', 'keyed');
new_table('p', 'plain');
new_table('g', 'parts');
foreach my $name (sort keys %tables)
{
	both(\%other, $_)
	  foreach "CREATE POLICY shown ON $name USING (id % 2 = 0)", "GRANT ALL ON $name TO plan_reader", "CREATE VIEW guard_$name WITH (security_barrier) AS SELECT id, x FROM $name WHERE id % 2 = 0 AND x <> 4",
	  "GRANT SELECT ON guard_$name TO plan_reader";
	churn($tables{$name}) if rare(0.7);
}
prepare_kept();
execute_kept();
for (1 .. $steps)
{
	last if $different;
	my $dice = rand();
	my $table = idle_table();

	if ($dice < 0.35) { execute() }
	elsif ($dice < 0.47) { prepare() }
	elsif ($dice < 0.57) { write_rows(\%other, $table) if $table }
	elsif ($dice < 0.67) { alter(\%other) }
	elsif ($dice < 0.73) { churn(any_table()) }
	elsif ($dice < 0.77) { own_transaction() if !$role && !$path }
	elsif ($dice < 0.80) { two_phases() if !grep { $_->{busy} } values %tables }
	elsif ($dice < 0.83) { end_prepared() }
	elsif ($dice < 0.87) { become() }
	elsif ($dice < 0.91) { ask_guarded() }
	elsif ($dice < 0.95) { settings() if !$role }
	elsif ($dice < 0.985) { cursors() if !$role && !$path }
	elsif ($dice < 0.988) { restart() }
	elsif (!$role && !$path) { execute_kept() }
	restart() if $_ == int($steps / 2) && !$count{restarts};
}
own_self();
if (!$different)
{
	end_prepared();
	two_phases() if !$count{prepared};
	end_prepared();
	execute_kept();
}
note(join ', ', map { "$_ $count{$_}" } sort keys %count);
ok(!$different, "the same answers on heap and on rose ($count{answers} statements)");
cmp_ok($count{errors}, '<', 0.5 * $count{answers}, 'most statements have an answer');
is(join("\n", @without), '', "plans that were kept have a Rose Scan ($count{kept})");
cmp_ok($count{$_}, '>', 0, "... $_") foreach qw(restarts prepared ddl plans kept);
foreach my $table ($different ? () : map { $tables{$_} } sort keys %tables)
{
	is($node->safe_psql('postgres', "SELECT c::text FROM rose.check('twin_rose.$_') c"), '', "$_ is sound") foreach @{ $table->{leaves} };
}
$_->end foreach values %asker, values %other;
$node->stop;
done_testing();
