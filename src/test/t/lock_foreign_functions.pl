# A function of an operator class may run any SQL, and rose calls it while it has locks. Whatever the function does, nobody waits for himself,
# nothing is damaged, and who must not go on is told so: each statement that compares keys meets each kind of misbehaviour, and the table is what it was, or
# what it should be then. Others write and spill it afterwards.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no such locks' if $ENV{ROSE_STANDIN};

my $node = rose_node('foreign', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off', 'fsync = off');

# Who waits for himself hears no cancel: the test ends by the time limit of psql.
sub state_of
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql", timeout => $PostgreSQL::Test::Utils::timeout_default, on_error_stop => 0, on_error_die => 0);

	return $err =~ /(?:ERROR|FATAL|PANIC):  (\w{5}): (.*)/ ? $1 : $rc == 0 ? 'ok' : $err;
}

sub sql { return $node->safe_psql('postgres', $_[0]) }

# The functions do what the session says in misbehave.sql.
sub type
{
	my %operators = ('<' => 'lt', '<=' => 'le', '=' => 'eq', '>=' => 'ge', '>' => 'gt');
	my $sql = <<'SQL';
CREATE TYPE odd AS (n int);
CREATE FUNCTION odd_misbehave() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	command text := coalesce(current_setting('misbehave.sql', true), '');
BEGIN
	IF command <> '' THEN
		EXECUTE command;
	END IF;
END $$;
CREATE FUNCTION odd_cmp(a odd, b odd) RETURNS int LANGUAGE plpgsql STRICT AS $$
BEGIN
	PERFORM odd_misbehave();
	RETURN btint4cmp(a.n, b.n);
END $$;
CREATE FUNCTION odd_hash(a odd) RETURNS int LANGUAGE plpgsql STRICT AS 'BEGIN RETURN hashint4(a.n); END';
CREATE FUNCTION odd_hash_extended(a odd, seed bigint) RETURNS bigint LANGUAGE plpgsql STRICT AS 'BEGIN PERFORM odd_misbehave(); RETURN hashint4extended(a.n, seed); END';
SQL
	foreach my $operator (sort keys %operators)
	{
		$sql .= "CREATE FUNCTION odd_$operators{$operator}(a odd, b odd) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN btint4cmp(a.n, b.n) $operator 0; END';\n";
		$sql .= "CREATE OPERATOR $operator (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_$operators{$operator}" . ($operator eq '=' ? ', HASHES' : '') . ");\n";
	}
	return $sql . <<'SQL';
CREATE OPERATOR CLASS odd_ops DEFAULT FOR TYPE odd USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 odd_cmp(odd, odd);
CREATE OPERATOR CLASS odd_hash_ops DEFAULT FOR TYPE odd USING hash AS
	OPERATOR 1 =, FUNCTION 1 odd_hash(odd), FUNCTION 2 odd_hash_extended(odd, bigint);
SQL
}

