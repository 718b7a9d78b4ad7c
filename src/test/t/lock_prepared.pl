# Row locks of a prepared transaction outlive a crash and a spill: without them a
# row that a prepared foreign key check relies on could be deleted.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'of rose only' if $ENV{ROSE_STANDIN};

my $node = rose_node('main', "rose.spill_interval = '1h'", 'max_prepared_transactions = 5');

$node->safe_psql('postgres', q{
	CREATE TABLE parent (id int PRIMARY KEY, v int) USING rose;
	CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent) USING rose;
	INSERT INTO parent VALUES (1, 0), (2, 0);
	BEGIN;
	INSERT INTO child VALUES (1, 1);
	PREPARE TRANSACTION 'child';
});

sub delete_parent
{
	my ($rc, $out, $err) =
	  $node->psql('postgres', "SET lock_timeout = '200ms'; DELETE FROM parent WHERE id = 1");
	return $err;
}

like(delete_parent(), qr/lock timeout/, 'the row is locked');
$node->stop('immediate');
$node->start;
like(delete_parent(), qr/lock timeout/, 'the row is locked after a crash');
$node->safe_psql('postgres', 'UPDATE parent SET v = v + 1 WHERE id = 1');
$node->safe_psql('postgres', "SELECT rose.spill('parent')");
$node->stop('immediate');
$node->start;
like(delete_parent(), qr/lock timeout/, 'the row is locked after an update, a spill and a crash');
is($node->safe_psql('postgres', 'SELECT v FROM parent WHERE id = 1'), '1', 'the update is seen');
$node->safe_psql('postgres', "COMMIT PREPARED 'child'");
like(delete_parent(), qr/still referenced/, 'the child is there');
$node->safe_psql('postgres', 'DELETE FROM child; DELETE FROM parent WHERE id = 1');
is($node->safe_psql('postgres', 'SELECT count(*) FROM parent'), '1', 'the lock is gone');

$node->stop;
done_testing();
