-- Cursors: forwards, backwards, held, over a table that changes under them.
CREATE TABLE walk (id int PRIMARY KEY, v text) USING rose;
INSERT INTO walk SELECT i, 'v' || i FROM generate_series(1, 100, 2) i;
SELECT rose.spill('walk');
INSERT INTO walk SELECT i, 'v' || i FROM generate_series(2, 100, 2) i;

BEGIN;
DECLARE up SCROLL CURSOR FOR SELECT * FROM walk ORDER BY id;
DECLARE down SCROLL CURSOR FOR SELECT id FROM walk WHERE id BETWEEN 10 AND 20 ORDER BY id DESC;
FETCH 3 FROM up;
FETCH BACKWARD 2 FROM up;
FETCH ABSOLUTE 50 FROM up;
FETCH RELATIVE -10 FROM up;
FETCH LAST FROM up;
FETCH 1 FROM up;
FETCH PRIOR FROM up;
FETCH FIRST FROM up;
FETCH PRIOR FROM up;
FETCH 2 FROM up;
FETCH ALL FROM down;
FETCH BACKWARD ALL FROM down;
COMMIT;

-- what happens after the cursor was opened is not seen through it
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM walk WHERE id <= 6 ORDER BY id;
FETCH 2 FROM c;
UPDATE walk SET v = 'changed' WHERE id <= 6;
DELETE FROM walk WHERE id = 4;
INSERT INTO walk VALUES (0, 'zero');
FETCH ALL FROM c;
SELECT * FROM walk WHERE id <= 6 ORDER BY id;
ROLLBACK;

-- where current of
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM walk WHERE id <= 6 ORDER BY id FOR UPDATE;
FETCH 2 FROM c;
UPDATE walk SET v = 'current' WHERE CURRENT OF c;
FETCH 1 FROM c;
DELETE FROM walk WHERE CURRENT OF c;
FETCH 1 FROM c;
COMMIT;
SELECT * FROM walk WHERE id <= 6 ORDER BY id;

-- held past its transaction, past a spill and a merge
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT * FROM walk ORDER BY id;
FETCH 2 FROM held;
COMMIT;
DELETE FROM walk WHERE id > 5;
SELECT rose.spill('walk');
SELECT rose.merge('walk');
FETCH 6 FROM held;
CLOSE held;
SELECT count(*) FROM walk;

-- an unordered cursor still gives each row once
INSERT INTO walk SELECT i, 'new' FROM generate_series(1000, 1999) i;
SELECT rose.spill('walk');
DO $$
DECLARE
    c CURSOR FOR SELECT * FROM walk WHERE id >= 1000;
    n int := 0;
BEGIN
    FOR r IN c LOOP
        n := n + 1;
        UPDATE walk SET id = id + 10000, v = 'moved' WHERE id = r.id;
    END LOOP;
    RAISE NOTICE '% rows', n;
END $$;
SELECT v, count(*), min(id), max(id) FROM walk WHERE id >= 1000 GROUP BY v;
DROP TABLE walk;
