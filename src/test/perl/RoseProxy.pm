# A proxy between a subscriber and its upstream, which changes what the upstream says.
package RoseProxy;

use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;

# Listens at port $port in $dir for what is to go to the server in $host at $server_port. What comes back goes through the
# function $change, which is given what was read at a time.
sub new
{
	my ($class, $dir, $port, $host, $server_port, $change) = @_;
	my $path = "$dir/.s.PGSQL.$port";

	unlink $path;
	my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 10) or die "could not listen at $path: $!";
	my $pid = fork // die "could not fork: $!";
	if ($pid == 0)
	{
		# not what the test does then, which is to stop its servers
		local @SIG{qw(CHLD TERM INT)} = qw(IGNORE DEFAULT DEFAULT);
		while (my $client = $listener->accept)
		{
			next if fork;
			pass($client, IO::Socket::UNIX->new("$host/.s.PGSQL.$server_port"), $change);
			require POSIX;
			POSIX::_exit(0);
		}
		require POSIX;
		POSIX::_exit(0);
	}
	close $listener;
	return bless { pid => $pid, path => $path }, $class;
}

sub pass
{
	my ($client, $server, $change) = @_;
	my $select = IO::Select->new($client, $server);

	while (my @ready = $select->can_read)
	{
		foreach my $from (@ready)
		{
			my ($to, $data) = $from == $client ? $server : $client;

			return unless sysread $from, $data, 65536;
			$data = $change->($data) if $from == $server;
			while (length $data)
			{
				my $n = syswrite $to, $data or return;
				substr $data, 0, $n, '';
			}
		}
	}
	return;
}

sub end
{
	my ($self) = @_;

	kill 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	unlink $self->{path};
	return;
}

1;
