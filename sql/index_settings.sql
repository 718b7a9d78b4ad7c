-- Indexes on text that some settings have written otherwise: whoever deletes a row has others than
-- who wrote it, and who reads has others again. Who has others than by default does not use them.
CREATE FUNCTION by_index(q text) RETURNS text LANGUAGE plpgsql
	SET enable_seqscan = off SET enable_bitmapscan = off SET rose.enable_scan = off AS $$
DECLARE result text; line text; plan text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || q LOOP plan := plan || line; END LOOP;
	EXECUTE q INTO result;
	RETURN CASE WHEN plan ~ 'Index' THEN 'by index: ' ELSE '' END || result;
END $$;

CREATE TABLE of_rose (id int PRIMARY KEY, f float8, b bytea, q text, p point) USING rose;
CREATE TABLE of_heap (id int PRIMARY KEY, f float8, b bytea, q text, p point) USING heap;
DO $$
DECLARE t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['of_rose', 'of_heap']
	LOOP
		EXECUTE format('CREATE INDEX ON %s ((f::text))', t);
		EXECUTE format('CREATE INDEX ON %s ((b::text), id)', t);
		EXECUTE format('CREATE INDEX ON %s (quote_ident(q))', t);
		EXECUTE format('CREATE INDEX ON %s ((p::text))', t);
		EXECUTE format($q$CREATE INDEX ON %s (id) WHERE f::text LIKE '%%3' OR b::text LIKE '%%x%%'$q$, t);
	END LOOP;
