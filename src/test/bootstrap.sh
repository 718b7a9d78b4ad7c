#!/bin/bash
# Install what building and testing rose needs and this machine lacks.
#
# Does nothing when everything is there, so it is cheap to call first. Needs
# root and apt to install; without them it says what is missing and fails.
# Works with the PostgreSQL that PG_CONFIG names, or installs Debian's 15.
# BOOTSTRAP_WISHES names packages that would be nice to have: what can be
# installed of them is, the rest is left out.
set -eu

PG_CONFIG=${PG_CONFIG:-pg_config}
DEBIAN_PG=15

# Prints the Debian packages that would provide what is missing.
missing_packages()
{
	local version=$DEBIAN_PG bindir=''

	if command -v "$PG_CONFIG" >/dev/null 2>&1 && [ -f "$("$PG_CONFIG" --pgxs 2>/dev/null)" ]; then
		bindir=$("$PG_CONFIG" --bindir)
		version=$("$PG_CONFIG" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
	else
		echo "postgresql-server-dev-$version"
	fi
	if [ -z "$bindir" ] || [ ! -x "$bindir/postgres" ]; then
		echo "postgresql-$version"
	fi
	if ! command -v gcc >/dev/null 2>&1; then
		echo gcc libc6-dev
	elif ! echo '#include <stdio.h>' | gcc -fsyntax-only -xc - >/dev/null 2>&1; then
		echo libc6-dev
	fi
	command -v make >/dev/null 2>&1 || echo make
	if ! echo '#include <lz4.h>' | gcc -fsyntax-only -xc - >/dev/null 2>&1; then
		echo liblz4-dev
	fi
	# headers of a server with ICU include ICU's
	if [ -n "$bindir" ] && grep -q '^#define USE_ICU' "$("$PG_CONFIG" --includedir-server)"/pg_config*.h 2>/dev/null || [ -z "$bindir" ]; then
		echo '#include <unicode/ucol.h>' | gcc -fsyntax-only -xc - >/dev/null 2>&1 || echo libicu-dev
	fi
	perl -MIPC::Run -MTest::More -MTime::HiRes -e1 >/dev/null 2>&1 || echo libipc-run-perl
	command -v prove >/dev/null 2>&1 || echo perl
}

# Prints which of the wishes are not installed, if they can be.
missing_wishes()
{
	local package

	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
	for package in ${BOOTSTRAP_WISHES:-}; do
		dpkg -s "$package" >/dev/null 2>&1 || echo "$package"
	done
}

wishes=$(missing_wishes)
if [ -n "$wishes" ]; then
	echo "installing, if it can be had:" $wishes
	{ apt-get update -q; DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $wishes; } >/dev/null 2>&1 || true
fi

packages=$(missing_packages | tr ' \n' '\n\n' | sort -u | tr '\n' ' ')
packages=${packages% }
[ -z "$packages" ] && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "rose needs these Debian packages, or their like: $packages" >&2
	echo "Install them, or run this again as root." >&2
	exit 1
fi

echo "installing: $packages"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
if ! { apt-get update -q && apt-get install -y -q --no-install-recommends $packages; } >"$log" 2>&1; then
	tail -30 "$log" >&2
	exit 1
fi

packages=$(missing_packages | tr '\n' ' ')
if [ -n "${packages% }" ]; then
	echo "still missing after the installation: $packages" >&2
	exit 1
fi
