# A table of the upstream whose table here is partitioned: copied and streamed into partitions, on several levels, with
# columns in other orders, that come and go meanwhile; what has no place, or whose place cannot be known, is an error of the table.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in routes rows by itself' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.memtable_size = '8MB'", "rose.spill_interval = '1h'");
my @tables = qw(m plain ev ex reg);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub state_of { return down("SELECT state, coalesce(last_error, '') FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }

sub rows_of
{
	my ($node, $table) = @_;
	my $columns = { m => 'id, k, v, doc', plain => 'id, v', ev => 'ts, v', ex => 'id, v', reg => 'id, region, v, doc' }->{$table};

	return table_hash($node, "(SELECT $columns FROM $table" . ($table eq 'ev' ? ' WHERE ts < 60' : '') . ')');
}

sub same
{
	my ($name, @which) = @_;

	wait_for_apply($upstream, $replica);
	foreach my $table (@which ? @which : @tables)
	{
		is(rows_of($replica, $table), rows_of($upstream, $table), "$name: $table");
		is(down("SELECT string_agg(c::text, ' ') FROM pg_partition_tree('$table') t, rose.check(t.relid) c WHERE t.isleaf"), '', "$name: $table is sound");
	}
	return;
}

# It stops by this error, and goes on when that is put right.
sub stops
{
	my ($name, $table, $pattern, $mend) = @_;

	until_down("SELECT blocked_reason = 'table_error' FROM rose.stat_subscription") or die "$name: not stopped";
	like(state_of($table), qr/^failed\|.*$pattern/s, $name);
	ref $mend ? $mend->() : down($mend);
	until_down("SELECT blocked_reason IS NULL AND state = 'streaming' FROM rose.stat_subscription") or die "$name: still stopped: " . state_of($table);
	same("$name, put right", $table);
	return;
}

# --- tables
my $big = "repeat(md5(g::text), 200)";
up(<<"SQL");
CREATE TABLE m (id int, k text, v int, doc text, PRIMARY KEY (id, k)) PARTITION BY HASH (id);
CREATE TABLE m_0 PARTITION OF m FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE m_1 (doc text, k text NOT NULL, id int NOT NULL, v int);
ALTER TABLE m ATTACH PARTITION m_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
ALTER TABLE m ALTER doc SET STORAGE EXTERNAL; ALTER TABLE m_0 ALTER doc SET STORAGE EXTERNAL; ALTER TABLE m_1 ALTER doc SET STORAGE EXTERNAL;
CREATE TABLE plain (id int PRIMARY KEY, v int);
CREATE TABLE ev (ts int, v int);
CREATE TABLE ex (id int PRIMARY KEY, v int);
CREATE TABLE reg (id int PRIMARY KEY, region text, v int, doc text);
ALTER TABLE reg ALTER doc SET STORAGE EXTERNAL;
INSERT INTO m SELECT g, 'abcd'::text COLLATE "C", g, CASE WHEN g % 3 = 0 THEN $big END FROM generate_series(-20, 250) g;
INSERT INTO m SELECT g, 'a', g, 'short' FROM generate_series(100, 150) g;
INSERT INTO plain SELECT g, g FROM generate_series(1, 300) g;
INSERT INTO ev SELECT g % 40, g FROM generate_series(1, 300) g;
INSERT INTO ex SELECT g, g FROM generate_series(1, 300) g;
INSERT INTO reg SELECT g, CASE WHEN g % 2 = 0 THEN 'eu' ELSE 'us' END, g, $big FROM generate_series(1, 100) g;
CREATE PUBLICATION p FOR TABLE m, plain, ev, ex, reg WITH (publish_via_partition_root);
SQL
down(<<"SQL");
SET rose.secondary_indexes = on;
CREATE TABLE m (doc text, id int, k text, v int, g int GENERATED ALWAYS AS (v + 1) STORED, PRIMARY KEY (k, id)) PARTITION BY RANGE (id);
CREATE TABLE m_low (gone int, v int, k text NOT NULL, dropped text, id int NOT NULL, doc text, g int GENERATED ALWAYS AS (v + 1) STORED) USING rose;
ALTER TABLE m_low DROP gone, DROP dropped;
ALTER TABLE m ATTACH PARTITION m_low FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE m_mid (id int NOT NULL, g int GENERATED ALWAYS AS (v + 1) STORED, v int, doc text, k text NOT NULL) PARTITION BY LIST (k);
CREATE TABLE m_mid_a (k text NOT NULL, id int NOT NULL, v int CHECK (v < 100000), g int GENERATED ALWAYS AS (v + 1) STORED, doc text) USING rose;
ALTER TABLE m_mid ATTACH PARTITION m_mid_a FOR VALUES IN ('a');
CREATE TABLE m_mid_rest PARTITION OF m_mid DEFAULT USING rose;
ALTER TABLE m ATTACH PARTITION m_mid FOR VALUES FROM (100) TO (200);
CREATE TABLE m_high PARTITION OF m DEFAULT USING rose;
CREATE INDEX ON m (v);
CREATE TABLE plain (id int PRIMARY KEY, v int) PARTITION BY HASH (id);
CREATE TABLE plain_0 PARTITION OF plain FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING rose;
CREATE TABLE plain_1 PARTITION OF plain FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING rose;
CREATE TABLE ev (ts int, v int) PARTITION BY RANGE (ts);
CREATE TABLE ev_0 PARTITION OF ev FOR VALUES FROM (0) TO (20) USING rose;
CREATE TABLE ev_1 PARTITION OF ev FOR VALUES FROM (20) TO (40) USING rose;
CREATE TABLE ex (id int NOT NULL, v int) PARTITION BY LIST ((id % 3));
CREATE TABLE ex_0 PARTITION OF ex (PRIMARY KEY (id)) FOR VALUES IN (0) USING rose;
CREATE TABLE ex_1 (v int, id int PRIMARY KEY) USING rose;
ALTER TABLE ex ATTACH PARTITION ex_1 FOR VALUES IN (1, 2);
CREATE TABLE reg (id int NOT NULL, region text, v int, doc text) PARTITION BY LIST (region);
CREATE TABLE reg_eu PARTITION OF reg (PRIMARY KEY (id)) FOR VALUES IN ('eu') USING rose;
CREATE TABLE reg_us PARTITION OF reg (PRIMARY KEY (id)) FOR VALUES IN ('us') USING rose;
SQL

# --- what cannot be one
my $create = "SELECT rose.create_subscription('s', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['p'])";
down('CREATE TABLE ev_heap PARTITION OF ev FOR VALUES FROM (40) TO (60) USING heap');
like(error_of($replica, $create), qr/cannot replicate into "public.ev_heap", which is not a rose table/, 'a partition of another kind');
down('DROP TABLE ev_heap');
down('INSERT INTO ev VALUES (1, 0)');

# --- copy
down($create);
until_down("SELECT state = 'error' FROM rose.stat_subscription_tables WHERE relid = 'ev'::regclass");
like(state_of('ev'), qr/^error\|cannot copy into table "ev_0", which is not empty/, 'a partition with rows');
down("SELECT rose.drop_subscription('s')");
down('TRUNCATE ' . join(', ', @tables));
down($create);
down("SELECT rose.wait_for_sync('s', $timeout)");
same('copied');
is(down("SELECT copied_rows FROM rose.stat_subscription_tables WHERE relid = 'm'::regclass"), up('SELECT count(*) FROM m'), 'counted for the whole');
ok(until_down("SELECT n_live_tup = (SELECT count(*) FROM m_low) FROM pg_stat_user_tables WHERE relname = 'm_low'"), 'and for each partition');
is(down('SELECT count(*) FROM m WHERE g IS DISTINCT FROM v + 1'), 0, 'generated columns');
like(error_of($replica, $_), qr/cannot write to table "\w+" because a subscription feeds it/, "refused: $_") foreach 'INSERT INTO m_high (id, k) VALUES (1000, \'x\')', 'INSERT INTO plain VALUES (5000)', 'DELETE FROM ex_1';
like(error_of($replica, "TRUNCATE $_"), qr/cannot truncate table "\w+" because a subscription feeds it/, "refused: TRUNCATE $_") foreach qw(m m_mid_a);
like(error_of($replica, 'ALTER TABLE m_mid_a SET UNLOGGED'), qr/cannot make table "m_mid_a" unlogged because a subscription feeds it/, 'refused: SET UNLOGGED');
like(error_of($replica, "SELECT rose.detach('m_mid_a')"), qr/table "m_mid_a" belongs to rose subscription "s"/, 'refused: rose.detach');

# --- the stream, in both formats
foreach my $format (qw(true false))
{
	down("SELECT rose.alter_subscription('s', binary => $format)");
	my $n = $format eq 'true' ? 1 : 2;
	up(<<"SQL");
INSERT INTO m SELECT g, 'k$n', g, CASE WHEN g % 5 = 0 THEN $big END FROM generate_series(-50, 300, 7) g;
INSERT INTO plain SELECT g, g FROM generate_series(1000 * $n, 1000 * $n + 50) g;
INSERT INTO ev SELECT g % 40, g FROM generate_series(1, 50) g;
INSERT INTO ex SELECT g, g FROM generate_series(1000 * $n, 1000 * $n + 50) g;
INSERT INTO reg SELECT g, 'eu', g, $big FROM generate_series(1000 * $n, 1000 * $n + 50) g;
SQL
	same("INSERT, binary => $format");
	up("UPDATE m SET v = v + 1 WHERE id % 2 = 0; UPDATE m SET doc = 'short' WHERE id % 10 = 0; UPDATE plain SET v = v + 1; UPDATE ex SET v = v + 1 WHERE id % 5 = 0");
	same("UPDATE, binary => $format");
	up("BEGIN; UPDATE m SET id = id + 400 WHERE id < 50; UPDATE m SET id = id - 900, v = v + 1 WHERE id > 380; DELETE FROM m WHERE k = 'a' AND id BETWEEN 160 AND 190; UPDATE m SET k = 'a' WHERE k = 'k$n' AND id BETWEEN 160 AND 190;"
		  . " UPDATE m SET k = 'z$n', v = -1 WHERE k = 'a' AND id % 3 = 0; UPDATE plain SET id = id + 5001 WHERE id % 7 = 0; UPDATE ex SET id = id + 5001; COMMIT");
	same("UPDATE that moves rows, binary => $format");
	up("DELETE FROM m WHERE id % 4 = 1; DELETE FROM plain WHERE id % 3 = 0; DELETE FROM ex WHERE id % 6 = 0; BEGIN; DELETE FROM m WHERE id = 2; INSERT INTO m VALUES (2, 'again$n', 2); SAVEPOINT s; DELETE FROM plain; ROLLBACK TO s; COMMIT");
	same("DELETE, binary => $format");
}
is(down('SELECT count(*) FROM m WHERE g IS DISTINCT FROM v + 1'), 0, 'generated columns, in the stream');
is(down("SET enable_seqscan = off; SELECT count(*) FROM m WHERE v BETWEEN 0 AND 120"), up('SELECT count(*) FROM m WHERE v BETWEEN 0 AND 120'), 'indexes of partitions');
is(down('SELECT inserts, updates, deletes FROM rose.stat_subscription_tables WHERE relid = \'ev\'::regclass'), '100|0|0', 'counted');

# --- where a row is cannot be known
sub copied_anew
{
	my ($table) = @_;

	down("SELECT rose.alter_subscription('s', resync => '$table')");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	return;
}
up("UPDATE reg SET region = 'us' WHERE id = 2");
stops('an UPDATE without the partition key', 'reg', qr/does not contain the primary key, or the partition key, that partition "reg_us" has here/, sub { up('ALTER TABLE reg REPLICA IDENTITY FULL'); copied_anew('reg') });
up("UPDATE reg SET region = 'us' WHERE id % 4 = 0; UPDATE reg SET v = v + 1; UPDATE reg SET id = id + 10000, region = 'eu' WHERE id % 5 = 0; DELETE FROM reg WHERE id % 7 = 0");
same('with all of the old row', 'reg');
up("ALTER TABLE reg REPLICA IDENTITY DEFAULT; DELETE FROM reg WHERE id = (SELECT min(id) FROM reg)");
stops('a DELETE without the partition key', 'reg', qr/cannot replicate a DELETE of table "reg": the upstream does not send the partition key \(region\)/, sub { copied_anew('reg') });
up('ALTER TABLE ev REPLICA IDENTITY FULL; UPDATE ev SET v = 0 WHERE ts = 1');
stops('an UPDATE without key', 'ev', qr/cannot replicate an UPDATE of table "public.ev", which has no primary key here/, sub { copied_anew('ev') });

# --- no partition; what a partition demands
up('INSERT INTO ev VALUES (1, -1), (47, 1); INSERT INTO plain VALUES (-1, -1)');
stops('no partition', 'ev', qr/no partition of relation "ev" found for row.*Partition key of the failing row contains \(ts\) = \(47\)/, 'CREATE TABLE ev_2 PARTITION OF ev FOR VALUES FROM (40) TO (60) USING rose');
like(error_of($replica, 'INSERT INTO ev_2 VALUES (50, 1)'), qr/because a subscription feeds it/, 'the new partition is the subscription\'s');
up("INSERT INTO m VALUES (110, 'a', 1, 'x') ON CONFLICT (id, k) DO UPDATE SET v = 1; UPDATE m SET v = 200000 WHERE id = 110 AND k = 'a'");
stops('a CHECK of a partition', 'm', qr/new row for relation "m_mid_a" violates check constraint/, 'ALTER TABLE m_mid_a DROP CONSTRAINT m_mid_a_v_check');

# one that comes after the batch has begun, when its row is looked for
stop_points_create($replica);
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('route-without', 'wait', 'worker')");
down('CREATE TABLE ev_late (v int, ts int) USING rose');
up('INSERT INTO ev VALUES (1, -2), (95, 2)');
wait_for_stop($replica);
down("SET statement_timeout = '${timeout}s'; ALTER TABLE ev ATTACH PARTITION ev_late FOR VALUES FROM (90) TO (100)");
$control->run("SELECT go_on('route-without')");
wait_for_apply($upstream, $replica);
is(down('SELECT ts, v FROM ev_late'), '95|2', 'a partition that came in the middle of a batch');
is(down("SELECT last_error IS NULL OR last_error !~ '\\(95\\)' FROM rose.stat_subscription"), 't', 'was not missed');
$control->run('SELECT stop_clear()');
undef $control;

# --- partitions come and go
down('CREATE TABLE ev_3 (v int, ts int) USING rose; INSERT INTO ev_3 VALUES (7, 61)');
down('ALTER TABLE ev ATTACH PARTITION ev_3 FOR VALUES FROM (60) TO (80)');
up('INSERT INTO ev VALUES (62, 8)');
wait_for_apply($upstream, $replica);
is(down('SELECT ts, v FROM ev_3 ORDER BY v'), "61|7\n62|8", 'attached, with a row of its own');
up('INSERT INTO ev VALUES (63, 9)');
wait_for_apply($upstream, $replica);
my $held = qr/cannot detach a partition while a subscription has changes in table "ev_3" that are not yet durable/;
like(error_of($replica, 'ALTER TABLE ev DETACH PARTITION ev_3'), $held, 'not with changes that a crash would take back');
like(error_of($replica, 'ALTER TABLE ev DETACH PARTITION ev_3 CONCURRENTLY'), $held, 'nor CONCURRENTLY');
is(down("SELECT (SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = 'ev_3'::regclass), count(*) FROM pg_constraint WHERE conrelid = 'ev_3'::regclass AND contype = 'c'"), 'f|0', '... which has left nothing');
down(q{CREATE SCHEMA archive; CREATE FUNCTION archive() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN
	IF to_regclass('ev_3') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass('ev_3')) THEN ALTER TABLE ev_3 SET SCHEMA archive; END IF; END$$;
	CREATE EVENT TRIGGER archives ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION archive()});
like(error_of($replica, 'ALTER TABLE ev DETACH PARTITION ev_3'), $held, 'nor by another name that an event trigger gives it');
down('DROP EVENT TRIGGER archives');
down("SELECT rose.spill('ev_3')");
down('ALTER TABLE ev DETACH PARTITION ev_3 CONCURRENTLY');
is(down("SELECT count(*) FROM pg_constraint WHERE conrelid = 'ev_3'::regclass AND contype = 'c'"), 1, 'detached CONCURRENTLY, it has a constraint for its bounds');
ok($replica->poll_query_until('postgres', 'WITH i AS (INSERT INTO ev_3 VALUES (1, 64) RETURNING true) SELECT * FROM i'), 'a detached partition is let go');
crash_and_restart($replica);
is(down('SELECT count(*) FROM ev_3 WHERE ts <> 64'), 3, 'with its rows, which are durable');
same('detached', 'ev');
# a row that a crash brings back to the default partition would be there for ever
up("INSERT INTO m VALUES (1000, 'back', 1)");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('m_high')");
up('DELETE FROM m WHERE id = 1000');
wait_for_apply($upstream, $replica);
my $top = 'PARTITION OF m FOR VALUES FROM (1000) TO (2000) USING rose';
my $undurable = qr/cannot add a partition beside the default one while a subscription has changes in table "m_high" that are not yet durable/;
like(error_of($replica, "CREATE TABLE m_top $top"), $undurable, 'not beside a default partition with such changes');
down('CREATE TABLE m_top (LIKE m_high INCLUDING ALL) USING rose');
like(error_of($replica, 'ALTER TABLE m ATTACH PARTITION m_top FOR VALUES FROM (1000) TO (2000)'), $undurable, 'nor one that was made before');
crash_and_restart($replica);
wait_for_apply($upstream, $replica);
same('and after a crash the row goes', 'm');
down('DROP TABLE m_top');
down("SELECT rose.spill('m_high')");
down("CREATE TABLE m_top $top");
up("INSERT INTO m SELECT g, 'top', g FROM generate_series(990, 1010) g");
same('a partition beside a default one', 'm');
is(down('SELECT count(*) FROM m_top'), 11, 'takes what is its own');
up('DELETE FROM m WHERE id >= 1000');
wait_for_apply($upstream, $replica);
down('DROP TABLE m_top');
up("INSERT INTO m SELECT g, 'top', g FROM generate_series(1000, 1010) g");
same('and when it is dropped, the default one does', 'm');

# --- TRUNCATE, crashes, a copy anew
up("BEGIN; INSERT INTO m VALUES (1, 'w', 1); TRUNCATE m, plain; INSERT INTO m SELECT g, 't', g, $big FROM generate_series(1, 300, 11) g; INSERT INTO plain SELECT g, g FROM generate_series(1, 20) g; COMMIT");
same('TRUNCATE');
up("INSERT INTO m SELECT g, 'u', g, $big FROM generate_series(1, 300, 13) g; UPDATE m SET v = v + 1");
same('before a crash');
crash_and_restart($replica);
same('after a crash');
up("UPDATE m SET k = 'a' WHERE k = 'u'");
same('and further on', 'm');
down("SELECT rose.pause_table('s', 'm')");
up('UPDATE m SET v = v + 5; UPDATE plain SET v = v + 5');
wait_for_apply($upstream, $replica, undef, undef, 'plain');
isnt(rows_of($replica, 'm'), rows_of($upstream, 'm'), 'paused');
down("SELECT rose.resume_table('s', 'm')");
same('resumed');
down("SELECT rose.alter_subscription('s', resync => 'm')");
down("SELECT rose.wait_for_sync('s', $timeout)");
up("INSERT INTO m VALUES (170, 'v', 1)");
same('copied anew');
is(down("SELECT string_agg(v::text, ' ') FROM rose.verify('s', ARRAY['m', 'plain', 'ex']::regclass[]) v"), '', 'rose.verify sees no difference');
isnt(down('SELECT count(*) FROM m'), 0, 'where there are rows');

# --- two tables of the upstream in one tree
up('CREATE TABLE ev_1 (ts int, v int); ALTER PUBLICATION p ADD TABLE ev_1');
like(error_of($replica, "SELECT rose.alter_subscription('s', refresh => true)"), qr/table "ev_1" has the rows of another table of the upstream than "public.ev_1"/, 'a partition is no table by itself');
up('ALTER PUBLICATION p DROP TABLE ev_1');

# --- the end
up('ALTER PUBLICATION p DROP TABLE plain');
down("SELECT rose.alter_subscription('s', refresh => true)");
down('INSERT INTO plain VALUES (9000, 1)');
pass('taken out of the publication: partitions can be written to');
down("SELECT rose.drop_subscription('s')");
down("INSERT INTO m (id, k) VALUES (110, 'mine'), (1, 'mine')");
down('DELETE FROM ev');
pass('dropped: partitions can be written to');

$replica->stop;
$upstream->stop;
done_testing();
