
# What garbage collection keeps beside READ COMMITTED queries and cursors that go on for long, and beside what never reads a rose
# table: a version for each snapshot, whatever is written meanwhile. And that each of them sees what it has to see, at random.
#
#   LIVE_SEED       repeat a run (as far as that goes with several sessions)
#   LIVE_ROUNDS     of the random part, default 25
use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseProtocol;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in keeps what heap keeps' if $ENV{ROSE_STANDIN};

my $rounds = $ENV{LIVE_ROUNDS} // 25;
my $seed = seed_random('LIVE_SEED');
my $node = rose_node('live', "rose.memtable_size = '8MB'", "rose.debug_piece_size = '8kB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0',
	'autovacuum = off', 'max_connections = 150', 'max_parallel_workers_per_gather = 2', 'max_prepared_transactions = 10');
stop_points_create($node);
my $session = RoseTest::Session->new($node);

sub sql { return $session->run($_[0]) }

my $rows = 300;
sql(<<SQL);
CREATE TABLE h (id int PRIMARY KEY, v bigint, t text);
CREATE TABLE r (id int PRIMARY KEY, v bigint, t text) USING rose;
INSERT INTO h SELECT i, 0, md5(i::text) FROM generate_series(1, $rows) i;
INSERT INTO r TABLE h;
CREATE TABLE other (id int PRIMARY KEY) USING rose;
INSERT INTO other VALUES (1);
CREATE FUNCTION wait(ms int) RETURNS int LANGUAGE plpgsql AS \$\$ BEGIN PERFORM pg_sleep(ms / 1000.0); RETURN 0; END \$\$;
CREATE FUNCTION same() RETURNS boolean LANGUAGE sql STABLE AS \$\$
	SELECT (SELECT count(*) || ' ' || sum(hashtextextended(x::text, 0)) FROM h x) = (SELECT count(*) || ' ' || sum(hashtextextended(x::text, 0)) FROM r x) \$\$;
SQL

# Ids in random order: so lookups and scans go on in the middle of it.
my $difference = 'SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE r) UNION ALL (TABLE r EXCEPT ALL TABLE h)) x';

sub update_all
{
	sql("BEGIN; UPDATE h SET v = v + 1; UPDATE r SET v = v + 1; COMMIT; SELECT rose.spill('r')") for 1 .. $_[0];
	return;
}

# Versions that are left when all is merged.
sub merged
{
	sql("SELECT rose.merge('r')");
	return sql("SELECT sum(rows) FROM rose.components('r') WHERE kind <> 'memtable'");
}

# The same, when sessions that have ended have been gone for a moment.
sub merged_to
{
	my ($goal) = @_;
	my $n;

	for (1 .. 50)
	{
		$n = merged();
		last if $n <= $goal;
		sql('SELECT pg_sleep(0.1)');
	}
	return $n;
}

sub new_session
{
	my $new = RoseTest::Session->new($node);

	$new->run($_) foreach @_;
	return $new;
}

# The rest of two cursors, which show the same.
sub same_rest
{
	my ($who, $what) = @_;

	is($who->run('FETCH ALL FROM cr'), $who->run('FETCH ALL FROM ch'), $what);
	return;
}

my @cursors = ('BEGIN', 'DECLARE ch CURSOR FOR SELECT * FROM h ORDER BY id', 'DECLARE cr CURSOR FOR SELECT * FROM r ORDER BY id');

update_all(2);
is(merged(), $rows, 'with no snapshot there is one version a row');

# --- a cursor whose session is idle
my $cursor = new_session(@cursors);
$cursor->run('FETCH 5 FROM ch; FETCH 5 FROM cr');
update_all(8);
is(merged(), 2 * $rows, 'two versions a row beside an idle cursor');
update_all(8);
is(merged(), 2 * $rows, 'and no more of them later');

# --- which begins to do something else: what it takes then, and keeps, is seen
$cursor->run('SAVEPOINT a');
$cursor->run("DECLARE ch2 CURSOR FOR SELECT * FROM h ORDER BY id DESC; DECLARE cr2 CURSOR FOR SELECT * FROM r ORDER BY id DESC");
update_all(8);
merged();
$cursor->run('FETCH 7 FROM cr2; FETCH 7 FROM ch2');
is($cursor->run('FETCH 9 FROM cr2'), $cursor->run('FETCH 9 FROM ch2'), 'a second cursor');
update_all(8);
is(merged(), 3 * $rows, 'three versions a row beside two');
$cursor->run('ROLLBACK TO a');
$cursor->run('FETCH 1 FROM cr; FETCH 1 FROM ch');
update_all(1);
is(merged(), 2 * $rows, 'one is gone with its savepoint');
same_rest($cursor, 'the first cursor');
$cursor->run('COMMIT');
is(merged(), $rows, 'the other with its transaction');

