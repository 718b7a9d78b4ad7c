-- What an application with SQLAlchemy's ORM sends: its tables, migrations with Alembic, then its work. Recorded from a server's log
-- (SQLAlchemy 2.1), without what it asks of catalogs. Each statement ends with a semicolon at the end of a line. t/sql_applications.pl sends them.

-- create_all
ROLLBACK;
BEGIN;
CREATE TYPE level AS ENUM ('low', 'high', 'top');
CREATE TABLE people (
	id SERIAL NOT NULL,
	kind VARCHAR(20) NOT NULL,
	email VARCHAR(200) NOT NULL,
	name VARCHAR(80),
	boss_id INTEGER,
	version INTEGER NOT NULL,
	CONSTRAINT pk_people PRIMARY KEY (id),
	CONSTRAINT uq_people_email UNIQUE (email),
	CONSTRAINT fk_people_boss_id_people FOREIGN KEY(boss_id) REFERENCES people (id)
);
CREATE INDEX ix_people_name ON people (name);
CREATE INDEX ix_people_boss_id ON people (boss_id);
CREATE TABLE tags (
	id SERIAL NOT NULL,
	word VARCHAR(40),
	CONSTRAINT pk_tags PRIMARY KEY (id),
	CONSTRAINT uq_tags_word UNIQUE (word)
);
CREATE TABLE engineers (
	id INTEGER NOT NULL,
	level level NOT NULL,
	skills VARCHAR(20)[],
	CONSTRAINT pk_engineers PRIMARY KEY (id),
	CONSTRAINT fk_engineers_id_people FOREIGN KEY(id) REFERENCES people (id)
);
CREATE INDEX ix_engineers_level ON engineers (level);
CREATE TABLE notes (
	id BIGINT GENERATED ALWAYS AS IDENTITY,
	author_id INTEGER NOT NULL,
	title TEXT NOT NULL,
	body TEXT,
	doc JSONB DEFAULT '{}'::jsonb,
	made TIMESTAMP WITH TIME ZONE NOT NULL,
	words INTEGER GENERATED ALWAYS AS (length(title) + coalesce(length(body), 0)) STORED,
	CONSTRAINT pk_notes PRIMARY KEY (id),
	CONSTRAINT ck_notes_title CHECK (length(title) > 0),
	CONSTRAINT fk_notes_author_id_people FOREIGN KEY(author_id) REFERENCES people (id)
);
CREATE INDEX ix_notes_author_id ON notes (author_id);
CREATE INDEX ix_notes_title_lower ON notes (lower(title));
CREATE INDEX ix_notes_author_made ON notes (author_id, made DESC);
CREATE TABLE accounts (
	branch SMALLINT NOT NULL,
	number INTEGER NOT NULL,
	balance NUMERIC(12, 2) DEFAULT '0' NOT NULL,
	owner_id INTEGER,
	CONSTRAINT pk_accounts PRIMARY KEY (branch, number),
	CONSTRAINT fk_accounts_owner_id_people FOREIGN KEY(owner_id) REFERENCES people (id) DEFERRABLE INITIALLY DEFERRED
);
CREATE TABLE note_tags (
	note_id BIGINT NOT NULL,
	tag_id INTEGER NOT NULL,
	CONSTRAINT pk_note_tags PRIMARY KEY (note_id, tag_id),
	CONSTRAINT fk_note_tags_note_id_notes FOREIGN KEY(note_id) REFERENCES notes (id) ON DELETE CASCADE,
	CONSTRAINT fk_note_tags_tag_id_tags FOREIGN KEY(tag_id) REFERENCES tags (id) ON DELETE CASCADE
);
CREATE INDEX ix_note_tags_tag_id ON note_tags (tag_id);
CREATE SEQUENCE transfer_numbers START WITH 1000;
CREATE TABLE transfers (
	id INTEGER NOT NULL,
	branch SMALLINT NOT NULL,
	number INTEGER NOT NULL,
	amount NUMERIC(12, 2) NOT NULL,
	day DATE NOT NULL,
	CONSTRAINT pk_transfers PRIMARY KEY (id),
	CONSTRAINT fk_transfers_branch_accounts FOREIGN KEY(branch, number) REFERENCES accounts (branch, number) ON UPDATE CASCADE,
	CONSTRAINT uq_once_a_day UNIQUE (branch, number, day, amount)
);
COMMIT;
BEGIN;

