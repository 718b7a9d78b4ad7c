
# A crash of the replica while a table that shows its old rows is copied again: all old rows are there, or all new ones, and
# the state says which.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'");
my $rows = 3000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub state_of { return down("SELECT state FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }
sub old_rows_of { return down("SELECT old_rows_lsn IS NOT NULL FROM rose.stat_subscription_tables WHERE relid = '$_[0]'::regclass") }
sub synced { return down("SELECT rose.wait_for_sync('s', $timeout)") }
sub resync { return down("SELECT rose.alter_subscription('s', resync => '$_[0]')") }
sub same { my ($what, @tables) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }
sub is_sound { return is(down("SELECT count(*) FROM rose.check('$_[0]')"), 0, "$_[1]: nothing is wrong with it") }

# Of a table without key, rows are added only; the upstream may be at copying it, so nothing may be truncated.
sub replaced_upstream
{
	my ($table, $round) = @_;
	my $delete = $table eq 'nokey' ? '' : "DELETE FROM $table;";

	return up("BEGIN; $delete INSERT INTO $table SELECT i, i % 100, 'round $round' FROM generate_series(1, " . ($rows + $round) . ") i; COMMIT");
}

my $columns = '(id int, k int, v text, PRIMARY KEY (id))';
foreach my $run (\&up, \&down)
{
	my $rose = $run == \&down ? ' USING rose' : '';

	$run->("CREATE TABLE plain $columns$rose; CREATE TABLE other $columns$rose; CREATE TABLE nokey (id int, k int, v text)$rose");
	$run->("CREATE TABLE parted $columns" . ($run == \&down ? ' PARTITION BY RANGE (id)' : ''));
}
down("CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (1) TO (1000) USING rose");
down("CREATE TABLE parted_2 (v text, id int NOT NULL, gone int, k int) USING rose; ALTER TABLE parted_2 DROP gone");
down("ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (1000) TO (100000)");
down("CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (100000) TO (200000) USING rose");
down("CREATE INDEX plain_k ON plain (k); CREATE INDEX plain_x ON plain ((k + id), v); CREATE INDEX parted_k ON parted (k); CREATE INDEX nokey_k ON nokey (k)");
my @tables = qw(plain other nokey parted);
up("CREATE PUBLICATION p FOR TABLE plain, other, nokey, parted");
replaced_upstream($_, 0) foreach @tables;
subscribe($upstream, $replica);
down('CREATE TABLE child (id int PRIMARY KEY, plain int REFERENCES plain); INSERT INTO child SELECT i, i FROM generate_series(1, 100) i');
same('all is there', @tables);

# --- crashes
foreach my $point ('copy-reading', 'replace-ready', 'replace-switched', 'copy-committed')
{
	foreach my $table ('plain', 'parted')
	{
		my $old = table_hash($replica, $table);
		my $control = RoseTest::Session->new($replica);

		# paused, it has the old rows
		$control->run("SELECT stop_at('$point', 'wait', 'worker')");
		down("SELECT rose.pause_table('s', '$table')");
		up("INSERT INTO $table SELECT max(id) + 1, 1, '$point' FROM $table WHERE id < 90000; DELETE FROM $table WHERE id = (SELECT min(id) FROM $table)");
		resync($table);
		wait_for_stop($replica);
		crash($replica);
		start_without_replication($replica);
		is(table_hash($replica, $table), $point eq 'copy-committed' ? table_hash($upstream, $table) : $old, "$table, crash at $point: all old rows are there, or all new ones");
		is(old_rows_of($table), $point eq 'copy-committed' ? 'f' : 't', "$table, crash at $point: and it is known of which kind");
		like(error_of($replica, "INSERT INTO $table VALUES (1)"), qr/because a subscription feeds it/, "$table, crash at $point: nobody writes to it");
		replication_again($replica);
		synced();
		same("$table, crash at $point: goes on", @tables);
		is_sound($table eq 'parted' ? 'parted_2' : $table, "$table, crash at $point");
		$control->end;
	}
}
$_->stop foreach $replica, $upstream;
done_testing();
