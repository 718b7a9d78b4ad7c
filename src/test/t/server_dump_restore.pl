# pg_dump and pg_restore: a database with rose tables of many kinds comes back as
# it was, with the access method and without a trace of how rose stores its keys.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $node = rose_node('dump_restore');
my $dir = PostgreSQL::Test::Utils::tempdir;
my @tables = qw(plain composite keyless child part_rose part_heap copied logless empty view_of_plain);

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE plain (id int PRIMARY KEY, v text, n numeric(10,2) DEFAULT 1.5, at timestamptz, tags text[], doc jsonb) USING rose;
INSERT INTO plain SELECT i, CASE WHEN i % 7 > 0 THEN repeat('x', i % 300) END, i / 3.0, timestamptz 'epoch' + i * interval '1 hour', ARRAY[i::text, NULL], jsonb_build_object('i', i) FROM generate_series(1, 3000) i;
SELECT rose.spill('plain');
DELETE FROM plain WHERE id % 100 = 0;
UPDATE plain SET v = repeat('long ', 20000) WHERE id = 77;
COMMENT ON TABLE plain IS 'a comment';

CREATE TABLE composite (a text COLLATE "C", b date, c int, PRIMARY KEY (b, a)) USING rose;
INSERT INTO composite SELECT 'k' || i % 50, date '2024-01-01' + i / 50, i FROM generate_series(1, 1000) i;

CREATE TABLE keyless (v text, gone int, w int) USING rose;
INSERT INTO keyless SELECT 'r' || i, i, -i FROM generate_series(1, 500) i;
ALTER TABLE keyless DROP COLUMN gone;

CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, plain int REFERENCES plain ON DELETE CASCADE, twice int GENERATED ALWAYS AS (plain * 2) STORED, CHECK (plain > 0)) USING rose;
INSERT INTO child (plain) SELECT id FROM plain WHERE id <= 50;

CREATE TABLE parted (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE part_rose PARTITION OF parted FOR VALUES FROM (0) TO (100) USING rose;
CREATE TABLE part_heap PARTITION OF parted FOR VALUES FROM (100) TO (200) USING heap;
INSERT INTO parted SELECT i, 'p' || i FROM generate_series(0, 199) i;

CREATE TABLE copied USING rose AS SELECT id, v FROM plain WHERE id < 20;
CREATE UNLOGGED TABLE logless (id int PRIMARY KEY) USING rose;
INSERT INTO logless SELECT generate_series(1, 10);
CREATE TABLE empty (id int PRIMARY KEY) USING rose;
CREATE MATERIALIZED VIEW view_of_plain USING rose AS SELECT id % 10 AS d, count(*) AS n FROM plain GROUP BY 1;
SQL

$node->safe_psql('postgres', <<'SQL') unless $ENV{ROSE_STANDIN};
ALTER TABLE plain SET (rose.spill_interval = '1h', fillfactor = 70, rose.codec_effort = low);
ALTER TABLE part_rose SET (rose.filter_bits = 12);
ALTER MATERIALIZED VIEW view_of_plain SET (rose.wal_components = off);
SQL

sub facts
{
	my ($dbname) = @_;

	return $node->safe_psql($dbname, <<'SQL');
SELECT c.relname, c.relkind, c.relpersistence, a.amname, c.reloptions FROM pg_class c JOIN pg_am a ON a.oid = c.relam
 WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1;
SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint
 WHERE connamespace = 'public'::regnamespace ORDER BY conrelid::regclass::text, conname;
SQL
}

sub same_contents
{
	my ($dbname, $what, @which) = @_;

	is(facts($dbname), facts('postgres'), "$what: same relations");
	is(table_hash($node, $_, $dbname), table_hash($node, $_), "$what: $_ has the same rows")
	  for @which;
	return if $ENV{ROSE_STANDIN};
	is($node->safe_psql($dbname, "SELECT count(*) FROM rose.check('$_')"), '0', "$what: $_ is sound")
	  for grep { $_ ne 'part_heap' } @which;
	return;
}

# Plain SQL, the archive formats, and INSERT commands.
$node->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", $node->connstr('postgres') ], 'pg_dump');
my $script = slurp_file("$dir/plain.sql");
like($script, qr/SET default_table_access_method = rose;/, 'the dump names the access method')
  unless $ENV{ROSE_STANDIN};
like($script, qr/WITH \(fillfactor='70', "rose.spill_interval"='1h', "rose.codec_effort"=low\)/, 'and the options')
  unless $ENV{ROSE_STANDIN};
$node->safe_psql('postgres', 'CREATE DATABASE from_sql TEMPLATE template0');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('from_sql'), '-f', "$dir/plain.sql" ],
	'the script runs');
same_contents('from_sql', 'script', @tables);

foreach my $options ([ 'custom', '-Fc' ], [ 'directory', '-Fd', '-j2' ], [ 'inserts', '-Fc', '--inserts', '--rows-per-insert=100' ])
{
	my ($name, @options) = @$options;

	$node->command_ok([ 'pg_dump', @options, '-f', "$dir/$name", $node->connstr('postgres') ], "pg_dump, $name");
	$node->safe_psql('postgres', "CREATE DATABASE from_$name TEMPLATE template0");
	$node->command_ok([ 'pg_restore', '--exit-on-error', ($name eq 'directory' ? '-j2' : ()), '-d', $node->connstr("from_$name"), "$dir/$name" ],
		"pg_restore, $name");
	same_contents("from_$name", $name, @tables);
}

# A restored database is one to work with.
$node->safe_psql('from_custom', <<'SQL');
INSERT INTO plain (id, v) VALUES (100, 'back') ON CONFLICT (id) DO UPDATE SET v = 'was there';
DELETE FROM plain WHERE id = 1;
INSERT INTO child (plain) VALUES (100);
REFRESH MATERIALIZED VIEW view_of_plain;
SQL
is($node->safe_psql('from_custom', 'SELECT v FROM plain WHERE id = 100'), 'back', 'new row');
is($node->safe_psql('from_custom', 'SELECT count(*) FROM child'), '50', 'foreign key: one went, one came');
my ($status, $out, $err) = $node->psql('from_custom', "INSERT INTO plain (id) VALUES (2)");
like($err, qr/duplicate key value violates unique constraint "plain_pkey"/, 'primary key is enforced');

# A database made from one with rose tables has them too.
$node->safe_psql('postgres', 'CREATE DATABASE clone TEMPLATE from_sql');
same_contents('clone', 'template', grep { $_ ne 'logless' } @tables);

$node->stop;
done_testing();
