# Changes that do not fit the rows here, counted (count_conflicts): a model of both sides knows each. Rows part by changes that the upstream does not publish, and with
# durability "local" by local writes. Keys of one column and of several, a column of ours, large values that are not sent, partitions, keys that come again in a transaction, keys that
# change, transactions larger than memory, TRUNCATE; workers that are terminated, spills, merges, paused tables, tables that are copied again, rose.repair, crashes.
# With "certain", what should be there counts at most as often as it is missing, and the rest exactly. Where both sides write at the same time, what is counted must add up with the rows that there are.
#
#   CONFLICTS_SEED	of all of it
#   CONFLICTS_ROUNDS	(8) for each durability
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in counts no conflicts' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $rounds = $ENV{CONFLICTS_ROUNDS} // how_many(8, 30);
seed_random('CONFLICTS_SEED');

my $upstream = upstream_node('autovacuum = off', rand() < 0.5 ? "logical_decoding_work_mem = '64kB'" : ());
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '50ms'", "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'restart_after_crash = on');
my @tables = qw(t k parts);
my @kinds = qw(insert_exists update_exists update_missing delete_missing);
my $all = 'insert, update, delete, truncate';
my (%up, %here);		# by table: rows upstream, 1 or, with a large value, 2; and which keys have a row here
my (%counts, %first, %last);	# by table
my $value = 0;
my @journal;

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub pick { return $_[ int(rand(@_)) ] }
sub applied { return wait_for_apply($upstream, $replica) }

# ---- keys: a number each

