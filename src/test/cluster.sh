# Shared functions of the demo, the benchmarks and the tests. Sourced by bash.
#
# Responsible for: building and installing rose, scratch clusters (in a folder
# of their own, reached by Unix sockets only), control groups (cgroup.sh), and
# reading what a cluster cost. Everything that is started or made here is
# ended and removed by rose_cleanup, which callers install as their EXIT trap.
#
# ROSE_STANDIN=1 puts heap and built-in replication behind rose's names (see
# src/test/standin.sql), to test the scripts themselves.
# ROSE_KEEP=1 keeps the scratch folder.

ROSE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PG_CONFIG=${PG_CONFIG:-pg_config}
ROSE_STANDIN=${ROSE_STANDIN:-}
SCRATCH=''

. "$ROSE_ROOT/src/test/cgroup.sh"

die()
{
	echo "error: $*" >&2
	exit 1
}

# Installs what is missing, builds rose and installs it.
rose_prepare()
{
	local log

	"$ROSE_ROOT/src/test/bootstrap.sh"
	hash -r
	PG_BIN=$("$PG_CONFIG" --bindir)
	[ -n "$ROSE_STANDIN" ] && return
	log=$(mktemp) || die 'no room for temporary files (TMPDIR?)'
	if ! { make -C "$ROSE_ROOT" -j2 all && rose_install; } >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		die "rose could not be built and installed"
	fi
	rm -f "$log"
}

# Installs rose, unless exactly this build is there already.
rose_install()
{
	local libdir extdir script same=1

	libdir=$("$PG_CONFIG" --pkglibdir)
	extdir=$("$PG_CONFIG" --sharedir)/extension
	cmp -s "$ROSE_ROOT/rose.so" "$libdir/rose.so" || same=''
	for script in "$ROSE_ROOT"/rose*.control "$ROSE_ROOT"/rose--*.sql; do
		cmp -s "$script" "$extdir/${script##*/}" || same=''
	done
	[ -n "$same" ] || make -C "$ROSE_ROOT" install
}

