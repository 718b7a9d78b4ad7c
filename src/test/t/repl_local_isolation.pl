
# Local transactions of all isolation levels, sixteen sessions at a time, beside a stream that writes the same rows (durability => 'local'), in hardly any memory, with a key of two columns.
# What must hold whatever the order was: a snapshot is one, and shows whole transactions of the upstream; no increment of a column of ours is lost, though the stream writes its
# rows all the time; of rows that exclude each other SERIALIZABLE leaves one; our keys are as in a heap table that got the same in the same transactions, keys that
# change and savepoints that are taken back included; prepared transactions, killed workers and crashes change none of that.
# (ISOLATION_SEED, ISOLATION_ROUNDS, ISOLATION_SECONDS).
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no durability of its own' if $ENV{ROSE_STANDIN};

my $seed = seed_random('ISOLATION_SEED');
my $rounds = $ENV{ISOLATION_ROUNDS} // how_many(2, 6);
my $seconds = $ENV{ISOLATION_SECONDS} // 3;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '200ms'", "wal_retrieve_retry_interval = '100ms'", 'max_prepared_transactions = 40', "deadlock_timeout = '50ms'", "rose.memtable_size = '1MB'",
	'restart_after_crash = on', 'max_connections = 60', 'max_pred_locks_per_transaction = 200');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

my ($accounts, $pairs, $ours) = (40, 12, 30);

