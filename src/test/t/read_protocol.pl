# What snapshots that are open see, while others write, spill and merge. A heap table and a rose table are changed by the same
# transactions, and each row that a query returns has both tables' values of one key; they must be the same, however the query was asked: by cursors
# that stay open, holdable ones, portals that are executed in parts, several statements before one Sync, function calls without SQL, COPY,
# procedures that commit between two rows, functions that open cursors in the midst of a query, exported snapshots, walsenders. For garbage
# collection has to find every one of these snapshots. Environment:
#
#   PROTOCOL_SEED      repeat a run (who is faster in what runs beside the rest is not repeated)
#   PROTOCOL_STEPS     how many, default 600
#   PROTOCOL_SESSIONS  default 5
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseProtocol;
use RoseTest;
use Test::More;

my $steps = $ENV{PROTOCOL_STEPS} // 600;
my $nsessions = $ENV{PROTOCOL_SESSIONS} // 5;
my $keys = 60;
my $seed = seed_random('PROTOCOL_SEED');

my $node = rose_node('protocol', 'autovacuum = off', 'fsync = off', rose_conf("rose.spill_interval = '1h'"));
my $writer = RoseProtocol->new($node);
my $wrong = 0;
my %count;

$writer->query(<<"SQL");
CREATE TABLE h (id int PRIMARY KEY, v bigint) USING heap;
CREATE TABLE r (id int PRIMARY KEY, v bigint) USING rose;
CREATE TABLE taken (id int, same bool) USING heap;
INSERT INTO h SELECT g, 0 FROM generate_series(1, $keys) g;
INSERT INTO r TABLE h;
CREATE FUNCTION of_h(int) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS 'BEGIN RETURN (SELECT v FROM h WHERE id = \$1); END';
CREATE FUNCTION of_r(int) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS 'BEGIN RETURN (SELECT v FROM r WHERE id = \$1); END';
SQL
$writer->query(<<'SQL');
CREATE FUNCTION same(int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN (SELECT coalesce((SELECT v FROM h WHERE id = $1), -1) = coalesce((SELECT v FROM r WHERE id = $1), -1));
END $$;
CREATE FUNCTION same_or_fails(int) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	answer boolean;
BEGIN
	BEGIN
		answer := same($1);
		PERFORM 1 / ($1 % 2);
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	RETURN coalesce(answer, same($1));
END $$;
CREATE FUNCTION opens(name text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	c refcursor := name;
BEGIN
	IF NOT EXISTS (SELECT FROM pg_cursors p WHERE p.name = opens.name) THEN
		OPEN c FOR SELECT id, v, (SELECT v FROM r WHERE r.id = h.id) FROM h ORDER BY id;
	END IF;
	RETURN true;
END $$;
CREATE FUNCTION row_by_row() RETURNS TABLE (id int, a bigint, b bigint) LANGUAGE sql VOLATILE AS
	'SELECT id, v, (SELECT v FROM h WHERE h.id = r.id) FROM r ORDER BY id';
CREATE PROCEDURE commits(every int) LANGUAGE plpgsql AS $$
DECLARE
	c record;
	n int := 0;
BEGIN
	FOR c IN SELECT h.id, v, (SELECT v FROM r WHERE r.id = h.id) AS rose FROM h ORDER BY id LOOP
		n := n + 1;
		IF c.v IS DISTINCT FROM c.rose OR NOT same(c.id) THEN
			RAISE 'procedure: %', c USING ERRCODE = 'RO001';
		END IF;
		PERFORM pg_sleep(0.001);
		IF n % every = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;
SQL
my ($opens_oid) = map { $_->[0] } $writer->query("SELECT 'opens(text)'::regprocedure::oid");
my ($export_oid) = map { $_->[0] } $writer->query("SELECT 'pg_export_snapshot()'::regprocedure::oid");

sub pick { return $_[ rand @_ ] }

# ---- what goes on beside ----

# A transaction that changes both tables alike, and maintenance.
sub work
{
	my $change = pick(('UPDATE %s SET v = v + 1') x 3, 'DELETE FROM %s WHERE id % 7 = ' . int(rand(7)),
		"INSERT INTO %s SELECT g, " . int(rand(99)) . " FROM generate_series(1, $keys) g ON CONFLICT DO NOTHING",
		'UPDATE %s SET v = v + 10 WHERE id % 3 = ' . int(rand(3)));
	my $end = pick(('COMMIT') x 4, 'ROLLBACK');

	$writer->query('BEGIN; ' . join('; ', map { $change =~ s/%s/$_/r } qw(h r)) . "; $end");
	return if $ENV{ROSE_STANDIN};
	$writer->query("SELECT rose.spill('r')") if rand() < 0.7;
	$writer->query("SELECT rose.merge('r')") if rand() < 0.8;
	return;
}

# ---- queries: id, the value of one table, the value of the other, and true ----

my $of_rose = 'SELECT id, v, (SELECT v FROM h WHERE h.id = r.id) FROM r';
my $of_heap = 'SELECT id, v, (SELECT v FROM r WHERE r.id = h.id) FROM h';

sub query
{
	my ($form, $id) = @{ pick(
		[ 'SELECT id, v, (SELECT v FROM h WHERE h.id = r.id)%s FROM r', 'id' ], [ 'SELECT id, v, (SELECT v FROM r WHERE r.id = h.id)%s FROM h', 'id' ],
		[ 'SELECT id, v, of_h(id)%s FROM r', 'id' ], [ 'SELECT id, v, of_r(id)%s FROM h', 'id' ],
		[ 'SELECT a.id, a.v, r.v%s FROM h a LEFT JOIN LATERAL (SELECT v FROM r WHERE r.id = a.id OFFSET 0) r ON true', 'a.id' ],
		[ 'SELECT id, a, b%s FROM (SELECT (row_by_row()).*) z', 'id' ],
		[ 'SELECT id, a, b%s FROM (SELECT row_by_row() l) z, LATERAL (SELECT (l).id, (l).a, (l).b) y', 'id' ]) };
	my $more = pick('', '', ", same($id)", ", same_or_fails($id)", ", opens('in" . int(rand(3)) . "')");

	return sprintf($form, $more) . pick(' ORDER BY 1', ' ORDER BY 1 DESC', '');
}

# ---- sessions ----

my $named = 0;

sub new_session
{
	my $is_walsender = rand() < 0.15;

	return { client => RoseProtocol->new($node, replication => $is_walsender), is_walsender => $is_walsender, open => 0, cursors => [], portals => [], savepoints => 0 };
}

sub name
{
	return $_[0] . ++$named;
}

sub forget
{
	my ($session) = @_;

	@$session{qw(open cursors portals savepoints)} = (0, [], [], 0);
	return;
}

sub look_at
{
	my ($how, @rows) = @_;

	$count{$how} += @rows;
	foreach my $row (@rows)
	{
		my ($id, $a, $b, $true) = @$row;

		next if ($a // 'none') eq ($b // 'none') && (@$row < 4 || $true eq 't');
		$wrong++;
		diag("a difference, PROTOCOL_SEED=$seed, $how: " . join(' ', map { $_ // 'none' } @$row));
		last;
	}
	return;
}

sub ask
{
	my ($session, $how, $sql) = @_;

	look_at($how, $session->{client}->query($sql));
	return;
}

my @settings = ('SET enable_seqscan = off', 'SET enable_hashjoin = off; SET enable_mergejoin = off', 'SET plan_cache_mode = force_generic_plan',
	always_parallel($node) . '; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0', 'SET cursor_tuple_fraction = 0.01', (map { join '; ', map { "SET $_" } scan_settings() } 1 .. 2), 'RESET ALL');

# Outside a transaction.
sub begin
{
	my ($session) = @_;
	my $client = $session->{client};

	return $client->query(pick(@settings)) if rand() < 0.15;
	if (rand() < 0.1 && !$session->{is_walsender})
	{
		$client->start('CALL commits(' . (2 + int(rand(28))) . ')');
		$session->{busy} = 1;
		return;
	}
	$client->query('BEGIN ISOLATION LEVEL ' . pick(('READ COMMITTED') x 9, 'REPEATABLE READ'));
	$session->{open} = 1;
	return;
}

sub declare
{
	my ($session, $hold) = @_;
	my $name = name('c');
	my $scroll = pick('', 'NO SCROLL', 'SCROLL');
	my $sql = $hold ? pick($of_rose, $of_heap) : query();

	$session->{client}->query("DECLARE $name $scroll CURSOR " . ($hold ? 'WITH HOLD ' : '') . "FOR $sql");
	push @{ $session->{cursors} }, $name;
	ask($session, 'fetch', "FETCH 3 FROM $name") if rand() < 0.5;
	return;
}

sub open_portal
{
	my ($session, $sync) = @_;
	my $client = $session->{client};
	my $name = $sync && rand() < 0.5 ? '' : name('p');

	$session->{portals} = [ grep { $_ ne '' } @{ $session->{portals} } ] if $name eq '';
	$client->bind_and_execute($name, query(), pick(1, 5, 30));
	push @{ $session->{portals} }, $name;
	look_at('portal', $client->sync) if $sync;
	return;
}

# Several portals and fetches in one go.
sub pipeline
{
	my ($session) = @_;
	my $client = $session->{client};

	for (1 .. 1 + int(rand(3)))
	{
		open_portal($session, 0);
		next if rand() < 0.5 || !@{ $session->{cursors} };
		$client->bind_and_execute('', 'FETCH 2 FROM ' . pick(@{ $session->{cursors} }), 0);
		$session->{portals} = [ grep { $_ ne '' } @{ $session->{portals} } ];
	}
	look_at('pipeline', $client->sync);
	return;
}

sub go_on_with_portal
{
	my ($session) = @_;
	my $client = $session->{client};

	return if !@{ $session->{portals} };
	$client->execute(pick(@{ $session->{portals} }), pick(1, 5, 30));
	look_at('portal', $client->sync);
	return;
}

# Another session reads what this one's snapshot sees.
sub export_snapshot
{
	my ($session, $by_call) = @_;

	return if $session->{savepoints};
	my $client = $session->{client};
	my ($row) = $by_call ? $client->call($export_oid) : $client->query('SELECT pg_export_snapshot()');
	my $importer = RoseProtocol->new($node);

	work();
	$importer->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$row->[0]'");
	foreach my $sql ($of_heap, $of_rose)
	{
		work();
		look_at('import', $importer->query($sql));
	}
	$importer->end;
	return;
}

sub copy_in
{
	my ($session) = @_;
	my $client = $session->{client};

	$client->start('COPY taken FROM STDIN WHERE same(id)');
	$client->wait(1);
	for (1 .. 3)
	{
		work();
		$client->send('d', 1 + int(rand($keys)) . "\tt\n");
	}
	$client->send('c', '');
	$client->wait;
	return;
}

# A query that goes on while others work.
sub start_query
{
	my ($session) = @_;
	my $sql = rand() < 0.7 || !@{ $session->{cursors} } ? 'SELECT z.* FROM (' . query() . ') z, LATERAL (SELECT pg_sleep(0.002), z.*) y'
	  : 'FETCH ALL FROM ' . pick(@{ $session->{cursors} });

	$session->{client}->start($sql);
	$session->{busy} = 1;
	return;
}

sub fail_in_savepoint
{
	my ($session) = @_;

	$session->{client}->query('SAVEPOINT z');
	eval { $session->{client}->query(pick('SELECT 1 / 0', 'SELECT same(id), 1 / (id - 5) FROM h ORDER BY id', 'FETCH 3 FROM nobody')) };
	$session->{client}->query('ROLLBACK TO z; RELEASE z');
	return;
}

# Cursors and portals that were opened since are gone.
sub roll_back_to_savepoint
{
	my ($session) = @_;

	return if !$session->{savepoints};
	$session->{client}->query('ROLLBACK TO a');
	@$session{qw(cursors portals)} = ([], []);
	return if rand() < 0.5;
	$session->{client}->query('RELEASE a');
	$session->{savepoints}--;
	return;
}

sub end_transaction
{
	my ($session) = @_;
	my $client = $session->{client};

	return if rand() < 0.2;
	$client->query(pick('COMMIT', 'COMMIT', 'ROLLBACK'));
	foreach my $row ($client->query('SELECT name FROM pg_cursors WHERE is_holdable'))
	{
		work();
		ask($session, 'held', "FETCH ALL FROM $row->[0]");
		$client->query("CLOSE $row->[0]");
	}
	forget($session);
	return;
}

my %do = (
	declare => sub { declare($_[0], 0) },
	hold => sub { declare($_[0], 1) },
	fetch => sub { my ($s) = @_; ask($s, 'fetch', 'FETCH ' . pick(1, 5, 20, 'ALL') . ' FROM ' . pick(@{ $s->{cursors} })) if @{ $s->{cursors} } },
	close => sub { my ($s) = @_; $s->{client}->query('CLOSE ' . pop @{ $s->{cursors} }) if @{ $s->{cursors} } },
	portal => sub { open_portal($_[0], 1) },
	more => \&go_on_with_portal,
	pipeline => \&pipeline,
	opens => sub { my ($s) = @_; my $name = name('f'); $s->{client}->query("SELECT opens('$name')"); push @{ $s->{cursors} }, $name },
	call => sub { my ($s) = @_; my $name = name('f'); $s->{client}->call($opens_oid, $name); push @{ $s->{cursors} }, $name },
	export => sub { export_snapshot($_[0], 0) },
	export_call => sub { export_snapshot($_[0], 1) },
	savepoint => sub { my ($s) = @_; $s->{client}->query('SAVEPOINT a'); $s->{savepoints}++ },
	rollback => \&roll_back_to_savepoint,
	query => sub { ask($_[0], 'query', query()) },
	start => \&start_query,
	copy => sub { ask($_[0], 'copy', 'COPY (' . query() . ') TO STDOUT') },
	copy_in => \&copy_in,
	explain => sub { $_[0]{client}->query('EXPLAIN ANALYZE ' . query()) },
	fail => \&fail_in_savepoint,
	execute => sub { my ($s) = @_; $s->{client}->query('PREPARE p AS ' . query()); ask($s, 'execute', 'EXECUTE p'); work(); ask($s, 'execute', 'EXECUTE p'); $s->{client}->query('DEALLOCATE p') },
	table => sub { my ($s) = @_; $s->{client}->query("CREATE TEMP TABLE t AS " . $of_heap =~ s/\) FROM/) AS rose FROM/r); ask($s, 'table', 'SELECT * FROM t'); $s->{client}->query('DROP TABLE t') },
	end => \&end_transaction);
my @kinds = (qw(declare declare hold fetch fetch fetch fetch portal portal more more pipeline opens opens call call export export_call savepoint rollback query
	  start start copy copy_in explain fail execute table close close end end end));
my %not_by_walsenders = map { $_ => 1 } qw(portal more pipeline call export_call);

sub step
{
	my ($session) = @_;

	if ($session->{busy})
	{
		$session->{busy} = 0;
		return look_at('start', $session->{client}->wait);
	}
	return begin($session) if !$session->{open};
	my $kind = pick(@kinds);
	$kind = 'fetch' if $session->{is_walsender} && $not_by_walsenders{$kind};
	return $do{$kind}->($session);
}

# A portal that has ended, a cursor that a rollback has closed, a reader that garbage collection has passed by: all these may be; not wrong rows, and no damage.
my %expected = map { $_ => 1 } qw(34000 42P03 25P02 55000 24000 40001 22012 42P05 26000 3B001);

sub after_error
{
	my ($session, $error) = @_;

	die $error if ref $error ne 'HASH';
	$count{"error $error->{state}"}++;
	if (!$expected{ $error->{state} })
	{
		$wrong++;
		diag("an error, PROTOCOL_SEED=$seed: $error->{state} $error->{message}");
	}
	$session->{client}->query('ROLLBACK') if $session->{client}{status} ne 'I';
	forget($session);
	return;
}

my @sessions = map { new_session() } 1 .. $nsessions;
my $done = 0;
while ($done++ < $steps && !$wrong)
{
	my $session = pick(@sessions);

	eval { step($session); 1 } or after_error($session, $@);
	work() if rand() < 0.6;
}
ok(!$wrong, 'all rows that snapshots have seen are those that heap shows (' . join(', ', map { "$_ $count{$_}" } sort keys %count) . ')');
cmp_ok($count{$_} // 0, '>', 0, "rows by $_") foreach qw(fetch portal pipeline);
$_->{client}->end foreach @sessions;
$writer->end;
is($node->safe_psql('postgres', 'SELECT count(*) FROM ((TABLE h EXCEPT TABLE r) UNION ALL (TABLE r EXCEPT TABLE h)) d'), '0', 'both tables have the same rows');
is($node->safe_psql('postgres', "SELECT c::text FROM rose.check('r') c"), '', 'the table is sound') unless $ENV{ROSE_STANDIN};
$node->stop;
done_testing();
