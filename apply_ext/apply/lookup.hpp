/*
 * Finding the local row that an update or delete of the publisher means.
 *
 * By the replica identity's or the primary key's index where the publisher sends its columns, else by any
 * index that narrows the search, else by reading the table. An index scan stays open for the local
 * transaction.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/apply/local_relation.hpp"

extern "C" {
#include "access/genam.h"
#include "access/skey.h"
#include "nodes/bitmapset.h"
#include "utils/snapshot.h"
}

namespace schemasync::apply {

/* How two values of a column are compared: as the type says, or, where the type has no equality (json, xml,
 * point), byte for byte. */
struct Comparison {
	AttrNumber attnum; /* local */
	Oid collation;
	bool by_value;
	std::int16_t length;
	FmgrInfo *equal; /* nullptr: byte for byte */
	FmgrInfo *hash;  /* nullptr: takes no part in the hash */
};

struct Lookup {
	LocalRelation *local;
	std::uint64_t generation;
	int index;               /* position in local's indexes; -1: read the table */
	bool exact;              /* unique over columns that are all sent: what it finds is the row */
	bool ambiguous_is_error; /* the columns sent are not the whole row, and no unique index covers them */
	int nkeys;
	AttrNumber *key_columns; /* local */
	ScanKeyData *keys;
	int ncomparisons;
	Comparison *comparisons; /* of all columns sent */

	IndexScanDesc scan; /* open in this transaction */
	SnapshotData dirty;
	Lookup *next_open;
};

/*
 * Chooses.
 *
 * sent:  local attnums whose old values the publisher sends (its replica identity)
 * whole: they are the whole row (REPLICA IDENTITY FULL)
 * returns: palloc'd in the current context; refers to local's state of this generation
 */
Lookup *make_lookup(LocalRelation *local, const Bitmapset *sent, bool whole);

/*
 * Finds the row with the values of local->search and puts it into local->found, whose buffer stays pinned.
 * Waits for transactions that are changing it.
 *
 * errors: cardinality_violation when several rows fit and the publisher's columns do not tell which
 */
bool find_row(LocalRelations *relations, Lookup *lookup);

/* The values of a row as a hash and as an equality, for batches. The hash fits the equality. */
std::uint32_t hash_row(const Lookup *lookup, TupleTableSlot *slot);
bool same_row(const Lookup *lookup, TupleTableSlot *left, TupleTableSlot *right);

void close_lookups(LocalRelations *relations);
void forget_lookups(LocalRelations *relations);

} // namespace schemasync::apply
