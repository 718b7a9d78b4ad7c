# Several workers share the pass of one table: each has a part of the key range at a time, and parts are published in the order of
# their keys, whoever is done first. What one leaves, because it fails, is cancelled or killed, others do; readers see the same rows
# before, during and after it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('shared', "rose.memtable_size = '8MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0',
	"rose.debug_piece_size = '64kB'", 'autovacuum = off', 'fsync = off', 'restart_after_crash = on', 'max_prepared_transactions = 2', "rose.debug_failure_pause = '1s'");
my $control;
my $expected;

stop_points_create($node);
sql("CREATE TABLE h (id int PRIMARY KEY, v int, t text)");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub contents
{
	my ($table) = @_;

	return "SELECT count(*) || ' ' || sum(v) || ' ' || md5(string_agg(id || ' ' || v || t, '' ORDER BY id)) FROM $table";
}

sub both { sql($_[0] =~ s/\bTAB\b/$_/gr) foreach ('t', 'h') }

# C2 of many pieces, and runs with so many tombstones that all is to be merged into C2; they are so many that merges are behind:
# then a pass has help.
sub make_table
{
	no_merge_workers($node);
	$control->end if $control;
	$control = RoseTest::Session->new($node);
	sql('DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int, t text) USING rose; TRUNCATE h');
	both("INSERT INTO TAB SELECT g, 0, md5(g::text) FROM generate_series(1, 40000) g");
	sql("SELECT rose.merge('t')");
	foreach my $run (0 .. 10)
	{
		both("DELETE FROM TAB WHERE id % 20 < 9 AND id % 11 = $run");
		sql("SELECT rose.spill('t')");
	}
	both("UPDATE TAB SET v = 1 WHERE id % 7 = 0");
	sql("SELECT rose.spill('t')");
	$expected = sql(contents('h'));
	return;
}

# So many runs, which together have every row once.
sub spill_runs
{
	my ($n) = @_;

	foreach my $i (0 .. $n - 1)
	{
		both("UPDATE TAB SET v = v + 1 WHERE id % $n = $i");
		sql("SELECT rose.spill('t')");
	}
	$expected = sql(contents('h'));
	return;
}

sub components { return sql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM rose.components('t') WHERE kind <> 'memtable'") }
sub of_kind { return sql("SELECT count(*) FROM rose.components('t') WHERE kind = '$_[0]'") }

sub until_stopped
{
	my ($n) = @_;

	return $node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
}

sub check
{
	my ($what) = @_;

	is(sql(contents('t')), $expected, "$what: rows");
	is(sql("SELECT count(*) FROM h JOIN t USING (id) WHERE (SELECT v FROM t x WHERE x.id = h.id) = h.v"), ($expected =~ /^(\d+)/)[0], "$what: rows by their keys");
	is(sql("SELECT string_agg(c::text, '; ') FROM rose.check('t') c"), '', "$what: rose.check");
	return;
}

# Until no run is left, and nobody merges.
sub until_merged
{
	return $node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE kind NOT IN ('C2', 'memtable'))
		AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page')");
}

# One worker waits with a part that it has read; the other one has made the part behind it and cannot publish that.
# Returns their pids.
sub stop_both
{
	my ($what) = @_;
	my ($first, $second);

	$control->run("SELECT stop_at('merge-read', 'wait', 'worker', 0, 1)");
	$control->run("SELECT stop_at('pass-waits', 'wait', 'worker', 0, 1)");
	merge_workers_in_turn($node);
	ok(until_stopped(2), "$what: one worker has read its part, another one waits for that");
	$first = sql("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted ORDER BY waitstart LIMIT 1");
	$second = sql("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid <> $first");
	return ($first, $second);
}

# ---- parts are published in order, whatever comes meanwhile
{
	make_table();
	my $old = RoseTest::Session->new($node);
	my $cursor = RoseTest::Session->new($node);
	my $writer = RoseTest::Session->new($node);
	my $before;

	$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
	is($old->run(contents('t')), $expected, 'an old snapshot');
	my $seen = $expected;
	my $old_ones = components() =~ s/ /,/gr;

	stop_both('in order');
	$before = components();

	# a new run, one of a transaction in progress, and readers who begin now
	$cursor->run("BEGIN; DECLARE c CURSOR FOR SELECT id, v FROM t ORDER BY id; FETCH FORWARD 3 FROM c");
	both('UPDATE TAB SET v = 2 WHERE id % 11 = 0');
	both('DELETE FROM TAB WHERE id % 13 = 0');
	both("INSERT INTO TAB SELECT g, 3, 'new' FROM generate_series(40001, 41000) g");
	sql("SELECT rose.spill('t')");
	$writer->run("BEGIN; INSERT INTO t SELECT g, 4, repeat(md5(g::text), 20) FROM generate_series(50001, 56000) g");
	cmp_ok(sql("SELECT count(*) FROM rose.components('t') WHERE kind LIKE '%run%'"), '>', 2, 'runs come meanwhile');
	$expected = sql(contents('h'));
	check('while both wait');
	is($old->run(contents('t')), $seen, 'the old snapshot');

	$control->run("SELECT go_on('pass-waits')");
	ok(until_stopped(1), 'the second one still waits');
	is(sql("SELECT count(*) FROM rose.components('t') WHERE kind <> 'memtable' AND id IN (" . join(',', split / /, $before) . ")"), scalar(my @n = split(/ /, $before)),
		'... and has published nothing, for the first part is not');
	$control->run("SELECT go_on('merge-read')");
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE kind = 'C2' AND id IN ($old_ones))"), 'all pieces are new');
	check('after it');
	is($old->run(contents('t')), $seen, 'the old snapshot');
	is($cursor->run('FETCH ALL FROM c') =~ tr/\n//, ($seen =~ /^(\d+)/)[0] - 4, 'a cursor from before');
	$old->run('COMMIT');
	$cursor->run('COMMIT');
	$writer->run('ROLLBACK');
	$_->end foreach ($old, $cursor, $writer);
	no_merge_workers($node);
	sql("SELECT rose.merge('t')");
	check('after a merge of all');
}

