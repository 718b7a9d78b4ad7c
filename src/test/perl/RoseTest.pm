
# What rose's TAP tests share: clusters with rose, crashes, content hashes.
#
# With ROSE_STANDIN set, rose's names stand for heap and built-in replication
# (see src/test/standin.sql), to test the tests themselves.
package RoseTest;

use strict;
use warnings;

use Exporter 'import';
use File::Basename qw(basename dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RosePsql;
use Time::HiRes qw(usleep time);

our @EXPORT = qw(rose_node upstream_node upstream_and_replica integer_type rose_create rose_conf subscribe crash crash_and_restart restart_by wait_until_up
  table_hash seed_random how_many random_between first_unequal stop_points_create wait_for_stop
  always_parallel scan_settings wait_for_apply start_without_replication replication_again
  forget_collations icu_locale touch_script error_of merge_workers merge_workers_in_turn no_merge_workers until_slot_is_free without_checksums);

# A script for pgbench whose transactions change one of the tables t1, t2, ... and read another one.
sub touch_script
{
	my ($node, $tables) = @_;
	my $script = $node->basedir . '/touch.sql';

	append_to_file($script, <<"SQL");
\\set i random(1, $tables)
\\set j random(1, $tables)
BEGIN;
UPDATE t:i SET v = v + 1 WHERE id = 1;
SELECT count(*) FROM t:j;
END;
SQL
	return $script;
}

# What a statement that fails says; else nothing, or its warnings.
sub error_of
{
	my ($node, $sql) = @_;
	my (undef, undef, $err) = $node->psql('postgres', $sql);

	return $err;
}

# So many workers may merge from now on; those that are there may go on for a while.
sub merge_workers
{
	my ($node, $n) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET rose.max_merge_workers = $n");
	$node->reload;
	return;
}

# A stop point is set at which one worker waits: the first one that comes.  Only then may a second one come, which would else be there before it now and then.
sub merge_workers_in_turn
{
	my ($node) = @_;

	merge_workers($node, 1);
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE locktype = 'advisory' AND NOT granted AND backend_type = 'rose maintenance worker')") or die 'no worker has stopped';
	merge_workers($node, 2);
	return;
}

# None, and none is left.
sub no_merge_workers
{
	my ($node) = @_;
	my $workers = "FROM pg_stat_activity WHERE backend_type = 'rose maintenance worker'";

	merge_workers($node, 0);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $workers");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 $workers") or die 'a worker goes on';
	return;
}

# The column of pg_collation that has ICU's locale. 17 renamed it.
sub icu_locale
{
	my ($node) = @_;

	return $node->pg_version < 17 ? 'colliculocale' : 'colllocale';
}

# Pages are about to be written by hand, while the server is stopped. 18 has checksums unless it is told otherwise.
sub without_checksums
{
	my ($node) = @_;

	PostgreSQL::Test::Utils::run_log([ 'pg_checksums', '--disable', '-D', $node->data_dir ]) if $node->pg_version >= 18;
	return;
}

# Have these files of tables say that they were sorted by another version of collations, as if ICU had been updated.
sub forget_collations
{
	my ($node, @files) = @_;

	$node->stop;
	without_checksums($node);
	foreach (@files)
	{
		my ($file, $block) = ref $_ ? @$_ : ($_, 0);
		my $metapage = 8192 * $block;

		# key_order and collation_versions of the metapage, behind the page header
		open my $fh, '+<:raw', $node->data_dir . "/$file" or die $!;
		seek $fh, $metapage + 24 + 72, 0;
		print $fh pack('Q<', 4711);
		seek $fh, $metapage + 24 + 896, 0;
		print $fh pack('a64', '1.2.3');
		close $fh or die $!;
	}
	$node->start;
	return;
}

# initdb takes a core for a second. Where run.sh has done it before (ROSE_INITDB), a process copies what there is: once of each
# kind, so that two clusters never have one system identifier.
my %copied;

sub init_node
{
	my ($node, $kind) = @_;
	my $made = $ENV{ROSE_INITDB} && !$node->{_install_path} ? "$ENV{ROSE_INITDB}/$kind" : '';
	my $run = \&PostgreSQL::Test::Utils::system_or_bail;

	no warnings 'redefine';
	local *PostgreSQL::Test::Utils::system_or_bail = sub {
		return $run->(@_) if $_[0] ne 'initdb' || !-d $made || $copied{$kind}++;
		return $run->('cp', '-a', $made, $node->data_dir);
	};

	# A logical upstream too, for test.conf says wal_level = logical.
	$node->init(allows_streaming => 'logical');
	RosePsql::adopt($node);
	return;
}

