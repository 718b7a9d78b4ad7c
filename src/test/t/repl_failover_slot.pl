# Slots that standbys of the upstream take along: made so, changed, found by hand; a standby is promoted, and replication goes on
# with its slot. What upstreams before 17 say of it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseProxy;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has subscriptions of core' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my ($upstream, $replica) = upstream_and_replica();
my $conninfo = $upstream->connstr('postgres');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub says { my ($sql, $pattern, $name) = @_; return like(error_of($replica, "\\set VERBOSITY verbose\n$sql"), $pattern, $name) }
sub slot_is { my ($expected, $name) = @_; return is(up(q{SELECT coalesce((SELECT failover::text FROM pg_replication_slots WHERE slot_name = 's'), 'none')}) . down(q{SELECT ' ' || failover FROM rose.stat_subscription}), $expected, $name) }
sub last_error_is { my ($pattern, $name) = @_; return ok($replica->poll_query_until('postgres', "SELECT coalesce(last_error ~ '$pattern' AND state = 'error', false) FROM rose.stat_subscription WHERE subname = 's'"), $name) || diag(down('SELECT state, last_error FROM rose.stat_subscription')) }
sub create { my (@more) = @_; return "SELECT rose.create_subscription('s', \$\$$conninfo\$\$, " . join(', ', "'{p}'", @more) . ')' }

up(q{CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (0, 'first'); CREATE PUBLICATION p FOR TABLE t});
down('CREATE TABLE t (id int PRIMARY KEY, v text) USING rose');

# ---- in dumps, of any release ----
down(q{CREATE SERVER s FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', failover 'true')});
is(down('SELECT failover FROM rose.stat_subscription'), 't', 'a dump may have it');
my ($dump) = run_command([ 'pg_dump', '-s', $replica->connstr('postgres') ]);
like($dump, qr/CREATE SERVER s FOREIGN DATA WRAPPER rose_subscription OPTIONS \([^)]*failover 'true'[^)]*\)/s, '... and has it');
down(q{SELECT rose.drop_subscription('s', keep_slot => true)});
says("CREATE SERVER x FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', failover 'some')", qr/ERROR:  .*failover requires a Boolean value/, 'another value');

