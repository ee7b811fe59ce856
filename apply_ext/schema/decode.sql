-- What the catalog says of an object, and what a message of the stream says, for people and for tests.
-- The formats are those of docs/wire.md.

CREATE FUNCTION @extschema@.schemasync_describe(relation regclass) RETURNS jsonb
LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'schemasync_describe';
COMMENT ON FUNCTION @extschema@.schemasync_describe(regclass) IS
	'state of a table as it travels to subscribers; null when it is no table, view or foreign table';

CREATE FUNCTION @extschema@.schemasync_describe_type(type regtype) RETURNS jsonb
LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'schemasync_describe_type';
COMMENT ON FUNCTION @extschema@.schemasync_describe_type(regtype) IS
	'state of a type as it travels to subscribers';

CREATE FUNCTION @extschema@.schemasync_describe_types(relation regclass) RETURNS jsonb
LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'schemasync_describe_types';
COMMENT ON FUNCTION @extschema@.schemasync_describe_types(regclass) IS
	'states of the types that the columns of a table need and that are not built in, each after those it needs';

CREATE FUNCTION @extschema@.schemasync_decode(message bytea) RETURNS jsonb
LANGUAGE c STRICT STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'schemasync_decode';
COMMENT ON FUNCTION @extschema@.schemasync_decode(bytea) IS
	'one message of a pgoutput stream, as pg_logical_slot_get_binary_changes gives it';

CREATE FUNCTION @extschema@.schemasync_describe_published(relation regclass, columns smallint[], filter boolean, via_root boolean)
RETURNS jsonb LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'schemasync_describe_published';
COMMENT ON FUNCTION @extschema@.schemasync_describe_published(regclass, smallint[], boolean, boolean) IS
	'state of a table and its types as the stream sends them under a column list; asked by a subscriber that begins';

CREATE FUNCTION @extschema@.schemasync_describe_objects(all_classes boolean DEFAULT true) RETURNS SETOF jsonb
LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'schemasync_describe_objects';
COMMENT ON FUNCTION @extschema@.schemasync_describe_objects(boolean) IS
	'definitions of all sequences that no column owns and, with all_classes, of all views, functions, triggers and other objects of the opt-in classes, with comments and privileges; asked by a subscriber that begins';
