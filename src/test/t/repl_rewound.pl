
# An upstream that is put back to an old state while the stream has gone back for a table: the other tables are further than
# the stream, and what they have must be of the upstream's history, too.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no subscriptions' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my ($upstream, $replica) = upstream_and_replica();

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub applied { return down("SELECT rose.wait_for_lsn('s', '" . up('SELECT pg_current_wal_flush_lsn()') . "', $timeout, 'further')") }

sub copy_directory
{
	my ($from, $to) = @_;

	system_or_bail('rm', '-rf', $to);
	system_or_bail('cp', '-a', $from, $to);
	return;
}

foreach my $table (qw(paused further))
{
	up("CREATE TABLE $table (id int PRIMARY KEY, v text)");
	down("CREATE TABLE $table (id int PRIMARY KEY, v text) USING rose");
}
up('CREATE PUBLICATION p FOR TABLE paused, further');
down("SELECT rose.create_subscription('s', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['p'])");
down("SELECT rose.wait_for_sync('s', $timeout)");
up("INSERT INTO further VALUES (1, 'first'); INSERT INTO paused VALUES (1, 'first')");
applied();
down("SELECT rose.pause_table('s', 'paused')");
up("INSERT INTO further VALUES (2, 'second'); INSERT INTO paused VALUES (2, 'second')");
applied();
$upstream->stop;
copy_directory($upstream->data_dir, $upstream->basedir . '/old');
$upstream->start;
up("INSERT INTO further SELECT g, repeat('lost by the restore', 100) FROM generate_series(1001, 1100) g");
applied();
down("SELECT rose.spill('further')");
$upstream->stop;
# before the old one is there, so that the stream's own position is one that it has
down("SELECT rose.resume_table('s', 'paused')");
copy_directory($upstream->basedir . '/old', $upstream->data_dir);
$upstream->start;
up("INSERT INTO further SELECT g, 'of another history' FROM generate_series(2001, 2005) g");
ok($replica->poll_query_until('postgres', "SELECT blocked_reason = 'behind' FROM rose.stat_subscription WHERE state = 'blocked'"), 'an upstream that lacks what other tables have');
is(down("SELECT count(*) FROM further WHERE v = 'of another history'"), '0', 'nothing of it is applied');

$replica->stop;
$upstream->stop;
done_testing();
