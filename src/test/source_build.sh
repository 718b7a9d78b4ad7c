#!/bin/bash
# Build a PostgreSQL from source for tests that Debian's cannot serve.
#
#   src/test/source_build.sh FOLDER
#
# FOLDER/source is the built source tree, FOLDER/postgresql the installation;
# what is there already is kept, so a second call costs nothing. Prints nothing but
# messages; the caller uses FOLDER/postgresql/bin/pg_config.
#
# It has assertions, and tells valgrind of its memory. The source is PG_SOURCE, a folder that is copied, or else Debian's package
# postgresql-15 of the configured mirror. Installs what the build needs (as root).
# Takes about three minutes on two cores.
set -eu

FOLDER=$1
MAJOR=${PG_MAJOR:-15}
MIRROR=${FRESH_MIRROR:-http://deb.debian.org/debian}

die() { echo "error: $*" >&2; exit 1; }

# install_tools PACKAGE...: those that are missing.
install_tools()
{
	local package missing=()

	for package in "$@"; do
		dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" = 0 ] || die "these packages are needed: ${missing[*]}"
	echo "installing: ${missing[*]}"
	apt-get update -q >/dev/null
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
}

# Debian's source package, by lists of our own: the system's need not name sources.
# The newest version that the mirror names may not be there yet, or no longer.
fetch_source()
{
	local apt=$FOLDER/apt suite version options

	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	mkdir -p "$apt/lists/partial"
	echo "deb-src $MIRROR $suite main" >"$apt/sources.list"
	options=(-o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "Dir::State::Lists=$apt/lists" -o "Dir::Cache::srcpkgcache=" -o "Dir::Cache::pkgcache=")
	apt-get "${options[@]}" update -q >/dev/null
	for version in $(apt-cache "${options[@]}" showsrc "postgresql-$MAJOR" | sed -n 's/^Version: //p' | sort -rV); do
		(cd "$FOLDER" && apt-get "${options[@]}" source -q "postgresql-$MAJOR=$version" >"$FOLDER/fetch.log" 2>&1) || continue
		mv "$FOLDER/postgresql-$MAJOR-"*/ "$FOLDER/source"
		return
	done
	tail -5 "$FOLDER/fetch.log" >&2
	die "the source of postgresql-$MAJOR could not be fetched; set PG_SOURCE to a folder with it"
}

# Debian's patch puts modules into the system's folder, whatever the prefix is.
own_library_folder()
{
	# shellcheck disable=SC2016
	sed -i '0,/^pkglibdir = .*/s//pkglibdir = $(libdir)\/postgresql/' "$FOLDER/source/src/Makefile.global.in"
}

build()
{
	cd "$FOLDER/source"
	own_library_folder
	./configure --prefix="$FOLDER/postgresql" --enable-cassert --enable-debug --enable-tap-tests \
		--with-lz4 --with-icu --with-openssl CFLAGS='-O1 -g -fno-omit-frame-pointer -DUSE_VALGRIND'
	make -s -j"$(nproc)" world-bin
	make -s install-world-bin
	make -s -C src/test/regress
	make -s -C src/test/isolation
	build_modules
}

# Extensions that PostgreSQL has for its tests only.
build_modules() { make -s -C "$FOLDER/source/src/test/modules" && make -s -C "$FOLDER/source/src/test/modules" install; }

mkdir -p "$FOLDER"
FOLDER=$(cd "$FOLDER" && pwd)
if [ -e "$FOLDER/built" ]; then
	# builds of before have no modules
	[ -e "$("$FOLDER/postgresql/bin/pg_config" --pkglibdir)/test_ddl_deparse.so" ] || build_modules >>"$FOLDER/build.log" 2>&1 </dev/null
	exit 0
fi
install_tools gcc libc6-dev make dpkg-dev bison flex pkg-config libreadline-dev zlib1g-dev libssl-dev \
	libicu-dev liblz4-dev libipc-run-perl valgrind
if [ ! -d "$FOLDER/source" ]; then
	if [ -n "${PG_SOURCE:-}" ]; then
		cp -a "$PG_SOURCE" "$FOLDER/source"
		make -s -C "$FOLDER/source" distclean >/dev/null 2>&1 || true
	else
		echo "fetching the source of PostgreSQL $MAJOR"
		fetch_source
	fi
fi
echo "building PostgreSQL with assertions in $FOLDER"
if ! build >"$FOLDER/build.log" 2>&1 </dev/null; then
	tail -20 "$FOLDER/build.log" >&2
	die "PostgreSQL could not be built; see $FOLDER/build.log"
fi
touch "$FOLDER/built"
