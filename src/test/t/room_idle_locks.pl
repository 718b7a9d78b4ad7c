# Transactions that have locked or made their tables, so that nobody else can spill them, and are idle then: others go on.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('idle', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off',
	'max_prepared_transactions = 2', 'max_connections = 60', 'max_locks_per_transaction = 500');

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $rows = 12_000;
my $wide = "repeat(md5(g::text), 10)";

sql('CREATE TABLE other (id int PRIMARY KEY, doc text) USING rose');

# What others write in a while; memory must have room for more than a few rows.
sub others_write
{
	my ($what) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"SET statement_timeout = '50s'; TRUNCATE other; INSERT INTO other SELECT g, $wide FROM generate_series(1, 20000) g");

	is($err, '', "$what: others write");
	is(sql('SELECT count(*), sum(length(doc)) FROM other'), '20000|6400000', "$what: all of it");
	cmp_ok(sql('SELECT used_bytes FROM rose.stat_memory'), '<', 4_000_000 * 15 / 16, "$what: memory is not full");
	return;
}

sub tables { return sql("DROP TABLE IF EXISTS a; CREATE TABLE a (id int PRIMARY KEY, doc text) USING rose") }

# One transaction has locked its table; and then another one goes on in it.
# the second one stops when memory is nearly full, if it ever is
foreach my $how ("INSERT INTO a SELECT g, $wide FROM generate_series(1, $rows) g",
	"DO 'BEGIN FOR g IN 1 .. $rows LOOP INSERT INTO a VALUES (g, $wide); EXIT WHEN (SELECT used_bytes > 3800000 FROM rose.stat_memory); END LOOP; END'")
{
	tables();
	my $idle = RoseTest::Session->new($node);

	$idle->run("BEGIN; LOCK TABLE a; $how");
	others_write('a locked table');
	$idle->run("UPDATE a SET doc = 'x' WHERE id <= 10; COMMIT");
	$idle->end;
	is(sql("SELECT count(*), count(*) FILTER (WHERE doc = 'x') FROM a"), "$rows|10", 'what it wrote is there');
	is(sql("SELECT count(*) FROM rose.check('a')"), 0, 'rose.check');
}

# It is prepared.
tables();
sql("BEGIN; LOCK TABLE a; INSERT INTO a SELECT g, $wide FROM generate_series(1, $rows) g; PREPARE TRANSACTION 'idle'");
others_write('a prepared transaction');
sql("COMMIT PREPARED 'idle'");
is(sql("SELECT count(a) FROM a"), $rows, 'what it wrote is there');

# Many of them.
{
	my @idle;

	foreach my $i (1 .. 24)
	{
		$idle[$i] = RoseTest::Session->new($node);
		$idle[$i]->run("BEGIN; CREATE TABLE a$i (id int PRIMARY KEY, doc text) USING rose; INSERT INTO a$i SELECT g, $wide FROM generate_series(1, 1000 + 400 * $i) g");
	}
	others_write('24 tables');
	$idle[$_]->run($_ % 2 ? 'COMMIT' : 'ROLLBACK') foreach 1 .. 24;
	$idle[$_]->end foreach 1 .. 24;
	is(sql("SELECT (SELECT count(*) FROM a1) + (SELECT count(*) FROM a23)"), 1400 + 1000 + 400 * 23, 'what they wrote is there');
}

# Many tables of one transaction.
{
	my $idle = RoseTest::Session->new($node);

	$idle->run("BEGIN; DO 'BEGIN FOR i IN 1 .. 1500 LOOP EXECUTE format(''CREATE TABLE b%s (id int PRIMARY KEY) USING rose'', i);"
		  . " EXECUTE format(''INSERT INTO b%s SELECT generate_series(1, 5)'', i); END LOOP; END'");
	others_write('1500 small tables');
	is($idle->run('SELECT count(*) FROM b1500'), 5, 'a small table');
	$idle->run('ROLLBACK');
	$idle->end;
}

$node->stop;
done_testing();
