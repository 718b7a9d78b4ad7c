# Transactions that are prepared for long, committed or rolled back in any order, at random, with two_phase; while both sides crash, workers end, tables are
# paused, resumed and copied again, and the subscription's options change: at each check, and at the end, both sides have the same rows, and nothing is kept
# that nobody needs.
#
#   TWO_PHASE_SEED	of what happens
#   TWO_PHASE_STEPS	how many of them
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 100', 'autovacuum = off', "log_statement = 'none'");
plan skip_all => 'the upstream is too old' if $upstream->pg_version < 15;

my $seed = seed_random('TWO_PHASE_SEED');
my $steps = $ENV{TWO_PHASE_STEPS} // 120;
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '50ms'", "rose.memtable_size = '4MB'", "rose.spill_interval = '2s'", "wal_receiver_status_interval = '1s'",
	'autovacuum = off', "log_statement = 'none'");
my @its = qw(t q nokey other);
my %paused;
my @prepared;	# each with the number whose keys it has changed
my @settled;	# numbers whose rows are there to be changed again
my $next = 0;
my $emptied;	# the number of the prepared transaction that has emptied a table, which nobody can use until it ends

sub rare { return rand() < $_[0] }
sub pick { return $_[ int(rand(@_)) ] }

# What one transaction does with rows of one number, of its own or of an earlier one.
sub work
{
	my ($no, $new) = @_;
	my $from = 10_000 * $no;
	my $rows = pick(3, 30, 30, 300, rare(0.2) ? 4000 : 100);
	my $its = "BETWEEN $from AND $from + 9999";

	return changes($from, $rows) if $new;
	return join '; ', map { pick("UPDATE t SET w = repeat(md5(id::text || random()), 100), v = v + 1 WHERE id $its AND id % 3 = 0", "UPDATE t SET v = v + 1 WHERE id $its",
			"DELETE FROM t WHERE id $its AND id % 5 = 0", "UPDATE q SET c = c || 'x' WHERE a $its", "UPDATE q SET b = 'b' || b WHERE a $its AND a % 2 = 0", "INSERT INTO nokey VALUES ($from, 'more')",
			"SAVEPOINT s; DELETE FROM q WHERE a $its; ROLLBACK TO s") } 1 .. 1 + int(rand(4));
}

sub begin_work
{
	my $new = !@settled || rare(0.6);
	my $no = $new ? ++$next : splice(@settled, int(rand(@settled)), 1);

	return ($no, work($no, $new));
}

sub start_prepared
{
	my ($no, $sql) = begin_work();

	if (!defined $emptied && rare(0.15))
	{
		$emptied = $no;
		$sql .= "; INSERT INTO late VALUES ($no, 'before') ON CONFLICT DO NOTHING; TRUNCATE late; INSERT INTO late VALUES ($no, 'after')";
	}
	prepare("g$no", $sql);
	push @prepared, $no;
	return;
}

sub end_prepared
{
	my $no = splice @prepared, int(rand(@prepared)), 1;
	my $commits = rare(0.7);

	up(($commits ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'g$no'");
	push @settled, $no if $commits;
	$emptied = undef if defined $emptied && $emptied == $no;
	return;
}

sub commit
{
	my ($no, $sql) = begin_work();

	up("BEGIN; $sql; " . (rare(0.05) ? 'TRUNCATE other; ' : '') . 'COMMIT');
	push @settled, $no;
	return;
}

sub check
{
	my ($when) = @_;

	streams();
	up("INSERT INTO other SELECT coalesce(max(id), 0) + 1, 'mark' FROM other");
	foreach my $table (grep { !$paused{$_} } @its)
	{
		wait_for_apply($upstream, $replica, 'postgres', 's', $table);
		my ($here, $there) = (table_hash($replica, $table), table_hash($upstream, $table));
		is($here, $there, "$seed: $when: $table");
		BAIL_OUT('they differ') if $here ne $there && $ENV{TWO_PHASE_STOP};
	}
	return;
}

sub alter { down("SELECT rose.alter_subscription('s', $_[0])"); return }

my %does = (
	start => \&start_prepared,
	end => sub { end_prepared() if @prepared; return },
	commit => \&commit,
	spill => sub { down("SELECT rose.spill('$_')") foreach pick(@its); return },
	crash => sub { crash_and_restart($replica); return },
	crash_upstream => sub { crash_and_restart($upstream); return },
	kill => sub { down('SELECT pg_terminate_backend(pid) FROM rose.stat_subscription'); return },
	pause => sub { my $t = pick(@its); return if $paused{$t}; streams(); down("SELECT rose.pause_table('s', '$t')"); $paused{$t} = 1; return },
	resume => sub { my @all = keys %paused; return if !@all; my $t = pick(sort @all); streams(); down("SELECT rose.resume_table('s', '$t')"); delete $paused{$t}; return },
	resync => sub {
		my $t = pick(@its);
		return if @prepared || $paused{$t};	# it would wait for them
		alter("resync => '$t'");
		return;
	},
	streaming => sub { alter('streaming => ' . pick('true', 'false')); return },
	durability => sub { return if %paused; streams(); alter('durability => ' . pick("'local'", "'upstream'")); return },
	rest => sub { alter('enabled => false'); until_down('SELECT pid IS NULL FROM rose.stat_subscription'); commit(); end_prepared() if @prepared; alter('enabled => true'); return });
my @deck = ((qw(start) x 8), (qw(end) x 7), (qw(commit) x 6), (qw(spill) x 3), (qw(kill) x 2), (qw(crash) x 2), qw(crash_upstream pause pause resume resume resume resync streaming durability rest));

prepared_tables($upstream, $replica);
up('ALTER PUBLICATION p ADD TABLE late');
subscribe($upstream, $replica, undef, rare(0.7) ? 'two_phase => true' : ());
start_prepared() foreach 1 .. 3;
alter('two_phase => true');
foreach my $step (1 .. $steps)
{
	my $what = @prepared > 60 ? 'end' : pick(@deck);

	note("step $step: $what");
	$does{$what}->();
	check("step $step") if $step % 15 == 0;
}
end_prepared() while @prepared;
$does{resume}->() while %paused;
down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
push @its, 'late';
check('the end');
down(q{SELECT rose.spill('other')});
until_down('SELECT count(*) = 0 FROM rose.subscription_prepared WHERE number > 0');
is(down("SELECT string_agg(c::text, ' ') FROM unnest('{t,q,nokey,other,late}'::text[]) t, rose.check(t::regclass) c"), '', 'rose.check');
done_testing();
