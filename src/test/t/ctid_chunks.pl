
# Several sessions import one snapshot, and each reads the rows of a table between two ctids:
# each row is in exactly one of the chunks, whatever is spilled, merged and written meanwhile. Who comes too late to
# know the names gets an error.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $rose = !$ENV{ROSE_STANDIN};
my $node = rose_node('ctid_chunks', rose_conf("rose.memtable_size = '8MB'", "rose.debug_piece_size = '8kB'",
	"rose.spill_interval = '1h'", 'rose.max_merge_workers = 0'), 'autovacuum = off');
my $rows = 3000;
my @tables = qw(k n c);

sub sql { return $node->safe_psql('postgres', $_[0]) }
stop_points_create($node) if $rose;
sql('CREATE TABLE k (id int PRIMARY KEY, v int) USING rose; CREATE TABLE n (id int, v int) USING rose; CREATE TABLE c (id int, v int, PRIMARY KEY (v, id)) USING rose; CREATE TABLE other (i int)');

sub maintain
{
	my (@kinds) = @_;

	return if !$rose;
	foreach my $kind (@kinds)
	{
		sql("SELECT rose.$kind('$_')") for @tables;
	}
	return;
}

# Some rows at rest, some in a run, some in memory; others write on.
sub refill
{
	sql("TRUNCATE $_; INSERT INTO $_ SELECT i, i % 10 FROM generate_series(1, $rows) i") for @tables;
	maintain('merge');
	sql("UPDATE $_ SET v = v + 10 WHERE id % 5 = 0") for @tables;
	maintain('spill');
	sql("UPDATE $_ SET v = v + 10 WHERE id % 7 = 0") for @tables;
	return;
}

sub change
{
	sql("UPDATE $_ SET v = v + 1 WHERE id % 3 = 0; DELETE FROM $_ WHERE id % 11 = 0; INSERT INTO $_ SELECT i + (SELECT max(id) FROM $_), 1 FROM generate_series(1, 100) i") for @tables;
	return;
}

