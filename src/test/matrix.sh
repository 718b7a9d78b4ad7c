#!/bin/bash
# Run the suites with several releases of PostgreSQL, one after the other.
#
#   src/test/matrix.sh [PG_CONFIG]...
#
# Without arguments: the pg_config programs that MATRIX names, or else those of Debian's packages that are installed.
# For each, a copy of the tree is built, warnings are errors, and tested by run.sh.
#
#   MATRIX_SUITES  what to run, as run.sh names it (default "unit regress isolation tap")
#   MATRIX_PERL    a folder with the modules PostgreSQL::Test for releases that come without them
#
# What fails is shown whole, and kept in ${TMPDIR:-/tmp}/rose-matrix-*.log. The last lines are a table in Markdown, one
# line a release.
set -u

. "$(dirname "$0")/cluster.sh"

MATRIX_SUITES=${MATRIX_SUITES:-unit regress isolation tap}
MATRIX_PERL=${MATRIX_PERL:-}
ROWS=()
FAILED=''

# What the release was built with, for people.
build_of()
{
	local config=$1 include assertions icu

	include=$("$config" --includedir-server)
	grep -qhE '^#define USE_ASSERT_CHECKING 1' "$include"/pg_config*.h && assertions='with assertions' || assertions='without assertions'
	grep -qhE '^#define USE_ICU 1' "$include"/pg_config*.h && icu='with ICU' || icu='without ICU'
	echo "$assertions, $icu, gcc $(gcc -dumpversion)"
}

# has_suite SUITE: can the release's packages run it?
has_suite()
{
	case $1 in
		regress) [ -x "$PGXS_SRC/test/regress/pg_regress" ] ;;
		isolation) [ -x "$PGXS_SRC/test/isolation/pg_isolation_regress" ] && [ -x "$PGXS_SRC/test/isolation/isolationtester" ] ;;
		tap) [ -f "$PGXS_SRC/test/perl/PostgreSQL/Test/Cluster.pm" ] || [ -n "$MATRIX_PERL" ] ;;
	esac
}

# run_one CONFIG SUITE: prints what the table says of it.
run_one()
{
	local config=$1 suite=$2 log=$SCRATCH/$RELEASE.$2.log result

	if ! has_suite "$suite"; then
		echo 'not to be had'
		return
	fi
	if PG_CONFIG=$config PERL5LIB="${PERL5LIB:-}${MATRIX_PERL:+:$MATRIX_PERL}" "$COPY/src/test/run.sh" "$suite" >"$log" 2>&1 </dev/null; then
		result=$(tail -n 1 "$log")
		echo "${result%% *}"
		return
	fi
	cp "$log" "${TMPDIR:-/tmp}/rose-matrix-$RELEASE-$suite.log"
	result=$(sed -n 's/^-- \(.*\): [0-9]* passed, [1-9][0-9]* failed.*/`\1`/p' "$log" | paste -sd' ')
	echo "$(tail -n 1 "$log") ($result)"
	return 1
}

# The tree without what was built of it, for another release.
copy_tree()
{
	COPY=$SCRATCH/tree.$RELEASE
	mkdir "$COPY"
	tar -C "$ROSE_ROOT" --exclude=./.git --exclude='*.o' --exclude='*.d' --exclude='*.so' --exclude='*.bc' \
		--exclude=./src/test/unit/build --exclude=./bench/results -cf - . | tar -C "$COPY" -xf -
}

try_release()
{
	local config=$1 suite result row

	RELEASE=$("$config" --version | sed -nE 's/^PostgreSQL ([^ ]+).*/\1/p')
	PGXS_SRC=$(dirname "$(dirname "$("$config" --pgxs)")")
	copy_tree
	row="| $RELEASE | $(build_of "$config") |"
	echo "== $RELEASE: build"
	if ! make -C "$COPY" -s -j"$(nproc)" PG_CONFIG="$config" WERROR=-Werror >"$SCRATCH/$RELEASE.build.log" 2>&1; then
		tail -n 20 "$SCRATCH/$RELEASE.build.log"
		ROWS+=("$row does not build |")
		FAILED=1
		return
	fi
	for suite in $MATRIX_SUITES; do
		echo "== $RELEASE: $suite"
		if ! result=$(run_one "$config" "$suite"); then
			FAILED=1
			cat "${TMPDIR:-/tmp}/rose-matrix-$RELEASE-$suite.log"
		fi
		echo "-- $RELEASE: $suite: $result"
		row+=" $result |"
	done
	ROWS+=("$row")
	rm -rf "$COPY"
}

[ $# -gt 0 ] || eval "set -- ${MATRIX:-/usr/lib/postgresql/*/bin/pg_config}"
trap rose_cleanup EXIT
trap 'exit 130' INT TERM
scratch matrix
for config in "$@"; do
	[ -x "$config" ] || die "there is no $config"
	try_release "$config"
done
# shellcheck disable=SC2086
printf '| release | built |%s\n' "$(printf ' %s |' $MATRIX_SUITES)"
# shellcheck disable=SC2086
printf '|---|---|%s\n' "$(printf -- '%.0s---|' $MATRIX_SUITES)"
printf '%s\n' "${ROWS[@]}"
[ -z "$FAILED" ]
