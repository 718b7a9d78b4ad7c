#!/bin/bash
# Run every test of rose: unit, regression, isolation, stress, TAP, Debian packages.
#
#   src/test/run.sh [unit] [regress] [isolation] [stress] [tap] [package] [crash] [soak] [NAME.pl ...]
#
# No argument means all but crash and soak. Installs what is missing, builds and installs
# rose, then tests a copy of the tree in a scratch folder that the server's user
# owns (servers do not run as root). On a failure the relevant logs are printed
# and the copy is kept, and what failed is said once more at the end, in few lines,
# for who sees the end only. The last line is always "N passed, N failed".
#
# ROSE_STANDIN=1 runs the same tests on heap (see standin.sql): that is how
# expected output is checked, for a rose table must answer what heap answers.
# TEST_PRELOAD names libraries to preload into the servers (sanitize.sh).
# TEST_JOBS says how many TAP files run at a time (default: one for each core, and
# one more, for they wait a lot). The other suites are run beside them, each in the place of
# one. What they say is shown when they have ended.
# ROSE_SEED=random gives tests that make up what they do other seeds each time, ROSE_SEED=N those of N. Without it
# the same is run as last time, so whoever tries a change sees what the change does.
# EXTRA_CONF names a file of further settings for the test clusters.
set -u

. "$(dirname "$0")/cluster.sh"

PASSED=0
FAILED=0
KEEP=''
COPY=''
MOUNTED=''
DIGEST=''						# what failed, a few lines for each suite
LOG_TAIL=60
DIGEST_LINES=24
TEST_JOBS=${TEST_JOBS:-$(($(nproc) + 1))}
LONG_FILES=(read_columns.pl crash_replica.pl sql_differential.pl repl_indexes.pl ddl_altered_undone.pl crash_stop_points.pl
	store_tail_segments.pl read_long_reader.pl sql_indexes.pl temp_differential.pl tree_index_random.pl scan_types.pl repl_upstream_ddl.pl repl_disturbed.pl
	scan_replica.pl scan_group_tapes.pl)
# TAP files that wait for most of their time, for what a server does in seconds and minutes: one of them runs beside the others
WAITING_FILES=(worker_left_merges.pl merge_shared_pass.pl worker_rests.pl tree_idle_tables.pl repl_idle_locks.pl worker_for_all.pl worker_helpers.pl worker_other_order.pl repl_stats.pl
	repl_epoch_in_flight.pl repl_on_error.pl repl_pause.pl worker_ends.pl worker_pauses.pl worker_small_tables.pl repl_monitor_hangs.pl repl_lag.pl
	repl_verify.pl repl_durability.pl repl_locked_requests.pl repl_upstream_identity.pl repl_copy.pl repl_schema_changes.pl repl_copy_new_file.pl room_no_workers.pl repl_copy_beside.pl)
declare -A RUNNING=()			# TAP files and suites that run beside this script: name by process
BESIDE=()						# suites that wait for that

finish()
{
	tap_end
	[ -z "$MOUNTED" ] || umount -l "$MOUNTED"
	rose_cleanup
	[ -z "$KEEP" ] || echo "kept for a look: $COPY"
	[ -z "$DIGEST" ] || head -n $DIGEST_LINES <<<"${DIGEST%$'\n'}"
	echo "$PASSED passed, $FAILED failed"
}

# digest SUITE OUTPUT STATUS: the tests of OUTPUT that failed, each with the start of what is said
# behind it; where none is named, why it died, or what was said last. Before that the seeds by which it can be
# had again (seed_random in RoseTest.pm), and the start of what was first said about one: the first difference, mostly.
digest()
{
	local lines seeds first

	lines=$(awk '/^not ok |^#   Failed test |\.\.\. (FAILED|failed)/ { left = 7 } /^ok |\.\.\. ok/ { left = 0 } left-- > 0 { print substr($0, 1, 160) }' "$2")
	# one that died has said why in its log
	[ -n "$lines" ] || lines=$(grep -hE 'ERROR|error running|died|timed out|timeout' "$COPY/tmp_check/log/regress_log_$1" 2>/dev/null | tail -n 4 | cut -c1-240)
	[ -n "$lines" ] || lines=$(grep -v '^$' "$2" | tail -n 4 | cut -c1-160)
	seeds=$(grep -oE '^# [A-Z_]*SEED=[0-9]+$' "$2" | head -n 4 | tr -d '#\n')
	first=$(awk '!seen && /^# .*SEED=[0-9]+[^0-9]/ { seen = 1; left = 3 } left > 0 { print substr($0, 1, 300); left-- }' "$2")
	DIGEST+="failed: $1 (exit status $3)${seeds:+,$seeds}"$'\n'${first:+$first$'\n'}$lines$'\n'
}

