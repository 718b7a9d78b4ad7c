# A session that comes by many tables keeps little of them: what it has of tables that it does not use is bounded, and what it
# has to make again is right. So is what a transaction keeps of tables that it makes and drops.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has no handles' if $ENV{ROSE_STANDIN};

my $tables = $ENV{MANY_TABLES} // 2000;
my $bound = 8 * 1024 * 1024;
my $node = rose_node('idle', 'rose.max_merge_workers = 0', "rose.spill_interval = '1d'", 'max_locks_per_transaction = 1024',
	'autovacuum = off', 'fsync = off', 'log_statement = none');
my $memory = "SELECT coalesce(sum(total_bytes), 0) FROM pg_backend_memory_contexts WHERE name ~ '^rose (tree|schema|component|retired|page|TID)'";

my $columns = join ', ', map { "c$_ int" } 1 .. 40;
$node->safe_psql('postgres', <<"SQL");
DO \$\$ BEGIN
	FOR i IN 1 .. $tables LOOP
		EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, v int, $columns) USING rose', i);
		EXECUTE format('INSERT INTO t%s SELECT g, %s FROM generate_series(1, 3) g', i, i);
		PERFORM rose.spill(('t' || i)::regclass);
		IF i % 100 = 0 THEN COMMIT; END IF;
	END LOOP;
END \$\$;
-- The sum of v in tables a to b, by a transaction each, or by one.
CREATE PROCEDURE each_table(a int, b int, apart bool, INOUT total bigint) LANGUAGE plpgsql AS \$\$
DECLARE n bigint;
BEGIN
	FOR i IN a .. b LOOP
		EXECUTE format('SELECT sum(v) FROM t%s', i) INTO n;
		total := total + n;
		IF apart THEN COMMIT; END IF;
	END LOOP;
END \$\$;
SQL
my $total = 3 * $tables * ($tables + 1) / 2;

my $session = RoseTest::Session->new($node);
is($session->run("CALL each_table(1, 100, true, 0)"), 3 * 100 * 101 / 2, 'some tables are read');
my $some = $session->run($memory);
cmp_ok($some, '<', 100 * 24576, "what it takes to have read a hundred: $some");
cmp_ok($some / 100 * $tables, '>', 1.2 * $bound, 'all of them would take more than the bound');

# what outlives the handle of its table
$session->run('PREPARE one AS SELECT sum(v) FROM t1');
$session->run('BEGIN; DECLARE held CURSOR WITH HOLD FOR SELECT id, v FROM t1 ORDER BY id; COMMIT');
is($session->run('FETCH held'), '1|1', 'a cursor that is held');
foreach my $apart ('true', 'false')
{
	is($session->run("CALL each_table(1, $tables, $apart, 0)"), $total, "all tables are read, by transactions of their own: $apart");
	my $all = $session->run($memory);
	cmp_ok($all, '<', 1.1 * $bound, "and take no more than the bound: $all");
	is($session->run('EXECUTE one'), 3, 'what was prepared is right');
	is($session->run('FETCH held'), ($apart eq 'true' ? 2 : 3) . '|1', 'and so is the cursor');
}

# a transaction goes on with what it has, however much that is
$session->run('BEGIN; DECLARE mine CURSOR FOR SELECT id, v FROM t2 ORDER BY id; SAVEPOINT a; UPDATE t2 SET v = 7 WHERE id = 3');
is($session->run('FETCH mine'), '1|2', 'a cursor');
is($session->run("CALL each_table(1, $tables, false, 0)"), $total + 5, 'all tables are read in its transaction');
is($session->run('FETCH mine'), '2|2', 'the cursor goes on');
$session->run('ROLLBACK TO a');
is($session->run('SELECT sum(v) FROM t2'), 6, 'after a rollback to a savepoint');
is($session->run('FETCH mine'), '3|2', 'and on');
$session->run('COMMIT');
cmp_ok($session->run($memory), '<', 1.1 * $bound, 'its end frees what is too much');
is($session->run('SELECT count(*) FROM rose.check($$t2$$)'), 0, 't2 is sound');

# what others do to tables whose handles have gone
$node->safe_psql('postgres', 'ALTER TABLE t3 ADD COLUMN more int DEFAULT 5; UPDATE t3 SET v = 0 WHERE id = 1; DROP TABLE t4; CREATE TABLE t4 (id int PRIMARY KEY, v int) USING rose; INSERT INTO t4 VALUES (1, 12)');
is($session->run('SELECT sum(v), sum(more) FROM t3'), '6|15', 'a table that was altered');
is($session->run('SELECT * FROM t4'), '1|12', 'a table that was made anew');

# what a transaction keeps of files that it makes and drops
my $rounds = 200;
$session->run('CREATE TABLE emptied (id int PRIMARY KEY, v int) USING rose; INSERT INTO emptied VALUES (1, 15)');
my $before = $session->run($memory);
$session->run('BEGIN');
$session->run("DO \$\$ BEGIN FOR i IN 1 .. $rounds LOOP CREATE TABLE made (id int PRIMARY KEY, v text) USING rose; INSERT INTO made VALUES (1, 'a'); DROP TABLE made; END LOOP; END \$\$");
my $made = ($session->run($memory) - $before) / $rounds;
cmp_ok($made, '<', 8192, "of a table made and dropped: $made");
$before = $session->run($memory);
$session->run("DO \$\$ BEGIN FOR i IN 1 .. $rounds LOOP TRUNCATE emptied; INSERT INTO emptied VALUES (i, i); END LOOP; END \$\$");
my $emptied = ($session->run($memory) - $before) / $rounds;
cmp_ok($emptied, '<', 8192, "of one that is emptied: $emptied");
is($session->run('SELECT id, v FROM emptied'), "$rounds|$rounds", 'the last one is there');
$session->run('ROLLBACK');
is($session->run('SELECT sum(v) FROM emptied'), 15, 'and after a rollback the first one');
cmp_ok($session->run($memory), '<', 1.1 * $bound, 'and nothing is left');
$session->end;
$node->stop;
done_testing();
