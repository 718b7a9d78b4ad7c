# A drop of a subscription that fails changes nothing: its tables are still its own, though no worker is there to see to it.
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

my $own = qr/cannot write to table "\w" because a subscription feeds it/;

up('CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE a, b');
sql('CREATE TABLE a (id int PRIMARY KEY) USING rose; CREATE TABLE b (id int PRIMARY KEY) USING rose; CREATE INDEX ON b (id)');
subscribe($upstream, $node);
sql("SELECT rose.alter_subscription('s', enabled => false)");
$node->poll_query_until('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription') or fail('disabled');

# A table is locked: nothing waits for it any more when the slot is dropped, and others are let go.
my $locker = RoseTest::Session->new($node);
$locker->run('BEGIN; LOCK TABLE b IN SHARE UPDATE EXCLUSIVE MODE');
like(error_of($node, "SET lock_timeout = '200ms'; SELECT rose.drop_subscription('s')"), qr/lock timeout/, 'a table is locked');
$locker->run('ROLLBACK');
is(up("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 's'"), 1, 'it has its slot');
like(error_of($node, "INSERT INTO $_ VALUES (1)"), $own, "$_ is still fed") foreach qw(a b);

# It goes on as if nothing had been.
up('INSERT INTO a VALUES (7); INSERT INTO b VALUES (8)');
sql("SELECT rose.alter_subscription('s', enabled => true)");
wait_for_apply($upstream, $node);
is(sql('SELECT (SELECT id FROM a), (SELECT id FROM b)'), '7|8', 'the stream goes on');
sql("SELECT rose.drop_subscription('s')");
is(up('SELECT count(*) FROM pg_replication_slots'), 0, 'dropped');
is(sql('INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)'), '2|2', 'and the tables are let go');
$locker->end;

done_testing();
