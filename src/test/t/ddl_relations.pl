
# Tables that act on each other, heap and rose compared: foreign keys in both directions with all actions, checked at once and
# at COMMIT, between rose tables and between rose and heap; triggers for rows and statements, with transition tables;
# generated columns, rules, views, inheritance, row security, partitions that reference and are referenced.
#
# The same random SQL runs on both, with spills and merges of the rose tables in between. Environment:
#
#   RELATIONS_SEED        repeat a run
#   RELATIONS_STATEMENTS  how many, default 1000
#
# At the first difference the statement, both answers and the statements before it are printed.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseSqlTables qw(rare pick);
use RoseTest;
use Test::More;

my $wanted = $ENV{RELATIONS_STATEMENTS} // 1000;
my $batch_size = 250;
my $seed = seed_random('RELATIONS_SEED');
my $dir = PostgreSQL::Test::Utils::tempdir;
my @twins = qw(heap rose);

my $node = rose_node('relations', "statement_timeout = '60s'", 'autovacuum = off', 'fsync = off',
	rose_conf("rose.debug_piece_size = '8kB'", pick("rose.memtable_size = '4MB'", "rose.memtable_size = '64MB'")));
local %ENV = $node->_get_env(PGDATABASE => 'postgres', PGHOST => $node->host, PGPORT => $node->port);