# --- what functions leave open, and exported snapshots
$cursor->run($_) foreach @cursors, 'FETCH 5 FROM ch; FETCH 5 FROM cr';
update_all(3);
merged();
my $id = $cursor->run("DO \$\$ BEGIN PERFORM set_config('my.id', pg_export_snapshot(), false); END \$\$; SELECT current_setting('my.id')");
update_all(3);
merged();
my $importer = new_session("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$id'");
is($importer->run($difference), 0, 'a snapshot that a function has exported');
$importer->run('COMMIT');
$cursor->run("CREATE OR REPLACE FUNCTION opened() RETURNS int LANGUAGE plpgsql AS \$\$ DECLARE a refcursor := 'ch3'; b refcursor := 'cr3'; BEGIN"
	  . ' OPEN a FOR SELECT * FROM h ORDER BY v, id; OPEN b FOR SELECT * FROM r ORDER BY v, id; RETURN 1; END $$');
is($cursor->run('SELECT opened()'), 1, 'cursors of a function');
update_all(4);
merged();
is($cursor->run('FETCH ALL FROM cr3'), $cursor->run('FETCH ALL FROM ch3'), 'which see what they saw');
same_rest($cursor, 'and the one from before');
$cursor->run('COMMIT');
is(merged_to($rows), $rows, 'all is gone');

# --- portals of the protocol, executed in parts
{
	my $client = RoseProtocol->new($node);
	my $text = sub { return join ' ', map { join '|', @$_ } @_ };
	my $rest = sub {
		my ($n, $what) = @_;
		my @found = map { $client->execute("$_$n", 0); $text->($client->sync) } qw(h r);

		is($found[1], $found[0], $what);
		is(scalar(split / /, $found[1]), $rows - 5, "$what: all of it");
	};

	$client->query('BEGIN');
	$client->bind_and_execute("${_}1", "SELECT * FROM $_ ORDER BY id", 5) foreach qw(h r);
	$client->sync;
	update_all(8);
	is(merged(), 2 * $rows, 'two versions a row beside portals');
	$client->bind_and_execute("${_}2", "SELECT * FROM $_ ORDER BY id DESC", 5) foreach qw(h r);
	$client->sync;
	update_all(8);
	is(merged(), 3 * $rows, 'three beside those of two moments');
	$rest->(1, 'the rest of the first ones');
	update_all(8);
	# bound, and not executed
	$client->send('P', "\0SELECT * FROM $_ ORDER BY id OFFSET 5\0" . pack('n', 0)), $client->send('B', "${_}3\0\0" . pack('nnn', 0, 0, 0)) foreach qw(h r);
	$client->sync;
	update_all(8);
	merged();
	$rest->(3, 'portals that were only bound');
	$rest->(2, 'the rest of the second ones');
	$client->query('COMMIT');
	is(merged_to($rows), $rows, 'all is gone');
	$client->end;
}

# --- WITH HOLD: the rows are fetched when the transaction ends
{
	my $holder = new_session('BEGIN', 'DECLARE hh CURSOR WITH HOLD FOR SELECT * FROM h ORDER BY id', 'DECLARE hr CURSOR WITH HOLD FOR SELECT * FROM r ORDER BY id', 'FETCH 5 FROM hh; FETCH 5 FROM hr');

	update_all(8);
	is(merged(), 2 * $rows, 'two versions a row beside a cursor WITH HOLD');
	$holder->run('COMMIT');
	is(merged_to($rows), $rows, 'one when its transaction has ended');
	is($holder->run('FETCH ALL FROM hr'), $holder->run('FETCH ALL FROM hh'), 'its rows');
	$holder->end;
}

# --- one query that goes on for long
sub long_query
{
	my ($what, $before, $query, $wrap) = @_;
	my $sql = "SELECT 'difference', count(*), coalesce(sum(a.v - b.v), 0) FROM $query";
	my $who = new_session($before);
	my $ctl = new_session("SELECT stop_at('snapshots-listed', 'wait', 'client')");

	# while it says for the first time what it sees
	$who->start($wrap ? $wrap->($sql) : $sql);
	wait_for_stop($node);
	update_all(8);
	is(merged(), 9 * $rows, "$what: what came since is kept as long as it does not say more");
	$ctl->run("SELECT go_on('snapshots-listed'), stop_at('snapshots-listed', 'wait', 'client')");
	wait_for_stop($node);
	is(merged(), 2 * $rows, "$what: two versions a row");
	update_all(1);
	is(merged(), 3 * $rows, "$what: and what comes then");
	$ctl->run("SELECT go_on('snapshots-listed')");
	is($who->finish =~ s/\t/|/gr, "difference|$rows|0", "$what sees one moment");
	$_->end foreach $who, $ctl;
	is(merged_to($rows), $rows, "$what has ended");
	return;
}

