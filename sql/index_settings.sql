-- Indexes on text that some settings have written otherwise: whoever deletes a row has others than
-- who wrote it, and who reads has others again.
CREATE FUNCTION by_index(q text) RETURNS text LANGUAGE plpgsql
	SET enable_seqscan = off SET enable_bitmapscan = off SET rose.enable_scan = off AS $$
DECLARE result text; line text; plan text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || q LOOP plan := plan || line; END LOOP;
	IF plan !~ 'Index' THEN RETURN plan; END IF;
	EXECUTE q INTO result;
	RETURN result;
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
		agrees := rose = by_index('SELECT count(*) || '' '' || coalesce(sum(id), 0) FROM of_heap WHERE ' || q);
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
SELECT * FROM agree() WHERE agrees IS NOT TRUE;
RESET ALL;
SELECT * FROM agree();
CALL in_both($$INSERT INTO @ SELECT g, g * 0.1, 'y', 'v' || g, NULL FROM generate_series(2, 100, 2) g$$);
CREATE UNIQUE INDEX ON of_rose (quote_ident(q));
CREATE UNIQUE INDEX ON of_rose (id) WHERE f::text > '2';
SELECT rose.merge('of_rose');
SELECT * FROM agree();
SELECT * FROM rose.check('of_rose');
DROP TABLE of_rose, of_heap;
DROP FUNCTION by_index, agree;
DROP PROCEDURE in_both;
