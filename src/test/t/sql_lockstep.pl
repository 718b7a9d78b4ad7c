
# Several sessions in lockstep on heap tables and on rose tables: one step of one
# session at a time, with spills and merges by another in between. Every statement
# must give the same answer on both, or wait for another session on both; then
# that one ends its transaction, and what had waited must give the same answer.
#
# So it is known what each statement meets: rows that others have changed, moved
# or locked and not committed, or committed since a snapshot was taken. Environment:
#
#   LOCKSTEP_SEED    repeat a run
#   LOCKSTEP_STEPS   how many, default 1500
#   LOCKSTEP_TABLES  names of the tables to use, separated by commas
#
# At the first difference both answers and the steps before it are printed.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseLockstep;
use RoseSqlGen;
use RoseSqlTables;
use RoseTest;
use Test::More;

my $steps = $ENV{LOCKSTEP_STEPS} // 1500;
my $show_before = 40;
my $seed = seed_random('LOCKSTEP_SEED');

my $node = rose_node('lockstep', 'autovacuum = off', rose_conf("rose.debug_piece_size = '8kB'"), scan_settings());
my $generator = RoseSqlGen->new(tables => [ split /,/, $ENV{LOCKSTEP_TABLES} // 't_big,t_multi,t_num,t_nokey,t_parent,t_child,t_hash,t_range,t_list,t_wide' ]);
my @leaves = $generator->leaf_names;
my @names = $generator->table_names;

foreach my $side (qw(heap rose))
{
	$node->safe_psql('postgres', join(";\n", "CREATE SCHEMA twin_$side", "SET search_path = twin_$side", $generator->ddl($side)));
}
my @sessions = map { { lockstep => RoseLockstep->new($node, "s$_"), open => 0 } } 1 .. 2;
my @history;
my ($different, $waited, $conflicts, $churned) = (0, 0, 0, 0);

# A step of a session: to begin or end a transaction, or to do something within it.
sub next_step
{
	my ($session) = @_;
	my $sql;

	if (!$session->{open} && rand() < 0.8)
	{
		$session->{snapshot} = rand() < 0.3;
		return 'BEGIN' . ($session->{snapshot} ? ' ISOLATION LEVEL REPEATABLE READ' : '');
	}
	if ($session->{open})
	{
		return pick('COMMIT', 'COMMIT', 'ROLLBACK') if $session->{broken} || rand() < 0.1;
		return ++$session->{savepoints} && 'SAVEPOINT s' . $session->{savepoints} if rand() < 0.1;
		return 'ROLLBACK TO s' . (1 + int(rand($session->{savepoints}))) if $session->{savepoints} && rand() < 0.1;
	}
	return within($session);
}

# In REPEATABLE READ, a row that one inserts oneself over one that others have deleted since the
# snapshot was taken hides that one on rose; heap shows both. So these do not insert.
sub within
{
	my ($session) = @_;

	for (;;)
	{
		my ($item, $more) = $generator->statement;

		next if $more || $item->{meta} || $item->{sql} =~ /^(ALTER|TRUNCATE|DO|PREPARE)|FROM stdin/;
		next if $session->{snapshot} && $item->{sql} =~ /INSERT|MERGE|SET (id|x|y|z|n|k) =/;
		$session->{ordered} = $item->{ordered};
		return $item->{sql};
	}
}

sub normal
{
	my ($session, $answer) = @_;
	my @rows = split /\n/, $answer->{rows}, -1;

	@rows = sort @rows if !$session->{ordered};
	# Of a row that was updated and then deleted heap says the one, rose the other.
	my $message = $answer->{message} =~ s/due to concurrent \Kdelete/update/r;
	# Which of two duplicates in different partitions a MERGE meets first is its join's affair.
	$message =~ s/unique constraint "t_\w+?\K_\d+_pkey"/_pkey"/ if $session->{lockstep}{sql} =~ /^MERGE/;
	return join("\n", @rows, $answer->{status}, $message);
}

# Compares; and learns what became of the session's transaction.
sub compare
{
	my ($session) = @_;
	my $sql = $session->{lockstep}{sql};
	my $answers = $session->{lockstep}->answers;
	my ($heap, $rose) = map { normal($session, $answers->{$_}) } qw(heap rose);
	my $failed = $answers->{heap}{status} !~ /^00000/;

	$conflicts++ if $answers->{heap}{status} =~ /^40001/;
	if ($sql =~ /^BEGIN/ && !$failed) { @$session{qw(open broken savepoints)} = (1, 0, 0) }
	elsif ($sql =~ /^(COMMIT|ROLLBACK$)/) { @$session{qw(open broken snapshot)} = (0, 0, 0) }
	elsif ($sql =~ /^ROLLBACK TO s(\d+)/ && !$failed) { @$session{qw(broken savepoints)} = (0, $1) }
	elsif ($failed && $session->{open}) { $session->{broken} = $session->{savepoints} ? rand() < 0.3 : 1 }
	$session->{waits} = 0;
	return $heap eq $rose if $heap eq $rose;
	report($session, "heap answered:\n$heap\nrose answered:\n$rose");
	return 0;
}

sub report
{
	my ($session, $what) = @_;

	$different = 1;
	my @before = @history > $show_before ? @history[ -$show_before .. -1 ] : @history;
	diag("steps before it:");
	diag("  $_") foreach @before;
	diag("a difference, LOCKSTEP_SEED=$seed, in $session->{lockstep}{name}: $session->{lockstep}{sql}");
	diag(substr($what, 0, 4000));
	return;
}

# A spill or a merge by another session.
sub churn
{
	my $leaf = pick(rand() < 0.8 ? $generator->leaf_names : @leaves);
	my $call = sprintf("SELECT rose.%s('twin_rose.%s')", rand() < 0.7 ? 'spill' : 'merge', $leaf);

	push @history, "-- $call";
	$churned++;
	$node->safe_psql('postgres', $call);
	return;
}

# One step. Returns false at a difference.
sub step
{
	my ($session, $sql) = @_;
	my $other = $sessions[0] == $session ? $sessions[1] : $sessions[0];

	push @history, "$session->{lockstep}{name}: $sql";
	$session->{lockstep}->start($sql);
	if (!$session->{lockstep}->wait_or_block)
	{
		# The other one has what it waits for.
		push @history, "-- $session->{lockstep}{name} waits";
		$waited++;
		churn() if rand() < 0.3;
		return 0 if !step($other, pick('COMMIT', 'COMMIT', 'ROLLBACK'));
		$session->{lockstep}->wait_or_block or die "$session->{lockstep}{name} still waits: $sql\n";
	}
	return compare($session);
}

sub compare_contents
{
	foreach my $name (@names)
	{
		is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT t::text FROM twin_heap.$name t EXCEPT ALL SELECT t::text FROM twin_rose.$name t) d"), '0', "$name has what heap has");
		is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT t::text FROM twin_rose.$name t EXCEPT ALL SELECT t::text FROM twin_heap.$name t) d"), '0', "$name has no more than heap");
	}
	is($node->safe_psql('postgres', "SELECT c::text FROM rose.check('twin_rose.$_') c"), '', "$_ is sound") foreach @leaves;
	return;
}

my $done = 0;
while ($done < $steps && !$different)
{
	my $session = pick(@sessions);

	$generator->focus(rand() < 0.85 ? 1 : 2) if $done % 30 == 0;
	churn() if rand() < 0.12;
	eval { step($session, next_step($session)); 1 } or report($session, $@);
	$done++;
}
ok(!$different, "the same answers on heap and on rose ($done steps; $waited statements waited for the other session, $conflicts conflicts)");
cmp_ok($waited, '>', 0, 'sessions have met');
cmp_ok($churned, '>', 0, 'tables were spilled and merged');
if (!$different)
{
	foreach my $session (@sessions)
	{
		step($session, 'ROLLBACK') if $session->{open};
	}
	compare_contents();
}
$_->{lockstep}->end foreach @sessions;
$node->stop;
done_testing();
