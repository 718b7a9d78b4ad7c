
# Copies in pieces that are interrupted again and again, at random moments and in random ways, by one process or several, while rows of every
# kind are changed on the upstream; at the end all is as there.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $seed = seed_random('ROSE_COPY_PIECES_SEED');
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.copy_piece_size = '64kB'", "rose.debug_copied_patience = '1h'", 'restart_after_crash = on', "rose.spill_interval = '1s'");
my $rows = 2500;
my $next = 100_000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub random { my ($n) = @_; return int(rand($n)) }
sub one_of { return $_[random(scalar @_)] }

# Every twentieth row has a value that is not sent unless it is changed; a local column that the upstream has not makes all UPDATEs incomplete.
my $columns = 'id int, k text, n int, v text, w text, PRIMARY KEY (n, id)';
my $values = "SELECT i, 'k' || i, i / 100, repeat('row ' || i, 10), CASE WHEN i % 20 = 0 THEN (SELECT string_agg(md5((i * 1000 + j)::text), '') FROM generate_series(1, 80) j) END";
my %where = (plain => 'true', filtered => 'n <> 7');

foreach my $table (sort keys %where)
{
	up("CREATE TABLE $table ($columns); ALTER TABLE $table ALTER w SET STORAGE external; INSERT INTO $table $values FROM generate_series(1, $rows) i");
	down("CREATE TABLE $table ($columns) USING rose; CREATE INDEX ON $table (k)" . ($table eq 'filtered' ? "; ALTER TABLE $table ADD here int DEFAULT 1" : ''));
}
up('CREATE PUBLICATION p FOR TABLE ' . join ', ', map { "$_ WHERE ($where{$_})" } sort keys %where);
subscribe($upstream, $replica);

sub contents
{
	my ($node, $table) = @_;

	return $node->safe_psql('postgres', "SELECT count(*) || ' ' || coalesce(md5(string_agg(h, '' ORDER BY h COLLATE \"C\")), '-') FROM (SELECT md5(ROW(id, k, n, v, w)::text) AS h FROM $table WHERE $where{$table}) s");
}

# Some rows, anywhere in the table. What is filtered comes in with a large value only if that is sent, so it has none.
sub change
{
	my ($table, $large) = @_;
	my $some = 'id % ' . (5 + random(60)) . ' = ' . random(5);
	my $n = 1 + random(400);

	$next += 1000;
	return one_of(
		"UPDATE $table SET v = v || 'x' WHERE $some",
		"UPDATE $table SET k = k || 'y', w = CASE WHEN w IS NOT NULL THEN md5(w) || w END WHERE $some",
		"DELETE FROM $table WHERE $some",
		"INSERT INTO $table $values FROM generate_series($next, $next + $n) i",
		"INSERT INTO $table $values FROM generate_series(1, $rows) i WHERE i % 13 = " . random(13) . ' ON CONFLICT DO NOTHING',
		"UPDATE $table SET id = id + $next WHERE $some AND w IS NULL",
		"UPDATE $table SET n = n + $next WHERE $some AND w IS NULL AND n > 8",
		"UPDATE $table SET n = 7, w = NULL WHERE $some",
		"UPDATE $table SET n = 8 WHERE n = 7 AND id % 2 = 0 AND w IS NULL",
		$large ? ("UPDATE $table SET id = id + $next WHERE $some AND n <> 7", "UPDATE $table SET n = n + $next WHERE $some AND n > 8") : (),
		random(6) == 0 ? "TRUNCATE $table; INSERT INTO $table $values FROM generate_series(1, $rows) i" : (),
		random(8) == 0 ? "VACUUM FULL $table" : ());
}

# A key may be there already: then nothing is changed. Nor is by what needs the table for itself while a copier that was stopped has it locked,
# who goes on only after this.
sub changed { $upstream->psql('postgres', "SET lock_timeout = '2s'; " . change(@_)); return }

sub copier { return down('SELECT pid FROM rose.stat_copy_progress WHERE pid IS NOT NULL LIMIT 1') }

my %interrupt = (
	crash => sub { crash_and_restart($replica) },
	kill => sub { my $pid = copier(); kill 'KILL', $pid if $pid; wait_until_up($replica) },
	cancel => sub { my $pid = copier(); down("SELECT pg_cancel_backend($pid)") if $pid },
	terminate => sub { down("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rose replication copier'") },
	helper => sub { down("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rose replication copier' ORDER BY random() LIMIT 1") },
	connection => sub { up("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender' ORDER BY random() LIMIT 1") },
	upstream => sub { $upstream->stop('immediate'); $upstream->start },
	drain => sub { down("SELECT rose.alter_subscription('s', enabled => false)"); down("SELECT rose.alter_subscription('s', enabled => true)") },
	nothing => sub { });

my $log = 0;
my %seen;
foreach my $round (1 .. 12)
{
	my $table = one_of(sort keys %where);
	my $large = random(2);
	my @ways;

	down('ALTER SYSTEM SET rose.max_copy_workers = ' . random(4) . '; SELECT pg_reload_conf()');
	down("SELECT rose.alter_subscription('s', resync => '$table')");
	foreach (1 .. 1 + random(3))
	{
		my $way = one_of(sort keys %interrupt);
		my $until = time() + 12;

		# some more pieces, or whatever comes; what is tried again is at once
		my $point = one_of('piece-loaded', 'piece-there', 'piece-committed');
		my $control = RoseTest::Session->new($replica);

		$control->run("SELECT stop_at('$point', 'wait', 'worker', " . random(8) . ')');
		eval { down("SELECT rose.alter_subscription('s', on_error => 'stop')") };
		usleep(50_000) until time() > $until || down("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)") eq 't' || down("SELECT state FROM rose.stat_subscription_tables WHERE relname = '$table'") eq 'ready';
		changed($table, $large) foreach 0 .. random(3);
		$interrupt{$way}->();
		push @ways, $way;
		# the session may have gone with the server
		eval { $control->run("SELECT go_on('$point'), stop_clear()"); $control->end };
		changed($table, $large) foreach 1 .. random(3);
	}
	eval { down("SELECT rose.alter_subscription('s', on_error => 'stop')") };
	down("SELECT rose.wait_for_sync('s', $timeout)");
	wait_for_apply($upstream, $replica);
	is(contents($replica, $_), contents($upstream, $_), "round $round, $table (@ways): $_ is as on the upstream") foreach sort keys %where;
	is(down("SELECT count(*) FROM rose.check('$table')"), 0, "round $round: nothing is wrong with it");
	is(down("SELECT (SELECT count(*) FROM rose.subscription_piece) || ' ' || (SELECT count(*) FROM pg_class WHERE relname LIKE 'copy_of%')"), '0 0', "round $round: nothing is left of its pieces");
}
my $text = slurp_file($replica->logfile);
note("$_: " . scalar(() = $text =~ /$_/g)) foreach 'has copied piece', 'goes on with the copy', 'of which 0 of', 'begins anew', 'has to be copied again', 'that this process helps with has ended';
cmp_ok(scalar(() = $text =~ /goes on with the copy of table "[a-z]+", of which [1-9]/g), '>', 0, 'some copies went on');

$_->stop foreach $replica, $upstream;
done_testing();
