-- Constraints, indexes, replica identities, properties of tables.
CREATE EXTENSION IF NOT EXISTS plpgsql;
CREATE TABLE parent (id int PRIMARY KEY, code text UNIQUE, grp int, CONSTRAINT grp_positive CHECK (grp > 0));
CREATE TABLE child (id int PRIMARY KEY, parent_id int CONSTRAINT child_parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED, code text, span int4range, note text NOT NULL,
	CONSTRAINT no_overlap EXCLUDE USING gist (span WITH &&));
CREATE INDEX child_lower ON child (lower(code) DESC NULLS LAST) INCLUDE (note) WHERE id > 0;
INSERT INTO parent SELECT i, 'c' || i, i FROM generate_series(1, 10) i;
INSERT INTO child SELECT i, i, 'c' || i, int4range(i * 10, i * 10 + 5), 'n' FROM generate_series(1, 10) i;
CREATE TABLE unproven (id int PRIMARY KEY, v int);
INSERT INTO unproven VALUES (1, -1), (2, NULL);
ALTER TABLE unproven ADD CONSTRAINT v_positive CHECK (v > 0) NOT VALID;
ALTER TABLE unproven ADD CONSTRAINT v_parent FOREIGN KEY (v) REFERENCES parent NOT VALID;

-- subscribe

ALTER TABLE parent ADD CONSTRAINT code_length CHECK (length(code) < 50), ADD CONSTRAINT grp_unique UNIQUE NULLS NOT DISTINCT (grp);

ALTER TABLE parent RENAME CONSTRAINT code_length TO code_short;

ALTER TABLE parent RENAME code TO label;

ALTER TABLE child ADD CONSTRAINT child_label FOREIGN KEY (code) REFERENCES parent (label) ON UPDATE CASCADE ON DELETE SET NULL NOT VALID;

ALTER TABLE child VALIDATE CONSTRAINT child_label;

ALTER TABLE child ALTER CONSTRAINT child_parent NOT DEFERRABLE;

ALTER TABLE child DROP CONSTRAINT no_overlap, DROP CONSTRAINT child_label;

ALTER TABLE child ADD CONSTRAINT again EXCLUDE USING gist (span WITH &&, int4range(id, id + 1) WITH =) WHERE (id > 0) DEFERRABLE;

UPDATE unproven SET v = 1;
ALTER TABLE unproven VALIDATE CONSTRAINT v_positive;
ALTER TABLE unproven VALIDATE CONSTRAINT v_parent;

CREATE UNIQUE INDEX child_code ON child (code, (id + 1));
CREATE INDEX ON child USING hash (note);
CREATE INDEX ON child USING brin (id) WITH (pages_per_range = 16);
CREATE INDEX ON child USING gin (to_tsvector('english', note));
CREATE INDEX child_order ON child (note COLLATE "C" text_pattern_ops ASC NULLS FIRST) WITH (fillfactor = 70);

CREATE INDEX CONCURRENTLY child_note ON child (note);
ALTER INDEX child_note RENAME TO child_noted;
DROP INDEX child_order;

ALTER TABLE child DROP CONSTRAINT child_pkey;
CREATE UNIQUE INDEX child_id ON child (id);
ALTER TABLE child ADD CONSTRAINT child_key PRIMARY KEY USING INDEX child_id;
UPDATE child SET note = 'key' WHERE id = 3;

ALTER TABLE child ALTER code SET NOT NULL;
CREATE UNIQUE INDEX child_ident ON child (code);
ALTER TABLE child REPLICA IDENTITY USING INDEX child_ident;
UPDATE child SET note = 'ident' WHERE id = 4;

ALTER TABLE child REPLICA IDENTITY FULL;
DELETE FROM child WHERE id = 5;

ALTER TABLE child REPLICA IDENTITY DEFAULT, SET (fillfactor = 80, autovacuum_enabled = false);

ALTER TABLE child RESET (fillfactor), ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

ALTER TABLE child DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;

ALTER TABLE child ALTER parent_id TYPE bigint;
ALTER TABLE parent ALTER grp TYPE numeric;

ALTER TABLE parent ADD CONSTRAINT ranged CHECK (grp >= 0 AND grp <= 1000 AND label IS NOT NULL AND label <> ALL (ARRAY['x', 'y']) OR EXTRACT(year FROM now()) > 3000) NOT VALID;

ALTER TABLE parent VALIDATE CONSTRAINT ranged;

ALTER TABLE parent ADD when_made date NOT NULL DEFAULT '2020-01-01', ADD CHECK (COALESCE(NULLIF(when_made, '1900-01-01'::date), CURRENT_DATE) > '1999-01-01'),
	ADD CHECK (label SIMILAR TO '%' AND label LIKE '%' AND substring(label FROM 1 FOR 2) IS DISTINCT FROM 'zz' AND trim(label) ~ '.'),
	ADD CHECK ((CASE WHEN grp > 1 THEN 'a' ELSE 'b' END) IN ('a', 'b') AND when_made AT TIME ZONE 'UTC' > 'epoch' AND label = label::varchar(50));

CREATE SCHEMA moved;
ALTER TABLE parent SET SCHEMA moved;
ALTER TABLE moved.parent RENAME TO elder;
INSERT INTO moved.elder VALUES (11, 'c11', 11);

ALTER SCHEMA moved RENAME TO removed;

CREATE TABLE copied AS SELECT * FROM child;

CREATE TABLE like_it (LIKE child INCLUDING ALL);

DROP TABLE copied, like_it, child, unproven, removed.elder;
