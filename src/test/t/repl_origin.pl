# Subscriptions with origin => 'none' get what was written on the upstream itself, and nothing that has come there from elsewhere:
# two upstreams that follow each other, sessions with an origin, large transactions, changes of the option. What releases before
# 16, here and upstream, say of it.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseProxy;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has subscriptions of core' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node("logical_decoding_work_mem = '64kB'", 'autovacuum = off', "wal_retrieve_retry_interval = '100ms'");
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", 'rose.max_subscriptions = 6', 'max_worker_processes = 30', 'autovacuum = off');
my $conninfo = $upstream->connstr('postgres');
my ($fake, $is) = (17, 15);
my $knows = $upstream->safe_psql('postgres', 'SHOW server_version_num') >= 160000;

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub says { my ($sql, $pattern, $name) = @_; return like(error_of($replica, "\\set VERBOSITY verbose\n$sql"), $pattern, $name) }
sub create { my ($name, @more) = @_; return "SELECT rose.create_subscription('$name', \$\$$conninfo\$\$, " . join(', ', @more) . ')' }
sub last_error_is
{
	my ($sub, $pattern, $name) = @_;

	ok($replica->poll_query_until('postgres', "SELECT coalesce(last_error ~ '$pattern' AND state = 'error', false) FROM rose.stat_subscription WHERE subname = '$sub'"), $name)
	  or diag(down('SELECT subname, state, last_error FROM rose.stat_subscription'));
	return;
}

# An upstream that says that it is of another release.
($fake, $is) = (15, '\d\d') if $knows;
my $proxy = RoseProxy->new($replica->basedir, $upstream->port, $upstream->host, $upstream->port,
	sub { my ($data) = @_; $data =~ s/(server_version\0)$is/$1$fake/; return $data });
my $through = $conninfo =~ s/host=\S+/host=${\ $replica->basedir}/r;

my $table = 'CREATE TABLE t (id int PRIMARY KEY, v text)';
up("$table; CREATE PUBLICATION p FOR TABLE t");
down("$table USING rose");

says(create('s', "'{p}'", "origin => 'some'"), qr/ERROR:  22023: invalid value for origin: "some".*Valid values are "any" and "none"/s, 'another value');
says("CREATE SERVER x FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', origin 'some')", qr/ERROR:  22023: invalid value for origin: "some"/, '... of the server');
my $upstream_is_old = qr/ERROR:  0A000: rose subscription "s" cannot have origin "none" with an upstream of PostgreSQL 15\..*DETAIL:  Upstreams leave out .*since PostgreSQL 16.*HINT:  Upgrade the upstream/s;