# as_pg COMMAND...: run as the user that the servers run as.
as_pg()
{
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

# scratch NAME [PARENT]: makes the scratch folder, and sets SCRATCH.
scratch()
{
	SCRATCH=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/rose-$1.XXXXXX") || die 'no room for files of the test (TMPDIR?)'
	chmod 755 "$SCRATCH"
	[ "$(id -u)" != 0 ] || chown postgres: "$SCRATCH"
	cd "$SCRATCH" || exit 1
}

# Ends what runs in the background, stops every cluster and removes every trace.
# Safe to call twice.
rose_cleanup()
{
	local pidfile data group job

	set +e						# a server that is gone must not keep the rest from being removed
	for job in $(jobs -p); do
		kill "$job" 2>/dev/null || true
	done
	if [ -n "$SCRATCH" ]; then
		for pidfile in "$SCRATCH"/*/postmaster.pid; do
			[ -f "$pidfile" ] || continue
			data=$(dirname "$pidfile")
			as_pg "$PG_BIN/pg_ctl" -D "$data" -m fast -w -t 20 stop >/dev/null 2>&1 ||
				as_pg "$PG_BIN/pg_ctl" -D "$data" -m immediate -w stop >/dev/null 2>&1
		done
	fi
	for group in "${CGROUPS[@]}"; do
		rmdir "$group" 2>/dev/null || { sleep 0.5; rmdir "$group"; }
	done
	CGROUPS=()
	cd / || exit 1
	if [ -n "$SCRATCH" ] && [ -z "${ROSE_KEEP:-}" ]; then
		rm -rf "$SCRATCH"
	fi
}

# cluster_init NAME: initdb into $SCRATCH/NAME; settings on standard input.
# The socket is in $SCRATCH; clusters are told apart by port.
cluster_init()
{
	local name=$1

	as_pg "$PG_BIN/initdb" -D "$SCRATCH/$name" -U postgres -A trust -E UTF8 --no-locale -N \
		>"$SCRATCH/$name.initdb.log" 2>&1 || { cat "$SCRATCH/$name.initdb.log" >&2; die "initdb failed"; }
	{
		echo "port = $(cluster_port "$name")"
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$SCRATCH'"
		echo "logging_collector = off"
		echo "log_line_prefix = '%m [%p] '"
		cat
	} >>"$SCRATCH/$name/postgresql.conf"
}

# cluster_port NAME: a port that is the cluster's own within the scratch folder.
cluster_port()
{
	echo $((50000 + $(printf %s "$1" | cksum | cut -d' ' -f1) % 9999))
}

# cluster_start NAME [GROUP]: start, inside the cgroups named GROUP if given.
cluster_start()
{
	local name=$1 group=${2:-}

	if ! (
		[ -z "$group" ] || cgroup_enter "$group"
		as_pg "$PG_BIN/pg_ctl" -D "$SCRATCH/$name" -l "$SCRATCH/$name.log" -w -t 120 start >/dev/null
	); then
		tail -20 "$SCRATCH/$name.log" >&2
		die "cluster $name did not start"
	fi
}

cluster_stop()
{
	as_pg "$PG_BIN/pg_ctl" -D "$SCRATCH/$1" -m fast -w -t 300 stop >/dev/null
}

cluster_conninfo()
{
	echo "host=$SCRATCH port=$(cluster_port "$1") user=postgres dbname=postgres"
}

# sql CLUSTER [PSQL OPTION...]: psql, unaligned tuples only, stopping at errors.
sql()
{
	local name=$1
	shift
	as_pg "$PG_BIN/psql" -XqAt -v ON_ERROR_STOP=1 "$(cluster_conninfo "$name")" "$@"
}

# rose_create CLUSTER: CREATE EXTENSION rose, or the stand-in.
rose_create()
{
	if [ -n "$ROSE_STANDIN" ]; then
		sql "$1" <"$ROSE_ROOT/src/test/standin.sql"
	else
		sql "$1" -c 'CREATE EXTENSION rose'
	fi
}

# rose_conf [SETTING...]: the settings of a cluster with rose, one a line.
rose_conf()
{
	local setting

	[ -z "$ROSE_STANDIN" ] || return 0
	echo "shared_preload_libraries = 'rose'"
	for setting in "$@"; do
		echo "$setting"
	done
}

# human BYTES: 1234567 as "1.2 MB".
human()
{
	awk -v n="$1" 'BEGIN {
		split("B kB MB GB TB", unit, " ");
		i = 1;
		while (n >= 1000 && i < 5) { n /= 1000; i++ }
		printf(i == 1 || n >= 100 ? "%.0f %s" : "%.1f %s", n, unit[i]);
	}'
}

# now: seconds with fractions.
now()
{
	date +%s.%N
}

# calc EXPRESSION [FORMAT]: arithmetic with fractions.
calc()
{
	awk "BEGIN { printf(\"${2:-%.3f}\", $1) }"
}

# ----------------------------------------------------------------------------
# The disk
# ----------------------------------------------------------------------------

# disk_of FOLDER: "major:minor" of the whole disk that holds the folder.
disk_of()
{
	local dev sys

	dev=$(stat -c '%d' "$1")
	dev="$((dev >> 8 & 0xfff)):$((dev & 0xff))"
	sys=$(readlink -f "/sys/dev/block/$dev") || return 1
	if [ -f "$sys/partition" ]; then
		cat "$(dirname "$sys")/dev"
	else
		echo "$dev"
	fi
}

# device_io: "reads read_bytes written_bytes" of the whole disk so far, whoever caused it.
device_io()
{
	awk -v disk="$DISK" '$1 ":" $2 == disk { printf("%.0f %.0f %.0f\n", $4, $6 * 512, $10 * 512) }' /proc/diskstats
}

# evict FOLDER: write its files out and drop them from the page cache.
evict()
{
	find "$1" -type f -size +0 -print0 | xargs -0 -r sync
	find "$1" -type f -size +0 -exec dd if={} iflag=nocache count=0 status=none \;
}

# machine: one line that says what this ran on.
machine()
{
	local cpu

	cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
	echo "${cpu:-$(uname -m)}, $(nproc) cores, $(awk '/MemTotal/ { printf("%.0f GB", $2 / 1e6) }' /proc/meminfo)"
}

# commit: the tree's commit, with a + when there are changes on top.
commit()
{
	local id

	id=$(git -c safe.directory='*' -C "$ROSE_ROOT" rev-parse --short=10 HEAD 2>/dev/null) || { echo none; return; }
	[ -z "$(git -c safe.directory='*' -C "$ROSE_ROOT" status --porcelain 2>/dev/null)" ] || id+=+
	echo "$id"
}
