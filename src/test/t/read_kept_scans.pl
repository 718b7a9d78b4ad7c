# What a session keeps of scans of ranges (lsm/read/rose_lookup_cache.c): cursors, with the pages that they have, and room for rows in memory. Random ranges by the
# key and by indexes, forward, backward, in nested loops, of cursors that stay open, while the same session and another one write, spill, merge, roll back to savepoints, truncate and
# alter the tables. The same on heap must answer the same. And what it keeps of the file of an index: a subscription that begins to feed the table in the middle of
# a transaction of it is noticed by the next scan. Environment:
#
#   SCANS_SEED	repeat a run
#   SCANS_STEPS	default 250
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $seed = seed_random('SCANS_SEED');
my $steps = $ENV{SCANS_STEPS} // 250;
my $tables = 10;
my $upstream = upstream_node();
my $node = rose_node('kept_scans', 'autovacuum = off', 'fsync = off', "rose.debug_piece_size = '8kB'", 'enable_seqscan = off', 'enable_bitmapscan = off', 'enable_sort = off',
	'rose.max_merge_workers = 0', "rose.spill_interval = '1h'", 'rose.max_subscriptions = 2', "wal_retrieve_retry_interval = '100ms'");
my %session = map { $_ => RoseTest::Session->new($node) } qw(heap rose);
my $columns = 0;
my $wrong = 0;

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub some { return int(rand($_[0])) }

# What a session says, or that it failed.
sub say_of
{
	my ($who, $statement) = @_;
	my $session = $session{$who};
	my $said = eval { $session->run($statement) };
	return $said if defined $said;
	my ($error) = $session->{err} =~ /ERROR: +(.*)/ or die $@;
	$session->{err} = '';
	return $error;
}

# The same statement on both tables must say the same.
sub agree
{
	my ($statement) = @_;
	my ($heap, $rose) = map { my $s = $statement; $s =~ s/\bTAB(\d+)/${_}_$1/g; say_of($_, $s) } qw(heap rose);
	s/\b(?:heap|rose)_(?=\d)/t_/g for $heap, $rose;
	return if $heap eq $rose;
	diag("$statement: heap says \"$heap\", rose \"$rose\"") if $wrong++ < 5;
	return;
}

sub fill
{
	my ($n) = @_;
	sql("INSERT INTO ${_}_$n (k, a, b, c) SELECT i, i % 37, 'b' || i % 29, repeat('c' || i, 1 + i % 50) FROM generate_series(1, 600) i") for qw(heap rose);
	return;
}

# Keys of columns by reference, too.
sub make
{
	my ($n) = @_;
	my $key = $n % 2 ? 'k' : 'b, k';
	sql("SET client_min_messages = warning; DROP TABLE IF EXISTS ${_}_$n; CREATE TABLE ${_}_$n (k int, a int, b text COLLATE \"C\", c text, PRIMARY KEY ($key)) USING $_; "
		  . "CREATE INDEX ON ${_}_$n (a); CREATE INDEX ON ${_}_$n (b DESC, a); CREATE UNIQUE INDEX ON ${_}_$n (k, a) INCLUDE (b)") for qw(heap rose);
	fill($n);
	return;
}

make($_) for 1 .. $tables;
sql("SELECT rose.merge('rose_$_')") for 1 .. $tables - 2;

# What another session does to a table, and its indexes; only what needs no strong lock while the first one is in a transaction.
sub disturb
{
	my ($n, $open) = @_;
	my $what = some($open ? 2 : 10);
	my ($from, $many) = (1 + some(600), 1 + some(60));
	my $indexes = "FROM pg_index WHERE indrelid = 'rose_$n'::regclass AND NOT indisprimary";
	if ($what == 0) { sql("SELECT rose.spill('rose_$n'); SELECT rose.spill(indexrelid::regclass) $indexes") }
	elsif ($what == 1) { sql("SELECT rose.merge('rose_$n'); SELECT rose.merge(indexrelid::regclass) $indexes") }
	elsif ($what <= 4) { sql("UPDATE ${_}_$n SET a = a + 1 WHERE k BETWEEN $from AND $from + $many") for qw(heap rose) }
	elsif ($what == 5) { sql("TRUNCATE ${_}_$n") for qw(heap rose); fill($n) }
	elsif ($what == 6) { $columns++; sql("ALTER TABLE ${_}_$n ADD COLUMN c$columns int DEFAULT $columns") for qw(heap rose) }
	elsif ($what == 7) { sql("VACUUM FULL ${_}_$n; REINDEX TABLE ${_}_$n") for qw(heap rose) }
	elsif ($what == 8) { make($n) }
	elsif ($what == 9) { sql("DROP INDEX IF EXISTS ${_}_x$n; CREATE INDEX ${_}_x$n ON ${_}_$n (a, k)") for qw(heap rose) }
	return;
}

