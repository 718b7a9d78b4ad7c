# Random DDL and changes upstream, DDL here, and crashes of both sides and of the worker: whenever it is quiet, each table has the
# upstream's rows, or is paused with an error that says what does not fit; and it can be mended. Columns that the upstream adds are added here, so what it
# adds that way stops no table; rose.verify says the same of the tables at the end of each round.
#
# ATTACK_SEED, ATTACK_ROUNDS (between two quiet moments), ATTACK_STEPS (of each round).
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in does not pause tables' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my $rounds = $ENV{ATTACK_ROUNDS} // 4;
my $steps = $ENV{ATTACK_STEPS} // 25;
seed_random('ATTACK_SEED');

my $upstream = upstream_node('autovacuum = on', 'max_prepared_transactions = 4');
my $replica = rose_node('replica', 'autovacuum = on', 'restart_after_crash = on', "wal_retrieve_retry_interval = '100ms'", "rose.spill_interval = '2s'", "rose.memtable_size = '16MB'");
# A changed row whose table has no identity any more when it is decoded fails an assertion of the upstream's own.
my $upstream_asserts = $upstream->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
my $next_id = 1000;
my @journal;				# of this round

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }
sub pick { return $_[rand @_] }

# Tables by how they are called here; the upstream's are known by their oids, for they are renamed.
my %tables = (
	plain => { there => '(id int PRIMARY KEY, a int, b text, c bigint)', here => '(c bigint, id int PRIMARY KEY, own text, b text, a int)' },
	wide => { there => '(id int PRIMARY KEY, a int, b text, c text)' },
	keyless => { there => '(id int, a int, b text)' },
	"pair" => { there => '(id int, k text, a int, b text, PRIMARY KEY (id, k))' },
	'"Odd Schema"."T 1"' => { there => '(id int PRIMARY KEY, "A a" int, b text)' },
	listed => { there => '(id int PRIMARY KEY, a int, b text, hidden int)', columns => 'id, a, b', here => '(id int PRIMARY KEY, a int, b text)' },
	filtered => { there => '(id int PRIMARY KEY, a int NOT NULL, b text)', filter => 'id % 3 <> 0' },
	parent => { there => '(id int PRIMARY KEY, a int, b text)' },
	child => { there => '(id int PRIMARY KEY, a int, b text, parent int REFERENCES parent ON DELETE CASCADE)', here => '(id int PRIMARY KEY, a int, b text, parent int)' },
	computed => { there => '(id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED, b text)' },
	root => { there => '(id int PRIMARY KEY, a int, b text) PARTITION BY RANGE (id)', parts => 'root', here => '(id int PRIMARY KEY, a int, b text)', via_root => 1 },
	leaf_1 => { there => undef, here => '(id int PRIMARY KEY, a int, b text)' },
	leaf_2 => { there => undef, here => '(id int PRIMARY KEY, a int, b text)' });
my @names = sort keys %tables;
my @fed = grep { $tables{$_}{there} } @names;

foreach my $node ($upstream, $replica)
{
	$node->safe_psql('postgres', 'CREATE SCHEMA "Odd Schema"; CREATE SCHEMA elsewhere; ALTER DATABASE postgres SET search_path = elsewhere, public');
}
up("CREATE TABLE public.$_ $tables{$_}{there}") foreach grep { $_ !~ /\./ && $_ ne 'child' } @fed;
up("CREATE TABLE public.child $tables{child}{there}");
up("CREATE TABLE $_ $tables{$_}{there}") foreach grep { $_ =~ /\./ } @fed;
up('CREATE TABLE public.root_1 PARTITION OF public.root FOR VALUES FROM (0) TO (2000); CREATE TABLE public.root_2 PARTITION OF public.root DEFAULT');
up('CREATE TABLE public.leaf (id int PRIMARY KEY, a int, b text) PARTITION BY RANGE (id);'
	  . ' CREATE TABLE public.leaf_1 PARTITION OF public.leaf FOR VALUES FROM (0) TO (2000); CREATE TABLE public.leaf_2 PARTITION OF public.leaf DEFAULT');
