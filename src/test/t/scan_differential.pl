
# Random queries of random tables: with Rose Scan the same as without it, and as on heap.
#
# The twins have the same names in two schemas of one database. Both are brought into the same states (RoseScanGen);
# then each query (RoseScanQueries) is asked of heap, and of rose without Rose Scan, with it, and with other settings, some by several processes.
# Rows must be the same, in their order where there is one, floats by their bits, and errors by their codes. Some
# queries are checked by themselves: a condition, its negation and neither make all rows; what a condition finds is
# what it is true for. Environment:
#
#   DIFF_SEED		repeat a run
#   DIFF_QUERIES	how many queries, default 500
#   DIFF_ROUND		queries before there are other tables, default 100
#   DIFF_KEEP		1: go on after a difference
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseScanGen;
use RoseSqlTables;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in has no Rose Scan' if $ENV{ROSE_STANDIN};

my $wanted = $ENV{DIFF_QUERIES} // 500;
my $round = $ENV{DIFF_ROUND} // 100;
my $seed = seed_random('DIFF_SEED');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $saved = "$PostgreSQL::Test::Utils::tmp_check/scan_differential_$seed.sql";
my @modes = qw(off on other);
my $node = rose_node('scan_differential', 'autovacuum = off',
	'rose.debug_piece_size = ' . (rand() < 0.5 ? "'64kB'" : "'32MB'"), 'rose.max_merge_workers = 0');
local %ENV = $node->_get_env(PGDATABASE => 'postgres', PGHOST => $node->host, PGPORT => $node->port);
my $generator = RoseScanGen->new;

$node->safe_psql('postgres', join(";\n", 'CREATE ROLE scan_reader', map {
	("CREATE SCHEMA twin_$_", "GRANT USAGE ON SCHEMA twin_$_ TO scan_reader", "SET search_path = twin_$_", $generator->ddl) } qw(heap rose)));

# In memory, small tables too are read in the order in which their rows came.
stop_points_create($node);
my $keeper = RoseTest::Session->new($node);
$keeper->run("SELECT stop_at('arrival-small', 'skip', 'any', 0, 0)") if rand() < 0.7;

# Which plans are chosen; the answers must not depend on it. Mostly none that reads a table in another way.
sub plans
{
	my ($item) = @_;
	my @off = map { rare(0.15) ? $_ : () } qw(enable_indexscan enable_hashjoin enable_mergejoin enable_nestloop enable_sort enable_material enable_hashagg);

	push @off, map { rare(0.7) ? $_ : () } qw(enable_bitmapscan enable_indexonlyscan);
	return join('', (map { "SET $_ = off;\n" } @off), rare(0.1) ? always_parallel($node) . ";\n" : '', rare(0.3) ? parallel($item) : '');
}

# By several processes, if the order in which they have rows does not show: sums of floats depend on it.
sub parallel
{
	my ($item) = @_;

	return '' if grep { $_->{alone} } @{ $item->{query} };
	return join('', map { "SET $_;\n" } 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0', 'rose.interval_leaves = ' . pick(1, 1, 5),
		'max_parallel_workers_per_gather = ' . pick(1, 2, 2, 3), 'parallel_leader_participation = ' . pick('on', 'off'));
}

sub session
{
	my ($twin) = @_;

	return "SET search_path = twin_$twin;\nSET client_min_messages = error;\nSET extra_float_digits = 1;\nSET intervalstyle = postgres;\n";
}

# What rose is told for each mode.
sub settings_of
{
	my ($mode) = @_;

	my $text = join('', map { "SET rose.enable_$_ = " . ($mode eq 'off' ? 'off' : 'on') . ";\n" } qw(scan aggregate top));

	return $text . join('', map { "RESET $_;\n" } qw(rose.vector_rows rose.aggregate_memory rose.aggregate_sample work_mem hash_mem_multiplier)) if $mode ne 'other';
	# in little memory rows go to tapes, where there is a choice
	return $text . (rare(0.3) ? "SET work_mem = '64kB';\nSET hash_mem_multiplier = 1;\nSET rose.aggregate_memory = -1;\n" : "SET rose.aggregate_memory = '" . pick(0, 4, 16, 64) . "kB';\n") .
	  'SET rose.vector_rows = ' . pick(1, 7, 64, 2048) . ";\nSET rose.aggregate_sample = " . pick(-1, 0, 1, 30, 1000000, 1000000) . ";\n";
}

sub marked
{
	my ($sql, $mark) = @_;

	return "$sql;\n\\echo '@@ $mark' :SQLSTATE :ROW_COUNT\n\\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\endif\n";
}

