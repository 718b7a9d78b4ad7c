-- A primary key of every kind of type that has a btree order: extreme values,
-- order both ways, equality, ranges; in memory, in a run, merged.
CREATE FUNCTION key_type(type text, vals text[], extra text DEFAULT '') RETURNS TABLE (step text, answer text)
LANGUAGE plpgsql AS $$
DECLARE
    up text := 'SELECT string_agg(k::text, '' '') FROM (SELECT k FROM kt ORDER BY k) s';
    down text := 'SELECT string_agg(k::text, '' '') FROM (SELECT k FROM kt ORDER BY k DESC) s';
    val text;
    hits int := 0;
    hit int;
BEGIN
    EXECUTE format('CREATE TABLE kt (k %s %s PRIMARY KEY, v int) USING rose', type, extra);
    FOREACH val IN ARRAY vals LOOP
        EXECUTE format('INSERT INTO kt VALUES (%L, 1)', val);
    END LOOP;
    step := 'up';
    EXECUTE up INTO answer;
    RETURN NEXT;
    FOR i IN 1 .. 3 LOOP
        step := (ARRAY['memory', 'run', 'merged'])[i];
        IF i = 2 THEN
            PERFORM rose.spill('kt');
        ELSIF i = 3 THEN
            PERFORM rose.merge('kt');
        END IF;
        PERFORM set_config('enable_seqscan', 'off', true);
        FOREACH val IN ARRAY vals LOOP
            EXECUTE format('SELECT count(*) FROM kt WHERE k = %L::%s', val, type) INTO hit;
            hits := hits + hit;
            EXECUTE format('UPDATE kt SET v = v + 1 WHERE k = %L::%s', val, type);
            BEGIN
                EXECUTE format('INSERT INTO kt VALUES (%L, 0)', val);
                hits := 1000000;
            EXCEPTION WHEN unique_violation THEN
                NULL;
            END;
        END LOOP;
        EXECUTE format('SELECT %L || (SELECT count(*) FROM kt WHERE k >= %L::%s AND k <= %L::%s)',
            hits || ' ', vals[1], type, vals[array_length(vals, 1)], type)
            INTO answer;
        RETURN NEXT;
        PERFORM set_config('enable_seqscan', 'on', true);
    END LOOP;
    step := 'down';
    EXECUTE down INTO answer;
    RETURN NEXT;
    step := 'rows';
    EXECUTE 'SELECT count(*) || '' '' || sum(v) FROM kt' INTO answer;
    RETURN NEXT;
    EXECUTE 'SELECT count(*) FROM rose.check(''kt'')' INTO answer;
    step := 'problems';
    RETURN NEXT;
    DROP TABLE kt;
END $$;