-- first rows
ROLLBACK;
BEGIN;
INSERT INTO people (kind, email, name, boss_id, version) SELECT p0::VARCHAR, p1::VARCHAR, p2::VARCHAR, p3::INTEGER, p4::INTEGER FROM (VALUES ('person', 'p0@x.org', 'Per 0', NULL, 1, 0), ('engineer', 'e1@x.org', 'Eng 3', NULL, 1, 1), ('person', 'p2@x.org', 'Per 2', NULL, 1, 2), ('engineer', 'e3@x.org', 'Eng 9', NULL, 1, 3), ('person', 'p4@x.org', 'Per 4', NULL, 1, 4), ('engineer', 'e5@x.org', 'Eng 4', NULL, 1, 5), ('person', 'p6@x.org', 'Per 6', NULL, 1, 6), ('engineer', 'e7@x.org', 'Eng 10', NULL, 1, 7), ('person', 'p8@x.org', 'Per 8', NULL, 1, 8), ('engineer', 'e9@x.org', 'Eng 5', NULL, 1, 9), ('person', 'p10@x.org', 'Per 10', NULL, 1, 10), ('engineer', 'e11@x.org', 'Eng 0', NULL, 1, 11), ('person', 'p12@x.org', 'Per 12', NULL, 1, 12), ('engineer', 'e13@x.org', 'Eng 6', NULL, 1, 13), ('person', 'p14@x.org', 'Per 14', NULL, 1, 14), ('engineer', 'e15@x.org', 'Eng 1', NULL, 1, 15), ('person', 'p16@x.org', 'Per 16', NULL, 1, 16), ('engineer', 'e17@x.org', 'Eng 7', NULL, 1, 17), ('person', 'p18@x.org', 'Per 18', NULL, 1, 18), ('engineer', 'e19@x.org', 'Eng 2', NULL, 1, 19), ('person', 'p20@x.org', 'Per 20', NULL, 1, 20), ('engineer', 'e21@x.org', 'Eng 8', NULL, 1, 21), ('person', 'p22@x.org', 'Per 22', NULL, 1, 22), ('engineer', 'e23@x.org', 'Eng 3', NULL, 1, 23)) AS imp_sen(p0, p1, p2, p3, p4, sen_counter) ORDER BY sen_counter RETURNING people.id, people.id AS id__1;
INSERT INTO engineers (id, level, skills) VALUES (2, 'high', ARRAY['c','s1']::VARCHAR(20)[]), (4, 'low', ARRAY['c','s3']::VARCHAR(20)[]), (6, 'top', ARRAY['c','s5']::VARCHAR(20)[]), (8, 'high', ARRAY['c','s7']::VARCHAR(20)[]), (10, 'low', ARRAY['c','s9']::VARCHAR(20)[]), (12, 'top', ARRAY['c','s11']::VARCHAR(20)[]), (14, 'high', ARRAY['c','s13']::VARCHAR(20)[]), (16, 'low', ARRAY['c','s15']::VARCHAR(20)[]), (18, 'top', ARRAY['c','s17']::VARCHAR(20)[]), (20, 'high', ARRAY['c','s19']::VARCHAR(20)[]), (22, 'low', ARRAY['c','s21']::VARCHAR(20)[]), (24, 'top', ARRAY['c','s23']::VARCHAR(20)[]);
INSERT INTO accounts (branch, number, balance, owner_id) VALUES (0, 0, 100, 1), (1, 1, 100, 2), (2, 2, 100, 3), (0, 3, 100, 4), (1, 4, 100, 5), (2, 5, 100, 6), (0, 6, 100, 7), (1, 7, 100, 8), (2, 8, 100, 9), (0, 9, 100, 10), (1, 10, 100, 11), (2, 11, 100, 12);
UPDATE people SET boss_id=1, version=2 WHERE people.id = 2 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 3 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 4 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 5 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 6 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 7 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 8 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 9 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 10 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 11 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 12 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 13 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 14 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 15 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 16 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 17 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 18 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 19 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 20 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 21 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 22 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 23 AND people.version = 1;
UPDATE people SET boss_id=1, version=2 WHERE people.id = 24 AND people.version = 1;
INSERT INTO tags (word) SELECT p0::VARCHAR FROM (VALUES ('w0', 0), ('w1', 1), ('w2', 2), ('w3', 3)) AS imp_sen(p0, sen_counter) ORDER BY sen_counter RETURNING tags.id, tags.id AS id__1;
INSERT INTO notes (author_id, title, body, doc, made) SELECT p0::INTEGER, p1::TEXT, p2::TEXT, p3::JSONB, p4::TIMESTAMP WITH TIME ZONE FROM (VALUES (1, 'Note 0', NULL, '{"n": 0, "l": [0]}'::JSONB, '2024-02-29T12:00:00+00:00'::timestamptz, 0), (2, 'Note 1', 'b', '{"n": 1, "l": [1]}'::JSONB, '2024-02-29T13:00:00+00:00'::timestamptz, 1), (3, 'Note 2', 'bb', '{"n": 2, "l": [2]}'::JSONB, '2024-02-29T14:00:00+00:00'::timestamptz, 2), (4, 'Note 3', NULL, '{"n": 3, "l": [3]}'::JSONB, '2024-02-29T15:00:00+00:00'::timestamptz, 3), (5, 'Note 4', 'bbbb', '{"n": 4, "l": [0]}'::JSONB, '2024-02-29T16:00:00+00:00'::timestamptz, 4), (6, 'Note 5', 'bbbbb', '{"n": 5, "l": [1]}'::JSONB, '2024-02-29T17:00:00+00:00'::timestamptz, 5), (7, 'Note 6', NULL, '{"n": 6, "l": [2]}'::JSONB, '2024-02-29T18:00:00+00:00'::timestamptz, 6), (8, 'Note 7', 'bbbbbbb', '{"n": 7, "l": [3]}'::JSONB, '2024-02-29T19:00:00+00:00'::timestamptz, 7), (9, 'Note 8', 'bbbbbbbb', '{"n": 8, "l": [0]}'::JSONB, '2024-02-29T20:00:00+00:00'::timestamptz, 8), (10, 'Note 9', NULL, '{"n": 9, "l": [1]}'::JSONB, '2024-02-29T21:00:00+00:00'::timestamptz, 9), (11, 'Note 10', 'bbbbbbbbbb', '{"n": 10, "l": [2]}'::JSONB, '2024-02-29T22:00:00+00:00'::timestamptz, 10), (12, 'Note 11', 'bbbbbbbbbbb', '{"n": 11, "l": [3]}'::JSONB, '2024-02-29T23:00:00+00:00'::timestamptz, 11), (13, 'Note 12', NULL, '{"n": 12, "l": [0]}'::JSONB, '2024-03-01T00:00:00+00:00'::timestamptz, 12), (14, 'Note 13', 'bbbbbbbbbbbbb', '{"n": 13, "l": [1]}'::JSONB, '2024-03-01T01:00:00+00:00'::timestamptz, 13), (15, 'Note 14', 'bbbbbbbbbbbbbb', '{"n": 14, "l": [2]}'::JSONB, '2024-03-01T02:00:00+00:00'::timestamptz, 14), (16, 'Note 15', NULL, '{"n": 15, "l": [3]}'::JSONB, '2024-03-01T03:00:00+00:00'::timestamptz, 15), (17, 'Note 16', 'bbbbbbbbbbbbbbbb', '{"n": 16, "l": [0]}'::JSONB, '2024-03-01T04:00:00+00:00'::timestamptz, 16), (18, 'Note 17', 'bbbbbbbbbbbbbbbbb', '{"n": 17, "l": [1]}'::JSONB, '2024-03-01T05:00:00+00:00'::timestamptz, 17), (19, 'Note 18', NULL, '{"n": 18, "l": [2]}'::JSONB, '2024-03-01T06:00:00+00:00'::timestamptz, 18), (20, 'Note 19', 'bbbbbbbbbbbbbbbbbbb', '{"n": 19, "l": [3]}'::JSONB, '2024-03-01T07:00:00+00:00'::timestamptz, 19), (1, 'Note 20', 'bbbbbbbbbbbbbbbbbbbb', '{"n": 20, "l": [0]}'::JSONB, '2024-03-01T08:00:00+00:00'::timestamptz, 20), (2, 'Note 21', NULL, '{"n": 21, "l": [1]}'::JSONB, '2024-03-01T09:00:00+00:00'::timestamptz, 21), (3, 'Note 22', 'bbbbbbbbbbbbbbbbbbbbbb', '{"n": 22, "l": [2]}'::JSONB, '2024-03-01T10:00:00+00:00'::timestamptz, 22), (4, 'Note 23', 'bbbbbbbbbbbbbbbbbbbbbbb', '{"n": 23, "l": [3]}'::JSONB, '2024-03-01T11:00:00+00:00'::timestamptz, 23), (5, 'Note 24', NULL, '{"n": 24, "l": [0]}'::JSONB, '2024-03-01T12:00:00+00:00'::timestamptz, 24), (6, 'Note 25', 'bbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 25, "l": [1]}'::JSONB, '2024-03-01T13:00:00+00:00'::timestamptz, 25), (7, 'Note 26', 'bbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 26, "l": [2]}'::JSONB, '2024-03-01T14:00:00+00:00'::timestamptz, 26), (8, 'Note 27', NULL, '{"n": 27, "l": [3]}'::JSONB, '2024-03-01T15:00:00+00:00'::timestamptz, 27), (9, 'Note 28', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 28, "l": [0]}'::JSONB, '2024-03-01T16:00:00+00:00'::timestamptz, 28), (10, 'Note 29', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 29, "l": [1]}'::JSONB, '2024-03-01T17:00:00+00:00'::timestamptz, 29), (11, 'Note 30', NULL, '{"n": 30, "l": [2]}'::JSONB, '2024-03-01T18:00:00+00:00'::timestamptz, 30), (12, 'Note 31', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 31, "l": [3]}'::JSONB, '2024-03-01T19:00:00+00:00'::timestamptz, 31), (13, 'Note 32', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 32, "l": [0]}'::JSONB, '2024-03-01T20:00:00+00:00'::timestamptz, 32), (14, 'Note 33', NULL, '{"n": 33, "l": [1]}'::JSONB, '2024-03-01T21:00:00+00:00'::timestamptz, 33), (15, 'Note 34', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 34, "l": [2]}'::JSONB, '2024-03-01T22:00:00+00:00'::timestamptz, 34), (16, 'Note 35', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 35, "l": [3]}'::JSONB, '2024-03-01T23:00:00+00:00'::timestamptz, 35), (17, 'Note 36', NULL, '{"n": 36, "l": [0]}'::JSONB, '2024-03-02T00:00:00+00:00'::timestamptz, 36), (18, 'Note 37', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 37, "l": [1]}'::JSONB, '2024-03-02T01:00:00+00:00'::timestamptz, 37), (19, 'Note 38', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 38, "l": [2]}'::JSONB, '2024-03-02T02:00:00+00:00'::timestamptz, 38), (20, 'Note 39', NULL, '{"n": 39, "l": [3]}'::JSONB, '2024-03-02T03:00:00+00:00'::timestamptz, 39), (1, 'Note 40', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 40, "l": [0]}'::JSONB, '2024-03-02T04:00:00+00:00'::timestamptz, 40), (2, 'Note 41', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 41, "l": [1]}'::JSONB, '2024-03-02T05:00:00+00:00'::timestamptz, 41), (3, 'Note 42', NULL, '{"n": 42, "l": [2]}'::JSONB, '2024-03-02T06:00:00+00:00'::timestamptz, 42), (4, 'Note 43', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 43, "l": [3]}'::JSONB, '2024-03-02T07:00:00+00:00'::timestamptz, 43), (5, 'Note 44', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 44, "l": [0]}'::JSONB, '2024-03-02T08:00:00+00:00'::timestamptz, 44), (6, 'Note 45', NULL, '{"n": 45, "l": [1]}'::JSONB, '2024-03-02T09:00:00+00:00'::timestamptz, 45), (7, 'Note 46', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 46, "l": [2]}'::JSONB, '2024-03-02T10:00:00+00:00'::timestamptz, 46), (8, 'Note 47', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 47, "l": [3]}'::JSONB, '2024-03-02T11:00:00+00:00'::timestamptz, 47), (9, 'Note 48', NULL, '{"n": 48, "l": [0]}'::JSONB, '2024-03-02T12:00:00+00:00'::timestamptz, 48), (10, 'Note 49', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"n": 49, "l": [1]}'::JSONB, '2024-03-02T13:00:00+00:00'::timestamptz, 49)) AS imp_sen(p0, p1, p2, p3, p4, sen_counter) ORDER BY sen_counter RETURNING notes.id, notes.words, notes.id AS id__1;
INSERT INTO note_tags (note_id, tag_id) VALUES (10, 1), (10, 2), (10, 3), (10, 4), (9, 3), (5, 2), (5, 3), (5, 4), (28, 1), (28, 2), (43, 1), (43, 2), (29, 2), (29, 3), (30, 3), (30, 4), (44, 2), (44, 3), (15, 3), (15, 4), (45, 3), (45, 4), (13, 1), (13, 2), (14, 2), (14, 3), (34, 1), (34, 2), (34, 3), (7, 1), (35, 2), (35, 3), (35, 4), (49, 1), (49, 2), (49, 3), (8, 2), (4, 1), (4, 2), (4, 3), (20, 2), (20, 3), (20, 4), (37, 1), (50, 2), (50, 3), (50, 4), (38, 2), (22, 1), (19, 1), (19, 2), (19, 3), (23, 2), (39, 3), (24, 3), (40, 1), (40, 2), (40, 3), (40, 4), (25, 1), (25, 2), (25, 3), (25, 4);
COMMIT;
BEGIN;

