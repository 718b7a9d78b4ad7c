# Work beside the writers of CrashModel.pm that takes a server to where they rarely
# or never come: other databases, full memory, foreign keys under old snapshots,
# names of rows that several sessions share, copies of tables, files that shrink.
#
# work($point) is a text for psql of the kind that gets to a stop point, or of any kind
# if every writer gets there. Each kind has tables of its own, so that it needs to agree
# with nobody; create() makes them, compared() names them. Uses rand().
package CrashWork;

use strict;
use warnings;

# Kinds by the stop points that need them. A point that CrashModel's writers and its
# maintenance come to is not listed.
my %kinds = (
	'arrival-batch' => \&read_arrivals,
	'batches-interval' => \&read_in_parallel,
	map({ $_ => \&copy_again } qw(copy-snapshot copy-found copy-reading copy-loaded copy-committed copies-looked copies-taken-in)),
	'change-row-written' => \&change_unique,
	'database-moved' => \&move_database,
	'entries-no-room' => \&fill_memory_by_entries,
	map({ $_ => \&make_index_beside } qw(index-beside-made index-beside-begun index-beside-snapshot index-beside-read index-beside-complete unique-beside-waited)),
	'index-file-made' => \&make_index,
	'insert-looked' => \&copy_rows,
	'insert-row-written' => \&change_unique,
	'lookup-partial' => \&read_fed,
	'lookup-unseen' => \&look_past_prepared,
	'merge-rests' => \&merge_in_time,
	'place-adding' => \&many_tables,
	'place-mapping' => \&many_tables,
	'private-judging' => \&large_transaction,
	'scan-back-stretch' => \&read_back,
	'snapshot-noted' => \&check_keys,
	'snapshot-other' => \&check_keys,
	'space-locked' => \&shrink,
	'space-truncated' => \&shrink,
	'tid-base' => \&share_names,
	'tid-pairs' => \&find_spilled,
	'tid-publish' => \&share_names,
	'worker-ending' => \&other_database,
	'write-no-room' => \&fill_memory);

# No point needs it, but those that all come to may be reached with it.
my @more = (\&large_transaction);

my $tablespaces = 0;
my $databases = 0;

sub pick { return $_[ int(rand(@_)) ] }
sub chance { return rand() < $_[0] }

