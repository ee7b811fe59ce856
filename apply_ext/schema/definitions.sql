-- Definitions of the opt-in classes as jsonb (docs/wire.md, DEFINITION). The capture puts them into markers, the subscriber
-- reads its own side with them. Called by schemasync's own code alone, which pins search_path and output settings first.

CREATE FUNCTION schemasync.relation_name(relation oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT pg_catalog.jsonb_build_object('oid', c.oid::pg_catalog.int8, 'schema', n.nspname, 'name', c.relname)
	FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);

-- The table that an object belongs to.
CREATE FUNCTION schemasync.table_of(catalog oid, object oid) RETURNS oid LANGUAGE sql STABLE
RETURN CASE catalog
	WHEN 'pg_catalog.pg_class'::pg_catalog.regclass THEN (SELECT CASE
		WHEN c.relkind IN ('r', 'p', 'f') THEN c.oid
		WHEN c.relkind IN ('i', 'I') THEN (SELECT t.oid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
			WHERE i.indexrelid = c.oid AND t.relkind IN ('r', 'p'))
		WHEN c.relkind = 'S' THEN (SELECT d.refobjid FROM pg_catalog.pg_depend d
			WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid
			AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i') LIMIT 1)
		END FROM pg_catalog.pg_class c WHERE c.oid = object)
	WHEN 'pg_catalog.pg_constraint'::pg_catalog.regclass THEN (SELECT conrelid FROM pg_catalog.pg_constraint WHERE oid = object)
	WHEN 'pg_catalog.pg_trigger'::pg_catalog.regclass THEN (SELECT tgrelid FROM pg_catalog.pg_trigger WHERE oid = object)
	WHEN 'pg_catalog.pg_rewrite'::pg_catalog.regclass THEN (SELECT ev_class FROM pg_catalog.pg_rewrite WHERE oid = object)
	WHEN 'pg_catalog.pg_policy'::pg_catalog.regclass THEN (SELECT polrelid FROM pg_catalog.pg_policy WHERE oid = object)
	WHEN 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass THEN (SELECT stxrelid FROM pg_catalog.pg_statistic_ext WHERE oid = object)
	END;

CREATE FUNCTION schemasync.schema_of(catalog oid, object oid) RETURNS oid LANGUAGE sql STABLE
RETURN CASE catalog
	WHEN 'pg_catalog.pg_class'::pg_catalog.regclass THEN (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = object)
	WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass THEN (SELECT pronamespace FROM pg_catalog.pg_proc WHERE oid = object)
	WHEN 'pg_catalog.pg_type'::pg_catalog.regclass THEN (SELECT typnamespace FROM pg_catalog.pg_type WHERE oid = object)
	WHEN 'pg_catalog.pg_namespace'::pg_catalog.regclass THEN object
	WHEN 'pg_catalog.pg_constraint'::pg_catalog.regclass THEN (SELECT connamespace FROM pg_catalog.pg_constraint WHERE oid = object)
	WHEN 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass THEN (SELECT stxnamespace FROM pg_catalog.pg_statistic_ext WHERE oid = object)
	ELSE (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = schemasync.table_of(catalog, object)) END;

-- Who may change the object.
CREATE FUNCTION schemasync.owner_of(catalog oid, object oid) RETURNS oid LANGUAGE sql STABLE
RETURN CASE catalog
	WHEN 'pg_catalog.pg_class'::pg_catalog.regclass THEN (SELECT relowner FROM pg_catalog.pg_class WHERE oid = object)
	WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass THEN (SELECT proowner FROM pg_catalog.pg_proc WHERE oid = object)
	WHEN 'pg_catalog.pg_type'::pg_catalog.regclass THEN (SELECT typowner FROM pg_catalog.pg_type WHERE oid = object)
	WHEN 'pg_catalog.pg_namespace'::pg_catalog.regclass THEN (SELECT nspowner FROM pg_catalog.pg_namespace WHERE oid = object)
	WHEN 'pg_catalog.pg_language'::pg_catalog.regclass THEN (SELECT lanowner FROM pg_catalog.pg_language WHERE oid = object)
	WHEN 'pg_catalog.pg_extension'::pg_catalog.regclass THEN (SELECT extowner FROM pg_catalog.pg_extension WHERE oid = object)
	WHEN 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass THEN (SELECT stxowner FROM pg_catalog.pg_statistic_ext WHERE oid = object)
	WHEN 'pg_catalog.pg_constraint'::pg_catalog.regclass THEN (SELECT coalesce(r.relowner, t.typowner)
		FROM pg_catalog.pg_constraint c LEFT JOIN pg_catalog.pg_class r ON r.oid = c.conrelid
		LEFT JOIN pg_catalog.pg_type t ON t.oid = c.contypid WHERE c.oid = object)
	ELSE (SELECT relowner FROM pg_catalog.pg_class WHERE oid = schemasync.table_of(catalog, object)) END;

-- What all definitions begin with; null when the object is gone.
CREATE FUNCTION schemasync.definition_head(class text, catalog oid, object oid, subid integer) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT pg_catalog.jsonb_build_object('class', class, 'catalog', c.relname, 'oid', object::pg_catalog.int8, 'subid', subid,
		'type', i.type, 'identity', i.identity, 'names', pg_catalog.to_jsonb(a.object_names), 'args', pg_catalog.to_jsonb(a.object_args),
		'owner', pg_catalog.pg_get_userbyid(schemasync.owner_of(catalog, object)),
		'of_table', coalesce(schemasync.table_of(catalog, object), 0)::pg_catalog.int8,
		'in_schema', coalesce(schemasync.schema_of(catalog, object), 0)::pg_catalog.int8)
	FROM pg_catalog.pg_class c, pg_catalog.pg_identify_object(catalog, object, subid) i,
		pg_catalog.pg_identify_object_as_address(catalog, object, subid) a
	WHERE c.oid = catalog AND i.identity IS NOT NULL);

