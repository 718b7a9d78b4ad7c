#!/bin/sh
# Measure multicolumn pages without a server.  Prints CSV.
#
# PG_CONFIG  the PostgreSQL to build against (default: pg_config)
# CC         the compiler (default: gcc)

set -eu

PG_CONFIG=${PG_CONFIG:-pg_config}
CC=${CC:-gcc}
bench=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$bench/../src" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

$CC -std=gnu99 -O2 -g -fno-strict-aliasing -fwrapv -I"$src" -I"$src/test/unit" \
	-I"$($PG_CONFIG --includedir-server)" -o "$build/pages" \
	"$bench/pages.c" "$src"/test/unit/unit_shim.c "$src"/test/unit/unit_rows.c \
	"$src"/util/rose_bitpack.c "$src"/codec/*.c "$src"/page/*.c \
	-L"$($PG_CONFIG --libdir)" -L"$($PG_CONFIG --pkglibdir)" \
	-L"$(dirname "$($PG_CONFIG --pkglibdir)")/lib" -lpgcommon -lpgport -llz4 -lm
"$build/pages"
