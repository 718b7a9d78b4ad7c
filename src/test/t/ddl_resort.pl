# Another version of a collation orders rows in another way. The table is refused, not read wrongly, and REINDEX
# sorts it anew: what it answers then is what a heap table answers, whose rows were changed in the same transactions.
#
# What an update of the operating system does is done here by giving the collation another locale in the catalog, and by
# having the metapages say that rows were sorted by another version. SEED=n repeats a run, ROUNDS=n makes it shorter.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no order of its own' if $ENV{ROSE_STANDIN};

my $seed = seed_random('SEED');
my $node = rose_node('resort', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	"rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'", "maintenance_work_mem = '1MB'");
my $icu_locale = icu_locale($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Locales of which each orders these keys in another way. (Not each one: where latn comes before digit, ICU contradicts itself.)
my @locales = ('en-US', 'en-US-u-kn-true', 'en-US-u-kf-upper-kn-true', 'sv-u-kr-digit-latn');
my $refused = qr/table "\w+" is sorted by other versions of collations than the server has\s.*using version "1\.2\.3", but the server has version "[\d.]+".*HINT:  Use REINDEX TABLE public\.\w+/s;

sql("CREATE COLLATION changing (PROVIDER = icu, LOCALE = '$locales[0]')");

my %keys = (
	single => { key => 'k', columns => 'k text COLLATE changing, n int, v int' },
	pair => { key => 'n, k', columns => 'k text COLLATE changing, n int, v int' },
	first => { key => 'k, n', columns => 'k varchar COLLATE changing, n int, v int' },
	list => { key => 'k', columns => 'k text[] COLLATE changing, n int, v int' },
	wide => { key => 'k', columns => 'k text COLLATE changing, n int, v int, w text' });
my @tables = sort keys %keys;

# Locale, and whether files are to say that they are of another version.
sub restart_with
{
	my ($locale, @files) = @_;

	sql("UPDATE pg_collation SET $icu_locale = '$locale' WHERE collname IN ('changing', 'folding')");
	forget_collations($node, @files);
	return;
}

sub files_of { return map { sql("SELECT pg_relation_filepath('$_')") } @_ }

# --- the same changes of a rose table and of its twin

sub random_key
{
	my @words = qw(K k a A z Z ä Å ö 10 9 1);

	return join '', map { $words[ rand @words ] } 1 .. 1 + int(rand(3));
}

sub key_of
{
	my ($table) = @_;
	my $key = random_key() . int(rand(300));

	return $table eq 'list' ? "ARRAY['$key', '" . random_key() . "']" : "'$key'";
}

my $moves = 0;

sub random_change
{
	my ($table) = @_;
	my $what = rand();
	my ($key, $n, $v) = (key_of($table), int(rand(20)), int(rand(1000)));
	my $more = $table eq 'wide' ? ", repeat('w', " . int(rand(20_000)) . ')' : '';

	return "INSERT INTO %s VALUES ($key, $n, $v$more) ON CONFLICT DO NOTHING" if $what < 0.5;
	return "UPDATE %s SET v = $v WHERE n = $n" if $what < 0.65;
	return "UPDATE %s SET v = v + 1 WHERE k < $key AND n = $n" if $what < 0.75;
	return "UPDATE %s SET k = k || 'm" . $moves++ . "' WHERE n = $n AND v % 3 = 0" if $what < 0.8 && $table ne 'list';
	return "DELETE FROM %s WHERE n = $n AND v % 2 = 0" if $what < 0.9;
	return "SAVEPOINT s; UPDATE %s SET v = -1 WHERE n = $n; DELETE FROM %s WHERE n = 3; ROLLBACK TO s";
}

# Both in one transaction, which ends like this.
sub change
{
	my ($table, $steps, $end) = @_;
	my $script = 'BEGIN;';

	foreach (1 .. $steps)
	{
		my $change = random_change($table);
		$script .= "\n" . $change =~ s/%s/$_/gr . ';' foreach $table, "${table}_heap";
	}
	return sql("SET client_min_messages = error; $script\n$end");
}

# Rows on all levels, private runs, and some that are only in the tail log.
sub fill
{
	my ($table) = @_;

	change($table, 60, 'COMMIT');
	sql("INSERT INTO ${table}_heap SELECT " . ($table eq 'list' ? "ARRAY['x' || g]" : "'x' || g") . ", g % 20, g" . ($table eq 'wide' ? ", ''" : '') . " FROM generate_series(1, 3000) g ON CONFLICT DO NOTHING; TRUNCATE $table; INSERT INTO $table SELECT * FROM ${table}_heap; SELECT rose.merge('$table')");
	foreach (1 .. 4)
	{
		change($table, 15, rand() < 0.7 ? 'COMMIT' : 'ROLLBACK');
		sql("SELECT rose.spill('$table')");
	}
	# merged in part
	sql("SELECT rose.merge('$table')") if rand() < 0.3;
	change($table, 15, 'COMMIT');
	my $large = RoseTest::Session->new($node);
	my $where = 'WHERE n IN (1, 2, 3, 4, 5, 6)';
	$large->run("BEGIN; UPDATE $table SET v = v + 1 $where; SAVEPOINT a; DELETE FROM $table WHERE n = 4; ROLLBACK TO a; UPDATE ${table}_heap SET v = v + 1 $where");
	sql("SELECT rose.spill('$table')");
	$large->run(rand() < 0.7 ? 'COMMIT' : 'ROLLBACK');
	$large->end;
	change($table, 10, 'COMMIT');
	change($table, 5, 'ROLLBACK');
	return;
}

# '' if the table answers as its twin.
sub difference
{
	my ($table, $session) = @_;
	my $ask = $session ? sub { $session->run($_[0]) } : \&sql;
	my $key = $keys{$table}{key};
	my ($columns, $heap) = ("$key, k::text AS shown, v", "${table}_heap");
	my $from = "'x' || g";
	my %queries = (
		'scan' => "SELECT md5(string_agg(t::text, ',' ORDER BY t::text COLLATE \"C\")), count(*) FROM %s t",
		'index' => "SELECT md5(string_agg(t::text, ',')) FROM (SELECT $columns FROM %s ORDER BY $key) t",
		'backward' => "SELECT md5(string_agg(t::text, ',')) FROM (SELECT $columns FROM %s ORDER BY " . join(', ', map { "$_ DESC" } split /, /, $key) . ') t',
		'lookups' => "SELECT count(*), sum(t.v) FROM $heap h, LATERAL (SELECT v FROM %s t WHERE (" . join(', ', map { "t.$_" } split /, /, $key) . ') = (' . join(', ', map { "h.$_" } split /, /, $key) . ') OFFSET 0) t',
		'range' => "SELECT md5(string_agg(t::text, ',')) FROM (SELECT $columns FROM %s WHERE k > " . ($table eq 'list' ? "ARRAY['x1']" : "'x1'") . ' AND k < ' . ($table eq 'list' ? "ARRAY['x5']" : "'x5'") . " ORDER BY $key) t");

	foreach my $name (sort keys %queries)
	{
		foreach my $set ('SET enable_seqscan = off', 'SET enable_indexscan = off')
		{
			# each row by a scan of its own would take long
			next if $name eq 'lookups' && $set =~ /indexscan/;
			my ($got, $expected) = split /\n/, $ask->("$set; " . join('; ', map { sprintf $queries{$name}, $_ } $table, $heap) . '; RESET ALL');
			return "$name with $set: $got, not $expected" if $got ne $expected;
		}
	}
	return $session ? '' : sql("SELECT c::text FROM rose.check('$table') c");
}

foreach my $table (@tables)
{
	sql("CREATE TABLE $table ($keys{$table}{columns}, PRIMARY KEY ($keys{$table}{key})) USING rose; CREATE TABLE ${table}_heap ($keys{$table}{columns}, PRIMARY KEY ($keys{$table}{key}))");
	fill($table);
	is(difference($table), '', "$table: at first");
}

# --- all of them again and again, each time to another order

foreach my $round (1 .. $ENV{ROUNDS} // $#locales)
{
	restart_with($locales[$round], files_of(@tables));
	my $old = RoseTest::Session->new($node);
	$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_snapshot()');
	sql("REINDEX TABLE ${_}_heap") foreach @tables;
	foreach my $table (@tables)
	{
		my $name = "$table, $locales[$round]";

		like(error_of($node, "SELECT count(*) FROM $table"), $refused, "$name: not read") if $round == 1;
		sql($round % 2 ? "REINDEX TABLE $table" : "REINDEX INDEX ${table}_pkey");
		is(difference($table), '', "$name: sorted anew");
		is(difference($table, $old), '', "$name: an older snapshot");
		change($table, 20, 'COMMIT');
		is(difference($table), '', "$name: changed");
		sql("SELECT rose.merge('$table')") if rand() < 0.5;
		is(difference($table), '', "$name: changed and merged");
	}
	$old->end;
	my $again = $tables[ $round % @tables ];
	fill($again);
	is(difference($again), '', "$again: other rows");
}

is(scalar(() = slurp_file($node->logfile) =~ /TRAP:|PANIC:/g), 0, 'nothing died');
done_testing();
