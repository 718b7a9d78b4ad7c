
# Who the upstream is, and where its slot stands: whatever would lose changes stops the
# subscription, says why, and confirms nothing.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in does not ask its upstream' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.max_subscriptions = 4", "wal_retrieve_retry_interval = '100ms'", "wal_receiver_status_interval = '1s'");
my $down = $replica;			# the replica of the moment

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $down->safe_psql('postgres', $_[0]) }
sub caught_up { return wait_for_apply($upstream, $down) }
sub is_same { return is(table_hash($down, 't'), table_hash($_[1] // $upstream, 't'), $_[0]) }
sub state_row { return down("SELECT $_[0] FROM rose.subscription_state") }
sub slot { return ($_[1] // $upstream)->safe_psql('postgres', "SELECT $_[0] FROM pg_replication_slots WHERE slot_name = 's'") }
sub conninfo { return "SELECT rose.alter_subscription('s', conninfo => \$\$" . $_[0]->connstr('postgres') . '$$)' }

sub until_down { return $down->poll_query_until('postgres', $_[0]) }

# The worker looks again, now, and finds this.
sub is_blocked
{
	my ($reason, $name) = @_;
	my $before = down("SELECT coalesce(max(last_error_time), '-infinity') FROM rose.stat_subscription WHERE state = 'blocked'");

	down("SELECT rose.alter_subscription('s')");
	ok(until_down("SELECT state = 'blocked' AND last_error_time > '$before' FROM rose.stat_subscription"), "$name: blocked")
	  or diag(down('SELECT state, last_error FROM rose.stat_subscription'));
	is(down('SELECT blocked_reason FROM rose.stat_subscription'), $reason, "$name: $reason");
	like(down('SELECT last_error FROM rose.stat_subscription'), qr/rose subscription "s" is blocked: .*hint: /s, "$name: it says what to do");
	like(down('SELECT count(*) FROM t'), qr/^\d+$/, "$name: the table is readable");
	return;
}

sub goes_on
{
	my ($name) = @_;

	down("SELECT rose.alter_subscription('s')");
	ok(until_down("SELECT state = 'streaming' AND blocked_reason IS NULL FROM rose.stat_subscription"), "$name: streams")
	  or diag(down('SELECT state, last_error FROM rose.stat_subscription'));
	up("INSERT INTO t SELECT max(id) + 1, 'goes on' FROM t");
	caught_up();
	is_same($name);
	return;
}

sub resynced
{
	my ($name) = @_;

	down("SELECT rose.alter_subscription('s', accept => 'resync')");
	is(down('SELECT blocked_reason FROM rose.stat_subscription'), '', "$name: that is over");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	caught_up();
	is_same("$name: copied again");
	goes_on("$name: resynced");
	return;
}

sub copy_directory
{
	my ($from, $to) = @_;

	system_or_bail('rm', '-rf', $to);
	system_or_bail('cp', '-a', $from, $to);
	return;
}

my $tables = 'CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE other (id int)';
up("$tables; INSERT INTO t SELECT g, 'old' FROM generate_series(1, 100) g; CREATE PUBLICATION p FOR TABLE t");
down('CREATE TABLE t (id int PRIMARY KEY, v text) USING rose');
subscribe($upstream, $replica);
is(state_row('system_id'), up('SELECT system_identifier FROM pg_control_system()'), 'the upstream is known by its system identifier');
is(state_row('timeline, upstream_dbid'), up("SELECT 1, oid FROM pg_database WHERE datname = 'postgres'"), 'and by its timeline and database');

# --- the slot never knows more than the row, even if nothing of ours happens
up("INSERT INTO other SELECT generate_series(1, 300000)");
my $mark = up('SELECT pg_current_wal_flush_lsn()');
ok($upstream->poll_query_until('postgres', "SELECT confirmed_flush_lsn >= '$mark' FROM pg_replication_slots"), 'idle, but confirmed');
my $confirmed = slot('confirmed_flush_lsn');
is(state_row("durable_lsn >= '$confirmed'"), 't', 'the row was there before');

# --- another cluster, which has a slot of that name; another database
my $stranger = PostgreSQL::Test::Cluster->new('stranger');
$stranger->init(allows_streaming => 'logical');
$stranger->start;
$stranger->safe_psql('postgres', "$tables; CREATE PUBLICATION p FOR TABLE t; SELECT pg_create_logical_replication_slot('s', 'pgoutput'); INSERT INTO t VALUES (-1, 'strange')");
my $untouched = slot('confirmed_flush_lsn', $stranger);
down(conninfo($stranger));
is_blocked('other_upstream', 'another cluster');
is(slot('confirmed_flush_lsn', $stranger), $untouched, 'its slot was not moved');
like(($down->psql('postgres', "SELECT rose.alter_subscription('s', refresh => true)"))[2], qr/is another one/, 'no refresh from it');
like(($down->psql('postgres', "SELECT rose.drop_subscription('s')"))[2], qr/is another one.*keep_slot => true/s, 'its slot is not dropped');
is(slot('count(*)', $stranger), 1, 'it is still there');
like(($down->psql('postgres', "SELECT rose.wait_for_lsn('s', '0/1', $timeout)"))[2], qr/is blocked/, 'nobody waits for a position of it');
down("SELECT rose.alter_subscription('s')");
like(($down->psql('postgres', "SELECT rose.wait_for_lsn('s', '0/1', $timeout)"))[2], qr/is blocked/, 'nor while the worker looks again');
up('CREATE DATABASE elsewhere');
down("SELECT rose.alter_subscription('s', conninfo => \$\$" . $upstream->connstr('elsewhere') . '$$)');
is_blocked('other_upstream', 'another database');
down(conninfo($upstream));
goes_on('the right one again');

# --- an old state of the upstream
$upstream->stop;
copy_directory($upstream->data_dir, $upstream->basedir . '/old');
$upstream->start;
up("INSERT INTO t SELECT g, repeat('new', 100) FROM generate_series(1001, 1100) g");
caught_up();
down("SELECT rose.spill('t')");
$upstream->stop;
copy_directory($upstream->basedir . '/old', $upstream->data_dir);
$upstream->start;
up("INSERT INTO t SELECT g, 'x' FROM generate_series(2001, 2050) g");
is_blocked('behind', 'an upstream restored');
is(slot('confirmed_flush_lsn <= pg_current_wal_flush_lsn()'), 't', 'nothing is confirmed that it does not have');
my $applied = down('SELECT applied_lsn FROM rose.stat_subscription');
up("INSERT INTO other SELECT generate_series(1, 10000)");
is(up("SELECT pg_current_wal_flush_lsn() > '$applied'"), 't', 'it has written on');
is_blocked('behind', 'further on, it has not become the old one');
down("SELECT rose.alter_subscription('s')");
is($down->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1 .. 1000 LOOP ASSERT (SELECT blocked_reason FROM rose.stat_subscription) = \'behind\'; PERFORM pg_sleep(0.001); END LOOP; END $$'), '', 'which nothing but to accept it changes');
like(error_of($down, "SELECT rose.alter_subscription('s'); SELECT rose.wait_for_lsn('s', '0/1', $timeout)"), qr/subscription "s" is blocked: behind/, 'its positions are none of ours');
resynced('an upstream restored');

# --- slots
down("SELECT rose.alter_subscription('s', enabled => false)");
ok(until_down("SELECT pid IS NULL FROM rose.stat_subscription"), 'disabled');
until_slot_is_free($upstream);
up("SELECT pg_drop_replication_slot('s')");
down("SELECT rose.alter_subscription('s', enabled => true)");
is_blocked('slot_missing', 'a slot that is gone');
up("INSERT INTO t VALUES (3000, 'nobody keeps it'); SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
is_blocked('slot_ahead', 'a slot made anew');
is(down('SELECT count(*) FROM t WHERE id = 3000'), 0, 'it does not have what came between');
resynced('a slot made anew');
up("INSERT INTO t VALUES (3500, 'in between')");
caught_up();

down("SELECT rose.alter_subscription('s', enabled => false)");
ok(until_down("SELECT pid IS NULL FROM rose.stat_subscription"), 'disabled');
until_slot_is_free($upstream);
up("SELECT pg_drop_replication_slot('s'); SELECT pg_create_logical_replication_slot('s', 'test_decoding')");
down("SELECT rose.alter_subscription('s', enabled => true)");
is_blocked('slot_lost', 'a slot of another plugin');
resynced('a slot of another plugin');

down("SELECT rose.alter_subscription('s', enabled => false)");
ok(until_down("SELECT pid IS NULL FROM rose.stat_subscription"), 'disabled');
until_slot_is_free($upstream);
up("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'");
up('SELECT pg_reload_conf()');
for (1 .. 3)
{
	up("INSERT INTO other SELECT generate_series(1, 1000); SELECT pg_switch_wal()");
}
up('CHECKPOINT');
is(slot('wal_status'), 'lost', 'a slot that has lost its WAL');
down("SELECT rose.alter_subscription('s', enabled => true)");
is_blocked('slot_lost', 'a slot that has lost its WAL');
up('ALTER SYSTEM RESET max_slot_wal_keep_size');
up('SELECT pg_reload_conf()');
resynced('a slot that has lost its WAL');

# --- an old state of the replica
$replica->stop;
copy_directory($replica->data_dir, $replica->basedir . '/old');
$replica->start;
up("INSERT INTO t SELECT g, 'later' FROM generate_series(4001, 4100) g");
caught_up();
down("SELECT rose.spill('t')");
my $durable = state_row('durable_lsn');
ok($upstream->poll_query_until('postgres', "SELECT confirmed_flush_lsn >= '$durable' FROM pg_replication_slots"), 'confirmed');
$replica->stop;
copy_directory($replica->basedir . '/old', $replica->data_dir);
$replica->start;
is_blocked('slot_ahead', 'a replica restored');
is(down('SELECT count(*) FROM t WHERE id > 4000'), 0, 'it does not have what came later');
resynced('a replica restored');

# --- a standby of the replica, promoted
$replica->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($replica, 'standby', has_streaming => 1);
$standby->start;
$replica->wait_for_catchup($standby);
$standby->stop;
up("INSERT INTO t SELECT g, 'even later' FROM generate_series(5001, 5100) g");
caught_up();
down("SELECT rose.spill('t')");
$durable = state_row('durable_lsn');
ok($upstream->poll_query_until('postgres', "SELECT confirmed_flush_lsn >= '$durable' FROM pg_replication_slots"), 'confirmed');
$replica->stop;
$down = $standby;
$standby->start;
$standby->promote;
is_blocked('slot_ahead', 'a standby of the replica');
is(down('SELECT count(*) FROM t WHERE id > 5000'), 0, 'it does not have what came later');
resynced('a standby of the replica');

# --- a standby of the upstream, promoted: one that has all, then one that has not
$upstream->stop;
$upstream->backup_fs_cold('cold');
my $promoted = PostgreSQL::Test::Cluster->new('promoted');
$promoted->init_from_backup($upstream, 'cold');
$promoted->set_standby_mode;
$promoted->start;
$promoted->promote;
my $first = $upstream;
$upstream = $promoted;
down(conninfo($promoted));
goes_on('a standby of the upstream that has all');
is(state_row('timeline'), 2, 'the new timeline is known');
$first->start;
down(conninfo($first));
is_blocked('old_timeline', 'the old upstream, which goes on');
down(conninfo($promoted));
goes_on('the new one');

$promoted->backup('lagging');
my $lagging = PostgreSQL::Test::Cluster->new('lagging');
$lagging->init_from_backup($promoted, 'lagging', has_streaming => 1);
$lagging->start;
$promoted->wait_for_catchup($lagging);
$lagging->stop;
up("INSERT INTO t SELECT g, repeat('y', 1000) FROM generate_series(6001, 7000) g");
caught_up();
$promoted->stop;
$lagging->start;
$lagging->promote;
$lagging->safe_psql('postgres', "INSERT INTO t VALUES (8000, 'of the new one'); SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
$upstream = $lagging;
down(conninfo($lagging));
is_blocked('diverged', 'a standby of the upstream that lacks something');
is(down('SELECT count(*) FROM t WHERE id > 6000 AND id <= 7000'), 1000, 'what was applied is still there');
resynced('a standby of the upstream that lacks something');
is(state_row('timeline'), 3, 'the new timeline is known');

# --- an upstream that was put back to an old state, and wrote past what was applied before anybody looked
foreach my $how ('', 'after a crash of the replica')
{
	my $name = "rewritten past our position $how";

	# so that the slot is not told of the last transaction before it is stopped
	goes_on("$name: before");
	$upstream->stop;
	copy_directory($upstream->data_dir, $upstream->basedir . '/old');
	$upstream->start;
	goes_on("$name: and on");
	up("INSERT INTO t SELECT max(id) + 1, 'not in the other history' FROM t");
	caught_up();
	down("SELECT rose.alter_subscription('s', enabled => false)");
	ok(until_down('SELECT pid IS NULL FROM rose.stat_subscription'), 'disabled');
	crash_and_restart($down) if $how;
	$upstream->stop;
	copy_directory($upstream->data_dir, $upstream->basedir . '/true');
	copy_directory($upstream->basedir . '/old', $upstream->data_dir);
	$upstream->start;
	my $stands = slot('confirmed_flush_lsn');
	my $reached = state_row('durable_lsn');
	is(state_row("commit_lsn >= '$stands'"), 't', "$name: the slot can be asked for the last transaction");
	up("INSERT INTO t SELECT g, 'of another history' FROM generate_series(20001, 20100) g; INSERT INTO other SELECT generate_series(1, 10000)");
	is(up("SELECT pg_current_wal_flush_lsn() > '$reached'"), 't', "$name: it has written on");
	down("SELECT rose.alter_subscription('s', enabled => true)");
	is_blocked('rewritten', $name);
	is_blocked('rewritten', "$name, further on");
	is(slot('confirmed_flush_lsn'), $stands, "$name: its slot was not moved");
	is(down('SELECT count(*) FROM t WHERE id > 20000'), 0, "$name: nothing of it was applied");
	$upstream->stop;
	copy_directory($upstream->basedir . '/true', $upstream->data_dir);
	$upstream->start;
	goes_on("$name: the true one is back");
	is_same("$name: nothing is lost");
}
$upstream->restart;
goes_on('a restart of the upstream');
$upstream->stop('immediate');
$upstream->start;
goes_on('a crash of the upstream');

# --- what cannot be accepted
like(($down->psql('postgres', "SELECT rose.alter_subscription('s', accept => 'all')"))[2], qr/invalid value for accept: "all"/, 'accept takes what it knows');
like(($down->psql('postgres', "BEGIN; SELECT rose.alter_subscription('s', accept => 'resync')"))[2], qr/cannot run inside a transaction block/, 'and makes slots, so it stands alone');

$down->stop;
$upstream->stop;
$first->stop;
$stranger->stop;
done_testing();
