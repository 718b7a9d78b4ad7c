
# Scans: the same rows in the same order as heap sorts them, forward, backward, turning
# around anywhere, from the start again and by TID, whatever the rows lie in: pieces
# of C2, C1, runs, C0, with changes in progress and aborted ones among them, while others
# write, spill and merge. A rose table's plain scan comes in key order, so it is compared
# with heap's ORDER BY.
#
#   SCAN_SEED     repeat a run
#   SCAN_ROUNDS   changes of each table, with scans after each; default 8
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

if ($ENV{ROSE_STANDIN})
{
	plan skip_all => 'heap has no order';
}

my $seed = seed_random('SCAN_SEED');
my $rounds = $ENV{SCAN_ROUNDS} // 8;

# Key columns, their expression of a number, and rows to begin with. Small buffers: leaves come
# from the disk and are read ahead.
my %tables = (
	number => { key => ['id'], types => ['bigint'], expr => ['%s'], rows => 30_000 },
	row_int => { key => ['id'], types => ['int'], expr => ['%s - 4000'], rows => 9_000 },
	day => { key => ['d'], types => ['date'], expr => [q{date '2000-01-01' + %s}], rows => 3_000 },
	word => { key => ['w'], types => ['text COLLATE "C"'], expr => [q{to_char(%s, 'FM000000') || 'abc'}], rows => 6_000 },
	pair => { key => [ 'g', 's' ], types => [ 'int', 'text' ], expr => [ '%1$s / 50', q{'s' || %1$s %% 50} ], rows => 6_000 });

my $node = rose_node('scans', "shared_buffers = '4MB'", "statement_timeout = '60s'",
	'rose.max_merge_workers = ' . (rand() < 0.5 ? 0 : 2), "rose.spill_interval = '2s'",
	'rose.debug_piece_size = ' . (rand() < 0.7 ? "'64kB'" : "'32MB'"));

my %session = map { $_ => RoseTest::Session->new($node) } qw(heap rose writer pending churn);
my ($compared, $problems, $many_runs) = (0, 0, 0);

sub pick { return $_[ rand @_ ]; }

