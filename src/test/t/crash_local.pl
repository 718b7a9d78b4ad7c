
# Local writes and SIGKILL: every transaction that was acknowledged is there
# after the restart, one that was not is there wholly or not at all.
#
# Several sessions write by INSERT, COPY, UPDATE, DELETE, with savepoints and
# rollbacks, while other sessions spill and merge the tables and add up sums. What
# a session's transaction k does depends on k alone, and it notes k in a counter:
# after a crash the counter says which contents to expect, row by row.
#
# CRASH_SEED repeats the moments, as far as moments can be repeated;
# CRASH_ROUNDS sets how often the whole server is killed.
use strict;
use warnings;

use IPC::Run;
use List::Util qw(shuffle sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

my $clients = 3;
my $accounts = 40;
my $rounds = $ENV{CRASH_ROUNDS} // 14;
my $backend_kills = 6;
my $ahead = 4000;    # transactions a session has prepared for one round
my $seed = seed_random('CRASH_SEED');
my $dir = PostgreSQL::Test::Utils::tempdir;
my @tables = qw(acct ledger counter);

my $node = rose_node('crash_local', 'autovacuum = on', 'restart_after_crash = on', "statement_timeout = '60s'",
	rose_conf("rose.debug_piece_size = '16kB'"));
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE acct (client int, id int, balance bigint, note text, PRIMARY KEY (client, id)) USING rose;
CREATE TABLE ledger (client int, tx int, i int, amount bigint, pad text, PRIMARY KEY (client, tx, i)) USING rose;
CREATE TABLE counter (client int PRIMARY KEY, n int) USING rose;
INSERT INTO acct SELECT c, a, 1000, 'new' FROM generate_series(1, $clients) c, generate_series(0, $accounts - 1) a;
INSERT INTO counter SELECT c, 0 FROM generate_series(1, $clients) c;
SQL

# The state that is expected: $model[client] = { done, acct, ledger }.
my @model = map { { done => 0, acct => { map { $_ => [ 1000, 'new' ] } 0 .. $accounts - 1 }, ledger => {} } } 0 .. $clients;

sub transfer
{
	my ($k) = @_;
	my $from = $k * 7 % $accounts;
	my $to = ($from + 1 + $k * 13 % ($accounts - 1)) % $accounts;

	return ($from, $to, 1 + $k % 17);
}

# Transaction $k of client $c as a psql script.
sub transaction_sql
{
	my ($c, $k) = @_;
	my ($from, $to, $amount) = transfer($k);
	my $sql = '';

	$sql .= "BEGIN; UPDATE acct SET balance = 0 WHERE client = $c; DELETE FROM ledger WHERE client = $c AND tx > $k - 10;"
	  . " INSERT INTO ledger VALUES ($c, $k, 7, 7, 'undone'); ROLLBACK;\n" if $k % 8 == 0;
	$sql .= "BEGIN;\nUPDATE acct SET balance = balance - $amount, note = 'tx $k' WHERE client = $c AND id = $from;\n";
	$sql .= "UPDATE acct SET balance = balance + $amount WHERE client = $c AND id = $to;\n";
	$sql .= "SAVEPOINT s; UPDATE acct SET balance = -1 WHERE client = $c; DELETE FROM ledger WHERE client = $c; ROLLBACK TO s;\n" if $k % 6 == 0;
	$sql .= 'INSERT INTO ledger VALUES ' . join(', ', map { "($c, $k, $_, $amount * $_, repeat('$_', $k % 100))" } 1 .. 3) . ";\n";
	$sql .= "COPY ledger FROM stdin;\n" . join('', map { "$c\t$k\t$_\t$k\tcopied\n" } 100 .. 139) . "\\.\n" if $k % 10 == 0;
	$sql .= "DELETE FROM ledger WHERE client = $c AND tx = $k - 20;\n" if $k % 3 == 0;
	$sql .= "UPDATE ledger SET amount = amount + 1, pad = 'changed' WHERE client = $c AND tx = $k - 5;\n" if $k % 5 == 0;
	$sql .= "UPDATE ledger SET i = i + 1000 WHERE client = $c AND tx = $k - 1 AND i = 1;\n" if $k % 11 == 0;
	$sql .= "UPDATE counter SET n = $k WHERE client = $c;\nCOMMIT;\n\\echo $k\n";
	return $sql;
}

# The same on the model.
sub transaction_model
{
	my ($c, $k) = @_;
	my ($from, $to, $amount) = transfer($k);
	my $acct = $model[$c]{acct};
	my $ledger = $model[$c]{ledger};

	$acct->{$from} = [ $acct->{$from}[0] - $amount, "tx $k" ];
	$acct->{$to}[0] += $amount;
	$ledger->{$k}{$_} = [ $amount * $_, $_ x ($k % 100) ] foreach 1 .. 3;
	if ($k % 10 == 0)
	{
		$ledger->{$k}{$_} = [ $k, 'copied' ] foreach 100 .. 139;
	}
	delete $ledger->{ $k - 20 } if $k % 3 == 0;
	if ($k % 5 == 0 && $ledger->{ $k - 5 })
	{
		$_ = [ $_->[0] + 1, 'changed' ] foreach values %{ $ledger->{ $k - 5 } };
	}
	if ($k % 11 == 0 && $ledger->{ $k - 1 } && $ledger->{ $k - 1 }{1})
	{
		$ledger->{ $k - 1 }{1001} = delete $ledger->{ $k - 1 }{1};
	}
	$model[$c]{done} = $k;
	return;
}

sub model_rows
{
	my (@acct, @ledger);

	foreach my $c (1 .. $clients)
	{
		my ($acct, $ledger) = @{ $model[$c] }{qw(acct ledger)};
		push @acct, map { "$c|$_|$acct->{$_}[0]|$acct->{$_}[1]" } sort { $a <=> $b } keys %$acct;
		foreach my $k (sort { $a <=> $b } keys %$ledger)
		{
			push @ledger, map { "$c|$k|$_|$ledger->{$k}{$_}[0]|$ledger->{$k}{$_}[1]" } sort { $a <=> $b } keys %{ $ledger->{$k} };
		}
	}
	return (\@acct, \@ledger);
}

sub start_psql
{
	my ($name, $script) = @_;

	unlink "$dir/$name.sql", "$dir/$name.out";
	append_to_file("$dir/$name.sql", $script);
	return IPC::Run::start([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', "$dir/$name.sql" ],
		'>', "$dir/$name.out", '2>', "$dir/$name.err");
}

# Starts the writers, the session that spills and merges, and the one that adds up.
sub start_load
{
	my @running;

	foreach my $c (1 .. $clients)
	{
		my $k = $model[$c]{done};
		push @running, start_psql("client$c", join('', map { transaction_sql($c, $_) } $k + 1 .. $k + $ahead));
	}
	push @running, start_psql('churn', join('', map {
				sprintf("SELECT rose.%s('%s'); SELECT pg_sleep(%.3f);\n", rand() < 0.75 ? 'spill' : 'merge', $tables[ rand @tables ], rand(0.2))
	} 1 .. 500));
	push @running, start_psql('reader', "SELECT sum(balance), count(*) FROM acct; SELECT pg_sleep(0.01);\n" x 2000);
	return @running;
}

sub first_difference
{
	my ($got, $expected) = @_;

	foreach my $n (0 .. ($#$got > $#$expected ? $#$got : $#$expected))
	{
		my ($g, $e) = ($got->[$n] // '(none)', $expected->[$n] // '(none)');
		return "row $n: got $g, expected $e" if $g ne $e;
	}
	return '';
}

# What the server holds against what was acknowledged; '' or the first problem.
sub problem_after
{
	my %counter = map { split /\|/ } split /\n/, $node->safe_psql('postgres', 'SELECT client, n FROM counter ORDER BY client');

	foreach my $c (1 .. $clients)
	{
		my @acks = grep { /^\d+$/ } split /\n/, slurp_file("$dir/client$c.out");
		my $acked = @acks ? $acks[-1] : $model[$c]{done};
		my $err = slurp_file("$dir/client$c.err");

		return "session $c failed: $1" if $err =~ /(ERROR: .*)/;
		return "session $c: $acked acknowledged, but the counter is " . ($counter{$c} // 'gone')
		  if !defined $counter{$c} || $counter{$c} < $acked || $counter{$c} > $acked + 1;
		transaction_model($c, $_) foreach $model[$c]{done} + 1 .. $counter{$c};
	}

	my $sum = $clients * $accounts * 1000;
	my $count = $clients * $accounts;
	foreach my $line (split /\n/, slurp_file("$dir/reader.out"))
	{
		return "a reader saw $line" if $line ne '' && $line ne "$sum|$count";
	}
	foreach my $name (qw(churn reader))
	{
		return "$name: $1" if slurp_file("$dir/$name.err") =~ /(ERROR: .*)/;
	}

	my ($acct, $ledger) = model_rows();
	my @acct = split /\n/, $node->safe_psql('postgres', 'SELECT * FROM acct ORDER BY client, id');
	my @ledger = split /\n/, $node->safe_psql('postgres', 'SELECT * FROM ledger ORDER BY client, tx, i');
	my $difference = first_difference(\@acct, $acct);
	return "acct, $difference" if $difference;
	$difference = first_difference(\@ledger, $ledger);
	return "ledger, $difference" if $difference;
	foreach my $table (@tables)
	{
		my $check = $node->safe_psql('postgres', "SELECT c::text FROM rose.check('$table') c");
		return "rose.check of $table: $check" if $check ne '';
	}
	return '';
}

# SIGKILL to one process of the server, whichever: the server restarts itself.
sub kill_one_process
{
	my @pids = split /\n/, $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type <> 'logger'");

	kill 'KILL', $pids[ rand @pids ];
	usleep(300_000);
	wait_until_up($node);
	return;
}

my @plan = shuffle(('server') x $rounds, ('process') x $backend_kills);
foreach my $n (0 .. $#plan)
{
	my @running = start_load();

	usleep(1_000_000 * random_between(0.15, 1.5));
	if ($plan[$n] eq 'server')
	{
		crash_and_restart($node);
	}
	else
	{
		kill_one_process();
	}
	foreach my $session (@running)
	{
		$session->finish;
	}
	my $problem = problem_after();
	is($problem, '', sprintf('kill %d, %s: %d transactions survived', $n + 1, $plan[$n], sum(map { $_->{done} } @model)));
	last if $problem;
}
cmp_ok($model[1]{done}, '>', @plan, 'the sessions got something done');

# And a clean stop loses nothing either.
$node->restart;
my ($acct, $ledger) = model_rows();
is(first_difference([ split /\n/, $node->safe_psql('postgres', 'SELECT * FROM ledger ORDER BY client, tx, i') ], $ledger), '',
	'the contents are the same after a clean restart');
$node->stop;
done_testing();
