-- What only newer servers have: constraints that are not enforced, virtual generated columns, temporal keys, access methods of partitioned tables.
-- publisher: >= 18
CREATE TABLE v (id int PRIMARY KEY, a int, b text);
INSERT INTO v SELECT i, i, 'b' || i FROM generate_series(1, 10) i;
CREATE TABLE other (id int PRIMARY KEY);
INSERT INTO other SELECT generate_series(1, 5);
CREATE TABLE booking (room int4range, during daterange, note text);
CREATE TABLE stay (id int PRIMARY KEY, room int4range, during daterange);

-- publisher: < 18
CREATE TABLE v (id int PRIMARY KEY);

-- publisher: >= 18
-- subscriber: >= 18
CREATE TABLE first (k int4range, p tsrange, q int, CONSTRAINT first_key PRIMARY KEY (k, p WITHOUT OVERLAPS),
	g int GENERATED ALWAYS AS (q * 2) VIRTUAL, CONSTRAINT first_loose CHECK (q > 0) NOT ENFORCED, CONSTRAINT q_there NOT NULL q);
INSERT INTO first VALUES ('[1,2)', '[2020-01-01,2020-02-01)', -1);
CREATE TABLE second (id int, k int4range, p tsrange, CONSTRAINT during_first FOREIGN KEY (k, PERIOD p) REFERENCES first);
INSERT INTO second VALUES (1, '[1,2)', '[2020-01-05,2020-01-09)');

-- subscribe

-- publisher: >= 18
-- refused: unsupported_object if subscriber < 18
-- subscriber: ALTER TABLE v ADD twice int GENERATED ALWAYS AS (a * 2) STORED
-- uncompared
ALTER TABLE v ADD twice int GENERATED ALWAYS AS (a * 2) VIRTUAL;

-- publisher: >= 18
-- subscriber: >= 18
INSERT INTO v (id, a) VALUES (11, 11);
UPDATE v SET a = a + 1;
ALTER TABLE v ADD kept text GENERATED ALWAYS AS (b || '!');

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE v ALTER twice SET EXPRESSION AS (a * 2 + 1);

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE v RENAME twice TO doubled;
ALTER TABLE v RENAME a TO aa;

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE v ALTER doubled TYPE bigint;

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE v ADD CONSTRAINT d_pos CHECK (doubled > -1000);
UPDATE v SET b = 'x' WHERE b IS NULL;
ALTER TABLE v ALTER kept SET NOT NULL;

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE v DROP kept;

-- publisher: >= 18
-- subscriber: < 18
ALTER TABLE v DROP twice;

-- publisher: >= 18
-- refused: unsupported_object if subscriber < 18
-- skip
-- uncompared
ALTER TABLE v ADD CONSTRAINT loose CHECK (id > 100) NOT ENFORCED;

-- publisher: >= 18
-- refused: unsupported_object if subscriber < 18
-- skip
-- uncompared
ALTER TABLE v ADD CONSTRAINT v_other FOREIGN KEY (id) REFERENCES other NOT ENFORCED;

-- publisher: >= 18
DELETE FROM v WHERE id > 5;
ALTER TABLE v DROP CONSTRAINT loose;
ALTER TABLE v ALTER CONSTRAINT v_other ENFORCED;

-- publisher: >= 18
-- refused: unsupported_object if subscriber < 18
-- skip
-- uncompared
ALTER TABLE v ALTER CONSTRAINT v_other NOT ENFORCED;

-- publisher: >= 18
ALTER TABLE v DROP CONSTRAINT v_other;

-- publisher: >= 18
-- refused: unsupported_object if subscriber < 18
-- subscriber: CREATE TABLE half (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a + 1) STORED)
-- skip
-- uncompared
CREATE TABLE half (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a + 1) VIRTUAL, CONSTRAINT half_loose CHECK (a > 3) NOT ENFORCED);

-- publisher: >= 18
INSERT INTO half VALUES (1, 2);
DROP TABLE half;

