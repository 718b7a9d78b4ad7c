#!/usr/bin/perl
# The rules of the house, held against the sources: layers, order of includes, circles, sizes, heads of files.
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

# ---- names of headers: guards are made of them, so of two of one name a file that needs both would get one ----

my (%headers, @twice);

foreach my $name (grep { /\.h$/ } sort keys %text)
{
	my $base = $name =~ s{.*/}{}r;

	push @twice, "$name and $headers{$base}" if exists $headers{$base};
	$headers{$base} = $name;
}
none(\@twice, 'headers have names of their own');

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

my (%defined, %function, %used);
for my $name (grep { /\.c$/ } sort keys %text)
{
	my $code = bare($text{$name});
	$defined{$1} = $function{$1} = $name while $code =~ /^(rose_\w+)\(/mg;
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

# ---- circles: files that call each other, directly or through others ----

# What is inline in a header counts for the file that the header belongs to.
sub home_of
{
	my $name = shift;
	my $source = $name =~ s/\.h$/.c/r;
	return exists $text{$source} ? $source : $name;
}

# Which others each file calls functions of.
my (%inline, %calls);
for my $name (grep { /\.h$/ } sort keys %text)
{
	my $code = bare($text{$name}) =~ s/^extern\b[^;]*;//mgr;
	$inline{$name} = $code;
	$function{$1} = home_of($name) while $code =~ /^(rose_\w+)\(/mg;
}
for my $name (sort keys %text)
{
	my $code = $inline{$name} // bare($text{$name});
	while ($code =~ /\b(rose_\w+)\b/g)
	{
		my $other = $function{$1};
		$calls{ home_of($name) }{$other} = 1 if defined $other && $other ne home_of($name);
	}
}
$calls{$_} = [ sort keys %{ $calls{$_} } ] foreach keys %calls;

# Groups of files each of which leads to each other one (Tarjan's algorithm).
sub circles
{
	my (%number, %low, %waiting, @waiting, @found);
	my $visit;
	$visit = sub {
		my $name = shift;
		$number{$name} = $low{$name} = keys %number;
		push @waiting, $name;
		$waiting{$name} = 1;
		for my $next (@{ $calls{$name} // [] })
		{
			if (!exists $number{$next})
			{
				$visit->($next);
				$low{$name} = $low{$next} if $low{$next} < $low{$name};
			}
			elsif ($waiting{$next})
			{
				$low{$name} = $number{$next} if $number{$next} < $low{$name};
			}
		}
		return if $low{$name} != $number{$name};
		my @group;
		do { push @group, pop @waiting; delete $waiting{ $group[-1] } } until $group[-1] eq $name;
		push @found, [ sort @group ] if @group > 1;
	};
	for my $name (sort keys %calls)
	{
		$visit->($name) if !exists $number{$name};
	}
	return @found;
}

# Those that there are, each in one folder. They are to become fewer: take one off the list that is gone.
my %known = map { $_ => 1 } (
	'lsm/merge: rose_spill.c rose_tidy.c',
	'lsm/read: rose_scan.c rose_stretch.c rose_weave.c',
	'lsm/read: rose_tid.c rose_tid_base.c',
	'lsm/snapshot: rose_declared.c rose_declared_live.c rose_serial.c rose_visibility.c',
	'memtable: rose_arena.c rose_pressure.h',
	'memtable: rose_c0.c rose_mem_cursor.c',
	'memtable: rose_memahead.c rose_memlist.c rose_memtree.c',
	'page: rose_page_append.c rose_page_build.c rose_page_plan.c',
	'repl: rose_apply.c rose_batch.c rose_copies.c rose_copy_worker.c rose_epoch.c rose_flight.c rose_relmap.c rose_repl_internal.h'
	  . ' rose_repl_locks.c rose_repl_serve.c rose_repl_worker.c rose_stream.c rose_table_error.c rose_truncated.c rose_upstream_identity.c',
	'store: rose_manifest.c rose_settled.c',
	'util: rose_key.c rose_schema.c');
my (@between, %within);
for my $group (circles())
{
	my %folders = map { folder_of($_) => 1 } @$group;
	if (keys %folders > 1)
	{
		push @between, "@$group";
		next;
	}
	$within{ folder_of($group->[0]) . ': ' . join(' ', map { m{([^/]+)$} } @$group) } = 1;
}
cmp_ok(scalar(map { @$_ } values %calls), '>', 500, 'calls between files are found');
none(\@between, 'no circle of calls between files of different folders');
none([ grep { !$known{$_} } sort keys %within ], 'no new circle of calls between files of one folder');
none([ grep { !$within{$_} } sort keys %known ], 'circles that have gone are off the list');

# ---- headers that are for their own folder only ----

my (@foreign, $own_headers);
for my $header (grep { /\.h$/ } sort keys %text)
{
	my ($head) = $text{$header} =~ m{\A/\*(.*?)\*/}s;
	next unless $header =~ /_internal\.h$/ || $head =~ /for this[\s*]+folder[\s*]+only|for page\/ only|not for other[\s*]+folders/i;
	$own_headers++;
	for my $name (grep { dirname($_) ne dirname($header) } sort keys %text)
	{
		push @foreign, "$name includes $header" if $text{$name} =~ /^#include "\Q$header\E"/m;
	}
}
cmp_ok($own_headers, '>', 20, 'headers for one folder are found');
none(\@foreign, 'headers for one folder are included there only');

# ---- what the READMEs list ----

my @unlisted;
for my $readme (sort grep { -e "$src/$_" } map { "$_/README.md" } keys %level)
{
	my $listed = slurp("$src/$readme");
	for my $name (grep { /\.c$/ && dirname($_) eq dirname($readme) } sort keys %text)
	{
		my ($base) = $name =~ m{([^/]+)\.c$};
		push @unlisted, "$readme does not say what $base.c is for" if dirname($readme) ne 'lsm' && $listed !~ /\b$base\.c\b/;
	}
	while ($listed =~ /\b(rose_\w+\.[ch])\b/g)
	{
		my $what = $1;
		push @unlisted, "$readme names $what, which is not there" if !grep { m{(?:^|/)\Q$what\E$} } keys %text;
	}
}
none(\@unlisted, 'READMEs list the files beside them, and no others');

# ---- what users read: links lead somewhere, and nothing that they may set or call is left out ----

my %anchors;
my @pages = ("$src/../README.md", glob "$src/manual/*.md");

for my $page (@pages)
{
	for (slurp($page) =~ /^#+ (.*)$/mg)
	{
		(my $anchor = lc) =~ s/[^\w\- ]//g;
		$anchors{$page}{ $anchor =~ tr/ /-/r } = 1;
	}
}
my (@broken, $links);
for my $page (@pages)
{
	for my $link (slurp($page) =~ /\]\(([^)\s]+)\)/g)
	{
		next if $link =~ /^https?:/;
		my ($file, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
		my $target = $file eq '' ? $page : dirname($page) . "/$file";
		my ($same) = grep { -e $target && (stat $_)[1] == (stat $target)[1] } @pages;

		$links++;
		push @broken, "$page: $link" if !-e $target || (defined $anchor && !($same && $anchors{$same}{$anchor}));
	}
}
cmp_ok($links, '>', 20, 'links of README and manual are found');
none(\@broken, '... and lead somewhere');

my $manual = join "\n", map { slurp($_) } @pages;
my @settings = map { my $code = slurp("$src/$_"); $code =~ /DefineCustom\w+Variable\("(rose\.\w+)"(?:(?!\);\n|GUC_NO_SHOW_ALL).)*\);\n/gs } keys %text;
my ($sql) = sort { $b cmp $a } glob "$src/../rose--1.?.sql";
my @views = grep { $_ ne 'rose.trees' } slurp($sql) =~ /^CREATE VIEW (rose\.\w+)/mg;	# what the others are made of
cmp_ok(scalar @settings, '>', 15, 'settings are found');
cmp_ok(scalar @views, '>', 8, 'views are found');
none([ grep { $manual !~ /\b\Q$_\E\b/ } @settings ], 'each setting is in the manual');
none([ grep { $manual !~ /\b\Q$_\E\b/ } @views ], 'each view is in the manual');

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

my @sections;
for my $name (grep { !m{^memtable/|^lsm/(?:tree|read|merge|write)/} } sort keys %text)
{
	my $code = bare($text{$name});
	push @sections, "$name: $1" while $code =~ /\b(rose_c0_(?:read|write)_\w+)\b/g;
}
none(\@sections, 'sections of C0 are begun in tree, read, merge and write only');

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
