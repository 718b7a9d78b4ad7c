
# Snapshots of all kinds beside writers and merges. A heap table and a rose table are written
# alike in each transaction, so whoever looks at both with one snapshot must
# find the same rows, however old the snapshot is: long REPEATABLE READ transactions, imported
# snapshots, pg_dump with several jobs, SERIALIZABLE, READ COMMITTED.  And when the
# snapshots are gone, so are the versions that were kept for them.
#
#   SNAPSHOT_SEED      repeat a run (as far as that goes with several sessions)
#   SNAPSHOT_SECONDS   how long the mixed load takes, default 20
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in keeps what heap keeps' if $ENV{ROSE_STANDIN};

my $seconds = $ENV{SNAPSHOT_SECONDS} // 20;
my $seed = seed_random('SNAPSHOT_SEED');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $node = rose_node('snapshots', "rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'", "rose.spill_interval = '1s'", scan_settings(),
	'max_connections = 130', 'autovacuum = on', 'autovacuum_naptime = 1s', 'max_parallel_workers_per_gather = 2');

my $session = RoseTest::Session->new($node);

sub sql { return $session->run($_[0]) }

# One statement, so one snapshot in READ COMMITTED, too.
my $content = "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(x::text, 0)), 0) FROM %s x";
my $same = sprintf("SELECT (%s) = (%s)", sprintf($content, 'h'), sprintf($content, 'r'));

