
# What a transaction in progress has rolled back to a savepoint is in its private run still, and others write
# those keys again: merges go past that run, or it is joined with newer ones and stands in front of theirs. What was rolled back
# must then neither hide newer versions nor end a search for conflicts.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no runs' if $ENV{ROSE_STANDIN};

my $node = rose_node(
	'rolled_back', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	'max_prepared_transactions = 2');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub components { return sql("SELECT string_agg(kind || ' ' || rows, ', ') FROM rose.components('t')") }

# what a key lookup, a scan and a scan backward find for keys 1 and 2
my @ways = (
	'SET enable_seqscan = off; SELECT v FROM t WHERE id = 1; SELECT v FROM t WHERE id = 2',
	'SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT v FROM t WHERE id <= 2 ORDER BY id',
	'SET enable_seqscan = off; SET enable_sort = off; SELECT v FROM (SELECT id, v FROM t WHERE id <= 2 ORDER BY id DESC) x ORDER BY id + 0');

sub rows_are
{
	my ($expected, $what, $session) = @_;

	foreach my $way (@ways)
	{
		my $found = $session ? join("\n", grep { $_ ne '' } map { $session->run($_) } grep { /SELECT/ } split /; /, $ways[0]) : sql($way);

		is($found =~ s/\s+/ /gr, $expected, $what);
		return if $session;
	}
	is(sql("SELECT * FROM rose.check('t')"), '', "$what: rose.check");
	return;
}

# A writer whose rows of these keys lie in a private run and are rolled back.
sub rolled_back
{
	my ($statement) = @_;
	my $writer = RoseTest::Session->new($node);

	sql('DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; INSERT INTO t SELECT g, 0 FROM generate_series(1, 20000) g');
	sql("SELECT rose.merge('t')");
	$writer->run("SET enable_seqscan = off; BEGIN; SAVEPOINT s; $statement");
	sql("SELECT rose.spill('t')");
	like(components(), qr/^private run/, "a private run after: $statement");
	$writer->run('ROLLBACK TO s');
	return $writer;
}

# ---- a merge takes newer versions past the run ----

foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $writer = rolled_back('UPDATE t SET v = 1 WHERE id <= 3000');

	sql('UPDATE t SET v = 2 WHERE id = 1; DELETE FROM t WHERE id = 2');
	sql("SELECT rose.merge('t')");
	unlike(components(), qr/\brun \d+$/, 'newer versions were merged');
	rows_are('2', 'newer versions, past the private run');
	rows_are('2', 'to the writer as well', $writer);
	sql('UPDATE t SET v = v + 1 WHERE id = 1; INSERT INTO t VALUES (2, 20)');
	rows_are('3 20', 'written again');
	sql("SELECT rose.merge('t')");
	rows_are('3 20', 'and merged again');
	is($writer->run('UPDATE t SET v = v + 1 WHERE id IN (1, 2) RETURNING v'), "4\n21", 'the writer goes on with the newest versions');
	$writer->run($end);
	rows_are($end eq 'COMMIT' ? '4 21' : '3 20', "after $end");
	sql("SELECT rose.merge('t')");
	rows_are($end eq 'COMMIT' ? '4 21' : '3 20', "after $end and a merge");
	$writer->end;
}

# The server goes down with the transaction: its run is there until maintenance drops it.
{
	my $writer = rolled_back('UPDATE t SET v = 1 WHERE id <= 3000');

	sql('UPDATE t SET v = 2 WHERE id = 1; DELETE FROM t WHERE id = 2');
	sql("SELECT rose.merge('t')");
	sql('CHECKPOINT');
	crash_and_restart($node);
	like(components(), qr/^private run/, 'the run of a transaction that was lost');
	rows_are('2', 'after a crash');
	sql("SELECT rose.merge('t')");
	rows_are('2', 'after a crash and a merge');
	$writer->end;
}

