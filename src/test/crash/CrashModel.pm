# What the crash tests do, and what must be left of it.
#
# Local writes: each rose table r_NAME has a heap table h_NAME, and a transaction
# that changes one changes the other in the same way, heap first. So whatever dies
# whenever, both hold the same rows, and heap is the model. Replicated writes: an
# upstream moves amounts between two tables that a subscription feeds; their sum is
# zero in every snapshot, and in the end their rows are the upstream's.
#
# With fed => 1 there are more subscriptions, of other kinds (CrashFed.pm).
#
# Uses rand(): the same seed gives the same statements. Nothing here decides what
# dies; see crash_points.pl and crash_faults.pl.
package CrashModel;

use strict;
use warnings;

use CrashFed;
use CrashWork;
use File::Temp;
use IPC::Run;
use PostgreSQL::Test::Utils;
use RoseTest;

my @names = qw(plain pair nokey part wide);
my @fed_tables = qw(f_left f_right f_copied);
my $writers = 3;
my @prepared_tables = qw(plain nokey wide);
my $first_prepared = 1_000_000;		# keys of prepared transactions

# Errors that say nothing about rose: what the tests do themselves, and what follows from it.
my $allowed = join '|', CrashFed::allowed(), 'at stop point', 'current transaction is aborted', 'savepoint "s" does not exist', 'duplicate key value', 'canceling statement due to lock timeout',
  'deadlock detected', 'terminating connection', 'the database system is', 'connection to server', 'server closed the connection',
  'could not receive data|could not send data', 'no connection to the server', 'prepared transaction with identifier', 'while another session waits|SSL',
  'could not serialize access', 'is being accessed by other users', 'some relations of database "other" are already in tablespace', 'database "scratch\d+" does not exist',
  'invalid snapshot identifier|could not import the requested snapshot';	# who exported it has died

sub pick { return $_[ int(rand(@_)) ] }
sub chance { return rand() < $_[0] }

