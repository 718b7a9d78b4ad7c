-- Unique secondary indexes: what two rows may not have in common, and how it is told.
SET client_min_messages = warning;
SET default_table_access_method = rose;
CREATE TABLE u (id int PRIMARY KEY, a int UNIQUE, b text, c int, d text, UNIQUE (b, c));
INSERT INTO u VALUES (1,1,'x',1,'p'),(2,2,'x',2,'q'),(3,NULL,'x',NULL,'r'),(4,NULL,'x',NULL,'s');
INSERT INTO u VALUES (5,1,'y',1,'');
INSERT INTO u VALUES (5,5,'x',2,'');
INSERT INTO u VALUES (1,1,'x',2,'');
INSERT INTO u VALUES (6,6,'z',1,''),(7,6,'z',2,'');
UPDATE u SET a = 2 WHERE id = 1;
UPDATE u SET a = 1 WHERE id = 1;
UPDATE u SET a = 3 - a WHERE id <= 2;
UPDATE u SET a = a + 10;
UPDATE u SET id = id + 100, a = a WHERE id = 1;
UPDATE u SET id = 2 WHERE id = 3;
BEGIN; DELETE FROM u WHERE id = 2; INSERT INTO u VALUES (20, 12, 'x', 2, 'again'); COMMIT;
BEGIN; DELETE FROM u WHERE id = 20; SAVEPOINT s; INSERT INTO u VALUES (21, 12, 'x', 2, 'again'); ROLLBACK TO s; INSERT INTO u VALUES (22, 12, 'x', 2, 'again'); COMMIT;
SELECT * FROM u ORDER BY id;
COPY u FROM stdin;
30	30	k	1	
31	31	k	2	
32	30	k	3	
33	33	k	4	
\.
COPY u FROM stdin;
30	30	k	1	
31	31	k	2	
32	32	k	1	
\.
SELECT * FROM u ORDER BY id;
INSERT INTO u VALUES (40, 12, 'n', 1, 'n') ON CONFLICT DO NOTHING;
INSERT INTO u VALUES (40, 12, 'n', 1, 'n') ON CONFLICT (a) DO UPDATE SET d = u.d || excluded.d RETURNING *;
INSERT INTO u VALUES (40, 40, 'x', 2, 'n') ON CONFLICT (b, c) DO UPDATE SET d = 'bc' RETURNING *;
INSERT INTO u VALUES (40, 40, 'x', 2, 'n') ON CONFLICT (a) DO UPDATE SET d = 'bc' RETURNING *;
INSERT INTO u VALUES (40, 12, 'q', 2, 'n') ON CONFLICT (id) DO UPDATE SET d = 'bc' RETURNING *;
INSERT INTO u VALUES (22, 41, 'q', 2, 'n') ON CONFLICT ON CONSTRAINT u_a_key DO UPDATE SET d = 'bc' RETURNING *;
INSERT INTO u VALUES (50, 50, 'q', 2, 'n'), (51, 50, 'q', 3, 'm') ON CONFLICT (a) DO UPDATE SET d = 'two' RETURNING *;
INSERT INTO u VALUES (50, 50, 'q', 2, 'n'), (51, 50, 'q', 3, 'm') ON CONFLICT (a) DO NOTHING RETURNING *;
INSERT INTO u VALUES (60, NULL, NULL, 3, 'm') ON CONFLICT (a) DO NOTHING RETURNING *;
MERGE INTO u USING (VALUES (12), (77)) v(a) ON u.a = v.a WHEN MATCHED THEN UPDATE SET d = 'merged', a = 77 WHEN NOT MATCHED THEN INSERT VALUES (77, v.a, 'm', 1, '');
SELECT * FROM u ORDER BY id;
CREATE UNIQUE INDEX u_d ON u (d);
UPDATE u SET d = id::text;
CREATE UNIQUE INDEX u_d ON u (d DESC NULLS LAST) INCLUDE (a, c);
CREATE UNIQUE INDEX u_nn ON u (a) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX u_b ON u (b);
UPDATE u SET a = 1000 + id WHERE a IS NULL AND id <> 3;
CREATE UNIQUE INDEX u_nn ON u (a) NULLS NOT DISTINCT;
UPDATE u SET a = NULL WHERE id = 4;
INSERT INTO u VALUES (400, NULL, 'nn', 1, 'nn');
INSERT INTO u VALUES (400, NULL, 'nn', 1, 'nn') ON CONFLICT (a) DO UPDATE SET d = 'wasnull' RETURNING *;
-- deferrable
CREATE TABLE u2 (id int PRIMARY KEY, a int UNIQUE DEFERRABLE INITIALLY DEFERRED, b int, c int UNIQUE DEFERRABLE);
INSERT INTO u2 SELECT i, i, i, i FROM generate_series(1,5) i;
UPDATE u2 SET a = a + 1, c = c + 1;
UPDATE u2 SET a = 6 - a, c = 8-c;
BEGIN; INSERT INTO u2 VALUES (10, 3, 3, 30); UPDATE u2 SET b = 9 WHERE id = 10; SELECT count(*) FROM u2; COMMIT;
BEGIN; INSERT INTO u2 VALUES (10, 3, 3, 30); UPDATE u2 SET id = 11 WHERE id = 10; COMMIT;
BEGIN; INSERT INTO u2 VALUES (10, 3, 3, 30); UPDATE u2 SET a = 31 WHERE id = 10; COMMIT;
BEGIN; INSERT INTO u2 VALUES (11, 3, 3, 31); DELETE FROM u2 WHERE id = 11; COMMIT;
BEGIN; INSERT INTO u2 VALUES (11, 3, 3, 31); SET CONSTRAINTS ALL IMMEDIATE; COMMIT;
BEGIN; INSERT INTO u2 VALUES (11, 3, 3, 31); SET CONSTRAINTS u2_a_key IMMEDIATE; ROLLBACK;
BEGIN; SAVEPOINT s; INSERT INTO u2 VALUES (11, 3, 3, 31); ROLLBACK TO s; INSERT INTO u2 VALUES (11, 90, 3, 31); COMMIT;
INSERT INTO u2 VALUES (12, 12, 3, 31);
BEGIN; SET CONSTRAINTS u2_c_key DEFERRED; INSERT INTO u2 VALUES (12, 12, 3, 31); UPDATE u2 SET c = 99 WHERE id = 11; COMMIT;
INSERT INTO u2 VALUES (13, 12, 3, 100) ON CONFLICT (a) DO NOTHING;
INSERT INTO u2 VALUES (12, 12, 3, 100) ON CONFLICT (id) DO NOTHING;
INSERT INTO u2 VALUES (14, 12, 3, 100) ON CONFLICT (id) DO NOTHING;
INSERT INTO u2 VALUES (14, 140, 3, 100) ON CONFLICT DO NOTHING;
COPY u2 FROM stdin;
20	20	1	200
21	20	1	200
22	22	1	201
\.
BEGIN;
COPY u2 FROM stdin;
20	20	1	200
21	20	1	201
22	22	1	202
\.
UPDATE u2 SET a = 21 WHERE id = 21;
COMMIT;
SELECT * FROM u2 ORDER BY id;
-- fk
CREATE TABLE fk (x int REFERENCES u (a) ON UPDATE CASCADE ON DELETE SET NULL, y text, z int, FOREIGN KEY (y, z) REFERENCES u (b, c));
INSERT INTO fk VALUES (77, 'x', 2);
INSERT INTO fk VALUES (78, 'x', 2);
INSERT INTO fk VALUES (77, 'x', 222);
UPDATE u SET a = 78 WHERE a = 77;
SELECT * FROM fk;
UPDATE u SET c = 222 WHERE c = 2 AND b = 'x';
DELETE FROM u WHERE a = 78;
ALTER TABLE u REPLICA IDENTITY USING INDEX u_b_c_key;
ALTER TABLE u ALTER b SET NOT NULL;
UPDATE u SET b = 'bb', c = id WHERE b IS NULL OR c IS NULL;
ALTER TABLE u ALTER b SET NOT NULL, ALTER c SET NOT NULL;
ALTER TABLE u REPLICA IDENTITY USING INDEX u_b_c_key;
SELECT * FROM rose.check('u');
CREATE TABLE ul (LIKE u INCLUDING ALL);
CREATE TABLE up (id int, a int, b text, PRIMARY KEY (id), UNIQUE (id, a)) PARTITION BY RANGE (id);
CREATE TABLE up1 PARTITION OF up FOR VALUES FROM (0) TO (10);
CREATE TABLE up2 (a int, id int NOT NULL, b text UNIQUE);
INSERT INTO up2 VALUES (1, 11, 'a'), (1, 12, 'b');
ALTER TABLE up ATTACH PARTITION up2 FOR VALUES FROM (10) TO (20);
INSERT INTO up VALUES (1, 1, 'a'), (2, 1, 'b');
UPDATE up SET id = 13 WHERE id = 1;
UPDATE up SET id = 14, b = 'zz' WHERE id = 1;
INSERT INTO up VALUES (14, 1, 'b') ON CONFLICT (id, a) DO UPDATE SET b = 'upd' RETURNING *;
SELECT * FROM rose.check('up1');
SELECT * FROM rose.check('up2');
SELECT * FROM up ORDER BY id;
SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint
 WHERE contype = 'u' AND conrelid IN ('u'::regclass, 'u2'::regclass, 'up'::regclass, 'up1'::regclass, 'up2'::regclass, 'ul'::regclass) ORDER BY 1::text, 2;
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid IN ('u'::regclass, 'ul'::regclass) ORDER BY 1;
INSERT INTO ul SELECT * FROM u;
INSERT INTO ul SELECT * FROM u ORDER BY id LIMIT 1;

