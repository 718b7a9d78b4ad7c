#!/bin/bash
# Does src/test/cgroup.sh write and read the right files of both versions?  Prints TAP.
#
# Folders stand for the kernel's, so it runs anywhere, as anybody. That the kernel
# then does what it is told is not tested here.
set -u

ROOT=$(mktemp -d)
trap 'rm -rf "$ROOT"' EXIT
CGROUP_OF_SELF=$ROOT/self
TESTS=0
FAILED=0

# is NAME FOUND EXPECTED
is()
{
	TESTS=$((TESTS + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $TESTS - $1"
	else
		FAILED=1
		printf 'not ok %s - %s\n#   found:    %s\n#   expected: %s\n' $TESTS "$1" "$2" "$3"
	fi
}

CGROUP_ROOT=$ROOT/v1
. "$(dirname "$0")/cgroup.sh"

mkdir -p "$CGROUP_ROOT/memory/me" "$CGROUP_ROOT/blkio"
printf '%s\n' '7:blkio:/' '4:memory:/me' >"$CGROUP_OF_SELF"
is 'version 1 is found' "$(cgroup_version)" 1
is 'version 1 can be used' "$(cgroup_available && echo yes)" yes
cgroup_create g
is 'version 1: one group a controller' "${CGROUPS[*]}" "$CGROUP_ROOT/memory/me/g $CGROUP_ROOT/blkio/g"
cgroup_bound_memory g 2
cgroup_bound_reads g 8:0 300
cgroup_count_io g 8:0
is 'version 1: memory' "$(cat "$CGROUP_ROOT/memory/me/g/memory.limit_in_bytes")" 2097152
is 'version 1: reads' "$(cat "$CGROUP_ROOT/blkio/g/blkio.throttle.read_iops_device")" '8:0 300'
printf '%s\n' '8:0 Read 7' '8:0 Write 8' '9:0 Read 70' >"$CGROUP_ROOT/blkio/g/blkio.throttle.io_serviced"
printf '%s\n' '8:0 Read 700' '8:0 Write 800' 'Total 1' >"$CGROUP_ROOT/blkio/g/blkio.throttle.io_service_bytes"
is 'version 1: traffic' "$(cgroup_io g 8:0)" '7 700 800'
echo 99 >"$CGROUP_ROOT/memory/me/g/memory.max_usage_in_bytes"
is 'version 1: peak' "$(cgroup_peak g)" 99

CGROUP_ROOT=$ROOT/v2
CGROUPS=()
mkdir "$CGROUP_ROOT"
echo '0::/user.slice' >"$CGROUP_OF_SELF"
is 'version 2 without controllers is none' "$(cgroup_version)" ''
is 'nothing can be used then' "$(cgroup_available || echo no)" no
is 'no group exists then' "$(cgroup_exists g || echo no)" no
echo 'cpuset cpu io memory pids' >"$CGROUP_ROOT/cgroup.controllers"
is 'version 2 is found' "$(cgroup_version)" 2
is 'version 2 can be used' "$(cgroup_available && echo yes)" yes
is 'version 2: controllers are passed on' "$(cat "$CGROUP_ROOT/cgroup.subtree_control")" '+memory +io'
cgroup_create g
is 'version 2: one group' "${CGROUPS[*]}" "$CGROUP_ROOT/g"
is 'version 2: it is there' "$(cgroup_exists g && echo yes)" yes
cgroup_bound_memory g 2
cgroup_bound_reads g 8:0 300
cgroup_count_io g 8:0
(cgroup_enter g; [ "$(cat "$CGROUP_ROOT/g/cgroup.procs")" = "$BASHPID" ])
is 'version 2: entered' $? 0
is 'version 2: memory' "$(cat "$CGROUP_ROOT/g/memory.max")" 2097152
is 'version 2: reads' "$(cat "$CGROUP_ROOT/g/io.max")" '8:0 riops=300'
printf '%s\n' '9:0 rbytes=1 wbytes=2 rios=3 wios=4' '8:0 rbytes=700 wbytes=800 rios=7 wios=9 dbytes=0 dios=0' >"$CGROUP_ROOT/g/io.stat"
is 'version 2: traffic' "$(cgroup_io g 8:0)" '7 700 800'
is 'version 2: traffic of a disk that was not used' "$(cgroup_io g 1:0)" '0 0 0'
is 'version 2: no peak on old kernels' "$(cgroup_peak g)" ''
echo 99 >"$CGROUP_ROOT/g/memory.peak"
is 'version 2: peak' "$(cgroup_peak g)" 99
rm "$CGROUP_ROOT/g/memory.peak" && mkdir "$CGROUP_ROOT/g/memory.peak"		# cannot be written
cgroup_peak_reset g
rmdir "$CGROUP_ROOT/g/memory.peak" && echo 99 >"$CGROUP_ROOT/g/memory.peak"
is 'version 2: a peak that cannot be set back is not told' "$(cgroup_peak g)" ''
echo "1..$TESTS"
exit $FAILED
