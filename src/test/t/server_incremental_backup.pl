
# Incremental backups (17 and later) take the blocks that WAL names. Whatever rose writes, also components
# that go without WAL, must be in a backup that is put together of a full one and incremental ones.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'rose has to be there' if $ENV{ROSE_STANDIN};

my $node = PostgreSQL::Test::Cluster->new('primary');
plan skip_all => 'incremental backups came with PostgreSQL 17' if $node->pg_version < 17;

$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', $_) foreach 'summarize_wal = on', 'rose.max_merge_workers = 0', "rose.spill_interval = '1h'", 'autovacuum = off', 'checkpoint_timeout = 1h';
$node->start;
rose_create($node, 'postgres');

my @tables = qw(t words bare loaded rewritten switched);
my $last;			# name of the newest backup
my @chain;			# what the newest one rests on, and itself

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub take_backup
{
	my ($name) = @_;
	my $path = $node->backup_dir . "/$name";

	$node->command_ok([
			'pg_basebackup', '--no-sync', '-c', 'fast', '-D', $path, '-d', $node->connstr('postgres'),
			$last ? ('--incremental' => $node->backup_dir . "/$last/backup_manifest") : () ], "backup $name");
	push @chain, $path;
	$last = $name;
	return;
}

sub wal_components
{
	my ($value) = @_;

	# and the setting has its effect after the next checkpoint
	sql("ALTER SYSTEM SET rose.wal_components = $value");
	sql('SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', 'SHOW rose.wal_components', $value);
	sql('CHECKPOINT');
	sql('CHECKPOINT');
	return;
}

# Changes that leave most of a file as it was, but for the parts that they rewrite.
sub change
{
	my ($n) = @_;

	sql("UPDATE t SET v = 'changed $n' WHERE id % 7 = $n; INSERT INTO t SELECT g, md5(g::text) FROM generate_series($n * 1000000, $n * 1000000 + 3000) g");
	sql("SELECT rose.merge('t')");
	sql("DELETE FROM words WHERE n % 5 = $n; INSERT INTO words SELECT 'n' || g, g FROM generate_series($n * 10000, $n * 10000 + 2000) g; SELECT rose.spill('words')");
	sql("UPDATE bare SET v = v || 'x' WHERE a % 11 = $n");
	sql("COPY loaded FROM PROGRAM 'seq $n 10 60000'");
	sql("UPDATE rewritten SET v = v + 1 WHERE id % 3 = $n; VACUUM FULL rewritten");
	sql("UPDATE switched SET v = v + 1 WHERE id % 13 = $n; SELECT rose.merge('switched')");
	# in C0 alone, and in the tail log
	sql("UPDATE t SET v = 'newest $n' WHERE id = $n; DELETE FROM words WHERE k = 'w77$n'");
	return;
}

# The backups put together must have what the primary has; what is on the primary is not changed meanwhile.
sub is_restored
{
	my ($what) = @_;
	my $restored = PostgreSQL::Test::Cluster->new("restored_$last");

	command_ok([ $node->installed_command('pg_combinebackup'), '--no-sync', @chain, '-o', $restored->data_dir ], "$what: combined");
	$restored->append_conf('postgresql.conf', $_) foreach 'port = ' . $restored->port, "unix_socket_directories = '" . $restored->host . "'", "listen_addresses = ''";
	$restored->start;
	foreach my $table (@tables)
	{
		my $problems = eval { $restored->safe_psql('postgres', "SELECT msg FROM rose.check('$table')") } // $@;
		my $hash = eval { table_hash($restored, $table) } // $@;

		is($problems, '', "$what: rose.check of $table");
		is($hash, table_hash($node, $table), "$what: rows of $table");
	}
	$restored->stop('immediate');
	return;
}

foreach my $value (qw(off on))
{
	wal_components($value);
	sql("DROP TABLE IF EXISTS $_") foreach @tables;
	sql("CREATE TABLE t (id int PRIMARY KEY, v text) USING rose; INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 60000) g");
	sql("CREATE TABLE words (k text PRIMARY KEY, n int) USING rose; INSERT INTO words SELECT 'w' || g, g FROM generate_series(1, 20000) g");
	sql("CREATE TABLE bare (a int, v text) USING rose; INSERT INTO bare SELECT g, 'b' || g FROM generate_series(1, 20000) g");
	sql('CREATE TABLE loaded (id int PRIMARY KEY) USING rose');
	sql('CREATE TABLE rewritten (id int PRIMARY KEY, v int) USING rose; INSERT INTO rewritten SELECT g, g FROM generate_series(1, 20000) g');
	sql('CREATE TABLE switched (id int PRIMARY KEY, v int) USING rose; INSERT INTO switched SELECT g, g FROM generate_series(1, 20000) g');
	sql("SELECT rose.merge('$_')") foreach @tables;
	sql('CHECKPOINT');
	@chain = ();
	$last = undef;

	take_backup("full_$value");
	change(1);
	take_backup("first_$value");
	is_restored("wal_components $value, one increment");
	change(2);
	take_backup("second_$value");
	is_restored("wal_components $value, two increments");

	# logged ones beside unlogged ones
	wal_components($value eq 'on' ? 'off' : 'on');
	change(3);
	take_backup("third_$value");
	is_restored("wal_components $value and then the other");
}

$node->stop;
done_testing();
