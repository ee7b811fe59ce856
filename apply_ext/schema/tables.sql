-- What the extension stores. Nobody but the extension's owner may read or write these tables; people use the views
-- and functions, and the apply worker reaches them with fixed statements under the owner's identity.

CREATE SCHEMA schemasync;

CREATE TABLE schemasync.subscription (
	subid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text NOT NULL UNIQUE,
	owner oid NOT NULL,
	conninfo text NOT NULL,
	publications text[] NOT NULL,
	slot_name text NOT NULL,
	create_slot boolean NOT NULL,          -- the worker still has to make the slot
	schema_changes text NOT NULL,
	copy_schema boolean NOT NULL,
	copy_data boolean NOT NULL,
	options jsonb NOT NULL,                -- only what was given; defaults are code
	enabled boolean NOT NULL,
	drain boolean NOT NULL DEFAULT false,  -- stop at drain_lsn
	drain_lsn pg_lsn,
	copied boolean NOT NULL DEFAULT false, -- the initial copy is done; false again while a refresh or resync is
	refresh boolean NOT NULL DEFAULT false, -- schemasync_refresh was called: the copy worker compares what is published
	refresh_copy boolean,                  -- of a refresh: whether rows of new tables are copied
	copy_begun boolean NOT NULL DEFAULT false, -- a slot of the name may be there, made by a copy that was interrupted
	copy_begun_at timestamptz,             -- of the copy that runs, or ran last
	objects_adopted boolean NOT NULL DEFAULT false, -- those of the classes that ddl_classes names are made, or found, here
	state text NOT NULL DEFAULT 'init',    -- the lasting part of the state: init, ready, refused, failed, drained
	state_since timestamptz NOT NULL DEFAULT now(),
	last_error text,
	system_identifier text,                -- the publisher's, checked at each connect
	timeline integer,
	skip_lsn pg_lsn,                       -- schemasync_skip: the transaction to drop
	applied_rows bigint NOT NULL DEFAULT 0, -- stored from time to time, so that a restart of the server loses little
	applied_transactions bigint NOT NULL DEFAULT 0,
	created_at timestamptz NOT NULL DEFAULT now()
);

-- One row for each publisher relation that the subscription knows, published or an ancestor of one that is.
CREATE TABLE schemasync.relation (
	subid bigint NOT NULL REFERENCES schemasync.subscription ON DELETE CASCADE,
	publisher_oid oid NOT NULL,
	publisher_schema text NOT NULL,
	publisher_name text NOT NULL,
	relid oid NOT NULL,                    -- the local relation; 0 when it was dropped here or is kept out by policy
	base text NOT NULL,                    -- the publisher's state last accepted (docs/wire.md)
	attmap smallint[] NOT NULL,            -- pairs: publisher attnum, local attnum
	state text NOT NULL,                   -- init, copying, catchup, ready, needs_refresh, removed
	sync_lsn pg_lsn,                       -- changes of transactions that committed before are in the copy
	sync_snapshot text,                    -- with two_phase: those that are visible in it are
	copied_rows bigint NOT NULL DEFAULT 0,
	total_rows bigint,                     -- about how many there are to copy
	partial boolean NOT NULL DEFAULT false, -- a copy in parts was begun: without the last one, what is here is emptied before the next
	resync boolean NOT NULL DEFAULT false, -- the copy first empties the table, in the same transaction
	options jsonb NOT NULL DEFAULT '{}',   -- policies of this table that override the subscription's
	created boolean NOT NULL DEFAULT false, -- made by the initial copy: indexes and constraints still follow the rows
	adopt boolean NOT NULL DEFAULT false,  -- what is of the opt-in classes and lies on it is still to be made, or found, here
	adopting boolean NOT NULL DEFAULT false, -- ... by the copy that took it in, or by one more if that did not come to it
	PRIMARY KEY (subid, publisher_oid)
);
-- What is asked after every schema change must not read the rows of all tables: which are being copied, and whose a local table is.
CREATE INDEX relation_copied ON schemasync.relation (subid, state) WHERE state <> 'ready';
CREATE INDEX relation_local ON schemasync.relation (relid);
CREATE INDEX relation_name ON schemasync.relation (subid, publisher_schema, publisher_name);

