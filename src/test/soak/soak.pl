# A replica under daily life, for long: several sessions change an upstream all the time, and here tables are copied, altered, indexed, locked, paused,
# copied again and compared, while others read. Each round ends at equal positions, where all tables are the upstream's. Memory, files and the WAL that the
# upstream keeps are noted then, and in the second half of the rounds they may not be more than in the first. Nobody else writes here, so no change may be
# counted as a conflict. Environment:
#
#   SOAK_SEED		repeat the choices, not how processes meet
#   SOAK_SECONDS		how long, default 3600
#   SOAK_ROUND		seconds of a round, default 60
#   SOAK_KILLS=1		each third round ends with a crash of the replica, and each fifth with one of the upstream
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $seed = seed_random('SOAK_SEED');
my $seconds = $ENV{SOAK_SECONDS} // 3600;
my $round_seconds = $ENV{SOAK_ROUND} // 60;
my $kills = $ENV{SOAK_KILLS} // 0;
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = on', "logical_decoding_work_mem = '64kB'", 'max_wal_senders = 20', 'max_replication_slots = 20', 'max_prepared_transactions = 10');
my $replica = rose_node('replica', 'autovacuum = on', "rose.memtable_size = '16MB'", "rose.spill_interval = '2s'", 'rose.max_subscriptions = 4', "rose.copy_piece_size = '256kB'", "wal_retrieve_retry_interval = '500ms'", "deadlock_timeout = '100ms'", 'max_worker_processes = 20');
my $files = $replica->basedir;
my @wide = qw(t u p f);			# tables that all of it happens to
my @young;						# tables that were made in the course of it
my $made = 0;
my @lockers;					# sessions that lock a table for a while
my %events;						# how often what was done

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }
sub may_fail { my (undef, undef, $err) = $replica->psql('postgres', "\\set VERBOSITY verbose\n$_[0]"); return $err =~ /ERROR|FATAL|PANIC|closed/ ? $err : '' }

# --- what there is
my %columns = (t => 'id int PRIMARY KEY, a int, b text, doc text', u => 'x text, y int, a int, b text, PRIMARY KEY (x, y)', p => 'id int PRIMARY KEY, a int, b text', f => 'id int PRIMARY KEY, a int, b text',
	k => 'id int, a int, b text', account => 'id int PRIMARY KEY, balance int');
foreach my $table (sort keys %columns)
{
	my $partitioned = $table eq 'p';

	up("CREATE TABLE $table ($columns{$table})" . ($partitioned ? ' PARTITION BY RANGE (id); CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (500); CREATE TABLE p_2 PARTITION OF p DEFAULT' : ''));
	down("CREATE TABLE $table ($columns{$table})" . ($partitioned ? ' PARTITION BY HASH (id)' : ' USING rose'));
}
down("CREATE TABLE p_$_ PARTITION OF p FOR VALUES WITH (MODULUS 3, REMAINDER $_) USING rose") foreach 0 .. 2;
up("ALTER TABLE t ALTER doc SET STORAGE EXTERNAL; ALTER TABLE f REPLICA IDENTITY FULL; INSERT INTO account SELECT g, 1000 FROM generate_series(1, 1000) g;"
	. "CREATE PUBLICATION p FOR TABLE t, u, p, f, k, account WITH (publish_via_partition_root)");
up("INSERT INTO $_ SELECT g, g % 9, md5(g::text) FROM generate_series(1, 1000) g") foreach qw(t p f k);
subscribe($upstream, $replica, 'postgres', "count_conflicts => 'certain'", 'two_phase => true');

