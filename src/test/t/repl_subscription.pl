
# Making, changing and dropping subscriptions: options, errors, rights, views,
# waiting, a lost upstream, two upstreams, copied databases.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has only the simplest subscriptions' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.max_subscriptions = 3", "wal_retrieve_retry_interval = '200ms'");
my $conninfo = $upstream->connstr('postgres');

sub up { return $upstream->safe_psql($_[1] // 'postgres', $_[0]) }
sub down { return $replica->safe_psql($_[1] // 'postgres', $_[0]) }

# The statement fails with this message, and with this hint or detail if given.
sub fails_like
{
	my ($sql, $pattern, $name, %params) = @_;
	my ($rc, $out, $err) = $replica->psql('postgres', $sql, %params);

	ok($rc != 0, "$name: refused");
	like($err, $pattern, $name);
	return $err;
}

sub caught_up
{
	my ($sub, $updb, $db) = @_;

	my $lsn = up('SELECT pg_current_wal_flush_lsn()', $updb);
	down("SELECT rose.wait_for_lsn('$sub', '$lsn', $timeout)", $db);
	return;
}

sub create { my ($name, $more) = @_; return "SELECT rose.create_subscription('$name', \$\$$conninfo\$\$, " . ($more // "ARRAY['pub']") . ')' }

up('CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a SELECT g, g FROM generate_series(1, 100) g;'
	. 'CREATE TABLE b (id int PRIMARY KEY, v text); INSERT INTO b VALUES (1, 1);'
	. 'CREATE PUBLICATION pub FOR TABLE a; CREATE PUBLICATION pub_b FOR TABLE b; CREATE PUBLICATION pub_none');

# --- CREATE: what is refused
fails_like(create('s', "ARRAY['nix']"), qr/publication "nix" does not exist on the upstream/, 'unknown publication');
fails_like(create('s'), qr/table "public.a" does not exist.*USING rose/s, 'no local table');
down('CREATE TABLE a (id int PRIMARY KEY, v text) USING heap');
fails_like(create('s'), qr/"public.a", which is not a rose table.*SET ACCESS METHOD rose/s, 'heap table');
down('DROP TABLE a; CREATE TABLE a (id int PRIMARY KEY, v text) USING rose; CREATE TABLE b (id int PRIMARY KEY, v text) USING rose');
is(up('SELECT count(*) FROM pg_replication_slots'), 0, 'failures leave no slot');
fails_like("SELECT rose.create_subscription('s', 'nonsense', ARRAY['pub'])", qr/invalid connection string/, 'bad conninfo');
fails_like("SELECT rose.create_subscription('s', 'host=/nowhere port=1', ARRAY['pub'])", qr/could not connect to the upstream/, 'unreachable upstream');
fails_like(create('s', 'ARRAY[]::text[]'), qr/at least one publication/, 'no publications');
fails_like(create('s', 'ARRAY[NULL]::text[]'), qr/publication names must not be null/, 'null publication');
fails_like(create('s', 'NULL'), qr/publications must not be null/, 'null publications');
fails_like(create(''), qr/is empty or longer than/, 'empty name');
fails_like(create('s', "ARRAY['pub'], slot_name => 'Bad Slot'"), qr/replication slot name "Bad Slot" contains invalid character/, 'slot name');
fails_like(create('s', "ARRAY['pub'], synchronous_commit => 'maybe'"), qr/invalid value for parameter "synchronous_commit"/, 'synchronous_commit');
fails_like(create('s', "ARRAY['pub'], durability => 'none'"), qr/invalid durability "none".*Valid values are "upstream" and "local"/s, 'durability');
fails_like(create('s', "ARRAY['pub'], connect => false, $_ => true"), qr/connect => false and $_ => true are mutually exclusive/, "connect and $_")
  foreach qw(create_slot enabled copy_data);
fails_like('BEGIN; ' . create('s'), qr/cannot run inside a transaction block/, 'in a transaction block');
is(down('SELECT count(*) FROM rose.subscription'), 0, 'failures leave no subscription');

# --- rights
down("CREATE ROLE joe LOGIN");
my @joe = (extra_params => [ '-U', 'joe' ]);
fails_like(create('s'), qr/permission denied to create rose subscriptions/, 'create by others', @joe);

# --- CREATE
down(create('s'));
down("SELECT rose.wait_for_sync('s', $timeout)");
is(down('SELECT count(*), sum(id) FROM a'), '100|5050', 'copied');
# those of copies go with their connections
$upstream->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_replication_slots WHERE temporary') or die 'the copy goes on';
is(up("SELECT slot_name, plugin, temporary FROM pg_replication_slots"), 's|pgoutput|f', 'one slot, with the name of the subscription');
fails_like(create('s'), qr/rose subscription "s" already exists/, 'same name');
fails_like(create('s2'), qr/table "a" belongs to another rose subscription, "s"/, 'same table');
is(up('SELECT count(*) FROM pg_replication_slots'), 1, 'no other slot');
fails_like("SELECT rose.$_->[0]", qr/$_->[1]/, "$_->[0]", @joe)
  foreach [ "alter_subscription('s', enabled => false)", 'must be owner of rose subscription "s"' ], [ "drop_subscription('s')", 'must be owner of rose subscription "s"' ];
fails_like('SELECT conninfo FROM rose.subscription', qr/permission denied for materialized view subscription/, 'conninfo is a secret', @joe);
is( $replica->safe_psql('postgres', 'SELECT subname, state FROM rose.stat_subscription', @joe), 's|streaming', 'the view is for everybody');
unlike($replica->safe_psql('postgres', 'SELECT * FROM rose.stat_subscription', @joe), qr/host=/, 'and keeps the secret');

# --- views
up("INSERT INTO a VALUES (101, 'x'), (102, 'y'); UPDATE a SET v = 'z' WHERE id = 101; DELETE FROM a WHERE id <= 2");
caught_up('s');
is(down('SELECT inserts, updates, deletes, truncates, old_row_reads, skipped, copied_rows FROM rose.stat_subscription'), '2|1|2|0|0|0|100', 'counts');
is(down('SELECT relname, state, inserts, updates, deletes, copied_rows, last_error IS NULL FROM rose.stat_subscription_tables'), 'a|ready|2|1|2|100|t', 'counts by table');
is(down('SELECT confirmed_lsn <= durable_lsn AND durable_lsn <= applied_lsn AND applied_lsn <= received_lsn FROM rose.stat_subscription'), 't', 'positions are in order');
$replica->poll_query_until('postgres', 'SELECT lag_bytes = 0 AND lag_ms = 0 FROM rose.stat_subscription') or fail('lag');

# --- waiting
fails_like("SELECT rose.wait_for_lsn('s', 'FFFF/0', 1)", qr/timed out while waiting for rose subscription "s" to apply FFFF\/0/, 'wait_for_lsn gives up');
fails_like("SELECT rose.wait_for_lsn('nix', '0/1', 1)", qr/rose subscription "nix" does not exist/, 'wait_for_lsn, unknown');
fails_like("SELECT rose.wait_for_sync('nix', 1)", qr/rose subscription "nix" does not exist/, 'wait_for_sync, unknown');
fails_like("SELECT rose.wait_for_sync(NULL, 1)", qr/name must not be null/, 'wait_for_sync, null');

# --- ALTER
fails_like("SELECT rose.alter_subscription('nix')", qr/rose subscription "nix" does not exist/, 'alter, unknown');
fails_like("SELECT rose.alter_subscription('s', resync => 'b')", qr/table "b" is not part of rose subscription "s"/, 'resync of another table');
fails_like("SELECT rose.alter_subscription('s', conninfo => 'nonsense')", qr/invalid connection string/, 'alter, bad conninfo');
down("SELECT rose.alter_subscription('s', enabled => false)");
$replica->poll_query_until('postgres', "SELECT state = 'disabled' AND pid IS NULL FROM rose.stat_subscription") or fail('disabled');
up("INSERT INTO a VALUES (200, 'while disabled')");
down("SELECT rose.alter_subscription('s', enabled => true, binary => true, synchronous_commit => 'on')");
caught_up('s');
is(down("SELECT count(*) FROM a WHERE id = 200"), 1, 'what came while it was disabled');
up("INSERT INTO a VALUES (201, 'binary')");
caught_up('s');
is(down("SELECT v FROM a WHERE id = 201"), 'binary', 'in binary format');
down("SELECT rose.alter_subscription('s', publications => ARRAY['pub', 'pub_b'])");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(down('SELECT count(*) FROM b'), 1, 'a publication more: its table is copied');
up("INSERT INTO b VALUES (2, 2)");
caught_up('s');
is(down('SELECT count(*) FROM b'), 2, 'and follows');
down("SELECT rose.alter_subscription('s', publications => ARRAY['pub'])");
is(down("INSERT INTO b VALUES (3, 'local') RETURNING id"), 3, 'a publication less: its table is an ordinary one');
down("SELECT rose.alter_subscription('s', resync => 'a')");
down("SELECT rose.wait_for_sync('s', $timeout)");
caught_up('s');
is(table_hash($replica, 'a'), table_hash($upstream, 'a'), 'after a resync');
down("BEGIN; SELECT rose.alter_subscription('s', resync => 'a'); ROLLBACK");
up("INSERT INTO a VALUES (202, 'after rollback')");
caught_up('s');
is(table_hash($replica, 'a'), table_hash($upstream, 'a'), 'a resync that is rolled back changes nothing');

# --- local writes, spill and merge of a fed table
fails_like("INSERT INTO a VALUES (999, 'x')", qr/cannot write to table "a" because a subscription feeds it.*Write on the upstream/s, 'local insert');
fails_like("UPDATE a SET v = 'x'", qr/because a subscription feeds it/, 'local update');
fails_like('DELETE FROM a', qr/because a subscription feeds it/, 'local delete');
fails_like('TRUNCATE a', qr/because a subscription feeds it/, 'local truncate');
my $applied = down('SELECT applied_lsn FROM rose.stat_subscription');
down("SELECT rose.spill('a')");
is(down("SELECT durable_lsn >= '$applied' FROM rose.stat_subscription"), 't', 'rose.spill makes durable what is applied');
down("SELECT rose.merge('a')");
is(down("SELECT count(*) FROM rose.components('a') WHERE kind <> 'memtable'"), 1, 'rose.merge leaves one component');

# A new file does not know who feeds it; the worker tells it.
down("ALTER TABLE a ADD COLUMN extra int");
down("SELECT rose.spill('a')");
down("ALTER TABLE a ALTER COLUMN v TYPE varchar");
my $err = '';
for (1 .. 100)
{
	(undef, undef, $err) = $replica->psql('postgres', 'BEGIN; INSERT INTO a (id) VALUES (-1); ROLLBACK');
	last if $err =~ /feeds it/;
	select undef, undef, undef, 0.1;
}
like($err, qr/because a subscription feeds it/, 'a rewritten table is fed again, without any change of it');
up("INSERT INTO a VALUES (203, 'after ALTER')");
caught_up('s');
is(down("SELECT v, extra IS NULL FROM a WHERE id = 203"), 'after ALTER|t', 'and followed');

# --- all places taken
up('CREATE DATABASE other');
up("CREATE TABLE c (id int PRIMARY KEY, v text); INSERT INTO c VALUES (1, 'other'); CREATE PUBLICATION pub FOR TABLE c", 'other');
down('CREATE TABLE c (id int PRIMARY KEY, v text) USING rose');
my $other = $upstream->connstr('other');
down("SELECT rose.create_subscription('o', \$\$$other\$\$, ARRAY['pub'])");
down("SELECT rose.wait_for_sync('o', $timeout)");
my ($rc, $out, $warning) = $replica->psql('postgres', create('n', "ARRAY['pub_none']"));
like($warning, qr/the publications have no tables yet.*refresh => true/s, 'a publication without tables');
fails_like(create('m', "ARRAY['pub_none']"), qr/all 3 places for rose subscriptions are taken.*rose.max_subscriptions/s, 'no place left');
is(up('SELECT count(*) FROM pg_replication_slots'), 3, 'and no slot was made');
down("SELECT rose.drop_subscription('n')");

# --- two upstreams
up("INSERT INTO a VALUES (300, 'from postgres')");
up("INSERT INTO c VALUES (2, 'from other')", 'other');
caught_up('s');
caught_up('o', 'other');
is(down('SELECT (SELECT max(id) FROM a), (SELECT max(id) FROM c)'), '300|2', 'two upstream databases feed one');
is(down("SELECT string_agg(subname || ' ' || state, ',' ORDER BY subname) FROM rose.stat_subscription"), 'o streaming,s streaming', 'both run');

# --- a copy of the database
down("SELECT rose.spill('a')");
down("SELECT pg_terminate_backend(pid) FROM rose.stat_subscription; CREATE DATABASE copy TEMPLATE template0");
$replica->safe_psql('postgres', "SELECT rose.alter_subscription('s', enabled => false), rose.alter_subscription('o', enabled => false)");
$replica->poll_query_until('postgres', "SELECT count(*) = 0 FROM rose.stat_subscription WHERE pid IS NOT NULL") or fail('disabled');
$replica->safe_psql('template1', 'DROP DATABASE copy');
my $copied = 0;
for (1 .. 50)
{
	($rc, $out, $err) = $replica->psql('template1', 'CREATE DATABASE copy TEMPLATE postgres');
	$copied = $rc == 0 and last;
	select undef, undef, undef, 0.2;
}
ok($copied, 'database copied') or diag($err);
is(down('SELECT count(*) FROM rose.stat_subscription', 'copy'), 0, 'a copy has no subscription');
is(table_hash($replica, 'a', 'copy'), table_hash($replica, 'a'), 'and the same rows');
($rc, $out, $err) = $replica->psql('copy', "INSERT INTO a VALUES (1000, 'x')");
like($err, qr/rose\.detach\(\)/, 'its tables are still fed: the hint says what to do');
is(down("SELECT rose.detach('a'); INSERT INTO a VALUES (1000, 'x'); SELECT count(*) FROM a WHERE id = 1000", 'copy'), "\n1", 'detached');
fails_like("SELECT rose.detach('a')", qr/table "a" belongs to rose subscription "s".*Drop the subscription/s, 'not a table of a subscription that is here');
fails_like("SELECT rose.detach('a')", qr/must be owner of table a/, 'nor by others', @joe);
down("SELECT rose.alter_subscription('s', enabled => true), rose.alter_subscription('o', enabled => true)");
up("INSERT INTO a VALUES (301, 'again')");
caught_up('s');

# --- the upstream is down
up("INSERT INTO a SELECT g, 'before the end' FROM generate_series(400, 499) g");
caught_up('s');
$upstream->stop('immediate');
$replica->poll_query_until('postgres', "SELECT last_error ~ 'could not connect|ended|terminat|could not receive' FROM rose.stat_subscription WHERE subname = 's'") or fail('error shown');
my $error_shown = "SELECT last_error IS NOT NULL FROM rose.stat_subscription WHERE subname = 's'";
is($replica->safe_psql('postgres', $error_shown, @joe), 'f', 'but not to everybody');
down('GRANT pg_read_all_stats TO joe');
is($replica->safe_psql('postgres', $error_shown, @joe), 't', 'to those who read all statistics');
is(down('SELECT count(*) FROM a WHERE id >= 400'), 100, 'readable without the upstream');
down("SELECT rose.spill('a')");
down("SELECT rose.merge('a')");
pass('spilled and merged without the upstream');
fails_like("SELECT rose.drop_subscription('s')", qr/cannot drop replication slot "s" of rose subscription "s".*keep_slot => true/s, 'drop without the upstream');
fails_like("SELECT rose.drop_subscription('nix')", qr/rose subscription "nix" does not exist/, 'drop, unknown');
down("BEGIN; SELECT rose.drop_subscription('s', keep_slot => true); ROLLBACK");
is(down("SELECT count(*) FROM rose.stat_subscription WHERE subname = 's'"), 1, 'a drop that is rolled back');
down("SELECT rose.drop_subscription('s', keep_slot => true)");
is(down("SELECT string_agg(subname, ',') FROM rose.stat_subscription"), 'o', 'dropped, the slot kept');
is(down("INSERT INTO a VALUES (5000, 'mine now') RETURNING id"), 5000, 'the table is an ordinary one');
$upstream->start;
is(up("SELECT string_agg(slot_name, ',' ORDER BY slot_name) FROM pg_replication_slots"), 'o,s', 'the slot is still there');

# Take it up again, by hand.
down("TRUNCATE a; ALTER TABLE a DROP COLUMN extra");
($rc, $out, $warning) = $replica->psql('postgres', create('s', "ARRAY['pub'], connect => false"));
like($warning, qr/tables were not subscribed.*refresh => true/s, 'connect => false');
down("SELECT rose.alter_subscription('s', enabled => true, refresh => true)");
down("SELECT rose.wait_for_sync('s', $timeout)");
caught_up('s');
is(table_hash($replica, 'a'), table_hash($upstream, 'a'), 'an old slot taken over');

fails_like("BEGIN; SELECT rose.drop_subscription('s')", qr/cannot run inside a transaction block/, 'drop in a transaction block');
down("SELECT rose.drop_subscription('$_')") foreach qw(s o);
is(up('SELECT count(*) FROM pg_replication_slots'), 0, 'no slot is left');
is(down('SELECT count(*) FROM rose.subscription_rel'), 0, 'and no row');

$replica->stop;
$upstream->stop;
done_testing();
