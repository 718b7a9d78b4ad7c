
# No two rows with one key, and no row lost, whoever writes a key between another's look at it and his write: COPY, INSERT, upserts,
# updates that move rows. First in lockstep, one of them standing still in between, then many sessions at random.
#
# A duplicate that slips in hides the row before it, so the table does not show it; but each writer knows how many rows it has
# inserted and deleted, and writes that to a heap table in the same transaction.
#
#   UNIQUE_SEED      repeat a run, as far as timing lets it
#   UNIQUE_SECONDS   how long many sessions write, default 10
#   UNIQUE_SESSIONS  how many, default 8
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $seconds = $ENV{UNIQUE_SECONDS} // 10;
my $sessions = $ENV{UNIQUE_SESSIONS} // 8;
my $seed = seed_random('UNIQUE_SEED');
my $node = rose_node('unique', 'autovacuum = off', 'fsync = off', 'max_connections = 60', rose_conf("rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'"));
my $using = $ENV{ROSE_STANDIN} ? 'heap' : 'rose';
my $files = $node->basedir;

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub copy_file
{
	my ($name, @keys) = @_;

	PostgreSQL::Test::Utils::append_to_file("$files/$name", join '', map { "$_\t0\n" } @keys);
	return "COPY t FROM '$files/$name'";
}

# ---- in lockstep ----

SKIP:
{
	skip 'the stand-in has no stop points' if $ENV{ROSE_STANDIN};

	stop_points_create($node);
	sql("CREATE TABLE t (id int PRIMARY KEY, v int) USING rose");

	my ($ctl, $first, $second) = map { RoseTest::Session->new($node) } 1 .. 3;
	my $copy = copy_file('lockstep', 4, 5, 6);
	my %writes = (
		copy => [ 'insert-looked', $copy, 3 ],
		insert => [ 'insert-row-looked', 'INSERT INTO t VALUES (5, 0)', 1 ],
		'do nothing' => [ 'insert-row-looked', 'INSERT INTO t VALUES (5, 0) ON CONFLICT DO NOTHING', 1 ],
		upsert => [ 'insert-row-looked', 'INSERT INTO t VALUES (5, 0) ON CONFLICT (id) DO UPDATE SET v = 100', 1 ],
		move => [ 'change-looked', 'UPDATE t SET id = 5 WHERE id = 100', 0 ]);

	# What the other one does meanwhile; whether the key is taken then.
	my @between = (
		[ 'writes it', 1, sub { $second->run($_[0]) } ],
		[ 'writes it, and it is spilled', 1, sub { $second->run("$_[0]; SELECT rose.spill('t')") } ],
		[ 'writes it, and it is merged', 1, sub { $second->run("$_[0]; SELECT rose.merge('t')") } ],
		[ 'writes it and deletes it', 0, sub { $second->run("$_[0]; DELETE FROM t WHERE id IN (4, 5, 6)") } ],
		[ 'writes it and rolls back', 0, sub { $second->run("BEGIN; $_[0]; ROLLBACK") } ],
		[ 'writes it in a transaction that commits later', 1, sub { $second->run("BEGIN; $_[0]") }, 'COMMIT' ],
		[ 'writes it in a transaction that rolls back later, spilled', 0, sub { $second->run("BEGIN; $_[0]"); sql("SELECT rose.spill('t')") }, 'ROLLBACK' ]);

	# Who stands still holds the key's partition lock, but for COPY.
	foreach my $pair (map({ [ 'copy', $_ ] } sort keys %writes), map { [ $_, 'copy' ] } grep { $_ ne 'copy' } sort keys %writes)
	{
		my ($one, $other) = @$pair;
		my ($point, $write, $rows) = @{ $writes{$one} };

		foreach my $case (@between)
		{
			my ($what, $taken, $between, $end) = @$case;
			my $name = "$one, and $other $what";

			next if $one ne 'copy' && $what =~ /deletes/;

			sql('TRUNCATE t; INSERT INTO t SELECT g, 1 FROM generate_series(100, 102) g');
			$ctl->run("SELECT stop_at('$point', 'wait', 'client')");
			$first->start($write);
			wait_for_stop($node);
			eval { $between->($writes{$other}[1]) };
			is($@, '', "$name: it can");
			$second->{err} = '';
			$ctl->run("SELECT go_on('$point')");
			if ($end)
			{
				$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)") or die;
				$second->run($end);
			}
			eval { $first->finish };
			if ($taken && $one !~ /upsert|nothing/)
			{
				like($@, qr/duplicate key value violates unique constraint/, "$name: a duplicate");
			}
			else
			{
				is($@, '', "$name: no error");
			}
			$first->{err} = '';
			my $inserted = $taken ? $writes{$other}[2] : $rows;

			$inserted-- if $other eq 'move' && $what =~ /deletes/;
			is(sql('SELECT count(*) FROM t'), 3 + $inserted, "$name: rows");
			my $v = $taken && $one eq 'upsert' ? 100 : ($taken ? $other : $one) eq 'move' ? 1 : 0;

			is(sql('SELECT string_agg(v::text, $$ $$) FROM t WHERE id = 5'), $v, "$name: the right one");
			is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$name: rose.check");
		}
	}
	$_->end foreach $ctl, $first, $second;
	sql('DROP TABLE t');
}