sub export_from
{
	my ($session, $isolation) = @_;

	return $session->run('BEGIN ISOLATION LEVEL ' . ($isolation // 'REPEATABLE READ') . '; SELECT pg_export_snapshot()') =~ s/\s//gr;
}

sub import_into
{
	my ($session, $snapshot) = @_;

	$session->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'");
	return;
}

# Upper bounds of the chunks but for the last, which has none.
sub bounds
{
	my ($session, $table) = @_;

	return split /\n/, $session->run("SELECT unnest(percentile_disc(ARRAY[0.2, 0.5, 0.8]) WITHIN GROUP (ORDER BY ctid)) FROM $table");
}

# Ids of the rows of a chunk, 0 to 3.
sub chunk
{
	my ($session, $table, $i, @bounds) = @_;
	my @where;

	push @where, "ctid >= '$bounds[$i - 1]'" if $i > 0;
	push @where, "ctid < '$bounds[$i]'" if $i < @bounds;
	return split /\n/, $session->run("SELECT id || ' ' || v FROM $table WHERE " . join(' AND ', @where));
}

sub files
{
	my $path = $node->data_dir . '/pg_snapshots';

	opendir(my $dir, $path) or die "cannot read $path: $!";
	return scalar(grep { /rose/ } readdir $dir);
}

# What sessions have read in one snapshot.
sub is_whole
{
	my ($table, $expected, $what, @found) = @_;
	my %times;

	$times{$_}++ for @found;
	my @wrong = grep { $times{$_} > 1 } sort keys %times;
	is(scalar(@wrong) . ' twice, ' . scalar(@found), "0 twice, $expected", "$what: each row of $table is in one chunk");
	return;
}

# ---- importers one after the other ----
foreach my $exporter_reads (0, 1)
{
	my $what = $exporter_reads ? 'the exporter has read before' : 'the exporter reads nothing';
	my $exporter = RoseTest::Session->new($node);
	my (%bounds, %found, $first);

	refill();
	my $snapshot = export_from($exporter);
	if ($exporter_reads)
	{
		$bounds{$_} = [ bounds($exporter, $_) ] for @tables;
	}
	maintain('spill');
	change();
	foreach my $i (0 .. 3)
	{
		my $worker = RoseTest::Session->new($node);

		import_into($worker, $snapshot);
		foreach my $table (@tables)
		{
			$bounds{$table} //= [ bounds($worker, $table) ];
			push @{ $found{$table} }, chunk($worker, $table, $i, @{ $bounds{$table} });
		}
		# by then nobody but the exporter keeps what the next one needs
		$worker->run('COMMIT');
		$worker->end;
		maintain($i == 0 ? ('spill', 'merge') : 'merge');
		change();
		maintain('spill');
	}
	is_whole($_, $rows, $what, @{ $found{$_} }) for @tables;
	is(files() > 0, $rose, 'names are kept') if $rose;
	$exporter->run('COMMIT');
	is(files(), 0, '... until the exporter ends');
	$exporter->end;
}

# ---- at the same time, while all is spilled and merged; one of them exports again ----
{
	my $exporter = RoseTest::Session->new($node);
	my @workers = map { RoseTest::Session->new($node) } 0 .. 3;
	my (%bounds, %found);

	refill();
	my $snapshot = export_from($exporter);
	import_into($workers[0], $snapshot);
	# looked at without ctids before
	$workers[0]->run("SELECT count(*) FROM $_; SELECT v FROM $_ WHERE id = 7") for @tables;
	maintain('spill', 'merge');
	change();
	import_into($workers[1], $snapshot);
	import_into($workers[2], $workers[0]->run('SELECT pg_export_snapshot()') =~ s/\s//gr);
	import_into($workers[3], $snapshot);
	$bounds{$_} = [ bounds($workers[2], $_) ] for @tables;
	maintain('merge');
	foreach my $table (@tables)
	{
		$workers[$_]->start("SELECT count(*) FROM $table WHERE ctid IS NOT NULL") for 0 .. 3;
		maintain('spill', 'merge');
		$workers[$_]->finish for 0 .. 3;
	}
	# who knows the names goes on without the exporter, and without the one that was the first to name rows
	$exporter->run('COMMIT');
	foreach my $i (2, 0, 3, 1)
	{
		push @{ $found{$_} }, chunk($workers[$i], $_, $i, @{ $bounds{$_} }) for @tables;
		$workers[$i]->run('COMMIT');
		maintain('merge');
		change();
		maintain('spill', 'merge');
		change();
		maintain('spill', 'merge');
	}
	is_whole($_, $rows, 'at the same time', @{ $found{$_} }) for @tables;
	$_->end for $exporter, @workers;
	is(files(), 0, 'nothing is left');
}

done_testing() if !$rose;
exit 0 if !$rose;

# ---- two are the first ----
{
	my $exporter = RoseTest::Session->new($node);
	my $control = RoseTest::Session->new($node);
	my @workers = map { RoseTest::Session->new($node) } 0 .. 1;
	my %found;

	refill();
	my $snapshot = export_from($exporter);
	import_into($_, $snapshot) for @workers;
	$control->run("SELECT stop_at('tid-publish', 'wait', 'client', 0, 1)");
	$workers[0]->start('SELECT count(*) FROM k WHERE ctid IS NOT NULL');
	wait_for_stop($node, 'tid-publish');
	maintain('spill', 'merge');
	my @bounds = bounds($workers[1], 'k');
	maintain('merge');
	$control->run("SELECT go_on('tid-publish')");
	$workers[0]->finish;
	is_whole('k', $rows, 'two are the first', map({ chunk($workers[0], 'k', $_, @bounds) } 0, 2), map({ chunk($workers[1], 'k', $_, @bounds) } 1, 3));
	$_->end for $exporter, $control, @workers;
}

# ---- what cannot be promised ----
sub session_error
{
	my ($session, $statement) = @_;
	my $error;

	$session->start($statement);
	eval { $session->finish };
	$error = $session->{err};
	$session->{err} = '';
	return $error;
}

{
	my ($exporter, $worker) = map { RoseTest::Session->new($node) } 0 .. 1;

	refill();
	import_into($worker, export_from($exporter));
	$exporter->run('COMMIT');
	is($worker->run('SELECT count(*) FROM k'), $rows, 'the exporter has ended: rows can be read');
	like(session_error($worker, 'SELECT count(*) FROM k WHERE ctid IS NOT NULL'), qr/cannot use ctids of rose table "k" with this snapshot/, '... but have no names');
	$_->end for $exporter, $worker;
}
{
	my ($exporter, $worker) = map { RoseTest::Session->new($node) } 0 .. 1;

	# READ COMMITTED, with names that nobody knows
	$exporter->run('BEGIN; SELECT count(*) FROM k WHERE ctid IS NOT NULL');
	my $snapshot = $exporter->run('SELECT pg_export_snapshot()') =~ s/\s//gr;
	import_into($worker, $snapshot);
	like(session_error($worker, 'SELECT count(*) FROM k WHERE ctid IS NOT NULL'), qr/has used ctids before/, 'names from before a READ COMMITTED transaction has exported its snapshot');
	$worker->run('ROLLBACK');
	$_->end for $exporter, $worker;
}
{
	my $exporter = RoseTest::Session->new($node);
	my $snapshot = export_from($exporter);

	$exporter->run('SELECT count(*) FROM k WHERE ctid IS NOT NULL');
	is(files(), 1, 'a file of names');
	crash_and_restart($node);
	$exporter->end;
	is(files(), 0, '... does not outlive the server');
}
{
	my ($exporter, $worker, $other) = map { RoseTest::Session->new($node) } 0 .. 2;

	# SERIALIZABLE: who looks for a ctid has read the row, though nothing else of the table
	sql("TRUNCATE $_; INSERT INTO $_ VALUES (1, 0), (2, 0)") for @tables;
	foreach my $table (@tables)
	{
		my $snapshot = export_from($exporter, 'SERIALIZABLE');
		my $ctid = $exporter->run("SELECT ctid FROM $table WHERE id = 1") =~ s/\s//gr;

		$worker->run("BEGIN ISOLATION LEVEL SERIALIZABLE; SET TRANSACTION SNAPSHOT '$snapshot'");
		is($worker->run("SELECT id FROM $table WHERE ctid = '$ctid'"), '1', "$table: found by a ctid");
		$exporter->run('ROLLBACK');
		$other->run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM other; UPDATE $table SET v = 1 WHERE id = 1");
		$worker->run('INSERT INTO other VALUES (1)');
		$other->run('COMMIT');
		like(session_error($worker, 'COMMIT'), qr/could not serialize access/, '... and overwritten by who does not see what its reader has written');
		$worker->run('ROLLBACK');
	}
	$_->end for $exporter, $worker, $other;
}
is(sql("SELECT count(*) FROM rose.check('$_')"), '0', "$_ is sound") for @tables;

done_testing();
