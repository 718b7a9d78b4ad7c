# ALTER EXTENSION rose UPDATE: in a database with the extension of 1.0, tables, rows, a subscription, and what users have made of its
# objects. Before it, everything of 1.0 works with today's library; after it, every object of the extension is as in a database
# where it was created new, and all that was there is still there. The library and the extension can also be of versions that
# do not go together: errors say so.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RoseTest;
use RoseUpgrade;
use Test::More;

plan skip_all => 'the stand-in is no extension' if $ENV{ROSE_STANDIN};

my $release = do {
	open my $in, '<', 'rose.control' or die "could not open rose.control: $!";
	join('', <$in>) =~ /^default_version = '(.*)'/m or die 'no version';
	$1;
};

# Everything that a catalog says of the extension's objects, without oids: the objects, what defines them, who may use
# them, comments, what they depend on.
my $description = <<'SQL';
SET search_path = '';
WITH member AS (
	SELECT classid, objid FROM pg_catalog.pg_depend
	WHERE refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = 'rose')),
relation AS (
	SELECT c.*, pg_catalog.acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner)::text AS default_acl FROM pg_catalog.pg_class c
	WHERE oid IN (SELECT objid FROM member WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass)
	OR oid IN (SELECT indexrelid FROM pg_catalog.pg_index i JOIN member ON i.indrelid = member.objid)),
facts (object, fact) AS (
	SELECT pg_catalog.pg_describe_object(classid, objid, 0), 'member' FROM member
	UNION ALL SELECT pg_catalog.pg_describe_object(classid, objid, 0), 'comment: ' || pg_catalog.obj_description(objid, classid::pg_catalog.regclass::text::name)
	FROM member
	UNION ALL SELECT pg_catalog.pg_describe_object(m.classid, m.objid, p.objsubid), 'initial privileges: ' || p.initprivs::text
	FROM member m JOIN pg_catalog.pg_init_privs p ON p.classoid = m.classid AND p.objoid = m.objid
	WHERE m.objid NOT IN (SELECT oid FROM relation WHERE p.initprivs::text = default_acl)
	UNION ALL SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid),
		'depends (' || d.deptype::text || ') on ' || pg_catalog.pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
	FROM pg_catalog.pg_depend d
	WHERE (d.classid, d.objid) IN (SELECT classid, objid FROM member)
	OR (d.classid, d.objid) IN (SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, oid FROM relation)
	OR (d.classid, d.objid) IN (SELECT 'pg_catalog.pg_rewrite'::pg_catalog.regclass, r.oid FROM pg_catalog.pg_rewrite r JOIN member ON r.ev_class = member.objid)
	UNION ALL SELECT p.oid::pg_catalog.regprocedure::text, f.fact FROM pg_catalog.pg_proc p,
		LATERAL (VALUES (pg_catalog.pg_get_functiondef(p.oid)), ('source: ' || prosrc), ('library: ' || probin),
			('privileges: ' || proacl::text), ('owner: ' || proowner::pg_catalog.regrole::text)) AS f (fact)
	WHERE p.oid IN (SELECT objid FROM member WHERE classid = 'pg_catalog.pg_proc'::pg_catalog.regclass)
	UNION ALL SELECT c.oid::pg_catalog.regclass::text, f.fact FROM relation c LEFT JOIN pg_catalog.pg_am a ON a.oid = c.relam,
		LATERAL (VALUES ('kind: ' || c.relkind::text || c.relpersistence::text), ('method: ' || a.amname), ('options: ' || c.reloptions::text),
			('privileges: ' || coalesce(c.relacl::text, default_acl)), ('owner: ' || c.relowner::pg_catalog.regrole::text),
			('query: ' || CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.pg_get_viewdef(c.oid) END),
			('index: ' || CASE WHEN c.relkind = 'i' THEN pg_catalog.pg_get_indexdef(c.oid) END)) AS f (fact)
	UNION ALL SELECT c.oid::pg_catalog.regclass::text, pg_catalog.format('column %s: %s %s storage %s not null %s privileges %s options %s comment %s',
		attnum, attname, pg_catalog.format_type(atttypid, atttypmod), attstorage, attnotnull, attacl,
		-- some builds of the server number each column when it is made
		(SELECT pg_catalog.array_agg(o) FROM pg_catalog.unnest(attoptions) o WHERE NOT pg_catalog.starts_with(o, 'pg_attver=')),
		pg_catalog.col_description(c.oid, attnum))
	FROM relation c JOIN pg_catalog.pg_attribute ON attrelid = c.oid AND attnum > 0
	UNION ALL SELECT seqrelid::pg_catalog.regclass::text,
		pg_catalog.format('sequence: %s %s %s %s %s %s %s', seqtypid::pg_catalog.regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle)
	FROM pg_catalog.pg_sequence WHERE seqrelid IN (SELECT oid FROM relation)
	UNION ALL SELECT t.oid::pg_catalog.regtype::text, pg_catalog.format('type: %s %s %s %s %s %s %s %s %s %s %s', typtype, typlen, typbyval,
		typalign, typstorage, typinput, typoutput, typreceive, typcategory, typacl, typowner::pg_catalog.regrole)
	FROM pg_catalog.pg_type t WHERE t.oid IN (SELECT objid FROM member WHERE classid = 'pg_catalog.pg_type'::pg_catalog.regclass)
	UNION ALL SELECT 'access method ' || amname, pg_catalog.format('method: %s %s', amhandler, amtype)
	FROM pg_catalog.pg_am WHERE oid IN (SELECT objid FROM member WHERE classid = 'pg_catalog.pg_am'::pg_catalog.regclass)
	UNION ALL SELECT 'schema ' || nspname, pg_catalog.format('schema: %s %s', nspacl, nspowner::pg_catalog.regrole)
	FROM pg_catalog.pg_namespace WHERE nspname = 'rose'
	UNION ALL SELECT 'extension', pg_catalog.format('%s %s %s %s', extversion, extrelocatable, extnamespace::pg_catalog.regnamespace, extconfig)
	FROM pg_catalog.pg_extension WHERE extname = 'rose')
