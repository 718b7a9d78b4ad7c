# Values that prepared transactions have taken, left or locked in unique indexes: over a restart and a kill of the server, from memory and from runs, others
# wait for them, fail, or go on as they do on heap, and when the transaction is committed or rolled back the values are another's or free. Deferred constraints,
# expressions, WHERE, subtransactions, row locks.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $node = rose_node('index_prepared', 'autovacuum = off', 'max_connections = 100', 'max_prepared_transactions = 60', rose_conf('rose.secondary_indexes = on'));

# Rows 1 to 9 have the values 10 to 90 in all of a, l and e.
my %scenarios = (
	inserted => "INSERT INTO t VALUES (11, 55, 'p', 55, 55)",
	changed => 'UPDATE t SET a = 55, l = 55, e = -55 WHERE id = 1',
	deleted => 'DELETE FROM t WHERE id = 1',
	replaced => "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (12, 10, 'p', 10, -10)",
	moved => 'UPDATE t SET id = 21 WHERE id = 1',
	back => 'UPDATE t SET a = 55, l = 55, e = 55 WHERE id = 1; UPDATE t SET a = 10, l = 10, e = 10 WHERE id = 1',
	undone => "SAVEPOINT s; INSERT INTO t VALUES (11, 55, 'p', 55, 55); DELETE FROM t WHERE id = 1; ROLLBACK TO s; INSERT INTO t VALUES (13, 66, 'p', 66, 66)",
	within => "SAVEPOINT s; UPDATE t SET a = 55, l = 55, e = 55 WHERE id = 1; SAVEPOINT u; UPDATE t SET a = 66 WHERE id = 1; ROLLBACK TO u; RELEASE s",
	upserted => "INSERT INTO t VALUES (11, 10, 'p', 11, 11) ON CONFLICT (a) DO UPDATE SET a = 55, l = 55, e = 55",
	out => "UPDATE t SET b = 'out' WHERE id = 1",
	exchanged => 'UPDATE t SET l = 30 - l WHERE id IN (1, 2); UPDATE t SET a = 55 WHERE id = 2',
	locked => 'SELECT FROM t WHERE id = 1 FOR KEY SHARE; SELECT FROM t WHERE id = 2 FOR UPDATE',
	copied => "COPY t FROM PROGRAM 'echo 11,55,p,55,55; echo 13,66,p,66,66' (FORMAT csv)");
my @values = (10, 20, 55, 66);
my @probes = map {
	my $v = $_;
	(   "INSERT INTO t VALUES (99, $v, 'q', NULL, NULL)",
		"INSERT INTO t VALUES (99, NULL, 'q', $v, NULL); SET CONSTRAINTS ALL IMMEDIATE",
		"INSERT INTO t VALUES (99, NULL, 'q', NULL, -$v)",
		"INSERT INTO t VALUES (99, NULL, 'out', NULL, -$v)",
		"INSERT INTO t VALUES (99, $v, 'q', NULL, NULL) ON CONFLICT (a) DO NOTHING RETURNING *",
		"INSERT INTO t VALUES (99, 99, 'q', NULL, $v) ON CONFLICT (abs(e)) WHERE b <> 'out' DO UPDATE SET b = 'hit' RETURNING *",
		"UPDATE t SET a = $v WHERE id = 9",
		"UPDATE t SET l = $v WHERE id = 9; SET CONSTRAINTS ALL IMMEDIATE",
		"UPDATE t SET b = 'x' WHERE a = $v RETURNING *") } @values;
push @probes, 'DELETE FROM t WHERE id = 1 RETURNING *', 'SELECT id FROM t WHERE id IN (1, 2) ORDER BY id FOR UPDATE', "UPDATE t SET id = 99 WHERE id = 2 RETURNING *",
  'SELECT * FROM t ORDER BY id', 'SET enable_seqscan = off; SELECT id FROM t WHERE a > 0 ORDER BY a';

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub each_table
{
	my ($do) = @_;

	return map { my $scenario = $_; map { $do->($scenario, $_) } qw(heap rose) } sort keys %scenarios;
}

sub make
{
	my ($scenario, $am) = @_;
	my $using = $ENV{ROSE_STANDIN} ? 'heap' : $am;

	sql(<<"SQL");
CREATE SCHEMA ${am}_$scenario;
SET search_path = ${am}_$scenario;
CREATE TABLE t (id int PRIMARY KEY, a int CONSTRAINT a UNIQUE, b text, l int CONSTRAINT l UNIQUE DEFERRABLE INITIALLY DEFERRED, e int) USING $using;
CREATE UNIQUE INDEX e ON t (abs(e)) WHERE b <> 'out';
INSERT INTO t SELECT i, i * 10, 'r', i * 10, i * 10 FROM generate_series(1, 9) i;
SQL
	return;
}

# Everything that one may try beside the transaction, each for itself; waits end soon.
sub start_probes
{
	my ($scenario, $am) = @_;
	my $script = "SET search_path = ${am}_$scenario; SET lock_timeout = '100ms'; SET log_statement = 'none';\n" . join '', map { "\\echo $_\nBEGIN;\n$_;\nROLLBACK;\n" } @probes;
	my $file = $node->basedir . "/${am}_$scenario.sql";
	my %run = (scenario => $scenario, out => '');

	unlink $file;
	append_to_file($file, $script);
	$run{h} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ], '>&', \$run{out}, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return \%run;
}