sub key_list { my ($t, $suffix) = @_; return join(', ', map { "$_ " . ($suffix // '') } @{ $t->{key} }); }

sub key_values
{
	my ($t, $n) = @_;

	return join(', ', map { sprintf($_, $n) } @{ $t->{expr} });
}

foreach my $twin (qw(heap rose))
{
	$session{$twin}->run("CREATE SCHEMA twin_$twin; SET search_path = twin_$twin; SET extra_float_digits = 1");
	foreach my $name (sort keys %tables)
	{
		my $t = $tables{$name};
		my $columns = join(', ', map { "$t->{key}[$_] $t->{types}[$_]" } 0 .. $#{ $t->{key} });

		$session{$twin}->run("CREATE TABLE $name ($columns, n int, a int, b text, PRIMARY KEY (" . key_list($t) . ")) USING $twin");
	}
}

# Changes both twins in one session.
sub change
{
	my ($who, $name, $sql) = @_;

	foreach my $twin (qw(heap rose))
	{
		$session{$who}->run($sql =~ s/\bT\b/twin_$twin.$name/gr);
	}
	return;
}

sub insert_sql
{
	my ($t, $from, $to, $step) = @_;

	return 'INSERT INTO T SELECT ' . key_values($t, 'i') . ", i, i % 97, repeat('x', i % 9) || i"
	  . " FROM generate_series($from, $to, $step) i ON CONFLICT DO NOTHING";
}

# A random change of a range or of scattered rows.
sub random_change
{
	my ($t) = @_;
	my $rows = $t->{rows};
	my $modulus = pick(2, 3, 10, 50, 400);
	my $from = int(rand($rows * 1.2));
	my $to = $from + pick(0, 10, 500, $rows);
	my $where = "n BETWEEN $from AND $to AND n % $modulus = " . int(rand($modulus));

	return pick(
		"UPDATE T SET a = a + 1, b = b || '.' WHERE $where",
		"UPDATE T SET a = a + 1 WHERE $where",
		"DELETE FROM T WHERE $where AND n % 3 = 0",
		insert_sql($t, $from, $to, pick(1, 2, 7)));
}

# In between, at any moment.
sub disturb
{
	my ($name) = @_;
	my $what = rand();

	$session{churn}->run("SELECT rose.spill('twin_rose.$name')") if $what < 0.3;
	$session{churn}->run("SELECT rose.merge('twin_rose.$name')") if $what < 0.1;
	change('writer', $name, random_change($tables{$name}) =~ s/WHERE /WHERE n % 11 <> 5 AND /r) if $what > 0.8;
	return;
}

# Runs a statement on both; $sql->{rose} if it differs there.
sub compare
{
	my ($what, %sql) = @_;
	my %answer;

	foreach my $twin (qw(heap rose))
	{
		$session{$twin}->start($sql{$twin} // $sql{heap});
	}
	$answer{$_} = $session{$_}->finish foreach qw(heap rose);
	$compared++;
	return 1 if $answer{heap} eq $answer{rose};
	$problems++;
	my @rows = map { [ split /\n/, $answer{$_} ] } qw(heap rose);
	my $i = 0;
	$i++ while defined $rows[0][$i] && defined $rows[1][$i] && $rows[0][$i] eq $rows[1][$i];
	diag("SCAN_SEED=$seed, $what: $sql{heap}: " . scalar(@{ $rows[0] }) . ' rows of heap and ' . scalar(@{ $rows[1] })
		  . " of rose differ from row $i on: '" . ($rows[0][$i] // '-') . "' and '" . ($rows[1][$i] // '-') . "'");
	return 0;
}

sub random_fetch
{
	my $n = pick(1, 1, 2, 5, 37, 150, 1000);

	return pick(("FETCH FORWARD $n FROM c") x 4, ("FETCH BACKWARD $n FROM c") x 2, "MOVE FORWARD $n FROM c",
		"MOVE BACKWARD $n FROM c", 'FETCH ABSOLUTE ' . pick(1, 10, 700) . ' FROM c', 'FETCH LAST FROM c', 'FETCH FIRST FROM c');
}

sub scan_with_cursor
{
	my ($name) = @_;
	my $t = $tables{$name};
	my $order = 'ORDER BY ' . key_list($t);
	my $where = pick('', '', '', 'WHERE a % 3 = 1');
	my $isolation = pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
	my ($heap, $rose) = ("SELECT * FROM $name $where $order") x 2;
	my $keys_only = rand() < 0.25;
	my $kind = $keys_only ? 1 : rand();

	if ($keys_only)
	{
		my $from = int(rand($t->{rows}));
		my $range = pick('', 'WHERE (' . key_list($t) . ') ' . pick('>', '>=', '<', '<=') . ' (' . key_values($t, $from) . ')');
		$heap = $rose = "SELECT " . key_list($t) . " FROM $name $range ORDER BY " . key_list($t, pick('', '', 'DESC'));
	}
	elsif ($kind < 0.5)
	{
		$rose = "SELECT * FROM $name $where";	# plain
	}
	elsif ($kind < 0.7)
	{
		$heap = $rose = "SELECT * FROM $name $where ORDER BY " . key_list($t, 'DESC');
	}
	elsif ($kind < 0.9)
	{
		my $from = int(rand($t->{rows}));
		my $range = '(' . key_list($t) . ') ' . pick('>', '>=', '<', '<=') . ' (' . key_values($t, $from) . ')';
		$heap = $rose = "SELECT * FROM $name " . ($where eq '' ? "WHERE $range" : "$where AND $range") . " $order";
	}
	compare($name, heap => "BEGIN ISOLATION LEVEL $isolation; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off",
		rose => "BEGIN ISOLATION LEVEL $isolation; SET LOCAL enable_sort = " . ($kind < 0.5 ? 'on' : 'off'));
	compare($name, heap => 'SET LOCAL enable_seqscan = off') if $keys_only;
	my $own = rand() < 0.3;
	compare($name, heap => random_change($t) =~ s/\bT\b/$name/r =~ s/WHERE /WHERE n % 11 = 5 AND /r) if $own && $isolation ne 'SERIALIZABLE';
	my @before;
	my $good = compare($name, heap => "DECLARE c SCROLL CURSOR FOR $heap", rose => "DECLARE c SCROLL CURSOR FOR $rose");
	for (1 .. 6 + rand 10)
	{
		push @before, random_fetch();
		$good &&= compare("$name, $isolation, $rose", heap => $before[-1]);
		# else rows that this transaction has locked would be waited for
		disturb($name) if !$own && $isolation ne 'SERIALIZABLE';
	}
	$good &&= compare($name, heap => 'MOVE ABSOLUTE 0 FROM c; FETCH ALL FROM c');
	diag("  after: @before[0 .. $#before]") if !$good;
	compare($name, heap => 'COMMIT');
	return;
}

sub scan_whole
{
	my ($name) = @_;
	my $t = $tables{$name};
	my $order = 'ORDER BY ' . key_list($t);
	my ($n, $m) = (pick(1, 20, 600), pick(0, 3, 1000));

	compare($name, heap => "SELECT * FROM $name $order", rose => "SELECT * FROM $name");
	compare($name, heap => "SELECT count(*) FROM $name");
	compare($name, heap => "SELECT count(*), sum(a), sum(n), sum(length(b)), count(DISTINCT (" . key_list($t) . ")) FROM $name");
	compare($name, heap => "SELECT * FROM $name $order LIMIT $n OFFSET $m", rose => "SELECT * FROM $name LIMIT $n OFFSET $m");
	compare($name, heap => "SELECT g, x.* FROM generate_series(0, 3) g, LATERAL (SELECT count(*), sum(n) FROM $name WHERE a % 4 = g OFFSET 0) x");
	compare($name, heap => "SELECT * FROM $name WHERE ctid = ANY (ARRAY(SELECT ctid FROM $name WHERE n % 17 = 3)) $order");
	compare($name, heap => "SELECT x.* FROM (SELECT * FROM $name ORDER BY " . key_list($t, 'DESC') . ") x");
	# rows kept beyond the scan's next step
	compare($name, heap => "SELECT " . key_list($t) . ", lag(b) OVER w, lead(n) OVER w, max(b) OVER w FROM $name WINDOW w AS ($order ROWS 3 PRECEDING)");
	return;
}

# Index entries alone: many, a few, and those of a merge join, which comes back to where it was.
sub scan_keys
{
	my ($name) = @_;
	my $t = $tables{$name};
	my $keys = key_list($t);
	my ($lower, $upper) = map { '(' . key_values($t, int(rand($t->{rows}))) . ')' } 1 .. 2;

	compare($name, heap => 'BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off; '
		  . 'SET LOCAL enable_hashjoin = off; SET LOCAL enable_nestloop = off; SET LOCAL enable_material = off');
	compare($name, heap => "SELECT $keys FROM $name WHERE ($keys) BETWEEN least($lower, $upper) AND greatest($lower, $upper) ORDER BY $keys") if @{ $t->{key} } == 1;
	compare($name, heap => "SELECT $keys FROM $name WHERE ($keys) >= $lower ORDER BY $keys LIMIT " . pick(1, 4, 5, 6, 40, 500));
	compare($name, heap => "SELECT count(*), min($t->{key}[0]), max($t->{key}[0]) FROM $name");
	compare($name, heap => "SELECT count(*), count(DISTINCT x.$t->{key}[0]), count(DISTINCT y.$t->{key}[-1]) FROM $name x JOIN $name y USING ($t->{key}[0])");
	compare($name, heap => 'COMMIT');
	return;
}

foreach my $name (sort keys %tables)
{
	my $t = $tables{$name};

	change('writer', $name, insert_sql($t, 1, $t->{rows}, pick(1, 2)));
	$session{churn}->run("SELECT rose.spill('twin_rose.$name'); SELECT rose.merge('twin_rose.$name')");
}
foreach my $round (1 .. $rounds)
{
	foreach my $name (sort keys %tables)
	{
		my $t = $tables{$name};

		for (1 .. 1 + rand 3)
		{
			change('writer', $name, random_change($t));
			$session{churn}->run("SELECT rose.spill('twin_rose.$name')") if rand() < 0.5;
		}
		change('writer', $name, 'BEGIN; ' . random_change($t) . '; ROLLBACK') if rand() < 0.3;
		change('writer', $name, 'BEGIN; SAVEPOINT s; ' . random_change($t) . '; ROLLBACK TO s; ' . random_change($t) . '; COMMIT') if rand() < 0.3;
		$session{churn}->run("SELECT rose.merge('twin_rose.$name')") if rand() < 0.15;

		scan_with_cursor($name);
		# changes that are not committed, and stay so
		$session{pending}->run('BEGIN');
		change('pending', $name, random_change($t));
		scan_whole($name);
		scan_keys($name);
		$session{pending}->run(pick('COMMIT', 'ROLLBACK'));
		scan_with_cursor($name);
		last if $problems > 5;
	}
	last if $problems > 5;
}

# More runs than that, all of them with rows in turns.
no_merge_workers($node);
foreach my $name (sort keys %tables)
{
	my $t = $tables{$name};

	last if $problems > 5;
	foreach my $run (1 .. 14)
	{
		change('writer', $name, "UPDATE T SET a = a + 1 WHERE n % 40 IN ($run, " . int(rand(40)) . ')');
		$session{churn}->run("SELECT rose.spill('twin_rose.$name')");
	}
	change('writer', $name, random_change($t));
	$many_runs++ if $node->safe_psql('postgres', "SELECT count(*) FROM rose.components('twin_rose.$name') WHERE kind = 'run'") > 8;
	scan_whole($name);
	scan_keys($name);
	scan_with_cursor($name);
}
cmp_ok($many_runs, '>=', 2, 'tables had many runs') if !$problems;
is($problems, 0, "$compared answers were the same on heap and on rose");
cmp_ok($compared, '>', 100 * $rounds, 'enough was compared') if !$problems;
foreach my $name (sort keys %tables)
{
	is($node->safe_psql('postgres', "SELECT * FROM rose.check('twin_rose.$name')"), '', "$name is sound");
}

# A cursor goes over rows in memory without looking at them; then they are written to disk, replaced
# and merged, and it looks.
$node->safe_psql('postgres', 'CREATE TABLE moved (id int PRIMARY KEY, a int, t text) USING rose');

# All rows in memory, as in the beginning.
sub again
{
	$node->safe_psql('postgres', 'TRUNCATE moved');
	$node->safe_psql('postgres', q{INSERT INTO moved SELECT i, i % 10, md5(i::text) FROM generate_series(1, 3000) i ORDER BY i * 7919 % 3001});
	return;
}
again();
my $expected = $node->safe_psql('postgres', 'SELECT * FROM moved ORDER BY id LIMIT 300 OFFSET 1500');
my $keys_only = 'SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off';
like($session{rose}->run("BEGIN; $keys_only; EXPLAIN (COSTS OFF) SELECT id FROM public.moved ORDER BY id; COMMIT"), qr/Index Only Scan/, 'a plan that takes keys alone');
foreach my $meanwhile ('SELECT 1', q{SELECT rose.spill('moved')}, q{UPDATE moved SET a = a + 1, t = 'new'; SELECT rose.spill('moved'); SELECT rose.merge('moved')})
{
	$session{rose}->run('BEGIN; DECLARE c CURSOR FOR SELECT * FROM public.moved; MOVE 1500 FROM c');
	$node->safe_psql('postgres', $_) foreach split /; /, $meanwhile;
	is($session{rose}->run('FETCH 300 FROM c'), $expected, "rows of before: $meanwhile");
	$session{rose}->run('COMMIT');
	again();
	$session{rose}->run("BEGIN; $keys_only; DECLARE c CURSOR FOR SELECT id FROM public.moved WHERE id > 0 ORDER BY id; MOVE 1490 FROM c; FETCH 10 FROM c");
	$node->safe_psql('postgres', $_) foreach split /; /, $meanwhile;
	is($session{rose}->run('FETCH 300 FROM c'), $expected =~ s/\|.*//mgr, "keys of before: $meanwhile");
	$session{rose}->run('COMMIT');
	again();
	$session{rose}->run("BEGIN; $keys_only; DECLARE c CURSOR FOR SELECT * FROM public.moved ORDER BY id DESC; MOVE 1200 FROM c");
	$node->safe_psql('postgres', $_) foreach split /; /, $meanwhile;
	is($session{rose}->run('FETCH 300 FROM c'), join("\n", reverse split /\n/, $expected), "rows of before, backward: $meanwhile");
	$session{rose}->run('COMMIT');
	again();
}

# Rows in memory with older versions of all ages among them, some of which the scan's transaction has
# written itself, and rows that are gone: backward, from any place, by rows and by keys, turning around.
my $in_memory = 4000;
foreach my $twin (qw(heap rose))
{
	$session{$twin}->run("CREATE TABLE ages (id int, part text COLLATE \"C\", a int, t text, PRIMARY KEY (id, part)) USING $twin");
	$session{$twin}->run(qq{INSERT INTO ages SELECT i / 3, repeat('long enough to be no part of a prefix', i % 3) || i % 3, 0, md5(i::text)
		FROM generate_series(1, $in_memory) i ORDER BY i * 7919 % 4001});
}
foreach my $round (1 .. 6)
{
	foreach my $change (1 .. 4)
	{
		my ($m, $r) = (pick(2, 3, 7, 40), int(rand(2)));

		compare('ages', heap => pick("UPDATE ages SET a = a + 1 WHERE id % $m = $r", "UPDATE ages SET a = a + 1, t = t || '.' WHERE id BETWEEN 100 AND 160",
				"DELETE FROM ages WHERE id % 50 = $r AND part LIKE 'long%'", "UPDATE ages SET t = 'x' WHERE id = 700"));
	}
	compare('ages', heap => "BEGIN; $keys_only");
	foreach my $own (1 .. 2)
	{
		compare('ages', heap => "UPDATE ages SET a = a + 1 WHERE id % 9 = $round; SAVEPOINT s; DELETE FROM ages WHERE id % 9 = 5; ROLLBACK TO s");
		compare('ages', heap => 'DECLARE c SCROLL CURSOR FOR SELECT * FROM ages ORDER BY id DESC, part DESC') if $own == 1;
	}
	compare('ages', heap => random_fetch()) foreach 1 .. 20;
	foreach my $range ('', 'WHERE id < ' . int(rand(1300)), 'WHERE id >= ' . int(rand(1300)), 'WHERE id BETWEEN 90 AND ' . (150 + int(rand(1000))))
	{
		compare('ages', heap => "SELECT * FROM ages $range ORDER BY id DESC, part DESC");
		compare('ages', heap => "SELECT id, part FROM ages $range ORDER BY id DESC, part DESC");
		compare('ages', heap => "SELECT id, part FROM ages $range ORDER BY id, part");
	}
	compare('ages', heap => 'COMMIT');
	compare('ages', heap => 'BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM ages ORDER BY id, part',
		rose => 'BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM ages');
	compare('ages', heap => "FETCH $_ FROM c") foreach 'LAST', 'BACKWARD 5', 'FORWARD 3', 'FORWARD 10', 'BACKWARD 300', 'FORWARD 20', 'ABSOLUTE 40', 'BACKWARD 60', 'FORWARD 9';
	compare('ages', heap => 'COMMIT');
}
is($problems, 0, 'rows in memory, backward');

# Such rows come by many at a time.  Nobody spills those of a transaction that is under way.
stop_points_create($node);
foreach my $columns ('*', 'id')
{
	$session{churn}->run("SELECT stop_at('scan-back-stretch', 'error', 'any', 2)");
	my ($code, $out, $err) = $node->psql('postgres', "BEGIN; TRUNCATE moved; INSERT INTO moved SELECT generate_series(1, 3000); "
		  . "$keys_only; SELECT $columns FROM moved ORDER BY id DESC");
	like($err, qr/scan-back-stretch/, "backward there are stretches of $columns");
	$session{churn}->run('SELECT stop_clear()');
}

# Who only counts rows at rest reads inner pages, no leaves; by a Rose Aggregate none at all.
sub blocks_of
{
	my ($sql, $aggregate) = @_;
	my $plan = $node->safe_psql('postgres', "SET rose.enable_aggregate = $aggregate; EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON) $sql");
	my ($hit) = $plan =~ /"Shared Hit Blocks": (\d+)/;
	my ($read) = $plan =~ /"Shared Read Blocks": (\d+)/;

	return $hit + $read;
}
$node->safe_psql('postgres', "ALTER SYSTEM SET rose.debug_piece_size = '32MB'; SELECT pg_reload_conf()");
$node->safe_psql('postgres', $_) foreach ('CREATE TABLE counted (id int PRIMARY KEY, t text) USING rose',
	q{INSERT INTO counted SELECT i, md5(i::text) FROM generate_series(1, 20000) i}, q{SELECT rose.spill('counted')}, q{SELECT rose.merge('counted')});
my %counted = map { $_ => blocks_of('SELECT count(*) FROM counted', $_) } qw(on off);
my $summed = blocks_of('SELECT sum(id) FROM counted', 'off');
foreach my $aggregate (qw(on off))
{
	is($node->safe_psql('postgres', "SET rose.enable_aggregate = $aggregate; SELECT count(*) FROM counted"), '20000', "Rose Aggregate $aggregate: all are counted");
	cmp_ok($counted{$aggregate}, '<', $summed / 3, "... count(*) read $counted{$aggregate} blocks, sum $summed");
}
cmp_ok($counted{on}, '<', $counted{off}, 'Rose Aggregate reads fewer');
$_->end foreach values %session;
$node->stop;
done_testing();
