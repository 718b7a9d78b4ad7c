# Scrolling cursors on heap and on rose tables: one random script, run on both. Cursors stay open while their own transaction writes what
# they read, rolls back to savepoints, meets errors in the midst of a scan, and while another session spills and merges, alters and analyzes. All
# that is printed must be the same. Environment:
#
#   CURSORS_SEED     repeat a run
#   CURSORS_STEPS    how many, default 1500
#   CURSORS_OPTIONS  settings of the sessions, as "-c enable_seqscan=off"
#
# At the first difference it shows both lines and the statements before.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $steps = $ENV{CURSORS_STEPS} // 1500;
my $seed = seed_random('CURSORS_SEED');
my $node = rose_node('cursors', 'autovacuum = off', 'fsync = off', rose_conf("rose.debug_piece_size = '8kB'", "rose.spill_interval = '1h'"), scan_settings());
my $max = 3000;		# keys

sub pick { return $_[ rand @_ ] }
sub below { return int rand $_[0] }

# ---- tables; churn is "@ spill TABLE" or "@ merge TABLE", by another session and on rose alone ----

my @tables = qw(a b c d);
my %order = (a => 'id', b => 'k1, k2', c => 'id', d => 'id, x, y, v');

sub tables
{
	my $step = 1 + below(3);

	return (
		'CREATE TABLE a (id int PRIMARY KEY, x int, y int, z int) USING :am',
		'CREATE TABLE b (k1 text, k2 int, x int, v text, w numeric, PRIMARY KEY (k1, k2)) USING :am',
		'CREATE TABLE c (id bigint PRIMARY KEY, x int, y bigint, big text, u text) USING :am',
		'CREATE TABLE d (id int, x int, y int, v text) USING :am',
		q{CREATE FUNCTION large(n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT string_agg(md5(n::text || ':' || g), '') FROM generate_series(1, (n % 7) * 20) g $$},
		q{CREATE FUNCTION fails_at(n int, m int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF n = m THEN RAISE 'here it fails'; END IF; RETURN n; END $$},
		"INSERT INTO a SELECT g, g % 7, g, NULLIF(g % 5, 0) FROM generate_series(1, $max, $step) g",
		"INSERT INTO b SELECT 'k' || g % 13, g, g, CASE WHEN g % 4 > 0 THEN repeat(chr(97 + g % 26), g % 90) END, g * 1.5 FROM generate_series(1, $max, 2) g",
		"INSERT INTO c SELECT g, g % 9, g, large(g), 'u' || g FROM generate_series(1, $max, 5) g",
		"INSERT INTO d SELECT g, g % 9, g, 'v' || g FROM generate_series(1, $max, 3) g",
		map { "\@ spill $_" } grep { rand() < 0.7 } @tables);
}

# ---- statements ----

sub condition
{
	my ($table) = @_;
	my ($from, $wide) = (below($max), pick(3, 40, 300, 1500));
	my $to = $from + $wide;

	return pick("k2 BETWEEN $from AND $to", "k1 = 'k" . below(13) . "' AND k2 < $from", "k1 BETWEEN 'k1' AND 'k" . below(13) . "'", 'true') if $table eq 'b';
	return pick("id BETWEEN $from AND $to", "id BETWEEN $from AND $to", "id > $from", 'x = ' . below(9), 'true');
}

sub insert
{
	my ($from, $n, $more) = (below($max), pick(1, 5, 50, 400), below(1000));
	my $series = "generate_series($from, $from + $n) g";

	return pick(
		"INSERT INTO a (id, x, y, z) SELECT g, g % 7, g + $more, NULLIF(g % 5, 0) FROM $series ON CONFLICT DO NOTHING",
		"INSERT INTO b (k1, k2, x, v, w) SELECT 'k' || g % 13, g, g + $more, CASE WHEN g % 4 > 0 THEN repeat(chr(97 + g % 26), g % 90) END, g * 1.5 FROM $series ON CONFLICT DO NOTHING",
		"INSERT INTO c (id, x, y, big, u) SELECT g, g % 9, g + $more, large(g), 'u' || g FROM generate_series($from, $from + least($n, 50)) g ON CONFLICT (id) DO UPDATE SET y = excluded.y, u = c.u || 'x'",
		"INSERT INTO d (id, x, y, v) SELECT g, g % 9, g + $more, 'v' || g FROM $series");
}

sub change
{
	my $table = pick(@tables);
	my $where = condition($table);

	return insert() if rand() < 0.4;
	$where = condition($table) if $where eq 'true';
	return "DELETE FROM $table WHERE $where" if rand() < 0.3;
	return "UPDATE $table SET x = x + 1 WHERE $where" if rand() < 0.6;
	return "UPDATE $table SET y = y + 1 WHERE $where" if $table ne 'b';
	return pick("UPDATE b SET v = v || 'q', w = NULL WHERE $where", "UPDATE b SET k2 = k2 + 10000 WHERE $where AND k2 < 5000");
}

my %columns = (
	a => [ 'id', 'x, y', 'sum(x)', 'count(*)', 'count(z), sum(y)', 'max(z)' ],
	b => [ 'k2', 'k1, x', 'v', 'w, v', 'count(*), sum(x), max(v)', 'k2' ],
	c => [ 'id', 'x', 'md5(big)', 'big', 'u, id', 'count(*), sum(y), sum(length(big))', 'sum(x)' ],
	d => [ 'id', 'x, v', 'count(*), sum(y)', 'sum(x)', 'max(v), count(*)' ]);

sub join_of_two
{
	my $where = condition('a') =~ s/\b(id|x)\b/a.$1/gr;

	return pick(
		"SELECT a.id, a.y, q.x, q.u FROM a JOIN c q ON a.id = q.id WHERE $where ORDER BY a.id",
		"SELECT a.id, q.* FROM a LEFT JOIN d q ON a.id = q.id WHERE $where ORDER BY a.id, q.x, q.y, q.v",
		"SELECT a.id, p.id, q.v FROM a JOIN a p ON a.x = p.id JOIN b q ON q.k2 = a.id WHERE $where ORDER BY 1, 2, 3",
		"SELECT count(*), sum(p.y) FROM a JOIN a p ON a.id = p.id WHERE $where",
		"SELECT a.id, (SELECT max(u) FROM c WHERE c.id = a.id + 1) FROM a WHERE $where ORDER BY 1 DESC",
		'SELECT x, array_agg(md5(big) ORDER BY id) FROM c GROUP BY x ORDER BY x',
		'SELECT id, big, lag(big) OVER (ORDER BY id) IS NULL FROM c WHERE x = 3 ORDER BY id',
		'SELECT DISTINCT ON (x) x, v FROM d ORDER BY x, y, v, id');
}

sub query
{
	my $table = pick(@tables);
	my ($columns, $where) = (pick('*', @{ $columns{$table} }), condition($table));

	return "SELECT $columns FROM $table WHERE $where" if $columns =~ /count|sum|max/;
	return "SELECT $columns FROM $table WHERE $where ORDER BY " . pick($order{$table}, join(', ', map { "$_ DESC" } split /, /, $order{$table}));
}

my $added = 0;

sub alter
{
	my $table = pick(@tables);
	my $column = 'n' . $added++;

	return ("ALTER TABLE $table ADD COLUMN $column " . pick("int DEFAULT $added", "text DEFAULT 'default of $column'", 'bigint'),
		rand() < 0.6 ? "ALTER TABLE $table DROP COLUMN $column" : ());
}

# ---- the script ----

my (%cursors, $savepoints, $open);		# name => { savepoint, hold }
my $named = 0;

sub outside
{
	my $dice = rand();

	if ($dice < 0.5)
	{
		($open, $savepoints) = (1, 0);
		return 'BEGIN' . pick('', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE');
	}
	return change() if $dice < 0.7;
	return query() if $dice < 0.9;
	return alter() if $dice < 0.93;
	return '@ ' . pick('spill', 'merge') . ' ' . pick(@tables) if $dice < 0.97;
	return 'ANALYZE ' . pick(@tables);
}

sub declare
{
	my $name = 'c' . $named++;
	my $hold = rand() < 0.2;

	$cursors{$name} = { savepoint => $savepoints, hold => $hold };
	return "DECLARE $name SCROLL CURSOR " . ($hold ? 'WITH HOLD ' : '') . 'FOR ' . (rand() < 0.25 ? join_of_two() : query());
}

sub fetch
{
	return 'FETCH ' . pick(3, 'BACKWARD 2', 1, 20, 'PRIOR', 'ABSOLUTE ' . below(60), 'FIRST', 'LAST', 'RELATIVE -' . below(4), 'RELATIVE ' . below(9), 'BACKWARD 10', 'ALL', 100, 'BACKWARD ALL')
	  . ' FROM ' . pick(sort keys %cursors);
}

sub roll_back_to_savepoint
{
	$savepoints = 1 + below($savepoints);
	delete $cursors{$_} foreach grep { $cursors{$_}{savepoint} >= $savepoints } keys %cursors;
	return "ROLLBACK TO s$savepoints";
}

# An error in the midst of a cursor, a scan, an update.
sub fail
{
	my ($table, $at, $name) = (pick('a', 'c', 'd'), below($max), 'c' . $named++);

	return ('SAVEPOINT e', "DECLARE $name CURSOR FOR SELECT fails_at(id::int, $at), x FROM $table ORDER BY $order{$table}", 'FETCH ' . pick(5, 100, 'ALL') . " FROM $name",
		"SELECT sum(fails_at(id::int, $at)) FROM $table", "UPDATE $table SET x = fails_at(id::int, $at) WHERE id > $at - 30 AND id <= $at", 'ROLLBACK TO e');
}

sub end_transaction
{
	my $end = pick('COMMIT', 'COMMIT', 'ROLLBACK');
	my @held = grep { $cursors{$_}{hold} && $end eq 'COMMIT' } sort keys %cursors;

	($open, %cursors) = (0);
	return ($end, map { ("FETCH 5 FROM $_", "CLOSE $_") } @held);
}

sub within
{
	my $dice = rand();

	return declare() if $dice < 0.14 && keys %cursors < 6;
	return fetch() if $dice < 0.58 && %cursors;
	return change() if $dice < 0.65;
	return query() if $dice < 0.70;
	return join_of_two() if $dice < 0.73;
	return 'SET LOCAL ' . pick(scan_settings(), 'rose.enable_scan = on') if $dice < 0.74;
	return 'SET LOCAL enable_' . pick(qw(seqscan indexscan indexonlyscan hashjoin mergejoin nestloop sort material memoize)) . ' = ' . pick('on', 'off') if $dice < 0.76;
	return 'SAVEPOINT s' . ++$savepoints if $dice < 0.78;
	return roll_back_to_savepoint() if $dice < 0.82 && $savepoints;
	return fail() if $dice < 0.86 && $savepoints;
	return '@ ' . pick('spill', 'merge') . ' ' . pick(@tables) if $dice < 0.93;
	return end_transaction();
}

my @script = tables();
push @script, $open ? within() : outside() for 1 .. $steps;
push @script, end_transaction() if $open;
push @script, map { "SELECT * FROM $_ ORDER BY $order{$_}" } @tables;

# ---- both sides ----

# What psql prints. Churn is for rose alone; if somebody has locked the table, it does without.
sub run_on
{
	my ($am) = @_;
	my $file = $node->basedir . "/$am.sql";
	my $psql = "psql -XAtq -d '" . $node->connstr('postgres') . "'";
	my $sql = "\\set am $am\nCREATE SCHEMA side_$am;\nSET search_path = side_$am;\nSET client_min_messages = error;\n";
	my $n = 0;

	foreach my $statement (@script)
	{
		my $line = $statement =~ s/:am/$am/r;

		$n++;
		if ($statement =~ /^@ (\w+) (\w+)/)
		{
			next if $am eq 'heap' || $ENV{ROSE_STANDIN};
			$sql .= "\\! PGOPTIONS='-c lock_timeout=1s' $psql -c \"SELECT rose.$1('side_rose.$2')\" >> $file.churn 2>&1\n";
			next;
		}
		$sql .= "\\echo # $n\n$line;\n\\if :ERROR\n\\echo :SQLSTATE :LAST_ERROR_MESSAGE\n\\endif\n";
	}
	append_to_file($file, $sql);
	local $ENV{PGOPTIONS} = $ENV{CURSORS_OPTIONS} // '';
	system("$psql -f $file > $file.out 2> $file.err") == 0 or die "psql failed: $?";
	return slurp_file("$file.out");
}

# The answers, by the number of their statement.
sub answers
{
	my ($text) = @_;

	return map { /^(\d+)\n(.*)\z/s ? ($1 => $2) : () } split /^# /m, $text;
}

my %heap = answers(run_on('heap'));
my %rose = answers(run_on('rose'));
my ($first) = grep { ($heap{$_} // '') ne ($rose{$_} // '') } sort { $a <=> $b } keys %heap;

is(scalar keys %rose, scalar keys %heap, 'all statements were run on both');
ok(!defined $first, scalar(@script) . ' statements have the same answers on heap and on rose');
if (defined $first)
{
	my @before = grep { $_ >= 0 } $first - 40 .. $first - 1;

	diag("  $_") foreach @script[@before];
	diag("CURSORS_SEED=$seed");
	diag('heap answered: ' . substr($heap{$first} // '', 0, 2000));
	diag('rose answered: ' . substr($rose{$first} // 'nothing', 0, 2000));
}
cmp_ok(scalar(grep { /./ } values %heap), '>', $steps / 10, 'many statements have answers');
is($node->safe_psql('postgres', "SELECT c::text FROM rose.check('side_rose.$_') c"), '', "$_ is sound") foreach $ENV{ROSE_STANDIN} ? () : @tables;
$node->stop;
done_testing();
