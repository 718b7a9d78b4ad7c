
# A merge into C2 goes piece by piece. What it has done so far stays when it is
# cancelled, killed or crashes, readers see the same rows before, during and after
# it, and it needs little space beyond the live data.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

if ($ENV{ROSE_STANDIN})
{
	plan skip_all => 'heap has no pieces';
}

my $rows = 120_000;
my $node = rose_node('pieces', "rose.debug_piece_size = '96kB'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	"rose.spill_interval = '1h'");
my %hash;

stop_points_create($node);

sub components
{
	my ($kind) = @_;

	return $node->safe_psql('postgres',
		"SELECT count(*) FROM rose.stat_components WHERE relid = 't'::regclass AND kind = '$kind'");
}

# Scattered updates and deletes and some new rows, the same on both tables; then
# a run of t that is to be merged.
sub change
{
	my ($round) = @_;

	foreach my $table (qw(t h))
	{
		$node->safe_psql('postgres', <<"SQL");
UPDATE $table SET b = b + $round, c = 'round $round ' || id WHERE id % 5 = $round % 5;
DELETE FROM $table WHERE id % 1000 = $round;
INSERT INTO $table SELECT 1000000 * $round + i, i, 'new' FROM generate_series(1, 2000) i;
SQL
	}
	$node->safe_psql('postgres', "SELECT rose.spill('t')");
	$hash{expected} = table_hash($node, 'h');
	return;
}

# Starts a merge that waits when so many of its pieces are published.
sub start_merge
{
	my ($first) = @_;
	my $application = "merge_$first";
	my $control = RoseTest::Session->new($node);
	my $session;

	$control->run("SELECT stop_at('merge-published', 'wait', 'client', $first - 1)");
	$session = IPC::Run::start(
		[ 'psql', '-Xq', '-d', $node->connstr('postgres') . " application_name=$application", '-c', "SELECT rose.merge('t')" ],
		'>', '/dev/null', '2>', '/dev/null');
	wait_for_stop($node);
	return ($session, $application, $control);
}

sub check_contents
{
	my ($what) = @_;

	is(table_hash($node, 't'), $hash{expected}, "$what: rows by a scan");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM h JOIN t USING (id) WHERE h.b = t.b AND h.c = t.c'
			. ' AND (SELECT x.b FROM t x WHERE x.id = h.id) = h.b'),
		$node->safe_psql('postgres', 'SELECT count(*) FROM h'), "$what: rows by their keys");
	is($node->safe_psql('postgres', "SELECT * FROM rose.check('t')"), '', "$what: rose.check");
	return;
}

$node->safe_psql('postgres', <<"SQL");
CREATE TABLE h (id bigint PRIMARY KEY, b int, c text);
CREATE TABLE t (id bigint PRIMARY KEY, b int, c text) USING rose;
INSERT INTO h SELECT i, i, md5(i::text) FROM generate_series(1, $rows) i;
INSERT INTO t SELECT * FROM h;
SELECT rose.merge('t');
SQL
change(1);
$node->safe_psql('postgres', "SELECT rose.merge('t')");
cmp_ok(components('C2'), '>', 5, 'a large table has several pieces');
check_contents('after a merge');

# ---- cancelled in the middle; a reader and a cursor go on across it
change(2);
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$reader->query_safe('DECLARE c CURSOR FOR SELECT id, b FROM t ORDER BY id');
my $sum = 'SELECT count(*), sum(id), sum(b), sum(length(c)) FROM t';
my $first_answer = $reader->query_safe($sum);
my $fetched = $reader->query_safe('MOVE 1000 IN c');
my ($session, $application, $control) = start_merge(3);
is($reader->query_safe($sum), $first_answer, 'a snapshot reads the same during a merge');
$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$application'");
$session->finish;
$control->end;
cmp_ok(components('run'), '>', 0, 'a cancelled merge leaves its input');
check_contents('after a cancelled merge');
is($reader->query_safe($sum), $first_answer, '... and a snapshot reads the same');

# ---- the next one finishes what it began
change(3);
$node->safe_psql('postgres', "SELECT rose.merge('t')");
is(components('run'), 0, 'the next merge takes everything');
check_contents('after that');
is($reader->query_safe($sum), $first_answer, '... and an old snapshot still reads the same');
is($reader->query_safe('SELECT count(*) FROM t WHERE id <= 1000'),
	$reader->query_safe('SELECT count(*) FROM t WHERE id + 0 <= 1000'), '... by key, too');
$reader->query_safe('MOVE ALL IN c');
$reader->query_safe('COMMIT');
$reader->quit;

