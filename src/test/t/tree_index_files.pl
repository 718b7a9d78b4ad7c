# Files of indexes: a tree whose file has btree's metapage in front, made, written to, spilled, merged, recovered
# and dropped like a table's. The catalog's index is not ready for writes, so only functions of the test write to it
# (src/test/server_trees).
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $node = rose_node('index_files', <<'CONF');
autovacuum = off
rose.spill_interval = '1d'
rose.memtable_size = 16MB
max_prepared_transactions = 2
CONF

sub sql { return $node->safe_psql('postgres', $_[0]) }

stop_points_create($node);
sql(<<'SQL');
CREATE FUNCTION tree_make(regclass, text, smallint[], smallint[]) RETURNS regclass LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_remake(regclass) RETURNS void LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_write(regclass, text, text) RETURNS bigint LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_entries(regclass) RETURNS SETOF text LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_block_zero(regclass, text) RETURNS void LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_runs(regclass) RETURNS bigint LANGUAGE sql
	RETURN (SELECT count(*) FROM rose.components($1) WHERE kind <> 'memtable');
CREATE FUNCTION tree_rows_in_memory(regclass) RETURNS bigint LANGUAGE sql
	RETURN (SELECT coalesce(sum(rows), 0) FROM rose.components($1) WHERE kind = 'memtable');

-- a, b may be NULL, c is the key
CREATE TABLE t (a int, b text COLLATE "C", c int PRIMARY KEY) USING rose;
INSERT INTO t SELECT nullif(n * 7919 % 50, 3), CASE WHEN n % 11 > 0 THEN 'text ' || n % 97 END, n
FROM generate_series(1, 6000) n;
SQL

# What an index on (a, b DESC) has for the rows with that condition, as the table says.
sub expected
{
	my ($where) = @_;
	return sql("SELECT concat_ws('|', coalesce(a::text, '-'), coalesce(b, '-'), c) FROM t WHERE $where ORDER BY a, b DESC, c");
}
sub entries { return sql("SELECT * FROM tree_entries('$_[0]')") }
sub problems { return sql("SELECT * FROM rose.check('$_[0]')") }

# ---- made, written, spilled, merged ----