# tally SUITE OUTPUT STATUS: counts the results that OUTPUT lists, in the formats
# of TAP and of pg_regress 15 ("test x ... ok") and later ("ok 1 - x").
tally()
{
	local suite=$1 output=$2 status=$3 good bad

	good=$(grep -cE '^ok [0-9]+|^(test| {4,}) *[^ ].* \.\.\. ok( |$)' "$output")
	bad=$(grep -cE '^not ok [0-9]+|^(test| {4,}) *[^ ].* \.\.\. (FAILED|failed)' "$output")
	if [ "$status" = 0 ] && [ "$good$bad" = 00 ] && grep -q ' \.\. skipped: ' "$output"; then
		echo "-- $suite: skipped, $(sed -n 's/.* \.\. skipped: //p' "$output")"
		return
	fi
	# A suite that failed without naming a test, or that ran nothing and does not say why, failed.
	if [ "$bad" = 0 ] && { [ "$status" != 0 ] || [ "$good" = 0 ]; }; then
		bad=1
	fi
	PASSED=$((PASSED + good))
	FAILED=$((FAILED + bad))
	echo "-- $suite: $good passed, $bad failed, $SECONDS s since the start"
	[ "$bad" = 0 ] || { digest "$suite" "$output" "$status"; KEEP=1; ROSE_KEEP=1; return 1; }
}

# suite_output COMMAND...: run in the copy, as the servers' user.
suite_output()
{
	as_pg env -C "$COPY" ${TEST_PRELOAD:+"LD_PRELOAD=$TEST_PRELOAD" "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0"} "$@" </dev/null 2>&1
}

# run_suite SUITE COMMAND...: run in the copy, show and count the results.
run_suite()
{
	local suite=$1
	shift

	echo "== $suite"
	suite_output "$@" | tee "$SCRATCH/$suite.out"
	tally "$suite" "$SCRATCH/$suite.out" "${PIPESTATUS[0]}"
}

# A pg_regress run of its own cluster or, for the stand-in, of one prepared here.
# regress_suite SUITE PROGRAM INPUTDIR TEST...
regress_suite()
{
	local suite=$1 program=$2 inputdir=$3 out=$COPY/out_$1 conf=$COPY/src/test/test.conf connect
	shift 3

	as_pg mkdir -p "$out"
	if [ -n "$ROSE_STANDIN" ]; then
		cluster_init "$suite" <"$conf"
		cluster_start "$suite"
		sql "$suite" -c "CREATE DATABASE regression TEMPLATE template0"
		as_pg "$PG_BIN/psql" -Xq -v ON_ERROR_STOP=1 -d "$(cluster_conninfo "$suite") dbname=regression" \
			-f "$COPY/src/test/standin.sql"
		connect="--use-existing --host=$SCRATCH --port=$(cluster_port "$suite") --user=postgres"
	else
		connect="--encoding=UTF8 --no-locale --temp-instance=$out/instance --temp-config=$conf --load-extension=rose"
	fi
	# shellcheck disable=SC2086
	if ! run_suite "$suite" "$program" --bindir="$PG_BIN" --inputdir="$inputdir" \
		--outputdir="$out" --dbname=regression $connect "$@"; then
		[ ! -f "$out/regression.diffs" ] || cat "$out/regression.diffs"
		DIGEST+=$(grep '^[-+]' "$out/regression.diffs" 2>/dev/null | head -n 8 | cut -c1-160)$'\n'
		echo "-- server log"
		tail -n $LOG_TAIL "$out/log/postmaster.log" "$SCRATCH/$suite.log" 2>/dev/null
	fi
	[ -z "$ROSE_STANDIN" ] || cluster_stop "$suite"
}

unit_tests()
{
	if [ -n "$ROSE_STANDIN" ]; then
		return
	fi
	run_suite house src/test/test_house.pl
	run_suite packaging src/test/test_package.pl
	run_suite unit src/test/unit/run.sh
	run_suite bootstrap src/test/test_bootstrap.sh
	run_suite cgroup src/test/test_cgroup.sh
}

regress_tests()
{
	regress_suite regress "$PGXS_SRC/test/regress/pg_regress" "$COPY" --schedule="$COPY/sql/schedule"
}

