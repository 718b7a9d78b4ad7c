# What the benchmarks share beside src/test/cluster.sh. Sourced by bash, instead of it.
#
# Responsible for: options that all workloads have, the seed, results as CSV with
# what they were measured on, plots, percentiles, bounding a cluster's memory and
# disk reads and reading what it used of them, and the exit status. A workload says
# what it measures; nothing here does.
#
# A workload defines two functions and calls bench_start first, bench_end last:
#
#   sizes SMALL-OR-FULL      sets its variables
#   option NAME VALUE        takes an option of its own, or fails; sets TAKES=1
#                            if the option has no value
#   bench_start NAME COLUMNS "$@"
#
# Options of every workload
#   --full            the papers' size
#   --seed N          of the data and of what is done with it   (BENCH_SEED, or 42)
#   --out FILE        CSV to append to                          (bench/results/NAME.csv)
#   --scratch FOLDER  where the clusters live                   (/tmp)

. "$(dirname "${BASH_SOURCE[0]}")/../src/test/cluster.sh"

SEED=${BENCH_SEED:-42}
SIZE=small
DIFFERENT=''
BOUND_MB=''
BOUND_COUNTS=''
# The plots need it; a run without it still has its CSV.
export BOOTSTRAP_WISHES=gnuplot-nox

say() { printf '%s\n' "$*"; }

# bench_start NAME COLUMNS ARGUMENT...
bench_start()
{
	NAME=$1
	local columns=$2
	shift 2
	OUT=$ROSE_ROOT/bench/results/$NAME.csv
	PARENT=${TMPDIR:-/tmp}
	bench_options "$@"
	# whoever presses Ctrl-C twice must not end the cleaning up
	trap "trap '' INT TERM; rose_cleanup" EXIT
	trap 'exit 130' INT TERM
	rose_prepare
	LOAD=$(cut -d' ' -f1 /proc/loadavg)
	STARTED=$(date -u +%FT%TZ)
	OUT=$(mkdir -p "$(dirname "$OUT")" && cd "$(dirname "$OUT")" && pwd)/$(basename "$OUT")
	scratch "$NAME" "$PARENT"
	DISK=$(disk_of "$SCRATCH" || echo none)
	csv_open "$OUT" "$columns"
	say "$NAME, $SIZE: $(machine), load $LOAD; rose $(rose_version) commit $(commit), PostgreSQL $(postgres_version)${ROSE_STANDIN:+; STAND-IN: rose is heap}"
}

# What the heads of the workload and of this file say.
bench_help()
{
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
	echo
	sed -n '/^# Options of every/,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

bench_options()
{
	local argument

	for argument in "$@"; do
		[ "$argument" != --full ] || SIZE=full
	done
	sizes "$SIZE"
	while [ $# -gt 0 ]; do
		TAKES=2
		case $1 in
			--full) TAKES=1 ;;
			--seed) SEED=$2 ;;
			--out) OUT=$2 ;;
			--scratch) PARENT=$2 ;;
			--help) bench_help && exit 0 ;;
			*) option "$1" "${2:-}" || die "unknown option \"$1\"; --help names those that there are" ;;
		esac
		[ $# -ge $TAKES ] || die "option $1 needs a value"
		shift $TAKES
	done
}

# Fails the run if some comparison failed.
bench_end()
{
	say "results appended to $OUT"
	[ -z "$DIFFERENT" ] || die "$DIFFERENT"
}

# same WHAT A B: notes a difference for bench_end, and prints "yes" or "NO".
# Not in a subshell: the note would be lost. SAME has the answer. Nothing at all on
# both sides is no answer: what asked for it has failed.
same()
{
	SAME=yes
	[ "$2" != "$3" ] || [ -z "$2" ] || return 0
	SAME=NO
	DIFFERENT="$1 differs: \"$2\" and \"$3\""
	say "$DIFFERENT"
}

# problems CLUSTER TABLE: how many rose.check finds, and one of them.
problems() { sql "$1" -c "SELECT count(*) || coalesce(': ' || min(msg), '') FROM rose.check('$2')"; }

# A number from -1 to 1 for SQL's setseed().
seed_fraction() { calc "$SEED * 7919 % 100003 / 100003" %.6f; }

# content_hash CLUSTER TABLE: number of rows, and a sum over hashes of whole rows.
content_hash() { sql "$1" -c "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(i::text, 0)), 0) FROM $2 i"; }

