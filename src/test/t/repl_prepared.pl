# Transactions of the upstream that are prepared: nothing of them is here until they are committed, and all of it then,
# whatever happens in between on either side.  Slots that would have them sent before are refused.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

# confirmed only when an epoch or the upstream asks for it, so that a worker that ends has to ask for its last transaction again
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'max_prepared_transactions = 40', 'autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.memtable_size = '4MB'", 'wal_receiver_status_interval = 0', 'autovacuum = off');
my @tables = qw(t q nokey other);

sub slot { return up("SELECT $_[0] FROM pg_replication_slots WHERE slot_name = 's'") }

prepared_tables($upstream, $replica);

# ---- a slot that has them sent when they are prepared ----
my $conninfo = $upstream->connstr('postgres');
my $create = "SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p'], create_slot => false)";
up("SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)");
like(error_of($replica, $create), qr/slot "s" was made with two_phase/, 'a slot with two_phase is refused');
is(down('SELECT count(*) FROM rose.subscription'), 0, 'there is no subscription');
up("SELECT pg_drop_replication_slot('s'); SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
down($create);
down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
up("BEGIN; " . changes(1, 100) . "; COMMIT");
equal('a slot without');

down("SELECT rose.alter_subscription('s', enabled => false)");
until_down('SELECT pid IS NULL FROM rose.stat_subscription');
until_slot_is_free($upstream);
up("SELECT pg_drop_replication_slot('s'); SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)");
prepare('early', changes(1000, 100));
down("SELECT rose.alter_subscription('s', enabled => true)");
until_down("SELECT state = 'blocked' FROM rose.stat_subscription");
is(down('SELECT blocked_reason FROM rose.stat_subscription'), 'slot_two_phase', 'it is seen when it is used');
like(down('SELECT last_error FROM rose.stat_subscription'), qr/hint: .*accept => 'resync'/s, 'it says what to do');
is(hashes($replica, @tables), hashes($upstream, @tables), 'nothing of what is prepared is here');
up("COMMIT PREPARED 'early'");
down("SELECT rose.alter_subscription('s', accept => 'resync')");
streams();
down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
is(slot('two_phase'), 'f', 'another slot was made');
equal('copied anew');

prepared_rounds();
prepared_meanwhile();

is(down("SELECT string_agg(relid::regclass || ' ' || state, ', ' ORDER BY relid) FROM rose.stat_subscription_tables"), 't ready, q ready, nokey ready, other ready, late ready', 'all are ready');
done_testing();
