# Keys that the upstream writes again and again: the apply worker keeps the last row of each.
#
# One upstream transaction changes a few keys many thousand times, in each way: whole rows, rows of which a large
# value is not sent because it did not change, deletions and insertions. The replica has what the upstream
# has, and its memory and its runs have next to nothing of what came in between.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memtables' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '16MB'", "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'");
my $times = 5_000;

$upstream->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v int, w text); ALTER TABLE t ALTER w SET STORAGE EXTERNAL');
$replica->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v int, w text) USING rose');
$upstream->safe_psql('postgres', "INSERT INTO t SELECT g, 0, repeat('w', 100) FROM generate_series(1, 5) g; INSERT INTO t VALUES (6, 0, repeat('w', 5000)); CREATE PUBLICATION p FOR TABLE t");
subscribe($upstream, $replica);

sub same
{
	my ($what) = @_;
	wait_for_apply($upstream, $replica);
	my $query = 'SELECT id, v, length(w) FROM t ORDER BY id';
	is($replica->safe_psql('postgres', $query), $upstream->safe_psql('postgres', $query), $what);
	is($replica->safe_psql('postgres', "SELECT c::text FROM rose.check('t') c"), '', "$what: nothing is wrong");
	return;
}
same('the first copy');

my $rows = "SELECT coalesce(sum(rows), 0) FROM rose.stat_components WHERE relname = 't'";
my $before = $replica->safe_psql('postgres', $rows);
$upstream->safe_psql('postgres', "DO 'BEGIN FOR i IN 1..$times LOOP UPDATE t SET v = i WHERE id = 1 + i % 2; END LOOP; END'");
same('two keys in one transaction');
cmp_ok($replica->safe_psql('postgres', $rows) - $before, '<', $times / 10, 'few versions of them are kept');

$upstream->safe_psql('postgres', "DO 'BEGIN FOR i IN 1..$times LOOP UPDATE t SET v = i WHERE id = 6; UPDATE t SET v = -i WHERE id = 3; END LOOP; END'");
same('rows of which a value is not sent');
$upstream->safe_psql('postgres', "DO 'BEGIN FOR i IN 1..2000 LOOP DELETE FROM t WHERE id = 4; INSERT INTO t VALUES (4, i, ''again''); UPDATE t SET v = i + 1 WHERE id = 4; IF i % 7 = 0 THEN UPDATE t SET id = 7 WHERE id = 5; UPDATE t SET id = 5 WHERE id = 7; END IF; END LOOP; DELETE FROM t WHERE id = 2; END'");
same('deletions, insertions, keys that move');
$upstream->safe_psql('postgres', "DO 'BEGIN FOR i IN 1..300 LOOP UPDATE t SET v = i WHERE id = 1 + i % 3; IF i % 3 = 0 THEN COMMIT; END IF; END LOOP; END'");
same('many transactions');

crash_and_restart($replica);
same('after a crash of the replica');
$replica->safe_psql('postgres', "SELECT rose.merge('t')");
same('after a merge');

$_->stop foreach $upstream, $replica;
done_testing();
