# Owners: tables of several owners are emptied together, and each owner's code runs as that owner; a subscription whose owner
# is no superuser any more stops. And what changes a subscription keeps its worker away until it has ended, however it ends.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no workers of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.max_subscriptions = 4", "wal_retrieve_retry_interval = '200ms'", "max_prepared_transactions = 2");
my $conninfo = $upstream->connstr('postgres');
my @tables = qw(parent child plain hidden.t);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub fails { return ($replica->psql('postgres', $_[0]))[2] }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub why { return down('SELECT subname, state, blocked_reason, last_error FROM rose.stat_subscription') . "\n" . down('SELECT relid::regclass, state, last_error FROM rose.stat_subscription_tables') }

sub is_same
{
	my ($name) = @_;

	wait_for_apply($upstream, $replica);
	is(table_hash($replica, $_), table_hash($upstream, $_), "$name: $_") foreach @tables;
	return;
}

# One more row in each table.
my $id = 100;
sub change
{
	$id++;
	up("INSERT INTO parent VALUES ($id, 'x'); INSERT INTO child VALUES ($id, $id); INSERT INTO plain VALUES ($id, 'x'); INSERT INTO hidden.t VALUES ($id, 'x')");
	return;
}

sub synced
{
	my ($name) = @_;

	down("SELECT rose.wait_for_sync('s', $timeout)");
	change();
	is_same($name);
	return;
}

my $schema = 'CREATE SCHEMA hidden; CREATE TABLE parent (id serial PRIMARY KEY, v text)%s; CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)%s;'
  . ' CREATE TABLE plain (id int PRIMARY KEY, v text)%s; CREATE TABLE hidden.t (id int PRIMARY KEY, v text)%s';
up(sprintf $schema, ('') x 4);
up("INSERT INTO parent SELECT g, 'old' FROM generate_series(1, 10) g; INSERT INTO child SELECT g, g FROM generate_series(1, 10) g;"
	. " INSERT INTO plain SELECT g, 'old' FROM generate_series(1, 10) g; INSERT INTO hidden.t SELECT g, 'old' FROM generate_series(1, 10) g;"
	. ' CREATE PUBLICATION p FOR TABLE ' . join(', ', @tables));
down(sprintf $schema, (' USING rose') x 4);
down(<<'SQL');
CREATE ROLE alice; CREATE ROLE bob; CREATE ROLE boss SUPERUSER LOGIN;
ALTER TABLE parent OWNER TO alice; ALTER TABLE child OWNER TO bob; ALTER TABLE plain OWNER TO alice; ALTER TABLE hidden.t OWNER TO bob;
REVOKE ALL ON plain FROM alice;
CREATE TABLE log (what text, who text) USING heap;
GRANT INSERT ON log TO PUBLIC;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log VALUES (TG_RELNAME, current_user); RETURN NULL; END $$;
CREATE TRIGGER note BEFORE TRUNCATE ON parent EXECUTE FUNCTION note();
ALTER TABLE parent ENABLE ALWAYS TRIGGER note;
SQL
$replica->safe_psql('postgres', "SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'])", extra_params => [ '-U', 'boss' ]);
synced('copied');

# --- tables are emptied, and copied again, whatever their owners may do
sub log_of { return down("WITH gone AS (DELETE FROM log RETURNING *) SELECT string_agg(what || ' ' || who, ', ' ORDER BY what) FROM gone") }

down("SELECT rose.alter_subscription('s', resync => 'hidden.t')");
synced('an owner who may not use the schema');
down("SELECT rose.alter_subscription('s', resync => 'plain')");
synced('an owner who may not truncate');
down("SELECT rose.alter_subscription('s', resync => 'parent')");
synced('one that others reference');
is(log_of(), '', 'and the trigger of TRUNCATE does not fire');
down("SELECT rose.alter_subscription('s', accept => 'resync')");
synced('a foreign key between tables of two owners');
is(log_of(), '', 'nor then');
up('TRUNCATE parent RESTART IDENTITY CASCADE');
is_same('the same in the stream');
is(log_of(), 'parent alice', 'and the trigger fires as the owner of its table');
is(down("SELECT nextval('parent_id_seq')"), 1, 'and the sequence starts anew');

