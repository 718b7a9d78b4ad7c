#!/usr/bin/perl
# Do the files by which rose is packaged agree? Prints TAP.
#
#	src/test/test_package.pl		from anywhere
#
# rose.control, the scripts of the extension, the Makefile, the library and CHANGELOG.md.
use strict;
use warnings;

use Digest::SHA;
use File::Basename qw(basename dirname);
use Test::More;

my $root = dirname(__FILE__) . '/../..';

# A script is frozen when its version has been released: databases have what it said then. What comes later is for the
# next update script.
my %frozen = ('rose--1.0.sql' => '66507a06272671c9378394cdacbf855712b06f8e09cd67b38c625856f8872a2d');

sub slurp
{
	my $name = shift;
	open my $in, '<:raw', "$root/$name" or return '';
	local $/;
	return scalar <$in>;
}

sub first_match
{
	my ($name, $pattern) = @_;
	return slurp($name) =~ $pattern ? $1 : "(nothing in $name)";
}

# ---- the extension ----

my $release = first_match('rose.control', qr/^default_version = '([^']+)'$/m);
my @scripts = sort map { basename($_) } glob "$root/rose--*.sql";

like($release, qr/^\d+\.\d+$/, 'rose.control names a version');
is(first_match('src/util/rose_release.h', qr/^#define ROSE_RELEASE\s+"([^"]+)"$/m), $release, 'the library has its version');
is(join(' ', sort split ' ', first_match('Makefile', qr/^DATA = (.*)$/m)), "@scripts", 'the Makefile installs all scripts, and no other');

# Which versions can be had, by scripts that make one or lead from one to another.
my %reached = map { /^rose--([\d.]+)\.sql$/ ? ($1 => 1) : () } @scripts;
my @steps = map { /^rose--([\d.]+)--([\d.]+)\.sql$/ ? [ $1, $2 ] : () } @scripts;
is(scalar(keys %reached) + @steps, scalar @scripts, 'each script has a name that PostgreSQL knows');
foreach (@steps)
{
	$reached{ $_->[1] } = 1 foreach grep { $reached{ $_->[0] } } @steps;
}
ok($reached{$release}, "scripts lead to version $release");

foreach my $script (@scripts)
{
	my $text = slurp($script);
	like($text, qr{\A/\* \Q$script\E \*/\n}, "$script says its name");
	like($text, qr/^\\echo Use "(?:CREATE|ALTER) EXTENSION rose.*\\quit$/m, "$script is not for psql");
	next unless $script =~ /--([\d.]+)--([\d.]+)\.sql$/;
	my ($major, $minor) = split /\./, $2;
	like($text, qr/UPDATE TO '\Q$2\E'"/, "$script says where it leads");
	like($text, qr/'rose\.version', true.*'\{$major,$minor\}'/s, "$script asks for the library of its version");
}
is(Digest::SHA->new(256)->add(slurp($_))->hexdigest, $frozen{$_}, "$_ is frozen") foreach sort keys %frozen;

# ---- for people ----

like(slurp('CHANGELOG.md'), qr/^## \[\Q$release\E\]/m, 'CHANGELOG.md has a section for the version');

done_testing();
