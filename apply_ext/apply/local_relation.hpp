/*
 * A local table as the rows need it: relation, indexes, executor state, slots. What is expensive to make is
 * kept as long as the table's definition stands (the server's invalidation messages say when it does not); a
 * local transaction only takes the lock and the references again.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "pg/postgres.hpp"

extern "C" {
#include "nodes/execnodes.h"
#include "utils/acl.h"
#include "utils/rel.h"
}

namespace schemasync::apply {

/* Inserts that wait for table_multi_insert. */
inline constexpr int max_buffered_rows = 1000;
inline constexpr Size max_buffered_bytes = 256 * 1024;

struct LocalRelation {
	Oid relid;             /* hash key */
	MemoryContext context; /* all below but the references of one transaction */
	bool built;
	bool valid;               /* no invalidation message since it was built */
	bool open;                /* this local transaction holds lock and references */
	std::uint64_t generation; /* of what was built; those who keep pointers into it compare */

	Relation relation;
	TupleDesc desc; /* a copy of our own, so that slots do not pin the relation cache's */
	Oid owner;
	char kind;
	const char *schema, *name;
	EState *estate;
	ResultRelInfo *info;
	Oid *indexes; /* in the order of info's */

	/* row triggers that fire with session_replication_role = replica */
	bool insert_triggers, update_triggers, delete_triggers;
	bool has_checks; /* NOT NULL or CHECK */
	bool has_generated;
	bool is_partition;
	AclMode granted; /* privileges found to be there, as `granted_to` */
	Oid granted_to;

	TupleTableSlot *search;  /* virtual: the values to look for, or a row on its way in */
	TupleTableSlot *found;   /* of the table's kind: the row found */
	TupleTableSlot *updated; /* virtual: the row that replaces it */

	TupleTableSlot **buffer; /* virtual, made as needed: rows to be inserted */
	int buffered, allocated;

	/* partitioned tables: routing, for one transaction */
	EState *routing_estate;
	ModifyTableState *routing_state;
	struct PartitionTupleRouting *routing;
	ResultRelInfo *routing_info;

	LocalRelation *next_open;
};

/* The relations that are known, and the user that the rows run as at the moment. */
struct LocalRelations {
	MemoryContext context;
	struct HTAB *by_oid;
	LocalRelation *open;         /* list */
	struct Lookup *open_lookups; /* list of those that hold a scan */
	std::uint64_t generations;
	MemoryContext row;   /* values of the row being applied */
	MemoryContext batch; /* values of buffered rows */
	int buffered;        /* rows in all buffers */
	bool snapshot_pushed;

	/* acting as the owner of the tables */
	Oid worker_user, acting;
	int saved_sec_context, guc_level;
	bool as_owner;
	bool silent; /* no trigger is to fire */
};

LocalRelations *make_local_relations(MemoryContext context, bool run_as_owner);

/*
 * The relation, open and locked (RowExclusiveLock) in this transaction.
 *
 * errors: it is gone, or is of a kind that rows cannot be applied to
 */
LocalRelation *open_local(LocalRelations *relations, Oid relid);

/* Whether something has changed since open_local, so that it must be called again (with nothing buffered). */
inline bool
is_stale(const LocalRelation *local)
{
	return !local->valid;
}

/* Closes everything before the transaction ends; nothing may be buffered. The locks stay until then. */
void close_locals(LocalRelations *relations);
/* After an abort, which has released all: forgets the references. */
void forget_locals(LocalRelations *relations);

/* Acts as the table's owner (or the worker's user with run_as_owner), with the privileges checked. Stays so
 * until act_as_worker(). */
void act_for(LocalRelations *relations, LocalRelation *local, AclMode mode);
void act_as_worker(LocalRelations *relations);

/* No trigger fires for the rows that follow, or they do again. Nothing may be open. After an abort they do. */
void silence_triggers(LocalRelations *relations, bool silent);

/* An active snapshot for triggers, expressions and TOAST. */
void need_snapshot(LocalRelations *relations);
void drop_snapshot(LocalRelations *relations);

/* Partitioned tables: the leaf that takes the row in `slot` (of the root's layout). Raises when there is
 * none. */
Oid find_partition(LocalRelations *relations, LocalRelation *root, TupleTableSlot *slot);

} // namespace schemasync::apply
