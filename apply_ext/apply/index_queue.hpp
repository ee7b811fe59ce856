/*
 * What schema changes do with the queue of the index worker: they put indexes into it, end what is being built on their table, and adapt
 * or take out what a change concerns, all in the transaction of the change.
 *
 * What other things of the same transaction may need is not left to the queue: the index of a replica identity, constraints, and unique indexes
 * once a foreign key refers to them.
 *
 * Zone: server code; functions throw pg::Error and Refused.
 */
#pragma once

#include "apply_ext/apply/schema_sides.hpp"
#include "apply_ext/catalog/index_build.hpp"

namespace schemasync::apply {

/* The operation creates an index in the background: a row of the queue and one of history. */
void queue_build(SchemaWork &work, const merge::Operation &operation, const Place &place);

/*
 * Before the operations of a merge are done: when they need the table, or change what is queued, its builds are held and what they left
 * is dropped; what the operations need of the queue is built now.
 *
 * theirs:  null when it was dropped
 * returns: whether the local side was changed, so that it is to be read and merged again
 */
bool settle_builds(SchemaWork &work, const merge::Result &result, const Sides &sides, const state::Relation *theirs);

/* Before theirs becomes the base: the queue is what is still to be built of it. */
void adapt_builds(SchemaWork &work, const state::Relation &theirs, const Sides &sides);

/* Takes out all of a relation. */
void give_up_builds(SchemaWork &work, Oid publisher_oid, const char *why);

/* Of the initial copy: whether the index may come later; it is in the queue then. */
bool leave_to_worker(const catalog::Subscription &subscription, const Sides &sides, const merge::Operation &operation);

/*
 * How an index of the queue is to be built as things are now.
 *
 * concurrently: as the index worker does it
 * returns:      an operation create_index: forward with its SQL, satisfied, ignore or refuse; without a code when base has no such index
 */
merge::Operation plan_build(const catalog::Subscription &subscription, Oid publisher_oid, Oid index_oid, bool concurrently);

/*
 * The invalid index that a build left, if it is still that: DROP INDEX of it, palloc'd; nullptr: there is none. Leaf.
 *
 * relid: the local table that it must be of
 */
char *drop_left_sql(Oid index, Oid relid, bool concurrently);

/* InvalidOid: there is no such table. Leaf. */
Oid table_owner(Oid relid);

} // namespace schemasync::apply
