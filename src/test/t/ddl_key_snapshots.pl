
# A table that gets another primary key, or loses it, has a new file, whose rows no snapshot of before sees. On heap such a snapshot sees what it saw; here it is refused, and sees
# no empty table. Who comes later, or did it himself, is not.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap makes no new file' if $ENV{ROSE_STANDIN};

my $node = rose_node('snapshots', 'rose.max_merge_workers = 0', 'max_connections = 30');
my $refused = qr/could not serialize access because table "\w+" was copied anew after the snapshot was taken/;
my $add = 'ADD PRIMARY KEY (id)';
my $drop = 'DROP CONSTRAINT t_pkey';

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql('CREATE TABLE beside (id int); INSERT INTO beside VALUES (1)');

sub says
{
	my ($session, $text) = @_;
	my $said = eval { $session->run($text) };

	return $said if defined $said;
	my $error = $session->{err};
	$session->{psql}->pump until $session->{out} =~ /^end of $session->{n}\n/m;
	$session->{err} = '';
	return $error;
}

sub session
{
	my ($sql) = @_;
	my $session = RoseTest::Session->new($node);

	$session->run($sql);
	return $session;
}

sub make_table
{
	my ($key, $kind) = @_;

	sql('DROP TABLE IF EXISTS t');
	sql("CREATE $kind TABLE t (id int NOT NULL, k text NOT NULL, v int) USING rose; CREATE INDEX t_v ON t (v); INSERT INTO t SELECT g, 'k' || g, g % 7 FROM generate_series(1, 500) g");
	sql("ALTER TABLE t $key") if $key;
	sql("SELECT rose.spill('t')");
	return;
}

my @reads = ('SELECT count(*) FROM t', 'SELECT v FROM t WHERE id = 7', 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE v = 3', 'SELECT max(id) FROM t', 'SELECT id FROM t ORDER BY id LIMIT 3', "SELECT v, count(*) FROM t GROUP BY v", 'SELECT id FROM t FOR UPDATE',
	'UPDATE t SET v = 0', 'DELETE FROM t WHERE id = 7');

foreach my $case ([ '', $add ], [ $add, $drop ], [ $add, "$drop, ADD PRIMARY KEY (k, id)" ], [ $add, $drop, 'UNLOGGED' ])
{
	my ($before, $change, $kind) = @$case;
	my $name = ($kind // '') . " $change";

	make_table($before, $kind // '');
	my @sessions = map { session("BEGIN ISOLATION LEVEL $_; SELECT count(*) FROM beside") } 'REPEATABLE READ', 'SERIALIZABLE';
	sql("ALTER TABLE t $change");
	foreach my $read (@reads)
	{
		foreach my $session (@sessions)
		{
			like(says($session, "SAVEPOINT a; $read"), $refused, "$name: $read");
			$session->run('ROLLBACK TO a');
		}
	}
	sql("SELECT rose.spill('t'); VACUUM FULL t");
	like(says($_, 'SELECT count(*) FROM t'), $refused, "$name: behind VACUUM FULL") foreach @sessions;
	foreach my $session (@sessions)
	{
		is(says($session, 'ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*), sum(v) FROM t; COMMIT'), '500|1497', "$name: again");
		$session->end;
	}
}

# What is taken back has changed nothing; who did it sees his rows.
make_table($add, '');
{
	my $session = session('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM beside');
	my $mine = session('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM beside; SAVEPOINT a');

	is(says($mine, "ALTER TABLE t $drop; SELECT count(*) FROM t"), 500, 'who did it in a subtransaction');
	is(says($mine, "ROLLBACK TO a; SELECT count(*) FROM t"), 500, '... and has taken it back');
	is(says($mine, "ALTER TABLE t $drop; ROLLBACK"), '', '... all of it');
	is(says($session, 'SELECT count(*) FROM t; COMMIT'), 500, 'a snapshot of before');
	$_->end foreach $session, $mine;
}

# A query's snapshot is older than the lock that a function of it waits for.
sql("CREATE FUNCTION total() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM t); END'");
{
	my $owner = session("BEGIN; ALTER TABLE t $drop");
	my $reader = RoseTest::Session->new($node);

	$reader->start('SELECT total()');
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)") or die 'nobody waits';
	$owner->run('COMMIT');
	eval { $reader->finish };
	like($reader->{err}, $refused, 'a function that waited for the lock');
	$_->end foreach $owner, $reader;
	is(sql('SELECT total()'), 500, '... and again');
}

# What never had rows has none.
sql('CREATE TABLE none (id int NOT NULL) USING rose; CREATE TABLE whole (id int NOT NULL) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (100) USING rose; INSERT INTO whole SELECT generate_series(1, 50)');
{
	my $session = session('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM beside');

	sql("ALTER TABLE none $add; ALTER TABLE whole $add; INSERT INTO none VALUES (1)");
	is(says($session, 'SELECT count(*) FROM none'), 0, 'a table without rows');
	like(says($session, 'SELECT count(*) FROM whole'), $refused, 'a partition');
	$session->end;
}

# After a crash there is no such snapshot.
crash_and_restart($node);
is(sql('SELECT count(*) FROM t'), 500, 'after a crash');
is(sql('SELECT count(*) FROM whole WHERE id > 10'), 40, '... of partitions, too');
is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'nothing is wrong with the table');
sql('CREATE TEMP TABLE x (id int NOT NULL) USING rose; INSERT INTO x SELECT generate_series(1, 9); ALTER TABLE x ADD PRIMARY KEY (id)');
$node->stop;
done_testing();
