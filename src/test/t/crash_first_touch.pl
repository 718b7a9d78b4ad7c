# The server is killed again and again, also while sessions are the first to touch tables: by ALTER TABLE, by the end of a prepared transaction, by
# parallel queries, COPY, spills, merges, several of them at once, in an arena that is smaller than what there is to recover, with entries of tables
# that go as soon as they are idle. Each transaction changes a heap table and a rose table alike, so both have the same rows whatever is killed. Environment:
#
#   TOUCH_SEED    repeat a run, as far as kills can be repeated
#   TOUCH_CYCLES  default 2
#   TOUCH_ARENA   in MB, default 2
use strict;
use warnings;

use IPC::Run;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

my $cycles = $ENV{TOUCH_CYCLES} // 2;
my $arena = $ENV{TOUCH_ARENA} // 4;
my $seed = seed_random('TOUCH_SEED');
my $node = rose_node('touch', scan_settings(), 'autovacuum = off', 'fsync = off', 'max_prepared_transactions = 40', 'max_connections = 60', "deadlock_timeout = '100ms'", "log_min_messages = 'error'",
	rose_conf("rose.memtable_size = '" . 4 * $arena . "MB'", "rose.spill_interval = '" . pick('1h', '1h', '1s') . "'", "rose.idle_table_timeout = '1s'", 'rose.max_merge_workers = ' . pick(0, 1, 3), "rose.debug_piece_size = '8kB'", "maintenance_work_mem = '1MB'"));
my @names = qw(keyed composite keyless parts parts_keyed);
my $prepared = 0;

sub pick { return $_[ rand @_ ] }
sub below { return int rand $_[0] }
sub sql { return $node->safe_psql('postgres', $_[0]) }

# ---- tables h_* and r_* ----

my %key = (keyed => 'PRIMARY KEY (id)', composite => 'PRIMARY KEY (t, id)', parts_keyed => 'PRIMARY KEY (id)');

foreach my $side ([ 'h', 'heap' ], [ 'r', 'rose' ])
{
	my ($prefix, $am) = @$side;

	foreach my $name (@names)
	{
		my $columns = '(id int, v bigint, t text' . ($key{$name} ? ", $key{$name})" : ')');

		sql("CREATE TABLE ${prefix}_$name $columns " . ($name =~ /parts/ ? 'PARTITION BY HASH (id)' : "USING $am"));
		next if $name !~ /parts/;
		sql("CREATE TABLE ${prefix}_${name}_$_ PARTITION OF ${prefix}_$name FOR VALUES WITH (MODULUS 3, REMAINDER $_) USING $am") foreach 0 .. 2;
	}
}
my @leaves = map { my $name = $_; $name =~ /parts/ ? map { "r_${name}_$_" } 0 .. 2 : "r_$name" } @names;

# ---- what is done ----

# The statements for both sides. Keys are unique in all of a run, so nothing fails on one side alone.
sub both
{
	my ($sql) = @_;

	return join '; ', map { $sql =~ s/\bTAB_/$_\_/gr } qw(h r);
}

my $next_key = 1;

sub insert
{
	my ($name) = @_;
	my $n = pick(1, 20, 300, 3000, 6000);
	my ($from, $to) = ($next_key, $next_key + $n - 1);
	my $width = pick(1, 10, 60);

	$next_key += $n;
	return both("INSERT INTO TAB_$name SELECT g, g % 7, repeat(md5(g::text), $width / 8 + 1) FROM generate_series($from, $to) g");
}

# Of what nobody else holds: a third of the keys is each transaction's own.
sub change
{
	my ($name, $share) = @_;
	my $some = 'id % 40 = ' . $share . pick('', '', ' AND id % 3 = 0', ' AND id > ' . below($next_key));

	return insert($name) if rand() < 0.45;
	return both("DELETE FROM TAB_$name WHERE $some AND id % 5 = " . below(5)) if rand() < 0.3;
	return both("UPDATE TAB_$name SET v = v + 1 WHERE $some") if rand() < 0.7;
	return both("UPDATE TAB_$name SET t = t || 'x', v = v - 1 WHERE $some");
}

sub changes
{
	my ($share) = @_;
	my $sql = '';

	for (1 .. 1 + below(4))
	{
		my $name = pick(@names);

		$sql .= change($name, $share) . '; ';
		$sql .= 'SAVEPOINT s; ' . change($name, $share) . '; ' . pick('ROLLBACK TO s; ', 'RELEASE s; ') if rand() < 0.3;
	}
	return $sql;
}

# Prepared transactions have shares of the keys from 20 on, each its own.
sub transaction
{
	my $dice = rand();

	return 'BEGIN; ' . changes(below(20)) . pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK') if $dice < 0.75 || $prepared >= 20;
	my $share = 20 + $prepared++;
	my $lock = pick('', both('SELECT count(*) FROM (SELECT FROM TAB_' . pick(@names) . " WHERE id % 40 = $share FOR UPDATE) q") . '; ');

	return 'BEGIN; ' . $lock . changes($share) . "PREPARE TRANSACTION 'p$share'";
}

my $columns = 0;

