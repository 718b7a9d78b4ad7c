#!/bin/bash
# PostgreSQL's own suites with rose as the default access method.
#
#   src/test/core/run.sh [SUITE...]             all without arguments
#   src/test/core/run.sh --write [SUITE...]     print what differs, as lines for the list
#
# Suites are isolation, regress, contrib and modules (extensions whose tests make tables,
# but for amcheck and pageinspect, which take the pages of a rose index for btree's, as
# README.md says), pl (PL/pgSQL's own), subscription, consumer (the files of subscription with subscriptions of
# rose), and tap (other TAP files that make tables); contrib/NAME, modules/NAME, tap/NAME,
# subscription/FILE and consumer/FILE are one of them.
#
# Which tests differ, and why, is in expected-differences beside this file. Fails if
# another test differs, one of the list differs otherwise or no longer does, or the
# server crashed, failed an assertion or reported an internal error (XX...). In the list,
# "plans" is for tests that print other plans and nothing else, "order" for those that print
# the same lines in another order, plans aside.
#
# Statements that are refused leave publications behind in "publication", which
# would then keep other tests from updates: they are dropped after it.
#
# The suites come with PostgreSQL's source only. CORE_BUILD is a folder of
# ../source_build.sh with a build that has assertions (default: made in
# /var/tmp/rose-assert and kept there). CORE_AM=heap runs the suites on heap: that is the
# yardstick, with which only the tests of the list "no longer differ".
#
# Of src/test/recovery, what needs no queries on a standby is run.
set -u

. "$(dirname "$0")/../cluster.sh"
. "$(dirname "$0")/tap.sh"

HERE=$ROSE_ROOT/src/test/core
LIST=$HERE/expected-differences
CORE_BUILD=${CORE_BUILD:-/var/tmp/rose-assert}
CORE_AM=${CORE_AM:-rose}
CONTRIB='auto_explain bloom btree_gin btree_gist citext cube dblink dict_int dict_xsyn earthdistance file_fdw fuzzystrmatch
	hstore intarray isn lo ltree pg_freespacemap pg_stat_statements pg_surgery pg_trgm pg_visibility pg_walinspect pgcrypto
	pgstattuple postgres_fdw seg tablefunc test_decoding tsm_system_rows tsm_system_time unaccent'
MODULES='brin commit_ts delay_execution dummy_seclabel plsample snapshot_too_old spgist_name_ops test_custom_types
	test_ddl_deparse test_extensions test_oat_hooks test_parser test_pg_dump test_predtest test_rls_hooks unsafe_tests worker_spi'
TAP='contrib/auto_explain contrib/vacuumlo src/test/modules/libpq_pipeline src/test/modules/test_misc src/test/modules/commit_ts
	src/bin/pgbench src/bin/scripts
	src/test/recovery:012_subtransactions,013_crash_restart,014_unlogged_reinit,018_wal_optimize,022_crash_temp_files,023_pitr_prepared_xact,033_replay_tsp_drops,034_create_database,037_invalid_database'
WRITE=''
SUITES=()
PASSED=0
FAILED=0

for argument in "$@"; do
	case $argument in
		--write) WRITE=1 ;;
		isolation | regress | contrib | modules | pl | tap | subscription | consumer) SUITES+=("$argument") ;;
		contrib/* | modules/* | tap/* | subscription/* | consumer/*) SUITES+=("$argument") ;;
		*) die "unknown suite \"$argument\"" ;;
	esac
done
[ ${#SUITES[@]} -gt 0 ] || SUITES=(isolation regress contrib modules pl tap subscription consumer)

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
	difference "$1" "$2" | grep -cE '^[-+]'
}

# difference OUT TEST: the lines that differ, with their signs.
difference()
{
	awk -v file="/results/$2.out" '
		/^diff / { mine = index($0, file) > 0 }
		mine && /^[-+]/ && !/^(---|\+\+\+) /' "$1/regression.diffs"
}

# without_plans FILE: plans, whether EXPLAIN prints them or a function of the test's, are a word.
without_plans()
{
	awk '
		/^ *(QUERY PLAN|explain_[a-z_]+) *$/ { plan = 1; print "a plan"; next }
		plan && /^(\([0-9]+ rows?\))?$/ { plan = 0; next }
		!plan' "$1"
}

# difference_without_plans OUT TEST: the lines that differ then, with their signs.
difference_without_plans()
{
	local expected result

	read -r expected result < <(sed -nE "s|^diff -U3 ([^ ]+) ([^ ]*/results/$2\\.out)$|\\1 \\2|p" "$1/regression.diffs") || return
	diff -U0 <(without_plans "$expected") <(without_plans "$result") | tail -n +3 | grep -E '^[-+]'
	return 0
}

