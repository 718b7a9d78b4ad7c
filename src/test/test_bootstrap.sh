#!/bin/bash
# Does bootstrap.sh see what a machine lacks?  Prints TAP.
#
# Each case is a machine: the list of the packages that it has. A folder stands for
# it that has what those packages bring of the files that bootstrap.sh looks for,
# programs of which only the answers matter, and no other PATH. So it runs
# anywhere, as anybody, and installs nothing.
set -u

BOOTSTRAP=$(cd "$(dirname "$0")" && pwd)/bootstrap.sh
ROOT=$(mktemp -d)
trap 'rm -rf "$ROOT"' EXIT
TESTS=0
FAILED=0

# program NAME: a program of the machine; its text on standard input.
program()
{
	mkdir -p "$MACHINE/bin"
	{ echo '#!/bin/bash'; cat; } >"$MACHINE/bin/$1"
	chmod +x "$MACHINE/bin/$1"
}

# file PATH: an empty file of the machine.
file()
{
	mkdir -p "$MACHINE/$(dirname "$1")"
	: >"$MACHINE/$1"
}

# A pg_config as the packages of version $1 have it. Debian's answers whether or not
# the headers are there.
pg_config_of()
{
	program pg_config <<-END
		case \$1 in
			--version) echo 'PostgreSQL $1 (Debian)' ;;
			--bindir) echo '$MACHINE/pg/bin' ;;
			--pgxs) echo '$MACHINE/pg/pgxs.mk' ;;
			--includedir-server) echo '$MACHINE/pg/include' ;;
		esac
	END
}

# has PACKAGE: what the package brings.
has()
{
	case $1 in
		gcc) program gcc <<-END
				header=\$(sed -n 's/^#include <\\(.*\\)>/\\1/p')
				[ -f "$MACHINE/include/\$header" ]
			END
			;;
		libc6-dev) file include/stdio.h ;;
		liblz4-dev) file include/lz4.h ;;
		libicu-dev) file include/unicode/ucol.h ;;
		make) program make </dev/null ;;
		perl) program prove </dev/null
			[ -f "$MACHINE/bin/perl" ] || echo 'exit 1' | program perl
			;;
		libipc-run-perl) program perl </dev/null ;;
		libpq-dev-*) pg_config_of "${1#libpq-dev-}.3" ;;
		postgresql-client-*) pg_config_of "${1#postgresql-client-}.3"
			file pg/pgxs.mk
			;;
		postgresql-server-dev-*) file pg/include/postgres.h
			echo '#define USE_ICU 1' >"$MACHINE/pg/include/pg_config.h"
			;;
		postgresql-[0-9]*) file pg/bin/postgres
			chmod +x "$MACHINE/pg/bin/postgres"
			;;
		*) echo "Bail out! no such package: $1"; exit 1 ;;
	esac
}

# machine_lacks NAME "PACKAGES IT HAS" "PACKAGES IT LACKS"
machine_lacks()
{
	local package tool found expected

	TESTS=$((TESTS + 1))
	MACHINE=$ROOT/$TESTS
	mkdir -p "$MACHINE/bin"
	for tool in bash sed grep tr sort cat; do
		ln -s "$(type -P $tool)" "$MACHINE/bin/$tool"
	done
	for package in $2; do
		has "$package"
	done
	found=$(env -i PATH="$MACHINE/bin" "$(type -P bash)" "$BOOTSTRAP" --missing 2>&1 | tr '\n' ' ')
	expected=$(tr ' ' '\n' <<<"$3" | sort -u | tr '\n' ' ')
	if [ "${found% }" = "$(sed 's/^ *//; s/ *$//' <<<"$expected")" ]; then
		echo "ok $TESTS - $1"
	else
		FAILED=1
		echo "not ok $TESTS - $1"
		echo "#   found:    $found"
		echo "#   expected: $expected"
	fi
}

TOOLS='gcc libc6-dev make perl libipc-run-perl liblz4-dev libicu-dev'

machine_lacks 'bare' '' \
	"postgresql-15 postgresql-server-dev-15 $TOOLS"
machine_lacks 'a server without headers' 'perl postgresql-client-15 postgresql-15' \
	'postgresql-server-dev-15 gcc libc6-dev make libipc-run-perl liblz4-dev libicu-dev'
machine_lacks 'a server without headers, and all tools' "$TOOLS postgresql-client-15 postgresql-15" \
	'postgresql-server-dev-15'
machine_lacks 'headers without a server' "$TOOLS postgresql-client-15 postgresql-server-dev-15" \
	'postgresql-15'
machine_lacks 'the client only' "$TOOLS postgresql-client-15" \
	'postgresql-15 postgresql-server-dev-15'
machine_lacks "the client library's headers only" "$TOOLS libpq-dev-15" \
	'postgresql-15 postgresql-server-dev-15'
machine_lacks 'another version, without headers' "$TOOLS postgresql-client-17 postgresql-17" \
	'postgresql-server-dev-17'
machine_lacks 'a compiler without headers' \
	'gcc make perl libipc-run-perl postgresql-client-15 postgresql-15 postgresql-server-dev-15' \
	'libc6-dev liblz4-dev libicu-dev'
machine_lacks 'everything' "$TOOLS postgresql-client-15 postgresql-15 postgresql-server-dev-15" ''
echo "1..$TESTS"
exit $FAILED
