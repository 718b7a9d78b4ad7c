
# rose.check sees what is wrong with a table's manifest. Nothing but a bug makes such manifests,
# so they are made here in the file of a stopped server: each component is sound, but
# stands in the wrong place, or has lost the wrong versions.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no manifest' if $ENV{ROSE_STANDIN};

my $node = rose_node(
	'check', "rose.debug_piece_size = '8kB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0',
	'autovacuum = off', 'ignore_checksum_failure = on');

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub check { return sql("SELECT msg FROM rose.check('$_[0]')") }
sub kinds { return sql("SELECT string_agg(kind, ' ') FROM rose.components('$_[0]')") }

# The metapage (src/store/rose_store_format.h): where entry n of the manifest is, and its size.
sub entry_at { return 24 + 1088 + 96 * $_[0] }
use constant ENTRY_SIZE => 96;
use constant LEVEL => 4;
use constant FIRST_ORDINAL => 88;

# Change the metapage of a table; edit gets a reference to it.
sub change_metapage
{
	my ($table, $edit) = @_;
	my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$table')");
	my $page;

	$node->stop;
	open my $file, '+<:raw', $path or die "$path: $!";
	sysread($file, $page, 8192) == 8192 or die "$path: $!";
	$edit->(\$page);
	sysseek($file, 0, 0);
	syswrite($file, $page) == 8192 or die "$path: $!";
	close $file;
	$node->start;
	return;
}

sub swap_entries
{
	my ($table, $i, $j) = @_;

	change_metapage(
		$table,
		sub {
			my ($page) = @_;
			my $entry = substr($$page, entry_at($i), ENTRY_SIZE, substr($$page, entry_at($j), ENTRY_SIZE));
			substr($$page, entry_at($j), ENTRY_SIZE, $entry);
		});
	return;
}

sub disorder
{
	my ($n) = @_;

	return qr/^component \d+ stands before component \d+, but $n of its versions are not newer than those of the same keys there$/;
}

# ---- order ----

sql("CREATE TABLE $_ (id int PRIMARY KEY, v int) USING rose") foreach qw(numbered forgotten pieces moved);
# the newer run has other versions of half of the rows
sql('INSERT INTO numbered SELECT g, 0 FROM generate_series(1, 1000) g');
sql("SELECT rose.spill('numbered')");
sql('UPDATE numbered SET v = 1 WHERE id % 2 = 0');
sql('DELETE FROM numbered WHERE id = 10');
sql("SELECT rose.spill('numbered')");
is(kinds('numbered'), 'run run', 'two runs');
is(check('numbered'), '', 'in the right order');
swap_entries('numbered', 0, 1);
is(sql('SELECT sum(v) FROM numbered'), 0, 'in the wrong order the newer versions are hidden');
like(check('numbered'), disorder(500), 'which is reported');
swap_entries('numbered', 0, 1);
is(check('numbered'), '', 'in the right order again');
is(sql('SELECT count(*), sum(v) FROM numbered'), '999|499', 'and readable');

# The forgotten versions are in C2, whose first piece is made a run: as such it may stand in front.
sql('INSERT INTO forgotten SELECT g, 0 FROM generate_series(1, 1000) g');
sql("SELECT rose.merge('forgotten')");
sql("UPDATE forgotten SET v = 1 WHERE id % 2 = 0");
sql("SELECT rose.spill('forgotten')");
change_metapage('forgotten', sub { substr(${ $_[0] }, entry_at(1) + LEVEL, 1, "\0") });
like(sql("SELECT string_agg(kind || ' ' || (max_seq = 1), ' ') FROM rose.components('forgotten')"), qr/^run false run true/,
	'the older run is forgotten');
is(check('forgotten'), '', 'forgotten versions in the oldest run');
swap_entries('forgotten', 0, 1);
like(check('forgotten'), disorder('\d+'), 'forgotten versions before others');

# ---- pieces ----

sql('INSERT INTO pieces SELECT g, hashint4(g) FROM generate_series(1, 20000) g');
sql("SELECT rose.merge('pieces')") for 1 .. 2;
like(kinds('pieces'), qr/^C2 C2/, 'C2 has pieces');
is(check('pieces'), '', 'in the right order');
swap_entries('pieces', 0, 1);
like(check('pieces'), qr/^component \d+ does not begin behind component \d+$/, 'pieces in the wrong order');
swap_entries('pieces', 0, 1);
is(check('pieces'), '', 'in the right order again');

# ---- what has moved ----

sql('INSERT INTO moved SELECT g, 0 FROM generate_series(1, 100) g');
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql('UPDATE moved SET v = 1');
sql("SELECT rose.spill('moved')");
$reader->query_safe('COMMIT');
$reader->quit;
is(sql("SELECT rows FROM rose.components('moved')"), 200, 'two versions of each row');
foreach my $ordinal (2, 1)
{
	change_metapage('moved', sub { substr(${ $_[0] }, entry_at(0) + FIRST_ORDINAL, 8, pack('Q', $ordinal)) });
	like(check('moved'), $ordinal == 2 ? qr/^$/ : qr/^component \d+: the key of row 1 has moved in part$/,
		"$ordinal versions have moved");
}

$node->stop;
done_testing();
