
# pg_upgrade of a replica in the middle of a copy in pieces: what is there of it does not go over, so the copy begins anew, and nothing
# of it is left. NEW_PG_CONFIG names another release to upgrade to.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use RoseUpgrade;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my @settings = ("wal_retrieve_retry_interval = '100ms'", "rose.copy_piece_size = '64kB'", 'rose.max_copy_workers = 1');
my $rows = 3000;
my $upstream = upstream_node('autovacuum = off');
# stop points are where the tests' settings say
my ($path) = slurp_file($ENV{TEMP_CONFIG}) =~ /^(dynamic_library_path = .*)$/m;
my $replica = upgrade_source('old', settings => [ @settings, "shared_preload_libraries = 'rose,rose_stop_points'", $path ]);
my $new = upgrade_target('new', $replica, settings => \@settings);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub left { return down("SELECT (SELECT count(*) FROM rose.subscription_copy) || ' ' || (SELECT count(*) FROM rose.subscription_piece) || ' ' || (SELECT count(*) FROM pg_class WHERE relname LIKE 'copy_of%')") }

$replica->start;
rose_create($replica, 'postgres');
stop_points_create($replica);
up("CREATE TABLE t (id int PRIMARY KEY, k int, v text); INSERT INTO t SELECT i, i % 100, repeat('row ' || i, 8) FROM generate_series(1, $rows) i; CREATE PUBLICATION p FOR TABLE t");
down('CREATE TABLE t (id int PRIMARY KEY, k int, v text) USING rose; CREATE INDEX ON t (k)');
subscribe($upstream, $replica);

my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('piece-committed', 'wait', 'worker', 1)");
down("SELECT rose.alter_subscription('s', resync => 't')");
wait_for_stop($replica);
down("SELECT rose.alter_subscription('s', enabled => false)");
ok($replica->poll_query_until('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription'), 'disabled');
$control->end;
like(left(), qr/^1 [0-9]+ 1$/, 'in the middle of a copy');
my $old = table_hash($replica, 't');
down('DROP FUNCTION stop_at, go_on, stop_hits, stop_clear');
$replica->stop;
up("UPDATE t SET k = k + 1 WHERE id % 3 = 0; DELETE FROM t WHERE id % 31 = 7");

if (ok(upgrade($replica, $new, 'copy'), 'pg_upgrade to ' . $new->pg_version))
{
	$replica = $new;
	$replica->start;
	is(table_hash($replica, 't'), $old, 'the old rows are there');
	my $log = -s $replica->logfile;
	down("SELECT rose.alter_subscription('s', enabled => true)");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	like(slurp_file($replica->logfile, $log), qr/begins anew with the copy of table "t"/, 'the copy begins anew');
	like(slurp_file($replica->logfile, $log), qr/has copied piece 1 of/, 'in pieces');
	wait_for_apply($upstream, $replica);
	is(table_hash($replica, 't'), table_hash($upstream, 't'), 'and is as on the upstream');
	is(down("SELECT count(*) FROM rose.check('t')"), 0, 'nothing is wrong with it');
	is(left(), '0 0 0', 'and nothing is left');
}

$_->stop foreach $replica, $upstream;
done_testing();
