-- What the functions and views of monitoring say of tables, and to whom.
SELECT p.oid::regprocedure FROM pg_proc p
 WHERE pronamespace = 'rose'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL;
SELECT c.oid::regclass FROM pg_class c
 WHERE relnamespace = 'rose'::regnamespace AND relkind IN ('r', 'v') AND obj_description(oid, 'pg_class') IS NULL;

-- columns, called and typed as in PostgreSQL's own views
\a\t
SELECT c.relname || ': ' || string_agg(attname, ' ' ORDER BY attnum) AS columns
  FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid
 WHERE relnamespace = 'rose'::regnamespace AND relkind = 'v' AND attnum > 0
 GROUP BY c.relname ORDER BY 1;
SELECT DISTINCT o.attrelid::regclass, o.attname, o.atttypid::regtype, t.atttypid::regtype
  FROM pg_class c JOIN pg_attribute o ON o.attrelid = c.oid
  JOIN pg_attribute t ON t.attname = o.attname AND t.atttypid <> o.atttypid AND t.attnum > 0
 WHERE relnamespace = 'rose'::regnamespace AND relkind = 'v' AND o.attnum > 0
   AND t.attrelid IN ('pg_stat_activity'::regclass, 'pg_stat_subscription'::regclass, 'pg_stat_user_tables'::regclass,
                      'pg_stat_progress_vacuum'::regclass);
\a\t

-- all kinds of relations with rows
CREATE TABLE seen (id int PRIMARY KEY, v int) USING rose;
CREATE UNLOGGED TABLE seen_unlogged (id int PRIMARY KEY) USING rose;
CREATE MATERIALIZED VIEW seen_view USING rose AS SELECT generate_series(1, 3) AS id;
INSERT INTO seen VALUES (1, 1), (2, 2);
INSERT INTO seen_unlogged VALUES (1);
SELECT relname, sum(rows) FROM rose.stat_components WHERE relname ~ '^seen' GROUP BY 1 ORDER BY relname;
SELECT relname, file_bytes > 0 AS file FROM rose.stat_space WHERE relname ~ '^seen' ORDER BY relname;
SELECT relname, runs FROM rose.stat_merge_progress WHERE relname ~ '^seen' ORDER BY relname;

-- newest first
UPDATE seen SET v = 3;
SELECT rose.spill('seen');
INSERT INTO seen VALUES (3, 3);
SELECT rose.spill('seen');
INSERT INTO seen VALUES (4, 4);
SELECT kind, rows FROM rose.components('seen');

-- other things, and things that are not there any more
CREATE TABLE not_seen (id int) USING heap;
SELECT * FROM rose.components('not_seen');
SELECT * FROM rose.space('seen_pkey');
SELECT * FROM rose.components(1);
SELECT * FROM rose.components(NULL);
SELECT rose.spill(1);

-- rights
CREATE ROLE regress_rose_reader;
SET ROLE regress_rose_reader;
SELECT * FROM rose.stat_components WHERE relname ~ '^seen';
SELECT * FROM rose.components('seen');
SELECT * FROM rose.space('seen');
SELECT * FROM rose.merge_progress('seen');
SELECT rose.detach('seen');
SELECT conninfo FROM rose.subscription;
SELECT count(*) FROM rose.stat_subscription;
SELECT total_bytes > 0 AS memory FROM rose.stat_memory;
RESET ROLE;
GRANT SELECT ON seen TO regress_rose_reader;
SET ROLE regress_rose_reader;
SELECT kind, rows FROM rose.stat_components WHERE relname ~ '^seen';
RESET ROLE;
REVOKE ALL ON seen FROM regress_rose_reader;
DROP ROLE regress_rose_reader;

-- VACUUM tells
CREATE TABLE empty (id int PRIMARY KEY) USING rose;
VACUUM (VERBOSE) empty;

DROP MATERIALIZED VIEW seen_view;
DROP TABLE seen, seen_unlogged, not_seen, empty;
