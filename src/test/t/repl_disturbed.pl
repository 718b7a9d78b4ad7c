
# A subscription under load whose tables are used at the same time: locked, altered, rewritten, reindexed, spilled and merged by
# hand; its processes are terminated, it is disabled and enabled, and the server crashes. Two sessions at a time do such things at
# random moments. At no time do the tables disagree, nothing fails as it must not, and at the end they have what the upstream has.
# Environment:
#
#   DISTURBED_SEED	repeat what is done, as far as moments can be repeated
#   DISTURBED_STEPS	how many, default 30
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $steps = $ENV{DISTURBED_STEPS} // 30;
my $seed = seed_random('DISTURBED_SEED');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my @tables = qw(a b c d);
my $upstream = upstream_node('synchronous_commit = off');
my $node = rose_node('replica', rose_conf("rose.spill_interval = '1s'", 'rose.background_spill_size = ' . (rand() < 0.7 ? 0 : "'1GB'"), "rose.memtable_size = '16MB'"),
	"wal_retrieve_retry_interval = '200ms'", 'autovacuum = off', "deadlock_timeout = '200ms'");
my $keys = 3000;

sub pick { return $_[ rand @_ ] }

# Transfers keep the sum of v over all tables.
my %ddl = (
	a => 'CREATE TABLE a (id int PRIMARY KEY, v bigint, t text)',
	b => 'CREATE TABLE b (k text, id int, v bigint, PRIMARY KEY (k, id))',
	c => 'CREATE TABLE c (id bigint PRIMARY KEY, v bigint, w numeric)',
	d => 'CREATE TABLE d (id int, v bigint, t text, PRIMARY KEY (id))');
my %columns = (a => 'id, v, t', b => 'k, id, v', c => 'id, v, w', d => 'id, v, t');
$upstream->safe_psql('postgres', "$ddl{$_}; INSERT INTO $_ ($columns{$_}) SELECT "
	. { a => "g, 100, 'a' || g", b => "'k' || g % 7, g, 100", c => 'g, 100, g / 7.0', d => "g, 100, repeat('d', g % 300)" }->{$_} . " FROM generate_series(1, $keys) g") foreach @tables;
$upstream->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE a, b, c, d');
$node->safe_psql('postgres', "$ddl{$_} USING rose") foreach @tables;
$node->safe_psql('postgres', 'CREATE INDEX a_t ON a (t); CREATE INDEX c_v ON c (v, w)');
subscribe($upstream, $node);

append_to_file($upstream->basedir . '/transfer.sql', <<"END");
\\set x random(1, $keys)
\\set y random(1, $keys)
\\set n random(1, 50)
\\set from random(1, 100000000)
BEGIN;
UPDATE a SET v = v - :n, t = 't' || :from WHERE id = :x;
UPDATE b SET v = v + :n WHERE id = :y;
UPDATE c SET v = v - :n WHERE id = :y;
UPDATE d SET v = v + :n, t = repeat('x', :n) WHERE id = :x;
COMMIT;
BEGIN;
DELETE FROM c WHERE id > $keys AND id < $keys + :from % 1000 AND v = 0;
INSERT INTO c SELECT $keys + :from % 1000, 0, :n ON CONFLICT DO NOTHING;
COMMIT;
END
append_to_file($upstream->basedir . '/wide.sql', <<"END");
\\set x random(1, $keys)
\\set n random(10, 1500)
UPDATE a SET t = t || 'w' WHERE id BETWEEN :x AND :x + :n;
UPDATE b SET k = 'k' || (:n + id) % 7 WHERE id BETWEEN :x AND :x + :n / 10;
BEGIN;
LOCK TABLE d IN SHARE ROW EXCLUSIVE MODE;
WITH moved AS (DELETE FROM d WHERE id BETWEEN :x AND :x + 20 AND id <= $keys RETURNING *) INSERT INTO d SELECT id, v, 'moved' FROM moved;
SAVEPOINT s;
UPDATE d SET v = v + 1000;
ROLLBACK TO s;
COMMIT;
END

my $sum = 4 * $keys * 100;
my (@failed, @sums);
my $looks = 0;

# Errors that it is no surprise to meet here: locks not had in time, deadlocks and what follows in a transaction, cancels, names that are taken or gone, and a server
# that is not there.
sub is_expected { return $_[0] =~ /^(55P03|25P02|40P01|40001|57014|57P0[123]|42P07|42701|42703|42704|55006|55000)$/ }

