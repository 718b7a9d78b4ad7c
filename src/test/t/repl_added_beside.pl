# What is beside a column that is added here because the upstream has added it: locks, readers, requests, rights, event triggers, crashes in every window,
# lists of columns, filters, partitions on the upstream, shards, dumps, and the option itself.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'the stand-in does not add columns' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '1h'", 'rose.max_subscriptions = 8', 'max_worker_processes = 30', 'max_replication_slots = 10', 'restart_after_crash = on');
my $conninfo = $upstream->connstr('postgres');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', @_) }
sub has { return down("SELECT count(*) FROM pg_attribute WHERE attrelid = '$_[0]'::regclass AND attname = '$_[1]' AND NOT attisdropped") }
sub rows { my ($node, $columns, $table) = @_; return $node->safe_psql('postgres', "SELECT $columns FROM $table ORDER BY id") }

sub create
{
	my ($name, $publication, $more) = @_;

	down("SELECT rose.create_subscription('$name', \$\$$conninfo\$\$, ARRAY['$publication']" . ($more // '') . ')');
	down("SELECT rose.wait_for_sync('$name', $timeout)");
	return;
}

sub same
{
	my ($table, $columns, $name, $sub) = @_;

	wait_for_apply($upstream, $replica, 'postgres', $sub // 's', $table);
	return is(rows($replica, $columns, $table), rows($upstream, $columns, $table), $name);
}

sub stopped
{
	my ($table, $pattern, $name) = @_;

	until_down("SELECT state IN ('failed', 'paused') FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass");
	return like(down("SELECT last_error FROM rose.subscription_rel WHERE relid = '$table'::regclass"), $pattern, $name);
}

stop_points_create($replica);
my @tables = qw(t named again other owned trigger crash_1 crash_2 crash_3);
foreach my $table (@tables)
{
	up("CREATE TABLE $table (id int PRIMARY KEY, a int, b text); INSERT INTO $table SELECT g, g, 'b' || g FROM generate_series(1, 5) g");
	down("CREATE TABLE $table (id int PRIMARY KEY, a int, b text) USING rose");
}
up('CREATE PUBLICATION p FOR TABLE ' . join ', ', @tables);

# --- the option
like(error_of($replica, "SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'], on_schema_change => 'ignore')"), qr/invalid value for on_schema_change: "ignore".*Valid values are "stop" and "add"/s, 'another value');
create('s', 'p');
is(down("SELECT on_schema_change FROM rose.stat_subscription"), 'add', 'so it is by default');
my $option = "SELECT coalesce(array_to_string(srvoptions, ' '), '') ~ 'on_schema_change=stop' FROM pg_foreign_server WHERE srvname = 's'";
is(down($option), 'f', 'no option of the server then');
down("SELECT rose.alter_subscription('s', on_schema_change => 'stop')");
is(down("SELECT on_schema_change FROM rose.stat_subscription"), 'stop', 'it can be changed');
is(down($option), 't', 'and is in dumps');
up('ALTER TABLE t ADD s int DEFAULT 1; UPDATE t SET a = 10 WHERE id = 1');
stopped('t', qr/table "t" has no column "s", which the upstream publishes; applying.*hint: Add the column here with ALTER TABLE\./, "'stop' stops");
down("SELECT rose.alter_subscription('s', on_schema_change => 'add')");
same('t', 'id, a, b, s', "'add' goes on from there");

# --- somebody has the table locked
my $locker = RoseTest::Session->new($replica);
$locker->run('BEGIN; LOCK TABLE t IN ACCESS SHARE MODE');
up("UPDATE other SET b = 'before'");
up('ALTER TABLE t ADD x int DEFAULT 3; INSERT INTO t VALUES (10, 10, NULL, 1, 4)');
until_down("SELECT waiting_for = 't'::regclass FROM rose.stat_subscription");
pass('it says what it waits for');
my $pid = $locker->run('SELECT pg_backend_pid()');
is(join(' ', map { down("SELECT waiting_pids = '{$pid}' FROM rose.stat_subscription") } 1 .. 10), join(' ', ('t') x 10), 'and who is in its way, at any time');
like(error_of($replica, "SELECT rose.wait_for_lsn('s', 'FFFF/0', 1)"), qr/It waits for "public.t", which is locked by process $pid\./, 'so do those who wait for the subscription');
is(rows($replica, 'id, b', 'other'), rows($upstream, 'id, b', 'other'), 'what came before is there');
my $longest = 0;
foreach (1 .. 30)
{
	my $begun = time();
	down('SELECT count(*) FROM t');
	$longest = time() - $begun if time() - $begun > $longest;
}
cmp_ok($longest, '<', 10, 'readers do not wait behind it');
is(down("SELECT rose.spill('t')"), '', 'who asks for an epoch gets it');
down("SELECT rose.alter_subscription('s', synchronous_commit => 'on')");
until_down("SELECT waiting_for = 't'::regclass FROM rose.stat_subscription");
is(has('t', 'x'), 0, 'it is not there');
down("SELECT rose.pause_table('s', 't')");
up("UPDATE other SET b = 'beside'");
same('other', 'id, a, b', 'the others go on without a table that is paused');
down("SELECT rose.resume_table('s', 't')");
until_down("SELECT waiting_for = 't'::regclass FROM rose.stat_subscription");
down('SELECT count(*) FROM t');
$locker->run('COMMIT');
same('t', 'id, a, b, s, x', 'when it is let go of, it is there');
is(down('SELECT waiting_for FROM rose.stat_subscription'), '', 'and nothing is waited for');

# Readers that overlap leave no moment between them.
my @readers = map { RoseTest::Session->new($replica) } 1 .. 2;
$readers[0]->run('BEGIN; SELECT count(*) FROM t');
up('ALTER TABLE t ADD y int DEFAULT 30; UPDATE t SET a = 11 WHERE id = 10');
my $turns = 0;
while (has('t', 'y') == 0 && $turns++ < 600)
{
	my ($ends, $goes_on) = ($readers[ $turns % 2 ], $readers[ ($turns + 1) % 2 ]);

	$ends->start('BEGIN; SELECT count(*) FROM t');
	select undef, undef, undef, 0.02;
	$goes_on->run('COMMIT');
	$ends->finish;
}
$_->end foreach @readers;
cmp_ok($turns, '<', 600, 'readers that overlap do not keep it out');
same('t', 'id, a, b, s, x, y', 'after that');

# --- an old snapshot
$locker->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other');
up('ALTER TABLE t ADD z int DEFAULT 40; UPDATE t SET z = 41 WHERE id = 1; DELETE FROM t WHERE id = 2');
same('t', 'id, a, z', 'beside an old snapshot');
is($locker->run('SELECT count(*), sum(z), count(*) FILTER (WHERE z <> 40) FROM t'), '6|240|0', 'which sees rows of before, with the value of rows of before');
$locker->run('COMMIT');

# --- rights, and triggers of commands
down('CREATE ROLE owner_1; CREATE TYPE kind AS ENUM (\'k\', \'l\'); REVOKE USAGE ON TYPE kind FROM PUBLIC; GRANT CREATE ON SCHEMA public TO owner_1; ALTER TABLE owned OWNER TO owner_1');
up('CREATE TYPE kind AS ENUM (\'k\', \'l\'); ALTER TABLE owned ADD x kind DEFAULT \'l\'; UPDATE owned SET a = 9 WHERE id = 1');
stopped('owned', qr/permission denied for type public.kind/, 'the owner may not use the type');
down('GRANT USAGE ON TYPE kind TO owner_1');
down("SELECT rose.alter_subscription('s')");
same('owned', 'id, a, b, x', 'when he may, it is added');
down(q{CREATE TABLE seen (who text, what text) USING heap; GRANT INSERT ON seen TO PUBLIC;
CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen SELECT current_user, object_identity FROM pg_event_trigger_ddl_commands(); END $$;
CREATE EVENT TRIGGER note ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION note(); ALTER EVENT TRIGGER note ENABLE ALWAYS;});
up('ALTER TABLE owned ADD y int; UPDATE owned SET a = 9, y = 3 WHERE id = 1');
same('owned', 'id, a, b, x, y', 'an event trigger sees it');
is(down('SELECT who, what FROM seen'), 'owner_1|public.owned', 'as the command of the owner');
down(q{CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not here'; END $$; CREATE EVENT TRIGGER refuse ON ddl_command_start EXECUTE FUNCTION refuse(); ALTER EVENT TRIGGER refuse ENABLE ALWAYS});
up('ALTER TABLE trigger ADD x int DEFAULT 2; UPDATE trigger SET a = 9 WHERE id = 1');
stopped('trigger', qr/not here/, 'one that refuses it stops the table');
down('DROP EVENT TRIGGER refuse; DROP EVENT TRIGGER note');
down("SELECT rose.alter_subscription('s')");
same('trigger', 'id, a, b, x', 'without it, it goes on');

# --- crashes: the column is here, the transaction that brings it is not, and has rows that are described without it
my $mixed = sub { my ($t) = @_; return "BEGIN; INSERT INTO $t VALUES (20, 1, 'b'), (21, 1, NULL); UPDATE $t SET a = 5 WHERE id IN (1, 20); UPDATE $t SET id = 30 WHERE id = 3; ALTER TABLE $t ADD x int DEFAULT 9; INSERT INTO $t VALUES (22, 2, NULL, 8); UPDATE $t SET x = 7 WHERE id = 4; UPDATE $t SET a = 6 WHERE id = 21; COMMIT" };
my $armed = RoseTest::Session->new($replica);
$armed->run("SELECT stop_at('columns-committed', 'crash', 'worker', 0, 1)");
up("UPDATE crash_1 SET a = a + 1; INSERT INTO crash_1 VALUES (15, 15, 'not durable')");
my $log = -s $replica->logfile;
up($mixed->('crash_1'));
$replica->wait_for_log(qr/reinitializing/, $log);
wait_until_up($replica);
$armed->end;
same('crash_1', 'id, a, b, x', 'a crash right after the column was added');
up($mixed->('crash_2'));
same('crash_2', 'id, a, b, x', 'added and applied');
is(has('crash_2', 'x'), 1, 'the column is there');
crash_and_restart($replica);
same('crash_2', 'id, a, b, x', 'a crash after that');
up("UPDATE crash_3 SET b = 'not durable'");
wait_for_apply($upstream, $replica);
$armed = RoseTest::Session->new($replica);
$armed->run("SELECT stop_at('columns-added', 'error', 'worker', 0, 1)");
up($mixed->('crash_3'));
until_down("SELECT last_error ~ 'stop point' FROM rose.stat_subscription");
$armed->run('SELECT stop_clear()');
$armed->end;
down("SELECT rose.alter_subscription('s')");
same('crash_3', 'id, a, b, x', 'an error before the column is committed');
is(down("SELECT count(*), count(problem) FROM rose.verify('s')"), '0|0', 'all is verified');

# --- a column that the subscription has stopped at is dropped, and there is another one of its name by the time it goes on
up('VACUUM FULL again');
down("SELECT rose.alter_subscription('s', enabled => false)");
up('UPDATE again SET a = 7 WHERE id = 3');
up('ALTER TABLE again ADD x int DEFAULT 1; UPDATE again SET x = 9 WHERE id = 1');
up('ALTER TABLE again DROP x');
down("SELECT rose.alter_subscription('s', enabled => true)");
stopped('again', qr/it cannot be told which they were at this change/, 'one that is not there any more');
up('ALTER TABLE again ADD x int DEFAULT 2; UPDATE again SET a = 8 WHERE id = 2');
down("SELECT rose.alter_subscription('s')");
until_down("SELECT last_error !~ 'cannot be told' FROM rose.subscription_rel WHERE relid = 'again'::regclass");
stopped('again', qr/columns that were added before it have been dropped or renamed since/, 'another one has its name');
down('ALTER TABLE again ADD x int');
down("SELECT rose.alter_subscription('s', resync => 'again')");
down("SELECT rose.wait_for_sync('s', $timeout)");
same('again', 'id, a, b, x', 'copied again');

# --- lists of columns
up('CREATE TABLE list_1 (id int PRIMARY KEY, a int, b text); INSERT INTO list_1 SELECT g, g FROM generate_series(1, 5) g; CREATE TABLE list_2 (LIKE list_1 INCLUDING ALL); INSERT INTO list_2 TABLE list_1; CREATE TABLE filtered (LIKE list_1 INCLUDING ALL); INSERT INTO filtered TABLE list_1; CREATE TABLE mapped (LIKE list_1 INCLUDING ALL); INSERT INTO mapped TABLE list_1');
down("CREATE TABLE list_1 (id int PRIMARY KEY, a int, b text) USING rose; CREATE TABLE list_2 (id int PRIMARY KEY, a int, b text) USING rose; CREATE TABLE filtered (id int PRIMARY KEY, a int, b text) USING rose; CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.here (id int PRIMARY KEY, a int, b text) USING rose");
up('CREATE PUBLICATION l FOR TABLE list_1 (id, a, b), list_2 (id, a, b), filtered WHERE (id % 2 = 1), mapped');
create('l', 'l', q{, on_error => 'pause', tables => '{"public.mapped": "elsewhere.here"}'});
up('ALTER TABLE list_1 ADD x int DEFAULT 3; UPDATE list_1 SET x = 4 WHERE id = 1; UPDATE list_1 SET a = 7 WHERE id = 2');
same('list_1', 'id, a, b', 'one that is not in the list is none', 'l');
up('ALTER PUBLICATION l SET TABLE list_1 (id, a, b, x), list_2 (id, a, b), filtered WHERE (id % 2 = 1), mapped; UPDATE list_1 SET a = 8 WHERE id = 3');
stopped('list_1', qr/table "list_1" has no column "x".*published with a list of columns.*hint: Add the column here with ALTER TABLE, and have the table copied again/, 'one that gets into the list');
up('ALTER TABLE list_2 ADD x int; UPDATE list_2 SET x = 4 WHERE id = 1');
up('ALTER PUBLICATION l SET TABLE list_1 (id, a, b, x), list_2, filtered WHERE (id % 2 = 1), mapped; UPDATE list_2 SET a = 8 WHERE id = 3');
stopped('list_2', qr/the publications of the table have changed/, 'a list that is no more');
down("ALTER TABLE $_ ADD x int; SELECT rose.alter_subscription('l', resync => '$_')") foreach qw(list_1 list_2);
down("SELECT rose.wait_for_sync('l', $timeout)");
same($_, 'id, a, b, x', "$_: copied again", 'l') foreach qw(list_1 list_2);
up('ALTER TABLE list_2 ADD y int DEFAULT 6; UPDATE list_2 SET y = 4 WHERE id = 1');
same('list_2', 'id, a, b, x, y', 'and without a list it is added', 'l');
up("ALTER TABLE filtered ADD x int DEFAULT 6; UPDATE filtered SET x = 7, id = id + 10 WHERE id < 3; UPDATE filtered SET id = 14 WHERE id = 5");
wait_for_apply($upstream, $replica, 'postgres', 'l', 'filtered');
is(rows($replica, '*', 'filtered'), rows($upstream, '*', '(SELECT * FROM filtered WHERE id % 2 = 1) f'), 'a filter');
up('ALTER TABLE mapped ADD x int DEFAULT 6; UPDATE mapped SET x = 7 WHERE id = 1');
wait_for_apply($upstream, $replica, 'postgres', 'l', 'elsewhere.here');
is(rows($replica, '*', 'elsewhere.here'), rows($upstream, '*', 'mapped'), 'another name here');

# --- partitions on the upstream
up('CREATE TABLE whole (id int PRIMARY KEY, a int, b text) PARTITION BY RANGE (id); CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (0) TO (3); CREATE TABLE whole_2 (b text, id int NOT NULL, a int); ALTER TABLE whole ATTACH PARTITION whole_2 FOR VALUES FROM (3) TO (100); INSERT INTO whole SELECT g, g FROM generate_series(1, 5) g; CREATE PUBLICATION w FOR TABLE whole WITH (publish_via_partition_root)');
down('CREATE TABLE whole (id int PRIMARY KEY, a int, b text) USING rose');
create('w', 'w');
up('CREATE TABLE whole_3 PARTITION OF whole DEFAULT; INSERT INTO whole VALUES (200, 1)');
up("ALTER TABLE whole ADD x int DEFAULT 6; UPDATE whole SET x = 7 WHERE id IN (1, 4)");
same('whole', 'id, a, b, x', 'partitions there: with a value', 'w');
up('VACUUM FULL whole_1');
up("ALTER TABLE whole ADD y text; UPDATE whole SET y = 'y' WHERE id IN (1, 4)");
same('whole', 'id, a, b, x, y', 'partitions there: without', 'w');
up('BEGIN; ALTER TABLE whole DETACH PARTITION whole_1; ALTER TABLE whole ADD v int DEFAULT random() * 1000 + 1; ALTER TABLE whole_1 ADD v int; ALTER TABLE whole ATTACH PARTITION whole_1 FOR VALUES FROM (0) TO (3); COMMIT; UPDATE whole SET a = 8 WHERE id = 4');
stopped('whole', qr/has no column "v".*written all rows of the table anew/, 'one that was apart while the others got the column says nothing of them');
down('ALTER TABLE whole ADD v int');
down("SELECT rose.alter_subscription('w')");
wait_for_apply($upstream, $replica, 'postgres', 'w', 'whole');
up("ALTER TABLE whole ADD z int DEFAULT random() * 100; UPDATE whole SET a = 9 WHERE id = 4");
stopped('whole', qr/has no column "z".*written all rows of the table anew/, 'partitions there: of which each has another one');
down("SELECT rose.drop_subscription('w')");

# --- shards: the first one adds it for all
foreach my $n (1 .. 3)
{
	up("CREATE SCHEMA u$n; CREATE TABLE u$n.orders (id int PRIMARY KEY, a int); INSERT INTO u$n.orders SELECT g, g FROM generate_series(1, 4) g; CREATE PUBLICATION shard$n FOR TABLE u$n.orders");
}
down('CREATE TABLE orders (shard int, id int, a int, PRIMARY KEY (shard, id)) PARTITION BY LIST (shard)');
foreach my $n (1 .. 3)
{
	down("CREATE SCHEMA u$n; CREATE TABLE u$n.orders PARTITION OF orders FOR VALUES IN ($n) USING rose");
	create("shard$n", "shard$n", ", constants => '{\"shard\": $n}'");
}
up('ALTER TABLE u1.orders ADD x int DEFAULT 6; UPDATE u1.orders SET x = 7 WHERE id = 1');
same('u1.orders', 'id, a, x', 'the first shard', 'shard1');
is(down("SELECT count(*) FROM orders WHERE x = 6"), 11, 'all have it');
up('INSERT INTO u2.orders VALUES (10, 10); ALTER TABLE u2.orders ADD x int DEFAULT 6; UPDATE u2.orders SET x = 8 WHERE id = 1; INSERT INTO u2.orders VALUES (11, 11)');
same('u2.orders', 'id, a, x', 'the second one finds it', 'shard2');
up('ALTER TABLE u3.orders ADD x int; UPDATE u3.orders SET x = 8 WHERE id = 1');
stopped('u3.orders', qr/rows of before have another value in column "x" of table "orders" than on the upstream/, 'the third one has another value in rows of before');
down("SELECT rose.alter_subscription('shard3', on_schema_change => 'stop')");
wait_for_apply($upstream, $replica, 'postgres', 'shard3', 'u3.orders');
is(rows($replica, 'id, a, x', 'u3.orders'), "1|1|8\n2|2|6\n3|3|6\n4|4|6", "with 'stop', it is taken as it is");

# --- an upstream that has what no upstream has: a column with a name of the system's
up("SET allow_system_table_mods = on; ALTER TABLE named ADD x int; UPDATE pg_attribute SET attname = 'tid' WHERE attrelid = 'named'::regclass AND attnum = -1; UPDATE pg_attribute SET attname = 'ctid' WHERE attrelid = 'named'::regclass AND attname = 'x'; UPDATE named SET a = 7 WHERE id = 1");
stopped('named', qr/column name "ctid" conflicts with a system column name/, 'the name of a system column');

$replica->stop;
$upstream->stop;
done_testing();
