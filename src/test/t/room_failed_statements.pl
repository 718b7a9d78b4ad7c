# Statements that fail in a transaction that goes on leave nothing in memory that lasts until its end, and do no harm to those that follow.
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

# A statement that fails while it looks for a row that has been spilled does not keep the next one from finding it.
stop_points_create($node);
sql('CREATE TABLE c (id int PRIMARY KEY, v int) USING rose; INSERT INTO c SELECT g, 0 FROM generate_series(1, 100) g');
is(sql(q{BEGIN; DECLARE r CURSOR FOR SELECT * FROM c; MOVE 50 FROM r; SELECT FROM rose.spill('c'); SELECT stop_at('tid-pairs', 'error', 'client', 0, 1);
	SELECT fail('UPDATE c SET v = 1 WHERE CURRENT OF r', 1); SELECT 'failed', stop_hits('tid-pairs');
	UPDATE c SET v = 2 WHERE CURRENT OF r; SELECT id, v FROM c WHERE v <> 0; COMMIT}) =~ s/^\n+//r =~ s/\n\n+/\n/gr,
	"failed|1\n50|2", 'a row that another statement has failed to find');

$node->stop;
done_testing();
