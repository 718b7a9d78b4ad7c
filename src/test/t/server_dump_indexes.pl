# pg_dump and pg_restore of every kind of index and constraint that rose tables have: what is restored, from SQL, in parallel and section by section, is dumped
# as the first was, on heap and on rose alike; what is unique there is enforced, and the indexes answer as the tables do.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $node = rose_node('dump_indexes');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $using = $ENV{ROSE_STANDIN} ? 'heap' : 'rose';
local %ENV = $node->_get_env(PGDATABASE => 'postgres', PGHOST => $node->host, PGPORT => $node->port);

my $schema = <<'SQL';
CREATE TYPE mood AS ENUM ('good', 'fair', 'bad');
CREATE DOMAIN code AS text CHECK (VALUE <> '');
CREATE FUNCTION half(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 2';

CREATE TABLE plain (id int PRIMARY KEY, email text, a int, b numeric, c code COLLATE "C", d timestamptz, m mood, gone int, tags text[]);
INSERT INTO plain SELECT i, 'User' || i || '@example.org', i, i / 7.0, 'c' || i % 50, timestamptz 'epoch' + i * interval '1 hour', (ARRAY['good', 'bad', NULL])[i % 3 + 1]::mood, i, ARRAY[i::text] FROM generate_series(1, 2000) i;
CREATE UNIQUE INDEX plain_email ON plain (lower(email));
CREATE UNIQUE INDEX plain_active ON plain (a) WHERE m = 'good' AND id > 0;
CREATE UNIQUE INDEX plain_both ON plain (abs(a), upper(c) DESC NULLS LAST) INCLUDE (b, tags) WHERE a IS NOT NULL;
CREATE INDEX plain_order ON plain (c DESC, d NULLS FIRST, b DESC NULLS LAST);
CREATE INDEX plain_pattern ON plain (email text_pattern_ops, c COLLATE "POSIX") WITH (fillfactor = 70, deduplicate_items = off);
CREATE INDEX plain_two ON plain ((a + 1), (b * 2), m);
CREATE INDEX plain_user ON plain (half(a)) WHERE half(a) > 3;
CREATE INDEX plain_tags ON plain (tags, c);
ALTER INDEX plain_two ALTER COLUMN 1 SET STATISTICS 321;
ALTER INDEX plain_two ALTER COLUMN 2 SET STATISTICS 77;
COMMENT ON INDEX plain_email IS 'one mail address, one user';
COMMENT ON CONSTRAINT plain_pkey ON plain IS 'the key';
ALTER TABLE plain DROP COLUMN gone;
CREATE STATISTICS plain_stat ON a, b FROM plain;
CLUSTER plain USING plain_pkey;

CREATE TABLE constrained (id int GENERATED ALWAYS AS IDENTITY, a int, b int, c int, d int, e int, f text, h int, g int GENERATED ALWAYS AS (h * 2) STORED,
	CONSTRAINT key PRIMARY KEY (id) INCLUDE (f),
	CONSTRAINT late UNIQUE (a) DEFERRABLE INITIALLY DEFERRED,
	CONSTRAINT soon UNIQUE (b, c) DEFERRABLE INITIALLY IMMEDIATE,
	CONSTRAINT nulls UNIQUE NULLS NOT DISTINCT (d),
	CONSTRAINT "Including ""e""" UNIQUE (e) INCLUDE (f, a));
INSERT INTO constrained (a, b, c, d, e, f, h) SELECT i, i, i % 7, nullif(i, 3), i, 'f' || i, i FROM generate_series(1, 500) i;
CREATE UNIQUE INDEX constrained_g ON constrained (g DESC);
COMMENT ON CONSTRAINT late ON constrained IS 'at the end';

CREATE TABLE referring (id serial PRIMARY KEY, e int REFERENCES constrained (e) ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED, g int REFERENCES constrained (g), other int REFERENCES referring);
INSERT INTO referring (e, g, other) SELECT i, i * 2, nullif(i - 1, 0) FROM generate_series(1, 100) i;
CREATE INDEX ON referring (e);

-- without a key; and keys that were indexes before
CREATE TABLE keyless (a int NOT NULL, b text NOT NULL, c int);
INSERT INTO keyless SELECT i, 'b' || i % 5, i % 9 FROM generate_series(1, 300) i;
CREATE UNIQUE INDEX keyless_ab ON keyless (b, a);
CREATE INDEX keyless_c ON keyless (c) WHERE c > 2;
ALTER TABLE keyless REPLICA IDENTITY USING INDEX keyless_ab;
CREATE TABLE adopted (a int NOT NULL, b text NOT NULL, c int);
INSERT INTO adopted SELECT i, 'b' || i % 5, 300 - i FROM generate_series(1, 300) i;
CREATE UNIQUE INDEX adopted_ba ON adopted (b, a) INCLUDE (c);
CREATE UNIQUE INDEX adopted_c ON adopted (c);
CREATE UNIQUE INDEX adopted_late ON adopted (a);
ALTER TABLE adopted ADD CONSTRAINT adopted_key PRIMARY KEY USING INDEX adopted_ba;
ALTER TABLE adopted ADD CONSTRAINT adopted_a UNIQUE USING INDEX adopted_late DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE adopted ADD UNIQUE USING INDEX adopted_c;
ALTER TABLE adopted ALTER c SET NOT NULL, REPLICA IDENTITY USING INDEX adopted_c;
ALTER TABLE adopted CLUSTER ON adopted_a;
ALTER TABLE keyless CLUSTER ON keyless_ab;
CREATE TABLE replicated (id int PRIMARY KEY, a int NOT NULL UNIQUE);
ALTER TABLE replicated REPLICA IDENTITY FULL;
CREATE UNLOGGED TABLE logless (id int PRIMARY KEY, a int UNIQUE);
INSERT INTO logless SELECT i, -i FROM generate_series(1, 50) i;
CREATE MATERIALIZED VIEW seen AS SELECT c, count(*) AS n FROM plain GROUP BY c;
CREATE UNIQUE INDEX seen_c ON seen (c);
CREATE INDEX ON seen (n DESC);

-- partitions: indexes made from above, attached, of one partition alone, and not complete
CREATE TABLE parted (at date NOT NULL, id int, a int, b text, PRIMARY KEY (at, id), UNIQUE (id, at) INCLUDE (a)) PARTITION BY RANGE (at);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE parted_2 (b text, at date NOT NULL, id int NOT NULL, gone int, a int);
ALTER TABLE parted_2 DROP COLUMN gone;
CREATE UNIQUE INDEX two_key ON parted_2 (at, id);
CREATE INDEX two_low ON parted_2 (lower(b));
COMMENT ON INDEX two_low IS 'attached';
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM ('2024-03-01') TO ('2024-05-01') PARTITION BY RANGE (at);
CREATE TABLE parted_3a PARTITION OF parted_3 FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
CREATE TABLE parted_rest PARTITION OF parted DEFAULT;
INSERT INTO parted (at, id, a, b) SELECT date '2024-01-01' + i % 91, i, i % 10, 'B' || i FROM generate_series(1, 1000) i;
CREATE INDEX parted_low ON ONLY parted (lower(b));
ALTER INDEX parted_low ATTACH PARTITION two_low;
CREATE INDEX parted_a ON parted (a DESC) WHERE a > 3;
CREATE UNIQUE INDEX parted_one ON parted_1 (abs(id));
CREATE UNIQUE INDEX parted_only ON ONLY parted_3 (at, a, id);

-- not valid, which pg_dump leaves out
CREATE TABLE doubles (id int PRIMARY KEY, a int);
INSERT INTO doubles VALUES (1, 5), (2, 5);
SQL

# Everything there is to know of indexes, but names of files and numbers.
my $facts = <<'SQL';
SELECT c.relname, indisunique, indisprimary, indimmediate, indisclustered, indisvalid OR c.relname ~ 'invalid', indisreplident, indnullsnotdistinct, pg_get_indexdef(indexrelid),
	obj_description(indexrelid, 'pg_class'), c.reloptions, (SELECT string_agg(attname || attstattarget, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = indexrelid), inhparent::regclass
FROM pg_index JOIN pg_class c ON c.oid = indexrelid LEFT JOIN pg_inherits ON inhrelid = indexrelid WHERE c.relnamespace = 'public'::regnamespace ORDER BY 1;
SELECT conrelid::regclass, conname, pg_get_constraintdef(oid), condeferrable, condeferred, conindid::regclass, obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY conrelid::regclass::text, 2;
SELECT relname, relreplident, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1;
SQL

# Each of these breaks one unique index or constraint.
my %duplicates = (
	plain_email => "INSERT INTO plain (id, email) VALUES (9001, 'USER7\@EXAMPLE.org')",
	plain_active => "UPDATE plain SET a = 6, m = 'good' WHERE id = 3",
	plain_both => "INSERT INTO plain (id, a, c) VALUES (9002, -7, 'C7')",
	late => 'INSERT INTO constrained (a, d) VALUES (7, 9001)',
	soon => 'INSERT INTO constrained (b, c, d) VALUES (8, 1, 9002)',
	nulls => 'INSERT INTO constrained (a, d) VALUES (9003, NULL)',
	'Including "e"' => 'UPDATE constrained SET e = 9 WHERE e = 10',
	constrained_g => 'INSERT INTO constrained (h, d) VALUES (7, 9004)',
	keyless_ab => "INSERT INTO keyless VALUES (6, 'b1')",
	adopted_key => "INSERT INTO adopted VALUES (6, 'b1', 9005)",
	adopted_a => "INSERT INTO adopted VALUES (6, 'new', 9006)",
	adopted_c => "INSERT INTO adopted VALUES (9007, 'new', 7)",
	logless_a_key => 'INSERT INTO logless VALUES (9008, -7)',
	parted_one => "INSERT INTO parted VALUES ('2024-01-03', -1)");

sub make
{
	my ($dbname, $am) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $dbname TEMPLATE template0");
	rose_create($node, $dbname);
	$node->safe_psql($dbname, "SET default_table_access_method = $am;\n$schema");
	$node->psql($dbname, 'CREATE UNIQUE INDEX CONCURRENTLY doubles_invalid ON doubles (a)');
	is($node->safe_psql($dbname, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'doubles_invalid'::regclass"), 'f', "$am: an index is not valid");
	return;
}

# What pg_dump writes, but what it says differently each time or of access methods, and where sequences stand, which rows that failed have moved.
sub dump_of
{
	my ($dbname, @options) = @_;
	my ($out, $err) = run_command([ 'pg_dump', @options, $dbname ]);

	die $err if $out eq '' || $err ne '';
	return join "\n", grep { !/^(?:SET default_table_access_method|\\(?:un)?restrict|--.*$|$|SELECT pg_catalog\.setval)/ && !/EXTENSION/ } split /\n/, $out;
}

# Rows of a table come in another order from heap: sorted.
sub rows_of
{
	my ($dbname) = @_;

	return join "\n", map { "$_ " . table_hash($node, $_, $dbname) } split /\n/,
	  $node->safe_psql($dbname, "SELECT oid::regclass FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'm') ORDER BY relname");
}

sub what_fails
{
	my ($dbname) = @_;
	my @errors;

	foreach (sort keys %duplicates)
	{
		my (undef, undef, $err) = $node->psql($dbname, "BEGIN;\n$duplicates{$_};\nCOMMIT");

		push @errors, "$_: " . join ' ', $err =~ /(?:ERROR|DETAIL): .*/g;
	}
	return join "\n", @errors;
}

# Is each value of indexed columns found by its index, and is what is found there?
my $answers = <<'SQL';
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM plain WHERE lower(email) = 'user77@example.org';
SELECT count(*), sum(id) FROM plain WHERE a > 500 AND m = 'good' AND id > 0;
SELECT count(*), sum(id) FROM plain WHERE abs(a) BETWEEN 3 AND 70 AND a IS NOT NULL;
SELECT id FROM plain WHERE c < 'c2' ORDER BY c DESC, d NULLS FIRST, b DESC NULLS LAST LIMIT 5;
SELECT count(*), sum(id) FROM plain WHERE email LIKE 'User12%';
SELECT count(*), sum(id) FROM plain WHERE a + 1 = 44;
SELECT count(*), sum(id) FROM plain WHERE half(a) = 50;
SELECT count(*), sum(id) FROM constrained WHERE g BETWEEN 100 AND 200;
SELECT count(*), sum(id) FROM constrained WHERE d IS NULL;
SELECT count(*), sum(a) FROM keyless WHERE c > 5;
SELECT count(*), sum(a) FROM keyless WHERE b = 'b3';
SELECT count(*), sum(a) FROM adopted WHERE c < 30;
SELECT count(*), sum(id) FROM parted WHERE lower(b) = 'b99';
SELECT count(*), sum(id) FROM parted WHERE a > 8;
SELECT count(*) FROM seen WHERE n > 1;
SQL

my %first;

sub same
{
	my ($dbname, $what) = @_;

	foreach my $part (sort keys %first)
	{
		my $now = $part eq 'facts' ? $node->safe_psql($dbname, $facts)
		  : $part eq 'rows' ? rows_of($dbname)
		  : $part eq 'answers' ? $node->safe_psql($dbname, $answers)
		  : $part eq 'failures' ? what_fails($dbname)
		  : dump_of($dbname, $part eq 'schema' ? '--schema-only' : ());

		is($now, $first{$part}, "$what: the same $part");
	}
	is($node->safe_psql($dbname, "SELECT c.oid::regclass, k FROM pg_class c JOIN pg_am a ON a.oid = relam, rose.check(c.oid) k WHERE relkind IN ('r', 'm') AND amname = 'rose'"), '', "$what: all are sound")
	  unless $ENV{ROSE_STANDIN};
	return;
}

sub first_of
{
	my ($dbname, @parts) = @_;

	%first = (
		schema => dump_of($dbname, '--schema-only'),
		facts => $node->safe_psql($dbname, $facts) =~ s/^doubles_invalid.*\n//mr,
		rows => rows_of($dbname),
		answers => $node->safe_psql($dbname, $answers),
		failures => what_fails($dbname));
	$first{facts} =~ s/^doubles_invalid\|r\|i\n|^doubles_invalid.*\n//mg;
	return;
}

# ---- heap, and rose beside it ----

make('of_heap', 'heap');
make('of_rose', $using);
is($node->safe_psql('of_rose', "SELECT string_agg(DISTINCT amname, ' ') FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relkind IN ('r', 'm') AND relnamespace = 'public'::regnamespace"), $using, "tables of $using");
first_of('of_heap');
my $failures = $first{failures};

like($failures, qr/^\Q$_\E: ERROR: +(?:duplicate key value violates unique constraint "\Q$_\E"|could not create unique index)/m, "$_ is broken") foreach sort keys %duplicates;
$node->safe_psql('of_rose', 'DROP INDEX doubles_invalid');
same('of_rose', 'rose as heap');
$node->psql('of_rose', 'CREATE UNIQUE INDEX CONCURRENTLY doubles_invalid ON doubles (a)');

# ---- dumps ----

$first{data} = dump_of('of_rose');
unlike($first{data}, qr/doubles_invalid/, 'pg_dump leaves out what is not valid');
$node->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", 'of_rose' ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE from_plain TEMPLATE template0');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', 'from_plain', '-f', "$dir/plain.sql" ], 'psql');
same('from_plain', 'SQL');

$node->command_ok([ 'pg_dump', '-Fd', '-j', '3', '-f', "$dir/dump", 'of_rose' ], 'pg_dump -j');
$node->safe_psql('postgres', 'CREATE DATABASE from_many TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-j', '3', '--exit-on-error', '-d', 'from_many', "$dir/dump" ], 'pg_restore -j');
same('from_many', 'in parallel');

# the restored one, dumped as an archive, section by section, into tables that are empty when they get their indexes
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/custom", 'from_many' ], 'pg_dump -Fc');
$node->safe_psql('postgres', 'CREATE DATABASE from_sections TEMPLATE template0');
$node->command_ok([ 'pg_restore', '--exit-on-error', '--section', $_, '-d', 'from_sections', "$dir/custom" ], "pg_restore --section $_") foreach qw(pre-data data post-data);
same('from_sections', 'by sections');
$node->safe_psql('postgres', 'CREATE DATABASE from_schema TEMPLATE template0');
$node->command_ok([ 'pg_restore', '--exit-on-error', '--schema-only', '-d', 'from_schema', "$dir/custom" ], 'pg_restore --schema-only');
$node->command_ok([ 'pg_restore', '--exit-on-error', '--data-only', '--disable-triggers', '-d', 'from_schema', "$dir/custom" ], 'pg_restore --data-only');
delete $first{data};			# a materialized view is filled when it is made
$node->safe_psql('from_schema', 'REFRESH MATERIALIZED VIEW seen');
same('from_schema', 'indexes first');

# while indexes are not allowed
SKIP:
{
	skip 'the stand-in has no setting' if $ENV{ROSE_STANDIN};

	$node->safe_psql('postgres', 'CREATE DATABASE refused TEMPLATE template0; ALTER DATABASE refused SET rose.secondary_indexes = off');
	$node->command_checks_all([ 'pg_restore', '-d', 'refused', "$dir/custom" ], 1, [], [qr/cannot create index "plain_email" on rose table "plain"/], 'while the setting is off');
	is(rows_of('refused') =~ s/^seen.*//mr, rows_of('from_many') =~ s/^seen.*//mr, '... the rows are there');
}
$node->stop;
done_testing();
