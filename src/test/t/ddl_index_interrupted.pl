# CREATE UNIQUE INDEX CONCURRENTLY and REINDEX CONCURRENTLY that fail, lose their session or their server at each of their stages: writers go on, the table
# has its rows and what is valid the entries of them, and the command does it when it is said again. And what isolation specs cannot say: a look for a value
# that is under way when the index is complete, prepared transactions, kinds of tables.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no stop points' if $ENV{ROSE_STANDIN};

my $node = rose_node('interrupted', 'autovacuum = off', 'restart_after_crash = on', 'max_prepared_transactions = 5', "log_statement = 'none'");
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub problems { return sql("SELECT c::text FROM rose.check('$_[0]') c") }
sub index_is { return sql("SELECT coalesce((SELECT CASE WHEN indisvalid THEN 'valid' ELSE 'not valid' END FROM pg_index WHERE indexrelid = to_regclass('$_[0]')), 'none')") }

sub fill
{
	sql(<<'SQL');
DROP TABLE IF EXISTS t;
CREATE TABLE t (id int PRIMARY KEY, a int, b text) USING rose;
INSERT INTO t SELECT i, i, md5(i::text) FROM generate_series(1, 300) i;
SELECT rose.spill('t');
UPDATE t SET a = a + 1000 WHERE id % 7 = 0;
SQL
	return;
}

sub change
{
	my ($by) = @_;

	sql("UPDATE t SET a = a + $by WHERE id % 3 = 0; DELETE FROM t WHERE id % 11 = $by % 11; INSERT INTO t SELECT $by + i, $by * 7 + i, 'new' FROM generate_series(1, 50) i");
	return;
}

# ---- stages ----

my @stages = qw(index-file-made index-beside-made index-beside-begun index-beside-snapshot index-beside-read index-beside-complete unique-beside-waited);

sub interrupt
{
	my ($what, $command, $stage, $action) = @_;
	my $since = -s $node->logfile;

	fill();
	sql('CREATE UNIQUE INDEX t_a ON t (a) INCLUDE (b)') if $what eq 'REINDEX';
	sql("SELECT stop_at('$stage', '$action', 'client')");
	my ($rc) = $node->psql('postgres', $command);
	if ($action eq 'crash')
	{
		$node->wait_for_log(qr/all server processes terminated; reinitializing/, $since);
		wait_until_up($node);
	}
	else
	{
		sql('SELECT stop_clear()');
	}

	my @found = $rc == 0 ? ('no error') : ();
	change(5000);
	push @found, problems('t');
	sql("SELECT rose.spill('t')");
	sql("SELECT rose.merge('t')");
	change(20000);
	sql('VACUUM t');
	sql("SELECT rose.merge('t')");
	push @found, problems('t');
	push @found, 'the old one is ' . index_is('t_a') if $what eq 'REINDEX' && index_is('t_a') ne 'valid';
	push @found, 'two rows may have a value' if $what eq 'REINDEX' && ($node->psql('postgres', 'UPDATE t SET a = 1'))[0] == 0;

	sql("DROP INDEX CONCURRENTLY IF EXISTS $_") foreach 't_a_ccnew', $what eq 'CREATE' ? 't_a' : 't_a_ccold';
	$node->safe_psql('postgres', $command);
	push @found, 'the new one is ' . index_is('t_a') if index_is('t_a') ne 'valid';
	change(30000);
	push @found, problems('t');
	push @found, 'two rows have a value' if ($node->psql('postgres', 'UPDATE t SET a = 1'))[0] == 0;
	is(join("\n", grep { $_ ne '' } @found), '', "$what, $action at $stage");
	return;
}

foreach my $stage (@stages)
{
	# a session that ends is a statement that fails
	foreach my $action ($stage =~ /begun|complete/ ? 'terminate' : 'error', 'crash')
	{
		interrupt('CREATE', 'CREATE UNIQUE INDEX CONCURRENTLY t_a ON t (a) INCLUDE (b)', $stage, $action);
		interrupt('REINDEX', 'REINDEX INDEX CONCURRENTLY t_a', $stage, $action);
	}
}

# ---- a look that began before the old rows were there ----

my $ctl = RoseTest::Session->new($node);
my $builder = RoseTest::Session->new($node);
my $writer = RoseTest::Session->new($node);

sub wait_until { return $node->poll_query_until('postgres', $_[0]) || die "never so: $_[0]" }

fill();
$ctl->run("SELECT stop_at('index-beside-read', 'wait', 'client')");
$builder->start('CREATE UNIQUE INDEX CONCURRENTLY t_a ON t (a)');
wait_for_stop($node);
$ctl->run("SELECT stop_at('insert-row-looked', 'wait', 'client')");
$writer->run('BEGIN');
$writer->start("INSERT INTO t VALUES (1001, 1, 'has looked')");
wait_until("SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
$ctl->run("SELECT go_on('index-beside-read')");
# or, if it does not, for the snapshots that the index is too new for
my $goes_on = "EXISTS (SELECT FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted)";
wait_until("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'RoseKeyPartition') OR $goes_on");
$ctl->run("SELECT go_on('insert-row-looked')");
$writer->finish;
wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted) OR $goes_on");
$writer->run('COMMIT');
eval { $builder->finish };
like($@, qr/could not create unique index "t_a"/, 'a row whose writer looked before the index was complete');
is(index_is('t_a'), 'not valid', '... and it is not valid');
is(problems('t'), '', '... and nothing is wrong with it');

