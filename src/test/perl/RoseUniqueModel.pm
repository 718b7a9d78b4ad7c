# Sessions that write tables with unique indexes at random, and a model of what they have committed.
#
# Each table has a model beside it, a heap table without indexes that the same transactions write. Rows are known there by u, which never changes. So after
# whatever has happened to the server, table and model have the same rows; no two rows have one value of a unique index, its entries are those of its
# rows, and all values that no row has may be taken.
#
#   a  unique          l  unique, deferred          c  abs(c) is, where b >= 0          p  for tests to build indexes on
package RoseUniqueModel;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

our @EXPORT = qw(model_create model_drop start_writers finish_writers model_holds prepare_some end_prepared values_are_free);

my $VALUES = 100;
my $prepared = 0;

# kind: keyed, keyless or parted.
sub model_create
{
	my ($node, $t, $kind) = @_;
	my $using = $ENV{ROSE_STANDIN} ? 'heap' : 'rose';
	my $columns = 'id int NOT NULL, a int, b int DEFAULT 0, c int, l int, p int, u bigint, pad text';
	my $part = $kind eq 'parted' ? ', id' : '';

	$columns .= $kind eq 'keyless' ? '' : ', PRIMARY KEY (id)';
	$columns .= ", CONSTRAINT ${t}_a UNIQUE (a$part), CONSTRAINT ${t}_l UNIQUE (l$part) DEFERRABLE INITIALLY DEFERRED";
	$node->safe_psql('postgres', $kind eq 'parted' ? <<"SQL" : "CREATE TABLE $t ($columns) USING $using");
CREATE TABLE $t ($columns) PARTITION BY RANGE (id);
CREATE TABLE ${t}_1 PARTITION OF $t FOR VALUES FROM (MINVALUE) TO (1000) USING $using;
CREATE TABLE ${t}_2 PARTITION OF $t FOR VALUES FROM (1000) TO (MAXVALUE) USING $using;
SQL
	$node->safe_psql('postgres', <<"SQL");
CREATE UNIQUE INDEX ${t}_c ON $t (abs(c)$part) WHERE b >= 0;
CREATE TABLE ${t}_model (LIKE $t) USING heap;
CREATE INDEX ON ${t}_model (u);
CREATE SEQUENCE ${t}_ids;
CREATE FUNCTION ${t}_is($t) RETURNS void LANGUAGE sql AS 'DELETE FROM ${t}_model WHERE u = \$1.u; INSERT INTO ${t}_model SELECT \$1.*';
CREATE FUNCTION ${t}_is_not($t) RETURNS void LANGUAGE sql AS 'DELETE FROM ${t}_model WHERE u = \$1.u';

CREATE FUNCTION ${t}_change() RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
	new int := nextval('${t}_ids'); v int := random() * $VALUES; w int := random() * $VALUES; x int := random() * 100000; r $t; n int;
BEGIN
	CASE (random() * 11)::int
	WHEN 0, 1 THEN
		INSERT INTO $t VALUES (new, v, 0, -v, v, x, new) RETURNING * INTO r;
		PERFORM ${t}_is(r);
	WHEN 2 THEN
		INSERT INTO $t VALUES (new, NULL, w - 50, w, NULL, x, new, repeat('x', x % 3000)) ON CONFLICT (abs(c)$part) WHERE b >= 0 DO NOTHING RETURNING * INTO r;
		IF FOUND THEN PERFORM ${t}_is(r); END IF;
	WHEN 3 THEN
		INSERT INTO $t VALUES (new, v, 0, w, NULL, x, new) ON CONFLICT (a$part) DO UPDATE SET b = ${t}.b + 1, p = EXCLUDED.p RETURNING * INTO r;
		PERFORM ${t}_is(r);
	WHEN 4 THEN
		FOR r IN UPDATE $t SET a = w, c = v WHERE a = v RETURNING * LOOP PERFORM ${t}_is(r); END LOOP;
	WHEN 5 THEN
		FOR r IN UPDATE $t SET id = id + 1, l = CASE WHEN l IS NOT NULL THEN w END, p = p + 1 WHERE a BETWEEN v AND v + 1 RETURNING * LOOP PERFORM ${t}_is(r); END LOOP;
	WHEN 6 THEN
		FOR r IN DELETE FROM $t WHERE a = v OR l = w RETURNING * LOOP PERFORM ${t}_is_not(r); END LOOP;
	WHEN 7 THEN
		FOR r IN DELETE FROM $t WHERE a = v RETURNING * LOOP PERFORM ${t}_is_not(r); END LOOP;
		INSERT INTO $t VALUES (new, v, 1, w, NULL, x, new) RETURNING * INTO r;
		PERFORM ${t}_is(r);
	WHEN 8 THEN
		-- two rows exchange what is deferred, or all move on by one
		FOR r IN UPDATE $t SET l = v + w - l WHERE l IN (v, w) RETURNING * LOOP PERFORM ${t}_is(r); END LOOP;
		FOR r IN UPDATE $t SET l = l + 1 WHERE l BETWEEN v AND v + 4 RETURNING * LOOP PERFORM ${t}_is(r); END LOOP;
	WHEN 9 THEN
		BEGIN
			UPDATE $t SET a = w, c = w, l = v, p = 7 WHERE a = v;
			INSERT INTO $t VALUES (new, NULL, 0, -w, w, x, new);
			RAISE EXCEPTION 'back' USING ERRCODE = 'RB000';
		EXCEPTION WHEN SQLSTATE 'RB000' OR unique_violation OR division_by_zero THEN
			NULL;
		END;
	WHEN 10 THEN
		-- out of the predicate, if it is there, and in again
		FOR r IN UPDATE $t SET b = -1 - b WHERE abs(c) = w AND a IS DISTINCT FROM v RETURNING * LOOP PERFORM ${t}_is(r); END LOOP;
	ELSE
		FOR r IN UPDATE $t SET p = x, b = b + 1 WHERE a BETWEEN v AND v + 3 AND b < 1000 AND b <> -1 RETURNING * LOOP PERFORM ${t}_is(r); END LOOP;
	END CASE;
END \$\$;

CREATE PROCEDURE ${t}_write(until timestamptz) LANGUAGE plpgsql AS \$\$
BEGIN
	WHILE clock_timestamp() < until LOOP
		BEGIN
			FOR i IN 1 .. 1 + (random() * 3)::int LOOP
				BEGIN
					PERFORM ${t}_change();
				EXCEPTION WHEN unique_violation OR division_by_zero OR program_limit_exceeded THEN
					IF random() < 0.3 THEN RAISE; END IF;
				END;
			END LOOP;
			-- or else COMMIT may fail, and the call with it
			IF random() < 0.9 THEN
				SET CONSTRAINTS ALL IMMEDIATE;
				SET CONSTRAINTS ALL DEFERRED;
			END IF;
		EXCEPTION WHEN unique_violation OR division_by_zero OR program_limit_exceeded OR deadlock_detected OR serialization_failure THEN
			NULL;
		END;
		IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END \$\$;
SQL
	return;
}

