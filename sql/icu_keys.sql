-- Keys under ICU's collations, for servers that are built with ICU. (Without it
-- the answer is in icu_keys_1.out.)
SELECT count(*) = 0 AS skip FROM pg_collation WHERE collname = 'en-x-icu' \gset
\if :skip
\quit
\endif

-- an order that is not the bytes'
CREATE TABLE sorted (k text COLLATE "en-x-icu" PRIMARY KEY, v int) USING rose;
CREATE VIEW orders AS
    SELECT string_agg(k, ' ' ORDER BY nr) AS up,
        (SELECT string_agg(k, ' ') FROM (SELECT k FROM sorted ORDER BY k DESC) d) AS down,
        (SELECT count(*) FROM sorted WHERE k >= 'aa' AND k <= 'é') AS from_aa_to_é
    FROM (SELECT k, row_number() OVER () AS nr FROM (SELECT k FROM sorted ORDER BY k) u) n;
SET enable_seqscan = off;
SET enable_sort = off;
INSERT INTO sorted SELECT unnest('{"",a,A,aa,b,B,"b ",é,z}'::text[]), 1;
INSERT INTO sorted VALUES ('A', 2);
SELECT * FROM orders;
SELECT rose.spill('sorted');
INSERT INTO sorted VALUES ('b ', 2);
UPDATE sorted SET v = v + 1 WHERE k = 'B';
SELECT * FROM orders;
SELECT rose.merge('sorted');
INSERT INTO sorted VALUES ('é', 2);
SELECT * FROM orders;
SELECT k, v FROM sorted WHERE k = 'B';
SELECT * FROM rose.check('sorted');
RESET enable_sort;
RESET enable_seqscan;
DROP VIEW orders;
DROP TABLE sorted;

-- a collation under which different strings are equal
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE folded (k text COLLATE any_case PRIMARY KEY, v int) USING rose;
INSERT INTO folded VALUES ('Rose', 1), ('thorn', 2);
INSERT INTO folded VALUES ('ROSE', 3);
SELECT * FROM folded WHERE k = 'rOsE';
SELECT rose.spill('folded');
INSERT INTO folded VALUES ('rose', 4);
UPDATE folded SET k = 'ROSE', v = 5 WHERE k = 'rose';
SELECT * FROM folded ORDER BY k;
SELECT rose.merge('folded');
SELECT * FROM folded WHERE k = 'Rose';
DELETE FROM folded WHERE k = 'roSE';
SELECT * FROM folded;
DROP TABLE folded;

-- of texts that are equal and not the same, Rose Aggregate takes the one that core's aggregates take
CREATE TABLE cases (id int PRIMARY KEY, t text COLLATE any_case) USING rose;
INSERT INTO cases SELECT i, (ARRAY['zZ', 'Zz', 'ZZ', 'm', 'AA', 'aA', 'Aa'])[1 + i % 7] FROM generate_series(1, 3001) i;
ANALYZE cases;
SET rose.enable_aggregate = on;
EXPLAIN (COSTS off) SELECT min(t), max(t) FROM cases;
SELECT min(t), max(t) FROM cases;
SET rose.enable_aggregate = off;
SELECT min(t), max(t) FROM cases;
RESET rose.enable_aggregate;
DROP TABLE cases;
DROP COLLATION any_case;

