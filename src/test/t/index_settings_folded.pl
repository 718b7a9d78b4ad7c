# Indexes on core's functions that count as immutable and follow settings: what age() of two times is, and constants that are folded away before anybody
# looks. Their entries are made with the defaults, and sessions that see other values do not use them; all answers are heap's.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'indexes of heap have what the writer saw' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node('autovacuum = off');
my $node = rose_node('replica', "rose.spill_interval = '200ms'", "wal_retrieve_retry_interval = '200ms'", "timezone = 'UTC'", 'autovacuum = off');
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET rose.enable_scan = off;';

sub sql { return $node->safe_psql('postgres', $_[0]) }

# The same of the rose table r, and of the heap table h.
sub same
{
	my ($question, $what, $settings) = @_;

	is(sql(($settings // '') . "$by_index $question" =~ s/@/r/r), sql(($settings // '') . "$by_index $question" =~ s/@/h/r), $what);
	return;
}

sub create
{
	my ($columns, @indexes) = @_;

	foreach my $t ('r', 'h')
	{
		my $am = $t eq 'r' ? 'rose' : 'heap';

		sql("DROP TABLE IF EXISTS $t; CREATE TABLE $t ($columns) USING $am");
		sql("CREATE INDEX ON $t $_") foreach @indexes;
	}
	return;
}

# ---- age() follows the time zone ----
create('id int PRIMARY KEY, a timestamptz, b timestamptz', '(age(a, b))', q{(id) WHERE age(a, b) < '1 year'});
sql("SET timezone = 'UTC'; INSERT INTO $_ SELECT g, '2022-03-20 00:00+00'::timestamptz + g * interval '6 hours', '2022-03-01 01:30+00' FROM generate_series(1, 200) g") foreach 'r', 'h';
sql("SET timezone = 'Europe/Berlin'; UPDATE $_ SET a = a + interval '1 year' WHERE id % 2 = 0; DELETE FROM $_ WHERE id % 3 = 0") foreach 'r', 'h';
foreach my $c (q{age(a, b) < '1 year'}, 'age(a, b) IS NOT NULL', q{age(a, b) < '1 year' AND id > 0})
{
	same("SELECT count(*), count(DISTINCT id), sum(id) FROM @ WHERE $c", "$c in UTC", q{SET timezone = 'UTC';});
	# what heap's index has of Berlin's rows is right there
	is(sql("SET timezone = 'Europe/Berlin'; $by_index SELECT count(*), sum(id) FROM r WHERE $c"), sql("SET timezone = 'Europe/Berlin'; SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(id) FROM h WHERE $c"), "$c in Berlin");
}
is(sql('SELECT msg FROM rose.check($$r$$)'), '', 'each row has its entries');
like(sql("SET timezone = 'Etc/UTC'; $by_index EXPLAIN (costs off) SELECT * FROM r WHERE age(a, b) < '1 day'"), qr/Index Scan/, 'GMT by another name uses the index');
unlike(sql("SET timezone = 'Europe/Berlin'; $by_index EXPLAIN (costs off) SELECT * FROM r WHERE age(a, b) < '1 day'"), qr/Index Scan using r_age/, 'another zone does not');
like(error_of($node, 'CREATE UNIQUE INDEX ON r (age(a, b))'), qr/setting/, 'a unique one is refused');

# ---- constants that were folded ----
sql('ALTER DATABASE postgres SET extra_float_digits = 0; ALTER DATABASE postgres SET bytea_output = escape; ALTER DATABASE postgres SET quote_all_identifiers = on');
sql(q{CREATE FUNCTION sep() RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT (0.1::float8 + 0.2)::text'});
create('id int PRIMARY KEY, t text', '((t || (0.1::float8 + 0.2)::text))', q{((t || '-' || sep()))}, q{(id) WHERE t <> '\x61'::bytea::text}, q{((t || quote_ident('a')))}, '((t || upper($$b$$)))');
sql("INSERT INTO $_ SELECT g, CASE WHEN g < 50 THEN 'a' ELSE '\\x61' END FROM generate_series(1, 100) g") foreach 'r', 'h';
foreach my $settings ('', 'SET extra_float_digits = 1; SET bytea_output = hex; SET quote_all_identifiers = off;')
{
	foreach my $c ("t || (0.1::float8 + 0.2)::text = 'a0.3'", "t || '-' || sep() = 'a-0.3'", "t <> '\\x61'::bytea::text AND id > 0", "t || quote_ident('a') = 'a\"a\"'", "t || upper('b') = 'aB'")
	{
		my $heap = sql("SET enable_indexscan = off; SET enable_bitmapscan = off; $settings SELECT count(*), sum(id) FROM h WHERE $c");

		is(sql("$by_index $settings SELECT count(*), sum(id) FROM r WHERE $c"), $heap, "$c: $settings");
		# what core has in memory may be of before
		is(sql("$by_index SELECT count(*) FROM r WHERE t || sep() = 'x' OR id > 0; $settings SELECT count(*), sum(id) FROM r WHERE $c") =~ s/.*\n//r, $heap, "$c: in a session that had others before");
	}
}
like(sql("$by_index EXPLAIN (costs off) SELECT * FROM r WHERE t || upper('b') = 'aB'"), qr/Index Scan/, 'constants that follow nothing are no hindrance');

# ---- a replica ----
{
	my $question = "$by_index SELECT count(*), sum(id) FROM f WHERE age(a, b) IS NOT NULL";

	$upstream->safe_psql('postgres', "CREATE TABLE f (id int PRIMARY KEY, a timestamptz, b timestamptz); CREATE PUBLICATION p FOR TABLE f;
		INSERT INTO f SELECT g, '2022-03-20 00:00+00'::timestamptz + g * interval '6 hours', '2022-03-01 01:30+00' FROM generate_series(1, 2000) g");
	sql('CREATE TABLE f (id int PRIMARY KEY, a timestamptz, b timestamptz) USING rose; CREATE INDEX f_i ON f (age(a, b))');
	subscribe($upstream, $node, undef, "durability => 'local'");
	wait_for_apply($upstream, $node);
	is(sql("SET timezone = 'UTC'; $question"), '2000|2001000', 'fed: all rows');
	is(sql("SET timezone = 'Europe/Berlin'; $question"), '2000|2001000', 'fed: in another zone');
	$upstream->safe_psql('postgres', "UPDATE f SET a = a + interval '1 s'");
	wait_for_apply($upstream, $node);
	sql(q{SELECT rose.spill('f')});
	sql(q{SET timezone = 'Europe/Berlin'; SELECT rose.merge('f')}) foreach 1 .. 2;
	is(sql("SET timezone = 'UTC'; $question"), '2000|2001000', 'fed: after a merge in another zone');
	is(sql(q{SET timezone = 'Europe/Berlin'; SELECT msg FROM rose.check('f')}), '', 'fed: each row has its entry');
}
$_->stop foreach $node, $upstream;
done_testing();
