# two_phase: transactions come when they are prepared, are kept, and applied when they are committed. What is kept survives whatever its position
# survives, as long as the upstream does not send it again.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 40', 'autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.memtable_size = '4MB'", "wal_receiver_status_interval = '1s'", 'autovacuum = off', 'restart_after_crash = on');
my $conninfo = $upstream->connstr('postgres');

sub slot { return up("SELECT $_[0] FROM pg_replication_slots WHERE slot_name = 's'") }
sub alter { down("SELECT rose.alter_subscription('s', $_[0])"); return }
sub create { my (@options) = @_; return 'SELECT rose.create_subscription(' . join(', ', "'s'", "\$\$$conninfo\$\$", "'{p}'", @options) . ')' }
sub kept { return down(q{SELECT coalesce(string_agg(gid, ' ' ORDER BY gid), '') FROM rose.stat_subscription_prepared}) }

# Nothing is kept that nobody needs any more.
sub nothing_left
{
	up('SELECT pg_log_standby_snapshot()') if up(q{SELECT count(*) FROM pg_proc WHERE proname = 'pg_log_standby_snapshot'});
	down(q{SELECT rose.spill('other')});
	until_down('SELECT count(*) = 0 FROM rose.subscription_prepared WHERE number > 0');
	return pass("$_[0]: nothing is left of them");
}

prepared_tables($upstream, $replica);

# ---- the option ----
if ($upstream->pg_version < 15)
{
	like(error_of($replica, create('two_phase => true')), qr/cannot have two_phase with an upstream of PostgreSQL 1[0-4]/, 'an old upstream cannot do it');
	done_testing();
	exit;
}
if ($upstream->pg_version < 18 && $upstream->pg_version >= 17)
{
	like(error_of($replica, create('two_phase => true', 'failover => true')), qr/cannot have two_phase and failover with an upstream of PostgreSQL 17/, 'not with failover');
}
like(error_of($replica, "CREATE SERVER x FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', two_phase 'some')"), qr/two_phase requires a Boolean value/, 'its values');
subscribe($upstream, $replica, undef, 'two_phase => true');
streams();
is(slot('two_phase') . down('SELECT two_phase FROM rose.stat_subscription'), 'tt', 'the slot is of that kind, and the view says so');
like(scalar(qx{pg_dump -s -d "@{[$replica->connstr('postgres')]}"}), qr/two_phase 'true'/, 'a dump has it');
like(error_of($replica, q{SELECT rose.alter_subscription('s', two_phase => false)}), qr/cannot take two_phase from rose subscription "s".*HINT:  With accept => 'resync'/s, 'it stays');

# ---- what is kept ----
prepare('one', changes(1, 50));
up(q{INSERT INTO other VALUES (1, 'beside')});
equal('nothing of it is seen');
is(kept(), 'one', 'it is kept');
is(down('SELECT prepare_time > now() - interval $$1 hour$$ AND bytes > 1000 AND subname = $$s$$ FROM rose.stat_subscription_prepared'), 't', 'the view knows of it');
down('CREATE ROLE reader; GRANT pg_read_all_data TO reader');
is(down('SET ROLE reader; SELECT DISTINCT data::text FROM rose.subscription_prepared'), '********', 'who may read all tables does not see rows in it');
is(down(q{SELECT count(*) > 0 FROM rose.subscription_prepared WHERE data::text ~ '^\\\\x'}), 't', 'a superuser does');
my $pid = down('SELECT pid FROM rose.stat_subscription');
down("SELECT rose.spill('other'); SELECT pg_terminate_backend($pid)");
until_down("SELECT state = 'streaming' AND pid <> $pid FROM rose.stat_subscription");
is(kept(), 'one', 'it is still kept by another worker');
up("COMMIT PREPARED 'one'");
equal('and applied');
is(kept(), '', 'it is none that is prepared then');
nothing_left('one');
prepare('none', 'CREATE TABLE unpublished (id int)');
prepare('two', "INSERT INTO t VALUES (-1, 1, 'x')");
up("ROLLBACK PREPARED 'two'; INSERT INTO other VALUES (2, 'beside'); COMMIT PREPARED 'none'");
equal('one that is rolled back');
is(down(q{SELECT count(*) FROM rose.subscription_prepared WHERE gid = 'two'}), 0, '... is gone at once');

# ---- PREPARE waits for a synchronous replica, and is kept there then ----
up("ALTER SYSTEM SET synchronous_standby_names = 's'");
$upstream->reload;
down("ALTER SYSTEM SET rose.spill_interval = '200ms'");
$replica->reload;
until_up(q{SELECT bool_or(sync_state = 'sync') FROM pg_stat_replication});
prepare('sync', changes(200, 20));
crash_and_restart($replica);
is(kept(), 'sync', 'what the upstream takes for safe is here after a crash');
streams();
up("COMMIT PREPARED 'sync'; INSERT INTO other VALUES (3, 'beside')");
up('ALTER SYSTEM RESET synchronous_standby_names');
$upstream->reload;
down('ALTER SYSTEM RESET rose.spill_interval');
$replica->reload;
equal('a synchronous replica');

# ---- all that happens to others ----
prepared_rounds();
prepared_meanwhile();
nothing_left('rounds');
alter('streaming => false');
prepared_rounds();
nothing_left('without streaming');
alter(q{streaming => true, durability => 'local'});
prepared_rounds();
nothing_left('with durability local');
alter(q{durability => 'upstream'});

