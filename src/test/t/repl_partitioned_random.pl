# Random changes of tables of the upstream whose tables here are partitioned, in random ways, while partitions are detached and attached again,
# workers and the server end: what the upstream has is what the replica has.
#
#   PARTITIONED_SEED	of the changes
#   PARTITIONED_ROUNDS	(3) how often all of it is compared
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in routes rows by itself' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $rounds = $ENV{PARTITIONED_ROUNDS} // 3;
seed_random('PARTITIONED_SEED');

# PostgreSQL's own decoding fails an assertion when it streams transactions that have subtransactions (see repl_streaming_random.pl).
my $parts = rand() < 0.5;
my $upstream = upstream_node($parts ? () : "logical_decoding_work_mem = '64kB'", 'autovacuum = off');
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '50ms'", "rose.memtable_size = '4MB'", "rose.spill_interval = '1s'");
my $value = 0;
my @journal;
my @tables = qw(r l h n);
my %parts;		# leaves here, by table: [ parent, name, bounds ]

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub pick { return $_[ int(rand(@_)) ] }
sub some { return 'abs(hashint4(id + ' . int(rand(1000)) . ')) % ' . int(random_between(2, 12)) . ' = 0' }

# A partition of its own making: columns in another order, with some that were dropped before.
sub leaf
{
	my ($table, $parent, $name, $bounds) = @_;
	my @columns = sort { rand() <=> 0.5 } 'id int NOT NULL', 'k text COLLATE "C"' . ($table eq 'n' ? '' : ' NOT NULL'), 'v int', 'doc text';

	push @{ $parts{$table} }, [ $parent, $name, $bounds ];
	return "CREATE TABLE $name PARTITION OF $parent $bounds USING rose" if rand() < 0.4;
	splice @columns, int(rand(@columns + 1)), 0, 'gone int' if rand() < 0.6;
	my $gone = grep { $_ eq 'gone int' } @columns;
	return "CREATE TABLE $name (" . join(', ', @columns) . ') USING rose;' . ($gone ? " ALTER TABLE $name DROP gone;" : '') . " ALTER TABLE $parent ATTACH PARTITION $name $bounds";
}

my $columns = '(id int, k text COLLATE "C", v int, doc text';
my $here = pick('(v int, id int, doc text, k text COLLATE "C"', $columns);
foreach my $table (@tables)
{
	my $key = $table eq 'n' ? ')' : ', PRIMARY KEY (id, k))';
	my $by = pick('', ' PARTITION BY HASH (id)', ' PARTITION BY RANGE (id)');

	up("CREATE TABLE $table $columns$key$by");
	up("CREATE TABLE ${table}_one PARTITION OF $table " . ($by =~ /HASH/ ? 'FOR VALUES WITH (MODULUS 1, REMAINDER 0)' : 'DEFAULT')) if $by;
	up("ALTER TABLE $_ ALTER doc SET STORAGE EXTERNAL") foreach $table, $by ? "${table}_one" : ();
	down("CREATE TABLE $table $here$key PARTITION BY " . { r => 'RANGE (id)', l => 'LIST (k)', h => 'HASH (id, k)', n => 'RANGE (id)' }->{$table});
}
down(leaf('r', 'r', 'r_1', 'FOR VALUES FROM (MINVALUE) TO (300)'));
down('CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM (300) TO (700) PARTITION BY LIST (k)');
down(leaf('r', 'r_2', 'r_21', "FOR VALUES IN ('k0', 'k1', 'k2')"));
down(leaf('r', 'r_2', 'r_22', 'DEFAULT'));
down(leaf('r', 'r', 'r_3', 'FOR VALUES FROM (700) TO (MAXVALUE)'));
down(leaf('l', 'l', "l_$_", "FOR VALUES IN ('k$_', 'k" . ($_ + 3) . "')")) foreach 0 .. 2;
down('CREATE TABLE l_rest PARTITION OF l FOR VALUES IN (\'k6\') PARTITION BY RANGE (id)');
down(leaf('l', 'l_rest', 'l_low', 'FOR VALUES FROM (MINVALUE) TO (400)'));
down(leaf('l', 'l_rest', 'l_high', 'FOR VALUES FROM (400) TO (MAXVALUE)'));
down(leaf('h', 'h', "h_$_", "FOR VALUES WITH (MODULUS 3, REMAINDER $_)")) foreach 0 .. 2;
down(leaf('n', 'n', 'n_1', 'FOR VALUES FROM (MINVALUE) TO (500)'));
down(leaf('n', 'n', 'n_2', 'FOR VALUES FROM (500) TO (MAXVALUE)'));
down('SET rose.secondary_indexes = on; CREATE INDEX ON r (v); CREATE INDEX ON l (left(doc, 10), v)') if rand() < 0.7;

