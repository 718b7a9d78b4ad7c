-- Paths of the executor that are easy to get wrong.
CREATE TABLE walk (id int PRIMARY KEY, v text) USING rose;
INSERT INTO walk SELECT i, 'v' || i FROM generate_series(1, 6) i;
SELECT rose.spill('walk');

-- WHERE CURRENT OF follows the row, not the key
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM walk WHERE id > 1;
FETCH 1 FROM c;
UPDATE walk SET id = 20 WHERE id = 2;
INSERT INTO walk VALUES (2, 'another two');
UPDATE walk SET v = 'followed' WHERE CURRENT OF c RETURNING *;
UPDATE walk SET id = 21 WHERE id = 20;
UPDATE walk SET id = 22, v = v || ' twice' WHERE CURRENT OF c RETURNING *;
DELETE FROM walk WHERE id = 2;
FETCH 1 FROM c;
DELETE FROM walk WHERE id = 3;
INSERT INTO walk VALUES (3, 'another three');
DELETE FROM walk WHERE CURRENT OF c RETURNING *;
FETCH 1 FROM c;
UPDATE walk SET v = 'a';
UPDATE walk SET v = v || 'b' WHERE id = 4;
UPDATE walk SET v = v || 'c' WHERE CURRENT OF c RETURNING *;
SELECT * FROM walk ORDER BY id;
COMMIT;

-- bounds of whole rows and of columns together
CREATE TABLE pair (a int, b int, PRIMARY KEY (a, b)) USING rose;
INSERT INTO pair SELECT i, j FROM generate_series(1, 10) i, generate_series(1, 5) j;
SET enable_seqscan = off;
SELECT count(*) FROM pair WHERE (a, b) <= (5, 3) AND a < 5;
SELECT count(*) FROM pair WHERE a < 5 AND (a, b) <= (5, 3);
SELECT count(*) FROM pair WHERE (a, b) >= (5, 3) AND a > 5;
SELECT count(*) FROM pair WHERE a > 5 AND (a, b) >= (5, 3);
SELECT count(*) FROM pair WHERE (a, b) >= (5, 3) AND a >= 5;
SELECT count(*) FROM pair WHERE (a, b) > (5, 3) AND a <= 5;
SELECT count(*) FROM pair WHERE (a, b) < (5, 3) AND (a, b) >= (5, 1);
SELECT count(*) FROM pair WHERE (a, b) < (5, 3) AND (a, b) <= (5, 3) AND a <= 5;

-- < ANY and the like
SELECT count(*) FROM pair WHERE a < ANY (ARRAY[3, 5]);
SELECT count(*) FROM pair WHERE a >= ANY (ARRAY[9, NULL, 8]);
SELECT count(*) FROM pair WHERE a > ANY ('{}');
SELECT count(*) FROM pair WHERE a <= ANY (ARRAY[NULL::int]);
SELECT count(*) FROM pair WHERE a < ANY (ARRAY[3, 5]::bigint[]);
SELECT count(*) FROM pair WHERE a < ALL (ARRAY[3, 5]);
SELECT count(*) FROM pair WHERE a = 4 AND b > ANY (ARRAY[4, 2]) AND b < ANY (ARRAY[1, 4]);

-- whole keys are looked up
SELECT * FROM pair WHERE a = 3 AND b = 4;
SELECT * FROM pair WHERE a = 3 AND b = 40;
SELECT * FROM pair WHERE a IN (3, 9, 11) AND b IN (2, 1, 6) ORDER BY a DESC, b DESC;
SELECT * FROM pair WHERE a = ANY (ARRAY[7, 7, 2]) AND b = 5::bigint;
SELECT count(*) FROM pair x JOIN pair y ON y.a = x.b AND y.b = x.b;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM pair WHERE a IN (1, 2, 3) AND b = 2 ORDER BY a, b;
FETCH 2 FROM c;
UPDATE pair SET b = 12 WHERE b = 2;
FETCH BACKWARD 2 FROM c;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
FETCH 1 FROM c;
ROLLBACK;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_sort = off;
SELECT x.a, y.a FROM pair x JOIN pair y ON x.a = y.a AND x.b = y.b WHERE x.a = 2 AND x.b = 2 AND y.a = 2 AND y.b IN (2, 3);
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_sort;

-- dates and timestamps compared with each other
SET timezone = 'Europe/Berlin';
CREATE TABLE ts (t timestamptz, n int, PRIMARY KEY (t, n)) USING rose;
CREATE TABLE heap_ts (t timestamptz, n int, PRIMARY KEY (t, n));
INSERT INTO heap_ts SELECT timestamptz '2024-03-30 00:00' + i * interval '10 min', i FROM generate_series(0, 999) i;
INSERT INTO heap_ts VALUES ('infinity', 1), ('-infinity', 2);
INSERT INTO ts SELECT * FROM heap_ts;
SELECT (SELECT count(*) FROM ts WHERE t >= date '2024-03-31' AND t < timestamp '2024-03-31 03:00') AS rose,
       (SELECT count(*) FROM heap_ts WHERE t >= date '2024-03-31' AND t < timestamp '2024-03-31 03:00') AS heap;
SELECT (SELECT count(*) FROM ts WHERE t = ANY (ARRAY[date '2024-03-31', '2024-04-01'])) AS rose,
       (SELECT count(*) FROM heap_ts WHERE t = ANY (ARRAY[date '2024-03-31', '2024-04-01'])) AS heap;
SELECT (SELECT count(*) FROM ts WHERE t < date '5874897-12-31') AS rose,
       (SELECT count(*) FROM heap_ts WHERE t < date '5874897-12-31') AS heap;
SELECT (SELECT count(*) FROM ts WHERE t <= date 'infinity' AND t > date '-infinity') AS rose,
       (SELECT count(*) FROM heap_ts WHERE t <= date 'infinity' AND t > date '-infinity') AS heap;
CREATE TABLE tsn (t timestamp PRIMARY KEY) USING rose;
INSERT INTO tsn SELECT timestamp '2024-03-31' + i * interval '30 min' FROM generate_series(0, 99) i;
SELECT count(*) FROM tsn WHERE t > date '2024-03-31' AND t <= date '2024-04-01';
SELECT count(*) FROM tsn WHERE t < timestamptz '2024-03-31 04:00';
CREATE TABLE days (d date PRIMARY KEY) USING rose;
INSERT INTO days SELECT date '2024-01-01' + i FROM generate_series(0, 99) i;
SELECT count(*) FROM days WHERE d > timestamp '2024-01-31 12:00';
SELECT count(*) FROM days WHERE d = timestamptz '2024-01-31';
RESET timezone;
RESET enable_seqscan;

-- a relcache entry that goes between the statements of a transaction
SELECT rose.spill('pair');
BEGIN;
UPDATE pair SET b = b + 100 WHERE a = 2 AND b = 1;
ANALYZE pair;
UPDATE pair SET b = b + 100 WHERE a = 2 AND b = 2 RETURNING *;
ANALYZE pair;
SELECT * FROM pair WHERE a = 2 AND b = 3 FOR UPDATE;
ANALYZE pair;
DELETE FROM pair WHERE a = 2 AND b = 3 RETURNING *;
COMMIT;
SELECT * FROM pair WHERE a = 2 ORDER BY b;
DROP TABLE walk, pair, ts, heap_ts, tsn, days;
