# A constraint of a table that a subscription feeds is durable at once, rows of the stream are not: a crash brings older ones back. So commands that look at
# rows, and make the planner believe what they have seen, are refused while there are such changes, and what holds when they are done holds after a crash.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '1h'", "rose.memtable_size = '8MB'", 'rose.max_subscriptions = 4', 'autovacuum = off');

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub applied { wait_for_apply($upstream, $replica); return }

my $undurable = qr/cannot add or validate a constraint of table "\w+" while a subscription has changes in it that are not yet durable\n.*DETAIL:  A crash would bring back rows that have not been checked\.\n.*HINT:  Call rose\.spill/s;

# Each has a table of its own: name => [ what comes before, the command, what no row may be, tables ]. Rows have id, a, and a text.
my %cases = (
	not_null => [ '', 'ALTER TABLE not_null ALTER a SET NOT NULL', 'a IS NULL' ],
	chk => [ '', 'ALTER TABLE chk ADD CHECK (a > 0)', 'a IS NULL OR a <= 0' ],
	valid => [ 'ALTER TABLE valid ADD CONSTRAINT c CHECK (a IS NOT NULL AND a > 0) NOT VALID', 'ALTER TABLE valid VALIDATE CONSTRAINT c', 'a IS NULL OR a <= 0' ],
	col => [ '', 'ALTER TABLE col ADD more int CHECK (a IS NOT NULL)', 'a IS NULL' ],
	typ => [ '', 'ALTER TABLE typ ALTER a TYPE int, ADD CONSTRAINT c CHECK (a IS NOT NULL)', 'a IS NULL' ],
	dom_check => [ '', 'ALTER DOMAIN d_check ADD CHECK (VALUE IS NOT NULL AND VALUE > 0)', 'a IS NULL OR a <= 0' ],
	dom_valid => [ 'ALTER DOMAIN d_valid ADD CONSTRAINT c CHECK (VALUE IS NOT NULL) NOT VALID', 'ALTER DOMAIN d_valid VALIDATE CONSTRAINT c', 'a IS NULL' ],
	dom_null => [ '', 'ALTER DOMAIN d_null SET NOT NULL', 'a IS NULL' ],
	dom_sub => [ '', 'ALTER DOMAIN d_base ADD CHECK (VALUE IS NOT NULL)', 'a IS NULL' ],
	part_null => [ '', 'ALTER TABLE part_null ALTER a SET NOT NULL', 'a IS NULL' ],
	part_check => [ '', 'ALTER TABLE part_check ADD CHECK (a IS NOT NULL)', 'a IS NULL' ],
	part_valid => [ 'ALTER TABLE part_valid ADD CONSTRAINT c CHECK (a IS NOT NULL) NOT VALID', 'ALTER TABLE part_valid VALIDATE CONSTRAINT c', 'a IS NULL' ],
	att => [ '', 'ALTER TABLE whole ATTACH PARTITION att FOR VALUES FROM (1) TO (100)', 'a IS NULL OR a NOT BETWEEN 1 AND 99' ],
	prep => [ '', 'ALTER TABLE prep ALTER a SET NOT NULL', 'a IS NULL' ],
	gone => [ '', 'ALTER TABLE gone ADD more int NOT NULL', 'more IS NULL' ],
);
my @names = sort keys %cases;
# their locks let an epoch be written, for which they wait
my @waiting = qw(valid part_valid dom_check dom_valid dom_null dom_sub);
my %waits = map { $_ => 1 } @waiting;
my %column = (dom_check => 'd_check', dom_valid => 'd_valid', dom_null => 'd_null', dom_sub => 'd_sub');

