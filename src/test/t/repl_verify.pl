# rose.verify: tables that are equal are said to be, of whatever types and under whatever settings, beside a stream that goes on; of changes
# that never came each is named, and nothing else; what is not compared is said; whoever ends in the middle leaves nothing behind.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $seed = seed_random('ROSE_VERIFY_SEED');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'autovacuum = off', 'max_prepared_transactions = 2');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub verify { return "SELECT concat_ws(' ', schemaname, relname, key, upstream_rows, replica_rows, problem) FROM rose.verify('s'" . (@_ ? ", $_[0]" : '') . ", timeout_seconds => $timeout) ORDER BY 1" }
sub verified { my ($what, $expected, @args) = @_; is(down(verify(@args)), $expected, $what); return }
sub plain_connstr { return $upstream->connstr('postgres') =~ s/'//gr }
# they go with their connections, a moment later
sub no_slots { ok($upstream->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_replication_slots WHERE slot_name LIKE 'rose_verify%'"), "no slot is left, $_[0]"); return }

# ---- equal ----

# Each side writes values in its own way, and neither is what is compared.
up('ALTER DATABASE postgres SET "DateStyle" = \'German\'; ALTER DATABASE postgres SET "IntervalStyle" = sql_standard; ALTER DATABASE postgres SET extra_float_digits = -5; ALTER DATABASE postgres SET "TimeZone" = \'Asia/Tokyo\'');
down('ALTER DATABASE postgres SET bytea_output = escape; ALTER DATABASE postgres SET "TimeZone" = \'America/Lima\'; ALTER DATABASE postgres SET quote_all_identifiers = on');

my $types = q{CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN small AS int CHECK (VALUE < 1000); CREATE TYPE pair AS (a int, b text); CREATE SCHEMA odd};
# What shadows the functions and operators that a careless query would find.
my $shadows = q{CREATE FUNCTION odd.count() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION odd.hashtextextended(text, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT random()::bigint';
	CREATE OPERATOR odd.& (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = int8pl)};
my @key_of = (
	[ 'typed', 'id' ], [ 'comp', 'k, n' ], [ 'odd."sel""ect ü"', '"Key"' ], [ 'keyed', 'v' ], [ 'root', 'id' ], [ 'here', 'id' ], [ 'filtered', 'id' ], [ 'nothing', 'id' ]);
my $columns = 'id int PRIMARY KEY, f float8, g real, n numeric, ts timestamptz, iv interval, d date, a numeric[], s small, m mood, j jsonb, b bytea, c money, t text, p pair, u uuid, r int4range, x bit(5)';
my $same = q{CREATE TABLE comp (k text COLLATE "POSIX", n numeric, v text, PRIMARY KEY (n, k)) A; CREATE TABLE nokey (a int, b text) A; CREATE TABLE nothing (id int PRIMARY KEY) A;
	CREATE TABLE odd."sel""ect ü" ("Key" text PRIMARY KEY, "select" text, " " int) A; CREATE TABLE keyed (v varchar(20), w float8, PRIMARY KEY (v)) A};
up("$types; CREATE TABLE typed ($columns); " . $same =~ s/\bA\b//gr . q{; CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE root1 PARTITION OF root FOR VALUES FROM (0) TO (100);
	CREATE TABLE root2 PARTITION OF root FOR VALUES FROM (100) TO (100000); CREATE TABLE filtered (gone int, id int PRIMARY KEY, hidden text, v text, region text NOT NULL); ALTER TABLE filtered DROP COLUMN gone;
	CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE here (id int PRIMARY KEY, v text); INSERT INTO here SELECT g, g FROM generate_series(1, 100) g;
	CREATE PUBLICATION p FOR TABLE typed, comp, nokey, nothing, odd."sel""ect ü", keyed, root, filtered (id, v, region) WHERE (region = 'eu'), other, here WITH (publish_via_partition_root = true);
	CREATE UNIQUE INDEX i ON filtered (id, region); ALTER TABLE filtered REPLICA IDENTITY USING INDEX i});
down("$types; $shadows; CREATE TABLE typed ($columns) USING rose; " . $same =~ s/\bA\b/USING rose/gr . q{; CREATE TABLE root (v text, id int PRIMARY KEY) USING rose; CREATE TABLE filtered (region text, ours int, v2 text, id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED) USING rose;
	ALTER TABLE filtered RENAME v2 TO v; CREATE TABLE other (id int PRIMARY KEY) USING rose;
	CREATE TABLE here (v text, id int PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE here1 PARTITION OF here FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING rose; CREATE TABLE here2 (id int PRIMARY KEY, v text) USING rose; ALTER TABLE here ATTACH PARTITION here2 FOR VALUES WITH (MODULUS 2, REMAINDER 1)});

up(q{INSERT INTO typed SELECT g, CASE g % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 1e300 / g ELSE random() END, random(), CASE g % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN g::numeric(10, 3) WHEN 2 THEN g ELSE 1e20 / g END,
	now() - g * interval '1 hour 1 us', make_interval(0, g, 0, -g, 1, 0, g / 7.0), CASE WHEN g % 9 = 0 THEN 'infinity' ELSE date '2000-01-01' - g END, CASE WHEN g % 3 > 0 THEN ARRAY[g, NULL, g / 3.0] END, g, (ARRAY['sad', 'ok', NULL])[1 + g % 3]::mood,
	jsonb_build_object('b', g, 'a', NULL, 'é"', g / 7.0), decode(md5(g::text), 'hex'), g, CASE g % 50 WHEN 0 THEN (SELECT string_agg(md5(i::text || g), '') FROM generate_series(1, 400) i) WHEN 1 THEN '' WHEN 2 THEN NULL ELSE 'a,"\ (' || g END,
	CASE WHEN g % 2 = 0 THEN ROW(g, 'a"b')::pair END, md5(g::text)::uuid, int4range(g, g + 5, '[]'), g::bit(5) FROM generate_series(1, 900) g;
	INSERT INTO comp SELECT chr(65 + g % 60) || g / 60, g / 10.0, 'v' || g FROM generate_series(1, 600) g; INSERT INTO nokey SELECT g % 7, repeat('x', g % 7) FROM generate_series(1, 70) g;
	INSERT INTO odd."sel""ect ü" SELECT 'ä ' || g, NULL, g FROM generate_series(1, 50) g; INSERT INTO keyed SELECT md5(g::text)::varchar(20), g FROM generate_series(1, 700) g;
	INSERT INTO root SELECT g, g FROM generate_series(1, 300) g; INSERT INTO filtered SELECT g, 'h' || g, 'v' || g, (ARRAY['eu', 'us'])[1 + g % 2] FROM generate_series(1, 200) g});
stop_points_create($replica);
subscribe($upstream, $replica);
verified('copied', '');
up(q{UPDATE typed SET n = n + 0.10, s = 7 WHERE id % 10 < 3; UPDATE comp SET k = k || 'z' WHERE n < 20; DELETE FROM keyed WHERE w > 600; UPDATE root SET id = id + 1000 WHERE id < 30; UPDATE filtered SET region = 'eu' WHERE id < 20; UPDATE filtered SET region = 'us' WHERE id > 180;
	TRUNCATE nokey; INSERT INTO nokey VALUES (1, NULL), (1, NULL), (NULL, NULL)});
verified('and changed, and the position is that of now', '');
no_slots('after those');
down('SELECT rose.spill($$typed$$); SELECT rose.merge($$typed$$)');
up('UPDATE typed SET t = t || 1 WHERE id = 51');
verified('one table', '', "'{typed}'");
is(down('SET search_path = odd, pg_catalog, public; ' . verify()), '', 'another search_path, where functions of others come first');
verified('two tables, one of them empty', '', "ARRAY['nothing', 'comp']::regclass[]");

# ---- differences ----

# Changes that are not published: the upstream makes them, and the replica never hears of them.
sub in_secret { up("ALTER PUBLICATION p SET (publish = 'truncate')"); up($_[0]); up("ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')"); return }

# What a comparison of all rows finds.
sub oracle
{
	my (@expected, %upstream, %replica);
	my $settings = "SET search_path = public; SET \"DateStyle\" = ISO; SET \"IntervalStyle\" = postgres; SET extra_float_digits = 1; SET \"TimeZone\" = UTC; SET bytea_output = hex; SET quote_all_identifiers = off";
	my @all;

	foreach my $one (@key_of)
	{
		my ($table, $key) = @$one;
		my $row = $table =~ /root|here/ ? 'ROW(id, v)' : $table eq 'filtered' ? 'ROW(id, v, region)' : 'whole';
		my $where = $table eq 'filtered' ? "WHERE region = 'eu'" : '';
		my $name = $table =~ /^odd/ ? 'odd sel"ect ü' : "public $table";

		push @all, "SELECT '$name ' || ROW($key)::text || chr(1) || $row" . "::text FROM $table whole $where";
	}
	%upstream = map { split /\x01/, $_, 2 } split /\n/, up("$settings; " . join ' UNION ALL ', @all);
	%replica = map { split /\x01/, $_, 2 } split /\n/, down("$settings; " . join ' UNION ALL ', @all);
	foreach my $k (keys %{ { %upstream, %replica } })
	{
		push @expected, !exists $replica{$k} ? "$k 1 0 missing here" : !exists $upstream{$k} ? "$k 0 1 only here" :
		  $upstream{$k} ne $replica{$k} ? "$k 1 1 different" : ();
	}
	return @expected;
}

sub found_all
{
	my ($what, @more) = @_;

	wait_for_apply($upstream, $replica);
	my @expected = sort(oracle(), @more);
	is(join("\n", sort split /\n/, down(verify())), join("\n", @expected), "$what: " . scalar(@expected) . " differences, seed $seed");
	return scalar @expected;
}

my @set = ('f = -f * 1.0000001', 'n = n * 1.00', q{ts = ts + '1us'}, q{iv = iv + '1us'}, 'a = a || NULL::numeric', q{m = 'sad'}, q{b = b || '\x00'}, q{t = t || 'x'}, 't = NULL', q{t = ''}, 'g = g * 1.0001',
	q{j = '{"a": 1.0}'}, q{p = ROW(1, '')::pair});
my @change = (
	sub { "INSERT INTO typed (id, t) VALUES (" . (1000 + int rand 100000) . ", 'new') ON CONFLICT DO NOTHING" },
	sub { 'DELETE FROM typed WHERE id = ' . int(rand 900) },
	sub { 'UPDATE typed SET ' . $set[ rand @set ] . ' WHERE id = ' . int(rand 900) },
	sub { 'UPDATE comp SET n = n * 1.00 + ' . (int rand 2) . ' WHERE v = $$v' . int(rand 600) . '$$' },
	sub { 'DELETE FROM comp WHERE v = $$v' . int(rand 600) . '$$' },
	sub { 'UPDATE odd."sel""ect ü" SET "select" = \'"\' WHERE " " = ' . int(rand 50) },
	sub { 'UPDATE keyed SET v = upper(v), w = -w WHERE w = ' . int(rand 700) },
	sub { "UPDATE root SET v = v || 'x' WHERE id = " . int(rand 300) },
	sub { 'DELETE FROM here WHERE id = ' . int(rand 100) },
	sub { 'UPDATE filtered SET region = ' . (qw('eu' 'us'))[ rand 2 ] . ", hidden = 'x' WHERE id = " . int(rand 200) },
	sub { 'INSERT INTO nothing VALUES (' . int(rand 100) . ') ON CONFLICT DO NOTHING' });

in_secret("DELETE FROM here WHERE id IN (1, 2); UPDATE typed SET f = 0 WHERE f = '-0' AND id = 6; UPDATE typed SET n = 1.00 WHERE id = 1; UPDATE typed SET n = n, t = '' WHERE id = 52");
cmp_ok(found_all('one that = does not see, and another'), '>=', 5, 'they are found');
in_secret(join ';', map { $change[ rand @change ]->() } 1 .. 60);
cmp_ok(found_all('random ones'), '>', 10, 'there are many');
in_secret("INSERT INTO nokey VALUES (9, 'nine')");
found_all('and one without a key', 'public nokey 4 3 rows differ');
in_secret('UPDATE keyed SET w = w + 1');
like(down(verify("'{keyed}'") =~ s/timeout_seconds/max_keys => 10, timeout_seconds/r), qr/^(?:public keyed \([^\n]*\n){10}public keyed \d+ \d+ more differences, among so many rows$/, 'no more keys than are wanted, and that there are others');

# They end with a copy.
down("SELECT rose.alter_subscription('s', resync => '$_')") foreach 'typed', 'comp', 'odd."sel""ect ü"', 'keyed', 'root', 'here', 'filtered', 'nothing', 'nokey';
down("SELECT rose.wait_for_sync('s', $timeout)");
verified('after copies', '');

# ---- what is not compared ----

down("SELECT rose.pause_table('s', 'keyed')");
up('DELETE FROM keyed WHERE w < 50');
verified('a paused table', 'public keyed not compared: it is paused');
verified('that one alone', 'public keyed not compared: it is paused', "'{keyed}'");
down("SELECT rose.resume_table('s', 'keyed')");
verified('it has caught up, or is waited for', '', "'{keyed}'");
down("SELECT rose.wait_for_sync('s', $timeout)");
up('CREATE TABLE newer (id int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE newer; ALTER PUBLICATION p DROP TABLE other');
verified('published or subscribed, and not both', "public newer not compared: the upstream publishes it, and the subscription does not have it\npublic other not compared: the upstream does not publish it any more");
up('ALTER PUBLICATION p DROP TABLE newer; ALTER PUBLICATION p ADD TABLE other; ALTER TABLE nothing ADD more int');
verified('a column that is not here', 'public nothing not compared: table "nothing" has no column "more", which the upstream publishes');
up('ALTER TABLE nothing DROP more');
like(error_of($replica, "SELECT rose.verify('s', '{pg_class}')"), qr/table "pg_class" is not part of rose subscription "s"/, 'one that is none of it');
like(error_of($replica, "SELECT rose.verify('nix')"), qr/rose subscription "nix" does not exist/, 'no subscription');
like(error_of($replica, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT rose.verify('s')"), qr/must be called in a READ COMMITTED transaction/, 'another isolation');
down('CREATE ROLE joe; GRANT USAGE ON SCHEMA rose TO joe');
like(error_of($replica, "SET ROLE joe; SELECT rose.verify('s')"), qr/must be owner of rose subscription "s"/, 'not for everybody');

# ---- beside others ----

# Tables of others, with row security that is forced upon them, and an index that runs their code when it is planned.
down(q{CREATE TABLE spy (who text); GRANT INSERT ON spy TO PUBLIC; ALTER TABLE keyed OWNER TO joe; ALTER TABLE keyed ENABLE ROW LEVEL SECURITY; ALTER TABLE keyed FORCE ROW LEVEL SECURITY;
	CREATE FUNCTION tell(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN IF current_user <> 'joe' AND current_setting('application_name') = 'watched' THEN RAISE 'run as %', current_user; END IF; RETURN $1; END$$; CREATE INDEX ON keyed ((w + tell(1)))});
is(down("SET application_name = watched; " . verify()), '', 'a table of somebody else, whose code runs as he');
wait_for_apply($upstream, $replica);

# Tables that may not be read, each by somebody else, or by a policy: the others are compared.
down('ALTER TABLE nothing OWNER TO joe; REVOKE ALL ON nothing FROM joe');
up('CREATE ROLE reader LOGIN REPLICATION; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; REVOKE SELECT ON other FROM reader; GRANT USAGE ON SCHEMA odd TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA odd TO reader; ALTER TABLE comp ENABLE ROW LEVEL SECURITY');
down("SELECT rose.alter_subscription('s', conninfo => '" . plain_connstr() . " user=reader')");
verified('three that may not be read', join "\n", 'public comp not compared: could not compare a table on the upstream: ERROR:  query would be affected by row-level security policy for table "comp"',
	'public nothing not compared: permission denied for table nothing', qq{public other not compared: the subscription's role may not read table "public.other" on the upstream});
in_secret('UPDATE root SET v = v || 5 WHERE id = 299');
is(scalar(() = down(verify()) =~ /^/mg), 4, 'a difference of another one is named');
down('GRANT ALL ON nothing TO joe; ' . "SELECT rose.alter_subscription('s', conninfo => '" . plain_connstr() . "')");
up('ALTER TABLE comp DISABLE ROW LEVEL SECURITY');
is(down("SELECT updated FROM rose.repair('s', 'root', timeout_seconds => $timeout)"), 1, 'and it can be repaired');
verified('all are compared again', '');

# A transaction that is prepared upstream is waited for.
up("BEGIN; INSERT INTO nothing VALUES (-2); PREPARE TRANSACTION 'held'");
like(error_of($replica, "SELECT rose.verify('s', timeout_seconds => 1)"), qr/timed out while trying to take a snapshot of the upstream.*\n.*Transaction \d+ of the upstream was prepared, as "held", and is neither committed nor rolled back/, 'no snapshot while one is prepared');
up("COMMIT PREPARED 'held'");
verified('it is committed', '');

# A transaction that is open upstream, large or not, is waited for, and nobody else waits.
my ($writer, $caller, $second) = (RoseTest::Session->new($upstream), RoseTest::Session->new($replica), RoseTest::Session->new($replica));
$writer->run('BEGIN; INSERT INTO root SELECT g, md5(g::text) FROM generate_series(50000, 51500) g');
like(error_of($replica, "SELECT rose.verify('s', timeout_seconds => 1)"), qr/timed out while trying to take a snapshot of the upstream.*\n.*Transaction \d+ of the upstream/, 'no snapshot in time');
like(error_of($replica, "SET statement_timeout = '300ms'; SELECT rose.verify('s')"), qr/canceling statement due to statement timeout/, 'cancelled meanwhile');
$caller->start(verify());
$second->start(verify("'{comp, root}'"));
up('INSERT INTO nothing VALUES (-1)');
wait_for_apply($upstream, $replica);
is(down('SELECT count(*) FROM nothing WHERE id = -1'), 1, 'the stream goes on');
$writer->run('COMMIT');
is($caller->finish, '', 'it has ended, and all is equal');
is($second->finish, '', 'for two of them');

# The worker waits for a lock of the caller, who would wait for the worker.
$second->run('BEGIN; LOCK TABLE root');
up('UPDATE root SET v = v || 2 WHERE id = 299');
ok($replica->poll_query_until('postgres', "SELECT waiting_for = 'root'::regclass FROM rose.stat_subscription"), 'the worker waits for the table');
ok(!eval { $second->run(verify()); 1 }, 'which is seen');
like($second->{err}, qr/waits for a lock that this transaction holds/, 'as an error');
$second->end;
$second = RoseTest::Session->new($replica);

# A stream that does not stand still.
my $script = $upstream->basedir . '/script.sql';
append_to_file($script, "\\set a random(1, 900)\n\\set b random(1, 300)\nBEGIN; UPDATE typed SET t = :a, n = n + 1 WHERE id = :a; UPDATE root SET v = v || 1 WHERE id = :b;\nINSERT INTO comp VALUES (random()::text, :a); DELETE FROM comp WHERE n = :b; COMMIT;\n");
my ($pgbench, $bench_out) = (undef, '');
$pgbench = IPC::Run::start([ 'pgbench', '-n', '-c', '3', '-T', 10 * $timeout, '-f', $script, $upstream->connstr('postgres') ], '>', \$bench_out, '2>', \$bench_out);
ok($upstream->poll_query_until('postgres', "SELECT count(*) > 50 FROM comp WHERE v IS NULL"), 'changes come');
my $before = up('SELECT pg_current_wal_lsn()');
my $equal = 0;
$equal += down(verify()) eq '' for 1 .. 3;
is($equal, 3, 'it is equal at each moment');
$_->start(verify()) foreach $caller, $second;
is(down(verify()) . $caller->finish . $second->finish, '', 'for three at a time');
cmp_ok(up("SELECT pg_current_wal_lsn() - '$before'"), '>', 10000, 'there were changes meanwhile');

# ---- between the snapshots and the comparison ----

# The stream goes on, and what it brings is not of the position; nobody empties a table upstream.
my $control = RoseTest::Session->new($replica);
sub stop_caller { $control->run("SELECT stop_at('verify-taken', 'wait', 'client')"); $caller->start(verify()); wait_for_stop($replica); return }
stop_caller();
$second->run('SELECT pg_backend_pid()');
up('UPDATE filtered SET v = v || 1; DELETE FROM keyed; INSERT INTO nothing VALUES (77777)');
$writer->start('TRUNCATE nothing');
ok($upstream->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'nothing'::regclass"), 'TRUNCATE waits upstream');
wait_for_apply($upstream, $replica);
is(down('SELECT count(*) FROM keyed'), 0, 'changes come meanwhile');
$control->run("SELECT go_on('verify-taken')");
is($caller->finish, '', 'they are of later');
$writer->finish;
verified('the table was emptied', '');

# ---- who ends in the middle ----

# The worker, while it stands still, both times.
foreach my $skip (0, 1)
{
	down("SELECT stop_at('verify-standing', 'terminate', 'worker', $skip)");
	verified("the worker ends while it stands still, skip $skip", '');
	is(down("SELECT stop_hits('verify-standing') > 0"), 't', 'it was so');
	down('SELECT stop_clear()');
}
$pgbench->signal('TERM');	# INT may be ignored, if who started the tests is in the background
$pgbench->finish;

# The caller, or the upstream, between the snapshots and the comparison.
stop_caller();
down("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%rose.verify(%' AND pid <> pg_backend_pid() AND wait_event_type = 'Lock'");
ok(!eval { $caller->finish; 1 }, 'the caller is gone');
$control->run("SELECT go_on('verify-taken')");
ok($upstream->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'walsender'"), 'and his connection');
$caller = RoseTest::Session->new($replica);
stop_caller();
restart_by($upstream, 'immediate');
$control->run("SELECT go_on('verify-taken')");
ok(!eval { $caller->finish; 1 }, 'the upstream is gone');
like($caller->{err}, qr/ERROR:  could not look at the table that was read/, 'which is said');
($caller, $writer) = (RoseTest::Session->new($replica), RoseTest::Session->new($upstream));
verified('and works again', '');

# One that waits for a lock upstream.
$writer->run('BEGIN; LOCK TABLE typed');
$caller->start(verify());
ok($upstream->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'typed'::regclass"), 'it waits for a lock upstream');
restart_by($upstream, 'immediate');
ok(!eval { $caller->finish; 1 }, 'the upstream is restarted');
like($caller->{err}, qr/ERROR/, 'which is an error');
$writer = RoseTest::Session->new($upstream);
verified('and works again, too', '');
no_slots('after all that');
$_->end foreach $writer, $second, $control;

# ---- another encoding ----

$upstream->safe_psql('postgres', "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
down("CREATE DATABASE latin ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0");
rose_create($replica, 'latin');
$upstream->safe_psql('latin', "CREATE TABLE t (k text PRIMARY KEY, v text); INSERT INTO t SELECT U&'\\00e9' || g, U&'\\00fc' || g FROM generate_series(1, 100) g; CREATE PUBLICATION p FOR TABLE t");
$replica->safe_psql('latin', 'CREATE TABLE t (k text PRIMARY KEY, v text) USING rose');
subscribe($upstream, $replica, 'latin', "slot_name => 'latin'");
is($replica->safe_psql('latin', verify()), '', 'it is equal');
$upstream->safe_psql('latin', "ALTER PUBLICATION p SET (publish = 'truncate')");
$upstream->safe_psql('latin', "UPDATE t SET v = U&'\\00fd' WHERE k = U&'\\00e97'");
is($replica->safe_psql('latin', verify()), "public t (\xc3\xa97) 1 1 different", 'and it is not');
$replica->safe_psql('latin', "SELECT rose.drop_subscription('s')");

down("SELECT rose.alter_subscription('s', enabled => false)");
like(error_of($replica, "SELECT rose.verify('s')"), qr/rose subscription "s" is not enabled/, 'disabled');
done_testing();
