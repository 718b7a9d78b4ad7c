# Batches of a table's rows (lsm/read/rose_batch.h) against what a scan with the same snapshot returns: rows, columns asked for in all ways,
# names, versions; by one reader, and by several who share the table's keys among them. Below SQL (src/test/server_trees). Tables with keys of one and of two columns, by reference too, and without key, and a temporary one,
# in random states. Environment:
#
#   BATCHES_SEED	repeat a run
#   BATCHES_STEPS	default 40
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $seed = seed_random('BATCHES_SEED');
my $steps = $ENV{BATCHES_STEPS} // 40;
my $node = rose_node('batches', 'autovacuum = off', 'fsync = off');
my $columns = 'a int, b text, c numeric, f float4, s smallint, x bool, d date';
my %tables = (
	t => "k int PRIMARY KEY, $columns",
	u => "$columns, k int, l text COLLATE \"C\", PRIMARY KEY (l, k)",
	v => "k int, $columns",
	tmp => "k int PRIMARY KEY, $columns");
my $names = 'a, b, c, f, s, x, d, k';
my %added;
my $left_out = 0;
my ($intervals, $readings) = (0, 0);

# A whole number, both included.
sub between { return int($_[0] + rand($_[1] - $_[0] + 1)) }

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $session = RoseTest::Session->new($node);
my $old = RoseTest::Session->new($node);
my $beside = RoseTest::Session->new($node);
my $reading = 0;

sql('CREATE FUNCTION tree_batches(regclass, bool, int) RETURNS text LANGUAGE C STRICT AS \'rose_server_trees\'');
sql('CREATE FUNCTION tree_interval_cuts(regclass, int) RETURNS text LANGUAGE C STRICT AS \'rose_server_trees\'');
sql('CREATE FUNCTION tree_batches_in_parts(regclass, bool, int) RETURNS text LANGUAGE C STRICT AS \'rose_server_trees\'');
sql('CREATE FUNCTION tree_batches_of_keys(regclass, bool, int) RETURNS text LANGUAGE C STRICT AS \'rose_server_trees\'');
stop_points_create($node);
$session->run(($_ eq 'tmp' ? 'CREATE TEMP TABLE ' : 'CREATE TABLE ') . "$_ ($tables{$_}) USING rose") for sort keys %tables;

sub insert
{
	my ($table) = @_;
	my ($first, $n) = (between(1, 20000), between(1, 4000));
	my $step = between(1, 7);
	my $l = $table eq 'u' ? ', l' : '';
	my $value = $table eq 'u' ? ", 'l' || i % 37" : '';
	my $conflict = $table eq 'v' ? '' : 'ON CONFLICT DO NOTHING';
	return "INSERT INTO $table ($names$l) SELECT nullif(i % 7, 3), CASE i % 5 WHEN 0 THEN NULL ELSE 'b' || i % 1000 END, i / 7.0, i, i % 100,"
		. " nullif(i % 3, 0) = 1, date '2001-01-01' + i % 50, i$value FROM generate_series($first, $first + $n * $step, $step) i $conflict";
}

sub change
{
	my ($table) = @_;
	my ($of, $at) = (between(2, 300), between(0, 10));
	my $large = between(0, 9) == 0;
	return "UPDATE $table SET b = repeat('large', 3000) WHERE k % 997 = $at" if $large;
	return "UPDATE $table SET a = a + 1, b = 'new' || k WHERE k % $of = $at" if between(0, 1);
	return "DELETE FROM $table WHERE k % $of = $at";
}

sub add_column
{
	my ($table) = @_;
	return insert($table) if ($added{$table} // 0) == 2 || $reading;
	$added{$table}++;
	return "ALTER TABLE $table ADD COLUMN added_$added{$table} " . (between(0, 1) ? 'int' : "text DEFAULT 'as it was'");
}

# What batches are, in this session.
sub agree
{
	my ($who, $table, $what) = @_;
	for my $ordered ('true', 'false')
	{
		# by arrival, in memory, however small the table
		my $small = $ordered eq 'false' && between(0, 1);
		$beside->run("SELECT stop_at('arrival-small', 'skip', 'any', 0, 0)") if $small;
		my $said = $who->run("SELECT tree_batches('$table', $ordered, " . between(1, 1_000_000) . ')');
		like($said, qr/^\d+ \d+ \d+ \d+ \d+ \d+$/, "$what: $table, ordered $ordered") or return 0;
		$beside->run('SELECT stop_clear()') if $small;
	}
	for (1 .. ($table eq 'v' ? 0 : 3))
	{
		my $said = $who->run("SELECT tree_batches_of_keys('$table', true, " . between(1, 1_000_000) . ')');
		like($said, qr/^\d+ \d+ \d+ \d+ \d+ \d+ \d+$/, "$what: $table, of keys") or return 0;
		$left_out += $1 if $said =~ / (\d+)$/;
	}
	for my $of_keys ('false', $table eq 'v' ? () : 'true')
	{
		my $said = $who->run("SET rose.interval_leaves = 1; SELECT tree_batches_in_parts('$table', $of_keys, " . between(1, 1_000_000) . ')');
		like($said, qr/^\d+ \d+$/, "$what: $table, in parts, of keys $of_keys") or return 0;
		$intervals += $1 if $said =~ / (\d+)$/;
		$readings++;
	}
	return 1;
}

STEP: for my $step (1 .. $steps)
{
	my $table = (sort keys %tables)[ between(0, 3) ];
	my $what = between(0, 11);
	my $statement = $what < 4 ? insert($table) : $what < 7 ? change($table) : $what == 7 ? add_column($table)
		: $what == 8 ? "SELECT rose.merge('$table')" : "SELECT rose.spill('$table')";
	if ($what < 7 && between(0, 2) == 0)
	{
		# its own writes, some of them taken back; others of the transaction go to a private run
		my $level = between(0, 2) == 0 ? 'SERIALIZABLE' : 'READ COMMITTED';
		$session->run("BEGIN ISOLATION LEVEL $level; $statement; SAVEPOINT a");
		$session->run(change($table));
		$session->run('ROLLBACK TO a') if between(0, 1);
		$beside->run("SELECT rose.spill('$table')") if $table ne 'tmp' && between(0, 1);
		agree($session, $table, "step $step, own writes") or last STEP;
		agree($beside, $table, "step $step, of others") or last STEP if $table ne 'tmp';
		$session->run(between(0, 3) ? 'COMMIT' : 'ROLLBACK');
		$statement = 'own writes';
	}
	else
	{
		$session->run($statement);
	}
	agree($session, $table, "step $step, $statement") or last STEP;
	agree($old, $table, "step $step, an older snapshot") or last STEP if $reading && $table ne 'tmp';
	if (between(0, 4) == 0)
	{
		$old->run($reading ? 'COMMIT' : 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
		$reading = !$reading;
	}
}
$session->run(insert('u')) for 1 .. 3;
for my $table (qw(t u v), ('u') x 5)
{
	my $said = $session->run("SELECT tree_interval_cuts('$table', " . between(1, 1_000_000) . ')');
	like($said, qr/^\d+$/, "ranges of $table in intervals");
	cmp_ok($said, '>', 0, '... that have keys in common') if $said =~ /^\d+$/ && $table eq 'u';
}
agree($session, 'u', 'at the end') for 1 .. 10;
cmp_ok($left_out, '>', 0, 'rows that their key leaves out');
cmp_ok($intervals, '>', 3 * $readings, 'many intervals');
$_->end for $session, $old, $beside;
$node->stop;
done_testing();
