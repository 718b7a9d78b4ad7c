#!/usr/bin/perl
# The rules of the house, held against the sources: layers, order of includes, sizes, heads of files.
#
#	src/test/test_house.pl		from anywhere; prints TAP
#
# Levels are read from the table "Layers" of src/README.md, so that it stays true. Folders on one level
# do not know each other, and nobody knows a higher one: neither by an include nor by a function or
# variable that is declared elsewhere. What tests and generated files do is not looked at.
use strict;
use warnings;

use File::Basename qw(dirname);
use File::Find qw(find);
use Test::More;

my $src = dirname(__FILE__) . '/..';
my $max_lines = 800;
my $max_function = 60;

# ---- what there is ----

# A test that nothing is on the list, which names each of them if it fails.
sub none
{
	my ($list, $what) = @_;
	ok(@$list == 0, $what) or diag(join "\n", @$list);
}

sub slurp
{
	my $name = shift;
	open my $in, '<', $name or die "could not open $name: $!";
	local $/;
	return <$in>;
}

# The text without comments, strings and characters, lines kept.
sub bare
{
	my $text = shift;
	$text =~ s{(/\*.*?\*/)|("(?:\\.|[^"\\\n])*")|('(?:\\.|[^'\\\n])+')}{
		my $what = $&; my $lines = ($what =~ tr/\n//); ($what =~ /^\// ? ' ' : '0') . "\n" x $lines}gse;
	return $text;
}

my %text;
find({ no_chdir => 1, wanted => sub {
	my $name = $_;
	return unless -f $name && $name =~ /\.[ch]$/;
	$name =~ s{^\Q$src\E/}{};
	$text{$name} = slurp("$src/$name") unless $name =~ m{^test/};
} }, $src);

my %level;
for (split /\n/, slurp("$src/README.md"))
{
	next unless /^\| (\d+) \| ([^|]+) \|/;
	my ($number, $what) = ($1, $2);
	$level{ $_ } = $number foreach $what =~ /`([^`]+)`/g;
}

# The folder, or the file itself where the table names files.
sub level_of
{
	my $name = shift;
	return $level{$name} // $level{ dirname($name) };
}

sub folder_of
{
	my $name = shift;
	return exists $level{$name} ? '.' : dirname($name);
}

ok(scalar(keys %text) > 100, 'sources are found');
none([ grep { !defined level_of($_) && !defined level_of(s/\.h$/.c/r) } sort keys %text ], 'each source has a level');
none([ grep { !-e "$src/$_" } sort keys %level ], 'each level names what is there');

sub rank
{
	my $name = shift;
	return level_of($name) // level_of($name =~ s/\.h$/.c/r);
}

# May a know b?
sub may_know
{
	my ($from, $to) = @_;
	return 1 if folder_of($from) eq folder_of($to) || dirname($from) eq dirname($to);
	return rank($from) > rank($to);
}

# ---- includes ----

my @upward;
for my $name (sort keys %text)
{
	while ($text{$name} =~ /^#include "([^"]+)"/mg)
	{
		push @upward, "$name includes $1" if exists $text{$1} && !may_know($name, $1);
	}
}
none(\@upward, 'includes go down only');

# ---- the order of includes: PostgreSQL's base, what has to be first, the system, PostgreSQL, ours from below ----

# What an include sorts by.
sub place_of
{
	my ($quote, $what, $rest) = @_;
	return '0' if $what =~ /^(?:postgres|postgres_fe|c)\.h$/;
	return '1' if $rest =~ m{/\* first: see there \*/};
	return "2 $what" if $quote eq '<';
	return exists $text{$what} ? sprintf('4 %02d %s %s', rank($what), dirname($what), $what) : "3 $what";
}

my ($includes, @unordered) = (0);
for my $name (grep { !m{^compat/} } sort keys %text)
{
	my $last = '';
	while ($text{$name} =~ /^#include\s+([<"])([^>"]+)[>"](.*)$/mg)
	{
		my ($quote, $what, $rest) = ($1, $2, $3);
		my $place = place_of($quote, $what, $rest);
		push @unordered, "$name: $what" if $place lt $last;
		$last = $place;
		$includes++;
	}
}
cmp_ok($includes, '>', 1000, 'includes are found');
none(\@unordered, 'includes are in order: postgres.h, system, PostgreSQL, ours by level and name');

# ---- calls: names with our prefix that are defined in one file and used in another ----

my (%defined, %used);
for my $name (grep { /\.c$/ } sort keys %text)
{
	my $code = bare($text{$name});
	$defined{$1} = $name while $code =~ /^(rose_\w+)\(/mg;
	$defined{$1} = $name while $code =~ /^(?!static|extern|typedef|#)\w[\w \t*]*?\b(rose_\w+)(?: = |;|\[)/mg;
	$used{$name}{$1} = 1 while $code =~ /\b(rose_\w+)\b/g;
}
@upward = ();
for my $name (sort keys %used)
{
	for my $used (sort keys %{ $used{$name} })
	{
		my $where = $defined{$used};
		push @upward, "$name uses $used of $where" if defined $where && !may_know($name, $where);
	}
}
cmp_ok(scalar(keys %defined), '>', 500, 'functions are found');
none(\@upward, 'calls go down only');

# ---- C0 is closed: its locks and fields are for its own folder ----

my @inside;
for my $name (grep { !m{^memtable/} } sort keys %text)
{
	my $code = bare($text{$name});
	push @inside, "$name: $1" while $code =~ /\b(write_lock|rose_readers_(?:enter|leave|wait))\b/g;
	push @inside, "$name: $1" while $code =~ /\bc0\s*(?:->|\.)\s*(\w+)/g;
}
like(bare($text{'memtable/rose_c0.h'}), qr/\bwrite_lock\b.*\brose_readers_enter\b/s, "C0's locks are found");
none(\@inside, "C0's locks and fields are used in memtable only");

my @marks;
for my $name (grep { !m{^memtable/} } sort keys %text)
{
	my $code = bare($text{$name});
	push @marks, "$name: $1"
	  while $code =~ m{(rose_arena_total_bytes\(\)\s*(?:\*|/(?!\s*1024\b))|rose_arena_used_bytes\(\)\s*[<>])}g;
}
like($text{'memtable/rose_pressure.h'}, qr/ROSE_MARK_\w+ = \d/, 'watermarks of memory are found');
none(\@marks, 'watermarks of memory are in memtable/rose_pressure.h only');

# ---- sizes and heads ----

my (@long, @functions, @heads, @versions);
for my $name (sort keys %text)
{
	my $lines = ($text{$name} =~ tr/\n//);
	my ($base) = $name =~ m{([^/]+)$};

	push @long, "$name: $lines lines" if $lines > $max_lines;
	push @heads, $name unless $text{$name} =~ m{\A/\*-+\n \*\n \* \Q$base\E\n \*\t  \S};
	push @versions, $name if $name !~ m{^compat/} && bare($text{$name}) =~ /\bPG_VERSION_NUM\b/;

	next unless $name =~ /\.c$/;
	my ($started, $what, $number) = (0, '', 0);
	for (split /\n/, $text{$name})
	{
		$number++;
		$what = $1 if /^(\w+)\(/;
		$started = $number if $_ eq '{';
		push @functions, "$name: $what has " . ($number - $started - 1) . " lines"
		  if $_ eq '}' && $started > 0 && $number - $started - 1 > $max_function;
		$started = 0 if $_ eq '}';
	}
}
none(\@long, "no file has more than $max_lines lines");
none(\@functions, "no function has more than $max_function lines");
none(\@heads, 'each file says at its top what it is');
none(\@versions, 'releases of PostgreSQL are told apart in compat only');

done_testing();
