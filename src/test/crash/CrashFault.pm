# Faults of the disk for a test server: shim.c, compiled and preloaded.
#
# The server is started with preload() in force, and inherits it to its children.
# arm() and disarm() work while it runs, or before it starts.
package CrashFault;

use strict;
use warnings;

use PostgreSQL::Test::Utils;

# As in shim.c.
my %faults = (full => 1, write => 2, read => 3, sync => 4, kill => 5, torn => 6);

sub new
{
	my ($class) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $self = bless { control => "$dir/control", library => "$dir/shim.so" }, $class;

	system($ENV{CC} // 'gcc', qw(-std=gnu99 -O1 -shared -fPIC -Wall -Wextra -D_GNU_SOURCE -o), $self->{library}, "$ENV{TESTDIR}/src/test/crash/shim.c", '-ldl') == 0
	  or die 'the shim could not be compiled';
	$self->disarm;
	return $self;
}

# Settings for the environment of who starts the server.
sub preload
{
	my ($self) = @_;

	$ENV{SHIM_CONTROL} = $self->{control};
	$ENV{LD_PRELOAD} = $self->{library};
	return;
}

sub unload
{
	delete @ENV{qw(SHIM_CONTROL LD_PRELOAD)};
	return;
}

# write in place: the server has the file mapped
sub put
{
	my ($self, $fault, $countdown) = @_;

	open my $fh, -e $self->{control} ? '+<' : '+>', $self->{control} or die "$self->{control}: $!";
	binmode $fh;
	# the fault last
	syswrite $fh, pack('l l q q', 0, 0, $countdown, 0);
	sysseek $fh, 0, 0;
	syswrite $fh, pack('l', $fault);
	close $fh;
	return;
}

sub arm
{
	my ($self, $fault, $countdown) = @_;

	$self->put($faults{$fault} // die("no such fault: $fault"), $countdown);
	return;
}

# Nothing fails any more; how often something did.
sub disarm
{
	my ($self) = @_;
	my $hits = -e $self->{control} ? (unpack 'l l q q', slurp_file($self->{control}))[3] : 0;

	$self->put(0, 0);
	return $hits;
}

1;