# --- clients
my %scripts = (
	t => "\\set i random(1, 1000)\n\\set j :i + random(0, 30)\n\\set w random(1, 6)\n"
	  . "\\if :w = 1\nINSERT INTO t SELECT g, :w, md5(g::text), repeat('d' || g, 2000) FROM generate_series(:i, :j) g ON CONFLICT DO NOTHING;\n\\elif :w = 2\nDELETE FROM t WHERE id BETWEEN :i AND :j;\n"
	  . "\\elif :w = 3\nBEGIN; UPDATE t SET a = a + 1 WHERE id BETWEEN :i AND :j; SAVEPOINT s; DELETE FROM t WHERE id = :i; ROLLBACK TO s; UPDATE t SET b = b || 'x' WHERE id = :j AND length(b) < 100; COMMIT;\n"
	  . "\\elif :w = 4\nUPDATE t SET doc = repeat('e' || id, 2000) WHERE id BETWEEN :i AND :j;\n\\else\nUPDATE t SET a = a + 1 WHERE id = :i;\n\\endif\n",
	u => "\\set i random(1, 1000)\n\\set j :i + random(0, 30)\n\\set w random(1, 4)\n"
	  . "\\if :w = 1\nINSERT INTO u SELECT 'x' || g % 7, g, :w, md5(g::text) FROM generate_series(:i, :j) g ON CONFLICT DO NOTHING;\n\\elif :w = 2\nDELETE FROM u WHERE y BETWEEN :i AND :j;\n"
	  . "\\else\nUPDATE u SET x = CASE x WHEN 'x1' THEN 'x2' ELSE x END, a = a + 1 WHERE y BETWEEN :i AND :j AND NOT EXISTS (SELECT FROM u o WHERE o.x = 'x2' AND o.y = u.y);\n\\endif\n",
	p => "\\set i random(1, 1000)\n\\set j :i + random(0, 30)\n\\set w random(1, 5)\n"
	  . "\\if :w = 1\nINSERT INTO p SELECT g, :w, md5(g::text) FROM generate_series(:i, :j) g ON CONFLICT DO NOTHING; INSERT INTO k VALUES (:i, :w, 'k');\n\\elif :w = 2\nDELETE FROM p WHERE id BETWEEN :i AND :j; DELETE FROM f WHERE id = :i;\n"
	  . "\\elif :w = 3\nBEGIN; UPDATE p SET id = id + 1001 WHERE id BETWEEN :i AND :j AND id <= 1000 AND NOT EXISTS (SELECT FROM p o WHERE o.id = p.id + 1001); DELETE FROM p WHERE id > 1000; COMMIT;\n"
	  . "\\else\nUPDATE p SET a = a + 1 WHERE id BETWEEN :i AND :j; UPDATE f SET a = a + 1 WHERE id = :i; INSERT INTO f VALUES (:j, 1, 'f') ON CONFLICT (id) DO UPDATE SET a = f.a + 1;\n\\endif\n",
	account => "\\set i random(1, 1000)\n\\set j random(1, 1000)\nBEGIN; UPDATE account SET balance = balance - 10 WHERE id = least(:i, :j); UPDATE account SET balance = balance + 10 WHERE id = greatest(:i, :j) AND :i <> :j;"
	  . " UPDATE account SET balance = balance + 10 WHERE id = :i AND :i = :j; COMMIT;\n",
	transfer => "\\set i random(1, 1000)\n\\set j random(1, 1000)\n\\set g random(1, 1000000000)\nBEGIN; UPDATE account SET balance = balance - 5 WHERE id = least(:i, :j); UPDATE account SET balance = balance + 5 WHERE id = greatest(:i, :j) AND :i <> :j;"
	  . " UPDATE account SET balance = balance + 5 WHERE id = :i AND :i = :j; PREPARE TRANSACTION 'transfer :g';\nSELECT pg_sleep(0.02);\nCOMMIT PREPARED 'transfer :g';\n",
	large => "BEGIN; INSERT INTO t SELECT g, g % 9, md5(g::text) FROM generate_series(100000, 125000) g; UPDATE t SET a = a + 1 WHERE id >= 100000; DELETE FROM t WHERE id >= 100000; COMMIT;\nTRUNCATE k;\n");
my %rates = (t => 60, u => 30, p => 30, account => 60, transfer => 5, large => 0.1);
append_to_file("$files/$_.sql", $scripts{$_}) foreach keys %scripts;
append_to_file("$files/reader.sql", "SELECT 1 / (sum(balance) = 1000000)::int FROM account;\nSELECT 1 / (count(*) = 1000)::int FROM account;\nSELECT count(*), sum(a) FROM t;\nSELECT a, count(*) FROM p GROUP BY a ORDER BY 2 DESC LIMIT 3;\n");

sub client
{
	my ($node, $name, $limit, $rate) = @_;

	return IPC::Run::start([ 'pgbench', '-n', '-c', '1', '-T', $limit, '-R', $rate, '-f', "$files/$name.sql", '--max-tries=100', '-h', $node->host, '-p', $node->port, 'postgres' ], '>', '/dev/null', '2>', "$files/$name.err");
}

