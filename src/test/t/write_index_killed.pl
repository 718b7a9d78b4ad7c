# Kills beside writers of unique values: a backend, the checkpointer, a worker or all are killed, the server is stopped at once, sessions are
# ended or cancelled, with prepared transactions, spills and merges in between. Afterwards tables have the rows that their model has, no two one value, their
# entries are those of their rows, and no value is held by anybody.
#
#   KILLED_SEED      repeat a run, as far as timing lets it
#   KILLED_ROUNDS    default 6: one of each kind
use strict;
use warnings;

use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use RoseUniqueModel;
use Test::More;

my $seed = seed_random('KILLED_SEED');
my $node = rose_node('index_killed', 'autovacuum = off', 'max_connections = 60', 'max_prepared_transactions = 40', "deadlock_timeout = '20ms'", 'restart_after_crash = on', "checkpoint_timeout = '30s'",
	rose_conf("rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'", 'rose.secondary_indexes = on'));
my @tables = qw(t k q);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Some process of the kind; nothing if there is none.
sub process
{
	my ($where) = @_;

	return sql("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND $where ORDER BY random() LIMIT 1");
}

sub kill_one
{
	my ($where) = @_;
	my $pid = process($where);

	if ($pid)
	{
		kill 'KILL', $pid;
		# the postmaster has seen it when it is gone
		select undef, undef, undef, 0.02 while kill 0, $pid;
	}
	wait_until_up($node);
	return;
}

my $writers = "backend_type = 'client backend' AND query LIKE 'CALL%'";
my %kinds = (
	'a writer' => sub { kill_one($writers) },
	'the checkpointer' => sub { $node->psql('postgres', 'CHECKPOINT') if rand() < 0.5; kill_one("backend_type = 'checkpointer'") },
	'a worker' => sub { kill_one("backend_type ~ 'rose maintenance worker'") },
	'all' => sub { crash_and_restart($node) },
	'an immediate stop' => sub { $node->stop('immediate'); $node->start },
	'sessions' => sub {
		foreach (1 .. 30)
		{
			sql('SELECT ' . ($_ % 3 ? 'pg_cancel_backend' : 'pg_terminate_backend') . "(pid) FROM pg_stat_activity WHERE $writers AND random() < 0.3");
			select undef, undef, undef, 0.02;
		}
	});
my @rounds = shuffle(sort keys %kinds);

model_create($node, 't', 'keyed');
model_create($node, 'k', 'keyless');
model_create($node, 'q', 'parted');
foreach my $round (0 .. ($ENV{KILLED_ROUNDS} // 6) - 1)
{
	my $what = $rounds[ $round % @rounds ];
	my $until = sql("SELECT clock_timestamp() + interval '1 hour'");
	my @running = map { start_writers($node, $_, 3, $until) } @tables;
	my $from = sql('SELECT sum(n) FROM (' . join(' UNION ALL ', map { "SELECT last_value AS n FROM ${_}_ids" } @tables) . ') x');
	my $some = 300 + int rand 1500;

	# until something was written, however slow that is
	$node->poll_query_until('postgres', 'SELECT sum(n) > ' . ($from + $some) . ' FROM (' . join(' UNION ALL ', map { "SELECT last_value AS n FROM ${_}_ids" } @tables) . ') x')
	  or die 'nobody writes';
	my $prepared = 0;
	$prepared += prepare_some($node, $_, 2) foreach @tables;
	# all may have met somebody for too long
	for (1 .. 20) { last if $prepared; $prepared += prepare_some($node, 't', 1) }
	$node->psql('postgres', "SELECT rose.spill('$_')") foreach rand() < 0.5 ? qw(t k q_1 t_a k_l q_2) : ();
	$kinds{$what}->();
	$node->psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $writers");
	is(finish_writers(@running), '', "$what: writers have met no error but what is to be expected");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE $writers") or die 'a writer goes on';
	cmp_ok(end_prepared($node), '>', 0, "$what: there are prepared transactions");
	model_holds($node, $_, "$what is killed", $_ eq 'q') foreach @tables;
	values_are_free($node, $_, "$what is killed") foreach qw(t k);
}
model_drop($node, $_) foreach @tables;
$node->stop;
done_testing();
