# Work on tables of further subscriptions, beside those of CrashModel.pm: columns that the upstream adds, rows of default partitions, transactions that are sent
# before they commit, changes that fail and are passed over, copies, comparing and repairing; and tables of a subscription that is durable here, with constants, to
# which clients write, too.
#
# work($point, $here, $there) is a text for psql of the kind that gets to a stop point, or of any kind; it connects to both sides. upstream_work() is for the
# upstream, beside it. settle() sets right what a cycle may have left, and waits until all has come; then problems() must find none: all tables are the upstream's,
# rows of clients are those of a heap table, and nothing was counted as a conflict. Uses rand().
package CrashFed;

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Time::HiRes qw(sleep);

my @tables = qw(e_grown e_routed e_strict e_mended l_const l_shared);
my $local_from = 1_000_000;		# keys of clients
my $too_large = 1_000_000;		# what e_strict does not take here
my $most_columns = 300;
my $columns = 0;

my %kinds = (
	map({ $_ => \&write_beside } qw(blind-looked blind-waits)),
	map({ $_ => \&add_columns } qw(columns-added columns-committed)),
	map({ $_ => \&empty_constants } qw(constants-scan constants-breathed)),
	map({ $_ => \&copy_again } qw(copy-snapshot copy-found copy-reading copy-loaded copy-committed copies-looked copies-taken-in piece-loaded piece-there piece-committed
		replace-ready replace-switched replace-waits)),
	'fed-by' => \&ask_for_others,
	'repair-applied' => \&repair,
	'route-without' => \&route,
	'state-written' => \&copy_again,
	map({ $_ => \&large_transaction } qw(stream-kept stream-committed stream-replayed)),
	map({ $_ => \&two_phases } qw(prepared-kept prepared-finished)),
	map({ $_ => \&fail_and_pass } qw(table-error-stops table-error-noted table-error-passed)),
	map({ $_ => \&verify } qw(verify-standing verify-taken)));

sub pick { return $_[ int(rand(@_)) ] }
sub some { my ($from, $to) = (1 + int(rand(200)), pick(0, 3, 60)); return "BETWEEN $from AND $from + $to" }

