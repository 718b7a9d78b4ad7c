# A key that one transaction writes again and again: what its versions leave without use goes, and nobody
# sees a difference.
#
# Each step is done to a rose table and to a heap table alike, in one session, and both have to answer the same:
# rows, cursors that were opened before or in between, what savepoints bring back, functions that look while
# a statement runs, triggers. Then counts: a thousand updates of a key leave a few versions, however they come, and
# the memory that they took is used again, by a spill and before it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memtables' if $ENV{ROSE_STANDIN};

seed_random('HOT_SEED');
my $node = rose_node('hot', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'max_prepared_transactions = 2');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# ---- the same as heap ----

my @tables = ('r', 'h');
sub both
{
	my ($statement) = @_;
	return map { my $one = $statement; $one =~ s/\bT\b/$_/g; $one =~ s/\bT_(\w+)/$_ . "_$1"/ge; $one } @tables;
}

foreach my $table (@tables)
{
	my $am = $table eq 'r' ? 'rose' : 'heap';
	sql(<<"SQL");
CREATE TABLE $table (id int PRIMARY KEY, v int, w text) USING $am;
CREATE FUNCTION ${table}_sum() RETURNS bigint STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT sum(v) FROM $table); END';
CREATE FUNCTION ${table}_add(k int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE $table SET v = v + 1 WHERE id = k; RETURN (SELECT v FROM $table WHERE id = k); END';
CREATE FUNCTION ${table}_twice(k int) RETURNS text LANGUAGE plpgsql AS
	'DECLARE x bigint; y text := ''''; BEGIN FOR i IN 1..3 LOOP x := ${table}_add(k) + ${table}_add(k) * 1000 + ${table}_sum() * 1000000; y := y || '' '' || x; END LOOP; RETURN y; END';
CREATE FUNCTION ${table}_loop(k int, n int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN FOR i IN 1..n LOOP UPDATE $table SET v = v + 1 WHERE id = k; END LOOP; RETURN (SELECT v FROM $table WHERE id = k); END';
CREATE FUNCTION ${table}_undone(k int) RETURNS int LANGUAGE plpgsql AS
	'BEGIN UPDATE $table SET v = v + 10 WHERE id = k; BEGIN UPDATE $table SET v = v + 100 WHERE id = k; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; RETURN (SELECT v FROM $table WHERE id = k); END';
SQL
}

my @open;		# cursors
my $savepoints = 0;
my $names = 0;

# A step, with T for the table.
sub step
{
	my $k = random_between(1, 4);
	my $what = int(random_between(0, 21));

	$k = int($k);
	return "UPDATE T SET v = v + 1 WHERE id = $k" if $what < 7;
	return "WITH u AS (UPDATE T SET v = v + 1, w = repeat('x', $names) WHERE id <= $k RETURNING id, v, (SELECT sum(v) FROM T)) SELECT * FROM u ORDER BY id" if $what == 7;
	return "WITH u AS (UPDATE T SET v = T.v + o.v FROM T o WHERE o.id = T.id + 1 RETURNING T.id, T.v) SELECT * FROM u ORDER BY id" if $what == 8;
	return "DELETE FROM T WHERE id = $k" if $what == 9;
	return "INSERT INTO T VALUES ($k, $k, 'new') ON CONFLICT (id) DO UPDATE SET v = T.v + 1 RETURNING v" if $what == 10;
	return "UPDATE T SET id = id + 4 WHERE id = $k AND NOT EXISTS (SELECT FROM T o WHERE o.id = $k + 4) RETURNING id" if $what == 11;
	return "UPDATE T SET v = v + 1 WHERE id = $k RETURNING T_sum(), v" if $what == 12;
	return "SELECT T_twice($k)" if $what == 13;
	return "SELECT T_loop($k, 5), (SELECT v FROM T WHERE id = $k)" if $what == 14;
	return "SELECT T_undone($k)" if $what == 15;
	if ($what == 16)
	{
		push @open, 'c' . ++$names;
		return "DECLARE T_$open[-1] SCROLL CURSOR FOR SELECT id, v, length(w) FROM T ORDER BY id";
	}
	return "FETCH 1 FROM T_$open[ rand @open ]" if $what == 17 && @open;
	return 'FETCH ABSOLUTE 0 FROM T_c; FETCH ALL FROM T_c' =~ s/T_c/T_$open[ rand @open ]/gr if $what == 18 && @open;
	return 'CLOSE T_' . splice(@open, rand @open, 1) if $what == 19 && @open > 2;
	return 'SAVEPOINT s' . ++$savepoints if $what == 20;
	return 'SELECT id, v, length(w) FROM T ORDER BY id';
}

# What both tables answer to a step; the names of cursors are two.
my $rounds = 30;
my ($equal, $different) = (0, '');
foreach my $round (1 .. $rounds)
{
	my @script = ("TRUNCATE T; INSERT INTO T SELECT g, g, 'w' FROM generate_series(1, 3) g", 'BEGIN');

	@open = ();
	$savepoints = 0;
	foreach my $n (1 .. 60)
	{
		push @script, step();
		# cursors of an undone savepoint are gone: none is named again
		if ($savepoints > 0 && rand() < 0.05)
		{
			my $to = int(random_between(1, $savepoints));
			push @script, "ROLLBACK TO s$to";
			@open = ();
			$savepoints = $to;
		}
		# somebody spills beside it, for which it has to be left alone
		push @script, "SELECT FROM rose.spill('r')" if rand() < 0.03;
	}
	push @script, map { "FETCH ABSOLUTE 0 FROM T_$_; FETCH ALL FROM T_$_" } @open;
	push @script, (rand() < 0.8 ? 'COMMIT' : 'ROLLBACK'), 'SELECT * FROM T ORDER BY id';
	my @out;
	foreach my $which (0, 1)
	{
		my $text = join '', map { (both($_))[$which] . ";\n" } @script;
		my ($rc, $out, $err) = $node->psql('postgres', $text, on_error_stop => 0);
		push @out, "$out\n$err" =~ s/\b[rh]_c/T_c/gr =~ s/\b[rh]_/T_/gr =~ s/relation "[rh]"/relation "T"/gr =~ s/table [rh]\b/table T/gr;
	}
	if ($out[0] eq $out[1])
	{
		$equal++;
	}
	elsif ($different eq '')
	{
		$different = join "\n", @script, 'rose:', $out[0], 'heap:', $out[1];
	}
	my $check = sql("SELECT c::text FROM rose.check('r') c");
	$different ||= $check;
}
is($equal, $rounds, 'the same as heap, step by step') or diag($different);
is($different, '', 'and nothing is wrong with the table');

# ---- memory ----

# Updates of one key, each a statement; every 500 of them the memory in use. The most there was.
my $updates = 20_000;
sub most_memory
{
	my ($table, $before) = @_;
	my $script = "BEGIN;\n$before;\n";
	foreach my $n (1 .. $updates)
	{
		$script .= "UPDATE $table SET v = v + 1 WHERE id = 1;\n";
		$script .= "SELECT used_bytes FROM rose.stat_memory;\n" if $n % 500 == 0;
	}
	$script .= "COMMIT;\n";
	my $out = $node->safe_psql('postgres', $script);
	my ($most) = sort { $b <=> $a } grep { /^\d+$/ } split /\n/, $out;
	return $most;
}

sql("CREATE TABLE m (id int PRIMARY KEY, v int, w text) USING rose; INSERT INTO m SELECT g, 0, repeat('w', 100) FROM generate_series(1, 3) g");
sql("SELECT rose.spill('m')");
my $file = sql("SELECT pg_relation_size('m')");
my $one_version = 200;
my $most = most_memory('m', 'SELECT 1');
cmp_ok($most, '<', $updates * $one_version / 8, "memory of $updates updates of a key");
is(sql('SELECT v FROM m WHERE id = 1'), $updates, 'all of them have happened');
is(sql("SELECT coalesce(sum(rows), 0) < 100 FROM rose.stat_components WHERE relname = 'm' AND kind LIKE '%run'"), 't',
	'and components have next to nothing of them');
cmp_ok(sql("SELECT pg_relation_size('m')"), '<', $file + $updates * $one_version / 8, 'nor has the tail log');

# A cursor that is open all the while, and one version more for it.
$most = most_memory('m', 'UPDATE m SET v = -7 WHERE id = 1; DECLARE c CURSOR FOR SELECT v FROM m');
cmp_ok($most, '<', $updates * $one_version / 8, 'memory beside an open cursor');
is(sql('SELECT v FROM m WHERE id = 1'), $updates - 7, 'all of them have happened beside it');

# What a crash leaves is replayed to the same, versions that were taken back or not; prepared transactions, too.
sql('BEGIN; ' . join('; ', map { "UPDATE m SET v = v + 1 WHERE id = 2; SAVEPOINT s; UPDATE m SET v = v + 1000 WHERE id = 2; ROLLBACK TO s" } 1 .. 50) . '; COMMIT');
sql('BEGIN; ' . join('; ', map { 'UPDATE m SET v = v + 1 WHERE id = 3' } 1 .. 50) . "; PREPARE TRANSACTION 'hot'");
crash_and_restart($node);
is(sql('SELECT id, v FROM m ORDER BY id'), "1|" . ($updates - 7) . "\n2|50\n3|0", 'the same after a crash');
sql("COMMIT PREPARED 'hot'");
is(sql('SELECT v FROM m WHERE id = 3'), 50, 'and what was prepared');
sql("SELECT rose.merge('m')");
is(sql('SELECT id, v FROM m ORDER BY id'), "1|" . ($updates - 7) . "\n2|50\n3|50", 'and after a merge');
is(sql("SELECT c::text FROM rose.check('m') c"), '', 'nothing is wrong');

# Triggers that fire after all look at each version.
sql(<<'SQL');
CREATE TABLE seen (old int, new int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO seen VALUES (OLD.v, NEW.v); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON m DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
SQL
sql('BEGIN; ' . join('; ', map { 'UPDATE m SET v = v + 1 WHERE id = 3' } 1 .. 20) . "; SELECT rose.spill('m'); COMMIT");
is(sql('SELECT count(*), min(old), max(new), bool_and(new = old + 1) FROM seen'), '20|50|70|t', 'a deferred trigger sees all versions');

$node->stop;

# ---- memory that is used again ----

# So large that no spill comes because of it before a hundred thousand updates have gone.
$node = rose_node('again', "rose.memtable_size = '64MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'rose.secondary_indexes = on');

sub used { return sql('SELECT used_bytes FROM rose.stat_memory') }

sql(<<'SQL');
CREATE TABLE a (id int PRIMARY KEY, v bigint, w text, k int) USING rose;
CREATE FUNCTION again(n int, change text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE most bigint := 0; now bigint;
BEGIN
	FOR i IN 1..n LOOP
		EXECUTE change;
		IF i % 1000 = 0 THEN
			SELECT used_bytes INTO now FROM rose.stat_memory;
			most := greatest(most, now);
		END IF;
	END LOOP;
	RETURN most;
END $$;
SQL

# The most memory that so many updates in one transaction have taken beside that of one.
sub grown
{
	my ($n, $change) = @_;

	sql('TRUNCATE a');
	sql("INSERT INTO a SELECT g, 0, 'w', g FROM generate_series(1, 300) g");
	sql($change);
	my $one = used();
	return sql("SELECT again($n, '" . $change =~ s/'/''/gr . "')") - $one;
}

my $few = 48 * 1024;
cmp_ok(grown(100_000, 'UPDATE a SET v = v + 1 WHERE id = 7'), '<', $few, 'a hundred thousand updates of a key take what a few take');
is(sql('SELECT sum(v), max(v) FROM a'), '100001|100001', 'all of them have happened');
cmp_ok(grown(20_000, "UPDATE a SET v = v + 1, w = repeat('w', (v * 37 % 1900)::int) WHERE id = 7"), '<', 2 * $few, 'nor do rows of many lengths');
cmp_ok(grown(500, 'UPDATE a SET v = v + 1 WHERE id % 3 = 0'), '<', 2 * $few, 'nor many keys');
is(sql('SELECT sum(v), max(v) FROM a'), '50100|501', 'all of those have happened');
sql('CREATE INDEX a_k ON a (k)');
cmp_ok(grown(20_000, 'UPDATE a SET v = v + 1 WHERE id = 7'), '<', $few, 'nor with an index of another column');
cmp_ok(grown(20_000, 'UPDATE a SET v = v + 1, k = 1000 - k WHERE id = 7'), '<', $few, 'nor with an index of a column that goes to and fro');
is(sql('SELECT id FROM a WHERE k IN (7, 993)'), 7, 'which finds the row');
is(sql("SELECT c::text FROM rose.check('a') c"), '', 'nothing is wrong with the table');

# A scan that goes on from batch to batch, while entries around it go and their memory is used again.
sql("TRUNCATE a; INSERT INTO a SELECT g, 0, 'w', g FROM generate_series(1, 6000) g");
sql(<<'SQL');
CREATE FUNCTION beside(backward bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor; r record; n int := 0; wrong int := 0; last int;
BEGIN
	IF backward THEN OPEN c FOR SELECT id, v FROM a ORDER BY id DESC; ELSE OPEN c FOR SELECT id, v FROM a ORDER BY id; END IF;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		n := n + 1;
		IF r.v <> 0 OR (last IS NOT NULL AND (r.id < last) <> backward) THEN wrong := wrong + 1; END IF;
		last := r.id;
		UPDATE a SET v = v + 1 WHERE id IN (r.id - 1, r.id, r.id + 1, r.id + 700, r.id - 700);
		UPDATE a SET v = v + 1 WHERE id BETWEEN r.id + 1 AND r.id + 3;
	END LOOP;
	CLOSE c;
	UPDATE a SET v = 0;
	RETURN n || ' ' || wrong;
END $$;
SQL
is(sql('BEGIN; SELECT beside(false); SELECT beside(true); SELECT beside(false); COMMIT'), "6000 0\n6000 0\n6000 0", 'a cursor sees the rows of its snapshot beside updates');
is(sql("SELECT c::text FROM rose.check('a') c"), '', 'nothing is wrong after that');

# The entry on which a cursor stands between two fetches is one of its own transaction, which it does not see. It is taken out, and its memory is that of other keys then: the cursor
# must not go on from there. After three updates something was taken out before it came there, too.
sql('CREATE TABLE b (id int PRIMARY KEY, v int, w text) USING rose');
foreach my $order ('', 'ORDER BY id', 'ORDER BY id DESC')
{
	my $backward = $order =~ /DESC/;
	my ($near, $far) = $backward ? ('id > 240', 'id < 60') : ('id < 60', 'id > 240');
	my @expected = map { "$_|0" } 1 .. 300;

	@expected = reverse @expected if $backward;
	foreach my $before (1 .. 3)
	{
		sql("TRUNCATE b; INSERT INTO b SELECT g, 0, 'w' FROM generate_series(1, 300) g");
		is(sql("SET enable_sort = off; BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT id, v FROM b $order; " . 'UPDATE b SET v = v - 1; ' x $before . "FETCH 1 FROM c;"
				. " UPDATE b SET v = v - 1 WHERE $near;" x 4 . " UPDATE b SET v = v - 1 WHERE $far;" x 4 . ' FETCH ALL FROM c; COMMIT'),
			join("\n", @expected), "a cursor finds its place again" . ($order && ", $order") . ", after $before updates");
	}
}

# The same of who looks up a key, between two of its versions: he has met one of a transaction that is under way. What comes into the memory of the next one is of others,
# who have committed since.
SKIP:
{
	skip 'the stand-in has no stop points', 2 if $ENV{ROSE_STANDIN};
	stop_points_create($node);
	my ($keeper, $writer, $reader) = map { RoseTest::Session->new($node) } 1 .. 3;

	sql("TRUNCATE b; INSERT INTO b SELECT g, 0, 'w' FROM generate_series(1, 300) g");
	$writer->run('BEGIN; UPDATE b SET v = v + 1 WHERE id = 7; UPDATE b SET v = v + 1 WHERE id = 7; UPDATE b SET v = v + 1 WHERE id = 7');
	$keeper->run("SELECT stop_at('lookup-unseen', 'wait', 'client')");
	$reader->start('SELECT id, v FROM b WHERE id = 7');
	wait_for_stop($node);
	$writer->run(join ';', ('UPDATE b SET v = v + 1 WHERE id = 7') x 200);
	sql(join ';', map { "INSERT INTO b VALUES ($_, 0, 'w')" } 1000 .. 1100);
	$keeper->run("SELECT go_on('lookup-unseen')");
	is($reader->finish, '7|0', 'a lookup finds its place again');
	$writer->run('COMMIT');
	is($reader->run('SELECT id, v FROM b WHERE id = 7'), '7|203', 'and what was committed');
	$_->end foreach $reader, $writer, $keeper;
}
is(sql("SELECT c::text FROM rose.check('b') c"), '', 'nothing is wrong with that table');

done_testing();
