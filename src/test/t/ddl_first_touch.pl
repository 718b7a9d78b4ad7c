
# A restart, after which DDL is the first to touch a table: CLUSTER, VACUUM FULL, indexes, another access method and back, another tablespace, another key, types of columns.
# Some of it is taken back, with its transaction or to a savepoint, behind which the same transaction writes; others wait for the lock meanwhile, and read a moment later; and snapshots
# of before are used behind it. Heap and rose answer the same; a snapshot of before may be refused. Environment: FIRST_SEED, FIRST_CYCLES.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseSqlTables;
use RoseTest;
use Test::More;

plan skip_all => 'heap has nothing to recover' if $ENV{ROSE_STANDIN};

my $seed = seed_random('FIRST_SEED');
my $cycles = $ENV{FIRST_CYCLES} // how_many(4, 60);
my $node = rose_node('first', 'autovacuum = off', 'fsync = off', "rose.memtable_size = '" . pick('1MB', '8MB') . "'", 'allow_in_place_tablespaces = on', 'max_prepared_transactions = 5', 'max_connections = 30');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql("SET allow_in_place_tablespaces = on; CREATE TABLESPACE elsewhere LOCATION ''; CREATE TABLE beside (id int)");
foreach my $twin (qw(heap rose))
{
	sql("CREATE SCHEMA twin_$twin; SET search_path = twin_$twin; CREATE TABLE t (id int PRIMARY KEY, v int, k text NOT NULL, d numeric, doc text) USING $twin; CREATE INDEX t_v ON t (v); CREATE INDEX t_k ON t (lower(k), id);
		CREATE TABLE nokey (id int, v int, k text NOT NULL, d numeric, doc text) USING $twin; CREATE INDEX nokey_v ON nokey (v); CREATE TABLE p (id int, v int, k text NOT NULL, d numeric, doc text, PRIMARY KEY (id, k)) PARTITION BY HASH (id);
		CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING $twin; CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING $twin; CREATE INDEX p_v ON p (v)");
}

# A session for each twin and each part in this.
my %session;

sub sessions
{
	foreach my $twin (qw(heap rose))
	{
		foreach my $who (qw(writer ddl reader waiter))
		{
			$session{"$twin $who"} = RoseTest::Session->new($node);
			$session{"$twin $who"}->run("SET search_path = twin_$twin; SET client_min_messages = error; SET allow_in_place_tablespaces = on");
		}
	}
	return;
}

sub answer
{
	my ($session) = @_;
	my $said = eval { $session->finish };

	return $said if defined $said;
	die $session->{err} if $session->{err} !~ /ERROR/ || $session->{err} =~ /XX000|server closed/;
	$session->{psql}->pump until $session->{out} =~ /^end of $session->{n}\n/m;
	my ($error) = $session->{err} =~ /ERROR:\s+(.*)/;
	$session->{err} = '';
	return "error: $error";
}

sub say
{
	my ($twin, $who, $text) = @_;

	$session{"$twin $who"}->start($text);
	return answer($session{"$twin $who"});
}

my ($different, @done) = (0);

sub compare
{
	my ($what, %said) = @_;

	return if $said{heap} eq $said{rose};
	$different = 1;
	diag(join("\n", "FIRST_SEED=$seed: $what", first_unequal(@said{qw(heap rose)}), @done[ (@done > 60 ? -60 : -@done) .. -1 ]));
	return;
}

sub both
{
	my ($who, $text) = @_;
	my %said = map { $_ => say($_, $who, $text) } qw(heap rose);

	push @done, "$who: $text";
	# names of schemas apart
	s/twin_\w+/twin/g, s/^error: could not (read|access).*/error/ foreach values %said;
	compare($text, %said);
	return;
}

sub change
{
	my ($table) = @_;
	my $where = 'id % ' . pick(2, 3, 7, 20) . ' = ' . int(rand(3));
	my $from = int(rand(3000));

	return pick("UPDATE $table SET v = v + 1 WHERE $where", "UPDATE $table SET k = k || 'x', d = d + 1 WHERE $where", "DELETE FROM $table WHERE $where AND id % 4 = 1", "UPDATE $table SET doc = repeat(id::text, 700) WHERE $where AND id % 5 = 0",
		$table eq 'nokey' ? "INSERT INTO nokey SELECT g, g % 100, 'k' || g, g / 4.0, 'new' FROM generate_series($from, $from + 400) g" : "INSERT INTO $table SELECT g, g % 100, 'k' || g, g / 4.0, 'new' FROM generate_series($from, $from + 400) g ON CONFLICT DO NOTHING");
}

my $counter = 0;

# Statements that make files anew, or read all of one.
sub ddl
{
	my ($table, $am, $open, $reader) = @_;
	my @leaves = $table eq 'p' ? ('p0', 'p1') : ($table);
	my $leaf = pick(@leaves);
	my $index = 'i' . ++$counter;
	my @can = ("CREATE INDEX $index ON $table (" . pick('d', 'k', 'v, k', 'length(doc)') . ')', "REINDEX TABLE $leaf", "ALTER TABLE $leaf SET TABLESPACE elsewhere", "ALTER TABLE $leaf SET TABLESPACE pg_default", "ALTER TABLE $leaf SET ACCESS METHOD heap", "ALTER TABLE $leaf SET ACCESS METHOD $am",
		"ALTER TABLE $leaf SET ACCESS METHOD $am", "ALTER TABLE $leaf SET UNLOGGED; ALTER TABLE $leaf SET LOGGED", "ALTER TABLE $table ALTER v TYPE " . pick('bigint', 'int', 'numeric'), "ALTER TABLE $table ADD COLUMN c$index int DEFAULT " . pick('7', '(random() * 0)::int') . "; ALTER TABLE $table DROP COLUMN c$index", "ANALYZE $table",
		"ALTER TABLE $table ALTER d TYPE numeric(20,3)");
	push @can, "CLUSTER t USING t_pkey", "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD CONSTRAINT t_pkey PRIMARY KEY (" . pick('id', 'k, id', 'id, k') . ')', "ALTER TABLE t ALTER id TYPE " . pick('bigint', 'int', 'numeric') if $table eq 't';
	push @can, "TRUNCATE $table" if rare(0.3);
	push @can, ("VACUUM FULL $leaf", "VACUUM $leaf") x 2 if !$open;
	# they wait for snapshots
	push @can, "CREATE INDEX CONCURRENTLY $index ON $leaf (k)", "REINDEX TABLE CONCURRENTLY $leaf" if !$open && !$reader;
	return pick(@can);
}

my $state = sub { "SELECT count(*), coalesce(sum(id), 0), coalesce(sum(v), 0), md5(string_agg(x::text, '|' ORDER BY x.id, x.v, x.k, x.d, x.doc)) FROM $_[0] x" };

sub states
{
	my ($who) = @_;

	foreach my $table (qw(t nokey p))
	{
		both($who, $state->($table));
		both($who, 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(v) FROM ' . $table . ' WHERE v > -100; RESET enable_seqscan; RESET enable_bitmapscan');
	}
	foreach my $table (qw(t nokey p0 p1))
	{
		next if sql("SELECT amname FROM pg_am a JOIN pg_class c ON c.relam = a.oid WHERE c.oid = 'twin_rose.$table'::regclass") ne 'rose';
		my $check = sql("SELECT c::text FROM rose.check('twin_rose.$table') c");
		$different = 1, diag(join("\n", "FIRST_SEED=$seed: rose.check of $table: $check", @done)) if $check ne '';
	}
	return;
}

# Somebody waits for the lock, and somebody has a snapshot of before.
sub cycle
{
	my $table = pick(qw(t t nokey p));
	my $after = pick('commit', 'commit', 'rollback', 'savepoint', 'alone', 'alone');
	my $reader = rare(0.6);

	if ($reader)
	{
		both('reader', 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM public.beside');
		both('writer', change($table)) if rare(0.5);
	}
	my %am = map { $_ => $_ } qw(heap rose);
	my $ddl = ddl($table, 'AM', $after ne 'alone', $reader);
	my @steps = ($ddl);
	@steps = ('BEGIN', (rare(0.5) ? 'SAVEPOINT a' : ()), $ddl, change($table)) if $after =~ /commit|rollback/;
	@steps = ('BEGIN', (rare(0.5) ? change($table) : ()), 'SAVEPOINT a', (rare(0.4) ? change($table) : ()), $ddl, (rare(0.5) ? change($table) : ()), 'ROLLBACK TO a', change($table), (rare(0.3) ? (ddl($table, 'AM', 1), change($table)) : ())) if $after eq 'savepoint';
	foreach my $step (@steps)
	{
		my %said = map { $_ => say($_, 'ddl', $step =~ s/\bAM\b/$_/gr) } qw(heap rose);
		push @done, "ddl: $step";
		compare($step, %said);
	}
	if ($after ne 'alone')
	{
		my %said;
		foreach my $twin (qw(heap rose))
		{
			my $mark = ++$counter . " of $twin";

			# it waits, or has read, if nobody keeps readers out
			$session{"$twin waiter"}->start($state->($table) . " WHERE '$mark' <> ''");
			$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%$mark%' AND pid <> pg_backend_pid() AND (wait_event_type = 'Lock' OR state LIKE 'idle%'))") or die 'nobody reads';
		}
		both('ddl', $after eq 'rollback' ? 'ROLLBACK' : pick('COMMIT', 'COMMIT', 'ROLLBACK'));
		$said{$_} = answer($session{"$_ waiter"}) foreach qw(heap rose);
		push @done, 'waiter';
		compare("who waited for $table", %said);
	}
	if ($reader)
	{
		my %said = map { $_ => say($_, 'reader', $state->($table)) } qw(heap rose);

		push @done, 'reader';
		# what is written anew is empty for it; on heap another access method is none, and another key writes nothing anew
		my $anew = $ddl =~ /ACCESS METHOD/ && $said{rose} =~ /^0\|/;
		compare("a snapshot of before, of $table", %said) if !$anew && $said{rose} !~ /^error: could not serialize/;
		both('reader', 'ROLLBACK');
	}
	return;
}

sessions();
both('writer', "INSERT INTO $_ SELECT g, g % 100, 'k' || g, g / 4.0, 'old' FROM generate_series(1, 2000) g") foreach qw(t nokey p);
for my $n (1 .. $cycles)
{
	@done = grep { !/^writer: SELECT/ } @done;
	both('writer', change($_)) foreach map { pick(qw(t nokey p)) } 1 .. 3;
	sql("SELECT rose.spill('twin_rose.$_')") foreach grep { rare(0.3) && sql("SELECT relam = (SELECT oid FROM pg_am WHERE amname = 'rose') FROM pg_class WHERE oid = 'twin_rose.$_'::regclass") eq 't' } qw(t nokey p0 p1);
	if (rare(0.3))
	{
		# a transaction that is there after the restart, and holds rows
		both('writer', 'BEGIN; ' . change('nokey') . "; INSERT INTO nokey VALUES (-$n, 1, 'prepared'); SELECT count(*) FROM nokey");
		say($_, 'writer', "PREPARE TRANSACTION '$_'") foreach qw(heap rose);
	}
	my $prepared = sql('SELECT count(*) FROM pg_prepared_xacts') > 0;
	$_->end foreach values %session;
	$node->append_conf('postgresql.conf', 'rose.max_merge_workers = ' . pick(0, 3) . "\n");
	push @done, rare(0.7) ? do { crash_and_restart($node); '-- crash' } : do { $node->restart; '-- restart' };
	sessions();
	if ($prepared)
	{
		my $end = pick('COMMIT', 'ROLLBACK');
		sql("$end PREPARED '$_'") foreach qw(heap rose);
		push @done, "$end PREPARED";
	}
	cycle() foreach 1 .. pick(1, 2, 4);
	states('writer') if !$different;
	last if $different;
}
is($different, 0, "the same on heap and rose, $cycles restarts");
$_->end foreach values %session;
$node->stop;
done_testing();
