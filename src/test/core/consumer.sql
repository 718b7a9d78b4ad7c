-- Subscriptions of rose by the names of PostgreSQL's catalogs, for RoseConsumer.pm. Read by a
-- server in single-user mode: a command ends with a semicolon and an empty line.

CREATE SCHEMA core_consumer;

CREATE VIEW core_consumer.pg_subscription AS
SELECT subid AS oid, subname, enabled AS subenabled, 'e'::"char" AS subtwophasestate
FROM rose.subscription;

CREATE VIEW core_consumer.pg_subscription_rel AS
SELECT subid AS srsubid, relid::oid AS srrelid,
	(CASE state WHEN 'init' THEN 'i' WHEN 'copying' THEN 'd' WHEN 'error' THEN 'd' WHEN 'copied' THEN 'f' ELSE 'r' END)::"char" AS srsubstate
FROM rose.subscription_rel;

CREATE VIEW core_consumer.pg_stat_subscription AS
SELECT subid, subname, pid, NULL::oid AS relid
FROM rose.stat_subscription;
