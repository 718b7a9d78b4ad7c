
# A change of a table that fails stops the subscription, which loses nothing: what came before is applied and durable,
# nothing of the transaction and after it is, or is confirmed. When the cause is put right here, it goes on, without a copy.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'the stand-in has errors of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'");
my @tables = qw(t other comp nokey dom large);
my $copied = "SELECT string_agg(sync_lsn::text, ' ' ORDER BY relid) FROM rose.stat_subscription_tables";
my $first_copy;

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub end_of_wal { return up('SELECT pg_current_wal_flush_lsn()') }
sub why { return down("SELECT state, blocked_reason, last_error FROM rose.stat_subscription WHERE subname = 's'") . "\n"
	  . down('SELECT relid::regclass, state, error_lsn, last_error FROM rose.stat_subscription_tables') }

# With the worker away, so that all of it comes in one batch.
sub together
{
	down("SELECT rose.alter_subscription('s', enabled => false)");
	until_down('SELECT pid IS NULL FROM rose.stat_subscription') or die 'disabled';
	up($_) foreach @_;
	down("SELECT rose.alter_subscription('s', enabled => true)");
	return;
}

sub stopped
{
	my ($table, $pattern, $name) = @_;

	until_down("SELECT state = 'blocked' AND blocked_reason = 'table_error' FROM rose.stat_subscription") or die "$name: not stopped: " . why();
	like(down('SELECT last_error FROM rose.stat_subscription'), qr/stopped at the transaction committed at [0-9A-F\/]+, by an error of table "public.$table": .*$pattern.*hint: .*skip_lsn => /s, "$name: stopped");
	is(down("SELECT state FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), 'failed', "$name: the table that has failed");
	like(down("SELECT last_error FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), $pattern, "$name: and why");
	is(down("SELECT count(*) FROM rose.stat_subscription_tables WHERE state <> 'ready'"), 1, "$name: the others are well");
	my $at = down("SELECT error_lsn FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass");
	is(down("SELECT applied_lsn = '$at' AND durable_lsn = '$at' FROM rose.stat_subscription"), 't', "$name: what came before is durable");
	is(up("SELECT confirmed_flush_lsn <= '$at' FROM pg_replication_slots WHERE slot_name = 's'"), 't', "$name: nothing of it is confirmed");
	return $at;
}

# Goes on sooner than it would by itself, and has all.
sub goes_on
{
	my ($name) = @_;
	my $begin = time();

	until_down("SELECT blocked_reason IS NULL AND state = 'streaming' FROM rose.stat_subscription") or die "$name: still stopped: " . why();
	my $took = time() - $begin;
	cmp_ok($took, '<', 28, "$name: goes on at once");
	wait_for_apply($upstream, $replica);
	is(table_hash($replica, $_), table_hash($upstream, $_), "$name: $_") foreach @tables;
	ok(until_down("SELECT count(*) = 0 FROM rose.stat_subscription_tables WHERE state <> 'ready' OR last_error IS NOT NULL"), "$name: nothing is wrong any more") or diag why();
	is(down($copied), $first_copy, "$name: without a copy");
	return;
}

my $schema = 'CREATE TABLE t (id int PRIMARY KEY, v text)%1$s; CREATE TABLE other (id int PRIMARY KEY, v text)%1$s; CREATE TABLE comp (a int, b text, v int, PRIMARY KEY (a, b))%1$s;'
  . ' CREATE TABLE nokey (a int, b text)%1$s; CREATE TABLE dom (id int PRIMARY KEY, d positive, m mood)%1$s; CREATE TABLE large (id int PRIMARY KEY, v text)%1$s';
up("CREATE DOMAIN positive AS int; CREATE TYPE mood AS ENUM ('good', 'bad'); " . sprintf $schema, '');
up("INSERT INTO t VALUES (0, 'x'); INSERT INTO other VALUES (0, 'x'); INSERT INTO comp VALUES (0, 'x', 0); INSERT INTO nokey VALUES (0, 'x'); INSERT INTO dom VALUES (0, 1, 'good');"
	. " INSERT INTO large VALUES (0, 'x'); CREATE PUBLICATION p FOR ALL TABLES");
down("CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE TYPE mood AS ENUM ('good', 'bad'); " . sprintf $schema, ' USING rose');
subscribe($upstream, $replica, undef, q{on_schema_change => 'stop'});
$first_copy = down($copied);
is(down('SELECT on_error FROM rose.stat_subscription'), 'stop', 'so it is by default');

# --- a column that the upstream adds
together("INSERT INTO other VALUES (1, 'before'); INSERT INTO t VALUES (1, 'before'); INSERT INTO nokey VALUES (1, 'before')",
	"ALTER TABLE t ADD COLUMN c int; BEGIN; INSERT INTO other VALUES (2, 'in it'); INSERT INTO nokey VALUES (2, 'in it'); INSERT INTO t VALUES (2, 'in it', 2); COMMIT",
	"INSERT INTO other VALUES (3, 'after')");
my $at = stopped('t', qr/table "t" has no column "c", which the upstream publishes/, 'a new column');
is(down("SELECT string_agg(id::text, ' ' ORDER BY id) FROM other"), '0 1', 'what came before is there, and no more');
is(down("SELECT rose.wait_for_lsn('s', '$at', 1)"), '', 'who waits for a position before it has it');
my $begin = time();
like(error_of($replica, "SELECT rose.wait_for_lsn('s', '" . end_of_wal() . "', $timeout)"), qr/subscription "s" is blocked: table_error/, 'who waits for more is told');
cmp_ok(time() - $begin, '<', 60, 'at once');
is(down("SELECT rose.spill('other')"), '', 'it can be spilled');
stopped('t', qr/has no column "c"/, 'as before');
down('ALTER TABLE t ADD COLUMN c int');
goes_on('a new column');

# A column with a default: the rows that are there have it, too, if they get it here as well.
up("ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 7; INSERT INTO t (id, d) VALUES (4, 8); UPDATE t SET c = 5 WHERE id = 1");
stopped('t', qr/has no column "d"/, 'a column with a default');
down('ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 7');
goes_on('a column with a default');

# One that is added here before.
down('ALTER TABLE t ADD COLUMN e text');
up("ALTER TABLE t ADD COLUMN e text; INSERT INTO t (id, e) VALUES (5, 'e')");
goes_on('a column that is here before');

# --- a constraint, a composite key, key changes
up("INSERT INTO comp SELECT g % 10, g::text, g FROM generate_series(1, 1000) g");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('comp')");
down('ALTER TABLE comp ADD CHECK (v < 2000)');
together('UPDATE comp SET a = a + 100 WHERE v < 500', 'DELETE FROM comp WHERE v = 600; UPDATE comp SET a = a + 1000, v = v + 1500 WHERE v BETWEEN 700 AND 800', 'UPDATE comp SET v = 1 WHERE v > 2000');
stopped('comp', qr/violates check constraint "comp_v_check"/, 'a constraint');
is(down('SELECT count(*) FILTER (WHERE a >= 100 AND a < 1000), count(*) FILTER (WHERE a >= 1000), count(*) FROM comp'), '500|0|1000', 'key changes: those of before, and no others');
down('ALTER TABLE comp DROP CONSTRAINT comp_v_check');
goes_on('a constraint');

# --- crashes and restarts while it has stopped; a table without key, to which nothing may come twice
down("SELECT rose.spill('nokey')");
down('ALTER TABLE nokey ALTER b SET NOT NULL');
together("INSERT INTO nokey SELECT g, 'before' FROM generate_series(10, 1000) g; INSERT INTO other VALUES (10, 'before')",
	"BEGIN; INSERT INTO nokey VALUES (3, 'in it'), (4, NULL); INSERT INTO other VALUES (11, 'in it'); COMMIT", "INSERT INTO nokey VALUES (5, 'after'); INSERT INTO other VALUES (12, 'after')");
$at = stopped('nokey', qr/null value in column "b" of relation "nokey" violates not-null constraint/, 'without key');
crash_and_restart($replica);
is(stopped('nokey', qr/null value in column "b"/, 'after a crash'), $at, 'at the same position');
crash_and_restart($upstream);
$replica->restart;
is(stopped('nokey', qr/null value in column "b"/, 'after a crash of the upstream'), $at, 'at the same position');
is(down('SELECT count(*), count(DISTINCT a) FROM nokey'), '994|994', 'nothing is there twice');
$begin = time();
$upstream->stop('fast');
cmp_ok(time() - $begin, '<', 45, 'nor does it keep the upstream from shutting down');
$upstream->start;
down('ALTER TABLE nokey ALTER b DROP NOT NULL');
crash_and_restart($replica);
goes_on('without key');
crash_and_restart($replica);
goes_on('after another crash');

# --- what is put right elsewhere than in the table
up("INSERT INTO dom VALUES (1, -1, 'good'); INSERT INTO dom VALUES (2, 2, 'good')");
stopped('dom', qr/value for domain public.positive violates check constraint/, 'a domain');
down('ALTER DOMAIN positive DROP CONSTRAINT positive_check');
goes_on('a domain');
up("ALTER TYPE mood ADD VALUE 'so so'");
up("INSERT INTO dom VALUES (3, 2, 'so so')");
stopped('dom', qr/invalid input value for enum public.mood: "so so"/, 'an enum');
down("ALTER TYPE mood ADD VALUE 'so so'");
goes_on('an enum');
down("CREATE TABLE forbidden (v text) USING heap; INSERT INTO forbidden VALUES ('word');"
	. " CREATE FUNCTION allowed(text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT NOT EXISTS (SELECT FROM public.forbidden WHERE v = \$1)'; ALTER TABLE other ADD CHECK (allowed(v)) NOT VALID");
up("INSERT INTO other VALUES (20, 'word')");
stopped('other', qr/violates check constraint/, 'what a function reads');
down('DELETE FROM forbidden');
down("SELECT rose.alter_subscription('s')");
goes_on('what a function reads');
down('ALTER TABLE other DROP CONSTRAINT other_v_check');

# --- large transactions, which go to private runs; TRUNCATE; several tables
down('ALTER TABLE large ADD CHECK (id <> 29999) NOT VALID');
together("INSERT INTO other VALUES (30, 'before')", "BEGIN; INSERT INTO other VALUES (31, 'in it'); INSERT INTO large SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 30000) g; COMMIT; UPDATE large SET v = 'x' WHERE id % 100 = 0");
stopped('large', qr/violates check constraint/, 'a large transaction');
is(down('SELECT count(*) FROM large'), 1, 'nothing of it is there');
is(down('SELECT max(id) FROM other'), 30, 'nor of it elsewhere');
crash_and_restart($replica);
stopped('large', qr/violates check constraint/, 'a large transaction, after a crash');
down('ALTER TABLE large DROP CONSTRAINT large_id_check');
goes_on('a large transaction');

down('ALTER TABLE t ADD CHECK (id <> 40) NOT VALID');
together('DELETE FROM other WHERE id < 5', "BEGIN; TRUNCATE other, nokey; INSERT INTO other VALUES (40, 'after it'); INSERT INTO nokey VALUES (40, 'after it'); INSERT INTO t (id) VALUES (40); COMMIT; TRUNCATE comp; INSERT INTO comp VALUES (1, 'x', 1)");
stopped('t', qr/violates check constraint/, 'a TRUNCATE');
cmp_ok(down('SELECT count(*) FROM nokey'), '>', 900, 'the other tables are as they were');
down('ALTER TABLE t DROP CONSTRAINT t_id_check');
goes_on('a TRUNCATE');

# A trigger of one of those that are truncated together: its error is that table's.
down("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION 'not %', TG_RELNAME; END \$\$;"
	. ' CREATE TRIGGER refuse AFTER TRUNCATE ON comp EXECUTE FUNCTION refuse(); ALTER TABLE comp ENABLE ALWAYS TRIGGER refuse');
up("BEGIN; TRUNCATE other, comp, nokey; INSERT INTO comp VALUES (2, 'x', 2); COMMIT");
stopped('comp', qr/not comp/, 'a trigger of TRUNCATE');
down('DROP TRIGGER refuse ON comp');
goes_on('a trigger of TRUNCATE');

# Two tables fail, one after the other, in one transaction.
down('ALTER TABLE t ADD CHECK (id <> 50) NOT VALID; ALTER TABLE comp ADD CHECK (a <> 50) NOT VALID');
together("BEGIN; INSERT INTO other VALUES (50, 'in it'); INSERT INTO t (id) VALUES (50); INSERT INTO comp VALUES (50, 'x', 1); COMMIT");
$at = stopped('t', qr/violates check constraint/, 'the first of two');
down('ALTER TABLE t DROP CONSTRAINT t_id_check');
until_down("SELECT state = 'failed' FROM rose.stat_subscription_tables WHERE relid = 'comp'::regclass") or die why();
is(down("SELECT error_lsn FROM rose.stat_subscription_tables WHERE relid = 'comp'::regclass"), $at, 'the second one');
down('ALTER TABLE comp DROP CONSTRAINT comp_a_check');
goes_on('both');

# --- a table whose type, or existence, does not fit; a resync
down("SELECT rose.spill('t')");
down('ALTER TABLE t ALTER v TYPE int USING NULL');
up("INSERT INTO t (id, v) VALUES (60, 'sixty'); INSERT INTO other VALUES (60, 'x')");
stopped('t', qr/invalid input syntax for type integer: "sixty"/, 'a type');
down('ALTER TABLE t ALTER v TYPE text USING v::text');
until_down("SELECT state = 'streaming' FROM rose.stat_subscription") or die why();
wait_for_apply($upstream, $replica);
is(down('SELECT v FROM t WHERE id = 60'), 'sixty', 'a type: goes on');
# what was there before has lost its value here
down("SELECT rose.alter_subscription('s', resync => 't')");
down("SELECT rose.wait_for_sync('s', $timeout)");
wait_for_apply($upstream, $replica);
is(table_hash($replica, 't'), table_hash($upstream, 't'), 'copied again');

# --- the other way: stop and pause
down('ALTER TABLE t ADD CHECK (id <> 70) NOT VALID');
up("INSERT INTO t (id) VALUES (70); INSERT INTO other VALUES (70, 'x')");
stopped('t', qr/violates check constraint/, 'before it pauses');
down("SELECT rose.alter_subscription('s', on_error => 'pause')");
wait_for_apply($upstream, $replica, 'postgres', 's', 'other');
is(down("SELECT state FROM rose.stat_subscription_tables WHERE relid = 't'::regclass"), 'paused', 'now it is paused');
is(down('SELECT max(id) FROM other'), 70, 'and the others go on');
is(down('SELECT on_error FROM rose.stat_subscription'), 'pause', 'the view says so');
down("ALTER TABLE t DROP CONSTRAINT t_id_check; SELECT rose.alter_subscription('s', on_error => 'stop'); SELECT rose.resume_table('s', 't')");
wait_for_apply($upstream, $replica);
is(table_hash($replica, $_), table_hash($upstream, $_), "resumed: $_") foreach @tables;
like(error_of($replica, "SELECT rose.alter_subscription('s', on_error => 'ignore')"), qr/invalid value for on_error: "ignore"/, 'another value');

# --- it can be disabled, enabled and dropped while it has stopped
down('ALTER TABLE t ADD CHECK (id <> 80) NOT VALID');
up("INSERT INTO t (id) VALUES (80)");
stopped('t', qr/violates check constraint/, 'before it is disabled');
down("SELECT rose.alter_subscription('s', enabled => false)");
until_down("SELECT state = 'disabled' FROM rose.stat_subscription") or die why();
down("SELECT rose.alter_subscription('s', enabled => true)");
stopped('t', qr/violates check constraint/, 'enabled again');
down("SELECT rose.drop_subscription('s')");
is(down('SELECT count(*) FROM rose.subscription_options'), 0, 'dropped, with its options');
is(up('SELECT count(*) FROM pg_replication_slots'), 0, 'and its slot');

$replica->stop;
$upstream->stop;
done_testing();
