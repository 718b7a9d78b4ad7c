# The schema "rose" is an object of the extension: dumps have it no more than its functions, whether it was made with the extension, by a user before, or
# by an older version. And what a database without the extension says: one made from template0, where default_table_access_method = rose is set for all.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in is no extension' if $ENV{ROSE_STANDIN};

my $node = rose_node('extension_schema');
my $dir = PostgreSQL::Test::Utils::tempdir;
local %ENV = $node->_get_env(PGDATABASE => 'postgres', PGHOST => $node->host, PGPORT => $node->port);

sub database
{
	my ($name, $sql) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE template0");
	$node->safe_psql($name, $sql) if defined $sql;
	return;
}

sub fails
{
	my ($name, $sql, $message, $hint, $what) = @_;
	my ($status, $out, $err) = $node->psql($name, $sql, on_error_stop => 1);

	isnt($status, 0, "$what: fails");
	like($err, $message, "$what: why");
	defined $hint ? like($err, $hint, "$what: what to do") : unlike($err, qr/HINT/, "$what: no hint");
	return;
}

sub dump_of
{
	my ($name) = @_;

	$node->command_ok([ 'pg_dump', '-f', "$dir/$name.sql", $name ], "pg_dump of $name");
	return slurp_file("$dir/$name.sql");
}

# Into a database that has the extension, and one that has not; none may show an error.
sub restored
{
	my ($name) = @_;

	foreach my $sql ('CREATE EXTENSION rose', undef)
	{
		my $to = $name . (defined $sql ? '_beside' : '_alone');

		database($to, $sql);
		$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $to, '-f', "$dir/$name.sql" ], "$to: restored");
		is($node->safe_psql($to, 'SELECT count(*), sum(v) FROM t'), '100|5050', "$to: its rows");
		is(facts($to), facts($name), "$to: the schema is as it was");
	}
	return;
}