my $ddl = <<'SQL';
CREATE TABLE log (n bigint GENERATED ALWAYS AS IDENTITY, what text, old text, new text);
CREATE TABLE org (id int PRIMARY KEY, name text, boss int REFERENCES org ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE dept (org int REFERENCES org ON UPDATE CASCADE ON DELETE CASCADE, no int, name text, budget numeric DEFAULT 10, PRIMARY KEY (org, no));
CREATE TABLE place (id int PRIMARY KEY, name text) USING heap;
CREATE TABLE emp (note text, id bigint PRIMARY KEY, org int, dno int, salary int CHECK (salary < 5000),
	twice int GENERATED ALWAYS AS (salary * 2) STORED, place int DEFAULT 3 REFERENCES place ON DELETE SET DEFAULT ON UPDATE CASCADE,
	FOREIGN KEY (org, dno) REFERENCES dept ON UPDATE CASCADE ON DELETE SET NULL (dno));
CREATE TABLE badge (id int PRIMARY KEY, emp bigint REFERENCES emp ON DELETE CASCADE ON UPDATE CASCADE) USING heap;
CREATE TABLE strict (id int PRIMARY KEY, emp bigint REFERENCES emp ON DELETE RESTRICT DEFERRABLE, org int, dno int,
	FOREIGN KEY (org, dno) REFERENCES dept MATCH FULL ON UPDATE SET NULL ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE part (id int, day int, a int, emp bigint REFERENCES emp ON DELETE SET NULL ON UPDATE CASCADE, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE part_0 PARTITION OF part FOR VALUES FROM (MINVALUE) TO (5);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (5) TO (10);
CREATE TABLE part_2 PARTITION OF part DEFAULT USING heap;
CREATE TABLE of_part (id int PRIMARY KEY, p int, day int, FOREIGN KEY (p, day) REFERENCES part ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE person (id int PRIMARY KEY, name text);
CREATE TABLE student (year int, PRIMARY KEY (id)) INHERITS (person);
CREATE TABLE teacher (class text) INHERITS (person);
CREATE TABLE doc (id int PRIMARY KEY, owner text, body text);
CREATE TABLE kept (id int PRIMARY KEY, a int);
CREATE TABLE count (k int PRIMARY KEY, n int);

CREATE FUNCTION log_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF TG_OP = 'DELETE' THEN INSERT INTO log (what, old) VALUES (TG_NAME || TG_OP, OLD::text); RETURN OLD; END IF;
	INSERT INTO log (what, old, new) VALUES (TG_NAME || TG_OP, CASE WHEN TG_OP = 'UPDATE' THEN OLD::text END, NEW::text); RETURN NEW;
END $$;
CREATE FUNCTION log_statement() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (what) VALUES (TG_NAME || TG_OP); RETURN NULL; END $$;
CREATE FUNCTION log_old() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO log (what, old) SELECT TG_NAME, string_agg(t::text, ',' ORDER BY t::text) FROM gone t; RETURN NULL; END $$;
CREATE FUNCTION log_new() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO log (what, new) SELECT TG_NAME, string_agg(t::text, ',' ORDER BY t::text) FROM come t; RETURN NULL; END $$;
CREATE FUNCTION log_both() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO log (what, old, new) SELECT TG_NAME, (SELECT string_agg(t::text, ',' ORDER BY t::text) FROM gone t), (SELECT string_agg(t::text, ',' ORDER BY t::text) FROM come t); RETURN NULL; END $$;
CREATE FUNCTION change_emp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.salary < 0 THEN RETURN NULL; END IF;
	IF NEW.salary = 13 THEN UPDATE emp SET note = note || '!' WHERE id = NEW.id + 1; NEW.salary := 23; END IF;
	IF NEW.salary = 14 THEN DELETE FROM badge WHERE emp = NEW.id + 2; NEW.salary := 24; END IF;
	NEW.note := left(coalesce(NEW.note, '') || TG_OP, 60);
	INSERT INTO count VALUES (NEW.salary % 5, 1) ON CONFLICT (k) DO UPDATE SET n = count.n + 1;
	RETURN NEW; END $$;
CREATE FUNCTION within_budget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF (SELECT sum(salary) FROM emp WHERE org = NEW.org AND dno = NEW.dno) > 20000 THEN RAISE 'department % % is over its budget', NEW.org, NEW.dno; END IF;
	RETURN NULL; END $$;
CREATE FUNCTION self_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF OLD.a = 7 AND TG_OP = 'DELETE' OR OLD.a = 7 AND NEW.a <> 8 THEN UPDATE kept SET a = 8 WHERE id = OLD.id; END IF;
	IF OLD.a = 9 AND TG_OP = 'UPDATE' THEN DELETE FROM kept WHERE id = OLD.id; END IF;
	IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
CREATE TRIGGER b_row BEFORE INSERT OR UPDATE ON emp FOR EACH ROW EXECUTE FUNCTION change_emp();
CREATE TRIGGER a_row AFTER INSERT OR UPDATE OR DELETE ON emp FOR EACH ROW EXECUTE FUNCTION log_row();
CREATE TRIGGER b_stmt BEFORE INSERT OR UPDATE OR DELETE ON emp FOR EACH STATEMENT EXECUTE FUNCTION log_statement();
CREATE TRIGGER t_del AFTER DELETE ON emp REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION log_old();
CREATE TRIGGER t_ins AFTER INSERT ON emp REFERENCING NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION log_new();
CREATE TRIGGER t_upd AFTER UPDATE ON emp REFERENCING OLD TABLE AS gone NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION log_both();
CREATE TRIGGER t_part AFTER UPDATE ON part REFERENCING OLD TABLE AS gone NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION log_both();
CREATE TRIGGER t_dept AFTER UPDATE ON dept REFERENCING OLD TABLE AS gone NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION log_both();
CREATE CONSTRAINT TRIGGER budget AFTER INSERT OR UPDATE ON emp DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION within_budget();
CREATE TRIGGER self BEFORE UPDATE OR DELETE ON kept FOR EACH ROW EXECUTE FUNCTION self_update();
CREATE TRIGGER cond AFTER UPDATE OF a ON kept FOR EACH ROW WHEN (OLD.a IS DISTINCT FROM NEW.a) EXECUTE FUNCTION log_row();
CREATE TRIGGER p_row AFTER INSERT OR UPDATE OR DELETE ON part FOR EACH ROW EXECUTE FUNCTION log_row();

CREATE VIEW rich AS SELECT id, salary, org, dno FROM emp WHERE salary > 50 WITH CHECK OPTION;
CREATE VIEW joined AS SELECT e.id, e.salary, d.name FROM emp e JOIN dept d ON d.org = e.org AND d.no = e.dno;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF TG_OP = 'DELETE' THEN DELETE FROM emp WHERE id = OLD.id; RETURN OLD; END IF;
	IF TG_OP = 'INSERT' THEN INSERT INTO emp (id, salary) VALUES (NEW.id, NEW.salary); RETURN NEW; END IF;
	UPDATE emp SET salary = NEW.salary WHERE id = OLD.id; RETURN NEW; END $$;
CREATE TRIGGER inst INSTEAD OF INSERT OR UPDATE OR DELETE ON joined FOR EACH ROW EXECUTE FUNCTION instead();
CREATE RULE keep AS ON DELETE TO kept WHERE OLD.a < 3 DO INSTEAD UPDATE kept SET a = a + 100 WHERE id = OLD.id;
CREATE RULE also AS ON INSERT TO kept DO ALSO INSERT INTO log (what, new) VALUES ('rule', NEW.id);
ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON doc USING (owner = current_user) WITH CHECK (owner = current_user AND id < 100);
CREATE POLICY see ON doc FOR SELECT USING (body LIKE '%public%' OR owner = current_user OR EXISTS (SELECT FROM count WHERE k = doc.id));
GRANT USAGE ON SCHEMA CURRENT_SCHEMA_HERE TO reader;
GRANT ALL ON doc, count TO reader;
SQL

$node->safe_psql('postgres', 'CREATE ROLE reader');
foreach my $twin (@twins)
{
	my $text = $ddl =~ s/CURRENT_SCHEMA_HERE/twin_$twin/r;

	$node->safe_psql('postgres', "CREATE SCHEMA twin_$twin; SET search_path = twin_$twin; SET default_table_access_method = "
		  . ($ENV{ROSE_STANDIN} ? 'heap' : $twin) . "; $text");
}
my @tables = qw(log org dept place emp badge strict part of_part person student teacher doc kept count);
my @leaves = qw(log org dept emp strict part_0 part_1 of_part person student teacher doc kept count);

sub org { return int(rand(12)) }
sub emp { return int(rand(60)) }
sub maybe { return rare(0.15) ? 'NULL' : $_[0] }
sub few { return join(', ', map { $_[0]->() } 1 .. 1 + int(rand($_[1] // 3))) }
sub back { return rare(0.4) ? ' RETURNING *' : '' }

# One statement; each fails in one way only on heap, whatever the order of its rows.
my @kinds = (
	[ 5, sub { 'INSERT INTO org VALUES ' . few(sub { '(' . org() . ", 'o', " . maybe(org()) . ')' }) . pick('', ' ON CONFLICT DO NOTHING', ' ON CONFLICT (id) DO UPDATE SET boss = EXCLUDED.boss') . back() } ],
	[ 2, sub { 'UPDATE org SET id = ' . (12 + org()) . ' WHERE id = ' . org() . back() } ],
	[ 2, sub { 'UPDATE org SET id = id - 12 WHERE id = ' . (12 + org()) . back() } ],
	[ 1, sub { 'DELETE FROM org WHERE id = ' . org() . back() } ],
	[ 6, sub { 'INSERT INTO dept VALUES ' . few(sub { '(' . org() . ', ' . int(rand(4)) . ", 'd')" }) . pick('', ' ON CONFLICT DO NOTHING', ' ON CONFLICT (org, no) DO UPDATE SET budget = dept.budget + 1 WHERE dept.no > 0') . back() } ],
	[ 3, sub { 'UPDATE dept SET no = ' . int(rand(8)) . ' WHERE org = ' . org() . ' AND no = ' . int(rand(8)) . back() } ],
	[ 2, sub { "UPDATE dept SET name = name || 'x', budget = budget + 1 WHERE org < " . org() . back() } ],
	[ 1, sub { 'DELETE FROM dept WHERE org = ' . org() . ' AND no = ' . int(rand(8)) . back() } ],
	[ 3, sub { 'INSERT INTO place VALUES ' . few(sub { '(' . int(rand(6)) . ", 'p')" }) . ' ON CONFLICT DO NOTHING' } ],
	[ 1, sub { 'DELETE FROM place WHERE id = ' . int(rand(6)) } ],
	[ 1, sub { 'UPDATE place SET id = ' . int(rand(6)) . ' WHERE id = ' . int(rand(6)) } ],
	[ 9, sub { 'INSERT INTO emp (id, org, dno, salary, place) SELECT v.* FROM (VALUES ' . few(sub { '(' . join(', ', emp(), org(), maybe(int(rand(4))), pick(-1, 13, 14, int(rand(300)), int(rand(5400))), 'NULL::int') . ')' }, 5) . ') v(id, org, dno, salary, place) ORDER BY 1, 2, 3, 4'
		. pick('', ' ON CONFLICT DO NOTHING', ' ON CONFLICT (id) DO UPDATE SET salary = EXCLUDED.salary') . back() } ],
	[ 3, sub { 'INSERT INTO emp (id, org, dno, salary, place) SELECT ' . emp() . ', org, no, ' . int(rand(200)) . ', ' . maybe(int(rand(6))) . ' FROM dept ORDER BY org, no LIMIT 1' . back() } ],
	[ 6, sub { 'UPDATE emp SET salary = ' . pick(13, 14, -1, int(rand(900))) . ' WHERE id = ' . emp() . back() } ],
	[ 2, sub { 'UPDATE emp SET salary = ' . (30 + int(rand(800))) . ' WHERE id BETWEEN ' . emp() . ' AND ' . emp() . back() } ],
	[ 3, sub { 'UPDATE emp SET id = ' . emp() . ' WHERE id = ' . emp() . back() } ],
	[ 2, sub { 'UPDATE emp e SET org = d.org, dno = d.no FROM dept d WHERE d.org = ' . org() . ' AND d.no = ' . int(rand(4)) . ' AND e.id < ' . emp() . ' RETURNING e.id, d.no' } ],
	[ 3, sub { 'DELETE FROM emp WHERE id = ' . emp() . back() } ],
	[ 1, sub { 'DELETE FROM emp e USING dept d WHERE d.org = e.org AND d.no = e.dno AND d.org = ' . org() . ' RETURNING e.id' } ],
	[ 4, sub { 'INSERT INTO badge VALUES (' . int(rand(100)) . ', ' . emp() . ') ON CONFLICT (id) DO UPDATE SET emp = EXCLUDED.emp' . back() } ],
	[ 4, sub { 'INSERT INTO strict VALUES (' . int(rand(30)) . ', ' . maybe(emp()) . ', ' . pick(org() . ', ' . int(rand(4)), 'NULL, NULL', 'NULL, NULL', 'NULL, 1') . ') ON CONFLICT DO NOTHING' . back() } ],
	[ 2, sub { 'DELETE FROM strict WHERE id < ' . int(rand(30)) } ],
	[ 6, sub { 'INSERT INTO part VALUES ' . few(sub { '(' . int(rand(30)) . ', ' . int(rand(15)) . ', 1, ' . maybe(emp()) . ')' }) . pick('', ' ON CONFLICT DO NOTHING', ' ON CONFLICT (id, day) DO UPDATE SET a = part.a + 1') . back() } ],
	[ 3, sub { 'UPDATE part SET day = ' . int(rand(15)) . ' WHERE id = ' . int(rand(30)) . ' AND day = ' . int(rand(15)) . back() } ],
	[ 2, sub { 'UPDATE part SET a = a + 1 WHERE day < ' . int(rand(15)) } ],
	[ 2, sub { 'DELETE FROM part WHERE day = ' . int(rand(15)) . ' AND id < ' . int(rand(30)) } ],
	[ 4, sub { 'INSERT INTO of_part SELECT ' . int(rand(40)) . ', id, day FROM part ORDER BY id, day OFFSET ' . int(rand(8)) . ' LIMIT 1 ON CONFLICT (id) DO UPDATE SET p = EXCLUDED.p, day = EXCLUDED.day' } ],
	[ 2, sub { 'INSERT INTO ' . pick('person', 'student', 'teacher') . ' (id, name) VALUES (' . int(rand(30)) . ", 'n')" . back() } ],
	[ 2, sub { "UPDATE person SET name = left(name || 'u', 20) WHERE id % 3 = " . int(rand(3)) . ' RETURNING id, name' } ],
	[ 1, sub { 'DELETE FROM person WHERE id = ' . int(rand(30)) } ],
	[ 1, sub { 'UPDATE ONLY person SET id = id + 30 WHERE id = ' . int(rand(30)) } ],
	[ 2, sub { 'INSERT INTO doc VALUES (' . int(rand(120)) . ', ' . pick("'reader'", 'current_user', "'me'") . ', ' . pick("'public'", "'secret'") . ')' . pick('', ' ON CONFLICT DO NOTHING', ' ON CONFLICT (id) DO UPDATE SET body = EXCLUDED.body') . back() } ],
	[ 1, sub { "UPDATE doc SET body = left(body || 'x', 30) WHERE id < " . int(rand(120)) . back() } ],
	[ 1, sub { 'DELETE FROM doc WHERE id = ' . int(rand(120)) . back() } ],
	[ 1, sub { 'SELECT * FROM doc WHERE id < ' . int(rand(120)) . pick('', ' FOR UPDATE') } ],
	[ 5, sub { 'INSERT INTO kept SELECT DISTINCT ON (id) * FROM (VALUES ' . few(sub { '(' . int(rand(12)) . ', ' . pick(7, 9, int(rand(12))) . ')' }, 6) . ') v(id, a) WHERE id NOT IN (SELECT id FROM kept)' } ],
	[ 3, sub { 'UPDATE kept SET a = ' . pick(7, 9, int(rand(12))) . ' WHERE id ' . pick('< 3', '= ', '> 8', '= ') =~ s/= $/'= ' . int(rand(12))/er . back() } ],
	[ 2, sub { 'DELETE FROM kept WHERE id = ' . int(rand(12)) } ],
	[ 2, sub { 'UPDATE rich SET salary = ' . int(rand(100)) . ' WHERE id = ' . emp() . back() } ],
	[ 1, sub { 'INSERT INTO rich (id, salary) VALUES (' . emp() . ', ' . int(rand(100)) . ')' . back() } ],
	[ 1, sub { 'DELETE FROM rich WHERE id = ' . emp() . back() } ],
	[ 1, sub { 'UPDATE joined SET salary = ' . int(rand(100)) . ' WHERE id = ' . emp() . back() } ],
	[ 1, sub { 'DELETE FROM joined WHERE id < ' . int(rand(5)) . back() } ],
	[ 1, sub { 'INSERT INTO joined (id, salary) VALUES (' . emp() . ', 70)' . back() } ],
	[ 2, sub { 'WITH gone AS (DELETE FROM emp WHERE id = ' . emp() . ' RETURNING *), more AS (INSERT INTO count SELECT 50 + id % 5, 1 FROM gone ON CONFLICT (k) DO UPDATE SET n = count.n + 10 RETURNING *), '
		. 'u AS (UPDATE dept SET budget = budget + 1 WHERE org IN (SELECT org FROM gone) RETURNING org, no) SELECT (SELECT count(*) FROM gone), (SELECT sum(n) FROM more), (SELECT count(*) FROM u), count(*) FROM emp' } ],
	[ 2, sub { 'WITH RECURSIVE under AS (SELECT id FROM org WHERE id = ' . org() . ' UNION SELECT o.id FROM org o JOIN under u ON o.boss = u.id) UPDATE org SET name = left(name || \'r\', 20) WHERE id IN (SELECT id FROM under) RETURNING id, name' } ],
	[ 2, sub { 'MERGE INTO emp e USING (SELECT org, no, row_number() OVER (ORDER BY org, no)::int AS r FROM dept) d ON e.id = d.r WHEN MATCHED AND e.salary > 100 THEN DELETE WHEN MATCHED AND e.salary > 40 THEN UPDATE SET salary = e.salary - 20, org = d.org, dno = d.no '
		. 'WHEN NOT MATCHED AND d.r < ' . emp() . ' THEN INSERT (id, org, dno, salary) VALUES (d.r, d.org, d.no, 77)' } ],
	[ 1, sub { 'MERGE INTO part p USING (VALUES ' . few(sub { '(' . int(rand(30)) . ', 3)' }, 1) . ') v(id, day) ON p.id = v.id AND p.day = v.day WHEN MATCHED THEN UPDATE SET day = 7 WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.day, 1, NULL)' } ],
	[ 1, sub { 'TRUNCATE ' . pick('badge', 'strict', 'of_part', 'kept', 'part CASCADE', 'emp CASCADE', 'person') } ],
	[ 2, sub { 'SET CONSTRAINTS ALL ' . pick('IMMEDIATE', 'DEFERRED') } ],
	[ 2, sub { 'SELECT count(*), sum(salary), sum(twice) FROM emp' } ],
	[ 1, sub { 'SELECT * FROM dept d WHERE EXISTS (SELECT FROM emp e WHERE (e.org, e.dno) = (d.org, d.no)) FOR NO KEY UPDATE' } ],
	[ 1, sub { "COPY emp (id, org, dno, salary) FROM stdin;\n" . join('', map { join("\t", emp(), '\N', '\N', int(rand(400))) . "\n" } 1 .. 1 + int(rand(8))) . "\\.\nSELECT count(*) FROM emp" } ],
	[ 1, sub { "COPY part FROM stdin;\n" . join('', map { join("\t", int(rand(30)), int(rand(15)), 1, '\N') . "\n" } 1 .. 1 + int(rand(8))) . "\\.\nSELECT count(*) FROM part" } ],
	[ 0.5, sub { 'DELETE FROM log WHERE length(concat(what, old, new)) % 5 = ' . int(rand(5)) } ]);
my $weight = 0;
$weight += $_->[0] foreach @kinds;

sub statement
{
	my $at = rand($weight);

	foreach my $kind (@kinds)
	{
		$at -= $kind->[0];
		return { sql => $kind->[1]->() } if $at < 0;
	}
	return { sql => 'SELECT 1' };
}

sub block
{
	my @block;
	my $savepoints = 0;

	return { churn => pick(@leaves) } if rare(0.06);
	return statement() if rare(0.4);
	@block = ({ sql => '\set ON_ERROR_ROLLBACK ' . pick('on', 'off'), meta => 1 }, { sql => 'BEGIN' . pick('', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE') });
	for (1 .. 2 + int(rand(10)))
	{
		if (rare(0.1)) { push @block, { sql => 'SAVEPOINT s' . ++$savepoints } }
		elsif ($savepoints && rare(0.15)) { $savepoints = 1 + int(rand($savepoints)); push @block, { sql => "ROLLBACK TO s$savepoints" } }
		elsif (rare(0.06)) { push @block, { churn => pick(@leaves) } }
		else { push @block, statement() }
	}
	return @block, { sql => pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK') }, { sql => '\set ON_ERROR_ROLLBACK off', meta => 1 };
}

sub make_batch
{
	my @items;

	# with the rights of another role now and then
	while (@items < $batch_size)
	{
		push @items, rare(0.1) ? ({ sql => 'SET ROLE reader' }, block(), { sql => 'RESET ROLE' }) : block();
	}
	return @items;
}

sub script_of
{
	my ($twin, @items) = @_;
	my $text = "SET search_path = twin_$twin;\n\\pset format unaligned\n\\pset tuples_only\n\\pset null '<null>'\nSET client_min_messages = error;\n";
	my $n = 0;

	foreach my $item (@items)
	{
		if ($item->{churn})
		{
			$text .= "\\! psql -Xq -o /dev/null -c \"SET lock_timeout = '200ms'\" -c \"SELECT rose." . (rare(0.7) ? 'spill' : 'merge') . "('twin_rose.$item->{churn}')\" 2>>$dir/churn.err\n" if $twin eq 'rose';
			next;
		}
		$text .= $item->{sql} . ($item->{meta} ? "\n" : ";\n");
		$text .= sprintf("\\echo '@@ %d' :SQLSTATE :ROW_COUNT\n\\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\endif\n", $n++) if !$item->{meta};
	}
	return $text;
}

# Each statement's rows, sorted, state, count and message.
sub answers_of
{
	my ($twin) = @_;
	my @sections = split /^@@ (\d+) (.*)\n/m, slurp_file("$dir/$twin.out");
	my $rows = shift @sections;
	my @answers;

	while (@sections)
	{
		my ($n, $status, $next) = splice(@sections, 0, 3);
		my $message = $status !~ /^00000/ && $next =~ s/\A(.*\n)// ? $1 : '';

		# generated names of partitions' constraints are the same, but not the schema
		$answers[$n] = join("\n", sort(split /\n/, $rows), $status, $message) =~ s/twin_(heap|rose)/twin/gr;
		$rows = $next;
	}
	return \@answers;
}

sub contents_differ
{
	return map {
		my $name = $_;
		my $columns = $name eq 'log' ? "(what, old, new)" : 't';

		my $differ = $node->safe_psql('postgres', "SELECT string_agg(side || row, E'\\n') FROM (SELECT 'only in heap: ' AS side, * FROM (SELECT $columns\::text AS row FROM twin_heap.$name t EXCEPT ALL SELECT $columns\::text FROM twin_rose.$name t) a"
			  . " UNION ALL SELECT 'only in rose: ', * FROM (SELECT $columns\::text FROM twin_rose.$name t EXCEPT ALL SELECT $columns\::text FROM twin_heap.$name t) b) d");
		$differ eq '' ? () : "$name: $differ";
	} @tables;
}

my ($done, $errors, $different) = (0, 0, 0);
my @before;
BATCH: while ($done < $wanted)
{
	my @items = make_batch();
	my @statements = grep { exists $_->{sql} && !$_->{meta} } @items;
	my %answers;

	foreach my $twin (@twins)
	{
		unlink "$dir/$twin.sql";
		append_to_file("$dir/$twin.sql", script_of($twin, @items));
		IPC::Run::run([ 'psql', '-Xq', '-f', "$dir/$twin.sql" ], '>', "$dir/$twin.out", '2>', "$dir/$twin.err");
		$answers{$twin} = answers_of($twin);
	}
	foreach my $n (0 .. $#statements)
	{
		my ($heap, $rose) = map { $answers{$_}[$n] // 'no answer' } @twins;

		$errors++ if $heap =~ /^(?!00000)[0-9A-Z]{5} \d+$/m;
		push @before, $statements[$n]{sql};
		next if $heap eq $rose;
		$different = 1;
		diag("the first difference, RELATIONS_SEED=$seed, after:");
		diag("  $_;") foreach @before > 60 ? @before[ -60 .. -1 ] : @before;
		diag("heap answered:\n$heap\nrose answered:\n$rose");
		last BATCH;
	}
	my @problems = contents_differ();
	push @problems, grep { $_ ne '' } map { $node->safe_psql('postgres', "SELECT c::text FROM rose.check('twin_rose.$_') c") } @leaves if !$ENV{ROSE_STANDIN};
	push @problems, slurp_file("$dir/churn.err") =~ /^(?!.*lock timeout)(.*(?:ERROR|FATAL|PANIC).*)/mg if -f "$dir/churn.err";
	if (@problems)
	{
		diag("after $done statements, RELATIONS_SEED=$seed");
		diag($_) foreach @problems;
		$different = 1;
		last;
	}
	$done += @statements;
}
ok(!$different, "the same answers on heap and on rose ($done statements, $errors errors)");
cmp_ok($errors, '<', 0.5 * ($done || 1), 'most statements did something');
$node->stop;
done_testing();
