#!/bin/bash
# Install what building and testing rose needs and this machine lacks.
#
# Does nothing when everything is there, so it is cheap to call first. Needs
# root and apt to install; without them it says what is missing and fails.
# Works with the PostgreSQL that PG_CONFIG names, or installs Debian's 15.
# BOOTSTRAP_WISHES names packages that would be nice to have: what can be
# installed of them is, the rest is left out.
#
#   bootstrap.sh             install
#   bootstrap.sh --missing   print what would be installed, one package a line
#
# What is missing is found by looking for the files that are needed, not for
# packages: test_bootstrap.sh has the combinations.
set -eu

PG_CONFIG=${PG_CONFIG:-pg_config}
DEBIAN_PG=15

# has_headers: does PG_CONFIG name a PostgreSQL that a module can be built for?
# Debian's client package has pg_config and PGXS already, but no server headers.
has_headers()
{
	[ -f "$("$PG_CONFIG" --pgxs 2>/dev/null)" ] &&
		[ -f "$("$PG_CONFIG" --includedir-server 2>/dev/null)/postgres.h" ]
}

# Prints the Debian packages that would provide what is missing.
missing_packages()
{
	local version='' bindir=''

	# pg_config alone may be the client library's, with no server to its version
	if command -v "$PG_CONFIG" >/dev/null 2>&1; then
		bindir=$("$PG_CONFIG" --bindir 2>/dev/null) || bindir=''
		version=$("$PG_CONFIG" --version 2>/dev/null | sed -nE 's/^PostgreSQL ([0-9]+).*/\1/p')
	fi
	version=${version:-$DEBIAN_PG}
	has_headers || echo "postgresql-server-dev-$version"
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
	if ! has_headers || grep -q '^#define USE_ICU' "$("$PG_CONFIG" --includedir-server)"/pg_config*.h 2>/dev/null; then
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

list_missing()
{
	missing_packages | tr ' ' '\n' | sort -u
}

if [ "${1:-}" = --missing ]; then
	list_missing
	exit 0
fi

wishes=$(missing_wishes)
if [ -n "$wishes" ]; then
	echo "installing, if it can be had:" $wishes
	{ apt-get update -q; DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $wishes; } >/dev/null 2>&1 || true
fi

packages=$(list_missing | tr '\n' ' ')
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

hash -r
packages=$(list_missing | tr '\n' ' ')
if [ -n "${packages% }" ]; then
	echo "still missing after the installation: $packages" >&2
	exit 1
fi
