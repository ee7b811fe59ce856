/*
 * Applying rows: insert, update, delete and truncate of the publisher, through the executor's parts.
 *
 * Inserts wait in per-table buffers for table_multi_insert, across the publisher's transactions of a group;
 * every other change of the same table writes them first. All run in the local transaction that the caller
 * has begun.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "core/protocol.hpp"

#include "apply_ext/apply/relation_map.hpp"

namespace schemasync::apply {

void apply_insert(Session *session, const protocol::Insert &message);
void apply_update(Session *session, const protocol::Update &message);
void apply_delete(Session *session, const protocol::Delete &message);
void apply_truncate(Session *session, const protocol::Truncate &message);

/*
 * The row takes the place of the local one that has its key (a target with `carried` set).
 *
 * returns: nullptr, or the key when there is no such row (palloc'd)
 */
const char *update_by_key(Session *session, const protocol::Insert &message);

/* Writes everything that waits. */
void flush_rows(Session *session);

} // namespace schemasync::apply
