# A subscription is an object of its database: its owner is not dropped, and can be replaced; neither its extension nor its database
# goes while it is there; a dump has it, without its connection string; and a table that was dropped is shown as that.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has subscriptions of core' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $node = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", 'rose.max_subscriptions = 3');
my $conninfo = $upstream->connstr('postgres');
my $secret = "$conninfo password=hush";

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub in { my ($database, $sql) = @_; return $node->safe_psql($database, $sql) }
sub sql { return in('postgres', $_[0]) }
sub until_in { my ($database, $sql) = @_; return $node->poll_query_until($database, $sql) }

# What fails, in this database, and what is said.
sub fails
{
	my ($database, $sql, $pattern, $name) = @_;
	my ($status, $out, $err) = $node->psql($database, "\\set VERBOSITY verbose\n$sql", on_error_stop => 1);

	isnt($status, 0, "$name: fails");
	return like($err, $pattern, $name);
}

sub same
{
	my ($name, $database) = @_;

	my $lsn = up('SELECT pg_current_wal_flush_lsn()');
	in($database // 'postgres', "SELECT rose.wait_for_lsn('s', '$lsn', $timeout, 't')");
	return is(table_hash($node, 't', $database), table_hash($upstream, 't'), $name);
}

my $server = q{SELECT srvname, srvowner::regrole, srvoptions FROM pg_foreign_server ORDER BY 1};

up("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO t VALUES (1, 1); CREATE PUBLICATION p FOR TABLE t, u");
up(q{CREATE PUBLICATION "odd, {name}" FOR TABLE u});
sql('CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; CREATE TABLE u (id int PRIMARY KEY) USING rose');
sql('CREATE ROLE boss SUPERUSER; CREATE ROLE other SUPERUSER; CREATE ROLE nobody; CREATE ROLE reader; GRANT pg_read_all_data TO reader');

# --- what does not commit leaves nothing
sql("BEGIN; SELECT rose.create_subscription('x', 'host=/nowhere', '{p}', connect => false); ROLLBACK");
sql("BEGIN; SAVEPOINT a; SELECT rose.create_subscription('x', 'host=/nowhere', '{p}', connect => false); ROLLBACK TO a; COMMIT");
is(sql($server), '', 'a subscription that was not made has no server');

# --- the owner
sql("SET SESSION AUTHORIZATION boss; SELECT rose.create_subscription('s', \$\$$secret\$\$, '{p}')");
sql("SELECT rose.wait_for_sync('s', $timeout)");
is(sql($server), 's|boss|{"publications={p}",slot_name=s,binary=true,synchronous_commit=off}', 'it is a server of its owner');
fails('postgres', 'DROP ROLE boss', qr/ERROR:  2BP01: role "boss" cannot be dropped.*\nDETAIL:  owner of server s\b/, 'its owner is not dropped');
fails('template1', 'DROP ROLE boss', qr/ERROR:  2BP01: role "boss" cannot be dropped/, 'nor from another database');
fails('postgres', 'DROP OWNED BY boss CASCADE', qr/ERROR:  2BP01: cannot drop server "s" because it is a rose subscription.*\nHINT:  Drop the subscription with rose\.drop_subscription/, 'nor what he owns');
fails('postgres', 'REASSIGN OWNED BY boss TO nobody', qr/ERROR:  42501: permission denied to change owner of rose subscription "s"\nHINT:  The owner of a subscription must be a superuser, or have USAGE/, 'nobody takes it over');
fails('postgres', 'ALTER SERVER s OWNER TO nobody', qr/ERROR:  42501/, 'by whichever command');
is(sql('SELECT owner::regrole FROM rose.subscription'), 'boss', 'he has it still');
my $pid = sql('SELECT pid FROM rose.stat_subscription');
sql('BEGIN; REASSIGN OWNED BY boss TO other; ROLLBACK');
is(sql('SELECT owner::regrole FROM rose.subscription'), 'boss', 'what is rolled back changes nothing');
sql('REASSIGN OWNED BY boss TO other; DROP ROLE boss');
is(sql('SELECT owner::regrole FROM rose.subscription'), 'other', 'a superuser takes it over');
up('INSERT INTO t VALUES (2, 2)');
same('it goes on');
ok(until_in('postgres', "SELECT pid <> $pid FROM rose.stat_subscription"), 'as the new owner');

# --- the server by itself
fails('postgres', 'DROP SERVER s CASCADE', qr/ERROR:  2BP01: cannot drop server "s" because it is a rose subscription/, 'DROP SERVER');
fails('postgres', 'ALTER SERVER s RENAME TO z', qr/ERROR:  0A000: cannot rename server "s"/, 'ALTER SERVER RENAME');
fails('postgres', "ALTER SERVER s OPTIONS (SET publications '{q}')", qr/ERROR:  55000: option "publications" of server "s".*\nHINT:  Change the subscription with rose\.alter_subscription/, 'ALTER SERVER OPTIONS');
fails('postgres', "ALTER SERVER s OPTIONS (DROP slot_name)", qr/ERROR:  55000: option "slot_name" of server "s"/, 'an option less');
fails('postgres', "ALTER SERVER s OPTIONS (host 'x')", qr/ERROR:  HV00D: invalid option "host"/, 'an option that there is not');
fails('postgres', "CREATE USER MAPPING FOR other SERVER s OPTIONS (password 'x')", qr/ERROR:  HV00D: invalid option "password"/, 'nor is there one of a user');
fails('postgres', 'CREATE SERVER z FOREIGN DATA WRAPPER rose_subscription', qr/ERROR:  HV002: option "publications" is required/, 'a server without options is no subscription');
sql(q{SELECT rose.alter_subscription('s', publications => '{p,"odd, {name}"}', synchronous_commit => 'local')});
is(sql($server), 's|other|{"publications={p,\\"odd, {name}\\"}",slot_name=s,binary=true,synchronous_commit=local}', 'ALTER of the subscription is one of the server');
sql(q{SELECT rose.alter_subscription('s', publications => '{p}', synchronous_commit => 'off')});
sql('CREATE FOREIGN DATA WRAPPER w; CREATE SERVER taken FOREIGN DATA WRAPPER w');
fails('postgres', "SELECT rose.create_subscription('taken', 'host=/nowhere', '{p}', connect => false)", qr/ERROR:  42710: foreign server "taken" already exists/, 'a name that another server has');
sql('DROP SERVER taken; DROP FOREIGN DATA WRAPPER w');

# --- the extension
fails('postgres', 'DROP EXTENSION rose', qr/ERROR:  2BP01: cannot drop extension rose because other objects depend on it/, 'DROP EXTENSION');
fails('postgres', 'DROP EXTENSION rose CASCADE', qr/ERROR:  2BP01: cannot drop server "s" because it is a rose subscription/, 'with CASCADE, too');
fails('postgres', 'DROP SCHEMA rose CASCADE', qr/ERROR:  2BP01: cannot drop schema rose because extension rose requires it/, 'nor its schema');
fails('postgres', 'DROP FOREIGN DATA WRAPPER rose_subscription CASCADE', qr/ERROR:  2BP01/, 'nor its wrapper');
up('INSERT INTO t VALUES (3, 3)');
same('and it goes on');

# --- a dropped table
sql('DROP TABLE u');
is(sql('SELECT state, relname, upstream_relation FROM rose.stat_subscription_tables ORDER BY 1'), "dropped||public.u\nready|t|public.t", 'a dropped table is shown as that');
up('INSERT INTO t VALUES (4, 4)');
same('the other one goes on');
up('ALTER PUBLICATION p DROP TABLE u');
sql("SELECT rose.alter_subscription('s', refresh => true)");
is(sql('SELECT state, relname FROM rose.stat_subscription_tables'), 'ready|t', 'a refresh takes it out');

# --- the database
sub not_dropped
{
	my ($name, $n) = @_;

	fails('template1', 'DROP DATABASE d', qr/ERROR:  55006: database "d" is being used by rose subscriptions\nDETAIL:  There (?:is|are) $n subscriptions?\.\nHINT:  Drop them with rose\.drop_subscription/, "DROP DATABASE, $name");
	return fails('template1', 'DROP DATABASE d WITH (FORCE)', qr/ERROR:  55006: database "d" is being used by rose/, "WITH FORCE, $name");
}
sql('CREATE DATABASE d');
in('d', "CREATE EXTENSION rose; CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; SELECT rose.create_subscription('d', \$\$$conninfo\$\$, '{p}')");
in('d', "SELECT rose.wait_for_sync('d', $timeout)");
not_dropped('of a running subscription', 1);
in('d', "SELECT rose.alter_subscription('d', enabled => false); SELECT rose.create_subscription('e', 'host=/nowhere', '{p}', connect => false)");
until_in('d', "SELECT count(*) = 0 FROM rose.stat_subscription WHERE pid IS NOT NULL") or die 'it runs';
not_dropped('of disabled ones', 2);
$node->restart;
not_dropped('after a restart', 2);
crash_and_restart($node);
not_dropped('after a crash', 2);
in('d', "BEGIN; SELECT rose.drop_subscription('e', keep_slot => true); ROLLBACK");
not_dropped('after a drop that was rolled back', 2);

# A copy has no subscriptions: nothing of it keeps anything, and the original keeps its own.
sql('CREATE DATABASE copy TEMPLATE d');
fails('copy', "SELECT rose.drop_subscription('e', keep_slot => true)", qr/rose subscription "e" does not exist/, 'a copy has none');
in('copy', "SELECT rose.create_subscription('e', 'host=/nowhere', '{q}', connect => false)");
is(in('copy', $server) =~ s/,slot.*//gr, "d|${\ sql('SELECT current_user')}|{\"publications={p}\"\ne|${\ sql('SELECT current_user')}|{\"publications={q}\"", 'but may have its own');
fails('template1', 'DROP DATABASE copy', qr/There is 1 subscription/, 'which keeps it');
in('copy', "SELECT rose.drop_subscription('e', keep_slot => true)");
in('copy', 'SET client_min_messages = warning; DROP EXTENSION rose CASCADE');
sql('DROP DATABASE copy');
not_dropped('whose copy was', 2);
in('d', "SELECT rose.drop_subscription('e', keep_slot => true)");
in('d', "SELECT rose.drop_subscription('d')");
is(in('d', $server), '', 'without its subscriptions it has no servers');
sql('DROP DATABASE d');
is(sql(q{SELECT count(*) FROM pg_shdepend WHERE refclassid = 'pg_database'::regclass AND refobjid NOT IN (SELECT oid FROM pg_database)}), 0, 'and leaves none');

# --- an older extension
sql('CREATE DATABASE old');
in('old', "CREATE EXTENSION rose VERSION '1.0'; CREATE TABLE t (id int PRIMARY KEY, v int) USING rose");
in('old', "CREATE ROLE former SUPERUSER; SET SESSION AUTHORIZATION former; SELECT rose.create_subscription('old', \$\$$conninfo\$\$, '{p}')");
is(in('old', $server), '', '1.0 has no servers');
fails('template1', 'DROP DATABASE old', qr/database "old" is being used by rose/, '1.0: DROP DATABASE while it runs');
in('old', 'ALTER EXTENSION rose UPDATE');
is(in('old', $server), 'old|former|{"publications={p}",slot_name=old,binary=true,synchronous_commit=off}', 'the update makes one of its owner');
is(in('old', q{SELECT count(*) FROM pg_depend WHERE classid = 'pg_foreign_server'::regclass AND deptype = 'e'}), 0, 'which is no object of the extension');
fails('old', 'DROP ROLE former', qr/owner of server old/, 'which keeps him');
in('old', "SELECT rose.alter_subscription('old', enabled => false)");
until_in('old', "SELECT pid IS NULL FROM rose.stat_subscription") or die 'it runs';
fails('template1', 'DROP DATABASE old', qr/database "old" is being used by rose/, 'and its database');
in('old', "SELECT rose.drop_subscription('old')");
sql('DROP DATABASE old; DROP ROLE former');

# --- a dump
my $dump = $node->basedir . '/dump.sql';
up('INSERT INTO t VALUES (5, 5)');
same('before the dump');
sql("SELECT rose.alter_subscription('s', enabled => false, on_error => 'pause')");
until_in('postgres', 'SELECT pid IS NULL FROM rose.stat_subscription') or die 'it runs';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
my $text = slurp_file($dump);
like($text, qr/^CREATE SERVER s FOREIGN DATA WRAPPER rose_subscription OPTIONS \(.*?publications '\{p\}'.*?\);.*^ALTER SERVER s OWNER TO other;/ms, 'a dump has it');
unlike($text, qr/hush/, 'without its secret');
is(sql("SET ROLE reader; SELECT count(*) FROM pg_foreign_server WHERE srvoptions::text LIKE '%hush%'") + sql("SET ROLE reader; SELECT count(*) FROM pg_user_mapping"), 0, 'nor can who reads all see it elsewhere');
sql('CREATE DATABASE restored');
my ($status, $out, $err) = $node->psql('restored', "\\set ON_ERROR_STOP on\n\\i $dump");
is($status, 0, 'it is restored') or diag($err);
is(in('restored', 'SELECT subname, state FROM rose.stat_subscription'), 's|restored', 'and is shown as that');
is(in('restored', 'SELECT owner::regrole, enabled, binary_format, synchronous_commit, slot_name, publications, conninfo IS NULL FROM rose.subscription'),
	'other|f|t|off|s|{p}|t', 'with all but the connection string');
is(in('restored', 'SELECT on_error FROM rose.stat_subscription'), 'pause', 'and what it does with errors');
is(in('restored', 'SET ROLE nobody; SELECT state FROM rose.stat_subscription'), 'restored', 'for everybody');
fails('template1', 'DROP DATABASE restored', qr/There is 1 subscription/, 'it keeps its database');
fails('restored', "SELECT rose.alter_subscription('s', enabled => true)", qr/ERROR:  55000: rose subscription "s" has no connection string\nDETAIL:  It comes from a dump.*\nHINT:  Give it one/, 'it does not start without one');
fails('restored', "SELECT rose.alter_subscription('s', refresh => true)", qr/ERROR:  55000: rose subscription "s" has no connection string/, 'nor ask');
fails('restored', "SELECT rose.drop_subscription('s')", qr/ERROR:  55000: rose subscription "s" has no connection string.*HINT:  Drop it with keep_slot/s, 'nor drop its slot');
$node->restart;
is(in('restored', 'SELECT subname, state, last_error IS NULL FROM rose.stat_subscription'), 's|restored|t', 'and rests after a restart');

# What is no value of an option is none in a dump: it would become a subscription with the default.
my %words = (on_error => [ 'stop', 'pause' ], on_schema_change => [ 'stop', 'add' ], durability => [ 'upstream', 'local' ], origin => [ 'any', 'none' ]);
foreach my $option (sort keys %words)
{
	my ($one, $other) = @{ $words{$option} };

	fails('restored', "CREATE SERVER z FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', $option 'some')",
		qr/ERROR:  22023: invalid value for $option: "some"\nHINT:  Valid values are "$one" and "$other"\./, "$option: no value of it");
	fails('restored', "CREATE SERVER z FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', $option '')", qr/ERROR:  22023: invalid value for $option: ""/, "$option: none at all");
	foreach my $value ($one, $other)
	{
		in('restored', "CREATE SERVER z FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', $option '$value')");
		is(in('restored', "SELECT $option FROM rose.stat_subscription WHERE subname = 'z'"), $value, "$option: $value");
		fails('restored', "ALTER SERVER z OPTIONS (SET $option 'some')", qr/ERROR:  22023: invalid value for $option: "some"/, "$option: nor is it by ALTER SERVER");
		in('restored', "SELECT rose.drop_subscription('z', keep_slot => true)");
	}
}
sql('CREATE DATABASE wrong');
append_to_file("$dump.wrong", $text =~ s/on_error 'pause'/on_schema_change 'some'/r);
fails('wrong', "\\i $dump.wrong", qr/ERROR:  22023: invalid value for on_schema_change: "some"/, 'a whole dump');
is(in('wrong', 'SELECT count(*) FROM rose.subscription'), 0, 'which leaves none');
sql('DROP DATABASE wrong');

# It takes the place of the one that was dumped: the rows are those of its slot's position.
sql("SELECT rose.drop_subscription('s', keep_slot => true)");
up('INSERT INTO t VALUES (6, 6); UPDATE t SET v = 0 WHERE id = 1');
in('restored', "SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$, enabled => true, refresh => true, copy_data => false)");
same('it goes on where the other one was', 'restored');
is(in('restored', 'SELECT state FROM rose.stat_subscription'), 'streaming', 'and is one as any other');
in('restored', "SELECT rose.drop_subscription('s')");
is(up('SELECT count(*) FROM pg_replication_slots'), 0, 'all slots are dropped');
sql('DROP DATABASE restored; DROP ROLE other');

$node->stop;
$upstream->stop;
done_testing();
