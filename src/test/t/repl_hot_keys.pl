# Keys that the upstream writes again and again: the apply worker keeps the last row of each.
#
# One upstream transaction changes a few keys many thousand times, in each way: whole rows, rows of which a large
# value is not sent because it did not change, deletions and insertions. The replica has what the upstream
# has, and its memory and its runs have next to nothing of what came in between. Nor has it of rows with a column that only it has, of
# which each update leaves that as it is: whether they come in one transaction or in many, as long as nobody has an old snapshot.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memtables' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '16MB'", "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'", 'autovacuum = off');
my $times = 5_000;

$upstream->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v int, w text); ALTER TABLE t ALTER w SET STORAGE EXTERNAL');
$replica->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v int, w text) USING rose');
$upstream->safe_psql('postgres', "INSERT INTO t SELECT g, 0, repeat('w', 100) FROM generate_series(1, 5) g; INSERT INTO t VALUES (6, 0, repeat('w', 5000)); CREATE PUBLICATION p FOR TABLE t");
$upstream->safe_psql('postgres', "CREATE TABLE l (id int PRIMARY KEY, v int, w text); ALTER TABLE l ALTER w SET STORAGE EXTERNAL; INSERT INTO l SELECT g, 0, repeat('w', g * 600) FROM generate_series(1, 8) g; ALTER PUBLICATION p ADD TABLE l");
$replica->safe_psql('postgres', 'CREATE SEQUENCE numbers; CREATE TABLE l (mine int DEFAULT nextval(\'numbers\'), id int PRIMARY KEY, v int, w text) USING rose; CREATE INDEX ON l (mine)');
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

# --- columns that only the replica has
sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub versions { return down("SELECT coalesce(sum(rows), 0) FROM rose.stat_components WHERE relname = 'l' AND kind = 'memtable'") }

sub same_local
{
	my ($what) = @_;
	my $query = 'SELECT id, v, md5(w) FROM l ORDER BY id';

	wait_for_apply($upstream, $replica);
	is(down($query), up($query), "own columns, $what");
	is(down('SELECT count(*) FROM l JOIN was USING (id) WHERE l.mine IS DISTINCT FROM was.mine'), 0, "own columns, $what: they are as they were");
	is(down('SET enable_seqscan = off; SELECT id FROM l WHERE mine = 3'), down('SELECT id FROM l WHERE mine + 0 = 3'), "own columns, $what: by an index on one");
	is(down("SELECT c::text FROM rose.check('l') c"), '', "own columns, $what: nothing is wrong");
	return;
}

# a batch of its own
sub change
{
	up($_[0]);
	wait_for_apply($upstream, $replica);
	return;
}
down('CREATE TABLE was AS SELECT id, mine FROM l');
up("DO 'BEGIN FOR i IN 1..$times LOOP UPDATE l SET v = i WHERE id = 1 + i % 2; END LOOP; END'");
same_local('in one transaction');
cmp_ok(versions(), '<', 100, 'few versions of rows with them are kept');
up("DO 'BEGIN FOR i IN 1..$times LOOP UPDATE l SET w = i || repeat(''w'', 2000) WHERE id = 3 AND i % 3 = 0; UPDATE l SET v = i WHERE id = 3; END LOOP; END'");
same_local('a value that is sent now and then');
cmp_ok(versions(), '<', 200, 'few of these, too');

# nobody has an older snapshot: two or three versions remain, once everybody sees what was there before
down("SELECT rose.spill('l')");
my $n = 0;
change('UPDATE l SET v = ' . ++$n . ' WHERE id = 4') until $n >= 12 && ($n >= 150 || versions() < 6);
cmp_ok(versions(), '<', 6, 'in many transactions');
same_local('in many transactions');

# an older snapshot has what it sees, and afterwards it goes
my $old = RoseTest::Session->new($replica);
my $seen = 'SELECT string_agg(id || \' \' || v || \' \' || mine, \',\' ORDER BY id) FROM l';

$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $then = $old->run($seen);
change('UPDATE l SET v = ' . ++$n . ' WHERE id IN (4, 5)') foreach 1 .. 8;
is($old->run($seen), $then, 'an older snapshot sees what was there');
is($old->run('SELECT v FROM l WHERE id = 4'), $n - 8, '... by the key, too');
$old->run('COMMIT');
$n = 0;
change('UPDATE l SET v = ' . ++$n . ' WHERE id IN (4, 5)') until $n >= 2 && ($n >= 150 || versions() < 10);
cmp_ok(versions(), '<', 10, 'when it has gone, so do versions');
$old->end;
same_local('after an older snapshot');

# a batch that is given up
down('ALTER TABLE l ADD CONSTRAINT no CHECK (v <> 666) NOT VALID');
my $value = down('SELECT v FROM l WHERE id = 4');
up('BEGIN; UPDATE l SET v = 665 WHERE id = 4; UPDATE l SET v = 667 WHERE id = 4; UPDATE l SET v = 666 WHERE id = 4; UPDATE l SET v = 668 WHERE id = 4; COMMIT');
$replica->poll_query_until('postgres', "SELECT state = 'blocked' AND blocked_reason = 'table_error' FROM rose.stat_subscription") or die 'the change does not fail';
is(down('SELECT v FROM l WHERE id = 4'), $value, 'a batch that is given up leaves the row');
down('ALTER TABLE l DROP CONSTRAINT no');
$replica->poll_query_until('postgres', "SELECT blocked_reason IS NULL AND state = 'streaming' FROM rose.stat_subscription") or die 'it does not go on';
same_local('after a batch that was given up');

# between whole rows, rows that are gone and keys that move; with a column that comes meanwhile
up("DO 'BEGIN FOR i IN 1..300 LOOP UPDATE l SET v = i WHERE id = 6; UPDATE l SET v = -i WHERE id = 6; IF i % 3 = 0 THEN UPDATE l SET id = 60 WHERE id = 6; UPDATE l SET v = i * 2 WHERE id = 60; UPDATE l SET id = 6 WHERE id = 60; END IF;"
  . " DELETE FROM l WHERE id = 7; UPDATE l SET v = 3 WHERE id = 7; INSERT INTO l VALUES (7, i, ''again''); UPDATE l SET v = v + 1 WHERE id = 7; IF i % 10 = 0 THEN COMMIT; END IF; END LOOP; END'");
wait_for_apply($upstream, $replica);
down('DELETE FROM was WHERE id = 7');
same_local('whole rows between');
change('UPDATE l SET v = v + 1 WHERE id < 6') foreach 1 .. 3;
down('ALTER TABLE l ADD later int DEFAULT 70');
change('UPDATE l SET v = v + 1 WHERE id < 6') foreach 1 .. 4;
same_local('one that has come meanwhile');
is(down('SELECT count(*) FROM l WHERE later = 70'), up('SELECT count(*) FROM l'), 'which has its default');
change('TRUNCATE l');
change("INSERT INTO l VALUES (1, 1, 'new')");
change('UPDATE l SET v = v + 1') foreach 1 .. 4;
down('DELETE FROM was');
same_local('after TRUNCATE');

crash_and_restart($replica);
same_local('after a crash of the replica');
same('after a crash of the replica');
$replica->safe_psql('postgres', "SELECT rose.merge('t')");
same('after a merge');

$_->stop foreach $upstream, $replica;
done_testing();
