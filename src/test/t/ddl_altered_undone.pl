# A transaction that changes columns, takes changes back, changes others, and writes more than fits memory between them does what
# it does to heap: columns that are taken back in the middle, others in their places, dropped ones that come back.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('altered', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", scan_settings(), 'autovacuum = off', 'fsync = off',
	'max_prepared_transactions = 5', "statement_timeout = '50s'");

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Rows from..to, more than fits memory if they are thousands.
sub load { return "INSERT INTO TAB (id, v, w) SELECT g, g, repeat(md5(g::text), 15) FROM generate_series($_[0], $_[1]) g" }

# The same for a rose and a heap table.
sub both
{
	my ($name, $script) = @_;
	my %failed;

	foreach my $table ("${name}_r", "${name}_h")
	{
		my ($rc, $out, $err) = $node->psql('postgres', $script =~ s/\bTAB(?=\b|_pkey)/$table/gr, on_error_stop => 1);

		$failed{$table} = $rc;
		diag("$table: $err") if $rc != 0;
	}
	is($failed{"${name}_h"}, 0, "$name: heap does it");
	return is($failed{"${name}_r"}, 0, "$name: and so does rose");
}

sub contents { return sql("SELECT count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) FROM $_[0] t") }

sub compare
{
	my ($name, $when) = @_;

	is(contents("${name}_r"), contents("${name}_h"), "$name: contents, $when");
	is(sql("SELECT count(*) FROM rose.check('${name}_r')"), 0, "$name: rose.check, $when");
	return;
}

