
# What survives a crash of the replica: every table at one upstream position,
# nothing that the upstream was told to forget.
#
# Some crashes come at chosen moments: a prepared transaction that has locked a
# catalog table stops the worker there. The others come at random ones
# (DURABILITY_SEED, DURABILITY_ROUNDS). After a crash the replica is first started
# without replication workers, so that nothing repairs what is looked at.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no epochs' if $ENV{ROSE_STANDIN};

my $rounds = $ENV{DURABILITY_ROUNDS} // 8;
my $seed = seed_random('DURABILITY_SEED');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '1h'", 'rose.max_subscriptions = 4', "wal_retrieve_retry_interval = '100ms'", "wal_receiver_status_interval = '1s'");
my $conninfo = $upstream->connstr('postgres');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub caught_up { return wait_for_apply($upstream, $replica) }

# Stop the worker where it next makes a position durable. The lock outlives a crash.
sub hold_epochs { return down("BEGIN; CREATE INDEX hold ON rose.subscription_state (epoch); PREPARE TRANSACTION 'hold'") }
sub release_epochs { return down("ROLLBACK PREPARED 'hold'") }

sub wait_until_held
{
	$replica->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'rose.subscription_state'::regclass)")
	  or die 'the worker does not come to its epoch';
	return;
}

sub crash_and_look { crash($replica); return start_without_replication($replica) }
sub go_on { return replication_again($replica) }

sub difference
{
	caught_up();
	foreach my $table (@_)
	{
		my ($theirs, $ours) = (table_hash($upstream, $table), table_hash($replica, $table));
		return "$table: upstream $theirs, replica $ours" if $theirs ne $ours;
		my $check = down("SELECT c::text FROM rose.check('$table') c");
		return "rose.check of $table: $check" if $check ne '';
	}
	return '';
}

my @tables = qw(left_side right_side ticks idle);
my $rows = 2000;
foreach my $table (@tables)
{
	up("CREATE TABLE $table (id int PRIMARY KEY, n bigint); INSERT INTO $table SELECT g, 0 FROM generate_series(1, $rows) g");
	down("CREATE TABLE $table (id int PRIMARY KEY, n bigint) USING rose");
}
up('CREATE TABLE unpublished (n int); CREATE PUBLICATION p FOR TABLE ' . join(', ', @tables));

# --- a crash when the tables are copied, and the stream has not begun
down("SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'], enabled => false)");
hold_epochs();
down("SELECT rose.alter_subscription('s', enabled => true)");
wait_until_held();
up("UPDATE left_side SET n = 1 WHERE id = 1; UPDATE left_side SET n = 0 WHERE id = 1");
crash_and_look();
is(down("SELECT string_agg(DISTINCT state, ' '), (SELECT count(*) FROM left_side) + (SELECT count(*) FROM idle) FROM rose.stat_subscription_tables"), 'copied|' . 2 * $rows, 'what is copied stays so');
is(down("SELECT count(*) FROM rose.check('idle')"), 0, 'and is whole');
release_epochs();
go_on();
down("SELECT rose.wait_for_sync('s', $timeout)");
is(difference(@tables), '', 'the stream begins where the copies are of');
is(up("SELECT count(*) FROM pg_replication_slots"), 1, 'and leaves no slot');

# A crash at a random moment of a copy is in crash_replica.pl.

# --- a crash between the runs' publication as pending and the commit of the epoch
sub pending { return down("SELECT count(*) FROM unnest(ARRAY['" . join("','", @tables) . "']::regclass[]) t, rose.components(t) c WHERE c.state ~ 'pending'") }

down("SELECT rose.spill('ticks')");
up("BEGIN; UPDATE left_side SET n = n - 7; UPDATE right_side SET n = n + 7; COMMIT");
caught_up();
is(down('SELECT confirmed_lsn <= durable_lsn AND durable_lsn < applied_lsn FROM rose.stat_subscription'), 't', 'applied but not durable, and not confirmed');
my $confirmed = up('SELECT confirmed_flush_lsn FROM pg_replication_slots');
hold_epochs();
my ($psql_out, $psql_err) = ('', '');
my $spill = IPC::Run::start([ 'psql', '-XAtq', '-d', $replica->connstr('postgres'), '-c', "SELECT rose.spill('left_side')" ], '>', \$psql_out, '2>', \$psql_err);
wait_until_held();
is(pending(), 2, 'two runs are pending');
is(down('SELECT (SELECT sum(n) FROM left_side), (SELECT sum(n) FROM right_side)'), "-@{[ 7 * $rows ]}|@{[ 7 * $rows ]}", 'readers see their rows');
crash_and_look();
eval { $spill->finish };
is(down('SELECT (SELECT sum(n) FROM left_side), (SELECT sum(n) FROM right_side)'), '0|0', 'after the crash all tables are at the older position');
is(pending(), 0, 'the pending runs are gone');
release_epochs();
go_on();
is(difference(@tables), '', 'the stream is repeated');
is(up("SELECT confirmed_flush_lsn >= '$confirmed' FROM pg_replication_slots"), 't', 'the slot does not go back');

