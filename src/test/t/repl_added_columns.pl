# A column that the upstream has added is added here, with what rows of before have in it; or, where nobody can tell that, or it cannot be here, the
# subscription stops (or the table is paused) with an error that says why and what to do. In one subscription that stops, with plain tables, and in one that
# pauses and logs its batches, with partitioned ones; then one by one what the table, its lockers, publications, shards and crashes add to that.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in does not add columns' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '1h'", 'rose.max_subscriptions = 8', 'max_worker_processes = 30', 'max_replication_slots = 10');
my $conninfo = $upstream->connstr('postgres');

sub up { $upstream->safe_psql('postgres', $_) foreach @_; return }
sub ask_up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub until_down { return $replica->poll_query_until('postgres', $_[0]) }

foreach my $node ($upstream, $replica)
{
	$node->safe_psql('postgres', q(CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, b text); CREATE DOMAIN plain AS text; CREATE SCHEMA "Odd"; CREATE DOMAIN "Odd"."N 1" AS numeric(9,3); CREATE DOMAIN few AS int CHECK (VALUE < 100); CREATE DOMAIN preset AS int DEFAULT 7));
}
up(q(CREATE TYPE there AS ENUM ('x', 'y'); CREATE COLLATION there (provider = icu, locale = 'de')));
stop_points_create($replica);