# new(node => replica with stop points, upstream => node, fed => 1 for more subscriptions): makes the tables.
sub new
{
	my ($class, %args) = @_;
	my $self = bless { %args, prepared => 0, next => $first_prepared, allow => $args{allow} // 'nothing more' }, $class;

	foreach my $side (qw(r h))
	{
		my $am = $side eq 'r' ? 'rose' : 'heap';
		$self->sql(<<"SQL");
CREATE TABLE ${side}_plain (id int PRIMARY KEY, v bigint, pad text) USING $am;
CREATE TABLE ${side}_pair (id int, b text COLLATE "C" DEFAULT 'b', v bigint, pad text, PRIMARY KEY (b, id)) USING $am;
CREATE TABLE ${side}_nokey (id int, v bigint, pad text) USING $am;
CREATE TABLE ${side}_wide (id int PRIMARY KEY, v bigint, pad text) USING $am;
CREATE TABLE ${side}_part (id int PRIMARY KEY, v bigint, pad text) PARTITION BY HASH (id);
CREATE TABLE ${side}_part0 PARTITION OF ${side}_part FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING $am;
CREATE TABLE ${side}_part1 PARTITION OF ${side}_part FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING $am;
SQL
	}
	# rose.check compares them with their tables
	$self->sql(<<'SQL');
CREATE INDEX ON r_plain (v);
CREATE INDEX ON r_plain (pad, v DESC);
CREATE INDEX ON r_pair (v DESC, id);
CREATE INDEX ON r_nokey (v);
CREATE INDEX ON r_part (v, pad);
CREATE UNIQUE INDEX ON r_pair (v, b, id);
CREATE UNIQUE INDEX ON r_wide (abs(v), id) WHERE v >= 0;
SQL
	CrashWork::create($self->{node});
	my $fed = 'id int PRIMARY KEY, n bigint, big text';
	foreach my $table (@fed_tables)
	{
		$self->{upstream}->safe_psql('postgres', "CREATE TABLE $table ($fed)");
		$self->{upstream}->safe_psql('postgres', "INSERT INTO $table SELECT g, 0, (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 100) i) FROM generate_series(1, 300) g");
		$self->sql("CREATE TABLE $table ($fed) USING rose");
	}
	$self->{upstream}->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE ' . join(', ', @fed_tables));
	subscribe($self->{upstream}, $self->{node});
	$self->sql("CREATE INDEX ${_}_n ON $_ (n)") foreach @fed_tables;
	CrashFed::create($self->{node}, $self->{upstream}) if $self->{fed};
	return $self;
}

sub sql
{
	my ($self, $sql) = @_;

	return $self->{node}->safe_psql('postgres', $sql);
}

# One statement for a table, T, and rows that only this writer has.
sub statement
{
	my ($self, $name, $writer) = @_;
	my $from = $writer * 10_000 + int(rand(2000));
	my $to = $from + pick(0, 1, 10, 300);
	my $v = int(rand(1000));
	my $pad = $name eq 'wide' ? "repeat(md5('$v'), " . int(rand(500)) . ')' : "repeat('x', " . int(rand(60)) . ')';
	my $conflict = $name eq 'pair' ? '(b, id)' : '(id)';
	my @kinds = (
		"UPDATE T SET v = v + $v WHERE id BETWEEN $from AND $to",
		"UPDATE T SET v = v + $v WHERE id = $from",
		"UPDATE T SET pad = $pad WHERE id BETWEEN $from AND $to",
		"DELETE FROM T WHERE id BETWEEN $from AND $to");

	if ($name eq 'nokey')
	{
		push @kinds, ("INSERT INTO T SELECT g, $v, $pad FROM generate_series($from, $to) g") x 3;
	}
	else
	{
		push @kinds, ("INSERT INTO T (id, v, pad) SELECT g, $v, $pad FROM generate_series($from, $to) g ON CONFLICT $conflict DO UPDATE SET v = T.v + excluded.v, pad = excluded.pad") x 3;
		push @kinds, "UPDATE T SET id = id + " . pick(1, 2000) . " WHERE id = $from";
	}
	return pick(@kinds);
}

# The statement on heap, then on rose.
sub both
{
	my ($statement) = @_;

	return map { (my $s = $statement) =~ s/\bT\b/$_/g; "$s;\n" } @_[ 1 .. $#_ ];
}

sub transaction
{
	my ($self, $writer) = @_;
	my $end = chance(0.1) ? 'ROLLBACK' : 'COMMIT';
	my $text = "BEGIN;\n";
	my $saved;

	for (1 .. pick(1, 3, 8))
	{
		my $name = pick(@names);

		if (chance(0.15))
		{
			$text .= $saved ? pick("ROLLBACK TO s;\n", "RELEASE s;\n") : "SAVEPOINT s;\n";
			$saved = !$saved;
		}
		$text .= join '', both($self->statement($name, $writer), "h_$name", "r_$name");
		$text .= "SELECT count(*), sum(v), max(length(pad)) FROM r_$name;\n" if chance(0.2);
		$text .= "SELECT v FROM r_$name WHERE id = " . int($writer * 10_000 + rand(2000)) . ";\n" if chance(0.2);
		$text .= "SELECT rose.spill('" . rose_table() . "');\n" if chance(0.03);
	}
	return "$text$end;\n";
}

# Rows that nobody else touches, because the transaction may stay for long.
sub prepare
{
	my ($self) = @_;
	my $gid = 'p' . ++$self->{prepared};
	my $from = $self->{next};
	my $text = "BEGIN;\n";

	$self->{next} += 1000;
	foreach my $name (@prepared_tables)
	{
		my $to = $from + pick(0, 20, 900);
		$text .= join '', both("INSERT INTO T (id, v, pad) SELECT g, 1, repeat('p', 100) FROM generate_series($from, $to) g", "h_$name", "r_$name");
	}
	return "${text}PREPARE TRANSACTION '$gid';\n";
}

# Those with names of their own come and go.
sub indexes
{
	my $index = pick(qw(r_plain_v_idx r_plain_pad_v_idx r_pair_v_id_idx r_nokey_v_idx r_part0_v_pad_idx r_part1_v_pad_idx r_pair_v_b_id_idx r_wide_abs_id_idx f_left_n f_right_n));
	my ($table, $on) = @{ pick([ 'r_wide', '(v) INCLUDE (pad)' ], [ 'r_wide', '(v DESC, id)' ], [ 'r_nokey', '(pad)' ], [ 'r_part', '(pad DESC)' ]) };

	return pick(
		"SELECT rose.spill('$index');\n", "SELECT rose.merge('$index');\n", "REINDEX INDEX $index;\n", "REINDEX TABLE " . rose_table() . ";\n",
		("BEGIN;\nCREATE INDEX IF NOT EXISTS ${table}_own ON $table $on;\n" . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n") x 2,
		"BEGIN;\nDROP INDEX IF EXISTS ${table}_own;\n" . pick('COMMIT', 'ROLLBACK') . ";\n");
}

sub rose_table { return 'r_' . pick(qw(plain pair nokey wide part0 part1)) }

sub maintenance
{
	my $table = pick(rose_table(), rose_table(), 'f_left', 'f_right');

	return pick(
		("SELECT rose.spill('$table');\n") x 4,
		("SELECT rose.merge('$table');\n") x 4,
		"VACUUM $table;\n", "VACUUM FULL " . rose_table() . ";\n", "CHECKPOINT;\n",
		"SELECT count(*) FROM $table WHERE ctid = ANY(ARRAY(SELECT ctid FROM $table LIMIT 20));\n",
		"BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM $table;\nSELECT count(*) FROM $table;\nCOMMIT;\n",
		"BEGIN;\n" . join('', both('ALTER TABLE T ALTER v TYPE ' . pick('bigint', 'numeric', 'bigint'), 'h_plain', 'r_plain')) . pick('COMMIT', 'ROLLBACK') . ";\n",
		"BEGIN;\n" . join('', both('TRUNCATE T', 'h_nokey', 'r_nokey')) . pick('COMMIT', 'ROLLBACK', 'ROLLBACK') . ";\n");
}

# What the upstream does meanwhile. The sums of f_left and f_right, and that of f_copied, stay zero.
sub upstream_work
{
	my $text = '';

	for (1 .. 15)
	{
		my ($from, $n) = (1 + int(rand(300)), int(rand(100)));
		my $to = $from + pick(0, 0, 5, 100);

		$text .= "BEGIN;\nUPDATE f_left SET n = n + $n WHERE id BETWEEN $from AND $to;\nUPDATE f_right SET n = n - $n WHERE id BETWEEN $from AND $to;\n";
		$text .= "UPDATE f_left SET big = repeat('y', " . int(rand(3000)) . ") WHERE id = $from;\n" if chance(0.1);
		$text .= "DELETE FROM f_left WHERE id = $from;\nINSERT INTO f_left SELECT id, -n, 'new' FROM f_right WHERE id = $from;\n" if chance(0.1);
		$text .= "UPDATE f_copied SET n = n + CASE WHEN id = $from THEN ${\ ($to - $from)} ELSE -1 END WHERE id BETWEEN $from AND $to;\n" if $to <= 300 && chance(0.3);
		$text .= "COMMIT;\n";
	}
	return $text;
}

# Text for psql of the kind that comes to this stop point, or of any kind now and then; or nothing.
sub work_beside
{
	my ($self, $point) = @_;
	my $needed = CrashWork::needs_work($point);

	if ($self->{fed} && (CrashFed::needs_work($point) || (!$needed && chance(0.15))))
	{
		return CrashFed::work($point, map { CrashFed::conninfo($self->{$_}) } qw(node upstream));
	}
	return $needed || chance(0.3) ? CrashWork::work($point, $self->{node}->connstr('postgres')) : '';
}

# Starts all writers, and what comes to this stop point, if anything is needed for that;
# something of that kind now and then in any case. Returns what wait_for takes.
sub start_work
{
	my ($self, $point) = @_;
	my $beside = $self->work_beside($point);
	my @running = $beside ? run_psql($self->{node}, $beside) : ();

	foreach my $writer (1 .. $writers)
	{
		my $text = "SET lock_timeout = '500ms';\n";
		for (1 .. 6)
		{
			$text .= $self->transaction($writer);
			$text .= maintenance() if chance(0.5);
		}
		$text .= $self->prepare if chance(0.15);
		push @running, run_psql($self->{node}, $text);
	}
	push @running, run_psql($self->{upstream}, upstream_work());
	push @running, run_psql($self->{upstream}, CrashFed::upstream_work()) if $self->{fed};
	return @running;
}

# psql in the background, going on after errors; with a file, for it may end before it has read all.
sub run_psql
{
	my ($node, $text) = @_;
	my $run = { out => '', err => '', file => File::Temp->new };

	print { $run->{file} } $text;
	close $run->{file};
	$run->{timer} = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	$run->{psql} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', $run->{file}->filename ],
		'>', \$run->{out}, '2>', \$run->{err}, $run->{timer});
	return $run;
}

# Until all writers have ended; the errors that must not be.
sub wait_for
{
	my ($self, @running) = @_;
	my @problems;

	foreach my $run (@running)
	{
		eval { $run->{psql}->finish; 1 } or push @problems, "a writer did not end: $@";
		push @problems, grep { /ERROR|FATAL|PANIC|could not/ && !/$allowed/ && !/$self->{allow}/ } split /\n/, $run->{err};
	}
	return @problems;
}

# Prepared transactions end one way or the other; a few stay.
sub end_prepared
{
	my ($self) = @_;

	foreach my $gid (split /\n/, $self->sql('SELECT gid FROM pg_prepared_xacts'))
	{
		$self->sql(pick('COMMIT', 'COMMIT', 'ROLLBACK') . " PREPARED '$gid'") if chance(0.6);
	}
	return;
}

# What cycles would leave for all later ones to write and compare: rows of transactions that were prepared long ago, and indexes that were
# not finished. To be called when all has been compared; what is still prepared is not seen, and stays.
sub tidy
{
	my ($self) = @_;
	my $old = $self->{next} - 10_000;

	$self->sql("BEGIN;\n" . join('', map { both("DELETE FROM T WHERE id BETWEEN $first_prepared AND $old", "h_$_", "r_$_") } @prepared_tables) . 'COMMIT;') if $old >= $first_prepared;
	$self->sql(CrashWork::drop_unfinished_indexes());
	return;
}

sub content_hash
{
	my ($table) = @_;

	return "(SELECT count(*) || ' ' || coalesce(md5(string_agg(h, '' ORDER BY h)), '-') FROM (SELECT md5(t::text) AS h FROM $table t) s)";
}

# Statements whose rows are problems; one session for all of them, since a cycle has many.
sub differs
{
	my ($name) = @_;

	return "SELECT '$name: heap has ' || h || ', rose ' || r FROM (SELECT "
	  . content_hash("h_$name") . ' AS h, ' . content_hash("r_$name") . ' AS r) x WHERE h <> r;';
}

sub is_unsound { return "SELECT 'rose.check of $_[0]: ' || c FROM rose.check('$_[0]') c;" }

# looked up one by one
sub not_found
{
	my ($name) = @_;

	return "SELECT n || ' of ' || m || ' rows of $name are found by key' FROM (SELECT (SELECT count(*) FROM (SELECT * FROM h_$name ORDER BY id LIMIT 300) h JOIN r_$name r USING (id) WHERE h.v = r.v) AS n,"
	  . " (SELECT least(count(*), 300) FROM h_$name) AS m) x WHERE n <> m;";
}

# by secondary indexes, if sequential scans are off
sub differs_by_index
{
	my ($name, $where) = @_;
	my $sums = "SELECT count(*) || ' ' || coalesce(sum(v), 0) || ' ' || coalesce(sum(id), 0)";

	return "SELECT '$name by an index: heap has ' || h || ', rose ' || r FROM (SELECT ($sums FROM h_$name WHERE $where) AS h, ($sums FROM r_$name WHERE $where) AS r) x WHERE h <> r;";
}

# What differs between rose and its model, as a list.
sub problems
{
	my ($self) = @_;
	my %statements = (postgres => [
		map({ differs($_) } @names),
		map({ is_unsound($_) } map({ "r_$_" } qw(plain pair nokey wide part0 part1)), @fed_tables),
		# f_copied may be empty just now
		"SELECT 'fed tables disagree: ' || l || ' ' || r || ' ' || c FROM (SELECT (SELECT sum(n) FROM f_left) AS l, (SELECT sum(n) FROM f_right) AS r, (SELECT coalesce(sum(n), 0) FROM f_copied) AS c) x WHERE l + r <> 0 OR c <> 0;"
	]);

	foreach my $pair (CrashWork::compared())
	{
		push @{ $statements{ $pair->[0] } }, differs($pair->[1]), is_unsound("r_$pair->[1]");
	}
	push @{ $statements{postgres} }, 'SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;', map({ not_found($_) } qw(plain wide part)),
		map({ my $name = $_; map { differs_by_index($name, $_) } 'v >= 0', 'v BETWEEN 100 AND 900 AND pad > \'\'' } @names);
	return map { split /\n/, $self->{node}->safe_psql($_, join "\n", @{ $statements{$_} }) } sort keys %statements;
}

# The same for the fed tables and the upstream, when all has arrived.
sub replica_problems
{
	my ($self) = @_;

	my @problems = $self->{fed} ? CrashFed::settle($self->{node}, $self->{upstream}) : ();
	push @problems, CrashFed::problems($self->{node}, $self->{upstream}) if $self->{fed} && !@problems;
	wait_for_apply($self->{upstream}, $self->{node});
	return @problems, map {
		my ($theirs, $ours) = (table_hash($self->{upstream}, $_), table_hash($self->{node}, $_));
		$theirs eq $ours ? () : "$_: upstream has $theirs, rose $ours"
	} @fed_tables;
}

1;