if (!$knows)
{
	my $here_is_old = qr/ERROR:  0A000: rose subscription "s" cannot have origin "none" on PostgreSQL 15.*DETAIL:  .*since 16.*HINT:  Use rose on PostgreSQL 16 or later/s;

	says(create('s', "'{p}'", "origin => 'none'"), $here_is_old, 'this release cannot ask for it');
	is(up('SELECT count(*) FROM pg_replication_slots') + down('SELECT count(*) FROM rose.subscription'), 0, '... and nothing is left');
	subscribe($upstream, $replica, undef, q{origin => 'any'});
	is(down('SELECT origin FROM rose.stat_subscription'), 'any', 'all is what there is');
	says(q{SELECT rose.alter_subscription('s', origin => 'none')}, $here_is_old, 'nor when it is altered');
	up(q{INSERT INTO t VALUES (1, 'a')});
	wait_for_apply($upstream, $replica);
	is(down('SELECT count(*) FROM t'), 1, 'it goes on');
	down(q{SELECT rose.drop_subscription('s')});

	# out of a dump of a later release
	down(q{CREATE SERVER s FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', origin 'none')});
	is(down('SELECT origin FROM rose.stat_subscription'), 'none', 'a dump may have it');
	says("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$, refresh => true)", $upstream_is_old, 'the upstream cannot do it');
	says("SELECT rose.alter_subscription('s', conninfo => \$\$$through\$\$, refresh => true)", $here_is_old, 'with one that could, this release cannot');
	down("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$, enabled => true)");
	last_error_is('s', 'with an upstream of PostgreSQL 15.*Upgrade the upstream', 'so does the worker see it');
	down("SELECT rose.alter_subscription('s', conninfo => \$\$$through\$\$)");
	last_error_is('s', 'cannot have origin "none" on PostgreSQL 15', '... with either');
	down(q{SELECT rose.alter_subscription('s', origin => 'any', enabled => false)});
	is(down('SELECT origin FROM rose.stat_subscription'), 'any', 'it can be had otherwise');
	down(q{SELECT rose.drop_subscription('s', keep_slot => true)});
	$proxy->end;
	done_testing();
	exit;
}

# ---- an upstream of before ----
my $old = create('s', "'{p}'", "origin => 'none'") =~ s/\Q$conninfo\E/$through/r;
says($old, $upstream_is_old, 'an old upstream cannot do it');
is(up('SELECT count(*) FROM pg_replication_slots') + down('SELECT count(*) FROM rose.subscription'), 0, '... and nothing is left');
down($old =~ s/'none'/'any'/r);
down("SELECT rose.wait_for_sync('s', $timeout)");
says(q{SELECT rose.alter_subscription('s', origin => 'none')}, $upstream_is_old, 'nor when it is altered');
is(down('SELECT origin FROM rose.stat_subscription'), 'any', '... which has changed nothing');
down("SELECT rose.alter_subscription('s', origin => 'none', conninfo => \$\$$conninfo\$\$)");
down("SELECT rose.alter_subscription('s', conninfo => \$\$$through\$\$)");
last_error_is('s', 'with an upstream of PostgreSQL 15.*Upgrade the upstream', 'the worker looks, too');
down("SELECT rose.alter_subscription('s', conninfo => \$\$$conninfo\$\$)");
$proxy->end;

# ---- by sessions with an origin ----
my $origin = q{SELECT pg_replication_origin_session_setup('elsewhere');};
my $rows = q{INSERT INTO t SELECT g, repeat(md5(g::text), 4) FROM generate_series(%s) g};
sub rows_are
{
	my ($expected, $name) = @_;

	wait_for_apply($upstream, $replica);
	is(down('SELECT coalesce(array_agg(id ORDER BY id), $${}$$) FROM (SELECT id FROM t WHERE id < 100 OR id % 1000 = 0) t'), $expected, $name) or diag(down('SELECT state, blocked_reason, last_error FROM rose.stat_subscription'));
	return;
}
up(q{SELECT pg_replication_origin_create('elsewhere')});
up(q{INSERT INTO t VALUES (1, 'a')});
up("$origin INSERT INTO t VALUES (2, 'b')");
rows_are('{1}', 'what has an origin does not come');
up("$origin INSERT INTO t VALUES (3, 'c'); UPDATE t SET v = 'other' WHERE id = 1");
up(q{INSERT INTO t VALUES (4, 'd')});
rows_are('{1,4}', 'nor what comes with it');
is(down('SELECT v FROM t WHERE id = 1'), 'a', '... nor updates');
up("$origin " . sprintf $rows, '1000, 6000');
up(sprintf $rows, '7000, 12000');
rows_are('{1,4,7000,8000,9000,10000,11000,12000}', 'nor large transactions, though others do, in parts');
cmp_ok(down('SELECT streamed_transactions FROM rose.stat_subscription'), '>', 0, '... as they should');

# ---- changes of the option, after which the last transaction that was applied is not sent any more ----
up('DELETE FROM t WHERE id > 4');
down(q{SELECT rose.alter_subscription('s', origin => 'any')});
up("$origin INSERT INTO t VALUES (5, 'e')");
rows_are('{1,4,5}', 'any: it comes');
down(q{SELECT rose.alter_subscription('s', enabled => false)});
until_slot_is_free($upstream);
$upstream->stop('immediate');		# it has forgotten what it was told since the last checkpoint
$upstream->start;
down(q{SELECT rose.alter_subscription('s', enabled => true, origin => 'none')});
up(q{INSERT INTO t VALUES (6, 'f')});
up("$origin INSERT INTO t VALUES (7, 'g')");
rows_are('{1,4,5,6}', 'none again, and the upstream is not taken for another one');
is(down('SELECT origin, (SELECT origin FROM rose.subscription_options) FROM rose.stat_subscription'), 'none|none', 'it is shown');

# ---- in dumps ----
my ($dump) = run_command([ 'pg_dump', '-s', $replica->connstr('postgres') ]);
like($dump, qr/CREATE SERVER s FOREIGN DATA WRAPPER rose_subscription OPTIONS \([^)]*origin 'none'[^)]*\)/s, 'a dump has it');
$replica->safe_psql('postgres', 'CREATE DATABASE other');
rose_create($replica, 'other');
is($replica->safe_psql('other', q{CREATE SERVER s FOREIGN DATA WRAPPER rose_subscription OPTIONS (publications '{p}', origin 'none'); SELECT origin FROM rose.stat_subscription}), 'none', '... and it comes out of one');
$replica->safe_psql('other', q{SELECT rose.drop_subscription('s', keep_slot => true)});
down(q{SELECT rose.drop_subscription('s')});

