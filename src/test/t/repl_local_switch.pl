
# durability => 'local' and DDL that has to wait for an epoch otherwise; and subscriptions whose durability is changed: nothing
# is lost, and nothing comes twice, whatever was not durable yet, and if the server goes down right after it, or the change is rolled back.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no durability of its own' if $ENV{ROSE_STANDIN};

my $rounds = $ENV{SWITCH_ROUNDS} // 4;
my $seed = seed_random('SWITCH_SEED');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('logical_decoding_work_mem = 64kB');
my $replica = rose_node('replica', "rose.spill_interval = '1h'", 'rose.max_subscriptions = 4', "wal_retrieve_retry_interval = '100ms'", 'allow_in_place_tablespaces = on');
my $conninfo = $upstream->connstr('postgres');
my @tables = qw(keyed journal parts narrow);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub caught_up { return wait_for_apply($upstream, $replica) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub streams { return until_down("SELECT state = 'streaming' FROM rose.stat_subscription") || die down('SELECT state, last_error FROM rose.stat_subscription') }
sub become { my ($durability) = @_; return down("SELECT rose.alter_subscription('s', durability => '$durability')") }

sub difference
{
	my @problems;

	caught_up();
	foreach my $table (@tables)
	{
		my ($theirs, $ours) = (table_hash($upstream, $table), table_hash($replica, $table));
		push @problems, "$table: upstream $theirs, replica $ours" if $theirs ne $ours;
		foreach my $part (split /\n/, down("SELECT relid::regclass FROM pg_partition_tree('$table') WHERE isleaf UNION SELECT '$table'::regclass WHERE '$table' <> 'parts'"))
		{
			my $check = down("SELECT c::text FROM rose.check('$part') c");
			push @problems, "rose.check of $part: $check" if $check ne '';
		}
	}
	return join "\n", @problems;
}

up('CREATE TABLE keyed (id int PRIMARY KEY, n int, v text); CREATE TABLE journal (id int, n int); CREATE TABLE parts (id int PRIMARY KEY, n int); CREATE TABLE narrow (id int PRIMARY KEY, n int)');
up("INSERT INTO keyed SELECT g, g, 'v' || g FROM generate_series(1, 200) g; INSERT INTO journal SELECT g, g FROM generate_series(1, 50) g; INSERT INTO parts SELECT g, g FROM generate_series(1, 200) g");
up('CREATE PUBLICATION p FOR TABLE ' . join ', ', @tables);
down('CREATE TABLE keyed (id int PRIMARY KEY, n int, v text) USING rose; CREATE INDEX keyed_n ON keyed (n); CREATE TABLE journal (id int, n int) USING rose; CREATE TABLE narrow (id int PRIMARY KEY, n smallint) USING rose');
down('CREATE TABLE parts (id int PRIMARY KEY, n int) PARTITION BY RANGE (id); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (100) USING rose; CREATE TABLE parts_rest PARTITION OF parts DEFAULT USING rose');
down("SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'])");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(down('SELECT durability FROM rose.stat_subscription'), 'upstream', 'the default');

my $step = 0;

# Each row once, in each of the tables.
sub change
{
	$step++;
	return up("UPDATE keyed SET n = n + $step WHERE id % 3 = $step % 3; INSERT INTO journal VALUES (10000 + $step, $step); UPDATE parts SET n = -$step WHERE id % 5 = $step % 5; INSERT INTO keyed VALUES (1000 + $step, $step, 'new'); DELETE FROM keyed WHERE id = 3 * $step");
}

# --- DDL waits for an epoch where it has to
change();
caught_up();
my @commands = ('ALTER TABLE journal ALTER n TYPE bigint', 'ALTER TABLE keyed ALTER n SET NOT NULL', 'ALTER TABLE keyed ADD CHECK (id > 0)', 'ALTER TABLE parts DETACH PARTITION parts_1');
foreach my $command (@commands)
{
	like(error_of($replica, $command), qr/not yet durable/, "by epochs: $command");
}
my @more = ('VACUUM FULL keyed', 'ALTER TABLE keyed SET TABLESPACE elsewhere');
down("CREATE TABLESPACE elsewhere LOCATION ''");
foreach my $command (@more)
{
	like(error_of($replica, $command), qr/because a subscription feeds it/, "by epochs: $command");
}

# --- changed: what was not durable before
become('local');
is(down('SELECT durability FROM rose.stat_subscription') . down("SELECT srvoptions @> '{durability=local}' FROM pg_foreign_server"), 'localt', 'local');
crash_and_restart($replica);
streams();
is(difference(), '', 'after a crash');
change();
is(difference(), '', 'goes on');
foreach my $command (@more, @commands, "ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES FROM (1) TO (100)", "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (5000) TO (6000) USING rose",
	'ALTER TABLE journal ADD PRIMARY KEY (id, n)', 'ALTER TABLE journal DROP CONSTRAINT journal_pkey', 'REINDEX TABLE keyed')
{
	# a partition that is away gets no rows
	change() unless $command =~ /ATTACH/;
	caught_up();
	is(error_of($replica, $command), '', "logged: $command");
}
up('INSERT INTO parts VALUES (5001, 1)');
is(difference(), '', 'equal');
is(down("SELECT count(*) FROM parts_2"), 1, 'a row in the new partition');
crash_and_restart($replica);
streams();
change();
is(difference(), '', 'after a crash');
is(down('SELECT epochs FROM rose.stat_subscription'), 0, 'without an epoch');
foreach my $write ('CREATE UNIQUE INDEX ON keyed (n)', 'CREATE INDEX CONCURRENTLY ON keyed (n)', 'TRUNCATE keyed', 'ALTER TABLE keyed SET UNLOGGED', 'ALTER TABLE keyed SET ACCESS METHOD heap')
{
	like(error_of($replica, $write), qr/subscription/, "refused as ever: $write");
}

# --- the row is behind the origin, and cannot be brought up: what is done to the origin would not roll back
sub crash_behind
{
	my ($mark) = @_;

	down("SELECT rose.pause_table('s', 'keyed')");
	up("INSERT INTO journal SELECT g, $mark FROM generate_series(1, 10) g");
	until_down("SELECT count(*) = 10 FROM journal WHERE n = $mark");
	down('CREATE TABLE flushed (); DROP TABLE flushed');
	crash($replica);
	start_without_replication($replica);
	is(down("SELECT count(*) FROM journal WHERE n = $mark"), 10, 'flushed');
	return;
}

crash_behind(-77);
my $refused = error_of($replica, "BEGIN; SELECT rose.drop_subscription('s', keep_slot => true); ROLLBACK");
ok($refused eq '' || $refused =~ /has not been recorded yet/, 'a drop that is rolled back') or diag($refused);
replication_again($replica);
streams();
down("SELECT rose.resume_table('s', 'keyed')");
is(difference(), '', 'has changed nothing');

# an origin that somebody has dropped comes with the copy of all tables, not with what one of them lacks
crash_behind(-78);
down('SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin');
replication_again($replica);
until_down("SELECT blocked_reason = 'origin_missing' FROM rose.stat_subscription");
like(error_of($replica, "SELECT rose.resume_table('s', 'keyed')"), qr/there is no replication origin/, 'resumed without an origin');
is(down('SELECT blocked_reason FROM rose.stat_subscription'), 'origin_missing', 'blocked as before');
down("SELECT rose.alter_subscription('s', accept => 'resync')");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(difference(), '', 'copied again');

# --- what a batch that was given up has left in memory is in no epoch, and in nobody's way
foreach my $way ('in one transaction', 'streamed')
{
	become('upstream');
	caught_up();
	down("SELECT rose.spill('keyed')");
	down("SELECT rose.alter_subscription('s', streaming => " . ($way eq 'streamed' ? 'true' : 'false') . ')');
	up("BEGIN; INSERT INTO keyed SELECT g, g, 'given up' FROM generate_series(20001, 25000) g; INSERT INTO parts SELECT g, 100000 FROM generate_series(20001, 25000) g; INSERT INTO narrow VALUES (" . ($way eq 'streamed' ? 2 : 1) . ", 100000); COMMIT");
	until_down("SELECT last_error ~ 'out of range' FROM rose.stat_subscription");
	become('local');
	down('ALTER TABLE narrow ALTER n TYPE int');
	streams();
	change();
	is(difference(), '', "given up, $way");
	up('DELETE FROM keyed WHERE id > 20000; DELETE FROM parts WHERE id > 20000; DELETE FROM narrow');
	caught_up();
	down('ALTER TABLE narrow ALTER n TYPE smallint');
}

# nor is what a transaction in progress upstream has sent so far
foreach my $to ('upstream', 'local')
{
	my $session = RoseTest::Session->new($upstream);

	$session->run("BEGIN; INSERT INTO keyed SELECT g, g, repeat('in progress', 10) FROM generate_series(30001, 40000) g");
	until_down("SELECT stream_bytes > 0 FROM rose.stat_subscription");
	become($to);
	change();
	$session->run('COMMIT');
	$session->end;
	is(difference(), '', "to $to beside a transaction in progress");
	up('DELETE FROM keyed WHERE id > 20000');
}

# --- rolled back
foreach my $to ('upstream', 'local')
{
	change();
	caught_up();
	down("BEGIN; SELECT rose.alter_subscription('s', durability => '$to'); ROLLBACK");
	change();
	is(difference(), '', "a change to $to that is rolled back");
	crash_and_restart($replica);
	streams();
	is(difference(), '', 'and after a crash');
	become($to);
	is(difference(), '', "$to");
}

# --- to and fro beside a workload, with crashes
my $script = $upstream->basedir . '/load.sql';
append_to_file($script, <<SQL);
\\set a random(1, 200)
BEGIN;
UPDATE keyed SET n = n + 1 WHERE id = :a;
INSERT INTO journal VALUES (:a, 1);
UPDATE parts SET n = n + 1 WHERE id = :a;
COMMIT;
SQL
foreach my $round (1 .. $rounds)
{
	my ($out, $err) = ('', '');
	my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', 2, '-T', 1, '--random-seed', $seed + $round, $upstream->connstr('postgres') ], '>', \$out, '2>', \$err);

	foreach my $to (int(rand(2)) ? ('upstream', 'local') : ('local', 'upstream'))
	{
		usleep(1_000_000 * random_between(0, 0.3));
		become($to);
		crash_and_restart($replica) if int(rand(2));
	}
	$pgbench->finish or diag($err);
	streams();
	my $difference = difference();
	is($difference, '', "to and fro $round");
	last if $difference ne '';
}

# --- the end, in either state
become('local');
change();
caught_up();
down("SELECT rose.drop_subscription('s')");
is(down('SELECT count(*) FROM pg_replication_origin'), 0, 'the origin goes');
is(error_of($replica, 'INSERT INTO keyed VALUES (5000, 0); UPDATE parts SET n = 1'), '', 'the tables are everybody\'s');

$replica->stop;
$upstream->stop;
done_testing();
