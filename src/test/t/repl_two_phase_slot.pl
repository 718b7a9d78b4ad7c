# Slots with two_phase that are taken over, or were ours all along, beside transactions that have only locked rows: nothing is missed, and nothing blocks.  And what is kept
# is found: by gids that are longer here than upstream, and when its table has got another index.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 40', 'autovacuum = off');
plan skip_all => 'the upstream is too old' if $upstream->pg_version < 15;
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "wal_receiver_status_interval = '1s'", 'autovacuum = off');
my $timeout = $PostgreSQL::Test::Utils::timeout_default;

prepared_tables($upstream, $replica);
stop_points_create($replica);
up("INSERT INTO t SELECT g, g, 'x' FROM generate_series(1, 1000) g");
up('CREATE TABLE added (id int PRIMARY KEY)');
down('CREATE TABLE added (id int PRIMARY KEY) USING rose');

sub lock_rows
{
	my ($gid) = @_;

	prepare($gid, 'SELECT count(*) FROM (SELECT * FROM t WHERE id < 10 FOR UPDATE) x');
	up("COMMIT PREPARED '$gid'");
	return;
}

sub drop_all
{
	down("SELECT rose.drop_subscription('s')");
	until_slot_is_free($upstream);
	up(q{SELECT pg_drop_replication_slot('s') FROM pg_replication_slots WHERE slot_name = 's'});
	down('TRUNCATE t, q, nokey, other');
	return;
}

# The stream begins when the tables have been copied, and more was committed.
sub hold_stream_back
{
	my ($do) = @_;
	my $control = RoseTest::Session->new($replica);

	$control->run("SELECT stop_at('stream-begins', 'wait')");
	$do->();
	wait_for_stop($replica);
	lock_rows("held$_") foreach 1 .. 3;
	$control->run("SELECT stop_clear(), go_on('stream-begins')");
	$control->end;
	return;
}

# ---- ours, accepted anew ----
subscribe($upstream, $replica, undef, 'two_phase => true');
streams();
equal('begun');
down("SELECT rose.alter_subscription('s', enabled => false)");
until_down('SELECT pid IS NULL FROM rose.stat_subscription');
lock_rows('before');
prepare('pending', changes(1000000, 30));
down("SELECT rose.alter_subscription('s', accept => 'resync')");
is(down(q{SELECT string_agg(gid, ' ') FROM rose.subscription_prepared WHERE number > 0}), 'pending', 'what has come already is noted');
lock_rows('accepted');
up("COMMIT PREPARED 'pending'");
hold_stream_back(sub { down("SELECT rose.alter_subscription('s', enabled => true)") });
streams();
down("SELECT rose.wait_for_sync('s', $timeout)");
up("INSERT INTO other VALUES (1, 'y')");
equal('accepted beside transactions that lock rows');
down(q{SELECT rose.spill('other')});
until_down('SELECT count(*) = 0 FROM rose.subscription_prepared WHERE number > 0');
pass('and nothing of them is left');

# ---- made by hand, and all is copied ----
drop_all();
up(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)});
lock_rows('first');
hold_stream_back(sub { down(sprintf q{SELECT rose.create_subscription('s', $$%s$$, '{p}', create_slot => false, two_phase => true)}, $upstream->connstr('postgres')) });
streams();
down("SELECT rose.wait_for_sync('s', $timeout)");
up("INSERT INTO other VALUES (2, 'y')");
equal('a slot that was made by hand');

# ---- made by us, and nothing is copied ----
drop_all();
down('INSERT INTO t SELECT g, g, $$x$$ FROM generate_series(1, 1000) g');
up('TRUNCATE t, q, nokey, other');
up("INSERT INTO t SELECT g, g, 'x' FROM generate_series(1, 1000) g");
hold_stream_back(sub { subscribe($upstream, $replica, undef, 'two_phase => true', 'copy_data => false') });
streams();
up("INSERT INTO other VALUES (3, 'y')");
equal('a new slot without a copy');


