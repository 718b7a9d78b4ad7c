# rose.repair: rows that differ from the upstream's become as they are there, all of them and nothing else, beside a stream that goes on; indexes, partitions,
# columns that only we have; durable when it returns; a repair that fails leaves the stream and the table as they were.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $seed = seed_random('ROSE_REPAIR_SEED');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off', 'restart_after_crash = on');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub verify { return "SELECT concat_ws(' ', relname, key, problem) FROM rose.verify('s'" . (@_ ? ", '{$_[0]}'" : '') . ", timeout_seconds => $timeout, max_keys => 10000) ORDER BY 1" }
sub repair { my ($table, $keys) = @_; return "SELECT inserted, updated, deleted, cardinality(repaired), complete FROM rose.repair('s', '$table'" . (defined $keys ? ", $keys" : '') . ", timeout_seconds => $timeout, max_keys => 10000)" }

my @tables = ('plain', 'comp', '"Od""d ü"', 'moody', 'root', 'here', 'filtered', 'complete');
my $same = q{CREATE TYPE mood AS ENUM ('sad', 'ok', 'good', 'new'); CREATE TABLE comp (k text, n numeric, v text, PRIMARY KEY (n, k)) A; CREATE TABLE nokey (a int, b text) A;
	CREATE TABLE "Od""d ü" ("K,(" text PRIMARY KEY, "select" text, " " int) A; CREATE TABLE moody (m mood, id int, v int, PRIMARY KEY (m, id)) A; CREATE TABLE complete (id bigint PRIMARY KEY, v text, w int[]) A};
up($same =~ s/\bA\b//gr . q{; CREATE TABLE plain (id int PRIMARY KEY, v text, w text, b bytea, f float8); CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
	CREATE TABLE root1 PARTITION OF root FOR VALUES FROM (-1000) TO (100); CREATE TABLE root2 PARTITION OF root FOR VALUES FROM (100) TO (100000); CREATE TABLE here (id int PRIMARY KEY, v text);
	CREATE TABLE filtered (gone int, id int PRIMARY KEY, hidden text, v text, region text NOT NULL); ALTER TABLE filtered DROP COLUMN gone; ALTER TABLE complete REPLICA IDENTITY FULL;
	CREATE UNIQUE INDEX i ON filtered (id, region); ALTER TABLE filtered REPLICA IDENTITY USING INDEX i;
	CREATE PUBLICATION p FOR TABLE plain, comp, nokey, "Od""d ü", moody, root, here, complete, filtered (id, v, region) WHERE (region = 'eu') WITH (publish_via_partition_root = true)});
down($same =~ s/\bA\b/USING rose/gr . q{; CREATE TABLE plain (w text, id int PRIMARY KEY, f float8, v text, b bytea, ours text DEFAULT 'default', twice int GENERATED ALWAYS AS (id * 2) STORED) USING rose; CREATE INDEX ON plain (left(v, 20)); CREATE INDEX ON plain (w, twice);
	CREATE TABLE root (v text, id int PRIMARY KEY) USING rose; CREATE TABLE filtered (region text, v text, id int PRIMARY KEY) USING rose; CREATE INDEX ON filtered (v);
	CREATE TABLE here (v text, id int PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE here1 PARTITION OF here FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING rose;
	CREATE TABLE here2 (id int PRIMARY KEY, v text) USING rose; ALTER TABLE here ATTACH PARTITION here2 FOR VALUES WITH (MODULUS 2, REMAINDER 1); CREATE INDEX ON here (v)});
up(q{INSERT INTO plain SELECT g, 'v' || g, CASE WHEN g % 5 > 0 THEN 'w' || g END, decode(md5(g::text), 'hex'), CASE WHEN g % 7 > 0 THEN 1.0 / g ELSE 'NaN' END FROM generate_series(1, 500) g; UPDATE plain SET v = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i) WHERE id % 50 = 0;
	INSERT INTO comp SELECT 'k' || g % 9, g / 10.0, 'v' || g FROM generate_series(1, 300) g; INSERT INTO nokey SELECT g, g FROM generate_series(1, 9) g; INSERT INTO moody SELECT m, g, g FROM generate_series(1, 60) g, unnest('{sad,ok,good}'::mood[]) m;
	INSERT INTO "Od""d ü" SELECT 'a"b\,( ü' || g, NULLIF('', 'x' || g), g FROM generate_series(1, 60) g; INSERT INTO root SELECT g, g FROM generate_series(1, 200) g; INSERT INTO here SELECT g, g FROM generate_series(1, 200) g;
	INSERT INTO complete SELECT g, 'v' || g, ARRAY[g, NULL] FROM generate_series(1, 200) g; INSERT INTO filtered SELECT g, 'h', 'v' || g, (ARRAY['eu', 'us'])[1 + g % 2] FROM generate_series(1, 200) g});
