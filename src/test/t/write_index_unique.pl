# No two rows with one value of a unique index, and no row lost: whoever writes between another's look at the value and his entry, and many
# sessions at random, with spills and merges beside, against a model.
#
#   UNIQUE_SEED      repeat a run, as far as timing lets it
#   UNIQUE_SECONDS   how long many sessions write, default 15
#   UNIQUE_SESSIONS  how many, default 8
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $seconds = $ENV{UNIQUE_SECONDS} // 15;
my $sessions = $ENV{UNIQUE_SESSIONS} // 8;
my $seed = seed_random('UNIQUE_SEED');
my $node = rose_node('index_unique', 'autovacuum = off', 'fsync = off', 'max_connections = 60', "deadlock_timeout = '20ms'", 'max_prepared_transactions = 20',
	rose_conf("rose.memtable_size = '4MB'", "rose.debug_piece_size = '8kB'"));
my $using = $ENV{ROSE_STANDIN} ? 'heap' : 'rose';

sub sql { return $node->safe_psql('postgres', $_[0]) }

# The end of what a session does, which may be that another row has the value.
sub finish
{
	my ($session) = @_;

	eval { $session->finish } or $session->{err} =~ /duplicate key/ or $session->{err} eq '' or die $session->{err};
	$session->{err} = '';
	return;
}

# ---- in lockstep ----

SKIP:
{
	skip 'the stand-in has no stop points' if $ENV{ROSE_STANDIN};

	stop_points_create($node);
	my ($ctl, $first, $second) = map { RoseTest::Session->new($node) } 1 .. 3;

	foreach my $arbiter ('(a)', '(abs(a)) WHERE b >= 0')
	{
		my $v = $arbiter eq '(a)' ? 5 : -5;
		my %writes = (
			insert => [ 'insert', 'INSERT INTO t VALUES (%d, 5, 0)' ],
			'do nothing' => [ 'insert', 'INSERT INTO t VALUES (%d, 5, 0) ON CONFLICT DO NOTHING' ],
			upsert => [ 'insert', "INSERT INTO t VALUES (%d, $v, 0) ON CONFLICT $arbiter DO UPDATE SET b = 100" ],
			copy => [ 'insert', "COPY t FROM PROGRAM 'echo %d,$v,0' (FORMAT csv)" ],
			update => [ 'change', 'UPDATE t SET a = 5, b = 0 WHERE id = %d + 100' ]);

		sql("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, a int, b int) USING rose; CREATE UNIQUE INDEX ON t $arbiter");

		# Who stands still has the value's lock: the other one waits for that, not for a transaction.
		foreach my $one (sort keys %writes)
		{
			foreach my $step ('row-looked', 'row-written')
			{
				foreach my $other (sort keys %writes)
				{
					my $point = "$writes{$one}[0]-" . ($writes{$one}[0] eq 'change' && $step eq 'row-looked' ? 'looked' : $step);

					sql('TRUNCATE t; INSERT INTO t VALUES (101, 101, 0), (102, 102, -1)');
					$ctl->run("SELECT stop_at('$point', 'wait', 'client')");
					$first->start(sprintf($writes{$one}[1], 1));
					wait_for_stop($node);
					$second->start(sprintf($writes{$other}[1], 2));
					$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'RoseKeyPartition'")
					  or die 'nobody waits for the value';
					$ctl->run("SELECT go_on('$point')");
					finish($first);
					finish($second);
					is(sql('SELECT count(*) FROM t WHERE abs(a) = 5 AND b >= 0'), 1, "$arbiter: $one stops at $step, $other: one row has the value");
					is(sql("SELECT count(*) FROM rose.check('t')"), 0, '... and entries are those of rows');
					$ctl->run('SELECT stop_clear()');
				}
			}
		}
	}

	# A row that gets another key and keeps its value: another place in the index, which nobody may have passed by.
	sql('TRUNCATE t; INSERT INTO t VALUES (101, 101, 0)');
	$ctl->run("SELECT stop_at('change-row-written', 'wait', 'client')");
	$first->start('UPDATE t SET id = 1 WHERE id = 101');
	wait_for_stop($node);
	$second->start('INSERT INTO t VALUES (2, 101, 0)');
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'RoseKeyPartition'")
	  or die 'nobody waits for the value';
	$ctl->run("SELECT go_on('change-row-written')");
	finish($first);
	finish($second);
	is(sql('SELECT id FROM t WHERE a = 101'), 1, 'the value of a row that moves is locked');
	sql('DROP TABLE t');
	$_->end foreach $ctl, $first, $second;
}

