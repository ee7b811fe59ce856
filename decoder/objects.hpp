/*
 * From the address of an object in a marker to the relation, type or schema whose state tells of it.
 *
 * Zone: server code; leaves.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "nodes/pg_list.h"
}

namespace schemasync::decoder {

/* What an object is part of; at most one of the three is valid. All invalid: of nothing that has a state, or gone. */
struct Subject {
	Oid relid;
	Oid typid;
	Oid nspid;
};

/*
 * Follows an index, sequence, constraint, default, trigger, policy, rule, statistics object or member of a publication
 * to its table, an array or row type to its element or relation, a composite type's relation to the type.
 */
Subject find_subject(Oid classid, Oid objid);

/* The relations of a schema (tables and partitioned tables), oids. */
List *relations_of_schema(Oid nspid);

/* The relations that have a column of a type, or of a type made of it. */
List *relations_using_type(Oid typid);

/* The parents of a relation, partitioned or inherited from, in their order. */
List *parents_of(Oid relid);

} // namespace schemasync::decoder
