# Readers in real time beside random transactions of the upstream, which move amounts from one table to another: whatever is read, in
# whatever way, the amounts are in balance, and a later read shows no less than one before, though the worker is ended now and then.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no batches' if $ENV{ROSE_STANDIN};

my $seed = seed_random('REALTIME_SEED');
my $transactions = $ENV{REALTIME_TRANSACTIONS} // 500;
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'autovacuum = off');
my @arena = rand() < 0.3 ? ("rose.memtable_size = '8MB'") : ();
my $node = rose_node('replica', "rose.spill_interval = '" . (1, 300, 3600)[ rand 3 ] . "s'", "rose.batch_interval = '" . (0, 200, 20000)[ rand 3 ] . "ms'",
	"wal_retrieve_retry_interval = '100ms'", 'rose.realtime_timeout = 0', @arena);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }
sub below { return int(rand($_[0])) }

# What is taken from a row of one is given to a row of another; seen counts transactions.
my $tables = 'CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (k text, id int, v int, PRIMARY KEY (k, id)); CREATE TABLE seen (id int PRIMARY KEY, n int); CREATE TABLE n (v int);';
up("$tables; CREATE TABLE p (id int PRIMARY KEY, v int); INSERT INTO a SELECT g, 0 FROM generate_series(1, 200) g; INSERT INTO b SELECT 'k' || g % 7, g, 0 FROM generate_series(1, 200) g;
	INSERT INTO p SELECT g, 0 FROM generate_series(1, 200) g; INSERT INTO seen VALUES (1, 0); CREATE PUBLICATION p FOR ALL TABLES");
sql("SET default_table_access_method = rose; $tables; CREATE INDEX a_v ON a (v); CREATE INDEX b_v ON b (v, k); CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (90); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (90) TO (MAXVALUE)");
subscribe($upstream, $node);

# ---- the upstream's transactions ----

sub move
{
	my $amount = 1 + below(50);
	my @parts;

	foreach my $sign ('+', '-')
	{
		my $id = 1 + below(200);
		my $table = pick(qw(a b p n));

		push @parts, $table eq 'n' ? "INSERT INTO n VALUES (${sign}$amount)" : "UPDATE $table SET v = v $sign $amount WHERE id = $id";
	}
	return @parts;
}

# A row gets another key; many rows get amounts that make nothing together.
sub change
{
	my $what = below(12);
	my $id = 1 + below(200);

	return "UPDATE b SET k = k || 'x' WHERE id = $id" if $what == 0;
	return "WITH d AS (DELETE FROM a WHERE id = $id RETURNING *) INSERT INTO a SELECT * FROM d" if $what == 1;
	return ('SAVEPOINT s', move(), 'UPDATE p SET v = v + 1000 WHERE id = ' . $id, 'ROLLBACK TO s') if $what == 2;
	return ('UPDATE a SET v = v + 3 WHERE id <= ' . $id, 'UPDATE p SET v = v - 3 WHERE id <= ' . $id) if $what == 3;
	return 'INSERT INTO n SELECT CASE g % 2 WHEN 0 THEN g - 1 ELSE -g END FROM generate_series(1, ' . 2 * (1 + below(1500)) . ') g' if $what == 4 && rand() < 0.3;
	return move();
}

sub script
{
	my $script = '';

	for (1 .. $transactions)
	{
		my @changes = map { change() } 1 .. 1 + below(4);

		$script .= join(";\n", 'BEGIN', @changes, 'UPDATE seen SET n = n + 1', rand() < 0.1 ? 'ROLLBACK' : 'COMMIT') . ";\n";
		$script .= "SELECT pg_sleep(0.02);\n" if rand() < 0.03;
	}
	return $script;
}

# ---- the readers ----

my $all = 'SELECT v FROM a UNION ALL SELECT v FROM b UNION ALL SELECT v FROM p UNION ALL SELECT v FROM n';
my $balance = "SELECT sum(v)::bigint, (SELECT n FROM seen) FROM ($all) s";
sql("CREATE FUNCTION balance(OUT bigint, OUT bigint) LANGUAGE plpgsql AS \$\$BEGIN $balance INTO \$1, \$2; END\$\$");
my @ways = (
	$balance, $balance, 'EXECUTE q', 'SELECT * FROM balance()', "BEGIN; SAVEPOINT s; $balance; COMMIT", "BEGIN; DECLARE c CURSOR FOR $balance; FETCH c; CLOSE c; COMMIT",
	"CREATE TEMP TABLE t AS $balance; SELECT * FROM t; DROP TABLE t", "COPY ($balance) TO STDOUT (DELIMITER '|')",
	'SET enable_seqscan = off; SET rose.enable_scan = off; ' . $balance =~ s/FROM ([ab])\b/FROM $1 WHERE v IS NOT NULL/gr . '; RESET ALL; SET rose.read_mode = realtime',
	'SET rose.scan_min_rows = 0; SET cpu_tuple_cost = 1; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; ' . $balance . '; RESET ALL; SET rose.read_mode = realtime',
	always_parallel($node) . "; $balance; RESET ALL; SET rose.read_mode = realtime");

sub reader
{
	my $reader = RoseTest::Session->new($node);

	$reader->run("SET rose.read_mode = realtime; SET plan_cache_mode = " . pick(qw(auto force_generic_plan)) . "; PREPARE q AS $balance");
	return $reader;
}

my @readers = map { reader() } 1 .. 2;
my ($reads, $bad, $last) = (0, 0, 0);

# One read by each of them, and what is wrong with it.
sub look
{
	my @asked = map { pick(@ways) } @readers;
	my $before = $last;

	$readers[$_]->start($asked[$_]) foreach 0 .. $#readers;
	foreach my $i (0 .. $#readers)
	{
		my ($sum, $seen) = split /\|/, $readers[$i]->finish;

		$reads++;
		if ($sum != 0 || $seen < $before)
		{
			$bad++;
			diag("sum $sum, $seen after $before: $asked[$i]");
		}
		$last = $seen if $seen > $last;
	}
	return;
}

# ---- both ----

my $script = $upstream->basedir . '/changes.sql';
append_to_file($script, script());
my $timer = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
my $writer = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $script, '-d', $upstream->connstr('postgres') ], '>', '/dev/null', '2>', \my $err, $timer);
while ($writer->pumpable)
{
	my $event = rand() < 0.04 ? below(5) : -1;

	$writer->pump_nb;
	$timer->start;
	look();
	sql('SELECT pg_terminate_backend(pid) FROM rose.stat_subscription WHERE pid IS NOT NULL') if $event == 0;
	sql("SELECT rose.spill('" . pick(qw(a b n p1)) . "')") if $event == 1;
	sql("SELECT rose.merge('" . pick(qw(a b n p2)) . "')") if $event == 2;
}
ok($writer->finish, 'the upstream has done all') or diag($err);
wait_for_apply($upstream, $node);
look();
is($bad, 0, "all of $reads reads were in balance (seed $seed)");
is($last, up('SELECT n FROM seen'), 'and the last ones saw all');
is(table_hash($node, $_), table_hash($upstream, $_), $_) foreach qw(a b p n seen);
crash_and_restart($node);
wait_for_apply($upstream, $node);
is(sql("SET rose.read_mode = realtime; $balance"), "0|$last", 'after a crash');

$node->stop;
$upstream->stop;
done_testing();
