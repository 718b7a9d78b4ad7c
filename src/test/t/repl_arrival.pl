
# What a subscription has written and memory alone has is read in the order in which it came, too. Where a row's newest
# version has only some of its columns, since a large value that did not change is not sent, the rest is read in the order of
# keys: each row once, with all of its columns.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory' if $ENV{ROSE_STANDIN};

my $seed = seed_random('ARRIVAL_SEED');
my $steps = $ENV{ARRIVAL_STEPS} // 30;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '64MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', "wal_retrieve_retry_interval = '200ms'");

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub pick { return int(random_between(@_)) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

stop_points_create($replica);
my $keeper = RoseTest::Session->new($replica);
$keeper->run("SELECT stop_at('arrival-small', 'skip', 'any', 0, 0), stop_at('arrival-batch', 'skip', 'any', 0, 0)");
sub batches { return down("SELECT stop_hits('arrival-batch')") }

my $columns = 'id int PRIMARY KEY, n int, large text';
up("CREATE TABLE t ($columns); ALTER TABLE t ALTER large SET STORAGE EXTERNAL; CREATE PUBLICATION p FOR TABLE t");
up("CREATE FUNCTION large(seed bigint) RETURNS text LANGUAGE sql AS 'SELECT string_agg(md5((\$1 * 100 + g)::text), '''') FROM generate_series(1, 70) g'");
down("CREATE TABLE t ($columns) USING rose");
subscribe($upstream, $replica);

my $rows = 'SELECT id, n, md5(large) FROM t';
sub sorted { return join("\n", sort split(/\n/, $_[0])) }

# Nothing is there twice, nothing is missing, nothing is another one's.
sub is_same
{
	my ($what) = @_;

	wait_for_apply($upstream, $replica);
	my $before = batches();
	my $same = sorted(down($rows)) eq sorted(up($rows));
	my $count = down('SELECT count(*), sum(n) FROM t') eq up('SELECT count(*), sum(n) FROM t');
	ok($same && $count && batches() > $before, $what);
	return;
}

up('INSERT INTO t SELECT g * 7 % 400, g, large(g) FROM generate_series(1, 400) g');
is_same('whole rows');
is(down('SELECT count(*) FROM (SELECT n, row_number() OVER () AS i FROM t) x WHERE n <> i'), 0, '... in the order of their arrival');
my $whole = batches();
down($rows);
$whole = batches() - $whole;

# A cursor that is at whole rows still, of which some are partly replaced under it.
my $reader = RoseTest::Session->new($replica);
my $then = sorted(up($rows));
$reader->run("BEGIN; DECLARE c NO SCROLL CURSOR FOR $rows");
my $first = $reader->run('FETCH 20 FROM c');

up('UPDATE t SET n = n + 1000 WHERE n % 3 = 0');
is_same('rows with parts of them');
is(down("SELECT partials FROM rose.stat_subscription_tables WHERE relid = 't'::regclass"), 133, '... which are versions of their own');
is(sorted($first . "\n" . $reader->run('FETCH ALL FROM c')), $then, 'a cursor from before');
$reader->run('COMMIT');

# Up to the first part in the order of arrival, behind it in that of keys.
is(down('SELECT count(*) FROM (SELECT n, lag(n) OVER () AS p FROM t WHERE n < 1000) x WHERE p > n'), 0, 'rows before the first part come as they have arrived');
is(down('SELECT count(*) FROM (SELECT id, lag(id) OVER () AS p FROM t WHERE n > 1000) x WHERE p > id'), 0, '... and what is left in the order of keys');

up('UPDATE t SET n = n + 1000 WHERE n % 2 = 0');
is_same('parts on parts');
up('UPDATE t SET large = large(n) WHERE id % 5 = 0; DELETE FROM t WHERE id % 7 = 0');
is_same('whole rows and deletions on parts');
up('INSERT INTO t SELECT g * 7, -g, large(-g) FROM generate_series(0, 57) g');
is_same('new rows of the same keys');
up('UPDATE t SET id = id + 1000 WHERE id % 11 = 0');
is_same('rows that got other keys');

# ---- random steps, with cursors over them ----

my $wrong = 0;
for my $i (1 .. $steps)
{
	my $where = 'id % ' . pick(2, 30) . ' = 0';
	my @changes = (
		"UPDATE t SET n = n + 1 WHERE $where", "UPDATE t SET n = n + 1 WHERE $where", "UPDATE t SET large = large(id + n) WHERE $where", "DELETE FROM t WHERE $where",
		'INSERT INTO t SELECT g, g, large(g) FROM generate_series(' . pick(1, 100) . ', 400, 7) g ON CONFLICT DO NOTHING');
	wait_for_apply($upstream, $replica);
	$then = sorted(up($rows));
	$reader->run("BEGIN; DECLARE c NO SCROLL CURSOR FOR $rows");
	$first = $reader->run('FETCH ' . pick(1, 150) . ' FROM c');
	# a cursor keeps TRUNCATE out
	up($changes[ pick(0, 5) ]) for 1 .. 3;
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('t')") if pick(1, 8) == 1;
	my $got = sorted(join("\n", grep { $_ ne '' } $first, $reader->run('FETCH ALL FROM c')));
	$reader->run('COMMIT');
	$wrong++, diag("a cursor gives other rows in step $i, seed $seed") if $got ne $then;
	wait_for_apply($upstream, $replica);
	$wrong++, diag("other rows in step $i, seed $seed") if sorted(down($rows)) ne sorted(up($rows));
	up("TRUNCATE t; INSERT INTO t SELECT g * 7 % 400, g, large(g) FROM generate_series(1, 100) g") if pick(1, 5) == 1;
}
is($wrong, 0, "the same as upstream, in $steps steps");
is(down("SELECT count(*) FROM rose.check('t')"), 0, 'nothing is wrong with the table');
$_->end foreach $reader, $keeper;
done_testing();
