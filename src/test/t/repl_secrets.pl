# What others must not get at: connection strings, by whatever right to read, and by
# publications; the rights of superusers who call rose's functions, by operators of one's own.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no subscriptions of its own' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.max_subscriptions = 4", "wal_retrieve_retry_interval = '200ms'");
my $conninfo = $upstream->connstr('postgres') . " options='-c work_mem=4321kB'";

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql($_[1] // 'postgres', $_[0]) }

sub as
{
	my ($role, $sql) = @_;
	my ($rc, $out, $err) = $replica->psql('postgres', $sql, extra_params => [ '-U', $role ]);

	return "$out$err";
}

up('CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 1); CREATE PUBLICATION p FOR TABLE t');
down('CREATE TABLE t (id int PRIMARY KEY, v text) USING rose; CREATE ROLE reader LOGIN; CREATE ROLE mallory LOGIN; GRANT pg_read_all_data TO reader');
down("SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'])");
down("SELECT rose.wait_for_sync('s', $timeout)");

# --- who may read all tables does not get connection strings
like(down('SELECT conninfo FROM rose.subscription'), qr/4321kB/, 'superusers see it');
like(as('reader', 'SELECT subname FROM rose.subscription'), qr/^s$/, 'who may read all data reads the table');
foreach my $query (
	'SELECT conninfo FROM rose.subscription',
	'SELECT s::text FROM rose.subscription s',
	'SELECT to_jsonb(s) FROM rose.subscription s',
	"SELECT format('%s', conninfo), ARRAY[conninfo]::text FROM rose.subscription",
	'COPY (SELECT * FROM rose.subscription) TO STDOUT',
	'COPY (SELECT conninfo FROM rose.subscription) TO STDOUT (FORMAT binary)',
	"SELECT query_to_xml('SELECT * FROM rose.subscription', true, false, '')",
	'SELECT most_common_vals, histogram_bounds FROM pg_stats')
{
	unlike(as('reader', $query), qr/4321kB/, "not by $query");
}
like(as('reader', "SELECT conninfo *= ROW('x'::rose.secret) FROM rose.subscription"),
	qr/must be superuser to make values of type rose.secret/, 'nor can secrets be made, to be compared');
like(as('mallory', 'SELECT conninfo FROM rose.subscription'), qr/permission denied/, 'others do not even see the table');

# --- publications do not have rose's tables
my $local = $replica->connstr('postgres');
down('CREATE TABLE plain (id int PRIMARY KEY) USING heap; INSERT INTO plain VALUES (1)');
down('CREATE PUBLICATION every FOR ALL TABLES; CREATE PUBLICATION those FOR TABLES IN SCHEMA rose');
is(down("SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'rose'"), 0, 'no publication has them');
up('CREATE DATABASE third');
$upstream->safe_psql('third', 'CREATE TABLE plain (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY, v text)');
my ($rc, $out, $err) = $upstream->psql('third', "CREATE SUBSCRIPTION third CONNECTION \$\$$local\$\$ PUBLICATION every");
is($rc, 0, 'a subscriber without rose') or diag($err);
$upstream->poll_query_until('third', "SELECT count(*) = 2 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel") or die 'no copy';
up("INSERT INTO t SELECT g, g FROM generate_series(2, 100) g");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('t')");
down('INSERT INTO plain VALUES (2)');
$upstream->poll_query_until('third', 'SELECT count(*) = 2 FROM plain') or fail('changes arrive');
pass('it gets changes, while those of subscriptions are none of its business');
$upstream->safe_psql('third', 'DROP SUBSCRIPTION third');
down('DROP PUBLICATION every, those');
like((($replica->psql('postgres', 'CREATE PUBLICATION this FOR TABLE rose.subscription'))[2]), qr/cannot add relation "subscription" to publication/, 'nor by name');

# --- what publications leave out is not a materialized view like others
foreach my $how ('', 'CONCURRENTLY ')
{
	foreach my $table (qw(subscription subscription_rel subscription_state))
	{
		($rc, $out, $err) = $replica->psql('postgres', "REFRESH MATERIALIZED VIEW ${how}rose.$table");
		like($err, qr/cannot refresh a materialized view of rose/, "refresh ${how}of $table");
	}
}
foreach my $table (qw(subscription subscription_rel subscription_new subscription_state))
{
	($rc, $out, $err) = $replica->psql('postgres', "REFRESH MATERIALIZED VIEW rose.$table WITH NO DATA");
	like($err, qr/cannot refresh a materialized view of rose/, "refresh of $table, with no data");
}
is(down('SELECT (SELECT count(*) FROM rose.subscription), (SELECT count(*) FROM rose.subscription_rel), (SELECT count(*) FROM rose.subscription_state)'),
	'1|1|1', 'nothing is lost');
down('CREATE SCHEMA mine; CREATE MATERIALIZED VIEW mine.subscription USING heap AS SELECT 1 AS one; REFRESH MATERIALIZED VIEW mine.subscription WITH NO DATA; DROP SCHEMA mine CASCADE');
down('VACUUM FULL rose.subscription, rose.subscription_rel, rose.subscription_state; REINDEX SCHEMA rose; VACUUM ANALYZE rose.subscription_state');
up("INSERT INTO t VALUES (101, 'after VACUUM FULL')");
wait_for_apply($upstream, $replica);
down("SELECT rose.spill('t')");
crash_and_restart($replica);
wait_for_apply($upstream, $replica);
is(down('SELECT count(*) FROM t'), 101, 'they are durable');
like(down('SELECT conninfo FROM rose.subscription'), qr/4321kB/, 'all that is in them');

# --- operators of one's own, in a schema before pg_catalog, or where pg_catalog has none that fits as well
my @types = qw(oid int4 int8 int2 regclass name text "char" bool pg_lsn name[] text[]);
my $evil = <<'SQL';
CREATE SEQUENCE SCHEMA.calls; GRANT ALL ON SCHEMA.calls TO PUBLIC;
SQL
$evil .= <<"SQL" foreach map { my $l = $_; map { [ $l, $_ ] } @types } @types;
CREATE FUNCTION SCHEMA.spy($_->[0], $_->[1]) RETURNS boolean LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM pg_catalog.nextval('SCHEMA.calls');
	IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user) THEN
		ALTER ROLE mallory SUPERUSER;
	END IF;
	RETURN true;
