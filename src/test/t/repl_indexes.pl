# Secondary indexes of tables that a subscription feeds. Their entries are written without a look at the rows that are replaced, so they have entries of no
# row; but no row is without its own. Random changes upstream: of keys, of indexed columns there and back, deletes and inserts of one key, large values that are
# not sent, savepoints, TRUNCATE; here spills, merges, CREATE INDEX, REINDEX, DROP INDEX and resyncs meanwhile, in a small arena, and kills of both sides. At each
# equal position, and after each crash before anything is applied again, scans of indexes, of the table, and the upstream answer alike; readers
# compare by one snapshot as the changes come. Before that, single cases. Environment:
#
#   INDEXES_SEED		repeat a run, as far as several processes can
#   INDEXES_ROUNDS		default 3; the replica is killed in each
#   INDEXES_STEPS		upstream transactions of a round, default 40
#   INDEXES_ARENA		in MB, default 4
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $seed = seed_random('INDEXES_SEED');
my $rounds = $ENV{INDEXES_ROUNDS} // 3;
my $steps = $ENV{INDEXES_STEPS} // 40;
my $arena = $ENV{INDEXES_ARENA} // 4;
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '${arena}MB'", "rose.debug_piece_size = '8kB'", 'rose.debug_sift_entries = 0', 'rose.debug_sift_keys = 3', "rose.spill_interval = '300ms'",
	"rose.background_spill_size = '64kB'", 'rose.max_subscriptions = 4', "wal_retrieve_retry_interval = '100ms'", "deadlock_timeout = '50ms'", 'autovacuum = off');
my $files = $replica->basedir;

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub caught_up { return wait_for_apply($upstream, $replica) }
sub pick { return $_[ rand @_ ] }
sub some { return int(rand($_[0])) }

# --- tables, and what is asked of them
my $doc = "repeat('v' || (random() * 9)::int, 3000)";
up(<<'SQL');
CREATE TABLE t (id int PRIMARY KEY, a int, b text COLLATE "C", n numeric, doc text);
CREATE TABLE u (x text COLLATE "C", y int, a int, b text COLLATE "C", n numeric, doc text, PRIMARY KEY (x, y));
CREATE TABLE f (id int PRIMARY KEY, a int, b text COLLATE "C", n numeric, doc text);
CREATE TABLE k (id int, a int, b text COLLATE "C", n numeric, doc text);
ALTER TABLE t ALTER doc SET STORAGE EXTERNAL;
ALTER TABLE u ALTER doc SET STORAGE EXTERNAL;
ALTER TABLE f ALTER doc SET STORAGE EXTERNAL;
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE PUBLICATION p FOR TABLE t, u, f, k;
SQL
my $functions = <<'SQL';
-- rows of a query as one text
CREATE FUNCTION answer(query text, idx bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('enable_seqscan', (NOT idx)::text, true), set_config('enable_indexscan', idx::text, true), set_config('enable_indexonlyscan', idx::text, true);
	EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(q::text, '','')), ''-'') FROM (%s) q', query) INTO result;
	RETURN result;
END $$;

