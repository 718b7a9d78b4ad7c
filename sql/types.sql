-- Values of every built-in type, with NULLs, come back as they were written:
-- from memory, from a run, after a merge.
SET timezone = 'UTC';
CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
CREATE TYPE point3 AS (x int, y text, z numeric);
CREATE TABLE types (
    id int PRIMARY KEY,
    c_bool bool, c_char "char", c_int2 int2, c_int4 int4, c_int8 int8, c_oid oid,
    c_float4 float4, c_float8 float8, c_numeric numeric, c_money money,
    c_text text, c_varchar varchar(40), c_bpchar char(6), c_name name, c_bytea bytea,
    c_date date, c_time time, c_timetz timetz, c_timestamp timestamp, c_timestamptz timestamptz, c_interval interval,
    c_uuid uuid, c_inet inet, c_cidr cidr, c_macaddr macaddr, c_macaddr8 macaddr8,
    c_bit bit(5), c_varbit varbit, c_json json, c_jsonb jsonb, c_jsonpath jsonpath, c_xid8 xid8, c_pg_lsn pg_lsn,
    c_point point, c_line line, c_lseg lseg, c_box box, c_path path, c_polygon polygon, c_circle circle,
    c_tsvector tsvector, c_tsquery tsquery,
    c_int4s int4[], c_texts text[], c_matrix int[][], c_int4range int4range, c_numrange numrange, c_tstzrange tstzrange,
    c_multirange int4multirange, c_enum colour, c_composite point3, c_composites point3[], c_regclass regclass
) USING rose;

INSERT INTO types VALUES (1,
    true, 'x', 12, 1234567, 123456789012345, 42,
    1.5, 2.718281828459045, 12345.678900, '$12.34',
    'text é ☃', 'varchar', 'bp', 'name', '\x00ff10',
    '2026-02-28', '12:34:56.789012', '12:34:56+02', '2026-02-28 12:34:56.789', '2026-02-28 12:34:56.789+00', '1 year 2 mons 3 days 04:05:06.7',
    '123e4567-e89b-12d3-a456-426614174000', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
    B'10101', B'101', '{"b": 1,  "a": 2}', '{"b": 1,  "a": [1, 2.50, null, "x"]}', '$.a[*] ? (@ > 1)', '123456789', '1/ABCDEF',
    '(1,2)', '{1,2,3}', '[(0,0),(1,1)]', '(1,1),(0,0)', '[(0,0),(1,1),(2,0)]', '((0,0),(1,1),(2,0))', '<(1,2),3>',
    'fat:1 cat:2A', 'fat & !rat',
    '{1,NULL,3}', '{a,"b c",NULL,"q\"uote"}', '{{1,2},{3,4}}', '[1,10)', '(1.5,2.5]', '["2026-01-01 00:00+00",)',
    '{[1,3),[5,8)}', 'green', '(1,"a,b",2.50)', '{"(1,x,)","(,,3)"}', 'pg_class');
INSERT INTO types (id) VALUES (2);
INSERT INTO types VALUES (3,
    false, '', -32768, -2147483648, -9223372036854775808, 4294967295,
    '-Infinity', 'NaN', 'NaN', '-$92,233,720,368,547,758.08',
    '', '', '', '', '',
    '-infinity', '00:00', '00:00+15:59', '-infinity', 'infinity', '-178000000 years',
    '00000000-0000-0000-0000-000000000000', '::', '::/0', '00:00:00:00:00:00', '00:00:00:00:00:00:00:00',
    B'00000', B'', 'null', 'null', '$', '0', '0/0',
    '(-Infinity,NaN)', '{1,0,0}', '[(0,0),(0,0)]', '(0,0),(0,0)', '((0,0))', '((0,0))', '<(0,0),0>',
    '', '',
    '{}', '{}', '{}', 'empty', '(,)', 'empty',
    '{}', 'red', '(,,)', '{}', '0');

CREATE VIEW types_text AS SELECT id, t.c_float8::text AS f8, md5(t::text) AS hash FROM types t;
CREATE TEMP TABLE written AS SELECT * FROM types_text;
\x on
SELECT * FROM types ORDER BY id;
SELECT rose.spill('types');
SELECT * FROM types ORDER BY id;
\x off
SELECT count(*) FROM types_text JOIN written USING (id, hash);
SELECT rose.merge('types');
SELECT count(*) FROM types_text JOIN written USING (id, hash);

