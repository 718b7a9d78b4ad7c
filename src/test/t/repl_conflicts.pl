# count_conflicts: its values, where it is kept and shown; who sees keys; the line in the log; what a batch that is given up has found; rows that local transactions hold; what "certain" finds
# and what it does not; tables without key, a table's failed change, skip_lsn, shards.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in counts no conflicts' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off', 'max_prepared_transactions = 5');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub applied { return wait_for_apply($upstream, $replica) }
sub counts { my ($table) = @_; applied(); return down("SELECT concat_ws(' ', confl_insert_exists, confl_update_exists, confl_update_missing, confl_delete_missing) FROM rose.stat_subscription_tables WHERE relname = '$table'") }
sub alter { my ($options) = @_; return down("SELECT rose.alter_subscription('s', $options)") }
sub option { return down("SELECT count_conflicts || ' ' || coalesce((SELECT option_value FROM pg_options_to_table((SELECT srvoptions FROM pg_foreign_server WHERE srvname = 's')) WHERE option_name = 'count_conflicts'), '-') FROM rose.stat_subscription") }

# What the upstream does without saying so.
sub silently
{
	my ($sql) = @_;

	up("ALTER PUBLICATION p SET (publish = '')");
	up($sql);
	up("ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')");
	return;
}

my @tables = qw(t other bare pair);
up('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY, v int); CREATE TABLE bare (id int, v int); CREATE TABLE pair ("A" int, b text, v int, PRIMARY KEY ("A", b))');
up("INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 20) g") foreach qw(t other bare);
up("INSERT INTO pair SELECT g, 'text ' || g, 0 FROM generate_series(1, 20) g");
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', @tables));
down('CREATE ROLE owner; CREATE ROLE reader; CREATE ROLE stats IN ROLE pg_read_all_stats');
down('CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; CREATE TABLE other (id int PRIMARY KEY, v int) USING rose; CREATE TABLE bare (id int, v int) USING rose; CREATE TABLE pair ("A" int, b text, v int, here int, PRIMARY KEY ("A", b)) USING rose');
down('ALTER TABLE t OWNER TO owner; ALTER TABLE pair OWNER TO owner; GRANT SELECT ON t, pair TO reader');

# --- the option
my $conninfo = $upstream->connstr('postgres');
like(error_of($replica, "SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'], count_conflicts => 'some')"), qr/invalid value for count_conflicts: "some"/, 'no such value');
like(error_of($replica, "CREATE SERVER x FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', count_conflicts 'some')"), qr/invalid value for count_conflicts: "some"/, '... out of a dump');
subscribe($upstream, $replica);
is(option(), 'off -', 'off by default');
silently('INSERT INTO t VALUES (100, 1)');
up('DELETE FROM t WHERE id = 100');
is(counts('t'), '0 0 0 0', '... and nothing is counted');
alter("count_conflicts => 'exact'");
is(option(), 'exact exact', 'exact');
like(error_of($replica, "SELECT rose.alter_subscription('s', count_conflicts => '')"), qr/invalid value for count_conflicts: ""/, 'nor is that one');
alter("streaming => false");
is(option(), 'exact exact', 'other options leave it');
like(scalar(qx{pg_dump -s -d "@{[$replica->connstr('postgres')]}"}), qr/count_conflicts 'exact'/, 'a dump has it');

# --- of each kind
silently('INSERT INTO t VALUES (101, 1), (102, 1), (103, 1); DELETE FROM t WHERE id IN (1, 2)');
up('DELETE FROM t WHERE id = 101');
is(counts('t'), '0 0 0 1', 'delete_missing');
up('UPDATE t SET v = 2 WHERE id = 102');
is(counts('t'), '0 0 1 1', 'update_missing');
up('UPDATE t SET v = 3 WHERE id = 102');
is(counts('t'), '0 0 1 1', '... makes the row, and then it is there');
up('INSERT INTO t VALUES (1, 5)');
is(counts('t'), '1 0 1 1', 'insert_exists');
up('UPDATE t SET id = 2 WHERE id = 102');
is(counts('t'), '1 1 1 1', 'update_exists');
is(down('SELECT count(*) FROM t WHERE id IN (2, 102)'), 1, '... takes the row\'s place');
silently('DELETE FROM t WHERE id = 3');
up('UPDATE t SET id = 3 WHERE id = 103');
is(counts('t'), '1 2 2 1', 'of a missing row to the key of another one: both');
up('BEGIN; DELETE FROM t WHERE id = 5; INSERT INTO t VALUES (5, 5); DELETE FROM t WHERE id = 5; INSERT INTO t VALUES (5, 6); UPDATE t SET id = 500 WHERE id = 5; INSERT INTO t VALUES (5, 7); UPDATE t SET v = v + 1 WHERE id IN (5, 500); DELETE FROM t WHERE id = 500; COMMIT');
is(counts('t'), '1 2 2 1', 'of what a transaction does to its own rows none');
up('INSERT INTO bare VALUES (1, 1), (1, 1)');
is(counts('bare'), '0 0 0 0', 'without key there is nothing to look for');

