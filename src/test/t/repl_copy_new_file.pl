
# The upstream's table gets a new file between a copy's snapshot and its lock: by TRUNCATE, by ALTER TABLE, by VACUUM FULL; it, or
# one of its partitions. To the snapshot it is empty then, and of ALTER TABLE the stream has no rows. Or a table becomes a partition of
# it: the snapshot does not see what was written to that after it, and nor does the stream what was written before it was one.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'");
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub synced { return down("SELECT rose.wait_for_sync('s', $timeout)") }
sub same { my ($what, $table) = @_; wait_for_apply($upstream, $replica); return is(table_hash($replica, $table), table_hash($upstream, $table), $what) }

my @tables = ('plain', 'nokey', 'parted', 'filtered');
my %key = (nokey => '', plain => ', PRIMARY KEY (id)', parted => ', PRIMARY KEY (id)', filtered => ', PRIMARY KEY (v, id)');
foreach my $table (@tables)
{
	up("CREATE TABLE $table (id int, v text, n int$key{$table})" . ($table eq 'parted' ? ' PARTITION BY RANGE (id)' : ''));
	down("CREATE TABLE $table (id int, v text, n int$key{$table}) USING rose; CREATE INDEX ON $table (v)");
}
up("CREATE TABLE parted_$_ PARTITION OF parted FOR VALUES FROM (" . 100 * $_ . ') TO (' . 100 * ($_ + 1) . ')') foreach 0 .. 2;
up("CREATE TABLE parted_rest PARTITION OF parted DEFAULT");
up("INSERT INTO $_ SELECT i, 'row ' || i, i % 7 FROM generate_series(1, 400) i") foreach @tables;
# rows that meet a condition are read by a query
up('CREATE PUBLICATION p FOR TABLE plain, nokey, parted, filtered WHERE (id > 0) WITH (publish_via_partition_root)');
subscribe($upstream, $replica);

my $control = RoseTest::Session->new($replica);

# The copy of $table, with $sql on the upstream between its snapshot and its lock. Returns how many rows it had when it was committed,
# before the stream came to anything, and how many are said to have been tried in vain.
sub copied_beside
{
	my ($table, $sql) = @_;
	my $log = -s $replica->logfile;
	my $rows;

	$control->run("SELECT stop_at('copy-snapshot', 'wait', 'worker'), stop_at('copy-committed', 'wait', 'worker')");
	down("SELECT rose.alter_subscription('s', resync => '$table')");
	wait_for_stop($replica);
	up($sql);
	$control->run("SELECT go_on('copy-snapshot')");
	wait_for_stop($replica);
	$rows = down("SELECT count(*) FROM $table");
	$control->run("SELECT go_on('copy-committed')");
	synced();
	my $failures = () = slurp_file($replica->logfile, $log) =~ /"public\.$table" was emptied, or written anew, or got a partition, while its copy began/g;
	return "$rows $failures";
}

my $refill = "SELECT i, 'again ' || i, 0 FROM generate_series(1, 300) i";
foreach my $table (@tables)
{
	is(copied_beside($table, "BEGIN; TRUNCATE $table; INSERT INTO $table $refill; COMMIT"), '300 1', "$table: emptied and filled again: nobody sees it empty");
	same("$table: and it has what the upstream has", $table);
	is(copied_beside($table, "ALTER TABLE $table ALTER n TYPE bigint"), '300 1', "$table: written anew by ALTER TABLE");
	same("$table: no row is lost", $table);
	is(copied_beside($table, "VACUUM FULL $table"), '300 1', "$table: written anew by VACUUM FULL") if $table eq 'nokey';
	my $update = $table eq 'nokey' ? '' : "UPDATE $table SET n = n + 1;";
	is(copied_beside($table, "$update VACUUM $table; ALTER TABLE $table SET (autovacuum_enabled = off)"), '300 0', "$table: what leaves it its file does not matter") if $table ne 'parted';
	same("$table: and changes are applied", $table);
}

is(copied_beside('plain', 'TRUNCATE plain'), '0 1', 'emptied, and left empty');
up("INSERT INTO plain $refill");
same('filled by the stream', 'plain');

# --- partitions
is(copied_beside('parted', 'BEGIN; TRUNCATE parted_1; INSERT INTO parted SELECT i, \'one\', 1 FROM generate_series(100, 199) i; COMMIT'), '300 1', 'a partition is emptied and filled again');
# a TRUNCATE of a partition alone is not sent
up('DELETE FROM parted WHERE id < 0');
same('and its rows are there', 'parted');
is(copied_beside('parted', 'DROP TABLE parted_rest; CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (300) TO (400)'), '299 1', 'one that has come');
up("INSERT INTO parted SELECT i, 'new', 1 FROM generate_series(301, 310) i");
same('all is there in the end', 'parted');
is(copied_beside('parted', 'DROP TABLE parted_3'), '299 0', 'one that has gone is no matter');
up("CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (300) TO (400)");

# --- what becomes a partition
my $alone = 'CREATE TABLE parted_%1$s (LIKE parted INCLUDING ALL)%2$s';
my $fill = "INSERT INTO parted_%1\$s SELECT i, 'alone', %1\$s FROM generate_series(%2\$s, %3\$s) i";
my $attach = 'ALTER TABLE parted ATTACH PARTITION parted_%1$s FOR VALUES FROM (%1$s00) TO (%2$s00)';
is(copied_beside('parted', join '; ', sprintf($alone, 4, ''), sprintf($fill, 4, 400, 449), sprintf($attach, 4, 5)), '349 1', 'made, filled and attached');
same('and its rows are there', 'parted');
up(join '; ', sprintf($alone, 5, ''), sprintf($fill, 5, 500, 509));
is(copied_beside('parted', join '; ', sprintf($fill, 5, 510, 519), 'DELETE FROM parted_5 WHERE id = 500', sprintf($attach, 5, 6), sprintf($fill, 5, 520, 529)), '378 1', 'there before, filled further and attached');
same('and its rows are there, those that came later, too', 'parted');
up(join '; ', sprintf($alone, 6, ' PARTITION BY RANGE (id)'), 'CREATE TABLE sixth PARTITION OF parted_6 DEFAULT', sprintf($fill, 6, 600, 609));
is(copied_beside('parted', join '; ', sprintf($fill, 6, 610, 619), sprintf($attach, 6, 7)), '398 1', 'one with partitions of its own');
same('and its rows are there', 'parted');
up(join '; ', sprintf($alone, 7, ''), sprintf($fill, 7, 650, 659) =~ s/parted_7/sixth/r);
is(copied_beside('parted', 'BEGIN; ' . join('; ', sprintf($fill, 7, 700, 709), sprintf($attach, 7, 8)) . '; ROLLBACK'), '408 0', 'one that was not attached after all is no matter');
same('and all is there', 'parted');

# --- in the worker itself
down('ALTER SYSTEM SET rose.max_copy_workers = 0; SELECT pg_reload_conf()');
is(copied_beside('plain', 'ALTER TABLE plain ALTER n TYPE int'), '300 1', 'by the worker');
same('and no row is lost', 'plain');

$control->end;
$_->stop foreach $replica, $upstream;
done_testing();
