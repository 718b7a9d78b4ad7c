# A transaction that only inserts, for hours perhaps, does not keep what merges replace meanwhile: before each row it lets go of what it has met. One that has read
# rows of the table, or is reading them, keeps them; and what was inserted is found by its names all the same, by triggers, deferred constraints and ctids.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no merges' if $ENV{ROSE_STANDIN};

my $node = rose_node('inserter', "rose.memtable_size = '8MB'", "rose.spill_interval = '1h'", 'rose.max_merge_workers = 0', 'autovacuum = off', 'fsync = off');
my $contents = "SELECT count(*) || ' ' || sum(v) || ' ' || md5(string_agg(id || ' ' || v || t, '' ORDER BY id)) FROM";
my $next;			# key

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub replaced { return sql("SELECT sum(replaced_bytes) FROM rose.stat_space WHERE relid = 't'::regclass OR relid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 't'::regclass)") }

sub make_table
{
	my ($columns) = @_;

	sql("DROP TABLE IF EXISTS t, h CASCADE");
	sql("CREATE TABLE $_->[0] ($columns) USING $_->[1]; INSERT INTO $_->[0] SELECT g, 0, repeat(md5(g::text), 5) FROM generate_series(1, 3000) g") foreach [ 't', 'rose' ], [ 'h', 'heap' ];
	sql("SELECT rose.spill('t')");
	$next = 10000;
	return;
}

# Others write, spill and merge: all components are replaced.
sub others
{
	$next += 1000;
	sql("INSERT INTO $_ SELECT g, 1, md5(g::text) FROM generate_series($next, $next + 500) g") foreach qw(t h);
	sql("SELECT rose.spill('t')");
	sql("SELECT rose.merge('t')");
	return;
}

my $row = 500000;
sub row { $row++; return "($row, 2, 'row')" }

