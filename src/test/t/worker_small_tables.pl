
# Many tables with a few rows in memory: they are not written for their age alone, as large ones are, but when memory
# is needed, or after a long time; and to spill them waits for no disk. What committed without a flush is
# lost with its spill in a crash, or not at all.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no registry' if $ENV{ROSE_STANDIN};

my $tables = 300;
my $node = rose_node('small', "rose.memtable_size = '8MB'", "rose.spill_interval = '5s'", 'fsync = on', "wal_writer_delay = '10s'", 'autovacuum = off', 'log_statement = none',
	'max_locks_per_transaction = 512');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub in_memory { return sql("SELECT count(*) FROM rose.stat_components WHERE kind = 'memtable' AND rows > 0 AND relid::regclass::text ~ '^$_[0]'") }

sub create
{
	my ($from, $to) = @_;

	sql("DO 'BEGIN FOR i IN $from .. $to LOOP
		EXECUTE format(\$\$CREATE TABLE s%s (id int PRIMARY KEY, v int) USING rose\$\$, i);
		EXECUTE format(\$\$INSERT INTO s%s SELECT g, 0 FROM generate_series(1, 10) g\$\$, i);
	END LOOP; END'");
	return;
}

# --- large ones go when they are old, small ones stay
sql('CREATE TABLE large (id int PRIMARY KEY, t text) USING rose');
create(1, 10);
sql("INSERT INTO large SELECT g, md5(g::text) FROM generate_series(1, 4000) g");
$node->poll_query_until('postgres', "SELECT count(*) > 0 AND count(*) FILTER (WHERE kind = 'memtable' AND rows > 0) = 0 FROM rose.components('large') WHERE kind <> 'memtable' OR rows > 0") or fail('the large one is spilled');
is(in_memory('large'), 0, 'a large one is spilled when it is old');
is(in_memory('s'), 10, 'small ones of the same age are in memory');

# --- memory is needed
create(11, $tables);
my $share = 8 * 1024 / 8;
ok($node->poll_query_until('postgres', "SELECT used_kb < $share FROM (SELECT sum(bytes) / 1024 AS used_kb FROM rose.stat_components WHERE kind = 'memtable') m"),
	'when they are many, they go until memory is not needed');
cmp_ok(in_memory('s'), '>', $tables / 4, 'and no longer');

# --- no flush
# 18 counts them elsewhere
my $counter = $node->pg_version < 18 ? 'wal_sync FROM pg_stat_wal' : "sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'";
sub syncs { return sql("SELECT pg_stat_force_next_flush(); SELECT $counter") =~ s/^\n//r }
sql("ALTER SYSTEM SET rose.spill_interval = '1h'");
$node->reload;
sql("DO 'BEGIN FOR i IN 1 .. $tables LOOP EXECUTE format(\$\$UPDATE s%s SET v = v + 1\$\$, i); END LOOP; END'");
my $before = syncs();
my $memory = in_memory('s');
is($memory, $tables, 'all have changes');
sql("SELECT pg_stat_force_next_flush() FROM (SELECT count(rose.spill(('s' || i)::regclass)) FROM generate_series(1, $tables) i) s");
is(in_memory('s'), 0, 'all are spilled');
my $syncs = syncs() - $before;
cmp_ok($syncs, '<', $tables / 4, "$tables spills take $syncs flushes");

# --- long after their time they go, whatever memory has
sql("DO 'BEGIN FOR i IN 1 .. $tables LOOP EXECUTE format(\$\$UPDATE s%s SET v = v + 1\$\$, i); END LOOP; END'");
sql("ALTER SYSTEM SET rose.spill_interval = '10ms'");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.stat_components WHERE kind = 'memtable' AND rows > 0"), 'all go after a long time');

# --- a commit that nobody waited for, in a run, and a crash
sql('CREATE TABLE lost (id int PRIMARY KEY, v int) USING rose');
foreach my $round (1 .. 5)
{
	my $seen = sql('SELECT count(*), coalesce(sum(v), 0) FROM lost');
	sql("SET synchronous_commit = off; INSERT INTO lost SELECT g, $round FROM generate_series(1, 10) g ON CONFLICT (id) DO UPDATE SET v = lost.v + 1; SELECT rose.spill('lost')");
	my $made = sql('SELECT count(*), coalesce(sum(v), 0) FROM lost');
	crash_and_restart($node);

	# the same transaction id once more, if it was lost: whatever has it must not be taken for that
	my $session = RoseTest::Session->new($node);
	$session->run('BEGIN; CREATE TABLE taken (id int); SELECT pg_current_xact_id()');
	my $now = sql('SELECT count(*), coalesce(sum(v), 0) FROM lost');
	ok($now eq $seen || $now eq $made, "round $round: all of it or nothing: $now");
	$session->run('ROLLBACK');
	is(sql('SELECT count(*), coalesce(sum(v), 0) FROM lost'), $now, "round $round: as before");
	is(sql("SELECT count(*) FROM rose.check('lost')"), 0, "round $round: rose.check");
	$session->end;
}
$node->stop;
done_testing();
