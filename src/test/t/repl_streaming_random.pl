# Sessions at random, whose transactions are sent before they commit, with parts that are rolled back, TRUNCATE and prepared
# ones, while workers and servers end: what the upstream has is what the replica has.
#
#   STREAMING_SEED	of the sessions
use strict;
use warnings;

use IPC::Run;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $seed = seed_random('STREAMING_SEED');
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 20', 'autovacuum = off', "deadlock_timeout = '20ms'", "log_statement = 'none'");
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '50ms'", "rose.memtable_size = '4MB'", "rose.spill_interval = '1s'", "log_statement = 'none'");
my @leaves = qw(k n c x p1 p2 p3);
my @tables = qw(k n c x p);
my $value = 0;

# PostgreSQL's own decoding fails an assertion when it streams what it had to write to a file before, if a subtransaction of it had no changes then. (Without
# assertions it looks for files that are not there.) It writes files when a stream starts, and of rows with values kept apart or that wait for a conflict.
my $assertions = $upstream->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
my $parts = 1;		# may transactions have subtransactions, and ...
my $files = 1;		# ... may decoding write files?

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub rare { return rand() < $_[0] }
sub pick { return $_[ int(rand(@_)) ] }
sub some { return 'abs(hashint4(id)) % ' . int(random_between(2, 12)) . ' = 0' }

# Rows of a few hundred bytes, some with a value that is kept apart and so not sent when it does not change.
my $ddl = q{CREATE TABLE k (id int PRIMARY KEY, v int, doc text) A; CREATE TABLE n (id int, v int, doc text) A;
	CREATE TABLE c (v int, b text, id int, doc text, PRIMARY KEY (b, id)) A; CREATE TABLE x (id int PRIMARY KEY, v int, doc text) A;
	CREATE TABLE p (id int PRIMARY KEY, v int, doc text) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (300) A; CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (300) TO (600) A;
	CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (600) TO (MAXVALUE) A};
up($ddl =~ s/\bA\b//gr . '; ALTER TABLE k ALTER doc SET STORAGE EXTERNAL; ALTER TABLE c ALTER doc SET STORAGE EXTERNAL; CREATE PUBLICATION p FOR ALL TABLES');
down($ddl =~ s/\bA\b/USING rose/gr . '; SET rose.secondary_indexes = on; CREATE INDEX ON x (v); CREATE INDEX ON p2 (left(doc, 20), v)');
subscribe($upstream, $replica, undef, $upstream->pg_version >= 15 && rare(0.5) ? 'two_phase => true' : ());

sub change
{
	my $table = pick(@tables);
	my $dice = rand();

	$value++;
	return rare(0.5) ? 'TRUNCATE n' : "TRUNCATE $table" if $dice < 0.02;
	if ($dice < 0.55 || $table eq 'n')
	{
		my $doc = 'repeat(md5(g::text || ' . $value . '), ' . pick(1, 3, 10) . ')';
		my $from = int(rand(900));
		my $rows = "generate_series($from, " . ($from + int(rand(300))) . ') g';
		my $long = $files ? "repeat(md5(g::text || $value), 200)" : $doc;
		my $new = $files ? 'ON CONFLICT DO NOTHING' : $table eq 'n' ? '' : "WHERE NOT EXISTS (SELECT FROM $table o WHERE o.id = g)";
		my $columns = $table eq 'c' ? "$value, 'b' || g % 7, g, $doc" : "g, $value, CASE WHEN g % 50 = 0 THEN $long ELSE $doc END";

		return "INSERT INTO $table SELECT $columns FROM $rows $new";
	}
	return "UPDATE $table SET v = $value WHERE " . some() if $dice < 0.75;
	return "UPDATE $table SET id = (id * 7 + $value) % 1200 + 2000 * $value WHERE id < 2000 AND " . some() if $dice < 0.80;
	return "UPDATE $table SET id = id % 2000 WHERE id >= 2000 AND " . some() if $dice < 0.82;
	return "UPDATE $table SET doc = md5('$value') WHERE " . some() if $dice < 0.9;
	return "DELETE FROM $table WHERE " . some();
}

sub transaction
{
	my ($who, $no) = @_;
	my @open;
	my @sql = ('BEGIN');

	foreach my $n (1 .. int(random_between(2, 14)))
	{
		my $dice = rand();

		push @sql, change();
		next if !$parts;
		if ($dice < 0.25) { push @open, "s$n"; push @sql, "SAVEPOINT s$n"; }
		elsif ($dice < 0.4 && @open) { my $i = int(rand(@open)); push @sql, "ROLLBACK TO $open[$i]"; splice @open, $i + 1; }
		elsif ($dice < 0.5 && @open) { my $i = int(rand(@open)); push @sql, "RELEASE $open[$i]"; splice @open, $i; }
		# without a savepoint, all of it fails
		elsif ($dice < 0.53) { push @sql, 'SELECT 1 / 0'; }
	}
	my $id = "$who.$no";
	push @sql, rare(0.15) ? ("PREPARE TRANSACTION '$id'", rare(0.7) ? "COMMIT PREPARED '$id'" : "ROLLBACK PREPARED '$id'") : rare(0.15) ? 'ROLLBACK' : 'COMMIT';
	return join(";\n", @sql) . ";\n";
}

sub end_prepared
{
	foreach my $id (split /\n/, up('SELECT gid FROM pg_prepared_xacts'))
	{
		up((rare(0.5) ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$id'");
	}
	return;
}

my $at_once = 0;
foreach my $round (1 .. 5)
{
	my $kills = $round > 1;

	$parts = !$assertions || !$kills;
	$files = !$assertions || !$parts;
	my @files = map { my $who = "$round.$_"; my $name = PostgreSQL::Test::Utils::tempdir() . "/$who"; append_to_file($name, join('', map { transaction($who, $_) } 1 .. 5)); $name } 1 .. 4;
	my @sessions = map { IPC::Run::start([ 'psql', '-XAtq', '-d', $upstream->connstr('postgres'), '-v', 'ON_ERROR_STOP=0', '-f', $_ ], '>', '/dev/null', '2>', '/dev/null') } @files;

	foreach my $n (1 .. 2)
	{
		# somebody who has committed, so that the moment is not always the beginning
		up("INSERT INTO n VALUES (-$n)");
		wait_for_apply($upstream, $replica);
		$at_once = max($at_once, down('SELECT stream_transactions FROM rose.stat_subscription'));
		down("SELECT pg_terminate_backend(pid) FROM rose.stat_subscription") if $kills;
	}
	crash_and_restart($replica) if $round == 3;
	crash_and_restart($upstream) if $round == 4;
	down(q{SELECT rose.alter_subscription('s', two_phase => true)}) if $round == 4 && $upstream->pg_version >= 15;
	eval { $_->finish } foreach @sessions;
	end_prepared();
	wait_for_apply($upstream, $replica);
	foreach my $table (@leaves)
	{
		is(table_hash($replica, $table), table_hash($upstream, $table), "$seed: round $round: $table");
	}
}
cmp_ok(down('SELECT streamed_transactions FROM rose.stat_subscription'), '>', 0, "some came in parts");
is(down("SELECT string_agg(c::text, ' ') FROM unnest('{k,n,c,x,p1,p2,p3}'::text[]) t, rose.check(t::regclass) c"), '', 'rose.check');
note("at once: $at_once");

$replica->stop;
$upstream->stop;
done_testing();
