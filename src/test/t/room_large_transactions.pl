# Transactions that are much larger than memory, in a table that they have locked against everybody: no worker can
# merge it, so they join what they spill by themselves. What they write is compared with heap.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('large', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off',
	'restart_after_crash = on', "deadlock_timeout = '100ms'", 'max_prepared_transactions = 2', 'synchronous_commit = off');
my $rows = 21_000;
my $load = "SELECT g, 0, repeat(md5(g::text), 100) FROM generate_series(1, $rows) g";
my $file = $node->basedir . '/rows';

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub contents { return sql("SELECT count(*), count(DISTINCT id), min(v), max(v), sum(v), md5(string_agg(md5(doc), '' ORDER BY id)) FROM $_[0]") }

sub compare
{
	my ($what) = @_;
	my $expected = contents('h');

	is(contents('t'), $expected, "$what: a scan");
	is(sql("SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, $rows, 97) g WHERE (SELECT v FROM t WHERE id = g) IS DISTINCT FROM (SELECT v FROM h WHERE id = g)"),
		0, "$what: lookups");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$what: rose.check");
	return;
}

# the same on both tables
sub both
{
	my ($what, $script) = @_;

	sql('DROP TABLE IF EXISTS t, h');
	foreach my $table ('t', 'h')
	{
		my $am = $table eq 't' ? 'rose' : 'heap';

		sql($script =~ s/\bTABLE_NAME\b/$table/gr =~ s/\bTABLE_AM\b/$am/gr);
	}
	compare($what);
	sql("SELECT rose.merge('t')");
	compare("$what, after a merge");
	return;
}

sql("COPY ($load) TO '$file'");
my $made = 'CREATE TABLE TABLE_NAME (id int PRIMARY KEY, v int, doc text) USING TABLE_AM';
my $table = "$made; INSERT INTO TABLE_NAME SELECT g, 7, 'old' FROM generate_series(1, 300) g; DELETE FROM TABLE_NAME WHERE id <= 300";
my $locked = "$table; BEGIN; LOCK TABLE TABLE_NAME";

both('COPY into a locked table', "$locked; COPY TABLE_NAME FROM '$file'; COMMIT");
both('COPY into a new table', "BEGIN; $made; COPY TABLE_NAME FROM '$file'; COMMIT");
both('INSERT after TRUNCATE', "$table; BEGIN; TRUNCATE TABLE_NAME; INSERT INTO TABLE_NAME $load; COMMIT");
both('rolled back', "$table; INSERT INTO TABLE_NAME VALUES (1, 1, 'x'); BEGIN; LOCK TABLE TABLE_NAME; UPDATE TABLE_NAME SET v = 2; COPY TABLE_NAME FROM '$file' WHERE id > 1; ROLLBACK");
both('subtransactions', "$locked; COPY TABLE_NAME FROM '$file' WHERE id % 3 = 0; SAVEPOINT a;"
	  . " COPY TABLE_NAME FROM '$file' WHERE id % 3 = 1; UPDATE TABLE_NAME SET v = -1 WHERE id % 3 = 0; ROLLBACK TO a;"
	  . " COPY TABLE_NAME FROM '$file' WHERE id % 3 = 2; SAVEPOINT b; UPDATE TABLE_NAME SET v = v + 1 WHERE id % 4 = 0; RELEASE b; COMMIT");
both('rows that are written again and again', "$locked; COPY TABLE_NAME FROM '$file' WHERE id <= 8000;"
	  . join('', map { " UPDATE TABLE_NAME SET v = v + 1 WHERE id <= " . 1000 * (9 - $_) . ';' } 1 .. 8)
	  . " DELETE FROM TABLE_NAME WHERE id % 5 = 0; INSERT INTO TABLE_NAME SELECT g, 9, repeat('y', 3000) FROM generate_series(10, 2000, 10) g; COMMIT");
both('a prepared one', "$locked; COPY TABLE_NAME FROM '$file'; UPDATE TABLE_NAME SET v = 3 WHERE id % 2 = 0; PREPARE TRANSACTION 'x'; COMMIT PREPARED 'x'");
cmp_ok(sql('SELECT writer_spills FROM rose.stat_memory'), '>', 64, 'more was spilled than there can be components');

# A crash in the middle leaves what was there before.
foreach my $stage (qw(merge-read merge-built merge-published))
{
	my $log = -s $node->logfile;

	sql("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose; INSERT INTO t VALUES (-1, 1, 'before')");
	sql("SELECT stop_at('$stage', 'crash', 'client', 2)");
	my ($rc) = $node->psql('postgres', "BEGIN; LOCK TABLE t; COPY t FROM '$file'; COMMIT");
	isnt($rc, 0, "a crash at $stage");
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $log);
	wait_until_up($node);
	is(sql('SELECT * FROM t'), '-1|1|before', 'nothing of the transaction is left');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
}

# A worker that was merging the table when it was locked gives way.
{
	my $ctl = RoseTest::Session->new($node);
	my $n = sql("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose; SELECT 1");

	$ctl->run("SELECT stop_at('merge-paused', 'wait', 'worker')");
	sql("INSERT INTO t SELECT g, 0, 'x' FROM generate_series(-$_ * 100, -$_ * 100 + 50) g; SELECT rose.spill('t')") foreach 1 .. 12;
	wait_for_stop($node);
	sql("BEGIN; LOCK TABLE t; COPY t FROM '$file'; COMMIT");
	$ctl->run("SELECT go_on('merge-paused')");
	$ctl->end;
	is(sql('SELECT count(*), sum(id) FILTER (WHERE id > 0) FROM t'), ($rows + 12 * 51) . '|' . $rows * ($rows + 1) / 2, 'a worker gives way');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'rose.check');
}

$node->stop;
done_testing();
