# Indexes on what only newer releases take for immutable, though it follows settings or files: cut to a zone, added in a zone, SQL/JSON (all from 16 on), and XML, which any
# release with libxml does. Answers are those of scans without index, whoever has written the rows.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'indexes of heap have what the writer saw' if $ENV{ROSE_STANDIN};

my $node = rose_node('node', 'autovacuum = off', "timezone = 'UTC'");
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET rose.enable_scan = off;';
my $without = 'SET enable_indexscan = off; SET enable_indexonlyscan = off;';

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub same
{
	my ($settings, $question, $what) = @_;

	is(sql("$settings $by_index $question"), sql("$settings $without $question"), $what);
	return;
}

# ---- zones by name ----
foreach my $expression ($node->pg_version < 16 ? () : (q{date_trunc('day', ts, 'EST')}, q{date_add(ts, '1 month', 'EST')}, q{date_subtract(ts, '1 month', 'EST')}), q{timezone('EST', ts)})
{
	sql("DROP TABLE IF EXISTS r; CREATE TABLE r (id int PRIMARY KEY, ts timestamptz) USING rose; CREATE INDEX ON r (($expression)); INSERT INTO r SELECT g, '2022-01-30 00:00+00'::timestamptz + g * interval '3 hours' FROM generate_series(1, 200) g");
	sql("SET timezone_abbreviations = 'Australia'; DELETE FROM r WHERE id % 2 = 0; UPDATE r SET ts = ts + interval '5 days' WHERE id % 3 = 0");
	same('', "SELECT count(*), sum(id) FROM r WHERE $expression IS NOT NULL", "$expression: rows that others have deleted, or changed");
	same('', "SELECT count(*) FROM r WHERE $expression IS NOT NULL", "$expression: ... counted");
	like(error_of($node, "CREATE UNIQUE INDEX ON r (id, ($expression))"), qr/consist of built-in functions/, "$expression: not unique");
}

# ---- texts that core writes inside ----
my @cases = ($node->pg_version < 16 ? () : (q{JSON_ARRAY(f RETURNING jsonb)}, q{JSON_OBJECT('a': f)::text}, q{JSON_ARRAY(b RETURNING jsonb)}), $node->pg_version < 17 ? () : q{JSON_SCALAR(f)::text});
push @cases, 'xmlelement(name a, ts)::text', 'xmlforest(f)::text', 'xmlelement(name a, xmlattributes(b))::text', 'xmlelement(name a, i)::text' unless ($node->psql('postgres', 'SELECT xmlelement(name a)'))[0];
my $others = "SET extra_float_digits = 0; SET bytea_output = escape; SET timezone = 'Europe/Berlin'; SET xmlbinary = hex; SET intervalstyle = 'iso_8601';";
my $rows = "g, '2022-03-20 00:00+00'::timestamptz + g * interval '6 hours', g * 0.1::float8, decode(lpad(to_hex(g), 4, '0'), 'hex'), g * interval '1 day 3 hours'";
foreach my $expression (@cases)
{
	sql("DROP TABLE IF EXISTS r; CREATE TABLE r (id int PRIMARY KEY, ts timestamptz, f float8, b bytea, i interval) USING rose; CREATE INDEX ON r (($expression)); INSERT INTO r SELECT $rows FROM generate_series(1, 50) g");
	sql("$others INSERT INTO r SELECT $rows FROM generate_series(51, 100) g");
	foreach my $settings ('', $others)
	{
		same($settings, "SELECT count(*), sum(id) FROM r WHERE $_", "$_ [$settings]") foreach "$expression IS NOT NULL", "$expression = ANY (ARRAY(SELECT $expression FROM r))";
	}
	sql("$others DELETE FROM r WHERE id % 2 = 0");
	same('', "SELECT count(*), sum(id) FROM r WHERE $expression IS NOT NULL", "$expression: what others have deleted");
}

done_testing();
