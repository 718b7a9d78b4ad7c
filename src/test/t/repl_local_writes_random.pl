# Local sessions and the stream write to the same tables (durability => 'local') at random: keys that only one side has, keys that both change, and columns that only
# we have. What must hold whatever the order was: our keys are as in a heap table that got the same in the same transactions; the upstream's are as upstream, and so are
# shared ones once it has written them last; no increment of a column of ours is lost; each key is there once; indexes agree. With savepoints, prepared transactions, transactions that are spilled
# while they go on, workers that are killed, and a crash (LOCAL_WRITES_SEED, LOCAL_WRITES_ROUNDS, LOCAL_WRITES_SECONDS).
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no durability of its own' if $ENV{ROSE_STANDIN};

my $rounds = $ENV{LOCAL_WRITES_ROUNDS} // 2;
my $seconds = $ENV{LOCAL_WRITES_SECONDS} // 2;
my $seed = seed_random('LOCAL_WRITES_SEED');
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '200ms'", "wal_retrieve_retry_interval = '100ms'", 'max_prepared_transactions = 20', "deadlock_timeout = '50ms'", "rose.memtable_size = '4MB'",
	'restart_after_crash = on');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

my ($shared, $ours, $theirs, $counted) = (20, 30, 30, 8);
my @tables = qw(t parts);