# ---- a crash in the middle
change(4);
($session, $application, $control) = start_merge(2);
crash_and_restart($node);
$session->finish;
$control->end;
cmp_ok(components('run'), '>', 0, 'a crash leaves the input');
check_contents('after a crash');
change(5);
($session, $application, $control) = start_merge(4);
crash_and_restart($node);
$session->finish;
$control->end;
check_contents('after another crash');
$node->safe_psql('postgres', "SELECT rose.merge('t')");
check_contents('after the merge that follows');

# ---- space: a merge that touches every piece reuses what it frees as it goes
$node->safe_psql('postgres', 'VACUUM FULL t');
my $live = $node->safe_psql('postgres', "SELECT sum(blocks) FROM rose.stat_components WHERE relid = 't'::regclass");
$node->safe_psql('postgres', "UPDATE $_ SET b = 0 WHERE id % 50 = 0") foreach qw(t h);
$hash{expected} = table_hash($node, 'h');
$node->safe_psql('postgres', "SELECT rose.merge('t')");
my $size = $node->safe_psql('postgres', "SELECT pg_relation_size('t') / 8192");
note("$live blocks live, the file has $size after a merge");
cmp_ok($size, '<=', 1.7 * $live, 'the file does not grow to twice its live data');
check_contents('at the end');

# ---- rose.space: everything has a use, and VACUUM gives the free end back
my $all = 'c2_bytes + c1_bytes + run_bytes + tail_log_bytes + building_bytes + replaced_bytes + free_bytes';
is($node->safe_psql('postgres', "SELECT $all + 2 * 8192 - file_bytes FROM rose.space('t')"), '0', 'uses add up to the file');
is($node->safe_psql('postgres', "SELECT c1_bytes + building_bytes + replaced_bytes, c2_bytes / 65536 >= (SELECT sum(blocks) / 8 FROM rose.components('t'))"
		. " FROM rose.stat_space WHERE relid = 't'::regclass"), '0|t', 'after a merge all is in C2');
$node->safe_psql('postgres', 'UPDATE t SET b = b; UPDATE h SET b = b');
$hash{expected} = table_hash($node, 'h');
my $many = $node->safe_psql('postgres', "SELECT tail_log_bytes + run_bytes > file_bytes / 4, file_bytes FROM rose.space('t')");
like($many, qr/^t/, 'a large transaction shows in the tail log and in runs');
$node->safe_psql('postgres', "SELECT rose.merge('t')");
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 4 <> 0; DELETE FROM h WHERE id % 4 <> 0');
$hash{expected} = table_hash($node, 'h');
$node->safe_psql('postgres', "SELECT rose.merge('t')");
my ($before, $end) = split /\|/, $node->safe_psql('postgres', "SELECT file_bytes, end_free_bytes FROM rose.space('t')");
cmp_ok($end, '>', 0, 'the end of the file is free');
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE t IN ACCESS SHARE MODE');
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', "SELECT file_bytes FROM rose.space('t')"), $before, 'VACUUM does not wait for users of the table to truncate it');
$holder->query_safe('COMMIT');
$holder->quit;
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', "SELECT file_bytes = $before - $end AND end_free_bytes = 0 FROM rose.space('t')"), 't', 'VACUUM cuts off the free end');
check_contents('after the truncation');
crash_and_restart($node);
check_contents('after a crash behind it');
change(6);
$node->safe_psql('postgres', "SELECT rose.merge('t')");
check_contents('after growing again');

# ---- a large merge into C1 makes parts of it, one after the other

my $quiet = "SELECT count(*) = 0 FROM rose.components('t') WHERE kind = 'run'";

change($_) foreach 7 .. 10;
merge_workers($node, 1);
$node->poll_query_until('postgres', $quiet) or die 'no merge into C1';
my $parts = components('C1');
cmp_ok($parts, '>', 2, 'C1 has several parts');
check_contents('with parts of C1');
$reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$first_answer = $reader->query_safe($sum);
$control = RoseTest::Session->new($node);
$control->run("SELECT stop_at('merge-published', 'wait', 'worker', 1)");
change($_) foreach 11 .. 14;
wait_for_stop($node);
is(components('run'), 4, 'two parts are made of the runs and of what was C1');
check_contents('between two parts');
is($reader->query_safe($sum), $first_answer, '... and an old snapshot reads the same');
$reader->quit;
merge_workers($node, 0);
crash_and_restart($node);
$control->end;
is(components('run'), 4, 'a crash leaves both');
cmp_ok(components('C1'), '>=', $parts, '... and the parts, new and old');
check_contents('after a crash between two parts');
merge_workers($node, 1);
$node->poll_query_until('postgres', $quiet) or die 'no merge into C1';
check_contents('after the next merge into C1');
$node->safe_psql('postgres', "SELECT rose.merge('t')");
is(components('C1'), 0, 'a pass takes all parts');
check_contents('after the pass');

$node->stop;
done_testing();
