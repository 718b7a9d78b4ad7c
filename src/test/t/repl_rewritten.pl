
# A table whose file is a new one, by whatever command, is as read-only for clients as before, whether the subscription has a worker or none that could say so; and
# what the upstream sends goes on, by epochs and with durability local, with and without rows, of a partition, and after a rollback and a crash.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in is not read-only' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '1h'", 'rose.max_subscriptions = 2', 'allow_in_place_tablespaces = on');
my @tables = qw(keyed bare none parts);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

up('CREATE TABLE keyed (id int PRIMARY KEY, n int, v text); CREATE TABLE bare (id int, n int, v text); CREATE TABLE none (id int PRIMARY KEY, n int, v text); CREATE TABLE parts (id int PRIMARY KEY, n int, v text)');
up("INSERT INTO $_ SELECT g, g, 'v' || g FROM generate_series(1, 300) g") foreach qw(keyed bare parts);
up('CREATE PUBLICATION p FOR TABLE ' . join ', ', @tables);
down('CREATE TABLE keyed (id int PRIMARY KEY, n int, v text) USING rose; CREATE INDEX keyed_n ON keyed (n); CREATE TABLE bare (id int, n int, v text) USING rose; CREATE TABLE none (id int PRIMARY KEY, n int, v text) USING rose; CREATE INDEX none_n ON none (n)');
down('CREATE TABLE parts (id int PRIMARY KEY, n int, v text) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parts DEFAULT USING rose; CREATE INDEX ON parts (n)');
down('CREATE TABLESPACE elsewhere LOCATION \'\'');
subscribe($upstream, $replica);

my $step = 0;

sub change
{
	$step++;
	return up("INSERT INTO keyed VALUES (1000 + $step, $step, 'k'); UPDATE keyed SET n = n + 1 WHERE id % 7 = 0; INSERT INTO bare VALUES ($step, $step, 'b'); INSERT INTO parts VALUES (1000 + $step, $step, 'p'); DELETE FROM parts WHERE id = $step");
}

sub same
{
	my ($name) = @_;

	wait_for_apply($upstream, $replica);
	is(join(' ', map { table_hash($replica, "(SELECT id, n, v FROM $_)") } @tables), join(' ', map { table_hash($upstream, "(SELECT id, n, v FROM $_)") } @tables), "$name: the same rows");
	return is(down("SELECT string_agg(c::text, E'\\n') FROM (VALUES ('keyed'), ('bare'), ('none'), ('part')) t(name), rose.check(name::regclass) c"), '', "$name: in good order");
}

# With durability "local" it may be written to; but not in ways in which its changes do not come.
my $logged = 0;

sub refused
{
	my ($table, $name) = @_;

	return like(error_of($replica, "CREATE UNIQUE INDEX ON $table (v, n)"), qr/written without a look/, "$name: the subscription's") if $logged;
	return like(error_of($replica, "INSERT INTO $table VALUES (-1, 0, 'local')"), qr/cannot write to table "$table" because a subscription feeds it/, "$name: read-only");
}

sub rewrite
{
	my ($table, $command, $crashes) = @_;

	change();
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('$table')");
	down("SELECT rose.alter_subscription('s', enabled => false)");
	if ($command !~ /^(VACUUM|CLUSTER)/)
	{
		is(error_of($replica, "BEGIN; $command; ROLLBACK"), '', "$command: rolled back");
		refused($table, 'after the rollback');
		like(error_of($replica, "BEGIN; $command; INSERT INTO $table VALUES (-1, 0, 'local')"), qr/because a subscription feeds it/, "$command: read-only in its transaction") if !$logged;
		is(error_of($replica, "BEGIN; SAVEPOINT s; $command; ROLLBACK TO s; $command; COMMIT"), '', "$command: once more after a savepoint");
	}
	else
	{
		is(error_of($replica, $command), '', $command);
	}
	refused($table, $command);
	if ($crashes)
	{
		crash_and_restart($replica);
		refused($table, "$command, after a crash");
	}
	change();
	down("SELECT rose.alter_subscription('s', enabled => true)");
	return same($command);
}

rewrite(@$_) foreach [ 'keyed', 'ALTER TABLE keyed ALTER n TYPE bigint', 1 ], [ 'keyed', 'ALTER TABLE keyed ALTER id TYPE bigint' ], [ 'keyed', 'REINDEX TABLE keyed' ], [ 'bare', 'ALTER TABLE bare ADD COLUMN c float8 DEFAULT random()' ],
	[ 'bare', 'ALTER TABLE bare ADD CONSTRAINT bare_pkey PRIMARY KEY (id, v)', 1 ], [ 'bare', 'ALTER TABLE bare DROP CONSTRAINT bare_pkey' ], [ 'none', 'ALTER TABLE none ALTER n TYPE bigint', 1 ],
	[ 'part', 'ALTER TABLE parts ALTER n TYPE bigint' ];

down("SELECT rose.alter_subscription('s', durability => 'local')");
$logged = 1;
same('durability local');
rewrite(@$_) foreach [ 'keyed', 'ALTER TABLE keyed ALTER n TYPE int' ], [ 'keyed', 'VACUUM FULL keyed', 1 ], [ 'none', 'VACUUM FULL none' ], [ 'part', 'CLUSTER part USING part_pkey' ], [ 'bare', 'ALTER TABLE bare SET TABLESPACE elsewhere' ];

$replica->stop;
$upstream->stop;
done_testing();
