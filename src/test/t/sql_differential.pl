
# Random SQL in lockstep on heap tables and on rose tables: every statement must
# give the same rows, the same row count and the same error on both, while the
# rose tables are spilled and merged in between, and meanwhile.
#
# The twins have the same names in two schemas of one database, so the two
# sessions run the same text. Environment:
#
#   DIFF_SEED        repeat a run (its spills and merges beside the session vary)
#   DIFF_STATEMENTS  how many statements, default 9000
#   DIFF_BATCH       statements a session, default 600; contents are compared
#                    and rose.check is asked after each
#   DIFF_TABLES      names of the tables to use, separated by commas
#   DIFF_CHURN       0: no spills and merges beside the session, only in turn
#   DIFF_RESTARTS    0: the server is not restarted between batches
#   DIFF_CTID        0: rows are not found by their ctid
#   DIFF_INDEXES     tables have up to so many secondary indexes; default 0
#   DIFF_TEMP        1: the tables are temporary ones, made anew by the session of each batch, which spills and
#                    merges them itself; their contents are compared, and rose.check is asked, at its end
#
# Between batches the server is sometimes restarted, or killed and restarted; then
# the first to touch some tables is an ALTER TABLE. In half of the runs no worker
# comes before it.
#
# At the first difference the statement, both answers and the statements before
# it are printed, and all statements so far are saved for psql. What the difference is
# is said once more behind the test that fails, for who sees little more than that.
use strict;
use warnings;

use FindBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseSqlGen;
use RoseTest;
use Test::More;

my $wanted = $ENV{DIFF_STATEMENTS} // 9000;
my $batch_size = $ENV{DIFF_BATCH} // 600;
my $churn = $ENV{DIFF_CHURN} // 1;
my $restarts = $ENV{DIFF_RESTARTS} // 1;
my $ctid = $ENV{DIFF_CTID} // 1;
my $indexes = $ENV{DIFF_INDEXES} // 0;
my $temp = $ENV{DIFF_TEMP} // 0;
my $show_before = 25;
my $seed = seed_random('DIFF_SEED');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $saved = "$PostgreSQL::Test::Utils::tmp_check/differential_$seed.sql";
my %am = (heap => 'heap', rose => 'rose');
# the least, so that memory is short, or the most that is usual
my $temp_buffers = rand() < 0.6 ? '800kB' : '8MB';
# those of a batch that lose their rows with each transaction
my %emptied;

# small pieces, so that C2 has several of them; sometimes one, as small tables have
my $node = rose_node('differential', "statement_timeout = '60s'", 'autovacuum = on',
	rose_conf("rose.debug_piece_size = " . (rand() < 0.7 ? "'8kB'" : "'32MB'"), rand() < 0.5 ? 'rose.max_merge_workers = 0' : ()), scan_settings());