# ----------------------------------------------------------------------------
# Results
# ----------------------------------------------------------------------------

rose_version() { sed -n "s/^default_version *= *'\(.*\)'/\1/p" "$ROSE_ROOT/rose.control"; }

postgres_version() { "$PG_BIN/postgres" --version | sed -E 's/^[^0-9]*([0-9.]+).*/\1/'; }

# csv_open FILE COLUMNS: before the first row. Each row also says when, what, where.
# A file of an older version of the workload, with other columns, is moved away.
csv_open()
{
	local header="time,commit,rose,postgres,cpu,cores,ram_mb,load,size,seed,$2"

	if [ -s "$1" ] && [ "$(head -1 "$1")" != "$header" ]; then
		mv "$1" "${1%.csv}.until-$STARTED.csv"
	fi
	[ -s "$1" ] || echo "$header" >"$1"
	echo "$2" >"$SCRATCH/$(basename "$1")"
}

# csv_add FILE VALUE...: values in the order of the columns. This run's rows, with
# the workload's own columns only, are in $SCRATCH under the same name, for plots.
csv_add()
{
	local file=$1 row
	shift

	row=$(IFS=,; echo "$*")
	[ -n "${STAMP:-}" ] || STAMP="$STARTED,$(commit),$(rose_version),$(postgres_version),\"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)\",$(nproc),$(awk '/MemTotal/ { printf("%.0f", $2 / 1024) }' /proc/meminfo),$LOAD,$SIZE,$SEED"
	echo "$STAMP,$row" >>"$file"
	echo "$row" >>"$SCRATCH/$(basename "$file")"
}

# csv_get FILE KEY COLUMN: a column of this run's last row whose first column is KEY.
csv_get()
{
	awk -F, -v key="$2" -v column="$3" '
		NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) c = i }
		NR > 1 && $1 == key { value = $c }
		END { print value }' "$SCRATCH/$(basename "$1")"
}

# ratio A B [FORMAT]: A over B, or n/a.
ratio() { awk -v a="$1" -v b="$2" -v f="${3:-%.2f}" 'BEGIN { if (a != "" && b > 0) printf(f, a / b); else printf("n/a") }'; }

# verdict VALUE OPERATOR TARGET: "met" or "missed"; OPERATOR is awk's.
verdict() { [ -n "$1" ] && [ "$1" != n/a ] && awk "BEGIN { exit !($1 $2 $3) }" && echo met || echo missed; }

# plot FILE.svg: gnuplot's commands on standard input; the plot lies beside the CSV.
# $SCRATCH is the working folder, so this run's rows are 'NAME.csv'.
plot()
{
	local file

	file=$(dirname "$OUT")/$1
	if ! command -v gnuplot >/dev/null; then
		say "no plot: gnuplot is not installed"
		cat >/dev/null
		return
	fi
	if {
		cat <<-SCRIPT
			set terminal svg size 800,500 font 'sans-serif,13' background 'white'
			set output '$file'
			set datafile separator ','
			set grid
			set key outside top center horizontal
			set style fill solid 0.8
			set label 1 '$(commit), $(nproc) cores, $(date -u +%F)' at screen 0.99,0.015 right font ',9'
		SCRIPT
		cat
	} | gnuplot; then
		say "plot: $file"
	else
		say "no plot: gnuplot failed"
	fi
}

# percentiles: of the numbers on standard input, one a line:
# "count mean p50 p99 p99.9 worst".
percentiles()
{
	perl -e '
		my @v = sort { $a <=> $b } map { 0 + $_ } <STDIN>;
		my $n = @v;
		if (!$n) { print "0 0 0 0 0 0\n"; exit }
		my $sum = 0;
		$sum += $_ for @v;
		sub p { my $i = int($_[0] * $n); $v[$i < $n ? $i : $n - 1] }
		printf "%d %.1f %.1f %.1f %.1f %.1f\n", $n, $sum / $n, p(0.5), p(0.99), p(0.999), $v[-1];'
}

# field N WORDS: the N-th word.
field() { cut -d' ' -f"$1" <<<"$2"; }

# ----------------------------------------------------------------------------
# Bounding a cluster, and what it used
# ----------------------------------------------------------------------------

# Groups are called by a short name, and by a name of this process in the system.
group_name() { echo "rose-$1-$$"; }