down('CREATE TRIGGER note BEFORE TRUNCATE ON plain EXECUTE FUNCTION note(); CREATE TRIGGER note BEFORE TRUNCATE ON hidden.t EXECUTE FUNCTION note();'
	. ' ALTER TABLE plain ENABLE ALWAYS TRIGGER note; ALTER TABLE hidden.t ENABLE ALWAYS TRIGGER note');
down("SELECT rose.alter_subscription('s', accept => 'resync')");
synced('triggers of several owners');
is(log_of(), '', 'none fires');
up('TRUNCATE parent, child, plain, hidden.t');
is_same('the same in the stream');
is(log_of(), 'parent alice, plain alice, t bob', 'each fires as the owner of its table');
down('CREATE TRIGGER note BEFORE TRUNCATE ON child EXECUTE FUNCTION note()');
down("SELECT rose.alter_subscription('s', accept => 'resync')");
synced('triggers of several owners, and a foreign key between them');
is(log_of(), '', 'none fires');
down('ALTER TABLE child DISABLE TRIGGER note');

# --- a transaction that is taken back in part
down("DO \$\$ BEGIN PERFORM rose.alter_subscription('s', resync => 'pg_class'); EXCEPTION WHEN undefined_object THEN NULL; END \$\$");
ok(until_down('SELECT pid IS NOT NULL FROM rose.stat_subscription'), 'an error that is caught: the worker runs again');
synced('an error that is caught');
down("BEGIN; SAVEPOINT a; SELECT rose.alter_subscription('s', resync => 'plain'); ROLLBACK TO a; COMMIT");
ok(until_down('SELECT pid IS NOT NULL FROM rose.stat_subscription'), 'a resync that is taken back: the worker runs again');
synced('a resync that is taken back');
down("BEGIN; SAVEPOINT a; SELECT rose.drop_subscription('s', keep_slot => true); ROLLBACK TO a; COMMIT");
ok(until_down('SELECT pid IS NOT NULL FROM rose.stat_subscription'), 'a drop that is taken back: the worker runs again');
synced('a drop that is taken back');
down("BEGIN; SAVEPOINT a; SELECT rose.create_subscription('x', 'dbname=nowhere', ARRAY['p'], connect => false); ROLLBACK TO a; COMMIT");
is(down('SELECT count(*) FROM rose.subscription_progress()'), 1, 'a creation that is taken back: no place is taken');
down("BEGIN; SAVEPOINT a; SELECT rose.alter_subscription('s', resync => 'plain'); RELEASE a; COMMIT");
synced('a resync in a savepoint');

# --- two who want the same table
up('CREATE TABLE wanted (id int PRIMARY KEY, v text); CREATE PUBLICATION p2 FOR TABLE wanted; CREATE PUBLICATION p3 FOR TABLE wanted');
down('CREATE TABLE wanted (id int PRIMARY KEY, v text) USING rose');
my ($one, $two) = map { RoseTest::Session->new($replica) } 1 .. 2;
my $create = "SELECT rose.create_subscription('%s', \$\$$conninfo\$\$, ARRAY['%s'], create_slot => false, enabled => false)";
$one->run('BEGIN; ' . sprintf $create, 'two', 'p2');
$two->start(sprintf $create, 'three', 'p3');
ok(until_down("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"), 'the second one waits');
$one->run('COMMIT');
eval { $two->finish };
like($@, qr/table "wanted" belongs to another rose subscription, "two"/, 'and is refused');
$_->end foreach $one, $two;
down("SELECT rose.drop_subscription('two', keep_slot => true)");

