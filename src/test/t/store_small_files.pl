
# The start of a file has regions of one block, so that a table of ten rows takes little more than heap. Tables grow
# past them and come back, with crashes in between; and files of other format versions are refused.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no files of its own' if $ENV{ROSE_STANDIN};

my $block = 8192;
my $small = 64;		# regions of one block, then comes a map page
my $node = rose_node('small_files', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off', 'max_prepared_transactions = 2');

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub blocks { return sql("SELECT pg_relation_size('$_[0]')") / $block }
sub all_blocks { return sql("SELECT pg_total_relation_size('$_[0]')") / $block }
sub problems { return sql("SELECT count(*) FROM rose.check('$_[0]')") }

# --- ten rows
sql('CREATE TABLE beside (id int PRIMARY KEY, v int, t text)');
sql('CREATE TABLE ten (id int PRIMARY KEY, v int, t text) USING rose');
is(blocks('ten'), 1, 'an empty table is a block');
sql("INSERT INTO $_ SELECT g, g, 'row ' || g FROM generate_series(1, 10) g") foreach qw(ten beside);
is(blocks('ten'), 2, 'ten rows in memory are a block of tail log more');
my $rows = sql('SELECT string_agg(t::text, $$ $$ ORDER BY id) FROM ten t');
crash_and_restart($node);
is(sql('SELECT string_agg(t::text, $$ $$ ORDER BY id) FROM ten t'), $rows, 'and are there after a crash');
is(all_blocks('ten'), all_blocks('beside') - 1, 'with the key, which is a block, a page less than heap');
sql("SELECT rose.spill('ten')");
is(blocks('ten'), 3, 'in a run they take a block, and the tail log\'s is free');
is(all_blocks('ten'), all_blocks('beside'), 'with the key no more than heap');
is(sql('SELECT string_agg(t::text, $$ $$ ORDER BY id) FROM ten t'), $rows, 'the rows are the same');
is(sql('SELECT count(*) FROM generate_series(-5, 20) g (id) JOIN ten USING (id)'), 10, 'a run without a filter is searched');
is(problems('ten'), 0, 'rose.check');
crash_and_restart($node);
is(sql('SELECT string_agg(t::text, $$ $$ ORDER BY id) FROM ten t'), $rows, 'a crash after the spill');

# what is free is used again
foreach (1 .. 30)
{
	sql("UPDATE ten SET v = v + 1; SELECT rose.spill('ten'); SELECT rose.merge('ten')");
}
cmp_ok(blocks('ten'), '<=', 12, 'thirty spills and merges later it is small still');
is(sql('SELECT sum(v) FROM ten'), 55 + 300, 'and has the changes');
is(problems('ten'), 0, 'rose.check');

# --- what the blocks are used for adds up, on both sides of the first map page
sub adds_up
{
	return sql("SELECT file_bytes - c2_bytes - c1_bytes - run_bytes - tail_log_bytes - building_bytes - replaced_bytes - free_bytes FROM rose.space('$_[0]')") / $block;
}
is(adds_up('ten'), 1, 'a small file has a metapage beside its regions');

# --- growth over the end of the small regions, by tail log, spills and loads
my $seed = seed_random('GROW_SEED');
sql('CREATE TABLE grow (id int PRIMARY KEY, t text) USING rose');
sql('CREATE TABLE twin (id int PRIMARY KEY, t text)');
foreach my $round (1 .. 40)
{
	my $n = (1, 10, 100, 1000)[ int(rand(4)) ];
	my $from = int(rand(20000));
	my $how = int(rand(5));
	my $length = (5, 40, 300)[ int(rand(3)) ];
	my $values = "SELECT g, repeat(md5((g * $round)::text), 1 + $length / 32) FROM generate_series($from, $from + $n) g";

	foreach my $table (qw(grow twin))
	{
		sql("INSERT INTO $table $values ON CONFLICT (id) DO UPDATE SET t = EXCLUDED.t") if $how < 4;
		sql("DELETE FROM $table WHERE id BETWEEN $from AND $from + $n * 3") if $how == 4;
	}
	sql("SELECT rose.spill('grow')") if rand() < 0.4;
	sql("SELECT rose.merge('grow')") if rand() < 0.2;
	sql('VACUUM grow') if rand() < 0.1;
	crash_and_restart($node) if rand() < 0.1;
	next if $round % 8;
	my $differ = sql('SELECT count(*) FROM grow FULL JOIN twin USING (id) WHERE grow.t IS DISTINCT FROM twin.t');
	my $fixed = blocks('grow') > $small + 1 ? 2 : 1;
	is($differ . '|' . problems('grow'), '0|0', "round $round, GROW_SEED=$seed: " . blocks('grow') . ' blocks');
	cmp_ok(adds_up('grow'), '<=', $fixed + 8, "round $round: its blocks add up") if blocks('grow') > $small + 1;
	is(adds_up('grow'), $fixed, "round $round: its blocks add up") if blocks('grow') <= $small + 1;
}
cmp_ok(blocks('grow'), '>', $small + 1, 'the file has grown past the small regions');

# and back
sql('DELETE FROM grow WHERE id > 10; DELETE FROM twin WHERE id > 10');
sql("SELECT rose.spill('grow'); SELECT rose.merge('grow')");
sql('VACUUM grow');
cmp_ok(blocks('grow'), '<=', 8, 'VACUUM makes it small again');
is(sql('SELECT count(*) FROM grow FULL JOIN twin USING (id) WHERE grow.t IS DISTINCT FROM twin.t'), 0, 'with its rows');
is(problems('grow'), 0, 'rose.check');
crash_and_restart($node);
is(sql('SELECT count(*) FROM grow FULL JOIN twin USING (id) WHERE grow.t IS DISTINCT FROM twin.t'), 0, 'also after a crash');
sql("INSERT INTO grow SELECT g, repeat('x', 300) FROM generate_series(1000, 5000) g");
is(problems('grow'), 0, 'and it grows again');

# --- an append of many pages at a time finds room whatever is free where
sql('CREATE TABLE wide (id int PRIMARY KEY, t text) USING rose');
foreach my $i (1 .. 6)
{
	sql("INSERT INTO wide VALUES ($i, repeat('a', 10)); SELECT rose.spill('wide')");
	sql("INSERT INTO wide SELECT $i * 100 + g, (SELECT string_agg(md5((random() * h)::text), '') FROM generate_series(1, 3000) h) FROM generate_series(1, 3) g");
	sql("SELECT rose.merge('wide')") if $i % 2;
}
is(sql('SELECT count(*), sum(length(t)) FROM wide'), '24|' . (6 * 10 + 18 * 96000), 'rows of a hundred kilobytes');
is(problems('wide'), 0, 'rose.check');

# --- a file of another format version
my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('ten')");
sql('CHECKPOINT');
$node->stop;
without_checksums($node);
open my $file, '+<:raw', $path or die "$path: $!";
sysseek($file, 24 + 4, 0);
sysread($file, my $version, 4);
sysseek($file, 24 + 4, 0);
syswrite($file, pack('V', unpack('V', $version) - 1));
close $file;
$node->start;
my ($rc, undef, $err) = $node->psql('postgres', 'SELECT * FROM ten');
isnt($rc, 0, 'a file of an older version is refused');
like($err, qr/format version 3, but this server's rose library supports version 4.*HINT:/s, 'with both versions and a hint');
$node->stop;
done_testing();
