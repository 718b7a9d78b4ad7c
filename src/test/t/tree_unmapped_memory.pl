
# Memory of tables that a session has not mapped yet may fail to be mapped when it lets go of others, and comes by it on its way. Then
# its statement fails, and nothing else: the tables are what they were, others let go of them later, and a database that was to be
# dropped is there.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no registry' if $ENV{ROSE_STANDIN};

# So many entries have places in memory that every process has; buckets of the registry.
my ($base, $buckets) = (64, 32768);
my $node = rose_node('unmapped', 'rose.max_tables = 16', "rose.spill_interval = '1h'", "rose.idle_table_timeout = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	'max_locks_per_transaction = 512');

stop_points_create($node);
$node->safe_psql('postgres', 'CREATE DATABASE other');
rose_create($node, 'other');

sub sql { return $node->safe_psql('other', $_[0]) }
sub in_use { return sql('SELECT tables FROM rose.stat_memory') }

# hash_bytes of twelve bytes, which are three words: tablespace, database, file.
sub bucket_of
{
	my ($x, $y, $z) = map { ($_ + 0x9e3779b9 + 12 + 3923095) & 0xffffffff } @_;
	my $rotate = sub { return (($_[0] << $_[1]) | ($_[0] >> (32 - $_[1]))) & 0xffffffff };
	my $step = sub { return (($_[0] - $_[1]) & 0xffffffff) ^ $rotate->($_[1], $_[2]) };

	$x = $step->($x, $z, 4);
	$z = ($z + $y) & 0xffffffff;
	$y = $step->($y, $x, 6);
	$x = ($x + $z) & 0xffffffff;
	$z = $step->($z, $y, 8);
	$y = ($y + $x) & 0xffffffff;
	$x = $step->($x, $z, 16);
	$z = ($z + $y) & 0xffffffff;
	$y = $step->($y, $x, 19);
	$x = ($x + $z) & 0xffffffff;
	$z = $step->($z, $y, 4);
	$y = ($y + $x) & 0xffffffff;

	my $mix = sub { return (($_[0] ^ $_[1]) - $rotate->($_[1], $_[2])) & 0xffffffff };

	$z = $mix->($z, $y, 14);
	$x = $mix->($x, $z, 11);
	$y = $mix->($y, $x, 25);
	$z = $mix->($z, $y, 16);
	$x = $mix->($x, $z, 4);
	$y = $mix->($y, $x, 14);
	$z = $mix->($z, $y, 24);
	return $z & ($buckets - 1);
}

# --- a table that can go, in memory that all have; one of its bucket, which is met before it, in memory that they have not
my ($space, $database) = split /\|/, sql('SELECT dattablespace, oid FROM pg_database WHERE datname = current_database()');
sub bucket { return bucket_of($space, $database, $_[0]) }

my $create = 'CREATE TABLE %s (id int PRIMARY KEY) USING rose; INSERT INTO %1$s VALUES (1)';
sql("DO 'BEGIN FOR i IN 1 .. $base LOOP EXECUTE format(\$\$$create\$\$, \$\$t\$\$ || i); END LOOP; END'");
my $old = sql("SELECT pg_relation_filenode('t1')");
my $new = sql('SELECT lo_create(0)') + 100;
$new++ while bucket($new) != bucket($old);
sql("DO 'BEGIN WHILE lo_create(0) < $new - 1 LOOP END LOOP; END'; " . sprintf($create, 'neighbour'));
is(sql("SELECT pg_relation_filenode('neighbour')"), $new, 'two tables are in one bucket');
sql(sprintf($create, 'more'));
sql("SELECT rose.spill('t1')");

# A transaction that reads so many tables lets none go.
sub use_all
{
	$node->restart;
	sql('BEGIN; ' . join('', map { "SELECT FROM $_; " } map({ "t$_" } 1 .. $base), 'neighbour') . 'COMMIT');
	is(in_use(), $base + 1, 'all are in use');
	return RoseTest::Session->new($node);
}

# --- room for another one
my $control = use_all();
$control->run("SELECT stop_at('place-mapping', 'error', 'client')");
my ($rc, $out, $err) = $node->psql('other', 'SELECT id FROM more');
like($err, qr/place-mapping/, 'memory cannot be mapped');
is(in_use(), $base + 1, 'nothing has gone');
is(sql('SELECT id FROM t1'), 1, 'the table has its rows');
is(sql('SELECT id FROM more'), 1, 'another one is used');
is(in_use(), $base + 1, 'and that one goes');
is(sql('SELECT id FROM t1'), 1, 'and comes again');
$control->run('SELECT stop_clear()');
$control->end;

# --- a database that is dropped
$control = use_all();
$control->run("SELECT stop_at('place-mapping', 'error', 'client')");
($rc, $out, $err) = $node->psql('postgres', 'DROP DATABASE other');
like($err, qr/place-mapping/, 'a database cannot be forgotten');
is(sql("SELECT count(*) FROM pg_database WHERE datname = 'other' AND datconnlimit = -1"), 1, 'so it is not dropped');
is(in_use(), $base + 1, 'nothing has gone');
is(sql('SELECT ' . join(' + ', map { "(SELECT id FROM t$_)" } 1 .. $base)), $base, 'all rows are there');
$node->safe_psql('postgres', 'DROP DATABASE other');
is($node->safe_psql('postgres', 'SELECT tables FROM rose.stat_memory'), 0, 'then it is');
$control->end;
$node->stop;
done_testing();
