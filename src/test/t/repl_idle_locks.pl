# Tables of a subscription that somebody has locked: one that has nothing to be made durable holds up nobody; one that has holds
# up its subscription, which can be seen, and the upstream still hears from it; and who waits for the subscription with a lock in his
# hands that it needs gets an error.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node("wal_sender_timeout = '4s'");
my $node = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.spill_interval = '1h'", 'rose.background_spill_size = 0', 'rose.max_subscriptions = 2');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub until_sql { return $node->poll_query_until('postgres', $_[0]) }

# With the memtables written by a process of their own, or by the worker.
sub spiller
{
	my ($own) = @_;

	$node->safe_psql('postgres', 'ALTER SYSTEM SET rose.background_spill_size = ' . ($own ? 0 : "'1GB'"));
	$node->reload;
	until_sql('SELECT setting::int ' . ($own ? '=' : '>') . " 0 FROM pg_settings WHERE name = 'rose.background_spill_size'") or die;
	sleep(1.2);		# the worker hears of it
	return;
}

my $n = 0;
my $before_change;			# the upstream's position before the latest one

sub change
{
	my (@tables) = @_;

	$n++;
	foreach (@tables)
	{
		$before_change = up('SELECT pg_current_wal_insert_lsn()');
		up("INSERT INTO $_ VALUES ($n, $n); UPDATE $_ SET v = v + 1");
	}
	return;
}

sub same
{
	my ($name) = @_;

	wait_for_apply($upstream, $node);
	return is(join(' ', map { table_hash($node, $_) } qw(t u v)), join(' ', map { table_hash($upstream, $_) } qw(t u v)), $name);
}

# A spill of this table within moments.
sub spills
{
	my ($table, $name) = @_;
	my $start = time;
	my ($status, undef, $err) = $node->psql('postgres', "SET statement_timeout = '60s'; SELECT rose.spill('$table')");

	ok($status == 0 && time - $start < 50, $name) or diag($err);
	return ok(sql("SELECT durable_lsn > '$before_change' FROM rose.stat_subscription") eq 't', "$name: durable has moved");
}

# What is said to who waits with a lock in his hands, and after how long; anew if the worker had made all durable by itself before
# the lock was there.
sub refused
{
	my ($sql) = @_;
	my ($error, $start);

	for (1 .. 10)
	{
		change(qw(t u));
		wait_for_apply($upstream, $node);
		$start = time;
		$error = error_of($node, "SET statement_timeout = '60s'; $sql");
		last if $error ne '';
	}
	return ($error, time - $start);
}