sql(q{SELECT tree_make('t', 'i', '{1,2}', '{0,3}')});	# a, b DESC NULLS FIRST: as ORDER BY has it
is(entries('i'), '', 'a new tree is empty');
is(problems('i'), '', '... and good');
is(sql(q{SELECT pg_relation_size('i') / 8192}), 2, '... of two blocks');
is(sql(q{SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c <= 2000')}), 2000, 'entries are written');
is(entries('i'), expected('c <= 2000'), '... and are found in memory, in order');
sql(q{SELECT rose.spill('i')});
is(sql(q{SELECT tree_rows_in_memory('i'), tree_runs('i')}), '0|1', 'they are spilled');
is(entries('i'), expected('c <= 2000'), '... and found in a run');
sql(qq{SELECT tree_write('i', 'delete', 'SELECT * FROM t WHERE c % 3 = 0 AND c <= 2000');
	SELECT rose.spill('i');
	SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c > 2000 AND c <= 5000')});
my $there = '(c <= 2000 AND c % 3 <> 0) OR (c > 2000 AND c <= 5000)';
is(entries('i'), expected($there), 'after deletes and more');
sql(q{SELECT rose.merge('i')});
is(entries('i'), expected($there), '... merged');
is(sql(q{SELECT sum(rows) FROM rose.components('i')}), sql("SELECT count(*) FROM t WHERE $there"), '... without tombstones');
is(problems('i'), '', '... and good');
is(sql('SELECT count(*) FROM t'), 6000, 'the table has nothing of it');
is(sql(q{SELECT count(*) FROM rose.space('i') WHERE file_bytes > c2_bytes AND c2_bytes > 0}), 1, 'its space is shown');

# ---- whoever searches block 0 ----

sub search { my ($result, $out, $error) = $node->psql('postgres', q{SELECT tree_block_zero('i', 'search')}); return $error }
like(search(), qr/ERROR:  (root page 1 of index "i" has level 0, expected 1|index "i" contains corrupted page at block 1)/,
	'btree meets an error in the file');
sql(q{SELECT tree_block_zero('i', 'clear')});
is(search(), '', 'it would find nothing in the file that core has built');
sql(q{SELECT tree_block_zero('i', 'poison'); SELECT tree_block_zero('i', 'poison')});
like(search(), qr/ERROR:  (root page|index "i" contains)/, '... so it is poisoned again');

# ---- recovered ----

sql(q{SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c > 5000 AND c <= 5500');
	SELECT tree_write('i', 'delete', 'SELECT * FROM t WHERE c % 10 = 0 AND c > 2000 AND c <= 5000')});
sql(q{BEGIN; SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c > 5500'); ROLLBACK});
sql(q{BEGIN; SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c > 5500 AND c <= 5600');
	SAVEPOINT s; SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c > 5600'); ROLLBACK TO s; COMMIT});
sql(q{BEGIN; SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c > 5900'); PREPARE TRANSACTION 'p'});
$there = '(c <= 2000 AND c % 3 <> 0) OR (c > 2000 AND c <= 5000 AND c % 10 <> 0) OR (c > 5000 AND c <= 5600)';
is(entries('i'), expected($there), 'before a crash');
crash_and_restart($node);
is(entries('i'), expected($there), 'after it');
cmp_ok(sql(q{SELECT tree_rows_in_memory('i')}), '>=', 500, '... from the tail log, in memory');
sql(q{COMMIT PREPARED 'p'});
$there .= ' OR c > 5900';
is(entries('i'), expected($there), 'and what was prepared');
sql(q{SELECT rose.spill('i'); SELECT rose.merge('i')});
is(entries('i'), expected($there), '... spilled and merged');
is(problems('i'), '', '... and good');

# what does not fit memory any more goes to runs
sql(q{SELECT tree_write('i', 'delete', 'SELECT * FROM t WHERE c <= 4000');
	SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c % 2 = 0 AND c <= 4000')});
$there = "((c > 4000 AND ($there)) OR (c % 2 = 0 AND c <= 4000))";
$node->append_conf('postgresql.conf', "rose.memtable_size = 4MB\n");
sql(q{CREATE TABLE filler (k int PRIMARY KEY, f text) USING rose});
$node->stop('immediate');
$node->start;
sql(q{BEGIN; INSERT INTO filler SELECT n, repeat('x', 900) FROM generate_series(1, 10000) n; COMMIT});
is(entries('i'), expected($there), 'a smaller memory after a crash');
is(problems('i'), '', '... and good');

# ---- the worker ----

$node->append_conf('postgresql.conf', "rose.spill_interval = 100ms\nrose.memtable_size = 16MB\n");
$node->restart;
ok($node->poll_query_until('postgres', q{SELECT tree_rows_in_memory('i') = 0 AND tree_runs('i') > 0}), 'a worker spills it');
my $runs = sql(q{SELECT tree_runs('i')});
sql(qq{SELECT tree_write('i', 'delete', 'SELECT * FROM t WHERE c = $_'); SELECT rose.spill('i')}) foreach 4001 .. 4012;
$there = "$there AND c NOT BETWEEN 4001 AND 4012";
ok($node->poll_query_until('postgres', q{SELECT tree_runs('i') < 10}), '... and merges it');
is(entries('i'), expected($there), '... and all is there');
sql(q{SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c = 1')});
$there = "(($there) OR c = 1)";
crash_and_restart($node);
# t, filler and i: nobody has touched them
ok($node->poll_query_until('postgres', 'SELECT tables = 3 FROM rose.memory()'), 'a worker opens it when the server has started');
ok($node->poll_query_until('postgres', q{SELECT tree_rows_in_memory('i') = 0}), '... and looks after it');
is(entries('i'), expected($there), '... and all is there');
$node->append_conf('postgresql.conf', "rose.spill_interval = '1d'\n");
$node->reload;

# ---- dropped, rolled back ----

sub in_use { return sql('SELECT tables FROM rose.memory()') }

sql("CREATE TABLE d (a int, c int PRIMARY KEY) USING rose; INSERT INTO d SELECT n, n FROM generate_series(1, 100) n");
my $used = in_use();
my $make = q{SELECT tree_make('d', 'di', '{1}', '{0}'); SELECT tree_write('di', 'put', 'SELECT * FROM d');};
sql("BEGIN; $make COMMIT");
is(in_use(), $used + 1, 'a tree of a committed transaction is in use');
is(sql('SELECT count(*) FROM tree_entries(\'di\')'), 100, '... with its entries');
$used = in_use();
sql('BEGIN; DROP INDEX di; ROLLBACK');
is(in_use(), $used, 'a drop that is rolled back leaves it');
is(sql('SELECT count(*) FROM tree_entries(\'di\')'), 100, '... with its entries');
sql('DROP INDEX di');
is(in_use(), $used - 1, 'a dropped one goes');
sql("BEGIN; $make ROLLBACK");
is(in_use(), $used - 1, 'one that is rolled back goes');
sql("BEGIN; SAVEPOINT s; $make ROLLBACK TO s; SELECT count(*) FROM d; COMMIT");
is(in_use(), $used - 1, '... with a savepoint, too');
sql("BEGIN; SAVEPOINT s; $make RELEASE s; COMMIT");
is(in_use(), $used, 'one of a released savepoint stays');
sql(q{BEGIN; SELECT tree_remake('di'); SELECT tree_write('di', 'put', 'SELECT * FROM d WHERE c <= 10'); ROLLBACK});
is(in_use(), $used, 'another file that is rolled back goes');
is(sql('SELECT count(*) FROM tree_entries(\'di\')'), 100, '... and the old one is as it was');
sql(q{BEGIN; SELECT tree_remake('di'); SELECT tree_write('di', 'put', 'SELECT * FROM d WHERE c <= 10'); COMMIT});
is(in_use(), $used, 'another file takes the place of the old one');
is(sql('SELECT count(*) FROM tree_entries(\'di\')'), 10, '... and has what was written to it');
is(problems('di'), '', '... and is good');
crash_and_restart($node);
is(sql('SELECT count(*) FROM tree_entries(\'di\')'), 10, '... after a crash, too');
$used = in_use();
sql('SELECT count(*) FROM d; DROP TABLE d');
is(sql("SELECT count(*) FROM pg_class WHERE relname = 'di'"), 0, 'it goes with its table');

# killed in the transaction that makes it
sql("CREATE TABLE d (a int, c int PRIMARY KEY) USING rose; INSERT INTO d SELECT n, n FROM generate_series(1, 100) n");
my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; $make");
crash_and_restart($node);
eval { $session->quit };
is(sql("SELECT count(*) FROM pg_class WHERE relname = 'di'"), 0, 'one that was being made is not there after a crash');
sql($make);
is(sql('SELECT count(*) FROM tree_entries(\'di\')'), 100, 'it can be made');

# ---- unlogged ----

sql(q{CREATE UNLOGGED TABLE u (a int, c int PRIMARY KEY) USING rose;
	INSERT INTO u SELECT n, n FROM generate_series(1, 100) n;
	SELECT tree_make('u', 'ui', '{1}', '{0}'); SELECT tree_write('ui', 'put', 'SELECT * FROM u')});
is(sql(q{SELECT count(*) FROM tree_entries('ui')}), 100, 'an unlogged index');
$node->restart;
is(sql(q{SELECT count(*) FROM tree_entries('ui')}), 100, '... survives a restart');
crash_and_restart($node);
is(sql(q{SELECT count(*) FROM tree_entries('ui')}), 0, '... and is empty after a crash');
is(problems('ui'), '', '... and good');
like(($node->psql('postgres', q{SELECT tree_block_zero('ui', 'search')}))[2], qr/ERROR:  (root page|index "ui" contains)/, '... and poisoned');
sql(q{INSERT INTO u VALUES (1, 1); SELECT tree_write('ui', 'put', 'SELECT * FROM u')});
is(sql(q{SELECT string_agg(e, ',') FROM tree_entries('ui') e}), '1|1', '... and can be written');

# ---- who may ask ----

sql(q{CREATE ROLE somebody});
like(($node->psql('postgres', q{SET ROLE somebody; SELECT * FROM rose.components('i')}))[2],
	qr/ERROR:  permission denied for table i/, 'who may not read the table may not look at its index');
sql(q{GRANT SELECT ON t TO somebody; GRANT USAGE ON SCHEMA rose TO somebody});
is(sql(q{SET ROLE somebody; SELECT count(*) > 0 FROM rose.components('i')}), 't', 'who may read it may');
like(($node->psql('postgres', q{SELECT rose.detach('i')}))[2], qr/ERROR:  "i" is not a rose table/, 'an index is fed by nobody');
like(($node->psql('postgres', q{SELECT rose.spill('t_pkey')}))[2], qr/ERROR:  "t_pkey" is not a rose table/, 'a primary key has no tree');

done_testing();
