/*
 * From a relation of the publisher, as its Relation message describes it, to the local table: which value
 * goes to which column and how it is read, what the columns that the publisher does not have are filled with,
 * how a row is found again.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "core/protocol.hpp"

#include "apply_ext/apply/local_relation.hpp"
#include "apply_ext/apply/lookup.hpp"
#include "apply_ext/apply/schema.hpp"
#include "apply_ext/apply/values.hpp"

extern "C" {
#include "access/attmap.h"
}

namespace schemasync::apply {

struct Session;

/* A column of the publisher's relation, in the order of the wire. */
struct Column {
	const char *name;
	Oid wire_type;
	bool key;          /* part of the replica identity */
	AttrNumber paired; /* what the subscription pairs it with, in the target's table; 0: not kept here */
	AttrNumber local;  /* the same, 0 also where the local column is computed */
	Reader reader;
};

/* The rows of a target in one table: the target's own, or a partition of it. */
struct View {
	Oid relid;                /* hash key */
	std::uint64_t generation; /* of local */
	LocalRelation *local;
	AttrNumber *from_root; /* root attnum -> attnum here; nullptr: the same layout */
	AttrNumber *to_root;   /* attnum here -> root attnum, 0: none */
	Lookup *lookup;        /* nullptr: not needed yet */
};

struct Default {
	AttrNumber column;
	ExprState *expression;
};

/* REPLICA IDENTITY FULL without an index: changes that wait to be found in one reading of the table.
 * batch.hpp */
struct Batch;

struct Target {
	Oid publisher_oid;         /* hash key */
	MemoryContext remote;      /* what the Relation message said */
	MemoryContext mapping;     /* what belongs to the local table's generation */
	const char *schema, *name; /* the publisher's */
	char replica_identity;
	int ncolumns;
	Column *columns;

	bool mapped;  /* to what find_relation() said last */
	XLogRecPtr mapped_for; /* valid: only for the transaction that commits there */
	bool carried; /* rows of a rewrite: each is an update of the row with its key */
	bool applied; /* false: its rows are not applied, and that is decided (dropped here, kept out) */
	Oid relid;
	bool apply_all;
	XLogRecPtr sync_lsn;
	TransactionId judged; /* the publisher's transaction for which is_copied() has looked */
	bool copied;          /* ... and what it found */

	LocalRelation *local;
	std::uint64_t generation;
	Bitmapset *sent; /* local attnums whose old values are sent */
	bool whole;      /* ... and they are all that the publisher has */
	bool plain;      /* every local column has a column of the publisher: nothing to fill */
	int ndefaults;
	Default *defaults;
	bool routes_by_key; /* partitioned: the columns sent decide on the partition */
	View *view;         /* of an ordinary table */
	HTAB *views;        /* of a partitioned one: by relid */
	Batch *batch;       /* made when first needed */
	Target *next_batched;
};

struct Relations {
	MemoryContext context;
	HTAB *targets; /* by publisher oid */
	HTAB *types;   /* names of the publisher's types that are not built in */
	LocalRelations *locals;
	Target *batched; /* list of those whose batch is not empty */
	Target *last;    /* most rows are of the same relation as the one before */
};

Relations *make_relations(MemoryContext context, bool run_as_owner);

/* A Relation or Type message. */
void remember_relation(Session *session, const protocol::Relation &message);
void remember_type(Session *session, const protocol::Type &message);

/* After a schema message: all mappings are looked up again. No relation may be open. */
void forget_mappings(Relations *relations);

/*
 * The target of rows of a publisher's relation, its table open in this transaction.
 *
 * returns: nullptr when its rows are not to be applied
 * errors:  the subscription does not know the relation, or a column of it
 */
Target *open_target(Session *session, Oid publisher_oid);

/* The view of the target in a table of its tree, open in this transaction; with how to find rows when asked.
 */
View *open_view(Session *session, Target *target, Oid relid, bool with_lookup);

} // namespace schemasync::apply
