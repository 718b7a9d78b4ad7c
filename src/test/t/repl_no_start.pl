# A replication worker that does not get as far as its database: whoever waits for it
# hears of that, and goes on when it can; and a database that is dropped, without its subscription,
# leaves nothing to be started.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no workers' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '1h'", 'rose.max_subscriptions = 1', "wal_retrieve_retry_interval = '100ms'");
my $conninfo = $upstream->connstr('postgres');

sub elsewhere { return $replica->safe_psql('template1', $_[0]) }

# What a session that is there already is told for this.
sub error_for
{
	my ($sql, $error) = @_;
	my $session = RoseTest::Session->new($replica);

	$session->run('SET statement_timeout = ' . 500 * $PostgreSQL::Test::Utils::timeout_default);
	elsewhere('ALTER DATABASE postgres ALLOW_CONNECTIONS false');
	elsewhere(q(SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type ~ '^rose replication worker'));
	eval { $session->run($sql) };
	my $said = $session->{err};
	elsewhere('ALTER DATABASE postgres ALLOW_CONNECTIONS true');
	$session->end;
	return like($said, $error, $sql);
}

$upstream->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, n int); CREATE PUBLICATION p FOR TABLE t; INSERT INTO t SELECT g, g FROM generate_series(1, 100) g');
$replica->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, n int) USING rose');
subscribe($upstream, $replica);

my $why = qr/the worker could not connect to its database/;

$upstream->safe_psql('postgres', 'UPDATE t SET n = n + 1');
wait_for_apply($upstream, $replica);
error_for("SELECT rose.spill('t')", qr/ERROR:  the replication worker cannot commit an epoch: $why/);
error_for("SELECT rose.merge('t')", qr/WARNING:  merging only what is on disk.*DETAIL:  the replication worker cannot commit an epoch: $why/s);
$replica->safe_psql('postgres', "SELECT rose.spill('t')");
is(table_hash($replica, 't'), table_hash($upstream, 't'), 'it goes on when it can');
$replica->safe_psql('postgres', "SELECT rose.drop_subscription('s')");

# --- its place is another's
elsewhere('CREATE DATABASE other');
$replica->safe_psql('other', 'CREATE EXTENSION rose; CREATE TABLE t (id int PRIMARY KEY, n int) USING rose');
$replica->safe_psql('other', "SELECT rose.create_subscription('o', \$\$$conninfo\$\$, '{p}')");
$replica->poll_query_until('other', "SELECT state = 'streaming' FROM rose.stat_subscription") or die 'it does not stream';
like(error_of($replica, 'DROP DATABASE other WITH (FORCE)'), qr/database "other" is being used by rose subscriptions/, 'its database is not dropped');
$replica->safe_psql('other', "SELECT rose.drop_subscription('o')");
elsewhere('DROP DATABASE other WITH (FORCE)');
$upstream->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_replication_slots WHERE active') or die 'somebody streams';
ok($replica->poll_query_until('template1', q(SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type ~ '^rose replication worker'))), 'no worker');
is(($replica->psql('postgres', "SELECT rose.create_subscription('s2', \$\$$conninfo\$\$, '{p}')"))[0], 0, 'the place of a dropped database is free');

$replica->stop;
$upstream->stop;
done_testing();