# ---- two upstreams that follow each other; each row comes to the replica once, from where it was written ----
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init(allows_streaming => 'logical');
$second->append_conf('postgresql.conf', "wal_retrieve_retry_interval = '100ms'\n");
$second->start;
up('TRUNCATE t; INSERT INTO t VALUES (0, $$first$$)');
$second->safe_psql('postgres', "$table; CREATE PUBLICATION p FOR TABLE t");
$second->safe_psql('postgres', "CREATE SUBSCRIPTION from_first CONNECTION \$\$$conninfo\$\$ PUBLICATION p WITH (origin = none)");
$second->wait_for_subscription_sync($upstream, 'from_first');
up('CREATE SUBSCRIPTION from_second CONNECTION $$' . $second->connstr('postgres') . q{$$ PUBLICATION p WITH (origin = none, copy_data = false)});
down('TRUNCATE t; CREATE SCHEMA b; CREATE TABLE b.t (LIKE t INCLUDING ALL) USING rose; CREATE SCHEMA c; CREATE TABLE c.t (LIKE t INCLUDING ALL) USING rose');

my $warning = qr/WARNING:  .*tables are copied with rows that may have an origin, though rose subscription "\w" has origin "none".*DETAIL:  On the upstream, other subscriptions write to: public\.t\.\n.*HINT:/s;
says(create('a', "'{p}'", "origin => 'none'"), $warning, 'a copy of a table that is subscribed with upstream warns');
my $other = create('b', "'{p}'", "origin => 'none'", "tables => '{\"public.t\": \"b.t\"}'", 'copy_data => false', "durability => 'local'") =~ s/\Q$conninfo\E/${\ $second->connstr('postgres')}/r;
unlike(error_of($replica, $other), qr/WARNING/, 'none without a copy');
my $all = create('c', "'{p}'", "tables => '{\"public.t\": \"c.t\"}'", "durability => 'local'");
unlike(error_of($replica, $all), qr/WARNING/, 'nor without the option');
down("SELECT rose.wait_for_sync('$_', $timeout)") foreach qw(a c);