END $$;
CREATE PROCEDURE in_both(s text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(s, '@', 'of_rose');
	EXECUTE replace(s, '@', 'of_heap');
END $$;
CREATE FUNCTION agree() RETURNS TABLE (what text, rose text, agrees boolean) LANGUAGE plpgsql AS $$
DECLARE q text;
BEGIN
	FOREACH q IN ARRAY ARRAY['f::text > ''''', 'b::text > ''''', 'quote_ident(q) > ''''', 'p::text > ''''', 'f::text = ''1.8'''] LOOP
		what := q;
		rose := by_index('SELECT count(*) || '' '' || coalesce(sum(id), 0) FROM of_rose WHERE ' || q);
		agrees := split_part(rose, ': ', -1) = split_part(by_index('SELECT count(*) || '' '' || coalesce(sum(id), 0) FROM of_heap WHERE ' || q), ': ', -1);
		RETURN NEXT;
	END LOOP;
END $$;

CALL in_both($$INSERT INTO @ SELECT g, g * 0.1 + 1e-15 * g, decode(lpad(to_hex(g), 8, '0'), 'hex'), 'v' || g, point(g / 3.0, g) FROM generate_series(1, 100) g$$);
SET extra_float_digits = 0;
SET bytea_output = escape;
SET quote_all_identifiers = on;
CALL in_both($$UPDATE @ SET f = f + 1.1, b = b || '\x01', q = q || 'x', p = p + point(1.1, 0.7) WHERE id % 3 = 0$$);
CALL in_both($$DELETE FROM @ WHERE id % 2 = 0$$);
CALL in_both($$INSERT INTO @ VALUES (1000, 1.8, 'x', 'new', point(1, 2))$$);
-- on heap, a value is looked for as it was written
SELECT * FROM agree() WHERE agrees IS NOT TRUE AND what <> 'f::text = ''1.8''';
RESET ALL;
SELECT * FROM agree();
-- a plan is made by the settings of its time
SET extra_float_digits = 3;
SELECT what FROM agree() WHERE rose !~ 'by index';
SET extra_float_digits = 0;
SELECT what FROM agree() WHERE rose !~ 'by index';
RESET extra_float_digits;
SET bytea_output = escape;
SELECT what FROM agree() WHERE rose !~ 'by index';
RESET bytea_output;
CALL in_both($$INSERT INTO @ SELECT g, g * 0.1, 'y', 'v' || g, NULL FROM generate_series(2, 100, 2) g$$);
CREATE UNIQUE INDEX ON of_rose (quote_ident(q));
CREATE UNIQUE INDEX ON of_rose (id) WHERE f::text > '2';
SELECT rose.merge('of_rose');
SELECT * FROM agree();
SELECT * FROM rose.check('of_rose');
DROP TABLE of_rose, of_heap;

-- everybody has the same, and not the defaults: the answers are those of heap
SET extra_float_digits = 0;
SET bytea_output = escape;
CREATE TABLE of_rose (id int PRIMARY KEY, f float8, b bytea, q text, p point, n int) USING rose;
CREATE TABLE of_heap (id int PRIMARY KEY, f float8, b bytea, q text, p point, n int) USING heap;
DO $$
DECLARE t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['of_rose', 'of_heap']
	LOOP
		EXECUTE format('CREATE INDEX ON %s ((f::text))', t);
		EXECUTE format('CREATE INDEX ON %s ((b::text))', t);
		EXECUTE format($q$CREATE INDEX ON %s (n) WHERE b::text LIKE 'a%%'$q$, t);
	END LOOP;
END $$;
CALL in_both($$INSERT INTO @ SELECT g, g * 0.1::float8, convert_to('a' || g, 'UTF8'), NULL, NULL, g FROM generate_series(1, 1000) g$$);
SELECT q, by_index(replace(q, '@', 'of_rose')), split_part(by_index(replace(q, '@', 'of_heap')), ': ', -1) FROM unnest(ARRAY[
	$$SELECT count(*) FROM @ WHERE b::text = 'a500'$$, $$SELECT count(*) FROM @ WHERE f::text = '0.3'$$, $$SELECT count(*) FROM @ WHERE b::text LIKE 'a%' AND n > 0$$,
	$$SELECT count(*) FROM @ WHERE b::text >= 'a' AND b::text < 'b'$$, $$SELECT min(f::text) FROM @ WHERE f::text > '1'$$]) q;
RESET ALL;
DROP TABLE of_rose, of_heap;

-- what core writes in SQL has casts to text inside
CREATE TABLE of_rose (id int PRIMARY KEY, f float8, b bytea, i int) USING rose;
CREATE TABLE of_heap (id int PRIMARY KEY, f float8, b bytea, i int) USING heap;
DO $$
DECLARE t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['of_rose', 'of_heap']
	LOOP
		EXECUTE format($q$CREATE INDEX ON %s (('x'::text || f))$q$, t);
		EXECUTE format($q$CREATE INDEX ON %s ((b || 'x'::text))$q$, t);
		EXECUTE format('CREATE INDEX ON %s (quote_literal(f))', t);
		EXECUTE format('CREATE INDEX ON %s (quote_nullable(b))', t);
	END LOOP;
END $$;
CALL in_both($$INSERT INTO @ SELECT g, g * 0.1 + 1e-15 * g, decode(lpad(to_hex(g), 8, '0'), 'hex'), g FROM generate_series(1, 100) g$$);
SET extra_float_digits = 0;
SET bytea_output = escape;
CALL in_both($$DELETE FROM @ WHERE id % 2 = 0$$);
CALL in_both($$UPDATE @ SET f = f + 1, b = b || '\x02' WHERE id % 3 = 0$$);
RESET ALL;
SELECT q, by_index(replace(q, '@', 'of_rose')), split_part(by_index(replace(q, '@', 'of_heap')), ': ', -1) FROM unnest(ARRAY[
	$$SELECT count(*) FROM @ WHERE 'x'::text || f > ''$$, $$SELECT count(*) FROM @ WHERE b || 'x'::text > ''$$, $$SELECT count(*) FROM @ WHERE quote_literal(f) > ''$$,
	$$SELECT count(*) FROM @ WHERE quote_nullable(b) > ''$$]) q;
SELECT * FROM rose.check('of_rose');
CREATE UNIQUE INDEX ON of_rose (('x'::text || f));
CREATE UNIQUE INDEX ON of_rose (quote_literal(b));
CREATE UNIQUE INDEX of_rose_i ON of_rose (('x'::text || i));
INSERT INTO of_rose VALUES (1001, 1, '', 5) ON CONFLICT (('x'::text || i)) DO UPDATE SET b = 'taken' RETURNING id, b;

-- a function of a user that writes text is taken apart, and one that sets settings leaves them as they are
CREATE FUNCTION text_of(float8) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1::text';
CREATE FUNCTION fails(v float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE SET extra_float_digits = 3 AS $$ BEGIN IF v < 0 THEN RAISE EXCEPTION 'no %', v; END IF; RETURN v; END $$;
CREATE INDEX of_rose_w ON of_rose (i, text_of(f));
CREATE INDEX of_rose_s ON of_rose (fails(f), (f::text));
SET extra_float_digits = 0;
SET bytea_output = escape;
INSERT INTO of_rose SELECT g, g * 0.1 + 1e-15 * g, NULL, g FROM generate_series(2000, 2099) g;
DO $$ BEGIN INSERT INTO of_rose VALUES (3000, -1); EXCEPTION WHEN raise_exception THEN NULL; END $$;
SELECT current_setting('extra_float_digits') AS digits, current_setting('bytea_output') AS bytea;
CREATE OR REPLACE FUNCTION fails(v float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE SET extra_float_digits = 3 AS $$ BEGIN RAISE EXCEPTION 'no %', v; END $$;
DELETE FROM of_rose WHERE id = 2050;
SELECT current_setting('extra_float_digits') AS digits, current_setting('bytea_output') AS bytea;
RESET ALL;
DROP INDEX of_rose_s;
SELECT by_index('SELECT count(*) FROM of_rose WHERE i >= 2000');
DROP TABLE of_rose, of_heap;
DROP FUNCTION by_index, agree, text_of, fails;
DROP PROCEDURE in_both;
