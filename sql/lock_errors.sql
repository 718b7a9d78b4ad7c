-- Who gives up waiting for a row is told which one, and what was to be done with it.
CREATE FUNCTION lock_error(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    context text;
BEGIN
    EXECUTE query;
    RETURN 'no error';
EXCEPTION WHEN lock_not_available THEN
    GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
    RETURN SQLERRM || ', ' || regexp_replace(split_part(context, E'\n', 1), '\(\d+,[1-9]\d*\)', '(ctid)');
END $$;
CREATE TABLE rose_rows (id int PRIMARY KEY, v int) USING rose;
CREATE TABLE heap_rows (id int PRIMARY KEY, v int) USING heap;
CREATE TABLE rose_keyless (id int, v int) USING rose;
CREATE TABLE heap_keyless (id int, v int) USING heap;
INSERT INTO rose_rows VALUES (1, 1), (2, 2), (4, 4);
INSERT INTO heap_rows TABLE rose_rows;
INSERT INTO rose_keyless TABLE rose_rows;
INSERT INTO heap_keyless TABLE rose_rows;

-- one prepared transaction holds one row, a new one, and one whose key it took away
BEGIN;
UPDATE rose_rows SET v = 0 WHERE id = 1;
UPDATE heap_rows SET v = 0 WHERE id = 1;
UPDATE rose_keyless SET v = 0 WHERE id = 1;
UPDATE heap_keyless SET v = 0 WHERE id = 1;
INSERT INTO rose_rows VALUES (3, 0);
INSERT INTO heap_rows VALUES (3, 0);
UPDATE rose_rows SET id = 5 WHERE id = 4;
UPDATE heap_rows SET id = 5 WHERE id = 4;
PREPARE TRANSACTION 'lock_errors';

\a\t
SET lock_timeout = '20ms';
SELECT statement, lock_error(replace(statement, 'ROWS', 'rose_rows')) AS rose, lock_error(replace(statement, 'ROWS', 'heap_rows')) AS heap
  FROM unnest(ARRAY[
    'UPDATE ROWS SET v = 1 WHERE id = 1', 'DELETE FROM ROWS WHERE id = 1',
    'SELECT FROM ROWS WHERE id = 1 FOR UPDATE', 'SELECT FROM ROWS WHERE id = 1 FOR SHARE NOWAIT',
    'INSERT INTO ROWS VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = 1', 'DELETE FROM ROWS WHERE id = 4',
    'INSERT INTO ROWS VALUES (3, 1)', 'INSERT INTO ROWS VALUES (7, 1), (3, 1), (8, 1)', 'INSERT INTO ROWS VALUES (5, 1)', 'UPDATE ROWS SET id = 3 WHERE id = 2',
    'INSERT INTO ROWS VALUES (3, 1) ON CONFLICT DO NOTHING']) AS statement;
SELECT statement, lock_error(replace(statement, 'ROWS', 'rose_keyless')) AS rose, lock_error(replace(statement, 'ROWS', 'heap_keyless')) AS heap
  FROM unnest(ARRAY['UPDATE ROWS SET v = 1', 'DELETE FROM ROWS', 'SELECT FROM ROWS FOR KEY SHARE', 'SELECT FROM ROWS FOR NO KEY UPDATE']) AS statement;
-- many rows in one go
COPY rose_rows FROM STDIN;
8	1
3	1
\.
RESET lock_timeout;
\a\t
ROLLBACK PREPARED 'lock_errors';

DROP TABLE rose_rows, heap_rows, rose_keyless, heap_keyless;
DROP FUNCTION lock_error;
