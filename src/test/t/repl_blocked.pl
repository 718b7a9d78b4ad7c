
# What a table and its subscription say of an error that stops them: both at one moment, until it is mended and that is committed, or
# the stream has come past it. And who waits for a position right after that is not told of what was.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no subscriptions of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", 'max_prepared_transactions = 2');
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub end_of_wal { return up('SELECT pg_current_wal_flush_lsn()') }
sub wait_for { return "SELECT rose.wait_for_lsn('s', '" . end_of_wal() . "', " . ($_[0] // $timeout) . ')' }
sub same { my ($name) = @_; return is(table_hash($replica, $_), table_hash($upstream, $_), "$name: $_") foreach qw(t other) }

up('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY, v int); CREATE PUBLICATION p FOR ALL TABLES');
down('CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; CREATE TABLE other (id int PRIMARY KEY, v int) USING rose');
subscribe($upstream, $replica);
my $said = "SELECT t.state, s.state, s.blocked_reason FROM rose.stat_subscription s JOIN rose.stat_subscription_tables t USING (subid) WHERE t.relid = 't'::regclass";

# Looks for $1 milliseconds: what was said, but for what is expected.
down(<<'END');
CREATE FUNCTION watch(ms int, expected text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + ms * interval '1 ms';
	says text;
	others text[] := '{}';
BEGIN
	WHILE clock_timestamp() < until LOOP
		says := (SELECT concat_ws(' ', t.state, s.state, s.blocked_reason) FROM rose.stat_subscription s JOIN rose.stat_subscription_tables t USING (subid) WHERE t.relid = 't'::regclass);
		IF says <> expected AND says <> ALL (others) THEN others := others || says; END IF;
		PERFORM pg_sleep(0.001);
	END LOOP;
	RETURN array_to_string(others, ', ');
END $$;
-- What is there when the first of the two is.
CREATE FUNCTION await(by_table bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + interval '180 s';
BEGIN
	LOOP
		IF by_table THEN
			EXIT WHEN (SELECT state = 'failed' FROM rose.stat_subscription_tables WHERE relid = 't'::regclass);
		ELSE
			EXIT WHEN (SELECT blocked_reason = 'table_error' FROM rose.stat_subscription);
		END IF;
		IF clock_timestamp() > until THEN RETURN 'neither'; END IF;
	END LOOP;
	RETURN (SELECT concat_ws(' ', t.state, s.state, s.blocked_reason) FROM rose.stat_subscription s JOIN rose.stat_subscription_tables t USING (subid) WHERE t.relid = 't'::regclass);
END $$;
END

my $id = 0;
my $control = RoseTest::Session->new($replica);
my $session = RoseTest::Session->new($replica);
my $mend = 'ALTER TABLE t DROP CONSTRAINT well';

# A change that the table here does not take.
sub break
{
	down('ALTER TABLE t ADD CONSTRAINT well CHECK (v > 0) NOT VALID');
	$id++;
	return up("INSERT INTO other VALUES ($id, 1); INSERT INTO t VALUES ($id, -1); INSERT INTO other VALUES (-$id, 1)");
}
sub stopped { break(); return is(down('SELECT await(true)'), 'failed blocked table_error', $_[0]) }

# --- in one moment
$control->run("SELECT stop_at('table-error-noted', 'wait', 'worker')");
break();
wait_for_stop($replica);
like(down($said), qr/^ready\|(?!blocked).*\|$/, 'before it is committed nothing is said');
$session->start('SELECT await(true)');
$control->run("SELECT go_on('table-error-noted')");
is($session->finish, 'failed blocked table_error', 'a table that has failed has stopped its subscription');
down("$mend; SELECT rose.alter_subscription('s'); " . wait_for());
is(down($said), 'ready|streaming|', 'mended, and who waits for its rows sees that it is well');
same('mended');
foreach my $round (1 .. 3)
{
	break();
	is(down('SELECT await(' . ($round % 2 ? 'false' : 'true') . ')'), 'failed blocked table_error', "both at once, round $round");
	like(error_of($replica, wait_for()), qr/subscription "s" is blocked: table_error/, 'who waits is told');
	is(down("$mend; SELECT rose.alter_subscription('s'); " . wait_for()), "\n", 'who waits right after the mending gets it') if $round % 2;
	# with subtransactions; without a mending, it stops again
	is(down("BEGIN; SAVEPOINT a; SELECT rose.alter_subscription('s', on_schema_change => 'stop'); RELEASE a; $mend; COMMIT; " . wait_for()), "\n", 'nor is it told after a subtransaction') if $round % 2 == 0;
	is(down($said), 'ready|streaming|', 'all is well');
	same("round $round");
}

# The worker is kept from whatever it does after the batch.
stopped('stopped');
$control->run("SELECT stop_at('table-error-passed', 'wait', 'worker')");
down("$mend; SELECT rose.alter_subscription('s'); " . wait_for());
is(down($said), 'ready|streaming|', 'that it is well is said with the batch, not later');
wait_for_stop($replica);
$control->run("SELECT go_on('table-error-passed')");

# A worker that dies in between: neither, until the next one is at it.
break();
is(down('SELECT await(true)'), 'failed blocked table_error', 'stopped');
down("$mend; SELECT rose.alter_subscription('s'); " . wait_for());
$control->run("SELECT stop_at('table-error-noted', 'terminate', 'worker', 0, 1)");
break();
is(down('SELECT await(false)'), 'failed blocked table_error', 'a worker that was ended before it had said so');
is(down("SELECT stop_hits('table-error-noted')"), 1, 'as it was');
down("SELECT stop_clear()");

# --- while a worker looks again, nothing else is said
$session->start("SELECT watch(2500, 'failed blocked table_error')");
down("SELECT rose.spill('other')") foreach 1 .. 3;
is($session->finish, '', 'it stays blocked while a worker tries again in vain');

# --- what is not committed does not count
foreach my $subxact (0, 1)
{
	my $at = down("SELECT error_lsn FROM rose.stat_subscription_tables WHERE relid = 't'::regclass");
	my ($begin, $end) = $subxact ? ('BEGIN; SAVEPOINT a', 'ROLLBACK TO a; COMMIT') : ('BEGIN', 'ROLLBACK');
	my $name = $subxact ? 'a savepoint' : 'a transaction';

	$session->run("$begin; SELECT rose.alter_subscription('s', skip_lsn => '$at')");
	is(down("SELECT watch(300, 'failed blocked table_error')"), '', "$name: before its end");
	like(error_of($replica, wait_for(1)), qr/timed out while waiting for rose subscription "s" to apply/, "$name: who waits, waits for it, and no longer than he said");
	like(error_of($replica, "SET statement_timeout = '300ms'; " . wait_for()), qr/canceling statement due to statement timeout/, "$name: or until he is canceled");
	$session->start("$end; SELECT watch(1500, 'failed blocked table_error')");
	is($session->finish, '', "$name: rolled back");
	like(error_of($replica, wait_for()), qr/subscription "s" is blocked: table_error/, "$name: and it is blocked as before");
}
like(error_of($replica, "BEGIN; SELECT rose.alter_subscription('s'); PREPARE TRANSACTION 'x'"), qr/cannot PREPARE a transaction that has changed a rose subscription/, 'not to be prepared');
is(down("SELECT watch(300, 'failed blocked table_error')"), '', 'which changes nothing');
# what waits for the end of a change gets what it brings
$session->run("BEGIN; SELECT rose.alter_subscription('s', skip_lsn => (SELECT error_lsn FROM rose.stat_subscription_tables WHERE relid = 't'::regclass))");
my $waiting = RoseTest::Session->new($replica);
$waiting->start(wait_for());
$session->run('COMMIT');
is($waiting->finish, '', 'who waited for one that is committed goes on');
is(down($said), 'ready|streaming|', 'passed over');
up("DELETE FROM t WHERE id = $id");
down($mend);

# --- a change that is committed while the worker, which has not read it, is about to stop
foreach my $stops (0, 1)
{
	if ($stops) { stopped('stopped'); down($mend); down('ALTER TABLE t ADD CONSTRAINT well CHECK (v > 0) NOT VALID') }
	$control->run("SELECT stop_at('table-error-stops', 'wait', 'worker')");
	$stops ? down("SELECT rose.alter_subscription('s')") : break();
	wait_for_stop($replica);
	down("$mend; SELECT rose.alter_subscription('s')");
	$waiting->start(wait_for());
	$session->start("SELECT watch(1500, '')");
	$control->run("SELECT go_on('table-error-stops')");
	is($waiting->finish, '', 'mended before it had stopped' . ($stops ? ' again' : ''));
	unlike($session->finish, qr/table_error/, 'nobody is told that it has');
	is(down($said), 'ready|streaming|', 'all is well');
	same('mended beside');
}

# --- other ends of it
stopped('and again');
down("SELECT rose.alter_subscription('s', enabled => false)");
is(down('SELECT blocked_reason FROM rose.stat_subscription'), '', 'one that is disabled is not blocked');
until_down("SELECT state = 'disabled' AND pid IS NULL FROM rose.stat_subscription");
is(down('SELECT rose.wait_for_lsn(\'s\', applied_lsn, 5) FROM rose.stat_subscription'), '', 'what it has it has');
down("SELECT rose.alter_subscription('s', enabled => true)");
is(down('SELECT await(false)'), 'failed blocked table_error', 'enabled, without a mending');
crash_and_restart($replica);
is(down('SELECT await(false)'), 'failed blocked table_error', 'after a crash');
down("SELECT rose.pause_table('s', 't')");
is(down('SELECT blocked_reason FROM rose.stat_subscription'), '', 'a table that is paused blocks nothing');
down("SELECT rose.wait_for_lsn('s', '" . end_of_wal() . "', $timeout, 'other'); $mend; SELECT rose.resume_table('s', 't'); " . wait_for());
same('resumed');

$_->end foreach $session, $waiting;
$_->stop foreach $replica, $upstream;
done_testing();
