
# Upstreams whose keys are deferrable: until a transaction ends, two of their rows may have one
# key, so where rows are known by it, changes that name old rows are refused, and the table
# is paused with the rows it has. With another key that is not deferrable they are applied.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'built-in replication looks for old rows' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my ($upstream, $replica) = upstream_and_replica();

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

sub same
{
	my ($table, $name) = @_;

	wait_for_apply($upstream, $replica, undef, undef, $table);
	is(table_hash($replica, $table), table_hash($upstream, $table), "$name: $table");
	return;
}

# Refused: paused, with the rows of before.
sub refused
{
	my ($table, $sql, $verb) = @_;
	my $before = down("SELECT string_agg(t::text, ',' ORDER BY t) FROM $table t");

	up($sql);
	$replica->poll_query_until('postgres', "SELECT state = 'paused' FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass")
	  or fail("$table is not paused");
	like(down("SELECT last_error FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"),
		qr/cannot replicate $verb of table "public.$table": the upstream's key is deferrable/, "$verb of $table");
	is(down("SELECT string_agg(t::text, ',' ORDER BY t) FROM $table t"), $before, "$table has the rows of before");
	return;
}

sub resynced
{
	my ($table) = @_;

	down("SELECT rose.alter_subscription('s', resync => '$table')");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	same($table, 'copied again');
	return;
}

my %there = (
	whole => 'whole (id int PRIMARY KEY DEFERRABLE, v text)',
	pair => 'pair (a int, b int, v text, PRIMARY KEY (a, b) DEFERRABLE INITIALLY DEFERRED)',
	part => 'part (id int PRIMARY KEY DEFERRABLE, k int NOT NULL, v text, UNIQUE (id, k))',
	prefix => 'prefix (a int UNIQUE DEFERRABLE, b int, v text, PRIMARY KEY (a, b))',
	beside => 'beside (id int PRIMARY KEY DEFERRABLE, v text)',
	more => 'more (v text, gone int, id int PRIMARY KEY)',
	keyless => 'keyless (id int, v text)');
my @tables = sort keys %there;

up("CREATE TABLE $there{$_}") foreach @tables;
up('CREATE UNIQUE INDEX beside_id ON beside (id); CREATE UNIQUE INDEX more_id ON more (id) INCLUDE (v); ALTER TABLE more DROP gone');
up('ALTER TABLE part REPLICA IDENTITY USING INDEX part_id_k_key');
up("ALTER TABLE $_ REPLICA IDENTITY FULL") foreach qw(whole pair beside more keyless);
down('CREATE TABLE whole (id int PRIMARY KEY, v text) USING rose; CREATE TABLE pair (a int, b int, v text, PRIMARY KEY (b, a)) USING rose;'
	. 'CREATE TABLE prefix (a int PRIMARY KEY, b int, v text) USING rose;'
	. 'CREATE TABLE part (id int PRIMARY KEY, k int, v text) USING rose; CREATE TABLE beside (id int PRIMARY KEY, v text) USING rose;'
	. 'CREATE TABLE more (v text, id int PRIMARY KEY) USING rose; CREATE TABLE keyless (id int PRIMARY KEY, v text) USING rose');
up("INSERT INTO $_ (id, v) SELECT g, g FROM generate_series(1, 5) g") foreach qw(whole beside more keyless);
up('INSERT INTO pair SELECT g, g, g FROM generate_series(1, 5) g; INSERT INTO prefix SELECT g, g, g FROM generate_series(1, 5) g; INSERT INTO part SELECT g, g, g FROM generate_series(1, 5) g');
up('CREATE PUBLICATION p FOR TABLE ' . join ', ', @tables);
subscribe($upstream, $replica, undef, q{on_error => 'pause'});

# inserts name no old row
up("INSERT INTO whole VALUES (6, 'six'); INSERT INTO pair VALUES (6, 6, 'six'); INSERT INTO part VALUES (6, 6, 'six')");
is(down("SELECT rose.wait_for_lsn('s', '" . up('SELECT pg_current_wal_flush_lsn()') . "', $timeout)"), '', 'inserts are applied');
is(down("SELECT count(*) FROM $_"), 6, "an insert into $_") foreach qw(whole part pair);

# each row takes the next one's key
refused('whole', 'UPDATE whole SET id = id + 1', 'an UPDATE');
# the new one is there before the old one goes
refused('pair', "BEGIN; INSERT INTO pair VALUES (3, 3, 'new'); DELETE FROM pair WHERE a = 3 AND v <> 'new'; COMMIT", 'a DELETE');
refused('part', 'UPDATE part SET id = id + 1', 'an UPDATE');
# a part of the primary key that is the identity
refused('prefix', 'UPDATE prefix SET a = a + 1', 'an UPDATE');

# a key that is not deferrable, be it of the same columns or beside one that is
foreach my $table (qw(beside more keyless))
{
	up("UPDATE $table SET v = v || 'x' WHERE id > 2; UPDATE $table SET id = id + 100 WHERE id = 5; DELETE FROM $table WHERE id = 1");
	same($table, 'keys that are not deferrable');
}

# what puts it right
resynced($_) foreach qw(whole pair part prefix);
up('ALTER TABLE whole DROP CONSTRAINT whole_pkey, ADD PRIMARY KEY (id); CREATE UNIQUE INDEX pair_b ON pair (b); CREATE UNIQUE INDEX part_id ON part (id); CREATE UNIQUE INDEX prefix_a ON prefix (a)');
up("UPDATE whole SET id = id + 100, v = 'moved'; UPDATE pair SET b = b + 100 WHERE a > 3; DELETE FROM pair WHERE a = 2; UPDATE part SET id = id + 100; UPDATE prefix SET a = a + 100");
same($_, 'a key that is not deferrable was made') foreach qw(whole pair part prefix);

$replica->stop;
$upstream->stop;
done_testing();
