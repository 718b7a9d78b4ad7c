
# Several sessions in lockstep write the same rows of a heap table and of a rose table, roll back to savepoints and go on, while
# the rose table is spilled and merged in between. Every statement must tell the same of both, and so must every
# way to read them, in each session's snapshot.
#
# Who may write which row is known here, so that nobody ever waits: rows are of the transaction that has
# written or locked them, until it ends or rolls back to a savepoint before.
#
# ROLLED_BACK_SEED repeats a run, ROLLED_BACK_STEPS says how long it is.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no runs' if $ENV{ROSE_STANDIN};

my $steps = $ENV{ROLLED_BACK_STEPS} // 900;
my $seed = seed_random('ROLLED_BACK_SEED');
my $rows = 1000;	# keys 1 .. 1000, and moved ones 1001 .. 2000
my $node = rose_node(
	'rolled_back_random', "rose.memtable_size = '1MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', scan_settings(), 'autovacuum = off',
	'max_prepared_transactions = 10', "statement_timeout = '100s'",
	"rose.debug_piece_size = " . (rand() < 0.5 ? "'8kB'" : "'32MB'"));

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub below { return int rand $_[0] }
sub pick { return $_[ rand @_ ] }

# A session that goes on after errors, and tells their SQLSTATE.
package Lockstep
{
	our @ISA = ('RoseTest::Session');

	sub finish
	{
		my ($self) = @_;

		$self->{psql}->pump until $self->{out} =~ /^end of $self->{n}$/m;
		return $self->{out} =~ s/\n?end of $self->{n}\n//r;
	}

	sub run
	{
		my ($self, $sql) = @_;

		$self->start("$sql;\n\\echo :SQLSTATE");
		return $self->finish =~ s/;$//r;
	}
}

foreach my $table ('h', 't')
{
	my $am = $table eq 'h' ? 'heap' : 'rose';

	sql("CREATE TABLE $table (id int PRIMARY KEY, v int, doc text DEFAULT repeat(md5(random()::text), 8)) USING $am");
	sql("INSERT INTO $table SELECT g, 0, repeat(md5(g::text), 8) FROM generate_series(1, $rows) g");
}

my %owner;			# of a key: [session, depth of savepoints since when]
my @freed;			# keys that were rolled back last
my @log;
my $nprepared = 0;
my @prepared;
my @sessions = map { { name => "s$_", psql => Lockstep->new($node), depth => 0, open => 0 } } 1 .. 5;

# Do it on both tables, and compare. In REPEATABLE READ both may fail.
sub both
{
	my ($session, $statement) = @_;
	my %told;

	push @log, "$session->{name}: $statement";
	foreach my $table ('h', 't')
	{
		my $sql = $statement =~ s/\bTABLE_NAME\b/$table/gr;

		if ($session->{repeatable})
		{
			$told{$table} = $session->{psql}->run("SAVEPOINT x;\n$sql");
			$session->{psql}->run($told{$table} =~ /00000$/ ? 'RELEASE x' : 'ROLLBACK TO x');
		}
		else
		{
			$told{$table} = $session->{psql}->run($sql);
		}
	}
	# which of two rows fails first, and how, is a matter of their order
	s/^23505$/40001/ foreach values %told;
	return $told{h} if $told{h} eq $told{t} && ($told{h} =~ /00000$/ || $session->{repeatable});
	my %in_heap = map { $_ => 1 } split /[,\n]/, $told{h};
	my %in_rose = map { $_ => 1 } split /[,\n]/, $told{t};

	diag("in heap only: ", join(',', grep { !$in_rose{$_} } sort keys %in_heap), "\nin rose only: ", join(',', grep { !$in_heap{$_} } sort keys %in_rose));
	diag("the last statements:\n", join("\n", @log > 60 ? @log[ -60 .. -1 ] : @log), "\n",
		sql("SELECT string_agg(kind || ' ' || rows, ', ') FROM rose.components('t')"), "\nwhat differs:\n",
		$session->{psql}->run('SELECT id, h.v, t.v FROM h FULL JOIN t USING (id) WHERE h.v IS DISTINCT FROM t.v ORDER BY id LIMIT 20'));
	die "step $#log of seed $seed: heap and rose differ";
}

sub alone
{
	my ($session, $statement) = @_;

	push @log, "$session->{name}: $statement";
	my $told = $session->{psql}->run($statement);
	die "step $#log of seed $seed: $statement: $told" if $told !~ /00000$/;
	return;
}

