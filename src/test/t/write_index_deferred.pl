# Deferrable unique constraints that are checked long after the rows were written: transactions of random steps on heap and rose, step by step, while another
# session spills and merges table and indexes between any two of them. Subtransactions that are taken back and released, rows that get another key,
# exchanged values, cursors, checks at the end of statements, on demand, at COMMIT and at PREPARE. Each step must say the same, and the rows be the same.
#
#   DEFERRED_SEED           repeat a run: it does not depend on timing
#   DEFERRED_TRANSACTIONS   of each kind of table, default 30
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $seed = seed_random('DEFERRED_SEED');
my $transactions = $ENV{DEFERRED_TRANSACTIONS} // 30;
my $node = rose_node('index_deferred', 'autovacuum = off', 'fsync = off', 'max_prepared_transactions = 5',
	rose_conf("rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'", 'rose.secondary_indexes = on'));

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }

# ---- a session each for heap and rose, that says in one stream what it is told and what fails ----

sub open_session
{
	my ($am) = @_;
	my %session = (in => "SET search_path = $am; SET enable_seqscan = " . pick(qw(on off)) . ";\n", out => '', n => 0);

	$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$session{in}, '>&', \$session{out}, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return \%session;
}

sub run
{
	my ($session, $statement) = @_;
	my $end = 'end of ' . ++$session->{n};

	$session->{out} = '';
	$session->{in} .= "$statement;\n\\echo $end\n";
	$session->{run}->pump until $session->{out} =~ /^$end\n/m;
	# of several duplicates, another one may be met first
	return join "\n", map { s/unique constraint.*/unique constraint/r } grep { !/^(?:DETAIL|$end)/ } split /\n/, $session->{out};
}

sub close_session
{
	my ($session) = @_;

	$session->{in} .= "\\q\n";
	$session->{run}->finish;
	return;
}

# ---- steps ----

my @savepoints;

sub value { return pick(1 .. 14, 'NULL') }

sub step
{
	my ($i, $j, $v, $w) = (1 + int rand 16, 1 + int rand 16, value(), value());
	my $new = 17 + int rand 10;
	my $savepoint = @savepoints ? pick(@savepoints) : undef;

	if (rand() < 0.2 && @savepoints < 4)
	{
		push @savepoints, 's' . (@savepoints + 1);
		return "SAVEPOINT $savepoints[-1]";
	}
	if (rand() < 0.15 && $savepoint)
	{
		my $what = pick('ROLLBACK TO', 'ROLLBACK TO', 'RELEASE');

		pop @savepoints while $savepoints[-1] ne $savepoint;
		pop @savepoints if $what eq 'RELEASE';
		return "$what $savepoint";
	}
	return pick(
		"INSERT INTO t VALUES ($new, $v, $w, 'new')",
		"INSERT INTO t SELECT i, i % 20, -i, repeat('long', 500) FROM generate_series($new, $new + 3) i ON CONFLICT DO NOTHING",
		"UPDATE t SET l = $v WHERE id = $i",
		"UPDATE t SET l = $v, m = $w WHERE id IN ($i, $j)",
		"UPDATE t SET l = (SELECT l FROM t o WHERE o.id = $j) WHERE id = $i",
		"WITH was AS (SELECT id, l, m FROM t WHERE id IN ($i, $j)) UPDATE t SET l = was.l, m = was.m FROM was WHERE t.id IN ($i, $j) AND was.id <> t.id",
		"UPDATE t SET l = l + 1", "UPDATE t SET m = m - 1 WHERE m > 5", "UPDATE t SET l = 15 - l",
		"UPDATE t SET pad = pad || 'x' WHERE id < $i",
		"UPDATE t SET id = id + 30 WHERE id = $i", "UPDATE t SET id = id - 30 WHERE id > 30", "UPDATE t SET id = -id, l = $v WHERE id = $i",
		"DELETE FROM t WHERE id = $i", "DELETE FROM t WHERE l = $v", "DELETE FROM t WHERE id IN ($i, $j); INSERT INTO t VALUES ($i, $v, $w, 'again')",
		'SET CONSTRAINTS ALL IMMEDIATE', 'SET CONSTRAINTS late IMMEDIATE', 'SET CONSTRAINTS ALL DEFERRED', 'SET CONSTRAINTS soon DEFERRED',
		"SELECT id, m, pad FROM t WHERE l = $v ORDER BY id", "SELECT count(*), sum(l), sum(m) FROM t WHERE l > 3");
}

my ($other, @parts);

sub disturb
{
	return if $ENV{ROSE_STANDIN};
	$other->run('SELECT rose.' . pick(qw(spill spill merge)) . '(' . pick(@parts) . ')') foreach 1 .. int rand 3;
	return;
}

