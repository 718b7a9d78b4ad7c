# A table that is in the order of another version of a collation, and whoever comes to it unasked: the maintenance worker,
# autovacuum, a subscription. Each says so once, and goes on with other tables.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has no order of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $node = rose_node('resort_background', "rose.spill_interval = '200ms'", 'autovacuum = on', 'autovacuum_naptime = 1', 'autovacuum_analyze_threshold = 1',
	'autovacuum_vacuum_threshold = 1', "wal_retrieve_retry_interval = '200ms'", "rose.batch_interval = '50ms'");
my $icu_locale = icu_locale($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }

sub restart_with
{
	my ($locale, @tables) = @_;
	my @files = map { sql("SELECT pg_relation_filepath('$_')") } @tables;

	sql("UPDATE pg_collation SET $icu_locale = '$locale' WHERE collname = 'changing'");
	forget_collations($node, @files);
	return;
}

sub said_since { my ($from, $pattern) = @_; return scalar(() = slurp_file($node->logfile, $from) =~ /$pattern/g) }

my $message = qr/is sorted by other versions of collations than the server has/;

up('CREATE TABLE fed (k text PRIMARY KEY, v int); CREATE TABLE beside (k int PRIMARY KEY, v int); CREATE PUBLICATION p FOR TABLE fed, beside');
sql(<<'SQL');
CREATE COLLATION changing (PROVIDER = icu, LOCALE = 'en-US');
CREATE TABLE fed (k text COLLATE changing PRIMARY KEY, v int) USING rose;
CREATE TABLE beside (k int PRIMARY KEY, v int) USING rose;
CREATE TABLE own (k text COLLATE changing PRIMARY KEY, v int) USING rose;
INSERT INTO own SELECT 'k' || g, g FROM generate_series(1, 1000) g;
SELECT rose.merge('own');
CREATE TABLE busy (id int PRIMARY KEY, v int) USING rose;
SQL
up("INSERT INTO fed SELECT 'k' || g, g FROM generate_series(1, 1000) g; INSERT INTO beside SELECT g, g FROM generate_series(1, 1000) g");
subscribe($upstream, $node, undef, q{on_error => 'pause'});
up("UPDATE fed SET v = v + 1 WHERE v < 100; DELETE FROM fed WHERE v = 500");
wait_for_apply($upstream, $node);
sql("SELECT rose.spill('fed')");
# segments of the tail log, more than the worker likes
sql("ALTER SYSTEM SET rose.max_merge_workers = 0; ALTER SYSTEM SET autovacuum = off");
$node->restart;
foreach (1 .. 18)
{
	sql("INSERT INTO own VALUES ('m$_', $_)");
	crash_and_restart($node);
}
sql("ALTER SYSTEM RESET rose.max_merge_workers; ALTER SYSTEM RESET autovacuum");
my $from = -s $node->logfile;
restart_with('en-US-u-kn-true', qw(fed own));

# The maintenance worker comes to all tables, and works for those that it can work for.
sql("INSERT INTO busy SELECT g, g FROM generate_series(1, 1000) g");
$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM rose.components('busy') c WHERE c.kind <> 'memtable')") or fail('busy is spilled');
$node->poll_query_until('postgres', "SELECT last_autoanalyze IS NOT NULL FROM pg_stat_all_tables WHERE relname = 'busy'") or fail('busy is analyzed');
usleep(3_000_000);
is(said_since($from, qr/WARNING:  table "own" $message/), 1, 'one message of the maintenance worker');
like(error_of($node, 'SELECT count(*) FROM own'), $message, 'refused');
is(said_since($from, qr/ERROR:.*$message/), 1, 'and no error of anybody else');

# The subscription goes on without the table.
up("INSERT INTO fed VALUES ('new', 0); INSERT INTO beside VALUES (1001, 0)");
$node->poll_query_until('postgres', "SELECT count(*) = 1001 FROM beside") or fail('the other table goes on');
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM rose.stat_subscription_tables WHERE state IN ('paused', 'error')") or fail('paused');
like(sql("SELECT last_error FROM rose.stat_subscription_tables WHERE state IN ('paused', 'error')"), qr/table "fed" $message.*REINDEX TABLE public\.fed/s, 'it says why the table is paused');
is(said_since($from, qr/ERROR:.*table "fed" $message/), 1, 'once');

# Both are mended. A paused table has missed changes, so it is copied anew.
sql('REINDEX TABLE own; REINDEX TABLE fed');
is(sql('SELECT count(*), sum(v) FROM own'), '1018|500671', 'nothing is missing');
is(sql('SELECT count(*) FROM fed'), 999, 'as far as it had come');
is(sql("SELECT count(*) FROM rose.check('$_')"), 0, "$_: rose.check") foreach qw(own fed);
sql("SELECT rose.alter_subscription('s', resync => 'fed')");
sql("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
up("INSERT INTO fed VALUES ('newer', 0)");
wait_for_apply($upstream, $node);
is(sql("SELECT count(*), count(*) FILTER (WHERE k LIKE 'new%') FROM fed"), '1001|2', 'fed again');

# A fed table that is mended before a change comes goes on as if nothing had been.
sql("SELECT rose.spill('fed')");
restart_with('en-US', 'fed');
sql('REINDEX TABLE fed');
up("INSERT INTO fed VALUES ('newest', 0); DELETE FROM fed WHERE k = 'k77'");
wait_for_apply($upstream, $node);
is(sql("SELECT count(*), count(*) FILTER (WHERE k LIKE 'new%') FROM fed"), '1001|3', 'fed on');
is(sql("SELECT count(*) FROM rose.check('fed')"), 0, 'rose.check');
is(said_since($from, qr/TRAP:|PANIC:/), 0, 'nothing died');

done_testing();
