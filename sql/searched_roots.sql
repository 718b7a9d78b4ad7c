-- Lookups by integer keys, so many that the roots of components are searched as arrays: each key is found, and no other
SET default_table_access_method = rose;
CREATE TABLE sr (k int PRIMARY KEY, v text);
INSERT INTO sr SELECT i * 3, md5(i::text) FROM generate_series(-10000, 10000) i;
SELECT 1 FROM rose.spill('sr');
SELECT 1 FROM rose.merge('sr');
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT count(*), count(v) FROM generate_series(-30005, 30005) i LEFT JOIN sr ON k = i;
SELECT count(*), count(v), count(v) FILTER (WHERE v = md5((i / 3)::text)) FROM generate_series(-30005, 30005) i LEFT JOIN sr ON k = i;
-- while versions are added, moved and merged
UPDATE sr SET v = 'new' WHERE k % 2 = 0;
DELETE FROM sr WHERE k % 30 = 0;
SELECT count(*), count(v), count(v) FILTER (WHERE v = 'new') FROM generate_series(-30005, 30005) i LEFT JOIN sr ON k = i;
SELECT 1 FROM rose.spill('sr');
SELECT count(*), count(v), count(v) FILTER (WHERE v = 'new') FROM generate_series(-30005, 30005) i LEFT JOIN sr ON k = i;
SELECT 1 FROM rose.merge('sr');
SELECT count(*), count(v), count(v) FILTER (WHERE v = 'new') FROM generate_series(-30005, 30005) i LEFT JOIN sr ON k = i;
-- the ends of a type
CREATE TABLE sr8 (k bigint PRIMARY KEY, v text);
INSERT INTO sr8 SELECT CASE i WHEN 0 THEN -9223372036854775808 WHEN 5001 THEN 9223372036854775807 ELSE (i - 2500) * 3600000000000000 END, repeat(md5(i::text), 20) FROM generate_series(0, 5001) i;
SELECT 1 FROM rose.spill('sr8');
SELECT 1 FROM rose.merge('sr8');
SELECT count(*), count(b.v) FROM sr8 a LEFT JOIN sr8 b ON b.k = a.k;
SELECT count(b.v) FROM sr8 a JOIN sr8 b ON b.k = CASE WHEN a.k < 9223372036854775807 THEN a.k + 1 END;
SELECT length(v) FROM sr8 WHERE k IN (-9223372036854775808, 9223372036854775807, -9223372036854775807, 9223372036854775806);
-- rows without a key of their own, by an index
CREATE TABLE srn (a int, v text);
CREATE INDEX srn_a ON srn (a);
INSERT INTO srn SELECT (i * 7919) % 20011, 'v' || i FROM generate_series(1, 20000) i;
SELECT 1 FROM rose.spill('srn');
SELECT 1 FROM rose.merge('srn');
SET enable_seqscan = off;
SELECT count(*), count(v) FILTER (WHERE (substr(v, 2)::int * 7919) % 20011 = a) FROM srn WHERE a BETWEEN 100 AND 19000;
SELECT count(*) FROM srn WHERE (substr(v, 2)::int * 7919) % 20011 = a AND a BETWEEN 100 AND 19000;
DROP TABLE sr, sr8, srn;
