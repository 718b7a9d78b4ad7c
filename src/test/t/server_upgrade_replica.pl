
# pg_upgrade of a replica and of its upstream: subscriptions, the states of their tables and their
# positions go over, and replication goes on where it was, with nothing lost or doubled.
#
# NEW_PG_CONFIG names another release to upgrade to; see the README.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use RoseUpgrade;
use Test::More;

plan skip_all => 'the stand-in has no subscriptions of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my @settings = ("wal_retrieve_retry_interval = '100ms'", 'rose.max_subscriptions = 4', "rose.spill_interval = '1h'");
my @tables = qw(ints words pairs bare parts_1 parts_2);
my @catalogs = qw(subscription subscription_options subscription_seen subscription_rel subscription_new subscription_state);
my ($upstream, $replica);

my $servers = 'SELECT srvname, srvowner::regrole, ARRAY(SELECT unnest(srvoptions) ORDER BY 1) FROM pg_foreign_server';

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

sub are_same
{
	my ($what) = @_;

	wait_for_apply($upstream, $replica, undef, undef, 'ints');
	is(table_hash($replica, $_), table_hash($upstream, $_), "$what: $_") foreach @tables;
	is(down("SELECT string_agg(c.relname || ' ' || msg, ', ') FROM pg_class AS c, LATERAL rose.check(c.oid) WHERE relkind = 'r' AND relam = (SELECT oid FROM pg_am WHERE amname = 'rose')"),
		'', "$what: rose.check");
	return;
}

# The same changes to all tables, other ones each time.
sub change
{
	my ($n) = @_;
	my $from = $n * 1000;
	my $to = $from + 999;

	up("INSERT INTO ints SELECT g, g, 'i' || g FROM generate_series($from, $to) g; UPDATE ints SET v = -v WHERE id % 7 = $n; DELETE FROM ints WHERE id % 11 = $n");
	up("INSERT INTO words SELECT 'w' || g, g FROM generate_series($from, $to) g; UPDATE words SET k = k || 'x' WHERE v % 13 = $n");
	up("INSERT INTO pairs SELECT 'p' || g % 10, g, g FROM generate_series($from, $to) g; UPDATE pairs SET v = v + 1 WHERE k = 'p$n'");
	up("INSERT INTO bare SELECT g, 'b' || g FROM generate_series($from, $to) g");
	up("INSERT INTO parts SELECT g, g % 3 FROM generate_series($from, $to) g; UPDATE parts SET v = v + 10 WHERE id % 5 = $n");
	up("INSERT INTO broken VALUES ($from, $n)");
	return;
}

# All of what rose knows of subscriptions, and how a table is called that it names by its OID.
sub catalogs { return join "\n", map { down("SELECT * FROM rose.$_ ORDER BY 1, 2") } @catalogs }

sub create_tables
{
	my ($using, $parts) = @_;

	return "CREATE TABLE ints (id int PRIMARY KEY, v int, t text) $using;"
	  . "CREATE TABLE words (k text PRIMARY KEY, v int) $using;"
	  . "CREATE TABLE pairs (k text, n int, v int, PRIMARY KEY (k, n)) $using;"
	  . "CREATE TABLE bare (a int, b text) $using;"
	  . 'CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);'
	  . "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (2500) $using;"
	  . "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (2500) TO (1000000) $using;"
	  . "CREATE TABLE broken (id int PRIMARY KEY, v int) $using;";
}