-- how many of the queries are answered otherwise by indexes than by a scan of the table
CREATE FUNCTION differences(queries text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	query text;
	bad int := 0;
	x text;
	y text;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		x := answer(query, true);
		y := answer(query, false);
		IF x IS DISTINCT FROM y THEN
			bad := bad + 1;
			RAISE WARNING 'MISMATCH of %: by index %, by scan %', query, x, y;
		END IF;
	END LOOP;
	RETURN bad;
END $$;
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
SQL
up($functions);
down($functions . <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, a int, b text COLLATE "C", n numeric, doc text) USING rose;
CREATE TABLE u (n numeric, x text COLLATE "C", y int, a int, doc text, b text COLLATE "C", PRIMARY KEY (x, y)) USING rose;
CREATE TABLE f (id int PRIMARY KEY, a int, b text COLLATE "C", n numeric, doc text) USING rose;
CREATE TABLE k (id int, a int, b text COLLATE "C", n numeric, doc text) USING rose;
SQL

my %key = (t => 'id', u => 'x, y', f => 'id', k => 'id, a, b, n, doc, concat(n)');

# Queries for any index that there may be.
sub queries
{
	my ($table) = @_;
	my $order = $key{$table};
	my ($a, $b) = (some(8), some(8));
	my $c = $a + 2;

	return (
		"SELECT $order FROM $table WHERE a = $a ORDER BY $order",
		"SELECT $order, b FROM $table WHERE a BETWEEN $a AND $c ORDER BY a, b, n, $order",
		"SELECT a, n, $order FROM $table WHERE a = ANY (ARRAY[$a, $c, NULL, 1]) ORDER BY a DESC, n DESC, b DESC, $order",
		"SELECT a FROM $table ORDER BY a DESC NULLS LAST LIMIT 20",
		"SELECT $order FROM $table WHERE a IS NULL ORDER BY $order",
		"SELECT b, $order FROM $table WHERE b = 'b$b' ORDER BY b, a, n, $order",
		"SELECT $order FROM $table WHERE b > 'b$b' AND a < $c ORDER BY $order",
		"SELECT $order, n FROM $table WHERE a = $a OR b = 'b$b' ORDER BY $order",
		"SELECT $order FROM $table WHERE n >= $a ORDER BY $order",
		"SELECT $order FROM $table WHERE left(doc, 2) = 'v$b' ORDER BY $order",
		"SELECT $order, left(doc, 5) FROM $table WHERE left(doc, 2) = 'v$b' AND a = $a ORDER BY $order",
		"SELECT $order FROM $table WHERE a + length(b) = $c ORDER BY $order",
		"SELECT $order FROM $table WHERE twice(a) = 2 * $a ORDER BY $order",
		"SELECT $order, b FROM $table WHERE a = $c AND n > 3 ORDER BY $order");
}

my @kinds = (
	'(a)', '(a DESC NULLS LAST)', '(b, a)', '(a, b DESC, n)', '(a) INCLUDE (b, n)', '(n)', '(b) INCLUDE (doc)', '(left(doc, 2))', '(left(doc, 2), a)', '((a + length(b)))',
	'(twice(a))', '(a) WHERE n > 3', '(b) WHERE left(doc, 1) IS NOT NULL', '(left(doc, 2)) WHERE a > 2');
my %indexes;
my $made = 0;

sub make_index
{
	my ($table) = @_;
	my $name = "i" . ++$made;

	down("CREATE INDEX $name ON $table " . pick(@kinds));
	push @{ $indexes{$table} }, $name;
	return;
}

# The rows that only one of the ways finds, for each query in what was warned of.
sub rows_by_ways
{
	my ($table, $warnings) = @_;
	my $found = '';

	foreach my $query ($warnings =~ /MISMATCH of (.*): by index /g)
	{
		my ($by_index, $by_scan) = map { "SET enable_seqscan = $_->[0]; SET enable_indexscan = $_->[1]; SET enable_indexonlyscan = $_->[1]; " } [ 'off', 'on' ], [ 'on', 'off' ];
		my %ways = (index => down($by_index . $query), scan => down($by_scan . $query));

		$found .= "$query\n" . down("${by_index}EXPLAIN $query") . "\nnow by index:\n" . substr($ways{index}, 0, 500) . "\nnow by scan:\n" . substr($ways{scan}, 0, 500) . "\n";
	}
	return $found;
}

sub array { return 'ARRAY[' . join(', ', map { "\$q\$$_\$q\$" } @_) . ']' }

# Rows that one side has, or answers with, and the other one not: the first few of each.
sub only_one_has
{
	my ($query) = @_;
	my %lines = (upstream => [ split /\n/, up($query) ], replica => [ split /\n/, down($query) ]);
	my $found = '';

	foreach my $side (sort keys %lines)
	{
		my %others;

		$others{$_}++ foreach @{ $lines{ $side eq 'replica' ? 'upstream' : 'replica' } };
		my @only = grep { !$others{$_}-- } @{ $lines{$side} };
		$found .= "only the $side has " . @only . ":\n" . join('', map { substr($_, 0, 300) . "\n" } @only[ 0 .. ($#only < 4 ? $#only : 4) ]);
	}
	return $found;
}

# What is needed to look into a difference: the seed, and which indexes there were.
sub how_it_was
{
	my ($table) = @_;

	return "INDEXES_SEED=$seed\n" . down("SELECT string_agg(indexdef, E'\\n' ORDER BY indexdef) FROM pg_indexes WHERE tablename = '$table'") . "\n"
	  . down("SELECT string_agg(concat_ws(' ', kind, id, state, rows, relname), E'\\n') FROM rose.stat_components WHERE relname = '$table' OR relname IN (SELECT indexname FROM pg_indexes WHERE tablename = '$table')");
}

# Each by itself, so that a mismatch is seen with what it is of.
sub agree
{
	my ($name, $with_upstream) = @_;

	foreach my $table (sort keys %key)
	{
		my @queries = queries($table);
		my $array = array(@queries);
		my ($bad, $err);

		$replica->psql('postgres', "SELECT differences($array)", stdout => \$bad, stderr => \$err);
		is($bad, '0', "$name: indexes of $table") or diag($err, how_it_was($table), rows_by_ways($table, $err));
		is(down("SELECT string_agg(msg, '; ') FROM rose.check('$table')"), '', "$name: rose.check of $table") or diag(how_it_was($table));
		next unless $with_upstream;
		is(table_hash($replica, $table eq 'u' ? '(SELECT x, y, a, b, n, doc FROM u)' : $table), table_hash($upstream, $table), "$name: $table is the upstream's")
		  or diag(only_one_has("SELECT $key{$table}, a, b, n, left(doc, 5), length(doc), md5(doc) FROM $table"), how_it_was($table));
		my $ask = "SELECT query || ': ' || answer(query, true) FROM unnest($array) query";
		is(down($ask), up($ask), "$name: answers of $table") or diag(only_one_has($ask), how_it_was($table));
	}
	return;
}

# --- random changes upstream
sub value { return pick(some(8), some(8), some(8), 'NULL') }
sub text { return rand() < 0.1 ? 'NULL' : "'b" . some(8) . "'" }
sub number { return pick(some(8), some(8) . '.0', some(8) . '.00', 'NULL') }

sub change
{
	my $table = pick(qw(t t t u u f k));
	my $id = some(300);
	my $many = some(40);
	my $rows = $id + $many;
	my $kind = rand();

	return "INSERT INTO k SELECT $id + g, @{[ value() ]}, @{[ text() ]}, @{[ number() ]}, $doc FROM generate_series(1, $many) g" if $table eq 'k';
	if ($table eq 'u')
	{
		my $in = "x = 'x' || ($id % 10) AND y % 7 = " . some(7);

		return "INSERT INTO u SELECT 'x' || (g % 10), g, @{[ value() ]}, @{[ text() ]}, @{[ number() ]}, $doc FROM generate_series($id, $rows) g ON CONFLICT DO NOTHING" if $kind < 0.3;
		return "UPDATE u SET " . pick('a = ' . value(), 'b = ' . text(), 'n = ' . number(), 'a = a + 1', "doc = $doc", "y = y + 1000, a = 3") . " WHERE $in" if $kind < 0.8;
		return "DELETE FROM u WHERE $in";
	}
	return "INSERT INTO $table SELECT g, @{[ value() ]}, @{[ text() ]}, @{[ number() ]}, $doc FROM generate_series($id, $rows) g ON CONFLICT DO NOTHING" if $kind < 0.25;
	return "DELETE FROM $table WHERE id BETWEEN $id AND $rows" if $kind < 0.35;
	return "UPDATE $table SET id = id + 1000 * (1 + (SELECT max(id) / 1000 FROM $table)) WHERE id BETWEEN $id AND $id + 5" if $kind < 0.42;
	return "DELETE FROM $table WHERE id > 1000" if $kind < 0.45;
	my $set = pick('a = ' . value(), 'b = ' . text(), 'n = ' . number(), 'a = a + 1', 'a = 7 - a', "doc = $doc", "doc = doc || 'x'", 'doc = NULL', 'n = n + 0.0');
	return "UPDATE $table SET $set WHERE id BETWEEN $id AND $rows";
}

sub transaction
{
	my @statements = map { change() } 1 .. 1 + some(4);

	return "BEGIN; $statements[0]; SAVEPOINT s; @{[ change() ]}; ROLLBACK TO s; " . join('; ', @statements) . '; COMMIT' if rand() < 0.2;
	return 'BEGIN; ' . join('; ', @statements) . '; ROLLBACK' if rand() < 0.1;
	return 'TRUNCATE ' . pick(qw(t u f k)) if rand() < 0.03;
	return 'BEGIN; ' . change() . '; TRUNCATE ' . pick(qw(t f)) . '; ' . change() . '; COMMIT' if rand() < 0.03;
	# larger than memory
	return "INSERT INTO t SELECT g, g % 8, 'b' || g % 8, g % 8, repeat(md5(g::text), 3) FROM generate_series(10000, 40000) g ON CONFLICT DO NOTHING; DELETE FROM t WHERE id >= 10000" if rand() < 0.01;
	return 'BEGIN; ' . join('; ', @statements) . '; COMMIT';
}

# --- commands on the replica, while changes are applied
sub command
{
	my $table = pick(sort keys %key);
	my $kind = rand();
	my $err;

	return make_index($table) if $kind < 0.15 && @{ $indexes{$table} // [] } < 6;
	if ($kind < 0.25 && @{ $indexes{$table} // [] } > 2)
	{
		my ($index) = splice @{ $indexes{$table} }, some(scalar @{ $indexes{$table} }), 1;
		return down("DROP INDEX $index");
	}
	return down('REINDEX INDEX ' . pick(@{ $indexes{$table} })) if $kind < 0.4 && @{ $indexes{$table} // [] };
	return down("REINDEX TABLE $table") if $kind < 0.45;
	return down("VACUUM $table") if $kind < 0.55;
	if ($kind < 0.65)
	{
		$replica->psql('postgres', "SELECT rose.spill('$table')");
		return;
	}
	$replica->psql('postgres', "SELECT rose.merge('$table')");
	return;
}

# --- single cases: indexes before the copy, which are exact until then
up("INSERT INTO t SELECT g, g % 8, 'b' || g % 8, g % 8, $doc FROM generate_series(1, 300) g; INSERT INTO u SELECT 'x' || g % 10, g, g % 8, 'b' || g % 8, g % 8, $doc FROM generate_series(1, 300) g;"
	. "INSERT INTO k SELECT g, g % 8, 'b' || g % 8, g % 8, $doc FROM generate_series(1, 300) g; INSERT INTO f SELECT * FROM t");
make_index($_) foreach sort keys %key, sort keys %key;
like(error_of($replica, 'CREATE UNIQUE INDEX tu ON t (a, id); SELECT rose.create_subscription(\'s\', \'' . $upstream->connstr('postgres') =~ s/'/''/gr . '\', ARRAY[\'p\'])'),
	qr/cannot replicate into "public.t", which has unique index "tu"/, 'a unique index is refused');
down('DROP INDEX tu');

# A plan that reads entries alone, as it is possible of an exact index, is used after the table is fed.
down('CREATE INDEX ti ON t (a) INCLUDE (n)');
my $old_plan = RoseTest::Session->new($replica);
$old_plan->run("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_indexscan = off; PREPARE q AS SELECT string_agg(a || '/' || n, ' ' ORDER BY a, n::text) FROM t WHERE a > 5");
$old_plan->run('EXECUTE q');
subscribe($upstream, $replica, undef, q{on_error => 'pause'});
agree('copied', 1);

up("UPDATE t SET n = n + 0.00; UPDATE t SET a = 9 WHERE a = 7; UPDATE t SET a = 7, n = 11.0 WHERE a = 9 AND id % 2 = 0; DELETE FROM t WHERE id = 15");
caught_up();
my $expected = up("SELECT string_agg(a || '/' || n, ' ' ORDER BY a, n::text) FROM t WHERE a > 5");
is($old_plan->run('EXECUTE q'), $expected, 'what is read by an older plan is of the rows');
unlike(down('SET enable_seqscan = off; EXPLAIN SELECT a FROM t WHERE a > 5'), qr/Index Only/, 'new plans read the rows');
$old_plan->end;
agree('changed', 1);

like(error_of($replica, 'CREATE UNIQUE INDEX tu ON t (a, id)'), qr/cannot create index "tu".*without a look at what is there/s, 'no unique index of a fed table');
like(error_of($replica, 'CREATE INDEX CONCURRENTLY tc ON t (a)'), qr/cannot create index "tc".*cannot be built concurrently/s, 'nor one beside writers');

# A large value that was not sent, beside one that was: the row is read. Alone, or of no index: not.
down('CREATE INDEX tm ON t (left(doc, 2), a)');
up("UPDATE t SET doc = repeat('w' || id, 3000) WHERE id BETWEEN 20 AND 29");
caught_up();
my $reads = down('SELECT old_row_reads FROM rose.stat_subscription');
up('UPDATE t SET a = 5 WHERE id BETWEEN 20 AND 29');
caught_up();
is(down('SELECT old_row_reads FROM rose.stat_subscription') - $reads, 10, 'rows are read for what was not sent');
is(down("SET enable_seqscan = off; SELECT count(*) FROM t WHERE left(doc, 2) = 'w2' AND a = 5"), 10, '... and found');
agree('large values', 1);

# What an index cannot compute pauses the table.
down('CREATE INDEX te ON f ((10 / (a + 100)))');
up('UPDATE f SET a = -100 WHERE id = 1');
$replica->poll_query_until('postgres', "SELECT state IN ('paused', 'error') FROM rose.stat_subscription_tables WHERE relid = 'f'::regclass") or fail('f is paused');
like(down("SELECT last_error FROM rose.stat_subscription_tables WHERE relid = 'f'::regclass"), qr/division by zero/, 'an expression that fails pauses the table');
up('UPDATE f SET a = 1 WHERE id = 1');
down("DROP INDEX te; SELECT rose.alter_subscription('s', resync => 'f'); SELECT rose.wait_for_sync('s', $timeout)");
agree('resynced', 1);

# --- random ones
my $reader = "$files/reader.sql";
append_to_file($reader, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 1 / (differences(" . array(map { queries($_) } sort keys %key) . ") = 0)::int;\nCOMMIT;\n");
foreach my $round (1 .. $rounds)
{
	my $readers = IPC::Run::start([ 'pgbench', '-n', '-c', '1', '-t', 1000000, '-f', $reader, '-h', $replica->host, '-p', $replica->port, 'postgres' ], '>', '/dev/null', '2>', "$files/readers.$round");

	foreach (1 .. $steps)
	{
		$upstream->psql('postgres', transaction());
		command() if rand() < 0.25;
		down("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type ~ '^rose replication (worker|spiller)'") if rand() < 0.02;
	}
	$upstream->stop('immediate') if $round % 3 == 0;
	crash($replica);
	$upstream->start if $round % 3 == 0;
	$readers->kill_kill;
	unlike(slurp_file("$files/readers.$round"), qr/MISMATCH|division by zero/, "round $round: readers") or diag(slurp_file("$files/readers.$round"), map { how_it_was($_) } sort keys %key);
	start_without_replication($replica);
	agree("round $round, killed", 0);
	replication_again($replica);
	caught_up();
	agree("round $round, caught up", 1);
	down("SELECT rose.merge('$_')") foreach sort keys %key;
	agree("round $round, merged", 1);
}

# --- let go
down("SELECT rose.drop_subscription('s')");
down("UPDATE t SET a = 7 - a WHERE id % 3 = 0; DELETE FROM t WHERE id % 5 = 0; INSERT INTO t SELECT g, g % 8, 'b1', g % 8, 'v1' FROM generate_series(100000, 100100) g");
agree('let go', 0);
down('CREATE UNIQUE INDEX tu ON t (a, id); REINDEX TABLE t');
agree('let go, made anew', 0);
like(down('SET enable_seqscan = off; VACUUM ANALYZE t; DROP INDEX IF EXISTS tm; EXPLAIN SELECT a FROM t WHERE a = 5'), qr/Index Only/, 'an index that is made anew is exact');

done_testing();