up("INSERT INTO t SELECT g, 'first' FROM generate_series(1, 99) g WHERE g % 2 = 1");
$second->safe_psql('postgres', "INSERT INTO t SELECT g, 'second' FROM generate_series(1, 99) g WHERE g % 2 = 0");
$upstream->wait_for_catchup('from_first');
$second->wait_for_catchup('from_second');
up("UPDATE t SET v = v || ' of the first' WHERE id % 5 = 1");
$upstream->wait_for_catchup('from_first');
$second->safe_psql('postgres', "UPDATE t SET v = v || ' of the second' WHERE id % 7 = 1; DELETE FROM t WHERE id = 99");
$second->wait_for_catchup('from_second');
wait_for_apply($upstream, $replica, undef, 'a');
wait_for_apply($second, $replica, undef, 'b');
wait_for_apply($upstream, $replica, undef, 'c');
my $both = up('SELECT string_agg(t::text, $$ $$ ORDER BY id) FROM t');
is($second->safe_psql('postgres', 'SELECT string_agg(t::text, $$ $$ ORDER BY id) FROM t'), $both, 'the upstreams have the same');
is(down('SELECT string_agg(t::text, $$ $$ ORDER BY id) FROM c.t'), $both, 'any: all of it comes from one');
# what each upstream has written itself; an UPDATE has all of its row, so it makes one that has not come
my (%first, %second);
foreach my $id (0 .. 99)
{
	my $then = ($id > 0 && $id % 2 == 0 ? 'second' : 'first') . ($id % 5 == 1 ? ' of the first' : '');

	$first{$id} = $then if $id == 0 || $id % 2 || $id % 5 == 1;
	$second{$id} = $id > 0 && $id % 2 == 0 ? 'second' : undef;
	$second{$id} = "$then of the second" if $id % 7 == 1;
}
delete $second{99};
is(down('SELECT string_agg(id || $$ $$ || v, $$, $$ ORDER BY id) FROM t'), join(', ', map { "$_ $first{$_}" } sort { $a <=> $b } keys %first), 'none: the first has what was written there, and what was copied');
is(down('SELECT string_agg(id || $$ $$ || v, $$, $$ ORDER BY id) FROM b.t'), join(', ', map { "$_ $second{$_}" } grep { defined $second{$_} } sort { $a <=> $b } keys %second), '... and the second what was written there');

# ---- tables that come later, and partitions ----
my $parts = 'CREATE TABLE w (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE w1 PARTITION OF w FOR VALUES FROM (0) TO (9)';
up("$parts; CREATE TABLE alone (id int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE w, alone; ALTER PUBLICATION p SET (publish_via_partition_root)");
$second->safe_psql('postgres', "$parts; CREATE PUBLICATION q FOR TABLE w1");
up('CREATE SUBSCRIPTION from_partition CONNECTION $$' . $second->connstr('postgres') . q{$$ PUBLICATION q WITH (copy_data = false)});
down("$parts USING rose; CREATE TABLE alone (id int PRIMARY KEY) USING rose");
says(q{SELECT rose.alter_subscription('a', refresh => true)}, qr/DETAIL:  On the upstream, other subscriptions write to: public\.w\.\n/, 'a partition that is subscribed with counts, and tables that were copied before do not');
down("SELECT rose.wait_for_sync('a', $timeout)");
says(q{SELECT rose.alter_subscription('a', accept => 'resync')}, qr/DETAIL:  On the upstream, other subscriptions write to: public\.t, public\.w\.\n/, 'all that is copied anew');
down("SELECT rose.wait_for_sync('a', $timeout)");

# ---- one table that is copied again; an upstream that is away; tables of an ordinary role ----
my $resync = q{SELECT rose.alter_subscription('a', resync => '%s')};
sub writes_to { my ($table) = @_; return qr/WARNING:  .*subscription "\w+" has origin "none".*DETAIL:  On the upstream, other subscriptions write to: public\.$table\.\n/s }
says(sprintf($resync, 't'), writes_to('t'), 'a table that is copied again');
says(sprintf($resync, 'w'), writes_to('w'), '... a partitioned one, and no other that still waits');
unlike(error_of($replica, sprintf $resync, 'alone'), qr/WARNING/, '... one that nobody writes to');
unlike(error_of($replica, q{SELECT rose.alter_subscription('c', resync => 'c.t')}), qr/WARNING/, '... of one that takes all');
down("SELECT rose.wait_for_sync('$_', $timeout)") foreach qw(a c);
says("SELECT rose.alter_subscription('a', conninfo => 'host=/nowhere', resync => 't')", qr/WARNING:  08006: table "t" of rose subscription "a" is copied with rows that may have an origin.*DETAIL:  The upstream could not be asked .*: .*could not connect/s, 'an upstream that is away');
is(down(q{SELECT state FROM rose.stat_subscription_tables WHERE relid = 't'::regclass}), 'init', '... the table is copied when it is back');
says("SELECT rose.alter_subscription('a', conninfo => \$\$$conninfo\$\$, resync => 't')", writes_to('t'), '... as it is');
down("SELECT rose.wait_for_sync('a', $timeout)");