# The scripts of both twins for some items.
sub scripts
{
	my ($items, $ddl) = @_;
	my %script;

	$_->{plans} = plans($_) foreach grep { $_->{query} } @$items;
	foreach my $twin (qw(heap rose))
	{
		my $text = "\\pset format unaligned\n\\pset tuples_only\n\\pset null '<null>'\n\\set ON_ERROR_ROLLBACK on\n" . session($twin);

		$text .= marked($_, 'ddl') foreach @{ $ddl->{$twin} };
		foreach my $n (0 .. $#$items)
		{
			my $item = $items->[$n];

			$text .= write_of($item, $n, $twin) if $item->{write};
			$text .= churn_of($item) if $item->{churn} && $twin eq 'rose';
			next if !$item->{query};
			$text .= "RESET ALL;\n" . session($twin) . $item->{plans};
			foreach my $mode ($twin eq 'heap' ? 'heap' : @modes)
			{
				my $i = 0;

				$text .= settings_of($mode) if $mode ne 'heap';
				foreach my $statement (@{ $item->{query} })
				{
					$text .= churn_of({ %$statement, inside => 1 }) if $statement->{churn} && $twin eq 'rose';
					$i++, next if $statement->{churn};
					$text .= marked("EXPLAIN (COSTS off) $statement->{sql}", "plan $n $i") if $mode eq 'on' && $statement->{plan};
					$text .= marked($statement->{sql}, "$mode $n " . $i++);
				}
			}
		}
		$script{$twin} = $text;
	}
	return \%script;
}

sub write_of
{
	my ($item, $n, $twin) = @_;

	return marked($item->{write}, "write $n 0") if !$item->{inside};
	return "\\! psql -Xq -o /dev/null -v VERBOSITY=sqlstate -c 'SET client_min_messages = error; SET search_path = twin_$twin' -c \"" . ($item->{write} =~ s/(["\$`\\])/\\$1/gr) . "\" 2>>$dir/beside_$twin.err\n";
}

sub churn_of
{
	my ($item) = @_;
	my $call = "SELECT rose.$item->{what}('twin_rose.$item->{churn}')";

	return "\\! psql -Xq -o /dev/null -c \"SET lock_timeout = '120s'\" -c \"$call\" 2>>$dir/churn.err\n" if $item->{inside};
	return "\\o /dev/null\n$call;\n\\o\n\\if :ERROR\n\\echo '!!' :LAST_ERROR_MESSAGE\n\\endif\n";
}

# Both at the same time; what was said, by mark.
sub run_scripts
{
	my ($script) = @_;
	my (%session, %answers);

	foreach my $twin (qw(heap rose))
	{
		unlink "$dir/$twin.sql";
		append_to_file("$dir/$twin.sql", $script->{$twin});
		$session{$twin} = IPC::Run::start([ 'psql', '-Xq', '-f', "$dir/$twin.sql" ], '>', "$dir/$twin.out", '2>', "$dir/$twin.err");
	}
	$session{$_}->finish foreach qw(heap rose);
	foreach my $twin (qw(heap rose))
	{
		my @sections = split /^@@ (\S+(?: \d+ \d+)?) (.*)\n/m, slurp_file("$dir/$twin.out");
		my $rows = shift @sections;

		while (@sections)
		{
			my ($mark, $status, $next) = splice(@sections, 0, 3);
			my $message = '';

			$message = $1 if $status !~ /^00000/ && $next =~ s/\A(.*\n)//;
			die "$mark: $message" if $mark eq 'ddl' && $message;
			$answers{"$twin $mark"} = { rows => [ split /\n/, $rows =~ s/^!!.*\n//mgr, -1 ], status => $status, message => $message };
			pop @{ $answers{"$twin $mark"}{rows} };
			$rows = $next;
		}
	}
	return \%answers;
}

# An answer as it is compared. Of errors the code: which row comes first is not defined.
sub normal
{
	my ($answer, $statement) = @_;

	return 'no answer: the session ended' if !$answer;
	return 'error ' . substr($answer->{status}, 0, 5) if $answer->{status} !~ /^00000/;
	return join("\n", ($statement->{ordered} ? @{ $answer->{rows} } : sort @{ $answer->{rows} }), $answer->{status});
}

sub report
{
	my ($title, %answers) = @_;

	diag("DIFF_SEED=$seed: $title");
	foreach my $who (sort keys %answers)
	{
		diag("--- $who: " . (length $answers{$who} > 1500 ? substr($answers{$who}, 0, 1500) . ' ...' : $answers{$who}));
	}
	diag("all statements of these tables: $saved; server log: " . $node->logfile);
	return 1;
}

# Is it an error in a value, and of one of them?
sub fails_alone
{
	return (grep { /^error 22/ } @_) == 1 && !grep { /^error (?!22)|^no answer/ } @_;
}

my %count = map { $_ => 0 } qw(queries scans parallel aggregates groups groupable distinct top first plans errors checks);

# Compares what was said to one item; true: something is wrong.
sub compare_item
{
	my ($item, $n, $answers) = @_;
	my $wrong = 0;

	if ($item->{write} && !$item->{inside})
	{
		my %said = map { $_ => normal($answers->{"$_ write $n 0"}, {}) } qw(heap rose);
		return $said{heap} ne $said{rose} && report($item->{write}, %said);
	}
	return 0 if !$item->{query};
	$count{queries}++;
	my %left;
	foreach my $i (0 .. $#{ $item->{query} })
	{
		my $statement = $item->{query}[$i];
		next if $statement->{churn};
		my %said = map { $_ => normal($answers->{ ($_ eq 'heap' ? 'heap' : 'rose') . " $_ $n $i" }, $statement) } 'heap', @modes;
		my $plan = $answers->{"rose plan $n $i"};

		$count{errors}++ if $said{heap} =~ /^error/;
		if ($plan && $plan->{status} =~ /^00000/)
		{
			$count{plans}++;
			$count{scans}++ if grep { /Custom Scan \(Rose Scan\)/ } @{ $plan->{rows} };
			$count{parallel}++ if grep { /Parallel Custom Scan \(Rose Scan\)/ } @{ $plan->{rows} };
			$count{first}++ if $statement->{top};
			$count{top}++ if $statement->{top} && grep { /Top Key: / } @{ $plan->{rows} };
			$count{groupable}++ if $statement->{grouped};
			$count{groups}++ if $statement->{grouped} && grep { /Custom Scan \(Rose Aggregate\)/ } @{ $plan->{rows} };
			$count{distinct}++ if $statement->{distinct} && grep { /Custom Scan \(Rose Aggregate\)/ } @{ $plan->{rows} };
			$count{aggregates}++ if grep { /Custom Scan \(Rose Aggregate\)/ } @{ $plan->{rows} };
		}
		my $model = $statement->{alone} ? 'off' : 'heap';
		foreach my $mode (@modes)
		{
			next if $left{$mode} || $said{$mode} eq $said{$model};
			# one of them did not come to the row for which a condition fails; the others of these statements may be about that
			next if !$statement->{sure} && ($left{$mode} = fails_alone(@said{ $model, $mode }));
			report("$mode: $statement->{sql}", $model => $said{$model}, $mode => $said{$mode}, plan => join("\n", @{ ($plan // {})->{rows} // [] }));
			$wrong = 1;
			last;
		}
	}
	return $wrong if !$item->{check};
	foreach my $mode (@modes)
	{
		my @all = map { $answers->{"rose $mode $n $_"} } 0 .. $#{ $item->{query} };

		next if grep { !$_ || $_->{status} !~ /^00000/ } @all;
		my $said = $item->{check}->(map { $_->{rows}[0] } @all);
		$count{checks}++;
		$wrong |= report("$mode: $said: $item->{query}[0]{sql}", map { $_ => $all[$_]{rows}[0] } 0 .. $#all) if $said;
	}
	return $wrong;
}

# What other sessions could not do: on rose alone, or to rose.
sub refused
{
	my @lines = slurp_file("$dir/rose.out") =~ /^!!.(.*)/mg;
	my %said = map { $_ => -f "$dir/$_.err" ? slurp_file("$dir/$_.err") : '' } qw(churn beside_heap beside_rose);

	unlink map { "$dir/$_.err" } keys %said;
	push @lines, $said{churn} =~ /^(.*(?:ERROR|PANIC|FATAL|connection).*)/mg;
	push @lines, "beside, on heap: $said{beside_heap}; on rose: $said{beside_rose}" if $said{beside_heap} ne $said{beside_rose};
	return grep { !/current transaction is aborted/ } @lines;
}

my $different = 0;
while ($count{queries} < $wanted && (!$different || $ENV{DIFF_KEEP}))
{
	my $ddl = $generator->renew(qw(heap rose));
	my @items = $generator->load;
	my $before = $count{queries};

	push @items, $generator->next_block while (grep { $_->{query} } @items) < $round;
	my $script = scripts(\@items, $ddl);
	unlink $saved;
	append_to_file($saved, $script->{rose});
	my $answers = run_scripts($script);
	foreach my $n (0 .. $#items)
	{
		next if !compare_item($items[$n], $n, $answers);
		$different = 1;
		last if !$ENV{DIFF_KEEP};
	}
	my @refused = refused();
	$different |= report("failed: $_") foreach @refused;
	die 'no queries' if !$different && $count{queries} == $before;
}
note("$count{queries} queries, $count{plans} plans of which $count{scans} with a Rose Scan, $count{parallel} of them parallel, $count{aggregates} with a Rose Aggregate, of $count{groupable} with groups $count{groups}, $count{distinct} of distinct values, $count{top} of $count{first} of first rows, $count{errors} errors, $count{checks} checks");
ok(!$different, "the same rows with Rose Scan, without, and on heap ($count{queries} queries)");
ok($different || $count{queries} >= $wanted, "$wanted queries were compared");
cmp_ok($count{scans}, '>', 0.4 * $count{plans}, 'a good share of the plans has a Rose Scan');
cmp_ok($count{groups}, '>', 0.1 * $count{groupable}, 'many of those with groups have one, too');
cmp_ok($count{aggregates}, '>', 0.05 * $count{plans}, 'some have a Rose Aggregate');
cmp_ok($count{top}, '>', 0.1 * $count{first}, 'many of those of the first rows leave out others');
cmp_ok($count{parallel}, '>', 0.03 * $count{plans}, 'some have a parallel one');
cmp_ok($count{errors}, '<', 0.2 * $count{queries}, 'most queries have an answer');
cmp_ok($count{checks}, '>', 0, 'some were checked by themselves');
unlink $saved if !$different;
$keeper->end;
$node->stop;
done_testing();
