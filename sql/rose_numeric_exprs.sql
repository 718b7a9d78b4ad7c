-- Rose Aggregate: arithmetic of numerics as integers, and conditions on numeric columns. The same as row by row, and as of heap, digit by digit.
SET client_min_messages = warning;
SET rose.enable_scan = on;
CREATE DOMAIN rnx_amount AS numeric(15,2);
CREATE TABLE rnx (a int, b int, price numeric(15,2), part numeric(15,2), tax numeric(4,3), own rnx_amount, mixed numeric, fine numeric, big numeric, odd numeric, i int, w bigint, k int, PRIMARY KEY (a, b)) USING rose;
ALTER TABLE rnx SET (autovacuum_enabled = off);
CREATE TABLE rnx_heap (LIKE rnx INCLUDING ALL) USING heap;
CREATE PROCEDURE rnx_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(statement, '@', 'rnx');
	EXECUTE replace(statement, '@', 'rnx_heap');
END $$;
CREATE FUNCTION rnx_plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS off) ' || query;
END $$;
CREATE FUNCTION rnx_said(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	said text[];
BEGIN
	EXECUTE 'SELECT array_agg(x::text ORDER BY x::text) FROM (' || query || ') x' INTO said;
	RETURN said;
EXCEPTION WHEN OTHERS THEN
	RETURN ARRAY[SQLSTATE, SQLERRM];
END $$;
-- a query of @: by Rose Aggregate, in much memory and in none; by core's aggregates of the same rows; and of heap
CREATE FUNCTION rnx_same(query text, sure bool) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	vectors text[] := rnx_said(replace(query, '@', 'rnx'));
	parts text[];
	rows text[];
	heap text[] := rnx_said(replace(query, '@', 'rnx_heap'));
BEGIN
	IF sure AND NOT EXISTS (SELECT FROM rnx_plan(replace(query, '@', 'rnx')) line WHERE line ~ 'Rose Aggregate') THEN
		RAISE 'not by Rose Aggregate: %', query;
	END IF;
	SET LOCAL rose.aggregate_memory = '4kB';
	parts := rnx_said(replace(query, '@', 'rnx'));
	SET LOCAL rose.aggregate_memory = -1;
	SET LOCAL rose.enable_aggregate = off;
	rows := rnx_said(replace(query, '@', 'rnx'));
	SET LOCAL rose.enable_aggregate = on;
	IF vectors IS DISTINCT FROM rows OR vectors IS DISTINCT FROM parts OR vectors IS DISTINCT FROM heap THEN
		RAISE EXCEPTION E'%\nvectors %\nrows %\nheap %\nparts %', query, vectors, rows, heap, parts;
	END IF;
	RETURN coalesce(array_length(vectors, 1), 0);
END $$;
CREATE TABLE rnx_queries (n serial, q text, sure bool DEFAULT true);
-- values of one scale and of several; integers; parts of a query that some rows fail in, or cannot be integers in
INSERT INTO rnx_queries (q)
	SELECT 'SELECT ' || CASE WHEN keys = '' THEN '' ELSE keys || ', ' END || list || ' FROM @' || cond || CASE WHEN keys = '' THEN '' ELSE ' GROUP BY ' || keys END
	FROM unnest(ARRAY['sum(price * (1 - part)), sum(price * (1 - part) * (1 + tax)), avg(price), sum(price), count(part * 2)', 'sum(price - tax * 3 + 0.125), avg(-own), sum(own * part), count(*)',
		'sum(mixed * price), avg(mixed + tax), sum(-mixed), sum(mixed - 7), avg(mixed * mixed)', 'sum(fine * 2), sum(fine * fine), sum(1 - fine), avg(fine * price)', 'sum(big + 1), sum(big - big), avg(big * 0.5), sum(price + big)',
		'sum(odd + price), avg(odd * 0), sum(odd * odd), sum(price * 2)', 'sum(price * i), sum(w * 1.5), avg(i::numeric), sum((i + k) * tax)',
		'sum(CASE WHEN part > 0.05 THEN price * part ELSE 0 END), sum(CASE WHEN mixed < 0 THEN mixed WHEN i % 3 = 0 THEN 0.5 END), sum(coalesce(mixed, tax, 1.50)), sum(coalesce(own, 0))',
		'sum(price * part) FILTER (WHERE tax >= 0.04), sum(price * part) FILTER (WHERE mixed <> 1 OR odd > 5), count(price * 2) FILTER (WHERE price * part > 10), max(i)',
		'min(price), max(price * part), trim_scale(min(mixed)), trim_scale(max(mixed * price)), max(own), count(*)', 'trim_scale(min(odd)), trim_scale(max(odd + 1)), max(big), min(-big), min(fine), max(fine * price), sum(i)', 'max(price) FILTER (WHERE mixed > 1), trim_scale(min(mixed - 1) FILTER (WHERE part = 0.05)), max(price / 7), min(abs(price))',
		'sum(price / 7), avg(round(price * part, 1)), sum((price * part)::numeric(12,1)), sum(abs(mixed) + 1)', 'sum(price * 90000000000), sum(price * 1e-9), sum(price * price * price), sum(price * 123456789.123456789)']) list,
	unnest(ARRAY['', 'a', 'k']) keys, unnest(ARRAY['', ' WHERE i % 7 <> 3 AND a >= 2', ' WHERE i % 7 < 0']) cond;
-- errors of rows that are wanted, and of those that nobody wants
INSERT INTO rnx_queries (sure, q)
	SELECT cond <> ' WHERE i < 100', 'SELECT ' || list || ' FROM @' || cond
	FROM unnest(ARRAY['sum(huge * huge), sum(price * 2)', 'sum(price * 2), avg(huge * 1e131000 * huge)', 'sum(huge * huge) FILTER (WHERE i <> 700), sum(price)', 'sum(CASE WHEN i <> 700 THEN huge * huge ELSE price END), count(huge * huge) FILTER (WHERE i < 100)',
		'sum((price * 1000)::numeric(6,2))', 'sum(huge - 1), sum(-huge)', 'sum(100 / (i - 700)), sum(huge * huge)']) list, unnest(ARRAY['', ' WHERE i <> 700', ' WHERE i < 100']) cond;
-- keys that are equal and look different
INSERT INTO rnx_queries (q)
	SELECT 'SELECT trim_scale(' || key || '), sum(price * part), count(*) FROM @ GROUP BY ' || key FROM unnest(ARRAY['mixed + 0', 'mixed * 1.0', 'mixed', 'tax - part', 'CASE WHEN mixed > 1 THEN mixed ELSE part END']) key;
-- conditions, of which some leave few rows
INSERT INTO rnx_queries (sure, q)
	SELECT false, 'SELECT count(*), sum(price * part), min(i) FROM @ WHERE ' || CASE WHEN form = 1 THEN col || ' ' || op || ' ' || val WHEN form = 2 THEN 'NOT (' || val || ' ' || op || ' ' || col || ')' ELSE '(' || col || ' ' || op || ' ' || val || ') IS NOT TRUE' END
	FROM unnest(ARRAY['price', 'part', 'own', 'mixed', 'fine', 'big', 'odd']) WITH ORDINALITY c (col, cn), unnest(ARRAY['<', '<=', '=', '<>', '>=', '>']) WITH ORDINALITY o (op, oi),
	unnest(ARRAY['0.05', '0.050', '0.045', '-250', '1', '1.00000000000000000000000001', '0', '''NaN''', '''Infinity''', '''-Infinity''', '1e30', '-1e30', '9999999999999999.5', 'NULL', '1e-20']) WITH ORDINALITY v (val, vn),
	LATERAL (SELECT (cn * 5 + oi * 3 + vn * 7) % 10 + 1 AS form) f WHERE form < 4;
INSERT INTO rnx_queries (sure, q)
	SELECT false, 'SELECT count(*), sum(price * part) FROM @ WHERE ' || cond FROM unnest(ARRAY['part BETWEEN 0.05 AND 0.07 AND price < 240', 'price IN (1, 2.50, 30.0, NULL)', 'mixed NOT IN (1, 0.5, 7)', 'mixed NOT IN (1, NULL)', 'mixed = ANY (ARRAY[1.0, 7, 0.125, ''NaN''])',
		'odd < ANY (ARRAY[0.5, ''NaN''])', 'price = ANY (''{}''::numeric[])', 'mixed IS NULL AND fine > 0', 'part > 0.03 OR mixed < 0 OR odd = ''NaN''', 'price > 100 AND 100 / (i - 700) <> 5', '(mixed > 0) IS NULL', 'own > (SELECT 0.5) AND own <= (SELECT max(tax) FROM @)']) cond;
CREATE FUNCTION rnx_all_same() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || sum(groups) FROM (SELECT rnx_same(q, sure) AS groups FROM rnx_queries ORDER BY n) x
$$;
CALL rnx_both('ALTER TABLE @ ADD COLUMN huge numeric');
CALL rnx_both($$INSERT INTO @ SELECT i % 10, i / 10, (i * 7919 % 100003) / 100.0 - 300, (i % 11) * 0.01, (i % 9) * 0.01, CASE WHEN i % 13 > 0 THEN (i % 50) * 0.03 END,
	CASE WHEN i % 9 > 0 THEN (ARRAY[1, 1.0, 1.000, 0, 0.00, -1.5, 7, 0.125, -0.0001, 12345678.901])[i % 10 + 1] * (i % 4 - 1) END, i * (0.1 ^ (i / 100))::numeric(40, 25) * CASE WHEN i % 2 = 0 THEN -1 ELSE 1 END,
	(ARRAY[9999999999999999, 10000000000000000, -9999999999999999999999999999, 1e28, 922337203685477.58, 12345678901234567890.1234, -1])[CASE WHEN i < 1500 THEN 5 + 2 * (i % 2) ELSE i % 7 + 1 END],
	(ARRAY['NaN', '1.5', 'Infinity', '-Infinity', '1e300', '-1e300', '1e-300', NULL, '7', '0.00000000000000000000'])[CASE WHEN i < 1000 THEN 2 ELSE i % 10 + 1 END]::numeric, i, i * 1000003, i % 7,
	CASE WHEN i = 700 THEN 1e131000 ELSE i * 0.5 END FROM generate_series(1, 2000) i$$);
ANALYZE rnx;
SELECT rnx_all_same();
SELECT rose.merge('rnx');
SELECT rnx_all_same();
CALL rnx_both($$UPDATE @ SET mixed = -mixed, big = big / 7, odd = -odd, price = price + 0.01 WHERE a = 3 AND i % 5 = 0$$);
CALL rnx_both($$DELETE FROM @ WHERE a = 4 AND i % 5 < 3$$);
SELECT rose.spill('rnx');
CALL rnx_both($$UPDATE @ SET price = NULL, own = NULL WHERE a = 6 AND b < 40$$);
SET rose.vector_rows = 7;
SELECT rnx_all_same();
RESET rose.vector_rows;
-- they are filters, and integers
EXPLAIN (COSTS off) SELECT k, sum(price * (1 - part)) FROM rnx WHERE part BETWEEN 0.05 AND 0.07 AND price < 24 GROUP BY k;
-- plans that do not know what they are asked
SET plan_cache_mode = force_generic_plan;
PREPARE rnx_ask (numeric, numeric) AS SELECT sum(price * part), avg(price * $2), count(*) FROM rnx WHERE part BETWEEN $1 AND $2;
PREPARE rnx_ask_heap (numeric, numeric) AS SELECT sum(price * part), avg(price * $2), count(*) FROM rnx_heap WHERE part BETWEEN $1 AND $2;
EXECUTE rnx_ask (0.05, 0.07);
EXECUTE rnx_ask_heap (0.05, 0.07);
EXECUTE rnx_ask (0.045, 0.0700);
EXECUTE rnx_ask_heap (0.045, 0.0700);
EXECUTE rnx_ask (NULL, 1);
EXECUTE rnx_ask (-1, 'NaN');
EXECUTE rnx_ask_heap (-1, 'NaN');
DEALLOCATE ALL;
RESET plan_cache_mode;
DROP TABLE rnx, rnx_heap, rnx_queries;
DROP FUNCTION rnx_plan, rnx_said, rnx_same, rnx_all_same;
DROP PROCEDURE rnx_both;
DROP DOMAIN rnx_amount;
