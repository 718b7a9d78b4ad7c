#!/bin/bash
# The tests with address and undefined behaviour sanitizers, and some under valgrind.
#
#   src/test/sanitize.sh [PART...] [NAME.pl ...]
#
#   unit        unit tests, sanitized, with half a million damaged pages
#   regress     the regression tests, with a sanitized rose.so in a server with assertions
#   isolation   the isolation tests, likewise
#   tap         TAP tests that crash, recover and apply, likewise; NAME.pl means others instead
#   vg-unit     the unit tests under valgrind, with a tenth of the repetitions
#   vg-regress  a short regression on a server that runs under valgrind, which finds
#               what is written behind a palloc'd chunk; address sanitizer does not
#
# No argument means all. The server is built from source (source_build.sh, CORE_BUILD: see
# core/run.sh): Debian's hangs with the sanitizers preloaded. VALGRIND_TESTS names other tests for
# vg-regress. The last line is "N passed, N failed".
set -u

. "$(dirname "$0")/cluster.sh"

CORE_BUILD=${CORE_BUILD:-/var/tmp/rose-assert}
TREE=$ROSE_ROOT
PASSED=0
FAILED=0
PARTS=()
TAP_FILES=(crash_local.pl crash_replica.pl repl_apply_cases.pl repl_value_formats.pl crash_stop_points.pl)
VALGRIND_TESTS=${VALGRIND_TESTS:-basic transactions keys no_key big_values copy cursors}
named=()

for argument in "$@"; do
	case $argument in
		unit | regress | isolation | tap | vg-unit | vg-regress) PARTS+=("$argument") ;;
		*.pl) named+=("$argument") ;;
		*) die "unknown part \"$argument\"" ;;
	esac
