# What a merge has trimmed off its inputs is free before it ends, as soon as nobody can read it any more: the file needs little room beside what
# lives. Whoever began before goes on to read it: cursors in both directions, lookups, names of rows. Whoever begins later never gets there, though
# filters still know the keys. Crashes between the steps of a trim, errors, a restart and a standby.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;
use Time::HiRes qw(usleep);

plan skip_all => 'heap has no components' if $ENV{ROSE_STANDIN};

my $node = rose_node('trims', "rose.memtable_size = '8MB'", "rose.debug_piece_size = '256kB'", 'rose.max_merge_workers = 0', 'autovacuum = off',
	"rose.spill_interval = '1h'", 'restart_after_crash = on', "wal_keep_size = '1GB'", 'checkpoint_timeout = 1h');
stop_points_create($node);

sub sql { return $node->safe_psql('postgres', $_[0]) }
sub space { return sql("SELECT $_[1] FROM rose.space('$_[0]')") }

my %tables = (
	keyed => [ 'id text PRIMARY KEY, v int, t text', 'md5(g::text)' ],
	composite => [ 'v int, id text, t text, PRIMARY KEY (id, v)', 'md5(g::text)' ],
	large => [ 'id text PRIMARY KEY, v int, t text', 'md5(g::text)' ]);

sub both
{
	my ($table, $text) = @_;

	sql($text =~ s/\bTAB\b/$_/gr) foreach $table, "h_$table";
	return;
}

sub add_rows
{
	my ($table, $from, $to) = @_;
	my $n = $table eq 'large' ? 'CASE WHEN g % 200 = 0 THEN 200 ELSE 10 END' : '10';
	my $t = "(SELECT string_agg(md5((g * 20 + i)::text), '') FROM generate_series(1, $n) i)";

	both($table, "INSERT INTO TAB (id, v, t) SELECT $tables{$table}[1], g % 1000, $t FROM generate_series($from, $to) g");
	return;
}

sub spill { return sql("SELECT rose.spill('$_[0]')") }

# Runs with keys of the whole range, rows that were written again and some that are deleted.
sub make_table
{
	my ($table) = @_;

	sql("CREATE TABLE $_ ($tables{$table}[0]) USING " . ($_ eq $table ? 'rose' : 'heap')) foreach $table, "h_$table";
	foreach my $run (0 .. 4)
	{
		add_rows($table, $run * 10000, $run * 10000 + 2500);
		both($table, "UPDATE TAB SET t = 'again $run ' || t WHERE v % 9 = $run") if $run > 0;
		both($table, "DELETE FROM TAB WHERE v % 70 = $run");
		spill($table);
	}
	return;
}

# Whatever way rows are looked for: in both directions, each key by itself, many at a time, and the next one before some place.
sub compare
{
	my ($table, $what) = @_;
	my %questions = (
		'all rows' => 'SELECT count(*), sum(v), sum(hashtext(t)) FROM TAB',
		'in order' => "SELECT md5(string_agg(id || t, ' ' ORDER BY id)) FROM (SELECT id, t FROM TAB ORDER BY id) x",
		'from the end' => "SELECT md5(string_agg(id, ' ')) FROM (SELECT id FROM TAB ORDER BY id DESC) x",
		'first and last' => 'SELECT min(id), max(id) FROM TAB',
		'by key' => "SELECT count(t.id), sum(hashtext(t.t)) FROM generate_series(0, 66000, 37) g LEFT JOIN LATERAL (SELECT * FROM TAB WHERE id = md5(g::text) OFFSET 0) t ON true",
		'by many keys' => 'SELECT count(*), sum(hashtext(t)) FROM TAB WHERE id = ANY (ARRAY(SELECT md5(g::text) FROM generate_series(0, 66000, 11) g))',
		'before a place' => "SELECT md5(string_agg(k || coalesce(x, '-'), ' ' ORDER BY k)) FROM (SELECT k, (SELECT id FROM TAB WHERE id < k ORDER BY id DESC LIMIT 1) AS x FROM (SELECT substr(md5((g * 3)::text), 1, 4) AS k FROM generate_series(1, 200) g) y) z",
		'behind a place' => "SELECT md5(string_agg(k || coalesce(x, '-'), ' ' ORDER BY k)) FROM (SELECT k, (SELECT id FROM TAB WHERE id > k ORDER BY id LIMIT 1) AS x FROM (SELECT substr(md5((g * 3)::text), 1, 4) AS k FROM generate_series(1, 200) g) y) z");
	my @differ;

	foreach my $question (sort keys %questions)
	{
		my ($rose, $heap) = map {
			my (undef, $out, $err) = $node->psql('postgres', "SET enable_seqscan = off;\n" . ($questions{$question} =~ s/\bTAB\b/$_/gr)); "$out $err"
		} ($table, "h_$table");

		push @differ, "$question: $rose instead of $heap" if $rose ne $heap;
	}
	is(join("\n", @differ), '', "$table: the rows $what");
	is(sql("SELECT string_agg(c::text, '; ') FROM rose.check('$table') c"), '', "$table: rose.check $what");
	return;
}

