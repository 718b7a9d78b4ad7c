-- Merges take rows in batches, by columns: keys of all kinds, runs that overlap, versions to
-- leave out, NULLs, columns that came later or are gone, values that are too long.
CREATE PROCEDURE load_runs(name text, columns text, make text, runs int) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %s (%s) USING rose', name, columns);
    EXECUTE format('CREATE TABLE %s_heap (%s)', name, columns);
    FOR r IN 1 .. runs LOOP
        EXECUTE format('INSERT INTO %s_heap SELECT %s FROM generate_series(1, 5000) i
            WHERE hashint8(i * 77 + $1) %% 3 = 0 ON CONFLICT DO NOTHING', name, make) USING r;
        EXECUTE format('INSERT INTO %s SELECT * FROM %s_heap h ORDER BY h::text COLLATE "C" ON CONFLICT DO NOTHING',
            name, name);
        EXECUTE format('DELETE FROM %s WHERE v %% 41 = $1', name) USING r;
        EXECUTE format('DELETE FROM %s_heap WHERE v %% 41 = $1', name) USING r;
        EXECUTE format('UPDATE %s SET v = v + 1, t = t || $1 WHERE v %% 7 = $1', name) USING r;
        EXECUTE format('UPDATE %s_heap SET v = v + 1, t = t || $1 WHERE v %% 7 = $1', name) USING r;
        COMMIT;
        PERFORM rose.spill(name);
        COMMIT;
    END LOOP;
    PERFORM rose.merge(name);
    COMMIT;
END $$;
CREATE FUNCTION differences(name text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT ''missing '' || left(x::text, 60) FROM (SELECT * FROM %1$s_heap EXCEPT ALL SELECT * FROM %1$s) x
        UNION ALL SELECT ''wrong '' || left(x::text, 60) FROM (SELECT * FROM %1$s EXCEPT ALL SELECT * FROM %1$s_heap) x
        UNION ALL SELECT msg FROM rose.check(%1$L)', name);
END $$;

-- keys that two numbers say all about: one, two and more columns, across their border
CALL load_runs('narrow', 'v int, k int PRIMARY KEY, t text', 'i, i * 3, ''row''', 3);
CALL load_runs('wide', 'a int, b smallint, c bigint, v int, t text, n int, PRIMARY KEY (a, b, c)',
    'i % 50 - 25, i % 7 - 3, i * 1000000007::bigint, i, ''row'', nullif(i % 1000, 7)', 3);
CALL load_runs('moments', 'place int, at timestamp, v int, t text, PRIMARY KEY (place, at)',
    'i % 9, timestamp ''2000-01-01'' - interval ''1 hour'' * (i % 100) + interval ''1 s'' * i, i, NULL', 3);
-- keys that they do not
CALL load_runs('long', 'a bigint, b bigint, c int, v int, t text, PRIMARY KEY (a, b, c)',
    'i % 2, i % 3, i, i, ''row''', 3);
CALL load_runs('texts', 'k text PRIMARY KEY, v int, t text', '''a long beginning of all keys '' || i, i, md5(i::text)', 3);
CALL load_runs('floats', 'k float8 PRIMARY KEY, v int, t text', 'i / 7.0 - 500, i, ''row''', 3);
CALL load_runs('numbers', 'k numeric PRIMARY KEY, v int, t text', 'i / 8.0 - 500, i, ''row''', 3);
SELECT name, differences(name) FROM unnest('{narrow,wide,moments,long,texts,floats,numbers}'::text[]) name;
-- what was left out is gone
SELECT sum(rows) = (SELECT count(*) FROM wide) AS only_rows FROM rose.components('wide') WHERE rows > 0;

-- columns that came later and are gone, in some of the runs
ALTER TABLE wide ADD COLUMN later text DEFAULT 'later', DROP COLUMN n;
ALTER TABLE wide_heap ADD COLUMN later text DEFAULT 'later', DROP COLUMN n;
UPDATE wide SET later = repeat('long', v % 900) WHERE v % 5 = 1;
UPDATE wide_heap SET later = repeat('long', v % 900) WHERE v % 5 = 1;
SELECT rose.spill('wide') IS NOT NULL AS spilled;
UPDATE wide SET t = NULL WHERE a = 3;
UPDATE wide_heap SET t = NULL WHERE a = 3;
SELECT rose.merge('wide');
SELECT * FROM differences('wide');
-- again, when all have all columns
UPDATE wide SET v = -v WHERE b = 1;
UPDATE wide_heap SET v = -v WHERE b = 1;
SELECT rose.merge('wide');
SELECT * FROM differences('wide');

-- no key
CREATE TABLE keyless (v int, t text) USING rose;
INSERT INTO keyless SELECT i, nullif(i % 4, 0)::text FROM generate_series(1, 5000) i;
SELECT rose.spill('keyless') IS NOT NULL AS spilled;
INSERT INTO keyless SELECT i, 'second' FROM generate_series(5001, 9000) i;
DELETE FROM keyless WHERE v % 3 = 0;
SELECT rose.merge('keyless');
SELECT count(*), sum(v), count(t) FROM keyless;
SELECT * FROM rose.check('keyless');
DROP TABLE narrow, wide, moments, long, texts, floats, numbers, keyless,
    narrow_heap, wide_heap, moments_heap, long_heap, texts_heap, floats_heap, numbers_heap;
DROP PROCEDURE load_runs;
DROP FUNCTION differences;
