# Memory in pieces that are too short for a row, and nobody who may put them together: the row is written all the same.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no memory of its own' if $ENV{ROSE_STANDIN};

my $node = rose_node('pieces', "rose.memtable_size = '4MB'", "rose.spill_interval = '1h'", 'autovacuum = off', 'fsync = off',
	'max_prepared_transactions = 20', 'max_connections = 60', 'max_locks_per_transaction = 500', 'restart_after_crash = on');

stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }

my $pairs = 100;
my $sessions = 8;

sql("CREATE TABLE z (id int) USING rose");
sql(join '', map { "CREATE TABLE idle$_ (id int) USING rose; CREATE TABLE between$_ (id int, doc text) USING rose;" } 1 .. $pairs);
foreach my $table ('t', 'h')
{
	my $am = $table eq 't' ? 'rose' : 'heap';

	sql("CREATE TABLE $table (id int PRIMARY KEY, v int, doc text) USING $am; CREATE TABLE ${table}_keyless (id int, doc text) USING $am;"
		  . " INSERT INTO $table SELECT g, 0, 'old' FROM generate_series(1, 20) g; INSERT INTO ${table}_keyless SELECT g, 'old' FROM generate_series(1, 20) g");
}

# A page for a transaction that has locked its table and is idle, then seven pages for somebody else, and so on. No worker
# looks after that meanwhile, nor a helper, who comes if it takes long.
my $control = RoseTest::Session->new($node);
my @idle = map { RoseTest::Session->new($node) } 1 .. $sessions;

$control->run("SELECT stop_at('spill-planned', 'wait', 'worker', 0, 0)");
$_->run('BEGIN') foreach @idle;
foreach my $i (1 .. $pairs)
{
	$idle[ $i % $sessions ]->run("LOCK TABLE idle$i; INSERT INTO idle$i VALUES ($i)");
	$control->run("INSERT INTO between$i SELECT g, repeat('x', 1000) FROM generate_series(1, 21) g");
}
$control->run("SELECT go_on('spill-planned')");
sql("SELECT rose.spill('between$_')") foreach 1 .. $pairs;
my $used = sql('SELECT used_bytes FROM rose.stat_memory');
cmp_ok($used, '<', 1_000_000, "most of memory is free ($used)");

# The same for both tables. All of a row of a million bytes has to be in one piece.
my $writer = RoseTest::Session->new($node);

$writer->run("SET statement_timeout = '50s'");

sub both
{
	my ($what, $sql) = @_;

	foreach my $table ('t', 'h')
	{
		eval { $writer->run($sql =~ s/\bTAB/$table/gr) };
		is($@, '', "$what: $table");
		$writer->{err} = '';
	}
	return;
}

sub contents { return sql("SELECT count(*), md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))) FROM $_[0] t") }

sub compare
{
	my ($what) = @_;

	is(contents("t$_"), contents("h$_"), "$what: t$_") foreach ('', '_keyless');
	is(sql("SELECT count(*) FROM rose.check('$_')"), 0, "$what: rose.check of $_") foreach ('t', 't_keyless');
	return;
}

my $large = sub { "repeat(md5($_[0]::text), 31000)" };

both('an insert', "INSERT INTO TAB VALUES (101, 1, " . $large->(1) . ")");
both('many', "INSERT INTO TAB SELECT g, 1, " . $large->('g') . " FROM generate_series(110, 113) g");
both('without a key', "INSERT INTO TAB_keyless SELECT g, " . $large->('g') . " FROM generate_series(110, 112) g");
both('an update', "UPDATE TAB SET v = v + 1, doc = " . $large->(2) . " WHERE id = 1");
both('an update of a row in memory', "BEGIN; UPDATE TAB SET v = v + 1 WHERE id = 2; UPDATE TAB SET doc = " . $large->(3) . ", v = v + 1 WHERE id = 2; UPDATE TAB SET v = v + 1 WHERE id = 2; COMMIT");
both('an update that moves the row', "UPDATE TAB SET id = 203, doc = " . $large->(4) . " WHERE id = 3");
both('an update without a key', "UPDATE TAB_keyless SET doc = " . $large->(5) . " WHERE id = 4");
both('an upsert', "INSERT INTO TAB VALUES (5, 5, 'x') ON CONFLICT (id) DO UPDATE SET doc = " . $large->(6));
both('a savepoint', "BEGIN; SAVEPOINT s; UPDATE TAB SET doc = " . $large->(7) . " WHERE id = 6; ROLLBACK TO s; UPDATE TAB SET v = 60 WHERE id = 6;"
	  . " SAVEPOINT s; UPDATE TAB SET doc = " . $large->(8) . " WHERE id = 7; RELEASE s; COMMIT");
