# Components are opened one by one, when somebody needs them. A damaged footer stops those who need its component, who are told which one
# that is, and nobody else; rose.check finds it; and the session that met it goes on.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has no components' if $ENV{ROSE_STANDIN};

my $rows = 40000;
my $node = rose_node('footer', "rose.debug_piece_size = '64kB'", 'rose.max_merge_workers = 0', "rose.spill_interval = '1d'", 'autovacuum = off');
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE item (id int PRIMARY KEY, note text) USING rose;
INSERT INTO item SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series(1, $rows) i;
SELECT rose.spill('item');
SELECT rose.merge('item');
UPDATE item SET note = 'new' WHERE id % 1000 = 0;
SELECT rose.spill('item');
CHECKPOINT;
SQL
my @parts = map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres', "SELECT id, rows, kind FROM rose.components('item')");
my @pieces = grep { $_->[2] eq 'C2' } @parts;
cmp_ok(scalar @pieces, '>=', 12, 'there are many pieces: ' . @pieces);
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('item')");

# Writes these bytes over the beginning of the footer of a component, and returns the block.
sub write_footer
{
	my ($id, $bytes) = @_;
	my $damaged;

	open my $fh, '+<:raw', $file or die $!;
	for (my $block = 0; read($fh, my $page, 8192) == 8192; $block++)
	{
		my $at = index $page, 'ROSF';

		next if $at < 0 || unpack('L<', substr $page, $at + 8, 4) != $id;
		seek $fh, $block * 8192 + $at, 0;
		print $fh $bytes;
		$damaged = $block;
		last;
	}
	close $fh or die $!;
	return $damaged // die "component $id has no footer";
}

# What psql says of this, in a session of its own.
sub message
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	return $err =~ s/^psql:<stdin>:\d+: //r;
}

my $last = $pieces[-1];				# no lookup of the first keys comes by; the last key but one is in no run
my $run = (grep { $_->[2] eq 'run' } @parts)[0];
foreach my $victim ($last, $run)
{
	my ($id, $nrows, $kind) = @$victim;
	my $first_of_last = $rows - $pieces[-1]->[1] + 1;

	$node->stop;
	without_checksums($node);
	my $block = write_footer($id, 'XXXX');
	$node->start;
	my $said = qr/ERROR:  bad footer of component $id at block $block\b.*DETAIL:  The magic number is wrong/s;

	like(message("SELECT * FROM item WHERE id = $rows - 1"), $said, "$kind: a lookup that needs it");
	like(message('SELECT count(*) FROM item'), $said, "$kind: a scan");
	like(message('SELECT count(*) FROM item WHERE id BETWEEN ' . ($first_of_last + 5) . " AND $rows"), $said, "$kind: a scan of a range");
	like(message("SELECT * FROM rose.check('item')"), $said, "$kind: rose.check");
	like(message("UPDATE item SET note = '' WHERE id = $rows - 1"), $said, "$kind: a change");
	if ($kind eq 'C2')
	{
		is($node->safe_psql('postgres', 'SELECT count(*) FROM item WHERE id < 100'), 99, 'a range elsewhere');
		is($node->safe_psql('postgres', 'SELECT id FROM item WHERE id = 17'), 17, 'a key elsewhere');
		is($node->safe_psql('postgres', <<"SQL"), "1\n99", 'a transaction that met it goes on');
BEGIN;
DO \$\$ BEGIN PERFORM * FROM item WHERE id = $rows - 1; EXCEPTION WHEN data_corrupted THEN END \$\$;
SELECT id FROM item WHERE id = 1;
DO \$\$ BEGIN PERFORM count(*) FROM item; EXCEPTION WHEN data_corrupted THEN END \$\$;
SELECT count(*) FROM item WHERE id < 100;
COMMIT;
SQL
	}
	$node->stop;
	write_magic($id, $block);
	$node->start;
	is($node->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE note = 'new') FROM item"), "$rows|" . $rows / 1000, "$kind: all rows are there again");
}
is($node->safe_psql('postgres', "SELECT count(*) FROM rose.check('item')"), 0, 'and the table is sound');

# A footer that ends too early, and one of another component.
foreach my $what ([ 12, pack('L<', 100_000_000), 'A count is out of range' ], [ 8, pack('L<', 77), 'It belongs to another component' ])
{
	my ($offset, $bytes, $detail) = @$what;

	$node->stop;
	my $block = write_footer($last->[0], 'ROSF');
	my $old = patch($block, $offset, $bytes);
	$node->start;
	like(message("SELECT * FROM item WHERE id = $rows - 1"), qr/bad footer of component $last->[0] at block $block\b.*$detail/s, $detail);
	like(message("SELECT * FROM rose.check('item')"), qr/bad footer of component $last->[0] at block $block\b.*$detail/s, "rose.check: $detail");
	$node->stop;
	patch($block, $offset, $old);
	$node->start;
}
is($node->safe_psql('postgres', "SELECT count(*) FROM rose.check('item')"), 0, 'the table is sound at the end');
$node->stop;
done_testing();

# The first four bytes of a footer in this block, as they were.
sub write_magic
{
	my ($id, $block) = @_;
	return patch($block, 0, 'ROSF', 'XXXX');
}

# Replaces bytes of the footer in this block; the old ones. What its magic number is at present.
sub patch
{
	my ($block, $offset, $bytes, $magic) = @_;

	open my $fh, '+<:raw', $file or die $!;
	seek $fh, $block * 8192, 0;
	read $fh, my $page, 8192;
	my $at = index($page, $magic // 'ROSF') + $offset;
	seek $fh, $block * 8192 + $at, 0;
	print $fh $bytes;
	close $fh or die $!;
	return substr $page, $at, length $bytes;
}
