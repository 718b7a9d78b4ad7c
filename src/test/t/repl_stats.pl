# Replicated rows are counted as rows of clients are: so tables are analyzed by autovacuum, and pg_stat_user_tables says what came.
# The upstream's own counts are the model.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in counts as core does' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node('autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off', 'autovacuum_naptime = 1s');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

my $rows = 500;
my @tables = qw(t other checked wider);
foreach my $table (@tables)
{
	up("CREATE TABLE $table (id int PRIMARY KEY, n int, large text); ALTER TABLE $table ALTER large SET STORAGE external");
	up("INSERT INTO $table SELECT g, 0, repeat('x', 3000) FROM generate_series(1, $rows) g");
	down("CREATE TABLE $table (id int PRIMARY KEY, n int" . ($table eq 'checked' ? ' CHECK (n < 10)' : '') . ", large text) USING rose") if $table ne 'wider';
}
down('CREATE TABLE wider (id bigint PRIMARY KEY, n int, large text) USING rose');
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', @tables));
subscribe($upstream, $replica, undef, q{on_error => 'pause'});

my $counts = 'SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, n_mod_since_analyze FROM pg_stat_user_tables WHERE relname = ';
# who has copied them says so when he ends
$replica->poll_query_until('postgres', $counts . "'t'", "$rows|0|0|$rows|$rows");
is(down($counts . "'t'"), "$rows|0|0|$rows|$rows", 'rows of the copy are counted');

# Both sides report when they are idle, within ten seconds.
sub counted
{
	my ($name, @of) = @_;

	foreach my $table (@of)
	{
		my ($here, $there) = ('', '-');

		# the upstream's sessions have ended, or will in a moment, and report then
		for (1 .. 5 * $PostgreSQL::Test::Utils::timeout_default)
		{
			($here, $there) = (down($counts . "'$table'"), up($counts . "'$table'"));
			last if $here eq $there;
			select undef, undef, undef, 0.2;
		}
		is($here, $there, "$name: $table");
	}
	return;
}

# More than one batch, and a large value that is not sent; rows that change their key count once.
up("INSERT INTO t SELECT g, 0 FROM generate_series(1001, 1200) g; UPDATE t SET n = 1 WHERE id <= 50; DELETE FROM t WHERE id > 1150");
wait_for_apply($upstream, $replica);
up('UPDATE t SET id = -id WHERE id <= 20; UPDATE other SET n = 2');
wait_for_apply($upstream, $replica);
counted('changes', 't', 'other');

# What came before a TRUNCATE of the same transaction does not count.
up("BEGIN; INSERT INTO other VALUES (-1, 0), (-2, 0); UPDATE other SET n = 3 WHERE id < 3; TRUNCATE other; INSERT INTO other SELECT g, 0 FROM generate_series(1, 7) g; DELETE FROM other WHERE id = 7; COMMIT");
up('BEGIN; INSERT INTO other VALUES (20, 0); TRUNCATE other; COMMIT');
up('INSERT INTO other VALUES (21, 0)');
wait_for_apply($upstream, $replica);
counted('TRUNCATE', 'other');

# Batches that are given up: for an error of another table, and to have values as text. All of it comes again.
up('UPDATE t SET n = n + 1; BEGIN; INSERT INTO t SELECT g, 0 FROM generate_series(2001, 2300) g; UPDATE checked SET n = 10 WHERE id = 1; COMMIT');
wait_for_apply($upstream, $replica, 'postgres', 's', 't');
is(down("SELECT state FROM rose.stat_subscription_tables WHERE relname = 'checked'"), 'paused', 'a batch was given up');
counted('a batch that failed', 't');
up('UPDATE t SET n = n + 1; BEGIN; INSERT INTO t SELECT g, 0 FROM generate_series(3001, 3300) g; UPDATE wider SET n = 1; COMMIT');
wait_for_apply($upstream, $replica, 'postgres', 's', 't');
like(slurp_file($replica->logfile), qr/goes on with values in text format/, 'another was given up');
counted('a batch that came again as text', 't', 'wider');

# Analyzed without anybody asking for it.
is(down("SELECT count(*) FROM pg_stats WHERE tablename = 't'"), 0, 'not analyzed yet');
down('ALTER SYSTEM SET autovacuum = on');
$replica->reload;
ok($replica->poll_query_until('postgres', "SELECT autoanalyze_count > 0 FROM pg_stat_user_tables WHERE relname = 't'"), 'autovacuum analyzes the table');
cmp_ok(down("SELECT count(*) FROM pg_stats WHERE tablename = 't'"), '>', 0, 'now there are statistics');

down("SELECT rose.drop_subscription('s')");
$replica->stop;
$upstream->stop;
done_testing();