# The transaction begins as it is told, while others merge, inserts a row in this way, and ends.
sub case
{
	my ($what, $columns, $begin, $insert, $keeps, $end) = @_;
	my $session = RoseTest::Session->new($node);
	my @rows;

	make_table($columns // 'id int PRIMARY KEY, v int, t text');
	sql('CREATE INDEX ON t (v)') if $what =~ /index/;
	push @rows, row();
	$session->run('CREATE TEMP TABLE IF NOT EXISTS names (name tid); BEGIN' . ($what =~ /repeatable/ ? ' ISOLATION LEVEL REPEATABLE READ' : $what =~ /serializable/ ? ' ISOLATION LEVEL SERIALIZABLE' : ''));
	$session->run($_) foreach map { s/ROW/$rows[0]/r } @$begin;
	others();
	cmp_ok(replaced(), '>', 0, "$what: what the transaction has met is kept");
	foreach (1 .. 2)
	{
		push @rows, row();
		$session->run($insert =~ s/ROW/$rows[-1]/r);
		$keeps ? cmp_ok(replaced(), '>', 0, "$what: ... also when it inserts") : is(replaced(), 0, "$what: but not when it inserts");
		others();
		# room that is free is used
		others();
	}
	$session->run($_) foreach @{ $end // [] };
	$session->run('COMMIT');
	$session->end;
	sql('INSERT INTO h VALUES ' . join ', ', @rows[($begin->[0] =~ /ROW/ ? 0 : 1) .. $#rows]);
	is(sql("$contents t"), sql("$contents h"), "$what: rows");
	is(sql("SELECT string_agg(c::text, '; ') FROM rose.check('t') c"), '', "$what: rose.check");
	return;
}

my $plain = 'INSERT INTO t VALUES ROW';
my $select = "INSERT INTO t SELECT * FROM (VALUES ROW) v";

case('inserted', undef, [$plain], $plain, 0);
case('repeatable read', undef, [$plain], $select, 0);
case('serializable', undef, [$plain], $plain, 0);
case('a subtransaction', undef, ['SAVEPOINT a', $plain =~ s/ROW/(9000, 2, 'row')/r, 'ROLLBACK TO a'], $plain, 0);
case('no key', 'id int, v int, t text', [$plain], $plain, 0);
case('an index', undef, [$plain], $plain, 0);
case('names of its own rows', undef, [$plain], 'WITH w AS (INSERT INTO t VALUES ROW RETURNING ctid) INSERT INTO names SELECT ctid FROM w', 0,
	["DO \$\$ BEGIN IF (SELECT string_agg(t, ' ') FROM t WHERE ctid = ANY (ARRAY(SELECT name FROM names))) IS DISTINCT FROM 'row row' THEN RAISE 'rows are missing'; END IF; END \$\$"]);
case('nothing was written before', undef, ['SELECT count(*) FROM t WHERE false', 'DECLARE c CURSOR FOR SELECT * FROM t', 'FETCH c', 'CLOSE c'], $plain, 1);

# who reads
my @whole = ("DO \$\$ BEGIN IF (SELECT count(*) FROM r WHERE t = repeat(md5(id::text), 5)) <> 3000 THEN RAISE 'rows are missing'; END IF; END \$\$");
case('a cursor', undef, [$plain, 'DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id', 'FETCH 5 FROM c'], $plain, 1, ["CREATE TEMP TABLE r AS SELECT 1; FETCH ALL FROM c"]);
case('rows that were read', undef, [$plain, 'SELECT count(*) FROM t'], $plain, 1);
case('ctids', undef, [ $plain, 'INSERT INTO names SELECT ctid FROM t WHERE id <= 3000' ], $plain, 1,
	["DO \$\$ BEGIN IF (SELECT count(*) FROM t WHERE ctid = ANY (ARRAY(SELECT name FROM names)) AND t = repeat(md5(id::text), 5)) <> 3000 THEN RAISE 'rows are missing'; END IF; END \$\$"]);
case('a sample', undef, [$plain, 'DECLARE c CURSOR FOR SELECT id FROM t TABLESAMPLE SYSTEM (100)', 'FETCH 5 FROM c'], $plain, 1, ['FETCH ALL FROM c']);

# COPY, and names that are asked for later: of triggers and of deferred constraints
sub later
{
	my ($what, $setup, $insert) = @_;
	my $session = RoseTest::Session->new($node);

	make_table('id int PRIMARY KEY, v int, t text');
	sql($setup);
	$session->run('BEGIN');
	foreach my $i (0 .. 3)
	{
		my $from = 100000 + $i * 1000;

		$session->run($insert =~ s/START/$from/gr);
		sql("INSERT INTO h SELECT g, 3, 'x' FROM generate_series($from, $from + 99) g");
		is(replaced(), 0, "$what: nothing is kept when it has inserted") if $i > 0;
		others();
	}
	$session->run('COMMIT');
	$session->end;
	is(sql("$contents t"), sql("$contents h"), "$what: rows");
	is(sql("SELECT string_agg(c::text, '; ') FROM rose.check('t') c"), '', "$what: rose.check");
	return;
}

my $series = "INSERT INTO t SELECT g, 3, 'x' FROM generate_series(START, START + 99) g";
later('many', '', $series);
later('copy', '', "COPY t FROM PROGRAM 'for i in \$(seq START \$((START + 99))); do echo \"\$i,3,x\"; done' (FORMAT csv)");
later('a deferred trigger', q{CREATE TABLE seen (id int); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO seen VALUES (NEW.id); RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER note AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.v = 3) EXECUTE FUNCTION note()}, $series);
is(sql('SELECT count(DISTINCT id) FROM seen'), 400, 'a deferred trigger: it has got all rows');
later('a deferred foreign key', 'CREATE TABLE known (v int PRIMARY KEY); INSERT INTO known VALUES (0), (1), (3); ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES known DEFERRABLE INITIALLY DEFERRED', $series);

# a temporary table, which its session merges
{
	my $session = RoseTest::Session->new($node);

	$session->run("SET temp_buffers = '1MB'; CREATE TEMP TABLE mine (id int PRIMARY KEY, v int, t text) USING rose; BEGIN");
	$session->run("INSERT INTO mine SELECT (g * 7919::bigint) % 1000003, g, md5(g::text) FROM generate_series($_ * 20000, $_ * 20000 + 19999) g") foreach 0 .. 4;
	cmp_ok($session->run("SELECT replaced_bytes FROM rose.space('mine')"), '<', 1000000, 'a temporary table: what was merged is not kept');
	is($session->run('SELECT count(*), sum(v) FROM mine'), '100000|4999950000', 'a temporary table: rows');
	$session->run('COMMIT');
	$session->end;
}
$node->stop;
done_testing();
