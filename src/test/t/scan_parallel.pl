
# Rose Scans by several processes: the same rows as on heap and as by one process, in their order where there is one, whatever the table's rows lie in: C0
# alone, runs, C1, pieces of C2, private runs, its own transaction's rows, some of them taken back, beside spills and merges. Tables with keys of one
# and of several columns, of texts that are cut in bounds and of some that are not, without key, with partitions, with large values. Then cancels,
# errors and ends of workers. (Parts of rows, which subscriptions write, are read_batches_beside.pl's.) Environment:
#
#   PARALLEL_SEED	repeat a run
#   PARALLEL_STEPS	changes, with some queries after each; default 60
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no Rose Scan' if $ENV{ROSE_STANDIN};

my $seed = seed_random('PARALLEL_SEED');
my $steps = $ENV{PARALLEL_STEPS} // 60;
my $node = rose_node('scan_parallel', 'autovacuum = off', 'max_parallel_workers = 8', 'rose.max_merge_workers = 0', "rose.spill_interval = '1h'",
	"statement_timeout = '100s'", 'rose.debug_piece_size = ' . (rand() < 0.7 ? "'64kB'" : "'32MB'"));

sub pick { return $_[ rand @_ ]; }
sub between { return int($_[0] + rand($_[1] - $_[0] + 1)) }
sub sql { return $node->safe_psql('postgres', $_[0]) }

my $icu = sql("SELECT count(*) FROM pg_collation WHERE collname = 'en-x-icu'") ? ' COLLATE "en-x-icu"' : '';
# Key columns, and how they are made of a row's number.
my %tables = (
	number => { key => ['k'], types => ['bigint'], expr => ['%s'], rows => 8000 },
	word => { key => ['w'], types => ['text COLLATE "C"'], expr => [q{to_char(%s, 'FM000000') || 'abc'}], rows => 5000 },
	spoken => { key => ['w'], types => ["text$icu"], expr => [q{(ARRAY['a','B','b','A','ab','aB'])[%1$s %% 6 + 1] || %1$s}], rows => 3000 },
	pair => { key => [ 'g', 's' ], types => [ 'int', 'text COLLATE "C"' ], expr => [ '%1$s / 500', q{'s' || %1$s %% 500} ], rows => 6000 },
	triple => { key => [ 'x', 'y', 'z' ], types => [ 'numeric', 'date', 'uuid' ], expr => [ '(%1$s %% 3) / 2.0', q{date '2000-01-01' + %1$s / 1000}, 'md5(%1$s::text)::uuid' ], rows => 4000 },
	keyless => { key => [], types => [], expr => [], rows => 6000 },
	parts => { key => ['k'], types => ['int'], expr => ['%s'], rows => 6000, partitions => 3 });
my @names = sort keys %tables;
my ($both, $beside, $churn) = map { RoseTest::Session->new($node) } 1 .. 3;
my ($compared, $planned, $parallel, $merged) = (0, 0, 0, 0);

