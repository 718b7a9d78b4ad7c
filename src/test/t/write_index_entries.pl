# What writers leave in secondary indexes: whatever they do, and whatever happens to them, each snapshot finds in an index exactly the entries of the
# rows that it sees. Random statements of several sessions on tables with and without key, in and between transactions, subtransactions and prepared
# ones, with spills and merges of tables and indexes, in a small arena; in the end the server is killed. All compare as they go. Before that, single
# cases. The catalog's indexes are not ready for core to write to (src/test/server_trees). Environment:
#
#   ENTRIES_SEED		repeat a run, as far as several sessions can
#   ENTRIES_SESSIONS	default 3
#   ENTRIES_STEPS		statements of a session, default 250
#   ENTRIES_ROUNDS		default 2, the server is killed after each
#   ENTRIES_ARENA		in MB, default 4
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $seed = seed_random('ENTRIES_SEED');
my $sessions = $ENV{ENTRIES_SESSIONS} // 3;
my $steps = $ENV{ENTRIES_STEPS} // 250;
my $rounds = $ENV{ENTRIES_ROUNDS} // 2;
my $arena = $ENV{ENTRIES_ARENA} // 4;
my $node = rose_node('index_entries', 'autovacuum = off', 'fsync = off', 'max_prepared_transactions = 20', "deadlock_timeout = '50ms'", 'restart_after_crash = on',
	"rose.memtable_size = '${arena}MB'");
my $files = $node->basedir;
my @tables = qw(t u v);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }

stop_points_create($node);
sql(<<'SQL');
CREATE FUNCTION tree_make(regclass, text, smallint[], smallint[]) RETURNS regclass LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_entries(regclass) RETURNS SETOF text LANGUAGE C STRICT AS 'rose_server_trees';

CREATE TABLE t (k int PRIMARY KEY, a int, b text COLLATE "C", c int, d text) USING rose;
CREATE TABLE u (k int, a int, b text COLLATE "C", c int, d text, PRIMARY KEY (b, k)) USING rose;
CREATE TABLE v (k int, a int, b text COLLATE "C", c int, d text) USING rose;
CREATE TABLE expected (tab regclass, index regclass, query text) USING heap;
CREATE TABLE names (tab text, name text, attnums smallint[], options smallint[], list text, ordering text) USING heap;
INSERT INTO names VALUES
	('t', 'ta', '{2}', '{0}', 'a, k', 'a, k'),
	('t', 'tba', '{3,2}', '{0,3}', 'b, a, k', 'b, a DESC, k'),
	('t', 'tkc', '{1,4}', '{0,2}', 'k, c', 'k, c NULLS FIRST'),
	('u', 'uc', '{4}', '{2}', 'c, b, k', 'c NULLS FIRST, b, k'),
	('u', 'uka', '{1,2}', '{0,0}', 'k, a, b', 'k, a, b'),
	('v', 'va', '{2}', '{0}', 'a', 'a'),
	('v', 'vbc', '{3,4}', '{0,1}', 'b, c', 'b, c DESC NULLS LAST');
INSERT INTO expected SELECT tab, tree_make(tab::regclass, name, attnums, options),
	format('SELECT array_agg(concat_ws(''|'', %s) ORDER BY %s) FROM %s',
		(SELECT string_agg(format('coalesce(%s::text, ''-'')', x), ', ') FROM string_to_table(list, ', ') x), ordering, tab)
FROM names;

