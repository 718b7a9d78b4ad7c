# Every stop point in turn: a process that gets there fails, is terminated, or is
# killed, while local and replicated writes go on. Afterwards everything is as the
# model has it (CrashModel.pm), at once and when everything is merged.
#
# Between two rounds through all pairs of a point and an action, those that have not
# come about yet are tried again, some times if need be. In the end each must have, or the test fails: what
# nobody comes to tests nothing. README.md says what to do then.
#
#   CRASH_CYCLES   how many (default 500)
#   CRASH_SEED     of the statements and of what is passed over
#   CRASH_POINTS   names of stop points, separated by blanks (default: all in the source)
#   CRASH_ACTIONS  of crash, error, terminate (default: all)
#
# What fails prints the cycle, the point, the action and how many arrivals it let pass.
use strict;
use warnings;

use CrashModel;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

my $cycles = $ENV{CRASH_CYCLES} // 500;
my $seed = seed_random('CRASH_SEED');

# What no work beside all of this test's gets to; the tests named here come there in each way.
my %elsewhere = (
	# idle transactions hold memory in pieces, or a spill holds it, which would keep this test from going on
	'direct-begun' => 'room_no_piece.pl', 'direct-built' => 'room_no_piece.pl, and room_many_builders.pl for a crash',
	# recovery has several parts, or goes past memory, only with more than fits here
	'recover-part' => 'tree_recovery.pl', 'recover-sorted' => 'tree_recovery.pl',
	# a query lists its snapshots when it has taken long
	'snapshots-listed' => 'read_live_snapshots.pl',
	# a pass is shared when its database has several workers
	'merge-helps' => 'merge_shared_pass.pl', 'pass-waits' => 'merge_shared_pass.pl',
	# a table is sorted anew when a collation has changed; that test knows crashes only
	map { $_ => 'ddl_other_order.pl' } qw(resort-needed resort-sorted resort-piece resort-written));

my @points = split ' ', $ENV{CRASH_POINTS} // join ' ', grep { !$elsewhere{$_} } points_in_source();
my @actions = split ' ', $ENV{CRASH_ACTIONS} // 'crash error terminate';

# Where the code cannot fail, only the whole server can: the change is made, but not noted everywhere yet.
my %only_crash = map { $_ => 1 } qw(manifest-switched spill-published space-truncated tail-appending);

# Under a lock, which nobody can be terminated in, and by a transaction that has committed: an error
# is caught there, since memory may be short, and FATAL cannot be.
my %no_terminate = map { $_ => 1 } qw(registry-dropping);

# Reached after a restart only, by whoever is the first in a table, or needs more memory for tables than there has been
# need of: the server is killed, and armed as it starts.
my %after_start = map { $_ => 1 } qw(recover-judged recover-settled recover-replayed place-adding);

my $upstream = upstream_node('autovacuum = on', 'synchronous_commit = off', "logical_decoding_work_mem = '64kB'", 'max_wal_senders = 20', 'max_replication_slots = 20', 'max_prepared_transactions = 50');
my $node = rose_node('crash', 'autovacuum = on', "rose.memtable_size = '8MB'", "rose.spill_interval = '1s'", "rose.debug_piece_size = '64kB'", 'rose.background_spill_size = 0',
	'rose.max_merge_workers = 1',		# so that databases take turns
	'rose.max_tables = 16',			# so that many take more memory
	"rose.copy_piece_size = '256kB'", 'max_worker_processes = 24', 'autovacuum_vacuum_cost_limit = 1',
	"wal_retrieve_retry_interval = '100ms'", "deadlock_timeout = '100ms'", 'restart_after_crash = on', 'max_prepared_transactions = 50', 'rose.debug_sift_entries = 0', 'rose.debug_sift_keys = 40');
stop_points_create($node);
my $model = CrashModel->new(node => $node, upstream => $upstream, fed => 1);
my %acted;
my $tries = 6;		# of what has not come about in a round

