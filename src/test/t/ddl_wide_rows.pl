# A long key (of two parts, for one alone has a limit of its own), and then so many columns that a page has no room
# for both. Rows that were accepted before ADD COLUMN can be spilled, merged, read and changed after it, whatever they
# are: rows and deletions in components and in C0, rows and locks in the run of a transaction in progress, and versions
# from replication that have only some columns.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no components' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $node = rose_node('wide_rows', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'rose.background_spill_size = 0',
	'autovacuum = off', 'rose.max_subscriptions = 4');

sub up { return $upstream->safe_psql('postgres', $_[0]) }

# The answer, or the error, which is none that a test waits for.
sub sql
{
	my ($rc, $out, $err) = $node->psql('postgres', $_[0], on_error_stop => 1);

	diag($err) if $rc != 0;
	return $rc == 0 ? $out : $err;
}

# 1,300 characters that no codec makes shorter.
my $key = <<'SQL';
CREATE FUNCTION long_key(seed int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$SELECT string_agg(chr(33 + get_byte(sha512(format('%s %s', seed, g)::bytea), b) % 94), '' ORDER BY g, b)
FROM generate_series(1, 26) g, generate_series(0, 49) b$$
SQL
# So many columns leave room for the key; with those of the clause there is none.
my $before = join(', ', map { "b$_ int" } 1 .. 1150);
my $clause = join(', ', map { "ADD COLUMN c$_ int" . ($_ % 2 ? " DEFAULT $_" : '') } 1 .. 420);

sql($key);
my %tables = (
	first => "k text, l text, v int, w text, $before, PRIMARY KEY (k, l)",
	last => "v int, $before, w text, n int NOT NULL DEFAULT 7, k text, l text, PRIMARY KEY (k, n, l)",
	parted => "k text, l text, v int, w text, $before, PRIMARY KEY (l, k)");

# The same in rose and in heap.
sub both
{
	my ($name, $command) = @_;

	foreach my $am ('rose', 'heap')
	{
		(my $one = $command) =~ s/\bTABLE_\b/${name}_$am/g;
		sql($one);
	}
	return;
}

sub answers_agree
{
	my ($name, $when) = @_;
	my $query = "SELECT count(*), sum(hashtext(t::text)::bigint) FROM TABLE_ t";
	my %answer;

	foreach my $am ('rose', 'heap')
	{
		(my $one = $query) =~ s/TABLE_/${name}_$am/;
		$answer{$am} = sql($one);
	}
	is($answer{rose}, $answer{heap}, "$name, $when: rows");
	is(sql("SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, 60) g JOIN ${name}_rose t ON t.k = long_key(g)"),
		sql("SELECT count(*) FROM ${name}_heap"), "$name, $when: by key");
	is(sql("SELECT count(*) FROM rose.check('${name}_rose')"), 0, "$name, $when: rose.check") if $name ne 'parted';
	return;
}

sub works
{
	my ($name, $function) = @_;

	my $tables = sql("SELECT string_agg(relname, ' ') FROM pg_class WHERE relname ~ '^$name(_rose.*)?\$' AND relkind = 'r'");

	unlike(sql("SELECT rose.$function('$_')"), qr/ERROR/, "rose.$function of $_") foreach split / /, $tables;
	return;
}

foreach my $name (sort keys %tables)
{
	foreach my $am ('rose', 'heap')
	{
		my $partitioned = $name eq 'parted' && $am eq 'rose';

		sql("CREATE TABLE ${name}_$am ($tables{$name})" . ($partitioned ? ' PARTITION BY HASH (k)' : " USING $am"));
		sql("CREATE TABLE ${name}_${am}_$_ PARTITION OF ${name}_$am FOR VALUES WITH (MODULUS 2, REMAINDER $_) USING $am")
		  foreach ($partitioned ? (0, 1) : ());
	}
	both($name, "INSERT INTO TABLE_ (k, l, v, w) SELECT long_key(g), reverse(long_key(g)), g, repeat('w', g * 100) "
		  . 'FROM generate_series(1, 20) g');
	works($name, 'merge');
	both($name, "INSERT INTO TABLE_ (k, l, v) SELECT long_key(g), reverse(long_key(g)), g FROM generate_series(21, 40) g");
	works($name, 'spill');
	both($name, "INSERT INTO TABLE_ (k, l, v) SELECT long_key(g), reverse(long_key(g)), g FROM generate_series(41, 50) g; "
		  . "DELETE FROM TABLE_ WHERE v % 10 = 3; UPDATE TABLE_ SET v = v + 1000 WHERE v % 10 = 4");

	both($name, "ALTER TABLE TABLE_ $clause");
	answers_agree($name, 'rows in memory');
	works($name, 'spill');
	answers_agree($name, 'spilled');
	both($name, 'UPDATE TABLE_ SET v = v + 1000, c419 = 5, c420 = 6 WHERE v % 10 = 5; DELETE FROM TABLE_ WHERE v % 10 = 6');
	both($name, "UPDATE TABLE_ SET l = 'another' WHERE v % 10 = 2");
	both($name, "INSERT INTO TABLE_ (k, l, v, w) SELECT long_key(g), reverse(long_key(g)), g, repeat('x', g * 100) "
		  . 'FROM generate_series(51, 60) g');

	# The run of a transaction in progress, which has taken some of it back.
	my $writer = RoseTest::Session->new($node);
	$writer->run("BEGIN; UPDATE ${name}_rose SET v = v + 1 WHERE v % 10 = 7; "
		  . "SELECT count(*) FROM (SELECT 1 FROM ${name}_rose WHERE v % 10 = 8 FOR UPDATE) t; SAVEPOINT s; "
		  . "DELETE FROM ${name}_rose WHERE v % 10 = 9; ROLLBACK TO s");
	works($name, 'spill');
	answers_agree($name, 'a transaction in progress');
	$writer->run('COMMIT');
	$writer->end;
	sql("UPDATE ${name}_heap SET v = v + 1 WHERE v % 10 = 7");
	answers_agree($name, 'it has committed');
	works($name, 'spill');
	works($name, 'merge');
	answers_agree($name, 'merged');
	$node->restart;
	both($name, "UPDATE TABLE_ SET w = 'again', c1 = NULL WHERE v % 10 < 3");
	$node->stop('immediate');
	$node->start;
	answers_agree($name, 'recovered');
	works($name, 'merge');
	both($name, 'ALTER TABLE TABLE_ ADD COLUMN late text DEFAULT \'late\', DROP COLUMN c7');
	answers_agree($name, 'one more column');
	works($name, 'merge');
	answers_agree($name, 'merged again');
}

# What has no room is still refused, before anything depends on it: a key behind too many columns.
my $many = join(', ', map { "c$_ int" } 1 .. 1500);
sql("CREATE TABLE behind ($many, k text, l text, PRIMARY KEY (k, l)) USING rose");
my ($rc, $out, $err) = $node->psql('postgres', 'INSERT INTO behind (k, l) VALUES (long_key(1), long_key(2))');
like($err, qr/primary key is too long for a table of so many columns/, 'a long key behind many columns is refused');
sql("INSERT INTO behind (k, l) SELECT left(long_key(g), 1000), 'x' FROM generate_series(1, 10) g");
works('behind', $_) foreach ('spill', 'merge');
is(sql("SELECT count(DISTINCT k) FROM behind"), 10, 'and found');

# --- versions that have only some columns, from replication
up($key);
my $columns = "k text, l text, a int, large text, $before, PRIMARY KEY (k, l)";
up("CREATE TABLE fed ($columns); ALTER TABLE fed ALTER large SET STORAGE EXTERNAL; CREATE PUBLICATION p FOR TABLE fed");
up("INSERT INTO fed SELECT long_key(g), reverse(long_key(g)), 0, repeat(md5(g::text), 200) FROM generate_series(1, 30) g");
sql("CREATE TABLE fed ($columns) USING rose");
subscribe($upstream, $node);
up('UPDATE fed SET a = a + 1');
wait_for_apply($upstream, $node);
sql("SELECT rose.spill('fed')");
up('UPDATE fed SET a = a + 1 WHERE ascii(k) < 70');
wait_for_apply($upstream, $node);

sub fed_agrees
{
	my ($when) = @_;
	my $query = 'SELECT count(*), sum(hashtext(t::text)::bigint) FROM fed t';

	is(sql($query), up($query), "fed, $when: rows");
	is(sql("SELECT count(*) FROM rose.check('fed')"), 0, "fed, $when: rose.check");
	return;
}

sql("ALTER TABLE fed $clause");
up("ALTER TABLE fed $clause");
fed_agrees('columns added');
works('fed', 'spill');
fed_agrees('spilled');
up('UPDATE fed SET a = a + 1, c420 = 3 WHERE ascii(k) < 90');
wait_for_apply($upstream, $node);
works('fed', 'spill');
fed_agrees('changed');
$node->restart;
wait_for_apply($upstream, $node);
works('fed', 'merge');
fed_agrees('merged');

done_testing();
