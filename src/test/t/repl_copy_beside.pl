
# Copies beside the stream: without a process for them the worker makes them itself, one at a time, and streams in between; what is
# in progress on the upstream is not sent again for each of them; a table that could not be copied is told of, however
# many there are; and how far a copy is.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", 'rose.max_copy_workers = 0', "rose.debug_copied_patience = '1h'");
my $rows = 1000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub until_table { my ($table, $condition, $what) = @_; return until_down("$condition FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass", $what) }
sub worker { return down('SELECT pid FROM rose.stat_subscription') }
sub workers { my ($n) = @_; down("ALTER SYSTEM SET rose.max_copy_workers = $n; SELECT pg_reload_conf()"); return }
sub same { my ($what, @tables) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }

# Streams the subscription's slot has begun of transactions in progress.
sub begun { return up("SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = 's'") }

sub add_tables
{
	my @tables = @_;

	foreach my $table (@tables)
	{
		my $columns = $table =~ /nokey/ ? '(id int, v text)' : '(id int, v text, PRIMARY KEY (id))';

		up("CREATE TABLE $table $columns; INSERT INTO $table SELECT i, 'row ' || i FROM generate_series(1, $rows) i");
		down("CREATE TABLE $table $columns USING rose");
	}
	up('ALTER PUBLICATION p ADD TABLE ' . join ', ', @tables);
	return;
}

sub refresh { return down("SELECT rose.alter_subscription('s', refresh => true)") }
sub synced { return down("SELECT rose.wait_for_sync('s', $timeout)") }

up('CREATE TABLE live (id int PRIMARY KEY, v text); CREATE SCHEMA "odd ""name""; drop"; CREATE PUBLICATION p FOR TABLE live');
down('CREATE TABLE live (id int PRIMARY KEY, v text) USING rose; CREATE SCHEMA "odd ""name""; drop"');
subscribe($upstream, $replica);

# --- in the worker, one after the other, and the stream goes on in between; it is not even begun anew
my @odd = ('nokey', '"odd ""name""; drop"."T a""ble"');
add_tables(@odd, 'third');
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('copy-committed', 'wait', 'worker')");
my $open = RoseTest::Session->new($upstream);
refresh();
wait_for_stop($replica);
my $worker = worker();
is(down("SELECT string_agg(state, ' ' ORDER BY state) FROM rose.stat_subscription_tables WHERE relname <> 'live'"), 'copied init init', 'the worker copies one at a time');
is(down("SELECT state FROM rose.stat_subscription"), 'copying', 'and says so');
up("INSERT INTO live VALUES (1, 'beside')");
is(down('SELECT count(*) FROM live'), 0, 'it cannot stream meanwhile');
$control->run("SELECT go_on('copy-committed'), stop_at('copy-committed', 'wait', 'worker', 1)");
wait_for_stop($replica);
is(down('SELECT count(*) FROM live'), 1, 'but before the next ones');
is(worker(), $worker, 'without a new worker');
$control->run("SELECT go_on('copy-committed')");
synced();
same('without processes, all is copied', 'live', @odd, 'third');

# --- whoever wants something of the worker does not wait for the copy that it makes
$control->run("SELECT stop_at('copy-reading', 'wait', 'worker')");
down("SELECT rose.alter_subscription('s', resync => 'third')");
wait_for_stop($replica);
my $session = RoseTest::Session->new($replica);
$session->start("SELECT rose.pause_table('s', 'live')");
until_down("count(*) > 0 FROM pg_stat_activity WHERE query ~ 'pause_table' AND wait_event = 'Extension' AND pid <> pg_backend_pid()", 'somebody waits');
# where it would wait if it went on, as the next one does
$control->run("SELECT stop_at('copy-loaded', 'wait', 'worker'), go_on('copy-reading')");
$session->finish;
is(down("SELECT state FROM rose.stat_subscription_tables WHERE relname = 'live'"), 'paused', 'a copy of the worker is given up for others');
wait_for_stop($replica);
$control->run("SELECT go_on('copy-loaded')");
down("SELECT rose.resume_table('s', 'live')");
synced();
same('and begins anew', 'live', @odd, 'third');

# --- a table that somebody has locked is not waited for
add_tables('locked');
$session->run('BEGIN; LOCK TABLE locked IN SHARE MODE');
refresh();
until_table('locked', "state = 'init' AND last_error ~ 'locked'", 'it is tried again later');
up("INSERT INTO live VALUES (2, 'beside')");
wait_for_apply($upstream, $replica, undef, undef, 'live');
$session->run('ROLLBACK');
down("SELECT rose.alter_subscription('s')");
synced();
same('when it is not locked any more', 'live', 'locked');

# nor by a process that copies, for longer than others can wait
workers(1);
add_tables('kept', 'free');
$session->run('BEGIN; LOCK TABLE kept IN SHARE MODE');
refresh();
until_table('free', "state IN ('copied', 'ready')", 'another table has its turn');
until_table('kept', "last_error ~ 'waiting for table \"kept\", which is locked' AND state IN ('init', 'copying')", 'one that is locked is tried again');
$session->run('ROLLBACK');
synced();
same('and copied', 'live', 'kept', 'free');

