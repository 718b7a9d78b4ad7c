
# Random SQL in lockstep on heap tables and on rose tables that have the same secondary indexes (sql_differential.pl):
# rows are found by them and in their order, and rose.check compares each index with its table. DIFF_STATEMENTS: 7200 unless it is
# given, with ROSE_SEED=random 11000.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no indexes of its own' if $ENV{ROSE_STANDIN};

# the program is loaded when that of the modules which are to be ready before is
local $ENV{DIFF_INDEXES} = $ENV{DIFF_INDEXES} // 4;
local $ENV{DIFF_STATEMENTS} = $ENV{DIFF_STATEMENTS} // how_many(7200, 11000);
require "$FindBin::RealBin/sql_differential.pl";