# ---- many sessions ----

# Columns, and what may be the arbiter of ON CONFLICT, if that is not a column.
my @kinds = (
	[ 'with a key', 'id int PRIMARY KEY, a int UNIQUE, b int DEFAULT 0' ],
	[ 'without one', 'id int, a int, b int DEFAULT 0, UNIQUE (a) INCLUDE (b)' ],
	[ 'partial, on an expression', 'id int PRIMARY KEY, a int, b int DEFAULT 0', '(abs(a * 2)) WHERE b >= 0' ]);

foreach my $kind (@kinds)
{
	my ($name, $columns, $index) = @$kind;
	my $arbiter = $index // '(a)';
	my $create = $index ? "CREATE UNIQUE INDEX t_a_key ON t $index" : '';
	my $among = $index ? 'WHERE b >= 0' : '';

	sql(<<"SQL");
CREATE TABLE t ($columns) USING $using;
$create;
CREATE TABLE model (id int, a int, b int);
CREATE INDEX ON model (id);
CREATE SEQUENCE ids;
CREATE PROCEDURE write_rows(until timestamptz, nvalues int) LANGUAGE plpgsql AS \$\$
DECLARE
	new int; v int; w int; found_id int; r record; n int := 0;
BEGIN
	WHILE clock_timestamp() < until LOOP
		BEGIN
			FOR i IN 1 .. 1 + (random() * 3)::int LOOP
				new := nextval('ids'); v := random() * nvalues; w := random() * nvalues;
				CASE (random() * 9)::int
				WHEN 0 THEN
					INSERT INTO t VALUES (new, v);
					INSERT INTO model VALUES (new, v, 0);
				WHEN 1 THEN
					INSERT INTO t VALUES (new, v) ON CONFLICT DO NOTHING RETURNING id INTO found_id;
					IF FOUND THEN INSERT INTO model VALUES (new, v, 0); END IF;
				WHEN 2 THEN
					INSERT INTO t VALUES (new, v) ON CONFLICT $arbiter DO UPDATE SET b = t.b + 1 RETURNING id, b INTO r;
					IF r.id = new THEN INSERT INTO model VALUES (new, v, 0);
					ELSE UPDATE model SET b = b + 1 WHERE id = r.id; END IF;
				WHEN 3 THEN
					FOR r IN UPDATE t SET a = w WHERE a = v RETURNING id LOOP
						UPDATE model SET a = w WHERE id = r.id;
					END LOOP;
				WHEN 4 THEN
					UPDATE t SET id = new, b = 7 WHERE a = v AND b >= 0 RETURNING id INTO found_id;
					IF FOUND THEN DELETE FROM model WHERE a = v AND b >= 0; INSERT INTO model VALUES (new, v, 7); END IF;
				WHEN 5 THEN
					FOR r IN DELETE FROM t WHERE a = v RETURNING id LOOP
						DELETE FROM model WHERE id = r.id;
					END LOOP;
				WHEN 6 THEN
					FOR r IN DELETE FROM t WHERE a = v RETURNING id LOOP
						DELETE FROM model WHERE id = r.id;
					END LOOP;
					INSERT INTO t VALUES (new, v);
					INSERT INTO model VALUES (new, v, 0);
				WHEN 7 THEN
					BEGIN
						INSERT INTO t VALUES (new, v) ON CONFLICT $arbiter DO UPDATE SET a = w, b = -1;
						RAISE EXCEPTION 'back' USING ERRCODE = 'RB000';
					EXCEPTION WHEN SQLSTATE 'RB000' OR unique_violation THEN
						NULL;
					END;
				WHEN 8 THEN
					-- out of the predicate, if there is one, and in again
					FOR r IN UPDATE t SET b = -1 - b WHERE a = v RETURNING id LOOP
						UPDATE model SET b = -1 - b WHERE id = r.id;
					END LOOP;
				ELSE
					FOR r IN UPDATE t SET b = b + 1 WHERE a BETWEEN v AND v + 2 RETURNING id LOOP
						UPDATE model SET b = b + 1 WHERE id = r.id;
					END LOOP;
				END CASE;
			END LOOP;
		EXCEPTION WHEN unique_violation OR deadlock_detected OR serialization_failure THEN
			n := n + 1;
		END;
		IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END \$\$;
SQL
	my $until = sql("SELECT clock_timestamp() + interval '$seconds s'");
	my @writers = map {
		my ($out, $err) = ('', '');
		my $isolation = $_ % 4 == 3 ? "SET default_transaction_isolation = 'repeatable read';" : '';
		{
			err => \$err,
			run => IPC::Run::start([ 'psql', '-Xq', '-d', $node->connstr('postgres'), '-c', $isolation . "SELECT setseed(" . rand() . ")", '-c', "CALL write_rows('$until', 100)" ], '>', \$out, '2>', \$err) }
	} 1 .. $sessions;
	my $n = 0;

	while (sql("SELECT clock_timestamp() < '$until'") eq 't')
	{
		if ($using eq 'rose')
		{
			my $what = rand() < 0.7 ? 'spill' : 'merge';
			$node->psql('postgres', "SELECT rose.$what('t')");
			$node->psql('postgres', "SELECT rose.$what('t_a_key')") if rand() < 0.5;
		}
		# a prepared transaction that has taken or left a value
		if (rand() < 0.5)
		{
			my $v = int(rand(100));
			my $id = 1000000000 + ++$n;
			my ($status) = $node->psql('postgres', "SET lock_timeout = '2s'; BEGIN; INSERT INTO t VALUES ($id, $v); INSERT INTO model VALUES ($id, $v, 0); PREPARE TRANSACTION 'p$n'");
			Time::HiRes::usleep(50000);
			$node->psql('postgres', rand() < 0.5 ? "COMMIT PREPARED 'p$n'" : "ROLLBACK PREPARED 'p$n'") if $status == 0;
		}
	}
	foreach (@writers)
	{
		$_->{run}->finish;
		is(${ $_->{err} }, '', 'a writer has met no error');
	}
	is(sql("SELECT count(*) FROM (SELECT a FROM t $among GROUP BY a HAVING count(*) > 1) d"), 0, "$name: no two rows have one value");
	is(sql('SELECT count(*) FROM (TABLE t EXCEPT ALL TABLE model) d'), 0, '... all rows are the model\'s');
	is(sql('SELECT count(*) FROM (TABLE model EXCEPT ALL TABLE t) d'), 0, '... and none is missing');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, '... and entries are those of rows') if $using eq 'rose';
	cmp_ok(sql('SELECT last_value FROM ids'), '>', $sessions, '... and something was written: ' . sql('SELECT last_value FROM ids'));
	crash_and_restart($node);
	is(sql('SELECT count(*) FROM (TABLE t EXCEPT ALL TABLE model) d'), 0, '... also after a crash');
	is(sql("SELECT count(*) FROM rose.check('t')"), 0, '... and entries are those of rows') if $using eq 'rose';
	sql('DROP TABLE t, model; DROP SEQUENCE ids; DROP PROCEDURE write_rows');
}
$node->stop;
done_testing();
