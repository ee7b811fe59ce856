/*
 * Changes of tables with REPLICA IDENTITY FULL and no index that could help: they are collected and their
 * rows found in one reading of the table, by a hash of the old rows, instead of one reading each.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/row_reader.hpp"

namespace schemasync::apply {

/* Collects an update, or a delete when new_row is empty. May write out what was collected before. */
void add_to_batch(Session *session, Target *target, Row old_row, Row new_row);

/* Finds and changes the rows collected for one target, or for all. */
void flush_batch(Session *session, Target *target);
void flush_batches(Session *session);

/* After an abort: what was collected is gone. */
void forget_batches(Session *session);

/* Whether changes of the target wait. */
bool has_batch(const Target *target);

} // namespace schemasync::apply
