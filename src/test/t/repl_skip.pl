
# One transaction is passed over: for the table that has failed at it, once, and for no other; said, counted, and not
# forgotten in a crash.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has errors of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '4MB'", 'restart_after_crash = on', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'");
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub why { return down('SELECT state, blocked_reason, last_error FROM rose.stat_subscription') . "\n" . down('SELECT relid::regclass, state, error_lsn, last_error FROM rose.stat_subscription_tables') }
sub skip { return down("SELECT rose.alter_subscription('s', skip_lsn => '$_[0]')") }
sub ids { return down("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $_[0]") }

# Returns where.
sub failed
{
	my ($table, $name) = @_;

	until_down("SELECT state = 'failed' FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass")
	  or die "$name: not failed: " . why();
	return down("SELECT error_lsn FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass");
}

sub goes_on
{
	my ($name) = @_;

	until_down("SELECT state = 'streaming' FROM rose.stat_subscription") or die "$name: still stopped: " . why();
	wait_for_apply($upstream, $replica);
	ok(until_down("SELECT count(*) = 0 FROM rose.stat_subscription_tables WHERE state <> 'ready' OR last_error IS NOT NULL OR error_lsn IS NOT NULL"), "$name: nothing is wrong any more") or diag why();
	return;
}

foreach my $table (qw(t other bad worse))
{
	up("CREATE TABLE $table (id int PRIMARY KEY, v text)");
	down("CREATE TABLE $table (id int PRIMARY KEY, v text) USING rose");
}
up('CREATE TABLE nokey (id int, v text)');
down('CREATE TABLE nokey (id int NOT NULL, v text) USING rose');
up('CREATE PUBLICATION p FOR ALL TABLES');
subscribe($upstream, $replica);
down('ALTER TABLE bad ADD CHECK (id < 100) NOT VALID; ALTER TABLE worse ADD CHECK (id < 100) NOT VALID');

# --- what is refused
like(error_of($replica, "SELECT rose.alter_subscription('s', skip_lsn => '0/123')"), qr/no table of rose subscription "s" has failed at 0\/123.*HINT/s, 'where nothing has failed');
up("INSERT INTO bad VALUES (1, 'before'); INSERT INTO other VALUES (1, 'before')");
up("BEGIN; INSERT INTO other VALUES (2, 'in it'); INSERT INTO bad VALUES (2, 'in it'), (200, 'in it'), (3, 'in it'); UPDATE bad SET v = 'lost' WHERE id = 1; INSERT INTO other VALUES (3, 'in it'); COMMIT");
up("INSERT INTO bad VALUES (4, 'after'); INSERT INTO other VALUES (4, 'after')");
my $at = failed('bad', 'first');
like(error_of($replica, "SELECT rose.alter_subscription('s', skip_lsn => '0/123')"), qr/no table of rose subscription "s" has failed at 0\/123/, 'another position');

# --- said, and taken back
$replica->stop;		# so that no worker is quicker
$replica->append_conf('postgresql.conf', 'rose.max_subscriptions = 4');
$replica->start;
$at = failed('bad', 'after a restart');
down("SELECT rose.alter_subscription('s', enabled => false)");
skip($at);
is(down("SELECT state FROM rose.stat_subscription_tables WHERE relid = 'bad'::regclass"), 'skipping', 'it will be passed over');
skip('0/0');
is(down("SELECT state FROM rose.stat_subscription_tables WHERE relid = 'bad'::regclass"), 'failed', 'or not');
down("SELECT rose.alter_subscription('s', enabled => true)");
is(failed('bad', 'taken back'), $at, 'it fails again');

# --- passed over
my $log = -s $replica->logfile;
my $skipped = down('SELECT skipped FROM rose.stat_subscription');
skip($at);
goes_on('first');
is(ids('bad'), '1 4', 'the table lacks the transaction, and that only');
is(ids('other'), '1 2 3 4', 'the other one has all of it');
is(down('SELECT v FROM bad WHERE id = 1'), 'before', 'whatever it did');
is(down('SELECT skipped FROM rose.stat_subscription'), $skipped + 4, 'counted');
like(slurp_file($replica->logfile, $log), qr/has passed over 4 changes of table "public.bad" in the transaction committed at \Q$at\E/, 'and said');
is(down("SELECT durable_lsn > '$at' FROM rose.subscription_state"), 't', 'and done for good');
crash_and_restart($replica);
goes_on('after a crash');
is(ids('bad'), '1 4', 'as before');

# The next one fails as well.
up("INSERT INTO bad VALUES (300, 'x')");
cmp_ok(failed('bad', 'the next one'), 'gt', '', 'the next one');
skip(failed('bad', 'the next one'));
goes_on('the next one');

