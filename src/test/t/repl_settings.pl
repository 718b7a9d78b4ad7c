# Settings that a database has for its clients do not reach its subscription's processes: none that stops a process, and none
# by which text of the upstream would mean something else. But synchronous_commit of the subscription reaches whoever commits an epoch.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.spill_interval = '1h'", 'rose.background_spill_size = 0');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub errors { return down("SELECT coalesce(last_error, 'none') FROM rose.stat_subscription") }
my $has_timeout = down("SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'");

up("CREATE TABLE t (id int PRIMARY KEY, a text[], i interval); INSERT INTO t VALUES (1, '{NULL,x}', '-1 year -2 days 03:00')");
up('CREATE TABLE checked (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t, checked');
down('CREATE TABLE t (id int PRIMARY KEY, a text[], i interval) USING rose; CREATE TABLE checked (id int PRIMARY KEY CHECK (id > 0)) USING rose');
down(<<'SQL');
CREATE TABLE seen (isolation text, read_only text, may_defer text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.seen SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), current_setting('transaction_deferrable');
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER TRUNCATE ON t EXECUTE FUNCTION note();
ALTER TABLE t ENABLE ALWAYS TRIGGER note;
SQL

# What it has for its clients; the tests' own sessions are to be as they were.
my %inherited = (
	default_transaction_read_only => 'on', default_transaction_isolation => 'serializable', default_transaction_deferrable => 'on',
	lock_timeout => '100ms', statement_timeout => '150ms', idle_in_transaction_session_timeout => '150ms', idle_session_timeout => '150ms', exit_on_error => 'on',
	array_nulls => 'off', IntervalStyle => 'sql_standard', DateStyle => 'SQL, DMY', search_path => 'hidden');
$inherited{transaction_timeout} = '150ms' if $has_timeout;
my %own = (
	default_transaction_read_only => 'off', default_transaction_isolation => 'read\\ committed', default_transaction_deferrable => 'off',
	lock_timeout => 0, statement_timeout => 0, idle_in_transaction_session_timeout => 0, idle_session_timeout => 0, exit_on_error => 'off',
	array_nulls => 'on', IntervalStyle => 'postgres', DateStyle => 'ISO', search_path => 'public');
$own{transaction_timeout} = 0 if $has_timeout;
$ENV{PGOPTIONS} = join ' ', map { "-c $_=$own{$_}" } sort keys %own;
down(join ';', map { "ALTER DATABASE postgres SET $_ = '$inherited{$_}'" } grep { !/search_path|DateStyle/ } sort keys %inherited);
down("ALTER DATABASE postgres SET search_path = hidden; ALTER DATABASE postgres SET DateStyle = SQL, DMY");
is(down('SHOW default_transaction_read_only'), 'off', 'these sessions are not concerned');

sub same
{
	my ($name) = @_;
	my $query = "SELECT id, a, a[1] IS NULL, i FROM t ORDER BY id";

	wait_for_apply($upstream, $replica, 'postgres', 's', 't');
	is(down($query), up($query), $name);
	return;
}

sub worker { return down('SELECT pid FROM rose.stat_subscription') }

# --- text
$replica->safe_psql('postgres', "SELECT rose.create_subscription('s', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['p'], \"binary\" => false, on_error => 'pause')");
down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
same('text means the same in the copy');
up("INSERT INTO t VALUES (2, '{x,NULL}', '-1 year'), (3, '{NULL}', '-1 day 02:03:04')");
same('and in the stream');

# --- a lock that takes longer than any timeout
my $worker = worker();
my $session = RoseTest::Session->new($replica);
$session->run('BEGIN; LOCK TABLE t');
up("INSERT INTO t VALUES (4, NULL, NULL)");
until_down("SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $worker AND NOT granted)") or die 'the worker does not wait';
usleep(700_000);
$session->run('ROLLBACK');
same('it waits for a lock as long as that takes');
is(worker(), $worker, 'and is the same process');
is(errors(), 'none', 'without an error');

# --- an epoch whose process waits
$session->run('BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE');
my $request = IPC::Run::start([ 'psql', '-XAtq', '-d', $replica->connstr('postgres'), '-c', "SELECT rose.spill('checked')" ]);
usleep(700_000);
$session->run('ROLLBACK');
ok($request->finish, 'so does an epoch');
is(errors(), 'none', 'without an error');

# --- transactions
up('TRUNCATE t');
same('a trigger of TRUNCATE may write');
is(down('SELECT * FROM seen'), 'read committed|off|off', 'in a transaction of the ordinary kind');

# --- errors
up('INSERT INTO checked VALUES (-1)');
until_down("SELECT state IN ('paused', 'error') FROM rose.stat_subscription_tables WHERE relname = 'checked'") or die 'the table is not paused';
pass('errors are told');
up('INSERT INTO t VALUES (5, NULL, NULL)');
same('and the others go on');

# --- synchronous_commit of the subscription, whatever the database's is
my $spiller = "FROM pg_stat_activity WHERE backend_type = 'rose replication spiller'";
sub synchronous_names
{
	my ($names) = @_;

	$replica->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = '$names'");
	$replica->reload;
	until_down("SELECT setting = '$names' FROM pg_settings WHERE name = 'synchronous_standby_names'");
	return;
}
$ENV{PGOPTIONS} .= ' -c synchronous_commit=local';
synchronous_names('nobody');
up('INSERT INTO t VALUES (6, NULL, NULL)');
same('off');
is(($replica->psql('postgres', "SET statement_timeout = '60s'; SELECT rose.spill('t')"))[0], 0, 'off: an epoch waits for no standby');
down("ALTER DATABASE postgres SET synchronous_commit = off; SELECT rose.alter_subscription('s', synchronous_commit => 'on')");
until_down("SELECT state = 'streaming' FROM rose.stat_subscription") or die 'no worker';
up('INSERT INTO t VALUES (7, NULL, NULL)');
same('on');
$request = IPC::Run::start([ 'psql', '-XAtq', '-d', $replica->connstr('postgres'), '-c', "SELECT rose.spill('t')" ]);
ok(until_down("SELECT count(*) = 1 $spiller AND wait_event = 'SyncRep'"), 'on: it does');
synchronous_names('');
ok($request->finish, 'until there is none to wait for');

$session->end;
down("SELECT rose.drop_subscription('s')");
$replica->stop;
$upstream->stop;
done_testing();