SELECT object || E'\t' || fact FROM facts WHERE fact IS NOT NULL ORDER BY object COLLATE "C", fact COLLATE "C"
SQL

sub describe { my ($node, $database) = @_; return $node->safe_psql($database, $description); }

# What differs, for people.
sub differences
{
	my ($got, $want) = @_;
	my %got = map { $_ => 1 } split /\n(?=[^\t\n]+\t)/, $got;
	my %want = map { $_ => 1 } split /\n(?=[^\t\n]+\t)/, $want;

	return join "\n", (map { "updated only: $_" } grep { !$want{$_} } sort keys %got), map { "new only: $_" } grep { !$got{$_} } sort keys %want;
}

sub same_objects
{
	my ($node, $database, $want, $what) = @_;
	my $got = describe($node, $database);

	ok($got eq $want, $what) or diag(differences($got, $want));
	return;
}

sub fails
{
	my ($node, $database, $sql, $message, $hint, $what) = @_;
	my ($status, $out, $err) = $node->psql($database, $sql, on_error_stop => 1);

	isnt($status, 0, "$what: fails");
	like($err, $message, "$what: why");
	like($err, $hint, "$what: what to do");
	return;
}

my @settings = ("rose.spill_interval = '1h'", 'autovacuum = off', 'rose.max_merge_workers = 0');