-- Bases of the other kinds of objects: types, schemas.
CREATE TABLE schemasync.object (
	subid bigint NOT NULL REFERENCES schemasync.subscription ON DELETE CASCADE,
	class text NOT NULL,                   -- pg_type, pg_namespace, ...
	publisher_oid oid NOT NULL,
	local_oid oid NOT NULL,
	base text NOT NULL,
	PRIMARY KEY (subid, class, publisher_oid)
);

CREATE TABLE schemasync.refusal (
	refusal_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	subid bigint NOT NULL,
	subscription text NOT NULL,
	status text NOT NULL DEFAULT 'open',
	reason text NOT NULL,
	object_type text,
	object_identity text,
	statement text,
	changes text,
	drift text,
	suggested_sql text,
	hint text,
	publisher_lsn pg_lsn,                  -- the commit LSN of the held transaction
	commit_time timestamptz,
	publisher_xid bigint,
	ordinal integer NOT NULL,              -- the boundary within the transaction, from 1
	publisher_oid oid,
	theirs text,                           -- the content of the refused message
	first_seen timestamptz NOT NULL DEFAULT now(),
	last_seen timestamptz NOT NULL DEFAULT now(),
	attempts integer NOT NULL DEFAULT 1,
	resolved_at timestamptz,
	resolved_by text,
	resolution text,                       -- resumed, apply, execute, skip, satisfied
	resolution_sql text,                   -- what the worker runs at the boundary
	UNIQUE (subid, publisher_lsn, ordinal)
);

CREATE TABLE schemasync.ddl_history (
	history_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	subid bigint NOT NULL,
	subscription text NOT NULL,
	publisher_lsn pg_lsn,
	commit_time timestamptz,
	operation text NOT NULL,
	object_type text,
	object_identity text,
	verdict text NOT NULL,
	reason text,
	applied_sql text,
	statement text,
	publisher_user text,
	duration interval,
	applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	ordinal integer NOT NULL,
	detail text
);

CREATE TABLE schemasync.error (
	error_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	subid bigint NOT NULL,
	subscription text NOT NULL,
	first_seen timestamptz NOT NULL DEFAULT now(),
	last_seen timestamptz NOT NULL DEFAULT now(),
	attempts integer NOT NULL DEFAULT 1,
	worker text NOT NULL,                  -- apply, copy, index
	sqlstate text NOT NULL,
	message text NOT NULL,
	detail text,
	hint text,
	context text,
	relation text,
	command text,                          -- INSERT, UPDATE, DELETE, TRUNCATE, COPY, DDL
	key text,
	publisher_lsn pg_lsn,
	publisher_xid bigint,
	resolved_at timestamptz
);

CREATE TABLE schemasync.conflict (
	conflict_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	subid bigint NOT NULL,
	subscription text NOT NULL,
	seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	relation text NOT NULL,
	command text NOT NULL,
	conflict text NOT NULL,                -- insert_exists, update_missing, delete_missing, unique_violation
	resolution text NOT NULL,              -- error, apply_remote, keep_local
	key text,
	local_row text,
	remote_row text,
	publisher_lsn pg_lsn,
	publisher_xid bigint
);

-- Indexes that are built beside the stream (indexes = background). No statement is stored: it is made of the relation's base.
CREATE TABLE schemasync.index_build (
	subid bigint NOT NULL REFERENCES schemasync.subscription ON DELETE CASCADE,
	publisher_oid oid NOT NULL,            -- the table on the publisher
	index_oid oid NOT NULL,                -- the index there
	index_name text NOT NULL,              -- ... its name, by which it is found when the publisher made it anew
	is_unique boolean NOT NULL,
	local_oid oid NOT NULL DEFAULT 0,      -- the index here that was begun and is not finished: the worker's own to drop
	state text NOT NULL DEFAULT 'queued',  -- queued, building, failed
	attempts integer NOT NULL DEFAULT 0,   -- that failed
	interruptions integer NOT NULL DEFAULT 0, -- attempts that a change of the table ended
	stood_at integer NOT NULL DEFAULT 0,   -- ... when the stream stood for it in vain
	last_error text,
	next_try timestamptz NOT NULL DEFAULT '-infinity',
	queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	begun_at timestamptz,
	history_id bigint,                     -- its row of ddl_history
	PRIMARY KEY (subid, publisher_oid, index_oid)
);
