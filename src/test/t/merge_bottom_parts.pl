
# A merge into C1 that reaches the bottom makes several parts, one after the other. All of them leave out tombstones that
# everybody sees, and forget sequence numbers: what the merge has made itself is not below what is left to be merged.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has no components' if $ENV{ROSE_STANDIN};

my $node = rose_node('bottom', "rose.debug_piece_size = '256kB'", 'rose.max_merge_workers = 0', 'autovacuum = off', 'fsync = off', "rose.spill_interval = '1h'");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub count_of { return sql("SELECT count(*) FROM rose.components('$_[0]') WHERE kind = '$_[1]'") }

# Four runs; the later ones delete and change some of what the earlier ones have.
sub fill
{
	my ($table) = @_;

	foreach my $run (1 .. 4)
	{
		sql("INSERT INTO $table SELECT md5($run || ' ' || g), g % 1000 FROM generate_series(1, 12000) g");
		sql("DELETE FROM $table WHERE v % 20 = $run; UPDATE $table SET v = v + 1000 WHERE v % 20 = 5");
		sql("SELECT rose.spill('$table')");
	}
	sql('SELECT txid_current()');	# several versions of a row are merged: a later token is due
	return;
}

foreach my $key ('PRIMARY KEY', '')
{
	my $what = $key ? 'with a key' : 'without';
	my $sums = 'SELECT count(*), sum(v), sum(hashtext(id)) FROM t';

	no_merge_workers($node);
	sql("DROP TABLE IF EXISTS t; CREATE TABLE t (id text $key, v int) USING rose");
	fill('t');
	my $before = sql($sums);
	cmp_ok(sql("SELECT sum(tombstones) FROM rose.components('t')"), '>', 1000, "$what: runs with tombstones");
	merge_workers($node, 1);
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.components('t') WHERE kind = 'run'") or die 'no merge into C1';
	is(count_of('t', 'C2'), 0, "$what: there is no C2");
	cmp_ok(count_of('t', 'C1'), '>', 2, "$what: C1 has several parts");
	is(sql("SELECT string_agg(tombstones::text, ' ') FROM rose.components('t') WHERE kind = 'C1' AND tombstones > 0"), '', "$what: none of them has tombstones");
	is(sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'C1' AND max_seq > 1"), 0, "$what: all have forgotten sequence numbers");
	is(sql($sums), $before, "$what: rows");
	is(sql("SELECT * FROM rose.check('t')"), '', "$what: rose.check");
}

$node->stop;
done_testing();
