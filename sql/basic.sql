-- A table's life: create, write, read, truncate, drop; the same answers before
-- and after rows move from memory to a run and into the merged component.
CREATE TABLE account (id bigint PRIMARY KEY, owner text, balance int NOT NULL DEFAULT 0) USING rose;
SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = 'account'::regclass;
\d account

-- empty
SELECT * FROM account;
SELECT count(*) FROM account;
UPDATE account SET balance = 1;
DELETE FROM account;
SELECT rose.spill('account');
SELECT rose.merge('account');
SELECT * FROM rose.check('account');
SELECT * FROM account ORDER BY id DESC;

-- insert
INSERT INTO account VALUES (3, 'carol', 30);
INSERT INTO account VALUES (1, 'alice', 10), (5, NULL, 50), (2, 'bob', 20);
INSERT INTO account (id, owner) VALUES (4, 'dave') RETURNING *;
SELECT * FROM account ORDER BY id;
SELECT * FROM account WHERE id = 3;
SELECT * FROM account WHERE id = 33;
SELECT * FROM account WHERE owner IS NULL;

-- a second row with the same key
INSERT INTO account VALUES (2, 'mallory', 0);
INSERT INTO account VALUES (6, 'erin', 60), (6, 'erin', 60);
SELECT count(*), sum(balance) FROM account;

-- from memory to a run
SELECT rose.spill('account');
SELECT * FROM account ORDER BY id;
INSERT INTO account VALUES (2, 'mallory', 0);

-- update and delete rows that lie in a run
UPDATE account SET balance = balance + 1 WHERE id = 1 RETURNING id, balance;
UPDATE account SET owner = 'eve' WHERE owner IS NULL;
DELETE FROM account WHERE id = 3 RETURNING *;
DELETE FROM account WHERE id = 3;
SELECT * FROM account ORDER BY id;

-- over several runs
SELECT rose.spill('account');
UPDATE account SET balance = balance * 2;
SELECT * FROM account ORDER BY id;
SELECT rose.spill('account');
INSERT INTO account VALUES (3, 'carol again', 31);
SELECT * FROM account ORDER BY id DESC;
SELECT * FROM rose.check('account');

-- into one component
SELECT rose.merge('account');
SELECT * FROM account ORDER BY id;
SELECT * FROM rose.check('account');

-- the key itself changes
UPDATE account SET id = 30 WHERE id = 3;
UPDATE account SET id = id + 100 WHERE id < 3;
UPDATE account SET id = 30 WHERE id = 4;
SELECT * FROM account ORDER BY id;
SELECT * FROM account WHERE id = 3;
SELECT rose.spill('account');
SELECT rose.merge('account');
SELECT * FROM account ORDER BY id;
INSERT INTO account VALUES (3, 'third life', 33);

-- the same row many times in one statement chain
UPDATE account SET balance = 1 WHERE id = 3;
UPDATE account SET balance = 2 WHERE id = 3;
DELETE FROM account WHERE id = 3;
INSERT INTO account VALUES (3, 'fourth life', 34);
UPDATE account SET balance = 3 WHERE id = 3;
SELECT * FROM account WHERE id = 3;

-- a statement does not see what it writes
INSERT INTO account SELECT id + 1000, owner, balance FROM account;
UPDATE account SET id = id + 5000 WHERE id >= 1000;
UPDATE account SET id = id - 5000 WHERE id >= 6000 AND balance > 10;
SELECT count(*), sum(id), sum(balance) FROM account;

-- delete everything, and again
DELETE FROM account;
SELECT * FROM account;
SELECT rose.spill('account');
SELECT count(*) FROM account;
SELECT rose.merge('account');
SELECT count(*) FROM account;
SELECT * FROM rose.check('account');
INSERT INTO account SELECT i, 'n' || i, i FROM generate_series(1, 1000) i;
SELECT count(*), sum(balance), min(id), max(id) FROM account;

-- truncate, also undone
BEGIN;
TRUNCATE account;
SELECT count(*) FROM account;
INSERT INTO account VALUES (1, 'in between', 1);
SELECT count(*) FROM account;
ROLLBACK;
SELECT count(*), sum(balance) FROM account;
TRUNCATE account;
SELECT count(*) FROM account;
INSERT INTO account VALUES (1, 'after', 1);
SELECT rose.spill('account');
TRUNCATE account;
SELECT count(*) FROM account;
SELECT * FROM rose.check('account');

-- drop, also undone; the name is free again
INSERT INTO account VALUES (7, 'seven', 7);
BEGIN;
DROP TABLE account;
ROLLBACK;
SELECT * FROM account;
DROP TABLE account;
SELECT * FROM account;
CREATE TABLE account (id int PRIMARY KEY) USING rose;
INSERT INTO account VALUES (1);
SELECT * FROM account;
DROP TABLE account;

-- created and filled in one transaction, also undone
BEGIN;
CREATE TABLE account (id int PRIMARY KEY, v text) USING rose;
INSERT INTO account SELECT i, 'v' || i FROM generate_series(1, 100) i;
SELECT count(*) FROM account;
ROLLBACK;
SELECT * FROM account;
BEGIN;
CREATE TABLE account (id int PRIMARY KEY, v text) USING rose;
INSERT INTO account SELECT i, 'v' || i FROM generate_series(1, 100) i;
COMMIT;
SELECT count(*), min(v), max(v) FROM account;

-- create table as
CREATE TABLE copied USING rose AS SELECT id, v FROM account WHERE id <= 3;
SELECT * FROM copied ORDER BY id;
DROP TABLE copied, account;