# A query with a range or more, in an order.
sub query
{
	my ($n) = @_;
	my ($k, $a, $b) = (some(620), some(40), some(30));
	my ($k2, $a2) = ($k + some(40), $a + some(3));
	my $what = some(19);
	# of some columns nothing but the last ones, or the row as a whole as well
	return "SELECT c FROM TAB$n WHERE a BETWEEN $a AND $a2 ORDER BY k" if $what == 9;
	return "SELECT count(c), max(md5(c)), min(b) FROM TAB$n WHERE a BETWEEN $a AND $a2" if $what == 10;
	return "SELECT sum(length(c)) FILTER (WHERE b > 'b2'), count(*) FROM TAB$n WHERE a = $a" if $what == 11;
	return "SELECT b, count(*), max(md5(c)) FROM TAB$n WHERE a BETWEEN $a AND $a2 GROUP BY b ORDER BY b" if $what == 12;
	return "SELECT t FROM TAB$n t WHERE a = $a AND c LIKE '%1%' ORDER BY k" if $what == 13;
	return "SELECT row_to_json(t), c FROM TAB$n t WHERE k BETWEEN $k AND $k2 AND length(c) > 5 ORDER BY k" if $what == 14;
	return "WITH x AS MATERIALIZED (SELECT * FROM TAB$n WHERE a = $a AND c > 'c3') SELECT x.c, x.b, y.a FROM x JOIN TAB$n y ON y.k = x.k ORDER BY x.k" if $what == 15;
	return "SELECT c, tableoid = 0, xmin = '0' FROM TAB$n WHERE a = $a AND length(c) > (SELECT min(length(y.c)) FROM TAB$n y WHERE y.a = TAB$n.a + 1) ORDER BY k" if $what == 16;
	return "SELECT k, c FROM TAB$n WHERE a = $a AND c > 'c2' ORDER BY k FOR UPDATE" if $what == 17;
	return "SELECT (SELECT md5(c) FROM TAB$n y WHERE y.a = g AND y.b > 'b1' ORDER BY y.k LIMIT 1) FROM generate_series($a, $a2) g" if $what == 18;
	return "SELECT k, a, b, md5(c) FROM TAB$n WHERE a = $a ORDER BY k" if $what == 0;
	return "SELECT k, a FROM TAB$n WHERE a BETWEEN $a AND $a2 ORDER BY a DESC, k" if $what == 1;
	return "SELECT a FROM TAB$n WHERE a >= $a ORDER BY a LIMIT " . (1 + some(8)) if $what == 2;
	return "SELECT k, b FROM TAB$n WHERE b = 'b$b' ORDER BY b DESC, a, k" if $what == 3;
	return "SELECT * FROM TAB$n WHERE k BETWEEN $k AND $k2 ORDER BY k" if $what == 4;
	return "SELECT * FROM TAB$n WHERE b = 'b$b' AND k BETWEEN $k AND $k2 ORDER BY b DESC, k DESC" if $what == 5;
	return "SELECT k, a FROM TAB$n WHERE k IN ($k, $k2) ORDER BY k, a" if $what == 6;
	return "SELECT g, k, md5(c) FROM generate_series($a, $a2) g, LATERAL (SELECT * FROM TAB$n t WHERE t.a = g OR t.k = g * 7 ORDER BY k LIMIT 5) x ORDER BY g, k" if $what == 7;
	return "SELECT x.k, y.k FROM TAB$n x JOIN TAB$n y ON y.a = x.a + 1 WHERE x.k BETWEEN $k AND $k2 ORDER BY x.k, y.k LIMIT 30";
}

sub change
{
	my ($n) = @_;
	my ($k, $k2) = (1 + some(600), 1 + some(40));
	my $what = some(3);
	agree("UPDATE TAB$n SET a = a + 5, c = c || 'x' WHERE k BETWEEN $k AND $k + $k2") if $what == 0;
	agree("DELETE FROM TAB$n WHERE a = $k2") if $what == 1;
	agree("INSERT INTO TAB$n (k, a, b, c) SELECT i, $k2, 'b' || i % 29, 'new' FROM generate_series($k + 700, $k + 705) i ON CONFLICT DO NOTHING") if $what == 2;
	return;
}

