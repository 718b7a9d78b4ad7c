# Applications that know nothing of rose, with default_table_access_method = rose and the same on heap: what two ORMs have sent, migrations and
# work, idioms of others (apps/*.sql), and a loader of files as pgloader is. Each statement must give the same answer or error, the catalogs must be the same, as
# pg_dump shows them, and so must the rows. Beside the application somebody spills and merges its tables. Then pgbench, with partitions and without.
use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

seed_random('APPLICATIONS_SEED');
my $node = rose_node('applications', "statement_timeout = '180s'");
my $dir = PostgreSQL::Test::Utils::tempdir;
my $is_rose = "relkind IN ('r', 'm') AND relnamespace = 'public'::regnamespace AND relam = (SELECT oid FROM pg_am WHERE amname = 'rose')";
local %ENV = $node->_get_env(PGDATABASE => 'postgres', PGHOST => $node->host, PGPORT => $node->port);

# A database whose tables are of this access method, unless they say otherwise.
sub database
{
	my ($dbname, $am) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $dbname TEMPLATE template0");
	rose_create($node, $dbname);
	$node->safe_psql('postgres', join(';', map { "ALTER DATABASE $dbname SET $_" } "default_table_access_method = $am"));
	return $dbname;
}

sub tables
{
	my ($dbname) = @_;

	return split /\n/, $node->safe_psql($dbname, "SELECT oid::regclass FROM pg_class WHERE relkind IN ('r', 'p', 'm') AND relnamespace = 'public'::regnamespace ORDER BY relname COLLATE \"C\"");
}

# The statements of a file or text; rows that COPY reads belong to it.
sub statements
{
	my ($text) = @_;
	my @statements;
	my $statement = '';

	foreach my $line (split /^/, $text)
	{
		next if $line =~ /^--/ || ($statement eq '' && $line eq "\n");
		$statement .= $line;
		next if $statement =~ /\ACOPY .* FROM STDIN/ ? $line ne "\\.\n" : $line !~ /;$/;
		push @statements, $statement;
		$statement = '';
	}
	return @statements;
}

# Each statement's answer.
sub run_all
{
	my ($dbname, $churn, @statements) = @_;
	my $file = "$dir/$dbname.sql";
	my $spill = "SELECT rose.%s(oid::regclass) FROM (SELECT oid FROM pg_class WHERE $is_rose ORDER BY random() LIMIT 4) c";
	my $n = 0;

	unlink $file;
	append_to_file($file, "\\pset format unaligned\n\\pset tuples_only\n\\pset null '<null>'\n");
	foreach my $statement (@statements)
	{
		append_to_file($file, sprintf("\\! psql -Xq -o /dev/null -c \"SET lock_timeout = '20ms'\" -c \"$spill\" 2>>$dir/churn.err\n", rand() < 0.7 ? 'spill' : 'merge'))
		  if $churn && rand() < 0.07;
		append_to_file($file, $statement . sprintf("\\echo '\@\@ %d' :SQLSTATE :ROW_COUNT\n\\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\endif\n", $n++));
	}
	IPC::Run::run([ 'psql', '-Xq', '-d', $dbname, '-f', $file ], '>', "$dir/$dbname.out", '2>', "$dir/$dbname.err");
	my @sections = split /^@@ (\d+ .*\n)/m, slurp_file("$dir/$dbname.out");
	my @answers;
	my $rows = shift @sections;
	while (@sections)
	{
		my ($status, $next) = splice(@sections, 0, 2);
		my $message = '';

		$message = $1 if $status !~ /^\d+ 00000/ && $next =~ s/\A(.*\n)//;
		$rows = join '', sort split /^/, $rows if $statements[@answers] !~ /ORDER BY/;
		push @answers, "$rows$status$message";
		$rows = $next;
	}
	return @answers;
}

# What the application's tables are.
sub schema_of
{
	my ($dbname) = @_;
	my ($out, $err) = run_command([ 'pg_dump', '--schema-only', '--schema=public', '--no-comments', $dbname ]);

	die $err if $out eq '';
	return join "\n", grep { !/^(?:SET default_table_access_method|--|\\(?:un)?restrict|$)/ } split /\n/, $out;
}

