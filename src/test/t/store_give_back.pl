
# The free end of a file is cut off, by the maintenance worker and by VACUUM, with a standby
# behind: its sessions that use the table are handled as with a VACUUM of a heap table, they
# keep replay waiting or are cancelled, and nobody gets at the table there before the transaction that
# cut it off has ended. And a crash in the middle.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no stop points' if $ENV{ROSE_STANDIN};

my $primary = rose_node('primary', "rose.spill_interval = '1s'", 'autovacuum = off',
	'checkpoint_timeout = 1h', "wal_keep_size = '1GB'", 'restart_after_crash = on');
stop_points_create($primary);
$primary->safe_psql('postgres', 'CREATE TABLE beside (id int PRIMARY KEY); INSERT INTO beside VALUES (1)');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\n");
$standby->start;

sub sql { return $primary->safe_psql('postgres', $_[0]) }
sub size { return $_[0]->safe_psql('postgres', "SELECT pg_relation_size('large')") }

# Rows whose components lie at the end of the file and are not needed.
sub fill
{
	my ($rows) = @_;

	sql('TRUNCATE large');
	sql("INSERT INTO large SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(1, $rows) g");
	sql("SELECT rose.spill('large')");
	sql('DELETE FROM large WHERE id > 100');
	return;
}

sub is_whole
{
	my ($node, $what) = @_;

	is($node->safe_psql('postgres', 'SELECT count(*), sum(id), min(length(t)) FROM large'), '100|5050|64', "$what: the rows");
	is($node->safe_psql('postgres', "SELECT count(*) FROM rose.check('large')"), 0, "$what: rose.check");
	return;
}

# Does replay wait for, or have, the table's lock on the standby?
sub until_lock_on_standby
{
	my ($granted) = @_;

	return $standby->poll_query_until('postgres',
		"SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'large'::regclass AND mode = 'AccessExclusiveLock' AND "
		  . ($granted ? 'granted' : 'NOT granted') . ')');
}

my $control = RoseTest::Session->new($primary);
sql('CREATE TABLE large (id int PRIMARY KEY, t text) USING rose');

# ---- the worker, and a session on the standby that has the table in use ----

sql("ALTER SYSTEM SET deadlock_timeout = '1h'");	# who waits for the lock must not cancel the worker
$primary->reload;
$control->run("SELECT stop_at('space-locked', 'wait', 'worker')");
fill(150000);
my $before = size($primary);
wait_for_stop($primary);
# another one may have come, and have nothing to do
is(sql("SELECT state, relname FROM rose.stat_worker WHERE datname = 'postgres' AND state <> 'idle'"), 'truncating|large', 'a worker that gives space back');
is(sql("SELECT count(*) FROM pg_locks WHERE relation = 'large'::regclass AND mode = 'AccessExclusiveLock' AND granted"), 1, 'it has the table locked');
my (undef, undef, $err) = $primary->psql('postgres', "SET lock_timeout = '100ms'; SELECT * FROM large WHERE id = 1");
like($err, qr/lock timeout/, 'against everybody');

sql('INSERT INTO beside VALUES (2)');	# flushes the record of the lock
ok(until_lock_on_standby(1), 'also on the standby');
(undef, undef, $err) = $standby->psql('postgres', "SET lock_timeout = '100ms'; SELECT * FROM large WHERE id = 1");
like($err, qr/lock timeout/, 'where nobody gets at it before');
$control->run("SELECT go_on('space-locked')");
$primary->poll_query_until('postgres', "SELECT pg_relation_size('large') < $before / 4") or die 'nothing was cut off';
$primary->wait_for_catchup($standby);
is(size($standby), size($primary), 'the file is cut off there, too');
is_whole($primary, 'after the worker');
# that it has let go of the lock comes after that it has cut off
$primary->wait_for_catchup($standby);
(undef, undef, $err) = $standby->psql('postgres', "SET lock_timeout = '100ms'; SELECT * FROM large WHERE id = 1");
like($err, qr/cannot read rose table/, 'the lock is gone');

# ---- VACUUM, and a session on the standby that was there before ----

sql('ALTER SYSTEM SET rose.max_merge_workers = 0');	# nobody else from here on
$primary->reload;
$primary->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM rose.stat_worker WHERE pid IS NOT NULL)') or die 'a worker goes on';
fill(30000);
sql("SELECT rose.merge('large')");
$primary->wait_for_catchup($standby);
my $reader = RoseTest::Session->new($standby);
$reader->run('BEGIN; LOCK TABLE large IN ACCESS SHARE MODE');
$before = size($standby);
sql('VACUUM large');
cmp_ok(size($primary), '<', $before / 4, 'VACUUM cuts the end off');
ok(until_lock_on_standby(0), 'replay waits for the session');
is($reader->run("SELECT pg_relation_size('large')"), $before, 'whose table is as it was');
is($standby->safe_psql('postgres', 'SELECT max(id) FROM beside'), 2, 'other tables can be read');
$reader->run('COMMIT');
$primary->wait_for_catchup($standby);
is(size($standby), size($primary), 'after its end replay goes on');
is_whole($primary, 'after VACUUM');

# the same, with a limit to waiting
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = '100ms'\n");
$standby->reload;
fill(30000);
sql("SELECT rose.merge('large')");
$primary->wait_for_catchup($standby);
$reader->run('BEGIN; LOCK TABLE large IN ACCESS SHARE MODE');
$reader->start('SELECT pg_sleep(1000)');
sql('VACUUM large');
$primary->wait_for_catchup($standby);
is(size($standby), size($primary), 'replay does not wait for ever');
eval { $reader->finish };
like($reader->{err}, qr/due to conflict with recovery/, 'the session is told why');
$reader->end;

# ---- crashes ----

$control->end;

foreach my $point (qw(space-locked space-truncated))
{
	fill(30000);
	sql("SELECT rose.merge('large')");
	$control = RoseTest::Session->new($primary);
	$control->run("SELECT stop_at('$point', 'crash', 'client')");
	my $log = -s $primary->logfile;
	$primary->psql('postgres', 'VACUUM large');
	$primary->wait_for_log(qr/database system is ready to accept connections/, $log);
	wait_until_up($primary);
	is_whole($primary, "a crash at $point");
	sql("INSERT INTO large SELECT g, repeat('x', 64) FROM generate_series(101, 20000) g; SELECT rose.merge('large'); DELETE FROM large WHERE id > 100");
	is_whole($primary, "and after it at $point");
	$primary->wait_for_catchup($standby);
	# extending a file is not logged, so the primary's may have blocks at its end that were never written
	cmp_ok(size($standby), '<=', size($primary), "the standby's file is not longer");
	$control->end;
}

# ---- and the standby, promoted ----

$primary->stop;
$standby->promote;
is_whole($standby, 'promoted');
$standby->safe_psql('postgres', "INSERT INTO large SELECT g, md5(g::text) FROM generate_series(101, 50000) g; SELECT rose.merge('large')");
is($standby->safe_psql('postgres', 'SELECT count(large) FROM large'), 50000, 'promoted: can be written');
is($standby->safe_psql('postgres', "SELECT count(*) FROM rose.check('large')"), 0, 'promoted: rose.check');
$standby->stop;
done_testing();
