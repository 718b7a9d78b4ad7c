
# Random queries of tables that a subscription feeds: the same rows as upstream, with Rose Scan and without.
#
# Rows have large values that updates leave alone, and which are not sent then: what has come of such a row is a PARTIAL version, which is completed when
# it is read. Tables and queries are those of scan_differential.pl; here writes go to the upstream's heap, and each query is asked there, and on the replica
# in all modes. While the replica is asked, updates that change nothing make versions of all sorts, and its tables are spilled and merged. Environment:
#
#   REPLICA_SEED	repeat a run
#   REPLICA_QUERIES	how many queries, default 60
#   REPLICA_ROUND	queries before there are other tables, default 30
#   REPLICA_KEEP	1: go on after a difference
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseScanGen;
use RoseScanQueries;
use RoseSqlTables;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no subscriptions' if $ENV{ROSE_STANDIN};

my $seed = seed_random('REPLICA_SEED');
my $wanted = $ENV{REPLICA_QUERIES} // how_many(60, 600);
my $round = $ENV{REPLICA_ROUND} // 30;
my $dir = PostgreSQL::Test::Utils::tempdir;
my $saved = "$PostgreSQL::Test::Utils::tmp_check/scan_replica_$seed";
my @modes = qw(off on other);
my $upstream = upstream_node();
my $replica = rose_node('replica', "wal_retrieve_retry_interval = '200ms'", 'rose.debug_piece_size = ' . pick("'64kB'", "'32MB'"),
	'rose.max_merge_workers = ' . pick(0, 2), 'rose.memtable_size = ' . pick("'4MB'", "'64MB'"), 'rose.batch_interval = ' . pick(0, 0, 50));
my %node = (heap => $upstream, rose => $replica);
my $generator = RoseScanGen->new;

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

foreach my $node ($upstream, $replica)
{
	$node->safe_psql('postgres', join(";\n", $generator->ddl));
}
stop_points_create($replica);
my $keeper = RoseTest::Session->new($replica);
$keeper->run("SELECT stop_at('arrival-small', 'skip', 'any', 0, 0)") if rare(0.7);
up('CREATE PUBLICATION p FOR ALL TABLES');

# ---------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------

# Values that are kept out of line upstream, where a row is large enough: by those too conditions go, and groups are made.
my @toasted = (
	[ 'text', 'pad', 'text', "'w' || X % 50 || repeat('=', 70)", "md5((X % 200)::text) || md5(X::text)", "repeat('x', X % 90) || X" ], [ 'text COLLATE "C"', 'prefixed', 'text', "repeat('common/prefix/', 4) || X % 30" ],
	[ 'numeric', 'scaled', 'numeric', '(X % 90)::numeric * 1e120 + X', "repeat('7', X % 120 + 1)::numeric" ], [ 'bytea', 'bytes', 'bytea', "decode(repeat(md5((X % 60)::text), 3), 'hex')" ],
	[ 'jsonb', 'jkey', 'jsonb', "jsonb_build_object('a', X % 30, 'b', repeat('y', 80))" ], [ 'int[]', 'arraykey', 'array', 'array_fill(X % 40, ARRAY[30])' ], [ 'varchar(400)', 'digit', 'text', "repeat('v' || X % 30, 30)" ]);

# A table with a key, some columns with values that are kept out of line, and a large one that makes rows large enough.
sub make_table
{
	my $table;

	do { $table = $generator->make_table } until @{ $table->{key} } && (grep { !$_->{key} } @{ $table->{columns} }) < 20;
	foreach my $i (1 .. pick(1, 2, 4))
	{
		my $column = RoseScanGen::make_column("out$i", pick(@toasted));

		$column->{own} //= pick(grep { defined } @{ (grep { $_->[0] eq $column->{declared} } @toasted)[0] }[ 3 .. 5 ]);
		splice(@{ $table->{columns} }, int(rand(@{ $table->{columns} } + 1)), 0, $column);
	}
	my $large = RoseScanGen::make_column('large', [ 'text', 'pad', 'text', "repeat(md5(X::text), " . pick(70, 200) . ')' ]);
	@{$large}{qw(own nulls mixed large)} = (pick("repeat(md5((X % 700)::text), 70)", "repeat('large ' || X, 500)", "repeat(md5(X::text), X % 150)"), pick(0, 0, 10), 0, 1);
	splice(@{ $table->{columns} }, int(rand(@{ $table->{columns} } + 1)), 0, $large);
	$table->{most} = pick(300, 800, 2000);
	return $table;
}