# kind_of_difference OUT TEST: "plans", "order" (plans aside), or nothing for any other.
kind_of_difference()
{
	local left

	left=$(difference_without_plans "$1" "$2") || return
	if [ -z "$left" ]; then
		echo plans
	elif cmp -s <(sed -n 's/^-//p' <<<"$left" | sort) <(sed -n 's/^+//p' <<<"$left" | sort); then
		echo order
	fi
}

# Drop what "publication" could not, as a test of its own behind it.
write_schedule()
{
	local source=$1 in=$2

	as_pg cp -rs "$source" "$in"
	as_pg rm "$in/parallel_schedule"
	as_pg tee "$in/sql/drop_publications.sql" >"$in/expected/drop_publications.out" <<-'SQL'
		DO $$
		DECLARE
			name name;
		BEGIN
			FOR name IN SELECT pubname FROM pg_publication LOOP
				EXECUTE format('DROP PUBLICATION %I', name);
			END LOOP;
		END $$;
	SQL
	sed 's/^test: .*\bpublication\b.*/&\ntest: drop_publications/' "$source/parallel_schedule" |
		as_pg tee "$in/parallel_schedule" >"$in/log"
}

# start_core CLUSTER [FILE]: with the settings of the file, too.
start_core()
{
	{
		rose_conf 'max_prepared_transactions = 10' 'max_locks_per_transaction = 128' 'fsync = off' 'wal_level = logical' \
			'max_worker_processes = 16' "log_line_prefix = '%m [%p] %d %e '" "default_table_access_method = '$CORE_AM'"
		[ -z "${2:-}" ] || sed -E "s/^(shared_preload_libraries) *= *'?([^']*)'?/\1 = 'rose, \2'/" "$2"
	} | cluster_init "$1"
	cluster_start "$1"
}

# run_core SUITE CLUSTER FOLDER PROGRAM ARGUMENT...
run_core()
{
	local suite=$1 cluster=$2 folder=$3 program=$4 out=$SCRATCH/out/$1/$(dirname "$4")
	shift 4

	as_pg mkdir -p "$out/results" "$out/testtablespace"
	(
		cd "$folder" &&
			as_pg env PGUSER=postgres "$CORE_BUILD/source/src/test/$program" --inputdir=. --outputdir="$out" --bindir="$PG_BIN" \
				--dlpath="$CORE_BUILD/source/src/test/regress" --host="$SCRATCH" --port="$(cluster_port "$cluster")" \
				--max-concurrent-tests=20 --load-extension=rose "$@"
	) >"$out/out" 2>&1 </dev/null
	touch "$out/regression.diffs"
	if grep -qE '^(test| {4,}) *[^ ].* \.\.\. ' "$out/out"; then
		compare_core "$suite" "$out"
	else
		tail -20 "$out/out"
		result "$suite: ran" "no test ran"
	fi
}

compare_core()
{
	local suite=$1 out=$2 test verdict lines kind known

	while read -r test verdict; do
		known=$(expected "$suite/$test")
		lines=0
		kind=''
		if [ "$verdict" != ok ]; then
			lines=$(different_lines "$out" "$test")
			kind=$(kind_of_difference "$out" "$test")
		fi
		if [ -n "$WRITE" ]; then
			[ "$verdict" = ok ] || printf '%s/%s\t%s\n' "$suite" "$test" "${kind:-$lines}"
		elif [ "$verdict" = ok ]; then
			result "$suite/$test" "${known:+no longer differs: take it off the list}"
		elif [ -z "$known" ]; then
			result "$suite/$test" "differs in $lines lines"
			awk -v file="/results/$test.out" '/^diff / { mine = index($0, file) > 0 } mine' \
				"$out/regression.diffs" | head -n 40
		elif [ "$known" = - ] || [ "$known" = "$lines" ] || [ "$known" = "$kind" ]; then
			result "$suite/$test"
		else
			result "$suite/$test" "differs in $lines lines${kind:+ ($kind)}, expected are $known"
			difference_without_plans "$out" "$test" | head -n 40
		fi
	done < <(sed -nE 's/^(test| {4,}) *([^ ]+) +\.\.\. (ok|FAILED|failed).*/\2 \3/p' "$out/out")
}

run_regress()
{
	start_core core_regress
	write_schedule "$CORE_BUILD/source/src/test/regress" "$SCRATCH/in"
	run_core regress core_regress "$SCRATCH/in" regress/pg_regress --schedule=./parallel_schedule
	look_for_crashes core_regress
}

run_isolation()
{
	start_core core_isolation
	run_core isolation core_isolation "$CORE_BUILD/source/src/test/isolation" isolation/pg_isolation_regress --schedule=./isolation_schedule
	look_for_crashes core_isolation
}

# variable_of FOLDER VARIABLE: what a makefile says.
variable_of()
{
	perl -0ne 's/\\\n/ /g; print $1 if /^'"$2"'\s*\+?=\s*(.*)$/m' "$1/Makefile"
}

# tests_of FOLDER VARIABLE: names of tests.
tests_of() { variable_of "$1" "$2" | sed 's/\$([^)]*)//g'; }

