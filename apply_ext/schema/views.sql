-- What people look at. The views read the stored tables with the extension owner's rights, so each of them says itself who sees a row:
-- the subscription's owner, superusers, and members of pg_monitor.

CREATE FUNCTION schemasync.is_visible(owner oid) RETURNS boolean LANGUAGE sql STABLE
RETURN pg_catalog.pg_has_role(current_user, owner, 'USAGE')
	OR pg_catalog.pg_has_role(current_user, 'pg_monitor', 'USAGE');

CREATE VIEW @extschema@.schemasync_subscriptions WITH (security_barrier) AS
SELECT s.name,
	CASE
		WHEN NOT s.enabled AND s.state = 'drained' THEN 'drained'
		WHEN NOT s.enabled THEN 'disabled'
		WHEN s.state = 'refused' THEN 'refused'
		-- a failure lasts until something was applied; but one of the connection is over when the stream runs again
		WHEN s.state = 'failed' AND NOT (lost.connection AND w.pid IS NOT NULL AND w.state IN ('streaming', 'waiting_lock')) THEN 'failed'
		WHEN w.draining THEN 'draining'
		WHEN NOT s.copied THEN 'copying'
		WHEN w.pid IS NOT NULL AND w.state IN ('waiting_lock', 'copying') THEN w.state
		ELSE 'streaming'
	END AS state,
	greatest(s.state_since, w.state_since) AS state_since,
	w.pid AS worker_pid,
	s.last_error,
	w.received AS received_lsn,
	w.applied AS applied_lsn,
	w.confirmed AS confirmed_lsn,
	greatest(w.received - w.applied, 0)::bigint AS lag_bytes,
	CASE WHEN w.received > w.applied THEN pg_catalog.clock_timestamp() - coalesce(w.committed_at, w.sent_at) ELSE interval '0' END
		AS lag_time,
	s.publications,
	s.schema_changes,
	s.options,
	pg_catalog.pg_get_userbyid(s.owner) AS owner,
	s.slot_name,
	s.enabled,
	CASE WHEN pg_catalog.pg_has_role(current_user, s.owner, 'USAGE') THEN s.conninfo END AS conninfo,
	w.received_at,
	w.committed_at AS applied_commit_time,
	greatest(w.rows, s.applied_rows) AS applied_rows,
	greatest(w.transactions, s.applied_transactions) AS applied_transactions,
	w.failures,
	w.next_start,
	s.drain_lsn,
	s.skip_lsn,
	pg_catalog.format('schemasync_%s_%s', (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()), s.subid)
		AS origin_name
FROM schemasync.subscription s
LEFT JOIN schemasync.worker_status() w USING (subid)
LEFT JOIN LATERAL (
	SELECT bool_and(e.sqlstate ~ '^(08|57P0)') AS connection FROM schemasync.error e
	WHERE e.subid = s.subid AND e.resolved_at IS NULL) lost ON true
WHERE schemasync.is_visible(s.owner);

CREATE VIEW @extschema@.schemasync_tables WITH (security_barrier) AS
SELECT s.name AS subscription,
	pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) AS relation,
	pg_catalog.format('%I.%I', r.publisher_schema, r.publisher_name) AS publisher_relation,
	r.publisher_oid,
	CASE WHEN r.state = 'ready' AND s.copied AND r.sync_lsn > w.applied THEN 'catchup' ELSE r.state END AS state,
	r.copied_rows,
	r.sync_lsn,
	r.relid,
	r.options
FROM schemasync.relation r
JOIN schemasync.subscription s USING (subid)
LEFT JOIN schemasync.worker_status() w USING (subid)
LEFT JOIN pg_catalog.pg_class c ON c.oid = r.relid
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE schemasync.is_visible(s.owner);

