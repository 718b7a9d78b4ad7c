# Searches of an index for a value: filters of components say where it is not, those of C2's pieces, too.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no filters' if $ENV{ROSE_STANDIN};

my $node = rose_node('index_filters', 'autovacuum = off', "rose.spill_interval = '1d'");

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Pages that a search reads when the session has searched before for what is not there: it has opened the index then, and keeps no leaf of it.
sub pages_read
{
	my ($value) = @_;
	my $plan = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT a FROM filtered WHERE a =";
	my $out = sql("SET enable_seqscan = off; $plan 999; $plan $value") =~ s/.*Index Only Scan//sr;
	my ($pages) = $out =~ /shared hit=(\d+)/;
	return $pages;
}
sql(<<'SQL');
CREATE TABLE filtered (id int PRIMARY KEY, a int) USING rose;
INSERT INTO filtered SELECT g, g * 2 FROM generate_series(1, 20000) g;
SELECT rose.spill('filtered'), rose.merge('filtered');
CREATE INDEX filtered_a ON filtered (a);
SQL
my ($there, $not_there) = (0, 0);
for my $i (1 .. 20)
{
	$there += pages_read($i * 1000);
	$not_there += pages_read($i * 1000 + 1);
}
cmp_ok($not_there, '<', $there, "filters keep searches from leaves ($not_there and $there pages)");

# What ON CONFLICT asks for sees rows in progress, so its keys are not looked up as others are; filters are asked for them, too.
sql(q{CREATE TABLE keyed (k int PRIMARY KEY, a text) USING rose;
	INSERT INTO keyed SELECT g * 2, md5(g::text) FROM generate_series(1, 60000) g;
	SELECT rose.spill('keyed'), rose.merge('keyed')});
$node->restart;
my $cold = sql('EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF)
	INSERT INTO keyed SELECT g * 601 + 1 - g % 2, $$$$ FROM generate_series(0, 199) g ON CONFLICT DO NOTHING');
my ($read) = $cold =~ /read=(\d+)/;
cmp_ok($read, '<', 60, "new keys are found to be new without a look at leaves ($read pages read)");
like($cold, qr/Tuples Inserted: 200/, '... all of them');

# values in several components, some of them gone, are found all the same
sql(<<'SQL');
UPDATE filtered SET a = a + 1 WHERE id % 100 = 0;
SELECT rose.spill('filtered');
DELETE FROM filtered WHERE id % 100 = 1;
INSERT INTO filtered SELECT 20000 + g, g FROM generate_series(1, 2000) g;
SQL
is(sql("SET enable_seqscan = off; SELECT sum((SELECT count(*) FROM filtered f WHERE f.a = g)) FROM generate_series(0, 41000) g"),
	sql("SELECT count(*) FROM filtered"), 'each row is found by its value');
is(sql("SELECT * FROM rose.check('filtered')"), '', 'entries are those of the rows');

if ($node->pg_version >= 18)
{
	my $searches = sub { sql("SET enable_seqscan = off; SET rose.enable_scan = off; EXPLAIN (ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF) $_[0]") =~ /Index Searches: (\d+)/ };
	is_deeply([ map { $searches->("SELECT a FROM filtered WHERE $_") } 'a > 30', 'a = ANY (ARRAY[2, 4, 6])', 'id = 7', 'id = ANY (ARRAY[7, 8])' ], [ 1, 3, 1, 2 ], 'EXPLAIN says how often an index was searched');
}

done_testing();
