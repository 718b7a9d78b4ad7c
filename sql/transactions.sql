-- Commit, rollback, savepoints and command visibility in one session.
CREATE TABLE tx (id int PRIMARY KEY, v int, note text) USING rose;
INSERT INTO tx SELECT i, i * 10, 'base' FROM generate_series(1, 10) i;
SELECT rose.spill('tx');

-- everything undone
BEGIN;
INSERT INTO tx VALUES (11, 110, 'undone');
UPDATE tx SET v = 0, note = 'undone';
DELETE FROM tx WHERE id <= 5;
SELECT count(*), sum(v) FROM tx;
ROLLBACK;
SELECT count(*), sum(v) FROM tx;
SELECT * FROM tx WHERE note <> 'base';

-- what was undone does not come back with a spill or a merge
SELECT rose.spill('tx');
SELECT rose.merge('tx');
SELECT count(*), sum(v) FROM tx;
SELECT * FROM rose.check('tx');

-- the key of an undone insert is free, the row of an undone delete is there
BEGIN;
INSERT INTO tx VALUES (11, 1, 'first');
ROLLBACK;
INSERT INTO tx VALUES (11, 2, 'second');
BEGIN;
DELETE FROM tx WHERE id = 11;
ROLLBACK;
INSERT INTO tx VALUES (11, 3, 'third');
SELECT * FROM tx WHERE id = 11;

-- savepoints
BEGIN;
UPDATE tx SET v = 1 WHERE id = 1;
SAVEPOINT a;
UPDATE tx SET v = 2 WHERE id = 1;
INSERT INTO tx VALUES (12, 12, 'a');
SAVEPOINT b;
UPDATE tx SET v = 3 WHERE id = 1;
DELETE FROM tx WHERE id = 12;
SELECT id, v, note FROM tx WHERE id IN (1, 12) ORDER BY id;
ROLLBACK TO b;
SELECT id, v, note FROM tx WHERE id IN (1, 12) ORDER BY id;
INSERT INTO tx VALUES (13, 13, 'after b');
ROLLBACK TO a;
SELECT id, v, note FROM tx WHERE id IN (1, 12, 13) ORDER BY id;
INSERT INTO tx VALUES (12, 120, 'again');
RELEASE a;
COMMIT;
SELECT id, v, note FROM tx WHERE id IN (1, 12, 13) ORDER BY id;

-- an error inside a savepoint
BEGIN;
INSERT INTO tx VALUES (14, 14, 'kept');
SAVEPOINT a;
INSERT INTO tx VALUES (15, 15, 'lost'), (14, 0, 'twice');
ROLLBACK TO a;
SELECT id, v, note FROM tx WHERE id >= 14 ORDER BY id;
INSERT INTO tx VALUES (15, 15, 'kept too');
COMMIT;
SELECT id, v, note FROM tx WHERE id >= 14 ORDER BY id;

-- exceptions in PL/pgSQL are savepoints
DO $$
BEGIN
    FOR i IN 10 .. 20 LOOP
        BEGIN
            INSERT INTO tx VALUES (i, -i, 'loop');
        EXCEPTION WHEN unique_violation THEN
            UPDATE tx SET note = note || '!' WHERE id = i;
        END;
    END LOOP;
END $$;
SELECT * FROM tx WHERE id >= 10 ORDER BY id;

-- a row updated, deleted and inserted again in one transaction
BEGIN;
UPDATE tx SET v = v + 1 WHERE id = 2;
UPDATE tx SET v = v + 1 WHERE id = 2;
DELETE FROM tx WHERE id = 2;
SELECT * FROM tx WHERE id = 2;
INSERT INTO tx VALUES (2, 2, 'reborn');
UPDATE tx SET v = v + 1 WHERE id = 2;
SELECT * FROM tx WHERE id = 2;
COMMIT;
SELECT * FROM tx WHERE id = 2;

-- a statement sees what earlier statements of its transaction wrote, not its own
BEGIN;
INSERT INTO tx SELECT id + 100, v, 'copy' FROM tx;
INSERT INTO tx SELECT id + 200, v, 'copy of copy' FROM tx;
SELECT note, count(*) FROM tx WHERE id > 100 GROUP BY note ORDER BY note;
WITH gone AS (DELETE FROM tx WHERE id > 200 RETURNING id)
SELECT (SELECT count(*) FROM gone) AS gone, (SELECT count(*) FROM tx WHERE id > 200) AS still_seen;
SELECT count(*) FROM tx WHERE id > 200;
COMMIT;

-- a function with its own snapshot in the middle of an update
CREATE FUNCTION tx_sum() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT sum(v) FROM tx';
CREATE FUNCTION tx_sum_stable() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT sum(v) FROM tx';
BEGIN;
UPDATE tx SET v = 1 WHERE id BETWEEN 1 AND 3;
SELECT tx_sum() = tx_sum_stable() AS same;
ROLLBACK;

-- repeatable read sees its own writes
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM tx;
INSERT INTO tx VALUES (999, 999, 'mine');
SELECT count(*) FROM tx;
COMMIT;

-- prepared transactions
BEGIN;
INSERT INTO tx VALUES (1000, 1, 'prepared');
UPDATE tx SET v = -1 WHERE id = 3;
PREPARE TRANSACTION 'rose_tx';
SELECT id, v FROM tx WHERE id IN (3, 1000) ORDER BY id;
SELECT rose.spill('tx');
SELECT id, v FROM tx WHERE id IN (3, 1000) ORDER BY id;
COMMIT PREPARED 'rose_tx';
SELECT id, v FROM tx WHERE id IN (3, 1000) ORDER BY id;
BEGIN;
DELETE FROM tx;
PREPARE TRANSACTION 'rose_tx';
ROLLBACK PREPARED 'rose_tx';
SELECT count(*) FROM tx;

SELECT rose.spill('tx');
SELECT rose.merge('tx');
SELECT count(*), sum(v) FROM tx;
INSERT INTO tx VALUES (1001, 1, 'in memory');
-- a statement that fails takes with it what it had at hand, though the transaction goes on
BEGIN;
DO $$
BEGIN
	FOR i IN 1 .. 300 LOOP
		BEGIN
			PERFORM 1 / (v - v) FROM tx;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END LOOP;
END
$$;
SELECT count(*) < 100 AS few_left FROM pg_backend_memory_contexts WHERE name LIKE 'rose%';
COMMIT;
SELECT * FROM rose.check('tx');
DROP FUNCTION tx_sum, tx_sum_stable;
DROP TABLE tx;
