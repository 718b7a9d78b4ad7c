
# Copies in pieces whose processes are cancelled, ended and killed at each stop point, the one who leads and those who help, with as little
# memory as there can be, which others fill; rows are changed meanwhile, and at the end all is as on the upstream.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $seed = seed_random('ROSE_COPY_STOPS_SEED');
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.copy_piece_size = '64kB'", "rose.debug_copied_patience = '1h'",
	'restart_after_crash = on', "rose.memtable_size = '1MB'", 'rose.max_copy_workers = 3', 'max_worker_processes = 20', 'log_lock_waits = on', "deadlock_timeout = '300ms'");
my $rows = 2000;
my $next = 100_000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

my $columns = 'id int PRIMARY KEY, k int, v text';
my $values = "SELECT i, i % 100, repeat('row ' || i, 10)";

up("CREATE TABLE t ($columns); INSERT INTO t $values FROM generate_series(1, $rows) i; CREATE PUBLICATION p FOR TABLE t");
down("CREATE TABLE t ($columns) USING rose; CREATE INDEX ON t (k); CREATE TABLE others (id bigserial PRIMARY KEY, v text) USING rose");
subscribe($upstream, $replica);

sub change
{
	my $some = 'id % ' . (5 + int(rand(30))) . ' = ' . int(rand(5));

	$next += 60_000;
	up((   "UPDATE t SET v = v || 'x' WHERE $some",
			"DELETE FROM t WHERE $some",
			"INSERT INTO t $values FROM generate_series($next + 50000, $next + 50200) i",
			"INSERT INTO t $values FROM generate_series(1, $rows) i WHERE i % 13 = " . int(rand(13)) . ' ON CONFLICT DO NOTHING',
			"UPDATE t SET id = id + $next WHERE $some AND id < 50000")[ rand 5 ]);
	return;
}

sub copiers { return split /\n/, down("SELECT pid FROM pg_stat_activity WHERE backend_type = 'rose replication copier'") }
sub leader { return down('SELECT pid FROM rose.stat_copy_progress WHERE pid IS NOT NULL') }
sub waits { return down("SELECT coalesce((SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted LIMIT 1)::text, '')") }

# Memory is full of what somebody has not committed.
my $filler;
sub fill
{
	$filler = RoseTest::Session->new($replica);
	$filler->run("BEGIN; INSERT INTO others (v) SELECT repeat('x', 2000) FROM generate_series(1, 1000)");
	return;
}
sub leave_memory { eval { $filler->run('ROLLBACK') }; eval { $filler->end }; undef $filler; return }

my %end = (
	cancel => sub { down("SELECT pg_cancel_backend($_[0])") },
	terminate => sub { down("SELECT pg_terminate_backend($_[0])") },
	kill => sub { kill 'KILL', $_[0]; wait_until_up($replica) });

sub one_round
{
	my ($point, $who, $way, $full, $workers) = @_;
	my $what = "$who, $way at $point" . ($full ? ', memory is full' : '');
	my $control = RoseTest::Session->new($replica);

	down("ALTER SYSTEM SET rose.max_copy_workers = $workers; SELECT pg_reload_conf()");
	fill() if $full;
	$control->run("SELECT stop_at('$point', 'wait', 'worker', " . ($point =~ /^piece/ ? int(rand(4)) : 0) . ", 0)");
	down("SELECT rose.alter_subscription('s', resync => 't')");
	wait_for_stop($replica);
	my $victim = waits();
	if ($who eq 'helper')
	{
		# somebody else than the leader, who is there or comes
		$replica->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND NOT l.granted AND backend_type = 'rose replication copier' AND pid NOT IN (SELECT pid FROM rose.stat_copy_progress WHERE pid IS NOT NULL))") or die 'nobody helps';
		$victim = down("SELECT pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND NOT l.granted AND backend_type = 'rose replication copier' AND pid NOT IN (SELECT pid FROM rose.stat_copy_progress WHERE pid IS NOT NULL) LIMIT 1");
	}
	change() foreach 0 .. int(rand(3));
	$end{$way}->($victim);
	change();
	eval { $control->run('SELECT stop_clear()'); $control->end };
	# what failed is due again at once
	eval { down("SELECT rose.alter_subscription('s', on_error => 'stop')") };
	change();
	# who waits for memory may need what the others have
	leave_memory() if $full;
	down("SELECT rose.wait_for_sync('s', $timeout)");
	wait_for_apply($upstream, $replica);
	is(table_hash($replica, 't'), table_hash($upstream, 't'), "$what: as on the upstream");
	is(down("SELECT count(*) FROM rose.check('t')"), 0, "$what: nothing is wrong with it");
	is(down("SELECT (SELECT count(*) FROM rose.subscription_piece) || ' ' || (SELECT count(*) FROM pg_class WHERE relname LIKE 'copy_of%')"), '0 0', "$what: nothing is left of pieces");
	return;
}

my $n = 0;
foreach my $durability ('upstream', 'local')
{
	down("SELECT rose.alter_subscription('s', durability => '$durability')");
	foreach my $point ('copy-found', 'piece-loaded', 'piece-there', 'piece-committed', 'replace-ready', 'replace-switched', 'copy-loaded', 'copy-committed')
	{
		# half of them for the one, and half for the other
		foreach my $way ('cancel', 'terminate', 'kill')
		{
			next if ($n++ + ($durability eq 'local')) % 2;
			one_round($point, 'leader', $way, $n % 3 == 0, 1 + $n % 2);
		}
	}
	foreach my $point ('piece-loaded', 'piece-there', 'piece-committed')
	{
		one_round($point, 'helper', ('cancel', 'terminate', 'kill')[ $n++ % 3 ], 0, 2 + $n % 2);
	}
}

$_->stop foreach $replica, $upstream;
done_testing();