END \$\$;
CREATE OPERATOR SCHEMA.= (LEFTARG = $_->[0], RIGHTARG = $_->[1], FUNCTION = SCHEMA.spy);
SQL
down('CREATE SCHEMA evil AUTHORIZATION mallory; GRANT USAGE ON SCHEMA evil TO PUBLIC; GRANT CREATE ON SCHEMA public TO mallory');
foreach my $schema (qw(evil public))
{
	my $sql = $evil =~ s/SCHEMA\./$schema./gr;
	is(as('mallory', "SET client_min_messages = warning; $sql"), '', "operators in $schema");
}
down("SELECT rose.drop_subscription('s'); TRUNCATE t");

sub no_calls
{
	my ($name) = @_;

	is(down('SELECT pg_sequence_last_value(\'evil.calls\'), pg_sequence_last_value(\'public.calls\')'), '|', "$name: no operator of others was called");
	is(down("SELECT pg_catalog.count(*) FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) 'mallory' AND rolsuper"), 0, "$name: nor has it done its work");
	return;
}
foreach my $path ('evil, public, pg_catalog', 'public')
{
	my $set = "SET search_path = $path";

	down("$set; SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'])");
	down("$set; SELECT rose.wait_for_sync('s', $timeout)");
	no_calls("create, $path");
	down("$set; SELECT rose.alter_subscription('s', refresh => true, enabled => true, binary => false)");
	down("$set; SELECT rose.alter_subscription('s', resync => 'public.t')");
	down("$set; SELECT rose.wait_for_sync('s', $timeout)");
	no_calls("alter, $path");
	down("$set; SELECT rose.spill('public.t')");
	down("$set; SELECT rose.merge('public.t')");
	down("$set; SELECT FROM rose.check('public.t')");
	no_calls("maintenance, $path");
	down("$set; SELECT FROM rose.$_") foreach split ' ', down("SELECT string_agg(viewname, ' ') FROM pg_views WHERE schemaname = 'rose'");
	down("$set; TABLE rose.$_") foreach qw(stat_subscription stat_subscription_tables stat_components stat_space stat_memory stat_merge_progress stat_worker stat_snapshots);
	no_calls("views, $path");
	down("$set; SELECT rose.drop_subscription('s')");
	down("$set; SELECT rose.detach('public.t')");
	down("$set; TRUNCATE public.t");
	no_calls("drop, $path");
}

# The same where the schema of the extension was made by somebody else before.
down('CREATE DATABASE hijack OWNER mallory');
($rc, $out, $err) = $replica->psql('hijack', 'CREATE SCHEMA rose; ' . ($evil =~ s/SCHEMA\./rose./gr), extra_params => [ '-U', 'mallory' ]);
is($rc, 0, 'operators where the extension is to be') or diag($err);
down('CREATE EXTENSION rose', 'hijack');
down("TABLE rose.$_", 'hijack') foreach qw(stat_subscription stat_subscription_tables stat_components stat_space stat_memory stat_merge_progress stat_worker stat_snapshots);
is(down("SELECT pg_sequence_last_value('rose.calls')", 'hijack'), '', 'called by none of its views');

