# Indexes whose constants are made by settings where nobody sees it: predicates that a session folds away, literals and constants in users' functions in SQL, which
# PostgreSQL takes apart. Answers are those of scans without index, and planning calls users' functions no more often than on heap.
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

# ---- a predicate that the session folds to TRUE: the index is not of all rows ----
sql("CREATE TABLE r (id int PRIMARY KEY, v int, t text) USING rose; INSERT INTO r SELECT g, g % 100, 'a' FROM generate_series(1, 20000) g; CREATE INDEX r_v ON r (v) WHERE (0.1::float8 + 0.2)::text = '0.3'; ANALYZE r");
foreach my $settings ('', 'SET extra_float_digits = 0;')
{
	is(sql("$settings SELECT count(*) FROM r WHERE v = 5"), 200, "a predicate of constants [$settings]");
	is(sql("$settings BEGIN; DELETE FROM r WHERE v = 5; SELECT count(*) FROM r WHERE v + 0 = 5; ROLLBACK"), 0, "... deleted by [$settings]");
}
sql("DROP INDEX r_v; CREATE INDEX r_v2 ON r (v) WHERE id < 10 OR quote_ident('a') <> 'a'");
is(sql('SET quote_all_identifiers = on; SELECT count(*) FROM r WHERE v = 5'), 200, 'one that is TRUE for the session only');
sql("ALTER DATABASE postgres SET extra_float_digits = 0; CREATE INDEX r_v3 ON r (t) WHERE (0.1::float8 + 0.2)::text = '0.3'");
is(sql("$by_index SELECT count(*) FROM r WHERE t = 'a'"), 20000, 'one that is TRUE in the database');
sql('ALTER DATABASE postgres RESET extra_float_digits');

# ---- literals in functions, which are read when the functions are taken apart ----
sql(q{CREATE FUNCTION since(timestamptz) RETURNS interval IMMUTABLE LANGUAGE sql AS $$SELECT $1 - '2020-01-01'::timestamptz$$;
	CREATE FUNCTION recent(timestamptz) RETURNS boolean IMMUTABLE LANGUAGE sql AS $$SELECT $1 > '2022-01-01'$$;
	CREATE FUNCTION day(date) RETURNS int IMMUTABLE LANGUAGE sql AS $$SELECT $1 - '01/02/2020'::date$$;
	DROP TABLE r; CREATE TABLE r (id int PRIMARY KEY, ts timestamptz, d date) USING rose; CREATE INDEX ON r (since(ts)); CREATE INDEX ON r (id) WHERE recent(ts); CREATE INDEX ON r (day(d))});
my $rows = "g, '2021-12-31 20:00+00'::timestamptz + g * interval '30 minutes', '2021-01-01'::date + g";
my $berlin = "SET timezone = 'Europe/Berlin'; SET datestyle = 'ISO, DMY';";
sql("INSERT INTO r SELECT $rows FROM generate_series(1, 10) g");
sql("$berlin INSERT INTO r SELECT $rows FROM generate_series(11, 20) g");
foreach my $settings ('', $berlin)
{
	same($settings, "SELECT count(*), sum(id) FROM r WHERE $_", "$_ [$settings]") foreach 'since(ts) IS NOT NULL', "since(ts) > '1 day'", 'recent(ts) AND id > 0', 'day(d) > 0', 'day(d) = ANY (ARRAY(SELECT day(d) FROM r))';
}

# ---- constants that follow the time zone, in functions ----
my $constant = q{extract(hour from age('2022-03-31 23:30+00'::timestamptz, '2022-02-28 23:30+00'::timestamptz))::text};
sql("CREATE FUNCTION c() RETURNS text IMMUTABLE LANGUAGE sql AS \$\$SELECT $constant\$\$; CREATE FUNCTION g(text) RETURNS text IMMUTABLE LANGUAGE sql AS \$\$SELECT \$1 || $constant\$\$");
# from 18 on, what a function in SQL was planned to by the settings of its first call stays in the session
foreach my $expression ($node->pg_version < 18 ? '(t || c())' : (), 'g(t)', "(t || $constant)")
{
	sql("DROP TABLE r; CREATE TABLE r (id int PRIMARY KEY, t text) USING rose; CREATE INDEX ON r ($expression); CREATE INDEX ON r (id) WHERE $expression <> 'a0'; INSERT INTO r SELECT g, 'a' FROM generate_series(1, 10) g");
	sql("$berlin INSERT INTO r SELECT g, 'a' FROM generate_series(11, 20) g");
	foreach my $settings ('', $berlin)
	{
		same($settings, "SELECT count(*) FROM r WHERE $_", "$_ [$settings]") foreach "$expression = 'a' || c()", "$expression IS NOT NULL", "$expression <> 'a0' AND id > 0";
	}
}

# ---- planning ----
sql(q{CREATE ROLE bob; CREATE SCHEMA s; CREATE FUNCTION s.helper(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT upper($1)'; GRANT USAGE ON SCHEMA s TO bob; SET search_path = s, public;
	CREATE FUNCTION public.f(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT helper($1)';
	CREATE FUNCTION public.k() RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN 'x'; END$$; REVOKE EXECUTE ON FUNCTION public.k() FROM PUBLIC;
	CREATE FUNCTION public.tenant() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'called'; RETURN 7; END$$});
my $f = 'CREATE INDEX ON t (f(x))';
my $k = 'CREATE INDEX ON t ((x || public.k()))';
foreach my $case (
	[ $f, "SET search_path = ''; SELECT x FROM public.t WHERE id = 1", 'another search_path, later in the session' ],
	[ $f, 'CREATE FUNCTION pg_temp.look() RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$BEGIN RETURN (SELECT x FROM public.t WHERE id = 1); END$$; SELECT pg_temp.look()', 'a function with a search_path of its own' ],
	[ $k, 'SET ROLE bob; SELECT x FROM public.t WHERE id = 1', 'a role that may not call the function' ])
{
	my ($index, $statement, $what) = @$case;

	# since 17 indexes are built with a search_path of their own, so such a function has none
	next if $index eq $f && $node->pg_version >= 17;
	sql("DROP TABLE IF EXISTS t; SET search_path = s, public; CREATE TABLE public.t (id int PRIMARY KEY, x text) USING rose; $index; INSERT INTO t VALUES (1, 'a'); GRANT ALL ON t TO bob");
	is((sql("SET search_path = s, public; SELECT count(*) FROM t WHERE id = 1; $statement") =~ /(\w+)\z/)[0], 'a', $what);
}
sql('CREATE TABLE calls (id int PRIMARY KEY, v int) USING rose; CREATE INDEX ON calls (v) WHERE v = tenant()');
my (undef, undef, $warnings) = $node->psql('postgres', join ';', ('SELECT count(*) FROM calls WHERE id = 5') x 20);
cmp_ok(scalar(() = $warnings =~ /called/g), '<=', 2, 'a function of no arguments is called for the relcache entry, not for each planning');

done_testing();
