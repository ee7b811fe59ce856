/*
 * Rows that are not as the publisher's change expects them: an error by default, else settled as the option
 * `conflicts` says and recorded in schemasync.conflict. Never passed over in silence.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/session.hpp"

#include "apply_ext/apply/local_relation.hpp"

namespace schemasync::apply {

enum class Conflict { InsertExists, UpdateMissing, DeleteMissing, UniqueViolation };

/*
 * Raises an error, or records the conflict in this transaction and returns for the caller to act on the
 * option.
 *
 * key, local_row, remote_row: texts, or nullptr
 */
void report_conflict(Session *session, const LocalRelation *local, Conflict conflict, const char *key,
                     const char *local_row, const char *remote_row);

/* The columns of an index of the table, for messages. */
Bitmapset *key_columns(const LocalRelation *local, int index);

/*
 * The row here that has the unique value of an index that `slot` brings, into local->found: the tuple at `own` is not meant. Waits for
 * transactions that are still at it. returns: false when there is none
 */
bool find_unique(LocalRelations *relations, LocalRelation *local, int index, TupleTableSlot *slot, const ItemPointerData *own);

/*
 * With conflicts = apply_remote or keep_local: other rows that have a unique value of `slot`, which is to be inserted or to replace the row at
 * own (nullptr: inserted). Each is recorded; with apply_remote it is deleted. Afterwards local->found has the row at own again.
 *
 * returns: true when the change is to be dropped (keep_local)
 */
bool settle_unique(Session *session, LocalRelation *local, TupleTableSlot *slot, const ItemPointerData *own);

} // namespace schemasync::apply
