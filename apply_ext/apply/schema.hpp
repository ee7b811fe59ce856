/*
 * The schema side of applying: state, ddl and rewrite messages become executed operations and new base
 * states; and the map from a publisher's relation to the local one, which the rows use.
 *
 * Everything here runs inside the local transaction of the publisher's transaction that the message belongs
 * to. The caller has closed its relations (rows keep executor state open) before on_schema_message and must
 * look its relation maps up again after.
 *
 * Zone: server code.
 */
#pragma once

#include <cstdint>
#include <string_view>

#include "apply_ext/catalog/subscription.hpp"

#include "pg/postgres.hpp"

extern "C" {
#include "access/attnum.h"
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
}

struct Bitmapset;

namespace schemasync::apply {

/* What the message is applied for. */
enum class Pass : std::uint8_t {
	Stream,  /* all tables that are followed */
	CatchUp, /* the stream once more, for tables that were copied beside it: nothing else counts */
	Copy,    /* a table's state at the snapshot of a copy that the stream waits for */
	Beside,  /* the same beside the stream, which alone brings the types on */
};

/* Where in the stream a message stands. */
struct Boundary {
	XLogRecPtr commit_lsn; /* the transaction's (begin message: final_lsn); of a streamed transaction known at
	                          its commit */
	TimestampTz commit_time;
	TransactionId xid;
	int ordinal; /* of schema messages within the transaction, from 1 */
	Pass pass = Pass::Stream;
	bool prepares = false; /* the transaction ends with a PREPARE */
	bool emptied = false; /* the local table has no rows: it was emptied for its copy */
};

/*
 * Thrown (as a C++ exception, plain data inside) when a change is refused: the caller aborts the transaction,
 * then calls record_refusal in a transaction of its own and stops the worker.
 */
struct Refused {
	const char *reason, *object_type, *object_identity, *statement, *changes, *drift, *suggested_sql, *hint,
	    *theirs;
	Oid publisher_oid;
	Boundary boundary;
};

struct Session;

/*
 * Takes one M message with a prefix that starts with "schemasync.": parses, merges, executes, writes bases
 * and history.
 *
 * session: of the worker that applies the stream; null elsewhere, where no carried rows are
 * throws:  Refused; pg::Error for an error of the server that is no verdict (connection, interrupt)
 * returns: whether anything of the local schema may have changed (the caller drops its caches)
 */
bool on_schema_message(const catalog::Subscription &subscription, std::string_view prefix, std::string_view content,
                       const Boundary &boundary, Session *session = nullptr);

/*
 * To be called at the end of a publisher's transaction, when its rows are written, before the local commit. Where has_unsettled(), it needs a
 * transaction and a snapshot. Leaf.
 *
 * returns: whether it ran SQL of a decision: the local schema may have changed
 * errors:  when rows of a rewritten table went by in it and no marker said why, or a table is left without a
 * replica identity, and nobody has decided about it; explain_unsettled() then makes the refusal
 */
bool check_settled(const catalog::Subscription &subscription, const Boundary &boundary);
bool has_unsettled(TransactionId xid);
/* The transaction is given up, and read again perhaps. Leaf; raises nothing. */
void forget_unsettled();

/* Whether an ERROR was that of check_settled(), and the refusal in its place. Needs no transaction. */
bool explain_unsettled(const catalog::Subscription &subscription, const Boundary &boundary, const ErrorData *error,
                       Refused *refused);

/*
 * After a PREPARE: remembers what it found the same here and did not write itself, in a transaction of its own. forget_postponed(), when the
 * transaction is given up, raises nothing. Leaves.
 */
void save_postponed(std::int64_t subid);
void forget_postponed();

/*
 * A label of an enum cannot be used before its transaction has committed. On the publisher it had; here it is in one transaction with the row
 * that has it where the state before that row was the first to tell of it. The label is then added by itself, and the transaction tried again,
 * which finds it there. A type that is only in the transaction itself, or is called so only there, has none of it.
 *
 * errors: what the server said of a label where none could be added
 *
 * Leaves.
 */
void commit_new_labels(const catalog::Subscription &subscription);
void forget_new_labels();

/*
 * After an ERROR with worker::waits_for_copy and the abort of its transaction: says again, in a transaction of its own, which tables
 * that transaction had put on the list of those to be copied. Leaf.
 */
void save_waiting_tables(std::int64_t subid);

/* Records the refusal (one row, counted on repeats), sets state refused, NOTIFY, one log entry. Needs a
 * transaction. Leaf. */
void record_refusal(const catalog::Subscription &subscription, const Refused &refused);

/*
 * The publisher's relation as the rows need it. Lives in the given memory context.
 */
struct RelationTarget {
	Oid publisher_oid;
	Oid relid; /* the local relation; InvalidOid: its rows are not applied (not known, being copied, kept out)
	            */
	bool gone;           /* it was dropped here, and none has its name */
	bool apply_all;      /* state ready */
	XLogRecPtr sync_lsn; /* else: apply only transactions whose commit LSN is at or after it */
	int ncolumns;
	AttrNumber *publisher_attnums; /* in the order of base's columns */
	const char **names;            /* the publisher's names of them */
	bool carried; /* rewritten rows: each updates the row with its key instead of being inserted */
	bool *keys;   /* of carried: whether the column is part of the key */
	AttrNumber *local_attnums;     /* 0: not kept here (drop_column = keep leaves it out) */
	::Bitmapset *gone_columns;       /* by place: those whose local column was dropped here, and none has their name */
};

/* Finds it by the publisher's oid in schemasync.relation; nullptr when the subscription does not know it.
 * Leaf; needs a transaction. */
RelationTarget *find_relation(std::int64_t subid, Oid publisher_oid, Pass pass);

/* For a table, or columns of one, that were dropped here and made again under the publisher's name: from now on its rows go there. Leaf; needs a
 * transaction. returns: false when there is none with all of its columns, though there was one */
bool find_again(std::int64_t subid, Oid publisher_oid);


/* Takes note of a published table that is not known yet: its rows and states are passed over until a later copy has taken it up. Leaf. */
void follow_later(const catalog::Subscription &subscription, Oid publisher_oid, const char *schema, const char *name);

/*
 * Adopts the publisher's states as base when a subscription starts (initial copy, copy_schema = false,
 * refresh): creates what is missing when create is set, else checks that what is there fits, and reports
 * every difference at once as an ERROR with one line each in the DETAIL.
 *
 * states: the schemasync_describe() texts of all published relations, parents first; types: those of the
 * types, in order. Phase 1 creates schemas, types, tables (before the rows), phase 2 indexes and constraints
 * (after the rows). may_miss: which of the states are of partitions whose rows travel as their root's: without create, one that is
 * not here, or does not fit, is kept out.
 */
void adopt_states(const catalog::Subscription &subscription, const char *const *types, int ntypes,
                  const char *const *states, const bool *may_miss, int nstates, bool create, XLogRecPtr sync_lsn,
                  const char *table_state);

/*
 * The same for types that no table may need: one that is here becomes the base; with create, one that is missing is made,
 * and a WARNING tells of one that cannot be.
 */
void adopt_types(const catalog::Subscription &subscription, const char *const *types, int ntypes, bool create);

/* A state with the position that it is of (docs/wire.md, as_of); palloc'd. Leaf. */
char *state_as_of(const char *state, XLogRecPtr position);

/*
 * The indexes and constraints of a table that the copy made, now that its rows are there; without its foreign keys, whose other sides may not be.
 */
void finish_created(const catalog::Subscription &subscription, Oid publisher_oid);
/* Its foreign keys, those that can be added by now. */
void finish_foreign_keys(const catalog::Subscription &subscription, Oid publisher_oid);

/* Schemas that are missing here, made without anything in them; what stands in the way is a WARNING. */
void adopt_schemas(const catalog::Subscription &subscription, const char *const *names, int count);

/* Of which objects adopt_definitions() is to see to: all, or what lies on some tables (the publisher's oids) and what is not known. */
struct Adopted {
	bool all;
	const Oid *tables;
	int count;
};

/*
 * The same for the objects of the classes that ddl_classes names: makes what is missing when the schema is copied, and remembers which
 * object here is which of the publisher's. What is here already stays as it is until its next change on the publisher.
 *
 * texts:         DEFINITIONs (docs/wire.md), in an order in which they can be made
 * before_tables: only what tables may need, as far as it can be made by now
 * strict:        what cannot be made is an ERROR with one line each; else a WARNING, and a row of history for each: the stream
 *                brings it when it is changed
 */
void adopt_definitions(const catalog::Subscription &subscription, const char *const *texts, int count,
                       bool before_tables, XLogRecPtr position, bool strict, const Adopted &which);

} // namespace schemasync::apply
