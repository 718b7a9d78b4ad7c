# Entries that rows have left in the indexes of a replicated table: merges take them out, by themselves and for rose.merge(), and no other ones. Not
# those of rows that somebody sees yet, or that a crash would bring back; nor any if somebody has locked the table, or if
# the index's functions may give another result one day.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "rose.debug_piece_size = '8kB'", "rose.spill_interval = '200ms'", 'rose.debug_sift_keys = 20', "wal_retrieve_retry_interval = '200ms'", 'autovacuum = off');
my $rows = 2000;
my $times = 20;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }

# Entries of an index, of versions that merges have not brought together too; rose.merge is not used for this.
sub entries { return "(SELECT coalesce(sum(rows), 0) FROM rose.stat_components WHERE relname = '$_[0]')" }

# By each index what a scan finds, and nothing that rose.check says.
sub agree
{
	my ($name) = @_;
	my $by_scan = 'SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off;';
	my $by_index = 'SET LOCAL enable_seqscan = off;';

	foreach my $query ('SELECT string_agg(id::text, \',\' ORDER BY id) FROM t WHERE a BETWEEN 1 AND 300', 'SELECT string_agg(id::text, \',\' ORDER BY id) FROM t WHERE b = \'b7\'',
		'SELECT string_agg(id::text, \',\' ORDER BY id) FROM t WHERE a + 1 = 8', 'SELECT count(*) FROM t WHERE n IS NULL', 'SELECT string_agg(id::text, \',\' ORDER BY id) FROM t WHERE n > 0 AND n < 9',
		"SELECT string_agg(y::text || x, ',' ORDER BY x, y) FROM u WHERE a < 20")
	{
		my $both = down("BEGIN ISOLATION LEVEL REPEATABLE READ; $by_index SELECT coalesce(($query)::text, 'none'); SET LOCAL enable_seqscan = on; $by_scan SELECT coalesce(($query)::text, 'none'); COMMIT");
		my ($by_index_result, $by_scan_result) = split /\n/, $both;

		is($by_index_result, $by_scan_result, "$name: $query");
	}
	is(down("SELECT string_agg(msg, '; ') FROM rose.check('$_')"), '', "$name: rose.check of $_") foreach 't', 'u';
	return;
}

up(<<"SQL");
CREATE TABLE t (id int PRIMARY KEY, a int, b text, n numeric, doc text);
CREATE TABLE u (x text, y int, a int, PRIMARY KEY (x, y));
ALTER TABLE t ALTER doc SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, g, 'b' || g % 10, g % 7, repeat('d', 3000) FROM generate_series(1, $rows) g;
INSERT INTO u SELECT 'x' || g % 5, g, g FROM generate_series(1, $rows) g;
CREATE PUBLICATION p FOR TABLE t, u;
SQL
down(<<'SQL');
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE TABLE t (id int PRIMARY KEY, a int, b text, n numeric, doc text) USING rose;
CREATE TABLE u (y int, a int, x text, PRIMARY KEY (x, y)) USING rose;
CREATE INDEX ta ON t (a); CREATE INDEX tb ON t (b, n DESC) INCLUDE (a); CREATE INDEX te ON t ((a + 1)); CREATE INDEX tp ON t (n) WHERE a > 0; CREATE INDEX tf ON t ((twice(a)));
CREATE INDEX ua ON u (a);
SQL
subscribe($upstream, $replica);
down("SELECT rose.wait_for_sync('s', $timeout)");

# --- by themselves, whatever the columns of the index are of
my @plain = qw(ta tb te tp ua);
foreach my $i (1 .. $times)
{
	up("UPDATE t SET a = (a + 331) % 5000 + 1, b = 'b' || (id + $i) % 10, n = CASE WHEN (id + $i) % 11 > 0 THEN (id + $i) % 7 END; UPDATE u SET a = (a * 7 + $i) % 10007");
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('t'), rose.spill('u')");
}
foreach my $index (@plain)
{
	my $table = substr($index, 0, 1);

	until_down(entries($index) . ' <= 1.2 * ' . entries($table) . ' + 1000 AND ' . entries($index) . " < 0.8 * $times * $rows", "$index: stale entries go by themselves")
	  or diag(down("SELECT relname, kind, count(*), sum(rows) FROM rose.stat_components GROUP BY 1, 2 ORDER BY 1, 2"));
}
cmp_ok(down('SELECT ' . entries('tf')), '>=', $times * $rows, 'not those of an index whose function may be replaced');
agree('by themselves');

# --- rose.merge() takes out what there is
down("SELECT rose.merge('t'), rose.merge('u')");
agree('merged');
up("UPDATE t SET a = a + 1, n = 8; UPDATE u SET a = a + 1");
wait_for_apply($upstream, $replica);
down("SELECT rose.merge('t'), rose.merge('u')");
cmp_ok(down('SELECT ' . entries($_)), '<', 1.1 * $rows, "$_: hardly any are left") foreach @plain;
agree('merged again');

