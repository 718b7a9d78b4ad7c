
# A query that never turns reads a table that is in memory in the order in which its rows came. It finds what heap finds: beside
# writers, of its own transaction, in old snapshots, with savepoints, locks and rows that were rolled back; and when the
# memory is spilled, merged and written to anew under it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory' if $ENV{ROSE_STANDIN};

my $node = rose_node('arrival', "rose.memtable_size = '64MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off', 'max_prepared_transactions = 2');
my $steps = $ENV{ROSE_ARRIVAL_STEPS} // 250;
my $seed = seed_random('ARRIVAL_SEED');

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub any { return $_[ int(rand(@_)) ] }

stop_points_create($node);
my $keeper = RoseTest::Session->new($node);
# small tables, too; and how often batches are read so
$keeper->run("SELECT stop_at('arrival-small', 'skip', 'any', 0, 0), stop_at('arrival-batch', 'skip', 'any', 0, 0)");

sub batches { return sql("SELECT stop_hits('arrival-batch')") }

# ---- the order, and who gets it ----

sql(<<'SQL');
CREATE TABLE a (id int PRIMARY KEY, v int, t text) USING rose;
INSERT INTO a SELECT g * 7919 % 1000, g, md5(g::text) FROM generate_series(0, 999) g;
SQL
my $in_order = 'SELECT count(*) FROM (SELECT v, row_number() OVER () - 1 AS n FROM %s) x WHERE v <> n';
is(sql(sprintf($in_order, 'a')), 0, 'rows come in the order of their arrival');
is(sql('SELECT count(*), sum(v), min(t), max(t), count(DISTINCT t) FROM a'), sql("SELECT 1000, sum(g), min(md5(g::text)), max(md5(g::text)), 1000 FROM generate_series(0, 999) g"),
	'values of all columns');
cmp_ok(batches(), '>', 4, 'in batches');
is(sql("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM a; MOVE 500 FROM c; FETCH 2 FROM c; FETCH BACKWARD 2 FROM c"), "500\n501\n500\n499", 'who may turn reads in the order of keys');
is(sql("BEGIN; DECLARE c CURSOR FOR SELECT id FROM a; MOVE 500 FROM c; FETCH 2 FROM c; FETCH BACKWARD 2 FROM c"), "500\n501\n500\n499", '... or does not say that he will not');
is(sql("SELECT count(*) FROM a x, LATERAL (SELECT count(*) AS n FROM a y WHERE y.v < x.id % 10) z WHERE n <> x.id % 10"), 0, 'scans that are begun anew');
is(sql("SELECT count(*) FROM a WHERE ctid IN (SELECT ctid FROM a WHERE v % 3 = 0)"), 334, 'ctids');
sql('UPDATE a SET v = v + 1000 WHERE v % 2 = 0');
is(sql('SELECT count(*), count(DISTINCT id), min(v) FROM a'), '1000|1000|1', 'rows that were replaced');
is(sql('WITH x AS (UPDATE a SET v = v + 1 RETURNING id), y AS (SELECT count(*) FROM a) SELECT (SELECT count(*) FROM x), (SELECT * FROM y), (SELECT count(*) FROM a)'),
	'1000|1000|1000', 'rows that the query changes');
sql('INSERT INTO a SELECT id + 1000, v, t FROM a');
is(sql('SELECT count(*), count(DISTINCT id) FROM a'), '2000|2000', 'a table put into itself');

my $before;

# Keys whose prefixes are equal, and rows of which more than a few need a second look.
sql(<<'SQL');
CREATE TABLE p (a text, b numeric, v int, PRIMARY KEY (a, b)) USING rose;
INSERT INTO p SELECT 'a long common beginning of ' || g * 7919 % 500, g % 3, 0 FROM generate_series(0, 499) g;
UPDATE p SET v = v + 1;
UPDATE p SET v = v + 1 WHERE b = 1;
DELETE FROM p WHERE b = 2;
SQL
is(sql('SELECT b, count(*), count(DISTINCT a), sum(v) FROM p GROUP BY b ORDER BY b'), "0|167|167|167\n1|167|167|334", 'keys with equal prefixes');

# Rows so long that a batch is full in the middle of those that are found together.
sql(<<'SQL');
CREATE TABLE l (id int PRIMARY KEY, v int, t text) USING rose;
INSERT INTO l SELECT g * 7919 % 300, g, repeat(md5(g::text), 90 + g % 7) FROM generate_series(0, 299) g;
UPDATE l SET v = v + 1000 WHERE v % 3 = 0;
SQL
foreach my $again (1, 2)
{
	is(sql('SELECT count(*), count(DISTINCT id), sum(v), count(DISTINCT t), sum(length(t)) FROM (SELECT * FROM l OFFSET 0) x'),
		sql('SELECT count(*), count(*), sum(g) + 100 * 1000, count(*), sum(32 * (90 + g % 7)) FROM generate_series(0, 299) g'), 'rows of some kB');
}

# ---- rows that later transactions have updated, deleted and inserted again ----

# Each round has a snapshot; all read in the order of arrival, in that of keys, and backward.
foreach my $key ('int', 'text', 'int, int', 'numeric')
{
	my $columns = $key eq 'int, int' ? 'id, w' : 'id';
	my $first = $key eq 'text' ? "'a long common beginning of ' || lpad(g::text, 5, '0')" : $key eq 'int, int' ? 'g / 4' : 'g';

	sql("CREATE TABLE u_$_ (id " . ($key =~ s/,.*//r) . ", w int, v int, t text, PRIMARY KEY ($columns))" . ($_ eq 'rose' ? ' USING rose' : '')) foreach qw(heap rose);
	my @sessions;
	foreach my $round (0 .. 12)
	{
		foreach my $twin (qw(heap rose))
		{
			if ($round == 0)
			{
				sql("INSERT INTO u_$twin SELECT $first, g % 4, g, md5(g::text) FROM (SELECT i * 7919 % 400 AS g FROM generate_series(0, 399) i) x");
				next;
			}
			sql("UPDATE u_$twin SET v = v + 1000 WHERE v % 13 >= $round");
			sql("UPDATE u_$twin SET t = right(t || 'x', 40) WHERE v % 7 = 0") foreach 1 .. 2;
			sql("BEGIN; UPDATE u_$twin SET v = -1; ROLLBACK; DELETE FROM u_$twin WHERE v % 50 = $round; INSERT INTO u_$twin SELECT $first, g % 4, g, 'again' FROM generate_series(0, 399) g ON CONFLICT DO NOTHING") if $round % 3 == 0;
		}
		if ($round % 4 == 1)
		{
			push @sessions, RoseTest::Session->new($node);
			$sessions[-1]->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM u_rose");
		}
		foreach my $session ($keeper, @sessions)
		{
			my $all = sub { my ($twin, $rest) = @_; return $session->run("SELECT id, w, v, t FROM u_$twin $rest") };
			my $heap = $all->('heap', "ORDER BY $columns");

			$session->run('SET enable_sort = off');
			my @found = ($all->('rose', "ORDER BY $columns"), join("\n", reverse split(/\n/, $all->('rose', 'ORDER BY ' . ($columns =~ s/(,|$)/ DESC$1/gr)))));
			$session->run('RESET enable_sort');
			push @found, $session->run("SELECT * FROM (SELECT id, w, v, t FROM u_rose OFFSET 0) x ORDER BY $columns") foreach 1, 2;
			my @differ = grep { $found[$_] ne $heap } 0 .. $#found;
			is("@differ", '', "key $key, round $round, snapshot " . ($session == $keeper ? 'of now' : 'of before')) if @differ || $round == 12;
		}
		# the oldest one goes, so that what all see is known
		if ($round % 4 == 0 && @sessions > 1)
		{
			$_->run('COMMIT'), $_->end foreach shift @sessions;
		}
	}
	$_->run('COMMIT'), $_->end foreach @sessions;
	sql("DROP TABLE u_heap, u_rose");
}

# ---- who reads in the order of keys ----

# Two that lock the same rows in different orders wait for each other; and versions get their names by what is on disk.
$before = batches();
sql('UPDATE p SET v = v + 1; BEGIN; DELETE FROM p; ROLLBACK; BEGIN; INSERT INTO p SELECT a, b + 5, v FROM p; ROLLBACK');
is(sql('SELECT count(*) FROM (SELECT 1 FROM p FOR KEY SHARE) x'), 334, 'a query that locks rows');
is(sql('WITH x AS (UPDATE p SET v = v - 1 RETURNING v) SELECT count(*) FROM x, (SELECT count(*) FROM p) y'), 334, '... or changes them');
is(sql('SELECT count(DISTINCT ctid) FROM p'), 334, '... or uses ctids');
is(batches(), $before, '... does so in the order of keys');

# Each of two reads what the other one writes, and one of them before, which the lock of the table does not tell.
sql('CREATE TABLE s (id int PRIMARY KEY, v int) USING rose; INSERT INTO s SELECT g, 0 FROM generate_series(1, 100) g');
{
	my @both = map { RoseTest::Session->new($node) } 1 .. 2;
	my @ends;

	# by the key: a scan would lock the table
	$_->run('SET enable_seqscan = off; BEGIN ISOLATION LEVEL SERIALIZABLE') foreach @both;
	$both[0]->run('UPDATE s SET v = 1 WHERE id = 1');
	$both[1]->run('UPDATE s SET v = 1 WHERE id = 2');
	$_->run('SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off') foreach @both;
	is(join(' ', map { $_->run('SELECT sum(v) FROM s') } @both), '1 1', 'serializable transactions see what they wrote themselves');
	push @ends, eval { $_->run('COMMIT'); 'committed' } // 'failed' foreach @both;
	is("@ends", 'committed failed', '... and hear of what they do not see');
	$_->end foreach @both;
}

# ---- numbers that come in another order, and scans that outlive their memory ----

sql('CREATE TABLE c (id int PRIMARY KEY, v int, t text) USING rose');
my $own = RoseTest::Session->new($node);

# What a spill carries over comes behind what was written meanwhile: of other rows, and of the same. (16 would take distinct ids
# in the order of the key.)
$own->run("BEGIN; INSERT INTO c SELECT g * 7 % 200, 0, 'old' FROM generate_series(1, 200) g; SAVEPOINT s; UPDATE c SET v = 1 WHERE id % 5 = 0");
my $spill = RoseTest::Session->new($node);
$keeper->run("SELECT stop_at('spill-frozen', 'wait')");
$spill->start("SELECT rose.spill('c')");
wait_for_stop($node);
$own->run("UPDATE c SET v = v + 2 WHERE id % 2 = 0; INSERT INTO c SELECT g, 5, 'new' FROM generate_series(300, 200, -1) g");
$keeper->run("SELECT go_on('spill-frozen')");
$spill->finish;
$before = batches();
my $expected = sql("SELECT count(*), count(DISTINCT id), sum(v) FROM (SELECT g AS id, CASE WHEN g % 5 = 0 THEN 1 ELSE 0 END + CASE WHEN g % 2 = 0 THEN 2 ELSE 0 END AS v FROM generate_series(0, 199) g
	UNION ALL SELECT g, 5 FROM generate_series(200, 300) g) x");
is($own->run('SELECT count(*), count(DISTINCT id + 0), sum(v) FROM c'), $expected, 'older versions that came behind newer ones');
is($own->run('SAVEPOINT t; DELETE FROM c WHERE id % 3 = 0; ROLLBACK TO t; SELECT count(*), count(DISTINCT id + 0), sum(v) FROM c'), $expected, '... after some were taken back');
is(sql('SELECT count(*) FROM c'), 0, '... nobody else sees them');
$own->run('COMMIT');
is(sql('SELECT count(*), count(DISTINCT id + 0), sum(v) FROM c'), $expected, '... until they are committed');
cmp_ok(batches(), '>', $before + 2, '... in the order of arrival');

# Prepared, and carried over.
sql("TRUNCATE c; INSERT INTO c SELECT g * 7 % 200, 0, 'old' FROM generate_series(1, 200) g; BEGIN; UPDATE c SET v = 1 WHERE id % 2 = 0; DELETE FROM c WHERE id % 5 = 0; INSERT INTO c VALUES (1000, 7, ''); PREPARE TRANSACTION 'p'");
is(sql('SELECT count(*), sum(v) FROM c'), '200|0', 'rows that were prepared are not seen');
sql("COMMIT PREPARED 'p'");
is(sql('SELECT count(*), sum(v) FROM c'), '161|87', '... but when they are committed');

# A cursor that is first used in a subtransaction that goes, while its memory does.
foreach my $step ("SELECT rose.spill('c')", "SELECT rose.spill('c'); SELECT rose.merge('c')")
{
	sql("TRUNCATE c; INSERT INTO c SELECT g * 7919 % 3000, g, md5(g::text) FROM generate_series(1, 3000) g; DELETE FROM c WHERE id % 4 = 0");
	$expected = sql('SELECT id, v, t FROM c ORDER BY id');
	$own->run("BEGIN; DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT id, v, t FROM c; DECLARE d NO SCROLL CURSOR FOR SELECT id, v, t FROM c; SAVEPOINT s");
	my %first = map { $_ => $own->run("FETCH 700 FROM $_") } qw(c d);
	$own->run("UPDATE c SET v = -1, t = ''; ROLLBACK TO s; UPDATE c SET t = '' WHERE id % 2 = 0");
	sql('UPDATE c SET v = -2 WHERE id % 2 = 1');
	$keeper->run($step);
	my $d = $own->run('FETCH ALL FROM d');
	is(join("\n", sort { $a <=> $b } map { split(/\n/) } $first{d}, $d), $expected, 'a cursor over the end of a subtransaction and of its memory');
	$own->run('COMMIT');
	is(join("\n", sort { $a <=> $b } map { split(/\n/) } $first{c}, $own->run('FETCH ALL FROM c')), $expected, '... and WITH HOLD');
	$own->run('CLOSE c');
}

# Temporary tables are in their session's memory, which it spills and merges itself.
foreach my $step ("SELECT rose.spill('x')", "SELECT rose.spill('x'); SELECT rose.merge('x')")
{
	$own->run("CREATE TEMP TABLE x (id int PRIMARY KEY, v int, t text) USING rose; INSERT INTO x SELECT g * 7919 % 3000, g, md5(g::text) FROM generate_series(1, 3000) g; UPDATE x SET v = v WHERE id % 3 = 0");
	$before = batches();
	$own->run('BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT id, v, t FROM x');
	my $rows = $own->run('FETCH 1000 FROM c');
	cmp_ok(batches(), '>', $before, 'a temporary table');
	$own->run("UPDATE x SET t = '', v = 0; $step; INSERT INTO x SELECT id + 5000, v, t FROM x; $step");
	$rows = join("\n", sort { $a <=> $b } map { split(/\n/) } $rows, $own->run('FETCH ALL FROM c'));
	is($rows, sql('SELECT g * 7919 % 3000, g, md5(g::text) FROM generate_series(1, 3000) g ORDER BY 1'), '... that is spilled under a cursor');
	$own->run('COMMIT; DROP TABLE x');
}
$_->end foreach $own, $spill;

# ---- functions that write what is read ----

sql(<<'SQL');
CREATE TABLE f (id int PRIMARY KEY, v int) USING rose;
INSERT INTO f SELECT g * 7 % 500, 0 FROM generate_series(1, 500) g;
CREATE FUNCTION rewrite(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	x record;
	rows int := 0;
BEGIN
	UPDATE f SET v = v + 1 WHERE id = (n + 250) % 500;
	INSERT INTO f VALUES (n + 1000, 0) ON CONFLICT (id) DO UPDATE SET v = f.v + 1;
	DELETE FROM f WHERE id = n + 1000 AND n % 2 = 0;
	IF n % 100 = 0 THEN
		FOR x IN SELECT id, v FROM f LOOP rows := rows + 1; END LOOP;
		ASSERT rows = (SELECT count(*) FROM f);
	END IF;
	RETURN 1;
END $$;
SQL
is(sql('SELECT sum(rewrite(id)), count(DISTINCT id), sum(v) FROM f'), '500|500|0', 'a query whose functions write what it reads');
is(sql('SELECT count(*), count(DISTINCT id), sum(v), sum(v) FILTER (WHERE id < 500) FROM f'), '750|750|500|500', '... has written it once');

# ---- beside everything ----

sql(<<'SQL');
CREATE TABLE h (id int PRIMARY KEY, v int, t text);
CREATE TABLE r (id int PRIMARY KEY, v int, t text) USING rose;
SQL

# The same of both; in the order of keys, since locks could be waited for otherwise.
sub change
{
	my $where = any('id = ' . int(rand(300)), 'id % ' . (5 + int(rand(20))) . ' = ' . int(rand(5)), 'id < ' . int(rand(60)));
	my $n = int(rand(1000));
	my $change = any(
		"UPDATE %s SET v = $n, t = t || 'x' WHERE $where", "UPDATE %s SET v = v + 1 WHERE $where", "DELETE FROM %s WHERE $where",
		"INSERT INTO %s SELECT g * 7919 %% 300, $n, md5(g::text) FROM generate_series(1, " . (1 + int(rand(200))) . ") g ON CONFLICT DO NOTHING",
		"INSERT INTO %s SELECT g * 7919 %% 300, $n, repeat('y', $n) FROM generate_series(1, " . (1 + int(rand(50))) . ') g ON CONFLICT (id) DO UPDATE SET v = excluded.v',
		"SELECT count(*) FROM (SELECT 1 FROM %s WHERE $where FOR UPDATE) x",
		"UPDATE %s SET id = id + 1000 WHERE id = " . int(rand(300)) . ' AND NOT EXISTS (SELECT 1 FROM %1$s y WHERE y.id = %1$s.id + 1000)');
	return join('; ', map { sprintf($change, $_) } qw(h r));
}

my $differences = 'SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE r) UNION ALL (TABLE r EXCEPT ALL TABLE h)) x';
my $writer = RoseTest::Session->new($node);
my @readers = map { RoseTest::Session->new($node) } 1 .. 2;
my @open = (0, 0);
my ($savepoints, $in, $wrong) = (0, 0, 0);

# What a cursor of each table has still to give, the one of rose's in the order of arrival.
sub fetch_all
{
	my ($session) = @_;
	my @rows = map { join("\n", sort split(/\n/, $session->run("FETCH ALL FROM $_"))) } qw(ch cr);

	return $rows[0] eq $rows[1];
}

sub compare
{
	my ($session, $what) = @_;

	return if $session->run($differences) eq '0';
	$wrong++;
	diag("$what sees other rows, ARRIVAL_SEED=$seed");
	return;
}

my %steps = (
	change => sub { $writer->run(change()) },
	begin => sub { $writer->run('BEGIN') unless $in; $in = 1 },
	savepoint => sub { $writer->run('SAVEPOINT s' . ++$savepoints) if $in },
	rollback_to => sub { $writer->run("ROLLBACK TO s$savepoints; RELEASE s$savepoints"), $savepoints-- if $savepoints },
	end => sub { $writer->run(any('COMMIT', 'COMMIT', 'ROLLBACK')) if $in; ($in, $savepoints) = (0, 0) },
	read => sub { compare($writer, 'the writer') },
	others_read => sub {
		my $i = int(rand(2));
		$readers[$i]->run('BEGIN ISOLATION LEVEL REPEATABLE READ') if !$open[$i] && rand() < 0.5 and $open[$i] = 1;
		compare($readers[$i], "reader $i");
	},
	# both cursors have the same snapshot
	cursors => sub {
		my $i = int(rand(2));
		$readers[$i]->run('COMMIT') if $open[$i];
		$readers[$i]->run('BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE ch NO SCROLL CURSOR FOR TABLE h; DECLARE cr NO SCROLL CURSOR FOR TABLE r');
		my $first = int(rand(200));
		my $rows = $readers[$i]->run("FETCH $first FROM cr");
		$open[$i] = 2;
		$readers[$i]->{rows} = $rows;
	},
	fetch => sub {
		my ($i) = grep { $open[$_] == 2 } 0, 1;
		return if !defined $i;
		my @all = map { [ split(/\n/, $_) ] } $readers[$i]->{rows}, map { scalar $readers[$i]->run("FETCH ALL FROM $_") } qw(cr ch);
		my $got = join("\n", sort @{ $all[0] }, @{ $all[1] });
		$wrong++, diag("a cursor gives other rows, ARRIVAL_SEED=$seed") if $got ne join("\n", sort @{ $all[2] });
		$readers[$i]->run('COMMIT');
		$open[$i] = 0;
	},
	end_read => sub { my $i = int(rand(2)); $readers[$i]->run('COMMIT') if $open[$i]; $open[$i] = 0 },
	spill => sub { $keeper->run("SELECT rose.spill('r')") if rand() < 0.3 },
	merge => sub { $keeper->run("SELECT rose.merge('r')") if rand() < 0.2 },
	empty => sub { $writer->run('TRUNCATE h, r') if !$in && !grep { $_ } @open and rand() < 0.5 });
# a table that is in memory alone is what this is about
my @mix = (('change') x 12, ('read') x 5, ('others_read') x 5, ('cursors') x 4, ('fetch') x 4, ('begin') x 2, ('savepoint') x 3, ('rollback_to') x 2, ('end') x 2,
	'end_read', 'end_read', 'spill', 'merge', ('empty') x 5);
$before = batches();
for my $i (1 .. $steps)
{
	my $name = any(@mix);
	$steps{$name}->();
}
$steps{end}->();
compare($writer, 'the writer');
is($wrong, 0, "all see what heap shows, in $steps steps");
cmp_ok(batches() - $before, '>', $steps / 4, 'in the order of arrival, often');

# ---- memory goes under the scan ----

$_->run('ROLLBACK') foreach grep { $_ } map { $open[$_] ? $readers[$_] : undef } 0, 1;
foreach my $round (1 .. 6)
{
	sql("TRUNCATE h, r; INSERT INTO h SELECT g * 7919 % 3000, g, repeat('z', g % 100) FROM generate_series(1, 3000) g; INSERT INTO r SELECT * FROM h ORDER BY md5(v::text)");
	sql('UPDATE h SET v = -v WHERE id % 3 = 0; UPDATE r SET v = -v WHERE id % 3 = 0; DELETE FROM h WHERE id % 10 = 1; DELETE FROM r WHERE id % 10 = 1');
	my $reader = RoseTest::Session->new($node);
	$reader->run($round % 2 ? 'BEGIN' : 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	$reader->run("UPDATE $_ SET v = v + 5 WHERE id % 7 = 0") foreach qw(h r);
	$reader->run("DECLARE c$_ NO SCROLL CURSOR FOR TABLE $_") foreach qw(h r);
	my $first = $reader->run('FETCH ' . (100 * $round + 17) . ' FROM cr');
	$reader->run("UPDATE $_ SET v = v + 5 WHERE id % 5 = 0") foreach qw(h r);
	$keeper->run("SELECT rose.spill('r')");
	sql("UPDATE r SET t = 'later' WHERE id % 35 = 2");
	$keeper->run($round < 3 ? "SELECT rose.spill('r')" : "SELECT rose.merge('r')");
	my $got = join("\n", sort split(/\n/, $first . "\n" . $reader->run('FETCH ALL FROM cr')));
	my $expected = join("\n", sort split(/\n/, $reader->run('FETCH ALL FROM ch')));
	ok($got eq $expected, "a scan whose memory went, $round");
	$reader->run('COMMIT');
	$reader->end;
}
is(sql("SELECT count(*) FROM rose.check('r')"), 0, 'nothing is wrong with the table');
$_->end foreach $writer, @readers, $keeper;
done_testing();