my $generator = RoseSqlGen->new(
	tables => [ split /,/, $ENV{DIFF_TABLES} // '' ],
	ctid => $ctid,
	indexes => $indexes,
	icu => $node->safe_psql('postgres', "SELECT count(*) FROM pg_collation WHERE collname = 'en-x-icu'"));
local %ENV = $node->_get_env(PGDATABASE => 'postgres', PGHOST => $node->host, PGPORT => $node->port);

foreach my $twin (sort keys %am)
{
	my @ddl = $temp ? $generator->types : $generator->ddl($am{$twin});
	$node->safe_psql('postgres', join(";\n", "CREATE SCHEMA twin_$twin", "SET search_path = twin_$twin", @ddl));
	append_to_file($saved, join("\n", map { "$_;" } "-- $twin", @ddl, '')) if $twin eq 'rose';
}

# Makes the scripts of one batch for both twins, and the list of its statements,
# which begin with those that are given.
sub make_batch
{
	my @items = @_;
	my @statements = @items;
	my @end = $temp ? contents() : ();
	my %script;

	while (@statements < $batch_size)
	{
		foreach my $item ($generator->next_block)
		{
			push @items, $item;
			push @statements, $item if exists $item->{sql} && !$item->{meta};
		}
	}
	# foreign keys are between tables that both do or both do not
	%emptied = map { $_ => rand() < 0.15 } grep { !/t_parent|t_child/ } $generator->leaf_names;
	push @items, @end;
	push @statements, grep { $_->{sql} } @end;
	foreach my $twin (keys %am)
	{
		my $n = 0;
		my $text = ($temp ? temporary_tables($twin) : "SET search_path = twin_$twin;\n") . "\\pset format unaligned\n\\pset tuples_only\n\\pset null '<null>'\n"
		  . "SET client_min_messages = error;\nSET extra_float_digits = 1;\n";
		foreach my $item (@items)
		{
			if ($item->{churn})
			{
				$text .= churn_step($item) if $twin eq 'rose';
				next;
			}
			$text .= $item->{sql} . ($item->{meta} ? "\n" : ";\n");
			$text .= sprintf("\\echo '@@ %d' :SQLSTATE :ROW_COUNT\n\\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\endif\n", $n++)
			  if !$item->{meta};
		}
		$script{$twin} = $text;
	}
	return (\@statements, \%script);
}

# The session's own, which are found before what is in the schema.
sub temporary_tables
{
	my ($twin) = @_;
	my $buffers = $twin eq 'rose' ? "SET temp_buffers = '$temp_buffers';\n" : '';
	my @ddl = $generator->tables($am{$twin});

	foreach (@ddl)
	{
		$_ .= ' ON COMMIT DELETE ROWS' if s/^CREATE (?=TABLE (\w+) .* USING)/CREATE TEMP / && $emptied{$1};
	}
	return "${buffers}SET search_path = pg_temp, twin_$twin;\n" . join('', map { "$_;\n" } @ddl);
}

# What is in all tables, and whether they are sound.
sub contents
{
	return (
		(map { { sql => "SELECT t::text FROM $_ t" } } $generator->table_names),
		(map { { churn => $_, check => 1 } } $generator->leaf_names));
}

# A spill or a merge at a fixed place in the script: by the session itself, or
# inside of its transactions by another one, but for temporary tables.
sub churn_step
{
	my ($item) = @_;
	my $what = rand() < 0.7 ? 'spill' : 'merge';
	my $call = sprintf("SELECT rose.%s('twin_rose.%s')", $what, $item->{churn});

	return "SELECT '!!', '$item->{churn}', c FROM rose.check('$item->{churn}') c;\n" if $item->{check};
	return "\\o /dev/null\nSELECT rose.$what('$item->{churn}');\n\\o\n\\if :ERROR\n\\echo '!!' :LAST_ERROR_MESSAGE\n\\endif\n" if $temp;
	return "\\! psql -Xq -o /dev/null -c \"SET lock_timeout = '20s'\" -c \"$call\" 2>>$dir/churn.err\n" if $item->{inside};
	return "\\o /dev/null\n$call;\n\\o\n\\if :ERROR\n\\echo '!!' :LAST_ERROR_MESSAGE\n\\endif\n";
}

# Starts a session beside the others that spills and merges all the time.
sub start_churn
{
	my $script = "$dir/churn.sql";
	my @names = $generator->leaf_names;

	unlink $script;
	for (1 .. 400)
	{
		append_to_file($script, sprintf("SELECT rose.%s('twin_rose.%s');\nSELECT pg_sleep(%.3f);\n",
				rand() < 0.8 ? 'spill' : 'merge', $names[ rand @names ], rand(0.06)));
	}
	return IPC::Run::start([ 'psql', '-Xq', '-f', $script ], '>', '/dev/null', '2>>', "$dir/churn.err");
}

# Runs both scripts at the same time; returns the answers, one a statement.
sub run_batch
{
	my ($script) = @_;
	my (%session, %answers);
	my $beside = $churn && !$temp && rand() < 0.7 ? start_churn() : undef;

	foreach my $twin (keys %am)
	{
		unlink "$dir/$twin.sql";
		append_to_file("$dir/$twin.sql", $script->{$twin});
		$session{$twin} = IPC::Run::start([ 'psql', '-Xq', '-f', "$dir/$twin.sql" ], '>', "$dir/$twin.out", '2>', "$dir/$twin.err");
	}
	$session{$_}->finish foreach keys %am;
	if ($beside)
	{
		$beside->signal('INT');
		$beside->finish;
	}
	foreach my $twin (keys %am)
	{
		my @sections = split /^@@ (\d+) (.*)\n/m, slurp_file("$dir/$twin.out");
		my $rows = shift @sections;
		while (@sections)
		{
			my ($n, $status, $next) = splice(@sections, 0, 3);
			my $message = '';

			# What follows the marker is the error, then the next statement's rows.
			$message = $1 if $status !~ /^00000/ && $next =~ s/\A(.*\n)//;
			$answers{$twin}[$n] = { rows => $rows, status => $status, message => $message };
			$rows = $next;
		}
	}
	return \%answers;
}

# The answer as it is compared: rows without a defined order are sorted.
sub normal
{
	my ($answer, $statement) = @_;

	return "no answer: the session ended\n" if !$answer;
	# -1: a row may be an empty line, and the last one
	my @rows = split /\n/, $answer->{rows} =~ s/^!!.*\n//mgr, -1;
	pop @rows if @rows;
	@rows = sort @rows if !$statement->{ordered};
	return join("\n", @rows, $answer->{status}, $answer->{message});
}

# Two rules are broken. By one row: a value of an index cannot be computed, and another one is taken; which error comes
# first depends on the order in which indexes are written, which heap takes from their OIDs. By two rows: a value of an
# index cannot be computed for one of them, and something else for another; which comes first depends on the order of rows.
sub broke_two_rules
{
	my @status = sort map { $_ && substr($_->{status}, 0, 5) } @_;

	return $indexes && (($status[0] =~ /^22/ && $status[1] eq '23505') || ($status[0] =~ /^22/ && $status[1] =~ /^22/ && grep { $_ eq '22012' } @status));
}

sub report_difference
{
	my ($n, $statements, $answers) = @_;
	my $from = $n > $show_before ? $n - $show_before : 0;

	diag("statements before it:");
	diag("  $statements->[$_]{sql}") foreach $from .. $n - 1;
	diag("the first difference, DIFF_SEED=$seed:\n  $statements->[$n]{sql}");
	foreach my $twin (sort keys %am)
	{
		my $text = normal($answers->{$twin}[$n], $statements->[$n]);
		$text = substr($text, 0, 3000) . ' ...' if length($text) > 3000;
		diag("--- $twin answered:\n$text");
	}
	diag("all statements so far: $saved; server log: " . $node->logfile);
	return;
}

# Compares the contents of all tables in several ways, and asks rose.check.
# Returns a text for each problem.
sub compare_contents
{
	my @problems;

	foreach my $name ($generator->table_names)
	{
		my $differ = $node->safe_psql('postgres', <<"SQL");
SELECT string_agg(side || ' ' || left(row, 200), E'\\n') FROM (
	SELECT 'only in heap:' AS side, * FROM (SELECT t::text AS row FROM twin_heap.$name t EXCEPT ALL SELECT t::text FROM twin_rose.$name t) a
	UNION ALL
	SELECT 'only in rose:', * FROM (SELECT t::text FROM twin_rose.$name t EXCEPT ALL SELECT t::text FROM twin_heap.$name t) b) d
SQL
		push @problems, "$name: $differ" if $differ ne '';
	}
	foreach my $name ($generator->leaf_names)
	{
		my $check = $node->safe_psql('postgres', "SELECT c::text FROM rose.check('twin_rose.$name') c");
		push @problems, "$name: rose.check: $check" if $check ne '';
	}
	return @problems;
}

# Restarts the server, in one way or another; returns what is to touch it first.
sub restart
{
	my @first;

	rand() < 0.5 ? crash_and_restart($node) : restart_by($node, rand() < 0.5 ? 'fast' : 'immediate');
	push @first, $generator->alter_some while @first < 3;
	return @first;
}

# How many components are there whose versions have forgotten their sequence numbers?
sub forgotten
{
	return $node->safe_psql('postgres', 'SELECT count(*) FROM rose.stat_components WHERE min_seq = 1');
}

my ($done, $batches, $different, $errors, $forgotten) = (0, 0, 0, 0, 0);
my @why;
my @first;
BATCH: while ($done < $wanted)
{
	my ($statements, $script) = make_batch(@first);
	append_to_file($saved, $script->{rose});
	my $answers = run_batch($script);

	foreach my $n (0 .. $#$statements)
	{
		my ($heap, $rose) = map { normal($answers->{$_}[$n], $statements->[$n]) } qw(heap rose);
		$errors++ if $answers->{heap}[$n] && $answers->{heap}[$n]{status} !~ /^00000/;
		if ($heap ne $rose && !broke_two_rules(map { $answers->{$_}[$n] } qw(heap rose)))
		{
			$different = 1;
			report_difference($n, $statements, $answers);
			@why = ($statements->[$n]{sql}, first_unequal($heap, $rose));
			last BATCH;
		}
	}
	$done += @$statements;
	$batches++;

	# a transaction that has failed, or has altered the table, cannot
	my @refused = grep { !$temp || !/current transaction is aborted|cannot merge table .* in a transaction that has altered/ }
	  slurp_file("$dir/rose.out") =~ /^!!.(.*)/mg;
	push @refused, slurp_file("$dir/churn.err") =~ /^(?!.*canceling statement due to user request)(.*(?:ERROR|PANIC|FATAL|connection).*)/mg
	  if -f "$dir/churn.err";
	my @problems = $temp ? () : compare_contents();
	$forgotten += forgotten() if !$temp;
	if (@refused || @problems)
	{
		diag("after batch $batches, DIFF_SEED=$seed");
		diag("spill or merge failed: $_") foreach @refused;
		diag($_) foreach @problems;
		diag("all statements so far: $saved");
		$different = 1;
		@why = ("after batch $batches", (map { "spill or merge failed: $_" } @refused), @problems);
		last;
	}
	@first = $restarts && !$temp && rand() < 0.2 ? restart() : ();
}
ok(!$different, "the same answers on heap and on rose ($done statements in $batches batches, $errors of them errors)")
  or diag("DIFF_SEED=$seed: ", join("\n", map { substr($_, 0, 400) } @why));
ok($different || $done >= $wanted, "$wanted statements were compared");
cmp_ok($forgotten, '>', 0, 'merges have forgotten sequence numbers') if !$temp;
cmp_ok($errors, '<', 0.35 * ($done || 1), 'most statements did something');

unlink $saved if !$different;
$node->stop;
done_testing();
