
# An epoch is written beside the apply worker: changes go on meanwhile, and
# whoever dies at whatever moment, all tables stand at one upstream position.
#
# The spiller is held by locks of prepared transactions, which outlive a crash: by one
# of a table, between two tables; by one of the state table, when all runs are
# pending and the position is not committed.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no epochs' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node(
	'replica', "rose.spill_interval = '1h'", "rose.memtable_size = '16MB'", 'rose.background_spill_size = 0',
	"wal_retrieve_retry_interval = '100ms'", "wal_receiver_status_interval = '1s'", 'rose.max_subscriptions = 4');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub progress { return down("SELECT $_[0] FROM rose.stat_subscription") }
sub until_true { $replica->poll_query_until('postgres', $_[0]) or die "not within the time: $_[0]"; return }

sub caught_up { return wait_for_apply($upstream, $replica) }

sub crash_and_look { crash($replica); return start_without_replication($replica) }
sub go_on { return replication_again($replica) }

# Prepared transactions that hold the spiller.
sub hold_table { return down("BEGIN; LOCK TABLE $_[0] IN ACCESS EXCLUSIVE MODE; PREPARE TRANSACTION 'table'") }
sub hold_state { return down("BEGIN; CREATE INDEX hold ON rose.subscription_state (epoch); PREPARE TRANSACTION 'state'") }
sub release { return down("ROLLBACK PREPARED '$_[0]'") }

my @tables = qw(a b c);
my $rows = 1000;
foreach my $table (@tables)
{
	up("CREATE TABLE $table (id int PRIMARY KEY, n bigint); INSERT INTO $table SELECT g, 0 FROM generate_series(1, $rows) g");
	down("CREATE TABLE $table (id int PRIMARY KEY, n bigint) USING rose");
}
up('CREATE TABLE large (id int PRIMARY KEY, t text)');
down('CREATE TABLE large (id int PRIMARY KEY, t text) USING rose');
push @tables, 'large';
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', @tables));
subscribe($upstream, $replica);

sub sums { return down('SELECT (SELECT sum(n) FROM a), (SELECT sum(n) FROM b), (SELECT sum(n) FROM c)') }
sub pending { return down("SELECT count(*) FROM unnest(ARRAY['a', 'b', 'c']::regclass[]) t, rose.components(t) c WHERE c.state ~ 'pending'") }
my $spiller = "FROM pg_stat_activity WHERE backend_type = 'rose replication spiller'";

sub same
{
	my ($name) = @_;

	caught_up();
	foreach my $table (@tables)
	{
		is(table_hash($replica, $table), table_hash($upstream, $table), "$name: $table");
		is(down("SELECT count(*) FROM rose.check('$table')"), 0, "$name: rose.check of $table");
	}
	return;
}

# The position and what it stands for, as a later crash must show it.
my $total = 0;
my $epoch = progress('epoch');

# One more in each table, applied; then an epoch begins, and is held.
sub into_flight
{
	my ($where) = @_;

	up('BEGIN; UPDATE a SET n = n + 1; UPDATE b SET n = n + 1; UPDATE c SET n = n + 1; COMMIT');
	caught_up();
	hold_table($where) if $where ne 'state';
	hold_state() if $where eq 'state';
	my $request = IPC::Run::start([ 'psql', '-XAtq', '-d', $replica->connstr('postgres') . ' application_name=request', '-c', "SELECT rose.spill('a')" ], '>', '/dev/null', '2>', '/dev/null');
	until_true("SELECT count(*) = 1 $spiller");
	down("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'request'");
	$request->finish;
	until_true("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'rose.subscription_state'::regclass)") if $where eq 'state';
	until_true("SELECT count(*) = 1 FROM rose.components('a') WHERE state ~ 'pending'") if $where ne 'state';
	return;
}

sub landed
{
	until_true("SELECT epoch > $epoch AND durable_lsn > '0/0' FROM rose.stat_subscription");
	until_true("SELECT count(*) = 0 $spiller");
	$epoch = progress('epoch');
	return;
}

