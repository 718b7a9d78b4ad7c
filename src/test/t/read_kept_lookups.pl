# Lookups outlive their transactions (lsm/read/rose_lookup_cache.c). A session looks rows up by key, changes them and rolls back, in more tables than it
# keeps lookups of; between its transactions, and within them, another one spills, merges, truncates, rewrites, alters and drops these tables. The same on
# heap must answer the same. Environment:
#
#   KEPT_SEED	repeat a run
#   KEPT_STEPS	default 300
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $seed = seed_random('KEPT_SEED');
my $steps = $ENV{KEPT_STEPS} // 300;
my $tables = 11;
my $node = rose_node('kept_lookups', 'autovacuum = off', 'fsync = off');
my %session = map { $_ => RoseTest::Session->new($node) } qw(heap rose);
my $columns = 0;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# What a session says, or that it failed.
sub say_of
{
	my ($who, $statement) = @_;
	my $session = $session{$who};
	my $said = eval { $session->run($statement) };
	return $said if defined $said;
	my ($error) = $session->{err} =~ /ERROR: +(.*)/ or die $@;
	$session->{err} = '';
	return $error;
}

# The same statement on both tables; what the sessions say.
sub both
{
	my ($statement) = @_;
	return map { my $s = $statement; $s =~ s/\bTAB(\d+)/${_}_$1/g; say_of($_, $s) } qw(heap rose);
}

my $wrong = 0;

sub agree
{
	my ($statement) = @_;
	my ($heap, $rose) = both($statement);
	s/\b(?:heap|rose)_(?=\d)/t_/g for $heap, $rose;
	return if $heap eq $rose;
	diag("$statement: heap says \"$heap\", rose \"$rose\"") if $wrong++ < 5;
	return;
}

sub fill
{
	my ($n) = @_;
	for my $am (qw(heap rose))
	{
		sql("INSERT INTO ${am}_$n (k, a, b) SELECT i, i % 7, repeat('b' || i, 1 + i % 40) FROM generate_series(1, 400) i");
	}
	return;
}

sub make
{
	my ($n) = @_;
	sql("SET client_min_messages = warning; DROP TABLE IF EXISTS ${_}_$n; CREATE TABLE ${_}_$n (k int PRIMARY KEY, a int, b text) USING $_") for qw(heap rose);
	fill($n);
	return;
}

make($_) for 1 .. $tables;
sql("SELECT rose.merge('rose_$_')") for 1 .. $tables - 2;

sub key { return 1 + int(rand(420)) }

# What another session does to a table; only what needs no strong lock while the first one is in a transaction.
sub disturb
{
	my ($n, $open) = @_;
	my $what = int(rand($open ? 3 : 10));
	my ($from, $many) = (key(), 1 + int(rand(60)));
	if ($what == 0) { sql("SELECT rose.spill('rose_$n')") }
	elsif ($what == 1) { sql("SELECT rose.merge('rose_$n')") }
	elsif ($what == 2 && !$open) { sql("UPDATE ${_}_$n SET a = a + 1 WHERE k BETWEEN $from AND $from + $many") for qw(heap rose) }
	elsif ($what == 3) { sql("BEGIN; TRUNCATE ${_}_$n; COMMIT") for qw(heap rose); fill($n) }
	elsif ($what == 4) { sql("TRUNCATE ${_}_$n; INSERT INTO ${_}_$n (k, a, b) VALUES (5, 5, 'five')") for qw(heap rose) }
	elsif ($what == 5) { $columns++; sql("ALTER TABLE ${_}_$n ADD COLUMN c$columns int DEFAULT $columns") for qw(heap rose) }
	elsif ($what == 6) { sql("VACUUM FULL ${_}_$n") for qw(heap rose) }
	elsif ($what == 7) { make($n) }
	elsif ($what == 8) { sql("ALTER TABLE ${_}_$n ALTER a TYPE bigint; ALTER TABLE ${_}_$n ALTER a TYPE int") for qw(heap rose) }
	elsif ($what == 9)
	{
		# values that are not in the leaf
		sql("UPDATE ${_}_$n SET b = (SELECT string_agg(md5(i::text || k::text), '') FROM generate_series(1, 3000) i) WHERE k IN ($from, $from + 1)")
			for qw(heap rose);
	}
	return;
}

# A transaction of the first session.
sub look
{
	my ($n) = @_;
	my $key = key();
	my $what = int(rand(8));
	my $read = "SELECT t.*, md5(b) FROM TAB$n t WHERE k = $key";
	if ($what <= 2) { agree($read) }
	elsif ($what == 3) { agree("UPDATE TAB$n SET a = a + 1, b = b || 'u' WHERE k = $key RETURNING k, a") }
	elsif ($what == 4) { agree("DELETE FROM TAB$n WHERE k = $key RETURNING k, a"); agree("INSERT INTO TAB$n (k, a, b) VALUES ($key, 1, 'new') ON CONFLICT (k) DO UPDATE SET a = 3") }
	elsif ($what == 5)
	{
		agree($_) for 'BEGIN', $read, "UPDATE TAB$n SET a = a + 1 WHERE k = $key";
		disturb($n, 1);
		agree($_) for 'SAVEPOINT s', "UPDATE TAB$n SET a = a / (a - a) WHERE k = $key", 'ROLLBACK TO s', $read, rand() < 0.5 ? 'COMMIT' : 'ROLLBACK';
	}
	elsif ($what == 6) { agree("SELECT a / (a - a) FROM TAB$n WHERE k = $key"); agree($read) }
	elsif ($what == 7)
	{
		# a cursor that stays, and has its row of a lookup
		agree($_) for 'BEGIN', "DECLARE c CURSOR WITH HOLD FOR SELECT k, a FROM TAB$n WHERE k = $key", 'FETCH c', 'COMMIT', 'CLOSE c';
	}
	return;
}

for my $step (1 .. $steps)
{
	my $n = 1 + int(rand(rand() < 0.7 ? 4 : $tables));
	look($n);
	disturb($n, 0) if rand() < 0.4;
	agree("SELECT t.*, md5(b) FROM TAB$n t WHERE k = " . key()) for 1 .. 2;
}
is($wrong, 0, "$steps steps: rose answers what heap answers (KEPT_SEED=$seed)");

# Temporary tables, emptied in place at each commit.
$session{$_}->run("CREATE TEMP TABLE ${_}_20 (k int PRIMARY KEY, a int) USING $_ ON COMMIT DELETE ROWS") for qw(heap rose);
for my $turn (1 .. 5)
{
	agree($_) for 'BEGIN', "INSERT INTO TAB20 SELECT i, i * $turn FROM generate_series(1, 50) i";
	$session{rose}->run("SELECT rose.spill('rose_20')") if $turn % 2;
	agree($_) for "UPDATE TAB20 SET a = a + 1 WHERE k = $turn", "SELECT * FROM TAB20 WHERE k = $turn", 'COMMIT', "SELECT * FROM TAB20 WHERE k = $turn";
}
is($wrong, 0, 'a temporary table that is emptied at each commit');

is(sql(join ' UNION ALL ', map { "SELECT string_agg(c::text, ' ') FROM rose.check('rose_$_') c" } 1 .. $tables) =~ s/\n//gr, '', 'the tables are sound');
my $content = sub { my ($am) = @_; return sql(join ';', map { "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM ${am}_$_ t" } 1 .. $tables) };
is($content->('rose'), $content->('heap'), 'the same rows');
$_->end for values %session;
done_testing();
