# What the Makefiles of the tests' libraries have in common.  They say MODULE_big and OBJS before.  run.sh builds
# the libraries; none is ever installed.
PG_CONFIG ?= pg_config
PG_CPPFLAGS = -I../..
PG_CFLAGS = -Wall -Werror
override with_llvm := no
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
