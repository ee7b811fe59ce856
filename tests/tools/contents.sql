-- Prints every row of every table of the user's own (for psql: it makes the queries and runs them), in an order and with
-- the columns in an order that depend on neither side's physical layout. A partitioned table is read through its
-- partitions, an inheritance parent alone. With schemasync_test.pattern set, just the tables whose name matches that pattern.
SET search_path = '';
SET extra_float_digits = 3;
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
SET timezone = 'UTC';
SET bytea_output = 'hex';
SELECT pg_catalog.format('SELECT %L, r FROM (SELECT pg_catalog.array_to_string(ARRAY[%s]::pg_catalog.text[], E''\t'') AS r FROM ONLY %I.%I) rows ORDER BY r COLLATE "C"',
		n.nspname || '.' || c.relname,
		coalesce(pg_catalog.string_agg(pg_catalog.format('coalesce(pg_catalog.quote_literal(%I::text), %L)',
			a.attname, a.attname || ' is null'), ', ' ORDER BY a.attname COLLATE "C")
			FILTER (WHERE a.attname IS NOT NULL), ''''''),
		n.nspname, c.relname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind = 'r'
	AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'schemasync') AND n.nspname !~ '^pg_(toast|temp)'
	AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
		WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
	AND n.nspname || '.' || c.relname ~ coalesce(nullif(pg_catalog.current_setting('schemasync_test.pattern', true), ''), '.')
GROUP BY n.nspname, c.relname
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
\gexec
