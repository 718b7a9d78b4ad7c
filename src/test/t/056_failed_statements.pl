# Statements that fail in a transaction that goes on leave nothing in memory that lasts until its end.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'looks at memory of rose' if $ENV{ROSE_STANDIN};

my $node = rose_node('failed', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql("CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose; INSERT INTO t SELECT g, 0, repeat(md5(g::text), 10) FROM generate_series(1, 3000) g; SELECT rose.merge('t')");
sql("CREATE FUNCTION fail(what text, n int) RETURNS void LANGUAGE plpgsql AS 'BEGIN FOR i IN 1 .. n LOOP BEGIN EXECUTE what USING (i * 773) % 2990 + 1; EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END'");
foreach my $what ('SELECT 1 / (v - v) FROM t WHERE id = $1', 'UPDATE t SET id = id + 1 WHERE id = $1', 'INSERT INTO t VALUES ($1)',
	'SELECT 1 / (v - v) FROM t WHERE id = $1 FOR UPDATE', 'DELETE FROM t WHERE id = $1 RETURNING 1 / (v - v)',
	"COPY t FROM PROGRAM \$\$printf '%s\\t0\\t%s\\n' 900000 `head -c 400000 /dev/zero | tr '\\\\0' x`\$\$")
{
	my $n = $what =~ /PROGRAM/ ? 40 : 400;
	my @lines = split /\n/, sql(qq{BEGIN; SET LOCAL enable_seqscan = off; SELECT fail(\$x\$$what\$x\$, 20);
		SELECT 'bytes', sum(total_bytes) FROM pg_backend_memory_contexts WHERE name ~ '^rose';
		SELECT fail(\$x\$$what\$x\$, $n);
		SELECT 'bytes', sum(total_bytes) FROM pg_backend_memory_contexts WHERE name ~ '^rose'; COMMIT});
	my ($before, $after) = map { /^bytes\|(\d+)/ ? $1 : () } @lines;

	cmp_ok($after - $before, '<', 200_000, "what failed leaves nothing: $what");
}

$node->stop;
done_testing();
