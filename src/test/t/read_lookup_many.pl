# Rows that are looked up together, for scans of secondary indexes. First, below SQL: the lookup of many keys against lookups of single ones, over all
# kinds of sources. Then SQL: walks of scroll cursors over indexes, in all directions, while rows are changed by the same transaction and by others,
# and tables and indexes are spilled and merged; the same on heap. Environment:
#
#   MANY_SEED	repeat a run
#   MANY_WALKS	default 12
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $seed = seed_random('MANY_SEED');
my $walks = $ENV{MANY_WALKS} // 12;
my $node = rose_node('lookup_many', 'autovacuum = off', 'fsync = off', 'max_prepared_transactions = 5', 'enable_seqscan = off',
	'enable_bitmapscan = off', 'enable_sort = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# ---- many keys against single ones ----

sql(<<'SQL');
CREATE FUNCTION tree_lookup_many(regclass, text) RETURNS text LANGUAGE C STRICT AS 'rose_server_trees';
CREATE TABLE t (k int PRIMARY KEY, a int, b text, c numeric) USING rose;
CREATE TABLE u (b text COLLATE "C", x bool, k int, a int, PRIMARY KEY (b, k)) USING rose;
CREATE TABLE v (a int, b text, c numeric) USING rose;
CREATE TABLE plan (tab text, query text) USING heap;
INSERT INTO plan VALUES
	('t', 'SELECT k FROM generate_series(-9, 3100) k ORDER BY hashint4(k)'),
	('u', 'SELECT ''b'' || k % 13, k FROM generate_series(-9, 3100) k ORDER BY hashint4(k)'),
	('v', 'SELECT k FROM generate_series(-9::bigint, 9100) k ORDER BY hashint8(k)');
SQL

# Everything agrees; and so many rows at least are found together in the three tables.
sub together
{
	my ($what, $least, $before) = @_;
	my $said = sql(($before // '') . "SELECT string_agg(tree_lookup_many(tab::regclass, query), ',' ORDER BY tab) FROM plan");
	like($said, qr/^\d+ \d+,\d+ \d+,\d+ \d+$/, "$what: what is found together is what is found one by one");
	my $found = 0;
	$found += $_ for $said =~ /\d+ (\d+)/g;
	cmp_ok($found, '>=', $least, "... $found rows of all tables");
	is($found, 0, '... none') if $least == 0;
	return;
}

sub all_tables
{
	my ($statement) = @_;
	sql(join ';', map { my $s = $statement; $s =~ s/\bTAB\b/$_/g; $s } qw(t u v));
	return;
}

sub settle { all_tables("SELECT rose.spill('TAB')"); all_tables("SELECT rose.merge('TAB')") if $_[0]; return }

together('empty tables', 0);
sql(q{INSERT INTO t SELECT i, i, 'b' || i, i / 7.0 FROM generate_series(1, 3000) i;
	INSERT INTO u SELECT 'b' || i % 13, i % 2 = 0, i, i FROM generate_series(1, 3000) i;
	INSERT INTO v SELECT i, 'b' || i, i / 7.0 FROM generate_series(1, 3000) i});
together('rows in memory', 0);
settle();
together('runs', 9000);
settle(1);
together('C2', 9000);
all_tables("UPDATE TAB SET a = a + 1 WHERE a % 10 = 0");
together('C2, with some newer rows in memory', 7000);
my $reader = RoseTest::Session->new($node);
$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
all_tables("DELETE FROM TAB WHERE a % 10 = 5");
settle();
together('C2 and runs, and tombstones', 7000);
my $old = $reader->run("SELECT string_agg(tree_lookup_many(tab::regclass, query), ',' ORDER BY tab) FROM plan");
like($old, qr/^\d+ \d+,\d+ \d+,\d+ \d+$/, 'an older snapshot');
all_tables("UPDATE TAB SET b = b WHERE a % 4 = 0");
settle();
all_tables("UPDATE TAB SET a = a + 1000 WHERE a % 7 = 0");
settle();
together('more runs', 6000);
$old = $reader->run("SELECT string_agg(tree_lookup_many(tab::regclass, query), ',' ORDER BY tab) FROM plan");
like($old, qr/^\d+ \d+,\d+ \d+,\d+ \d+$/, 'the older snapshot after that');
$reader->run('COMMIT');
$reader->end;
all_tables("ALTER TABLE TAB ADD d text DEFAULT 'missing', ADD e int");
together('columns that rows do not have', 6000);
all_tables("ALTER TABLE TAB DROP d; UPDATE TAB SET e = 7 WHERE a % 9 = 0");
settle();
together('... and that no row has', 6000);
sql("BEGIN; UPDATE $_ SET a = -a WHERE a % 3 = 0; SELECT rose.spill('$_'); PREPARE TRANSACTION 'p$_'") for qw(t u v);
together('runs of transactions in progress', 3000);
sql("ROLLBACK PREPARED 'p$_'") for qw(t u v);
together('... rolled back', 3000);
sql("UPDATE t SET b = repeat(k::text, 40000) WHERE k % 11 = 0");
settle();
together('values in overflow pages', 3000);
together('own writes', 3000, 'BEGIN; UPDATE t SET a = 0 WHERE k % 3 = 0; DELETE FROM u WHERE k % 5 = 0; ');
settle(1);
together('all merged', 5000);

# ---- walks ----

sql(<<'SQL');
CREATE FUNCTION walk(tab text, seed float, steps int, col text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
	way text;
	n int;
	said text := '';
BEGIN
	PERFORM setseed(seed);
	r := ROW(NULL::int, NULL::int, NULL::text, NULL::int);
	OPEN c SCROLL FOR EXECUTE format('SELECT k, a, b, w FROM %s WHERE %s BETWEEN %s AND 700 AND w <> 3 ORDER BY %2$s %4$s, k %4$s', tab, col, (random() * 300)::int,
		CASE WHEN random() < 0.4 THEN 'DESC' ELSE '' END);
	FOR i IN 1 .. steps LOOP
		way := (ARRAY['FORWARD', 'BACKWARD'])[1 + (random() < 0.25)::int];
		n := (random() ^ 4 * 400)::int;
		FOR j IN 1 .. n LOOP
			IF way = 'FORWARD' THEN FETCH NEXT FROM c INTO r; ELSE FETCH PRIOR FROM c INTO r; END IF;
			EXIT WHEN NOT FOUND;
			said := md5(said || r::text);
		END LOOP;
		said := said || coalesce(r::text, '-');
		CASE (random() * 7)::int
			WHEN 0 THEN EXECUTE format('UPDATE %s SET a = a + %s WHERE a BETWEEN %s AND %s', tab, (random() * 20)::int, n, n + 9);
			WHEN 1 THEN EXECUTE format('DELETE FROM %s WHERE a BETWEEN %s AND %s', tab, n, n + 3);
			WHEN 2 THEN EXECUTE format('UPDATE %s SET w = %s, b = b || ''.'' WHERE a BETWEEN %s AND %s', tab, n % 5, n * 2, n * 2 + 9);
			WHEN 3 THEN
				IF i > 1 AND FOUND AND r IS NOT NULL THEN
					EXECUTE format('UPDATE %s SET w = w + 1 WHERE k = %s', tab, to_jsonb(r) ->> 'k');
				END IF;
			WHEN 4 THEN
				BEGIN
					EXECUTE format('INSERT INTO %s SELECT -i, %s, ''never mind'', 0 FROM generate_series(1, 9) i', tab, n);
					RAISE EXCEPTION 'never mind';
				EXCEPTION WHEN raise_exception THEN said := said || '!';
				END;
			WHEN 5 THEN EXECUTE format('INSERT INTO %s SELECT i, n, ''new'', 0 FROM generate_series(%s, %s) i, (SELECT %s n) x ON CONFLICT (k) DO UPDATE SET a = excluded.a',
				tab, 100000 + n, 100009 + n, n);
			ELSE NULL;
		END CASE;
	END LOOP;
	CLOSE c;
	RETURN said;
END $$;
CREATE TABLE h (k int PRIMARY KEY, a int, b text, w int) USING heap;
CREATE TABLE r (k int PRIMARY KEY, a int, b text, w int) USING rose;
CREATE INDEX h_a ON h (a, k);
CREATE INDEX r_a ON r (a, k);
CREATE INDEX h_w ON h (w);
CREATE INDEX r_w ON r (w);
CREATE FUNCTION same(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE INDEX h_s ON h (same(a), k);
CREATE INDEX r_s ON r (same(a), k);
SQL
my $rows = "SELECT i, hashint4(i) % 400 + 400, 'b' || i, i % 5 FROM generate_series(1, 4000) i";
sql("INSERT INTO h $rows; INSERT INTO r $rows; ANALYZE h; ANALYZE r");
sql("SELECT rose.spill(x), rose.merge(x) FROM unnest('{r,r_a,r_w,r_s}'::regclass[]) x");
sql('ANALYZE r');
like(sql("EXPLAIN SELECT k, a, b, w FROM r WHERE $_->[0] BETWEEN 5 AND 700 AND w <> 3 ORDER BY $_->[0], k"), qr/Index Scan using $_->[1]/, "$_->[1] is used")
	for ['a', 'r_a'], ['same(a)', 'r_s'];
for my $i (1 .. $walks)
{
	my $part = int(rand 1000) / 1000;
	my %said;
	# by an index that is believed, or by one whose entries the row is asked for; spills and merges beside the walk on rose
	my $column = $i % 4 == 2 ? 'same(a)' : 'a';
	my $other = RoseTest::Session->new($node);
	$other->start(join ';', map { "SELECT rose.spill(x), rose.merge(x) FROM unnest('{r,r_a,r_s}'::regclass[]) x" } 1 .. 3);
	$said{$_} = sql("BEGIN; SELECT walk('$_', $part, 60, '$column'); " . ($i % 3 == 0 ? 'ROLLBACK' : 'COMMIT')) for qw(h r);
	$other->finish;
	$other->end;
	is($said{r}, $said{h}, "walk $i") or diag("MANY_SEED=$seed part $part");
	is(sql('SELECT md5(string_agg(x::text, $$,$$ ORDER BY k)) FROM r x'), sql('SELECT md5(string_agg(x::text, $$,$$ ORDER BY k)) FROM h x'), '... and what it has left');
}
is(sql("SELECT count(*) FROM rose.check('r')"), 0, 'rose.check finds nothing');

# ---- other plans that read rows by an index ----

my %queries = (
	'merge join that goes back' => 'SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off;
		SELECT count(*), sum(x.k + y.k), md5(string_agg(x.b || y.b, $$$$ ORDER BY x.k, y.k)) FROM TAB x JOIN TAB y ON x.a = y.a WHERE x.w = 1 AND y.w > 1',
	'nested loops' => 'SET enable_hashjoin = off; SET enable_mergejoin = off;
		SELECT count(*), sum(y.k), md5(string_agg(y.b, $$$$ ORDER BY x.k, y.k)) FROM TAB x JOIN TAB y ON y.a BETWEEN x.a AND x.a + 3 WHERE x.k < 200',
	'LIMIT in loops' => 'SELECT x.k, y.k, y.b FROM TAB x, LATERAL (SELECT * FROM TAB y WHERE y.a >= x.a AND y.k > x.k ORDER BY y.a, y.k LIMIT x.k % 7) y WHERE x.k < 300 ORDER BY 1, 2',
	'row locks' => 'SELECT k, b FROM TAB WHERE a BETWEEN 100 AND 500 ORDER BY a, k FOR UPDATE',
	'an UPDATE that moves rows ahead' => 'WITH x AS (UPDATE TAB SET a = a + 50 WHERE a > 300 RETURNING k, a) SELECT count(*), sum(k * a::bigint) FROM x',
	'a loop that deletes what it is to read' => 'DO $$DECLARE x record; n int := 0; BEGIN FOR x IN SELECT * FROM TAB WHERE a > 100 ORDER BY a, k LOOP
		n := n + length(x.b); IF x.k % 50 = 0 THEN DELETE FROM TAB WHERE a BETWEEN x.a AND x.a + 20; END IF; END LOOP; INSERT INTO TAB VALUES (-1, n); END$$;
		SELECT a FROM TAB WHERE k = -1',
	'whole rows' => 'SELECT md5(string_agg(x::text, $$,$$)) FROM (SELECT * FROM TAB WHERE a >= 0 ORDER BY a, k) x',
	'rows and their names' => 'SELECT count(*) FROM TAB x WHERE a > 200 AND (SELECT y.k FROM TAB y WHERE y.ctid = x.ctid) = k');
for my $what (sort keys %queries)
{
	my %said;
	for my $tab (qw(h r))
	{
		(my $query = $queries{$what}) =~ s/\bTAB\b/$tab/g;
		$said{$tab} = sql("BEGIN; $query; ROLLBACK");
	}
	is($said{r}, $said{h}, $what);
}

# ---- what batches take, and where they come back ----

# Bytes that rows looked up together take, beside a cursor that was moved so far.
sub bytes_behind
{
	my ($query, $move, $before) = @_;
	return sql(($before // '') . "; BEGIN; DECLARE c CURSOR FOR $query; MOVE $move FROM c;
		SELECT coalesce(sum(total_bytes), 0) FROM pg_backend_memory_contexts WHERE name = 'rose found rows'; COMMIT");
}

sql(q{CREATE TABLE mixed (k int PRIMARY KEY, a int, b text) USING rose; CREATE INDEX mixed_a ON mixed (a, k);
	INSERT INTO mixed SELECT i, i, repeat('x', 100) FROM generate_series(1, 20000) i;
	SELECT rose.spill('mixed'), rose.merge('mixed'); UPDATE mixed SET b = 'new' WHERE a < 200; ANALYZE mixed});
my $ordered = 'SELECT * FROM mixed WHERE a > 0 ORDER BY a, k';
cmp_ok(bytes_behind($ordered, 10000), '>', 100000, 'rows behind those in memory are looked up together');
is(bytes_behind($ordered, 'ALL'), 0, 'rows that were looked up go when their scan has come to its end');
foreach (['a = 500', 1, 0], ['a = -5', 0, 0], ['a IN (500, 700, 900)', 3, 1], ['a BETWEEN 500 AND 505', 6, 1])
{
	my ($where, $rows, $many) = @$_;
	is(sql("BEGIN; DECLARE c CURSOR FOR SELECT b FROM mixed WHERE $where ORDER BY a, k; SELECT count(*) FROM mixed WHERE $where; MOVE ALL FROM c;
		SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'rose lookup of many'; COMMIT"), "$rows\n$many",
		"$where: lookups of many are " . ($many ? 'made' : 'not made for a single row'));
}

# ---- indexes of many columns: keys of a batch take the memory that it may have ----

foreach my $columns (8, 15)
{
	my $names = join ', ', map { "c$_" } 1 .. $columns;
	my $values = join ', ', 'i % 3', map { "i * $_" } 2 .. $columns;

	sql("CREATE TABLE wide (k int PRIMARY KEY, v int, " . ($names =~ s/(c\d+)/$1 int/gr) . ") USING rose; CREATE INDEX ON wide ($names);
		INSERT INTO wide SELECT i, i, $values FROM generate_series(1, 12000) i; SELECT rose.spill('wide'); SELECT rose.merge('wide'); ANALYZE wide");
	my $all = 'FROM wide WHERE c1 >= 0';
	my $ordered = "SELECT c1, v $all ORDER BY c1 DIRECTION, c2 DIRECTION";
	like(sql("EXPLAIN SELECT v $all"), qr/Index Scan using wide_c1/, "an index of $columns columns is scanned");
	is(sql("SELECT count(v), sum(v) $all"), '12000|72006000', '... to its end');
	is(sql("SELECT count(v), sum(v) FROM (" . ($ordered =~ s/DIRECTION/$_/gr) . ') s'), '12000|72006000', "... to its end, $_") foreach qw(ASC DESC);
	sql('DROP TABLE wide');
}

# ---- entries that rows have left, in batches ----

sql(q{CREATE FUNCTION shifted(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 + current_setting($$my.shift$$)::int; END';
	SET my.shift = 0; CREATE TABLE s (k int PRIMARY KEY, a int, b text) USING rose; CREATE INDEX s_a ON s (shifted(a));
	INSERT INTO s SELECT i, i * 10, 'b' || i FROM generate_series(1, 3000) i; SELECT rose.spill('s'), rose.merge('s'); ANALYZE s;
	SET my.shift = 5; UPDATE s SET a = a + 5 WHERE k % 3 = 0; SELECT rose.spill(x), rose.merge(x) FROM unnest('{s,s_a}'::regclass[]) x});
my $stale = 'FROM s WHERE shifted(a) > 0';
is(sql("SET my.shift = 0; SELECT count(*), sum(k), count(*) FILTER (WHERE k % 3 = 0) $stale"), '2000|3000000|0', 'rows whose entries are others than they have left');
is(sql("SET my.shift = 5; SELECT count(*), count(*) FILTER (WHERE k % 3 = 0) $stale"), '1000|1000', '... and those that are right now');
cmp_ok(bytes_behind("SELECT * $stale ORDER BY shifted(a)", 1500, 'SET my.shift = 0'), '>', 30000, '... are looked up together');

# ---- SERIALIZABLE: what was not fetched was not read ----

my ($one, $two) = map { RoseTest::Session->new($node) } 1 .. 2;
$one->run('BEGIN ISOLATION LEVEL SERIALIZABLE; DECLARE c CURSOR FOR SELECT k, b FROM r WHERE a >= 0 ORDER BY a, k; FETCH 4 FROM c');
$two->run(q{BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE r SET b = 'two' WHERE k = (SELECT k FROM r ORDER BY a DESC, k DESC LIMIT 1); COMMIT});
$one->run(q{UPDATE r SET b = 'one' WHERE k = 1});
is($one->run('COMMIT; SELECT 1'), 1, 'a SERIALIZABLE transaction commits');
$_->end for $one, $two;

done_testing();