CREATE VIEW @extschema@.schemasync_refusals WITH (security_barrier) AS
SELECT r.refusal_id, r.subscription, r.status, r.reason, r.object_type, r.object_identity, r.statement, r.changes, r.drift,
	r.suggested_sql, r.hint, r.publisher_lsn, r.commit_time, r.publisher_xid, r.first_seen, r.last_seen, r.attempts,
	r.resolved_at, r.resolved_by, r.resolution, r.resolution_sql, r.ordinal
FROM schemasync.refusal r
JOIN schemasync.subscription s USING (subid)
WHERE schemasync.is_visible(s.owner);

CREATE VIEW @extschema@.schemasync_ddl_history WITH (security_barrier) AS
SELECT h.subscription, h.publisher_lsn, h.commit_time, h.operation, h.object_type, h.object_identity, h.verdict, h.reason,
	h.applied_sql, h.statement, h.publisher_user, h.duration, h.applied_at, h.ordinal, h.detail, h.history_id
FROM schemasync.ddl_history h
JOIN schemasync.subscription s USING (subid)
WHERE schemasync.is_visible(s.owner);

CREATE VIEW @extschema@.schemasync_errors WITH (security_barrier) AS
SELECT e.error_id, e.subscription, e.worker, e.sqlstate, e.message, e.detail, e.hint, e.context, e.relation, e.command, e.key,
	e.publisher_lsn, e.publisher_xid, e.first_seen, e.last_seen, e.attempts, e.resolved_at
FROM schemasync.error e
JOIN schemasync.subscription s USING (subid)
WHERE schemasync.is_visible(s.owner);

CREATE VIEW @extschema@.schemasync_conflicts WITH (security_barrier) AS
SELECT c.conflict_id, c.subscription, c.seen_at, c.relation, c.command, c.conflict, c.resolution, c.key, c.local_row, c.remote_row,
	c.publisher_lsn, c.publisher_xid
FROM schemasync.conflict c
JOIN schemasync.subscription s USING (subid)
WHERE schemasync.is_visible(s.owner);

-- What takes long: the copy, of each table that is not ready and of all (relation is null), the comparison of rows, and indexes that are built
-- beside the stream. The rate is a second's; how many rows there are to copy is an estimate of the publisher's.
CREATE VIEW @extschema@.schemasync_progress WITH (security_barrier) AS
WITH copied AS (
	SELECT r.subid, r.relid, pg_catalog.format('%I.%I', r.publisher_schema, r.publisher_name) AS relation,
		r.publisher_schema || '.' || r.publisher_name AS unquoted, r.state,
		r.total_rows, r.state IN ('init', 'copying', 'catchup') AS pending, w.pid, w.bytes, w.begun,
		CASE WHEN r.state = 'copying' THEN CASE WHEN r.partial THEN r.copied_rows ELSE 0 END + coalesce(w.rows, 0)
			WHEN r.state = 'init' THEN 0 ELSE r.copied_rows END AS done
	FROM schemasync.relation r LEFT JOIN (
		SELECT p.relid, min(p.pid) AS pid, sum(p.bytes_processed)::bigint AS bytes, sum(p.tuples_processed)::bigint AS rows, min(a.xact_start) AS begun
		FROM pg_catalog.pg_stat_progress_copy p JOIN pg_catalog.pg_stat_activity a USING (pid)
		WHERE p.datname = pg_catalog.current_database() AND p.command = 'COPY FROM' AND p.type = 'CALLBACK' GROUP BY p.relid
	) w ON w.relid = r.relid AND r.state = 'copying'
	WHERE r.state <> 'removed'
)
SELECT p.subscription, p.operation, p.relation, p.phase, p.done, p.total, p.unit, p.bytes, p.worker_pid,
	(p.done / nullif(extract(epoch FROM pg_catalog.clock_timestamp() - p.begun), 0))::double precision AS rate,
	CASE WHEN p.done > 0 AND p.total > 0 THEN
		p.begun + (pg_catalog.clock_timestamp() - p.begun) * greatest(p.total::double precision / p.done, 1) END AS estimated_end,
	p.index_name,
	p.detail