-- spilled and merged, and what is done again
SELECT rose.spill('u'), rose.spill('u_a_key'), rose.spill('u2');
INSERT INTO u VALUES (500, 31, 'new', 500, 'new');
UPDATE u SET c = 1, b = 'k' WHERE id = 31;
INSERT INTO u2 VALUES (50, 50, 50, 3);
SELECT rose.merge('u'), rose.merge('u2');
INSERT INTO u VALUES (500, 31, 'new', 500, 'new');
UPDATE u SET c = 1, b = 'k' WHERE id = 31;
INSERT INTO u2 VALUES (50, 50, 50, 3);
DELETE FROM u WHERE a = 31;
INSERT INTO u VALUES (500, 31, 'new', 500, 'new');
BEGIN;
DELETE FROM u WHERE a = 31;
INSERT INTO u VALUES (501, 31, 'new', 501, 'new');
ROLLBACK;
INSERT INTO u VALUES (501, 31, 'new', 501, 'newer');
SELECT * FROM rose.check('u');
SELECT * FROM rose.check('u2');

-- values that are equal in other words; without a key; of a key
CREATE TABLE ubag (n numeric, t text COLLATE "C", k name, f float8, i int);
CREATE UNIQUE INDEX ubag_n ON ubag (n DESC) INCLUDE (t);
CREATE UNIQUE INDEX ubag_tf ON ubag (t DESC NULLS FIRST, f);
CREATE UNIQUE INDEX ubag_k ON ubag (k) NULLS NOT DISTINCT;
INSERT INTO ubag VALUES (1.0, 'a', 'x', 0, 1), (2, 'a', 'y', 1, 2);
INSERT INTO ubag VALUES (1.00, 'b', 'z', 0, 1);
INSERT INTO ubag VALUES (3, 'a', 'z', '-0', 1);
INSERT INTO ubag VALUES (3, 'b', NULL, 'NaN', 1);
INSERT INTO ubag VALUES (4, 'c', NULL, 0, 1);
INSERT INTO ubag VALUES (4, 'b', 'w', 'NaN', 1);
UPDATE ubag SET n = 1.000, t = 'changed' WHERE n = 1;
UPDATE ubag SET n = 1 WHERE n = 2;
UPDATE ubag SET n = -n, f = -f;
SELECT * FROM ubag ORDER BY n, t;
SELECT * FROM rose.check('ubag');
INSERT INTO ubag SELECT n + 10, t, k || i, f + 5, i FROM ubag WHERE k IS NOT NULL;
ALTER TABLE ubag ADD PRIMARY KEY (n);
INSERT INTO ubag VALUES (77, 'a', 'y', 77, 1);
CREATE UNIQUE INDEX ubag_n2 ON ubag (n, i);
UPDATE ubag SET n = n + 1 WHERE n > 5;
SELECT * FROM rose.check('ubag');
ALTER TABLE ubag DROP CONSTRAINT ubag_pkey, ALTER f TYPE numeric USING f::text::numeric;
INSERT INTO ubag VALUES (77, 'a', 'y', 77, 1);
TRUNCATE ubag;
INSERT INTO ubag VALUES (77, 'a', 'y', 77, 1);
INSERT INTO ubag VALUES (78, 'a', 'y', 78, 1);
DROP INDEX ubag_k;
INSERT INTO ubag VALUES (78, 'a', 'y', 78, 1);
SELECT * FROM rose.check('ubag');