stop_points_create($replica);
subscribe($upstream, $replica);
is(down(verify()), '', 'copied');

# ---- planted differences ----

# Changes that are not published: the upstream makes them, and the replica never hears of them.
sub in_secret { up("ALTER PUBLICATION p SET (publish = 'truncate')"); up($_[0]); up("ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')"); return }

my $moves = 0;
my @change = (
	sub { my $n = 1000 + int rand 1000; "INSERT INTO plain (id, v, w) VALUES ($n, 'new', '') ON CONFLICT DO NOTHING" },
	sub { 'DELETE FROM plain WHERE id = ' . int(rand 500) },
	sub { 'UPDATE plain SET v = ' . (q{''}, 'NULL', "'x\"y'", 'v || 1', 'w')[ rand 5 ] . ', f = -f, b = NULL WHERE id = ' . int(rand 500) },
	sub { 'UPDATE comp SET n = n * 1.00 + ' . (int rand 2) . ' WHERE v = $$v' . int(rand 300) . '$$' },
	sub { 'DELETE FROM comp WHERE v = $$v' . int(rand 300) . '$$' },
	sub { 'UPDATE "Od""d ü" SET "K,(" = "K,(" || \'\\\' WHERE " " = ' . int(rand 60) },
	sub { 'UPDATE "Od""d ü" SET "select" = \'"\\\' WHERE " " = ' . int(rand 60) },
	sub { 'UPDATE moody SET m = $$new$$, v = -v WHERE v = ' . int(rand 60) . ' AND m = $$ok$$' },
	sub { 'UPDATE root SET id = id + 1000 WHERE id = ' . int(rand 200) },
	sub { 'UPDATE here SET id = id + ' . (1001 * ++$moves) . ', v = v || 1 WHERE id = ' . int(rand 200) },
	sub { 'UPDATE here SET v = v || 2 WHERE id = ' . int(rand 200) },
	sub { 'UPDATE complete SET w = w || 3, id = id + 3000000000 * ' . (int rand 2) . ' WHERE id = ' . int(rand 200) },
	sub { 'DELETE FROM complete WHERE id = ' . int(rand 200) },
	sub { 'UPDATE filtered SET region = $$' . (qw(eu us))[ rand 2 ] . '$$, v = v || 1 WHERE id = ' . int(rand 200) });
sub plant { in_secret(join ';', map { $change[ rand @change ]->() } 1 .. $_[0]); return }

