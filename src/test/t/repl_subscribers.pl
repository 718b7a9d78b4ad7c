# Subscriptions of others than superusers: who may make one, what it may write to, and that neither he, nor the upstream that
# he chooses, nor who owns a table, gets anything by it that he had not before.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseProxy;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has subscriptions of core' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", 'rose.max_subscriptions = 6', 'max_worker_processes = 20');
my $trusted = $upstream->connstr('postgres');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

# What this role gets, or what is said to it.
sub as
{
	my ($role, $sql) = @_;
	my ($status, $out, $err) = $replica->psql('postgres', "\\set VERBOSITY verbose\n$sql", extra_params => [ '-U', $role ]);

	return $status == 0 && $err !~ /ERROR/ ? $out : $err;
}
sub refused { my ($role, $sql, $pattern, $name) = @_; return like(as($role, $sql), $pattern, $name) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }
sub why { return down('SELECT subname, state, blocked_reason, last_error FROM rose.stat_subscription') . "\n" . down('SELECT relid::regclass, state, last_error FROM rose.stat_subscription_tables') }
sub is_same
{
	my ($name, @tables) = @_;

	wait_for_apply($upstream, $replica, undef, undef, $_) foreach @tables;
	is(table_hash($replica, $_), table_hash($upstream, $_), "$name: $_") foreach @tables;
	return;
}

# --- an upstream that asks rep for his password, and nobody else for any
up("CREATE ROLE rep LOGIN REPLICATION PASSWORD 'open sesame'");
my $hba = $upstream->data_dir . '/pg_hba.conf';
my $rules = slurp_file($hba);
unlink $hba;
append_to_file($hba, "local all rep scram-sha-256\n$rules");
$upstream->reload;
my $conninfo = "$trusted user=rep password='open sesame'";
my $columns = '(id int PRIMARY KEY, v text)';
up("CREATE TABLE $_ $columns; INSERT INTO $_ SELECT g, 'old' FROM generate_series(1, 5) g; GRANT ALL ON $_ TO rep; CREATE PUBLICATION p_$_ FOR TABLE $_") foreach qw(a b c f parted odd);
up('CREATE PUBLICATION p FOR TABLE a, b');

# alice may subscribe, has a table, and may become bob; carol and mallory are nobody's
down(<<'SQL');
CREATE ROLE subscribers; GRANT USAGE ON FOREIGN DATA WRAPPER rose_subscription TO subscribers;
CREATE ROLE alice LOGIN IN ROLE subscribers; CREATE ROLE bob LOGIN; CREATE ROLE carol LOGIN; CREATE ROLE mallory LOGIN IN ROLE subscribers; CREATE ROLE nobody LOGIN;
CREATE ROLE deputy LOGIN IN ROLE alice; CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader;
GRANT bob TO alice; GRANT CREATE ON SCHEMA public TO alice, bob, carol;
SQL
down("CREATE TABLE $_->[0] $columns" . ($_->[0] eq 'parted' ? ' PARTITION BY RANGE (id)' : ' USING rose') . "; ALTER TABLE $_->[0] OWNER TO $_->[1]")
  foreach [ 'a', 'alice' ], [ 'b', 'bob' ], [ 'c', 'carol' ], [ 'f', 'alice' ], [ 'parted', 'alice' ], [ 'odd', 'alice' ];
down('CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (1000) USING rose; ALTER TABLE part OWNER TO carol');