-- groups: texts that are equal and differ are told apart by core
SET rose.enable_aggregate = on;
CREATE COLLATION blind_groups (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
CREATE TABLE grouped_text (id int PRIMARY KEY, t text COLLATE blind_groups, d text, k int) USING rose;
INSERT INTO grouped_text SELECT i, (ARRAY['a', 'A', 'b'])[i % 3 + 1], (ARRAY['a', 'A', 'b'])[i % 3 + 1], i % 2 FROM generate_series(1, 1000) i;
ANALYZE grouped_text;
SELECT upper(t), count(*) FROM grouped_text GROUP BY t ORDER BY 1;
SELECT d, count(*) FROM grouped_text GROUP BY d ORDER BY d COLLATE "C";
SELECT upper(d COLLATE blind_groups), count(*) FROM grouped_text GROUP BY d COLLATE blind_groups ORDER BY 1;
CREATE FUNCTION grouped_by(expression text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found bool = false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) SELECT count(*) FROM grouped_text GROUP BY ' || expression LOOP
		found := found OR line ~ 'Rose Aggregate';
	END LOOP;
	RETURN found;
END $$;
SELECT grouped_by('t') AS blind, grouped_by('d') AS plain, grouped_by('d COLLATE blind_groups') AS made_blind, grouped_by('t COLLATE "en-x-icu"') AS made_plain;
-- of texts that are equal and differ, the last one is the least, so there are no parts of that; but of what is distinct, which core counts
SELECT grouped_by($$k HAVING min(t) > ''$$) AS blind_min, grouped_by($$k HAVING min(d) > ''$$) AS plain_min, grouped_by('k HAVING count(DISTINCT t) > 1') AS blind_distinct;
SELECT count(DISTINCT t) AS blind, count(DISTINCT d) AS plain, count(DISTINCT d COLLATE blind_groups) AS made_blind FROM grouped_text;
SELECT count(DISTINCT t) FROM grouped_text;
SELECT count(*), count(DISTINCT d COLLATE blind_groups) FROM grouped_text;
SELECT k, count(DISTINCT t), count(*) FROM grouped_text GROUP BY k ORDER BY k;
-- nor are such groups finished, or counted, but by core; and its functions say what is equal, and what cannot be asked
SET rose.aggregate_sample = 1000000;
SELECT upper(t), count(*) FROM grouped_text GROUP BY t ORDER BY 1;
SELECT upper(d COLLATE "C"), count(*) FROM grouped_text GROUP BY d COLLATE blind_groups, 1 ORDER BY 1;
SELECT k, count(DISTINCT t), count(DISTINCT t COLLATE "C") FROM grouped_text GROUP BY k ORDER BY k;
SELECT k, count(DISTINCT t), count(*) FROM grouped_text GROUP BY k ORDER BY k;
SELECT count(DISTINCT t COLLATE "C") FROM grouped_text;
RESET rose.aggregate_sample;
SELECT count(*) FROM grouped_text WHERE t = 'A';
SELECT count(*) FROM grouped_text WHERE t <> 'a' AND d <> 'a';
-- 18 knows what LIKE means of them
CREATE TABLE grouped_heap AS SELECT * FROM grouped_text;
CREATE FUNCTION grouped_like(tab regclass, pattern text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n text;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s WHERE t LIKE %L', tab, pattern) INTO n;
	RETURN n;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
SELECT p, grouped_like('grouped_text', p) = grouped_like('grouped_heap', p) AS as_heap FROM unnest(ARRAY['a%', '_', '%A%', 'A']) p;
-- the first rows of an order: those that are equal, and differ, are ordered by what is behind
CREATE TABLE first_texts (id int, t text COLLATE blind_groups, d text) USING rose;
INSERT INTO first_texts SELECT i, (ARRAY['b', 'B', 'a', 'A', 'c'])[1 + i * 7 % 5], (ARRAY['b', 'B', 'a', 'A', 'c'])[1 + i * 7 % 5] FROM generate_series(1, 2000) i;
ANALYZE first_texts;
EXPLAIN (COSTS off) SELECT id, t FROM first_texts ORDER BY t, id DESC LIMIT 5;
SELECT id, t FROM first_texts ORDER BY t, id DESC LIMIT 5;
SELECT id, t FROM first_texts ORDER BY t COLLATE "C", id DESC LIMIT 3;
SELECT id, d FROM first_texts ORDER BY d COLLATE blind_groups DESC, id DESC LIMIT 3 OFFSET 399;
EXPLAIN (COSTS off) SELECT id, d FROM first_texts ORDER BY d COLLATE blind_groups DESC, id LIMIT 3;
SELECT count(*) FROM (SELECT t FROM first_texts ORDER BY t FETCH FIRST ROW WITH TIES) x;
DROP TABLE first_texts;
DROP FUNCTION grouped_by, grouped_like;
DROP TABLE grouped_text, grouped_heap;
DROP COLLATION blind_groups;
RESET rose.enable_aggregate;