# ---- the end of one of them
foreach my $case ([ 'terminate', 'first' ], [ 'terminate', 'second' ], [ 'cancel', 'first' ], [ 'cancel', 'second' ])
{
	my ($how, $whom) = @$case;
	my $what = "$how the $whom";

	make_table();
	my ($first, $second) = stop_both($what);
	my $pid = $whom eq 'first' ? $first : $second;

	is(sql("SELECT pg_${how}_backend($pid)"), 't', $what);
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $pid)"), "$what: it is gone");
	check("$what, the other one waits");
	$control->run("SELECT stop_clear()");
	$control->run("SELECT go_on('merge-read'); SELECT go_on('pass-waits')");
	ok(until_merged(), "$what: all is merged");
	check($what);
}

# ---- errors
foreach my $point ('merge-read', 'merge-built', 'pass-plans', 'merge-published')
{
	make_table();
	$control->run("SELECT stop_at('$point', 'error', 'worker', 1, 1)");
	merge_workers($node, 2);
	ok($node->poll_query_until('postgres', "SELECT stop_hits('$point') > 0"), "error at $point");
	check("error at $point, meanwhile");

	# the table is left alone for a moment; if who failed was the only one, somebody else comes
	$control->run('SELECT stop_clear()');
	no_merge_workers($node);
	merge_workers($node, 2);
	ok(until_merged(), "error at $point: all is merged");
	check("error at $point");
}

# ---- where there must be another one: it waits with the part before
foreach my $case ([ 'merge-helps', 'error' ], [ 'merge-helps', 'terminate' ], [ 'pass-waits', 'terminate' ], [ 'pass-waits', 'error' ])
{
	my ($point, $action) = @$case;

	make_table();
	$control->run("SELECT stop_at('merge-read', 'wait', 'worker', 0, 1)");
	$control->run("SELECT stop_at('$point', '$action', 'worker', 0, 1)");
	merge_workers_in_turn($node);
	ok($node->poll_query_until('postgres', "SELECT stop_hits('$point') = 1"), "$action at $point");
	check("$action at $point, the other one waits");
	$control->run("SELECT go_on('merge-read')");
	ok(until_merged(), "$action at $point: all is merged");
	check("$action at $point");
}

# ---- crashes: parts are published, a part is made, a part is taken
foreach my $case ([ 'merge-published', 1 ], [ 'pass-waits', 0 ], [ 'merge-helps', 0 ])
{
	my ($point, $skip) = @$case;

	make_table();
	$control->run("SELECT stop_at('merge-read', 'wait', 'worker', 0, 1)") if $point ne 'merge-published';	# there must be another one
	$control->run("SELECT stop_at('$point', 'crash', 'worker', $skip, 1)");
	my $log = -s $node->logfile;
	merge_workers($node, 2);
	my $deadline = time() + $PostgreSQL::Test::Utils::timeout_default;

	sleep 1 until slurp_file($node->logfile, $log) =~ /database system is ready to accept connections/ || time() > $deadline;
	wait_until_up($node);
	like(slurp_file($node->logfile, $log), qr/was terminated by signal 9/, "a crash at $point");
	undef $control;
	check("after a crash at $point");
	ok(until_merged(), "after a crash at $point: all is merged");
	check("after a crash at $point and a merge");
}

# ---- commands that take the table away, or change it
foreach my $command ('TRUNCATE t', 'DROP TABLE t', 'ALTER TABLE t ADD COLUMN more int DEFAULT 7', 'ALTER TABLE t ALTER v TYPE bigint', 'ALTER TABLE t SET UNLOGGED')
{
	make_table();
	$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 2, 0)");
	merge_workers($node, 2);
	ok($node->poll_query_until('postgres', "SELECT count(DISTINCT pid) = 2 FROM pg_locks WHERE locktype = 'page' AND granted AND relation = 't'::regclass"), "$command: two workers merge the table");
	sql($command);
	$control->run('SELECT stop_clear()');
	$control->run("SELECT go_on('merge-paused')");
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page')"), "$command: they end");
	if ($command =~ /TRUNCATE|DROP/)
	{
		sql('CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY, v int, t text) USING rose; TRUNCATE h');
		both("INSERT INTO TAB SELECT g, 5, md5(g::text) FROM generate_series(1, 1000) g");
		sql("SELECT rose.spill('t')");
		$expected = sql(contents('h'));
	}
	check($command);
}

