
# Any number of transactions may hold the key of a row, as those do that insert rows which reference it. None of them makes an
# update of other columns wait, be skipped or be refused; all of them keep the row's key from changing, before and after the update.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $holders = 40;
my $node = rose_node('many_lockers', 'max_connections = 60', 'autovacuum = off', rose_conf("rose.memtable_size = '4MB'"));

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Whether it is refused because somebody has a lock; it has long to be done, and a moment if it is to be refused.
sub refused
{
	my ($statement, $expected) = @_;
	my (undef, undef, $err) = $node->psql('postgres', 'SET lock_timeout = ' . ($expected ? 300 : 60000) . "; $statement");

	return $err =~ /lock timeout|could not obtain lock/ ? 1 : 0;
}

my $using = $ENV{ROSE_STANDIN} ? '' : 'USING rose';
sql("CREATE TABLE parent (id int PRIMARY KEY, v int, t text) $using; CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent) $using;
	CREATE TABLE bag (id int, v int) $using; INSERT INTO parent SELECT g, 0, 'x' FROM generate_series(1, 3) g; INSERT INTO bag VALUES (1, 0)");
my @sessions = map { RoseTest::Session->new($node) } 1 .. $holders;
foreach my $i (0 .. $#sessions)
{
	# some hold it in a subtransaction
	$sessions[$i]->run('BEGIN;' . ($i % 3 == 0 ? 'SAVEPOINT s;' : '') . " INSERT INTO child VALUES ($i, 1); SELECT * FROM bag FOR KEY SHARE");
}
is(refused('SELECT id FROM parent WHERE id = 1 FOR NO KEY UPDATE NOWAIT', 0), 0, 'locked for an update');
is(sql('SELECT count(*) FROM (SELECT 1 FROM parent FOR NO KEY UPDATE SKIP LOCKED) x'), '3', 'not skipped');
is(refused("UPDATE parent SET v = v + 1 WHERE id = 1", 0), 0, 'updated');
is(refused("UPDATE parent SET v = v + 1, t = t || 'y' WHERE id = 1", 0), 0, 'updated again');
is(refused('UPDATE bag SET v = 5', 0), 0, 'updated without a key');
is(sql('SELECT v, t FROM parent WHERE id = 1'), '2|xy', 'what was updated');

# those who hold it are still known, wherever they are by now
foreach my $step ('', 'spill', 'merge')
{
	sql("SELECT rose.$step('$_')") foreach $step ne '' && !$ENV{ROSE_STANDIN} ? qw(parent bag) : ();
	is(refused('DELETE FROM parent WHERE id = 1', 1), 1, "not deleted $step");
	is(refused('UPDATE parent SET id = 9 WHERE id = 1', 1), 1, "keeps its key $step");
	is(refused('DELETE FROM bag', 1), 1, "not deleted without a key $step");
	is(refused('UPDATE parent SET v = v + 1 WHERE id = 1', 0), 0, "updated $step");
}
# the last one counts as much as the first
$sessions[$_]->run($_ % 2 ? 'COMMIT' : 'ROLLBACK') foreach 0 .. $#sessions - 1;
is(refused('DELETE FROM parent WHERE id = 1', 1), 1, 'one is left');
is(refused('DELETE FROM bag', 1), 1, 'one is left without a key');
$sessions[-1]->run('ROLLBACK');
sql('DELETE FROM child');
is(refused('DELETE FROM parent WHERE id = 1', 0), 0, 'deleted');
is(refused('DELETE FROM bag', 0), 0, 'deleted without a key');
is(sql('SELECT count(*) FROM parent'), '2', 'it is gone');
is(sql("SELECT count(*) FROM rose.check('parent')"), '0', 'sound') if !$ENV{ROSE_STANDIN};
$_->end foreach @sessions;
$node->stop;
done_testing();