sub columns_of { return $_[0] eq 'k' ? 'a, b' : 'id' }
sub values_of { my ($table, $n) = @_; return $table eq 'k' ? ($n % 7) . ", 'b" . int($n / 7) . "'" : $n }
sub where { my ($table, $n) = @_; return '(' . columns_of($table) . ') = (' . values_of($table, $n) . ')' }
sub shown { my ($table, $n) = @_; my $values = values_of($table, $n); $values =~ s/'//g; return '(' . columns_of($table) . ")=($values)" }

# ---- the model

sub conflict
{
	my ($table, $kind, $n) = @_;

	$counts{$table}{$kind}++;
	$last{$table} = "$kind " . shown($table, $n);
	$first{$table} //= $last{$table};
	return;
}

sub forget_counts
{
	%counts = map { $_ => { map { $_ => 0 } @kinds } } @tables;
	%first = %last = ();
	return;
}

# partial: some value is not sent, or not the upstream's.
sub event
{
	my ($table, $what, $n, $to, $partial) = @_;
	my $rows = $here{$table};

	if ($what eq 'insert')
	{
		conflict($table, 'insert_exists', $n) if $rows->{$n};
		$rows->{$n} = 1;
	}
	elsif ($what eq 'update')
	{
		conflict($table, 'update_missing', $n) if !$rows->{$n};
		$rows->{$n} = 1 if !$partial;
	}
	elsif ($what eq 'move')
	{
		my $was = delete $rows->{$n};

		conflict($table, 'update_missing', $n) if !$was;
		conflict($table, 'update_exists', $to) if $rows->{$to};
		$rows->{$to} = 1 if $was || !$partial;
	}
	elsif ($what eq 'delete')
	{
		conflict($table, 'delete_missing', $n) if !delete $rows->{$n};
	}
	else
	{
		%$rows = ();
	}
	return;
}

# One statement, and what comes of it (events).
sub change
{
	my ($table, $events) = @_;
	my $rows = $up{$table};
	# also keys of which only we have rows
	my @ours = sort { $a <=> $b } grep { $_ < 40 && !$rows->{$_} } keys %{ $here{$table} };
	my ($n, $to) = map { @ours && rand() < $_ ? pick(@ours) : int(rand(40)) } 0.2, 0.5;
	my $dice = rand();
	my $large = $table ne 'k' && rand() < 0.3;
	my $doc = $table eq 'k' ? '' : $large ? ", repeat(md5('$value'), 100)" : ", 'small'";

	$value++;
	if ($dice < 0.01)
	{
		%$rows = ();
		push @$events, [ $table, 'truncate' ];
		return "TRUNCATE $table";
	}
	if (!$rows->{$n})
	{
		$rows->{$n} = $large ? 2 : 1;
		push @$events, [ $table, 'insert', $n ];
		return "INSERT INTO $table VALUES (" . values_of($table, $n) . ", $value$doc)";
	}
	if ($dice < 0.35)
	{
		delete $rows->{$n};
		push @$events, [ $table, 'delete', $n ];
		return "DELETE FROM $table WHERE " . where($table, $n);
	}
	if ($dice < 0.55 && !$rows->{$to})
	{
		$rows->{$to} = delete $rows->{$n};
		push @$events, [ $table, 'move', $n, $to, $table eq 'k' || $rows->{$to} == 2 ];
		return "UPDATE $table SET (" . columns_of($table) . ', v) = (' . values_of($table, $to) . ", $value) WHERE " . where($table, $n);
	}
	if ($table ne 'k' && $dice < 0.7)
	{
		$rows->{$n} = $large ? 2 : 1;
		push @$events, [ $table, 'update', $n, undef, 0 ];
		return "UPDATE $table SET (v, doc) = ROW($value$doc) WHERE " . where($table, $n);
	}
	push @$events, [ $table, 'update', $n, undef, $table eq 'k' || $rows->{$n} == 2 ];
	return "UPDATE $table SET v = $value WHERE " . where($table, $n);
}

sub transaction
{
	my ($silent) = @_;
	my @events;
	my @sql = map { change(pick(@tables), \@events) } 1 .. int(random_between(1, 12));

	push @journal, ($silent ? 'silent: ' : '') . join('; ', @sql);
	up("ALTER PUBLICATION p SET (publish = '')") if $silent;
	up(join('; ', 'BEGIN', @sql, 'COMMIT'));
	up("ALTER PUBLICATION p SET (publish = '$all')") if $silent;
	event(@$_) foreach $silent ? () : @events;
	return;
}

# Larger than memory here: some are there already, all change twice, some go.
sub large_transaction
{
	my $from = 1000 * (1 + int(rand(5)));
	my $to = $from + 20_000;

	push @journal, "large from $from";
	my @sql = ('BEGIN', "DELETE FROM t WHERE id >= 1000", "INSERT INTO t SELECT g, $value, repeat(md5(g::text), 8) FROM generate_series($from, $to) g", "UPDATE t SET v = v + 1 WHERE id >= 1000",
		"DELETE FROM t WHERE id >= 1000 AND id % 2 = 0", "INSERT INTO t SELECT g, $value, repeat(md5(g::text), 8) FROM generate_series($from, $to) g WHERE g % 4 = 0", "UPDATE t SET v = v + 1 WHERE id >= 1000", 'COMMIT');
	up(join('; ', @sql));
	event('t', 'delete', $_) foreach sort { $a <=> $b } grep { $_ >= 1000 } keys %{ $up{t} };
	delete $up{t}{$_} foreach grep { $_ >= 1000 } keys %{ $up{t} };
	event('t', 'insert', $_) foreach $from .. $to;
	event('t', 'update', $_) foreach $from .. $to;
	event('t', 'delete', $_) foreach grep { $_ % 2 == 0 } $from .. $to;
	event('t', 'insert', $_) foreach grep { $_ % 4 == 0 } $from .. $to;
	$up{t}{$_} = 1 foreach grep { $_ % 2 || $_ % 4 == 0 } $from .. $to;
	event('t', 'update', $_) foreach grep { $_ % 2 || $_ % 4 == 0 } $from .. $to;
	# in which order the upstream finds them is its own
	$last{t} = undef;
	return;
}

# When all is applied.
sub local_writes
{
	my $table = pick(@tables);
	my @sql;

	foreach (1 .. int(random_between(1, 5)))
	{
		my $n = int(rand(40));

		if (!$here{$table}{$n})
		{
			$here{$table}{$n} = 1;
			push @sql, "INSERT INTO $table (" . columns_of($table) . ', v) VALUES (' . values_of($table, $n) . ', 0)';
		}
		elsif (rand() < 0.7)
		{
			delete $here{$table}{$n};
			push @sql, "DELETE FROM $table WHERE " . where($table, $n);
		}
		else
		{
			push @sql, "UPDATE $table SET v = -1 WHERE " . where($table, $n);
		}
	}
	push @journal, 'here: ' . join('; ', @sql);
	down(join('; ', 'BEGIN', @sql, 'COMMIT'));
	# what is rolled back is nothing
	my $n = int(rand(40));
	down("BEGIN; DELETE FROM $table WHERE " . where($table, $n) . "; INSERT INTO $table (" . columns_of($table) . ', v) VALUES (' . values_of($table, $n) . ', 0); ROLLBACK');
	return;
}

sub disturb
{
	my ($logged) = @_;
	my $how = pick(qw(none terminate spill merge pause resync repair switch));
	my $table = pick(@tables);
	my $leaf = $table eq 'parts' ? 'parts_' . int(rand(3)) : $table;

	push @journal, "$how $table";
	if ($how eq 'terminate') { down('SELECT pg_terminate_backend(pid) FROM rose.stat_subscription WHERE pid IS NOT NULL') }
	elsif ($how eq 'spill') { down("SELECT rose.spill('$leaf')") }
	elsif ($how eq 'merge') { down("SELECT rose.merge('$leaf')") }
	elsif ($how eq 'pause')
	{
		down("SELECT rose.pause_table('s', '$table')");
		transaction(0) foreach 1 .. 3;
		down("SELECT rose.resume_table('s', '$table')");
	}
	elsif ($how eq 'resync')
	{
		applied();
		down("SELECT rose.alter_subscription('s', resync => '$table')");
		down("SELECT rose.wait_for_sync('s', $timeout)");
		$here{$table} = { map { $_ => 1 } keys %{ $up{$table} } };
	}
	elsif ($how eq 'repair')
	{
		applied();
		down("SELECT * FROM rose.repair('s', '$table', timeout_seconds => $timeout, max_keys => 10000)");
		$here{$table} = { map { $_ => 1 } keys %{ $up{$table} } };
	}
	elsif ($how eq 'switch')
	{
		# it is the same twice, but for the worker
		down("SELECT rose.alter_subscription('s', count_conflicts => 'exact')");
	}
	return;
}

# ---- comparing

sub counted
{
	return join "\n", map { my $t = $_; down("SELECT concat_ws(' ', relname, confl_insert_exists, confl_update_exists, confl_update_missing, confl_delete_missing) FROM rose.stat_subscription_tables WHERE relname = '$t'") } @tables;
}

sub expected
{
	return join "\n", map { my $t = $_; join ' ', $t, map { $counts{$t}{$_} } @kinds } @tables;
}

sub ends_of { my ($end) = @_; return { map { split /\|/, $_, 2 } split /\n/, down("SELECT relname, concat_ws(' ', ${end}_conflict, ${end}_conflict_key) FROM rose.stat_subscription_conflicts WHERE ${end}_conflict_lsn IS NOT NULL AND ${end}_conflict_time <= clock_timestamp()") } }

sub keys_differ
{
	my @problems;

	foreach my $table (@tables)
	{
		my $there = down("SELECT string_agg(concat_ws(', ', " . columns_of($table) . "), ' ' ORDER BY concat_ws(', ', " . columns_of($table) . ")::text COLLATE \"C\") FROM $table");
		my $wanted = join ' ', sort map { my $key = values_of($table, $_); $key =~ s/'//g; $key } keys %{ $here{$table} };

		push @problems, "$table: " . substr($there, 0, 2000) . ' but should be ' . substr($wanted, 0, 2000) if $there ne $wanted;
	}
	return join "\n", @problems;
}

sub compare
{
	my ($name) = @_;

	applied();
	my $good = is(counted(), expected(), "$name: counts") & is(keys_differ(), '', "$name: rows");
	my ($first, $last) = (ends_of('first'), ends_of('last'));
	# those of several partitions are written one partition after the other
	my @wrong = grep { $_ ne 'parts' } grep { defined $last{$_} && ($last->{$_} // '') ne $last{$_} || ($first->{$_} // '') ne ($first{$_} // '') } grep { exists $last{$_} } @tables;
	$good &= is(join(' ', map { "$_: first $first->{$_}, not $first{$_}; last $last->{$_}, not " . ($last{$_} // '-') } @wrong), '', "$name: the first and the last");
	BAIL_OUT(join "\n", @journal) if !$good && $ENV{CONFLICTS_BAIL};
	diag(join "\n", @journal) if !$good;
	return $good;
}

# ---- both write at the same time

# Of each kind of change, how many there were, and how many of these found no row, or one, must lead from the rows before to the rows now.
sub race
{
	my $keys = 12;

	up("TRUNCATE race");
	applied();
	my $before = down("SELECT concat_ws(' ', inserts, deletes, updates, confl_insert_exists, confl_delete_missing, confl_update_missing) FROM rose.stat_subscription_tables WHERE relname = 'race'");
	down('TRUNCATE race_local');
	my $local = $replica->basedir . '/race_local.sql';
	my $remote = $upstream->basedir . '/race_remote.sql';
	append_to_file($local, <<SQL);
\\set k random(1, $keys)
\\set end random(1, 6)
BEGIN;
WITH gone AS (DELETE FROM race WHERE id = :k RETURNING 1) INSERT INTO race_local SELECT -count(*) FROM gone;
\\if :end = 1
ROLLBACK;
\\else
COMMIT;
\\endif
\\set k random(1, $keys)
BEGIN;
WITH new AS (INSERT INTO race (id, v) VALUES (:k, 0) ON CONFLICT DO NOTHING RETURNING 1) INSERT INTO race_local SELECT count(*) FROM new;
COMMIT;
\\sleep 1 ms
SQL
	append_to_file($remote, <<SQL);
\\set k random(1, $keys)
\\set what random(1, 3)
\\if :what = 1
DELETE FROM race WHERE id = :k;
\\elif :what = 2
INSERT INTO race (id, v) VALUES (:k, 1) ON CONFLICT DO NOTHING;
\\else
UPDATE race SET v = v + 1 WHERE id = :k;
\\endif
SQL
	my @runs = map { my ($node, $script, $clients, $n) = @$_; my ($out, $err) = ('', ''); IPC::Run::start([ 'pgbench', '-n', '-f', $script, '-c', $clients, '-t', $n, '--random-seed', int(rand(1e9)), $node->connstr('postgres') ], '>', \$out, '2>', \$err) }
	  [ $replica, $local, 3, 150 ], [ $upstream, $remote, 2, 600 ];
	ok((grep { $_->finish } @runs) == 2, 'both have written');
	applied();
	my $after = down("SELECT concat_ws(' ', inserts, deletes, updates, confl_insert_exists, confl_delete_missing, confl_update_missing) FROM rose.stat_subscription_tables WHERE relname = 'race'");
	my ($inserts, $deletes, $updates, $exists, $no_delete, $no_update) = do { my @b = split / /, $before; my @a = split / /, $after; map { $a[$_] - $b[$_] } 0 .. 5 };
	my $of_ours = down('SELECT coalesce(sum(n), 0) FROM race_local');

	note("inserts $inserts, $exists over a row; deletes $deletes, $no_delete of none; updates $updates, $no_update of none; rows of ours $of_ours");
	ok($exists > 0 && $no_delete > 0 && $no_update > 0, 'there were conflicts of each kind');
	is(down('SELECT count(*) FROM race'), $of_ours + $inserts - $exists - ($deletes - $no_delete) + $no_update, 'what was counted adds up with the rows that there are');
	return;
}

# What no epoch had made durable comes again, and counts as it did.
sub again
{
	foreach my $try (1 .. 10)
	{
		down("SELECT rose.spill('t')");
		crash_and_restart($replica);
		applied();
		forget_counts();
		my $epoch = down('SELECT epoch FROM rose.stat_subscription');
		transaction(rand() < 0.3) foreach 1 .. 8;
		applied();
		crash_and_restart($replica);
		applied();
		# one may have come, on a busy machine
		next if down('SELECT epoch FROM rose.stat_subscription') ne $epoch && $try < 10;
		return compare('upstream, what comes again after a crash');
	}
	return;
}

# ---- all of it

foreach my $durability ('upstream', 'local')
{
	my $logged = $durability eq 'local';

	up('CREATE TABLE t (id int PRIMARY KEY, v int, doc text); CREATE TABLE k (a int, b text, v int, PRIMARY KEY (a, b)); CREATE TABLE parts (id int PRIMARY KEY, v int, doc text); CREATE TABLE race (id int PRIMARY KEY, v int)');
	up("ALTER TABLE $_ ALTER doc SET STORAGE EXTERNAL") foreach qw(t parts);
	up("INSERT INTO $_ SELECT g, 0 FROM generate_series(0, 19) g") foreach qw(t parts);
	up("INSERT INTO k SELECT g % 7, 'b' || g / 7, 0 FROM generate_series(0, 19) g");
	up('CREATE PUBLICATION p FOR TABLE t, k, parts, race');
	down('CREATE TABLE t (id int PRIMARY KEY, v int, doc text) USING rose; CREATE TABLE k (here int DEFAULT 7, b text, a int, v int, PRIMARY KEY (a, b)) USING rose; CREATE TABLE race (id int PRIMARY KEY, v int) USING rose; CREATE TABLE race_local (n int)');
	down('CREATE TABLE parts (v int, id int PRIMARY KEY, doc text) PARTITION BY HASH (id)');
	down("CREATE TABLE parts_$_ PARTITION OF parts FOR VALUES WITH (MODULUS 3, REMAINDER $_) USING rose") foreach 0 .. 2;
	down('SET rose.secondary_indexes = on; CREATE INDEX ON k (v, here); CREATE INDEX ON t (v)') if rand() < 0.6;
	subscribe($upstream, $replica, undef, "durability => '$durability'", "count_conflicts => 'exact'");
	foreach my $table (@tables)
	{
		$up{$table} = { map { $_ => 1 } 0 .. 19 };
		$here{$table} = { map { $_ => 1 } 0 .. 19 };
	}
	forget_counts();
	@journal = ();

	foreach my $round (1 .. $rounds)
	{
		foreach (1 .. int(random_between(3, 9)))
		{
			transaction(rand() < 0.25);
			disturb($logged) if rand() < 0.25;
			if ($logged && rand() < 0.3)
			{
				applied();
				local_writes();
			}
		}
		large_transaction() if $round == int($rounds / 2);
		last if !compare("$durability, round $round");
	}
	note("$durability: $_: " . join ', ', map { my $t = $_; map { "$t $_ $counts{$t}{$_}" } @kinds } $_) foreach @tables;
	ok((grep { my $t = $_; grep { $counts{$t}{$_} > 0 } @kinds } @tables) > 0, "$durability: there were conflicts");

	# A crash: what was counted goes with the memory. The stream repeats what was not durable, as it was, and that is counted as it was.
	down("SELECT rose.spill('t')");
	crash_and_restart($replica);
	applied();
	is(counted(), join("\n", map { "$_ 0 0 0 0" } @tables), "$durability: counts are of this start of the server");
	forget_counts();
	transaction(rand() < 0.3) foreach 1 .. 15;
	compare("$durability, after a crash");
	again() if !$logged;

	race() if $logged;

	# Certain ones.
	down("SELECT rose.alter_subscription('s', count_conflicts => 'certain')");
	transaction(rand() < 0.3) foreach 1 .. 30;
	applied();
	my %found = map { my @f = split; $f[0] => [ @f[ 1 .. 4 ] ] } split /\n/, counted();
	foreach my $table (@tables)
	{
		my @n = @{ $found{$table} };
		my @model = map { $counts{$table}{$_} } @kinds;

		is("@n[0, 1]", "@model[0, 1]", "$durability: certain: rows that are there, $table");
		ok($n[2] <= $model[2] && $n[3] <= $model[3], "$durability: certain: no more than there are, $table") || diag("@n, but @model");
	}

	# Off.
	down("SELECT rose.alter_subscription('s', count_conflicts => 'off')");
	my $before = counted();
	transaction(rand() < 0.3) foreach 1 .. 15;
	applied();
	is(counted(), $before, "$durability: off");
	is(keys_differ(), '', "$durability: rows at the end");
	down("SELECT rose.drop_subscription('s')");
	foreach my $leaf (qw(t k parts_0 parts_1 parts_2))
	{
		is(down("SELECT c::text FROM rose.check('$leaf') c"), '', "$durability: $leaf is sound");
	}
	down('DROP TABLE t, k, parts, race, race_local');
	up('DROP PUBLICATION p; DROP TABLE t, k, parts, race');
}

$replica->stop;
$upstream->stop;
done_testing();
