# Sixteen sessions that write a few keys again and again, with a model: a heap table is told in each transaction what the keys have now. So in every snapshot,
# however old, both must say the same, whichever way the rows are read: in order and back, by key, in the order of arrival, by cursors that are
# open while their own transaction writes on. Each row says by its text which version it is, so memory that is used again too early is seen.
#
# With a tiny arena, which is spilled and merged all the while, and a large one, which is not; sessions are ended and cancelled, and all are killed.
#
#   HOT_SEED      repeat a run, as far as timing lets it
#   HOT_FILES     scripts that each session runs, default 3
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $seed = seed_random('HOT_SEED');
my $files = $ENV{HOT_FILES} // 3;
my $sessions = 16;
my $keys = 60;
my @tables = qw(k c r p);
my $node = rose_node('hot_model', scan_settings(), 'autovacuum = off', 'fsync = off', 'max_connections = 60', 'max_prepared_transactions = 20', "deadlock_timeout = '20ms'", "backtrace_functions = 'null_of_tuple,version_is_gone'",
	rose_conf("rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'", 'rose.secondary_indexes = on'));

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub pick { return $_[ int rand @_ ] }

stop_points_create($node) unless $ENV{ROSE_STANDIN};

# k: a key of one column; c: of two, with an index; r: none; p: partitions.
sub create_tables
{
	sql(<<"SQL");
DROP TABLE IF EXISTS k, c, r, p, truth, bad;
CREATE OR REPLACE FUNCTION pad_of(n bigint) RETURNS text IMMUTABLE LANGUAGE sql AS \$\$ SELECT repeat(chr(65 + (n % 26)::int), (10 + n * 37 % 90 + CASE WHEN n % 50 = 0 THEN 3000 ELSE 0 END)::int) \$\$;
CREATE TABLE k (id int PRIMARY KEY, n bigint, pad text) USING rose;
CREATE TABLE c (a text DEFAULT 'a beginning that all keys have', id int, n bigint, pad text, PRIMARY KEY (a, id)) USING rose;
CREATE INDEX c_n ON c (n);
CREATE TABLE r (id int, n bigint, pad text) USING rose;
CREATE TABLE p (id int PRIMARY KEY, n bigint, pad text) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (5) USING rose;
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (5) TO (MAXVALUE) USING rose;
CREATE TABLE truth (t text, id int, n bigint, PRIMARY KEY (t, id)) USING heap;
CREATE TABLE bad (t text, what text) USING heap;
INSERT INTO k SELECT g, g, pad_of(g) FROM generate_series(1, $keys) g;
INSERT INTO c (id, n, pad) SELECT g, g, pad_of(g) FROM generate_series(1, $keys) g;
INSERT INTO r SELECT g, g, pad_of(g) FROM generate_series(1, $keys) g;
INSERT INTO p SELECT g, g, pad_of(g) FROM generate_series(1, $keys) g;
INSERT INTO truth SELECT t, g, g FROM unnest(ARRAY['k', 'c', 'r', 'p']) t, generate_series(1, $keys) g;

-- So many updates of a key, some of which are rolled back.
CREATE OR REPLACE FUNCTION hot(t text, k int, times int, undo bool) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE last bigint; now bigint; kept int := 0;
BEGIN
	FOR i IN 1 .. times LOOP
		EXECUTE format('UPDATE %I SET n = n + 1, pad = pad_of(n + 1) WHERE id = %s RETURNING n', t, k) INTO now;
		IF now <> last + 1 THEN RAISE EXCEPTION 'WRONG: % % has % after %', t, k, now, last; END IF;
		last := now;
		kept := kept + 1;
		IF undo AND i % 7 = 0 THEN
			BEGIN
				EXECUTE format('UPDATE %I SET n = n + 1000, pad = '''' WHERE id = %s', t, k);
				EXECUTE format('UPDATE %I SET n = n + 1000, pad = '''' WHERE id = %s', t, k);
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
		END IF;
	END LOOP;
	UPDATE truth SET n = n + kept WHERE truth.t = hot.t AND truth.id = hot.k;
END \$\$;
-- A row that goes and comes again, so often.  Nobody else writes it meanwhile: who has waited for a row that has gone finds none.
CREATE OR REPLACE FUNCTION anew(t text, k int, times int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE now bigint;
BEGIN
	PERFORM FROM truth WHERE truth.t = anew.t AND truth.id = anew.k FOR UPDATE;
	FOR i IN 1 .. times LOOP
		EXECUTE format('DELETE FROM %I WHERE id = %s RETURNING n', t, k) INTO now;
		EXIT WHEN now IS NULL;
		EXECUTE format('INSERT INTO %I (id, n, pad) VALUES (%s, %s, pad_of(%s))', t, k, now + 1, now + 1);
		UPDATE truth SET n = truth.n + 1 WHERE truth.t = anew.t AND truth.id = anew.k;
	END LOOP;
END \$\$;
-- In one snapshot, in all ways.
CREATE OR REPLACE FUNCTION look(t text, times int) RETURNS text LANGUAGE plpgsql STABLE AS \$\$
DECLARE
	rows_of text := format('SELECT x.id, x.n, x.pad FROM %I x ', t);
	question text;
	found text;
BEGIN
	FOR i IN 1 .. times LOOP
		FOREACH question IN ARRAY ARRAY[rows_of, rows_of || 'ORDER BY id', rows_of || 'ORDER BY id DESC', rows_of || 'ORDER BY n',
			format('SELECT y.id, x.n, x.pad FROM truth y, LATERAL (SELECT * FROM %I z WHERE z.id = y.id OFFSET 0) x WHERE y.t = %L', t, t),
			format('SELECT x.id, x.n, pad_of(x.n) AS pad FROM %I x', t)] LOOP
			EXECUTE format('SELECT string_agg(coalesce(a.id, b.id) || '': '' || coalesce(a.n::text, ''none'') || '' for '' || coalesce(b.n::text, ''none''), '', '')
				FROM (%s) a FULL JOIN (SELECT * FROM truth WHERE truth.t = %L) b ON a.id = b.id WHERE a.n IS DISTINCT FROM b.n OR a.pad IS DISTINCT FROM pad_of(b.n)', question, t) INTO found;
			IF found IS NOT NULL THEN RETURN 'WRONG: ' || t || ' by ' || question || ': ' || found; END IF;
		END LOOP;
		EXECUTE format('SELECT CASE WHEN count(*) <> $keys OR count(DISTINCT id) <> $keys THEN ''WRONG: %I has '' || count(*) END FROM %I', t, t) INTO found;
		IF found IS NOT NULL THEN RETURN found; END IF;
	END LOOP;
	RETURN NULL;
END \$\$;
SQL
	return;
}

# Keys that are hot are few; some rows go and come.
my $stays = $keys - 10;
sub key { return int(rand() < 0.8 ? 1 + rand 6 : 1 + rand $keys) }

# Statements that change a key, the heap table alike.
sub change
{
	my ($t, $k) = @_;
	my $n = 1 + int rand(pick(3, 20, 60));
	my $counted = "UPDATE truth SET n = n + $n WHERE t = '$t' AND id = $k;";
	my $one = "UPDATE $t SET n = n + 1, pad = pad_of(n + 1) WHERE id = $k;";

	return "SELECT anew('$t', $k, $n);" if $k > $stays;
	return join "\n", ($one) x $n, $counted if rand() < 0.3;
	return join "\n", ("INSERT INTO k VALUES ($k, 0, '') ON CONFLICT (id) DO UPDATE SET n = k.n + 1, pad = pad_of(k.n + 1);") x $n, $counted if $t eq 'k' && rand() < 0.2;
	return join "\n", 'SAVEPOINT s;', "UPDATE $t SET n = -1, pad = 'undone' WHERE id <= 6;", ($one) x $n, 'ROLLBACK TO s;', $one, 'SAVEPOINT s2;', ($one) x ($n - 1), 'RELEASE s2;', $counted if rand() < 0.2;
	return "SELECT hot('$t', $k, $n, " . pick('true', 'false') . ');';
}

# In ascending order of keys, so that few deadlocks come.
sub changes
{
	my ($t) = @_;

	return map { change($t, $_) } sort { $a <=> $b } map { key() } 1 .. 1 + rand 2;
}

sub cursor
{
	my ($t, $name) = @_;
	my $answer = "CASE WHEN x.n = (SELECT y.n FROM truth y WHERE y.t = '$t' AND y.id = x.id) AND x.pad = pad_of(x.n) THEN 'right' ELSE 'WRONG: $t by cursor ' || x.id || ' ' || x.n END";

	return "DECLARE $name " . pick('NO SCROLL CURSOR', 'CURSOR', 'SCROLL CURSOR') . " FOR SELECT $answer FROM $t x " . pick('', 'ORDER BY id', 'ORDER BY id DESC', 'WHERE id < 40') . ';';
}

sub transaction
{
	my ($n) = @_;
	my $t = pick(@tables);
	my $what = rand();
	my @script;

	# one that sees how it was for long
	return "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT look('$t', 1); SELECT pg_sleep(0.05); SELECT look('$t', 2); SELECT pg_sleep(0.1); SELECT look('$t', 1); COMMIT;" if $what < 0.15;
	return "SELECT look('$t', 1);" if $what < 0.25;
	return pick("SELECT rose.spill('$_[1]');", "SELECT rose.merge('$_[1]');") if $what < 0.3 && $_[1] && !$ENV{ROSE_STANDIN};
	push @script, 'BEGIN' . pick('', '', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE') . ';';
	push @script, changes($t);
	if (rand() < 0.5)
	{
		# the cursor's snapshot has what was written up to now, and not what comes
		push @script, cursor($t, 'c1'), 'FETCH ' . int(1 + rand 20) . ' FROM c1;', changes($t), cursor($t, 'c2'), 'FETCH 2 FROM c2;', changes($t),
		  'FETCH ' . int(1 + rand 20) . ' FROM c1;', 'FETCH ALL FROM c2;', changes($t), 'FETCH ALL FROM c1;';
	}
	push @script, pick('COMMIT;', 'COMMIT;', 'COMMIT;', 'ROLLBACK;', "PREPARE TRANSACTION 'x$n'; SELECT pg_sleep(0.02); " . pick('COMMIT', 'ROLLBACK') . " PREPARED 'x$n';");
	return join "\n", @script;
}

my $run = 0;

# A session with a script of its own; spilled: of which table it may order spills.
sub start
{
	my ($spilled) = @_;
	my $file = $node->basedir . '/' . ++$run . '.sql';
	my %one = (out => "$file.out", err => "$file.err");

	# not pipes: nobody reads them while sessions wait for each other
	append_to_file($file, join "\n", map { transaction("${run}_$_", $spilled) } 1 .. 12);
	$one{psql} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=writer', '-f', $file ], '<', '/dev/null', '>', $one{out}, '2>', $one{err}, IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
	return \%one;
}

my $expected = qr/deadlock|could not serialize|terminating connection|canceling|current transaction is aborted|server closed the connection|connection to server|server process|Is the server running|before or while processing|fatal error|is not found|cursor "c\d" does not exist|does not exist$|is busy|being spilled|the database system|SAVEPOINT can only|there is no transaction|savepoint "s2?"|locked|terminated abnormally|could not follow a row/;

# What sessions are told is right, and no error comes that need not.
sub finish
{
	my ($name, @running) = @_;
	my @wrong;

	foreach my $one (@running)
	{
		eval { $one->{psql}->finish };
		push @wrong, grep { /^WRONG/ } split /\n/, slurp_file($one->{out});
		push @wrong, grep { /ERROR|FATAL|PANIC/ && !/$expected/ } split /\n/, slurp_file($one->{err});
	}
	is(join("\n", @wrong), '', "$name: sessions were told what is right");
	return;
}

# A session that is still there may be quicker.
sub end_prepared
{
	foreach my $id (split /\n/, sql('SELECT gid FROM pg_prepared_xacts'))
	{
		$node->psql('postgres', pick('COMMIT', 'ROLLBACK') . " PREPARED '$id'");
	}
	return;
}

sub holds
{
	my ($name) = @_;

	end_prepared();
	is(sql("SELECT look(t, 1) FROM unnest(ARRAY['k', 'c', 'r', 'p']) t WHERE look(t, 1) IS NOT NULL"), '', "$name: the tables are the model's");
	is(join('', map { sql("SELECT c::text FROM rose.check('$_') c") } qw(k c r p_1 p_2 c_n)), '', "$name: nothing is wrong with them") unless $ENV{ROSE_STANDIN};
	return;
}

# Somebody ends and cancels sessions until those have ended that are there.
sub disturb
{
	my ($times) = @_;

	foreach (1 .. $times)
	{
		sql('SELECT ' . pick('pg_cancel_backend', 'pg_terminate_backend') . "(pid) FROM pg_stat_activity WHERE application_name = 'writer' AND random() < 0.1");
		select undef, undef, undef, 0.05;
	}
	# who was ended had prepared it, and nobody else would end it, while others wait for it
	end_prepared();
	return;
}

sub round
{
	my ($name, $spills, $disturb) = @_;
	my @running = map { start($spills ? pick(qw(k c r p_1 c_n)) : undef) } 1 .. $sessions;

	$disturb->();
	finish($name, @running);
	holds($name);
	return;
}

create_tables();
round('tiny arena', 1, sub { }) foreach 1 .. $files;
round('tiny arena, sessions are ended', 1, sub { disturb(20) });
round('tiny arena, all are killed', 1, sub { select undef, undef, undef, 1; crash_and_restart($node) });
$node->append_conf('postgresql.conf', join "\n", rose_conf("rose.memtable_size = '64MB'", "rose.spill_interval = '1h'"), '');
$node->restart;
create_tables();
my $keeper;
unless ($ENV{ROSE_STANDIN})
{
	# so small a table is read in the order of arrival, too
	$keeper = RoseTest::Session->new($node);
	$keeper->run("SELECT stop_at('arrival-small', 'skip', 'any', 0, 0), stop_at('arrival-batch', 'skip', 'any', 0, 0)");
}
round('large arena', 0, sub { }) foreach 1 .. $files;
round('large arena, sessions are ended', 0, sub { disturb(20) });
if ($keeper)
{
	is(sql("SELECT count(*) FROM rose.stat_components WHERE relname = 'k' AND kind LIKE '%run'"), 0, 'all of it is in memory');
	cmp_ok(sql("SELECT stop_hits('arrival-batch')"), '>', 100, 'rows were read in the order of arrival');
	$keeper->end;
}
round('large arena, all are killed', 0, sub { select undef, undef, undef, 1; crash_and_restart($node) });
$node->stop;
done_testing();
