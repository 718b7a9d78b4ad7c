# Files of indexes elsewhere than where they were written: on a standby that is promoted, in a backup, with data
# checksums, and emptied by a crash because they are unlogged. Written below SQL (src/test/server_trees).
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no trees' if $ENV{ROSE_STANDIN};

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 'logical', extra => ['--data-checksums']);
$primary->append_conf('postgresql.conf', "autovacuum = off\nrose.spill_interval = '1d'\nfull_page_writes = off\n");
$primary->start;
rose_create($primary, 'postgres');

$primary->safe_psql('postgres', <<'SQL');
CREATE FUNCTION tree_make(regclass, text, smallint[], smallint[]) RETURNS regclass LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_write(regclass, text, text) RETURNS bigint LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_entries(regclass) RETURNS SETOF text LANGUAGE C STRICT AS 'rose_server_trees';
CREATE FUNCTION tree_block_zero(regclass, text) RETURNS void LANGUAGE C STRICT AS 'rose_server_trees';
CREATE TABLE t (a int, b text COLLATE "C", c int PRIMARY KEY) USING rose;
INSERT INTO t SELECT nullif(n * 7919 % 50, 3), CASE WHEN n % 11 > 0 THEN repeat(md5(n::text), 3) END, n FROM generate_series(1, 20000) n;
CREATE UNLOGGED TABLE u (a int, c int PRIMARY KEY) USING rose;
INSERT INTO u SELECT n, n FROM generate_series(1, 100) n;
SQL
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# What there is on a server: entries by their order, problems.
sub all_of
{
	my ($node) = @_;
	return $node->safe_psql('postgres', <<'SQL');
SELECT count(*), md5(string_agg(e, ';')) FROM tree_entries('i') e;
SELECT * FROM rose.check('i');
SQL
}

# made, written, spilled, merged, and core's build has passed over it
$primary->safe_psql('postgres', <<'SQL');
SELECT tree_make('t', 'i', '{2,1}', '{1,0}'), tree_make('u', 'ui', '{1}', '{0}');
SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c <= 15000'), tree_write('ui', 'put', 'SELECT * FROM u');
SELECT rose.spill('i');
SELECT tree_write('i', 'delete', 'SELECT * FROM t WHERE c % 2 = 0 AND c <= 15000');
SELECT rose.spill('i'), rose.merge('i');
SELECT tree_write('i', 'put', 'SELECT * FROM t WHERE c > 15000');
BEGIN;
SELECT tree_block_zero('i', 'clear'), tree_block_zero('i', 'poison');
COMMIT;
SQL
my $blocks = $primary->safe_psql('postgres', "SELECT pg_relation_size('i') / 8192");
cmp_ok($blocks, '>', 70, 'the file has regions of eight blocks, and a map page');
my $expected = all_of($primary);
like($expected, qr/^12500\|\w+$/, 'entries of the primary, and no problems');
$primary->wait_for_catchup($standby);
like(($standby->psql('postgres', q{SELECT tree_entries('i')}))[2], qr/ERROR:  cannot read rose table "i" on a standby server yet/, 'a standby refuses it');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM rose.components('i') WHERE kind IS NULL}), 1, '... and knows nothing of its components');

# a backup of now
$primary->backup('later');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($primary, 'later');
$copy->start;
is(all_of($copy), $expected, 'a backup has the same');

$primary->stop('immediate');
$standby->promote;
is(all_of($standby), $expected, 'a standby that is promoted has the same');
foreach my $node ($standby, $copy)
{
	is($node->safe_psql('postgres', q{SELECT count(*) FROM tree_entries('ui'); SELECT * FROM rose.check('ui')}), '0', 'an unlogged one is empty there');
	foreach my $index (qw(i ui))
	{
		like(($node->psql('postgres', "SELECT tree_block_zero('$index', 'search')"))[2], qr/ERROR:  root page 1 of index "$index" has level 0, expected 1/,
			"... and btree meets an error in $index");
	}
	$node->safe_psql('postgres', q{SELECT tree_write('i', 'delete', 'SELECT * FROM t WHERE c > 15000'); SELECT rose.merge('i')});
	is($node->safe_psql('postgres', q{SELECT count(*) FROM tree_entries('i')}), 7500, '... and written to');
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], '... and all checksums are good');
}

# the primary itself, after its crash
$primary->start;
is(all_of($primary), $expected, 'the primary has the same after a crash');
is($primary->safe_psql('postgres', q{SELECT count(*) FROM tree_entries('ui'); SELECT * FROM rose.check('ui')}), '0', 'an unlogged one is empty');
$primary->safe_psql('postgres', q{SELECT tree_write('ui', 'put', 'SELECT 1 AS a, 1 AS c'); SELECT rose.spill('ui')});
$primary->stop;
command_ok([ 'pg_checksums', '--check', '-D', $primary->data_dir ], 'all checksums are good');
$primary->start;
is($primary->safe_psql('postgres', q{SELECT count(*) FROM tree_entries('ui')}), '1', 'an unlogged one survives a restart');

# ---- views ----

is($primary->safe_psql('postgres', q{SELECT string_agg(relname, ',' ORDER BY relname) FROM rose.trees}), 'i,t,u,ui', 'trees are listed');
is($primary->safe_psql('postgres', q{SELECT string_agg(DISTINCT relname, ',' ORDER BY relname) FROM rose.stat_components}), 'i,t,ui', '... with their components');
is($primary->safe_psql('postgres', q{SELECT string_agg(relname, ',' ORDER BY relname) FROM rose.stat_space WHERE file_bytes > 0}), 'i,t,u,ui', '... with their space');
is($primary->safe_psql('postgres', q{SELECT string_agg(relname, ',' ORDER BY relname) FROM rose.stat_merge_progress}), 'i,t,u,ui', '... with their merges');

done_testing();