up("CREATE TABLE t (k text, n int, v int, doc text, PRIMARY KEY (k, n)); ALTER TABLE t ALTER doc SET STORAGE EXTERNAL; INSERT INTO t SELECT 'account', g, 100, repeat(md5(g::text), 80) FROM generate_series(1, $accounts) g;
	INSERT INTO t SELECT 'pair' || g, s, 0, repeat(md5(g::text), 80) FROM generate_series(1, $pairs) g, generate_series(1, 2) s; CREATE PUBLICATION p FOR TABLE t");
down('CREATE TABLE t (k text, n int, v int, doc text, here int NOT NULL DEFAULT 0, PRIMARY KEY (k, n)) USING rose; CREATE INDEX t_here ON t (here, n); CREATE INDEX t_v ON t (v)');
down('CREATE TABLE twin (k text, n int, v int, PRIMARY KEY (k, n)); CREATE TABLE bumps (n int); CREATE TABLE wrong (what text, at timestamptz DEFAULT clock_timestamp())');
subscribe($upstream, $replica, undef, "durability => 'local'");

my $levels = '\set level random(1, 3)
\if :level = 1
BEGIN ISOLATION LEVEL SERIALIZABLE;
\elif :level = 2
BEGIN ISOLATION LEVEL REPEATABLE READ;
\else
BEGIN;
\endif
';
my $ends = '\if :end = 1
ROLLBACK;
\elif :end = 2
PREPARE TRANSACTION \'p:client_id\';
\sleep 5 ms
COMMIT PREPARED \'p:client_id\';
\elif :end = 3
PREPARE TRANSACTION \'p:client_id\';
ROLLBACK PREPARED \'p:client_id\';
\else
COMMIT;
\endif
';
my $sums = "SELECT count(*), coalesce(sum(v), 0), coalesce(sum(here), 0) FROM t WHERE k = 'account'";
my %scripts = (

	# what one snapshot shows, by key, by index and by all rows; and increments of a column of ours
	accounts => "\\set a random(1, $accounts)
\\set b random(1, $accounts)
\\set end random(1, 12)
$levels
SELECT count(*) AS count, coalesce(sum(v), 0) AS v, coalesce(sum(here), 0) AS here FROM t WHERE k = 'account' \\gset
INSERT INTO wrong SELECT 'sum ' || :v || ' of ' || :count WHERE :v <> 100 * $accounts OR :count <> $accounts;
UPDATE t SET here = here + 1 WHERE k = 'account' AND n = :a;
INSERT INTO bumps VALUES (:a);
SAVEPOINT s;
UPDATE t SET here = here + 1000, v = -5000 WHERE k = 'account' AND n IN (:a, :b);
DELETE FROM t WHERE k = 'account' AND n = :b;
ROLLBACK TO s;
\\if :level < 3
SELECT count(*) AS count2, coalesce(sum(v), 0) AS v2, coalesce(sum(here), 0) AS here2 FROM t WHERE k = 'account' \\gset
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SELECT count(*) AS count3, coalesce(sum(here), 0) AS here3 FROM t WHERE k = 'account' AND here >= 0 \\gset
INSERT INTO wrong SELECT concat_ws(' ', 'level', :level, 'then', :count, :v, :here, 'later', :count2, :v2, :here2, 'by index', :count3, :here3)
 WHERE (:count, :v, :here + 1) <> (:count2, :v2, :here2) OR (:count3, :here3) <> (:count2, :here2);
\\endif
$ends",

	# of two rows one may be taken, as long as the other is not
	pairs => "\\set p random(1, $pairs)
\\set s random(1, 2)
\\set end random(1, 12)
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(here) AS taken FROM t WHERE k = 'pair:p' \\gset
INSERT INTO wrong SELECT 'pair:p is taken ' || :taken WHERE :taken > 1;
\\if :taken = 0
UPDATE t SET here = 1 WHERE k = 'pair:p' AND n = :s;
\\else
UPDATE t SET here = 0 WHERE k = 'pair:p' AND here = 1;
\\endif
$ends" =~ s/'pair:p/'pair' || :p || '/gr,

	# keys of ours, which change
	ours => "\\set a random(1, $ours)
\\set b random(1, $ours)
\\set x random(1, 1000)
\\set what random(1, 6)
\\set end random(1, 10)
$levels
" . join('', map { my $t = $_; "\\if :what = 1
INSERT INTO $t (k, n, v) VALUES ('ours', :a, :x) ON CONFLICT (k, n) DO UPDATE SET v = $t.v + excluded.v;
\\elif :what = 2
DELETE FROM $t WHERE k = 'ours' AND n = :a;
\\elif :what = 3
UPDATE $t SET n = 1000 + :x * 100 + :client_id WHERE k = 'ours' AND n = :a AND NOT EXISTS (SELECT FROM $t WHERE k = 'ours' AND n = 1000 + :x * 100 + :client_id);
\\elif :what = 4
UPDATE $t SET v = v + :x WHERE k = 'ours' AND n IN (:a, :b);
SAVEPOINT s;
UPDATE $t SET k = 'gone' WHERE k = 'ours' AND n = :a;
DELETE FROM $t WHERE k = 'ours';
ROLLBACK TO s;
\\elif :what = 5
DELETE FROM $t WHERE k = 'ours' AND n > 1000 AND n % 100 = :client_id AND v % 3 = 1;
\\endif
" } qw(twin t)) . $ends);

# What of ours is written is held by who writes it first: what the twin lets pass may be later than the stream's, but no other session's. So keys of ours are locked before.
$scripts{ours} =~ s/(END\n|\Q$levels\E\n)/SELECT pg_advisory_lock(1);\n$1/;
$scripts{ours} .= "SELECT pg_advisory_unlock_all();\n";

my $remote = "\\set a random(1, $accounts)
\\set b random(1, $accounts)
\\set p random(1, $pairs)
\\set x random(1, 50)
\\set what random(1, 6)
BEGIN;
UPDATE t SET v = v - :x WHERE k = 'account' AND n = :a;
UPDATE t SET v = v + :x WHERE k = 'account' AND n = :b;
\\if :what = 1
UPDATE t SET v = v + 1 WHERE k LIKE 'pair%';
\\elif :what = 2
UPDATE t SET v = v + 1 WHERE k = 'pair' || :p;
\\elif :what = 3
UPDATE t SET doc = repeat(md5(:x::text), 80) WHERE k = 'account' AND n = :b;
\\endif
COMMIT;
";
my $dir = PostgreSQL::Test::Utils::tempdir;
foreach my $script (keys %scripts)
{
	$scripts{$script} =~ s{'p:client_id'}{'$script:client_id'}g;
	append_to_file("$dir/$script.sql", $scripts{$script});
}
append_to_file("$dir/remote.sql", $remote);

sub pgbench
{
	my ($node, $clients, @more) = @_;
	my $run = { out => '', err => '' };

	$run->{run} = IPC::Run::start([ 'pgbench', '-n', '-c', $clients, '-T', $seconds, '--max-tries', 0, '--random-seed', int(rand(1e9)), @more, $node->connstr('postgres') ], '>', \$run->{out}, '2>', \$run->{err});
	return $run;
}

sub difference
{
	my @problems;

	wait_for_apply($upstream, $replica);
	push @problems, down('SELECT count(*), min(what), max(what) FROM wrong') if down('SELECT count(*) FROM wrong') > 0;
	my $rows = "SELECT string_agg(concat_ws(':', k, n, v, md5(doc)), ' ' ORDER BY k, n) FROM t WHERE k LIKE ANY ('{account,pair%}')";
	my ($theirs, $mine) = (up($rows), down($rows));
	push @problems, "upstream $theirs, replica $mine" if $theirs ne $mine;
	my $lost = down("SELECT string_agg(n || ': ' || here || ' of ' || c, ' ') FROM t LEFT JOIN (SELECT n, count(*) AS c FROM bumps GROUP BY n) b USING (n) WHERE k = 'account' AND here <> coalesce(c, 0)");
	push @problems, "increments: $lost" if $lost ne '';
	my $twin = down("SELECT string_agg(concat_ws(':', coalesce(a.n, b.n), a.v, b.v), ' ') FROM (SELECT * FROM t WHERE k NOT LIKE ALL ('{account,pair%}')) a FULL JOIN twin b USING (k, n) WHERE a.v IS DISTINCT FROM b.v OR a.k IS NULL OR b.k IS NULL");
	push @problems, "beside the twin: $twin" if $twin ne '';
	my $taken = down("SELECT string_agg(k, ' ') FROM (SELECT k FROM t WHERE k LIKE 'pair%' GROUP BY k HAVING sum(here) > 1) x");
	push @problems, "taken twice: $taken" if $taken ne '';
	my @sums = map { down("$_ SELECT count(*), sum(n), sum(v), sum(here) FROM t") } '', 'SET enable_seqscan = off; SET enable_bitmapscan = off;', 'SET rose.enable_scan = off;';
	push @sums, map { down("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(n), sum(v), sum(here) FROM t WHERE $_") } 'here > -1000000', 'v > -1000000 OR v IS NULL';
	push @problems, "sums: @sums" if grep { $_ ne $sums[0] } @sums;
	my $check = down("SELECT c::text FROM rose.check('t') c");
	push @problems, "rose.check: $check" if $check ne '';
	return join "\n", @problems;
}

my $done = 0;
foreach my $round (1 .. $rounds)
{
	my @runs = (pgbench($replica, 8, '-f', "$dir/accounts.sql"), pgbench($replica, 5, '-f', "$dir/pairs.sql"), pgbench($replica, 3, '-f', "$dir/ours.sql"), pgbench($upstream, 2, '-f', "$dir/remote.sql", '-R', 200));
	my $holder = RoseTest::Session->new($replica);
	my $crash = $round == $rounds || rand() < 0.4;
	my $until = time + $seconds - 1;

	# more than memory has, of a transaction that goes on
	$holder->start("BEGIN; INSERT INTO t SELECT 'held', g, 0, repeat('x', 100) FROM generate_series(1, 8000) g; UPDATE t SET here = 5 WHERE k = 'held' AND n % 100 = 1");
	while (time < $until)
	{
		my $what = int(rand(4));

		down("SELECT rose.spill('t')") if $what == 0;
		down("SELECT rose.merge('t')") if $what == 1;
		if ($what == 3)
		{
			my $pid = down('SELECT pid FROM rose.stat_subscription');
			kill 'TERM', $pid if $pid;
		}
		usleep(1000 * int(random_between(20, 300)));
	}
	$holder->finish;
	$holder->run('ROLLBACK') if !$crash;
	crash_and_restart($replica) if $crash;
	$holder->end;
	foreach my $run (@runs)
	{
		$run->{run}->finish || $crash || diag($run->{err});
		$done += $1 if $run->{out} =~ /actually processed: (\d+)/;
		note("$run->{out}$run->{err}");
	}
	down("COMMIT PREPARED '$_'") foreach split /\n/, down('SELECT gid FROM pg_prepared_xacts');
	my $difference = difference();
	is($difference, '', "round $round, ISOLATION_SEED=$seed");
	last if $difference ne '';
}
cmp_ok(down('SELECT count(*) FROM bumps'), '>', 0, 'there were increments');
$_->stop foreach $replica, $upstream;
done_testing();
