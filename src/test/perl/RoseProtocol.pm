# A client that speaks the protocol message by message: portals that are executed in parts, several
# statements before one Sync, calls of functions without SQL, COPY while others write, a walsender's connection.
# psql sends none of these.
#
# An error is thrown as { severity, state, message }, when the server is ready again; what was open before is as the server left it.
package RoseProtocol;

use strict;
use warnings;

use Errno;
use IO::Select;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;

# new($node), with options: replication => 1 for a walsender, database, parameters (further ones, by name), timeout (seconds to wait for a
# message, undef for ever)
sub new
{
	my ($class, $node, %options) = @_;
	my $path = $node->host . '/.s.PGSQL.' . $node->port;
	my $socket = IO::Socket::UNIX->new($path) or die "could not connect to $path: $!";
	my $self = bless { socket => $socket, buffer => '', status => 'I', timeout => exists $options{timeout} ? $options{timeout} : $PostgreSQL::Test::Utils::timeout_default }, $class;
	my @parameters = (user => scalar getpwuid($<), database => $options{database} // 'postgres', $options{replication} ? (replication => 'database') : (), @{ $options{parameters} // [] });
	my $body = pack('N', 3 << 16) . join("\0", @parameters) . "\0\0";

	$socket->syswrite(pack('N', length($body) + 4) . $body) or die "could not send: $!";
	$self->wait;
	return $self;
}

sub send
{
	my ($self, $type, $body) = @_;

	my $message = $type . pack('N', length($body) + 4) . $body;

	local $SIG{PIPE} = 'IGNORE';
	while (length $message)
	{
		my $sent = $self->{socket}->syswrite($message);

		next if !defined $sent && $!{EINTR};
		die "could not send: $!" if !$sent;
		substr($message, 0, $sent) = '';
	}
	return;
}

sub message
{
	my ($self) = @_;

	until (length $self->{buffer} >= 5 && length $self->{buffer} > unpack('x N', $self->{buffer}))
	{
		IO::Select->new($self->{socket})->can_read($self->{timeout}) or die 'the server does not answer' if defined $self->{timeout};
		my $n = sysread($self->{socket}, $self->{buffer}, 65536, length $self->{buffer});

		die 'the server has closed the connection' unless $n || !defined $n && $!{EINTR};
	}
	my ($type, $length) = unpack('a N', $self->{buffer});
	my $body = substr($self->{buffer}, 5, $length - 4);

	substr($self->{buffer}, 0, $length + 1) = '';
	return ($type, $body);
}

# The fields of a row.
sub fields
{
	my ($body) = @_;
	my ($n, $rest) = unpack('n a*', $body);
	my @fields;

	for (1 .. $n)
	{
		my $length = unpack('N', $rest);
		my $is_null = $length == 0xffffffff;

		push @fields, $is_null ? undef : substr($rest, 4, $length);
		$rest = substr($rest, 4 + ($is_null ? 0 : $length));
	}
	return \@fields;
}

# A row of COPY as text, or its fields.
sub copied
{
	my ($line) = @_;

	chomp $line;
	return [ map { $_ eq '\N' ? undef : $_ } split /\t/, $line, -1 ];
}

# Until the server is ready, or wants rows of COPY; the rows that it has sent.
sub wait
{
	my ($self, $copy_in) = @_;
	my (@rows, $error);

	for (;;)
	{
		my ($type, $body) = $self->message;

		if ($type eq 'D') { push @rows, fields($body) }
		elsif ($type eq 'd') { push @rows, copied($body) }
		elsif ($type eq 'R' && unpack('N', $body)) { die 'the server wants a password' }
		elsif ($type eq 'V') { push @rows, [ substr($body, 4) ] }
		elsif ($type eq 'E')
		{
			my %fields = map { (substr($_, 0, 1) => substr($_, 1)) } grep { $_ ne '' } split /\0/, $body;
			$error = { severity => $fields{S}, state => $fields{C}, message => $fields{M} };
			# no more comes
			die $error if $fields{S} eq 'FATAL';
		}
		elsif ($type eq 'G' && $copy_in) { return @rows }
		elsif ($type eq 'Z')
		{
			$self->{status} = $body;
			die $error if $error;
			return @rows;
		}
	}
}

# Send a query, without waiting for its end.
sub start
{
	my ($self, $sql) = @_;

	$self->send('Q', "$sql\0");
	return;
}

sub query
{
	my ($self, $sql) = @_;

	$self->start($sql);
	return $self->wait;
}

# Open a portal and have it return up to n rows, 0 for all. sync waits for the answers.
sub bind_and_execute
{
	my ($self, $portal, $sql, $n) = @_;

	$self->send('P', "\0$sql\0" . pack('n', 0));
	$self->send('B', "$portal\0\0" . pack('nnn', 0, 0, 0));
	$self->execute($portal, $n);
	return;
}

sub execute
{
	my ($self, $portal, $n) = @_;

	$self->send('E', "$portal\0" . pack('N', $n));
	return;
}

sub sync
{
	my ($self) = @_;

	$self->send('S', '');
	return $self->wait;
}

# A function call, with arguments and result as text or whatever their binary form is.
sub call
{
	my ($self, $oid, @arguments) = @_;
	my $body = pack('N n n n', $oid, 1, 0, scalar @arguments) . join('', map { pack('N', length) . $_ } @arguments);

	$self->send('F', $body . pack('n', 0));
	return $self->wait;
}

sub end
{
	my ($self) = @_;

	$self->send('X', '');
	close $self->{socket};
	return;
}

1;
