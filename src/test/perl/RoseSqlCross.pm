
# Kinds of statement and transaction of RoseSqlGen that cross what is rarely
# crossed: rows found by ctid, ALTER TABLE between writes, savepoints that are
# taken back after a spill.
#
# A ctid itself is never part of an answer: heap's and rose's differ.
package RoseSqlCross;

use strict;
use warnings;

use Exporter 'import';

use RoseSqlTables;

our @EXPORT = qw(alter by_ctid spilled_savepoint ctid_kept);

# Columns come and go, and types change; all values fit all of the types.
sub alter
{
	my ($self, $table) = @_;
	my $name = $table->{name};
	my $first = $table->{key}[0];
	my @can = (
		sub { "ADD COLUMN IF NOT EXISTS z" . int(rand(3)) . pick(' int DEFAULT 5', ' text', " text NOT NULL DEFAULT 'given'", ' float8 DEFAULT 0.25') },
		sub { 'DROP COLUMN IF EXISTS z' . int(rand(3)) });

	push @can, sub { 'ALTER a TYPE ' . pick('int', 'bigint', 'numeric') } if !$table->{fixed}{a};
	# A partition key keeps its type. Where a deferrable index has the column, too, the order of both decides whether ON CONFLICT meets it before it finds a row.
	push @can, sub { "ALTER $first->[0] TYPE " . pick('int', 'bigint') } if $first && $first->[1] eq 'int' && !$table->{parts} && !$table->{in_deferrable}{ $first->[0] };
	push @can, sub { 'ALTER b TYPE ' . pick('text', 'varchar(5000)') } if grep { $_->[0] eq 'b' && $_->[2] eq 'pad' } @{ $table->{other} };
	return one("ALTER TABLE $name " . pick(@can)->());
}

# Two rows are the same one only if they are of the same partition.
sub same
{
	my ($table, $l, $r) = @_;

	return "$l.ctid = $r.ctid" . ($table->{parts} ? " AND $l.tableoid = $r.tableoid" : '');
}

sub by_ctid
{
	my ($self, $table) = @_;
	my $name = $table->{name};
	my $array = "ARRAY(SELECT ctid FROM $name WHERE " . where($table) . ')';
	my $rows = "(SELECT ctid, tableoid FROM $name WHERE " . where($table) . pick('', ' OFFSET 0') . ') s';
	my @can = (
		sub { "SELECT count(*), sum(t.a) FROM $name t JOIN $rows ON " . same($table, 't', 's') },
		sub { "UPDATE $name t SET a = 3 FROM $rows WHERE " . same($table, 't', 's') . returning_of('t') },
		sub { "DELETE FROM $name t USING $rows WHERE " . same($table, 't', 's') . pick(' AND false', ' AND t.a % 4 = 0', '') . returning_of('t') },
		# of equal rows one is left, whichever
		sub {
			"DELETE FROM $name t WHERE " . where($table, 't')
			  . " AND ctid <> (SELECT min(ctid) FROM $name o WHERE o.tableoid = t.tableoid AND o.a IS NOT DISTINCT FROM t.a AND o::text = t::text)";
		});

	push @can, sub { "SELECT * FROM $name WHERE ctid = ANY($array)" }, sub { "DELETE FROM $name WHERE ctid = ANY($array) AND a % 3 = 0" . returning_of($name) },
	  sub { "UPDATE $name SET a = 4 WHERE ctid = ANY($array)" },
	  sub { "SELECT count(*) FROM $name WHERE ctid < '(20,0)' OR ctid >= '(20,0)'" }
	  if !$table->{parts};
	return one(pick(@can)->());
}

sub returning_of { return rare(0.3) ? " RETURNING $_[0].*" : '' }

# What was spilled is taken back, and the same keys are written again.
sub spilled_savepoint
{
	my ($self) = @_;
	my $table = pick(@{ $self->{tables} });
	my $writes = sub { map { pick(\&RoseSqlGen::insert, \&RoseSqlGen::upsert, \&RoseSqlGen::update, \&RoseSqlGen::update_key, \&RoseSqlGen::delete_rows)->($self, $table) } 1 .. 1 + int(rand($_[0])) };
	my $churn = sub { rare($_[0]) ? map { { churn => $_, inside => 1 } } leaves_of($table) : () };
	my @block = (
		{ sql => '\set ON_ERROR_ROLLBACK on', meta => 1 },
		{ sql => 'BEGIN' },
		(rare(0.5) ? $writes->(2) : ()),
		{ sql => 'SAVEPOINT z' },
		$writes->(6), $churn->(0.8),
		(rare(0.3) ? ({ sql => 'SAVEPOINT zz' }, $writes->(3), $churn->(0.5), { sql => pick('RELEASE zz', 'ROLLBACK TO zz') }) : ()),
		{ sql => 'ROLLBACK TO z' },
		$churn->(0.3));

	push @block, $writes->(4), $churn->(0.3), $self->RoseSqlGen::select_rows($table), { sql => pick('COMMIT', 'COMMIT', 'ROLLBACK') };
	return @block, { sql => '\set ON_ERROR_ROLLBACK off', meta => 1 }, $self->RoseSqlGen::select_ordered($table);
}

# A ctid that a statement has read is used by later ones of its transaction.
sub ctid_kept
{
	my ($self) = @_;
	my $table = pick(grep { !$_->{parts} } @{ $self->{tables} });
	my $order = @{ $table->{key} } ? names($table->{key}) : names($table->{columns});
	my $name = $table->{name};

	return (
		{ sql => '\set kept_ctid (4294967294,1)', meta => 1 },
		{ sql => 'BEGIN' . pick('', ' ISOLATION LEVEL REPEATABLE READ') },
		{ sql => "SELECT ctid AS kept_ctid FROM $name WHERE " . where($table) . " ORDER BY $order LIMIT 1 \\gset", meta => 1 },
		(rare(0.7) ? { churn => $name, inside => 1 } : ()),
		(rare(0.3) ? $self->RoseSqlGen::insert($table) : ()),
		{ sql => "SELECT * FROM $name WHERE ctid = :'kept_ctid'" },
		(rare(0.3) ? { churn => $name, inside => 1 } : ()),
		{ sql => pick("UPDATE $name SET a = 7", "DELETE FROM $name") . " WHERE ctid = :'kept_ctid'" . returning_of($name) },
		{ sql => "SELECT * FROM $name WHERE ctid = :'kept_ctid'" },
		{ sql => pick('COMMIT', 'ROLLBACK') });
}

1;
