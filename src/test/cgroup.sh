# Control groups: bounding and counting what a cluster uses. Sourced by cluster.sh.
#
# Responsible for: making groups, moving a shell into one, bounds of memory and of
# disk reads, and reading peaks and disk traffic, with version 1 of the interface and
# with version 2 (a stock Debian since 11). Who calls does not know which.
# rose_cleanup removes the groups; no process may be left in them by then.
#
# Version 1 makes groups below the caller's own. Version 2 forbids groups with
# bounds below one that has processes, so there they are made at the top.
#
# Does not choose what to bound: see lib_bench.sh.

CGROUPS=()
CGROUP_ROOT=${CGROUP_ROOT:-/sys/fs/cgroup}
CGROUP_OF_SELF=${CGROUP_OF_SELF:-/proc/self/cgroup}
# Groups whose peak could not be set back, so that it is not this phase's.
declare -A CGROUP_STALE_PEAK=()

# The folder of the caller's own group in version 1.
cgroup_v1_path()
{
	local path

	path=$(awk -F: -v c="$1" '$2 == c { print $3 }' "$CGROUP_OF_SELF")
	[ -n "$path" ] && [ -d "$CGROUP_ROOT/$1$path" ] && echo "$CGROUP_ROOT/$1${path%/}"
}

# cgroup_version: 1 or 2, whichever has what we need; fails if neither.
cgroup_version()
{
	if cgroup_v1_path memory >/dev/null && cgroup_v1_path blkio >/dev/null; then
		echo 1
	elif grep -qw memory "$CGROUP_ROOT/cgroup.controllers" 2>/dev/null &&
		grep -qw io "$CGROUP_ROOT/cgroup.controllers"; then
		echo 2
	else
		return 1
	fi
}

# The folders in which groups are made: one a controller, or one for all.
cgroup_parents()
{
	case $(cgroup_version) in
		1) cgroup_v1_path memory; cgroup_v1_path blkio ;;
		2) echo "$CGROUP_ROOT" ;;
	esac
}

# cgroup_available: can this user make groups here that bound and count?
cgroup_available()
{
	local parent

	cgroup_version >/dev/null || return 1
	for parent in $(cgroup_parents); do
		[ -w "$parent" ] || return 1
	done
	[ "$(cgroup_version)" = 1 ] ||
		{ echo '+memory +io' >"$CGROUP_ROOT/cgroup.subtree_control"; } 2>/dev/null
}

# cgroup_create GROUP
cgroup_create()
{
	local parent

	for parent in $(cgroup_parents); do
		mkdir "$parent/$1" || return 1
		CGROUPS+=("$parent/$1")
	done
}

cgroup_exists()
{
	local parent

	parent=$(cgroup_parents | head -1)
	[ -n "$parent" ] && [ -d "$parent/$1" ]
}

# cgroup_enter GROUP: moves the calling subshell into the group.
cgroup_enter()
{
	local parent

	for parent in $(cgroup_parents); do
		echo "$BASHPID" >"$parent/$1/cgroup.procs"
	done
}

# cgroup_file GROUP V1-CONTROLLER V1-FILE V2-FILE: the file's path.
cgroup_file()
{
	if [ "$(cgroup_version)" = 1 ]; then
		echo "$(cgroup_v1_path "$2")/$1/$3"
	else
		echo "$CGROUP_ROOT/$1/$4"
	fi
}

# cgroup_bound_memory GROUP MB: processes, shared memory and page cache together.
cgroup_bound_memory()
{
	echo $(($2 * 1048576)) >"$(cgroup_file "$1" memory memory.limit_in_bytes memory.max)"
}

# cgroup_bound_reads GROUP "MAJOR:MINOR" READS-A-SECOND
cgroup_bound_reads()
{
	if [ "$(cgroup_version)" = 1 ]; then
		echo "$2 $3" >"$(cgroup_file "$1" blkio blkio.throttle.read_iops_device '')"
	else
		echo "$2 riops=$3" >"$(cgroup_file "$1" '' '' io.max)"
	fi
}

# cgroup_count_io GROUP "MAJOR:MINOR": makes the kernel count the group's disk
# traffic. Version 1 of recent kernels counts only where some throttle is set, so one
# that never binds is set; version 2 always counts.
cgroup_count_io()
{
	[ "$(cgroup_version)" = 2 ] ||
		echo "$2 $((1 << 40))" >"$(cgroup_file "$1" blkio blkio.throttle.read_bps_device '')"
}

# cgroup_io GROUP "MAJOR:MINOR": "reads read_bytes written_bytes" of the group so far.
cgroup_io()
{
	if [ "$(cgroup_version)" = 1 ]; then
		{
			sed 's/^/ops /' "$(cgroup_file "$1" blkio blkio.throttle.io_serviced '')"
			sed 's/^/bytes /' "$(cgroup_file "$1" blkio blkio.throttle.io_service_bytes '')"
		} | awk -v disk="$2" '
			$2 == disk && $3 == "Read" { if ($1 == "ops") reads = $4; else rbytes = $4 }
			$2 == disk && $3 == "Write" && $1 == "bytes" { wbytes = $4 }
			END { printf("%.0f %.0f %.0f\n", reads, rbytes, wbytes) }'
	else
		awk -v disk="$2" '
			$1 == disk { for (i = 2; i <= NF; i++) { split($i, f, "="); n[f[1]] = f[2] } }
			END { printf("%.0f %.0f %.0f\n", n["rios"], n["rbytes"], n["wbytes"]) }' \
			"$(cgroup_file "$1" '' '' io.stat)"
	fi
}

# cgroup_peak_reset GROUP: from now on the peak counts. Version 2 can do that since
# Linux 6.12 only; without it the group has no peak to tell.
cgroup_peak_reset()
{
	{ echo 0 >"$(cgroup_file "$1" memory memory.max_usage_in_bytes memory.peak)"; } 2>/dev/null ||
		CGROUP_STALE_PEAK[$1]=1
}

# cgroup_peak GROUP: the most bytes charged to it; nothing if that is not known.
cgroup_peak()
{
	[ -n "${CGROUP_STALE_PEAK[$1]:-}" ] ||
		cat "$(cgroup_file "$1" memory memory.max_usage_in_bytes memory.peak)" 2>/dev/null || true
}