sub upstream_ddl
{
	my ($table) = @_;
	my @ddl = RoseScanGen::ddl_of($table, 'heap');

	foreach my $leaf (leaves($table))
	{
		push @ddl, "ALTER TABLE $leaf SET (toast_tuple_target = 128)";
		push @ddl, map { "ALTER TABLE $leaf ALTER $_->{name} SET STORAGE " . pick('EXTERNAL', 'EXTERNAL', 'EXTENDED') }
		  grep { $_->{type} =~ /^(text|numeric|bytea|jsonb|int\[\]|varchar.*)$/ && !$_->{key} } @{ $table->{columns} };
		push @ddl, "ALTER TABLE $leaf REPLICA IDENTITY FULL" if rare(0.15);
	}
	return @ddl;
}

# Updates that leave most values alone.
sub small_update
{
	my ($table) = @_;
	my @can = grep { $_->{name} ne 'n' && !$_->{unique} && !$_->{key} && !$_->{large} } @{ $table->{columns} };
	my $salt = int(rand(10000));
	my $where = rare(0.5) ? 'n % ' . pick(1, 2, 3, 10, 50) . ' = 0' : condition($table, { same => 1 });

	return "UPDATE $table->{name} SET n = n WHERE $where" if !@can;
	my %set = map { $_->{name} => $_ } map { pick(@can) } 1 .. pick(1, 1, 2);
	return "UPDATE $table->{name} SET " . join(', ', map { "$_ = " . RoseScanGen::row_value($set{$_}, 'n', $salt) } sort keys %set) . " WHERE $where";
}

sub write_rows
{
	my ($table) = @_;

	return rare(0.6) ? small_update($table) : RoseScanGen::write_rows($table);
}

sub wait_applied { return wait_for_apply($upstream, $replica) }

# Statements that may fail for a value, as updates do, and then change nothing.
sub write_upstream
{
	my (@statements) = @_;

	foreach my $statement (@statements)
	{
		my $error;

		$upstream->psql('postgres', $statement, stderr => \$error);
		append_to_file("$saved.writes", "$statement;\n" . ($error ? "-- $error\n" : ''));
	}
	return;
}

sub churn_down
{
	my ($table, $what) = @_;

	foreach my $leaf (leaves($table))
	{
		append_to_file("$saved.writes", "-- replica: rose.$what('$leaf')\n");
		down("SELECT rose.$what('$leaf')");
	}
	return;
}

# ---------------------------------------------------------------------------
# Queries
# ---------------------------------------------------------------------------

sub settings_of
{
	my ($mode) = @_;
	my $text = join('', map { "SET rose.enable_$_ = " . ($mode eq 'off' ? 'off' : 'on') . ";\n" } qw(scan aggregate top));

	return $text . join('', map { "RESET $_;\n" } qw(rose.vector_rows rose.aggregate_memory rose.aggregate_sample work_mem hash_mem_multiplier rose.scan_min_rows cpu_tuple_cost)) if $mode ne 'other';
	return $text . "SET rose.scan_min_rows = 0;\nSET cpu_tuple_cost = 1;\n"
	  . (rare(0.3) ? "SET work_mem = '64kB';\nSET hash_mem_multiplier = 1;\nSET rose.aggregate_memory = -1;\n" : "SET rose.aggregate_memory = '" . pick(0, 4, 16, 64) . "kB';\n") .
	  'SET rose.vector_rows = ' . pick(1, 7, 64, 2048) . ";\nSET rose.aggregate_sample = " . pick(-1, 0, 1, 30, 1000000) . ";\n";
}

sub plans
{
	my ($query) = @_;
	my $text = join('', map { rare(0.15) ? "SET $_ = off;\n" : '' } qw(enable_indexscan enable_hashjoin enable_mergejoin enable_nestloop enable_sort enable_material enable_hashagg));

	$text .= join('', map { rare(0.7) ? "SET $_ = off;\n" : '' } qw(enable_bitmapscan enable_indexonlyscan));
	return $text if !rare(0.35) || grep { $_->{alone} } @{ $query->{query} };
	return $text . join('', map { "SET $_;\n" } 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0', 'rose.interval_leaves = ' . pick(1, 1, 5),
		'max_parallel_workers_per_gather = ' . pick(1, 2, 3), 'parallel_leader_participation = ' . pick('on', 'off'));
}