both('a rollback', "BEGIN; UPDATE TAB SET doc = " . $large->(9) . " WHERE id IN (8, 9); ROLLBACK");
compare('written');

eval { $writer->run("INSERT INTO t VALUES (101, 1, " . $large->(1) . ")") };
like($@, qr/duplicate key/, 'a duplicate is refused');
$writer->{err} = '';

# Others see none of it before the commit, and wait; locks of others on the row are kept.
{
	my $locker = RoseTest::Session->new($node);
	my ($rc, $out, $err);

	$locker->run("BEGIN; SELECT FROM t WHERE id = 10 FOR KEY SHARE");
	$writer->run("BEGIN; UPDATE t SET doc = " . $large->(10) . ", v = 10 WHERE id = 10");
	is(sql('SELECT v, doc FROM t WHERE id = 10'), '0|old', 'not seen before the commit');
	($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; UPDATE t SET v = 11 WHERE id = 10");
	like($err, qr/lock timeout/, 'others wait');
	$writer->run('COMMIT');
	is(sql('SELECT v, length(doc) FROM t WHERE id = 10'), '10|992000', 'and seen then');
	($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms'; DELETE FROM t WHERE id = 10");
	like($err, qr/lock timeout/, 'the lock on the row is still there');
	$locker->run('COMMIT');
	sql("UPDATE h SET doc = " . $large->(10) . ", v = 10 WHERE id = 10");

	# Its key comes to memory in the last moment.
	$control->run("SELECT stop_at('direct-begun', 'wait', 'client')");
	$writer->start("UPDATE t SET doc = " . $large->(13) . ", v = 13 WHERE id = 13");
	wait_for_stop($node);
	$locker->run("BEGIN; SELECT FROM t WHERE id = 13 FOR KEY SHARE");
	$control->run("SELECT go_on('direct-begun')");
	$writer->finish;
	$locker->run("ROLLBACK; UPDATE t SET v = v + 1 WHERE id = 13");
	sql("UPDATE h SET doc = " . $large->(13) . ", v = 14 WHERE id = 13");

	# Somebody else writes it in the last moment.
	$control->run("SELECT stop_at('direct-begun', 'wait', 'client')");
	$writer->start("UPDATE t SET doc = " . $large->(14) . ", v = v + 1 WHERE id = 14");
	wait_for_stop($node);
	$locker->run("BEGIN; UPDATE t SET v = 100 WHERE id = 14");
	$control->run("SELECT go_on('direct-begun')");
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted)") or die;
	$locker->run("UPDATE t SET v = 141 WHERE id = 15; COMMIT; SELECT rose.spill('t')");
	$writer->finish;
	sql("UPDATE h SET v = 141 WHERE id = 15; UPDATE h SET doc = " . $large->(14) . ", v = 101 WHERE id = 14");

	# Somebody else writes its key and takes that back: this is in memory, which readers look at first.
	$control->run("SELECT stop_at('direct-begun', 'wait', 'client')");
	$writer->start("INSERT INTO t VALUES (17000, 17, " . $large->(17) . ")");
	wait_for_stop($node);
	$locker->run("INSERT INTO t VALUES (17000, 1, 'x'); DELETE FROM t WHERE id = 17000");
	$control->run("SELECT go_on('direct-begun')");
	$writer->finish;
	is(sql('SELECT v FROM t WHERE id = 17000'), 17, 'found by its key');
	sql("INSERT INTO h VALUES (17000, 17, " . $large->(17) . ")");

	# Somebody else copies its key, when its run is built already.
	my $file = $node->basedir . '/copy';
	append_to_file($file, join '', map { "$_\t2\tx\n" } 17001, 17002, 17003);
	$control->run("SELECT stop_at('direct-built', 'wait', 'client')");
	$writer->start("INSERT INTO t VALUES (17002, 17, " . $large->(17) . ")");
	wait_for_stop($node);
	$locker->run("COPY t FROM '$file'");
	$control->run("SELECT go_on('direct-built')");
	eval { $writer->finish };
	like($@, qr/duplicate key/, 'a key that was copied meanwhile is a duplicate');
	$writer->{err} = '';
	is(sql('SELECT v FROM t WHERE id = 17002'), 2, 'and the copied row is the one');
	$locker->run("COPY h FROM '$file'; DELETE FROM h WHERE id = 17002; DELETE FROM t WHERE id = 17002");

	# It is written when somebody who copies it has looked for it already, and there is nothing to spill before.
	$locker->run("DELETE FROM h WHERE id IN (17001, 17003); DELETE FROM t WHERE id IN (17001, 17003)");
	sql("SELECT rose.spill('t')");
	$control->run("SELECT stop_at('insert-looked', 'wait', 'client')");
	$locker->start("COPY t FROM '$file'");
	wait_for_stop($node);
	$writer->run("INSERT INTO t VALUES (17002, 17, " . $large->(17) . ")");
	$control->run("SELECT go_on('insert-looked')");
	eval { $locker->finish };
	like($@, qr/duplicate key/, 'a key that was written past memory meanwhile is a duplicate');
	$locker->{err} = '';
	is(sql('SELECT v FROM t WHERE id = 17002'), 17, 'and the row past memory is the one');
	sql("INSERT INTO h VALUES (17002, 17, " . $large->(17) . ")");
	$locker->end;
}

# An error in between leaves nothing behind, nor does a session that is terminated.
foreach my $point ('direct-begun', 'direct-built')
{
	my $victim = RoseTest::Session->new($node);

	$control->run("SELECT stop_at('$point', 'error', 'client')");
	$writer->run("BEGIN; SAVEPOINT s");
	eval { $writer->run("UPDATE t SET doc = " . $large->(16) . " WHERE id = 16") };
	like($@, qr/ERROR/, "an error at $point");
	$writer->{err} = '';
	$writer->run("ROLLBACK TO s; UPDATE t SET v = v + 1 WHERE id = 16; COMMIT; UPDATE h SET v = v + 1 WHERE id = 16");
	is($writer->{err}, '', 'and the transaction goes on');

	$control->run("SELECT stop_at('$point', 'terminate', 'client')");
	eval { $victim->run("UPDATE t SET doc = " . $large->(18) . " WHERE id = 18") };
	like($@ . $victim->{err}, qr/end at stop point/, "a termination at $point");
	$victim->end;
}
is(sql("SELECT count(*) FROM pg_locks WHERE locktype = 'page'"), 0, 'no lock is left');
compare('beside others');

# Prepared, and a crash: what was committed is there.
both('prepared', "BEGIN; UPDATE TAB SET doc = " . $large->(11) . " WHERE id = 11; PREPARE TRANSACTION 'TAB'");
both('before a crash', "UPDATE TAB SET doc = " . $large->(12) . " WHERE id = 12");
$control->run("SELECT stop_at('direct-begun', 'crash', 'client')");
eval { $writer->run("UPDATE t SET doc = " . $large->(19) . " WHERE id = 19") };
isnt($@, '', 'a crash');
$node->wait_for_log(qr/was terminated by signal 9/);
wait_until_up($node);
sql("COMMIT PREPARED '$_'") foreach ('t', 'h');
compare('after a crash');
sql("SELECT rose.merge('$_')") foreach ('t', 't_keyless');
compare('merged');

eval { $_->end } foreach (@idle, $control, $writer);
$node->stop;
done_testing();
