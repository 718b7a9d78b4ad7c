# Many sessions write the same few keys in every way there is, while tables are spilled and merged, statements are cancelled, sessions end, transactions are
# prepared and rolled back, in a tiny arena. Each change is written down in the same transaction, in a heap table that nobody updates: how many rows
# it has made and removed, and what it has added to the sum of a column. So whatever becomes of a transaction, counts and sums of the tables
# agree with the notes, or an update was lost, or done twice. Afterwards the server is killed, and the tables are merged. Environment:
#
#   STORM_SEED      repeat a run, as far as many sessions can
#   STORM_SECONDS   default 8
#   STORM_SESSIONS  default 8
#   STORM_KEYS      default 60
#   STORM_ARENA     in MB, default 4
use strict;
use warnings;

use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $seconds = $ENV{STORM_SECONDS} // 8;
my $sessions = $ENV{STORM_SESSIONS} // 8;
my $keys = $ENV{STORM_KEYS} // 60;
my $arena = $ENV{STORM_ARENA} // 4;
my $seed = seed_random('STORM_SEED');
my $node = rose_node('storm', scan_settings(), 'autovacuum = off', 'fsync = off', 'max_connections = 100', 'max_prepared_transactions = 20', 'deadlock_timeout = 50ms',
	rose_conf("rose.memtable_size = '${arena}MB'", "rose.debug_piece_size = '8kB'"));
my $files = $node->basedir;
my $conninfo = $node->connstr('postgres');
my @leaves = qw(t1 t2_0 t2_1 t2_2 t3 t4 t5);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }

# t1 plain, t2 partitioned, t3 with a key that has no hash in prefixes, t4 without a key, t5 referenced.
sql(<<'SQL');
CREATE TABLE t1 (id int PRIMARY KEY, v int, mark bigint) USING rose;
CREATE TABLE t2 (id int PRIMARY KEY, v int, mark bigint) PARTITION BY HASH (id);
CREATE TABLE t2_0 PARTITION OF t2 FOR VALUES WITH (MODULUS 3, REMAINDER 0) USING rose;
CREATE TABLE t2_1 PARTITION OF t2 FOR VALUES WITH (MODULUS 3, REMAINDER 1) USING rose;
CREATE TABLE t2_2 PARTITION OF t2 FOR VALUES WITH (MODULUS 3, REMAINDER 2) USING rose;
CREATE TABLE t3 (id money PRIMARY KEY, v int, mark bigint) USING rose;
CREATE TABLE t4 (id int, v int, mark bigint) USING rose;
CREATE TABLE t5 (id int PRIMARY KEY, v int, mark bigint) USING rose;
CREATE TABLE child (c bigserial, pid int REFERENCES t5 (id)) USING heap;
CREATE TABLE done (tab text, op int, inserted bigint, deleted bigint, added bigint, by int) USING heap;
CREATE SEQUENCE marks;
SQL

# One change of a table: how many rows it has inserted and deleted, and what it has added to the sum of v.
sql(<<'SQL');
CREATE FUNCTION change(tab text, op int, keys int, files text, OUT inserted bigint, OUT deleted bigint, OUT added bigint) LANGUAGE plpgsql AS $$
DECLARE
	type text := CASE tab WHEN 't3' THEN 'money' ELSE 'int' END;
	a int := random() * keys;
	b int := random() * keys;
	m bigint;
	old bigint;
