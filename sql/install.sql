-- The extension can be created, dropped and created again, and leaves nothing behind.
CREATE EXTENSION schemasync;
SELECT extversion IS NOT NULL AS has_version FROM pg_extension WHERE extname = 'schemasync';
DROP EXTENSION schemasync;
SELECT count(*) AS left_behind FROM pg_proc WHERE proname LIKE 'schemasync%';
SELECT count(*) AS left_behind FROM pg_class WHERE relname LIKE 'schemasync%';
SELECT count(*) AS left_behind FROM pg_event_trigger;
SELECT count(*) AS left_behind FROM pg_namespace WHERE nspname = 'schemasync';
CREATE EXTENSION schemasync;
DROP EXTENSION schemasync;

-- It can live in a schema of one's own.
CREATE SCHEMA "Tools of ours";
CREATE EXTENSION schemasync SCHEMA "Tools of ours";
DROP EXTENSION schemasync;
DROP SCHEMA "Tools of ours";
