# A table that a subscription feeds, with many pieces in C2: pending runs, and rows whose newest
# version has only some of their columns (a large value that did not change is not sent), across
# the boundaries of pieces and between the strides of a merge.
#
# The replica dies at chosen stages of merges and epochs, a random number of arrivals
# later, while the upstream goes on (FED_SEED, FED_ROUNDS). It is first looked at without
# replication, as the crash left it.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(time usleep);

plan skip_all => 'the stand-in has no pieces' if $ENV{ROSE_STANDIN};

my $seed = seed_random('FED_SEED');
my $rounds = $ENV{FED_ROUNDS} // 8;
my $rows = 4000;
my $upstream = upstream_node();
my $replica = rose_node(
	'replica', "rose.debug_piece_size = '256kB'", "rose.spill_interval = '100ms'", 'rose.background_spill_size = 0',
	"wal_retrieve_retry_interval = '100ms'", 'rose.max_subscriptions = 4', 'restart_after_crash = off');

stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

# large is stored apart and does not compress, so an update that leaves it alone does not send it.
my $columns = 'id int PRIMARY KEY, a bigint, b bigint, large text';
up("CREATE TABLE t ($columns); ALTER TABLE t ALTER large SET STORAGE EXTERNAL; CREATE TABLE sums (id int PRIMARY KEY, n bigint)");
up("CREATE FUNCTION large(seed bigint) RETURNS text LANGUAGE sql AS 'SELECT string_agg(md5((\$1 * 100 + g)::text), '''') FROM generate_series(1, 70) g'");
up("INSERT INTO t SELECT g, 0, 0, large(g) FROM generate_series(1, $rows) g; INSERT INTO sums SELECT g, 0 FROM generate_series(0, 9) g");
up('CREATE PUBLICATION p FOR TABLE t, sums');
down("CREATE TABLE t ($columns) USING rose; CREATE TABLE sums (id int PRIMARY KEY, n bigint) USING rose");
subscribe($upstream, $replica);
# The copy is one piece; a merge that touches all of it makes several.
foreach my $n (1, 2)
{
	up("UPDATE t SET b = $n");
	wait_for_apply($upstream, $replica);
	down("SELECT rose.merge('t')");
}
cmp_ok(down("SELECT count(*) FROM rose.components('t') WHERE kind = 'C2'"), '>', 8, 'C2 has several pieces');

# What is added to a row of t is added to sums; whole rows come and go with nothing in a.
my $script = $upstream->basedir . '/fed.sql';
append_to_file($script, <<SQL);
\\set id random(1, $rows)
\\set other random(1, $rows)
\\set gone random($rows + 1, $rows + 300)
\\set client :client_id
BEGIN;
UPDATE t SET a = a + 1 WHERE id = :id;
UPDATE sums SET n = n + 1 WHERE id = :client;
COMMIT;
UPDATE t SET b = b + 1 WHERE id BETWEEN :other AND :other + 15;
DELETE FROM t WHERE id = :gone;
INSERT INTO t VALUES (:gone, 0, :id, large(:id)) ON CONFLICT DO NOTHING;
UPDATE t SET large = large(:other) WHERE id = :other;
SQL

# '' if both tables are at one upstream position and t's parts agree.
sub disagreement
{
	my ($sums, $a) = split /\|/, down('SELECT (SELECT sum(n) FROM sums), (SELECT sum(a) FROM t)');

	return "sum of a is $a, should be $sums" if $sums != $a;
	my $missing = down("SELECT count(*) FROM t WHERE length(large) IS DISTINCT FROM 2240");
	return "$missing rows without their large value" if $missing;
	return down("SELECT c::text FROM rose.check('t') c LIMIT 1");
}

sub difference
{
	wait_for_apply($upstream, $replica);
	foreach my $table (qw(t sums))
	{
		my ($theirs, $ours) = (table_hash($upstream, $table), table_hash($replica, $table));
		return "$table: upstream $theirs, replica $ours" if $theirs ne $ours;
	}
	my $by_key = down('SET enable_seqscan = off; SELECT count(*) FROM t s WHERE (SELECT md5(t::text) FROM t WHERE t.id = s.id) IS DISTINCT FROM md5(s::text)');
	return "$by_key rows are others when looked up" if $by_key;
	return disagreement();
}

my @stages = qw(merge-published merge-read merge-built manifest-switched spill-published epoch-spilled epoch-committed epoch-settled);
my $partials = 0;
foreach my $round (1 .. $rounds)
{
	my $stage = $stages[ ($round - 1) % @stages ];
	my $skip = int(random_between(0, $stage =~ /^(merge|manifest)/ ? 12 : 4));
	my ($out, $err) = ('', '');
	my @problems;
	my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', 2, '-T', 3, '--random-seed', $seed + $round, $upstream->connstr('postgres') ], '>', \$out, '2>', \$err);

	usleep(1_000_000 * random_between(0.2, 1));
	$partials += down("SELECT coalesce(sum(partials), 0) FROM rose.stat_subscription_tables");
	down("SELECT stop_at('$stage', 'crash', 'any', $skip)");
	my $merge = IPC::Run::start([ 'psql', '-Xq', '-d', $replica->connstr('postgres'), '-c', "SELECT rose.merge('t')", '-c', "SELECT rose.merge('t')" ], '>', '/dev/null', '2>', '/dev/null');
	my $deadline = time() + 6;
	usleep(50_000) while -e $replica->data_dir . '/postmaster.pid' && time() < $deadline;
	if (-e $replica->data_dir . '/postmaster.pid')
	{
		note("nobody came to $stage after $skip");
		crash($replica);
	}
	$replica->{_pid} = undef;
	eval { $merge->finish };
	start_without_replication($replica);
	push @problems, disagreement();
	replication_again($replica);
	$pgbench->finish or push @problems, $err;
	push @problems, difference();
	@problems = grep { $_ ne '' } @problems;
	is(join("\n", @problems), '', "round $round, a crash at $stage after $skip");
	last if @problems;
}
cmp_ok($partials, '>', 100, 'rows came without their large value');
down("SELECT rose.merge('t')");
is(difference(), '', 'after a last merge');
is(down("SELECT sum(tombstones) FROM rose.components('t') WHERE kind = 'C2'"), 0, 'which leaves no tombstones');

$replica->stop;
$upstream->stop;
done_testing();