-- a constraint by an index; one that is dropped and made anew
ALTER TABLE ubag ADD CONSTRAINT ubag_f UNIQUE (f) DEFERRABLE;
CREATE UNIQUE INDEX ubag_i ON ubag (i, n);
ALTER TABLE ubag ADD CONSTRAINT ubag_ic UNIQUE USING INDEX ubag_i DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO ubag VALUES (78, 'b', 'z', 79, 1);
UPDATE ubag SET n = 80 WHERE f = 79;
COMMIT;
BEGIN;
DROP INDEX ubag_n;
INSERT INTO ubag VALUES (78, 'c', 'z', 80, 1);
COMMIT;
UPDATE ubag SET f = 157 - f WHERE f < 80;
SELECT * FROM ubag ORDER BY n;

-- functions that write the table while it is written
CREATE TABLE utrig (id int PRIMARY KEY, a int UNIQUE, b int);
CREATE FUNCTION utrig() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		INSERT INTO utrig VALUES (NEW.id + 1000, NEW.a, NEW.b) ON CONFLICT (a) DO UPDATE SET b = utrig.b + 1;
		INSERT INTO utrig VALUES (NEW.id + 2000, NEW.b, 0);
	EXCEPTION WHEN unique_violation THEN
		UPDATE utrig SET b = b + 10 WHERE a = NEW.b;
	END;
	RETURN NEW;
END $$;
CREATE TRIGGER t BEFORE INSERT ON utrig FOR EACH ROW WHEN (NEW.id < 1000) EXECUTE FUNCTION utrig();
INSERT INTO utrig VALUES (1, 1, 100), (2, 2, 100);
INSERT INTO utrig VALUES (1, 1, 100), (2, 2, 100) ON CONFLICT (a) DO UPDATE SET b = utrig.b + 100;
INSERT INTO utrig VALUES (3, NULL, 100), (4, NULL, 101), (5, NULL, 101);
SELECT * FROM utrig ORDER BY id;
SELECT * FROM rose.check('utrig');
DROP TABLE fk, u, u2, up, ul, ubag, utrig;
DROP FUNCTION utrig;
