
# Batches of a table's rows (lsm/read/rose_batch.h) while the table changes under them: between any two batches it is written
# to, spilled, merged, or what came from upstream is applied; so memtables are freed and components replaced in the middle
# of a scan. Tables with keys of one and two columns and without key, and a fed one with parts of rows (PARTIAL versions), and
# one that is read in the order of arrival. Below SQL (src/test/server_trees). Environment:
#
#   BATCHES_SEED	repeat a run
#   BATCHES_STEPS	default 60
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $seed = seed_random('BATCHES_SEED');
my $steps = $ENV{BATCHES_STEPS} // 60;
my $upstream = upstream_node();
my $node = rose_node('beside', 'autovacuum = off', "wal_retrieve_retry_interval = '200ms'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0',
	"rose.memtable_size = '64MB'");
my @tables = qw(t u v fed);
my $large = q{(SELECT string_agg(md5(x::text), '') FROM generate_series(i, i + 99) x)};

sub between { return int($_[0] + rand($_[1] - $_[0] + 1)) }

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub up { return $upstream->safe_psql('postgres', $_[0]) }

sub pick { return $_[ int(rand(@_)) ] }

sql("CREATE FUNCTION $_(regclass, bool, int) RETURNS text LANGUAGE C STRICT AS 'rose_server_trees'") foreach qw(tree_batches tree_batches_of_keys tree_batches_in_parts);
stop_points_create($node);
sql('CREATE TABLE t (k int PRIMARY KEY, n int, large text) USING rose');
sql('CREATE TABLE u (n int, l text COLLATE "C", k int, large text, PRIMARY KEY (l, k)) USING rose');
sql('CREATE TABLE v (k int, n int, large text) USING rose');
up('CREATE TABLE fed (k int PRIMARY KEY, n int, large text); ALTER TABLE fed ALTER large SET STORAGE EXTERNAL; CREATE PUBLICATION p FOR TABLE fed');
up("INSERT INTO fed SELECT i, i, $large FROM generate_series(1, 300) i");
sql('CREATE TABLE fed (k int PRIMARY KEY, n int, large text) USING rose');
subscribe($upstream, $node);

my $keeper = RoseTest::Session->new($node);
my $reader = RoseTest::Session->new($node);
$reader->run('SET rose.interval_leaves = 1');
my $reader_pid = $reader->run('SELECT pg_backend_pid()');

# Something that changes the table, or where its rows are.
sub change
{
	my ($table) = @_;
	my $what = between(0, 9);
	my ($of, $from) = (between(2, 60), between(1, 5000));
	my $l = $table eq 'u' ? ', l' : '';
	my $value = $table eq 'u' ? ", 'l' || i % 7" : '';
	my $statement =
	    $what < 2 ? "INSERT INTO $table (k, n, large$l) SELECT i, i, CASE WHEN i % 97 = 0 THEN $large END$value FROM generate_series($from, $from + " . between(10, 2500) . ') i'
	  . ($table eq 'v' ? '' : ' ON CONFLICT DO NOTHING')
	  : $what < 5 ? "UPDATE $table SET n = n + 1 WHERE k % $of = 1"
	  :             "DELETE FROM $table WHERE k % $of = 1 AND k > 20";

	return sql("SELECT rose.spill('$table')") if $what > 6;
	return sql("SELECT rose.merge('$table')") if $what == 6;
	return sql($statement) if $table ne 'fed';
	up($statement);
	return wait_for_apply($upstream, $node);
}

# Until the reader waits at the stop point, or has not come there, for there were fewer batches than the first time.
sub stopped_or_at_end
{
	my ($step) = @_;
	my $waits = "EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)";

	$node->poll_query_until('postgres', "SELECT $waits OR EXISTS (SELECT FROM pg_stat_activity WHERE pid = $reader_pid AND state = 'idle' AND query LIKE '%in step $step *%')")
	  or die 'the reader neither waits nor ends';
	return sql("SELECT $waits") eq 't';
}

my $stopped = 0;
STEP: for my $step (1 .. $steps)
{
	my $table = pick(@tables);

	change($table) for 1 .. between(1, 3);
	next if sql("SELECT count(*) FROM $table") == 0;
	my $of_keys = $table ne 'v' && rand() < 0.3;
	my $ordered = $of_keys || rand() < 0.4 ? 'true' : 'false';
	my $ask = rand() < 0.4 ? "tree_batches_in_parts('$table', " . ($of_keys ? 'true' : 'false') . ', ' . between(1, 1_000_000) . ')' : ($of_keys ? 'tree_batches_of_keys' : 'tree_batches') . "('$table', $ordered, " . between(1, 1_000_000) . ')';

	# in the order of arrival, however small the table is
	$keeper->run("SELECT stop_clear(); SELECT stop_at('arrival-small', 'skip', 'any', 0, 0); SELECT stop_at('batches-next', 'skip', 'any', 0, 0)");
	$reader->run("SELECT $ask");
	my $calls = $keeper->run("SELECT stop_hits('batches-next')");
	my $changes = between(1, 4);

	$keeper->run("SELECT stop_at('batches-next', 'wait', 'client', " . between(0, $calls - 1) . ', 1)');
	$reader->start("SELECT /* in step $step */ $ask");
	$stopped += stopped_or_at_end($step);
	change($table) for 1 .. $changes;
	$keeper->run("SELECT go_on('batches-next')");
	my $said = $reader->finish;
	like($said, qr/^[\d ]+$/, "step $step: $ask, changed $changes times beside") or last STEP;
}

# Large enough for the order of arrival by itself; and spilled in the middle of that.
sql('CREATE TABLE big (k int PRIMARY KEY, n int, b text) USING rose');
sql("INSERT INTO big SELECT i * 7919 % 30000, i, repeat(md5(i::text), 12) FROM generate_series(0, 29999) i");
$keeper->run("SELECT stop_clear(); SELECT stop_at('arrival-batch', 'skip', 'any', 0, 0)");
like($reader->run("SELECT tree_batches('big', false, 1)"), qr/^30000 0 0 [\d ]+$/, 'a large table in memory');
my $of_arrival = $keeper->run("SELECT stop_hits('arrival-batch')");
cmp_ok($of_arrival, '>', 2, '... in the order of arrival');
$keeper->run("SELECT stop_at('arrival-batch', 'wait', 'client', " . int($of_arrival / 2) . ', 1)');
$reader->start("SELECT tree_batches('big', false, 2)");
wait_for_stop($node);
sql('UPDATE big SET n = -n WHERE k % 3 = 0; DELETE FROM big WHERE k % 10 = 1');
sql("SELECT rose.spill('big')");
$keeper->run("SELECT go_on('arrival-batch')");
like($reader->finish, qr/^30000 0 0 \d+ 0 [1-9]\d*$/, '... that is spilled meanwhile');

cmp_ok($stopped, '>', $steps / 2, 'scans were stopped');
cmp_ok(sql("SELECT partials FROM rose.stat_subscription_tables WHERE relid = 'fed'::regclass"), '>', 0, 'parts of rows came');
is(sql("SELECT count(*) FROM rose.check('$_')"), 0, "nothing is wrong with $_") foreach @tables;
$_->end foreach $keeper, $reader;
done_testing();