# bound_create GROUP MB [READ-IOPS]: makes the group in which clusters are to start
# (cluster_start NAME $(bound_group GROUP)) and says what is bounded. MB counts the
# processes, shared memory and page cache together; 0 bounds nothing but still counts.
bound_create()
{
	local group mb=$2 iops=${3:-}

	group=$(group_name "$1")
	BOUND_MB=''
	BOUND_COUNTS=''
	if ! cgroup_available || ! cgroup_create "$group"; then
		say "memory: NOT bounded, and disk use is the whole machine's: there are no control groups that this user may make"
		[ -z "$iops" ] || die "a bound of disk reads needs a cgroup"
		return
	fi
	if [ "$DISK" != none ]; then
		cgroup_count_io "$group" "$DISK"
		BOUND_COUNTS=1
	fi
	if [ "$mb" -gt 0 ]; then
		cgroup_bound_memory "$group" "$mb"
		BOUND_MB=$mb
		say "memory: bounded at $mb MB for a cluster, page cache included"
	else
		say "memory: not bounded"
	fi
	if [ -n "$iops" ]; then
		cgroup_bound_reads "$group" "$DISK" "$iops"
		say "disk: at most $iops reads a second"
	fi
}

# bound_group GROUP: the group's name in the system if it could be made, else nothing.
bound_group() { ! cgroup_exists "$(group_name "$1")" || group_name "$1"; }

# io_now GROUP: "reads read_bytes written_bytes" so far of the group, and the same
# three of the whole disk, whoever caused it. Without a group the disk's, twice.
io_now()
{
	local device='0 0 0'

	[ "$DISK" = none ] || device=$(device_io)
	if [ -n "$BOUND_COUNTS" ]; then
		echo "$(cgroup_io "$(group_name "$1")" "$DISK") $device"
	else
		echo "$device $device"
	fi
}

# grown N BEFORE AFTER: how much the N-th counter of io_now grew.
grown() { calc "$(field "$1" "$3") - $(field "$1" "$2")" %.0f; }

# peak_memory GROUP: the most bytes charged to the group since peak_reset; empty
# without one. Page cache counts, so at the bound it is the bound.
peak_memory() { [ -z "$(bound_group "$1")" ] || cgroup_peak "$(group_name "$1")"; }

peak_reset() { [ -z "$(bound_group "$1")" ] || cgroup_peak_reset "$(group_name "$1")"; }

# flush_cluster CLUSTER GROUP: checkpoint, and everything the cluster wrote goes to
# disk from inside its group, so that it is counted there. The kernel's background
# writeback is not: io_now's whole-disk columns have it.
flush_cluster()
{
	sql "$1" -c CHECKPOINT
	(
		[ -z "$(bound_group "$2")" ] || cgroup_enter "$(group_name "$2")"
		find "$SCRATCH/$1" -type f -print0 | xargs -0 sync
	)
}

# file_bytes CLUSTER TABLE: the files of table and indexes; live_bytes: what a rose
# table's components take of them (heap: the files).
file_bytes() { sql "$1" -c "SELECT pg_total_relation_size('$2')"; }

live_bytes()
{
	if [ -z "$ROSE_STANDIN" ] && [ "$(sql "$1" -c "SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = '$2'::regclass")" = rose ]; then
		sql "$1" -c "SELECT sum(bytes) FROM rose.components('$2') WHERE kind <> 'memtable'"
	else
		file_bytes "$1" "$2"
	fi
}

# ----------------------------------------------------------------------------
# Watching a table while others write it
# ----------------------------------------------------------------------------

# Is this side rose, and not its stand-in?
is_rose() { [ "$1" = rose ] && [ -z "$ROSE_STANDIN" ]; }

# sample_start CLUSTER TABLE SIDE FILE [SECONDS]: every 0.1 seconds until sample_stop, a row
#   S,milliseconds,file bytes,component bytes,rows in components,memtable bytes,runs,rows in C1,rows in C2
sample_start()
{
	local from="(SELECT 0 AS bytes, 0 AS rows, NULL AS kind) c"

	if is_rose "$3"; then
		from="rose.components('$2') c"
	fi
	PGAPPNAME=sampler sql "$1" -F, >"$4" 2>/dev/null <<-SQL &
		SELECT 'S', round(extract(epoch FROM clock_timestamp()) * 1000), pg_total_relation_size('$2'),
			coalesce(sum(bytes) FILTER (WHERE kind <> 'memtable'), 0), coalesce(sum(rows) FILTER (WHERE kind <> 'memtable'), 0),
			coalesce(sum(bytes) FILTER (WHERE kind = 'memtable'), 0), count(*) FILTER (WHERE kind = 'run'),
			coalesce(sum(rows) FILTER (WHERE kind = 'C1'), 0), coalesce(sum(rows) FILTER (WHERE kind = 'C2'), 0)
		FROM $from
		\\watch ${5:-0.1}
	SQL
	SAMPLER=$!
}

