/*
 * The rows of one table: from the publisher's snapshot into the local table, as the table's owner.
 *
 * Called inside a transaction of copy.cpp, which decides what is committed with them. Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/worker/copy_source.hpp"

namespace schemasync::worker {

/*
 * Deletes what is in the local table. Until the transaction commits, whoever reads the table sees what was there, and an error leaves that.
 *
 * returns: false when there is no local table
 */
bool empty_target(const catalog::Subscription &subscription, Oid publisher_oid);

/* Copies the rows of a table. returns: how many; 0 when it has no local table */
std::int64_t fill_table(const catalog::Subscription &subscription, const Source &source, const SourceTable &table);

} // namespace schemasync::worker
