
# The first touch of a table after a start: in parts, between which it can be cancelled or ended and goes on where it was; beside
# others who wait for it, and can be cancelled, too, or use other tables; and whatever memory there is.
#
#   RECOVERY_SEED      repeat a run
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has nothing to recover' if $ENV{ROSE_STANDIN};

seed_random('RECOVERY_SEED');
my $node = rose_node('recovery', "rose.memtable_size = '64MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	'max_prepared_transactions = 20', 'restart_after_crash = on', "deadlock_timeout = '100ms'", "maintenance_work_mem = '1MB'");

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Each kind of key; h has what r is to have.
my %keys = (keyed => 'id int PRIMARY KEY, v int, t text', composite => 'v int, t text, id int, PRIMARY KEY (t, id)', keyless => 'id int, v int, t text');
my @tables = sort keys %keys;

sub compare
{
	my ($what) = @_;

	foreach my $table (@tables)
	{
		is(table_hash($node, "r_$table"), table_hash($node, "h_$table"), "$what: $table");
		is(sql("SELECT count(*) FROM rose.check('r_$table')"), 0, "$what: rose.check of $table");
	}
	return;
}

sub both
{
	my ($sql) = @_;

	return join ";\n", map { my $t = $_; map { $sql =~ s/\bTAB\b/${_}_$t/gr } qw(h r) } @tables;
}

# A tail log with all that there can be: rows that were written again, deleted, taken back; transactions that were rolled back, and
# prepared ones with and without subtransactions, which have the keys from 100,000 on.
sub fill
{
	my ($rows) = @_;
	my $width = 60;
	my $n = 0;

	foreach my $table (@tables)
	{
		sql("DROP TABLE IF EXISTS ${_}_$table; CREATE TABLE ${_}_$table ($keys{$table}) USING " . ($_ eq 'h' ? 'heap' : 'rose')) foreach qw(h r);
	}
	# a component below
	sql(both("INSERT INTO TAB (id, v, t) SELECT g, 0, repeat('a', $width) FROM generate_series(1, 500) g"));
	sql("SELECT rose.merge('r_$_')") foreach @tables;
	sql(both("INSERT INTO TAB (id, v, t) SELECT 3 * g + 501, g, md5(g::text) || repeat('x', $width) FROM generate_series(1, $rows) g"));
	sql(both("BEGIN; INSERT INTO TAB (id, v, t) SELECT 3 * g + 502, -1, 'taken back' FROM generate_series(1, 300) g; ROLLBACK"));
	sql(both("BEGIN; UPDATE TAB SET v = v + 1 WHERE id % 5 = 0; SAVEPOINT a; DELETE FROM TAB WHERE id % 3 = 0; ROLLBACK TO a; DELETE FROM TAB WHERE id % 11 = 0; COMMIT"));
	sql(both("UPDATE TAB SET id = id + 200000, v = v + 7 WHERE id % 17 = 0"));
	sql(both("INSERT INTO TAB (id, v, t) SELECT 100000 + g, 0, 'prepared' FROM generate_series(1, 60) g"));
	foreach my $table (@tables)
	{
		sql("BEGIN; "
			  . join('', map { "UPDATE ${_}_$table SET v = v + 100 WHERE id BETWEEN 100001 AND 100020; SAVEPOINT a; DELETE FROM ${_}_$table WHERE id BETWEEN 100001 AND 100040; ROLLBACK TO a;"
				  . " UPDATE ${_}_$table SET v = v + 1 WHERE id BETWEEN 100010 AND 100020; SAVEPOINT b; DELETE FROM ${_}_$table WHERE id = 100005; RELEASE b;"
				  . " SELECT FROM ${_}_$table WHERE id = 100050 FOR UPDATE;" } qw(h r))
			  . "PREPARE TRANSACTION 'p_$table'");
		sql("BEGIN; DELETE FROM h_$table WHERE id BETWEEN 100056 AND 100060; DELETE FROM r_$table WHERE id BETWEEN 100056 AND 100060; PREPARE TRANSACTION 'q_$table'");
	}
	return;
}

# The locks of prepared transactions hold; then half of those end so, and half so, and they are written again.
sub end_prepared
{
	my ($what) = @_;

	foreach my $table (@tables)
	{
		like(error_of($node, "SET lock_timeout = '50ms'; UPDATE r_$table SET v = 1 WHERE id = $_"), qr/lock timeout/, "$what: $_ of $table is locked")
		  foreach 100012, 100005, 100050, 100058;
		sql("COMMIT PREPARED 'p_$table'; ROLLBACK PREPARED 'q_$table'");
	}
	compare("$what, prepared transactions ended");
	sql(both('UPDATE TAB SET v = v + 1 WHERE id > 100000 OR id < 1000'));
	compare("$what, written again");
	sql("SELECT rose.merge('r_$_')") foreach @tables;
	compare("$what, merged");
	return;
}

sub components { return sql("SELECT count(*) FROM rose.components('$_[0]') WHERE kind <> 'memtable'") }

# --- interrupted after each part
fill(12000);
sql('CREATE TABLE other (id int PRIMARY KEY) USING rose; INSERT INTO other SELECT generate_series(1, 100)');
$node->restart;

my $ctl = RoseTest::Session->new($node);
my $parts = 0;

while ($parts < 30)
{
	$ctl->run("SELECT stop_at('recover-part', '" . ($parts % 3 ? 'error' : 'terminate') . "', 'client')");
	last if error_of($node, 'SELECT count(*) FROM r_keyed') eq '';
	$parts++;
}
cmp_ok($parts, '>', 3, 'a recovery has several parts');
cmp_ok($parts, '<', 20, 'and goes on where it was ended');

# --- cancelled, while others wait and work
$ctl->run("SELECT stop_at('recover-part', 'wait', 'client', 2)");
my $slow = RoseTest::Session->new($node);
my $pid = $slow->run('SELECT pg_backend_pid()');
$slow->start('SELECT count(*) FROM r_composite');
wait_for_stop($node);
is(sql('SELECT count(*) FROM other'), 100, 'another table is recovered and read meanwhile');
like(error_of($node, "SET statement_timeout = '300ms'; SELECT count(*) FROM r_composite"), qr/statement timeout/, 'who waits for the recovery can be cancelled');
like(error_of($node, "SET statement_timeout = '300ms'; INSERT INTO r_composite VALUES (1, 'x', -1)"), qr/statement timeout/, 'and who wants to write');
is(sql("SELECT pg_cancel_backend($pid)"), 't', 'the recovery is cancelled');
eval { $slow->finish };
like($@, qr/canceling statement due to user request/, 'at once');
$slow->end;
$ctl->run("SELECT stop_clear()");
compare('interrupted');
end_prepared('interrupted');

# --- an error within the tail log's end leaves no trace either: the point is under no lock
fill(3000);
$node->restart;
$ctl = RoseTest::Session->new($node);
foreach my $point (qw(recover-judged recover-settled recover-replayed))
{
	$ctl->run("SELECT stop_at('$point', 'error', 'client')");
	like(error_of($node, 'SELECT count(*) FROM r_keyed'), qr/stop point/, "an error at $point");
}
compare('errors');
end_prepared('errors');

# --- memory that is too small for the tail log of any of them
foreach my $how (qw(restart crash))
{
	fill(25000);
	$node->append_conf('postgresql.conf', "rose.memtable_size = '1MB'");
	$how eq 'crash' ? crash_and_restart($node) : $node->restart;
	# an error or the end of the session before the runs are published leave the tail log; so does a crash
	foreach my $action (qw(error terminate))
	{
		sql("SELECT stop_at('recover-sorted', '$action', 'client')");
		like(error_of($node, 'SELECT count(*) FROM r_keyed'), qr/stop point/, "$how: $action before the runs are published");
	}
	is(sql('SELECT used_bytes FROM rose.stat_memory'), 0, "$how: nothing of it is left in memory");
	foreach my $point (qw(recover-part recover-sorted))
	{
		next if $how ne 'crash';
		my $since = -s $node->logfile;

		sql("SELECT stop_at('$point', 'crash', 'client')");
		$node->psql('postgres', 'SELECT count(*) FROM r_keyed');
		wait_until_up($node);
		like(slurp_file($node->logfile, $since), qr/terminated by signal 9/, "the server dies at $point");
	}
	compare("$how with a small memory");
	is(sql("SELECT count(*) FROM rose.components('r_$_') WHERE kind = 'private run'") . ' ' . components("r_$_"), '1 3', "$how: $_ is in runs, and the component") foreach @tables;
	crash_and_restart($node);
	compare("$how, and a crash after it");
	end_prepared("$how with a small memory");
	$node->append_conf('postgresql.conf', "rose.memtable_size = '64MB'");
	$node->restart;
	compare("$how with a large memory again");
}

# --- memory that others hold, whom nobody spills
fill(2000);
sql("DROP TABLE IF EXISTS hog; CREATE TABLE hog (id int PRIMARY KEY, t text) USING rose; INSERT INTO hog SELECT g, repeat('x', 1000) FROM generate_series(1, 3500) g");
$node->append_conf('postgresql.conf', "rose.memtable_size = '5MB'");
$node->restart;
is(sql('SELECT count(*) FROM hog'), 3500, 'another table is in memory');
cmp_ok(sql('SELECT used_bytes FROM rose.stat_memory'), '>', 3_500_000, 'which is nearly full');
compare('memory full of others');
cmp_ok(sql("SELECT count(*) FROM " . join(', ', map { "rose.components('r_$_') c_$_" } @tables) . ' WHERE ' . join(' OR ', map { "c_$_.kind = 'private run'" } @tables)),
	'>', 0, 'which has no room for all of them');
end_prepared('memory full of others');
$node->append_conf('postgresql.conf', "rose.memtable_size = '64MB'");

# --- who comes first has altered the table, and takes it back or not; columns came between rows of the tail log
foreach my $end (qw(COMMIT ROLLBACK))
{
	foreach my $change ("ADD COLUMN n int DEFAULT 5, DROP COLUMN t", "ALTER COLUMN v TYPE bigint", "ADD COLUMN n int DEFAULT 5, ALTER COLUMN v TYPE text")
	{
		foreach my $table (qw(h r))
		{
			sql("DROP TABLE IF EXISTS ${table}_alter; CREATE TABLE ${table}_alter (id int PRIMARY KEY, v int, t text) USING " . ($table eq 'h' ? 'heap' : 'rose'));
			sql("INSERT INTO ${table}_alter SELECT g, g, repeat('x', 200) FROM generate_series(1, 6000) g");
			sql("ALTER TABLE ${table}_alter ADD COLUMN b int DEFAULT 3, ADD COLUMN c text DEFAULT 'c'");
			sql("BEGIN; SAVEPOINT a; ALTER TABLE ${table}_alter ADD COLUMN gone bigint DEFAULT 1; INSERT INTO ${table}_alter VALUES (-1); ROLLBACK TO a; ALTER TABLE ${table}_alter ADD COLUMN d text; COMMIT");
			sql("UPDATE ${table}_alter SET d = 'd', b = 4 WHERE id % 7 = 0; ALTER TABLE ${table}_alter DROP COLUMN c; DELETE FROM ${table}_alter WHERE id % 9 = 0");
		}
		$node->append_conf('postgresql.conf', "rose.memtable_size = '1MB'");
		$node->restart;
		sql("BEGIN; ALTER TABLE ${_}_alter $change; UPDATE ${_}_alter SET v = 1 WHERE id = 10; $end") foreach qw(h r);
		is(table_hash($node, 'r_alter'), table_hash($node, 'h_alter'), "$change; $end");
		sql("SELECT rose.merge('r_alter')");
		is(table_hash($node, 'r_alter'), table_hash($node, 'h_alter'), "$change; $end; merged");
		is(sql("SELECT count(*) FROM rose.check('r_alter')"), 0, "$change; $end: rose.check");
		$node->append_conf('postgresql.conf', "rose.memtable_size = '64MB'");
		$node->restart;
	}
}

# --- unlogged tables are recovered after a clean stop
sql("CREATE UNLOGGED TABLE u (id int PRIMARY KEY, t text) USING rose; INSERT INTO u SELECT g, repeat('x', 500) FROM generate_series(1, 5000) g");
$node->append_conf('postgresql.conf', "rose.memtable_size = '1MB'");
$node->restart;
is(sql('SELECT count(*), sum(id) FROM u'), '5000|12502500', 'an unlogged table');

$node->stop;
done_testing();
