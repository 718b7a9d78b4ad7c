# Local writes to tables of a subscription with durability => 'local'. A batch waits for rows that local transactions hold, and meanwhile serves what does
# not need them; local ones wait for its rows. The last writer wins. Row locks hold; deadlocks end. What resync, copy, rose.verify, rose.repair and a
# change of durability do with local rows.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no durability of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off', 'max_prepared_transactions = 5',
	"deadlock_timeout = '100ms'", "rose.batch_interval = '60s'");

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($sql, $name) = @_; return ok($replica->poll_query_until('postgres', "SELECT $sql"), $name) || diag(down('TABLE rose.stat_subscription'), down('SELECT pid, backend_type, wait_event, query FROM pg_stat_activity')) }
sub waits_for { my ($table, $name) = @_; return until_down("waiting_for = '$table'::regclass FROM rose.stat_subscription", $name) }
sub applied { return wait_for_apply($upstream, $replica) }
sub row { my ($id) = @_; return down("SELECT v, here FROM t WHERE id = $id") }
sub applied_row { applied(); return row($_[0]) }
sub is_sound { my ($name) = @_; return is(join('', map { down("SELECT c::text FROM rose.check('$_') c") } qw(t bare r1 r2)), '', $name) }

sub session
{
	my ($sql) = @_;
	my $session = RoseTest::Session->new($replica);

	$session->run($sql);
	return $session;
}

# The session's transaction holds a row that the upstream changes: that waits.
sub held
{
	my ($name, $begin, $change, $end) = @_;
	my $session = session($begin);

	up($change);
	waits_for('t', "$name: the batch waits");
	$session->run($end);
	$session->end;
	applied();
	return;
}

up('CREATE TABLE t (id int PRIMARY KEY, v int, doc text); ALTER TABLE t ALTER doc SET STORAGE EXTERNAL; CREATE TABLE bare (id int, v int); CREATE TABLE r (id int PRIMARY KEY, v int)');
up("INSERT INTO t SELECT g, 0, repeat(md5(g::text), 100) FROM generate_series(1, 100) g; INSERT INTO bare SELECT g, 0 FROM generate_series(1, 10) g; INSERT INTO r SELECT g, 0 FROM generate_series(1, 20) g");
up('CREATE PUBLICATION p FOR TABLE t, bare, r');
down('CREATE TABLE t (id int PRIMARY KEY, v int, doc text, here int DEFAULT 0) USING rose; CREATE INDEX t_v ON t (v); CREATE INDEX t_both ON t (v, here); CREATE INDEX t_here ON t (here)');
down('CREATE TABLE bare (id int, v int) USING rose; CREATE INDEX bare_v ON bare (v)');
down('CREATE TABLE r (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10) USING rose; CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (10000) USING rose');
stop_points_create($replica);

# --- not before the copy; nor may one be in progress when that begins
my $stopper = session("SELECT stop_at('copy-found', 'wait', 'any', 0, 3)");
my $conninfo = $upstream->connstr('postgres');
down("SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'], durability => 'local')");
wait_for_stop($replica);
like(error_of($replica, 'INSERT INTO t VALUES (1)'), qr/cannot write to table "t" before subscription "s" has copied it/, 'refused before the copy');
like(error_of($replica, 'INSERT INTO r VALUES (1)'), qr/cannot write to table "r1" before subscription "s" has copied it/, '... in a partition, too');
$stopper->run("SELECT go_on('copy-found'), stop_clear()");
$stopper->end;
down("SELECT rose.wait_for_sync('s', $timeout)");

