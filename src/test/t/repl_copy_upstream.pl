
# Copies and who the upstream is: an old primary that goes on while a table is copied from it and the stream has followed its
# successor; a slot that was made by hand after a table was copied; an owner who is no superuser any more.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my ($upstream, $replica) = upstream_and_replica();
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub until_table { my ($table, $condition, $what) = @_; return until_down("$condition FROM rose.stat_subscription_tables WHERE relname = '$table'", $what) }
sub same { my ($what, @tables) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }

sub add_table
{
	my ($table) = @_;

	up("CREATE TABLE $table (id int PRIMARY KEY, v text); INSERT INTO $table SELECT i, 'row ' || i FROM generate_series(1, 100) i");
	down("CREATE TABLE $table (id int PRIMARY KEY, v text) USING rose");
	return;
}

# The primary is wherever this says, as with a name that a failover gives to another server.
my $where = PostgreSQL::Test::Utils::tempdir_short();
my $conninfo = $upstream->connstr('postgres') =~ s/host=\S+/host=$where/r =~ s/port=\S+/port=1/r;

sub lead_to
{
	my ($node) = @_;

	unlink "$where/.s.PGSQL.1";
	return !$node || symlink($node->host . '/.s.PGSQL.' . $node->port, "$where/.s.PGSQL.1") || die $!;
}

# --- a slot that was made by hand, beyond a table that was copied before there was a stream
add_table($_) foreach qw(live early);
up('CREATE PUBLICATION p FOR TABLE live');
lead_to($upstream);
down('CREATE ROLE boss SUPERUSER LOGIN');
down("SET SESSION AUTHORIZATION boss; SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'], create_slot => false, copy_data => false)");
until_down("blocked_reason = 'slot_missing' FROM rose.stat_subscription", 'there is no slot');
up('ALTER PUBLICATION p ADD TABLE early');
down("SELECT rose.alter_subscription('s', refresh => true)");
until_table('early', "state IN ('copied', 'ready')", 'a table is copied all the same');
up("INSERT INTO early VALUES (101, 'before the slot')");
up("SELECT pg_create_logical_replication_slot('s', 'pgoutput'); TRUNCATE live; INSERT INTO live VALUES (1, 'behind the slot')");
down("SELECT rose.alter_subscription('s')");
until_down("state = 'blocked' AND blocked_reason = 'slot_ahead' AND last_error ~ 'table \"public.early\"' FROM rose.stat_subscription", 'a slot that is further than a table that was copied');
down("SELECT rose.alter_subscription('s', resync => 'early')");
down("SELECT rose.wait_for_sync('s', $timeout)");
same('once that is copied again, all go on', qw(live early));

# --- an owner who is no superuser any more, in the middle of a copy
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('copy-loaded', 'wait', 'worker')");
my $early = down('SELECT count(*) FROM early');
down("SELECT rose.alter_subscription('s', resync => 'early')");
wait_for_stop($replica);
down('ALTER ROLE boss NOSUPERUSER');
$control->run("SELECT go_on('copy-loaded')");
until_table('early', "state = 'init' AND last_error ~ 'not a superuser'", 'nothing is copied in the name of an owner who may not');
is(down('SELECT count(*) FROM early'), $early, 'nor can it be seen: the old rows are there');
until_down("blocked_reason = 'owner' FROM rose.stat_subscription", 'and nothing is applied');
down('ALTER ROLE boss SUPERUSER');
down("SELECT rose.alter_subscription('s')");
down("SELECT rose.wait_for_sync('s', $timeout)");
same('until he may again', qw(live early));

# --- a primary that ends statements which take long
add_table('long');
up("INSERT INTO long SELECT i, repeat('long ' || i, 1000) FROM generate_series(1001, 3000) i; ALTER DATABASE postgres SET statement_timeout = '1s'");
my $log = -s $replica->logfile;
$control->run("SELECT stop_at('copy-reading', 'wait', 'worker')");
up('ALTER PUBLICATION p ADD TABLE long');
down("SELECT rose.alter_subscription('s', refresh => true)");
wait_for_stop($replica);
sleep 3;
$control->run("SELECT go_on('copy-reading')");
down("SELECT rose.wait_for_sync('s', $timeout)");
same('as long as it takes', qw(live early long));
unlike(slurp_file($replica->logfile, $log), qr/statement timeout/, 'its timeout is not for copies');
up('ALTER DATABASE postgres RESET statement_timeout');

# --- an old primary, which is copied from when the stream has followed a standby that was promoted
add_table('late');
down("SELECT rose.spill('live')");
$upstream->stop;
$upstream->backup_fs_cold('cold');
my $promoted = PostgreSQL::Test::Cluster->new('promoted');
$promoted->init_from_backup($upstream, 'cold', has_streaming => 1);
$upstream->start;
$promoted->start;
up('ALTER PUBLICATION p ADD TABLE late');
same('the old primary', qw(live early));
my $open = RoseTest::Session->new($upstream);
# the slot of the copy waits for it
$open->run('BEGIN; SELECT txid_current()');
$control->run("SELECT stop_at('copy-loaded', 'wait', 'worker')");
down("SELECT rose.alter_subscription('s', refresh => true)");
$upstream->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'walsender' AND query ~ 'CREATE_REPLICATION_SLOT' AND wait_event_type = 'Lock'") or die 'no copy waits';
lead_to(undef);
up("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender' AND query ~ 'START_REPLICATION SLOT \"s\"'");
until_down("state = 'error' FROM rose.stat_subscription", 'the stream is gone');
$upstream->wait_for_catchup($promoted);
$promoted->promote;
$open->run("INSERT INTO late VALUES (666, 'of no upstream of ours'); COMMIT");
$open->end;
$promoted->safe_psql('postgres', "INSERT INTO late SELECT i, repeat('of the new one', 100) FROM generate_series(1001, 2000) i");
wait_for_stop($replica);
lead_to($promoted);
until_down("state = 'streaming' FROM rose.stat_subscription", 'the new primary is followed');
is(down('SELECT timeline FROM rose.subscription_state'), 2, 'on its timeline');
$control->run("SELECT go_on('copy-loaded')");
until_table('late', "state = 'init' AND last_error ~ 'another server' OR state IN ('copied', 'ready')", 'a copy of the old one');
my $old = $upstream;
$upstream = $promoted;
down("SELECT rose.wait_for_sync('s', $timeout)");
same('is not taken in: the new one is copied', qw(live early late));

$_->stop foreach $replica, $promoted, $old;
done_testing();
