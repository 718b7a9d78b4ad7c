# PostgreSQL's own tests of subscriptions, with subscriptions of rose.
#
#   perl -MRoseConsumer FILE
#
# What the test tells a subscriber is told in rose's words: CREATE, ALTER and DROP
# SUBSCRIPTION become calls of rose's functions, catalogs and views of subscriptions the
# views of consumer.sql.  One that rose has not (disable_on_error) is left
# out.  Waiting for copies is rose.wait_for_sync; waiting for the stream is what it is,
# what the publisher has been told, of the connection that streams.
#
# That is so for nodes whose names say that they subscribe and do not publish (and node_C, the
# last one of a cascade): changes of rose tables are not decoded.  Others are told what
# PostgreSQL tells them.
package RoseConsumer;

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

my $NAME = qr/"(?:[^"]|"")+"|\w+/;
my $STRING = qr/'(?:[^']|'')*'|\$\$.*?\$\$/s;
my $NAMES = qr/$NAME(?:\s*,\s*$NAME)*/;
my $WITH = qr/(?:\s*WITH\s*\(([^)]*)\))?/i;
my $END = qr/\s*(?:;|\z)/;
my %KNOWN = map { $_ => 1 } qw(connect create_slot slot_name enabled copy_data binary synchronous_commit streaming two_phase refresh);

# subscriptions whose slot was set to NONE, by name
my %without_slot;

# As SQL.
sub literal
{
	my ($name) = @_;

	$name = lc $name unless $name =~ s/^"(.*)"$/$1/s;
	$name =~ s/'/''/g;
	return "'$name'";
}

sub list_of { return 'ARRAY[' . join(',', map { literal($_) } $_[0] =~ /$NAME/g) . ']' }

