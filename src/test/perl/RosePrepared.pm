# Transactions of the upstream that are prepared: what happens on either side until they are committed, or rolled back.
#
# Whichever way they come, when they are prepared or when they are committed, nothing of them is to be seen before that, and
# all of it then.  A subscription s of a publication p, with the tables that prepared_tables makes, is the caller's.
package RosePrepared;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

our @EXPORT = qw(up down until_down until_up streams prepare changes hashes equal prepared_tables prepared_rounds prepared_meanwhile);

my ($upstream, $replica);
my @tables = qw(t q nokey other);

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { $replica->poll_query_until('postgres', $_[0]) or die "never true: $_[0]"; return }
sub until_up { $upstream->poll_query_until('postgres', $_[0]) or die "never true: $_[0]"; return }
sub streams { until_down("SELECT state = 'streaming' FROM rose.stat_subscription"); return }

sub prepare { my ($gid, $sql) = @_; up("BEGIN; $sql; PREPARE TRANSACTION '$gid'"); return }
# All kinds of changes, some of subtransactions, of which some are rolled back; so many rows that parts come before.
sub changes
{
	my ($from, $rows) = @_;

	my $its = "BETWEEN $from AND $from + $rows";

	return "INSERT INTO t SELECT g, g, repeat(md5(g::text), 3) FROM generate_series($from, $from + $rows) g; SAVEPOINT a; UPDATE t SET v = -v WHERE id % 7 = 0 AND id $its;"
	  . " INSERT INTO q SELECT g, g::text, 'q' FROM generate_series($from, $from + 20) g; SAVEPOINT b; DELETE FROM t WHERE id $its; INSERT INTO nokey VALUES ($from, 'gone'); ROLLBACK TO b;"
	  . " UPDATE t SET id = -id WHERE id % 11 = 0 AND id $its; DELETE FROM t WHERE id % 13 = 0 AND id $its; INSERT INTO nokey VALUES ($from, 'stays'); RELEASE a; UPDATE q SET c = 'r' WHERE a % 3 = 0 AND a $its";
}

