# two_phase, and copies while no other table is live, so that there is no stream beside them: what is prepared meanwhile comes all the same, and what ends meanwhile ends here.
# A slot for a copy waits for transactions that ran at two moments; one that has begun after the second, and is prepared before the slot is consistent, is in no copy.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 40', 'autovacuum = off');
plan skip_all => 'the upstream is too old' if $upstream->pg_version < 15;
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "wal_receiver_status_interval = '1s'", 'autovacuum = off', "rose.spill_interval = '1s'");
my $timeout = $PostgreSQL::Test::Utils::timeout_default;

prepared_tables($upstream, $replica);
up('ALTER PUBLICATION p SET TABLE t; CREATE TABLE filler (id int)');
up("INSERT INTO t SELECT g, g, 'x' FROM generate_series(1, 100) g");
my $n = 1000;

sub until_slot_waits { until_up("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event_type = 'Lock' AND wait_event = 'transactionid'"); return }

# The copy that $do orders; a transaction is prepared in the middle of its slot's making.
sub around
{
	my ($name, $do) = @_;
	my ($one, $two) = map { RoseTest::Session->new($upstream) } 1, 2;

	$n += 1000;
	$one->run('BEGIN; INSERT INTO filler VALUES (1)');
	$do->();
	until_slot_waits();
	$two->run('BEGIN; INSERT INTO filler VALUES (2)');
	$one->run('COMMIT');
	# it waits for the second one now
	until_up("SELECT count(*) > 0 FROM pg_locks w JOIN pg_locks h ON h.locktype = 'transactionid' AND h.transactionid = w.transactionid AND h.granted AND h.pid = " . $two->run('SELECT pg_backend_pid()') . " WHERE w.locktype = 'transactionid' AND NOT w.granted");
	prepare('z', "INSERT INTO t SELECT g, g, 'prepared' FROM generate_series($n, $n + 9) g");
	$two->run('COMMIT');
	$_->end foreach $one, $two;
	down("SELECT rose.wait_for_sync('s', $timeout)");
	streams();
	is(down("SELECT count(*) FROM t WHERE id BETWEEN $n AND $n + 9"), 0, "$name: not in the copy");
	up("COMMIT PREPARED 'z'");
	up("INSERT INTO t VALUES ($n + 500, 1, 'mark')");
	wait_for_apply($upstream, $replica);
	is(down("SELECT count(*) FROM t WHERE id BETWEEN $n AND $n + 9"), 10, "$name: all of it is here when it is committed");
	return;
}

subscribe($upstream, $replica, undef, "two_phase => true");
streams();
around('resync', sub { down(q{SELECT rose.alter_subscription('s', resync => 't')}) });
around('accept', sub { down(q{SELECT rose.alter_subscription('s', accept => 'resync')}) });
down(q{SELECT rose.drop_subscription('s'); TRUNCATE t});
up(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)});
around('a slot by hand', sub { down(sprintf q{SELECT rose.create_subscription('s', $$%s$$, '{p}', two_phase => true, create_slot => false)}, $upstream->connstr('postgres')) });
up('ALTER PUBLICATION p ADD TABLE other');
down(q{SELECT rose.alter_subscription('s', refresh => true)});
down("SELECT rose.wait_for_sync('s', $timeout)");
around('resync beside another table', sub { down(q{SELECT rose.alter_subscription('s', resync => 't')}) });

# ---- kept, and ended while the stream waits for a copy ----
up('ALTER PUBLICATION p SET TABLE t');
down(q{SELECT rose.alter_subscription('s', refresh => true)});
streams();
foreach my $end (qw(COMMIT ROLLBACK))
{
	my $from = $end eq 'COMMIT' ? 20000 : 21000;

	prepare("x$end", "INSERT INTO t SELECT g, g, 'prepared' FROM generate_series($from, $from + 99) g");
	up("INSERT INTO t VALUES ($from + 500, 1, 'mark')");
	wait_for_apply($upstream, $replica);
	down(q{SELECT rose.spill('t')});
	down(q{SELECT rose.alter_subscription('s', resync => 't')});
	until_up("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event_type = 'Lock' AND wait_event = 'transactionid'");
	up("$end PREPARED 'x$end'");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	streams();
	up("INSERT INTO t VALUES ($from + 501, 1, 'mark')");
	equal("$end: the same", 't');
	down(q{SELECT rose.spill('t')});
	is(down(q{SELECT coalesce(string_agg(gid, ' '), '') FROM rose.stat_subscription_prepared}), '', "$end: nothing is shown as prepared");
	until_down('SELECT count(*) = 0 FROM rose.subscription_prepared WHERE number > 0');
	pass("$end: nothing is left of it");
}

# ---- the others are paused ----
up('ALTER PUBLICATION p SET TABLE t, other; TRUNCATE t');
down(q{SELECT rose.alter_subscription('s', refresh => true)});
down("SELECT rose.wait_for_sync('s', $timeout)");
streams();
up("INSERT INTO other VALUES (1001, 'x')");
wait_for_apply($upstream, $replica);
down("SELECT rose.pause_table('s', 'other')");
my ($one, $two) = map { RoseTest::Session->new($upstream) } 1, 2;
$one->run('BEGIN; INSERT INTO filler VALUES (1)');
down(q{SELECT rose.alter_subscription('s', resync => 't')});
until_up("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event_type = 'Lock' AND wait_event = 'transactionid'");
$two->run('BEGIN; INSERT INTO filler VALUES (2)');
$one->run('COMMIT');
until_up("SELECT count(*) > 0 FROM pg_locks w JOIN pg_locks h ON h.locktype = 'transactionid' AND h.transactionid = w.transactionid AND h.granted AND h.pid = " . $two->run('SELECT pg_backend_pid()') . " WHERE w.locktype = 'transactionid' AND NOT w.granted");
prepare('z', "INSERT INTO t SELECT g, g, 'prepared' FROM generate_series(1, 10) g; INSERT INTO other VALUES (1002, 'prepared')");
$two->run('COMMIT');
$_->end foreach $one, $two;
until_down("SELECT state = 'ready' FROM rose.stat_subscription_tables WHERE relname = 't'");
streams();
up("COMMIT PREPARED 'z'; INSERT INTO t VALUES (100, 1, 'mark')");
wait_for_apply($upstream, $replica, 'postgres', 's', 't');
is(down('SELECT count(*) FROM t'), 11, 'another table is paused: all of it is here');
down("SELECT rose.resume_table('s', 'other')");
streams();
wait_for_apply($upstream, $replica);
is(down('SELECT count(*) FROM t'), 11, '... when it is resumed');
is(table_hash($replica, 'other'), table_hash($upstream, 'other'), '... the paused one is as it should be');
done_testing();
