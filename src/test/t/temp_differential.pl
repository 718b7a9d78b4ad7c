
# Random SQL in lockstep on temporary heap tables and on temporary rose tables (sql_differential.pl): sessions with
# tables of their own, partitioned ones and such with foreign keys among them, which nobody but they themselves
# spill and merge. DIFF_STATEMENTS: 5400 unless it is given, with ROSE_SEED=random 8000.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use RoseTest;
use Test::More;

# the program is loaded when that of the modules which are to be ready before is
local $ENV{DIFF_TEMP} = 1;
local $ENV{DIFF_SEED} = seed_random('DIFF_SEED');
local $ENV{DIFF_INDEXES} = $ENV{DIFF_INDEXES} // (rand() < 0.5 ? 3 : 0);
local $ENV{DIFF_STATEMENTS} = $ENV{DIFF_STATEMENTS} // how_many(5400, 8000);
require "$FindBin::RealBin/sql_differential.pl";
