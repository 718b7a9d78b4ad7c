# When changes can be read: a batch ends when it has all that has come, also while more comes all the time, and
# however long rose.batch_interval is; a backlog is gathered into few.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no batches' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $node = rose_node('replica', "rose.spill_interval = '1h'", "wal_retrieve_retry_interval = '200ms'", "rose.batch_interval = '60s'");

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub batches { return sql('SELECT batches FROM rose.stat_subscription') }

up('CREATE TABLE t (id bigserial PRIMARY KEY, v int); CREATE PUBLICATION p FOR TABLE t');
sql('CREATE TABLE t (id bigint PRIMARY KEY, v int) USING rose');
subscribe($upstream, $node);

# A stream that never stops for the 10 ms that would show by themselves that nothing more comes.
append_to_file($upstream->basedir . '/insert.sql', "INSERT INTO t (v) VALUES (1);\n");
my $timer = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
my $stream = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-T', 300, '-f', $upstream->basedir . '/insert.sql', $upstream->connstr('postgres') ],
	'>', '/dev/null', '2>', '/dev/null', $timer);
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM t') or die 'nothing comes';
my ($seen, $looks, $rises) = (0, 0, 0);
my $until = time() + 50;	# before a batch ends by its time
while (time() < $until && $rises < 10)
{
	my $count = sql('SELECT count(*) FROM t');

	$looks++;
	$rises++ if $count > $seen;
	$seen = $count;
}
cmp_ok($rises, '>=', 10, "changes are seen while others come: by $rises of $looks looks");
$stream->signal('TERM');		# INT may be ignored, as background jobs do
$stream->finish;
wait_for_apply($upstream, $node);
is(table_hash($node, 't'), table_hash($upstream, 't'), 'all of them');

# What waits to be read goes together.
my $worker = sql('SELECT pid FROM rose.stat_subscription');
my $before = batches();
kill 'STOP', $worker;
up("DO 'BEGIN FOR i IN 1 .. 3000 LOOP INSERT INTO t (v) VALUES (2); COMMIT; END LOOP; END'");
kill 'CONT', $worker;
wait_for_apply($upstream, $node);
cmp_ok(batches() - $before, '<', 1500, '3000 transactions that waited are fewer batches');
is(table_hash($node, 't'), table_hash($upstream, 't'), 'with all of them');

# Each by itself, if that is asked for.
sql("ALTER SYSTEM SET rose.batch_interval = 0");
$node->reload;
$node->poll_query_until('postgres', "SELECT pg_reload_conf() AND current_setting('rose.batch_interval') = '0'");
up('INSERT INTO t (v) VALUES (3)');
wait_for_apply($upstream, $node);
$before = batches();
up("DO 'BEGIN FOR i IN 1 .. 50 LOOP INSERT INTO t (v) VALUES (4); COMMIT; END LOOP; END'");
wait_for_apply($upstream, $node);
is(batches() - $before, 50, 'each transaction by itself');

done_testing();
