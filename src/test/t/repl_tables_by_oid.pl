
# Tables are known by their oids: names may change and change places on both sides, and no
# change goes to another table, or nowhere, without a state that says so.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in finds tables by name' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.spill_interval = '1h'");

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub caught_up { return wait_for_apply($upstream, $replica) }
sub same { return is(table_hash($replica, $_[1]), table_hash($upstream, $_[2] // $_[1]), "$_[0]: $_[1]") }
sub stat_of { return down("SELECT $_[1] FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }
sub state_of { return $replica->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM rose.stat_subscription_tables WHERE $_[0])") }

# Of the tables that are there, those named must have the upstream's rows.
sub step
{
	my ($name, $sql, @pairs) = @_;

	up($sql);
	caught_up();
	same($name, ref $_ ? @$_ : $_) foreach @pairs;
	return;
}

sub paused
{
	my ($table, $pattern, $name) = @_;

	ok(state_of("relid = '$table'::regclass AND state IN ('paused', 'error')"), "$name: paused");
	like(stat_of($table, 'last_error'), $pattern, $name);
	return;
}

sub resynced
{
	my ($table, $name, $remote) = @_;

	down("SELECT rose.alter_subscription('s', resync => '$table')");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	caught_up();
	same("$name, resynced", $table, $remote // $table);
	return;
}

my @names = qw(a b c d e f);
foreach my $table (@names)
{
	up("CREATE TABLE $table (id int PRIMARY KEY, v text); INSERT INTO $table SELECT g, '$table' FROM generate_series(1, 10) g");
	down("CREATE TABLE $table (id int PRIMARY KEY, v text) USING rose");
}
up('CREATE SCHEMA elsewhere; CREATE PUBLICATION p FOR TABLE ' . join(', ', @names));
down('CREATE SCHEMA elsewhere; CREATE TABLE anew (id int PRIMARY KEY, v text) USING rose');
subscribe($upstream, $replica, undef, q{on_error => 'pause'});

# --- names that change on the upstream
step('a rename for a while', "ALTER TABLE a RENAME TO x; INSERT INTO x VALUES (11, 'renamed'); ALTER TABLE x RENAME TO a; UPDATE a SET v = 'again' WHERE id = 1", 'a');
is(down('SELECT skipped FROM rose.stat_subscription'), 0, 'nothing was skipped');
step('two that change places', "BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b; COMMIT;"
	  . " INSERT INTO a VALUES (12, 'was b'); INSERT INTO b VALUES (12, 'was a'); DELETE FROM a WHERE id = 2", [ 'a', 'b' ], [ 'b', 'a' ]);
is(stat_of('a', 'upstream_relation') . stat_of('b', 'upstream_relation'), 'public.bpublic.a', 'the view tells');
step('another schema', "ALTER TABLE c SET SCHEMA elsewhere; INSERT INTO elsewhere.c VALUES (12, 'elsewhere'); UPDATE elsewhere.c SET id = 13 WHERE id = 3", [ 'c', 'elsewhere.c' ]);
step('TRUNCATE under another name', "INSERT INTO b VALUES (14, ''); TRUNCATE b; INSERT INTO b VALUES (15, 'after')", [ 'a', 'b' ]);
down("SELECT rose.alter_subscription('s', refresh => true)");
step('after a refresh', "INSERT INTO a VALUES (16, 'b'); INSERT INTO b VALUES (16, 'a'); INSERT INTO elsewhere.c VALUES (16, 'c')", [ 'a', 'b' ], [ 'b', 'a' ], [ 'c', 'elsewhere.c' ]);
crash_and_restart($replica);
step('after a crash', "INSERT INTO a VALUES (17, 'b'); ALTER TABLE elsewhere.c RENAME TO cc; INSERT INTO elsewhere.cc VALUES (17, 'c')", [ 'a', 'b' ], [ 'b', 'a' ], [ 'c', 'elsewhere.cc' ]);
resynced('a', 'the copy', 'b');
resynced('c', 'the copy', 'elsewhere.cc');

# --- names that change here
down("SELECT rose.spill('d')");
down('ALTER TABLE d RENAME TO x; ALTER TABLE e RENAME TO d; ALTER TABLE x RENAME TO e; ALTER TABLE f SET SCHEMA elsewhere; ALTER TABLE elsewhere.f RENAME TO ff');
step('names that change here', "INSERT INTO d VALUES (11, 'd'); INSERT INTO e VALUES (11, 'e'); INSERT INTO f VALUES (11, 'f')", [ 'e', 'd' ], [ 'd', 'e' ], [ 'elsewhere.ff', 'f' ]);
is(down('SELECT skipped FROM rose.stat_subscription'), 0, 'nothing was skipped');
down("SELECT rose.alter_subscription('s', refresh => true)");
step('after a refresh', "INSERT INTO d VALUES (12, 'd'); INSERT INTO e VALUES (12, 'e'); INSERT INTO f VALUES (12, 'f')", [ 'e', 'd' ], [ 'd', 'e' ], [ 'elsewhere.ff', 'f' ]);
resynced('elsewhere.ff', 'the copy', 'f');

# --- a table that is made anew, with and without changes of the old one before it
up('INSERT INTO f VALUES (20, 20)');
up("DROP TABLE f; CREATE TABLE f (id int PRIMARY KEY, v text); ALTER PUBLICATION p ADD TABLE f; INSERT INTO f VALUES (1, 'of the new one')");
paused('elsewhere.ff', qr/the upstream's table "public.f" is another one than before.*hint: .*resync/s, 'a table made anew');
# it comes again, if it was in the batch that was given up
ok($replica->poll_query_until('postgres', 'SELECT count(*) = 1 FROM elsewhere.ff WHERE id = 20'), 'what came before is there');
is(down('SELECT count(*) FROM elsewhere.ff'), 13, 'and nothing of the new one among it');
resynced('elsewhere.ff', 'a table made anew', 'f');
step('after that', "INSERT INTO f VALUES (2, 'more')", [ 'elsewhere.ff', 'f' ]);
# the stream repeats what is before the copy, of a table whose oid nobody knows any more
down("SELECT rose.alter_subscription('s', enabled => false)");
$replica->poll_query_until('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription') or fail('disabled');
up("INSERT INTO f VALUES (3, 'before'); DROP TABLE f; CREATE TABLE f (id int PRIMARY KEY, v text); ALTER PUBLICATION p ADD TABLE f; INSERT INTO f VALUES (4, 'after'); INSERT INTO d VALUES (13, 'd')");
down("SELECT rose.alter_subscription('s', resync => 'elsewhere.ff')");
down("SELECT rose.alter_subscription('s', enabled => true)");
down("SELECT rose.wait_for_sync('s', $timeout)");
step('copied before the stream came to the old one', "INSERT INTO f VALUES (5, 'later')", [ 'elsewhere.ff', 'f' ], [ 'e', 'd' ]);

# --- a table that takes the name of one that was renamed
up("ALTER TABLE d RENAME TO d_old; CREATE TABLE d (id int PRIMARY KEY, v text); ALTER PUBLICATION p ADD TABLE d; INSERT INTO d VALUES (1, 'new')");
paused('e', qr/the upstream's table "public.d" is another one than before/, 'a table in the place of another');
up('ALTER PUBLICATION p DROP TABLE d_old');
resynced('e', 'in the place of another', 'd');

# --- tables that the subscription does not have
up("CREATE TABLE anew (id int PRIMARY KEY, v text); ALTER PUBLICATION p ADD TABLE anew");
my $before = up('SELECT pg_current_wal_lsn()');
up("INSERT INTO anew VALUES (1, 'not here')");
caught_up();
is(down("SELECT subname, relname, upstream_relation, error_lsn >= '$before' FROM rose.stat_subscription_tables WHERE state = 'new'"), 's||public.anew|t', 'a table that only the upstream has');
down("SELECT rose.spill('a')");
crash_and_restart($replica);
up("INSERT INTO anew VALUES (2, 'not here either')");
caught_up();
is(down("SELECT count(*), min(error_lsn) < '" . up('SELECT pg_current_wal_lsn()') . "' FROM rose.stat_subscription_tables WHERE state = 'new'"), '1|t', 'is remembered');
down("SELECT rose.alter_subscription('s', refresh => true)");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(down("SELECT count(*) FROM rose.stat_subscription_tables WHERE state = 'new'"), 0, 'after a refresh it is not new any more');
step('it is copied', "INSERT INTO anew VALUES (3, 'and followed')", 'anew');

# --- names change places on the upstream between the look at them and the copy
stop_points_create($replica);
up("CREATE TABLE decoy (id int PRIMARY KEY, v text); INSERT INTO decoy VALUES (1, 'not published')");
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('copy-found', 'wait', 'worker')");
down("SELECT rose.alter_subscription('s', resync => 'anew')");
wait_for_stop($replica, 'copy-found');
up('ALTER TABLE anew RENAME TO was_anew; ALTER TABLE decoy RENAME TO anew');
$control->run("SELECT go_on('copy-found')");
$control->end;
down("SELECT rose.wait_for_sync('s', $timeout)");
same('a copy of a table that loses its name', 'anew', 'was_anew');
up('ALTER TABLE anew RENAME TO decoy; ALTER TABLE was_anew RENAME TO anew');

# --- a table that is dropped here
down("SELECT rose.spill('b')");
down('DROP TABLE b');
up("INSERT INTO a VALUES (30, 'nowhere to go'); INSERT INTO anew VALUES (4, 'goes on')");
ok($replica->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM rose.subscription_rel WHERE state = 'paused' AND remote_name = 'a')"), 'a table that is dropped here is paused');
ok(state_of("state = 'dropped' AND upstream_relation = 'public.a'"), 'and shown as dropped');
like(down("SELECT last_error FROM rose.subscription_rel WHERE remote_name = 'a'"), qr/does not exist any more.*hint: .*refresh/s, 'and it is said why');
down("SELECT rose.wait_for_lsn('s', '" . up('SELECT pg_current_wal_flush_lsn()') . "', $timeout, 'anew')");
same('the others go on', 'anew');
down('CREATE TABLE b (id int PRIMARY KEY, v text) USING rose; ALTER TABLE a RENAME TO aa; ALTER TABLE b RENAME TO a');
down("SELECT rose.alter_subscription('s', refresh => true)");
down("SELECT rose.wait_for_sync('s', $timeout)");
step('it is made anew', "INSERT INTO a VALUES (31, 'here again')", 'a', [ 'aa', 'b' ]);
up("INSERT INTO a VALUES (32, 'x')");
caught_up();
down("SELECT rose.spill('a')");
down('DROP TABLE a');
up('TRUNCATE a');
ok($replica->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM rose.subscription_rel WHERE state = 'paused' AND remote_name = 'a')"), 'so it is if it would be truncated');

# --- one table here, two there
up('ALTER TABLE anew RENAME TO anew_old; CREATE TABLE anew (id int PRIMARY KEY, v text); ALTER PUBLICATION p DROP TABLE a; ALTER PUBLICATION p ADD TABLE anew');
like(($replica->psql('postgres', "SELECT rose.alter_subscription('s', refresh => true)"))[2], qr/table "anew" has the rows of another table of the upstream than "public.anew"/, 'a refresh cannot give one table the rows of two');
up("INSERT INTO anew_old VALUES (41, 'renamed'); INSERT INTO anew VALUES (41, 'of another')");
down("SELECT rose.wait_for_lsn('s', '" . up('SELECT pg_current_wal_flush_lsn()') . "', $timeout, 'anew')");
same('its rows are of the one that it had', 'anew', 'anew_old');
is(down("SELECT upstream_relation FROM rose.stat_subscription_tables WHERE state = 'new'"), 'public.anew', 'and the other one is said to be new');

$replica->stop;
$upstream->stop;
done_testing();
