#!/bin/bash
# Try "make demo" and "make test" on fresh Debian machines.
#
#   src/test/fresh.sh [bare|server|headers]...     (as root; all three without arguments)
#
# A machine is a debootstrapped folder with a clone of the committed tree in which
# nothing is built: "bare" has Debian's required packages only, "server" also
# postgresql-15 without headers, "headers" postgresql-server-dev-15 without a server.
# Each runs in namespaces of its own, so nothing is left mounted or running.
#
#   FRESH_SUITE    Debian's release (default bookworm)
#   FRESH_MIRROR   where its packages come from
#   FRESH_BASE     a folder with a debootstrapped machine to copy, to save time
#   FRESH_TARGETS  what to make (default "demo test")
#
# Takes about ten minutes more than "make test" takes, for each machine. The last
# lines name each machine and target with "ok" or "FAILED".
set -u

. "$(dirname "$0")/cluster.sh"

FRESH_SUITE=${FRESH_SUITE:-bookworm}
FRESH_MIRROR=${FRESH_MIRROR:-http://deb.debian.org/debian}
FRESH_BASE=${FRESH_BASE:-}
FRESH_TARGETS=${FRESH_TARGETS:-demo test}
RESULTS=()
FAILED=''

[ "$(id -u)" = 0 ] || die "making machines needs root"

# in_machine FOLDER COMMAND: run in the machine, with processes and mounts of its own.
in_machine()
{
	unshare --mount --pid --fork --kill-child -- bash -c '
		set -e
		mount --make-rprivate /
		mount -t proc proc "$0/proc"
		mount --rbind /dev "$0/dev"
		mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
		exec chroot "$0" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 bash -c "$1"' "$1" "$2"
}

# The packages that a kind of machine has beyond the required ones.
packages_of()
{
	case $1 in
		bare) echo make ;;		# what runs "make" itself
		server) echo make postgresql-15 ;;
		headers) echo make postgresql-server-dev-15 ;;
		*) die "unknown machine \"$1\"" ;;
	esac
}

make_base()
{
	if [ -z "$FRESH_BASE" ]; then
		FRESH_BASE=$SCRATCH/base
		debootstrap --variant=minbase "$FRESH_SUITE" "$FRESH_BASE" "$FRESH_MIRROR" >"$SCRATCH/debootstrap.log" 2>&1 ||
			{ tail "$SCRATCH/debootstrap.log" >&2; die "debootstrap failed"; }
	fi
}

# make_machine KIND: prints nothing; the machine is in $SCRATCH/KIND.
make_machine()
{
	local kind=$1 machine=$SCRATCH/$1 packages

	packages=$(packages_of "$kind") || exit 1
	cp -a "$FRESH_BASE" "$machine"
	cp /etc/resolv.conf "$machine/etc/resolv.conf"
	git -c safe.directory='*' -C "$ROSE_ROOT" archive --prefix=root/rose/ HEAD | tar -C "$machine" -xf -
	in_machine "$machine" "apt-get update -q && apt-get install -y -q --no-install-recommends $packages" \
		>"$SCRATCH/$kind.packages.log" 2>&1 ||
		{ tail "$SCRATCH/$kind.packages.log" >&2; die "the packages of machine \"$kind\" could not be installed"; }
}

try_machine()
{
	local kind=$1 target log start

	make_machine "$kind"
	for target in $FRESH_TARGETS; do
		log=$SCRATCH/$kind.$target.log
		start=$SECONDS
		echo "== $kind: make $target"
		in_machine "$SCRATCH/$kind" "cd /root/rose && make $target" </dev/null 2>&1 | tee "$log" | tail -n 25
		if [ "${PIPESTATUS[0]}" = 0 ]; then
			RESULTS+=("ok      $kind: make $target ($((SECONDS - start)) s)")
		else
			RESULTS+=("FAILED  $kind: make $target ($((SECONDS - start)) s)")
			FAILED=1
			cp "$log" "${TMPDIR:-/tmp}/rose-fresh-$kind-$target.log"
			echo "-- the whole output is in ${TMPDIR:-/tmp}/rose-fresh-$kind-$target.log"
		fi
	done
	rm -rf "${SCRATCH:?}/$kind"
}

[ $# -gt 0 ] || set -- bare server headers
trap rose_cleanup EXIT
trap 'exit 130' INT TERM
scratch fresh
make_base
for kind in "$@"; do
	try_machine "$kind"
done
printf '%s\n' "${RESULTS[@]}"
[ -z "$FAILED" ]
