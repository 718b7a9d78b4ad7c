# Options of one table in what workers, other sessions and WAL do: when it is spilled, whether its components are logged,
# and what a change means that is taken back, prepared, or made to a table that nobody opens any more.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has no options of rose' if $ENV{ROSE_STANDIN};

my $node = rose_node('table_options', "rose.spill_interval = '1h'", 'autovacuum = off', 'checkpoint_timeout = 1h');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub in_memory { return sql("SELECT coalesce(sum(rows), 0) FROM rose.components('$_[0]') WHERE kind = 'memtable'") }

sub spilled
{
	my ($table, $what) = @_;

	return ok($node->poll_query_until('postgres', "SELECT coalesce(sum(rows), 0) = 0 FROM rose.components('$table') WHERE kind = 'memtable'"), $what);
}

# All spills of workers, which can be asked for without opening a table.
sub spills { return sql('SELECT sum(spills) FROM rose.stat_worker') }

sub fill
{
	my ($table, $with) = @_;

	sql("CREATE TABLE $table (id int PRIMARY KEY, v int) USING rose $with; INSERT INTO $table SELECT i, i FROM generate_series(1, 10) i");
	return;
}

# --- when a table is spilled
fill('common', '');
fill('early', "WITH (rose.spill_interval = '100ms')");
spilled('early', 'a small table with a short interval is spilled');
is(in_memory('common'), 10, 'others are not');

my $before = spills();
sql("ALTER TABLE common SET (rose.spill_interval = '100ms')");
# rose.components would open it
ok($node->poll_query_until('postgres', "SELECT sum(spills) > $before FROM rose.stat_worker"), 'the worker spills when an interval is shortened');
spilled('common', 'a table that nobody opens any more is spilled when its interval is shortened');

fill('undone', '');
sql("BEGIN; ALTER TABLE undone SET (rose.spill_interval = '10ms'); SELECT count(*) FROM undone; SAVEPOINT s; UPDATE undone SET v = 0; ROLLBACK TO s; ROLLBACK");
fill('sentinel', "WITH (rose.spill_interval = '10ms')");
spilled('sentinel', 'the worker has been here');
sql("INSERT INTO sentinel VALUES (0, 0)");
spilled('sentinel', 'and again');
cmp_ok(in_memory('undone'), '>=', 10, 'an interval that was taken back does not count');

sql("BEGIN; ALTER TABLE undone SET (rose.spill_interval = '10ms'); PREPARE TRANSACTION 'p'");
sql("INSERT INTO sentinel VALUES (-1, 0)");
spilled('sentinel', 'the worker has been here');
cmp_ok(in_memory('undone'), '>=', 10, 'nor does one that is prepared');
sql("COMMIT PREPARED 'p'");
sql('INSERT INTO undone VALUES (0, 0)');
spilled('undone', 'it does when that is committed and the table is opened');

# --- its indexes have its options
sub with_index
{
	my ($table, $with) = @_;

	sql("CREATE TABLE $table (id int PRIMARY KEY, v int) USING rose $with; CREATE INDEX ${table}_v ON $table (v);
		INSERT INTO $table SELECT i, i FROM generate_series(1, 10) i");
	return;
}
with_index('entries', '');
with_index('entries_early', "WITH (rose.spill_interval = '100ms')");
spilled($_, 'a table with a short interval is spilled, and its index') foreach 'entries_early', 'entries_early_v';
cmp_ok(in_memory('entries_v'), '>=', 10, 'others are not');
$before = spills();
sql("ALTER TABLE entries SET (rose.spill_interval = '100ms')");
ok($node->poll_query_until('postgres', "SELECT sum(spills) >= $before + 2 FROM rose.stat_worker"), 'the worker spills a table and its index when the interval is shortened');
spilled('entries_v', 'an index that nobody opens any more is spilled then');
with_index('entries_prepared', '');
sql("BEGIN; ALTER TABLE entries_prepared SET (rose.spill_interval = '10ms'); PREPARE TRANSACTION 'p'");
sql('SELECT count(*) FROM entries_prepared');
sql("COMMIT PREPARED 'p'");
sql('INSERT INTO entries_prepared VALUES (0, 0)');
spilled('entries_prepared_v', 'an interval that is prepared counts for an index when it is committed');

# --- a long interval, while the server has a short one
fill('late', "WITH (rose.spill_interval = '1h')");
fill('soon', '');
sql("ALTER SYSTEM SET rose.spill_interval = '10ms'; SELECT pg_reload_conf()");
spilled('soon', 'the interval of the server');
is(in_memory('late'), 10, 'does not count for a table that has one');
sql('ALTER TABLE late RESET (rose.spill_interval)');
spilled('late', 'until that is reset');

# after a restart they are read again
fill('kept', "WITH (rose.spill_interval = '1h')");
crash_and_restart($node);
is(sql('SELECT count(*) FROM kept'), 10, 'rows after a crash');
fill('soon_again', '');
spilled('soon_again', 'the worker has been here');
is(in_memory('kept'), 10, 'an interval is read after a crash');

# --- WAL of components
sub wal_of
{
	my ($sql) = @_;
	my $from = sql('SELECT pg_current_wal_insert_lsn()');

	sql($sql);
	return sql("SELECT pg_current_wal_insert_lsn() - '$from'");
}

sql("ALTER SYSTEM SET rose.spill_interval = '1h'; ALTER SYSTEM SET rose.max_merge_workers = 0; SELECT pg_reload_conf()");
$node->poll_query_until('postgres', 'SHOW rose.max_merge_workers', '0');
my $rows = 'SELECT i, md5(i::text) FROM generate_series(1, 20000) i';
sql('CREATE TABLE logged (id int PRIMARY KEY, v text) USING rose; CREATE TABLE unlogged (id int PRIMARY KEY, v text) USING rose WITH (rose.wal_components = off)');
sql("INSERT INTO $_ $rows") foreach qw(logged unlogged);
sql('SELECT rose.spill(relid), rose.spill(relid2) FROM (SELECT $$logged$$::regclass AS relid, $$unlogged$$::regclass AS relid2) s; CHECKPOINT; CHECKPOINT');
cmp_ok(wal_of("SELECT rose.merge('logged')"), '>', 300_000, 'a merge is logged');
cmp_ok(wal_of("SELECT rose.merge('unlogged')"), '<', 100_000, 'not so one of a table that says so');
sql("ALTER TABLE unlogged SET (rose.wal_components = on); UPDATE unlogged SET v = v || 'x'; SELECT rose.spill('unlogged'); CHECKPOINT; CHECKPOINT");
cmp_ok(wal_of("SELECT rose.merge('unlogged')"), '>', 300_000, 'until it says otherwise');
crash_and_restart($node);
is(sql('SELECT count(*) FROM unlogged'), 20_000, 'the rows after a crash');
is(sql("SELECT count(*) FROM rose.check('unlogged')"), 0, 'and the table is sound');

$node->stop;
done_testing();
