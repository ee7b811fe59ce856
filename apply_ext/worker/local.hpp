/*
 * The local transactions in which workers keep their books.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/catalog/subscription.hpp"

namespace schemasync::worker {

/* A transaction with a snapshot, as statements need it. */
void begin();
void commit();

/* Whether what commit() commits has an origin without a name (pg::compat::unnamed_origin). */
void set_unnamed(bool unnamed);

/* The subscription as it is now, in TopMemoryContext, read in a transaction of its own; nullptr: it is gone. */
catalog::Subscription *load(std::int64_t subid);

/* One log entry for an ERROR that ends a worker or its work: under the worker's name, with all that the error says. */
void log_error(const ErrorData *error);

} // namespace schemasync::worker
