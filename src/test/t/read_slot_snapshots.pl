
# Snapshots of replication slots, beside those of sessions.  A slot's snapshot is made of the log, not of the process array: transactions that were
# rolled back count as in progress, so two snapshots need not be equal if they are alike, nor need one see all that the other sees.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in keeps what heap keeps' if $ENV{ROSE_STANDIN};

my $node = rose_node('slots', "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub new_session
{
	my ($options, @sql) = @_;
	my $new = RoseTest::Session->new($node, $options);

	$new->run($_) foreach @sql;
	return $new;
}

# A transaction in progress that has an id.
sub new_writer
{
	my $new = new_session('', 'BEGIN');

	$new->{xid} = $new->run('SELECT pg_current_xact_id()');
	return $new;
}

sub end
{
	my ($writer, $how) = @_;

	$writer->run($how);
	$writer->end;
	return;
}

sub wait_for_waiter
{
	my ($writer) = @_;

	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted AND transactionid::text = '$writer->{xid}'")
	  or die 'nobody waits';
	return;
}

sub both { return map { $_[0] =~ s/TAB/$_/gr } qw(h r) }

# Ids in which the tables differ, for the session's snapshot.
my $difference = 'SELECT string_agg(id::text, \' \') FROM ((TABLE h EXCEPT ALL TABLE r) UNION ALL (TABLE r EXCEPT ALL TABLE h)) x';

sub compare
{
	my ($what, $between) = @_;

	sql('DROP TABLE IF EXISTS h, r');
	sql('CREATE TABLE h (id int PRIMARY KEY, v text); CREATE TABLE r (id int PRIMARY KEY, v text) USING rose');
	sql($_) foreach both("INSERT INTO TAB SELECT i, 'first' FROM generate_series(1, 20) i");

	# the slot waits for two generations of transactions; between them it looks at each one's end
	my $first = new_writer();
	my $slot = new_session('replication=database', 'BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ');
	$slot->start('CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput USE_SNAPSHOT');
	wait_for_waiter($first);
	my $second = new_writer();
	end($first, 'COMMIT');
	wait_for_waiter($second);
	my ($rest, @readers) = $between->();
	end($second, 'COMMIT');
	$slot->finish;
	is($slot->run($difference), '', "$what: a slot's snapshot");
	end($rest, 'COMMIT');

	sql($_) foreach both("UPDATE TAB SET v = v || ' later'");
	sql("SELECT rose.spill('r')");
	sql($_) foreach both("UPDATE TAB SET v = v || ' last'");
	sql("SELECT rose.spill('r'); SELECT rose.merge('r')");
	is($slot->run($difference), '', "$what: a slot's snapshot after a merge");
	is($_->run($difference), '', "$what: a session's") foreach @readers;
	$_->end foreach @readers, $slot;
	is(sql($difference), '', "$what: the tables");
	return;
}

sub new_reader { return new_session('', 'BEGIN ISOLATION LEVEL REPEATABLE READ', $difference) }

# as many in progress, but others: for the reader those that end, for the slot those that were rolled back
compare('alike', sub {
	my ($rest, $seen, @failed) = map { new_writer() } 1 .. 4;
	my $last = new_writer();

	$rest->run($_) foreach both("UPDATE TAB SET v = v || ' rest' WHERE id = 1");
	$seen->run($_) foreach both("UPDATE TAB SET v = v || ' seen' WHERE id = 2");
	end($_, 'ROLLBACK') foreach @failed;
	end($last, 'COMMIT');
	my $reader = new_reader();
	end($seen, 'COMMIT');
	return ($rest, $reader);
});

# one that was rolled back is in progress for the newer of two
compare('not nested', sub {
	my ($rest, $failed) = map { new_writer() } 1 .. 2;

	$rest->run($_) foreach both("UPDATE TAB SET v = v || ' rest' WHERE id = 1");
	end($failed, 'ROLLBACK');
	my $before = new_reader();
	sql(join '; ', both("UPDATE TAB SET v = v || ' before' WHERE id = 2"));
	my $reader = new_reader();
	sql(join '; ', both("UPDATE TAB SET v = v || ' next' WHERE id = 3"));
	my $after = new_reader();
	return ($rest, $before, $reader, $after);
});

$node->stop;
done_testing();