FROM (
	SELECT s.name AS subscription,
		'copy'::text AS operation,
		c.relation,
		c.state AS phase,
		c.done,
		c.total_rows AS total,
		'rows'::text AS unit,
		c.bytes,
		c.pid AS worker_pid,
		CASE WHEN c.pid IS NOT NULL THEN greatest(s.copy_begun_at, CASE WHEN c.state = 'copying' THEN c.begun END) END AS begun,
		NULL::text AS index_name,
		-- why it has not begun: what went wrong the last time, or who holds it back
		CASE WHEN c.state = 'init' THEN coalesce((
			SELECT e.message FROM schemasync.error e
			WHERE e.subid = c.subid AND e.worker = 'copy' AND e.resolved_at IS NULL AND (e.relation = c.unquoted OR e.relation IS NULL)
			ORDER BY e.last_seen DESC LIMIT 1
		), (
			SELECT 'waits for the end of prepared transactions: ' || pg_catalog.string_agg(x.gid, ', ' ORDER BY x.prepared)
			FROM pg_catalog.pg_prepared_xacts x
			WHERE s.copied AND x.database = pg_catalog.current_database() AND pg_catalog.starts_with(x.gid, pg_catalog.format('schemasync_%s_', c.subid))
		)) END AS detail
	FROM copied c JOIN schemasync.subscription s USING (subid)
	WHERE c.pending AND schemasync.is_visible(s.owner)
	UNION ALL
	SELECT s.name, 'copy', NULL, 'all tables', sum(c.done)::bigint, sum(c.total_rows)::bigint, 'rows', NULL, min(w.pid), s.copy_begun_at, NULL, NULL
	FROM copied c JOIN schemasync.subscription s USING (subid) LEFT JOIN schemasync.worker_status() w USING (subid)
	WHERE schemasync.is_visible(s.owner) AND c.total_rows IS NOT NULL
	GROUP BY s.subid, s.name, s.copy_begun_at HAVING bool_or(c.state IN ('init', 'copying'))
	UNION ALL
	SELECT s.name, 'verify', pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname), 'comparing', w.verify_done, w.verify_total, 'bytes', NULL,
		w.verifier, a.query_start, NULL, NULL
	FROM schemasync.worker_status() w
	JOIN schemasync.subscription s USING (subid)
	LEFT JOIN pg_catalog.pg_class c ON c.oid = w.verify_relation
	LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = w.verifier
	WHERE w.verifier IS NOT NULL AND schemasync.is_visible(s.owner)
	UNION ALL
	SELECT s.name, 'index', pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname),
		CASE WHEN p.pid IS NOT NULL THEN p.phase WHEN b.state = 'building' AND w.indexer IS NULL THEN 'queued' ELSE b.state END,
		CASE i.unit WHEN 'rows' THEN p.tuples_done WHEN 'transactions' THEN p.lockers_done ELSE p.blocks_done END,
		CASE i.unit WHEN 'rows' THEN p.tuples_total WHEN 'transactions' THEN p.lockers_total ELSE p.blocks_total END,
		i.unit, NULL, p.pid, a.xact_start, b.index_name,
		coalesce(b.last_error, CASE WHEN b.interruptions > 0 THEN pg_catalog.format(
			CASE b.interruptions WHEN 1 THEN 'A change of the table has ended an attempt.' ELSE 'Changes of the table have ended %s attempts.' END,
			b.interruptions) END)
	FROM schemasync.index_build b
	JOIN schemasync.subscription s USING (subid)
	LEFT JOIN schemasync.relation r USING (subid, publisher_oid)
	LEFT JOIN pg_catalog.pg_class c ON c.oid = r.relid
	LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	LEFT JOIN schemasync.worker_status() w USING (subid)
	LEFT JOIN pg_catalog.pg_stat_progress_create_index p ON p.pid = w.indexer AND p.relid = r.relid AND b.state = 'building'
		AND p.datname = pg_catalog.current_database()
	LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = p.pid,
	LATERAL (SELECT CASE WHEN p.phase ~ 'tuples' THEN 'rows' WHEN p.phase ~ 'waiting' THEN 'transactions' ELSE 'blocks' END AS unit) i
	WHERE schemasync.is_visible(s.owner)
) p;

