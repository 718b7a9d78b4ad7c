# Unique indexes on text that follows settings cannot be made; older versions made them, and pg_upgrade brings them along. ON CONFLICT has core compute the
# value that it looks for, so a session with other settings would find no conflict for ever where there is one, or somebody else's row: it gets an error.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'heap looks for what it has written' if $ENV{ROSE_STANDIN};

my $node = rose_node('node', 'allow_system_table_mods = on', 'autovacuum = off');
my $hint = qr/store its expression in a generated column/;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# As an older version has made it.
sub old_unique
{
	my ($columns, $index) = @_;

	sql("DROP TABLE IF EXISTS t; CREATE TABLE t ($columns) USING rose; CREATE INDEX i ON t $index");
	sql("UPDATE pg_index SET indisunique = true WHERE indexrelid = 'i'::regclass");
	return;
}

sub error_with
{
	my ($settings, $statement) = @_;

	return error_of($node, "SET statement_timeout = '20s'; $settings; $statement");
}

# columns, index, a value, another one, a setting, not its default, what asks
foreach my $case (
	[ 'id int PRIMARY KEY, v float8', '((v::text))', '0.1::float8 + 0.2', '0.3', 'extra_float_digits', 0, 'ON CONFLICT ((v::text))' ],
	[ 'id int PRIMARY KEY, v float8', q{((v || 'x'))}, '0.1::float8 + 0.2', '0.3', 'extra_float_digits', -1, '' ],
	[ 'id int PRIMARY KEY, v bytea', '((v::text))', q{'\x61'}, q{'\x62'}, 'bytea_output', 'escape', 'ON CONFLICT ((v::text))' ],
	[ 'id int, v text', '(quote_ident(v))', q{'a'}, q{'b'}, 'quote_all_identifiers', 'on', 'ON CONFLICT (quote_ident(v))' ],
	[ 'id int PRIMARY KEY, v timestamptz', q{(age(v, '2020-02-29'::timestamptz))}, q{'2022-03-20 00:00+00'}, q{'2023-03-20 00:00+00'}, 'TimeZone', 'Europe/Berlin', '' ])
{
	my ($columns, $index, $value, $other, $setting, $deviating, $arbiter) = @$case;
	my $conflict = $arbiter || 'ON CONFLICT';

	old_unique($columns, $index);
	sql("SET TimeZone = 'UTC'; INSERT INTO t VALUES (1, $value)");
	is(sql("SET TimeZone = 'UTC'; INSERT INTO t VALUES (2, $value) $conflict DO NOTHING; INSERT INTO t VALUES (3, $other) $conflict DO NOTHING; SELECT string_agg(id::text, ' ' ORDER BY id) FROM t"), '1 3', "$index: conflicts are found with the defaults");
	foreach my $new ($value, $other)
	{
		my $err = error_with("SET $setting = '$deviating'", "INSERT INTO t VALUES (4, $new) $conflict DO NOTHING");

		like($err, qr/cannot look for conflicts in unique index "i".*defaults of: $setting\..*$hint/s, "$index: with $setting = $deviating nobody looks for $new in vain");
	}
	like(error_with("SET $setting = '$deviating'", "INSERT INTO t VALUES (4, $value)"), qr/duplicate key value/, "$index: an insertion without ON CONFLICT is refused as ever");
	is(sql('SELECT count(*) FROM t'), 2, "$index: nothing was written");
	sql("SET $setting = '$deviating'; DELETE FROM t WHERE id = 1");
	is(sql("SET TimeZone = 'UTC'; INSERT INTO t VALUES (5, $value) $conflict DO NOTHING; SELECT string_agg(id::text, ' ' ORDER BY id) FROM t"), '3 5', "$index: a row that somebody else deleted is in nobody's way");
}

# Where core looks for nothing, as the session makes NULL of the value, or leaves the row out of the index.
foreach my $index (q{((nullif(v::text, '0.3')))}, q{((v::text)) WHERE v::text <> '0.3'}, q{((v::text)) WHERE v::text = '0.3'})
{
	old_unique('id int PRIMARY KEY, v float8', $index);
	sql('INSERT INTO t VALUES (1, 0.1::float8 + 0.2)');
	unlike(error_with('SET extra_float_digits = 0', 'INSERT INTO t VALUES (2, 0.1::float8 + 0.2) ON CONFLICT DO NOTHING'), qr/statement timeout/, "$index: nobody looks without end");
}

# Others are asked as ever, whatever the settings.
sql("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v text) USING rose; CREATE UNIQUE INDEX ON t (lower(v)); INSERT INTO t VALUES (1, 'A')");
my $others = "SET extra_float_digits = 0; SET bytea_output = escape; SET quote_all_identifiers = on; SET TimeZone = 'Europe/Berlin';";
is(sql("$others INSERT INTO t VALUES (2, 'a') ON CONFLICT (lower(v)) DO UPDATE SET v = 'b'; INSERT INTO t VALUES (1, 'c') ON CONFLICT DO NOTHING; SELECT * FROM t"), '1|b', 'other expressions are looked for');

# An answer that is kept goes with the index.
is(sql("$others INSERT INTO t VALUES (3, 'd') ON CONFLICT (lower(v)) DO NOTHING; DROP INDEX t_lower_idx; CREATE UNIQUE INDEX ON t (upper(v)); INSERT INTO t VALUES (4, 'D') ON CONFLICT (upper(v)) DO NOTHING; SELECT count(*) FROM t"), 2, 'in one session with what was made anew');

done_testing();