sql(type() . <<'SQL');
CREATE TABLE k (id odd PRIMARY KEY, v int) USING rose;
CREATE TABLE log (id serial PRIMARY KEY, v int) USING rose;
CREATE TABLE notes (v int) USING heap;
CREATE FUNCTION caught(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'fine';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
INSERT INTO log (v) SELECT g FROM generate_series(1, 20) g;
INSERT INTO k SELECT row(g * 10)::odd, g FROM generate_series(1, 20) g;
SELECT rose.spill('k');
INSERT INTO k SELECT row(g * 10 + 1)::odd, g FROM generate_series(1, 20) g;
DO $$ BEGIN FOR i IN 1..20 LOOP EXECUTE format('CREATE TABLE m%s (id int PRIMARY KEY, v int) USING rose', i); EXECUTE format('INSERT INTO m%s SELECT g, g FROM generate_series(1, 5) g', i); END LOOP; END $$;
SQL

# What compares keys.
my %statements = (
	insert => 'INSERT INTO k VALUES (row(15), 0)',
	many => 'INSERT INTO k SELECT row(g * 10 + 5)::odd, 0 FROM generate_series(1, 15) g',
	conflict => 'INSERT INTO k VALUES (row(20), 0) ON CONFLICT (id) DO UPDATE SET v = k.v + 1',
	update => 'UPDATE k SET v = v + 1 WHERE id = row(101)::odd',
	move => 'UPDATE k SET id = row(55)::odd WHERE id = row(51)::odd',
	delete => 'DELETE FROM k WHERE id BETWEEN row(100)::odd AND row(140)::odd',
	lock => 'SELECT * FROM k WHERE id = row(60)::odd FOR UPDATE',
	copy => "COPY k FROM PROGRAM 'for i in 17 27 37; do echo \"(\$i)\t1\"; done'",
	range => 'SELECT count(*) FROM k WHERE id > row(50)::odd',
	scan => 'SELECT count(*) FROM (SELECT * FROM k ORDER BY id) q',
	spill => "SELECT rose.spill('k')",
	merge => "SELECT rose.merge('k')");

# What a function may do, and which states the statement may end with if it does that. Each may also go through without comparing anything.
my $change = '0A000';
my %misbehaviour = (
	'INSERT INTO log (v) VALUES (1)' => $change,
	'UPDATE log SET v = v + 1 WHERE id = 3' => $change,
	'DELETE FROM log WHERE id = 4' => $change,
	'SELECT 1 FROM log WHERE id = 5 FOR SHARE' => $change,
	"COPY log (v) FROM PROGRAM 'echo 1'" => $change,
	'INSERT INTO k VALUES (row(999), 9)' => $change,
	"SELECT rose.spill('log')" => $change,
	"SELECT rose.merge('log')" => $change,
	"SELECT rose.spill('k')" => $change,
	"SELECT rose.merge('k')" => $change,
	'TRUNCATE log' => '0A000|55006',
	'CREATE TABLE fresh (id int PRIMARY KEY) USING rose' => $change,
	'ALTER TABLE log ALTER v TYPE bigint' => '0A000|55006',
	'SELECT 1 FROM k WHERE id = row(60)::odd' => '54001',
	'SELECT 1 / 0' => '22012',
	"SELECT caught('SELECT 1 / 0')" => $change,
	"SELECT caught('INSERT INTO log (v) VALUES (2)')" => $change,
	'SELECT pg_sleep(100)' => '57014',
	'SELECT count(*) FROM notes' => '57014',
	'SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(100)' => '57P01',
	'SELECT ' . join(', ', map { "(SELECT v FROM m$_ WHERE id = 3)" } 1 .. 20) => 'ok',
	'SELECT (SELECT count(*) FROM m1), (SELECT v FROM m2 WHERE id = 1)' => 'ok',
	"SELECT caught('SELECT 1')" => 'ok',
	"INSERT INTO notes_of_all VALUES (1)" => 'ok');

sql('CREATE TABLE notes_of_all (v int) USING heap');
my $content = "SELECT count(*), sum((id).n), sum(v) FROM k";
my ($before, $log) = (sql($content), sql('SELECT count(*), sum(v) FROM log'));
my %seen;

# One of them holds a table that functions read.
my $holder = RoseTest::Session->new($node);
$holder->run('BEGIN; LOCK TABLE notes IN ACCESS EXCLUSIVE MODE');
foreach my $what (sort keys %misbehaviour)
{
	my @wrong;

	foreach my $name (sort keys %statements)
	{
		my $timeout = $misbehaviour{$what} eq '57014' ? '100ms' : 0;
		my $state = state_of("SET statement_timeout = '$timeout'; SET misbehave.sql = \$\$$what\$\$;\nBEGIN;\n$statements{$name};\nROLLBACK;");

		push @wrong, "$name: $state" if $state !~ /^(ok|$misbehaviour{$what})$/;
		$seen{$what} ||= $state =~ /^($misbehaviour{$what})$/;
		push @wrong, "$name: contents" if sql($content) ne $before;
	}
	is(join(', ', @wrong), '', $what);
	ok($seen{$what}, '... was met');
	is(state_of('BEGIN; INSERT INTO k VALUES (row(33), 1); UPDATE k SET v = v WHERE id = row(60)::odd; ROLLBACK'), 'ok', '... and others go on');
}
$holder->run('ROLLBACK');
$holder->end;
is(sql('SELECT count(*), sum(v) FROM log'), $log, 'nothing was changed');

# Operators are asked about the rows that conditions have found, with no lock held. They may read what they like, by key, too.
sql(<<'SQL');
CREATE OR REPLACE FUNCTION odd_gt(a odd, b odd) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	command text := coalesce(current_setting('misbehave.operator', true), '');
BEGIN
	IF command <> '' THEN
		EXECUTE command;
	END IF;
	RETURN btint4cmp(a.n, b.n) > 0;
END $$;
SQL
foreach my $command ('SELECT v FROM k WHERE id = row(61)::odd', 'SELECT v FROM k WHERE id = row(70)::odd', 'SELECT ' . join(', ', map { "(SELECT v FROM m$_ WHERE id = 3)" } 1 .. 20))
{
	foreach my $keys ('= row(50)', '= row(51)', '= ANY (ARRAY[row(50), row(51), row(60)]::odd[])', 'BETWEEN row(50) AND row(60)')
	{
		my $where = "id $keys AND id > row(1)::odd" =~ s/(row\(\d+\))(?!:|,|\])/$1::odd/gr;
		my $query = "SET enable_seqscan = off; SELECT id, v, id = row(50)::odd FROM k WHERE $where; SELECT id FROM k WHERE $where; BEGIN; UPDATE k SET v = v + 1 WHERE $where RETURNING id, v; ROLLBACK";

		is(sql("SET misbehave.operator = \$\$$command\$\$; $query"), sql($query), "$keys: an operator does $command");
	}
}
is(sql('SELECT (id).n FROM k ORDER BY id LIMIT 3'), "10\n11\n20", 'rows in their order');
is(sql("SELECT c::text FROM rose.check('k') c"), '', 'the table is sound');
sql("SELECT rose.merge('k')");
is(sql($content), $before, 'the same rows when all is merged');
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal/, 'no process has failed');
$node->stop;
done_testing();
