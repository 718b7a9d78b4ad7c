# Copies of the files: pg_basebackup, a standby, its promotion; and unlogged
# tables after a crash.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

# wal_consistency_checking: the standby compares each page it replays.
my $primary = rose_node('primary', 'checkpoint_timeout = 1h', 'wal_consistency_checking = generic');
my @tables = qw(spilled fresh keyless);

$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE spilled (id int PRIMARY KEY, v text) USING rose;
INSERT INTO spilled SELECT i, 'row ' || i FROM generate_series(1, 20000) i;
SELECT rose.spill('spilled');
UPDATE spilled SET v = 'changed' WHERE id % 10 = 0;
SELECT rose.merge('spilled');
UPDATE spilled SET v = 'again' WHERE id % 100 = 0;
CREATE TABLE fresh (id int PRIMARY KEY, v text) USING rose;
INSERT INTO fresh SELECT i, 'in memory' FROM generate_series(1, 1000) i;
CREATE TABLE keyless (v text) USING rose;
INSERT INTO keyless SELECT 'r' || i FROM generate_series(1, 1000) i;
CREATE UNLOGGED TABLE logless (id int PRIMARY KEY, v text) USING rose;
INSERT INTO logless SELECT i, 'gone after a crash' FROM generate_series(1, 1000) i;
SELECT rose.spill('logless');
INSERT INTO logless SELECT i, 'gone as well' FROM generate_series(1001, 2000) i;
SQL

sub same_as_primary
{
	my ($node, $what) = @_;

	is(table_hash($node, $_), table_hash($primary, $_), "$what: $_ has the same rows")
	  for @tables;
	return if $ENV{ROSE_STANDIN};
	is($node->safe_psql('postgres', "SELECT count(*) FROM rose.check('$_')"), '0', "$what: $_ is sound")
	  for @tables;
	return;
}

# pg_basebackup while a session writes, and a server on the copy.
my $writer = $primary->background_psql('postgres');
$writer->query_safe(q{BEGIN; INSERT INTO fresh SELECT i, 'not committed' FROM generate_series(2001, 2100) i});
$primary->backup('base');
$writer->query_safe('ROLLBACK');
$writer->quit;

my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($primary, 'base');
$copy->start;
same_as_primary($copy, 'base backup');
is($copy->safe_psql('postgres', 'SELECT count(*) FROM logless'), '0', 'base backup: the unlogged table is empty');
$copy->safe_psql('postgres', q{INSERT INTO fresh VALUES (5000, 'of the copy'); INSERT INTO logless VALUES (1, 'x')});
is($copy->safe_psql('postgres', q{SELECT v FROM fresh WHERE id = 5000}), 'of the copy', 'base backup: can be written');
$copy->stop;

# A standby, which cannot read rose tables yet, and says so.
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', <<'SQL');
INSERT INTO fresh SELECT i, 'streamed' FROM generate_series(3001, 4000) i;
DELETE FROM fresh WHERE id <= 100;
DO $$ BEGIN FOR i IN 1..500 LOOP UPDATE fresh SET v = repeat('x', i % 90) WHERE id = 200 + i; END LOOP; END $$;
SELECT rose.spill('fresh');
SELECT rose.merge('fresh');
UPDATE fresh SET v = 'streamed late' WHERE id BETWEEN 3001 AND 3100;
CREATE TABLE made_late (id int PRIMARY KEY, v text) USING rose;
INSERT INTO made_late SELECT i, 'late' FROM generate_series(1, 300) i;
CREATE TABLE beside (id int PRIMARY KEY);
INSERT INTO beside VALUES (1);
SQL
push @tables, 'made_late';
$primary->wait_for_catchup($standby);

