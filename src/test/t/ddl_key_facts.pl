# What the server says of a key's columns may change under a table that is there: operator classes for hashing come,
# go and are replaced. No row may become invisible to lookups, and no key may come twice.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no filters' if $ENV{ROSE_STANDIN};

my $node = rose_node('key_facts', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# A type like integers, which hashes by one of two functions, or not.
sql(integer_type('num', 'num') . <<'SQL');
CREATE CAST (num AS int) WITHOUT FUNCTION;
CREATE FUNCTION num_cmp(num, num) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE FUNCTION num_hash_other(num, bigint) RETURNS bigint LANGUAGE internal IMMUTABLE STRICT AS 'hashcharextended';
CREATE OPERATOR CLASS num_ops DEFAULT FOR TYPE num USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 num_cmp(num, num);
SQL

my %hashing = (
	drop => 'DROP OPERATOR FAMILY num_hash_ops USING hash',
	one => 'CREATE OPERATOR CLASS num_hash_ops DEFAULT FOR TYPE num USING hash AS OPERATOR 1 =, FUNCTION 1 num_hash(num), FUNCTION 2 num_hash_extended(num, bigint)',
	other => 'CREATE OPERATOR CLASS num_hash_ops DEFAULT FOR TYPE num USING hash AS OPERATOR 1 =, FUNCTION 1 num_hash(num), FUNCTION 2 num_hash_other(num, bigint)');

sub found
{
	my ($name) = @_;

	foreach my $table (qw(single pair))
	{
		my $key = $table eq 'pair' ? 'a = g AND k = g::num' : 'k = g::num';

		is(sql("SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, 1000) g, LATERAL (SELECT v FROM $table WHERE $key OFFSET 0) x"),
			1000, "$name: $table: lookups");
		is(sql("SELECT count(*), count(DISTINCT k) FROM $table"), '1000|1000', "$name: $table: rows");
		is(sql("SELECT count(*) FROM rose.check('$table')"), 0, "$name: $table: rose.check");
	}
	return;
}

# Nobody can write a key twice.
sub refused
{
	my ($name, $pattern) = @_;

	foreach my $table (qw(single pair))
	{
		my $columns = $table eq 'pair' ? '7, 7::num, 0' : '7::num, 0';
		my ($rc, $out, $err) = $node->psql('postgres', "INSERT INTO $table VALUES ($columns)");

		like($err, $pattern, "$name: $table: the same key again");
	}
	return;
}

sub make
{
	sql(<<'SQL');
DROP TABLE IF EXISTS single, pair;
CREATE TABLE single (k num PRIMARY KEY, v int) USING rose;
CREATE TABLE pair (a int, k num, v int, PRIMARY KEY (a, k)) USING rose;
INSERT INTO single SELECT g::num, g FROM generate_series(1, 1000) g;
INSERT INTO pair SELECT g, g::num, g FROM generate_series(1, 1000) g;
SELECT rose.merge('single'), rose.merge('pair');
SQL
	return;
}

my $other = qr/keys are hashed by other functions than before/;
my $duplicate = qr/duplicate key/;

sql($hashing{one});
make();
found('at first');
refused('at first', $duplicate);

sql($hashing{drop});
found('dropped');
refused('dropped', $other);
sql('REINDEX TABLE single; REINDEX TABLE pair');
refused('reindexed', $duplicate);
found('reindexed');
$node->restart;
found('after a restart');
refused('after a restart', $duplicate);

sql($hashing{other});
found('made again');
refused('made again', $duplicate);
$node->restart;
found('made again, after a restart');
refused('made again, after a restart', $duplicate);

make();
sql("$hashing{drop}; $hashing{one}");
found('replaced');
refused('replaced', $other);
$node->restart;
found('replaced, after a restart');
refused('replaced, after a restart', $duplicate);
sql('UPDATE single SET v = v + 1; UPDATE pair SET v = v + 1; SELECT rose.merge(\'single\'), rose.merge(\'pair\')');
found('replaced, and merged');
refused('replaced, and merged', $duplicate);


# --- another version of a collation, as an update of the operating system brings it: the metapage is made to say that
# rows were sorted by an older one
sql(<<'SQL');
CREATE COLLATION english (PROVIDER = icu, LOCALE = 'en-US');
CREATE TABLE sorted (k text COLLATE english PRIMARY KEY, v int) USING rose;
CREATE TABLE in_memory (k text COLLATE english PRIMARY KEY, v int) USING rose;
CREATE TABLE plain (k int PRIMARY KEY, v int) USING rose;
INSERT INTO sorted SELECT 'k' || g, g FROM generate_series(1, 1000) g;
INSERT INTO plain SELECT g, g FROM generate_series(1, 1000) g;
SELECT rose.merge('sorted'), rose.merge('plain');
INSERT INTO in_memory SELECT 'k' || g, g FROM generate_series(1, 1000) g;
SQL
my $version = sql("SELECT pg_collation_actual_version(oid) FROM pg_collation WHERE collname = 'english'");
my @files = map { $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$_')") } qw(sorted in_memory);

# key_order and collation_versions of the metapage, behind the page header
sub age
{
	foreach my $file (@files)
	{
		open my $fh, '+<:raw', $file or die $!;
		seek $fh, 24 + 72, 0;
		print $fh pack('Q<', 4711);
		seek $fh, 24 + 896, 0;
		print $fh pack('a64', '1.2.3');
		close $fh or die $!;
	}
	return;
}

sub said { my ($query) = @_; my ($rc, $out, $err) = $node->psql('postgres', $query); return $err }

$node->stop;
without_checksums($node);
age();
$node->start;
my $error = qr/ERROR:  table "sorted" is sorted by other versions.*using version "1.2.3", but the server has version "\Q$version\E"/s;
like(said("SELECT count(*) FROM sorted"), $error, 'another version: an error');
is(said("SELECT count(*) FROM in_memory"), '', 'what is in memory only is sorted anew');
is(said("SELECT count(*) FROM plain"), '', 'numbers have no version');
said("REINDEX TABLE sorted");
is(said("SELECT count(*) FROM sorted"), '', 'REINDEX finds the order as it was');
$node->restart;
is(said("SELECT count(*) FROM $_"), '', "$_: it is the file's from then on") foreach qw(sorted in_memory);

done_testing();
