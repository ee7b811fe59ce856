\set customer random(1, 1000)
\set amount random(1, 500)
BEGIN;
INSERT INTO shop.orders (customer_id, amount) VALUES (:customer, :amount);
UPDATE shop.customer SET visits = visits + 1 WHERE id = :customer;
DELETE FROM shop.orders WHERE id = (SELECT min(id) FROM shop.orders WHERE customer_id = :customer) AND :amount < 100;
END;
