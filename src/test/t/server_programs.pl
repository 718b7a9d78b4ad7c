# reindexdb, vacuumdb, clusterdb, pg_amcheck and pgstattuple in a database with rose tables of all kinds: what they can do is
# done, what they cannot is said, and no heap table is left out for it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'for heap they are made' if $ENV{ROSE_STANDIN};

my $node = rose_node('programs', "rose.spill_interval = '1h'", 'autovacuum = off');
my @tables = qw(keyed keyless parted_1 logless view_of_rows);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(<<'SQL');
CREATE TABLE keyed (id int PRIMARY KEY, v text) USING rose;
INSERT INTO keyed SELECT i, md5(i::text) FROM generate_series(1, 5000) i;
SELECT rose.spill('keyed');
UPDATE keyed SET v = 'x' WHERE id % 10 = 0;
CREATE TABLE keyless (a int) USING rose;
INSERT INTO keyless SELECT generate_series(1, 1000);
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10) USING rose;
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20) USING heap;
INSERT INTO parted SELECT generate_series(1, 19);
CREATE UNLOGGED TABLE logless (id int PRIMARY KEY) USING rose;
CREATE MATERIALIZED VIEW view_of_rows USING rose AS SELECT count(*) FROM keyed;
CREATE TABLE heap (id int PRIMARY KEY, v text) USING heap;
INSERT INTO heap SELECT i, 'x' FROM generate_series(1, 1000) i;
CREATE INDEX heap_v ON heap (v);
SQL
my $contents = join ',', map { table_hash($node, $_) } @tables;

sub unharmed
{
	my ($what) = @_;

	is((join ',', map { table_hash($node, $_) } @tables), $contents, "$what: same rows");
	is(sql("SELECT count(*) FROM unnest('{" . (join ',', @tables) . "}'::regclass[]) t, LATERAL rose.check(t)"), 0, "$what: sound");
	return;
}

# Run it; standard error.
sub program
{
	my ($what, $ok, @command) = @_;
	my ($out, $err);
	my $result = IPC::Run::run([ @command, '-h', $node->host, '-p', $node->port, '-d', 'postgres' ], '>', \$out, '2>', \$err);

	is($result ? 1 : 0, $ok, "$what: " . ($ok ? 'done' : 'refused')) or diag($err);
	return $err;
}

sub file_of { return sql("SELECT pg_relation_filepath('$_[0]')") }

# --- reindexdb
program('reindexdb', 1, 'reindexdb');
program('reindexdb --jobs', 1, 'reindexdb', '-j2');
program('reindexdb --system', 1, 'reindexdb', '-s');
program('reindexdb --index', 1, 'reindexdb', '-i', 'keyed_pkey');
my $index = file_of('heap_v');
my $err = program('reindexdb --concurrently', 1, 'reindexdb', '--concurrently');
unlike($err, qr/rose/, 'no complaint about rose tables');
isnt(file_of('heap_v'), $index, 'others are done as well');
program('reindexdb --concurrently --jobs', 1, 'reindexdb', '--concurrently', '-j2');
program('reindexdb --concurrently --table', 1, 'reindexdb', '--concurrently', '-t', 'keyed');
program('reindexdb --concurrently --table, partitioned', 1, 'reindexdb', '--concurrently', '-t', 'parted');
program('reindexdb --concurrently --index, partitioned', 1, 'reindexdb', '--concurrently', '-i', 'parted_pkey');
program('reindexdb --concurrently --index', 1, 'reindexdb', '--concurrently', '-i', 'keyed_pkey');
is(sql("SELECT count(*) FROM pg_index WHERE NOT indisvalid OR indexrelid::regclass::text ~ 'ccnew'"), 0, 'no index is left behind');
unharmed('reindexdb');

# --- vacuumdb, clusterdb
foreach my $options ([], ['-z'], ['-Z'], ['--analyze-in-stages'], ['-f'], ['-F'], [ '-j', '2' ], [ '-P', '2' ], ['--skip-locked'],
	['--disable-page-skipping'], ['--no-truncate'], ['--no-index-cleanup'], [ '--min-xid-age', '1' ])
{
	unlike(program("vacuumdb @$options", 1, 'vacuumdb', @$options), qr/WARNING|ERROR/, "vacuumdb @$options: no complaint");
}
is(sql("SELECT count(*) FROM pg_class WHERE oid IN ('keyed'::regclass, 'heap'::regclass) AND reltuples IN (1000, 5000)"), 2, 'and rows are counted');
sql('CLUSTER keyed USING keyed_pkey; CLUSTER heap USING heap_v');
program('clusterdb', 1, 'clusterdb');
unharmed('vacuumdb');

# --- amcheck, pgstattuple
sub complaint
{
	my ($sql) = @_;
	my ($status, $out, $stderr) = $node->psql('postgres', $sql);

	return $stderr;
}

SKIP:
{
	skip 'no amcheck, pgstattuple', 1 if sql("SELECT count(*) FROM pg_available_extensions WHERE name IN ('amcheck', 'pgstattuple')") < 2;
	sql('CREATE EXTENSION amcheck; CREATE EXTENSION pgstattuple');
	program('pg_amcheck', 1, 'pg_amcheck');
	program('pg_amcheck, all there is', 1, 'pg_amcheck', '--heapallindexed', '--parent-check', '--rootdescend');
	like(program('pg_amcheck --table', 0, 'pg_amcheck', '-t', 'keyed'), qr/no heap tables to check matching "keyed"/, 'it says that rose tables are none');
	like(complaint("SELECT verify_heapam('keyed')"), qr/only heap AM is supported/, 'verify_heapam');
	like(complaint("SELECT pgstattuple('keyed')"), qr/only heap AM is supported/, 'pgstattuple');
	like(complaint("SELECT pgstattuple_approx('keyed')"), qr/only heap AM is supported/, 'pgstattuple_approx');
	is(complaint("SELECT pg_relpages('keyed'), pgstatindex('keyed_pkey')"), '', 'pgstatindex');
	unharmed('amcheck and pgstattuple');
}
$node->stop;
done_testing();
