-- Values from a byte to some megabytes: around the sizes where a value leaves
-- its page, compressible and not.
CREATE TABLE big (id int PRIMARY KEY, v text, w bytea) USING rose;

-- a string of n characters that does not compress
CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(string_agg(md5(seed || ' ' || i), ''), 1, n) FROM generate_series(0, n / 32) i
$$;

INSERT INTO big SELECT n, repeat('x', n), NULL FROM unnest(ARRAY[0, 1, 125, 126, 127, 128, 1000, 1999, 2000, 2001, 2040, 4000, 8000, 8140, 8192, 8200, 20000, 65535, 65536, 100000]) n;
INSERT INTO big SELECT 1000000 + n, noise(n, n), decode(md5(n::text), 'hex') FROM unnest(ARRAY[1, 126, 127, 1000, 1999, 2000, 2001, 2040, 4000, 8000, 8140, 8192, 8200, 20000, 65535, 65536, 100000]) n;
INSERT INTO big VALUES (5000000, repeat('megabytes ', 500000), NULL);
INSERT INTO big VALUES (5000001, noise(5, 3000000), decode(noise(6, 1000000), 'hex'));

CREATE VIEW sizes AS SELECT id, length(v) AS chars, md5(v) AS hash, length(w) AS bytes, md5(w) AS whash FROM big;
CREATE TEMP TABLE written AS SELECT * FROM sizes;
SELECT * FROM sizes ORDER BY id;
SELECT rose.spill('big');
SELECT count(*) FROM (SELECT * FROM sizes EXCEPT SELECT * FROM written) d;
SELECT rose.merge('big');
SELECT count(*) FROM (SELECT * FROM sizes EXCEPT SELECT * FROM written) d;
SELECT count(*), sum(chars), sum(bytes) FROM sizes;

-- a sort that takes the rows as they come from the table
SELECT count(id), sum(length(v)), sum(length(w)) FROM (SELECT * FROM big ORDER BY w, id OFFSET 0) sorted;

-- slices, lookups, and updates that leave the big column alone
SELECT substr(v, 2999990, 20) = substr(noise(5, 3000000), 2999990, 20) AS slice FROM big WHERE id = 5000001;
UPDATE big SET w = '\x01' WHERE id >= 5000000;
SELECT id, chars, hash = (SELECT hash FROM written WHERE written.id = sizes.id) AS same, bytes FROM sizes WHERE id >= 5000000 ORDER BY id;
SELECT rose.spill('big');
SELECT id, chars, hash = (SELECT hash FROM written WHERE written.id = sizes.id) AS same, bytes FROM sizes WHERE id >= 5000000 ORDER BY id;

-- big to small, small to big, undone
UPDATE big SET v = 'small' WHERE id = 5000000;
BEGIN;
UPDATE big SET v = noise(id, 300000) WHERE id < 130;
SELECT count(*), sum(length(v)) FROM big WHERE id < 130;
ROLLBACK;
SELECT count(*), sum(length(v)) FROM big WHERE id < 130;
UPDATE big SET v = noise(id, 300000) WHERE id < 130;
SELECT rose.merge('big');
SELECT count(*), sum(length(v)), md5(string_agg(v, '' ORDER BY id)) FROM big WHERE id < 130;
SELECT v FROM big WHERE id = 5000000;
SELECT * FROM rose.check('big');

-- a value compressed or stored outside by another table
CREATE TABLE source (id int, v text);
ALTER TABLE source ALTER COLUMN v SET STORAGE EXTERNAL;
INSERT INTO source VALUES (1, noise(1, 100000));
INSERT INTO big SELECT 7000000 + id, v FROM source;
DROP TABLE source;
SELECT v = noise(1, 100000) AS same FROM big WHERE id = 7000001;
CREATE TABLE source (id int, v text);
INSERT INTO source VALUES (2, repeat('compressed ', 100000));
INSERT INTO big SELECT 7000000 + id, v FROM source;
DROP TABLE source;
SELECT rose.spill('big');
SELECT v = repeat('compressed ', 100000) AS same FROM big WHERE id = 7000002;

-- wide rows
DO $$
BEGIN
    EXECUTE 'CREATE TABLE wide (id int PRIMARY KEY, ' ||
        (SELECT string_agg('c' || i || ' ' || (ARRAY['int', 'text', 'bigint', 'numeric'])[1 + i % 4], ', ') FROM generate_series(1, 400) i) ||
        ') USING rose';
    EXECUTE 'INSERT INTO wide SELECT g, ' ||
        (SELECT string_agg(CASE WHEN i % 4 = 1 THEN format('(g * %s)::text', i) ELSE format('g * %s', i) END, ', ') FROM generate_series(1, 400) i) ||
        ' FROM generate_series(1, 50) g';
END $$;
SELECT md5(string_agg(w::text, ' ' ORDER BY id)) FROM wide w;
SELECT rose.spill('wide');
SELECT md5(string_agg(w::text, ' ' ORDER BY id)) FROM wide w;
SELECT id, c1, c2, c399, c400 FROM wide WHERE id = 17;
DROP TABLE wide;
DROP VIEW sizes;
DROP TABLE big, written;
DROP FUNCTION noise;
