# Random constraints of tables that a subscription feeds, between random changes, spills and crashes: whatever the catalog says of all rows holds for
# those that a crash brings back. Upstream, rows violate the constraints now and then, and are put right before somebody asks for one.
# Environment: CONSTRAINTS_SEED repeats a run; CONSTRAINTS_ROUNDS, default 4.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $seed = seed_random('CONSTRAINTS_SEED');
my $rounds = $ENV{CONSTRAINTS_ROUNDS} // 4;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '1h'", "rose.memtable_size = '4MB'", 'rose.max_subscriptions = 4', 'autovacuum = off');
my @tables = qw(t p d);
my @journal;

sub up { push @journal, "up: $_[0]"; return $upstream->safe_psql('postgres', $_[0]) }
sub down { push @journal, "here: $_[0]"; return $replica->safe_psql('postgres', $_[0]) }
sub pick { return $_[ rand @_ ] }
sub some { return int rand $_[0] }

sub change
{
	my ($table, @values) = @_;
	my $from = some(60);
	my $ids = "BETWEEN $from AND " . ($from + some(12));
	my $kind = rand();
	my $sql = "UPDATE $table SET a = " . pick(@values) . " WHERE id $ids";

	$sql = "UPDATE $table SET b = b || 'x' WHERE id $ids" if $kind < 0.2;
	$sql = "DELETE FROM $table WHERE id $ids" if $kind > 0.9;
	$sql = "INSERT INTO $table SELECT g, " . pick(@values) . ", 'new' FROM generate_series($from, 60) g ON CONFLICT (id) DO NOTHING" if $kind > 0.75 && $kind <= 0.9;
	$sql = "$sql; $sql" if $kind > 0.4 && $kind < 0.5;
	return $sql;
}

sub applied { wait_for_apply($upstream, $replica); return }

# A command that says something of all rows of a table, and its names of what it makes.
sub statement
{
	my ($table) = @_;

	return "ALTER DOMAIN dom ADD CONSTRAINT c_d CHECK (VALUE IS NOT NULL AND VALUE > 0)" if $table eq 'd' && rand() < 0.5;
	return "ALTER DOMAIN dom SET NOT NULL" if $table eq 'd' && rand() < 0.5;
	return pick(
		"ALTER TABLE $table ALTER a SET NOT NULL",
		"ALTER TABLE $table ADD CONSTRAINT c_$table CHECK (a IS NOT NULL AND a > 0)",
		"ALTER TABLE $table ADD CONSTRAINT c_$table CHECK (a IS NOT NULL) NOT VALID; ALTER TABLE $table VALIDATE CONSTRAINT c_$table",
		"ALTER TABLE $table ADD more int DEFAULT 1 CONSTRAINT c_$table CHECK (more IS NULL OR a > 0 AND a IS NOT NULL)");
}

sub forget
{
	down("ALTER TABLE $_ ALTER a DROP NOT NULL, DROP CONSTRAINT IF EXISTS c_$_, DROP COLUMN IF EXISTS more") foreach @tables;
	down('ALTER DOMAIN dom DROP NOT NULL; ALTER DOMAIN dom DROP CONSTRAINT IF EXISTS c_d');
	return;
}

# Does what is said of all rows hold?
sub check
{
	my ($when) = @_;
	my $claims = <<'SQL';
SELECT relname, 'x IS NULL' FROM pg_attribute JOIN pg_class c ON c.oid = attrelid WHERE relname = ANY (ARRAY['t', 'p_1', 'p_2', 'd']) AND attname = 'a' AND attnotnull
UNION SELECT relname, 'x IS NULL OR x <= 0' FROM pg_constraint JOIN pg_class c ON c.oid = conrelid WHERE contype = 'c' AND convalidated AND relname = ANY (ARRAY['t', 'p_1', 'p_2', 'd']) AND pg_get_constraintdef(pg_constraint.oid) ~ '> 0'
UNION SELECT relname, 'x IS NULL' FROM pg_constraint JOIN pg_class c ON c.oid = conrelid WHERE contype = 'c' AND convalidated AND relname = ANY (ARRAY['t', 'p_1', 'p_2', 'd'])
UNION SELECT 'd', 'x IS NULL' FROM pg_type WHERE typname = 'dom' AND typnotnull
UNION SELECT 'd', 'x IS NULL OR x <= 0' FROM pg_constraint WHERE conname = 'c_d' AND contypid <> 0 AND convalidated
SQL
	my $n = 0;

	foreach my $claim (split /\n/, down($claims))
	{
		my ($table, $not) = split /\|/, $claim;

		$n += down("SELECT count(*) FROM (SELECT a + 0 AS x FROM $table) s WHERE $not");
	}
	is($n, 0, "$when: no row violates what is said of all (seed $seed)") or diag(join("\n", @journal));
	return;
}

up("CREATE TABLE $_ (id int PRIMARY KEY, a int, b text); INSERT INTO $_ SELECT g, g, 'x' FROM generate_series(1, 60) g") foreach @tables;
up('CREATE PUBLICATION p FOR ALL TABLES');
down('CREATE DOMAIN dom int; CREATE TABLE t (id int PRIMARY KEY, a int, b text, mine int DEFAULT 3) USING rose; CREATE TABLE d (b text, id int PRIMARY KEY, a dom) USING rose;'
	. 'CREATE TABLE p (id int PRIMARY KEY, a int, b text) PARTITION BY RANGE (id); CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (1) TO (30) USING rose; CREATE TABLE p_2 PARTITION OF p DEFAULT USING rose');
subscribe($upstream, $replica);

foreach my $round (1 .. $rounds)
{
	foreach my $table (map { pick(@tables) } 0 .. 1 + some(4))
	{
		up(change($table, 'NULL', -1, 0, 1 + some(9)));
		next if rand() < 0.7;
		applied();
		down("SELECT rose.spill('t')");
	}
	up("UPDATE $_ SET a = 1 WHERE a IS NULL OR a <= 0") foreach @tables;
	applied();
	my $spilled = rand() < 0.4;
	down("SELECT rose.spill('t')") if $spilled;
	foreach my $table (@tables)
	{
		my $sql = statement($table);
		my $whole = rand() < 0.3 ? "BEGIN; SAVEPOINT a; $sql; ROLLBACK TO a; $sql; COMMIT" : "BEGIN; $sql; COMMIT";
		my $err = error_of($replica, $whole);

		push @journal, "here: $whole -- $err";
		like($err, $spilled ? qr/^$/ : qr/^$|not yet durable/, "round $round: done, or refused (seed $seed)") or diag("$table: $whole\n" . join("\n", @journal));
	}
	up(change(pick(@tables), 1 + some(9))) foreach 1 .. some(3);
	applied() if rand() < 0.7;
	push @journal, 'crash';
	crash($replica);
	start_without_replication($replica);
	check("round $round, after a crash");
	replication_again($replica);
	applied();
	check("round $round, when changes have come again");
	forget();
	foreach my $table (@tables)
	{
		is(down("SELECT md5(string_agg(concat_ws(' ', id, a, b), ',' ORDER BY id)) FROM $table"), up("SELECT md5(string_agg(concat_ws(' ', id, a, b), ',' ORDER BY id)) FROM $table"), "round $round: $table is as upstream (seed $seed)");
	}
}
$_->stop foreach $replica, $upstream;
done_testing();