-- migrations
ROLLBACK;
BEGIN;
ALTER TABLE people ADD COLUMN phone VARCHAR(30);
ALTER TABLE notes ADD COLUMN pinned BOOLEAN DEFAULT false NOT NULL;
CREATE UNIQUE INDEX ix_people_phone ON people (phone);
ALTER TABLE people ALTER COLUMN name TYPE VARCHAR(160);
UPDATE people SET phone = '+1' || id;
CREATE TABLE audit (
	id BIGSERIAL NOT NULL,
	at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
	what TEXT,
	who INET,
	during TSTZRANGE,
	PRIMARY KEY (id)
);
CREATE INDEX ix_audit_at ON audit (at DESC NULLS LAST);
COMMIT;
BEGIN;
ALTER TABLE people DROP CONSTRAINT uq_people_email;
ALTER TABLE people ADD CONSTRAINT uq_people_email_kind UNIQUE (email, kind);
ALTER TABLE people ALTER COLUMN phone SET NOT NULL;
ALTER TABLE notes RENAME body TO content;
DROP INDEX ix_notes_title_lower;
ALTER TABLE tags RENAME TO words;
ALTER INDEX uq_tags_word RENAME TO uq_words_word;
ALTER TABLE accounts ADD CONSTRAINT balance CHECK (balance >= 0);
ALTER TABLE transfers ALTER COLUMN id TYPE BIGINT;
ALTER TABLE engineers ADD CONSTRAINT fk_audit_who FOREIGN KEY(id) REFERENCES engineers (id);
ALTER TABLE engineers DROP CONSTRAINT fk_audit_who;
ALTER TABLE people ALTER COLUMN id TYPE BIGINT;
INSERT INTO audit (at, what) VALUES ('2024-02-29T12:00:00'::timestamp, 'm0'), ('2024-02-29T12:00:00'::timestamp, 'm1'), ('2024-02-29T12:00:00'::timestamp, 'm2'), ('2024-02-29T12:00:00'::timestamp, 'm3'), ('2024-02-29T12:00:00'::timestamp, 'm4');
COMMIT;
CREATE INDEX CONCURRENTLY ix_transfers_day ON transfers (day);
CREATE INDEX CONCURRENTLY ix_notes_pinned ON notes (made) WHERE pinned;
ALTER TYPE level ADD VALUE 'boss' AFTER 'high';
BEGIN ISOLATION LEVEL READ COMMITTED;