# --- the last writer wins
is(error_of($replica, "INSERT INTO t VALUES (1001, 1), (1002, 1), (1003, 1); UPDATE t SET v = -1 WHERE id IN (1, 2); DELETE FROM t WHERE id IN (3, 4);
	INSERT INTO t VALUES (6, 1), (1004, 1) ON CONFLICT (id) DO UPDATE SET v = excluded.v - 2; COPY t (id) FROM PROGRAM 'echo 1005; echo 1006'"), '', 'writes of all kinds');
up("INSERT INTO t VALUES (1001, 5), (1005, 5); UPDATE t SET v = 5 WHERE id IN (1, 4); DELETE FROM t WHERE id IN (3, 2, 6)");
applied();
is(down('SELECT string_agg(id || \':\' || coalesce(v::text, \'-\'), \' \' ORDER BY id) FROM t WHERE id IN (1, 2, 3, 4, 6) OR id > 1000'), '1:5 1001:5 1002:1 1003:1 1004:1 1005:5 1006:-', 'the last writer wins');
is_sound('sound');
up('DELETE FROM t WHERE id > 1000');
down('DELETE FROM t WHERE id > 1000 OR id IN (3, 4)');
is(down("BEGIN; UPDATE t SET here = 7 WHERE id = 8; UPDATE t SET v = 8 WHERE id = 8; COMMIT; SELECT v, here, length(doc) FROM t WHERE id = 8"), '8|7|3200', 'two changes of one row');
up('UPDATE t SET v = 9 WHERE id = 8');
is(applied_row(8), '9|7', 'what the upstream does not have stays');

# --- a batch waits for versions in progress, of what they become
held('updated', 'BEGIN; UPDATE t SET v = 100 WHERE id = 10', 'UPDATE t SET v = 200 WHERE id = 10', 'COMMIT');
is(row(10), '200|0', 'updated: it comes after');
held('deleted', 'BEGIN; DELETE FROM t WHERE id = 11', 'UPDATE t SET v = 200 WHERE id = 11', 'COMMIT');
is(row(11), '', 'deleted: an update without its large value makes no row');
held('inserted', 'BEGIN; INSERT INTO t VALUES (2000, 1)', "INSERT INTO t VALUES (2000, 2, 'x')", 'COMMIT');
is(row(2000), '2|0', 'inserted: the row is replaced');
held('rolled back', 'BEGIN; UPDATE t SET v = 100 WHERE id = 12', 'DELETE FROM t WHERE id = 12', 'ROLLBACK');
is(row(12), '', 'rolled back: deleted');
held('savepoint', 'BEGIN; UPDATE t SET v = 1 WHERE id = 13; SAVEPOINT a; UPDATE t SET v = 2 WHERE id = 13; ROLLBACK TO a', 'UPDATE t SET v = 200 WHERE id = 13', 'COMMIT');
is(row(13), '200|0', 'savepoint: what is below the one rolled back counts');
held('kept column', 'BEGIN; UPDATE t SET here = here + 1 WHERE id = 14', 'UPDATE t SET v = 200 WHERE id = 14', 'COMMIT');
is(row(14), '200|1', 'a column of ours is read when it is settled');
is(down("SET enable_seqscan = off; SELECT id FROM t WHERE v = 200 AND here = 1"), '14', '... and is in the index so');
held('key changed', 'BEGIN; UPDATE t SET here = here + 1 WHERE id = 15', 'UPDATE t SET id = 2015 WHERE id = 15', 'COMMIT');
is(row(15) . row(2015), '0|1', 'it moves along with its key');
{
	my $session = session("BEGIN; INSERT INTO t SELECT g, 0 FROM generate_series(5000, 9000) g; UPDATE t SET v = 100 WHERE id = 16; SELECT id FROM t WHERE id = 17 FOR UPDATE");

	down("SELECT rose.spill('t')");
	up('UPDATE t SET v = 200 WHERE id = 16');
	waits_for('t', 'spilled: the batch waits');
	down("SELECT rose.merge('t')");
	$session->run('ROLLBACK');
	is(applied_row(16), '200|0', 'spilled: a version in a private run is waited for');
	$session->run("BEGIN; INSERT INTO t SELECT g, 0 FROM generate_series(5000, 9000) g; SELECT id FROM t WHERE id = 17 FOR UPDATE");
	down("SELECT rose.spill('t')");
	up('UPDATE t SET v = 200 WHERE id = 17');
	waits_for('t', 'spilled: a row lock, too');
	$session->run('ROLLBACK');
	is(applied_row(17), '200|0', 'spilled: and then');
	$session->end;
}

# --- not for what is none of its rows
{
	my $session = session('BEGIN; UPDATE t SET v = 1 WHERE id = 20; SAVEPOINT a; UPDATE t SET v = 1 WHERE id = 21; ROLLBACK TO a; INSERT INTO bare VALUES (100, 100); UPDATE bare SET v = -1 WHERE id = 1; UPDATE r SET v = 1 WHERE id = 1');

	up('UPDATE t SET v = 200 WHERE id IN (21, 22); INSERT INTO bare VALUES (101, 101); UPDATE r SET v = 2 WHERE id = 2');
	is(applied_row(21), '200|0', 'other rows are not waited for, nor what was rolled back');
	$session->run('COMMIT');
	$session->end;
	is(row(20) . down('SELECT count(*), sum(v) FROM bare'), '1|012|200', 'both are there');
}

# --- row locks
{
	my $session = session('BEGIN; SELECT id FROM t WHERE id = 30 FOR KEY SHARE');

	up('UPDATE t SET v = 200 WHERE id = 30; UPDATE t SET v = 201 WHERE id = 30');
	is(applied_row(30), '201|0', 'an update does not wait for FOR KEY SHARE');
	like(error_of($replica, "SET lock_timeout = '10ms'; DELETE FROM t WHERE id = 30"), qr/lock timeout/, 'the lock holds above it');
	up('DELETE FROM t WHERE id = 30');
	waits_for('t', 'a DELETE waits');
	$session->run('COMMIT');
	is(applied_row(30), '', 'and comes');
	$session->end;
	held($_, "BEGIN; SELECT id FROM t WHERE id = 31 $_", 'UPDATE t SET v = v + 1 WHERE id = 31', 'COMMIT') foreach 'FOR SHARE', 'FOR NO KEY UPDATE', 'FOR UPDATE';
	is(row(31), '3|0', 'all came');
}

# --- foreign keys
down('CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t) USING rose');
{
	my $session = session('BEGIN; INSERT INTO child VALUES (1, 32)');

	up('UPDATE t SET v = 32 WHERE id = 32');
	is(applied_row(32), '32|0', 'a check of a foreign key does not hold up an update');
	up('DELETE FROM t WHERE id = 32');
	waits_for('t', 'but a DELETE');
	$session->run('COMMIT');
	is(applied_row(32), '', 'which is not held against the key');
	like(error_of($replica, 'INSERT INTO child VALUES (2, 32)'), qr/violates foreign key/, 'local ones are');
	$session->end;
}

# --- prepared transactions, over a crash
down("BEGIN; UPDATE t SET v = 100 WHERE id = 33; SELECT id FROM t WHERE id = 34 FOR UPDATE; PREPARE TRANSACTION 'held'");
up('UPDATE t SET v = 200 WHERE id = 33');
waits_for('t', 'a prepared transaction is waited for');
crash_and_restart($replica);
waits_for('t', 'and after a crash');
down("COMMIT PREPARED 'held'");
is(applied_row(33), '200|0', 'then it comes');

# --- requests while it waits: the batch is given up for what needs that
{
	my $session = session('BEGIN; UPDATE t SET v = 100 WHERE id = 35');

	up('UPDATE t SET v = 200 WHERE id = 35');
	waits_for('t', 'it waits');
	is(error_of($replica, "SET statement_timeout = '60s'; SELECT rose.spill('t'); SELECT rose.pause_table('s', 'r')"), '', 'requests are served');
	up('UPDATE r SET v = 35 WHERE id = 3');
	down("SELECT rose.resume_table('s', 'r')");
	waits_for('t', 'it waits again');
	like(error_of($replica, "SET lock_timeout = '1ms'; SELECT rose.alter_subscription('s', durability => 'upstream')"), qr/lock timeout/, 'another durability has to wait for local writers');
	$session->run('COMMIT');
	is(applied_row(35), '200|0', 'all comes');
	is(down('SELECT v FROM r WHERE id = 3'), '35', '... of the table that was paused, too');

	# one that waits for the worker while it is waited for itself
	$session->run('BEGIN; UPDATE r SET v = 1 WHERE id = 17');
	up('UPDATE r SET v = 2 WHERE id = 17');
	waits_for('r2', 'it waits');
	$session->start("SET rose.read_mode = 'realtime'; SELECT count(*) FROM r; ROLLBACK");
	eval { $session->finish };
	like($session->{err}, qr/cannot wait for the worker of rose subscription "s"/, 'who waits for the batch that waits for him is told');
	$session->end;
}

# --- deadlocks
{
	my $session = session('BEGIN; UPDATE t SET v = 100 WHERE id = 40');

	up('BEGIN; UPDATE t SET v = 200 WHERE id = 41; UPDATE t SET v = 200 WHERE id = 40; COMMIT');
	waits_for('t', 'deadlock: the batch waits');
	$session->start('UPDATE t SET v = 101 WHERE id = 41; COMMIT');
	eval { $session->finish };
	unlike($session->{err}, qr/ERROR(?!:  deadlock detected)/, 'deadlock: it ends');
	$session->end;
	applied();
	is(row(40) . ' ' . row(41), '200|0 200|0', 'deadlock: both come');
}

# --- local writers wait for the batch, and transactions of one snapshot fail
{
	my $stop = session("SELECT stop_at('batch-ends', 'skip', 'worker', 0, 0)");
	my $serial = session('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM t WHERE id = 44');
	my ($update, $insert);

	# rows are written when there are many of them, so they are when the worker is at the next transaction
	up('BEGIN; UPDATE t SET v = 200 WHERE id IN (43, 44); INSERT INTO t VALUES (3000, 1); INSERT INTO t SELECT g FROM generate_series(7000, 7300) g; COMMIT');
	up('INSERT INTO bare VALUES (0, 0)');
	until_down("count(*) > 0 FROM pg_locks JOIN rose.stat_subscription USING (pid) WHERE relation = 'bare'::regclass", 'a batch is open');
	$update = session('SELECT 1');
	$insert = session('SELECT 1');
	$update->start('UPDATE t SET v = v + 1 WHERE id = 43');
	$insert->start('INSERT INTO t VALUES (3000, 2) ON CONFLICT (id) DO UPDATE SET v = t.v + 10');
	$stop->run('SELECT stop_clear()');
	up('INSERT INTO bare VALUES (0, 0)');
	$update->finish;
	$insert->finish;
	is(applied_row(43), '201|0', 'an update is of what the batch has written');
	is(row(3000), '11|0', 'ON CONFLICT sees it');
	$serial->start('UPDATE t SET v = 0 WHERE id = 44');
	eval { $serial->finish };
	like($serial->{err}, qr/could not serialize access/, 'REPEATABLE READ');
	$_->end foreach $stop, $serial, $update, $insert;
}
is_sound('sound');

# --- between the look and the write
{
	my $other = session('BEGIN; UPDATE t SET v = 1 WHERE id = 50');
	my $stop = session("SELECT stop_at('blind-looked', 'wait', 'worker')");
	my $copy;

	up("INSERT INTO t VALUES (3100, 200)");
	wait_for_stop($replica);
	$copy = session("BEGIN; COPY t (id, v) FROM PROGRAM 'echo 3101,1; echo 3100,1' (FORMAT csv)");
	$stop->run("SELECT go_on('blind-looked')");
	waits_for('t', 'a key that comes after the look is waited for');
	$copy->run('COMMIT');
	is(applied_row(3100), '200|0', '... and then');
	$other->run('ROLLBACK');
	$_->end foreach $other, $stop, $copy;
}
# an entry of a lock is taken over in place, with no number of its own
down('SELECT id FROM r WHERE id = 18 FOR UPDATE');
{
	my $stop = session("SELECT stop_at('lock-looked', 'wait', 'client'), stop_at('batch-ends', 'skip', 'worker', 0, 0)");
	my $locker = session('SELECT 1');

	$locker->start('BEGIN; SELECT v FROM r WHERE id = 18 FOR UPDATE');
	wait_for_stop($replica);
	up("BEGIN; UPDATE r SET v = 200 WHERE id = 18; INSERT INTO r SELECT g FROM generate_series(6000, 6300) g; COMMIT");
	up('INSERT INTO bare VALUES (300, 300)');
	until_down("count(*) > 0 FROM pg_locks JOIN rose.stat_subscription USING (pid) WHERE relation = 'bare'::regclass", 'the batch has written the row, as nobody holds it');
	$stop->run("SELECT go_on('lock-looked')");
	until_down("count(*) > 0 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted", 'who would lock it waits for the batch');
	$stop->run('SELECT stop_clear()');
	up('INSERT INTO bare VALUES (0, 0)');
	is($locker->finish, '200', '... and has its row');
	$locker->run('COMMIT');
	$_->end foreach $stop, $locker;
}

# --- a partition, and a table without key
{
	my $session = session('BEGIN; UPDATE r SET v = 1 WHERE id = 15');

	up('UPDATE r SET v = 2 WHERE id = 15');
	waits_for('r2', 'a partition');
	$session->run('COMMIT');
	$session->end;
	applied();
	is(down('SELECT v FROM r WHERE id = 15'), '2', '... comes');
}
down('DELETE FROM bare WHERE id > 5; UPDATE bare SET v = 4 WHERE id = 4');
up('INSERT INTO bare VALUES (200, 200)');
applied();
is(down('SELECT sum(id), sum(v) FROM bare'), '215|203', 'without key');
is_sound('sound');

# --- a crash: what was committed here is there, with what it was made of
up('UPDATE t SET v = 300 WHERE id = 45');
applied();
down('UPDATE t SET v = v + 1, here = 5 WHERE id = 45; INSERT INTO t VALUES (3001, 3001, NULL, 3001)');
crash_and_restart($replica);
is(row(45) . ' ' . row(3001), '301|5 3001|3001', 'after a crash');
up('UPDATE t SET v = 400 WHERE id = 45');
is(applied_row(45), '400|5', 'it goes on');

# --- another durability
down("SELECT rose.alter_subscription('s', durability => 'upstream')");
foreach my $write ('INSERT INTO t VALUES (5000)', 'UPDATE r SET v = 1', 'DELETE FROM bare')
{
	like(error_of($replica, $write), qr/because a subscription feeds it/, "refused: $write");
}
up('UPDATE t SET v = 401 WHERE id = 45');
is(applied_row(45) . ' ' . row(3001), '401|5 3001|3001', 'local rows are there');
like(error_of($replica, 'UPDATE t SET v = 1'), qr/because a subscription feeds it/, 'refused when the worker has come');
down("SELECT rose.alter_subscription('s', durability => 'local')");
# the file is the worker's to change, when it comes to it
up('UPDATE t SET v = 402 WHERE id = 45');
is(applied_row(45), '402|5', 'and back');
down('UPDATE t SET v = 403 WHERE id = 45');
is(row(45), '403|5', 'local again');
like(error_of($replica, 'TRUNCATE t'), qr/subscription/, 'TRUNCATE stays refused');
is_sound('sound');

# --- differences
applied();
cmp_ok(down("SELECT count(*) FROM rose.verify('s', '{t}')"), '>', 1, 'local rows are differences');
down("SELECT count(*) FROM rose.repair('s', 't')");
is(row(3001), '', 'rose.repair removes them');
is(row(45), '402|5', '... and sets back what is changed');
down('INSERT INTO r VALUES (500, 0), (5, 0) ON CONFLICT DO NOTHING; UPDATE r SET v = -1');
down("SELECT rose.alter_subscription('s', resync => 'r')");
down("SELECT rose.wait_for_sync('s', $timeout)");
applied();
is(table_hash($replica, 'r'), table_hash($upstream, 'r'), 'a resync removes them, too');
is_sound('sound');

$replica->stop;
$upstream->stop;
done_testing();
