/*
 * The catalog reader: the state of a relation, type or schema as JSON text (docs/wire.md).
 *
 * One builder for three callers: the decoder (under the historic snapshot of logical decoding), the SQL function
 * schemasync_describe, and the subscriber, which describes its own tables with it. It reads catalog rows through
 * systable scans and the syscache only, so that it works under the historic snapshot, and takes no lock on any
 * relation but the catalogs: the walsender must never wait for the ALTER TABLE it is decoding, which may still hold
 * its locks while it waits to be replicated or lies prepared. (The server's own pg_get_indexdef and its like open the
 * table, which is why definitions are put together here.) It evaluates no user-defined function but types' output.
 *
 * Text does not depend on the session: call begin_pinned_settings() around every use.
 *
 * Zone: bridge; every function here is a leaf (may ereport, plain data only). Memory is left in the current context.
 */
#pragma once

#include "pg/postgres.hpp"

extern "C" {
#include "access/xlogdefs.h"
#include "lib/stringinfo.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "nodes/nodes.h"
}

namespace schemasync::pg::catalog {

/* How the publications of a session publish a relation. */
struct Published {
	Bitmapset *columns = nullptr; /* attnums of the column list (no offset); nullptr: all columns */
	bool filter = false;
	bool via_root = false;
	bool inserts_only = false; /* neither updates nor deletes: no identity is needed */
};

/* What belongs to the session and not to the object; all of it may be left empty. */
struct Reading {
	/* adds "published"; a column list hides all that mentions other columns */
	const Published *published = nullptr;
	/* the ids of the transaction that is being decoded (sorted by xidComparator); without them the current
	 * transaction's count */
	const TransactionId *xids = nullptr;
	int xid_count = 0;
	/* the position in the WAL at which the catalog is read (bytes); adds "as_of" and "own" unless it is 0 */
	XLogRecPtr as_of = 0;
	/* the first position after the transaction's commit, which is where its own changes take their place; 0: not known yet */
	XLogRecPtr commit = 0;
};

/* What the caller learns besides the text. */
struct Facts {
	char fingerprint[17];
	bool own;          /* the transaction changed the object */
	bool created_here; /* the transaction created the relation */
};

/*
 * Pins, in a nest level of its own, the parameters that deparsing and output functions depend on.
 *
 * returns: the nest level, for end_pinned_settings(); an ERROR in between is unwound by the (sub)transaction's abort
 */
int begin_pinned_settings();
void end_pinned_settings(int nest_level);

/*
 * Appends RELATION of a table, partitioned table, view, materialized view or foreign table.
 *
 * returns: false, with nothing appended, when there is no such relation (any more) or it is of another kind
 */
bool append_relation(StringInfo out, Oid relid, const Reading *reading, Facts *facts = nullptr);

/* Appends TYPE. Returns false, with nothing appended, when there is no such type. */
bool append_type(StringInfo out, Oid typid, const Reading *reading = nullptr, Facts *facts = nullptr);

/* Appends SCHEMA. Returns false, with nothing appended, when there is no such schema. */
bool append_schema(StringInfo out, Oid nspid);

/* Appends EXPR of a parsed expression whose Vars are columns of relid (InvalidOid: there are none). */
void append_expression(StringInfo out, Node *expression, Oid relid);

/*
 * The types that the columns of a relation need and that are not built in, each after those it needs.
 *
 * in:      columns as in Published, nullptr for all; `known`, an oid list of types to leave out, which also grows
 * returns: an oid list (element types for arrays)
 */
List *collect_relation_types(Oid relid, const Bitmapset *columns, List **known);

/* The same for one type and those it needs. */
List *collect_type(Oid typid, List **known);

/* Appends "[TYPE,...]" for an oid list as collect_relation_types returns it. */
void append_types(StringInfo out, const List *types);

} // namespace schemasync::pg::catalog
