-- What people call on the subscriber. Each function checks that its caller owns the subscription, so all of them may be called by anybody.

CREATE FUNCTION @extschema@.schemasync_create_subscription(
	name text,
	conninfo text,
	publications text[],
	schema_changes text DEFAULT 'forward',
	copy_schema boolean DEFAULT true,
	copy_data boolean DEFAULT true,
	enabled boolean DEFAULT true,
	slot_name text DEFAULT NULL,
	create_slot boolean DEFAULT true,
	options jsonb DEFAULT '{}')
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
-- From 16 on the members of pg_create_subscription may subscribe, which the function checks. Before, a superuser grants EXECUTE.
DO $$
BEGIN
	IF pg_catalog.to_regrole('pg_create_subscription') IS NULL THEN
		REVOKE ALL ON FUNCTION @extschema@.schemasync_create_subscription(text, text, text[], text, boolean, boolean, boolean, text, boolean, jsonb) FROM PUBLIC;
	END IF;
END
$$;


CREATE FUNCTION @extschema@.schemasync_alter_subscription(
	name text,
	conninfo text DEFAULT NULL,
	publications text[] DEFAULT NULL,
	schema_changes text DEFAULT NULL,
	copy_schema boolean DEFAULT NULL,
	copy_data boolean DEFAULT NULL,
	enabled boolean DEFAULT NULL,
	slot_name text DEFAULT NULL,
	create_slot boolean DEFAULT NULL,
	options jsonb DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_drop_subscription(name text, drop_slot boolean DEFAULT true)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_start(name text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_stop(name text, drain boolean DEFAULT false, timeout interval DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_wait(name text, lsn pg_lsn DEFAULT NULL, timeout interval DEFAULT NULL)
RETURNS pg_lsn LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_resume(name text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_resolve(refusal_id bigint, action text, sql text DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_skip(name text, lsn pg_lsn)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_refresh(name text DEFAULT NULL, copy_data boolean DEFAULT true)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_resync(name text, relation regclass)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

-- Options of one table (and of the partitions below it) that override the subscription's; null takes one back.
CREATE FUNCTION @extschema@.schemasync_set_table_policy(name text, relation regclass, policy jsonb)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION @extschema@.schemasync_sync_sequences(name text,
	OUT sequence text, OUT publisher_value bigint, OUT subscriber_value bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

-- What differs in the schema now, how to level it, and what the stream would make of it.
CREATE FUNCTION @extschema@.schemasync_diff(name text,
	OUT object_type text, OUT object_identity text, OUT difference text, OUT publisher text, OUT subscriber text,
	OUT suggested_sql text, OUT verdict text, OUT reason text, OUT detail text, OUT operation text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

-- Rows of both sides as of one position.
CREATE FUNCTION @extschema@.schemasync_verify(name text, relation regclass DEFAULT NULL,
	OUT object_identity text, OUT equal boolean, OUT publisher_rows bigint, OUT subscriber_rows bigint,
	OUT publisher_checksum text, OUT subscriber_checksum text, OUT differences text, OUT detail text, OUT at_lsn pg_lsn,
	OUT duration interval)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

-- What would keep a subscription to these publications from working, or surprise: both sides.
CREATE FUNCTION @extschema@.schemasync_preflight(conninfo text, publications text[],
	OUT side text, OUT severity text, OUT "check" text, OUT detail text, OUT hint text)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
DO $$
BEGIN
	-- it makes the server connect to where the caller says, so whoever may call it is who may subscribe
	IF pg_catalog.to_regrole('pg_create_subscription') IS NULL THEN
		REVOKE ALL ON FUNCTION @extschema@.schemasync_preflight(text, text[]) FROM PUBLIC;
	END IF;
END
$$;

-- What shared memory knows of the workers of this database; for the views.
CREATE FUNCTION schemasync.worker_status(
	OUT subid bigint, OUT pid integer, OUT state text, OUT state_since timestamptz,
	OUT received pg_lsn, OUT applied pg_lsn, OUT confirmed pg_lsn,
	OUT sent_at timestamptz, OUT received_at timestamptz, OUT committed_at timestamptz,
	OUT rows bigint, OUT transactions bigint, OUT failures integer, OUT next_start timestamptz, OUT draining boolean,
	OUT verifier integer, OUT verify_relation oid, OUT verify_done bigint, OUT verify_total bigint,
	OUT indexer integer)
RETURNS SETOF record LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'schemasync_worker_status';