# work($point, $connstr): the text; of any kind for a point that needs none.
sub work
{
	my ($point, $connstr) = @_;
	my $kind = $kinds{ $point // '' } // pick(@more, map { $kinds{$_} } sort keys %kinds);

	# others' locks, and prepared transactions that earlier cycles have left, are not waited for for ever
	return "SET lock_timeout = '2s';\n" . $kind->($connstr);
}

sub needs_work { return exists $kinds{ $_[0] // '' } }

# The tables, by pairs of a heap and a rose table of the same content.
sub create
{
	my ($node) = @_;

	foreach my $side (qw(r h))
	{
		my $am = $side eq 'r' ? 'rose' : 'heap';
		$node->safe_psql('postgres', <<"SQL");
CREATE TABLE ${side}_parent (id int PRIMARY KEY) USING $am;
CREATE TABLE ${side}_child (id int PRIMARY KEY, parent int REFERENCES ${side}_parent ON DELETE RESTRICT, v bigint) USING $am;
CREATE TABLE ${side}_large (id int PRIMARY KEY, v bigint, pad text) USING $am;
CREATE TABLE ${side}_space (id int PRIMARY KEY, v bigint, pad text) USING $am;
CREATE TABLE ${side}_entry (id int PRIMARY KEY, v bigint, pad text) USING $am;
SQL
	}
	$node->safe_psql('postgres', 'CREATE UNIQUE INDEX ON r_large (v, id); CREATE UNIQUE INDEX ON r_child (parent, v, id); CREATE INDEX ON r_entry (v) INCLUDE (pad)');
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	$node->safe_psql('other', 'CREATE EXTENSION rose; CREATE TABLE r_t (id int PRIMARY KEY, v bigint) USING rose; CREATE TABLE h_t (id int PRIMARY KEY, v bigint)');
	return;
}

# Pairs of tables, as [ database, name without r_ and h_ ].
sub compared { return (map({ [ 'postgres', $_ ] } qw(parent child large space entry)), [ 'other', 't' ]) }

# The statement on heap, then on rose; its tables are written T_name.
sub both
{
	return join '', map {
		my $statement = $_;
		map { (my $s = $statement) =~ s/\bT_/${_}_/g; "$s;\n" } qw(h r)
	} @_;
}

# A transaction of its own, so that both are changed or neither.
sub both_alone { return "BEGIN;\n" . both(@_) . "COMMIT;\n" }

sub end_of_transaction { return pick('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK') . ";\n" }

# A published table that is emptied and copied.
sub copy_again
{
	return "SELECT rose.alter_subscription('s', resync => 'f_copied');\n";
}

# COPY, of rows that are there or not, into a table without a unique index: many rows in one go.
sub copy_rows
{
	my $text = '';

	for (1 .. 3)
	{
		my $from = 20000 + int(rand(500));
		my $to = $from + pick(1, 20, 400);

		$text .= "BEGIN;\n";
		$text .= both("DELETE FROM T_entry WHERE id BETWEEN $from AND $to") if chance(0.8);
		$text .= both("COPY T_entry FROM PROGRAM 'seq -f %.0f,1,x $from $to' (FORMAT csv)") . end_of_transaction();
	}
	return $text;
}

# Small tables in memory, as large ones are read.
sub read_arrivals
{
	return "SELECT stop_at('arrival-small', 'skip', 'any', 0, 0);\n" . join '', map {
		"BEGIN;\nCREATE TABLE arrived (id int PRIMARY KEY, v int) USING rose;\nINSERT INTO arrived SELECT g, g FROM generate_series(1, 500) g;\n"
		  . "SELECT count(*), sum(v) FROM arrived;\nROLLBACK;\n"
	} 1 .. 4;
}

# By several processes, which divide the keys.
sub read_in_parallel
{
	my $text = "SET min_parallel_table_scan_size = 0;\nSET parallel_setup_cost = 0;\nSET parallel_tuple_cost = 0;\nSET max_parallel_workers_per_gather = 2;\n";

	$text .= both_alone("INSERT INTO T_space SELECT g, 1, md5(g::text) FROM generate_series(40001, 60000) g ON CONFLICT (id) DO UPDATE SET v = T_space.v + 1") . "SELECT rose.merge('r_space');\n" if chance(0.5);
	return $text . "SELECT count(pad), sum(v) FROM r_space WHERE v > 0;\nSELECT v, count(*) FROM r_space GROUP BY v;\n" x 3;
}

# More tables at a time than all processes have memory for.
sub many_tables
{
	return "BEGIN;\n"
	  . "DO 'BEGIN FOR i IN 1 .. 100 LOOP EXECUTE format(''CREATE TABLE many%s (id int PRIMARY KEY) USING rose'', i); EXECUTE format(''INSERT INTO many%s VALUES (1)'', i); END LOOP; END';\n"
	  . "ROLLBACK;\n";
}

# Versions that the subscription has written in parts.
sub read_fed
{
	my $text = "SET enable_seqscan = off;\n";

	for (1 .. 40)
	{
		$text .= 'SELECT n, length(big) FROM f_left WHERE id = ' . (1 + int(rand(300))) . ";\nSELECT pg_sleep(0.02);\n";
	}
	return $text;
}

# Rows that are looked up while a prepared transaction has written other versions of them.
sub look_past_prepared
{
	my $text = "SET enable_seqscan = off;\n";

	for (1 .. 10)
	{
		my $n = int(rand(300));
		my $gid = 'unseen' . int(rand(1_000_000_000));

		$text .= both_alone("INSERT INTO T_parent VALUES ($n) ON CONFLICT DO NOTHING", "INSERT INTO T_child VALUES ($n, $n, 0) ON CONFLICT DO NOTHING");
		$text .= "BEGIN;\n" . both("UPDATE T_child SET v = v + 1 WHERE id = $n") . "PREPARE TRANSACTION '$gid';\n";
		$text .= "SELECT v FROM r_child WHERE id = $n;\nCOMMIT PREPARED '$gid';\n";
	}
	return $text;
}

# Checks of foreign keys look with a snapshot of their own.
sub check_keys
{
	my $text = '';

	for (1 .. 4)
	{
		my $from = int(rand(300));
		my $to = $from + pick(1, 10, 100);

		$text .= "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM r_child;\nSELECT pg_sleep(0.1);\n";
		$text .= both(
			"INSERT INTO T_parent SELECT generate_series($from, $to) ON CONFLICT DO NOTHING",
			"INSERT INTO T_child SELECT g, g, 0 FROM generate_series($from, $to) g ON CONFLICT DO NOTHING",
			"UPDATE T_child SET v = v + 1 WHERE id BETWEEN $from AND $to");
		$text .= both("DELETE FROM T_child WHERE id BETWEEN $from AND $from + 5", "DELETE FROM T_parent WHERE id BETWEEN $from AND $from + 5") if chance(0.7);
		$text .= end_of_transaction();
	}
	return $text;
}

# A transaction whose versions are spilled several times while it goes on, until its runs are joined.
sub large_transaction
{
	my $text = "BEGIN;\n";

	for my $n (1 .. 6)
	{
		$text .= both("INSERT INTO T_large SELECT g, $n, repeat(md5(g::text), 5) FROM generate_series(1, 500) g ON CONFLICT (id) DO UPDATE SET v = T_large.v + $n");
		$text .= "SELECT rose.spill('r_large');\n";
	}
	return $text
	  . "DO 'BEGIN FOR i IN 1 .. 100 LOOP EXIT WHEN (SELECT count(*) <= 2 FROM rose.components(''r_large'') WHERE kind = ''private run''); PERFORM pg_sleep(0.1); END LOOP; END';\n"
	  . "SELECT count(*), sum(v) FROM r_large;\n" . end_of_transaction();
}

# More than memory holds, in rows that are large themselves: small ones are spilled in time.
sub fill_memory
{
	return "BEGIN;\n"
	  . both("INSERT INTO T_large SELECT 10000 + g, 1, repeat(md5(g::text), 28000) FROM generate_series(1, 14) g ON CONFLICT (id) DO UPDATE SET v = T_large.v + 1")
	  . end_of_transaction()
	  . both_alone('DELETE FROM T_large WHERE id > 10000');
}

# The same with entries of an index, while what is written of the rows themselves is one column.
sub fill_memory_by_entries
{
	return both_alone("INSERT INTO T_entry SELECT g, 1, repeat(md5(g::text), 28000) FROM generate_series(1, 14) g ON CONFLICT (id) DO UPDATE SET v = T_entry.v + 1")
	  . "BEGIN;\n"
	  . both('UPDATE T_entry SET v = v + 1', 'UPDATE T_entry SET v = v + 1')
	  . end_of_transaction()
	  . both_alone('DELETE FROM T_entry WHERE id > ' . int(rand(14)));
}

# Indexes that are made, made anew, and dropped.
sub make_index
{
	return join '', map { "BEGIN;\nCREATE INDEX IF NOT EXISTS r_child_made ON r_child (v, parent);\nREINDEX TABLE r_child;\n" . end_of_transaction() . "DROP INDEX IF EXISTS r_child_made;\n" } 1 .. 3;
}

# What broke off is left as an index that is not valid, or that a later REINDEX TABLE has made valid under the name that it had in between.
sub drop_unfinished_indexes
{
	return "DO 'DECLARE i regclass; BEGIN FOR i IN SELECT indexrelid FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = ''r_pair''::regclass AND (NOT indisvalid OR relname ~ ''_cc(new|old)'') LOOP EXECUTE format(''DROP INDEX %s'', i); END LOOP; END';\n";
}

# The same beside CrashModel's writers.
sub make_index_beside
{
	my $drop_invalid = drop_unfinished_indexes();

	return join '', map {
		"${drop_invalid}CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS r_pair_beside ON r_pair (v DESC, b, id) INCLUDE (pad);\n"
		  . "REINDEX TABLE CONCURRENTLY r_pair;\nDROP INDEX CONCURRENTLY IF EXISTS r_pair_beside;\n"
	} 1 .. 2;
}

# Rows with unique values, one by one, which nobody else has.
sub change_unique
{
	my $text = '';

	for (1 .. 8)
	{
		my $id = 8000 + int(rand(50));

		$text .= "BEGIN;\n"
		  . both(
			"INSERT INTO T_large VALUES ($id, 1, 'u') ON CONFLICT (id) DO UPDATE SET v = T_large.v + 1",
			"UPDATE T_large SET v = v + 1 WHERE id = $id",
			"UPDATE T_large SET id = id + 100 WHERE id = $id AND NOT EXISTS (SELECT FROM T_large WHERE id = $id + 100)",
			"DELETE FROM T_large WHERE id = $id + 100")
		  . end_of_transaction();
	}
	return $text;
}

# Rows in memory, the other way round. Nobody spills those of a transaction that is under way.
sub read_back
{
	return "BEGIN;\n"
	  . both("INSERT INTO T_space SELECT g, 1, 'b' FROM generate_series(5001, 8000) g ON CONFLICT (id) DO UPDATE SET v = T_space.v + 1")
	  . "SET LOCAL enable_seqscan = off;\nSET LOCAL enable_sort = off;\n"
	  . "SELECT sum(v) FROM (SELECT v FROM r_space WHERE id > 5000 ORDER BY id DESC) x;\n" x 4
	  . both('DELETE FROM T_space WHERE id > 5000')
	  . end_of_transaction();
}

# A run with so many tombstones that a worker merges it, but so small that it is in no hurry.
sub merge_in_time
{
	return both_alone("INSERT INTO T_space SELECT g, 1, md5(g::text) FROM generate_series(10001, 30000) g ON CONFLICT (id) DO UPDATE SET v = T_space.v + 1")
	  . "SELECT rose.merge('r_space');\n"
	  . both_alone('DELETE FROM T_space WHERE id > 10000 AND id % 5 < 2')
	  . "SELECT rose.spill('r_space');\n"
	  . "DO 'BEGIN FOR i IN 1 .. 100 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rose.components(''r_space'') WHERE kind = ''run''); PERFORM pg_sleep(0.1); END LOOP; END';\n"
	  . both_alone('DELETE FROM T_space WHERE id > 10000');
}

# A file whose end is free, and then cut off by VACUUM.
sub shrink
{
	return both_alone("INSERT INTO T_space SELECT g, 1, repeat(md5(g::text), 30) FROM generate_series(1, 2000) g ON CONFLICT (id) DO UPDATE SET v = T_space.v + 1")
	  . "SELECT rose.merge('r_space');\n"
	  . both_alone('DELETE FROM T_space WHERE id > ' . int(rand(50)))
	  . "SELECT rose.merge('r_space');\nVACUUM r_space;\nSELECT rose.merge('r_space');\nVACUUM r_space;\n";
}

# A cursor's row that was in memory when it was read, and is not any more.
sub find_spilled
{
	my $write = both('INSERT INTO T_large SELECT g, 1, md5(g::text) FROM generate_series(5001, 5200) g ON CONFLICT (id) DO UPDATE SET v = T_large.v + 1');

	# committed, or its own
	return "BEGIN;\n$write"
	  . pick("COMMIT;\nBEGIN;\n", '')
	  . "DECLARE c CURSOR FOR SELECT * FROM r_large WHERE id > 5000;\nMOVE " . (1 + int(rand(150))) . " FROM c;\nSELECT rose.spill('r_large');\n"
	  . "UPDATE r_large SET v = v WHERE CURRENT OF c;\nFETCH c;\nUPDATE r_large SET v = v WHERE CURRENT OF c;\n"
	  . "SELECT count(*) FROM r_large WHERE ctid = ANY(ARRAY(SELECT ctid FROM r_large LIMIT 20));\n"
	  . end_of_transaction();
}

# Sessions with one snapshot, which must agree on the names of rows, and on how many there are.
sub share_names
{
	my ($connstr) = @_;
	my $table = pick(qw(r_plain r_wide r_nokey));
	my $psql = qq(\\! psql -XAtq -d "$connstr" -v ON_ERROR_STOP=1 -c "BEGIN ISOLATION LEVEL REPEATABLE READ" -c "SET TRANSACTION SNAPSHOT '\$SNAP'")
	  . qq( -c "SELECT 1 / (count(*) = \$ROWS)::int FROM $table WHERE ctid IS NOT NULL" -c COMMIT\n);

	return "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT pg_export_snapshot() AS snap, count(*) AS rows FROM $table \\gset\n"
	  . "\\if :{?snap}\n\\setenv SNAP :snap\n\\setenv ROWS :rows\n$psql"
	  . "SELECT 1 / (count(*) = :rows)::int FROM $table WHERE ctid IS NOT NULL;\n$psql\\endif\nCOMMIT;\n";
}

# Writes in another database, whose maintenance takes turns with that of this one.
sub other_database
{
	my $from = int(rand(1000));
	my $to = $from + pick(1, 100, 1000);

	return "\\c other\nBEGIN;\n"
	  . both("INSERT INTO T_t SELECT g, 0 FROM generate_series($from, $to) g ON CONFLICT (id) DO UPDATE SET v = T_t.v + 1")
	  . (chance(0.3) ? both("DELETE FROM T_t WHERE id BETWEEN $from AND $from + 10") : '')
	  . "COMMIT;\nSELECT rose." . pick('spill', 'merge') . "('r_t');\n\\c postgres\n";
}

# There and back, or made and dropped. A tablespace of its own each time: of a move that is
# killed core leaves files, and refuses another one to where they are.
sub move_database
{
	my $text = other_database();

	if (chance(0.3))
	{
		my $name = 'scratch' . ++$databases;

		# by files: where a write fails, core's other way drops buffers that it has pinned itself, which is an error of its own
		return "$text CREATE DATABASE $name STRATEGY file_copy;\n\\c $name\nCREATE EXTENSION rose;\nCREATE TABLE t (id int PRIMARY KEY) USING rose;\n"
		  . "INSERT INTO t SELECT generate_series(1, 2000);\n\\c postgres\nDROP DATABASE $name;\n";
	}
	my $to = 'moved' . ++$tablespaces;
	return "${text}SET allow_in_place_tablespaces = on;\nCREATE TABLESPACE $to LOCATION '';\nALTER DATABASE other SET TABLESPACE $to;\n"
	  . other_database()
	  . (chance(0.5) ? "ALTER DATABASE other SET TABLESPACE pg_default;\n" . other_database() : '');
}

1;