# ---- who wants the table for himself gets it
{
	make_table();
	$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 2, 0)");
	merge_workers($node, 2);
	ok($node->poll_query_until('postgres', "SELECT count(DISTINCT pid) = 2 FROM pg_locks WHERE locktype = 'page' AND granted AND relation = 't'::regclass"), 'two workers merge the table');
	my $client = RoseTest::Session->new($node);

	$client->start("SELECT rose.merge('t')");
	ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page' AND NOT granted AND mode = 'ExclusiveLock')"), 'a client waits for them');
	$control->run('SELECT stop_clear()');
	$control->run("SELECT go_on('merge-paused')");
	$client->finish;
	is(of_kind('run'), 0, 'a client has merged all there is');
	check('a client beside two workers');
	$client->end;
}

# ---- ... also if he has locked it against them, so that they cannot go on
{
	make_table();
	$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 2, 0)");
	merge_workers($node, 2);
	ok($node->poll_query_until('postgres', "SELECT count(DISTINCT pid) = 2 FROM pg_locks WHERE locktype = 'page' AND granted AND relation = 't'::regclass"), 'two workers merge the table');
	my $client = RoseTest::Session->new($node);

	$client->run('BEGIN; LOCK TABLE t');
	$client->start("SELECT rose.merge('t')");
	ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page' AND NOT granted AND mode = 'ExclusiveLock')"), 'a client who has locked the table waits for them');
	$control->run('SELECT stop_clear()');
	$control->run("SELECT go_on('merge-paused')");
	$client->finish;
	$client->run('COMMIT');
	is(of_kind('run'), 0, 'a client has merged what he has locked');
	check('a client that has locked the table');
	both("UPDATE TAB SET v = v + 1 WHERE id % 2 = 0");
	sql("SELECT rose.spill('t')");
	$expected = sql(contents('h'));
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page')"), 'the workers have ended what they had');
	check('and afterwards');
	$client->end;
}

# ---- ... and does not wait for ever for one that has two merges, each of which has the lock when the other one ends
{
	make_table();
	$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 2, 1)");
	merge_workers($node, 1);
	ok(until_stopped(1), 'a worker in a pass');
	spill_runs(12);
	$control->run("SELECT stop_at('merge-begun', 'wait', 'worker', 0, 1)");
	$control->run("SELECT go_on('merge-paused')");
	ok(until_stopped(1), 'it begins to merge runs as well');
	my $client = RoseTest::Session->new($node);

	# who waits does not have workers cancelled, as he does not the second of them
	$client->run("SET deadlock_timeout = '1h'");
	$client->start("SELECT rose.merge('t')");
	ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page' AND NOT granted AND mode = 'ExclusiveLock')"), 'a client waits for both');
	# both have met him; then time goes by
	$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 4, 1)");
	$control->run("SELECT go_on('merge-begun')");
	ok(until_stopped(1), 'it has gone on with both');
	$control->run("SELECT stop_at('merge-begun', 'wait', 'worker', 0, 1)");
	sleep 3;
	$control->run("SELECT go_on('merge-paused')");
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page' AND NOT granted) OR stop_hits('merge-begun') > 0"), 'something happens');
	is(sql("SELECT stop_hits('merge-begun')"), 0, 'it begins none while a client waits');
	$control->run("SELECT go_on('merge-begun')");
	$client->finish;
	check('a client beside two merges of one worker');
	$client->end;
}

# ---- runs are merged into C1 by one process, beside the pass of another one
{
	make_table();
	$control->run("SELECT stop_at('merge-read', 'wait', 'worker', 0, 1)");
	$control->run("SELECT stop_at('merge-helps', 'wait', 'worker', 0, 1)");
	merge_workers_in_turn($node);
	ok(until_stopped(2), 'a pass, and who wants to help');
	spill_runs(12);
	my $runs = sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'run'");

	cmp_ok($runs, '>', 12, 'runs are there');
	$control->run("SELECT go_on('merge-helps')");
	ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM rose.components('t') WHERE kind = 'C1') OR count(*) <= $runs - 11 FROM rose.components('t') WHERE kind = 'run'"), 'the other one merges them meanwhile');
	check('beside a pass');
	$control->run("SELECT go_on('merge-read')");
	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE kind = 'run')"), 'all runs are merged');
	check('after the pass');
	no_merge_workers($node);
	sql("SELECT rose.merge('t')");
	check('after a merge of all');
}

unlike(slurp_file($node->logfile), qr/does not follow what was merged before/, 'nobody has tried to publish behind a part that was given up');
$control->end;
$node->stop;
done_testing();