CREATE FUNCTION schemasync.view_definition(object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('views', 'pg_catalog.pg_class'::pg_catalog.regclass, object, 0)
		|| pg_catalog.jsonb_build_object('schema', n.nspname, 'name', c.relname,
		'definition', pg_catalog.rtrim(pg_catalog.pg_get_viewdef(c.oid), ';'),
		'columns', (SELECT coalesce(pg_catalog.jsonb_agg(attname ORDER BY attnum), '[]') FROM pg_catalog.pg_attribute
			WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
		'options', coalesce(pg_catalog.to_jsonb(c.reloptions), '[]'),
		'defaults', (SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('column', a.attname,
				'sql', pg_catalog.pg_get_expr(d.adbin, d.adrelid)) ORDER BY d.adnum), '[]')
			FROM pg_catalog.pg_attrdef d JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
			WHERE d.adrelid = c.oid),
		'populated', c.relispopulated, 'access_method', (SELECT amname FROM pg_catalog.pg_am WHERE oid = c.relam),
		'indexes', (SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('oid', i.indexrelid::pg_catalog.int8,
				'name', x.relname, 'definition', pg_catalog.pg_get_indexdef(i.indexrelid)) ORDER BY i.indexrelid), '[]')
			FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
			WHERE i.indrelid = c.oid AND i.indisvalid))
	FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE c.oid = object AND c.relkind IN ('v', 'm'));