my $add = 'ALTER TABLE TAB ADD COLUMN n';
my $reload = load(10001, 22000);
my %scripts = (
	# memory has rows of an ALTER TABLE that was rolled back
	cluster_after_undone => "BEGIN; SAVEPOINT s; $add int DEFAULT 1; " . load(3001, 3100) . "; ROLLBACK TO s; ALTER TABLE TAB ADD COLUMN m text DEFAULT 'm'; CLUSTER TAB USING TAB_pkey; COMMIT",
	cluster_after_load_undone => "BEGIN; SAVEPOINT s; $add int DEFAULT 1; $reload; ROLLBACK TO s; ALTER TABLE TAB ADD COLUMN m text DEFAULT 'm'; CLUSTER TAB USING TAB_pkey; COMMIT",
	cluster_own_rows => 'BEGIN; UPDATE TAB SET v = 7 WHERE id % 3 = 0; SAVEPOINT s; DELETE FROM TAB WHERE id % 2 = 0; ROLLBACK TO s; CLUSTER TAB USING TAB_pkey; UPDATE TAB SET v = v + 1; COMMIT',
	spill_after_undone => "BEGIN; SAVEPOINT s; $add int DEFAULT 1; " . load(3001, 3100) . "; ROLLBACK TO s; $add text DEFAULT 'n'; $reload; UPDATE TAB SET n = 'x' WHERE id % 5 = 0; COMMIT",
	undone_before => "BEGIN; $add int DEFAULT 1; " . load(3001, 3100) . "; ROLLBACK; BEGIN; $add text DEFAULT 'n'; DELETE FROM TAB WHERE id % 7 = 0; $reload; COMMIT",

	# a load in the savepoint that added the column
	added_kept => "BEGIN; UPDATE TAB SET v = 1; SAVEPOINT s; $add int DEFAULT 5; UPDATE TAB SET n = 6 WHERE id % 3 = 0; $reload; RELEASE s; UPDATE TAB SET v = v + 1 WHERE id % 4 = 0; COMMIT",
	added_undone => "BEGIN; UPDATE TAB SET v = 1; " . load(5001, 5100) . "; SAVEPOINT s; $add int DEFAULT 5; UPDATE TAB SET n = 6 WHERE id % 3 = 0; $reload; ROLLBACK TO s; UPDATE TAB SET v = v + 1 WHERE id % 4 = 0; COMMIT",
	added_again => "BEGIN; UPDATE TAB SET v = 1; " . load(5001, 5100) . "; SAVEPOINT s; $add int DEFAULT 5; $reload; ROLLBACK TO s; $add text DEFAULT 'again'; $reload; COMMIT",
	added_again_alike => "BEGIN; UPDATE TAB SET v = 1; " . load(5001, 5100) . "; SAVEPOINT s; $add int DEFAULT 5; $reload; ROLLBACK TO s; $add int DEFAULT 9; $reload; UPDATE TAB SET v = -v WHERE id % 9 = 0; COMMIT",
	added_nested => "BEGIN; SAVEPOINT a; $add int DEFAULT 1; " . load(5001, 5100) . "; SAVEPOINT b; $add" . "2 int DEFAULT 2; " . load(6001, 6100) . "; SAVEPOINT c; $add" . "3 text DEFAULT 'c'; $reload; ROLLBACK TO c; UPDATE TAB SET v = 3 WHERE id % 5 = 1; ROLLBACK TO b; $add" . "4 text DEFAULT 'd'; $reload; RELEASE a; COMMIT",
	added_dropped_undone => "BEGIN; $add int DEFAULT 5; UPDATE TAB SET n = id WHERE id % 2 = 0; " . load(5001, 5100) . "; SAVEPOINT s; ALTER TABLE TAB DROP COLUMN n; $reload; ROLLBACK TO s; UPDATE TAB SET v = n WHERE id % 3 = 0; COMMIT",
	added_twice_dropped_undone => "BEGIN; " . load(5001, 5100) . "; SAVEPOINT r; $add int DEFAULT 5; " . load(6001, 6100) . "; SAVEPOINT s; ALTER TABLE TAB DROP COLUMN n; $reload; ROLLBACK TO s; UPDATE TAB SET v = n WHERE id % 3 = 0; COMMIT",
	dropped_kept => "BEGIN; SAVEPOINT s; ALTER TABLE TAB DROP COLUMN x; $reload; RELEASE s; COMMIT",
	dropped_undone => "BEGIN; UPDATE TAB SET x = id % 100; SAVEPOINT s; ALTER TABLE TAB DROP COLUMN x; UPDATE TAB SET v = 4 WHERE id % 2 = 0; $reload; ROLLBACK TO s; UPDATE TAB SET v = 2 WHERE id % 3 = 0; COMMIT",
	retyped_kept => "BEGIN; UPDATE TAB SET v = 1; SAVEPOINT s; ALTER TABLE TAB ALTER v TYPE text; $reload; SAVEPOINT t; $add int DEFAULT 3; " . load(30001, 40000) . "; ROLLBACK TO t; $add text; RELEASE s; COMMIT",
	retyped_undone => "BEGIN; UPDATE TAB SET v = 1; SAVEPOINT s; ALTER TABLE TAB ALTER v TYPE text; $reload; ROLLBACK TO s; $reload; COMMIT",
	retyped_alike => "BEGIN; SAVEPOINT s; ALTER TABLE TAB ALTER w TYPE varchar; $reload; ROLLBACK TO s; ALTER TABLE TAB ALTER v TYPE float4; " . load(30001, 40000) . "; COMMIT",
	new_key => "BEGIN; ALTER TABLE TAB DROP CONSTRAINT TAB_pkey; SAVEPOINT s; ALTER TABLE TAB ADD COLUMN k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY; $reload; RELEASE s; ALTER TABLE TAB DROP COLUMN k; COMMIT",
	many_times => 'BEGIN; ' . join('; ', map { "SAVEPOINT s; $add int DEFAULT $_; INSERT INTO TAB (id, v, w) SELECT g, g, repeat(md5(g::text), 15) FROM generate_series(10001, 14000) g; ROLLBACK TO s; UPDATE TAB SET v = v + 1" } 1 .. 12) . '; COMMIT',
	all_undone => "BEGIN; UPDATE TAB SET v = 1; SAVEPOINT s; $add int DEFAULT 5; $reload; RELEASE s; ROLLBACK",
	prepared => "BEGIN; " . load(5001, 5100) . "; SAVEPOINT s; $add int DEFAULT 5; $reload; ROLLBACK TO s; $add text DEFAULT 'again'; $reload; PREPARE TRANSACTION 'TAB'; COMMIT PREPARED 'TAB'",
);