# All tables, as a comparison names their keys; it says the same of them as was done.
sub repair_all
{
	my ($what) = @_;
	my @got = (0, 0, 0, 0);
	my $problems = down(verify());

	my $ndifferences = () = $problems =~ /(?:missing here|different|only here)$/mg;
	# equal keys of two texts are two differences, and one row
	my %seen;
	$ndifferences -= grep { $seen{ s/(\.\d*?)0+\)/$1)/r =~ s/\.\)/)/r }++ } $problems =~ /^comp (\S+) (?:missing|only) here$/mg;
	foreach my $table (@tables)
	{
		my @done = split /\|/, down(repair($table, "(SELECT array_agg(key) FROM rose.verify('s', ARRAY['$table'::regclass], timeout_seconds => $timeout, max_keys => 10000))"));

		next unless @done;
		$got[$_] += $done[$_] foreach 0 .. 3;
	}
	is($got[0] + $got[1] + $got[2], $ndifferences, "$what: as many rows, seed $seed");
	is($got[3], $ndifferences, 'and keys');
	cmp_ok($_, '>', 0, 'of each kind') foreach @got[0 .. 2];
	is(down(verify()), '', "$what: all is equal");
	return $got[3];
}

down("SELECT count(*) FROM plain");
up("UPDATE plain SET w = 'known' WHERE id = 1");
wait_for_apply($upstream, $replica);
is(down(repair('plain')), '0|0|0|0|t', 'nothing is to be repaired');
in_secret(q{DELETE FROM plain WHERE id IN (2, 3); UPDATE plain SET v = 'changed' WHERE id IN (4, 50); INSERT INTO plain (id, v) VALUES (777, 'more'); UPDATE comp SET n = 0.10 WHERE n = 0.1; UPDATE "Od""d ü" SET "select" = '(,"' WHERE " " = 5});
is(down(repair('plain')), '1|2|2|5|t', 'found and repaired');
is(down("SELECT string_agg(concat_ws(' ', id, v, ours, twice), ',' ORDER BY id) FROM plain WHERE id IN (2, 3, 4, 50, 777)"), '4 changed default 8,50 changed default 100,777 more default 1554', 'what only we have is kept, or is new');
is(down("SET enable_seqscan = off; SELECT string_agg(id::text, ' ' ORDER BY id) FROM plain WHERE left(v, 20) IN ('changed', 'more', 'v2', 'v3', 'v4')"), '4 50 777', 'an index has it');
my $tenth = '0.10000000000000000000';
is(down(repair('comp', "ARRAY['(k1,$tenth)', '(k1,$tenth)', '(k2,0.20000000000000000000)', '(none,1)', NULL]")), '0|1|0|1|t', 'one key of two texts, by that of here, and some that do not differ');
in_secret("UPDATE comp SET n = $tenth WHERE n = 0.1");
is(down(repair('comp', "ARRAY['(k1,$tenth)']")), '0|1|0|1|t', 'and by that of there');
in_secret("UPDATE comp SET n = 0.100 WHERE n = 0.1");
is(down(repair('comp')), '0|1|0|1|t', 'and by both');
is(down(verify()), "Od\"d ü (\"a\"\"b\\\\,( ü5\") different", 'others were not touched');
is(down(repair('"Od""d ü"')), '0|1|0|1|t', 'and are in turn');
plant(80);
cmp_ok(repair_all('random ones'), '>', 10, 'there were many');
is(down("SELECT string_agg(c.relname || ' ' || k.msg, ', ') FROM pg_class c, rose.check(c.oid) k WHERE c.relkind = 'r' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'rose')"), '', 'tables and indexes are sound');

# ---- durable ----

in_secret('UPDATE here SET v = v || 3 WHERE id < 20; DELETE FROM root WHERE id = 150');
is(down(repair($_)) =~ /\|t$/, 1, "$_ is repaired") foreach 'here', 'root';
$replica->stop('immediate');
$replica->start;
is(down(verify()), '', 'still after a crash');

# ---- beside changes ----

