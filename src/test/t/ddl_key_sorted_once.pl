# ALTER TABLE ADD PRIMARY KEY of a table larger than maintenance_work_mem sorts its rows once: what it writes to temporary
# files is about the rows' size, as for heap it is that of the keys. And the rows are in order, with errors as before.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $node = rose_node('key_sorted_once', "maintenance_work_mem = '4MB'", 'max_parallel_maintenance_workers = 0', 'autovacuum = off', 'log_temp_files = 0');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Bytes in temporary files of this statement.
sub temporary_bytes
{
	my ($sql) = @_;
	my $from = -s $node->logfile;
	my $bytes = 0;

	sql($sql);
	my $log = slurp_file($node->logfile, $from);
	$bytes += $1 while $log =~ /temporary file: .*size (\d+)/g;
	return $bytes;
}

sql("CREATE TABLE t (id int, v text) USING rose; INSERT INTO t SELECT (i * 7919) % 100003, md5(i::text) FROM generate_series(1, 100000) i");
my $row_bytes = 100_000 * 64;
my $bytes = temporary_bytes('ALTER TABLE t ADD PRIMARY KEY (id)');
cmp_ok($bytes, '>', $ENV{ROSE_STANDIN} ? 0 : $row_bytes / 2, 'rows are sorted on disk');
cmp_ok($bytes, '<', $row_bytes, "once: $bytes bytes for rows of $row_bytes");
is(sql('SELECT count(*), sum((id > before)::int) FROM (SELECT id, lag(id, 1, -1) OVER () AS before FROM (SELECT id FROM t ORDER BY id) s) o'), '100000|100000', 'they are in order');
is(sql('SELECT count(*) FROM t WHERE id IN (7919, 15838, 5) AND v IS NOT NULL'), 3, 'and found');
is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'the table is sound') unless $ENV{ROSE_STANDIN};

sql('CREATE TABLE twice (id int, v text) USING rose; INSERT INTO twice TABLE t; INSERT INTO twice VALUES (4711, NULL)');
my ($status, $out, $err) = $node->psql('postgres', 'ALTER TABLE twice ADD PRIMARY KEY (id)');
like($err, qr/could not create unique index "twice_pkey"\nDETAIL:  Key \(id\)=\(4711\) is duplicated/, 'equal keys are told');
is(sql('SELECT count(twice) FROM twice'), 100_001, 'and nothing is lost');
$node->stop;
done_testing();
