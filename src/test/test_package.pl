#!/usr/bin/perl
# Do the files by which rose is packaged agree? Prints TAP.
#
#	src/test/test_package.pl		from anywhere
#
# rose.control, the scripts of the extension, the Makefile, the library, META.json (held against PGXN's specification of it),
# debian/, LICENSE and CHANGELOG.md. Builds nothing: package.sh does.
use strict;
use warnings;

use Digest::SHA;
use File::Basename qw(basename dirname);
use JSON::PP;
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
my @built = split ' ', first_match('Makefile', qr/^DATA_built = (.*)$/m);
my @scripts = sort grep { my $script = $_; !grep { $_ eq $script } @built } map { basename($_) } glob "$root/rose--*.sql";
my @controls = sort map { basename($_) } glob "$root/rose--*.control";

like($release, qr/^\d+\.\d+$/, 'rose.control names a version');
is(first_match('src/util/rose_release.h', qr/^#define ROSE_RELEASE\s+"([^"]+)"$/m), $release, 'the library has its version');
is(join(' ', sort split ' ', first_match('Makefile', qr/^DATA = (.*)$/m)), join(' ', sort @scripts, @controls), 'the Makefile installs all scripts, and no other');

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

# ---- PGXN ----

my $meta = eval { decode_json(slurp('META.json')) } // {};
is($@, '', 'META.json is JSON');

sub is_string { my $value = shift; return defined $value && !ref $value && $value =~ /\S/; }

my %license = map { $_ => 1 } qw(agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1 gpl_2 gpl_3
	lgpl_2_1 lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib open_source restricted unrestricted unknown);
my $semver = qr/^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/;
my %field = map { $_ => 1 } qw(name version abstract maintainer license provides meta-spec description generated_by tags no_index prereqs
	release_status resources);

ok(is_string($meta->{$_}), "META.json: $_") foreach qw(name version abstract maintainer description);
like($meta->{name}, qr{^[^/\\\s\p{Cntrl}]{2,}$}, 'META.json: the name can be that of a distribution');
ok($license{ $meta->{license} // '' }, 'META.json: the license has a name that PGXN knows');
is($meta->{'meta-spec'}{version}, '1.0.0', 'META.json: the version of the specification');
is(join(' ', grep { !$field{$_} && !/^[xX]_/ } sort keys %$meta), '', 'META.json: no field that the specification does not have');
ok((grep { $_ eq ($meta->{release_status} // '') } qw(stable testing unstable)), 'META.json: the status is one of three');
ok(@{ $meta->{tags} // [] } > 0 && !(grep { !is_string($_) || length > 255 || m{[/\\\p{Cntrl}]} } @{ $meta->{tags} }), 'META.json: tags');
like($meta->{version}, $semver, 'META.json: a semantic version');
is(join(' ', sort keys %{ $meta->{provides} // {} }), 'rose', 'META.json: it provides rose');
my $provided = $meta->{provides}{rose} // {};
is($provided->{version}, $meta->{version}, 'META.json: the extension has the version of the distribution');
like($provided->{version} // '', qr/^\Q$release\E\.\d+$/, 'META.json: which is that of rose.control');
ok(is_string($provided->{$_}) && -f "$root/$provided->{$_}", "META.json: $_ is there") foreach qw(file docfile);
my $least = $meta->{prereqs}{runtime}{requires}{PostgreSQL} // '';
like($least, $semver, 'META.json: the oldest release of PostgreSQL');

# ---- Debian ----

my ($package, $debian_version) = slurp('debian/changelog') =~ /\A(\S+) \((\S+)\) /;
my $control = slurp('debian/control');
my $template = slurp('debian/control.in');
my ($first) = slurp('debian/pgversions') =~ /^(\d+)\+$/m;

like($debian_version, qr/^\Q$release\E-\d+$/, 'debian/changelog has the version of rose.control');
like($control, qr/^Source: \Q$package\E$/m, 'debian/control and changelog are of one package');
is("$first.0.0", $least, 'debian/pgversions begins with the oldest release that META.json names');
is(first_match('debian/rules', qr/(pgxs_loop)/), 'pgxs_loop', 'debian/rules builds for each release');
ok(-x "$root/debian/rules", 'debian/rules can be run');

# What control.in says of one release, control says of those that there are.
my ($source, $binary) = split /\n\n/, $template, 2;
my ($source_now, @binaries) = split /\n\n/, $control;
is($source_now, $source, 'debian/control.in and control say the same of the source');
$binary =~ s/\n+\z//;
cmp_ok(scalar @binaries, '>', 0, 'debian/control has packages');
foreach (@binaries)
{
	my ($version) = /^Package: postgresql-(\d+)-rose$/m;
	s/\n+\z//;
	cmp_ok($version // 0, '>=', $first, 'a package of a release that rose supports');
	is($_, $binary =~ s/PGVERSION/$version/gr, "debian/control.in and control say the same of the package for $version");
}

# The license, word by word.
sub words { my $text = shift; $text =~ s/^ \.?//mg; return join ' ', split ' ', $text; }
my ($holder, $license) = slurp('LICENSE') =~ /^(Copyright.*?)$(.*)/ms;
my ($debian_license) = slurp('debian/copyright') =~ /^License: PostgreSQL\n((?: .*\n)+)/m;
is(words($debian_license // ''), words($license), 'debian/copyright has the license');
like(slurp('debian/copyright'), qr/\Q$1\E/, 'and whose it is') if $holder =~ /\(c\) (.*)/;

# ---- for people ----

like(slurp('CHANGELOG.md'), qr/^## \[\Q$release\E\]/m, 'CHANGELOG.md has a section for the version');

done_testing();
