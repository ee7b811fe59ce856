-- Describes what the catalog holds of the user's own tables and types, one line each in a fixed order, so that two
-- servers can be compared as text. Column positions and oids are left out: they may differ between two level sides.
-- With schemasync_test.pattern set, just the objects whose schema-qualified name matches that pattern; with
-- schemasync_test.not_null_names = off, not-null constraints without their names.
SET search_path = '';
SET extra_float_digits = 3;
WITH relation AS (
	SELECT c.*, n.nspname || '.' || c.relname AS name
	FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'schemasync') AND n.nspname !~ '^pg_(toast|temp)'
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
			WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
		AND n.nspname || '.' || c.relname ~ coalesce(nullif(current_setting('schemasync_test.pattern', true), ''), '.')
), type AS (
	SELECT t.*, n.nspname || '.' || t.typname AS name
	FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
	WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'schemasync') AND n.nspname !~ '^pg_(toast|temp)'
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
			WHERE d.classid = 'pg_catalog.pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e')
		AND n.nspname || '.' || t.typname ~ coalesce(nullif(current_setting('schemasync_test.pattern', true), ''), '.')
		-- a type that no table uses has no need to be on the other side
		AND EXISTS (SELECT FROM relation r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid
			WHERE a.atttypid IN (t.oid, t.typarray) AND NOT a.attisdropped)
), line AS (
	SELECT 'relation' AS what, name, '' AS part, pg_catalog.concat_ws(' ', relkind, relpersistence,
			'method ' || (SELECT amname FROM pg_catalog.pg_am a WHERE a.oid = relam),
			'owner', pg_catalog.pg_get_userbyid(relowner), 'replica identity', relreplident,
			'rls', relrowsecurity, relforcerowsecurity, reloptions::text,
			pg_catalog.pg_get_partkeydef(oid), pg_catalog.pg_get_expr(relpartbound, oid)) AS content
	FROM relation WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
	UNION ALL
	SELECT 'parent', r.name, '', i.inhparent::regclass::text
	FROM relation r JOIN pg_catalog.pg_inherits i ON i.inhrelid = r.oid WHERE r.relkind IN ('r', 'p', 'f')
	UNION ALL
	SELECT 'column', r.name, a.attname, pg_catalog.concat_ws(' ', pg_catalog.format_type(a.atttypid, a.atttypmod),
			CASE WHEN a.attcollation <> 0 THEN 'collate ' || a.attcollation::regcollation::text END,
			-- (one that is not valid yet may be told by its constraint alone)
			CASE WHEN a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conrelid = r.oid
				AND k.contype = 'n' AND NOT k.convalidated AND k.conkey = ARRAY[a.attnum]) THEN 'not null' END,
			CASE WHEN a.attidentity <> '' THEN 'identity ' || a.attidentity::text END,
			CASE WHEN a.attgenerated <> '' THEN 'generated ' || a.attgenerated::text END,
			'default ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid),
			'storage ' || a.attstorage::text, nullif(a.attcompression::text, ''))
	FROM relation r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
	WHERE r.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
	UNION ALL
	-- not null is told with the column; it is a constraint with a name from 18 on, to be left out to compare with an older server
	SELECT 'constraint', r.name, k.conname, pg_catalog.pg_get_constraintdef(k.oid)
	FROM relation r JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid AND k.contype <> 't'
		AND (k.contype <> 'n' OR coalesce(nullif(current_setting('schemasync_test.not_null_names', true), ''), 'on') = 'on')
		-- what a foreign key to a partitioned table has for each partition is named by the server, each major in its way
		AND NOT (k.contype = 'f' AND EXISTS (SELECT FROM pg_catalog.pg_constraint p
			WHERE p.oid = k.conparentid AND p.conrelid = k.conrelid))
	UNION ALL
	SELECT 'index', r.name, i.indexrelid::regclass::text, pg_catalog.concat_ws(' ',
			pg_catalog.pg_get_indexdef(i.indexrelid),
			CASE WHEN i.indisreplident THEN 'replica identity' END, CASE WHEN NOT i.indisvalid THEN 'invalid' END)
	FROM relation r JOIN pg_catalog.pg_index i ON i.indrelid = r.oid WHERE r.relkind IN ('r', 'p', 'm')
	UNION ALL
	SELECT 'sequence', r.name, '', pg_catalog.concat_ws(' ', s.seqtypid::regtype, s.seqincrement, s.seqmin, s.seqmax,
			s.seqstart, s.seqcache, s.seqcycle,
			(SELECT 'owned by ' || d.refobjid::regclass::text || '.' || a.attname
				FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_attribute a
					ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
				WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = r.oid AND d.deptype IN ('a', 'i')
					AND d.refclassid = 'pg_catalog.pg_class'::regclass))
	FROM relation r JOIN pg_catalog.pg_sequence s ON s.seqrelid = r.oid
	UNION ALL
	SELECT 'enum', name, '', (SELECT pg_catalog.string_agg(pg_catalog.quote_literal(e.enumlabel), ', '
			ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = type.oid)
	FROM type WHERE typtype = 'e'
	UNION ALL
	SELECT 'domain', name, '', pg_catalog.concat_ws(' ', pg_catalog.format_type(typbasetype, typtypmod),
			CASE WHEN typnotnull THEN 'not null' END, 'default ' || typdefault)
	FROM type WHERE typtype = 'd'
	UNION ALL
	SELECT 'domain constraint', name, k.conname, pg_catalog.pg_get_constraintdef(k.oid)
	FROM type JOIN pg_catalog.pg_constraint k ON k.contypid = type.oid AND k.contype <> 'n'
)
SELECT pg_catalog.concat_ws(E'\t', what, name, part, content) FROM line
ORDER BY what COLLATE "C", name COLLATE "C", part COLLATE "C", content COLLATE "C";
