-- NOT NULL as constraints with names, which 18 has.
-- publisher: >= 18
CREATE TABLE n (id int PRIMARY KEY, a int CONSTRAINT a_is_there NOT NULL, b int, c int, d int NOT NULL, "E" text NOT NULL);
CREATE TABLE n_child (x int) INHERITS (n);
ALTER TABLE n_child REPLICA IDENTITY FULL;
INSERT INTO n SELECT i, i, NULL, NULL, i, 'e' FROM generate_series(1, 5) i;
ALTER TABLE n ADD CONSTRAINT b_is_there NOT NULL b NOT VALID;
CREATE TABLE p (id int, k int CONSTRAINT k_named NOT NULL) PARTITION BY LIST (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p_2 (k int CONSTRAINT other_name NOT NULL, id int);
ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES IN (2);
CREATE DOMAIN dom AS int CONSTRAINT dom_there NOT NULL;
CREATE TABLE td (id int PRIMARY KEY, v dom);

-- publisher: < 18
CREATE TABLE n (id int PRIMARY KEY, a int CONSTRAINT a_is_there NOT NULL, b int, c int, d int NOT NULL, "E" text NOT NULL);
CREATE TABLE n_child (x int) INHERITS (n);
ALTER TABLE n_child REPLICA IDENTITY FULL;
INSERT INTO n SELECT i, i, NULL, NULL, i, 'e' FROM generate_series(1, 5) i;
CREATE TABLE p (id int, k int CONSTRAINT k_named NOT NULL) PARTITION BY LIST (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1);
CREATE DOMAIN dom AS int CONSTRAINT dom_there NOT NULL;
CREATE TABLE td (id int PRIMARY KEY, v dom);

-- subscribe

INSERT INTO n SELECT i, i, i, NULL, i, 'e' FROM generate_series(6, 9) i;

ALTER TABLE n ALTER a DROP NOT NULL;

ALTER TABLE n ALTER a SET NOT NULL;

UPDATE n SET c = 4, b = 3;
ALTER TABLE n ALTER c SET NOT NULL, ALTER c TYPE bigint;

ALTER TABLE n RENAME "E" TO f;

ALTER TABLE n DROP CONSTRAINT n_pkey;

ALTER TABLE n ADD g int NOT NULL DEFAULT 5, ADD PRIMARY KEY (g, id);

ALTER TABLE p ADD l int NOT NULL DEFAULT 1, ALTER id SET NOT NULL;

CREATE TABLE p_3 PARTITION OF p FOR VALUES IN (3);

ALTER TABLE p ALTER k DROP NOT NULL;

ALTER DOMAIN dom DROP NOT NULL;

ALTER DOMAIN dom SET NOT NULL;

-- publisher: >= 18
ALTER TABLE n VALIDATE CONSTRAINT b_is_there;

-- publisher: >= 18
ALTER TABLE n RENAME CONSTRAINT b_is_there TO b_there;

-- publisher: >= 18
ALTER TABLE n DROP CONSTRAINT b_there;

-- publisher: >= 18
ALTER TABLE n ADD CONSTRAINT b_again NOT NULL b;

-- publisher: >= 18
BEGIN;
ALTER TABLE n DROP CONSTRAINT b_again;
ALTER TABLE n ADD CONSTRAINT b_other NOT NULL b;
COMMIT;

-- publisher: >= 18
ALTER TABLE n DROP CONSTRAINT b_other, ADD CONSTRAINT b_third NOT NULL b;

-- publisher: >= 18
ALTER TABLE n RENAME b TO bb;
ALTER TABLE n RENAME CONSTRAINT b_third TO bb_there;

-- publisher: >= 18
ALTER TABLE n ADD o int CONSTRAINT o_named NOT NULL DEFAULT 3;

-- publisher: >= 18
CREATE TABLE late (id int, v int, w int, CONSTRAINT v_there NOT NULL v, CONSTRAINT w_there NOT NULL w, CONSTRAINT late_key PRIMARY KEY (id));

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE late ADD z int CONSTRAINT z_there NOT NULL NO INHERIT DEFAULT 1, ADD y int CONSTRAINT y_there NOT NULL NO INHERIT DEFAULT 1;

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE late ALTER CONSTRAINT z_there INHERIT;

-- publisher: >= 18
ALTER TABLE p ADD CONSTRAINT k_back NOT NULL k;

-- publisher: >= 18
ALTER TABLE p RENAME CONSTRAINT k_back TO k_renamed;

-- publisher: >= 18
ALTER TABLE late ALTER w DROP NOT NULL;
INSERT INTO late VALUES (1, 1, NULL);

-- publisher: >= 18
ALTER TABLE late ADD CONSTRAINT w_new NOT NULL w NOT VALID;

-- publisher: >= 18
DELETE FROM late WHERE w IS NULL;
ALTER TABLE late VALIDATE CONSTRAINT w_new;

-- publisher: >= 18
ALTER TABLE late ALTER w DROP NOT NULL;
INSERT INTO late VALUES (1, 1, NULL);
ALTER TABLE late ADD CONSTRAINT w_new NOT NULL w NOT VALID;
ALTER TABLE late ADD x int;
DELETE FROM late;
ALTER TABLE late ALTER w SET NOT NULL;

-- publisher: >= 18
-- subscriber: >= 18
INSERT INTO late VALUES (2, 2, 2);
ALTER TABLE late ADD q int, ADD CONSTRAINT q_there NOT NULL q NOT VALID;

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE n_child ADD CONSTRAINT x_alone NOT NULL x NO INHERIT, ADD own int CONSTRAINT own_named NOT NULL DEFAULT 7;
ALTER TABLE n ADD CONSTRAINT o_checked CHECK (o > 0), ADD r int CONSTRAINT r_named NOT NULL DEFAULT 4;

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE n_child NO INHERIT n;
ALTER TABLE n_child RENAME CONSTRAINT o_named TO o_mine;
ALTER TABLE n_child INHERIT n;

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE n ALTER o DROP NOT NULL;

-- publisher: >= 18
-- subscriber: >= 18
CREATE TABLE p_4 (id int CONSTRAINT id_four NOT NULL, k int CONSTRAINT k_four NOT NULL, l int CONSTRAINT l_four NOT NULL);
ALTER TABLE p ATTACH PARTITION p_4 FOR VALUES IN (4);

-- publisher: >= 18
-- subscriber: >= 18
ALTER TABLE p ADD m int CONSTRAINT m_named NOT NULL DEFAULT 6, ADD CONSTRAINT p_later CHECK (m > 0);
ALTER TABLE p DETACH PARTITION p_4;
ALTER TABLE p ALTER m DROP NOT NULL;

DROP TABLE n_child, n, p, td;
