
# Transactions that look at a table again and again for a long time keep all components that merges
# replace meanwhile: more than the list of such components has places. Merges and writers go on all the same,
# the readers read the right rows, and the space comes back when they have ended. A crash in
# that state frees it, too.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no components' if $ENV{ROSE_STANDIN};

my $node = rose_node('long_reader', "rose.memtable_size = '8MB'", "rose.debug_piece_size = '8kB'", "rose.spill_interval = '1h'",
	'rose.max_merge_workers = 0', 'autovacuum = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub space { return sql("SELECT $_[0] FROM rose.space('r')") }

# Both tables alike, so that any snapshot must find them the same.
sql(<<'SQL');
CREATE TABLE h (id int PRIMARY KEY, v int, t text);
CREATE TABLE r (id int PRIMARY KEY, v int, t text) USING rose;
INSERT INTO h SELECT g, 0, md5(g::text) FROM generate_series(1, 2000) g;
INSERT INTO r TABLE h;
SELECT rose.merge('r');
CREATE PROCEDURE change() LANGUAGE sql AS $$
	UPDATE h SET v = v + 1 WHERE id % 200 = 0;
	UPDATE r SET v = v + 1 WHERE id % 200 = 0;
$$;
SQL
my $writer = RoseTest::Session->new($node);
my $differences = 'SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE r) UNION ALL (TABLE r EXCEPT ALL TABLE h)) x';

# How many components there are that were replaced: each takes a region at least, and here not more
# than a few.
sub replaced { return space('replaced_bytes') / (8 * 8192) }

# What a cursor has still to give, of both tables.
sub rest_of_cursors
{
	my ($reader) = @_;

	return map { $reader->run("FETCH ALL FROM $_") } qw(ch cr);
}

sub open_cursors
{
	my ($reader) = @_;

	$reader->run("DECLARE ch CURSOR FOR SELECT * FROM h ORDER BY id; DECLARE cr CURSOR FOR TABLE r");
	is($reader->run('FETCH 100 FROM cr'), $reader->run('FETCH 100 FROM ch'), 'the first rows of a cursor');
	return;
}

sub merge_often
{
	my ($times, @readers) = @_;

	for my $i (1 .. $times)
	{
		$writer->run("CALL change(); SELECT rose.merge('r')");
		my $id = 200 * ($i % 10 + 1);
		$_->run("SELECT 1 / ((SELECT v FROM r WHERE id = $id) = (SELECT v FROM h WHERE id = $id))::int") foreach @readers;
	}
	return;
}

my $first = RoseTest::Session->new($node);
$first->run('BEGIN');
open_cursors($first);
merge_often(60, $first);
cmp_ok(replaced(), '>', 300, 'many components are kept for a reader');

# a second one, which begins in between and sees each change, too; and one with a snapshot of now
my $second = RoseTest::Session->new($node);
$second->run('BEGIN');
open_cursors($second);
my $third = RoseTest::Session->new($node);
$third->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($third->run($differences), 0, 'a snapshot');

merge_often(100, $first, $second);
my $most = replaced();
note("$most components or so");
cmp_ok($most, '>', 600, 'more than there is room to note each of');
is(sql("SELECT count(*) FROM rose.check('r')"), 0, 'rose.check');
is(sql($differences), 0, 'the tables are the same');
is($third->run($differences), 0, 'for an old snapshot, too');

# the first one goes on where it was; with it goes what was replaced before the second one came
my ($h, $r) = rest_of_cursors($first);
is($r, $h, 'the rest of the oldest cursor');
$first->run('COMMIT');
$first->end;
merge_often(5, $second);
cmp_ok(replaced(), '<', $most * 0.85, 'the end of the oldest reader frees what only it could read');
is($third->run($differences), 0, 'not what the snapshot reads');
$third->end;
merge_often(5, $second);
($h, $r) = rest_of_cursors($second);
is($r, $h, 'the rest of the other cursor');
cmp_ok(replaced(), '>', 300, 'which keeps what was replaced since');
$second->run('COMMIT');
$second->end;
is(space('replaced_bytes'), 0, 'no reader is left, nothing is kept');

# what is free is used again
my $size = sql("SELECT pg_relation_size('r')");
merge_often(30);
is(sql("SELECT pg_relation_size('r')"), $size, 'merges use the space again');
sql('VACUUM r');
cmp_ok(sql("SELECT pg_relation_size('r')"), '<', $size / 4, 'VACUUM gives it back');
is(sql($differences), 0, 'the tables are the same');

# the worker's merges do not wait either
sql("ALTER SYSTEM SET rose.max_merge_workers = 1");
sql("ALTER SYSTEM SET rose.spill_interval = '10ms'");
$node->reload;
my $reader = RoseTest::Session->new($node);
$reader->run('BEGIN');
open_cursors($reader);
my $deadline = time() + $PostgreSQL::Test::Utils::timeout_default;
while (replaced() < 80 && time() < $deadline)
{
	for (1 .. 20)
	{
		$writer->run('CALL change()');
		$reader->run('SELECT v FROM r WHERE id = 200');
	}
}
cmp_ok(replaced(), '>=', 80, 'the worker merges beside a reader');
ok($node->poll_query_until('postgres', "SELECT count(*) < 10 FROM rose.components('r') WHERE kind = 'run'"), 'and gets through');
cmp_ok(replaced(), '>=', 80, 'which is still there');
sql("ALTER SYSTEM SET rose.max_merge_workers = 0");
sql("ALTER SYSTEM RESET rose.spill_interval");
is(sql("SELECT count(*) FROM rose.check('r')"), 0, 'rose.check');
crash_and_restart($node);
is(sql($differences), 0, 'after a crash the tables are the same');
is(space('replaced_bytes'), 0, 'and nothing is kept');
is(sql("SELECT count(*) FROM rose.check('r')"), 0, 'rose.check');
$size = sql("SELECT pg_relation_size('r')");
$writer = RoseTest::Session->new($node);
merge_often(10);
is(sql("SELECT pg_relation_size('r')"), $size, 'the space is used again');
is(sql($differences), 0, 'the tables are the same');

$writer->end;
$node->stop;
done_testing();
