# two_phase is asked for while something holds back the position from which the stream may begin: the upstream sends then what is prepared in between twice,
# once without its changes. And of transactions that have changed nothing it sends no PREPARE, or an empty one.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 40', 'autovacuum = off');
plan skip_all => 'the upstream is too old' if $upstream->pg_version < 15;
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "wal_receiver_status_interval = '1s'", "rose.copy_piece_size = '100kB'", 'rose.max_copy_workers = 1', 'autovacuum = off');

stop_points_create($replica);
prepared_tables($upstream, $replica);

# ---- for a table that was paused ----
foreach my $rows (20, 3000)
{
	foreach my $committed ('before', 'after')
	{
		my $resume = "SELECT rose.resume_table('s', 'other')";

		subscribe($upstream, $replica);
		streams();
		down("SELECT rose.pause_table('s', 'other')");
		streams();
		up("INSERT INTO other VALUES (0, 'x')");
		prepare('b', changes(1000000, $rows));
		up("INSERT INTO t VALUES (9999999, 0, 'x')");
		wait_for_apply($upstream, $replica, 'postgres', 's', 't');
		down(q{SELECT rose.alter_subscription('s', two_phase => true)});
		streams();
		down(q{SELECT rose.alter_subscription('s', enabled => false)});
		up("COMMIT PREPARED 'b'") if $committed eq 'before';
		down(q{SELECT rose.alter_subscription('s', enabled => true)});
		down($resume);
		streams();
		up("COMMIT PREPARED 'b'") if $committed eq 'after';
		up("INSERT INTO other VALUES (1, 'y')");
		equal("$rows rows, committed $committed the table is resumed");
		down("SELECT rose.drop_subscription('s'); TRUNCATE t, q, nokey, other");
		up('TRUNCATE t, q, nokey, other');
	}
}

# ---- for one that is copied in pieces ----
up(q{CREATE TABLE big (id int PRIMARY KEY, k int, v text); INSERT INTO big SELECT i, i % 100, repeat('row ' || i, 8) FROM generate_series(1, 6000) i});
down('CREATE TABLE big (id int PRIMARY KEY, k int, v text) USING rose');
subscribe($upstream, $replica);
up('ALTER PUBLICATION p ADD TABLE big');
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('piece-committed', 'wait')");
down("SELECT rose.alter_subscription('s', refresh => true)");
wait_for_stop($replica);
prepare('pieces', "UPDATE big SET k = -1 WHERE id < 50 OR id > 5950; DELETE FROM big WHERE id BETWEEN 60 AND 70; INSERT INTO t VALUES (1, 1, 'x')");
up("INSERT INTO t VALUES (2, 2, 'x')");
wait_for_apply($upstream, $replica, 'postgres', 's', 't');
down(q{SELECT rose.alter_subscription('s', two_phase => true)});
until_up(q{SELECT two_phase FROM pg_replication_slots WHERE slot_name = 's'});
up("INSERT INTO t VALUES (3, 3, 'x')");
wait_for_apply($upstream, $replica, 'postgres', 's', 't');
$control->run("SELECT stop_clear(), go_on('piece-committed')");
up("COMMIT PREPARED 'pieces'; INSERT INTO t VALUES (4, 4, 'x')");
down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
equal('copied in pieces', 'big', 't');
is(down('SELECT count(*) FROM big WHERE k = -1'), 99, 'copied in pieces: all is changed');
$control->end;

# ---- transactions that have changed nothing ----
up('CREATE SEQUENCE sq; CREATE UNLOGGED TABLE ul (id int)');
my %nothing = (locks => 'SELECT count(*) FROM (SELECT * FROM t WHERE id < 10 FOR UPDATE) x', sequence => q{SELECT nextval('sq')}, unlogged => 'INSERT INTO ul VALUES (1)',
	undone => q{SAVEPOINT a; INSERT INTO t VALUES (1000, 1, 'x'); ROLLBACK TO a});
foreach my $what (sort keys %nothing)
{
	foreach my $end (qw(COMMIT ROLLBACK))
	{
		prepare($what, $nothing{$what});
		up("INSERT INTO other SELECT coalesce(max(id), 0) + 1, '$what' FROM other");
		equal("$what: it is prepared");
		crash_and_restart($replica) if $what eq 'locks';
		streams();
		up("$end PREPARED '$what'");
		up("INSERT INTO other SELECT max(id) + 1, '$what' FROM other");
		equal("$what: $end");
	}
}
is(down('SELECT state || blocked_reason IS NULL FROM rose.stat_subscription'), 't', 'nothing is blocked');

# ---- what a transaction in blocks has described is known as soon as it is prepared ----
foreach my $rows (4000, 30)
{
	my $pid = down('SELECT pid FROM rose.stat_subscription');

	down("SELECT pg_terminate_backend($pid)");
	until_down("SELECT state = 'streaming' AND pid <> $pid FROM rose.stat_subscription");
	prepare('describes', changes(2000000 + $rows, $rows));
	up("INSERT INTO t VALUES (-$rows, 1, 'x'); UPDATE q SET c = c || 'y'; INSERT INTO nokey VALUES ($rows, 'z')");
	equal("$rows rows: descriptions");
	up("ROLLBACK PREPARED 'describes'; DELETE FROM t WHERE id = -$rows");
	equal("$rows rows: descriptions of one that is rolled back");
}

# ---- a list of columns that grows meanwhile ----
up('CREATE TABLE cl (id int PRIMARY KEY, a int, b int); ALTER PUBLICATION p ADD TABLE cl (id, a)');
down('CREATE TABLE cl (id int PRIMARY KEY, a int, b int) USING rose');
down("SELECT rose.alter_subscription('s', refresh => true); SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
up('INSERT INTO cl VALUES (11, 1)');
equal('a list', 'cl');
prepare('cl', 'INSERT INTO cl (id, a) VALUES (12, 2)');
up('ALTER PUBLICATION p SET TABLE t, q, nokey, other, big, cl; INSERT INTO cl VALUES (13, 3, 3)');
wait_for_apply($upstream, $replica);
up("COMMIT PREPARED 'cl'; INSERT INTO cl VALUES (14, 4, 4)");
equal('a list that has grown', 'cl');

down(q{SELECT rose.spill('other')});
until_down('SELECT count(*) = 0 FROM rose.subscription_prepared WHERE number > 0');
pass('nothing is left of any');
done_testing();
