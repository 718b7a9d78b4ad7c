# A server that does not preload rose: rose tables give a clear error with a
# hint, everything else works, and the data is intact once rose is preloaded again.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap needs no library' if $ENV{ROSE_STANDIN};

my $node = rose_node('not_preloaded');

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE spilled (id int PRIMARY KEY, v text) USING rose;
INSERT INTO spilled SELECT i, 'row ' || i FROM generate_series(1, 5000) i;
SELECT rose.spill('spilled');
UPDATE spilled SET v = 'changed' WHERE id % 10 = 0;
CREATE TABLE fresh (id int PRIMARY KEY) USING rose;
INSERT INTO fresh SELECT generate_series(1, 100);
CREATE TABLE beside (id int PRIMARY KEY);
INSERT INTO beside VALUES (1);
SQL
my %hash = map { $_ => table_hash($node, $_) } qw(spilled fresh);

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;

my $message = qr/ERROR:  rose must be loaded via shared_preload_libraries/;
my $hint = qr/HINT:  Add rose to shared_preload_libraries in postgresql.conf and restart the server\./;

foreach my $sql (
	'SELECT * FROM spilled',
	'SELECT v FROM spilled WHERE id = 7',
	'SELECT count(*) FROM fresh',
	'INSERT INTO fresh VALUES (101)',
	'UPDATE spilled SET v = NULL',
	'DELETE FROM fresh',
	'TRUNCATE fresh',
	'DROP TABLE fresh',
	'ALTER TABLE spilled ADD COLUMN w int DEFAULT 1',
	'VACUUM spilled',
	'ANALYZE spilled',
	'REINDEX TABLE spilled',
	'CREATE TABLE another (id int PRIMARY KEY) USING rose',
	"SELECT rose.spill('spilled')",
	"SELECT rose.merge('spilled')",
	"SELECT * FROM rose.check('spilled')")
{
	my ($status, $out, $err) = $node->psql('postgres', $sql);

	isnt($status, 0, "fails: $sql");
	like($err, $message, 'says that rose must be preloaded');
	like($err, $hint, 'and what to do');
}

is($node->safe_psql('postgres', 'INSERT INTO beside VALUES (2); SELECT count(*) FROM beside'),
	'2', 'heap tables work');
my ($status, $out, $err) = $node->psql('postgres', "LOAD 'rose'; SELECT count(*) FROM fresh");
like($err, $message, 'loading the library later is not enough');

# A whole life of the server without rose, a crash included.
$node->safe_psql('postgres', 'CHECKPOINT; VACUUM beside');
$node->stop('immediate');
$node->start;

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'rose'");
$node->restart;
is(table_hash($node, $_), $hash{$_}, "$_ is what it was") for qw(spilled fresh);
is($node->safe_psql('postgres', "SELECT count(*) FROM rose.check('$_')"), '0', "$_ is sound")
  for qw(spilled fresh);
is($node->safe_psql('postgres', 'INSERT INTO fresh VALUES (101); SELECT count(*) FROM fresh'),
	'101', 'and can be written');

$node->stop;
done_testing();
