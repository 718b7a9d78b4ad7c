# A standby of the replica, made of a base backup while transactions are prepared upstream, is promoted, and goes on in its place: it has what is kept of them.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 40', 'autovacuum = off');
plan skip_all => 'the upstream is too old' if $upstream->pg_version < 15;
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "wal_receiver_status_interval = '1s'", 'autovacuum = off', 'max_wal_senders = 10', "wal_keep_size = '200MB'");
my @tables = qw(t q nokey other);
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $from = 0;

prepared_tables($upstream, $replica);

# What is published when something else was committed behind it.
sub mark { up("INSERT INTO other SELECT coalesce(max(id), 0) + 1, 'mark' FROM other"); return }
sub next_changes { my ($rows) = @_; $from += 10000; return changes($from, $rows) }

sub same
{
	my ($node, $what) = @_;
	my $lsn = up('SELECT pg_current_wal_flush_lsn()');

	$node->safe_psql('postgres', "SELECT rose.wait_for_lsn('s', '$lsn', $timeout)");
	is(join(' ', grep { table_hash($node, $_) ne table_hash($upstream, $_) } @tables), '', $what);
	return;
}

foreach my $durability ('upstream', 'local')
{
	subscribe($upstream, $replica, undef, 'two_phase => true', "durability => '$durability'");
	streams();
	prepare('b1', next_changes(3000));
	prepare('b2', next_changes(30));
	prepare('b3', next_changes(300));
	mark();
	equal("$durability: prepared");
	down("SELECT rose.spill('t')");
	$replica->backup("backup_$durability");
	my $standby = PostgreSQL::Test::Cluster->new("standby_$durability");
	$standby->init_from_backup($replica, "backup_$durability", has_streaming => 1);

	# behind the backup
	prepare('b4', next_changes(3000));
	up("COMMIT PREPARED 'b1'");
	mark();
	equal("$durability: one is committed");
	down("SELECT rose.spill('t'), rose.spill('other')");
	$standby->start;
	up("ROLLBACK PREPARED 'b3'");
	mark();
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('t'), rose.spill('other')");
	$replica->wait_for_catchup($standby, 'replay', $replica->lsn('flush'));
	is($standby->safe_psql('postgres', q{SELECT string_agg(gid, ' ' ORDER BY gid) FROM rose.stat_subscription_prepared WHERE gid <> 'b1'}), 'b2 b4', "$durability: the standby has those that are prepared");

	crash($replica);
	$standby->promote;
	$standby->poll_query_until('postgres', "SELECT state = 'streaming' FROM rose.stat_subscription") or die 'the standby does not stream';
	up("COMMIT PREPARED 'b4'");
	mark();
	same($standby, "$durability: committed after the promotion");
	crash_and_restart($standby);
	up("COMMIT PREPARED 'b2'");
	same($standby, "$durability: and after a crash");
	$standby->safe_psql('postgres', "SELECT rose.spill('t'), rose.spill('other')");
	ok($standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM rose.subscription_prepared WHERE number > 0'), "$durability: nothing is left of any");

	# the old one again, which the slot is not for any more
	$standby->safe_psql('postgres', "SELECT rose.drop_subscription('s')");
	$standby->stop;
	$replica->start;
	down("SELECT rose.alter_subscription('s', enabled => false)");
	until_down('SELECT pid IS NULL FROM rose.stat_subscription');
	down("SELECT rose.drop_subscription('s')");
	down('TRUNCATE t, q, nokey, other');
	up('TRUNCATE t, q, nokey, other');
}
done_testing();
