-- Definitions in words that older servers do not know: refused with what the server says, never tried for ever.
CREATE TABLE x (id int PRIMARY KEY, a int, b jsonb);
INSERT INTO x SELECT i, i, jsonb_build_object('a', i) FROM generate_series(1, 5) i;

-- subscribe
-- options: {"ddl_classes": ["views", "functions"]}

-- publisher: >= 16
-- refused: unsupported_object if subscriber < 16
-- subscriber: ALTER TABLE x ADD j json DEFAULT '{"a" : 1}'
-- uncompared
ALTER TABLE x ADD j json DEFAULT JSON_OBJECT('a': 1 RETURNING json);

-- publisher: >= 16
INSERT INTO x (id) VALUES (10);
ALTER TABLE x ALTER j DROP DEFAULT;

-- publisher: >= 16
-- refused: unsupported_object if subscriber < 16
-- uncompared
-- skip
ALTER TABLE x ADD CONSTRAINT j_is CHECK (j IS JSON OBJECT);

-- publisher: >= 16
UPDATE x SET a = 20 WHERE id = 2;
ALTER TABLE x DROP CONSTRAINT j_is;

-- publisher: >= 16
-- refused: unsupported_object if subscriber < 16
-- uncompared
-- subscriber: CREATE TABLE y (id int PRIMARY KEY, j json)
CREATE TABLE y (id int PRIMARY KEY, j json DEFAULT JSON_ARRAY(1, 2 NULL ON NULL));

-- publisher: >= 16
INSERT INTO y VALUES (1);
DROP TABLE y;

-- publisher: >= 16
-- refused: unsupported_object if subscriber < 16
-- uncompared
-- skip
CREATE INDEX x_j ON x ((j IS JSON ARRAY));

-- publisher: >= 16
DROP INDEX x_j;

-- publisher: >= 17
-- refused: unsupported_object if subscriber < 17
-- uncompared
-- subscriber: ALTER TABLE x ADD g text GENERATED ALWAYS AS (b ->> 'a') STORED
ALTER TABLE x ADD g text GENERATED ALWAYS AS (JSON_VALUE(b, '$."a"')) STORED;

-- publisher: >= 17
INSERT INTO x (id, b) VALUES (11, '{"a": "eleven"}');
ALTER TABLE x DROP g;

-- publisher: >= 16
-- refused: unsupported_object if subscriber < 16
-- uncompared
-- skip
CREATE VIEW objects AS SELECT JSON_OBJECT('id': id) AS o FROM x;

-- publisher: >= 16
-- uncompared
DROP VIEW objects;

-- publisher: >= 17
-- uncompared
CREATE FUNCTION merged() RETURNS SETOF int LANGUAGE plpgsql AS
$$BEGIN RETURN QUERY MERGE INTO x USING (SELECT 1 AS id) s ON x.id = s.id WHEN MATCHED THEN UPDATE SET a = 1 RETURNING x.id; END$$;

-- publisher: >= 17
-- refused: unsupported_object if subscriber < 17
-- uncompared
-- skip
CREATE FUNCTION values_of(j jsonb) RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT JSON_VALUE(j, '$."a"'); END;

-- publisher: >= 17
-- uncompared
DROP FUNCTION merged();
DROP FUNCTION values_of(jsonb);

-- publisher: >= 16
CREATE DOMAIN parsed AS text CHECK (length(VALUE) > 0);
CREATE TABLE d (id int PRIMARY KEY, v parsed);
INSERT INTO d VALUES (1, '[]');

-- publisher: >= 16
-- refused: unsupported_object if subscriber < 16
-- uncompared
-- skip
ALTER DOMAIN parsed ADD CONSTRAINT is_json CHECK (VALUE IS JSON);

-- publisher: >= 16
ALTER DOMAIN parsed DROP CONSTRAINT is_json;
INSERT INTO d VALUES (2, 'none');

-- publisher: < 16
UPDATE x SET a = 20 WHERE id = 2;
