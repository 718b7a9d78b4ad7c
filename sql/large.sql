-- Enough rows for inner nodes, many pages and several merges; the answers are
-- compared with arithmetic.
CREATE TABLE large (id bigint PRIMARY KEY, a int, b smallint, c bigint, d timestamptz, e text) USING rose;
INSERT INTO large SELECT (i * 7919) % 100003, i % 1000, i % 10, i, '2026-01-01 00:00+00'::timestamptz + i * interval '1 ms', md5(i::text)
FROM generate_series(1, 100000) i;
SELECT count(*), count(DISTINCT id), sum(c) FROM large;
SELECT rose.spill('large');
SELECT count(*), count(DISTINCT id), sum(c), sum(a), sum(b) FROM large;
SELECT rose.merge('large');
SELECT count(*), count(DISTINCT id), sum(c), sum(a), sum(b) FROM large;
SELECT * FROM rose.check('large');

-- every row by its key
SELECT count(*) FROM generate_series(1, 100000, 37) i JOIN large l ON l.id = (i * 7919) % 100003 AND l.c = i;
SELECT count(*) FROM large WHERE e = md5(c::text);
SELECT id, c FROM large WHERE id BETWEEN 50000 AND 50004 ORDER BY id;
SELECT id, c FROM large ORDER BY id DESC LIMIT 3;

-- rounds of scattered updates and deletes, spilled and merged now and then
DO $$
BEGIN
    FOR r IN 1 .. 6 LOOP
        UPDATE large SET a = a + 1, e = 'round ' || r WHERE id % 6 = r - 1;
        DELETE FROM large WHERE id % 100 = r;
        INSERT INTO large SELECT 200000 + r * 10000 + i, 0, 0, 0, NULL, NULL FROM generate_series(1, 1000) i;
        PERFORM rose.spill('large');
        IF r = 3 THEN
            PERFORM rose.merge('large');
        END IF;
    END LOOP;
END $$;
SELECT count(*), sum(a), sum(b), sum(c) FROM large;
SELECT e, count(*) FROM large WHERE length(e) < 10 OR e IS NULL GROUP BY e ORDER BY e;
SELECT * FROM rose.check('large');
SELECT rose.merge('large');
SELECT count(*), sum(a), sum(b), sum(c) FROM large;
SELECT e, count(*) FROM large WHERE length(e) < 10 OR e IS NULL GROUP BY e ORDER BY e;
SELECT * FROM rose.check('large');

-- one transaction that touches everything, undone
BEGIN;
UPDATE large SET a = 0;
DELETE FROM large WHERE id < 50000;
SELECT count(*), sum(a) FROM large;
ROLLBACK;
SELECT count(*), sum(a) FROM large;
SELECT rose.spill('large');
SELECT count(*), sum(a) FROM large;
DROP TABLE large;
