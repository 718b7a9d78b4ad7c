# A worker that waits for a table that somebody has locked serves what does not need it: what came before is seen, epochs, changes of the
# subscription, and pausing just that table. What does need it, since the table has changes that must be made durable first, tells whom it waits for,
# heeds lock_timeout, and holds up no other table. By sessions and by prepared transactions; tables, and partitions.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
# a batch ends when nothing more has come, and not because it has waited
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.spill_interval = '1h'", "rose.batch_interval = '60s'", 'rose.max_subscriptions = 2');
my $asks = "SET statement_timeout = '60s';";

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($sql, $name) = @_; return ok($replica->poll_query_until('postgres', "SELECT $sql"), $name) || diag(down('TABLE rose.stat_subscription'), down('SELECT pid, backend_type, wait_event, query FROM pg_stat_activity')) }
sub waits_for { my ($table, $name) = @_; return until_down("waiting_for = '$table'::regclass FROM rose.stat_subscription", $name) }
sub works { my ($sql, $name) = @_; return is(error_of($replica, "$asks $sql"), '', $name) }
sub same { my ($name) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } qw(t u r)), join(' ', map { table_hash($upstream, $_) } qw(t u r)), $name) }

up(join ';', map { "CREATE TABLE $_ (id int PRIMARY KEY, v int)" } qw(t u r w));
up('CREATE PUBLICATION p FOR TABLE t, u, r');
down(join ';', map { "CREATE TABLE $_ (id int PRIMARY KEY, v int) USING rose" } qw(t u w));
down('CREATE TABLE r (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (100) USING rose; CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (100) TO (200) USING rose');
stop_points_create($replica);
subscribe($upstream, $replica);
# slices of waits for locks, and what is waited before somebody is told, are seconds
down("SELECT stop_at('slice-is-long', 'skip', 'worker', 0, 0), stop_at('request-is-patient', 'skip', 'client', 0, 0)");

# Somebody has the table locked, and the worker waits for it with a batch in hand; $locked has no changes that are not durable. How it is let go is returned.
my $n = 0;

sub hold_up
{
	my ($how, $locked, @changes) = @_;
	my $unlock = "ROLLBACK PREPARED 'lock'";
	my $session;

	down("$asks SELECT rose.spill('t')");
	if ($how eq 'prepared')
	{
		down("BEGIN; LOCK TABLE $locked IN SHARE MODE; PREPARE TRANSACTION 'lock'");
	}
	else
	{
		$session = RoseTest::Session->new($replica);
		$session->run("BEGIN; LOCK TABLE $locked");
	}
	up($_) foreach @changes;
	waits_for($locked, "$how: a change of $locked is waited for");
	return sub { $session ? $session->end : down($unlock); return same("$how: all is there when $locked is not locked any more") };
}

# --- what came before, in the same batch, is seen; and epochs
foreach my $how ('session', 'prepared')
{
	my $first = RoseTest::Session->new($replica);

	down("$asks SELECT rose.spill('t')");
	$first->run('BEGIN; LOCK TABLE t');
	my $unlock = hold_up_both($how, $first);
	until_down('count(*) = 1 FROM t WHERE id = ' . $n, "$how: what came before is seen");
	works("SELECT rose.spill('t')", "$how: an epoch is made");
	waits_for('u', "$how: while it waits");
	my $pid = down('SELECT pid FROM rose.stat_subscription');
	works("SELECT rose.spill('t')", "$how: another one");
	is(down('SELECT pid FROM rose.stat_subscription'), $pid, "$how: by the same worker, for nothing is in its way");
	$unlock->();
}

# A change of t and then one of u, which are in one batch as t was locked when they came.
sub hold_up_both
{
	my ($how, $first) = @_;
	my $session;

	$n++;
	$session = RoseTest::Session->new($replica) if $how eq 'session';
	$session->run('BEGIN; LOCK TABLE u') if $session;
	down("BEGIN; LOCK TABLE u; PREPARE TRANSACTION 'lock'") if !$session;
	up("INSERT INTO t VALUES ($n, $n)");
	waits_for('t', "$how: t is waited for");
	up("INSERT INTO u VALUES ($n, $n)");
	my $end = up('SELECT pg_current_wal_flush_lsn()');
	$upstream->poll_query_until('postgres', "SELECT bool_and(sent_lsn >= '$end') FROM pg_stat_replication") or die 'not sent';
	$first->end;
	waits_for('u', "$how: and then u");
	return sub { $session ? $session->end : down("ROLLBACK PREPARED 'lock'"); return same("$how: all is there") };
}