CREATE FUNCTION schemasync.aggregate_text(object oid) RETURNS text LANGUAGE sql STABLE
RETURN (SELECT pg_catalog.format('CREATE AGGREGATE %I.%I(%s) (%s)', n.nspname, p.proname,
		coalesce(nullif(pg_catalog.pg_get_function_arguments(p.oid), ''), '*'),
		pg_catalog.concat_ws(', ', 'SFUNC = ' || a.aggtransfn::pg_catalog.text, 'STYPE = ' || pg_catalog.format_type(a.aggtranstype, NULL),
		CASE WHEN a.aggtransspace <> 0 THEN 'SSPACE = ' || a.aggtransspace END,
		CASE WHEN a.aggfinalfn <> 0 THEN 'FINALFUNC = ' || a.aggfinalfn::pg_catalog.text END,
		CASE WHEN a.aggfinalextra THEN 'FINALFUNC_EXTRA' END,
		CASE WHEN a.aggfinalfn <> 0 THEN 'FINALFUNC_MODIFY = ' || CASE a.aggfinalmodify WHEN 'r' THEN 'READ_ONLY' WHEN 's' THEN 'SHAREABLE'
			ELSE 'READ_WRITE' END END,
		CASE WHEN a.aggcombinefn <> 0 THEN 'COMBINEFUNC = ' || a.aggcombinefn::pg_catalog.text END,
		CASE WHEN a.aggserialfn <> 0 THEN 'SERIALFUNC = ' || a.aggserialfn::pg_catalog.text END,
		CASE WHEN a.aggdeserialfn <> 0 THEN 'DESERIALFUNC = ' || a.aggdeserialfn::pg_catalog.text END,
		'INITCOND = ' || pg_catalog.quote_literal(a.agginitval),
		CASE WHEN a.aggmtransfn <> 0 THEN 'MSFUNC = ' || a.aggmtransfn::pg_catalog.text END,
		CASE WHEN a.aggminvtransfn <> 0 THEN 'MINVFUNC = ' || a.aggminvtransfn::pg_catalog.text END,
		CASE WHEN a.aggmtranstype <> 0 THEN 'MSTYPE = ' || pg_catalog.format_type(a.aggmtranstype, NULL) END,
		CASE WHEN a.aggmtransspace <> 0 THEN 'MSSPACE = ' || a.aggmtransspace END,
		CASE WHEN a.aggmfinalfn <> 0 THEN 'MFINALFUNC = ' || a.aggmfinalfn::pg_catalog.text END,
		CASE WHEN a.aggmfinalextra THEN 'MFINALFUNC_EXTRA' END,
		CASE WHEN a.aggmfinalfn <> 0 THEN 'MFINALFUNC_MODIFY = ' || CASE a.aggmfinalmodify WHEN 'r' THEN 'READ_ONLY' WHEN 's' THEN 'SHAREABLE'
			ELSE 'READ_WRITE' END END,
		'MINITCOND = ' || pg_catalog.quote_literal(a.aggminitval),
		(SELECT pg_catalog.format('SORTOP = OPERATOR(%I.%s)', s.nspname, o.oprname) FROM pg_catalog.pg_operator o
			JOIN pg_catalog.pg_namespace s ON s.oid = o.oprnamespace WHERE o.oid = a.aggsortop),
		'PARALLEL = ' || CASE p.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END,
		CASE WHEN a.aggkind = 'h' THEN 'HYPOTHETICAL' END))
	FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
		JOIN pg_catalog.pg_aggregate a ON a.aggfnoid = p.oid WHERE p.oid = object);

CREATE FUNCTION schemasync.function_definition(object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('functions', 'pg_catalog.pg_proc'::pg_catalog.regclass, object, 0)
		|| pg_catalog.jsonb_build_object('schema', n.nspname, 'name', p.proname,
		'definition', CASE WHEN p.prokind = 'a' THEN schemasync.aggregate_text(p.oid) ELSE pg_catalog.pg_get_functiondef(p.oid) END,
		'security_definer', p.prosecdef, 'language', l.lanname)
	FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_language l ON l.oid = p.prolang
	WHERE p.oid = object);

CREATE FUNCTION schemasync.trigger_definition(object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('triggers', 'pg_catalog.pg_trigger'::pg_catalog.regclass, object, 0)
		|| pg_catalog.jsonb_build_object('name', t.tgname, 'relation', schemasync.relation_name(t.tgrelid),
		'definition', pg_catalog.pg_get_triggerdef(t.oid), 'enabled', t.tgenabled::pg_catalog.text,
		'clone', t.tgparentid <> 0, 'constraint', t.tgconstraint <> 0)
	FROM pg_catalog.pg_trigger t WHERE t.oid = object AND NOT t.tgisinternal);

CREATE FUNCTION schemasync.rule_definition(object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('rules', 'pg_catalog.pg_rewrite'::pg_catalog.regclass, object, 0)
		|| pg_catalog.jsonb_build_object('name', r.rulename, 'relation', schemasync.relation_name(r.ev_class),
		'definition', pg_catalog.rtrim(pg_catalog.pg_get_ruledef(r.oid), ';'), 'enabled', r.ev_enabled::pg_catalog.text)
	FROM pg_catalog.pg_rewrite r WHERE r.oid = object AND r.rulename <> '_RETURN');

CREATE FUNCTION schemasync.policy_definition(object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('policies', 'pg_catalog.pg_policy'::pg_catalog.regclass, object, 0)
		|| pg_catalog.jsonb_build_object('name', p.polname, 'relation', schemasync.relation_name(p.polrelid),
		'command', p.polcmd::pg_catalog.text, 'permissive', p.polpermissive,
		'roles', (SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.pg_get_userbyid(role) ORDER BY pg_catalog.pg_get_userbyid(role)), '[]')
			FROM pg_catalog.unnest(p.polroles) role WHERE role <> 0),
		'using', pg_catalog.pg_get_expr(p.polqual, p.polrelid), 'check', pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid))
	FROM pg_catalog.pg_policy p WHERE p.oid = object);