# each row sleeps, and is looked up in the other table
my $slow = "h a JOIN LATERAL (SELECT *, pg_sleep(0.01) FROM r WHERE r.id = a.id OFFSET 0) b ON true";
long_query('a query of lookups', 'SET enable_seqscan = off', $slow);
long_query('a query of scans', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off', $slow);

long_query('EXECUTE', 'SET enable_seqscan = off', $slow, sub { return "PREPARE q AS $_[0]; EXECUTE q" });
long_query('COPY of a query', 'SET enable_seqscan = off', $slow, sub { return "COPY ($_[0]) TO STDOUT" });

# --- COPY of a table, to a client that takes its time
{
	sql("CREATE TABLE large USING rose AS SELECT i AS id, repeat(md5(i::text), 5) AS t FROM generate_series(1, 200000) i; SELECT rose.spill('large')");
	my $client = RoseProtocol->new($node);
	my $lines = 0;
	my $wait = sub {
		for (1 .. 1_000_000)
		{
			return if sql("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)") eq 't';
			for (1 .. 150)
			{
				last unless length $client->{buffer} > 1000 || IO::Select->new($client->{socket})->can_read(0.01);
				($client->message)[0] eq 'd' and $lines++;
			}
			die 'the end of COPY came too soon' if $lines > 199_000;
		}
	};
	my $ctl = new_session("SELECT stop_at('snapshots-listed', 'wait', 'client')");

	$client->start('COPY large TO STDOUT');
	$wait->();
	update_all(8);
	is(merged(), 9 * $rows, 'COPY: what came since is kept as long as it does not say more');
	$ctl->run("SELECT go_on('snapshots-listed'), stop_at('snapshots-listed', 'wait', 'client')");
	$wait->();
	is(merged(), 2 * $rows, 'COPY: two versions a row');
	$ctl->run("SELECT go_on('snapshots-listed')");
	is($lines + $client->wait, 200_000, 'COPY has all rows');
	$_->end foreach $client, $ctl;
	is(merged_to($rows), $rows, 'COPY has ended');
	sql('DROP TABLE large');
}

# --- any number of snapshots, each told apart; of any number of writers
{
	my @writers = map { new_session('BEGIN', 'SELECT pg_current_xact_id()') } 1 .. 75;
	my $old = new_session('BEGIN ISOLATION LEVEL REPEATABLE READ', $difference);
	$_->run('COMMIT') foreach @writers;
	$_->end foreach @writers;
	update_all(8);
	is(merged_to(2 * $rows), 2 * $rows, 'a snapshot with 75 writers in progress');
	is($old->run($difference), 0, 'sees what it saw');
	$old->end;
	my @many;
	for (1 .. 80)
	{
		push @many, new_session('BEGIN ISOLATION LEVEL REPEATABLE READ', $difference);
		sql('BEGIN; UPDATE h SET v = v + 1; UPDATE r SET v = v + 1; COMMIT');
	}
	update_all(8);
	is(merged(), 81 * $rows, '80 snapshots');
	is($_->run($difference), 0, 'one of many') foreach @many[ 0, 1, 30, 62, 63, 64, 65, 79 ];
	$_->end foreach splice @many, 40;
	update_all(1);
	is(merged_to(41 * $rows), 41 * $rows, '40 of them');
	$_->end foreach @many;
	is(merged_to($rows), $rows, 'none of them');
}

# --- replication slots: what a standby says it needs is no rose table; a snapshot that is made for a subscription is one
sql("SELECT pg_create_physical_replication_slot('standby', true)");
my $standby = PostgreSQL::Test::Cluster->new('standby');
$node->backup('b');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'\nhot_standby_feedback = on\nwal_receiver_status_interval = 1");
$standby->start;
$node->poll_query_until('postgres', "SELECT xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = 'standby'") or die 'no feedback';
my $reader = RoseTest::Session->new($standby);
$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM h');
update_all(8);
$node->poll_query_until('postgres', "SELECT age(xmin) > 6 FROM pg_replication_slots WHERE slot_name = 'standby'") or die 'no feedback';
update_all(8);
is(merged(), $rows, 'a standby holds nothing back');
$reader->end;
$standby->stop;
sql("SELECT pg_drop_replication_slot('standby')");

# --- at random: sessions with cursors, savepoints, functions, exported and imported snapshots, prepared transactions; and writers
my @readers = map { { s => RoseTest::Session->new($node), open => 0, n => 0 } } 1 .. 5;

sub pick { return $_[ int rand @_ ] }

sub act
{
	my ($reader) = @_;
	my $s = $reader->{s};

	if (!$reader->{open})
	{
		my $level = pick('READ COMMITTED', 'READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');

		$s->run("BEGIN ISOLATION LEVEL $level");
		$reader->{open} = 1;
		$reader->{cursors} = [];
	}
	my $what = int rand 12;
	my @cursors = @{ $reader->{cursors} };
	if ($what < 3)
	{
		my $n = ++$reader->{n};
		my $order = pick('id', 'id DESC', 'v, id');

		$s->run("DECLARE h$n CURSOR FOR SELECT * FROM h ORDER BY $order; DECLARE r$n CURSOR FOR SELECT * FROM r ORDER BY $order");
		# two statements, two snapshots; unless nobody wrote between them, and nobody does
		push @{ $reader->{cursors} }, $n;
	}
	elsif ($what < 7 && @cursors)
	{
		my $n = pick(@cursors);
		my $k = pick(1, 10, 200);

		is($s->run("FETCH $k FROM r$n"), $s->run("FETCH $k FROM h$n"), 'a cursor');
	}
	elsif ($what == 7)
	{
		is($s->run('SELECT same()'), 't', 'a function');
	}
	elsif ($what == 8)
	{
		is($s->run("SAVEPOINT a; $difference; ROLLBACK TO a; RELEASE a"), 0, 'in a savepoint');
	}
	elsif ($what == 9)
	{
		is($s->run("DO \$\$ BEGIN ASSERT same(); PERFORM pg_sleep(0.01); ASSERT same(); END \$\$; $difference"), 0, 'in a block');
	}
	elsif ($what == 10)
	{
		my $export = $s->run('SELECT pg_export_snapshot()');
		my $other = new_session("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$export'");

		write_some() if rand() < 0.5;
		is($other->run($difference), 0, 'an imported snapshot');
		$other->end;
	}
	else
	{
		is($s->run("FETCH ALL FROM r$_"), $s->run("FETCH ALL FROM h$_"), 'the rest of a cursor') foreach @cursors;
		is($s->run($difference), 0, 'before the end');
		$s->run(pick('COMMIT', 'ROLLBACK'));
		$reader->{open} = 0;
	}
	return;
}

sub write_some
{
	my $write = pick('UPDATE TAB SET v = v + 1', 'DELETE FROM TAB WHERE id % 7 = N', 'INSERT INTO TAB SELECT g, 0, \'n\' FROM generate_series(1, 300) g ON CONFLICT DO NOTHING',
		'UPDATE TAB SET id = id + 1000 WHERE id % 13 = N AND id < 1000 AND NOT EXISTS (SELECT FROM TAB b WHERE b.id = TAB.id + 1000)', 'UPDATE TAB SET id = id - 1000 WHERE id > 1000 AND NOT EXISTS (SELECT FROM TAB b WHERE b.id = TAB.id - 1000)');
	my $n = int rand 7;

	sql('BEGIN; ' . join('; ', map { $write =~ s/TAB/$_/gr =~ s/\bN\b/$n/gr } qw(h r)) . '; ' . pick('COMMIT', 'COMMIT', 'ROLLBACK', "PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'"));
	sql("SELECT rose.spill('r')") if rand() < 0.7;
	sql("SELECT rose.merge('r')") if rand() < 0.5;
	return;
}

for my $round (1 .. $rounds)
{
	act(pick(@readers)) for 1 .. 8;
	write_some() for 1 .. 1 + int rand 4;
}
foreach my $reader (@readers)
{
	is($reader->{s}->run("FETCH ALL FROM r$_"), $reader->{s}->run("FETCH ALL FROM h$_"), 'the rest of a cursor') foreach @{ $reader->{open} ? $reader->{cursors} : [] };
	$reader->{s}->end;
}
is(sql($difference), 0, 'the tables are the same');
my $left = sql('SELECT count(*) FROM h');
is(merged_to($left), $left, 'one version a row is left');
is(sql("SELECT count(*) FROM rose.check('r')"), 0, 'rose.check');

$session->end;
$node->stop;
done_testing();
