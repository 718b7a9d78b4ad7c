# Eight writers, with a model, beside CREATE, REINDEX and DROP INDEX CONCURRENTLY of unique and plain indexes: whatever index is valid answers as a sequential scan
# does, in every snapshot; when all have ended, the table is the model's, no two rows have one value, and rose.check is content both ways.
#
#   MODEL_SEED      repeat a run, as far as timing lets it
#   MODEL_SECONDS   how long they write, default 20
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use RoseUniqueModel;
use Test::More;

my $seed = seed_random('MODEL_SEED');
my $seconds = $ENV{MODEL_SECONDS} // 20;
my $node = rose_node('index_model', 'autovacuum = off', 'fsync = off', 'max_connections = 60', 'max_prepared_transactions = 20', "deadlock_timeout = '20ms'",
	rose_conf("rose.memtable_size = '4MB'", "rose.debug_piece_size = '64kB'", 'rose.secondary_indexes = on'));
my @tables = qw(t k);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }

model_create($node, 't', 'keyed');
model_create($node, 'k', 'keyless');
sql(<<'SQL');
CREATE TABLE answers (relation text, question text, found text, expected text) USING heap;
CREATE TABLE used (index text, n bigint) USING heap;
CREATE TABLE built (index text, how text) USING heap;

-- Ask the index that the planner takes, and the rows.
CREATE FUNCTION ask(t text, question text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	expected text; found text; line text; name text;
BEGIN
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
	EXECUTE question INTO expected;
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || question LOOP
		name := coalesce(name, substring(line FROM 'Index.* Scan.* using (\w+) on'));
	END LOOP;
	EXECUTE question INTO found;
	INSERT INTO used VALUES (name, length(found));
	IF found IS DISTINCT FROM expected THEN INSERT INTO answers VALUES (t, question, found, expected); END IF;
END $$;
CREATE PROCEDURE ask_all(t text, n int) LANGUAGE plpgsql AS $$
DECLARE
	v int; w int;
BEGIN
	FOR i IN 1 .. n LOOP
		v := random() * 100000;
		w := v + 10 ^ (random() * 5)::int;
		PERFORM ask(t, format('SELECT string_agg(p || '':'' || u, '' '' ORDER BY p, u) FROM %I WHERE p BETWEEN %s AND %s', t, v, w));
		PERFORM ask(t, format('SELECT string_agg(p::text, '' '') FROM (SELECT p FROM %I WHERE p > %s ORDER BY p) x', t, v));
		PERFORM ask(t, format('SELECT string_agg(u::text, '' '' ORDER BY u) FROM %I WHERE b = %s', t, (random() * 4)::int - 1));
		PERFORM ask(t, format('SELECT count(*) || '' '' || sum(u) FROM %I WHERE b > 0 AND p > %s', t, v));
		PERFORM ask(t, format('SELECT string_agg(u::text, '' '' ORDER BY u) FROM %I WHERE p IN (SELECT p FROM %I WHERE a BETWEEN %s AND %s)', t, t, v / 1000, v / 1000 + 9));
	END LOOP;
END $$;
CREATE FUNCTION note_built(name text) RETURNS void LANGUAGE sql AS
	$$ INSERT INTO built SELECT name, CASE WHEN indisvalid THEN 'valid' ELSE 'failed' END FROM pg_index WHERE indexrelid = to_regclass(name) $$;
SQL

# What has two rows of one value in p loses one; others may make it again.
sub alone
{
	my ($t) = @_;

	return "DO \$\$ DECLARE r $t; BEGIN FOR r IN DELETE FROM $t USING $t o WHERE $t.p = o.p AND $t.u > o.u RETURNING $t.* LOOP PERFORM ${t}_is_not(r); END LOOP; END \$\$;";
}

sub builder
{
	my ($t) = @_;
	my @script = ("SET statement_timeout = '60s';");

	foreach (1 .. 200)
	{
		my $calm = "SET statement_timeout = '60s';";
		my $hurry = rand() < 0.2 ? "SET statement_timeout = " . int(5 + rand 200) . ';' : '';
		my $unique = pick('(p)', '(p DESC) INCLUDE (u)', '(abs(p)) WHERE a IS NOT NULL', '(p, id)');
		my $plain = pick('(p)', '(b, p)', '(b DESC NULLS LAST) INCLUDE (u, p)', '((p % 1000), b)', '(p) WHERE b > 0', '((100 / a), p)', '(b, pad, p)');

		push @script,
		  pick(
			alone($t) . " DROP INDEX CONCURRENTLY IF EXISTS ${t}_p;\n$hurry CREATE UNIQUE INDEX CONCURRENTLY ${t}_p ON $t $unique;\n$calm SELECT note_built('${t}_p');",
			"DROP INDEX CONCURRENTLY IF EXISTS ${t}_b;\n$hurry CREATE INDEX CONCURRENTLY ${t}_b ON $t $plain;\n$calm SELECT note_built('${t}_b');",
			"$hurry REINDEX INDEX CONCURRENTLY ${t}_b; $calm",
			alone($t) . " $hurry REINDEX INDEX CONCURRENTLY ${t}_p; $calm",
			"$hurry REINDEX INDEX CONCURRENTLY ${t}_" . pick(qw(a c l)) . "; $calm",
			rand() < 0.3 ? "$hurry REINDEX TABLE CONCURRENTLY $t; $calm" : '',
			rand() < 0.3 ? "$hurry DROP INDEX CONCURRENTLY ${t}_" . pick(qw(b p)) . "; $calm" : '');
		# what a build that was cancelled has left
		push @script, "SELECT format('DROP INDEX CONCURRENTLY %I', c.relname) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = '$t'::regclass AND NOT indisvalid AND c.relname ~ '_cc(new|old)' \\gexec";
		push @script, "BEGIN ISOLATION LEVEL REPEATABLE READ; CALL ask_all('$t', 2); COMMIT;";
	}
	return join "\n", @script;
}

# Builds that nothing can make fail but time, each index asked when it is there.
sub calm_builder
{
	my ($t) = @_;

	return "SET statement_timeout = '60s';\n" . <<"SQL" x 100;
DROP INDEX CONCURRENTLY IF EXISTS ${t}_p;
CREATE UNIQUE INDEX CONCURRENTLY ${t}_p ON $t (p, u);
SELECT note_built('${t}_p');
DROP INDEX CONCURRENTLY IF EXISTS ${t}_b;
CREATE INDEX CONCURRENTLY ${t}_b ON $t (b, p);
SELECT note_built('${t}_b');
BEGIN ISOLATION LEVEL REPEATABLE READ; CALL ask_all('$t', 5); COMMIT;
SQL
}

# Snapshots that are older than indexes.
sub reader
{
	return join "\n", map { my $t = pick(@tables); "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $t; SELECT pg_sleep(0.1); CALL ask_all('$t', 2); COMMIT;" } 1 .. 300;
}

sub spiller
{
	return join "\n", map { my $t = pick(@tables); pick("SELECT rose.spill('$t');", "SELECT rose.merge('$t');", "SELECT rose.spill('${t}_a');", "SELECT rose.merge('${t}_p');", 'SELECT pg_sleep(0.1);') } 1 .. 500;
}

# Runs until it is ended.
sub start
{
	my ($name, $script) = @_;
	my $file = $node->basedir . "/$name.sql";
	my %run = (name => $name, out => '', err => '');

	unlink $file;
	append_to_file($file, $script);
	$run{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . " application_name=$name", '-f', $file ], '>', \$run{out}, '2>', \$run{err}, IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
	return \%run;
}

# All of them, for some seconds.
sub all_together
{
	my ($builder) = @_;
	my $until = sql("SELECT clock_timestamp() + interval '$seconds s'");
	my @writers = map { start_writers($node, $_, 4, $until) } @tables;
	my @others = (start('builder_t', $builder->('t')), start('builder_k', $builder->('k')), start('reader', reader()), start('spiller', $ENV{ROSE_STANDIN} ? '' : spiller()));

	while (sql("SELECT clock_timestamp() < '$until'") eq 't')
	{
		# they hold up builds while they are there
		prepare_some($node, pick(@tables), 1) if rand() < 0.3;
		select undef, undef, undef, 0.3;
		end_prepared($node);
	}
	is(finish_writers(@writers), '', 'writers have met no error but what is to be expected');
	# builds may go on for a moment
	foreach my $other (@others)
	{
		sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$other->{name}'");
		$other->{run}->finish;
		is(join("\n", grep { /ERROR|FATAL|PANIC/ && !/could not create unique index|duplicate key|statement timeout|deadlock|does not exist|already exists|cannot reindex invalid index|could not serialize|terminating connection|could not obtain lock|is locked|division by zero|index row size|could not open relation|is not a rose table/ } split /\n/, $other->{err}),
			'', "$other->{name} has met no error but what is to be expected");
	}
	return;
}

# Each index of the builders was built, and asked while it was there.
sub is_covered
{
	my $pairs = 2 * @tables;

	return sql("SELECT (SELECT count(DISTINCT index) FROM used WHERE index ~ '_[pb]\$') = $pairs"
		  . " AND (SELECT count(DISTINCT index) FROM built WHERE how = 'valid' AND index ~ '_[pb]\$') = $pairs") eq 't';
}

# Builds that come as they come may all be cancelled, or meet two rows of one value; and on a slow machine none may come to its end in that time.
foreach my $round (1 .. 10)
{
	all_together($round < 3 ? \&builder : \&calm_builder);
	last if is_covered();
}
is(sql('SELECT * FROM answers LIMIT 3'), '', 'indexes answer as sequential scans do');
note(sql("SELECT index || ': asked ' || count(*) FROM used GROUP BY index"));
note(sql("SELECT index || ' ' || how || ' ' || count(*) FROM built GROUP BY index, how"));
cmp_ok(sql("SELECT count(*) FROM used WHERE index = '$_'"), '>', 0, "$_ was asked") foreach map { ("${_}_p", "${_}_b") } @tables;
cmp_ok(sql("SELECT count(*) FROM built WHERE how = 'valid' AND index = '$_'"), '>', 0, "$_ was built") foreach map { ("${_}_p", "${_}_b") } @tables;
foreach my $t (@tables)
{
	model_holds($node, $t, 'beside builds');
	sql("DROP INDEX IF EXISTS ${t}_p, ${t}_b; " . alone($t));
	sql("CREATE UNIQUE INDEX CONCURRENTLY ${t}_p ON $t (p)");
	sql("CREATE INDEX CONCURRENTLY ${t}_b ON $t (b, p)");
	sql("CALL ask_all('$t', 10)");
	model_holds($node, $t, 'new indexes');
	values_are_free($node, $t, 'new indexes') unless sql("SELECT count(*) FROM pg_index WHERE indrelid = '$t'::regclass AND NOT indisvalid");
	# what a build that was ended has left
	foreach my $index (split /\n/, sql("SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '$t'::regclass AND NOT indisvalid"))
	{
		sql("DROP INDEX CONCURRENTLY $index");
	}
	values_are_free($node, $t, 'new indexes, and no others');
}
is(sql('SELECT * FROM answers LIMIT 3'), '', 'indexes answer as sequential scans do');
model_drop($node, $_) foreach @tables;
$node->stop;
done_testing();