done
[ ${#named[@]} = 0 ] || { TAP_FILES=("${named[@]}"); PARTS+=(tap); }
[ ${#PARTS[@]} -gt 0 ] || PARTS=(unit regress isolation tap vg-unit vg-regress)

# part NAME COMMAND...: runs it, counts what its last line or its TAP says.
part()
{
	local name=$1 out=$SCRATCH/$1.out status good bad
	shift

	echo "== $name"
	"$@" </dev/null 2>&1 | tee "$out" | grep -E '^(not ok|# |-- [a-z_0-9]+: )|\.\.\. FAILED|ERROR: AddressSanitizer|runtime error:|Invalid (read|write)|uninitialised' | head -n 60
	status=${PIPESTATUS[0]}
	good=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1/p' "$out" | tail -1)
	bad=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\2/p' "$out" | tail -1)
	[ -n "$good" ] || { good=$(grep -cE '^(ok |.* \.\.\. ok )' "$out"); bad=$(grep -cE '^(not ok |.* \.\.\. FAILED)' "$out"); }
	if grep -qE 'AddressSanitizer|runtime error:' "$out" || { [ "$status" != 0 ] && [ "$bad" = 0 ]; }; then
		bad=$((bad + 1))
	fi
	[ "$bad" = 0 ] || ROSE_KEEP=1
	PASSED=$((PASSED + good))
	FAILED=$((FAILED + bad))
	echo "-- $name: $good passed, $bad failed, $SECONDS s since the start"
}

# A copy of the tree without what was built, so that this one keeps its build.
copy_tree()
{
	mkdir "$SCRATCH/$1"
	tar -C "$TREE" --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude='*.d' -cf - . | tar -C "$SCRATCH/$1" -xf -
}

# One suite of run.sh, or TAP files; what is built for the first is there for the next.
sanitized()
{
	local name=$1
	shift

	[ -d "$SCRATCH/sanitized" ] || copy_tree sanitized
	part "$name" env "PG_CONFIG=$PG_CONFIG" "TMPDIR=$SCRATCH" WERROR= PG_TEST_TIMEOUT_DEFAULT=600 \
		COPT='-fsanitize=address,undefined -fno-sanitize=alignment -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1 -g' \
		TEST_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
		"$SCRATCH/sanitized/src/test/run.sh" "$@"
}

# What pg_ctl starts in place of postgres. PostgreSQL's own suppressions are all there are.
valgrind_wrapper()
{
	cat >"$SCRATCH/postgres" <<-END
		#!/bin/bash
		exec valgrind --quiet --error-exitcode=128 --leak-check=no --gen-suppressions=no --trace-children=yes --track-origins=no \\
			--suppressions=$CORE_BUILD/source/src/tools/valgrind.supp --log-file=$SCRATCH/valgrind.%p.log $PG_BIN/postgres "\$@"
	END
	chmod +x "$SCRATCH/postgres"
}

valgrind_server()
{
	local pgxs

	copy_tree plain
	(ROSE_ROOT=$SCRATCH/plain rose_prepare)
	PG_BIN=$("$PG_CONFIG" --bindir)
	pgxs=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
	valgrind_wrapper
	rose_conf "rose.memtable_size = '32MB'" 'max_prepared_transactions = 10' 'fsync = off' | cluster_init valgrind
	as_pg "$PG_BIN/pg_ctl" -D "$SCRATCH/valgrind" -l "$SCRATCH/valgrind.log" -p "$SCRATCH/postgres" -w -t 600 start >/dev/null ||
		{ tail "$SCRATCH/valgrind.log"; die "the server did not start under valgrind"; }
	sql valgrind -c 'CREATE DATABASE regression TEMPLATE template0'
	as_pg "$PG_BIN/psql" -Xq -d "$(cluster_conninfo valgrind) dbname=regression" -c 'CREATE EXTENSION rose'
	mkdir "$SCRATCH/out"
	[ "$(id -u)" != 0 ] || chown -R postgres: "$SCRATCH/out" "$SCRATCH/plain"
	# shellcheck disable=SC2086
	part vg-regress as_pg env -C "$SCRATCH/out" "$pgxs/test/regress/pg_regress" --bindir="$PG_BIN" --inputdir="$SCRATCH/plain" \
		--outputdir="$SCRATCH/out" --dbname=regression --use-existing --host="$SCRATCH" \
		--port="$(cluster_port valgrind)" --user=postgres $VALGRIND_TESTS
	as_pg "$PG_BIN/pg_ctl" -D "$SCRATCH/valgrind" -m fast -w -t 300 stop >/dev/null
	if grep -q '^==' "$SCRATCH"/valgrind.*.log; then
		cat "$SCRATCH"/valgrind.*.log | head -n 80
		FAILED=$((FAILED + 1))
	fi
}

valgrind_unit()
{
	local program

	KEEP=$SCRATCH/unit "$TREE/src/test/unit/run.sh" 1 100 >/dev/null || die "the unit tests failed"
	for program in memtable gc picker forget retired; do
		part "vg-$program" valgrind --quiet --error-exitcode=1 --leak-check=no --fair-sched=yes "$SCRATCH/unit/$program"
	done
	part vg-unit valgrind --quiet --error-exitcode=1 --leak-check=no "$SCRATCH/unit/unit" 1 2000 10
}

finish()
{
	[ -z "${ROSE_KEEP:-}" ] || echo "kept for a look: $SCRATCH"
	rose_cleanup
	echo "$PASSED passed, $FAILED failed"
}

trap finish EXIT
trap 'exit 130' INT TERM
export BOOTSTRAP_WISHES=valgrind
"$ROSE_ROOT/src/test/source_build.sh" "$CORE_BUILD" || exit 1
PG_CONFIG=$CORE_BUILD/postgresql/bin/pg_config
export PG_CONFIG
"$ROSE_ROOT/src/test/bootstrap.sh" || exit 1
scratch sanitize
chmod 755 "$SCRATCH"
for name in "${PARTS[@]}"; do
	case $name in
		unit) part unit env SANITIZE=1 "$TREE/src/test/unit/run.sh" 1 500000 ;;
		regress | isolation) sanitized "$name" "$name" ;;
		tap) sanitized tap "${TAP_FILES[@]}" ;;
		vg-unit) valgrind_unit ;;
		vg-regress) valgrind_server ;;
	esac
done
[ "$FAILED" = 0 ]
