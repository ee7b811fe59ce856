/*
 * The rows of one table: from the publisher's snapshot into the local table, as the table's owner.
 *
 * Called inside a transaction of copy.cpp, which decides what is committed with them. Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/worker/copy_reader.hpp"

namespace schemasync::worker {

/* What an interrupted copy, or the last one, left in the local table goes: */
enum class Emptying : unsigned char {
	Delete,   /* whoever reads the table sees what was there until the transaction commits, and an error leaves that */
	Truncate, /* at once; where a foreign key of another table forbids that, as Delete */
};

/* returns: false when there is no local table */
bool empty_target(const catalog::Subscription &subscription, Oid publisher_oid, Emptying emptying);

/*
 * Whether what is copied may be committed part by part: the local table is there and has no rows at all, and no index either. Several workers that fill an
 * index in different places split its pages in halves and find each place anew, where one that comes in order appends: that costs more than it gains.
 */
bool may_fill_in_parts(const catalog::Subscription &subscription, Oid publisher_oid);

/* Copies the rows of a table. returns: how many; 0 when it has no local table */
std::int64_t fill_table(const catalog::Subscription &subscription, const Reader &reader, const SourceTable &table, const Part &part);

} // namespace schemasync::worker
