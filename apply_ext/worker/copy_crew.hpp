/*
 * The workers that copy tables at the same time, as many as the option copy_workers says: the one that leads (the apply worker before its stream,
 * or the copy worker beside it) and its helpers. They take tasks from a queue in a shared segment: a table, a few small ones, or some blocks of
 * a large one; all from the same snapshot.
 *
 * A table's rows are one transaction with its new state, and so are those of a refilled one with the end of what was there. Only a large table that is
 * empty here is committed part by part; until its last part is there it is marked as partial, and is emptied before anybody begins it again.
 * An error ends the copy of its table alone; a lost connection or a missing snapshot ends the crew.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/worker/copy_source.hpp"

namespace schemasync::worker {

/* How the copy goes on. */
enum class Mode : unsigned char {
	First,   /* a new subscription */
	Resumed, /* the slot holds the stream for all tables, and it waits */
	Beside,  /* the stream goes on meanwhile */
};

/* One table to be copied. */
struct Job {
	const SourceTable *table;
	bool with_rows;
	bool level;   /* it may have another shape than in the snapshot */
	bool resync;  /* it is refilled */
	bool partial; /* it has rows of a copy that was interrupted */
};

struct CrewResult {
	int copied, left;  /* tables */
	std::int64_t rows;
};

/*
 * Waits for helpers of a leader that is no more: what they commit must not come after what the next one reads. No transaction is open.
 */
void await_former_helpers(std::int64_t subid);

/*
 * Copies these tables in transactions of their own. What is left is in the state 'init', with its error in schemasync.error unless it was altered on the
 * publisher meanwhile.
 *
 * errors: of the leader's connection
 */
CrewResult run_crew(const catalog::Subscription &subscription, const Source &source, Mode mode, Job *jobs, int count);

void set_table_state(const catalog::Subscription &subscription, Oid publisher_oid, const char *state, XLogRecPtr sync_lsn, std::int64_t rows);

/* A helper's whole work: attaches to its leader's segment and takes tasks until there is none. */
void help_crew(const catalog::Subscription &subscription, std::uint32_t segment);

} // namespace schemasync::worker