# Whose the schema is, who has what rights on it beyond those that it is made with, what of users is in it.
sub facts
{
	my ($name) = @_;

	return $node->safe_psql($name, q{SELECT extnamespace::regnamespace, extversion,
		(SELECT string_agg(pg_describe_object(refclassid, refobjid, 0) || ' ' || deptype::text, ' ') FROM pg_depend WHERE classid = 'pg_namespace'::regclass AND objid = 'rose'::regnamespace),
		(SELECT string_agg(g.grantee::regrole || ' ' || g.privilege_type, ',' ORDER BY g.grantee::regrole::text, g.privilege_type) FROM pg_namespace, aclexplode(nspacl) g WHERE nspname = 'rose' AND grantee <> nspowner),
		(SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class c WHERE relnamespace = 'rose'::regnamespace AND relkind = 'r'
			AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')) FROM pg_extension WHERE extname = 'rose'});
}

my $table = 'CREATE TABLE t (id int PRIMARY KEY, v int) USING rose; INSERT INTO t SELECT i, i FROM generate_series(1, 100) i';

# ---- made with the extension ----

$node->safe_psql('postgres', 'CREATE ROLE reader; CREATE ROLE maker');
database('plain', "CREATE EXTENSION rose; $table");
is(facts('plain'), 'pg_catalog|1.1|extension rose e|- USAGE|', 'the schema is of the extension');
unlike(dump_of('plain'), qr/SCHEMA rose|SCHEMA IF NOT EXISTS rose/, 'a dump does not make it');
restored('plain');
is($node->safe_psql('plain', "SELECT count(*) FROM pg_depend d WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND pg_describe_object(classid, objid, 0) ~ 'pg_catalog'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'rose')"), 0, 'nothing of it is in pg_catalog');
fails('plain', 'DROP SCHEMA rose CASCADE', qr/cannot drop schema rose because extension rose requires it/, qr/You can drop extension rose instead/, 'dropped alone');
fails('plain', 'DROP EXTENSION rose', qr/cannot drop extension rose because other objects depend on it/, qr/CASCADE/, 'dropped with a table');
$node->safe_psql('plain', 'DROP TABLE t; DROP EXTENSION rose');
is($node->safe_psql('plain', "SELECT to_regnamespace('rose')"), '', 'dropped with the extension');
$node->safe_psql('plain', "CREATE EXTENSION rose; $table");
is($node->safe_psql('plain', 'SELECT sum(v) FROM t'), 5050, 'and made again');

# ---- what users have in it, and who may ----

database('used', "CREATE EXTENSION rose; $table; CREATE TABLE rose.mine AS SELECT 1 AS a; GRANT CREATE ON SCHEMA rose TO maker; REVOKE USAGE ON SCHEMA rose FROM PUBLIC");
is(facts('used'), 'pg_catalog|1.1|extension rose e|maker CREATE|mine', 'a table and rights of users');
dump_of('used');
restored('used');
fails('used', 'DROP TABLE t; DROP EXTENSION rose', qr/cannot drop extension rose.*\n.*table rose\.mine depends on schema rose/, qr/CASCADE/, "dropped with a user's table");

# ---- made by a user before ----

database('before', "CREATE SCHEMA rose AUTHORIZATION maker; CREATE TABLE rose.mine AS SELECT 1 AS a; GRANT USAGE ON SCHEMA rose TO reader; CREATE EXTENSION rose; $table");
is(facts('before'), 'pg_catalog|1.1|extension rose e|- USAGE,reader USAGE|mine', 'a schema that was there');
is($node->safe_psql('before', "SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'rose'"), 'maker', 'is still its owner\'s');
unlike(dump_of('before'), qr/CREATE SCHEMA rose/, 'a dump does not make it');
restored('before');

# ---- of version 1.0 ----

database('old', <<"SQL");
CREATE EXTENSION rose VERSION '1.0';
GRANT USAGE ON SCHEMA rose TO reader;
CREATE TABLE rose.mine AS SELECT 1 AS a;
$table;
SQL
like(dump_of('old'), qr/CREATE SCHEMA rose;.*CREATE EXTENSION IF NOT EXISTS rose WITH SCHEMA rose;/s, 'a dump of 1.0 makes the schema');
database('old_alone');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', 'old_alone', '-f', "$dir/old.sql" ], 'it is restored all the same');
is(facts('old_alone'), 'pg_catalog|1.1|extension rose e|- USAGE,reader USAGE|mine', '... by the version of now');
$node->safe_psql('postgres', 'DROP DATABASE old_alone');
$node->safe_psql('old', 'ALTER EXTENSION rose UPDATE');
is(facts('old'), 'pg_catalog|1.1|extension rose e|- USAGE,reader USAGE|mine', 'the update takes the schema');
unlike(dump_of('old'), qr/CREATE SCHEMA rose/, 'a dump does not make it any more');
restored('old');
is($node->safe_psql('old', 'DROP TABLE t, rose.mine; DROP EXTENSION rose; SELECT to_regnamespace($$rose$$)'), '', 'dropped with the extension');

# ---- SCHEMA ----

database('elsewhere', 'CREATE SCHEMA x');
fails('elsewhere', 'CREATE EXTENSION rose SCHEMA x', qr/extension "rose" must be installed in schema "pg_catalog"/, undef, 'another schema');
fails('elsewhere', 'CREATE EXTENSION rose SCHEMA none', qr/schema "none" does not exist/, undef, 'no schema');
$node->safe_psql('elsewhere', 'CREATE EXTENSION rose WITH SCHEMA rose');
is(facts('elsewhere'), 'pg_catalog|1.1|extension rose e|- USAGE|', 'that of 1.0');
fails('elsewhere', 'ALTER EXTENSION rose SET SCHEMA x', qr/does not support SET SCHEMA/, undef, 'moved');
$node->safe_psql('elsewhere', 'DROP EXTENSION rose; SET search_path = $$$$; CREATE EXTENSION rose SCHEMA pg_catalog; CREATE EXTENSION IF NOT EXISTS rose WITH SCHEMA rose');
is(facts('elsewhere'), 'pg_catalog|1.1|extension rose e|- USAGE|', 'that of 1.1, with no search path');

# ---- a database without it ----

my $missing = qr/ERROR:  access method "rose" does not exist/;
my $create = qr/HINT:  Run CREATE EXTENSION rose in this database\. Databases made later have it if template1 has it, but not those made from template0\./;

$node->safe_psql('postgres', 'ALTER SYSTEM SET default_table_access_method = rose; SELECT pg_reload_conf()');
$node->poll_query_until('postgres', "SELECT current_setting('default_table_access_method') = 'rose'");
database('bare', 'CREATE TABLE heap (a int) USING heap; CREATE TABLE parted (a int) PARTITION BY LIST (a)');
fails('bare', $_, $missing, $create, $_)
  foreach 'CREATE TABLE t (a int)', 'CREATE TABLE t (a int) USING rose', 'CREATE TEMP TABLE t (a int)', 'CREATE TABLE t AS SELECT 1', 'SELECT 1 AS a INTO t', 'CREATE MATERIALIZED VIEW t AS SELECT 1',
  'CREATE TABLE part PARTITION OF parted FOR VALUES IN (1)', 'ALTER TABLE heap SET ACCESS METHOD rose', 'CREATE SCHEMA s CREATE TABLE t (a int)', 'DO $$ BEGIN CREATE TABLE t (a int); END $$',
  'BEGIN; SAVEPOINT s; CREATE TABLE t (a int)', 'PREPARE p AS SELECT 1 AS a; CREATE TABLE t AS EXECUTE p';
fails('bare', 'CREATE TABLE t (a no_type)', qr/type "no_type" does not exist/, undef, 'another error');
fails('bare', 'CREATE TABLE t (a int) USING other', qr/access method "other" does not exist/, undef, 'another access method');
fails('bare', 'CREATE TABLE t AS SELECT 1 / 0', qr/division by zero/, undef, 'one of the query');
is($node->safe_psql('bare', 'CREATE TABLE IF NOT EXISTS heap (a int); CREATE VIEW v AS SELECT 1; SET default_table_access_method = heap; CREATE TABLE t (a int); SELECT count(*) FROM t'), 0, 'what needs no access method');
is($node->safe_psql('bare', 'BEGIN; SAVEPOINT s; CREATE TABLE IF NOT EXISTS heap (a int); RELEASE s; CREATE EXTENSION rose; CREATE TABLE u (a int); COMMIT; SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = $$u$$'),
	'rose', 'CREATE EXTENSION is enough');

# of template1 it is a copy
$node->safe_psql('template1', 'CREATE EXTENSION rose');
$node->safe_psql('postgres', 'CREATE DATABASE made_later');
is($node->safe_psql('made_later', 'CREATE TABLE t (a int); SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = $$t$$'), 'rose', 'template1 gives it to databases made later');

$node->stop;
done_testing();
