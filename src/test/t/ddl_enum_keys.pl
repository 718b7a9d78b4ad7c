
# Keys of enums to which labels were added: what comparisons need of pg_enum is read before any LWLock is taken. So a
# session that waits for that catalog can be cancelled, and others go on meanwhile.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

my $node = rose_node('enums', rose_conf('rose.max_merge_workers = 0'));

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Labels with odd OIDs, which do not compare as numbers, come with every second one that is added in front.
sql("CREATE TYPE label AS ENUM ('m')");
sql("ALTER TYPE label ADD VALUE 'l$_' BEFORE 'm'") for 1 .. 8;
sql("CREATE TABLE source (k label, v int); INSERT INTO source SELECT e, 1 FROM unnest(enum_range(null::label)) e");
sql('CREATE TABLE t (k label PRIMARY KEY, v int)' . ($ENV{ROSE_STANDIN} ? '' : ' USING rose'));
sql('INSERT INTO t SELECT * FROM source WHERE k <= (SELECT k FROM source ORDER BY k OFFSET 4 LIMIT 1)');

my $locker = $node->background_psql('postgres');
my $writer = $node->background_psql('postgres', on_error_stop => 0);
my $other = $node->background_psql('postgres');
my $pid = $writer->query('SELECT pg_backend_pid()');

# The other session knows all of the table and the type.
$other->query_safe("UPDATE t SET v = 2");
$locker->query_safe('BEGIN; LOCK TABLE pg_enum IN ACCESS EXCLUSIVE MODE');
$writer->query_until(qr/^go$/m, "\\echo go\nINSERT INTO t SELECT * FROM source ON CONFLICT DO NOTHING;\n\\echo done\n");
ok($node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid"), 'a writer waits for the catalog');
$other->query_safe('UPDATE t SET v = 3');
pass('others go on');
sql("SELECT pg_cancel_backend($pid)");
ok($node->poll_query_until('postgres', "SELECT state IN ('idle', 'idle in transaction (aborted)') FROM pg_stat_activity WHERE pid = $pid"), 'it can be cancelled');
$locker->query_safe('COMMIT');
$_->quit for $writer, $other, $locker;

# labels that come later, in sessions that know the type
my $session = RoseTest::Session->new($node);
$session->run('UPDATE t SET v = 4');
sql("ALTER TYPE label ADD VALUE 'n$_' BEFORE 'm'") for 1 .. 8;
sql("INSERT INTO t SELECT e, 5 FROM unnest(enum_range(null::label)) e ON CONFLICT DO NOTHING");
is($session->run("SELECT string_agg(k::text, ' ' ORDER BY k) FROM t"), 'l1 l2 l3 l4 l5 l6 l7 l8 n1 n2 n3 n4 n5 n6 n7 n8 m', 'in order');
is($session->run("SELECT count(*) FROM t WHERE k > 'l8' AND k < 'm'"), 8, 'by key');
$session->end;
$node->stop;
done_testing();