sample_stop()
{
	session_end "$1" sampler
	wait "$SAMPLER" || true
}

# session_end CLUSTER APPLICATION: ends the sessions of that application_name. (A
# background psql or pgbench is not this shell's own child, but its connection is known.)
session_end() { sql "$1" -o /dev/null -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$2'"; }

# sample_cycles FILE: how often C1 was merged into C2: it grew, and lost half or more.
sample_cycles()
{
	awk -F, '
		$1 == "S" { if ($8 > top) top = $8; else if ($8 < top / 2) { n++; top = $8 } }
		END { print n + 0 }' "$1"
}

# sample_max FILE COLUMN, sample_last FILE COLUMN
sample_max() { awk -F, -v c="$2" '$1 == "S" && $c > max { max = $c } END { printf("%.0f", max) }' "$1"; }

sample_last() { awk -F, -v c="$2" '$1 == "S" { last = $c } END { printf("%.0f", last) }' "$1"; }

# cpu_seconds CLUSTER: processor time of all its processes so far, ended ones included.
# On a busy machine it says more than time does.
cpu_seconds()
{
	local postmaster

	postmaster=$(head -1 "$SCRATCH/$1/postmaster.pid")
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v postmaster="$postmaster" -v hz="$(getconf CLK_TCK)" '
		{
			pid = $1
			sub(/^.*\) /, "")
			if (pid == postmaster || $2 == postmaster)
				ticks += $12 + $13 + $14 + $15
		}
		END { printf("%.2f", ticks / hz) }'
}

# worker_cpu SIDE: of a replica: microseconds of processor time that the apply process has used, and
# the kernel's part.
worker_cpu()
{
	local pid

	if [ "$1" = rose ] && [ -z "$ROSE_STANDIN" ]; then
		pid=$(sql rose -c "SELECT pid FROM rose.stat_subscription")
	else
		pid=$(sql "$1" -c "SELECT pid FROM pg_stat_subscription WHERE relid IS NULL")
	fi
	sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | awk -v hz="$(getconf CLK_TCK)" '{ printf("%.0f %.0f", ($12 + $13) * 1e6 / hz, $13 * 1e6 / hz) }'
}

# ----------------------------------------------------------------------------
# Beats: rows with the time of their commit, and how old they are when a replica shows them
# ----------------------------------------------------------------------------

BEAT_TABLE='beat (n bigint PRIMARY KEY, at timestamptz)'

# beats_make CLUSTER: what pgbench needs to write beats, $SCRATCH/beat.sql.
beats_make()
{
	sql "$1" -c 'CREATE SEQUENCE beats'
	as_pg tee "$SCRATCH/beat.sql" >/dev/null <<<"INSERT INTO beat VALUES (nextval('beats'), clock_timestamp());"
}

# beats_watch SIDE LAST SECONDS FILE: until beat LAST or a later one is there, the age of each when it is
# seen, in milliseconds; a thousand looks a second. Fails when it takes longer.
beats_watch()
{
	sql "$1" 2>"$4.said" <<-SQL || die "no beats: $(tail -3 "$4.said")"
		SET client_min_messages = info;
		${BEATS_SETTINGS-}
		DO \$\$
		DECLARE
			seen bigint := (SELECT coalesce(max(n), 0) FROM beat);
			b record;
			patience timestamptz := clock_timestamp() + interval '$3 s';
		BEGIN
			WHILE seen < $2 LOOP
				FOR b IN SELECT n, clock_timestamp() - at AS age FROM beat WHERE n > seen ORDER BY n LOOP
					RAISE INFO '% %', b.n, extract(epoch FROM b.age) * 1000;
					seen := b.n;
				END LOOP;
				COMMIT;
				PERFORM pg_sleep(0.001);
				IF clock_timestamp() > patience THEN
					RAISE 'beat % of $2 is the last', seen;
				END IF;
			END LOOP;
		END \$\$;
	SQL
	sed -n 's/^.*INFO:  [0-9]* \([0-9.]*\)$/\1/p' "$4.said" >"$4"
}
