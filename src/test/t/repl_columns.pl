# Columns are known by their numbers: names may change and change places on both sides, and no value goes to another column,
# or nowhere, without an error that says so.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in finds columns by name' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.spill_interval = '1h'");

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub rows_of { my ($node, $table, $columns) = @_; return $node->safe_psql('postgres', "SELECT $columns FROM $table ORDER BY id") }

# The columns, as they are called there and here, have the same values.
sub same
{
	my ($name, $table, $there, $here) = @_;

	wait_for_apply($upstream, $replica, undef, undef, $table);
	is(down("SELECT state, last_error FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), 'ready|', "$name: not paused");
	is(rows_of($replica, $table, $here // $there), rows_of($upstream, $table, $there), $name);
	return;
}

sub paused
{
	my ($name, $table, $pattern) = @_;

	ok($replica->poll_query_until('postgres', "SELECT state IN ('paused', 'error') FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), "$name: paused");
	like(down("SELECT last_error FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), $pattern, $name);
	return;
}

sub resynced
{
	my ($name, $table, @columns) = @_;

	down("SELECT rose.alter_subscription('s', resync => '$table')");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	same("$name, resynced", $table, @columns);
	up("INSERT INTO $table (id) SELECT max(id) + 1 FROM $table");
	same("$name, resynced, further on", $table, @columns);
	return;
}

sub disabled
{
	down("SELECT rose.alter_subscription('s', enabled => false)");
	$replica->poll_query_until('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription') or fail('disabled');
	return;
}

my @tables = qw(renamed within lagging here gone listed added repeated dropped copied anew uncopied);
foreach my $table (@tables)
{
	up("CREATE TABLE $table (id int PRIMARY KEY, a int, b int, c text); INSERT INTO $table VALUES (1, 10, 100, 'x'), (2, 20, 200, 'y')");
	down("CREATE TABLE $table (c text, id int PRIMARY KEY, b int, a int) USING rose");
}
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', grep { $_ ne 'uncopied' } @tables));
subscribe($upstream, $replica, undef, q{on_error => 'pause', on_schema_change => 'stop'});
my $all = 'id, a, b, c';

# --- names that change upstream
up("ALTER TABLE renamed RENAME a TO x; INSERT INTO renamed VALUES (3, 30, 300, 'z'); UPDATE renamed SET x = 21 WHERE id = 2");
same('a renamed column', 'renamed', 'id, x, b, c', $all);
up('ALTER TABLE renamed RENAME x TO y; ALTER TABLE renamed RENAME b TO x; ALTER TABLE renamed RENAME y TO b; UPDATE renamed SET x = x + 1, b = b + 2; INSERT INTO renamed VALUES (4, 40, 400)');
same('two that change places', 'renamed', 'id, b, x, c', $all);
crash_and_restart($replica);
up('INSERT INTO renamed VALUES (5, 50, 500)');
same('after a crash', 'renamed', 'id, b, x, c', $all);
resynced('a copy keeps them together, as not all names are there', 'renamed', 'id, b, x, c', $all);
up('ALTER TABLE renamed ALTER x TYPE bigint; UPDATE renamed SET x = x + 1');
same('another type', 'renamed', 'id, b, x, c', $all);

up('BEGIN; INSERT INTO within VALUES (3, 30, 300); ALTER TABLE within RENAME a TO x; INSERT INTO within VALUES (4, 40, 400); ALTER TABLE within RENAME b TO a;'
	  . ' ALTER TABLE within RENAME x TO b; INSERT INTO within VALUES (5, 50, 500); UPDATE within SET a = a + 1; COMMIT');
same('within a transaction', 'within', 'id, b, a, c', $all);
up('BEGIN; INSERT INTO within VALUES (6, 60, 600); SAVEPOINT s; ALTER TABLE within RENAME b TO q; INSERT INTO within VALUES (7, 70, 700); ROLLBACK TO s; UPDATE within SET b = 71; COMMIT');
same('and taken back', 'within', 'id, b, a, c', $all);
up('BEGIN; INSERT INTO within VALUES (8, 80, 800); ALTER TABLE within DROP a; ALTER TABLE within ADD a int; INSERT INTO within (id, b, a) VALUES (9, 90, 900); COMMIT');
paused('dropped and added within a transaction', 'within', qr/(column "a" of table "within" is another one than before on the upstream|it cannot be told which they were).*hint: .*resync/s);
resynced('dropped and added within a transaction', 'within', $all);

disabled();
up('ALTER TABLE lagging RENAME a TO x; INSERT INTO lagging VALUES (3, 30, 300); ALTER TABLE lagging RENAME x TO y; UPDATE lagging SET b = b + 1; ALTER TABLE lagging RENAME b TO x; INSERT INTO lagging VALUES (4, 40, 400)');
up('INSERT INTO gone VALUES (3, 30, 300); ALTER TABLE gone DROP b; INSERT INTO gone VALUES (4, 40)');
down("SELECT rose.alter_subscription('s', enabled => true)");
same('changes from before further renames', 'lagging', 'id, y, x, c', $all);
same('a column that is dropped upstream', 'gone', 'id, a', 'id, a');
is(rows_of($replica, 'gone', 'b'), "100\n200\n300\n", 'has the values from before, then NULL');
up('ALTER TABLE gone ADD b int; UPDATE gone SET b = 1 WHERE id = 4');
paused('added again', 'gone', qr/column "b" of table "gone" is another one than before on the upstream/);
resynced('added again', 'gone', $all);

up("ALTER TABLE dropped DROP b; ALTER TABLE dropped ADD b int DEFAULT 7; INSERT INTO dropped (id) VALUES (3)");
paused('dropped and added again', 'dropped', qr/column "b" of table "dropped" is another one than before on the upstream/);
is(rows_of($replica, 'dropped', $all), "1|10|100|x\n2|20|200|y", 'its rows are those of before');
resynced('dropped and added again', 'dropped', $all);

# --- columns that are published for a while
up("ALTER PUBLICATION p SET TABLE " . join(', ', map { $_ eq 'listed' ? 'listed (id, a, c)' : $_ } grep { $_ ne 'uncopied' } @tables));
up("UPDATE listed SET a = 11, b = 101 WHERE id = 1");
same('a column that is not published any more', 'listed', 'id, a, c');
up("ALTER PUBLICATION p SET TABLE " . join(', ', grep { $_ ne 'uncopied' } @tables));
up("UPDATE listed SET a = 21 WHERE id = 2");
paused('published again', 'listed', qr/column "b" of table "listed" is another one than before on the upstream/);
resynced('published again', 'listed', $all);

# --- new columns
down('ALTER TABLE added ADD d int');
up('ALTER TABLE added ADD d int; INSERT INTO added VALUES (3, 30, 300, NULL, 3000)');
same('a new column on both sides', 'added', "$all, d");
up('ALTER TABLE added ADD e int; UPDATE added SET e = 1 WHERE id = 1');
paused('a new column upstream', 'added', qr/table "added" has no column "e", which the upstream publishes/);
down('ALTER TABLE added ADD e int');
resynced('added here', 'added', "$all, d, e");

# --- names that change here
down('ALTER TABLE here RENAME a TO x; ALTER TABLE here RENAME b TO a; ALTER TABLE here RENAME x TO b');
up('INSERT INTO here VALUES (3, 30, 300); UPDATE here SET a = a + 1');
same('two that change places here', 'here', $all, 'id, b, a, c');
resynced('a copy takes them by name, as all names are there', 'here', $all);
down("SELECT rose.spill('here')");
down('ALTER TABLE here DROP c; ALTER TABLE here ADD c text');
up("INSERT INTO here VALUES (5, 50, 500, 'new')");
paused('dropped and added again here', 'here', qr/column "c" of table "here" is another one than before here.*hint: .*resync/s);
resynced('dropped and added again here', 'here', $all);
down("SELECT rose.spill('here')");
down('ALTER TABLE here DROP c');
up('UPDATE here SET a = 1 WHERE id = 1');
paused('dropped here', 'here', qr/table "here" has no column "c", which the upstream publishes/);
down('ALTER TABLE here ADD c text');
resynced('dropped here', 'here', $all);

# --- what comes again after a crash
down('ALTER TABLE repeated ADD d int');
down("SELECT rose.spill('repeated')");
up('INSERT INTO repeated VALUES (3, 30, 300); ALTER TABLE repeated RENAME a TO x; INSERT INTO repeated VALUES (4, 40, 400); ALTER TABLE repeated ADD d int; UPDATE repeated SET d = id; ALTER TABLE repeated DROP c; INSERT INTO repeated VALUES (5, 50, 500, 5)');
same('before it', 'repeated', 'id, x, b, d', 'id, a, b, d');
crash_and_restart($replica);
same('what comes again after a crash', 'repeated', 'id, x, b, d', 'id, a, b, d');
up('INSERT INTO repeated VALUES (6, 60, 600, 6)');
same('and goes on', 'repeated', 'id, x, b, d', 'id, a, b, d');

# --- names change places on the upstream between the look at them and the copy
stop_points_create($replica);
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('copy-found', 'wait', 'worker')");
down("SELECT rose.alter_subscription('s', resync => 'copied')");
wait_for_stop($replica, 'copy-found');
up('ALTER TABLE copied RENAME a TO x; ALTER TABLE copied RENAME b TO a; ALTER TABLE copied RENAME x TO b');
$control->run("SELECT go_on('copy-found')");
$control->end;
down("SELECT rose.wait_for_sync('s', $timeout)");
same('a copy whose columns change places', 'copied', $all);

# --- another table of the name: its numbers are other ones
up("DROP TABLE anew; CREATE TABLE anew (x int, c text, id int PRIMARY KEY, a int); ALTER PUBLICATION p ADD TABLE anew; INSERT INTO anew VALUES (100, 'x', 1, 10)");
paused('made anew', 'anew', qr/the upstream's table "public.anew" is another one than before/);
down("SELECT rose.alter_subscription('s', resync => 'anew')");
paused('made anew, resynced', 'anew', qr/table "anew" has no column "x", which the upstream publishes/);
down('ALTER TABLE anew ADD x int');
resynced('made anew', 'anew', 'id, a, c, x');

# --- an upstream cannot send a table that its publications have other columns of
up('CREATE TABLE "Listed" (id int PRIMARY KEY, a int, b int); CREATE PUBLICATION l1 FOR TABLE "Listed" (id, a); CREATE PUBLICATION l2 FOR TABLE "Listed" (id, b); CREATE PUBLICATION l3 FOR TABLE "Listed" (a, id)');
down('CREATE TABLE "Listed" (id int PRIMARY KEY, a int, b int) USING rose');
my $listed = "SELECT rose.create_subscription('l', \$\$" . $upstream->connstr('postgres') . q{$$, ARRAY[%s], on_schema_change => 'stop')};
my $other_lists = qr/cannot use different column lists for table "public.Listed" in different publications/;
like(error_of($replica, sprintf $listed, "'l1', 'l2'"), $other_lists, 'other column lists');
down(sprintf $listed, "'l1', 'l3'");
like(error_of($replica, "SELECT rose.alter_subscription('l', publications => ARRAY['l3', 'l2'])"), $other_lists, 'other column lists later');
up('INSERT INTO "Listed" VALUES (1, 2, 3)');
wait_for_apply($upstream, $replica, 'postgres', 'l');
is(rows_of($replica, '"Listed"', 'id, a, b'), '1|2|', 'the same column list twice');
down("SELECT rose.drop_subscription('l')");

# --- without a copy they are known from the first change on
up('CREATE PUBLICATION p2 FOR TABLE uncopied');
down("SELECT rose.create_subscription('u', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['p2'], copy_data => false, on_error => 'pause', on_schema_change => 'stop')");
up('DELETE FROM uncopied; INSERT INTO uncopied VALUES (3, 30, 300)');
wait_for_apply($upstream, $replica, 'postgres', 'u');
up('ALTER TABLE uncopied RENAME a TO x; ALTER TABLE uncopied RENAME b TO a; ALTER TABLE uncopied RENAME x TO b; INSERT INTO uncopied VALUES (4, 40, 400)');
wait_for_apply($upstream, $replica, 'postgres', 'u');
is(rows_of($replica, 'uncopied', $all), rows_of($upstream, 'uncopied', 'id, b, a, c'), 'without a copy');

$replica->stop;
$upstream->stop;
done_testing();