CREATE FUNCTION schemasync.statistics_definition(object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('statistics', 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, object, 0)
		|| pg_catalog.jsonb_build_object('schema', n.nspname, 'name', s.stxname, 'relation', schemasync.relation_name(s.stxrelid),
		'definition', pg_catalog.pg_get_statisticsobjdef(s.oid),
		-- null instead of -1 from 17 on
		'target', coalesce((pg_catalog.to_jsonb(s) ->> 'stxstattarget')::pg_catalog.int4, -1))
	FROM pg_catalog.pg_statistic_ext s JOIN pg_catalog.pg_namespace n ON n.oid = s.stxnamespace WHERE s.oid = object);

CREATE FUNCTION schemasync.extension_definition(object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('extensions', 'pg_catalog.pg_extension'::pg_catalog.regclass, object, 0)
		|| pg_catalog.jsonb_build_object('schema', n.nspname, 'name', e.extname, 'version', e.extversion)
	FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.oid = object AND e.extname <> 'schemasync');

-- One that a column owns belongs to the state of its table; whether it does, is told for the comparison.
CREATE FUNCTION schemasync.sequence_definition(object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('sequences', 'pg_catalog.pg_class'::pg_catalog.regclass, object, 0)
		|| pg_catalog.jsonb_build_object('schema', n.nspname, 'name', c.relname,
		'owned', schemasync.table_of('pg_catalog.pg_class'::pg_catalog.regclass, object) IS NOT NULL,
		'sequence', pg_catalog.jsonb_build_object('oid', c.oid::pg_catalog.int8, 'schema', n.nspname, 'name', c.relname,
			'type', pg_catalog.format_type(s.seqtypid, NULL), 'start', s.seqstart, 'increment', s.seqincrement,
			'min', s.seqmin, 'max', s.seqmax, 'cache', s.seqcache, 'cycle', s.seqcycle))
	FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE s.seqrelid = object AND c.relpersistence <> 't');

CREATE FUNCTION schemasync.comment_definition(catalog oid, object oid, subid integer) RETURNS jsonb LANGUAGE sql STABLE
RETURN schemasync.definition_head('comments', catalog, object, subid)
	|| pg_catalog.jsonb_build_object('text', (SELECT description FROM pg_catalog.pg_description
		WHERE objoid = object AND classoid = catalog AND objsubid = subid));

CREATE FUNCTION schemasync.acl_entries(acl aclitem[], owner oid, named name) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('owner', a.grantee = owner,
		'role', CASE WHEN a.grantee = 0 OR a.grantee = owner THEN '' ELSE pg_catalog.pg_get_userbyid(a.grantee) END,
		'privilege', a.privilege_type, 'grantable', a.grantable AND a.grantee <> owner, 'column', coalesce(named::pg_catalog.text, ''))
		ORDER BY a.place), '[]')
	FROM (SELECT e.grantee, e.privilege_type, pg_catalog.bool_or(e.is_grantable) AS grantable, pg_catalog.min(e.place) AS place
		FROM pg_catalog.aclexplode(acl) WITH ORDINALITY e (grantor, grantee, privilege_type, is_grantable, place) GROUP BY 1, 2) a);

CREATE FUNCTION schemasync.privileges_definition(catalog oid, object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT schemasync.definition_head('privileges', catalog, object, 0)
		|| pg_catalog.jsonb_build_object('default', schemasync.acl_entries(pg_catalog.acldefault(k.kind, k.owner), k.owner, NULL),
		'acl', schemasync.acl_entries(coalesce(k.acl, pg_catalog.acldefault(k.kind, k.owner)), k.owner, NULL) || k.columns)
	FROM (
		SELECT CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r'::"char" END AS kind, relacl AS acl, relowner AS owner,
			(SELECT coalesce(pg_catalog.jsonb_agg(e.value), '[]') FROM pg_catalog.pg_attribute a,
				pg_catalog.jsonb_array_elements(schemasync.acl_entries(a.attacl, c.relowner, a.attname)) e
				WHERE a.attrelid = c.oid AND a.attacl IS NOT NULL AND NOT a.attisdropped) AS columns
			FROM pg_catalog.pg_class c WHERE catalog = 'pg_catalog.pg_class'::pg_catalog.regclass AND oid = object
				AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
		UNION ALL SELECT 'f', proacl, proowner, '[]' FROM pg_catalog.pg_proc
			WHERE catalog = 'pg_catalog.pg_proc'::pg_catalog.regclass AND oid = object
		UNION ALL SELECT 'T', typacl, typowner, '[]' FROM pg_catalog.pg_type
			WHERE catalog = 'pg_catalog.pg_type'::pg_catalog.regclass AND oid = object
		UNION ALL SELECT 'n', nspacl, nspowner, '[]' FROM pg_catalog.pg_namespace
			WHERE catalog = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND oid = object
		UNION ALL SELECT 'l', lanacl, lanowner, '[]' FROM pg_catalog.pg_language
			WHERE catalog = 'pg_catalog.pg_language'::pg_catalog.regclass AND oid = object) k);

