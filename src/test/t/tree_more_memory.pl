
# An error while memory for more tables is made ready fails one statement, and others that need more after it have it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no registry' if $ENV{ROSE_STANDIN};

my $tables = 400;
my $node = rose_node('memory', "rose.spill_interval = '1h'", 'autovacuum = off', 'max_locks_per_transaction = 512');
stop_points_create($node);

my $control = RoseTest::Session->new($node);
sub sql { return $node->safe_psql('postgres', $_[0]) }

$control->run("SELECT stop_at('place-adding', 'error', 'client', 0, 1)");
sql(<<"SQL");
CREATE TABLE failed (i int, state text);
DO \$\$ BEGIN
	FOR i IN 1 .. $tables LOOP
		BEGIN
			EXECUTE format('CREATE TABLE t%1\$s (id int PRIMARY KEY) USING rose; INSERT INTO t%1\$s VALUES (%1\$s)', i);
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO failed VALUES (i, SQLSTATE || SQLERRM);
		END;
	END LOOP;
END \$\$;
SQL
is($control->run("SELECT stop_hits('place-adding')"), 1, 'one error');
is(sql('SELECT count(*) FROM failed'), 1, 'one statement fails');
is(sql("SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'rose'"), $tables - 1, 'the others do not');
is(sql('SELECT tables FROM rose.stat_memory'), $tables - 1, 'and have memory');
$control->run('SELECT stop_clear()');
$control->end;
$node->stop;
done_testing();