my $script = $upstream->basedir . '/script.sql';
append_to_file($script, "\\set a random(1, 500)\n\\set b random(1, 200)\nBEGIN; UPDATE plain SET w = w || 1, f = f + 1 WHERE id = :a; DELETE FROM here WHERE id = :b; INSERT INTO here VALUES (:b, :a);\nUPDATE complete SET v = :a WHERE id = :b; UPDATE filtered SET v = :a, hidden = :b, region = CASE region WHEN 'us' THEN 'eu' ELSE 'us' END WHERE id = :b; COMMIT;\n");
my ($pgbench, $bench_out) = (undef, '');
$pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '2', '-R', '200', '-T', 10 * $timeout, '-f', $script, $upstream->connstr('postgres') ], '>', \$bench_out, '2>', \$bench_out);
foreach my $round (1 .. 2)
{
	my $done = 0;

	# what the stream mends meanwhile is not there to be repaired
	plant(40);
	foreach my $table (@tables)
	{
		my @done = split /\|/, down(repair($table));

		$done += $done[3];
	}
	cmp_ok($done, '>', 0, "round $round: some were repaired, seed $seed");
	is(down(verify()), '', 'and all is equal, while changes go on');
}
$pgbench->signal('TERM');	# INT may be ignored, if who started the tests is in the background
$pgbench->finish;

# ---- what fails ----

# The worker, before it commits: no table is at fault.  A row that was not there to be moved before.
up("INSERT INTO root VALUES (9999, 'one')");
wait_for_apply($upstream, $replica);
in_secret('UPDATE root SET v = v || 4 WHERE id = 9999');
foreach my $how ('error', 'terminate')
{
	down("SELECT stop_at('repair-applied', '$how', 'worker', 0)");
	like(error_of($replica, repair('root')), qr/the worker of rose subscription "s" has ended while it repaired rows/, "the worker ends, $how");
	down('SELECT stop_clear()');
	up('INSERT INTO nokey VALUES (10, NULL)');
	wait_for_apply($upstream, $replica);
	is(down("SELECT string_agg(DISTINCT state, ' ') FROM rose.stat_subscription_tables"), 'ready', 'the stream goes on, and all tables with it');
	is(down(verify()), 'root (9999) different', 'nothing was repaired');
}
is(down(repair('root')), '0|1|0|1|t', 'the next one works');

# A row that the table does not take: an error of the repair's, not of the table's.
down("SELECT rose.alter_subscription('s', on_error => 'pause'); ALTER TABLE root ADD CONSTRAINT fine CHECK (v <> 'bad') NOT VALID");
in_secret("UPDATE root SET v = 'bad' WHERE id = 9999");
like(error_of($replica, repair('root')), qr/ended while it repaired rows\n.*violates check constraint "fine"/, 'a row is refused');
up('INSERT INTO nokey VALUES (11, NULL)');
wait_for_apply($upstream, $replica);
is(down("SELECT string_agg(DISTINCT state, ' ') FROM rose.stat_subscription_tables"), 'ready', 'and the stream goes on');
down('ALTER TABLE root DROP CONSTRAINT fine');
is(down(repair('root')), '0|1|0|1|t', 'it is taken');

