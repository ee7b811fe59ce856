/*
 * Carried rewrites (rewrites = carry): the rows of a rewritten table come in the stream, as inserts into the transient
 * relation that the rewrite message announces, before the marker that says what the command was. They wait in a file
 * until then. What the merge then cannot do with the values that are here takes them: the local table gets its new
 * shape, the rows their new values, and what the rows must fulfil follows. Else they are dropped.
 *
 * Local rows are found by a key that the command left as it was, and keep what is only here. Without one the carried rows
 * take the place of all of them. Both only when there are as many local rows as carried ones: a row that is only here,
 * or is missing here, refuses local_drift.
 *
 * Zone: server code.
 */
#pragma once

#include "apply_ext/apply/schema_sides.hpp"
#include "apply_ext/apply/schema_work.hpp"

namespace schemasync::apply {

/*
 * The rows of a rewrite follow in the stream.
 *
 * take: whether they may be wanted; else they are passed over
 */
void begin_carry(const state::RewriteMessage &message, bool take);

/* Whether rows of the relation or of its descendants wait. */
bool have_carried_rows(const SchemaWork &work, const state::Relation &theirs);

/*
 * Before the operations of a result that needs the rows: locks the local tables, proves that local rows and carried ones
 * belong together, and empties the tables whose rows are not found by key. Throws Refused.
 */
Progress prepare_carry(SchemaWork &work, const merge::Result &result, const Sides &sides,
                       const state::Relation &theirs);

/* After the operations of all relations of the message: the rows, then what waits for them. Throws Refused. */
void finish_carry(SchemaWork &work);

} // namespace schemasync::apply
