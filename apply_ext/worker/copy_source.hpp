/*
 * The publisher's side of the initial copy: the snapshot, what is published in it, and the rows.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include "apply_ext/catalog/subscription.hpp"
#include "apply_ext/worker/publisher.hpp"

extern "C" {
#include "access/attnum.h"
#include "access/xlogdefs.h"
}

namespace schemasync::worker {

/* One relation of the publisher, as of the snapshot. */
struct SourceTable {
	Oid oid;
	char *schema, *name;
	char relkind;
	char *columns; /* text of a smallint[]: the column list; nullptr: all */
	char *filter;  /* SQL; nullptr: all rows */
	bool published, via_root;
	bool below;    /* a partition below a published root: its rows travel as the root's, and it need not be there */
	bool wanted;   /* locked, and described or copied */
};

struct Source {
	Publisher *sql;          /* in a transaction with the snapshot */
	XLogRecPtr position;     /* of the snapshot; 0 when there is none and everything is as of now */
	char *extension_schema;  /* quoted */
	SourceTable *tables;     /* those to describe, parents first */
	int count;
};

/* What becomes of the slot that gives the snapshot. */
enum class SlotUse : unsigned char {
	Create,    /* it is the subscription's: made now */
	Temporary, /* the subscription's is there already: another one for the snapshot only */
	None,      /* no rows are copied from a slot that is there already */
};

/* Says of a table whether it is wanted. */
using Selection = bool (*)(const SourceTable &table, const void *argument);

/*
 * Opens the snapshot and locks what is published in it and selected (nullptr: all), so that neither rows nor shapes move until the
 * source is closed.
 *
 * returns: palloc'd in the current context, which owns the connection
 */
Source *open_source(const catalog::Subscription &subscription, SlotUse use, Selection selection = nullptr, const void *argument = nullptr);
void close_source(Source *source);

/* What is published, without a snapshot or locks: a connection in no transaction. */
Source *open_listing(const catalog::Subscription &subscription);

/* Drops the subscription's slot on the publisher if it is there. */
void drop_own_slot(const catalog::Subscription &subscription);

/* The states of tables, in their order, and those of the types they need, each after those it needs. */
struct States {
	const char **relations;
	int nrelations;
	const char **types;
	int ntypes;
};
States describe_tables(const Source &source, const SourceTable *const *tables, int count);

/* The states of all types in what is published as a whole (all tables, or a schema), whether a table uses them or not. */
const char **describe_types(const Source &source, const catalog::Subscription &subscription, int *count);

/* The definitions of the opt-in classes (docs/wire.md) that the publications cover, in an order in which they can be made. */
const char **describe_objects(const Source &source, const catalog::Subscription &subscription, int *count);

/* One table's state and types as the content of a schemasync.state message; nullptr when it is gone. */
char *describe_table(const Source &source, const SourceTable &table);

/* The columns whose values are sent, in attnum order. */
struct SourceColumn {
	AttrNumber attnum;
	char *name;
	Oid type;
};
SourceColumn *read_columns(const Source &source, const SourceTable &table, int *count);

/* Starts COPY TO of these columns; then read_rows gives the bytes as CopyFrom's callback wants them. */
void start_rows(const Source &source, const SourceTable &table, const SourceColumn *columns, int count, bool binary);
int read_rows(void *buffer, int least, int most);
void end_rows();

} // namespace schemasync::worker
