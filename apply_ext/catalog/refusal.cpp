#include "apply_ext/catalog/refusal.hpp"

#include "apply_ext/catalog/internal.hpp"
#include "apply_ext/catalog/results.hpp"

extern "C" {
#include "executor/spi.h"
}

namespace schemasync::catalog {

Decision *
load_decision(std::int64_t subid, XLogRecPtr publisher_lsn, int ordinal)
{
	MemoryContext caller = CurrentMemoryContext;
	Decision *decision = nullptr;
	Internal internal = begin_internal();

	if (run("SELECT refusal_id, status = 'open', resolution, suggested_sql, resolution_sql FROM "
	        "schemasync.refusal"
	        " WHERE subid = $1 AND publisher_lsn = $2 AND ordinal = $3",
	        {as_int8(subid), as_lsn(publisher_lsn), as_int4(ordinal)}) > 0) {
		decision = static_cast<Decision *>(MemoryContextAlloc(caller, sizeof(Decision)));
		decision->refusal_id = result_int8(0, 1);
		decision->open = result_boolean(0, 2);
		decision->resolution = result_text(0, 3, caller);
		decision->suggested_sql = result_text(0, 4, caller);
		decision->resolution_sql = result_text(0, 5, caller);
	}
	end_internal(internal);
	return decision;
}

bool
has_answer(std::int64_t subid, XLogRecPtr publisher_lsn, Oid publisher_oid)
{
	Internal internal = begin_internal();
	bool found = run("SELECT FROM schemasync.refusal WHERE subid = $1 AND publisher_lsn = $2 AND status = 'resolved'"
	                 " AND resolution IS DISTINCT FROM 'satisfied' AND (publisher_oid = $3 OR publisher_oid IN"
	                 "  (SELECT (p->>'oid')::pg_catalog.oid FROM schemasync.relation r,"
	                 "    pg_catalog.json_array_elements(r.base::pg_catalog.json->'parents') p"
	                 "   WHERE r.subid = $1 AND r.publisher_oid = $3)) LIMIT 1",
	                 {as_int8(subid), as_lsn(publisher_lsn), as_oid(publisher_oid)}) > 0;

	end_internal(internal);
	return found;
}

bool
save_refusal(std::int64_t subid, const char *subscription, const RefusalRow *row)
{
	Internal internal = begin_internal();

	/* The old row's status is asked for in the same statement; a repetition of an open refusal is no news. */
	run("WITH old AS (SELECT status FROM schemasync.refusal"
	    "              WHERE subid = $1 AND publisher_lsn = $3 AND ordinal = $6),"
	    " new AS (INSERT INTO schemasync.refusal (subid, subscription, publisher_lsn, commit_time, "
	    "publisher_xid,"
	    "  ordinal, publisher_oid, reason, object_type, object_identity, statement, changes, drift, "
	    "suggested_sql,"
	    "  hint, theirs) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
	    " ON CONFLICT (subid, publisher_lsn, ordinal) DO UPDATE SET status = 'open', last_seen = "
	    "pg_catalog.now(),"
	    "  attempts = refusal.attempts + 1, resolved_at = NULL, resolved_by = NULL, resolution = NULL,"
	    "  resolution_sql = NULL, reason = excluded.reason, object_type = excluded.object_type,"
	    "  object_identity = excluded.object_identity, statement = excluded.statement, changes = "
	    "excluded.changes,"
	    "  drift = excluded.drift, suggested_sql = excluded.suggested_sql, hint = excluded.hint,"
	    "  theirs = excluded.theirs, publisher_oid = excluded.publisher_oid RETURNING 1)"
	    " SELECT (SELECT status FROM old) IS DISTINCT FROM 'open' FROM new",
	    {as_int8(subid), as_text(subscription), as_lsn(row->publisher_lsn), as_time(row->commit_time),
	     as_int8(row->publisher_xid), as_int4(row->ordinal), as_oid(row->publisher_oid), as_text(row->reason),
	     as_text(row->object_type), as_text(row->object_identity), as_text(row->statement),
	     as_text(row->changes), as_text(row->drift), as_text(row->suggested_sql), as_text(row->hint),
	     as_text(row->theirs)});
	bool news = result_boolean(0, 1);
	end_internal(internal);
	return news;
}

void
close_refusal(std::int64_t refusal_id)
{
	Internal internal = begin_internal();

	run("UPDATE schemasync.refusal SET status = 'resolved', resolved_at = COALESCE(resolved_at, "
	    "pg_catalog.now()),"
	    " resolution = CASE WHEN resolution IS NULL THEN 'satisfied' ELSE resolution END"
	    " WHERE refusal_id = $1",
	    {as_int8(refusal_id)});
	end_internal(internal);
}

} // namespace schemasync::catalog
