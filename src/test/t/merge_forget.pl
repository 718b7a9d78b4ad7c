
# Merges forget the sequence numbers and transactions of rows that everybody sees:
# when, after which restarts, and how xmin behaves as the token of a row.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

# nobody else has looked at anything
my $node = rose_node('forget', 'max_prepared_transactions = 5', rose_conf("rose.debug_piece_size = '8kB'", 'rose.max_merge_workers = 0'));

sub sql { return $node->safe_psql('postgres', shift) }

# Do all components of the table have nothing but forgotten versions?
sub forgotten
{
	return sql("SELECT bool_and(min_seq = 1 AND max_seq = 1) FROM rose.stat_components WHERE relid = 't'::regclass");
}

# The greatest sequence number of a table: 1 if all are forgotten.
sub max_seq { return sql("SELECT max(max_seq) FROM rose.components('$_[0]')") }

sub tokens { return sql('SELECT string_agg(DISTINCT xmin::text, $$,$$) FROM t') }

sub is_sound
{
	my ($name, $rows, $sum) = @_;

	is(sql('SELECT count(*), sum(v) FROM t'), "$rows|$sum", "$name: content");
	is(sql("SELECT * FROM rose.check('t')"), '', "$name: rose.check");
	return;
}

sql('CREATE TABLE t (id int PRIMARY KEY, v bigint) USING rose');
sql('INSERT INTO t SELECT i, 1 FROM generate_series(1, 20000) i WHERE i % 2 = 0');
sql('INSERT INTO t SELECT i, 1 FROM generate_series(1, 20000) i WHERE i % 2 = 1');
my $newest = sql('SELECT max(xmin::text::bigint) FROM t');
sql("SELECT rose.merge('t')");
is(forgotten(), 't', 'a merge by hand forgets at once');
is(tokens(), $newest, 'xmin is the newest writer of all');
is_sound('merged', 20000, 20000);

# somebody who may have met rows in memory
my $reader = $node->background_psql('postgres');
sql('UPDATE t SET v = 2 WHERE id <= 1000');
$reader->query_safe('BEGIN; SELECT count(*) FROM t WHERE id = 1');
sql("SELECT rose.merge('t')");
is(forgotten(), 'f', 'not while a transaction runs that may have seen the rows in memory');
is($reader->query_safe('SELECT v FROM t WHERE id = 1'), '2', 'which goes on');
$reader->query_safe('COMMIT');
sql("SELECT rose.merge('t')");
is(forgotten(), 't', 'but afterwards, without anything else to do');

# somebody whose snapshot does not see them
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql('UPDATE t SET v = 3 WHERE id <= 1000');
sql("SELECT rose.spill('t')");
sql("SELECT rose.merge('t')");
is(forgotten(), 'f', 'not before a snapshot that does not see them');
is($reader->query_safe('SELECT sum(v) FROM t'), '21000', 'which sees the old rows');
$reader->query_safe('COMMIT');
sql('SELECT txid_current()');	# two versions of a row are merged: a later token is due
sql("SELECT rose.merge('t')");
is(forgotten(), 't', 'but afterwards');
is_sound('after readers', 20000, 22000);

# somebody who came when the rows were on disk is in nobody's way
sql('UPDATE t SET v = 4 WHERE id <= 1000');
sql("SELECT rose.spill('t')");
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(v) FROM t');
sql("SELECT rose.merge('t')");
is(forgotten(), 't', 'a reader that came later is not in the way');
is($reader->query_safe('SELECT sum(v) FROM t'), '23000', 'and sees the same');
$reader->query_safe('COMMIT');
$reader->quit;

# a prepared transaction is in progress, over a restart, too
$node->stop('fast');
$node->start;
$node->safe_psql('postgres', q{BEGIN; UPDATE t SET v = 5 WHERE id <= 10; PREPARE TRANSACTION 'p'});
sql('UPDATE t SET v = 5 WHERE id BETWEEN 11 AND 1000');
sql("SELECT rose.merge('t')");
is(forgotten(), 'f', 'a prepared transaction holds it up');
my $before = tokens();
crash_and_restart($node);
is(tokens(), $before, 'tokens outlive a crash');
sql("SELECT rose.merge('t')");
is(forgotten(), 'f', 'also after a crash');
sql(q{COMMIT PREPARED 'p'});
sql('SELECT txid_current()');	# the newer versions are by the older transaction: a later token is due
sql("SELECT rose.merge('t')");
is(forgotten(), 't', 'until it is committed');
is_sound('after a crash', 20000, 24000);
sql(q{INSERT INTO t VALUES (20001, 1)});
cmp_ok(sql("SELECT min_seq FROM rose.stat_components WHERE relid = 't'::regclass AND kind = 'memtable'"),
	'>', 22000, 'sequence numbers go on');

