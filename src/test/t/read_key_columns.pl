
# Scans of tables whose keys are several integers, which are compared column by column where runs and components have
# rows in turns: the same rows as on heap, in order, counted, and by parts that are left early.
#
# Keys agree in their first columns most of the time, and are at the ends of their types, and of both signs. Rows are updated in long stretches,
# which replace as many of the component, with gaps, singly, again and again, and deleted and inserted between others; the newest changes are in C0,
# in one memtable or two.
#
#   KEY_SEED      repeat a run
#   KEY_ROUNDS    changes of each table, with queries after each; default 12
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has no order' if $ENV{ROSE_STANDIN};

my $seed = seed_random('KEY_SEED');
my $rounds = $ENV{KEY_ROUNDS} // 12;
my $rows = 3000;

# Key columns and their expressions of a number, which ascends with them; the last two kinds of keys are not compared so.
my %tables = (
	three => [ [ 'a int', '%1$s / 1500 - 1' ], [ 'b smallint', '%1$s / 60 %% 25 - 12' ], [ 'c timestamp', q{timestamp '2000-01-01' + (%1$s %% 60 - 30) * interval '1 hour'} ] ],
	two => [ [ 'a int', '%1$s / 700 - 2' ], [ 'b int', '%1$s %% 700 - 350' ] ],
	ends => [ [ 'a bigint', '-9223372036854775808 + %1$s / 1000' ], [ 'b int', '2147483647 - 999 + %1$s %% 1000' ] ],
	four => [ [ 'a date', q{date '2000-01-01' + %1$s / 2000} ], [ 'b bool', '%1$s / 1000 %% 2 = 1' ], [ 'c smallint', '%1$s / 10 %% 100 - 50' ], [ 'd bigint', '(%1$s %% 10 - 5) * 1000000000000' ] ],
	five => [ map({ [ "k$_ int", '%1$s / ' . (10 - $_) * 500 ] } 1 .. 4), [ 'k5 int', '%1$s' ] ],
	text => [ [ 'a int', '%1$s / 1000' ], [ 'b text COLLATE "C"', q{to_char(%1$s, 'FM0000')} ] ]);

my $node = rose_node('key_columns', 'autovacuum = off', 'rose.max_merge_workers = 0', "rose.spill_interval = '1h'",
	'rose.debug_piece_size = ' . (rand() < 0.5 ? "'64kB'" : "'32MB'"));
my %session = map { $_ => RoseTest::Session->new($node) } qw(heap rose churn);
my ($compared, $problems) = (0, 0);

stop_points_create($node);
my $keeper = RoseTest::Session->new($node);

sub pick { return $_[ rand @_ ]; }

sub names { my ($name, $suffix) = @_; return join(', ', map { ($_->[0] =~ s/ .*//r) . ($suffix // '') } @{ $tables{$name} }); }

sub values_of { my ($name, $n) = @_; return join(', ', map { sprintf($_->[1], $n) } @{ $tables{$name} }); }

sub both
{
	my ($sql) = @_;
	my %answer = map { $_ => $session{$_}->run($sql =~ s/\bAM\b/$_/gr) } qw(heap rose);

	$compared++;
	return if $answer{heap} eq $answer{rose};
	diag("$sql:\n  heap: " . substr($answer{heap}, 0, 300) . "\n  rose: " . substr($answer{rose}, 0, 300)) if $problems++ < 5;
	return;
}

# Of a stretch, all rows, or all but some, or some.
sub change
{
	my ($name) = @_;
	my $from = int(rand($rows));
	my $to = $from + pick(0, 3, 100, 700, $rows);
	my $of = pick('true', 'true', 'n % 20 <> 7', 'n % 9 = 4', 'n % 2 = 0');

	return pick(
		"UPDATE $name SET v = v + 1, t = t || '.' WHERE n BETWEEN $from AND $to AND $of",
		"UPDATE $name SET v = v + 1 WHERE n BETWEEN $from AND $to AND $of",
		"DELETE FROM $name WHERE n BETWEEN $from AND $to AND $of AND n % 3 = 0",
		"INSERT INTO $name SELECT " . values_of($name, 'i') . ", i, i, 'new' FROM generate_series($from, least($to, $rows)) i ON CONFLICT DO NOTHING");
}

sub ask
{
	my ($name) = @_;
	my $keys = names($name);
	my ($n, $m, $least) = (pick(1, 7, 300), pick(0, 5, 1000), int(rand($rows)));
	my @columns = map { s/ .*//r } map { $_->[0] } @{ $tables{$name} };

	both("SELECT count(*) FROM $name");
	both("SELECT count(*), sum(v), sum(length(t)), sum(n), min(n), max(v) FROM $name");
	both("SELECT * FROM $name ORDER BY $keys");
	both("SELECT * FROM $name ORDER BY $keys LIMIT $n OFFSET $m");
	both("SELECT * FROM $name ORDER BY " . names($name, ' DESC') . " LIMIT $n OFFSET $m");
	both("SELECT count(*), sum(v) FROM $name WHERE ($keys) >= (" . values_of($name, $least) . ')');
	both("SELECT count(*), sum(v) FROM $name WHERE $columns[0] = " . sprintf($tables{$name}[0][1], $least));
	both("SELECT count(*), sum(v) FROM $name WHERE n % 5 = 2");
	return;
}

# While one memtable is spilled, and another one has newer versions of some of its keys.
sub ask_beside_spill
{
	my ($name) = @_;

	both("UPDATE $name SET v = v + 1 WHERE n % 50 < 30");
	$keeper->run("SELECT stop_at('spill-frozen', 'wait', 'client', 0, 1)");
	$session{churn}->start("SELECT rose.spill('$name')");
	wait_for_stop($node);
	both("UPDATE $name SET v = v + 10, t = 'newest' WHERE n % 50 BETWEEN 10 AND 40 AND n % 7 <> 3");
	ask($name);
	$keeper->run("SELECT go_on('spill-frozen')");
	$session{churn}->finish;
	return;
}

$session{$_}->run("CREATE SCHEMA twin_$_; SET search_path = twin_$_") foreach qw(heap rose);
$session{churn}->run('SET search_path = twin_rose');
$session{rose}->run('SET rose.enable_scan = off') if rand() < 0.2;
foreach my $name (sort keys %tables)
{
	both("CREATE TABLE $name (" . join(', ', map { $_->[0] } @{ $tables{$name} }) . ', n int, v int, t text, PRIMARY KEY (' . names($name) . ')) USING AM');
	both("INSERT INTO $name SELECT " . values_of($name, 'i') . ", i, 0, 'x' FROM generate_series(0, $rows) i WHERE i % 17 <> 3");
	$session{churn}->run("SELECT rose.merge('$name')");
}
foreach my $round (1 .. $rounds)
{
	foreach my $name (sort keys %tables)
	{
		for (1 .. 1 + rand 3)
		{
			both(change($name));
			$session{churn}->run("SELECT rose.spill('$name')") if rand() < 0.7;
		}
		$session{churn}->run("SELECT rose.merge('$name')") if rand() < 0.1;
		ask($name);
		ask_beside_spill($name) if rand() < 0.3;
	}
	last if $problems > 5;
}
is($problems, 0, "$compared answers were the same on heap and on rose");
is($node->safe_psql('postgres', "SELECT count(*) FROM rose.check('twin_rose.$_')"), '0', "$_ is sound") foreach sort keys %tables;
cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM rose.components('twin_rose.three') WHERE kind IN ('run', 'C1', 'C2')"), '>=', 2, 'there are several components');

done_testing();
