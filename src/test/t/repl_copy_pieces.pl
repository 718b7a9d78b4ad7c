
# Copies in pieces: what is there of a copy that ended before its time is not read again, whoever ends it, and whatever
# is changed on the upstream meanwhile; and where pieces of several snapshots do not do, the table is copied again, as one.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no copies of this kind' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node('autovacuum = off', "log_statement = 'none'", 'log_replication_commands = on');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", "rose.copy_piece_size = '100kB'", 'restart_after_crash = on', 'rose.max_copy_workers = 1', "rose.debug_copied_patience = '1h'");
my $rows = 6000;
stop_points_create($replica);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { my ($condition, $what) = @_; return ok($replica->poll_query_until('postgres', "SELECT $condition"), $what) }
sub synced { return down("SELECT rose.wait_for_sync('s', $timeout)") }
sub resync { return down("SELECT rose.alter_subscription('s', resync => '$_[0]')") }
sub pieces { return down("SELECT count(*) || ' ' || count(lsn) FROM rose.subscription_piece WHERE relid = '$_[0]'::regclass") }


# A table of each kind, in about as many pieces.
my %table = (
	plain => ['id int PRIMARY KEY, k int, v text', "i, i % 100, repeat('row ' || i, 8)", '', '', 'id'],
	composite => ['id int, k text, v text, PRIMARY KEY (k, id)', "i, 'key ' || to_char(i / 3, '0000000'), repeat('row ' || i, 8)", '', '', 'id'],
	texts => [q(id int, k text COLLATE "en-x-icu" PRIMARY KEY, v text), "i, CASE i % 2 WHEN 0 THEN 'k' ELSE 'K' END || to_char(i, '0000000'), repeat('row ' || i, 8)", '', '', 'id'],
	parted => ['id int PRIMARY KEY, k int, v text', "i, i % 100, repeat('row ' || i, 8)", ' PARTITION BY RANGE (id)', '', 'id'],
	filtered => ['id int, k int, v text, PRIMARY KEY (id, k)', "i, i % 10, repeat('row ' || i, 8)", '', ' WHERE (k <> 5)', 'id'],
	columns => ['id int PRIMARY KEY, k int, gone int, v text', "i, i % 100, i, repeat('row ' || i, 8)", '', ' (id, k, v)', 'id']);

sub columns_of { my ($table) = @_; return $table eq 'columns' ? '(id int PRIMARY KEY, k int, v text)' : "($table{$table}[0])" }

my @tables = sort keys %table;
foreach my $table (@tables)
{
	up("CREATE TABLE $table ($table{$table}[0])$table{$table}[2]");
	up("CREATE TABLE ${table}_$_ PARTITION OF $table FOR VALUES FROM (" . ($_ - 1) * $rows / 2 . ') TO (' . $_ * $rows / 2 . ')') foreach $table eq 'parted' ? 1 .. 3 : ();
	up("INSERT INTO $table SELECT $table{$table}[1] FROM generate_series(1, $rows) i");
	# the order of texts is not that of the upstream
	down("CREATE TABLE $table " . columns_of($table) =~ s/"en-x-icu"/"C"/r . " USING rose; CREATE INDEX ON $table (k, id)");
}
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', map { $_ . $table{$_}[3] } @tables) . ' WITH (publish_via_partition_root)');
subscribe($upstream, $replica);

# What the upstream publishes of it, and what is here.
sub contents
{
	my ($node, $table) = @_;
	my $from = $node == $upstream ? $table . ($table{$table}[3] =~ /WHERE/ ? $table{$table}[3] : '') : $table;

	return $node->safe_psql('postgres', "SELECT count(*) || ' ' || coalesce(md5(string_agg(h, '' ORDER BY h COLLATE \"C\")), '-') FROM (SELECT md5(ROW(id, k, v)::text) AS h FROM $from) s");
}

sub same
{
	my ($what, @names) = @_;

	wait_for_apply($upstream, $replica);
	return is(join(' ', map { contents($replica, $_) } @names), join(' ', map { contents($upstream, $_) } @names), $what);
}

# Numbers of the pieces that were read of a table, by the server's log.
sub read_since
{
	my ($table, $log) = @_;

	return join ' ', sort { $a <=> $b } slurp_file($replica->logfile, $log) =~ /has copied piece ([0-9]+) of [0-9]+ of table "$table"/g;
}

same('tables are copied in pieces', @tables);
foreach my $table (@tables)
{
	my @read = split ' ', read_since($table, 0);

	cmp_ok(@read, '>', 3, "$table: there were some");
	is("@read", join(' ', 1 .. @read), "$table: each was read once");
	is(pieces($table), '0 0', "$table: nothing is left of them");
	is(down("SELECT count(*) FROM rose.check('$table')"), 0, "$table: nothing is wrong with it");
}
is(down("SELECT count(*) FROM rose.subscription_copy"), 0, 'nothing is left of what they were');
is(down("SELECT count(*) FROM pg_class WHERE relname LIKE 'copy_of%'"), 0, 'nor of where they were');

