#!/bin/bash
# Watch a pgbench primary replicate into rose tables.
#
# Starts an upstream and a replica in a scratch folder, copies pgbench's tables
# into rose tables, runs pgbench for 30 seconds with one line a second, and
# compares all contents at the end. Leaves nothing behind, also on Ctrl-C.
#
#   DEMO_SCALE    pgbench scale, default 10 (1,000,000 accounts)
#   DEMO_SECONDS  how long pgbench runs, default 30
#   DEMO_CLIENTS  pgbench clients, default 2
set -eu

. "$(dirname "$0")/cluster.sh"

SCALE=${DEMO_SCALE:-10}
DURATION=${DEMO_SECONDS:-30}
CLIENTS=${DEMO_CLIENTS:-2}
TABLES='pgbench_accounts pgbench_branches pgbench_tellers pgbench_history'
PGBENCH=''

if [ -t 1 ]; then
	BOLD=$'\e[1m' DIM=$'\e[2m' GREEN=$'\e[32m' RED=$'\e[31m' PLAIN=$'\e[0m'
else
	BOLD='' DIM='' GREEN='' RED='' PLAIN=''
fi

finish()
{
	local status=$?

	trap - EXIT INT TERM
	[ -z "$PGBENCH" ] || kill "$PGBENCH" 2>/dev/null || true
	if [ $status != 0 ] && [ $status != 130 ] && [ -n "$SCRATCH" ]; then
		tail -n 20 "$SCRATCH"/*.log 2>/dev/null || true
	fi
	[ -z "$SCRATCH" ] || echo "${DIM}stopping both servers, removing $SCRATCH${PLAIN}"
	rose_cleanup
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

title() { printf '\n%s%s%s\n' "$BOLD" "$*" "$PLAIN"; }

# with_commas NUMBER
with_commas() { sed -E ':a; s/^(-?[0-9]+)([0-9]{3})/\1,\2/; ta' <<<"$1"; }

# step TEXT COMMAND...: runs the command and says how long it took.
step()
{
	local text=$1 start
	shift
	printf '  %-52s' "$text"
	start=$(now)
	"$@"
	printf '%6s s\n' "$(calc "$(now) - $start" %.1f)"
}

total_size() { echo "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relname IN ('${TABLES// /\',\'}')"; }

# What the replica has in memory only.
memtable_size() { echo "SELECT coalesce(sum(bytes), 0) FROM rose.stat_components WHERE kind = 'memtable'"; }

start_upstream()
{
	cluster_init upstream <<-CONF
		wal_level = logical
		shared_buffers = 256MB
		max_wal_size = 2GB
		synchronous_commit = off
	CONF
	cluster_start upstream
}

start_replica()
{
	{
		rose_conf
		cat <<-CONF
			shared_buffers = 256MB
			max_wal_size = 2GB
			max_worker_processes = 16
		CONF
	} | cluster_init replica
	cluster_start replica
	rose_create replica
}

fill_upstream()
{
	as_pg "$PG_BIN/pgbench" -i -q -s "$SCALE" "$(cluster_conninfo upstream)" >"$SCRATCH/init.log" 2>&1
	sql upstream -c "CREATE PUBLICATION demo FOR TABLE ${TABLES// /, }"
}

# The upstream's own table definitions, with another access method.
create_tables()
{
	as_pg "$PG_BIN/pg_dump" -s --no-publications -t 'pgbench_*' -d "$(cluster_conninfo upstream)" |
		sed 's/^SET default_table_access_method = heap/SET default_table_access_method = rose/' |
		sql replica >/dev/null
}

subscribe()
{
	sql replica -o /dev/null -c "SELECT rose.create_subscription('demo', '$(cluster_conninfo upstream)', ARRAY['demo'])" \
		-c "SELECT rose.wait_for_sync('demo', 600)"
}

# One line: what happened in the last second.
show_second()
{
	local second=$1 tps state lag_bytes lag_ms changes rows heap rose memory

	tps=$(sed -nE 's/^progress: [0-9.]+ s, ([0-9]+).*/\1/p' "$SCRATCH/pgbench.log" | tail -1)
	IFS='|' read -r state lag_bytes lag_ms changes rows rose memory < <(sql replica -c "
		SELECT state, coalesce(lag_bytes, 0), coalesce(lag_ms, 0)::bigint, inserts + updates + deletes,
			(SELECT count(*) FROM pgbench_history), ($(total_size)), ($(memtable_size))
		FROM rose.stat_subscription WHERE subname = 'demo'")
	heap=$(sql upstream -c "$(total_size)")
	printf '  %4s s  %8s tps  %9s /s  %9s %7s ms  %12s  %12s  %12s  %14s\n' "$second" "$(with_commas "${tps:-0}")" \
		"$(with_commas $((changes - LAST_CHANGES)))" "$(human "$lag_bytes")" "$lag_ms" "$(with_commas "$rows")" \
		"$(human "$heap")" "$(human "$rose")" "$(human "$memory")"
	LAST_CHANGES=$changes
	[ "$state" != error ] || die "$(sql replica -c "SELECT last_error FROM rose.stat_subscription")"
}

run_pgbench()
{
	local second=0 start

	# Memory is not room saved or lost: what it holds goes to disk, compressed, with the next spill.
	printf '%s  %6s  %12s  %12s  %20s  %12s  %12s  %12s  %14s%s\n' "$DIM" time upstream applied 'lag        ' 'history rows' 'heap on disk' 'rose on disk' 'rose in memory' "$PLAIN"
	LAST_CHANGES=$(sql replica -c "SELECT inserts + updates + deletes FROM rose.stat_subscription WHERE subname = 'demo'")
	as_pg "$PG_BIN/pgbench" -n -c "$CLIENTS" -T "$DURATION" -P 1 "$(cluster_conninfo upstream)" >"$SCRATCH/pgbench.log" 2>&1 &
	PGBENCH=$!
	start=$(now)
	# pgbench reports a second just after it has passed.
	while [ $second -lt "$DURATION" ] && kill -0 $PGBENCH 2>/dev/null; do
		second=$((second + 1))
		sleep "$(calc "(w = $start + $second + 0.1 - $(now)) > 0 ? w : 0")"
		show_second $second
	done
	wait $PGBENCH || die "pgbench failed: $(tail -3 "$SCRATCH/pgbench.log")"
	PGBENCH=''
}

catch_up()
{
	sql replica -o /dev/null -c "SELECT rose.wait_for_lsn('demo', '$(sql upstream -c 'SELECT pg_current_wal_flush_lsn()')', 600)"
}

merge_all()
{
	local table

	for table in $TABLES; do
		sql replica -o /dev/null -c "SELECT rose.merge('$table')"
	done
}

# The sums that pgbench keeps equal, read on the replica.
check_invariant()
{
	local accounts tellers branches history

	IFS='|' read -r accounts tellers branches history < <(sql replica -c "
		SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),
			(SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)")
	printf '  accounts %s = tellers %s = branches %s = history %s' "$(with_commas "$accounts")" \
		"$(with_commas "$tellers")" "$(with_commas "$branches")" "$(with_commas "$history")"
	verdict "$([ "$accounts" = "$tellers" ] && [ "$tellers" = "$branches" ] && [ "$branches" = "$history" ] && echo yes)"
}

# A hash over all rows of each table, both sides.
check_contents()
{
	local table here there query

	for table in $TABLES; do
		query="SELECT count(*) || ' ' || coalesce(md5(string_agg(h, '' ORDER BY h)), '-') FROM (SELECT md5(t::text) AS h FROM $table t) s"
		there=$(sql upstream -c "$query")
		here=$(sql replica -c "$query")
		printf '  %-18s %11s rows  %s' "$table" "$(with_commas "${here%% *}")" "${here#* }"
		verdict "$([ "$here" = "$there" ] && echo yes)"
	done
}

verdict()
{
	if [ -n "$1" ]; then
		printf '  %sequal%s\n' "$GREEN" "$PLAIN"
	else
		printf '  %sDIFFERENT%s\n' "$RED" "$PLAIN"
		DIFFERENT=1
	fi
}

DIFFERENT=''
echo "${BOLD}rose: a live PostgreSQL, replicated into compressed log-structured tables${PLAIN}"
rose_prepare
scratch demo

title 'Setting up'
step 'upstream: an ordinary cluster' start_upstream
step "pgbench -i: $(with_commas $((SCALE * 100000))) accounts" fill_upstream
step 'replica: a cluster with rose' start_replica
step 'the same four tables, USING rose' create_tables
step 'initial copy' subscribe

title "pgbench on the upstream, ${DURATION} seconds"
run_pgbench

title 'Afterwards'
step 'the replica reaches the end of the stream' catch_up
step 'everything merged' merge_all
heap=$(sql upstream -c "$(total_size)")
rose=$(sql replica -c "$(total_size)")
echo "  size on disk with indexes: $(human "$heap") on heap, $(human "$rose") on rose, $(calc "$heap / $rose" %.1f) times smaller"

title "pgbench's invariant, on the replica"
check_invariant
title 'Contents, compared with the upstream'
check_contents
[ -z "$DIFFERENT" ] || die 'the replica differs from the upstream'
echo
