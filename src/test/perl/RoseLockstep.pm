
# Sessions in lockstep: each is one psql on heap and one on rose, which get the
# same statements. A statement that waits for another session on one side must
# wait on the other side too.
#
# The sides are told apart by schema: twin_heap and twin_rose. Nothing here knows
# what the statements are.
package RoseLockstep;

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep time);

my @sides = qw(heap rose);

# new($node, $name)
sub new
{
	my ($class, $node, $name) = @_;
	my $self = bless { node => $node, name => $name, n => 0, waits => 0 }, $class;

	foreach my $side (@sides)
	{
		my %psql = (in => '', out => '', err => '');

		$psql{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . " application_name=$name.$side" ],
			'<', \$psql{in}, '>', \$psql{out}, '2>', \$psql{err});
		$self->{$side} = \%psql;
	}
	$self->send("SET search_path = twin_$_; \\pset null '<null>'\nSET client_min_messages = error; SET extra_float_digits = 1;", $_)
	  foreach @sides;
	$self->{n}++;
	$self->wait_or_block;
	return $self;
}

# Sends to one side; the mark at the end carries state, rows and message.
sub send
{
	my ($self, $sql, $side) = @_;
	my $psql = $self->{$side};
	my $n = $self->{n} + 1;

	$psql->{out} = '';
	$psql->{in} .= "$sql\n\\echo '\@\@ $n' :SQLSTATE :ROW_COUNT\n\\if :ERROR\n\\echo :LAST_ERROR_MESSAGE\n\\endif\n\\echo '\@\@ end $n'\n";
	$psql->{run}->pump_nb;
	return;
}

# Starts a statement on both sides.
sub start
{
	my ($self, $sql) = @_;

	$self->{sql} = $sql;
	$self->send("$sql;", $_) foreach @sides;
	$self->{n}++;
	return;
}

sub answered
{
	my ($self, $side) = @_;

	$self->{$side}{run}->pump_nb;
	return $self->{$side}{out} =~ /^@@ end $self->{n}$/m;
}

# Has it answered, with an error?
sub failed
{
	my ($self, $side) = @_;

	return $self->{$side}{out} =~ /^@@ $self->{n} (?!00000)\S+ .*^@@ end $self->{n}$/ms;
}

# Which of the program's sessions wait for a lock, by name.
sub waiting
{
	my ($node) = @_;

	return map { $_ => 1 } split /\n/,
	  $node->safe_psql('postgres', "SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 's%.%'");
}

# Locks that somebody waits for, with who has them.
sub locks
{
	my ($node) = @_;

	return $node->safe_psql('postgres', <<'SQL') . "\n";
SELECT a.application_name, a.backend_type, l.locktype, coalesce(l.relation::regclass::text, l.transactionid::text, l.objid::text), l.mode, l.granted
FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
WHERE EXISTS (SELECT FROM pg_locks w WHERE NOT w.granted AND (w.locktype, w.database, w.relation, w.page, w.tuple, w.transactionid, w.classid, w.objid, w.virtualxid)
	IS NOT DISTINCT FROM (l.locktype, l.database, l.relation, l.page, l.tuple, l.transactionid, l.classid, l.objid, l.virtualxid))
SQL
}

# Until both sides have answered (true), or both wait for a lock (false). A statement that has failed
# on one side may wait on the other: which of several rows is met first is nobody's promise. That it
# was done on one side while it waits on the other is: then this dies.
sub wait_or_block
{
	my ($self) = @_;
	my $began = time();
	my $ask = 0.1;

	until ($self->answered('heap') && $self->answered('rose'))
	{
		my $passed = time() - $began;

		usleep(500);
		next if $passed < $ask;
		$ask = $passed + 0.1;
		my %waits = waiting($self->{node});
		my @open = grep { !$self->answered($_) } @sides;
		my @blocked = grep { $waits{"$self->{name}.$_"} } @open;
		if (@blocked == 2 || (@blocked == 1 && grep { $self->failed($_) } @sides))
		{
			$self->{waits}++;
			return 0;
		}
		die "only $blocked[0] waits for a lock: $self->{sql}\n" . locks($self->{node}) if @open == 1 && @blocked == 1 && $passed > 20;
		die "no answer from @open: $self->{sql}\n" if $passed > $PostgreSQL::Test::Utils::timeout_default;
	}
	return 1;
}

# The answers of both sides, each with rows, status and message.
sub answers
{
	my ($self) = @_;
	my %answers;

	foreach my $side (@sides)
	{
		my ($rows, $status, $message) = $self->{$side}{out} =~ /\A(.*?)^@@ $self->{n} ([^\n]*)\n(.*?)^@@ end $self->{n}$/ms
		  or die "no answer from $side: $self->{$side}{out}";
		$answers{$side} = { rows => $rows, status => $status, message => $status =~ /^00000/ ? '' : $message };
		die "$side: $self->{$side}{err}" if $self->{$side}{err} =~ /FATAL|PANIC|connection/;
		$self->{$side}{err} = '';
	}
	return \%answers;
}

sub end
{
	my ($self) = @_;

	foreach my $side (@sides)
	{
		$self->{$side}{run}->kill_kill;
	}
	return;
}

1;
