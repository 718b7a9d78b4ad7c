# two_phase, and an upstream of another history (an older copy of its files), before that is found out by a commit: what is prepared there, or rolled back, changes nothing of
# what is kept, nor of what is known of transactions that another consumer had got. And one that answers nonsense when it is asked for those.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RosePrepared;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has workers of its own' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node('max_prepared_transactions = 40', 'autovacuum = off', "checkpoint_timeout = '1h'");
plan skip_all => 'the upstream is too old' if $upstream->pg_version < 15;
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off', "rose.spill_interval = '1s'", "wal_receiver_status_interval = '1s'", 'restart_after_crash = on');

sub copy_directory { my ($from, $to) = @_; system_or_bail('rm', '-rf', $to); system_or_bail('cp', '-a', $from, $to); return }

prepared_tables($upstream, $replica);
up('CREATE TABLE filler (v text)');
subscribe($upstream, $replica, undef, 'two_phase => true');
streams();
my $there;

# What is $what in another history is its first message behind the last commit that was applied.
sub another_history
{
	my ($what, $n) = @_;

	prepare("x$n", changes($n + 1000, 30));
	prepare("v$n", changes($n + 30000, 30));
	up("INSERT INTO other VALUES ($n + 1, 'before')");
	equal("$what: both sides the same");
	$upstream->stop;
	copy_directory($upstream->data_dir, $upstream->basedir . '/old');
	$upstream->start;
	streams();
	up("INSERT INTO other VALUES ($n + 2, 'not in the other history')");
	equal("$what: on the true one");
	down(q{SELECT rose.spill('other')});
	down("SELECT rose.alter_subscription('s', enabled => false)");
	until_down('SELECT pid IS NULL FROM rose.stat_subscription');
	my $position = down('SELECT durable_lsn FROM rose.stat_subscription');
	$upstream->stop;
	copy_directory($upstream->data_dir, $upstream->basedir . '/true');
	copy_directory($upstream->basedir . '/old', $upstream->data_dir);
	$upstream->start;
	# beyond our position, with nothing that is sent
	up("INSERT INTO filler SELECT repeat(md5(g::text), 10) FROM generate_series(1, 5000) g") while up("SELECT pg_current_wal_flush_lsn() < '$position'::pg_lsn + 100000") eq 't';
	$what eq 'rolled back' ? up("ROLLBACK PREPARED 'x$n'") : prepare("w$n", changes($n + 90000, 20));
	up("INSERT INTO filler SELECT repeat(md5(g::text), 10) FROM generate_series(1, 20000) g") foreach 1 .. 12;
	$there = up('SELECT pg_current_wal_flush_lsn()');
	down("SELECT rose.alter_subscription('s', enabled => true)");
	until_down("SELECT blocked_reason = 'rewritten' FROM rose.stat_subscription");
	pass("$what: it is blocked");
	is(down(q{SELECT string_agg(gid, ' ' ORDER BY gid) FROM rose.stat_subscription_prepared}), "v$n x$n", "$what: what is kept is what was kept");
	is(down("SELECT applied_lsn <= '$position' FROM rose.stat_subscription"), 't', "$what: the position has not moved");

	# the true one is back
	$upstream->stop;
	copy_directory($upstream->basedir . '/true', $upstream->data_dir);
	$upstream->start;
	up("INSERT INTO other VALUES ($n + 3, 'while the wrong one was followed')");
	up("COMMIT PREPARED 'v$n'");
	up("INSERT INTO filler SELECT repeat(md5(g::text), 10) FROM generate_series(1, 5000) g") while up("SELECT pg_current_wal_flush_lsn() < '$there'::pg_lsn") eq 't';
	down("SELECT rose.alter_subscription('s', enabled => true)");
	streams();
	up("COMMIT PREPARED 'x$n'");
	up("INSERT INTO other VALUES ($n + 4, 'at the end')");
	equal("$what: nothing is lost");
	return;
}

another_history('rolled back', 0);
another_history('prepared', 100000);