in_secret('DELETE FROM nokey WHERE a = 1');
like(error_of($replica, repair('nokey')), qr/cannot repair table "public.nokey", which has no primary key.*\n.*resync/, 'without a key');
like(error_of($replica, repair('plain', "'{1}'")), qr/"1" is not a key of table "plain"/, 'no key');
like(error_of($replica, repair('comp', "'{(1)}'")), qr/"\(1\)" is not a key of table "comp"/, 'a part of one');
like(error_of($replica, repair('plain', "'{(x)}'")), qr/invalid input syntax for type integer: "x"/, 'one of another type');
like(error_of($replica, repair('pg_class')), qr/table "pg_class" is not part of rose subscription "s"/, 'one that is none of it');
like(error_of($replica, "BEGIN ISOLATION LEVEL REPEATABLE READ; " . repair('plain')), qr/rose.repair must be called in a READ COMMITTED transaction/, 'another isolation');
like(error_of($replica, "SELECT rose.repair('s', 'plain', max_keys => 10001)"), qr/cannot repair more than 10000 rows at a time/, 'too many');
down('CREATE ROLE joe; GRANT USAGE ON SCHEMA rose TO joe');
like(error_of($replica, 'SET ROLE joe; ' . repair('plain')), qr/must be owner of rose subscription "s"/, 'not for everybody');
# Columns that only we have are kept where keys are equal and look otherwise, whichever of them is named; a default that was changed since tells.
up('CREATE TABLE eq (n numeric PRIMARY KEY, v text); INSERT INTO eq SELECT g, g FROM generate_series(1, 5) g; ALTER PUBLICATION p ADD TABLE eq');
down("CREATE TABLE eq (n numeric PRIMARY KEY, v text, mine text DEFAULT 'first') USING rose; SELECT rose.alter_subscription('s', refresh => true); SELECT rose.wait_for_sync('s', $timeout)");
down("ALTER TABLE eq ALTER mine SET DEFAULT 'second'");
in_secret("UPDATE eq SET n = n + 0.00 WHERE n <= 4; UPDATE eq SET v = 'x' WHERE n IN (2, 5)");
is(down(repair('eq', "'{(1)}'")), '0|1|0|1|t', 'an equal key, by that of here');
is(down(repair('eq', "'{(2.00)}'")), '0|1|0|1|t', '... by that of there');
is(down(repair('eq', "'{(3), (3.00)}'")), '0|1|0|1|t', '... by both');
is(down(repair('eq')), '0|2|0|2|t', '... and found');
is(down("SELECT string_agg(concat_ws(' ', n, v, mine), ',' ORDER BY n) FROM eq"), '1.00 1 first,2.00 x first,3.00 3 first,4.00 4 first,5 x first', 'and what is ours is kept');
# one that may not be read there is no repaired one
up('CREATE ROLE reader LOGIN REPLICATION; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; ALTER TABLE eq ENABLE ROW LEVEL SECURITY');
my $conninfo = $upstream->connstr('postgres');
down("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo user=reader\$\$)");
like(error_of($replica, repair('eq')), qr/cannot repair table "public.eq"/, 'one that cannot be compared');
down("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$)");
up('ALTER TABLE eq DISABLE ROW LEVEL SECURITY');

# What is not published is no reason to make rows otherwise: those that the upstream has no more stay, and what it has changed is not changed.
up("CREATE TABLE archive (id int PRIMARY KEY, v text); INSERT INTO archive SELECT g, g FROM generate_series(1, 10) g; CREATE PUBLICATION kept FOR TABLE archive WITH (publish = 'insert')");
down("CREATE TABLE archive (id int PRIMARY KEY, v text) USING rose; SELECT rose.alter_subscription('s', publications => '{p,kept}'); SELECT rose.wait_for_sync('s', $timeout)");
up("DELETE FROM archive WHERE id <= 4; UPDATE archive SET v = 'changed' WHERE id = 5; ALTER PUBLICATION kept SET (publish = 'update')");
up("INSERT INTO archive VALUES (11, 'missing'); ALTER PUBLICATION kept SET (publish = 'insert')");
wait_for_apply($upstream, $replica);
like(error_of($replica, repair('archive')), qr/NOTICE:  rows of table "public.archive" that differ and were left as they are: 5\nDETAIL:  The publications do not publish such changes/, 'an archive is told of');
is(down(repair('archive')), '0|0|0|0|f', 'and kept');
is(down('SELECT count(*), sum(id), string_agg(v, \',\') FILTER (WHERE id = 5) FROM archive'), '11|66|5', 'what was missing is there');
is(down(repair('archive', "'{(1),(5),(7)}'")), '0|0|0|0|f', 'nor is it by keys');
up("ALTER PUBLICATION kept SET (publish = 'insert, update')");
is(down(repair('archive')), '0|1|0|1|f', 'updates are published');
up("ALTER PUBLICATION kept SET (publish = 'insert, update, delete')");
is(down(repair('archive')), '0|0|4|4|t', 'and deletes');
up("ALTER PUBLICATION kept SET (publish = 'delete'); INSERT INTO archive VALUES (12, 'missing')");
is(down(repair('archive')), '0|0|0|0|f', 'no inserts');
up("ALTER PUBLICATION kept SET (publish = 'insert, update, delete, truncate')");
is(down(repair('archive')), '1|0|0|1|t', 'again');

