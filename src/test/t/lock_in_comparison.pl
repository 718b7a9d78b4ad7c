# Keys that are compared by a function that reads another table: who compares two keys of a memtable is in a reading section, and
# must not wait for himself when the function is the first to touch that table.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memtables' if $ENV{ROSE_STANDIN};

my $node = rose_node('compares', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off');

# Who waits for himself hears no cancel: the test ends by the time limit of psql.
sub sql
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, timeout => $PostgreSQL::Test::Utils::timeout_default, on_error_die => 0);

	return $rc == 0 ? $out : $err;
}

my %operators = ('<' => 'lt', '<=' => 'le', '=' => 'eq', '>=' => 'ge', '>' => 'gt');
my $sql = <<'SQL';
CREATE TABLE ranks (id int PRIMARY KEY, r int) USING rose;
CREATE TYPE ranked AS (n int);
CREATE FUNCTION ranked_cmp(a ranked, b ranked) RETURNS int LANGUAGE plpgsql STRICT AS $$
BEGIN
	RETURN btint4cmp((SELECT r FROM ranks WHERE id = a.n), (SELECT r FROM ranks WHERE id = b.n));
END $$;
SQL
foreach my $operator (sort keys %operators)
{
	$sql .= "CREATE FUNCTION ranked_$operators{$operator}(a ranked, b ranked) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN ranked_cmp(a, b) $operator 0; END';\n";
	$sql .= "CREATE OPERATOR $operator (LEFTARG = ranked, RIGHTARG = ranked, FUNCTION = ranked_$operators{$operator});\n";
}
is(sql($sql . <<'SQL'), '', 'tables and a type with an order of its own');
CREATE OPERATOR CLASS ranked_ops DEFAULT FOR TYPE ranked USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 ranked_cmp(ranked, ranked);
CREATE TABLE k (id ranked PRIMARY KEY, v int) USING rose;
INSERT INTO ranks SELECT g, 100 - g FROM generate_series(1, 20) g;
DO $$ BEGIN PERFORM rose.spill('ranks'); END $$;
SQL

# The first comparison is that of a lookup in memory.
$node->restart;
is(sql('INSERT INTO k VALUES (row(1), 1)'), '', 'a row that is compared with nothing');
is(sql('INSERT INTO k VALUES (row(2), 2)'), '', 'the first touch of a table, in a comparison');
is(sql('SELECT string_agg(v::text, $$ $$ ORDER BY id) FROM k'), '2 1', 'rows in their order');

is(sql("SELECT count(*) FROM rose.check('k')"), '0', 'nothing is wrong');

# A table with rows in memory is dropped meanwhile: who drops it has the lock that the first touch needs, and waits for readers.
{
	my $control = RoseTest::Session->new($node);
	my $dropper = RoseTest::Session->new($node);
	my $reader = RoseTest::Session->new($node);

	stop_points_create($node);
	sql('CREATE TABLE k2 (id ranked PRIMARY KEY, v int) USING rose; CREATE TABLE gone (id int) USING rose; INSERT INTO gone VALUES (1)');
	sql('INSERT INTO k2 VALUES (row(1), 1)');
	is($reader->run('SELECT count(*) FROM k2'), 1, 'a session that has touched one of the tables');
	$control->run("SELECT stop_at('registry-dropping', 'wait', 'client')");
	$dropper->start('DROP TABLE gone');
	wait_for_stop($node);
	$reader->start('INSERT INTO k2 VALUES (row(2), 2)');
	ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'RoseRegistry')"), 'a first touch, in a comparison, waits for who drops a table');
	$control->run("SELECT go_on('registry-dropping')");
	eval { $_->finish } foreach ($dropper, $reader);
	is($@, '', 'and both go on');
	if ($@)
	{
		$node->stop('immediate');
		done_testing();
		exit;
	}
	is(sql('SELECT string_agg(v::text, $$ $$ ORDER BY id) FROM k2'), '2 1', 'rows in their order');
	$_->end foreach ($control, $dropper, $reader);
}

$node->stop;
done_testing();