-- work
ROLLBACK;
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT people.id, people.kind, people.email, people.name, people.boss_id, people.version
FROM people
WHERE people.email = 'e3@x.org';
SELECT people.id, people.kind, people.email, people.name, people.boss_id, people.version, engineers.id AS id_1, engineers.level, engineers.skills
FROM people LEFT OUTER JOIN engineers ON people.id = engineers.id ORDER BY people.id
 LIMIT 7;
SELECT people.name, count(notes.id) AS count_1, sum(notes.words) AS sum_1
FROM people JOIN notes ON notes.author_id = people.id GROUP BY people.name
HAVING count(notes.id) > 2 ORDER BY people.name;
SELECT notes.title, row_number() OVER (PARTITION BY notes.author_id ORDER BY notes.made DESC) AS r
FROM notes ORDER BY notes.author_id, r;
SELECT people.id, people.kind, people.email, people.name, people.boss_id, people.version
FROM people
WHERE people.id = 3;
UPDATE people SET name='changed', version=3 WHERE people.id = 3 AND people.version = 2;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
UPDATE people SET name=(people.name || '!') WHERE people.id IN (5, 6, 7) RETURNING people.id, people.name;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
INSERT INTO accounts (branch, number, balance) VALUES (1, 1, 1), (1, 4, 4), (1, 7, 7), (1, 10, 10), (1, 13, 13), (1, 16, 16), (1, 19, 19) ON CONFLICT (branch, number) DO UPDATE SET balance = (accounts.balance + excluded.balance) WHERE accounts.balance < 1000 RETURNING accounts.number, accounts.balance;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
INSERT INTO words (word) VALUES ('w1'), ('new') ON CONFLICT (word) DO NOTHING RETURNING words.id;
INSERT INTO words (word) VALUES ('w2') ON CONFLICT ON CONSTRAINT uq_words_word DO NOTHING;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
INSERT INTO transfers (id, branch, number, amount, day) SELECT nextval('transfer_numbers'), p1::SMALLINT, p2::INTEGER, p3::NUMERIC(12, 2), p4::DATE FROM (VALUES (0, 0, 0, '2024-02-29'::date, 0), (1, 1, 0.3333333333333333333333333333, '2024-02-29'::date, 1), (2, 2, 0.6666666666666666666666666667, '2024-02-29'::date, 2), (0, 3, 1, '2024-02-29'::date, 3), (1, 4, 1.333333333333333333333333333, '2024-02-29'::date, 4), (2, 5, 1.666666666666666666666666667, '2024-02-29'::date, 5)) AS imp_sen(p1, p2, p3, p4, sen_counter) ORDER BY sen_counter RETURNING transfers.id, transfers.id AS id__1;
SELECT accounts.branch, accounts.number, accounts.balance, accounts.owner_id
FROM accounts
WHERE accounts.branch = 1 ORDER BY accounts.number FOR UPDATE;
UPDATE accounts SET balance=91.00 WHERE accounts.branch = 1 AND accounts.number = 1;
UPDATE accounts SET balance=114.00 WHERE accounts.branch = 1 AND accounts.number = 4;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT accounts.branch, accounts.number, accounts.balance, accounts.owner_id
FROM accounts
WHERE accounts.branch = 1 AND accounts.number = 1;
UPDATE accounts SET balance= -99909.00 WHERE accounts.branch = 1 AND accounts.number = 1;
ROLLBACK;
BEGIN ISOLATION LEVEL READ COMMITTED;
SAVEPOINT sa_savepoint_1;
INSERT INTO words (id, word) VALUES (1, 'dup');
ROLLBACK TO SAVEPOINT sa_savepoint_1;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
INSERT INTO accounts (branch, number, owner_id) VALUES (9, 9, 77777);
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
UPDATE accounts SET number=400 WHERE accounts.number = 4;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT transfers.number
FROM transfers ORDER BY transfers.id;
SELECT transfers.id
FROM transfers
WHERE transfers.day = '2024-02-29'::date ORDER BY transfers.id
 LIMIT 2 FOR UPDATE SKIP LOCKED;
