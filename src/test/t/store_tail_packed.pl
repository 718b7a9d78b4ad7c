
# The tail log of rows that are copied in: what they have in common takes next to no room in it, and so in the table's file, whatever the
# rows are like; and all of it is read back after a crash, in one go or in parts, with any layout, from whole and cut off appends.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no tail log' if $ENV{ROSE_STANDIN};

my $node = rose_node('packed', "rose.memtable_size = '64MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	'max_prepared_transactions = 10', 'restart_after_crash = on');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# What rows are like: columns, key, a row of number g, and how many.
my %kinds = (
	numbers => [ 'a int, b bigint, c timestamp, d int, e int, f bigint', 'a', "g, g * 1000003 % 1000000, timestamp '2026-01-01' + g * interval '1 min', g % 1000, 7, null", 40000 ],
	keyless => [ 'a int, b bigint, d int', '', 'g, g * 77, g % 5', 20000 ],
	texts => [ 'a int, t text, u text', 'a', "g, repeat('word ', (g % 20)::int), case when g % 3 = 0 then md5(g::text) end", 10000 ],
	noise => [ 'a int, t bytea', 'a', "g, decode(md5(g::text) || md5('a' || g) || md5('b' || g), 'hex')", 10000 ],
	large => [ 'a int, t text', 'a', "g, repeat(md5(g::text), case when g % 50 = 0 then 3000 else 20 end::int)", 600 ],
	text_key => [ 't text, v int', 't', "'key ' || g, (g % 9)::int", 20000 ]);
my @kinds = sort keys %kinds;

sub create
{
	my ($kind) = @_;
	my ($columns, $key) = @{ $kinds{$kind} };

	$key = ", PRIMARY KEY ($key)" if $key ne '';
	sql("DROP TABLE IF EXISTS ${_}_$kind; CREATE TABLE ${_}_$kind ($columns$key) USING " . ($_ eq 'h' ? 'heap' : 'rose')) foreach qw(h r);
	return;
}

# Rows of numbers from .. to, made once, copied into both; SQL before and behind each COPY.
my $file = $node->basedir . '/rows';
sub fill
{
	my ($kind, $from, $to, $before, $after) = @_;

	sql("COPY (SELECT $kinds{$kind}[2] FROM generate_series(${from}::bigint, $to) g) TO '$file'");
	sql(($before // '') . "COPY ${_}_$kind FROM '$file'; " . ($after // '')) foreach qw(h r);
	return;
}

sub compare
{
	my ($what, @of) = @_;

	foreach my $kind (@of)
	{
		is(table_hash($node, "r_$kind"), table_hash($node, "h_$kind"), "$what: $kind");
		is(sql("SELECT count(*) FROM rose.check('r_$kind')"), 0, "$what: rose.check of $kind");
	}
	return;
}

sub tail_bytes { return sql("SELECT tail_log_bytes FROM rose.stat_space WHERE relid = 'r_$_[0]'::regclass") }

# --- how much room it takes
foreach my $kind (@kinds)
{
	create($kind);
	fill($kind, 1, $kinds{$kind}[3]);
}
my %bytes = map { $_ => tail_bytes($_) } @kinds;
my %raw = map { $_ => sql("SELECT sum(8 + octet_length(h::text)) FROM h_$_ h") } @kinds;
note("$_: $bytes{$_} bytes of tail log for $raw{$_} bytes of text") foreach @kinds;
cmp_ok($bytes{$_}, '<', 0.5 * $raw{$_}, "rows of $_ are packed") foreach qw(numbers keyless texts text_key);
cmp_ok($bytes{$_}, '<', 1.2 * $raw{$_} + 300000, "rows of $_ take no more than they have") foreach @kinds;

# --- all of it comes back
crash_and_restart($node);
compare('after a crash', @kinds);

# --- in parts, each of which ends somewhere within what was packed together
my $control;
foreach my $kind (qw(numbers keyless texts))
{
	my $parts = 0;

	$node->restart;
	$control = RoseTest::Session->new($node);
	while ($parts < 60)
	{
		$control->run("SELECT stop_at('recover-part', '" . ($parts % 2 ? 'error' : 'terminate') . "', 'client')");
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT count(*) FROM r_$kind");
		last if $err eq '';
		$parts++;
	}
	cmp_ok($parts, '>', 1, "$kind is recovered in parts");
	$control->run('SELECT stop_clear()');
	$control->end;
	compare('in parts', $kind);
}

# --- cut off: the server dies in the middle of an append; what was copied before is there, and more can be copied
foreach my $case ([ 'tail-appending', 2 ], [ 'tail-writing', 0 ], [ 'tail-writing', 3 ], [ 'tail-written', 0 ], [ 'tail-written', 5 ])
{
	my ($point, $skip) = @$case;
	my ($from, $to) = (1000001, 1020000);

	sql("DELETE FROM ${_}_numbers WHERE a > 1000000") foreach qw(h r);
	$control = RoseTest::Session->new($node);
	my $writer = RoseTest::Session->new($node);
	sql("COPY (SELECT $kinds{numbers}[2] FROM generate_series(${from}::bigint, $to) g) TO '$file'");
	$control->run("SELECT stop_at('$point', 'wait', 'client', $skip)");
	$writer->start("COPY r_numbers FROM '$file'");
	wait_for_stop($node);
	# somebody else's commit takes to the disk what was logged so far
	sql("CREATE TABLE IF NOT EXISTS others (); DROP TABLE others");
	crash($node);
	$_->end foreach $control, $writer;
	RoseTest::poll_start($node);
	compare("cut off at $point after $skip", 'numbers');
	fill('numbers', $from, $to);
	compare("copied again", 'numbers');
}

# --- other columns, transactions that end in each way, and what is spilled in between
foreach my $kind (qw(numbers keyless texts))
{
	my $n = $kinds{$kind}[3];

	create($kind);
	fill($kind, 1, 500);
	fill($kind, 501, 900, 'BEGIN; SAVEPOINT a; ', 'ROLLBACK TO a; COMMIT;');
	fill($kind, 1001, 1500, 'BEGIN; ', 'ROLLBACK;');
	fill($kind, 2001, 2600, 'BEGIN; SAVEPOINT a; ', 'RELEASE a; COMMIT;');
	sql("ALTER TABLE ${_}_$kind ADD COLUMN more int") foreach qw(h r);
	$kinds{$kind}[2] .= ', case when g % 4 > 0 then g end';
	fill($kind, 3001, 4000);
	sql("COPY (SELECT $kinds{$kind}[2] FROM generate_series(5001::bigint, 5700) g) TO '$file'");
	sql("BEGIN; COPY h_$kind FROM '$file'; COPY r_$kind FROM '$file'; PREPARE TRANSACTION 'p_$kind'");
	sql("UPDATE ${_}_$kind SET more = 1 WHERE a % 7 = 0; DELETE FROM ${_}_$kind WHERE a % 11 = 0") foreach qw(h r);
}
sql("SELECT rose.spill('r_keyless')");
crash_and_restart($node);
compare('with transactions in progress', qw(numbers keyless texts));
sql("COMMIT PREPARED 'p_$_'") foreach qw(numbers texts);
sql("ROLLBACK PREPARED 'p_keyless'");
crash_and_restart($node);
compare('and when they have ended', qw(numbers keyless texts));
sql("SELECT rose.merge('r_$_')") foreach qw(numbers keyless texts);
compare('merged', qw(numbers keyless texts));

# --- no room for it in memory: it goes to runs at the start
fill('numbers', 10001, 50000);
sql("ALTER SYSTEM SET rose.memtable_size = '4MB'");
crash_and_restart($node);
compare('with less memory', 'numbers', 'text_key');

# --- the file's peak while a table is loaded: what is in memory only is a part of the file, but no large one
sql("ALTER SYSTEM SET rose.memtable_size = '64MB'");
$node->restart;
create('numbers');
$kinds{numbers}[2] =~ s/, case when.*//;
my $peak = 0;
foreach my $n (0 .. 5)
{
	fill('numbers', $_, $_ + 9999) foreach map { 1 + $n * 60000 + $_ * 10000 } 0 .. 5;
	my $size = sql("SELECT pg_relation_size('r_numbers')");
	$peak = $size if $size > $peak;
	sql("SELECT rose.spill('r_numbers'); SELECT rose.merge('r_numbers')");
}
my $live = sql("SELECT sum(bytes) FROM rose.components('r_numbers')");
note("$peak bytes at the peak, $live live");
cmp_ok($peak, '<', 3 * $live, 'the peak of the file while a table is loaded');
compare('loaded', 'numbers');

$node->stop;
done_testing();
