# What bench/scan asks of other column stores. Sourced by bash, after lib_bench.sh and lib_queries.sh.
#
# Responsible for: the settled part's rows in DuckDB and in TimescaleDB's compressed chunks, and what its queries cost there, one
# process each. bench/scan has the queries, and says what the figures mean.
#
# Both get the rows in the order of the key, as rose has them. DuckDB is there if Python has its module, with its tables in memory.
# TimescaleDB is one if TIMESCALE_PG_CONFIG names a server that has it: its tables are in a cluster of its own, so that the others
# run without its library. Rows are in one chunk, for a query of all rows gains nothing by more of them, compressed by station.

# What is asked of peers: the others are about PostgreSQL's way to rows.
PEER_COLUMNS=(count sum groups filter range top residual wide)

# peer_queries: the columns' as lib_queries.sh wants them.
peer_queries()
{
	local column

	QUERIES=()
	for column in "${PEER_COLUMNS[@]}"; do
		QUERIES+=("$(query "$column" 'settled_{side}')")
	done
}

# peer_answer NUMBER ANSWER: keeps what heap has answered.
peer_answer()
{
	mkdir -p "$SCRATCH/answers"
	tr '|' '\t' <<<"$2" >"$(queries_answer "$1" heap)"
}

# peers_keep: of the settled part, from ${answer[]}
peers_keep()
{
	local number

	for number in "${!PEER_COLUMNS[@]}"; do
		peer_answer "$number" "${answer[heap-${PEER_COLUMNS[number]}]}"
	done
}

# peer_add SIDE MS...: a line of the results, by PEER_COLUMNS.
peer_add()
{
	local side=$1 column row=()
	shift

	for column in "${COLUMNS[@]}"; do
		if [[ " ${PEER_COLUMNS[*]} " = *" $column "* ]]; then
			row+=("$1")
			shift
		else
			row+=('')
		fi
	done
	csv_add "$OUT" "settled-$side" "$ROWS" "${row[@]}"
	# shellcheck disable=SC2183
	printf "%-14s$(printf ' %%8s%.0s' "${COLUMNS[@]}")\n" "settled-$side" "${row[@]}"
}

peer_rows() { echo "$PG_BIN/psql -XqAt '$(cluster_conninfo both)' -c 'COPY (SELECT * FROM settled_heap ORDER BY longitude, latitude, at) TO STDOUT'"; }

peer_duckdb()
{
	local -A DUCKDB=()
	local number row=()

	if ! queries_have_duckdb; then
		say 'DuckDB: not there (pip install duckdb; PYTHON names a Python that has it)'
		return
	fi
	queries_duckdb settled_duckdb "$(peer_rows)" "CREATE TABLE settled_duckdb ($TABLE)"
	for number in "${!PEER_COLUMNS[@]}"; do
		row+=("${DUCKDB[$number]}")
	done
	peer_add duckdb "${row[@]}"
}

timescale_start()
{
	cluster_init timescale <<-CONF
		shared_preload_libraries = 'timescaledb'
		timescaledb.telemetry_level = off
		shared_buffers = $((ROWS / 5000 + 200))MB
		max_wal_size = 16GB
		checkpoint_timeout = 1h
		max_parallel_workers_per_gather = 0
		synchronous_commit = off
		autovacuum = off
		jit = off
	CONF
	cluster_start timescale
	sql timescale -o /dev/null 2>"$SCRATCH/timescale.said" -c 'CREATE EXTENSION timescaledb' -c "CREATE TABLE settled_timescale ($TABLE)" \
		-c "SELECT create_hypertable('settled_timescale', 'at', chunk_time_interval => interval '10 years')" \
		-c "ALTER TABLE settled_timescale SET (timescaledb.compress, timescaledb.compress_segmentby = 'longitude, latitude', timescaledb.compress_orderby = 'at')"
	sh -c "$(peer_rows)" | sql timescale -c 'COPY settled_timescale FROM STDIN'
	sql timescale -o /dev/null -c "SELECT compress_chunk(c) FROM show_chunks('settled_timescale') c" -c 'VACUUM (FREEZE, ANALYZE)'
}

# In a subshell: its server is another one's. Prints the times, and what differs.
timescale_measure()
{
	local number round least row=()

	PG_BIN=$("$TIMESCALE_PG_CONFIG" --bindir)
	timescale_start
	session_start timescale
	for number in "${!PEER_COLUMNS[@]}"; do
		least=''
		for ((round = 0; round <= ROUNDS; round++)); do
			run "${QUERIES[number]//\{side\}/timescale}"
			# the first round maps memory
			if [ "$round" -gt 0 ] && { [ -z "$least" ] || [ "$(calc "$MS < $least" %d)" = 1 ]; }; then
				least=$MS
			fi
		done
		row+=("$least")
		tr '|' '\t' <<<"$ANSWER" >"$(queries_answer "$number" timescale)"
	done
	echo '\q' >&"${SESSION[1]}"
	cluster_stop timescale
	echo "${row[*]}" >"$SCRATCH/timescale.ms"
}

peer_timescale()
{
	local number

	if [ -z "${TIMESCALE_PG_CONFIG:-}" ]; then
		say 'TimescaleDB: not there (TIMESCALE_PG_CONFIG names the pg_config of a server that has it)'
		return
	fi
	(timescale_measure) || die 'TimescaleDB failed'
	for number in "${!PEER_COLUMNS[@]}"; do
		same "the answer of TimescaleDB to ${PEER_COLUMNS[number]}" "$(queries_digest "$number" heap)" "$(queries_digest "$number" timescale)"
	done
	# shellcheck disable=SC2046
	peer_add timescale $(cat "$SCRATCH/timescale.ms")
}

# peers_measure: after the settled part's sides.
peers_measure()
{
	peer_queries
	peers_keep
	peer_duckdb
	peer_timescale
}

# peer_judge SIDE NAME TARGET: Rose Aggregate over it.
peer_judge()
{
	local column line='' over

	[ -n "$(csv_get "$OUT" "settled-$1" count)" ] || return 0
	for column in "${PEER_COLUMNS[@]}"; do
		over=$(ratio "$(csv_get "$OUT" settled-aggregate "$column")" "$(csv_get "$OUT" "settled-$1" "$column")")
		line+=", $column $over ($(verdict "$over" '<=' "$3"))"
	done
	say "Rose Aggregate over $2, settled: ${line#, } (target $3)"
}
