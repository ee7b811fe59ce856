-- Capture: the key of the markers and the event triggers that write them.

-- One row. The decoder reads it under the snapshot of the position that it decodes, hence user_catalog_table.
CREATE TABLE schemasync.capture_key (key bytea NOT NULL) WITH (user_catalog_table = true);
REVOKE ALL ON schemasync.capture_key FROM PUBLIC;

CREATE FUNCTION schemasync.capture_make_key() RETURNS void
	LANGUAGE c AS 'MODULE_PATHNAME', 'schemasync_capture_make_key';
REVOKE ALL ON FUNCTION schemasync.capture_make_key() FROM PUBLIC;
SELECT schemasync.capture_make_key();

CREATE FUNCTION schemasync.capture_start() RETURNS event_trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'schemasync_capture_start';
CREATE FUNCTION schemasync.capture_rewrite() RETURNS event_trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'schemasync_capture_rewrite';
CREATE FUNCTION schemasync.capture_drop() RETURNS event_trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'schemasync_capture_drop';
CREATE FUNCTION schemasync.capture_end() RETURNS event_trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'schemasync_capture_end';
REVOKE ALL ON FUNCTION schemasync.capture_start(), schemasync.capture_rewrite(), schemasync.capture_drop(),
	schemasync.capture_end() FROM PUBLIC;

CREATE EVENT TRIGGER schemasync_capture_start ON ddl_command_start EXECUTE FUNCTION schemasync.capture_start();
CREATE EVENT TRIGGER schemasync_capture_rewrite ON table_rewrite EXECUTE FUNCTION schemasync.capture_rewrite();
CREATE EVENT TRIGGER schemasync_capture_drop ON sql_drop EXECUTE FUNCTION schemasync.capture_drop();
CREATE EVENT TRIGGER schemasync_capture_end ON ddl_command_end EXECUTE FUNCTION schemasync.capture_end();

-- Also in sessions that apply what another publisher has sent (session_replication_role = replica): their DDL goes on in a cascade.
ALTER EVENT TRIGGER schemasync_capture_start ENABLE ALWAYS;
ALTER EVENT TRIGGER schemasync_capture_rewrite ENABLE ALWAYS;
ALTER EVENT TRIGGER schemasync_capture_drop ENABLE ALWAYS;
ALTER EVENT TRIGGER schemasync_capture_end ENABLE ALWAYS;

-- Shows what a subscriber with such a policy would make of a command, and leaves no trace of it.
CREATE FUNCTION @extschema@.schemasync_check(ddl text, policy jsonb DEFAULT '{}',
	OUT operation text, OUT object_type text, OUT object_identity text, OUT verdict text, OUT reason text, OUT lock text,
	OUT rewrite boolean, OUT work text, OUT severity text, OUT change text, OUT detail text, OUT sql text,
	OUT suggested_sql text, OUT hint text)
RETURNS SETOF record LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'schemasync_check';