# --- a worker that nobody knew of yet when the change began: the launcher has not come to the database
$replica->safe_psql('postgres', 'CREATE DATABASE later');
$upstream->safe_psql('postgres', 'CREATE DATABASE later');
$upstream->safe_psql('later', "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'x'); CREATE PUBLICATION p FOR TABLE t");
rose_create($replica, 'later');
$replica->safe_psql('later', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING rose');
my $later = $upstream->connstr('later');
$replica->safe_psql('later', "SELECT rose.create_subscription('s', \$\$$later\$\$, ARRAY['p'], slot_name => 's_later')");
$replica->safe_psql('later', "SELECT rose.wait_for_sync('s', $timeout)");
down("BEGIN; ALTER MATERIALIZED VIEW rose.subscription SET (fillfactor = 90); PREPARE TRANSACTION 'in the way'");	# it comes here first
$replica->restart;
my $psql = IPC::Run::start([ 'psql', '-XAtq', '-d', $replica->connstr('later') ], '<', \my $in, '>', \my $out, '2>', \my $err, IPC::Run::timeout($timeout));
$in = "BEGIN; SELECT rose.alter_subscription('s', resync => 't');\n\\echo begun\n";
$psql->pump until $out =~ /begun/ || $err =~ /ERROR/;
$upstream->safe_psql('later', "INSERT INTO t VALUES (2, 'y')");
down("COMMIT PREPARED 'in the way'");
ok(until_down("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'postgres' AND backend_type = 'rose replication worker')"), 'the launcher comes to the other databases');
usleep(2_000_000);		# for a worker to do what it must not
$in .= "COMMIT;\n\\q\n";
$psql->finish;
is($err, '', 'the change commits');
$replica->safe_psql('later', "SELECT rose.wait_for_sync('s', $timeout)");
wait_for_apply($upstream, $replica, 'later');
is(table_hash($replica, 't', 'later'), table_hash($upstream, 't', 'later'), 'a worker that starts meanwhile');
$replica->safe_psql('later', "SELECT rose.drop_subscription('s')");

# --- an owner who is no superuser any more
sub is_blocked
{
	my ($name, $pattern) = @_;

	ok(until_down("SELECT state = 'blocked' AND blocked_reason = 'owner' FROM rose.stat_subscription"), "$name: blocked") or diag(why());
	like(down('SELECT last_error FROM rose.stat_subscription'), $pattern, "$name: it says why");
	return;
}
my $count = up('SELECT count(*) FROM plain');
down('ALTER ROLE boss NOSUPERUSER');
change();
is_blocked('demoted', qr/rose subscription "s" is blocked: its owner "boss" is not a superuser.*hint: .*ALTER ROLE/s);
is(down('SELECT count(*) FROM plain'), $count, 'nothing more is applied');
down("SELECT rose.spill('plain')");
pass('what is applied can be made durable');
like(fails("SELECT rose.wait_for_lsn('s', '0/1', $timeout)"), qr/is blocked: owner/, 'who waits is told');
$replica->restart;
is_blocked('demoted, after a restart', qr/not a superuser/);
down("ALTER ROLE boss SUPERUSER NOLOGIN; SELECT rose.alter_subscription('s')");
synced('superuser again, and whether he may log in does not matter');
down("SELECT rose.alter_subscription('s', enabled => false)");
ok(until_down('SELECT pid IS NULL FROM rose.stat_subscription'), 'disabled');
down('ALTER ROLE boss NOSUPERUSER');
change();
down("SELECT rose.alter_subscription('s', enabled => true)");
is_blocked('demoted while it was disabled', qr/not a superuser/);
like(fails('DROP ROLE boss'), qr/role "boss" cannot be dropped because some objects depend on it\nDETAIL:  owner of server s\b/, 'he is not dropped');
down('REASSIGN OWNED BY boss TO CURRENT_USER; DROP OWNED BY boss; DROP ROLE boss');
synced('before it has another owner');
down("SELECT rose.drop_subscription('s')");
is(up('SELECT count(*) FROM pg_replication_slots'), 0, 'it can be dropped, with its slot');

$replica->stop;
$upstream->stop;
done_testing();