# ---- the file: a merge needs room for a piece beside what it reads, not for all of it again
{
	sql('CREATE TABLE size (id text PRIMARY KEY, t text) USING rose');
	foreach my $run (1 .. 6)
	{
		sql("INSERT INTO size SELECT md5(g::text), md5('t' || g) FROM generate_series(${run}00000, ${run}00000 + 15000) g");
		sql("SELECT rose.spill('size')");
	}
	my ($before) = space('size', 'file_bytes');
	sql("SELECT rose.merge('size')");
	my ($file, $live) = split /\|/, space('size', 'file_bytes, c2_bytes');
	note("$before bytes of the file before, $file after the merge, $live of C2");
	cmp_ok($file - $before, '<', 0.2 * $live, 'what the file has grown by in a merge of runs');
	is(space('size', 'replaced_bytes + run_bytes + c1_bytes'), 0, 'nothing but C2 is left');

	# C1 in parts
	sql('CREATE TABLE parts (id text PRIMARY KEY, t text) USING rose');
	foreach my $run (1 .. 6)
	{
		sql("INSERT INTO parts SELECT md5(g::text), md5('t' || g) FROM generate_series(${run}00000, ${run}00000 + 15000) g");
		sql("SELECT rose.spill('parts')");
	}
	my $peak = $before = space('parts', 'file_bytes');
	merge_workers($node, 1);
	for (my $runs = 1; $runs > 0; usleep(5000))
	{
		my ($now, $left) = split /\|/, sql("SELECT file_bytes, (SELECT count(*) FROM rose.components('parts') WHERE kind = 'run') FROM rose.space('parts')");

		$peak = $now if $now > $peak;
		$runs = $left;
	}
	$live = sql("SELECT sum(bytes) FROM rose.components('parts') WHERE kind <> 'memtable'");
	no_merge_workers($node);
	note("$before bytes of the file before, $peak at most, $live of components");
	cmp_ok($peak - $before, '<', 0.4 * $live, 'what the file has grown by in a merge into C1');
}

# ---- beside a pass: who began before it, and who begins during it
# Parts of filters lie between leaves here, and stay.
sql('ALTER SYSTEM SET rose.debug_filter_part = 400');
$node->reload;

sub rest_of_cursors
{
	my ($old, $what, $fetch, $table) = @_;

	is($old->run("$fetch FROM c"), $old->run("$fetch FROM h"), "$table: an old cursor, $what");
	return;
}

# So many outputs are published, and what they have is trimmed off the inputs; the next one is read.
sub begin_merge
{
	my ($control, $merger, $table, $outputs) = @_;

	$control->run("SELECT stop_at('merge-read', 'wait', 'any', $outputs, 1)");
	$merger->start("SELECT rose.merge('$table')");
	wait_for_stop($node);
	return;
}

