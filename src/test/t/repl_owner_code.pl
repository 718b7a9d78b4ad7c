# Code that a table's owner attaches to it never runs with more rights than the owner has, in the
# initial copy, in the stream, in TRUNCATE and in a resync.
use strict;
use warnings;

use PostgreSQL::Test::Utils;
use RoseTest;
use Test::More;

plan skip_all => 'the stand-in applies changes in other ways' if $ENV{ROSE_STANDIN};

my $timeout = $PostgreSQL::Test::Utils::timeout_default;
my ($upstream, $replica) = upstream_and_replica();

sub up { return $upstream->safe_psql('postgres', $_[0]) }
sub down { return $replica->safe_psql('postgres', $_[0]) }

sub mallory
{
	my ($sql) = @_;

	return $replica->safe_psql('postgres', "SET client_min_messages = warning; $sql", extra_params => [ '-U', 'mallory' ]);
}

# What was called since the last look, and as whom.
sub calls { return down("WITH gone AS (DELETE FROM evil.log RETURNING *) SELECT string_agg(DISTINCT what || ' ' || who, ', ' ORDER BY what || ' ' || who) FROM gone") }

sub is_harmless
{
	my ($name, @what) = @_;

	is(calls(), join(', ', map { "$_ mallory" } @what), "$name: called as the owner");
	is(down("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), 'f', "$name: and the owner is no superuser");
	return;
}

down('CREATE ROLE mallory LOGIN; CREATE SCHEMA evil AUTHORIZATION mallory; GRANT CREATE ON SCHEMA public TO mallory');
mallory(<<'SQL');
CREATE TABLE evil.log (what text, who text, path text) USING heap;
CREATE FUNCTION evil.spy(what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	EXECUTE format('INSERT INTO evil.log VALUES (%L, current_user, current_setting(''search_path''))', what);
	PERFORM set_config('search_path', 'evil', false);
	BEGIN
		EXECUTE 'ALTER ROLE mallory SUPERUSER';
	EXCEPTION WHEN insufficient_privilege THEN NULL;
	END;
	BEGIN
		EXECUTE 'RESET ROLE; RESET SESSION AUTHORIZATION; ALTER ROLE mallory SUPERUSER';
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	RETURN true;
END $$;
ALTER FUNCTION evil.spy(text) VOLATILE;
CREATE FUNCTION evil.still_spy(what text, value anyelement) RETURNS anyelement LANGUAGE plpgsql IMMUTABLE AS
	$$ BEGIN PERFORM evil.spy(what); RETURN value; END $$;
CREATE FUNCTION evil.spy_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.spy('trigger'); RETURN NULL; END $$;
CREATE DOMAIN evil.number AS int CHECK (evil.spy('domain'));
CREATE DOMAIN evil.word AS text DEFAULT evil.still_spy('default', 'x'::text);
CREATE TYPE evil.pair AS (a int, b evil.number);
CREATE TABLE plain (id int PRIMARY KEY, v evil.number) USING rose;
CREATE TABLE nested (id int PRIMARY KEY, v evil.pair, w evil.number[]) USING rose;
CREATE TABLE checked (id int PRIMARY KEY, v int CHECK (evil.spy('check'))) USING rose;
CREATE TABLE computed (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (evil.still_spy('generated', v)) STORED) USING rose;
CREATE TABLE whole (id int, v int) PARTITION BY RANGE (evil.still_spy('bound', id));
CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (1000) USING rose;
CREATE TABLE emptied (id int PRIMARY KEY, v int) USING rose;
CREATE TRIGGER before_truncate BEFORE TRUNCATE ON emptied EXECUTE FUNCTION evil.spy_trigger();
CREATE TRIGGER after_truncate AFTER TRUNCATE ON emptied EXECUTE FUNCTION evil.spy_trigger();
ALTER TABLE emptied ENABLE ALWAYS TRIGGER before_truncate;
ALTER TABLE emptied ENABLE REPLICA TRIGGER after_truncate;
CREATE TABLE defaulted (id int PRIMARY KEY, w evil.word, e bool DEFAULT evil.spy('each')) USING rose;
SQL
down('DELETE FROM evil.log');

my @tables = qw(plain nested checked computed part emptied);
up(<<'SQL');
CREATE TYPE pair AS (a int, b int);
CREATE TABLE plain (id int PRIMARY KEY, v int);
CREATE TABLE nested (id int PRIMARY KEY, v pair, w int[]);
CREATE TABLE checked (id int PRIMARY KEY, v int);
CREATE TABLE computed (id int PRIMARY KEY, v int);
CREATE TABLE part (id int, v int);
CREATE TABLE emptied (id int PRIMARY KEY, v int);
CREATE TABLE defaulted (id int PRIMARY KEY);
SQL
sub change
{
	my ($id) = @_;

	up("INSERT INTO $_ VALUES ($id, 1), ($id + 1, 2)") foreach grep { $_ ne 'nested' } @tables;
	up("INSERT INTO nested VALUES ($id, (1, 2), '{1,2}'), ($id + 1, (3, 4), '{3,4}')");
	return;
}
my @all = qw(bound check domain generated);

# --- the initial copy
change(1);
up('CREATE PUBLICATION p FOR TABLE ' . join(', ', @tables));
subscribe($upstream, $replica);
is(down("SELECT string_agg(DISTINCT state, ' ') FROM rose.stat_subscription_tables"), 'ready', 'copied');
is(down("SELECT count(*) FROM evil.log WHERE what = 'check' AND path ~ 'evil'"), 0, 'settings that the code changes end with it, in the copy');
is_harmless('the initial copy', @all);

# --- the stream, in both formats
foreach my $format (qw(true false))
{
	down("SELECT rose.alter_subscription('s', binary => $format)");
	change($format eq 'true' ? 11 : 21);
	up('UPDATE plain SET v = 5 WHERE id = 1; UPDATE checked SET v = 5 WHERE id = 1; UPDATE computed SET v = v + 1');
	wait_for_apply($upstream, $replica);
	is(down("SELECT count(*) FROM evil.log WHERE what = 'check' AND path ~ 'evil'"), 0, "settings that the code changes end with it, in the stream, binary => $format");
	is_harmless("the stream, binary => $format", @all);
}
is(down('SELECT sum(v) - sum(w) FROM computed'), 0, 'what is computed is right');

# --- TRUNCATE, and a resync, which truncates
up('TRUNCATE emptied');
wait_for_apply($upstream, $replica);
is_harmless('TRUNCATE', 'trigger');
up('INSERT INTO emptied VALUES (1, 1)');
down("SELECT rose.alter_subscription('s', resync => 'emptied')");
down("SELECT rose.wait_for_sync('s', $timeout)");
is(calls(), '', 'a resync fires no trigger of TRUNCATE');
is(down('SELECT count(*) FROM emptied'), 1, 'copied again');
down('CREATE ROLE other; ALTER TABLE checked OWNER TO other; GRANT USAGE ON SCHEMA evil TO other; GRANT INSERT ON evil.log TO other');
up('INSERT INTO checked VALUES (100, 1)');
wait_for_apply($upstream, $replica);
is(calls(), 'check other', 'as the owner of then');
down('ALTER TABLE emptied DISABLE TRIGGER ALL; CREATE TRIGGER local_only BEFORE TRUNCATE ON checked EXECUTE FUNCTION evil.spy_trigger()');
up('TRUNCATE emptied, checked');
wait_for_apply($upstream, $replica);
is(down('SELECT (SELECT count(*) FROM emptied), (SELECT count(*) FROM checked)'), '0|0', 'tables of several owners, whose triggers do not fire on a replica');
is(calls(), '', 'and did not');
down('ALTER TABLE emptied ENABLE ALWAYS TRIGGER before_truncate');
up('TRUNCATE emptied, checked');
wait_for_apply($upstream, $replica);
is_harmless('tables of several owners, of which one has a trigger', 'trigger');

# --- defaults of columns that the upstream has not: one that comes with the type, and one that is called while it is planned
calls();
up('INSERT INTO defaulted VALUES (1); CREATE PUBLICATION p2 FOR TABLE defaulted');
down("SELECT rose.create_subscription('d', \$\$" . $upstream->connstr('postgres') . "\$\$, ARRAY['p2'])");
down("SELECT rose.wait_for_sync('d', $timeout)");
is_harmless('a default in a copy', 'default', 'each');
up('INSERT INTO defaulted VALUES (2), (3)');
wait_for_apply($upstream, $replica, 'postgres', 'd');
is_harmless('a default in the stream', 'default', 'each');
is(down('SELECT string_agg(id || w || e, \' \' ORDER BY id) FROM defaulted'), '1xtrue 2xtrue 3xtrue', 'and it is there');

$replica->stop;
$upstream->stop;
done_testing();