sub compare
{
	my ($what, $heap, $rose) = @_;
	my @tables = tables($heap);

	is(schema_of($rose), schema_of($heap), "$what: the same columns, constraints and indexes");
	is(join(' ', tables($rose)), join(' ', @tables), "$what: the same tables");
	is(table_hash($node, $_, $rose), table_hash($node, $_, $heap), "$what: the same rows in $_") foreach @tables;
	return if $ENV{ROSE_STANDIN};
	is($node->safe_psql($rose, "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'm') AND relnamespace = 'public'::regnamespace AND NOT ($is_rose)"), '0', "$what: all are rose tables");
	is($node->safe_psql($rose, "SELECT c.oid::regclass, k FROM pg_class c, rose.check(c.oid) k WHERE $is_rose"), '', "$what: all are sound");
	return;
}

# The same on heap and on rose; twice there, alone and beside one who spills and merges.
sub replay
{
	my ($what, $least, @statements) = @_;
	my $heap = database("${what}_heap", 'heap');
	my @expected = run_all($heap, 0, @statements);

	is(scalar @expected, scalar @statements, "$what: all has been sent to heap");
	cmp_ok(scalar(grep { /^\d+ 00000/m } @expected), '>', $least * @statements, "$what: most succeeds there");
	foreach my $churn ($ENV{ROSE_STANDIN} ? 0 : (0, 1))
	{
		my $rose = database("${what}_rose$churn", 'rose');
		my @answers = run_all($rose, $churn, @statements);
		my @differ = grep { ($answers[$_] // 'none') ne ($expected[$_] // 'none') } 0 .. $#statements;

		is(scalar @differ, 0, "$what: the same answers");
		diag("$statements[$_]\n--- heap:\n$expected[$_]--- rose:\n" . ($answers[$_] // 'none')) foreach splice @differ, 0, 5;
		compare($churn ? "$what, spilled and merged" : $what, $heap, $rose);
		is(join('', grep { !/canceling statement due to lock timeout/ } split /^/, -f "$dir/churn.err" ? slurp_file("$dir/churn.err") : ''), '', "$what: spills and merges go well");
		$node->safe_psql('postgres', "DROP DATABASE $rose");
	}
	$node->safe_psql('postgres', "DROP DATABASE $heap");
	return;
}

foreach my $app (qw(django sqlalchemy idioms))
{
	replay($app, 0.88, statements(slurp_file("$FindBin::RealBin/../apps/$app.sql")));
}

# ---- a loader: tables without indexes, COPY in parts, of which some fail and are sent in halves, then keys of indexes that were built before ----

sub rows_of
{
	my ($from, $to, $bad) = @_;

	return join '', map { my $id = $_; ($bad && $id == $bad ? 'x' : $id) . "\tname $id\t" . ($id % 7 ? $id * 1.25 : '\N') . "\t2024-0" . (1 + $id % 9) . "-01\t" . ($id % 40 + 1) . "\n" } $from .. $to;
}

sub copy
{
	my ($from, $to, $bad) = @_;

	return "COPY items (id, name, price, day, maker_id) FROM STDIN;\n" . rows_of($from, $to, $bad) . "\\.\n";
}

my $loader = "SET client_encoding = 'utf8';
CREATE TABLE makers (id bigserial, name text, since timestamptz DEFAULT '2020-01-01');
CREATE TABLE items (id bigserial, name text, price numeric(10,2), day date, maker_id bigint);
CREATE TABLE notes (item_id bigint, note text) ;
ALTER TABLE items DISABLE TRIGGER ALL;
BEGIN;
INSERT INTO makers (name) SELECT 'maker ' || i FROM generate_series(1, 40) i;
TRUNCATE items;
" . join('', map { copy($_ * 250 + 1, $_ * 250 + 250) } 0 .. 7) . "COMMIT;
" . copy(2001, 2200, 2050) . copy(2001, 2100, 2050) . copy(2101, 2200) . copy(2001, 2049) . copy(2051, 2100) . "BEGIN;
COPY notes FROM STDIN WITH (FORMAT csv, NULL '', QUOTE '\"', HEADER);
item_id,note
" . join('', map { "$_,\"a, \"\"note\"\" of $_\"\n" } 1 .. 600) . "\\.
COMMIT;
CREATE UNIQUE INDEX idx_makers_pkey ON makers (id);
CREATE UNIQUE INDEX idx_items_pkey ON items (id);
CREATE INDEX idx_items_maker ON items (maker_id, day);
CREATE UNIQUE INDEX idx_items_name ON items (name);
CREATE UNIQUE INDEX idx_items_price ON items (day, maker_id);
ALTER TABLE makers ADD PRIMARY KEY USING INDEX idx_makers_pkey;
ALTER TABLE items ADD PRIMARY KEY USING INDEX idx_items_pkey;
ALTER TABLE items ADD UNIQUE USING INDEX idx_items_name;
ALTER TABLE items ADD CONSTRAINT items_maker FOREIGN KEY (maker_id) REFERENCES makers (id) ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE notes ADD CONSTRAINT notes_item FOREIGN KEY (item_id) REFERENCES items (id) ON DELETE CASCADE;
ALTER TABLE items ENABLE TRIGGER ALL;
SELECT setval(pg_get_serial_sequence('items', 'id'), (SELECT max(id) FROM items));
SELECT setval(pg_get_serial_sequence('makers', 'id'), (SELECT max(id) FROM makers));
COMMENT ON TABLE items IS 'loaded';
ANALYZE items;
INSERT INTO items (name, maker_id) VALUES ('one more', 3) RETURNING id;
INSERT INTO items (name, maker_id) VALUES ('one too many', 300);
INSERT INTO items (name, maker_id) VALUES ('name 77', 3);
DELETE FROM items WHERE id BETWEEN 100 AND 120;
SELECT count(*), sum(price), min(day), max(name) FROM items WHERE maker_id = 7;
SELECT count(*) FROM notes;
COPY (SELECT * FROM items WHERE day = '2024-05-01' ORDER BY id LIMIT 20) TO STDOUT;
";
replay('loader', 0.8, statements($loader));

# ---- pgbench ----

sub sums
{
	my ($dbname) = @_;

	return $node->safe_psql($dbname, 'SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history),'
		  . ' (SELECT count(*) FROM pgbench_history), (SELECT count(*) FROM pgbench_accounts)');
}

foreach my $run ([ 'plain', '--foreign-keys' ], [ 'by_range', '--partitions=5', '--foreign-keys' ], [ 'by_hash', '--partitions=3', '--partition-method=hash' ])
{
	my ($what, @options) = @$run;
	my $bench = database("bench_$what", 'rose');

	$node->command_ok([ 'pgbench', '-i', '-q', '-s', '1', '-I', $what eq 'plain' ? 'dtGvpf' : 'dtgvpf', @options, $bench ], "pgbench -i: $what");
	foreach my $mode ([ 'simple', 'tpcb-like' ], [ 'prepared', 'simple-update' ], [ 'extended', 'select-only' ])
	{
		$node->command_like([ 'pgbench', '-n', '-c', '4', '-t', '50', '-M', $mode->[0], '-b', $mode->[1], $bench ], qr{number of transactions actually processed: 200/200}, "pgbench: $what, $mode->[1]");
	}
	my ($accounts, $tellers, $branches, $history, $n, $rows) = split /\|/, sums($bench);

	is("$accounts $n $rows", "$history 400 100000", "$what: accounts and history agree");
	is($tellers, $branches, "$what: tellers and branches agree");
	if (!$ENV{ROSE_STANDIN})
	{
		is($node->safe_psql($bench, "SELECT c.oid::regclass, k FROM pg_class c, rose.check(c.oid) k WHERE $is_rose"), '', "$what: all are sound");
		cmp_ok($node->safe_psql($bench, "SELECT count(*) FROM pg_class WHERE $is_rose"), '>=', 4, "$what: they are rose tables");
	}
	$node->safe_psql('postgres', "DROP DATABASE bench_$what");
}

$node->stop;
done_testing();