# --- what happens here meanwhile
# For seconds: what is asked of the worker meanwhile waits for that, too.
sub lock_for_a_while
{
	my $table = pick(@wide, 'k');
	my $sql = "BEGIN; SET LOCAL lock_timeout = '2s'; LOCK TABLE $table IN " . pick('ACCESS EXCLUSIVE', 'SHARE', 'ROW EXCLUSIVE') . ' MODE; SELECT pg_sleep(' . rand(3) . '); COMMIT';

	push @lockers, IPC::Run::start([ 'psql', '-Xq', '-d', $replica->connstr('postgres'), '-c', $sql ], '>', '/dev/null', '2>', '/dev/null');
	return;
}

sub unlock { $_->finish foreach @lockers; @lockers = (); return; }

sub young_table
{
	my $name = 'young_' . ++$made;

	up("CREATE TABLE $name (id int PRIMARY KEY, a int, b text); INSERT INTO $name SELECT g, g, md5(g::text) FROM generate_series(1, 20000) g");
	down("CREATE TABLE $name (id int PRIMARY KEY, a int, b text) USING rose");
	up("ALTER PUBLICATION p ADD TABLE $name");
	down("SELECT rose.alter_subscription('s', refresh => true)");
	push @young, $name;
	return if @young <= 3;
	my $old = shift @young;
	up("ALTER PUBLICATION p DROP TABLE $old; DROP TABLE $old");
	down("SELECT rose.alter_subscription('s', refresh => true); DROP TABLE $old");
	return;
}

my %can = (
	index => sub { return may_fail('CREATE INDEX ON ' . pick(@wide) . ' ' . pick('(a)', '(b, a)', '(a) INCLUDE (b)', '((a + 1))', '(left(b, 3))')) },
	drop_index => sub { return may_fail(q(DO $$ DECLARE i regclass; BEGIN SELECT indexrelid INTO i FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE NOT indisprimary AND NOT relispartition AND relnamespace = 'public'::regnamespace ORDER BY random() LIMIT 1; IF i IS NOT NULL THEN EXECUTE 'DROP INDEX ' || i; END IF; END $$)) },
	reindex => sub { return may_fail('REINDEX TABLE ' . pick(@wide)) },
	maintain => sub { return may_fail(pick(map { my $table = $_; map { sprintf $_, $table } "VACUUM %s", "ANALYZE %s", "SELECT rose.spill('%s')", "SELECT rose.merge('%s')" } qw(t u f k p_0 p_1 p_2))) },
	column => sub { my $table = pick(@wide); my $column = 'c' . int rand 4; my $sql = "ALTER TABLE $table ADD COLUMN IF NOT EXISTS $column int DEFAULT 5"; return may_fail($sql) || (up($sql), '')[1] },
	lock => sub { lock_for_a_while(); return '' },
	pause => sub { my $table = pick(@wide); my $err = may_fail("SELECT rose.pause_table('s', '$table')"); sleep(rand 2); return $err || may_fail("SELECT rose.resume_table('s', '$table')") },
	resync => sub { return may_fail("SELECT rose.alter_subscription('s', resync => '" . pick(@wide, @young) . "')") },
	young => sub { young_table(); return '' },
	verify => sub { return may_fail("SELECT 1 / (count(*) FILTER (WHERE problem NOT LIKE 'not compared%') = 0)::int FROM rose.verify('s')") },
	worker => sub { return may_fail("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type ~ '^rose'") });
my @weighted = (('index') x 2, ('drop_index') x 2, 'reindex', ('maintain') x 6, 'column', ('lock') x 3, ('pause') x 2, 'resync', 'young', 'verify', 'worker');

# What locks excuse, workers and tables that come and go, and states of a table that another command has just made; anything else is an error.
my $excused = qr/55P03|40P01|57014|57P01|42P01|55006|55000: .*(?:paused|being copied|not yet durable|is not|cannot be|could not be copied|table\(s\))|58000: .*ended|timed out|timeout/;

sub live
{
	my ($until) = @_;

	while (time < $until)
	{
		my $what = pick(@weighted);

		unlock() if @lockers > 3;
		my $err = $can{$what}->();
		$events{ $err ? "$what (error)" : $what }++;
		note("$what: $err") if $err;
		fail("$what: $err") if $err && $err !~ $excused;
		sleep(0.2);
	}
	unlock();
	return;
}

# --- what is noted at the end of a round
sub anonymous_kb
{
	my ($pid) = @_;
	my ($kb) = slurp_file("/proc/$pid/smaps_rollup") =~ /^Pss_Anon: +(\d+)/m;

	return $kb;
}

