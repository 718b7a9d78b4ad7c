
# Tables that are copied again at random, beside changes of the upstream, readers who never stop, local writers (durability
# "local"), cancels and crashes. Rows say of which state of the whole table they are: what a reader sees is one state, and
# never an earlier one than he has seen.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

seed_random('RESYNC_SEED');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
# a tiny arena, so that spills and epochs come in between
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.memtable_size = '4MB'", "rose.spill_interval = '1s'", 'restart_after_crash = on');
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub pick { return $_[ int(rand(@_)) ] }
sub synced { return down("SELECT rose.wait_for_sync('s', $timeout)") }
sub same { my ($what, @tables) = @_; wait_for_apply($upstream, $replica); return is(join(' ', map { table_hash($replica, $_) } @tables), join(' ', map { table_hash($upstream, $_) } @tables), $what) }

# In each state all rows have one n, and there are at least this many.
my $rows = 400;
my @tables = ('composite', 'parted', 'nokey');
my %key = (composite => ', PRIMARY KEY (k, id)', parted => ', PRIMARY KEY (id)', nokey => '');
foreach my $table (@tables)
{
	up("CREATE TABLE $table (id int, k text, n int$key{$table})");
	down("CREATE TABLE $table (id int, k text, n int$key{$table})" . ($table eq 'parted' ? ' PARTITION BY HASH (id)' : ' USING rose'));
	down("CREATE INDEX ON $table (n)");
}
down("CREATE TABLE parted_$_ PARTITION OF parted FOR VALUES WITH (MODULUS 3, REMAINDER $_) USING rose") foreach 0 .. 2;
my $n = 0;

sub next_state
{
	my ($table) = @_;
	my $more = int(rand(100));

	$n++;
	# of a table without key no row can be deleted here but all
	up($table eq 'nokey' ? "BEGIN; TRUNCATE nokey; INSERT INTO nokey SELECT i, i % 7, $n FROM generate_series(1, $rows + $more) i; COMMIT" :
		  "BEGIN; DELETE FROM $table WHERE id % 3 = " . int(rand(3)) . "; UPDATE $table SET n = $n;"
		. " INSERT INTO $table SELECT i, i % 7, $n FROM generate_series(1, $rows + $more) i ON CONFLICT DO NOTHING; COMMIT");
	return;
}
next_state($_) foreach @tables;
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', @tables));
my $durability = pick('local', 'upstream');
diag("durability $durability");
subscribe($upstream, $replica, undef, "durability => '$durability'");

# Readers: what each has seen is written to a heap table, which a check at the end reads; each in its own way.
down(<<'SQL');
CREATE TABLE seen (who int, tab text, at timestamptz DEFAULT clock_timestamp(), rows bigint, states bigint, n int, turn serial);
CREATE PROCEDURE read_on(who int) LANGUAGE plpgsql AS $$
DECLARE
	tab text;
	r record;
	i int := 0;
BEGIN
	WHILE EXISTS (SELECT FROM going) LOOP
		i := i + 1;
		FOREACH tab IN ARRAY '{composite,parted,nokey}'::text[] LOOP
			PERFORM set_config('enable_seqscan', CASE WHEN (i + who) % 2 = 0 THEN 'on' ELSE 'off' END, false);
			EXECUTE format('SELECT count(*) AS rows, count(DISTINCT n) AS states, max(n) AS n FROM %I WHERE n > 0', tab) INTO r;
			INSERT INTO seen (who, tab, rows, states, n) VALUES (who, tab, r.rows, r.states, r.n);
			COMMIT;
		END LOOP;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
CREATE TABLE going (); INSERT INTO going DEFAULT VALUES;
SQL

# Until enough has happened; then none of them has seen anything odd.
sub check_seen
{
	my ($what) = @_;

	is(down("SELECT count(*) FROM seen WHERE rows < $rows OR states <> 1"), 0, "$what: each state that was seen was whole")
	  or diag down("SELECT * FROM seen WHERE rows < $rows OR states <> 1 ORDER BY turn LIMIT 5");
	is(down('SELECT count(*) FROM (SELECT n, lag(n) OVER (PARTITION BY who, tab ORDER BY turn) AS before FROM seen) s WHERE n < before'), 0, "$what: and none came back");
	cmp_ok(down('SELECT count(*) FROM seen'), '>', 20, "$what: many were seen");
	return;
}

foreach my $round (1 .. 6)
{
	my @readers = map { RoseTest::Session->new($replica) } 1 .. 2;
	my $control = RoseTest::Session->new($replica);
	my @points = qw(copy-reading copy-loaded replace-ready replace-switched copy-committed);

	down('TRUNCATE seen; TRUNCATE going; INSERT INTO going DEFAULT VALUES');
	$readers[$_]->start("CALL read_on($_)") foreach 0, 1;
	foreach my $step (1 .. 6)
	{
		my $table = pick(@tables);
		my $what = pick('change', 'resync', 'resync', 'pause', 'cancel', 'alter');

		next_state($table);
		down("SELECT rose.alter_subscription('s', resync => '$table')") if $what ne 'change' && $what ne 'pause';
		next_state(pick('composite', 'parted'));
		if ($what eq 'pause')
		{
			down("SELECT rose.pause_table('s', '$table')") if down("SELECT state FROM rose.stat_subscription_tables WHERE relname = '$table'") eq 'ready';
			next_state('composite');
			down("SELECT rose.alter_subscription('s', resync => '$table')");
		}
		down("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rose replication copier'") if $what eq 'cancel';
		down("SELECT rose.alter_subscription('s', accept => 'resync')") if $what eq 'alter' && rand() < 0.3;
		sleep rand(0.5);
	}
	if (rand() < 0.5)
	{
		my $point = pick(@points);

		$control->run("SELECT stop_at('$point', 'crash', 'worker')");
		$replica->psql('postgres', "SELECT rose.alter_subscription('s', resync => '" . pick(@tables) . "')");
		diag("round $round: crash at $point");
		# until the session that has armed it is gone
		sleep 0.1 while eval { $control->run('SELECT 1') };
		wait_until_up($replica);
	}
	down('TRUNCATE going');
	foreach my $reader (@readers)
	{
		eval { $reader->finish };
		$reader->end;
	}
	$control->end;
	down("SELECT rose.alter_subscription('s')");
	synced();
	check_seen("round $round");
	same("round $round: as upstream", @tables);
	foreach my $table (qw(composite nokey parted_0 parted_1 parted_2))
	{
		is(down("SELECT count(*) FROM rose.check('$table')"), 0, "round $round: nothing is wrong with $table");
	}
}
is(down("SELECT count(*) FROM pg_class WHERE relname ~ '^pg_temp_[0-9]'"), 0, 'nothing is left behind');
is(down("SELECT count(*) FROM rose.subscription_old_rows"), 0, 'no rows are old');

$_->stop foreach $replica, $upstream;
done_testing();