sub key_list { my ($t, $prefix) = @_; return join(', ', map { ($prefix // '') . $_ } @{ $t->{key} }); }
sub key_values { my ($t, $n) = @_; return join(', ', map { sprintf($_, $n) } @{ $t->{expr} }); }

foreach my $twin (qw(heap rose))
{
	sql("CREATE SCHEMA twin_$twin");
	foreach my $name (@names)
	{
		my $t = $tables{$name};
		my $columns = join(', ', (map { "$t->{key}[$_] $t->{types}[$_]" } 0 .. $#{ $t->{key} }), 'n int, a int, b text', @{ $t->{key} } ? 'PRIMARY KEY (' . key_list($t) . ')' : ());
		my $table = "twin_$twin.$name";

		sql("CREATE TABLE $table ($columns) " . ($t->{partitions} ? "PARTITION BY HASH ($t->{key}[0])" : "USING $twin"));
		sql("CREATE TABLE ${table}_$_ PARTITION OF $table FOR VALUES WITH (MODULUS $t->{partitions}, REMAINDER $_) USING $twin") foreach 0 .. ($t->{partitions} // 0) - 1;
	}
}

# The trees of a table.
sub trees { my ($name) = @_; my $t = $tables{$name}; return map { "'twin_rose.$name$_'" } $t->{partitions} ? map { "_$_" } 0 .. $t->{partitions} - 1 : ''; }

# Changes both twins, in one session. Who is beside has rows of its own.
sub change
{
	my ($session, $name, $statement) = @_;

	$session->run($statement =~ s/\bT\b/twin_$_.$name/gr) foreach qw(heap rose);
	return;
}

sub random_change
{
	my ($name, $mine) = @_;
	my $t = $tables{$name};
	my ($modulus, $of) = (pick(2, 3, 10, 60), between(0, 1));
	my $from = between(0, $t->{rows});
	my $to = $from + pick(5, 300, $t->{rows});
	my $where = "$mine AND n BETWEEN $from AND $to AND n % $modulus = $of";
	my $conflict = @{ $t->{key} } ? 'ON CONFLICT DO NOTHING' : '';
	my $values = join(', ', (@{ $t->{key} } ? key_values($t, 'n') : ()), 'n, n % 97', "CASE WHEN n % 211 = 0 THEN repeat(md5(n::text), 300) ELSE repeat('x', n % 9) || n END");

	return pick(
		("INSERT INTO T SELECT $values FROM (SELECT generate_series($from, $to, " . pick(1, 2, 7) . ") n) s WHERE $mine $conflict") x 3,
		"UPDATE T SET a = a + 1, b = b || '.' WHERE $where",
		"UPDATE T SET a = a + 1 WHERE $where",
		"UPDATE T SET b = repeat('large ' || n, 600) WHERE $where AND n % 50 = 3",
		"DELETE FROM T WHERE $where AND n % 3 = 0");
}

# A query of T, and whether its rows have an order.
sub random_query
{
	my ($name) = @_;
	my $t = $tables{$name};
	my @key = @{ $t->{key} };
	my $some = sub { return key_values($t, between(0, $t->{rows})) };
	my $row = join(', ', map { "($_)" } @key);
	my $filter = pick('a > ' . between(0, 90), 'a = ' . between(0, 97), 'a % 7 = 3', 'n < ' . between(0, $t->{rows}), "b LIKE '%7'", 'a > 50 AND length(b) < 9', 'true');
	my $range = !@key ? 'n > 5' : pick(
		'(' . key_list($t) . ') ' . pick('>', '>=', '<', '<=') . ' (' . $some->() . ')',
		'(' . key_list($t) . ') > (' . $some->() . ') AND (' . key_list($t) . ') < (' . $some->() . ')',
		"$key[0] IN (" . join(', ', map { sprintf($t->{expr}[0], between(0, $t->{rows})) } 1 .. between(1, 30)) . ')',
		"$key[0] >= " . sprintf($t->{expr}[0], between(0, $t->{rows})),
		"$key[0] = " . sprintf($t->{expr}[0], between(0, $t->{rows})));
	my $where = pick($filter, $range, "$range AND $filter");
	my $order = @key && !$t->{partitions} ? 'ORDER BY ' . key_list($t) : undef;

	return [ "SELECT * FROM T $order", 1 ] if $order && rand() < 0.1;
	return [ "SELECT n, a FROM T WHERE $where $order" . pick('', ' LIMIT 20', ' LIMIT 100 OFFSET 50'), 1 ] if $order && rand() < 0.25;
	return [ pick(
		"SELECT * FROM T WHERE $where", "SELECT count(*), sum(n), min(b), max(a) FROM T WHERE $where", "SELECT a, count(*), sum(n) FROM T WHERE $where GROUP BY a",
		"SELECT x, x.tableoid::regclass::text ~ '$name', xmin IS NULL FROM T x WHERE $where", "SELECT count(*) FROM T", "SELECT count(*) FROM (SELECT 1 FROM T WHERE $where LIMIT " . between(1, 300) . ') s',
		"SELECT count(*), sum(x.n), sum(y.a) FROM T x JOIN T y ON x.n = y.n + 1 WHERE y.a > 20", "SELECT count(*) FROM T WHERE n > (SELECT avg(n) FROM T)",
		"SELECT v.x, q.* FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN (SELECT count(*) c, sum(n) s FROM T WHERE $where) q ON true",
		"SELECT v.x, q.* FROM (VALUES (1), (2), (3)) v(x) LEFT JOIN (SELECT a, min(n) FROM T WHERE $where GROUP BY a) q ON q.a <> v.x",
		"SELECT count(*) FROM (SELECT n FROM T WHERE $where EXCEPT SELECT a FROM T) s"), 0 ];
}

my $off = 'SET max_parallel_workers_per_gather = 0';
sub on
{
	my %ways = map { $_ => rand() < 0.2 ? 'off' : 'on' } qw(enable_indexscan enable_hashagg enable_sort enable_gathermerge enable_hashjoin);

	# with neither all rows are joined with all, which takes minutes on a busy machine
	$ways{enable_hashjoin} = 'on' if $ways{enable_sort} eq 'off';
	return join('; ', 'SET max_parallel_workers_per_gather = ' . between(1, 4), 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0',
		'SET rose.scan_min_rows = 0', 'SET cpu_tuple_cost = 1', 'SET rose.interval_leaves = ' . pick(1, 1, 3), 'SET rose.enable_aggregate = ' . pick('on', 'off'), 'SET rose.aggregate_sample = ' . pick(-1, 0, 1, 200), 'SET parallel_leader_participation = ' . pick('on', 'off'),
		'SET rose.vector_rows = ' . pick(1, 64, 2048), 'SET enable_material = off', map { "SET $_ = $ways{$_}" } sort keys %ways);
}

# One query in this session, three times. Spills and merges may go on meanwhile.
sub same
{
	my ($session, $what, $name, $query, $ordered) = @_;
	my $on = on();
	my %said;

	$session->run($off);
	$said{heap} = $session->run($query =~ s/\bT\b/twin_heap.$name/gr);
	my $churns = rand() < 0.3;
	$churn->start(join('; ', map { "SELECT rose." . pick('spill', 'spill', 'merge') . "($_)" } trees($name))) if $churns;
	$said{alone} = $session->run($query =~ s/\bT\b/twin_rose.$name/gr);
	$session->run($on);
	my $plan = $session->run('EXPLAIN (COSTS off) ' . $query =~ s/\bT\b/twin_rose.$name/gr);
	$said{parallel} = $session->run($query =~ s/\bT\b/twin_rose.$name/gr);
	$churn->finish if $churns;
	$session->run('RESET ALL');
	$planned++;
	$parallel++ if $plan =~ /Parallel Custom Scan \(Rose Scan\)/;
	$merged++ if $plan =~ /Gather Merge(?=.*Parallel Custom Scan)/s;
	foreach my $how (keys %said)
	{
		$said{$how} = join("\n", sort split(/\n/, $said{$how})) if !$ordered;
	}
	foreach my $how (qw(alone parallel))
	{
		next if $said{$how} eq $said{heap};
		diag("PARALLEL_SEED=$seed: $what: $name, $how: $query\n$on\n$plan");
		my @rows = map { [ split /\n/, $said{$_} ] } 'heap', $how;
		my $i = 0;
		$i++ while defined $rows[0][$i] && defined $rows[1][$i] && $rows[0][$i] eq $rows[1][$i];
		diag(@{ $rows[0] } . ' rows of heap, ' . @{ $rows[1] } . " rows; row $i: '" . substr($rows[0][$i] // '-', 0, 300) . "' and '" . substr($rows[1][$i] // '-', 0, 300) . "'");
		fail("the same rows: $what");
		return 0;
	}
	$compared++;
	return 1;
}

sub queries
{
	my ($session, $what, $name, $n) = @_;

	for (1 .. $n)
	{
		same($session, $what, $name, @{ random_query($name) }) or return 0;
	}
	return 1;
}

my ($mine, $theirs) = ('n % 11 <> 5', 'n % 11 = 5');
change($both, $_, random_change($_, $mine)) foreach (@names) x 2;
STEP: for my $step (1 .. $steps)
{
	my $name = pick(@names);
	my $what = "step $step";

	change($beside, $name, random_change($name, $theirs)) if rand() < 0.3;
	if (rand() < 0.4)
	{
		# what the transaction wrote, some of it taken back; in memory, or in a private run
		$both->run('BEGIN ISOLATION LEVEL ' . pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'));
		change($both, $name, random_change($name, $mine)) foreach 1 .. between(1, 2);
		foreach (1 .. between(0, 2))
		{
			$both->run('SAVEPOINT s');
			change($both, $name, random_change($name, $mine));
			$both->run(pick('ROLLBACK TO s', 'RELEASE s', 'SELECT'));
		}
		$beside->run("SELECT rose.spill($_)") foreach rand() < 0.4 ? trees($name) : ();
		queries($both, "$what, own writes", $name, 3) or last STEP;
		queries($beside, "$what, another's writes", $name, 1) or last STEP;
		$both->run(pick('COMMIT', 'COMMIT', 'ROLLBACK'));
	}
	else
	{
		change($both, $name, random_change($name, $mine));
		my $do = pick('', 'spill', 'spill', 'merge');
		$beside->run("SELECT rose.$do($_)") foreach $do ? trees($name) : ();
		$both->run("ANALYZE twin_rose.$name, twin_heap.$name") if rand() < 0.2;
	}
	queries($both, $what, $name, 4) or last STEP;
	if ($step % 20 == 0)
	{
		# workers come to tables that nobody has touched yet
		$_->end foreach $both, $beside, $churn;
		crash_and_restart($node);
		($both, $beside, $churn) = map { RoseTest::Session->new($node) } 1 .. 3;
		queries($both, "$what, after a crash", $_, 1) or last STEP foreach @names;
	}
}
note("$planned queries, $parallel of them parallel, $merged in order");
is($compared, $planned, 'the same rows by several processes');
cmp_ok($parallel, '>', 0.6 * $planned, 'most plans are parallel');
cmp_ok($merged, '>', 0.03 * $planned, 'some keep the order of keys');

# ---- workers that do not come to their end ----

stop_points_create($node);
my $all = "SELECT count(*), sum(n) FROM twin_rose.number";
sql('INSERT INTO twin_rose.number SELECT i, i, i, md5(i::text) FROM generate_series(1000000, 1040000) i');
sql("SELECT rose.merge('twin_rose.number')");
my $expected = sql($all);
my $settings = 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET rose.interval_leaves = 1; SET parallel_leader_participation = off; SET rose.enable_aggregate = off';
my $workers = "FROM pg_stat_activity WHERE backend_type = 'parallel worker'";
my $keeper = RoseTest::Session->new($node);

like(sql("$settings; EXPLAIN $all"), qr/Workers Planned: 2\n.*\n.*Parallel Custom Scan \(Rose Scan\)/, 'a parallel query');
foreach my $how ('cancel', 'terminate', 'error', 'end')
{
	my $action = { error => 'error', end => 'terminate' }->{$how} // 'wait';
	my $session = RoseTest::Session->new($node);
	my $pid = $session->run('SELECT pg_backend_pid()');

	$session->run($settings);
	$keeper->run("SELECT stop_clear(); SELECT stop_at('batches-interval', '$action', 'worker', 3, 1)");
	$session->start($all);
	if ($action eq 'wait')
	{
		wait_for_stop($node);
		sql($how eq 'cancel' ? "SELECT pg_cancel_backend($pid)" : "SELECT pg_terminate_backend(pid) $workers AND wait_event_type = 'Lock'");
	}
	eval { $session->finish };
	like($@, { cancel => qr/canceling statement due to user request/, terminate => qr/terminating (connection|background worker|parallel)/i,
			error => qr/error at stop point/, end => qr/end at stop point/ }->{$how}, "$how: the query fails");
	$session->{err} = '';
	$keeper->run("SELECT go_on('batches-interval')") if $action eq 'wait';
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 $workers"), '... no worker is left');
	is($session->run($all), $expected, '... and the next one has all rows');
	$session->end;
}
is($keeper->run("SELECT stop_clear(); SELECT stop_at('batches-interval', 'skip', 'worker', 0, 0); $settings; $all; SELECT stop_hits('batches-interval') > 20"), "\n\n$expected\nt", 'workers take many intervals');
$keeper->run('SELECT stop_clear()');

# ---- plans that are kept, while the table changes ----

$keeper->run("SET plan_cache_mode = force_generic_plan; PREPARE p(int) AS SELECT count(*), sum(n), min(k) FROM twin_rose.number WHERE k >= \$1 AND n > \$1");
like($keeper->run('EXPLAIN EXECUTE p(1)'), qr/Parallel Custom Scan/, 'a generic plan');
is($keeper->run('EXECUTE p(1000000)'), sql('SELECT count(*), sum(n), min(k) FROM twin_rose.number WHERE k >= 1000000 AND n > 1000000'), '... has all rows');
sql("ALTER TABLE twin_rose.number ADD COLUMN added int DEFAULT 3; UPDATE twin_rose.number SET n = 5 WHERE k % 3 = 0; DELETE FROM twin_rose.number WHERE k > 1030000");
is($keeper->run('EXECUTE p(4)'), sql('SELECT count(*), sum(n), min(k) FROM twin_rose.number WHERE k >= 4 AND n > 4'), '... after changes');
sql('TRUNCATE twin_rose.number');
is($keeper->run('EXECUTE p(4)'), '0||', '... of nothing');

# ---- what is never parallel ----

# what random changes have left of the others may be next to nothing
sql("CREATE TABLE fixed (n int PRIMARY KEY, t text) USING rose; INSERT INTO fixed SELECT i, md5(i::text) FROM generate_series(1, 5000) i; ANALYZE fixed");
like(sql("$settings; EXPLAIN SELECT n FROM fixed"), qr/Gather/, 'what may be parallel');
unlike(sql("$settings; EXPLAIN SELECT ctid, n FROM fixed"), qr/Gather/, 'names of rows are one backend\'s');
unlike(sql("$settings; EXPLAIN SELECT n FROM fixed WHERE ctid > '(0,1)'"), qr/Gather/, '... in conditions, too');
unlike(sql("$settings; EXPLAIN SELECT n FROM fixed FOR UPDATE"), qr/Gather/, 'locks of rows');
unlike(sql("$settings; EXPLAIN UPDATE fixed SET n = 1"), qr/Gather/, 'changes');
unlike(sql("$settings; CREATE TEMP TABLE tmp USING rose AS SELECT * FROM fixed; EXPLAIN SELECT count(*) FROM tmp"), qr/Gather/, 'temporary tables');
unlike(sql("$settings; ALTER TABLE fixed SET (parallel_workers = 0); EXPLAIN SELECT count(*) FROM fixed"), qr/Gather/, 'a table whose option says so');
like(sql("$settings; RESET parallel_leader_participation; ALTER TABLE fixed SET (parallel_workers = 1); EXPLAIN SELECT count(*) FROM fixed"), qr/Workers Planned: 1/, '... or that one is enough');
unlike(sql('EXPLAIN SELECT count(*) FROM fixed'), qr/Gather/, 'a small table');

is(sql("SELECT count(*) FROM rose.check($_)"), 0, "nothing is wrong with $_") foreach map { trees($_) } @names;
$_->end foreach $both, $beside, $churn, $keeper;
$node->stop;
done_testing();
