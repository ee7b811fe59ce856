-- The functions of the subscriber: what they take, and what they say when it is wrong. The server is its own publisher, where one is needed.
\set VERBOSITY default
CREATE EXTENSION schemasync;
SELECT 'dbname=' || current_database() || ' host=' || split_part(setting, ',', 1) || ' port=' || current_setting('port') AS dsn
  FROM pg_settings WHERE name = 'unix_socket_directories' \gset
CREATE TABLE api_t (id int PRIMARY KEY, t text);
CREATE PUBLICATION api_pub FOR TABLE api_t;

-- The signatures are what tools are written against.
SELECT p.proname, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
  FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid
  WHERE e.extname = 'schemasync' AND p.proname IN ('schemasync_create_subscription', 'schemasync_alter_subscription',
    'schemasync_drop_subscription', 'schemasync_start', 'schemasync_stop', 'schemasync_wait', 'schemasync_resume',
    'schemasync_resolve', 'schemasync_skip') ORDER BY 1;
SELECT c.relname, string_agg(a.attname, ', ' ORDER BY a.attnum) AS columns
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
  WHERE c.relname IN ('schemasync_subscriptions', 'schemasync_refusals', 'schemasync_ddl_history', 'schemasync_tables',
    'schemasync_errors', 'schemasync_conflicts', 'schemasync_progress', 'schemasync_slots') GROUP BY 1 ORDER BY 1;

-- Names, nulls and empty lists
SELECT schemasync_create_subscription('', :'dsn', '{api_pub}');
SELECT schemasync_create_subscription(repeat('x', 64), :'dsn', '{api_pub}');
SELECT schemasync_create_subscription(NULL, :'dsn', '{api_pub}');
SELECT schemasync_create_subscription('s', NULL, '{api_pub}');
SELECT schemasync_create_subscription('s', :'dsn', NULL);
SELECT schemasync_create_subscription('s', :'dsn', '{}');
SELECT schemasync_create_subscription('s', :'dsn', '{a,NULL}');
SELECT schemasync_create_subscription('s', :'dsn', '{a,b,a}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', schema_changes => 'sometimes');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', schema_changes => NULL);
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', slot_name => 'Not A Slot');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', create_slot => false);
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', enabled => NULL);

-- Options: by name and by value
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '[]');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"rewrite": "carry"}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"rewrites": "forward"}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"rewrites": ["carry"]}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"binary": "perhaps"}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"ddl_lock_timeout": "-1"}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"ddl_lock_timeout": "5 parsecs"}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"apply_workers": 0}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"ddl_classes": "views"}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"ddl_classes": ["views", "tables", "wishes"]}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"streaming": "sideways"}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', options => '{"synchronous_commit": "never"}');

-- The publisher
SELECT schemasync_create_subscription('s', 'no such thing', '{api_pub}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub, api_none}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_one, api_two}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', slot_name => 'api_slot', create_slot => false);
SELECT 'init' FROM pg_create_logical_replication_slot('api_slot', 'test_decoding');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', slot_name => 'api_slot', create_slot => false);
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', slot_name => 'api_slot');
SELECT pg_drop_replication_slot('api_slot');

-- A subscription that does not run
SELECT 'init' FROM pg_create_logical_replication_slot('api_slot', 'schemasync_decoder');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}', schema_changes => 'refuse', enabled => false, slot_name => 'api_slot',
  create_slot => false, copy_data => false,
  options => '{"rewrites": "carry", "binary": "off", "streaming": "parallel", "ddl_lock_timeout": "3 s", "ddl_classes": ["views"], "origin": null}');
SELECT schemasync_create_subscription('s', :'dsn', '{api_pub}');
SELECT name, state, worker_pid, last_error, publications, schema_changes, options, slot_name, enabled FROM schemasync_subscriptions;
SELECT count(*) FROM pg_replication_origin WHERE roname LIKE 'schemasync\_%';
SELECT schemasync_wait('s', '0/1');
SELECT schemasync_wait('s');
SELECT schemasync_stop('s');
SELECT schemasync_stop('s', drain => true);
SELECT schemasync_wait('s', timeout => '-1 s');
SELECT schemasync_alter_subscription('s', options => '{"rewrites": null, "conflicts": "keep_local"}', schema_changes => 'ignore');
SELECT schemasync_alter_subscription('s', options => '{"conflicts": "both"}');
SELECT schemasync_alter_subscription('s', publications => '{api_none}');
SELECT name, schema_changes, options FROM schemasync_subscriptions;

-- There is none of that name or number
SELECT schemasync_start('nobody');
SELECT schemasync_stop('nobody');
SELECT schemasync_wait('nobody');
SELECT schemasync_resume('nobody');
SELECT schemasync_skip('nobody', '0/1');
SELECT schemasync_skip('s', NULL);
SELECT schemasync_drop_subscription('nobody');
SELECT schemasync_alter_subscription('nobody', enabled => true);
SELECT schemasync_resolve(1, 'skip');

-- Somebody else's: not seen, not touched; who may read all statistics sees it, without the connection string
CREATE ROLE api_other LOGIN;
SET ROLE api_other;
\set VERBOSITY sqlstate
SELECT schemasync_create_subscription('t', :'dsn', '{api_pub}');
\set VERBOSITY default
SELECT count(*) FROM schemasync_subscriptions;
SELECT schemasync_start('s');
SELECT schemasync_drop_subscription('s');
SELECT * FROM schemasync.subscription;
SELECT * FROM schemasync.refusal;
RESET ROLE;
GRANT pg_monitor TO api_other;
SET ROLE api_other;
SELECT name, conninfo FROM schemasync_subscriptions;
RESET ROLE;
DROP ROLE api_other;

-- What is rolled back has not been
BEGIN;
SELECT schemasync_drop_subscription('s');
SELECT count(*) FROM schemasync_subscriptions;
ROLLBACK;
SELECT name FROM schemasync_subscriptions;
SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'api_slot';
BEGIN;
SELECT schemasync_create_subscription('t', :'dsn', '{api_pub}');
ROLLBACK;
SELECT name FROM schemasync_subscriptions;
SELECT count(*) FROM pg_replication_origin WHERE roname LIKE 'schemasync\_%';
BEGIN;
SAVEPOINT a;
SELECT schemasync_drop_subscription('s');
ROLLBACK TO a;
COMMIT;
SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'api_slot';

-- and dropped is dropped, with its slot
SELECT schemasync_drop_subscription('s');
SELECT name FROM schemasync_subscriptions;
SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'api_slot';
SELECT count(*) FROM pg_replication_origin WHERE roname LIKE 'schemasync\_%';
DROP PUBLICATION api_pub;
DROP TABLE api_t;
DROP EXTENSION schemasync;
