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
DROP COLLATION any_case;