sub change
{
	my $table = pick(@tables);
	my $dice = rand();

	$value++;
	return "TRUNCATE $table" if $dice < 0.03;
	if ($dice < 0.5 || $table eq 'n')
	{
		my $from = int(rand(900));
		my $doc = 'repeat(md5((g * ' . $value . ')::text), CASE WHEN g % 7 = 0 THEN 200 ELSE ' . pick(1, 5) . ' END)';

		return "INSERT INTO $table SELECT g, 'k' || g % 7, $value, $doc FROM generate_series($from, " . ($from + int(rand(200))) . ') g ON CONFLICT DO NOTHING';
	}
	return "UPDATE $table SET v = $value WHERE " . some() if $dice < 0.65;
	return "UPDATE $table SET id = (id * 7 + $value) % 1000 + 1000 * $value WHERE id < 1000 AND " . some() if $dice < 0.72;
	return "UPDATE $table SET id = id % 1000 WHERE id >= 1000 AND k = 'k" . int(rand(7)) . "' AND NOT EXISTS (SELECT FROM $table o WHERE o.id % 1000 = $table.id % 1000 AND o.k = $table.k AND o.id <> $table.id)" if $dice < 0.76;
	return "UPDATE $table SET k = 'k' || (right(k, 1)::int + 1) % 7, v = $value WHERE NOT EXISTS (SELECT FROM $table o WHERE o.id = $table.id AND o.k <> $table.k) AND " . some() if $dice < 0.84;
	return "UPDATE $table SET doc = md5('$value') WHERE " . some() if $dice < 0.9;
	return "DELETE FROM $table WHERE " . some();
}

sub transaction
{
	my @sql = ('BEGIN');

	foreach my $n (1 .. int(random_between(1, 6)))
	{
		push @sql, $parts && rand() < 0.25 ? ("SAVEPOINT s$n", change(), pick("ROLLBACK TO s$n", "RELEASE s$n")) : change();
	}
	push @sql, rand() < 0.9 ? 'COMMIT' : 'ROLLBACK';
	push @journal, join('; ', @sql);
	my (undef, undef, $err) = $upstream->psql('postgres', join('; ', @sql), on_error_stop => 0);
	push @journal, "-- $err" if $err ne '';
	return;
}

sub here
{
	my ($sql) = @_;
	my (undef, undef, $err) = $replica->psql('postgres', $sql);

	push @journal, "here: $sql" . ($err ne '' ? " -- $err" : '');
	return $err;
}

# What comes meanwhile stops the table, if no other partition takes it, and goes on when it is attached again.
sub local_ddl
{
	my ($parent, $name, $bounds) = @{ pick(@{ $parts{ pick(@tables) } }) };
	my $detach = "ALTER TABLE $parent DETACH PARTITION $name";
	my $attach = "ALTER TABLE $parent ATTACH PARTITION $name $bounds";

	# with changes that are not durable yet it is refused
	here("SELECT rose.spill('$name')") if rand() < 0.7;
	return if rand() < 0.2;
	return here("BEGIN; $detach; $attach; COMMIT") if rand() < 0.5 || $name eq 'r_21';
	return if here($detach) ne '';
	transaction() if rand() < 0.7;
	here("DO \$\$BEGIN PERFORM pg_sleep(" . pick(0, 0.2, 1.5) . '); END\$\$');
	foreach my $try (1 .. 50)
	{
		my $err = here($attach);

		return if $err eq '';
		die "could not attach $name again: $err" if $err !~ /not yet durable/ || $try == 50;
		here("SELECT rose.spill('r_22'), rose.spill('$name')");
	}
	return;
}

sub disturb
{
	my $how = pick(qw(none none terminate crash resync pause));

	push @journal, $how;
	if ($how eq 'terminate') { down("SELECT pg_terminate_backend(pid) FROM rose.stat_subscription WHERE pid IS NOT NULL") }
	elsif ($how eq 'crash') { crash_and_restart($replica) }
	elsif ($how eq 'resync') { here("SELECT rose.alter_subscription('s', resync => '" . pick(@tables) . "')") }
	elsif ($how eq 'pause')
	{
		my $table = pick(@tables);

		return if here("SELECT rose.pause_table('s', '$table')") ne '';
		transaction();
		here("SELECT rose.resume_table('s', '$table')");
	}
	return;
}

up(change()) foreach 1 .. 8;
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', @tables) . ' WITH (publish_via_partition_root)');
up('ALTER PUBLICATION p SET (publish = \'insert, update, delete, truncate\')');
subscribe($upstream, $replica);
foreach my $round (1 .. $rounds)
{
	@journal = ();
	foreach my $n (1 .. 12)
	{
		transaction();
		local_ddl() if rand() < 0.25;
		disturb() if $n == 6;
	}
	down("SELECT rose.wait_for_sync('s', $timeout)");
	wait_for_apply($upstream, $replica);
	my @problems;

	foreach my $table (@tables)
	{
		my @hash = map { table_hash($_, "(SELECT id, k, v, doc FROM $table)") } $upstream, $replica;

		push @problems, "$table: $hash[0] on the upstream, $hash[1] here" if $hash[0] ne $hash[1];
		push @problems, grep { $_ ne '' } down("SELECT t.relid::regclass || ': ' || c::text FROM pg_partition_tree('$table') t, rose.check(t.relid) c WHERE t.isleaf");
	}
	is(join("\n", @problems), '', "round $round") or diag(join "\n", @journal);
	last if @problems;
}

$replica->stop;
$upstream->stop;
done_testing();
