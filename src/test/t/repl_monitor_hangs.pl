# The second connection of a subscription, which asks for the end of the upstream's WAL, gets no answer: the stream goes on.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'the stand-in has one connection' if $ENV{ROSE_STANDIN};

my ($upstream, $node) = upstream_and_replica();

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }

up('CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t');
sql('CREATE TABLE t (id int PRIMARY KEY) USING rose');
subscribe($upstream, $node);
up('INSERT INTO t VALUES (1)');
wait_for_apply($upstream, $node);
my $worker = sql('SELECT pid FROM rose.stat_subscription');
my $asks = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender' AND pid NOT IN (SELECT active_pid FROM pg_replication_slots WHERE active) AND query ~ 'pg_current_wal_lsn'";
$upstream->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($asks) a") or die 'nobody asks';
my $pid = up($asks);

kill 'STOP', $pid;
my $start = time;

sleep(2.5);			# it was asked since
up('INSERT INTO t VALUES (2)');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 2 FROM t'), 'the stream goes on');
cmp_ok(time - $start, '<', 60, 'in time');
is(sql('SELECT pid FROM rose.stat_subscription'), $worker, 'with the same worker');
is(sql('SELECT state FROM rose.stat_subscription'), 'streaming', 'which streams');
ok($node->wait_for_log(qr/cannot ask for the end of the upstream's WAL: canceling statement due to statement timeout/), 'the log says so');
kill 'CONT', $pid;
up('INSERT INTO t VALUES (3)');
wait_for_apply($upstream, $node);
is(table_hash($node, 't'), table_hash($upstream, 't'), 'and on');

$node->stop;
$upstream->stop;
done_testing();
