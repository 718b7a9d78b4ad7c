# What psql() and safe_psql() of a cluster do, without a process of psql for each call: that, and what IPC::Run does to start one,
# took a third of the processor time of all TAP tests.
#
# A cluster that is adopted (RosePsql::adopt) connects anew for each call, as psql does, sends statement by statement, and gives out
# rows, errors and notices in the form of psql -XAtq. What only psql has (backslashes, COPY FROM STDIN, options of a call) is
# still left to it.
package RosePsql;

use strict;
use warnings;

use RoseProtocol;
use Time::HiRes qw(usleep);

our @ISA;

# From now on calls of this cluster's methods come here first.
sub adopt
{
	my ($node) = @_;

	@ISA = (ref $node) unless @ISA;
	return ref $node eq $ISA[0] ? bless($node, 'RosePsql') : $node;
}

# What hides a semicolon or a backslash; and what else there may be between those and parentheses.
my $hidden = qr/[eE]'(?:[^'\\]|\\.|'')*' | '[^']*(?:''[^']*)*' | "[^"]*(?:""[^"]*)*" | \$(\w*)\$.*?\$\g{-1}\$ | --[^\n]*/xs;
my $plain = qr/(?:[^'"\$;()\\\w-]|(?![eE]')\w+|-(?!-))+|\$/;

# Each with the number of its last line; nothing if only psql can do that.
sub statements
{
	my ($sql) = @_;
	my (@statements, $from);
	my $depth = 0;

	return if $sql =~ /\bstdin\b|\bBEGIN\s+ATOMIC\b|\/\*/i;
	pos($sql) = $from = 0;
	while (pos($sql) < length $sql)
	{
		if ($sql =~ /\G$hidden/gc || $sql =~ /\G$plain/gc) { next }
		elsif ($sql =~ /\G\(/gc) { $depth++ }
		elsif ($sql =~ /\G\)/gc) { $depth-- }
		elsif ($sql =~ /\G;/gc)
		{
			next if $depth > 0;
			push @statements, [ substr($sql, $from, pos($sql) - $from), 1 + (substr($sql, 0, pos $sql) =~ tr/\n//) ];
			$from = pos $sql;
		}
		else { return }
	}
	push @statements, [ substr($sql, $from), 1 + ($sql =~ s/\n\z//r =~ tr/\n//) ];
	$_->[0] =~ s/\A\s+// foreach @statements;
	return grep { $_->[0] !~ /\A(?:\s|;|--[^\n]*(?:\n|\z))*\z/ } @statements;
}

# An error or a notice, as psql says it.
sub report
{
	my ($body) = @_;
	my %field = map { (substr($_, 0, 1) => substr($_, 1)) } grep { $_ ne '' } split /\0/, $body;
	my $text = "$field{S}:  $field{M}\n";

	$text .= "DETAIL:  $field{D}\n" if defined $field{D};
	$text .= "HINT:  $field{H}\n" if defined $field{H};
	$text .= "QUERY:  $field{q}\n" if defined $field{q};
	$text .= "CONTEXT:  $field{W}\n" if defined $field{W} && $field{S} =~ /ERROR|FATAL|PANIC/;
	return $text;
}

# One statement, until the server is ready again: what psql would give out, what it would say, and whether there was an error.
sub run_statement
{
	my ($connection, $statement) = @_;
	my ($sql, $line) = @$statement;
	my ($out, $err, $failed) = ('', '', 0);

	$connection->send('Q', "$sql\0");
	for (;;)
	{
		my ($type, $body) = eval { $connection->message };

		if (!defined $type)
		{
			$err .= "psql:<stdin>:$line: server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n\tbefore or while processing the request.\n"
			  . "psql:<stdin>:$line: error: connection to server was lost\n";
			return ($out, $err, 2);
		}
		elsif ($type eq 'D') { $out .= join('|', map { $_ // '' } @{ RoseProtocol::fields($body) }) . "\n" }
		elsif ($type eq 'd') { $out .= $body }
		elsif ($type eq 'N' || $type eq 'E')
		{
			$failed = 3 if $type eq 'E';
			$err .= "psql:<stdin>:$line: " . report($body);
		}
		elsif ($type eq 'Z') { return ($out, $err, $failed) }
	}
}

# Nothing if there is no server that lets somebody in, but for why.
sub open_connection
{
	my ($node, $dbname) = @_;
	my @more = map { defined $ENV{ $_->[1] } ? ($_->[0] => $ENV{ $_->[1] }) : () } [ 'application_name', 'PGAPPNAME' ], [ 'options', 'PGOPTIONS' ], [ 'client_encoding', 'PGCLIENTENCODING' ];
	my $connection = eval { RoseProtocol->new($node, database => $dbname, parameters => \@more, timeout => undef) };

	return ($connection, '') if $connection;
	my $why = ref $@ ? "$@->{severity}:  $@->{message}" : "$@";
	return (undef, 'psql: error: connection to server on socket "' . $node->host . '/.s.PGSQL.' . $node->port . "\" failed: $why");
}

# All of them, until one fails: exit status, output and what was said.
sub run_all
{
	my ($node, $dbname, @statements) = @_;
	my ($connection, $why) = open_connection($node, $dbname);
	my ($out, $err) = ('', '');
	my $status = 0;

	return if $why =~ /wants a password/;
	return (2, '', $why) if !$connection;
	foreach my $statement (@statements)
	{
		(my $more_out, my $more_err, $status) = run_statement($connection, $statement);
		$out .= $more_out;
		$err .= $more_err;
		last if $status;
	}
	eval { $connection->end };
	return map { s/\n\z//r } $status, $out, $err;
}

# Nothing: this is for psql.
sub try
{
	my ($node, $dbname, $sql, %params) = @_;
	my @only_psql = grep { !/\A(?:stdout|stderr|on_error_stop|on_error_die)\z/ } keys %params;

	return if @only_psql || !($params{on_error_stop} // 1);
	my @statements = statements($sql) or return;
	local %ENV = $node->_get_env;
	return run_all($node, $dbname, @statements);
}

sub psql
{
	my ($self, $dbname, $sql, %params) = @_;
	my ($status, $out, $err) = try($self, $dbname, $sql, %params);

	return $self->SUPER::psql($dbname, $sql, %params) if !defined $status;
	die(($status == 2 ? 'connection error' : 'error running SQL') . ": '$err'\nwhile running statements one by one" . ($status == 2 ? '' : " with sql '$sql'"))
	  if $status && $params{on_error_die};
	${ $params{stdout} } = $out if ref $params{stdout};
	${ $params{stderr} } = $err if ref $params{stderr};
	print STDERR "$err\n" if $err ne '' && !wantarray && !ref $params{stderr};
	return wantarray ? ($status, $out, $err) : $status;
}

sub poll_query_until
{
	my ($self, $dbname, $query, $expected) = @_;
	my ($status, $out, $err) = defined $query ? try($self, $dbname, $query) : ();
	my $attempts = 10 * $PostgreSQL::Test::Utils::timeout_default;

	return $self->SUPER::poll_query_until($dbname, $query, $expected) if !defined $status;
	$expected //= 't';
	until ($out eq $expected && $err eq '')
	{
		if ($attempts-- == 0)
		{
			Test::More::diag("poll_query_until timed out executing this query:\n$query\nexpecting this output:\n$expected\nlast actual query output:\n$out\nwith stderr:\n$err");
			return 0;
		}
		usleep(100_000);
		($status, $out, $err) = try($self, $dbname, $query);
	}
	return 1;
}

1;