# Who waits meets different names of what he waits for.
sub answers
{
	my ($run) = @_;

	$run->{h}->finish;
	return join "\n", map { s/^psql:\S+ //r } grep { !/CONTEXT|LINE/ } split /\n/, $run->{out};
}

# A change of a row that keeps its value leaves the entry alone, as a HOT update does: who wants the value fails at once. Heap's is not HOT where another
# index changes, and he waits. Heap's answers as they would be then.
my %kept = (
	exchanged => qr/^INSERT INTO t VALUES \(99, 10, q, NULL, NULL\)$|NULL, -[12]0\)$|SET a = 10 /,
	out => qr/^INSERT INTO t VALUES \(99, (?:10, q, NULL|NULL, q, 10), NULL\)(?:; SET.*)?$|SET [al] = 10 /);

sub fail_at_once
{
	my ($scenario, $answers) = @_;
	my @lines = split /\n/, $answers;

	return $answers if !$kept{$scenario};
	foreach my $i (1 .. $#lines)
	{
		next if $lines[$i] !~ /lock timeout/ || $lines[ $i - 1 ] !~ $kept{$scenario};
		my ($v) = $lines[ $i - 1 ] =~ /([12]0)/;
		my $name = $lines[ $i - 1 ] =~ /SET l|NULL, q, [12]0/ ? 'l' : $lines[ $i - 1 ] =~ /-[12]0\)/ ? 'e' : 'a';
		my $column = $name eq 'e' ? 'abs(e)' : $name;

		$lines[$i] = qq(ERROR:  duplicate key value violates unique constraint "$name"\nDETAIL:  Key ($column)=($v) already exists.);
	}
	return join "\n", @lines;
}

sub compare
{
	my ($what) = @_;
	my @runs = each_table(\&start_probes);
	my ($waits, $duplicates) = (0, 0);

	while (my ($heap, $rose) = splice @runs, 0, 2)
	{
		my ($expected, $got) = (answers($heap), answers($rose));

		$expected = fail_at_once($heap->{scenario}, $expected) unless $ENV{ROSE_STANDIN};
		is($got, $expected, "$what: $rose->{scenario}, as on heap");
		$waits++ while $got =~ /lock timeout/g;
		$duplicates++ while $got =~ /duplicate key/g;
	}
	return ($waits, $duplicates);
}

sub check_all
{
	my ($what) = @_;

	return if $ENV{ROSE_STANDIN};
	is(sql(join ' UNION ALL ', map { "SELECT '$_', msg FROM rose.check('rose_$_.t')" } sort keys %scenarios), '', "$what: entries are those of rows");
	return;
}

sub spill
{
	my ($what) = @_;

	return if $ENV{ROSE_STANDIN};
	foreach my $scenario (sort keys %scenarios)
	{
		sql("SELECT rose.$what(c.oid) FROM pg_class c WHERE relnamespace = 'rose_$scenario'::regnamespace AND (relkind = 'r' OR relname IN ('a', 'l', 'e'))");
	}
	return;
}

# before: what is done to the rows before others change them, and after; event: to the server; end: of the transactions
my @rounds = (
	{ name => 'in memory', end => 'COMMIT' },
	{ name => 'after a restart', event => sub { $node->restart }, end => 'ROLLBACK' },
	{ name => 'after a kill', event => sub { crash_and_restart($node) }, end => 'COMMIT' },
	{ name => 'rows in runs', before => 'spill', end => 'ROLLBACK' },
	{ name => 'rows merged, after a kill', before => 'merge', event => sub { crash_and_restart($node) }, end => 'COMMIT' },
	{ name => 'all in runs, after a kill', after => 'spill', event => sub { crash_and_restart($node) }, end => 'COMMIT' },
	{ name => 'all merged, after a restart', after => 'merge', event => sub { $node->restart }, end => 'ROLLBACK' });

foreach my $round (@rounds)
{
	my $name = $round->{name};
	my ($waits, $duplicates);

	each_table(\&make);
	spill($round->{before}) if $round->{before};
	each_table(sub { my ($scenario, $am) = @_; sql("SET search_path = ${am}_$scenario; BEGIN; $scenarios{$scenario}; PREPARE TRANSACTION '${am}_$scenario'") });
	spill($round->{after}) if $round->{after};
	$round->{event}->() if $round->{event};
	($waits, $duplicates) = compare("$name, prepared");
	cmp_ok($waits, '>', 20, "$name: others wait");
	cmp_ok($duplicates, '>', 20, "$name: others fail");
	check_all("$name, prepared");
	each_table(sub { my ($scenario, $am) = @_; sql("$round->{end} PREPARED '${am}_$scenario'") });
	($waits, $duplicates) = compare("$name, \L$round->{end}");
	is($waits, 0, "$name, \L$round->{end}: nobody waits any more");
	check_all("$name, \L$round->{end}");
	spill('merge');
	compare("$name, \L$round->{end}, merged");
	check_all("$name, \L$round->{end}, merged");
	sql(join ';', each_table(sub { "DROP SCHEMA $_[1]_$_[0] CASCADE" }));
}

# Who waits goes on when the transaction ends, even if the server was killed after it was prepared.
foreach my $end (qw(COMMIT ROLLBACK))
{
	make('inserted', 'rose');
	sql("SET search_path = rose_inserted; BEGIN; INSERT INTO t VALUES (11, 55, 'p', 55, 55); PREPARE TRANSACTION 'p'");
	crash_and_restart($node);
	my $waiter = RoseTest::Session->new($node);
	$waiter->run('SET search_path = rose_inserted');
	$waiter->start("INSERT INTO t VALUES (99, NULL, 'q', NULL, -55) ON CONFLICT (abs(e)) WHERE b <> 'out' DO NOTHING RETURNING id");
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted") or die 'nobody waits';
	sql("$end PREPARED 'p'");
	is($waiter->finish, $end eq 'COMMIT' ? '' : '99', "who waits goes on after $end");
	$waiter->end;
	sql('DROP SCHEMA rose_inserted CASCADE');
}
$node->stop;
done_testing();
