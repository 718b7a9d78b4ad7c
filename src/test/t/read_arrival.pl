
# A query that never turns reads a table that is in memory in the order in which its rows came. It finds what heap finds: beside
# writers, of its own transaction, in old snapshots, with savepoints, locks and rows that were rolled back; and when the
# memory is spilled, merged and written to anew under it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory' if $ENV{ROSE_STANDIN};

my $node = rose_node('arrival', "rose.memtable_size = '64MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off');
my $steps = $ENV{ROSE_ARRIVAL_STEPS} // 250;
my $seed = $ENV{ROSE_SEED} // 4711;

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub any { return $_[ int(rand(@_)) ] }

stop_points_create($node);
my $keeper = RoseTest::Session->new($node);
# small tables, too; and how often batches are read so
$keeper->run("SELECT stop_at('arrival-small', 'skip', 'any', 0, 0), stop_at('arrival-batch', 'skip', 'any', 0, 0)");
srand($seed);
note("seed $seed");

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
is(sql("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*), sum(v) FROM a; COMMIT"), '1000|499500', 'serializable');
sql('UPDATE a SET v = v + 1000 WHERE v % 2 = 0');
is(sql('SELECT count(*), count(DISTINCT id), min(v) FROM a'), '1000|1000|1', 'rows that were replaced');
is(sql('WITH x AS (UPDATE a SET v = v + 1 RETURNING id), y AS (SELECT count(*) FROM a) SELECT (SELECT count(*) FROM x), (SELECT * FROM y), (SELECT count(*) FROM a)'),
	'1000|1000|1000', 'rows that the query changes');
sql('INSERT INTO a SELECT id + 1000, v, t FROM a');
is(sql('SELECT count(*), count(DISTINCT id) FROM a'), '2000|2000', 'a table put into itself');

# Keys whose prefixes are equal, and rows of which more than a few need a second look.
sql(<<'SQL');
CREATE TABLE p (a text, b numeric, v int, PRIMARY KEY (a, b)) USING rose;
INSERT INTO p SELECT 'a long common beginning of ' || g * 7919 % 500, g % 3, 0 FROM generate_series(0, 499) g;
UPDATE p SET v = v + 1;
UPDATE p SET v = v + 1 WHERE b = 1;
DELETE FROM p WHERE b = 2;
SQL
is(sql('SELECT b, count(*), count(DISTINCT a), sum(v) FROM p GROUP BY b ORDER BY b'), "0|167|167|167\n1|167|167|334", 'keys with equal prefixes');

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
	diag("$what sees other rows, seed $seed");
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
		$wrong++, diag("a cursor gives other rows, seed $seed") if $got ne join("\n", sort @{ $all[2] });
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
my $before = batches();
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
