
# The initial copy is a table's own affair: what is wrong with one keeps up no other, is tried again by
# itself, and can be stopped; and the stream goes on beside it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my ($upstream, $replica) = upstream_and_replica();
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub stat_of { return down("SELECT $_[1] FROM rose.stat_subscription_tables WHERE relname = '$_[0]'") }
sub becomes { my ($table, $condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition FROM rose.stat_subscription_tables WHERE relname = '$table'"), $what) }
sub applied { return down("SELECT rose.wait_for_lsn('s', '" . up('SELECT pg_current_wal_flush_lsn()') . "', $timeout" . (@_ ? ", '$_[0]')" : ')')) }
sub same { my ($what, @tables) = @_; return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }

# --- three tables, of which two cannot be copied
up('CREATE ROLE reader LOGIN REPLICATION');
foreach my $table (qw(good forbidden narrow))
{
	up("CREATE TABLE $table (id int PRIMARY KEY, v text); INSERT INTO $table SELECT i, 'row ' || i FROM generate_series(1, 1000) i");
	down("CREATE TABLE $table (id int PRIMARY KEY, v text) USING rose") if $table ne 'narrow';
}
down('CREATE TABLE narrow (id int PRIMARY KEY) USING rose; CREATE INDEX ON good (v)');
up('GRANT SELECT ON good, narrow TO reader; CREATE PUBLICATION p FOR TABLE good, forbidden, narrow');
my $conninfo = $upstream->connstr('postgres') . ' user=reader';
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('copy-found', 'wait', 'worker')");
down("SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'])");
wait_for_stop($replica);
is(stat_of('forbidden', "state || ' ' || (last_error ~ 'may not read table')"), 'error true', 'before the first byte is copied, what is wrong with one is said of it');
is(stat_of('narrow', "state || ' ' || (last_error ~ 'column')"), 'error true', 'and of the other');
is(down("SELECT string_agg(relname || ' ' || (failures > 0 AND next_try > now() - interval '1 hour'), ', ' ORDER BY relname) FROM rose.stat_copy_progress WHERE pid IS NULL"), 'forbidden true, narrow true', 'they will be tried again');
$control->run("SELECT go_on('copy-found')");
becomes('good', "state = 'ready'", 'a table is copied although others cannot be');
like(($replica->psql('postgres', "SELECT rose.wait_for_sync('s', $timeout)"))[2], qr/2 table\(s\) of rose subscription "s" could not be copied/, 'who waits is told');
up("INSERT INTO good VALUES (2001, 'streamed')");
applied('good');
same('its changes are applied', 'good');
is(down("SELECT state || ' ' || coalesce(last_error, '') FROM rose.stat_subscription"), 'streaming ', 'it is no error of the subscription');

# --- it is tried again by itself, and the others are not copied anew
up('GRANT SELECT ON forbidden TO reader');
becomes('forbidden', "state = 'ready'", 'once it may be read it is copied');
is(stat_of('good', 'copied_rows'), 1000, 'that one alone');
down('ALTER TABLE narrow ADD v text');
down("SELECT rose.alter_subscription('s')");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(stat_of('narrow', 'state || last_error IS NULL'), 't', 'a change of the subscription has them tried at once');
up("INSERT INTO narrow VALUES (2001, 'x'); INSERT INTO forbidden VALUES (2001, 'x'); DELETE FROM narrow WHERE id < 10; UPDATE forbidden SET v = 'y' WHERE id < 10");
applied();
same('and all go on', qw(good forbidden narrow));

# --- beside the stream: no key, a composite key, a partitioned table upstream, an index; with a small arena
up(<<'SQL');
CREATE TABLE nokey (id int, v text);
CREATE TABLE composite (a int, b text, v text, PRIMARY KEY (b, a));
CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (1000) TO (100000);
CREATE TABLE emptied (id int PRIMARY KEY, v text);
INSERT INTO nokey SELECT i % 100, 'row' FROM generate_series(1, 1000) i;
INSERT INTO composite SELECT i, (i % 7)::text, 'row ' || i FROM generate_series(1, 1000) i;
INSERT INTO parted SELECT i, 'row ' || i FROM generate_series(1, 2000) i;
INSERT INTO emptied SELECT i, 'row ' || i FROM generate_series(1, 1000) i;
ALTER PUBLICATION p ADD TABLE nokey, composite, parted, emptied;
ALTER PUBLICATION p SET (publish_via_partition_root = true);
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
SQL
down(<<'SQL');
CREATE TABLE nokey (id int, v text) USING rose;
CREATE TABLE composite (a int, b text, v text, PRIMARY KEY (b, a)) USING rose;
CREATE INDEX ON composite (v);
CREATE TABLE parted (id int PRIMARY KEY, v text) USING rose;
CREATE TABLE emptied (id int PRIMARY KEY, v text) USING rose;
SQL
my @new = qw(nokey composite parted emptied);
$control->run("SELECT stop_at('copy-loaded', 'wait', 'worker', 0, 2)");
down("SELECT rose.alter_subscription('s', refresh => true)");
wait_for_stop($replica);
foreach my $round (1 .. 5)
{
	up("INSERT INTO good VALUES (3000 + $round, 'beside'); INSERT INTO nokey VALUES ($round, 'beside'); INSERT INTO composite VALUES ($round, 'beside', 'x'); UPDATE composite SET v = 'y' WHERE a = 100 + $round;"
		  . " DELETE FROM parted WHERE id = 900 + $round; INSERT INTO parted VALUES (5000 + $round, 'beside')");
	up('TRUNCATE emptied') if $round == 2;
	up("INSERT INTO emptied VALUES (10000 + $round, 'beside')");
	applied('good');
}
same('while others are copied, what is there goes on', 'good');
is(down("SELECT count(*) > 0 FROM rose.stat_subscription_tables WHERE state = 'copying'"), 't', 'and they are still being copied');
is(down("SELECT count(*) FROM nokey"), '0', 'which cannot be seen yet');
ok($replica->poll_query_until('postgres', "SELECT count(*) = 2 FROM rose.stat_copy_progress WHERE state = 'copying' AND phase IN ('writing', 'indexes') AND rows >= 1000 AND bytes > 1000 AND percent = 100 AND pid IS NOT NULL"),
	'but how far they are, two at a time');
my $before = up("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 's'");
down("SELECT rose.spill('good')");
is(up("SELECT count(*) > 0 FROM pg_replication_slots WHERE temporary"), 't', 'a copy has a slot of its own');
$control->run("SELECT go_on('copy-loaded')");
down("SELECT rose.wait_for_sync('s', $timeout)");
same('when it says that all are there, all are of one position', 'good', @new);
up("INSERT INTO nokey VALUES (-1, 'after'); DELETE FROM composite WHERE a < 50; UPDATE parted SET v = 'after' WHERE id < 50");
applied();
same('and go on together', qw(good forbidden narrow), @new);
down("SELECT rose.spill('good')");
ok($upstream->poll_query_until('postgres', "SELECT confirmed_flush_lsn > '$before' FROM pg_replication_slots WHERE slot_name = 's'"), 'the slot goes on, too');

# --- it can be cancelled, and what stops it does not wait for it
sub copier { return "SELECT pid FROM pg_stat_activity WHERE backend_type = 'rose replication copier'" }
sub held_up
{
	my ($table) = @_;

	$control->run("SELECT stop_at('copy-found', 'wait', 'worker')");
	down("SELECT rose.alter_subscription('s', resync => '$table')");
	wait_for_stop($replica);
}
held_up('nokey');
down('SELECT pg_cancel_backend(pid) FROM (' . copier() . ') p');
becomes('nokey', "state = 'init' AND last_error ~ 'canceling statement'", 'a copy that is cancelled says so');
up("INSERT INTO good VALUES (4000, 'goes on')");
applied('good');
pass('the stream goes on');
$control->run("SELECT go_on('copy-found')");
down("SELECT rose.alter_subscription('s')");
down("SELECT rose.wait_for_sync('s', $timeout)");
same('it comes again', 'good', @new);

held_up('composite');
down("SELECT rose.alter_subscription('s', enabled => false)");
ok($replica->poll_query_until('postgres', 'SELECT count(*) = 0 FROM (' . copier() . ') p'), 'disabling ends it');
becomes('composite', "state = 'init'", 'it waits again');
$control->run("SELECT go_on('copy-found')");
down("SELECT rose.alter_subscription('s', enabled => true)");
down("SELECT rose.wait_for_sync('s', $timeout)");

held_up('composite');
down("SELECT rose.pause_table('s', 'composite')");
$control->run("SELECT go_on('copy-found')");
up("INSERT INTO composite VALUES (7, 'while', 'paused')");
applied('good');
is(stat_of('composite', "state || ' ' || (SELECT count(*) FROM composite c WHERE c::text ~ 'while')"), 'paused 0', 'one that is paused is not copied');
down("SELECT rose.resume_table('s', 'composite')");
down("SELECT rose.wait_for_sync('s', $timeout)");
applied();
same('until it is resumed', 'good', @new);

# --- two databases with a subscription of the same number each, and one upstream
down('CREATE DATABASE other');
rose_create($replica, 'other');
$replica->safe_psql('other', 'CREATE TABLE good (id int PRIMARY KEY, v text) USING rose');
up('CREATE PUBLICATION q FOR TABLE good');
held_up('composite');
up("INSERT INTO nokey SELECT i, 'past the copy' FROM generate_series(1, 10) i; INSERT INTO composite VALUES (8, 'past', 'the copy')");
applied('nokey');
$replica->safe_psql('other', "SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['q'], slot_name => 'other')");
$replica->safe_psql('other', "SELECT rose.wait_for_sync('s', $timeout)");
is($replica->safe_psql('other', 'SELECT count(*) FROM good'), up('SELECT count(*) FROM good'), 'a copy does not keep one of another database from the same upstream');
$control->run("SELECT go_on('copy-found')");
down("SELECT rose.wait_for_sync('s', $timeout)");
$replica->safe_psql('other', "SELECT rose.drop_subscription('s')");
same('the stream has gone back for one table, and nothing was applied twice', 'good', @new);

# --- the server dies between a copy and its end, before and after it is taken in
foreach my $where ('copy-loaded', 'copy-committed', 'copies-taken-in')
{
	$control->run("SELECT stop_at('$where', 'wait', 'worker')");
	down("SELECT rose.alter_subscription('s', resync => 'parted')");
	wait_for_stop($replica);
	up("INSERT INTO parted SELECT max(id) + 1, '$where' FROM parted; INSERT INTO nokey VALUES (0, '$where'); DELETE FROM composite WHERE v = 'row ' || (SELECT count(*) FROM composite)");
	applied('nokey') if $where ne 'copies-taken-in';
	down("SELECT rose.spill('nokey')") if $where ne 'copies-taken-in';
	crash_and_restart($replica);
	$control = RoseTest::Session->new($replica);
	down("SELECT rose.wait_for_sync('s', $timeout)");
	applied();
	same("a crash at $where", 'good', @new);
}

# --- in the worker itself
down('ALTER SYSTEM SET rose.max_copy_workers = 0; SELECT pg_reload_conf()');
down("SELECT rose.alter_subscription('s', resync => 'nokey')");
down("SELECT rose.wait_for_sync('s', $timeout)");
up("INSERT INTO nokey VALUES (-2, 'after')");
applied();
same('without processes for it, the worker copies', 'good', @new);
is(down("SELECT string_agg(msg, '; ') FROM rose.check('composite')"), '', 'indexes are whole');

# --- one that is copied while others are about to be taken in, of an earlier position
up(<<'SQL');
CREATE TABLE early (id int PRIMARY KEY, v text);
CREATE TABLE late (id int PRIMARY KEY, v text);
INSERT INTO early SELECT i, 'row' FROM generate_series(1, 100) i;
INSERT INTO late SELECT i, 'row' FROM generate_series(1, 100) i;
GRANT SELECT ON early TO reader;
ALTER PUBLICATION p ADD TABLE early, late;
SQL
down('CREATE TABLE early (id int PRIMARY KEY, v text) USING rose; CREATE TABLE late (id int PRIMARY KEY, v text) USING rose');
$replica->append_conf('postgresql.conf', "rose.max_copy_workers = 2\nrose.debug_copied_patience = 0");
down('ALTER SYSTEM RESET rose.max_copy_workers; SELECT pg_reload_conf()');
$control->run("SELECT stop_at('copy-loaded', 'wait', 'worker', 0, 1)");
down("SELECT rose.alter_subscription('s', refresh => true)");
wait_for_stop($replica);
up("INSERT INTO early SELECT i, 'after its copy' FROM generate_series(1001, 1010) i; INSERT INTO good VALUES (-77, 'x')");
$control->run("SELECT stop_at('copies-looked', 'wait', 'worker', 0, 1)");
up('GRANT SELECT ON late TO reader');
becomes('late', "state = 'copied'", 'a later one is copied');
$replica->poll_query_until('postgres', "SELECT stop_hits('copies-looked') = 1") or die 'nothing is taken in';
$control->run("SELECT go_on('copy-loaded')");
becomes('early', "state = 'copied'", 'and then the earlier one, when the later one is about to be taken in');
$control->run("SELECT go_on('copies-looked')");
down("SELECT rose.wait_for_sync('s', $timeout)");
applied();
same('nothing is missing of either', qw(good early late));

# --- rows that a policy hides are not left out
up('CREATE TABLE guarded (id int PRIMARY KEY, v text); INSERT INTO guarded VALUES (1, \'hidden\'); ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; GRANT SELECT ON guarded TO reader; ALTER PUBLICATION p ADD TABLE guarded');
down('CREATE TABLE guarded (id int PRIMARY KEY, v text) USING rose');
down("SELECT rose.alter_subscription('s', refresh => true)");
becomes('guarded', "state = 'error' AND last_error ~ 'row-level security'", 'a policy is an error of its table');
up('ALTER ROLE reader BYPASSRLS');
becomes('guarded', "state = 'ready'", 'who is not subject to it copies all');
applied();
same('all rows', 'guarded');

$replica->stop;
$upstream->stop;
done_testing();