up("CREATE TABLE $_ (id int PRIMARY KEY, a int, b text); INSERT INTO $_ SELECT g, g, 'x' FROM generate_series(1, 20) g") foreach @names, 'slow', 'def';
up('CREATE PUBLICATION p FOR ALL TABLES');
down('CREATE DOMAIN d_check int; CREATE DOMAIN d_valid int; CREATE DOMAIN d_null int; CREATE DOMAIN d_base int; CREATE DOMAIN d_sub d_base; CREATE ROLE owner; CREATE SCHEMA apart; GRANT ALL ON SCHEMA public, apart TO owner');
foreach my $name (@names, 'slow', 'def')
{
	my $columns = 'id int PRIMARY KEY, a ' . ($column{$name} // 'int') . ', b text';

	down($name =~ /^part/ ? "CREATE TABLE $name ($columns) PARTITION BY RANGE (id); CREATE TABLE ${name}_1 PARTITION OF $name FOR VALUES FROM (1) TO (15) USING rose; CREATE TABLE ${name}_2 PARTITION OF $name DEFAULT USING rose"
		: "CREATE TABLE $name ($columns) USING rose");
}
down('CREATE TABLE whole (id int, a int, b text) PARTITION BY RANGE (a)');
subscribe($upstream, $replica);
foreach my $name (@names)
{
	# the row that is bad, and durable, and good when it is looked at
	up($name eq 'gone' ? 'UPDATE gone SET a = 3' : "UPDATE $name SET a = NULL WHERE id = 17");
}
applied();
down("SELECT rose.spill('not_null')");
up($_ eq 'gone' ? 'DELETE FROM gone' : "UPDATE $_ SET a = 17 WHERE id = 17") foreach @names;
applied();

# --- as long as changes are not durable
foreach my $name (@names)
{
	down($cases{$name}[0]) if $cases{$name}[0] ne '';
	next if $waits{$name};
	my $expected = $name eq 'att' ? qr/cannot attach a table while a subscription has changes in table "att" that are not yet durable/ : $undurable;

	like(error_of($replica, $cases{$name}[1]), $expected, "$name: refused");
	like(error_of($replica, "BEGIN; SAVEPOINT a; DO \$do\$BEGIN EXECUTE '$cases{$name}[1]'; EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE EXCEPTION '%', SQLERRM; END\$do\$"), qr/not yet durable/, "$name: refused in a block");
}
is(down("DO \$do\$BEGIN ALTER TABLE not_null ALTER a SET NOT NULL; EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END\$do\$; SELECT attnotnull FROM pg_attribute WHERE attrelid = 'not_null'::regclass AND attname = 'a'"),
	'f', 'what was refused in a subtransaction has left nothing');
down('ALTER TABLE chk OWNER TO owner; ALTER TABLE chk SET SCHEMA apart');
like(error_of($replica, 'SET ROLE owner; SET search_path = pg_catalog; ALTER TABLE apart.chk ADD CHECK (a > 0)'), $undurable, 'refused to the owner of a table, whatever is in his search_path');
like(error_of($replica, 'BEGIN; ALTER TABLE prep ALTER a SET NOT NULL; PREPARE TRANSACTION \'x\''), $undurable, 'and in a transaction that is to be prepared');
# what looks at no row, or says nothing of rows of before, or has its own ways
up('UPDATE def SET a = NULL WHERE id = 3');
applied();
foreach my $sql ('ALTER TABLE def ADD CONSTRAINT nv CHECK (a > 100 AND a IS NOT NULL) NOT VALID', 'ALTER TABLE def DROP CONSTRAINT nv', 'ALTER TABLE def ADD more int NOT NULL DEFAULT 7', 'ALTER TABLE def ADD less int',
	'ALTER TABLE def ALTER more SET STATISTICS 10', 'ALTER TABLE def ALTER id SET NOT NULL', 'ALTER TABLE def RENAME a TO aa; ALTER TABLE def RENAME aa TO a',
	'CREATE INDEX ON def (a)', 'CREATE INDEX ON not_null (a)', 'CREATE TABLE other (a int NOT NULL CHECK (a > 1), PRIMARY KEY (a)) USING rose; ALTER TABLE other ADD UNIQUE (a)',
	'CREATE TABLE referencing (a int REFERENCES def) USING rose', 'ALTER TABLE not_null ALTER b SET DEFAULT \'y\'')
{
	is(error_of($replica, $sql), '', "not refused: $sql");
}
is(down('SET enable_seqscan = off; SELECT string_agg(id::text, \',\' ORDER BY id) FROM not_null WHERE a BETWEEN 16 AND 18'), '16,17,18', 'by an index that was made meanwhile');

# --- what does not lock a table so that its changes cannot be made durable has that done
foreach my $name (@waiting)
{
	up("UPDATE $name SET a = 17 WHERE id = 17");
	applied();
	is(error_of($replica, "BEGIN; SAVEPOINT a; $cases{$name}[1]; ROLLBACK TO a; COMMIT"), '', "$name: in a subtransaction that is undone, with changes that were not durable");
	up("UPDATE $name SET a = 17 WHERE id = 17");
	applied();
	is(error_of($replica, $cases{$name}[1]), '', "$name: done, with changes that were not durable");
}
up('UPDATE valid SET a = 17 WHERE id = 17');
applied();
like(error_of($replica, 'BEGIN; ALTER TABLE valid ADD CONSTRAINT d CHECK (a > 0) NOT VALID; ALTER TABLE valid VALIDATE CONSTRAINT d'), $undurable, 'but not in a transaction that has the table for itself');

# --- when they are durable
$cases{chk}[1] =~ s/TABLE chk/TABLE apart.chk/;
down("SELECT rose.spill('not_null')");
foreach my $name (@names)
{
	next if $name eq 'prep';
	is(error_of($replica, "BEGIN; SAVEPOINT a; $cases{$name}[1]; ROLLBACK TO a; COMMIT"), '', "$name: in a subtransaction that is undone");
	is(error_of($replica, $cases{$name}[1]), '', "$name: done");
}
down("BEGIN; $cases{prep}[1]; PREPARE TRANSACTION 'alters'");
# changes that come now are looked at; those of a table that is altered wait for who has prepared that
up("UPDATE $_ SET a = 5 WHERE id = 5; UPDATE $_ SET a = 15 WHERE id = 15") foreach grep { $_ ne 'prep' && $_ ne 'gone' } @names;
applied();
up('UPDATE prep SET a = 5 WHERE id = 5');

sub satisfied
{
	my ($when) = @_;

	foreach my $name (@names)
	{
		my $table = $name eq 'chk' ? 'apart.chk' : $name;

		is(down("SELECT count(*) FROM (SELECT *, a + 0 AS x FROM $table) s WHERE " . ($cases{$name}[2] =~ s/\ba\b/x/gr)), 0, "$when: $name has no row that violates");
	}
	return;
}
crash($replica);
start_without_replication($replica);
down("COMMIT PREPARED 'alters'");
satisfied('after a crash');
is(down('SELECT count(*) FROM def WHERE more = 7'), 20, 'and a column that was added has its default');
replication_again($replica);
applied();
satisfied('when the stream has come again');
is(down('SELECT count(*) FROM prep WHERE a = id'), 20, 'what has waited is there');
foreach my $name (qw(not_null prep chk valid part_null part_check part_valid att dom_check dom_null))
{
	my $table = $name eq 'chk' ? 'apart.chk' : $name;

	is(table_hash($replica, $table), table_hash($upstream, $name), "$name is as upstream");
}

# --- VALIDATE lets the stream go on; what has come meanwhile must be durable when it ends
down(<<'SQL');
CREATE FUNCTION takes_long(int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN
	IF current_setting('application_name') = 'validates' THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
	RETURN $1 IS NOT NULL;
END$$;
ALTER TABLE slow ADD CONSTRAINT c CHECK (takes_long(a)) NOT VALID;
SELECT rose.spill('slow');
SQL
my $holder = RoseTest::Session->new($replica);
my $validates = RoseTest::Session->new($replica, "application_name='validates'");

$holder->run('SELECT pg_advisory_lock(77)');
$validates->start('ALTER TABLE slow VALIDATE CONSTRAINT c');
$replica->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)") or die 'nobody validates';
up('UPDATE slow SET a = 500 WHERE id = 5');
applied();
is(down('SELECT a FROM slow WHERE id = 5'), 500, 'a change that comes during VALIDATE is applied');
$holder->run('SELECT pg_advisory_unlock(77)');
$validates->finish;
is(down("SELECT convalidated FROM pg_constraint WHERE conname = 'c' AND conrelid = 'slow'::regclass"), 't', 'and made durable before VALIDATE ends');
# however many come
my $busy = RoseTest::Session->new($upstream);
down('ALTER TABLE slow ADD CONSTRAINT e CHECK (a < 10000) NOT VALID');
$busy->start("DO 'BEGIN FOR i IN 1..3000 LOOP UPDATE slow SET a = i WHERE id = 6; COMMIT; END LOOP; END'");
$replica->poll_query_until('postgres', 'SELECT a > 20 FROM slow WHERE id = 6') or die 'nothing comes';
is(error_of($replica, 'ALTER TABLE slow VALIDATE CONSTRAINT e'), '', 'while changes keep coming');
$busy->finish;
$busy->end;
applied();
# a deadlock, with what the transaction has locked
up('UPDATE def SET a = 4 WHERE id = 4; UPDATE slow SET a = 4 WHERE id = 4');
applied();
down('ALTER TABLE slow ADD CONSTRAINT f CHECK (a < 20000) NOT VALID');
like(error_of($replica, "SET deadlock_timeout = '50ms'; BEGIN; LOCK TABLE def; ALTER TABLE slow VALIDATE CONSTRAINT f"), $undurable, 'nobody waits for an epoch that needs what he has locked');
# from its end until that of its transaction nothing is applied
$validates->run('BEGIN; ALTER TABLE slow VALIDATE CONSTRAINT f');
is(down("SELECT count(*) FROM pg_locks WHERE relation = 'slow'::regclass AND mode = 'ShareLock' AND granted"), 1, 'who has validated keeps changes out');
up('UPDATE slow SET a = 600 WHERE id = 5');
$replica->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'slow'::regclass AND NOT granted)") or die 'nobody waits';
$validates->run('COMMIT');
applied();
is(down('SELECT a FROM slow WHERE id = 5'), 600, 'until he commits');
$_->end foreach $holder, $validates;

