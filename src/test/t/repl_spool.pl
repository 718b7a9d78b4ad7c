# What upstream transactions are kept in, memory or a temporary file, gives back what was put in: the generator of src/test/server_unit/server_unit_spool.c.
#
#   SPOOL_SEED		repeat one
use strict;
use warnings;

use RoseTest;
use Test::More;

plan skip_all => 'the stand-in keeps its files otherwise' if $ENV{ROSE_STANDIN};

my $seed = seed_random('SPOOL_SEED');
my $node = rose_node('node');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql("CREATE FUNCTION test_spool(int, int, int) RETURNS int LANGUAGE C STRICT AS 'rose_server_unit'");
cmp_ok(sql("SELECT test_spool($seed + $_, 20, 20000)"), '>', 20, "round $_: some got files") foreach 1 .. 3;
is(scalar(() = glob $node->data_dir . '/base/pgsql_tmp/*'), 0, 'no file is left');

done_testing();