-- On the publisher: the slots of subscribers, and whether one of them endangers the server.
CREATE VIEW @extschema@.schemasync_slots WITH (security_barrier) AS
SELECT slot_name, active, active_pid, database, wal_status,
	pg_catalog.pg_wal_lsn_diff(here, restart_lsn)::bigint AS retained_bytes,
	safe_wal_size AS safe_bytes,
	nullif(limited.bytes, -1048576) AS limit_bytes,
	pg_catalog.pg_wal_lsn_diff(here, confirmed_flush_lsn)::bigint AS lag_bytes,
	pg_catalog.age(catalog_xmin) AS catalog_xmin_age,
	restart_lsn, confirmed_flush_lsn,
	health.level AS health,
	health.reason,
	newer.failover,
	newer.synced
FROM pg_catalog.pg_replication_slots slot,
	-- of the row as a whole: before 17 there are no such columns
	LATERAL (SELECT (j ->> 'failover')::boolean AS failover, (j ->> 'synced')::boolean AS synced, pg_catalog.pg_is_in_recovery()
		AND coalesce((j ->> 'synced')::boolean, false) AS rests FROM pg_catalog.to_jsonb(slot) j) newer,
	LATERAL (SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
		ELSE pg_catalog.pg_current_wal_lsn() END AS here) position,
	LATERAL (SELECT setting::bigint * 1048576 AS bytes FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size') limited,
	LATERAL (SELECT
		CASE
			WHEN wal_status = 'lost' THEN 'critical'
			WHEN wal_status = 'unreserved' THEN 'critical'
			WHEN pg_catalog.age(catalog_xmin) > 1000000000 THEN 'critical'
			WHEN safe_wal_size < limited.bytes / 5 THEN 'warn'
			WHEN NOT active AND NOT newer.rests THEN 'warn'
			WHEN wal_status = 'extended' THEN 'warn'
			WHEN pg_catalog.age(catalog_xmin) > 200000000 THEN 'warn'
			ELSE 'ok'
		END AS level,
		CASE
			WHEN wal_status = 'lost' THEN 'WAL that the slot needs was removed; the subscription must be made again'
			WHEN wal_status = 'unreserved' THEN 'WAL that the slot needs is removed at the next checkpoint'
			WHEN pg_catalog.age(catalog_xmin) > 1000000000 THEN 'the slot keeps catalog rows from being vacuumed and wraparound comes near'
			WHEN safe_wal_size < limited.bytes / 5 THEN 'more than four fifths of max_slot_wal_keep_size are retained; beyond it the slot is lost'
			WHEN NOT active AND NOT newer.rests THEN 'no subscriber is connected; the slot retains WAL'
			WHEN wal_status = 'extended' THEN 'the slot retains more WAL than max_wal_size'
			WHEN pg_catalog.age(catalog_xmin) > 200000000 THEN 'the slot keeps catalog rows from being vacuumed'
		END AS reason) health
WHERE plugin = 'schemasync_decoder';

GRANT SELECT ON @extschema@.schemasync_subscriptions, @extschema@.schemasync_tables, @extschema@.schemasync_refusals,
	@extschema@.schemasync_ddl_history, @extschema@.schemasync_errors, @extschema@.schemasync_conflicts,
	@extschema@.schemasync_progress, @extschema@.schemasync_slots TO PUBLIC;

-- For a job that runs now and then on the publisher: tells of slots that are not well.
CREATE FUNCTION @extschema@.schemasync_notify_slots() RETURNS integer LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT count(pg_catalog.pg_notify('schemasync', pg_catalog.json_build_object('event', 'slot', 'slot_name', slot_name,
		'health', health, 'reason', reason, 'retained_bytes', retained_bytes)::text))::integer
	FROM @extschema@.schemasync_slots WHERE health <> 'ok';
END;
