-- Reading by key: =, ranges, IN, both orders, prefixes of a key of several
-- columns, whichever plan is chosen and wherever the rows lie.
CREATE TABLE one (id bigint PRIMARY KEY, v int) USING rose;
CREATE TABLE many (region int, name text COLLATE "C", day date, v int, PRIMARY KEY (region, name, day)) USING rose;

-- rows in the merged component, in two runs and in memory
INSERT INTO one SELECT i, i % 7 FROM generate_series(0, 2000, 4) i;
SELECT rose.merge('one');
INSERT INTO one SELECT i, i % 7 FROM generate_series(1, 2000, 4) i;
SELECT rose.spill('one');
INSERT INTO one SELECT i, i % 7 FROM generate_series(2, 2000, 4) i;
SELECT rose.spill('one');
INSERT INTO one SELECT i, i % 7 FROM generate_series(-5, -1) i;
DELETE FROM one WHERE id % 10 = 0;
UPDATE one SET v = -v WHERE id % 9 = 0;

INSERT INTO many
SELECT r, n, date '2026-01-01' + d, r * 100 + d
FROM generate_series(1, 5) r, unnest(ARRAY['', 'a', 'aa', 'b', 'B', 'zebra']) n, generate_series(0, 4) d;
SELECT rose.spill('many');
DELETE FROM many WHERE region = 3 AND name = 'b';
UPDATE many SET v = 0 WHERE day = '2026-01-03';
INSERT INTO many VALUES (3, 'b', '2026-01-03', 333);

