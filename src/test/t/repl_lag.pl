# The lag is nothing only if that is known: not while the worker waits for a lock, and not while there is none.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no lag' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $node = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", 'max_prepared_transactions = 5');

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub lag { return sql("SELECT coalesce(lag_bytes::text, 'unknown'), lag_ms::bigint FROM rose.stat_subscription") }

# What it says when it has been so for so many milliseconds.
sub lag_of
{
	my ($ms) = @_;

	$node->poll_query_until('postgres', "SELECT lag_ms >= $ms FROM rose.stat_subscription") or diag("the lag is never that of $ms ms");
	return split /\|/, lag();
}

sub until_no_lag { return ok($node->poll_query_until('postgres', 'SELECT lag_bytes = 0 AND lag_ms = 0 FROM rose.stat_subscription'), $_[0]) }

up('CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int); CREATE PUBLICATION p FOR TABLE t');
sql('CREATE TABLE t (id int PRIMARY KEY) USING rose');
subscribe($upstream, $node);
up('INSERT INTO t VALUES (1)');
wait_for_apply($upstream, $node);
until_no_lag('nothing is missing');

# It waits for a lock, with what it has received in its hands.
sql("BEGIN; LOCK TABLE t; PREPARE TRANSACTION 'locked'");
up('INSERT INTO t VALUES (2)');
my ($bytes, $ms) = lag_of(5000);
isnt($bytes, '0', 'stuck: not nothing is missing');
cmp_ok($ms, '>=', 5000, 'and it has been so for a while');
cmp_ok((lag_of($ms + 1900))[1], '>=', $ms + 1900, 'time goes on');
sql("ROLLBACK PREPARED 'locked'");
wait_for_apply($upstream, $node);
until_no_lag('nothing is missing again');

# Nobody is there to ask.
sql("SELECT rose.alter_subscription('s', enabled => false)");
$node->poll_query_until('postgres', "SELECT pid IS NULL FROM rose.stat_subscription") or fail('ended');
($bytes, $ms) = lag_of(1000);
isnt($bytes, '0', 'disabled: nobody knows what is missing');
cmp_ok($ms, '>=', 1000, 'and time goes on');
sql("SELECT rose.alter_subscription('s', enabled => true)");
until_no_lag('enabled: nothing is missing');

# Who waits hears of what is not ours, too, though the upstream is told nothing.
sql('ALTER SYSTEM SET wal_receiver_status_interval = 0');
$node->restart;
until_no_lag('after a restart');
up('INSERT INTO other VALUES (1)');
my $lsn = up('SELECT pg_current_wal_flush_lsn()');
is(error_of($node, "SELECT rose.wait_for_lsn('s', '$lsn', 60)") =~ /ERROR/ ? 'timed out' : '', '', 'wait_for_lsn without status messages');
up('INSERT INTO t VALUES (3)');
wait_for_apply($upstream, $node);
is(table_hash($node, 't'), table_hash($upstream, 't'), 'all is there');

# An error that is too long for its place ends with a whole character, wherever it is cut.
foreach my $before ('a', 'aa', 'aaa')
{
	my $service = $before . "\x{c3}\x{a9}" x 1500;		# é

	sql("SELECT rose.alter_subscription('s', enabled => false)");
	sql("SELECT rose.alter_subscription('s', conninfo => 'host=/$service')");
	sql("SELECT rose.alter_subscription('s', enabled => true)");
	ok($node->poll_query_until('postgres', "SELECT last_error ~ '/${before}é' FROM rose.stat_subscription"), 'it cannot connect');
	is(sql("SELECT convert_from(convert_to(last_error, 'UTF8'), 'UTF8') = last_error FROM rose.stat_subscription"), 't', 'whole characters');
}

done_testing();