SELECT * FROM key_type('int2', '{-32768,-1,0,1,32767}');
SELECT * FROM key_type('int4', '{-2147483648,-1,0,1,2147483647}');
SELECT * FROM key_type('int8', '{-9223372036854775808,-4294967296,-1,0,1,4294967296,9223372036854775807}');
SELECT * FROM key_type('oid', '{0,1,2147483648,4294967295}');
SELECT * FROM key_type('bool', '{f,t}');
SELECT * FROM key_type('"char"', '{A,a,z}');
SELECT * FROM key_type('float4', '{-Infinity,-1.5,0,1e-30,1.5,Infinity,NaN}');
SELECT * FROM key_type('float8', '{-Infinity,-1e300,-0.1,0,1e-300,0.1,1e300,Infinity,NaN}');
SELECT * FROM key_type('numeric', '{-Infinity,-1e40,-1.10,0,0.000000000000000000001,1.1,99999999999999999999.99,1e40,Infinity,NaN}');
SELECT * FROM key_type('numeric(10,2)', '{-99999999.99,-0.01,0.00,0.01,99999999.99}');
SELECT * FROM key_type('date', '{-infinity,4713-01-01 BC,1970-01-01,2000-01-01,2026-02-28,5874897-12-31,infinity}');
SET timezone = 'UTC';
SELECT * FROM key_type('timestamp', '{-infinity,0044-03-15 12:00:00 BC,2026-01-01 00:00:00.000001,2026-01-01 00:00:00.000002,infinity}');
SELECT * FROM key_type('timestamptz', '{-infinity,1970-01-01 00:00:00+00,2026-01-01 00:00:00+01,2026-01-01 00:00:00+00,infinity}');
SELECT * FROM key_type('time', '{00:00:00,12:34:56.789,24:00:00}');
SELECT * FROM key_type('timetz', '{00:00:00+02,00:00:00+01,12:00:00-05}');
SELECT * FROM key_type('interval', '{-1 year,-1 day,0,1 microsecond,29 days 23:00:00,1 mon,1 year}');
SELECT * FROM key_type('uuid', '{00000000-0000-0000-0000-000000000000,123e4567-e89b-12d3-a456-426614174000,ffffffff-ffff-ffff-ffff-ffffffffffff}');
SELECT * FROM key_type('bytea', '{"","\\x00","\\x0000","\\x01","\\xff","\\xff00"}');
SELECT * FROM key_type('text', '{"",A,B,a,aa,ab,b,"b ",z,é}', 'COLLATE "C"');
SELECT * FROM key_type('varchar(20)', '{"",a,"a ",abcdefghijklmnopqrst,b}', 'COLLATE "C"');
SELECT * FROM key_type('char(5)', '{"",a,ab,abcde,b}', 'COLLATE "C"');
SELECT * FROM key_type('name', '{Zoe,adam,zoe}');
SELECT * FROM key_type('inet', '{0.0.0.0,10.0.0.0/8,10.0.0.1,10.0.0.1/8,255.255.255.255,::1}');
SELECT * FROM key_type('cidr', '{10.0.0.0/8,10.0.0.0/16,192.168.0.0/24}');
SELECT * FROM key_type('macaddr', '{00:00:00:00:00:00,08:00:2b:01:02:03,ff:ff:ff:ff:ff:ff}');
SELECT * FROM key_type('macaddr8', '{00:00:00:00:00:00:00:00,08:00:2b:01:02:03:04:05}');
SELECT * FROM key_type('bit(4)', '{0000,0001,1000,1111}');
SELECT * FROM key_type('varbit', '{"",0,00,01,1}');
SELECT * FROM key_type('money', '{-$1.00,$0.00,$0.01,"$92,233,720,368,547,758.07"}');
SELECT * FROM key_type('pg_lsn', '{0/0,0/1,1/0,FFFFFFFF/FFFFFFFF}');
SELECT * FROM key_type('int4[]', '{"{}","{NULL}","{1}","{1,1}","{1,2}","{2}"}');
SELECT * FROM key_type('text[]', '{"{}","{a}","{a,b}","{b}"}', 'COLLATE "C"');
SELECT * FROM key_type('int4range', '{empty,"[1,3)","[1,5)","[2,3)"}');
SELECT * FROM key_type('jsonb', '{"null",1,"[]","{}"}');
SELECT * FROM key_type('tsvector', '{"","''a'':1","''b'':1"}');

-- an enum sorts by its own order
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'elated');
SELECT * FROM key_type('mood', '{sad,ok,happy,elated}');
DROP TYPE mood;

-- domains and composite types
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
SELECT * FROM key_type('positive', '{1,2,2147483647}');
DROP DOMAIN positive;
CREATE TYPE pair AS (a int, b text);
SELECT * FROM key_type('pair', '{"(,)","(1,)","(1,x)","(2,a)"}');
DROP TYPE pair;

-- equal, yet not the same: the key as written last is shown
CREATE TABLE shown (n numeric PRIMARY KEY, f float8) USING rose;
INSERT INTO shown VALUES (1.0, 0), (2.50, '-0');
INSERT INTO shown VALUES (1.000, 1);
UPDATE shown SET n = 1.000 WHERE n = 1;
SELECT * FROM shown ORDER BY n;
SELECT rose.spill('shown');
UPDATE shown SET n = 2.5 WHERE n = 2.5;
SELECT * FROM shown ORDER BY n;
SELECT rose.merge('shown');
SELECT * FROM shown ORDER BY n;
DROP TABLE shown;

-- key columns in another order than the table's, and not the first ones
CREATE TABLE reordered (v text, b int, w text, a text COLLATE "C", PRIMARY KEY (a, b)) USING rose;
INSERT INTO reordered SELECT 'v' || i, i % 3, NULL, chr(97 + i % 5) FROM generate_series(0, 14) i;
SELECT rose.spill('reordered');
SELECT a, b, v, w FROM reordered WHERE a >= 'd' ORDER BY a, b DESC;
SELECT v FROM reordered WHERE b = 1 AND a = 'c';
DROP TABLE reordered;

-- a key that is every column
CREATE TABLE all_key (a int, b int, PRIMARY KEY (b, a)) USING rose;
INSERT INTO all_key SELECT i / 3, i % 3 FROM generate_series(0, 11) i;
SELECT rose.spill('all_key');
SELECT * FROM all_key WHERE b = 1 ORDER BY b, a;
UPDATE all_key SET b = 9 WHERE a = 2 AND b = 1;
SELECT * FROM all_key ORDER BY b DESC, a DESC LIMIT 3;
DROP TABLE all_key;
DROP FUNCTION key_type;
