# CREATE, REINDEX and DROP INDEX CONCURRENTLY in a loop, beside sessions that write: random statements in and between transactions, subtransactions and
# prepared ones, REPEATABLE READ, spills and merges in a small arena, builds that are cancelled, and the server is killed. Whenever an index is valid, it has
# the entries of its table's rows (rose.check), and if it is unique, no two rows have one value. Environment:
#
#   CONCURRENTLY_SEED		repeat a run, as far as several sessions can
#   CONCURRENTLY_STEPS		statements of a writer, default 300
#   CONCURRENTLY_ROUNDS		default 2, the server is killed in each
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no rose.check' if $ENV{ROSE_STANDIN};

my $seed = seed_random('CONCURRENTLY_SEED');
my $steps = $ENV{CONCURRENTLY_STEPS} // 300;
my $rounds = $ENV{CONCURRENTLY_ROUNDS} // 2;
my $node = rose_node('concurrently', 'autovacuum = off', 'fsync = off', 'max_prepared_transactions = 20', "deadlock_timeout = '50ms'", 'restart_after_crash = on',
	"rose.memtable_size = '4MB'");
my $files = $node->basedir;
my $names = 0;

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }

sql(<<'SQL');
CREATE TABLE t (k int PRIMARY KEY, a int, b text, c int) USING rose;
CREATE TABLE u (k int, a int, b text, c int) USING rose;
CREATE TABLE p (k int, a int, b text, c int, PRIMARY KEY (k, b)) PARTITION BY RANGE (k);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (500) USING rose;
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (500) TO (MAXVALUE) USING rose;
INSERT INTO t SELECT i, i % 50, md5(i::text), i % 7 FROM generate_series(1, 3000) i;
INSERT INTO u SELECT i, i % 50, md5(i::text), i % 7 FROM generate_series(1, 3000) i;
INSERT INTO p SELECT i, i % 50, md5(i::text), i % 7 FROM generate_series(1, 1000) i;
-- a is to be unique
CREATE TABLE v (k int PRIMARY KEY, a int, b text, c int) USING rose;
INSERT INTO v SELECT i, i, md5(i::text), i % 7 FROM generate_series(1, 1500) i;
CREATE TABLE built (relation text, how text) USING heap;
CREATE TABLE checked (relation text, msg text) USING heap;
-- never, when a unique index is valid
CREATE FUNCTION checked_values() RETURNS void LANGUAGE sql AS $$
	INSERT INTO checked SELECT 'v', format('%s rows with value %s', count(*), a) FROM v
	WHERE a IS NOT NULL AND EXISTS (SELECT FROM pg_index WHERE indrelid = 'v'::regclass AND indisunique AND NOT indisprimary AND indisvalid)
	GROUP BY a HAVING count(*) > 1
$$;
CREATE FUNCTION note_built(what text) RETURNS void LANGUAGE sql AS $$
	INSERT INTO built SELECT 'v', CASE WHEN indisvalid THEN what ELSE 'failed' END FROM pg_index WHERE indexrelid = to_regclass('v_a')
$$;
-- what is found by an index that is valid, and what without it
CREATE FUNCTION checked(t text) RETURNS void LANGUAGE sql AS $$ INSERT INTO checked SELECT t, msg FROM rose.check(t::regclass) $$;
SQL

# ---- writers ----

sub change
{
	my ($table, $from) = @_;
	my $k = 1 + int rand 1200;
	my $to = $k + int rand 20;

	return pick(
		"UPDATE $table SET a = a + 1 WHERE k BETWEEN $k AND $to",
		"UPDATE $table SET a = " . int(rand 50) . " WHERE k = $k",
		"UPDATE $table SET a = CASE a WHEN 1 THEN 2 ELSE 1 END WHERE k = $k",
		"UPDATE $table SET c = c + 1 WHERE k = $k",
		"UPDATE $table SET k = k + 4000, b = repeat(b, 3) WHERE k = $k",
		"DELETE FROM $table WHERE k BETWEEN $k AND $to",
		"INSERT INTO $table SELECT i, i % 50, md5(i::text || random()), NULL FROM generate_series($k, $to) i ON CONFLICT DO NOTHING",
		"INSERT INTO $table SELECT i, NULL, repeat(md5(i::text), 20), 5 FROM generate_series($from, $from + 200) i ON CONFLICT DO NOTHING");
}