# A prepared transaction keeps the run for as long as it likes.
{
	my $writer = rolled_back('UPDATE t SET v = 1 WHERE id <= 3000');

	$writer->run("PREPARE TRANSACTION 'p'");
	$writer->end;
	sql('UPDATE t SET v = 2 WHERE id = 1; DELETE FROM t WHERE id = 2');
	sql("SELECT rose.merge('t')");
	rows_are('2', 'beside a prepared transaction');
	$node->restart;
	rows_are('2', 'and after a restart');
	sql("COMMIT PREPARED 'p'");
	sql("SELECT rose.merge('t')");
	rows_are('2', 'and when it is committed');
}

# ---- conflicts ----

# A row that was inserted and deleted anew below the run is not there twice, nor free when it is not.
{
	my $writer = rolled_back('DELETE FROM t WHERE id <= 3000');

	sql('UPDATE t SET v = 2 WHERE id <= 2');
	sql("SELECT rose.merge('t')");
	my ($rc, $out, $err) = $node->psql('postgres', 'INSERT INTO t VALUES (1, 3)');
	like($err, qr/duplicate key/, 'a key is not free because its rolled back deletion is in a private run');
	sql('INSERT INTO t VALUES (2, 3) ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v');
	rows_are('2 5', 'upserted');
	$writer->run('COMMIT');
	$writer->end;
}

# Who has read a version in the past meets the newer one.
foreach my $lock ('UPDATE t SET v = v + 10 WHERE id = 1', 'DELETE FROM t WHERE id = 1', 'SELECT v FROM t WHERE id = 1 FOR UPDATE',
	'SELECT v FROM t WHERE id = 1 FOR KEY SHARE')
{
	my $writer = rolled_back('UPDATE t SET v = 1 WHERE id <= 3000');
	my $reader = RoseTest::Session->new($node);

	sql('UPDATE t SET v = 2 WHERE id = 1');
	$reader->run("\\set VERBOSITY terse\nSET enable_seqscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ");
	is($reader->run('SELECT v FROM t WHERE id = 1'), 2, 'what the reader sees');
	sql('DELETE FROM t WHERE id = 1');
	sql("SELECT rose.merge('t')");
	is($reader->run('SELECT v FROM t WHERE id = 1'), 2, 'the reader sees it still');
	eval { $reader->run($lock) };
	like($@, qr/could not serialize access/, "and is told that it is gone: $lock");
	$reader->end;
	$writer->run('COMMIT');
	$writer->end;
	is(sql('SELECT count(*) FROM t WHERE id = 1'), 0, 'it is');
}

# ---- a joined run stands in front of newer versions ----

{
	my $writer = rolled_back('UPDATE t SET v = 1 WHERE id <= 3000');

	sql('UPDATE t SET v = 2 WHERE id = 1; DELETE FROM t WHERE id = 2');
	sql("SELECT rose.spill('t')");
	foreach my $n (1 .. 6)
	{
		$writer->run('SAVEPOINT x; UPDATE t SET v = 7 WHERE id BETWEEN 3001 AND 6000; RELEASE x');
		sql("SELECT rose.spill('t')");
	}
	like(components(), qr/^private run 3000, private run 3000.*, run 2, private run 3000/, 'newer versions between the runs');
	sql('ALTER SYSTEM SET rose.max_merge_workers = 1');
	$node->reload;
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM rose.components('t') WHERE kind = 'private run'")
	  or die 'the runs are not joined';
	sql('ALTER SYSTEM SET rose.max_merge_workers = 0');
	$node->reload;
	# what was rolled back before they were joined is left out
	like(components(), qr/^private run 18000, /, 'the joined run is in front of them');
	rows_are('2', 'newer versions behind a joined run');
	rows_are('2', 'to the writer as well', $writer);
	sql('UPDATE t SET v = v + 1 WHERE id = 1; INSERT INTO t VALUES (2, 20)');
	sql("SELECT rose.merge('t')");
	rows_are('3 20', 'written again and merged');
	$writer->run('COMMIT');
	sql("SELECT rose.merge('t')");
	rows_are('3 20', 'after the end of the transaction');
	is(sql('SELECT count(*), sum(v) FROM t WHERE id > 3000'), '17000|21000', 'with what it wrote itself');
	$writer->end;
}

$node->stop;
done_testing();