up("CREATE TABLE $_ (id int PRIMARY KEY, v int, doc text); ALTER TABLE $_ ALTER doc SET STORAGE EXTERNAL; INSERT INTO $_ SELECT g, 0, repeat(md5(g::text), 80) FROM generate_series(1, $shared) g; INSERT INTO $_ SELECT 3000 + g, 0 FROM generate_series(1, $counted) g") foreach @tables;
up('CREATE PUBLICATION p FOR TABLE ' . join ', ', @tables);
down('CREATE TABLE t (id int PRIMARY KEY, v int, doc text, here int NOT NULL DEFAULT 0) USING rose; CREATE INDEX t_v ON t (v); CREATE INDEX t_both ON t (v, here); CREATE INDEX t_here ON t (here)');
down('CREATE TABLE parts (here int NOT NULL DEFAULT 0, doc text, id int PRIMARY KEY, v int) PARTITION BY HASH (id); CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING rose;
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING rose; CREATE INDEX parts_v ON parts (v)');
down("CREATE TABLE ${_}_twin (id int PRIMARY KEY, v int); CREATE TABLE ${_}_bumps (id int); CREATE INDEX ON ${_}_bumps (id)") foreach @tables;
subscribe($upstream, $replica, undef, "durability => 'local'");

my $local = $replica->basedir . '/local.sql';
append_to_file($local, join "\n", map { <<SQL } @tables);
\\set k random(1, $shared)
\\set l 1000 + random(1, $ours)
\\set c 3000 + random(1, $counted)
\\set what random(1, 12)
\\set end random(1, 12)
\\set n random(1, 1000)
BEGIN;
INSERT INTO ${_}_bumps VALUES (:c);
UPDATE $_ SET here = here + 1 WHERE id = :c;
SELECT pg_advisory_xact_lock(:l);
\\if :what <= 4
INSERT INTO $_ (id, v) VALUES (:l, :n) ON CONFLICT (id) DO UPDATE SET v = $_.v + excluded.v;
INSERT INTO ${_}_twin (id, v) VALUES (:l, :n) ON CONFLICT (id) DO UPDATE SET v = ${_}_twin.v + excluded.v;
\\elif :what <= 6
DELETE FROM $_ WHERE id = :l;
DELETE FROM ${_}_twin WHERE id = :l;
\\elif :what <= 9
UPDATE $_ SET v = v + :n WHERE id = :l;
SAVEPOINT a;
UPDATE $_ SET v = -1 WHERE id = :l;
DELETE FROM $_ WHERE id = :k;
ROLLBACK TO a;
UPDATE ${_}_twin SET v = v + :n WHERE id = :l;
\\endif
\\if :what = 1
DELETE FROM $_ WHERE id = :k;
\\elif :what = 2
INSERT INTO $_ (id, v) VALUES (:k, :n) ON CONFLICT (id) DO NOTHING;
\\elif :what = 3
SELECT id FROM $_ WHERE id = :k FOR KEY SHARE;
\\elif :what = 4
SELECT id FROM $_ WHERE id = :k FOR UPDATE;
\\elif :what <= 10
UPDATE $_ SET v = :n, here = here + 1 WHERE id = :k;
\\endif
\\if :end = 1
ROLLBACK;
\\elif :end = 2
PREPARE TRANSACTION 'p:client_id';
\\sleep 5 ms
COMMIT PREPARED 'p:client_id';
\\elif :end = 3
PREPARE TRANSACTION 'p:client_id';
ROLLBACK PREPARED 'p:client_id';
\\else
COMMIT;
\\endif
SQL
my $remote = $upstream->basedir . '/remote.sql';
append_to_file($remote, join "\n", map { <<SQL } @tables);
\\set k random(1, $shared)
\\set j random(1, $shared)
\\set u 2000 + random(1, $theirs)
\\set c 3000 + random(1, $counted)
\\set what random(1, 8)
\\set n random(1, 1000)
BEGIN;
UPDATE $_ SET v = :n WHERE id IN (:k, :c);
\\if :what <= 2
DELETE FROM $_ WHERE id = :j;
\\elif :what <= 4
INSERT INTO $_ VALUES (:j, :n, repeat(md5(:n::text), 80)) ON CONFLICT (id) DO UPDATE SET v = excluded.v, doc = excluded.doc;
\\endif
\\if :what = 5
DELETE FROM $_ WHERE id = :u;
\\else
INSERT INTO $_ VALUES (:u, :n) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
\\endif
COMMIT;
SQL

sub pgbench
{
	my ($node, $script, $clients, @more) = @_;
	my $run = { out => '', err => '' };

	# one that is killed by a crash is no failure of the test
	$run->{run} = IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', $clients, '-T', $seconds, '--max-tries', 0, '--random-seed', int(rand(1e9)), @more, $node->connstr('postgres') ], '>', \$run->{out}, '2>', \$run->{err});
	return $run;
}

# Sums by a scan of the table, and by each index.
sub sums
{
	my ($table) = @_;
	my $what = "SELECT count(*), sum(id), sum(v), sum(here) FROM $table";
	my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off';
	my @results = map { down($_) } $what, "$by_index; $what WHERE v > -1000000 OR v IS NULL", map { "$by_index; $what WHERE $_" } 'v > -1000000', 'here >= 0';

	return \@results;
}

sub rows_of { my ($node, $table, $where) = @_; return $node->safe_psql('postgres', "SELECT string_agg(concat_ws(':', id, v, md5(doc)), ' ' ORDER BY id) FROM $table WHERE $where") }

sub difference
{
	my @problems;

	wait_for_apply($upstream, $replica);
	# the upstream writes last
	up("DELETE FROM $_ WHERE id <= $shared; INSERT INTO $_ SELECT g, -g, repeat(md5(g::text), 80) FROM generate_series(1, $shared) g WHERE g % 5 > 0; UPDATE $_ SET v = v - 1 WHERE id <= $shared AND id % 2 = 0") foreach @tables;
	# of a key that it does not have any more, its last write was a DELETE of nothing; so one of what it inserts
	up("INSERT INTO $_ SELECT g FROM generate_series(1, $shared) g WHERE g % 5 = 0; DELETE FROM $_ WHERE id <= $shared AND id % 5 = 0") foreach @tables;
	wait_for_apply($upstream, $replica);
	foreach my $table (@tables)
	{
		foreach my $where ("id <= $shared", 'id BETWEEN 2000 AND 2999', 'id > 3000')
		{
			my ($theirs, $ours) = (rows_of($upstream, $table, $where), rows_of($replica, $table, $where));
			push @problems, "$table, $where: upstream $theirs, replica $ours" if $theirs ne $ours;
		}
		my $twin = down("SELECT string_agg(concat_ws(':', coalesce(a.id, b.id), a.v, b.v), ' ') FROM (SELECT * FROM $table WHERE id BETWEEN 1000 AND 1999) a FULL JOIN ${table}_twin b USING (id) WHERE a.v IS DISTINCT FROM b.v OR a.id IS NULL OR b.id IS NULL");
		push @problems, "$table beside its twin: $twin" if $twin ne '';
		my $lost = down("SELECT string_agg(id || ': ' || here || ' of ' || n, ' ') FROM $table JOIN (SELECT id, count(*) n FROM ${table}_bumps GROUP BY id) b USING (id) WHERE here <> n");
		push @problems, "increments of $table: $lost" if $lost ne '';
		push @problems, "keys of $table come twice" if down("SELECT count(*) = count(DISTINCT id) FROM $table") ne 't';
		my $sums = sums($table);
		push @problems, "sums of $table: " . join(', ', @$sums) if $sums->[1] ne $sums->[0] || $sums->[3] ne $sums->[0];
		foreach my $leaf (split /\n/, down("SELECT relid::regclass FROM pg_partition_tree('$table') WHERE isleaf UNION SELECT '$table'::regclass WHERE '$table' = 't'"))
		{
			my $check = down("SELECT c::text FROM rose.check('$leaf') c");
			push @problems, "rose.check of $leaf: $check" if $check ne '';
		}
	}
	return join "\n", @problems;
}

foreach my $round (1 .. $rounds)
{
	my @runs = (pgbench($replica, $local, 4), pgbench($upstream, $remote, 2, '-R', 300));
	my $holder = RoseTest::Session->new($replica);
	my $crash = $round == $rounds;
	my $until = time + $seconds - 1;

	# spilled while it goes on, and ended at any time; more than one spill carries over
	$holder->run("BEGIN; INSERT INTO t SELECT g, 0 FROM generate_series(10000, 14000) g; SELECT id FROM t WHERE id = " . (1 + int(rand($shared))) . ' FOR KEY SHARE');
	while (time < $until)
	{
		my $what = int(rand(4));

		down("SELECT rose.spill('" . ($what % 2 ? 't' : 'parts_0') . "')") if $what < 2;
		down("SELECT rose.merge('t')") if $what == 2;
		if ($what == 3)
		{
			my $pid = down('SELECT pid FROM rose.stat_subscription');
			kill 'TERM', $pid if $pid;
		}
		usleep(1000 * int(random_between(20, 200)));
	}
	$holder->run('ROLLBACK') if !$crash;
	if ($crash)
	{
		crash_and_restart($replica);
		down("SELECT 1");
	}
	$holder->end;
	foreach my $run (@runs)
	{
		$run->{run}->finish || $crash || diag($run->{err});
	}
	down("COMMIT PREPARED '$_'") foreach split /\n/, down('SELECT gid FROM pg_prepared_xacts');
	my $difference = difference();
	is($difference, '', "round $round");
	last if $difference ne '';
}

$replica->stop;
$upstream->stop;
done_testing();
