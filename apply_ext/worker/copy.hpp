/*
 * The initial copy: brings a new subscription (state 'init') to the point from which the stream goes on.
 *
 * Makes the slot (or uses the one given), adopts the publisher's states as bases (apply::adopt_states), creates the schema and copies
 * the rows where asked to, and sets the origin to the position of the copy. Each table's rows commit together with its row in
 * schemasync.relation, so a copy that was interrupted goes on where it stopped or begins again with its own slot.
 *
 * Called by the apply worker before it streams. Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/catalog/subscription.hpp"

namespace schemasync::worker {

/*
 * Runs the whole copy in transactions of its own; no transaction is open before or after.
 *
 * On return the subscription's state is 'ready', its slot exists and the progress of its origin is set; the caller loads
 * the subscription again and streams from the origin's position (0: from the slot's).
 */
void initial_copy(const catalog::Subscription &subscription);

/*
 * In the copy worker: what is to be copied beside the stream (beside.hpp), from one new snapshot, in transactions of its own. On return each
 * table that was copied is in the state 'catchup'.
 */
void copy_beside(const catalog::Subscription &subscription);

/*
 * What tables that a copy made lack when their rows are there: indexes and constraints of partitioned tables and their partitions, foreign keys. What cannot
 * be added yet is left for the next time. In transactions of its own.
 */
void finish_rest(const catalog::Subscription &subscription);

} // namespace schemasync::worker