foreach my $name (sort keys %scripts)
{
	foreach my $table ("${name}_r", "${name}_h")
	{
		my $rose = $table =~ /_r$/;

		sql("CREATE TABLE $table (id int CONSTRAINT ${table}_pkey PRIMARY KEY, v int, w text, x int DEFAULT 3) USING " . ($rose ? 'rose' : 'heap')
			  . "; INSERT INTO $table (id, v, w) SELECT g, 0, 'old' FROM generate_series(1, 1500) g;"
			  . ($rose ? "SELECT rose.spill('$table');" : '')
			  . "INSERT INTO $table (id, v, w) SELECT g, 0, 'new' FROM generate_series(1501, 3000) g");
	}
	both($name, $scripts{$name});
	compare($name, 'at once');
}

# Without a key.
foreach my $name (sort keys %scripts)
{
	next if $scripts{$name} =~ /_pkey/;
	foreach my $table ("keyless_${name}_r", "keyless_${name}_h")
	{
		sql("CREATE TABLE $table (id int, v int, w text, x int DEFAULT 3) USING " . ($table =~ /_r$/ ? 'rose' : 'heap')
			  . "; INSERT INTO $table (id, v, w) SELECT g, 0, 'old' FROM generate_series(1, 3000) g");
	}
	both("keyless_$name", $scripts{$name});
	compare("keyless_$name", 'at once');
}

my @names = map { ($_, $scripts{$_} =~ /_pkey/ ? () : "keyless_$_") } sort keys %scripts;

# The first touch after a crash, from what is logged.
crash_and_restart($node);
compare($_, 'after a crash') foreach @names;
sql("SELECT rose.merge('${_}_r')") foreach @names;
compare($_, 'merged') foreach @names;

# The log of a table begins with a column that was taken back, and another is in its place.
sql("CREATE TABLE told (id int PRIMARY KEY, v int) USING rose; INSERT INTO told SELECT g, g FROM generate_series(1, 100) g; SELECT rose.spill('told')");
sql("BEGIN; SAVEPOINT s; ALTER TABLE told ADD COLUMN n int; INSERT INTO told VALUES (101, 1, 1); ROLLBACK TO s;"
	  . " ALTER TABLE told ADD COLUMN n text; INSERT INTO told VALUES (101, 1, 'one'); COMMIT");
crash_and_restart($node);
is(sql('SELECT count(*), max(n) FROM told'), '101|one', 'a log that begins with a column that was taken back');

# What others see meanwhile.
{
	my $session = RoseTest::Session->new($node);

	sql("CREATE TABLE t (id int PRIMARY KEY, v int, w text) USING rose; INSERT INTO t SELECT g, 0, 'old' FROM generate_series(1, 2000) g");
	$session->run('BEGIN; UPDATE t SET v = 1 WHERE id % 2 = 0; SAVEPOINT s; ALTER TABLE t ADD COLUMN n int DEFAULT 5');
	$session->run(load(10001, 22000) =~ s/\bTAB\b/t/r);
	$session->run('ROLLBACK TO s; SELECT 1');
	is(sql('SELECT count(*), sum(v) FROM t'), '2000|0', 'others read while the transaction goes on');
	sql('UPDATE t SET v = 3 WHERE id % 2 = 1');
	sql("SELECT rose.spill('t'), rose.merge('t')");
	is(sql('SELECT count(*), sum(v) FROM t'), '2000|3000', 'and write, and merge');
	is($session->run('SELECT count(*), sum(v) FROM t'), '2000|4000', 'the transaction reads what it wrote');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
	$session->run('COMMIT');
	$session->end;
	is(sql('SELECT count(*), sum(v) FROM t'), '2000|4000', 'committed');
	sql("SELECT rose.merge('t')");
	is(sql('SELECT count(*), sum(v) FROM t'), '2000|4000', 'and merged');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
}

$node->stop;
done_testing();