# first: done here before. there: done on the upstream, one by one; T is the table. error: the table's; none: it goes on by itself. here: what is done then;
# copy: and it has to be copied again. type: what the column x has here.
my $other = qr/written all rows of the table anew.*HINT|written all rows of the table anew/s;
my @cases = (
	{ name => 'ADD COLUMN', there => [ 'ALTER TABLE T ADD x int; UPDATE T SET x = id WHERE id < 4; INSERT INTO T VALUES (10, 1, NULL, NULL, 10)' ] },
	{ name => 'with a default, NOT NULL', there => [ "ALTER TABLE T ADD x text NOT NULL DEFAULT 'd'; INSERT INTO T VALUES (10, 1, NULL, NULL, 'e'); INSERT INTO T VALUES (11, 1)" ] },
	{ name => 'with a default that is dropped', there => [ 'ALTER TABLE T ADD x int DEFAULT 5', 'ALTER TABLE T ALTER x DROP DEFAULT; INSERT INTO T VALUES (10, 1); UPDATE T SET a = 7 WHERE id = 2' ] },
	{ name => 'with another default later', there => [ 'ALTER TABLE T ADD x int DEFAULT 5', 'ALTER TABLE T ALTER x SET DEFAULT 6; INSERT INTO T VALUES (10, 1); UPDATE T SET id = 20 WHERE id = 3' ] },
	{ name => 'without one, that is set later', there => [ 'ALTER TABLE T ADD x int; ALTER TABLE T ALTER x SET DEFAULT 6; INSERT INTO T VALUES (10, 1)' ] },
	{ name => 'several', columns => 'id, a, b, c, x, y, z', there => [ 'ALTER TABLE T ADD x int DEFAULT 1; INSERT INTO T VALUES (10, 1)', "ALTER TABLE T ADD y text DEFAULT 'y', ADD z int[] DEFAULT '{1,2}'; INSERT INTO T VALUES (11, 1); UPDATE T SET z = NULL WHERE id = 1" ] },
	{ name => 'among changes in one transaction', there => [ "BEGIN; INSERT INTO T VALUES (20, 1, 'b', 'c'), (21, 1, NULL, NULL); UPDATE T SET a = 5 WHERE id IN (1, 20); DELETE FROM T WHERE id = 2; UPDATE T SET id = 30 WHERE id = 3; ALTER TABLE T ADD x int DEFAULT 9; INSERT INTO T VALUES (22, 2, NULL, NULL, 8); UPDATE T SET x = 7 WHERE id = 4; UPDATE T SET a = 6 WHERE id = 21; COMMIT" ] },
	{ name => 'rolled back', there => [ 'BEGIN; INSERT INTO T VALUES (20, 1); SAVEPOINT s; ALTER TABLE T ADD x int DEFAULT 9; INSERT INTO T VALUES (21, 1); ROLLBACK TO s; INSERT INTO T VALUES (22, 1); COMMIT' ], columns => 'id, a, b, c' },
	{ name => 'numeric', there => [ 'ALTER TABLE T ADD x numeric(8,2) DEFAULT 1.5; UPDATE T SET x = 2 WHERE id = 1' ], type => 'numeric(8,2)' },
	{ name => 'varchar', there => [ "ALTER TABLE T ADD x varchar(7) DEFAULT 'a''s \\ b'; UPDATE T SET x = NULL WHERE id = 1" ], type => 'character varying(7)' },
	{ name => 'empty text', there => [ "ALTER TABLE T ADD x text DEFAULT ''; UPDATE T SET x = 'x' WHERE id = 1" ] },
	{ name => 'timestamptz', there => [ "SET TimeZone = 'Asia/Tokyo'; ALTER TABLE T ADD x timestamptz DEFAULT '2020-02-03 04:05:06.7'; UPDATE T SET x = now() WHERE id = 1" ] },
	{ name => 'the time of the ALTER', there => [ 'ALTER TABLE T ADD x timestamp DEFAULT now(); UPDATE T SET x = NULL WHERE id = 1' ] },
	{ name => 'texts', there => [ q(ALTER TABLE T ADD x text[] DEFAULT ARRAY['a,b', 'c"d', '{}', NULL, '\\\\']; UPDATE T SET x = '{x}' WHERE id = 1) ] },
	{ name => 'boxes', there => [ "ALTER TABLE T ADD x box DEFAULT '(1,2),(0,0)', ADD y box[] DEFAULT '{(1,2),(0,0);(3,4),(1,1)}'; UPDATE T SET a = 1" ], columns => 'id, x::text, y::text' },
	{ name => 'jsonb, bytea, float', there => [ q(ALTER TABLE T ADD x jsonb DEFAULT '{"a": [1, "b"]}', ADD y bytea DEFAULT '\\x00ff5c', ADD z float8 DEFAULT 0.1; UPDATE T SET a = 1 WHERE id = 1) ], columns => 'id, x, y, z' },
	{ name => 'an enum', there => [ "ALTER TABLE T ADD x mood DEFAULT 'ok', ADD y mood[] DEFAULT '{sad,ok}'; UPDATE T SET x = 'sad' WHERE id = 1" ], columns => 'id, x, y', type => 'mood' },
	{ name => 'a composite', there => [ "ALTER TABLE T ADD x pair DEFAULT '(1,\"a b\")'; UPDATE T SET x = '(2,)' WHERE id = 1" ], type => 'pair' },
	{ name => 'domains', there => [ "ALTER TABLE T ADD x plain DEFAULT 'p', ADD y \"Odd\".\"N 1\" DEFAULT 1.25; UPDATE T SET x = 'q' WHERE id = 1" ], columns => 'id, x, y', type => 'plain' },
	{ name => 'a domain with a constraint', there => [ 'ALTER TABLE T ADD x few; UPDATE T SET x = 1 WHERE id = 1' ], error => qr/42703: .*has no column "x".*It could not be added, as on_schema_change says: (the upstream has written all rows|type public.few has constraints)/s, here => 'ALTER TABLE T ADD x few' },
	{ name => 'a domain with a default', there => [ 'ALTER TABLE T ADD x preset; UPDATE T SET x = 1' ], error => qr/type public.preset has constraints or a default here/, here => 'ALTER TABLE T ADD x preset' },
	{ name => 'a collation', there => [ 'ALTER TABLE T ADD x text COLLATE "C" DEFAULT \'c\'; UPDATE T SET x = \'d\' WHERE id = 1' ], collation => 'C' },
	{ name => 'a collation that is not here', there => [ 'ALTER TABLE T ADD x text COLLATE there; UPDATE T SET x = \'d\' WHERE id = 1' ], error => qr/collation "public.there" does not exist here.*hint: Create the collation here/, here => 'ALTER TABLE T ADD x text' },
	{ name => 'a type that is not here', there => [ "ALTER TABLE T ADD x there DEFAULT 'y'; UPDATE T SET x = 'x' WHERE id = 1" ], error => qr/type "public.there" does not exist here.*hint: Create the type here/, here => "CREATE TYPE IF_THERE" },
	{ name => 'a volatile default', there => [ 'ALTER TABLE T ADD x int DEFAULT random() * 1000; UPDATE T SET a = 1 WHERE id = 1' ], error => qr/the upstream has written all rows of the table anew.*have the table copied again/s, copy => 'ALTER TABLE T ADD x int' },
	{ name => 'a volatile default that is dropped', there => [ 'ALTER TABLE T ADD x int DEFAULT random() * 1000', 'ALTER TABLE T ALTER x DROP DEFAULT; UPDATE T SET a = 1 WHERE id = 1' ], error => qr/the upstream has written all rows of the table anew/, copy => 'ALTER TABLE T ADD x int' },
	{ name => 'serial', there => [ 'ALTER TABLE T ADD x serial; UPDATE T SET a = 1 WHERE id = 1' ], error => qr/the upstream has written all rows of the table anew/, copy => 'ALTER TABLE T ADD x int' },
	{ name => 'an identity', there => [ 'ALTER TABLE T ADD x int GENERATED ALWAYS AS IDENTITY; UPDATE T SET a = 1 WHERE id = 1' ], error => qr/the upstream has written all rows of the table anew/, copy => 'ALTER TABLE T ADD x int' },
	{ name => 'rows written anew since', there => [ 'ALTER TABLE T ADD x int DEFAULT 3', 'VACUUM FULL T', 'ALTER TABLE T ALTER x DROP DEFAULT; UPDATE T SET a = 1 WHERE id = 1' ], error => qr/the upstream has written all rows of the table anew/, here => 'ALTER TABLE T ADD x int DEFAULT 3' },
	{ name => 'rows written anew before', there => [ 'VACUUM FULL T', 'UPDATE T SET a = 1 WHERE id = 1', 'ALTER TABLE T ADD x int DEFAULT 3; UPDATE T SET a = 1 WHERE id = 2' ] },
	{ name => 'rows written anew before, nothing in them', there => [ 'VACUUM FULL T', 'UPDATE T SET a = 1 WHERE id = 1', 'WAIT', 'ALTER TABLE T ADD x int; UPDATE T SET a = 1 WHERE id = 2' ] },
	{ name => 'truncated before', there => [ 'TRUNCATE T; INSERT INTO T VALUES (1, 1), (2, 2), (4, 4)', 'ALTER TABLE T ADD x int DEFAULT 3; UPDATE T SET a = 1 WHERE id = 2' ] },
	{ name => 'a generated one', there => [ 'ALTER TABLE T ADD g int GENERATED ALWAYS AS (a * 2) STORED; UPDATE T SET a = 1 WHERE id = 1', 'ALTER TABLE T ADD x int DEFAULT 3; UPDATE T SET a = 2 WHERE id = 1' ] },
	{ name => 'one that was generated', there => [ 'ALTER TABLE T ADD g int GENERATED ALWAYS AS (a * 2) STORED; UPDATE T SET a = 1 WHERE id = 1', 'ALTER TABLE T ALTER g DROP EXPRESSION; UPDATE T SET a = 2 WHERE id = 1' ], columns => 'id, a, b, c, g', error => qr/so the column may have been there before/, copy => 'ALTER TABLE T ADD g int' },
	{ name => 'of another type since', there => [ 'ALTER TABLE T ADD x varchar(5) DEFAULT \'a\'; UPDATE T SET a = 1 WHERE id = 1', 'ALTER TABLE T ALTER x TYPE text; UPDATE T SET x = \'abcdefg\' WHERE id = 2' ], slow => 1, error => qr/it has been changed again on the upstream, or dropped/, here => 'ALTER TABLE T ADD x text DEFAULT \'a\'' },
	{ name => 'dropped and added', there => [ 'ALTER TABLE T DROP b; ALTER TABLE T ADD b text; UPDATE T SET b = \'new\' WHERE id = 1' ], error => qr/column "b" of table "\w+" is another one than before on the upstream.*copied again/s, copy => '', columns => 'id, a, b, c' },
	{ name => 'dropped and added anew, while it lags', slow => 1, there => [ 'ALTER TABLE T ADD x int DEFAULT 1; UPDATE T SET x = 9 WHERE id = 1', 'ALTER TABLE T DROP x', 'ALTER TABLE T ADD x int DEFAULT 2; UPDATE T SET a = 8 WHERE id = 2' ], error => qr/columns that were added before it have been dropped or renamed since/, copy => 'ALTER TABLE T ADD x int' },
	{ name => 'dropped and added anew, in one transaction', there => [ 'BEGIN; ALTER TABLE T ADD x int DEFAULT 1; UPDATE T SET x = 9 WHERE id = 1; ALTER TABLE T DROP x; ALTER TABLE T ADD x int DEFAULT 2; UPDATE T SET a = 8 WHERE id = 2; COMMIT' ],
		error => qr/columns that were added before it have been dropped or renamed since|it cannot be told which they were at this change/, copy => 'ALTER TABLE T ADD x int' },
	{ name => 'its name is another one\'s, while it lags', slow => 1, columns => 'id, a, b, c, x, y', there => [ 'ALTER TABLE T ADD x int DEFAULT 1; UPDATE T SET x = 9 WHERE id = 1', 'ALTER TABLE T RENAME x TO y', 'ALTER TABLE T ADD x int DEFAULT 2; UPDATE T SET a = 8 WHERE id = 2' ], error => qr/columns that were added before it have been dropped or renamed since/, copy => 'ALTER TABLE T ADD x int, ADD y int' },
	{ name => 'after one that came and went unseen', there => [ 'ALTER TABLE T ADD w int', 'ALTER TABLE T DROP w', 'ALTER TABLE T ADD x int DEFAULT 3; UPDATE T SET a = 8 WHERE id = 2' ], error => qr/columns that were added before it have been dropped or renamed since/, here => 'ALTER TABLE T ADD x int DEFAULT 3' },
	{ name => 'after one that came and went', there => [ 'ALTER TABLE T ADD w int; UPDATE T SET w = 1 WHERE id = 1', 'WAIT', 'ALTER TABLE T DROP w', 'ALTER TABLE T ADD x int DEFAULT 3; UPDATE T SET a = 8 WHERE id = 2' ] },
	{ name => 'here before', first => 'ALTER TABLE T ADD x int', there => [ 'ALTER TABLE T ADD x int; UPDATE T SET x = id WHERE id = 1' ] },
	{ name => 'here before, with the same default', first => 'ALTER TABLE T ADD x int DEFAULT 4', there => [ 'INSERT INTO T VALUES (10, 10); ALTER TABLE T ADD x int DEFAULT 4; UPDATE T SET x = id WHERE id = 1' ] },
	{ name => 'rights', first => 'ALTER TABLE T OWNER TO plain_owner', there => [ 'ALTER TABLE T ADD x int DEFAULT 4; UPDATE T SET x = id WHERE id = 1' ] },
	{ name => 'a name that is odd', there => [ 'ALTER TABLE T ADD "x "" y" int DEFAULT 4; UPDATE T SET a = 9 WHERE id = 1' ], columns => 'id, a, "x "" y"' },
	{ name => 'another name here', first => 'ALTER TABLE T SET SCHEMA "Odd"; ALTER TABLE "Odd".T RENAME TO "n T"', last => 'ALTER TABLE "Odd"."n T" RENAME TO T; ALTER TABLE "Odd".T SET SCHEMA public', there => [ 'ALTER TABLE T ADD x int DEFAULT 4; UPDATE T SET a = 9 WHERE id = 1' ] });
