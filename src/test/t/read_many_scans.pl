
# A query that reads many tables one after the other, as one over partitions does, keeps nothing of those that it is through
# with; and a cursor that comes back finds their rows again.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap scans keep a buffer at most' if $ENV{ROSE_STANDIN};

my $parts = 100;
my $node = rose_node('scans', 'rose.max_merge_workers = 0', "rose.spill_interval = '1d'", 'autovacuum = off', 'max_locks_per_transaction = 512');
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(<<"SQL");
CREATE TABLE p (id int, v int, t text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
DO \$\$ BEGIN
	FOR i IN 0 .. $parts - 1 LOOP
		EXECUTE format('CREATE TABLE p_%s PARTITION OF p FOR VALUES FROM (%s) TO (%s) USING rose', i, i * 10, i * 10 + 10);
	END LOOP;
END \$\$;
INSERT INTO p SELECT g, g, 'row ' || g FROM generate_series(0, $parts * 10 - 1) g;
SQL
foreach my $round (1 .. 3)
{
	sql("SELECT count(rose.spill(oid)) FROM pg_class WHERE relname ~ '^p_[0-9]+\$'");
	sql("UPDATE p SET v = v + 1 WHERE id % 3 = $round % 3");
}

# Of the eight tables that were read last, up to four cursors of scans of ranges are kept.
my $kept = 8 * 4;
my $session = RoseTest::Session->new($node);
my $scans = "SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'rose leaf'";
my $rows = $parts * 10;
foreach my $what ([ 'all partitions', 'SELECT id, v FROM p' ],
	[ 'backward', 'SELECT id, v FROM p ORDER BY id DESC' ],
	[ 'ranges', 'SELECT id, v FROM p WHERE id % 10 < 5', $rows / 2 ],
	[ 'an index', 'SELECT id, v FROM p WHERE id BETWEEN 5 AND 100000 ORDER BY id', $rows - 5 ])
{
	my ($name, $query, $n) = @$what;

	$n //= $rows;
	$session->run("SET enable_seqscan = " . ($name eq 'an index' ? 'off' : 'on'));
	my @sorted = sort split /\n/, sql($query);
	$session->run("BEGIN; DECLARE c SCROLL CURSOR FOR $query");
	is($session->run('FETCH 1 FROM c') ne '', 1, "$name: the first row");
	my $forward = $session->run('MOVE ABSOLUTE 0 IN c') . $session->run('FETCH ALL FROM c');
	is_deeply([ sort split /\n/, $forward ], \@sorted, "$name: all rows");
	cmp_ok($session->run($scans), '<=', $kept, "$name: of $parts tables that were read nearly none has pages in memory");
	is(join("\n", reverse split /\n/, $session->run('FETCH BACKWARD ALL FROM c')), $forward, "$name: and back again");
	cmp_ok($session->run($scans), '<=', $kept, "$name: the same at the start");
	is($session->run('FETCH ALL FROM c'), $forward, "$name: and once more");
	$session->run('COMMIT');
}
$session->end;
$node->stop;
done_testing();