sub waits_for
{
	my ($relation, $name, $pids) = @_;

	return ok(until_sql("SELECT waiting_for = '$relation'::regclass AND waiting_since < now() AND waiting_pids " . ($pids // '<> \'{}\'') . ' FROM rose.stat_subscription'), $name)
	  || diag(sql("SELECT waiting_for, waiting_since, waiting_pids, pid, epochs, applied_lsn, durable_lsn, '$before_change' FROM rose.stat_subscription"),
		sql('SELECT pid, backend_type, state, wait_event_type, wait_event, pg_blocking_pids(pid), query FROM pg_stat_activity'));
}

up(join ';', map { "CREATE TABLE $_ (id int PRIMARY KEY, v int)" } qw(t u v));
up('CREATE PUBLICATION p FOR TABLE t, u, v');
sql(join ';', map { "CREATE TABLE $_ (id int PRIMARY KEY, v int) USING rose" } qw(t u v));
sql('CREATE INDEX u_v ON u (v)');
subscribe($upstream, $node);
my $pid = sql('SELECT pid FROM rose.stat_subscription');
my $locker = RoseTest::Session->new($node);
my $locker_pid = $locker->run('SELECT pg_backend_pid()');

foreach my $own (1, 0)
{
	my $who = $own ? 'a spiller' : 'the worker';

	spiller($own);
	change(qw(t u v));
	same("$who: before");
	spills('t', "$who: nothing is locked");

	# --- idle tables
	$locker->run('BEGIN; LOCK TABLE u');
	change(qw(t v));
	wait_for_apply($upstream, $node, undef, undef, 't');
	spills('t', "$who: an idle table is locked");
	is(sql('SELECT waiting_for IS NULL FROM rose.stat_subscription'), 't', "$who: nothing is waited for");
	$locker->run('ROLLBACK');
	$locker->run('BEGIN; LOCK TABLE v IN SHARE MODE') if !$own;		# a lock that readers do not mind
	same("$who: all is there");
	$locker->run('ROLLBACK') if !$own;

	# somebody queues behind a reader
	$locker->run('BEGIN; SELECT count(*) FROM u');
	my $ddl = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'BEGIN; LOCK TABLE u' ], '2>', '/dev/null');
	until_sql("SELECT count(*) > 0 FROM pg_locks WHERE relation = 'u'::regclass AND NOT granted") or die;
	change('t');
	wait_for_apply($upstream, $node, undef, undef, 't');
	spills('t', "$who: somebody waits for an idle table");
	$locker->run('ROLLBACK');
	$ddl->finish;

	# an index of an idle one
	$locker->run("BEGIN; SELECT count(*) FROM u; REINDEX INDEX u_v");
	change('t');
	wait_for_apply($upstream, $node, undef, undef, 't');
	spills('t', "$who: an index of an idle table is locked");
	$locker->run('ROLLBACK');

	# --- one that has changes
	for (1 .. 10)
	{
		change(qw(t u));
		wait_for_apply($upstream, $node);
		$locker->run('BEGIN; LOCK TABLE u');
		# anew if the worker had made all durable by itself before that
		last if sql("SELECT durable_lsn <= '$before_change' FROM rose.stat_subscription") eq 't';
		$locker->run('ROLLBACK');
	}
	my $spill = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT rose.spill('t')" ]);
	waits_for('u', "$who: a table with changes is waited for", "= '{$locker_pid}'");
	sleep(6);
	waits_for('u', "$who: as long as it takes");
	is(sql('SELECT pid FROM rose.stat_subscription'), $pid, "$who: and the upstream goes on");
	$locker->run('ROLLBACK');
	ok($spill->finish, "$who: then it is durable");
	ok(until_sql('SELECT waiting_for IS NULL FROM rose.stat_subscription'), "$who: and nothing is waited for");

	# --- by who asks for it
	foreach my $what ("SELECT rose.spill('u')", "SELECT rose.spill('t')", "SELECT rose.alter_subscription('s', resync => 't')")
	{
		my ($error, $took) = refused("BEGIN; LOCK TABLE u; $what");

		like($error,
			qr/ERROR:  the replication worker cannot (?:commit an epoch|stop) while it waits for a lock that this transaction holds, or somebody who waits for it\nHINT:  Do this in a transaction that has locked no table/, "$who: $what with its table locked");
		cmp_ok($took, '<', 60, "$who: in time");
	}
	ok(until_sql("SELECT state = 'streaming' AND waiting_for IS NULL FROM rose.stat_subscription"), "$who: it goes on");
	like((refused("BEGIN; REINDEX INDEX u_v; SELECT rose.spill('u')"))[0], qr/the replication worker cannot commit an epoch while it waits for a lock that this/, "$who: an index");
	$pid = sql('SELECT pid FROM rose.stat_subscription');
	same("$who: nothing is lost");
}

# --- two sessions: one waits for the worker, which waits for the other, which waits for the one
sql('CREATE TABLE plain (id int)');
change(qw(t u));
same('applied');
my $first = RoseTest::Session->new($node);
$first->run('BEGIN; LOCK TABLE plain');
$locker->run('BEGIN; LOCK TABLE u');
$locker->start('LOCK TABLE plain');
until_sql("SELECT count(*) > 0 FROM pg_locks WHERE relation = 'plain'::regclass AND NOT granted") or die;
$first->start("SELECT rose.spill('t')");
eval { $first->finish };
like($first->{err}, qr/the replication worker cannot commit an epoch while it waits for a lock/, 'a circle of three is seen');
$first->end;
$locker->finish;
$locker->run('ROLLBACK');
change('t');
wait_for_apply($upstream, $node);
spills('t', 'and it goes on');

# --- a change of a locked table: the batch waits in the queue, and the upstream hears from it
$pid = sql('SELECT pid FROM rose.stat_subscription');
$locker->run('BEGIN; LOCK TABLE u IN SHARE MODE');
change('u');
waits_for('u', 'a batch waits for a table', "= '{$locker_pid}'");
sleep(9);
is(sql('SELECT pid FROM rose.stat_subscription'), $pid, 'for longer than the upstream waits for us');
$locker->run('ROLLBACK');
same('then it is applied');
is(sql('SELECT pid FROM rose.stat_subscription'), $pid, 'by the same worker');
up('TRUNCATE v; INSERT INTO v VALUES (1, 1)');
same('TRUNCATE');
$locker->run('BEGIN; LOCK TABLE v IN ACCESS SHARE MODE; LOCK TABLE t');
up('TRUNCATE v; INSERT INTO v VALUES (2, 2)');
waits_for('v', 'TRUNCATE waits for a reader', "= '{$locker_pid}'");
sleep(5);
$locker->run('ROLLBACK');
same('and comes');

# --- a prepared transaction has it locked
sql("BEGIN; LOCK TABLE u; PREPARE TRANSACTION 'lock'");
change('t');
wait_for_apply($upstream, $node, undef, undef, 't');
spills('t', 'an idle table, locked by a prepared transaction');
crash_and_restart($node);
$locker = RoseTest::Session->new($node);
until_sql("SELECT state = 'streaming' FROM rose.stat_subscription") or fail('a worker starts beside a locked table');
change(qw(t v));
wait_for_apply($upstream, $node, undef, undef, 't');
spills('t', 'after a crash');
change('u');
waits_for('u', 'a change of it waits', "= '{0}'");
sql("ROLLBACK PREPARED 'lock'");
same('all is there');

# --- a table is locked between the commit of an epoch and its publishing: readers use the memtable, it is published later
stop_points_create($node);
foreach my $own (1, 0)
{
	my $who = $own ? 'a spiller' : 'the worker';
	my $stop = RoseTest::Session->new($node);
	my $pending = "SELECT count(*) FROM rose.stat_components WHERE relname = 'u' AND state ~ 'pending'";

	spiller($own);
	change(qw(t u));
	same("$who: applied");
	$stop->run("SELECT stop_at('epoch-committed', 'wait', 'any')");
	my $spill = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT rose.spill('t')" ]);
	wait_for_stop($node);
	$locker->run('BEGIN; LOCK TABLE u');
	$stop->run("SELECT go_on('epoch-committed')");
	ok($spill->finish, "$who: an epoch lands without a table that is locked");
	change('t');
	wait_for_apply($upstream, $node, undef, undef, 't');
	spills('t', "$who: and the next one");
	$locker->run('ROLLBACK');
	ok(until_sql("SELECT ($pending) = 0"), "$who: it is published when it is not locked any more");
	same("$who: with all rows");

	# the same, and a crash before
	change(qw(t u));
	same("$who: applied once more");
	$stop->run("SELECT stop_at('epoch-committed', 'wait', 'any')");
	$spill = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT rose.spill('t')" ]);
	wait_for_stop($node);
	$locker->run('BEGIN; LOCK TABLE u');
	$stop->run("SELECT go_on('epoch-committed')");
	ok($spill->finish, "$who: an epoch lands without it again");
	$stop->end;
	$locker->end;
	my $hash = table_hash($upstream, 'u');
	crash($node);
	start_without_replication($node);
	is(table_hash($node, 'u'), $hash, "$who: after a crash it has its rows, without the upstream");
	replication_again($node);
	same("$who: and goes on");
	$locker = RoseTest::Session->new($node);

	# the same, and the subscription is dropped before
	change(qw(t u));
	same("$who: applied before a drop");
	$stop = RoseTest::Session->new($node);
	$stop->run("SELECT stop_at('epoch-committed', 'wait', 'any')");
	$spill = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT rose.spill('t')" ]);
	wait_for_stop($node);
	$locker->run('BEGIN; LOCK TABLE u');
	$stop->run("SELECT go_on('epoch-committed')");
	ok($spill->finish, "$who: an epoch lands before a drop");
	$stop->end;
	sql("SELECT rose.alter_subscription('s', enabled => false)");
	until_sql('SELECT pid IS NULL FROM rose.stat_subscription') or die 'it runs';
	$locker->run('ROLLBACK');
	is(sql($pending), 1, "$who: a disabled one leaves its run");
	sql("SELECT rose.drop_subscription('s')");
	is(sql($pending), 0, "$who: a drop does not");
	$hash = table_hash($node, 'u');
	$locker->end;
	crash_and_restart($node);
	is(table_hash($node, 'u'), $hash, "$who: its rows survive a crash");
	is(sql("SELECT count(*) FROM rose.check('u')"), 0, "$who: rose.check");
	$locker = RoseTest::Session->new($node);
	sql('TRUNCATE t, u, v');
	subscribe($upstream, $node);
}

# --- kills: of the worker while it waits, and of a spiller
spiller(1);
change(qw(t u));
same('applied');
$locker->run('BEGIN; LOCK TABLE u');
my $spill = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT rose.spill('t')" ]);
waits_for('u', 'a spiller waits');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rose replication spiller'");
waits_for('u', 'then the worker does');
sql('SELECT pg_terminate_backend(pid) FROM rose.stat_subscription');
waits_for('u', 'then the next one');
$locker->run('ROLLBACK');
ok($spill->finish, 'and it is done');
same('nothing is lost');
$locker->end;

$node->stop;
$upstream->stop;
done_testing();