# --- the first and the last, and who sees keys
silently('INSERT INTO pair VALUES (50, \'it\'\'s long \' || repeat(\'x\', 200), 1), (51, \'y\', 1)');
up('UPDATE pair SET v = 2 WHERE "A" = 51');
is(counts('pair'), '0 0 1 0', 'of two columns');
up('UPDATE pair SET v = 3 WHERE "A" = 51');
is(counts('pair'), '0 0 2 0', 'what has not all values of the row makes none');
up('BEGIN; UPDATE pair SET v = 4 WHERE "A" = 51; UPDATE pair SET v = 5 WHERE "A" = 51; COMMIT');
down("SELECT rose.spill('pair')");
up('UPDATE pair SET v = 6 WHERE "A" = 51');
is(counts('pair'), '0 0 5 0', '... nor does more of it, or on disk');
up('DELETE FROM pair WHERE "A" = 50');
applied();
my $ends = "SELECT concat_ws(' ', first_conflict, first_conflict_key), concat_ws(' ', last_conflict, left(last_conflict_key, 30)), length(last_conflict_key), first_conflict_lsn < last_conflict_lsn, first_conflict_time < last_conflict_time FROM rose.stat_subscription_conflicts WHERE relname = 'pair'";
is(down($ends), "update_missing (A, b)=(51, y)|delete_missing (A, b)=(50, it's long xxxxxxxx|95|t|t", 'the first and the last');
is(down("SELECT concat_ws(' ', first_conflict, first_conflict_key, last_conflict, last_conflict_key) FROM rose.stat_subscription_conflicts WHERE relname = 't'"), 'delete_missing (id)=(101) update_exists (id)=(3)', '... of the other table');
is(down("SELECT count(*) FROM rose.stat_subscription_conflicts WHERE relname IN ('other', 'bare')"), 0, 'tables without have no row');
my $keys = "SELECT string_agg(relname || ' ' || last_conflict || ' ' || coalesce(left(last_conflict_key, 12), '-'), ', ' ORDER BY relname) FROM rose.stat_subscription_conflicts";
is(down("SET ROLE owner; $keys"), 'pair delete_missing (A, b)=(50, , t update_exists (id)=(3)', 'the owner sees keys');
is(down("SET ROLE stats; $keys"), 'pair delete_missing (A, b)=(50, , t update_exists (id)=(3)', '... and pg_read_all_stats');
is(down("SET ROLE reader; $keys"), 'pair delete_missing -, t update_exists -', 'who may read only does not');
down('ALTER TABLE pair ENABLE ROW LEVEL SECURITY');
is(down("SET ROLE stats; $keys"), 'pair delete_missing -, t update_exists (id)=(3)', 'nor who row security applies to');
down('ALTER TABLE pair DISABLE ROW LEVEL SECURITY');

# --- the log: a line for each table, and not again within a minute
my $log = slurp_file($replica->logfile);
my @lines = $log =~ /conflict detected on relation "(\S+)": conflict=(\w+)/g;
is("@lines", 'public.t delete_missing public.pair update_missing', 'the log has one line a table');
like($log, qr/Key \(id\)=\(101\), changed by the upstream transaction committed at \S+\.  The change was applied\.  It is the last of 1 conflicts/, '... with the key');

