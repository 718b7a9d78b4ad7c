
# One version has one ctid for all statements of a transaction. The idioms that rest on it do the same
# with rose tables as with heap while another session has the tables spilled and merged all the time,
# and writes rows that nobody ever sees.
#
# ROSE_CTID_SEED repeats a run as far as timing lets it, ROSE_CTID_SECONDS (10) says how long it takes at least.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $seconds = $ENV{ROSE_CTID_SECONDS} // 10;

seed_random('ROSE_CTID_SEED');
my $node = rose_node('ctid', rose_conf("rose.memtable_size = '8MB'", "rose.debug_piece_size = '8kB'"),
	'autovacuum = off', 'max_parallel_workers_per_gather = 2');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# h is what the others must be like. k is spilled and merged as a table with a key is, n without one.
my %columns = (
	h => 'id int, grp int, val int, t text',
	k => 'id int PRIMARY KEY, grp int, val int, t text',
	c => 'id int, grp int, val int, t text, PRIMARY KEY (t, id)',
	n => 'id int, grp int, val int, t text');
my @tables = qw(k c n p);
foreach my $name (sort keys %columns)
{
	sql("CREATE TABLE $name ($columns{$name})" . ($name eq 'h' ? '' : ' USING rose'));
}
sql('CREATE TABLE p (id int, grp int, val int, t text, PRIMARY KEY (id)) PARTITION BY HASH (id)');
sql("CREATE TABLE p$_ PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER $_) USING rose") for 0 .. 1;
my @files = qw(k c n p0 p1);

