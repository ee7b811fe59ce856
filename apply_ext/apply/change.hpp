/*
 * One row into, within or out of one local table, with its indexes, constraints, generated columns and
 * triggers.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/local_relation.hpp"

namespace schemasync::apply {

/* Checks and computes what belongs to a row before it is stored. routed: tuple routing has found that it
 * belongs here. */
void complete_row(LocalRelation *local, TupleTableSlot *slot, CmdType command, bool routed);

/* Inserts at once, firing triggers. The row is not yet completed. */
void insert_row(LocalRelations *relations, LocalRelation *local, TupleTableSlot *slot);

/* Writes the rows in local's buffer, which are completed. */
void insert_buffered(LocalRelations *relations, LocalRelation *local);

/* Replaces local->found by `slot` (not completed), or deletes it. returns: false when somebody else changed
 * the row first: find it again */
bool update_row(LocalRelations *relations, LocalRelation *local, TupleTableSlot *slot);
bool delete_row(LocalRelations *relations, LocalRelation *local);

/* "(a, b)=(1, x)" for messages; columns: null for all. palloc'd */
char *describe_row(const LocalRelation *local, TupleTableSlot *slot, const Bitmapset *columns);

} // namespace schemasync::apply