# What a user of 1.0 has. The subscription has no upstream.
my $world = <<'SQL';
CREATE TABLE plain (id int PRIMARY KEY, v int) USING rose WITH (rose.filter_bits = 12);
INSERT INTO plain SELECT g, g FROM generate_series(1, 3000) g;
SELECT rose.merge('plain');
UPDATE plain SET v = 0 WHERE id % 5 = 0;
SELECT rose.set_options('plain', spill_interval => '2h');
CREATE TABLE keyless (a int, b text) USING rose;
INSERT INTO keyless SELECT g, 'b' || g FROM generate_series(1, 500) g;
SELECT rose.spill('keyless');
CREATE TABLE parted (id int, v int, PRIMARY KEY (id)) PARTITION BY HASH (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING rose;
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING rose;
INSERT INTO parted SELECT g, g FROM generate_series(1, 500) g;
CREATE INDEX plain_v ON plain (v);
SELECT rose.create_subscription('main', 'host=/nowhere', ARRAY['p'], connect => false);
CREATE VIEW mine AS SELECT relid, used_bytes FROM rose.stat_space, rose.stat_memory;
CREATE FUNCTION sizes() RETURNS SETOF rose.stat_space LANGUAGE sql AS 'SELECT * FROM rose.stat_space';
SQL
my @answers = (
	'SELECT count(*), sum(v) FROM plain', 'SELECT v FROM plain WHERE id = 10', 'SELECT count(*), min(b) FROM keyless',
	'SET enable_seqscan = off; SELECT count(*) FROM plain WHERE v = 0',
	'SELECT tableoid::regclass, count(*), sum(v) FROM parted GROUP BY 1 ORDER BY 1',
	"SELECT reloptions FROM pg_class WHERE relname = 'plain'",
	'SELECT subid, subname, owner::regrole, enabled, slot_name, publications, conninfo FROM rose.subscription',
	'SELECT subname, state FROM rose.stat_subscription',
	"SELECT relname, kind, rows FROM rose.stat_components WHERE relname NOT LIKE 'plain%' ORDER BY 1, 2, 3",
	'SELECT count(*) FROM mine', 'SELECT count(*) FROM sizes()',
	q{SELECT has_table_privilege('regress_rose_monitor', 'rose.stat_memory', 'SELECT WITH GRANT OPTION'),
		has_table_privilege('regress_rose_other', 'rose.stat_space', 'SELECT')});

sub answers { my ($node, $database) = @_; return join "\n", map { $node->safe_psql($database, $_) } @answers; }

# Everything that the extension has is called.
sub uses_all
{
	my ($node, $database, $what) = @_;
	my @views = split /\n/, $node->safe_psql($database,
		"SELECT oid::regclass FROM pg_class WHERE relnamespace = 'rose'::regnamespace AND relkind IN ('v', 'm') ORDER BY 1");

	foreach my $sql ((map { "SELECT * FROM $_" } @views),
		map({ "SELECT rose.$_('plain')" } qw(spill merge components space merge_progress)),
		'SELECT rose.memory(), rose.workers()',
		"SELECT rose.alter_subscription('main', enabled => false, synchronous_commit => 'on')",
		"SELECT rose.alter_subscription('main', enabled => false, synchronous_commit => 'off')",
		"SELECT rose.set_options('plain', codec_effort => 'high', reset => '{codec_effort}')")
	{
		my ($status, $out, $err) = $node->psql($database, $sql);

		is($err, '', "$what: $sql") if $status != 0 || $err ne '';
	}
	is($node->safe_psql($database, "SELECT count(*) FROM pg_class c, rose.check(c.oid) WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'rose')"),
		0, "$what: rose.check");
	return;
}

# ---- the update ----

my $node = upgrade_source('updated', settings => \@settings);
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE regress_rose_monitor; CREATE ROLE regress_rose_other');
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE template0") foreach qw(old new bystander);
$node->safe_psql('new', 'CREATE EXTENSION rose');
$node->safe_psql('old', "CREATE EXTENSION rose VERSION '1.0'");
is($node->safe_psql('postgres', 'SHOW rose.version'), $release, 'the library says which version it is');
is($node->safe_psql('new', "SELECT extversion FROM pg_extension WHERE extname = 'rose'"), $release, 'and that is what is created');
my $new = describe($node, 'new');
my $count = () = $new =~ /\tmember$/mg;
cmp_ok($count, '>', 30, 'objects are compared');
unlike($new, qr/\b(?:1\.0)\b/, 'nothing says 1.0');

my $undescribed = q{SELECT pg_describe_object(classid, objid, 0) FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'rose') AND obj_description(objid, classid::regclass::text::name) IS NULL
	AND NOT (classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t WHERE t.oid = objid AND (typrelid <> 0 OR typcategory = 'A')))};
is($node->safe_psql('new', $undescribed), '', 'each object has a comment');

$node->safe_psql('old', $world);
is($node->safe_psql('old', "SELECT extversion FROM pg_extension WHERE extname = 'rose'"), '1.0', 'an old extension');
isnt(describe($node, 'old'), $new, 'it is not as a new one');
my $want = answers($node, 'old');
uses_all($node, 'old', '1.0 with the library of today');
is(($node->psql('old', 'SELECT count(*) FROM rose.stat_components'))[0], 0, 'it goes on');
$want = answers($node, 'old');

# A session that has used everything before goes on with it.
my $session = RoseTest::Session->new($node, 'dbname=old');
$session->run('PREPARE p AS SELECT count(*) FROM rose.stat_components; PREPARE q AS SELECT v FROM plain WHERE id = $1; EXECUTE p; EXECUTE q (7); BEGIN; UPDATE plain SET v = -1 WHERE id = 7');
$node->safe_psql('old', 'ALTER EXTENSION rose UPDATE');
is($session->run('EXECUTE q (7); ROLLBACK; EXECUTE q (7); SELECT count(*) > 0 FROM rose.stat_components'), "-1\n7\nt", 'a session goes on across the update');
$session->end;

