
# What a paused table has: everything before the transaction at which it failed, and no error
# of others. Who waits for a position is told if it is not there.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in does not pause tables' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '4MB'", "rose.batch_interval = '60s'", "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'");
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub stat_of { return down("SELECT $_[1] FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }
sub end_of_wal { return up('SELECT pg_current_wal_flush_lsn()') }
sub wait_for { my ($lsn, $table) = @_; return down("SELECT rose.wait_for_lsn('s', '$lsn', $timeout" . ($table ? ", '$table')" : ')')) }
sub cannot_wait { my ($lsn, $more) = @_; return ($replica->psql('postgres', "SELECT rose.wait_for_lsn('s', '$lsn', $more)"))[2] }

foreach my $table (qw(good bad large later))
{
	up("CREATE TABLE $table (id int PRIMARY KEY, v text)");
	down("CREATE TABLE $table (id int PRIMARY KEY, v text) USING rose");
}
up('CREATE PUBLICATION p FOR TABLE good, bad, large');
subscribe($upstream, $replica, undef, q{on_error => 'pause'});
down('ALTER TABLE bad ALTER v TYPE int USING NULL');

# All of it comes in one batch: the worker was away.
sub together
{
	down("SELECT rose.alter_subscription('s', enabled => false)");
	$replica->poll_query_until('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription') or fail('disabled');
	my @ends = map { up($_); end_of_wal() } @_;
	down("SELECT rose.alter_subscription('s', enabled => true)");
	return @ends;
}

my @ends = together("INSERT INTO bad VALUES (1, '1'); INSERT INTO good VALUES (1, '1')", "BEGIN; INSERT INTO bad VALUES (2, '2'); INSERT INTO good VALUES (2, '2'); COMMIT; UPDATE bad SET v = '3' WHERE id = 1",
	"BEGIN; INSERT INTO good VALUES (3, '3'); INSERT INTO bad VALUES (3, '3'); INSERT INTO bad VALUES (4, 'four'); COMMIT", "INSERT INTO bad VALUES (5, '5'); INSERT INTO good VALUES (5, '5')");
$replica->poll_query_until('postgres', "SELECT state IN ('paused', 'error') FROM rose.stat_subscription_tables WHERE relid = 'bad'::regclass") or fail('not paused');
like(stat_of('bad', 'last_error'), qr/invalid input syntax for type integer: "four"/, 'paused');
wait_for($ends[3], 'good');
is(down("SELECT string_agg(id::text, ' ' ORDER BY id) FROM good"), '1 2 3 5', 'the other table has all');
is(down("SELECT string_agg(id || ' ' || v, ', ' ORDER BY id) FROM bad"), '1 3, 2 2', 'the paused one has what was committed before, whatever batch that was in');
is(stat_of('bad', "error_lsn >= '$ends[1]' AND error_lsn < '$ends[2]'"), 't', 'and the view says from where on it misses changes');

# --- who waits
wait_for($ends[1]);
pass('up to there, all tables have all');
like(cannot_wait($ends[2], $timeout), qr/table "public.bad" of rose subscription "s" is paused, or in error/, 'further on, not');
like(cannot_wait($ends[3], "$timeout, 'bad'"), qr/is paused, or in error.*HINT: /is, 'nor if it is asked for');
like(cannot_wait($ends[3], "1, 'later'"), qr/table "later" is not part of rose subscription "s"/, 'a table of nobody');

# --- what was not durable yet comes again after a crash
crash_and_restart($replica);
wait_for($ends[3], 'good');
is(down("SELECT string_agg(id || ' ' || v, ', ' ORDER BY id) FROM bad"), '1 3, 2 2', 'after a crash the paused table has the same');
is(down("SELECT string_agg(id::text, ' ' ORDER BY id) FROM good"), '1 2 3 5', 'and the other one');

# --- an earlier transaction may fail as well, by then
down("SELECT rose.spill('bad')");
down('ALTER TABLE bad ALTER v TYPE text');
up('DELETE FROM bad WHERE id = 4');
down("SELECT rose.alter_subscription('s', resync => 'bad')");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(table_hash($replica, 'bad'), table_hash($upstream, 'bad'), 'resynced');
wait_for(end_of_wal());
pass('and waited for');

# --- a copy that is not there yet
my $lock = RoseTest::Session->new($replica);
up("INSERT INTO later VALUES (1, 'x'); ALTER PUBLICATION p ADD TABLE later");
my $old = end_of_wal();
wait_for($old);
# what is locked here is not copied into; there, from 17 on, it would not even be listed
$lock->run('BEGIN; LOCK TABLE later IN SHARE MODE');
down("SELECT rose.alter_subscription('s', refresh => true)");
like(cannot_wait($old, 1), qr/timed out while waiting/, 'a table that is not copied yet');
wait_for($old, 'good');
pass('others are not waited for');
$lock->run('COMMIT');
$lock->end;
wait_for($old);
is(down('SELECT count(*) FROM later'), 1, 'waited for until it is copied');

# --- errors that are not the table's
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('write-no-room', 'limit', 'worker')");
up("INSERT INTO large SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 30000) g");
$replica->poll_query_until('postgres', "SELECT last_error ~ 'limit at stop point' FROM rose.stat_subscription") or fail('the error did not come');
wait_for(end_of_wal());
is(stat_of('large', 'state'), 'ready', 'no room in memory: the table is not paused');
is(table_hash($replica, 'large'), table_hash($upstream, 'large'), 'and has all');
$control->end;

$replica->stop;
$upstream->stop;
done_testing();