sub hashes { return join ' ', map { table_hash($_[0], $_) } @_[1 .. $#_] }

# Both sides at one position.
sub equal
{
	my ($what, @which) = @_;

	wait_for_apply($upstream, $replica);
	my @differ = grep { table_hash($replica, $_) ne table_hash($upstream, $_) } @which ? @which : @tables;
	is("@differ", '', $what);
	return;
}

sub prepared_tables
{
	($upstream, $replica) = @_;
	my $schema = 'CREATE TABLE t (id int PRIMARY KEY, v int, w text)%1$s; CREATE TABLE q (a int, b text, c text, PRIMARY KEY (a, b))%1$s; CREATE TABLE nokey (a int, b text)%1$s;'
	  . ' CREATE TABLE other (id int PRIMARY KEY, v text)%1$s; CREATE TABLE late (id int PRIMARY KEY, v text)%1$s;';

	up(sprintf $schema, '');
	up('CREATE PUBLICATION p FOR TABLE t, q, nokey, other');
	down(sprintf $schema, ' USING rose');
	return;
}

# Whoever ends in between.
my $round = 0;

sub prepared_rounds
{
	my $first = 100_000_000 * $round++;

	foreach my $rows (50, 3000)
	{
		my $from = $first + 10000 * $rows;

		prepare('p1', changes($from, $rows));
		prepare('p2', changes($from + 5000, $rows));
		up("INSERT INTO other SELECT coalesce(max(id), 0) + 1, 'between' FROM other");
		equal("$rows rows: nothing of what is prepared is here");
		crash_and_restart($replica);
		streams();
		up("INSERT INTO other SELECT max(id) + 1, 'after a crash here' FROM other");
		equal("$rows rows: nor after a crash");
		up("COMMIT PREPARED 'p1'");
		equal("$rows rows: all of one, when it is committed");
		crash_and_restart($replica) if $rows == 50;
		streams();
		equal("$rows rows: and after a crash");
		crash_and_restart($upstream);
		is(up('SELECT string_agg(gid, $$ $$) FROM pg_prepared_xacts'), 'p2', "$rows rows: the other one is still prepared");
		streams();
		up("ROLLBACK PREPARED 'p2'; INSERT INTO other SELECT max(id) + 1, 'after a crash there' FROM other");
		equal("$rows rows: nothing of the one that is rolled back");
		prepare('p1', changes($from + 5000, $rows));
		up("COMMIT PREPARED 'p1'");
		equal("$rows rows: a name again");
	}
	return;
}

# What else happens in between.
sub prepared_meanwhile
{
	# ---- the last transaction, by which the upstream is known, was prepared ----
	prepare('last', changes(2000, 10));
	up("COMMIT PREPARED 'last'");
	wait_for_apply($upstream, $replica);
	down("SELECT rose.spill('t')");
	my $pid = down('SELECT pid FROM rose.stat_subscription');
	down("SELECT pg_terminate_backend($pid)");
	until_down("SELECT state = 'streaming' AND pid <> $pid FROM rose.stat_subscription");
	up("INSERT INTO other SELECT max(id) + 1, 'goes on' FROM other");
	equal('the upstream is known by it');

	# ---- many, committed in another order ----
	prepare("m$_", changes(100000 * $_ + 50000, 40)) for 1 .. 30;
	foreach my $n (reverse 1 .. 30)
	{
		up(($n % 3 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'm$n'");
		crash_and_restart($replica) if $n == 15;
	}
	streams();
	equal('many');

	# ---- tables that are altered, truncated, paused in between ----
	prepare('altered', changes(4000000, 50));
	down('ALTER TABLE t RENAME v TO renamed; ALTER TABLE t ADD COLUMN extra int; ALTER TABLE q RENAME TO moved');
	up("COMMIT PREPARED 'altered'");
	wait_for_apply($upstream, $replica);
	down('ALTER TABLE moved RENAME TO q; ALTER TABLE t DROP COLUMN extra; ALTER TABLE t RENAME renamed TO v');
	equal('altered here in between');

	prepare('truncate', "INSERT INTO t VALUES (-5, 0, 'before'); TRUNCATE t; " . changes(5000000, 50));
	up("INSERT INTO other SELECT max(id) + 1, 'beside' FROM other");
	equal('nothing is truncated yet', 'other');
	is(down('SELECT count(*) > 51 FROM t'), 't', 'its rows are there');
	up("COMMIT PREPARED 'truncate'");
	equal('truncated');
	crash_and_restart($replica);
	streams();
	equal('truncated, after a crash');

	prepare('paused', changes(6000000, 50));
	down("SELECT rose.pause_table('s', 't')");
	streams();
	my $before = table_hash($replica, 't');
	up("COMMIT PREPARED 'paused'");
	wait_for_apply($upstream, $replica, 'postgres', 's', 'q');
	is(hashes($replica, 'q', 'nokey'), hashes($upstream, 'q', 'nokey'), 'paused in between: others have all of it');
	is(table_hash($replica, 't'), $before, 'the paused one has nothing of it');
	prepare('resumed', changes(7000000, 50));
	down("SELECT rose.resume_table('s', 't')");
	streams();
	equal('resumed, another one is prepared');
	up("COMMIT PREPARED 'resumed'");
	equal('and committed');

	# ---- a table is copied while one is prepared: the copy waits, other tables do not ----
	prepare('copy', "INSERT INTO late SELECT g, 'prepared' FROM generate_series(1, 100) g; " . changes(8000000, 50));
	up("INSERT INTO late VALUES (200, 'committed'); ALTER PUBLICATION p ADD TABLE late");
	down("SELECT rose.alter_subscription('s', refresh => true)");
	until_up("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event_type = 'Lock' AND wait_event = 'transactionid'");
	up("INSERT INTO late VALUES (201, 'meanwhile'); INSERT INTO other SELECT max(id) + 1, 'beside a copy' FROM other");
	wait_for_apply($upstream, $replica, 'postgres', 's', 'other');
	is(table_hash($replica, 'other'), table_hash($upstream, 'other'), 'others go on');
	is(down('SELECT count(*) FROM late'), 0, 'the copy waits');
	up("COMMIT PREPARED 'copy'; INSERT INTO late VALUES (202, 'after')");
	down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
	equal('copied', @tables, 'late');
	return;
}

1;