down('DROP OWNED BY mallory CASCADE');

# --- errors show values: to the table's owner, and to who reads all statistics
down('CREATE ROLE owner LOGIN; CREATE ROLE granted LOGIN; CREATE ROLE neighbour LOGIN; CREATE ROLE statistician LOGIN; GRANT pg_read_all_stats TO statistician;'
	. 'CREATE TABLE e (id int PRIMARY KEY, v text CHECK (v <> \'secret word\')) USING rose; ALTER TABLE e OWNER TO owner; GRANT SELECT ON e TO granted;'
	. 'CREATE TABLE n (id int PRIMARY KEY, v text) USING rose; ALTER TABLE n OWNER TO neighbour');
up('CREATE TABLE e (id int PRIMARY KEY, v text); CREATE TABLE n (id int PRIMARY KEY, v text); CREATE PUBLICATION e FOR TABLE e, n');
down("SELECT rose.create_subscription('e', \$\$$conninfo\$\$, ARRAY['e'], on_error => 'pause')");
down("SELECT rose.wait_for_sync('e', $timeout)");
up("INSERT INTO e VALUES (1, 'secret word')");
$replica->poll_query_until('postgres', "SELECT state IN ('paused', 'error') FROM rose.stat_subscription_tables WHERE relid = 'e'::regclass") or fail('paused');
my $of_table = "SELECT last_error FROM rose.stat_subscription_tables WHERE relid = 'e'::regclass";
my $of_subscription = "SELECT last_error FROM rose.stat_subscription WHERE subname = 'e'";
like(as($_, $of_table), qr/secret word/, "the table's error, for $_") foreach qw(owner statistician postgres);
is(as($_, $of_table), 'error 23514', "the table's error, for $_") foreach qw(granted neighbour);
like(as($_, $of_subscription), qr/secret word/, "the subscription's error, for $_") foreach qw(statistician postgres);
is(as($_, $of_subscription), '', "the subscription's error, for $_") foreach qw(owner granted neighbour);

# nor does who waits for another table in vain learn more
my $wait = "SELECT rose.wait_for_lsn('e', 'FFFFFFFF/0', 1, 'n')";
like(as($_, $wait), qr/timed out while waiting.*secret word/s, "a timeout, for $_") foreach qw(statistician postgres);
like(as($_, $wait), qr/timed out while waiting(?!.*secret word)/s, "a timeout, for $_") foreach qw(owner granted neighbour);

down('ALTER TABLE e ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY');
is(as($_, $of_table), 'error 23514', "row security: the table's error, for $_") foreach qw(owner statistician granted neighbour);
like(as('postgres', $of_table), qr/secret word/, 'row security: for superusers');
# of a copy that fails, the table says so, and nothing is said of the subscription
down("SELECT rose.alter_subscription('e', resync => 'e')");
$replica->poll_query_until('postgres', "SELECT state = 'error' AND last_error ~ 'secret word' FROM rose.stat_subscription_tables WHERE relid = 'e'::regclass") or fail('copy fails');
is(as($_, $of_table), 'error 23514', "row security: the error of a copy, for $_") foreach qw(owner statistician granted neighbour);
up("UPDATE e SET v = 'x'");
down("SELECT rose.alter_subscription('e', resync => 'e')");
down("SELECT rose.wait_for_sync('e', $timeout)");
up("INSERT INTO e VALUES (2, 'secret word')");
$replica->poll_query_until('postgres', "SELECT last_error ~ 'error 23514 of table' FROM rose.stat_subscription WHERE subname = 'e'") or fail('error shown');
unlike(as($_, $of_subscription), qr/secret word/, "row security: the subscription's error, for $_") foreach qw(statistician postgres);
up("UPDATE e SET v = 'x'");
down('ALTER TABLE e DISABLE ROW LEVEL SECURITY');
down("SELECT rose.alter_subscription('e', resync => 'e')");
down("SELECT rose.wait_for_sync('e', $timeout)");

# The worker's errors are those of all tables.
stop_points_create($replica);
down("SELECT stop_at('state-written', 'error', 'worker', 0, 1000)");
up("INSERT INTO n VALUES (1, 'x')");
down("SELECT rose.wait_for_lsn('e', '" . up('SELECT pg_current_wal_flush_lsn()') . "', $timeout, 'n')");		# or there is nothing to spill yet
foreach my $call ("rose.spill('n')", "rose.merge('n')")
{
	like(as('neighbour', "SELECT $call"), qr/the replication worker cannot commit an epoch/, "$call: says that it failed");
	unlike(as('neighbour', "SELECT $call"), qr/state-written/, "$call: but not why");
	like(as('postgres', "SELECT $call"), qr/state-written/, "$call: to superusers it does");
}
down('SELECT stop_clear()');
down("SELECT rose.drop_subscription('e')");

