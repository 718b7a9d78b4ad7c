# A transaction that has locked its table, and finds memory full with rows that nobody can spill, waits; it does not
# spill its few rows, which are carried over each time, again and again.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('noroom', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Write to a table that is locked until memory has so many bytes.
sub fill
{
	my ($table, $upto, $length) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 1);

	$session->query_safe("BEGIN; LOCK TABLE $table");
	$session->query_safe("DO \$\$ BEGIN FOR i IN 1..100000 LOOP"
		  . " EXIT WHEN (SELECT used_bytes >= $upto FROM rose.stat_memory);"
		  . " INSERT INTO $table VALUES (i, repeat('x', $length)); END LOOP; END \$\$");
	return $session;
}

sql("CREATE TABLE $_ (id int PRIMARY KEY, doc text) USING rose") foreach qw(a b t);

my $large = fill('a', 890_000, 640);
my $writer = $node->background_psql('postgres', on_error_stop => 0);

$writer->query_safe("BEGIN; LOCK TABLE t; INSERT INTO t VALUES (1, 'a few')");
my $small = fill('b', 983_040, 160);
my $before = sql('SELECT writer_spills FROM rose.stat_memory');

$writer->query("SET statement_timeout = '4s'; INSERT INTO t SELECT 2, repeat('y', 96000)");
cmp_ok(sql('SELECT writer_spills FROM rose.stat_memory') - $before, '<=', 2001, 'no more than one spill in 2 ms');
$writer->{stderr} = '';
$writer->query_safe('ROLLBACK');

# With room again, the same goes through.
$writer->query_safe("SET statement_timeout = 0; BEGIN; LOCK TABLE t; INSERT INTO t VALUES (1, 'a few')");
$small->query_safe('ROLLBACK');
$large->query_safe('ROLLBACK');
$writer->query_safe("INSERT INTO t SELECT 2, repeat('y', 96000); COMMIT");
is(sql('SELECT count(*), max(length(doc)) FROM t'), '2|96000', 'and it goes on when there is room');

$_->quit foreach ($small, $large, $writer);
$node->stop;
done_testing();