same_objects($node, 'old', $new, 'after the update each object is as in a new database');
is(answers($node, 'old'), $want, 'and all is there that was there');
uses_all($node, 'old', 'after the update');

# A user's privileges on the objects stay.
$node->safe_psql('bystander', "CREATE EXTENSION rose VERSION '1.0'; GRANT SELECT ON rose.stat_memory TO regress_rose_monitor WITH GRANT OPTION;"
	  . 'REVOKE SELECT ON rose.stat_space FROM PUBLIC; GRANT EXECUTE ON FUNCTION rose.drop_subscription(text, boolean) TO regress_rose_other');
my $rights = q{SELECT string_agg(relname || ' ' || relacl::text, ',' ORDER BY relname) FROM pg_class WHERE oid IN ('rose.stat_memory'::regclass, 'rose.stat_space'::regclass)
	UNION ALL SELECT proacl::text FROM pg_proc WHERE proname = 'drop_subscription'};
my $had = $node->safe_psql('bystander', $rights);
$node->safe_psql('bystander', 'ALTER EXTENSION rose UPDATE');
# Who may drop a subscription, the function asks itself since 1.1.
my ($owner) = $had =~ /\{(\w+)=X/;
is($node->safe_psql('bystander', $rights), $had =~ s/\}$/,=X\/$owner}/r, 'what was granted and revoked stays');

# A crash in the middle leaves the old one or the new one.
$node->safe_psql('postgres', 'CREATE DATABASE undone TEMPLATE template0');
$node->safe_psql('undone', "CREATE EXTENSION rose VERSION '1.0'");
my $old = describe($node, 'undone');
$node->safe_psql('undone', 'BEGIN; ALTER EXTENSION rose UPDATE; ROLLBACK');
same_objects($node, 'undone', $old, 'an update that is rolled back has changed nothing');
crash_and_restart($node);
is(answers($node, 'old'), $want, 'all is there after a crash');

# ---- versions that do not go together ----

# What a library returns may have columns that an older extension does not know, never the other way round.
$node->safe_psql('new', q{CREATE TABLE t (id int PRIMARY KEY) USING rose; INSERT INTO t VALUES (1);
	CREATE FUNCTION fewer(relation regclass, OUT kind text, OUT id bigint, OUT state text, OUT rows bigint) RETURNS SETOF record LANGUAGE c STRICT AS '$libdir/rose', 'rose_components';
	CREATE FUNCTION fewer_of_one(OUT total bigint, OUT used bigint) RETURNS record LANGUAGE c STRICT AS '$libdir/rose', 'rose_memory';
	CREATE FUNCTION more(OUT datid oid, OUT helper int, OUT state text, OUT pid int, OUT backend_start timestamptz, OUT relid oid, OUT spills bigint, OUT merges bigint,
		OUT last_error text, OUT last_error_time timestamptz, OUT last_error_relid oid, OUT later int, OUT last int) RETURNS SETOF record LANGUAGE c STRICT AS '$libdir/rose', 'rose_workers_of_databases';
	CREATE FUNCTION more_of_one(OUT a bigint, OUT b bigint, OUT c bigint, OUT d float8, OUT e bigint, OUT f int, OUT g bigint, OUT h bigint) RETURNS record LANGUAGE c STRICT AS '$libdir/rose', 'rose_memory'});
is($node->safe_psql('new', "SELECT kind, rows FROM fewer('t')"), 'memtable|1', 'a function of fewer columns');
is($node->safe_psql('new', 'SELECT total > 0 FROM fewer_of_one()'), 't', 'and one that returns one row');
$node->safe_psql('new', "UPDATE pg_extension SET extversion = '7.10' WHERE extname = 'rose'");
fails($node, 'new', 'SELECT * FROM more_of_one()', qr/declared with 8 columns, but this version of rose knows 7\nDETAIL:  The extension in this database has version 7\.10, the library version \Q$release\E\./,
	qr/HINT:  Install the library of version 7\.10, or a later one, and restart the server\./, 'a newer extension');
