# Without workers, who spills merges when a table has nearly as many components as it can have, of committed rows and
# of transactions in progress. No spill fails, and nothing is lost.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no spills' if $ENV{ROSE_STANDIN};

my $node = rose_node('noworkers', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off',
	'rose.max_merge_workers = 0', 'max_prepared_transactions = 200', 'max_connections = 40');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# All of it, in one session; statements of one line.
sub run_all
{
	my ($what, @commands) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join('', map { "$_;\n" } "SET statement_timeout = '60s'", @commands));

	is($err, '', $what);
	return;
}

sub contents { return sql("SELECT count(*), sum(v), md5(string_agg(id || ' ' || v || ' ' || md5(doc), ',' ORDER BY id, v, doc)) FROM $_[0]") }

sub compare
{
	my ($what) = @_;

	is(contents('t'), contents('h'), "$what: contents");
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, "$what: rose.check");
	cmp_ok(sql("SELECT count(*) FROM rose.components('t')"), '<=', 60, "$what: components");
	return;
}

my $row = "SELECT g, 1, repeat(md5(g::text), 10)";

foreach my $key ('PRIMARY KEY', '')
{
	my $what = $key ? 'with a key' : 'without a key';
	my @all;

	sql('DROP TABLE IF EXISTS t, h');
	sql("CREATE TABLE $_->[0] (id int $key, v int, doc text) USING $_->[1]") foreach ([ 't', 'rose' ], [ 'h', 'heap' ]);

	# A run for each of many small spills.
	@all = map {
		my $i = $_;
		("INSERT INTO t $row FROM generate_series($i * 100 + 1, $i * 100 + 50) g", "SELECT rose.spill('t')",
			"UPDATE t SET v = v + 1 WHERE id % 100 = 7", "DELETE FROM t WHERE id = $i * 90 + 3")
	} 0 .. 89;
	run_all("$what: 90 spills", @all);
	run_all("$what: heap", map { s/\bt\b/h/gr } grep { !/rose/ } @all);
	compare($what);

	# Of transactions in progress: each of them has a private run. Some end, and there are more.
	@all = map {
		my $i = $_;
		("BEGIN", "INSERT INTO t $row FROM generate_series(20001 + $i * 100, 20070 + $i * 100) g",
			"SAVEPOINT s", "UPDATE t SET v = v + 10 WHERE id BETWEEN $i * 100 + 1 AND $i * 100 + 30", ($i % 5 ? 'RELEASE s' : 'ROLLBACK TO s'),
			"PREPARE TRANSACTION 't$i'", "SELECT rose.spill('t')", ($i % 7 == 6 ? (($i % 2 ? 'ROLLBACK' : 'COMMIT') . " PREPARED 't$i'") : ()))
	} 0 .. 89;
	run_all("$what: 90 transactions", @all);
	run_all("$what: heap", map { s/\bt\b/h/gr =~ s/'t(\d+)'/'h$1'/r } grep { !/rose/ } @all);
	compare("$what, in progress");
	@all = map { $_ % 7 == 6 ? () : (($_ % 3 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 't$_'") } 0 .. 89;
	run_all("$what: their ends", @all, map { s/'t/'h/r } @all);
	compare("$what, ended");
	sql("SELECT rose.merge('t')");
	compare("$what, merged");
}

# A transaction that has locked a table, which has many runs, writes more than memory.
sql('DROP TABLE t, h');
sql("CREATE TABLE $_->[0] (id int PRIMARY KEY, v int, doc text) USING $_->[1]; INSERT INTO $_->[0] SELECT g, 1, 'x' FROM generate_series(1, 10000) g") foreach ([ 't', 'rose' ], [ 'h', 'heap' ]);
run_all('many runs', map { ("UPDATE t SET v = v + 1 WHERE id % 60 = $_", "UPDATE h SET v = v + 1 WHERE id % 60 = $_", "SELECT rose.spill('t')") } 0 .. 29);
run_all('a locked table', map { ("BEGIN", "LOCK TABLE $_", "INSERT INTO $_ $row FROM generate_series(10001, 30000) g",
	"UPDATE $_ SET v = v + 1, doc = doc || 'y' WHERE id > 15000", "COMMIT") } ('t', 'h'));
compare('a locked table');

$node->stop;
done_testing();
