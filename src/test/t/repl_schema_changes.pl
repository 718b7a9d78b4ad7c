# What becomes of a table whose columns change, on the upstream or here: it goes on, or it stops (or is paused) with an error that says what to do;
# when that is done it goes on, without a copy, and has what the upstream has. In one subscription that stops and in one that pauses; here the
# tables of the one are plain, and those of the other partitioned.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in does not stop' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '1h'");

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }

# first: what is done here before. there: what is done on the upstream; T is the table. error: the table's; none: it goes on by itself. here: what is
# done then; copy: that, and it has to be copied again. columns: those that are compared, as they are called there (columns_here: here).
my $local = '(id int PRIMARY KEY, a int NOT NULL, b text, c varchar(10))';
my @cases = (
	{ name => 'ADD COLUMN', there => 'ALTER TABLE T ADD x int; UPDATE T SET x = id WHERE id < 4; INSERT INTO T VALUES (10, 1, NULL, NULL, 10)',
		error => qr/42703: table "\w+" has no column "x", which the upstream publishes.*Add the column here with ALTER TABLE/s, here => 'ALTER TABLE T ADD x int', columns => 'id, a, b, c, x' },
	{ name => 'ADD COLUMN with a default', there => "ALTER TABLE T ADD x text NOT NULL DEFAULT 'd'; INSERT INTO T VALUES (10, 1, NULL, NULL, 'e'); INSERT INTO T VALUES (11, 1)", error => qr/has no column "x"/,
		here => "ALTER TABLE T ADD x text NOT NULL DEFAULT 'd'", columns => 'id, a, b, c, x' },
	{ name => 'ADD COLUMN twice', there => 'ALTER TABLE T ADD x int; INSERT INTO T VALUES (10, 1, NULL, NULL, 10); ALTER TABLE T ADD y int; UPDATE T SET y = 1', error => qr/has no column "x"/,
		here => 'ALTER TABLE T ADD x int, ADD y int', columns => 'id, a, b, c, x, y' },
	{ name => 'ADD COLUMN here before', first => 'ALTER TABLE T ADD x int', there => 'ALTER TABLE T ADD x int; UPDATE T SET x = id', columns => 'id, a, b, c, x' },
	{ name => 'DROP COLUMN', there => 'ALTER TABLE T DROP b; UPDATE T SET a = a + 1; INSERT INTO T VALUES (10, 1)', columns => 'id, a, c' },
	{ name => 'DROP COLUMN that is NOT NULL here', there => 'ALTER TABLE T DROP a; INSERT INTO T VALUES (10, NULL)', error => qr/0A000: .*column "a" is not published by the upstream, and it is NOT NULL without a default.*Publish the column, or give it a default or drop its NOT NULL here/s,
		here => 'ALTER TABLE T DROP a', columns => 'id, b, c' },
	{ name => 'DROP COLUMN here before', first => 'ALTER TABLE T DROP b', there => 'UPDATE T SET a = a + 1', error => qr/has no column "b", which the upstream publishes/, copy => 'ALTER TABLE T ADD b text', columns => 'id, a, b, c' },
	{ name => 'DROP and ADD COLUMN', there => 'ALTER TABLE T DROP b; ALTER TABLE T ADD b text; UPDATE T SET b = \'new\' WHERE id = 1', error => qr/column "b" of table "\w+" is another one than before on the upstream.*copied again/s, copy => '', columns => 'id, a, b, c' },
	{ name => 'RENAME COLUMN', there => 'ALTER TABLE T RENAME b TO x; UPDATE T SET x = \'new\'', columns => 'id, a, x, c', columns_here => 'id, a, b, c' },
	{ name => 'RENAME COLUMN, also here', first => 'ALTER TABLE T RENAME b TO x', there => 'ALTER TABLE T RENAME b TO x; UPDATE T SET x = \'new\'', columns => 'id, a, x, c' },
	{ name => 'RENAME of the table', there => 'ALTER TABLE T RENAME TO T_new; UPDATE T_new SET a = a + 1; ALTER TABLE T_new RENAME TO T; UPDATE T SET a = a + 1', columns => 'id, a, b, c' },
	{ name => 'a wider integer', there => 'ALTER TABLE T ALTER a TYPE bigint; UPDATE T SET a = a + 1; UPDATE T SET a = 5000000000 WHERE id = 1', error => qr/22003: value "5000000000" is out of range for type integer/,
		here => 'ALTER TABLE T ALTER a TYPE bigint', columns => 'id, a, b, c' },
	{ name => 'a wider integer, here before', first => 'ALTER TABLE T ALTER a TYPE bigint', there => 'UPDATE T SET a = a + 1; ALTER TABLE T ALTER a TYPE bigint; UPDATE T SET a = 5000000000 WHERE id = 1', columns => 'id, a, b, c' },
	{ name => 'a longer varchar', there => 'ALTER TABLE T ALTER c TYPE varchar(20); UPDATE T SET c = repeat(\'c\', 15)', error => qr/22001: value too long for type character varying\(10\)/, here => 'ALTER TABLE T ALTER c TYPE varchar(20)', columns => 'id, a, b, c' },
	{ name => 'another type', there => 'ALTER TABLE T ALTER a TYPE text USING a::text; UPDATE T SET a = \'x\' || a', error => qr/22P02: invalid input syntax for type integer: "x/, here => 'ALTER TABLE T ALTER a TYPE text', columns => 'id, a, b, c' },
	{ name => 'DROP NOT NULL', there => 'ALTER TABLE T ALTER a DROP NOT NULL; UPDATE T SET a = NULL WHERE id = 2', error => qr/23502: null value in column "a" of relation "\w+" violates not-null constraint/, here => 'ALTER TABLE T ALTER a DROP NOT NULL', columns => 'id, a, b, c' });
my %subs = (s => 'stop', p => 'pause');

foreach my $n (0 .. $#cases)
{
	foreach my $sub (sort keys %subs)
	{
		my $table = "$sub$n";

		up("CREATE TABLE $table $local; INSERT INTO $table SELECT g, g, 'b' || g, 'c' FROM generate_series(1, 5) g");
		down($sub eq 's' ? "CREATE TABLE $table $local USING rose"
			: "CREATE TABLE $table $local PARTITION BY RANGE (id); CREATE TABLE ${table}_1 PARTITION OF $table FOR VALUES FROM (0) TO (3) USING rose; CREATE TABLE ${table}_2 PARTITION OF $table DEFAULT USING rose");
	}
}
foreach my $sub (sort keys %subs)
{
	up("CREATE PUBLICATION $sub FOR TABLE " . join(', ', map { "$sub$_" } 0 .. $#cases));
	down("SELECT rose.create_subscription('$sub', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['$sub'], on_error => '$subs{$sub}', on_schema_change => 'stop')");
	down("SELECT rose.wait_for_sync('$sub', $timeout)");
}
my $copied = "SELECT string_agg(relid || ' ' || copied_rows, ',' ORDER BY relid) FROM rose.stat_subscription_tables";

sub on_table { my ($sql, $table) = @_; return $sql =~ s/\bT(?=\b|_new)/$table/gr }

# A rewrite wants what was applied to be durable, as the error says.
sub here
{
	my ($sql, $table) = @_;

	down("SELECT rose.spill(relid) FROM pg_partition_tree('$table') WHERE isleaf") if $sql =~ /TYPE/;
	down("SELECT rose.spill('$table')") if $sql =~ /TYPE/ && $table =~ /^s/;
	down(on_table($sql, $table));
	return;
}

sub failed
{
	my ($case, $table) = @_;
	my $name = "$case->{name}, on_error => '" . $subs{ substr($table, 0, 1) } . "'";

	until_down("SELECT state = '" . ($table =~ /^s/ ? 'failed' : 'paused') . "' FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass") or die "$name: " . down('SELECT relname, state, last_error FROM rose.stat_subscription_tables');
	like(down("SELECT error_code || ': ' || last_error FROM rose.subscription_rel WHERE relid = '$table'::regclass"), $case->{error}, $name);
	is(down("SELECT blocked_reason FROM rose.stat_subscription WHERE subname = 's'"), 'table_error', "$name: the subscription stops") if $table =~ /^s/;
	return;
}

sub same
{
	my ($case, $table) = @_;
	my $sub = substr $table, 0, 1;
	my $name = "$case->{name}, on_error => '$subs{$sub}'";

	until_down("SELECT blocked_reason IS NULL FROM rose.stat_subscription WHERE subname = '$sub'") or die "$name: still stopped: " . down('SELECT last_error FROM rose.stat_subscription');
	wait_for_apply($upstream, $replica, 'postgres', $sub, $table);
	is(table_hash($replica, '(SELECT ' . ($case->{columns_here} // $case->{columns}) . " FROM $table)"), table_hash($upstream, "(SELECT $case->{columns} FROM $table)"), "$name: the same");
	is(down("SELECT state, last_error FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), 'ready|', "$name: and well");
	return;
}

foreach my $n (0 .. $#cases)
{
	my $case = $cases[$n];
	my $copies = down($copied);

	foreach my $table ("s$n", "p$n")
	{
		here($case->{first}, $table) if $case->{first};
		up(on_table($case->{there}, $table));
	}
	foreach my $table ("s$n", "p$n")
	{
		my $sub = substr $table, 0, 1;

		failed($case, $table) if $case->{error};
		here($case->{here}, $table) if $case->{here};
		down("SELECT rose.resume_table('p', '$table')") if $sub eq 'p' && $case->{error} && !defined $case->{copy};
		if (defined $case->{copy})
		{
			here($case->{copy}, $table) if $case->{copy};
			down("SELECT rose.alter_subscription('$sub', resync => '$table')");
			down("SELECT rose.wait_for_sync('$sub', $timeout)");
		}
		same($case, $table);
		up("UPDATE $table SET c = 'further' WHERE id % 2 = 1; DELETE FROM $table WHERE id = 2");
		same($case, $table);
	}
	is(down($copied), $copies, "$case->{name}: without a copy") if !defined $case->{copy};
}

$replica->stop;
$upstream->stop;
done_testing();
