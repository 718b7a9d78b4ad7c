-- C2 in many pieces: with a small debug_piece_size little data has what large
-- tables have.
SET rose.debug_piece_size = '16kB';
CREATE FUNCTION pieces(regclass) RETURNS SETOF bigint LANGUAGE sql AS
    $$ SELECT id FROM rose.stat_components WHERE relid = $1 AND kind = 'C2' $$;
CREATE TABLE parts (a int, b int, c text, PRIMARY KEY (a, b)) USING rose;
CREATE TABLE parts_heap (LIKE parts INCLUDING ALL);
CREATE VIEW differences AS (SELECT 'missing', * FROM parts_heap EXCEPT ALL SELECT 'missing', * FROM parts)
    UNION ALL (SELECT 'wrong', * FROM parts EXCEPT ALL SELECT 'wrong', * FROM parts_heap);

INSERT INTO parts_heap SELECT i / 50, i % 50, md5(i::text) FROM generate_series(0, 19999) i;
INSERT INTO parts SELECT * FROM parts_heap ORDER BY c;
SELECT rose.merge('parts');
DO $$
BEGIN
    FOR r IN 1 .. 4 LOOP
        UPDATE parts SET c = 'round ' || r WHERE (a + b) % 7 = r;
        UPDATE parts_heap SET c = 'round ' || r WHERE (a + b) % 7 = r;
        DELETE FROM parts WHERE a BETWEEN r * 80 AND r * 80 + 30;
        DELETE FROM parts_heap WHERE a BETWEEN r * 80 AND r * 80 + 30;
        INSERT INTO parts SELECT 1000 - r, i, 'new' FROM generate_series(1, 300) i;
        INSERT INTO parts_heap SELECT 1000 - r, i, 'new' FROM generate_series(1, 300) i;
        COMMIT;
        PERFORM rose.merge('parts');
        COMMIT;
    END LOOP;
END $$;
SELECT count(*) > 5 AS many, count(*) < 45 AS too_many FROM pieces('parts');
SELECT * FROM differences;
SELECT * FROM rose.check('parts');

-- ranges of the whole key and of its first column, in both directions
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM parts WHERE a >= 100 AND a < 300;
SELECT count(*) FROM parts_heap WHERE a >= 100 AND a < 300;
SELECT sum((SELECT count(*) FROM parts p WHERE p.a = s)) FROM generate_series(0, 1000) s;
SELECT sum((SELECT count(*) FROM parts p WHERE p.a > s)) FROM generate_series(0, 1000, 9) s;
SELECT sum((SELECT count(*) FROM parts_heap p WHERE p.a > s)) FROM generate_series(0, 1000, 9) s;
SELECT count(*) FROM parts_heap h JOIN parts p USING (a, b) WHERE h.c = p.c;
SELECT sum(x.a * 100 + x.b) FROM generate_series(0, 1000, 7) s,
    LATERAL (SELECT a, b FROM parts WHERE a <= s ORDER BY a DESC, b DESC LIMIT 1) x;
SELECT sum(x.a * 100 + x.b) FROM generate_series(0, 1000, 7) s,
    LATERAL (SELECT a, b FROM parts_heap WHERE a <= s ORDER BY a DESC, b DESC LIMIT 1) x;
SELECT sum(x.a * 100 + x.b) FROM generate_series(0, 1000, 7) s,
    LATERAL (SELECT a, b FROM parts WHERE a < s ORDER BY a DESC, b DESC LIMIT 1) x;
SELECT sum(x.a * 100 + x.b) FROM generate_series(0, 1000, 7) s,
    LATERAL (SELECT a, b FROM parts_heap WHERE a < s ORDER BY a DESC, b DESC LIMIT 1) x;
SELECT count(*), min(a), max(a), sum(a - b) FROM (SELECT a, b FROM parts ORDER BY a DESC, b DESC) s;
RESET enable_seqscan;
RESET enable_bitmapscan;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a, b FROM parts ORDER BY a, b;
MOVE 8000 IN c;
FETCH 2 FROM c;
MOVE BACKWARD 7000 IN c;
FETCH BACKWARD 2 FROM c;
MOVE FORWARD ALL IN c;
FETCH BACKWARD 1 FROM c;
COMMIT;

-- statistics see all of them
ANALYZE parts;
SELECT reltuples = (SELECT count(*) FROM parts) AS counted FROM pg_class WHERE relname = 'parts';
SELECT count(*) BETWEEN 1 AND 15999 FROM parts TABLESAMPLE SYSTEM (50) REPEATABLE (1);

-- a range without new rows keeps its pieces
CREATE TEMP TABLE before AS SELECT pieces('parts');
UPDATE parts SET c = 'again' WHERE a = 200;
SELECT rose.merge('parts');
SELECT (SELECT count(*) FROM before) - count(*) BETWEEN 1 AND 3 AS few FROM before WHERE pieces IN (SELECT pieces('parts'));
UPDATE parts_heap SET c = 'again' WHERE a = 200;
SELECT * FROM differences;

-- a piece whose rows all go; then everything
DELETE FROM parts WHERE a BETWEEN 100 AND 250;
DELETE FROM parts_heap WHERE a BETWEEN 100 AND 250;
SELECT rose.merge('parts');
SELECT * FROM differences;
SELECT * FROM rose.check('parts');
VACUUM FULL parts;
SELECT count(*) > 1 AS pieces FROM pieces('parts');
SELECT * FROM differences;
SELECT * FROM rose.check('parts');
DELETE FROM parts;
SELECT rose.merge('parts');
SELECT count(*) FROM parts;
INSERT INTO parts VALUES (1, 1, 'first');
SELECT rose.merge('parts');
SELECT * FROM parts;

-- without a key rows are only appended, and what is large enough is left alone
CREATE TABLE appended (i int, t text) USING rose;
DO $$
BEGIN
    FOR r IN 1 .. 30 LOOP
        INSERT INTO appended SELECT r, md5(r::text || i) FROM generate_series(1, 2000) i;
        COMMIT;
        PERFORM rose.merge('appended');
        COMMIT;
        IF r = 28 THEN
            DELETE FROM before;
            INSERT INTO before SELECT pieces('appended');
        END IF;
    END LOOP;
END $$;
SELECT count(*), sum(i) FROM appended;
SELECT count(*) > 5 AS many, count(*) < 45 AS too_many FROM pieces('appended');
SELECT count(*) > 0.6 * (SELECT count(*) FROM before) AS kept FROM before WHERE pieces IN (SELECT pieces('appended'));
SELECT * FROM rose.check('appended');

-- what merges have done, and what waits for them
INSERT INTO appended SELECT 31, 'more' FROM generate_series(1, 100);
SELECT rose.spill('appended');
SELECT runs, run_raw_bytes > 0 AS waiting, c1_raw_bytes, c2_raw_bytes > 0 AS merged, c1_merge_pid, c2_merge_done, spilled_bytes > 0 AS spilled,
    read_bytes > spilled_bytes AS read_again, written_bytes > spilled_bytes AS written_again,
    abs(amplification - (spilled_bytes + read_bytes + written_bytes)::float8 / raw_bytes) < 1e-9 AS amplification, ratio, model > 0 AS model
FROM rose.stat_merge_progress WHERE relid = 'appended'::regclass;
DROP TABLE parts, parts_heap, appended CASCADE;
DROP FUNCTION pieces;
