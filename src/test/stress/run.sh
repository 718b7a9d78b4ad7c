#!/bin/bash
# Many sessions against invariants, beside everything that may disturb them.
#
#   src/test/stress/run.sh [--arena=MB] [--piece=SIZE] [--conf=SETTING]... [ARGUMENT...]
#   make stress ARGS="--seed=7 --seconds=600 --sessions=24 --arena=8"
#
# Makes a scratch cluster, runs the program there (README.md has its arguments)
# and removes the cluster; it is kept if something was wrong. Exit code 0 if all
# was well. With --engine=heap the same on heap: that is the program's yardstick.
# ROSE_PREPARED=1 says that rose is installed already.
set -u

. "$(dirname "${BASH_SOURCE[0]}")/../cluster.sh"

ARENA=8
PIECE=''
SETTINGS=()
ARGUMENTS=()
WORDS="$*"
for arg in "$@"; do
	case $arg in
		--arena=*) ARENA=${arg#*=} ;;
		--piece=*) PIECE=${arg#*=} ;;
		--conf=*) SETTINGS+=("${arg#*=}") ;;
		*) ARGUMENTS+=("$arg") ;;
	esac
done

finish()
{
	local status=$?

	[ "$status" = 0 ] || [ -z "$SCRATCH" ] || { ROSE_KEEP=1; echo "kept for a look: $SCRATCH (server log: $SCRATCH/stress.log)"; }
	rose_cleanup
	exit "$status"
}

# The settings of the cluster; the program reads the log by this prefix.
settings()
{
	local setting

	rose_conf "rose.memtable_size = '${ARENA}MB'" ${PIECE:+"rose.debug_piece_size = '$PIECE'"}
	cat <<-CONF
		max_connections = 200
		max_prepared_transactions = 150
		max_worker_processes = 20
		shared_buffers = 64MB
		fsync = off
		deadlock_timeout = 300ms
		autovacuum_naptime = 5s
		checkpoint_timeout = 30s
		log_checkpoints = off
		log_line_prefix = '%m [%p] %e|%b|%a|'
	CONF
	for setting in "${SETTINGS[@]}"; do
		echo "$setting"
	done
}

# Compiles the program, in the scratch folder.
build()
{
	# shellcheck disable=SC2046
	${CC:-gcc} -std=gnu99 -O1 -g -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers \
		-Wshadow -Wstrict-prototypes -Wdeclaration-after-statement -Wformat=2 -Wno-format-nonliteral -Wno-format-truncation ${WERROR--Werror} -D_GNU_SOURCE \
		-I"$("$PG_CONFIG" --includedir)" -o "$SCRATCH/stress.bin" "$ROSE_ROOT"/src/test/stress/*.c \
		-L"$("$PG_CONFIG" --libdir)" -Wl,-rpath,"$("$PG_CONFIG" --libdir)" -lpq || die "the stress program could not be built"
}

trap finish EXIT
trap 'exit 130' INT TERM
if [ -n "${ROSE_PREPARED:-}" ]; then
	PG_BIN=$("$PG_CONFIG" --bindir)
else
	rose_prepare
fi
scratch stress
build
settings | cluster_init stress
cluster_start stress
[ -n "$ROSE_STANDIN" ] || rose_create stress
# One test in TAP's eyes, for src/test/run.sh.
name="stress $WORDS"
if as_pg "$SCRATCH/stress.bin" --conninfo="$(cluster_conninfo stress)" --pg-ctl="$PG_BIN/pg_ctl" --data="$SCRATCH/stress" \
	--log="$SCRATCH/stress.log" --command="src/test/stress/run.sh $WORDS" "${ARGUMENTS[@]}"; then
	echo "ok 1 - $name"
else
	echo "not ok 1 - $name"
	exit 1
fi
