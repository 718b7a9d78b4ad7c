
# Snapshots that were taken on a standby, used after its promotion: the former primary's merges may have dropped
# what they need, so rose tables refuse them with an error that tells clients to try again.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap lets standbys wait' if $ENV{ROSE_STANDIN};

my $primary = rose_node('primary', 'rose.max_merge_workers = 0');

$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int) USING rose;
INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i;
SELECT rose.merge('t');
CREATE TABLE beside (id int);
INSERT INTO beside SELECT generate_series(1, 10);
CREATE FUNCTION total() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT sum(v) FROM t); END';
CREATE FUNCTION one(int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT v FROM t WHERE id = $1); END';
SQL
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);

# Sessions whose snapshots stay: by isolation level, by cursors, and one that is imported.
my %session = map { $_ => $standby->background_psql('postgres', on_error_stop => 0) }
  qw(scan lookup cursor exporter imported fresh);

# Output and errors of a query.
sub says
{
	my ($name, $sql) = @_;

	$session{$name}->{stderr} = '';
	return $session{$name}->query("\\set VERBOSITY verbose\n$sql") . $session{$name}->{stderr};
}

says($_, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM beside;') for qw(scan lookup exporter);
my $exported = says('exporter', 'SELECT pg_export_snapshot();');
says('cursor', 'BEGIN; DECLARE sums CURSOR FOR SELECT id, total() FROM beside; DECLARE ones CURSOR FOR SELECT one(id) FROM beside;');
says('fresh', 'BEGIN; SELECT count(*) FROM beside;');

# What they see of the table goes away.
$primary->safe_psql('postgres', "UPDATE t SET v = 1; SELECT rose.merge('t')");
$primary->wait_for_catchup($standby);
$standby->promote;

my $refused = qr/40001: could not serialize access because the snapshot was taken before this server was promoted/;
like(says('scan', 'SELECT sum(v) FROM t;'), $refused, 'a scan in REPEATABLE READ');
like(says('lookup', 'SELECT v FROM t WHERE id = 7;'), $refused, 'a lookup in REPEATABLE READ');
says('imported', "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$exported';");
like(says('imported', 'SELECT sum(v) FROM t;'), $refused, 'a snapshot that is imported');
like(says('cursor', 'SAVEPOINT s; FETCH FROM sums;'), $refused, 'a scan by a cursor');
like(says('cursor', 'ROLLBACK TO s; FETCH FROM ones;'), $refused, 'a lookup by a cursor');
is(says('fresh', 'SELECT sum(v) FROM t;'), '1000', 'the next statement in READ COMMITTED is right');

is(says($_, 'ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(v) FROM t; COMMIT;'), '1000', "trying again: $_")
  for qw(scan lookup cursor imported);
$_->quit for values %session;

$standby->stop;
$primary->stop;
done_testing();
