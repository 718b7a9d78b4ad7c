# A start of the server, and an append to the tail log that failed, begin a new segment of it. There can be
# 32 of them for a table; before that writers have the table spilled, or do it themselves, which
# leaves one at most. What prepared transactions have written moves on with each spill.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no tail log' if $ENV{ROSE_STANDIN};

my $node = rose_node('tails', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'max_prepared_transactions = 10',
	'autovacuum = off', 'restart_after_crash = on');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# segments have a region of one block at least
sub segments { return sql("SELECT tail_log_bytes / 8192 FROM rose.stat_space WHERE relid = '$_[0]'::regclass") }

# A restart: in turns after a clean stop and after a crash.
my $nrestarts = 0;
sub again
{
	$nrestarts++ % 4 == 0 ? $node->restart : crash_and_restart($node);
	return;
}

# --- restarts, more than there may be segments, with a write each, without a worker
my @tables = qw(plain prepared undone locked);
sql("CREATE TABLE $_ (id int PRIMARY KEY, v int) USING rose; INSERT INTO $_ VALUES (0, 0)") foreach @tables;
sql("BEGIN; INSERT INTO prepared VALUES (1000, 1); UPDATE prepared SET v = -1 WHERE id = 0; PREPARE TRANSACTION 'p'");
sql("BEGIN; SELECT FROM locked WHERE id = 0 FOR UPDATE; PREPARE TRANSACTION 'l'");
my $restarts = 31;
foreach my $n (1 .. $restarts)
{
	again();
	sql("INSERT INTO $_ VALUES ($n, $n)") foreach qw(plain prepared locked);
	sql("BEGIN; INSERT INTO undone VALUES ($n, $n); ROLLBACK");
}
is(sql("SELECT count(*), sum(id) FROM $_"), ($restarts + 1) . '|' . $restarts * ($restarts + 1) / 2, "$_: all rows are there") foreach qw(plain prepared locked);
is(sql('SELECT count(*), sum(id) FROM undone'), '1|0', 'undone: none of those that were taken back');
cmp_ok(segments($_), '<=', 28, "$_: segments") foreach @tables;
cmp_ok(sql('SELECT writer_spills FROM rose.stat_memory'), '>=', 0, 'writers spill');
my ($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; UPDATE locked SET v = 5 WHERE id = 0");
like($err, qr/lock timeout/, 'the lock of a prepared transaction holds');
($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; INSERT INTO prepared VALUES (1000, 2)");
like($err, qr/lock timeout/, 'so does its key');
again();
sql("COMMIT PREPARED 'p'; COMMIT PREPARED 'l'");
is(sql('SELECT count(*), sum(v) FROM prepared'), ($restarts + 2) . '|' . ($restarts * ($restarts + 1) / 2), 'what it wrote is there');
is(sql(join(' + ', map { "(SELECT count(*) FROM rose.check('$_'))" } @tables) =~ s/^/SELECT /r), 0, 'rose.check');

# A table in which nothing was left: its tail log goes when it is opened after a start.
sql('CREATE TABLE failed (id int PRIMARY KEY) USING rose');
sql('BEGIN; INSERT INTO failed VALUES (1); ROLLBACK');
again();
is(sql('SELECT count(*) FROM failed'), 0, 'the rows of an aborted transaction are not there');
is(segments('failed'), 0, 'nor is its tail log');
is(sql('INSERT INTO failed VALUES (1) RETURNING id'), 1, 'and it takes rows again');
again();
is(sql('SELECT id FROM failed'), 1, 'that outlive a restart');

# --- with a worker, which needs nobody to ask it
sql('CREATE TABLE helped (id int PRIMARY KEY) USING rose');
foreach my $n (1 .. 17)
{
	again();
	sql("INSERT INTO helped VALUES ($n)");
}
is(segments('helped'), 17, 'a segment for each start');
merge_workers($node, 1);
ok($node->poll_query_until('postgres', "SELECT tail_log_bytes = 0 FROM rose.stat_space WHERE relid = 'helped'::regclass"), 'the worker spills before it has to');
is(sql('SELECT count(*), sum(id) FROM helped'), '17|153', 'with all rows');
merge_workers($node, 0);

# --- appends that fail
sub failing_inserts
{
	my ($table, $n) = @_;

	sql("SELECT stop_at('tail-appending', 'error', 'client', 0, 0)");
	($rc, $out, $err) = $node->psql('postgres', join('', map { "INSERT INTO $table SELECT 100000 + $_;\n" } 1 .. $n), on_error_stop => 0);
	sql("SELECT stop_clear()");
	return scalar(() = $err =~ /ERROR:.*tail-appending/g);
}

sql("INSERT INTO plain VALUES (5000, 0)");
is(failing_inserts('plain', 40), 40, '40 appends fail');
is(sql('INSERT INTO plain VALUES (5001, 1) RETURNING id'), 5001, 'the next one does not');
is(sql('SELECT count(*), max(id) FROM plain'), ($restarts + 3) . '|5001', 'only that is there');
again();
is(sql('SELECT count(*), max(id) FROM plain'), ($restarts + 3) . '|5001', 'also after a restart');
is(sql("SELECT count(*) FROM rose.check('plain')"), 0, 'rose.check');

# The same while a transaction in progress has rows in memory, which a spill carries over: first it
# fails to do that as often as there are segments, then it puts them into a run.
sql("BEGIN; INSERT INTO prepared VALUES (2000, 7); UPDATE prepared SET v = 8 WHERE id = 0; PREPARE TRANSACTION 'q'");
is(failing_inserts('prepared', 40), 40, '40 appends fail beside a prepared transaction');
sql("SELECT stop_at('tail-appending', 'error', 'client', 0, 0)");
my $spills = 0;
foreach my $i (1 .. 40)
{
	($rc, $out, $err) = $node->psql('postgres', "SELECT rose.spill('prepared')");
	$spills++ if $rc == 0;
}
sql("SELECT stop_clear()");
cmp_ok($spills, '>', 0, 'a spill succeeds without the tail log');
sql("INSERT INTO prepared VALUES (3000, 9)");
again();
is(sql('SELECT count(*), sum(v) FROM prepared'), ($restarts + 3) . '|' . ($restarts * ($restarts + 1) / 2 + 9), 'nothing is lost');
($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; INSERT INTO prepared VALUES (2000, 2)");
like($err, qr/lock timeout/, 'the prepared transaction has its key');
sql("COMMIT PREPARED 'q'");
is(sql('SELECT v FROM prepared WHERE id IN (0, 2000, 3000) ORDER BY id'), "8\n7\n9", 'and what it wrote');
sql("SELECT rose.merge('prepared')");
is(sql('SELECT count(*), sum(v) FROM prepared'), ($restarts + 4) . '|' . ($restarts * ($restarts + 1) / 2 + 1 + 8 + 7 + 9), 'also after a merge');
is(sql("SELECT count(*) FROM rose.check('prepared')"), 0, 'rose.check of it');

# --- a crash while a table is spilled because of its tail log
sql("CREATE TABLE crashed (id int PRIMARY KEY) USING rose");
sql("BEGIN; INSERT INTO crashed VALUES (-1); PREPARE TRANSACTION 'c'");
my $n = 0;
foreach my $stage (qw(spill-carried spill-finished manifest-switched spill-published spill-freed))
{
	# how many segments a crash leaves depends on what of the WAL of transactions that failed was on disk
	sql("SELECT rose.spill('crashed')");
	sql('INSERT INTO crashed VALUES (' . ++$n . ')');
	is(failing_inserts('crashed', 28), 28, "$stage: as many segments as a writer may have");
	cmp_ok(segments('crashed'), '>=', 28, 'they are there');
	my $log = -s $node->logfile;
	sql("SELECT stop_at('$stage', 'crash')");
	$node->psql('postgres', 'INSERT INTO crashed VALUES (1000)');
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
	wait_until_up($node);
	is(sql('SELECT count(*), max(id) FROM crashed'), "$n|$n", "$stage: nothing is lost");
	($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; INSERT INTO crashed VALUES (-1)");
	like($err, qr/lock timeout/, "$stage: nor what is prepared");
	is(sql("SELECT count(*) FROM rose.check('crashed')"), 0, "$stage: rose.check");
	sql('INSERT INTO crashed VALUES (' . ++$n . ')');
}
sql("COMMIT PREPARED 'c'");
is(sql('SELECT count(*), min(id), max(id) FROM crashed'), ($n + 1) . "|-1|$n", 'all is there in the end');

# --- what a segment takes ahead of its use, which nobody else can use, is a small part of it
sql('CREATE TABLE ahead (id int PRIMARY KEY, t text) USING rose');
sql('INSERT INTO ahead SELECT -g, (SELECT string_agg(md5(g::text || i), NULL) FROM generate_series(1, 31) i) FROM generate_series(1, 4000) g');
sql("SELECT rose.spill('ahead'); DELETE FROM ahead; SELECT rose.merge('ahead')");
cmp_ok(sql("SELECT free_bytes / 8192 FROM rose.space('ahead')"), '>', 400, 'there is free room');
my $most = 0;
foreach my $n (0 .. 39)
{
	sql("DO \$\$ BEGIN FOR i IN ${n}01 .. ${n}20 LOOP INSERT INTO ahead VALUES (i, repeat(md5(i::text), 31)); END LOOP; END \$\$");
	my $blocks = segments('ahead') / (($n + 1) * 20 * 1060 / 8192);
	$most = $blocks if $n >= 19 && $blocks > $most;
}
note(sprintf('%.2f times what the rows take', $most));
cmp_ok($most, '<', 1.25, 'the tail log takes little more than its rows');
is(sql("SELECT count(*) FROM rose.check('ahead')"), 0, 'rose.check');

$node->stop;
done_testing();
