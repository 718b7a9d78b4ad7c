# Entries that merges leave out of a replica's indexes, where an answer would be wrong without them: made by functions that follow settings
# of whoever merges, or fail for him; and met by SERIALIZABLE transactions that have to meet their writers.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "rose.debug_piece_size = '8kB'", "rose.spill_interval = '200ms'", "wal_retrieve_retry_interval = '200ms'", 'autovacuum = off', 'max_stack_depth = 5000kB');
my $rows = 2000;

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub entries { return down("SELECT coalesce(sum(rows), 0) FROM rose.stat_components WHERE relname = '$_[0]'") }

up(<<"SQL");
CREATE TABLE t (id int PRIMARY KEY, f float8, b bytea, q text, doc text, big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
INSERT INTO t SELECT g, g * 0.1::float8, decode(lpad(to_hex(g), 8, '0'), 'hex'), 'v' || g, repeat('[', 900) || g || repeat(']', 900), repeat('x' || g % 50, 600) FROM generate_series(1, $rows) g;
CREATE PUBLICATION p FOR TABLE t;
SQL
down(<<'SQL');
CREATE TABLE t (id int PRIMARY KEY, f float8, b bytea, q text, doc text, big text) USING rose;
CREATE INDEX tf ON t ((f::text)); CREATE INDEX tb ON t ((b::text)); CREATE INDEX tq ON t ((quote_ident(q)));
CREATE INDEX td ON t (jsonb_typeof(doc::jsonb)); CREATE INDEX tbig ON t (big) INCLUDE (doc); CREATE INDEX tnull ON t (q, big); CREATE INDEX tp ON t (f) WHERE f::text <> '0.1';
SQL
subscribe($upstream, $replica);

# ---- settings of whoever merges ----

my %query = (
	tf => q{SELECT count(*) FROM t WHERE f::text > ''}, tb => q{SELECT count(*) FROM t WHERE b::text > ''}, tq => q{SELECT count(*) FROM t WHERE quote_ident(q) > ''},
	td => q{SELECT count(*) FROM t WHERE jsonb_typeof(doc::jsonb) = 'array'}, tbig => q{SELECT count(*) FROM t WHERE big > ''}, tnull => q{SELECT count(*) FROM t WHERE q IS NULL}, tp => q{SELECT count(*) FROM t WHERE f::text <> '0.1' AND f > 0});

sub agree
{
	my ($name) = @_;

	foreach my $index (sort keys %query)
	{
		my $here = "SET enable_seqscan = off; SET enable_bitmapscan = off; $query{$index}";

		like(down("SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (COSTS off) $query{$index}"), qr/\b$index\b/, "$name: by $index");
		is(down($here), down("SET enable_indexscan = off; SET enable_indexonlyscan = off; $query{$index}"), "$name: $index");
		is(down("SET extra_float_digits = 0; SET bytea_output = escape; SET quote_all_identifiers = on; $here"), down($here), "$name: $index, with other settings");
	}
	is(down("SELECT string_agg(msg, '; ') FROM (SELECT msg FROM rose.check('t') LIMIT 5) s"), '', "$name: rose.check");
	return;
}

no_merge_workers($replica);
foreach my $byte (1, 2)
{
	up("UPDATE t SET f = f + 0.3, b = b || '\\x0$byte', q = CASE WHEN id % 3 > 0 THEN q || 'y' END, doc = '[' || doc || ']', big = 'y' || big");
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('t')");
}
agree('not merged');
down("SET extra_float_digits = 0; SET bytea_output = escape; SET quote_all_identifiers = on; SET max_stack_depth = '100kB'; SELECT rose.merge('t')");
cmp_ok(entries($_), '<', 1.2 * $rows, "$_ was sifted") foreach qw(tf tb tq tp);
cmp_ok(entries('td'), '>=', $rows, 'what could not be computed is there');
agree('merged by somebody with other settings');

down('REINDEX TABLE t');
down("ALTER DATABASE postgres SET $_") foreach 'extra_float_digits = 0', 'bytea_output = escape', 'rose.debug_sift_entries = 0';
foreach (1 .. 4)
{
	up(q{UPDATE t SET f = f + 0.3, b = b || '\x01', q = q || 'z'});
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('t')");
}
merge_workers($replica, 2);
ok($replica->poll_query_until('postgres', "SELECT coalesce(sum(rows), 0) < 1.5 * $rows FROM rose.stat_components WHERE relname = 'tf'"), 'a worker with other settings has sifted');
down("ALTER DATABASE postgres RESET $_") foreach 'extra_float_digits', 'bytea_output';
agree('merged by a worker');
down("SELECT rose.drop_subscription('s')");
up('DROP PUBLICATION p');

# ---- who is SERIALIZABLE meets a writer whose version has gone ----

up('CREATE TABLE s (id int PRIMARY KEY, a int); INSERT INTO s SELECT g, -g FROM generate_series(1, 20) g; CREATE PUBLICATION p FOR TABLE s');
down('CREATE TABLE s (id int PRIMARY KEY, a int) USING rose; CREATE TABLE z (id int PRIMARY KEY) USING rose');
subscribe($upstream, $replica, undef, "durability => 'local'");
no_merge_workers($replica);
foreach my $merged (0, 1)
{
	my $reader = RoseTest::Session->new($replica);

	down('DROP INDEX IF EXISTS si; CREATE INDEX si ON s (a); DELETE FROM z; UPDATE s SET a = -id');
	down("SELECT rose.merge('s')") foreach 1 .. 2;
	$reader->run('SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM pg_class WHERE oid = 1');
	down('BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE s SET a = 5 WHERE id = 3; COMMIT');
	down('SET enable_seqscan = off; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM z WHERE id = 1; UPDATE s SET a = 7 WHERE id = 3; COMMIT');
	down('UPDATE s SET a = 9 WHERE id = 3');
	down("SELECT rose.merge('s')") if $merged;
	$reader->start('SELECT count(*) FROM s WHERE a = 7; INSERT INTO z VALUES (1); COMMIT');
	ok(!eval { $reader->finish; 1 }, 'write skew is found' . ($merged ? ', merged' : ''));
	like($@, qr/could not serialize/, 'as such');
	eval { $reader->end };
}
$_->stop foreach $replica, $upstream;
done_testing();
