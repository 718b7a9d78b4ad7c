# Unique indexes that have no room for an entry when its row is in the table already: values are let go of, and somebody else may take them. No two
# rows have one value, and a row that has to go again is gone at once, for its own transaction, too.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $node = rose_node('unique_no_room', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }

stop_points_create($node);
sql(<<'SQL');
CREATE FUNCTION v(int) RETURNS text IMMUTABLE LANGUAGE sql RETURN repeat(md5($1::text), 60);
CREATE TABLE a (id int PRIMARY KEY, doc text) USING rose;
SQL
my $filler = q{COPY a FROM PROGRAM 'yes ,xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx | head -20000 | cat -n' (FORMAT csv)};
my ($control, $first, $second);

# A session to its end; what it says, or that it failed.
sub finish
{
	my ($session) = @_;
	my $out = eval { $session->finish };

	return $out if defined $out;
	$session->{err} =~ /(?:ERROR|FATAL):\s+(.*)/ or die $session->{err};
	$out = $1;
	$session->{err} = '';
	return $out;
}

# The first one has its row in the table when memory is full, and its values in no index. The worker is held in the middle of a spill until that is so.
sub without_room
{
	my ($point, $does) = @_;
	my $filling = RoseTest::Session->new($node);

	sql("SELECT rose.spill('a'); TRUNCATE a");
	($control, $first, $second) = map { RoseTest::Session->new($node) } 1 .. 3;
	$control->run("SELECT stop_at('$point', 'wait', 'client'), stop_at('entries-no-room', 'wait', 'client')");
	$first->start($does);
	wait_for_stop($node);
	$control->run("SELECT stop_at('spill-planned', 'wait', 'worker', 0, 0), stop_at('write-no-room', 'wait', 'client')");
	$filling->start($filler);
	$node->poll_query_until('postgres', "SELECT stop_hits('write-no-room') = 1") or die 'memory is not full';
	$control->run("SELECT go_on('$point')");
	$node->poll_query_until('postgres', "SELECT stop_hits('entries-no-room') = 1") or die 'the index has room';
	$control->run("SELECT go_on('spill-planned'), go_on('write-no-room')");
	$filling->finish;
	$filling->end;
	return;
}

sub go_on
{
	$control->run("SELECT go_on('entries-no-room')");
	return finish($first);
}

sub end
{
	my ($name) = @_;

	is(sql('SELECT count(*) FROM (SELECT a FROM t GROUP BY a HAVING count(*) > 1) d'), 0, "$name: no two rows have one value");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, '... and entries are those of rows');
	$_->end foreach $control, $first, $second;
	sql('SELECT stop_clear()');
	return;
}

# in the table, whatever indexes say
my $count = q{SELECT count(*) FROM t WHERE a || '' = v(5)};
my %kinds = (
	'a key' => 'CREATE TABLE t (id int PRIMARY KEY, a text UNIQUE, b int DEFAULT 0, c int UNIQUE) USING rose',
	'no key' => 'CREATE TABLE t (id int, a text UNIQUE, b int DEFAULT 0, c int UNIQUE) USING rose',
	'expression' =>
	  'CREATE TABLE t (id int, a text, b int DEFAULT 0, c int UNIQUE) USING rose; CREATE UNIQUE INDEX ON t (reverse(a)) WHERE b >= 0');
my $made;

sub begin
{
	sql("DROP TABLE IF EXISTS t; $made; INSERT INTO t VALUES (100, v(100)), (101, v(101)); SELECT rose.spill('t')");
	return;
}

