# ALTER TABLE of every kind crossed with savepoints, rollbacks, loads that are larger than memory, spills and merges by others, crashes
# and two-phase commit: each statement gives the same answer on a heap table and on a rose table. Environment:
#
#   ALTER_SEED    repeat a run
#   ALTER_STEPS   how many statements, default 400
#
# At the first difference both answers and the statements before it are printed.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseLockstep;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $steps = $ENV{ALTER_STEPS} // 400;
my $seed = seed_random('ALTER_SEED');
my $node = rose_node('alter', "rose.memtable_size = '4MB'", "rose.spill_interval = '1s'", scan_settings(), 'autovacuum = off', 'fsync = off',
	'max_prepared_transactions = 2', 'allow_in_place_tablespaces = on');

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }

sql("SET allow_in_place_tablespaces = on; CREATE TABLESPACE elsewhere LOCATION ''");
foreach my $side (qw(heap rose))
{
	sql("CREATE SCHEMA twin_$side; SET search_path = twin_$side;"
		  . "CREATE TABLE t (id int CONSTRAINT t_pkey PRIMARY KEY, v int, w text) USING $side; INSERT INTO t SELECT g, g % 10, 'w' || g FROM generate_series(1, 1000) g");
}

# What the table is like; how it was at each savepoint, and before the transaction.
my %now = (key => 1, columns => { v => 'int', w => 'text' }, next => 1, top => 1000);
my (@saved, %before, $open, $session, @history);

sub copy { my ($state) = @_; return (%$state, columns => { %{ $state->{columns} } }) }

sub connect_again
{
	$session->end if $session;
	$session = RoseLockstep->new($node, 's1');
	return;
}

# Does it on both sides; returns whether it was done, and dies if the answers differ.
sub both
{
	my ($sql) = @_;

	push @history, $sql;
	$session->start($sql);
	$session->wait_or_block or die "waits: $sql\n";
	my $answers = $session->answers;
	my ($heap, $rose) = @$answers{qw(heap rose)};

	if ($heap->{status} ne $rose->{status} || $heap->{rows} ne $rose->{rows})
	{
		die "heap: $heap->{status} $heap->{rows}$heap->{message}rose: $rose->{status} $rose->{rows}$rose->{message}\n";
	}
	return $heap->{status} =~ /^00000/;
}

sub contents { return both("SELECT count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) FROM t") }

# ---- statements; each changes %now if it is done ----

sub column { my ($type) = @_; return pick(sort grep { !$type || $now{columns}{$_} eq $type } keys %{ $now{columns} }) }

sub load
{
	my ($n) = @_;
	my ($from, $to) = ($now{top} + 1, $now{top} + $n);

	$now{top} = $to;
	return "INSERT INTO t (id) SELECT g FROM generate_series($from, $to) g" if !$now{columns}{w};
	return "INSERT INTO t (id, w) SELECT g, repeat(md5(g::text), 12) FROM generate_series($from, $to) g";
}

sub add_column
{
	my $name = 'c' . $now{next}++;
	my $type = pick(qw(int int text float8 numeric));

	$now{columns}{$name} = $type;
	return "ALTER TABLE t ADD COLUMN $name $type" . pick('', " DEFAULT '" . int(rand(100)) . "'", " NOT NULL DEFAULT (1 + floor(random() * 0))::int::$type");
}

sub drop_column
{
	my $name = column();

	return 'SELECT 1' if !$name;
	delete $now{columns}{$name};
	return "ALTER TABLE t DROP COLUMN $name";
}

sub change_type
{
	my $name = column();
	my $type = pick(qw(int text varchar float8 float4 numeric));

	return 'SELECT 1' if !$name || ($name eq 'w' && $type !~ /text|varchar/);
	$now{columns}{$name} = $type;
	return "ALTER TABLE t ALTER $name TYPE $type USING ${name}::$type";
}

sub change_key
{
	$now{key} = !$now{key};
	return $now{key} ? 'ALTER TABLE t ADD CONSTRAINT t_pkey PRIMARY KEY (id)' : 'ALTER TABLE t DROP CONSTRAINT t_pkey';
}

sub change_rows
{
	my $name = column();
	my $where = 'WHERE id % ' . int(random_between(2, 9)) . ' = ' . int(rand(2));

	return "DELETE FROM t $where" if !$name || rand() < 0.2;
	return "UPDATE t SET $name = '" . int(rand(100)) . "' $where";
}

# Not of heap tables: their indexes stay where they are, and after a rollback have entries for rows that were only in the new file, and
# lead to others there.
sub set_tablespace
{
	my $to = pick('elsewhere', 'pg_default');

	return "DO \$\$ BEGIN IF (SELECT amname = 'rose' FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 't'::regclass)"
	  . " THEN ALTER TABLE t SET TABLESPACE $to; END IF; END \$\$";
}

