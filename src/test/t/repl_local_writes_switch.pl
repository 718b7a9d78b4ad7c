
# A change of durability beside local transactions: it waits for those who write, whichever tables they write to, and is no deadlock with them; row locks that
# are held over it hold up nobody; and who changes the subscription himself may write no more to what that has closed.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no durability of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '1h'", 'rose.max_subscriptions = 2', 'max_prepared_transactions = 2');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub become { my ($durability) = @_; return down("SET statement_timeout = '60s'; SELECT rose.alter_subscription('s', durability => '$durability')") }
sub same { my ($name) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, "(SELECT * FROM $_ WHERE id < 1000)") } qw(t u)), join(' ', map { table_hash($upstream, "(SELECT * FROM $_ WHERE id < 1000)") } qw(t u)), "$name: the upstream's rows") }

up("CREATE TABLE $_ (id int PRIMARY KEY, v int); INSERT INTO $_ SELECT g, 0 FROM generate_series(1, 100) g") foreach qw(t u);
up('CREATE PUBLICATION p FOR TABLE t, u');
down("CREATE TABLE $_ (id int PRIMARY KEY, v int) USING rose") foreach qw(t u);
subscribe($upstream, $replica, 'postgres', "durability => 'local'");

# --- row locks
foreach my $how ('session', 'prepared')
{
	my $session = RoseTest::Session->new($replica);

	$session->run('BEGIN; SELECT id FROM t WHERE id = 3 FOR KEY SHARE; SELECT id FROM u WHERE id = 3 FOR SHARE');
	$session->run("PREPARE TRANSACTION 'locks'") if $how eq 'prepared';
	become('upstream');
	up('UPDATE t SET v = v + 1 WHERE id = 5; UPDATE u SET v = v + 1 WHERE id = 5');
	same("$how, with epochs");
	crash_and_restart($replica) if $how eq 'prepared';
	become('local');
	up('UPDATE t SET v = v + 1 WHERE id > 5; INSERT INTO u VALUES (101, 1) ON CONFLICT (id) DO UPDATE SET v = u.v + 1');
	same("$how, logged");
	is(error_of($replica, 'UPDATE t SET v = v WHERE id = 50'), '', "$how: written to");
	like(error_of($replica, "SET lock_timeout = '100ms'; DELETE FROM t WHERE id = 3"), qr/lock timeout/, "$how: and locked");
	$how eq 'prepared' ? down("ROLLBACK PREPARED 'locks'") : $session->run('ROLLBACK');
	$session->end;
	is(error_of($replica, 'BEGIN; DELETE FROM t WHERE id = 3; ROLLBACK'), '', "$how: until its end");
}

# --- who writes to several tables
my $writer = RoseTest::Session->new($replica);
$writer->run('BEGIN; INSERT INTO t VALUES (1000, 1)');
like(error_of($replica, "SET lock_timeout = '200ms'; SELECT rose.alter_subscription('s', durability => 'upstream')"), qr/lock timeout/, 'a writer is waited for');
is(error_of($replica, 'INSERT INTO u VALUES (1000, 1)'), '', 'others go on after that');
$writer->run('INSERT INTO u VALUES (1001, 1); COMMIT');
is(down('SELECT count(*) FROM t, u WHERE t.id >= 1000 AND u.id >= 1000'), 2, 'and so does he');
$writer->end;
down('DELETE FROM t WHERE id >= 1000; DELETE FROM u WHERE id >= 1000');
my $script = $replica->basedir . '/writes.sql';
append_to_file($script, <<SQL);
\\set a 1000 + :client_id
BEGIN;
INSERT INTO t VALUES (:a, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1;
SELECT pg_sleep(0.01);
INSERT INTO u VALUES (:a, 1) ON CONFLICT (id) DO UPDATE SET v = u.v + 1;
COMMIT;
SQL
my $from = -s $replica->logfile;
foreach my $round (1 .. 5)
{
	my ($out, $err) = ('', '');
	# they end when they are refused
	my $writers = IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', 4, '-T', 30, $replica->connstr('postgres') ], '>', \$out, '2>', \$err);

	$replica->poll_query_until('postgres', 'SELECT count(*) = 4 FROM t, u WHERE t.id = u.id AND t.id >= 1000');
	become('upstream');
	$writers->finish;
	like($err, qr/because a subscription feeds it/, "round $round: refused when it is done");
	up('UPDATE t SET v = v + 1; UPDATE u SET v = v + 1');
	become('local');
	is(down('SELECT count(*) FROM t JOIN u USING (id, v) WHERE id >= 1000'), 4, "round $round: in both tables, or in none");
	down('DELETE FROM t WHERE id >= 1000; DELETE FROM u WHERE id >= 1000');
}
unlike(slurp_file($replica->logfile, $from), qr/deadlock detected/, 'no deadlock');
same('beside writers');

# --- in one transaction
my $wait = "SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)";
like(error_of($replica, "BEGIN; INSERT INTO t VALUES (2000, 1); SELECT rose.alter_subscription('s', resync => 't'); INSERT INTO t VALUES (2001, 1); COMMIT"), qr/cannot write to table "t" before subscription "s" has copied it/, 'not after a resync');
like(error_of($replica, "BEGIN; INSERT INTO t VALUES (2000, 1); SELECT rose.alter_subscription('s', durability => 'upstream'); INSERT INTO t VALUES (2001, 1); COMMIT"), qr/because a subscription feeds it/, 'nor after a change of durability');
is(error_of($replica, "BEGIN; INSERT INTO t VALUES (2000, 1); SELECT rose.alter_subscription('s', resync => 't'); COMMIT"), '', 'but before');
down($wait);
same('copied again');
is(down("SELECT count(*) FROM (VALUES ('t'), ('u')) x(name), rose.check(name::regclass)"), 0, 'rose.check');

$replica->stop;
$upstream->stop;
done_testing();
