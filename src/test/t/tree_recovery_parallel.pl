# The first to touch a table after a start may be the workers of one parallel query. Heavyweight locks do not keep processes of one group from
# each other; yet one of them alone recovers the table, and nobody uses it before that is done.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has nothing to recover' if $ENV{ROSE_STANDIN};

my $node = rose_node('recovery', "rose.memtable_size = '64MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off', 'max_parallel_workers = 4');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Each of two workers has one of the two rows for which the function looks into the table: the first one waits at the first, the other goes
# through the rest.
sql(<<'SQL');
CREATE TABLE r (id int PRIMARY KEY, t text) USING rose;
CREATE TABLE many (id int) USING heap WITH (parallel_workers = 2);
INSERT INTO many SELECT g FROM generate_series(1, 2000) g;
CREATE FUNCTION rows_of_r(int) RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE COST 100000 AS
$$BEGIN IF $1 <> 1 AND $1 <> 1999 THEN RETURN 0; END IF; RETURN (SELECT count(*) FROM r); END$$;
ANALYZE many;
SQL

my $settings = 'SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET parallel_leader_participation = off';
my $query = 'SELECT sum(rows_of_r(id)) FROM many';

like(sql("$settings; EXPLAIN $query"), qr/Workers Planned: 2/, 'the query is parallel');

# What the first worker does when the other one is there: it goes on, or ends.
foreach my $action (qw(wait cancel))
{
	sql("TRUNCATE r; INSERT INTO r SELECT g, 'row ' || g FROM generate_series(1, 20000) g");
	$node->restart;

	my $ctl = RoseTest::Session->new($node);
	my $session = RoseTest::Session->new($node);
	my $workers = "FROM pg_stat_activity WHERE backend_type = 'parallel worker'";

	$ctl->run("SELECT stop_at('recover-judged', 'wait', 'any', 0, 2)");
	$session->run($settings);
	my $pid = $session->run('SELECT pg_backend_pid()');
	$session->start($query);
	$node->poll_query_until('postgres', "SELECT count(*) = 2 $workers AND wait_event_type = 'Lock'") or die 'the workers do not come';
	$ctl->run("SELECT stop_at('recover-part', 'wait', 'any'); SELECT go_on('recover-judged')");
	# one waits after a part, the other for him; or it has passed him and come to the end
	$node->poll_query_until('postgres',
		"SELECT (SELECT count(*) = 1 $workers AND wait_event_type = 'Lock') AND ((SELECT count(*) = 1 $workers AND wait_event_type = 'Extension') OR (SELECT count(*) < 2 $workers))")
	  or die 'no worker recovers the table';
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '500ms'; INSERT INTO r SELECT g, 'too early' FROM generate_series(20001, 20100) g");
	like($err, qr/statement timeout/, "$action: nobody writes to a table of which a part is recovered");
	if ($action eq 'wait')
	{
		$ctl->run("SELECT go_on('recover-part')");
		is($session->finish, 40000, "$action: both workers have read all rows");
	}
	else
	{
		sql("SELECT pg_cancel_backend($pid)");
		eval { $session->finish };
		like($@, qr/canceling statement/, "$action: it ends");
		$ctl->run('SELECT stop_clear()');
	}
	sql("INSERT INTO r SELECT g, 'new' FROM generate_series(30001, 30100) g; UPDATE r SET t = 'changed' WHERE id % 3 = 0; DELETE FROM r WHERE id > 30000 OR id <= 100");
	sql("INSERT INTO r SELECT g, 'row ' || g FROM generate_series(1, 100) g; UPDATE r SET t = 'row ' || id WHERE t = 'changed'");
	foreach my $when ('written to afterwards', 'merged')
	{
		sql("SELECT rose.merge('r')") if $when eq 'merged';
		is(sql("SELECT count(*), count(DISTINCT id), max(id), bool_and(t = 'row ' || id) FROM r"), '20000|20000|20000|t', "$action: $when");
		is(sql("SELECT count(*) FROM rose.check('r')"), 0, "$action: $when: rose.check");
	}
	$session->end;
	$ctl->end;
}

$node->stop;
done_testing();