# --- what is in progress is not sent again for each table
workers(2);
down("ALTER SYSTEM SET rose.debug_copied_patience = 0; SELECT pg_reload_conf()");
add_tables('first', 'second');
$control->run("SELECT stop_at('copy-found', 'wait', 'worker', 1), stop_at('copy-loaded', 'wait', 'worker')");
refresh();
until_down("count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 'two tables are being copied');
my $before = begun();
$open->run("BEGIN; INSERT INTO live SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(100001, 101000) g");
until_down("stream_transactions = 1 FROM rose.stat_subscription", 'a transaction is in progress');
$control->run("SELECT go_on('copy-loaded')");
until_down("count(*) = 1 FROM rose.stat_subscription_tables WHERE state = 'copied'", 'one of them is copied');
foreach my $round (1 .. 3)
{
	up("INSERT INTO live VALUES (10 + $round, 'beside')");
	wait_for_apply($upstream, $replica, undef, undef, 'live');
}
is(down("SELECT count(*) FROM rose.stat_subscription_tables WHERE state = 'copied'"), 1, 'it waits for the other one');
$control->run("SELECT go_on('copy-found')");
synced();
until_down("stream_transactions = 1 FROM rose.stat_subscription", 'it comes again');
# what it has sent is counted a moment later
$upstream->poll_query_until('postgres', "SELECT stream_txns >= $before + 2 FROM pg_stat_replication_slots WHERE slot_name = 's'") or die 'it has not come again';
is(begun() - $before, 2, 'once for both');
$open->run('COMMIT');
same('all of it is there', 'live', 'first', 'second');

# --- who waits is told of a table that could not be copied, also of more than are counted
down("CREATE TABLE here (id int PRIMARY KEY) USING rose");
up("CREATE TABLE here (id int PRIMARY KEY, v text); ALTER PUBLICATION p ADD TABLE here");
$control->run("SELECT stop_at('table-counts-room', 'skip', 'any', 0, 0)");
refresh();
until_table('here', "state = 'error'", 'a table that does not fit');
like(error_of($replica, "SELECT rose.wait_for_sync('s', 20)"), qr/1 table\(s\) of rose subscription "s" could not be copied/, 'is told of');
$control->run("SELECT stop_clear()");
down("ALTER TABLE here ADD v text; SELECT rose.alter_subscription('s')");
synced();
same('until it does', 'here');

# --- how far a copy is: with a row filter, of a partitioned table, of one that nobody has analyzed, or before most of it was there
up(<<'SQL');
CREATE TABLE filtered (id int PRIMARY KEY, v text); INSERT INTO filtered SELECT i, 'row' FROM generate_series(1, 10000) i; ANALYZE filtered;
CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1001);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (1001) TO (100000);
INSERT INTO parted SELECT i, 'row' FROM generate_series(1, 2000) i; ANALYZE parted_1;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE young (id positive PRIMARY KEY, v text); ANALYZE young; INSERT INTO young SELECT i, repeat('row', 10) FROM generate_series(1, 2000) i;
CREATE TABLE wide (id int PRIMARY KEY, v text); INSERT INTO wide SELECT i, repeat('wide', 20000) FROM generate_series(1, 20) i; ANALYZE wide;
ALTER PUBLICATION p SET (publish_via_partition_root = true);
ALTER PUBLICATION p ADD TABLE filtered WHERE (id <= 1000), parted, young, wide;
SQL
my @measured = qw(filtered parted young wide);
down("CREATE TABLE $_ (id int PRIMARY KEY, v text) USING rose") foreach @measured;
workers(4);
# where 512 rows of the first three were read
$control->run("SELECT stop_at('copy-reading', 'wait', 'worker', 0, 4)");
refresh();
until_down("count(*) = 4 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 'four copies are at it');
foreach my $table (@measured)
{
	my $expected = { filtered => 1000, parted => 2000, young => 2000, wide => 20 }->{$table};
	my $is_right = "phase = 'reading' AND rows > 0 AND bytes > rows AND percent BETWEEN 50.0 * rows / $expected AND 200.0 * rows / $expected AND percent < 100"
	  . " AND time_left BETWEEN interval '0' AND 4 * (clock_timestamp() - started) * $expected / rows AND failures IS NULL";

	is(down("SELECT $is_right FROM rose.stat_copy_progress WHERE relname = '$table'"), 't', "$table: how far it is")
	  or diag down("SELECT p, clock_timestamp() FROM rose.stat_copy_progress p WHERE relname = '$table'");
}
$control->run("SELECT go_on('copy-reading')");
synced();
same('all were copied', qw(parted young wide));
is(down('SELECT count(*) FROM filtered'), 1000, 'and of one what is published');

$_->stop foreach $replica, $upstream;
done_testing();
