
# Conflicts are counted in a large transaction of the upstream: looks at rows do not keep what merges replace meanwhile until it ends.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no merges' if $ENV{ROSE_STANDIN};

my ($upstream, $replica) = (upstream_node('autovacuum = off'), rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off'));
my $rows = 6000;
my $next = 1_000_000;

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub replaced { return down("SELECT replaced_bytes FROM rose.stat_space WHERE relid = 't'::regclass") }

# Rows of others come, and all components are replaced.
sub merge
{
	$next += 1000;
	return down("INSERT INTO t SELECT g, -1, 'here' FROM generate_series($next, $next + 500) g; SELECT rose.spill('t'); SELECT rose.merge('t')");
}

# Who holds a row, so that the subscription's worker waits for it.
sub holder
{
	my ($id) = @_;
	my $session = RoseTest::Session->new($replica);

	$session->run("BEGIN; SELECT id FROM t WHERE id = $id FOR UPDATE");
	$session->{pid} = $session->run('SELECT pg_backend_pid()');
	return $session;
}
sub until_waits_for
{
	my ($session, $what) = @_;

	return ok($replica->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type LIKE 'rose replication%' AND $session->{pid} = ANY (pg_blocking_pids(pid)))"), $what);
}

up("CREATE TABLE t (id int PRIMARY KEY, v int, t text); INSERT INTO t SELECT g, 0, repeat(md5(g::text), 4) FROM generate_series(1, $rows) g; CREATE PUBLICATION p FOR TABLE t");
down('CREATE TABLE t (id int PRIMARY KEY, v int, t text) USING rose; CREATE INDEX ON t (v)');
subscribe($upstream, $replica, undef, "durability => 'local'", "count_conflicts => 'exact'");
foreach my $mode ('exact', 'certain')
{
	my ($first, $last);

	# each has read the table, and would keep what is replaced later: so the second one comes when all of it is
	down("SELECT rose.alter_subscription('s', count_conflicts => '$mode')");
	$first = holder(1000);
	up("UPDATE t SET v = v + 1 WHERE id <= $rows");
	until_waits_for($first, "$mode: in the middle of a transaction");
	merge();
	cmp_ok(replaced(), '>', 0, 'what was looked at is kept for a while') if $mode eq 'exact';
	$last = holder($rows - 500);
	$first->run('COMMIT');
	until_waits_for($last, '... and later in it');
	is(replaced(), 0, '... nothing is kept');
	$last->run('COMMIT');
	$_->end foreach $first, $last;
	wait_for_apply($upstream, $replica);
	is(down("SELECT md5(string_agg(t::text, '' ORDER BY id)) FROM t WHERE id <= $rows"), up('SELECT md5(string_agg(t::text, \'\' ORDER BY id)) FROM t'), "$mode: rows");
	is(down("SELECT count(*) FROM rose.check('t')"), 0, "$mode: nothing is wrong with them");
}
is(down('SELECT confl_insert_exists + confl_update_exists + confl_update_missing + confl_delete_missing FROM rose.stat_subscription_tables'), 0, 'there were no conflicts');

$_->stop foreach $replica, $upstream;
done_testing();