# --- the way out: that table is paused, and the others go on
foreach my $how ('session', 'prepared')
{
	$n++;
	my $unlock = hold_up($how, 'u', "INSERT INTO u VALUES ($n, $n)", "UPDATE t SET v = v + 1000");
	my $moved = up('SELECT pg_current_wal_flush_lsn()');

	works("SELECT rose.pause_table('s', 'u')", "$how: it is paused");
	down("SELECT rose.wait_for_lsn('s', '$moved', $timeout, 't')");
	is(table_hash($replica, 't'), table_hash($upstream, 't'), "$how: the others go on");
	up("UPDATE u SET v = v + 1; INSERT INTO t VALUES (1000 + $n, 0)");
	wait_for_apply($upstream, $replica, undef, undef, 't');
	works("SELECT rose.resume_table('s', 'u')", "$how: it is resumed");
	$unlock->();
}

# --- changes of the subscription: new tables, another connection, none
$n++;
my $unlock = hold_up('session', 'u', "INSERT INTO u VALUES ($n, $n)");
up('INSERT INTO w VALUES (1, 1); ALTER PUBLICATION p ADD TABLE w');
works("SELECT rose.alter_subscription('s', refresh => true)", 'a refresh');
until_down("state = 'ready' FROM rose.stat_subscription_tables WHERE relname = 'w'", 'another table is copied, and taken in');
is(table_hash($replica, 'w'), table_hash($upstream, 'w'), '... with all its rows');
waits_for('u', 'it waits again');
my $conninfo = $upstream->connstr('postgres');
works("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo application_name=moved\$\$)", 'another connection');
ok($upstream->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_replication WHERE application_name = 'moved'"), '... which is used');
waits_for('u', 'where it waits again');
works("SELECT rose.alter_subscription('s', enabled => false)", 'it is disabled');
until_down("state = 'disabled' AND pid IS NULL FROM rose.stat_subscription", '... and ends');
works("SELECT rose.alter_subscription('s', enabled => true)", 'and enabled');
$unlock->();

# --- a partition
$unlock = hold_up('session', 'r2', 'INSERT INTO r VALUES (1, 1), (101, 1)');
works("SELECT rose.spill('r1')", 'a partition is locked, and an epoch is made');
works("SELECT rose.pause_table('s', 'r')", 'and its table paused');
works("SELECT rose.resume_table('s', 'r')", 'and resumed');
$unlock->();

# --- a cancel that comes in the same moment as a request, which cancels the wait, too, is heard
$n++;
$unlock = hold_up('session', 'u', "INSERT INTO u VALUES ($n, $n)");
{
	my $pid = down('SELECT pid FROM rose.stat_subscription');
	my $asking = RoseTest::Session->new($replica);
	my $log = -s $replica->logfile;

	kill 'STOP', $pid;
	kill 'INT', $pid;
	$asking->start("SELECT rose.spill('t')");
	usleep(300_000);	# it looks for requests ten times a second; were it later, there would be a cancel alone
	kill 'CONT', $pid;
	$asking->finish;
	like(substr(slurp_file($replica->logfile), $log), qr/ERROR:  canceling statement due to user request/, 'a cancel beside a request is heard');
	$asking->end;
}
$unlock->();

# --- a TRUNCATE that waits for a reader, and a resync, and a drop of another subscription's
$unlock = do
{
	my $reader = RoseTest::Session->new($replica);
	$reader->run('BEGIN; LOCK TABLE u IN ACCESS SHARE MODE');
	up('TRUNCATE u; INSERT INTO u VALUES (1, 1)');
	waits_for('u', 'a TRUNCATE waits for a reader');
	sub { $reader->end; return same('and comes') };
};
works("SELECT rose.spill('t')", 'an epoch is made');
works("SELECT rose.alter_subscription('s', resync => 't')", 'another table is copied again');
$unlock->();
down("SELECT rose.wait_for_sync('s', $timeout)");

# --- who needs the locked table itself waits for it, and the others go on meanwhile
$n++;
my $holder = RoseTest::Session->new($replica);
$holder->run('BEGIN; LOCK TABLE u IN SHARE MODE');
foreach my $sql ("rose.alter_subscription('s', resync => 'u')", "rose.drop_subscription('s')", "rose.alter_subscription('s', accept => 'resync')")
{
	my $waiter = RoseTest::Session->new($replica);
	my $pid = $waiter->run('SELECT pg_backend_pid()');

	$waiter->start("SELECT $sql");
	until_down("count(*) > 0 FROM pg_locks WHERE pid = $pid AND relation = 'u'::regclass AND NOT granted", "$sql waits");
	up("UPDATE t SET v = v + 1");
	wait_for_apply($upstream, $replica);
	is(table_hash($replica, 't'), table_hash($upstream, 't'), '... and the others go on');
	down("SELECT pg_cancel_backend($pid)");
	eval { $waiter->finish };
	like($waiter->{err}, qr/canceling statement due to user request/, '... until it is canceled');
	$waiter->end;
}
$holder->end;
same('as if nobody had asked');

# --- a table with changes that are not durable yet: what needs them waits, and says so; the stream goes on
foreach my $how ('session', 'prepared')
{
	my $by = "a prepared transaction";
	my $session;

	$n++;
	up("INSERT INTO u VALUES (1000 + $n, 0)");
	wait_for_apply($upstream, $replica);
	if ($how eq 'session')
	{
		$session = RoseTest::Session->new($replica);
		$by = 'process ' . $session->run('BEGIN; LOCK TABLE u; SELECT pg_backend_pid()');
	}
	else
	{
		down("BEGIN; LOCK TABLE u; PREPARE TRANSACTION 'lock'");
	}
	my $detail = qr/DETAIL:  It waits for "public.u", which is locked by $by\.\nHINT:  The table has changes that have to be made durable first/;

	my $pid = down('SELECT pid FROM rose.stat_subscription');
	my $goes_on = sub
	{
		up('UPDATE t SET v = v + 1');
		wait_for_apply($upstream, $replica, undef, undef, 't');
		return is(table_hash($replica, 't'), table_hash($upstream, 't'), "$how: other tables go on $_[0]");
	};

	# whoever is the first to ask
	foreach my $sql ("rose.pause_table('s', 'u')", "rose.pause_table('s', 't')", "rose.alter_subscription('s', refresh => true)")
	{
		like(error_of($replica, "$asks SET lock_timeout = '300ms'; SELECT $sql"), qr/ERROR:  the replication worker cannot stop within lock_timeout\n$detail/, "$how: $sql waits, and heeds lock_timeout");
		$goes_on->("after $sql");
	}
	like(error_of($replica, "$asks SET lock_timeout = '300ms'; SELECT rose.spill('t')"), qr/ERROR:  the replication worker cannot commit an epoch within lock_timeout\n$detail/, "$how: an epoch, too");
	works("SELECT rose.alter_subscription('s', on_error => 'pause')", "$how: an option is changed");
	$goes_on->('until it comes into force');
	is(down('SELECT pid FROM rose.stat_subscription'), $pid, '... by the same worker');

	my $waiter = RoseTest::Session->new($replica);
	$waiter->start("SET statement_timeout = '10min'; SELECT rose.spill('t')");
	$waiter->{psql}->pump until $waiter->{err} =~ /NOTICE:  the replication worker cannot commit an epoch yet\nDETAIL:  It waits for "public.u", which is locked by $by\./;
	pass("$how: who waits is told");
	$session ? $session->end : down("ROLLBACK PREPARED 'lock'");
	$waiter->finish;
	pass("$how: and gets it in the end");
	$waiter->end;
	until_down("pid <> $pid FROM rose.stat_subscription", "$how: as does the option");
	works("SELECT rose.alter_subscription('s', on_error => 'stop')", "$how: it is changed back");
	same("$how: nothing is lost");
}

# --- one that is disabled applies nothing more, and ends when what it has is durable
$holder = RoseTest::Session->new($replica);
up('INSERT INTO u VALUES (2000, 0)');
wait_for_apply($upstream, $replica);
$holder->run('BEGIN; LOCK TABLE u');
works("SELECT rose.alter_subscription('s', enabled => false)", 'it is disabled');
waits_for('u', 'it waits to end');
my $there = table_hash($replica, 't');
up('UPDATE t SET v = v + 1');
$holder->end;
until_down("state = 'disabled' AND pid IS NULL FROM rose.stat_subscription", '... and does');
is(table_hash($replica, 't'), $there, '... having applied nothing more');
works("SELECT rose.alter_subscription('s', enabled => true)", 'it is enabled');
same('and goes on');
is(down("SELECT string_agg(msg, '; ') FROM unnest('{t,u,r1,r2,w}'::regclass[]) c, rose.check(c)"), '', 'tables are sound');

$replica->stop;
$upstream->stop;
done_testing();
