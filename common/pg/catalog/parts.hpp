/*
 * The parts of a relation's and a type's state, between the files of the catalog reader.
 *
 * Zone: bridge; leaves.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "access/attnum.h"
#include "access/htup.h"
#include "lib/stringinfo.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "nodes/nodes.h"
}

namespace schemasync::pg::catalog {

struct Facts;
struct Reading;

/* The relation that is being described. */
struct Subject {
	Oid relid;
	const char *schema;
	const char *name;
	char relkind;
	char replica_identity;
	bool partition; /* and not alone */
	/* a partition whose bound may not be shown: described as a table by itself, with the word partition_hidden */
	bool alone;
	/* attnums; nullptr: no column is hidden */
	const Bitmapset *visible;
	/* gathers the parts of the text that the fingerprint leaves out: pairs of begin and end in an int list */
	List **unhashed;
};

inline bool
is_visible(const Subject &subject, int attnum)
{
	return subject.visible == nullptr || attnum <= 0 || bms_is_member(attnum, subject.visible);
}

/* The field "columns". */
void append_columns(StringInfo out, const Subject &subject);

/* The field "constraints" of a relation; those of a domain. */
void append_constraints(StringInfo out, const Subject &subject);
void append_domain_constraints(StringInfo out, Oid domain);

/* The field "indexes". */
void append_indexes(StringInfo out, const Subject &subject);

/* The fields "replica_identity_index" and "identity_columns". */
void append_replica_identity(StringInfo out, const Subject &subject);

/*
 * The definition of an index from its key list on, or of an exclusion constraint: "EXCLUDE USING gist (...)".
 * `operators` are the oids of the exclusion operators, nullptr for a plain index.
 */
void append_index_definition(StringInfo out, const Subject &subject, Oid index, const Oid *operators);

/* The expressions and the predicate of an index in one list; NIL when it has none. */
List *read_index_expressions(HeapTuple index);

/* Whether the index mentions a column that is not visible. */
bool index_is_hidden(const Subject &subject, HeapTuple index);

/* " COLLATE c opclass", each only where it is not what the column's type brings. */
void append_key_decoration(StringInfo out, Oid type, Oid collation, Oid key_collation, Oid opclass, Oid method,
                           bool always_class);

/* Whether a partition's bound would show values of a column that is not visible. */
bool bound_is_hidden(const Subject &subject);

/* The fields "partition_key", "partition_key_expr", and "partition_bound" or "partition_hidden". */
void append_partitioning(StringInfo out, const Subject &subject, HeapTuple relation);

/* A field with TYPEREF as its value. */
void append_type_reference(StringInfo out, const char *name, Oid typid, int32 typmod);

/* {"oid","schema","name"} as a field (of a relation). */
void append_relation_reference(StringInfo out, const char *name, Oid relid);

/*
 * The tail of an object that began at `start` in out: "fingerprint" over all its text so far but the parts that
 * `unhashed` names (see Subject) and, when the position is known, "as_of" and "own". facts may be null.
 */
void append_tail(StringInfo out, int start, const List *unhashed, bool own, const Reading *reading, Facts *facts);

/* Whether the transaction of the reading wrote a row of the catalogs that an object's state comes from. */
bool is_relation_own(Oid relid, const Reading *reading);
bool is_type_own(Oid typid, const Reading *reading);

/* Whether the transaction of the reading created the relation. */
bool is_created_here(Oid relid, const Reading *reading);

} // namespace schemasync::pg::catalog
