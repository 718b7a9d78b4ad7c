
# Pieces of several snapshots: large values that move with their keys have the table copied again, as one; nobody is told that a table
# is at a position while it is at several; what is altered on either side meanwhile has the copy begin anew; and what becomes
# of pieces that are wanted no more.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.copy_piece_size = '100kB'", "rose.debug_copied_patience = '1h'", 'rose.max_copy_workers = 1');
my $rows = 4000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub synced { return down("SELECT rose.wait_for_sync('s', $timeout)") }
sub resync { return down("SELECT rose.alter_subscription('s', resync => '$_[0]')") }
sub refresh { return down("SELECT rose.alter_subscription('s', refresh => true)") }
sub state_of { return down("SELECT state FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }
sub pieces { return down("SELECT count(*) || ' ' || count(lsn) FROM rose.subscription_piece WHERE relid = '$_[0]'::regclass") }
sub same { my ($what, @tables) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }
sub nothing_left { my ($what) = @_; return is(down("SELECT (SELECT count(*) FROM rose.subscription_piece) || ' ' || (SELECT count(*) FROM pg_class WHERE relname LIKE 'copy_of%')"), '0 0', $what) }

# Large values of every hundredth row are not sent when they are not changed; $large is another one for each row.
my $large = "(SELECT string_agg(md5((i * 1000 + j)::text), '') FROM generate_series(1, 100) j)";
my $values = "SELECT i, i % 100, repeat('row ' || i, 8), CASE WHEN i % 100 = 0 THEN $large END FROM generate_series(1, $rows) i";

up("CREATE TABLE t (id int PRIMARY KEY, k int, v text, w text); ALTER TABLE t ALTER w SET STORAGE external; INSERT INTO t $values; CREATE PUBLICATION p FOR TABLE t");
down('CREATE TABLE t (id int PRIMARY KEY, k int, v text, w text) USING rose; CREATE INDEX t_k ON t (k)');
subscribe($upstream, $replica);
same('it is there', 't');

# Copies it again, to the end of some pieces; then the calls, and the process ends. Returns where the log was.
sub interrupted
{
	my (@calls) = @_;
	my $log = -s $replica->logfile;
	my $control = RoseTest::Session->new($replica);

	$control->run("SELECT stop_at('piece-committed', 'wait', 'worker', 1)");
	resync('t');
	wait_for_stop($replica);
	$_->() foreach @calls;
	down('SELECT pg_terminate_backend(pid) FROM rose.stat_copy_progress WHERE pid IS NOT NULL');
	$control->run('SELECT stop_clear()');
	$control->end;
	return $log;
}

sub logged { my ($log, $what) = @_; return slurp_file($replica->logfile, $log) =~ $what ? 1 : 0 }
my $again = qr/table "public.t" has to be copied again/;
my $goes_on = qr/goes on with the copy of table "t", of which 2 of/;
my $anew = qr/begins anew with the copy of table "t"/;

# --- large values
my $log = interrupted(sub { up("UPDATE t SET k = k + 1 WHERE id % 50 = 0; DELETE FROM t WHERE id % 400 = 100; INSERT INTO t SELECT i, 0, 'new', 'small' FROM generate_series(100, $rows, 800) i") });
synced();
is(logged($log, $goes_on) . logged($log, $again), '10', 'changes that leave large values out: goes on');
same('changes that leave large values out', 't');

my %move = (
	'from a piece that was not there' => "UPDATE t SET id = id + 100000 WHERE id = $rows - 200",
	'... to one that was' => "UPDATE t SET id = -id WHERE id = $rows - 400",
	'from one key to another, and another row takes it' => "UPDATE t SET id = id + 200000 WHERE id = $rows - 600; INSERT INTO t SELECT $rows - 600, 1, 'other', $large FROM generate_series(1, 1) i");
foreach my $way (sort keys %move)
{
	$log = interrupted(sub { up($move{$way}) });
	until_down("count(*) = 0 FROM rose.subscription_copy WHERE broken OR made <> 0", "$way: it is copied");
	synced();
	is(logged($log, $goes_on) . logged($log, $again), '11', "$way: it goes on, and is copied again");
	same("large values that move $way", 't');
}

# --- positions
{
	my $control = RoseTest::Session->new($replica);
	my $holder = RoseTest::Session->new($replica);
	my $lsn;

	interrupted(sub { up("UPDATE t SET k = k + 1 WHERE id % 3 = 0") });
	# before it is tried again
	$control->run("SELECT stop_at('copy-committed', 'wait', 'worker')");
	until_down("EXISTS (SELECT FROM rose.stat_subscription_tables WHERE state = 'copied')", 'it is copied');
	$holder->run('BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE');
	$control->run("SELECT go_on('copy-committed'), stop_clear()");
	until_down("state = 'ready' FROM rose.stat_subscription_tables", 'it is taken in');
	$lsn = down('SELECT sync_lsn FROM rose.stat_subscription_tables');
	is(down("SELECT first_lsn = '$lsn' AND exact_lsn > first_lsn FROM rose.subscription_copy"), 't', 'at the first of its positions');
	until_down("applied_lsn >= '$lsn' FROM rose.stat_subscription", 'that is applied');
	like(error_of($replica, "SELECT rose.wait_for_lsn('s', '$lsn', 1)"), qr/timed out/, 'which is not said to be there');
	like(error_of($replica, "SELECT rose.wait_for_sync('s', 1)"), qr/timed out/, 'nor that all are at one position');
	$holder->run('COMMIT');
	synced();
	same('until it is', 't');
	$_->end foreach $control, $holder;
}

# --- altered meanwhile
my %altered = (
	'TRUNCATE' => "TRUNCATE t; INSERT INTO t $values",
	'VACUUM FULL' => 'VACUUM FULL t',
	'a rewrite' => "ALTER TABLE t ALTER k TYPE int USING k + 1000, ALTER v TYPE varchar(200); ALTER TABLE t ALTER v TYPE text",
	'a column that comes and goes' => 'ALTER TABLE t ADD x int; ALTER TABLE t DROP x',
	'publications' => 'DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE t',
	'a publication that leaves changes out for a while' => "ALTER PUBLICATION p SET (publish = 'insert'); UPDATE t SET k = 77 WHERE id <= 10 OR id > $rows - 10; DELETE FROM t WHERE id IN (11, 12); ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')");
foreach my $way (sort keys %altered)
{
	$log = interrupted(sub { down("SELECT rose.alter_subscription('s', enabled => false)") });
	like(pieces('t'), qr/^[0-9]+ 2$/, "$way: some pieces are there");
	up($altered{$way});
	down("SELECT rose.alter_subscription('s', enabled => true)");
	synced();
	is(logged($log, $goes_on) . logged($log, $anew), '01', "$way: it begins anew");
	same("$way: it is as on the upstream", 't');
}

$log = interrupted(sub {
	like(error_of($replica, "SET lock_timeout = '100ms'; ALTER TABLE t ADD CHECK (k IS NOT NULL)"), qr/lock timeout/, 'nobody alters a table that is being copied');
	like(error_of($replica, 'SELECT * FROM pg_toast.copy_of_' . down("SELECT 't'::regclass::oid")), qr/copy that is not whole yet/, 'nobody reads its pieces');
	like(error_of($replica, 'DELETE FROM pg_toast.copy_of_' . down("SELECT 't'::regclass::oid")), qr/cannot change TOAST/, 'or changes them');
	is(down("SELECT count(*) FROM t"), up("SELECT count(*) FROM t"), 'the old rows are there') });
synced();
same('it goes on', 't');

# by a superuser's command while nothing is copied
interrupted(sub { down("ALTER SYSTEM SET rose.max_subscriptions = 0") });
$replica->restart;
is(pieces('t') =~ s/ .*//r > 2, 1, 'pieces are there after a restart');
down('ALTER TABLE t ADD CONSTRAINT c CHECK (k IS NOT NULL)');
down('ALTER SYSTEM RESET rose.max_subscriptions');
$log = -s $replica->logfile;
$replica->restart;
synced();
is(logged($log, $anew), 1, 'a constraint that pieces were not held against');
same('... has the copy begin anew', 't');

# --- pieces that nobody wants any more
interrupted(sub { down("SELECT rose.pause_table('s', 't')") });
nothing_left('paused: no pieces');
down("SELECT rose.resume_table('s', 't')");
synced();
same('resumed', 't');

down('ALTER TABLE t ADD CONSTRAINT d CHECK (v <> \'wrong\')');
$log = interrupted(sub { up("UPDATE t SET v = 'wrong' WHERE id = $rows - 1") });
until_down("state = 'error' FROM rose.stat_subscription_tables", 'an error of the table');
until_down('count(*) = 0 FROM rose.subscription_piece', 'has no pieces for long');
up("UPDATE t SET v = 'right' WHERE v = 'wrong'");
down("SELECT rose.alter_subscription('s', enabled => true)");
synced();
same('it is put right', 't');

interrupted(sub { down("SELECT rose.drop_subscription('s')") });
nothing_left('the subscription is dropped: no pieces');
is(down('SELECT count(*) > 0 FROM t'), 't', 'the old rows are there');
down('DELETE FROM t');
subscribe($upstream, $replica);
interrupted(sub { down("ALTER SYSTEM SET rose.max_subscriptions = 0") });
$replica->restart;
down('DROP TABLE t');
is(down("SELECT count(*) FROM pg_class WHERE relname LIKE 'copy_of%'"), 0, 'the table is dropped: with its pieces');

$_->stop foreach $replica, $upstream;
done_testing();