foreach my $table (sort keys %tables)
{
	make_table($table);
	my ($control, $merger, $old) = map { RoseTest::Session->new($node) } 1 .. 3;
	my $select = "SELECT id, v, t FROM TAB ORDER BY id";
	my $exact = "SELECT string_agg(x.id || ' ' || ctid, ';' ORDER BY x.id) FROM $table x WHERE hashtext(id) % 29 = 0";

	$old->run('BEGIN ISOLATION LEVEL REPEATABLE READ; SET enable_seqscan = off');
	my $names = $old->run($exact);
	foreach (['c', $table], ['h', "h_$table"])
	{
		my ($cursor, $of) = @$_;

		$old->run("DECLARE $cursor SCROLL CURSOR FOR " . ($select =~ s/TAB/$of/r));
	}
	rest_of_cursors($old, 'its first rows', 'FETCH 50', $table);
	my $runs_before = space($table, 'run_bytes');
	begin_merge($control, $merger, $table, 10);
	cmp_ok(sql("SELECT count(*) FROM rose.components('$table') WHERE kind = 'run'"), '>', 3, "$table: the runs are there during the pass");
	my ($runs, $replaced) = split /\|/, space($table, 'run_bytes, replaced_bytes');
	if ($table eq 'large')
	{
		is($runs, $runs_before, "$table: runs with values in overflow pages keep their room");
	}
	else
	{
		cmp_ok($runs, '<', 0.8 * $runs_before, "$table: the runs have shed what was trimmed off");
		cmp_ok($replaced, '>', 0, "$table: it is kept for who began before");
	}

	# others write where something is free
	add_rows($table, 60000, 62500);
	spill($table);
	rest_of_cursors($old, 'on', 'FETCH 5000', $table);
	rest_of_cursors($old, 'back', 'FETCH BACKWARD 3000', $table);
	is($old->run($exact), $names, "$table: names of rows are what they were");
	is($old->run("SELECT count(*), count(x.id), count(DISTINCT x.ctid) FROM unnest(string_to_array('$names', ';')) n
		LEFT JOIN LATERAL (SELECT id, ctid FROM $table x WHERE ctid = split_part(n, ' ', 2)::tid AND id = split_part(n, ' ', 1)) x ON true"),
		join('|', (scalar(my @n = split /;/, $names)) x 3), "$table: rows by their old names");
	rest_of_cursors($old, 'to the end', 'FETCH ALL', $table);
	rest_of_cursors($old, 'back to the begin', 'FETCH BACKWARD ALL', $table);
	compare($table, 'beside an old reader');
	$old->run('COMMIT');
	is(space($table, 'replaced_bytes'), 0, "$table: when it has ended, all that was shed is free");

	my ($file, $free) = split /\|/, space($table, 'file_bytes, free_bytes');
	both($table, "UPDATE TAB SET t = 'x' || t WHERE v % 8 = 1");
	my ($file_after, $free_after) = split /\|/, space($table, 'file_bytes, free_bytes');
	note("$table: $file bytes, $free of them free, then $file_after, $free_after");
	is($file_after, $file, "$table: it is used before the file grows") if $table ne 'large';
	spill($table);
	compare($table, 'when what was shed is used again');
	if ($table eq 'composite')
	{
		crash($node);
		$_->end foreach $control, $merger, $old;
		RoseTest::poll_start($node);
		compare($table, 'after a crash during the pass');
	}
	else
	{
		$control->run("SELECT go_on('merge-read')");
		$merger->finish;
		$_->end foreach $control, $merger, $old;
	}
	both($table, "UPDATE TAB SET v = v + 1 WHERE v % 6 = 2");
	spill($table);
	compare($table, 'with a run more');
	sql("SELECT rose.merge('$table')");
	compare($table, 'merged');
	is(space($table, 'replaced_bytes + run_bytes + c1_bytes'), 0, "$table: nothing but C2 is left");
}

# ---- regions of one block: the leaf before the first one that is needed is never in a region with it
foreach my $outputs (1 .. 6)
{
	my ($control, $merger) = map { RoseTest::Session->new($node) } 1 .. 2;
	my $t = "(SELECT string_agg(md5((g * 40 + i)::text), '') FROM generate_series(1, 30) i)";

	sql("DROP TABLE IF EXISTS $_; CREATE TABLE $_ (id text PRIMARY KEY, v int, t text) USING " . ($_ eq 'tiny' ? 'rose' : 'heap')) foreach 'tiny', 'h_tiny';
	both('tiny', "INSERT INTO TAB SELECT md5(g::text), g, $t FROM generate_series($_ * 1000, $_ * 1000 + 80) g"), spill('tiny') foreach 1 .. 3;
	$merger->run("SET rose.debug_piece_size = '8kB'");
	begin_merge($control, $merger, 'tiny', $outputs);
	both('tiny', "INSERT INTO TAB SELECT md5(g::text), g, $t FROM generate_series(4000, 4100) g"), spill('tiny');
	compare('tiny', "in small regions when $outputs are published");
	$control->run("SELECT go_on('merge-read')");
	$merger->finish;
	$_->end foreach $control, $merger;
}

# ---- between the steps of a trim
my $round = 0;
foreach my $case (map { my $point = $_; map { [ $point, $_ ] } qw(crash error) } qw(merge-trimmed merge-shed))
{
	my ($point, $action) = @$case;
	my $control = RoseTest::Session->new($node);

	both('keyed', "UPDATE TAB SET t = 'round $round' || t WHERE v % 3 = $_ AND v % 2 = 1; UPDATE TAB SET v = v + 3 WHERE v % 5 = $round % 5 AND v % 3 = $_"), spill('keyed') foreach 0 .. 2;
	$control->run("SELECT stop_at('$point', '$action', 'any', 4, 1)");
	my (undef, undef, $err) = $node->psql('postgres', "SELECT rose.merge('keyed')");
	isnt($err, '', "a merge does not get past $point: $action");
	wait_until_up($node);
	$control->end;
	compare('keyed', "after $action at $point");
	both('keyed', "DELETE FROM TAB WHERE v % 40 = $round");
	spill('keyed');
	compare('keyed', "after $action at $point and a spill");
	sql("SELECT rose.merge('keyed')");
	compare('keyed', "after $action at $point, merged");
	is(space('keyed', 'replaced_bytes + run_bytes + c1_bytes'), 0, "after $action at $point nothing is left over");
	$round++;
}

# ---- a restart and a standby in the middle of a pass
{
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	my ($control, $merger) = map { RoseTest::Session->new($node) } 1 .. 2;

	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	both('keyed', "UPDATE TAB SET t = 'y' || t WHERE v % 3 = $_"), spill('keyed') foreach 0 .. 2;
	begin_merge($control, $merger, 'keyed', 10);
	add_rows('keyed', 70000, 72000);
	spill('keyed');
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	$node->stop('immediate');
	$_->end foreach $control, $merger;
	$standby->promote;
	is(table_hash($standby, 'keyed'), table_hash($standby, 'h_keyed'), 'promoted there');
	$standby->safe_psql('postgres', "UPDATE $_ SET t = 'z' || t WHERE v % 7 = 0") foreach 'keyed', 'h_keyed';
	$standby->safe_psql('postgres', "SELECT rose.spill('keyed')");
	is(table_hash($standby, 'keyed'), table_hash($standby, 'h_keyed'), 'and written');
	is($standby->safe_psql('postgres', "SELECT string_agg(c::text, '; ') FROM rose.check('keyed') c"), '', 'rose.check there');
	$standby->safe_psql('postgres', "SELECT rose.merge('keyed')");
	is(table_hash($standby, 'keyed'), table_hash($standby, 'h_keyed'), 'and merged');
	$standby->stop;
	RoseTest::poll_start($node);
	compare('keyed', 'after a stop in the middle of a pass');
	$node->restart;
	compare('keyed', 'after a restart');
	sql("SELECT rose.merge('keyed')");
	compare('keyed', 'merged in the end');
}

$node->stop;
done_testing();