# --- a foreign partition beside a default one, whose constraint the planner believes
down("SELECT rose.spill('def')");
down('CREATE TABLE far (LIKE def) PARTITION BY LIST (a); ALTER TABLE far ATTACH PARTITION def DEFAULT; CREATE FOREIGN DATA WRAPPER away; CREATE SERVER away FOREIGN DATA WRAPPER away');
up('UPDATE def SET a = 2 WHERE id = 3');
applied();
my $beside = 'CREATE FOREIGN TABLE far_9 PARTITION OF far FOR VALUES IN (900) SERVER away';
like(error_of($replica, $beside), qr/cannot add a partition beside the default one while a subscription has changes in table "def" that are not yet durable/, 'a foreign partition: refused');
down("SELECT rose.spill('def')");
is(error_of($replica, "$beside; DROP FOREIGN TABLE far_9; ALTER TABLE far DETACH PARTITION def; DROP TABLE far"), '', '... and not when they are');

# --- when changes keep coming
up('UPDATE def SET a = 1 WHERE id = 3');
applied();
like(error_of($replica, 'ALTER TABLE def ALTER a SET NOT NULL'), $undurable, 'refused again');
down("SELECT rose.alter_subscription('s', enabled => false)");
is(error_of($replica, 'ALTER TABLE def ALTER a SET NOT NULL'), '', 'a subscription that is disabled makes its changes durable');
$replica->stop;
$upstream->stop;
done_testing();
