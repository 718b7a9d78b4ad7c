# What is counted as a conflict with "certain", where a large transaction's run stays as it was written for a while: it may be older than runs of later ones, which are not read.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in counts no conflicts' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "rose.memtable_size = '4MB'", 'rose.max_merge_workers = 0', "rose.spill_interval = '1h'", 'autovacuum = off');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub changed { up($_) foreach @_; return wait_for_apply($upstream, $replica) }
sub runs { return down("SELECT string_agg(kind, ', ' ORDER BY kind) FROM (SELECT DISTINCT kind FROM rose.components('t') WHERE kind LIKE '%run') k") }
sub counts { return down("SELECT concat_ws(' ', confl_insert_exists, confl_update_exists, confl_update_missing, confl_delete_missing) FROM rose.stat_subscription_tables WHERE relname = 't'") }

up("CREATE TABLE t (id int PRIMARY KEY, v int, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL; INSERT INTO t SELECT g, 0, repeat('b', 3000) FROM generate_series(1, 20) g; CREATE PUBLICATION p FOR TABLE t");
down('CREATE TABLE t (id int PRIMARY KEY, v int, big text) USING rose');
subscribe($upstream, $replica, 'postgres', "count_conflicts => 'certain'");

# A row goes, and one comes, in a transaction that memory has no room for.
changed("BEGIN; DELETE FROM t WHERE id = 7; INSERT INTO t SELECT g, 0, repeat('c', 3000) FROM generate_series(1001, 4000) g; COMMIT");
is(runs(), 'private run', 'its rows are in private runs');

# Then it is there, and the other one is not, in a run that is newer.
changed("INSERT INTO t VALUES (7, 1, repeat('d', 3000))", 'DELETE FROM t WHERE id = 1001');
down("SELECT rose.spill('t')");
is(runs(), 'private run, run', '... which stay when newer rows are written');

# The first of these has a part of the row in memory, above which the next one is looked for.
changed(map { "UPDATE t SET v = v + 1 WHERE id = 7" } 1 .. 3);
is(counts(), '0 0 0 0', 'a row that a later transaction than that of the private run has made is not missed');
is(down('SELECT v, length(big) FROM t WHERE id = 7'), '4|3000', '... it is there');

changed("INSERT INTO t VALUES (1001, 1, 'e')", 'DELETE FROM t WHERE id = 1001', "INSERT INTO t VALUES (1001, 2, 'f')");
is(counts(), '0 0 0 0', 'nor is one that is gone taken for there');

# A part of a row that the private run has: what is below is not known, so it is there.
changed(map { "UPDATE t SET v = v + 1 WHERE id = 1002" } 1 .. 3);
is(counts(), '0 0 0 0', 'a row of the private run is there');

# In the transaction at hand its own runs are known.
changed("BEGIN; DELETE FROM t WHERE id = 8; INSERT INTO t SELECT g, 0, repeat('c', 3000) FROM generate_series(5001, 8000) g; INSERT INTO t VALUES (8, 1, repeat('d', 3000)); UPDATE t SET v = 2 WHERE id IN (8, 5001); COMMIT");
is(counts(), '0 0 0 0', 'of a large transaction by itself');
is(table_hash($replica, 't'), table_hash($upstream, 't'), 'the tables are equal');
is(down("SELECT * FROM rose.check('t')"), '', 'rose.check');

$_->stop foreach $replica, $upstream;
done_testing();
