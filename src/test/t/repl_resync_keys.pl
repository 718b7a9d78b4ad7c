
# Tables that foreign keys reference, or that reference others, are copied again one by one, and truncated with the
# upstream's tables, whatever else is in the subscription.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no resync' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'");
my @tables = qw(parent child selfish part_1 part_2);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub why { return down('SELECT state, last_error FROM rose.stat_subscription') . "\n" . down('SELECT relid::regclass, state, last_error FROM rose.stat_subscription_tables') }

sub all_same
{
	my ($name) = @_;

	down("SELECT rose.wait_for_sync('s', $timeout)");
	wait_for_apply($upstream, $replica);
	is(table_hash($replica, $_), table_hash($upstream, $_), "$name: $_") foreach @tables;
	return;
}

my $id = 100;
sub change
{
	$id++;
	up("BEGIN; INSERT INTO parent VALUES ($id, 'x'); INSERT INTO child VALUES ($id, $id); INSERT INTO selfish VALUES ($id, $id); INSERT INTO part VALUES ($id, $id); DELETE FROM child WHERE id = $id - 3; COMMIT");
	return;
}

my $schema = 'CREATE TABLE parent (id int PRIMARY KEY, v text)%1$s; CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)%1$s;'
  . ' CREATE TABLE selfish (id int PRIMARY KEY, other int REFERENCES selfish)%1$s;'
  . ' CREATE TABLE part (id int PRIMARY KEY, parent int REFERENCES parent) PARTITION BY HASH (id);'
  . ' CREATE TABLE part_1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0)%1$s; CREATE TABLE part_2 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1)%1$s;';
up(sprintf $schema, '');
up("INSERT INTO parent SELECT g, 'old' FROM generate_series(1, 50) g; INSERT INTO child SELECT g, g FROM generate_series(1, 50) g; INSERT INTO selfish SELECT g, 1 FROM generate_series(1, 50) g;"
	. ' INSERT INTO part SELECT g, g FROM generate_series(1, 50) g; CREATE PUBLICATION p FOR TABLE ' . join ', ', @tables);
down(sprintf $schema, ' USING rose');
subscribe($upstream, $replica);
change();
all_same('copied');

# --- each by itself
foreach my $table (@tables)
{
	change();
	down("SELECT rose.alter_subscription('s', resync => '$table')");
	change();
	all_same("resync of $table");
}
crash_and_restart($replica);
all_same('after a crash');
is(down("SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND NOT convalidated"), 0, 'the keys are as they were');

# --- one that is taken back, or breaks: the rows of before are there
my $before = table_hash($replica, 'parent');
down("BEGIN; SELECT rose.alter_subscription('s', resync => 'parent'); ROLLBACK");
is(table_hash($replica, 'parent'), $before, 'taken back');
change();
all_same('and it goes on');

# --- in a table that is referenced by one of nobody's
down('CREATE TABLE local (id int PRIMARY KEY, parent int REFERENCES parent) USING heap; INSERT INTO local VALUES (1, 1)');
down("SELECT rose.alter_subscription('s', resync => 'parent')");
all_same('referenced by a local table');
is(down('SELECT count(*) FROM local'), 1, 'which keeps its rows');
down("SELECT rose.alter_subscription('s', accept => 'resync')");
all_same('all of them');

# --- the upstream truncates all of them; not all of them are tables of the subscription
up("TRUNCATE parent, child, part; INSERT INTO parent VALUES (1, 'new'); INSERT INTO child VALUES (1, 1)");
all_same('TRUNCATE');
up('ALTER PUBLICATION p DROP TABLE child');
down("SELECT rose.alter_subscription('s', refresh => true)");
change();
@tables = grep { $_ ne 'child' } @tables;
all_same('without the child');
up("BEGIN; TRUNCATE parent, child, part; INSERT INTO parent VALUES (1, 'newer'); COMMIT");
all_same('TRUNCATE of a table that one of nobody\'s references');
cmp_ok(down('SELECT count(*) FROM child'), '>', 0, 'which keeps its rows');

# --- what an ordinary TRUNCATE does is as before
like(error_of($replica, 'TRUNCATE parent'), qr/cannot truncate/, 'TRUNCATE is refused');

# --- decoding is told
is(down("SELECT 1 FROM pg_create_logical_replication_slot('d', 'test_decoding')"), 1, 'a slot here') if $replica->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions") > 0
  && -e $replica->config_data('--pkglibdir') . '/test_decoding.so';
if (down("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'd'"))
{
	down("SELECT rose.alter_subscription('s', resync => 'parent')");
	all_same('decoded');
	like(down("SELECT string_agg(data, ' ') FROM pg_logical_slot_get_changes('d', NULL, NULL)"), qr/table public\.parent: TRUNCATE/, 'of a resync');
	down("SELECT pg_drop_replication_slot('d')");
}

$replica->stop;
$upstream->stop;
done_testing();
