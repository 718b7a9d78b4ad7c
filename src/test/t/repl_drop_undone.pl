# Letting go of tables belongs to the end of the transaction: a drop of a subscription, a refresh or a resync that is rolled back, with its
# transaction or a subtransaction of it, leaves the tables as they were, though no worker is there to see to it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in drops what core drops' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $node = rose_node('replica', "wal_retrieve_retry_interval = '200ms'");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }

sub are_fed
{
	my ($name) = @_;

	like(error_of($node, "INSERT INTO $_ VALUES (99)"), qr/cannot write to table "$_" because a subscription feeds it/, "$name: $_ is fed") foreach qw(a b);
	return;
}

up('CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE a, b; CREATE PUBLICATION q FOR TABLE a; INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)');
sql('CREATE TABLE a (id int PRIMARY KEY) USING rose; CREATE TABLE b (id int PRIMARY KEY) USING rose; CREATE INDEX ON b (id)');
subscribe($upstream, $node);
sql("SELECT rose.alter_subscription('s', enabled => false)");
$node->poll_query_until('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription') or die 'it runs';
are_fed('disabled');

sql("BEGIN; SELECT rose.drop_subscription('s', keep_slot => true); ROLLBACK");
are_fed('a drop that is rolled back');
sql("BEGIN; SAVEPOINT x; SELECT rose.drop_subscription('s', keep_slot => true); ROLLBACK TO x; COMMIT");
are_fed('in a subtransaction');
like(error_of($node, "BEGIN; SELECT rose.drop_subscription('s', keep_slot => true); SELECT 1 / 0; COMMIT"), qr/division by zero/, 'an error after it');
are_fed('after an error');
like(error_of($node, "BEGIN; SELECT rose.drop_subscription('s', keep_slot => true); PREPARE TRANSACTION 'x'"), qr/cannot PREPARE/, 'it is not prepared');
are_fed('not prepared');
sql("BEGIN; SELECT rose.alter_subscription('s', resync => 'a'); ROLLBACK");
are_fed('a resync that is rolled back');
is(sql('SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)'), '1|1', 'with its rows');
sql("BEGIN; SELECT rose.alter_subscription('s', publications => '{q}', refresh => true); ROLLBACK");
are_fed('a refresh that is rolled back');
crash_and_restart($node);
are_fed('after a crash');

# What commits lets go: of one table, and of all.
sql("SELECT rose.alter_subscription('s', publications => '{q}', refresh => true)");
sql('INSERT INTO b VALUES (2)');
like(error_of($node, 'INSERT INTO a VALUES (2)'), qr/a subscription feeds it/, 'a refresh lets go of one');
sql("SELECT rose.alter_subscription('s', resync => 'a', enabled => true)");
sql("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
up('INSERT INTO a VALUES (3)');
wait_for_apply($upstream, $node);
is(table_hash($node, 'a'), table_hash($upstream, 'a'), 'and the other one goes on, resynced');
sql("BEGIN; SELECT rose.drop_subscription('s', keep_slot => true); DROP TABLE b; COMMIT");
sql('INSERT INTO a VALUES (4)');
is(sql('SELECT count(*) FROM a'), 3, 'a drop that commits lets go');
crash_and_restart($node);
is(sql("INSERT INTO a VALUES (5); SELECT count(*) FROM a"), 4, 'for good');
is(sql("SELECT count(*) FROM rose.check('a')"), 0, 'rose.check');
up("SELECT pg_drop_replication_slot('s')");

$node->stop;
$upstream->stop;
done_testing();