my %kinds = (
	'with a key' => sub { "CREATE TABLE t (id int PRIMARY KEY, l int, m int, pad text, CONSTRAINT late UNIQUE (l) DEFERRABLE INITIALLY DEFERRED, CONSTRAINT soon UNIQUE (m) DEFERRABLE) USING $_[0]" },
	'without one' => sub { "CREATE TABLE t (id int, l int, m int, pad text, CONSTRAINT late UNIQUE NULLS NOT DISTINCT (l) DEFERRABLE INITIALLY DEFERRED, CONSTRAINT soon UNIQUE (m) INCLUDE (pad) DEFERRABLE) USING $_[0]" },
	'with partitions' => sub { "CREATE TABLE t (id int, l int, m int, pad text, part int DEFAULT 1, CONSTRAINT key PRIMARY KEY (part, id), CONSTRAINT late UNIQUE (l, part) DEFERRABLE INITIALLY DEFERRED, CONSTRAINT soon UNIQUE (part, m) DEFERRABLE) PARTITION BY LIST (part); "
		  . "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1) USING $_[0]; CREATE TABLE t_2 PARTITION OF t FOR VALUES IN (2) USING $_[0]" });

sql('CREATE SCHEMA heap; CREATE SCHEMA IF NOT EXISTS rows');
foreach my $kind (sort keys %kinds)
{
	my ($steps, $duplicates, $differences, $undone) = (0, 0, 0, 0);

	# the extension has taken the schema rose
	foreach my $am (qw(heap rows))
	{
		sql("SET search_path = $am; " . $kinds{$kind}->($am eq 'heap' || $ENV{ROSE_STANDIN} ? 'heap' : 'rose') . "; INSERT INTO t SELECT i, nullif(i, 5), i, 'r' FROM generate_series(1, 12) i");
	}
	# the table twice as often
	@parts = split /\n/, sql("SELECT c.oid FROM pg_class c, generate_series(1, CASE relkind WHEN 'r' THEN 2 ELSE 1 END) WHERE relnamespace = 'rows'::regnamespace AND (relkind = 'r' OR relkind = 'i' AND relname ~ 'late|soon|_l_|_m_')");
	$other = RoseTest::Session->new($node);
	foreach my $n (1 .. $transactions)
	{
		my %sessions = map { $_ => open_session($_) } qw(heap rows);
		my @done = (pick('BEGIN', 'BEGIN', 'BEGIN ISOLATION LEVEL REPEATABLE READ'));
		my $failed = 0;
		my $end = pick('COMMIT', 'COMMIT', 'ROLLBACK', 'PREPARE');

		@savepoints = ();
		push @done, $_ foreach map { step() } 1 .. 5 + rand 20;
		push @done, $end eq 'PREPARE' ? "PREPARE TRANSACTION 'AM'" : $end;
		foreach my $statement (@done)
		{
			my %said = map { $_ => run($sessions{$_}, $statement =~ s/AM/$_/r) } sort keys %sessions;

			$steps++;
			$duplicates++ if $said{heap} =~ /duplicate key/;
			$undone++ if $statement =~ /ROLLBACK TO/;
			if ($said{heap} ne $said{rows})
			{
				$differences++;
				diag("transaction $n, $kind: $statement\nheap: $said{heap}\nrose: $said{rows}\n" . join ";\n", @done);
				last;
			}
			# who has failed goes back to where he can
			if ($said{heap} =~ /ERROR/ && $said{heap} !~ /aborted/)
			{
				my $back = $statement =~ /COMMIT|PREPARE/ ? '' : 'ROLLBACK TO s1';
				run($_, $back) foreach $back ? @sessions{qw(heap rows)} : ();
			}
			disturb();
		}
		run($_, 'ROLLBACK') foreach values %sessions;
		disturb();
		$end = pick('COMMIT', 'COMMIT', 'ROLLBACK');
		$other->run("$end PREPARED '$_'") foreach split /\n/, $other->run('SELECT gid FROM pg_prepared_xacts');
		close_session($_) foreach values %sessions;
		is(sql('SELECT id, l, m, pad FROM rows.t ORDER BY 1, 2, 3, 4'), sql('SELECT id, l, m, pad FROM heap.t ORDER BY 1, 2, 3, 4'), "transaction $n, $kind: the same rows") if $n % 10 == 0 || $differences;
		last if $differences;
		# not too many, and not too few
		sql("DELETE FROM $_.t WHERE id > 40 OR id < 0; INSERT INTO $_.t SELECT i, NULL, NULL, 'r' FROM generate_series(1, 12) i WHERE NOT EXISTS (SELECT FROM $_.t WHERE id = i)") foreach $n % 10 ? () : $kind eq 'without one' ? () : qw(heap rows);
		sql("DELETE FROM $_.t; INSERT INTO $_.t SELECT i, i, i, 'r' FROM generate_series(1, 12) i") foreach $n % 20 ? () : qw(heap rows);
	}
	$other->end;
	is($differences, 0, "$kind: each step says the same");
	cmp_ok($duplicates, '>', 0, "$kind: $duplicates of $steps steps met a duplicate");
	cmp_ok($undone, '>', 0, "$kind: $undone subtransactions were taken back");
	is(sql("SELECT c.oid::regclass, k FROM pg_class c, rose.check(c.oid) k WHERE relnamespace = 'rows'::regnamespace AND relkind = 'r'"), '', "$kind: entries are those of rows") unless $ENV{ROSE_STANDIN};
	sql('DROP TABLE heap.t, rows.t');
}
$node->stop;
done_testing();
