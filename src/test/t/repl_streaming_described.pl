
# Descriptions of tables that come with a transaction before it commits: what has come after them, with other transactions,
# holds again when it has been applied, also if all of its rows were passed over.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'");

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_state { $replica->poll_query_until('postgres', "SELECT $_[0] FROM rose.stat_subscription") or die "never: $_[0]"; return }
sub same { my ($what, @tables) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }

stop_points_create($replica);
foreach my $table (qw(f other))
{
	up("CREATE TABLE $table (id int PRIMARY KEY, v text)");
	down("CREATE TABLE $table (id int PRIMARY KEY, v text) USING rose");
}
up('CREATE PUBLICATION p FOR TABLE f (id), other');
subscribe($upstream, $replica);
my $open = RoseTest::Session->new($upstream);

# What it has in f is described without v, and all of that is sent before v is published: so f is described once in it.
sub outdated
{
	my ($from) = @_;

	$open->run("BEGIN; INSERT INTO f SELECT g FROM generate_series($from, $from + 2000) g; INSERT INTO other SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series($from + 100, $from + 1100) g");
	return;
}

# After such a transaction, upstreams before 14.18, 15.13, 16.9 and 17.5 take f for described, and later ones describe it
# again. So that is not heard here.
sub undescribed
{
	my ($sql) = @_;

	down("SELECT stop_at('description-sent', 'skip', 'worker', 0, 0)");
	up($sql);
	$replica->poll_query_until('postgres', "SELECT stop_hits('description-sent') > 0") or die 'nothing is described again';
	down('SELECT stop_clear()');
	return;
}

# --- all of its rows are passed over: f has been copied since, and the stream goes back for another table
down("SELECT rose.pause_table('s', 'other')");
up("INSERT INTO other VALUES (1, 'paused')");
down("SELECT rose.alter_subscription('s', enabled => false)");
outdated(1);
up("ALTER PUBLICATION p SET TABLE f (id, v), other");
up("INSERT INTO f VALUES (-1, 'described anew')");
$open->run('COMMIT');
down("SELECT rose.alter_subscription('s', enabled => true, resync => 'f')");
down("SELECT rose.wait_for_sync('s', $timeout)");
wait_for_apply($upstream, $replica, undef, undef, 'f');
my $before = down('SELECT streamed_transactions FROM rose.stat_subscription');
down("SELECT rose.resume_table('s', 'other')");
same('the stream has gone back', qw(f other));
cmp_ok(down('SELECT streamed_transactions FROM rose.stat_subscription'), '>', $before, 'to before it');
undescribed("INSERT INTO f VALUES (-2, 'with a value')");
same('what was described later holds again', qw(f other));

# --- it has rows that are applied: then the column comes back, which is an error of the table, and nothing is lost
up('ALTER PUBLICATION p SET TABLE f (id), other');
down("SELECT rose.alter_subscription('s', resync => 'f')");
down("SELECT rose.wait_for_sync('s', $timeout)");
outdated(10001);
until_state('stream_transactions = 1');
up("ALTER PUBLICATION p SET TABLE f (id, v), other");
up("INSERT INTO f VALUES (-3, 'described anew')");
wait_for_apply($upstream, $replica);
is(down('SELECT v FROM f WHERE id = -3'), 'described anew', 'a column is published');
$open->run('COMMIT');
wait_for_apply($upstream, $replica);
undescribed("INSERT INTO f VALUES (-4, 'with a value')");
until_state("blocked_reason = 'table_error'");
like(down('SELECT last_error FROM rose.stat_subscription'), qr/column "v" of table "f" is another one than before/, 'which was not, and is again');
is(down('SELECT count(*) FROM f WHERE id = -4'), 0, 'no row without it');
down("SELECT rose.alter_subscription('s', resync => 'f')");
down("SELECT rose.wait_for_sync('s', $timeout)");
same('once it was copied', qw(f other));

# --- the same description, again and again: nothing changes by that
$open->run("BEGIN; INSERT INTO other SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series(50000, 51000) g");
until_state('stream_transactions = 1');
foreach my $round (1 .. 3)
{
	up("INSERT INTO other VALUES (-$round, 'beside'); INSERT INTO f VALUES (-10 - $round, 'beside')");
}
$open->run("UPDATE other SET v = 'x' WHERE id = 50000; COMMIT");
up("INSERT INTO other VALUES (-10, 'after'); INSERT INTO f VALUES (-20, 'after')");
same('descriptions that are the same', qw(f other));

$open->end;
$_->stop foreach $replica, $upstream;
done_testing();