# A running cluster with rose in database postgres. Further settings may follow.
sub rose_node
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	init_node($node, 'rose');
	$node->append_conf('postgresql.conf', "$_\n") for @settings;
	$node->start;
	rose_create($node, 'postgres');
	return $node;
}

# A running cluster without rose to replicate from, of the release whose programs are in ROSE_UPSTREAM's folder bin, if that is
# set. Settings may follow.
sub upstream_node
{
	my (@settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new('upstream', $ENV{ROSE_UPSTREAM} ? (install_path => $ENV{ROSE_UPSTREAM}) : ());

	init_node($node, 'upstream');
	$node->append_conf('postgresql.conf', "$_\n") for $ENV{ROSE_UPSTREAM} ? "shared_preload_libraries = ''" : (), @settings;
	$node->adjust_conf('postgresql.conf', 'jit', undef) if $node->pg_version < 11;
	$node->start;
	return $node;
}

# Both, the second one to subscribe, and quick to try again.
sub upstream_and_replica
{
	return (upstream_node(), rose_node('replica', "wal_retrieve_retry_interval = '200ms'"));
}

# SQL for a type that is kept as an integer, with operators, and with functions PREFIX_lt to PREFIX_gt, PREFIX_hash and
# PREFIX_hash_extended. %order says which of integer's functions are lt, le, ge and gt, if not those of the same name.
sub integer_type
{
	my ($type, $prefix, %order) = @_;
	my %functions = (lt => 'int4lt', le => 'int4le', eq => 'int4eq', ge => 'int4ge', gt => 'int4gt', %order);
	my $sql = "CREATE TYPE $type;\n";
	my $internal = 'LANGUAGE internal IMMUTABLE STRICT AS';

	$sql .= "CREATE FUNCTION ${prefix}_in(cstring) RETURNS $type $internal 'int4in';\n";
	$sql .= "CREATE FUNCTION ${prefix}_out($type) RETURNS cstring $internal 'int4out';\n";
	$sql .= "CREATE TYPE $type (INPUT = ${prefix}_in, OUTPUT = ${prefix}_out, LIKE = int4);\n";
	$sql .= "CREATE CAST (int AS $type) WITHOUT FUNCTION;\n";
	$sql .= "CREATE FUNCTION ${prefix}_$_($type, $type) RETURNS bool $internal '$functions{$_}';\n" foreach sort keys %functions;
	$sql .= "CREATE FUNCTION ${prefix}_hash($type) RETURNS int $internal 'hashint4';\n";
	$sql .= "CREATE FUNCTION ${prefix}_hash_extended($type, bigint) RETURNS bigint $internal 'hashint4extended';\n";
	foreach my $operator ([ '<', 'lt', ', COMMUTATOR = >' ], [ '<=', 'le', '' ], [ '=', 'eq', ', COMMUTATOR = =, HASHES, MERGES' ], [ '>=', 'ge', '' ], [ '>', 'gt', '' ])
	{
		my ($name, $function, $more) = @$operator;

		$sql .= "CREATE OPERATOR $name (LEFTARG = $type, RIGHTARG = $type, FUNCTION = ${prefix}_$function$more);\n";
	}
	return $sql;
}

# Subscription s to publication p of the upstream's database of the same name, postgres unless
# it is given, with further arguments; returns when the initial copy is done.
sub subscribe
{
	my ($upstream, $replica, $dbname, @more) = @_;
	my $conninfo = $upstream->connstr($dbname // 'postgres');

	$replica->safe_psql($dbname // 'postgres', "SELECT rose.create_subscription('s', \$\$$conninfo\$\$, " . join(', ', "ARRAY['p']", @more) . ')');
	$replica->safe_psql($dbname // 'postgres', "SELECT rose.wait_for_sync('s', $PostgreSQL::Test::Utils::timeout_default)");
	return;
}

# CREATE EXTENSION rose, or the stand-in.
sub rose_create
{
	my ($node, $dbname) = @_;

	if ($ENV{ROSE_STANDIN})
	{
		$node->safe_psql($dbname, slurp_file(dirname(__FILE__) . '/../standin.sql'));
	}
	else
	{
		$node->safe_psql($dbname, 'CREATE EXTENSION rose');
	}
	return;
}

# The command by which plans are given to a worker even where that does not pay. 16 renamed the setting.
sub always_parallel
{
	my ($node) = @_;

	return 'SET ' . ($node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query') . ' = on';
}

# Whether tables are read by Rose Scans, at random: never, as the planner likes, or nearly always, small ones too. For a
# server's configuration, or for SET.
sub scan_settings
{
	my $vector = 'rose.vector_rows = ' . (1, 7, 64, 2048)[ rand 4 ];
	my $aggregate = 'rose.enable_aggregate = ' . ('on', 'off')[ rand 2 ];
	my $sample = 'rose.aggregate_sample = ' . (-1, 0, 1, 70)[ rand 4 ];
	my @ways = ([ 'rose.enable_scan = off' ], [$aggregate], [ 'rose.scan_min_rows = 0', 'cpu_tuple_cost = 1', $vector, $aggregate, $sample ]);

	return rose_conf(@{ $ways[ rand @ways ] });
}

# Settings of rose, none for the stand-in.
sub rose_conf
{
	return $ENV{ROSE_STANDIN} ? () : @_;
}

# A process's parent and its state, as proc(5) has them.
sub process_state
{
	my ($pid) = @_;

	open my $fh, '<', "/proc/$pid/stat" or return (0, '');
	my $line = <$fh> // '';
	close $fh;
	return $line =~ /^\d+ \(.*\) (\S) (\d+) /s ? ($2, $1) : (0, '');
}

# SIGKILL to the postmaster and all its children at once, as a power cut would.
sub crash
{
	my ($node) = @_;
	my $postmaster = $node->{_pid};
	my @children;

	# Stop the postmaster first, so that it starts no more children; it may be at that on another processor.
	kill 'STOP', $postmaster;
	usleep(1000) while (process_state($postmaster))[1] =~ /[RSD]/;
	foreach my $pid (map { m{(\d+)} } glob '/proc/[0-9]*')
	{
		push @children, $pid if (process_state($pid))[0] == $postmaster;
	}
	kill 'KILL', @children;
	$node->kill9;
	return scalar @children;
}

# After a SIGKILL the first start may find the old postmaster.pid or the old
# shared memory, until every process is gone.
sub poll_start
{
	my ($node) = @_;
	my $deadline = time() + $PostgreSQL::Test::Utils::timeout_default;

	while (time() < $deadline)
	{
		return 1 if $node->start(fail_ok => 1);
		usleep(100_000);
		$node->stop('fast', fail_ok => 1);
	}
	return $node->start;
}

sub crash_and_restart
{
	my ($node) = @_;

	crash($node);
	poll_start($node);
	return;
}

# Stops a server in this mode, and starts it; the modules' restart() takes no mode.
sub restart_by
{
	my ($node, $mode) = @_;

	$node->stop($mode);
	$node->start;
	return;
}

# Until what the upstream has committed can be read on the replica. The database and the
# subscription are postgres and s unless they are given. Of all tables, none of which may be
# paused, or of one.
sub wait_for_apply
{
	my ($upstream, $replica, $dbname, $subscription, $table) = @_;
	my $lsn = $upstream->safe_psql($dbname // 'postgres', 'SELECT pg_current_wal_flush_lsn()');

	$replica->safe_psql($dbname // 'postgres',
		"SELECT rose.wait_for_lsn('" . ($subscription // 's') . "', '$lsn', $PostgreSQL::Test::Utils::timeout_default" . ($table ? ", '$table'" : '') . ")");
	return;
}

# Until nobody has the slot, s unless it is given. Who has used it may have ended for a moment before his walsender does, and it can
# be neither moved nor dropped until then.
sub until_slot_is_free
{
	my ($upstream, $slot) = @_;

	$slot //= 's';
	$upstream->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_replication_slots WHERE slot_name = '$slot' AND active") or die 'the slot is in use';
	return;
}

# After a crash: without replication, so that nothing repairs what is looked at.
sub start_without_replication
{
	my ($node) = @_;

	$node->append_conf('postgresql.conf', "rose.max_subscriptions = 0\n");
	poll_start($node);
	return;
}

sub replication_again
{
	my ($node) = @_;

	$node->append_conf('postgresql.conf', "rose.max_subscriptions = 4\n");
	$node->restart;
	return;
}

# The functions that control stop points; what they do is said in
# src/test/stop_points/rose_stop_points.c.
sub stop_points_create
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION stop_at(name text, action text, who text DEFAULT 'any', skip int DEFAULT 0, times int DEFAULT 1)
RETURNS void LANGUAGE C STRICT AS 'rose_stop_points';
CREATE FUNCTION go_on(name text) RETURNS void LANGUAGE C STRICT AS 'rose_stop_points';
CREATE FUNCTION stop_hits(name text) RETURNS bigint LANGUAGE C STRICT AS 'rose_stop_points';
CREATE FUNCTION stop_clear() RETURNS void LANGUAGE C STRICT AS 'rose_stop_points';
SQL
	return;
}

# Until somebody waits at a stop point.
sub wait_for_stop
{
	my ($node) = @_;

	return if $node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)");
	# who should have come, and what he does instead
	Test::More::diag($node->safe_psql('postgres', $_))
	  foreach ("SELECT pid, backend_type, state, wait_event_type, wait_event, xact_start, query FROM pg_stat_activity", 'SELECT * FROM rose.stat_worker', 'SELECT * FROM rose.stat_merge_progress',
		'SELECT relname, kind, id, state, rows, bytes FROM rose.stat_components', 'SHOW rose.max_merge_workers');
	die 'nobody comes to the stop point';
}

# Has a process of the server died, without the postmaster having heard of it?
sub death_is_news
{
	my ($node) = @_;

	foreach my $pid (map { m{(\d+)} } glob '/proc/[0-9]*')
	{
		my ($parent, $state) = process_state($pid);

		return 1 if $parent == $node->{_pid} && $state =~ /[ZX]/;
	}
	return 0;
}

# Until a server that restarts itself, because a process died, lets somebody in. One that has not heard
# of the death yet would let him in, too, and end what he does a moment later.
sub wait_until_up
{
	my ($node) = @_;
	my $deadline = time() + $PostgreSQL::Test::Utils::timeout_default;

	while (time() < $deadline)
	{
		# A psql that is refused may be gone before it was told what to ask.
		my $status = death_is_news($node) ? undef : eval { scalar $node->psql('postgres', 'SELECT true') };

		return if defined $status && $status == 0 && !death_is_news($node);
		usleep(20_000);
	}
	die 'the server did not come back';
}

# Count and hash of a table's rows, in an order of their own.
sub table_hash
{
	my ($node, $table, $dbname) = @_;

	return $node->safe_psql($dbname // 'postgres',
		"SELECT count(*) || ' ' || coalesce(md5(string_agg(h, '' ORDER BY h)), '-')"
		  . " FROM (SELECT md5(t::text) AS h FROM $table t) s");
}

# Seeds rand() and says how to run the same again: the environment variable, or a seed of this file's own, which is another one with
# another ROSE_SEED, and each time with ROSE_SEED=random.
sub seed_random
{
	my ($variable) = @_;
	my $base = $ENV{ROSE_SEED} // 0;
	my $seed = $base eq 'random' ? int(time() * 1000) % 1_000_000_000 : $base;

	if ($base ne 'random')
	{
		$seed = ($seed * 31 + ord) % 1_000_000_007 foreach split //, basename($0) . $variable;
	}
	$seed = $ENV{$variable} // $seed;
	srand($seed);
	Test::More::diag("$variable=$seed");
	return $seed;
}

# How much of something random is made: usually, or where what nobody has seen is looked for (ROSE_SEED=random).
sub how_many
{
	my ($usual, $thorough) = @_;

	return ($ENV{ROSE_SEED} // '') eq 'random' ? $thorough : $usual;
}

# Where two answers differ first, each of lines: heap's and rose's.
sub first_unequal
{
	my @lines = map { [ split /\n/, $_, -1 ] } @_;
	my $n = 0;

	$n++ while defined $lines[0][$n] && defined $lines[1][$n] && $lines[0][$n] eq $lines[1][$n];
	return map { (qw(heap rose))[$_] . ', line ' . ($n + 1) . ': ' . ($lines[$_][$n] // '(no more)') } 0, 1;
}

sub random_between
{
	my ($from, $to) = @_;

	return $from + rand($to - $from);
}

# A session that stays: what it opened, locked or armed is its until end().
package RoseTest::Session;

use IPC::Run;

sub new
{
	my ($class, $node, $options) = @_;		# options: more of the connection string, if any
	my $self = bless { in => '', out => '', err => '', n => 0 }, $class;

	$self->{timer} = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	$self->{psql} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' ' . ($options // '') ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		$self->{timer});
	return $self;
}

# Send, without waiting for the end.
sub start
{
	my ($self, $sql) = @_;

	$self->{out} = '';
	$self->{n}++;
	$self->{timer}->start;		# anew
	$self->{in} .= "$sql;\n\\echo end of $self->{n}\n";
	$self->{psql}->pump_nb;
	return;
}

# Wait for the end; the output.
sub finish
{
	my ($self) = @_;

	# with its newline, which may come a moment later
	$self->{psql}->pump until $self->{out} =~ /^end of $self->{n}\n/m;
	die "session: $self->{err}" if $self->{err} =~ /ERROR|FATAL/;
	return $self->{out} =~ s/\n?end of $self->{n}\n//r;
}

sub run
{
	my ($self, $sql) = @_;

	$self->start($sql);
	return $self->finish;
}

sub end
{
	my ($self) = @_;

	$self->{timer}->start;
	$self->{in} .= "\\q\n";
	eval { $self->{psql}->finish };
	return;
}

1;
