# PostgreSQL's own TAP files with rose as the default access method. Sourced by run.sh.
#
# The files make their clusters themselves, by an initdb that is found first in PATH:
# it calls the real one, makes the extension and writes the settings. Changes of rose
# tables are not decoded, so in "subscription" those clusters have rose tables whose
# names say that they subscribe and not that they publish; elsewhere all have.
#
# "consumer" runs the files of "subscription" with subscriptions of rose: RoseConsumer.pm
# says in its words what they say in PostgreSQL's, and consumer-edits takes out of them
# what rose differs in by design.
#
# In the list of differences, the number is that of failed checks.

# write_initdb FILE: for all tests; CORE_SUITE tells it which suite it is.
write_initdb()
{
	as_pg tee "$1" >/dev/null <<-EOS
		#!/bin/bash
		"$PG_BIN/initdb" "\$@" || exit 1
		while [ \$# -gt 0 ]; do
			case \$1 in -D | --pgdata) data=\$2 ;; esac
			shift
		done
		[ -n "\${data:-}" ] || exit 0
		for database in template1 postgres; do
			echo 'CREATE EXTENSION rose;' |
				"$PG_BIN/postgres" --single -j -D "\$data" -c shared_preload_libraries=rose "\$database" >/dev/null 2>"\$data/../rose.log"
		done
		echo "shared_preload_libraries = 'rose'" >>"\$data/postgresql.conf"
		echo 'max_worker_processes = 16' >>"\$data/postgresql.conf"
		case \$CORE_SUITE:\${data%/pgdata} in
			subscription:*publisher* | consumer:*publisher*) exit 0 ;;
			subscription:*subscriber* | consumer:*subscriber* | subscription:*node_C* | consumer:*node_C* | tap/*)
				echo "default_table_access_method = '$CORE_AM'" >>"\$data/postgresql.conf"
				;;
		esac
		case \$CORE_SUITE in
			consumer)
				for database in template1 postgres; do
					"$PG_BIN/postgres" --single -j -D "\$data" "\$database" <"$HERE/consumer.sql" >/dev/null 2>>"\$data/../rose.log"
				done
				echo "rose.spill_interval = '1s'" >>"\$data/postgresql.conf"
				;;
		esac
		exit 0
	EOS
	as_pg chmod 755 "$1"
}

# tap_file SUITE FOLDER FILE: one file, in a folder of its own.
tap_file()
{
	local suite=$1 folder=$2 name out
	local file=$3 modules=()
	name=$(basename "$3" .pl)
	out=$SCRATCH/out/$suite/$name

	as_pg mkdir -p "$out"
	if [ "$suite" = consumer ]; then
		if grep -q "^! $name: " "$HERE/consumer-edits"; then
			sed -n "s|^! $name: |not run - $suite/$name: |p" "$HERE/consumer-edits"
			return
		fi
		file=$out/$name.pl
		perl "$HERE/edit.pl" "$HERE/consumer-edits" "$3" >"$file" || { result "$suite/$name" "could not be edited"; return; }
		modules=(-I "$HERE" -MRoseConsumer)
	fi
	(
		cd "$folder" &&
			as_pg env PATH="$SCRATCH/bin:$PG_BIN:$folder:$PATH" CORE_SUITE="$suite" TEMP_CONFIG="$SCRATCH/tap.conf" TESTDIR="$out" \
				TMPDIR="$SCRATCH" PGUSER=postgres PG_REGRESS="$CORE_BUILD/source/src/test/regress/pg_regress" with_icu=yes \
				PG_TEST_TIMEOUT_DEFAULT="${PG_TEST_TIMEOUT_DEFAULT:-120}" perl -I "$CORE_BUILD/source/src/test/perl" "${modules[@]}" "$file"
	) >"$out/out" 2>&1 </dev/null
	tap_result "$suite/$name" "$out" $?
}

# tap_result TEST OUT STATUS
tap_result()
{
	local test=$1 out=$2 status=$3 known failed found

	known=$(expected "$test")
	failed=$(grep -c '^not ok' "$out/out")
	if grep -q '^1\.\.0 # SKIP' "$out/out"; then
		echo "skipped - $test: $(sed -n 's/^1\.\.0 # SKIP *//p' "$out/out")"
		return
	fi
	if [ -n "$WRITE" ]; then
		[ "$status" = 0 ] || printf '%s\t%s\n' "$test" "$failed"
	elif [ "$status" = 0 ]; then
		result "$test" "${known:+no longer differs: take it off the list}"
	elif [ "$known" = - ] || [ "$known" = "$failed" ]; then
		result "$test"
	else
		result "$test" "$failed checks failed, expected are ${known:-none}"
		grep -E '^not ok|^Bail out' "$out/out"
		tail -n 5 "$out/out"
	fi
	[ -z "$WRITE" ] || return 0
	found=$(grep -hE 'TRAP:|PANIC:|was terminated by signal (6|7|11)' "$out"/tmp_check/log/*.log 2>"$out/unread" | head -n 3)
	[ -z "$found" ] || result "$test: the servers stood" "$found"
	found=$(grep -hE '\] XX... .*(ERROR|FATAL):' "$out"/tmp_check/log/*.log 2>"$out/unread" | grep -vE "$(core_internal_errors)" | head -n 3)
	[ -z "$found" ] || result "$test: no internal error" "$found"
}

# run_tap SUITE FOLDER [FILE]: all files of the folder, or one.
run_tap()
{
	local file

	if [ ! -d "$SCRATCH/bin" ]; then
		as_pg mkdir "$SCRATCH/bin"
		write_initdb "$SCRATCH/bin/initdb"
		echo "log_line_prefix = '%m [%p] %e %q%a '" | as_pg tee "$SCRATCH/tap.conf" >/dev/null
	fi
	for file in "$2"/t/${3:-*}.pl; do
		tap_file "$1" "$2" "$file"
	done
}