sub transaction
{
	my ($writer, $step) = @_;
	my $table = pick(qw(t t u p));
	my $from = 100000 * ($writer + 1) + 300 * $step;
	my $name = "w$writer" . '_' . $names++;
	my $begin = pick('BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my @one = map { change($table, $from) } 1 .. 3;

	return "$one[0];" if rand() < 0.4;
	return "$begin; $one[0]; SAVEPOINT s; $one[1]; ROLLBACK TO s; $one[2]; COMMIT;" if rand() < 0.4;
	return "$begin; $one[0]; SELECT pg_sleep(0.02); $one[1]; " . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ';' if rand() < 0.6;
	return "BEGIN; $one[0]; SAVEPOINT s; $one[1]; ROLLBACK TO s; PREPARE TRANSACTION '$name'; SELECT pg_sleep(0.01); " . pick('COMMIT', 'ROLLBACK') . " PREPARED '$name';";
}

# mostly other values, some that others have, or have been left
sub value
{
	return pick(2000 + int rand 1_000_000, 2000 + int rand 1_000_000, 1 + int rand 1500, 1600 + int rand 20, 'NULL');
}

sub change_value
{
	my $k = 1 + int rand 1600;
	my $value = value();
	my $other = value();

	return pick(
		"UPDATE v SET a = $value WHERE k = $k",
		"UPDATE v SET a = $value WHERE a = $other",
		"UPDATE v SET b = b || 'x' WHERE k = $k",
		"UPDATE v SET k = k + 5000, a = $value WHERE k = $k",
		"DELETE FROM v WHERE k BETWEEN $k AND $k + 2",
		"INSERT INTO v VALUES ($k, $value, 'v', 1) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a",
		"INSERT INTO v VALUES ($k, $value, 'v', 1) ON CONFLICT DO NOTHING",
		"INSERT INTO v SELECT $k + i, $value + i, 'many', 2 FROM generate_series(0, 5) i ON CONFLICT (k) DO NOTHING",
		"COPY v FROM PROGRAM 'for i in 1 2 3 4; do echo \$((3000000 + RANDOM * 10 + i)),\$((RANDOM * 1000)),copy,3; done' CSV",
		"UPDATE v SET a = NULL WHERE k = $k", "UPDATE v SET a = -k WHERE k = $k");
}

sub transaction_of_values
{
	my $begin = pick('BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ', 'BEGIN ISOLATION LEVEL SERIALIZABLE');
	my @one = map { change_value() } 1 .. 3;
	my $name = "v$names" . '_' . $names++;

	return "$one[0];" if rand() < 0.5;
	return "$begin; $one[0]; SAVEPOINT s; $one[1]; ROLLBACK TO s; $one[2]; COMMIT;" if rand() < 0.5;
	return "BEGIN; $one[0]; PREPARE TRANSACTION '$name'; SELECT pg_sleep(0.02); " . pick('COMMIT', 'ROLLBACK') . " PREPARED '$name';" if rand() < 0.2;
	return "$begin; $one[0]; SELECT pg_sleep(0.02); $one[1]; " . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ';';
}

# ---- who builds ----

sub builds
{
	my ($index, $table, $columns) = @_;
	my $built = "SELECT checked('$table');";
	my $hurry = 'SET statement_timeout = ' . int(20 + rand 400) . ';';
	my $calm = 'SET statement_timeout = 60000;';
	my $create = "CREATE INDEX CONCURRENTLY IF NOT EXISTS $index ON $table ($columns);";
	my $again = pick("REINDEX INDEX CONCURRENTLY $index;", "REINDEX TABLE CONCURRENTLY $table;");
	my $drop = "DROP INDEX CONCURRENTLY IF EXISTS $index;";

	return join "\n", "$calm $create", "$calm $built", $again, $built, pick("$hurry $again", $again), "$calm $built",
		pick("$hurry $drop", $drop), "$calm $drop", $built, "$hurry $create", $calm, $built,
		pick("REINDEX INDEX CONCURRENTLY $index;", "$drop", "REINDEX INDEX $index;", ''), $built, $drop;
}

sub unique_builds
{
	my $alone = 'DELETE FROM v USING v o WHERE v.a = o.a AND v.k > o.k;';
	my $columns = pick('(a)', '(a) INCLUDE (c)', '(a DESC NULLS LAST)');
	my $create = "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS v_a ON v $columns;";
	my $checked = "SELECT checked_values(); SELECT checked('v');";
	my $hurry = 'SET statement_timeout = ' . int(20 + rand 400) . ';';
	my $calm = 'SET statement_timeout = 60000;';
	my $again = pick('REINDEX INDEX CONCURRENTLY v_a;', 'REINDEX TABLE CONCURRENTLY v;');
	my $drop = 'DROP INDEX CONCURRENTLY IF EXISTS v_a;';

	return join "\n", $calm, map({ ($alone, $create, "SELECT note_built('created');", $checked, pick('', $drop)) } 1 .. 4),
		$again, "SELECT note_built('again');", $checked, "$hurry $again", "$calm $checked", $again, $checked, pick("$hurry $drop $calm", ''), $drop, $checked, "$hurry $create $calm", $checked, $drop;
}

sub start
{
	my ($name, $script) = @_;
	my $file = "$files/$name.sql";
	my $out = '';

	append_to_file($file, $script);
	my $h = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ], '>', \$out, '2>', "$files/$name.err", IPC::Run::timeout(400));
	return $h;
}