# --- changes go on
down("SELECT rose.spill('a')");
$epoch = progress('epoch');
into_flight('state');
is(pending(), 3, 'all runs are pending');
is(sums(), "$rows|$rows|$rows", 'readers see the rows');
my ($durable, $confirmed) = split /\|/, progress('durable_lsn, confirmed_lsn');
up('BEGIN; UPDATE a SET n = n + 1; UPDATE c SET n = n + 1; COMMIT; DELETE FROM b WHERE id <= 10; INSERT INTO b SELECT g, 1 FROM generate_series(1, 10) g');
caught_up();
is(sums(), join('|', 2 * $rows, $rows, 2 * $rows), 'changes are applied while an epoch is in flight');
is(progress("durable_lsn = '$durable' AND confirmed_lsn = '$confirmed' AND durable_lsn < applied_lsn"), 't', 'nothing of it is taken for durable, nor confirmed');
is(progress('epoch'), $epoch, 'no epoch is committed');

# --- the server is killed before the commit
crash_and_look();
is(sums(), '0|0|0', 'killed before the commit: all tables are at the older position');
is(pending(), 0, 'the runs are gone');
release('state');
go_on();
same('then');

# --- the server is killed while one table is not written yet
into_flight('b');
until_true("SELECT count(*) = 1 FROM rose.components('c') WHERE state ~ 'pending'");
is(pending(), 2, 'one table is locked: the others have pending runs');
up('UPDATE a SET n = n + 1 WHERE id = 1');
caught_up();
my $before = down("SELECT durable_lsn FROM rose.subscription_state");
crash_and_look();
release('table');
is(down("SELECT durable_lsn = '$before' FROM rose.subscription_state"), 't', 'killed before the last table: the position is the older one');
is(down('SELECT (SELECT max(n) FROM a) = (SELECT max(n) FROM b) AND (SELECT max(n) FROM b) = (SELECT max(n) FROM c)'), 't', 'and all tables are at it');
go_on();
same('then');

# --- the server is killed after the commit
down("SELECT rose.spill('a')");
$epoch = progress('epoch');
into_flight('state');
my $at_boundary = sums();
up('UPDATE a SET n = n + 100; UPDATE b SET n = n + 100');
caught_up();
release('state');
landed();
is(pending(), 0, 'the epoch has landed');
is(progress('durable_lsn < applied_lsn'), 't', 'for the position of its boundary');
crash_and_look();
is(sums(), $at_boundary, 'killed after that: what came before the boundary, and nothing else');
go_on();
same('then');

# --- the spiller ends, the apply worker, both
foreach my $victims ('spiller', 'worker', 'both')
{
	foreach my $where ('b', 'state')
	{
		down("SELECT rose.spill('a')");
		$epoch = progress('epoch');
		into_flight($where);
		up('UPDATE a SET n = n + 1 WHERE id < 10; UPDATE c SET n = n - 1 WHERE id < 10');
		caught_up();
		my $worker = progress('pid');
		my $old = down("SELECT pid $spiller");
		down("SELECT pg_terminate_backend($worker)") if $victims ne 'spiller';
		down("SELECT pg_terminate_backend($old)") if $victims ne 'worker';
		until_true("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid IN (" . join(', ', $victims eq 'spiller' ? $old : $victims eq 'worker' ? $worker : ($worker, $old)) . ")");
		release($where eq 'state' ? 'state' : 'table');
		landed();
		same("$victims ended at $where");
		is(pending(), 0, "$victims ended at $where: nothing is pending");
		my $sums = sums();
		down("SELECT rose.spill('a')");
		crash_and_look();
		is(sums(), $sums, "$victims ended at $where: all of it is durable");
		go_on();
	}
}

# --- a TRUNCATE waits for the epoch in flight
down("SELECT rose.spill('a')");
$epoch = progress('epoch');
into_flight('state');
up('BEGIN; TRUNCATE b; INSERT INTO b VALUES (1, 1); UPDATE a SET n = 0; COMMIT; UPDATE c SET n = 0');
is(down('SELECT count(*) FROM b'), $rows, 'a TRUNCATE waits');
release('state');
same('TRUNCATE');
up("INSERT INTO b SELECT g, 0 FROM generate_series(2, $rows) g");
caught_up();

