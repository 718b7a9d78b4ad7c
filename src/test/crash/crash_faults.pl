# A disk that is full, fails, or keeps half of a page when the power goes, at any
# write, read or fsync of a table's file; and servers that die while they recover.
#
#   CRASH_FAULTS  cycles (default 60)
#   CRASH_SEED    of the statements and of which call it is
#   CRASH_KINDS   which, separated by blanks: full, write, read, sync, kill, torn, and
#                 kill-in-recovery, torn-in-recovery (default: all in turn)
#
# Statements may fail then, with the error that heap has. What is left is as the
# model has it (CrashModel.pm), and writes go on as soon as the disk works again.
# Where a page may be torn, heap must be repaired from WAL as well: both are.
use strict;
use warnings;

use CrashFault;
use CrashModel;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

my $cycles = $ENV{CRASH_FAULTS} // 60;
my $seed = seed_random('CRASH_SEED');
my $upstream = upstream_node('autovacuum = on', 'synchronous_commit = off');
my $shim = CrashFault->new;

# The upstream runs without; whoever starts the replica has it preloaded.
$shim->preload;
my $node = rose_node('faults', 'autovacuum = on', 'fsync = on', "rose.memtable_size = '8MB'", "rose.spill_interval = '1s'", "rose.debug_piece_size = '64kB'",
	'rose.background_spill_size = 0', "shared_buffers = '1MB'", "wal_retrieve_retry_interval = '100ms'", "deadlock_timeout = '100ms'",
	'restart_after_crash = on', 'max_prepared_transactions = 50', "checkpoint_timeout = '30s'");
my $model = CrashModel->new(node => $node, upstream => $upstream,
	# what the faults themselves make statements and workers say, and a cursor that was to have the rows of a statement that failed
	allow => 'is not positioned on a row|No space left on device|Input/output error|could not (?:extend|write|read|fsync)|could not be spilled|checkpoint request failed|PANIC');

stop_points_create($node);		# some work is steered by them

# How far into a cycle's calls a fault strikes; some are rarer. Torn are only pages that lose something by it.
my %reach = (full => 800, write => 800, read => 200, sync => 6, kill => 800, torn => 60);

sub log_problems
{
	my ($since) = @_;

	return grep { /TRAP|terminated by signal (?:[1-578]|1[0-9]|6$)|XX00[12]/ } split /\n/, slurp_file($node->logfile, $since);
}

# Work with this fault in it; the problems afterwards.
sub cycle
{
	my ($fault) = @_;
	my $since = -s $node->logfile;
	my @problems;

	$shim->arm($fault, int(rand($reach{$fault})));
	my @running = $model->start_work;
	push @problems, $model->wait_for(@running);
	my $hits = $shim->disarm;
	usleep(100_000);		# who was struck is dying
	wait_until_up($node);
	push @problems, $model->problems;
	$model->end_prepared;
	push @problems, $model->replica_problems;
	push @problems, log_problems($since);
	return ($hits, @problems);
}

my $startups_killed = 0;

# The server dies, and again at some write of its recovery, then comes back.
sub recovery_cycle
{
	my ($fault) = @_;
	my @running = $model->start_work;
	my $since = -s $node->logfile;

	crash($node);
	my @problems = $model->wait_for(@running);
	$shim->arm($fault, int(rand($fault eq 'torn' ? 10 : 60)));
	RoseTest::poll_start($node);
	my $hits = $shim->disarm;
	wait_until_up($node);
	$startups_killed += () = slurp_file($node->logfile, $since) =~ /startup process \(PID \d+\) was terminated by signal 9/g;
	push @problems, $model->problems, $model->replica_problems, log_problems($since);
	return ($hits, @problems);
}

my %hits;
my @kinds = split ' ', $ENV{CRASH_KINDS} // 'full write read sync kill torn kill-in-recovery torn-in-recovery';

foreach my $n (1 .. $cycles)
{
	my $kind = $kinds[ ($n - 1) % @kinds ];
	my ($fault, $in_recovery) = split /-/, $kind, 2;
	my ($hits, @problems) = $in_recovery ? recovery_cycle($fault) : cycle($fault);

	$hits{$kind} += $hits;
	is(join("\n", @problems), '', "cycle $n: $kind ($hits)") or last;
}
$node->safe_psql('postgres', "SELECT rose.merge(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'rose' AND relkind = 'r'");
is(join("\n", $model->problems), '', 'everything merged');
if ($cycles >= 40 && !$ENV{CRASH_KINDS})
{
	# reads are rarer: the system has the pages
	cmp_ok($hits{$_} // 0, '>', 0, "$_ struck") foreach grep { $_ ne 'read' } @kinds;
	cmp_ok($startups_killed, '>', 0, 'servers died while they replayed WAL');
}
$node->stop;
CrashFault::unload();
$upstream->stop;
done_testing();