-- entries and rows, by one snapshot; those of a table without key have its row id in the end
CREATE FUNCTION compare(tag text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	e record;
	found text[];
	expected text[];
	bad int := 0;
BEGIN
	FOR e IN SELECT * FROM expected LOOP
		EXECUTE format('SELECT (SELECT array_agg(CASE WHEN %L = ''v'' THEN regexp_replace(x, ''[|]\d+$'', '''') ELSE x END) FROM tree_entries(%L) x), (%s)',
			e.tab, e.index, e.query) INTO found, expected;
		IF found IS DISTINCT FROM expected THEN
			bad := bad + 1;
			RAISE WARNING 'MISMATCH (%) of %: % entries, % rows; too many: %; missing: %', tag, e.index, cardinality(found), cardinality(expected),
				(SELECT string_agg(x, ' ') FROM (SELECT unnest(found) x EXCEPT ALL SELECT unnest(expected) LIMIT 5) y),
				(SELECT string_agg(x, ' ') FROM (SELECT unnest(expected) x EXCEPT ALL SELECT unnest(found) LIMIT 5) y);
		END IF;
	END LOOP;
	RETURN bad;
END $$;
SQL

sub agree { is(sql("SELECT compare('$_[0]')"), '0', $_[0]) }

# The size of the tree in memory: entries that were written, with those that are superseded.
sub in_memory { return sql("SELECT coalesce(sum(rows), 0) FROM rose.components('$_[0]') WHERE kind = 'memtable'") }

# ---- single cases ----

sql("INSERT INTO $_ SELECT i, i % 7, 'b' || i % 5, nullif(i % 3, 0), repeat('d', i) FROM generate_series(1, 50) i") for @tables;
agree('INSERT');
sql("UPDATE $_ SET a = NULL WHERE k % 4 = 0; UPDATE $_ SET d = d || 'x'; UPDATE $_ SET c = c + 1, b = b || 'b'") for @tables;
agree('UPDATE');
sql("UPDATE $_ SET k = k + 1000 WHERE k % 5 = 0") for @tables;
agree('UPDATE of a key');
sql("DELETE FROM $_ WHERE k % 6 = 0; INSERT INTO $_ SELECT i, 3, 'again', 3, '' FROM generate_series(1, 60) i WHERE i % 6 = 0") for @tables;
agree('DELETE, and INSERT of the same keys');
sql("BEGIN; SAVEPOINT a; UPDATE $_ SET a = a + 1; SAVEPOINT b; DELETE FROM $_; ROLLBACK TO b; UPDATE $_ SET a = a + 10 WHERE k < 20; RELEASE b;
	SELECT compare('in a transaction'); ROLLBACK TO a; UPDATE $_ SET b = 'c' WHERE k < 9; COMMIT") for @tables;
agree('subtransactions');
sql(q{INSERT INTO t VALUES (1, 77, 'x', 7, ''), (901, 77, 'x', 7, '') ON CONFLICT (k) DO UPDATE SET a = excluded.a});
sql(q{MERGE INTO t USING (VALUES (2), (902)) s (k) ON t.k = s.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, 5, 'm', 5, '')});
agree('ON CONFLICT and MERGE');
sql("BEGIN; UPDATE $_ SET a = 55 WHERE k < 30; PREPARE TRANSACTION 'p$_'; BEGIN; DELETE FROM $_ WHERE k > 40; PREPARE TRANSACTION 'q$_'") for @tables;
agree('prepared transactions');
crash_and_restart($node);
agree('... after a crash');
sql("COMMIT PREPARED 'p$_'") for @tables;
agree('... committed');
sql("ROLLBACK PREPARED 'q$_'") for @tables;
agree('... rolled back');

(undef, undef, my $long) = $node->psql('postgres', "INSERT INTO t SELECT 300 + n, 1, repeat('x', n) FROM generate_series(2000, 4000, 200) n");
like($long, qr/index row size \d+ exceeds maximum 2048 for index "tba"/, 'an entry that is too large');
agree('... leaves nothing');

# An unchanged entry is not written again; nor does what a transaction has superseded itself stay.
sql("SELECT rose.spill(index), rose.spill(tab) FROM expected");
sql("UPDATE t SET d = d || 'y', c = c + 1");
is(in_memory('ta') . ' ' . in_memory('tba'), '0 0', 'an UPDATE of other columns writes nothing');
cmp_ok(in_memory('tkc'), '>', 0, '... but to the index that has one');
sql(q{DO $$BEGIN FOR i IN 1 .. 20000 LOOP UPDATE t SET a = i % 2 WHERE k = 3; END LOOP; END$$});
agree('a hot row');
cmp_ok(sql(q{SELECT sum(bytes) FROM rose.components('ta') WHERE kind = 'memtable'}), '<', 2_000_000, '... of which little is left in memory')
  or diag(sql(q{SELECT * FROM rose.components('ta')}));

# VACUUM spills indexes, so that the commit log is not needed for what they have.
sql("INSERT INTO t VALUES (9001, 1, 'old', 1, '')");
cmp_ok(in_memory('ta'), '>', 0, 'an index has something in memory');
sql('VACUUM t');
is(in_memory('ta'), 0, '... which VACUUM spills');
sql('DELETE FROM t WHERE k = 9001');

# ---- between a row and its entries ----

sub fails
{
	my ($statement, $error, $what) = @_;
	my (undef, undef, $stderr) = $node->psql('postgres', $statement);

	like($stderr, $error, $what);
	return;
}

my $error = "SELECT stop_at('entries-write', 'error', 'any', 1)";	# of the second index
fails("$error; UPDATE t SET a = 1000, b = 'error' WHERE k < 20", qr/stop point/, 'an error between two indexes');
agree('... takes all back');
sql("SELECT stop_clear()");
sql(qq{BEGIN; UPDATE t SET a = 2000 WHERE k < 9;
	DO \$\$BEGIN PERFORM stop_at('entries-write', 'error', 'any', 1); UPDATE t SET a = 1000, b = 'error' WHERE k < 20; EXCEPTION WHEN OTHERS THEN NULL; END\$\$;
	SELECT compare('after a caught error'); UPDATE t SET b = 'then' WHERE k < 5; SELECT stop_clear(); COMMIT});
agree('an error in a subtransaction');
is(sql(q{SELECT count(*) FROM t WHERE b = 'error' OR a = 1000}), 0, '... takes that back alone');
is(sql(q{SELECT count(*) FROM t WHERE a = 2000}), sql(q{SELECT count(*) FROM t WHERE k < 9}), '... and the rest is there');
$node->psql('postgres', "SELECT stop_at('entries-write', 'terminate', 'any', 1); INSERT INTO t SELECT i, i, 'killed', i, '' FROM generate_series(2001, 2400) i");
agree('a session that ends there');
$node->psql('postgres', "SELECT stop_at('entries-write', 'crash', 'any', 1); BEGIN; UPDATE t SET a = 3000, b = 'crash'; COMMIT");
wait_until_up($node);
agree('a server that dies there');
is(sql(q{SELECT count(*) FROM t WHERE b = 'crash'}), 0, '... with the row in the tail log alone');

# ---- everything at once ----

my $round = 0;
my $gid = 0;

# A condition that meets a few rows, or many.
sub some
{
	my $at = int rand 200;

	return pick("k = $at", "k BETWEEN $at AND $at + 3", "k BETWEEN $at AND $at + 60", 'k % 7 = ' . int rand 7, 'a = ' . int rand 8);
}

sub value { return pick('NULL', int rand 8, int rand 8, 'a', 'c', 'k % 5') }

sub change
{
	my $tab = pick(@tables);
	my $key = $tab eq 't' ? '(k)' : '(b, k)';
	my $clause = $tab eq 'v' ? '' : "ON CONFLICT $key " . pick('DO NOTHING', 'DO UPDATE SET a = excluded.a, c = ' . $tab . '.c', "DO UPDATE SET d = 'conflict'");
	my $from = int rand 200;
	my $n = pick(1, 1, 3, 40, 300);
	my $text = pick('repeat(chr(97 + i % 5), i % 9)', "'b' || i % 7", "repeat('long', 100 + i % 9)");
	my $rows = "SELECT i, nullif(i % 9, 4), $text, nullif(i % 5, 2), repeat(md5(i::text), " . pick(1, 1, 20, 150) . ") FROM generate_series($from, $from + $n - 1) i";
	my $set = pick('a = ' . value(), 'a = ' . value(), 'c = ' . value(), "d = d || 'x'", "b = 'u' || k % 3", 'a = ' . value() . ", b = b || 'y', c = " . value(), 'a = a');

	return pick(
		"INSERT INTO $tab $rows $clause",
		"INSERT INTO $tab $rows $clause",
		"INSERT INTO $tab $rows",
		"COPY (SELECT * FROM $tab LIMIT 100) TO '$files/$$.$round'; DELETE FROM $tab WHERE " . some() . "; COPY $tab FROM '$files/$$.$round'",
		"UPDATE $tab SET $set WHERE " . some(),
		"UPDATE $tab SET $set WHERE " . some(),
		"UPDATE $tab SET $set WHERE " . some(),
		"UPDATE $tab SET k = k + " . pick(1, 1000, -1000) . ' WHERE ' . some(),
		"DELETE FROM $tab WHERE " . some(),
		"DO \$\$BEGIN FOR i IN 1 .. 60 LOOP UPDATE $tab SET a = i % 3, c = nullif(c, i % 2) WHERE k = $from; END LOOP; END\$\$",
		"DO \$\$BEGIN UPDATE $tab SET $set WHERE " . some() . "; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN DELETE FROM $tab WHERE k = $from; END\$\$",
		"SELECT count(*) FROM (SELECT * FROM $tab WHERE " . some() . ' FOR UPDATE) x');
}

sub upkeep
{
	return 'SELECT rose.' . pick('spill', 'spill', 'merge') . '(' . pick('index', 'tab') . ') FROM (SELECT * FROM expected ORDER BY random() LIMIT 1) x';
}

# A transaction, or what is done outside of one.
sub transaction
{
	my @do;

	return pick(change(), change(), upkeep(), "SELECT compare('alone')") if rand() < 0.4;
	push @do, 'BEGIN' . pick('', '', ' ISOLATION LEVEL REPEATABLE READ'), 'SAVEPOINT s';
	for (1 .. 1 + rand 6)
	{
		push @do, rand() < 0.2 ? pick('SAVEPOINT s', 'ROLLBACK TO s', 'RELEASE s') : rand() < 0.2 ? "SELECT compare('within')" : change();
	}
	if (rand() < 0.15)
	{
		$gid++;
		push @do, "PREPARE TRANSACTION '$round.$gid'", upkeep(), pick('COMMIT', 'ROLLBACK') . " PREPARED '$round.$gid'";
	}
	else
	{
		push @do, pick('COMMIT', 'COMMIT', 'ROLLBACK');
	}
	return @do;
}

sub start_session
{
	my ($number, $script) = @_;
	my %session = (out => "$files/out.$round.$number");

	append_to_file("$files/in.$round.$number", $script);
	$session{run} = IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('postgres'), '-f', "$files/in.$round.$number" ], '>', $session{out}, '2>&1');
	return \%session;
}

# Its end, and what it has found; other errors are those of statements that meet each other.
sub end_session
{
	my ($session, $may_die) = @_;
	my $output;

	$session->{run}->finish;
	$output = slurp_file($session->{out});
	my @bad = grep { /MISMATCH|XX\d\d\d|internal|could not|no room|corrupt|PANIC/ && !/could not (obtain|serialize|receive)/ } split /\n/, $output;
	is(join("\n", @bad[ 0 .. ($#bad > 4 ? 4 : $#bad) ]), '', "round $round: nothing wrong");
	like($output, qr/done$/, '... to the end') if !$may_die;
	return;
}

for (1 .. $rounds)
{
	my @sessions;
	my $reader = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT compare('old snapshot');\n" . "SELECT pg_sleep(0.3); SELECT compare('old snapshot');\n" x 4 . "COMMIT;\n";

	$round++;
	for my $number (1 .. $sessions)
	{
		my @script = map { "$_;" } map { transaction() } 1 .. $steps / 4;

		push @sessions, start_session($number, "\\set VERBOSITY verbose\n" . pick('', "\\set ON_ERROR_ROLLBACK on\n") . join("\n", @script) . "\nROLLBACK;\nSELECT 'done';\n");
	}
	push @sessions, start_session('r', $reader x 3 . "SELECT 'done';\n");
	if ($round == $rounds)
	{
		sleep 2;
		crash_and_restart($node);
	}
	end_session($_, $round == $rounds) for @sessions;
	sql("ROLLBACK PREPARED '$_'") for split /\n/, sql('SELECT gid FROM pg_prepared_xacts');
	agree("round $round: all agrees in the end");
	sql('SELECT rose.spill(index), rose.spill(tab) FROM expected');
	agree("round $round: ... spilled");
	sql('SELECT rose.merge(index) FROM expected');
	agree("round $round: ... merged");
	is(sql('SELECT sum((SELECT count(*) FROM rose.check(index)) + (SELECT count(*) FROM rose.check(tab))) FROM expected'), 0, "round $round: rose.check");
}

done_testing();
