
# Why a subscription is blocked, and the row of the table that blocks it, are seen at one moment by each query: one that began before sees neither,
# however long it takes.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no such views' if $ENV{ROSE_STANDIN};

my ($upstream, $replica) = upstream_and_replica();
my $says = "SELECT concat_ws(' ', t.state, s.blocked_reason) FROM rose.stat_subscription s JOIN rose.stat_subscription_tables t USING (subid)";

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

up('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE PUBLICATION p FOR TABLE t');
down('CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; ALTER TABLE t ADD CONSTRAINT well CHECK (v > 0)');
subscribe($upstream, $replica);

my $reader = RoseTest::Session->new($replica);
my $cursor = RoseTest::Session->new($replica);
foreach my $id (1, 2)
{
	$reader->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current_snapshot()');
	$cursor->run("BEGIN; DECLARE c CURSOR FOR SELECT (SELECT string_agg(says, '') FROM ($says) s(says) WHERE i >= 0) FROM generate_series(1, 3) i");
	up("INSERT INTO t VALUES ($id, -1)");
	ok($replica->poll_query_until('postgres', "SELECT state = 'blocked' FROM rose.stat_subscription"), "stop $id");
	is(down($says), 'failed table_error', 'a query of now sees row and reason');
	is($reader->run($says), 'ready', 'one of before sees neither');
	is($cursor->run('FETCH 3 FROM c'), "ready\nready\nready", 'nor does a cursor of before');
	$replica->safe_psql('postgres', "SELECT txid_current()") foreach 1 .. 5;
	is($reader->run($says), 'ready', '... also later');
	$reader->run('COMMIT');
	is($reader->run($says), 'failed table_error', 'afterwards it sees both');
	$cursor->run('COMMIT');
	down('ALTER TABLE t DROP CONSTRAINT well');
	ok($replica->poll_query_until('postgres', "SELECT ($says) = 'ready'"), 'it is put right');
	up("DELETE FROM t WHERE v < 0");
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('t')");
	down('ALTER TABLE t ADD CONSTRAINT well CHECK (v > 0)') if $id == 1;
}
$_->end foreach $reader, $cursor;
$_->stop foreach $replica, $upstream;
done_testing();
