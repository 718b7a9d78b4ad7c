#!/usr/bin/perl
# Lay the sources out as PostgreSQL's are: pgindent over what git knows of src.
#
#	src/tools/indent.pl			all files
#	src/tools/indent.pl FILE ...		these
#
# PGINDENT_DIR  the folder src/tools/pgindent of PostgreSQL's sources, with its typedefs.list; pg_bsd_indent
#               is looked for there and in PATH
#
# pgindent has to be told which names are types. Ours are read from the sources and kept in typedefs.list
# beside this program, so that others can use it with their own tools. Comments keep their lines: pgindent
# would flow them into one another, tables and all. So they are marked as ones that it leaves alone while it runs.
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);

my $tools = abs_path(dirname(__FILE__));
my $pgindent = $ENV{PGINDENT_DIR} // '';
my $mark = '/*-@@';
die "set PGINDENT_DIR to src/tools/pgindent of PostgreSQL's sources\n" if !-f "$pgindent/pgindent";
$pgindent = abs_path($pgindent);
$ENV{PATH} = "$pgindent:$ENV{PATH}";

sub slurp
{
	my $name = shift;
	open my $in, '<', $name or die "could not open $name: $!\n";
	local $/;
	return <$in>;
}

sub spill
{
	my ($name, $text) = @_;
	open my $out, '>', $name or die "could not write $name: $!\n";
	print $out $text;
	close $out or die "could not write $name: $!\n";
}

# Whatever a typedef declares: "typedef struct X", "} X;", "typedef bool (*X) (...)", "typedef int X;".
sub types_of
{
	my $text = shift;
	$text =~ s{/\*.*?\*/}{ }gs;
	my %types;
	$types{$1} = 1 while $text =~ /^typedef\s+(?:struct|union|enum)\s+(\w+)/mg;
	$types{$1} = 1 while $text =~ /^typedef\s+(?:struct|union|enum)\b[^;]*?\n\{.*?^\}[\s\w()]*?(\w+);/msg;
	$types{$1} = 1 while $text =~ /^typedef\b[^;{]*?\(\s*\*\s*(\w+)\s*\)/mg;
	$types{$1} = 1 while $text =~ /^typedef\b[^;{(]*?(\w+)(?:\[\w*\])?;/mg;
	return keys %types;
}

chdir "$tools/../.." or die "could not enter the sources: $!\n";
my @all = grep { /\.[ch]$/ && -f } split /\n/, `git ls-files --cached --others --exclude-standard src`;
my @files = @ARGV ? @ARGV : @all;

my %ours = map { $_ => 1 } map { types_of(slurp($_)) } @all;
$ours{$_} = 1 foreach qw(int64_t uint64_t);
spill("$tools/typedefs.list", join '', map { "$_\n" } sort keys %ours);
my $dir = tempdir(CLEANUP => 1);
spill("$dir/typedefs.list", slurp("$pgindent/typedefs.list") . slurp("$tools/typedefs.list"));

for my $file (@files)
{
	my $text = slurp($file);
	$text =~ s{("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')|/\*}{ $1 // $mark }ge;
	$text =~ s/(\(\w+(?: \*)?\)) \{([^{}\n]*)\}/$1 LITERAL__($2)/g;	# it does not know compound literals
	spill($file, $text);
}
@files = map { abs_path($_) } @files;
chdir $dir or die "could not enter $dir: $!\n";	# pgindent writes where it is
my $failed = system('perl', "$pgindent/pgindent", "--typedefs=$dir/typedefs.list", @files);
chdir $tools;
for my $file (@files)
{
	my $text = slurp($file) =~ s{\Q$mark\E}{/*}gr;
	$text =~ s/(\(\w+(?: \*)?\)) LITERAL__(\((?:[^()\n]|(?2))*\))/"$1 {" . substr($2, 1, -1) . '}'/ge;
	$text =~ s/,(\.\w+ = )/, $1/g;	# members of initialisers
	spill($file, $text);
}
exit($failed ? 1 : 0);
