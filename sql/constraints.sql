-- ON CONFLICT, foreign keys, checks and triggers.
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, stock int CHECK (stock >= 0)) USING rose;
INSERT INTO item VALUES (1, 'one', 1), (2, 'two', 2);
SELECT rose.spill('item');

-- constraints
INSERT INTO item VALUES (3, NULL, 3);
INSERT INTO item VALUES (3, 'three', -3);
INSERT INTO item VALUES (NULL, 'none', 0);
UPDATE item SET stock = stock - 2;
UPDATE item SET id = NULL WHERE id = 1;
SELECT * FROM item ORDER BY id;

-- on conflict
INSERT INTO item VALUES (2, 'second', 0), (3, 'three', 3) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO item VALUES (2, 'second', 20), (4, 'four', 4) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, stock = item.stock + EXCLUDED.stock RETURNING *;
INSERT INTO item VALUES (4, 'x', 0) ON CONFLICT (id) DO UPDATE SET stock = 0 WHERE item.name = 'nobody' RETURNING *;
INSERT INTO item VALUES (5, 'a', 1), (5, 'b', 2) ON CONFLICT (id) DO UPDATE SET stock = 9;
INSERT INTO item VALUES (5, 'a', 1), (5, 'b', 2) ON CONFLICT (id) DO NOTHING;
INSERT INTO item VALUES (2, 'v', 1) ON CONFLICT ON CONSTRAINT item_pkey DO UPDATE SET id = 22;
INSERT INTO item VALUES (2, 'two again', 1) ON CONFLICT (name) DO NOTHING;
SELECT * FROM item ORDER BY id;
SELECT rose.merge('item');
INSERT INTO item SELECT i, 'bulk', i FROM generate_series(1, 30) i ON CONFLICT (id) DO UPDATE SET stock = item.stock + 100;
SELECT count(*), sum(stock) FROM item;

-- foreign keys between rose tables, and to and from heap
CREATE TABLE part (item int REFERENCES item ON DELETE CASCADE ON UPDATE CASCADE, n int, PRIMARY KEY (item, n)) USING rose;
CREATE TABLE review (item int REFERENCES item ON DELETE SET NULL, body text);
CREATE TABLE heap_parent (id int PRIMARY KEY);
CREATE TABLE rose_child (id int PRIMARY KEY, parent int REFERENCES heap_parent) USING rose;
INSERT INTO part VALUES (1, 1), (1, 2), (2, 1);
INSERT INTO part VALUES (999, 1);
INSERT INTO review VALUES (1, 'good'), (2, 'bad');
INSERT INTO review VALUES (999, 'ugly');
SELECT rose.spill('part');
DELETE FROM item WHERE id = 1;
SELECT * FROM part ORDER BY item, n;
SELECT * FROM review ORDER BY body;
UPDATE item SET id = 100 WHERE id = 2;
UPDATE item SET id = 101 WHERE id = 3;
SELECT * FROM part ORDER BY item, n;
SELECT * FROM review ORDER BY body;
INSERT INTO heap_parent VALUES (1), (2);
INSERT INTO rose_child VALUES (1, 1), (2, NULL);
INSERT INTO rose_child VALUES (3, 3);
UPDATE rose_child SET parent = 5 WHERE id = 1;
DELETE FROM heap_parent WHERE id = 1;
DELETE FROM heap_parent WHERE id = 2;
SELECT * FROM rose_child ORDER BY id;

-- deferred checks look at versions that were superseded since
CREATE TABLE node (id int PRIMARY KEY, parent int REFERENCES node DEFERRABLE INITIALLY DEFERRED) USING rose;
BEGIN;
INSERT INTO node VALUES (1, 2), (2, 3);
INSERT INTO node VALUES (3, 1);
UPDATE node SET parent = 1 WHERE id = 1;
SELECT rose.spill('node');
DELETE FROM node WHERE id = 2;
UPDATE node SET parent = NULL WHERE id = 1;
COMMIT;
SELECT * FROM node ORDER BY id;
BEGIN;
INSERT INTO node VALUES (10, 11);
COMMIT;
BEGIN;
INSERT INTO node VALUES (10, 11);
UPDATE node SET parent = 10;
COMMIT;
SELECT * FROM node ORDER BY id;

-- triggers: before and after, row and statement, deferred
CREATE TABLE audit (n serial, op text, old_row text, new_row text);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (op, old_row, new_row) VALUES (TG_WHEN || ' ' || TG_OP, OLD::text, NEW::text);
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;
CREATE TABLE watched (id int PRIMARY KEY, v text) USING rose;
CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION audit();
CREATE TRIGGER a AFTER INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION audit();
CREATE CONSTRAINT TRIGGER d AFTER UPDATE ON watched DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION audit();
INSERT INTO watched VALUES (1, 'a'), (2, 'b');
SELECT rose.spill('watched');
BEGIN;
UPDATE watched SET v = v || '!' WHERE id = 1;
UPDATE watched SET v = v || '?' WHERE id = 1;
UPDATE watched SET id = 10 WHERE id = 1;
DELETE FROM watched WHERE id = 10;
COMMIT;
INSERT INTO watched VALUES (2, 'c') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
SELECT op, old_row, new_row FROM audit ORDER BY n;

-- transition tables
CREATE FUNCTION totals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% rows, %', (SELECT count(*) FROM now_rows), (SELECT string_agg(v, ',' ORDER BY id) FROM now_rows);
    RETURN NULL;
END $$;
DROP TRIGGER a ON watched;
DROP TRIGGER b ON watched;
CREATE TRIGGER s AFTER UPDATE ON watched REFERENCING NEW TABLE AS now_rows FOR EACH STATEMENT EXECUTE FUNCTION totals();
INSERT INTO watched VALUES (3, 'x'), (4, 'y');
UPDATE watched SET v = v || v;

-- a trigger that changes the row that is being changed
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE watched SET v = 'meddled' WHERE id = OLD.id; RETURN NEW; END $$;
CREATE TRIGGER m BEFORE UPDATE ON watched FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION meddle();
UPDATE watched SET v = 'mine' WHERE id = 3;
SELECT * FROM watched ORDER BY id;

DROP TABLE watched, audit, node, rose_child, heap_parent, review, part, item;
DROP FUNCTION audit, totals, meddle;
