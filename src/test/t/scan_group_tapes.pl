
# Groups of a Rose Aggregate whose rows go to tapes, since memory is little: in cursors that outlive their transaction, or of which rows are fetched in subtransactions that are
# taken back; in subqueries that are read again with other parameters, and not to their end; by several processes; with a limit for temporary files, and
# cancelled at any time; when a row that others have changed is looked at once more; and when the server is killed. Each time the answer is heap's, or the error that was
# asked for, and no file is left. Environment: TAPES_SEED, TAPES_QUERIES.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseSqlTables;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no Rose Aggregate' if $ENV{ROSE_STANDIN};

my $seed = seed_random('TAPES_SEED');
my $queries = $ENV{TAPES_QUERIES} // how_many(25, 400);
my $rows = 3000;
my $node = rose_node('tapes', 'rose.max_merge_workers = 0', 'autovacuum = off', 'rose.debug_piece_size = ' . pick("'64kB'", "'32MB'"), 'restart_after_crash = on');
my %session = map { $_ => RoseTest::Session->new($node) } qw(heap rose);

sub sql { return $node->safe_psql('postgres', $_[0]) }

foreach my $twin (qw(heap rose))
{
	sql("CREATE SCHEMA twin_$twin; CREATE TABLE twin_$twin.t (n int PRIMARY KEY, a int, b text, c numeric, d float8, e timestamptz, f int, large text) USING $twin;
		CREATE TABLE twin_$twin.o (x int PRIMARY KEY, y int) USING $twin; INSERT INTO twin_$twin.o SELECT g, g * 500 FROM generate_series(1, 5) g;
		INSERT INTO twin_$twin.t SELECT g, hashint4(g) % 2500, 'w' || hashint4(g + 1) % 2000 || repeat('=', abs(hashint4(g)) % 40), hashint4(g + 2) % 3000 / 4.0, hashint4(g + 3) % 2000 / 8.0, timestamptz '2026-01-01 00:00+00' + hashint4(g + 4) % 3000 * interval '7 min',
		CASE WHEN g % 5 > 0 THEN hashint4(g + 5) % 1000 END, CASE WHEN g % 50 = 0 THEN repeat(md5(g::text), 300) END FROM generate_series(1, $rows) g");
	sql("ANALYZE twin_$twin.t; ANALYZE twin_$twin.o");
}
sql("SELECT rose.spill('twin_rose.t'), rose.merge('twin_rose.t'); UPDATE twin_rose.t SET f = f + 1 WHERE n % 9 = 0; UPDATE twin_heap.t SET f = f + 1 WHERE n % 9 = 0; SELECT rose.spill('twin_rose.t'); UPDATE twin_rose.t SET a = a + 1 WHERE n % 11 = 0; UPDATE twin_heap.t SET a = a + 1 WHERE n % 11 = 0");

sub prepare_session
{
	my ($twin) = @_;

	$session{$twin}->run("SET search_path = twin_$twin; SET client_min_messages = error; SET extra_float_digits = 1; SET timezone = 'UTC'; SET enable_sort = off; SET enable_hashagg = on");
	$session{$twin}->run("SET rose.scan_min_rows = 0; SET rose.aggregate_sample = 1000000; SET cpu_tuple_cost = 1") if $twin eq 'rose';
	return;
}
prepare_session($_) foreach qw(heap rose);

# What is said, or the error's code.
sub said
{
	my ($twin, $text) = @_;
	my $session = $session{$twin};
	my $said = eval { $session->run($text) };

	return $said if defined $said;
	die $session->{err} if $session->{err} !~ /ERROR/ || $session->{err} =~ /FATAL|XX000|terminated/;
	my ($error) = $session->{err} =~ /ERROR:\s+(.*)/;
	# the rest of what was sent
	$session->{psql}->pump until $session->{out} =~ /^end of $session->{n}\n/m;
	$session->{err} = '';
	return "error: $error";
}

sub sorted { return join("\n", sort grep { $_ ne '' } split(/\n/, $_[0])) }

# Grouped rows; of what is given out of keys that are equal, and of sums of floats, heap says the same.
sub grouped
{
	my ($where) = @_;
	my @keys = (pick('a', 'b', 'trim_scale(c)', 'd', 'e', 'a, b', 'n % 1997', 'lower(b)', 'a, f', "date_trunc('hour', e)", 'b, trim_scale(c), d', 'n', 'coalesce(f, a)', 'length(large), a'));
	my @of = ('count(*)', 'sum(f)', 'min(b)', 'max(b)', 'avg(c)', 'sum(c)', 'min(d)', 'max(e)', 'count(f) FILTER (WHERE a % 3 = 1)', 'bool_and(f > 300)', 'sum(a::int8)', 'max(length(large))', 'min(f) FILTER (WHERE b > \'w5\')', 'sum(n % 7)', 'count(large)');
	my %seen;
	my @list = grep { !$seen{$_}++ } map { pick(@of) } 1 .. pick(1, 2, 4, 6);

	return "SELECT $keys[0], " . join(', ', map { $list[$_] =~ /avg|sum\(c/ ? "trim_scale($list[$_]) AS s$_" : "$list[$_] AS s$_" } 0 .. $#list) . " FROM t $where GROUP BY $keys[0]" . (rare(0.2) ? ' HAVING ' . pick('count(*) > 1', 'min(n) % 3 > 0', 'sum(f) IS NOT NULL') : '');
}

sub condition { return pick('', '', 'WHERE n % 5 > 1', 'WHERE f IS NOT NULL', 'WHERE a > 0 OR b < \'w3\'', 'WHERE n * 2 % 7 <> 3') }

# Settings, and how many batches there were of a plan at least: that groups went to tapes.
sub little_memory { return pick("SET rose.aggregate_memory = '" . pick(0, 8, 16, 64) . "kB'", "SET rose.aggregate_memory = -1; SET work_mem = '64kB'; SET hash_mem_multiplier = 1") }

my $batches = 0;
my ($different, $limited, $cancelled) = (0, 0, 0);

sub note_batches
{
	my ($query) = @_;
	my $plan = said('rose', "EXPLAIN (ANALYZE, COSTS off, TIMING off) $query");

	$batches++ if $plan =~ /Rose Aggregate/ && $plan =~ /Batches: (\d+)/ && $1 > 1;
	return;
}

sub temporary_files { return sql("SELECT count(*) FROM pg_ls_tmpdir()") }

sub compare
{
	my ($what, $query, %said) = @_;

	return if sorted($said{heap}) eq sorted($said{rose});
	$different++;
	diag("TAPES_SEED=$seed: $what: $query");
	diag(first_unequal(map { sorted($said{$_}) } qw(heap rose)));
	return;
}

# Outlives its transaction, in which some of it was fetched before or after rows were changed, spilled and merged.
sub held_cursor
{
	my $query = grouped(condition());
	my %said;

	note_batches($query);
	my ($some, $more) = (pick(1, 2, 50, 3000), pick(1, 100));
	my $between = pick('', 'DELETE FROM t WHERE n % 3 = 1', 'UPDATE t SET a = 1, b = \'x\'');
	my $end = pick('COMMIT', 'COMMIT', 'SAVEPOINT b; ROLLBACK TO b; COMMIT');
	$end = 'ROLLBACK' if $between;
	foreach my $twin (qw(heap rose))
	{
		$said{$twin} = said($twin, 'BEGIN; DECLARE q CURSOR ' . ($end eq 'ROLLBACK' ? '' : 'WITH HOLD') . " FOR $query; FETCH $some FROM q");
		said($twin, $between) if $between;
		if ($twin eq 'rose' && rare(0.5))
		{
			sql("SELECT rose.spill('twin_rose.t')");
		}
		if ($end eq 'ROLLBACK')
		{
			$said{$twin} .= "\n" . said($twin, 'FETCH ALL FROM q');
			said($twin, 'ROLLBACK');
			next;
		}
		said($twin, $end);
		sql("SELECT rose.spill('twin_rose.t'), rose.merge('twin_rose.t')") if $twin eq 'rose' && rare(0.3);
		$said{$twin} .= "\n" . said($twin, "FETCH $more FROM q") . "\n" . said($twin, 'FETCH ALL FROM q');
		said($twin, 'CLOSE q');
	}
	compare("a cursor, $end", $query, %said);
	return;
}

# Rows are fetched in subtransactions, some of which are taken back; what was fetched was fetched.
sub cursor_in_subtransactions
{
	my $query = grouped(condition());
	my @steps = map { [ pick(1, 2, 10, 300), pick('ROLLBACK TO a', 'RELEASE a'), rare(0.3) ] } 1 .. 4;
	my %said;

	note_batches($query);
	foreach my $twin (qw(heap rose))
	{
		$said{$twin} = said($twin, "BEGIN; DECLARE q CURSOR FOR $query");
		foreach my $step (@steps)
		{
			$said{$twin} .= "\n" . said($twin, 'SAVEPOINT a' . ($step->[2] ? '; UPDATE t SET f = 0 WHERE n % 100 = 1' : '') . "; FETCH $step->[0] FROM q");
			said($twin, $step->[1]);
		}
		$said{$twin} .= "\n" . said($twin, 'FETCH ALL FROM q');
		said($twin, 'ROLLBACK');
	}
	compare('in subtransactions', $query, %said);
	return;
}

# Again and again with other parameters, to the end or not.
sub read_again
{
	my $inner = grouped('WHERE n ' . pick('<', '>=', '<>') . ' o.y' . pick('', ' AND f IS NOT NULL', ' AND n % 3 <> o.x % 3'));
	my $columns = pick('count(*), sum(hashtext(s::text)::int8)', 'count(*), max(s0)', 'count(DISTINCT s0)');
	my $query = pick("SELECT o.x, z.* FROM o, LATERAL (SELECT $columns FROM ($inner) s) z", "SELECT o.x, (SELECT count(*) FROM ($inner) s WHERE s0 IS NOT NULL) FROM o",
		"SELECT o.x FROM o WHERE EXISTS (SELECT FROM ($inner) s WHERE s0::text > '5')", "SELECT o.x, z.c FROM o, LATERAL (SELECT count(*) AS c FROM ($inner LIMIT " . pick(1, 40, 1000) . ') s) z',
		"SELECT x.x, z.* FROM (SELECT x, y FROM o UNION ALL SELECT -x, y FROM o) x JOIN LATERAL (SELECT count(*), sum(hashtext(s::text)::int8) FROM (" . ($inner =~ s/\bo\./x./gr) . ') s) z ON true');

	note_batches($query);
	compare('read again', $query, map { $_ => said($_, $query) } qw(heap rose));
	return;
}

# By several processes.
sub parallel
{
	my $inner = grouped(condition());
	my $query = pick($inner, "SELECT o.x, z.* FROM o, LATERAL (SELECT count(*), sum(hashtext(s::text)::int8) FROM ($inner) s WHERE s0::text <> o.y::text) z");
	my $settings = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET rose.interval_leaves = 1; SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = ' . pick('on', 'off');

	said('rose', $settings);
	note_batches($query);
	compare('parallel', $query, map { $_ => said($_, $query) } qw(heap rose));
	said('rose', 'RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET max_parallel_workers_per_gather');
	return;
}

# Files may not get large, or no time is left; in subtransactions of a function, too, which goes on.
sub limits
{
	my $inner = grouped(condition());
	my $count = "SELECT count(*), sum(hashtext(s::text)::int8) FROM ($inner) s";
	my $heap = said('heap', $count);
	my $set = rare(0.5) ? 'SET temp_file_limit = \'' . pick(64, 128, 256, 1000) . 'kB\'' : "SET statement_timeout = '" . pick(1, 3, 8, 20) . "ms'";

	note_batches($inner);
	foreach (1 .. 3)
	{
		my $said = said('rose', "$set; $count");
		said('rose', 'RESET temp_file_limit; RESET statement_timeout');
		$limited++ if $said =~ /temporary file size exceeds/;
		$cancelled++ if $said =~ /statement timeout/;
		compare($set, $count, heap => $heap, rose => $said) if $said !~ /^error: (temporary file size exceeds|canceling statement due to statement timeout)/;
	}
	my $text = $count =~ s/'/''/gr;
	my $said = said('rose', "DO \$do\$ DECLARE i int; BEGIN FOR i IN 1 .. 5 LOOP BEGIN PERFORM set_config('temp_file_limit', (32 * i * i)::text, true); EXECUTE '$text'; EXCEPTION WHEN configuration_limit_exceeded THEN NULL; END; END LOOP; END \$do\$; $count");
	compare('after subtransactions that failed', $count, heap => $heap, rose => $said);
	return;
}

foreach my $n (1 .. $queries)
{
	said('rose', little_memory()) if $n % 5 == 1;
	pick(\&held_cursor, \&held_cursor, \&cursor_in_subtransactions, \&read_again, \&read_again, \&parallel, \&limits)->();
	my $left = temporary_files();
	$different++, diag("TAPES_SEED=$seed: $left temporary files are left") if $left > 0;
	last if $different;
}
note("$queries queries, $batches with batches, $limited were limited, $cancelled cancelled");
is($different, 0, "answers are heap's");
cmp_ok($batches, '>', 0.3 * $queries, 'groups went to tapes');

# Read again when some batches were not read: after each reading that ends early there is a whole one.
foreach my $limit (1, 40, 1200)
{
	my $query = "SELECT o.x, z.* FROM o, LATERAL (SELECT count(*) AS c, CASE WHEN o.x % 2 = 0 THEN sum(hashtext(s::text)::int8) END FROM (SELECT a, b, count(*), sum(f), count(f) FROM t WHERE n <> o.y GROUP BY a, b LIMIT CASE WHEN o.x % 2 = 1 THEN $limit END) s) z";

	said('rose', "SET rose.aggregate_memory = '8kB'");
	like(said('rose', "EXPLAIN (ANALYZE, COSTS off, TIMING off) $query"), qr/Rose Aggregate.*loops=5.*Batches: \d\d/s, 'batches of groups are read again');
	compare('read again when some batches were not read', $query, map { $_ => said($_, $query) } qw(heap rose));
}
is($different, 0, 'batches that were not read are forgotten');

# A row that others have changed, with a subquery whose groups go to tapes.
foreach my $n (1 .. 6)
{
	my $groups = grouped("WHERE n " . pick('<', '>') . ' o.y');
	my @statements = ("UPDATE o SET y = y + (SELECT count(*) FROM ($groups) s)::int WHERE x IN (3, 4) AND y > 0 RETURNING x, y",
		"DELETE FROM o WHERE x IN (3, 4) AND (SELECT count(*) FROM ($groups) s) >= 0 AND y % 2 = 0 RETURNING x, y", "SELECT x, y, (SELECT sum(hashtext(s::text)::int8) FROM ($groups) s) FROM o WHERE x IN (3, 4) FOR UPDATE");
	my $statement = pick(@statements);
	my %said;

	foreach my $twin (qw(heap rose))
	{
		my $other = RoseTest::Session->new($node);

		said($twin, 'BEGIN');
		$other->run("BEGIN; UPDATE twin_$twin.o SET y = y + 4 WHERE x = 3; UPDATE twin_$twin.t SET f = 7 WHERE n % 100 = 3");
		$session{$twin}->start($statement);
		$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)") or die sql("SELECT string_agg(concat_ws(' ', state, wait_event, query), E'\n') FROM pg_stat_activity WHERE backend_type = 'client backend'") . "$session{$twin}->{err} $session{$twin}->{out}";
		$other->run('COMMIT');
		$said{$twin} = $session{$twin}->finish;
		said($twin, 'ROLLBACK');
		$other->end;
	}
	compare('changed by others', $statement, %said);
}
is($different, 0, 'rows that others have changed are looked at once more');

# A process is killed while groups are on tapes.
said('rose', "SET rose.aggregate_memory = '8kB'");
my $pid = said('rose', 'SELECT pg_backend_pid()');
said('rose', 'BEGIN; SET LOCAL cursor_tuple_fraction = 1; DECLARE q CURSOR FOR SELECT a, b, count(*) FROM t GROUP BY a, b; FETCH 1 FROM q');
cmp_ok(temporary_files(), '>', 0, 'there are tapes');
kill 'KILL', $pid;
$session{$_}->end foreach qw(heap rose);
$node->wait_for_log(qr/was terminated by signal 9/);
wait_until_up($node);
$session{rose} = RoseTest::Session->new($node);
prepare_session('rose');
is(temporary_files(), 0, 'no file is left');
said('rose', "SET rose.aggregate_memory = '8kB'");
is(said('rose', 'SELECT count(*), sum(s) FROM (SELECT a, b, count(*) AS s FROM t GROUP BY a, b) s'), sql('SELECT count(*), sum(s) FROM (SELECT a, b, count(*) AS s FROM twin_heap.t GROUP BY a, b) s'), 'and groups are made');
$session{rose}->end;
$node->stop;
done_testing();