unless ($ENV{ROSE_STANDIN})
{
	foreach my $sql ('SELECT count(*) FROM fresh', 'SELECT * FROM spilled WHERE id = 1', "SELECT * FROM rose.check('fresh')")
	{
		my ($status, $out, $err) = $standby->psql('postgres', $sql);

		isnt($status, 0, "standby: fails: $sql");
		like($err, qr/ERROR:  cannot read rose table "\w+" on a standby server yet/, 'standby: says why');
		like($err, qr/HINT:  /, 'standby: and what to do');
	}
}
is($standby->safe_psql('postgres', 'SELECT count(*) FROM beside'), '1', 'standby: heap tables work');
unless ($ENV{ROSE_STANDIN})
{
	is($standby->safe_psql('postgres', "SELECT jsonb_strip_nulls(to_jsonb(v) - ARRAY['relid', 'schemaname', 'relname']) FROM rose.$_ v WHERE relid = 'fresh'::regclass"), '{}',
		"standby: rose.$_ says that it does not know")
	  foreach qw(stat_components stat_space stat_merge_progress);
}

$standby->promote;
same_as_primary($standby, 'promoted');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM logless'), '0', 'promoted: the unlogged table is empty');
$standby->safe_psql('postgres', <<'SQL');
UPDATE spilled SET v = 'after promotion' WHERE id <= 500;
INSERT INTO fresh SELECT i, 'after promotion' FROM generate_series(9001, 9100) i;
SELECT rose.spill('fresh');
SELECT rose.merge('spilled');
SQL
is($standby->safe_psql('postgres', q{SELECT count(*) FROM spilled WHERE v = 'after promotion'}), '500', 'promoted: can be written');
crash_and_restart($standby);
is($standby->safe_psql('postgres', q{SELECT count(*) FROM fresh WHERE v = 'after promotion'}), '100', 'promoted: a crash loses nothing');
$standby->stop;

# An unlogged table is empty after a crash, and whole after a clean restart.
my $kept = table_hash($primary, 'logless');
$primary->restart;
is(table_hash($primary, 'logless'), $kept, 'unlogged: survives a clean restart');
is($primary->safe_psql('postgres', q{SELECT v FROM logless WHERE id = 1500}), 'gone as well', 'unlogged: also what was in memory');
crash_and_restart($primary);
is($primary->safe_psql('postgres', 'SELECT count(*) FROM logless'), '0', 'unlogged: empty after a crash');
is($primary->safe_psql('postgres', 'SELECT count(fresh) FROM fresh'), '1900', 'unlogged: others lost nothing');

# Its key is unusable for whoever would take the index for a real btree.
unless ($ENV{ROSE_STANDIN})
{
	# the metapage alone, whose root, behind magic and version, is the block behind it
	$primary->safe_psql('postgres', 'CHECKPOINT');
	is( $primary->safe_psql('postgres', q{SELECT encode(substr(f, 33, 4), 'hex'), length(f) FROM pg_read_binary_file(pg_relation_filepath('logless_pkey')) f}),
		unpack('H*', pack('L', 1)) . '|8192', 'unlogged: its index is poisoned again');
	if ($primary->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'}))
	{
		$primary->safe_psql('postgres', 'CREATE EXTENSION amcheck');
		foreach my $zero ('off', 'on')
		{
			my ($refused, undef, $why) = $primary->psql('postgres', "SET zero_damaged_pages = $zero; SELECT bt_index_check('logless_pkey')");

			isnt($refused, 0, "unlogged: who reads it as a btree meets an error, zero_damaged_pages = $zero");
			like($why, qr/blocks? 1\b/, 'unlogged: at its root');
		}
	}
}
$primary->safe_psql('postgres', q{INSERT INTO logless SELECT i, 'new' FROM generate_series(1, 50) i});
my ($status, $out, $err) = $primary->psql('postgres', 'INSERT INTO logless VALUES (50)');
like($err, qr/duplicate key value violates unique constraint "logless_pkey"/, 'unlogged: and its key is enforced');
is($primary->safe_psql('postgres', 'SELECT count(*) FROM logless WHERE id > 25'), '25', 'unlogged: in use again');

$primary->stop;
done_testing();
