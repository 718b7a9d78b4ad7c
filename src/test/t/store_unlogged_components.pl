
# Components without WAL, and what goes by the blocks that WAL names: each is followed by a record that
# makes summaries of WAL, and so incremental backups, take the whole file.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap logs all' if $ENV{ROSE_STANDIN};

my $node = rose_node('unlogged', 'rose.max_merge_workers = 0', 'rose.wal_components = off', 'checkpoint_timeout = 1h');

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Records of the storage manager and of component pages, for this table, while sql() does this.
sub records_of
{
	my ($table, $sql) = @_;
	my $from = sql('SELECT pg_current_wal_insert_lsn()');

	sql($sql);
	my $to = sql('SELECT pg_current_wal_insert_lsn(), pg_switch_wal()') =~ s/\|.*//r;
	my $path = sql("SELECT pg_relation_filepath('$table')");
	my ($out) = run_command([ 'pg_waldump', '-p', $node->data_dir . '/pg_wal', '-s', $from, '-e', $to ]);
	my ($created, $named) = (0, 0);
	my $node_name = join '/', sql("SELECT dattablespace FROM pg_database WHERE datname = 'postgres'"), (split m{/}, $path)[ 1, 2 ];
	foreach my $line (split /\n/, $out)
	{
		$created++ if $line =~ m{rmgr: Storage .*desc: CREATE \Q$path\E};
		$named++ while $line =~ m{FPI .*rel \Q$node_name\E }g;
	}
	return "$created created, " . ($named > 0 ? 'some' : 'no') . ' pages named';
}

sql("CREATE TABLE t (id int PRIMARY KEY, v text) USING rose; INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 20000) i");
sql("SELECT rose.merge('t'); CHECKPOINT; CHECKPOINT");
sql("UPDATE t SET v = 'x' WHERE id % 3 = 0");
is(records_of('t', "SELECT rose.spill('t')"), '1 created, no pages named', 'a spill');
is(records_of('t', "SELECT rose.merge('t')"), '1 created, no pages named', 'a merge');
is(sql("SELECT count(*) FROM t WHERE v = 'x'"), 6666, 'the rows');

# replay of the record does no harm
crash_and_restart($node);
is(sql("SELECT count(*) FROM t WHERE v = 'x'"), 6666, 'the rows after a crash');
is(sql("SELECT count(*) FROM rose.check('t')"), 0, 'and the table is sound');

sql('ALTER SYSTEM SET rose.wal_components = on; SELECT pg_reload_conf()');
$node->poll_query_until('postgres', 'SHOW rose.wal_components', 'on');
is(records_of('t', "UPDATE t SET v = 'y' WHERE id % 3 = 1; SELECT rose.merge('t')"), '0 created, some pages named', 'logged components need none');
$node->stop;
done_testing();
