/*
 * Carried rewrites (rewrites = carry): the rows of a rewritten table come in the stream as inserts into the
 * transient relation that the rewrite message announces, and give the subscriber's rows their new values.
 * Before the first the columns are there bare, after the last (at the command's marker) what the rows must
 * fulfil follows.
 *
 * Zone: server code.
 */
#pragma once

#include "apply_ext/apply/schema_work.hpp"

namespace schemasync::apply {

/* Takes the rewrite message: changes the local table so that the rows can come. Throws Refused. */
void begin_carry(SchemaWork &work, const state::RewriteMessage &message);

/* The same for a table that comes with a copy: the rows are not applied. */
void pass_over_carry(const state::RewriteMessage &message);

/* Takes out of the command what the carried rows have settled: nothing is left to prove about their values. */
void settle_carried(merge::Command &command);

/* The marker came: all rows did. Does what follows them, for each rewrite of the transaction. Throws Refused.
 */
void finish_carries(SchemaWork &work);

/* What rows of a transient relation go to. Plain data in a list of the transaction. */
struct Carried {
	Carried *next;
	Oid transient, relation;
	bool replaces; /* the local table was emptied: rows are inserted; else each updates the row of its key */
	int nkeys;
	AttrNumber *keys; /* the publisher's replica identity */
	int nstatements;
	char **statements; /* to execute after the last row */
};

/* nullptr when no rewrite of that transient relation is going on. Leaf. */
const Carried *find_carried(Oid transient);

/* Leaf: forgets the rewrites of an earlier transaction (or attempt). */
void forget_carries();

} // namespace schemasync::apply
