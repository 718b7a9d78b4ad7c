# One of PostgreSQL's own TAP files, with edits of a list.
#
#   perl edit.pl LIST FILE >EDITED
#
# An edit of the list begins with "@ NAMES: REASON", the names of the files that it is for.
# "-" lines follow, the text that is replaced wherever it stands in the file, and "+" lines,
# what stands there instead.  "-..." is any text, as short as can be, over lines.  Fails if
# an edit finds nothing to replace: then PostgreSQL's file is another one, or an earlier
# edit has been there.
use strict;
use warnings;

sub slurp
{
	my ($name) = @_;

	open my $file, '<', $name or die "$name: $!";
	local $/;
	return <$file>;
}

# The list's edits for a file: pairs of an expression and its replacement.
sub edits_for
{
	my ($list, $name) = @_;
	my @edits;

	for my $block (split /^(?=@ )/m, slurp($list))
	{
		next unless $block =~ /^@ ([\w ]+): /;
		next unless grep { $_ eq $name } split ' ', $1;
		my @old = $block =~ /^-(.*)$/mg;
		my @new = $block =~ /^\+(.*)$/mg;
		my $old = join '', map { $_ eq '...' ? '(?s:.*?)' : quotemeta($_) . '\n' } @old;
		$old =~ s/\\n\z//;
		push @edits, [ qr/$old/, join("\n", @new) ];
	}
	return @edits;
}

my ($list, $file) = @ARGV;
my ($name) = $file =~ m{([^/]+)\.pl$};
my $text = slurp($file);

for my $edit (edits_for($list, $name))
{
	my ($old, $new) = @$edit;
	$text =~ s/$old/$new/g or die "$name: nothing to replace by the edit of $old\n";
}
print $text;
