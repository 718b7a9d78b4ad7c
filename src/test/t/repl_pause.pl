
# A table is paused and resumed, by hand or after an error, without a copy: it has everything afterwards, once, whatever
# happens meanwhile on either side. What the upstream keeps for it is shown, and limited.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(time usleep);

plan skip_all => 'the stand-in does not pause tables' if $ENV{ROSE_STANDIN};

seed_random('PAUSE_SEED');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '4MB'", "rose.spill_interval = '1s'", "wal_retrieve_retry_interval = '200ms'");
my @tables = qw(t q nokey parent child);
my $copied = "SELECT string_agg(relid::regclass || ' ' || (sync_lsn IS NOT NULL) || ' ' || state, ', ' ORDER BY relid) FROM rose.stat_subscription_tables";

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub end_of_wal { return up('SELECT pg_current_wal_flush_lsn()') }
sub why { return down('SELECT state, blocked_reason, held_lsn, held_bytes, last_error FROM rose.stat_subscription') . "\n"
	  . down('SELECT relid::regclass, state, sync_lsn, error_lsn, last_error FROM rose.stat_subscription_tables') }
sub state_of { return down("SELECT state FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }
sub wait_for { my ($table) = @_; wait_for_apply($upstream, $replica, 'postgres', 's', $table); return }

sub same
{
	my ($name, @which) = @_;

	is(table_hash($replica, $_), table_hash($upstream, $_), "$name: $_") foreach @which ? @which : @tables;
	return;
}

sub all_same
{
	my ($name) = @_;

	until_down("SELECT state = 'streaming' FROM rose.stat_subscription") or die "$name: " . why();
	wait_for_apply($upstream, $replica);
	same($name);
	ok(until_down("SELECT count(*) = 0 FROM rose.stat_subscription_tables WHERE state <> 'ready'"), "$name: all are ready") or diag why();
	is(down("SELECT copied_rows FROM rose.stat_subscription"), 0, "$name: without a copy");
	return;
}

# So that counts of copies are those of what follows.
sub forget_counts { $replica->restart; until_down("SELECT state = 'streaming' FROM rose.stat_subscription") or die why(); return }

my $id = 1000;
# All kinds of changes of all tables.
sub change
{
	$id += 10;
	up("BEGIN; INSERT INTO t SELECT g, g, repeat(md5(g::text), 3) FROM generate_series($id, $id + 5) g; UPDATE t SET v = v + 1 WHERE id % 7 = 0; UPDATE t SET id = -id WHERE id % 11 = 0; DELETE FROM t WHERE id % 13 = 0;"
		. " INSERT INTO q SELECT g % 5, g::text, 'x' FROM generate_series($id, $id + 5) g; UPDATE q SET a = a + 10 WHERE b LIKE '%3'; INSERT INTO nokey SELECT g, 'x' FROM generate_series($id, $id + 5) g; COMMIT");
	# a large value that is not sent, and moves with its key
	up('UPDATE t SET id = id + 100000 WHERE id = (SELECT max(id) FROM t WHERE length(big) > 10000 AND id < 90000); UPDATE t SET v = -v WHERE length(big) > 10000');
	up("INSERT INTO t SELECT $id + 7, 0, string_agg(md5((g * $id)::text), '') FROM generate_series(1, 3000) g");
	up("BEGIN; INSERT INTO parent VALUES ($id, 'x'); INSERT INTO child VALUES ($id, $id); COMMIT; DELETE FROM child WHERE id = $id - 20");
	return;
}

my $schema = 'CREATE TABLE t (id int PRIMARY KEY, v int, big text)%1$s; CREATE TABLE q (a int, b text, v text, PRIMARY KEY (a, b))%1$s; CREATE TABLE nokey (a int, b text)%1$s;'
  . ' CREATE TABLE parent (id int PRIMARY KEY, v text)%1$s; CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)%1$s;';
up(sprintf $schema, '');
up('ALTER TABLE t ALTER big SET STORAGE EXTERNAL');
up('CREATE PUBLICATION p FOR ALL TABLES');
down(sprintf $schema, ' USING rose');
change();
subscribe($upstream, $replica);
forget_counts();

# --- by hand
down("SELECT rose.pause_table('s', 't')");
is(state_of('t'), 'paused', 'paused');
my $before = table_hash($replica, 't');
change() for 1 .. 3;
wait_for($_) foreach qw(q nokey parent child);
same('while one is paused', qw(q nokey parent child));
is(table_hash($replica, 't'), $before, 'and that stays as it was');
like(error_of($replica, "SELECT rose.wait_for_lsn('s', '" . end_of_wal() . "', $timeout)"), qr/table "public.t" of rose subscription "s" is paused/, 'who waits for it is told');
like(error_of($replica, "SELECT rose.pause_table('s', 't')"), qr/cannot pause table "t" of rose subscription "s", which is in state "paused"/, 'twice');
like(error_of($replica, "SELECT rose.resume_table('s', 'q')"), qr/table "q" of rose subscription "s" is not paused/, 'another one');
like(error_of($replica, "SELECT rose.pause_table('s', 'pg_class')"), qr/is not part of rose subscription "s"/, 'one that is none of it');
ok(until_down("SELECT held_lsn = (SELECT error_lsn FROM rose.stat_subscription_tables WHERE state = 'paused') AND held_bytes > 0 FROM rose.stat_subscription"), 'the view shows what the upstream keeps');
down("SELECT rose.spill('q')");
my $held = down('SELECT held_lsn FROM rose.stat_subscription');
is(down("SELECT durable_lsn > '$held' FROM rose.stat_subscription"), 't', 'the others are durable further on');
is(up("SELECT confirmed_flush_lsn <= '$held' FROM pg_replication_slots"), 't', 'and the slot stays there');
down("SELECT rose.resume_table('s', 't')");
all_same('resumed');
is(down('SELECT held_lsn IS NULL FROM rose.stat_subscription'), 't', 'and nothing is kept');
down("SELECT rose.spill('q')");
ok($upstream->poll_query_until('postgres', "SELECT confirmed_flush_lsn > '$held' FROM pg_replication_slots"), 'the slot moves again');

# Nothing has happened meanwhile.
down("SELECT rose.pause_table('s', 't'); SELECT rose.resume_table('s', 't')");
change();
all_same('at once');

# --- restarts and crashes of both while it is paused; an upstream that shuts down is not kept
down("SELECT rose.pause_table('s', 'nokey')");
change();
wait_for('t');
crash_and_restart($replica);
change();
my $begin = time();
$upstream->stop('fast');
cmp_ok(time() - $begin, '<', 45, 'the upstream shuts down');
$upstream->start;
change();
crash_and_restart($upstream);
change();
until_down("SELECT state = 'streaming' FROM rose.stat_subscription") or die why();
wait_for('t');
$replica->restart;
change();
until_down("SELECT state = 'streaming' FROM rose.stat_subscription") or die why();
wait_for('q');
same('crashes while one is paused', qw(t q parent child));
cmp_ok(down('SELECT count(*) FROM nokey'), '<', up('SELECT count(*) FROM nokey'), 'which lacks rows');
down("SELECT rose.resume_table('s', 'nokey')");
all_same('after crashes');

# --- several, paused and resumed in different orders; TRUNCATE of what references each other, and of others with it
down("SELECT rose.pause_table('s', 'parent')");
change();
wait_for('t');
down("SELECT rose.pause_table('s', 'q')");
change();
up("BEGIN; TRUNCATE parent, child, nokey, q; INSERT INTO parent VALUES (1, 'after'); INSERT INTO child VALUES (1, 1); INSERT INTO nokey VALUES (1, 'after'); INSERT INTO q VALUES (1, 'after', 'x'); COMMIT");
change();
wait_for($_) foreach qw(t nokey child);
same('TRUNCATE while two are paused', qw(t nokey child));
down("SELECT rose.resume_table('s', 'q')");
wait_for($_) foreach qw(t nokey child q);
same('one is resumed', qw(t nokey child q));
down("SELECT rose.pause_table('s', 'nokey')");
change();
wait_for('t');
down("SELECT rose.resume_table('s', 'parent')");
wait_for($_) foreach qw(t child q parent);
same('the other one', qw(t child q parent));
down("SELECT rose.resume_table('s', 'nokey')");
all_same('and a third one');

# --- crashes while it catches up
down("SELECT rose.pause_table('s', 't'); SELECT rose.pause_table('s', 'nokey')");
for (1 .. 10)
{
	change();
	up("INSERT INTO nokey SELECT g, repeat('x', 200) FROM generate_series(1, 3000) g");
	up("UPDATE t SET big = repeat(md5(id::text), 20) WHERE id > 0");
}
up('DELETE FROM t WHERE id % 3 = 0');
wait_for('q');
down("SELECT rose.resume_table('s', 't'); SELECT rose.resume_table('s', 'nokey')");
for (1 .. 4)
{
	usleep(random_between(50_000, 600_000));
	crash_and_restart($replica);
}
change();
all_same('crashes while it catches up');
down("SELECT rose.merge('nokey'); SELECT rose.merge('t')");
same('merged');
is(down("SELECT (SELECT count(*) FROM rose.check('t')) + (SELECT count(*) FROM rose.check('nokey'))"), 0, 'and in order');

# Paused again before it has caught up.
down("SELECT rose.pause_table('s', 't')");
for (1 .. 5) { change(); up("UPDATE t SET big = repeat(md5(id::text), 20) WHERE id > 0") }
wait_for('q');
down("SELECT rose.resume_table('s', 't'); SELECT rose.pause_table('s', 'q')");
change();
wait_for($_) foreach qw(t nokey);
same('paused while another one catches up', qw(t nokey parent child));
down("SELECT rose.resume_table('s', 'q')");
all_same('and resumed');

# --- after an error
down("SELECT rose.alter_subscription('s', on_error => 'pause', on_schema_change => 'stop')");
up("ALTER TABLE nokey ADD COLUMN c int; INSERT INTO nokey VALUES (1, 'c', 2); UPDATE t SET v = 0");
until_down("SELECT state = 'paused' FROM rose.stat_subscription_tables WHERE relid = 'nokey'::regclass") or die why();
change();
wait_for($_) foreach qw(t q);
same('others go on', qw(t q parent child));
down("ALTER TABLE nokey ADD COLUMN c int; SELECT rose.resume_table('s', 'nokey')");
all_same('a column was added');
down('ALTER TABLE q ADD CHECK (a <> 77) NOT VALID');
up("INSERT INTO q VALUES (77, 'x', 'x')");
until_down("SELECT state = 'paused' FROM rose.stat_subscription_tables WHERE relid = 'q'::regclass") or die why();
change();
down("SELECT rose.resume_table('s', 'q')");
until_down("SELECT state = 'paused' FROM rose.stat_subscription_tables WHERE relid = 'q'::regclass") or die why();
wait_for('t');
pass('it fails again, and is paused again');
down("ALTER TABLE q DROP CONSTRAINT q_a_check; SELECT rose.resume_table('s', 'q')");
all_same('put right');

# --- others' subscription options, and rights
down('CREATE ROLE joe');
like(error_of($replica, "SET ROLE joe; SELECT rose.$_('s', 't')"), qr/must be owner of rose subscription "s"/, "not for everybody: $_") foreach qw(pause_table resume_table);
down("BEGIN; SELECT rose.pause_table('s', 't'); ROLLBACK; BEGIN; SAVEPOINT a; SELECT rose.pause_table('s', 't'); ROLLBACK TO a; COMMIT");
change();
all_same('taken back');
down("SELECT rose.pause_table('s', 't')");
change();
wait_for('q');
down("BEGIN; SELECT rose.resume_table('s', 't'); ROLLBACK");
is(state_of('t'), 'paused', 'a resume that is taken back');
change();
wait_for('q');
down("SELECT rose.alter_subscription('s', enabled => false)");
down("SELECT rose.resume_table('s', 't')");
change();
down("SELECT rose.alter_subscription('s', enabled => true)");
all_same('resumed while it is disabled');

# --- the limit
down("SELECT rose.pause_table('s', 't')");
$replica->append_conf('postgresql.conf', "rose.max_paused_wal_size = '2MB'");
$replica->reload;
up("INSERT INTO q SELECT 50, g::text, repeat('x', 100) FROM generate_series(1, 30000) g");
ok(until_down("SELECT state = 'error' FROM rose.stat_subscription_tables WHERE relid = 't'::regclass"), 'paused for too long') or diag why();
like(down("SELECT last_error FROM rose.stat_subscription_tables WHERE relid = 't'::regclass"), qr/more of the upstream's WAL than rose.max_paused_wal_size \(2 MB\); have it copied again/, 'its state says so');
is(down('SELECT held_lsn IS NULL FROM rose.stat_subscription'), 't', 'nothing is kept for it');
like(error_of($replica, "SELECT rose.resume_table('s', 't')"), qr/table "t" of rose subscription "s" is not paused, but in state "error"\nHINT:  .*resync/s, 'it cannot be resumed');
wait_for('q');
same('the others go on', 'q');
down("SELECT rose.alter_subscription('s', resync => 't')");
down("SELECT rose.wait_for_sync('s', $timeout)");
wait_for_apply($upstream, $replica);
same('copied again');

# A slot that was moved by somebody else.
down("SELECT rose.pause_table('s', 't')");
change();
wait_for('q');
down("SELECT rose.spill('q')");
down("SELECT rose.alter_subscription('s', enabled => false)");
until_down("SELECT pid IS NULL FROM rose.stat_subscription") or die why();
until_slot_is_free($upstream);
up("SELECT pg_replication_slot_advance('s', '" . down('SELECT durable_lsn FROM rose.subscription_state') . "')");
down("SELECT rose.alter_subscription('s', enabled => true)");
ok(until_down("SELECT state = 'error' AND last_error ~ 'slot was moved past' FROM rose.stat_subscription_tables WHERE relid = 't'::regclass"), 'the slot was moved') or diag why();
wait_for('q');
same('the others go on', 'q');

$replica->stop;
$upstream->stop;
done_testing();