# --- in parts, each of which ends with the last version of a key, though it is left out
no_merge_workers($replica);
foreach my $times (1, 2, 1, 3)
{
	up("UPDATE u SET a = $times * (y * 7919 % 10007)");
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('u')");
}
down("SELECT stop_at('merge-sifts', 'error', 'client')");
like(error_of($replica, "SELECT rose.merge('u')"), qr/at stop point/, 'its table is merged before');
my $parts = 0;
my @problems;
while (1)
{
	down("SELECT stop_at('merge-published', 'error', 'client', $parts)");	# each begins anew
	my $message = error_of($replica, "SELECT rose.merge('ua')");
	down('SELECT stop_clear()');
	last if $message !~ /at stop point/;
	$parts++;
	push @problems, grep { $_ ne '' } down("SELECT msg FROM rose.check('u')");
}
cmp_ok($parts, '>', 1, 'an index is sifted in parts');
is(join("\n", @problems), '', 'and after each of them it is right');
agree('in parts');

# --- beside rose.check, which finds the same entries in several ways
my $checker = RoseTest::Session->new($replica);
foreach my $a (1 .. 6)
{
	up("UPDATE u SET a = $a * y");
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('u')");
	$checker->start("SELECT count(*), string_agg(msg, '; ') FROM rose.check('ua')");
	down("SELECT rose.merge('u')");
	is($checker->finish, '0|', 'an index is sifted while it is checked');
}
$checker->end;

# The table itself is merged, so that its indexes are all that there is to be done.
sub make_stale
{
	foreach my $i (1 .. 5)
	{
		up("UPDATE t SET a = a + $i, b = 'b' || (id + $i) % 10, n = $i");
		wait_for_apply($upstream, $replica);
		down("SELECT rose.spill('t')");
	}
	down("SELECT stop_at('merge-sifts', 'error', 'client')");
	like(error_of($replica, "SELECT rose.merge('t')"), qr/at stop point/, 'nothing is left to be merged but indexes');
	down('SELECT stop_clear()');
	return;
}

# --- beside somebody who locks the table, while it is read, and when its indexes are looked at
make_stale();
my $locker = RoseTest::Session->new($replica);
my @of_t = grep { /^t/ } @plain;
my $stale = join(' OR ', map { entries($_) . " > 1.2 * $rows + 1000" } @of_t);
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('merge-sift-reads', 'wait', 'worker')");
merge_workers($replica, 2);
until_down("stop_hits('merge-sift-reads') = 1", 'the table is read');
$locker->start('BEGIN; LOCK TABLE t');
until_down("EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)", 'somebody waits for it');
$control->run("SELECT go_on('merge-sift-reads')");
$control->end;
$locker->finish;
sleep 2;
is(down("SELECT $stale"), 't', 'entries stay');
$locker->run('COMMIT');
until_down("NOT ($stale)", 'they go when he has gone');
agree('locked while it was read');

no_merge_workers($replica);
make_stale();
is(down("SELECT $stale"), 't', 'there are stale ones again');
$locker->run('BEGIN; LOCK TABLE t');
merge_workers($replica, 2);
sleep 3;
is(down("SELECT $stale"), 't', 'they stay');
$locker->run('COMMIT');
until_down("NOT ($stale)", 'and go when the lock does');
agree('locked when it was looked at');
$locker->end;

# --- what somebody sees stays; a row that is gone has no entry
my $old = RoseTest::Session->new($replica);
$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SET enable_seqscan = off');
my $sum = $old->run('SELECT sum(id) FROM t WHERE a > 0');
my $texts = $old->run("SELECT md5(string_agg(id || b || n, ',' ORDER BY id)) FROM t WHERE b > 'b'");
up("UPDATE t SET a = -a, b = 'c' || b, n = n + 1; DELETE FROM t WHERE id % 2 = 0; INSERT INTO t VALUES (2, 77, 'b7', 1, ''), (4, -1, 'b7', NULL, '')");
wait_for_apply($upstream, $replica);
down("SELECT rose.merge('t')") foreach 1 .. 2;
is($old->run('SELECT sum(id) FROM t WHERE a > 0'), $sum, 'an old snapshot finds by an index what it saw');
is($old->run("SELECT md5(string_agg(id || b || n, ',' ORDER BY id)) FROM t WHERE b > 'b'"), $texts, 'by another one, too');
agree('others beside it');
$old->run('COMMIT');
$old->end;
down("SELECT rose.merge('t')") foreach 1 .. 2;
cmp_ok(down('SELECT ' . entries('ta')), '<', 0.6 * $rows, 'entries of deleted rows go, too');
agree('and then');

# --- there and back, with versions that have no entry of their own: same values, and columns that are not sent
up("UPDATE t SET a = 5; UPDATE t SET a = 6; UPDATE t SET a = 5; UPDATE t SET n = 3; UPDATE t SET a = a");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('t')");
up("UPDATE t SET b = 'b7'");
wait_for_apply($upstream, $replica);
down("SELECT rose.merge('t')");
agree('there and back');
is(down('SET enable_seqscan = off; SELECT count(*) FROM t WHERE a = 5'), $rows / 2 + 2, 'all of them');

# --- what a crash brings back
up('UPDATE t SET a = a + 1000, n = NULL');
wait_for_apply($upstream, $replica);
crash_and_restart($replica);
agree('after a crash');
wait_for_apply($upstream, $replica);
agree('and after the changes came again');

is(table_hash($replica, 't'), table_hash($upstream, 't'), 't is the upstream\'s');
is(table_hash($replica, '(SELECT x, y, a FROM u)'), table_hash($upstream, 'u'), 'and u');
$_->stop foreach $replica, $upstream;
done_testing();
