# What a table demands of its rows is demanded of an upstream's rows, too, in the initial copy and in
# the stream; and what it computes, it computes itself.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my ($upstream, $replica) = upstream_and_replica();

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

sub caught_up { return wait_for_apply($upstream, $replica) }

# The table is paused, with this error.
sub paused
{
	my ($table, $pattern, $name) = @_;

	$replica->poll_query_until('postgres', "SELECT state IN ('paused', 'error') FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass")
	  or fail("$name: paused");
	like(down("SELECT last_error FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), $pattern, $name);
	return;
}

sub resynced
{
	my ($table, $name) = @_;

	down("SELECT rose.alter_subscription('s', resync => '$table')");
	down("SELECT rose.wait_for_sync('s', $timeout)");
	is(down("SELECT state FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), 'ready', "$name: resynced");
	return;
}

# A change that the table takes, and one that it does not.
sub refused
{
	my ($table, $good, $bad, $mend, $pattern, $name) = @_;

	up($good);
	caught_up();
	is(down("SELECT state FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), 'ready', "$name: what fits is taken");
	up($bad);
	paused($table, $pattern, $name);
	down("SELECT rose.alter_subscription('s', resync => '$table')");
	paused($table, $pattern, "$name, in the copy");
	up($mend);
	resynced($table, $name);
	return;
}

# --- constraints
my $big = "repeat('x', 5000)";
up(<<"SQL");
CREATE TABLE checked (id int PRIMARY KEY, v int, w text, doc text);
CREATE TABLE required (id int PRIMARY KEY, v int, doc text);
CREATE TABLE bounded (id int, v int, doc text, PRIMARY KEY (id, v));
CREATE TABLE keyless (id int, v int);
CREATE TABLE other (id int PRIMARY KEY);
ALTER TABLE checked ALTER doc SET STORAGE EXTERNAL;
ALTER TABLE required ALTER doc SET STORAGE EXTERNAL;
ALTER TABLE bounded ALTER doc SET STORAGE EXTERNAL;
CREATE PUBLICATION p FOR TABLE checked, required, bounded, keyless, other;
SQL
down(<<"SQL");
CREATE TABLE checked (id int PRIMARY KEY, v int CHECK (v > 0), w text, doc text NOT NULL, CHECK (w <> left(doc, 1)), CONSTRAINT whole CHECK ((checked).v < 1000)) USING rose;
CREATE TABLE required (id int PRIMARY KEY, v int NOT NULL, doc text NOT NULL, CHECK (v < 1000)) USING rose;
CREATE TABLE whole (id int, v int, doc text, PRIMARY KEY (id, v)) PARTITION BY RANGE (v);
CREATE TABLE bounded PARTITION OF whole FOR VALUES FROM (0) TO (100) USING rose;
CREATE TABLE keyless (id int NOT NULL, v int) USING rose;
CREATE TABLE other (id int PRIMARY KEY) USING rose;
SQL
subscribe($upstream, $replica, undef, q{on_error => 'pause'});

refused('checked', "INSERT INTO checked VALUES (1, 1, 'a', $big)", 'INSERT INTO checked SELECT 2, -1, w, doc FROM checked', 'DELETE FROM checked WHERE id = 2',
	qr/new row for relation "checked" violates check constraint "checked_v_check"/, 'CHECK of an INSERT');
refused('checked', 'UPDATE checked SET v = 2', 'UPDATE checked SET v = -2', 'UPDATE checked SET v = 3', qr/violates check constraint "checked_v_check"/, 'CHECK of an UPDATE that leaves a large value alone');
refused('checked', "UPDATE checked SET w = 'b'", "UPDATE checked SET w = 'x'", "UPDATE checked SET w = 'c'",
	qr/violates check constraint "checked_check"/, 'CHECK of a large value that was not sent');
refused('checked', 'UPDATE checked SET v = 4', 'UPDATE checked SET v = 1000', 'UPDATE checked SET v = 5', qr/violates check constraint "whole"/, 'CHECK of a whole row');
refused('checked', 'UPDATE checked SET id = 10', 'UPDATE checked SET id = 11, v = -1', 'UPDATE checked SET v = 1', qr/violates check constraint "checked_v_check"/, 'CHECK of a row whose key changes');
refused('required', "INSERT INTO required VALUES (1, 1, $big)", "INSERT INTO required VALUES (2, NULL, $big)", 'DELETE FROM required WHERE id = 2',
	qr/null value in column "v" of relation "required" violates not-null constraint/, 'NOT NULL of an INSERT');
refused('required', 'UPDATE required SET v = 2', 'UPDATE required SET v = NULL', 'UPDATE required SET v = 3', qr/null value in column "v"/, 'NOT NULL of an UPDATE that leaves a large value alone');
refused('required', "UPDATE required SET doc = $big || 'z'", 'UPDATE required SET doc = NULL', "UPDATE required SET doc = $big", qr/null value in column "doc"/, 'NOT NULL of a large value');
my $reads = down('SELECT old_row_reads FROM rose.stat_subscription');
up('UPDATE required SET v = v + 1');
caught_up();
is(down('SELECT old_row_reads FROM rose.stat_subscription') - $reads, 0, 'no old row is read if no constraint looks at what was not sent');
refused('bounded', "INSERT INTO bounded VALUES (1, 1, $big)", "INSERT INTO bounded VALUES (2, 100, $big)", 'DELETE FROM bounded WHERE id = 2',
	qr/new row for relation "bounded" violates partition constraint/, 'a partition\'s bounds');
refused('bounded', 'UPDATE bounded SET v = 2', 'UPDATE bounded SET v = -1', 'UPDATE bounded SET v = 3', qr/violates partition constraint/, 'a partition\'s bounds, when the key changes');
up('INSERT INTO keyless VALUES (NULL, 2)');
paused('keyless', qr/null value in column "id"/, 'NOT NULL without a key');
up('INSERT INTO other VALUES (1)');
wait_for_apply($upstream, $replica, undef, undef, 'other');
is(down('SELECT count(*) FROM other'), 1, 'others go on');
is(table_hash($replica, $_), table_hash($upstream, $_), "$_ is the upstream's") foreach qw(checked required bounded);

# --- generated columns
up(<<"SQL");
CREATE TABLE ours (id int PRIMARY KEY, a int, doc text);
CREATE TABLE both_sides (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED);
CREATE TABLE theirs (id int PRIMARY KEY, a int, g int);
CREATE TABLE plain_here (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED);
ALTER TABLE ours ALTER doc SET STORAGE EXTERNAL;
INSERT INTO ours VALUES (1, 1, $big), (2, 2, NULL);
INSERT INTO both_sides VALUES (1, 1), (2, 2);
INSERT INTO theirs VALUES (1, 1, 77), (2, 2, 77);
INSERT INTO plain_here VALUES (1, 1);
CREATE PUBLICATION g FOR TABLE ours, both_sides, theirs, plain_here;
SQL
down(<<"SQL");
CREATE TABLE ours (g int GENERATED ALWAYS AS (a + length(doc)) STORED, doc text, id int PRIMARY KEY, a int, h int GENERATED ALWAYS AS (a * 10) STORED NOT NULL) USING rose;
CREATE TABLE both_sides (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 3) STORED) USING rose;
CREATE TABLE theirs (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 3) STORED) USING rose;
CREATE TABLE plain_here (id int PRIMARY KEY, a int, g int) USING rose;
SQL
down("SELECT rose.create_subscription('g', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['g'], on_error => 'pause')");
down("SELECT rose.wait_for_sync('g', $timeout)");

sub generated
{
	my ($name) = @_;

	wait_for_apply($upstream, $replica, 'postgres', 'g');
	is(down('SELECT id, a, g, h, length(doc) FROM ours ORDER BY id'), up('SELECT id, a, a + length(doc), a * 10, length(doc) FROM ours ORDER BY id'), "$name: not on the upstream");
	is(down("SELECT id, a, g FROM $_ ORDER BY id"), up("SELECT id, a, a * 3 FROM $_ ORDER BY id"), "$name: $_") foreach qw(both_sides theirs);
	return;
}
generated('copied');
my $two = 0;
foreach my $format (qw(true false))
{
	$two += 10;
	down("SELECT rose.alter_subscription('g', binary => $format)");
	up("INSERT INTO ours VALUES ($two, 3, $big), ($two + 1, 4, 'short'); INSERT INTO both_sides VALUES ($two, 3); INSERT INTO theirs VALUES ($two, 3, 1)");
	generated("INSERT, binary => $format");
	up('UPDATE ours SET a = a + 1; UPDATE both_sides SET a = a + 1; UPDATE theirs SET a = a + 1, g = 5');
	generated("UPDATE, a large value left alone, binary => $format");
	up("UPDATE ours SET id = id + 100, a = a + 1; UPDATE ours SET doc = doc || 'y'; UPDATE both_sides SET id = id + 100; DELETE FROM theirs WHERE id = 1");
	generated("UPDATE of the key, binary => $format");
	up('UPDATE ours SET id = id - 100; UPDATE both_sides SET id = id - 100');
}
down("SELECT rose.spill('ours')");
down("SELECT rose.merge('ours')");
generated('merged');
is(down('SELECT id, a, g IS NULL FROM plain_here'), '1|1|t', 'what the upstream generates and does not publish stays NULL here');
up("INSERT INTO ours VALUES (50, NULL, 'x')");
$replica->poll_query_until('postgres', "SELECT last_error ~ 'null value in column \"h\"' FROM rose.stat_subscription_tables WHERE relid = 'ours'::regclass")
  or fail('NOT NULL of what is generated');
pass('NOT NULL of what is generated');

# columns that are not stored: those that the upstream has are never sent, those here are looked at by constraints, also when what they are made of was not sent;
# and one that the upstream stores, if it publishes it
if ($replica->pg_version >= 18)
{
	up(<<"SQL");
CREATE TABLE unstored (id int PRIMARY KEY, a int, doc text, v int GENERATED ALWAYS AS (a * 2), s int GENERATED ALWAYS AS (a * 5) STORED);
CREATE TABLE unstored_null (id int PRIMARY KEY, a int, doc text);
ALTER TABLE unstored ALTER doc SET STORAGE EXTERNAL;
ALTER TABLE unstored_null ALTER doc SET STORAGE EXTERNAL;
INSERT INTO unstored VALUES (1, 1, $big), (2, 2, 'x');
INSERT INTO unstored_null VALUES (1, 1, $big), (2, 2, 'x');
CREATE PUBLICATION v FOR TABLE unstored, unstored_null WITH (publish_generated_columns = stored);
SQL
	down(<<'SQL');
CREATE TABLE unstored (v int GENERATED ALWAYS AS (a * 3), id int PRIMARY KEY, both_of_it int GENERATED ALWAYS AS (a + length(doc)) CHECK (both_of_it > 0), doc text, a int, s int) USING rose;
CREATE TABLE unstored_null (n int GENERATED ALWAYS AS (a + length(doc)) NOT NULL, id int PRIMARY KEY, doc text, a int) USING rose;
SQL
	down("SELECT rose.create_subscription('v', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['v'], on_error => 'pause')");
	down("SELECT rose.wait_for_sync('v', $timeout)");
	my $unstored = sub {
		my ($name) = @_;

		wait_for_apply($upstream, $replica, 'postgres', 'v');
		is(down('SELECT id, a, v, both_of_it, length(doc), s FROM unstored ORDER BY id'), up('SELECT id, a, a * 3, a + length(doc), length(doc), s FROM unstored ORDER BY id'), "$name: columns that are not stored");
		is(down('SELECT id, n FROM unstored_null ORDER BY id'), up('SELECT id, a + length(doc) FROM unstored_null ORDER BY id'), "$name: not null");
	};
	$unstored->('copied');
	up('UPDATE unstored SET a = a + 1; UPDATE unstored_null SET a = a + 1');
	up("INSERT INTO unstored VALUES (3, 3, 'xy'); INSERT INTO unstored_null VALUES (3, 3, 'xy'); UPDATE unstored SET id = id + 100 WHERE id = 1; DELETE FROM unstored WHERE id = 2");
	$unstored->('changed');
	down("SELECT rose.spill(t) FROM unnest(ARRAY['unstored', 'unstored_null']::regclass[]) t");
	is(down("SELECT count(*) FROM unstored WHERE v > 5 AND both_of_it > 0"), up('SELECT count(*) FROM unstored WHERE a * 3 > 5 AND a + length(doc) > 0'), 'conditions on them');
	up('UPDATE unstored SET a = -1000000 WHERE id = 101');
	up('UPDATE unstored_null SET a = NULL WHERE id = 1');
	ok($replica->poll_query_until('postgres', "SELECT last_error ~ 'unstored_both_of_it_check' FROM rose.stat_subscription_tables WHERE relid = 'unstored'::regclass"), 'a CHECK of one, with a large value that was not sent');
	ok($replica->poll_query_until('postgres', "SELECT last_error ~ 'null value in column \"n\"' FROM rose.stat_subscription_tables WHERE relid = 'unstored_null'::regclass"), 'NOT NULL of one');
	down("SELECT rose.drop_subscription('v')");
}

# --- what a table may not be, or become
up('CREATE TABLE lasting (id int PRIMARY KEY); CREATE PUBLICATION l FOR TABLE lasting');
down('CREATE UNLOGGED TABLE lasting (id int PRIMARY KEY) USING rose');
my $create = "SELECT rose.create_subscription('l', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['l'])";
my ($rc, $out, $err) = $replica->psql('postgres', $create);
like($err, qr/cannot replicate into "public.lasting", which is not a permanent table.*SET LOGGED/s, 'an unlogged table');
down('ALTER TABLE lasting SET LOGGED');
down($create);
down("SELECT rose.wait_for_sync('l', $timeout)");
my %refusals = (
	'SET UNLOGGED' => qr/cannot make table "lasting" unlogged because a subscription feeds it/,
	'SET ACCESS METHOD heap' => qr/cannot change the access method of table "lasting" because a subscription feeds it/,
	'ADD COLUMN x int, SET ACCESS METHOD heap' => qr/cannot change the access method/);
foreach my $command (sort keys %refusals)
{
	($rc, $out, $err) = $replica->psql('postgres', "\\set VERBOSITY verbose\nALTER TABLE lasting $command");
	like($err, $refusals{$command}, $command);
	like($err, qr/55006/, "$command: SQLSTATE");
}
up('INSERT INTO lasting VALUES (1)');
wait_for_apply($upstream, $replica, 'postgres', 'l');
is(down('SELECT count(*) FROM lasting'), 1, 'it goes on');
down('DROP TABLE lasting; CREATE UNLOGGED TABLE lasting (id int PRIMARY KEY) USING rose');
($rc, $out, $err) = $replica->psql('postgres', "SELECT rose.alter_subscription('l', refresh => true)");
like($err, qr/which is not a permanent table/, 'an unlogged table, by a refresh');
down("SELECT rose.drop_subscription('l')");
down('ALTER TABLE lasting SET LOGGED; ALTER TABLE lasting SET UNLOGGED; ALTER TABLE lasting SET ACCESS METHOD heap');
pass('an ordinary table may');

$replica->stop;
$upstream->stop;
done_testing();
