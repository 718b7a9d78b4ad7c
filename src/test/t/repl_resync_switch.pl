
# A table that is copied again shows its old rows until the new ones are there, and then these at once: to those who read, to
# snapshots of before, with indexes, partitions and foreign keys, whatever ends in between.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'");
my $rows = 3000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub state_of { return down("SELECT state FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }
sub old_rows_of { return down("SELECT old_rows_lsn IS NOT NULL FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }
sub phase_of { return down("SELECT phase FROM rose.stat_copy_progress WHERE relname = '$_[0]'") }
sub synced { return down("SELECT rose.wait_for_sync('s', $timeout)") }
sub resync { return down("SELECT rose.alter_subscription('s', resync => '$_[0]')") }
sub same { my ($what, @tables) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }
sub is_sound { return is(down("SELECT count(*) FROM rose.check('$_[0]')"), 0, "$_[1]: nothing is wrong with it") }

# Of a table without key, rows are added only; the upstream may be at copying it, so nothing may be truncated.
sub replaced_upstream
{
	my ($table, $round) = @_;
	my $delete = $table eq 'nokey' ? '' : "DELETE FROM $table;";

	return up("BEGIN; $delete INSERT INTO $table SELECT i, i % 100, 'round $round' FROM generate_series(1, " . ($rows + $round) . ") i; COMMIT");
}

my $columns = '(id int, k int, v text, PRIMARY KEY (id))';
foreach my $run (\&up, \&down)
{
	my $rose = $run == \&down ? ' USING rose' : '';

	$run->("CREATE TABLE plain $columns$rose; CREATE TABLE other $columns$rose; CREATE TABLE nokey (id int, k int, v text)$rose");
	$run->("CREATE TABLE parted $columns" . ($run == \&down ? ' PARTITION BY RANGE (id)' : ''));
}
down("CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (1) TO (1000) USING rose");
down("CREATE TABLE parted_2 (v text, id int NOT NULL, gone int, k int) USING rose; ALTER TABLE parted_2 DROP gone");
down("ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (1000) TO (100000)");
down("CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (100000) TO (200000) USING rose");
down("CREATE INDEX plain_k ON plain (k); CREATE INDEX plain_x ON plain ((k + id), v); CREATE INDEX parted_k ON parted (k); CREATE INDEX nokey_k ON nokey (k)");
my @tables = qw(plain other nokey parted);
up("CREATE PUBLICATION p FOR TABLE plain, other, nokey, parted");
replaced_upstream($_, 0) foreach @tables;
subscribe($upstream, $replica);
down('CREATE TABLE child (id int PRIMARY KEY, plain int REFERENCES plain); INSERT INTO child SELECT i, i FROM generate_series(1, 100) i');
same('all is there', @tables);

# --- old rows, then new ones, and nothing else
my $control = RoseTest::Session->new($replica);
foreach my $table (@tables)
{
	my $old = table_hash($replica, $table);
	my $n = down("SELECT count(*) FROM $table");

	$control->run("SELECT stop_at('copy-reading', 'wait', 'worker'), stop_at('replace-ready', 'wait', 'worker'), stop_at('replace-switched', 'wait', 'worker')");
	resync($table);
	wait_for_stop($replica);
	is(state_of($table), 'copying', "$table: it is copied");
	is(old_rows_of($table), 't', "$table: its rows are called old");
	is(table_hash($replica, $table), $old, "$table: they are there while it is read");
	replaced_upstream($table, 1);
	up("INSERT INTO other VALUES (-1, 0, 'beside')") if $table eq 'plain';
	like(error_of($replica, "INSERT INTO $table VALUES (5, 0, 'local')"), qr/because a subscription feeds it/, "$table: nobody else writes to it");
	like(error_of($replica, "SELECT rose.wait_for_lsn('s', pg_lsn '0/1', 0, '$table')"), qr/timed out/, "$table: who waits for a position is not told that it has it");
	$control->run("SELECT go_on('copy-reading')");
	wait_for_stop($replica);
	is(phase_of($table), 'switching', "$table: all is read");
	is(table_hash($replica, $table), $old, "$table: they are there when all is read");
	my $reader = RoseTest::Session->new($replica);
	$reader->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM child");
	my $long = RoseTest::Session->new($replica);
	$long->run("BEGIN; DECLARE c CURSOR FOR SELECT id FROM $table; FETCH 1 FROM c");
	$control->run("SELECT go_on('replace-ready')");
	# others do not wait long for one that waits
	is(down("SELECT count(*) FROM $table"), $n, "$table: read beside somebody who uses it") foreach 1 .. 3;
	is($long->run("MOVE ALL FROM c; COMMIT"), '', "$table: he reads to the end");
	$long->end;
	wait_for_stop($replica);
	my $after = RoseTest::Session->new($replica);
	$after->start("SELECT count(*) FROM $table");
	$control->run("SELECT go_on('replace-switched')");
	is($after->finish, $n, "$table: who waits for the switch reads what was copied");
	$after->end;
	like(error_of($replica, 'SELECT 1') . eval { $reader->run("SELECT count(*) FROM $table"); 'no error' } . $@, qr/could not serialize access because table ".*" was copied anew/,
		"$table: a snapshot of before gets an error");
	$reader->end;
	synced();
	is(state_of($table), 'ready', "$table: it is ready");
	is(old_rows_of($table), 'f', "$table: its rows are current");
	same("$table: as upstream", @tables);
	is(down("SET enable_seqscan = off; SELECT count(*) FROM $table WHERE k = 7"), up("SELECT count(*) FROM $table WHERE k = 7"), "$table: its indexes have the new rows");
	is_sound($_, $table) foreach $table eq 'parted' ? qw(parted_1 parted_2 parted_3) : ($table);
	replaced_upstream($table, 0);
	same("$table: and its changes are applied", @tables);
}
is(down("SELECT count(*) FROM pg_class WHERE relname ~ '^pg_temp_[0-9]'"), 0, 'nothing is left behind');
is(down("SELECT state FROM rose.stat_subscription_tables WHERE relname = 'other'"), 'ready', 'others go on');

# --- a snapshot of before, by an index, by key, for an aggregate, and by a function of a statement that began before
replaced_upstream('plain', 2);
my $snapshot = RoseTest::Session->new($replica);
my $exported = $snapshot->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot()");
wait_for_apply($upstream, $replica);
resync('plain');
synced();
foreach my $query ('SELECT * FROM plain WHERE id = 5', 'SELECT k FROM plain WHERE k = 5', 'SELECT sum(k), count(*) FROM plain', 'SELECT * FROM plain WHERE id IN (1, 2, 3)', 'SELECT count(*) FROM plain',
	'SELECT * FROM plain ORDER BY id DESC LIMIT 3', 'SELECT c.id FROM child c JOIN plain p ON p.id = c.plain', 'SELECT id FROM plain TABLESAMPLE SYSTEM (100)')
{
	foreach my $settings ('', 'SET LOCAL enable_seqscan = off; ', 'SET LOCAL rose.enable_aggregate = off; SET LOCAL rose.enable_scan = off; ')
	{
		like(error_of($replica, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$exported'; $settings$query"), qr/40001|was copied anew after the snapshot was taken/, "an error: $settings$query");
	}
}
$snapshot->run('COMMIT');
$snapshot->end;
is(down('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM plain; COMMIT'), $rows + 2, 'none for who comes later');

# --- a snapshot of before, by indexes that are made after the switch: what the new rows have not has no entry there
down('CREATE INDEX plain_v ON plain (v)');
replaced_upstream('plain', 3);
wait_for_apply($upstream, $replica);
my $by_index = RoseTest::Session->new($replica);
$exported = $by_index->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot()");
replaced_upstream('plain', 2);
wait_for_apply($upstream, $replica);
resync('plain');
synced();
foreach my $made ('REINDEX INDEX plain_v', 'DROP INDEX plain_v; CREATE INDEX plain_v ON plain (v)', 'REINDEX TABLE plain')
{
	down($made);
	foreach my $what ('v', 'id')
	{
		like(error_of($replica, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$exported'; SET LOCAL enable_seqscan = off;"
			. " SET LOCAL rose.enable_aggregate = off; SET LOCAL rose.enable_scan = off; SELECT $what FROM plain WHERE v = 'round 3'"), qr/was copied anew after the snapshot was taken/, "an error after $made: $what");
	}
}
$by_index->run('COMMIT');
$by_index->end;
down('DROP INDEX plain_v');

# --- the copy is cancelled, ended, paused: old rows stay
foreach my $how ('pg_cancel_backend', 'pg_terminate_backend')
{
	$control->run("SELECT stop_at('replace-switched', 'wait', 'worker')");
	resync('plain');
	wait_for_stop($replica);
	my $reader = RoseTest::Session->new($replica);
	$reader->start("SELECT count(*) FROM plain");
	down("SELECT $how(pid) FROM pg_stat_activity WHERE backend_type = 'rose replication copier'");
	# it waits for the control session's lock, which a cancel ends
	is($reader->finish, $rows + 2, "$how: old rows stay");
	$reader->end;
	$control->run("SELECT go_on('replace-switched')");
	synced();
	same("$how: it is copied after all", 'plain');
}
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('plain');
wait_for_stop($replica);
down("SELECT rose.pause_table('s', 'plain')");
$control->run("SELECT go_on('replace-ready')");
is(state_of('plain') . old_rows_of('plain'), 'pausedt', 'paused, with old rows');
is(down('SELECT count(*) FROM plain'), $rows + 2, '... which are there');
resync('plain');
synced();
same('and copied', 'plain');

# --- an error of the copy: old rows stay, and the state says so
down("ALTER TABLE plain ADD CONSTRAINT positive CHECK (id > -5) NOT VALID");
up("INSERT INTO plain VALUES (-10, 0, 'not here')");
until_down("state = 'failed' FROM rose.stat_subscription_tables WHERE relname = 'plain'", 'a change fails');
resync('plain');
until_down("state = 'error' AND old_rows_lsn IS NOT NULL AND last_error ~ 'positive' FROM rose.stat_subscription_tables WHERE relname = 'plain'", 'so does the copy');
is(down('SELECT count(*) FROM plain'), $rows + 2, 'old rows stay');
like(error_of($replica, "INSERT INTO plain VALUES (-1, 0, 'local')"), qr/because a subscription feeds it/, 'and nobody writes to them');
down("ALTER TABLE plain DROP CONSTRAINT positive; SELECT rose.alter_subscription('s')");
synced();
same('until it succeeds', 'plain');
up("DELETE FROM plain WHERE id < 0");

# --- two rows of one key: the error names the key, as in a table that was empty
up("ALTER TABLE other REPLICA IDENTITY FULL; ALTER TABLE other DROP CONSTRAINT other_pkey; INSERT INTO other VALUES (7, 0, 'twice')");
resync('other');
until_down("state = 'error' AND last_error ~ 'could not load rows into \"other\" because a key is duplicated' FROM rose.stat_subscription_tables WHERE relname = 'other'", 'a key that comes twice');
up("DELETE FROM other WHERE v = 'twice'; ALTER TABLE other ADD PRIMARY KEY (id); ALTER TABLE other REPLICA IDENTITY DEFAULT");
down("SELECT rose.alter_subscription('s')");
synced();
same('and once', 'other');

# --- somebody who waits to alter the table does not keep the copy from ending, nor it him
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('plain');
wait_for_stop($replica);
my $altering = RoseTest::Session->new($replica);
$altering->start("ALTER TABLE plain ADD local int");
until_down("count(*) > 0 FROM pg_locks WHERE relation = 'plain'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted", 'somebody waits to alter it');
$control->run("SELECT go_on('replace-ready')");
$altering->finish;
$altering->end;
synced();
same('both were done', 'other', 'nokey');
is(down('SELECT count(*), count(local) FROM plain'), up("SELECT count(*) || '|0' FROM plain"), 'and the rows are there');
down('ALTER TABLE plain DROP local');

# --- nor does somebody who reads one partition, and waits for what the copy has of another
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('parted');
wait_for_stop($replica);
my $crossing = RoseTest::Session->new($replica);
# it is not he who finds the deadlock
$crossing->run("SET deadlock_timeout = '1h'; BEGIN; SELECT count(*) FROM parted_1");
$crossing->start('LOCK TABLE parted_2 IN ACCESS EXCLUSIVE MODE; COMMIT');
until_down("count(*) > 0 FROM pg_locks WHERE relation = 'parted_2'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted", 'somebody waits for a partition');
$control->run("SELECT go_on('replace-ready')");
until_down("count(*) = 0 FROM pg_locks WHERE relation = 'parted_2'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted", 'the copy gives way');
$crossing->finish;
$crossing->end;
synced();
same('and is made again', 'parted');

# --- partitions that come while it is copied: it begins anew
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('parted');
wait_for_stop($replica);
down("CREATE TABLE parted_4 $columns USING rose; INSERT INTO parted_4 VALUES (250001, 9, 'of nobody')");
my $attach = 'ALTER TABLE parted ATTACH PARTITION parted_4 FOR VALUES FROM (200000) TO (300000)';
like(error_of($replica, $attach), qr/cannot attach table "parted_4", which has rows, to table "parted", which is to be copied again/, 'rows of nobody do not go with the old ones');
is(down('SELECT v FROM parted_4'), 'of nobody', '... and are there');
down("TRUNCATE parted_4; $attach");
$control->run("SELECT go_on('replace-ready')");
synced();
up("INSERT INTO parted VALUES (250000, 1, 'new partition')");
same('as partitions are then', 'parted');
is(down("SELECT count(*) FROM parted_4"), 1, 'in the new one, too');

# --- the upstream goes away, or truncates the table, or drops it
$control->run("SELECT stop_at('copy-reading', 'wait', 'worker')");
resync('plain');
wait_for_stop($replica);
my $n = down('SELECT count(*) FROM plain');
crash($upstream);
$control->run("SELECT go_on('copy-reading')");
until_down("state = 'init' FROM rose.stat_subscription_tables WHERE relname = 'plain'", 'the upstream is away');
is(down('SELECT count(*) FROM plain'), $n, 'old rows stay');
RoseTest::poll_start($upstream);
synced();
same('it is back', @tables);
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('plain');
wait_for_stop($replica);
up('TRUNCATE plain; INSERT INTO plain VALUES (1, 1, 1)');
is(down('SELECT count(*) FROM plain'), $n, 'it is truncated: old rows stay');
$control->run("SELECT go_on('replace-ready')");
synced();
same('and go', @tables);
replaced_upstream('plain', 0);

# --- dropped here in the middle, and the subscription disabled or dropped
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('nokey');
wait_for_stop($replica);
$n = down('SELECT count(*) FROM nokey');
down("SELECT rose.alter_subscription('s', enabled => false)");
until_down("count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rose replication copier'", 'disabled: the copy ends');
$control->run("SELECT go_on('replace-ready')");
is(down('SELECT count(*) FROM nokey'), $n, 'disabled: old rows stay');
is(old_rows_of('nokey'), 't', 'and are called old');
down("SELECT rose.alter_subscription('s', enabled => true)");
synced();
same('enabled', @tables);

# --- the worker copies itself
down("ALTER SYSTEM SET rose.max_copy_workers = 0; SELECT pg_reload_conf()");
my $busy = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('replace-waits', 'wait', 'worker')");
$busy->run('BEGIN; SELECT count(*) FROM plain');
resync('plain');
wait_for_stop($replica);
is(phase_of('plain'), 'switching', 'the worker waits itself');
$busy->run('COMMIT');
$control->run("SELECT go_on('replace-waits')");
synced();
same('and goes on', @tables);
down("ALTER SYSTEM RESET rose.max_copy_workers; SELECT pg_reload_conf()");

# --- rose.verify meanwhile says that it is not compared; foreign keys hold as they did
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('plain');
wait_for_stop($replica);
like(down("SELECT problem FROM rose.verify('s', ARRAY['plain'::regclass])"), qr/./, 'it is not compared meanwhile');
like(error_of($replica, 'INSERT INTO child VALUES (1000, -1)'), qr/violates foreign key/, 'a row that refers to none');
down('INSERT INTO child VALUES (1000, 1)');
$control->run("SELECT go_on('replace-ready')");
synced();
down('INSERT INTO child VALUES (1001, 1)');

# --- a table that was never copied is not emptied unasked
up("CREATE TABLE late $columns; INSERT INTO late VALUES (1, 1, 'upstream'); ALTER PUBLICATION p ADD TABLE late");
down("CREATE TABLE late $columns USING rose; INSERT INTO late VALUES (2, 2, 'local'); SELECT rose.alter_subscription('s', refresh => true)");
until_down("state = 'error' AND last_error ~ 'not empty' AND old_rows_lsn IS NULL FROM rose.stat_subscription_tables WHERE relname = 'late'", 'rows of others are not replaced');
is(down('SELECT v FROM late'), 'local', 'they are there');
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('late');
wait_for_stop($replica);
is(down("SELECT old_rows_lsn FROM rose.stat_subscription_tables WHERE relname = 'late'"), '0/0', 'unless it is asked for; they are of no position');
$control->run("SELECT go_on('replace-ready')");
synced();
same('copied', @tables, 'late');

# --- another upstream is accepted: all tables keep their rows until they are copied
$control->run("SELECT stop_at('copy-found', 'wait', 'worker', 0, 10)");
$n = down('SELECT count(*) FROM plain');
up('ALTER PUBLICATION p DROP TABLE late');
down("SELECT rose.alter_subscription('s', accept => 'resync')");
wait_for_stop($replica);
is(down("SELECT count(*) FROM rose.stat_subscription_tables WHERE old_rows_lsn IS NOT NULL"), 4, 'all have old rows');
is(down('SELECT count(*) FROM plain'), $n, 'which are there');
down("INSERT INTO late VALUES (3, 3, 'nobody feeds it')");
$control->run("SELECT go_on('copy-found')");
synced();
same('accepted', @tables);

# --- the subscription is dropped in the middle: old rows stay, and are anybody's
$control->run("SELECT stop_at('replace-ready', 'wait', 'worker')");
resync('plain');
wait_for_stop($replica);
down("SELECT rose.drop_subscription('s')");
$control->run("SELECT go_on('replace-ready')");
is(down('SELECT count(*) FROM plain'), $n, 'dropped: old rows stay');
down("INSERT INTO plain VALUES (-1, 0, 'local')");
is(down('SELECT count(*) FROM rose.subscription_old_rows'), 0, 'and are not called old any more');
is_sound('plain', 'dropped');

$_->stop foreach $replica, $upstream;
done_testing();
