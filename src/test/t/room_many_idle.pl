# More than two hundred idle transactions, each with some memory that nobody else may spill, or that is carried over from spill to spill:
# others go on, and what they wrote is there.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $n = 240;
my $node = rose_node('manyidle', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off',
	"max_prepared_transactions = $n", 'max_connections = 60', 'max_locks_per_transaction = 200');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql('CREATE TABLE other (id int PRIMARY KEY, doc text) USING rose');

# What others write in a while. What is left of memory must not be next to nothing.
sub others_write
{
	my ($what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"SET statement_timeout = '50s'; TRUNCATE other; INSERT INTO other SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 10000) g;"
		  . " UPDATE other SET doc = 'x' WHERE id % 100 = 0");

	is($err, '', "$what: others write");
	is(sql('SELECT count(*), sum(length(doc)) FROM other'), '10000|3168100', "$what: all of it");
	cmp_ok(sql('SELECT used_bytes FROM rose.stat_memory'), '<=', 4_190_208 / 16 * 15, "$what: memory is not full");
	return;
}

# Each has nearly what it may have, and all together more than there is room for: if the table is its own, two a quarter of memory, thirty
# a 64th, and the others two pages; else what a spill may carry over.
foreach my $how ('LOCK TABLE', 'CREATE TABLE', 'idle')
{
	my $create = 'CREATE TABLE REL (id int PRIMARY KEY, doc text) USING rose';
	my $insert = "INSERT INTO REL SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, CNT) g";
	my @count = $how eq 'idle' ? (30) x $n : ((2300) x 2, (120) x 30, (12) x ($n - 32));
	my $script = '';

	if ($how ne 'CREATE TABLE')
	{
		sql(join ';', map { $create =~ s/REL/p$_/r } 1 .. $n);
	}
	foreach my $i (1 .. $n)
	{
		my $begin = $how eq 'LOCK TABLE' ? 'LOCK TABLE REL' : $how eq 'CREATE TABLE' ? $create : 'SELECT';

		$script .= "BEGIN; $begin; $insert; PREPARE TRANSACTION 'p$i';\n" =~ s/REL/p$i/gr =~ s/CNT/$count[$i - 1]/gr;
	}
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '50s';\n$script", on_error_stop => 1);
	is($err, '', "$how: $n transactions");
	is(sql('SELECT count(*) FROM pg_prepared_xacts'), $n, "$how: all are idle");
	note sql('SELECT used_bytes FROM rose.stat_memory');
	others_write($how);
	$node->restart;
	others_write("$how, after a restart");
	sql(join ';', map { ($_ % 2 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'p$_'" } 1 .. $n);
	is(sql('SELECT (SELECT count(*) FROM p1), (SELECT count(*) FROM p239)' . ($how eq 'CREATE TABLE' ? '' : ', (SELECT count(*) FROM p240)')),
		join('|', $count[0], $count[238], $how eq 'CREATE TABLE' ? () : 0), "$how: what was committed is there");
	is(sql("SELECT count(*) FROM (SELECT rose.check('p1') UNION ALL SELECT rose.check('p239')) s"), 0, "$how: rose.check");
	sql(join ';', map { "DROP TABLE IF EXISTS p$_" } 1 .. $n);
}

$node->stop;
done_testing();
