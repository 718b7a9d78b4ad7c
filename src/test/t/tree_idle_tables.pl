
# Tables that nobody uses have no shared memory: it goes when they were idle for a while, and is given back, unless there
# is something in it that their files do not have, or a transaction has looked at them. Sessions that had used
# them find them again.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'the stand-in has no registry' if $ENV{ROSE_STANDIN};

my $tables = $ENV{MANY_TABLES} // 300;
my $node = rose_node('idle', "rose.idle_table_timeout = '200ms'", 'max_locks_per_transaction = 512', "rose.spill_interval = '1h'", 'autovacuum = off', 'log_statement = none',
	'max_prepared_transactions = 2');

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub each_table { return sql("DO 'BEGIN FOR i IN 1 .. $tables LOOP EXECUTE format(\$\$$_[0]\$\$, i); END LOOP; END'") }
sub in_use { return sql('SELECT tables FROM rose.stat_memory') }

# Longer than the launcher takes to notice idle tables, twice.
sub wait_a_while { sleep(5); return }

# Bytes of dynamic shared memory that the launcher has mapped, that of tables among them.
sub dynamic_bytes
{
	my $pid = sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'rose maintenance launcher'");
	my %segments = map { m{(/dev/shm/PostgreSQL\.\d+)} ? ($1 => 1) : () } split /\n/, slurp_file("/proc/$pid/maps");
	my $blocks = 0;

	$blocks += (stat($_))[12] foreach keys %segments;
	return 512 * $blocks;
}

sub until_forgotten
{
	my ($bytes, $what) = @_;

	ok($node->poll_query_until('postgres', "SELECT tables = 0 AND table_bytes <= $bytes FROM rose.stat_memory"), "$what: they take no memory");
	return;
}

sql(<<"SQL");
CREATE FUNCTION all_rows() RETURNS TABLE (i int, id int, v int) LANGUAGE plpgsql STABLE AS \$\$
BEGIN
	FOR i IN 1 .. $tables LOOP
		RETURN QUERY EXECUTE format('SELECT %s, id, v FROM t%s', i, i);
	END LOOP;
END \$\$;
SQL
my $least = sql('SELECT table_bytes FROM rose.stat_memory');
each_table('CREATE TABLE t%1$s (id int PRIMARY KEY, v int) USING rose; INSERT INTO t%1$s SELECT g, 0 FROM generate_series(1, 10) g');

# --- unwritten rows
my $total = 10 * $tables . '|0';
wait_a_while();
is(in_use(), $tables, 'tables with unwritten rows stay');
my $most = sql('SELECT table_bytes FROM rose.stat_memory');
cmp_ok($most, '>', $least + $tables * 1000, 'and have memory');
is(sql('SELECT count(*), sum(v) FROM all_rows()'), $total, 'with their rows');
each_table("UPDATE t%s SET v = v + 1 WHERE id = 3");
is(sql("SELECT max(tail_log_bytes) FROM rose.stat_space"), 8192, 'nobody had to read a tail log, or begin another one');

# --- written ones
my $session = RoseTest::Session->new($node);
is($session->run('SELECT count(*), sum(v) FROM all_rows()'), 10 * $tables . "|$tables", 'a session that has used all of them');
sql("SELECT count(rose.spill(('t' || i)::regclass)) FROM generate_series(1, $tables) i");
my $dynamic = $^O eq 'linux' ? dynamic_bytes() : 0;
until_forgotten($least, 'spilled');
cmp_ok($dynamic - dynamic_bytes(), '>=', 0.95 * ($most - $least), 'which the operating system has again, beside a session that had used them') if $^O eq 'linux';
is($session->run('SELECT count(*), sum(v) FROM all_rows()'), 10 * $tables . "|$tables", 'uses them again');
is(sql('SELECT count(*) FROM generate_series(1, ' . $tables . ") i, rose.check(('t' || i)::regclass)"), 0, 'rose.check');

# --- a transaction that has looked at them
$session->run('BEGIN; SELECT count(*) FROM all_rows()');
wait_a_while();
is(in_use(), $tables, 'tables that a transaction has looked at stay');
$session->run('COMMIT');
until_forgotten($least, 'at its end');

# --- a prepared one, which nobody runs
$session->run("BEGIN; UPDATE t7 SET v = v + 1; SELECT FROM t8 FOR UPDATE; PREPARE TRANSACTION 'p'");
wait_a_while();
is(in_use(), 2, 'what a prepared transaction has changed or locked stays');
my (undef, undef, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; UPDATE t8 SET v = v + 1 WHERE id = 1");
like($err, qr/lock timeout/, 'with its locks');
sql("COMMIT PREPARED 'p'");
sql("SELECT rose.spill('t7'), rose.spill('t8')");
until_forgotten($least, 'committed');

# --- memory that comes back elsewhere, under sessions that remember where it was
foreach my $round (1 .. 3)
{
	sql("CREATE TABLE other_${round}_$_ (id int PRIMARY KEY) USING rose; INSERT INTO other_${round}_$_ VALUES (1)") foreach 1 .. 5;
	is($session->run('SELECT count(*), sum(v) FROM all_rows()'), 10 * $tables . '|' . ($tables + 10), "round $round: the session finds its tables");
	sql("SELECT count(rose.spill(c.oid)) FROM pg_class c WHERE relname ~ '^other_' AND relkind = 'r'");
	until_forgotten($least, "round $round");
	sql("DROP TABLE other_${round}_$_") foreach 1 .. 5;
}

# --- a worker is not started for what has been forgotten
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.stat_worker WHERE pid IS NOT NULL"), 'the worker ends');
my $started = sql('SELECT max(backend_start) FROM rose.stat_worker');
$session->run('SELECT count(*) FROM t1');
until_forgotten($least, 'one more');
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.stat_worker WHERE pid IS NOT NULL"), 'the worker that has looked at it ends');
$started = sql('SELECT max(backend_start) FROM rose.stat_worker');
wait_a_while();
is(sql('SELECT max(backend_start) FROM rose.stat_worker'), $started, 'and no other one is started');

# --- all at once
sql("ALTER SYSTEM SET rose.idle_table_timeout = '10ms'; ALTER SYSTEM SET rose.spill_interval = '20ms'");
$node->reload;
my $script = touch_script($node, $tables);
my $before = (split /\|/, sql('SELECT count(*), sum(v) FROM all_rows()'))[1];
my ($out, $stderr) = run_command([ 'pgbench', '-n', '-c', 6, '-T', 10, '-f', $script, $node->connstr('postgres') ]);
my ($done) = $out =~ /actually processed: (\d+)/;
is($stderr =~ s/^pgbench.*\n//mgr, '', 'no errors');
is(sql('SELECT count(*), sum(v) FROM all_rows()'), 10 * $tables . '|' . ($before + $done), "$done changes, none is lost");
until_forgotten($least, 'afterwards');
crash_and_restart($node);
is(sql('SELECT count(*), sum(v) FROM all_rows()'), 10 * $tables . '|' . ($before + $done), 'nor by a crash');
$session->end;
$node->stop;
done_testing();