up(q{CREATE ROLE rep LOGIN REPLICATION PASSWORD 'open sesame'; GRANT SELECT ON t, w, alone TO rep});
my $hba = $upstream->data_dir . '/pg_hba.conf';
my $rules = slurp_file($hba);
unlink $hba;
append_to_file($hba, "local all rep scram-sha-256\n$rules");
$upstream->reload;
down("CREATE ROLE alice LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER rose_subscription TO alice; CREATE SCHEMA d AUTHORIZATION alice; SET ROLE alice; CREATE TABLE d.t (id int PRIMARY KEY, v text) USING rose; CREATE TABLE d.w (id int PRIMARY KEY) USING rose; CREATE TABLE d.alone (id int PRIMARY KEY) USING rose");
sub alice { my ($sql) = @_; my ($out, $err); $replica->psql('postgres', "\\set VERBOSITY verbose\n$sql", extra_params => [ '-U', 'alice' ], stdout => \$out, stderr => \$err); return $out . $err }
like(alice("SELECT rose.create_subscription('d', \$\$$conninfo user=rep password='open sesame'\$\$, '{p}', origin => 'none', tables => '{\"public.*\": \"d.*\"}')"), writes_to('t, public\.w'), 'an ordinary role is warned');
down("SELECT rose.wait_for_sync('d', $timeout)");
up(q{INSERT INTO t VALUES (200, 'here')});
up("$origin INSERT INTO t VALUES (201, 'elsewhere')");
wait_for_apply($upstream, $replica, undef, $_) foreach qw(a c d);
is(down("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $_->[0] WHERE id >= 200"), $_->[1], "$_->[0]: each subscription of one upstream gets what it wants") foreach [ 't', '200' ], [ 'c.t', '200 201' ], [ 'd.t', '200' ];
like(alice(q{SELECT rose.alter_subscription('d', resync => 'd.t')}), writes_to('t'), '... when she has a table copied again');
down("SELECT rose.wait_for_sync('d', $timeout)");
is(down(q{SELECT string_agg(id::text, ' ' ORDER BY id) FROM d.t WHERE id >= 200}), '200 201', '... with all rows, as it was said');
is(alice(q{SELECT rose.alter_subscription('d', origin => 'any')}), '', 'she may alter it');
# what is sent before the stream has begun again is what was asked for before
ok($upstream->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_replication r JOIN pg_stat_activity a USING (pid) WHERE r.application_name = 'd' AND r.state = 'streaming' AND query ~ '^START_REPLICATION' AND query !~ 'origin')}), '... and the stream begins again');
up("$origin INSERT INTO t VALUES (202, 'elsewhere')");
wait_for_apply($upstream, $replica, undef, 'd');
is(down(q{SELECT string_agg(id::text, ' ' ORDER BY id) FROM d.t WHERE id >= 200}), '200 201 202', '... and has all then');
like(alice(q{SELECT rose.alter_subscription('a', origin => 'any')}), qr/ERROR:  42501/, 'but not those of others');
down("SELECT rose.drop_subscription('$_')") foreach qw(a b c d);
up("DROP SUBSCRIPTION $_") foreach qw(from_second from_partition);
$second->safe_psql('postgres', 'DROP SUBSCRIPTION from_first');

done_testing();