# --- a batch that is given up: its conflicts, some of which were written, come again, and count once
silently('INSERT INTO t SELECT g, 1 FROM generate_series(400, 600) g');
applied();
my $before = counts('t');
down('ALTER TABLE other ADD CHECK (v <> 13)');
up('BEGIN; DELETE FROM t WHERE id BETWEEN 400 AND 599; UPDATE t SET v = 2 WHERE id = 600; UPDATE other SET v = 13 WHERE id = 1; COMMIT');
$replica->poll_query_until('postgres', "SELECT state = 'blocked' FROM rose.stat_subscription") or die 'it goes on';
is(down("SELECT concat_ws(' ', confl_insert_exists, confl_update_exists, confl_update_missing, confl_delete_missing) FROM rose.stat_subscription_tables WHERE relname = 't'"), $before, 'what was given up counts nothing');
alter("skip_lsn => '" . down("SELECT error_lsn FROM rose.stat_subscription_tables WHERE relname = 'other'") . "'");
is(counts('t'), '1 2 3 201', '... and once when it comes again');
is(counts('other'), '0 0 0 0', 'what is passed over counts nothing');
down('ALTER TABLE other DROP CONSTRAINT other_v_check');
down('SELECT pg_terminate_backend(pid) FROM rose.stat_subscription');
up('INSERT INTO t VALUES (300, 1)');
is(counts('t'), '1 2 3 201', 'another worker goes on counting');
# ... and one that is cut, for what comes before a TRUNCATE is made durable first
silently('INSERT INTO t SELECT g, 1 FROM generate_series(10000, 10199) g');
alter('enabled => false');
up('DELETE FROM t WHERE id >= 10000');
up('TRUNCATE other');
alter('enabled => true');
is(counts('t'), '1 2 3 401', '... and what comes again after a cut counts once');

# --- certain ones: what no filter has
alter("count_conflicts => 'certain'");
down("SELECT rose.spill('t'); SELECT rose.merge('t')");
silently('INSERT INTO t SELECT g, 1 FROM generate_series(1000, 1999) g');
up('UPDATE t SET v = 2 WHERE id BETWEEN 1000 AND 1999');
my (undef, undef, $updates) = split / /, counts('t');
ok($updates - 3 > 900 && $updates - 3 <= 1000, 'certain: most of a thousand that are missing') || diag($updates);
silently('INSERT INTO t SELECT g, 1 FROM generate_series(-999, 0) g');
up('DELETE FROM t WHERE id BETWEEN -999 AND 0');
is((split / /, counts('t'))[3], 1401, '... and all of those that are out of the range of keys');
up('UPDATE t SET v = 3 WHERE id BETWEEN 1000 AND 1999');
is((split / /, counts('t'))[2], $updates, 'what they have made is in memory');
silently('DELETE FROM t WHERE id BETWEEN 1500 AND 1999');
down("SELECT rose.spill('t')");
up('INSERT INTO t SELECT g, 4 FROM generate_series(1500, 2100) g');
is((split / /, counts('t'))[0], 501, 'rows that are there: all, on disk, too');

# --- local writes
down("SELECT rose.spill('t')");
alter("durability => 'local', count_conflicts => 'exact'");
down('DROP TABLE IF EXISTS since; CREATE TABLE since AS SELECT confl_insert_exists i, confl_update_missing u, confl_delete_missing d FROM rose.stat_subscription_tables WHERE relname = \'t\'');
sub since { applied(); return down("SELECT concat_ws(' ', confl_insert_exists - i, confl_update_missing - u, confl_delete_missing - d) FROM rose.stat_subscription_tables, since WHERE relname = 't'") }

# The local transaction holds the row; the batch waits for it.
sub held
{
	my ($name, $local, $remote, $end, $expected) = @_;
	my $session = RoseTest::Session->new($replica);

	$session->run("BEGIN; $local");
	up($remote);
	$replica->poll_query_until('postgres', "SELECT waiting_for = 't'::regclass FROM rose.stat_subscription") or die 'it does not wait';
	$session->run($end);
	$session->end;
	return is(since(), $expected, $name);
}