if (up('SHOW server_version_num') < 170000)
{
	my $upstream_is_old = qr/ERROR:  0A000: rose subscription "s" cannot have failover with an upstream of PostgreSQL 1[56]\..*DETAIL:  .*since PostgreSQL 17.*HINT:  Upgrade the upstream/s;

	says(create('failover => true'), $upstream_is_old, 'an old upstream cannot do it');
	is(up('SELECT count(*) FROM pg_replication_slots') + down('SELECT count(*) FROM rose.subscription'), 0, '... and nothing is left');
	subscribe($upstream, $replica, undef, 'failover => false');
	says(q{SELECT rose.alter_subscription('s', failover => true)}, $upstream_is_old, 'nor when it is altered');
	is(down('SELECT failover FROM rose.stat_subscription'), 'f', '... which has changed nothing');
	down(q{SELECT rose.alter_subscription('s', failover => false)});
	up(q{INSERT INTO t VALUES (1, 'goes on')});
	wait_for_apply($upstream, $replica);
	is(down('SELECT count(*) FROM t'), 2, 'it goes on');
	down(q{SELECT rose.drop_subscription('s')});

	# out of a dump, it has led to a later release
	down(q{CREATE SERVER s FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', failover 'true')});
	says("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$, $_ => " . ($_ eq 'accept' ? "'resync'" : 'true') . ')', $upstream_is_old, "nor with $_") foreach qw(refresh accept failover);
	is(down('SELECT conninfo IS NULL FROM rose.subscription'), 't', '... which has changed nothing');
	down("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$, enabled => true)");
	last_error_is('cannot have failover with an upstream of PostgreSQL 1[56]\..*hint: Upgrade the upstream, or give', 'so does the worker see it');
	down(q{SELECT rose.alter_subscription('s', failover => false)});
	ok($replica->poll_query_until('postgres', q{SELECT blocked_reason = 'slot_missing' FROM rose.stat_subscription}), 'without it, it asks for its slot');
	down(q{SELECT rose.drop_subscription('s', keep_slot => true)});
	done_testing();
	exit;
}

# ---- made, changed, found ----
down(create());
slot_is('false false', 'by default it is not');
down("SELECT rose.wait_for_sync('s', $timeout)");
down(q{SELECT rose.alter_subscription('s', failover => true)});
slot_is('true true', 'altered while it runs');
down(q{SELECT rose.alter_subscription('s', enabled => false)});
down(q{SELECT rose.alter_subscription('s', failover => false)});
slot_is('false false', '... and while it is disabled');
says(q{BEGIN; SELECT rose.alter_subscription('s', failover => true); COMMIT}, qr/ERROR:  25001: .*cannot run inside a transaction block/, 'not in a transaction, for it does not roll back');
slot_is('false false', '... which has changed nothing');
down(q{SELECT rose.drop_subscription('s')});
up(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
down('TRUNCATE t');
down(create('create_slot => false', 'failover => true'));
slot_is('true true', 'a slot that was made by hand');
down("SELECT rose.wait_for_sync('s', $timeout)");
down(q{SELECT rose.alter_subscription('s', enabled => false)});
until_slot_is_free($upstream);
up(q{SELECT pg_drop_replication_slot('s')});
down(q{SELECT rose.alter_subscription('s', enabled => true, accept => 'resync')});
slot_is('true true', 'one that is made anew');
down("SELECT rose.wait_for_sync('s', $timeout)");
down(q{SELECT rose.drop_subscription('s')});
down('TRUNCATE t');
down(create('failover => true'));
slot_is('true true', 'made so');
down("SELECT rose.wait_for_sync('s', $timeout)");

# ---- an upstream of before ----
my $proxy = RoseProxy->new($replica->basedir, $upstream->port, $upstream->host, $upstream->port,
	sub { my ($data) = @_; $data =~ s/(server_version\0)\d\d/${1}16/; return $data });
my $through = $conninfo =~ s/host=\S+/host=${\ $replica->basedir}/r;
my $upstream_is_old = qr/ERROR:  0A000: rose subscription "s" cannot have failover with an upstream of PostgreSQL 16\..*DETAIL:  .*since PostgreSQL 17.*HINT:  Upgrade the upstream/s;
says("SELECT rose.alter_subscription('s', conninfo => \$\$$through\$\$, $_)", $upstream_is_old, "it cannot do it: $_") foreach 'refresh => true', q{accept => 'resync'}, q{origin => 'none'}, 'failover => true';
slot_is('true true', '... which has changed nothing');
down("SELECT rose.alter_subscription('s', conninfo => \$\$$through\$\$)");
last_error_is('cannot have failover with an upstream of PostgreSQL 16\..*hint: Upgrade the upstream, or give', 'the worker looks, too');
down("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$)");
$proxy->end;

# ---- one of an ordinary role, and one that is not taken along ----
up(q{CREATE ROLE rep LOGIN REPLICATION PASSWORD 'open sesame'; GRANT SELECT ON t TO rep});
my $hba = $upstream->data_dir . '/pg_hba.conf';
my $rules = slurp_file($hba);
unlink $hba;
append_to_file($hba, "local all rep scram-sha-256\n$rules");
$upstream->reload;
down('CREATE ROLE alice LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER rose_subscription TO alice; CREATE SCHEMA a AUTHORIZATION alice; CREATE SCHEMA b; SET ROLE alice; CREATE TABLE a.t (id int PRIMARY KEY, v text) USING rose');
down('CREATE TABLE b.t (id int PRIMARY KEY, v text) USING rose');
sub hers { my ($node) = @_; return $node->connstr('postgres') . " user=rep password='open sesame'" }
sub alice { my ($sql) = @_; my ($out, $err); $replica->psql('postgres', "\\set VERBOSITY verbose\n$sql", extra_params => [ '-U', 'alice' ], stdout => \$out, stderr => \$err); return $out . $err }
is(alice("SELECT rose.create_subscription('hers', \$\$" . hers($upstream) . "\$\$, '{p}', tables => '{\"public.t\": \"a.t\"}', failover => true, origin => 'none')"), '', 'an ordinary role may have such a one');
down("SELECT rose.create_subscription('left', \$\$$conninfo\$\$, '{p}', tables => '{\"public.t\": \"b.t\"}')");
down("SELECT rose.wait_for_sync('$_', $timeout)") foreach qw(hers left);
my $slots = q{SELECT string_agg(slot_name || ' ' || failover, ', ' ORDER BY slot_name) FROM pg_replication_slots WHERE slot_type = 'logical'};
is(up($slots), 'hers true, left false, s true', 'each has its own');
is(alice("SELECT rose.alter_subscription('hers', failover => false)"), '', 'she may alter it');
is(up($slots), 'hers false, left false, s true', '... and nothing else');
is(alice("SELECT rose.alter_subscription('hers', failover => true)"), '', '... and back');
like(alice("SELECT rose.alter_subscription('left', failover => true)"), qr/ERROR:  42501/, 'but not those of others');
is(up($slots), 'hers true, left false, s true', '... which has changed nothing');

# ---- a standby is promoted ----
$upstream->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($upstream, 'b', has_streaming => 1);
up(q{SELECT pg_create_physical_replication_slot('standby')});
$standby->append_conf('postgresql.conf', "sync_replication_slots = on\nhot_standby_feedback = on\nprimary_slot_name = 'standby'\nprimary_conninfo = '" . ($conninfo =~ s/'/''/gr) . "'\n");
$standby->start;
up(q{INSERT INTO t SELECT g, 'before' FROM generate_series(1, 100) g});
wait_for_apply($upstream, $replica);
$standby->poll_query_until('postgres', q{SELECT count(*) = 2 FROM pg_replication_slots WHERE slot_name IN ('s', 'hers') AND synced AND failover AND NOT temporary}) or die 'the slot does not come';
up(q{INSERT INTO t SELECT g, 'later' FROM generate_series(101, 200) g; UPDATE t SET v = v || '!' WHERE id % 3 = 0});
wait_for_apply($upstream, $replica, undef, $_) foreach qw(s hers left);
$upstream->wait_for_catchup($standby);
$upstream->stop('fast');
$standby->promote;
down('SELECT rose.alter_subscription(\'s\', conninfo => $$' . $standby->connstr('postgres') . '$$)');
$standby->safe_psql('postgres', q{INSERT INTO t SELECT g, 'promoted' FROM generate_series(201, 300) g; DELETE FROM t WHERE id % 7 = 0});
wait_for_apply($standby, $replica);
is(table_hash($replica, 't'), table_hash($standby, 't'), 'all of it is here, from the standby that was promoted');
is(down('SELECT count(*), (SELECT state FROM rose.stat_subscription WHERE subname = \'s\') FROM t'), '258|streaming', '... and it goes on');
down(q{SELECT rose.drop_subscription('s')});
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 's'}), 0, 'the slot goes with the subscription');

is(alice('SELECT rose.alter_subscription(\'hers\', conninfo => $$' . hers($standby) . '$$)'), '', 'the one of an ordinary role');
wait_for_apply($standby, $replica, undef, 'hers');
is(table_hash($replica, 'a.t'), table_hash($standby, 't'), '... goes on, too');
down('SELECT rose.alter_subscription(\'left\', conninfo => $$' . $standby->connstr('postgres') . '$$)');
ok($replica->poll_query_until('postgres', q{SELECT blocked_reason = 'slot_missing' FROM rose.stat_subscription WHERE subname = 'left'}), 'the one that was not taken along has lost its slot, and says so');
is(alice("SELECT rose.drop_subscription('hers')"), '', 'dropped');
down(q{SELECT rose.drop_subscription('left', keep_slot => true)});

done_testing();