# ---- at random ----

my $keys = 400;

sql(<<"SQL");
CREATE TABLE t (id int PRIMARY KEY, v int) USING $using;
CREATE TABLE done (op text, inserted bigint, deleted bigint, added bigint) USING heap;
SQL
sql(<<'SQL');
CREATE PROCEDURE work(seed float8, seconds float8, keys int, files text) LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 s';
	op int; a int; b int; i bigint; d bigint; n bigint;
BEGIN
	PERFORM setseed(seed);
	WHILE clock_timestamp() < until LOOP
		op := floor(random() * 8);
		a := random() * keys; b := a + random() * 30;
		i := 0; d := 0; n := 0;
		BEGIN
			IF op < 2 THEN
				EXECUTE format('COPY t FROM %L', files || '/random' || floor(random() * 40)::int);
				GET DIAGNOSTICS i = ROW_COUNT;
			ELSIF op = 2 THEN
				INSERT INTO t SELECT g, 0 FROM generate_series(a, b) g ON CONFLICT DO NOTHING;
				GET DIAGNOSTICS i = ROW_COUNT;
			ELSIF op = 3 THEN
				INSERT INTO t SELECT g, 0 FROM generate_series(a, b) g;
				GET DIAGNOSTICS i = ROW_COUNT;
			ELSIF op = 4 THEN
				WITH w AS (INSERT INTO t AS x SELECT g, 0 FROM generate_series(a, b) g ON CONFLICT (id) DO UPDATE SET v = x.v + 1 RETURNING v)
				SELECT count(*) FILTER (WHERE v = 0), count(*) FILTER (WHERE v > 0) INTO i, n FROM w;
			ELSIF op = 5 THEN
				UPDATE t SET id = a WHERE id = b;
			ELSE
				WITH w AS (DELETE FROM t WHERE id BETWEEN a AND b + 20 RETURNING v) SELECT count(*), -sum(v) INTO d, n FROM w;
			END IF;
			INSERT INTO done VALUES (op, i, d, n);
			IF random() < 0.1 THEN RAISE EXCEPTION 'undone'; END IF;
		EXCEPTION WHEN unique_violation OR raise_exception OR deadlock_detected THEN
			NULL;
		END;
		COMMIT;
	END LOOP;
END $$;
CREATE PROCEDURE maintain(seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 s';
BEGIN
	WHILE clock_timestamp() < until LOOP
		EXECUTE format('SELECT rose.%s(''t'')', (ARRAY['spill', 'spill', 'merge'])[1 + floor(random() * 3)]);
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;
SQL
foreach my $i (0 .. 39)
{
	my $from = int(rand($keys));
	my %few = map { $from + int(rand(40)) => 1 } 1 .. 1 + int(rand(12));

	copy_file("random$i", $i % 3 ? keys %few : sort { $a <=> $b } keys %few);
}

my @session = map { RoseTest::Session->new($node) } 1 .. $sessions;

$_->start('SET deadlock_timeout = 20; CALL work(' . rand() . ", $seconds, $keys, '$files')") foreach @session;
my $maintenance = RoseTest::Session->new($node);
$maintenance->start("CALL maintain($seconds)") unless $ENV{ROSE_STANDIN};
foreach my $session (@session)
{
	eval { $session->finish };
	is($@, '', 'a session');
}
$maintenance->finish unless $ENV{ROSE_STANDIN};
diag(sql("SELECT string_agg(format('%s: %s +%s -%s', op, n, i, d), ', ' ORDER BY op) FROM (SELECT op, count(*) n, sum(inserted) i, sum(deleted) d FROM done GROUP BY op) x"));
cmp_ok(sql('SELECT count(*) FROM done WHERE op < 2::text'), '>', 0, 'some COPYs went in');
is(sql('SELECT count(*) FROM t'), sql('SELECT coalesce(sum(inserted) - sum(deleted), 0) FROM done'), 'as many rows as were inserted and not deleted');
is(sql('SELECT coalesce(sum(v), 0) FROM t'), sql('SELECT coalesce(sum(added), 0) FROM done'), 'and each update counts once');
is(sql('SELECT count(*) FROM (SELECT FROM t GROUP BY id HAVING count(*) > 1) x'), 0, 'each key once');
is(sql("SET enable_seqscan = off; SELECT count(*) FROM generate_series(0, $keys + 100) g JOIN t ON t.id = g"), sql('SELECT count(*) FROM t'), 'and by the index');
if (!$ENV{ROSE_STANDIN})
{
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
	my $before = table_hash($node, 't');
	sql("SELECT rose.merge('t')");
	is(table_hash($node, 't'), $before, 'the same rows when they are merged');
}
$_->end foreach @session, $maintenance;
$node->stop;
done_testing();