sql(<<'SQL');
CREATE PROCEDURE fill(name text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('TRUNCATE %I', name);
	EXECUTE format($q$INSERT INTO %I SELECT i, i %% 50, i %% 7, md5((i %% 300)::text) FROM generate_series(1, 800) i$q$, name);
END $$;
CREATE PROCEDURE maintain(files text[], rounds int) LANGUAGE plpgsql AS $$
DECLARE
	name text;
BEGIN
	SET lock_timeout = '5s';
	FOR i IN 1 .. rounds LOOP
		FOREACH name IN ARRAY files LOOP
			BEGIN
				EXECUTE format('SELECT count(*) FROM (SELECT rose.%s(%L)) x',
							   (ARRAY['spill', 'spill', 'merge'])[1 + floor(random() * 3)], name);
			EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
				NULL;
			END;
			COMMIT;
		END LOOP;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
CREATE PROCEDURE unseen(names text[], rounds int) LANGUAGE plpgsql AS $$
DECLARE
	name text;
BEGIN
	FOR i IN 1 .. rounds LOOP
		FOREACH name IN ARRAY names LOOP
			EXECUTE format('INSERT INTO %I SELECT 10000 + i, -1, 0, md5(i::text) FROM generate_series(1, 40) i', name);
			EXECUTE format('DELETE FROM %I WHERE id > 10000', name);
			IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END LOOP;
END $$;
SQL
sql("CALL fill('$_')") for 'h', @tables;

# ---- stand-ins for the idioms; %T is the table ----

my $same = 'd.ctid = s.c AND d.tableoid = s.o';
my $note = 'CREATE TEMP TABLE s ON COMMIT DROP AS SELECT ctid c, tableoid o, id, grp, val FROM %T; ANALYZE s';
my %plans = (
	hash => 'SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_tidscan = off',
	merge => 'SET LOCAL enable_nestloop = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_tidscan = off',
	loop => 'SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off',
	index => 'SET LOCAL enable_seqscan = off',
	any => 'SELECT');

sub pick { return $_[ rand @_ ] }
sub count { return "WITH u AS ($_[0] RETURNING 1) SELECT count(*) FROM u" }

my %idioms = (
	duplicates => sub {
		return (count('DELETE FROM %T a WHERE (ctid, tableoid) <> (SELECT ctid, tableoid FROM %T b WHERE b.grp = a.grp AND b.val = a.val ORDER BY tableoid, ctid LIMIT 1)'));
	},
	duplicates_min => sub {
		return count('DELETE FROM %T a WHERE ctid <> (SELECT min(ctid) FROM %T b WHERE b.grp = a.grp AND b.val = a.val)');
	},
	batches => sub {
		my $n = int(random_between(50, 400));

		return map { count("DELETE FROM %T WHERE ctid = ANY (ARRAY(SELECT ctid FROM %T LIMIT $n))") } 1 .. 4;
	},
	by_name => sub {
		return ($note, $plans{ pick(sort keys %plans) }, 'SELECT pg_sleep(' . rand(0.1) . ')',
			count("UPDATE %T d SET val = 0 FROM s WHERE $same AND d.id = s.id"),
			# names of superseded versions find nothing
			count("UPDATE %T d SET val = 0 FROM s WHERE $same"));
	},
	twice => sub {
		return ($note, map({ ("SELECT pg_sleep(" . rand(0.05) . ")", $plans{$_},
					"SELECT count(*), count(*) FILTER (WHERE d.id <> s.id OR d.val <> s.val) FROM %T d JOIN s ON $same") } sort keys %plans));
	},
	itself => sub {
		return ($plans{ pick(sort keys %plans) },
			'SELECT count(*), sum(a.id - b.id) FROM %T a JOIN %T b ON a.ctid = b.ctid AND a.tableoid = b.tableoid');
	},
	bounds => sub {
		return ('CREATE TEMP TABLE b ON COMMIT DROP AS SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY ctid) lo, percentile_disc(0.7) WITHIN GROUP (ORDER BY ctid) hi, tableoid o FROM %T GROUP BY tableoid',
			map { ("SELECT pg_sleep(" . rand(0.05) . ")",
				'SELECT count(*) FILTER (WHERE d.ctid < lo), count(*) FILTER (WHERE d.ctid BETWEEN lo AND hi), count(*) FILTER (WHERE d.ctid > hi) FROM %T d JOIN b ON d.tableoid = b.o') } 1 .. 3);
	},
	returned => sub {
		return ('CREATE TEMP TABLE s (id int, c tid, o oid) ON COMMIT DROP',
			'WITH i AS (INSERT INTO %T SELECT 5000 + i, 1, 1, i::text FROM generate_series(1, 300) i RETURNING id, ctid, tableoid) INSERT INTO s SELECT * FROM i',
			'WITH u AS (UPDATE %T SET val = 9 WHERE id % 10 = 3 RETURNING id, ctid, tableoid) INSERT INTO s SELECT * FROM u',
			'SAVEPOINT a', 'UPDATE %T SET val = 10 WHERE id % 20 = 3', 'SELECT pg_sleep(' . rand(0.05) . ')', 'ROLLBACK TO a',
			'SELECT pg_sleep(' . rand(0.05) . ')',
			"SELECT count(*), count(DISTINCT d.id), count(*) FILTER (WHERE d.id <> s.id) FROM %T d JOIN s ON $same",
			'SELECT count(*) FROM (SELECT 1 FROM %T d JOIN s ON ' . $same . ' FOR UPDATE OF d) x');
	},
	cursor => sub {
		return ('DECLARE c CURSOR FOR SELECT id FROM %T WHERE id % 2 = 0 FOR UPDATE', 'MOVE ' . (1 + int(rand(100))) . ' FROM c',
			'SELECT pg_sleep(' . rand(0.05) . ')', count('UPDATE %T SET val = 7 WHERE CURRENT OF c'), 'MOVE 20 FROM c',
			count('DELETE FROM %T WHERE CURRENT OF c'), 'CLOSE c');
	},
	backward => sub {
		return ($note, 'SELECT pg_sleep(' . rand(0.05) . ')',
			"SELECT count(*), sum(n) FROM (SELECT d.id, row_number() OVER () n FROM (SELECT ctid, tableoid, id FROM %T ORDER BY id DESC) d JOIN s ON $same) x");
	},);

# ---- side by side ----

my $mine = RoseTest::Session->new($node);
my $maintenance = RoseTest::Session->new($node);
my $writer = RoseTest::Session->new($node);
my %busy;

sub keep_busy
{
	foreach my $pair ([ maintain => $maintenance, "CALL maintain('{" . join(',', @files) . "}', 20)" ],
		[ write => $writer, "CALL unseen('{k,c,n,p}', 20)" ])
	{
		my ($name, $session, $call) = @$pair;

		next if $ENV{ROSE_STANDIN} && $name eq 'maintain';
		$session->{psql}->pump_nb if $busy{$name};
		next if $busy{$name} && $session->{out} !~ /^end of $session->{n}$/m;
		$session->finish if $busy{$name};
		$session->start($call);
		$busy{$name} = 1;
	}
	return;
}

sub run_all
{
	my ($table, @steps) = @_;
	my $output = '';

	foreach my $step (@steps)
	{
		my $text = $step =~ s/%T/$table/gr;

		$output .= $mine->run($text) . ';';
		keep_busy();
	}
	return $output;
}

sub content { return "SELECT count(*), sum(hashint4(grp)::bigint * (1 + val)) FROM $_[0] WHERE id <= 10000" }

my $end = time() + $seconds;
my ($tried, $problems) = (0, 0);

$mine->run("SET client_min_messages = error; SET lock_timeout = '60s'");
while ((time() < $end || $tried < 8) && $problems < 3)
{
	my $idiom = pick(sort keys %idioms);
	my $isolation = pick('READ COMMITTED', 'REPEATABLE READ');
	my @steps = ("BEGIN ISOLATION LEVEL $isolation", $idioms{$idiom}->());
	# these look at ctids alone, which name rows of one file
	my $table = pick($idiom =~ /^(duplicates_min|batches|bounds)$/ ? grep { $_ ne 'p' } @tables : @tables);
	my ($expected, $found);

	# all of these leave rows of which only some columns are the same
	push @steps, $idiom eq 'cursor' || $idiom eq 'batches' ? 'SELECT count(*) FROM %T WHERE id <= 10000' : content('%T');
	push @steps, 'ROLLBACK';
	$expected = run_all('h', @steps);
	$found = run_all($table, @steps);
	$tried++;
	next if $found eq $expected;
	$problems++;
	diag("$idiom of $table, $isolation: $found, not $expected:\n" . join(";\n", @steps));
}
$_->finish for grep { $_->{n} } $maintenance, $writer;
is($problems, 0, "$tried transactions do as with heap");

# What is deleted for good.
foreach my $table (@tables)
{
	keep_busy();
	is(sql("DELETE FROM $table a WHERE id <= 10000 AND EXISTS (SELECT FROM $table b WHERE b.id <= 10000 AND b.grp = a.grp AND b.val = a.val AND (b.tableoid, b.ctid) < (a.tableoid, a.ctid)); SELECT count(*), count(DISTINCT (grp, val)) FROM $table WHERE id <= 10000"),
		sql('SELECT count(DISTINCT (grp, val)), count(DISTINCT (grp, val)) FROM h'), "$table without duplicates");
}
$_->finish for grep { $_->{n} } $maintenance, $writer;
$_->end for $maintenance, $writer;

# Rows that the transaction has loaded in bulk: a primary key sorts them into a run.
is($mine->run(<<'SQL'), "500\n500\n500", 'rows of a bulk load have names of their own');
BEGIN;
CREATE TABLE loaded (id int, v int) USING rose;
INSERT INTO loaded SELECT i, i FROM generate_series(1, 500) i;
ALTER TABLE loaded ADD PRIMARY KEY (id);
SELECT count(DISTINCT ctid) FROM loaded;
CREATE TEMP TABLE s ON COMMIT DROP AS SELECT ctid c, id FROM loaded;
SELECT count(*) FROM loaded l JOIN s ON l.ctid = s.c AND l.id = s.id;
WITH u AS (UPDATE loaded l SET v = 0 FROM s WHERE l.ctid = s.c RETURNING 1) SELECT count(*) FROM u;
COMMIT;
SQL

if (!$ENV{ROSE_STANDIN})
{
	# ---- ctids of other transactions find nothing, whatever has been looked at ----
	sql("CALL fill('k')");
	sql("SELECT rose.merge('k')");
	sql("UPDATE k SET val = 1 WHERE id % 3 = 0");
	$mine->run("SELECT set_config('my.tids', (SELECT array_agg(ctid)::text FROM k), false)");
	is($mine->run("BEGIN; SELECT count(*) FROM k WHERE ctid IS NOT NULL; SELECT count(*) FROM k WHERE ctid = ANY (current_setting('my.tids')::tid[]); COMMIT"),
		"800\n0", 'a ctid of an earlier transaction finds nothing');
	$mine->run("SET enable_tidscan = off");
	is($mine->run("SELECT count(*) FROM k WHERE ctid = ANY (current_setting('my.tids')::tid[])"), '0', '... nor in a scan');
	$mine->run("RESET enable_tidscan");

	# ---- parallel plans ----
	sql('CREATE TABLE big AS SELECT i % 801 AS id FROM generate_series(1, 20000) i; ALTER TABLE big SET (parallel_workers = 2); ANALYZE big; ANALYZE k');
	my $forced = always_parallel($node);
	my $parallel = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET enable_mergejoin = off; SET enable_nestloop = off";
	my $join = 'FROM big b JOIN k ON k.id = b.id';
	like(sql("$parallel; EXPLAIN (COSTS off) SELECT k.val $join"), qr/Gather/, 'tables without their ctids may be read by workers');
	unlike(sql("$parallel; EXPLAIN (COSTS off) SELECT k.ctid $join"), qr/Gather/, 'ctids come from one process');
	unlike(sql("$parallel; CREATE VIEW v AS SELECT ctid AS c, id FROM k; EXPLAIN (COSTS off) SELECT v.c FROM big b JOIN v ON v.id = b.id"),
		qr/Gather/, '... through a view, too');
	unlike(sql("$parallel; CREATE FUNCTION f() RETURNS TABLE (c tid, i int) STABLE LANGUAGE sql AS 'SELECT ctid, id FROM k'; EXPLAIN (COSTS off) SELECT f.c FROM big b JOIN f() ON f.i = b.id"),
		qr/Gather/, '... and through a function that is part of the plan');
	like(sql("$parallel; EXPLAIN (COSTS off) SELECT a.ctid FROM big a JOIN big b ON a.id = b.id"), qr/Gather/, 'heap tables are as they were');
	is(sql("$parallel; WITH a AS MATERIALIZED (SELECT k.ctid c, k.id $join) SELECT count(DISTINCT a.c) FROM a JOIN k ON k.ctid = a.c AND k.id = a.id"),
		'800', 'joined by ctid');
	sql("CREATE FUNCTION in_worker(i int) RETURNS tid PARALLEL SAFE STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT ctid FROM k WHERE id = i); END'");
	my ($status, $out, $err) = $node->psql('postgres', "$parallel; $forced; SELECT in_worker(1)");
	like($err, qr/cannot use ctids of rose table "k" in a parallel worker/, 'a worker has no names');
	is(sql("$parallel; $forced; SELECT count(*) FROM k"), '800', '... but can read');
}
$mine->end;

# ---- a table that a subscription feeds, with rows that came in parts ----
if (!$ENV{ROSE_STANDIN})
{
	my $upstream = upstream_node();
	my $fed = 'CREATE TABLE fed (id int PRIMARY KEY, a int, t text)';

	$upstream->safe_psql('postgres', "$fed; ALTER TABLE fed ALTER t SET STORAGE EXTERNAL;
		INSERT INTO fed SELECT i, i, repeat(md5(i::text), 80) FROM generate_series(1, 300) i; CREATE PUBLICATION p FOR TABLE fed");
	sql("$fed USING rose");
	subscribe($upstream, $node);

	my $change = sub {
		# values that are stored apart and do not change are not sent
		$upstream->safe_psql('postgres', 'UPDATE fed SET a = a + 1000 WHERE id % 4 = ' . $_[0]);
		wait_for_apply($upstream, $node);
	};
	my $names = 'CREATE TEMP TABLE s ON COMMIT DROP AS SELECT ctid c, id, a FROM fed';
	my $found = 'SELECT count(*), count(*) FILTER (WHERE d.id = s.id AND d.a = s.a AND length(d.t) = 2560) FROM fed d JOIN s ON d.ctid = s.c';

	foreach my $plan (qw(hash loop))
	{
		my $reader = RoseTest::Session->new($node);

		$change->(0);
		sql("SELECT rose.spill('fed')");
		$change->(1);
		$reader->run("BEGIN ISOLATION LEVEL REPEATABLE READ; $names; ANALYZE s; $plans{$plan}");
		is($reader->run($found), '300|300', "fed table, $plan: all rows are found by their ctids");
		$change->(2);
		sql("SELECT rose.spill('fed')");
		is($reader->run($found), '300|300', "fed table, $plan: ... after a spill");
		sql("SELECT rose.merge('fed')");
		$change->(0);
		is($reader->run($found), '300|300', "fed table, $plan: ... after a merge");
		$reader->end;
	}
	$upstream->stop;
}

done_testing();
