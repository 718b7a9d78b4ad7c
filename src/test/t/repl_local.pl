
# A subscription with durability => 'local': its batches are logged, and the position is in their commit records. What it
# has told the upstream is flushed here, whatever is killed, and each change comes once: a table without key shows that.
#
# The walwriter stands still where it matters that nothing has been flushed. At the end the worker and the server die at random
# moments (LOCAL_SEED, LOCAL_ROUNDS).
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no durability of its own' if $ENV{ROSE_STANDIN};

my $rounds = $ENV{LOCAL_ROUNDS} // 5;
my $seed = seed_random('LOCAL_SEED');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;

# no keepalive of the upstream asks for an answer, for which all would be flushed
my $upstream = upstream_node('wal_sender_timeout = 0');
my $replica = rose_node('replica', "rose.spill_interval = '1h'", 'rose.max_subscriptions = 4', "rose.memtable_size = '4MB'", "wal_retrieve_retry_interval = '100ms'", 'wal_receiver_timeout = 0',
	'autovacuum = off', 'bgwriter_lru_maxpages = 0', "shared_buffers = '64MB'", 'max_replication_slots = 4', 'restart_after_crash = on');
my $conninfo = $upstream->connstr('postgres');
my $columns = 'id int PRIMARY KEY, n bigint, doc text';
my @tables = qw(left_side right_side journal docs);
my $rows = 300;

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub caught_up { return wait_for_apply($upstream, $replica) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub until_up { return $upstream->poll_query_until('postgres', $_[0]) }
sub streams { return until_down("SELECT count(*) > 0 AND bool_and(state = 'streaming') FROM rose.stat_subscription") || die down('SELECT state, last_error FROM rose.stat_subscription') }

sub difference
{
	my @problems;

	caught_up();
	foreach my $table (@_ ? @_ : @tables)
	{
		my ($theirs, $ours) = (table_hash($upstream, $table), table_hash($replica, $table));
		push @problems, "$table: upstream $theirs, replica $ours" if $theirs ne $ours;
		my $check = down("SELECT c::text FROM rose.check('$table') c");
		push @problems, "rose.check of $table: $check" if $check ne '';
	}
	return join "\n", @problems;
}

# A large value, that no update sends; different for each row.
my $large = "(SELECT string_agg(md5(g || ':' || s), '') FROM generate_series(1, 120) s)";

foreach my $table (@tables)
{
	my $key = $table eq 'journal' ? $columns =~ s/ PRIMARY KEY//r : $columns;
	up("CREATE TABLE $table ($key)");
	down("CREATE TABLE $table ($key) USING rose");
}
up("ALTER TABLE docs ALTER doc SET STORAGE EXTERNAL");
up("INSERT INTO left_side SELECT g, 0 FROM generate_series(1, $rows) g; INSERT INTO right_side SELECT g, 0 FROM generate_series(1, $rows) g; INSERT INTO docs SELECT g, g, $large FROM generate_series(1, 20) g");
down('CREATE INDEX left_n ON left_side (n)');
up('CREATE PUBLICATION p FOR TABLE ' . join ', ', @tables);

# --- what it is
down("SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'], durability => 'local')");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(down('SELECT durability FROM rose.stat_subscription'), 'local', 'the view says so');
is(down("SELECT srvoptions @> '{durability=local}' FROM pg_foreign_server"), 't', 'and a dump');
is(down('SELECT count(*) FROM pg_replication_origin'), 1, 'it has an origin');
is(difference(), '', 'the copy');
like(error_of($replica, 'TRUNCATE journal'), qr/subscription/, 'no TRUNCATE');
like(error_of($replica, 'CREATE UNIQUE INDEX ON left_side (n)'), qr/written without a look/, 'no unique index');

# --- nothing is confirmed that is not flushed
my $walwriter = down("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");

# Nor do others, who would flush all; there are buffers enough. It stops where it sleeps, and so holds no lock.
sub stop_flushing
{
	no_merge_workers($replica);
	down('CHECKPOINT');
	for (;;)
	{
		kill 'STOP', $walwriter;
		usleep(1000) while (RoseTest::process_state($walwriter))[1] =~ /[RSD]/;
		return if down("SELECT wait_event = 'WalWriterMain' FROM pg_stat_activity WHERE pid = $walwriter") eq 't';
		kill 'CONT', $walwriter;
		usleep(10_000);
	}
}

sub applied_and_not_flushed
{
	my ($sql) = @_;

	up($sql);
	my $lsn = up('SELECT pg_current_wal_flush_lsn()');
	caught_up();
	until_up("SELECT replay_lsn >= '$lsn' FROM pg_stat_replication WHERE application_name = 's' AND state = 'streaming'") or die 'nothing is said';
	is(up("SELECT flush_lsn < '$lsn' FROM pg_stat_replication WHERE application_name = 's' AND state = 'streaming'"), 't', 'applied, and said, but not confirmed');
	return $lsn;
}

stop_flushing();
my $lsn = applied_and_not_flushed("INSERT INTO journal VALUES (1, 1); UPDATE left_side SET n = 5 WHERE id = 5; UPDATE docs SET n = -1 WHERE id = 7; INSERT INTO journal VALUES (2, 2)");
is(down('SELECT durable_lsn < applied_lsn FROM rose.stat_subscription'), 't', 'nor durable');
crash($replica);
start_without_replication($replica);
is(down('SELECT count(*) FROM journal'), 0, 'it is lost');
replication_again($replica);
streams();
is(difference(), '', 'and comes again');

# --- it is without an epoch, when it is flushed
up('INSERT INTO journal VALUES (3, 3)');
$lsn = up('SELECT pg_current_wal_flush_lsn()');
ok(until_up("SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots"), 'confirmed soon');
is(down('SELECT epochs, epoch FROM rose.stat_subscription'), '0|0', 'without an epoch');
crash($replica);
start_without_replication($replica);
is(down('SELECT count(*) FROM journal WHERE id = 3'), 1, 'it is there after a crash, with no upstream');
is(down('SELECT count(*) FROM docs WHERE n = -1 AND length(doc) = 3840'), 1, 'and a row whose large value was not sent');
is(down("SET enable_seqscan = off; SELECT id FROM left_side WHERE n = 5"), 5, 'and the entry of an index');
replication_again($replica);
streams();
is(difference(), '', 'nothing comes twice');

# --- an upstream that shuts down does not wait for the walwriter
$walwriter = down("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
stop_flushing();
applied_and_not_flushed('INSERT INTO journal VALUES (4, 4)');
ok($upstream->stop('fast', fail_ok => 1), 'the upstream shuts down');
kill 'CONT', $walwriter;
$upstream->start;
streams();
is(difference(), '', 'equal');

merge_workers($replica, 3);

# --- TRUNCATE with other changes, as any change
up('BEGIN; UPDATE left_side SET n = n + 1; TRUNCATE journal; INSERT INTO journal VALUES (5, 5); COMMIT; INSERT INTO journal VALUES (6, 6)');
is(difference(), '', 'TRUNCATE');
crash_and_restart($replica);
streams();
is(difference(), '', 'after a crash');

# --- a transaction that is larger than memory, and one that is taken back
up("BEGIN; INSERT INTO journal SELECT g, g, repeat(md5(g::text), 8) FROM generate_series(1, 30000) g; UPDATE right_side SET n = n + 1; COMMIT");
up('BEGIN; INSERT INTO journal SELECT g FROM generate_series(1, 1000) g; ROLLBACK; BEGIN; INSERT INTO journal VALUES (-1); SAVEPOINT a; INSERT INTO journal VALUES (-2); ROLLBACK TO a; COMMIT');
is(difference(), '', 'larger than memory');
crash_and_restart($replica);
streams();
is(difference(), '', 'after a crash');
down("SELECT rose.spill('journal'), rose.merge('docs')");
is(difference(), '', 'rose.spill and rose.merge');

# --- the stream goes back: a table that is resumed, and one that is copied
down("SELECT rose.pause_table('s', 'right_side')");
up('UPDATE right_side SET n = 17 WHERE id = 1; INSERT INTO journal VALUES (7, 7)');
wait_for_apply($upstream, $replica, 'postgres', 's', 'journal');
down("SELECT rose.resume_table('s', 'right_side')");
is(difference(), '', 'a table is resumed, and the others get nothing twice');
crash_and_restart($replica);
streams();
is(difference(), '', 'after a crash');
up("CREATE TABLE late (id int, n bigint, doc text); INSERT INTO late SELECT g FROM generate_series(1, 100) g; ALTER PUBLICATION p ADD TABLE late");
down("CREATE TABLE late (id int, n bigint, doc text) USING rose; SELECT rose.alter_subscription('s', refresh => true)");
up("INSERT INTO journal SELECT g FROM generate_series(1, 50) g; INSERT INTO late VALUES (0)");
down("SELECT rose.wait_for_sync('s', $timeout)");
push @tables, 'late';
is(difference(), '', 'one that is copied later');
crash_and_restart($replica);
streams();
is(difference(), '', 'after a crash');

# --- disabled when the server goes down: the position is recorded all the same
$walwriter = down("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
up('INSERT INTO journal VALUES (8, 8)');
caught_up();
down("SELECT rose.alter_subscription('s', enabled => false)");
crash_and_restart($replica);
ok(until_down("SELECT pid IS NULL FROM rose.stat_subscription") && until_down("SELECT s.durable_lsn >= o.remote_lsn FROM rose.subscription_state s, pg_replication_origin_status o"), 'disabled');
down("SELECT rose.pause_table('s', 'late')");
up('INSERT INTO late VALUES (9)');
down("SELECT rose.alter_subscription('s', enabled => true)");
down("SELECT rose.resume_table('s', 'late')");
streams();
is(difference(), '', 'equal');

# --- nobody knows any more what was applied
down("SELECT rose.alter_subscription('s', enabled => false)");
ok(until_down("SELECT pid IS NULL FROM rose.stat_subscription"), 'disabled');
down('SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin');
down("SELECT rose.alter_subscription('s', enabled => true)");
ok(until_down("SELECT blocked_reason = 'origin_missing' FROM rose.stat_subscription"), 'without its origin it is blocked');
like(down('SELECT last_error FROM rose.stat_subscription'), qr/there is no replication origin "rose_\d+_\d+", which would say.*accept => 'resync'/, 'and says what to do');
down("SELECT rose.alter_subscription('s', accept => 'resync')");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(difference(), '', 'copied anew');

# --- random deaths under a workload
my $script = $upstream->basedir . '/transfer.sql';
append_to_file($script, <<SQL);
\\set a random(1, $rows)
\\set b random(1, $rows)
\\set d random(1, 100)
BEGIN;
UPDATE left_side SET n = n - :d WHERE id = :a;
UPDATE right_side SET n = n + :d WHERE id = :b;
INSERT INTO journal VALUES (:a, :d);
UPDATE docs SET n = n + 1 WHERE id = 1 + :a % 20;
COMMIT;
SQL
up("TRUNCATE journal; UPDATE left_side SET n = 0; UPDATE right_side SET n = 0");
is(difference(), '', 'set back');

# The tables are of one position, and what the upstream was told is here.
sub disagreement
{
	my ($confirmed, @more) = @_;
	my ($sum, $moved, $there) = split /\|/, down('SELECT (SELECT sum(n) FROM left_side) + (SELECT sum(n) FROM right_side), (SELECT sum(n) FROM right_side) - (SELECT coalesce(sum(n), 0) FROM journal)');

	return "the sum is $sum" if $sum != 0;
	return "the journal differs by $moved" if $moved != 0;
	return '';
}

foreach my $round (1 .. $rounds)
{
	my ($out, $err) = ('', '');
	my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', 2, '-T', 1, '--random-seed', $seed + $round, $upstream->connstr('postgres') ], '>', \$out, '2>', \$err);
	my $how = (qw(server worker terminated server))[ int(rand(4)) ];
	my @problems;

	usleep(1_000_000 * random_between(0.1, 0.9));
	if ($how eq 'server')
	{
		crash($replica);
		start_without_replication($replica);
		push @problems, disagreement();
		replication_again($replica);
	}
	else
	{
		my $pid = down('SELECT pid FROM rose.stat_subscription');
		kill $how eq 'worker' ? 'KILL' : 'TERM', $pid if $pid;
		wait_until_up($replica);
	}
	usleep(1_000_000 * random_between(0, 0.3));
	push @problems, disagreement();
	$pgbench->finish or push @problems, $err;
	push @problems, difference();
	@problems = grep { $_ ne '' } @problems;
	is(join("\n", @problems), '', "death $round");
	last if @problems;
}

# --- the end
down("SELECT rose.drop_subscription('s')");
is(down('SELECT count(*) FROM pg_replication_origin'), 0, 'the origin goes with it');
is(error_of($replica, 'INSERT INTO left_side VALUES (0); CREATE UNIQUE INDEX ON left_side (id, n)'), '', 'the tables are everybody\'s');

$replica->stop;
$upstream->stop;
done_testing();
