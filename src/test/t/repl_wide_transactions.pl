# Transactions over several tables, larger than the memory of the replica, whose tables have
# indexes: where one finds no room, it may be another that has it all, and nobody but the
# transaction can free it. None fails, and none waits in vain.
#
#   WIDE_SEED	of the sizes
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory to fill' if $ENV{ROSE_STANDIN};

my $seed = seed_random('WIDE_SEED');
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off');
my @tables = qw(a b c);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

up('CREATE FUNCTION noise(n int) RETURNS text LANGUAGE sql AS $$ SELECT repeat(md5(random()::text), n) $$');
foreach my $table (@tables)
{
	up("CREATE TABLE $table (id serial PRIMARY KEY, n int, doc text)");
	down("CREATE TABLE $table (id int PRIMARY KEY, n int, doc text) USING rose");
}
up('CREATE PUBLICATION p FOR ALL TABLES');
subscribe($upstream, $replica);
down("SET rose.secondary_indexes = on; CREATE INDEX ${_}_n ON $_ (n); CREATE INDEX ${_}_doc ON $_ (left(doc, 1000), n)") foreach @tables;

# One table takes nearly all memory, by 64 kB more each time. What is left is too little for another's row when that comes, once at least.
foreach my $rows (50 .. 64)
{
	up("BEGIN; INSERT INTO a (n, doc) SELECT g, noise(2000) FROM generate_series(1, $rows) g; INSERT INTO b (n, doc) VALUES ($rows, noise(6000)); INSERT INTO c (n, doc) VALUES ($rows, noise(6000)); COMMIT");
}

# At random.
foreach my $round (1 .. 6)
{
	my @order = sort { rand() <=> 0.5 } @tables;
	my $text = '';

	foreach my $i (1 .. 4)
	{
		my $rows = int(rand(2 ** (1 + rand(11))));
		$text .= "INSERT INTO $order[0] (n, doc) SELECT g, noise(20) FROM generate_series(1, $rows) g;\n";
		$text .= "INSERT INTO $order[1] (n, doc) VALUES ($i, noise(6000));\n" if rand() < 0.5;
		$text .= "UPDATE $order[0] SET n = n + 1 WHERE id % 7 = $i;\n" if rand() < 0.2;
		$text .= "INSERT INTO $order[2] (n, doc) VALUES ($i, noise(6000));\n" if rand() < 0.5;
		push @order, shift @order if rand() < 0.3;
	}
	up("BEGIN;\n${text}COMMIT");
}
wait_for_apply($upstream, $replica);
is(down("SELECT last_error FROM rose.stat_subscription"), '', 'no error');
foreach my $table (@tables)
{
	is(table_hash($replica, $table), table_hash($upstream, $table), "$table: equal");
	is(down("SELECT c::text FROM rose.check('$table') c"), '', "$table: rose.check");
}

$replica->stop;
$upstream->stop;
done_testing();
