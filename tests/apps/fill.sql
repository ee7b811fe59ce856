-- A row in every ordinary table of the user's schemas, made from the catalog; what its constraints refuse is left out. Some rows are changed as well.
SET session_replication_role = replica;		-- rows need not make sense to the application
DO $$
DECLARE
	t record;
	n int;
BEGIN
	FOR t IN
		SELECT c.oid, c.oid::pg_catalog.regclass AS name,
			string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns,
			string_agg(CASE
				WHEN y.typcategory = 'N' THEN format('(%s + (random() * 10000)::int)::%s', 20000, format_type(a.atttypid, NULL))
				WHEN y.typcategory = 'B' THEN 'random() < 0.5'
				WHEN y.typcategory = 'D' AND y.typname = 'date' THEN 'current_date'
				WHEN y.typcategory = 'D' THEN 'clock_timestamp()'
				WHEN y.typname = 'uuid' THEN 'gen_random_uuid()'
				WHEN y.typname IN ('json', 'jsonb') THEN format('''{"a": [1, "ü"]}''::%s', y.typname)
				WHEN y.typname = 'bytea' THEN 'decode(md5(random()::text), ''hex'')'
				WHEN y.typname = 'inet' THEN '''10.0.0.1''::inet'
				WHEN y.typname = 'interval' THEN '''1 day''::interval'
				WHEN y.typtype = 'e' THEN format('(enum_range(NULL::%s))[1]', format_type(a.atttypid, NULL))
				WHEN y.typcategory = 'S' AND a.atttypmod > 0 THEN format('left(md5(random()::text), %s)', least(a.atttypmod - 4, 30))
				WHEN y.typcategory = 'S' THEN '''é '' || md5(random()::text)'
				ELSE 'NULL' END, ', ' ORDER BY a.attnum) AS row
		FROM pg_class c
		JOIN pg_namespace s ON s.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity = ''
			AND coalesce((SELECT pg_get_expr(adbin, adrelid) NOT LIKE 'nextval%' FROM pg_attrdef d WHERE d.adrelid = c.oid AND d.adnum = a.attnum), true)
		JOIN pg_type y ON y.oid = a.atttypid
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND s.nspname NOT LIKE 'pg\_%' AND s.nspname NOT IN ('information_schema', 'schemasync')
			AND c.relname NOT IN ('django_migrations', 'alembic_version', 'alembic_version_expand', 'alembic_version_contract', 'django_content_type', 'auth_permission', 'migrate_version')
			AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
		GROUP BY c.oid
	LOOP
		FOR n IN 1 .. 3 LOOP
			BEGIN
				EXECUTE format('INSERT INTO %s (%s) VALUES (%s)', t.name, t.columns, t.row);
			EXCEPTION WHEN OTHERS THEN
				NULL;
			END;
		END LOOP;
	END LOOP;
END
$$;