isolation_tests()
{
	local specs

	specs=$(cd "$COPY/src/test/isolation/specs" && ls -- *.spec | sed 's/\.spec$//')
	# heap has no stop points
	[ -z "$ROSE_STANDIN" ] || specs=$(grep -v '^stop_' <<<"$specs")
	# shellcheck disable=SC2086
	regress_suite isolation "$PGXS_SRC/test/isolation/pg_isolation_regress" \
		"$COPY/src/test/isolation" $specs
}

# Half a minute of it; STRESS_ARGS replaces the arguments (stress/README.md). The
# seed is another one each time, and is shown.
stress_tests()
{
	local args=${STRESS_ARGS:---seed=$RANDOM --seconds=20 --sessions=16}

	[ -z "$ROSE_STANDIN" ] || args="$args --engine=heap"
	# shellcheck disable=SC2086
	run_suite stress env ROSE_PREPARED=1 "TMPDIR=$COPY" "ROSE_STANDIN=$ROSE_STANDIN" "PATH=$PG_BIN:$PATH" \
		src/test/stress/run.sh $args
}

# with_tap PATH COMMAND...: COMMAND, with what one TAP file of the copy is to be run by. Clusters
# are in UTF-8, whatever the machine has: collations of ICU need it.
with_tap()
{
	local file=$1
	shift

	"$@" env -u LC_ALL -u LC_CTYPE -u LC_COLLATE LANG=C.UTF-8 \
		"TESTDIR=$COPY" "TESTDATADIR=$COPY/tmp_check" "TESTLOGDIR=$COPY/tmp_check/log" \
		"PATH=$PG_BIN:$PATH" "PG_REGRESS=$PGXS_SRC/test/regress/pg_regress" \
		"PERL5LIB=$PGXS_SRC/test/perl:$COPY/src/test/perl:$COPY/$(dirname "$file")" "TEMP_CONFIG=$COPY/src/test/test.conf" \
		"ROSE_STANDIN=$ROSE_STANDIN" "ROSE_INITDB=$COPY/initdb" PERL_HASH_SEED=0 PG_TEST_TIMEOUT_DEFAULT="${PG_TEST_TIMEOUT_DEFAULT:-120}" \
		prove --verbose --timer "$file"
}

# tap_file PATH: one TAP file by itself, shown while it runs.
tap_file()
{
	local base

	base=$(basename "$1" .pl)
	with_tap "$1" run_suite "$base" || tap_logs "$base"
}

# tap_start PATH: one TAP file beside others, in a process group of its own.
tap_start()
{
	local base

	base=$(basename "$1" .pl)
	set -m
	with_tap "$1" suite_output >"$SCRATCH/$base.out" &
	RUNNING[$!]=$base
	set +m
}

# suite_start SUITE: another suite beside TAP files. It counts for itself, and says at its end how much.
suite_start()
{
	local suite=$1

	set -m
	(
		PASSED=0 FAILED=0 DIGEST=''
		"${suite}_tests"
		printf '%s\n' "$PASSED" "$FAILED" "${DIGEST%$'\n'}" >"$SCRATCH/$suite.counts"
	) >"$SCRATCH/${suite}_beside.out" 2>&1 &
	RUNNING[$!]="suite $suite"
	set +m
}

# suite_collect SUITE: what it says, and what it counted.
suite_collect()
{
	local suite=$1 counts

	cat "$SCRATCH/${suite}_beside.out"
	if ! mapfile -t counts <"$SCRATCH/$suite.counts"; then
		counts=(0 1 "failed: $suite ended before its tests did")
	fi
	PASSED=$((PASSED + counts[0]))
	FAILED=$((FAILED + counts[1]))
	[ "${counts[1]}" != 0 ] || return 0
	DIGEST+=$(printf '%s\n' "${counts[@]:2}")$'\n'
	KEEP=1
	ROSE_KEEP=1
}

# Wait for the TAP file or suite that ends next, show and count its results.
tap_collect()
{
	local pid base status

	wait -n -p pid "${!RUNNING[@]}"
	status=$?
	base=${RUNNING[$pid]}
	unset "RUNNING[$pid]"
	case $base in
		suite\ *)
			suite_collect "${base#suite }"
			return
			;;
	esac
	echo "== $base"
	cat "$SCRATCH/$base.out"
	tally "$base" "$SCRATCH/$base.out" "$status" || tap_logs "$base"
}