# The options of WITH or SET, as named arguments.
sub options
{
	my ($text) = @_;
	my @options;

	while (($text // '') =~ /(\w+)\s*(?:=\s*('[^']*'|\w+))?/g)
	{
		my ($name, $value) = (lc $1, $2 // 'true');
		next unless $KNOWN{$name};
		if ($value =~ /^'?(on|true|off|false)'?$/i) { $value = $1 =~ /^(?:on|true)$/i ? 'true' : 'false' }
		elsif ($value !~ /^'/) { $value = literal($value) }
		push @options, "$name => $value";
	}
	return @options;
}

# A call whose result is not shown.
sub call
{
	my ($function, @arguments) = @_;

	return "SELECT rose.$function(" . join(', ', @arguments) . ") \\g /dev/null\n";
}

sub alter { my ($name, @arguments) = @_; return call('alter_subscription', literal($name), @arguments) }

# ADD or DROP PUBLICATION
sub change_publications
{
	my ($name, $verb, $names, $with) = @_;
	my $list = list_of($names);
	my $old = 'SELECT unnest(publications) AS p FROM rose.subscription WHERE subname = ' . literal($name);
	my $new = uc $verb eq 'ADD' ? "$old UNION ALL SELECT unnest($list)" : "SELECT p FROM ($old) AS o WHERE p <> ALL ($list)";

	return alter($name, "publications => ARRAY($new)", 'refresh => true', options($with));
}

sub set_options
{
	my ($name, $text) = @_;

	if ($text =~ /slot_name\s*=\s*NONE/i)
	{
		$without_slot{$name} = 1;
		return '';
	}
	return alter($name, options($text));
}

sub drop
{
	my ($name) = @_;

	return call('drop_subscription', literal($name), delete $without_slot{$name} ? ('keep_slot => true') : ());
}

sub rewrite
{
	my ($sql) = @_;

	$sql =~ s/CREATE\s+SUBSCRIPTION\s+($NAME)\s+CONNECTION\s+($STRING)\s+PUBLICATION\s+($NAMES)$WITH$END/
		call('create_subscription', literal($1), $2, list_of($3), options($4))/gie;
	$sql =~ s/ALTER\s+SUBSCRIPTION\s+($NAME)\s+ENABLE$END/alter($1, 'enabled => true')/gie;
	$sql =~ s/ALTER\s+SUBSCRIPTION\s+($NAME)\s+DISABLE$END/alter($1, 'enabled => false')/gie;
	$sql =~ s/ALTER\s+SUBSCRIPTION\s+($NAME)\s+CONNECTION\s+($STRING)$END/alter($1, "conninfo => $2")/gie;
	$sql =~ s/ALTER\s+SUBSCRIPTION\s+($NAME)\s+REFRESH\s+PUBLICATION$WITH$END/alter($1, 'refresh => true', options($2))/gie;
	$sql =~ s/ALTER\s+SUBSCRIPTION\s+($NAME)\s+SET\s+PUBLICATION\s+($NAMES)$WITH$END/
		alter($1, 'publications => ' . list_of($2), options($3))/gie;
	$sql =~ s/ALTER\s+SUBSCRIPTION\s+($NAME)\s+(ADD|DROP)\s+PUBLICATION\s+($NAMES)$WITH$END/change_publications($1, $2, $3, $4)/gie;
	$sql =~ s/ALTER\s+SUBSCRIPTION\s+($NAME)\s+SET\s*\(([^)]*)\)$END/set_options($1, $2)/gie;
	$sql =~ s/DROP\s+SUBSCRIPTION\s+($NAME)$END/drop($1)/gie;
	$sql =~ s/\b(?:pg_catalog\.)?(pg_subscription_rel|pg_subscription|pg_stat_subscription)\b/core_consumer.$1/g;
	die "not in rose's words: $sql" if $sql =~ /\b(?:CREATE|ALTER|DROP)\s+SUBSCRIPTION\b/i;
	return $sql;
}

sub subscribes { return $_[0]->name =~ /^(?!.*publisher).*subscriber|^node_C$/ }

# ---------------------------------------------------------------------
# In the place of PostgreSQL's methods
# ---------------------------------------------------------------------

no warnings 'redefine';

my $psql = \&PostgreSQL::Test::Cluster::psql;
*PostgreSQL::Test::Cluster::psql = sub {
	my ($self, $dbname, $sql, @rest) = @_;
	@_ = ($self, $dbname, subscribes($self) ? rewrite($sql) : $sql, @rest);
	goto &$psql;
};

my $poll_query_until = \&PostgreSQL::Test::Cluster::poll_query_until;
*PostgreSQL::Test::Cluster::poll_query_until = sub {
	my ($self, $dbname, $query, @rest) = @_;
	@_ = ($self, $dbname, subscribes($self) ? rewrite($query) : $query, @rest);
	goto &$poll_query_until;
};

# A copy that failed is tried again after some seconds, so an error is not the end.
*PostgreSQL::Test::Cluster::wait_for_subscription_sync = sub {
	my ($self, $publisher, $subname, $dbname) = @_;
	my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
	my ($status, $stderr);

	do
	{
		($status, undef, $stderr) = $self->psql($dbname // 'postgres',
			"SELECT rose.wait_for_sync(subname, $PostgreSQL::Test::Utils::timeout_default) FROM rose.subscription");
		usleep(100_000) if $status != 0;
	} while ($status != 0 && time < $deadline);
	if ($status != 0)
	{
		my (undef, $errors) = $self->psql($dbname // 'postgres', "SELECT relname, state, last_error FROM rose.stat_subscription_tables");
		die "the tables of " . $self->name . " are not copied: $stderr\n$errors\n";
	}
	$publisher->wait_for_catchup($subname) if defined $publisher;
};

# A subscription has several connections of its name, of which one streams.
my $wait_for_catchup = \&PostgreSQL::Test::Cluster::wait_for_catchup;
*PostgreSQL::Test::Cluster::wait_for_catchup = sub {
	my ($self, $name, $mode, $lsn) = @_;
	goto &$wait_for_catchup if ref $name;
	$mode //= 'replay';
	$lsn //= $self->lsn('write');
	$self->poll_query_until('postgres', qq{SELECT bool_or('$lsn' <= ${mode}_lsn) FROM pg_stat_replication
		WHERE application_name = '$name' AND state = 'streaming'}) or die "$name has not caught up with $lsn";
};

1;
