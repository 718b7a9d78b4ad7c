# Rows that are written when memory is full, and their entries in indexes: each tree waits for room, or is written past memory, by itself; all of it is
# there, or nothing. The worker is held in the middle of a spill meanwhile.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $node = rose_node('index_no_room', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off',
	'max_prepared_transactions = 2', 'restart_after_crash = on');

sub sql { return $node->safe_psql('postgres', $_[0]) }

stop_points_create($node);
sql(<<'SQL');
CREATE FUNCTION tree_make(regclass, text, smallint[], smallint[]) RETURNS regclass LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_entries(regclass) RETURNS SETOF text LANGUAGE C STRICT AS 'rose_server_trees';
CREATE TABLE a (id int PRIMARY KEY, doc text) USING rose;
CREATE TABLE t (k int PRIMARY KEY, a int, b text COLLATE "C") USING rose;
INSERT INTO t SELECT i, i % 10, 'old' FROM generate_series(1, 100) i;
SELECT tree_make('t', 'ta', '{2}', '{0}'), tree_make('t', 'tb', '{3}', '{0}');
UPDATE t SET a = a + 1, b = 'new' || k;
DELETE FROM t;			-- the trees were made empty
INSERT INTO t SELECT i, i % 10, 'old' FROM generate_series(1, 100) i;
SQL

# Keys and entries, as the session sees them.
my $found = q{SELECT (SELECT count(*) FROM t) || ' ' ||
	((SELECT array_agg(x) FROM tree_entries('ta') x) IS NOT DISTINCT FROM (SELECT array_agg(concat_ws('|', coalesce(a::text, '-'), k) ORDER BY a, k) FROM t)) || ' ' ||
	((SELECT array_agg(x) FROM tree_entries('tb') x) IS NOT DISTINCT FROM (SELECT array_agg(concat_ws('|', coalesce(b, '-'), k) ORDER BY b, k) FROM t))};
is(sql($found), '100 true true', 'entries agree with rows');

# Memory fills up, and nobody empties it.
my $control;

sub fill
{
	$control = RoseTest::Session->new($node);
	$control->run("SELECT stop_at('spill-planned', 'wait', 'worker', 0, 0)");
	sql("DO \$\$ BEGIN FOR i IN 1..100000 LOOP"
		  . " EXIT WHEN (SELECT used_bytes >= 950000 FROM rose.stat_memory);"
		  . " INSERT INTO a VALUES ((SELECT coalesce(max(id), 0) FROM a) + 1, repeat('x', 640)); END LOOP; END \$\$");
	wait_for_stop($node);
	return;
}

sub runs { return sql("SELECT count(*) FROM rose.components('$_[0]') WHERE kind <> 'memtable'") }

fill();
my $writer = RoseTest::Session->new($node);
my $long = "repeat(md5(i::text), 60)";

$writer->run("BEGIN; INSERT INTO t SELECT i, NULL, $long FROM generate_series(101, 160) i");
is($writer->run($found), '160 true true', 'rows and entries for which there is no room');
is(sql($found), '100 true true', '... which others do not see');
cmp_ok(runs('tb'), '>', 0, '... some past memory');
$writer->run("SAVEPOINT s; UPDATE t SET a = 5, b = b || 'x' WHERE k > 90; DELETE FROM t WHERE k % 3 = 0; UPDATE t SET k = k + 1000 WHERE k % 3 = 1");
is($writer->run($found), '107 true true', 'changes of all kinds');
$writer->run("ROLLBACK TO s");
is($writer->run($found), '160 true true', '... taken back');
$writer->run("UPDATE t SET k = k + 500, b = b || 'y' WHERE k > 150; DELETE FROM t WHERE k = 1; COMMIT");
is(sql($found), '159 true true', '... committed');

# COPY writes many at a time.
append_to_file($node->basedir . '/rows', join '', map { "$_\t" . $_ % 7 . "\t" . ('c' x 700) . "$_\n" } 2001 .. 2200);
my $file = $node->basedir . '/rows';
$writer->run("BEGIN; COPY t FROM '$file'");
is($writer->run($found), '359 true true', 'COPY');
$writer->run('PREPARE TRANSACTION \'p\'');
is(sql($found), '159 true true', '... is prepared');

# An end of the statement while an index waits for room.
$writer->run("SET statement_timeout = '500ms'");
eval { $writer->run("INSERT INTO t SELECT i, i, $long || 'cancelled' FROM generate_series(3001, 3400) i") };
like($@ || 'it was fast', qr/statement timeout|it was fast/, 'a cancel');
$writer->{err} = '';
$writer->run("SET statement_timeout = 0; DELETE FROM t WHERE k > 3000");
is(sql($found), '159 true true', '... leaves nothing');
$writer->end;
$node->psql('postgres', "SELECT stop_at('entries-write', 'crash', 'client', 1); UPDATE t SET a = 99, b = b || 'lost'");
$control->{err} = '';
wait_until_up($node);
is(sql($found), '159 true true', 'a crash between row and entry');
is(sql('SELECT count(*) FROM t WHERE a = 99'), 0, '... leaves nothing');
sql("COMMIT PREPARED 'p'");
is(sql($found), '359 true true', '... but what was prepared');
sql("SELECT rose.spill(x) FROM unnest('{t,ta,tb}'::regclass[]) x");
is(sql($found), '359 true true', 'spilled');
sql("SELECT rose.merge(x) FROM unnest('{t,ta,tb}'::regclass[]) x");
is(sql($found), '359 true true', 'merged');
is(sql("SELECT count(*) FROM unnest('{t,ta,tb}'::regclass[]) x, rose.check(x)"), '0', 'rose.check');

done_testing();