DELETE FROM transfers WHERE transfers.id IN (1000, 1001) RETURNING transfers.id;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
WITH RECURSIVE up(id, boss_id, depth) AS
(SELECT people.id AS id, people.boss_id AS boss_id, 0 AS depth
FROM people
WHERE people.id = 9 UNION ALL SELECT people.id AS id, people.boss_id AS boss_id, up.depth + 1 AS anon_1
FROM people, up
WHERE people.id = up.boss_id)
 SELECT up.id, up.boss_id, up.depth
FROM up ORDER BY up.depth;
SELECT people.id
FROM people
WHERE people.email = 'p2@x.org' OR people.name = 'changed' OR people.boss_id IS NULL ORDER BY people.id;
SELECT notes.id
FROM notes
WHERE notes.made BETWEEN '2024-02-29T12:00:00+00:00'::timestamptz AND '2024-02-29T19:00:00+00:00'::timestamptz AND (notes.author_id, notes.title) IN ((1, 'Note 0'), (3, 'Note 2')) ORDER BY notes.id;
SELECT EXISTS (SELECT *
FROM notes
WHERE notes.author_id = people.id) AS anon_1, people.id
FROM people ORDER BY people.id;
SELECT engineers.level, count(*) AS count_1
FROM people JOIN engineers ON people.id = engineers.id GROUP BY engineers.level ORDER BY engineers.level;
INSERT INTO people (kind, email, name, version) SELECT people.kind, people.email, people.name, people.version
FROM people
WHERE people.id < 0;
UPDATE notes SET pinned = true WHERE id % 5 = 0; UPDATE notes SET title = p.name FROM people p WHERE p.id = notes.author_id AND pinned;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
DELETE FROM notes WHERE notes.author_id = 4;
DELETE FROM engineers USING people WHERE people.id = engineers.id AND people.id = 22;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
TRUNCATE audit RESTART IDENTITY;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT title, words, pinned FROM notes ORDER BY id;
ROLLBACK;
