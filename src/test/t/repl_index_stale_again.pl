# Passes that look for entries of no row are not made over and over where there are none, nor where they fail; but those that somebody
# has ended are made again; and a partial index is measured by the rows that are in it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "rose.spill_interval = '200ms'", "wal_retrieve_retry_interval = '200ms'", 'autovacuum = off', "rose.memtable_size = '4MB'");
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub entries { return "(SELECT coalesce(sum(rows), 0) FROM rose.stat_components WHERE relname = '$_[0]')" }
my $control = RoseTest::Session->new($replica);

up("CREATE TABLE queue (id int PRIMARY KEY, s int, v int); CREATE TABLE many (id int PRIMARY KEY, s int); CREATE TABLE part (id int PRIMARY KEY, s text, v int);
INSERT INTO many SELECT g, g FROM generate_series(1, 5000) g; INSERT INTO part SELECT g, 'done', g FROM generate_series(1, 30000) g; CREATE PUBLICATION p FOR TABLE queue, many, part");
down("CREATE TABLE queue (id int PRIMARY KEY, s int, v int) USING rose; CREATE INDEX queue_s ON queue (s); CREATE TABLE many (id int PRIMARY KEY, s int) USING rose; CREATE INDEX many_s ON many (s);
CREATE TABLE part (id int PRIMARY KEY, s text, v int) USING rose; CREATE INDEX part_open ON part (v) WHERE s = 'open'");
subscribe($upstream, $replica, undef, "durability => 'local'");

# The changes of an upstream, with entries left behind; the table itself is merged.
sub make_stale
{
	foreach (1 .. 5)
	{
		up('UPDATE many SET s = s + 1000000');
		wait_for_apply($upstream, $replica);
		down("SELECT rose.spill('many')");
	}
	down("SELECT stop_at('merge-sifts', 'error', 'client')");
	like(error_of($replica, "SELECT rose.merge('many')"), qr/at stop point/, 'there are entries of no row');
	down('SELECT stop_clear()');
	return;
}

# ---- nothing to be found ----

no_merge_workers($replica);
my $old = RoseTest::Session->new($replica);
$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue');
down('INSERT INTO queue SELECT g, 0, g FROM generate_series(1, 20000) g; UPDATE queue SET s = 1; DELETE FROM queue');
down("SELECT rose.spill('queue')");
$control->run("SELECT stop_at('merge-sifts', 'skip', 'worker', 0, 0)");
merge_workers($replica, 1);
sleep 8;
cmp_ok(down("SELECT stop_hits('merge-sifts')"), '<', 4, 'tombstones that somebody needs are no reason to look again');
$old->run('COMMIT');
$old->end;
down("SELECT rose.merge('queue')");

no_merge_workers($replica);
my $writer = RoseTest::Session->new($replica);
$writer->run('BEGIN; INSERT INTO queue SELECT g, g, g FROM generate_series(1, 200000) g');
ok($replica->poll_query_until('postgres', 'SELECT ' . entries('queue_s') . ' > 5000'), 'a transaction in progress has runs of its own');
$control->run("SELECT stop_clear(), stop_at('merge-sifts', 'skip', 'worker', 0, 0)");
merge_workers($replica, 1);
sleep 8;
cmp_ok(down("SELECT stop_hits('merge-sifts')"), '<', 3, 'nor are they');
$writer->run('ROLLBACK');
$writer->end;

# ---- entries whose writers somebody does not see ----

no_merge_workers($replica);
$control->run('SELECT stop_clear()');
$old = RoseTest::Session->new($replica);
$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM many');
make_stale();
$control->run("SELECT stop_at('merge-sifts', 'skip', 'worker', 0, 0)");
merge_workers($replica, 1);
ok($replica->poll_query_until('postgres', "SELECT stop_hits('merge-sifts') > 0"), 'they are looked for');
sleep 8;
cmp_ok(down("SELECT stop_hits('merge-sifts')"), '<', 3, 'not over and over');
cmp_ok(down('SELECT ' . entries('many_s')), '>', 20000, 'and stay');
$old->run('COMMIT');
$old->end;
ok($replica->poll_query_until('postgres', 'SELECT ' . entries('many_s') . ' < 1.2 * 5000 + 1000'), 'they go when everybody sees them');

# ---- entries of versions each of which somebody sees ----

no_merge_workers($replica);
$control->run('SELECT stop_clear()');
my @old;
foreach (1 .. 5)
{
	push @old, RoseTest::Session->new($replica);
	$old[-1]->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue');
	up('UPDATE many SET s = s + 1000000');
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('many')");
}
$control->run("SELECT stop_at('merge-sifts', 'skip', 'worker', 0, 0)");
merge_workers($replica, 1);
ok($replica->poll_query_until('postgres', "SELECT stop_hits('merge-sifts') > 0"), 'snapshots between: they are looked for');
sleep 6;
cmp_ok(down('SELECT ' . entries('many_s')), '>', 20000, 'snapshots between: and stay');
foreach (@old) { $_->run('COMMIT'); $_->end }
ok($replica->poll_query_until('postgres', 'SELECT ' . entries('many_s') . ' < 1.2 * 5000 + 1000'), 'snapshots between: they go when nobody has one');

# ---- one that fails ----

no_merge_workers($replica);
make_stale();
$control->run("SELECT stop_clear(), stop_at('merge-sifts', 'error', 'worker', 0, 0)");
merge_workers($replica, 1);
ok($replica->poll_query_until('postgres', "SELECT stop_hits('merge-sifts') = 1"), 'a pass fails');
sleep 12;
is(down("SELECT stop_hits('merge-sifts')"), '1', 'and is not tried again');
down("SELECT rose.merge('many')");
is(down('SELECT ' . entries('many_s') . ' < 1.2 * 5000 + 1000'), 't', 'but when somebody wants it');

# ---- one that ends before its time ----

$replica->append_conf('postgresql.conf', 'rose.debug_sift_keys = 1');
$replica->reload;
foreach my $how ('told to', 'terminated')
{
	no_merge_workers($replica);
	make_stale();
	$control->run("SELECT stop_clear(), stop_at('merge-sift-reads', 'wait', 'worker')");
	merge_workers($replica, 2);
	ok($replica->poll_query_until('postgres', "SELECT stop_hits('merge-sift-reads') = 1"), "$how: the table is read");
	$how eq 'terminated' ? down("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'") : merge_workers($replica, 0);
	$control->run("SELECT go_on('merge-sift-reads')");
	ok($replica->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker' AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'many'::regclass)"), "$how: its worker has ended");
	merge_workers($replica, 2);
	ok($replica->poll_query_until('postgres', 'SELECT ' . entries('many_s') . ' < 1.2 * 5000 + 1000'), "$how: the next one does it");
}

# ---- a partial index, each row of which was in it once ----

no_merge_workers($replica);
up("UPDATE part SET s = 'open' WHERE id <= 25000");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('part'); ANALYZE part");
up("UPDATE part SET s = 'done'");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('part')");
down("SELECT rose.merge('part')") foreach 1 .. 2;
is(down("SELECT count(*) FROM part WHERE s = 'open'"), '0', 'nothing is open');
cmp_ok(down('SELECT ' . entries('part_open')), '<', 1000, 'and nothing is in the index');
up("UPDATE part SET s = 'open' WHERE id <= 25000; UPDATE part SET s = 'done'");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('part'); ANALYZE part");
merge_workers($replica, 2);
ok($replica->poll_query_until('postgres', 'SELECT ' . entries('part_open') . ' < 1000'), 'by itself, too, once ANALYZE knows');

$control->end;
$_->stop foreach $replica, $upstream;
done_testing();
