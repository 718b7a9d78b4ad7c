-- Scans of rows that are in memory take the columns that were asked for lately: NULLs, columns that came later or are gone,
-- rows of which more is wanted than of those before.
CREATE TABLE mem (k int PRIMARY KEY, a int, gone smallint, c bigint, d float8, note text) USING rose;
CREATE TABLE mem_heap (LIKE mem INCLUDING ALL) USING heap;
CREATE PROCEDURE in_both(command text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(command, '@', 'mem');
    EXECUTE replace(command, '@', 'mem_heap');
END $$;
-- the queries whose answers differ
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    query text;
    mine text;
    heaps text;
    batches bool;
BEGIN
    FOREACH query IN ARRAY ARRAY[
        'SELECT count(*) FROM @', 'SELECT sum(a) FROM @', 'SELECT count(a), count(c), count(d) FROM @',
        'SELECT sum(c), sum(d::numeric) FROM @', 'SELECT sum(c) FROM @ WHERE a < 100',
        'SELECT sum(length(note)) FROM @ WHERE a = 77', 'SELECT min(note), max(note) FROM @ WHERE k % 700 = 3',
        'SELECT sum(c), max(note) FROM @ WHERE k > 2990', 'SELECT md5(string_agg(x::text, '','' ORDER BY k)) FROM @ x',
        'SELECT a % 5, count(*), sum(c) FROM @ GROUP BY 1 ORDER BY 1',
        'SELECT count(*) FROM @ x JOIN @ y ON y.k = x.c / 7 WHERE x.a > 900', 'SELECT count(*) FROM @ WHERE xmin IS NULL OR c IS NULL']
    LOOP
        EXECUTE replace(query, '@', 'mem_heap') || ' LIMIT 1' INTO heaps;
        FOREACH batches IN ARRAY ARRAY[true, false]
        LOOP
            PERFORM set_config('rose.enable_scan', batches::text, false);
            EXECUTE replace(query, '@', 'mem') || ' LIMIT 1' INTO mine;
            IF mine IS DISTINCT FROM heaps THEN
                RETURN NEXT query || ': ' || coalesce(mine, 'NULL') || ', not ' || coalesce(heaps, 'NULL');
            END IF;
        END LOOP;
    END LOOP;
END $$;
CALL in_both('INSERT INTO @ SELECT i * 7919 % 3001, i % 1000, i % 7, i * 7::bigint, i / 8.0, repeat(''note '', i % 9) || i FROM generate_series(1, 3000) i');
SELECT * FROM differences();
-- NULLs in columns that are taken, in few rows and in most
CALL in_both('UPDATE @ SET a = NULL WHERE k % 50 = 1');
SELECT * FROM differences();
CALL in_both('UPDATE @ SET c = NULL WHERE k % 3 <> 1');
SELECT * FROM differences();
-- columns that came later, with and without a value, and one that is gone
CALL in_both('ALTER TABLE @ ADD COLUMN later int DEFAULT 7, ADD COLUMN empty int, DROP COLUMN gone');
CALL in_both('INSERT INTO @ SELECT i, i, i, i, ''new'', -i, i FROM generate_series(4000, 4900) i');
SELECT * FROM differences();
SELECT count(later), sum(later), count(empty), sum(empty) FROM mem;
SELECT count(later), sum(later), count(empty), sum(empty) FROM mem_heap;
-- versions of which the newest counts, and rows that are gone
CALL in_both('UPDATE @ SET c = k WHERE k % 4 = 0');
CALL in_both('DELETE FROM @ WHERE k % 11 = 5');
SELECT * FROM differences();
-- rows that are not read to their end before they leave memory
BEGIN;
DECLARE reader CURSOR FOR SELECT k, c, note FROM mem WHERE a > 10;
MOVE 300 IN reader;
SAVEPOINT s;
UPDATE mem SET c = -1 WHERE k % 2 = 0;
SELECT rose.spill('mem') IS NOT NULL AS spilled;
FETCH 2 FROM reader;
COMMIT;
SELECT rose.spill('mem') IS NOT NULL AS spilled;
UPDATE mem_heap SET c = -1 WHERE k % 2 = 0;
-- some in memory, between those that are not
CALL in_both('UPDATE @ SET c = 5, d = NULL WHERE k % 10 = 7');
CALL in_both('INSERT INTO @ (k, a) SELECT i, i FROM generate_series(3002, 3990, 3) i');
SELECT * FROM differences();
SELECT rose.merge('mem');
CALL in_both('UPDATE @ SET a = a + 1 WHERE k % 100 < 3');
SELECT * FROM differences();
SELECT * FROM rose.check('mem');

-- rows that are older than a column that is taken from them
CREATE TABLE short (k int PRIMARY KEY, a int) USING rose;
INSERT INTO short SELECT i, i FROM generate_series(1, 1000) i;
ALTER TABLE short ADD COLUMN b int DEFAULT 7, ADD COLUMN c int;
INSERT INTO short SELECT i, i, 1, 1 FROM generate_series(1001, 2000) i;
SELECT sum(a), sum(b), count(c), sum(c) FROM short;

-- the hidden row id, and a key of two columns
CREATE TABLE rowids (a int, c bigint, t text) USING rose;
INSERT INTO rowids SELECT i, nullif(i % 3, 0), i FROM generate_series(1, 2000) i;
SELECT rose.spill('rowids') IS NOT NULL AS spilled;
INSERT INTO rowids SELECT i, i, 'later' FROM generate_series(2001, 3000) i;
UPDATE rowids SET c = 0 WHERE a % 100 = 0;
SELECT count(*), sum(a), sum(c), count(t) FROM rowids;
CREATE TABLE pairs (a int, b int, c bigint, PRIMARY KEY (a, b)) USING rose;
INSERT INTO pairs SELECT i % 50, i, i FROM generate_series(1, 2000) i;
SELECT rose.spill('pairs') IS NOT NULL AS spilled;
UPDATE pairs SET c = -c WHERE b % 7 = 0;
INSERT INTO pairs SELECT i % 50, -i, i FROM generate_series(1, 500) i;
SELECT count(*), sum(c), sum(b), sum(a) FROM pairs;
SELECT sum(c) FROM pairs WHERE a BETWEEN 10 AND 20;
DROP TABLE mem, mem_heap, short, rowids, pairs;
DROP FUNCTION differences;
DROP PROCEDURE in_both;
