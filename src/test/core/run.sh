#!/bin/bash
# PostgreSQL's own suites with rose as the default access method.
#
#   src/test/core/run.sh [isolation] [regress]      (both without arguments)
#   src/test/core/run.sh --write [SUITE...]         print what differs, as lines for the list
#
# Which tests differ, and why, is in expected-differences beside this file. Fails if
# another test differs, one of the list differs otherwise or no longer does, or the
# server crashed, failed an assertion or reported an internal error (XX...).
#
# The suites come with PostgreSQL's source only. CORE_BUILD is a folder of
# ../source_build.sh with a build that has assertions (default: made in
# /var/tmp/rose-assert and kept there). CORE_AM=heap runs the suites on heap: that is the
# yardstick, with which only the tests of the list "no longer differ".
set -u

. "$(dirname "$0")/../cluster.sh"

HERE=$ROSE_ROOT/src/test/core
LIST=$HERE/expected-differences
CORE_BUILD=${CORE_BUILD:-/var/tmp/rose-assert}
CORE_AM=${CORE_AM:-rose}
WRITE=''
SUITES=()
PASSED=0
FAILED=0

for argument in "$@"; do
	case $argument in
		--write) WRITE=1 ;;
		isolation | regress) SUITES+=("$argument") ;;
		*) die "unknown suite \"$argument\"" ;;
	esac
done
[ ${#SUITES[@]} -gt 0 ] || SUITES=(isolation regress)

# result NAME [PROBLEM]: counts and prints one test.
result()
{
	if [ -z "${2:-}" ]; then
		PASSED=$((PASSED + 1))
	else
		FAILED=$((FAILED + 1))
		echo "not ok - $1: $2"
	fi
}

# expected SUITE/TEST: the number of differing lines that the list has; "-" for any.
expected() { awk -v test="$1" '$1 == test { print $2 }' "$LIST"; }

# different_lines OUT TEST: how many lines of the test's output differ.
different_lines()
{
	awk -v file="/results/$2.out" '
		/^diff / { mine = index($0, file) > 0 }
		mine && /^[-+]/ && !/^(---|\+\+\+) / { n++ }
		END { print n + 0 }' "$1/regression.diffs"
}

run_core()
{
	local suite=$1 out=$SCRATCH/$1 source=$CORE_BUILD/source program

	program=$source/src/test/$suite/pg_regress
	[ "$suite" = regress ] || program=$source/src/test/$suite/pg_isolation_regress
	as_pg mkdir -p "$out/results" "$out/testtablespace"
	rose_conf 'max_prepared_transactions = 10' 'max_locks_per_transaction = 128' 'fsync = off' \
		'max_worker_processes = 16' "log_line_prefix = '%m [%p] %e '" "default_table_access_method = '$CORE_AM'" | cluster_init "core_$suite"
	cluster_start "core_$suite"
	(
		cd "$source/src/test/$suite" &&
			as_pg env PGUSER=postgres "$program" --inputdir=. --outputdir="$out" --bindir="$PG_BIN" \
				--dlpath="$source/src/test/regress" --host="$SCRATCH" --port="$(cluster_port "core_$suite")" \
				--max-concurrent-tests=20 --load-extension=rose \
				--schedule="$([ "$suite" = regress ] && echo parallel_schedule || echo isolation_schedule)"
	) >"$SCRATCH/$suite.out" 2>&1 </dev/null
	touch "$out/regression.diffs"
	cluster_stop "core_$suite" || true
}

compare_core()
{
	local suite=$1 test verdict lines known

	while read -r test verdict; do
		known=$(expected "$suite/$test")
		lines=0
		[ "$verdict" = ok ] || lines=$(different_lines "$SCRATCH/$suite" "$test")
		if [ -n "$WRITE" ]; then
			[ "$verdict" = ok ] || printf '%s/%s\t%s\n' "$suite" "$test" "$lines"
		elif [ "$verdict" = ok ]; then
			result "$suite/$test" "${known:+no longer differs: take it off the list}"
		elif [ -z "$known" ]; then
			result "$suite/$test" "differs in $lines lines"
			awk -v file="/results/$test.out" '/^diff / { mine = index($0, file) > 0 } mine' \
				"$SCRATCH/$suite/regression.diffs" | head -n 40
		elif [ "$known" = - ] || [ "$known" = "$lines" ]; then
			result "$suite/$test"
		else
			result "$suite/$test" "differs in $lines lines, expected are $known"
		fi
	done < <(sed -nE 's/^(test| {4,}) *([^ ]+) +\.\.\. (ok|FAILED|failed).*/\2 \3/p' "$SCRATCH/$suite.out")
}

# What no difference excuses.
look_for_crashes()
{
	local suite=$1 log=$SCRATCH/core_$1.log found

	found=$(grep -E 'TRAP:|PANIC:|was terminated by signal|server process .* exited with exit code [^1]' "$log" | head -5)
	result "$suite: the server stood" "$found"
	# core's own suites raise a few internal errors on purpose, on heap, too
	found=$(grep -E ' XX... (ERROR|FATAL):' "$log" | grep -vE "$(core_internal_errors)" | head -5)
	result "$suite: no internal error" "$found"
}

core_internal_errors()
{
	grep -v '^#' "$HERE/internal-errors" | paste -sd'|'
}

finish()
{
	rose_cleanup
	[ -n "$WRITE" ] || echo "$PASSED passed, $FAILED failed"
}

trap finish EXIT
trap 'exit 130' INT TERM
"$ROSE_ROOT/src/test/source_build.sh" "$CORE_BUILD" || exit 1
# A copy, so that this tree keeps the build for the installed server.
PG_CONFIG=$CORE_BUILD/postgresql/bin/pg_config
export PG_CONFIG
scratch core
mkdir "$SCRATCH/rose"
tar -C "$ROSE_ROOT" --exclude=./.git --exclude='*.o' --exclude='*.so' -cf - . | tar -C "$SCRATCH/rose" -xf -
ROSE_ROOT=$SCRATCH/rose
rose_prepare
for suite in "${SUITES[@]}"; do
	[ -n "$WRITE" ] || echo "== $suite"
	run_core "$suite"
	if ! grep -qE '^(test| {4,}) *[^ ].* \.\.\. ' "$SCRATCH/$suite.out"; then
		tail -20 "$SCRATCH/$suite.out"
		result "$suite: ran" "no test ran"
		continue
	fi
	compare_core "$suite"
	[ -n "$WRITE" ] || look_for_crashes "$suite"
done
[ "$FAILED" = 0 ]
