/*
 * The publisher's side of the initial copy: the snapshot, what is published in it, and the rows.
 *
 * Zone: server code (leaves: may ereport, plain data only).
 */
#pragma once

#include <cstdint>

#include "apply_ext/catalog/subscription.hpp"
#include "apply_ext/worker/publisher.hpp"

extern "C" {
#include "access/attnum.h"
#include "access/xlogdefs.h"
#include "nodes/pg_list.h"
}

namespace schemasync::worker {

/* What is to be done with a table. */
enum class Wish : unsigned char {
	None,
	Adopt, /* described: it gets a base and, where need be, a local table; and then its rows */
	Rows,  /* it has both; its rows are copied */
	Later, /* it was altered since the snapshot, again and again: a later copy takes it up */
};

/* One relation of the publisher, as of the snapshot. */
struct SourceTable {
	Oid oid;
	char *schema, *name;
	char relkind;
	char *columns; /* text of a smallint[]: the column list; nullptr: all */
	char *filter;  /* SQL; nullptr: all rows */
	bool published, via_root;
	bool partition; /* its constraints and indexes come with its parent's */
	bool below;    /* a partition below a published root: its rows travel as the root's, and it need not be there */
	Wish wish;
	char *state;   /* JSON, of a table to be adopted */
	int number;    /* its place in Source::tables */
	std::uint32_t blocks; /* its size when it can be read in parts, else 0 */
	std::int64_t rows;    /* about how many */
};

struct Source {
	Publisher *sql;          /* in a transaction with the snapshot */
	char *snapshot;          /* under which name others may take it while this one is open */
	XLogRecPtr position;     /* of the snapshot; 0 when there is none and everything is as of now */
	char *extension_schema;  /* quoted */
	SourceTable *tables;     /* parents first */
	int count;
	List *types;             /* char *: JSON states of the types that the described tables need, each after those it needs */
	List *type_oids;
};

/* What becomes of the slot that gives the snapshot. */
enum class SlotUse : unsigned char {
	Create,    /* it is the subscription's: made now */
	Temporary, /* the subscription's is there already: another one for the snapshot only */
	None,      /* no rows are copied from a slot that is there already */
};

/* Says of a table what is to be done with it. */
using Selection = Wish (*)(const SourceTable &table, const void *argument);

/*
 * Opens the snapshot, lists what is published and describes what is to be adopted, all as of the snapshot. No lock remains: tables may be altered
 * from now on, but their states are those of the snapshot. A table that is altered between the snapshot and its description makes a new snapshot necessary, or,
 * where that happens again and again and rows are copied, is left for later (Wish::Later).
 *
 * returns: palloc'd in the current context, which owns the connection
 */
Source *open_source(const catalog::Subscription &subscription, SlotUse use, Selection selection, const void *argument);
void close_source(Source *source);

/* What is published, without a snapshot or locks: a connection in no transaction. */
Source *open_listing(const catalog::Subscription &subscription);

/* Drops the subscription's slot on the publisher if it is there. */
void drop_own_slot(const catalog::Subscription &subscription);

/* Whether a table has rows to copy: ancestors and partitions that travel through others have none of their own. */
bool has_rows_of_its_own(const SourceTable &table);

/* Fills in the sizes of the tables whose rows are to be copied. */
void measure_tables(Source *source);

/* The states of all types in what is published as a whole (all tables, or a schema), whether a table uses them or not. */
const char **describe_types(const Source &source, const catalog::Subscription &subscription, int *count);

/* The names of the schemas that the publications cover as such, with or without tables. */
const char **describe_schemas(const Source &source, const catalog::Subscription &subscription, int *count);

/* The definitions of the opt-in classes (docs/wire.md) that the publications cover, in an order in which they can be made. */
const char **describe_objects(const Source &source, const catalog::Subscription &subscription, int *count);

} // namespace schemasync::worker
