-- What is packaged is an extension that works.
\set ON_ERROR_STOP on
CREATE EXTENSION rose;
CREATE TABLE reading (station int, at timestamptz, value float8, PRIMARY KEY (station, at)) USING rose;
INSERT INTO reading SELECT g % 10, '2026-01-01'::timestamptz + g * interval '1 min', g FROM generate_series(1, 10000) g;
SELECT rose.spill('reading');
UPDATE reading SET value = 0 WHERE station = 3;
SELECT rose.merge('reading');
SELECT relname, kind, rows, compression > 1 AS compressed FROM rose.stat_components;

DO $$
BEGIN
	ASSERT (SELECT count(*) = 10000 AND sum(value) = 45007000 FROM reading), 'rows';
	ASSERT (SELECT value = 7 FROM reading WHERE station = 7 AND at = '2026-01-01'::timestamptz + interval '7 min'), 'a lookup';
	ASSERT (SELECT count(*) = 0 FROM rose.check('reading')), 'rose.check';
	ASSERT (SELECT extversion = current_setting('rose.version') FROM pg_extension WHERE extname = 'rose'), 'versions';
END
$$;
DROP EXTENSION rose CASCADE;
