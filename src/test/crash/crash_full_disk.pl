# A disk that is full, really: tables on a small file system, which is filled when a
# spill or merge gets to each of its phases, and while clients write.
#
# CRASH_SMALL_DISK names a folder on a file system of some ten megabytes that nothing
# else uses; src/test/run.sh mounts one if it may. Skipped without.
#
# A statement that finds no room says so (53100) and changes nothing; readers see what
# is committed; when there is room again everything goes on.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $disk = $ENV{CRASH_SMALL_DISK};
plan skip_all => 'no small file system (CRASH_SMALL_DISK); run.sh mounts one as root' if !$disk;

my $node = rose_node('full', 'autovacuum = on', "rose.spill_interval = '1h'", "rose.memtable_size = '4MB'", 'rose.max_merge_workers = 0', 'max_prepared_transactions = 5');
stop_points_create($node);
mkdir "$disk/space" or die "$disk/space: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$disk/space'");

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Everything that is left, in one file.
sub fill_disk
{
	open my $fh, '>', "$disk/ballast" or die "$disk/ballast: $!";
	my $block = 'x' x 8192;
	while (defined syswrite($fh, $block)) { }
	close $fh;
	return;
}

sub free_disk { unlink "$disk/ballast"; return; }

# The table's model.
sub same
{
	my ($table) = @_;
	my ($rose, $heap) = map { table_hash($node, $_) } $table, "h_$table";
	return $rose eq $heap ? sql("SELECT c::text FROM rose.check('$table') c") : "rose has $rose, heap $heap";
}

# The same on heap, which is elsewhere, and on rose.
sub both
{
	my ($statement, $table) = @_;

	return join '; ', map { (my $s = $statement) =~ s/\bT\b/$_/gr } "h_$table", $table;
}

# with a key, without one, and that it is the index of a table that is spilled and merged
foreach my $table (qw(keyed keyless indexed))
{
	my $key = $table eq 'keyless' ? '' : 'PRIMARY KEY';
	my $tree = $table eq 'indexed' ? 'indexed_pad_v_idx' : $table;
	my $columns = "(id int $key, v int, pad text)";

	sql("CREATE TABLE $table $columns USING rose TABLESPACE small; CREATE INDEX ON $table (pad, v) TABLESPACE small; CREATE TABLE h_$table $columns");
	sql(both("INSERT INTO T SELECT g, 0, md5(g::text) FROM generate_series(1, 5000) g", $table));
	sql("SELECT rose.merge('$tree')");
	foreach my $stage (qw(spill-frozen spill-planned spill-carried spill-written spill-finished spill-freed merge-begun merge-read merge-built merge-published))
	{
		my $ctl = RoseTest::Session->new($node);
		my $open = RoseTest::Session->new($node);

		# incompressible, so that it takes room
		sql(both("UPDATE T SET v = v + 1, pad = md5(v::text || id) WHERE id % 2 = 0", $table));
		$open->run("BEGIN; INSERT INTO $table SELECT g, 0, md5(g::text) FROM generate_series(100001, 100100) g");
		$ctl->run("SELECT stop_at('$stage', 'wait', 'client')");
		my $busy = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT rose.merge('$tree')" ],
			'>', \my $out, '2>', \my $err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
		my $came = wait_or_end($busy);
		fill_disk();
		$ctl->run("SELECT go_on('$stage')");
		$busy->finish;
		ok($came && ($err eq '' || $err =~ /No space left on device/), "$table, full at $stage: a clean end") or diag "came: $came; $err";
		is(same($table), '', "$table, full at $stage: nothing is lost");
		my ($rc, undef, $full) = $node->psql('postgres', "BEGIN; " . both("UPDATE T SET v = v + 1 WHERE id = 1", $table) . "; COMMIT");
		ok($rc == 0 || $full =~ /No space left on device/, "$table, full at $stage: a write succeeds or says why") or diag $full;
		free_disk();
		$open->run('ROLLBACK');
		is(same($table), '', "$table: as the model has it");
		sql(both("UPDATE T SET v = v + 1 WHERE id <= 10", $table) . "; SELECT rose.merge('$table'), rose.merge('${table}_pad_v_idx')");
		is(same($table), '', "$table: with room again, after $stage, everything goes on");
		$_->end foreach $ctl, $open;
	}
}

# Clients that write until nothing goes any more, and when it goes again.
fill_disk();
my $errors = 0;
foreach my $n (1 .. 60)
{
	my ($rc, undef, $err) = $node->psql('postgres', "BEGIN; " . both("INSERT INTO T SELECT g, 0, md5(g::text) FROM generate_series($n * 1000000, $n * 1000000 + 3000) g", 'keyed') . "; COMMIT");
	next if $rc == 0;
	like($err, qr/No space left on device/, "a client is told that the disk is full") if !$errors++;
	last if $err !~ /No space left on device/;
}
cmp_ok($errors, '>', 0, 'writes end with an error at last');
is(sql('SELECT count(keyed) FROM keyed') , sql('SELECT count(*) FROM h_keyed'), 'readers see what is committed');
free_disk();
sql(both("INSERT INTO T VALUES (-1, -1, 'room')", 'keyed') . "; SELECT rose.merge('keyed'), rose.merge('keyed_pad_v_idx')");
is(same('keyed'), '', 'with room again, all is there');
# what was written before merges gave its place back would need room once more
sql('CHECKPOINT');
sql(both("UPDATE T SET v = v + 1 WHERE id <= 10", 'keyed'));
fill_disk();
crash_and_restart($node);
is(sql('SELECT count(keyed) FROM keyed') , sql('SELECT count(*) FROM h_keyed'), 'a server that starts with a full disk can be read');
free_disk();
is(same('keyed'), '', 'and goes on');
sql("UPDATE keyed SET v = 1; SELECT rose.merge('keyed'); DROP TABLE keyed, keyless, indexed");
$node->stop;
done_testing();

# Until the process waits at the stop point (true) or has ended without coming there.
sub wait_or_end
{
	my ($process) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if sql("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)") eq 't';
		return '' if !$process->pumpable;
		$process->pump_nb;
		select undef, undef, undef, 0.1;
	}
	return '';
}