# ---- what was noted as somebody else's ----
down("SELECT rose.drop_subscription('s')");
up(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)});
prepare('lost', "INSERT INTO t VALUES (1000000, 1, 'x')");
up("INSERT INTO other VALUES (900100, 'y')");
up(q{SELECT count(*) FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '3', 'publication_names', 'p', 'two_phase', 'on')});
down(sprintf q{SELECT rose.create_subscription('s', $$%s$$, '{p}', create_slot => false, copy_data => false, two_phase => true)}, $upstream->connstr('postgres'));
streams();
up("INSERT INTO other VALUES (900101, 'y')");
wait_for_apply($upstream, $replica);
down(q{SELECT rose.spill('other')});
$upstream->stop;
copy_directory($upstream->data_dir, $upstream->basedir . '/old');
$upstream->start;
streams();
up("INSERT INTO other VALUES (900102, 'not in the other history')");
wait_for_apply($upstream, $replica);
down(q{SELECT rose.spill('other')});
down("SELECT rose.alter_subscription('s', enabled => false)");
until_down('SELECT pid IS NULL FROM rose.stat_subscription');
$upstream->stop;
copy_directory($upstream->data_dir, $upstream->basedir . '/true');
copy_directory($upstream->basedir . '/old', $upstream->data_dir);
$upstream->start;
up("ROLLBACK PREPARED 'lost'; INSERT INTO filler SELECT repeat(md5(g::text), 10) FROM generate_series(1, 5000) g");
$there = up('SELECT pg_current_wal_flush_lsn()');
down("SELECT rose.alter_subscription('s', enabled => true)");
until_down("SELECT blocked_reason = 'rewritten' FROM rose.stat_subscription");
$upstream->stop;
copy_directory($upstream->basedir . '/true', $upstream->data_dir);
$upstream->start;
up("INSERT INTO filler SELECT repeat(md5(g::text), 10) FROM generate_series(1, 5000) g") while up("SELECT pg_current_wal_flush_lsn() < '$there'::pg_lsn") eq 't';
down("SELECT rose.alter_subscription('s', enabled => true)");
streams();
up("INSERT INTO other VALUES (900103, 'y')");
wait_for_apply($upstream, $replica);
down(q{SELECT rose.spill('other')});
sleep 4;
up("INSERT INTO other VALUES (900104, 'y')");
wait_for_apply($upstream, $replica);
down(q{SELECT rose.spill('other')});
sleep 3;
up("COMMIT PREPARED 'lost'; INSERT INTO other VALUES (900105, 'y')");
until_down(q{SELECT state = 'blocked' OR EXISTS (SELECT FROM other WHERE id = 900105) FROM rose.stat_subscription});
is(down(q{SELECT state || coalesce(' ' || blocked_reason, '') FROM rose.stat_subscription}), 'blocked slot_two_phase', 'it is told that a transaction is missing');

# ---- an upstream that does not mean well ----
down("SELECT rose.drop_subscription('s')");
up("CREATE ROLE rep LOGIN REPLICATION PASSWORD 'sesame'; GRANT ALL ON ALL TABLES IN SCHEMA public TO rep");
my $hba = $upstream->data_dir . '/pg_hba.conf'; my $rules = slurp_file($hba); unlink $hba; append_to_file($hba, "local all rep scram-sha-256\n$rules"); $upstream->reload;
my $c = $upstream->connstr("postgres") . " user=rep password='sesame'";
down("CREATE ROLE alice LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER rose_subscription TO alice; GRANT CREATE ON SCHEMA public TO alice");
down("ALTER TABLE $_ OWNER TO alice") foreach qw(t q nokey other late);
up("SET allow_system_table_mods = on; CREATE OR REPLACE VIEW pg_catalog.pg_prepared_xacts AS SELECT '800'::xid AS transaction, NULL::text AS gid, now() AS prepared, 'x'::name AS owner, current_database() AS database; GRANT SELECT ON pg_prepared_xacts TO PUBLIC");
up(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)});
my (undef, undef, $err) = $replica->psql('postgres', "SELECT rose.create_subscription('s', \$\$$c\$\$, '{p}', create_slot => false, two_phase => true)", extra_params => ['-U', 'alice']);
like($err, qr/unexpected answer of the upstream to the question which transactions are prepared/, 'it is an error');
unlike(slurp_file($replica->logfile), qr/was terminated by signal/, 'no crash');

done_testing();
