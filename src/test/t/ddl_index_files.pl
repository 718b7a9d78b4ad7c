# Files of secondary indexes under commands that make, replace, hand over, copy and drop them: what shared memory has of
# them goes with them, whatever the transaction comes to, and each index has exactly the entries of its table after that.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has files of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('index_ddl', 'autovacuum = off', "rose.spill_interval = '1d'", "rose.idle_table_timeout = '1d'", 'max_prepared_transactions = 4',
	'restart_after_crash = on', 'allow_in_place_tablespaces = on');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub in_use { return sql('SELECT tables FROM rose.memory()') }
sub file_of { return sql("SELECT pg_relation_filepath('$_[0]')") }

# Table and indexes agree, and are found by both.
sub good
{
	my ($table, $rows, $what) = @_;

	is(sql("SELECT * FROM rose.check('$table')"), '', "$what: rose.check");
	is(sql("SET enable_seqscan = off; SELECT count(*) FROM $table WHERE a >= 0; SET enable_seqscan = on; SET enable_indexscan = off;
		SET enable_indexonlyscan = off; SELECT count(*) FROM $table WHERE a >= 0"), "$rows\n$rows", "$what: rows");
	return;
}

sql("CREATE TABLE t (a int, b varchar(10) COLLATE \"C\", c int PRIMARY KEY) USING rose; INSERT INTO t SELECT n % 100, n, n FROM generate_series(1, 1000) n");
sql('SELECT rose.spill(\'t\')');
my $used = in_use();

# ---- made and dropped ----

sql('CREATE INDEX ta ON t (a)');
is(in_use(), $used + 1, 'an index has an entry');
good('t', 1000, 'made');
sql('BEGIN; CREATE INDEX tb ON t (b); INSERT INTO t VALUES (1, 1, 1001); ROLLBACK');
is(in_use(), $used + 1, 'one that is rolled back has none');
sql('BEGIN; SAVEPOINT s; CREATE INDEX tb ON t (b); INSERT INTO t VALUES (1, 1, 1001); ROLLBACK TO s; INSERT INTO t VALUES (1, 1, 1001); COMMIT');
is(in_use(), $used + 1, '... nor with its savepoint');
good('t', 1001, 'rolled back');
sql('BEGIN; DROP INDEX ta; ROLLBACK');
is(in_use(), $used + 1, 'a drop that is rolled back');
sql('BEGIN; DROP INDEX ta; INSERT INTO t VALUES (2, 2, 1002); ROLLBACK; INSERT INTO t VALUES (3, 3, 1003)');
good('t', 1002, 'a drop that is rolled back');
sql('CREATE INDEX tb ON t (b DESC, a)');
sql('DROP INDEX tb');
is(in_use(), $used + 1, 'a dropped one has no entry');

# ---- other files ----

my $file = file_of('ta');
sql('REINDEX INDEX ta');
isnt(file_of('ta'), $file, 'REINDEX makes another file');
is(in_use(), $used + 1, '... and the old one has no entry');
good('t', 1002, 'REINDEX');
sql('BEGIN; REINDEX INDEX ta; INSERT INTO t VALUES (4, 4, 1004); ROLLBACK');
is(in_use(), $used + 1, 'REINDEX that is rolled back');
good('t', 1002, 'REINDEX that is rolled back');
sql('BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1, 1); ROLLBACK');
is(in_use(), $used + 1, 'TRUNCATE that is rolled back');
good('t', 1002, 'TRUNCATE that is rolled back');
sql('VACUUM FULL t');
is(in_use(), $used + 1, 'VACUUM FULL');
good('t', 1002, 'VACUUM FULL');
sql('BEGIN; CREATE TABLE n (a int, b text, c int PRIMARY KEY) USING rose; CREATE INDEX na ON n (a); INSERT INTO n SELECT g, g, g FROM generate_series(1, 50) g;
	TRUNCATE n; INSERT INTO n SELECT g, g, g FROM generate_series(1, 70) g; SAVEPOINT s; TRUNCATE n; ROLLBACK TO s; COMMIT');
good('n', 70, 'a file that is emptied in its transaction');
sql('TRUNCATE n; INSERT INTO n SELECT g, g, g FROM generate_series(1, 60) g');
good('n', 60, 'TRUNCATE');
sql('DROP TABLE n');
is(in_use(), $used + 1, 'indexes go with their table');

# ---- handed over ----

$file = file_of('ta');
sql('CREATE INDEX tb ON t (b, a)');
my $handed = file_of('tb');
sql('UPDATE t SET b = c WHERE c < 500');
sql('ALTER TABLE t ALTER b TYPE varchar(20) COLLATE "C"');
is(file_of('tb'), $handed, 'an index keeps its file when a type changes that is stored alike');
is(in_use(), $used + 2, '... and its entry');
good('t', 1002, 'handed over');
sql('BEGIN; ALTER TABLE t ALTER b TYPE varchar(30) COLLATE "C"; UPDATE t SET a = a + 1 WHERE c < 100; ROLLBACK');
good('t', 1002, 'handed over, rolled back');
crash_and_restart($node);
good('t', 1002, 'handed over, and a crash');
sql('ALTER TABLE t ALTER b TYPE text COLLATE "C"');
good('t', 1002, 'another type');
sql('DROP INDEX tb');
sql('CREATE DOMAIN small AS int; CREATE TABLE m (a small, c int PRIMARY KEY) USING rose; CREATE INDEX ma ON m (a); INSERT INTO m SELECT g, g FROM generate_series(1, 100) g;
	ALTER TABLE m ALTER a TYPE int; DROP DOMAIN small');
good('m', 100, 'a domain that is gone');
$node->restart;
good('m', 100, 'a domain that is gone, after a restart');
sql('DROP TABLE m');

# ---- moved, copied ----

sql(q{CREATE TABLESPACE elsewhere LOCATION ''; INSERT INTO t SELECT 7, 7, 2000 + g FROM generate_series(1, 100) g});
like(error_of($node, 'ALTER INDEX ta SET TABLESPACE elsewhere'), qr/ERROR:  cannot move index "ta" of a rose table to another tablespace/, 'an index is not moved');
good('t', 1102, 'not moved');
sql('REINDEX (TABLESPACE elsewhere) INDEX ta');
like(file_of('ta'), qr/pg_tblspc/, 'REINDEX moves it');
good('t', 1102, 'moved by REINDEX');
sql('ALTER TABLE t SET TABLESPACE elsewhere');
good('t', 1102, 'moved table');
sql('INSERT INTO t SELECT 8, 8, 3000 + g FROM generate_series(1, 100) g');
foreach my $strategy ('wal_log', 'file_copy')
{
	$node->safe_psql('template1', "CREATE DATABASE copy_$strategy TEMPLATE postgres STRATEGY $strategy");
	is($node->safe_psql("copy_$strategy", "SELECT * FROM rose.check('t'); SET enable_seqscan = off; SELECT count(*) FROM t WHERE a = 8 AND c > 3000"), 100,
		"a copy of the database by $strategy");
}

# ---- unlogged ----

sql('CREATE UNLOGGED TABLE u (a int, c int PRIMARY KEY) USING rose; INSERT INTO u SELECT g, g FROM generate_series(1, 100) g; CREATE INDEX ua ON u (a)');
sql('CREATE TABLE l (a int, c int PRIMARY KEY) USING rose; CREATE INDEX la ON l (a); INSERT INTO l SELECT g, g FROM generate_series(1, 100) g');
sql('ALTER TABLE l SET UNLOGGED');
sql('CREATE UNLOGGED TABLE k (a int, c int PRIMARY KEY) USING rose; CREATE INDEX ka ON k (a); INSERT INTO k SELECT g, g FROM generate_series(1, 100) g; ALTER TABLE k SET LOGGED');
good($_, 100, "$_ before a crash") foreach qw(u l k);
crash_and_restart($node);
good($_, 0, "$_ after it") foreach qw(u l);
good('k', 100, 'k after it');
sql("INSERT INTO $_ SELECT g, g FROM generate_series(1, 10) g") foreach qw(u l);
good($_, 10, "$_ written again") foreach qw(u l);

# ---- prepared, killed ----

sql('SELECT rose.spill(\'t\')');
sql("BEGIN; CREATE INDEX tp ON t (b); INSERT INTO t VALUES (5, 5, 5000); PREPARE TRANSACTION 'p'");
crash_and_restart($node);
sql("COMMIT PREPARED 'p'");
good('t', 1203, 'made by a prepared transaction, before a crash');
sql("SELECT count(*) FROM t; BEGIN; DROP INDEX tp; CREATE INDEX tq ON t (a, b); INSERT INTO t VALUES (6, 6, 6000); PREPARE TRANSACTION 'p'");
sql("ROLLBACK PREPARED 'p'");
good('t', 1203, 'dropped and made by one that is rolled back');
sql("BEGIN; DROP INDEX tp; PREPARE TRANSACTION 'p'");
sql("COMMIT PREPARED 'p'");
good('t', 1203, 'dropped by one that is committed');
foreach my $command ('CREATE INDEX tk ON t (b)', 'REINDEX TABLE t', 'TRUNCATE t', 'VACUUM FULL t')
{
	my $offset = -s $node->logfile;

	sql("SELECT stop_at('index-file-made', 'crash')");
	error_of($node, $command);
	$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
	wait_until_up($node);
	good('t', 1203, "killed in $command");
	is(sql(q{SELECT count(*) FROM pg_class WHERE relname = 'tk'}), 0, "killed in $command: no index is left");
	sql('INSERT INTO t VALUES (9, 9, 7000); DELETE FROM t WHERE c = 7000');
}
sql('CREATE INDEX tk ON t (b)');
good('t', 1203, 'made after all');
sql('DROP TABLE t');

done_testing();
