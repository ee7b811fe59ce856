/*
 * schemasync.index_build: the queue of the index worker (indexes = background). A row says which of a relation's indexes is to be
 * built; how, the relation's base says.
 *
 * Written by the schema side of applying in the transaction of the change, and by the index worker.
 *
 * Zone: server code (leaves: may ereport; each needs a transaction).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

namespace schemasync::catalog {

/* Pointers palloc'd in the context that was current when the row was read. */
struct IndexBuild {
	Oid publisher_oid, index_oid; /* of the table and the index on the publisher */
	const char *index_name;
	bool is_unique;
	Oid local_oid; /* the index here that was begun and is not finished; InvalidOid: none */
	Oid relid;     /* the local table; InvalidOid: there is none */
	int attempts;  /* that failed */
};

/* history_id: the row of the history that tells of it; 0: none */
void queue_index(std::int64_t subid, const IndexBuild *build, std::int64_t history_id);

/* All of one relation, of all with InvalidOid; *count is set. */
IndexBuild *load_index_builds(std::int64_t subid, Oid publisher_oid, int *count);

/* nullptr when it is not in the queue (any more). */
IndexBuild *load_index_build(std::int64_t subid, Oid publisher_oid, Oid index_oid);

/*
 * The one that is due, oldest first.
 *
 * wait: when none is due, the ms until one is; -1: the queue is empty
 */
IndexBuild *next_index_build(std::int64_t subid, std::int64_t *wait);

bool has_index_builds(std::int64_t subid);

/* The publisher made the index anew, or renamed it. */
void rekey_index_build(std::int64_t subid, const IndexBuild *build, Oid index_oid, const char *index_name);

/* Takes it out of the queue. why: for the history */
void remove_index_build(std::int64_t subid, const IndexBuild *build, const char *why);

/* The worker begins; the index that it makes; it was ended before its time (interrupted: by a change, which counts); it failed. */
void begin_index_build(std::int64_t subid, const IndexBuild *build);
void save_begun_index(std::int64_t subid, const IndexBuild *build, Oid local_oid);
void requeue_index_build(std::int64_t subid, const IndexBuild *build, int delay_ms, bool interrupted);
void fail_index_build(std::int64_t subid, const IndexBuild *build, const char *message);

/*
 * How far a build is that changes of its table have ended `patience` times since it was given up last: a text that changes while it gets
 * on; nullptr: there is none.
 */
char *starved_build(std::int64_t subid, int patience);

/* They do not get on: they are told of again when they were ended as often once more. */
void give_up_starved_builds(std::int64_t subid, int patience);

/* What failed is tried again at once. */
void hasten_index_builds(std::int64_t subid);

} // namespace schemasync::catalog
