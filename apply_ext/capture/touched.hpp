/*
 * Which relations, types and schemas a command names or touches: those whose states the guard and
 * schemasync_check compare.
 *
 * Zone: server code; leaves (may ereport, plain data only).
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "catalog/objectaddress.h"
#include "nodes/nodes.h"
#include "nodes/pg_list.h"
}

namespace schemasync::capture {

/* Oid lists without duplicates, in the order of discovery. */
struct Touched {
	List *relations = NIL;
	List *types = NIL;
	List *schemas = NIL;
};

/* The relation that an object is or belongs to (an index, a constraint, a trigger, ...), or InvalidOid. */
Oid relation_of(const ObjectAddress *address);

/* Adds what an object is or belongs to, as the catalog has it now; nothing when it is not there. */
void note_address(Touched *touched, const ObjectAddress *address);

/* Before a command: adds what its parse tree names and what is there. Takes no locks. */
void note_named(Touched *touched, const Node *parsetree);

/* Adds the partitions and children of all relations in it, at any depth. Takes no locks. */
void note_descendants(Touched *touched);

} // namespace schemasync::capture
