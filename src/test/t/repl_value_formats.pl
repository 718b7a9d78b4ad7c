
# The formats that values come in from the upstream: binary where both sides mean the
# same by it, else text; and text in any encoding.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'");

# Databases of other encodings, and clients' settings that are not for workers.
$upstream->safe_psql('postgres', "CREATE DATABASE f ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
$replica->safe_psql('postgres', "CREATE DATABASE f ENCODING 'UTF8' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
$replica->safe_psql('postgres', "ALTER DATABASE f SET client_encoding = 'LATIN1'");
$replica->safe_psql('f', 'CREATE EXTENSION rose');

sub up { return $upstream->safe_psql('f', $_[0]) }
sub down { return $replica->safe_psql('f', $_[0]) }
sub caught_up { return wait_for_apply($upstream, $replica, 'f') }

# same NAME, QUERY: it answers the same on both sides
sub same
{
	my ($name, $query) = @_;

	caught_up();
	is(down($query), up($query), $name);
	return;
}

sub format_is
{
	my ($expected, $name) = @_;
	my $query = "SELECT CASE WHEN query ~ 'binary ''true''' THEN 'binary' ELSE 'text' END FROM pg_stat_activity WHERE backend_type = 'walsender' AND query ~ 'START_REPLICATION'";

	$upstream->poll_query_until('f', $query, $expected) or diag("$name: " . up($query));
	is(up($query), $expected, $name);
	return;
}

my %tables = (
	words => 'id int PRIMARY KEY, t text, v varchar(20), c char(5), j jsonb',
	edges => 'id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, o oid, d date, ts timestamp, tz timestamptz, tz0 timestamptz(0), u uuid, t text, v varchar(5), vv varchar, c char(5), y bytea, n numeric, j json, iv interval, a int[]',
	acl => 'id int PRIMARY KEY, a aclitem[]',
	feelings => 'id int PRIMARY KEY, m mood');

# The same oid on both sides, so that nothing but its being no built-in type tells that it differs.
down('SELECT count(lo_create(0)) FROM generate_series(1, 1000)');
down("CREATE TYPE mood AS ENUM ('ok', 'sad')");
my $oid = down("SELECT 'mood'::regtype::oid");
my $object = up('SELECT lo_create(0)');
up("CREATE TYPE try AS ENUM ('sad', 'ok')");
my $distance = up("SELECT 'try'::regtype::oid") - $object;
up("DO 'BEGIN WHILE lo_create(0) <> $oid - $distance LOOP END LOOP; END'");
up("CREATE TYPE mood AS ENUM ('sad', 'ok')");
is(up("SELECT 'mood'::regtype::oid"), $oid, 'a type has the same oid on both sides');

foreach my $table (sort keys %tables)
{
	up("CREATE TABLE $table ($tables{$table})");
	down("CREATE TABLE $table ($tables{$table}) USING rose");
}
up('CREATE TABLE wider (a int, id int PRIMARY KEY)');
down('CREATE TABLE wider (id bigint PRIMARY KEY, a bigint) USING rose');

# In ASCII: the bytes of a client do not matter here.
my $umlauts = "chr(228) || chr(246) || chr(252) || 'x'";
sub words { return "INSERT INTO words SELECT $_[0], w, w, w, jsonb_build_object(w, w) FROM (SELECT $umlauts) s (w)" }
my $bytes = "SELECT id, convert_to(t, 'UTF8'), convert_to(v, 'UTF8'), convert_to(c::text, 'UTF8'), convert_to(j::text, 'UTF8') FROM words ORDER BY id";

up(words(1));
up('CREATE PUBLICATION p FOR ALL TABLES');
subscribe($upstream, $replica, 'f');

# --- encodings
same('encodings: the copy', $bytes);
up(words(2));
same('encodings: in binary', $bytes);
format_is('binary', 'it was binary');
down("SELECT rose.alter_subscription('s', binary => false)");
up(words(3));
same('encodings: as text', $bytes);
down("SELECT rose.alter_subscription('s', binary => true)");

# --- values at the ends of their types, in each format
my $edges = q{
	INSERT INTO edges VALUES
		(1, true, -32768, -2147483648, -9223372036854775808, 'NaN', '-Infinity', 4294967295, '-infinity', 'infinity', '-infinity', 'infinity',
			'00000000-0000-0000-0000-000000000000', '', '', '', '', '', 'NaN', '{}', '0', '{}'),
		(2, false, 32767, 2147483647, 9223372036854775807, '-0', 'NaN', 0, '4713-01-01 BC', '4713-01-01 00:00 BC', '4713-01-02 00:00+00 BC', '294276-12-30 23:59:59.9+00',
			'ffffffff-ffff-ffff-ffff-ffffffffffff', repeat('x', 126), chr(228) || 'bcde', repeat('y', 127), 'ab', decode(repeat('ff', 126), 'hex'), -1e-20, '[1]', '-1 year 2 days', '{1,NULL,-3}'),
		(3, NULL, -1, -1, -1, 1.5, 1e300, 1, '5874897-12-31', '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00', '2026-01-01 00:00:00.5+00',
			NULL, repeat(chr(246), 300), chr(246) || chr(246), NULL, chr(246), '\x00', 0, 'null', NULL, NULL);
	UPDATE edges SET id = id + 10, t = t || 'x';
	UPDATE edges SET vv = repeat('z', 3 * id)};
my $all_edges = "SELECT row_to_json(e)::text, convert_to(t || v || coalesce(vv, '') || c, 'UTF8') FROM edges e ORDER BY id";
foreach my $format ('binary', 'text')
{
	down("SELECT rose.alter_subscription('s', binary => " . ($format eq 'binary' ? 'true' : 'false') . ')');
	up('DELETE FROM edges');
	up("SET TimeZone = 'Asia/Tokyo'; $edges");
	same("edges: $format", $all_edges);
	format_is($format, "it was $format");
}
down("SELECT rose.alter_subscription('s', binary => true)");

# --- types
up('INSERT INTO wider VALUES (1, 2)');
same('another type here', 'SELECT a, id FROM wider');
format_is('text', 'which takes text');
my $worker = down('SELECT pid FROM rose.stat_subscription');
down("SELECT pg_terminate_backend($worker)");
$replica->poll_query_until('f', "SELECT pid <> $worker AND state = 'streaming' FROM rose.stat_subscription") or die 'no new worker';
format_is('text', 'the next worker knows that');
up('INSERT INTO wider VALUES (2, 3)');
same('it applies', 'SELECT a, id FROM wider ORDER BY id');
is(scalar(() = slurp_file($replica->logfile) =~ /goes on with values in text format/g), 1, 'without finding out by itself');

foreach my $change ("INSERT INTO acl VALUES (1, '{=r/postgres}')", "INSERT INTO feelings VALUES (1, 'ok')")
{
	my ($table) = $change =~ /INTO (\w+)/;

	down("SELECT rose.alter_subscription('s', binary => true)");
	up('UPDATE words SET t = id::text WHERE id = 1');
	caught_up();
	format_is('binary', "another subscription, another try: before $table");
	up("BEGIN; UPDATE words SET v = id::text WHERE id = 1; $change; COMMIT");
	same($table, "SELECT id, t, v, (SELECT count(*) FROM $table) FROM words WHERE id = 1");
	same($table, "SELECT * FROM $table");
	format_is('text', 'which takes text');
}

down("SELECT rose.drop_subscription('s')");
$replica->stop;
$upstream->stop;
done_testing();
