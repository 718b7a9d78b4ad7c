
# ALTER DATABASE ... SET TABLESPACE: what is known of the old files is forgotten before anybody can be in the
# database again, and nothing is when the command moves nothing, for then sessions may be in it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap has no stop points' if $ENV{ROSE_STANDIN};

my $node = rose_node('move', 'rose.max_merge_workers = 0', "rose.spill_interval = '1h'", "rose.memtable_size = '16MB'",
	'allow_in_place_tablespaces = on', 'autovacuum = off');
stop_points_create($node);
sub moved { return $node->safe_psql('moved', $_[0]) }

$node->safe_psql('postgres', "CREATE TABLESPACE there LOCATION ''");
$node->safe_psql('postgres', 'CREATE DATABASE moved');
rose_create($node, 'moved');
moved("CREATE TABLE $_ (id int PRIMARY KEY, v text) USING rose") foreach qw(t u);

my $rows = 0;

# A session in the midst of a scan of rows in memory, and what it writes.
sub begin_scan { return "BEGIN; DECLARE c CURSOR FOR SELECT id, v FROM t; SELECT 'first ' || id FROM t WHERE id = 1; FETCH 5 FROM c; \\echo scanning\n" }

sub add_rows
{
	moved('INSERT INTO t SELECT g, repeat(g::text, 20) FROM generate_series(' . ($rows + 1) . ', ' . ($rows + 3000) . ') g');
	$rows += 3000;
	return;
}

# The rest of the scan, after others have used what memory is free.
sub check_scan
{
	my ($session, $what) = @_;

	moved("INSERT INTO u SELECT g, repeat('wrong', 20) FROM generate_series(1, 10000) g; DELETE FROM u; SELECT rose.spill('u')");
	my ($out) = $session->query("FETCH ALL FROM c");
	my @lines = split /\n/, $out;
	is(scalar @lines, $rows - 5, "$what: all rows of the scan");
	is(scalar(grep { my ($id, $v) = split /\|/; !defined $v || $v ne $id x 20 } @lines), 0, "$what: as they were");
	$session->query('COMMIT; INSERT INTO t SELECT ' . ($rows + 1) . ", repeat('" . ($rows + 1) . "', 20)");
	$rows++;
	$session->quit;
	foreach my $when ('then', 'after a merge')
	{
		is(moved('SELECT count(*), max(id) FROM t WHERE v = repeat(id::text, 20)'), "$rows|$rows", "$what: all rows $when");
		is(moved("SELECT count(*) FROM rose.check('t')"), 0, "$what: sound $when");
		moved("SELECT rose.merge('t')") if $when eq 'then';
	}
	return;
}

# --- a command that moves nothing
add_rows();
my $session = $node->background_psql('moved');
$session->query_until(qr/^scanning$/m, begin_scan());
$node->safe_psql('postgres', 'ALTER DATABASE moved SET TABLESPACE pg_default');
check_scan($session, 'not moved');

# --- one that fails
add_rows();
$session = $node->background_psql('moved');
$session->query_until(qr/^scanning$/m, begin_scan());
my ($rc, $out, $err) = $node->psql('postgres', 'ALTER DATABASE moved SET TABLESPACE there');
like($err, qr/is being accessed by other users/, 'not while somebody is in it');
check_scan($session, 'refused');
($rc, $out, $err) = $node->psql('postgres', 'ALTER DATABASE moved SET TABLESPACE nowhere');
like($err, qr/does not exist/, 'not to where there is nothing');

# --- one that moves it, and a session that comes while it ends
my $control = RoseTest::Session->new($node);
my $mover = RoseTest::Session->new($node);
foreach my $to (qw(there pg_default))
{
	add_rows();
	$control->run("SELECT stop_at('database-moved', 'wait', 'client')");
	$mover->start("ALTER DATABASE moved SET TABLESPACE $to");
	wait_for_stop($node);
	my $comer = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('moved') ], '<', \(my $in = ''), '>', \(my $out = ''), '2>', \(my $err = ''),
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$in = begin_scan();
	$comer->pump_nb;
	# it is in, or it waits
	my $came = '';
	until ($came)
	{
		$comer->pump_nb;
		$came = $node->safe_psql('postgres', "SELECT 'waits' FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_database'::regclass AND NOT granted LIMIT 1");
		$came = 'is in' if $out =~ /^scanning$/m;
	}
	is($came, 'waits', "$to: nobody comes in before the command has ended");
	$control->run("SELECT go_on('database-moved')");
	$mover->finish;
	$comer->pump until $out =~ /^scanning$/m;
	moved("INSERT INTO u SELECT g, repeat('wrong', 20) FROM generate_series(1, 10000) g; DELETE FROM u; SELECT rose.spill('u')");
	$out = '';
	$in .= "FETCH ALL FROM c; COMMIT; \\echo fetched\n";
	$comer->pump until $out =~ /^fetched$/m;
	is(scalar(grep { /^(\d+)\|(.*)$/ && $2 eq $1 x 20 } split(/\n/, $out)), $rows - 5, "$to: all rows of the scan");
	$in .= "\\q\n";
	$comer->finish;
	is(moved('SELECT count(*), max(id) FROM t WHERE v = repeat(id::text, 20)'), "$rows|$rows", "$to: all rows");
	is(moved("SELECT count(*) FROM rose.check('t')"), 0, "$to: sound");
}
$_->end for $control, $mover;

# --- the lock goes with the command, whatever becomes of it
$node->safe_psql('postgres', 'CREATE DATABASE other');
my $one = RoseTest::Session->new($node);
$one->run('ALTER DATABASE other SET TABLESPACE there');
$one->run("DO 'BEGIN ASSERT (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = ''object'') = 0; END'");
is($one->run("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object'"), 0, 'no lock is left of a move');
my $in = $node->background_psql('other', on_error_stop => 0);
$in->query('SELECT 1');
my $two = $node->background_psql('postgres', on_error_stop => 0);
$two->query('DROP DATABASE other');
is($two->query("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object'"), 0, 'nor of a command that failed');
$in->quit;
$two->query('BEGIN; DROP DATABASE other');
is($two->query("ROLLBACK; SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object'"), 0, 'nor of one in a transaction');
$two->query('DROP DATABASE other');
is($two->query("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object'"), 0, 'nor of one that dropped it');
$two->quit;
$one->end;

crash_and_restart($node);
is(moved('SELECT count(t) FROM t'), $rows, 'all rows after a crash');
$node->stop;
done_testing();
