# Whoever gets at a secondary index by btree's own means, past rose's routine, meets an error, or has no effect: never an answer. The routine is swapped in by
# rose_primary_key_attach, which is switched off here; all that core does with an index goes by, in sessions of their own.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has btrees' if $ENV{ROSE_STANDIN};

my $node = rose_node('unswapped', 'autovacuum = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub refused
{
	my ($statement, $what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; $statement");

	like($err, qr/ERROR:  (root page 1 of index "t_\w+" has level 0, expected 1|index "t_\w+" .*corrupted|could not read block)/, "$what: an error") or diag("$statement\n$out\n$err");
	return;
}

sub passes
{
	my ($statement, $what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET enable_seqscan = off; SET enable_sort = off; $statement");

	is($rc, 0, "$what: no effect") or diag($err);
	return;
}

# large enough for filters, several pieces and overflow pages; with a tail log
sql(<<'SQL');
CREATE TABLE t (id int PRIMARY KEY, a int, b text) USING rose;
INSERT INTO t SELECT i, i % 100, CASE WHEN i % 100 = 0 THEN repeat(md5(i::text), 100) ELSE md5(i::text) END FROM generate_series(1, 30000) i;
CREATE INDEX t_a ON t (a);
CREATE INDEX t_b ON t (a DESC) INCLUDE (b);
SELECT rose.spill('t');
UPDATE t SET a = a + 1 WHERE id % 5 = 0;
SELECT rose.spill('t');
SELECT rose.merge('t');
UPDATE t SET a = a + 1 WHERE id % 7 = 0;
SQL
stop_points_create($node);
my $rows = sql('SELECT count(*), sum(a), sum(length(b)) FROM t');

sql("SELECT stop_at('index-attached', 'skip', 'client', 0, 0)");
refused('SELECT b FROM t WHERE a = 5', 'index scan');
refused('SELECT a FROM t WHERE a BETWEEN 5 AND 7', 'index-only scan');
refused('SELECT a FROM t ORDER BY a DESC LIMIT 1', 'a scan backward');
refused('SELECT b FROM t WHERE a = ANY (ARRAY[1, 2])', 'arrays');
refused('SELECT b FROM t WHERE a IS NULL', 'NULLs');
refused('SELECT min(a), max(a) FROM t', 'ends');
refused('UPDATE t SET b = NULL WHERE a = 3', 'a change by an index');
refused("INSERT INTO t VALUES (-1, 1, '')", 'an insertion');
refused("COPY t FROM PROGRAM 'echo 30001,1,x' CSV", 'COPY');
refused("INSERT INTO t VALUES (1, 1, '') ON CONFLICT (id) DO NOTHING", 'ON CONFLICT');
passes('ANALYZE t', 'ANALYZE');
passes('VACUUM t', 'VACUUM');
passes('EXPLAIN SELECT b FROM t WHERE a = 5', 'the planner');
passes('CREATE INDEX t_c ON t (a, id DESC)', 'CREATE INDEX');
passes('REINDEX INDEX t_c', 'REINDEX');
passes('REINDEX INDEX CONCURRENTLY t_b', 'REINDEX CONCURRENTLY, which goes through all pages');
passes('CREATE INDEX CONCURRENTLY t_d ON t (id DESC, a)', 'CREATE INDEX CONCURRENTLY');
passes('DROP INDEX CONCURRENTLY t_d', 'DROP INDEX CONCURRENTLY');
refused('SELECT b FROM t WHERE a = 5', 'as before');
sql('SELECT stop_clear()');

is(sql('SELECT count(*), sum(a), sum(length(b)) FROM t'), $rows, 'rows are as they were');
is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'and indexes are right');

# btbulkdelete goes through all pages before it completes an index: of runs, filters, overflow, region maps and the tail log
my $ctl = RoseTest::Session->new($node);
my $builder = RoseTest::Session->new($node);
$ctl->run("SELECT stop_at('index-beside-begun', 'wait', 'client', 0, 1)");
$builder->start('CREATE INDEX CONCURRENTLY t_e ON t (a) INCLUDE (b)');
wait_for_stop($node, 'index-beside-begun');
sql("INSERT INTO t SELECT i, i % 100, CASE WHEN i % 10 = 0 THEN (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 100) j) ELSE md5(i::text) END FROM generate_series(40001, 80000) i");
sql("SELECT rose.spill('t')");
sql("SELECT rose.merge('t')");
sql('UPDATE t SET a = a + 1 WHERE id % 50 = 0');
cmp_ok(sql("SELECT pg_relation_size('t_e') / 8192"), '>', 66, 'the index has a page with a region map');
$ctl->run("SELECT go_on('index-beside-begun')");
$builder->finish;
is(sql("SELECT indisvalid FROM pg_index WHERE indexrelid = 't_e'::regclass"), 't', 'it is complete');
is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'and right');
$_->end foreach $ctl, $builder;
$node->stop;
done_testing();