# Two versions of a row, the newer one by the older transaction: the token of the one must
# never be the token of the other.
sql('CREATE TABLE o (id int PRIMARY KEY, v int) USING rose');
sql('INSERT INTO o VALUES (1, 0)');
$reader = $node->background_psql('postgres');
foreach my $spill ('', 'o')
{
	$reader->query_safe('BEGIN; SELECT txid_current()');
	sql('UPDATE o SET v = v + 1');
	my $token = sql('SELECT xmin FROM o');
	sql("SELECT rose.spill('$spill')") if $spill;
	$reader->query_safe('UPDATE o SET v = v + 1; COMMIT');
	cmp_ok(sql('SELECT xmin FROM o'), '<', $token, 'the newer version is by an older transaction');
	foreach (1 .. 3)
	{
		sql("SELECT rose.merge('o')");
		isnt(sql('SELECT xmin FROM o'), $token, 'another token than before');
		sql('SELECT txid_current()') if $_ == 2;
	}
	is(max_seq('o'), 1, 'and forgotten');
	cmp_ok(sql('SELECT xmin FROM o'), '>', $token, 'with a greater token');
}

# The same of a table that VACUUM FULL copies before anything can be forgotten.
sql('CREATE TABLE f (id int PRIMARY KEY, v int) USING rose; INSERT INTO f VALUES (1, 0), (2, 0)');
$reader->query_safe('BEGIN; SELECT txid_current()');
sql('UPDATE f SET v = v + 1');
my $old_token = sql('SELECT xmin FROM f WHERE id = 1');
$reader->query_safe('UPDATE f SET v = v + 1 WHERE id = 1; COMMIT');
$reader->quit;
sql('VACUUM FULL f');
$node->restart;
sql('SELECT txid_current()') foreach 1 .. 2;
sql("SELECT rose.merge('f')");
is(max_seq('f'), 1, 'forgotten after VACUUM FULL');
isnt(sql('SELECT xmin FROM f WHERE id = 1'), $old_token, 'with another token than an older version had');

# VACUUM FULL forgets as a merge by hand does, and so does who comes after one that could not.
sql('CREATE TABLE v (id int PRIMARY KEY, v int) USING rose; INSERT INTO v SELECT g, 0 FROM generate_series(1, 1000) g');
sql('UPDATE v SET v = 1 WHERE id % 2 = 0');
sql('VACUUM FULL v');
is(max_seq('v'), 1, 'VACUUM FULL forgets');
$reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql('UPDATE v SET v = 2 WHERE id % 2 = 0');
sql('VACUUM FULL v');
cmp_ok(max_seq('v'), '>', 1, 'but not what a snapshot needs');
is($reader->query_safe('SELECT sum(v) FROM v'), '500', 'which sees the old rows');
$reader->query_safe('COMMIT');
$reader->quit;
sql('SELECT txid_current()');
sql("SELECT rose.merge('v')");
is(max_seq('v'), 1, 'then the next merge does');
is(sql('SELECT count(*), sum(v) FROM v'), '1000|1000', 'with the right rows');
is(sql("SELECT * FROM rose.check('v')"), '', 'rose.check after VACUUM FULL');

# CLUSTER in a transaction that has met the rows in memory before does not
sql('UPDATE v SET v = 3 WHERE id = 1');
sql('BEGIN; SELECT count(*) FROM v; CLUSTER v USING v_pkey; COMMIT');
cmp_ok(max_seq('v'), '>', 1, 'not in a transaction that has met the rows in memory');
sql("SELECT rose.merge('v')");
is(max_seq('v'), 1, 'but after it');

$node->stop;
done_testing();