# --- a copy that ends, and goes on
my %interrupt = (
	'crash' => sub { crash_and_restart($replica) },
	'kill -9' => sub { kill 'KILL', copier(); wait_until_up($replica) },
	'termination' => sub { down('SELECT pg_terminate_backend(' . copier() . ')') },
	'lost connection' => sub { up('SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE temporary') },
	'crash of the upstream' => sub { $upstream->stop('immediate'); $upstream->start },
	'drain' => sub { down("SELECT rose.alter_subscription('s', enabled => false)"); down("SELECT rose.alter_subscription('s', enabled => true)") });

sub copier { return down('SELECT pid FROM rose.stat_copy_progress WHERE pid IS NOT NULL') }

# Rows of each piece are changed, their keys too, some are gone, some new.
my $changes = 0;

sub change
{
	my ($table, $round) = @_;

	$changes++;
	up("UPDATE $table SET v = v || ' $round' WHERE id % 7 = $round; DELETE FROM $table WHERE id % 31 = $round;"
		  . "UPDATE $table SET id = id + 100000 * $changes WHERE id % 101 = $round AND id < $rows / 4;" x ($table ne 'parted'));
	up("INSERT INTO $table SELECT $table{$table}[1] FROM generate_series(1, $rows) i WHERE i % 31 = $round AND i % 2 = 0 ON CONFLICT DO NOTHING");
	return;
}

# Copies a table again, to the end of $n pieces, and calls. Returns where the log was.
sub interrupted
{
	my ($table, $n, @calls) = @_;
	my $log = -s $replica->logfile;
	my $control = RoseTest::Session->new($replica);

	$control->run("SELECT stop_at('piece-committed', 'wait', 'worker', " . ($n - 1) . ')');
	resync($table);
	wait_for_stop($replica);
	$_->() foreach @calls;
	eval { $control->run("SELECT stop_clear()"); $control->end };
	return $log;
}

my $round = 0;
foreach my $table (@tables)
{
	foreach my $way (sort keys %interrupt)
	{
		$round++;
		next unless $table eq 'plain' || $round % 4 == 1;
		my $old = contents($replica, $table);
		my $log = interrupted($table, 2, sub { change($table, $round % 7) }, sub { is(contents($replica, $table), $old, "$table, $way: old rows are there") }, $interrupt{$way});

		change($table, ($round + 1) % 7);
		synced();
		my @read = split ' ', read_since($table, $log);
		my %once = map { $_ => 1 } @read;
		is(scalar(@read), scalar(keys %once), "$table, $way: no piece is read again");
		like(slurp_file($replica->logfile, $log), qr/goes on with the copy of table "$table", of which [1-9]/, "$table, $way: it goes on where it was");
		same("$table, $way: it is as on the upstream", @tables);
		is(down("SELECT count(*) FROM rose.check('$table')"), 0, "$table, $way: nothing is wrong with it");
		change($table, ($round + 2) % 7);
		same("$table, $way: changes go on", $table);
	}
}

# --- several processes
down('ALTER SYSTEM SET rose.max_copy_workers = 3; SELECT pg_reload_conf()');

sub helpers { return down("SELECT pid FROM pg_stat_activity WHERE backend_type = 'rose replication copier' AND pid <> " . copier()) }

sub read_once
{
	my ($log, $what) = @_;
	my @read = split ' ', read_since('plain', $log);
	my %once = map { $_ => 1 } @read;

	my ($n) = slurp_file($replica->logfile, $log) =~ /has copied piece [0-9]+ of ([0-9]+) of table "plain"/;

	# who ended before he said so has copied one, too
	is(@read + ($what =~ /there/ ? 1 : 0), $n, "$what: in pieces");
	return is(scalar(@read), scalar(keys %once), "$what: none is read twice");
}