sub model_drop
{
	my ($node, $t) = @_;

	$node->safe_psql('postgres', "DROP PROCEDURE ${t}_write; DROP FUNCTION ${t}_change, ${t}_is, ${t}_is_not; DROP TABLE $t, ${t}_model; DROP SEQUENCE ${t}_ids");
	return;
}

# Writers of the table until a moment, which they are told; every fourth one with snapshots that last for a transaction.
sub start_writers
{
	my ($node, $t, $n, $until) = @_;

	return map {
		my $file = $node->basedir . "/${t}_writer_$_.sql";
		my $isolation = $_ % 4 == 3 ? "SET default_transaction_isolation = 'repeatable read';\n" : '';
		my %writer = (out => '', err => '');

		unlink $file;
		append_to_file($file, $isolation . 'SELECT setseed(' . rand() . ");\n" . "CALL ${t}_write('$until');\n" x 3000);
		$writer{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $file ], '>', \$writer{out}, '2>', \$writer{err}, IPC::Run::timeout(10 * $PostgreSQL::Test::Utils::timeout_default));
		\%writer;
	} 1 .. $n;
}

# What they have met that nobody should. The server may have gone; indexes of tests may refuse rows.
sub finish_writers
{
	my @complaints;

	foreach my $writer (@_)
	{
		# he does not write it all if the server is gone
		eval { $writer->{run}->finish };
		push @complaints, grep { /ERROR|FATAL|PANIC/ && !/duplicate key|division by zero|index row size|deadlock detected|could not serialize|canceling statement due to user request|terminating connection|database system is|in recovery mode|starting up|connection to server/ }
		  split /\n/, $writer->{err};
	}
	return join "\n", @complaints;
}