# End the TAP files and suites that still run, and the servers that they leave.
tap_end()
{
	local pid pidfile

	for pid in "${!RUNNING[@]}"; do
		kill -- "-$pid" 2>/dev/null
	done
	for pid in "${!RUNNING[@]}"; do
		for _ in {1..300}; do
			kill -0 -- "-$pid" 2>/dev/null || break
			sleep 0.1
		done
	done
	[ ${#RUNNING[@]} -gt 0 ] || return 0
	for pidfile in "$COPY"/tmp_check/*/pgdata/postmaster.pid "$COPY"/out_*/instance/data/postmaster.pid; do
		[ ! -f "$pidfile" ] || as_pg "$PG_BIN/pg_ctl" -D "${pidfile%/*}" -m immediate -w stop >/dev/null 2>&1
	done
}

# What TAP files copy instead of doing it each (RoseTest.pm, init_node).
initdb_once()
{
	local kind

	[ ! -d "$COPY/initdb" ] || return 0
	for kind in rose upstream; do
		as_pg env -u LC_ALL -u LC_CTYPE -u LC_COLLATE LANG=C.UTF-8 \
			"$PG_BIN/initdb" -D "$COPY/initdb/$kind" -A trust -N >"$SCRATCH/initdb.out" 2>&1 || { cat "$SCRATCH/initdb.out" >&2; die "initdb failed"; }
	done
}

# The path of a TAP file, in the copy.
tap_path()
{
	local file

	file=src/test/t/$(basename "$1" .pl).pl
	[ -f "$COPY/$file" ] || file=src/test/crash/$(basename "$1")
	echo "$file"
}

tap_waits()
{
	[[ " ${WAITING_FILES[*]} " == *" $(basename "$1" .pl).pl "* ]]
}

# Run TAP files beside each other: TEST_JOBS of those that are in working, suites of BESIDE among them, and one of
# those in waiting, or more when no others are left.
tap_beside()
{
	local nwaiting base

	while :; do
		nwaiting=0
		for base in "${RUNNING[@]}"; do
			! tap_waits "$base" || nwaiting=$((nwaiting + 1))
		done
		if [ ${#waiting[@]} -gt 0 ] && { [ $nwaiting = 0 ] || [ ${#working[@]} = 0 ]; } && [ ${#RUNNING[@]} -le "$TEST_JOBS" ]; then
			tap_start "$(tap_path "${waiting[0]}")"
			waiting=("${waiting[@]:1}")
		elif [ ${#BESIDE[@]} -gt 0 ] && [ $((${#RUNNING[@]} - nwaiting)) -lt "$TEST_JOBS" ]; then
			suite_start "${BESIDE[0]}"
			BESIDE=("${BESIDE[@]:1}")
		elif [ ${#working[@]} -gt 0 ] && [ $((${#RUNNING[@]} - nwaiting)) -lt "$TEST_JOBS" ]; then
			tap_start "$(tap_path "${working[0]}")"
			working=("${working[@]:1}")
		elif [ ${#RUNNING[@]} -gt 0 ]; then
			tap_collect
		else
			break
		fi
	done
}

tap_tests()
{
	local files=("$@") file first working=() waiting=()

	initdb_once
	for file in "${files[@]}"; do
		[ -f "$COPY/src/test/t/$(basename "$file" .pl).pl" ] || small_disk
	done
	if [ ${#files[@]} = 0 ]; then
		# the longest ones first, so that none has the machine for itself at the end
		first=("${WAITING_FILES[@]}" "${LONG_FILES[@]}")
		mapfile -t files < <(printf '%s\n' "${first[@]}" && cd "$COPY/src/test/t" &&
			printf '%s\n' *.pl | grep -vxF "$(printf '%s\n' "${first[@]}")")
	fi
	if [ ${#files[@]} = 1 ] || [ "$TEST_JOBS" = 1 ]; then
		for file in "${files[@]}"; do
			tap_file "$(tap_path "$file")"
		done
		return
	fi
	for file in "${files[@]}"; do
		if tap_waits "$file"; then waiting+=("$file"); else working+=("$file"); fi
	done
	tap_beside
}

# Debian packages, where the tools for them are there; the servers are those that these packages are for.
package_tests()
{
	[ -n "$ROSE_STANDIN" ] || run_suite package src/test/package.sh
}

# A file system that is soon full, in CRASH_SMALL_DISK, if this user may mount one.
small_disk()
{
	local dir=$COPY/small_disk

	[ -z "${CRASH_SMALL_DISK:-}" ] || return 0
	mkdir -p "$dir"
	if mount -t tmpfs -o size=24m,mode=1777 none "$dir" 2>/dev/null; then
		MOUNTED=$dir
		export CRASH_SMALL_DISK=$dir
	fi
}

# What "make crash-test" runs: CRASH_CYCLES and more, see crash/README.md.
crash_tests()
{
	local file

	initdb_once
	small_disk
	for file in "$COPY"/src/test/crash/*.pl; do
		tap_file "src/test/crash/$(basename "$file")"
	done
}

# The ends of a TAP test's own log and of its servers' logs, latest last.
tap_logs()
{
	local log

	# shellcheck disable=SC2045
	for log in $(ls -tr "$COPY/tmp_check/log/"*"$1"* 2>/dev/null); do
		echo "-- ${log##*/}"
		tail -n $LOG_TAIL "$log"
	done
}

# Builds the tests' half of stop points (util/rose_stop_point.h) in the copy, and
# has the test clusters load it from there: it is not installed.
stop_points()
{
	local dir=$COPY/src/test/stop_points

	if ! make -C "$dir" all >"$SCRATCH/stop_points.out" 2>&1; then
		cat "$SCRATCH/stop_points.out" >&2
		die "the stop points of the tests could not be built"
	fi
	sed -i "s/^shared_preload_libraries = 'rose'/shared_preload_libraries = 'rose,rose_stop_points'/" "$COPY/src/test/test.conf"
	echo "dynamic_library_path = '$dir:$COPY/src/test/server_unit:$COPY/src/test/server_trees:\$libdir'" >>"$COPY/src/test/test.conf"
}

# Builds the unit tests that need a server, from the copy's own objects, and what reaches trees below
# SQL; TAP tests load them.
server_unit()
{
	local dir

	for dir in server_unit server_trees; do
		if ! make -C "$COPY/src/test/$dir" all >"$SCRATCH/$dir.out" 2>&1; then
			cat "$SCRATCH/$dir.out" >&2
			die "the library $dir of the tests could not be built"
		fi
	done
}

SUITES=()
TAP_FILES=()
for arg in "$@"; do
	case $arg in
		unit | regress | isolation | stress | tap | package | crash | soak) SUITES+=("$arg") ;;
		*.pl) TAP_FILES+=("$arg") ;;
		*) die "unknown suite \"$arg\"" ;;
	esac
done
[ ${#TAP_FILES[@]} = 0 ] || SUITES+=(tap)
[ ${#SUITES[@]} -gt 0 ] || SUITES=(unit regress isolation stress tap package)

trap finish EXIT
trap 'exit 130' INT TERM
FAILED=1    # until the preparation is done
rose_prepare
PGXS_SRC=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
scratch test
COPY=$SCRATCH/rose
mkdir "$COPY"
tar -C "$ROSE_ROOT" --exclude=./.git -cf - . | tar -C "$COPY" -xf -
if [ -n "$ROSE_STANDIN" ]; then
	sed -i '/^shared_preload_libraries/d' "$COPY/src/test/test.conf"
	# heap refuses other things, has no views of rose's, and other plans
	sed -i '/^test: \(errors\|views\|small_tables\)$/d' "$COPY/sql/schedule"
fi
[ -z "$ROSE_STANDIN" ] && stop_points
[ -z "$ROSE_STANDIN" ] && server_unit
[ -z "${EXTRA_CONF:-}" ] || cat "$EXTRA_CONF" >>"$COPY/src/test/test.conf"
[ "$(id -u)" != 0 ] || chown -R postgres: "$COPY"
FAILED=0

# With many TAP files to run, the suites that keep one core busy are run beside them, the longest ones first. Packages
# are made of the copy, so nobody else may write to it.
if [ "$TEST_JOBS" -gt 1 ] && [ ${#TAP_FILES[@]} = 0 ] && [[ " ${SUITES[*]} " == *' tap '* ]]; then
	for suite in stress regress unit isolation; do
		[[ " ${SUITES[*]} " != *" $suite "* ]] || BESIDE+=("$suite")
	done
fi

begun=" ${BESIDE[*]} "
for suite in "${SUITES[@]}"; do
	[[ "$begun" != *" $suite "* ]] || continue
	case $suite in
		unit | regress | isolation | stress | package) "${suite}_tests" ;;
		crash) crash_tests ;;
		soak) initdb_once; tap_file src/test/soak/soak.pl ;;
		tap) tap_tests "${TAP_FILES[@]}" ;;
	esac
done
[ "$FAILED" = 0 ]