# The same when the worker alone dies: its successor takes the runs along.
up("BEGIN; UPDATE left_side SET n = n - 1; UPDATE right_side SET n = n + 1; COMMIT");
caught_up();
hold_epochs();
$spill = IPC::Run::start([ 'psql', '-XAtq', '-d', $replica->connstr('postgres'), '-c', "SELECT rose.spill('left_side')" ], '>', \$psql_out, '2>', \$psql_err);
wait_until_held();
down("SELECT pg_terminate_backend(pid) FROM rose.stat_subscription");
release_epochs();
ok($spill->finish, 'rose.spill outlives a worker') or diag($psql_err);
is(pending(), 0, 'nothing is pending');
crash_and_look();
is(down('SELECT (SELECT sum(n) FROM left_side), (SELECT sum(n) FROM right_side)'), "-@{[ 8 * $rows ]}|@{[ 8 * $rows ]}", 'what rose.spill made durable survives');
go_on();
is(difference(@tables), '', 'equal');

# --- an upstream that shuts down waits for what it has sent, but not for the interval
up("BEGIN; UPDATE left_side SET n = n - 1; UPDATE right_side SET n = n + 1; COMMIT");
caught_up();
is(down('SELECT durable_lsn < applied_lsn FROM rose.stat_subscription'), 't', 'applied but not durable');
ok($upstream->stop('fast', fail_ok => 1), 'the upstream shuts down');
is(down('SELECT durable_lsn = applied_lsn FROM rose.stat_subscription'), 't', 'all of it is durable');
$upstream->start;
is(difference(@tables), '', 'equal');

# --- a rewrite does not make durable what no epoch covers
up("CREATE TABLE log (n int); ALTER PUBLICATION p ADD TABLE log");
down("CREATE TABLE log (n int) USING rose; SELECT rose.alter_subscription('s', refresh => true)");
down("SELECT rose.wait_for_sync('s', $timeout)");
up('INSERT INTO log SELECT generate_series(1, 10)');
caught_up();
my @rewrites = ('ALTER TABLE log ALTER n TYPE bigint', 'ALTER TABLE log ADD PRIMARY KEY (n)', 'ALTER TABLE log ADD extra float DEFAULT random()');
foreach my $rewrite (@rewrites)
{
	like(($replica->psql('postgres', $rewrite))[2], qr/cannot (?:rewrite|add or validate a constraint of) table "log" while a subscription has changes in it.*rose.spill/s, "refused: $rewrite");
}
up('INSERT INTO log SELECT generate_series(11, 20)');
caught_up();
down("SELECT rose.spill('log')");
down($rewrites[0]);
crash_and_restart($replica);
is(difference(@tables, 'log'), '', 'rewritten after an epoch: each row once');
up('ALTER PUBLICATION p DROP TABLE log');
down("SELECT rose.alter_subscription('s', refresh => true)");

# --- a worker that cannot spill does not keep a table from being merged
foreach my $n (1 .. 3)
{
	up("UPDATE left_side SET n = n + $n; UPDATE right_side SET n = n - $n");
	caught_up();
	down("SELECT rose.spill('left_side')");
}
stop_points_create($replica);
down("SELECT stop_at('state-written', 'error', 'worker', 0, 1000)");
up("UPDATE left_side SET n = n - 6; UPDATE right_side SET n = n + 6");
caught_up();
my ($rc, $out, $err) = $replica->psql('postgres', "SELECT rose.merge('left_side')");
is($rc, 0, 'rose.merge without a spill');
like($err, qr/WARNING:  merging only what is on disk of table "left_side".*DETAIL:  the replication worker cannot commit an epoch: .*state-written/s, 'says so');
is(down("SELECT count(*) FROM rose.components('left_side') WHERE kind <> 'memtable' AND state !~ 'pending'"), 1, 'and merges what is on disk');
($rc, $out, $err) = $replica->psql('postgres', "SELECT rose.spill('left_side')");
like($err, qr/ERROR:  the replication worker cannot commit an epoch.*HINT:  See last_error/s, 'rose.spill fails');
down('SELECT stop_clear()');
down("SELECT rose.spill('left_side')");
is(difference(@tables), '', 'equal when it works again');

