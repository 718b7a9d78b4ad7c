
# Copies in pieces, and what else there is: other owners of tables and subscriptions, conflicts that are counted, a database made from one with pieces,
# durability 'local', publications of schemas, dumps, many readers, and who has the table locked for long.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.copy_piece_size = '64kB'", "rose.debug_copied_patience = '1h'",
	'restart_after_crash = on', 'rose.max_copy_workers = 1', 'rose.max_subscriptions = 4', 'max_worker_processes = 24', 'max_connections = 40');
my $rows = 3000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub synced { return down("SELECT rose.wait_for_sync('" . ($_[0] // 's') . "', $timeout)") }
sub copier { return down('SELECT pid FROM rose.stat_copy_progress WHERE pid IS NOT NULL LIMIT 1') }
sub logged { my ($log, $what) = @_; return slurp_file($replica->logfile, $log) =~ $what ? 1 : 0 }
sub nothing_left { my ($what) = @_; return is(down("SELECT (SELECT count(*) FROM rose.subscription_piece) || ' ' || (SELECT count(*) FROM pg_class WHERE relname LIKE 'copy_of%')"), '0 0', $what) }

sub same
{
	my ($what, $table, $subscription) = @_;

	$table //= 'plain';
	wait_for_apply($upstream, $replica, undef, $subscription);
	is(table_hash($replica, $table), table_hash($upstream, $table), $what);
	return is(down("SELECT count(*) FROM rose.check('$table')"), 0, "$what: nothing is wrong with it");
}

my $values = "SELECT i, i % 100, repeat('row ' || i, 8) FROM generate_series(1, $rows) i";
my $columns = '(id int PRIMARY KEY, k int, v text)';
my $goes_on = qr/goes on with the copy of table "[a-z]+", of which 2 of/;
my $anew = qr/begins anew with the copy of table/;

up("CREATE TABLE plain $columns; INSERT INTO plain $values; CREATE PUBLICATION p FOR TABLE plain");
down("CREATE TABLE plain $columns USING rose; CREATE INDEX ON plain (k)");
subscribe($upstream, $replica);
same('it is there');

# Copies a table again, to the end of two pieces; then the calls, and the process ends if none of them has ended it. Returns where the log was.
sub interrupted_of
{
	my ($subscription, $table, @calls) = @_;
	my $log = -s $replica->logfile;
	my $control = RoseTest::Session->new($replica);

	$control->run("SELECT stop_at('piece-committed', 'wait', 'worker', 1)");
	down("SELECT rose.alter_subscription('$subscription', resync => '$table')");
	wait_for_stop($replica);
	$_->() foreach @calls;
	eval { down("SELECT pg_terminate_backend(pid) FROM rose.stat_copy_progress WHERE pid IS NOT NULL") };
	eval { $control->run('SELECT stop_clear()'); $control->end };
	return $log;
}
sub interrupted { return interrupted_of('s', 'plain', @_) }
my $end = sub { down('SELECT pg_terminate_backend(' . copier() . ')') };
my $moved = 0;
my $change = sub { $moved += 100_000; up("UPDATE plain SET k = k + 1 WHERE id % 3 = 0; DELETE FROM plain WHERE id % 31 = 7; INSERT INTO plain $values ON CONFLICT DO NOTHING; UPDATE plain SET id = id + $moved WHERE id % 101 = 5 AND id < 100000") };

# --- another owner of the table
down('CREATE ROLE first; ALTER TABLE plain OWNER TO first');
my $log = interrupted($end, sub { down('ALTER TABLE plain OWNER TO CURRENT_USER; DROP ROLE first') });
synced();
is(logged($log, $goes_on) . logged($log, $anew), '01', 'pieces of another owner are not used');
same('with another owner');

# --- changes that come again over pieces that have them
down("SELECT rose.alter_subscription('s', count_conflicts => 'exact')");
$log = interrupted(sub { up("INSERT INTO plain SELECT i, 0, 'new' FROM generate_series(7000001, 7000010) i; DELETE FROM plain WHERE id IN (SELECT id FROM plain WHERE id < 100000 ORDER BY id DESC LIMIT 5)") }, $end);
synced();
is(logged($log, $goes_on), 1, 'a copy of two positions');
same('changes come again');
my $counts = 'confl_insert_exists, confl_update_exists, confl_update_missing, confl_delete_missing';
is(down("SELECT $counts FROM rose.stat_subscription_tables"), '0|0|0|0', 'and are no conflicts');
up('DELETE FROM plain WHERE id = 7000001');
wait_for_apply($upstream, $replica);
is(down("SELECT $counts FROM rose.stat_subscription_tables"), '0|0|0|0', 'nor is what fits later');
down("SELECT rose.alter_subscription('s', count_conflicts => 'off')");

# --- a view that a superuser made of pieces, and the table is dropped
my $made = 'pg_toast.copy_of_' . down("SELECT 'plain'::regclass::oid");
interrupted(sub { down("CREATE VIEW v AS SELECT id FROM $made") }, sub { down("SELECT rose.alter_subscription('s', enabled => false)") });
like(error_of($replica, 'DROP TABLE plain'), qr/view v depends on .*copy_of_.*Use DROP ... CASCADE/s, 'DROP TABLE says what is in its way, and what to do');
down('BEGIN; DROP TABLE plain CASCADE; ROLLBACK');
down("SELECT rose.alter_subscription('s', enabled => true)");
synced();
same('a DROP TABLE that is taken back');
is(down("SELECT to_regclass('v') IS NULL"), 't', 'the copy takes the view along');

# --- a database made from one with pieces
interrupted(sub { down("SELECT rose.alter_subscription('s', enabled => false)") });
$replica->restart;
ok($replica->poll_query_until('template1', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'postgres'"), 'nobody is in the database');
$replica->safe_psql('template1', 'CREATE DATABASE made TEMPLATE postgres');
$replica->safe_psql('made', 'TRUNCATE plain; SELECT rose.create_subscription(\'s2\', $$' . $upstream->connstr('postgres') . '$$, ARRAY[\'p\'])');
is(($replica->psql('made', "SELECT rose.wait_for_sync('s2', $timeout)"))[0], 0, 'its tables are copied');
is($replica->safe_psql('made', "SELECT (SELECT count(*) FROM rose.subscription_copy) || ' ' || (SELECT count(*) FROM pg_class WHERE relname LIKE 'copy_of%')"), '0 0', 'and nothing of the other one is left');
$replica->safe_psql('made', "SELECT rose.drop_subscription('s2')");

# --- a dump meanwhile has neither pieces nor what they are
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$replica->command_ok([ 'pg_dump', '-f', $dump, '-d', $replica->connstr('postgres') ], 'a database with pieces is dumped');
unlike(slurp_file($dump), qr/copy_of_/, 'and without their relation');
$replica->safe_psql('template1', 'CREATE DATABASE restored');
$replica->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $replica->connstr('restored') ], 'and restored');
is($replica->safe_psql('restored', "SELECT (SELECT count(*) FROM rose.subscription_copy) || ' ' || (SELECT count(*) FROM rose.subscription_piece)"), '0 0', 'where nobody has begun to copy');
$replica->safe_psql('template1', 'DROP DATABASE made');
down("SELECT rose.alter_subscription('s', enabled => true)");
synced();
same('the original is as on the upstream');

# --- durability 'local'
down("SELECT rose.alter_subscription('s', durability => 'local')");
my %way = (crash => sub { crash_and_restart($replica) }, kill => sub { kill 'KILL', copier(); wait_until_up($replica) }, termination => $end);
foreach my $way (sort keys %way)
{
	$log = interrupted($change, $way{$way});
	$change->();
	synced();
	is(logged($log, $goes_on), 1, "local, $way: it goes on");
	same("local, $way");
	restart_by($replica, 'immediate');
	$change->();
	down('INSERT INTO plain VALUES (-1, 1, \'here\'); DELETE FROM plain WHERE id = -1');
	same("local, $way, and a crash after it");
}
interrupted($change, sub { down("SELECT rose.alter_subscription('s', durability => 'upstream')") });
synced();
same('durability is changed meanwhile');

# --- schemas are published: of the table, and of a partition's root
up("CREATE SCHEMA app; CREATE SCHEMA other; CREATE TABLE app.root $columns PARTITION BY RANGE (id); CREATE TABLE other.part PARTITION OF app.root FOR VALUES FROM (0) TO (1000000);"
	  . "CREATE TABLE app.t $columns; INSERT INTO app.t $values; INSERT INTO app.root $values; CREATE PUBLICATION schemas FOR TABLES IN SCHEMA app");
down("CREATE SCHEMA app; CREATE SCHEMA other; CREATE TABLE other.part $columns USING rose; CREATE TABLE app.t $columns USING rose");
down("SELECT rose.create_subscription('schemas', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['schemas'])");
synced('schemas');
my $left_out = sub { my ($table) = @_; return "UPDATE $table SET k = 77 WHERE id <= 10 OR id > $rows - 10; DELETE FROM $table WHERE id IN (11, 12)" };
my @out = ([ 'other.part', 'ALTER PUBLICATION schemas DROP TABLES IN SCHEMA app', 'ALTER PUBLICATION schemas ADD TABLES IN SCHEMA app', 'other.part' ],
	[ 'app.t', 'ALTER PUBLICATION schemas DROP TABLES IN SCHEMA app', 'ALTER PUBLICATION schemas ADD TABLES IN SCHEMA app', 'app.t' ],
	[ 'app.t', 'ALTER TABLE app.t SET SCHEMA other', 'ALTER TABLE other.t SET SCHEMA app', 'other.t' ]);
foreach (@out)
{
	my ($table, $out, $back, $name) = @$_;

	$log = interrupted_of('schemas', $table, sub { down("SELECT rose.alter_subscription('schemas', enabled => false)") });
	up($_) foreach $out, $left_out->($name), $back;
	down("SELECT rose.alter_subscription('schemas', enabled => true)");
	synced('schemas');
	is(logged($log, $goes_on) . logged($log, $anew), '01', "$out: it begins anew");
	same("$out, and back", $table, 'schemas');
}
down("SELECT rose.drop_subscription('schemas')");

# --- somebody whose subscription may do what he may do, and a table that is another one's
up("CREATE ROLE rep LOGIN REPLICATION PASSWORD 'open sesame'; CREATE TABLE theirs $columns; INSERT INTO theirs $values; GRANT SELECT ON theirs TO rep; CREATE PUBLICATION theirs FOR TABLE theirs");
my $hba = $upstream->data_dir . '/pg_hba.conf';
my $rules = slurp_file($hba);
unlink $hba;
append_to_file($hba, "local all rep scram-sha-256\n$rules");
$upstream->reload;
down("CREATE ROLE alice LOGIN; CREATE ROLE bob; GRANT bob TO alice; GRANT USAGE ON FOREIGN DATA WRAPPER rose_subscription TO alice; CREATE TABLE theirs $columns USING rose; ALTER TABLE theirs OWNER TO bob");
my $conninfo = $upstream->connstr('postgres') . q( user=rep password='open sesame');
down("ALTER SYSTEM SET rose.max_copy_workers = 3; SELECT pg_reload_conf(); SET ROLE alice; SELECT rose.create_subscription('theirs', \$\$$conninfo\$\$, ARRAY['theirs'])");
synced('theirs');
same('a limited owner', 'theirs', 'theirs');
is(logged($log, qr/has copied piece [0-9]+ of [0-9]+ of table "theirs"/), 1, 'in pieces');
down('ALTER SYSTEM SET rose.max_copy_workers = 1; SELECT pg_reload_conf()');
$log = interrupted_of('theirs', 'theirs', sub { up("UPDATE theirs SET k = k + 1 WHERE id % 3 = 0; DELETE FROM theirs WHERE id % 31 = 7") });
synced('theirs');
is(logged($log, $goes_on), 1, 'a limited owner: it goes on');
same('a limited owner, interrupted', 'theirs', 'theirs');
# he loses the table between two pieces
interrupted_of('theirs', 'theirs', sub { down('REVOKE bob FROM alice') });
until_down("last_error ~ 'SET ROLE|permission|owner' FROM rose.stat_subscription_tables WHERE relname = 'theirs'", 'who may not become its owner any more does not copy');
down('GRANT bob TO alice');
down("SELECT rose.alter_subscription('theirs', on_error => 'stop')");
synced('theirs');
same('and does when he may', 'theirs', 'theirs');
down("SELECT rose.drop_subscription('theirs')");

# --- many readers, and one who stays: until he goes they see the old rows, and then the new ones; none sees anything else
down('ALTER SYSTEM SET rose.max_copy_workers = 3; SELECT pg_reload_conf()');
my $holder = RoseTest::Session->new($replica);
$holder->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM plain');
my $old = down('SELECT count(*) FROM plain');
up("INSERT INTO plain SELECT i, 0, 'more' FROM generate_series(8000001, 8000500) i");
wait_for_apply($upstream, $replica);
my $new = up('SELECT count(*) FROM plain');
my @readers = map { RoseTest::Session->new($replica) } 1 .. 16;
my %counts;
down("SELECT rose.alter_subscription('s', resync => 'plain')");
until_down("EXISTS (SELECT FROM rose.stat_copy_progress WHERE phase = 'switching')", 'the switch waits for who reads');
foreach my $round (1 .. 6)
{
	my @went;

	$holder->run('COMMIT') if $round == 4;
	foreach my $reader (@readers)
	{
		$reader->start('SELECT count(*) FROM plain');
	}
	$counts{$_->finish}++ foreach @readers;
}
is(join(' ', keys %counts), $new, 'sixteen sessions read one and the same all the time');
synced();
same('... and all of it is there');
$_->end foreach @readers, $holder;
nothing_left('nothing is left of pieces');

$_->stop foreach $replica, $upstream;
done_testing();