sub marked
{
	my ($sql, $mark) = @_;

	return "$sql;\n\\echo '@@ $mark' :SQLSTATE :ROW_COUNT\n";
}

# Queries that only read, of which others do not know who may see what.
sub reading_query
{
	my ($tables) = @_;
	my $query;

	do { $query = query($tables, 0) } while grep { ($_->{sql} // '') =~ /\b(UPDATE|DELETE)\b|view_|shown_|scan_reader/ } @{ $query->{query} };
	return $query;
}

my $session = "SET client_min_messages = error;\nSET extra_float_digits = 1;\nSET intervalstyle = postgres;\n";

# First the upstream is asked; then, in a snapshot of now if later is given, which is to be done meanwhile, the replica.
sub script_of
{
	my ($queries, $twin, $later) = @_;
	my $text = "\\pset format unaligned\n\\pset tuples_only\n\\pset null '<null>'\n\\set ON_ERROR_ROLLBACK on\n$session";

	$text .= "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM pg_class;\n\\echo '@@ begin'\n$later" if $later;
	foreach my $n (0 .. $#$queries)
	{
		$text .= "RESET ALL;\n$session$queries->[$n]{plans}";
		foreach my $mode ($twin eq 'heap' ? 'heap' : @modes)
		{
			my $i = -1;

			$text .= settings_of($mode) if $mode ne 'heap';
			foreach my $statement (@{ $queries->[$n]{query} })
			{
				$i++;
				next if $statement->{churn};
				next if $later && $statement->{sql} =~ /^(BEGIN|ROLLBACK|COMMIT)/;
				$text .= marked("EXPLAIN (COSTS off) $statement->{sql}", "plan $n $i") if $mode eq 'on' && $statement->{plan};
				$text .= marked($statement->{sql}, "$mode $n $i");
			}
			$text .= "CLOSE ALL;\n" if $later;
		}
	}
	return $text . ($later ? "COMMIT;\n" : '');
}

sub run_script
{
	my ($twin, $text) = @_;
	my %answers;

	unlink "$dir/$twin.sql";
	append_to_file("$dir/$twin.sql", $text);
	IPC::Run::run([ 'psql', '-Xq', '-d', $node{$twin}->connstr('postgres'), '-f', "$dir/$twin.sql" ], '>', "$dir/$twin.out", '2>', "$dir/$twin.err");
	my @sections = split /^@@ (\S+(?: \d+ \d+)?)(.*)\n/m, slurp_file("$dir/$twin.out");
	my $rows = shift @sections;

	while (@sections)
	{
		my ($mark, $status, $next) = splice(@sections, 0, 3);

		$answers{$mark} = { rows => [ split /\n/, $rows ], status => $status =~ s/^ //r };
		$rows = $next;
	}
	return \%answers;
}

sub normal
{
	my ($answer, $statement) = @_;

	return 'no answer: the session ended' if !$answer;
	return 'error ' . substr($answer->{status}, 0, 5) if $answer->{status} !~ /^00000/;
	return join("\n", ($statement->{ordered} ? @{ $answer->{rows} } : sort @{ $answer->{rows} }), $answer->{status});
}

my %count = map { $_ => 0 } qw(queries plans scans aggregates top parallel errors);

sub count_plan
{
	my ($plan) = @_;

	return if !$plan || $plan->{status} !~ /^00000/;
	$count{plans}++;
	$count{scans}++ if grep { /Custom Scan \(Rose Scan\)/ } @{ $plan->{rows} };
	$count{aggregates}++ if grep { /Custom Scan \(Rose Aggregate\)/ } @{ $plan->{rows} };
	$count{top}++ if grep { /Top Key: / } @{ $plan->{rows} };
	$count{parallel}++ if grep { /Parallel Custom Scan \(Rose/ } @{ $plan->{rows} };
	return;
}

sub fails_alone { return (grep { /^error 22/ } @_) == 1 && !grep { /^error (?!22)|^no answer/ } @_ }

sub compare
{
	my ($queries, $heap, $rose, $what) = @_;
	my $wrong = 0;

	foreach my $n (0 .. $#$queries)
	{
		my $i = -1;

		$count{queries}++;
		foreach my $statement (@{ $queries->[$n]{query} })
		{
			my $model;

			$i++;
			next if $statement->{churn} || $statement->{sql} =~ /^(BEGIN|ROLLBACK|COMMIT)/;
			count_plan($rose->{"plan $n $i"});
			$model = $statement->{alone} ? normal($rose->{"off $n $i"}, $statement) : normal($heap->{"heap $n $i"}, $statement);
			$count{errors}++ if $model =~ /^error/;
			foreach my $mode (@modes)
			{
				my $said = normal($rose->{"$mode $n $i"}, $statement);

				next if $said eq $model || !$statement->{sure} && fails_alone($said, $model);
				diag("REPLICA_SEED=$seed: $what, $mode: $statement->{sql}");
				diag("--- $_->[0]: " . substr($_->[1], 0, 1500)) foreach [ 'heap', $model ], [ $mode, $said ], [ 'plan', join("\n", @{ ($rose->{"plan $n $i"} // {})->{rows} // [] }) ];
				$wrong = 1;
				last;
			}
			last if $wrong;
		}
	}
	return $wrong;
}

# Updates that change nothing but versions, spills and merges, as long as the replica is asked.
sub start_noise
{
	my ($tables) = @_;
	my ($writes, $churn) = ('', '');

	foreach (1 .. 60)
	{
		my $table = pick(@$tables);
		my @same = grep { !$_->{key} && $_->{name} ne 'n' } @{ $table->{columns} };
		my $same = rare(0.7) ? 'n' : pick(@same, { name => 'n' })->{name};

		$writes .= "UPDATE $table->{name} SET $same = $same WHERE n % " . pick(3, 10, 50, 200) . " = 1;\nSELECT pg_sleep(" . rand(0.1) . ");\n";
		$churn .= join('', map { 'SELECT rose.' . pick('spill', 'spill', 'merge') . "('$_');\n" } leaves($table)) . 'SELECT pg_sleep(' . rand(0.1) . ");\n";
	}
	unlink map { "$dir/$_.sql" } qw(writes churn);
	append_to_file("$dir/writes.sql", $writes);
	append_to_file("$dir/churn.sql", $churn);
	return map { IPC::Run::start([ 'psql', '-Xq', '-d', $_->[0]->connstr('postgres'), '-f', "$dir/$_->[1].sql" ], '<', \undef, '>', '/dev/null', '2>>', "$saved.noise") } [ $upstream, 'writes' ], [ $replica, 'churn' ];
}

# Some queries of what is there now, asked of both.
sub block
{
	my ($tables) = @_;
	my @queries = map { my $query = reading_query($tables); $query->{plans} = plans($query); $query } 1 .. pick(2, 4, 8);
	my $later = '';

	wait_applied();
	if (rare(0.25))
	{
		my $table = pick(@$tables);

		# What comes after the snapshot, by whom all of it is merged away.
		my $heap = run_script('heap', script_of(\@queries, 'heap'));
		my @writes = map { write_rows($table) } 1 .. pick(1, 3);
		unlink "$dir/later.sql", "$dir/wait.sql";
		append_to_file("$dir/later.sql", join(";\n", @writes, "SELECT pg_current_wal_flush_lsn() AS l \\gset\n\\o $dir/wait.sql\n\\echo\nSELECT 'SELECT rose.wait_for_lsn(''s'', ''' || pg_current_wal_flush_lsn() || ''', 180);'"
			  . (rare(0.7) ? join('', map { " UNION ALL SELECT 'SELECT rose.spill(''$_'');'" . (rare(0.6) ? " UNION ALL SELECT 'SELECT rose.merge(''$_'');'" : '') } leaves($table)) : '')) . ";\n");
		append_to_file("$saved.writes", "-- later:\n" . join(";\n", @writes) . ";\n");
		my $psql = sub { "\\! psql -Xqt -d '" . ($_[0]->connstr('postgres') =~ s/'/"/gr) . "' -f $dir/$_[1].sql >/dev/null 2>>$saved.noise\n" };
		s/-d '(.*?)' -f/-d "$1" -f/ foreach my @commands = ($psql->($upstream, 'later'), $psql->($replica, 'wait'));
		my $rose = run_script('rose', script_of(\@queries, 'rose', join('', map { s/""/'/gr } @commands)));
		return compare(\@queries, $heap, $rose, 'in a snapshot');
	}
	my $heap = run_script('heap', script_of(\@queries, 'heap'));
	my @noise = rare(0.6) ? start_noise($tables) : ();
	my $rose = run_script('rose', script_of(\@queries, 'rose'));
	$_->signal('INT') foreach @noise;
	$_->kill_kill foreach @noise;
	return compare(\@queries, $heap, $rose, @noise ? 'beside writes' : 'at rest');
}

# Something that changes a table's state.
sub step
{
	my ($tables) = @_;
	my $table = pick(@$tables);

	return write_upstream(map { write_rows($table) } 1 .. pick(1, 2)) if rare(0.55);
	if (rare(0.25))
	{
		my $alter = RoseScanGen::alter($table);

		wait_applied();
		# what the replica does not know yet is not sent before it does
		foreach my $node ($alter =~ /DROP/ ? ($upstream, $replica) : ($replica, $upstream))
		{
			$node->safe_psql('postgres', $alter);
		}
		append_to_file("$saved.writes", "$alter; -- both\n");
		return;
	}
	wait_applied() if rare(0.7);
	churn_down($table, pick('spill', 'spill', 'merge'));
	return;
}

my $different = 0;
my ($partials, $subscribed) = (0, 0);
my @tables;
unlink "$saved.writes", "$saved.noise";
while ($count{queries} < $wanted && (!$different || $ENV{REPLICA_KEEP}))
{
	my $before = $count{queries};

	if (@tables)
	{
		wait_applied();
		foreach my $table (@tables)
		{
			$partials += down('SELECT coalesce(sum(partials), 0) FROM rose.stat_subscription_tables');
			up("DROP TABLE $table->{name}");
			down("DROP TABLE $table->{name}");
		}
	}
	@tables = map { make_table() } 1 .. 2;
	foreach my $table (@tables)
	{
		my @up = upstream_ddl($table);

		append_to_file("$saved.writes", join(";\n", @up) . ";\n");
		up(join(";\n", @up));
		down(join(";\n", RoseScanGen::ddl_of($table, 'rose')));
	}
	my $some = sub { write_upstream(map { RoseScanGen::insert($_, int(rand($_->{most} / 2)) + 100) } @tables) };
	$some->();
	if ($subscribed++)
	{
		down("SELECT rose.alter_subscription('s', refresh => true)");
		down("SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
	}
	else
	{
		subscribe($upstream, $replica, undef, 'durability => ' . pick("'upstream'", "'local'")) ;
	}
	$some->();
	foreach my $table (@tables)
	{
		up("ANALYZE $table->{name}");
		wait_applied();
		down("ANALYZE $table->{name}");
	}
	while ($count{queries} < $before + $round && (!$different || $ENV{REPLICA_KEEP}))
	{
		step(\@tables) foreach 1 .. pick(1, 2, 3);
		$different |= block(\@tables);
	}
	foreach my $table (@tables)
	{
		wait_applied();
		$different |= diag("REPLICA_SEED=$seed: $table->{name} is another one") if table_hash($upstream, $table->{name}) ne table_hash($replica, $table->{name});
		foreach my $leaf (leaves($table))
		{
			my $check = down("SELECT * FROM rose.check('$leaf')");
			$different |= diag("REPLICA_SEED=$seed: $leaf: $check") if $check ne '';
		}
	}
}
wait_applied();
$partials += down('SELECT coalesce(sum(partials), 0) FROM rose.stat_subscription_tables');
note("$count{queries} queries, $count{plans} plans, $count{scans} with a Rose Scan, $count{parallel} parallel, $count{aggregates} with a Rose Aggregate, $count{top} of first rows, $count{errors} errors, $partials partial versions");
ok(!$different, "the same rows as upstream ($count{queries} queries)");
cmp_ok($partials, '>', 100, 'many versions had some columns only');
cmp_ok($count{scans}, '>', 0.3 * $count{plans}, 'a good share of the plans has a Rose Scan');
cmp_ok($count{aggregates}, '>', 0, 'some have a Rose Aggregate');
unlink "$saved.writes", "$saved.noise" if !$different;
$keeper->end;
$_->stop foreach $replica, $upstream;
done_testing();