# --- TRUNCATE together with other changes: all or nothing
sub mixed { return "BEGIN; UPDATE left_side SET n = n + 5; TRUNCATE ticks; INSERT INTO ticks VALUES (1, 1), (2, 2); UPDATE right_side SET n = n - 5; COMMIT" }

my $before = join ' ', map { table_hash($replica, $_) } @tables;
hold_epochs();
up(mixed());
wait_until_held();
crash_and_look();
is(join(' ', map { table_hash($replica, $_) } @tables), $before, 'TRUNCATE with other changes, a crash before its end: nothing of it');
release_epochs();
go_on();
is(difference(@tables), '', 'then all of it');
up(mixed());
caught_up();
my $after = join ' ', map { table_hash($replica, $_) } @tables;
crash_and_look();
is(join(' ', map { table_hash($replica, $_) } @tables), $after, 'a crash right after it: all of it');
is(down("SELECT count(*) FROM rose.check('ticks')"), 0, 'rose.check');
go_on();
up("BEGIN; TRUNCATE ticks; INSERT INTO ticks SELECT g, 0 FROM generate_series(1, $rows) g; COMMIT; UPDATE left_side SET n = 0; UPDATE right_side SET n = 0");
is(difference(@tables), '', 'set back');

# --- the slot moves on, whatever is idle
sub slot_passes
{
	my ($name) = @_;
	my $lsn = up('SELECT pg_current_wal_flush_lsn()');

	ok($upstream->poll_query_until('postgres', "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots"), $name);
	return;
}

down("ALTER SYSTEM SET rose.spill_interval = '50ms'");
down('SELECT pg_reload_conf()');
up('UPDATE ticks SET n = n + 1 WHERE id = 1');
slot_passes('the slot moves though tables are idle');
up('INSERT INTO unpublished SELECT generate_series(1, 1000)');
slot_passes('and when nothing is published');

# --- random crashes under a workload that moves amounts between two tables
my $script = $upstream->basedir . '/transfer.sql';
append_to_file($script, <<SQL);
\\set a random(1, $rows)
\\set b random(1, $rows)
\\set d random(1, 100)
BEGIN;
UPDATE left_side SET n = n - :d WHERE id = :a;
UPDATE right_side SET n = n + :d WHERE id = :b;
UPDATE ticks SET n = n + 1 WHERE id = :client_id + 1;
COMMIT;
SQL

# '' if the tables are at one position. ahead: no tick is missing that was durable.
my $ticks = 0;

sub disagreement
{
	my ($sum, $now, $order) = split /\|/, down('SELECT (SELECT sum(n) FROM left_side) + (SELECT sum(n) FROM right_side), (SELECT sum(n) FROM ticks)');

	return "the sum is $sum" if $sum != 0;
	return "$now ticks, after $ticks" if $now < $ticks;
	$ticks = $now;
	return '';
}

foreach my $round (1 .. $rounds)
{
	my ($out, $err) = ('', '');
	my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', 2, '-T', 2, '--random-seed', $seed + $round, $upstream->connstr('postgres') ], '>', \$out, '2>', \$err);
	my @problems;

	# Where the tables are durable is a bound for what a crash may take away.
	foreach (1 .. 3)
	{
		usleep(1_000_000 * random_between(0.05, 0.4));
		my $order = down("SELECT confirmed_lsn <= durable_lsn AND durable_lsn <= applied_lsn FROM rose.stat_subscription");
		push @problems, 'positions out of order' if $order eq 'f';
		push @problems, disagreement() if $round % 4 == 0;
	}
	$ticks = 0;
	if ($round % 2)
	{
		crash_and_look();
		push @problems, disagreement();
		go_on();
	}
	else
	{
		crash_and_restart($replica);
		push @problems, disagreement();
	}
	usleep(1_000_000 * random_between(0, 0.3));
	push @problems, disagreement();
	$pgbench->finish or push @problems, $err;
	push @problems, difference(@tables);
	@problems = grep { $_ ne '' } @problems;
	is(join("\n", @problems), '', "crash $round");
	last if @problems;
}
cmp_ok(up('SELECT sum(n) FROM ticks'), '>', $rounds, 'the upstream was busy');

$replica->stop;
$upstream->stop;
done_testing();