# ---- somebody else has got a transaction of a table that comes later, without a copy ----
drop_all();
up(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)});
prepare('elsewhere', 'INSERT INTO added VALUES (1)');
up("INSERT INTO other VALUES (4, 'y')");
up(q{SELECT count(*) FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '3', 'publication_names', 'p', 'two_phase', 'on')});
down(sprintf q{SELECT rose.create_subscription('s', $$%s$$, '{p}', create_slot => false, enabled => false, two_phase => true)}, $upstream->connstr('postgres'));
up('ALTER PUBLICATION p ADD TABLE added');
down("SELECT rose.alter_subscription('s', refresh => true, copy_data => false)");
up("COMMIT PREPARED 'elsewhere'");
down("SELECT rose.alter_subscription('s', enabled => true)");
until_down("SELECT blocked_reason = 'slot_two_phase' FROM rose.stat_subscription");
pass('what that lacks is told');
down("SELECT rose.alter_subscription('s', accept => 'resync')");
streams();
down("SELECT rose.wait_for_sync('s', $timeout)");
equal('accepted', 'added', 't');

# ---- by a refresh, as the notice of CREATE SUBSCRIPTION without a connection says ----
drop_all();
up(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)});
down(sprintf q{SELECT rose.create_subscription('s', $$%s$$, '{p}', connect => false, two_phase => true)}, $upstream->connstr('postgres'));
down('TRUNCATE added');
my $control = RoseTest::Session->new($replica);
$control->run("SELECT stop_at('stream-begins', 'wait')");
down(q{SELECT rose.alter_subscription('s', enabled => true, refresh => true)});
wait_for_stop($replica);
lock_rows('refreshed');
$control->run("SELECT stop_clear(), go_on('stream-begins')");
$control->end;
streams();
equal('refreshed', 't');

# ---- another index ----
down('CREATE INDEX mine ON rose.subscription_prepared (gid); CREATE UNIQUE INDEX turned ON rose.subscription_prepared (subid, xid, number DESC)');
like(error_of($replica, "CREATE INDEX ON rose.$_"), qr/cannot create an index with an expression or a WHERE clause/, "not $_")
  foreach 'subscription_prepared (gid) WHERE number > 3', 'subscription_rel ((relid::int8))';
down('REINDEX INDEX CONCURRENTLY rose.subscription_prepared_pkey');
prepare('indexed', changes(2000000, 30));
up("INSERT INTO other VALUES (5, 'y')");
equal('with another index');
up("COMMIT PREPARED 'indexed'");
equal('with another index, committed');
drop_all();

# ---- a gid that is longer here ----
sub up1 { return $upstream->safe_psql('l1', "SET client_encoding = 'UTF8'; $_[0]") }
sub down1 { return $replica->safe_psql('l1', $_[0]) }
my $gid = "\xc3\xa9" x 199;

up("CREATE DATABASE l1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
down("CREATE DATABASE l1 ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0");
up1('CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE t');
up1(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)});
down1('CREATE EXTENSION rose');
down1('CREATE TABLE t (id int PRIMARY KEY, v text) USING rose');
up1("BEGIN; INSERT INTO t VALUES (1, 'x'); PREPARE TRANSACTION '$gid'");
up1("INSERT INTO t VALUES (2, 'y')");
up1(q{SELECT count(*) FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '3', 'publication_names', 'p', 'two_phase', 'on')});
down1(sprintf q{SELECT rose.create_subscription('s', $$%s$$, '{p}', create_slot => false, copy_data => false, two_phase => true)}, $upstream->connstr('l1'));
$replica->poll_query_until('l1', "SELECT state = 'streaming' FROM rose.stat_subscription") or die 'does not stream';
up1('INSERT INTO t VALUES (30)');
up1("COMMIT PREPARED '$gid'");
up1('INSERT INTO t VALUES (3)');
ok($replica->poll_query_until('l1', "SELECT blocked_reason = 'slot_two_phase' FROM rose.stat_subscription"), 'a long gid: what somebody else has got blocks');
down1("SELECT rose.alter_subscription('s', accept => 'resync'); SELECT rose.wait_for_sync('s', $timeout)");
$replica->poll_query_until('l1', "SELECT state = 'streaming' FROM rose.stat_subscription") or die 'does not stream';
up1("BEGIN; INSERT INTO t VALUES (4, 'x'); PREPARE TRANSACTION '$gid'");
up1('INSERT INTO t VALUES (5)');
$replica->poll_query_until('l1', 'SELECT count(*) = 5 FROM t') or die 'is not applied';
is(down1('SELECT length(gid) || $$ $$ || octet_length(gid) FROM rose.stat_subscription_prepared'), '99 198', 'a long gid: whole characters are kept');
up1("COMMIT PREPARED '$gid'");
ok($replica->poll_query_until('l1', 'SELECT count(*) = 6 FROM t'), 'a long gid: committed');
done_testing();
