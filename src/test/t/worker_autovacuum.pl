
# Autovacuum workers vacuum rose tables: they write what is in memory to runs, and let
# relfrozenxid advance. What they write is counted where PostgreSQL expects I/O of theirs.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no runs' if $ENV{ROSE_STANDIN};

# nobody else spills; few shared buffers, so that the ring is used again
my $node = rose_node('autovacuum', 'autovacuum = on', 'autovacuum_naptime = 1s', 'autovacuum_vacuum_insert_threshold = 1000',
	'autovacuum_vacuum_threshold = 1000', "rose.spill_interval = '1h'", "shared_buffers = '4MB'");

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Waits until autovacuum has been at the table $times times.
sub until_vacuumed
{
	my ($times) = @_;

	return $node->poll_query_until('postgres',
		"SELECT autovacuum_count >= $times FROM pg_stat_user_tables WHERE relname = 'filled'");
}

sql('CREATE TABLE filled (id int PRIMARY KEY, t text) USING rose');
sql("INSERT INTO filled SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(1, 60000) g");
ok(until_vacuumed(1), 'a table with many new rows is vacuumed');
is(sql("SELECT count(*) > 0 FROM rose.components('filled')"), 't', 'its rows are in runs');
# what is counted while a table is analyzed may be forgotten
ok($node->poll_query_until('postgres', "SELECT autoanalyze_count >= 1 FROM pg_stat_user_tables WHERE relname = 'filled'"), 'and analyzed');
my $frozen = sql("SELECT relfrozenxid::text FROM pg_class WHERE relname = 'filled'");
sql('UPDATE filled SET t = t || id WHERE id % 2 = 0');
ok(until_vacuumed(2), 'so is one with many changed rows');
is(sql("SELECT age('$frozen'::xid) > age(relfrozenxid) FROM pg_class WHERE relname = 'filled'"), 't', 'relfrozenxid advances');
is(sql('SELECT count(*), sum(length(t)) FROM filled'),
	sql('SELECT count(*), sum(64 + CASE WHEN g % 2 = 0 THEN length(g::text) ELSE 0 END) FROM generate_series(1, 60000) g'),
	'the rows');
is(sql("SELECT count(*) FROM rose.check('filled')"), 0, 'rose.check');
$node->stop;
unlike(slurp_file($node->logfile), qr/was terminated by signal|TRAP/, 'no autovacuum worker has crashed');

done_testing();
