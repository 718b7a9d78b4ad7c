
# pgbench makes its tables, fills them and then adds primary keys, to partitioned ones too, whose partitions ALTER TABLE
# locks against writers only. Here everything is in rose tables.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $node = rose_node('partitioned_keys', "default_table_access_method = 'rose'");
my @tables = map { "pgbench_accounts_$_" } 1 .. 4;

sub sql { return $node->safe_psql('postgres', $_[0]) }

foreach my $method ('range', 'hash')
{
	$node->command_ok(
		[ 'pgbench', '-h', $node->host, '-p', $node->port, '-i', '-I', 'dtGvpf', '--partitions=4', "--partition-method=$method", 'postgres' ],
		"pgbench -i --partitions=4 --partition-method=$method");
	is(sql("SELECT count(*), count(DISTINCT amname), min(amname) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname IN ('"
			  . join("', '", @tables) . "')"),
		'4|1|rose', "$method: the partitions are rose tables");
	is(sql('SELECT count(*), min(aid), max(aid), sum(abalance) FROM pgbench_accounts'), '100000|1|100000|0', "$method: rows");
	is(sql('SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, 100000, 997) g WHERE EXISTS (SELECT FROM pgbench_accounts WHERE aid = g)'),
		101, "$method: lookups");
	$node->command_ok([ 'pgbench', '-h', $node->host, '-p', $node->port, '-c', '4', '-t', '50', '-n', 'postgres' ], "$method: transactions");
	is(sql('SELECT (SELECT sum(abalance) FROM pgbench_accounts) = sum(delta), count(*) FROM pgbench_history'), 't|200', "$method: their sum");
	my ($rc, $out, $err) = $node->psql('postgres', 'INSERT INTO pgbench_accounts VALUES (7, 1, 0, NULL)');
	like($err, qr/duplicate key value violates unique constraint "pgbench_accounts_\d_pkey"/, "$method: the key is unique");

	# dropped, for row ids, and made again while rows are in memory
	sql('ALTER TABLE pgbench_history DROP CONSTRAINT pgbench_history_aid_fkey; ALTER TABLE pgbench_accounts DROP CONSTRAINT pgbench_accounts_pkey');
	sql('UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 100 = 0');
	sql('ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid)');
	is(sql('SELECT count(*), (SELECT sum(delta) FROM pgbench_history) + 1000 = sum(abalance) FROM pgbench_accounts'), '100000|t', "$method: with another key");
	is(join('', map { sql("SELECT * FROM rose.check('$_')") } @tables), '', "$method: rose.check");
}

$node->stop;
done_testing();
