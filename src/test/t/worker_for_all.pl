
# Nobody keeps the others from maintenance: no locked table, no number of broken ones, no database with a transaction
# that stays open or with writers that never rest.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $node = rose_node('for_all', "rose.memtable_size = '4MB'", "rose.spill_interval = '100ms'", 'max_prepared_transactions = 2', 'deadlock_timeout = 1h');

sub sql { return $node->safe_psql('postgres', $_[0], connstr => $node->connstr($_[1] // 'postgres')) }

# Are all rows of these tables in components?
sub until_spilled
{
	my ($database, @tables) = @_;
	my $in_memory = join ' OR ', map { "EXISTS (SELECT FROM rose.components('$_') WHERE kind = 'memtable' AND rows > 0)" } @tables;
	return $node->poll_query_until($database, "SELECT NOT ($in_memory)");
}

sub set
{
	sql("ALTER SYSTEM SET $_") for @_;
	sql('SELECT pg_reload_conf()');
	return;
}

# A lock of a prepared transaction over a restart. The table is the first and the last in the catalog at once:
# all the others are locked, too, but one.
set('rose.max_merge_workers = 0');
sql("CREATE TABLE locked_$_ (id int PRIMARY KEY) USING rose; INSERT INTO locked_$_ VALUES ($_)") for 1 .. 2;
sql('CREATE TABLE free (id int PRIMARY KEY) USING rose; INSERT INTO free VALUES (1)');
sql("CREATE TABLE locked_$_ (id int PRIMARY KEY) USING rose; INSERT INTO locked_$_ VALUES ($_)") for 3 .. 4;
sql('BEGIN; LOCK TABLE ' . join(', ', map { "locked_$_" } 1 .. 4) . "; PREPARE TRANSACTION 'locks'");
sql('ALTER SYSTEM RESET rose.max_merge_workers');
$node->restart;
ok($node->poll_query_until('postgres', "SELECT spills > 0 FROM rose.stat_worker WHERE datname = 'postgres'"), 'a locked table is passed over');
ok(until_spilled('postgres', 'free'), 'and another one is spilled');
sql("COMMIT PREPARED 'locks'");
ok($node->poll_query_until('postgres', "SELECT spills = 5 FROM rose.stat_worker WHERE datname = 'postgres'"), 'the locked ones are when they can be');

# More broken tables than anybody could remember in a list of fixed length, and a sound one among them.
set('rose.max_merge_workers = 0');
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'");
sql("CREATE TABLE broken_$_ (id int PRIMARY KEY) USING rose; INSERT INTO broken_$_ VALUES ($_)") for 1 .. 20;
sql('CREATE TABLE sound (id int PRIMARY KEY) USING rose; INSERT INTO sound VALUES (1)');
sql("CREATE TABLE broken_$_ (id int PRIMARY KEY) USING rose; INSERT INTO broken_$_ VALUES ($_)") for 21 .. 40;
my %good;
my @files = map { $node->data_dir . '/' . sql("SELECT pg_relation_filepath('broken_$_')") } 1 .. 40;
sql('ALTER SYSTEM RESET rose.max_merge_workers');
$node->stop;
foreach my $file (@files)
{
	$good{$file} = slurp_file($file);
	open my $fh, '+<', $file or die "$file: $!";
	binmode $fh;
	print $fh "\xff" x 8192;
	close $fh;
}
$node->start;
ok($node->poll_query_until('postgres', "SELECT spills > 0 FROM rose.stat_worker WHERE datname = 'postgres'"), 'forty broken tables are passed over');
ok(until_spilled('postgres', 'sound'), 'and the sound one is spilled');
$node->stop;
foreach my $file (@files)
{
	open my $fh, '>', $file or die "$file: $!";
	binmode $fh;
	print $fh $good{$file};
	close $fh;
}
$node->start;
ok(until_spilled('postgres', map { "broken_$_" } 1 .. 40), 'the others are when they are mended');

# Merges of locked tables: there are more than may be under way at a time.
stop_points_create($node);
my $control = RoseTest::Session->new($node);
sql("CREATE TABLE stuck_$_ (id int PRIMARY KEY) USING rose") for 1 .. 5;
my $holder = RoseTest::Session->new($node);
$holder->run('BEGIN');
foreach my $i (1 .. 5)
{
	# it has begun a merge, and has to let go of the table between two steps
	$control->run("SELECT stop_at('merge-begun', 'wait', 'worker')");
	sql(join ';', map { "INSERT INTO stuck_$i VALUES ($_); SELECT rose.spill('stuck_$i')" } 1 .. 40);
	wait_for_stop($node);
	$holder->start("LOCK TABLE stuck_$i");
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'stuck_$i'::regclass AND NOT granted");
	$control->run("SELECT go_on('merge-begun')");
	$holder->finish;
}
sql('CREATE TABLE merged (id int PRIMARY KEY) USING rose');
sql(join ';', map { "INSERT INTO merged VALUES ($_); SELECT rose.spill('merged')" } 1 .. 40);
ok($node->poll_query_until('postgres', "SELECT count(*) < 40 FROM rose.components('merged')"), 'merges of locked tables leave room for others');
$holder->run('COMMIT');
is(sql("SELECT sum(id) FROM stuck_$_"), 820, "stuck_$_ has its rows") for 1 .. 5;
ok($node->poll_query_until('postgres', "SELECT " . join(' AND ', map { "(SELECT count(*) < 40 FROM rose.components('stuck_$_'))" } 1 .. 5)), 'and are done when the locks go');

# One worker for two databases, and a transaction with a private run that stays open in the first one.
set('rose.max_merge_workers = 1');
sql('CREATE DATABASE other');
rose_create($node, 'other');
my $open = RoseTest::Session->new($node);
sql('CREATE TABLE private (id int PRIMARY KEY) USING rose');
$open->run('BEGIN; INSERT INTO private SELECT generate_series(1, 3000)');
sql("SELECT rose.spill('private')");
is(sql("SELECT count(*) > 0 FROM rose.components('private') WHERE kind = 'private run'"), 't', 'a private run');
ok($node->poll_query_until('postgres', "SELECT pid IS NOT NULL FROM rose.stat_worker WHERE datname = 'postgres'"), 'a worker looks after it');
$node->safe_psql('other', 'CREATE TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (1)');
ok(until_spilled('other', 't'), 'the other database is maintained');
$open->run('ROLLBACK');
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.components('private') WHERE kind = 'private run'"), 'and the first one later');

# One worker, and a database that always has something to spill.
my $script = $node->basedir . '/writes.sql';
append_to_file($script, "INSERT INTO busy SELECT (random() * 1e9)::int FROM generate_series(1, 10) ON CONFLICT DO NOTHING;\n\\sleep 20 ms\n");
sql('CREATE TABLE busy (id int PRIMARY KEY) USING rose');
my ($out, $err) = ('', '');
my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-T', $PostgreSQL::Test::Utils::timeout_default + 60, '-f', $script, $node->connstr('postgres') ],
	'>', \$out, '2>', \$err);
ok($node->poll_query_until('postgres', "SELECT state <> 'stopped' AND spills > 0 FROM rose.stat_worker WHERE datname = 'postgres'"), 'a busy database');
$node->safe_psql('other', 'INSERT INTO t VALUES (2)');
ok(until_spilled('other', 't'), 'a busy database ends its turn');
$node->safe_psql('other', 'INSERT INTO t VALUES (3)');
ok(until_spilled('other', 't'), 'every time');
$pgbench->signal('TERM');	# INT may be ignored, if who started the tests is in the background
$pgbench->finish;

$_->end for $control, $holder, $open;
$node->stop;
done_testing();
