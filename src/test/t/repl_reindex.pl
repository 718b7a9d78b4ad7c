# REINDEX of a fed table that needs the whole table, when it has the index locked already, beside who writes an epoch:
# neither waits for the other for ever, and nobody has to be cancelled for a deadlock.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no order of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $node = rose_node('replica', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'", "rose.batch_interval = '50ms'",
	"deadlock_timeout = '100ms'");
stop_points_create($node);
my $icu_locale = icu_locale($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub until_true { $node->poll_query_until('postgres', $_[0]) or die "not within the time: $_[0]"; return }

up('CREATE TABLE fed (k text PRIMARY KEY, v int); CREATE TABLE beside (k int PRIMARY KEY, v int); CREATE PUBLICATION p FOR TABLE fed, beside');
sql(q{CREATE COLLATION changing (PROVIDER = icu, LOCALE = 'en-US');
CREATE TABLE fed (k text COLLATE changing PRIMARY KEY, v int) USING rose; CREATE INDEX ON fed (v);
CREATE TABLE beside (k int PRIMARY KEY, v int) USING rose});
up("INSERT INTO fed SELECT 'k' || g, g FROM generate_series(1, 1000) g");
subscribe($upstream, $node);

my $locale = 'en-US';

foreach my $who (qw(worker spiller))
{
	sql("ALTER SYSTEM SET rose.background_spill_size = " . ($who eq 'worker' ? "'1GB'" : '0'));
	sql("SELECT rose.spill('fed')");		# no change of it is to come again
	my $file = sql("SELECT pg_relation_filepath('fed')");
	$locale = $locale eq 'en-US' ? 'en-US-u-kn-true' : 'en-US';
	sql("UPDATE pg_collation SET $icu_locale = '$locale' WHERE collname = 'changing'");
	forget_collations($node, $file);

	my $from = -s $node->logfile;
	my ($steerer, $reindexer, $spilling) = map { RoseTest::Session->new($node) } 1 .. 3;
	$steerer->run("SELECT stop_at('resort-needed', 'wait')");
	$reindexer->start("SET statement_timeout = '60s'; REINDEX TABLE fed");
	wait_for_stop($node);
	up("INSERT INTO beside SELECT g, 0 FROM generate_series(1, 100) g ON CONFLICT (k) DO UPDATE SET v = beside.v + 1");
	wait_for_apply($upstream, $node);
	is(eval { $spilling->run("SET statement_timeout = '60s'; SELECT rose.spill('beside')") }, '', "$who: an epoch does not wait for it");
	is(sql("SELECT count(*) FROM pg_locks WHERE relation = 'fed'::regclass AND mode = 'AccessShareLock'"), 0, "$who: nor for the index with a lock of the table");
	$steerer->run("SELECT go_on('resort-needed')");
	is(eval { $reindexer->finish }, '', "$who: REINDEX ends");
	$_->end foreach $steerer, $reindexer, $spilling;
	isnt(sql("SELECT pg_relation_filepath('fed')"), $file, "$who: it was another order");
	unlike(slurp_file($node->logfile, $from), qr/deadlock detected/, "$who: and nobody was cancelled");

	# the table goes on
	up("INSERT INTO fed VALUES ('$who', 0); UPDATE fed SET v = v + 1 WHERE k < 'k3'");
	wait_for_apply($upstream, $node);
	is(table_hash($node, $_), table_hash($upstream, $_), "$who: $_") foreach qw(fed beside);
	is(sql("SELECT count(*) FROM rose.check('$_')"), 0, "$who: rose.check of $_") foreach qw(fed beside);
}

done_testing();