# --- memory is full: applying waits, and that is counted
down("SELECT rose.spill('a')");
$epoch = progress('epoch');
up("INSERT INTO large SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, 20000) g");
into_flight('state');
my $waits = progress('spill_waits');
up("UPDATE large SET t = t || 'x' WHERE id % 2 = $_") foreach (0, 1) x 4;		# more than there is memory for
my $lsn = up('SELECT pg_current_wal_flush_lsn()');
until_true("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = (SELECT pid FROM rose.stat_subscription) AND wait_event = 'Extension' AND backend_xid IS NOT NULL)");
is(progress("applied_lsn < '$lsn'"), 't', 'memory is full: applying waits');
release('state');
same('memory was full');
cmp_ok(progress('spill_waits'), '>', $waits, 'the wait is counted');
cmp_ok(progress('spill_wait_ms'), '>', 0, 'and its time');

# --- the same, and the spiller cannot lock a table: the batch gives up
down("SELECT rose.spill('a')");
$epoch = progress('epoch');
up("UPDATE large SET t = t || 'y'");
into_flight('b');
up("UPDATE large SET t = t || 'z' WHERE id % 2 = $_") foreach (0, 1) x 4;		# more than there is memory for
until_true("SELECT last_error ~ 'a table is locked against that' FROM rose.stat_subscription");
pass('a batch that waits for a spiller that waits for a lock gives up');
release('table');
same('after the lock');

# --- the same, and the spiller waits for a client that waits for the batch. There is something to be made durable when the client
# comes: else the worker, when it has been idle for a while, waits for the state table itself, and applies nothing.
down("SELECT rose.spill('a')");
$epoch = progress('epoch');
up("UPDATE large SET t = t || 'v'");
caught_up();
my $client = IPC::Run::start([ 'psql', '-XAtq', '-d', $replica->connstr('postgres'), '-c', <<'SQL' ]);
BEGIN;
CREATE INDEX hold ON rose.subscription_state (epoch);
DO $$
BEGIN
	LOOP
		PERFORM pg_stat_clear_snapshot();
		EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'rose replication worker' AND wait_event = 'Extension' AND backend_xid IS NOT NULL);
		PERFORM pg_sleep(0.1);
	END LOOP;
END $$;
LOCK TABLE large;
ROLLBACK;
SQL
until_true("SELECT EXISTS (SELECT FROM pg_locks WHERE granted AND mode = 'ShareLock' AND relation = 'rose.subscription_state'::regclass)");
$replica->psql('postgres', "SET statement_timeout = '1s'; SELECT rose.spill('a')");
until_true("SELECT count(*) = 1 $spiller");
up("UPDATE large SET t = t || 'w' WHERE id % 2 = $_") foreach (0, 1) x 4;		# more than there is memory for
ok($client->finish, 'a client that has locked the state table gets the lock that the batch has');
like(progress('last_error'), qr/waits for somebody who waits for this batch/, 'as the batch gives up');
same('after the client');

# --- a worker ends in good order only when the epoch in flight has landed
into_flight('state');
up('UPDATE c SET n = n + 7');
caught_up();
my $sums = sums();
my $drop = IPC::Run::start([ 'psql', '-XAtq', '-d', $replica->connstr('postgres'), '-c', "SELECT rose.alter_subscription('s', enabled => false)" ]);
release('state');
ok($drop->finish, 'disabled');
until_true("SELECT state = 'disabled' AND pid IS NULL FROM rose.stat_subscription");
crash_and_look();
is(sums(), $sums, 'a subscription that was disabled has all its rows');
go_on();
down("SELECT rose.alter_subscription('s', enabled => true)");
same('enabled again');
down("SELECT rose.drop_subscription('s')");
is(up('SELECT count(*) FROM pg_replication_slots'), 0, 'dropped');

$replica->stop;
$upstream->stop;
done_testing();