# A transaction of the first session.
sub look
{
	my ($n) = @_;
	my $what = some(5);
	if ($what <= 1) { agree(query($n)) for 1 .. 3 }
	elsif ($what == 2) { change($n); agree(query($n)) }
	elsif ($what == 3)
	{
		my $open = some(2);
		agree('BEGIN' . (some(2) ? '' : ' ISOLATION LEVEL REPEATABLE READ'));
		# as far as it was read, its rows stay whatever comes
		agree($_) for "DECLARE x SCROLL CURSOR FOR " . query($n), 'FETCH ' . some(4) . ' FROM x';
		agree('SAVEPOINT s');
		change($n);
		agree(query($n)) for 1 .. 2;
		disturb($n, 1);
		agree($_) for "SELECT k / (a - a) FROM TAB$n WHERE a BETWEEN 3 AND 5", 'ROLLBACK TO s', query($n), 'FETCH ' . some(4) . ' FROM x', 'FETCH PRIOR FROM x', query($n), 'FETCH ALL FROM x',
			some(3) ? 'COMMIT' : 'ROLLBACK';
	}
	else { agree("SELECT k / (a - a) FROM TAB$n WHERE a BETWEEN 3 AND 5"); agree(query($n)) }
	return;
}

for my $step (1 .. $steps)
{
	my $n = 1 + some(rand() < 0.7 ? 3 : $tables);
	look($n);
	disturb($n, 0) if rand() < 0.4;
	agree(query($n)) for 1 .. 2;
	last if $wrong > 5;
}
is($wrong, 0, "$steps steps: rose answers what heap answers (SCANS_SEED=$seed)");
is(sql(join ' UNION ALL ', map { "SELECT string_agg(c::text, ' ') FROM rose.check('rose_$_') c" } 1 .. $tables) =~ s/\n//gr, '', 'the tables are sound');

# --- how much is kept
sql("CREATE TABLE m (k int PRIMARY KEY, a int, c text) USING rose; CREATE INDEX m_a ON m (a); INSERT INTO m SELECT i, i % 100, 'c' || i FROM generate_series(1, 5000) i; "
	  . "SELECT rose.spill('m'); SELECT rose.merge('m'); SELECT rose.spill('m_a'); SELECT rose.merge('m_a')");
my $session = $session{rose};
my $in = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'rose component cursor'";
is($session->run('SELECT count(c) FROM m WHERE a = 5'), 50, 'a range');
my $cursors = $session->run($in);
is($session->run('SELECT count(c) FROM m WHERE a = 6'), 50, 'another one') for 1 .. 3;
is($session->run($in), $cursors, 'the same cursors');
my $bytes = "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name ~ '^rose'";
my $before = $session->run($bytes);
$session->run("SELECT count(c) FROM m WHERE a = $_; SELECT count(c) FROM m WHERE k BETWEEN $_ * 10 AND $_ * 11") for 1 .. 60;
cmp_ok($session->run($bytes) - $before, '<', 100000, 'no more memory for more of them');
sql("UPDATE m SET c = repeat(md5(k::text), 20000) WHERE k IN (10, 20)");
sql("SELECT rose.spill('m'); SELECT rose.merge('m')");
is($session->run('SELECT sum(length(c)) > 1000000 FROM m WHERE k BETWEEN 5 AND 30'), 't', 'large values');
cmp_ok($session->run($bytes) - $before, '<', 400000, 'which are not kept');

# --- a subscription begins to feed a table that a transaction is reading: its entries are not to be believed any more
$upstream->safe_psql('postgres', 'CREATE TABLE fed (k int PRIMARY KEY, a int, c text); INSERT INTO fed SELECT i, i, $$c$$ FROM generate_series(1, 100) i; CREATE PUBLICATION p FOR TABLE fed');
sql("CREATE TABLE fed (k int PRIMARY KEY, a int, c text) USING rose; CREATE INDEX fed_a ON fed (a); INSERT INTO fed SELECT i, i, 'c' FROM generate_series(1, 100) i; "
	  . "SELECT rose.spill('fed'); SELECT rose.spill('fed_a')");
$session->run('PREPARE by_a (int) AS SELECT k, a FROM fed WHERE a = $1; SET plan_cache_mode = force_generic_plan');
like($session->run('EXPLAIN EXECUTE by_a (5)'), qr/fed_a/, 'by the index');
$session->run('BEGIN');
is($session->run('EXECUTE by_a (5)'), '5|5', 'not fed yet');
sql("SELECT rose.create_subscription('s', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['p'], copy_data => false)");
sql("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
$upstream->safe_psql('postgres', 'UPDATE fed SET a = 1005 WHERE k = 5');
wait_for_apply($upstream, $node);
is($session->run('EXECUTE by_a (5)'), '', 'fed: the entry that was left where it is leads nowhere');
is($session->run('EXECUTE by_a (1005)'), '5|1005', '... and the new one to the row');
$session->run('COMMIT');
is($session->run('EXECUTE by_a (5)'), '', 'after the transaction');
sql("SELECT rose.drop_subscription('s')");
is($session->run('EXECUTE by_a (1005)'), '5|1005', 'no more fed');

$_->end for values %session;
$node->stop;
$upstream->stop;
done_testing();