# A TRUNCATE comes between the two looks at the upstream: the worker does not wait for who waits for it.
in_secret("UPDATE root SET v = v || 5 WHERE id = 9999; UPDATE here SET v = v || 5 WHERE id = (SELECT min(id) FROM here)");
my $stop = RoseTest::Session->new($replica);
$stop->run("SELECT stop_at('verify-taken', 'wait', 'client')");
my $repairing = RoseTest::Session->new($replica);
$repairing->start(repair('here'));
wait_for_stop($replica);
my $truncating = RoseTest::Session->new($upstream);
$truncating->start('TRUNCATE here');
$upstream->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'here'::regclass AND NOT granted") or die 'nobody truncates';
$stop->run("SELECT go_on('verify-taken')");
is(eval { $repairing->finish } // $repairing->{err}, '0|0|0|0|t', 'a TRUNCATE comes in between');
$truncating->finish;
$_->end foreach $stop, $repairing, $truncating;
is(down(repair('root')), '0|1|0|1|t', 'another table has its own');
up("INSERT INTO here SELECT g, g FROM generate_series(1, 20) g");
wait_for_apply($upstream, $replica);

# Amounts of money, which each server writes as its country does. A locale that nobody has installed is made here, if that can be.
SKIP:
{
	my $locales = PostgreSQL::Test::Utils::tempdir_short();
	my $amounts = 'SELECT id, m::numeric, v FROM coins ORDER BY id';

	skip('no source of another locale', 6) if system("localedef -i de_DE -f UTF-8 $locales/de_DE.UTF-8 > /dev/null 2>&1") != 0 || !-d "$locales/de_DE.UTF-8";
	$upstream->append_conf('postgresql.conf', "lc_monetary = 'de_DE.UTF-8'");
	local $ENV{LOCPATH} = "$locales:/usr/lib/locale";
	$upstream->restart;
	isnt(up(q{SELECT 1234.56::numeric::money}), '$1,234.56', 'money looks otherwise there');
	up("CREATE TABLE coins (id int PRIMARY KEY, m money, v text); INSERT INTO coins SELECT g, (g * 1234.56)::numeric::money, g FROM generate_series(1, 9) g; ALTER PUBLICATION p ADD TABLE coins");
	down("CREATE TABLE coins (id int PRIMARY KEY, m money, v text) USING rose; SELECT rose.alter_subscription('s', refresh => true, binary => false); SELECT rose.wait_for_sync('s', $timeout)");
	is(down($amounts), up($amounts), 'copied');
	up("UPDATE coins SET m = m * -1 WHERE id % 2 = 0; INSERT INTO coins VALUES (10, 0.99::numeric::money, 'x')");
	wait_for_apply($upstream, $replica);
	is(down($amounts), up($amounts), 'streamed as text');
	in_secret('UPDATE coins SET m = 9876543.21::numeric::money WHERE id = 3; UPDATE coins SET v = 0 WHERE id = 4');
	is(down(verify('coins')), "coins (3) different\ncoins (4) different", 'compared');
	is(down(repair('coins')), '0|2|0|2|t', 'and repaired');
	is(down($amounts), up($amounts), '... to what it is there');
}

down("SELECT rose.pause_table('s', 'here')");
like(error_of($replica, repair('here')), qr/cannot repair table "public.here": not compared: it is paused/, 'paused');
is(down(repair('plain')), '0|0|0|0|t', 'another one, beside it');
is(down("SELECT string_agg(concat_ws(' ', relname, key, problem), ', ' ORDER BY relname) FROM rose.verify('s')"), 'here not compared: it is paused, nokey rows differ', 'no other differs');
done_testing();