BEGIN
	inserted := 0; deleted := 0; added := 0;
	IF op IN (0, 1) THEN
		EXECUTE format('COPY %I (id, v) FROM %L', tab, files || '/f' || floor(random() * 60)::int);
		GET DIAGNOSTICS inserted = ROW_COUNT;
		added := inserted;
	ELSIF op = 2 THEN
		EXECUTE format('INSERT INTO %I SELECT g::%s, 1, 0 FROM generate_series(%s, %s) g ON CONFLICT DO NOTHING', tab, type, a, a + 5);
		GET DIAGNOSTICS inserted = ROW_COUNT;
		added := inserted;
	ELSIF op = 3 THEN
		EXECUTE format('INSERT INTO %I SELECT g::%s, 1, 0 FROM generate_series(%s, %s) g', tab, type, a, a + 1);
		GET DIAGNOSTICS inserted = ROW_COUNT;
		added := inserted;
	ELSIF op IN (4, 5) AND tab <> 't4' THEN
		m := nextval('marks');
		EXECUTE format('WITH w AS (INSERT INTO %I AS o SELECT g::%s, 1, %s FROM generate_series(%s, %s) g ON CONFLICT (id) DO UPDATE SET v = o.v + 1 RETURNING mark = %s AS new)
			SELECT count(*) FILTER (WHERE new), count(*) FROM w', tab, type, m, a, a + 3, m) INTO inserted, added;
	ELSIF op = 6 THEN
		EXECUTE format('UPDATE %I SET id = %s::%s WHERE id = %s::%s', tab, a, type, b, type);
	ELSIF op = 7 THEN
		EXECUTE format('WITH w AS (DELETE FROM %I WHERE id BETWEEN %s::%s AND %s::%s RETURNING v) SELECT count(*), -coalesce(sum(v), 0) FROM w', tab, a, type, a + 4, type) INTO deleted, added;
	ELSIF op IN (8, 9) THEN
		EXECUTE format('UPDATE %I SET v = v + 1 WHERE id = %s::%s', tab, a, type);
		GET DIAGNOSTICS added = ROW_COUNT;
	ELSIF op = 10 AND tab <> 't4' THEN
		EXECUTE format('SELECT v FROM %I WHERE id = %s::%s FOR %s %s', tab, a, type,
			(ARRAY['UPDATE', 'NO KEY UPDATE'])[1 + floor(random() * 2)], (ARRAY['', '', 'SKIP LOCKED', 'NOWAIT'])[1 + floor(random() * 4)]) INTO old;
		IF old IS NOT NULL THEN
			PERFORM pg_sleep(CASE WHEN random() < 0.3 THEN 0.003 ELSE 0 END);
			EXECUTE format('UPDATE %I SET v = %s WHERE id = %s::%s', tab, old + 1, a, type);
			GET DIAGNOSTICS added = ROW_COUNT;
			IF added <> 1 AND current_setting('transaction_isolation') = 'read committed' THEN
				INSERT INTO done VALUES ('lost', 99, 0, 0, 0, a);
			END IF;
		END IF;
	ELSIF op = 11 AND tab <> 't4' THEN
		EXECUTE format('SELECT count(*) FROM (SELECT FROM %I WHERE id BETWEEN %s::%s AND %s::%s FOR %s) w', tab, a, type, a + 3, type,
			(ARRAY['SHARE', 'KEY SHARE'])[1 + floor(random() * 2)]);
	ELSIF op = 12 AND tab = 't5' THEN
		IF random() < 0.5 THEN
			INSERT INTO child (pid) VALUES (a);
		ELSE
			DELETE FROM child WHERE pid IN (a, b);
		END IF;
	END IF;
END $$;
CREATE FUNCTION changes(tab text, keys int, files text, n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	op int;
BEGIN
	FOR i IN 1..n LOOP
		op := floor(random() * 13);
		BEGIN
			INSERT INTO done SELECT tab, op, c.*, pg_backend_pid() FROM change(tab, op, keys, files) c;
			IF random() < 0.1 THEN
				RAISE EXCEPTION 'taken back';
			END IF;
		EXCEPTION WHEN unique_violation OR raise_exception OR deadlock_detected OR lock_not_available OR foreign_key_violation OR serialization_failure THEN
			IF current_setting('transaction_isolation') <> 'read committed' AND SQLSTATE = '40001' THEN
				RAISE;
			END IF;
		END;
	END LOOP;
END $$;
SQL

# What COPY reads: a few keys, in order or not.
foreach my $i (0 .. 59)
{
	my $from = int(rand($keys));
	my %few = map { $from + int(rand(12)) => 1 } 1 .. 1 + int(rand(6));
	my @few = sort { $a <=> $b } keys %few;

	append_to_file("$files/f$i", join '', map { "$_\t1\n" } $i % 3 ? reverse @few : @few);
}

# The same row again and again in one transaction, with savepoints.
sub hot_row
{
	my $table = pick('t1', 't5');
	my $key = int(rand($keys));
	my $update = sub { "WITH w AS (UPDATE $table SET v = v + 1 WHERE id = $key RETURNING v) INSERT INTO done SELECT '$table', $_[0], 0, 0, count(*) FROM w; " };
	my $sql = 'BEGIN; ';

	for (1 .. 2 + int(rand(8)))
	{
		$sql .= $update->(50);
		$sql .= 'SAVEPOINT s; ' . $update->(51) x (1 + int(rand(3))) . pick('ROLLBACK TO s; ', 'RELEASE s; ') if rand() < 0.3;
	}
	return $sql . 'COMMIT;';
}

sub transaction
{
	my ($name) = @_;
	my $call = sprintf("SELECT changes('t%d', $keys, '$files', %d)", 1 + int(rand(5)), 1 + int(rand(6)));
	my $dice = rand();

	return "BEGIN ISOLATION LEVEL REPEATABLE READ; $call; COMMIT;" if $dice < 0.2;
	return "BEGIN; $call; PREPARE TRANSACTION '$name'; SELECT pg_sleep(0.005); " . pick('COMMIT', 'COMMIT', 'ROLLBACK') . " PREPARED '$name';" if $dice < 0.3;
	return "BEGIN; $call; ROLLBACK;" if $dice < 0.35;
	return hot_row() if $dice < 0.6;
	return "$call;";
}

# A process that does something until time is up.
sub background
{
	my ($number, $do) = @_;
	my $until = time + $seconds;
	my $pid = fork() // die "could not fork: $!";

	return $pid if $pid;
	srand($seed * 1000 + $number);
	$do->() while time < $until;
	POSIX::_exit(0);
}

# Whoever is cancelled or ended by others begins again.
sub writer
{
	my ($number) = @_;

	open my $psql, '|-', "PGAPPNAME=writer psql -XAtq -v VERBOSITY=verbose -d '$conninfo' >/dev/null 2>>$files/err$number" or die "could not start psql: $!";
	local $SIG{PIPE} = 'IGNORE';
	print $psql transaction("g$number.$_"), "\n" foreach 1 .. 20;
	close $psql;
	return;
}

sub disturb
{
	my $maintain = $ENV{ROSE_STANDIN} ? 'SELECT 1' : sprintf("SELECT rose.%s('%s')", pick(qw(spill spill merge)), pick(@leaves));
	my $signal = rand() < 0.05 ? 'terminate' : 'cancel';
	my $victims = "SELECT pid FROM pg_stat_activity WHERE application_name = 'writer' AND state = 'active' ORDER BY random() LIMIT 2";
	my $hit = rand() < 0.5 ? "SELECT pg_${signal}_backend(pid) FROM ($victims) x" : 'SELECT 1';

	system("psql -XAtq -d '$conninfo' -c \"$maintain\" -c \"$hit\" >/dev/null 2>>$files/errm");
	select undef, undef, undef, 0.02;
	return;
}

my @pids = (background(0, \&disturb), map { my $number = $_; background($number, sub { writer($number) }) } 1 .. $sessions);

# Nobody may wait for ever: then it is shown who waits for what.
sub wait_for_all
{
	my $deadline = time + $seconds + $PostgreSQL::Test::Utils::timeout_default;
	my %left = map { $_ => 1 } @pids;

	while (%left && time < $deadline)
	{
		delete $left{$_} foreach grep { waitpid($_, POSIX::WNOHANG()) != 0 } keys %left;
		# who was ended behind PREPARE TRANSACTION has left it to nobody, and others wait for it
		$node->psql('postgres', "ROLLBACK PREPARED '$_'") foreach split /\n/,
		  sql("SELECT gid FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - interval '2 s'");
		select undef, undef, undef, 0.1;
	}
	return 1 if !%left;
	diag(sql("SELECT pid, state, wait_event_type, wait_event, now() - query_start, left(query, 100) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"));
	diag(sql('SELECT pid, locktype, relation::regclass, transactionid, mode, granted FROM pg_locks WHERE pid IN (SELECT pid FROM pg_locks WHERE NOT granted)'));
	kill 'KILL', keys %left;
	return 0;
}

ok(wait_for_all(), 'everybody comes to an end') or BAIL_OUT('sessions hang');
sql("COMMIT PREPARED '$_'") foreach split /\n/, sql('SELECT gid FROM pg_prepared_xacts');

sub check
{
	my ($when) = @_;

	foreach my $t (map { "t$_" } 1 .. 5)
	{
		is(sql("SELECT count(*), coalesce(sum(v), 0) FROM $t"), sql("SELECT coalesce(sum(inserted) - sum(deleted), 0), coalesce(sum(added), 0) FROM done WHERE tab = '$t'"), "$when: $t has what was written");
		next if $t eq 't4';
		is(sql("SELECT count(*) FROM (SELECT FROM $t GROUP BY id HAVING count(*) > 1) x"), 0, "$when: $t has each key once");
		is(sql("SET enable_seqscan = off; SELECT count(*) FROM generate_series(0, $keys + 100) g JOIN $t ON $t.id = g" . ($t eq 't3' ? '::money' : '')), sql("SELECT count(*) FROM $t"), "$when: all rows of $t by their keys");
	}
	is(sql('SELECT count(*) FROM child WHERE pid NOT IN (SELECT id FROM t5)'), 0, "$when: no row refers to nothing");
	is(sql("SELECT count(*) FROM done WHERE tab = 'lost'"), 0, "$when: whoever had locked a row could update it");
	return if $ENV{ROSE_STANDIN};
	is(sql("SELECT c::text FROM rose.check('$_') c"), '', "$when: $_ is sound") foreach @leaves;
	return;
}

check('afterwards');
cmp_ok(sql('SELECT count(DISTINCT op) FROM done'), '>', 10, 'changes of many kinds');
crash_and_restart($node);
check('after a crash');
if (!$ENV{ROSE_STANDIN})
{
	sql("SELECT rose.merge('$_')") foreach @leaves;
	check('merged');
}

# What may happen, and what may not.
my %state;
foreach my $name (glob "$files/err*")
{
	my $text = slurp_file($name);

	$state{$1}++ while $text =~ /(?:ERROR|FATAL|PANIC): +([0-9A-Z]{5}):/g;
}
diag('errors: ' . join(', ', map { "$_ $state{$_}" } sort keys %state));
is(join(' ', grep { /^(XX|58)/ } sort keys %state), '', 'no internal errors');
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal (?!9)/, 'no process has failed');
$node->stop;
done_testing();
