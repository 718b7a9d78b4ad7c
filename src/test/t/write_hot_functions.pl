# A key that one transaction writes again and again from functions, triggers and subtransactions.
#
# Random steps are done to a rose and a heap table alike, in one session, and both have to answer the same. What they are
# about is who may still look at a version that the transaction has replaced: expressions of functions that call
# functions that write, each with a snapshot that nobody tells of; cursors of all kinds, of the client and in functions;
# triggers before, after and deferred; actions of foreign keys; what exceptions and savepoints bring back. Then
# counts: whatever way thousands of updates of a key come, few versions stay. Last, who calls triggers without a query.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memtables' if $ENV{ROSE_STANDIN};

seed_random('HOT_SEED');
my $node = rose_node('hotf', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'wal_level = logical');

sub sql { return $node->safe_psql('postgres', $_[0]) }

my %am = (r => 'rose', h => 'heap');

# T stands for the table, T_ for what belongs to it.
sub for_table
{
	my ($table, $text) = @_;
	return $text =~ s/\bT_(\w+)/${table}_$1/gr =~ s/\bT\b/$table/gr;
}

my $functions = <<'SQL';
CREATE FUNCTION T_up(k int) RETURNS bigint LANGUAGE plpgsql AS 'DECLARE x bigint; BEGIN UPDATE T SET v = v + 1 WHERE id = k RETURNING v INTO x; RETURN x; END';
CREATE FUNCTION T_two(k int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN UPDATE T SET v = v + 1 WHERE id = k; UPDATE T SET v = v + 1 WHERE id = k; RETURN (SELECT v FROM T WHERE id = k); END';
CREATE FUNCTION T_get(k int) RETURNS bigint STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT v FROM T WHERE id = k); END';
CREATE FUNCTION T_sum() RETURNS bigint STABLE LANGUAGE plpgsql AS 'DECLARE x bigint; BEGIN SELECT sum(v) INTO x FROM T; RETURN x; END';
CREATE FUNCTION T_gets(k int) RETURNS bigint STABLE LANGUAGE sql AS 'SELECT v FROM T WHERE id = k';
CREATE FUNCTION T_ups(k int) RETURNS bigint LANGUAGE sql AS 'UPDATE T SET v = v + 1 WHERE id = k; UPDATE T SET v = v + 1 WHERE id = k RETURNING v';
CREATE FUNCTION T_upsget(k int) RETURNS SETOF bigint LANGUAGE sql AS 'UPDATE T SET v = v + 1 WHERE id = k; SELECT v FROM T WHERE id <= k ORDER BY id';
CREATE FUNCTION T_mix(k int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE x text; y text := '';
BEGIN
	FOR i IN 1..3 LOOP
		UPDATE T SET v = v + 1 WHERE id = k;
		x := T_up(k) || ',' || T_get(k) || ',' || T_two(k) || ',' || T_get(k) || ',' || T_up(k) || ',' || T_sum();
		y := y || ' ' || x;
		PERFORM T_up(k), T_get(k), T_two(k), T_gets(k);
		IF T_up(k) > T_get(k) AND T_two(k) > 0 AND T_get(k) IS NOT NULL THEN y := y || '!'; END IF;
	END LOOP;
	RETURN y || T_get(k) || '=' || T_up(k) || T_ups(k) || '=' || T_gets(k);
END $$;
CREATE FUNCTION T_nest(k int, d int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE x text;
BEGIN
	UPDATE T SET v = v + 1 WHERE id = k;
	IF d = 0 THEN RETURN T_up(k) || '/' || T_get(k); END IF;
	BEGIN
		x := T_get(k) || ':' || T_up(k) || ':' || T_nest(k, d - 1) || ':' || T_get(k) || ':' || T_up(k);
		IF d % 2 = 0 THEN RAISE division_by_zero; END IF;
	EXCEPTION WHEN division_by_zero THEN
		UPDATE T SET v = v + 100 WHERE id = k;
		x := 'caught ' || T_up(k) || T_get(k);
	END;
	UPDATE T SET v = v + 1 WHERE id = k;
	RETURN x || T_nest(k, d - 1) || T_get(k);
END $$;
CREATE FUNCTION T_loop(k int, n int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..n LOOP UPDATE T SET v = v + 1 WHERE id = k; END LOOP; RETURN T_get(k); END';
CREATE FUNCTION T_while(k int, n int) RETURNS bigint LANGUAGE plpgsql AS 'DECLARE i int := 0; s bigint := T_get(k); BEGIN WHILE T_up(k) < s + n LOOP i := i + 1; END LOOP; RETURN i; END';
CREATE FUNCTION T_tries(k int, n int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		BEGIN
			UPDATE T SET v = v + 1 WHERE id = k;
			BEGIN
				UPDATE T SET v = v + 10 WHERE id = k;
				IF i % 3 = 0 THEN RAISE division_by_zero; END IF;
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
			IF i % 4 = 0 THEN RAISE division_by_zero; END IF;
		EXCEPTION WHEN division_by_zero THEN UPDATE T SET v = v + 1000 WHERE id = k;
		END;
	END LOOP;
	RETURN T_get(k);
END $$;
CREATE FUNCTION T_cursors(k int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM T ORDER BY id; e refcursor; x record; y text := '';
BEGIN
	OPEN c; FETCH c INTO x; y := y || x;
	UPDATE T SET v = v + 1 WHERE id = k;
	OPEN e FOR SELECT v FROM T WHERE id = k;
	UPDATE T SET v = v + 1 WHERE CURRENT OF c;
	PERFORM T_loop(k, 3);
	FETCH LAST FROM c INTO x; y := y || x; FETCH e INTO x; y := y || x; FETCH FIRST FROM c INTO x; y := y || x;
	CLOSE c;
	FOR x IN SELECT id, v FROM T ORDER BY id LOOP
		UPDATE T SET v = v + x.v % 10 WHERE id = k; y := y || x || T_get(x.id) || T_up(k);
	END LOOP;
	RETURN y;
EXCEPTION WHEN feature_not_supported OR invalid_cursor_state THEN RETURN y || SQLSTATE;
END $$;
CREATE FUNCTION T_gone(k int, n int) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..n LOOP DELETE FROM T WHERE id = k; INSERT INTO T VALUES (k, i, ''back''); UPDATE T SET v = v + 1 WHERE id = k; END LOOP; RETURN T_get(k); END';
CREATE FUNCTION T_dynamic(k int) RETURNS bigint LANGUAGE plpgsql AS 'DECLARE x bigint; BEGIN FOR i IN 1..3 LOOP EXECUTE format(''UPDATE T SET v = v + %s WHERE id = $1 RETURNING v'', coalesce(T_up(k), 1) % 3) INTO x USING k; END LOOP; RETURN x + T_get(k); END';
CREATE PROCEDURE T_calls(k int, INOUT x bigint) LANGUAGE plpgsql AS 'BEGIN UPDATE T SET v = v + x WHERE id = k; x := T_up(k) + T_get(k); IF x % 3 = 0 THEN CALL T_calls(k, x); END IF; END';
PREPARE T_prepared AS UPDATE T SET v = v + 1 WHERE id = $1 RETURNING v, T_get($1);
SQL

# What a round's tables have beside a key.
my $note = 'CREATE TABLE T_seen (n serial, what text, old bigint, new bigint);
CREATE FUNCTION T_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO T_seen (what, old, new) VALUES (TG_NAME, OLD.v, NEW.v); UPDATE T_count SET n = n + 1; IF TG_WHEN = \'BEFORE\' THEN RETURN NEW; END IF; RETURN NULL; END $$;
CREATE TABLE T_count (id int PRIMARY KEY, n int) USING AM; INSERT INTO T_count VALUES (1, 0);';
my @kinds = (
	'', '',
	"$note CREATE TRIGGER a AFTER UPDATE ON T FOR EACH ROW EXECUTE FUNCTION T_note()",
	"$note CREATE TRIGGER b BEFORE UPDATE ON T FOR EACH ROW EXECUTE FUNCTION T_note()",
	"$note CREATE CONSTRAINT TRIGGER d AFTER UPDATE ON T DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION T_note()",
	"$note CREATE TABLE T_child (id int PRIMARY KEY, t int REFERENCES T ON UPDATE CASCADE ON DELETE CASCADE, v bigint) USING AM; INSERT INTO T_child SELECT g, g, 0 FROM generate_series(1, 3) g;
	CREATE TRIGGER c AFTER UPDATE ON T_child FOR EACH ROW EXECUTE FUNCTION T_note()",
	"CREATE TABLE T_child (id int PRIMARY KEY, t int REFERENCES T DEFERRABLE INITIALLY DEFERRED, v bigint) USING AM; INSERT INTO T_child SELECT g, g, 0 FROM generate_series(1, 3) g");

my @open;
my $savepoints = 0;
my $names = 0;
my $kind;
my $calm;		# no row is locked in one subtransaction and changed in another that fails: heap has an assertion against it
my @plain = (
	'UPDATE T SET v = v + 1 WHERE id = K', 'UPDATE T SET v = v + 1 WHERE id = K', 'SELECT T_mix(K)', 'SELECT T_nest(K, 3)',
	'SELECT T_loop(K, 5), (SELECT v FROM T WHERE id = K)', 'SELECT T_while(K, 4)', 'SELECT T_tries(K, 6)', 'SELECT T_cursors(K)',
	'SELECT T_gone(K, 3)', 'SELECT T_dynamic(K)', 'CALL T_calls(K, 2)', 'EXECUTE T_prepared(K)',
	'SELECT T_up(K), T_get(K), T_two(K), T_gets(K), T_upsget(K), (SELECT sum(v) FROM T) FROM generate_series(1, 3)',
	'SELECT g, T_ups(K), T_up(K), T_get(K) FROM generate_series(1, 3) g',
	'UPDATE T SET v = v + T_up(K % 4 + 1) + T_get(K % 4 + 1) WHERE id = K RETURNING v, T_get(K)',
	'WITH u AS (UPDATE T SET v = v + T_get(K) WHERE id = K RETURNING id, v) SELECT u.id, u.v, T_up(K), T_get(K) FROM u ORDER BY 1',
	"DO 'BEGIN FOR i IN 1..4 LOOP UPDATE T SET v = v + 1 WHERE id = K; PERFORM T_mix(K); END LOOP; END'",
	'INSERT INTO T VALUES (K, K) ON CONFLICT (id) DO UPDATE SET v = T.v + T_up(5) RETURNING v',
	'DELETE FROM T WHERE id = K RETURNING v, T_up(K)', 'UPDATE T SET id = id + 10 WHERE id = K RETURNING T_get(K)', 'UPDATE T SET id = id - 10 WHERE id = K + 10',
	'SELECT * FROM T ORDER BY id', 'SELECT * FROM T ORDER BY id DESC');

sub step
{
	my $k = int(random_between(1, 5));
	my $what = int(random_between(0, 34));

	if ($what < 2)
	{
		push @open, 'c' . ++$names;
		return "DECLARE T_$open[-1] SCROLL CURSOR " . (rand() < 0.3 ? 'WITH HOLD ' : '') . 'FOR SELECT id, v, T_get(id) FROM T ORDER BY id';
	}
	return "FETCH 2 FROM T_$open[rand @open]" if $what == 2 && @open;
	return "FETCH LAST FROM T_$open[rand @open]; FETCH FIRST FROM T_c" =~ s/T_c$/T_$open[0]/r if $what == 3 && @open;
	return 'CLOSE T_' . splice(@open, rand @open, 1) if $what == 4 && @open > 2;
	return 'SAVEPOINT s' . ++$savepoints if $what == 5 && !$calm;
	return 'UPDATE T_child SET v = v + 1 WHERE id = ' . ($k % 3 + 1) if $what == 6 && $kind =~ /T_child/;
	return 'SELECT what, old, new FROM T_seen ORDER BY n DESC LIMIT 7; SELECT n FROM T_count' if $what == 7 && $kind =~ /T_seen/;
	return 'SET CONSTRAINTS ALL ' . (rand() < 0.5 ? 'IMMEDIATE' : 'DEFERRED') if $what == 8 && $kind =~ /DEFERR/;
	my @wild = grep { $calm ? !/_nest|_tries|_cursors/ : !/ON CONFLICT/ } @plain;
	return $wild[rand @wild] =~ s/\bK\b/$k/gr;
}

sub script
{
	my @script = (rand() < 0.5 && !$calm ? '\set ON_ERROR_ROLLBACK on' : '\set ON_ERROR_ROLLBACK off');
	@open = ();
	$savepoints = 0;
	push @script, 'BEGIN;';
	foreach my $n (1 .. 40)
	{
		push @script, step() . ';';
		if ($savepoints > 0 && rand() < 0.08)
		{
			my $to = int(random_between(1, $savepoints));
			push @script, (rand() < 0.5 ? 'ROLLBACK TO' : 'RELEASE') . " s$to;";
			@open = ();
			$savepoints = $to - ($script[-1] =~ /RELEASE/ ? 1 : 0);
		}
		push @script, "SELECT FROM rose.spill('r');" if rand() < 0.03;
	}
	push @script, map { "FETCH FIRST FROM T_$_; FETCH ALL FROM T_$_;" } @open;
	push @script, (rand() < 0.8 ? 'COMMIT;' : 'ROLLBACK;'), 'SELECT * FROM T ORDER BY id;';
	push @script, 'SELECT what, old, new FROM T_seen ORDER BY n;' if $kind =~ /T_seen/;
	return @script;
}

my $rounds = $ENV{HOT_ROUNDS} || 20;
my ($equal, $different) = (0, '');
foreach my $round (1 .. $rounds)
{
	$kind = $kinds[ ($round - 1) % @kinds ];
	$calm = $kind =~ /BEFORE UPDATE|REFERENCES/ || $round % 7 == 1;
	my $key = $round % 5 == 0 && $kind eq '' ? 'id int, v bigint, w text, CHECK (id > 0)' : 'id int PRIMARY KEY, v bigint, w text';
	my @script = script();
	# two rows of one id have no order
	@script = grep { !/ON CONFLICT|SET id = id/ } @script if $key !~ /PRIMARY/;
	my @out;
	foreach my $table ('r', 'h')
	{
		my $made = "SET client_min_messages = error; DROP TABLE IF EXISTS T, T_child, T_seen, T_count CASCADE; DROP FUNCTION IF EXISTS T_note;
CREATE TABLE T ($key) USING AM; INSERT INTO T SELECT g, g, 'w' FROM generate_series(1, 5) g; $kind;" =~ s/\bAM\b/$am{$table}/gr;
		$made .= $round == 1 ? $functions : ($functions =~ s/.*(?=^PREPARE)//smr);
		my $text = join "\n", $made, @script;
		my ($rc, $out, $err) = $node->psql('postgres', for_table($table, $text), on_error_stop => 0);
		push @out, "$out\n$err" =~ s/\b[rh]_/T_/gr =~ s/(relation|table|ON) "?[rh]\b"?/$1 T/gr =~ s/psql:<stdin>:\d+: //gr =~ s/LINE \d+:.*//gr
		  =~ s/\b(FROM|UPDATE|INTO|ONLY) ("public"\.)?"?[rh]"?\b/$1 T/gr =~ s/\b[rh]\./T./gr =~ s/\^//gr;
	}
	if ($out[0] eq $out[1])
	{
		$equal++;
	}
	elsif ($different eq '')
	{
		$different = join "\n", "round $round: $kind", @script, 'rose:', $out[0], 'heap:', $out[1];
	}
	$different ||= sql("SELECT c::text FROM rose.check('r') c");
}
is($equal, $rounds, 'the same as heap, step by step');
is($different, '', 'and nothing is wrong with the table');

# ---- a statement that meets a row again ----

# It has changed the row itself, and a function that it calls has done so often since.  Heap passes the row over.
foreach my $statement (
	'UPDATE T SET v = T.v + b.x FROM (VALUES (10), (10)) b (x) WHERE T.id = 1 RETURNING T.v, T_up(1)',
	'UPDATE T SET v = T.v + b.x FROM (VALUES (10), (10)) b (x) WHERE T.id = 1 RETURNING T.v, T_loop(1, 5)',
	'DELETE FROM T USING (VALUES (10), (10)) b (x) WHERE T.id = 1 RETURNING T.v, T_gone(1, 3)',
	'WITH a AS (UPDATE T SET v = v + 1 WHERE id = 1 RETURNING T_loop(1, 5)), b AS (UPDATE T SET v = v + 100 WHERE id = 1 RETURNING id) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)',
	'UPDATE T SET v = T.v + b.x + T_loop(1, 5) FROM (VALUES (10), (10)) b (x) WHERE T.id = 1')
{
	my @out;
	foreach my $table ('r', 'h')
	{
		my $made = "SET client_min_messages = error; DROP TABLE IF EXISTS T, T_child, T_seen, T_count CASCADE;
CREATE TABLE T (id int PRIMARY KEY, v bigint, w text) USING $am{$table}; INSERT INTO T SELECT g, g, 'w' FROM generate_series(1, 3) g; BEGIN; UPDATE T SET v = v + 1; SAVEPOINT s;";
		my ($rc, $out, $err) = $node->psql('postgres', for_table($table, "$made $statement; ROLLBACK TO s; $statement; SELECT id, v FROM T ORDER BY id"), on_error_stop => 0);
		push @out, "$out\n$err" =~ s/psql:<stdin>:\d+: //gr =~ s/\b[rh]_/T_/gr;
	}
	is($out[0], $out[1], $statement);
}

# ---- how many versions stay ----

sub ways
{
	my ($times) = @_;
	return (
		'a loop' => "DO 'BEGIN FOR i IN 1..$times LOOP UPDATE m SET v = v + 1 WHERE id = 1; END LOOP; END'",
		'function in an expression' => "DO 'DECLARE x bigint; BEGIN FOR i IN 1..$times LOOP x := m_up(1); END LOOP; END'",
		'function in a query' => "SELECT count(m_up(1)) FROM generate_series(1, $times)",
		'PERFORM' => "DO 'BEGIN FOR i IN 1..$times LOOP PERFORM m_up(1); END LOOP; END'",
		'a trigger' => "INSERT INTO m_log SELECT g FROM generate_series(1, $times) g",
		'subtransactions that end well' => "DO 'BEGIN FOR i IN 1..$times LOOP BEGIN UPDATE m SET v = v + 1 WHERE id = 1; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END'",
		'subtransactions that fail' => "DO 'BEGIN FOR i IN 1..$times LOOP BEGIN UPDATE m SET v = v + 1 WHERE id = 1; PERFORM 1 / (i % 2); EXCEPTION WHEN division_by_zero THEN UPDATE m SET v = v + 1 WHERE id = 1; END; END LOOP; END'",
		'deletions and insertions' => "DO 'BEGIN FOR i IN 1..$times LOOP DELETE FROM m WHERE id = 1; INSERT INTO m VALUES (1, i, NULL); END LOOP; END'",
		'prepared statements' => 'PREPARE p AS UPDATE m SET v = v + 1 WHERE id = 1; ' . 'EXECUTE p; ' x $times,
		'statements and savepoints' => 'SAVEPOINT s; UPDATE m SET v = v + 1 WHERE id = 1; RELEASE s; ' x $times,
		'a table with a trigger for each row' => "DO 'BEGIN FOR i IN 1..$times LOOP UPDATE m_noted SET v = v + 1 WHERE id = 1; END LOOP; END'",
		'a table that others refer to' => "DO 'BEGIN FOR i IN 1..$times LOOP UPDATE m_parent SET v = v + 1 WHERE id = 1; END LOOP; END'",
		'without key' => "DO 'BEGIN FOR i IN 1..$times LOOP UPDATE m_bare SET v = v + 1 WHERE id = 1; END LOOP; END'");
}

sql(<<'SQL');
CREATE TABLE m (id int PRIMARY KEY, v bigint, w text) USING rose;
CREATE TABLE m_noted (LIKE m INCLUDING ALL) USING rose;
CREATE TABLE m_parent (LIKE m INCLUDING ALL) USING rose;
CREATE TABLE m_child (id int PRIMARY KEY REFERENCES m_parent) USING rose;
CREATE TABLE m_bare (id int, v bigint, w text) USING rose;
CREATE TABLE m_log (id int);
CREATE FUNCTION m_up(k int) RETURNS bigint LANGUAGE plpgsql AS 'DECLARE x bigint; BEGIN UPDATE m SET v = v + 1 WHERE id = k RETURNING v INTO x; RETURN x; END';
CREATE FUNCTION m_note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM m_up(1); RETURN NULL; END';
CREATE TRIGGER note AFTER INSERT ON m_log FOR EACH ROW EXECUTE FUNCTION m_note();
CREATE FUNCTION m_look() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.v <> OLD.v + 1 THEN RAISE EXCEPTION ''%, %'', OLD.v, NEW.v; END IF; RETURN NULL; END';
CREATE TRIGGER look AFTER UPDATE ON m_noted FOR EACH ROW EXECUTE FUNCTION m_look();
SQL

# The rows of all tables after so many updates of one; where: which components count.
sub rows_after
{
	my ($change, $where) = @_;
	sql("TRUNCATE m, m_noted, m_parent, m_child, m_bare; INSERT INTO m SELECT g, 0, 'w' FROM generate_series(1, 3) g;
		INSERT INTO m_noted TABLE m; INSERT INTO m_parent TABLE m; INSERT INTO m_bare TABLE m; INSERT INTO m_child SELECT id FROM m");
	my $out = sql("BEGIN; $change; SELECT 'rows', coalesce(sum(rows), 0) FROM rose.stat_components WHERE relname ~ '^m(_noted|_parent|_bare)?\$' AND $where; COMMIT");
	my ($rows) = $out =~ /^rows\|(\d+)$/m;
	return $rows;
}

# So many that memory is spilled meanwhile.
my %often = ways(3_000);
foreach my $way (sort keys %often)
{
	cmp_ok(rows_after($often{$way}, 'true'), '<', 60, "$way: versions that stay");
	is(sql("SELECT c::text FROM unnest('{m,m_noted,m_parent,m_bare}'::regclass[]) t, rose.check(t) c"), '', "$way: nothing is wrong");
}

# So few that it is not: of the key there are the version that was there before, the newest one, and the one before that, which the statement saw that has
# written it. (A query around it all might have written the first one; and of deletions the oldest and the newest stay.) And the other rows, and the
# locks of those that m_child refers to.
my %few = ways(200);
my %stay = (map({ $_ => 2 } keys %few), 'function in a query' => 3, 'deletions and insertions' => 3);
foreach my $way (sort keys %few)
{
	is(rows_after($few{$way}, "kind = 'memtable'"), 15 + $stay{$way}, "$way: versions in memory");
}

# Nor does the planner take what has gone for rows. (What is small and was never analyzed it takes for a new table, as in heap.)
sql("TRUNCATE m; INSERT INTO m SELECT g, 0, 'w' FROM generate_series(1, 5) g; ANALYZE m; DO 'BEGIN FOR i IN 1..1000 LOOP UPDATE m SET v = v + 1 WHERE id = 1 + i % 5; END LOOP; END'");
my ($estimate) = sql('EXPLAIN SELECT FROM m') =~ /rows=(\d+)/;
cmp_ok($estimate, '<', 60, 'the planner counts rows, and not how often they were written');

# ---- versions that are asked for by name ----

# A trigger that has still to look at a version, when a function has replaced it so often that memory was spilled.
sql(<<'SQL');
CREATE TABLE told (n serial, old int, new int);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO told (old, new) VALUES (OLD.p, NEW.p); RETURN NULL; END';
CREATE TABLE q (id int PRIMARY KEY, p int, v int) USING rose;
INSERT INTO q SELECT g, g, 0 FROM generate_series(1, 3) g;
CREATE TRIGGER tell AFTER UPDATE ON q FOR EACH ROW WHEN (OLD.p <> NEW.p) EXECUTE FUNCTION tell();
CREATE FUNCTION q_often(k int) RETURNS int LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..6000 LOOP UPDATE q SET v = i WHERE id = k; END LOOP; RETURN k; END';
SQL
sql('UPDATE q SET p = p + 10 WHERE id <= 2 RETURNING q_often(id)');
is(sql('SELECT string_agg(old || $$>$$ || new, $$ $$ ORDER BY n) FROM told'), '1>11 2>12', 'a trigger sees the version that the statement has written');

# What a foreign key has changed, and a trigger of the same statement again and again, before that of the change fires.
sql(<<'SQL');
TRUNCATE told;
CREATE TABLE p (id int PRIMARY KEY, v int) USING rose;
INSERT INTO p SELECT g, 0 FROM generate_series(1, 3) g;
UPDATE q SET p = id, v = 0;
TRUNCATE told;
ALTER TABLE q ADD FOREIGN KEY (p) REFERENCES p ON UPDATE CASCADE;
CREATE FUNCTION p_often() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..6000 LOOP UPDATE q SET v = i WHERE id = OLD.id; END LOOP; RETURN NULL; END';
CREATE TRIGGER zz AFTER UPDATE ON p FOR EACH ROW EXECUTE FUNCTION p_often();
SQL
sql('UPDATE p SET id = id + 10 WHERE id = 2');
is(sql('SELECT string_agg(old || $$>$$ || new, $$ $$ ORDER BY n) FROM told'), '2>12', 'and the version that a foreign key has written');
is(sql('SELECT p, v FROM q WHERE id = 2'), '12|6000', 'which was changed often since');

# Deferred triggers run under one snapshot that nothing but the functions that only read may use.
sql(<<'SQL');
CREATE TABLE s (id int PRIMARY KEY, v int) USING rose;
INSERT INTO s VALUES (1, 0);
CREATE TABLE x (id int);
CREATE FUNCTION x_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..4 LOOP UPDATE s SET v = v + 1; END LOOP; RETURN NULL; END';
CREATE FUNCTION x_read() RETURNS trigger STABLE LANGUAGE plpgsql AS 'BEGIN PERFORM set_config(''my.seen'', (SELECT v FROM s)::text, false); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER a AFTER INSERT ON x DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION x_change();
CREATE CONSTRAINT TRIGGER b AFTER INSERT ON x DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION x_read();
SQL
is(sql("BEGIN; UPDATE s SET v = 10; INSERT INTO x VALUES (1); COMMIT; SELECT current_setting('my.seen'), v FROM s"), '10|14', 'what a deferred trigger sees that only reads');

# ---- versions on disk ----

# What a transaction keeps of a key may be in private runs. Its next change of the key does not read all of it.
sql(<<'SQL');
CREATE TABLE wide (id int PRIMARY KEY, v int, w text) USING rose;
INSERT INTO wide SELECT g, 0, 'w' FROM generate_series(1, 100) g;
CREATE CONSTRAINT TRIGGER tell AFTER UPDATE ON wide DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION m_look();
SQL
my $explained = sql("BEGIN; DO 'BEGIN FOR i IN 1..2000 LOOP UPDATE wide SET v = v + 1, w = (SELECT string_agg(md5(random()::text), '''') FROM generate_series(1, 20)) WHERE id = 1; END LOOP; END';
	SELECT rose.spill('wide'); UPDATE wide SET v = v + 1 WHERE id = 1;
	SELECT 'rows', sum(rows) FROM rose.stat_components WHERE relname = 'wide' AND kind = 'private run';
	EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) UPDATE wide SET v = v + 1 WHERE id = 1; COMMIT");
like($explained, qr/^rows\|(1\d\d\d|2000)$/m, 'versions that a deferred trigger wants are in a private run');
my ($buffers) = $explained =~ /Buffers: ([^\n]*)/;
my $pages = 0;
$pages += $1 while $buffers =~ /(?:hit|read)=(\d+)/g;
cmp_ok($pages, '<', 40, 'an update reads a few pages of them');

# ---- PostgreSQL's own apply worker ----

# It has no query: it writes a row, and then its triggers are called, one after the other. What the first does to the row
# must leave the second one the row as it was written.
sql($_) foreach 'CREATE DATABASE origin', 'CREATE TABLE applied (id int PRIMARY KEY, v int) USING rose', <<'SQL';
CREATE TABLE seen (id int, written int, now int);
CREATE FUNCTION change_it() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN FOR i IN 1..3 LOOP UPDATE public.applied SET v = v + 1 WHERE id = NEW.id; END LOOP; RETURN NULL; END';
CREATE FUNCTION note_it() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN INSERT INTO public.seen SELECT NEW.id, NEW.v, v FROM public.applied WHERE id = NEW.id; RETURN NULL; END';
CREATE TRIGGER a AFTER INSERT ON applied FOR EACH ROW EXECUTE FUNCTION change_it();
CREATE TRIGGER b AFTER INSERT ON applied FOR EACH ROW EXECUTE FUNCTION note_it();
ALTER TABLE applied ENABLE ALWAYS TRIGGER a, ENABLE ALWAYS TRIGGER b;
SQL
$node->safe_psql('origin', 'CREATE TABLE applied (id int PRIMARY KEY, v int); CREATE PUBLICATION p FOR TABLE applied');
$node->safe_psql('origin', "SELECT pg_create_logical_replication_slot('native', 'pgoutput')");
sql('CREATE SUBSCRIPTION native CONNECTION $$' . $node->connstr('origin') . "\$\$ PUBLICATION p WITH (create_slot = false, slot_name = 'native', copy_data = false)");
$node->safe_psql('origin', 'INSERT INTO applied VALUES (1, 10), (2, 20)');
$node->poll_query_until('postgres', "SELECT (SELECT count(*) FROM seen) = 2 OR (SELECT apply_error_count FROM pg_stat_subscription_stats WHERE subname = 'native') > 0")
  or die 'nothing is applied';
is(sql('SELECT a.*, s.written, s.now FROM applied a LEFT JOIN seen s USING (id) ORDER BY 1'), "1|13|10|13\n2|23|20|23", "triggers of rows that PostgreSQL's own subscription writes");
sql('DROP SUBSCRIPTION native');

done_testing();