# options_of FOLDER VARIABLE: what else the makefile tells pg_regress.
options_of() { variable_of "$1" "$2" | grep -oE -- '--(load-extension|create-role)=[^ ]+'; }

# settings_of FOLDER: the file with settings that the tests ask for; nothing if none.
settings_of()
{
	sed -nE 's|.*--temp-config[= ]\$\(top_srcdir\)/([^ ]+).*|\1|p' "$1/Makefile" | head -n 1
}

# folder_of KIND/NAME
folder_of()
{
	case $1 in
		contrib/*) echo "$CORE_BUILD/source/$1" ;;
		pl/*) echo "$CORE_BUILD/source/src/$1/src" ;;
		*) echo "$CORE_BUILD/source/src/test/$1" ;;
	esac
}

# run_module KIND/NAME CLUSTER DATABASE: the tests of one extension.
run_module()
{
	local module=$1 cluster=$2 database=$3 folder tests

	folder=$(folder_of "$module")
	tests=$(tests_of "$folder" REGRESS)
	# shellcheck disable=SC2046,SC2086
	[ -z "${tests// /}" ] || run_core "$module" "$cluster" "$folder" regress/pg_regress \
		--dbname="$database" $(options_of "$folder" REGRESS_OPTS) $tests
	tests=$(tests_of "$folder" ISOLATION)
	# shellcheck disable=SC2046,SC2086
	[ -z "${tests// /}" ] || run_core "$module" "$cluster" "$folder" isolation/pg_isolation_regress \
		--dbname="iso_${module##*/}" $(options_of "$folder" ISOLATION_OPTS) $tests
}

# run_modules KIND NAME...: each extension in a database of its own, on one cluster;
# those that ask for settings have a cluster of their own, too.
run_modules()
{
	local kind=$1 cluster=core_$1_$2 name alone=()
	shift

	start_core "$cluster"
	for name in "$@"; do
		if [ -n "$(settings_of "$(folder_of "$kind/$name")")" ]; then
			alone+=("$name")
		else
			run_module "$kind/$name" "$cluster" "regress_$name"
		fi
	done
	look_for_crashes "$cluster"
	for name in "${alone[@]}"; do
		start_core "core_alone_$name" "$CORE_BUILD/source/$(settings_of "$(folder_of "$kind/$name")")"
		run_module "$kind/$name" "core_alone_$name" contrib_regression
		look_for_crashes "core_alone_$name"
	done
}

# run_tap_entry ENTRY: of TAP: a folder, and which of its files, if not all.
run_tap_entry()
{
	local folder=${1%%:*} files=() file

	[ "$folder" = "$1" ] || IFS=, read -ra files <<<"${1#*:}"
	for file in "${files[@]-}"; do
		run_tap "tap/${folder##*/}" "$CORE_BUILD/source/$folder" "$file"
	done
}

# What no difference excuses.
look_for_crashes()
{
	local cluster=$1 log=$SCRATCH/$1.log found

	cluster_stop "$cluster" || true
	[ -z "$WRITE" ] || return
	found=$(grep -E 'TRAP:|PANIC:|was terminated by signal|server process .* exited with exit code [^1]' "$log" | head -5)
	result "$cluster: the server stood" "$found"
	# core's own suites raise a few internal errors on purpose, on heap, too
	found=$(grep -E ' XX... (ERROR|FATAL):' "$log" | grep -vE "$(core_internal_errors)" | head -5)
	result "$cluster: no internal error" "$found"
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
export PGHOST=$SCRATCH				# for servers that connect to themselves
mkdir "$SCRATCH/rose"
tar -C "$ROSE_ROOT" --exclude=./.git --exclude='*.o' --exclude='*.so' -cf - . | tar -C "$SCRATCH/rose" -xf -
ROSE_ROOT=$SCRATCH/rose
HERE=$ROSE_ROOT/src/test/core		# which the servers' user can read
rose_prepare
for suite in "${SUITES[@]}"; do
	[ -n "$WRITE" ] || echo "== $suite"
	case $suite in
		regress) run_regress ;;
		isolation) run_isolation ;;
		# shellcheck disable=SC2086
		contrib) run_modules contrib $CONTRIB ;;
		# shellcheck disable=SC2086
		modules) run_modules modules $MODULES ;;
		pl) run_modules pl plpgsql ;;
		tap) for entry in $TAP; do run_tap_entry "$entry"; done ;;
		tap/*) for entry in $TAP; do [[ ${entry%%:*} != */${suite#*/} ]] || run_tap_entry "$entry"; done ;;
		subscription | consumer) run_tap "$suite" "$CORE_BUILD/source/src/test/subscription" ;;
		subscription/* | consumer/*) run_tap "${suite%%/*}" "$CORE_BUILD/source/src/test/subscription" "${suite#*/}" ;;
		*/*) run_modules "${suite%%/*}" "${suite#*/}" ;;
	esac
done
[ "$FAILED" = 0 ]
