
# pgbench on an upstream, SIGKILL to the replica at random moments: every time
# it ends with the upstream's contents, and at no time do its tables disagree.
#
# CRASH_SEED repeats the moments, as far as moments can be repeated;
# CRASH_ROUNDS sets how often the replica is killed under load.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = $ENV{CRASH_ROUNDS} // 14;
my $scale = 2;
my $round_seconds = 3;
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $seed = seed_random('CRASH_SEED');
my @tables = map { "pgbench_$_" } qw(accounts branches tellers history);

my $upstream = upstream_node('autovacuum = on', 'synchronous_commit = off');
my $replica = rose_node('replica', 'autovacuum = on', rose_conf("rose.spill_interval = '1s'", 'rose.background_spill_size = 0'));

$upstream->run_log([ 'pgbench', '-i', '-q', '-s', $scale, $upstream->connstr('postgres') ]);
$upstream->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE ' . join(', ', @tables));

# The same tables on the replica, as rose tables.
my ($ddl) = run_command([ 'pg_dump', '-s', '--no-publications', '-t', 'pgbench_*', $upstream->connstr('postgres') ]);
$ddl =~ s/default_table_access_method = heap/default_table_access_method = rose/;
$replica->safe_psql('postgres', $ddl);
is($replica->safe_psql('postgres', "SELECT count(*) FROM pg_class JOIN pg_am a ON a.oid = relam WHERE relkind = 'r' AND relname LIKE 'pgbench%' AND amname = 'rose'"),
	4, 'the replica has four rose tables');

my $conninfo = $upstream->connstr('postgres');
$replica->safe_psql('postgres', "SELECT rose.create_subscription('sub', \$\$$conninfo\$\$, ARRAY['pub'])");

# First killed while the initial copy is on its way.
usleep(1_000_000 * random_between(0.02, 0.3));
crash_and_restart($replica);
$replica->safe_psql('postgres', "SELECT rose.wait_for_sync('sub', $timeout)");

# '' if the replica has what the upstream has, else the first table that differs.
sub difference
{
	# what has been committed there is flushed a moment later
	$upstream->safe_psql('postgres', 'CHECKPOINT');
	wait_for_apply($upstream, $replica, 'postgres', 'sub');
	foreach my $table (@tables)
	{
		my ($theirs, $ours) = (table_hash($upstream, $table), table_hash($replica, $table));
		return "$table: upstream $theirs, replica $ours" if $theirs ne $ours;
		my $check = $replica->safe_psql('postgres', "SELECT c::text FROM rose.check('$table') c");
		return "rose.check of $table: $check" if $check ne '';
	}
	return '';
}

# pgbench keeps four sums equal; a reader of the replica must see them equal, at
# every moment. '' or the sums.
sub disagreement
{
	my $sums = $replica->safe_psql('postgres',
		'SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),'
		  . ' (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)');

	return $sums =~ /^(-?\d+)(\|\1){3}$/ ? '' : $sums;
}

is(difference(), '', 'equal after a kill during the initial copy');

foreach my $round (1 .. $rounds)
{
	my ($out, $err) = ('', '');
	my $pgbench = IPC::Run::start(
		[ 'pgbench', '-n', '-c', 3, '-T', $round_seconds, '--random-seed', $seed + $round, $upstream->connstr('postgres') ],
		'>', \$out, '2>', \$err);
	my %seen;

	usleep(1_000_000 * random_between(0.3, $round_seconds - 1.2));
	crash_and_restart($replica);
	$seen{'after the restart'} = disagreement();
	usleep(1_000_000 * random_between(0, 0.5));
	$seen{'while catching up'} = disagreement();
	$seen{'pgbench'} = $pgbench->finish ? '' : $err;
	$seen{'at the end'} = difference();

	my @problems = map { "$_: $seen{$_}" } grep { $seen{$_} ne '' } sort keys %seen;
	is(join("\n", @problems), '', "kill $round: equal to the upstream");
	last if @problems;
}

my $transactions = $upstream->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history');
cmp_ok($transactions, '>', $rounds, "the upstream was busy ($transactions transactions)");
is($replica->safe_psql('postgres', "SELECT old_row_reads FROM rose.stat_subscription WHERE subname = 'sub'"), 0, 'no old row was read');

# The other ways to stop: a clean one, and the upstream's restart.
$replica->restart;
$upstream->restart;
$upstream->run_log([ 'pgbench', '-n', '-t', 200, $upstream->connstr('postgres') ]);
is(difference(), '', 'equal after clean restarts of both');

$replica->safe_psql('postgres', "SELECT rose.drop_subscription('sub')");
is($upstream->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), 0, 'the slot is gone with the subscription');
$replica->stop;
$upstream->stop;
done_testing();
