-- The operation catalog: what schemasync knows of each kind of change, and what becomes of each command.

CREATE FUNCTION schemasync.operations(
	OUT operation text, OUT object_type text, OUT proof text, OUT default_action text, OUT condition text,
	OUT otherwise text, OUT lock text, OUT work text, OUT severity text, OUT since_version integer, OUT subcommands text[])
RETURNS SETOF record LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'schemasync_operations';

-- proof: what identifies the object on both sides; condition: when the default action is taken; otherwise: the reasons
-- of a refusal; lock and work: what it costs on the subscriber; since_version: the first server version that has it,
-- when not all have; subcommands: the members of the server's AlterTableType that lead to it.
CREATE VIEW @extschema@.schemasync_operations AS SELECT * FROM schemasync.operations();

CREATE FUNCTION schemasync.commands(OUT tag text, OUT object_class text, OUT policy text, OUT marked boolean)
RETURNS SETOF record LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'schemasync_commands';

-- policy: structure (followed by the merge of states), definition (when the option ddl_classes names the class),
-- publication (by auto_refresh), dependency (not followed; what needs it is refused where it is missing), local
-- (shown as ignored), silent (not marked).
CREATE VIEW @extschema@.schemasync_commands AS SELECT * FROM schemasync.commands();

GRANT SELECT ON @extschema@.schemasync_operations, @extschema@.schemasync_commands TO PUBLIC;