# ---- a crash before the batch commits that keeps, or applies, one ----
stop_points_create($replica);
foreach my $point (qw(prepared-kept prepared-finished))
{
	my $log = -s $replica->logfile;

	down("SELECT stop_at('$point', 'crash')");
	prepare($point, changes(300000 + 100 * length $point, 30));
	if ($point eq 'prepared-finished')
	{
		wait_for_apply($upstream, $replica);
		up("COMMIT PREPARED '$point'");
	}
	$replica->wait_for_log(qr/database system is ready to accept connections/, $log);
	wait_until_up($replica);
	streams();
	up("COMMIT PREPARED '$point'") if $point eq 'prepared-kept';
	equal("a crash at $point");
}
nothing_left('crashes');

# ---- the stream goes back to before, between, and after ----
prepare('back', changes(400000, 30));
up(q{INSERT INTO other SELECT max(id) + 1, 'between' FROM other});
down("SELECT rose.pause_table('s', 't')");
streams();
up("COMMIT PREPARED 'back'; INSERT INTO other SELECT max(id) + 1, 'after' FROM other");
wait_for_apply($upstream, $replica, 'postgres', 's', 'q');
down("SELECT rose.spill('q')");
is(down(q{SELECT count(*) > 0 FROM rose.subscription_prepared WHERE gid = 'back'}), 't', 'it stays for a table that is paused');
crash_and_restart($replica);
down("SELECT rose.resume_table('s', 't')");
streams();
equal('a table that was paused gets it');
nothing_left('resumed');

# ---- what is altered here after it came does not make it unreadable ----
prepare('retyped', changes(410000, 30));
up(q{INSERT INTO other SELECT max(id) + 1, 'between' FROM other});
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('t')");
down('ALTER TABLE t ALTER v TYPE numeric');
up("COMMIT PREPARED 'retyped'");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('t')");
down('ALTER TABLE t ALTER v TYPE int');
equal('another type here');

# ---- one that was prepared before the upstream was asked ----
down("SELECT rose.drop_subscription('s')");
down('TRUNCATE t, q, nokey, other, late');
subscribe($upstream, $replica);
prepare('before', changes(60500000, 3000));
prepare('before2', changes(60510000, 50));
up(q{INSERT INTO other SELECT max(id) + 1, 'between' FROM other});
wait_for_apply($upstream, $replica);
alter('two_phase => true');
streams();
prepare('since', changes(60520000, 50));
up("COMMIT PREPARED 'before'; COMMIT PREPARED 'since'");
equal('prepared before and since');
crash_and_restart($replica);
streams();
up("COMMIT PREPARED 'before2'");
equal('after a crash, too');

# ---- taken away ----
prepare('taken', changes(60530000, 50));
up(q{INSERT INTO other SELECT max(id) + 1, 'between' FROM other});
wait_for_apply($upstream, $replica);
alter('enabled => false');
until_down('SELECT pid IS NULL FROM rose.stat_subscription');
up("COMMIT PREPARED 'taken'");
alter(q{two_phase => false, accept => 'resync', enabled => true});
streams();
down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
is(slot('two_phase'), 'f', 'with accept another slot is made');
equal('copied anew');
is(down('SELECT count(*) FROM rose.subscription_prepared WHERE number > 0'), 0, 'nothing is kept any more');

# ---- a slot whose prepared transaction somebody else has got ----
down("SELECT rose.drop_subscription('s')");
down('TRUNCATE t, q, nokey, other, late');
up("SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)");
prepare('lost', changes(60540000, 50));
up(q{INSERT INTO other SELECT max(id) + 1, 'between' FROM other});
up(q{SELECT count(*) FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '3', 'publication_names', 'p', 'two_phase', 'on')});
down(create('create_slot => false', 'copy_data => false', 'two_phase => true'));
streams();
up("COMMIT PREPARED 'lost'");
until_down("SELECT state = 'blocked' AND blocked_reason = 'slot_two_phase' FROM rose.stat_subscription");
like(down('SELECT last_error FROM rose.stat_subscription'), qr/committed prepared transaction "lost" at .*another consumer.*accept => 'resync'/s, 'that is an error');
alter(q{accept => 'resync'});
streams();
down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
is(slot('two_phase'), 't', 'the slot is as it was');
equal('copied');
prepare('found', changes(60550000, 50));
crash_and_restart($replica);
streams();
up("COMMIT PREPARED 'found'");
equal('and on from there');

# ---- its table is locked here: what came before it is seen all the same ----
prepare('waits', changes(60555000, 20));
equal('one more is kept', 'other');
down(q{SELECT rose.spill('other')});
alter('enabled => false');
until_down('SELECT pid IS NULL FROM rose.stat_subscription');
my $locker = RoseTest::Session->new($replica);
$locker->run('BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE');
my $before = up(q{INSERT INTO other SELECT max(id) + 1, 'before it' FROM other RETURNING id});
up("COMMIT PREPARED 'waits'");
alter('enabled => true');
until_down("SELECT count(*) = 1 FROM other WHERE id = $before");
pass('what came before one that waits for a lock is seen');
$locker->run('ROLLBACK');
$locker->end;
equal('and the one that waited, in the end');

# ---- dropped with what is kept ----
prepare('dropped', changes(60560000, 50));
up(q{INSERT INTO other SELECT max(id) + 1, 'between' FROM other});
wait_for_apply($upstream, $replica);
is(kept(), 'dropped', 'one is kept');
down("SELECT rose.drop_subscription('s')");
is(down('SELECT count(*) FROM rose.subscription_prepared WHERE number > 0'), 0, 'dropped with the subscription');
done_testing();