up('ALTER TABLE public.wide ALTER b SET STORAGE EXTERNAL, ALTER c SET STORAGE EXTERNAL; ALTER TABLE public.pair ALTER b SET STORAGE EXTERNAL');
up('CREATE UNIQUE INDEX filtered_a ON public.filtered (id, a)');
down('CREATE TABLE ' . ($_ =~ /\./ ? $_ : "public.$_") . ' ' . ($tables{$_}{here} // $tables{$_}{there}) . ' USING rose') foreach @names;
up("CREATE PUBLICATION p FOR TABLE public.plain, public.wide, public.pair, \"Odd Schema\".\"T 1\", public.listed (id, a, b), public.filtered WHERE (id % 3 <> 0), public.parent, public.child, public.computed, public.leaf");
up('CREATE PUBLICATION i FOR TABLE public.keyless WITH (publish = \'insert, truncate\'); CREATE PUBLICATION r FOR TABLE public.root WITH (publish_via_partition_root)');

sub qualified { return $_[0] =~ /\./ ? $_[0] : "public.$_[0]" }
foreach my $name (@names, 'leaf')
{
	$tables{$name}{oid} = up("SELECT '" . qualified($name) . "'::regclass::oid");
}

# --- statements

sub there { return up("SELECT $tables{$_[0]}{oid}::regclass") }

# Names and types of what can be set, but for the key.
sub columns_of
{
	my ($name) = @_;
	my @rows = split /\n/, up("SELECT quote_ident(attname), format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = $tables{$name}{oid} AND attnum > 0 AND NOT attisdropped"
		  . " AND attgenerated = '' AND attname NOT IN ('id', 'k', 'parent') ORDER BY attnum");

	return map { [ split /\|/ ] } @rows;
}

sub value
{
	my ($type) = @_;

	return 'NULL' if rand() < 0.05;
	return "'{" . int(rand 9) . "}'" if $type =~ /\[\]/;
	return int rand 1000 if $type =~ /int/;
	return "'2026-01-01 UTC'::timestamptz + interval '1 s' * " . int rand 1000 if $type =~ /timestamp/;
	return "repeat(md5('" . int(rand 1000) . "'), " . pick(1, 1, 1, 100) . ')';
}

sub rand_set { my @columns = @_; my @set = map { "$_->[0] = " . ($_->[0] eq 'a' ? 'coalesce(' . value($_->[1]) . ', 1)' : value($_->[1])) } grep { rand() < 0.5 } @columns; return join ', ', @set }

sub insert
{
	my ($name, $to) = @_;
	my @columns = columns_of($name);
	my $n = pick(1, 3, 30);
	my $from = $next_id;

	$next_id += $n;
	my @names = ('id', map { $_->[0] } @columns);
	my @values = ('g', map { $_->[0] eq 'a' ? 'coalesce(' . value($_->[1]) . ', g)' : value($_->[1]) } @columns);
	if ($name eq 'pair') { push @names, 'k'; push @values, "'k' || g % 3" }
	if ($name eq 'child') { push @names, 'parent'; push @values, '(SELECT min(id) FROM public.parent)' }
	return "INSERT INTO $to (" . join(', ', @names) . ') SELECT ' . join(', ', @values) . " FROM generate_series($from, $from + $n - 1) g";
}

sub dml
{
	my ($name, $to) = @_;
	my $kind = rand();
	my $some = '(SELECT id FROM ' . $to . ' ORDER BY random() LIMIT ' . pick(1, 5, 20) . ')';

	return insert($name, $to) if $kind < 0.45 || $name eq 'keyless';
	return "DELETE FROM $to WHERE id IN $some" if $kind < 0.6;
	return "UPDATE $to SET id = id + 50000 WHERE id IN $some" if $kind < 0.7 && $name !~ /parent|child/;
	my $set = rand_set(columns_of($name));
	return $set ? "UPDATE $to SET $set WHERE id IN $some" : insert($name, $to);
}

sub ddl
{
	my ($name, $to) = @_;
	my ($column, $type) = @{ pick(columns_of($name)) // return '' };
	my $new = 'n' . int rand 1000;
	my $fixed = $name =~ /root|leaf|computed|listed|filtered/ || $column eq 'a';
	my @ways = ("ALTER TABLE $to REPLICA IDENTITY FULL", "ALTER TABLE $to REPLICA IDENTITY DEFAULT", "TRUNCATE $to CASCADE");

	push @ways, "ALTER TABLE $to REPLICA IDENTITY NOTHING" if rand() < 0.2 && !$upstream_asserts;
	push @ways, "ALTER TABLE $to REPLICA IDENTITY USING INDEX filtered_a" if $name eq 'filtered';
	push @ways, "ALTER TABLE $to RENAME $column TO $new" if $name !~ /filtered/;
	my ($other) = grep { $_->[0] ne $column && $_->[1] eq $type } columns_of($name);
	push @ways, ("BEGIN; ALTER TABLE $to RENAME $column TO $new; ALTER TABLE $to RENAME $other->[0] TO $column; ALTER TABLE $to RENAME $new TO $other->[0]; COMMIT") x 3 if $other && !$fixed;
	if (!$fixed)
	{
		push @ways, "ALTER TABLE $to DROP $column", "ALTER TABLE $to DROP $column; ALTER TABLE $to ADD $column $type", "ALTER TABLE $to RENAME TO $new", "ALTER TABLE $to ADD $new int", map({ "ALTER TABLE $to ADD $new $_" } pick('int DEFAULT 7', "text NOT NULL DEFAULT 'added'", 'int[] DEFAULT \'{1,2}\'', 'timestamptz DEFAULT now()'), pick('int DEFAULT 7', 'serial', 'int DEFAULT random() * 10')),
		  "BEGIN; " . insert($name, $to) . "; ALTER TABLE $to ADD $new int DEFAULT 3; " . insert($name, $to) . "; ALTER TABLE $to ALTER $new DROP DEFAULT; UPDATE $to SET $new = 4 WHERE id % 7 = 0; COMMIT",
		  "BEGIN; ALTER TABLE $to RENAME $column TO $new; " . insert($name, $to) =~ s/\b\Q$column\E\b/$new/gr . "; ALTER TABLE $to RENAME $new TO $column; COMMIT",
		  "ALTER TABLE $to RENAME id TO idx; ALTER TABLE $to RENAME idx TO id";
		push @ways, "ALTER TABLE $to ALTER $column TYPE bigint" if $type eq 'integer';
	}
	return pick(@ways);
}

# What it says is for the journal only: a statement that the upstream refuses is none.
sub there_do
{
	my ($sql) = @_;
	my (undef, undef, $err) = $upstream->psql('postgres', $sql, on_error_stop => 1);

	push @journal, 'upstream: ' . substr($sql, 0, 300) . ($err =~ /ERROR: *(.*)/ ? "   -- $1" : '');
	return;
}

sub here_do
{
	my ($sql) = @_;
	my (undef, undef, $err) = $replica->psql('postgres', $sql, on_error_stop => 1);

	push @journal, "here: $sql" . ($err =~ /ERROR: *(.*)/ ? "   -- $1" : '');
	return;
}

sub local_ddl
{
	my ($name) = @_;
	my $to = qualified($name);
	my ($column, $type) = split /\|/, down("SELECT quote_ident(attname), format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = '$to'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname NOT IN ('id', 'k', 'a') ORDER BY random() LIMIT 1");

	return if !$column;
	down("SELECT rose.spill('$to')");
	return here_do(pick("ALTER TABLE $to RENAME $column TO l" . int rand 1000, "ALTER TABLE $to ADD l" . int(rand 1000) . ' int', "ALTER TABLE $to DROP $column; ALTER TABLE $to ADD $column $type"));
}

sub step
{
	my $name = pick(@fed, 'leaf');
	my $to = there($name);
	my $kind = rand();

	return there_do(dml($name, $to)) if $kind < 0.6;
	return there_do(ddl($name, $to)) if $kind < 0.8;
	return local_ddl(pick(@names)) if $kind < 0.83;
	my @sql = map { my $other = pick(@fed); dml($other, there($other)) } 1 .. 4;
	return there_do("BEGIN; $sql[0]; SAVEPOINT s; $sql[1]; " . pick('ROLLBACK TO s', 'RELEASE s') . "; $sql[2]; " . ddl($name, $to) . '; ' . pick('COMMIT', 'COMMIT', 'ROLLBACK'))
	  if $kind < 0.93;
	return there_do("BEGIN; $sql[0]; $sql[1]; COMMIT");
}

# --- crashes

sub disturb
{
	my $how = pick(qw(kill_worker terminate_worker crash_replica crash_upstream spill none none));

	push @journal, $how;
	my $pid = down("SELECT pid FROM rose.stat_subscription");
	if ($how eq 'kill_worker') { kill 'KILL', $pid if $pid; wait_until_up($replica) }
	elsif ($how eq 'terminate_worker') { down("SELECT pg_terminate_backend($pid)") if $pid }
	elsif ($how eq 'crash_replica') { crash_and_restart($replica) }
	elsif ($how eq 'crash_upstream') { $upstream->stop('immediate'); $upstream->start }
	elsif ($how eq 'spill') { $replica->psql('postgres', 'SELECT rose.spill(\'public.plain\')') }
	return;
}

# --- quiet

# Its pairs of columns, as they are called now on both sides; those that are gone on one side cannot be compared.
sub pairs_of
{
	my ($name) = @_;
	my ($attnums, $remote_attnums, $oid) = split /\|/, down("SELECT array_to_string(attnums, ','), array_to_string(remote_attnums, ','), remote_relid FROM rose.subscription_rel WHERE relid = '" . qualified($name) . "'::regclass");
	my @here = split /,/, $attnums // '';
	my @there = split /,/, $remote_attnums // '';
	my (@h, @t);

	foreach my $i (0 .. $#here)
	{
		next if $there[$i] < 0;
		my $h = down("SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = '" . qualified($name) . "'::regclass AND attnum = $here[$i] AND NOT attisdropped");
		my $t = up("SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = $oid AND attnum = $there[$i] AND NOT attisdropped");

		if ($h ne '' && $t ne '') { push @h, $h; push @t, $t }
	}
	return (join(', ', @h), join(', ', @t), $oid);
}

sub hash_of
{
	my ($node, $columns, $table, $where) = @_;

	return $node->safe_psql('postgres', "SELECT count(*) || ' ' || coalesce(md5(string_agg(h, '' ORDER BY h)), '-') FROM (SELECT md5(ROW($columns)::text) AS h FROM $table $where) s");
}

# '' or what is wrong.
sub difference
{
	my ($name) = @_;
	my ($here, $there, $oid) = pairs_of($name);
	my $filter = $tables{$name}{filter};

	return '' if $here eq '';
	my $ours = hash_of($replica, $here, qualified($name), '');
	my $theirs = hash_of($upstream, $there, up("SELECT $oid\::regclass"), $filter ? "WHERE $filter" : '');
	return $ours eq $theirs ? '' : "$name ($here): here $ours, upstream ($there) $theirs";
}

sub state_of { return down("SELECT $_[1] FROM rose.subscription_rel WHERE relid = '" . qualified($_[0]) . "'::regclass") }

# Has everything up to lsn, or is paused.
sub settled
{
	my ($name, $lsn) = @_;
	my $err = ($replica->psql('postgres', "SELECT rose.wait_for_lsn('s', '$lsn', $timeout, '" . qualified($name) . "')"))[2];

	return $err eq '' ? 'ready' : $err =~ /is paused, or in error/ ? 'paused' : "not settled: $err " . down('SELECT state, last_error FROM rose.stat_subscription');
}

# The table here anew, as the upstream's is now.
sub anew
{
	my ($name) = @_;
	my $to = qualified($name);
	my $oid = state_of($name, 'remote_relid');
	my $columns = up("SELECT string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum) || ') STORED' ELSE '' END, ', ' ORDER BY attnum)"
		  . " FROM pg_attribute WHERE attrelid = $oid AND attnum > 0 AND NOT attisdropped" . ($name eq 'listed' ? " AND attname <> 'hidden'" : ''));
	my $key = $name eq 'keyless' ? '' : $name eq 'pair' ? ', PRIMARY KEY (id, k)' : ', PRIMARY KEY (id)';
	my $there = up("SELECT $oid\::regclass");
	my ($schema, $table) = split /\|/, up("SELECT quote_ident(nspname), quote_ident(relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = $oid");

	$replica->psql('postgres', "SELECT rose.spill('$to')");
	down("DROP TABLE $to; CREATE TABLE $schema.$table ($columns$key) USING rose");
	down("SELECT rose.alter_subscription('s', refresh => true)");
	if ("$schema.$table" ne $to)
	{
		my ($new_schema, $new_name) = $to =~ /^(.*)\.(.*)$/;
		down("ALTER TABLE $schema.$table RENAME TO $new_name");
	}
	return;
}

sub mend
{
	my ($name) = @_;
	my $oid = state_of($name, 'remote_relid');
	my $how = pick('resync', 'anew');

	there_do('ALTER TABLE ' . up("SELECT $oid\::regclass") . ' REPLICA IDENTITY DEFAULT');
	push @journal, "mend $name: $how";
	if ($how eq 'resync')
	{
		down("SELECT rose.alter_subscription('s', resync => '" . qualified($name) . "')");
		$replica->poll_query_until('postgres', "SELECT state IN ('ready', 'paused', 'error') FROM rose.subscription_rel WHERE relid = '" . qualified($name) . "'::regclass");
	}
	anew($name) if state_of($name, 'state') ne 'ready';
	return;
}

sub quiet
{
	my ($round) = @_;
	my $lsn = up('SELECT pg_current_wal_flush_lsn()');
	my (@paused, @problems);

	foreach my $name (@names)
	{
		my $state = settled($name, $lsn);

		if ($state eq 'paused')
		{
			my ($code, $error) = split /\|/, state_of($name, 'error_code, last_error'), 2;

			push @journal, "paused: $name: $code $error";
			push @problems, "$name: $code $error" if $code !~ /^(42|0A|55|23|22)/ || $error !~ /\S/;
			push @paused, $name;
			next;
		}
		my $difference = $state eq 'ready' ? difference($name) : "$name: $state";
		push @problems, $difference if $difference ne '';
	}
	if (!@problems)
	{
		mend($_) foreach @paused;
		$lsn = up('SELECT pg_current_wal_flush_lsn()');
		foreach my $name (@paused)
		{
			my $state = settled($name, $lsn);
			my $difference = $state eq 'ready' ? difference($name) : "$name, mended: $state " . state_of($name, 'last_error');
			push @problems, $difference if $difference ne '';
		}
	}
	push @problems, "verified: $_" foreach split /\n/, (@problems ? '' : down("SELECT v FROM rose.verify('s', timeout_seconds => $timeout) v WHERE v.problem IS NULL"));
	push @problems, map { "rose.check of $_: " . down("SELECT c::text FROM rose.check('" . qualified($_) . "') c") } grep { down("SELECT count(*) FROM rose.check('" . qualified($_) . "')") } @names;
	is(join("\n", @problems), '', "round $round: " . (@names - @paused) . ' tables have all, ' . @paused . ' were paused and mended') or diag(join "\n", @journal);
	return !@problems;
}

# --- the attack

there_do(insert($_, there($_))) foreach grep { $_ ne 'child' } @fed, 'leaf';
my $conninfo = $upstream->connstr('postgres');
down("SELECT rose.create_subscription('s', \$\$$conninfo\$\$, ARRAY['p', 'i', 'r'], on_error => 'pause')");
down("SELECT rose.wait_for_sync('s', $timeout)");
ok(quiet(0), 'copied');
foreach my $round (1 .. $rounds)
{
	@journal = ();
	foreach my $n (1 .. $steps)
	{
		step();
		disturb() if $n == int($steps / 2) || $n == $steps;
	}
	last if !quiet($round);
}

$replica->stop;
$upstream->stop;
done_testing();