sub complaints
{
	my ($name) = @_;
	return join "\n", grep { /XX|PANIC|could not|cannot/ && !/could not serialize|could not create unique index|cannot reindex invalid index|server closed|connection to server|could not receive|could not send/ } split /\n/, slurp_file("$files/$name.err");
}

# ---- rounds ----

foreach my $round (1 .. $rounds)
{
	my %running;

	foreach my $writer (0 .. 2)
	{
		$running{"writer_${round}_$writer"} = start("writer_${round}_$writer", join "\n", map { transaction($writer, $round * $steps + $_) } 1 .. $steps);
	}
	foreach my $writer (0 .. 1)
	{
		$running{"values_${round}_$writer"} = start("values_${round}_$writer", join "\n", map { transaction_of_values() } 1 .. $steps);
	}
	$running{"builder_${round}_v"} = start("builder_${round}_v", join "\n", map { unique_builds() } 1 .. 4);
	$running{"spiller_$round"} = start("spiller_$round",
		join "\n", map { my $t = pick(qw(t u p_1 v v)); pick("SELECT rose.spill('$t');", "SELECT rose.merge('$t');", 'SELECT pg_sleep(0.05);') } 1 .. $steps / 3);
	$running{"builder_${round}_t"} = start("builder_${round}_t", join "\n", map { builds('t_a', 't', pick('a', 'a, c', 'c DESC, a', '(a % 10), c', 'a) WHERE (c > 2')) } 1 .. 3);
	$running{"builder_${round}_u"} = start("builder_${round}_u", join "\n", map { builds('u_a', 'u', pick('a', 'c, a', 'a) INCLUDE (c')) } 1 .. 3);
	$running{"builder_${round}_p"} = start("builder_${round}_p", join "\n", map { builds('p_1_a', 'p_1', 'a, c') } 1 .. 3);

	if ($round < $rounds)
	{
		select undef, undef, undef, 3 + rand 6;
		$node->stop('immediate');
		$node->start;
	}
	$_->finish foreach values %running;
	is(complaints($_), '', "round $round: $_ met no error of ours") foreach sort keys %running;
	foreach my $gid (split /\n/, sql('SELECT gid FROM pg_prepared_xacts'))
	{
		sql(pick('COMMIT', 'ROLLBACK') . " PREPARED '$gid'");
	}
	sql("SELECT checked(c::text) FROM unnest('{t,u,v,p_1,p_2}'::regclass[]) c");
	sql('SELECT checked_values()');
	is(sql('SELECT relation, msg FROM checked'), '', "round $round: indexes are those of their tables");
	foreach my $index (split /\n/, sql("SELECT indexrelid::regclass FROM pg_index WHERE indexrelid::regclass::text ~ '^((t|u|v|p_1)_a\$|.*_cc(new|old))'"))
	{
		sql("REINDEX INDEX $index") if $index !~ /cc|v_a/;
		sql("DROP INDEX CONCURRENTLY $index");
	}
	sql('CREATE INDEX CONCURRENTLY t_a ON t (a)');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "round $round: a new one");
	sql('DROP INDEX CONCURRENTLY t_a');
}
note('unique indexes: ' . sql("SELECT string_agg(n, ', ') FROM (SELECT how || ' ' || count(*) AS n FROM built GROUP BY how) x"));
cmp_ok(sql("SELECT count(*) FROM built WHERE how = 'created'"), '>', 0, 'some unique indexes were built');
sql("INSERT INTO t VALUES (0, 0, '', 0)");
is(($node->psql('postgres', "INSERT INTO t VALUES (0, 0, '', 0)"))[0] == 0 ? 'done' : 'refused', 'refused', 'the primary key is as it was');
is(sql("SELECT count(*) FROM pg_index WHERE NOT indisvalid"), 0, 'nothing is left behind');
$node->stop;
done_testing();
