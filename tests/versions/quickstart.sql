-- The story of ./quickstart.
CREATE SCHEMA shop;
CREATE TABLE shop.customer (id int PRIMARY KEY, name varchar(40) NOT NULL, email text, visits int NOT NULL DEFAULT 0);
CREATE TABLE shop.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id int NOT NULL, amount int NOT NULL);
INSERT INTO shop.customer SELECT i, 'Customer ' || i, 'customer' || i || '@example.org' FROM generate_series(1, 1000) i;
INSERT INTO shop.orders (customer_id, amount) SELECT 1 + i % 1000, i % 500 FROM generate_series(1, 5000) i;

-- subscribe

ALTER TABLE shop.customer ADD COLUMN created_at timestamptz DEFAULT now();
INSERT INTO shop.customer SELECT i, 'Customer ' || i, '' FROM generate_series(1001, 1010) i;

ALTER TABLE shop.customer RENAME COLUMN name TO full_name;

ALTER TABLE shop.customer ALTER COLUMN full_name TYPE varchar(200);

ALTER TABLE shop.orders ALTER COLUMN amount TYPE bigint;
UPDATE shop.orders SET amount = amount * 10000000000 WHERE id % 100 = 0;

ALTER TABLE shop.customer ALTER COLUMN email SET NOT NULL;

CREATE INDEX orders_customer_id ON shop.orders (customer_id);

CREATE TABLE shop.review (customer_id int, stars int, words text, PRIMARY KEY (customer_id, stars));
INSERT INTO shop.review SELECT i, i % 5 + 1, 'fine' FROM generate_series(1, 1000) i;

ALTER TABLE shop.orders ADD CONSTRAINT orders_customer FOREIGN KEY (customer_id) REFERENCES shop.customer ON DELETE CASCADE;
DELETE FROM shop.customer WHERE id % 10 = 0;

-- refused: volatile_default
-- subscriber: ALTER TABLE shop.review ADD COLUMN token text
-- subscriber: UPDATE shop.review SET token = md5(customer_id::text)
-- subscriber: ALTER TABLE shop.review ALTER COLUMN token SET DEFAULT clock_timestamp()::text
ALTER TABLE shop.review ADD COLUMN token text DEFAULT clock_timestamp()::text;
UPDATE shop.review SET token = md5(customer_id::text);