-- publisher: >= 18
-- refused: unsupported_object if subscriber < 18
-- skip
-- uncompared
ALTER TABLE booking ADD CONSTRAINT booking_key PRIMARY KEY (room, during WITHOUT OVERLAPS);

-- publisher: >= 18
-- subscriber: >= 18
INSERT INTO booking VALUES ('[1,2)', '[2020-01-01,2020-02-01)', 'a'), ('[1,2)', '[2020-02-01,2020-03-01)', 'b'), ('[2,3)', '[2020-01-01,2020-02-01)', 'c');
UPDATE booking SET note = 'changed' WHERE note = 'b';
DELETE FROM booking WHERE note = 'c';

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE stay ADD CONSTRAINT stay_booking FOREIGN KEY (room, PERIOD during) REFERENCES booking (room, PERIOD during);
INSERT INTO stay VALUES (1, '[1,2)', '[2020-01-10,2020-02-10)');

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE booking ADD spare int4range;
ALTER TABLE booking ADD CONSTRAINT booking_unique UNIQUE (spare, during WITHOUT OVERLAPS);

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE booking ADD who uuid DEFAULT '00000000-0000-0000-0000-000000000000';
UPDATE booking SET during = '[2020-02-01,2020-04-01)' WHERE note = 'changed';

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE stay DROP CONSTRAINT stay_booking;
ALTER TABLE booking DROP CONSTRAINT booking_key;
CREATE TABLE both_new (k int4range, p tsrange, q int, CONSTRAINT both_key PRIMARY KEY (k, p WITHOUT OVERLAPS),
	g int GENERATED ALWAYS AS (q * 2) VIRTUAL, CONSTRAINT both_loose CHECK (q > 0) NOT ENFORCED, CONSTRAINT q_there NOT NULL q);
INSERT INTO both_new VALUES ('[1,2)', '[2020-01-01,2020-02-01)', -1);

-- publisher: >= 18
-- subscriber: < 18
DROP TABLE booking;

-- what 17 has of access methods
-- publisher: >= 17
CREATE ACCESS METHOD second_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE stored (id int PRIMARY KEY);
CREATE TABLE stored_parts (id int PRIMARY KEY) PARTITION BY LIST (id);

-- publisher: >= 17
-- refused: missing_object
-- subscriber: CREATE ACCESS METHOD second_heap TYPE TABLE HANDLER heap_tableam_handler
ALTER TABLE stored SET ACCESS METHOD second_heap;

-- publisher: >= 17
ALTER TABLE stored SET ACCESS METHOD DEFAULT;

-- publisher: >= 17
-- subscriber: >= 17
ALTER TABLE stored_parts SET ACCESS METHOD second_heap;
CREATE TABLE stored_1 PARTITION OF stored_parts FOR VALUES IN (1);

-- publisher: >= 17
-- subscriber: >= 17
ALTER TABLE stored_parts SET ACCESS METHOD DEFAULT;
CREATE TABLE other_parts (id int PRIMARY KEY) PARTITION BY LIST (id) USING second_heap;

-- publisher: >= 17
-- subscriber: < 17
-- uncompared
CREATE TABLE other_parts (id int PRIMARY KEY) PARTITION BY LIST (id) USING second_heap;
DROP TABLE other_parts;

-- publisher: >= 17
-- subscriber: < 17
-- uncompared
ALTER TABLE stored_parts SET ACCESS METHOD second_heap;
DROP TABLE stored_parts;

-- publisher: >= 18
-- refused: missing_object if subscriber < 18
-- subscriber: CREATE TABLE ids (id uuid PRIMARY KEY, made text)
-- uncompared
CREATE TABLE ids (id uuid PRIMARY KEY DEFAULT uuidv7(), made text DEFAULT casefold('X'));

-- publisher: >= 18
-- uncompared
INSERT INTO ids DEFAULT VALUES;
DROP TABLE ids;
