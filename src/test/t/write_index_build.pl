# Builds of indexes that do not fit maintenance_work_mem: rows of all kinds, in leaves, runs and memory, with versions
# that an older snapshot needs and with the transaction's own. What the indexes then answer is compared with heap, and
# rose.check compares them with their table both ways.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in builds as heap does' if $ENV{ROSE_STANDIN};

my $node = rose_node('index_build', 'autovacuum = off', "rose.spill_interval = '1d'",
	"maintenance_work_mem = '1MB'", 'log_temp_files = 0', 'max_parallel_workers_per_gather = 0');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $columns = 'id int, a bigint, b smallint, t text COLLATE "C", u text COLLATE "en-x-icu", n numeric, f float8, l text';
my $row = <<'SQL';
	CASE WHEN g % 5 > 0 THEN (g * 7919::bigint) % 100003 * 30000000 END, (g % 7 - 3)::smallint,
	CASE WHEN g % 9 > 0 THEN md5(g::text) END, chr(97 + g % 20) || CASE WHEN g % 3 = 0 THEN 'X' ELSE 'x' END,
	nullif(g % 100, 50)::numeric, CASE g % 50 WHEN 0 THEN 'NaN' ELSE (g % 11 - 5)::float8 END,
	CASE WHEN g % 4 = 0 THEN repeat(md5(g::text), 20) END
SQL
# What is indexed, and in which order that is.
my @indexes = (
	[ 'a', 'a' ], [ 'a DESC', 'a DESC' ], [ 'a NULLS FIRST, b DESC', 'a NULLS FIRST, b DESC' ], [ 't', 't' ],
	[ 't DESC NULLS LAST, a', 't DESC NULLS LAST, a' ], [ 'u, n', 'u, n' ], [ 'n) INCLUDE (l', 'n' ], [ 'f, b', 'f, b' ],
	[ 'b', 'b' ], [ 'l, t', 'l, t' ]);

# A table in all the places that rows may be in, and the same in heap.
sub make_table
{
	my ($table, $key) = @_;

	for my $method ('rose', 'heap')
	{
		my $name = $method eq 'rose' ? $table : "${table}_h";
		my ($spill, $merge) = $method eq 'rose' ? ("SELECT rose.spill('$name');", "SELECT rose.merge('$name');") : ('', '');

		sql(<<"SQL");
CREATE TABLE $name ($columns$key) USING $method;
INSERT INTO $name SELECT (g * 7907::bigint) % 100003, $row FROM generate_series(1, 30000) g;
$spill $merge
UPDATE $name SET a = a + 1, u = u || 'y' WHERE id % 50 < 2;
DELETE FROM $name WHERE id % 70 = 3;
$spill
INSERT INTO $name SELECT 200000 + g, $row FROM generate_series(1, 2000) g;
UPDATE $name SET t = 'c' || t WHERE id % 50 < 1;
SQL
	}
	return;
}

# The values of columns in this order; by an index if it can be.
sub in_order
{
	my ($table, $order) = @_;
	my $values = join ' || \',\' || ', map { "coalesce($_" . '::text, \'-\')' } $order =~ /\b(\w)\b/g;

	return <<"SQL";
SET enable_seqscan = off; SET enable_sort = off;
SELECT count(*) || ' ' || md5(string_agg(v, ';')) FROM (SELECT $values AS v FROM $table ORDER BY $order) r;
RESET enable_seqscan; RESET enable_sort;
SQL
}

sub temporary_files { return scalar(() = slurp_file($node->logfile) =~ /temporary file: path/g) }

my %before;
for my $case ([ 'k', ', PRIMARY KEY (id)' ], [ 'nk', '' ], [ 'ck', ', b2 int DEFAULT 1 NOT NULL, PRIMARY KEY (b2, id)' ])
{
	my ($table, $key) = @$case;

	make_table($table, $key);
	# somebody needs what is changed now
	my $old = RoseTest::Session->new($node);
	$old->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $table");
	for my $name ($table, "${table}_h")
	{
		sql("UPDATE $name SET b = b + 1, n = n * 2 WHERE id % 40 = 5; DELETE FROM $name WHERE id % 90 = 7");
	}
	my $files = temporary_files();
	my $i = 0;
	sql(join ";\n", map { "CREATE INDEX ${table}_" . $i++ . " ON $table ($_->[0])" } @indexes);
	cmp_ok(temporary_files(), '>=', $files + 2 * @indexes, "$table: memory was not enough");
	is(sql("SELECT * FROM rose.check('$table')"), '', "$table: entries are those of the rows");
	for my $index (@indexes)
	{
		is(sql(in_order($table, $index->[1])), sql(in_order("${table}_h", $index->[1])), "$table: order of $index->[0]");
		my $by_index = $old->run(in_order($table, $index->[1]));
		is($by_index, $old->run("SET enable_indexscan = off; SET enable_indexonlyscan = off;" .
			in_order($table, $index->[1]) =~ s/SET enable_seqscan = off; SET enable_sort = off;//r .
			"RESET enable_indexscan; RESET enable_indexonlyscan"), "$table: the same in an older snapshot");
	}
	$old->end;
}