sub needs_work { return exists $kinds{ $_[0] // '' } }

sub work
{
	my ($point, $here, $there) = @_;
	my $kind = $kinds{ $point // '' } // pick(map { $kinds{$_} } sort keys %kinds);

	return "SET lock_timeout = '2s';\n" . $kind->("\\c '$here'\nSET lock_timeout = '2s';\n", "\\c '$there'\n");
}

# For \c within quotes.
sub conninfo { my ($node) = @_; return 'host=' . $node->host . ' port=' . $node->port . ' dbname=postgres' }

# What errors say that are no problem.
sub allowed { return 'must be owner of table|has ended while it repaired|is not connected|is blocked|timed out|being copied|is paused|could not be copied|not reached|is in use|cannot compare|is not streaming' }

sub create
{
	my ($node, $upstream) = @_;
	my $conninfo = conninfo($upstream);
	my $two_phase = pick('true', 'false');

	$upstream->safe_psql('postgres', <<'SQL');
CREATE TABLE e_grown (id int PRIMARY KEY, n bigint, pad text);
CREATE TABLE e_routed (id int PRIMARY KEY, n bigint);
CREATE TABLE e_strict (id int PRIMARY KEY, n bigint);
CREATE TABLE e_mended (id int PRIMARY KEY, n bigint);
CREATE TABLE l_shared (id int PRIMARY KEY, n bigint);
CREATE TABLE l_const (id int PRIMARY KEY, n bigint);
INSERT INTO e_grown SELECT g, 0, 'p' FROM generate_series(1, 300) g;
INSERT INTO e_routed SELECT g, 0 FROM generate_series(1, 300) g;
INSERT INTO e_strict SELECT g, 0 FROM generate_series(1, 300) g;
INSERT INTO e_mended SELECT g, 0 FROM generate_series(1, 300) g;
INSERT INTO l_shared SELECT g, 0 FROM generate_series(1, 300) g;
INSERT INTO l_const SELECT g, 0 FROM generate_series(1, 3000) g;
CREATE PUBLICATION pe FOR TABLE e_grown, e_routed, e_strict;
CREATE PUBLICATION pm FOR TABLE e_mended;
CREATE PUBLICATION pl FOR TABLE l_shared, l_const;
SQL
	$node->safe_psql('postgres', <<"SQL");
CREATE TABLE e_grown (id int PRIMARY KEY, n bigint, pad text) USING rose;
CREATE TABLE e_routed (id int PRIMARY KEY, n bigint) PARTITION BY RANGE (id);
CREATE TABLE e_routed_low PARTITION OF e_routed FOR VALUES FROM (0) TO (100) USING rose;
CREATE TABLE e_routed_rest PARTITION OF e_routed DEFAULT USING rose;
CREATE TABLE e_strict (id int PRIMARY KEY, n bigint CHECK (n < $too_large)) USING rose;
CREATE TABLE e_mended (id int PRIMARY KEY, n bigint) USING rose;
CREATE TABLE l_shared (id int PRIMARY KEY, n bigint, shard int) USING rose;
CREATE TABLE l_const (id int PRIMARY KEY, n bigint, shard int) USING rose;
CREATE TABLE h_shared (id int PRIMARY KEY, n bigint, shard int) USING heap;
CREATE INDEX ON e_grown (n);
CREATE ROLE stranger;
SELECT rose.create_subscription('e', '$conninfo', '{pe,pm}', count_conflicts => 'certain', two_phase => $two_phase);
SELECT rose.create_subscription('l', '$conninfo', '{pl}', durability => 'local', constants => '{"shard": 3}', count_conflicts => 'exact', two_phase => true);
SELECT rose.wait_for_sync(subname, $PostgreSQL::Test::Utils::timeout_default) FROM (VALUES ('e'), ('l')) s (subname);
SQL
	return;
}

# ---- kinds of work

# Rows of clients, and locks of the upstream's rows, which its changes wait for.
sub write_beside
{
	my $text = '';

	for (1 .. 20)
	{
		my $id = $local_from + int(rand(50));
		my $twice = rand() < 0.8;

		$text .= "BEGIN;\n" . (rand() < 0.7 ? 'SELECT n FROM l_shared WHERE id ' . some() . " ORDER BY id FOR UPDATE;\n" : '')
		  . join('', map { "INSERT INTO ${_}_shared VALUES ($id, 1, 0) ON CONFLICT (id) DO UPDATE SET n = ${_}_shared.n + 1;\n" . ($twice ? "UPDATE ${_}_shared SET n = n + 1 WHERE id = $id;\n" : '') } qw(h l))
		  . 'SELECT pg_sleep(' . pick(0.05, 0.1, 0.2) . ");\n" . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n";
	}
	return $text;
}

sub add_columns
{
	my ($here, $there) = @_;
	my $text = $there;

	for (1 .. 2)
	{
		$text .= 'ALTER TABLE e_grown ADD COLUMN c' . ++$columns . ' int' . pick('', ' DEFAULT 5') . ";\n" if $columns < $most_columns;
		$text .= 'UPDATE e_grown SET n = n + 1 WHERE id ' . some() . ";\nSELECT pg_sleep(0.3);\n";
	}
	return $text;
}

# Whether there are rows of others is looked for in the whole table.
sub empty_constants
{
	my ($here, $there) = @_;

	return $there . "BEGIN;\nTRUNCATE l_const;\nINSERT INTO l_const SELECT g, 1 FROM generate_series(1, 3000) g;\n" . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\n"
	  . "SELECT pg_sleep(0.5);\nTRUNCATE l_const;\nINSERT INTO l_const SELECT g, 2 FROM generate_series(1, 3000) g;\n";
}

# As one and in pieces, while somebody reads them.
sub copy_again
{
	my ($here) = @_;
	my $reader = $here =~ s/^\\c '(.*)'\n.*/\\! psql -XAtq -d "$1" -c "BEGIN" -c "SELECT count(*) FROM TABLE" -c "SELECT pg_sleep(0.5)" -c COMMIT >\/dev\/null 2>&1 &\n/sr;
	my $text = '';

	foreach my $table (qw(f_copied e_grown))
	{
		$text .= $reader =~ s/TABLE/$table/r if rand() < 0.7;
		$text .= "SELECT pg_sleep(0.1);\nSELECT rose.alter_subscription('" . ($table eq 'f_copied' ? 's' : 'e') . "', resync => '$table');\n";
	}
	return $text . "SELECT pg_sleep(0.5);\n";
}

# Who does not own a table may own its subscription.
sub ask_for_others { return "SET ROLE stranger;\n" . join('', map { "SELECT rose.spill('$_');\n" } qw(f_left e_grown l_const)) . "RESET ROLE;\n" }

sub repair
{
	my ($here, $there) = @_;

	return join '', map {
		"${there}BEGIN;\nALTER PUBLICATION pm SET (publish = '');\nCOMMIT;\nUPDATE e_mended SET n = n + 1 WHERE id " . some() . ";\nALTER PUBLICATION pm SET (publish = 'insert, update, delete, truncate');\n"
		  . "${here}SELECT complete FROM rose.repair('e', 'e_mended');\n"
	} 1 .. 2;
}

sub route
{
	my ($here, $there) = @_;

	return $there . join '', map {
		my $id = 100 + int(rand(200));
		"BEGIN;\nDELETE FROM e_routed WHERE id = $id;\nINSERT INTO e_routed VALUES ($id, 7);\nUPDATE e_routed SET n = n + 1 WHERE id " . some() . ";\nCOMMIT;\n"
	} 1 .. 5;
}

sub large_transaction
{
	my ($here, $there) = @_;

	return $there . join '', map {
		"BEGIN;\nUPDATE e_grown SET n = n + 1, pad = repeat(md5(id::text), 30);\nSAVEPOINT s;\nDELETE FROM e_grown WHERE id " . some() . ";\nROLLBACK TO s;\nUPDATE e_grown SET n = n + 1 WHERE id " . some() . ";\n"
		  . pick('COMMIT', 'COMMIT', 'ROLLBACK') . ";\nSELECT pg_sleep(0.2);\n"
	} 1 .. 3;
}

# Prepared for a while, some of them large.
sub two_phases
{
	my ($here, $there) = @_;

	return $there . join '', map {
		my $gid = int(rand(1_000_000_000));

		"BEGIN;\nUPDATE e_grown SET n = n + 1" . pick('', ", pad = repeat(md5(id::text), 30)") . " WHERE id " . some() . ";\nUPDATE l_const SET n = n + 1 WHERE id " . some() . ";\nSAVEPOINT s;\nDELETE FROM e_grown;\nROLLBACK TO s;\n"
		  . "PREPARE TRANSACTION '$gid';\nSELECT pg_sleep(" . pick(0, 0.1, 0.4) . ");\n" . pick('COMMIT', 'COMMIT', 'ROLLBACK') . " PREPARED '$gid';\n"
	} 1 .. 4;
}

sub pass_over { return "SELECT rose.alter_subscription('e', skip_lsn => error_lsn) FROM rose.stat_subscription_tables WHERE subname = 'e' AND state = 'failed'" }
sub take_back { return "UPDATE e_strict SET n = 1 WHERE n >= $too_large" }

sub fail_and_pass
{
	my ($here, $there) = @_;

	return $there . 'BEGIN; UPDATE e_grown SET n = n + 1 WHERE id ' . some() . "; UPDATE e_strict SET n = $too_large WHERE id " . some() . "; COMMIT;\n" . take_back() . ";\n"
	  . $here . "DO 'BEGIN FOR i IN 1 .. 60 LOOP EXIT WHEN EXISTS (SELECT FROM rose.stat_subscription_tables WHERE subname = ''e'' AND state = ''failed''); PERFORM pg_sleep(0.05); END LOOP; END';\n"
	  . pass_over() . ";\nSELECT pg_sleep(0.5);\n";
}

# f_copied is compared when it is not being copied.
sub verify { return "SELECT 1 / (count(*) FILTER (WHERE problem NOT LIKE 'not compared%') = 0)::int FROM rose.verify('s', timeout_seconds => 20);\n" x 2 }

# What the upstream does meanwhile in any case, slowly enough to meet whoever has locked rows here.
sub upstream_work
{
	return join '', map { my $table = pick(qw(l_shared l_shared e_grown e_routed e_strict)); "UPDATE $table SET n = n + 1 WHERE id " . some() . ";\nSELECT pg_sleep(0.05);\n" } 1 .. 20;
}

# ---- afterwards

# Until each has all that the upstream has; what fails is passed over. Problems.
sub settle
{
	my ($node, $upstream) = @_;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;

	# what a session that has ended has left there
	$upstream->safe_psql('postgres', "ROLLBACK PREPARED '$_'") foreach split /\n/, $upstream->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
	$upstream->safe_psql('postgres', take_back() . "; ALTER PUBLICATION pm SET (publish = 'insert, update, delete, truncate')");
	my $lsn = $upstream->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	foreach my $subscription (qw(e l))
	{
		while (1)
		{
			my ($rc, undef, $err) = $node->psql('postgres', "SELECT rose.wait_for_lsn('$subscription', '$lsn', 3)");

			last if $rc == 0;
			return "subscription $subscription does not come to $lsn: $err" if time > $until;
			$node->psql('postgres', pass_over());
			sleep(0.1);
		}
	}
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT complete FROM rose.repair('e', 'e_mended')");
	return $rc == 0 && $out eq 't' ? () : "e_mended could not be repaired: $out $err";
}

sub problems
{
	my ($node, $upstream) = @_;
	my @problems;

	foreach my $table (@tables)
	{
		my $columns = $upstream->safe_psql('postgres', "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '$table'::regclass AND attnum > 0");
		my $theirs = table_hash($upstream, $table);
		my $ours = table_hash($node, "(SELECT $columns FROM $table WHERE id < $local_from)");

		push @problems, "$table: upstream has $theirs, rose $ours" if $theirs ne $ours;
	}
	push @problems, grep { $_ ne '' } split /\n/, $node->safe_psql('postgres', <<"SQL");
SELECT 'rose.check of ' || relname || ': ' || c FROM pg_class, rose.check(pg_class.oid) c WHERE relkind = 'r' AND relname ~ '^[el]_' AND relam = (SELECT oid FROM pg_am WHERE amname = 'rose');
SELECT 'rows of clients differ' WHERE EXISTS ((SELECT * FROM h_shared EXCEPT ALL SELECT * FROM l_shared WHERE id >= $local_from) UNION ALL (SELECT * FROM l_shared WHERE id >= $local_from EXCEPT ALL SELECT * FROM h_shared));
SELECT 'rows have other constants' WHERE EXISTS (SELECT FROM l_shared WHERE id < $local_from AND shard IS DISTINCT FROM 3) OR EXISTS (SELECT FROM l_const WHERE shard IS DISTINCT FROM 3);
SELECT 'conflicts: ' || t FROM rose.stat_subscription_tables t WHERE subname IN ('e', 'l') AND confl_insert_exists + confl_update_exists + confl_update_missing + confl_delete_missing > 0;
SQL
	return @problems;
}

1;
