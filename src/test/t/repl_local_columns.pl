# Columns that only the table here has: new rows get their defaults, updates leave them as they are. PostgreSQL's own subscription into heap tables of
# another database is the oracle, for random changes of keys, of other columns, of large values that are not sent, over partitions, with indexes on the
# columns and what is computed of them; with spills, merges and a crash meanwhile. Environment: LOCAL_SEED repeats a run; LOCAL_STEPS, default 120.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $seed = seed_random('LOCAL_SEED');
my $steps = $ENV{LOCAL_STEPS} // 120;
my $upstream = upstream_node();
my $replica = rose_node('replica', "rose.spill_interval = '300ms'", "rose.debug_piece_size = '8kB'", "rose.memtable_size = '8MB'", 'rose.max_subscriptions = 4', "wal_retrieve_retry_interval = '100ms'", 'autovacuum = off');
my @tables = qw(t u p f dropped old moved);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub heap { return $replica->safe_psql('heap', $_[0]) }
sub pick { return $_[ rand @_ ] }
sub some { return int rand $_[0] }

sub caught_up
{
	my $lsn = up('SELECT pg_current_wal_flush_lsn()');

	wait_for_apply($upstream, $replica);
	$upstream->poll_query_until('postgres', "SELECT replay_lsn >= '$lsn' FROM pg_stat_replication WHERE application_name = 'core'") or die 'core has not caught up';
	return;
}

sub agree
{
	my ($name) = @_;

	foreach my $table (@tables)
	{
		is(table_hash($replica, $table), table_hash($replica, $table, 'heap'), "$name: $table is as PostgreSQL's own") or diag("LOCAL_SEED=$seed");
		is(down("SELECT string_agg(msg, '; ') FROM pg_partition_tree('$table'), rose.check(relid) WHERE isleaf"), '', "$name: rose.check of $table") if $table eq 'p';
		is(down("SELECT string_agg(msg, '; ') FROM rose.check('$table')"), '', "$name: rose.check of $table") if $table ne 'p';
	}
	my $asked = "SELECT string_agg(q::text, ' ') FROM (SELECT mine, count(*), sum(a) FROM t WHERE mine BETWEEN 3 AND 9 GROUP BY mine ORDER BY mine) q";
	is(down("SET enable_seqscan = off; $asked"), heap($asked), "$name: by an index");
	$asked = "SELECT count(*), sum(id) FROM t WHERE a + mine = 12";
	is(down("SET enable_seqscan = off; $asked"), heap($asked), "$name: by an expression of both");
	return;
}

# --- tables
my $there = "CREATE TABLE t (id int PRIMARY KEY, a int, doc text); CREATE TABLE u (x text, y int, a int, doc text, PRIMARY KEY (x, y)); CREATE TABLE p (id int PRIMARY KEY, a int, doc text);"
  . "CREATE TABLE f (id int PRIMARY KEY, a int, doc text); CREATE TABLE dropped (id int PRIMARY KEY, a int, doc text, mine int); CREATE TABLE old (id int PRIMARY KEY, a int, doc text);"
  . "CREATE TABLE moved (id int PRIMARY KEY, a int, doc text);";
