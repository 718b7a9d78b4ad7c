
# Places of copies: a table that waits for one gets it from who helps with a large table in pieces, after the piece that he reads, and nobody
# comes to help as long as it waits; when it is copied, helpers come again.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.copy_piece_size = '64kB'", "rose.debug_copied_patience = '1h'", 'rose.max_copy_workers = 2', 'max_worker_processes = 20');
my $rows = 6000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub state_of { return down("SELECT state FROM rose.stat_subscription_tables WHERE relname = '$_[0]'") }
my $stopped = "FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND NOT l.granted AND a.backend_type = 'rose replication copier'";

up("CREATE TABLE large (id int PRIMARY KEY, v text); INSERT INTO large SELECT i, repeat('row ' || i, 10) FROM generate_series(1, $rows) i; CREATE PUBLICATION p FOR TABLE large");
down("CREATE TABLE $_ (id int PRIMARY KEY, v text) USING rose") foreach 'large', 'small1', 'small2';
up("CREATE TABLE $_ (id int PRIMARY KEY, v text); INSERT INTO $_ VALUES (1, 'small'); ALTER PUBLICATION p ADD TABLE $_") foreach 'small1', 'small2';
subscribe($upstream, $replica);

# Small tables are locked, so that their copies fail, and are tried again when the large one has all places.
my $control = RoseTest::Session->new($replica);
my $holder = RoseTest::Session->new($replica);
down("SELECT rose.alter_subscription('s', enabled => false)");
until_down('pid IS NULL FROM rose.stat_subscription', 'nothing is copied before there are stop points');
down("SELECT rose.alter_subscription('s', resync => '$_')") foreach 'large', 'small1', 'small2';
$holder->run('BEGIN; LOCK TABLE small1, small2 IN ACCESS EXCLUSIVE MODE');
$control->run("SELECT stop_at('piece-loaded', 'wait', 'worker', 0, 2)");
down("SELECT rose.alter_subscription('s', enabled => true)");
until_down("count(*) > 0 $stopped", 'the large table is copied');		# help may have come already
until_down("count(*) = 2 FROM rose.stat_copy_progress WHERE relname LIKE 'small%' AND pid IS NULL AND next_try IS NOT NULL", 'the others have to wait');
# with its first piece it looks for help, and gets it as nobody else wants the place
$control->run("SELECT stop_at('piece-committed', 'wait', 'worker', 1, 2), go_on('piece-loaded')");
until_down("count(*) = 2 $stopped", 'somebody helps');
is(down('SELECT workers FROM rose.stat_copy_progress WHERE pid IS NOT NULL'), 2, 'both places are the large table\'s');
$holder->run('COMMIT');
until_down("count(*) = 2 FROM rose.stat_copy_progress WHERE relname LIKE 'small%' AND next_try < now() - interval '2 s'", 'the small ones are due');
$control->run("SELECT stop_at('piece-loaded', 'wait', 'worker', 0, 0), go_on('piece-committed')");
until_down("count(*) = 2 FROM rose.stat_subscription_tables WHERE relname LIKE 'small%' AND state = 'copied'", 'they are copied, one after the other');
is(state_of('large'), 'copying', 'while the large one is not');
is(down("SELECT count(*) $stopped"), 1, 'by one process meanwhile');
$control->run("SELECT stop_at('piece-there', 'wait', 'worker', 2, 0), go_on('piece-loaded')");
until_down("max(workers) = 2 FROM rose.stat_copy_progress WHERE pid IS NOT NULL", 'then somebody helps again');
$control->run("SELECT go_on('piece-there'), stop_clear()");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(table_hash($replica, $_), table_hash($upstream, $_), "$_ is as on the upstream") foreach 'large', 'small1', 'small2';
$_->end foreach $control, $holder;

$_->stop foreach $replica, $upstream;
done_testing();
