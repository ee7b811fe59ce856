/*
 * schemasync.refusal: the boundaries of the stream that were refused, one row each, and what was decided
 * about them.
 *
 * A boundary is found again by the commit LSN of its transaction and its number within it, so a refusal
 * outlives restarts and the decision of a person reaches the worker.
 *
 * Zone: server code (leaves: may ereport; each needs a transaction).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
}

namespace schemasync::catalog {

struct RefusalRow {
	XLogRecPtr publisher_lsn;
	TimestampTz commit_time;
	TransactionId publisher_xid;
	int ordinal;
	Oid publisher_oid;
	const char *reason, *object_type, *object_identity, *statement, *changes, *drift, *suggested_sql, *hint,
	    *theirs;
};

/* What a person decided (palloc'd in the current context). */
struct Decision {
	std::int64_t refusal_id;
	bool open;
	const char *resolution;     /* nullptr: nothing yet; resumed, apply, execute, skip */
	const char *suggested_sql;  /* of the refusal: what apply runs */
	const char *resolution_sql; /* what execute runs */
};

/* nullptr when the boundary was never refused. */
Decision *load_decision(std::int64_t subid, XLogRecPtr publisher_lsn, int ordinal);

/* Whether a person has answered a refusal of this relation, or of its parent, in the transaction that commits there. */
bool has_answer(std::int64_t subid, XLogRecPtr publisher_lsn, Oid publisher_oid);

/* Records the refusal or counts its repetition. Returns whether it is news: a new row, or one that had been
 * decided. */
bool save_refusal(std::int64_t subid, const char *subscription, const RefusalRow *row);

/* The boundary passed: status resolved. A resolution that a person chose stays, else it becomes `satisfied`.
 */
void close_refusal(std::int64_t refusal_id);

} // namespace schemasync::catalog