-- What a role gives to the objects that it will make, everywhere (schema 0) or beside that in one schema.
CREATE FUNCTION schemasync.default_privileges(role oid, schema oid, kind text) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT pg_catalog.jsonb_build_object('class', 'privileges', 'catalog', 'pg_default_acl', 'oid', 0, 'subid', 0, 'type', 'default privileges',
		'identity', pg_catalog.concat('on ', CASE kind WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS'
			WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS' END, ' for role ', pg_catalog.quote_ident(r.rolname),
			' in schema ' || pg_catalog.quote_ident(n.nspname)),
		'names', CASE WHEN n.oid IS NULL THEN pg_catalog.jsonb_build_array(r.rolname) ELSE pg_catalog.jsonb_build_array(r.rolname, n.nspname) END,
		'args', pg_catalog.jsonb_build_array(kind), 'owner', r.rolname, 'of_table', 0, 'in_schema', schema::pg_catalog.int8,
		'default', schemasync.acl_entries(b.acl, r.oid, NULL), 'acl', schemasync.acl_entries(coalesce(d.defaclacl, b.acl), r.oid, NULL))
	FROM pg_catalog.pg_roles r
		CROSS JOIN LATERAL (SELECT CASE WHEN schema = 0 THEN pg_catalog.acldefault(CASE kind WHEN 'S' THEN 's' ELSE kind END::"char", r.oid)
			END AS acl) b
		LEFT JOIN pg_catalog.pg_namespace n ON n.oid = schema
		LEFT JOIN pg_catalog.pg_default_acl d ON d.defaclrole = r.oid AND d.defaclnamespace = schema AND d.defaclobjtype = kind::"char"
	WHERE r.oid = role AND (schema = 0 OR n.oid IS NOT NULL));

-- One object of a class by its catalog; null when it is gone or of no class.
CREATE FUNCTION schemasync.definition_of(catalog oid, object oid) RETURNS jsonb LANGUAGE sql STABLE
RETURN CASE catalog
	WHEN 'pg_catalog.pg_class'::pg_catalog.regclass THEN coalesce(schemasync.view_definition(object), schemasync.sequence_definition(object))
	WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass THEN schemasync.function_definition(object)
	WHEN 'pg_catalog.pg_trigger'::pg_catalog.regclass THEN schemasync.trigger_definition(object)
	WHEN 'pg_catalog.pg_rewrite'::pg_catalog.regclass THEN schemasync.rule_definition(object)
	WHEN 'pg_catalog.pg_policy'::pg_catalog.regclass THEN schemasync.policy_definition(object)
	WHEN 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass THEN schemasync.statistics_definition(object)
	WHEN 'pg_catalog.pg_extension'::pg_catalog.regclass THEN schemasync.extension_definition(object) END;

-- The sequences that no column owns.
CREATE FUNCTION schemasync.sequence_definitions() RETURNS SETOF jsonb LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT d FROM (SELECT schemasync.sequence_definition(c.oid) AS d, c.oid FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'S' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'schemasync', 'pg_toast')
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
				AND e.objid = c.oid AND e.deptype = 'e')) s
	WHERE NOT (d->>'owned')::pg_catalog.bool ORDER BY oid;
END;

