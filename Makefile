# rose: compressed log-structured tables and blind replication for PostgreSQL.
#
#   make             build rose.so
#   make install     install it into the PostgreSQL that PG_CONFIG names
#   make unit        unit tests of the modules that need no server
#   make test        everything: unit, regression, isolation and TAP tests
#   make crash-test  every stop point, torn pages, failing and full disks
#   make fuzz        decoders of pages and footers, 10 million executions each
#   make sanitize    the tests with address and undefined behaviour sanitizers, and valgrind
#   make core-test   PostgreSQL's own suites on rose: ARGS='regress subscription'
#   make matrix      the suites on each release of PostgreSQL that is installed
#   make fresh-test  demo and test on fresh Debian machines, bare and half installed (as root)
#   make indent      lay the sources out as PostgreSQL's are: PGINDENT_DIR=.../src/tools/pgindent
#   make soak        a replica under daily life for an hour: SOAK_SECONDS=600
#   make stress      many sessions against invariants: ARGS="--seed=7 --seconds=600 --arena=4"
#   make demo        watch a pgbench primary replicate into rose tables
#   make bench       the benchmarks, small sizes
#   make bench-full  the benchmarks, the papers' sizes
#
# test, demo and bench install what is missing on a bare Debian (as root), then
# build and install rose themselves, so they must work before pg_config exists:
# PGXS is only included when it is there.

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
export PG_CONFIG

MODULE_big = rose
EXTENSION = rose
DATA = rose--1.0.sql rose--1.0--1.1.sql rose--1.0.control
DATA_built = rose--1.1.sql
PGFILEDESC = "rose - compressed log-structured tables"

SRC_DIRS = . compat util codec page vector store memtable \
	lsm/snapshot lsm/component lsm/tree lsm/read lsm/merge lsm/write lsm \
	indexam tableam worker repl sqlfunc scan
OBJS = $(patsubst %.c,%.o,$(sort $(foreach dir,$(SRC_DIRS:%=src/%),$(wildcard $(dir)/*.c))))

# WERROR= turns off "warnings are errors" for compilers that we have not met.
WERROR ?= -Werror
PG_CPPFLAGS = -I$(srcdir)/src -I$(libpq_srcdir) -MMD -MP
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wshadow -Wstrict-prototypes \
	-Wdeclaration-after-statement -Wformat=2 -fno-semantic-interposition $(WERROR)
SHLIB_LINK = -llz4 -Wl,-Bsymbolic-functions

# No JIT bitcode: it would need clang.
override with_llvm := no

# For "make installcheck" by an ordinary user; "make test" runs all of it. The
# specs named stop_* need a library that only "make test" builds.
REGRESS = $(shell sed -n 's/^test: *//p' sql/schedule 2>/dev/null)
REGRESS_OPTS = --encoding=UTF8 --no-locale --temp-instance=./tmp_inst --temp-config=src/test/test.conf --load-extension=rose
ISOLATION = $(filter-out stop_%,$(patsubst src/test/isolation/specs/%.spec,%,$(sort $(wildcard src/test/isolation/specs/*.spec))))
ISOLATION_OPTS = --encoding=UTF8 --no-locale --inputdir=src/test/isolation --outputdir=output_iso \
	--temp-instance=./tmp_inst_iso --temp-config=src/test/test.conf --load-extension=rose
EXTRA_CLEAN = $(OBJS:.o=.d) tmp_inst tmp_inst_iso output_iso results \
	regression.diffs regression.out tmp_check

# Loops for the vector unit.
src/codec/rose_kernels.o src/util/rose_bitpack.o src/vector/rose_vec_kernels.o src/vector/rose_vec_agg.o src/vector/rose_vec_expr.o src/vector/rose_vec_group.o: override CFLAGS += -O3

ifneq ($(wildcard $(PGXS)),)
include $(PGXS)
-include $(OBJS:.o=.d)
# From 16 on symbols of modules are hidden. Libraries of the tests reach below SQL, into
# the rose that users get, so they stay visible, as they are in 15.
override CFLAGS += -fvisibility=default
else
all install clean installcheck:
	@echo 'PostgreSQL server headers are missing ($(PG_CONFIG) --pgxs finds nothing).' >&2
	@echo 'Run src/test/bootstrap.sh as root, or set PG_CONFIG.' >&2
	@exit 1
endif

# A new extension of 1.1 is one of 1.0 that was updated, but for the schema, which it makes itself, unless there is one.
rose--1.1.sql: rose--1.0.sql rose--1.0--1.1.sql Makefile
	{ printf '%s\n\n' '/* $@ */' '\echo Use "CREATE EXTENSION rose" to load this file. \quit' \
	"DO 'BEGIN IF pg_catalog.to_regnamespace(''rose'') IS NULL THEN CREATE SCHEMA rose; END IF; END';"; \
	cat $(filter %.sql,$^); } >$@.tmp && mv $@.tmp $@

unit:
	@src/test/unit/run.sh

test:
	@src/test/run.sh

crash-test:
	@src/test/run.sh crash

fuzz:
	@src/test/fuzz/run.sh $(ARGS)

sanitize:
	@src/test/sanitize.sh

core-test:
	@src/test/core/run.sh $(ARGS)

matrix:
	@src/test/matrix.sh $(ARGS)

fresh-test:
	@src/test/fresh.sh

indent:
	@src/tools/indent.pl

stress:
	@src/test/stress/run.sh $(ARGS)

soak:
	@src/test/run.sh soak

demo:
	@src/test/demo.sh

# One file a workload; each cleans up after itself and fails if heap and rose differ.
bench:
	@bench/all

bench-full:
	@bench/all --full

.PHONY: unit test crash-test fuzz sanitize core-test matrix fresh-test indent stress soak demo bench bench-full
