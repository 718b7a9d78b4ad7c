
# Statements that are cancelled anywhere, and rolled back to a savepoint, in transactions that go on. What was done to a rose table is
# done to its heap twin in the same subtransaction, so both have the same rows whatever was cancelled, while others spill and
# merge the rose tables and memory is short.
#
#   CANCELLED_SEED     repeat a run, as far as timing lets it
#   CANCELLED_ROUNDS   how many transactions, default 30
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $rounds = $ENV{CANCELLED_ROUNDS} // 30;
my $seed = seed_random('CANCELLED_SEED');
my $node = rose_node('cancelled', 'autovacuum = off', 'fsync = off', rose_conf("rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'"));
my $using = $ENV{ROSE_STANDIN} ? 'heap' : 'rose';

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(<<"SQL");
CREATE TABLE k (id int, g int, v int, t text, PRIMARY KEY (g, id)) USING $using;
CREATE TABLE k_heap (id int, g int, v int, t text, PRIMARY KEY (g, id)) USING heap;
CREATE TABLE n (id int, v int, t text) USING $using;
CREATE TABLE n_heap (id int, v int, t text) USING heap;
SQL

# A statement about K and N; the rows that it leaves do not depend on the order in which it reads.
sql(<<'SQL');
CREATE FUNCTION some_statement() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	a int := random() * 3000;
	b int := a + random() * 400;
	grp int := random() * 5;
	range text := format('g = %s AND id BETWEEN %s AND %s', grp, a, b);
	ids text := format('id BETWEEN %s AND %s', a, b);
	series text := format('generate_series(%s, %s) i', a, b);
BEGIN
	RETURN (ARRAY[
		'INSERT INTO K SELECT i, ' || grp || ', 1, md5(i::text) FROM ' || series || ' ON CONFLICT DO NOTHING',
		'INSERT INTO K AS x SELECT i, ' || grp || ', 1, repeat(''x'', i % 300) FROM ' || series || ' ON CONFLICT (g, id) DO UPDATE SET v = x.v + 1',
		'UPDATE K SET v = v + 1 WHERE ' || range,
		'UPDATE K SET v = v + 1 WHERE ' || ids,
		'DELETE FROM K WHERE ' || range,
		'UPDATE K SET g = g + 6 WHERE ' || range,
		'DELETE FROM K WHERE g > 5 AND id < ' || a,
		'UPDATE K SET v = 0 WHERE ctid = ANY (ARRAY(SELECT ctid FROM K WHERE ' || range || '))',
		'INSERT INTO N SELECT i, 1, repeat(md5(i::text), 4) FROM ' || series,
		'UPDATE N SET v = v + 1 WHERE ' || ids,
		'DELETE FROM N WHERE ' || ids,
		'INSERT INTO N SELECT id, v, t FROM K WHERE ' || range,
		'SELECT count(*) FROM (SELECT 1 FROM K WHERE ' || range || ' FOR UPDATE) x',
		'INSERT INTO K SELECT DISTINCT ON (id) id, 12, v, t FROM N WHERE ' || ids || ' ORDER BY id, v, t ON CONFLICT DO NOTHING',
		'MERGE INTO K m USING (SELECT i FROM ' || series || ') s ON m.g = ' || grp || ' AND m.id = s.i WHEN MATCHED AND i % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 7 WHEN NOT MATCHED THEN INSERT VALUES (i, ' || grp || ', 3, ''m'')'
		])[1 + floor(random() * 15)];
END $$;
CREATE FUNCTION on_tables(statement text, suffix text) RETURNS text LANGUAGE sql AS $$
	SELECT regexp_replace(regexp_replace(statement, '\mK\M', 'k' || suffix, 'g'), '\mN\M', 'n' || suffix, 'g') $$;
-- one transaction's work; how many statements were done and undone
CREATE FUNCTION work(OUT done int, OUT undone int) LANGUAGE plpgsql AS $$
DECLARE
	statement text;
BEGIN
	done := 0;
	undone := 0;
	FOR i IN 1 .. 2 + random() * 8 LOOP
		BEGIN
			statement := some_statement();
			EXECUTE on_tables(statement, '');
			EXECUTE on_tables(statement, '_heap');
			IF random() < 0.1 THEN RAISE EXCEPTION 'undone'; END IF;
			done := done + 1;
		EXCEPTION WHEN query_canceled OR raise_exception OR unique_violation THEN
			undone := undone + 1;
		END;
	END LOOP;
END $$;
CREATE FUNCTION cancel_some(seconds float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	until timestamptz := clock_timestamp() + seconds * interval '1 s';
BEGIN
	WHILE clock_timestamp() < until LOOP
		PERFORM pg_sleep(random() * 0.06), pg_stat_clear_snapshot();
		PERFORM pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'worked' AND state = 'active';
	END LOOP;
END $$;
CREATE PROCEDURE maintain(rounds int) LANGUAGE plpgsql AS $$
BEGIN
	SET lock_timeout = '5s';
	FOR i IN 1 .. rounds LOOP
		BEGIN
			EXECUTE format('SELECT rose.%s(%L)', (ARRAY['spill', 'spill', 'merge'])[1 + floor(random() * 3)], (ARRAY['k', 'n'])[1 + floor(random() * 2)]);
		EXCEPTION WHEN lock_not_available THEN
			NULL;
		END;
		COMMIT;
		PERFORM pg_sleep(0.03);
	END LOOP;
END $$;
SQL

sub differences
{
	return sql("SELECT (SELECT count(*) FROM (TABLE k EXCEPT ALL TABLE k_heap) x) + (SELECT count(*) FROM (TABLE k_heap EXCEPT ALL TABLE k) x)"
		  . " + (SELECT count(*) FROM (TABLE n EXCEPT ALL TABLE n_heap) x) + (SELECT count(*) FROM (TABLE n_heap EXCEPT ALL TABLE n) x)");
}

my ($canceller, $maintenance) = map { RoseTest::Session->new($node) } 1 .. 2;
my ($done, $undone, $different) = (0, 0, 0);
my $round = 0;
while ($round < $rounds && !$different)
{
	my $transactions = 5;
	my @calls = map { ('BEGIN', 'SELECT * FROM work()', 'SELECT * FROM work()', rand() < 0.7 ? 'COMMIT' : 'ROLLBACK') } 1 .. $transactions;

	$_->start('SELECT cancel_some(1)') foreach $canceller;
	$_->start('CALL maintain(15)') foreach $maintenance;
	# what is cancelled outside of a subtransaction ends its transaction
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", "SET application_name = 'worked'", "SELECT setseed(" . rand() . ') IS NULL', @calls), on_error_stop => 0);
	$done += $1, $undone += $2 while $out =~ /^(\d+)\|(\d+)$/mg;
	my @unexpected = grep { !/canceling statement|current transaction is aborted/ } $err =~ /(ERROR: .*|FATAL: .*)/g;
	$_->finish foreach $canceller, $maintenance;
	$different = differences();
	if ($rc == 2 || @unexpected || $different)
	{
		diag("round $round, CANCELLED_SEED=$seed: $different rows differ; $_") foreach @unexpected, "status $rc";
		$different ||= 1;
	}
	$round += $transactions;
}
is($different, 0, "the same rows after $done statements that were done and $undone that were undone");
if (!$ENV{ROSE_STANDIN})
{
	is(sql("SELECT c::text FROM rose.check('$_') c"), '', "$_ is sound") foreach qw(k n);
	sql("SELECT rose.merge('$_')") foreach qw(k n);
	is(differences(), 0, 'the same rows when they are merged');
}
$_->end foreach $canceller, $maintenance;
$node->stop;
done_testing();
