/*
 * Compares the rows of one table of the publisher with the subscriber's, each in the snapshot that is set there.
 *
 * One pass on either side gives counts and sums of hashes for some parts of the table (by the hash of the key, so that order, collation and
 * plan play no role). Where a part differs, its keys and hashes are read in order from both sides and merged. Neither takes memory that
 * grows with the table.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/worker/copy_source.hpp"

#include "apply_ext/catalog/relation.hpp"

namespace schemasync::api {

/* How both sides make a hash of a text; the same on both, whatever byte order and encoding they have. */
struct Hashing {
	bool portable;    /* by way of MD5 and UTF-8, which is slower */
	bool same_order;  /* texts sort the same on both sides */
};

struct Comparison {
	std::int64_t publisher_rows, subscriber_rows;
	std::uint64_t publisher_sum, subscriber_sum;
	bool equal;
	char *differences; /* one line a range of keys; nullptr: none */
	char *detail;      /* what was not compared; nullptr: all was */
};

/* Asks both sides. Needs the pinned settings of common/pg/catalog here and set_output() there. */
Hashing choose_hashing(worker::Publisher *publisher);

/* The settings that values depend on as text. */
void set_output(worker::Publisher *publisher);

/*
 * table, schema, name: the publisher's, with its names in the snapshot
 * row:                 what it is mapped to here
 * returns:             palloc'd in the current context; local reads are in the active snapshot
 */
Comparison *compare_rows(worker::Publisher *publisher, const worker::SourceTable &table, const catalog::RelationRow &row,
                         const Hashing &hashing);

} // namespace schemasync::api
