# Transactions of the upstream that are sent before they commit: kept in files here, applied when they commit, in the order
# of the commits, without what was rolled back; whoever ends in the middle.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 5', 'autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.memtable_size = '4MB'", 'wal_receiver_status_interval = 1000', 'autovacuum = off');
my @tables = qw(k n c p1 p2);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub state { return down("SELECT $_[0] FROM rose.stat_subscription") }
sub until_down { $replica->poll_query_until('postgres', $_[0]) or die "never true: $_[0]"; return }
sub until_state { until_down("SELECT $_[0] FROM rose.stat_subscription"); return }

sub equal
{
	my ($what, @which) = @_;

	wait_for_apply($upstream, $replica);
	my @differ = grep { table_hash($replica, $_) ne table_hash($upstream, $_) } @which ? @which : @tables;
	is("@differ", '', $what);
	return;
}

# More than the upstream's memory takes.
my $many = 1000;

sub rows { my ($table, $from, $n) = @_; return "INSERT INTO $table SELECT g, md5(g::text) || md5((-g)::text) FROM generate_series($from, $from + " . (($n // $many) - 1) . ') g' }

my $ddl = q{CREATE TABLE k (id int PRIMARY KEY, v text) A; CREATE TABLE n (id int, v text) A;
	CREATE TABLE c (a int, b text, id int, v text, PRIMARY KEY (b, a)) A;
	CREATE TABLE p (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (5000) A; CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (5000) TO (MAXVALUE) A};
up($ddl =~ s/\bA\b//gr . '; CREATE PUBLICATION p FOR TABLE k, n, c, p');
down($ddl =~ s/\bA\b/USING rose/gr);
stop_points_create($replica);
subscribe($upstream, $replica);
is(state('streaming'), 't', 'it is on');

my ($one, $two) = map { RoseTest::Session->new($upstream) } 1 .. 2;

# ---- what comes before the commit ----
$one->run('BEGIN; ' . rows('k', 1));
until_state('stream_transactions = 1 AND stream_bytes > 40000');
is(down('SELECT count(*) FROM k'), 0, 'a transaction in progress is here, and nobody sees it');
up(rows('n', 1, 3));
$two->run('BEGIN; ' . rows('p', 4000));
until_state('stream_transactions = 2');
up('INSERT INTO k VALUES (-1, $$between$$)');
wait_for_apply($upstream, $replica);
is(down('SELECT (SELECT count(*) FROM n), (SELECT array_agg(id) FROM k), (SELECT count(*) FROM p)'), '3|{-1}|0', 'others come meanwhile');
my $bytes = state('stream_bytes');
$one->run('COMMIT');
equal('the first has committed');
cmp_ok(state('stream_bytes'), '<', $bytes, 'what was kept of it is gone');
$two->run('ROLLBACK');
until_state('stream_transactions = 0 AND stream_bytes = 0');
equal('the second was rolled back');
is(state('streamed_transactions'), 1, 'one has come in parts');

# ---- subtransactions ----
$one->run('BEGIN; SAVEPOINT a; ' . rows('k', 10000) . '; SAVEPOINT b; ' . rows('n', 10000));
until_state('stream_bytes > 90000');
$bytes = state('stream_bytes');
$one->run('ROLLBACK TO b; ' . rows('c (a, b)', 1, 1));
$one->run(rows('c (a, b)', 2, 1) . '; RELEASE a; SAVEPOINT a; ' . rows('n', 20000) . '; SAVEPOINT b; SAVEPOINT c; ' . rows('n', 30000) . '; RELEASE c; ' . rows('n', 40000, 5) . '; ROLLBACK TO b; ' . rows('n', 50000, 7));
$one->run('SAVEPOINT d; TRUNCATE n; ' . rows('n', 60000) . '; ROLLBACK TO d; ' . rows('p', 3000, 4000) . '; UPDATE k SET id = -id WHERE id % 3 = 0; DELETE FROM k WHERE id % 5 = 0');
up('INSERT INTO n VALUES (0, $$other$$)');
wait_for_apply($upstream, $replica);
$one->run('COMMIT');
equal('parts were rolled back');
$one->run('BEGIN; SAVEPOINT a; SAVEPOINT b; ' . rows('k', 70000) . '; RELEASE b; ' . rows('k', 80000) . '; ROLLBACK TO a; ' . rows('k', 90000) . '; COMMIT');
equal('a part went with its parent');

# Nothing is left, so it does not come again: it is not what the upstream is known by.
$one->run('BEGIN; SAVEPOINT a; ' . rows('k', 95000));
until_state('stream_transactions = 1');
$one->run('ROLLBACK TO a; COMMIT');
wait_for_apply($upstream, $replica);
down('SELECT pg_terminate_backend(pid) FROM rose.stat_subscription');
up(rows('c (a, b)', 3, 1));
equal('nothing was left');

# ---- TRUNCATE, and changes that are cut off for it ----
$one->run('BEGIN; ' . rows('k', 100000) . '; TRUNCATE n, c; ' . rows('n', 1));
up(rows('p', 100000, 10));
my $starts = up('SELECT pid FROM pg_stat_replication WHERE application_name = $$s$$ ORDER BY backend_start LIMIT 1');
$one->run('COMMIT');
equal('TRUNCATE');
is(up('SELECT pid FROM pg_stat_replication WHERE application_name = $$s$$ ORDER BY backend_start LIMIT 1'), $starts, 'without another start of the stream');
crash_and_restart($replica);
equal('after a crash');

# ---- prepared transactions come when they are committed ----
$one->run('BEGIN; ' . rows('k', 200000) . '; PREPARE TRANSACTION $$x$$; BEGIN; ' . rows('k', 300000) . '; PREPARE TRANSACTION $$y$$');
until_state('stream_transactions = 2');
$one->run('ROLLBACK PREPARED $$y$$; COMMIT PREPARED $$x$$');
equal('prepared');

# ---- off ----
down("SELECT rose.alter_subscription('s', streaming => false)");
is(state('streaming'), 'f', 'off');
is(down("SELECT srvoptions FROM pg_foreign_server WHERE srvname = 's'") =~ /streaming=false/ ? 1 : 0, 1, 'in dumps, too');
$one->run('BEGIN; ' . rows('k', 400000));
up(rows('n', 1, 1));
wait_for_apply($upstream, $replica);
is(state('stream_transactions'), 0, 'nothing comes before the commit');
$one->run('COMMIT');
equal('it comes then');
down("SELECT rose.alter_subscription('s', streaming => true)");
is(state('streaming'), 't', 'on again');
is(down('SELECT count(*) FROM rose.subscription_options WHERE NOT streaming'), 0, 'as by default');

# ---- descriptions of tables, which come with the transaction ----
sub add_tables
{
	my ($names, $there, $here) = @_;

	up("$there; ALTER PUBLICATION p ADD TABLE $names");
	down("$here; SELECT rose.alter_subscription('s', refresh => true)");
	down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
	return;
}

add_tables('d, e, f', 'CREATE TABLE d (id int PRIMARY KEY, v text); CREATE TABLE e (id int PRIMARY KEY, v text); CREATE TABLE f (id int PRIMARY KEY, v text)',
	'CREATE TABLE d (id int PRIMARY KEY, v text, w int) USING rose; CREATE TABLE e (id int PRIMARY KEY, v text) USING rose; CREATE TABLE f (id int PRIMARY KEY, v text) USING rose');
$one->run('BEGIN; ' . rows('d', 1) . '; SAVEPOINT a; ' . rows('e', 1));
until_state('stream_bytes > 90000');
$one->run('ROLLBACK TO a; ' . rows('e', 5000));
$two->run('BEGIN; ' . rows('e', 10000));
until_state('stream_transactions = 2');
$one->run('COMMIT');
up(rows('d', 10000, 2));
$two->run('ROLLBACK');
up(rows('e', 20000, 2));
equal('of a part that was rolled back', 'e');
is(down('SELECT count(*), count(v), count(w) FROM d'), up('SELECT count(*), count(v), 0 FROM d'), 'and of one that was not');
$one->run('BEGIN; ' . rows('d', 30000) . '; SAVEPOINT a; ALTER TABLE d ADD w int; ' . rows('d (id, v)', 40000) . '; UPDATE d SET w = id; ROLLBACK TO a; ' . rows('d', 50000) . '; COMMIT');
up(rows('d', 60000, 2));
wait_for_apply($upstream, $replica);
is(down('SELECT count(*), count(v), count(w) FROM d'), up('SELECT count(*), count(v), 0 FROM d'), 'a column that was never added');
$one->run('BEGIN; ' . rows('d', 70000) . '; ALTER TABLE d ADD w int; ' . rows('d (id, v)', 80000) . '; UPDATE d SET w = id; COMMIT');
up('INSERT INTO d VALUES (0, $$w$$, 1)');
equal('a column that was', qw(d e));

# One that others have outdated: a column that was published no more, and is again.
$one->run('BEGIN; ' . rows('f', 1));
until_state('stream_transactions = 1');
up('ALTER PUBLICATION p SET TABLE k, n, c, p, d, e, f (id)');
up('INSERT INTO f VALUES (-1, $$b$$)');
wait_for_apply($upstream, $replica);
is(down('SELECT count(*), min(v) FROM f'), '1|', 'a column is not published any more');
$one->run('COMMIT');
until_state("blocked_reason = 'table_error'");
like(state('last_error'), qr/column "v" of table "f" is another one than before/, 'but is in what was sent before');
up('ALTER PUBLICATION p SET TABLE k, n, c, p, d, e, f');
down("SELECT rose.alter_subscription('s', resync => 'f')");
down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
equal('once it was copied', qw(d e f));

# ---- a type that is to come as text, before anything of it is sent ----
add_tables('t', 'CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE TABLE t (id positive PRIMARY KEY, v text)', 'CREATE TABLE t (id int PRIMARY KEY, v text) USING rose');
$two->run('BEGIN; ' . rows('k', 500000));
$one->run('BEGIN; ' . rows('t', 1));
$upstream->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'walsender' AND query ~ 'START_REPLICATION.*binary'}) or die 'still binary';
# whether they are sent in parts again depends on where the stream begins
until_state("state = 'streaming'");
$_->run('COMMIT') foreach $one, $two;
push @tables, qw(d e f t);
equal('as text');

# ---- whoever ends while something is kept, or in the middle of what is applied ----
down("ALTER DATABASE postgres SET temp_file_limit = '32kB'");
$one->run('BEGIN; ' . rows('k', 600000));
until_state('stream_transactions = 1');
my $worker = state('pid');
down("SELECT pg_terminate_backend($worker)");
until_state("pid <> $worker AND state = 'streaming'");
$one->run('COMMIT');
equal('the worker, before the commit, and with a limit that is for clients');
down('ALTER DATABASE postgres RESET temp_file_limit');

my $locker = RoseTest::Session->new($replica);
foreach my $end ("SELECT pg_terminate_backend(pid) FROM rose.stat_subscription", "SELECT rose.alter_subscription('s', synchronous_commit => 'local')")
{
	my $at = $end =~ /terminate/ ? 1000 : 5000;

	$locker->run('BEGIN; LOCK TABLE c');
	up(rows('n', $at, 2));
	$one->run('BEGIN; ' . rows('k', 600000 + $at * 10) . "; INSERT INTO c (a, b) VALUES ($at, 'x'); " . rows('n', 100000 + $at) . '; COMMIT');
	$worker = state('pid');
	until_state("waiting_for = 'c'::regclass");
	$two->run("BEGIN; " . rows('p', 100000 * $at));
	my $session = RoseTest::Session->new($replica);
	$session->start($end);
	until_down("SELECT drain FROM (SELECT count(*) > 0 AS drain FROM pg_stat_activity WHERE query ~ 'alter_subscription' AND pid <> pg_backend_pid()) d") if $end =~ /alter/;
	until_state("pid IS DISTINCT FROM $worker") if $end =~ /terminate/;
	$locker->run('ROLLBACK');
	$session->finish;
	$two->run('COMMIT');
	equal("the worker, in the middle: $end");
	$session->end;
}
foreach my $point (qw(stream-kept stream-committed stream-replayed))
{
	my $at = 10_000_000 + 10000 * length $point;

	$locker->run("SELECT stop_at('$point', 'error', 'worker')");
	$one->run('BEGIN; ' . rows('k', $at) . '; TRUNCATE c; ' . rows('n', $at) . '; COMMIT');
	equal("an error at $point");
	cmp_ok(down("SELECT stop_hits('$point')"), '>', 0, 'there was one');
}
$locker->end;
$one->run('BEGIN; ' . rows('k', 20_000_000));
until_state('stream_transactions = 1');
crash_and_restart($replica);
until_state("state = 'streaming'");
$one->run('COMMIT');
equal('the replica');
$one->run('BEGIN; ' . rows('k', 21_000_000));
$two->run('BEGIN; ' . rows('n', 21_000_000));
until_state('stream_transactions = 2');
$_->end foreach $one, $two;
crash_and_restart($upstream);
up(rows('c (a, b)', 21_000_000, 10));
equal('the upstream, without what was in progress');
until_state('stream_transactions = 0');

# ---- larger than memory, beside changes that are in no epoch ----
up('UPDATE k SET v = v; INSERT INTO n SELECT g, repeat(md5(g::text), 5) FROM generate_series(1, 30000) g');
up('BEGIN; UPDATE k SET v = v || 1; UPDATE p SET id = -id; SAVEPOINT a; DELETE FROM p; ROLLBACK TO a; COMMIT; DELETE FROM k WHERE id % 7 = 0');
equal('larger than memory');
cmp_ok(state('streamed_transactions'), '>', 1, 'they came in parts');

# ---- the upstream hears from who is busy with one ----
add_tables('s', 'CREATE TABLE s (id int PRIMARY KEY, v text)', q{CREATE TABLE slow (id int); INSERT INTO slow VALUES (1);
	CREATE FUNCTION takes_a_while() RETURNS bool LANGUAGE plpgsql AS 'BEGIN IF EXISTS (SELECT FROM public.slow) THEN PERFORM pg_catalog.pg_sleep(0.02); END IF; RETURN true; END';
	CREATE TABLE s (id int PRIMARY KEY, v text, CHECK (takes_a_while())) USING rose});
up('BEGIN; ' . rows('s', 1, 3000) . '; COMMIT');
foreach my $n (1 .. 2)
{
	my $told = up(q{SELECT max(reply_time) FROM pg_stat_replication WHERE application_name = 's'});

	$upstream->poll_query_until('postgres', "SELECT max(reply_time) > '$told' FROM pg_stat_replication WHERE application_name = 's'") or die 'it hears nothing';
}
is(state('stream_transactions') . ' ' . down('SELECT count(*) FROM s'), '1 0', 'the upstream hears from a worker that is busy');
down('DELETE FROM slow');
push @tables, 's';
equal('what took long');
is(down("SELECT string_agg(c::text, ' ') FROM unnest('{k,n,c,p1,p2,d,e,f,t,s}'::text[]) t, rose.check(t::regclass) c"), '', 'rose.check');

$replica->stop;
$upstream->stop;
done_testing();