sql(<<'SQL');
CREATE TABLE h (id int PRIMARY KEY, v bigint, t text);
CREATE TABLE r (id int PRIMARY KEY, v bigint, t text) USING rose;
CREATE TABLE parent (id int PRIMARY KEY) USING rose;
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE RESTRICT, v int) USING rose;
INSERT INTO h SELECT i, 0, md5(i::text) FROM generate_series(1, 300) i;
INSERT INTO r SELECT * FROM h;
INSERT INTO parent SELECT generate_series(1, 30);
CREATE FUNCTION check_same(what text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	SELECT count(*) INTO n FROM (
		(TABLE h EXCEPT ALL TABLE r) UNION ALL (TABLE r EXCEPT ALL TABLE h)) x;
	IF n > 0 THEN
		RAISE EXCEPTION '% of % rows differ for %', n, (SELECT count(*) FROM h), what USING ERRCODE = 'data_corrupted';
	END IF;
END $$;
CREATE FUNCTION check_point(k int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT h FROM h WHERE id = k)::text IS DISTINCT FROM (SELECT r FROM r WHERE id = k)::text THEN
		RAISE EXCEPTION 'row % differs', k USING ERRCODE = 'data_corrupted';
	END IF;
END $$;
CREATE FUNCTION drop_parent(k int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM parent WHERE id = k;
EXCEPTION WHEN foreign_key_violation OR restrict_violation THEN
	NULL;
END $$;
CREATE FUNCTION add_child(k int, p int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO child VALUES (k, p, 0);
EXCEPTION WHEN foreign_key_violation OR unique_violation THEN
	UPDATE child SET v = v + 1 WHERE id = k;
END $$;
SQL

# ---- the mixed load ----

my %scripts = (
	# the lock keeps two writers of one row in the same order in both tables
	write => [ 3, <<'SQL' ],
\set id random(1, 300)
\set other random(1, 300)
\set op random(1, 10)
\set early random(1, 4)
\set ms random(0, 3)
BEGIN;
\if :early = 1
SELECT pg_current_xact_id();
\sleep :ms ms
\endif
SELECT pg_advisory_xact_lock(:id);
\if :op = 1
DELETE FROM h WHERE id = :id;
DELETE FROM r WHERE id = :id;
\elif :op <= 3
INSERT INTO h VALUES (:id, :other, 'new') ON CONFLICT (id) DO UPDATE SET v = h.v + 10;
INSERT INTO r VALUES (:id, :other, 'new') ON CONFLICT (id) DO UPDATE SET v = r.v + 10;
\else
UPDATE h SET v = v + 1 WHERE id = :id;
UPDATE r SET v = v + 1 WHERE id = :id;
\endif
\if :op = 10
ROLLBACK;
\else
COMMIT;
\endif
SQL
	merge => [ 1, <<'SQL' ],
\set op random(1, 10)
\if :op <= 6
SELECT rose.spill('r');
\elif :op <= 8
SELECT rose.merge('r');
\elif :op = 9
SELECT rose.spill('child'), rose.spill('parent');
\else
SELECT rose.merge('child'), rose.merge('parent');
\endif
\sleep 10 ms
SQL
	repeatable => [ 3, <<'SQL' ],
\set id random(1, 300)
\set ms random(1, 1500)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT check_same('a new snapshot');
SELECT check_point(:id);
\sleep :ms ms
SELECT check_same('an old snapshot');
SAVEPOINT a;
SELECT check_point(:id);
ROLLBACK TO a;
\sleep :ms ms
SELECT check_same('an older snapshot');
COMMIT;
SQL
	late => [ 1, <<'SQL' ],
\set ms random(1, 1000)
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT count(*) FROM (TABLE r EXCEPT ALL TABLE h) x;
\sleep :ms ms
SELECT check_same('a snapshot taken for a cursor');
FETCH ALL FROM c;
COMMIT;
SQL
	serializable => [ 1, <<'SQL' ],
\set ms random(1, 300)
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT check_same('serializable');
\sleep :ms ms
SELECT check_same('serializable, old');
COMMIT;
SQL
	committed => [ 1, "\\set ms random(1, 50)\nSELECT 1 / ($same)::int;\n\\sleep :ms ms\n" ],
	# checks of foreign keys take snapshots of their own
	parents => [ 2, <<'SQL' ],
\set id random(1, 30)
\set kid random(1, 60)
\set op random(1, 3)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM child;
\if :op = 1
SELECT drop_parent(:id);
\elif :op = 2
SELECT add_child(:kid, :id);
\else
DELETE FROM child WHERE id = :kid;
INSERT INTO parent VALUES (:id) ON CONFLICT DO NOTHING;
\endif
COMMIT;
SQL
	children => [ 1, <<'SQL' ],
\set id random(1, 30)
\set kid random(1, 60)
SELECT add_child(:kid, :id);
SQL
);

my @running;
foreach my $name (sort keys %scripts)
{
	my ($clients, $text) = @{ $scripts{$name} };

	append_to_file("$dir/$name.sql", $text);
	my $run = { name => $name, out => '' };
	$run->{handle} = IPC::Run::start([ 'pgbench', '-n', '-c', $clients, '-j', 1, '-T', $seconds, '-f', "$dir/$name.sql",
			'--max-tries=1000', "--random-seed=$seed", $node->connstr('postgres') ],
		'<', \undef, '>', \$run->{out}, '2>&1');
	push @running, $run;
}

# Dumps with jobs that import one snapshot; both tables must be alike in each.
my $dumps = 0;
my $until = time() + $seconds - 3;
do
{
	my $dump = "$dir/dump$dumps";

	command_ok([ 'pg_dump', '-Fd', '-j', 3, '-t', 'h', '-t', 'r', '-f', $dump, $node->connstr('postgres') ], 'a dump with several jobs');
	my %rows = map {
		my $table = $_;
		my ($out) = run_command([ 'pg_restore', '-a', '-t', $table, '-f', '-', $dump ]);
		($table => join("\n", sort grep { /^\d+\t/ } split /\n/, $out));
	} qw(h r);
	cmp_ok(length $rows{h}, '>', 1000, 'it has rows');
	is($rows{r}, $rows{h}, 'the same of both tables');
	$dumps++;
} while (time() < $until);

foreach my $run (@running)
{
	$run->{handle}->finish;
	ok($run->{handle}->result == 0 && $run->{out} !~ /aborted/, "$run->{name}: no error")
	  or diag($run->{out});
}
is(sql($same), 't', 'the tables are the same');
is(sql('SELECT count(*) FROM child WHERE parent NOT IN (SELECT id FROM parent)'), 0, 'no child without its parent');
is(sql("SELECT count(*) FROM rose.check('r')") + sql("SELECT count(*) FROM rose.check('child')"), 0, 'rose.check');

# ---- single cases ----

sub merge_once
{
	sql("SELECT rose.spill('r')");
	sql("SELECT rose.merge('r')");
	return;
}

# Until no more than so many versions are left, for others have snapshots, too, now and then;
# how many there are.
sub merge_to
{
	my ($goal) = @_;
	my $n;

	for (1 .. 50)
	{
		merge_once();
		$n = sql("SELECT coalesce(sum(rows), 0) FROM rose.components('r') WHERE kind <> 'memtable'");
		last if $n <= $goal;
		sql('SELECT pg_sleep(0.1)');
	}
	return $n;
}

sub update_all
{
	sql("BEGIN; UPDATE h SET v = v + 1; UPDATE r SET v = v + 1; COMMIT; SELECT rose.spill('r')") for 1 .. $_[0];
	return;
}

sub session_with_snapshot
{
	my ($begin) = @_;
	my $new = RoseTest::Session->new($node);

	$new->run($begin // 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	$new->run("SELECT check_same('the first look')");
	return $new;
}

sub still_same
{
	my ($who, $what) = @_;

	ok(defined eval { $who->run("SELECT check_same('$what')") }, $what) or diag($@);
	return;
}

my $rows = sql('SELECT count(*) FROM r');
is(merge_to($rows), $rows, 'with no snapshot there is one version a row');

# Who is declared.
{
	my @sessions = map { session_with_snapshot("BEGIN ISOLATION LEVEL $_; DECLARE c CURSOR FOR TABLE r") } 'REPEATABLE READ', 'SERIALIZABLE', 'READ COMMITTED';
	my $pids = join ',', map { $_->run('SELECT pg_backend_pid()') } @sessions;

	is(sql("SELECT string_agg(declared::text, ' ' ORDER BY array_position(array[$pids], pid)) FROM rose.stat_snapshots WHERE backend_xmin IS NOT NULL AND pid IN ($pids)"),
		'true true false', 'rose.stat_snapshots');
	$_->run('COMMIT') foreach @sessions[0, 1];
	is(sql("SELECT count(*) FROM rose.declared_snapshots() d WHERE d IN ($pids)"), 0, 'the end of a transaction takes it back');
	$_->end foreach @sessions;
}

# An imported snapshot goes on when its exporter has ended.
my $exporter = session_with_snapshot();
my $id = $exporter->run('SELECT pg_export_snapshot()');
update_all(3);
is(merge_to(2 * $rows), 2 * $rows, 'two versions a row under one snapshot');
my $importer = session_with_snapshot("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$id'");
update_all(1);
merge_to(2 * $rows);
$exporter->run('COMMIT');
$exporter->end;
update_all(2);
is(merge_to(2 * $rows), 2 * $rows, 'the exporter has ended');
still_same($importer, 'the imported snapshot sees what it saw');
is($importer->run('SELECT sum(v) FROM r'), $importer->run('SELECT sum(v) FROM h'), 'and adds up');
$importer->end;
is(merge_to($rows), $rows, 'after the importer, too, has ended, one version a row is left');

# One of a transaction that has an xid from before its snapshot: that is in what it exports.
$exporter = RoseTest::Session->new($node);
$exporter->run('BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE parent IN ACCESS EXCLUSIVE MODE');
$exporter->run("SELECT check_same('the first look')");
$id = $exporter->run('SELECT pg_export_snapshot()');
update_all(3);
merge_once();
$importer = session_with_snapshot("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$id'");
update_all(1);
merge_once();
still_same($importer, 'a snapshot exported by a transaction with an xid');
$_->end foreach $exporter, $importer;

# Prepared: the transaction has no snapshot any more, but its row is locked.
my $prepared = session_with_snapshot();
$prepared->run("INSERT INTO r VALUES (1000, 0, 'prepared'); INSERT INTO h VALUES (1000, 0, 'prepared')");
update_all(2);
merge_once();
still_same($prepared, 'a transaction with writes of its own');
$prepared->run("PREPARE TRANSACTION 'p'");
update_all(2);
merge_once();
is($prepared->run("COMMIT PREPARED 'p'"), '', 'COMMIT PREPARED');
is(sql($same), 't', 'the tables are the same');
sql('DELETE FROM h WHERE id = 1000; DELETE FROM r WHERE id = 1000');
$prepared->end;

# Parallel workers read with their leader's snapshot.
my $leader = session_with_snapshot();
update_all(2);
merge_to(2 * $rows);
$leader->run(always_parallel($node) . "; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
  if $node->pg_version < 16;
is($leader->run('SELECT count(*) FROM h JOIN r USING (id, v, t)'), $leader->run('SELECT count(*) FROM h'), 'in a parallel query');
is($leader->run('SELECT sum((SELECT v FROM r WHERE r.id = h.id) - v) FROM h'), 0, 'and in a subplan of one');

# A backend that is terminated holds nothing back.
my $pid = $leader->run('SELECT pg_backend_pid()');
sql("SELECT pg_terminate_backend($pid, 10000)");
is(merge_to($rows), $rows, 'a terminated session holds nothing back');

# More snapshots than are told apart.
my @many;
for (1 .. 70)
{
	push @many, session_with_snapshot();
	update_all(1);
}
merge_once();
still_same($_, 'one of many') foreach @many[ 0, 1, 30, 62, 63, 64, 69 ];
$_->end foreach splice @many, 1;
update_all(3);
is(merge_to(2 * $rows), 2 * $rows, 'only the oldest is left');
still_same($many[0], 'the oldest');
$_->end foreach @many;
is(merge_to($rows), $rows, 'all are gone');
is(sql("SELECT count(*) FROM rose.check('r')"), 0, 'rose.check');

$session->end;
$node->stop;
done_testing();
