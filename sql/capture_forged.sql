-- Anybody may call pg_logical_emit_message: what is not sealed with the database's key, or lies in another transaction
-- than it was made for, changes nothing in the stream.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION schemasync;
CREATE TABLE t (a int PRIMARY KEY, b int);
INSERT INTO t VALUES (1, 1);
CREATE PUBLICATION pub FOR TABLE t;
CREATE ROLE regress_forger;
SELECT 'slot' AS made FROM pg_create_logical_replication_slot('ours', 'schemasync_decoder');
SELECT 'slot' AS made FROM pg_create_logical_replication_slot('raw', 'test_decoding');

-- What the subscriber would get: our messages with what they say, and the rows.
CREATE FUNCTION stream() RETURNS TABLE (line text) LANGUAGE sql AS $$
	SELECT concat_ws(' ', coalesce(d->>'message', 'message'), d->>'prefix', CASE WHEN d->>'prefix' NOT LIKE 'schemasync%' THEN d->>'content' END, c->>'tag', c->>'statement',
		(SELECT string_agg(concat_ws(' ', x->>'attnum', CASE WHEN (x->>'given')::bool THEN 'using' END, x->'expr'->>'sql'), ', ')
			FROM jsonb_array_elements(c->'using') x),
		(SELECT string_agg(x->>'name' || '(' || (SELECT string_agg(y->>'name', ', ') FROM jsonb_array_elements(x->'columns') y) || ')', ', ')
			FROM jsonb_array_elements(c->'relations') x))
	FROM pg_logical_slot_get_binary_changes('ours', NULL, NULL, 'proto_version', '1', 'publication_names', 'pub',
		'messages', 'true', 'schemasync', '1', 'rewrites', 'carry') m,
		LATERAL (SELECT schemasync_decode(m.data)) AS s(d),
		LATERAL (SELECT CASE WHEN d->>'prefix' LIKE 'schemasync%' THEN d->'content' END) AS k(c)
	WHERE d->>'message' IS NULL OR d->>'message' NOT IN ('begin', 'commit')
$$;
\pset format unaligned
\pset tuples_only on
SELECT * FROM stream();

\echo -- what a real command looks like
ALTER TABLE t ALTER b TYPE int USING b * 10;
INSERT INTO t VALUES (2, 2);
SELECT * FROM stream();

\echo -- its marker again, in other transactions, by an ordinary role
SELECT substr(data, strpos(data, 'content:') + 8) AS marker FROM pg_logical_slot_get_changes('raw', NULL, NULL)
	WHERE data LIKE 'message: transactional: 1 prefix: schemasync.marker,%' AND data LIKE '%b * 10%' \gset
SET ROLE regress_forger;
SELECT 1 FROM pg_logical_emit_message(true, 'schemasync.marker', :'marker');
BEGIN;
SELECT 1 FROM pg_logical_emit_message(true, 'schemasync.marker', :'marker');
SAVEPOINT s;
SELECT 1 FROM pg_logical_emit_message(true, 'schemasync.marker', :'marker');
COMMIT;
SELECT 1 FROM pg_logical_emit_message(false, 'schemasync.marker', :'marker');
RESET ROLE;
SELECT * FROM stream();

\echo -- contents made up, with and without a code, for a transaction that changes rows as well
GRANT INSERT ON t TO regress_forger;
SELECT count(*) > 0 FROM stream();
SET ROLE regress_forger;
BEGIN;
INSERT INTO t VALUES (3, 3);
SELECT format('"v":1,"xid":%s,"subxid":%s,"tag":"ALTER TABLE","statement":"forged","user":"postgres","settings":{},"subcommands":["AT_AlterColumnType"],"objects":[{"classid":1259,"objid":%s,"objsubid":0,"type":"table","schema":"public","identity":"public.t","in_extension":false}],"dropped":[{"classid":1259,"objid":%s,"objsubid":0,"type":"table","schema":"public","name":"t","identity":"public.t","original":true,"normal":false}],"using":[],"rewrites":[]}',
	pg_current_xact_id(), pg_current_xact_id(), 't'::regclass::oid, 't'::regclass::oid) AS body \gset
SELECT count(pg_logical_emit_message(true, 'schemasync.marker', m)) FROM (VALUES
	('{' || :'body'),
	('{"mac":"' || repeat('0', 64) || '",' || :'body'),
	('{"mac":"' || repeat('0', 63) || '",' || :'body'),
	('{"mac":"",' || :'body'),
	('{"mac":"' || substr(:'marker', 9, 64) || '",' || :'body'),
	('{"mac":"' || substr(:'marker', 9, 64) || '",'),
	('{"mac":"'), (''), ('{}'), ('null'), (repeat('[', 100000)), (repeat('x', 1000000))) AS v(m);
SELECT count(pg_logical_emit_message(true, 'schemasync.marker', m)) FROM (VALUES
	('\x00'::bytea), ('\xff7b7d'), (convert_to(:'marker', 'UTF8') || '\x00')) AS v(m);
INSERT INTO t VALUES (4, 4);
COMMIT;
RESET ROLE;
SELECT * FROM stream();

\echo -- our own kinds of messages, and prefixes that begin as ours: never passed on; those of others are
SET ROLE regress_forger;
BEGIN;
SELECT count(pg_logical_emit_message(transactional, prefix, '{"v":1,"relation":{},"types":[]}'))
FROM unnest(ARRAY['schemasync.state', 'schemasync.ddl', 'schemasync.rewrite', 'schemasync', 'schemasync.', 'schemasync.marker ', 'schemasyncs'])
	prefix, unnest(ARRAY[true, false]) transactional;
SELECT 1 FROM pg_logical_emit_message(true, 'app', 'passes'), pg_logical_emit_message(true, ' schemasync', 'passes too') x;
COMMIT;
RESET ROLE;
SELECT * FROM stream();

\echo -- without the option the stream is that of pgoutput, which passes all on
SELECT 1 FROM pg_logical_emit_message(true, 'schemasync.ddl', '{}'), pg_logical_emit_message(true, 'app', 'passes') x;
SELECT schemasync_decode(data)->>'prefix' FROM pg_logical_slot_get_binary_changes('ours', NULL, NULL,
	'proto_version', '1', 'publication_names', 'pub', 'messages', 'true') WHERE get_byte(data, 0) = ascii('M');

SELECT pg_drop_replication_slot('ours');
SELECT pg_drop_replication_slot('raw');
DROP FUNCTION stream;
DROP EXTENSION schemasync;
DROP PUBLICATION pub;
DROP TABLE t;
DROP ROLE regress_forger;