$node->safe_psql('new', "UPDATE pg_extension SET extversion = '0.99' WHERE extname = 'rose'");
fails($node, 'new', 'SELECT * FROM more_of_one()', qr/has version 0\.99, the library version/, qr/HINT:  Run ALTER EXTENSION rose UPDATE in this database\./, 'an older extension');
$node->safe_psql('new', "UPDATE pg_extension SET extversion = '$release' WHERE extname = 'rose'");
fails($node, 'new', 'SELECT * FROM more_of_one()', qr/declared with 8 columns/, qr/HINT:  It was made by another build of this version/, 'another build');

# The library that runs is older than what is installed: the script is run as that of a later version would be.
open my $in, '<', 'rose--1.0--1.1.sql' or die "could not open the script: $!";
my ($check) = join('', <$in>) =~ /^(DO \$\$\nDECLARE.*?^\$\$;|DO \$\$\nBEGIN.*?^\$\$;)/ms or die 'no check';
$node->safe_psql('postgres', $check);
(my $later = $check) =~ s/'\{1,1\}'/'{1,10}'/ or die 'no version to check';
my $restart = qr/HINT:  Restart the server, so that it loads the library that is installed now, and try again\./;
fails($node, 'postgres', $later, qr/the server runs a library of rose that is older/, $restart, 'an older library');
$later =~ s/'rose\.version'/'rose.none'/ or die;
fails($node, 'postgres', $later, qr/the server runs a library of rose that is older/, $restart, 'a library that does not say its version');
fails($node, 'postgres', "SET rose.version = '9'", qr/parameter "rose\.version" cannot be changed/, qr/ERROR/, 'the version');

# An extension of a build from before 1.0 was complete.
$node->safe_psql('undone', 'DROP EXTENSION rose CASCADE');
$node->safe_psql('undone', q{CREATE EXTENSION rose VERSION '1.0'; ALTER EXTENSION rose DROP VIEW rose.stat_merge_progress; DROP VIEW rose.stat_merge_progress;
	ALTER EXTENSION rose DROP FUNCTION rose.merge_progress(regclass); DROP FUNCTION rose.merge_progress(regclass);
	CREATE FUNCTION rose.merge_progress(relation regclass, OUT runs integer, OUT bytes bigint) RETURNS SETOF record LANGUAGE c STRICT AS '$libdir/rose', 'rose_merge_progress_of'});
fails($node, 'undone', 'ALTER EXTENSION rose UPDATE', qr/was made by a build from before version 1\.0 was complete/,
	qr/HINT:  Dump the database, and restore the dump into a new one\./, 'an unfinished extension');

# ---- an old database in a new cluster, and in a dump ----

# the subscription's slot is nowhere
$node->safe_psql('postgres', "DROP DATABASE $_") foreach qw(new bystander undone);
$node->safe_psql('postgres', "CREATE DATABASE old_too TEMPLATE template0");
$node->safe_psql('old_too', "CREATE EXTENSION rose VERSION '1.0'");
$node->safe_psql('old_too', $world);
my $want_too = answers($node, 'old_too');
my $dump = $node->basedir . '/dump.sql';
$node->run_log([ $node->installed_command('pg_dump'), '-f', $dump, $node->connstr('old_too') ]);
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->safe_psql('restored', "\\i $dump");
same_objects($node, 'restored', $new, 'a dump of an old database is restored with the new extension');
is($node->safe_psql('restored', 'SELECT count(*), sum(v) FROM plain'), $node->safe_psql('old_too', 'SELECT count(*), sum(v) FROM plain'), 'and has its rows');
$node->safe_psql('postgres', 'DROP DATABASE restored');
$node->stop;

my $target = upgrade_target('target', $node, settings => \@settings);
ok(upgrade($node, $target, 'copy'), 'pg_upgrade');
$target->start;
is($target->safe_psql('old_too', "SELECT extversion FROM pg_extension WHERE extname = 'rose'"), '1.0', 'pg_upgrade leaves the extension as it is');
$target->safe_psql('old_too', 'ALTER EXTENSION rose UPDATE');
$target->safe_psql('postgres', 'CREATE DATABASE new TEMPLATE template0');
$target->safe_psql('new', 'CREATE EXTENSION rose');
same_objects($target, 'old_too', describe($target, 'new'), 'after pg_upgrade and the update each object is as in a new database');
uses_all($target, 'old', 'after pg_upgrade');
$target->stop;

done_testing();