foreach my $mode (qw(copy link))
{
	$upstream = upgrade_source("upstream_$mode", settings => \@settings);
	$replica = upgrade_source("old_$mode", settings => \@settings);
	my $new = upgrade_target("new_$mode", $replica, settings => \@settings);

	$upstream->start;
	$replica->start;
	rose_create($replica, 'postgres');
	up(create_tables(''));
	up('CREATE PUBLICATION p FOR TABLE ' . join(', ', 'ints', 'words', 'pairs', 'bare', 'parts', 'broken'));
	down(create_tables('USING rose'));
	change(0);
	subscribe($upstream, $replica, undef, q{on_error => 'pause'});
	change(1);
	are_same("$mode, before");
	down('SELECT rose.merge(\'words\'); SELECT rose.spill(\'pairs\')');

	# a paused table, and one that is new upstream
	down('ALTER TABLE broken ADD CHECK (v < 2) NOT VALID');
	change(2);
	up('CREATE TABLE novel (id int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE novel; INSERT INTO novel VALUES (1)');
	are_same("$mode, with a paused table");
	my $states = 'SELECT relid::text, state, error_code, remote_relid, error_lsn FROM rose.subscription_rel ORDER BY 1';
	like(down($states), qr/^broken\|paused/m, "$mode: a table is paused");
	down("SELECT rose.alter_subscription('s', enabled => false)");
	ok($replica->poll_query_until('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription'), "$mode: disabled");
	my $before = catalogs();
	my $server = down($servers);
	like($server, qr/^s\|/, "$mode: a server");
	my $last_error = down("SELECT last_error FROM rose.subscription_rel WHERE state IN ('paused', 'error')");
	$replica->stop;
	change(3);

	ok(upgrade($replica, $new, $mode), "pg_upgrade $mode of the replica to " . $new->pg_version) or next;
	$replica = $new;
	$replica->start;
	is(catalogs(), $before, "$mode: catalogs");
	is(down($servers), $server, "$mode: its server");
	like(($replica->psql('template1', 'DROP DATABASE postgres'))[2], qr/database "postgres" is being used by rose subscriptions/, "$mode: and its database is kept");
	is(down($states) =~ s/\|.*//gr, join("\n", sort @tables, 'broken'), "$mode: the tables are the same ones");
	down("SELECT rose.alter_subscription('s', enabled => true)");
	are_same("$mode, upgraded");
	is(down("SELECT last_error FROM rose.subscription_rel WHERE state IN ('paused', 'error')"), $last_error, "$mode: still paused, for the same reason");
	down("ALTER TABLE broken DROP CONSTRAINT broken_v_check");
	down("SELECT rose.alter_subscription('s', resync => 'broken')");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	is(table_hash($replica, 'broken'), table_hash($upstream, 'broken'), "$mode: copied again");
	down('CREATE TABLE novel (id int PRIMARY KEY) USING rose');
	down("SELECT rose.alter_subscription('s', refresh => true)");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	is(table_hash($replica, 'novel'), table_hash($upstream, 'novel'), "$mode: the new table");
	change(4);
	are_same("$mode, goes on");
	crash_and_restart($replica);
	change(5);
	are_same("$mode, after a crash");

	# An upstream that was upgraded is another cluster, whose slots may be gone.
	my $new_upstream = upgrade_target("new_upstream_$mode", $upstream, settings => \@settings);
	down("SELECT rose.alter_subscription('s', enabled => false)");
	ok($replica->poll_query_until('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription'), "$mode: disabled again");
	up("SELECT pg_drop_replication_slot('s')");
	$upstream->stop;
	ok(upgrade($upstream, $new_upstream, $mode), "pg_upgrade $mode of the upstream to " . $new_upstream->pg_version) or next;
	$upstream = $new_upstream;
	$upstream->start;
	change(6);
	down("SELECT rose.alter_subscription('s', enabled => true, conninfo => \$\$" . $upstream->connstr('postgres') . '$$)');
	ok($replica->poll_query_until('postgres', "SELECT state = 'blocked' FROM rose.stat_subscription"), "$mode: an upgraded upstream is another one");
	is(down('SELECT blocked_reason FROM rose.stat_subscription'), 'other_upstream', "$mode: which is said");
	down("SELECT rose.alter_subscription('s', accept => 'resync')");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	change(7);
	are_same("$mode, from the upgraded upstream");
	$replica->stop;
	$upstream->stop;
}

done_testing();