# Prepared transactions of the table that have changed something.
sub prepare_some
{
	my ($node, $t, $n) = @_;
	my $done = 0;

	foreach (1 .. $n)
	{
		$prepared++;
		my ($status) = $node->psql('postgres', "SET lock_timeout = '1s'; BEGIN; SELECT ${t}_change(); SAVEPOINT s; SELECT ${t}_change(); ROLLBACK TO s; SELECT ${t}_change(); PREPARE TRANSACTION 'prepared_$prepared'");
		$done++ if $status == 0;
	}
	return $done;
}

# All that there are. Returns how many.
sub end_prepared
{
	my ($node) = @_;
	my @gids = split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');

	$node->safe_psql('postgres', (rand() < 0.5 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$_'") foreach @gids;
	return scalar @gids;
}

# The table has the model's rows, and its indexes their entries. No transaction may be in progress.
sub model_holds
{
	my ($node, $t, $what, $part) = @_;
	my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
	my $id = $part ? ', id' : '';

	is($sql->("TABLE $t EXCEPT ALL TABLE ${t}_model"), '', "$what: all rows of $t are the model's");
	is($sql->("TABLE ${t}_model EXCEPT ALL TABLE $t"), '', '... and none is missing');
	is($sql->("SELECT a FROM $t WHERE a IS NOT NULL GROUP BY a$id HAVING count(*) > 1"), '', '... no two have one value in a');
	is($sql->("SELECT l FROM $t WHERE l IS NOT NULL GROUP BY l$id HAVING count(*) > 1"), '', '... or l');
	is($sql->("SELECT abs(c) FROM $t WHERE c IS NOT NULL AND b >= 0 GROUP BY abs(c)$id HAVING count(*) > 1"), '', '... or of abs(c)');
	is($sql->("SELECT r, k FROM unnest('{" . ($part ? "${t}_1,${t}_2" : $t) . "}'::regclass[]) r, rose.check(r) k"), '', '... and entries are those of rows');
	is($sql->("SET enable_seqscan = off; SELECT a, u FROM $t WHERE a > 0 ORDER BY a, u"), $sql->("SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT a, u FROM ${t}_model WHERE a > 0 ORDER BY a, u"), '... a is found by its index');
	return;
}

# Each value may be taken by somebody who waits for nobody, if no row has it.
sub values_are_free
{
	my ($node, $t, $what) = @_;

	foreach my $column (qw(a l c))
	{
		my $values = join ', ', map { $_ eq $column ? 'v' : 'NULL' } qw(a b c l);
		my $where = $column eq 'c' ? 'c IS NOT NULL AND b >= 0' : "$column IS NOT NULL";

		$values =~ s/^(\w+), NULL/$1, 0/;
		is($node->safe_psql('postgres', <<"SQL"), 't', "$what: values of $column are free or taken");
SET lock_timeout = '${PostgreSQL::Test::Utils::timeout_default}s';
BEGIN;
INSERT INTO $t SELECT 500000 + v, $values FROM generate_series(0, 2 * $VALUES) v WHERE NOT EXISTS (SELECT FROM ${t}_model WHERE $where AND abs($column) = v);
SET CONSTRAINTS ALL IMMEDIATE;
SELECT count(DISTINCT abs($column)) = count(*) FROM $t WHERE $where AND abs($column) <= 2 * $VALUES;
ROLLBACK;
SQL
	}
	return;
}

1;