sub rewrite
{
	return pick(
		$now{key} ? 'CLUSTER t USING t_pkey' : 'SELECT 2',
		set_tablespace(),
		'ALTER TABLE t SET ACCESS METHOD heap',
		"DO \$\$ BEGIN EXECUTE 'ALTER TABLE t SET ACCESS METHOD ' || substr(current_schema, 6); END \$\$",
		"DO \$\$ BEGIN EXECUTE 'ALTER TABLE t SET ACCESS METHOD ' || substr(current_schema, 6); END \$\$",
		'TRUNCATE t', $open ? 'SELECT 3' : 'VACUUM FULL t');
}

sub alter_little
{
	my $name = column();

	return 'SELECT 4' if !$name;
	return "ALTER TABLE t ALTER $name " . pick('SET DEFAULT NULL', 'SET NOT NULL', 'DROP NOT NULL', 'SET STATISTICS 10', 'SET STORAGE PLAIN', 'DROP DEFAULT');
}

my @kinds = (
	\&add_column, \&add_column, \&add_column, \&drop_column, \&drop_column, \&change_type, \&change_key, \&alter_little, \&rewrite,
	\&change_rows, \&change_rows, \&change_rows,
	sub { return load(pick(1, 10, 200)) }, sub { return load(pick(1, 10, 200)) }, sub { return load(9000) });

# ---- transactions ----

sub begin
{
	%before = copy(\%now);
	@saved = ();
	$open = 1;
	return both('BEGIN');
}

sub back_to
{
	my ($n) = @_;

	both('ROLLBACK TO s' . $n) or die "cannot roll back to s$n\n";
	%now = copy($saved[$n]);
	$#saved = $n;
	return;
}

sub finish
{
	my ($how) = @_;

	$open = 0;
	@saved = ();
	if ($how eq 'ROLLBACK')
	{
		%now = copy(\%before);
		return both('ROLLBACK');
	}
	return both('COMMIT') if $how ne 'PREPARE';
	$session->send("PREPARE TRANSACTION 'twin_$_';", $_) foreach qw(heap rose);
	$session->{n}++;
	$session->wait_or_block;
	push @history, 'PREPARE';
	if (rand() < 0.4)
	{
		push @history, 'crash';
		crash_and_restart($node);
		connect_again();
	}
	my $end = pick('COMMIT', 'COMMIT', 'ROLLBACK');
	push @history, "$end PREPARED";
	sql("$end PREPARED 'twin_$_'") foreach qw(heap rose);
	%now = copy(\%before) if $end eq 'ROLLBACK';
	return;
}

# One that failed ends the transaction, or what was done since a savepoint.
sub statement
{
	my %then = copy(\%now);

	return if both(pick(@kinds)->());
	%now = copy(\%then);
	return if !$open;
	return finish('ROLLBACK') if !@saved;
	return back_to($#saved);
}

sub next_step
{
	my $what = rand();

	return begin() if !$open && $what < 0.6;
	if ($open)
	{
		return finish(pick('COMMIT', 'COMMIT', 'ROLLBACK', 'PREPARE')) if $what < 0.05;
		if ($what < 0.2)
		{
			push @saved, { copy(\%now) };
			return both('SAVEPOINT s' . $#saved);
		}
		return back_to(int(rand(@saved))) if @saved && $what < 0.3;
		if (@saved && $what < 0.36)
		{
			my $n = int(rand(@saved));

			both("RELEASE s$n");
			$#saved = $n - 1;
			return;
		}
	}
	elsif ($what < 0.64)
	{
		push @history, 'crash';
		crash_and_restart($node);
		return connect_again();
	}
	if (rand() < 0.15)
	{
		my $do = pick('spill', 'merge');

		push @history, "-- $do beside";
		$node->psql('postgres', "SET lock_timeout = '50ms'; SELECT rose.$do('twin_rose.t')", stderr => \my $ignored);
	}
	contents() if rand() < 0.2;
	return statement();
}

sub find_problems
{
	return '' if sql("SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'twin_rose.t'::regclass") ne 'rose';
	return sql("SELECT string_agg(c::text, ' ') FROM rose.check('twin_rose.t') c");
}

my $done = 0;
my $wrong;

connect_again();
while ($done < $steps && !$wrong)
{
	my $was_open = $open;

	eval {
		next_step();
		if ($was_open && !$open)
		{
			contents();
			my $problems = find_problems();
			die "rose.check: $problems\n" if $problems;
			# so that loads stay few
			both('DELETE FROM t WHERE id > 3000') if rand() < 0.3;
		}
		1;
	} or $wrong = $@;
	$done++;
}
eval {
	finish('COMMIT') if $open;
	contents();
	sql("SELECT rose.merge('twin_rose.t')") if sql("SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'twin_rose.t'::regclass") eq 'rose';
	contents();
	1;
} or $wrong = $@ if !$wrong;
diag("seed $seed, step $done: $wrong" . join("\n", splice @history, $#history > 60 ? -60 : 0)) if $wrong;
ok(!$wrong, "the same answers on heap and on rose ($done steps)");
is(find_problems(), '', 'rose.check') if !$wrong;
$session->end;
$node->stop(defined $wrong ? 'immediate' : 'fast');
done_testing();