-- many rows, so that every codec meets constant, sorted, repeated and random
-- columns, and NULLs in each of them
INSERT INTO types (id, c_bool, c_int2, c_int4, c_int8, c_float4, c_float8, c_numeric, c_text, c_varchar, c_bpchar,
    c_bytea, c_date, c_timestamptz, c_interval, c_uuid, c_inet, c_jsonb, c_int4s, c_texts, c_numrange, c_enum)
SELECT i, nullif(i % 3, 0) = 1, i % 100, i, i::bigint * i * i, i / 4.0, sqrt(i), i / 100.0,
    CASE WHEN i % 5 <> 0 THEN 'text ' || i % 50 END, repeat('v', i % 40), 'c' || i % 7,
    decode(md5(i::text), 'hex'), date '2000-01-01' + i, timestamptz '2026-01-01 00:00+00' + i * interval '1 s',
    i * interval '1 hour', md5(i::text)::uuid, ('10.0.' || i / 256 % 256 || '.' || i % 256)::inet,
    jsonb_build_object('i', i, 'even', i % 2 = 0), CASE WHEN i % 11 <> 0 THEN ARRAY[i, i + 1, NULL] END,
    ARRAY['a' || i % 3, NULL], numrange(i, i + 0.5), (ARRAY['red', 'green', 'blue', NULL])[1 + i % 4]::colour
FROM generate_series(10, 3000) i;
DROP TABLE written;
CREATE TEMP TABLE written AS SELECT * FROM types_text;
SELECT rose.spill('types');
SELECT count(*), count(w.id) FROM types_text LEFT JOIN written w USING (id, hash);
UPDATE types SET c_int4 = NULL, c_text = 'changed', c_bool = NOT c_bool WHERE id % 4 = 0;
DROP TABLE written;
CREATE TEMP TABLE written AS SELECT * FROM types_text;
SELECT rose.merge('types');
SELECT count(*), count(w.id) FROM types_text LEFT JOIN written w USING (id, hash);
SELECT count(c_bool), count(c_int4), sum(c_int4), sum(c_int8), sum(c_numeric), count(c_text), min(c_text), max(c_varchar),
    max(c_date), sum(length(c_bytea)), count(c_enum), sum(c_int4s[2]) FROM types;
SELECT c_enum, count(*) FROM types GROUP BY c_enum ORDER BY c_enum;
SELECT count(*) FROM types WHERE c_jsonb @> '{"even": true}';
SELECT count(*) FROM types WHERE c_numrange @> 100.25;
SELECT * FROM rose.check('types');

-- float zeros keep their sign, numerics their scale
UPDATE types SET c_float8 = '-0', c_numeric = 1.500 WHERE id = 1;
UPDATE types SET c_float8 = '0', c_numeric = 1.5 WHERE id = 2;
SELECT rose.merge('types');
SELECT id, c_float8, c_numeric FROM types WHERE id <= 2 ORDER BY id;
DROP VIEW types_text;
DROP TABLE types, written;
DROP TYPE colour, point3;

-- dropped and added columns
CREATE TABLE shape (id int PRIMARY KEY, a int, b text, c int) USING rose;
INSERT INTO shape SELECT i, i, 'b' || i, i FROM generate_series(1, 5) i;
SELECT rose.spill('shape');
ALTER TABLE shape DROP COLUMN b;
SELECT * FROM shape ORDER BY id;
INSERT INTO shape VALUES (6, 6, 6);
SELECT rose.spill('shape');
ALTER TABLE shape ADD COLUMN d text;
ALTER TABLE shape ADD COLUMN e int NOT NULL DEFAULT 7;
INSERT INTO shape VALUES (7, 7, 7, 'seven', 8);
SELECT * FROM shape ORDER BY id;
UPDATE shape SET d = 'x' WHERE id = 2;
SELECT rose.merge('shape');
SELECT * FROM shape ORDER BY id;
SELECT * FROM rose.check('shape');
DROP TABLE shape;

-- generated columns, no columns at all
CREATE TABLE generated (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED) USING rose;
INSERT INTO generated (a) VALUES (1), (2);
UPDATE generated SET a = 5 WHERE id = 2;
SELECT rose.spill('generated');
SELECT * FROM generated ORDER BY id;
DROP TABLE generated;
CREATE TABLE nothing () USING rose;
INSERT INTO nothing DEFAULT VALUES;
INSERT INTO nothing DEFAULT VALUES;
SELECT count(*) FROM nothing;
SELECT rose.spill('nothing');
SELECT count(*) FROM nothing;
DROP TABLE nothing;
