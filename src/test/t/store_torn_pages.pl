
# A crash while the tail log grows, with data checksums: the block that its next page was to have may hold a page
# of a component that was never finished and was written without WAL, torn by the crash. Nothing of the
# log points to a page that was not logged before, so nobody reads such a block.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no tail log' if $ENV{ROSE_STANDIN};

my $node = PostgreSQL::Test::Cluster->new('torn');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', "$_\n")
  foreach ('rose.wal_components = off', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off');
$node->start;
rose_create($node, 'postgres');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Overwrite the blocks of a file that were never written, but for the metapage and the first map of regions behind the 64 regions of one block:
# how many.
# Their checksums are wrong then, as those of a torn page would be.
sub tear
{
	my ($path) = @_;
	my $zero = "\0" x 8192;
	my $ntorn = 0;

	open my $file, '+<:raw', $path or die "$path: $!";
	for (my $block = 1; seek($file, $block * 8192, 0) && read($file, my $page, 8192) == 8192; $block++)
	{
		next if $page ne $zero || $block == 65;
		seek($file, $block * 8192, 0);
		print $file "\x5A" x 8192;
		$ntorn++;
	}
	close $file;
	return $ntorn;
}

# What is in the table first; where the append stops, and at which arrival there; what is appended.
foreach my $case (
	['unlisted', 0, 'tail-opening', 0, 'SELECT 1000, 7'],
	['first', 0, 'tail-appending', 0, 'SELECT 1000, 7'],
	['second', 1, 'tail-writing', 0, "SELECT 1000 + g, repeat('x', 3000) FROM generate_series(1, 3) g"],
	['second_written', 1, 'tail-written', 0, "SELECT 1000 + g, repeat('x', 3000) FROM generate_series(1, 3) g"],
	['third', 1, 'tail-writing', 1, "SELECT 1000 + g, repeat('x', 3000) FROM generate_series(1, 6) g"],
	['batch', 1, 'tail-writing', 0, "SELECT 1000, repeat('x', 400000)"],
	['after_batch', 1, 'tail-writing', 1, "SELECT 1000, repeat('x', 400000)"],
	['after_two', 1, 'tail-writing', 2, "SELECT 1000, repeat('x', 400000)"],
	['after_two_written', 1, 'tail-written', 2, "SELECT 1000, repeat('x', 400000)"])
{
	my ($name, $nrows, $stop, $skip, $append) = @$case;
	my $control = RoseTest::Session->new($node);
	my $writer = RoseTest::Session->new($node);

	sql("CREATE TABLE $name (id int PRIMARY KEY, v text) USING rose");
	sql("INSERT INTO $name SELECT 1, 'a'") if $nrows > 0;
	my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$name')");
	sql('CHECKPOINT');
	$control->run("SELECT stop_at('$stop', 'wait', 'client', $skip)");
	$writer->start("INSERT INTO $name $append");
	wait_for_stop($node);
	# somebody else's commit takes to the disk what was logged so far
	sql("CREATE TABLE others_$name ()");
	crash($node);
	$_->end foreach $control, $writer;
	cmp_ok(tear($path), '>', 0, "$name: a torn page");
	RoseTest::poll_start($node);

	my ($rc, $out, $err) = $node->psql('postgres', "SELECT count(*) FROM $name");
	is($out, $nrows, "$name: what was committed can be read");
	is($err, '', "$name: and nothing is wrong");
	($rc, $out, $err) = $node->psql('postgres', "INSERT INTO $name SELECT g, repeat('y', 4000) FROM generate_series(2, 60) g; SELECT count(*) FROM rose.check('$name')");
	is($out, '0', "$name: and written to") or diag($err);
	crash_and_restart($node);
	($rc, $out, $err) = $node->psql('postgres', "SELECT count(*), max(id) FROM $name; SELECT count(*) FROM rose.check('$name')");
	is($out, (59 + $nrows) . "|60\n0", "$name: all of it is there after one more crash") or diag($err);
}

$node->stop;
done_testing();