# --- tables of the same names that are not of the extension mean nothing, whatever their columns are
down('CREATE DATABASE without OWNER mallory');
($rc, $out, $err) = $replica->psql('without', <<'SQL', extra_params => [ '-U', 'mallory' ]);
CREATE SCHEMA rose;
CREATE TABLE rose.subscription USING heap AS
	SELECT 1 AS subid, 1 AS subname, d.oid AS dbid, 10 AS owner, 1 AS enabled, 1 AS binary_format, 1 AS synchronous_commit,
		1 AS slot_name, 1 AS publications, 1 AS conninfo FROM pg_database d WHERE datname = current_database();
CREATE TABLE t (id int) USING heap;
ALTER TABLE t SET UNLOGGED;
ALTER TABLE t SET LOGGED;
SQL
is("$rc $err", '0 ', "a user's tables in a schema called rose");

# --- tables that a publication has do not become rose tables in silence, nor rose tables published
my $silence = qr/Changes of rose tables are not decoded/;
down('CREATE SCHEMA apart; CREATE TABLE apart.h (id int PRIMARY KEY) USING heap; CREATE TABLE apart.parted (id int PRIMARY KEY) PARTITION BY RANGE (id);'
	. 'CREATE TABLE apart.leaf PARTITION OF apart.parted FOR VALUES FROM (0) TO (10) USING heap');
sub says
{
	my ($sql, $failure, $pattern, $name) = @_;
	my ($status, $stdout, $stderr) = $replica->psql('postgres', $sql);

	is($status != 0, $failure, "$name: " . ($failure ? 'refused' : 'done'));
	$pattern eq '' ? is($stderr, '', $name) : like($stderr, $pattern, $name);
	return;
}
says('CREATE PUBLICATION every FOR ALL TABLES', !!0, qr/WARNING:  rose tables are not published.*$silence/s, 'FOR ALL TABLES');
says('ALTER TABLE apart.h SET ACCESS METHOD rose', !!0, qr/WARNING:  rose table "h" is not published/, 'a table that FOR ALL TABLES has');
says('ALTER TABLE apart.h SET ACCESS METHOD heap; DROP PUBLICATION every', !!0, '', 'and back');
says('CREATE PUBLICATION several FOR TABLES IN SCHEMA apart', !!0, '', 'IN SCHEMA, without rose tables');
says('ALTER PUBLICATION several ADD TABLES IN SCHEMA public', !!0, qr/WARNING:  rose tables are not published/, 'IN SCHEMA, with rose tables');
says('SET search_path = public; ALTER PUBLICATION several SET TABLES IN SCHEMA CURRENT_SCHEMA', !!0, qr/WARNING:  rose tables are not published/, 'IN SCHEMA CURRENT_SCHEMA, with rose tables');
says('SET search_path = apart; ALTER PUBLICATION several ADD TABLES IN SCHEMA CURRENT_SCHEMA', !!0, '', 'IN SCHEMA CURRENT_SCHEMA, without');
says('ALTER PUBLICATION several DROP TABLES IN SCHEMA public', !!0, '', 'DROP of a schema');
says('ALTER TABLE apart.h SET ACCESS METHOD rose', !!0, qr/WARNING:  rose table "h" is not published/, 'a table that IN SCHEMA has');
says('DROP PUBLICATION several; ALTER TABLE apart.h SET ACCESS METHOD heap; CREATE PUBLICATION this FOR TABLE apart.h', !!0, '', 'a heap table');
says('ALTER TABLE apart.h SET ACCESS METHOD rose', !!1, qr/cannot make table "h" a rose table because publication "this" has it.*$silence.*DROP TABLE first/s, 'a table that is published by name');
says('SET default_table_access_method = rose; ALTER TABLE apart.h SET ACCESS METHOD DEFAULT', !!1, qr/because publication "this" has it/, 'the same by default')
  if $replica->pg_version >= 17;
says('ALTER TABLE apart.h SET LOGGED', !!0, '', 'other changes');
says('ALTER PUBLICATION this DROP TABLE apart.h; ALTER TABLE apart.h SET ACCESS METHOD rose', !!0, '', 'a table that was published');
says('CREATE PUBLICATION parts FOR TABLE apart.parted', !!0, '', 'a partitioned table');
says('ALTER TABLE apart.leaf SET ACCESS METHOD rose', !!0, qr/WARNING:  rose table "leaf" is not published/, 'a partition of a published table');
says('DROP PUBLICATION parts; CREATE PUBLICATION parts FOR TABLE apart.parted', !!0, qr/WARNING:  rose table "leaf" is not published/, 'a partitioned table with a rose partition');

$replica->stop;
$upstream->stop;
done_testing();
