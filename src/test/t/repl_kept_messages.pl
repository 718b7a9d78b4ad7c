# What upstream transactions in progress are kept in (memory or a temporary file), and descriptions of tables that are kept with them: the generator of
# src/test/server_unit/server_unit_spool.c, and server_unit_description.c. And as kept transactions have their own descriptions, which are
# the stream's nearly always, the upstream's catalog is not looked at for each of them.
#
#   SPOOL_SEED		repeat one
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in keeps its files otherwise' if $ENV{ROSE_STANDIN};

my $seed = seed_random('SPOOL_SEED');
my $upstream = upstream_node('max_prepared_transactions = 10', 'log_statement = all');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'");

sub looks { return scalar(() = slurp_file($upstream->logfile) =~ /statement: SELECT q\.n::pg_catalog\.text/g) }

prepared_tables($upstream, $replica);
down("CREATE FUNCTION test_$_ LANGUAGE C STRICT AS 'rose_server_unit'") foreach 'spool(int, int, int) RETURNS int', 'descriptions() RETURNS int';
cmp_ok(down("SELECT test_spool($seed + $_, 20, 20000)"), '>', 20, "round $_: some got files") foreach 1 .. 3;
is(scalar(() = glob $replica->data_dir . '/base/pgsql_tmp/*'), 0, 'no file is left');
is(down('SELECT test_descriptions()'), 7, 'descriptions');

if ($upstream->pg_version >= 15)
{
	subscribe($upstream, $replica, undef, 'two_phase => true');
	my $before = looks();
	foreach my $i (1 .. 30)
	{
		up("BEGIN; INSERT INTO t VALUES ($i, 1, 'a'); PREPARE TRANSACTION 'p$i'");
		up("COMMIT PREPARED 'p$i'");
	}
	wait_for_apply($upstream, $replica);
	cmp_ok(looks() - $before, '<', 10, 'the upstream\'s catalog is looked at once for a table, not for a transaction');
	cmp_ok(looks(), '>', 0, '... and that is how it is looked at');
	is(down('SELECT count(*) FROM t'), 30, 'all are there');
}

done_testing();
