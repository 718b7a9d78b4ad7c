
# pg_upgrade with rose's tables, to another cluster of the same release or, with NEW_PG_CONFIG, of
# another one. There rose must be installed already.
package RoseUpgrade;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(upgrade_source upgrade_target upgrade);

# A cluster to upgrade, not started. Settings may follow.
sub upgrade_source
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 'logical', extra => $params{checksums} ? ['--data-checksums'] : no_checksums($node));
	configure($node, %params);
	return $node;
}

# The cluster that it shall become, not started, with checksums if the other one has them.
sub upgrade_target
{
	my ($name, $source, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, install_path());

	$node->init(allows_streaming => 'logical', extra => has_checksums($source) ? ['--data-checksums'] : no_checksums($node));
	configure($node, %params);
	return $node;
}

# Both must be stopped. True if it worked.
sub upgrade
{
	my ($source, $target, $mode) = @_;
	my $result = $target->run_log([
		$target->installed_command('pg_upgrade'), '--no-sync', '-d', $source->data_dir, '-D', $target->data_dir,
		'-b', bindir($source), '-B', bindir($target), '-s', $target->host, '-p', $source->port, '-P', $target->port,
		$mode eq 'link' ? '--link' : () ]);

	diag(`grep -rhE " ERROR:|pg_restore: error|^Checking|[Ff]atal" ${\ $target->data_dir}/pg_upgrade_output.d`) if !$result;
	return $result;
}

sub configure
{
	my ($node, %params) = @_;

	# Stop points are built for one release only.
	$node->append_conf('postgresql.conf', "$_\n") foreach 'shared_preload_libraries = rose', @{ $params{settings} // [] };
	return;
}

# How PostgreSQL::Test::Cluster knows another release.
sub install_path
{
	my $bindir;

	return () if !$ENV{NEW_PG_CONFIG};
	$bindir = qx($ENV{NEW_PG_CONFIG} --bindir);
	chomp $bindir;
	my $libdir = qx($ENV{NEW_PG_CONFIG} --pkglibdir);
	chomp $libdir;
	die "rose is not installed for $ENV{NEW_PG_CONFIG}" if !-f "$libdir/rose.so";
	return (install_path => $bindir =~ s{/bin$}{}r);
}

sub bindir
{
	my ($node) = @_;

	return $node->config_data('--bindir');
}

sub has_checksums
{
	my ($node) = @_;
	my ($out) = run_command([ bindir($node) . '/pg_controldata', $node->data_dir ]);

	return $out =~ /^Data page checksum version: +[1-9]/m;
}

# From 18 on a cluster has checksums unless it is told.
sub no_checksums
{
	my ($node) = @_;

	return $node->pg_version >= 18 ? ['--no-data-checksums'] : [];
}

1;