up('UPDATE t SET v = 10 WHERE id = 10');
is(since(), '0 0 0', 'none yet');
held('a row that comes while it is waited for', 'INSERT INTO t VALUES (3000, 1)', 'INSERT INTO t VALUES (3000, 2)', 'COMMIT', '1 0 0');
held('... and one that is rolled back', 'INSERT INTO t VALUES (3001, 1)', 'INSERT INTO t VALUES (3001, 2)', 'ROLLBACK', '1 0 0');
held('... to a savepoint', 'SAVEPOINT a; INSERT INTO t VALUES (3002, 1); ROLLBACK TO a; UPDATE t SET v = 0 WHERE id = 11', 'BEGIN; INSERT INTO t VALUES (3002, 2); UPDATE t SET v = 7 WHERE id = 11; COMMIT', 'COMMIT', '1 0 0');
held('a row that goes', 'DELETE FROM t WHERE id = 12', 'UPDATE t SET v = 5 WHERE id = 12', 'COMMIT', '1 1 0');
held('... and does not after all', 'DELETE FROM t WHERE id = 13', 'DELETE FROM t WHERE id = 13', 'ROLLBACK', '1 1 0');
held('... of several', 'DELETE FROM t WHERE id IN (14, 16)', 'DELETE FROM t WHERE id BETWEEN 14 AND 17', 'COMMIT', '1 1 2');
held('row locks are no rows', 'SELECT id FROM t WHERE id = 18 FOR UPDATE', 'DELETE FROM t WHERE id = 18', 'COMMIT', '1 1 2');
up('INSERT INTO t VALUES (18, 1)');
is(since(), '1 1 2', '... when they have ended');
down("BEGIN; DELETE FROM t WHERE id = 19; PREPARE TRANSACTION 'x'");
up('UPDATE t SET v = 5 WHERE id = 19');
$replica->poll_query_until('postgres', "SELECT waiting_for = 't'::regclass FROM rose.stat_subscription") or die 'it does not wait';
down("COMMIT PREPARED 'x'");
is(since(), '1 2 2', 'a prepared transaction');
down('DELETE FROM t WHERE id IN (20, 10)');
down("SELECT rose.spill('t')");
up('UPDATE t SET v = 5 WHERE id = 20');
is(since(), '1 3 2', 'exact: what was deleted here, on disk');
alter("count_conflicts => 'certain'");
up('UPDATE t SET v = 5 WHERE id = 10');
is(since(), '1 3 2', 'certain: that is not found');
down('DELETE FROM t WHERE id = 9');
up('DELETE FROM t WHERE id = 9');
is(since(), '1 3 3', '... but in memory it is');
silently('INSERT INTO t VALUES (-2000, 1)');
up(join '; ', 'BEGIN', ('UPDATE t SET v = v + 1 WHERE id = 8') x 100, 'COMMIT');
applied();
up(join '; ', 'BEGIN', ('UPDATE t SET v = v + 1 WHERE id = 8') x 30, 'DELETE FROM t WHERE id = -2000', ('UPDATE t SET v = v + 1 WHERE id = 8') x 30, 'COMMIT');
is(since(), '1 3 4', 'among changes of a key that comes again and again');
down("SELECT * FROM rose.repair('s', 't', timeout_seconds => $timeout, max_keys => 10000)");
is(since(), '1 3 4', 'rose.repair counts nothing');
is(down("SELECT c::text FROM rose.check('t') c"), '', 'sound');
down("SELECT rose.drop_subscription('s')");

# --- shards: each in a partition, with a constant in its key
down('DROP TABLE t, other, bare, pair; CREATE TABLE t (shard int, id int, v int, PRIMARY KEY (shard, id)) PARTITION BY LIST (shard); CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1) USING rose; CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2) USING rose');
up('DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE t');
subscribe($upstream, $replica, undef, q{tables => '{"public.t": "public.t_1"}'}, q{constants => '{"shard": 1}'}, "count_conflicts => 'exact'");
silently('INSERT INTO t VALUES (-5, 1); DELETE FROM t WHERE id = 15');
up('DELETE FROM t WHERE id = -5; INSERT INTO t VALUES (4000, 1), (4001, 1)');
is(counts('t_1'), '0 0 0 1', 'a shard');
is(down('SELECT last_conflict_key FROM rose.stat_subscription_conflicts'), '(shard, id)=(1, -5)', '... with its constant');
down("SELECT rose.drop_subscription('s')");

$replica->stop;
$upstream->stop;
done_testing();