sub note_state
{
	my %state;
	$replica->poll_query_until('postgres', "SELECT pid IS NOT NULL FROM rose.stat_subscription") or die 'no worker';
	my $pid = down("SELECT pid FROM rose.stat_subscription WHERE subname = 's'");

	$state{worker_kb} = anonymous_kb($pid);
	# what came last is spilled while the machine gets to it; memory that nobody gives back stays
	$replica->poll_query_until('postgres', 'SELECT used_bytes < 1024 * 1024 FROM rose.stat_memory') or note('the arena does not become empty');
	$state{arena_kb} = down('SELECT used_bytes / 1024 FROM rose.stat_memory');
	$state{files} = () = glob $replica->data_dir . '/base/*/*';
	$state{temporary} = () = glob $replica->data_dir . '/base/pgsql_tmp/*';
	$state{size_mb} = down("SELECT sum(pg_relation_size(oid)) / 1e6 FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'");
	$state{index_mb} = down("SELECT sum(pg_relation_size(oid)) / 1e6 FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'i'");
	$state{wal_mb} = up("SELECT sum(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) / 1e6 FROM pg_replication_slots");
	note(join ', ', map { "$_ $state{$_}" } sort keys %state);
	return \%state;
}

sub all_settled
{
	down("SELECT rose.resume_table('s', relid) FROM rose.stat_subscription_tables WHERE state = 'paused'");
	$replica->poll_query_until('postgres', "SELECT bool_and(state = 'ready') FROM rose.stat_subscription_tables") or die 'not ready: ' . down('SELECT relname, state, last_error FROM rose.stat_subscription_tables');
	wait_for_apply($upstream, $replica);
	return;
}

sub agree
{
	my ($name) = @_;
	my $columns = "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attname) FROM pg_attribute WHERE attrelid = '%s'::regclass AND attnum > 0 AND NOT attisdropped";

	foreach my $table (@wide, 'k', 'account', @young)
	{
		my $rows = '(SELECT ' . up(sprintf $columns, $table) . " FROM $table)";

		is(table_hash($replica, $rows), table_hash($upstream, $rows), "$name: $table is the upstream's");
	}
	is(down("SELECT string_agg(relname || ': ' || msg, '; ') FROM pg_class, rose.check(pg_class.oid) WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relam = (SELECT oid FROM pg_am WHERE amname = 'rose')"), '', "$name: rose.check");
	is(down("SELECT count(*) FROM rose.verify('s')"), 0, "$name: rose.verify");
	is(down("SELECT string_agg(t::text, E'\\n') FROM rose.stat_subscription_tables t WHERE confl_insert_exists + confl_update_exists + confl_update_missing + confl_delete_missing > 0"), '', "$name: no conflicts");
	return;
}

my @states;
my $end = time + $seconds;
for (my $round = 1; time < $end; $round++)
{
	my @clients = ((map { client($upstream, $_, $round_seconds, $rates{$_}) } sort keys %rates), map { client($replica, 'reader', $round_seconds, 20) } 1 .. 2);

	live(time + $round_seconds);
	$_->finish foreach @clients;
	foreach my $name (sort keys %rates, 'reader')
	{
		my $err = slurp_file("$files/$name.err");

		unlike($err, qr/division by zero|XX\d\d\d|server closed/, "round $round: client $name") or diag($err);
	}
	if ($kills && $round % 3 == 0) { crash_and_restart($replica) }
	if ($kills && $round % 5 == 0) { $upstream->stop('immediate'); $upstream->start }
	all_settled();
	agree("round $round");
	push @states, note_state();
}
note(join ', ', map { "$_ $events{$_}" } sort keys %events);

# The second half against the first, beyond what a few more pages or a larger block of memory are.
my %slack = (worker_kb => 8192, arena_kb => 4096, files => 60, temporary => 4, size_mb => 20, index_mb => 20, wal_mb => 64);
foreach my $what (sort keys %slack)
{
	my $half = int(@states / 2);
	my ($before, $after) = map { my $most = 0; $most = $_ > $most ? $_ : $most foreach map { $_->{$what} } @$_; $most } [ @states[ 0 .. $half - 1 ] ], [ @states[ $half .. $#states ] ];

	cmp_ok($after, '<=', 1.2 * $before + $slack{$what}, "$what does not grow") if $half > 0;
}
unlike(slurp_file($replica->logfile), qr/TRAP:|PANIC:|terminated by signal (?:6|11)|\bXX\d\d\d\b/, 'nothing went wrong inside');

done_testing();