# ---- prepared transactions ----

foreach my $end (qw(COMMIT ROLLBACK))
{
	my $session = RoseTest::Session->new($node);

	fill();
	$ctl->run("SELECT stop_at('index-beside-read', 'wait', 'client')");
	$session->start('CREATE UNIQUE INDEX CONCURRENTLY t_a ON t (a)');
	wait_for_stop($node);
	sql("BEGIN; INSERT INTO t VALUES (1001, 1, 'prepared'); PREPARE TRANSACTION 'p'");
	$ctl->run("SELECT go_on('index-beside-read')");
	wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)");
	sql("SELECT rose.spill('t')");
	sql("$end PREPARED 'p'");
	eval { $session->finish };
	is($@ eq '' ? 'built' : $@ =~ /could not create unique index/ ? 'two rows' : $@, $end eq 'COMMIT' ? 'two rows' : 'built', "$end of a prepared transaction for which the build waits");
	is(problems('t'), '', '... and nothing is wrong');
	$session->end;
}
$_->end foreach $ctl, $builder, $writer;

# ---- kinds of tables ----

sql('CREATE TABLE rows (a int, b text) USING rose; INSERT INTO rows SELECT i, i::text FROM generate_series(1, 100) i; CREATE UNIQUE INDEX CONCURRENTLY rows_a ON rows (a); REINDEX INDEX CONCURRENTLY rows_a; UPDATE rows SET b = b || b, a = a + 1000 WHERE a < 50');
like(error_of($node, 'INSERT INTO rows VALUES (60)'), qr/duplicate key value violates unique constraint "rows_a"/, 'a table without key');
is(problems('rows'), '', '... is as its index says');

sql('CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, a int) USING rose; INSERT INTO unlogged SELECT i, i FROM generate_series(1, 100) i; CREATE UNIQUE INDEX CONCURRENTLY unlogged_a ON unlogged (a)');
like(error_of($node, 'INSERT INTO unlogged VALUES (101, 5)'), qr/duplicate key value violates unique constraint "unlogged_a"/, 'an unlogged table');
crash_and_restart($node);
sql('INSERT INTO unlogged VALUES (1, 5)');
like(error_of($node, 'INSERT INTO unlogged VALUES (2, 5)'), qr/duplicate key value violates unique constraint "unlogged_a"/, '... after a crash');
is(problems('unlogged'), '', '... is as its index says');

is(sql("CREATE TEMP TABLE temporary (id int PRIMARY KEY, a int) USING rose; INSERT INTO temporary SELECT i, i FROM generate_series(1, 100) i; CREATE UNIQUE INDEX CONCURRENTLY temporary_a ON temporary (a); REINDEX TABLE CONCURRENTLY temporary; SET enable_seqscan = off; SELECT id FROM temporary WHERE a = 7; DROP INDEX CONCURRENTLY temporary_a"), '7', 'a temporary table');

sql(<<'SQL');
CREATE TABLE parted (id int, a int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100) USING rose;
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (100) TO (200) USING rose;
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (200) TO (300) USING heap;
INSERT INTO parted SELECT i, i FROM generate_series(1, 299) i;
CREATE UNIQUE INDEX parted_u ON ONLY parted (id, a);
CREATE UNIQUE INDEX CONCURRENTLY parted_u1 ON parted_1 (id, a);
CREATE UNIQUE INDEX CONCURRENTLY parted_u2 ON parted_2 (id, a);
CREATE UNIQUE INDEX CONCURRENTLY parted_u3 ON parted_3 (id, a);
ALTER INDEX parted_u ATTACH PARTITION parted_u1;
ALTER INDEX parted_u ATTACH PARTITION parted_u2;
ALTER INDEX parted_u ATTACH PARTITION parted_u3;
CREATE INDEX parted_a ON parted (a);
REINDEX INDEX CONCURRENTLY parted_u;
REINDEX TABLE CONCURRENTLY parted;
UPDATE parted SET a = a + 1000;
SQL
is(sql("SELECT count(*) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE c.relname LIKE 'parted%' AND NOT indisvalid"), 0, 'partitions, and their indexes');
is(problems('parted_1') . problems('parted_2'), '', '... are as their indexes say');
is(sql("SELECT count(*) FROM pg_class WHERE relname ~ '_cc(new|old)'"), 0, '... and nothing is left of REINDEX');

# what such indexes are for
sql('CREATE TABLE referred (id int PRIMARY KEY, a int NOT NULL) USING rose; INSERT INTO referred SELECT i, i * 2 FROM generate_series(1, 50) i; CREATE UNIQUE INDEX CONCURRENTLY referred_a ON referred (a)');
sql('ALTER TABLE referred ADD CONSTRAINT referred_a UNIQUE USING INDEX referred_a; CREATE TABLE refers (a int REFERENCES referred (a)) USING rose; INSERT INTO refers VALUES (2), (4)');
like(error_of($node, 'DELETE FROM referred WHERE a = 4'), qr/violates foreign key constraint/, 'a foreign key refers to it');
sql('REINDEX TABLE CONCURRENTLY referred');
like(error_of($node, 'DELETE FROM referred WHERE a = 4'), qr/violates foreign key constraint/, '... also when it was built anew');
is(sql("INSERT INTO referred VALUES (3, 4) ON CONFLICT (a) DO UPDATE SET id = 103 RETURNING id"), '103', '... and it is an arbiter');
is(problems('referred'), '', '... and as it should be');

$node->stop;
done_testing();
