
# More tables in use than rose.max_tables: in one transaction, by readers that stay, by many sessions at once, over
# a crash. What the registry lets go of and makes again has lost nothing.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no registry' if $ENV{ROSE_STANDIN};

my $tables = $ENV{MANY_TABLES} // 200;
my $seconds = 10;
my $node = rose_node('many', 'rose.max_tables = 16', 'max_locks_per_transaction = 512', "rose.spill_interval = '20ms'", 'log_statement = none');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# What all tables have together, in one transaction; and what rose.check finds wrong.
sub totals { return sql('SELECT count(*), sum(v) FROM all_rows()') }
sub problems { return sql("SELECT count(*) FROM generate_series(1, $tables) i, rose.check(('t' || i)::regclass)") }

sql(<<"SQL");
CREATE FUNCTION all_rows() RETURNS TABLE (i int, id int, v int) LANGUAGE plpgsql STABLE AS \$\$
BEGIN
	FOR i IN 1 .. $tables LOOP
		RETURN QUERY EXECUTE format('SELECT %s, id, v FROM t%s', i, i);
	END LOOP;
END \$\$;
DO 'BEGIN FOR i IN 1 .. $tables LOOP
	EXECUTE format(\$\$CREATE TABLE t%s (id int PRIMARY KEY, v int) USING rose\$\$, i);
	EXECUTE format(\$\$INSERT INTO t%s SELECT g, 0 FROM generate_series(1, 10) g\$\$, i);
END LOOP; END';
SQL
is(totals(), 10 * $tables . '|0', 'one transaction makes and fills them');
sql("DO 'BEGIN FOR i IN 1 .. $tables LOOP EXECUTE format(\$\$UPDATE t%s SET v = v + 1\$\$, i); END LOOP; END'");
is(totals(), 10 * $tables . '|' . 10 * $tables, 'one changes them');
$node->command_ok([ 'pg_dump', '-f', $node->basedir . '/dump.sql', $node->connstr('postgres') ], 'pg_dump reads them');

# Sessions that write to tables here and there, beside one that keeps its snapshot of all.
my $reader = RoseTest::Session->new($node);
my $seen = $reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*), sum(v) FROM all_rows()');
my $script = touch_script($node, $tables);
foreach my $held (1, 0)
{
	my $before = (split /\|/, totals())[1];
	my ($out, $err) = run_command([ 'pgbench', '-n', '-c', 6, '-T', $seconds, '-f', $script, $node->connstr('postgres') ]);
	my ($done) = $out =~ /actually processed: (\d+)/;

	is($err =~ s/^pgbench.*\n//mgr, '', 'no errors');
	cmp_ok($done, '>', 0, "sessions were busy: $done");
	is(totals(), 10 * $tables . '|' . ($before + $done), 'no change is lost');
	next unless $held;
	is($reader->run('SELECT count(*), sum(v) FROM all_rows()'), $seen, 'the reader sees what it saw');
	$reader->run('COMMIT');
}
is(problems(), 0, 'all are sound');

# What a table has counted goes with its entry. A new one lets idle ones go.
sql("DO 'BEGIN FOR i IN 1 .. $tables LOOP EXECUTE format(\$\$UPDATE t%s SET v = v + 1\$\$, i); END LOOP; END'");
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.stat_components WHERE kind = 'memtable' AND rows > 0") or fail('all is spilled');
my $counted = 'SELECT count(*) FROM rose.stat_merge_progress WHERE raw_bytes > 0';
sql("CREATE TABLE one_more_$_ (id int PRIMARY KEY) USING rose; INSERT INTO one_more_$_ VALUES (1)") foreach 1 .. 2;
cmp_ok(sql($counted), '<', $tables / 2, 'idle ones are let go of');

my $last = totals();
crash_and_restart($node);
is(totals(), $last, 'a crash loses nothing');
is(problems(), 0, 'all are sound after it');
sql("DO 'BEGIN FOR i IN 1 .. $tables LOOP EXECUTE format(\$\$DROP TABLE t%s\$\$, i); END LOOP; END'");
is(sql("SELECT count(*) FROM pg_class WHERE relname ~ '^t[0-9]+\$'"), 0, 'one transaction drops them');
$reader->end;
$node->stop;
done_testing();
