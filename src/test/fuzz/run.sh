#!/bin/bash
# Fuzz the decoders of pages and footers with libFuzzer, address and undefined
# behaviour sanitizers.
#
#   src/test/fuzz/run.sh [--runs=N] [--seconds=N] [--seed=N] [--keep] [TARGET...]
#
#   --runs     executions of each target (default 10,000,000)
#   --seconds  at most so long for each target (default: no limit)
#   --keep     take what was found to the corpus in the tree, as little as covers the same
#
# Targets are fuzz_*.c beside this file that have a corpus: page, footer. The
# corpus of a target, corpus/TARGET, is where it starts. A finding stays in
# the scratch folder, which is kept, and is repeated by running the program with it.
# Needs clang 14 or later (packages clang, libclang-rt-14-dev). The last line is
# "N passed, N failed".
set -u

. "$(dirname "$0")/../cluster.sh"

HERE=$ROSE_ROOT/src/test/fuzz
RUNS=10000000
SECONDS_MAX=0
SEED=1
KEEP_CORPUS=''
TARGETS=()
PASSED=0
FAILED=0

for argument in "$@"; do
	case $argument in
		--runs=*) RUNS=${argument#*=} ;;
		--seconds=*) SECONDS_MAX=${argument#*=} ;;
		--seed=*) SEED=${argument#*=} ;;
		--keep) KEEP_CORPUS=1 ;;
		page | footer) TARGETS+=("$argument") ;;
		*) die "unknown target \"$argument\"" ;;
	esac
done
[ ${#TARGETS[@]} -gt 0 ] || TARGETS=(page footer)

# What a target is linked with beside its own file.
sources_of()
{
	local src=$ROSE_ROOT/src

	printf '%s\n' "$HERE/fuzz.c" "$src/test/unit/unit_shim.c" "$src/test/unit/unit_assert.c" "$src/util/rose_bitpack.c" "$src"/codec/*.c "$src"/page/*.c
	case $1 in
		page) echo "$src/test/unit/page/unit_read.c" ;;
		footer) printf '%s\n' "$HERE/fuzz_stubs.c" "$src/lsm/component/rose_component.c" "$src/lsm/component/rose_component_page.c" "$src/lsm/component/rose_filter_parts.c" "$src/lsm/component/rose_key_columns.c" \
			"$src/util/rose_key.c" "$src/util/rose_layout.c" ;;
	esac
}

build_target()
{
	# alignment: PostgreSQL's headers read unaligned on purpose
	# shellcheck disable=SC2046
	"$CLANG" -std=gnu99 -O2 -g -fno-omit-frame-pointer -fno-strict-aliasing -fwrapv -DUSE_ASSERT_CHECKING=1 -D_GNU_SOURCE \
		-Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Wno-ignored-attributes -Werror \
		-fsanitize=fuzzer,address,undefined -fno-sanitize=alignment -fno-sanitize-recover=undefined \
		-I"$ROSE_ROOT/src" -I"$ROSE_ROOT/src/test" -I"$HERE" -I"$ROSE_ROOT/src/test/unit" -I"$("$PG_CONFIG" --includedir-server)" \
		-o "$SCRATCH/fuzz_$1" "$HERE/fuzz_$1.c" $(sources_of "$1") \
		-L"$("$PG_CONFIG" --libdir)" -L"$("$PG_CONFIG" --pkglibdir)" -L"$(dirname "$("$PG_CONFIG" --pkglibdir)")/lib" \
		-lpgcommon -lpgport -llz4 -lm || { FAILED=$((FAILED + 1)); die "target $1 could not be built"; }
}

run_target()
{
	local target=$1 corpus=$SCRATCH/corpus_$1

	mkdir -p "$corpus" "$SCRATCH/found"
	echo "== $target: $RUNS executions"
	# An execution frees some ten kilobytes, so this still has those of hundreds; more would be new memory for each.
	if env ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=8 "$SCRATCH/fuzz_$target" -seed="$SEED" -runs="$RUNS" -max_total_time="$SECONDS_MAX" \
		-max_len=8200 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 -artifact_prefix="$SCRATCH/found/$target-" \
		"$corpus" "$HERE/corpus/$target" >"$SCRATCH/$target.log" 2>&1; then
		PASSED=$((PASSED + 1))
		grep -E 'number_of_executed_units|average_exec_per_sec|new_units_added' "$SCRATCH/$target.log"
		echo "ok - fuzz $target"
	else
		FAILED=$((FAILED + 1))
		tail -n 60 "$SCRATCH/$target.log"
		echo "not ok - fuzz $target (seed $SEED); the input is in $SCRATCH/found"
		ROSE_KEEP=1
		return
	fi
	[ -z "$KEEP_CORPUS" ] || merge_corpus "$target" "$corpus"
}

# As few and as short inputs as cover what the old and the new ones did.
merge_corpus()
{
	local merged=$SCRATCH/merged_$1

	mkdir "$merged"
	"$SCRATCH/fuzz_$1" -merge=1 -verbosity=0 "$merged" "$2" "$HERE/corpus/$1" >/dev/null 2>&1
	rm -f "$HERE/corpus/$1"/*
	cp "$merged"/* "$HERE/corpus/$1"/
}

finish()
{
	rose_cleanup
	echo "$PASSED passed, $FAILED failed"
}

trap finish EXIT
trap 'exit 130' INT TERM
export BOOTSTRAP_WISHES='clang libclang-rt-14-dev'
CLANG=${CLANG:-clang}
"$ROSE_ROOT/src/test/bootstrap.sh" || exit 1
command -v "$CLANG" >/dev/null || die "fuzzing needs clang"
scratch fuzz
for target in "${TARGETS[@]}"; do
	build_target "$target"
	run_target "$target"
done
[ "$FAILED" = 0 ]
