-- COPY in and out.
CREATE TABLE loaded (a int, b text COLLATE "C", c numeric, PRIMARY KEY (a, b)) USING rose;
COPY loaded FROM stdin;
2	two	2.20
1	one	\N
1	eins	1.0
3	\\back\tslash	-1
\.
COPY loaded (b, a) FROM stdin WITH (FORMAT csv);
"four, five",4
"",5
\.
SELECT * FROM loaded ORDER BY a, b;

-- one bad line, nothing stays
COPY loaded FROM stdin;
6	six	6
seven	seven	7
\.
COPY loaded FROM stdin;
8	eight	8
2	two	0
\.
COPY loaded FROM stdin;
9	nine	9
9	nine	9
\.
SELECT count(*) FROM loaded;
SELECT rose.spill('loaded');
COPY loaded FROM stdin;
8	eight	8
2	two	0
\.
COPY loaded FROM stdin;
10	ten	10
\.
SELECT count(*), sum(a) FROM loaded;
COPY (SELECT * FROM loaded ORDER BY a DESC, b) TO stdout WITH (FORMAT csv, HEADER, NULL 'none');
SELECT rose.merge('loaded');
COPY (SELECT * FROM loaded ORDER BY a, b) TO stdout;

-- with a filter, a default and a trigger
CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.b := upper(NEW.b); RETURN NEW; END $$;
CREATE TRIGGER shout BEFORE INSERT ON loaded FOR EACH ROW EXECUTE FUNCTION shout();
ALTER TABLE loaded ALTER COLUMN c SET DEFAULT 99;
COPY loaded (a, b) FROM stdin WHERE a <> 12;
11	eleven
12	twelve
13	thirteen
\.
SELECT * FROM loaded WHERE a > 10 ORDER BY a;

-- into an empty table in the transaction that made it
BEGIN;
TRUNCATE loaded;
COPY loaded FROM stdin WITH (FREEZE);
1	frozen	1
\.
COPY loaded TO stdout;
ROLLBACK;
SELECT count(*) FROM loaded;
DROP TABLE loaded;
DROP FUNCTION shout;

-- fails before it comes to a duplicate key that was met already, and is rolled back
CREATE TABLE noted (a int PRIMARY KEY) USING rose;
CREATE FUNCTION ignore() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER ignore AFTER INSERT ON noted FOR EACH ROW WHEN (10 / (NEW.a - 5) > 0) EXECUTE FUNCTION ignore();
BEGIN;
SAVEPOINT a;
COPY noted FROM stdin;
1
5
1
\.
ROLLBACK TO a;
INSERT INTO noted VALUES (1);
SAVEPOINT b;
SAVEPOINT c;
COPY noted FROM stdin;
2
5
2
\.
ROLLBACK TO b;
INSERT INTO noted VALUES (2);
COMMIT;
SELECT * FROM noted ORDER BY a;
DROP TABLE noted;
DROP FUNCTION ignore();