sub create { my ($name, $what, $publication, $more) = @_; return "SELECT rose.create_subscription('$name', \$\$$what\$\$, '{$publication}'" . ($more // '') . ')' }
my $slots = 'SELECT count(*) FROM pg_replication_slots';

# --- who may
refused('nobody', create('s', $conninfo, 'p'), qr/ERROR:  42501: permission denied to create rose subscriptions\nDETAIL:  Only superusers, and roles with USAGE/, 'not without USAGE of the wrapper');
refused('nobody', "CREATE SERVER s FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}')", qr/ERROR:  42501/, 'nor by CREATE SERVER');

# --- the password: there, and asked for
refused('alice', create('s', $trusted, 'p'), qr/ERROR:  2F003: password is required\nDETAIL:  Non-superusers must provide/, 'a connection string without one');
refused('alice', create('s', "$trusted password=''", 'p'), qr/ERROR:  2F003: password is required/, 'with an empty one');
refused('alice', create('s', "$trusted password=x", 'p'), qr/ERROR:  2F003: password is required\nDETAIL:  Non-superuser cannot connect if the server does not request/, 'one that the upstream does not ask for');
refused('alice', create('s', "$trusted user=rep password=wrong", 'p'), qr/ERROR:  08006: .*password authentication failed/, 'a wrong one');
is(up($slots), 0, 'no slot was made');

# --- options by which the server reads files, or says who it is
my $secret = $replica->data_dir . '/pg_hba.conf';
foreach my $option ("passfile='$secret'", 'service=x', "sslkey='$secret'", "sslcert='$secret'", "sslrootcert='$secret'", "sslcrl='$secret'", 'sslpassword=x', 'krbsrvname=x', 'gssencmode=require')
{
	refused('alice', create('s', "$conninfo $option", 'p'), qr/ERROR:  42501: permission denied to set option "\w+" of a connection string/, $option);
}
refused('alice', create('s', 'postgresql://rep:x@localhost/postgres?sslkey=/etc/passwd', 'p'), qr/ERROR:  42501: permission denied to set option "sslkey"/, 'in an URI');
refused('alice', create('s', 'host', 'p'), qr/ERROR:  42601: invalid connection string syntax/, 'no connection string at all');

# --- tables of others
refused('alice', create('s', $conninfo, 'p_c'), qr/ERROR:  42501: permission denied to replicate into table "c"\nDETAIL:  Role "alice", the owner of rose subscription "s", cannot SET ROLE to "carol"/, 'a table of somebody else');
refused('alice', create('s', $conninfo, 'p_a', q(, tables => '{"public.a": "public.c"}')), qr/ERROR:  42501: permission denied to replicate into table "c"/, 'by another name');
refused('alice', create('s', $conninfo, 'p_parted'), qr/ERROR:  42501: permission denied to replicate into table "part"/, 'a partition of somebody else');
down('ALTER TABLE f ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY');
refused('alice', create('s', $conninfo, 'p_f'), qr/ERROR:  0A000: cannot replicate into table "f", whose row security applies to its owner/, 'row security');
is(up($slots) . down('SELECT count(*) FROM rose.stat_subscription'), '00', 'nothing was made');
my $locker = RoseTest::Session->new($replica);
$locker->run('BEGIN; LOCK TABLE c');
refused('alice', "SET lock_timeout = '5s'; " . create('s', $conninfo, 'p_c'), qr/ERROR:  42501/, 'whose lock is not even asked for');
$locker->run('ROLLBACK');
$locker->end;

# --- what runs, runs as the tables' owners; the worker is alice
down(<<'SQL');
CREATE TABLE log (what text, who text, session text, super text) USING heap; GRANT INSERT ON log TO PUBLIC;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	BEGIN RESET SESSION AUTHORIZATION; EXCEPTION WHEN OTHERS THEN NULL; END;
	INSERT INTO public.log VALUES (TG_RELNAME, current_user, session_user, current_setting('is_superuser'));
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER TRUNCATE ON a EXECUTE FUNCTION note(); ALTER TABLE a ENABLE ALWAYS TRIGGER note;
CREATE TRIGGER note AFTER TRUNCATE ON b EXECUTE FUNCTION note(); ALTER TABLE b ENABLE ALWAYS TRIGGER note;
SQL
is(as('alice', create('s', $conninfo, 'p')), '', 'alice subscribes');
is(as('alice', "SELECT rose.wait_for_sync('s', $timeout)"), '', 'her tables are copied');
is(down('SELECT owner::regrole FROM rose.subscription') . down("SELECT srvowner::regrole FROM pg_foreign_server WHERE srvname = 's'"), 'alicealice', 'it is hers');
up("INSERT INTO a VALUES (10, 'new'); UPDATE b SET v = 'new' WHERE id = 1; DELETE FROM b WHERE id = 2; UPDATE b SET id = 20 WHERE id = 3");
is_same('the stream', 'a', 'b');
up('TRUNCATE a, b');
is_same('TRUNCATE', 'a', 'b');
is(down("SELECT string_agg(concat_ws(' ', what, who, session, super), ', ' ORDER BY what) FROM log"), 'a alice alice off, b bob alice off', 'triggers are their owners\', in a session that is no superuser\'s');
up("INSERT INTO a SELECT g, 'again' FROM generate_series(1, 5) g; INSERT INTO b SELECT g, 'again' FROM generate_series(1, 5) g");
is_same('and on', 'a', 'b');

# --- expressions of partition keys: the cache makes constants of what it can, and calls functions of the table's owner for that
up("CREATE TABLE $_ (id int, v text); INSERT INTO $_ VALUES (1, 'old'); GRANT ALL ON $_ TO rep; CREATE PUBLICATION p_$_ FOR TABLE $_ WITH (publish = 'insert')") foreach qw(keyed top);
up("CREATE TABLE leaf (id int PRIMARY KEY, v text, big text); ALTER TABLE leaf ALTER big SET STORAGE EXTERNAL; INSERT INTO leaf VALUES (1, 'old', repeat('x', 5000)); CREATE PUBLICATION p_leaf FOR TABLE leaf");
is(as('bob', <<'SQL'), '', 'a table\'s owner has functions in its partition key');
CREATE TABLE told (who text) USING heap; GRANT ALL ON told TO PUBLIC;
CREATE FUNCTION tell() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.told VALUES (current_user); RETURN 0; END $$;
CREATE FUNCTION nothing(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN public.tell(); END $$;
CREATE TABLE keyed (id int, v text) PARTITION BY RANGE ((id + nothing(0))); CREATE TABLE keyed1 PARTITION OF keyed FOR VALUES FROM (0) TO (1000) USING rose;
CREATE TABLE top (id int, v text) PARTITION BY RANGE ((id + nothing(0))); CREATE TABLE top1 PARTITION OF top FOR VALUES FROM (0) TO (1000) USING rose;
CREATE TABLE stem (id int, v text, big text) PARTITION BY RANGE ((id + nothing(0)), (length(big) + nothing(0)));
CREATE TABLE leaf PARTITION OF stem FOR VALUES FROM (0, 0) TO (1000, 0) USING rose; ALTER TABLE leaf ADD PRIMARY KEY (id);
TRUNCATE told;
SQL
foreach ([ 'alice', 'keyed', $conninfo ], [ 'postgres', 'top', $trusted ], [ 'postgres', 'leaf', $trusted ])
{
	my ($who, $table, $with) = @$_;

	is(as($who, create($table, $with, "p_$table")), '', "$table: $who subscribes");
	is(as($who, "SELECT rose.wait_for_sync('$table', $timeout)"), '', "$table: copied");
	# the first that the next worker has to do with the table is a row of which a part was not sent
	is(as($who, "SELECT rose.alter_subscription('$table', enabled => false)"), '', "$table: stopped");
	up($table eq 'leaf' ? "UPDATE leaf SET v = 'new'" : "INSERT INTO $table VALUES (2, 'new')");
	is(as($who, "SELECT rose.alter_subscription('$table', enabled => true)"), '', "$table: started");
	wait_for_apply($upstream, $replica, undef, $table);
	is(down("SELECT string_agg(DISTINCT who, ', ') FROM told"), 'bob', "$table: functions were called, as the table's owner");
	is(as($who, "SELECT rose.drop_subscription('$table')"), '', "$table: dropped");
	is(table_hash($replica, $table), table_hash($upstream, $table), "$table: what it has");
	down('TRUNCATE told');
}
down('DROP TABLE keyed, top, stem, told; DROP FUNCTION nothing, tell');

# --- functions are the owner's, and those who have her rights
my @calls = ("alter_subscription('s', enabled => false)", "alter_subscription('s', conninfo => 'x')", "alter_subscription('s', resync => 'a')", "alter_subscription('s', refresh => true)",
	"alter_subscription('s', accept => 'resync')", "alter_subscription('s', skip_lsn => '0/1')", "drop_subscription('s')", "drop_subscription('s', keep_slot => true)", "pause_table('s', 'a')", "resume_table('s', 'a')",
	"verify('s')", "repair('s', 'a')");
$locker = RoseTest::Session->new($replica);
$locker->run("BEGIN; SELECT rose.alter_subscription('s')");
foreach my $call (@calls)
{
	refused($_, "SET lock_timeout = '5s'; SELECT rose.$call", qr/ERROR:  42501: must be owner of rose subscription "s"/, "$call by $_") foreach qw(mallory bob);
}
refused('mallory', "SELECT rose.spill('a')", qr/ERROR:  42501: must be owner of table a/, 'spill by mallory');
$locker->run('COMMIT');
$locker->end;
is(as($_, "SELECT rose.pause_table('s', 'a')"), '', "pause by $_") and is(as($_, "SELECT rose.resume_table('s', 'a')"), '', "resume by $_") foreach qw(alice deputy);
is(as('deputy', "SELECT count(*) FROM rose.verify('s')"), '0', 'verify by deputy');
is(as('alice', "SELECT rose.spill('b')"), '', 'spill by alice of a table of bob\'s');
down("REVOKE bob FROM alice; GRANT bob TO alice");
is(as('alice', "SELECT rose.alter_subscription('s', resync => 'b')"), '', 'resync by alice');
is(as('alice', "SELECT rose.wait_for_sync('s', $timeout)"), '', '... of a table of bob\'s');
is_same('resync', 'a', 'b');
is(as('alice', "SELECT rose.alter_subscription('s', accept => 'resync')"), '', 'accept by alice');
is(as('alice', "SELECT rose.wait_for_sync('s', $timeout)"), '', '... of all tables');
is_same('accept', 'a', 'b');

# --- the server by itself
refused('alice', "ALTER SERVER s OPTIONS (ADD conninfo 'dbname=postgres')", qr/ERROR:  HV00D: invalid option "conninfo"/, 'ALTER SERVER has no connection string');
refused('alice', "ALTER SERVER s OPTIONS (SET publications '{p_c}')", qr/ERROR:  55000: option "publications" of server "s" is not that of the rose subscription/, 'nor publications of its own');
refused('alice', "CREATE USER MAPPING FOR alice SERVER s OPTIONS (password 'x')", qr/ERROR:  HV00D: invalid option "password"/, 'nor does a mapping');
refused('alice', "DROP SERVER s CASCADE", qr/ERROR:  2BP01: cannot drop server "s" because it is a rose subscription/, 'DROP SERVER');
refused('alice', "ALTER SERVER s OWNER TO carol", qr/ERROR:  42501/, 'it is not given to others');
refused('alice', "ALTER SERVER s OWNER TO bob", qr/ERROR:  42501/, 'nor to who may not subscribe');
refused('mallory', "ALTER SERVER s OWNER TO mallory", qr/ERROR:  42501: must be owner of foreign server s/, 'nor taken');
refused('postgres', "ALTER SERVER s OWNER TO nobody", qr/ERROR:  42501: permission denied to change owner of rose subscription "s"\nHINT:  The owner of a subscription must be a superuser, or have USAGE/, 'nor by a superuser to who may not');

# --- secrets
foreach my $query ('SELECT conninfo FROM rose.subscription', 'SELECT * FROM rose.subscription', 'SELECT * FROM rose.stat_subscription', 'SELECT * FROM pg_foreign_server', 'SELECT * FROM pg_user_mappings')
{
	unlike(as($_, $query), qr/sesame/, "$query by $_") foreach qw(alice mallory reader);
}
refused('alice', "SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo passfile=x\$\$)", qr/ERROR:  42501: permission denied to set option "passfile"/, 'ALTER has no other options');
refused('alice', "SELECT rose.alter_subscription('s', conninfo => \$\$$trusted\$\$)", qr/ERROR:  2F003: password is required/, 'and asks for the password');
is(as('postgres', "SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo sslrootcert=/nowhere sslmode=disable\$\$)"), '', 'superusers may give others');
up("INSERT INTO a VALUES (30, 'with it')");
is_same('which count', 'a');

# --- a table that is somebody else's by now
sub stopped
{
	my ($table, $pattern, $name) = @_;

	ok(until_down("SELECT state = 'failed' FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), "$name: it stops") or diag(why());
	return like(as('alice', "SELECT last_error FROM rose.stat_subscription WHERE subname = 's'"), $pattern, "$name: and its owner sees why");
}
sub goes_on
{
	my ($name) = @_;

	down("SELECT rose.alter_subscription('s')");	# or it looks again after 30 seconds
	return is_same($name, 'a', 'b');
}
my $rows = table_hash($replica, 'b');
down('ALTER TABLE b OWNER TO carol');
up("INSERT INTO b VALUES (40, 'not hers')");
stopped('b', qr/permission denied to replicate into table "b"; Role "alice".*cannot SET ROLE to "carol"/, 'another owner');
is(as('mallory', "SELECT last_error FROM rose.stat_subscription WHERE subname = 's'"), '', 'but nobody else');
refused('alice', "SELECT rose.alter_subscription('s', resync => 'b')", qr/ERROR:  42501: permission denied to replicate into table "b"/, 'she cannot empty it');
refused('alice', "SELECT rose.alter_subscription('s', accept => 'resync')", qr/ERROR:  42501: permission denied to replicate into table "b"/, 'nor with the others');
refused('alice', "SELECT rose.repair('s', 'b')", qr/ERROR:  42501: permission denied to replicate into table "b"/, 'nor change rows');
refused('alice', "SELECT rose.verify('s', '{b}')", qr/cannot SET ROLE to the table's owner/, 'nor see some');
is(table_hash($replica, 'b'), $rows, 'all of that left it as it was');
down('ALTER TABLE b OWNER TO bob');
goes_on('the old owner');

# TRUNCATE does not even lock it
$rows = table_hash($replica, 'b');
down('ALTER TABLE b OWNER TO carol');
$locker = RoseTest::Session->new($replica);
$locker->run('BEGIN; SELECT count(*) FROM b');
up('TRUNCATE b');
stopped('b', qr/permission denied to replicate into table "b"/, 'TRUNCATE of what is not hers');
$locker->run('COMMIT');
$locker->end;
is(table_hash($replica, 'b'), $rows, 'it is not emptied');
down('ALTER TABLE b OWNER TO bob');
goes_on('TRUNCATE of what is hers again');

# --- what roles may do, now
down('REVOKE bob FROM alice');
up("INSERT INTO b VALUES (50, 'no member')");
stopped('b', qr/cannot SET ROLE to "bob"/, 'a membership that was revoked');
down('GRANT bob TO alice');
goes_on('granted again');
down('REVOKE UPDATE ON b FROM bob');
up("INSERT INTO b VALUES (51, 'x')");
is_same('INSERT without UPDATE', 'b');
up("UPDATE b SET v = 'y' WHERE id = 51");
stopped('b', qr/permission denied to replicate into table "b"; The owner of the table lacks the privilege UPDATE/, 'a privilege that the table\'s owner lacks');
down('GRANT UPDATE ON b TO bob');
goes_on('granted again');
down('ALTER TABLE b ENABLE ROW LEVEL SECURITY; CREATE POLICY none ON b USING (false)');
up("INSERT INTO b VALUES (52, 'x')");
is_same('row security, which does not apply to the owner', 'b');
down('ALTER TABLE b FORCE ROW LEVEL SECURITY');
up("INSERT INTO b VALUES (53, 'x')");
ok(until_down("SELECT state = 'failed' FROM rose.stat_subscription_tables WHERE relid = 'b'::regclass"), 'row security that does: it stops') or diag(why());
refused('alice', "SELECT rose.verify('s', '{b}')", qr/not compared: row security applies to the table's owner/, 'nor is it compared');
down('ALTER TABLE b NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY');
goes_on('without it');

# --- the right to subscribe, now
my $count = down('SELECT count(*) FROM a');
down('REVOKE subscribers FROM alice');
up("INSERT INTO a VALUES (60, 'x')");
ok(until_down("SELECT state = 'blocked' AND blocked_reason = 'owner' FROM rose.stat_subscription"), 'USAGE that was revoked: blocked') or diag(why());
is(down('SELECT count(*) FROM a'), $count, 'nothing more is applied');
refused('alice', "SELECT rose.alter_subscription('s', enabled => true)", qr/ERROR:  42501: permission denied to change rose subscription "s": its owner "alice" is not a superuser, and may not use/, 'nor may she change it');
down('GRANT subscribers TO alice');
goes_on('granted again');

# --- a superuser's that becomes hers, and a superuser who is none any more
up('CREATE TABLE g (id int PRIMARY KEY, v text); GRANT ALL ON g TO rep; CREATE PUBLICATION p_g FOR TABLE g');
down('CREATE ROLE boss SUPERUSER LOGIN; CREATE TABLE g (id int PRIMARY KEY, v text) USING rose; ALTER TABLE g OWNER TO alice');
is(as('boss', create('g', $trusted, 'p_g')), '', 'a superuser needs no password');
is(as('boss', "SELECT rose.wait_for_sync('g', $timeout)"), '', 'and has his copy');
down('ALTER SERVER g OWNER TO alice');
ok(until_down("SELECT last_error ~ 'password is required' FROM rose.stat_subscription WHERE subname = 'g'"), 'given away: the password is asked for') or diag(why());
up("INSERT INTO g VALUES (1, 'x')");
is(as('alice', "SELECT rose.alter_subscription('g', conninfo => \$\$$conninfo\$\$)"), '', 'the new owner gives one');
wait_for_apply($upstream, $replica, undef, 'g');
is(down('SELECT count(*) FROM g'), 1, 'and has the rows');
down('ALTER SERVER g OWNER TO boss');
is(as('boss', "SELECT rose.alter_subscription('g', conninfo => \$\$$trusted\$\$)"), '', 'back');
up("INSERT INTO g VALUES (2, 'x')");
wait_for_apply($upstream, $replica, undef, 'g');
down('GRANT subscribers, alice TO boss');
down('ALTER ROLE boss NOSUPERUSER');
ok(until_down("SELECT last_error ~ 'password is required' FROM rose.stat_subscription WHERE subname = 'g'"), 'no superuser any more: the connection is given up') or diag(why());
up("INSERT INTO g VALUES (3, 'x')");
is(down('SELECT count(*) FROM g'), 2, 'by which nothing more comes');
is(as('boss', "SELECT rose.alter_subscription('g', conninfo => \$\$$conninfo\$\$)"), '', 'with a password');
wait_for_apply($upstream, $replica, undef, 'g');
is(down('SELECT count(*) FROM g'), 3, 'it goes on');
is(as('boss', "SELECT rose.drop_subscription('g')"), '', 'and is dropped by him');

# --- an upstream that means no good: it sends what is no text here, and answers that were not asked for
my $odd = "SELECT state, last_error FROM rose.stat_subscription_tables WHERE relid = 'odd'::regclass";
my $proxy = RoseProxy->new($replica->basedir, $upstream->port, $upstream->host, $upstream->port, sub {
	my ($data) = @_;

	$data =~ s/wrong text/wrong\xfftext/g;
	$data =~ s/wrong_name/wrong\xffname/g;
	$data =~ s/(D.{4}\0\x03\0\0\0\x02)\d\d(\0\0\0)/${1}99$2/gs;		# the numbers of buckets that it compares
	$data =~ s/(D.{4}\0\x03\0\0\0\x01)0(\0\0\0)/${1}-$2/gs;
	return $data;
});
my $through = $conninfo =~ s/host=\S+/host=${\ $replica->basedir}/r;
up('CREATE PUBLICATION p_bad FOR TABLE odd; DELETE FROM odd');
foreach my $binary (qw(true false))
{
	is(as('alice', "SELECT rose.create_subscription('odd', \$\$$through\$\$, '{p_bad}', \"binary\" => $binary)"), '', "binary $binary: subscribed");
	is(as('alice', "SELECT rose.wait_for_sync('odd', $timeout)"), '', "binary $binary: copied");
	up("INSERT INTO odd VALUES (1, 'good'), (2, 'wrong text')");
	ok(until_down("SELECT last_error ~ 'invalid byte sequence' FROM rose.stat_subscription_tables WHERE relid = 'odd'::regclass"), "binary $binary: bytes that are no text are refused") or diag(why());
	is(down('SELECT count(*) FROM odd'), 0, "binary $binary: and not stored");
	up('DELETE FROM odd WHERE id = 2');
	is(as('alice', "SELECT rose.drop_subscription('odd')"), '', "binary $binary: dropped");
	up('DELETE FROM odd');
}
is(as('alice', "SELECT rose.create_subscription('odd', \$\$$through\$\$, '{p_bad}')"), '', 'subscribed');
up("INSERT INTO odd SELECT g, 'x' FROM generate_series(1, 1000) g");
wait_for_apply($upstream, $replica, undef, 'odd');
refused('alice', "SELECT rose.verify('odd')", qr/the answer is not of the form that was asked for/, 'an answer that names places that there are not');
is(as('alice', "SELECT rose.drop_subscription('odd')"), '', 'dropped');
down('TRUNCATE odd');
up("CREATE TABLE texts (id text PRIMARY KEY); GRANT ALL ON texts TO rep; CREATE PUBLICATION p_texts FOR TABLE texts");
as('alice', 'CREATE TABLE texts (id text PRIMARY KEY) USING rose');
is(as('alice', create('odd', $through, 'p_texts')), '', 'a key that is text');
is(as('alice', "SELECT rose.wait_for_sync('odd', $timeout)"), '', 'copied');
up("INSERT INTO texts VALUES ('wrong text')");
ok(until_down("SELECT state = 'failed' FROM rose.stat_subscription_tables WHERE relid = 'texts'::regclass"), 'which it is not') or diag(why());
like(as('postgres', "SET client_encoding = 'LATIN1'; SELECT last_error FROM rose.stat_subscription_tables WHERE relid = 'texts'::regclass; SELECT last_error FROM rose.stat_subscription WHERE subname = 'odd'"),
	qr/key \(wrong\?text\).*key \(wrong\?text\)/s, 'errors that name it are text all the same');
is(as('alice', "SELECT rose.drop_subscription('odd')"), '', 'dropped');
up('CREATE TABLE wrong_name (id int); GRANT ALL ON wrong_name TO rep; CREATE PUBLICATION p_wrong FOR TABLE wrong_name');
refused('alice', create('odd', $through, 'p_wrong'), qr/ERROR:  22021: invalid byte sequence/, 'a name of a table that is none');
up('ALTER TABLE odd RENAME v TO wrong_name');
refused('alice', create('odd', $through, 'p_bad') . "; SELECT rose.wait_for_sync('odd', $timeout)", qr/could not be copied|timed out/, 'a name of a column');
like(down($odd), qr/invalid byte sequence/, '... is an error of the copy');
is(as('alice', "SELECT rose.drop_subscription('odd')"), '', 'dropped');
$proxy->end;
up('ALTER TABLE odd RENAME wrong_name TO v; ALTER TABLE odd ADD c "char"');
as('alice', 'CREATE TABLE local (id int PRIMARY KEY, v text, c "char") USING rose');

# --- a subscription whose batches are logged, and back
is(as('alice', "SELECT rose.create_subscription('odd', \$\$$conninfo\$\$, '{p_bad}', \"binary\" => false, durability => 'local', tables => '{\"public.odd\": \"public.local\"}')"), '', 'with durability local');
is(as('alice', "SELECT rose.wait_for_sync('odd', $timeout)"), '', 'copied');
up("INSERT INTO odd VALUES (2000, 'x', (-28)::int4::\"char\")");
wait_for_apply($upstream, $replica, undef, 'odd');
as('alice', "INSERT INTO local VALUES (2001, 'here')");
$replica->restart;
wait_for_apply($upstream, $replica, undef, 'odd');
is(down("SELECT count(*), count(*) FILTER (WHERE id = 2001), count(*) FILTER (WHERE c = (-28)::int4::\"char\") FROM local"), '1002|1|1', 'it has the rows, local ones, too, and a "char" that is no text');
is(as('alice', "SELECT rose.alter_subscription('odd', durability => 'upstream')"), '', 'changed');
up("INSERT INTO odd VALUES (2002, 'x')");
wait_for_apply($upstream, $replica, undef, 'odd');
is(down('SELECT count(*) FROM local'), 1003, 'and on');
is(as('alice', "SELECT rose.drop_subscription('odd')"), '', 'dropped');

# what it says of positions and times is shown to all who look at subscriptions, and must not keep them from it
my $late = $replica->basedir . '/late';
my $look = 'SELECT * FROM rose.stat_subscription';
up("CREATE TABLE late $columns; GRANT ALL ON late TO rep; CREATE PUBLICATION p_late FOR TABLE late");
down("CREATE TABLE late (id int PRIMARY KEY, v text CHECK (v <> 'bad')) USING rose; ALTER TABLE late OWNER TO alice");
$proxy = RoseProxy->new($replica->basedir, $upstream->port, $upstream->host, $upstream->port, sub {
	my ($data) = @_;

	if (-e $late) { $data =~ s/(d\0\0..w.{24}B.{8}).{8}/$1\x80\0\0\0\0\0\0\x01/gs }		# when it commits
	else { $data =~ s/(d\0\0..w.{24}B).{8}/$1\xff\xff\xff\xff\xff\xff\xff\xf0/gs }		# where
	return $data;
});
is(as('alice', create('late', $through, 'p_late', q(, on_error => 'pause'))), '', 'an upstream at the end of all positions');
is(as('alice', "SELECT rose.wait_for_sync('late', $timeout)"), '', '... is copied from');
up("INSERT INTO late VALUES (1, 'bad')");
ok(until_down("SELECT state = 'paused' AND error_lsn = 'FFFFFFFF/FFFFFFF0' FROM rose.stat_subscription_tables WHERE relid = 'late'::regclass"), 'it has a transaction there, which fails') or diag(why());
is(error_of($replica, $look), '', 'rose.stat_subscription can be read');
is(as('alice', "SELECT rose.drop_subscription('late')"), '', 'dropped');
up('DELETE FROM late');
append_to_file($late, '');
is(as('alice', create('late', $through, 'p_late')), '', 'an upstream before all times');
is(as('alice', "SELECT rose.wait_for_sync('late', $timeout)"), '', '... is copied from');
up("INSERT INTO late VALUES (2, 'good')");
ok(until_down("SELECT count(*) > 0 FROM late UNION ALL SELECT coalesce(last_error ~ 'time of commit is out of range', false) FROM rose.stat_subscription WHERE subname = 'late' ORDER BY 1 DESC LIMIT 1"), 'it has a transaction then') or diag(why());
is(error_of($replica, $look), '', 'rose.stat_subscription can be read');
is(down('SELECT count(*) FROM late'), 0, 'such a transaction is refused');
is(as('alice', "SELECT rose.drop_subscription('late')"), '', 'dropped');
$proxy->end;

# --- functions that ask whose a table is are everybody's to call, and must not believe that a subscription is still there
stop_points_create($replica);
down('CREATE TABLE gone (id int PRIMARY KEY, v text) USING rose; ALTER TABLE gone OWNER TO alice');
up("CREATE TABLE gone $columns; GRANT ALL ON gone TO rep; CREATE PUBLICATION p_gone FOR TABLE gone");
is(as('alice', create('gone', $conninfo, 'p_gone')), '', 'a subscription');
$locker = RoseTest::Session->new($replica);
$locker->run("SELECT stop_at('fed-by', 'wait', 'client')");
my $spiller = RoseTest::Session->new($replica);
$spiller->start("SET SESSION AUTHORIZATION mallory; SELECT rose.spill('gone')");
wait_for_stop($replica);
is(as('alice', "SELECT rose.drop_subscription('gone')"), '', 'is dropped while somebody asks');
$locker->run("SELECT go_on('fed-by')");
like(eval { $spiller->finish } // $@, qr/must be owner of table gone/, 'he is told that the table is not his');
$spiller->end;
$locker->end;
is(down('SELECT count(*) FROM gone'), 0, 'the server goes on');

# --- a server by hand, a dump, and what keeps a role
is(as('alice', "SET client_min_messages = error; CREATE SERVER t FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p_f}')"), '', 'CREATE SERVER, as of a dump');
is(down("SELECT owner::regrole, enabled, conninfo IS NULL FROM rose.subscription WHERE subname = 't'"), 'alice|f|t', 'is hers, and rests');
refused('alice', "SELECT rose.alter_subscription('t', conninfo => \$\$$trusted\$\$, enabled => true)", qr/ERROR:  2F003: password is required/, 'and starts with a password only');
is(as('alice', "SELECT rose.drop_subscription('t', keep_slot => true)"), '', 'she drops it');
refused('postgres', 'DROP ROLE subscribers', qr/privileges for foreign-data wrapper rose_subscription/, 'a role that may subscribe is not dropped');
down("SELECT rose.alter_subscription('s', enabled => false)");
until_down("SELECT pid IS NULL FROM rose.stat_subscription WHERE subname = 's'") or die 'it runs';
my $dump = $replica->basedir . '/dump.sql';
$replica->command_ok([ 'pg_dump', '-f', $dump, $replica->connstr('postgres') ], 'pg_dump');
unlike(slurp_file($dump), qr/sesame/, 'without the password');
down('CREATE DATABASE restored');
my ($status, $out, $err) = $replica->psql('restored', "\\set ON_ERROR_STOP on\n\\i $dump");
is($status, 0, 'it is restored') or diag($err);
is($replica->safe_psql('restored', "SELECT owner::regrole, enabled FROM rose.subscription"), 'alice|f', 'with its owner');
is($replica->safe_psql('restored', "SELECT has_foreign_data_wrapper_privilege('subscribers', 'rose_subscription', 'USAGE'), has_foreign_data_wrapper_privilege('nobody', 'rose_subscription', 'USAGE')"), 't|f', 'and who may subscribe');
is(as('alice', "SELECT rose.drop_subscription('s', keep_slot => true)"), '', 'the original is dropped');
up("INSERT INTO a VALUES (70, 'x')");
($status, $out, $err) = $replica->psql('restored', "SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$, enabled => true, refresh => true, copy_data => false)", extra_params => [ '-U', 'alice' ]);
is($status, 0, 'she starts it there') or diag($err);
$replica->safe_psql('restored', "SELECT rose.wait_for_lsn('s', '" . up('SELECT pg_current_wal_flush_lsn()') . "', $timeout)");
is(table_hash($replica, 'a', 'restored'), table_hash($upstream, 'a'), 'and it goes on where it was');
$replica->safe_psql('restored', "SELECT rose.drop_subscription('s')", extra_params => [ '-U', 'alice' ]);
is(up($slots), 0, 'all slots are dropped');
$replica->safe_psql('restored', 'SET client_min_messages = error; DROP EXTENSION rose CASCADE');
is($replica->safe_psql('postgres', "SELECT count(*) FROM pg_shdepend d JOIN pg_database b ON b.oid = d.dbid WHERE datname = 'restored' AND refobjid = 'subscribers'::regrole"), 0, 'with the extension, all that was granted');

$replica->stop;
$upstream->stop;
done_testing();