# Keys that nobody else has: one, or many beside each other; often what was rolled back before.
sub some_keys
{
	my ($session) = @_;
	my $n = pick(1, 3, 20, 300, 400, 500);
	my $first = @freed && rand() < 0.6 ? pick(@freed) : 1 + below(2 * $rows);
	my @keys = grep { $_ <= 2 * $rows && (!$owner{$_} || $owner{$_}[0] eq $session->{name}) } $first .. $first + $n - 1;

	# a move needs the key it goes to as well
	@keys = grep { my $to = $_ > $rows ? $_ - $rows : $_ + $rows; !$owner{$to} || $owner{$to}[0] eq $session->{name} } @keys;
	return @keys;
}

# An array of keys in few words.
sub list
{
	my (@keys) = @_;

	return "ARRAY(SELECT generate_series($keys[0], $keys[-1]))" if @keys == $keys[-1] - $keys[0] + 1;
	return "'{" . join(',', @keys) . "}'::int[]";
}

sub own
{
	my ($session, @keys) = @_;

	return if !$session->{open};
	$owner{$_} //= [ $session->{name}, $session->{depth} ] foreach map { ($_, $_ > $rows ? $_ - $rows : $_ + $rows) } @keys;
	return;
}

# What was written at this depth or further in is given up.
sub give_up
{
	my ($session, $depth) = @_;
	my @gone = grep { $owner{$_}[0] eq $session->{name} && $owner{$_}[1] >= $depth } keys %owner;

	delete @owner{@gone};
	@freed = @gone if @gone && $depth > 0;
	return;
}

my $told = 'SELECT count(*), coalesce(sum(v), 0), md5(string_agg(id || \' \' || v, \',\' ORDER BY id)) FROM w';
my @insertions = (
	sub { "WITH w AS (INSERT INTO TABLE_NAME SELECT k, " . below(9) . ", repeat(md5(k::text), 8) FROM unnest($_[0]) k ON CONFLICT (id) DO UPDATE SET v = TABLE_NAME.v + 100 RETURNING *) $told" },
	sub { "WITH w AS (INSERT INTO TABLE_NAME SELECT k, " . below(9) . " FROM unnest($_[0]) k ON CONFLICT DO NOTHING RETURNING *) $told" });