# What may come first after a start.
sub touch
{
	my $name = pick(@names);
	my $leaf = pick(@leaves);
	my ($gid) = sort { rand() <=> 0.5 } split /\n/, sql('SELECT gid FROM pg_prepared_xacts');
	my $parallel = always_parallel($node) . '; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0';
	my @touches = (
		"SET lock_timeout = '1s'; BEGIN; " . both("ALTER TABLE TAB_$name ADD COLUMN c" . $columns++ . ' int DEFAULT ' . pick('7', '(random() * 0)::int')) . '; COMMIT',
		"SET lock_timeout = '1s'; BEGIN; " . both("ALTER TABLE TAB_$name ALTER v TYPE " . pick('bigint', 'numeric', 'int')) . '; ' . pick('COMMIT', 'ROLLBACK'),
		"SET lock_timeout = '1s'; BEGIN; " . both("TRUNCATE TAB_$name") . '; ROLLBACK',
		"$parallel; SELECT count(*), sum(v) FROM r_$name", "$parallel; SELECT count(*) FROM r_$name a JOIN r_" . pick(@names) . ' b USING (id)',
		"COPY $leaf TO '/dev/null'", "SELECT * FROM r_$name WHERE id = 5", "SELECT count(*) FROM rose.check('$leaf')", transaction(), transaction(), transaction(),
		"SET lock_timeout = '1s'; SELECT rose.spill('$leaf')", "SET lock_timeout = '1s'; SELECT rose.merge('$leaf')", "SET lock_timeout = '1s'; VACUUM r_$name",
		"SET statement_timeout = '" . pick(1, 5, 20) . "ms'; SELECT count(*) FROM r_$name");

	push @touches, map { "$_ PREPARED '$gid'" } qw(COMMIT COMMIT ROLLBACK) if $gid;
	return pick(@touches);
}

# Psql processes that run beside this one; who is killed with the server says so, and nothing else may go wrong.
my $complaints = '';

sub run_beside
{
	my (@commands) = @_;

	return map
	{
		my %psql = (err => '', sql => $_);

		$psql{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres') ], '<', \"$_;\n", '>', '/dev/null', '2>', \$psql{err});
		\%psql;
	} @commands;
}

my $may_be = qr/57P01|57P02|57P03|57014|55P03|40P01|40001|42704|53200|25P02|42P01|55000|08006|08001|53300/;

sub finish
{
	foreach my $psql (@_)
	{
		eval { $psql->{run}->finish; 1 } or $psql->{err} .= $@;
		while ($psql->{err} =~ /(?:ERROR|FATAL|PANIC):  (\w{5}): (.*)/g)
		{
			$complaints .= "$1 $2 in $psql->{sql}\n" if $1 !~ $may_be;
		}
	}
	return;
}

# Rows that a crash leaves to recovery, of the table that has most.
my $most = 0;

sub in_memory
{
	return 0 if $ENV{ROSE_STANDIN};
	return max(map { sql("SELECT coalesce(sum(rows), 0) FROM rose.components('$_') WHERE kind = 'memtable'") } @leaves);
}

# Memory may be smaller than before.
sub crash_again
{
	$node->append_conf('postgresql.conf', "rose.memtable_size = '" . $arena * pick(1, 1, 4) . "MB'\n") if !$ENV{ROSE_STANDIN};
	crash_and_restart($node);
	return;
}

# ---- cycles ----

sub compare
{
	my ($what) = @_;

	foreach my $name (@names)
	{
		my ($heap, $rose) = map { sql("SELECT count(*) || ' ' || coalesce(md5(string_agg(h, '' ORDER BY h)), '-') FROM (SELECT md5(t::text) AS h FROM ${_}_$name t) s") } qw(h r);

		is($rose, $heap, "$what: $name") or diag("TOUCH_SEED=$seed");
	}
	return if $ENV{ROSE_STANDIN};
	is(sql("SELECT c::text FROM rose.check('$_') c"), '', "$what: $_ is sound") foreach @leaves;
	return;
}

foreach my $cycle (1 .. $cycles)
{
	my @writers = run_beside(map { join(";\n", map { transaction() } 1 .. 1 + below(12)) } 1 .. 1 + below(4));

	usleep(below(1_500_000));
	finish(@writers) if rand() < 0.8;
	$most = max($most, in_memory());
	crash_again();
	finish(@writers);
	for (1 .. below(4))
	{
		my @touches = run_beside(map { touch() } 1 .. 1 + below(5));

		usleep(below(rand() < 0.5 ? 50_000 : 400_000));
		crash_again();
		finish(@touches);
	}
	finish(run_beside(map { touch() } 1 .. 1 + below(5)));
	compare("cycle $cycle");
	finish(run_beside(map { touch() } 1 .. 2));
}
foreach my $gid (split /\n/, sql('SELECT gid FROM pg_prepared_xacts'))
{
	sql(pick('COMMIT', 'ROLLBACK') . " PREPARED '$gid'");
}
compare('in the end');
if (!$ENV{ROSE_STANDIN})
{
	sql("SELECT rose.merge('$_')") foreach @leaves;
	compare('merged');
}
diag("at most $most rows of a table in memory");
is($complaints, '', 'no errors that should not be');
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal (?!9)/, 'no process has failed');
$node->stop;
done_testing();
