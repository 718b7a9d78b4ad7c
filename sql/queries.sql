-- Joins, aggregates, subqueries, CTEs, windows, writes that read: on two tables
-- whose rows lie in memory, in runs and in the merged component at once.
CREATE TABLE customer (id int PRIMARY KEY, name text, region int) USING rose;
CREATE TABLE purchase (customer int, n int, amount numeric(10, 2), day date, PRIMARY KEY (customer, n)) USING rose;
INSERT INTO customer SELECT i, 'customer ' || i, i % 4 FROM generate_series(1, 40) i;
SELECT rose.merge('customer');
INSERT INTO purchase SELECT c, n, c * 10 + n / 4.0, date '2026-01-01' + c + n FROM generate_series(1, 40) c, generate_series(1, 10) n WHERE c % 5 <> 0;
SELECT rose.spill('purchase');
UPDATE purchase SET amount = 0 WHERE n = 3;
DELETE FROM purchase WHERE n = 4 AND customer > 20;
INSERT INTO customer SELECT i, 'new ' || i, NULL FROM generate_series(41, 45) i;

SELECT region, count(*), sum(amount), min(day), max(day)
FROM customer c LEFT JOIN purchase p ON p.customer = c.id GROUP BY region ORDER BY region;
SELECT count(*) FROM customer c WHERE NOT EXISTS (SELECT FROM purchase p WHERE p.customer = c.id);
SELECT id, (SELECT sum(amount) FROM purchase p WHERE p.customer = c.id) FROM customer c WHERE id BETWEEN 18 AND 23 ORDER BY id;
SELECT customer, n, rank() OVER (PARTITION BY customer ORDER BY amount DESC, n) FROM purchase WHERE customer IN (1, 21) ORDER BY customer, 3;
SELECT region, string_agg(name, ',' ORDER BY id DESC) FROM customer WHERE id % 7 = 0 GROUP BY region ORDER BY region NULLS FIRST;
SELECT count(DISTINCT amount), count(*) FILTER (WHERE amount = 0) FROM purchase;
SELECT day, count(*) FROM purchase GROUP BY day HAVING count(*) > 8 ORDER BY day;
SELECT id FROM customer UNION SELECT customer FROM purchase ORDER BY 1 DESC LIMIT 3;
SELECT id FROM customer EXCEPT SELECT customer FROM purchase ORDER BY 1;
SELECT a.id, b.id FROM customer a JOIN customer b ON b.id = a.id + 1 AND b.region = 0 ORDER BY 1 LIMIT 3;
SELECT c.id, l.n FROM customer c, LATERAL (SELECT n FROM purchase p WHERE p.customer = c.id ORDER BY n DESC LIMIT 2) l WHERE c.id < 4 ORDER BY 1, 2;
WITH RECURSIVE chain AS (SELECT id FROM customer WHERE id = 1 UNION ALL SELECT c.id FROM customer c JOIN chain ON c.id = chain.id * 2)
SELECT * FROM chain ORDER BY id;
SELECT p FROM purchase p WHERE customer = 7 AND n = 2;
SELECT tableoid::regclass, count(*) FROM purchase GROUP BY 1;

-- writes that read
UPDATE purchase p SET amount = amount + 1000 FROM customer c WHERE c.id = p.customer AND c.region = 1 AND p.n = 1;
SELECT count(*), sum(amount) FROM purchase WHERE amount > 1000;
DELETE FROM purchase p USING customer c WHERE c.id = p.customer AND c.name = 'customer 2';
SELECT count(*) FROM purchase;
WITH copied AS (INSERT INTO purchase SELECT customer, n + 100, amount, day FROM purchase WHERE customer = 1 RETURNING n)
SELECT count(*), sum(n) FROM copied;
WITH moved AS (DELETE FROM purchase WHERE customer = 3 RETURNING *),
there AS (INSERT INTO purchase SELECT customer + 1000, n, amount, day FROM moved RETURNING *)
SELECT * FROM there ORDER BY n;
WITH a AS (UPDATE customer SET region = 9 WHERE id = 1 RETURNING *), b AS (INSERT INTO customer VALUES (100, 'cte', 1) RETURNING *)
SELECT * FROM a UNION ALL SELECT * FROM b ORDER BY id;
UPDATE customer SET (name, region) = (SELECT 'most', max(region) FROM customer) WHERE id = 2 RETURNING *;
MERGE INTO customer c USING (VALUES (1, 'merged'), (200, 'merged')) v (id, name) ON c.id = v.id
WHEN MATCHED THEN UPDATE SET name = v.name WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.name, 0);
SELECT * FROM customer WHERE name = 'merged' ORDER BY id;

-- the same after everything is merged
SELECT rose.merge('customer'), rose.merge('purchase');
SELECT region, count(*), sum(amount), min(day), max(day)
FROM customer c LEFT JOIN purchase p ON p.customer = c.id GROUP BY region ORDER BY region;
SELECT * FROM rose.check('customer');
SELECT * FROM rose.check('purchase');

-- statistics and maintenance commands
ANALYZE customer;
SELECT reltuples FROM pg_class WHERE oid = 'customer'::regclass;
VACUUM customer;
VACUUM ANALYZE purchase;
SELECT pg_relation_size('customer') > 0 AS has_size, pg_total_relation_size('customer') > 0 AS has_total;

-- a view, a materialized view, a prepared statement
CREATE VIEW rich AS SELECT customer, sum(amount) AS total FROM purchase GROUP BY customer HAVING sum(amount) > 3500;
SELECT * FROM rich ORDER BY total DESC;
CREATE MATERIALIZED VIEW totals USING rose AS SELECT customer, sum(amount) AS total FROM purchase GROUP BY customer;
SELECT count(*), sum(total) FROM totals;
DELETE FROM purchase WHERE customer = 9;
REFRESH MATERIALIZED VIEW totals;
SELECT count(*), sum(total) FROM totals;
PREPARE by_key (int) AS SELECT name FROM customer WHERE id = $1;
EXECUTE by_key(7);
EXECUTE by_key(8);
EXECUTE by_key(7777);
DEALLOCATE by_key;
DROP VIEW rich;
DROP MATERIALIZED VIEW totals;
DROP TABLE customer, purchase;