sub session
{
	my ($sql) = @_;
	my $text = "\\set VERBOSITY sqlstate\nSET lock_timeout = '5s'; SET statement_timeout = '60s';\n$sql;\n";
	my %s = (sql => $sql, in => $text, out => '');

	$s{psql} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$s{in}, '>', \$s{out}, '2>&1', IPC::Run::timeout($timeout));
	return \%s;
}

sub ended
{
	my ($s) = @_;

	eval { $s->{psql}->finish };
	push @failed, "$s->{sql}: $@" if $@ =~ /timeout/;
	push @failed, map { "$s->{sql}: $_" } grep { /ERROR:\s+(\w+)/ && !is_expected($1) } split /\n/, $s->{out};
	$looks += () = $s->{out} =~ /^sums $sum$/mg;
	push @sums, $s->{out} if $s->{sql} =~ /sums/ && $s->{out} =~ /^sums (?!$sum$)/m;
	return;
}

my $added = 0;
my $reading = "SELECT 'sums ' || " . join(' + ', map { "(SELECT sum(v) FROM $_)" } @tables);

sub disturbance
{
	my $t = pick(@tables);
	my $other = pick(@tables);
	my $nap = 'SELECT pg_sleep(' . rand(pick(0.1, 1, 3)) . ')';
	my $i = $added++;

	return pick(
		"BEGIN; LOCK TABLE $t; $nap; COMMIT",
		"BEGIN; LOCK TABLE $t IN " . pick('SHARE', 'ACCESS SHARE', 'EXCLUSIVE') . " MODE; $nap; LOCK TABLE $other; $nap; ROLLBACK",
		"BEGIN; LOCK TABLE $t; SELECT rose.spill('$other'); COMMIT",
		"BEGIN; LOCK TABLE $t; SELECT rose.merge('$t'); $nap; COMMIT",
		"BEGIN ISOLATION LEVEL REPEATABLE READ; $reading; $nap; $reading; COMMIT",
		"$reading; $reading; $reading",
		"ALTER TABLE $t ADD COLUMN more$i int; $reading",
		"ALTER TABLE $t ALTER COLUMN v TYPE " . pick('bigint', 'numeric'),
		"BEGIN; ALTER TABLE $t ADD COLUMN less$i text; $nap; ROLLBACK",
		"CREATE INDEX more_$i ON $t (v); $nap; DROP INDEX more_$i",
		"REINDEX TABLE $t", "VACUUM FULL $t", "VACUUM $t", "ANALYZE $t",
		"SELECT rose.spill('$t')", "SELECT rose.merge('$t')", 'CHECKPOINT',
		"SELECT rose.alter_subscription('s', enabled => false); $nap; SELECT rose.alter_subscription('s', enabled => true)",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'rose " . pick('replication%', 'replication spiller', '%') . "'",
		"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'rose %'");
}

my @load = map { IPC::Run::start([ 'pgbench', '-n', '-c', $_->[1], '-R', $_->[2], '-T', 900, '--max-tries=100', '-f', $upstream->basedir . "/$_->[0].sql", $upstream->connstr('postgres') ],
	'>', '/dev/null', '2>', '/dev/null') } [ 'transfer', 2, 300 ], [ 'wide', 1, 5 ];
my @running;
foreach my $step (1 .. $steps)
{
	my $sql = disturbance();

	note($sql);
	push @running, session($sql);
	usleep(1_000_000 * random_between(0.05, 0.8));
	if (rand() < 0.05)
	{
		note('crash');
		crash_and_restart($node);
	}
	ended(shift @running) while @running > 2;
}
ended($_) foreach @running;
# one that nothing disturbs, for chance may have asked for none
ended(session($reading));
$_->signal('TERM'), eval { $_->finish } foreach @load;
my $enabled = session("SELECT rose.alter_subscription('s', enabled => true)");
ended($enabled);
is(join("\n", @failed), '', 'nothing fails that must not');
is(join("\n", @sums), '', 'the tables have never disagreed');
cmp_ok($looks, '>', 0, "seen by $looks looks");

# what has been committed there is flushed a moment later
$upstream->safe_psql('postgres', 'CHECKPOINT');
wait_for_apply($upstream, $node);
foreach my $table (@tables)
{
	is(table_hash($node, "(SELECT $columns{$table} FROM $table)"), table_hash($upstream, "(SELECT $columns{$table} FROM $table)"), "$table is the upstream's");
	is($node->safe_psql('postgres', "SELECT c::text FROM rose.check('$table') c"), '', "$table is sound");
}
crash_and_restart($node);
wait_for_apply($upstream, $node);
is($node->safe_psql('postgres', $reading), "sums $sum", 'after a crash, too');
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC|XX00[012]/, 'no assertion has failed');
done_testing();
