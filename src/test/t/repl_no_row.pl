# Changes of rows that never came here make no rows, and no errors: whoever reads the table skips them, merges drop
# and count them. Values that the upstream did not send are not NULL.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'");
my $conninfo = $upstream->connstr('postgres');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

sub caught_up { return wait_for_apply($upstream, $replica, 'postgres', $_[0] // 's') }

# Every way to read gives these ids.
sub reads
{
	my ($table, $ids, $name) = @_;
	my @keys = map { "(SELECT id FROM $table WHERE id = $_)" } 1 .. 12;

	is(down("SELECT string_agg(id::text, ',' ORDER BY id) FROM $table"), $ids, "$name: scan");
	is(down("SET enable_seqscan = off; SELECT string_agg(id::text, ',') FROM (SELECT id FROM $table ORDER BY id DESC) s"), join(',', reverse split /,/, $ids), "$name: backward");
	is(down('SELECT concat_ws(\',\', ' . join(', ', @keys) . ')'), $ids, "$name: by key");
	is(down("SELECT count(*) || ' ' || count(doc) FROM $table"), (scalar split /,/, $ids) . ' ' . (scalar split /,/, $ids), "$name: whole rows");
	is(down("SET enable_seqscan = off; SELECT string_agg(id::text, ',') FROM (SELECT id FROM $table WHERE id BETWEEN 1 AND 12 ORDER BY id) s"), $ids, "$name: range");
	is(down("SELECT count(*) FROM rose.check('$table')"), 0, "$name: rose.check");
	return;
}

my $big = "repeat('x', 5000)";

# --- rows that were never copied
up("CREATE TABLE t (id int PRIMARY KEY, v int, doc text); ALTER TABLE t ALTER doc SET STORAGE EXTERNAL;"
	. "INSERT INTO t SELECT g, 0, $big FROM generate_series(1, 12) g; CREATE PUBLICATION p FOR TABLE t");
down('CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose');
down("SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'], copy_data => false)");
up('UPDATE t SET v = 1 WHERE id IN (1, 2, 3)');
caught_up();
is(down("SELECT partials FROM rose.stat_subscription_tables"), 3, 'parts of rows');
reads('t', '', 'updates of rows that are not here');
up("UPDATE t SET v = 2, doc = doc || 'y' WHERE id = 2; DELETE FROM t WHERE id = 3; UPDATE t SET v = 2 WHERE id = 4");
caught_up();
reads('t', '2', 'one became whole, one is deleted');
up('UPDATE t SET v = 3 WHERE id = 2; UPDATE t SET v = v + 1 WHERE id IN (1, 4)');
caught_up();
reads('t', '2', 'parts upon parts');
is(down('SELECT v, length(doc) FROM t WHERE id = 2'), '3|5001', 'the whole one has all values');
up('DELETE FROM t WHERE id = 6; UPDATE t SET id = 6 WHERE id = 5');
caught_up();
is(down("SELECT state FROM rose.stat_subscription_tables"), 'ready', 'the key of a row that is not here changes');
reads('t', '2', 'no row at the new key');
my $session = RoseTest::Session->new($replica);
$session->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
up("UPDATE t SET v = 9 WHERE id = 7; DELETE FROM t WHERE id = 8; INSERT INTO t VALUES (8, 1, $big); UPDATE t SET v = 2 WHERE id = 8");
caught_up();
down("SELECT rose.spill('t')");
reads('t', '2,8', 'on disk');
up('UPDATE t SET v = 10 WHERE id IN (1, 7, 8)');
caught_up();
reads('t', '2,8', 'on disk and in memory');
is($session->run('SELECT string_agg(id::text, \',\') FROM t'), '2', 'an old snapshot');
down("SELECT rose.spill('t')");
down("SELECT rose.merge('t')");
reads('t', '2,8', 'merged while an old snapshot is there');
is($session->run('SELECT string_agg(id::text, \',\') FROM t'), '2', 'which sees what it saw');
$session->run('COMMIT');
$session->end;
up('UPDATE t SET v = 11 WHERE id = 9');
caught_up();
down("SELECT rose.spill('t')");
down("SELECT rose.merge('t')");
reads('t', '2,8', 'merged');
# unless a process of the subscription had a snapshot just then
my $left = "SELECT sum(rows) FROM rose.components('t') WHERE kind <> 'memtable'";
for (1 .. 50)
{
	last if down($left) == 2;
	down("SELECT rose.merge('t')");
}
is(down($left), 2, 'nothing else is left');
cmp_ok(down("SELECT missing_rows FROM rose.merge_progress('t')"), '>=', 5, 'what was dropped is counted');
up('UPDATE t SET v = 12 WHERE id IN (10, 8)');
caught_up();
crash_and_restart($replica);
caught_up();
reads('t', '2,8', 'after a crash');

# --- an ordinary table: keys of what is no row are free
up('UPDATE t SET v = 13 WHERE id IN (10, 11, 12)');
caught_up();
down("SELECT rose.spill('t')");
down("SELECT rose.drop_subscription('s')");
is(down("INSERT INTO t VALUES (10, 1, 'local') RETURNING v"), 1, 'a key of what is no row is free');
down("BEGIN; COPY t FROM PROGRAM 'printf \"11\\\\t1\\\\tlocal\\\\n\"'; INSERT INTO t VALUES (12, 1, 'x') ON CONFLICT DO NOTHING; COMMIT");
reads('t', '2,8,10,11,12', 'rows of our own');
like(($replica->psql('postgres', "INSERT INTO t VALUES (10, 2, '')"))[2], qr/duplicate key/, 'and are unique');
like(($replica->psql('postgres', "INSERT INTO t VALUES (8, 2, '')"))[2], qr/duplicate key/, 'as one is that came in parts');
down("DELETE FROM t WHERE id = 10; UPDATE t SET id = 1 WHERE id = 8");
reads('t', '1,2,11,12', 'changed');
down("SELECT rose.spill('t')");
down("SELECT rose.merge('t')");
reads('t', '1,2,11,12', 'and merged');

# --- a row filter turns an UPDATE into an INSERT without its unchanged large value
up("CREATE TABLE f (id int, region text, v int, doc text, PRIMARY KEY (id)); ALTER TABLE f ALTER doc SET STORAGE EXTERNAL;"
	. 'CREATE UNIQUE INDEX f_identity ON f (id, region); ALTER TABLE f ALTER region SET NOT NULL; ALTER TABLE f REPLICA IDENTITY USING INDEX f_identity;'
	. "INSERT INTO f VALUES (1, 'us', 1, $big), (2, 'us', 2, $big), (3, 'eu', 3, $big), (4, 'us', 4, 'short');"
	. "CREATE TABLE keyless (id int, region text NOT NULL, doc text); ALTER TABLE keyless ALTER doc SET STORAGE EXTERNAL;"
	. "CREATE UNIQUE INDEX keyless_identity ON keyless (region); ALTER TABLE keyless REPLICA IDENTITY USING INDEX keyless_identity;"
	. "INSERT INTO keyless VALUES (1, 'us', $big);"
	. "CREATE PUBLICATION f FOR TABLE f WHERE (region = 'eu'), keyless WHERE (region = 'eu')");
down('CREATE TABLE f (id int PRIMARY KEY, region text, v int, doc text) USING rose; CREATE TABLE keyless (id int, region text, doc text) USING rose');
down("SELECT rose.create_subscription('f', \$\$$conninfo\$\$, ARRAY['f'])");
down("SELECT rose.wait_for_sync('f', $timeout)");
up("UPDATE f SET region = 'eu' WHERE id IN (1, 2, 4)");
caught_up('f');
is(down("SELECT inserts, incomplete_inserts FROM rose.stat_subscription_tables WHERE relid = 'f'::regclass"), '3|2', 'inserts without all values are counted');
is(down('SELECT count(*) FROM f WHERE doc IS NULL'), 0, 'no value is NULL that is not');
reads('f', '3,4', 'rows that lack a value');
up("UPDATE f SET doc = doc || 'y' WHERE id = 1; UPDATE f SET v = 20 WHERE id = 2");
caught_up('f');
reads('f', '1,3,4', 'a value that comes later');
up("UPDATE f SET region = 'us' WHERE id = 3; UPDATE f SET region = 'eu' WHERE id = 3");
caught_up('f');
reads('f', '1,4', 'away and back again');
down("SELECT rose.spill('f')");
down("SELECT rose.merge('f')");
reads('f', '1,4', 'the same, merged');
up("UPDATE keyless SET region = 'eu'");
$replica->poll_query_until('postgres', "SELECT last_error ~ 'cannot replicate an INSERT without its unchanged large values.*no primary key' FROM rose.stat_subscription_tables WHERE relid = 'keyless'::regclass")
  or fail('such an insert into a table without a key');
pass('such an insert into a table without a key is an error');

$replica->stop;
$upstream->stop;
done_testing();