# The names in the code, so that a new one is taken along.
sub points_in_source
{
	my @names;

	foreach my $file (glob "$ENV{TESTDIR}/src/*.c $ENV{TESTDIR}/src/*/*.c $ENV{TESTDIR}/src/*/*/*.c")
	{
		next if $file =~ m{/test/};
		push @names, slurp_file($file) =~ /ROSE_STOP_POINT\("([^"]+)"\)/g;
	}
	my %unique = map { $_ => 1 } @names;
	return sort keys %unique;
}

sub server_crashed
{
	my ($since) = @_;

	return slurp_file($node->logfile, $since) =~ /was terminated by signal 9/;
}

# Nothing happens at the point any more, nor is about to; how often something has.
# Its worker may come there, and the server go down, at any time until then.
sub disarm
{
	my ($point) = @_;

	while (1)
	{
		wait_until_up($node);
		my ($rc, $hits) = $node->psql('postgres', "SELECT stop_hits('$point'); SELECT stop_clear()");
		usleep(100_000);
		wait_until_up($node);
		return $hits =~ s/\D//gr if defined $rc && $rc == 0;
	}
}

# One cycle; the problems.
sub cycle
{
	my ($point, $action, $skip) = @_;
	my $since = -s $node->logfile;
	my @problems;

	if ($after_start{$point})
	{
		crash($node);
		append_to_file($node->data_dir . '/rose_stop_points', "$point $action any $skip 1\n");
		RoseTest::poll_start($node);
	}
	else
	{
		$node->psql('postgres', "SELECT stop_at('$point', '$action', 'any', $skip)");
	}
	my @running = $model->start_work($point);
	push @problems, $model->wait_for(@running);
	$acted{"$point $action"} += disarm($point) || ($action eq 'crash' && server_crashed($since));
	push @problems, $model->problems;
	$model->tidy if !@problems;
	$model->end_prepared;
	push @problems, $model->replica_problems;
	push @problems, grep { /PANIC|TRAP|terminated by signal (?!9)| XX[0-9A-Z]{3} / && !/at stop point/ } split /\n/, slurp_file($node->logfile, $since);
	return @problems;
}

# Everything merged, and looked at once more.
sub merged
{
	$node->safe_psql('postgres', "SELECT rose.merge(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'rose' AND relkind = 'r'");
	return $model->problems;
}

# All pairs of a point and an action.
sub pairs
{
	return map {
		my $action = $_;
		map { ($only_crash{$_} && $action ne 'crash') || ($no_terminate{$_} && $action eq 'terminate') ? () : [ $_, $action ] } @points
	} @actions;
}

sub not_acted { return grep { !$acted{"$_->[0] $_->[1]"} } pairs() }

# What is to be tried next: everything, then what has not come about, and so on.
sub next_round
{
	my ($round) = @_;

	return map { [ @$_, CrashModel::pick(0, 0, 0, 1, 2, 5) ] } pairs() if $round % 2 == 0;
	return map { [ @$_, 0 ] } (not_acted()) x $tries;
}

my $n = 0;
my $round = 0;

CYCLE: while (1)
{
	foreach my $next (next_round($round++))
	{
		my ($point, $action, $skip) = @$next;

		last CYCLE if $n >= $cycles;
		next if $round % 2 == 0 && $acted{"$point $action"};	# it is among those that are tried again
		my @problems = cycle($point, $action, $skip);
		$n++;
		@problems = merged() if !@problems && $n % 10 == 0;
		note "cycle $n: $action at $point after $skip: " . ($acted{"$point $action"} // 0);
		is(join("\n", @problems), '', "cycle $n: $action at $point after $skip") or last CYCLE;
	}
}
is(join("\n", merged()), '', "$n cycles, everything merged");
is(join(', ', map { "$_->[1] at $_->[0]" } not_acted()), '', 'every stop point has acted in each way') if !defined $ENV{CRASH_CYCLES} || $n >= 3 * pairs();
$node->stop;
$upstream->stop;
done_testing();
