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

enum class Conflict { InsertExists, UpdateMissing, DeleteMissing };

/*
 * Raises an error, or records the conflict in this transaction and returns for the caller to act on the
 * option.
 *
 * key, local_row, remote_row: texts, or nullptr
 */
void report_conflict(Session *session, const LocalRelation *local, Conflict conflict, const char *key,
                     const char *local_row, const char *remote_row);

} // namespace schemasync::apply
