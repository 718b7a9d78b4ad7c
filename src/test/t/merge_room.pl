# What one worker's merge replaces is free for others as soon as no reader needs it: a spill or a merge of another worker, which began before
# and goes on for long, does not keep it.  A reader does.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('room', "rose.memtable_size = '8MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0',
	"rose.debug_piece_size = '64kB'", 'autovacuum = off', 'fsync = off');
my $control;
my $contents = "SELECT count(*) || ' ' || sum(v) || ' ' || md5(string_agg(id || ' ' || v || t, '' ORDER BY id)) FROM";

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub both { sql($_[0] =~ s/\bTAB\b/$_/gr) foreach ('t', 'h') }
sub replaced { return sql("SELECT replaced_bytes FROM rose.space('t')") }

# So many workers wait; nobody else merges or spills just now, but may look whether it is his turn.
sub until_stopped
{
	my ($n) = @_;

	return $node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
}

# C2 of many pieces, and so many runs with tombstones that a pass is due and gets help.
sub make_table
{
	no_merge_workers($node);
	$control->end if $control;
	$control = RoseTest::Session->new($node);
	sql("ALTER SYSTEM SET rose.spill_interval = '1h'");
	sql('SELECT pg_reload_conf()');
	sql("DROP TABLE IF EXISTS t, h; CREATE TABLE t (id int PRIMARY KEY, v int, t text) USING rose; CREATE TABLE h (id int PRIMARY KEY, v int, t text)");
	both("INSERT INTO TAB SELECT g, 0, md5(g::text) FROM generate_series(1, 40000) g");
	sql("SELECT rose.merge('t')");
	foreach my $run (0 .. 10)
	{
		both("DELETE FROM TAB WHERE id % 20 < 9 AND id % 11 = $run");
		sql("SELECT rose.spill('t')");
	}
	return;
}

sub check
{
	my ($what) = @_;

	ok($node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM rose.components('t') WHERE kind NOT IN ('C2', 'memtable'))
		AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'page')"), "$what: all is merged");
	is(sql("$contents t"), sql("$contents h"), "$what: rows");
	is(sql("SELECT string_agg(c::text, '; ') FROM rose.check('t') c"), '', "$what: rose.check");
	return;
}

# Who has published goes no further, and has no transaction.
sub stop_published
{
	my ($what, $n) = @_;

	ok($node->poll_query_until('postgres', "SELECT stop_hits('merge-published') > 0"), "$what: a part is published");
	$control->run("SELECT stop_at('merge-paused', 'wait', 'worker', 0, 1)");
	$control->run("SELECT go_on('merge-published')");
	ok(until_stopped($n), "$what: who has published waits between two steps");
	return;
}

# The first worker has read its part of the pass and waits; the second one waits within a spill. Then the first one publishes.
sub replace_beside_spill
{
	$control->run("SELECT stop_at('merge-read', 'wait', 'worker', 0, 1)");
	merge_workers_in_turn($node);
	ok(until_stopped(1), 'spill: a part of a pass is read');
	# what is spilled by request is not this
	$control->run("SELECT stop_at('spill-planned', 'wait', 'worker', 0, 1)");
	both("UPDATE TAB SET v = 1 WHERE id % 4 = 1");
	sql("ALTER SYSTEM SET rose.spill_interval = '10ms'");
	sql('SELECT pg_reload_conf()');
	ok(until_stopped(2), 'spill: the other worker has begun one');
	is(replaced(), 0, 'spill: nothing is replaced yet');
	$control->run("SELECT stop_at('merge-published', 'wait', 'worker', 0, 1)");
	$control->run("SELECT go_on('merge-read')");
	stop_published('spill', 2);
	cmp_ok(replaced(), '>', 0, 'spill: what is replaced is kept for who began before');
	$control->run("SELECT stop_at('spill-written', 'wait', 'worker', 0, 1)");
	$control->run("SELECT go_on('spill-planned')");
	ok($node->poll_query_until('postgres', "SELECT stop_hits('spill-written') > 0"), 'spill: its run is written');
	return;
}

sub go_on_and_check
{
	my ($what, $point) = @_;

	$control->run('SELECT stop_clear()');
	$control->run("SELECT go_on('$point'); SELECT go_on('merge-paused')");
	sql("SELECT rose.spill('t')");
	sql("SELECT rose.merge('t')");
	check($what);
	return;
}

# ---- a spill
{
	make_table();
	replace_beside_spill();
	is(replaced(), 0, 'a spill has kept nothing of what was replaced');
	go_on_and_check('a spill', 'spill-written');
}

# ---- a merge
{
	make_table();
	$control->run("SELECT stop_at('merge-read', 'wait', 'worker', 0, 1)");
	$control->run("SELECT stop_at('pass-waits', 'wait', 'worker', 0, 1)");
	merge_workers_in_turn($node);
	ok(until_stopped(2), 'merge: one worker has read its part, another one waits for that');
	$control->run("SELECT stop_at('pass-plans', 'wait', 'worker', 0, 1)");
	$control->run("SELECT go_on('merge-read')");
	ok($node->poll_query_until('postgres', "SELECT stop_hits('pass-plans') > 0"), 'merge: the first one begins its next part');
	$control->run("SELECT stop_at('merge-published', 'wait', 'worker', 0, 1)");
	$control->run("SELECT go_on('pass-waits')");
	stop_published('merge', 2);
	cmp_ok(replaced(), '>', 0, 'merge: what is replaced is kept for who began before');
	$control->run("SELECT stop_at('merge-read', 'wait', 'worker', 0, 1)");
	$control->run("SELECT go_on('pass-plans')");
	ok($node->poll_query_until('postgres', "SELECT stop_hits('merge-read') > 0"), 'merge: the next part is read');
	is(replaced(), 0, 'a merge has kept nothing of what was replaced');
	go_on_and_check('a merge', 'merge-read');
}

# ---- a reader, who has looked at the table before that
{
	make_table();
	my $reader = RoseTest::Session->new($node);
	my $seen;

	$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$seen = $reader->run("$contents t");
	replace_beside_spill();
	cmp_ok(replaced(), '>', 0, 'what a reader may look at is kept');
	both('UPDATE TAB SET v = 2 WHERE id % 3 = 0');
	is($reader->run("$contents t"), $seen, 'and it sees that');
	$reader->run('COMMIT');
	$reader->end;
	go_on_and_check('beside a reader', 'spill-written');
}

$control->end;
$node->stop;
done_testing();
