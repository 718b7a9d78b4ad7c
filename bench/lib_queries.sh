# What benchmarks share that ask the same queries of several tables: clickbench, tpch. Sourced by bash, after lib_bench.sh.
#
# Responsible for: the cluster "both" for queries, a session whose processor time is that of its queries,
# rounds in which the sides take turns, comparing answers, what EXPLAIN says of Rose Aggregate,
# and DuckDB as a peer, if Python has its module. A workload has the queries, and says what its figures mean.
#
# A workload sets
#   QUERIES   texts, in which {side} is part of a table's name
#   COUNTED   numbers of queries whose rows are not determined: only how many there are is compared
#   ROUNDS    times that each query is run, beside one that maps memory
#
# Sides
#   heap, rows (rose.enable_aggregate and rose.enable_top off), aggregate (on), duckdb

PYTHON=${PYTHON:-python3}

queries_server_start()
{
	{
		rose_conf "rose.memtable_size = '$((ROWS / 1500 + 100))MB'" 'rose.max_merge_workers = 0' "rose.spill_interval = '1h'"
		cat <<-CONF
			shared_buffers = $1MB
			work_mem = 64MB
			max_wal_size = 16GB
			checkpoint_timeout = 1h
			max_parallel_workers_per_gather = 0
			synchronous_commit = off
			autovacuum = off
			jit = off
		CONF
	} | cluster_init both
	cluster_start both
	rose_create both
}

# queries_fill TABLE PROGRAM: the tables of heap and rose from what the program writes, at rest.
queries_fill()
{
	sql both -o /dev/null -c "COPY $1_heap FROM PROGRAM '$2'" -c "COPY $1_rose FROM PROGRAM '$2'"
	! is_rose rose || sql both -o /dev/null -c "SELECT rose.merge('$1_rose')"
	sql both -c "VACUUM (FREEZE, ANALYZE) $1_heap" -c "ANALYZE $1_rose"
}

# A session of both's, which stays.
queries_session_start()
{
	coproc SESSION { as_pg "$PG_BIN/psql" -XqAt -F "$(printf '\t')" -v ON_ERROR_STOP=1 "$(cluster_conninfo both)"; }
	echo 'SELECT pg_backend_pid();' >&"${SESSION[1]}"
	read -r BACKEND <&"${SESSION[0]}"
	mkdir "$SCRATCH/answers"
	chmod 777 "$SCRATCH/answers"
}

queries_session_end() { echo '\q' >&"${SESSION[1]}"; }

queries_cpu_ns() { cut -d' ' -f1 "/proc/$BACKEND/schedstat"; }

# queries_run QUERY FILE: what it says goes to the file; sets MS to the processor time that it took.
queries_run()
{
	local before done

	before=$(queries_cpu_ns)
	printf '\\o %s\n%s;\n\\o\n\\echo done\n' "$2" "$1" >&"${SESSION[1]}"
	read -r done <&"${SESSION[0]}" || die "no answer to: $1"
	MS=$(calc "($(queries_cpu_ns) - $before) / 1000000" %.2f)
}

# queries_of_side NUMBER SIDE: the query as it is asked.
queries_of_side()
{
	local table=rose

	case $2 in
		heap | duckdb) table=$2 ;;
	esac
	echo "${QUERIES[$1]//\{side\}/$table}"
}

queries_answer() { echo "$SCRATCH/answers/$1.$2"; }

# queries_digest NUMBER SIDE: of its answer; of one that is not determined, its lines.
queries_digest()
{
	local file

	file=$(queries_answer "$1" "$2")
	if [[ " ${COUNTED:-} " = *" $1 "* ]]; then
		wc -l <"$file"
	else
		cksum <"$file"
	fi
}

queries_set()
{
	is_rose rose || return 0
	queries_run "SET rose.enable_aggregate = $([ "$1" = rows ] && echo off || echo on)" /dev/null
	queries_run "SET rose.enable_top = $([ "$1" = rows ] && echo off || echo on)" /dev/null
}

# queries_measure NUMBER: sets LEAST_heap, LEAST_rows, LEAST_aggregate, and compares.
queries_measure()
{
	local round side least

	LEAST_heap='' LEAST_rows='' LEAST_aggregate=''
	for ((round = 0; round <= ROUNDS; round++)); do
		for side in heap rows aggregate; do
			queries_set "$side"
			queries_run "$(queries_of_side "$1" "$side")" "$(queries_answer "$1" "$side")"
			# the first round maps memory
			[ "$round" -gt 0 ] || continue
			least=LEAST_$side
			if [ -z "${!least}" ] || [ "$(calc "$MS < ${!least}" %d)" = 1 ]; then
				printf -v "$least" %s "$MS"
			fi
		done
	done
	same "the answer to query $1 by rows" "$(queries_digest "$1" heap)" "$(queries_digest "$1" rows)"
	same "the answer to query $1 by Rose Aggregate" "$(queries_digest "$1" heap)" "$(queries_digest "$1" aggregate)"
}

# queries_explain NUMBER: sets USED to whether Rose Aggregate was: yes, no, or rows, where it was begun and given up, or top, where a Rose Scan has left out rows that are not the first;
# PAGES_heap and PAGES_aggregate to the blocks that were looked at.
queries_explain()
{
	local side file

	for side in heap aggregate; do
		queries_set "$side"
		file=$SCRATCH/plan.$side
		queries_run "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) $(queries_of_side "$1" "$side")" "$file"
		printf -v "PAGES_$side" %s "$(awk '/Buffers: shared/ {
			for (i = 1; i <= NF; i++) if ($i ~ /^(hit|read)=/) { sub(/.*=/, "", $i); n += $i }
			exit } END { print n + 0 }' "$file")"
	done
	USED=no
	! grep -q 'Top Key' "$file" || USED=top
	! grep -q 'Rose Aggregate' "$file" || USED=yes
	! grep -q 'Chosen: rows' "$file" || USED=rows
}

queries_have_duckdb() { "$PYTHON" -c 'import duckdb' 2>/dev/null; }

# queries_duckdb TABLE PROGRAM DEFINITION: fills it, and asks it all queries after the others; sets DUCKDB[NUMBER] to ms.
# Several tables are given as several triples.
queries_duckdb()
{
	local number ms said

	for number in "${!QUERIES[@]}"; do
		printf '%s\t%s\n' "$number" "$(queries_of_side "$number" duckdb)"
	done >"$SCRATCH/queries"
	"$PYTHON" "$ROSE_ROOT/bench/queries_duckdb.py" "$SCRATCH" "$ROUNDS" " ${COUNTED:-} " "$@" >"$SCRATCH/duckdb.out" || die 'DuckDB failed'
	while read -r number ms said; do
		DUCKDB[$number]=$ms
		same "the answer of DuckDB to query $number" same "$said"
	done <"$SCRATCH/duckdb.out"
}

# queries_geometric_mean: of numbers on standard input.
queries_geometric_mean() { awk '$1 > 0 { sum += log($1); n++ } END { if (n) printf("%.3f", exp(sum / n)); else print "n/a" }'; }
