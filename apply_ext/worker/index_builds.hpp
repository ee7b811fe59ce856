/*
 * Indexes that are built beside the stream: one worker for each subscription with something in its queue (catalog/index_build.hpp),
 * started by the apply worker and outliving it, so that neither a lost connection nor a refusal ends a build.
 *
 * CREATE INDEX CONCURRENTLY holds a lock on its table until it is done and waits for every transaction that wrote to the table,
 * the apply worker's too. So a change that needs the table never waits for the build, which would be a deadlock: it ends the build, holds the
 * next one back until its transaction ends, and the index is built anew on what the table then is.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "pg/postgres.hpp"

namespace schemasync::apply {
struct Session;
}

namespace schemasync::catalog {
struct Subscription;
}

namespace schemasync::worker {

/* To be called when the apply worker has no transaction open: starts or wakes the index worker when something may be due. */
void tend_index_builds(apply::Session *session);

/*
 * To be called after a change, when the apply worker has no transaction open: where changes of a table have ended the build of its index
 * again and again, the stream stands until it is there. Not for longer than the build gets on: what holds it back may be anything.
 */
void give_way_to_build(apply::Session *session);

/* Starts the index worker if the queue is not empty, or wakes it. Needs a transaction; without a slot it does nothing. */
void start_index_worker(const catalog::Subscription &subscription);

/*
 * Ends the building of an index of the local table, whichever subscription's, and lets none begin until this transaction ends.
 * What was begun may remain as an invalid index.
 */
void hold_index_build(Oid relid);

/* Ends what is being built in this database, to begin again after a moment. returns: whether there was something */
bool interrupt_index_builds();
bool is_building_indexes();

} // namespace schemasync::worker
