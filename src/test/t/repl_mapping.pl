# Tables of the upstream that have other names here: which names a subscription takes, where tables go by them, and that from then on nothing
# depends on names any more; what is changed, dumped, copied again, compared, and said in errors.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in finds tables by name' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '1h'", 'rose.max_subscriptions = 4');
my $conninfo = $upstream->connstr('postgres');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub alter { return down("SELECT rose.alter_subscription('s', $_[0])") }
sub synced { return down("SELECT rose.wait_for_sync('s', $timeout)") }

sub fails
{
	my ($sql, $pattern, $name) = @_;
	my (undef, undef, $err) = $replica->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	return like($err, $pattern, $name);
}

sub create
{
	my ($name, $tables, $more) = @_;

	return "SELECT rose.create_subscription('$name', \$\$$conninfo\$\$, ARRAY['p'], tables => '$tables'" . ($more // '') . ')';
}

# Pairs: there, here.
my @pairs = ([ 'public.orders', 'replica.orders_eu' ], [ 'public."Case.d"', 'replica."X ""y"' ], [ 'sales.a', 'eu_sales.a' ], [ 'sales.parts', 'eu_sales.parts' ], [ 'public.same', 'public.same' ]);

sub same
{
	my ($name) = @_;

	wait_for_apply($upstream, $replica);
	is(table_hash($replica, $_->[1]), table_hash($upstream, $_->[0]), "$name: $_->[0]") foreach @pairs;
	is(down("SELECT * FROM rose.verify('s')"), '', "$name: verified");
	return;
}

sub stat_of { return down("SELECT $_[1] FROM rose.stat_subscription_tables WHERE upstream_relation = '$_[0]'") }

# --- what is no mapping
foreach my $wrong (
	[ '[]', qr/22023: tables must be a JSON object/ ], [ '{"public.a": 1}', qr/22023: the name that "public.a" is to have here must be a string/ ],
	[ '{"public.a": ["x"]}', qr/22023: the value of "public.a" in tables must be no object or array/ ], [ '{"a": "b.c"}', qr/42602: invalid name "a" in tables/ ],
	[ '{"x.y.z": "b.c"}', qr/42602: invalid name "x.y.z"/ ], [ '{"public.a": "b.*"}', qr/22023: "public.a" in tables must go to a table/ ],
	[ '{"public.*": "b.c"}', qr/22023: "public.\*" in tables must go to a schema/ ], [ '{"public.a": "\"b.c"}', qr/42602: invalid name syntax/ ],
	[ '{"public.a": "b.c", "PUBLIC.A": "b.d"}', qr/22023: tables names "public.a" twice/ ],
	[ '{"public.a": "b.c", "public.b": "B.C"}', qr/22023: tables "public.\w" and "public.\w" of the upstream cannot both go to "b.c"/ ])
{
	fails(create('s', $wrong->[0]), $wrong->[1], "refused: $wrong->[0]");
}

# --- tables
up('CREATE SCHEMA sales; CREATE TABLE orders (id int PRIMARY KEY, v text); CREATE TABLE "Case.d" (id int PRIMARY KEY, v text); CREATE TABLE same (id int PRIMARY KEY, v text); CREATE TABLE sales.a (x text, y int, v text, PRIMARY KEY (x, y));'
	. 'CREATE TABLE sales.parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE sales.parts_1 PARTITION OF sales.parts FOR VALUES FROM (0) TO (50); CREATE TABLE sales.parts_2 PARTITION OF sales.parts DEFAULT;'
	. 'CREATE PUBLICATION p FOR TABLE orders, "Case.d", same, sales.a, sales.parts WITH (publish_via_partition_root = true)');
up("INSERT INTO $_ SELECT g, 'v' || g FROM generate_series(1, 100) g") foreach 'orders', '"Case.d"', 'same', 'sales.parts';
up("INSERT INTO sales.a SELECT 'x' || g % 3, g, 'v' FROM generate_series(1, 100) g");
down('SET default_table_access_method = rose; CREATE SCHEMA replica; CREATE SCHEMA eu_sales; CREATE TABLE replica.orders_eu (id int PRIMARY KEY, v text); CREATE TABLE same (id int PRIMARY KEY, v text);'
	. 'CREATE TABLE eu_sales.a (x text, y int, v text, PRIMARY KEY (x, y)); CREATE TABLE eu_sales.parts (id int PRIMARY KEY, v text) PARTITION BY HASH (id);'
	. 'CREATE TABLE eu_sales.h1 PARTITION OF eu_sales.parts FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE eu_sales.h2 PARTITION OF eu_sales.parts FOR VALUES WITH (MODULUS 2, REMAINDER 1)');
my $mapping = '{"public.orders": "REPLICA.orders_eu", "public.\"Case.d\"": "replica.\"X \"\"y\"", "sales.*": "eu_sales.*"}';
fails(create('s', $mapping), qr/42P01: table "replica.X "y" does not exist\nDETAIL:  It is to have the rows of the upstream's table "public.Case.d"/, 'a table that is not there');
down('CREATE TABLE replica."X ""y" (id int PRIMARY KEY, v text) USING rose');
fails(create('s', '{"sales.*": "eu_sales.*", "public.*": "replica.*", "public.same": "replica.orders_eu", "public.\"Case.d\"": "public.same", "public.orders": "replica.orders_eu"}'), qr/22023: tables .* cannot both go/, 'two into one, named');
down('CREATE TABLE replica.same (id int PRIMARY KEY, v text) USING rose; CREATE TABLE public.a (x text, y int, v text, PRIMARY KEY (x, y)) USING rose; CREATE TABLE replica.a (LIKE public.a INCLUDING ALL) USING rose');
fails(create('s', '{"sales.*": "replica.*", "public.*": "replica.*", "public.\"Case.d\"": "replica.a", "public.orders": "replica.orders_eu"}'),
	qr/55006: table "a" has the rows of another table of the upstream than .*\nDETAIL:  By the names that the subscription's option "tables" gives/, 'two into one, by their schemas');
down(create('s', $mapping));
synced();
same('copied');
is(stat_of('public.orders', "schemaname || '.' || relname"), 'replica.orders_eu', 'both names are shown');
is(down("SELECT tables->>'sales.*' FROM rose.stat_subscription"), 'eu_sales.*', 'and the mapping');

# --- changes
sub change
{
	my ($n) = @_;

	up("INSERT INTO $_ SELECT g, 'new' || g FROM generate_series($n * 1000, $n * 1000 + 50) g; UPDATE $_ SET v = 'u$n' WHERE id % 7 = $n % 7; DELETE FROM $_ WHERE id % 11 = $n % 11; UPDATE $_ SET id = -id WHERE id = $n * 1000 + 1") foreach 'orders', '"Case.d"', 'same', 'sales.parts';
	up("INSERT INTO sales.a SELECT 'n$n', g, 'v' FROM generate_series(1, 50) g; UPDATE sales.a SET x = x || 'u' WHERE y % 9 = $n % 9; DELETE FROM sales.a WHERE y % 13 = $n % 13");
	return;
}

change(1);
same('changed');
up('TRUNCATE orders, sales.parts');
change(2);
same('truncated');

# --- names do not matter any more
up('ALTER TABLE sales.a RENAME TO a_there; ALTER TABLE orders SET SCHEMA sales');
down('ALTER TABLE eu_sales.a RENAME TO a_here');
$pairs[2] = [ 'sales.a_there', 'eu_sales.a_here' ];
$pairs[0][0] = 'sales.orders';
my $orders = 'sales.orders';
up("INSERT INTO $orders VALUES (50001, 'renamed'); INSERT INTO sales.a_there VALUES ('r', 1, 'renamed')");
same('renamed');
alter('refresh => true');
same('renamed and refreshed');
is(stat_of('sales.orders', "schemaname || '.' || relname"), 'replica.orders_eu', 'a refresh leaves a table where it is');
up("ALTER TABLE $orders SET SCHEMA public; ALTER TABLE sales.a_there RENAME TO a");
$pairs[0][0] = 'public.orders';
$pairs[2] = [ 'sales.a', 'eu_sales.a_here' ];
up("INSERT INTO orders VALUES (50002, 'renamed'); INSERT INTO sales.a VALUES ('r', 2, 'renamed')");
same('renamed again');

# --- copied again, and after a crash
alter("resync => 'replica.orders_eu'");
synced();
same('copied again');
change(3);
wait_for_apply($upstream, $replica);
crash_and_restart($replica);
synced();
same('after a crash');

# --- errors say both names
down('ALTER TABLE replica.orders_eu ADD CONSTRAINT few CHECK (id < 90000) NOT VALID');
up("INSERT INTO orders VALUES (90001, 'x')");
$replica->poll_query_until('postgres', "SELECT state = 'failed' FROM rose.stat_subscription_tables WHERE upstream_relation = 'public.orders'") or die 'no error';
like(slurp_file($replica->logfile), qr/for table "public\.orders" \(here "replica\.orders_eu"\)/, 'an error says both names');
down('ALTER TABLE replica.orders_eu DROP CONSTRAINT few');
$replica->poll_query_until('postgres', "SELECT state = 'ready' FROM rose.stat_subscription_tables WHERE upstream_relation = 'public.orders'") or die 'does not go on';
same('after an error');

# --- another mapping
fails("SELECT rose.alter_subscription('s', tables => '{}', refresh => false)", qr/42601: tables needs a refresh/, 'not without a refresh');
fails("SELECT rose.alter_subscription('s', tables => '{}', accept => 'resync')", qr/42601: tables needs a refresh/, 'nor with another upstream');
fails("SELECT rose.alter_subscription('s', tables => '[]')", qr/22023: tables must be a JSON object/, 'nor if it is none');
down('CREATE TABLE replica.moved (id int PRIMARY KEY, v text) USING rose');
(my $moved = $mapping) =~ s/orders_eu/moved/;
fails("SELECT rose.alter_subscription('s', tables => '" . ($moved =~ s/moved/nowhere/r) . "')", qr/42P01: table "replica.nowhere" does not exist/, 'to a table that is not there');
same('as it was');
my $before = table_hash($replica, 'replica.orders_eu');
alter("tables => '$moved'");
synced();
$pairs[0][1] = 'replica.moved';
same('another table');
change(4);
same('another table, changed');
is(table_hash($replica, 'replica.orders_eu'), $before, 'the one that it had before keeps its rows');
is(down("INSERT INTO replica.orders_eu VALUES (777777, 'mine') RETURNING id"), 777777, 'and is an ordinary one');
is(stat_of('public.orders', "schemaname || '.' || relname"), 'replica.moved', 'shown');

# What the mapping says of tables that come later
up('CREATE TABLE sales.later (id int PRIMARY KEY, v text); ALTER PUBLICATION p ADD TABLE sales.later; INSERT INTO sales.later SELECT g, g FROM generate_series(1, 10) g');
down('CREATE TABLE eu_sales.later (id int PRIMARY KEY, v text) USING rose');
alter('refresh => true');
synced();
push @pairs, [ 'sales.later', 'eu_sales.later' ];
same('one that comes later');

# --- two change places: each has the other's rows, which is said
(my $swapped = $moved) =~ s/"REPLICA\.moved"/"public.same", "public.same": "replica.moved"/;
alter("tables => '$swapped'");
$replica->poll_query_until('postgres', "SELECT count(*) = 2 FROM rose.stat_subscription_tables WHERE state = 'error' AND last_error ~ 'which is not empty'") or die 'no error';
alter("resync => '$_'") foreach 'same', 'replica.moved';
synced();
$pairs[0][1] = 'public.same';
$pairs[4] = [ 'public.same', 'replica.moved' ];
change(5);
same('two have changed places');

# --- a dump
$replica->safe_psql('postgres', 'CREATE DATABASE restored');
my $dump = $replica->basedir . '/dump.sql';
$replica->command_ok([ 'pg_dump', '-f', $dump, $replica->connstr('postgres') ], 'pg_dump');
$replica->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $replica->connstr('restored'), '-f', $dump ], 'restored');
my $tables = "SELECT tables FROM rose.stat_subscription WHERE subname = 's'";
is($replica->safe_psql('restored', $tables), down($tables), 'a dump has the mapping');
is(down("SELECT count(*) FROM pg_foreign_server s, pg_options_to_table(srvoptions) WHERE srvname = 's' AND option_name = 'tables'"), 1, 'an option of its server');
down("SELECT rose.drop_subscription('s')");
is(down("SELECT count(*) FROM rose.subscription_options"), 0, 'dropped, with its mapping');

done_testing();