foreach my $kind (sort keys %kinds)
{
	$made = $kinds{$kind};
	my $arbiter = $made =~ /UNIQUE INDEX ON t (.*)/ ? $1 : '(a)';

	begin();
	without_room('insert-row-written', 'INSERT INTO t VALUES (1, v(5))');
	$second->run('INSERT INTO t VALUES (2, v(5))');
	like(go_on(), qr/duplicate key/, "$kind: INSERT, taken");
	is(sql($count), 1, '... one row');
	end('INSERT');

	begin();
	without_room('insert-row-written', 'INSERT INTO t VALUES (1, v(5))');
	is(go_on(), '', "$kind: INSERT, free");
	end('INSERT');

	begin();
	without_room('insert-row-written', 'INSERT INTO t VALUES (1, v(5))');
	$second->run('BEGIN; INSERT INTO t VALUES (2, v(5))');
	$control->run("SELECT go_on('entries-no-room')");
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)") or die 'nobody waits';
	$second->run('ROLLBACK');
	is(finish($first), '', "$kind: INSERT, taken and given back");
	is(sql('SELECT id FROM t WHERE a = v(5)'), 1, '... the row');
	end('INSERT');

	begin();
	without_room('insert-row-written', "BEGIN; INSERT INTO t VALUES (1, v(5)) ON CONFLICT DO NOTHING; $count; SAVEPOINT s; $count; COMMIT; $count");
	$second->run('INSERT INTO t VALUES (2, v(5))');
	is(go_on(), "1\n1\n1", "$kind: DO NOTHING, taken");
	is(sql('SELECT id FROM t WHERE a = v(5)'), 2, '... the row');
	end('DO NOTHING');

	begin();
	without_room('insert-row-written', "WITH w AS (INSERT INTO t VALUES (1, v(5)) ON CONFLICT $arbiter DO UPDATE SET b = 7 RETURNING id) SELECT id FROM w; SELECT id, b FROM t WHERE a = v(5)");
	$second->run('INSERT INTO t VALUES (2, v(5))');
	is(go_on(), "2\n2|7", "$kind: DO UPDATE, taken");
	end('DO UPDATE');

	begin();
	without_room('insert-row-written', "BEGIN; INSERT INTO t VALUES (1, v(5)) ON CONFLICT $arbiter DO UPDATE SET b = 7; SELECT id, b FROM t WHERE a = v(5); COMMIT; $count");
	$second->run('BEGIN; INSERT INTO t VALUES (2, v(5))');
	$control->run("SELECT go_on('entries-no-room')");
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)") or die 'nobody waits';
	$second->run('ROLLBACK');
	is(finish($first), "1|0\n1", "$kind: DO UPDATE, taken and given back");
	end('DO UPDATE');

	begin();
	without_room('change-row-written', "BEGIN; UPDATE t SET a = v(5) WHERE id = 100; COMMIT");
	$second->run('INSERT INTO t VALUES (2, v(5))');
	like(go_on(), qr/duplicate key/, "$kind: UPDATE, taken");
	is(sql('SELECT id FROM t WHERE a = v(5)'), 2, '... the row');
	is(sql('SELECT id FROM t WHERE a = v(100)'), 100, '... the other one');
	end('UPDATE');

	begin();
	append_to_file($node->basedir . '/rows', sql("SELECT '1,' || v(5) || ',0,'") . "\n") if !-e $node->basedir . '/rows';
	my $rows = $node->basedir . '/rows';
	without_room('insert-row-written', "COPY t FROM '$rows' (FORMAT csv)");
	$second->run('INSERT INTO t VALUES (2, v(5))');
	like(go_on(), qr/duplicate key/, "$kind: COPY, taken");
	is(sql($count), 1, '... one row');
	end('COPY');

	next if $arbiter ne '(a)';
	sql('DROP TABLE t');
	sql($made =~ s/a text UNIQUE/a text UNIQUE DEFERRABLE INITIALLY DEFERRED/r);
	without_room('insert-row-written', 'BEGIN; INSERT INTO t VALUES (1, v(5)); UPDATE t SET b = 4; COMMIT');
	$second->run('INSERT INTO t VALUES (2, v(5))');
	like(go_on(), qr/duplicate key/, "$kind: deferred, taken");
	is(sql($count), 1, '... one row');
	end('deferred');
}
$node->stop;
done_testing();
