# A disk that is full, really, where the temporary files are: those of transactions that the upstream sends before they commit, and
# those that a copy sorts with. Both say so, are tried again, and go on when there is room; nothing is lost meanwhile, nor by
# a crash. temp_file_limit is for clients.
#
# CRASH_SMALL_DISK as in crash_full_disk.pl.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $disk = $ENV{CRASH_SMALL_DISK};
plan skip_all => 'no small file system (CRASH_SMALL_DISK); run.sh mounts one as root' if !$disk;
plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", 'autovacuum = off');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub same { my ($what, @tables) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }
sub rows { my ($from, $to) = @_; return "INSERT INTO t SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series($from, $to) g" }

sub fill_disk
{
	open my $fh, '>', "$disk/ballast" or die "$disk/ballast: $!";
	my $block = 'x' x 4096;
	while (defined syswrite($fh, $block)) { }
	close $fh;
	return;
}

sub free_disk { unlink "$disk/ballast"; return; }

# This test itself is not limited, and needs no files.
$replica->append_conf('postgresql.conf', "temp_file_limit = '64kB'\nmaintenance_work_mem = '1MB'\nwork_mem = '64kB'");
$replica->reload;
$ENV{PGOPTIONS} = "-c temp_file_limit=-1 -c work_mem=64MB";

# Only temporary files are there.
mkdir "$disk/tmp" or die "$disk/tmp: $!";
my $place = $replica->data_dir . '/base/pgsql_tmp';
rmdir $place;
symlink "$disk/tmp", $place or die "$place: $!";

foreach my $table (qw(t other))
{
	up("CREATE TABLE $table (id int PRIMARY KEY, v text)");
	down("CREATE TABLE $table (id int PRIMARY KEY, v text) USING rose");
}
up('CREATE PUBLICATION p FOR TABLE t, other');
subscribe($upstream, $replica);
my $open = RoseTest::Session->new($upstream);

foreach my $when ('before it', 'in the middle of it')
{
	my $at = $when =~ /middle/ ? 100000 : 0;

	up("INSERT INTO other VALUES ($at, 'earlier')");
	same("before the disk is full, $when", 'other');
	fill_disk() if !$at;
	$open->run('BEGIN; ' . rows($at + 1, $at + 5000));
	if ($at)
	{
		until_down('stream_transactions = 1 FROM rose.stat_subscription', 'some of it is here');
		fill_disk();
		$open->run(rows($at + 5001, $at + 20000));
	}
	until_down("state = 'error' AND last_error ~ 'No space left on device' AND last_error ~ 'of transaction [0-9]+, which is in progress' FROM rose.stat_subscription", "full $when: the error says so");
	up("INSERT INTO other VALUES ($at + 1, 'later')");
	if ($at)
	{
		# else it comes again, behind what there is no room for
		down("SELECT rose.spill('other')");
		crash_and_restart($replica);
	}
	until_down("last_error ~ 'No space left on device' FROM rose.stat_subscription", 'it is tried again');
	is(down("SELECT count(*) FROM other WHERE id = $at") . down("SELECT count(*) FROM t WHERE id > $at"), '10', 'what was there is there');
	free_disk();
	wait_for_apply($upstream, $replica);
	until_down("state = 'streaming' FROM rose.stat_subscription", 'and goes on with room');
	$open->run('COMMIT');
	same("full $when: nothing is lost", 'other', 't');
}

# --- a copy that sorts
fill_disk();
down("SELECT rose.alter_subscription('s', resync => 't')");
until_down("state = 'init' AND last_error ~ 'No space left on device' FROM rose.stat_subscription_tables WHERE relname = 't'", 'a copy says so, too');
up("INSERT INTO other VALUES (-1, 'beside'); INSERT INTO t VALUES (-1, 'meanwhile')");
wait_for_apply($upstream, $replica, undef, undef, 'other');
free_disk();
down("SELECT rose.wait_for_sync('s', $timeout)");
same('and is made with room', 'other', 't');
is(down("SELECT string_agg(msg, '; ') FROM rose.check('t')"), '', 'rose.check');

$open->end;
$_->stop foreach $replica, $upstream;
done_testing();