my @changes = (
	sub { "WITH w AS (UPDATE TABLE_NAME SET v = v + 1 + " . below(5) . " WHERE id = ANY($_[0]) RETURNING *) $told" },
	sub { "WITH w AS (UPDATE TABLE_NAME SET v = v + 1, doc = reverse(doc) WHERE id = ANY($_[0]) RETURNING *) $told" },
	sub { "WITH w AS (DELETE FROM TABLE_NAME WHERE id = ANY($_[0]) RETURNING *) $told" },
	sub { "WITH w AS (UPDATE TABLE_NAME SET id = CASE WHEN id > $rows THEN id - $rows ELSE id + $rows END WHERE id = ANY($_[0])"
		  . " AND NOT EXISTS (SELECT FROM TABLE_NAME y WHERE y.id IN (TABLE_NAME.id - $rows, TABLE_NAME.id + $rows)) RETURNING *) $told" },
	sub { "WITH w AS (SELECT * FROM TABLE_NAME WHERE id = ANY($_[0]) ORDER BY id FOR " . pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE') . ") $told" });

sub write_rows
{
	my ($session) = @_;
	my @keys = some_keys($session) or return;

	# heap shows a row that another transaction has deleted since beside the one that is inserted in its place
	both($session, pick(@changes, $session->{repeatable} ? () : @insertions)->(list(@keys)));
	own($session, @keys);
	return;
}

sub begin
{
	my ($session) = @_;

	$session->{repeatable} = rand() < 0.4;
	alone($session, 'BEGIN ISOLATION LEVEL ' . ($session->{repeatable} ? 'REPEATABLE READ' : 'READ COMMITTED'));
	$session->{open} = 1;
	both($session, 'SELECT count(*) FROM TABLE_NAME');
	return;
}

sub end_transaction
{
	my ($session, $how) = @_;

	if ($how eq 'PREPARE')
	{
		my $name = 'p' . $nprepared++;

		alone($session, "PREPARE TRANSACTION '$name'");
		$_->[0] = $name foreach grep { $_->[0] eq $session->{name} } values %owner;
		push @prepared, $name;
	}
	else
	{
		alone($session, $how);
	}
	give_up($session, 0);
	@$session{qw(open depth repeatable)} = (0, 0, 0);
	return;
}

sub end_prepared
{
	my $name = splice @prepared, below(scalar @prepared), 1;

	push @log, "end of $name";
	sql(pick('COMMIT', 'COMMIT', 'ROLLBACK') . " PREPARED '$name'");
	give_up({ name => $name }, 0);
	return;
}

sub savepoints
{
	my ($session) = @_;
	my $what = $session->{depth} == 0 ? 'new' : pick('new', 'back', 'back', 'back', 'release');

	if ($what eq 'new')
	{
		$session->{depth}++;
		alone($session, "SAVEPOINT s$session->{depth}");
	}
	elsif ($what eq 'back')
	{
		my $to = 1 + below($session->{depth});

		maintain('spill') if rand() < 0.5;
		alone($session, "ROLLBACK TO s$to");
		give_up($session, $to);
		$session->{depth} = $to;
		write_again($session) if @freed && rand() < 0.7;
	}
	else
	{
		alone($session, "RELEASE s$session->{depth}");
		$session->{depth}--;
		$_->[1] = $session->{depth} foreach grep { $_->[0] eq $session->{name} && $_->[1] > $session->{depth} } values %owner;
	}
	return;
}

sub maintain
{
	my ($what) = @_;

	$what //= pick('spill', 'spill', 'merge');
	push @log, $what;
	sql("SELECT rose.$what('t')");
	return;
}

# Others write what was rolled back, and that comes to lie behind it; somebody may know what was before.
sub write_again
{
	my ($session) = @_;
	my $other = pick(grep { $_ != $session } @sessions);
	my @keys = grep { !$owner{$_} || $owner{$_}[0] eq $other->{name} } @freed;
	my $key = pick(@keys) // return;

	begin($other) if !$other->{open} && rand() < 0.4;
	foreach my $writer (grep { !$_->{open} } @sessions)
	{
		next if $owner{$key};
		both($writer, "UPDATE TABLE_NAME SET v = v + 1000 WHERE id = $key");
		maintain('merge') if rand() < 0.8;
	}
	compare($_) foreach $session, $other;
	return if $owner{$key} && $owner{$key}[0] ne $other->{name};
	both($other, pick(@changes)->(list($key)));
	own($other, $key);
	return;
}

sub compare
{
	my ($session) = @_;
	my @keys = map { @freed && rand() < 0.7 ? pick(@freed) : 1 + below(2 * $rows) } 1 .. 30;

	both($session, pick(
		"SET enable_seqscan = off;\nSELECT string_agg(k || ' ' || coalesce((SELECT v FROM TABLE_NAME WHERE id = k), -1), ',') FROM unnest('{" . join(',', @keys) . "}'::int[]) k",
		"SET enable_seqscan = on;\nSELECT string_agg(id || ' ' || v, ',' ORDER BY id) FROM TABLE_NAME",
		"SET enable_seqscan = off;\nSELECT string_agg(id || ' ' || v, ',') FROM (SELECT * FROM TABLE_NAME WHERE id > 0 ORDER BY id DESC) x"));
	return;
}

sub step
{
	my $session = pick(@sessions);
	my $dice = rand();

	if ($dice < 0.12) { maintain() }
	elsif ($dice < 0.3) { compare($session) }
	elsif ($dice < 0.6) { write_rows($session) }
	elsif (!$session->{open}) { begin($session) if $dice < 0.9 }
	elsif ($dice < 0.85) { savepoints($session) }
	elsif ($dice < 0.95) { write_rows($session) }
	elsif (@prepared < 3 && rand() < 0.2) { end_transaction($session, 'PREPARE') }
	elsif (@prepared && rand() < 0.3) { end_prepared() }
	else { end_transaction($session, pick('COMMIT', 'COMMIT', 'ROLLBACK')) }
	return;
}

my $private = 0;

foreach my $n (1 .. $steps)
{
	step();
	if ($n % 100 == 0)
	{
		$private += sql("SELECT count(*) FROM rose.components('t') WHERE kind = 'private run'");
		is(sql("SELECT * FROM rose.check('t')"), '', "rose.check after $n steps");
		# with a worker, who joins private runs and merges meanwhile, and without
		sql('ALTER SYSTEM SET rose.max_merge_workers = ' . below(2));
		$node->reload;
	}
}
end_prepared() while @prepared;
end_transaction($_, pick('COMMIT', 'ROLLBACK')) foreach grep { $_->{open} } @sessions;
foreach my $when ('at the end', 'after a merge')
{
	both($sessions[0], 'SELECT count(*), md5(string_agg(id || \' \' || v, \',\' ORDER BY id)) FROM TABLE_NAME');
	is(sql('SELECT count(*) FROM h FULL JOIN t USING (id) WHERE h.v IS DISTINCT FROM t.v'), 0, "the same rows $when");
	is(sql("SELECT * FROM rose.check('t')"), '', "rose.check $when");
	sql("SELECT rose.merge('t')");
}
cmp_ok($private, '>', 0, 'there were private runs');
$_->{psql}->end foreach @sessions;

$node->stop;
done_testing();
