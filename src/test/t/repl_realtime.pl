# rose.read_mode = 'realtime': a statement sees whatever the worker has received whole when it begins, however it is run; it waits no longer
# than it is told to; who does not ask sees nothing sooner.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseProtocol;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no batches' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node("logical_decoding_work_mem = '64kB'");
my $node = rose_node('replica', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off', "rose.realtime_timeout = 0");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub realtime { return sql("SET rose.read_mode = 'realtime'; $_[0]") }
sub worker { return sql("SELECT pid FROM rose.stat_subscription WHERE subname = '$_[0]'") }

# a and b are of one subscription, z of another; what comes in m, or y, comes after them.
my $common = 'CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY, v int); CREATE TABLE n (v int); CREATE TABLE m (id int PRIMARY KEY); CREATE TABLE l (id int PRIMARY KEY, t text);
	CREATE TABLE z (id int PRIMARY KEY, v int); CREATE TABLE y (id int PRIMARY KEY); CREATE TABLE x (id int PRIMARY KEY, t text)';
up("$common; CREATE TABLE p (id int PRIMARY KEY, v int); CREATE PUBLICATION p FOR TABLE a, b, n, m, l, p; CREATE PUBLICATION p2 FOR TABLE z, y, x");
up("INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 100) g") foreach qw(a b p z);
sql("SET default_table_access_method = rose; $common; CREATE TABLE own (id int PRIMARY KEY, v int); CREATE INDEX b_v ON b (v); CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY HASH (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE p2 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1)");
stop_points_create($node);
subscribe($upstream, $node);
my $conninfo = $upstream->connstr('postgres');
sql("SELECT rose.create_subscription('s2', \$\$$conninfo\$\$, ARRAY['p2'], streaming => false); SELECT rose.wait_for_sync('s2', $PostgreSQL::Test::Utils::timeout_default)");

# Batches end only when somebody asks, and one that waits for a table is not given up for what it hides.
sub hold { return sql("SELECT stop_at('batch-ends', 'skip', 'worker', 0, 0), stop_at('batch-hides', 'skip', 'worker', 0, 0)") }

# The worker has begun with changes of this table; so all that came before is whole.
sub wait_until_at
{
	my ($subscription, $table) = @_;
	my $pid = worker($subscription);

	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE pid = $pid AND locktype = 'relation' AND relation = '$table'::regclass AND mode = 'RowExclusiveLock'")
	  or die "$table is not reached";
	return;
}

# A further value: of row 1 of a, p, and z, with its contrary in b; and a row of n.
my ($n, $marks) = (0, 0);

sub next_value
{
	$n++;
	up("BEGIN; UPDATE a SET v = $n WHERE id = 1; INSERT INTO n VALUES (1); UPDATE b SET v = -$n WHERE id = 1; UPDATE p SET v = $n WHERE id <= 2; COMMIT");
	up("UPDATE z SET v = $n WHERE id = 1");
	$marks++;
	up("INSERT INTO m VALUES ($marks)");
	up("INSERT INTO y VALUES ($marks)");
	wait_until_at('s', 'm');
	wait_until_at('s2', 'y');
	return $n;
}

# Who does not ask sees the last value.
sub unseen
{
	my ($what) = @_;

	is(sql('SELECT (SELECT v FROM a WHERE id = 1), (SELECT v FROM b WHERE id = 1), (SELECT count(*) FROM n), (SELECT v FROM z WHERE id = 1)'),
		join('|', $n - 1, 1 - $n, $n - 1, $n - 1), "not seen without it: $what");
	return;
}

# Each way to read sees the new value; __ stands for it in what is expected.
sub sees
{
	my ($what, $sql, $expected) = @_;
	my $value = next_value();

	$expected =~ s/__/$value/g;
	unseen($what);
	is(realtime($sql), $expected, $what);
	realtime('SELECT count(*) FROM a, z WHERE a.id = z.id AND a.id = 1');	# all
	return;
}

sub refused
{
	my ($what, $sql, $state, $message) = @_;
	my $err = error_of($node, "\\set VERBOSITY verbose\n$sql");

	like($err, qr/ERROR:  $state: $message/, $what);
	return;
}

hold();

# ---- statements ----

sees('a query', 'SELECT v FROM a WHERE id = 1', '__');
sees('two tables', 'SELECT a.v, a.v + b.v FROM a JOIN b USING (id) WHERE id = 1', '__|0');
sees('both subscriptions', 'SELECT a.v, z.v FROM a JOIN z USING (id) WHERE id = 1', '__|__');
sees('no key', 'SELECT count(*) FROM n', '__');
sees('partitions', 'SELECT sum(v) / 2 FROM p', '__');
sees('a partition by itself', 'SELECT max(v) FROM ' . sql('SELECT tableoid::regclass FROM p WHERE id = 1'), '__');
sees('an index', 'SET enable_seqscan = off; SET rose.enable_scan = off; SELECT -v FROM b WHERE v < 0', '__');
sees('an index only', 'SET enable_seqscan = off; SET rose.enable_scan = off; SET enable_bitmapscan = off; SELECT -min(v) FROM b WHERE v < 0', '__');
sees('a Rose Aggregate', 'SET rose.scan_min_rows = 0; SET cpu_tuple_cost = 1; SELECT sum(v) FROM a', '__');
sees('another process', always_parallel($node) . '; SET rose.scan_min_rows = 0; SELECT sum(v) FROM a', '__');
sees('a parallel plan', 'SET rose.scan_min_rows = 0; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET cpu_tuple_cost = 1; SELECT sum(v) FROM a', '__');
sees('a subquery', 'SELECT 1 WHERE EXISTS (SELECT FROM a WHERE v = __)' =~ s/__/$n + 1/er, '1');
sees('WITH', 'WITH w AS MATERIALIZED (SELECT * FROM a) SELECT max(v) FROM w', '__');
sees('in a block', 'BEGIN; SELECT FROM own; SAVEPOINT s; SELECT v FROM a WHERE id = 1; COMMIT', '__');
sees('a locking query', 'SELECT v FROM a WHERE id = 1 FOR UPDATE', '__');
sees('a command that writes', 'INSERT INTO own SELECT 1000 + v, v FROM a WHERE id = 1 RETURNING v', '__');
sees('WITH that writes', 'WITH w AS (INSERT INTO own SELECT 2000 + v, v FROM a WHERE id = 1 RETURNING v) SELECT * FROM w', '__');
sees('UPDATE of another table', 'INSERT INTO own VALUES (1, 0); UPDATE own SET v = a.v FROM a WHERE a.id = own.id; SELECT v FROM own WHERE id = 1', '__');
sees('CREATE TABLE AS', 'CREATE TEMP TABLE t AS SELECT * FROM a; SELECT max(v) FROM t', '__');
sql('CREATE MATERIALIZED VIEW mv AS SELECT * FROM a; CREATE VIEW view AS SELECT * FROM a');
sees('a materialized view', 'REFRESH MATERIALIZED VIEW mv; SELECT max(v) FROM mv', '__');
sees('a view', 'SELECT max(v) FROM view', '__');
sees('COPY of a query', 'COPY (SELECT v FROM a WHERE id = 1) TO STDOUT', '__');
sees('COPY of a table', 'COPY n TO STDOUT', join("\n", (1) x ($n + 1)));
sees('COPY in a function', "DO \$\$BEGIN EXECUTE format('COPY a TO PROGRAM %L', 'cat > /dev/null'); END\$\$; SET rose.read_mode = consistent; SELECT v FROM a WHERE id = 1", '__');
sees('EXPLAIN ANALYZE', "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) INSERT INTO own SELECT 3000 + v, v FROM a WHERE id = 1; SELECT 'v', v FROM own WHERE id > 3000" =~ s/EXPLAIN (.*?);/DO \$\$BEGIN EXECUTE 'EXPLAIN $1'; END\$\$;/r, 'v|__');

# ---- prepared statements, cursors, functions ----

foreach my $mode ('force_generic_plan', 'force_custom_plan')
{
	sees("EXECUTE, $mode", "SET plan_cache_mode = $mode; PREPARE q (int) AS SELECT v FROM a WHERE id = \$1; EXECUTE q (1)", '__');
	sees("CREATE TABLE AS EXECUTE, $mode", "SET plan_cache_mode = $mode; PREPARE q (int) AS SELECT v FROM a WHERE id = \$1; CREATE TEMP TABLE t AS EXECUTE q (1); SELECT * FROM t", '__');
	sees("EXECUTE that writes, $mode", "SET plan_cache_mode = $mode; PREPARE q (int) AS INSERT INTO own SELECT \$1 + v, v FROM a WHERE id = 1 RETURNING v; EXECUTE q (" . ($mode =~ /gen/ ? 4000 : 5000) . ')', '__');
}
my $client = RoseProtocol->new($node);
$client->query('SET rose.read_mode = realtime; PREPARE q AS SELECT v FROM a WHERE id = 1; SET plan_cache_mode = force_generic_plan');
$client->query('EXECUTE q') foreach 1 .. 2;
foreach my $again (1 .. 2)
{
	my $value = next_value();

	is(($client->query('EXECUTE q'))[0][0], $value, "a statement that was prepared before, $again");
	$value = next_value();
	$client->bind_and_execute('', 'SELECT v FROM a WHERE id = 1', 0);
	is(($client->sync)[0][0], $value, "by the extended protocol, $again");
}
my ($before, $after) = ($n);
$client->query('BEGIN');
$client->bind_and_execute('c', 'SELECT v FROM a WHERE id <= 2 ORDER BY id DESC', 1);
$client->send('H', '');
$client->message foreach 1 .. 4;		# parsed, bound, a row, suspended
$after = next_value();
$client->execute('c', 0);
is(($client->sync)[0][0], $before, 'a portal goes on with its snapshot');
is(($client->query('SELECT v FROM a WHERE id = 1'))[0][0], $after, 'what comes after it in the transaction does not');
$client->query('COMMIT');
$client->end;
realtime('SELECT count(*) FROM a, z');
sees('a cursor', 'BEGIN; DECLARE c CURSOR FOR SELECT v FROM a WHERE id = 1; FETCH c; COMMIT', '__');
sees('a cursor WITH HOLD', 'DECLARE c CURSOR WITH HOLD FOR SELECT v FROM a WHERE id = 1; FETCH c', '__');
sql('CREATE FUNCTION f_sql() RETURNS int LANGUAGE sql VOLATILE AS $$SELECT v FROM a WHERE id = 1$$; CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT v FROM a WHERE id = 1); END$$;
	CREATE FUNCTION f_loop() RETURNS int LANGUAGE plpgsql AS $$DECLARE r record; x int; BEGIN FOR r IN SELECT v FROM a WHERE id = 1 LOOP x := r.v; END LOOP; RETURN x; END$$;
	CREATE FUNCTION f_stable() RETURNS int LANGUAGE plpgsql STABLE AS $$BEGIN RETURN (SELECT v FROM a WHERE id = 1); END$$;
	CREATE FUNCTION f_stable_sql() RETURNS int LANGUAGE sql STABLE AS $$SELECT v FROM a WHERE id = 1; SELECT v FROM a WHERE id = 1$$;
	CREATE FUNCTION f_set() RETURNS int LANGUAGE plpgsql SET rose.read_mode = realtime AS $$BEGIN RETURN (SELECT v FROM a WHERE id = 1); END$$;
	CREATE PROCEDURE proc(INOUT r int) LANGUAGE plpgsql AS $$BEGIN r := (SELECT v FROM a WHERE id = 1); COMMIT; r := r + (SELECT v FROM a WHERE id = 1); END$$');
sees('a function in SQL', 'SELECT f_sql()', '__');
sees('a function in PL/pgSQL', 'SELECT f()', '__');
sees('a loop', 'SELECT f_loop()', '__');
sees('a procedure that commits', 'CALL proc(NULL)', 2 * ($n + 1));
sees('a setting of the function', 'SET rose.read_mode = consistent; SELECT f_set()', '__');
foreach my $function (qw(f_stable f_stable_sql))
{
	next_value();
	is(realtime("SELECT $function()"), $n - 1, "$function reads with the snapshot of the query that calls it");
	is(realtime("SELECT $function() FROM a WHERE id = 1"), $n, "... $function, which may be one of now");
	next_value();
	is(realtime("PREPARE q AS SELECT $function(); EXECUTE q"), $n - 1, "... $function, also by EXECUTE");
	is(realtime("DO \$\$DECLARE x int; BEGIN x := (SELECT $function()); INSERT INTO own VALUES (6000 + $n, x); END\$\$; SET rose.read_mode = consistent; SELECT v FROM own WHERE id = 6000 + $n"),
		$n - 1, "... $function, and in a query of PL/pgSQL");
	realtime('SELECT count(*) FROM a, z');
}
# PL/pgSQL has taken a snapshot for the expression alone; the trigger fires at COMMIT
sql('CREATE FUNCTION f_caught() RETURNS int LANGUAGE plpgsql STABLE AS $$BEGIN BEGIN PERFORM 1 / (v - v) FROM a WHERE id = 1; EXCEPTION WHEN division_by_zero THEN NULL; END; RETURN (SELECT v FROM a WHERE id = 1); END$$;
	CREATE FUNCTION f_within() RETURNS int LANGUAGE plpgsql STABLE AS $$BEGIN BEGIN RETURN (SELECT v FROM a WHERE id = 1); EXCEPTION WHEN division_by_zero THEN RETURN 0; END; END$$;
	CREATE FUNCTION f_calls() RETURNS int LANGUAGE plpgsql STABLE AS $$DECLARE x int; BEGIN x := f_stable_sql(); RETURN x; END$$;
	CREATE FUNCTION deferred() RETURNS trigger LANGUAGE plpgsql AS $$DECLARE x int; BEGIN x := f_stable(); INSERT INTO saw VALUES (x); RETURN NULL; END$$;
	CREATE FUNCTION deferred_stable() RETURNS trigger LANGUAGE plpgsql STABLE AS $$BEGIN RAISE NOTICE \'saw %\', (SELECT v FROM a WHERE id = 1); RETURN NULL; END$$;
	CREATE TABLE saw (v int); CREATE TABLE fires (v int); CREATE TABLE fires_stable (v int);
	CREATE CONSTRAINT TRIGGER d AFTER INSERT ON fires DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deferred();
	CREATE CONSTRAINT TRIGGER d AFTER INSERT ON fires_stable DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deferred_stable()');
foreach my $function (qw(f_stable f_stable_sql f_caught f_calls))
{
	sees("$function in an expression of PL/pgSQL", "DO \$\$DECLARE x int; BEGIN x := $function(); INSERT INTO own VALUES (7000 + x, x); END\$\$; SET rose.read_mode = consistent; SELECT v FROM own WHERE id = 7000 + __" =~ s/__/$n + 1/er, '__');
}
next_value();
realtime('DO $$DECLARE x int; BEGIN x := f_within(); INSERT INTO own VALUES (8000, x); END$$');
is(sql('SELECT v FROM own WHERE id = 8000'), $n - 1, 'a STABLE function that has begun a subtransaction reads what its caller sees');
realtime('SELECT count(*) FROM a, z');
sees('a STABLE function of a deferred trigger', 'INSERT INTO fires VALUES (1); SET rose.read_mode = consistent; SELECT max(v) FROM saw', '__');
my $noticed = next_value();
like(($node->psql('postgres', "SET rose.read_mode = 'realtime'; INSERT INTO fires_stable VALUES (1), (2)"))[2], qr/saw $noticed\n.*saw $noticed\n?/s, 'a deferred trigger that is STABLE itself');
realtime('SELECT count(*) FROM a, z');

# all functions of an expression see the same, however long it takes
my ($holds, $reads) = (RoseTest::Session->new($node), RoseTest::Session->new($node));
sql('CREATE FUNCTION pause() RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_xact_lock_shared(78); RETURN 0; END$$; CREATE TABLE expression (t text)');
next_value();
$holds->run('SELECT pg_advisory_lock(78)');
$reads->run("SET rose.read_mode = 'realtime'");
$reads->start('DO $$DECLARE x text; BEGIN x := f_stable_sql() || \' \' || pause() || \' \' || f_stable_sql() || \' \' || f_stable(); INSERT INTO expression VALUES (x); END$$');
$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)") or die 'nobody waits';
my $first = $n;
next_value();
realtime('SELECT count(*) FROM a, z');
$holds->run('SELECT pg_advisory_unlock(78)');
$reads->finish;
is(sql('TABLE expression'), "$first 0 $first $first", 'an expression sees one moment');
$_->end foreach $holds, $reads;

# ---- what does not ask ----

realtime('SELECT count(*) FROM a, z');
sql('CREATE TABLE refers (id int REFERENCES a)');
next_value();
realtime($_) foreach 'INSERT INTO refers VALUES (1), (2)', 'SELECT count(*) FROM own', 'EXPLAIN SELECT * FROM a', "SET rose.read_mode = 'consistent'; SELECT count(*) FROM a", 'SELECT count(*) FROM mv', 'COPY own TO STDOUT';
unseen('foreign keys, other tables, plans');
is(realtime("SELECT count(*) FROM rose.verify('s')"), 0, 'rose.verify compares as ever');
is(realtime('SELECT v FROM a WHERE id = 1'), $n, 'and a query asks');

# ---- isolation, roles ----

foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	my $begin = "SET rose.read_mode = 'realtime'; BEGIN ISOLATION LEVEL $level";

	refused("$level: $_", "$begin; $_", '0A000', "cannot read table \"\\w+\" in real time in a transaction of isolation level $level")
	  foreach 'SELECT * FROM a', 'SELECT * FROM own, b', 'COPY z TO STDOUT', 'SELECT f_stable()', 'SELECT * FROM p';
	is(sql("$begin; SELECT count(*) > 0 FROM own; SET rose.read_mode = consistent; SELECT count(*) FROM a; COMMIT"), "t\n100", "$level: other tables, another mode");
}
sql('CREATE ROLE reader LOGIN; GRANT SELECT ON a, p TO reader; CREATE ROLE nobody LOGIN; ALTER ROLE reader SET rose.read_mode = realtime; CREATE SCHEMA odd; GRANT USAGE ON SCHEMA odd TO reader');
my $value = next_value();
is($node->safe_psql('postgres', 'SET search_path = odd; SELECT v, (SELECT sum(v) / 2 FROM public.p) FROM public.a WHERE id = 1', extra_params => [ '-U', 'reader' ]), "$value|$value", 'another role, another search_path');
refused('no right', 'SET ROLE nobody; SET rose.read_mode = realtime; SELECT * FROM a', '42501', 'permission denied');
refused('no right to COPY', 'SET ROLE nobody; SET rose.read_mode = realtime; COPY a TO STDOUT', '42501', 'permission denied');
refused('no such mode', "SET rose.read_mode = 'dirty'", '22023', 'invalid value');

# ---- the worker cannot go on ----

my $locker = RoseTest::Session->new($node);
my $waiting = RoseTest::Session->new($node);

sub wait_until_waiting
{
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%a.v + b.v%' AND pid <> pg_backend_pid()") or die 'nobody waits';
	return;
}

# In the middle of a transaction that waits for a table, with a whole one in the batch.
sub stuck
{
	$locker->run("BEGIN; SET LOCAL deadlock_timeout = '50ms'; LOCK TABLE l");
	$n++;
	up("BEGIN; UPDATE a SET v = $n WHERE id = 1; UPDATE b SET v = -$n WHERE id = 1; COMMIT; BEGIN; INSERT INTO l VALUES ($n, ''); UPDATE a SET v = -1 WHERE id = 2; UPDATE a SET v = 0 WHERE id = 2; COMMIT");
	$node->poll_query_until('postgres', "SELECT waiting_for::text = 'l' FROM rose.stat_subscription WHERE subname = 's'") or die 'it does not wait';
	return;
}

realtime('SELECT count(*) FROM a');
stuck();
refused('not for longer', "SET rose.read_mode = realtime; SET rose.realtime_timeout = '50ms'; SELECT * FROM a", '55P03', 'could not read in real time: rose subscription "s" has received more');
refused('COPY does not either', "SET rose.read_mode = realtime; SET rose.realtime_timeout = '50ms'; COPY a TO STDOUT", '55P03', 'could not read in real time');
refused('a cancel', "SET rose.read_mode = realtime; SET statement_timeout = '100ms'; SELECT * FROM a", '57014', 'canceling statement');
is(realtime('BEGIN; SAVEPOINT s; SET LOCAL rose.realtime_timeout = 50; DO $$BEGIN PERFORM count(*) FROM a; EXCEPTION WHEN lock_not_available THEN NULL; END$$; SET rose.read_mode = consistent; SELECT sum(v) FROM a; COMMIT'), $n - 1, 'a block goes on after that');
is(realtime('SELECT count(*) FROM z'), 100, 'another subscription does not wait');
$waiting->start("SET rose.read_mode = realtime; SELECT a.v, a.v + b.v FROM a JOIN b USING (id) WHERE id = 1");
wait_until_waiting();
eval { $locker->run("SET LOCAL rose.read_mode = realtime; SELECT * FROM a") };
like($@, qr/cannot wait for the worker of rose subscription "s"/, 'who has locked what the worker waits for does not wait for it');
$locker->{err} = '';
$locker->run('ROLLBACK');
is($waiting->finish, "$n|0", 'others get what they wait for');

# It ends while somebody waits, who is not kept.
realtime('SELECT count(*) FROM a');
stuck();
my $pid = worker('s');
$waiting->start('SET rose.read_mode = realtime; SELECT a.v + b.v FROM a JOIN b USING (id) WHERE id = 1');
wait_until_waiting();
sql("SELECT pg_terminate_backend($pid)");
is($waiting->finish, 0, 'the worker ends');
$locker->run('ROLLBACK');
{
	local $ENV{PGOPTIONS} = '-c rose.read_mode=realtime';

	ok($node->poll_query_until('postgres', "SELECT v = $n FROM a WHERE id = 1"), 'another one comes, and has it all');
}
isnt(worker('s'), $pid, 'it is another one');

# What may take long does not begin behind what is whole, if somebody reads in real time.
sql("SELECT stop_at('batch-unwanted', 'skip', 'worker', 0, 0)");
foreach my $of ([ 's', 'a', 'l', 'in parts' ], [ 's2', 'z', 'x', 'at once' ])
{
	my ($subscription, $table, $large, $how) = @$of;

	realtime("SELECT count(*) FROM $table");
	$locker->run("BEGIN; LOCK TABLE $large");
	$n++;
	up("UPDATE $table SET v = $n WHERE id = 1");
	up("INSERT INTO $large SELECT 1000 + g, repeat(md5(g::text), 10) FROM generate_series(1, 2000) g");
	$node->poll_query_until('postgres', "SELECT waiting_for::text = '$large' FROM rose.stat_subscription WHERE subname = '$subscription'") or die 'it does not wait';
	is(realtime("SELECT v FROM $table WHERE id = 1"), $n, "what came before a large transaction that is sent $how");
	$locker->run('ROLLBACK');
}

# ---- the worker itself, for whom a function of the table's owner reads ----

sql('SELECT stop_clear()');
sql('CREATE FUNCTION known(int) RETURNS bool LANGUAGE plpgsql SET rose.read_mode = realtime AS $$BEGIN RETURN (SELECT count(*) > 0 FROM public.a); END$$; ALTER TABLE b ADD CONSTRAINT known CHECK (known(v)) NOT VALID');
up("DO 'BEGIN FOR i IN 1 .. 200 LOOP UPDATE b SET v = v WHERE id = 2; COMMIT; END LOOP; END'");
wait_for_apply($upstream, $node);
is(sql("SELECT state FROM rose.stat_subscription WHERE subname = 's'"), 'streaming', 'the worker does not wait for itself');
sql('ALTER TABLE b DROP CONSTRAINT known');
hold();

# ---- a crash ----

next_value();
crash_and_restart($node);
foreach my $subscription (qw(s s2))
{
	wait_for_apply($upstream, $node, 'postgres', $subscription);
}
is(realtime('SELECT a.v, a.v + b.v FROM a JOIN b USING (id) WHERE id = 1'), "$n|0", 'after a crash');
is(table_hash($node, $_), table_hash($upstream, $_), "after a crash: $_") foreach qw(a b n m p l z y x);

$_->end foreach $locker, $waiting;
$node->stop;
$upstream->stop;
done_testing();