foreach my $way ('a helper ends', 'a helper ends and his piece is there', 'who leads ends', 'who leads ends between two pieces')
{
	my $control = RoseTest::Session->new($replica);
	my $log = -s $replica->logfile;
	my $point = $way =~ /between/ ? 'piece-committed' : $way =~ /there/ ? 'piece-there' : 'piece-loaded';

	$control->run("SELECT stop_at('$point', 'wait', 'worker', 0, 3)");
	resync('plain');
	ok($replica->poll_query_until('postgres', "SELECT count(*) = 3 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), "$way: three processes copy it");
	is(down('SELECT workers FROM rose.stat_copy_progress'), 3, "$way: which is shown");
	change('plain', $round++ % 7);
	down('SELECT pg_terminate_backend(' . ($way =~ /helper/ ? (split /\n/, helpers())[0] : copier()) . ')');
	ok($replica->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'rose replication copier'"), "$way: two are left");
	change('plain', $round++ % 7);
	$control->run("SELECT go_on('$point'), stop_clear()");
	synced();
	$control->end;
	read_once($log, $way);
	is(() = slurp_file($replica->logfile, $log) =~ /goes on with the copy of table/g, $way =~ /leads/ ? 1 : 0, "$way: whether somebody has to go on");
	same("$way: it is as on the upstream", 'plain');
	is(down("SELECT count(*) FROM rose.check('plain')"), 0, "$way: nothing is wrong with it");
}

# --- who stands in the way of the relation of pieces
down('ALTER SYSTEM SET rose.max_copy_workers = 1; SELECT pg_reload_conf()');
down('CREATE ROLE anybody; CREATE SCHEMA anys AUTHORIZATION anybody');
my $made = 'pg_toast.copy_of_' . down("SELECT 'plain'::regclass::oid");
my $end = sub { down('SELECT pg_terminate_backend(' . copier() . ')') };
my $fails = sub { my ($sql) = @_; my ($rc, $out, $err) = $replica->psql('postgres', $sql); return $err };

interrupted('plain', 2, sub {
	like($fails->("SET ROLE anybody; CREATE VIEW anys.v AS SELECT id FROM $made"), qr/permission denied for schema pg_toast/, 'nobody makes a view of pieces');
	down("CREATE VIEW anys.v AS SELECT id FROM $made") }, $end);
synced();
same('a view that a superuser made of pieces does not hold the copy', 'plain');
is(down("SELECT to_regclass('anys.v') IS NULL"), 't', 'it is gone');
interrupted('plain', 2, sub { down("CREATE VIEW anys.v AS SELECT id FROM $made") }, $end, sub { down("SELECT rose.pause_table('s', 'plain')") });
is(down("SELECT to_regclass('$made') IS NULL"), 't', 'nor does it hold what throws pieces away');
down("SELECT rose.resume_table('s', 'plain')");
synced();

# --- the upstream ends transactions that stand idle; who copies does while he sorts
up("ALTER DATABASE postgres SET idle_in_transaction_session_timeout = '1s'");
down('ALTER SYSTEM SET rose.max_copy_workers = 3; SELECT pg_reload_conf()');
{
	my $control = RoseTest::Session->new($replica);
	my $log = -s $replica->logfile;

	$control->run("SELECT stop_at('piece-loaded', 'wait', 'worker', 0, 3)");
	resync('plain');
	ok($replica->poll_query_until('postgres', "SELECT count(*) = 3 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), 'three processes stand idle');
	sleep 3;
	is(up("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender' AND state = 'idle in transaction'"), 3, 'their transactions on the upstream are there, of who leads and of who helps');
	$control->run("SELECT stop_clear(), go_on('piece-loaded')");
	synced();
	$control->end;
	unlike(slurp_file($replica->logfile, $log), qr/goes on with the copy/, 'nobody has to go on');
	same('after idle transactions', 'plain');
}
up('ALTER DATABASE postgres RESET idle_in_transaction_session_timeout');
down('ALTER SYSTEM SET rose.max_copy_workers = 1; SELECT pg_reload_conf()');

# --- what is asked of the upstream to find pieces
sub settings { up("ALTER SYSTEM SET log_statement = '$_[0]'; SELECT pg_reload_conf()"); return }
up("CREATE TABLE few (id int PRIMARY KEY, k int, v text); INSERT INTO few SELECT i, i % 50, repeat('row ' || i, 8) FROM generate_series(1, 60000) i; ANALYZE few; CREATE PUBLICATION few FOR TABLE few WHERE (k = 7)");
down("CREATE TABLE few (id int PRIMARY KEY, k int, v text) USING rose");
settings('all');
my $log = -s $upstream->logfile;
down("SELECT rose.alter_subscription('s', publications => '{p,few}')");
synced();
my @percent = slurp_file($upstream->logfile, $log) =~ /few AS t TABLESAMPLE SYSTEM \(([0-9.]+)\)/g;
cmp_ok(@percent, '>', 0, 'a sample of a table with a selective filter');
is(scalar(grep { $_ > 60 } @percent), 0, '... is not all of it');
is(down('SELECT count(*), sum(id) FROM few'), up('SELECT count(*), sum(id) FROM few WHERE k = 7'), '... its rows are there');

# a role that may read columns may not read where rows lie
up("CREATE ROLE reader LOGIN REPLICATION; GRANT SELECT (id, k, v) ON plain TO reader");
down("SELECT rose.alter_subscription('s', conninfo => \$\$" . $upstream->connstr('postgres') . ' user=reader$$)');
my $here = -s $replica->logfile;
resync('plain');
synced();
is(scalar(my @four = split ' ', read_since('plain', $here)), 4, 'with SELECT of columns: as many pieces as with rows in any order');
same('with SELECT of columns', 'plain');

$_->stop foreach $replica, $upstream;
done_testing();