my %subs = (s => 'stop', p => 'pause');

down('CREATE ROLE plain_owner; GRANT CREATE ON SCHEMA public TO plain_owner');
my $local = '(id int PRIMARY KEY, a int NOT NULL, b text, c varchar(10))';
foreach my $n (0 .. $#cases)
{
	foreach my $sub (sort keys %subs)
	{
		my $table = "$sub$n";

		up("CREATE TABLE $table $local; INSERT INTO $table SELECT g, g, 'b' || g, 'c' FROM generate_series(1, 5) g");
		down($sub eq 's' ? "CREATE TABLE $table $local USING rose"
			: "CREATE TABLE $table $local PARTITION BY RANGE (id); CREATE TABLE ${table}_1 PARTITION OF $table FOR VALUES FROM (0) TO (3) USING rose; CREATE TABLE ${table}_2 (c varchar(10), id int NOT NULL, gone int, a int NOT NULL, b text) USING rose; ALTER TABLE ${table}_2 DROP gone; ALTER TABLE $table ATTACH PARTITION ${table}_2 DEFAULT");
	}
}
foreach my $sub (sort keys %subs)
{
	up("CREATE PUBLICATION $sub FOR TABLE " . join(', ', map { "$sub$_" } 0 .. $#cases));
	down("SELECT rose.create_subscription('$sub', \$\$$conninfo\$\$, ARRAY['$sub'], on_error => '$subs{$sub}'" . ($sub eq 'p' ? ", durability => 'local'" : '') . ')');
	down("SELECT rose.wait_for_sync('$sub', $timeout)");
}
my $copied = "SELECT string_agg(relid || ' ' || copied_rows, ',' ORDER BY relid) FROM rose.stat_subscription_tables";

sub on_table { my ($sql, $table) = @_; return $sql =~ s/\bT(?=\b)/$table/gr }

# Each partition of its owner's, too.
sub here
{
	my ($sql, $table) = @_;

	if ($sql eq 'CREATE TYPE IF_THERE') { down("DO \$\$ BEGIN CREATE TYPE there AS ENUM ('x', 'y'); EXCEPTION WHEN duplicate_object THEN NULL; END \$\$"); return }
	down(on_table($sql, $table));
	down("ALTER TABLE ${table}_1 OWNER TO plain_owner; ALTER TABLE ${table}_2 OWNER TO plain_owner") if $sql =~ /OWNER/ && $table =~ /^p/;
	return;
}

sub failed
{
	my ($case, $table) = @_;
	my $name = "$case->{name}, on_error => '" . $subs{ substr($table, 0, 1) } . "'";

	until_down("SELECT state = '" . ($table =~ /^s/ ? 'failed' : 'paused') . "' FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass") or die "$name: " . down('SELECT relname, state, last_error FROM rose.stat_subscription_tables');
	like(down("SELECT error_code || ': ' || last_error FROM rose.subscription_rel WHERE relid = '$table'::regclass"), $case->{error}, $name);
	is(down("SELECT blocked_reason FROM rose.stat_subscription WHERE subname = 's'"), 'table_error', "$name: the subscription stops") if $table =~ /^s/;
	return;
}

sub rows { my ($node, $columns, $table) = @_; return $node->safe_psql('postgres', "SELECT $columns FROM $table ORDER BY id") }

sub same
{
	my ($case, $table, $columns) = @_;
	my $sub = substr $table, 0, 1;
	my $name = "$case->{name}, on_error => '$subs{$sub}'";

	until_down("SELECT blocked_reason IS NULL FROM rose.stat_subscription WHERE subname = '$sub'") or die "$name: still stopped: " . down('SELECT last_error FROM rose.stat_subscription');
	wait_for_apply($upstream, $replica, 'postgres', $sub, $table);
	is(rows($replica, $columns, $table), rows($upstream, $columns, $table), "$name: the same");
	is(down("SELECT state, last_error FROM rose.stat_subscription_tables WHERE relid = '$table'::regclass"), 'ready|', "$name: and well");
	return;
}

sub held { my ($sub, $on) = @_; return down("SELECT rose.alter_subscription('$sub', enabled => " . ($on ? 'false' : 'true') . ')') }

foreach my $n (0 .. $#cases)
{
	my $case = $cases[$n];
	my $columns = $case->{columns} // 'id, a, b, c, x';
	my $copies = down($copied);

	foreach my $table ("s$n", "p$n")
	{
		here($case->{first}, $table) if $case->{first};
		held(substr($table, 0, 1), 1) if $case->{slow};
		foreach my $sql (@{ $case->{there} })
		{
			if ($sql eq 'WAIT') { wait_for_apply($upstream, $replica, 'postgres', substr($table, 0, 1), $table) }
			else { up(on_table($sql, $table)) }
		}
		held(substr($table, 0, 1), 0) if $case->{slow};
	}
	foreach my $table ("s$n", "p$n")
	{
		my $sub = substr $table, 0, 1;

		if ($case->{last})
		{
			until_down("SELECT count(*) > 0 FROM pg_attribute WHERE attrelid = (SELECT relid FROM rose.stat_subscription_tables WHERE upstream_relation = 'public.$table') AND attname = 'x'");
			here($case->{last}, $table);
		}
		failed($case, $table) if $case->{error};
		here($case->{here}, $table) if $case->{here};
		down("SELECT rose.alter_subscription('s')") if $sub eq 's' && $case->{error};
		down("SELECT rose.resume_table('p', '$table')") if $sub eq 'p' && $case->{error} && !defined $case->{copy};
		if (defined $case->{copy})
		{
			here($case->{copy}, $table) if $case->{copy};
			down("SELECT rose.alter_subscription('$sub', resync => '$table')");
			down("SELECT rose.wait_for_sync('$sub', $timeout)");
		}
		same($case, $table, $columns);
		is(down("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '$table'::regclass AND attname = 'x'"), $case->{type}, "$case->{name}: its type") if $case->{type};
		is(down("SELECT collname FROM pg_attribute JOIN pg_collation c ON c.oid = attcollation WHERE attrelid = '$table'::regclass AND attname = 'x'"), $case->{collation}, "$case->{name}: its collation") if $case->{collation};
		up("UPDATE $table SET c = 'further' WHERE id % 2 = 1; DELETE FROM $table WHERE id = 2");
		same($case, $table, $columns);
	}
	is(down($copied), $copies, "$case->{name}: without a copy") if !defined $case->{copy};
}
is(down("SELECT count(*), count(problem) FROM rose.verify('$_')"), '0|0', "$_ is verified") foreach sort keys %subs;
crash_and_restart($replica);
foreach my $sub (sort keys %subs)
{
	wait_for_apply($upstream, $replica, 'postgres', $sub);
	is(down("SELECT count(*), count(problem) FROM rose.verify('$sub')"), '0|0', "$sub, after a crash");
}

$replica->stop;
$upstream->stop;
done_testing();