# --- two tables fail in one transaction, which truncates a third one, and one without key
up("INSERT INTO nokey VALUES (1, 'before'), (2, 'before'); INSERT INTO t VALUES (1, 'before')");
wait_for_apply($upstream, $replica);
up("BEGIN; TRUNCATE t; INSERT INTO t VALUES (2, 'in it'); INSERT INTO nokey VALUES (3, 'in it'); INSERT INTO bad VALUES (400, 'x'); INSERT INTO worse VALUES (400, 'x'); COMMIT;"
	. " INSERT INTO nokey VALUES (4, 'after'); INSERT INTO bad VALUES (5, 'after'); INSERT INTO worse VALUES (5, 'after')");
$at = failed('bad', 'the first of two');
skip($at);
is(failed('worse', 'the second of two'), $at, 'the second one fails there, too');
is(down("SELECT state FROM rose.stat_subscription_tables WHERE relid = 'bad'::regclass"), 'skipping', 'and the first one is still to be passed over');
crash_and_restart($replica);
is(failed('worse', 'after a crash'), $at, 'after a crash as well');
skip($at);
goes_on('both');
is(ids('t'), '2', 'the table that was truncated');
is(ids('nokey'), '1 2 3 4', 'and the one without key');
is(ids('bad') . '|' . ids('worse'), '1 4 5|5', 'those that were passed over');

# --- a transaction of which only the table's changes are there, a TRUNCATE of it among them; a large one
up("BEGIN; TRUNCATE bad; INSERT INTO bad SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 30000) g; COMMIT; INSERT INTO bad VALUES (6, 'after') ON CONFLICT (id) DO UPDATE SET v = 'after'");
skip(failed('bad', 'a large one'));
goes_on('a large one');
is(ids('bad'), '1 4 5 6', 'as if it had not been');
up('DELETE FROM bad WHERE id NOT IN (1, 4, 5, 6)');

# --- crashes while it is passed over
foreach my $stop (qw(state-written))
{
	up("INSERT INTO bad VALUES (500, 'x'); INSERT INTO other VALUES (500, 'x') ON CONFLICT (id) DO UPDATE SET v = other.v || 'y'; INSERT INTO nokey VALUES (500, 'x')");
	$at = failed('bad', $stop);
	up('DELETE FROM bad WHERE id = 500');
	down("SELECT rose.alter_subscription('s', enabled => false)");
	skip($at);
	my $control = RoseTest::Session->new($replica);
	my $begin = -s $replica->logfile;
	$control->run("SELECT stop_at('$stop', 'crash', 'worker')");
	eval { down("SELECT rose.alter_subscription('s', enabled => true)") };
	for (1 .. 10 * $timeout)
	{
		last if slurp_file($replica->logfile, $begin) =~ /all server processes terminated; reinitializing/;
		usleep(100_000);
	}
	eval { $control->end };
	wait_until_up($replica);
	goes_on("a crash at $stop");
	is(ids('bad'), '1 4 5 6', "a crash at $stop: not there");
	is(down('SELECT v FROM other WHERE id = 500'), up('SELECT v FROM other WHERE id = 500'), "a crash at $stop: the other one");
	is(down('SELECT count(*) FROM nokey WHERE id = 500'), up('SELECT count(*) FROM nokey WHERE id = 500'), "a crash at $stop: the one without key");
}

# --- of a paused table
down("SELECT rose.alter_subscription('s', on_error => 'pause')");
up("BEGIN; INSERT INTO bad VALUES (600, 'x'); INSERT INTO other VALUES (600, 'in it'); COMMIT; INSERT INTO bad VALUES (7, 'after'); INSERT INTO other VALUES (601, 'after')");
until_down("SELECT state = 'paused' FROM rose.stat_subscription_tables WHERE relid = 'bad'::regclass") or die why();
wait_for_apply($upstream, $replica, 'postgres', 's', 'other');
is(ids('bad'), '1 4 5 6', 'paused');
up("INSERT INTO nokey VALUES (700, 'x')");
wait_for_apply($upstream, $replica, 'postgres', 's', 'nokey');
skip(down("SELECT error_lsn FROM rose.stat_subscription_tables WHERE relid = 'bad'::regclass"));
goes_on('paused');
is(ids('bad'), '1 4 5 6 7', 'it goes on after that transaction');
is(table_hash($replica, 'other'), table_hash($upstream, 'other'), 'and the others have all');
is(down('SELECT count(*) FROM nokey'), up('SELECT count(*) FROM nokey'), 'once');

$replica->stop;
$upstream->stop;
done_testing();
