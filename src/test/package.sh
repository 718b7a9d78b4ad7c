#!/bin/bash
# Build Debian packages of a copy of this tree, for all releases that are installed, and try them. Prints TAP, or that it
# is skipped: it needs dpkg-dev, debhelper and postgresql-all, and a user who may run servers.
#
# debian/rules runs debian/tests/smoke.sql with what each package would install.
set -u

ROOT=$(cd "$(dirname "$0")/../.." && pwd)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/rose-package.XXXXXX") || exit 1
trap 'rm -rf "$WORK"' EXIT
TESTS=0
FAILED=0

ok()
{
	TESTS=$((TESTS + 1))
	if [ "$1" = 0 ]; then
		echo "ok $TESTS - $2"
	else
		echo "not ok $TESTS - $2"
		FAILED=1
	fi
}

for tool in dpkg-buildpackage dh dh_pgxs_test pg_buildext pg_virtualenv; do
	if ! command -v "$tool" >/dev/null 2>&1; then
		echo "package .. skipped: there is no $tool"
		exit 0
	fi
done

mkdir "$WORK/rose"
tar -C "$ROOT" --exclude=./.git --exclude='*.o' --exclude='*.d' --exclude='*.so' --exclude='*.bc' --exclude='*.a' \
	--exclude=./src/test/unit/build --exclude=./bench/results --exclude='./tmp_*' --exclude='./out_*' -cf - . |
	tar -C "$WORK/rose" -xf -
cd "$WORK/rose" || exit 1

if ! dpkg-checkbuilddeps >"$WORK/missing" 2>&1; then
	echo "package .. skipped: $(sed "s/^.*: //" "$WORK/missing" | tail -n 1) is not there"
	exit 0
fi

# control is kept for the release of Debian's stable; here it is for those that are installed.
HOME=$WORK PG_UPDATECONTROL=yes dpkg-buildpackage -us -uc -b >"$WORK/build.log" 2>&1
status=$?
ok $status 'packages are built, and work'
[ $status = 0 ] || sed 's/^/# /' "$WORK/build.log" | tail -n 60

for package in "$WORK"/postgresql-*-rose_*.deb; do
	name=${package##*/}
	version=${name#postgresql-}
	version=${version%%-*}
	dpkg-deb -c "$package" >"$WORK/contents" 2>&1
	for file in "usr/lib/postgresql/$version/lib/rose.so" "usr/share/postgresql/$version/extension/rose.control" \
		$(cd "$ROOT" && for script in rose--*.sql rose--*.control; do echo "usr/share/postgresql/$version/extension/$script"; done) \
		"usr/share/doc/postgresql-$version-rose/copyright"; do
		grep -q " ./$file\$" "$WORK/contents"
		ok $? "$name has $file"
	done
	if command -v lintian >/dev/null 2>&1; then
		# of a package that Debian has not been asked to take, no bug is closed
		lintian --suppress-tags initial-upload-closes-no-bugs --fail-on error,warning "$package" >"$WORK/lintian" 2>&1
		status=$?
		ok $status "$name: lintian"
		[ $status = 0 ] || sed 's/^/# /' "$WORK/lintian"
	fi
done
echo "1..$TESTS"
[ "$FAILED" = 0 ]