-- Everything of all classes that belongs to no extension and to no system schema, in an order in which it can be made: extensions,
-- sequences, functions, views, what lies on tables and views, then what is said of objects.
CREATE FUNCTION schemasync.all_definitions() RETURNS SETOF jsonb LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH own_schema AS MATERIALIZED (
		SELECT oid FROM pg_catalog.pg_namespace WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'schemasync', 'pg_toast')
			AND nspname !~ '^pg_(toast_)?temp_'
	), member AS MATERIALIZED (
		SELECT classid, objid FROM pg_catalog.pg_depend WHERE deptype = 'e'
	), relation AS MATERIALIZED (
		SELECT c.oid, c.relkind FROM pg_catalog.pg_class c JOIN own_schema s ON s.oid = c.relnamespace
		WHERE NOT EXISTS (SELECT FROM member WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND objid = c.oid)
			AND c.relpersistence <> 't'
	), routine AS MATERIALIZED (
		SELECT p.oid FROM pg_catalog.pg_proc p JOIN own_schema s ON s.oid = p.pronamespace
		WHERE NOT EXISTS (SELECT FROM member WHERE classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND objid = p.oid)
	), object (step, catalog, oid) AS MATERIALIZED (
		SELECT 1, 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid, oid FROM pg_catalog.pg_extension
		UNION ALL SELECT 2, 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid, oid FROM routine
		UNION ALL SELECT 3, 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, oid FROM relation WHERE relkind IN ('v', 'm')
		UNION ALL SELECT 4, 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass::pg_catalog.oid, x.oid
			FROM pg_catalog.pg_statistic_ext x JOIN relation r ON r.oid = x.stxrelid
		UNION ALL SELECT 4, 'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid, x.oid
			FROM pg_catalog.pg_rewrite x JOIN relation r ON r.oid = x.ev_class WHERE x.rulename <> '_RETURN'
		UNION ALL SELECT 4, 'pg_catalog.pg_policy'::pg_catalog.regclass::pg_catalog.oid, x.oid
			FROM pg_catalog.pg_policy x JOIN relation r ON r.oid = x.polrelid
		UNION ALL SELECT 4, 'pg_catalog.pg_trigger'::pg_catalog.regclass::pg_catalog.oid, x.oid
			FROM pg_catalog.pg_trigger x JOIN relation r ON r.oid = x.tgrelid WHERE NOT x.tgisinternal AND x.tgparentid = 0
	), described (step, oid, definition) AS (
		SELECT step, oid, schemasync.definition_of(catalog, oid) FROM object
		UNION ALL
		SELECT 2, (d->>'oid')::pg_catalog.oid, d FROM schemasync.sequence_definitions() d
		UNION ALL
		SELECT 5, d.objoid, schemasync.comment_definition(d.classoid, d.objoid, d.objsubid) FROM pg_catalog.pg_description d
		WHERE (d.objoid >= 16384 OR d.classoid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
				AND d.objoid IN (SELECT oid FROM own_schema))
			AND NOT EXISTS (SELECT FROM member m WHERE m.classid = d.classoid AND m.objid = d.objoid)
			AND schemasync.schema_of(d.classoid, d.objoid) IN (SELECT oid FROM own_schema)
		UNION ALL
		SELECT 6, oid, schemasync.privileges_definition(catalog, oid) FROM (
			SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AS catalog, r.oid FROM relation r JOIN pg_catalog.pg_class c USING (oid)
				WHERE c.relacl IS NOT NULL OR EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attacl IS NOT NULL)
			UNION ALL SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid, oid FROM routine JOIN pg_catalog.pg_proc p USING (oid)
				WHERE p.proacl IS NOT NULL
			UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, t.oid FROM pg_catalog.pg_type t
				JOIN own_schema s ON s.oid = t.typnamespace WHERE t.typacl IS NOT NULL
				AND NOT EXISTS (SELECT FROM member WHERE classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND objid = t.oid)
			UNION ALL SELECT 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid, n.oid FROM pg_catalog.pg_namespace n
				JOIN own_schema s USING (oid) WHERE n.nspacl IS NOT NULL) granted
		UNION ALL
		SELECT 7, d.oid, schemasync.default_privileges(d.defaclrole, d.defaclnamespace, d.defaclobjtype::pg_catalog.text)
		FROM pg_catalog.pg_default_acl d WHERE d.defaclobjtype IN ('r', 'S', 'f', 'T', 'n')
			AND (d.defaclnamespace = 0 OR d.defaclnamespace IN (SELECT oid FROM own_schema))
	)
	SELECT definition FROM described WHERE definition IS NOT NULL ORDER BY step, oid;
END;
