
# Temporary tables: nothing of them is in shared memory or in WAL, nobody else can touch them, and nothing is left when
# their session ends, is killed, or goes down with the server. What they answer is in sql/temp_tables.sql and temp_differential.pl.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

# memory for others is short, and workers come often
my $node = rose_node('temp', "rose.memtable_size = '1MB'", "rose.spill_interval = '50ms'", "rose.idle_table_timeout = '200ms'", 'autovacuum = off',
	'max_connections = 40', 'restart_after_crash = on', "temp_buffers = '800kB'");

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Files of temporary relations, of all databases.
sub temp_files
{
	return grep { m{/t\d+_\d+[^/]*$} } glob($node->data_dir . '/base/*/t*');
}

# They go when the transaction that has dropped their tables has ended.
sub files_left
{
	my $deadline = time() + $PostgreSQL::Test::Utils::timeout_default;

	sleep 1 while temp_files() && time() < $deadline;
	return join(' ', temp_files());
}

sub refused
{
	my ($sql, $error, $what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	like($err, $error, $what);
	return;
}

# What there is in shared memory, but for the table that others write.
sub shared
{
	return sql("SELECT tables FROM rose.stat_memory");
}

# ---- one session, more rows than memory ----

my $rows = "SELECT g, md5(g::text) FROM generate_series(1, 40000) g";
my $before = shared();
my $session = RoseTest::Session->new($node);
my $lsn = sql('SELECT pg_current_wal_insert_lsn()');

$session->run('CREATE TEMP TABLE t (id int PRIMARY KEY, v text) USING rose; CREATE INDEX ti ON t (v); CREATE TEMP TABLE rest (v text) USING rose');
my $made = sql('SELECT pg_current_wal_insert_lsn()');
$session->run("INSERT INTO t $rows; INSERT INTO rest SELECT v FROM t; UPDATE t SET v = 'x' WHERE id % 10 = 0; DELETE FROM t WHERE id > 39000");
is($session->run("SELECT count(*), count(*) FILTER (WHERE v = 'x') FROM t; SELECT count(DISTINCT v) FROM rest"), "39000|3900\n40000", 'the rows are there');
is($session->run("SET enable_seqscan = off; SELECT count(*) FROM t WHERE v = 'x'"), '3900', 'and found by an index');
is($session->run("SELECT * FROM rose.check('t')"), '', 'and sound');
is($session->run("BEGIN; INSERT INTO rest SELECT v FROM t; SELECT rose.spill('rest'); COMMIT; SELECT count(*) FROM rest;"
	  . " SELECT count(*) FROM rose.stat_components WHERE relname = 'rest' AND kind = 'private run'"), "\n79000\n0", 'what has committed is an ordinary run to the next transaction');
cmp_ok($session->run("SELECT coalesce(sum(bytes), 0) FROM rose.stat_components WHERE kind = 'memtable' AND relname IN ('t', 'ti', 'rest')"), '<=', 1024 * 1024,
	'memory is bounded');
$session->run('CREATE TEMP TABLE merged (id int PRIMARY KEY, v text) USING rose');
$session->run("INSERT INTO merged SELECT g, md5(g::text) FROM generate_series($_ * 5000 + 1, $_ * 5000 + 5000) g") foreach 0 .. 24;
my $components = $session->run("SELECT count(*) FROM rose.stat_components WHERE kind <> 'memtable' AND relname = 'merged'");
cmp_ok($components, '<', 12, "it has merged what it has spilled, to $components components");
is($session->run("SELECT count(*), sum(id) FROM merged; DROP TABLE merged"), '125000|7812562500', 'all rows are there');
cmp_ok(sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$made')"), '<', 100_000, 'there is next to no WAL');
is($session->run("SELECT sum(tail_log_bytes) FROM rose.stat_space WHERE relname IN ('t', 'ti', 'rest')"), '0', 'nor a tail log');
is(shared(), $before, 'no other session has them in memory');
is(sql('SELECT used_bytes FROM rose.stat_memory'), '0', 'nor anything in the arena');

# ---- others ----

my $schema = sql("SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE relname = 't'");
my $other = qr/cannot access temporary tables of other sessions/;

refused("SELECT * FROM $schema.t", $other, 'others cannot read it');
refused("SELECT * FROM $schema.t WHERE id = 1", $other, 'by a key');
refused("INSERT INTO $schema.t VALUES (1)", $other, 'nor write');
refused("UPDATE $schema.t SET v = 'y'", $other, 'nor update');
refused("SELECT rose.$_('$schema.t')", $other, "nor call rose.$_") foreach qw(spill merge check);
refused("SELECT rose.$_('$schema.ti')", $other, "nor rose.$_ of an index") foreach qw(spill merge check);
refused("TRUNCATE $schema.t", qr/cannot truncate temporary tables of other sessions/, 'nor truncate');
refused("CLUSTER $schema.t USING t_pkey", qr/cannot cluster temporary tables of other sessions/, 'nor rewrite');
refused("ALTER TABLE $schema.t ADD COLUMN n int DEFAULT 1, ALTER COLUMN v TYPE varchar(10)", qr/cannot (?:rewrite|alter|access) temporary tables of other sessions/, 'nor alter');
refused("CREATE INDEX ON $schema.t (id)", qr/cannot create indexes on temporary tables of other sessions/, 'nor index');
refused("REINDEX TABLE $schema.t", qr/cannot reindex temporary tables of other sessions/, 'nor reindex');
sql('VACUUM; ANALYZE');
is(sql("SELECT count(*) FROM rose.stat_components WHERE relname = 't' AND kind IS NOT NULL"), '0', 'views pass over it');
is(sql("SELECT count(*) FROM $_ WHERE relname = 't'"), '1', "$_ lists it") foreach qw(rose.stat_space rose.stat_merge_progress rose.stat_components);
cmp_ok(sql("SELECT pg_table_size('$schema.t')"), '>', 100_000, 'its size is known');

# a worker of the same session's query is as another session
$session->run('CREATE FUNCTION count_t() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS \'BEGIN RETURN (SELECT count(*) FROM t); END\'');
my $parallel = always_parallel($node);
my ($rc, $out, $err) = $node->psql('postgres', "CREATE TEMP TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (1); $parallel; SELECT count_t()");
like($err, qr/cannot access temporary tables during a parallel operation/, 'workers of a query cannot read it');

# ---- snapshots ----

# names of its rows are not shared with those that import a snapshot, and do not keep them from others'
sql('CREATE TABLE named (id int PRIMARY KEY) USING rose; INSERT INTO named SELECT generate_series(1, 10)');
$session->run('BEGIN');
$session->run('SELECT count(*) FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 1)');
my $snapshot = $session->run('SELECT pg_export_snapshot()');
is(sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'; SELECT count(*) FROM named WHERE ctid = (SELECT ctid FROM named WHERE id = 3); COMMIT"), '1',
	'who imports a snapshot of a transaction that has named temporary rows can name others');
$session->run('COMMIT');

# one that is imported is older than what the session has committed
my $exporter = RoseTest::Session->new($node);
$session->run("CREATE TEMP TABLE old (id int PRIMARY KEY, v text) USING rose; INSERT INTO old VALUES (1, 'old'); SELECT rose.merge('old')");
$exporter->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
$snapshot = $exporter->run('SELECT pg_export_snapshot()');
$session->run("UPDATE old SET v = 'new'");
$session->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'");
is($session->run('SELECT v FROM old'), 'old', 'an imported snapshot sees what was');
$session->run("SELECT rose.merge('old')");
is($session->run('SELECT v FROM old'), 'old', 'after a merge, too');
$session->run('COMMIT');
$exporter->run('COMMIT');
is($session->run("SELECT rose.merge('old'); SELECT v FROM old; DROP TABLE old"), "\nnew", 'and then it is gone');

# What is stored for all to see is nothing that another session is in the middle of, though it is older than what this one does.
my $busy = RoseTest::Session->new($node);
$session->run("CREATE TEMP TABLE stamped (id int, v text) USING rose; INSERT INTO stamped VALUES (1, 'a'), (2, 'b')");
$busy->run('BEGIN; SELECT txid_current()');
$session->run('CREATE INDEX stamped_v ON stamped (v)');
is($session->run("SELECT count(*) FROM stamped WHERE v >= 'a'; SELECT * FROM rose.check('stamped')"), '2', 'rows are found by an index that is built beside another session');
$busy->run('COMMIT');
$session->run('DROP TABLE stamped');

# Nor what the snapshot of another session does not see, which this one may import later.
foreach my $case ([ 'an index that was built', 'CREATE INDEX shared_v ON shared (v)' ], [ 'a merge', "SELECT rose.merge('shared')" ])
{
	my ($what, $do) = @$case;

	$session->run("CREATE TEMP TABLE shared (id int PRIMARY KEY, v int) USING rose; INSERT INTO shared SELECT g, g % 100 FROM generate_series(1, 2000) g");
	$exporter->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$snapshot = $exporter->run('SELECT pg_export_snapshot()');
	$busy->run('SELECT txid_current()') foreach 1 .. 5;
	$session->run('INSERT INTO shared SELECT g, 7 FROM generate_series(5001, 5010) g');
	$busy->run('SELECT txid_current()');
	$session->run($do);
	$session->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'");
	is($session->run("SET LOCAL enable_seqscan = $_; SET LOCAL enable_indexscan = " . ($_ eq 'on' ? 'off' : 'on') . '; SELECT count(*) FROM shared WHERE v = 7'), '20',
		"a snapshot that is imported after $what (sequential scans $_)")
	  foreach qw(on off);
	$session->run('COMMIT; DROP TABLE shared');
	$exporter->run('COMMIT');
}
$busy->end;
$exporter->end;

# ---- it is idle, and costs nobody anything ----

sql('CREATE TABLE p (id int PRIMARY KEY, v text) USING rose');
$session->run("INSERT INTO t VALUES (50000, 'in memory')");
sql("INSERT INTO p $rows");
sql("SELECT rose.merge('p'); SELECT pg_sleep(0.5)");
is($session->run("SELECT count(*) FROM rose.stat_components WHERE relname = 't' AND kind = 'memtable' AND rows > 0"), '1', 'no worker spills it');
is($session->run('SELECT v FROM t WHERE id = 50000'), 'in memory', 'and it is there');
$session->run('BEGIN');
$session->run("CREATE TEMP TABLE t$_ (id int PRIMARY KEY) USING rose; INSERT INTO t$_ VALUES (1)") foreach 1 .. 40;
sql("UPDATE p SET v = 'new'; SELECT rose.merge('p')");
is(sql("SELECT replaced_bytes FROM rose.stat_space WHERE relname = 'p'"), '0', 'a transaction with many of them keeps nothing of other tables');
$session->run('ROLLBACK');
cmp_ok(scalar(temp_files()), '<', 12, 'what it has made is gone with it');

# ---- the end of a session ----

cmp_ok(scalar(temp_files()), '>', 0, 'there are files');
$session->end;
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_class WHERE relpersistence = 't'") or die 'tables are left';
is(files_left(), '', 'no file is left');

$session = RoseTest::Session->new($node);
$session->run("CREATE TEMP TABLE t (id int PRIMARY KEY, v text) USING rose; INSERT INTO t $rows");
my $pid = $session->run('SELECT pg_backend_pid()');
$session->start("INSERT INTO t SELECT g, md5(g::text) FROM generate_series(50000, 9000000) g");
sql("SELECT pg_sleep(0.5); SELECT pg_terminate_backend($pid)");
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_class WHERE relpersistence = 't'") or die 'tables are left';
is(files_left(), '', 'no file is left of a session that was ended in the middle');
# those of permanent tables that rest leave when a worker comes by
ok($node->poll_query_until('postgres', 'SELECT tables <= 1 FROM rose.stat_memory'), 'nor an entry');

# ---- many sessions, each with more than its memory, beside one that writes a permanent table ----

my @sessions = map { RoseTest::Session->new($node) } 1 .. 8;
my @expected;
foreach my $i (0 .. $#sessions)
{
	my $n = 3000 * ($i + 1);

	$sessions[$i]->start("CREATE TEMP TABLE t (id int PRIMARY KEY, v text) USING rose ON COMMIT PRESERVE ROWS; CREATE TEMP TABLE e (v text) USING rose ON COMMIT DELETE ROWS;"
		  . " INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, $n) g; BEGIN; INSERT INTO e SELECT v FROM t; UPDATE t SET v = 'x' WHERE id % 2 = 0; SAVEPOINT s;"
		  . " DELETE FROM t; ROLLBACK TO s; SELECT count(*) FROM e; COMMIT; SELECT count(*), count(*) FILTER (WHERE v = 'x') FROM t; SELECT count(*) FROM e; SELECT count(*) FROM rose.check('t')");
	push @expected, join("\n", $n, "$n|" . $n / 2, 0, 0);
}
sql("INSERT INTO p SELECT g, repeat('z', 300) FROM generate_series(100001, 120000) g");
is($sessions[$_]->finish, $expected[$_], "session $_") foreach 0 .. $#sessions;
is(sql('SELECT count(p) FROM p'), '60000', 'the permanent table has its rows');
sql("SELECT rose.spill('p')");
is(sql('SELECT used_bytes FROM rose.stat_memory'), '0', 'nothing is in the arena');

# ---- crashes ----

kill 'KILL', $sessions[0]->run('SELECT pg_backend_pid()');
wait_until_up($node);
is(files_left(), '', 'no file is left when a process was killed');
$_->end foreach @sessions;
is(sql('SELECT count(p) FROM p'), '60000', 'the permanent table has its rows');

# what the catalog still has of them is dropped by the next one with that number, or by anybody
my $orphans = sql("SELECT count(*) FROM pg_class WHERE relpersistence = 't'");
cmp_ok($orphans, '>', 0, 'the catalog still has tables');
sql('CREATE TEMP TABLE t (id int PRIMARY KEY, v text) USING rose; INSERT INTO t VALUES (1); SELECT * FROM t');
sql("DO \$\$ DECLARE s text; BEGIN FOR s IN SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pg_temp_%' LOOP EXECUTE format('DROP SCHEMA %I CASCADE', s); END LOOP; END \$\$");
is(sql("SELECT count(*) FROM pg_class WHERE relpersistence = 't'"), '0', 'they can be dropped');

$session = RoseTest::Session->new($node);
$session->run("CREATE TEMP TABLE t (id int PRIMARY KEY, v text) USING rose; INSERT INTO t $rows");
crash_and_restart($node);
$session->end;
is(files_left(), '', 'no file is left when the server was killed');

# ---- a permanent table whose file has the same number ----

# OIDs come round: numbers of files of tables that were rewritten are no relations' OIDs, so the next table that is made gets one of them
sql("DROP SCHEMA IF EXISTS $schema CASCADE");
sql("CREATE TABLE same$_ (id int, v text) USING rose") foreach 1 .. 20;
sql('TRUNCATE ' . join(', ', map { "same$_" } 1 .. 20));
sql("INSERT INTO same$_ SELECT g, 'permanent' FROM generate_series(1, 100) g") foreach 1 .. 20;
sql('CREATE TEMP TABLE makes_the_schema (id int) USING rose');
my $number = sql("SELECT min(pg_relation_filenode(oid)) FROM pg_class WHERE relname LIKE 'same%'");
$node->stop;
command_ok([ 'pg_resetwal', '-o', $number, $node->data_dir ], 'OIDs have come round');
$node->start;
$session = RoseTest::Session->new($node);
$number = $session->run("CREATE TEMP TABLE t (id int, v text) USING rose; SELECT pg_relation_filenode('t')");
my $same = sql("SELECT relname FROM pg_class WHERE relname LIKE 'same%' AND pg_relation_filenode(oid) = $number");
isnt($same, '', "a temporary table has a file of the same number, $number");
$session->run("INSERT INTO t SELECT g, 'temporary' FROM generate_series(1, 7) g; INSERT INTO $same SELECT g, 'permanent' FROM generate_series(101, 110) g");
foreach my $step ('SELECT 1', "SELECT rose.spill('t')", "SELECT rose.spill('$same')", "SELECT rose.merge('t'); SELECT rose.merge('$same')")
{
	$session->run($step);
	is($session->run("SELECT count(*), min(v), max(v) FROM t; SELECT count(*), min(v), max(v) FROM $same"), "7|temporary|temporary\n110|permanent|permanent",
		"both have their own rows: $step");
}
$session->run('DROP TABLE t');
is($session->run("SELECT count(*) FROM $same; SELECT count(*) FROM rose.check('$same')"), "110\n0", 'one is dropped');
$session->end;
is(sql("SELECT count(*) FROM $same"), '110', 'the other one is there');

# ---- more tables than pages of memory, each with next to nothing ----

$session = RoseTest::Session->new($node);
$session->run("DO \$\$ BEGIN FOR i IN 1 .. 300 LOOP EXECUTE format('CREATE TEMP TABLE small%s (id int PRIMARY KEY) USING rose', i); EXECUTE format('INSERT INTO small%s VALUES (1)', i); END LOOP; END \$\$");
cmp_ok($session->run("SELECT sum(bytes) FROM rose.stat_components WHERE kind = 'memtable' AND relname LIKE 'small%'"), '<', 900 * 1024, 'those that have little are spilled, too');
is($session->run("SELECT count(*) FROM small1; SELECT count(*) FROM small300; SELECT count(*) FROM rose.stat_components WHERE relname LIKE 'small%' AND rows = 1"), "1\n1\n300",
	'all rows are there');
$session->end;

# ---- memory of a session that makes and drops many ----

$session = RoseTest::Session->new($node);
my $script = join ';', map { "CREATE TEMP TABLE many (id int PRIMARY KEY, v text) USING rose ON COMMIT DELETE ROWS; INSERT INTO many VALUES (1, 'x'); BEGIN; INSERT INTO many $rows LIMIT 100; COMMIT; DROP TABLE many" } 1 .. 20;
my $memory = "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name IN ('TopMemoryContext', 'rose tree', 'rose temporary tables')";
$session->run($script) foreach 1 .. 5;
my $first = $session->run($memory);
$session->run($script) foreach 1 .. 10;
cmp_ok($session->run($memory), '<', $first + 100_000, 'a session that makes and drops many does not grow');
$session->end;

$node->stop;
done_testing();