# Own rows, and a rollback to before some of them.
sql(<<'SQL');
BEGIN;
UPDATE k SET a = a + 3 WHERE id % 8 = 1;
SAVEPOINT s;
UPDATE k SET a = a + 5 WHERE id % 8 = 2;
ROLLBACK TO s;
DELETE FROM k WHERE id % 8 = 3;
INSERT INTO k (id, a) SELECT 500000 + g, g FROM generate_series(1, 1000) g;
CREATE INDEX k_own ON k (a, t);
UPDATE k SET a = a + 3 WHERE id % 16 = 1;
COMMIT;
SQL
is(sql("SELECT * FROM rose.check('k')"), '', 'rows of the transaction that makes the index');

# Columns that leaves do not have yet, for they were added later.
sql(<<'SQL');
SELECT rose.spill('k'), rose.merge('k');
ALTER TABLE k ADD x int DEFAULT 7, ADD y text, ADD z text DEFAULT 'zed';
UPDATE k SET x = id, y = t WHERE id % 10 = 0;
CREATE INDEX k_added ON k (x, y DESC, z) INCLUDE (n);
SQL
is(sql("SELECT * FROM rose.check('k')"), '', 'columns that were added');
is(sql("SET enable_seqscan = off; SELECT count(*), min(z), count(y) FROM k WHERE x = 7"), sql("SELECT count(*), 'zed', count(y) FROM k WHERE x = 7"),
	'their values are found');

# Rows whose older versions are kept behind them, some of them in the next leaf, though nobody needs them any more.
sql(<<'SQL');
CREATE TABLE kept (id int PRIMARY KEY, a int, w text) USING rose;
INSERT INTO kept SELECT g, g, (SELECT string_agg(md5((g * 100 + i)::text), '') FROM generate_series(1, 20 + g % 40) i) FROM generate_series(1, 3000) g;
SQL
my $older = RoseTest::Session->new($node);
$older->run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM kept");
sql("UPDATE kept SET a = a + 10000 WHERE id % 4 = 0");
sql("SELECT rose.spill('kept')");
sql("UPDATE kept SET a = a + 100000, w = w || 'x' WHERE id % 5 = 0");
sql("SELECT rose.spill('kept'), rose.merge('kept')");
$older->end;
sql("CREATE INDEX kept_a ON kept (a)");
is(sql("SELECT * FROM rose.check('kept')"), '', 'a row has one entry, whatever is kept of it');

# Values of many kilobytes, so that there are more runs than are merged at a time; no value at all in a column.
sql(<<'SQL');
CREATE TABLE wide (id int PRIMARY KEY, v int, x int, w text) USING rose;
INSERT INTO wide SELECT g, g * 7919 % 4001, NULL, repeat(chr(65 + g % 26), 9000 + g % 100) FROM generate_series(1, 4000) g;
SELECT rose.spill('wide'), rose.merge('wide');
CREATE INDEX wide_v ON wide (v, x) INCLUDE (w);
SQL
is(sql("SELECT * FROM rose.check('wide')"), '', 'wide entries');
is(sql("SET enable_seqscan = off; SELECT count(*), sum(length(w)) FROM wide WHERE v > 0"),
	sql("SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(*), sum(length(w)) FROM wide WHERE v > 0"),
	'wide values are whole');

# A key that is too long for an entry, among many that are not.
sql("INSERT INTO wide SELECT 5000, 1, 1, string_agg(md5(g::text), '') FROM generate_series(1, 100) g");
my ($rc, $out, $err) = $node->psql('postgres', 'CREATE INDEX wide_w ON wide (w)');
like($err, qr/index row size \d+ exceeds maximum/, 'what does not fit an entry is refused');
sql("DELETE FROM wide WHERE id = 5000");
is(sql("SELECT * FROM rose.check('wide')"), '', 'and leaves nothing behind');

# Progress, and a cancel.
my $ctl = RoseTest::Session->new($node);
my $build = RoseTest::Session->new($node);
$ctl->run("SELECT stop_at('resort-piece', 'wait', 'client')");
$build->start("CREATE INDEX nk_p ON nk (a)");
wait_for_stop($node);
is(sql("SELECT phase, tuples_total FROM pg_stat_progress_create_index"),
	'building index: loading tuples in tree|' . sql('SELECT count(*) FROM nk'), 'what the build is about is shown');
$ctl->run("SELECT go_on('resort-piece')");
$build->finish;
$ctl->run("SELECT stop_at('resort-piece', 'wait', 'client')");
$build->start("CREATE INDEX nk_c ON nk (t)");
wait_for_stop($node);
sql("SELECT pg_cancel_backend(pid) FROM pg_stat_progress_create_index");
eval { $build->finish };
$ctl->run("SELECT stop_clear()");
$_->end for $ctl, $build;
is(sql("SELECT count(*) FROM pg_class WHERE relname = 'nk_c'"), 0, 'a build that is cancelled leaves no index');
is(sql("SELECT * FROM rose.check('nk')"), '', 'and the others as they were');

done_testing();
