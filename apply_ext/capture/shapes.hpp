/*
 * The states of the objects that a command touches, as text, at one moment: before or after it.
 *
 * Zone: server code; leaves (may ereport, plain data only).
 */
#pragma once

#include "apply_ext/capture/touched.hpp"
#include "pg/postgres.hpp"

namespace schemasync::capture {

enum class ShapeKind : unsigned char { Relation, Type, Schema };

struct Shape {
	ShapeKind kind;
	Oid oid;
	const char *json; /* its state (docs/wire.md); nullptr: there is no such object */
	const char *name; /* for people, quoted where needed; nullptr with json */
	bool temporary;   /* of a relation */
	bool published;   /* of a relation: a publication covers it or an ancestor */
	bool inserts_only; /* of a relation: neither updates nor deletes of it are published */
	bool has_rows;    /* of a relation: it may have rows, in itself or a partition or child */
	double row_count; /* of a relation: about how many; 0 when that is not known */
	List *ancestors;  /* of a partition: oids of the partitioned tables above it, the nearest first */
};

struct Shapes {
	Shape *items;
	int count;
};

/*
 * Reads them as the current catalog snapshot has them.
 *
 * context: where the result is allocated
 */
Shapes *read_shapes(const Touched *touched, MemoryContext context);

/* nullptr when it is not among them */
const Shape *find_shape(const Shapes *shapes, ShapeKind kind, Oid oid);

} // namespace schemasync::capture
