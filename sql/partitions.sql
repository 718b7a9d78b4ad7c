-- Partitioned tables with rose and heap partitions, inheritance, temporary tables.
CREATE TABLE reading (station int, at date, v int, PRIMARY KEY (station, at)) PARTITION BY RANGE (at);
CREATE TABLE reading_2025 PARTITION OF reading FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') USING rose;
CREATE TABLE reading_2026 PARTITION OF reading FOR VALUES FROM ('2026-01-01') TO ('2027-01-01') USING rose;
CREATE TABLE reading_rest PARTITION OF reading DEFAULT;
INSERT INTO reading SELECT s, date '2024-12-01' + d, s * d FROM generate_series(1, 3) s, generate_series(0, 800, 20) d;
SELECT tableoid::regclass, count(*), sum(v) FROM reading GROUP BY 1 ORDER BY 1;
SELECT rose.spill('reading_2025'), rose.merge('reading_2026');
SELECT tableoid::regclass, count(*), sum(v) FROM reading GROUP BY 1 ORDER BY 1;
SELECT * FROM reading WHERE station = 2 AND at BETWEEN '2025-12-01' AND '2026-02-01' ORDER BY station, at;
-- across partitions
UPDATE reading SET at = at + 365 WHERE station = 1 AND at < '2025-03-01';
SELECT tableoid::regclass, count(*), sum(v) FROM reading GROUP BY 1 ORDER BY 1;
INSERT INTO reading SELECT station, at, -1 FROM reading WHERE station = 3 ON CONFLICT (station, at) DO UPDATE SET v = EXCLUDED.v;
SELECT tableoid::regclass, count(*), sum(v) FROM reading GROUP BY 1 ORDER BY 1;
DELETE FROM reading WHERE v = -1;
SELECT tableoid::regclass, count(*), sum(v) FROM reading GROUP BY 1 ORDER BY 1;
ALTER TABLE reading DETACH PARTITION reading_2025;
SELECT count(*) FROM reading;
ALTER TABLE reading ATTACH PARTITION reading_2025 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
SELECT count(*) FROM reading;
DROP TABLE reading;

CREATE TABLE base (id int PRIMARY KEY, a text) USING rose;
CREATE TABLE derived (b text) INHERITS (base) USING rose;
INSERT INTO base VALUES (1, 'base');
INSERT INTO derived VALUES (2, 'derived', 'b');
SELECT rose.spill('base'), rose.spill('derived');
UPDATE base SET a = a || '!';
SELECT * FROM base ORDER BY id;
SELECT * FROM ONLY base;
DROP TABLE derived, base;