up("$there ALTER TABLE t ALTER doc SET STORAGE EXTERNAL; ALTER TABLE f REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE t, u, p, f, dropped; CREATE PUBLICATION o FOR TABLE old; CREATE PUBLICATION m FOR TABLE moved WHERE (a > 2)");
up("INSERT INTO $_ SELECT g, g % 9, repeat('v', 3000) FROM generate_series(1, 100) g") foreach qw(t p f old moved);
up("INSERT INTO u SELECT 'x' || g % 5, g, g % 9, 'v' FROM generate_series(1, 100) g; INSERT INTO dropped SELECT g, g % 9, 'v', g FROM generate_series(1, 100) g");
$replica->safe_psql('postgres', 'CREATE DATABASE heap');
my $here = <<'SQL';
CREATE DOMAIN word AS text DEFAULT 'of the type';
CREATE TABLE t (own word, id int PRIMARY KEY, mine int NOT NULL DEFAULT 3 + 1, a int, doc text, both_of_it int GENERATED ALWAYS AS (a + mine) STORED);
CREATE TABLE u (x text, mine int DEFAULT 7, y int, a int, doc text, nothing int, PRIMARY KEY (x, y));
CREATE TABLE p (id int, mine text DEFAULT 'of the table', a int, doc text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p (mine DEFAULT 'of the partition') FOR VALUES FROM (0) TO (60);
CREATE TABLE p2 (doc text, id int NOT NULL, a int, mine text);
ALTER TABLE p ATTACH PARTITION p2 DEFAULT;
CREATE TABLE f (mine int DEFAULT 2, id int PRIMARY KEY, a int, doc text);
CREATE TABLE dropped (id int PRIMARY KEY, a int, doc text, mine int);
CREATE TABLE old (id int PRIMARY KEY, a int, doc text, mine int, more text DEFAULT 'new');
CREATE TABLE moved (id int PRIMARY KEY, a int, doc text, mine int DEFAULT 5);
INSERT INTO old SELECT g, g % 9, repeat('v', 3000), g * 2, 'old' FROM generate_series(1, 100) g;
CREATE INDEX ON t (mine);
CREATE INDEX ON t ((a + mine));
CREATE INDEX ON t (mine, a);
CREATE INDEX ON u (mine, nothing);
CREATE INDEX ON p (mine, a);
SQL
down("SET default_table_access_method = rose; $here");
heap("SET default_table_access_method = heap; $here");
my $connection = $upstream->connstr('postgres');
subscribe($upstream, $replica);
down("SELECT rose.create_subscription('o', \$\$$connection\$\$, ARRAY['o'], copy_data => false); SELECT rose.create_subscription('m', \$\$$connection\$\$, ARRAY['m'])");
down("SELECT rose.wait_for_sync('m', $timeout)");
heap("CREATE SUBSCRIPTION core CONNECTION \$\$$connection application_name=core\$\$ PUBLICATION p, m");
heap("CREATE SUBSCRIPTION core_old CONNECTION \$\$$connection\$\$ PUBLICATION o WITH (copy_data = false)");
$replica->poll_query_until('heap', "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel") or die 'core has not copied';

sub all_caught_up
{
	my $lsn = up('SELECT pg_current_wal_flush_lsn()');

	caught_up();
	wait_for_apply($upstream, $replica, 'postgres', $_) foreach qw(o m);
	$upstream->poll_query_until('postgres', "SELECT bool_and(replay_lsn >= '$lsn') FROM pg_stat_replication WHERE application_name LIKE 'core%'") or die 'core has not caught up';
	return;
}
agree('copied');

# --- single cases
up('UPDATE dropped SET a = a + 1 WHERE id < 50; ALTER TABLE dropped DROP mine; UPDATE dropped SET a = a + 1 WHERE id % 2 = 0; INSERT INTO dropped VALUES (1000, 1, \'new\')');
up('UPDATE old SET a = a + 1 WHERE id % 3 = 0; UPDATE old SET id = id + 1000 WHERE id % 7 = 0; INSERT INTO old VALUES (5000, 1)');
all_caught_up();
is(down('SELECT count(*) FROM dropped WHERE mine = id'), 100, 'a column that was dropped there keeps its values');
is(down('SELECT count(*) FROM old WHERE mine = id % 1000 * 2 AND more = \'old\''), 100, 'so does one of a table that was filled here');
agree('single cases');
down('ALTER TABLE t ALTER mine SET DEFAULT 6');
heap('ALTER TABLE t ALTER mine SET DEFAULT 6');
up('INSERT INTO t SELECT g, 3, \'later\' FROM generate_series(2000, 2020) g; UPDATE t SET a = 4 WHERE id < 30');
all_caught_up();
is(down('SELECT count(*) FROM t WHERE mine = 6'), 21, 'a default that has changed is that of new rows');
agree('another default');

# What is not the same twice: of each row once, whatever comes of it.
down('CREATE SEQUENCE numbers; CREATE TABLE v (id int PRIMARY KEY, a int, n bigint DEFAULT nextval(\'numbers\'), i int GENERATED ALWAYS AS IDENTITY, r float8 DEFAULT random(), at timestamptz DEFAULT clock_timestamp()) USING rose');
up('CREATE TABLE v (id int PRIMARY KEY, a int); INSERT INTO v SELECT g, g FROM generate_series(1, 50) g; CREATE PUBLICATION v FOR TABLE v');
down("SELECT rose.alter_subscription('s', publications => ARRAY['p', 'v'], refresh => true); SELECT rose.wait_for_sync('s', $timeout)");
up('INSERT INTO v SELECT g, g FROM generate_series(51, 100) g');
all_caught_up();
my $own = 'SELECT md5(string_agg(concat_ws(\'/\', id % 1000, n, i, r, at), \' \' ORDER BY id % 1000)) FROM v';
my $before = down($own);
# but for the time, which may be the same for two
is(down('SELECT count(DISTINCT n), count(DISTINCT i), count(DISTINCT r), count(at) FROM v'), '100|100|100|100', 'each row has a value of its own');
up('UPDATE v SET a = a + 1; UPDATE v SET id = id + 1000 WHERE id % 2 = 0; UPDATE v SET a = 5 WHERE id > 1000');
all_caught_up();
is(down($own), $before, '... and keeps it');
is(down("SELECT count(*) FROM rose.verify('s')"), 0, 'rose.verify does not ask the upstream for them');

# --- random ones
sub change
{
	my $table = pick(qw(t t u p p f dropped old moved));
	my $id = pick(some(150), some(8));
	my $to = $id + some(20);
	my $kind = rand();

	if ($table eq 'u')
	{
		return "INSERT INTO u SELECT 'x' || g % 5, g, g % 9, 'n' FROM generate_series($id, $to) g ON CONFLICT DO NOTHING" if $kind < 0.3;
		return "UPDATE u SET " . pick('a = a + 1', 'x = x || 1', "doc = 'w'") . " WHERE y BETWEEN $id AND $to" if $kind < 0.8;
		return "DELETE FROM u WHERE y BETWEEN $id AND $to";
	}
	return "INSERT INTO $table SELECT g, g % 9, repeat('n', " . pick(1, 3000) . ") FROM generate_series($id, $to) g ON CONFLICT DO NOTHING" if $kind < 0.3;
	return "DELETE FROM $table WHERE id BETWEEN $id AND $to" if $kind < 0.45;
	return "UPDATE $table SET id = id + 150 WHERE id BETWEEN $id AND $to AND NOT EXISTS (SELECT FROM $table o WHERE o.id BETWEEN $id + 150 AND $to + 150)" if $kind < 0.6;
	return "DELETE FROM $table WHERE id BETWEEN $id AND $to; INSERT INTO $table SELECT g, 1, 'again' FROM generate_series($id, $id + 5) g ON CONFLICT DO NOTHING" if $kind < 0.7;
	return "DO 'BEGIN FOR i IN 1..20 LOOP UPDATE $table SET a = a + i WHERE id BETWEEN $id AND $id + 3; UPDATE $table SET doc = doc || i WHERE id = $id + i % 5; END LOOP; END'" if $kind < 0.75;
	return "UPDATE $table SET " . pick('a = a + 1', 'a = 5 - a', "doc = repeat('w', 3000)", 'a = a + 1, doc = doc') . " WHERE id BETWEEN $id AND $to";
}

foreach my $step (1 .. $steps)
{
	$upstream->psql('postgres', 'BEGIN; ' . join('; ', map { change() } 0 .. some(3)) . '; ' . pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK'));
	$replica->psql('postgres', "SELECT rose." . pick('spill', 'merge') . "('" . pick(qw(t u f p1 p2 dropped old moved)) . "')") if rand() < 0.1;
	if ($step == int($steps / 2))
	{
		all_caught_up();
		agree('half way');
		crash_and_restart($replica);
	}
}
all_caught_up();
agree('random changes');
down("SELECT rose.merge('$_')") foreach qw(t u f p1 p2 dropped old moved);
agree('merged');

heap("DROP SUBSCRIPTION core; DROP SUBSCRIPTION core_old");
done_testing();