CREATE FUNCTION check_reads() RETURNS TABLE (what text, answer text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT 'equal', (SELECT string_agg(o::text, ' ') FROM one o WHERE id = 18);
    RETURN QUERY SELECT 'equal, deleted', (SELECT string_agg(o::text, ' ') FROM one o WHERE id = 20);
    RETURN QUERY SELECT 'equal, outside', (SELECT string_agg(o::text, ' ') FROM one o WHERE id = 5000000000);
    RETURN QUERY SELECT 'between', (SELECT string_agg(o::text, ' ' ORDER BY id) FROM one o WHERE id BETWEEN 15 AND 25);
    RETURN QUERY SELECT 'open range', (SELECT string_agg(o::text, ' ' ORDER BY id) FROM one o WHERE id > -4 AND id < 4);
    RETURN QUERY SELECT 'empty range', (SELECT count(*)::text FROM one WHERE id > 10 AND id < 10);
    RETURN QUERY SELECT 'in', (SELECT string_agg(o::text, ' ' ORDER BY id) FROM one o WHERE id IN (18, 1, -3, 20, 4000, 18, NULL));
    RETURN QUERY SELECT 'first', (SELECT string_agg(o::text, ' ') FROM (SELECT * FROM one ORDER BY id LIMIT 4) o);
    RETURN QUERY SELECT 'last', (SELECT string_agg(o::text, ' ') FROM (SELECT * FROM one ORDER BY id DESC LIMIT 4) o);
    RETURN QUERY SELECT 'middle, down', (SELECT string_agg(o::text, ' ') FROM (SELECT * FROM one WHERE id <= 1000 ORDER BY id DESC LIMIT 4) o);
    RETURN QUERY SELECT 'key alone', (SELECT string_agg(id::text, ' ') FROM (SELECT id FROM one WHERE id < 12 ORDER BY id) o);
    RETURN QUERY SELECT 'min and max', (SELECT min(id) || ' ' || max(id) FROM one);
    RETURN QUERY SELECT 'all, sum', (SELECT count(*) || ' ' || sum(id) || ' ' || sum(v) FROM one);
    RETURN QUERY SELECT 'is null', (SELECT count(*)::text FROM one WHERE id IS NULL);
    RETURN QUERY SELECT 'other type', (SELECT count(*)::text FROM one WHERE id < 10::int2);
    RETURN QUERY SELECT 'three columns', (SELECT string_agg(m::text, ' ') FROM many m WHERE region = 2 AND name = 'aa' AND day = '2026-01-02');
    RETURN QUERY SELECT 'prefix', (SELECT string_agg(m::text, ' ' ORDER BY day) FROM many m WHERE region = 3 AND name = 'b');
    RETURN QUERY SELECT 'prefix and range', (SELECT string_agg(m::text, ' ' ORDER BY name, day) FROM many m WHERE region = 4 AND name > 'a' AND name < 'b');
    RETURN QUERY SELECT 'second column', (SELECT count(*) || ' ' || sum(v) FROM many WHERE name = 'B');
    RETURN QUERY SELECT 'third column', (SELECT count(*) || ' ' || sum(v) FROM many WHERE day = '2026-01-03');
    RETURN QUERY SELECT 'row comparison', (SELECT string_agg(m::text, ' ' ORDER BY region, name, day) FROM many m WHERE (region, name, day) > (5, 'b', '2026-01-04'));
    RETURN QUERY SELECT 'in and range', (SELECT count(*) || ' ' || sum(v) FROM many WHERE region IN (1, 3, 5) AND name >= 'aa');
    RETURN QUERY SELECT 'first of many', (SELECT string_agg(m::text, ' ') FROM (SELECT * FROM many ORDER BY region, name, day LIMIT 2) m);
    RETURN QUERY SELECT 'last of many', (SELECT string_agg(m::text, ' ') FROM (SELECT * FROM many ORDER BY region DESC, name DESC, day DESC LIMIT 2) m);
    RETURN QUERY SELECT 'nearest before', (SELECT string_agg(m::text, ' ') FROM (SELECT * FROM many WHERE region = 3 AND name < 'b' ORDER BY region DESC, name DESC, day DESC LIMIT 1) m);
END $$;

-- the planner's own choice, then each plan in turn
SELECT * FROM check_reads();
CREATE TEMP TABLE answers AS SELECT row_number() OVER () AS n, * FROM check_reads();

CREATE FUNCTION same_answers() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT count(*) FROM (SELECT row_number() OVER () AS n, * FROM check_reads()) r JOIN answers a USING (n)
    WHERE r.answer IS NOT DISTINCT FROM a.answer
$$;

SET enable_seqscan = off;
SELECT same_answers();
SET enable_indexonlyscan = off;
SELECT same_answers();
SET enable_seqscan = on;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SELECT same_answers();
RESET enable_indexonlyscan;
RESET enable_indexscan;
RESET enable_bitmapscan;

SELECT rose.spill('one'), rose.spill('many');
SELECT same_answers();
SELECT rose.merge('one'), rose.merge('many');
SELECT same_answers();
SET enable_seqscan = off;
SELECT same_answers();
RESET enable_seqscan;
SELECT * FROM rose.check('one');
SELECT * FROM rose.check('many');

-- nested loops by key, with rescans
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT g, o.id, o.v FROM generate_series(14, 22) g LEFT JOIN one o ON o.id = g ORDER BY g;
SELECT count(*), sum(m.v) FROM (VALUES (1, 'a'), (3, 'b'), (9, 'a'), (5, 'zebra')) k (r, n)
JOIN many m ON m.region = k.r AND m.name = k.n;
RESET enable_hashjoin;
-- a merge join needs mark and restore
RESET enable_mergejoin;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT count(*), sum(a.id) FROM one a JOIN one b ON a.id = b.id;
SELECT count(*) FROM many a JOIN many b ON a.region = b.region AND a.name = b.name;
RESET enable_hashjoin;
RESET enable_nestloop;

DROP FUNCTION same_answers, check_reads;
DROP TABLE one, many, answers;

-- INCLUDE: the row has its columns in any case
CREATE TABLE inc (a int, b text, c text, d numeric, PRIMARY KEY (c, a) INCLUDE (b, d)) USING rose;
INSERT INTO inc SELECT i, repeat('b', i * 100), 'c' || i % 3, CASE WHEN i % 5 > 0 THEN i END FROM generate_series(1, 200) i;
INSERT INTO inc VALUES (1, 'x', 'c1', 5);
INSERT INTO inc VALUES (NULL, 'x', 'c1', 5);
INSERT INTO inc VALUES (1, 'again', 'c1', 6), (0, NULL, 'c1', NULL) ON CONFLICT (c, a) DO UPDATE SET b = excluded.b;
UPDATE inc SET d = -1 WHERE a = 7;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT a, c FROM inc WHERE c = 'c1' AND a < 10;
EXPLAIN (COSTS off) SELECT a, c, d FROM inc WHERE c = 'c1' AND a < 10;
SELECT a, c FROM inc WHERE c = 'c1' AND a < 10;
SELECT a, c, d, length(b) FROM inc WHERE c = 'c1' AND a < 10 ORDER BY c DESC, a DESC;
SELECT a, c, d FROM inc WHERE c = 'c1' AND a = 7;
RESET enable_seqscan;
SELECT rose.spill('inc'), rose.merge('inc');
SELECT count(*), sum(d), max(length(b)) FROM inc WHERE c > 'c0';
CREATE TABLE inc_child (c text, a int, FOREIGN KEY (c, a) REFERENCES inc ON UPDATE CASCADE) USING rose;
INSERT INTO inc_child VALUES ('c1', 7), ('c1', 8);
INSERT INTO inc_child VALUES ('c1', 7);
UPDATE inc SET a = 1007 WHERE a = 7;
TABLE inc_child;
REINDEX TABLE inc;
ALTER TABLE inc ADD e int DEFAULT 3;
SELECT * FROM inc WHERE c = 'c1' AND a = 0;
SELECT pg_get_indexdef('inc_pkey'::regclass);
SELECT * FROM rose.check('inc');
ALTER TABLE inc_child DROP CONSTRAINT inc_child_c_a_fkey;
ALTER TABLE inc ALTER d TYPE int;
ALTER TABLE inc ALTER b TYPE varchar(30000);
UPDATE inc SET d = d + 1 WHERE a = 4;
SELECT a, b, d FROM inc WHERE c = 'c1' AND a < 2;
SELECT * FROM rose.check('inc');
ALTER TABLE inc DROP b;
SELECT conname FROM pg_constraint WHERE conrelid = 'inc'::regclass AND contype = 'p';
SELECT count(*), sum(d) FROM inc WHERE c > 'c0';
SELECT * FROM rose.check('inc');
ALTER TABLE inc ADD PRIMARY KEY (a, c) INCLUDE (e);
SELECT count(*), sum(d), sum(e) FROM inc WHERE a > 20;
CREATE TABLE inc_heap (id int, v text, PRIMARY KEY (id) INCLUDE (v)) USING heap;
INSERT INTO inc_heap SELECT i, 'v' || i FROM generate_series(1, 50) i;
ALTER TABLE inc_heap SET ACCESS METHOD rose;
SELECT * FROM inc_heap WHERE id IN (3, 4);
CREATE TABLE inc_like (LIKE inc INCLUDING ALL) USING rose;
SELECT pg_get_indexdef('inc_like_pkey'::regclass);
DROP TABLE inc, inc_child, inc_heap, inc_like;
-- of a secondary index they may be larger than an index tuple
CREATE TABLE inc (id int PRIMARY KEY, a int, n name, b text) USING rose;
CREATE INDEX inc_a ON inc (a, n) INCLUDE (b);
INSERT INTO inc SELECT i, i, 'n' || i, (SELECT string_agg(md5((i * 1000 + g)::text), '') FROM generate_series(1, 100 * i) g) FROM generate_series(1, 5) i;
INSERT INTO inc VALUES (6, NULL, NULL, repeat('x', 100000)), (7, 7, 'n7', NULL);
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT a, n, length(b) FROM inc WHERE a > 1 ORDER BY a DESC;
SELECT a, n, length(b), md5(b) = md5((SELECT b FROM inc i WHERE id = o.a)) AS same FROM inc o WHERE a > 1 ORDER BY a DESC;
SELECT a, n, length(b) FROM inc WHERE a IS NULL;
ANALYZE inc;
SELECT count(*) FROM inc WHERE a > 4;
DROP TABLE inc;
RESET enable_seqscan;
