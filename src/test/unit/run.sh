#!/bin/sh
# Build and run the unit tests, which need no server.  Prints TAP.
#
#	src/test/unit/run.sh [seed [fuzz iterations [percent]]]
#
# PG_CONFIG  the PostgreSQL to build against (default: pg_config)
# CC         the compiler (default: gcc)
# SANITIZE=1 build with address and undefined behaviour sanitizers
# KEEP=dir   build in dir and keep what was built

set -eu

PG_CONFIG=${PG_CONFIG:-pg_config}
CC=${CC:-gcc}
here=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$here/../.." && pwd)

if [ -n "${KEEP:-}" ]; then
	build=$KEEP
	mkdir -p "$build"
else
	build=$(mktemp -d)
	trap 'rm -rf "$build"' EXIT
fi

warnings="-Wall -Wextra -Wno-unused-parameter -Wno-sign-compare
	-Wno-missing-field-initializers -Wshadow -Wstrict-prototypes
	-Wdeclaration-after-statement -Wformat=2 -Werror"
flags="-std=gnu99 -O2 -g -fno-strict-aliasing -fwrapv -DUSE_ASSERT_CHECKING=1"
if [ -n "${SANITIZE:-}" ]; then
	flags="-std=gnu99 -O1 -g -fno-strict-aliasing -fno-omit-frame-pointer
		-fsanitize=address,undefined -fno-sanitize-recover=undefined -DUSE_ASSERT_CHECKING=1"
	ASAN_OPTIONS=detect_leaks=0
	export ASAN_OPTIONS
fi

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/unit" \
	"$here"/unit_main.c "$here"/unit_shim.c "$here"/unit_assert.c \
	"$here"/util/*.c "$here"/page/*.c "$here"/repl/*.c "$src"/util/rose_bitpack.c "$src"/util/rose_bloom.c \
	"$src"/util/rose_losertree.c "$src"/repl/rose_wire.c "$src"/codec/*.c "$src"/page/*.c \
	-L"$($PG_CONFIG --libdir)" -L"$($PG_CONFIG --pkglibdir)" \
	-L"$(dirname "$($PG_CONFIG --pkglibdir)")/lib" \
	-lpgcommon -lpgport -llz4 -lm

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/memtable" \
	"$here"/memtable/*.c "$here"/unit_assert.c "$src"/memtable/*.c "$src"/util/rose_key.c \
	"$src"/util/rose_stop_point.c -lpthread

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/vector" "$here"/vector/*.c "$here"/unit_assert.c "$src"/vector/*.c "$src"/util/rose_wordset.c \
	-L"$($PG_CONFIG --libdir)" -L"$($PG_CONFIG --pkglibdir)" \
	-L"$(dirname "$($PG_CONFIG --pkglibdir)")/lib" -lpgport -lm

for name in gc picker pieces forget; do
	# shellcheck disable=SC2086
	$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
		-o "$build/$name" "$here/merge/test_$name.c" "$here/unit_assert.c" "$src/lsm/merge/rose_$name.c" -lm
done

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/own_commits" "$here/snapshot/test_own_commits.c" "$here/unit_assert.c" "$src/lsm/snapshot/rose_own_commits.c"

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/claims" "$here/tree/test_claims.c" "$here/unit_assert.c" "$src/lsm/tree/rose_claims.c"

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/entry" "$here/tree/test_entry.c" "$here/unit_assert.c" "$src/lsm/tree/rose_entry.c"

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/entry_history" "$here/tree/test_entry_history.c" "$here/unit_assert.c" \
	"$src/lsm/tree/rose_entry.c" "$src/lsm/tree/rose_entry_history.c" \
	-L"$($PG_CONFIG --libdir)" -L"$($PG_CONFIG --pkglibdir)" -L"$(dirname "$($PG_CONFIG --pkglibdir)")/lib" -lpgport

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/retired" "$here/store/test_retired.c" "$here/unit_assert.c" "$src/store/rose_retired.c"

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/regions" "$here/store/test_regions.c" "$here/unit_assert.c" "$src/store/rose_region_search.c" "$src/store/rose_retired.c"

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/shed" "$here/store/test_shed.c" "$here/unit_assert.c" "$src/store/rose_shed.c" \
	-L"$($PG_CONFIG --libdir)" -L"$($PG_CONFIG --pkglibdir)" -L"$(dirname "$($PG_CONFIG --pkglibdir)")/lib" -lpgport

# shellcheck disable=SC2086
$CC $flags $warnings -I"$src" -I"$here" -I"$($PG_CONFIG --includedir-server)" \
	-o "$build/tail_pack" "$here/store/test_tail_pack.c" "$here/unit_assert.c" "$src/store/rose_tail_pack.c" \
	-L"$($PG_CONFIG --libdir)" -L"$($PG_CONFIG --pkglibdir)" -llz4

"$build/vector"
"$build/memtable"
"$build/gc"
"$build/picker"
"$build/pieces"
"$build/forget"
"$build/own_commits"
"$build/claims"
"$build/entry"
"$build/entry_history"
"$build/retired"
"$build/regions"
"$build/shed"
"$build/tail_pack"
"$build/unit" "$@"
